//! Tests of the rules and of the pass.

mod instances;
mod loader;
mod soundness;
mod world;

use super::{Options, Rule, rules, simplify};
use crate::driver::Function;

/// The parameters that examples of rules may use.
const HEADER: &str = "assume n >= 1
assume m >= 3
param x : [n] real
param y : [n] real
param z : [n] real
param A : [n, n] real
param S : csr [n, n] real
param u : [m] real
";

/// The example of a rule as a program.
fn example(rule: &Rule) -> Function {
    let text = format!("{HEADER}gen i < n, j < n. {}", rule.example);
    match Function::parse(&text) {
        Ok(function) => function,
        Err(error) => panic!("{}: {error}\n{text}", rule.name),
    }
}

#[test]
fn every_rule_fires_on_its_example() {
    let mut silent = Vec::new();
    for rule in rules().unwrap() {
        let simplified = simplify(example(&rule).tensor_ssa(), &Options::default()).unwrap();
        if !simplified.report.applied.contains_key(&rule.name) {
            silent.push(format!("{}: {:?}", rule.name, simplified.report.applied));
        }
    }
    assert!(silent.is_empty(), "these rules do not fire: {silent:#?}");
}

//! Tests of the rules and of the pass.

mod changed;
mod faults;
mod guards;
mod instances;
mod loader;
mod misses;
mod soundness;
mod world;

use super::encode::encode;
use super::graph::Graph;
use super::rewrite::Rules;
use super::saturate::saturate;
use super::{Budget, Options, Rule, Tier, rules, simplify};
use crate::driver::Function;
use crate::reference::eval_tssa;
use crate::reference::{Elements, Environment, Leaf};
use crate::tensor::Relation;
use crate::tssa::Program;
use misses::near_misses;

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

/// No hints of sizes.
static NO_HINTS: std::collections::BTreeMap<String, f64> = std::collections::BTreeMap::new();

/// A body as a program.
fn program(body: &str) -> Program {
    let text = format!("{HEADER}gen i < n, j < n. {body}");
    match Function::parse(&text) {
        Ok(function) => function.tensor_ssa().clone(),
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// Whether a rule is applied to a program by some rules.
fn fires(rules: &[Rule], name: &str, program: &Program) -> bool {
    let signature = program.signature.clone();
    let mut graph = Graph::new(&signature, &NO_HINTS, Tier::Finite);
    let rules = Rules::new(rules, Tier::Finite);
    let encoded = encode(&mut graph, &rules, program).unwrap();
    let saturation = saturate(&mut graph, &rules, Budget::default(), false).unwrap();
    encoded.used.iter().any(|used| used == name) || saturation.applied.contains_key(name)
}

/// Data for the header; among the numbers are 0, negative and equal ones, and some places of the relation have no tuple.
fn environment(program: &Program, n: u64, m: u64) -> Environment<f64> {
    let mut rng = fastrand::Rng::with_seed(n * 10 + m);
    let sizes = program.signature.sizes.values().map(|name| if name == "n" { n as i64 } else { m as i64 }).collect();
    let mut numbers = |count: u64| (0..count).map(|_| f64::from(rng.i32(-3..6)) / 2.0).collect::<Vec<f64>>();
    let pairs: Vec<[usize; 2]> = (0..n as usize)
        .flat_map(|a| (0..n as usize).map(move |b| [a, b]))
        .filter(|[a, b]| (a + 2 * b) % 3 != 1)
        .collect();
    let pattern = std::sync::Arc::new(Relation::from_tuples(&[n as usize; 2], &pairs).unwrap());
    let mut leaf = |name: &str| match name {
        "A" => Leaf::dense(vec![n, n], numbers(n * n)).unwrap(),
        "S" => Leaf::sparse(pattern.clone(), numbers(pairs.len() as u64)).unwrap(),
        "u" => Leaf::dense(vec![m], numbers(m)).unwrap(),
        _ => Leaf::dense(vec![n], numbers(n)).unwrap(),
    };
    let params = program.signature.params.values().map(|param| vec![leaf(&param.name)]).collect();
    Environment { sizes, params, relations: vec![pattern] }
}

/// The values of the one result.
fn values(program: &Program, environment: &Environment<f64>) -> Vec<f64> {
    let results = eval_tssa::evaluate(program, environment, eval_tssa::Options::default()).unwrap();
    let [leaves] = results.as_slice() else { panic!("one result") };
    let [leaf] = leaves.as_slice() else { panic!("one leaf") };
    match &leaf.elements {
        Elements::Dense(values) | Elements::Sparse(_, values) => values.clone(),
    }
}

/// The sizes at which programs and simplified ones are compared.
const SIZES: [(u64, u64); 4] = [(1, 3), (2, 4), (3, 3), (4, 5)];

/// What is different about the values of a simplified body, if anything is.
fn difference(body: &str) -> Option<String> {
    difference_of(&program(body), body)
}

/// The same for a program, of which `text` tells.
fn difference_of(program: &Program, text: &str) -> Option<String> {
    let simplified = simplify(program, &Options::default()).unwrap().program;
    for (n, m) in SIZES {
        let environment = environment(program, n, m);
        let (before, after) = (values(program, &environment), values(&simplified, &environment));
        let agree = |a: f64, b: f64| !a.is_finite() || (a - b).abs() <= 1e-9 * (1.0 + a.abs());
        if before.len() != after.len() || !before.iter().zip(&after).all(|(a, b)| agree(*a, *b)) {
            return Some(format!("{text}, n = {n}, m = {m}: {before:?} became {after:?}"));
        }
    }
    None
}

#[test]
fn data_are_of_all_kinds() {
    let program = program("x[i] * y[j] * z[j] * A[i, j] * S[i, j] * u[0]");
    for (n, m) in SIZES {
        let environment = environment(&program, n, m);
        let leaves = environment.params.iter().flatten();
        let numbers: Vec<f64> = leaves.flat_map(|leaf| leaf.values().to_vec()).collect();
        let has = |kind: fn(f64) -> bool| numbers.iter().any(|x| kind(*x));
        let equal = numbers.iter().enumerate().any(|(k, x)| numbers[..k].contains(x));
        assert!(has(|x| x == 0.0) && has(|x| x < 0.0) && has(|x| x > 0.0) && equal, "n = {n}, m = {m}: {numbers:?}");
        let tuples = environment.relations[0].len();
        assert!(tuples > 0 && (n == 1 || tuples < (n * n) as usize), "n = {n}: {tuples}");
    }
}

#[test]
fn every_rule_fires_on_its_example() {
    let rules = rules().unwrap();
    let silent: Vec<&str> = rules
        .iter()
        .filter(|rule| !fires(rules, &rule.name, &program(&rule.example)))
        .map(|rule| rule.name.as_str())
        .collect();
    assert!(silent.is_empty(), "these rules do not fire: {silent:#?}");
}

#[test]
fn simplified_examples_have_the_same_values() {
    let examples = rules().unwrap().iter().filter_map(|rule| difference(&rule.example));
    let misses = near_misses().iter().filter_map(|miss| difference_of(&miss.program, &miss.text));
    let wrong: Vec<String> = examples.chain(misses).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Two guards may each be needless because of the other; one of them stays. So does one that keeps a sparse read in its pattern.
#[test]
fn guards_that_say_something_stay() {
    let bodies = [
        "[n <= 2] * (min([n >= 2] * x[1], 3) * (0 + [n >= 2] * x[1])) + [n >= 3] * y[j]",
        "[exists k < n. S?(i, k) and k = j] * S.value(i, j)",
        "let t = gen k < n, l < n. [exists p < n. S?(k, p) and p = l] * exp(S.value(k, l)) in sum k < n. [exists p < n. S?(i, p) and p = k] * t[i, k]",
        "let t = gen k < n. [n >= 3] * exp(x[k]) in let s = gen k < n. [n >= 3] * y[k] in t[i] * s[j]",
        // What holds for an index of the reader says nothing of the summed index with its number.
        "[i = 1] * (sum k < n. [k >= 1] * y[k]) * sign(x[i])",
        // Of the guards of two factors one stays, though each is reason enough for the other to go.
        "[n <= 2] * ([n <= 2] * (2 * ([n <= 2] * x[0])) * ([n <= 2] * y[0]))",
        // Neither is the guard of a tensor a reason for itself.
        "(let t = gen k < n. sum l < n. [n <= 2] * x[l] in [n <= 2] * t[i] * t[i]) + y[j]",
        // What a guard is split into keeps the reads of sparse parameters inside of their patterns.
        "[S?(i, 1) and S?(0, i)] * S.value(i, 1) * S.value(0, i) * (sum k < 3. [k != 0] * real(n))",
    ];
    for body in bodies {
        let simplified = simplify(&program(body), &Options::default()).unwrap().program;
        let guarded = simplified.stmts.values().any(|stmt| stmt.rhs.guards().any(|p| !p.is_true()));
        assert!(guarded, "{body} became\n{simplified}");
        assert_eq!(difference(body), None);
    }
}

/// Guards and empty sums hide what is not finite; no rule may let it out.
#[test]
fn what_a_guard_hides_stays_hidden() {
    let bodies = [
        "[i != j] * (1 / (x[i] - x[j] + real(i - j))) * y[j] + [i != j] * (1 / (x[i] - x[j] + real(i - j))) * z[j]",
        "[i != j] * (1 / real(i - j)) * y[j] + [i < j] * (1 / real(i - j)) * z[j]",
        "sum k < n. [i < k] * ln(real(n - 1 - i)) * y[k]",
        "sum k < n - 1. ln(real(n - 1)) * y[i]",
        "sum k < n - 1. y[k] / real(n - 1)",
        "sum k < n. [k < i] * (1 / real(i)) * y[j]",
        "(sum k < n. [k < i] * y[k]) * x[i] + sum k < n. [k < i] * y[k] / real(i)",
    ];
    let wrong: Vec<String> = bodies.iter().filter_map(|body| difference(body)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

//! Near misses: programs that differ in one thing from what a rule looks for, so it must not fire.

use std::sync::LazyLock;

use super::{fires, program};
use crate::simplify::rule::{Arg, Binder, Head, Integer, Linear, Meta, Pattern, PredPattern};
use crate::simplify::{Mode, Rule, rules};
use crate::tssa::{self, Program};

/// A program on which a rule must not fire.
pub(super) struct Miss {
    pub(super) rule: String,
    pub(super) text: String,
    pub(super) program: Program,
}

/// All near misses: those of the file, and a sum of many terms, which a body cannot have at once.
pub(super) fn near_misses() -> &'static [Miss] {
    static MISSES: LazyLock<Vec<Miss>> = LazyLock::new(|| {
        let lines = include_str!("near_misses.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let of_line = |line: &str| {
            let Some((rule, body)) = line.split_once('|') else { panic!("{line}") };
            Miss { rule: rule.trim().to_owned(), text: body.trim().to_owned(), program: program(body) }
        };
        let long = Miss { rule: "sum-merge".to_owned(), text: "a sum of nine terms".to_owned(), program: sum_of(9) };
        lines.map(of_line).chain([long]).collect()
    });
    &MISSES
}

/// `y[i] + t[i]`, where `t` is a sum of many terms. A statement adds two tensors, and it takes rules to make one sum of several such. But sums
/// under a guard that is a union are one from the beginning.
fn sum_of(terms: usize) -> Program {
    let guard = "[i = 0 or i = 1]";
    let mut text = "x = input x : [n] real\ny = input y : [n] real\nt1 = gen i < n. exp(x[i])\n".to_owned();
    for k in 2..=terms {
        let before = k - 1;
        text += &format!("f{k} = gen i < n. {guard} * x[i]^{k}\n");
        text += &format!("t{k} = gen i < n. {guard} * t{before}[i] + {guard} * f{k}[i]\n");
    }
    text += &format!("s = gen i < n. y[i] + t{terms}[i]\nout value = s");
    let signature = program("x[i]").signature;
    tssa::parse(&text, &signature).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// All rules, with one in the place of that of its name.
pub(super) fn among_all(rule: &Rule) -> Vec<Rule> {
    let replaced = |other: &Rule| if other.name == rule.name { rule.clone() } else { other.clone() };
    rules().unwrap().iter().map(replaced).collect()
}

/// Whether a rule fires on a program, by itself or among all. By itself there is none that is quicker, and among all there are the
/// forms that others lead to. Normal forms are there in both cases.
pub(super) fn hits(rule: &Rule, program: &Program) -> bool {
    let all = among_all(rule);
    let is_needed = |other: &&Rule| other.mode == Mode::Normal || other.name == rule.name;
    let alone: Vec<Rule> = all.iter().filter(is_needed).cloned().collect();
    fires(&alone, &rule.name, program) || fires(&all, &rule.name, program)
}

/// Whether a left-hand side asks for more than its form: which functions there are, and how many parts.
#[derive(Default)]
struct Demands {
    found: bool,
    /// The metavariables that occurred, but for what others are applied to.
    seen: Vec<Meta>,
    /// The indices around.
    bound: Vec<Meta>,
}

impl Demands {
    /// Twice the same.
    fn meet(&mut self, meta: Meta) {
        self.found |= self.seen.contains(&meta);
        self.seen.push(meta);
    }

    /// That an index does not occur.
    fn applied(&mut self, meta: Meta, args: &[Arg]) {
        self.meet(meta);
        let has =
            |i: Meta| args.iter().any(|arg| matches!(arg, Arg::Linear(Linear::Meta(j)) | Arg::Indices(j) if *j == i));
        self.found |= self.bound.iter().any(|i| !has(*i));
    }

    fn pattern(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Meta(meta, args) => self.applied(*meta, args),
            Pattern::Number(_) => self.found = true,
            Pattern::Literal(meta) | Pattern::Read(meta) => self.meet(*meta),
            Pattern::Real(a) => self.linear(a),
            Pattern::Product { binders, guard, factors } => {
                let outside = self.bound.len();
                for binder in binders {
                    let (Binder::One(i, _) | Binder::Many(i)) = binder;
                    self.meet(*i);
                    self.bound.push(*i);
                    if let Binder::One(_, n) = binder {
                        self.linear(n);
                    }
                }
                guard.iter().for_each(|p| self.pred(p));
                factors.iter().for_each(|e| self.pattern(e));
                self.bound.truncate(outside);
            }
            Pattern::Sum(es) => es.iter().for_each(|e| self.pattern(e)),
            Pattern::Apply(head, es) => {
                match head {
                    Head::Fixed(_) => {}
                    Head::Power(Integer::Meta(meta)) | Head::Meta(meta) => self.meet(*meta),
                    Head::Power(_) => self.found = true,
                }
                es.iter().for_each(|e| self.pattern(e));
            }
            Pattern::Element(e) => self.pattern(e),
        }
    }

    fn linear(&mut self, a: &Linear) {
        match a {
            Linear::Meta(meta) => self.meet(*meta),
            _ => self.found = true,
        }
    }

    fn pred(&mut self, p: &PredPattern) {
        match p {
            PredPattern::Meta(meta, args) => self.applied(*meta, args),
            _ => self.found = true,
        }
    }
}

/// Whether something may be near what a rule looks for: it has a condition, or its left-hand side has the same metavariable twice, a number,
/// a comparison, or a part that an index around does not occur in.
fn can_be_missed(rule: &Rule) -> bool {
    let mut demands = Demands { found: !rule.conditions.is_empty(), ..Demands::default() };
    demands.pattern(&rule.lhs);
    demands.found
}

#[test]
fn no_rule_fires_on_its_near_misses() {
    let mut wrong: Vec<String> = Vec::new();
    for miss in near_misses() {
        let rule = rules().unwrap().iter().find(|rule| rule.name == miss.rule);
        let Some(rule) = rule else { panic!("there is no rule `{}`", miss.rule) };
        if hits(rule, &miss.program) {
            wrong.push(format!("{}: {}", miss.rule, miss.text));
        }
    }
    assert!(wrong.is_empty(), "these fire: {wrong:#?}");
}

#[test]
fn rules_that_can_be_missed_have_near_misses() {
    let has = |rule: &Rule| near_misses().iter().any(|miss| miss.rule == rule.name);
    let without: Vec<&str> = rules()
        .unwrap()
        .iter()
        .filter(|rule| can_be_missed(rule) && !has(rule))
        .map(|rule| rule.name.as_str())
        .collect();
    assert!(without.is_empty(), "these have no near miss: {without:#?}");
}

/// One term less, and the sum is merged.
#[test]
fn sums_of_eight_terms_are_merged() {
    assert!(fires(rules().unwrap(), "sum-merge", &sum_of(8)));
}

/// Functions alone cannot be missed nearly; each demand can.
#[test]
fn demands_are_found() {
    let text = |lhs: &str, condition: &str| {
        format!("# c\nrule x explore finite\n  {lhs}\n  => 0\n{condition}  example x[i]\n")
    };
    let of = |text: &str| can_be_missed(&crate::simplify::read("f", text).unwrap()[0]);
    for lhs in ["exp(a)", "exp(a) * e", "max(a, b)", "sum i < n. a(i)", "sum i < n, I. [p(i, I)] * c * a(i, I)", "f(a)"]
    {
        assert!(!of(&text(lhs, "")), "{lhs}");
    }
    for lhs in [
        "max(a, a)",
        "a^k * b^k",
        "exp(a) + 1",
        "a^2",
        "sum i < n. a",
        "sum i < n. [p] * a(i)",
        "sum i < n, I. a(i)",
        "sum i < n. real(i) * a(i)",
        "(sum i < n. a(i)) * (sum j < n. b(j))",
        "[i = s] * a(i)",
    ] {
        assert!(of(&text(lhs, "")), "{lhs}");
    }
    assert!(of(&text("exp(a)", "  where total(a)\n")));
}

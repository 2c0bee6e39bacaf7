//! Every rule by itself: random instances of the left-hand side against the oracle.

use std::collections::BTreeMap;

use super::instances::Source;
use super::world::{Approx, Bits, Numbers, Oracle, Scalar, World, free_in_either, signature};
use crate::index::Pred;
use crate::reference::Field;
use crate::simplify::conditions::Name;
use crate::simplify::expr::Expr;
use crate::simplify::graph::{Graph, Scope};
use crate::simplify::instantiate::instantiate;
use crate::simplify::matching::{Goal, Subject, matches};
use crate::simplify::rewrite::results;
use crate::simplify::rule::{Pattern, Rule, Tier};
use crate::simplify::rules;

/// What was compared for one rule.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checked {
    /// Pairs of both sides under random values.
    pub(super) instances: usize,
    /// Those whose sides are one expression, since the form of expressions knows the rule. They say nothing; rewritings are never so.
    pub(super) same: usize,
    /// Results of matching and rewriting.
    pub(super) rewritings: usize,
    /// Points at which values were compared.
    pub(super) points: usize,
}

/// How much to check.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    pub(super) instances: usize,
    pub(super) rewritings: usize,
    pub(super) attempts: usize,
}

pub(super) const USUAL: Effort = Effort { instances: 250, rewritings: 120, attempts: 48_000 };

/// Worlds of all sizes from 0 to 3, and of one at which a number that is added up is rounded otherwise than a multiple of it.
fn worlds(rng: &mut fastrand::Rng, numbers: Numbers) -> BTreeMap<(i64, i64), Vec<World>> {
    let rounded = (numbers == Numbers::Rough).then_some((6, 6));
    let sizes = (0..4).flat_map(|n| (0..4).map(move |m| (n, m))).chain(rounded);
    sizes.map(|(n, m)| ((n, m), (0..4).map(|_| World::random(rng, n, m, numbers)).collect())).collect()
}

struct Judge {
    rng: fastrand::Rng,
    tier: Tier,
    worlds: BTreeMap<(i64, i64), Vec<World>>,
    points: usize,
    /// Among other factors literals are folded, so the last bits may differ.
    folded: bool,
    /// A literal on the right is rounded, so the sides differ modulo a prime.
    rounded: bool,
}

impl Judge {
    fn new(rule: &Rule) -> Self {
        let tier = rule.tier;
        let rounded = rule.conditions.iter().any(|condition| condition.name == Name::Ratio);
        let mut rng = fastrand::Rng::with_seed(42);
        let numbers = if tier == Tier::Finite { Numbers::All } else { Numbers::Rough };
        let worlds = worlds(&mut rng, numbers);
        Judge { rng, tier, worlds, points: 0, folded: false, rounded }
    }

    /// Compares two expressions at all places, for all sizes; how many points could be compared.
    fn compare(&mut self, graph: &Graph<'_>, scope: &Scope, left: &Expr, right: &Expr) -> Result<usize, String> {
        let scope = free_in_either(scope, left, right);
        let mut points = 0;
        for worlds in self.worlds.values() {
            let world = &worlds[self.rng.usize(0..worlds.len())];
            for mut at in world.places(&scope) {
                let strict = Oracle { world, graph, lenient: false, annihilates: false };
                let lenient = Oracle { world, graph, lenient: true, annihilates: self.tier == Tier::Finite };
                let complaint = if self.tier == Tier::Finite {
                    let (a, b) = (strict.value::<Approx>(left, &mut at), lenient.value::<Approx>(right, &mut at));
                    let Some(complaint) = nearly(a, b) else { continue };
                    let exact = strict.value::<Field>(left, &mut at);
                    let same = || lenient.value::<Field>(right, &mut at.clone()).or(Field::number(0.0)) == exact;
                    complaint
                        .or_else(|| (exact.is_some() && !self.rounded && !same()).then(|| "modulo a prime".to_owned()))
                } else {
                    let (a, b) = (strict.value::<Bits>(left, &mut at), lenient.value::<Bits>(right, &mut at));
                    let rounded = self.folded || without_order(left) || without_order(right);
                    let Some(complaint) = bits(self.tier, self.folded, rounded, a, b) else { continue };
                    complaint
                };
                points += 1;
                if let Some(complaint) = complaint {
                    return Err(format!("{complaint} at {at:?} in {world:?}\n  left  {left:?}\n  right {right:?}"));
                }
            }
        }
        self.points += points;
        Ok(points)
    }
}

/// Whether the values agree up to rounding; nothing where the left one says nothing.
fn nearly(left: Option<Approx>, right: Option<Approx>) -> Option<Option<String>> {
    let a = left.filter(|a| a.value.is_finite())?;
    let b = right.unwrap_or(Approx { value: 0.0, error: 0.0 });
    // What the left side masks must not get out, whatever it is.
    if !b.value.is_finite() && a.error <= 1e-7 * (1.0 + a.value.abs()) {
        return Some(Some(format!("{a:?} became {b:?}")));
    }
    let error = a.error + b.error;
    let blurred = !error.is_finite() || error > 1e-7 * (1.0 + a.value.abs());
    if blurred && b.value.is_finite() || a.value.abs() > 1e100 {
        return None;
    }
    // A value at the edge of what floats can tell says nothing.
    if blurred && a.error > 0.0 {
        return None;
    }
    let agree = (a.value - b.value).abs() <= error.max(1e-250);
    Some((!agree).then(|| format!("{a:?} became {b:?}")))
}

fn bits(tier: Tier, folded: bool, rounded: bool, left: Option<Bits>, right: Option<Bits>) -> Option<Option<String>> {
    let a = left?.0;
    let b = right.map_or(0.0, |b| b.0);
    // Among other factors and terms guards join, which makes 0 of NaN, and a term 0 goes, which decides the sign of zero.
    if folded && a.is_nan() {
        return None;
    }
    let zeros = (folded || tier == Tier::SignedZero) && a == 0.0 && b == 0.0;
    let close = rounded && a != 0.0 && (a - b).abs() <= a.abs() * 1e-15;
    let agree = a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan() || zeros || close;
    Some((!agree).then(|| format!("{a:?} became {b:?}")))
}

/// Whether a pattern asks for elements of classes, which an instance by itself cannot show.
fn about_elements(pattern: &Pattern) -> bool {
    match pattern {
        Pattern::Element(_) | Pattern::Read(_) => true,
        Pattern::Meta(..) | Pattern::Number(_) | Pattern::Literal(_) | Pattern::Real(_) => false,
        Pattern::Product { factors: es, .. } | Pattern::Sum(es) | Pattern::Apply(_, es) => {
            es.iter().any(about_elements)
        }
    }
}

/// Checks a rule.
pub(super) fn check(rule: &Rule, effort: Effort) -> Result<Checked, String> {
    let signature = signature();
    let mut graph = Graph::new(&signature, &super::NO_HINTS, Tier::Finite);
    let mut judge = Judge::new(rule);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut checked = Checked::default();
    let elements = about_elements(&rule.lhs);
    let done = |checked: &Checked| {
        (elements || checked.instances >= effort.instances) && checked.rewritings >= effort.rewritings
    };
    for _ in 0..effort.attempts {
        if done(&checked) {
            break;
        }
        if graph.egraph.total_number_of_nodes() > 4000 {
            graph = Graph::new(&signature, &super::NO_HINTS, Tier::Finite);
        }
        let mut source = Source { rng: &mut rng, graph: &mut graph };
        let outer = source.scope();
        let subject = if elements {
            source.with_elements(&outer)
        } else {
            let Some((mut bindings, scope)) = source.bindings(rule, &outer) else { continue };
            let Some(left) = instantiate(&mut graph, &scope, &rule.lhs, &bindings) else { continue };
            let mut holds = true;
            for condition in &rule.conditions {
                holds = holds
                    && condition
                        .check(&mut graph, &scope, &Pred::True, &mut bindings)
                        .map_err(|error| format!("{:?}: {error}", condition.name))?;
            }
            if holds
                && checked.instances < effort.instances
                && let Some(right) = instantiate(&mut graph, &scope, &rule.rhs, &bindings)
                && plain(&left)
                && !has_zero(&right)
            {
                judge.folded = false;
                let found = judge.compare(&graph, &outer, &left, &right)?;
                checked.instances += usize::from(found > 0);
                checked.same += usize::from(found > 0 && left.same(&right));
            }
            left
        };
        if checked.rewritings >= effort.rewritings || !plain(&subject) {
            continue;
        }
        // The matcher on the instance as it is, in parts, and among others.
        let mut source = Source { rng: &mut rng, graph: &mut graph };
        let subject = match source.rng.u8(0..3) {
            0 => subject,
            1 => source.closed_in_part(&outer, &subject),
            _ => {
                let subject = source.closed_in_part(&outer, &subject);
                source.in_context(&outer, subject)
            }
        };
        let goal = Goal::of(&[rule]).ok_or("no rule")?;
        let mut ways = matches(&mut graph, &goal, &Subject::new(&subject, true)).map_err(|error| error.to_string())?;
        let results = results(&mut graph, rule, &outer, &subject, &mut ways).map_err(|error| error.to_string())?;
        judge.folded = true;
        for result in results.iter().take(4) {
            let found =
                judge.compare(&graph, &outer, &subject, result).map_err(|message| format!("by matching: {message}"))?;
            checked.rewritings += usize::from(found > 0);
        }
    }
    checked.points = judge.points;
    Ok(checked)
}

/// Whether a product has the factor 0. It is 0 before anything is made of it, so its guards say nothing.
fn has_zero(e: &Expr) -> bool {
    match e {
        Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => false,
        Expr::Product(product) => product.factors.iter().any(|f| f.as_number() == Some(0.0) || has_zero(f)),
        Expr::Sum(es) | Expr::Apply(_, es) => es.iter().any(has_zero),
    }
}

/// Whether targets of maps occur in reads only.
fn plain(e: &Expr) -> bool {
    match e {
        Expr::Number(_) | Expr::Read(_) => true,
        Expr::Index(a) => !a.applies_map(),
        Expr::Product(product) => !product.guard.applies_map() && product.factors.iter().all(plain),
        Expr::Sum(es) | Expr::Apply(_, es) => es.iter().all(plain),
    }
}

/// Whether it depends on the order of terms or factors, which expressions do not have, how a value is rounded.
fn without_order(e: &Expr) -> bool {
    match e {
        Expr::Number(_) | Expr::Index(_) | Expr::Read(_) => false,
        Expr::Product(product) => {
            product.sums.len() > 1 || product.factors.len() > 2 || product.factors.iter().any(without_order)
        }
        Expr::Sum(es) => es.len() > 2 || es.iter().any(without_order),
        Expr::Apply(_, es) => es.iter().any(without_order),
    }
}

/// What a check must have compared for its silence to mean something.
pub(super) fn enough(rule: &Rule, checked: &Checked) -> bool {
    let instances = if about_elements(&rule.lhs) { 0 } else { 200 };
    checked.instances >= instances && checked.rewritings >= 100 && checked.points >= 1000
}

#[test]
fn every_rule_is_sound() {
    let mut wrong = Vec::new();
    println!("{:22} {:>9} {:>5} {:>10} {:>7}", "rule", "instances", "same", "rewritings", "points");
    for rule in rules().unwrap() {
        match check(rule, USUAL) {
            Ok(checked) => {
                let Checked { instances, same, rewritings, points } = checked;
                println!("{:22} {instances:9} {same:5} {rewritings:10} {points:7}", rule.name);
                if !enough(rule, &checked) {
                    wrong.push(format!("{}: too little could be checked: {checked:?}", rule.name));
                }
            }
            Err(message) => wrong.push(format!("{}: {message}", rule.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is closed can be evaluated by itself, at every place of its box: it reads nothing outside of axes and patterns, and has the value of what
/// was closed, in which such reads are zero.
#[test]
fn classes_have_values_everywhere() {
    let signature = signature();
    let mut graph = Graph::new(&signature, &super::NO_HINTS, Tier::Finite);
    let mut rng = fastrand::Rng::with_seed(8);
    let worlds = worlds(&mut rng, Numbers::Finite);
    let (mut points, mut compared) = (0, 0);
    for case in 0..1500 {
        if graph.egraph.total_number_of_nodes() > 4000 {
            graph = Graph::new(&signature, &super::NO_HINTS, Tier::Finite);
        }
        let mut source = Source { rng: &mut rng, graph: &mut graph };
        let scope = source.scope();
        let depth = 1 + case % 3;
        let e = source.expr(&scope, depth);
        if matches!(e, Expr::Number(_) | Expr::Index(_) | Expr::Read(_)) || !plain(&e) {
            continue;
        }
        let closed = graph.close(&scope, &e).unwrap();
        for world in worlds.values().flat_map(|worlds| worlds.first()) {
            for mut at in world.places(&scope) {
                let oracle = |lenient| Oracle { world, graph: &graph, lenient, annihilates: false };
                let after = oracle(false).value::<Bits>(&closed, &mut at);
                let Some(Bits(after)) = after else { panic!("no value at {at:?} in {world:?}\n  {e:?}\n  {closed:?}") };
                points += 1;
                if let Some(Bits(before)) = oracle(true).value::<Bits>(&e, &mut at)
                    && before.is_finite()
                {
                    let same = (before - after).abs() <= 1e-9 * (1.0 + before.abs());
                    assert!(same, "{before} became {after} at {at:?} in {world:?}\n  {e:?}\n  {closed:?}");
                    compared += 1;
                }
            }
        }
    }
    println!("{points} points, {compared} compared");
    assert!(compared > 10_000, "{compared} of {points}");
}

#[test]
fn the_oracle_decides_guards_as_the_index_language_does() {
    let signature = signature();
    let mut graph = Graph::new(&signature, &super::NO_HINTS, Tier::Finite);
    let mut rng = fastrand::Rng::with_seed(5);
    let mut worlds = fastrand::Rng::with_seed(6);
    let mut seen = [0; 2];
    for _ in 0..400 {
        let mut source = Source { rng: &mut rng, graph: &mut graph };
        let scope = source.scope();
        let p = source.pred(&scope);
        let (n, m) = (worlds.i64(0..4), worlds.i64(0..4));
        let world = World::random(&mut worlds, n, m, Numbers::Finite);
        for mut at in world.places(&scope) {
            let truth = world.truth(&p, &mut at);
            assert_eq!(crate::solver::holds(&p, &world, &at), Ok(truth), "{p:?} at {at:?}");
            seen[usize::from(truth)] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 300), "{seen:?}");
}

/// What is left of a predicate is true where it is, also where sources of maps are out of range: then no atom that applies them is.
#[test]
fn what_is_left_of_guards_is_what_they_say() {
    let signature = signature();
    let mut graph = Graph::new(&signature, &super::NO_HINTS, Tier::Finite);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut worlds = fastrand::Rng::with_seed(8);
    let (mut shorter, mut without_target) = (0, 0);
    for _ in 0..1500 {
        let mut source = Source { rng: &mut rng, graph: &mut graph };
        let scope = source.scope();
        let (given, p) = (source.pred_of_maps(&scope), source.pred_of_maps(&scope));
        let left = graph.given(&scope, &given, &p).unwrap();
        shorter += usize::from(left != p);
        for (n, m) in (0..4).flat_map(|n| (0..3).map(move |m| (n, m))) {
            let world = World::random(&mut worlds, n, m, Numbers::Finite);
            for mut at in world.places(&scope) {
                if !world.truth(&given, &mut at) {
                    continue;
                }
                let truth = world.truth(&p, &mut at);
                p.visit_affine(&mut |a| without_target += usize::from(world.affine(a, &at).is_none()));
                assert_eq!(
                    world.truth(&left, &mut at),
                    truth,
                    "{p:?} given {given:?} is not {left:?} at {at:?}, {n}, {m}"
                );
            }
        }
    }
    assert!(shorter > 300 && without_target > 1000, "{shorter} {without_target}");
}

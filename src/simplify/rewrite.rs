//! Applying rules to expressions.
//!
//! `normalise(e)` applies the rules of mode *normal*, innermost first, until none changes anything. They lower a measure (sums, guards and
//! factors of the expression), and their number is bounded besides.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::conditions::parity;
use super::expr::{Expr, Product, Read};
use super::graph::{Graph, Scope};
use super::instantiate::instantiate;
use super::matching::{Context, Goal, Match, Subject, matches};
use super::rule::{Mode, Rule, Tier};
use crate::base::work;
use crate::error::Result;
use crate::index::Pred;
use crate::scalar::{Function, Parity};

/// How many rules one expression may be rewritten by while it is normalised.
const MAX_STEPS: usize = 60;

/// How many views are looked through.
const MAX_VIEWS: usize = 32;

/// The step from a read to what is read, where that is a number or elements of another tensor, perhaps under a guard.
pub(super) const DEFINITION: &str = "definition";

/// The step from a read to the same one with its places in order.
pub(super) const SYMMETRY: &str = "symmetry";

/// An argument of a function, which is a number or a read, with its places in order: a sign would need work, and an even function drops it.
fn ordered_argument(graph: &Graph<'_>, function: Function, e: Expr, used: &mut Vec<&str>) -> Expr {
    let Expr::Read(read) = &e else { return e };
    match graph.ordered(read) {
        Some((ordered, negative)) if !negative || parity(function) == Some(Parity::Even) => {
            used.push(SYMMETRY);
            Expr::Read(ordered)
        }
        _ => e,
    }
}

/// The rules in force.
pub(super) struct Rules<'r> {
    normal: Vec<Group<'r>>,
    /// Those of the e-graph.
    pub(super) graph: Vec<Group<'r>>,
    /// What expressions become under the indices around, and by which rules, where no class had a say in it: classes are but names then, and
    /// this holds in any e-graph of the signature.
    known: RefCell<FxHashMap<(Scope, Expr), Normal<'r>>>,
}

/// An expression in normal form, and the rules that led to it.
type Normal<'r> = (Expr, SmallVec<[&'r str; 2]>);

/// Neighbouring rules with the same left-hand side, which is looked for once.
pub(super) struct Group<'r> {
    pub(super) goal: Goal<'r>,
    pub(super) rules: Vec<&'r Rule>,
}

fn groups<'r>(rules: &[&'r Rule]) -> Vec<Group<'r>> {
    let alike = rules.chunk_by(|a, b| a.lhs == b.lhs);
    alike.filter_map(|rules| Some(Group { goal: Goal::of(rules)?, rules: rules.to_vec() })).collect()
}

impl<'r> Rules<'r> {
    /// Those that hold at least as far as a tier says.
    pub(super) fn new(rules: &'r [Rule], tier: Tier) -> Self {
        let (normal, graph): (Vec<&Rule>, Vec<&Rule>) =
            rules.iter().filter(|rule| rule.tier <= tier).partition(|rule| rule.mode == Mode::Normal);
        Rules { normal: groups(&normal), graph: groups(&graph), known: RefCell::default() }
    }

    /// The expression in normal form. Names of the rules that changed it are appended to `used`.
    pub(super) fn normalise(
        &self,
        graph: &mut Graph<'_>,
        scope: &Scope,
        e: &Expr,
        used: &mut Vec<&'r str>,
    ) -> Result<Expr> {
        if matches!(e, Expr::Number(_) | Expr::Index(_) | Expr::Read(_)) || !graph.reads_as_they_are(e) {
            return self.normalise_anew(graph, scope, e, used);
        }
        let question = (scope.clone(), e.clone());
        if let Some((normal, rules)) = self.known.borrow().get(&question) {
            used.extend(rules);
            return Ok(normal.clone());
        }
        let (state, first) = (graph.state(), used.len());
        let normal = self.normalise_anew(graph, scope, e, used)?;
        if graph.state() == state {
            let rules = used.iter().skip(first).copied().collect();
            self.known.borrow_mut().insert(question, (normal.clone(), rules));
        }
        Ok(normal)
    }

    fn normalise_anew(&self, graph: &mut Graph<'_>, scope: &Scope, e: &Expr, used: &mut Vec<&'r str>) -> Result<Expr> {
        let mut e = self.normalise_parts(graph, scope, e, None, used)?;
        let mut steps = 0;
        loop {
            let Some((name, next)) = self.first(graph, scope, &e)? else { return Ok(e) };
            used.push(name);
            e = self.normalise_parts(graph, scope, &next, Some(&e), used)?;
            steps += 1;
            if steps > MAX_STEPS || work::is_used_up() {
                return Ok(e);
            }
        }
    }

    /// The same for an expression whose parts are in normal form.
    fn normalise_top(&self, graph: &mut Graph<'_>, scope: &Scope, e: Expr, used: &mut Vec<&'r str>) -> Result<Expr> {
        let mut e = e;
        for _ in 0..MAX_STEPS {
            if !matches!(e, Expr::Product(_)) || work::is_used_up() {
                break;
            }
            let Some((name, next)) = self.first(graph, scope, &e)? else { break };
            used.push(name);
            e = next;
        }
        Ok(e)
    }

    /// An expression with its parts in normal form. Those of `settled`, an expression that was just made so, are not looked at again.
    fn normalise_parts(
        &self,
        graph: &mut Graph<'_>,
        scope: &Scope,
        e: &Expr,
        settled: Option<&Expr>,
        used: &mut Vec<&'r str>,
    ) -> Result<Expr> {
        Ok(match e {
            Expr::Number(_) | Expr::Index(_) => e.clone(),
            Expr::Read(read) => self.read(graph, scope, read, used)?,
            Expr::Product(product) => {
                let inner: Scope = scope.iter().chain(&product.sums).cloned().collect();
                let settled = match settled {
                    Some(Expr::Product(known)) if known.sums == product.sums => known.factors.as_slice(),
                    _ => &[],
                };
                let factors = self.each(graph, &inner, &product.factors, settled, used)?;
                Expr::product(product.sums.clone(), product.guard.clone(), factors)
            }
            Expr::Sum(terms) => {
                let settled: &[Expr] = match settled {
                    Some(Expr::Sum(known)) => known,
                    _ => &[],
                };
                Expr::sum(self.each(graph, scope, terms, settled, used)?)
            }
            Expr::Apply(function, args) => {
                let args = args.iter().map(|e| match e {
                    Expr::Read(read) => {
                        let viewed = graph.viewed(read.clone())?;
                        if !matches!(&viewed, Expr::Read(same) if same.class == graph.egraph.find(read.class)) {
                            used.push(DEFINITION);
                        }
                        Ok(ordered_argument(graph, *function, viewed, used))
                    }
                    e => self.normalise(graph, scope, e, used),
                });
                let args = args.collect::<Result<_>>()?;
                Expr::Apply(*function, args)
            }
        })
    }

    fn each(
        &self,
        graph: &mut Graph<'_>,
        scope: &Scope,
        parts: &[Expr],
        settled: &[Expr],
        used: &mut Vec<&'r str>,
    ) -> Result<Vec<Expr>> {
        let normal = |e: &Expr| match settled.contains(e) {
            true => Ok(e.clone()),
            false => self.normalise(graph, scope, e, used),
        };
        parts.iter().map(normal).collect()
    }

    /// A read as what it is without any work.
    fn read(&self, graph: &mut Graph<'_>, scope: &Scope, read: &Read, used: &mut Vec<&'r str>) -> Result<Expr> {
        let mut read = read.clone();
        let mut guard = Pred::True;
        // Views may go in circles: a tensor is its own part where it is not zero.
        let mut seen = Vec::new();
        for _ in 0..MAX_VIEWS {
            read.class = graph.egraph.find(read.class);
            let product = match graph.view(&read)? {
                None => break,
                Some(view) => view.into_product(),
            };
            if seen.is_empty() {
                used.push(DEFINITION);
            }
            seen.push(read.class);
            if let [Expr::Read(next)] = product.factors.as_slice()
                && seen.contains(&graph.egraph.find(next.class))
            {
                break;
            }
            guard = guard.and(product.guard);
            match product.factors.as_slice() {
                [Expr::Read(next)] => read = next.clone(),
                [leaf @ (Expr::Number(_) | Expr::Index(_))] => {
                    let e = Expr::product(Vec::new(), guard, vec![leaf.clone()]);
                    return self.normalise_top(graph, scope, e, used);
                }
                _ => return Ok(Expr::product(Vec::new(), guard, product.factors)),
            }
        }
        let mut factors = Vec::with_capacity(2);
        if let Some((ordered, negative)) = graph.ordered(&read) {
            used.push(SYMMETRY);
            factors.extend(negative.then(|| Expr::number(-1.0)));
            read = ordered;
        }
        factors.push(Expr::Read(read));
        self.normalise_top(graph, scope, Expr::product(Vec::new(), guard, factors), used)
    }

    /// The first rule that changes the expression, and what it becomes.
    fn first(&self, graph: &mut Graph<'_>, scope: &Scope, e: &Expr) -> Result<Option<(&'r str, Expr)>> {
        let subject = Subject::new(e, false);
        work::charge(self.normal.len());
        for group in self.normal.iter().filter(|group| group.goal.is_plausible(&subject)) {
            let mut found = matches(graph, &group.goal, &subject)?;
            if found.is_empty() {
                continue;
            }
            let around = around(scope, e);
            for rule in &group.rules {
                for one in &mut found {
                    if let Some(next) = result(graph, rule, scope, &around, e, one)? {
                        return Ok(Some((&rule.name, next)));
                    }
                }
            }
        }
        Ok(None)
    }
}

/// All that a rule makes of an expression, given the ways in which it matches.
pub(super) fn results(
    graph: &mut Graph<'_>,
    rule: &Rule,
    scope: &Scope,
    e: &Expr,
    matches: &mut [Match],
) -> Result<Vec<Expr>> {
    let mut found = Vec::new();
    let around = if matches.is_empty() { Scope::new() } else { around(scope, e) };
    for one in matches {
        if let Some(next) = result(graph, rule, scope, &around, e, one)?
            && !found.contains(&next)
        {
            found.push(next);
        }
    }
    Ok(found)
}

/// The indices of a scope and those that an expression sums over.
fn around(scope: &Scope, e: &Expr) -> Scope {
    match e {
        Expr::Product(product) => scope.iter().chain(&product.sums).cloned().collect(),
        _ => scope.clone(),
    }
}

/// What a rule makes of an expression in one of the ways in which it matches, if its conditions hold.
fn result(
    graph: &mut Graph<'_>,
    rule: &Rule,
    scope: &Scope,
    around: &Scope,
    e: &Expr,
    one: &mut Match,
) -> Result<Option<Expr>> {
    let mark = one.bindings.mark();
    let replacement = match &one.context {
        Context::Read(whole, number) => {
            let around = scope.iter().cloned().chain(whole.sums_around(*number)).collect();
            replacement(graph, rule, &around, one)?
        }
        Context::Product(_) | Context::Sum(_) => replacement(graph, rule, around, one)?,
    };
    one.bindings.undo(mark);
    let Some(replacement) = replacement else { return Ok(None) };
    let result = without_targets(graph, scope, one.context.around(replacement))?;
    Ok((well_formed(&result) && !result.same(e)).then_some(result))
}

/// The right-hand side, if the conditions hold; what they bind stays bound.
fn replacement(graph: &mut Graph<'_>, rule: &Rule, around: &Scope, one: &mut Match) -> Result<Option<Expr>> {
    for condition in &rule.conditions {
        if !condition.check(graph, around, &one.given, &mut one.bindings)? {
            return Ok(None);
        }
    }
    Ok(instantiate(graph, around, &rule.rhs, &one.bindings))
}

/// Guards cannot mention the target of a map; what the range of the map implies goes.
fn without_targets(graph: &mut Graph<'_>, scope: &Scope, e: Expr) -> Result<Expr> {
    match e {
        Expr::Product(product) if product.guard.applies_map() => {
            let Product { sums, guard, factors } = Rc::unwrap_or_clone(product);
            let inner: Scope = scope.iter().chain(&sums).cloned().collect();
            let guard = graph.given(&inner, &Pred::True, &guard)?;
            Ok(Expr::product(sums, guard, factors))
        }
        other => Ok(other),
    }
}

/// Targets of maps occur in reads only.
fn well_formed(e: &Expr) -> bool {
    match e {
        Expr::Number(_) | Expr::Read(_) => true,
        Expr::Index(a) => !a.applies_map(),
        Expr::Product(product) => !product.guard.applies_map() && product.factors.iter().all(well_formed),
        Expr::Sum(es) | Expr::Apply(_, es) => es.iter().all(well_formed),
    }
}

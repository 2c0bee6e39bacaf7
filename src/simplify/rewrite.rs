//! Applying rules to expressions.
//!
//! `normalise(e)` applies the rules of mode *normal*, innermost first, until none changes anything. They lower a measure (sums, guards and
//! factors of the expression), and their number is bounded besides.

use std::rc::Rc;

use super::expr::{Expr, Product, Read};
use super::graph::{Graph, Scope};
use super::instantiate::instantiate;
use super::matching::{Goal, Match, Subject, matches};
use super::rule::{Mode, Rule, Tier};
use crate::error::Result;
use crate::index::{Pred, Var};

/// How many rules one expression may be rewritten by while it is normalised.
const MAX_STEPS: usize = 60;

/// How many views are looked through.
const MAX_VIEWS: usize = 32;

/// The rules in force.
pub(super) struct Rules<'r> {
    normal: Vec<Group<'r>>,
    /// Those of the e-graph.
    pub(super) graph: Vec<Group<'r>>,
}

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
        Rules { normal: groups(&normal), graph: groups(&graph) }
    }

    /// The expression in normal form. Names of the rules that changed it are appended to `used`.
    pub(super) fn normalise(
        &self,
        graph: &mut Graph<'_>,
        scope: &Scope,
        e: &Expr,
        used: &mut Vec<&'r str>,
    ) -> Result<Expr> {
        let mut e = e.clone();
        let mut steps = 0;
        loop {
            e = self.normalise_parts(graph, scope, &e, used)?;
            let Some((name, next)) = self.first(graph, scope, &e)? else { return Ok(e) };
            used.push(name);
            e = next;
            steps += 1;
            if steps > MAX_STEPS {
                return Ok(e);
            }
        }
    }

    /// The same for an expression whose parts are in normal form.
    fn normalise_top(&self, graph: &mut Graph<'_>, scope: &Scope, e: Expr, used: &mut Vec<&'r str>) -> Result<Expr> {
        let mut e = e;
        for _ in 0..MAX_STEPS {
            if !matches!(e, Expr::Product(_)) {
                break;
            }
            let Some((name, next)) = self.first(graph, scope, &e)? else { break };
            used.push(name);
            e = next;
        }
        Ok(e)
    }

    fn normalise_parts(&self, graph: &mut Graph<'_>, scope: &Scope, e: &Expr, used: &mut Vec<&'r str>) -> Result<Expr> {
        Ok(match e {
            Expr::Number(_) | Expr::Index(_) => e.clone(),
            Expr::Read(read) => self.read(graph, scope, read, used)?,
            Expr::Product(product) => {
                let inner: Scope = scope.iter().chain(&product.sums).cloned().collect();
                let parts = product.factors.iter().map(|e| self.normalise(graph, &inner, e, used));
                let factors = parts.collect::<Result<_>>()?;
                Expr::product(product.sums.clone(), product.guard.clone(), factors)
            }
            Expr::Sum(terms) => {
                Expr::sum(terms.iter().map(|e| self.normalise(graph, scope, e, used)).collect::<Result<_>>()?)
            }
            Expr::Apply(function, args) => {
                let args = args.iter().map(|e| match e {
                    Expr::Read(read) => Ok(graph.viewed(read.clone())?),
                    e => self.normalise(graph, scope, e, used),
                });
                let args = args.collect::<Result<_>>()?;
                Expr::Apply(*function, args)
            }
        })
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
        self.normalise_top(graph, scope, Expr::product(Vec::new(), guard, vec![Expr::Read(read)]), used)
    }

    /// The first rule that changes the expression, and what it becomes.
    fn first(&self, graph: &mut Graph<'_>, scope: &Scope, e: &Expr) -> Result<Option<(&'r str, Expr)>> {
        let subject = Subject::new(e, false);
        for group in &self.normal {
            let found = matches(graph, &group.goal, &subject)?;
            for rule in &group.rules {
                if let Some(next) = results(graph, rule, scope, e, &found)?.into_iter().next() {
                    return Ok(Some((&rule.name, next)));
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
    matches: &[Match],
) -> Result<Vec<Expr>> {
    if matches.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let around: Scope = match e {
        Expr::Product(product) => scope.iter().chain(&product.sums).cloned().collect(),
        _ => scope.clone(),
    };
    'matches: for one in matches {
        let mut bindings = one.bindings.clone();
        for condition in &rule.conditions {
            if !condition.check(graph, &around, &one.given, &mut bindings)? {
                continue 'matches;
            }
        }
        let Some(replacement) = instantiate(graph, &around, &rule.rhs, &bindings) else { continue };
        let result = one.context.around(replacement);
        let result = without_targets(graph, scope, result)?;
        if well_formed(&result) && !result.same(e) && !found.contains(&result) {
            found.push(result);
        }
    }
    Ok(found)
}

/// Guards cannot mention the target of a map; what the range of the map implies goes.
fn without_targets(graph: &mut Graph<'_>, scope: &Scope, e: Expr) -> Result<Expr> {
    match e {
        Expr::Product(product) if mentions_target(&product.guard) => {
            let Product { sums, guard, factors } = Rc::unwrap_or_clone(product);
            let inner: Scope = scope.iter().chain(&sums).cloned().collect();
            let guard = graph.given(&inner, &Pred::True, &guard)?;
            Ok(Expr::product(sums, guard, factors))
        }
        other => Ok(other),
    }
}

fn mentions_target(p: &Pred) -> bool {
    let mut found = false;
    p.visit_affine(&mut |a| a.visit(&mut |v| found |= matches!(v, Var::Apply(_))));
    found
}

/// Targets of maps occur in reads only.
fn well_formed(e: &Expr) -> bool {
    match e {
        Expr::Number(_) | Expr::Read(_) => true,
        Expr::Index(a) => {
            let mut plain = true;
            a.visit(&mut |v| plain &= !matches!(v, Var::Apply(_)));
            plain
        }
        Expr::Product(product) => !mentions_target(&product.guard) && product.factors.iter().all(well_formed),
        Expr::Sum(es) | Expr::Apply(_, es) => es.iter().all(well_formed),
    }
}

//! Building what a pattern stands for.

use super::bindings::{Bindings, Value};
use super::expr::Expr;
use super::graph::{Graph, Scope};
use super::rule::{Arg, Binder, Head, Integer, Linear, Pattern, PredPattern};
use crate::index::{Affine, Pred};
use crate::scalar::{Function, Op};

pub(super) fn integer(e: &Integer, bindings: &Bindings) -> Option<i64> {
    match e {
        Integer::Constant(k) => Some(*k),
        Integer::Meta(meta) => match bindings.get(*meta)? {
            Value::Integer(k) => Some(*k),
            _ => None,
        },
        Integer::Add(a, b) => integer(a, bindings)?.checked_add(integer(b, bindings)?),
        Integer::Mul(a, b) => integer(a, bindings)?.checked_mul(integer(b, bindings)?),
    }
}

pub(super) fn linear(e: &Linear, bindings: &Bindings) -> Option<Affine> {
    match e {
        Linear::Constant(k) => Some(Affine::constant(*k)),
        Linear::Meta(meta) => match bindings.get(*meta)? {
            Value::Index(i) => Some(Affine::index(*i)),
            Value::Affine(a) => Some(a.clone()),
            Value::Integer(k) => Some(Affine::constant(*k)),
            _ => None,
        },
        Linear::Add(a, b) => linear(a, bindings)?.add(&linear(b, bindings)?).ok(),
        Linear::Scaled(k, a) => linear(a, bindings)?.scale(*k).ok(),
    }
}

/// What a pattern stands for under bindings; nothing where a metavariable has no value or a number leaves its range.
pub(super) fn instantiate(
    graph: &mut Graph<'_>,
    scope: &Scope,
    pattern: &Pattern,
    bindings: &Bindings,
) -> Option<Expr> {
    Some(match pattern {
        Pattern::Meta(meta, args) => {
            let Value::Expr(params, body) = bindings.get(*meta)? else { return None };
            // A body that stands in two places must not bind the same index twice.
            let body = body.refresh(&mut || graph.fresh()).ok()?;
            let values = arguments(args, bindings)?;
            body.substitute(&|i| params.iter().position(|p| *p == i).and_then(|at| values.get(at).cloned())).ok()?
        }
        Pattern::Number(x) => Expr::number(*x),
        Pattern::Literal(meta) => match bindings.get(*meta)? {
            Value::Literal(x) => Expr::number(*x),
            _ => return None,
        },
        Pattern::Real(a) => Expr::index(linear(a, bindings)?),
        Pattern::Product { binders, guard, factors } => {
            let mut sums = Vec::new();
            for binder in binders {
                match binder {
                    Binder::One(meta, extent) => match bindings.get(*meta)? {
                        Value::Index(i) => sums.push((*i, linear(extent, bindings)?)),
                        _ => return None,
                    },
                    Binder::Many(meta) => match bindings.get(*meta)? {
                        Value::Indices(list) => sums.extend(list.iter().cloned()),
                        _ => return None,
                    },
                }
            }
            let mut guard = guard.iter().map(|p| predicate(p, bindings)).collect::<Option<Vec<_>>>()?;
            let factors = factors.iter().map(|f| instantiate(graph, scope, f, bindings)).collect::<Option<Vec<_>>>()?;
            let factors = match factors.len() {
                0 | 1 => factors,
                _ => factors.into_iter().map(|f| without_outer_guard(f, &mut guard)).collect(),
            };
            Expr::product(sums, Pred::all(guard), factors)
        }
        Pattern::Sum(terms) => {
            Expr::sum(terms.iter().map(|t| instantiate(graph, scope, t, bindings)).collect::<Option<Vec<_>>>()?)
        }
        Pattern::Read(meta) => match bindings.get(*meta)? {
            Value::Expr(_, e) => e.clone(),
            _ => return None,
        },
        Pattern::Element(e) => {
            let e = instantiate(graph, scope, e, bindings)?;
            graph.close(scope, &e).ok()?
        }
        Pattern::Apply(head, args) => {
            let function = match head {
                Head::Fixed(f) => *f,
                Head::Power(k) => Function::from(Op::Powi(i32::try_from(integer(k, bindings)?).ok()?)),
                Head::Meta(meta) => match bindings.get(*meta)? {
                    Value::Function(f) => *f,
                    _ => return None,
                },
            };
            Expr::Apply(function, args.iter().map(|a| instantiate(graph, scope, a, bindings)).collect::<Option<_>>()?)
        }
    })
}

fn arguments(args: &[Arg], bindings: &Bindings) -> Option<Vec<Affine>> {
    let mut found = Vec::new();
    for arg in args {
        match arg {
            Arg::Linear(a) => found.push(linear(a, bindings)?),
            Arg::Indices(meta) => match bindings.get(*meta)? {
                Value::Indices(list) => found.extend(list.iter().map(|(i, _)| Affine::index(*i))),
                _ => return None,
            },
        }
    }
    Some(found)
}

fn predicate(p: &PredPattern, bindings: &Bindings) -> Option<Pred> {
    Some(match p {
        PredPattern::Meta(meta, args) => {
            let Value::Pred(params, body) = bindings.get(*meta)? else { return None };
            let values = arguments(args, bindings)?;
            body.substitute(&|i| params.iter().position(|p| *p == i).and_then(|at| values.get(at).cloned())).ok()?
        }
        PredPattern::Equal(a, b) => Pred::equal(&linear(a, bindings)?, &linear(b, bindings)?).ok()?,
        PredPattern::LessEqual(a, b) => Pred::le(&linear(a, bindings)?, &linear(b, bindings)?).ok()?,
        PredPattern::Less(a, b) => Pred::lt(&linear(a, bindings)?, &linear(b, bindings)?).ok()?,
        PredPattern::Unequal(a, b) => Pred::unequal(&linear(a, bindings)?, &linear(b, bindings)?).ok()?,
        PredPattern::Or(ps) => Pred::any(ps.iter().map(|p| predicate(p, bindings)).collect::<Option<Vec<_>>>()?),
    })
}

/// A factor without what its guard says of other indices than its own sums': that is about the whole product, and masks the other factors.
///
/// ```text
/// a * (sum s. [p and q(s)] * e(s))   ==   [p] * a * (sum s. [q(s)] * e(s))
/// ```
fn without_outer_guard(factor: Expr, outer: &mut Vec<Pred>) -> Expr {
    let Expr::Product(product) = &factor else { return factor };
    let is_inner = |p: &Pred| product.sums.iter().any(|(i, _)| p.mentions(*i));
    let (inner, moved): (Vec<Pred>, Vec<Pred>) = product.guard.conjuncts().iter().cloned().partition(is_inner);
    if product.sums.is_empty() || moved.is_empty() {
        return factor;
    }
    outer.extend(moved);
    Expr::product(product.sums.clone(), Pred::all(inner), product.factors.to_vec())
}

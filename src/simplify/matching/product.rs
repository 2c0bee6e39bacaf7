//! Matching of products: `sum` indices first, then conjuncts, then factors.

use smallvec::SmallVec;

use super::left::{Left, Mask};
use super::solve::{orders, solutions};
use super::{Matcher, Rest, Then};
use crate::base::IndexId;
use crate::index::{Affine, Checked, Pred, RelationRef};
use crate::simplify::bindings::{Params, Value};
use crate::simplify::expr::{Expr, Product};
use crate::simplify::instantiate::linear;
use crate::simplify::rule::{Arg, Binder, Linear, Meta, Pattern, PredPattern};
use crate::solver::Relations;

/// What comes after a part of a product.
type Next<'k, 'g, 'a> = &'k mut dyn FnMut(&mut Matcher<'g, 'a>, Left<'_>);

/// The conjuncts that a pattern asks for.
#[derive(Clone, Copy)]
struct Guards<'p> {
    patterns: &'p [PredPattern],
    /// Whether there is only one, which then takes something.
    alone: bool,
}

impl<'g, 'a> Matcher<'g, 'a> {
    /// Any expression as a product with nothing left over.
    pub(super) fn whole_product(&mut self, pattern: &Pattern, subject: &Expr, then: Then<'_, 'g, 'a>) {
        let wrapped;
        let product = match subject {
            Expr::Product(product) => &**product,
            other => {
                wrapped = other.clone().into_product();
                &wrapped
            }
        };
        if let Some(left) = Left::all(product) {
            self.product(pattern, left, false, then);
        }
    }

    /// Matches a product. At the top, what is left over is handed on; elsewhere there must be nothing.
    pub(super) fn product(&mut self, pattern: &Pattern, subject: Left<'_>, top: bool, then: Then<'_, 'g, 'a>) {
        let Pattern::Product { binders, guard, factors } = pattern else { return };
        let factors = in_order(factors);
        self.binders(binders, subject, &mut |m, subject| {
            // Sums that stay inside of the match bind what no predicate of the pattern may mention.
            let kept = if top { Mask::NONE } else { subject.sums };
            let inner: Params = kept.of(&subject.product.sums).map(|(i, _)| *i).collect();
            let guards = Guards { patterns: guard, alone: guard.len() == 1 };
            m.conjuncts(guards, &inner, subject, &mut |m, subject| m.factors(&factors, subject, top, then));
        });
    }

    fn binders(&mut self, binders: &[Binder], subject: Left<'_>, then: Next<'_, 'g, 'a>) {
        let [binder, rest @ ..] = binders else { return then(self, subject) };
        match binder {
            Binder::One(meta, extent) => {
                for at in subject.sums.iter() {
                    let (i, n) = &subject.product.sums[at];
                    // Two readings of one tensor bind the same indices.
                    if self.bindings.get(*meta).is_none() && self.bindings.bound().contains(i) {
                        continue;
                    }
                    let left = Left { sums: subject.sums.without(at), ..subject };
                    self.bind(*meta, Value::Index(*i), |m| match extent {
                        Linear::Meta(size) => {
                            m.bind(*size, Value::Affine(n.clone()), |m| m.binders(rest, left, then));
                        }
                        other if linear(other, &m.bindings).is_some_and(|a| a == *n) => m.binders(rest, left, then),
                        _ => {}
                    });
                }
            }
            Binder::Many(meta) => match self.bindings.get(*meta).cloned() {
                None => {
                    let all: Vec<_> = subject.sums.of(&subject.product.sums).cloned().collect();
                    if !all.iter().any(|(i, _)| self.bindings.bound().contains(i)) {
                        let left = Left { sums: Mask::NONE, ..subject };
                        self.bind(*meta, Value::Indices(all.into()), |m| m.binders(rest, left, then));
                    }
                }
                // The same list in another place: renamed to the first.
                Some(Value::Indices(known)) => {
                    let sums: Vec<_> = subject.sums.of(&subject.product.sums).cloned().collect();
                    if known.len() != sums.len() {
                        return;
                    }
                    for order in orders(&known, &sums) {
                        let Ok(renamed) = renamed(&subject, &order) else { continue };
                        if let Some(left) = Left::all(&renamed) {
                            self.binders(rest, left, then);
                        }
                    }
                }
                Some(_) => {}
            },
        }
    }

    fn conjuncts(&mut self, guards: Guards<'_>, inner: &[IndexId], subject: Left<'_>, then: Next<'_, 'g, 'a>) {
        let [pattern, rest @ ..] = guards.patterns else { return then(self, subject) };
        let rest = Guards { patterns: rest, ..guards };
        let conjuncts = subject.product.guard.conjuncts();
        let without = |at: usize| Left { conjuncts: subject.conjuncts.without(at), ..subject };
        match pattern {
            PredPattern::Meta(meta, args) => {
                let Some(params) = self.bindings.params(args) else { return };
                let bound = self.bindings.bound().iter().copied().filter(|i| !params.contains(i));
                let hidden: Params = bound.chain(inner.iter().copied()).collect();
                let allowed = |p: &Pred| !hidden.iter().any(|i| p.mentions(*i));
                let next_is_alike = matches!(rest.patterns.first(), Some(PredPattern::Meta(_, other)) if other == args);
                if next_is_alike {
                    for at in subject.conjuncts.filter(conjuncts, allowed).iter() {
                        let value = Value::Pred(params.clone(), conjuncts[at].clone());
                        self.bind(*meta, value, |m| m.conjuncts(rest, inner, without(at), then));
                    }
                    return;
                }
                // A predicate that is applied to an index concerns it.
                let concerns = |p: &Pred| params.is_empty() || params.iter().any(|i| p.mentions(*i));
                let taken = subject.conjuncts.filter(conjuncts, |p| allowed(p) && concerns(p));
                if !taken.is_empty() || !guards.alone {
                    let left = Left { conjuncts: subject.conjuncts.except(taken), ..subject };
                    let value = Value::Pred(params, subject.guard(taken));
                    self.bind(*meta, value, |m| m.conjuncts(rest, inner, left, then));
                }
            }
            PredPattern::Equal(Linear::Meta(index), Linear::Meta(value)) => {
                let signature = self.graph.signature;
                let maps = |r: RelationRef| signature.is_map(r);
                for at in subject.conjuncts.iter() {
                    for (i, solution) in solutions(&conjuncts[at], self.bindings.get(*index), &maps) {
                        let mut hidden = self.bindings.bound().iter().chain(inner);
                        let closed = !inner.contains(&i) && !hidden.any(|j| *j != i && solution.mentions(*j));
                        if closed {
                            self.bind(*index, Value::Index(i), |m| {
                                m.bind(*value, Value::Affine(solution), |m| {
                                    m.conjuncts(rest, inner, without(at), then);
                                });
                            });
                        }
                    }
                }
            }
            // Other atoms stand on right-hand sides only; the loader's tests refuse them.
            PredPattern::Equal(..)
            | PredPattern::LessEqual(..)
            | PredPattern::Less(..)
            | PredPattern::Unequal(..)
            | PredPattern::Or(_) => {}
        }
    }

    /// Matches factors with patterns in the order that [`in_order`] gives.
    fn factors(&mut self, patterns: &[&Pattern], subject: Left<'_>, top: bool, then: Then<'_, 'g, 'a>) {
        if self.full() {
            return;
        }
        let [pattern, others @ ..] = patterns else {
            if top && !self.mentions_bound(&subject) || subject.is_empty() {
                then(self, Rest::Product(subject));
            }
            return;
        };
        let factors = &subject.product.factors;
        let without = |at: usize| Left { factors: subject.factors.without(at), ..subject };
        match pattern {
            Pattern::Literal(meta) => {
                let found = subject.factors.iter().find_map(|at| Some((at, factors[at].as_number()?)));
                let (left, x) = found.map_or((subject, 1.0), |(at, x)| (without(at), x));
                self.bind(*meta, Value::Literal(x), |m| m.factors(others, left, top, then));
            }
            Pattern::Meta(meta, args) => {
                let next_is_alike = matches!(others.first(), Some(Pattern::Meta(_, other)) if other == args);
                let known = self.bindings.get(*meta).is_some();
                if !next_is_alike && (!known || others.is_empty()) {
                    self.all_factors((*meta, args), others, subject, top, then);
                    // What is known may be one of several factors, where others may be left over.
                    if !known || !top || subject.factors.len() == 1 {
                        return;
                    }
                }
                // At the top sums that are left stay around the match; elsewhere what they bind must not leave them.
                let inner = if top && known { Mask::NONE } else { subject.sums };
                let inner: Params = inner.of(&subject.product.sums).map(|(i, _)| *i).collect();
                for at in subject.factors.iter() {
                    let factor = &factors[at];
                    if !factor.mentions_any(&inner)
                        && let Some(params) = self.closed(args, factor)
                    {
                        self.bind_expr(*meta, params, factor.clone(), |m| m.factors(others, without(at), top, then));
                    }
                }
            }
            structured => {
                for at in subject.factors.iter() {
                    if self.has_form(structured, &factors[at]) {
                        self.expr(structured, &factors[at], &mut |m, _| m.factors(others, without(at), top, then));
                    }
                }
            }
        }
    }

    /// The last metavariable of its indices takes all factors that may stand there; the last one of all takes the guards and sums too, at the
    /// top those guards that concern what the pattern binds.
    fn all_factors(
        &mut self,
        (meta, args): (Meta, &[Arg]),
        others: &[&Pattern],
        subject: Left<'_>,
        top: bool,
        then: Then<'_, 'g, 'a>,
    ) {
        let Some(params) = self.bindings.params(args) else { return };
        let hidden = self.hidden(&params);
        let conjuncts = subject.product.guard.conjuncts();
        let last = others.is_empty();
        let taken = subject.factors.filter(&subject.product.factors, |e| !e.mentions_any(&hidden));
        if !last && taken.is_empty() {
            return;
        }
        let guard = match (last, top) {
            (false, _) => Mask::NONE,
            (true, false) => subject.conjuncts,
            (true, true) => {
                let bound = self.bindings.bound();
                subject.conjuncts.filter(conjuncts, |p| bound.iter().any(|i| p.mentions(*i)))
            }
        };
        if guard.of(conjuncts).any(|p| hidden.iter().any(|i| p.mentions(*i))) {
            return;
        }
        let sums = if last && !top { subject.sums } else { Mask::NONE };
        let mut parts = taken.of(&subject.product.factors);
        let value = match (parts.next(), parts.next()) {
            // One factor is itself.
            (Some(only @ (Expr::Read(_) | Expr::Index(_) | Expr::Sum(_) | Expr::Apply(..))), None)
                if sums.is_empty() && guard.is_empty() =>
            {
                only.clone()
            }
            _ => {
                let bound = sums.of(&subject.product.sums).cloned().collect();
                Expr::product(bound, subject.guard(guard), subject.factors(taken))
            }
        };
        let left = Left {
            product: subject.product,
            sums: subject.sums.except(sums),
            conjuncts: subject.conjuncts.except(guard),
            factors: subject.factors.except(taken),
        };
        self.bind_expr(meta, params, value, |m| m.factors(others, left, top, then));
    }

    /// The indices of the pattern that something applied to `params` may not mention.
    fn hidden(&self, params: &[IndexId]) -> Params {
        self.bindings.bound().iter().copied().filter(|i| !params.contains(i)).collect()
    }

    /// The indices that a metavariable is applied to, if an expression mentions no others of the pattern.
    pub(super) fn closed(&self, args: &[Arg], e: &Expr) -> Option<Params> {
        let params = self.bindings.params(args)?;
        (!e.mentions_any(&self.hidden(&params))).then_some(params)
    }

    /// Goes on with a metavariable bound to an expression over `params`, or compares: it may be the same one applied to other indices.
    pub(super) fn bind_expr(&mut self, meta: Meta, params: Params, e: Expr, then: impl FnOnce(&mut Self)) {
        if let Some(Value::Expr(known, body)) = self.bindings.get(meta) {
            // Under other names a read stays one of the same class.
            let may_be_same = match (body, &e) {
                (Expr::Read(a), Expr::Read(b)) => a.class == b.class,
                (Expr::Read(_), _) => false,
                _ => true,
            };
            let same = *known == params && body.same(&e)
                || may_be_same && known.len() == params.len() && {
                    let at = |i: IndexId| known.iter().position(|p| *p == i).map(|at| Affine::index(params[at]));
                    body.substitute(&at).is_ok_and(|body| body.same(&e))
                };
            if same {
                then(self);
            }
            return;
        }
        self.bind(meta, Value::Expr(params, e), then);
    }

    fn mentions_bound(&self, subject: &Left<'_>) -> bool {
        let bound = self.bindings.bound();
        let mut guards = subject.conjuncts.of(subject.product.guard.conjuncts());
        let mut factors = subject.factors.of(&subject.product.factors);
        !bound.is_empty()
            && (guards.any(|p| bound.iter().any(|i| p.mentions(*i))) || factors.any(|e| e.mentions_any(bound)))
    }
}

/// What is left of a product, without its sums, under other names.
fn renamed(subject: &Left<'_>, names: &[(IndexId, IndexId)]) -> Checked<Product> {
    let rename = |i: IndexId| names.iter().find(|(from, _)| *from == i).map(|(_, to)| Affine::index(*to));
    let factors =
        subject.factors.of(&subject.product.factors).map(|e| e.substitute(&rename)).collect::<Checked<_>>()?;
    let guard = subject.guard(subject.conjuncts).substitute(&rename)?;
    Ok(Product { sums: Vec::new(), guard, factors })
}

/// Patterns of factors: numbers first, since conditions on them are the first to fail, then structure, then metavariables, so that these
/// take what is left.
fn in_order(patterns: &[Pattern]) -> SmallVec<[&Pattern; 8]> {
    let mut ordered: SmallVec<[&Pattern; 8]> = patterns.iter().collect();
    ordered.sort_by_key(|pattern| match pattern {
        Pattern::Number(_) => 0,
        Pattern::Literal(_) => 1,
        Pattern::Meta(..) => 3,
        _ => 2,
    });
    ordered
}

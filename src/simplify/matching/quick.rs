//! Quick looks at what cannot match.

use std::rc::Rc;

use egg::Id;
use smallvec::SmallVec;

use super::Matcher;
use crate::base::IndexId;
use crate::index::{Affine, Pred, Var};
use crate::scalar::{Function, Op, Primitive};
use crate::simplify::bindings::{Params, Value};
use crate::simplify::expr::{Expr, Read, Real};
use crate::simplify::lang::Form;
use crate::simplify::rule::{Binder, Head, Pattern, PredPattern};

/// A factor that two terms may have in common.
#[derive(Clone)]
pub(super) enum Factor {
    /// A tensor at these indices; at any, where one of them is bound and may be renamed.
    Tensor(Id, Option<Rc<[Affine]>>),
    Literal(Real),
}

impl Factor {
    fn may_be(&self, other: &Factor) -> bool {
        match (self, other) {
            (Factor::Tensor(x, at), Factor::Tensor(y, there)) => {
                x == y && (at.is_none() || there.is_none() || at == there)
            }
            (Factor::Literal(c), Factor::Literal(d)) => c == d,
            _ => false,
        }
    }
}

impl Matcher<'_, '_> {
    /// Whether an expression has the form that a pattern asks for, itself or by a node of the class that it reads.
    pub(super) fn has_form(&mut self, pattern: &Pattern, subject: &Expr) -> bool {
        let applies = |head: &Head, e: &Expr| matches!(e, Expr::Apply(function, _) if admits(head, *function));
        match (pattern, subject) {
            (Pattern::Apply(head, _), Expr::Read(_)) => self.opened(subject).iter().any(|(_, e)| applies(head, e)),
            (Pattern::Apply(head, _), e) => applies(head, e),
            (Pattern::Sum(_), Expr::Sum(_)) => true,
            (Pattern::Sum(_), Expr::Read(_)) => self.opened(subject).iter().any(|(form, _)| *form == Form::Sum),
            (Pattern::Sum(_), _) => false,
            _ => true,
        }
    }

    /// What each term may have as factors. Those of the terms of the whole subject are found once.
    pub(super) fn factors_of_terms(&mut self, terms: &[Expr]) -> Rc<[Option<Vec<Factor>>]> {
        let whole = matches!(self.subject.e, Expr::Sum(all) if std::ptr::eq::<[Expr]>(&**all, terms));
        if whole && let Some(known) = self.subject.factors.get() {
            return Rc::clone(known);
        }
        let found: Rc<[_]> = terms.iter().map(|term| self.factors_of(term)).collect();
        if whole {
            return Rc::clone(self.subject.factors.get_or_init(|| found));
        }
        found
    }

    /// What a term may have as factors; nothing where it may have others than tensors and literals.
    fn factors_of(&mut self, term: &Expr) -> Option<Vec<Factor>> {
        let mut found = Vec::new();
        self.add_factors(term, &mut found)?;
        let opened = match term {
            Expr::Product(product) => match (product.sums.as_slice(), product.factors.as_slice()) {
                ([], [factor]) => self.opened(factor),
                _ => return Some(found),
            },
            term => self.opened(term),
        };
        for (form, e) in opened.iter() {
            if *form == Form::Product {
                self.add_factors(e, &mut found)?;
            }
        }
        Some(found)
    }

    fn add_factors(&self, e: &Expr, found: &mut Vec<Factor>) -> Option<()> {
        let factors = factors_in(e);
        let bound: Params = match e {
            Expr::Product(product) => product.sums.iter().map(|(i, _)| *i).collect(),
            _ => Params::new(),
        };
        for factor in factors {
            found.push(match factor {
                Expr::Read(read) => self.tensor(read, &bound),
                Expr::Number(x) => Factor::Literal(*x),
                _ => return None,
            });
        }
        (!factors.is_empty()).then_some(())
    }

    fn tensor(&self, read: &Read, bound: &[IndexId]) -> Factor {
        let free = !read.indices.iter().any(|a| bound.iter().any(|i| a.mentions(*i)));
        Factor::Tensor(self.graph.egraph.find(read.class), free.then(|| Rc::clone(&read.indices)))
    }

    /// The tensors that the pattern of a product asks for by metavariables that are bound.
    pub(super) fn needed(&self, pattern: &Pattern) -> SmallVec<[Factor; 4]> {
        let Pattern::Product { factors, .. } = pattern else { return SmallVec::new() };
        let bound = factors.iter().filter_map(|factor| match factor {
            Pattern::Meta(meta, _) => self.bindings.get(*meta),
            _ => None,
        });
        let mut needed = SmallVec::new();
        for value in bound {
            let Value::Expr(_, e) = value else { continue };
            needed.extend(factors_in(e).iter().filter_map(|e| match e {
                Expr::Read(read) => Some(self.tensor(read, self.bindings.bound())),
                _ => None,
            }));
        }
        needed
    }
}

/// Whether one of the tensors that are asked for is not among the factors that a term may have.
pub(super) fn lacks(needed: &[Factor], factors: &Option<Vec<Factor>>) -> bool {
    factors.as_ref().is_some_and(|has| !needed.iter().all(|factor| has.iter().any(|other| other.may_be(factor))))
}

/// Whether two terms may have a factor in common.
pub(super) fn may_share(a: &Option<Vec<Factor>>, b: &Option<Vec<Factor>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.iter().any(|factor| b.iter().any(|other| other.may_be(factor))),
        _ => true,
    }
}

/// The factors of a product; any other expression is one.
fn factors_in(e: &Expr) -> &[Expr] {
    match e {
        Expr::Product(product) => &product.factors,
        e => std::slice::from_ref(e),
    }
}

/// Whether two patterns of products ask for the same factor.
pub(super) fn has_common_factor(a: &Pattern, b: &Pattern) -> bool {
    let (Pattern::Product { factors: a, .. }, Pattern::Product { factors: b, .. }) = (a, b) else { return false };
    a.iter().any(|factor| matches!(factor, Pattern::Meta(..)) && b.contains(factor))
}

/// Whether fewer indices occur in a read than the tensor has axes.
pub(super) fn is_narrow(read: &Read) -> bool {
    let mut found = Vec::new();
    for a in read.indices.iter() {
        a.visit(&mut |v| {
            if let Var::Index(i) = v
                && !found.contains(i)
            {
                found.push(*i);
            }
        });
    }
    found.len() < read.indices.len()
}

/// Whether a left-hand side can match at all, by what it asks for.
pub(super) fn plausible(pattern: &Pattern, subject: &Expr, opening: bool) -> bool {
    match (pattern, subject) {
        (Pattern::Product { binders, guard, factors }, Expr::Product(product)) => {
            let ones = binders.iter().filter(|b| matches!(b, Binder::One(..))).count();
            let guarded = guard.iter().all(|p| match p {
                PredPattern::Meta(..) => !product.guard.is_true(),
                _ => product.guard.conjuncts().iter().any(|p| matches!(p, Pred::Zero(_) | Pred::Relation { .. })),
            });
            let literal = factors.iter().all(|f| match f {
                Pattern::Number(x) => product.factors.iter().any(|e| e.as_number() == Some(*x)),
                Pattern::Real(_) => product.factors.iter().any(|e| matches!(e, Expr::Index(_))),
                Pattern::Apply(..) | Pattern::Sum(_) | Pattern::Element(_) => product.factors.iter().any(|e| {
                    matches!(e, Expr::Apply(..) | Expr::Sum(_) | Expr::Product(_))
                        || opening && matches!(e, Expr::Read(_))
                }),
                _ => true,
            });
            ones <= product.sums.len() && guarded && literal
        }
        (Pattern::Product { .. }, _) => false,
        (Pattern::Sum(patterns), Expr::Sum(terms)) => patterns.len() <= terms.len(),
        (Pattern::Sum(_), _) => false,
        (Pattern::Apply(..), Expr::Apply(..) | Expr::Product(_)) => true,
        (Pattern::Apply(..), _) => false,
        _ => true,
    }
}

/// Whether a function may be what a pattern asks for.
pub(super) fn admits(head: &Head, function: Function) -> bool {
    match head {
        Head::Fixed(f) => *f == function,
        Head::Power(_) => matches!(function, Function::Value(Primitive::Op(Op::Powi(_)))),
        Head::Meta(_) => true,
    }
}

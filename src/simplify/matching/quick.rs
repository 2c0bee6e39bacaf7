//! Quick looks at what cannot match.

use std::cell::OnceCell;
use std::rc::Rc;

use egg::Id;
use smallvec::SmallVec;

use super::Matcher;
use crate::base::IndexId;
use crate::index::{Affine, Pred, Var};
use crate::scalar::{Function, Op, Primitive};
use crate::simplify::bindings::{Params, Value};
use crate::simplify::expr::{Expr, Read, Real};
use crate::simplify::lang::{self, Form};
use crate::simplify::rule::{Binder, Head, Pattern, PredPattern};

/// A factor that two terms may have in common.
#[derive(Clone)]
pub(super) enum Factor {
    /// A tensor at these indices; at any, where one of them is bound and may be renamed.
    Tensor(Id, Option<Rc<[Affine]>>),
    Literal(Real),
}

/// The factors of a product.
pub(super) type Factors = SmallVec<[Factor; 4]>;

/// The products that a term may be; nothing where one of them may have other factors than tensors and literals.
pub(super) type Products = Option<Vec<Factors>>;

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
        let is_one = |node: &lang::Head| match (pattern, node) {
            (Pattern::Apply(head, _), lang::Head::Apply { function, .. }) => admits(head, *function),
            (Pattern::Sum(_), lang::Head::Sum { .. }) => true,
            _ => false,
        };
        match (pattern, subject) {
            // Most have no such node, which is seen without opening any.
            (Pattern::Apply(..) | Pattern::Sum(_), Expr::Read(read))
                if !self.subject.opening || !self.graph.has_node(read.class, is_one) =>
            {
                false
            }
            (Pattern::Apply(head, _), Expr::Read(_)) => self.opened(subject).iter().any(|(_, e)| applies(head, e)),
            (Pattern::Apply(head, _), e) => applies(head, e),
            (Pattern::Sum(_), Expr::Sum(_)) => true,
            (Pattern::Sum(_), Expr::Read(_)) => self.opened(subject).iter().any(|(form, _)| *form == Form::Sum),
            (Pattern::Sum(_), _) => false,
            _ => true,
        }
    }

    /// Whether a product has a factor for each function and sum that a pattern asks for.
    pub(super) fn has_structure(&mut self, pattern: &Pattern, subject: &Expr) -> bool {
        let Expr::Product(product) = subject else { return true };
        let asked = match pattern {
            Pattern::Apply(..) => std::slice::from_ref(pattern),
            Pattern::Product { factors, .. } => factors,
            _ => &[],
        };
        let mut structured = asked.iter().filter(|part| matches!(part, Pattern::Apply(..) | Pattern::Sum(_)));
        structured.all(|part| product.factors.iter().any(|factor| self.has_form(part, factor)))
    }

    /// The products that each term may be.
    pub(super) fn products_of(&mut self, terms: &[Expr]) -> Rc<[Products]> {
        self.each(terms, &self.subject.products, Self::products)
    }

    /// The products that stand in a parenthesis that each term may be a multiple of.
    pub(super) fn products_inside(&mut self, terms: &[Expr]) -> Rc<[Products]> {
        self.each(terms, &self.subject.inside, Self::inside)
    }

    /// Those of the terms of the whole subject are found once.
    fn each(
        &mut self,
        terms: &[Expr],
        known: &OnceCell<Rc<[Products]>>,
        of: fn(&mut Self, &Expr) -> Products,
    ) -> Rc<[Products]> {
        let whole = matches!(self.subject.e, Expr::Sum(all) if std::ptr::eq::<[Expr]>(&**all, terms));
        let mut find = || terms.iter().map(|term| of(self, term)).collect();
        if whole { Rc::clone(known.get_or_init(find)) } else { find() }
    }

    fn products(&mut self, term: &Expr) -> Products {
        let mut found = vec![self.factors_of(term)?];
        let opened = match term {
            Expr::Product(product) => match (product.sums.as_slice(), product.factors.as_slice()) {
                ([], [factor]) => self.opened(factor),
                _ => return Some(found),
            },
            term => self.opened(term),
        };
        for (form, e) in opened.iter() {
            if *form == Form::Product {
                found.push(self.factors_of(e)?);
            }
        }
        Some(found)
    }

    fn inside(&mut self, term: &Expr) -> Products {
        let mut found = Vec::new();
        self.add_inside(term, &mut found)?;
        for (form, e) in self.opened(term).iter() {
            if *form == Form::Product {
                self.add_inside(e, &mut found)?;
            }
        }
        Some(found)
    }

    /// `c * (t0 + t1 + ..)`
    fn add_inside(&mut self, e: &Expr, found: &mut Vec<Factors>) -> Option<()> {
        if matches!(e, Expr::Product(product) if !product.sums.is_empty() || !product.guard.is_true()) {
            return Some(());
        }
        let mut others = factors_in(e).iter().filter(|factor| factor.as_number().is_none());
        let (Some(factor), None) = (others.next(), others.next()) else { return Some(()) };
        let opened = self.opened(factor);
        let sums = std::iter::once(factor).chain(opened.iter().map(|(_, e)| e));
        for sum in sums {
            if let Expr::Sum(terms) = sum {
                for term in terms.iter() {
                    found.extend(self.products(term)?);
                }
            }
        }
        Some(())
    }

    /// The factors, where all of them are tensors and literals.
    fn factors_of(&self, e: &Expr) -> Option<Factors> {
        let factors = factors_in(e);
        let bound: Params = match e {
            Expr::Product(product) => product.sums.iter().map(|(i, _)| *i).collect(),
            _ => Params::new(),
        };
        let factor = |factor: &Expr| match factor {
            Expr::Read(read) => Some(self.tensor(read, &bound)),
            Expr::Number(x) => Some(Factor::Literal(*x)),
            _ => None,
        };
        let found: Factors = factors.iter().map(factor).collect::<Option<_>>()?;
        (!found.is_empty()).then_some(found)
    }

    fn tensor(&self, read: &Read, bound: &[IndexId]) -> Factor {
        let free = !read.indices.iter().any(|a| bound.iter().any(|i| a.mentions(*i)));
        Factor::Tensor(self.graph.egraph.find(read.class), free.then(|| Rc::clone(&read.indices)))
    }

    /// The tensors that the pattern of a product asks for by metavariables that are bound.
    pub(super) fn needed(&self, pattern: &Pattern) -> Factors {
        let Pattern::Product { factors, .. } = pattern else { return Factors::new() };
        let bound = factors.iter().filter_map(|factor| match factor {
            Pattern::Meta(meta, _) => self.bindings.get(*meta),
            _ => None,
        });
        let mut needed = Factors::new();
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

/// Whether none of the products that a term may be has all the tensors that are asked for.
pub(super) fn lacks(needed: &[Factor], products: &Products) -> bool {
    let has_all = |has: &Factors| needed.iter().all(|factor| has.iter().any(|other| other.may_be(factor)));
    products.as_ref().is_some_and(|products| !products.iter().any(has_all))
}

/// What two terms have in common.
#[derive(Clone, Copy)]
pub(super) enum Common {
    /// A factor.
    Factor,
    /// All factors but literals.
    Like,
    /// The second one has all factors, but literals, of a term in a parenthesis of the first one.
    LikeInside,
}

impl Common {
    /// What two patterns ask for.
    pub(super) fn of(a: &Pattern, b: &Pattern) -> Option<Common> {
        if let Some(meta) = multiple(b) {
            if multiple(a) == Some(meta) {
                return Some(Common::Like);
            }
            let is_parenthesis = |factor: &Pattern| match factor {
                Pattern::Sum(terms) => terms.iter().any(|term| multiple(term) == Some(meta)),
                _ => false,
            };
            if let Pattern::Product { binders, guard, factors } = a
                && binders.is_empty()
                && guard.is_empty()
                && let Some(factor) = only(factors)
                && is_parenthesis(factor)
            {
                return Some(Common::LikeInside);
            }
        }
        let (Pattern::Product { factors: a, .. }, Pattern::Product { factors: b, .. }) = (a, b) else { return None };
        let shared = a.iter().any(|factor| matches!(factor, Pattern::Meta(..)) && b.contains(factor));
        shared.then_some(Common::Factor)
    }

    /// Whether two terms may have it in common.
    pub(super) fn may_be(self, a: &Products, b: &Products) -> bool {
        let (Some(a), Some(b)) = (a, b) else { return true };
        a.iter().any(|a| {
            b.iter().any(|b| match self {
                Common::Factor => a.iter().any(|factor| b.iter().any(|other| other.may_be(factor))),
                Common::Like | Common::LikeInside => may_be_alike(a, b),
            })
        })
    }
}

/// Whether two products may have the same factors but literals.
fn may_be_alike(a: &Factors, b: &Factors) -> bool {
    let is_tensor = |factor: &&Factor| matches!(factor, Factor::Tensor(..));
    a.iter().filter(is_tensor).count() == b.iter().filter(is_tensor).count()
        && a.iter().filter(is_tensor).all(|factor| b.iter().any(|other| other.may_be(factor)))
}

/// The only factor but literals.
fn only(factors: &[Pattern]) -> Option<&Pattern> {
    let mut others = factors.iter().filter(|factor| !matches!(factor, Pattern::Literal(_) | Pattern::Number(_)));
    others.next().filter(|_| others.next().is_none())
}

/// The metavariable of `[p] * c * a`, which takes all factors but literals.
fn multiple(pattern: &Pattern) -> Option<&Pattern> {
    let Pattern::Product { binders, guard: _, factors } = pattern else { return None };
    only(factors).filter(|factor| binders.is_empty() && matches!(factor, Pattern::Meta(_, args) if args.is_empty()))
}

/// The factors of a product; any other expression is one.
fn factors_in(e: &Expr) -> &[Expr] {
    match e {
        Expr::Product(product) => &product.factors,
        e => std::slice::from_ref(e),
    }
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

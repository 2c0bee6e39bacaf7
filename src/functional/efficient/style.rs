//! What backpropagators give: environment vectors (\[000\], Fig. 2), or actions of the monad (Fig. 6).
//!
//! ```text
//!                 vectors                                       monad
//! nothing         0                                             return ()
//! one x d         the vector that is d at x                     the action that adds d to the cell of x
//! both m n        m + n                                         m >> n
//! under m k       let (r, d) = split m in r + k d               do ((), d) <- scope m; k d
//! effect a        a * ~env                                      action a
//! ```
//!
//! An *effect* with a result is what loops and reductions chain: a pair of the result and a vector, or an action.

use super::super::lambda::{Builder, Linear, LinearType, Term, TermId, Type, TypeId};
use crate::error::Result;

/// What backpropagators give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Vectors,
    Monad,
}

/// The variables in scope, as cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// Their number.
    pub depth: u32,
    /// Their types.
    pub cells: TypeId,
}

/// A function of a term.
type Then<'a> = &'a mut dyn FnMut(&mut Builder, TermId) -> Result<TermId>;

impl Style {
    /// The type of what backpropagators give.
    pub fn owed(self, b: &mut Builder, scope: Scope) -> TypeId {
        match self {
            Style::Vectors => b.types().linear(LinearType::Environment(scope.cells)),
            Style::Monad => {
                let unit = b.types().unit();
                b.types().intern(Type::Action(scope.cells, unit))
            }
        }
    }

    /// The type of an effect with a result.
    pub fn effect(self, b: &mut Builder, scope: Scope, result: TypeId) -> TypeId {
        match self {
            Style::Vectors => {
                let env = self.owed(b, scope);
                b.types().pair(result, env)
            }
            Style::Monad => b.types().intern(Type::Action(scope.cells, result)),
        }
    }

    pub fn nothing(self, b: &mut Builder, scope: Scope) -> Result<TermId> {
        match self {
            Style::Vectors => {
                let env = self.owed(b, scope);
                b.push(Term::Linear(Linear::Zero(env)))
            }
            Style::Monad => {
                let unit = b.unit()?;
                b.push(Term::Linear(Linear::Return(scope.cells, unit)))
            }
        }
    }

    pub fn one(self, b: &mut Builder, scope: Scope, cell: u32, d: TermId) -> Result<TermId> {
        match self {
            Style::Vectors => {
                let env = self.owed(b, scope);
                b.push(Term::Linear(Linear::OneHot(cell, env, d)))
            }
            Style::Monad => b.push(Term::Linear(Linear::Add(cell, scope.cells, d))),
        }
    }

    /// `let x = n in m >>= fn _. x`, as in \[000\], Appendix D.
    pub fn both(self, b: &mut Builder, m: TermId, n: impl FnOnce(&mut Builder) -> Result<TermId>) -> Result<TermId> {
        match self {
            Style::Vectors => {
                let n = n(b)?;
                b.push(Term::Linear(Linear::Plus(m, n)))
            }
            Style::Monad => {
                let n = n(b)?;
                b.let_("n", n, |b, x| {
                    let unit = b.types().unit();
                    let next = b.fn_("u", unit, |b, _| Ok(b.var(x)))?;
                    b.push(Term::Linear(Linear::Bind(m, next)))
                })
            }
        }
    }

    /// What `m` owes, which is in a scope with one more cell of this type, and what `then` owes for that cell's value.
    pub fn under(self, b: &mut Builder, scope: Scope, cell: TypeId, m: TermId, then: Then) -> Result<TermId> {
        match self {
            Style::Vectors => {
                let split = b.push(Term::Linear(Linear::Split(scope.depth, m)))?;
                b.let_("r", split, |b, r| {
                    let (rest, last) = (b.var(r), b.var(r));
                    let (rest, last) = (b.fst(rest)?, b.snd(last)?);
                    let more = then(b, last)?;
                    b.push(Term::Linear(Linear::Plus(rest, more)))
                })
            }
            Style::Monad => {
                let zero = b.push(Term::Linear(Linear::Zero(cell)))?;
                let scoped = b.push(Term::Linear(Linear::Scope(zero, m)))?;
                let unit = b.types().unit();
                let result = b.types().pair(cell, unit);
                let next = b.fn_("r", result, |b, r| {
                    let last = b.var(r);
                    let last = b.fst(last)?;
                    then(b, last)
                })?;
                b.push(Term::Linear(Linear::Bind(scoped, next)))
            }
        }
    }

    /// What `m` owes, which is in a scope with more cells of these types, as an effect whose result is their values: `(first, (.., (last, ())))`.
    pub fn scoped(self, b: &mut Builder, scope: Scope, cells: &[TypeId], m: TermId) -> Result<TermId> {
        match self {
            Style::Monad => {
                let mut m = m;
                for cell in cells.iter().rev() {
                    let zero = b.push(Term::Linear(Linear::Zero(*cell)))?;
                    m = b.push(Term::Linear(Linear::Scope(zero, m)))?;
                }
                Ok(m)
            }
            Style::Vectors => {
                let mut split = b.push(Term::Linear(Linear::Split(scope.depth + cells.len() as u32 - 1, m)))?;
                let mut vars = vec![b.fresh("r", b.ty(split))];
                let mut values = vec![split];
                for k in 1..cells.len() {
                    let rest = b.var(vars[k - 1]);
                    let rest = b.fst(rest)?;
                    split = b.push(Term::Linear(Linear::Split(scope.depth + (cells.len() - 1 - k) as u32, rest)))?;
                    vars.push(b.fresh("r", b.ty(split)));
                    values.push(split);
                }
                // The last variable has the first cell.
                let mut result = b.unit()?;
                for x in &vars {
                    let last = b.var(*x);
                    let last = b.snd(last)?;
                    result = b.pair(last, result)?;
                }
                let rest = b.var(vars[vars.len() - 1]);
                let rest = b.fst(rest)?;
                let mut body = b.pair(result, rest)?;
                for (x, value) in vars.into_iter().zip(values).rev() {
                    body = b.push(Term::Let(x, value, body))?;
                }
                Ok(body)
            }
        }
    }

    /// The effect that does nothing and has a result.
    pub fn give(self, b: &mut Builder, scope: Scope, result: TermId) -> Result<TermId> {
        match self {
            Style::Vectors => {
                let nothing = self.nothing(b, scope)?;
                b.pair(result, nothing)
            }
            Style::Monad => b.push(Term::Linear(Linear::Return(scope.cells, result))),
        }
    }

    /// An effect, and then another one, of its result.
    pub fn chain(self, b: &mut Builder, result: TypeId, m: TermId, then: Then) -> Result<TermId> {
        match self {
            Style::Vectors => b.let_("m", m, |b, m| {
                let first = b.var(m);
                let first = b.fst(first)?;
                let next = then(b, first)?;
                b.let_("n", next, |b, n| {
                    let (result, more, owed) = (b.var(n), b.var(n), b.var(m));
                    let (result, more, owed) = (b.fst(result)?, b.snd(more)?, b.snd(owed)?);
                    let owed = b.push(Term::Linear(Linear::Plus(owed, more)))?;
                    b.pair(result, owed)
                })
            }),
            Style::Monad => self.finish(b, result, m, then),
        }
    }

    /// An effect, and then what is owed for its result.
    pub fn finish(self, b: &mut Builder, result: TypeId, m: TermId, then: Then) -> Result<TermId> {
        match self {
            Style::Vectors => b.let_("m", m, |b, m| {
                let first = b.var(m);
                let first = b.fst(first)?;
                let more = then(b, first)?;
                let owed = b.var(m);
                let owed = b.snd(owed)?;
                b.push(Term::Linear(Linear::Plus(owed, more)))
            }),
            Style::Monad => {
                let next = b.fn_("r", result, |b, r| {
                    let r = b.var(r);
                    then(b, r)
                })?;
                b.push(Term::Linear(Linear::Bind(m, next)))
            }
        }
    }

    /// All effects of an array, whose results are `unit` or a vector is all there is: what they owe together.
    pub fn all(self, b: &mut Builder, scope: Scope, array: TermId) -> Result<TermId> {
        match self {
            Style::Vectors => b.push(Term::Linear(Linear::Total(array))),
            Style::Monad => {
                let unit = b.types().unit();
                let results = b.types().array(unit);
                let sequence = b.push(Term::Linear(Linear::Sequence(array)))?;
                let next = b.fn_("r", results, |b, _| self.nothing(b, scope))?;
                b.push(Term::Linear(Linear::Bind(sequence, next)))
            }
        }
    }
}

//! Linear types: commutative monoids, for tangents and cotangents, and the terms that make and use their values.
//!
//! ```text
//! types   l, m ::= ~unit | ~real | l ~* m | l ~+ m | a => l | ~env c | ~package | ~D          also  a -> l  and  [l]
//!         c    ::= ~nil | c ~, l                          the cells of an environment
//!         a, b ::= .. | action c a | closure a b
//! ```
//!
//! They are the interfaces of \[000\]: Fig. 3 (cotangents), Fig. 5 (environment vectors `~env c`), section 4.2 (the monad, `action`), section 7 (bags, which are
//! copowers `int => l`), Appendix B (closures and tagged packages); and the copowers `!a (x) l` of \[003\] section 4, written `a => l`. That a function is linear is
//! not checked, as in section 9 of \[003\].
//!
//! The evaluator has several representations of their values ([`Store`](super::Store)); a program is the same for all.

use super::data::{Context, TermId, Type, TypeId};
use super::types::{Mismatch, Typing};
use crate::base::VarId;

/// A linear type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinearType {
    /// Zero alone.
    Unit,
    /// Real numbers.
    Real,
    /// Pairs.
    Pair(TypeId, TypeId),
    /// Zero, or values of one of two types; values of different sides have no sum.
    Sum(TypeId, TypeId),
    /// Finite sums of `!x (x) v`, with `x` of the first type, a multiset of calls or of elements.
    Copower(TypeId, TypeId),
    /// One value for each of the cells.
    Environment(TypeId),
    /// Values of any linear type, with the type; values of different types have no sum.
    Package,
    /// The cotangents of a data type: its definition, by number, in [`Context::data`].
    Data(super::data::DataId),
}

/// A term of linear types.
#[derive(Clone, Debug, PartialEq)]
pub enum Linear {
    /// `0` of a linear type.
    Zero(TypeId),
    /// `a + b`.
    Plus(TermId, TermId),
    /// `(a, b)`.
    Pair(TermId, TermId),
    /// The first part.
    Fst(TermId),
    /// The second part.
    Snd(TermId),
    /// A value of the first side of a sum type.
    Inl(TypeId, TermId),
    /// A value of the second side of a sum type.
    Inr(TypeId, TermId),
    /// The value of the first side; zero where it is zero, an error of the other side.
    CastL(TermId),
    /// The value of the second side.
    CastR(TermId),
    /// `!a (x) b`.
    Entry(TermId, TermId),
    /// Of an array of `l`, the sum of `!i (x) a[i]`.
    Entries(TermId),
    /// `case a of !x (x) v -> body`: the sum of all bodies.
    Fold(TermId, (VarId, VarId), TermId),
    /// The entries of a copower, as an array of pairs.
    Collect(TermId),
    /// An array of `l`, with the values of pairs `(i, v)` added at `i`.
    Scatter(TermId, TermId),
    /// The sum of an array of `l`.
    Total(TermId),
    /// An environment with one more cell, which has a value.
    Extend(TermId, TermId),
    /// The value of a cell, by its number from the last one.
    Cell(u32, TermId),
    /// The environment, of the given type, which is zero but at a cell.
    OneHot(u32, TypeId, TermId),
    /// The environment without its last cell, of the given number, and this cell's value.
    Split(u32, TermId),
    /// The action, of the given cells, that does nothing.
    Return(TypeId, TermId),
    /// The first action, and then the one that the function gives of its result.
    Bind(TermId, TermId),
    /// The action, of the given cells, that adds to one of them.
    Add(u32, TypeId, TermId),
    /// The action with one cell more, of this start; gives the cell's last value and the result.
    Scope(TermId, TermId),
    /// All actions of an array, and the array of their results.
    Sequence(TermId),
    /// The result of an action, and the cells after it, from those before it. Cells are `(last, (.., (first, ())))`.
    Run(TermId, TermId),
    /// A closure: an environment, and a function of a pair of the environment and the argument.
    Close(TermId, TermId),
    /// `open a as x in body`, where `x` is the environment, of a type of its own, and the function.
    Open(TermId, VarId, TermId),
    /// A value with its type.
    Pack(TermId),
    /// The value, of the given type; an error where its type is another.
    Unpack(TypeId, TermId),
    /// A cotangent of a data type, by its definition.
    Roll(TypeId, TermId),
    /// The definition of a cotangent of a data type.
    Unroll(TermId),
}

impl Linear {
    /// Calls `f` with each operand, in the order of evaluation, and the variables that are bound in it.
    pub fn for_each_operand(&self, f: &mut impl FnMut(TermId, &[VarId])) {
        match self {
            Linear::Zero(_) => {}
            Linear::Fst(a)
            | Linear::Snd(a)
            | Linear::Inl(_, a)
            | Linear::Inr(_, a)
            | Linear::CastL(a)
            | Linear::CastR(a)
            | Linear::Entries(a)
            | Linear::Collect(a)
            | Linear::Total(a)
            | Linear::Cell(_, a)
            | Linear::OneHot(_, _, a)
            | Linear::Split(_, a)
            | Linear::Return(_, a)
            | Linear::Add(_, _, a)
            | Linear::Sequence(a)
            | Linear::Pack(a)
            | Linear::Unpack(_, a)
            | Linear::Roll(_, a)
            | Linear::Unroll(a) => f(*a, &[]),
            Linear::Plus(a, b)
            | Linear::Pair(a, b)
            | Linear::Entry(a, b)
            | Linear::Scatter(a, b)
            | Linear::Extend(a, b)
            | Linear::Bind(a, b)
            | Linear::Scope(a, b)
            | Linear::Run(a, b)
            | Linear::Close(a, b) => {
                f(*a, &[]);
                f(*b, &[]);
            }
            Linear::Fold(a, (x, v), body) => {
                f(*a, &[]);
                f(*body, &[*x, *v]);
            }
            Linear::Open(a, x, body) => {
                f(*a, &[]);
                f(*body, &[*x]);
            }
        }
    }

    /// The same term of other operands and variables.
    pub fn rename(&self, e: impl Fn(TermId) -> TermId, x: impl Fn(VarId) -> VarId) -> Linear {
        match self {
            Linear::Zero(t) => Linear::Zero(*t),
            Linear::Plus(a, b) => Linear::Plus(e(*a), e(*b)),
            Linear::Pair(a, b) => Linear::Pair(e(*a), e(*b)),
            Linear::Fst(a) => Linear::Fst(e(*a)),
            Linear::Snd(a) => Linear::Snd(e(*a)),
            Linear::Inl(t, a) => Linear::Inl(*t, e(*a)),
            Linear::Inr(t, a) => Linear::Inr(*t, e(*a)),
            Linear::CastL(a) => Linear::CastL(e(*a)),
            Linear::CastR(a) => Linear::CastR(e(*a)),
            Linear::Entry(a, b) => Linear::Entry(e(*a), e(*b)),
            Linear::Entries(a) => Linear::Entries(e(*a)),
            Linear::Fold(a, (v, w), body) => Linear::Fold(e(*a), (x(*v), x(*w)), e(*body)),
            Linear::Collect(a) => Linear::Collect(e(*a)),
            Linear::Scatter(a, b) => Linear::Scatter(e(*a), e(*b)),
            Linear::Total(a) => Linear::Total(e(*a)),
            Linear::Extend(a, b) => Linear::Extend(e(*a), e(*b)),
            Linear::Cell(k, a) => Linear::Cell(*k, e(*a)),
            Linear::OneHot(k, t, a) => Linear::OneHot(*k, *t, e(*a)),
            Linear::Split(k, a) => Linear::Split(*k, e(*a)),
            Linear::Return(t, a) => Linear::Return(*t, e(*a)),
            Linear::Bind(a, b) => Linear::Bind(e(*a), e(*b)),
            Linear::Add(k, t, a) => Linear::Add(*k, *t, e(*a)),
            Linear::Scope(a, b) => Linear::Scope(e(*a), e(*b)),
            Linear::Sequence(a) => Linear::Sequence(e(*a)),
            Linear::Run(a, b) => Linear::Run(e(*a), e(*b)),
            Linear::Close(a, b) => Linear::Close(e(*a), e(*b)),
            Linear::Open(a, v, body) => Linear::Open(e(*a), x(*v), e(*body)),
            Linear::Pack(a) => Linear::Pack(e(*a)),
            Linear::Unpack(t, a) => Linear::Unpack(*t, e(*a)),
            Linear::Roll(t, a) => Linear::Roll(*t, e(*a)),
            Linear::Unroll(a) => Linear::Unroll(e(*a)),
        }
    }
}

fn fail<T>(context: &Context, what: &str, found: TypeId) -> Result<T, Mismatch> {
    Err(Mismatch(format!("{what}, found {}", context.show(found))))
}

fn same(context: &Context, what: &str, found: TypeId, wanted: TypeId) -> Result<(), Mismatch> {
    match found == wanted {
        true => Ok(()),
        false => fail(context, &format!("{what} has to be of type {}", context.show(wanted)), found),
    }
}

/// Whether a type is linear: it has zero and sums.
pub fn is_linear(context: &Context, ty: TypeId) -> bool {
    let mut ty = ty;
    loop {
        match &context.types[ty] {
            Type::Linear(_) => return true,
            Type::Fn(_, codomain) => ty = *codomain,
            Type::Array(element) => ty = *element,
            _ => return false,
        }
    }
}

/// The typing rules.
pub(super) fn infer(context: &mut Context, term: &Linear) -> Typing {
    match term {
        Linear::Zero(ty) => match is_linear(context, *ty) {
            true => Ok(*ty),
            false => fail(context, "zero is of a linear type", *ty),
        },
        Linear::Plus(a, b) => {
            let ty = context.ty(*a);
            same(context, "the second summand", context.ty(*b), ty)?;
            match is_linear(context, ty) {
                true => Ok(ty),
                false => fail(context, "sums are of a linear type", ty),
            }
        }
        Linear::Pair(..)
        | Linear::Fst(_)
        | Linear::Snd(_)
        | Linear::Inl(..)
        | Linear::Inr(..)
        | Linear::CastL(_)
        | Linear::CastR(_)
        | Linear::Roll(..)
        | Linear::Unroll(_) => parts(context, term),
        Linear::Entry(..)
        | Linear::Entries(_)
        | Linear::Fold(..)
        | Linear::Collect(_)
        | Linear::Scatter(..)
        | Linear::Total(_) => copowers(context, term),
        Linear::Close(..) | Linear::Open(..) | Linear::Pack(..) | Linear::Unpack(..) => closures(context, term),
        _ => environments(context, term),
    }
}

fn parts(context: &mut Context, term: &Linear) -> Typing {
    let linear = |context: &Context, e: TermId| match context.types[context.ty(e)] {
        Type::Linear(ty) => Some(ty),
        _ => None,
    };
    match term {
        Linear::Pair(a, b) => {
            let (a, b) = (context.ty(*a), context.ty(*b));
            for ty in [a, b] {
                if !is_linear(context, ty) {
                    return fail(context, "a linear pair is of linear types", ty);
                }
            }
            Ok(context.types.linear(LinearType::Pair(a, b)))
        }
        Linear::Fst(e) | Linear::Snd(e) => match (linear(context, *e), term) {
            (Some(LinearType::Pair(a, _)), Linear::Fst(_)) => Ok(a),
            (Some(LinearType::Pair(_, b)), _) => Ok(b),
            _ => fail(context, "a linear pair is needed", context.ty(*e)),
        },
        Linear::Inl(ty, e) | Linear::Inr(ty, e) => match (&context.types[*ty], term) {
            (Type::Linear(LinearType::Sum(a, _)), Linear::Inl(..)) => {
                same(context, "the first side", context.ty(*e), *a).map(|()| *ty)
            }
            (Type::Linear(LinearType::Sum(_, b)), _) => {
                same(context, "the second side", context.ty(*e), *b).map(|()| *ty)
            }
            _ => fail(context, "a linear sum is needed", *ty),
        },
        Linear::CastL(e) | Linear::CastR(e) => match (linear(context, *e), term) {
            (Some(LinearType::Sum(a, _)), Linear::CastL(_)) => Ok(a),
            (Some(LinearType::Sum(_, b)), _) => Ok(b),
            _ => fail(context, "a linear sum is needed", context.ty(*e)),
        },
        Linear::Roll(ty, e) => match context.types[*ty] {
            Type::Linear(LinearType::Data(data)) => match context.data[data].definition {
                Some(definition) => same(context, "the definition", context.ty(*e), definition).map(|()| *ty),
                None => fail(context, "a data type without a definition", *ty),
            },
            _ => fail(context, "a linear data type is needed", *ty),
        },
        Linear::Unroll(e) => match linear(context, *e) {
            Some(LinearType::Data(data)) => match context.data[data].definition {
                Some(definition) => Ok(definition),
                None => fail(context, "a data type without a definition", context.ty(*e)),
            },
            _ => fail(context, "a linear data type is needed", context.ty(*e)),
        },
        _ => Err(Mismatch("not a term of linear pairs or sums".to_string())),
    }
}

fn copowers(context: &mut Context, term: &Linear) -> Typing {
    let element = |context: &Context, e: TermId| match context.types[context.ty(e)] {
        Type::Array(element) => Ok(element),
        _ => fail(context, "an array is needed", context.ty(e)),
    };
    let copower = |context: &Context, e: TermId| match context.types[context.ty(e)] {
        Type::Linear(LinearType::Copower(a, l)) => Ok((a, l)),
        _ => fail(context, "a copower is needed", context.ty(e)),
    };
    match term {
        Linear::Entry(a, b) => {
            let (a, b) = (context.ty(*a), context.ty(*b));
            match is_linear(context, b) {
                true => Ok(context.types.linear(LinearType::Copower(a, b))),
                false => fail(context, "the value of an entry is of a linear type", b),
            }
        }
        Linear::Entries(array) => {
            let l = element(context, *array)?;
            let int = context.types.int();
            Ok(context.types.linear(LinearType::Copower(int, l)))
        }
        Linear::Fold(e, (x, v), body) => {
            let (a, l) = copower(context, *e)?;
            same(context, "the first part of an entry", context.var_ty(*x), a)?;
            same(context, "the second part of an entry", context.var_ty(*v), l)?;
            let ty = context.ty(*body);
            match is_linear(context, ty) {
                true => Ok(ty),
                false => fail(context, "what is summed is of a linear type", ty),
            }
        }
        Linear::Collect(e) => {
            let (a, l) = copower(context, *e)?;
            let pair = context.types.pair(a, l);
            Ok(context.types.array(pair))
        }
        Linear::Scatter(base, pairs) => {
            let l = element(context, *base)?;
            let int = context.types.int();
            let wanted = context.types.pair(int, l);
            let found = element(context, *pairs)?;
            same(context, "what is added", found, wanted)?;
            Ok(context.ty(*base))
        }
        Linear::Total(array) => element(context, *array),
        _ => Err(Mismatch("not a term of copowers".to_string())),
    }
}

/// The cells of an environment without the last one, and the last one.
pub(super) fn last_cell(context: &Context, cells: TypeId) -> Option<(TypeId, TypeId)> {
    match context.types[cells] {
        Type::Cells(rest, last) => Some((rest, last)),
        _ => None,
    }
}

fn environments(context: &mut Context, term: &Linear) -> Typing {
    match term {
        // The verifier checks that the cell has the type of the value.
        Linear::OneHot(_, ty, _) => match context.types[*ty] {
            Type::Linear(LinearType::Environment(_)) => Ok(*ty),
            _ => fail(context, "an environment is needed", *ty),
        },
        Linear::Extend(env, value) => match context.types[context.ty(*env)] {
            Type::Linear(LinearType::Environment(cells)) => {
                let cells = context.types.intern(Type::Cells(cells, context.ty(*value)));
                Ok(context.types.linear(LinearType::Environment(cells)))
            }
            _ => fail(context, "an environment is needed", context.ty(*env)),
        },
        Linear::Cell(k, env) => {
            let Type::Linear(LinearType::Environment(mut cells)) = context.types[context.ty(*env)] else {
                return fail(context, "an environment is needed", context.ty(*env));
            };
            for _ in 0..*k {
                let Some((rest, _)) = last_cell(context, cells) else { break };
                cells = rest;
            }
            match last_cell(context, cells) {
                Some((_, last)) => Ok(last),
                None => fail(context, "there is no such cell", context.ty(*env)),
            }
        }
        Linear::Split(_, e) => match context.types[context.ty(*e)] {
            Type::Linear(LinearType::Environment(cells)) => match last_cell(context, cells) {
                Some((rest, last)) => {
                    let rest = context.types.linear(LinearType::Environment(rest));
                    Ok(context.types.pair(rest, last))
                }
                None => fail(context, "there is no last cell", cells),
            },
            _ => fail(context, "an environment is needed", context.ty(*e)),
        },
        _ => actions(context, term),
    }
}

fn actions(context: &mut Context, term: &Linear) -> Typing {
    let action = |context: &Context, e: TermId| match context.types[context.ty(e)] {
        Type::Action(cells, result) => Ok((cells, result)),
        _ => fail(context, "an action is needed", context.ty(e)),
    };
    match term {
        Linear::Return(cells, e) => {
            let result = context.ty(*e);
            Ok(context.types.intern(Type::Action(*cells, result)))
        }
        Linear::Add(_, cells, _) => {
            let unit = context.types.unit();
            Ok(context.types.intern(Type::Action(*cells, unit)))
        }
        Linear::Bind(m, k) => {
            let (cells, result) = action(context, *m)?;
            match context.types[context.ty(*k)] {
                Type::Fn(domain, codomain) => {
                    same(context, "the argument of what comes next", domain, result)?;
                    match context.types[codomain] {
                        Type::Action(next, _) => same(context, "the cells", next, cells).map(|()| codomain),
                        _ => fail(context, "an action comes next", codomain),
                    }
                }
                _ => fail(context, "a function is needed", context.ty(*k)),
            }
        }
        Linear::Scope(init, m) => {
            let (cells, result) = action(context, *m)?;
            let Some((rest, last)) = last_cell(context, cells) else {
                return fail(context, "there is no last cell", cells);
            };
            same(context, "the start of a cell", context.ty(*init), last)?;
            let result = context.types.pair(last, result);
            Ok(context.types.intern(Type::Action(rest, result)))
        }
        Linear::Sequence(array) => match context.types[context.ty(*array)] {
            Type::Array(element) => match context.types[element] {
                Type::Action(cells, result) => {
                    let results = context.types.array(result);
                    Ok(context.types.intern(Type::Action(cells, results)))
                }
                _ => fail(context, "actions are needed", element),
            },
            _ => fail(context, "an array is needed", context.ty(*array)),
        },
        Linear::Run(m, env) => {
            let (_, result) = action(context, *m)?;
            let env = context.ty(*env);
            Ok(context.types.pair(result, env))
        }
        _ => Err(Mismatch("not a term of environments or actions".to_string())),
    }
}

fn closures(context: &mut Context, term: &Linear) -> Typing {
    match term {
        Linear::Close(env, f) => {
            let (env, f) = (context.ty(*env), context.ty(*f));
            if let Type::Fn(domain, codomain) = context.types[f]
                && let Type::Pair(first, arg) = context.types[domain]
            {
                same(context, "the environment of a closure", first, env)?;
                return Ok(context.types.intern(Type::Closure(arg, codomain)));
            }
            fail(context, "a function of an environment and an argument is needed", f)
        }
        Linear::Open(e, x, body) => {
            let Type::Closure(arg, result) = context.types[context.ty(*e)] else {
                return fail(context, "a closure is needed", context.ty(*e));
            };
            let hidden = context.types.intern(Type::Hidden(*x));
            let domain = context.types.pair(hidden, arg);
            let f = context.types.function(domain, result);
            let wanted = context.types.pair(hidden, f);
            same(context, "an opened closure", context.var_ty(*x), wanted)?;
            Ok(context.ty(*body))
        }
        Linear::Pack(e) => match is_linear(context, context.ty(*e)) {
            true => Ok(context.types.linear(LinearType::Package)),
            false => fail(context, "packages are of linear types", context.ty(*e)),
        },
        Linear::Unpack(ty, e) => {
            let package = context.types.linear(LinearType::Package);
            same(context, "what is unpacked", context.ty(*e), package)?;
            match is_linear(context, *ty) {
                true => Ok(*ty),
                false => fail(context, "packages are of linear types", *ty),
            }
        }
        _ => Err(Mismatch("not a term of closures".to_string())),
    }
}

//! Types, terms and programs.
//!
//! ```text
//! types   a, b ::= real | int | unit | a * b | a + b | a -> b | [a] | D | X
//! terms   e    ::= x | k | r | () | op e | let x = e in e | (e, e) | fst e | snd e | inl e | inr e | case e of {inl x -> e | inr y -> e}
//!                | fn x. e | rec f(x). e | e e | par(e, e)
//!                | build n (i. e) | e ! e | length e | map (x, ..) in (e, ..). e | reduce | scan
//!                | fold t < n, s = e. e | iterate s = e while e. e | roll e | unroll e | X(e)
//! ```
//!
//! A *data type* `D` is recursive and named; `roll` and `unroll` go between it and its definition. An *external* function `X` is one that the evaluator
//! is given. A primitive takes one argument, a pair where it has two, as in the formalisation of \[000\].
//!
//! Terms are a tree in an arena, operands before users: a forward loop meets operands first, a backward loop users first, and nothing recurses. Each
//! binder has a variable of its own, whose name is for people.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::linear::{Linear, LinearType};
use super::types::Types;
use crate::base::{Arena, Id, VarId, define_id};
use crate::reference::numeric::Users;
use crate::scalar::{Comparison, Function};

define_id!(
    /// A type of a program; equal types have equal ids.
    TypeId,
    "T"
);
define_id!(
    /// A term of a program.
    TermId,
    "e"
);
define_id!(
    /// A data type, which may be recursive.
    DataId,
    "D"
);
define_id!(
    /// A function that the evaluator is given.
    ExternalId,
    "X"
);

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A real number.
    Real,
    /// An integer of 64 bits.
    Int,
    /// The type of `()`.
    Unit,
    /// Pairs.
    Pair(TypeId, TypeId),
    /// A sum: values of the one type or of the other.
    Sum(TypeId, TypeId),
    /// Functions.
    Fn(TypeId, TypeId),
    /// Arrays of any length.
    Array(TypeId),
    /// A data type, isomorphic to its definition.
    Data(DataId),
    /// Values that only external functions look into, by name.
    Opaque(String),
    /// A linear type: a commutative monoid.
    Linear(LinearType),
    /// No cells.
    NoCells,
    /// Cells of an environment: those before, and the last one.
    Cells(TypeId, TypeId),
    /// Actions on cells that give a result.
    Action(TypeId, TypeId),
    /// Closures: an environment of a hidden type, and a function of it and an argument.
    Closure(TypeId, TypeId),
    /// The type that a closure hides, by the variable that it is opened by.
    Hidden(VarId),
}

/// A data type: a name for a type that may mention the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its name.
    pub name: String,
    /// What it stands for; nothing before it is defined.
    pub definition: Option<TypeId>,
}

/// A function that the evaluator is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// Its name.
    pub name: String,
    /// The type of its argument.
    pub domain: TypeId,
    /// The type of its result.
    pub codomain: TypeId,
}

/// A variable, bound in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, for people.
    pub name: String,
    /// Its type.
    pub ty: TypeId,
}

/// A primitive operation. It takes one argument: a pair where it has two operands, `((a, b), c)` where it has three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prim {
    /// `a + b` of reals.
    Add,
    /// `a * b` of reals.
    Mul,
    /// `-a` of reals.
    Neg,
    /// A function of the operator table, or a partial derivative of one.
    Scalar(Function),
    /// A comparison of reals, `unit + unit`: `inl ()` where it holds.
    Compare(Comparison),
    /// `(unit + unit) + unit`: negative, positive, or neither.
    Order,
    /// The real number that is an integer.
    ToReal,
    /// `a + b` of integers.
    IntAdd,
    /// `a * b` of integers.
    IntMul,
    /// `-a` of integers.
    IntNeg,
    /// The quotient, rounded towards minus infinity.
    IntDiv,
    /// The remainder, of the sign of the divisor.
    IntRem,
    /// A comparison of integers, `unit + unit`: `inl ()` where it holds.
    IntCompare(Comparison),
    /// The sum of an array of reals.
    Sum,
    /// An array without its first element.
    DropFirst,
    /// An array without its last element.
    DropLast,
    /// A linear real times a real.
    Scale,
    /// The opposite of a linear real.
    Opposite,
}

/// An end of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The first element.
    First,
    /// The last element.
    Last,
}

/// A term. A variable beside a term is bound in it.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// A variable.
    Var(VarId),
    /// `let x = value in body`.
    Let(VarId, TermId, TermId),
    /// `()`.
    Unit,
    /// A real number.
    Real(f64),
    /// An integer.
    Int(i64),
    /// A primitive operation.
    Prim(Prim, TermId),
    /// `(a, b)`.
    Pair(TermId, TermId),
    /// `fst e`.
    Fst(TermId),
    /// `snd e`.
    Snd(TermId),
    /// `inl e`, of the given sum type.
    Inl(TypeId, TermId),
    /// `inr e`, of the given sum type.
    Inr(TypeId, TermId),
    /// `case e of {inl x -> a | inr y -> b}`.
    Case(TermId, (VarId, TermId), (VarId, TermId)),
    /// `fn x. e`.
    Fn(VarId, TermId),
    /// `rec f(x). e`: a function that may call itself.
    Rec(VarId, VarId, TermId),
    /// `f e`.
    Apply(TermId, TermId),
    /// `par(a, b)`: a pair of values that may be computed at the same time.
    Par(TermId, TermId),
    /// `build n (i. e)`: the array of `e` for `i = 0, .., n - 1`; empty where `n` is negative.
    Build(TermId, VarId, TermId),
    /// `a ! k`: the element at index `k`.
    Index(TermId, TermId),
    /// `length a`.
    Length(TermId),
    /// `map (x, ..) in (a, ..). e`, of arrays of one length.
    Map(Vec<(VarId, TermId)>, TermId),
    /// `reduce (x, y. e) init a`, from left to right: `e[init, a0]` first. Without `init` the array has an element, which is the start.
    Reduce {
        /// The accumulator and the element.
        vars: (VarId, VarId),
        /// The combination.
        body: TermId,
        /// The start.
        init: Option<TermId>,
        /// The elements.
        array: TermId,
    },
    /// All values of the accumulator: one more than the array has elements, in the order of the array. From the first element on the accumulator is at
    /// the left, `x` of `vars`; from the last one on it is at the right, `y`.
    Scan {
        /// Where to start.
        from: End,
        /// The operands of the combination.
        vars: (VarId, VarId),
        /// The combination.
        body: TermId,
        /// The start.
        init: TermId,
        /// The elements.
        array: TermId,
    },
    /// `fold t < n, s = init. body`: the last state.
    Fold {
        /// The number of steps.
        count: TermId,
        /// The index of the step.
        index: VarId,
        /// The state.
        state: VarId,
        /// The first state.
        init: TermId,
        /// The next state.
        body: TermId,
    },
    /// `iterate s = init while cond. body`: the first state for which the condition does not hold.
    Iterate {
        /// The state.
        state: VarId,
        /// The first state.
        init: TermId,
        /// Of type `unit + unit`; holds where it is `inl ()`.
        cond: TermId,
        /// The next state.
        body: TermId,
    },
    /// A value of a data type, by its definition.
    Roll(DataId, TermId),
    /// The definition of a value of a data type.
    Unroll(TermId),
    /// A call of a function that the evaluator is given.
    External(ExternalId, TermId),
    /// A term of linear types.
    Linear(Linear),
}

impl Term {
    /// Calls `f` with each operand, in the order of evaluation, and the variables that are bound in it.
    pub fn for_each_operand(&self, mut f: impl FnMut(TermId, &[VarId])) {
        match self {
            Term::Var(_) | Term::Unit | Term::Real(_) | Term::Int(_) => {}
            Term::Let(x, value, body) => {
                f(*value, &[]);
                f(*body, &[*x]);
            }
            Term::Prim(_, a)
            | Term::Fst(a)
            | Term::Snd(a)
            | Term::Inl(_, a)
            | Term::Inr(_, a)
            | Term::Length(a)
            | Term::Roll(_, a)
            | Term::Unroll(a)
            | Term::External(_, a) => f(*a, &[]),
            Term::Pair(a, b) | Term::Apply(a, b) | Term::Par(a, b) | Term::Index(a, b) => {
                f(*a, &[]);
                f(*b, &[]);
            }
            Term::Case(e, (x, a), (y, b)) => {
                f(*e, &[]);
                f(*a, &[*x]);
                f(*b, &[*y]);
            }
            Term::Fn(x, body) => f(*body, &[*x]),
            Term::Rec(g, x, body) => f(*body, &[*g, *x]),
            Term::Build(n, i, body) => {
                f(*n, &[]);
                f(*body, &[*i]);
            }
            Term::Map(args, body) => {
                args.iter().for_each(|(_, a)| f(*a, &[]));
                f(*body, &args.iter().map(|(x, _)| *x).collect::<Vec<_>>());
            }
            Term::Reduce { vars: (x, y), body, init, array } => {
                init.iter().for_each(|init| f(*init, &[]));
                f(*array, &[]);
                f(*body, &[*x, *y]);
            }
            Term::Scan { vars: (x, y), body, init, array, .. } => {
                f(*init, &[]);
                f(*array, &[]);
                f(*body, &[*x, *y]);
            }
            Term::Fold { count, index, state, init, body } => {
                f(*count, &[]);
                f(*init, &[]);
                f(*body, &[*index, *state]);
            }
            Term::Iterate { state, init, cond, body } => {
                f(*init, &[]);
                f(*cond, &[*state]);
                f(*body, &[*state]);
            }
            Term::Linear(linear) => linear.for_each_operand(&mut f),
        }
    }

    /// The operands, in the order of evaluation.
    pub fn operands(&self) -> Vec<TermId> {
        let mut operands = Vec::new();
        self.for_each_operand(|e, _| operands.push(e));
        operands
    }

    /// The same term of other operands and variables.
    pub fn rename(&self, e: impl Fn(TermId) -> TermId, x: impl Fn(VarId) -> VarId) -> Term {
        match self {
            Term::Var(v) => Term::Var(x(*v)),
            Term::Unit => Term::Unit,
            Term::Real(r) => Term::Real(*r),
            Term::Int(k) => Term::Int(*k),
            Term::Let(v, a, b) => Term::Let(x(*v), e(*a), e(*b)),
            Term::Prim(p, a) => Term::Prim(*p, e(*a)),
            Term::Pair(a, b) => Term::Pair(e(*a), e(*b)),
            Term::Fst(a) => Term::Fst(e(*a)),
            Term::Snd(a) => Term::Snd(e(*a)),
            Term::Inl(t, a) => Term::Inl(*t, e(*a)),
            Term::Inr(t, a) => Term::Inr(*t, e(*a)),
            Term::Case(s, (v, a), (w, b)) => Term::Case(e(*s), (x(*v), e(*a)), (x(*w), e(*b))),
            Term::Fn(v, a) => Term::Fn(x(*v), e(*a)),
            Term::Rec(g, v, a) => Term::Rec(x(*g), x(*v), e(*a)),
            Term::Apply(a, b) => Term::Apply(e(*a), e(*b)),
            Term::Par(a, b) => Term::Par(e(*a), e(*b)),
            Term::Build(n, i, a) => Term::Build(e(*n), x(*i), e(*a)),
            Term::Index(a, k) => Term::Index(e(*a), e(*k)),
            Term::Length(a) => Term::Length(e(*a)),
            Term::Map(args, body) => Term::Map(args.iter().map(|(v, a)| (x(*v), e(*a))).collect(), e(*body)),
            Term::Reduce { vars: (v, w), body, init, array } => {
                Term::Reduce { vars: (x(*v), x(*w)), body: e(*body), init: init.map(&e), array: e(*array) }
            }
            Term::Scan { from, vars: (v, w), body, init, array } => {
                Term::Scan { from: *from, vars: (x(*v), x(*w)), body: e(*body), init: e(*init), array: e(*array) }
            }
            Term::Fold { count, index, state, init, body } => {
                Term::Fold { count: e(*count), index: x(*index), state: x(*state), init: e(*init), body: e(*body) }
            }
            Term::Iterate { state, init, cond, body } => {
                Term::Iterate { state: x(*state), init: e(*init), cond: e(*cond), body: e(*body) }
            }
            Term::Roll(d, a) => Term::Roll(*d, e(*a)),
            Term::Unroll(a) => Term::Unroll(e(*a)),
            Term::External(f, a) => Term::External(*f, e(*a)),
            Term::Linear(linear) => Term::Linear(linear.rename(e, x)),
        }
    }
}

/// What the types of a program, its variables and its terms are said in.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The types.
    pub types: Types,
    /// The data types.
    pub data: Arena<DataId, Data>,
    /// The registered scalar functions.
    pub users: Users,
    /// The functions that the evaluator is given.
    pub externals: Arena<ExternalId, External>,
    /// The variables.
    pub vars: Arena<VarId, Variable>,
    /// The terms.
    pub terms: Arena<TermId, Term>,
    /// The type of each term.
    pub term_types: Vec<TypeId>,
}

impl Context {
    /// The type of a term.
    pub fn ty(&self, e: TermId) -> TypeId {
        self.term_types[e.index()]
    }

    /// The type of a variable.
    pub fn var_ty(&self, x: VarId) -> TypeId {
        self.vars[x].ty
    }
}

/// A program: a term with free variables.
#[derive(Clone, Debug)]
pub struct Program {
    /// Types, variables and terms.
    pub context: Context,
    /// The free variables, in order.
    pub params: Vec<VarId>,
    /// The term.
    pub body: TermId,
}

impl Program {
    /// The type of the result.
    pub fn result(&self) -> TypeId {
        self.context.ty(self.body)
    }

    /// The number of terms.
    pub fn size(&self) -> usize {
        self.context.terms.len()
    }
}

impl std::ops::Deref for Program {
    type Target = Context;
    fn deref(&self) -> &Context {
        &self.context
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::print::program(self, f)
    }
}

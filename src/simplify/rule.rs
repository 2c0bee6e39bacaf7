//! Rules as data: two patterns, side conditions, and how far the identity holds.
//!
//! A pattern is an expression with *metavariables*. Their kind is told by the first letter of their name:
//!
//! | letters | stands for |
//! |---|---|
//! | `a b e` | an expression |
//! | `c d` | a literal |
//! | `f` | a scalar function |
//! | `i j` | an index |
//! | `I J` | any number of indices with their ranges, none included |
//! | `k l` | an integer constant: an exponent |
//! | `n m` | a size |
//! | `p q` | a predicate |
//! | `s t` | an affine index expression |
//!
//! What stands for an expression or a predicate mentions an index that the pattern binds only if it is applied to it: in
//! `sum i < n. a * e(i)` the expression `a` does not depend on `i`. On the right-hand side `e(s)` is `e(i)` with `s` for `i`. (Such higher-order
//! patterns make "where `i` does not occur in `a`" part of the pattern, and substitution the only operation of the right-hand side.)

use super::conditions::Condition;
use crate::scalar::Function;

/// A metavariable of a rule, by its number.
pub(super) type Meta = usize;

/// What a metavariable stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Expr,
    Literal,
    Function,
    Index,
    Indices,
    Integer,
    Size,
    Pred,
    Affine,
}

impl Kind {
    /// The kind that a name tells.
    pub(super) fn of(name: &str) -> Option<Kind> {
        Some(match name.chars().next()? {
            'a' | 'b' | 'e' => Kind::Expr,
            'c' | 'd' => Kind::Literal,
            'f' => Kind::Function,
            'i' | 'j' => Kind::Index,
            'I' | 'J' => Kind::Indices,
            'k' | 'l' => Kind::Integer,
            'n' | 'm' => Kind::Size,
            'p' | 'q' => Kind::Pred,
            's' | 't' => Kind::Affine,
            _ => return None,
        })
    }
}

/// How far both sides of a rule agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Bit for bit.
    Exact,
    /// Up to the sign of zero.
    SignedZero,
    /// As real numbers, where the left-hand side is finite.
    Finite,
}

/// When a rule is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whenever an expression is built; the left-hand side is not kept.
    Normal,
    /// In the e-graph; the node that matched is not looked at again.
    Reduce,
    /// In the e-graph; both sides are kept, and the cost decides.
    Explore,
}

/// An integer template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Integer {
    Constant(i64),
    Meta(Meta),
    Add(Box<Integer>, Box<Integer>),
    Mul(Box<Integer>, Box<Integer>),
}

/// An affine template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Linear {
    Constant(i64),
    Meta(Meta),
    Add(Box<Linear>, Box<Linear>),
    Scaled(i64, Box<Linear>),
}

/// What a metavariable is applied to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Arg {
    Linear(Linear),
    Indices(Meta),
}

/// A scalar function, or what stands for one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Head {
    Fixed(Function),
    Power(Integer),
    Meta(Meta),
}

/// A predicate.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PredPattern {
    Meta(Meta, Vec<Arg>),
    Equal(Linear, Linear),
    LessEqual(Linear, Linear),
    Less(Linear, Linear),
    Unequal(Linear, Linear),
    Or(Vec<PredPattern>),
}

/// `i < n`, or a list of indices.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Binder {
    One(Meta, Linear),
    Many(Meta),
}

/// An expression with metavariables.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pattern {
    Meta(Meta, Vec<Arg>),
    Number(f64),
    Literal(Meta),
    Real(Linear),
    Product {
        binders: Vec<Binder>,
        guard: Vec<PredPattern>,
        factors: Vec<Pattern>,
    },
    Sum(Vec<Pattern>),
    Apply(Head, Vec<Pattern>),
    /// Any read of a tensor.
    Read(Meta),
    /// An element of a tensor: on the left what a read stands for, on the right a tensor of its own.
    Element(Box<Pattern>),
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name, `sum-one-hot`.
    pub name: String,
    /// What it says, in words.
    pub comment: String,
    /// How far it holds.
    pub tier: Tier,
    /// When it is applied.
    pub mode: Mode,
    /// Where it stands: the file and the line.
    pub place: (String, usize),
    /// The identity as it is written.
    pub text: String,
    /// An expression on which it fires, in the language, over `i, j, k < n`.
    pub example: String,
    pub(super) metas: Vec<(String, Kind)>,
    pub(super) lhs: Pattern,
    pub(super) rhs: Pattern,
    pub(super) conditions: Vec<Condition>,
}

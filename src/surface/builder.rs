//! Programs written in Rust: closures for binders, overloaded operators, sizes as values.
//!
//! ```
//! use iverson::surface::builder::{Builder, r#gen, let_, sum};
//!
//! let b = Builder::new();
//! let (n, m) = (b.size("n"), b.size("m"));
//! let x = b.param("x", [n + m - 1]);
//! let w = b.param("w", [m]);
//! let z = b.param("z", [n]);
//! let y = r#gen(n, |i| sum(m, |j| x.at([i - j + (m - 1)]) * w.at([j])));
//! let loss = let_(y, |y| sum(n, |i| (y.at([i]) - z.at([i])).powi(2)));
//! let ast = b.finish(loss)?;
//! assert_eq!(ast.decls.len(), 3);
//! # Ok::<(), iverson::Error>(())
//! ```
//!
//! A [`Builder`] owns a graph; [`Expr`], [`Index`] and [`Guard`] are places in it, and are copied freely. `gen` is a word of the
//! Rust 2024 language, hence `r#gen`.
//!
//! # From graph to tree
//!
//! An expression used several times is one node with several users, and [`Builder::finish`] makes the tree with `let`s that the
//! rest of the compiler expects. Names, literals, index expressions, predicates and plain reads such as `x[i]` cost nothing and
//! are repeated. Every other real or tensor expression `e` with several uses is bound once:
//!
//! ```text
//! d[.. e .. [p] * (.. e ..) ..]   becomes   let t = e in d[.. t .. [p] * (.. t ..) ..]
//! ```
//!
//! 1. *Where.* The `let` stands around the immediate dominator `d` of `e`: the lowest node that lies on every path from the root
//!    to `e`, or the next such node above it that is no predicate or index. A binder whose index `e` mentions lies on all
//!    those paths too, and so above `d`: the `let` never leaves a scope. If `x` uses `y` and both are bound around the same node,
//!    `y` comes first, since operands are older than their users.
//! 2. *Under which guard.* If all uses stand under brackets, or under binders whose range may be empty, then outside of them
//!    `e` may read out of bounds or divide by zero. So the value is `[q] * e`, where `q` is the union over the uses of what
//!    holds there: the brackets on the way from `d`, under `exists` for the binders on the way, and `0 < n` for a binder that no
//!    bracket follows. `q` is an over-approximation at worst: a bracket is left out when it reads a value that is not bound
//!    around `d`, and `q` is dropped when it has more than [`MAX_GUARD`] nodes. That changes no value, as `t` is only read
//!    where the brackets hold.
//! 3. *Repeated after all* are real expressions inside an `exists` of a predicate that is itself repeated.
//!
//! Dominators come from one pass in reverse order with skew-binary ancestor pointers, so time is `O(n log n)` in the nodes; nothing
//! recurses.

mod emit;
mod sharing;

use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

use rustc_hash::{FxHashMap, FxHashSet};

use self::emit::Emit;
use super::MAX_TYPE_NESTING;
use super::ast::{Ast, BinaryOp, BinderKind, StorageKind, UnaryOp};
use super::parser::MAX_EXPRS;
use crate::base::{Format, Span};
use crate::error::{Diagnostic, Error, Result};
use crate::lexer::is_name;

/// The largest guard, in nodes, that is put around a shared value.
pub const MAX_GUARD: usize = 256;
/// The most guarded nodes between a use and its `let` that are looked at.
const MAX_STEPS: usize = 64;
/// The deepest nesting of such a guard.
const MAX_DEPTH: usize = 32;
/// The most disjuncts of a guard around a shared value.
const MAX_USES: usize = 16;

type NodeId = u32;
/// An index or a `let` variable, which gets its name at the end.
type BoundId = u32;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sort {
    Real,
    Index,
    Guard,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Error,
    Number {
        value: f64,
        integer: Option<i64>,
    },
    Name(String),
    Bound(BoundId),
    Unary(UnaryOp),
    Binary(BinaryOp),
    Iverson,
    Call(String),
    Access,
    Pair,
    Fst,
    Snd,
    Binder(BinderKind, BoundId),
    /// `argmax i < n. v[i]` with operands `n` and `v`.
    Arg(BinderKind, BoundId),
    Let(BoundId),
}

#[derive(Debug)]
struct Node {
    kind: Kind,
    sort: Sort,
    /// Whether it is repeated at each use.
    repeated: bool,
    operands: Vec<NodeId>,
}

#[derive(Debug)]
enum Declared {
    Param { name: String, storage: StorageKind, ty: Shape },
    Relation { name: String, shape: Vec<NodeId> },
    Map { name: String, source: Vec<NodeId>, target: NodeId },
    Assume { pred: NodeId },
    Fun { name: String, params: Vec<String>, value: NodeId, partials: Vec<NodeId> },
}

#[derive(Clone, Debug)]
enum Shape {
    Real,
    Tensor(Vec<NodeId>, Box<Shape>),
    Pair(Box<Shape>, Box<Shape>),
    TooDeep,
}

#[derive(Debug, Default)]
struct Graph {
    nodes: Vec<Node>,
    decls: Vec<Declared>,
    names: FxHashSet<String>,
    problems: Vec<Diagnostic>,
    n_bound: BoundId,
    too_large: bool,
}

impl Graph {
    fn push(&mut self, kind: Kind, sort: Sort, operands: Vec<NodeId>) -> NodeId {
        if self.nodes.len() >= MAX_EXPRS {
            self.too_large = true;
            return 0;
        }
        let of_repeated =
            |k: usize| operands.get(k).and_then(|o| self.nodes.get(*o as usize)).is_some_and(|o| o.repeated);
        let repeated = sort != Sort::Real
            || match &kind {
                Kind::Error | Kind::Number { .. } | Kind::Name(_) | Kind::Bound(_) => true,
                Kind::Call(callee) => callee == "real" || callee.ends_with(".value"),
                Kind::Access | Kind::Fst | Kind::Snd => of_repeated(0),
                Kind::Unary(UnaryOp::Neg) => operands
                    .first()
                    .and_then(|o| self.nodes.get(*o as usize))
                    .is_some_and(|o| matches!(o.kind, Kind::Number { .. })),
                _ => false,
            };
        self.nodes.push(Node { kind, sort, repeated, operands });
        (self.nodes.len() - 1) as NodeId
    }

    fn number(&mut self, value: f64, integer: Option<i64>, sort: Sort) -> NodeId {
        if value < 0.0 || value == 0.0 && value.is_sign_negative() {
            let positive = Kind::Number { value: -value, integer: integer.and_then(i64::checked_neg) };
            let operand = self.push(positive, sort, vec![]);
            return self.push(Kind::Unary(UnaryOp::Neg), sort, vec![operand]);
        }
        self.push(Kind::Number { value, integer }, sort, vec![])
    }

    fn bound(&mut self) -> BoundId {
        let bound = self.n_bound;
        self.n_bound = bound.saturating_add(1);
        bound
    }
}

/// A program under construction: its declarations, and the graph of its expressions.
#[derive(Debug)]
pub struct Builder {
    graph: RefCell<Graph>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder::new()
    }
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident $sort:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'b> {
            builder: &'b Builder,
            id: NodeId,
        }

        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.id)
            }
        }

        impl<'b> $name<'b> {
            fn make(builder: &'b Builder, kind: Kind, operands: Vec<NodeId>) -> Self {
                $name { builder, id: builder.graph.borrow_mut().push(kind, Sort::$sort, operands) }
            }

            /// Its place in the graph of `builder`; an expression of another program is a problem of this one.
            fn within(self, builder: &'b Builder) -> NodeId {
                if std::ptr::eq(self.builder, builder) {
                    return self.id;
                }
                builder.problem("foreign-expression", "expected expressions of one builder, found one of another builder");
                0
            }
        }
    )*};
}

handles! {
    /// A real number, a tensor or a pair.
    Expr Real;
    /// An index expression or a size.
    Index Index;
    /// A predicate: what stands in a bracket.
    Guard Guard;
}

/// What can stand where a real is expected: an [`Expr`], a number, an index or size.
pub trait Real<'b> {
    /// The expression, in the graph of `builder`.
    fn real(self, builder: &'b Builder) -> Expr<'b>;
}

/// What can stand where an index is expected: an [`Index`] or an integer.
pub trait Affine<'b> {
    /// The index expression, in the graph of `builder`.
    fn index(self, builder: &'b Builder) -> Index<'b>;
}

impl<'b> Real<'b> for Expr<'b> {
    fn real(self, _: &'b Builder) -> Expr<'b> {
        self
    }
}

impl<'b> Real<'b> for f64 {
    fn real(self, builder: &'b Builder) -> Expr<'b> {
        builder.real(self)
    }
}

impl<'b> Real<'b> for i64 {
    fn real(self, builder: &'b Builder) -> Expr<'b> {
        let id = builder.graph.borrow_mut().number(self as f64, Some(self), Sort::Real);
        Expr { builder, id }
    }
}

impl<'b> Real<'b> for Index<'b> {
    fn real(self, _: &'b Builder) -> Expr<'b> {
        Expr::from(self)
    }
}

impl<'b> Affine<'b> for Index<'b> {
    fn index(self, _: &'b Builder) -> Index<'b> {
        self
    }
}

impl<'b> Affine<'b> for i64 {
    fn index(self, builder: &'b Builder) -> Index<'b> {
        builder.index(self)
    }
}

impl<'b> From<Index<'b>> for Expr<'b> {
    /// `real(i)`.
    fn from(index: Index<'b>) -> Self {
        Expr::make(index.builder, Kind::Call("real".into()), vec![index.id])
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<'b, R: Real<'b>> $trait<R> for Expr<'b> {
            type Output = Expr<'b>;
            fn $method(self, right: R) -> Expr<'b> {
                self.binary(BinaryOp::$op, right)
            }
        }

        impl<'b> $trait<Expr<'b>> for f64 {
            type Output = Expr<'b>;
            fn $method(self, right: Expr<'b>) -> Expr<'b> {
                self.real(right.builder).binary(BinaryOp::$op, right)
            }
        }

        impl<'b> $trait<Expr<'b>> for i64 {
            type Output = Expr<'b>;
            fn $method(self, right: Expr<'b>) -> Expr<'b> {
                self.real(right.builder).binary(BinaryOp::$op, right)
            }
        }

        impl<'b> $trait<Expr<'b>> for Index<'b> {
            type Output = Expr<'b>;
            fn $method(self, right: Expr<'b>) -> Expr<'b> {
                Expr::from(self).binary(BinaryOp::$op, right)
            }
        }
    )*};
}

operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
}

macro_rules! index_operators {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<'b, R: Affine<'b>> $trait<R> for Index<'b> {
            type Output = Index<'b>;
            fn $method(self, right: R) -> Index<'b> {
                let right = right.index(self.builder).within(self.builder);
                Index::make(self.builder, Kind::Binary(BinaryOp::$op), vec![self.id, right])
            }
        }

        impl<'b> $trait<Index<'b>> for i64 {
            type Output = Index<'b>;
            fn $method(self, right: Index<'b>) -> Index<'b> {
                $trait::$method(self.index(right.builder), right)
            }
        }
    )*};
}

index_operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
}

impl<'b> Neg for Expr<'b> {
    type Output = Expr<'b>;
    fn neg(self) -> Expr<'b> {
        Expr::make(self.builder, Kind::Unary(UnaryOp::Neg), vec![self.id])
    }
}

impl<'b> Neg for Index<'b> {
    type Output = Index<'b>;
    fn neg(self) -> Index<'b> {
        Index::make(self.builder, Kind::Unary(UnaryOp::Neg), vec![self.id])
    }
}

impl<'b> BitAnd for Guard<'b> {
    type Output = Guard<'b>;
    fn bitand(self, right: Guard<'b>) -> Guard<'b> {
        let right = right.within(self.builder);
        Guard::make(self.builder, Kind::Binary(BinaryOp::And), vec![self.id, right])
    }
}

impl<'b> BitOr for Guard<'b> {
    type Output = Guard<'b>;
    fn bitor(self, right: Guard<'b>) -> Guard<'b> {
        let right = right.within(self.builder);
        Guard::make(self.builder, Kind::Binary(BinaryOp::Or), vec![self.id, right])
    }
}

impl<'b> Not for Guard<'b> {
    type Output = Guard<'b>;
    fn not(self) -> Guard<'b> {
        Guard::make(self.builder, Kind::Unary(UnaryOp::Not), vec![self.id])
    }
}

/// `[p] * e`.
impl<'b, R: Real<'b>> Mul<R> for Guard<'b> {
    type Output = Expr<'b>;
    fn mul(self, body: R) -> Expr<'b> {
        let body = body.real(self.builder).within(self.builder);
        Expr::make(self.builder, Kind::Iverson, vec![self.id, body])
    }
}

macro_rules! scalar_functions {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(self) -> Expr<'b> {
            self.call(stringify!($name), vec![])
        }
    )*};
}

impl<'b> Expr<'b> {
    fn binary(self, op: BinaryOp, right: impl Real<'b>) -> Expr<'b> {
        let right = right.real(self.builder).within(self.builder);
        Expr::make(self.builder, Kind::Binary(op), vec![self.id, right])
    }

    fn compare(self, op: BinaryOp, right: impl Real<'b>) -> Guard<'b> {
        let right = right.real(self.builder).within(self.builder);
        Guard::make(self.builder, Kind::Binary(op), vec![self.id, right])
    }

    fn call(self, callee: &str, rest: Vec<NodeId>) -> Expr<'b> {
        let operands = std::iter::once(self.id).chain(rest).collect();
        Expr::make(self.builder, Kind::Call(callee.to_string()), operands)
    }

    scalar_functions! {
        /// `e^self`.
        exp;
        /// The natural logarithm.
        ln;
        /// `ln(1 + self)`.
        log1p;
        /// `e^self - 1`.
        expm1;
        /// The square root.
        sqrt;
        /// The sine.
        sin;
        /// The cosine.
        cos;
        /// The tangent.
        tan;
        /// The hyperbolic tangent.
        tanh;
        /// The hyperbolic sine.
        sinh;
        /// The hyperbolic cosine.
        cosh;
        /// The arc sine.
        asin;
        /// The arc cosine.
        acos;
        /// The arc tangent.
        atan;
        /// The cube root.
        cbrt;
        /// The absolute value.
        abs;
        /// The error function.
        erf;
        /// `1 / (1 + e^-self)`.
        sigmoid;
        /// `ln(1 + e^self)`.
        softplus;
        /// `ln |gamma(self)|`.
        lgamma;
        /// The derivative of `lgamma`.
        digamma;
    }

    /// The angle of the point `(x, self)`.
    pub fn atan2(self, x: impl Real<'b>) -> Expr<'b> {
        let x = x.real(self.builder).within(self.builder);
        self.call("atan2", vec![x])
    }

    /// The larger of two.
    pub fn max(self, other: impl Real<'b>) -> Expr<'b> {
        let other = other.real(self.builder).within(self.builder);
        self.call("max", vec![other])
    }

    /// The smaller of two.
    pub fn min(self, other: impl Real<'b>) -> Expr<'b> {
        let other = other.real(self.builder).within(self.builder);
        self.call("min", vec![other])
    }

    /// `self^exponent`, an integer power.
    pub fn powi(self, exponent: i32) -> Expr<'b> {
        self.binary(BinaryOp::Pow, i64::from(exponent))
    }

    /// `self^exponent`, a real power.
    pub fn powf(self, exponent: f64) -> Expr<'b> {
        self.binary(BinaryOp::Pow, exponent)
    }

    /// `self^exponent`.
    pub fn pow(self, exponent: impl Real<'b>) -> Expr<'b> {
        self.binary(BinaryOp::Pow, exponent)
    }

    /// `self[i, ..]`: an element, or a slice if there are fewer indices than dimensions; itself without indices.
    pub fn at<I: Affine<'b>>(self, indices: impl IntoIterator<Item = I>) -> Expr<'b> {
        let operands: Vec<NodeId> = std::iter::once(self.id).chain(self.builder.indices(indices)).collect();
        if operands.len() == 1 {
            return self;
        }
        Expr::make(self.builder, Kind::Access, operands)
    }

    /// `(self, second)`.
    pub fn pair(self, second: impl Real<'b>) -> Expr<'b> {
        let second = second.real(self.builder).within(self.builder);
        Expr::make(self.builder, Kind::Pair, vec![self.id, second])
    }

    /// The first component of a pair.
    pub fn fst(self) -> Expr<'b> {
        Expr::make(self.builder, Kind::Fst, vec![self.id])
    }

    /// The second component of a pair.
    pub fn snd(self) -> Expr<'b> {
        Expr::make(self.builder, Kind::Snd, vec![self.id])
    }

    /// `self < right`
    pub fn lt(self, right: impl Real<'b>) -> Guard<'b> {
        self.compare(BinaryOp::Less, right)
    }

    /// `self <= right`
    pub fn le(self, right: impl Real<'b>) -> Guard<'b> {
        self.compare(BinaryOp::LessEqual, right)
    }

    /// `self > right`
    pub fn gt(self, right: impl Real<'b>) -> Guard<'b> {
        self.compare(BinaryOp::Greater, right)
    }

    /// `self >= right`
    pub fn ge(self, right: impl Real<'b>) -> Guard<'b> {
        self.compare(BinaryOp::GreaterEqual, right)
    }

    /// `self = right`
    pub fn eq(self, right: impl Real<'b>) -> Guard<'b> {
        self.compare(BinaryOp::Equal, right)
    }

    /// `self != right`
    pub fn ne(self, right: impl Real<'b>) -> Guard<'b> {
        self.compare(BinaryOp::NotEqual, right)
    }
}

impl<'b> Index<'b> {
    fn compare(self, op: BinaryOp, right: impl Affine<'b>) -> Guard<'b> {
        let right = right.index(self.builder).within(self.builder);
        Guard::make(self.builder, Kind::Binary(op), vec![self.id, right])
    }

    /// `self < right`
    pub fn lt(self, right: impl Affine<'b>) -> Guard<'b> {
        self.compare(BinaryOp::Less, right)
    }

    /// `self <= right`
    pub fn le(self, right: impl Affine<'b>) -> Guard<'b> {
        self.compare(BinaryOp::LessEqual, right)
    }

    /// `self > right`
    pub fn gt(self, right: impl Affine<'b>) -> Guard<'b> {
        self.compare(BinaryOp::Greater, right)
    }

    /// `self >= right`
    pub fn ge(self, right: impl Affine<'b>) -> Guard<'b> {
        self.compare(BinaryOp::GreaterEqual, right)
    }

    /// `self = right`
    pub fn eq(self, right: impl Affine<'b>) -> Guard<'b> {
        self.compare(BinaryOp::Equal, right)
    }

    /// `self != right`
    pub fn ne(self, right: impl Affine<'b>) -> Guard<'b> {
        self.compare(BinaryOp::NotEqual, right)
    }
}

macro_rules! binders {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<'b, R: Real<'b>>(extent: Index<'b>, body: impl FnOnce(Index<'b>) -> R) -> Expr<'b> {
            let builder = extent.builder;
            let (bound, index) = builder.bound_index();
            let body = body(index).real(builder).within(builder);
            Expr::make(builder, Kind::Binder(BinderKind::$kind, bound), vec![extent.id, body])
        }
    )*};
}

binders! {
    /// `gen i < extent. body(i)`: the tensor of the values of the body.
    r#gen Gen;
    /// `sum i < extent. body(i)`
    sum Sum;
    /// `max i < extent. body(i)`, and minus infinity over an empty range. Of two numbers it is [`Expr::max`].
    max Max;
    /// `min i < extent. body(i)`, and infinity over an empty range. Of two numbers it is [`Expr::min`].
    min Min;
}

fn arg<'b, R: Real<'b>>(kind: BinderKind, extent: Index<'b>, body: impl FnOnce(Index<'b>) -> R) -> Index<'b> {
    let values = r#gen(extent, body);
    let (bound, _) = extent.builder.bound_index();
    Index::make(extent.builder, Kind::Arg(kind, bound), vec![extent.id, values.id])
}

/// `argmax i < extent. body(i)`: the first index at which the body is largest.
pub fn argmax<'b, R: Real<'b>>(extent: Index<'b>, body: impl FnOnce(Index<'b>) -> R) -> Index<'b> {
    arg(BinderKind::ArgMax, extent, body)
}

/// `argmin i < extent. body(i)`: the first index at which the body is smallest.
pub fn argmin<'b, R: Real<'b>>(extent: Index<'b>, body: impl FnOnce(Index<'b>) -> R) -> Index<'b> {
    arg(BinderKind::ArgMin, extent, body)
}

/// `exists i < extent. body(i)`
pub fn exists<'b>(extent: Index<'b>, body: impl FnOnce(Index<'b>) -> Guard<'b>) -> Guard<'b> {
    let builder = extent.builder;
    let (bound, index) = builder.bound_index();
    let body = body(index).within(builder);
    Guard::make(builder, Kind::Binder(BinderKind::Exists, bound), vec![extent.id, body])
}

/// `let x = value in body(x)`. Sharing needs no `let`: an expression used several times is computed once.
pub fn let_<'b, R: Real<'b>>(value: Expr<'b>, body: impl FnOnce(Expr<'b>) -> R) -> Expr<'b> {
    let builder = value.builder;
    let bound = builder.graph.borrow_mut().bound();
    let variable = Expr::make(builder, Kind::Bound(bound), vec![]);
    let body = body(variable).real(builder).within(builder);
    Expr::make(builder, Kind::Let(bound), vec![value.id, body])
}

/// `select(guard, a, b)`: `a` where the guard holds, else `b`.
pub fn select<'b>(guard: Guard<'b>, a: impl Real<'b>, b: impl Real<'b>) -> Expr<'b> {
    let builder = guard.builder;
    let (a, b) = (a.real(builder).within(builder), b.real(builder).within(builder));
    Expr::make(builder, Kind::Call("select".into()), vec![guard.id, a, b])
}

/// The type of a parameter.
#[derive(Clone, Debug)]
pub struct Type<'b> {
    builder: &'b Builder,
    shape: Shape,
    depth: usize,
}

impl<'b> Type<'b> {
    fn nest(builder: &'b Builder, depth: usize, shape: Shape) -> Self {
        if depth >= MAX_TYPE_NESTING {
            return Type { builder, shape: Shape::TooDeep, depth: 0 };
        }
        Type { builder, shape, depth }
    }

    /// `[n, ..] self`; itself without sizes.
    pub fn tensor<I: Affine<'b>>(self, shape: impl IntoIterator<Item = I>) -> Self {
        let sizes = self.builder.indices(shape);
        if sizes.is_empty() {
            return self;
        }
        Type::nest(self.builder, self.depth + 1, Shape::Tensor(sizes, Box::new(self.shape)))
    }

    /// `(self, second)`
    pub fn pair(self, second: Type<'b>) -> Self {
        let depth = self.depth.max(second.depth) + 1;
        Type::nest(self.builder, depth, Shape::Pair(Box::new(self.shape), Box::new(second.shape)))
    }
}

/// A sparse parameter.
#[derive(Clone, Copy, Debug)]
pub struct Sparse<'b> {
    tensor: Expr<'b>,
}

impl<'b> Sparse<'b> {
    /// The tensor, to be passed whole.
    pub fn tensor(self) -> Expr<'b> {
        self.tensor
    }

    /// `A[i, j]`: the stored value, and 0 where none is stored.
    pub fn at<I: Affine<'b>>(self, indices: impl IntoIterator<Item = I>) -> Expr<'b> {
        self.tensor.at(indices)
    }

    fn member<I: Affine<'b>>(self, suffix: &str, indices: impl IntoIterator<Item = I>) -> (Kind, Vec<NodeId>) {
        let builder = self.tensor.builder;
        let name = match builder.graph.borrow().nodes.get(self.tensor.id as usize) {
            Some(Node { kind: Kind::Name(name), .. }) => format!("{name}{suffix}"),
            _ => suffix.to_string(),
        };
        (Kind::Call(name), builder.indices(indices))
    }

    /// `A.value(i, j)`: the stored value, where the guards around it imply [`Sparse::stores`].
    pub fn value<I: Affine<'b>>(self, indices: impl IntoIterator<Item = I>) -> Expr<'b> {
        let (kind, indices) = self.member(".value", indices);
        Expr::make(self.tensor.builder, kind, indices)
    }

    /// `A?(i, j)`: whether a value is stored there.
    pub fn stores<I: Affine<'b>>(self, indices: impl IntoIterator<Item = I>) -> Guard<'b> {
        let (kind, indices) = self.member("?", indices);
        Guard::make(self.tensor.builder, kind, indices)
    }
}

/// A declared relation.
#[derive(Clone, Debug)]
pub struct Relation<'b> {
    builder: &'b Builder,
    name: String,
}

impl<'b> Relation<'b> {
    /// `R(i, ..)`
    pub fn holds<I: Affine<'b>>(&self, indices: impl IntoIterator<Item = I>) -> Guard<'b> {
        Guard::make(self.builder, Kind::Call(self.name.clone()), self.builder.indices(indices))
    }
}

/// A declared map.
#[derive(Clone, Debug)]
pub struct Map<'b> {
    builder: &'b Builder,
    name: String,
}

impl<'b> Map<'b> {
    /// The target of `(i, ..)`.
    pub fn of<I: Affine<'b>>(&self, indices: impl IntoIterator<Item = I>) -> Index<'b> {
        Index::make(self.builder, Kind::Call(self.name.clone()), self.builder.indices(indices))
    }
}

/// A declared scalar function.
#[derive(Clone, Debug)]
pub struct Function<'b> {
    builder: &'b Builder,
    name: String,
}

impl<'b> Function<'b> {
    /// `f(a, ..)`
    pub fn call<R: Real<'b>>(&self, args: impl IntoIterator<Item = R>) -> Expr<'b> {
        self.builder.call(&self.name, args)
    }
}

impl Builder {
    /// An empty program.
    pub fn new() -> Self {
        let mut graph = Graph::default();
        // What stands for anything that could not be built is node 0.
        graph.push(Kind::Error, Sort::Real, vec![]);
        Builder { graph: RefCell::new(graph) }
    }

    fn problem(&self, code: &'static str, message: impl Into<String>) {
        self.graph.borrow_mut().problems.push(Diagnostic::new(code, Span::default(), message));
    }

    fn name(&self, name: &str) -> String {
        if !is_name(name) {
            self.problem("bad-name", format!("expected a name of letters, digits, `_` and `'`, found `{name}`"));
        }
        self.graph.borrow_mut().names.insert(name.to_string());
        name.to_string()
    }

    fn indices<'b, I: Affine<'b>>(&'b self, indices: impl IntoIterator<Item = I>) -> Vec<NodeId> {
        indices.into_iter().map(|index| index.index(self).within(self)).collect()
    }

    fn bound_index(&self) -> (BoundId, Index<'_>) {
        let bound = self.graph.borrow_mut().bound();
        (bound, Index::make(self, Kind::Bound(bound), vec![]))
    }

    fn declare(&self, decl: Declared) {
        self.graph.borrow_mut().decls.push(decl);
    }

    /// The size variable of this name.
    pub fn size(&self, name: &str) -> Index<'_> {
        Index::make(self, Kind::Name(self.name(name)), vec![])
    }

    /// A constant index or size.
    pub fn index(&self, value: i64) -> Index<'_> {
        let id = self.graph.borrow_mut().number(value as f64, Some(value), Sort::Index);
        Index { builder: self, id }
    }

    /// A constant.
    pub fn real(&self, value: f64) -> Expr<'_> {
        let id = self.graph.borrow_mut().number(value, None, Sort::Real);
        Expr { builder: self, id }
    }

    /// The type `real`.
    pub fn real_type(&self) -> Type<'_> {
        Type { builder: self, shape: Shape::Real, depth: 0 }
    }

    fn declare_param(&self, name: &str, storage: StorageKind, ty: Type<'_>) -> Expr<'_> {
        let name = self.name(name);
        if !std::ptr::eq(ty.builder, self) {
            self.problem("foreign-expression", "expected expressions of one builder, found a type of another builder");
        } else {
            self.declare(Declared::Param { name: name.clone(), storage, ty: ty.shape });
        }
        Expr::make(self, Kind::Name(name), vec![])
    }

    /// `param name : real`
    pub fn scalar(&self, name: &str) -> Expr<'_> {
        self.declare_param(name, StorageKind::Dense, self.real_type())
    }

    /// `param name : [n, ..] real`
    pub fn param<'b, I: Affine<'b>>(&'b self, name: &str, shape: impl IntoIterator<Item = I>) -> Expr<'b> {
        self.declare_param(name, StorageKind::Dense, self.real_type().tensor(shape))
    }

    /// `param name : ty`
    pub fn param_of<'b>(&'b self, name: &str, ty: Type<'b>) -> Expr<'b> {
        self.declare_param(name, StorageKind::Dense, ty)
    }

    /// `param name : csr [m, n] real`
    pub fn csr<'b, I: Affine<'b>>(&'b self, name: &str, shape: impl IntoIterator<Item = I>) -> Sparse<'b> {
        Sparse { tensor: self.declare_param(name, StorageKind::Sparse(Format::Csr), self.real_type().tensor(shape)) }
    }

    /// `param name : csc [m, n] real`
    pub fn csc<'b, I: Affine<'b>>(&'b self, name: &str, shape: impl IntoIterator<Item = I>) -> Sparse<'b> {
        Sparse { tensor: self.declare_param(name, StorageKind::Sparse(Format::Csc), self.real_type().tensor(shape)) }
    }

    /// `param name : coo [n, ..] real`
    pub fn coo<'b, I: Affine<'b>>(&'b self, name: &str, shape: impl IntoIterator<Item = I>) -> Sparse<'b> {
        Sparse { tensor: self.declare_param(name, StorageKind::Sparse(Format::Coo), self.real_type().tensor(shape)) }
    }

    /// `rel name : [n, ..]`
    pub fn relation<'b, I: Affine<'b>>(&'b self, name: &str, shape: impl IntoIterator<Item = I>) -> Relation<'b> {
        let (name, shape) = (self.name(name), self.indices(shape));
        self.declare(Declared::Relation { name: name.clone(), shape });
        Relation { builder: self, name }
    }

    /// `map name : [p, ..] -> [c]`
    pub fn map<'b, I: Affine<'b>>(
        &'b self,
        name: &str,
        source: impl IntoIterator<Item = I>,
        target: impl Affine<'b>,
    ) -> Map<'b> {
        let (name, source) = (self.name(name), self.indices(source));
        let target = target.index(self).within(self);
        self.declare(Declared::Map { name: name.clone(), source, target });
        Map { builder: self, name }
    }

    /// `assume pred`
    pub fn assume<'b>(&'b self, pred: Guard<'b>) {
        let pred = pred.within(self);
        self.declare(Declared::Assume { pred });
    }

    /// `fun name(a, ..) = value with (da, ..)`: a scalar function that counts as one operation. `value` gets the arguments,
    /// `partials` the arguments and the value.
    pub fn fun<'b, const N: usize>(
        &'b self,
        name: &str,
        params: [&str; N],
        value: impl FnOnce([Expr<'b>; N]) -> Expr<'b>,
        partials: impl FnOnce([Expr<'b>; N], Expr<'b>) -> [Expr<'b>; N],
    ) -> Function<'b> {
        let name = self.name(name);
        let names = params.map(|param| self.name(param));
        let args = names.each_ref().map(|name| Expr::make(self, Kind::Name(name.clone()), vec![]));
        let value = value(args).within(self);
        let result = Expr::make(self, Kind::Name(self.name("result")), vec![]);
        let partials = partials(args, result).map(|partial| partial.within(self)).to_vec();
        self.declare(Declared::Fun { name: name.clone(), params: names.to_vec(), value, partials });
        Function { builder: self, name }
    }

    /// `name(a, ..)`: a function of the library, such as `dot`.
    pub fn call<'b, R: Real<'b>>(&'b self, name: &str, args: impl IntoIterator<Item = R>) -> Expr<'b> {
        let args = args.into_iter().map(|arg| arg.real(self).within(self)).collect();
        Expr::make(self, Kind::Call(self.name(name)), args)
    }

    /// The program with this value. The builder can go on to be used.
    ///
    /// # Errors
    /// [`Error::Program`] for names that are no names, for parts of other builders, and for an index or a variable used outside
    /// of the closure that received it; [`Error::Limit`] if the program is too large.
    pub fn finish(&self, body: Expr<'_>) -> Result<Ast> {
        let body = body.within(self);
        let graph = self.graph.borrow();
        if graph.too_large {
            return Err(Error::Limit { what: "expressions", limit: MAX_EXPRS as u64, found: MAX_EXPRS as u64 + 1 });
        }
        if !graph.problems.is_empty() {
            return Err(Error::Program(graph.problems.clone()));
        }
        let mut emit = Emit {
            graph: &graph,
            ast: Ast::default(),
            names: FxHashMap::default(),
            n_indices: 0,
            n_variables: 0,
            escaped: false,
        };
        for decl in &graph.decls {
            let decl = emit.decl(decl)?;
            emit.ast.decls.push(decl);
        }
        let body = emit.tree(body)?;
        emit.ast.body = Some(body);
        if emit.escaped {
            return Err(Error::Program(vec![
                Diagnostic::new(
                    "escaped-index",
                    Span::default(),
                    "expected an index or variable inside of the closure that received it, found a use outside",
                )
                .help("move the expression that uses it into the closure"),
            ]));
        }
        Ok(emit.ast)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surface::ast::{self, ExprId};
    use crate::surface::sexpr::{decls, operands, sexpr};

    fn tree(ast: &Ast) -> String {
        let mut users = vec![0; ast.exprs.len()];
        for (id, expr) in ast.exprs.iter() {
            for operand in operands(expr) {
                assert!(operand < id);
                users[operand.0 as usize] += 1;
            }
        }
        assert!(users.iter().all(|n| *n <= 1), "a tree");
        sexpr(ast, ast.body.unwrap())
    }

    #[track_caller]
    fn check(body: impl for<'b> FnOnce(&'b Builder, Index<'b>, Expr<'b>, Expr<'b>) -> Expr<'b>, expected: &str) {
        let b = Builder::new();
        let n = b.size("n");
        let x = b.param("x", [n]);
        let s = b.scalar("s");
        let body = body(&b, n, x, s);
        assert_eq!(tree(&b.finish(body).unwrap()), expected);
    }

    #[test]
    fn builder_operators_and_literals() {
        check(|_, _, _, s| 2.0 * s + 1 - s / 0.5, "(- (+ (* 2r s) 1) (/ s 0.5r))");
        check(|_, n, _, s| n + s * n - -s, "(- (+ (real n) (* s (real n))) (neg s))");
        check(|_, _, _, s| -1.5 * s.powi(-2).powf(0.5), "(* (neg 1.5r) (^ (^ s (neg 2)) 0.5r))");
        check(|_, n, x, _| x.at([2 * n - 1 + n]), "(at x (+ (- (* 2 n) 1) n))");
        check(|_, _, _, s| s.exp().max(0.0).atan2(s), "(atan2 (max (exp s) 0r) s)");
        check(|_, _, _, s| s.pair(1.0).pair(s.pair(s).fst().snd()), "(pair (pair s 1r) (snd (fst (pair s s))))");
        check(|b, _, _, s| b.call("f", [s, s]), "(f s s)");
        check(|b, _, x, _| b.param("y", [0i64; 0]) * x.at([0i64; 0]), "(* y x)");
    }

    #[test]
    fn builder_guards_and_binders() {
        check(
            |_, n, x, s| r#gen(n, |i| (i.lt(n - 1) & !(x.at([i]).gt(0.0) | i.eq(3))) * (x.at([i + 1]) * s)),
            "(gen i n (iv (and (< i (- n 1)) (not (or (> (at x i) 0r) (= i 3)))) (* (at x (+ i 1)) s)))",
        );
        check(|_, n, x, _| max(n, |i| x.at([i])) + min(n, |_| 1.0), "(+ (max i n (at x i)) (min j n 1r))");
        check(
            |_, n, x, _| x.at([argmax(n, |i| x.at([i]))]) + x.at([argmin(n, |i| -x.at([i]))]),
            "(+ (at x (argmax i n (at x i))) (at x (argmin j n (neg (at x j)))))",
        );
        check(
            |_, n, x, s| select(exists(n, |k| x.at([k]).ne(0.0)), s, 0.0),
            "(select (exists i n (!= (at x i) 0r)) s 0r)",
        );
        check(|_, _, _, s| let_(s.exp(), |v| v * v), "(let t (exp s) (* t t))");
    }

    #[test]
    fn builder_declares() {
        let b = Builder::new();
        let (n, m) = (b.size("n"), b.size("m"));
        let ab = b.param_of("ab", b.real_type().pair(b.real_type().tensor([3])).tensor([n]));
        let a = b.csr("A", [m, n]);
        let t = b.coo("T", [n, n + 1, n]);
        let e = b.relation("E", [n, n]);
        let cam = b.map("cam", [n], m);
        b.assume(n.ge(2));
        let f = b.fun("f", ["u", "v"], |[u, v]| (u * v).exp(), |[u, v], result| [v * result, u * result]);
        let body = sum(n, |i| {
            e.holds([i, i]) * f.call([ab.at([i]).fst(), a.at([cam.of([i]), i])])
                + a.stores([i, i]) * a.value([i, i])
                + t.at([i, i, i])
        });
        let ast = b.finish(body).unwrap();
        assert_eq!(
            decls(&ast),
            [
                "(param ab dense [n](real [3]real))",
                "(param A csr [m n]real)",
                "(param T coo [n (+ n 1) n]real)",
                "(rel E [n n])",
                "(map cam [n] m)",
                "(assume (>= n 2))",
                "(fun f (u v) (exp (* u v)) (* v result) (* u result))",
            ]
        );
        assert_eq!(
            tree(&ast),
            "(sum i n (+ (+ (iv (E i i) (f (fst (at ab i)) (at A (cam i) i))) (iv (A? i i) (A.value i i))) (at T i i i)))"
        );
    }

    #[test]
    fn builder_binds_shared_expressions() {
        // Cheap expressions are repeated, others bound at the lowest common place.
        check(|_, n, x, _| x.at([n - 1]) * x.at([n - 1]), "(* (at x (- n 1)) (at x (- n 1)))");
        check(|_, _, _, s| 1.0 + (s.exp() + 1.0), "(+ 1r (+ (exp s) 1r))");
        check(
            |_, n, x, s| {
                let e = s.exp();
                1.0 + sum(n, |i| {
                    let y = x.at([i]) * e;
                    y * y + e
                }) + 2.0
            },
            "(+ (+ 1r (sum i n (let t (exp s) (+ (let t1 (* (at x i) t) (* t1 t1)) t)))) 2r)",
        );
        // Bound around the same place: operands first.
        check(
            |_, _, _, s| {
                let a = s.exp();
                let c = a.sin();
                (a + c) * c
            },
            "(let t (exp s) (let t1 (sin t) (* (+ t t1) t1)))",
        );
        // An argmax that is repeated has its values bound.
        check(
            |_, n, x, _| {
                let k = argmax(n, |i| x.at([i]).exp());
                x.at([k]) + x.at([k + 1])
            },
            "(let t (gen i n (exp (at x i))) (+ (at x (argmax j n (at t j))) (at x (+ (argmax j n (at t j)) 1))))",
        );
        // A predicate that is repeated has its real values bound.
        check(
            |_, _, _, s| {
                let p = s.exp().gt(1.0);
                p * s + p * 2.0
            },
            "(let t (exp s) (+ (iv (> t 1r) s) (iv (> t 1r) 2r)))",
        );
    }

    #[test]
    fn builder_guards_shared_values() {
        // Union of the brackets.
        check(
            |b, n, x, _| {
                let e = x.at([b.index(3)]).ln();
                n.gt(3) * e + n.gt(4) * (e + 1.0)
            },
            "(let t (iv (or (> n 3) (> n 4)) (ln (at x 3))) (+ (iv (> n 3) t) (iv (> n 4) (+ t 1r))))",
        );
        // One use is free.
        check(
            |b, n, x, _| {
                let e = x.at([b.index(3)]).ln();
                n.gt(3) * e + e
            },
            "(let t (ln (at x 3)) (+ (iv (> n 3) t) t))",
        );
        // Binders between are quantified, ranges that are never empty do not count.
        check(
            |b, n, x, _| {
                let e = x.at([b.index(3)]).ln();
                sum(n, |i| i.gt(2) * (e * x.at([i]) + n.gt(5) * e)) + n.gt(7) * sum(b.index(2), |_| e)
            },
            "(let t (iv (or (or (exists i n (> i 2)) (exists i n (and (> i 2) (> n 5)))) (> n 7)) (ln (at x 3))) (+ (sum i n (iv (> i 2) (+ (* t (at x i)) (iv (> n 5) t)))) (iv (> n 7) (sum j 2 t))))",
        );
        // Both branches of a select.
        check(
            |_, _, _, s| {
                let e = s.ln();
                select(s.gt(1.0), e, 0.0) + select(s.gt(2.0), 1.0, e * e)
            },
            "(let t (iv (or (> s 1r) (not (> s 2r))) (ln s)) (+ (select (> s 1r) t 0r) (select (> s 2r) 1r (* t t))))",
        );
        // A bracket that reads a value bound further out is kept, one that reads a value which is not bound is left out.
        check(
            |_, _, _, s| {
                let v = s.exp();
                let e = v.ln();
                v.gt(0.0) * e + v.gt(1.0) * e
            },
            "(let t (exp s) (let t1 (iv (or (> t 0r) (> t 1r)) (ln t)) (+ (iv (> t 0r) t1) (iv (> t 1r) t1))))",
        );
        check(
            |_, _, _, s| {
                let e = s.ln();
                s.exp().gt(0.0) * e + s.sin().gt(1.0) * e
            },
            "(let t (ln s) (+ (iv (> (exp s) 0r) t) (iv (> (sin s) 1r) t)))",
        );
    }

    #[test]
    fn builder_reports_problems() {
        fn code(build: impl for<'b> FnOnce(&'b Builder, Expr<'b>) -> Expr<'b>) -> String {
            let b = Builder::new();
            let s = b.scalar("s");
            let body = build(&b, s);
            match b.finish(body) {
                Err(Error::Program(problems)) => problems[0].code.to_string(),
                Err(error) => error.to_string(),
                Ok(ast) => sexpr(&ast, ast.body.unwrap()),
            }
        }
        assert_eq!(code(|b, s| s * b.scalar("a b")), "bad-name");
        assert_eq!(code(|b, s| s * b.scalar("let")), "bad-name");
        assert_eq!(
            code(|b, s| {
                let mut leaked = b.index(0);
                sum(b.size("n"), |i| {
                    leaked = i;
                    s
                }) + leaked
            }),
            "escaped-index"
        );
        let other = Builder::new();
        let b = Builder::new();
        let body = b.scalar("s") + other.scalar("s");
        assert!(matches!(b.finish(body), Err(Error::Program(p)) if p[0].code == "foreign-expression"));
        assert_eq!(
            code(|b, s| {
                let ty = (0..2000).fold(b.real_type(), |ty, _| ty.tensor([1]));
                s + b.param_of("y", ty)
            }),
            "nesting of a type: 65 is over the limit of 64"
        );
        // Predicates are repeated, so doubling them is refused, not expanded.
        let doubled = code(|b, s| (0..100).fold(b.size("n").gt(0), |p, _| p & p) * s);
        assert!(doubled.starts_with("expressions: "), "{doubled}");
    }

    #[test]
    fn builder_is_linear_and_flat() {
        let work = || {
            let deep = 300_000;
            let b = Builder::new();
            let (s, n) = (b.scalar("s"), b.size("n"));
            let doubled = (0..1000).fold(s, |e, _| e + e);
            let ast = b.finish(doubled).unwrap();
            assert_eq!(ast.exprs.len(), 999 * 4 + 3);
            let guarded = (0..1000).fold(s, |e, _| n.gt(1) * e + n.gt(2) * e);
            assert!(b.finish(guarded).unwrap().exprs.len() < 30_000);
            let chain = (0..deep).fold(s, |e, _| e + s.exp());
            assert_eq!(b.finish(chain).unwrap().exprs.len(), deep * 3 + 1);
            let first = s.exp();
            let reused = (0..deep).fold(first, |e, k| if k % 2 == 0 { e.sin() } else { n.gt(3) * e + first });
            assert!(b.finish(reused).unwrap().exprs.len() < deep * 5);
            let shared = (0..deep).fold(s, |e, _| (e * e).sin());
            assert!(b.finish(shared).unwrap().exprs.len() < deep * 6);
        };
        std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
    }

    /// Random programs over `x : [4] real`; what was built can be used again while its indices are in scope.
    struct Random<'b> {
        b: &'b Builder,
        x: Expr<'b>,
        random: fastrand::Rng,
        pool: Vec<Expr<'b>>,
        indices: Vec<Index<'b>>,
    }

    impl<'b> Random<'b> {
        fn index(&mut self) -> Index<'b> {
            match self.random.usize(0..3) {
                0 => self.b.index(self.random.i64(0..6)),
                _ => self.indices[self.random.usize(0..self.indices.len())] + self.random.i64(-1..2),
            }
        }

        fn guard(&mut self, depth: usize) -> Guard<'b> {
            let i = self.index();
            match self.random.usize(0..if depth == 0 { 2 } else { 6 }) {
                0 => i.lt(self.random.i64(0..5)),
                1 => i.ge(self.random.i64(0..5)),
                2 => self.guard(depth - 1) & self.guard(depth - 1),
                3 => self.guard(depth - 1) | self.guard(depth - 1),
                4 => !self.guard(depth - 1),
                _ => exists(self.b.size("n"), |k| {
                    self.indices.push(k);
                    let guard = self.guard(depth - 1);
                    self.indices.pop();
                    guard
                }),
            }
        }

        fn expr(&mut self, depth: usize) -> Expr<'b> {
            if !self.pool.is_empty() && self.random.usize(0..3) == 0 {
                return self.pool[self.random.usize(0..self.pool.len())];
            }
            let e = match self.random.usize(0..if depth == 0 { 2 } else { 8 }) {
                0 | 1 => {
                    let i = self.index();
                    self.x.at([i]) + self.random.i64(0..3)
                }
                2 => self.expr(depth - 1) + self.expr(depth - 1),
                3 => self.expr(depth - 1) * self.expr(depth - 1),
                4 | 5 => self.guard(1) * self.expr(depth - 1),
                6 => select(self.guard(1), self.expr(depth - 1), self.expr(depth - 1)),
                _ => {
                    let kept = self.pool.len();
                    let e = sum(self.b.size("n"), |i| {
                        self.indices.push(i);
                        let body = self.expr(depth - 1);
                        self.indices.pop();
                        body
                    });
                    self.pool.truncate(kept);
                    e
                }
            };
            self.pool.push(e);
            e
        }
    }

    /// Integer value of a graph, guards first; nothing if an access is out of bounds. `i64` wraps.
    fn value(graph: &Graph, id: NodeId, n: i64, env: &mut FxHashMap<BoundId, i64>) -> Option<i64> {
        let node = &graph.nodes[id as usize];
        let ops = &node.operands;
        Some(match &node.kind {
            Kind::Number { integer, .. } => integer.unwrap(),
            Kind::Name(name) if name == "n" => n,
            Kind::Bound(bound) => env[bound],
            Kind::Unary(UnaryOp::Neg) => -value(graph, ops[0], n, env)?,
            Kind::Unary(UnaryOp::Not) => 1 - value(graph, ops[0], n, env)?,
            Kind::Binary(op) => {
                let (a, b) = (value(graph, ops[0], n, env)?, value(graph, ops[1], n, env)?);
                apply(*op, a, b)
            }
            Kind::Iverson if value(graph, ops[0], n, env)? == 0 => 0,
            Kind::Iverson => value(graph, ops[1], n, env)?,
            Kind::Call(_) if value(graph, ops[0], n, env)? == 0 => value(graph, ops[2], n, env)?,
            Kind::Call(_) => value(graph, ops[1], n, env)?,
            Kind::Access => read(value(graph, ops[1], n, env)?)?,
            Kind::Binder(kind, bound) => {
                let mut total = 0;
                for i in 0..value(graph, ops[0], n, env)? {
                    env.insert(*bound, i);
                    total = join(*kind, total, value(graph, ops[1], n, env)?);
                }
                total
            }
            kind => unreachable!("{kind:?}"),
        })
    }

    /// The same for a tree, where the value of every `let` is computed.
    fn tree_value(ast: &Ast, id: ExprId, n: i64, env: &mut FxHashMap<String, i64>) -> Option<i64> {
        Some(match &ast.exprs[id] {
            ast::Expr::Number { integer, .. } => integer.unwrap(),
            ast::Expr::Name(name) if name == "n" => n,
            ast::Expr::Name(name) => env[name],
            ast::Expr::Unary(UnaryOp::Neg, a) => -tree_value(ast, *a, n, env)?,
            ast::Expr::Unary(UnaryOp::Not, a) => 1 - tree_value(ast, *a, n, env)?,
            ast::Expr::Binary(op, a, b) => apply(*op, tree_value(ast, *a, n, env)?, tree_value(ast, *b, n, env)?),
            ast::Expr::Iverson { guard, body } => match tree_value(ast, *guard, n, env)? {
                0 => 0,
                _ => tree_value(ast, *body, n, env)?,
            },
            ast::Expr::Call { args, .. } => match tree_value(ast, args[0], n, env)? {
                0 => tree_value(ast, args[2], n, env)?,
                _ => tree_value(ast, args[1], n, env)?,
            },
            ast::Expr::Access { indices, .. } => read(tree_value(ast, indices[0], n, env)?)?,
            ast::Expr::Binder { kind, index, extent, body } => {
                let mut total = 0;
                for i in 0..tree_value(ast, *extent, n, env)? {
                    env.insert(index.text.clone(), i);
                    total = join(*kind, total, tree_value(ast, *body, n, env)?);
                }
                env.remove(&index.text);
                total
            }
            ast::Expr::Let { name, value, body } => {
                let value = tree_value(ast, *value, n, env)?;
                assert!(env.insert(name.text.clone(), value).is_none(), "names are unique");
                let body = tree_value(ast, *body, n, env);
                env.remove(&name.text);
                body?
            }
            expr => unreachable!("{expr:?}"),
        })
    }

    fn read(index: i64) -> Option<i64> {
        [3, -1, 4, 1].get(usize::try_from(index).ok()?).copied()
    }

    fn join(kind: BinderKind, a: i64, b: i64) -> i64 {
        if kind == BinderKind::Exists { a | b } else { a.wrapping_add(b) }
    }

    fn apply(op: BinaryOp, a: i64, b: i64) -> i64 {
        match op {
            BinaryOp::Add => a.wrapping_add(b),
            BinaryOp::Sub => a.wrapping_sub(b),
            BinaryOp::Mul => a.wrapping_mul(b),
            BinaryOp::Less => i64::from(a < b),
            BinaryOp::GreaterEqual => i64::from(a >= b),
            BinaryOp::And => a & b,
            BinaryOp::Or => a | b,
            op => unreachable!("{op:?}"),
        }
    }

    /// Sharing changes no value, and computes no shared value where the program reads none of its uses.
    #[test]
    fn builder_shared_values_agree_with_the_graph() {
        let (mut defined, mut lets) = (0, 0);
        for seed in 0..4000 {
            let b = Builder::new();
            let (n, x) = (b.size("n"), b.param("x", [4]));
            let mut random =
                Random { b: &b, x, random: fastrand::Rng::with_seed(seed), pool: vec![], indices: vec![n] };
            let body = random.expr(5);
            let ast = b.finish(body).unwrap();
            let text = tree(&ast);
            lets += text.matches("(let ").count();
            for n in 0..3 {
                let expected = value(&b.graph.borrow(), body.id, n, &mut FxHashMap::default());
                if expected.is_some() {
                    defined += 1;
                    let found = tree_value(&ast, ast.body.unwrap(), n, &mut FxHashMap::default());
                    assert_eq!(found, expected, "seed {seed}, n = {n}: {text}");
                }
            }
        }
        assert!(defined > 1000 && lets > 1000, "{defined} {lets}");
    }
}

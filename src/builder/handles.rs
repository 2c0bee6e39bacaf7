//! Places in the graph as values of Rust: what expressions, index expressions and guards are made of, and their operators.

use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Rem, Sub};

use super::graph::{Kind, NodeId, Sort};
use super::{Builder, Map, Sparse};
use crate::surface::ast::{BinaryOp, UnaryOp};

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident $sort:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'b> {
            pub(super) builder: &'b Builder<'b>,
            pub(super) id: NodeId,
        }

        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.id)
            }
        }

        impl<'b> $name<'b> {
            #[track_caller]
            pub(super) fn make(builder: &'b Builder<'b>, kind: Kind, operands: Vec<NodeId>) -> Self {
                $name { builder, id: builder.graph.borrow_mut().push(kind, Sort::$sort, operands) }
            }

            /// Its place in the graph of `builder`; an expression of another program is a problem of this one.
            #[track_caller]
            pub(super) fn within(self, builder: &'b Builder<'b>) -> NodeId {
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
#[diagnostic::on_unimplemented(
    note = "a guard stands before what it masks, `guard * e`; as a number it is `guard * 1.0`",
    note = "a number is `f64`, `f32`, `i32` or `usize`"
)]
pub trait Real<'b> {
    /// The expression, in the graph of `builder`.
    #[track_caller]
    fn real(self, builder: &'b Builder<'b>) -> Expr<'b>;
}

/// What can stand where an index is expected: an [`Index`] or an integer.
pub trait Affine<'b> {
    /// The index expression, in the graph of `builder`.
    #[track_caller]
    fn index(self, builder: &'b Builder<'b>) -> Index<'b>;
}

impl<'b> Real<'b> for Expr<'b> {
    #[track_caller]
    fn real(self, _: &'b Builder<'b>) -> Expr<'b> {
        self
    }
}

impl<'b, R: Real<'b> + Copy> Real<'b> for &R {
    #[track_caller]
    fn real(self, builder: &'b Builder<'b>) -> Expr<'b> {
        (*self).real(builder)
    }
}

impl<'b> Real<'b> for f64 {
    #[track_caller]
    fn real(self, builder: &'b Builder<'b>) -> Expr<'b> {
        builder.real(self)
    }
}

impl<'b> Real<'b> for f32 {
    #[track_caller]
    fn real(self, builder: &'b Builder<'b>) -> Expr<'b> {
        builder.real(f64::from(self))
    }
}

impl<'b> Real<'b> for Index<'b> {
    #[track_caller]
    fn real(self, _: &'b Builder<'b>) -> Expr<'b> {
        Expr::from(self)
    }
}

impl<'b> Real<'b> for Sparse<'b> {
    #[track_caller]
    fn real(self, _: &'b Builder<'b>) -> Expr<'b> {
        self.tensor()
    }
}

impl<'b> Affine<'b> for Index<'b> {
    #[track_caller]
    fn index(self, _: &'b Builder<'b>) -> Index<'b> {
        self
    }
}

impl<'b, A: Affine<'b> + Copy> Affine<'b> for &A {
    #[track_caller]
    fn index(self, builder: &'b Builder<'b>) -> Index<'b> {
        (*self).index(builder)
    }
}

/// Whole numbers of Rust.
macro_rules! integers {
    ($($number:ty)*) => {$(
        impl<'b> Real<'b> for $number {
            #[track_caller]
            fn real(self, builder: &'b Builder<'b>) -> Expr<'b> {
                let whole = i64::try_from(self).ok();
                let id = builder.graph.borrow_mut().number(self as f64, whole, Sort::Real);
                Expr { builder, id }
            }
        }

        impl<'b> Affine<'b> for $number {
            #[track_caller]
            fn index(self, builder: &'b Builder<'b>) -> Index<'b> {
                match i64::try_from(self) {
                    Ok(k) => builder.index(k),
                    Err(_) => {
                        builder.problem("literal-range", format!("expected an index of 64 bits, found {self}"));
                        builder.index(0)
                    }
                }
            }
        }
    )*};
}

integers!(i32 i64 u32 usize);

/// Where an element of a tensor is, a map or a relation is asked, or which sizes a parameter has: an index, `(i, j + 1)`, `[i, j]`, or a list of
/// them.
pub trait Place<'b> {
    /// The index expressions, in the graph of `builder`.
    #[track_caller]
    fn indices(self, builder: &'b Builder<'b>) -> Vec<Index<'b>>;
}

/// The ranges of the indices of a binder: a size, or a tuple of several.
///
/// ```
/// use iverson::Function;
/// use iverson::builder::{Builder, sum};
///
/// let b = Builder::new();
/// let (n, m) = (b.size("n"), b.size("m"));
/// let (a, x, y) = (b.param("A", [n, m]), b.param("x", n), b.param("y", m));
/// let form = Function::build(&b.finish(sum((n, m), |(i, j)| x[i] * a[(i, j)] * y[j]))?)?;
/// assert!(form.to_string().contains("sum i < n, j < m. x[i] * A[i, j] * y[j]"), "{form}");
/// # Ok::<(), iverson::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no range of indices",
    note = "a range ends at a size such as `b.size(\"n\")` or `b.index(3)`; of several indices it is a tuple of such",
    note = "of all elements of a tensor it is a method, `x.sum()`"
)]
pub trait Ranges<'b>: Copy {
    /// The indices: as many as ranges.
    type Indices;

    /// The builder of the first range.
    fn builder(&self) -> &'b Builder<'b>;

    /// What `bind` makes of the end of each range, in order.
    fn each(self, bind: &mut dyn FnMut(Index<'b>) -> Index<'b>) -> Self::Indices;
}

impl<'b> Ranges<'b> for Index<'b> {
    type Indices = Index<'b>;

    fn builder(&self) -> &'b Builder<'b> {
        self.builder
    }

    fn each(self, bind: &mut dyn FnMut(Index<'b>) -> Index<'b>) -> Index<'b> {
        bind(self)
    }
}

macro_rules! ranges {
    ($($tuple:ty: [$($number:tt)*],)*) => {$(
        impl<'b> Ranges<'b> for $tuple {
            type Indices = Self;

            fn builder(&self) -> &'b Builder<'b> {
                self.0.builder
            }

            fn each(self, bind: &mut dyn FnMut(Index<'b>) -> Index<'b>) -> Self {
                ($(bind(self.$number),)*)
            }
        }
    )*};
}

ranges! {
    (Index<'b>, Index<'b>): [0 1],
    (Index<'b>, Index<'b>, Index<'b>): [0 1 2],
    (Index<'b>, Index<'b>, Index<'b>, Index<'b>): [0 1 2 3],
}

#[track_caller]
fn each_index<'b, A: Affine<'b>>(from: impl IntoIterator<Item = A>, builder: &'b Builder<'b>) -> Vec<Index<'b>> {
    let mut indices = Vec::new();
    for index in from {
        indices.push(index.index(builder));
    }
    indices
}

impl<'b, A: Affine<'b>> Place<'b> for A {
    #[track_caller]
    fn indices(self, builder: &'b Builder<'b>) -> Vec<Index<'b>> {
        vec![self.index(builder)]
    }
}

impl<'b, A: Affine<'b>, const N: usize> Place<'b> for [A; N] {
    #[track_caller]
    fn indices(self, builder: &'b Builder<'b>) -> Vec<Index<'b>> {
        each_index(self, builder)
    }
}

impl<'b, A: Affine<'b>> Place<'b> for Vec<A> {
    #[track_caller]
    fn indices(self, builder: &'b Builder<'b>) -> Vec<Index<'b>> {
        each_index(self, builder)
    }
}

/// That of a number: no axes.
impl<'b> Place<'b> for () {
    fn indices(self, _: &'b Builder<'b>) -> Vec<Index<'b>> {
        Vec::new()
    }
}

macro_rules! places {
    ($(($($name:ident)*))*) => {$(
        impl<'b, $($name: Affine<'b>),*> Place<'b> for ($($name,)*) {
            #[allow(non_snake_case, reason = "a variable is named as its type")]
            #[track_caller]
            fn indices(self, builder: &'b Builder<'b>) -> Vec<Index<'b>> {
                let ($($name,)*) = self;
                vec![$($name.index(builder)),*]
            }
        }
    )*};
}

places! {
    (A)
    (A B)
    (A B C)
    (A B C D)
}

/// `x[i]`, `x[(i, j + 1)]`, `x[[i, j]]`: as [`Expr::at`].
impl<'b, P: Place<'b>> std::ops::Index<P> for Expr<'b> {
    type Output = Expr<'b>;
    #[track_caller]
    fn index(&self, place: P) -> &Expr<'b> {
        self.builder.exprs.keep(self.at(place))
    }
}

/// `a[(i, j)]`: as [`Sparse::at`].
impl<'b, P: Place<'b>> std::ops::Index<P> for Sparse<'b> {
    type Output = Expr<'b>;
    #[track_caller]
    fn index(&self, place: P) -> &Expr<'b> {
        self.tensor.builder.exprs.keep(self.at(place))
    }
}

/// `of[o]`: as [`Map::of`].
impl<'b, P: Place<'b>> std::ops::Index<P> for Map<'b> {
    type Output = Index<'b>;
    #[track_caller]
    fn index(&self, place: P) -> &Index<'b> {
        self.builder.indices.keep(self.of(place))
    }
}

impl<'b> From<Index<'b>> for Expr<'b> {
    /// `real(i)`.
    #[track_caller]
    fn from(index: Index<'b>) -> Self {
        Expr::make(index.builder, Kind::Call("real".into()), vec![index.id])
    }
}

/// Indices and sizes as reals, on the left of what is no index.
macro_rules! reals_after_index {
    ($trait:ident $method:ident $op:ident; $($right:ty),*) => {$(
        impl<'b> $trait<$right> for Index<'b> {
            type Output = Expr<'b>;
            #[track_caller]
            fn $method(self, right: $right) -> Expr<'b> {
                Expr::from(self).binary(BinaryOp::$op, right)
            }
        }

        impl<'b> $trait<$right> for &Index<'b> {
            type Output = Expr<'b>;
            #[track_caller]
            fn $method(self, right: $right) -> Expr<'b> {
                Expr::from(*self).binary(BinaryOp::$op, right)
            }
        }
    )*};
}

/// Numbers of Rust on the left of expressions.
macro_rules! numbers_before {
    ($trait:ident $method:ident $op:ident; $($left:ty),*) => {$(
        impl<'b> $trait<Expr<'b>> for $left {
            type Output = Expr<'b>;
            #[track_caller]
            fn $method(self, right: Expr<'b>) -> Expr<'b> {
                self.real(right.builder).binary(BinaryOp::$op, right)
            }
        }

        impl<'b> $trait<&Expr<'b>> for $left {
            type Output = Expr<'b>;
            #[track_caller]
            fn $method(self, right: &Expr<'b>) -> Expr<'b> {
                $trait::$method(self, *right)
            }
        }
    )*};
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<'b, R: Real<'b>> $trait<R> for Expr<'b> {
            type Output = Expr<'b>;
            #[track_caller]
            fn $method(self, right: R) -> Expr<'b> {
                self.binary(BinaryOp::$op, right)
            }
        }

        impl<'b, R: Real<'b>> $trait<R> for &Expr<'b> {
            type Output = Expr<'b>;
            #[track_caller]
            fn $method(self, right: R) -> Expr<'b> {
                self.binary(BinaryOp::$op, right)
            }
        }

        numbers_before!($trait $method $op; f64, i64);

        impl<'b> $trait<Index<'b>> for f64 {
            type Output = Expr<'b>;
            #[track_caller]
            fn $method(self, right: Index<'b>) -> Expr<'b> {
                self.real(right.builder).binary(BinaryOp::$op, right)
            }
        }

        reals_after_index!($trait $method $op; Expr<'b>, &Expr<'b>, f64, f32);
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
            #[track_caller]
            fn $method(self, right: R) -> Index<'b> {
                let right = right.index(self.builder).within(self.builder);
                Index::make(self.builder, Kind::Binary(BinaryOp::$op), vec![self.id, right])
            }
        }

        impl<'b, R: Affine<'b>> $trait<R> for &Index<'b> {
            type Output = Index<'b>;
            #[track_caller]
            fn $method(self, right: R) -> Index<'b> {
                $trait::$method(*self, right)
            }
        }

        impl<'b> $trait<Index<'b>> for i64 {
            type Output = Index<'b>;
            #[track_caller]
            fn $method(self, right: Index<'b>) -> Index<'b> {
                $trait::$method(self.index(right.builder), right)
            }
        }

        impl<'b> $trait<&Index<'b>> for i64 {
            type Output = Index<'b>;
            #[track_caller]
            fn $method(self, right: &Index<'b>) -> Index<'b> {
                $trait::$method(self, *right)
            }
        }
    )*};
}

index_operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
}

/// `i / 2` and `i % 2` of indices and sizes are the floor of the quotient and what it leaves, for a positive divisor.
macro_rules! index_divisions {
    ($($trait:ident $method:ident $op:ident for $($integer:ty),*;)*) => {$($(
        impl<'b> $trait<$integer> for Index<'b> {
            type Output = Index<'b>;
            #[track_caller]
            fn $method(self, by: $integer) -> Index<'b> {
                let by = by.index(self.builder).within(self.builder);
                Index::make(self.builder, Kind::Binary(BinaryOp::$op), vec![self.id, by])
            }
        }

        impl<'b> $trait<$integer> for &Index<'b> {
            type Output = Index<'b>;
            #[track_caller]
            fn $method(self, by: $integer) -> Index<'b> {
                $trait::$method(*self, by)
            }
        }
    )*)*};
}

index_divisions! {
    Div div FloorDiv for i32, i64, usize;
    Rem rem Rem for i32, i64, usize;
}

/// The sum of a list that is made in Rust, of at least one expression.
///
/// ```
/// # use iverson::{Function, builder::Builder};
/// # let b = Builder::new();
/// let xs: Vec<_> = ["x", "y", "z"].map(|name| b.scalar(name)).to_vec();
/// let norm = xs.iter().map(|x| x.powi(2)).sum::<iverson::builder::Expr<'_>>().sqrt();
/// assert_eq!(Function::build(&b.finish(norm)?)?.to_string().lines().last(), Some("sqrt(x^2 + y^2 + z^2)"));
/// # Ok::<(), iverson::Error>(())
/// ```
///
/// # Panics
/// For no expression, which belongs to no program: `fold(b.real(0.0), ..)` has an answer for it.
impl<'b> std::iter::Sum for Expr<'b> {
    fn sum<I: Iterator<Item = Expr<'b>>>(mut iter: I) -> Expr<'b> {
        let Some(first) = iter.next() else {
            panic!("a sum of no expressions belongs to no program; `fold(b.real(0.0), ..)` has an answer for it");
        };
        // Adapters of iterators hide the caller: a sum is where its last term is.
        iter.fold(first, |sum, x| {
            let right = x.within(sum.builder);
            let mut graph = sum.builder.graph.borrow_mut();
            let id = graph.push(Kind::Binary(BinaryOp::Add), Sort::Real, vec![sum.id, right]);
            let caller = graph.nodes.get(right as usize).map(|node| node.caller);
            if let (Some(node), Some(caller)) = (graph.nodes.get_mut(id as usize), caller) {
                node.caller = caller;
            }
            Expr { builder: sum.builder, id }
        })
    }
}

impl<'a, 'b: 'a> std::iter::Sum<&'a Expr<'b>> for Expr<'b> {
    fn sum<I: Iterator<Item = &'a Expr<'b>>>(iter: I) -> Expr<'b> {
        iter.copied().sum()
    }
}

impl<'b> Neg for Expr<'b> {
    type Output = Expr<'b>;
    #[track_caller]
    fn neg(self) -> Expr<'b> {
        Expr::make(self.builder, Kind::Unary(UnaryOp::Neg), vec![self.id])
    }
}

impl<'b> Neg for &Expr<'b> {
    type Output = Expr<'b>;
    #[track_caller]
    fn neg(self) -> Expr<'b> {
        -*self
    }
}

impl<'b> Neg for Index<'b> {
    type Output = Index<'b>;
    #[track_caller]
    fn neg(self) -> Index<'b> {
        Index::make(self.builder, Kind::Unary(UnaryOp::Neg), vec![self.id])
    }
}

impl<'b> Neg for &Index<'b> {
    type Output = Index<'b>;
    #[track_caller]
    fn neg(self) -> Index<'b> {
        -*self
    }
}

impl<'b> BitAnd for Guard<'b> {
    type Output = Guard<'b>;
    #[track_caller]
    fn bitand(self, right: Guard<'b>) -> Guard<'b> {
        let right = right.within(self.builder);
        Guard::make(self.builder, Kind::Binary(BinaryOp::And), vec![self.id, right])
    }
}

impl<'b> BitOr for Guard<'b> {
    type Output = Guard<'b>;
    #[track_caller]
    fn bitor(self, right: Guard<'b>) -> Guard<'b> {
        let right = right.within(self.builder);
        Guard::make(self.builder, Kind::Binary(BinaryOp::Or), vec![self.id, right])
    }
}

impl<'b> Not for Guard<'b> {
    type Output = Guard<'b>;
    #[track_caller]
    fn not(self) -> Guard<'b> {
        Guard::make(self.builder, Kind::Unary(UnaryOp::Not), vec![self.id])
    }
}

/// `*self = *self op right`, as loops of Rust that make an expression term by term have it.
macro_rules! assigned {
    ($($trait:ident $method:ident $op:tt;)*) => {$(
        impl<'b, R: Real<'b>> std::ops::$trait<R> for Expr<'b> {
            #[track_caller]
            fn $method(&mut self, right: R) {
                *self = *self $op right;
            }
        }
    )*};
}

assigned! {
    AddAssign add_assign +;
    SubAssign sub_assign -;
    MulAssign mul_assign *;
    DivAssign div_assign /;
}

/// `[p] * e`.
impl<'b, R: Real<'b>> Mul<R> for Guard<'b> {
    type Output = Expr<'b>;
    #[track_caller]
    fn mul(self, body: R) -> Expr<'b> {
        let body = body.real(self.builder).within(self.builder);
        Expr::make(self.builder, Kind::Iverson, vec![self.id, body])
    }
}

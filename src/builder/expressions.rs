//! What is written of expressions beside their operators: functions, accesses, pairs, comparisons, binders, `let`, loops and `select`.

use super::Builder;
use super::graph::{BoundId, Kind, NodeId};
use super::handles::{Affine, Expr, Guard, Index, Place, Ranges, Real};
use crate::surface::ast::{BinaryOp, BinderKind, LoopKind};

macro_rules! scalar_functions {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(self) -> Expr<'b> {
            self.call(stringify!($name), vec![])
        }
    )*};
}

impl<'b> Expr<'b> {
    #[track_caller]
    pub(super) fn binary(self, op: BinaryOp, right: impl Real<'b>) -> Expr<'b> {
        let right = right.real(self.builder).within(self.builder);
        Expr::make(self.builder, Kind::Binary(op), vec![self.id, right])
    }

    #[track_caller]
    fn compare(self, op: BinaryOp, right: impl Real<'b>) -> Guard<'b> {
        let right = right.real(self.builder).within(self.builder);
        Guard::make(self.builder, Kind::Binary(op), vec![self.id, right])
    }

    #[track_caller]
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
        /// The largest integer that is not above `self`.
        floor;
        /// The smallest integer that is not below `self`.
        ceil;
        /// The nearest integer, of two the even one.
        round;
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

    /// The rectifier, `max(0, self)`.
    #[track_caller]
    pub fn relu(self) -> Expr<'b> {
        self.call("relu", vec![])
    }

    /// The natural logarithm, as mathematicians call it; [`Expr::ln`].
    #[track_caller]
    pub fn log(self) -> Expr<'b> {
        self.ln()
    }

    /// `ln(1 + self)`, as it is called for `f64`; [`Expr::log1p`].
    #[track_caller]
    pub fn ln_1p(self) -> Expr<'b> {
        self.log1p()
    }

    /// `e^self - 1`, as it is called for `f64`; [`Expr::expm1`].
    #[track_caller]
    pub fn exp_m1(self) -> Expr<'b> {
        self.expm1()
    }

    /// `1 / self`.
    #[track_caller]
    pub fn recip(self) -> Expr<'b> {
        1.0 / self
    }

    /// `self^2`.
    #[track_caller]
    pub fn square(self) -> Expr<'b> {
        self.powi(2)
    }

    /// 1, -1 or 0, as `self` is.
    #[track_caller]
    pub fn signum(self) -> Expr<'b> {
        self.call("sign", vec![])
    }

    /// The angle of the point `(x, self)`.
    #[track_caller]
    pub fn atan2(self, x: impl Real<'b>) -> Expr<'b> {
        let x = x.real(self.builder).within(self.builder);
        self.call("atan2", vec![x])
    }

    /// The larger of two.
    #[track_caller]
    pub fn max(self, other: impl Real<'b>) -> Expr<'b> {
        let other = other.real(self.builder).within(self.builder);
        self.call("max", vec![other])
    }

    /// The smaller of two.
    #[track_caller]
    pub fn min(self, other: impl Real<'b>) -> Expr<'b> {
        let other = other.real(self.builder).within(self.builder);
        self.call("min", vec![other])
    }

    /// `self^exponent`, an integer power.
    #[track_caller]
    pub fn powi(self, exponent: i32) -> Expr<'b> {
        self.binary(BinaryOp::Pow, i64::from(exponent))
    }

    /// `self^exponent`, a real power.
    #[track_caller]
    pub fn powf(self, exponent: f64) -> Expr<'b> {
        self.binary(BinaryOp::Pow, exponent)
    }

    /// `self^exponent`.
    #[track_caller]
    pub fn pow(self, exponent: impl Real<'b>) -> Expr<'b> {
        self.binary(BinaryOp::Pow, exponent)
    }

    /// `self[i, ..]`: an element, or a slice if there are fewer indices than dimensions; itself without indices.
    #[track_caller]
    pub fn at(self, place: impl Place<'b>) -> Expr<'b> {
        let operands: Vec<NodeId> = std::iter::once(self.id).chain(self.builder.nodes(place)).collect();
        if operands.len() == 1 {
            return self;
        }
        Expr::make(self.builder, Kind::Access, operands)
    }

    /// `(self, second)`.
    #[track_caller]
    pub fn pair(self, second: impl Real<'b>) -> Expr<'b> {
        let second = second.real(self.builder).within(self.builder);
        Expr::make(self.builder, Kind::Pair, vec![self.id, second])
    }

    /// The first component of a pair.
    #[track_caller]
    pub fn fst(self) -> Expr<'b> {
        Expr::make(self.builder, Kind::Fst, vec![self.id])
    }

    /// The second component of a pair.
    #[track_caller]
    pub fn snd(self) -> Expr<'b> {
        Expr::make(self.builder, Kind::Snd, vec![self.id])
    }

    /// `self < right`
    #[track_caller]
    pub fn lt(self, right: impl Real<'b>) -> Guard<'b> {
        self.compare(BinaryOp::Less, right)
    }

    /// `self <= right`
    #[track_caller]
    pub fn le(self, right: impl Real<'b>) -> Guard<'b> {
        self.compare(BinaryOp::LessEqual, right)
    }

    /// `self > right`
    #[track_caller]
    pub fn gt(self, right: impl Real<'b>) -> Guard<'b> {
        self.compare(BinaryOp::Greater, right)
    }

    /// `self >= right`
    #[track_caller]
    pub fn ge(self, right: impl Real<'b>) -> Guard<'b> {
        self.compare(BinaryOp::GreaterEqual, right)
    }

    /// `self = right`
    #[track_caller]
    pub fn eq(self, right: impl Real<'b>) -> Guard<'b> {
        self.compare(BinaryOp::Equal, right)
    }

    /// `self != right`
    #[track_caller]
    pub fn ne(self, right: impl Real<'b>) -> Guard<'b> {
        self.compare(BinaryOp::NotEqual, right)
    }
}

/// Functions of the library on whole tensors.
macro_rules! library {
    ($($(#[$doc:meta])* $name:ident($($other:ident)?);)*) => {
        impl<'b> Expr<'b> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self $(, $other: impl Real<'b>)?) -> Expr<'b> {
                self.call(stringify!($name), vec![$($other.real(self.builder).within(self.builder))?])
            }
        )*}
    };
}

library! {
    /// The inner product of two vectors.
    dot(other);
    /// The Euclidean norm of a vector.
    norm();
    /// The square of the Euclidean norm of a vector.
    squared_norm();
    /// The sum of all elements of a tensor.
    sum();
    /// The mean of the elements of a tensor.
    mean();
    /// The variance of the elements of a vector, over how many there are.
    variance();
    /// The product of two vectors in space, which is orthogonal to both.
    cross(other);
    /// The table of the products of two vectors.
    outer(other);
    /// The matrix with this vector on its diagonal.
    diag();
    /// The sum of the diagonal of a matrix.
    trace();
    /// The transposed matrix.
    transpose();
    /// The product of this matrix and a vector.
    matvec(vector);
    /// The product of two matrices.
    matmul(other);
    /// The logarithm of the sum of the exponentials of a vector.
    logsumexp();
    /// The exponentials of a vector over their sum.
    softmax();
    /// The logarithm of [`Expr::softmax`].
    log_softmax();
    /// The sums of a vector up to each place.
    cumsum();
}

impl<'b> Index<'b> {
    #[track_caller]
    fn compare(self, op: BinaryOp, right: impl Affine<'b>) -> Guard<'b> {
        let right = right.index(self.builder).within(self.builder);
        Guard::make(self.builder, Kind::Binary(op), vec![self.id, right])
    }

    /// `self < right`
    #[track_caller]
    pub fn lt(self, right: impl Affine<'b>) -> Guard<'b> {
        self.compare(BinaryOp::Less, right)
    }

    /// `self <= right`
    #[track_caller]
    pub fn le(self, right: impl Affine<'b>) -> Guard<'b> {
        self.compare(BinaryOp::LessEqual, right)
    }

    /// `self > right`
    #[track_caller]
    pub fn gt(self, right: impl Affine<'b>) -> Guard<'b> {
        self.compare(BinaryOp::Greater, right)
    }

    /// `self >= right`
    #[track_caller]
    pub fn ge(self, right: impl Affine<'b>) -> Guard<'b> {
        self.compare(BinaryOp::GreaterEqual, right)
    }

    /// `self = right`
    #[track_caller]
    pub fn eq(self, right: impl Affine<'b>) -> Guard<'b> {
        self.compare(BinaryOp::Equal, right)
    }

    /// `self != right`
    #[track_caller]
    pub fn ne(self, right: impl Affine<'b>) -> Guard<'b> {
        self.compare(BinaryOp::NotEqual, right)
    }
}

/// A binder over each of some ranges, the first one outermost.
#[track_caller]
fn bind<'b, N: Ranges<'b>, R: Real<'b>>(kind: BinderKind, ranges: N, body: impl FnOnce(N::Indices) -> R) -> Expr<'b> {
    let builder = ranges.builder();
    let mut extents = Vec::new();
    ranges.each(&mut |extent| {
        extents.push(extent);
        extent
    });
    // In loops, where the line of Rust is that of the caller.
    let mut bound = Vec::with_capacity(extents.len());
    for extent in extents {
        let (id, index) = builder.bound_index();
        bound.push((extent, id, index));
    }
    let mut made = bound.iter().map(|(_, _, index)| *index);
    let indices = ranges.each(&mut |extent| made.next().unwrap_or(extent));
    let mut body = body(indices).real(builder);
    for (extent, id, _) in bound.into_iter().rev() {
        let operands = vec![extent.within(builder), body.within(builder)];
        body = Expr::make(builder, Kind::Binder(kind, id), operands);
    }
    body
}

macro_rules! binders {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<'b, N: Ranges<'b>, R: Real<'b>>(ranges: N, body: impl FnOnce(N::Indices) -> R) -> Expr<'b> {
            bind(BinderKind::$kind, ranges, body)
        }
    )*};
}

binders! {
    /// `gen i < extent. body(i)`: the tensor of the values of the body. Several axes are made by a tuple, `generate((n, m), |(i, j)| ..)`.
    generate Gen;
    /// `sum i < extent. body(i)`, and over several ranges `sum((n, m), |(i, j)| ..)`. Of all elements of a tensor it is [`Expr::sum`].
    sum Sum;
    /// `max i < extent. body(i)`, and minus infinity over an empty range. Of two numbers it is [`Expr::max`].
    max Max;
    /// `min i < extent. body(i)`, and infinity over an empty range. Of two numbers it is [`Expr::min`].
    min Min;
}

/// `mean i < extent. body(i)`, and over several ranges `mean((n, m), |(i, j)| ..)`. Of all elements of a tensor it is [`Expr::mean`].
#[track_caller]
pub fn mean<'b, N: Ranges<'b>, R: Real<'b>>(ranges: N, body: impl FnOnce(N::Indices) -> R) -> Expr<'b> {
    let mut mean = sum(ranges, body);
    ranges.each(&mut |extent| {
        mean /= extent;
        extent
    });
    mean
}

#[track_caller]
fn arg<'b, R: Real<'b>>(kind: BinderKind, extent: Index<'b>, body: impl FnOnce(Index<'b>) -> R) -> Index<'b> {
    let values = generate(extent, body);
    let (bound, _) = extent.builder.bound_index();
    Index::make(extent.builder, Kind::Arg(kind, bound), vec![extent.id, values.id])
}

/// `argmax i < extent. body(i)`: the first index at which the body is largest.
#[track_caller]
pub fn argmax<'b, R: Real<'b>>(extent: Index<'b>, body: impl FnOnce(Index<'b>) -> R) -> Index<'b> {
    arg(BinderKind::ArgMax, extent, body)
}

/// `argmin i < extent. body(i)`: the first index at which the body is smallest.
#[track_caller]
pub fn argmin<'b, R: Real<'b>>(extent: Index<'b>, body: impl FnOnce(Index<'b>) -> R) -> Index<'b> {
    arg(BinderKind::ArgMin, extent, body)
}

/// `exists i < extent. body(i)`
#[track_caller]
pub fn exists<'b>(extent: Index<'b>, body: impl FnOnce(Index<'b>) -> Guard<'b>) -> Guard<'b> {
    let builder = extent.builder;
    let (bound, index) = builder.bound_index();
    let body = body(index).within(builder);
    Guard::make(builder, Kind::Binder(BinderKind::Exists, bound), vec![extent.id, body])
}

/// `let x = value in body(x)`. Sharing needs no `let`: an expression used several times is computed once.
#[track_caller]
pub fn let_<'b, R: Real<'b>>(value: Expr<'b>, body: impl FnOnce(Expr<'b>) -> R) -> Expr<'b> {
    let builder = value.builder;
    let (bound, variable) = bound_value(builder);
    let body = body(variable).real(builder).within(builder);
    Expr::make(builder, Kind::Let(bound), vec![value.id, body])
}

/// A new name for a value, and the value.
#[track_caller]
fn bound_value<'b>(builder: &'b Builder<'b>) -> (BoundId, Expr<'b>) {
    let bound = builder.graph.borrow_mut().bound();
    (bound, Expr::make(builder, Kind::Bound(bound), vec![]))
}

macro_rules! scans {
    ($($(#[$doc:meta])* $name:ident $kind:ident $down:literal;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<'b, R: Real<'b>>(
            steps: Index<'b>,
            init: impl Real<'b>,
            body: impl FnOnce(Index<'b>, Expr<'b>) -> R,
        ) -> Expr<'b> {
            let builder = steps.builder;
            let init = init.real(builder).within(builder);
            let (index, t) = builder.bound_index();
            let (state, before) = bound_value(builder);
            let body = body(t, before).real(builder).within(builder);
            let kind = Kind::Scan { kind: LoopKind::$kind, down: $down, index, state };
            Expr::make(builder, kind, vec![steps.id, init, body])
        }
    )*};
}

scans! {
    /// `fold t < steps, s = init. body(t, s)`: the last state of a loop. The body makes the next state of the one before, which may be a real, a
    /// tensor or a [pair](Expr::pair) of these.
    ///
    /// ```
    /// use iverson::builder::{Builder, fold};
    ///
    /// let b = Builder::new();
    /// let n = b.size("n");
    /// let x = b.param("x", [n]);
    /// let product = fold(n, 1.0, |t, s| s * x[t]);
    /// let program = iverson::ir::surface::elaborate(&b.finish(product)?, &[]).unwrap();
    /// assert_eq!(program.to_string().lines().last(), Some("prod i < n. x[i]"));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    fold Fold false;
    /// `fold t < steps down, s = init. body(t, s)`: as [`fold`], with the index from the last to the first.
    fold_down Fold true;
    /// `scan t < steps, s = init. body(t, s)`: all states of a loop, one more than there are steps, the first one `init`. State `t + 1` is made in
    /// step `t`.
    ///
    /// ```
    /// use iverson::builder::{Builder, scan};
    ///
    /// let b = Builder::new();
    /// let n = b.size("n");
    /// let x = b.param("x", [n]);
    /// let products = scan(n, 1.0, |t, s| s * x[t]);
    /// let program = iverson::ir::surface::elaborate(&b.finish(products)?, &[]).unwrap();
    /// assert_eq!(program.to_string().lines().last(), Some("scan i < n, t = 1. t * x[i]"));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    scan Scan false;
    /// `scan t < steps down, s = init. body(t, s)`: as [`scan`], with the index from the last to the first. The last state is `init`, and state `t` is
    /// made in step `t`.
    scan_down Scan true;
}

/// `iterate s = init while goes_on(s), at most steps. body(s)`: the first state for which the condition does not hold, or the one after `steps` steps.
/// A kernel stops where the condition fails.
///
/// ```
/// use iverson::builder::{Builder, iterate};
///
/// let b = Builder::new();
/// let a = b.scalar("a");
/// let root = iterate(a, 100, |s| (s * s - a).abs().gt(1e-12 * a), |s| (s + a / s) / 2.0);
/// let root = iverson::Function::build(&b.finish(root)?)?;
/// let results = root.eval(&iverson::inputs! { "a" => 2.0 })?;
/// assert!((results["value"].as_scalar().unwrap_or(0.0) - 2.0_f64.sqrt()).abs() < 1e-12);
/// # Ok::<(), iverson::Error>(())
/// ```
#[track_caller]
pub fn iterate<'b, R: Real<'b>>(
    init: Expr<'b>,
    steps: impl Affine<'b>,
    goes_on: impl FnOnce(Expr<'b>) -> Guard<'b>,
    body: impl FnOnce(Expr<'b>) -> R,
) -> Expr<'b> {
    let builder = init.builder;
    let steps = steps.index(builder).within(builder);
    let (index, _) = builder.bound_index();
    let (state, before) = bound_value(builder);
    let body = select(goes_on(before), body(before), before).within(builder);
    let kind = Kind::Scan { kind: LoopKind::Iterate, down: false, index, state };
    Expr::make(builder, kind, vec![steps, init.id, body])
}

/// `let k, path = unfold s = init while goes_on(s), at most steps. body(s) in inside(k, path)`: the number of steps until the condition does not hold, or
/// `steps`, and all states, one more than `steps`, of which those behind `k` are the one at `k`. Ranges may end at `k`, but for that of [`generate`].
///
/// ```
/// use iverson::builder::{Builder, sum, unfold};
///
/// let b = Builder::new();
/// let a = b.scalar("a");
/// let halves = unfold(a, 100, |s| s.gt(1.0), |s| s / 2.0, |k, path| sum(k, |t| path[t] - path[t + 1]));
/// let halves = iverson::Function::build(&b.finish(halves)?)?;
/// let results = halves.eval(&iverson::inputs! { "a" => 20.0 })?;
/// assert_eq!(results["value"].as_scalar(), Some(20.0 - 0.625));
/// # Ok::<(), iverson::Error>(())
/// ```
#[track_caller]
pub fn unfold<'b, R: Real<'b>, S: Real<'b>>(
    init: Expr<'b>,
    steps: impl Affine<'b>,
    goes_on: impl FnOnce(Expr<'b>) -> Guard<'b>,
    body: impl FnOnce(Expr<'b>) -> R,
    inside: impl FnOnce(Index<'b>, Expr<'b>) -> S,
) -> Expr<'b> {
    let builder = init.builder;
    let steps = steps.index(builder).within(builder);
    let (index, _) = builder.bound_index();
    let (state, before) = bound_value(builder);
    // The state is a pair with the number of steps.
    let (own, made) = (before.fst(), before.snd());
    let body = select(goes_on(own), body(own).real(builder).pair(made + 1.0), before).within(builder);
    let kind = Kind::Scan { kind: LoopKind::Unfold, down: false, index, state };
    let both = Expr::make(builder, kind, vec![steps, init.pair(0.0).id, body]);
    let (whole, both_again) = bound_value(builder);
    let (count, k) = builder.bound_index();
    let inside = inside(k, both_again.snd()).real(builder).within(builder);
    let found = Index::make(builder, Kind::Fst, vec![both_again.id]);
    let inside = Expr::make(builder, Kind::Let(count), vec![found.id, inside]);
    Expr::make(builder, Kind::Let(whole), vec![both.id, inside.id])
}

/// `fixpoint s = init while goes_on(s), at most steps. body(s)`: what [`iterate`] gives and one step more, taken as the solution of `s = body(s)`. The
/// derivative is that of the solution, by the implicit function theorem, and not that of the steps.
///
/// ```
/// use iverson::builder::{Builder, fixpoint};
///
/// let b = Builder::new();
/// let a = b.scalar("a");
/// let root = fixpoint(a, 100, |s| (s * s - a).abs().gt(1e-12 * a), |s| (s + a / s) / 2.0);
/// let root = iverson::Function::build(&b.finish(root)?)?;
/// let results = root.gradient(["a"])?.eval(&iverson::inputs! { "a" => 4.0 })?;
/// assert!((results["grad_a"].as_scalar().unwrap_or(0.0) - 0.25).abs() < 1e-12);
/// # Ok::<(), iverson::Error>(())
/// ```
#[track_caller]
pub fn fixpoint<'b, R: Real<'b>>(
    init: Expr<'b>,
    steps: impl Affine<'b> + Copy,
    goes_on: impl FnOnce(Expr<'b>) -> Guard<'b>,
    body: impl Fn(Expr<'b>) -> R,
) -> Expr<'b> {
    fixpoint_at(iterate(init, steps, goes_on, &body), steps, body)
}

/// `fixpoint s = init, at most steps. body(s)`: a state that is the solution of `s = body(s)` already, and one step more. How it was found is
/// no part of the derivative, which solves a linear equation by so many steps at most.
#[track_caller]
pub fn fixpoint_at<'b, R: Real<'b>>(
    init: Expr<'b>,
    steps: impl Affine<'b>,
    body: impl FnOnce(Expr<'b>) -> R,
) -> Expr<'b> {
    let builder = init.builder;
    let steps = steps.index(builder).within(builder);
    let (index, _) = builder.bound_index();
    let (state, before) = bound_value(builder);
    let body = body(before).real(builder).within(builder);
    let kind = Kind::Scan { kind: LoopKind::Fixpoint, down: false, index, state };
    Expr::make(builder, kind, vec![steps, init.id, body])
}

/// `select(guard, a, b)`: `a` where the guard holds, else `b`.
#[track_caller]
pub fn select<'b>(guard: Guard<'b>, a: impl Real<'b>, b: impl Real<'b>) -> Expr<'b> {
    let builder = guard.builder;
    let (a, b) = (a.real(builder).within(builder), b.real(builder).within(builder));
    Expr::make(builder, Kind::Call("select".into()), vec![guard.id, a, b])
}

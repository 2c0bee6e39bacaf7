//! How far a computation in floating point may be from the reference evaluator, whatever the order of its sums.
//!
//! [`Rounded`] evaluates a program on its values and, beside them, on absolute values. With `u` the unit roundoff,
//!
//! ```text
//!   |computed - exact|  <=  u * depth * size + tiny
//!
//!   number         value        size                                  depth
//!   input          x            |x|                                   0
//!   a + b          a + b        size(a) + size(b)                     max(depth(a), depth(b)) + 1
//!   a * b          a * b        size(a) * size(b)                     depth(a) + depth(b) + 1
//!   f(a, ..)       f(a, ..)     |f(a, ..)| + sum of |f'_k| size(k)     largest depth + 2
//! ```
//!
//! A sum of `n` terms has depth `n - 1` more than its terms and the sum of their sizes, in any order; a product distributed over a sum has
//! the size and the depth of the product. So the bound is that of all programs that the rules of the ring lead to, and of their first order
//! in `u`. Integers whose sizes stay below 2^53 are exact: their depth is 0, and so is the bound.
//!
//! Where a comparison is as close as the bounds of its sides, either answer may come out: the size is infinite, and nothing is said. Nor is it of
//! functions of what is not finite, if that came of a sum or a product: in another order NaN may be an infinity there, or an infinity NaN.
//! Where a bracket or an extremum tests such a number, nothing is said of the program: the test is refused, with [`Rounded::UNDECIDED`].
//!
//! [`Masked`] is the other meaning that a program may have where it is not finite: a structural zero, which is the value of a false
//! bracket, of a place where nothing is stored, of an empty sum and of the literal 0, makes a product zero, whatever the other factor is.

use std::cmp::Ordering;

use super::numeric::{Numeric, Users, by_formula};
use crate::error::{Error, Result};
use crate::scalar::{self, Function, Op, Partial, Primitive};

/// The distance of 1 from the next number: twice the unit roundoff, since functions are not rounded to the nearest number.
const UNIT: f64 = f64::EPSILON;
/// What a function adds to the depth.
const FUNCTION: f64 = 2.0;
/// Up to which size integers are exact.
const INTEGERS: f64 = 9_007_199_254_740_992.0;
/// What is lost where numbers leave the normal range.
const TINY: f64 = f64::MIN_POSITIVE;

/// A number with what bounds the error of computing it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounded {
    /// As the reference evaluator computes it.
    pub value: f64,
    /// The same computation on absolute values.
    size: f64,
    /// How many roundings are on the longest way to it; 0 where it is exact.
    depth: f64,
    open: Open,
}

/// What is not said of a number where NaN or infinities were met on the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Open {
    Nothing,
    /// Which of NaN and the infinities it is.
    Class,
    /// Anything: it is a function of such a number.
    Everything,
}

impl Rounded {
    /// The feature that [`Error::Limitation`] names where a bracket or an extremum tests a number that may be on either side.
    pub const UNDECIDED: &str = "a test that another order of sums may decide otherwise";

    /// A number of which nothing is said.
    pub fn anything() -> Self {
        Rounded { open: Open::Everything, ..Rounded::unknown(f64::NAN) }
    }

    /// A number that is given.
    pub fn new(value: f64) -> Self {
        Rounded { value, size: value.abs(), depth: 0.0, open: Open::Nothing }
    }

    /// How far another way to compute the number may be from its value; infinite where nothing is known.
    pub fn bound(&self) -> f64 {
        match (self.open, self.depth == 0.0) {
            (Open::Everything, _) => f64::INFINITY,
            (_, true) => 0.0,
            (_, false) => UNIT * self.depth * self.size + TINY,
        }
    }

    /// Whether another way to compute the number may give anything, whether it is finite or not.
    pub fn is_open(&self) -> bool {
        self.open == Open::Everything
    }

    /// With what is not said of the operands of a sum or a product.
    fn opened(self, a: &Self, b: &Self) -> Self {
        let open = a.open.max(b.open);
        let own = if self.value.is_finite() { Open::Nothing } else { Open::Class };
        Rounded { open: if open == Open::Everything { open } else { own }, ..self }
    }

    /// A value that is computed from numbers of these sizes.
    fn of(value: f64, size: f64, depth: f64, exact: bool) -> Self {
        if exact && value.fract() == 0.0 && size < INTEGERS {
            return Rounded { value, size, depth: 0.0, open: Open::Nothing };
        }
        // What underflows is no smaller than what it may differ by.
        let least = if value.abs() < TINY && size > 0.0 { TINY / UNIT } else { 0.0 };
        // Of a number that is no size nothing is known.
        let size = if size.is_nan() { f64::INFINITY } else { size.max(least) };
        Rounded { value, size, depth, open: Open::Nothing }
    }

    /// Nothing is known of how far it may be.
    fn unknown(value: f64) -> Self {
        Rounded { value, size: f64::INFINITY, depth: 1.0, open: Open::Nothing }
    }

    fn is_integer(&self) -> bool {
        self.depth == 0.0 && self.value.fract() == 0.0 && self.size < INTEGERS
    }

    /// Whether two numbers may be in another order than their values.
    fn may_swap(&self, other: &Self) -> bool {
        let reach = self.bound() + other.bound();
        let gap = (self.value - other.value).abs();
        reach > 0.0 && (gap <= 4.0 * reach || gap.is_nan())
    }
}

/// A bracket or an extremum tests a number, and the test may go either way.
fn undecided<T>() -> Result<T> {
    Err(Error::Limitation { feature: Rounded::UNDECIDED.into(), span: None })
}

/// The size and the depth of a function by its partial derivatives.
fn by_slopes(op: Op, value: f64, args: &[Rounded]) -> Result<Rounded> {
    let users = Users::new();
    let values: Vec<f64> = args.iter().map(|a| a.value).collect();
    let (mut size, mut depth) = (value.abs(), 0.0_f64);
    // Near their zeros these are as if their arguments were rounded: what their series add up is no smaller there.
    let is_series = matches!(op, Op::Lgamma | Op::Polygamma(_));
    for (k, a) in (0u8..).zip(args) {
        depth = depth.max(a.depth);
        let slope = |values: &[f64]| scalar::try_evaluate(Function::Partial(Primitive::Op(op), k), &users, values);
        // Where a slope changes fast, at the ends of what the argument may be.
        let mut steepest = 0.0_f64;
        let reach = 4.0 * a.bound();
        for x in [a.value, a.value - reach, a.value + reach] {
            let mut at = values.clone();
            if let Some(place) = at.get_mut(usize::from(k)) {
                *place = x;
            }
            let slope = slope(&at)?.abs();
            steepest = if slope > steepest || slope.is_nan() { slope } else { steepest };
        }
        if is_series || a.depth > 0.0 || a.size > a.value.abs() {
            size += steepest * a.size;
        }
    }
    Ok(Rounded::of(value, size, depth + FUNCTION, false))
}

impl Numeric for Rounded {
    fn is_same(&self, other: &Self) -> bool {
        let numbers = |x: &Rounded| [x.value, x.size, x.depth].map(f64::to_bits);
        numbers(self) == numbers(other) && self.open == other.open
    }

    fn literal(x: f64) -> Result<Self> {
        Ok(Rounded::new(x))
    }

    fn integer(k: i64) -> Self {
        Rounded::new(k as f64)
    }

    fn add(&self, other: &Self) -> Self {
        let exact = self.is_integer() && other.is_integer();
        let depth = self.depth.max(other.depth) + 1.0;
        Rounded::of(self.value + other.value, self.size + other.size, depth, exact).opened(self, other)
    }

    fn mul(&self, other: &Self) -> Self {
        let exact = self.is_integer() && other.is_integer();
        let value = self.value * other.value;
        // Nothing is infinite times something that is exactly zero.
        let size = match (self.size == 0.0 || other.size == 0.0) && value == 0.0 {
            true => 0.0,
            false => self.size * other.size,
        };
        Rounded::of(value, size, self.depth + other.depth + 1.0, exact).opened(self, other)
    }

    fn apply(function: Function, users: &Users, args: &[Self]) -> Result<Self> {
        let Function::Value(Primitive::Op(op)) = function else { return by_formula(function, users, args) };
        scalar::check(function, args.len(), users)?;
        let values: Vec<f64> = args.iter().map(|a| a.value).collect();
        let value = op.value(&values);
        if args.iter().any(|a| a.open > Open::Nothing) {
            return Ok(Rounded { open: Open::Everything, ..Rounded::unknown(value) });
        }
        let depth = args.iter().fold(0.0_f64, |depth, a| depth.max(a.depth));
        let exact = args.iter().all(Rounded::is_integer);
        let largest = || args.iter().fold(0.0_f64, |size, a| size.max(a.size));
        Ok(match (op, args) {
            (Op::Compare(_), [a, b]) if a.may_swap(b) => Rounded::unknown(value),
            (Op::Compare(_), _) => Rounded::new(value),
            (Op::StopGradient, [a]) => *a,
            (Op::Sign, [a]) if a.may_swap(&Rounded::new(0.0)) => Rounded::unknown(value),
            (Op::Sign, _) => Rounded::new(value),
            (Op::Floor | Op::Ceil, [a]) if a.may_swap(&Rounded::new(libm::rint(a.value))) => Rounded::unknown(value),
            (Op::Round, [a]) if a.may_swap(&Rounded::new(libm::floor(a.value) + 0.5)) => Rounded::unknown(value),
            (Op::Floor | Op::Ceil | Op::Round, _) => Rounded::new(value),
            (Op::Max | Op::Min | Op::Abs, _) => Rounded { depth, ..Rounded::of(value, largest(), depth, exact) },
            (Op::Powi(k), [a]) if k >= 0 => {
                let factors = f64::from(k);
                Rounded::of(value, a.size.powi(k), factors * (a.depth + 1.0), exact)
            }
            _ => by_slopes(op, value, args)?,
        })
    }

    fn is_zero(&self) -> Result<bool> {
        // Of NaN and the infinities none is zero.
        let decided = self.value.is_nan() && !self.is_open() || !self.may_swap(&Rounded::new(0.0));
        if decided { Ok(self.value == 0.0) } else { undecided() }
    }

    fn compare(&self, other: &Self) -> Result<Option<Ordering>> {
        let open = self.open.max(other.open) > Open::Nothing;
        if open || self.may_swap(other) { undecided() } else { Ok(self.value.partial_cmp(&other.value)) }
    }

    fn is_nan(&self) -> Result<bool> {
        if self.open > Open::Nothing { undecided() } else { Ok(self.value.is_nan()) }
    }
}

/// A number that may be a structural zero, which makes a product zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Masked<T> {
    /// The number.
    pub value: T,
    /// Whether nothing is there.
    pub nothing: bool,
}

impl<T> Masked<T> {
    /// A number that is there.
    pub fn new(value: T) -> Self {
        Masked { value, nothing: false }
    }
}

impl<T: Numeric> Numeric for Masked<T> {
    fn with_value_of(&self, other: &Self) -> Option<Self> {
        let value = self.value.with_value_of(&other.value)?;
        Some(Masked { value, nothing: other.nothing })
    }

    fn is_same(&self, other: &Self) -> bool {
        self.nothing == other.nothing && self.value.is_same(&other.value)
    }

    fn literal(x: f64) -> Result<Self> {
        // What is left of a bracket that is false everywhere is written as a zero.
        Ok(Masked { value: T::literal(x)?, nothing: x == 0.0 })
    }

    fn integer(k: i64) -> Self {
        Masked::new(T::integer(k))
    }

    fn zero() -> Self {
        Masked { value: T::zero(), nothing: true }
    }

    fn add(&self, other: &Self) -> Self {
        match (self.nothing, other.nothing) {
            (true, _) => other.clone(),
            (_, true) => self.clone(),
            (false, false) => Masked::new(self.value.add(&other.value)),
        }
    }

    fn mul(&self, other: &Self) -> Self {
        match self.nothing || other.nothing {
            true => Masked::zero(),
            false => Masked::new(self.value.mul(&other.value)),
        }
    }

    fn apply(function: Function, users: &Users, args: &[Self]) -> Result<Self> {
        let values: Vec<T> = args.iter().map(|a| a.value.clone()).collect();
        let value = Masked::new(T::apply(function, users, &values)?);
        // A quotient is a product with a reciprocal, and functions that keep zero keep what is nothing.
        let all = !args.is_empty() && args.iter().all(|a| a.nothing);
        let divides = function == Function::Value(Primitive::Op(Op::Div));
        if all && value.value.is_zero()? || divides && args.first().is_some_and(|a| a.nothing) {
            return Ok(Masked::zero());
        }
        // A comparison that fails, as a derivative, selects nothing.
        let Function::Partial(primitive, k) = function else { return Ok(value) };
        Ok(match scalar::partial(primitive, k, users) {
            Partial::Zero => Masked::zero(),
            Partial::Indicator(..) | Partial::Otherwise(_) if value.value.is_zero()? => Masked::zero(),
            _ => value,
        })
    }

    fn is_zero(&self) -> Result<bool> {
        self.value.is_zero()
    }

    fn compare(&self, other: &Self) -> Result<Option<Ordering>> {
        self.value.compare(&other.value)
    }

    fn is_nan(&self) -> Result<bool> {
        self.value.is_nan()
    }
}

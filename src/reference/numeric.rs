//! The numbers that the evaluators compute with.
//!
//! Every evaluator is generic over [`Numeric`], so one and the same loop nest gives
//!
//! | numbers | gives |
//! |---|---|
//! | `f64` | the value |
//! | [`Complex64`] | a directional derivative without cancellation, by the complex step |
//! | [`Dual<T>`] | value and directional derivative; `Dual<Dual<T>>` the second one |
//! | [`Field`] | the value of a polynomial program modulo a prime: equality without rounding |
//! | [`Rounded`](super::Rounded) | the value and how far another order of its sums may be from it |
//! | [`Masked<T>`](super::Masked) | the value where what is not there makes a product zero |
//!
//! Scalar functions come from the operator table in [`scalar`]. A number that cannot do an operation answers
//! [`Error::Limitation`]; no operation panics.

use std::cmp::Ordering;
use std::fmt;

use num_complex::Complex64;

use crate::base::{Arena, FunctionId};
use crate::error::{Error, Result};
use crate::scalar::external::{Argument, External};
use crate::scalar::{self, Comparison, Formula, Function, Op, Partial, Primitive, UserFunction, UserValue};

/// The scalar functions registered by the user.
pub type Users = Arena<FunctionId, UserFunction>;

/// A number of an evaluator.
pub trait Numeric: Clone + fmt::Debug {
    /// The number that a literal stands for.
    ///
    /// # Errors
    /// [`Error::Limitation`] where there is none.
    fn literal(x: f64) -> Result<Self>;

    /// An integer.
    fn integer(k: i64) -> Self;

    /// Nothing.
    fn zero() -> Self {
        Self::integer(0)
    }

    /// `self + other`.
    fn add(&self, other: &Self) -> Self;

    /// `self * other`.
    fn mul(&self, other: &Self) -> Self;

    /// A scalar function or a partial derivative of one.
    ///
    /// # Errors
    /// [`Error::Limitation`] where these numbers do not have the function.
    fn apply(function: Function, users: &Users, args: &[Self]) -> Result<Self>;

    /// Whether the number is zero, for the view `Support`. A NaN is not.
    ///
    /// # Errors
    /// [`Error::Limitation`] where another way to compute the number may give another answer.
    fn is_zero(&self) -> Result<bool>;

    /// The order of two numbers, for the views `ArgMax` and `ArgMin`; nothing where one is a NaN.
    ///
    /// # Errors
    /// [`Error::Limitation`] where these numbers have no order, or may have another one.
    fn compare(&self, other: &Self) -> Result<Option<Ordering>>;

    /// Whether the number is a NaN.
    ///
    /// # Errors
    /// [`Error::Limitation`] where another way to compute the number may give another answer.
    fn is_nan(&self) -> Result<bool>;

    /// Calls a function of tensors from outside on tensors with their axes, and gives tensors of so many numbers.
    ///
    /// # Errors
    /// [`Error::Limitation`] for numbers that such code does not take; [`Error::Request`] where it panics.
    fn call(
        name: &str,
        _function: &External,
        _args: &[(Vec<Self>, Vec<usize>)],
        _results: &[usize],
    ) -> Result<Vec<Vec<Self>>> {
        unsupported(format_args!("the function `{name}` of tensors from outside"), "these numbers")
    }

    /// Whether two numbers are one to the last bit, with all that belongs to them; false where that is not known.
    fn is_same(&self, _other: &Self) -> bool {
        false
    }
}

/// A feature that these numbers do not have.
fn unsupported<T>(what: impl fmt::Display, over: &str) -> Result<T> {
    Err(Error::Limitation { feature: format!("{what} over {over}"), span: None })
}

/// A function by its formula in the operator table or the user's: for registered functions and for partial derivatives.
pub(super) fn by_formula<T: Numeric>(function: Function, users: &Users, args: &[T]) -> Result<T> {
    scalar::check(function, args.len(), users)?;
    match function {
        Function::Value(Primitive::Op(op)) => unsupported(op.name(), "these numbers"),
        Function::Value(Primitive::User(id)) => match users.get(id).map(UserFunction::value) {
            Some(UserValue::Formula(body)) => formula(body, args, None, users),
            Some(UserValue::Native(_) | UserValue::External(_) | UserValue::Unregistered) | None => {
                unsupported("a registered function without a formula", "these numbers")
            }
        },
        Function::Partial(primitive, k) => {
            let partial = scalar::partial_formula(primitive, k, users);
            let result = match partial.mentions_result() {
                true => Some(T::apply(Function::Value(primitive), users, args)?),
                false => None,
            };
            formula(&partial, args, result.as_ref(), users)
        }
    }
}

/// The value of a formula. Recursion is on formulas, whose nesting is limited, as is that of calls.
fn formula<T: Numeric>(e: &Formula, args: &[T], result: Option<&T>, users: &Users) -> Result<T> {
    let missing = || Error::bug("evaluate", "a formula mentions an argument or a result that is not there");
    match e {
        Formula::Arg(k) => args.get(usize::from(*k)).cloned().ok_or_else(missing),
        Formula::Result => result.cloned().ok_or_else(missing),
        Formula::Number(x) => T::literal(*x),
        Formula::Add(a, b) => Ok(formula(a, args, result, users)?.add(&formula(b, args, result, users)?)),
        Formula::Mul(a, b) => Ok(formula(a, args, result, users)?.mul(&formula(b, args, result, users)?)),
        Formula::Apply(g, operands) => {
            let values = operands.iter().map(|e| formula(e, args, result, users)).collect::<Result<Vec<T>>>()?;
            T::apply(Function::Value(*g), users, &values)
        }
    }
}

impl Numeric for f64 {
    fn is_same(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits()
    }

    fn call(
        name: &str,
        function: &External,
        args: &[(Vec<Self>, Vec<usize>)],
        results: &[usize],
    ) -> Result<Vec<Vec<Self>>> {
        let args: Vec<Argument<'_>> = args.iter().map(|(numbers, shape)| Argument::new(numbers, shape)).collect();
        let mut filled: Vec<Vec<f64>> = results.iter().map(|len| vec![0.0; *len]).collect();
        let mut slices: Vec<&mut [f64]> = filled.iter_mut().map(Vec::as_mut_slice).collect();
        function.call(name, &args, &mut slices)?;
        Ok(filled)
    }

    fn literal(x: f64) -> Result<Self> {
        Ok(x)
    }

    fn integer(k: i64) -> Self {
        k as f64
    }

    fn add(&self, other: &Self) -> Self {
        self + other
    }

    fn mul(&self, other: &Self) -> Self {
        self * other
    }

    fn apply(function: Function, users: &Users, args: &[Self]) -> Result<Self> {
        scalar::try_evaluate(function, users, args)
    }

    fn is_zero(&self) -> Result<bool> {
        Ok(*self == 0.0)
    }

    fn compare(&self, other: &Self) -> Result<Option<Ordering>> {
        Ok(self.partial_cmp(other))
    }

    fn is_nan(&self) -> Result<bool> {
        Ok(f64::is_nan(*self))
    }
}

/// Real programs continued to the complex plane. With `x + i*h*dx` for a tiny `h` the imaginary part of the result over `h` is the
/// derivative along `dx`, without the cancellation of a difference. Truth and order are those of the real parts.
impl Numeric for Complex64 {
    fn is_same(&self, other: &Self) -> bool {
        self.re.is_same(&other.re) && self.im.is_same(&other.im)
    }

    fn literal(x: f64) -> Result<Self> {
        Ok(Complex64::new(x, 0.0))
    }

    fn integer(k: i64) -> Self {
        Complex64::new(k as f64, 0.0)
    }

    fn add(&self, other: &Self) -> Self {
        self + other
    }

    fn mul(&self, other: &Self) -> Self {
        self * other
    }

    fn apply(function: Function, users: &Users, args: &[Self]) -> Result<Self> {
        match function {
            Function::Value(Primitive::Op(op)) => match scalar::complex(op, args) {
                Some(value) => Ok(value),
                None => unsupported(op.name(), "complex numbers"),
            },
            _ => by_formula(function, users, args),
        }
    }

    fn is_zero(&self) -> Result<bool> {
        Ok(self.re == 0.0)
    }

    fn compare(&self, other: &Self) -> Result<Option<Ordering>> {
        Ok(self.re.partial_cmp(&other.re))
    }

    fn is_nan(&self) -> Result<bool> {
        Ok(self.re.is_nan())
    }
}

/// `value + tangent * epsilon` with `epsilon^2 = 0`.
///
/// A number that does not depend on what is differentiated has no tangent, which is not the same as a tangent of zero: the partial
/// by an argument without a tangent is never taken, so `x^2` written as `pow(x, 2)` has a derivative where `ln x` has no value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dual<T> {
    /// The number.
    pub value: T,
    /// Its derivative, where it depends on what is differentiated.
    pub tangent: Option<T>,
}

impl<T: Numeric> Dual<T> {
    /// A number that does not depend on what is differentiated.
    pub fn constant(value: T) -> Self {
        Dual { value, tangent: None }
    }

    /// A number with its derivative.
    pub fn new(value: T, tangent: T) -> Self {
        Dual { value, tangent: Some(tangent) }
    }

    /// The derivative, zero for a constant.
    pub fn derivative(&self) -> T {
        self.tangent.clone().unwrap_or_else(T::zero)
    }
}

/// The sum of two tangents.
fn add_tangents<T: Numeric>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.add(&b)),
        (a, b) => a.or(b),
    }
}

impl<T: Numeric> Numeric for Dual<T> {
    fn is_same(&self, other: &Self) -> bool {
        let tangents = match (&self.tangent, &other.tangent) {
            (Some(a), Some(b)) => a.is_same(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        tangents && self.value.is_same(&other.value)
    }

    fn literal(x: f64) -> Result<Self> {
        T::literal(x).map(Dual::constant)
    }

    fn integer(k: i64) -> Self {
        Dual::constant(T::integer(k))
    }

    fn add(&self, other: &Self) -> Self {
        let tangent = add_tangents(self.tangent.clone(), other.tangent.clone());
        Dual { value: self.value.add(&other.value), tangent }
    }

    fn mul(&self, other: &Self) -> Self {
        let left = self.tangent.as_ref().map(|t| t.mul(&other.value));
        let right = other.tangent.as_ref().map(|t| self.value.mul(t));
        Dual { value: self.value.mul(&other.value), tangent: add_tangents(left, right) }
    }

    fn apply(function: Function, users: &Users, args: &[Self]) -> Result<Self> {
        let Function::Value(primitive) = function else { return by_formula(function, users, args) };
        let values: Vec<T> = args.iter().map(|a| a.value.clone()).collect();
        let value = T::apply(function, users, &values)?;
        let mut tangent = None;
        for (k, a) in (0u8..).zip(args) {
            let Some(da) = &a.tangent else { continue };
            let partial = T::apply(Function::Partial(primitive, k), users, &values)?;
            let term = match scalar::partial(primitive, k, users) {
                // Selects the tangent: 0 even beside an infinite one.
                Partial::Zero => T::zero(),
                Partial::Indicator(..) | Partial::Otherwise(_) if partial.is_zero()? => T::zero(),
                Partial::Indicator(..) | Partial::Otherwise(_) => da.clone(),
                Partial::Formula(_) => partial.mul(da),
            };
            tangent = add_tangents(tangent, Some(term));
        }
        Ok(Dual { value, tangent })
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

/// An integer modulo the prime `2^61 - 1`.
///
/// Polynomial programs have exact values here, so two of them that agree on random inputs are equal but for a chance of about
/// `degree / 2^61`. Finite `f64` literals are rational with a power of two below, so they have exact values as well. Of the
/// functions there are division, integer powers, and the comparisons `=` and `!=`: a field has no order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Field(u64);

impl Field {
    /// The modulus, a Mersenne prime.
    pub const MODULUS: u64 = (1 << 61) - 1;

    /// `k` modulo the prime.
    pub fn new(k: u64) -> Self {
        Field(k % Field::MODULUS)
    }

    /// The representative below the modulus.
    pub fn get(self) -> u64 {
        self.0
    }

    fn negate(self) -> Self {
        Field::new(Field::MODULUS - self.0)
    }

    /// `self^k`, by squaring.
    pub fn pow(self, mut k: u64) -> Self {
        let (mut power, mut square) = (Field(1), self);
        while k > 0 {
            if k & 1 == 1 {
                power = power.mul(&square);
            }
            square = square.mul(&square);
            k >>= 1;
        }
        power
    }

    /// `1 / self`; zero has none.
    pub fn inverse(self) -> Option<Self> {
        // a^(p - 1) = 1
        (self.0 != 0).then(|| self.pow(Field::MODULUS - 2))
    }

    /// `self^k` for `k` of any sign.
    fn powi(self, k: i64) -> Result<Self> {
        match (k < 0, self.inverse()) {
            (false, _) => Ok(self.pow(k.unsigned_abs())),
            (true, Some(inverse)) => Ok(inverse.pow(k.unsigned_abs())),
            (true, None) => unsupported("division by zero", Field::NAME),
        }
    }

    const NAME: &'static str = "a finite field";
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Small negative numbers read better as such.
        match Field::MODULUS - self.0 {
            k if k < 1 << 32 && self.0 != 0 => write!(f, "-{k}"),
            _ => write!(f, "{}", self.0),
        }
    }
}

impl Numeric for Field {
    fn is_same(&self, other: &Self) -> bool {
        self == other
    }

    fn literal(x: f64) -> Result<Self> {
        if !x.is_finite() {
            return unsupported(x, Field::NAME);
        }
        let bits = x.to_bits();
        let (exponent, fraction) = ((bits >> 52) & 0x7ff, bits & ((1 << 52) - 1));
        // |x| = mantissa * 2^(exponent - 1075)
        let (mantissa, exponent) = if exponent == 0 { (fraction, 1) } else { (fraction | 1 << 52, exponent) };
        // 2^61 = 1, so exponents count modulo 61.
        let power = (exponent as i64 - 1075).rem_euclid(61);
        let magnitude = Field::new(mantissa).mul(&Field::new(1 << power));
        Ok(if x < 0.0 { magnitude.negate() } else { magnitude })
    }

    fn integer(k: i64) -> Self {
        let magnitude = Field::new(k.unsigned_abs());
        if k < 0 { magnitude.negate() } else { magnitude }
    }

    fn add(&self, other: &Self) -> Self {
        // Both are below 2^61.
        Field::new(self.0 + other.0)
    }

    fn mul(&self, other: &Self) -> Self {
        let product = u128::from(self.0) * u128::from(other.0) % u128::from(Field::MODULUS);
        // The remainder is below 2^61.
        Field(product as u64)
    }

    fn apply(function: Function, users: &Users, args: &[Self]) -> Result<Self> {
        let truth = |holds: bool| Ok(Field(u64::from(holds)));
        match (function, args) {
            (Function::Value(Primitive::Op(op)), args) => match (op, args) {
                (Op::Div, [a, b]) => Ok(a.mul(&b.powi(-1)?)),
                (Op::Powi(k), [a]) => a.powi(i64::from(k)),
                (Op::Compare(Comparison::Equal), [a, b]) => truth(a == b),
                (Op::Compare(Comparison::NotEqual), [a, b]) => truth(a != b),
                _ => unsupported(op.name(), Field::NAME),
            },
            _ => by_formula(function, users, args),
        }
    }

    fn is_zero(&self) -> Result<bool> {
        Ok(self.0 == 0)
    }

    fn compare(&self, other: &Self) -> Result<Option<Ordering>> {
        if self == other { Ok(Some(Ordering::Equal)) } else { unsupported("an order", Field::NAME) }
    }

    fn is_nan(&self) -> Result<bool> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> Users {
        Arena::new()
    }

    #[test]
    fn field_literals_are_exact() {
        let half = Field::literal(0.5).unwrap();
        assert_eq!(half.add(&half), Field::new(1));
        assert_eq!(Field::literal(-3.0).unwrap(), Field::integer(-3));
        assert_eq!(Field::literal(-0.0).unwrap(), Field::new(0));
        // 2^61 = 1
        assert_eq!(Field::literal(2f64.powi(70)).unwrap(), Field::new(512));
        let tiny = Field::literal(f64::from_bits(1)).unwrap();
        assert_eq!(tiny.mul(&Field::literal(2f64.powi(1000)).unwrap()).mul(&Field::new(2).pow(74)), Field::new(1));
        assert!(matches!(Field::literal(f64::NAN), Err(Error::Limitation { .. })));
        assert_eq!(Field::integer(i64::MIN).add(&Field::integer(i64::MAX)), Field::integer(-1));
        assert_eq!(format!("{:?} {:?}", Field::integer(-3), Field::new(0)), "-3 0");
    }

    #[test]
    fn field_functions() {
        let number = |k| Field::integer(k);
        let apply = |f: Function, args: &[Field]| Field::apply(f, &users(), args);
        let partial = |op, k| Function::Partial(Primitive::Op(op), k);
        let third = apply(Op::Div.into(), &[number(1), number(3)]).unwrap();
        assert_eq!(third.mul(&number(3)), number(1));
        assert_eq!(apply(Op::Powi(-2).into(), &[third]).unwrap(), number(9));
        assert_eq!(apply(partial(Op::Powi(3), 0), &[number(5)]).unwrap(), number(75));
        assert_eq!(apply(partial(Op::Powi(0), 0), &[number(0)]).unwrap(), number(0));
        // d(a / b) = -a / b^2
        let slope = apply(partial(Op::Div, 1), &[number(8), number(2)]).unwrap();
        assert_eq!(slope, number(-2));
        for refused in [
            apply(Op::Div.into(), &[number(1), number(0)]),
            apply(Op::Exp.into(), &[number(1)]),
            apply(Op::Max.into(), &[number(1), number(2)]),
            apply(Op::Div.into(), &[number(1)]),
        ] {
            assert!(matches!(refused, Err(Error::Limitation { .. })), "{refused:?}");
        }
    }

    /// Value, argument, first and second derivative of `f` of one argument.
    #[test]
    fn nested_duals_give_second_derivatives() {
        let cases: [(Op, f64, [f64; 3]); 4] = [
            (Op::Powi(3), 2.0, [8.0, 12.0, 12.0]),
            (Op::Powi(1), 0.0, [0.0, 1.0, 0.0]),
            (Op::Exp, 0.0, [1.0, 1.0, 1.0]),
            (Op::Ln, 0.5, [0.5f64.ln(), 2.0, -4.0]),
        ];
        for (op, x, expected) in cases {
            let x = Dual::new(Dual::new(x, 1.0), Dual::constant(1.0));
            let y = Dual::apply(op.into(), &users(), &[x]).unwrap();
            assert_eq!([y.value.value, y.value.derivative(), y.derivative().derivative()], expected, "{op:?}");
        }
    }

    /// `pow(x, 2)` at -2, where the partial derivative by the exponent has no value.
    #[test]
    fn constants_have_no_tangent() {
        let args = [Dual::new(-2.0, 1.0), Dual::constant(2.0)];
        let y = Dual::apply(Op::Pow.into(), &users(), &args).unwrap();
        assert_eq!((y.value, y.tangent), (4.0, Some(-4.0)));
    }

    /// The side of a maximum that loses contributes nothing, even with an infinite tangent.
    #[test]
    fn indicators_select() {
        let args = [Dual::new(3.0, 5.0), Dual::new(1.0, f64::INFINITY)];
        assert_eq!(Dual::apply(Op::Max.into(), &users(), &args).unwrap(), Dual::new(3.0, 5.0));
    }
}

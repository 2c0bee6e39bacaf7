//! The operator table: one row says everything the crate knows about a built-in scalar function.
//!
//! Evaluator, differentiator, rewrite rules, cost certificates and code generators read these rows, and the tests of this module
//! check each of them: partial derivatives against differences and complex steps, facts on a grid of special values. To add a scalar
//! function, add a row. A row says:
//!
//! - the variant of [`Op`] and its doc comment; for a family of functions its parameter and the members that are tested;
//! - `name`: as programs call it, or the infix operator; `arguments`: their number;
//! - `value`, and `complex` over the complex numbers, where there is an elementary formula, for checks;
//! - `partials`: one for each argument, in terms of the arguments and of the value of the function (`y`), which saves work. The set of
//!   functions is closed under partial derivatives, so derivatives of any order exist;
//! - `domain`: where the value is a number; `totality`: where it is finite; `facts`: what rewriting may use; `work`: how long it takes;
//!   `latex`: its command there, if there is one; `note`: what was decided where mathematics does not.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use num_complex::Complex64;
use serde::{Deserialize, Serialize};

use super::{Comparison, Formula, Partial, complex as z, polygamma::polygamma, value as v};

/// What a function does with the sign of its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    /// `f(-a) = f(a)`, bit for bit.
    Even,
    /// `f(-a) = -f(a)`, bit for bit.
    Odd,
}

/// How a function moves, on its domain, with each of its arguments while the others stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Monotone {
    /// It never falls.
    Increasing,
    /// It never rises.
    Decreasing,
}

/// Algebraic facts about a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Even or odd.
    pub parity: Option<Parity>,
    /// Monotone in every argument.
    pub monotone: Option<Monotone>,
    /// `f(0, ..) = 0`, so a map over a sparse tensor keeps its pattern.
    pub zero: bool,
    /// `f(a, b) = f(b, a)`, up to the sign of zero.
    pub commutative: bool,
    /// There are arguments of which it is a number though one of them is NaN.
    pub forgets_nan: bool,
}

impl Facts {
    const NONE: Facts = Facts { parity: None, monotone: None, zero: false, commutative: false, forgets_nan: false };

    const fn even(self) -> Facts {
        Facts { parity: Some(Parity::Even), ..self }
    }

    const fn odd(self) -> Facts {
        Facts { parity: Some(Parity::Odd), ..self }
    }

    const fn increasing(self) -> Facts {
        Facts { monotone: Some(Monotone::Increasing), ..self }
    }

    const fn zero(self) -> Facts {
        Facts { zero: true, ..self }
    }

    const fn commutative(self) -> Facts {
        Facts { commutative: true, ..self }
    }

    const fn forgets_nan(self) -> Facts {
        Facts { forgets_nan: true, ..self }
    }

    const fn powi(k: i32) -> Facts {
        let facts = if k % 2 == 0 { Facts::NONE.even() } else { Facts::NONE.odd() };
        let facts = if k > 0 { facts.zero() } else { facts };
        let facts = if k == 0 { facts.forgets_nan() } else { facts };
        if k == 0 || (k > 0 && k % 2 == 1) { facts.increasing() } else { facts }
    }

    const fn compare(comparison: Comparison) -> Facts {
        let facts = match comparison {
            Comparison::Less => Facts::NONE.zero(),
            Comparison::NotEqual => Facts::NONE.zero().commutative(),
            Comparison::Equal => Facts::NONE.commutative(),
            Comparison::LessEqual => Facts::NONE,
        };
        facts.forgets_nan()
    }
}

/// Of which arguments a function has finite values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Totality {
    /// Of all, NaN and infinities among them.
    Always,
    /// Of finite ones.
    OfFinite,
    /// There are finite arguments of which it has none, or it overflows.
    Partial,
}

/// Up to this power a function counts as finite: powers overflow, but not of the sizes and indices that a program is made of.
const MAX_EXPONENT: i32 = 8;

/// A row of the operator table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The function.
    pub op: Op,
    /// See [`Op::name`].
    pub name: Cow<'static, str>,
    /// See [`Op::arity`].
    pub arity: u8,
    /// See [`Op::partials`].
    pub partials: Vec<Partial>,
    /// See [`Op::domain`].
    pub domain: &'static str,
    /// See [`Op::facts`].
    pub facts: Facts,
    /// See [`Op::note`].
    pub note: &'static str,
}

/// The arguments, for writing partial derivatives.
fn arguments<const N: usize>() -> [Formula; N] {
    // Rows have few arguments.
    std::array::from_fn(|k| Formula::Arg(k as u8))
}

/// `[e = 0]`.
fn is_zero(e: &Formula) -> Formula {
    Op::Compare(Comparison::Equal).of([e, &Formula::Number(0.0)])
}

/// The [work](Op::work) of a function that is more than a few instructions.
pub const CALL: u64 = 20;

macro_rules! operators {
    ($(
        $(#[$doc:meta])*
        $op:ident $(($k:ident: $parameter:ty = $members:expr))? {
            name: $name:expr,
            arguments: ($($arg:ident),+),
            value: $value:expr,
            complex: $complex:expr,
            partials: |$y:pat_param| [$($partial:expr),+],
            domain: $domain:literal,
            facts: $facts:expr,
            work: $work:expr,
            totality: $totality:expr,
            $(latex: $latex:literal,)?
            note: $note:literal,
        }
    )+) => {
        /// A built-in scalar function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Op {
            $( $(#[$doc])* $op $(($parameter))?, )+
        }

        #[allow(unused_variables)]
        impl Op {
            /// The name as programs write it: of a function, as in `exp(a)`, or of an infix operator, as in `a / b`.
            /// `pow` is both, `a^b` and `pow(a, b)`.
            pub fn name(self) -> Cow<'static, str> {
                match self { $( Op::$op $(($k))? => Cow::from($name), )+ }
            }

            /// The number of arguments.
            pub fn arity(self) -> u8 {
                match self { $( Op::$op $(($k))? => [$(stringify!($arg)),+].len() as u8, )+ }
            }

            /// The value; NaN with the wrong number of arguments, which [`check`](super::check) reports.
            pub fn value(self, args: &[f64]) -> f64 {
                match self {
                    $( Op::$op $(($k))? => match *args { [$($arg),+] => $value, _ => f64::NAN }, )+
                }
            }

            /// The partial derivatives, one for each argument.
            pub fn partials(self) -> Vec<Partial> {
                match self {
                    $( Op::$op $(($k))? => {
                        let [$($arg),+] = &arguments();
                        let $y = &Formula::Result;
                        vec![$($partial.into()),+]
                    } )+
                }
            }

            /// Where the value is a number, in words. A NaN argument gives NaN unless the table of special values says otherwise.
            pub fn domain(self) -> &'static str {
                match self { $( Op::$op $(($k))? => $domain, )+ }
            }

            /// What rewriting may use.
            pub fn facts(self) -> Facts {
                match self { $( Op::$op $(($k))? => $facts, )+ }
            }

            /// How long it takes, in multiplications: [`CALL`] and more where it is a series or a loop.
            pub fn work(self) -> u64 {
                match self { $( Op::$op $(($k))? => $work, )+ }
            }

            /// Of which arguments it has finite values.
            pub fn totality(self) -> Totality {
                match self { $( Op::$op $(($k))? => $totality, )+ }
            }

            /// Its name in LaTeX, where that has a command for it.
            pub fn latex(self) -> Option<&'static str> {
                match self { $( Op::$op $(($k))? => operators!(@latex $($latex)?), )+ }
            }

            /// What was decided where mathematics leaves it open; empty where it does not.
            pub fn note(self) -> &'static str {
                match self { $( Op::$op $(($k))? => $note, )+ }
            }

            /// All functions, and of each family some members.
            pub fn all() -> Vec<Op> {
                let mut all = Vec::new();
                $( operators!(@all all $op $(($k $members))?); )+
                all
            }
        }

        /// The value at complex arguments, where there is an elementary formula for it; nothing also with the wrong number of arguments.
        ///
        /// Functions that are not analytic, such as `max`, decide by real parts.
        #[allow(unused_variables)]
        pub fn complex(op: Op, args: &[Complex64]) -> Option<Complex64> {
            match op {
                $( Op::$op $(($k))? => match *args { [$($arg),+] => $complex, _ => None }, )+
            }
        }
    };
    (@latex $latex:literal) => { Some($latex) };
    (@latex) => { None };
    (@all $all:ident $op:ident ($k:ident $members:expr)) => { $all.extend($members.map(Op::$op)) };
    (@all $all:ident $op:ident) => { $all.push(Op::$op) };
}

operators! {
    /// `a / b`.
    Div {
        name: "/",
        arguments: (a, b),
        value: a / b,
        complex: Some(z::div(a, b)),
        partials: |y| [1.0 / b, -(y / b)],
        domain: "b != 0",
        facts: Facts::NONE,
        work: 4,
        totality: Totality::Partial,
        note: "as IEEE 754 where b = 0",
    }
    /// `a^k` for an integer constant `k`.
    Powi(k: i32 = [-2, -1, 0, 1, 2, 3, 7]) {
        name: "^",
        arguments: (a),
        value: v::powi(a, k),
        complex: Some(z::powi(a, k)),
        partials: |y| [match (k, k.checked_sub(1)) {
            (0, _) => Partial::Zero,
            (1, _) => Formula::Number(1.0).into(),
            (_, Some(less)) => (f64::from(k) * a.powi(less)).into(),
            // The exponent has no predecessor.
            (_, None) => (f64::from(k) * (y / a)).into(),
        }],
        domain: "all a; a != 0 where k < 0",
        facts: Facts::powi(k),
        work: (u64::from(u32::BITS - k.unsigned_abs().leading_zeros()) + u64::from(k < 0) * 4).min(CALL - 1),
        totality: if (0..=MAX_EXPONENT).contains(&k) { Totality::OfFinite } else { Totality::Partial },
        note: "a^0 is 1 with derivative 0 and a^1 has derivative 1, for all a; a^-k is 1 / a^k",
    }
    /// `pow(a, b)`, real exponent.
    Pow {
        name: "pow",
        arguments: (a, b),
        value: libm::pow(a, b),
        complex: Some(z::pow(a, b)),
        // At (0, 0) the exponent is 0 and not -1, so that the partial is that of the constant pow(a, 0). Where a or b is another number
        // nothing is added, so partials of higher order are right as well.
        partials: |y| [
            b * Op::Pow.of([a, &(b - 1.0 + is_zero(b) * is_zero(a))]),
            Op::Xlogy.of([y, a])
        ],
        domain: "a > 0; a = 0 and b >= 0; a < 0 and b an integer",
        facts: Facts::NONE.forgets_nan(),
        work: CALL,
        totality: Totality::Partial,
        note: "as IEEE 754, so pow(a, 0) = pow(1, b) = 1 for all a and b; at (0, 0) the partial by a is 0, that by b is -inf, from the right; \
               the partial by b is 0 where the value is 0",
    }
    /// The smaller; the first where equal.
    Min {
        name: "min",
        arguments: (a, b),
        value: v::min(a, b),
        complex: Some(z::choose(a, b, v::min)),
        partials: |_| [
            Partial::Indicator(Comparison::LessEqual, a.clone(), b.clone()),
            Partial::Otherwise(0)
        ],
        domain: "all a, b",
        facts: Facts::NONE.increasing().zero().commutative(),
        work: 1,
        totality: Totality::OfFinite,
        latex: "\\min",
        note: "the first argument wins ties; NaN where either is",
    }
    /// The larger; the first where equal.
    Max {
        name: "max",
        arguments: (a, b),
        value: v::max(a, b),
        complex: Some(z::choose(a, b, v::max)),
        partials: |_| [
            Partial::Indicator(Comparison::LessEqual, b.clone(), a.clone()),
            Partial::Otherwise(0)
        ],
        domain: "all a, b",
        facts: Facts::NONE.increasing().zero().commutative(),
        work: 1,
        totality: Totality::OfFinite,
        latex: "\\max",
        note: "the first argument wins ties; NaN where either is",
    }
    /// `1` where the comparison holds, else `0`.
    Compare(k: Comparison = Comparison::ALL) {
        name: k.name(),
        arguments: (a, b),
        value: f64::from(u8::from(k.holds(a, b))),
        complex: Some(z::constant(f64::from(u8::from(k.holds(a.re, b.re))))),
        partials: |_| [Partial::Zero, Partial::Zero],
        domain: "all a, b",
        facts: Facts::compare(k),
        work: 1,
        totality: Totality::Always,
        note: "comparisons with NaN are false, except !=; the derivative is 0 everywhere",
    }
    /// `a`, which derivatives take for a number: what a result does not depend on need not be followed.
    StopGradient {
        name: "stop_gradient",
        arguments: (a),
        value: a,
        complex: Some(z::constant(a.re)),
        partials: |_| [Partial::Zero],
        domain: "all a",
        facts: Facts::NONE.odd().increasing().zero(),
        work: 1,
        totality: Totality::OfFinite,
        note: "the derivative is 0 everywhere, whatever the value does; simplification takes the value",
    }
    /// `-1`, `0` or `1`.
    Sign {
        name: "sign",
        arguments: (a),
        value: v::sign(a),
        complex: Some(z::constant(v::sign(a.re))),
        partials: |_| [Partial::Zero],
        domain: "all a",
        facts: Facts::NONE.odd().increasing().zero(),
        work: 1,
        totality: Totality::OfFinite,
        note: "zeros keep their sign; the derivative is 0 everywhere",
    }
    /// The largest integer that is not above `a`.
    Floor {
        name: "floor",
        arguments: (a),
        value: libm::floor(a),
        complex: Some(z::constant(libm::floor(a.re))),
        partials: |_| [Partial::Zero],
        domain: "all a",
        facts: Facts::NONE.increasing().zero(),
        work: 1,
        totality: Totality::OfFinite,
        note: "zeros keep their sign; the derivative is 0 everywhere",
    }
    /// The smallest integer that is not below `a`.
    Ceil {
        name: "ceil",
        arguments: (a),
        value: libm::ceil(a),
        complex: Some(z::constant(libm::ceil(a.re))),
        partials: |_| [Partial::Zero],
        domain: "all a",
        facts: Facts::NONE.increasing().zero(),
        work: 1,
        totality: Totality::OfFinite,
        note: "a zero has the sign of `a`; the derivative is 0 everywhere",
    }
    /// The nearest integer, of two the even one.
    Round {
        name: "round",
        arguments: (a),
        value: libm::rint(a),
        complex: Some(z::constant(libm::rint(a.re))),
        partials: |_| [Partial::Zero],
        domain: "all a",
        facts: Facts::NONE.odd().increasing().zero(),
        work: 1,
        totality: Totality::OfFinite,
        note: "a zero has the sign of `a`; the derivative is 0 everywhere",
    }
    /// `|a|`.
    Abs {
        name: "abs",
        arguments: (a),
        value: a.abs(),
        complex: Some(z::abs(a)),
        partials: |_| [Op::Sign.of([a])],
        domain: "all a",
        facts: Facts::NONE.even().zero(),
        work: 1,
        totality: Totality::OfFinite,
        note: "the derivative at 0 is 0",
    }
    /// `e^a`.
    Exp {
        name: "exp",
        arguments: (a),
        value: libm::exp(a),
        complex: Some(z::exp(a)),
        partials: |y| [y],
        domain: "all a",
        facts: Facts::NONE.increasing(),
        work: CALL,
        totality: Totality::Partial,
        latex: "\\exp",
        note: "",
    }
    /// Natural logarithm.
    Ln {
        name: "ln",
        arguments: (a),
        value: libm::log(a),
        complex: Some(z::ln(a)),
        partials: |_| [1.0 / a],
        domain: "a > 0",
        facts: Facts::NONE.increasing(),
        work: CALL,
        totality: Totality::Partial,
        latex: "\\ln",
        note: "-inf at 0; the partial is 1 / a also outside of the domain, where the value is NaN",
    }
    /// `ln(1 + a)`.
    Log1p {
        name: "log1p",
        arguments: (a),
        value: libm::log1p(a),
        complex: Some(z::log1p(a)),
        partials: |_| [1.0 / (1.0 + a)],
        domain: "a > -1",
        facts: Facts::NONE.increasing().zero(),
        work: CALL,
        totality: Totality::Partial,
        note: "-inf at -1",
    }
    /// `e^a - 1`.
    Expm1 {
        name: "expm1",
        arguments: (a),
        value: libm::expm1(a),
        complex: Some(z::expm1(a)),
        partials: |_| [Op::Exp.of([a])],
        domain: "all a",
        facts: Facts::NONE.increasing().zero(),
        work: CALL,
        totality: Totality::Partial,
        note: "the partial is not y + 1, which loses its precision for negative a",
    }
    /// Square root.
    Sqrt {
        name: "sqrt",
        arguments: (a),
        value: a.sqrt(),
        complex: Some(z::sqrt(a)),
        partials: |y| [0.5 / y],
        domain: "a >= 0",
        facts: Facts::NONE.increasing().zero(),
        work: 4,
        totality: Totality::Partial,
        note: "the derivative at 0 is inf",
    }
    /// Sine.
    Sin {
        name: "sin",
        arguments: (a),
        value: libm::sin(a),
        complex: Some(z::sin(a)),
        partials: |_| [Op::Cos.of([a])],
        domain: "finite a",
        facts: Facts::NONE.odd().zero(),
        work: CALL,
        totality: Totality::OfFinite,
        latex: "\\sin",
        note: "",
    }
    /// Cosine.
    Cos {
        name: "cos",
        arguments: (a),
        value: libm::cos(a),
        complex: Some(z::cos(a)),
        partials: |_| [-Op::Sin.of([a])],
        domain: "finite a",
        facts: Facts::NONE.even(),
        work: CALL,
        totality: Totality::OfFinite,
        latex: "\\cos",
        note: "",
    }
    /// Tangent.
    Tan {
        name: "tan",
        arguments: (a),
        value: libm::tan(a),
        complex: Some(z::tan(a)),
        partials: |y| [1.0 + y.powi(2)],
        domain: "finite a",
        facts: Facts::NONE.odd().zero(),
        work: CALL,
        totality: Totality::Partial,
        latex: "\\tan",
        note: "no float is a pole",
    }
    /// Hyperbolic tangent.
    Tanh {
        name: "tanh",
        arguments: (a),
        value: libm::tanh(a),
        complex: Some(z::tanh(a)),
        partials: |y| [1.0 - y.powi(2)],
        domain: "all a",
        facts: Facts::NONE.odd().increasing().zero(),
        work: CALL,
        totality: Totality::OfFinite,
        latex: "\\tanh",
        note: "",
    }
    /// Hyperbolic sine.
    Sinh {
        name: "sinh",
        arguments: (a),
        value: libm::sinh(a),
        complex: Some(z::sinh(a)),
        partials: |_| [Op::Cosh.of([a])],
        domain: "all a",
        facts: Facts::NONE.odd().increasing().zero(),
        work: CALL,
        totality: Totality::Partial,
        latex: "\\sinh",
        note: "",
    }
    /// Hyperbolic cosine.
    Cosh {
        name: "cosh",
        arguments: (a),
        value: libm::cosh(a),
        complex: Some(z::cosh(a)),
        partials: |_| [Op::Sinh.of([a])],
        domain: "all a",
        facts: Facts::NONE.even(),
        work: CALL,
        totality: Totality::Partial,
        latex: "\\cosh",
        note: "",
    }
    /// Arc sine.
    Asin {
        name: "asin",
        arguments: (a),
        value: libm::asin(a),
        complex: Some(z::asin(a)),
        partials: |_| [1.0 / Op::Sqrt.of([&((1.0 - a) * (1.0 + a))])],
        domain: "-1 <= a <= 1",
        facts: Facts::NONE.odd().increasing().zero(),
        work: CALL,
        totality: Totality::Partial,
        latex: "\\arcsin",
        note: "the derivative at -1 and 1 is inf; the partial is not 1 / sqrt(1 - a^2), which loses its precision near these",
    }
    /// Arc cosine.
    Acos {
        name: "acos",
        arguments: (a),
        value: libm::acos(a),
        complex: Some(z::acos(a)),
        partials: |_| [-1.0 / Op::Sqrt.of([&((1.0 - a) * (1.0 + a))])],
        domain: "-1 <= a <= 1",
        facts: Facts { monotone: Some(Monotone::Decreasing), ..Facts::NONE },
        work: CALL,
        totality: Totality::Partial,
        latex: "\\arccos",
        note: "the derivative at -1 and 1 is -inf; the partial is not -1 / sqrt(1 - a^2), which loses its precision near these",
    }
    /// Cube root, of negative numbers too.
    Cbrt {
        name: "cbrt",
        arguments: (a),
        value: libm::cbrt(a),
        complex: Some(z::cbrt(a)),
        partials: |y| [1.0 / (3.0 * y.powi(2))],
        domain: "all a",
        facts: Facts::NONE.odd().increasing().zero(),
        work: CALL,
        totality: Totality::OfFinite,
        note: "the derivative at 0 is inf",
    }
    /// Arc tangent.
    Atan {
        name: "atan",
        arguments: (a),
        value: libm::atan(a),
        complex: Some(z::atan(a)),
        partials: |_| [1.0 / (1.0 + a.powi(2))],
        domain: "all a",
        facts: Facts::NONE.odd().increasing().zero(),
        work: CALL,
        totality: Totality::OfFinite,
        latex: "\\arctan",
        note: "",
    }
    /// `atan2(y, x)`: the angle of the point `(x, y)`.
    Atan2 {
        name: "atan2",
        arguments: (a, b),
        value: libm::atan2(a, b),
        complex: Some(z::atan2(a, b)),
        partials: |_| [b / (a.powi(2) + b.powi(2)), -(a / (a.powi(2) + b.powi(2)))],
        domain: "all a, b",
        facts: Facts::NONE.zero(),
        work: CALL,
        totality: Totality::OfFinite,
        note: "zeros as IEEE 754; the partials at the origin are NaN, and need squares that neither overflow nor vanish",
    }
    /// The error function.
    Erf {
        name: "erf",
        arguments: (a),
        value: libm::erf(a),
        complex: None,
        partials: |_| [std::f64::consts::FRAC_2_SQRT_PI * Op::Exp.of([&-a.powi(2)])],
        domain: "all a",
        facts: Facts::NONE.odd().increasing().zero(),
        work: CALL,
        totality: Totality::OfFinite,
        note: "",
    }
    /// `1 / (1 + e^-a)`.
    Sigmoid {
        name: "sigmoid",
        arguments: (a),
        value: v::sigmoid(a),
        complex: Some(z::sigmoid(a)),
        partials: |y| [y * Op::Sigmoid.of([&-a])],
        domain: "all a",
        facts: Facts::NONE.increasing(),
        work: CALL,
        totality: Totality::OfFinite,
        note: "the partial is not y * (1 - y), which loses its precision for positive a",
    }
    /// `ln(1 + e^a)`.
    Softplus {
        name: "softplus",
        arguments: (a),
        value: v::softplus(a),
        complex: Some(z::softplus(a)),
        partials: |_| [Op::Sigmoid.of([a])],
        domain: "all a",
        facts: Facts::NONE.increasing(),
        work: CALL,
        totality: Totality::OfFinite,
        note: "",
    }
    /// `ln |gamma(a)|`.
    Lgamma {
        name: "lgamma",
        arguments: (a),
        value: libm::lgamma(a),
        complex: None,
        partials: |_| [Op::Polygamma(0).of([a])],
        domain: "all a but 0, -1, -2, ..",
        facts: Facts::NONE,
        work: CALL,
        totality: Totality::Partial,
        latex: "\\ln\\Gamma",
        note: "inf at the poles",
    }
    /// The derivative of order `k + 1` of `lgamma`. Order 0 is called `digamma`, order 1 `trigamma`, others `polygamma2` and so on.
    Polygamma(k: u32 = [0, 1, 2, 5]) {
        name: match k {
            0 => Cow::from("digamma"),
            1 => Cow::from("trigamma"),
            k => Cow::from(format!("polygamma{k}")),
        },
        arguments: (a),
        value: polygamma(k, a),
        complex: None,
        partials: |_| [match k.checked_add(1) {
            Some(more) => Partial::Formula(Op::Polygamma(more).of([a])),
            // Nobody differentiates 2^32 times.
            None => Formula::Number(f64::NAN).into(),
        }],
        domain: "all a but 0, -1, -2, ..",
        facts: Facts::NONE,
        work: CALL,
        totality: Totality::Partial,
        note: "at the poles inf for odd k; for even k at 0 the limit from the side of the sign of zero, elsewhere NaN",
    }
    /// `a * ln(b)`, and 0 where `a` is 0: the partial of `pow` by its exponent.
    Xlogy {
        name: "xlogy",
        arguments: (a, b),
        value: v::xlogy(a, b),
        complex: Some(z::xlogy(a, b)),
        partials: |_| [Op::Ln.of([b]), a / b],
        domain: "b > 0; a = 0",
        facts: Facts::NONE.zero().forgets_nan(),
        work: CALL,
        totality: Totality::Partial,
        note: "0 where a = 0, whatever b is",
    }
}

/// The functions that have a name and no symbol.
static BY_NAME: LazyLock<HashMap<Cow<'static, str>, Op>> = LazyLock::new(|| {
    let named = Op::all().into_iter().map(|op| (op.name(), op));
    named.filter(|(name, _)| name.starts_with(|c: char| c.is_ascii_alphabetic())).collect()
});

impl Op {
    /// The function that programs call by a name; `pow` among them. The other infix operators have no such name.
    pub fn from_name(name: &str) -> Option<Op> {
        if let Some(order) = name.strip_prefix("polygamma") {
            // One spelling for each order: no sign, no leading zeros.
            let canonical = !order.starts_with('0') || order == "0";
            let digits = order.bytes().all(|b| b.is_ascii_digit());
            return order.parse().ok().filter(|_| canonical && digits).map(Op::Polygamma);
        }
        BY_NAME.get(name).copied()
    }

    /// The infix operator that programs write for the function, if they do; `^` for both kinds of powers.
    pub fn infix(self) -> Option<&'static str> {
        match self {
            Op::Div => Some("/"),
            Op::Powi(_) | Op::Pow => Some("^"),
            Op::Compare(comparison) => Some(comparison.symbol()),
            _ => None,
        }
    }

    /// The operator table: all functions, and of each family some members.
    pub fn rows() -> Vec<Row> {
        let row = |op: Op| Row {
            op,
            name: op.name(),
            arity: op.arity(),
            partials: op.partials(),
            domain: op.domain(),
            facts: op.facts(),
            note: op.note(),
        };
        Op::all().into_iter().map(row).collect()
    }
}

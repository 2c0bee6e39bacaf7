//! Formulas over the arguments and the value of a scalar function: partial derivatives, and the bodies of `fun`.
//!
//! A formula is a small tree. It nests at most [`Formula::MAX_NESTING`] deep, which the constructors and deserialisation enforce, so
//! recursion over it is safe on any stack. In files it is a flat list in postfix order, so reading one needs no recursion either.

use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Sub};

use serde::{Deserialize, Serialize};

use super::{Op, Primitive, UserFunction, text_f64};
use crate::base::{Arena, FunctionId};
use crate::error::{Error, Result};

/// A formula for a scalar function `f(a, b, ..)` or for one of its partial derivatives.
///
/// `a - b` is `a + (-1) * b` and `-a` is `(-1) * a`, as everywhere. Equality is by structure and by the bits of numbers.
///
/// Match on the variants; make formulas with the operators, [`Op::of`], and, where the formula comes from outside,
/// [`try_add`](Formula::try_add), [`try_mul`](Formula::try_mul) and [`try_apply`](Formula::try_apply).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<Token>", into = "Vec<Token>")]
pub enum Formula {
    /// The argument of the given number.
    Arg(u8),
    /// The value of the function itself, `result` in the text: saves work in partial derivatives, refused in bodies.
    Result,
    /// A literal.
    Number(f64),
    /// `a + b`.
    Add(Box<Formula>, Box<Formula>),
    /// `a * b`.
    Mul(Box<Formula>, Box<Formula>),
    /// `g(a, ..)`.
    Apply(Primitive, Vec<Formula>),
}

/// A node of the postfix form.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Token {
    Arg(u8),
    Result,
    Number(#[serde(with = "text_f64")] f64),
    Add,
    Mul,
    Apply(Primitive, u8),
}

impl Formula {
    /// How deep formulas may nest; an argument or a number has depth 1.
    pub const MAX_NESTING: usize = 64;

    /// `a + b`.
    ///
    /// # Errors
    /// [`Error::Limit`] beyond [`Formula::MAX_NESTING`].
    pub fn try_add(a: Formula, b: Formula) -> Result<Formula> {
        let nesting = a.nesting().max(b.nesting());
        limited(nesting, Formula::Add(Box::new(a), Box::new(b)))
    }

    /// `a * b`.
    ///
    /// # Errors
    /// As [`Formula::try_add`].
    pub fn try_mul(a: Formula, b: Formula) -> Result<Formula> {
        let nesting = a.nesting().max(b.nesting());
        limited(nesting, Formula::Mul(Box::new(a), Box::new(b)))
    }

    /// `g(args)`.
    ///
    /// # Errors
    /// [`Error::Limit`] beyond [`Formula::MAX_NESTING`], [`Error::Request`] where a built-in function does not take that many arguments.
    /// The arity of a user's function is checked by [`check_functions`](super::check_functions).
    pub fn try_apply(g: Primitive, args: Vec<Formula>) -> Result<Formula> {
        if let Primitive::Op(op) = g
            && args.len() != usize::from(op.arity())
        {
            return Err(Error::Request(super::wrong_arity(&op.name(), op.arity(), args.len())));
        }
        let nesting = args.iter().map(Formula::nesting).max().unwrap_or(0);
        limited(nesting, Formula::Apply(g, args))
    }

    /// `self^k`. The powers 0 and 1 are simplified.
    ///
    /// # Panics
    /// As the operators: beyond [`Formula::MAX_NESTING`].
    pub fn powi(&self, k: i32) -> Formula {
        match k {
            0 => Formula::Number(1.0),
            1 => self.clone(),
            k => Op::Powi(k).of([self]),
        }
    }

    /// The operands of the outermost operation.
    fn operands(&self) -> impl Iterator<Item = &Formula> {
        let (pair, list): (Option<[&Formula; 2]>, &[Formula]) = match self {
            Formula::Arg(_) | Formula::Result | Formula::Number(_) => (None, &[]),
            Formula::Add(a, b) | Formula::Mul(a, b) => (Some([a, b]), &[]),
            Formula::Apply(_, args) => (None, args),
        };
        pair.into_iter().flatten().chain(list)
    }

    /// How deep the formula nests.
    pub fn nesting(&self) -> usize {
        1 + self.operands().map(Formula::nesting).max().unwrap_or(0)
    }

    /// Calls `visit` on the formula and all formulas inside, operands first.
    pub fn visit<'a>(&'a self, visit: &mut impl FnMut(&'a Formula)) {
        for operand in self.operands() {
            operand.visit(visit);
        }
        visit(self);
    }

    /// The number of scalar operations: additions, multiplications and applications count 1 each.
    pub fn cost(&self) -> u64 {
        let mut cost = 0;
        self.visit(&mut |e| cost += u64::from(matches!(e, Formula::Add(..) | Formula::Mul(..) | Formula::Apply(..))));
        cost
    }

    /// Whether [`Formula::Result`] occurs.
    pub fn mentions_result(&self) -> bool {
        let mut found = false;
        self.visit(&mut |e| found |= matches!(e, Formula::Result));
        found
    }

    /// The value, given the arguments and the value of the function. NaN where an argument or a function is missing, which
    /// [`check_functions`](super::check_functions) reports.
    pub fn evaluate(&self, args: &[f64], result: f64, users: &Arena<FunctionId, UserFunction>) -> f64 {
        super::evaluate::Evaluator::new(users).expr(self, args, result).unwrap_or(f64::NAN)
    }

    /// Writes the formula in the syntax of programs, with the caller's names for arguments and functions.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, f: &mut dyn fmt::Write, names: &Names<'_>) -> fmt::Result {
        write_at(self, Level::Sum, f, names)
    }
}

fn limited(nesting: usize, e: Formula) -> Result<Formula> {
    let limit = Formula::MAX_NESTING;
    if nesting < limit {
        return Ok(e);
    }
    Err(Error::Limit { what: "the nesting of a scalar formula", limit: limit as u64, found: nesting as u64 + 1 })
}

impl Op {
    /// The formula `self(args)`, for writing partial derivatives in Rust: `Op::Exp.of([&a])`.
    ///
    /// # Panics
    /// With the wrong number of arguments, and beyond [`Formula::MAX_NESTING`]; formulas from outside take [`Formula::try_apply`].
    pub fn of<const N: usize>(self, args: [&Formula; N]) -> Formula {
        formula(Formula::try_apply(Primitive::Op(self), args.map(Formula::clone).to_vec()))
    }
}

/// The operators serve formulas written down in Rust, where a formula that is too deep is a mistake in the source code.
fn formula(e: Result<Formula>) -> Formula {
    match e {
        Ok(e) => e,
        Err(error) => panic!("{error}"),
    }
}

impl From<f64> for Formula {
    fn from(x: f64) -> Formula {
        Formula::Number(x)
    }
}

impl From<&Formula> for Formula {
    fn from(e: &Formula) -> Formula {
        e.clone()
    }
}

impl Neg for Formula {
    type Output = Formula;
    fn neg(self) -> Formula {
        match self {
            Formula::Number(x) => Formula::Number(-x),
            e => formula(Formula::try_mul(Formula::Number(-1.0), e)),
        }
    }
}

impl Neg for &Formula {
    type Output = Formula;
    fn neg(self) -> Formula {
        -self.clone()
    }
}

/// Operators on formulas, references to formulas and numbers. They panic beyond [`Formula::MAX_NESTING`].
macro_rules! operators {
    ($($left:ty, $right:ty);+) => { $(
        impl Add<$right> for $left {
            type Output = Formula;
            fn add(self, other: $right) -> Formula {
                formula(Formula::try_add(self.into(), other.into()))
            }
        }
        impl Sub<$right> for $left {
            type Output = Formula;
            fn sub(self, other: $right) -> Formula {
                formula(Formula::try_add(self.into(), -Formula::from(other)))
            }
        }
        impl Mul<$right> for $left {
            type Output = Formula;
            fn mul(self, other: $right) -> Formula {
                formula(Formula::try_mul(self.into(), other.into()))
            }
        }
        impl Div<$right> for $left {
            type Output = Formula;
            fn div(self, other: $right) -> Formula {
                Op::Div.of([&self.into(), &other.into()])
            }
        }
    )+ };
}

operators! {
    Formula, Formula; Formula, &Formula; Formula, f64; &Formula, Formula; &Formula, &Formula; &Formula, f64; f64, Formula; f64, &Formula
}

impl PartialEq for Formula {
    fn eq(&self, other: &Formula) -> bool {
        match (self, other) {
            (Formula::Arg(a), Formula::Arg(b)) => a == b,
            (Formula::Result, Formula::Result) => true,
            // Bits, not values: `0.0` and `-0.0` differ, and a NaN equals itself.
            (Formula::Number(a), Formula::Number(b)) => a.to_bits() == b.to_bits(),
            (Formula::Add(a, b), Formula::Add(c, d)) | (Formula::Mul(a, b), Formula::Mul(c, d)) => a == c && b == d,
            (Formula::Apply(f, a), Formula::Apply(g, b)) => f == g && a == b,
            _ => false,
        }
    }
}

impl Eq for Formula {}

impl From<Formula> for Vec<Token> {
    fn from(e: Formula) -> Vec<Token> {
        let mut tokens = Vec::new();
        e.visit(&mut |e| {
            tokens.push(match e {
                Formula::Arg(k) => Token::Arg(*k),
                Formula::Result => Token::Result,
                Formula::Number(x) => Token::Number(*x),
                Formula::Add(..) => Token::Add,
                Formula::Mul(..) => Token::Mul,
                // Functions take at most 255 arguments; a formula with more does not read back.
                Formula::Apply(g, args) => Token::Apply(*g, u8::try_from(args.len()).unwrap_or(u8::MAX)),
            });
        });
        tokens
    }
}

impl TryFrom<Vec<Token>> for Formula {
    type Error = Error;
    fn try_from(tokens: Vec<Token>) -> Result<Formula> {
        let malformed = || Error::data("scalar formula", "the postfix form has too few or too many operands");
        let mut stack: Vec<Formula> = Vec::new();
        for token in tokens {
            let e = match token {
                Token::Arg(k) => Formula::Arg(k),
                Token::Result => Formula::Result,
                Token::Number(x) => Formula::Number(x),
                Token::Add | Token::Mul => {
                    let (b, a) = (stack.pop().ok_or_else(malformed)?, stack.pop().ok_or_else(malformed)?);
                    if matches!(token, Token::Add) { Formula::try_add(a, b)? } else { Formula::try_mul(a, b)? }
                }
                Token::Apply(g, n) => {
                    let first = stack.len().checked_sub(usize::from(n)).ok_or_else(malformed)?;
                    Formula::try_apply(g, stack.split_off(first))?
                }
            };
            stack.push(e);
        }
        match (stack.pop(), stack.is_empty()) {
            (Some(e), true) => Ok(e),
            _ => Err(malformed()),
        }
    }
}

/// Names for printing a formula.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// The names of the arguments; `a`, `b`, .. where there are none.
    pub args: &'a [String],
    /// The registered functions; one that is not there prints as its id.
    pub users: Option<&'a Arena<FunctionId, UserFunction>>,
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &Names::default())
    }
}

/// How tightly a place in the text binds. An expression stands without parentheses where its own level is not below its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// `a < b`, which is 1 or 0: in parentheses everywhere.
    Comparison,
    Sum,
    /// `-a`, also a negative literal: in parentheses inside products.
    Negation,
    Product,
    Factor,
    Power,
    Atom,
}

fn level(e: &Formula) -> Level {
    match e {
        Formula::Number(x) if x.is_sign_negative() => Level::Negation,
        Formula::Arg(_) | Formula::Result | Formula::Number(_) => Level::Atom,
        Formula::Add(..) => Level::Sum,
        Formula::Mul(..) if negated(e).is_some() => Level::Negation,
        Formula::Mul(..) | Formula::Apply(Primitive::Op(Op::Div), _) => Level::Product,
        Formula::Apply(Primitive::Op(Op::Compare(_)), _) => Level::Comparison,
        Formula::Apply(Primitive::Op(Op::Powi(_)), _) => Level::Power,
        Formula::Apply(Primitive::Op(Op::Pow), args) if pow_is_infix(args) => Level::Power,
        Formula::Apply(..) => Level::Atom,
    }
}

/// `e`, where the formula is `-1 * e` and `-e` reads back as that: `-3` would read back as a literal.
fn negated(e: &Formula) -> Option<&Formula> {
    match e {
        Formula::Mul(a, b) if **a == Formula::Number(-1.0) && !matches!(**b, Formula::Number(_)) => Some(b),
        _ => None,
    }
}

/// `a^2` reads back as an integer power, so an integer exponent of `pow` needs the form `pow(a, 2)`.
fn pow_is_infix(args: &[Formula]) -> bool {
    !matches!(args, [_, Formula::Number(x)] if x.fract() == 0.0)
}

fn write_at(e: &Formula, place: Level, f: &mut dyn fmt::Write, names: &Names<'_>) -> fmt::Result {
    if level(e) < place {
        f.write_char('(')?;
        write_at(e, Level::Comparison, f, names)?;
        return f.write_char(')');
    }
    let mut infix = |a: &Formula, left: Level, op: &str, b: &Formula, right: Level| {
        write_at(a, left, f, names)?;
        f.write_str(op)?;
        write_at(b, right, f, names)
    };
    match e {
        Formula::Arg(k) => match (names.args.get(usize::from(*k)), k) {
            (Some(name), _) => f.write_str(name),
            (None, 0..26) => f.write_char(char::from(b'a' + k)),
            (None, k) => write!(f, "a{k}"),
        },
        Formula::Result => f.write_str("result"),
        Formula::Number(x) => write_number(*x, f),
        Formula::Add(a, b) => match &**b {
            Formula::Mul(minus, b) if **minus == Formula::Number(-1.0) => {
                infix(a, Level::Sum, " - ", b, Level::Product)
            }
            b => infix(a, Level::Sum, " + ", b, Level::Product),
        },
        Formula::Mul(a, b) => match negated(e) {
            Some(b) => {
                f.write_char('-')?;
                write_at(b, Level::Power, f, names)
            }
            None => infix(a, Level::Product, " * ", b, Level::Factor),
        },
        Formula::Apply(Primitive::Op(op), args) => match (op, args.as_slice()) {
            (Op::Div, [a, b]) => infix(a, Level::Product, " / ", b, Level::Factor),
            (Op::Pow, [a, b]) if pow_is_infix(args) => infix(a, Level::Atom, "^", b, Level::Atom),
            (Op::Powi(k), [a]) => {
                write_at(a, Level::Atom, f, names)?;
                if *k < 0 { write!(f, "^({k})") } else { write!(f, "^{k}") }
            }
            (Op::Compare(comparison), [a, b]) => {
                write_at(a, Level::Sum, f, names)?;
                write!(f, " {} ", comparison.symbol())?;
                write_at(b, Level::Sum, f, names)
            }
            (op, args) => write_call(&op.name(), args, f, names),
        },
        Formula::Apply(Primitive::User(id), args) => match names.users.and_then(|users| users.get(*id)) {
            Some(user) => write_call(user.name(), args, f, names),
            None => write_call(&id.to_string(), args, f, names),
        },
    }
}

fn write_call(name: &str, args: &[Formula], f: &mut dyn fmt::Write, names: &Names<'_>) -> fmt::Result {
    write!(f, "{name}(")?;
    for (k, arg) in args.iter().enumerate() {
        if k > 0 {
            f.write_str(", ")?;
        }
        write_at(arg, Level::Sum, f, names)?;
    }
    f.write_char(')')
}

fn write_number(x: f64, f: &mut dyn fmt::Write) -> fmt::Result {
    if x.is_nan() {
        f.write_str("nan")
    } else if x.fract() == 0.0 && x.abs() < 1e15 {
        write!(f, "{x}")
    } else {
        // The shortest text that reads back as the same bits, with an exponent where that is shorter.
        write!(f, "{x:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::Comparison;

    fn abc() -> [Formula; 3] {
        [Formula::Arg(0), Formula::Arg(1), Formula::Arg(2)]
    }

    #[test]
    fn display_reads_as_programs_do() {
        let [a, b, c] = &abc();
        let y = &Formula::Result;
        let cases: &[(Formula, &str)] = &[
            (1.0 - y.powi(2), "1 - result^2"),
            (-(y / b), "-(result / b)"),
            (a - b - c, "a - b - c"),
            (a - (b - c), "a - (b - c)"),
            (a - b * c, "a - b * c"),
            (a * (b + c), "a * (b + c)"),
            (a * b * c, "a * b * c"),
            (a * (b * c), "a * (b * c)"),
            (a / b / c, "a / b / c"),
            (a / (b / c), "a / (b / c)"),
            (a * -b, "a * (-b)"),
            (-(a * b), "-(a * b)"),
            (-a * b, "(-a) * b"),
            (-a.powi(2), "-a^2"),
            ((-a).powi(2), "(-a)^2"),
            (a.powi(2).powi(3), "(a^2)^3"),
            (a.powi(-2), "a^(-2)"),
            (Formula::Number(-3.0).powi(2), "(-3)^2"),
            (a + -3.0, "a + (-3)"),
            (a - 3.0, "a + (-3)"),
            (a * -3.0 + 1e300, "a * (-3) + 1e300"),
            (Formula::try_mul((-1.0).into(), 3.0.into()).unwrap(), "(-1) * 3"),
            (a + 0.0015, "a + 0.0015"),
            (Op::Pow.of([a, &(b - 1.0)]), "a^(b + (-1))"),
            (Op::Pow.of([a, &Formula::Number(2.0)]), "pow(a, 2)"),
            (Op::Pow.of([a, &Formula::Number(0.5)]), "a^0.5"),
            (Op::Max.of([a, &(b + c)]), "max(a, b + c)"),
            (Op::Polygamma(2).of([a]) * 2.0, "polygamma2(a) * 2"),
            (Op::Compare(Comparison::Less).of([a, b]) * c, "(a < b) * c"),
            (Formula::Number(f64::NEG_INFINITY) * f64::NAN, "(-inf) * nan"),
            (Formula::Number(-0.0), "-0"),
            (Formula::Apply(Primitive::User(FunctionId(3)), vec![a.clone()]), "f3(a)"),
            (Formula::Arg(30) + a, "a30 + a"),
        ];
        for (e, text) in cases {
            assert_eq!(e.to_string(), *text, "{e:?}");
        }
    }

    #[test]
    fn display_takes_names_from_the_caller() {
        let mut users = Arena::new();
        let square = users
            .push(UserFunction::formula("square", 1, Formula::Arg(0).powi(2), vec![2.0 * Formula::Arg(0)]).unwrap());
        let e = Formula::try_apply(Primitive::User(square), vec![Formula::Arg(1)]).unwrap() + Formula::Arg(0);
        let args = ["mass".to_string()];
        let mut text = String::new();
        e.write(&mut text, &Names { args: &args, users: Some(&users) }).unwrap();
        assert_eq!(text, "square(b) + mass");
    }

    #[test]
    fn cost_counts_operations() {
        let [a, b, _] = &abc();
        for (e, cost) in [
            (a.clone(), 0),
            (1.0 - Formula::Result.powi(2), 3),
            (a / b, 1),
            (Op::Exp.of([&-a.powi(2)]) * 2.0, 4),
            (a.powi(0), 0),
            (a.powi(1), 0),
        ] {
            assert_eq!(e.cost(), cost, "{e}");
        }
    }

    /// A sum nested to the given depth.
    fn nested(depth: usize) -> Result<Formula> {
        (1..depth).try_fold(Formula::Arg(0), |e, _| Formula::try_add(e, Formula::Number(1.0)))
    }

    #[test]
    fn nesting_is_limited() {
        let limit = Formula::MAX_NESTING;
        assert_eq!(nested(limit).map(|e| e.nesting()), Ok(limit));
        let too_deep = Error::Limit { what: "the nesting of a scalar formula", limit: 64, found: 65 };
        assert_eq!(nested(limit + 1), Err(too_deep.clone()));
        let deepest = nested(limit).unwrap();
        assert_eq!(Formula::try_mul(Formula::Result, deepest.clone()), Err(too_deep.clone()));
        assert_eq!(Formula::try_apply(Op::Exp.into(), vec![deepest]), Err(too_deep));
    }

    #[test]
    fn apply_checks_the_arity() {
        let error = Formula::try_apply(Op::Exp.into(), vec![Formula::Arg(0), Formula::Arg(1)]).unwrap_err();
        assert_eq!(error.to_string(), "`exp` takes 1 argument and was given 2");
    }

    #[test]
    fn serde_round_trip() {
        let [a, b, c] = &abc();
        let cases = [
            Op::Powi(-3).of([&(a + b * c)]) - Formula::Result,
            Op::Compare(Comparison::NotEqual).of([a, &Formula::Number(f64::NAN)]),
            Formula::Number(f64::NEG_INFINITY) + -0.0,
            Formula::try_apply(Primitive::User(FunctionId(1)), vec![a.clone(), c.clone()]).unwrap(),
            nested(Formula::MAX_NESTING).unwrap(),
        ];
        for e in cases {
            let text = serde_json::to_string(&e).unwrap();
            assert_eq!(serde_json::from_str::<Formula>(&text).unwrap(), e, "{text}");
        }
    }

    #[test]
    fn serde_refuses_malformed_formulas() {
        let deep = format!(r#"["result"{}]"#, r#","result","add""#.repeat(100_000));
        for (text, message) in [
            ("[]", "too few or too many operands"),
            (r#"["add"]"#, "too few or too many operands"),
            (r#"[{"arg":0},"mul"]"#, "too few or too many operands"),
            (r#"["result","result"]"#, "too few or too many operands"),
            (r#"["result",{"apply":[{"op":"exp"},2]}]"#, "too few or too many operands"),
            (r#"["result","result",{"apply":[{"op":"exp"},2]}]"#, "`exp` takes 1 argument and was given 2"),
            (r#"["result",{"apply":[{"op":"pow"},1]}]"#, "`pow` takes 2 arguments and was given 1"),
            (&deep, "limit of 64"),
        ] {
            let error = serde_json::from_str::<Formula>(text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}

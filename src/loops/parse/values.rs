//! What defines registers, conditions, and index expressions.

use super::{MAX_COND, Parser};
use crate::error::{Error, Result};
use crate::index::{Affine, Size, Var, View};
use crate::loops::scan::problem;
use crate::loops::{Cond, Real, Stmt};
use crate::scalar::{self, Op};

impl Parser<'_> {
    /// What defines a register or adds to it.
    pub(super) fn arithmetic(&mut self) -> Result<Stmt> {
        let r = self.register()?;
        if self.line.eat(":=") {
            return Ok(Stmt::Assign(r, self.register()?));
        }
        if self.line.eat("+=") {
            let a = self.register()?;
            return Ok(match self.line.eat("*") {
                true => Stmt::MulAdd(r, a, self.register()?),
                false => Stmt::Accumulate(r, a),
            });
        }
        for (word, view) in [("max", View::ArgMax), ("min", View::ArgMin)] {
            if self.line.eat_words(&[word, "="]) {
                return Ok(Stmt::Extend(view, r, self.register()?));
            }
        }
        if !self.line.eat("=") {
            return self.line.expected("`=`, `:=`, `+=`, `max=` or `min=`");
        }
        Ok(Stmt::Define(r, self.real()?))
    }

    fn real(&mut self) -> Result<Real> {
        let word = self.line.word();
        if self.line.rest().starts_with('-') || self.line.at_digit() || matches!(word, "inf" | "NaN") {
            return Ok(Real::Literal(self.line.real()?));
        }
        if self.line.eat("[") {
            let p = self.register()?;
            self.line.expect("!=")?;
            self.line.expect("0")?;
            self.line.expect("]")?;
            return Ok(Real::Select(p, self.register()?));
        }
        if self.line.at_call() {
            return self.call(word);
        }
        if !self.line.at_id('r') {
            return Ok(Real::Load(self.place()?));
        }
        let a = self.register()?;
        if self.line.eat("+") {
            return Ok(Real::Add(a, self.register()?));
        }
        if self.line.eat("*") {
            let b = self.register()?;
            return Ok(match self.line.eat("+") {
                true => Real::MulAdd(a, b, self.register()?),
                false => Real::Mul(a, b),
            });
        }
        if self.line.eat("/") {
            return Ok(Real::apply(Op::Div, [a, self.register()?]));
        }
        if self.line.eat("^") {
            let exponent = self.exponent()?;
            return Ok(Real::apply(Op::Powi(exponent), [a]));
        }
        self.line.expected("`+`, `*`, `/` or `^`")
    }

    /// An integer of 32 bits, also the least.
    fn exponent(&mut self) -> Result<i32> {
        let span = self.line.here();
        let exponent: i64 = self.signed("an exponent")?;
        i32::try_from(exponent).map_err(|_| problem("bad-number", span, "expected an exponent of 32 bits"))
    }

    /// `real(i0)` or `f(r0, r1)`
    fn call(&mut self, name: &str) -> Result<Real> {
        let span = self.line.here();
        self.line.eat(name);
        self.line.expect("(")?;
        if name == "real" {
            let value = self.affine()?;
            self.line.expect(")")?;
            return Ok(Real::Index(value));
        }
        let unknown = || problem("unknown-name", span, format!("there is no function `{name}`"));
        let function = self.signature.function_named(name).ok_or_else(unknown)?;
        let mut args = vec![self.register()?];
        while self.line.eat(",") {
            args.push(self.register()?);
        }
        self.line.expect(")")?;
        scalar::check(function, args.len(), &self.signature.functions)
            .map_err(|error| problem("wrong-call", span, error.to_string()))?;
        Ok(Real::Apply(function, args))
    }

    /// A condition inside of so many.
    pub(super) fn cond(&mut self, depth: usize) -> Result<Cond> {
        if depth > MAX_COND {
            return Err(problem("too-deep", self.line.here(), "expected a condition that nests less"));
        }
        if self.line.eat("true") {
            return Ok(Cond::All(Vec::new()));
        }
        if self.line.eat("false") {
            return Ok(Cond::Any(Vec::new()));
        }
        for (word, kind) in [("all", Cond::All as fn(Vec<Cond>) -> Cond), ("any", Cond::Any)] {
            if self.line.eat_words(&[word, "("]) {
                let cond = self.cond(depth + 1)?;
                self.line.expect(")")?;
                return Ok(kind(vec![cond]));
            }
        }
        if self.line.eat("(") {
            let mut conds = vec![self.cond(depth + 1)?];
            let word = if self.line.word() == "or" { "or" } else { "and" };
            while self.line.eat(word) {
                conds.push(self.cond(depth + 1)?);
            }
            self.line.expect(")")?;
            return Ok(match (conds.pop(), word) {
                (Some(cond), _) if conds.is_empty() => cond,
                (last, "or") => Cond::Any(conds.into_iter().chain(last).collect()),
                (last, _) => Cond::All(conds.into_iter().chain(last).collect()),
            });
        }
        if self.line.at_id('r') {
            let r = self.register()?;
            return Ok(if self.is_zero()? { Cond::NoSupport(r) } else { Cond::Support(r) });
        }
        if self.line.eat_words(&["0", "<="]) {
            return Ok(Cond::NonNegative(self.affine()?));
        }
        let a = self.affine()?;
        Ok(if self.is_zero()? { Cond::Zero(a) } else { Cond::NonZero(a) })
    }

    /// `= 0`, or else `!= 0`.
    fn is_zero(&mut self) -> Result<bool> {
        let equal = self.line.eat("=");
        if !equal && !self.line.eat("!=") {
            return self.line.expected("`= 0` or `!= 0`");
        }
        self.line.expect("0")?;
        Ok(equal)
    }

    /// An expression over sizes.
    pub(super) fn size(&mut self) -> Result<Size> {
        let span = self.line.here();
        let size = self.affine()?;
        match size.is_size() {
            true => Ok(size),
            false => Err(problem("not-a-size", span, "expected a size, which mentions no index")),
        }
    }

    /// Expressions with commas between them, up to a closing bracket.
    pub(super) fn affines(&mut self, close: &str) -> Result<Vec<Affine>> {
        let mut list = vec![self.affine()?];
        while self.line.eat(",") {
            list.push(self.affine()?);
        }
        self.line.expect(close)?;
        Ok(list)
    }

    /// `2*i0 - i1 + n - 1`
    pub(super) fn affine(&mut self) -> Result<Affine> {
        let (mut terms, mut constant) = (Vec::new(), 0_i64);
        let mut sign = if self.line.eat("-") { -1 } else { 1 };
        loop {
            let number = self.line.at_digit();
            let k: i64 = if number { self.line.integer("an integer of 64 bits")? } else { 1 };
            if !number || self.line.eat("*") {
                terms.push((self.variable()?, sign * k));
            } else {
                constant = constant.checked_add(sign * k).ok_or(Error::Overflow)?;
            }
            sign = if self.line.eat("+") {
                1
            } else if self.line.eat("-") {
                -1
            } else {
                return Ok(Affine::from_terms(terms, constant)?);
            };
        }
    }

    fn variable(&mut self) -> Result<Var> {
        if self.line.at_id('i') {
            return Ok(Var::Index(self.index()?));
        }
        let span = self.line.here();
        let key = self.line.name("an index, a size or an integer")?;
        let found = self.names.size_of.get(&key).map(|n| Var::Size(*n));
        found.ok_or_else(|| problem("unknown-name", span, format!("there is no size `{}`", key.0)))
    }
}

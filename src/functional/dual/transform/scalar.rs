//! Operations on reals and literals: where the figures differ.

use super::{Figure, Made, Sequence, Transform};
use crate::base::VarId;
use crate::error::{Error, Result};
use crate::functional::lambda::{Prim, Program, Term, TermId, arity};
use crate::scalar::{self, Comparison, Function, Partial};

impl Transform<'_> {
    /// A primitive operation: of reals it has a backpropagator, of others it is what it is; comparisons look at values.
    pub(super) fn prim(&mut self, e: TermId, term: &Term) -> Result<Made> {
        let Term::Prim(prim, operand) = term else { return Err(Error::bug("dual", "an operation is needed")) };
        match prim {
            Prim::Add | Prim::Mul | Prim::Neg | Prim::ToReal | Prim::Scalar(_) => {
                self.scalar(Some((*prim, *operand)), term)
            }
            Prim::Compare(_) => {
                let operands = self.spread(*prim, *operand).0;
                self.strict(&operands, |t, v| match v {
                    [a, b] => {
                        let (a, b) = (t.b.fst(*a)?, t.b.fst(*b)?);
                        t.b.prim(*prim, &[a, b])
                    }
                    _ => t.b_let("p", v[0], |t, p| {
                        let (a, b) = (t.b.var(p), t.b.var(p));
                        let (a, b) = (t.b.fst(a)?, t.b.snd(b)?);
                        let (a, b) = (t.b.fst(a)?, t.b.fst(b)?);
                        t.b.prim(*prim, &[a, b])
                    }),
                })
            }
            Prim::Order => self.strict(&[*operand], |t, v| {
                let x = t.b.fst(v[0])?;
                t.b.prim(*prim, &[x])
            }),
            Prim::IntAdd | Prim::IntMul | Prim::IntNeg | Prim::IntDiv | Prim::IntRem | Prim::IntCompare(_) => {
                self.strict(&[*operand], |t, v| t.b.push(Term::Prim(*prim, v[0])))
            }
            _ => Err(Error::Limitation { feature: format!("{e} in the figures of dual numbers"), span: None }),
        }
    }

    /// `let x = value in body`.
    fn b_let(
        &mut self,
        name: &str,
        value: TermId,
        body: impl FnOnce(&mut Self, VarId) -> Result<TermId>,
    ) -> Result<TermId> {
        let ty = self.b.ty(value);
        let x = self.b.fresh(name, ty);
        let body = body(self, x)?;
        self.b.push(Term::Let(x, value, body))
    }

    /// A real number that the program makes, with a backpropagator of its own, and an identifier of its own where there are any.
    pub(super) fn scalar(&mut self, operation: Option<(Prim, TermId)>, term: &Term) -> Result<Made> {
        let terms = match operation {
            Some((prim, operand)) => self.spread(prim, operand).0,
            None => Vec::new(),
        };
        let Sequence { mut binders, values, ids } = self.sequence(&terms, None)?;
        let (value, function) = match operation {
            None => (self.b.push(term.clone())?, self.backpropagator(&[])?),
            Some((Prim::ToReal, _)) => (self.b.prim(Prim::ToReal, &values)?, self.backpropagator(&[])?),
            Some((prim, _)) => {
                let operands = self.operands(prim, &values, &mut binders)?;
                let xs: Vec<TermId> = operands.iter().map(|(x, _)| self.b.var(*x)).collect();
                (self.b.prim(prim, &xs)?, self.operation(prim, &operands)?)
            }
        };
        if !self.has_ids() {
            let body = self.b.pair(value, function)?;
            return Ok(Made { term: self.close(binders, body)?, first: None });
        }
        let (first, last) = ids.unwrap_or_else(|| {
            let i = self.id_var();
            (i, i)
        });
        let (i, j, one) = (self.b.var(last), self.b.var(last), self.b.int(1)?);
        let backpropagator = self.b.pair(i, function)?;
        let scalar = self.b.pair(value, backpropagator)?;
        let next = self.b.prim(Prim::IntAdd, &[j, one])?;
        let body = self.b.pair(scalar, next)?;
        Ok(Made { term: self.close(binders, body)?, first: Some(first) })
    }

    fn name(&mut self, name: &str, value: TermId, binders: &mut Vec<(VarId, TermId)>) -> VarId {
        let ty = self.b.ty(value);
        let x = self.b.fresh(name, ty);
        binders.push((x, value));
        x
    }

    /// Variables for the values and the backpropagators of the operands of an operation, which are given one by one or as a tuple.
    fn operands(
        &mut self,
        prim: Prim,
        values: &[TermId],
        binders: &mut Vec<(VarId, TermId)>,
    ) -> Result<Vec<(VarId, VarId)>> {
        let n = operands_of(prim, self.program);
        let mut scalars: Vec<VarId> = values.iter().map(|value| self.name("t", *value, binders)).collect();
        if let (Some(mut rest), false) = (scalars.first().copied(), scalars.len() == n) {
            scalars.clear();
            for _ in 1..n {
                let (a, b) = (self.b.var(rest), self.b.var(rest));
                let (a, b) = (self.b.fst(a)?, self.b.snd(b)?);
                scalars.push(self.name("t", b, binders));
                rest = self.name("t", a, binders);
            }
            scalars.push(rest);
            scalars.reverse();
        }
        let mut operands = Vec::with_capacity(n);
        for scalar in scalars {
            let (a, b) = (self.b.var(scalar), self.b.var(scalar));
            let (a, b) = (self.b.fst(a)?, self.b.snd(b)?);
            operands.push((self.name("x", a, binders), self.name("d", b, binders)));
        }
        Ok(operands)
    }

    /// `λz. d1 (∂1 op(x..) z) + .. + dn (∂n op(x..) z)`.
    fn operation(&mut self, prim: Prim, operands: &[(VarId, VarId)]) -> Result<TermId> {
        let mut calls = Vec::new();
        for (k, (_, d)) in operands.iter().enumerate() {
            match prim {
                Prim::Add => calls.push((*d, Weight::One)),
                Prim::Neg => calls.push((*d, Weight::MinusOne)),
                Prim::Mul => calls.push((*d, Weight::Operand(operands[1 - k].0))),
                Prim::Scalar(Function::Value(primitive)) => {
                    let partial = Prim::Scalar(Function::Partial(primitive, k as u8));
                    match scalar::partial(primitive, k as u8, &self.program.users) {
                        Partial::Zero => {}
                        Partial::Formula(_) => calls.push((*d, Weight::Partial(partial))),
                        Partial::Indicator(..) | Partial::Otherwise(_) => calls.push((*d, Weight::Select(partial))),
                    }
                }
                _ => {
                    let feature = "dual numbers through a partial derivative as a function".to_string();
                    return Err(Error::Limitation { feature, span: None });
                }
            }
        }
        let xs: Vec<VarId> = operands.iter().map(|(x, _)| *x).collect();
        let calls: Vec<Call<'_>> = calls.into_iter().map(|(d, weight)| Call { d, weight, xs: &xs }).collect();
        self.backpropagator(&calls)
    }

    /// `λz.` the sum of calls: by `plus`, or one after the other on a staged value; or the list of calls.
    fn backpropagator(&mut self, calls: &[Call<'_>]) -> Result<TermId> {
        let (real, cotangent) = (self.real, self.cotangent);
        if self.figure == Figure::Contrib {
            return self.list(calls);
        }
        let z = self.b.fresh("z", real);
        let body = match self.figure {
            Figure::Cayley => {
                let s = self.b.fresh("s", cotangent);
                let mut body = self.b.var(s);
                // A composition does the last call first.
                for call in calls.iter().rev() {
                    body = self.call(*call, z, Some(body))?;
                }
                self.b.push(Term::Fn(s, body))?
            }
            Figure::Arrays => {
                let s = self.b.fresh("s", cotangent);
                let mut effects = Vec::with_capacity(calls.len());
                for call in calls {
                    let onto = self.b.var(s);
                    effects.push(self.call(*call, z, Some(onto))?);
                }
                let body = match effects.pop() {
                    Some(last) => last,
                    None => self.b.unit()?,
                };
                let unit = self.b.types().unit();
                let binders = effects.into_iter().map(|e| (self.b.fresh("u", unit), e)).collect();
                let body = self.close(binders, body)?;
                self.b.push(Term::Fn(s, body))?
            }
            _ => {
                let mut sum = None;
                for call in calls {
                    let next = self.call(*call, z, None)?;
                    sum = Some(match sum {
                        None => next,
                        Some(sum) => {
                            let both = self.b.pair(sum, next)?;
                            self.b.push(Term::External(self.externals.plus, both))?
                        }
                    });
                }
                match sum {
                    Some(sum) => sum,
                    None => self.zero()?,
                }
            }
        };
        self.b.push(Term::Fn(z, body))
    }

    /// `[(∂1 op(x..) 1, d1), .., (∂n op(x..) 1, dn)]`.
    fn list(&mut self, calls: &[Call<'_>]) -> Result<TermId> {
        let (data, definition) = self.contrib;
        let unit = self.b.unit()?;
        let nil = self.b.push(Term::Inl(definition, unit))?;
        let mut list = self.b.push(Term::Roll(data, nil))?;
        for call in calls.iter().rev() {
            let one = self.b.real(1.0)?;
            let weight = self.weighted(call.weight, call.xs, one)?;
            let cons = |t: &mut Self, list: TermId| {
                let d = t.b.var(call.d);
                let entry = t.b.pair(weight, d)?;
                let cons = t.b.pair(entry, list)?;
                let cons = t.b.push(Term::Inr(definition, cons))?;
                t.b.push(Term::Roll(data, cons))
            };
            list = match call.weight {
                Weight::Select(prim) => {
                    let is_zero = self.is_zero(prim, call.xs)?;
                    self.b_let("l", list, |t, l| {
                        let (same, rest) = (t.b.var(l), t.b.var(l));
                        let longer = cons(t, rest)?;
                        t.choose(is_zero, same, longer)
                    })?
                }
                _ => cons(self, list)?,
            };
        }
        Ok(list)
    }

    fn zero(&mut self) -> Result<TermId> {
        let unit = self.b.unit()?;
        self.b.push(Term::External(self.externals.zero, unit))
    }

    /// `op(x..) = 0`.
    fn is_zero(&mut self, prim: Prim, xs: &[VarId]) -> Result<TermId> {
        let args: Vec<TermId> = xs.iter().map(|x| self.b.var(*x)).collect();
        let (indicator, zero) = (self.b.prim(prim, &args)?, self.b.real(0.0)?);
        self.b.compare(Comparison::Equal, indicator, zero)
    }

    /// `case condition of {inl _ -> yes | inr _ -> no}`.
    fn choose(&mut self, condition: TermId, yes: TermId, no: TermId) -> Result<TermId> {
        let unit = self.b.types().unit();
        let (x, y) = (self.b.fresh("u", unit), self.b.fresh("u", unit));
        self.b.push(Term::Case(condition, (x, yes), (y, no)))
    }

    /// `d (weight z)`, staged where calls are; on a staged value with Cayley and arrays.
    fn call(&mut self, Call { d, weight, xs }: Call<'_>, z: VarId, onto: Option<TermId>) -> Result<TermId> {
        let Weight::Select(prim) = weight else { return self.plain_call(d, weight, xs, z, onto) };
        // Where the indicator is 0 there is no call, so an infinite cotangent makes no NaN.
        let is_zero = self.is_zero(prim, xs)?;
        match (onto, self.figure) {
            (None, _) => {
                let nothing = self.zero()?;
                let call = self.plain_call(d, weight, xs, z, None)?;
                self.choose(is_zero, nothing, call)
            }
            (onto, Figure::Arrays) => {
                let nothing = self.b.unit()?;
                let call = self.plain_call(d, weight, xs, z, onto)?;
                self.choose(is_zero, nothing, call)
            }
            (Some(onto), _) => self.b_let("s", onto, |t, s| {
                let (same, inner) = (t.b.var(s), t.b.var(s));
                let call = t.plain_call(d, weight, xs, z, Some(inner))?;
                t.choose(is_zero, same, call)
            }),
        }
    }

    fn plain_call(&mut self, d: VarId, weight: Weight, xs: &[VarId], z: VarId, onto: Option<TermId>) -> Result<TermId> {
        let (d, z) = (self.b.var(d), self.b.var(z));
        let amount = self.weighted(weight, xs, z)?;
        if self.figure == Figure::Naive {
            return self.b.apply(d, amount);
        }
        let mut arg = self.b.pair(d, amount)?;
        if let Some(onto) = onto {
            arg = self.b.pair(arg, onto)?;
        }
        self.b.push(Term::External(self.externals.scall, arg))
    }

    /// `weight z`.
    fn weighted(&mut self, weight: Weight, xs: &[VarId], z: TermId) -> Result<TermId> {
        match weight {
            Weight::One | Weight::Select(_) => Ok(z),
            Weight::MinusOne => self.b.neg(z),
            Weight::Operand(x) => {
                let x = self.b.var(x);
                self.b.mul(x, z)
            }
            Weight::Partial(prim) => {
                let args: Vec<TermId> = xs.iter().map(|x| self.b.var(*x)).collect();
                let partial = self.b.prim(prim, &args)?;
                self.b.mul(partial, z)
            }
        }
    }

    /// `fn k.` the backpropagator of the input scalar of number k.
    pub(super) fn input(&mut self) -> Result<TermId> {
        let (int, real, cotangent) = (self.int, self.real, self.cotangent);
        let k = self.b.fresh("k", int);
        let mut input = if self.figure == Figure::Contrib {
            self.list(&[])?
        } else {
            let z = self.b.fresh("z", real);
            let (at, amount) = (self.b.var(k), self.b.var(z));
            let mut hot = self.b.pair(at, amount)?;
            let on_state = matches!(self.figure, Figure::Cayley | Figure::Arrays);
            let s = self.b.fresh("s", cotangent);
            if on_state {
                let onto = self.b.var(s);
                hot = self.b.pair(hot, onto)?;
            }
            let mut function = self.b.push(Term::External(self.externals.one_hot, hot))?;
            if on_state {
                function = self.b.push(Term::Fn(s, function))?;
            }
            self.b.push(Term::Fn(z, function))?
        };
        if self.has_ids() {
            let i = self.b.var(k);
            input = self.b.pair(i, input)?;
        }
        self.b.push(Term::Fn(k, input))
    }
}

/// The number of operands of an operation.
pub(super) fn operands_of(prim: Prim, program: &Program) -> usize {
    match prim {
        Prim::Scalar(function) => arity(function, &program.users),
        Prim::Add | Prim::Mul | Prim::Compare(_) => 2,
        _ => 1,
    }
}

/// A call within a backpropagator.
#[derive(Clone, Copy)]
struct Call<'a> {
    d: VarId,
    weight: Weight,
    xs: &'a [VarId],
}

/// What the cotangent is multiplied by.
#[derive(Clone, Copy)]
enum Weight {
    One,
    MinusOne,
    Operand(VarId),
    /// A partial derivative of the operands.
    Partial(Prim),
    /// A partial derivative that is 0 or 1, and selects.
    Select(Prim),
}

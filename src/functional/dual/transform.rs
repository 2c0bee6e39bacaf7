//! Dual-numbers reverse mode as a transformation of programs, typed, as the figures of [001] print it.
//!
//! ```text
//! Fig. 6   D1[R] = R * (R -> c)                                                       naive
//! Fig. 8   D2[R] = R * (int * (R -> s))             D2[a -> b] = D2[a] -> int -> D2[b] * int      staged
//! Fig. 9   D3[R] = R * (int * (R -> (s -> s)))      functions as in Fig. 8                        Cayley
//! Fig. 10  D4[R] = R * (int * (R -> (s -> unit)))   s has mutable arrays                          arrays
//! §10.2    D4[R] = R * (int * contrib)              contrib = unit + (R * (int * contrib)) * contrib
//! ```
//!
//! `c` is the cotangent of the input and `s` a staged value; programs do not look into them, so their operations are external functions: `zero`, `plus`,
//! `one_hot`, and `scall`; in Fig. 10 the last two have effects on the arrays, which evaluation by value puts in order. All else is the program itself, with the next identifier passed on where there are identifiers. Every program it makes is
//! verified; [`run`](super::staged::run) gives the external functions, and resolves.
//!
//! The source is that of Fig. 4 and section 11: products, sums, functions, recursion, data types. Arrays, loops and forks are for the machine, whose
//! identifiers need no passing on.
//!
//! Why correct: `D[e]` is made of `D` of the operands of `e`, once each. A term that takes identifiers has one free variable more, the first of them,
//! which its user binds, and gives the next one beside its value. A term that takes none is left without.

use rustc_hash::FxHashMap;

use crate::base::{Id as _, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::{
    self, Builder, DataId, ExternalId, Prim, Program, Term, TermId, Type, TypeId, arity, verify,
};
use crate::scalar::{self, Comparison, Function, Partial};

/// Which figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Figure {
    /// Fig. 6.
    Naive,
    /// Fig. 8.
    Staged,
    /// Fig. 9.
    Cayley,
    /// Fig. 10.
    Arrays,
    /// Section 10.2.
    Contrib,
}

impl Figure {
    /// All figures, in the order of the paper.
    pub const ALL: [Figure; 5] = [Figure::Naive, Figure::Staged, Figure::Cayley, Figure::Arrays, Figure::Contrib];
}

/// A transformed program: a pair of `int -> backpropagator` for inputs, and the function in dual form of the tuple of the parameters.
#[derive(Clone, Debug)]
pub struct Transformed {
    /// The program, which has no parameters.
    pub program: Program,
    /// Which figure it is of.
    pub figure: Figure,
    pub(super) externals: Externals,
}

/// The operations on cotangents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Externals {
    pub zero: ExternalId,
    pub plus: ExternalId,
    pub one_hot: ExternalId,
    pub scall: ExternalId,
}

/// `D[program]` as a figure has it.
///
/// # Errors
/// [`Error::Limitation`] for arrays, loops, forks, external functions, and functions that are partial derivatives.
pub fn transform(program: &Program, figure: Figure) -> Result<Transformed> {
    let mut pass = Transform::new(program, figure)?;
    for (e, term) in program.terms.iter() {
        let made = match pass.tuples[e.index()] {
            true => None,
            false => Some(pass.term(e, term)?),
        };
        pass.done.push(made);
    }
    pass.wrap()
}

/// `D[e]`. A term that takes identifiers gives a pair of the value and the next identifier, and its first one is a free variable.
#[derive(Clone, Copy)]
struct Made {
    term: TermId,
    first: Option<VarId>,
}

/// Operands that are evaluated one after the other.
struct Sequence {
    binders: Vec<(VarId, TermId)>,
    values: Vec<TermId>,
    /// The identifiers before and after them, if they take any.
    ids: Option<(VarId, VarId)>,
}

struct Transform<'p> {
    program: &'p Program,
    figure: Figure,
    b: Builder,
    types: Vec<TypeId>,
    vars: FxHashMap<VarId, VarId>,
    done: Vec<Option<Made>>,
    /// The tuples that operations on reals take apart where they stand.
    tuples: Vec<bool>,
    data: FxHashMap<DataId, DataId>,
    externals: Externals,
    int: TypeId,
    real: TypeId,
    /// The codomain of backpropagators before Cayley.
    cotangent: TypeId,
    backpropagator: TypeId,
    /// The data type of `contrib`, and what it stands for.
    contrib: (DataId, TypeId),
}

impl<'p> Transform<'p> {
    fn new(program: &'p Program, figure: Figure) -> Result<Self> {
        let mut b = Builder::like(&program.context);
        let name = if figure == Figure::Naive { "c" } else { "s" };
        let (real, int, unit) = (b.types().real(), b.types().int(), b.types().unit());
        let cotangent = b.types().intern(Type::Opaque(name.to_string()));
        let contrib = b.data("contrib");
        let contrib_type = b.types().intern(Type::Data(contrib));
        let codomain = match figure {
            Figure::Cayley => b.types().function(cotangent, cotangent),
            Figure::Arrays => b.types().function(cotangent, unit),
            _ => cotangent,
        };
        let function = match figure {
            Figure::Contrib => contrib_type,
            _ => b.types().function(real, codomain),
        };
        let backpropagator = if figure == Figure::Naive { function } else { b.types().pair(int, function) };
        let entry = b.types().pair(real, backpropagator);
        let cons = b.types().pair(entry, contrib_type);
        let definition = b.types().sum(unit, cons);
        b.define(contrib, definition);
        let two = b.types().pair(cotangent, cotangent);
        let at = b.types().pair(int, real);
        let call = b.types().pair(backpropagator, real);
        let (at, call) = match figure {
            Figure::Cayley | Figure::Arrays => (b.types().pair(at, cotangent), b.types().pair(call, cotangent)),
            _ => (at, call),
        };
        let result = if figure == Figure::Arrays { unit } else { cotangent };
        let externals = Externals {
            zero: b.external("zero", unit, cotangent),
            plus: b.external("plus", two, cotangent),
            one_hot: b.external("one_hot", at, result),
            scall: b.external("scall", call, result),
        };
        let mut pass = Transform {
            program,
            figure,
            b,
            types: Vec::new(),
            vars: FxHashMap::default(),
            done: Vec::with_capacity(program.terms.len()),
            tuples: vec![false; program.terms.len()],
            data: FxHashMap::default(),
            externals,
            int,
            real,
            cotangent,
            backpropagator,
            contrib: (contrib, definition),
        };
        pass.map_types();
        for (_, term) in program.terms.iter() {
            if let Term::Prim(prim @ (Prim::Add | Prim::Mul | Prim::Scalar(_) | Prim::Compare(_)), operand) = term {
                let tuples = pass.spread(*prim, *operand).1;
                tuples.into_iter().for_each(|e| pass.tuples[e.index()] = true);
            }
        }
        Ok(pass)
    }

    fn has_ids(&self) -> bool {
        self.figure != Figure::Naive
    }

    /// `D` of all types of the program; parts come before what is made of them, but for data types.
    fn map_types(&mut self) {
        let data: Vec<DataId> = self.program.data.ids().collect();
        for d in &data {
            let name = format!("d{}", self.program.data[*d].name);
            let new = self.b.data(&name);
            self.data.insert(*d, new);
        }
        for k in 0..self.program.types.len() {
            let old = TypeId::from_index(k);
            let of = |ty: TypeId, types: &[TypeId]| types[ty.index()];
            let new = match self.program.types[old].clone() {
                Type::Real => self.b.types().pair(self.real, self.backpropagator),
                Type::Pair(a, b) => {
                    let (a, b) = (of(a, &self.types), of(b, &self.types));
                    self.b.types().pair(a, b)
                }
                Type::Sum(a, b) => {
                    let (a, b) = (of(a, &self.types), of(b, &self.types));
                    self.b.types().sum(a, b)
                }
                Type::Fn(a, b) => {
                    let (a, mut b) = (of(a, &self.types), of(b, &self.types));
                    if self.has_ids() {
                        let with = self.b.types().pair(b, self.int);
                        b = self.b.types().function(self.int, with);
                    }
                    self.b.types().function(a, b)
                }
                Type::Data(d) => match self.data.get(&d) {
                    Some(d) => self.b.types().intern(Type::Data(*d)),
                    None => old,
                },
                // Int and unit; others occur in no term that this pass takes.
                _ => old,
            };
            self.types.push(new);
        }
        for d in data {
            if let (Some(definition), Some(new)) = (self.program.data[d].definition, self.data.get(&d)) {
                self.b.define(*new, self.types[definition.index()]);
            }
        }
    }

    fn ty(&self, ty: TypeId) -> TypeId {
        self.types[ty.index()]
    }

    /// The variable in dual form.
    fn var(&mut self, x: VarId) -> VarId {
        if let Some(new) = self.vars.get(&x) {
            return *new;
        }
        let variable = &self.program.vars[x];
        let ty = self.ty(variable.ty);
        let new = self.b.fresh(&variable.name, ty);
        self.vars.insert(x, new);
        new
    }

    fn made(&self, e: TermId) -> Result<Made> {
        let missing = || Error::bug("dual", "a term before its operand");
        self.done.get(e.index()).copied().flatten().ok_or_else(missing)
    }

    fn id_var(&mut self) -> VarId {
        let int = self.int;
        self.b.fresh("i", int)
    }

    /// The operands of an operation on reals where they are written as a tuple, and the pairs that make it; else the operand.
    fn spread(&self, prim: Prim, operand: TermId) -> (Vec<TermId>, Vec<TermId>) {
        let n = operands_of(prim, self.program);
        let (mut operands, mut pairs, mut rest) = (Vec::with_capacity(n), Vec::new(), operand);
        while operands.len() + 1 < n {
            let Term::Pair(first, last) = &self.program.terms[rest] else { return (vec![operand], Vec::new()) };
            pairs.push(rest);
            operands.push(*last);
            rest = *first;
        }
        operands.push(rest);
        operands.reverse();
        (operands, pairs)
    }

    /// The pair of the value of a term and the identifier after it, where the one before it is known.
    fn from(&mut self, made: Made, start: VarId) -> Result<TermId> {
        let start = self.b.var(start);
        match made.first {
            Some(first) => self.b.push(Term::Let(first, start, made.term)),
            None => self.b.pair(made.term, start),
        }
    }

    /// A term of operands that are evaluated one after the other.
    ///
    /// ```text
    /// let p1 = D[e1] i in let i2 = snd p1 in let p2 = D[e2] i2 in .. in (build (fst p1) .. (fst pn), in)
    /// ```
    fn strict(
        &mut self,
        operands: &[TermId],
        build: impl FnOnce(&mut Self, &[TermId]) -> Result<TermId>,
    ) -> Result<Made> {
        let Sequence { binders, values, ids } = self.sequence(operands, None)?;
        let value = build(self, &values)?;
        let Some((first, last)) = ids else { return Ok(Made { term: value, first: None }) };
        let last = self.b.var(last);
        let body = self.b.pair(value, last)?;
        Ok(Made { term: self.close(binders, body)?, first: Some(first) })
    }

    /// The bindings of operands in a row. The identifier after them is a variable of the caller, or a new one.
    fn sequence(&mut self, operands: &[TermId], last: Option<VarId>) -> Result<Sequence> {
        let (mut binders, mut values, mut before) = (Vec::new(), Vec::new(), None);
        let mut start = None;
        for e in operands {
            let made = self.made(*e)?;
            let Some(first) = made.first else {
                values.push((made.term, None));
                continue;
            };
            match before {
                None => start = Some(first),
                Some(p) => {
                    let p = self.b.var(p);
                    binders.push((first, self.b.snd(p)?));
                }
            }
            let ty = self.b.ty(made.term);
            let p = self.b.fresh("p", ty);
            binders.push((p, made.term));
            values.push((made.term, Some(p)));
            before = Some(p);
        }
        let ids = match (start, before) {
            (Some(start), Some(p)) => {
                let last = last.unwrap_or_else(|| self.id_var());
                let p = self.b.var(p);
                binders.push((last, self.b.snd(p)?));
                Some((start, last))
            }
            _ => None,
        };
        let value = |(term, p): (TermId, Option<VarId>)| match p {
            None => Ok(term),
            Some(p) => {
                let p = self.b.var(p);
                self.b.fst(p)
            }
        };
        let values = values.into_iter().map(value).collect::<Result<_>>()?;
        Ok(Sequence { binders, values, ids })
    }

    fn close(&mut self, binders: Vec<(VarId, TermId)>, body: TermId) -> Result<TermId> {
        binders.into_iter().rev().try_fold(body, |body, (x, value)| self.b.push(Term::Let(x, value, body)))
    }

    /// `D[e]`, of `D` of its operands.
    fn term(&mut self, e: TermId, term: &Term) -> Result<Made> {
        match term {
            Term::Var(x) => {
                let x = self.var(*x);
                self.strict(&[], |t, _| Ok(t.b.var(x)))
            }
            Term::Unit | Term::Int(_) => self.strict(&[], |t, _| t.b.push(term.clone())),
            Term::Real(_) => self.scalar(None, term),
            Term::Prim(..) => self.prim(e, term),
            Term::Pair(a, b) => self.strict(&[*a, *b], |t, v| t.b.pair(v[0], v[1])),
            Term::Fst(a) => self.strict(&[*a], |t, v| t.b.fst(v[0])),
            Term::Snd(a) => self.strict(&[*a], |t, v| t.b.snd(v[0])),
            Term::Inl(ty, a) => {
                let ty = self.ty(*ty);
                self.strict(&[*a], |t, v| t.b.push(Term::Inl(ty, v[0])))
            }
            Term::Inr(ty, a) => {
                let ty = self.ty(*ty);
                self.strict(&[*a], |t, v| t.b.push(Term::Inr(ty, v[0])))
            }
            Term::Roll(d, a) => {
                let d = self.data.get(d).copied().unwrap_or(*d);
                self.strict(&[*a], |t, v| t.b.push(Term::Roll(d, v[0])))
            }
            Term::Unroll(a) => self.strict(&[*a], |t, v| t.b.push(Term::Unroll(v[0]))),
            Term::Fn(x, body) => {
                let (x, body) = (self.var(*x), self.function_body(*body)?);
                self.strict(&[], |t, _| t.b.push(Term::Fn(x, body)))
            }
            Term::Rec(f, x, body) => {
                let (f, x, body) = (self.var(*f), self.var(*x), self.function_body(*body)?);
                self.strict(&[], |t, _| t.b.push(Term::Rec(f, x, body)))
            }
            Term::Let(x, value, body) => self.bind(*x, *value, *body),
            Term::Case(of, left, right) => self.case(*of, *left, *right),
            Term::Apply(f, a) => self.apply(*f, *a),
            _ => Err(Error::Limitation {
                feature: "this term in the figures of dual numbers; the machine has it".to_string(),
                span: None,
            }),
        }
    }

    /// `fn i. D[body]` where there are identifiers.
    fn function_body(&mut self, body: TermId) -> Result<TermId> {
        let made = self.made(body)?;
        match made.first {
            Some(first) => self.b.push(Term::Fn(first, made.term)),
            None if self.has_ids() => {
                let i = self.id_var();
                let body = self.from(made, i)?;
                self.b.push(Term::Fn(i, body))
            }
            None => Ok(made.term),
        }
    }

    /// `let p = D[value] i in let x = fst p in let i' = snd p in D[body] i'`.
    fn bind(&mut self, x: VarId, value: TermId, body: TermId) -> Result<Made> {
        let (x, body) = (self.var(x), self.made(body)?);
        let Sequence { mut binders, values, ids } = self.sequence(&[value], body.first)?;
        let value = values.first().copied().ok_or_else(|| Error::bug("dual", "a value is missing"))?;
        binders.push((x, value));
        let (term, first) = match (ids, body.first) {
            (None, first) => (body.term, first),
            (Some((first, _)), Some(_)) => (body.term, Some(first)),
            (Some((first, last)), None) => (self.from(body, last)?, Some(first)),
        };
        Ok(Made { term: self.close(binders, term)?, first })
    }

    fn case(&mut self, of: TermId, (x, left): (VarId, TermId), (y, right): (VarId, TermId)) -> Result<Made> {
        let (x, y) = (self.var(x), self.var(y));
        let (left, right) = (self.made(left)?, self.made(right)?);
        let Sequence { binders, values, ids } = self.sequence(&[of], None)?;
        let of = values.first().copied().ok_or_else(|| Error::bug("dual", "a value is missing"))?;
        if let (None, None, None) = (ids, left.first, right.first) {
            let term = self.b.push(Term::Case(of, (x, left.term), (y, right.term)))?;
            return Ok(Made { term, first: None });
        }
        let (first, last) = ids.unwrap_or_else(|| {
            let i = self.id_var();
            (i, i)
        });
        let (left, right) = (self.from(left, last)?, self.from(right, last)?);
        let body = self.b.push(Term::Case(of, (x, left), (y, right)))?;
        Ok(Made { term: self.close(binders, body)?, first: Some(first) })
    }

    fn apply(&mut self, f: TermId, a: TermId) -> Result<Made> {
        if !self.has_ids() {
            return self.strict(&[f, a], |t, v| t.b.apply(v[0], v[1]));
        }
        let Sequence { binders, values, ids } = self.sequence(&[f, a], None)?;
        let (first, last) = ids.unwrap_or_else(|| {
            let i = self.id_var();
            (i, i)
        });
        let call = self.b.apply(values[0], values[1])?;
        let last = self.b.var(last);
        let body = self.b.apply(call, last)?;
        Ok(Made { term: self.close(binders, body)?, first: Some(first) })
    }

    /// A primitive operation: of reals it has a backpropagator, of others it is what it is; comparisons look at values.
    fn prim(&mut self, e: TermId, term: &Term) -> Result<Made> {
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
    fn scalar(&mut self, operation: Option<(Prim, TermId)>, term: &Term) -> Result<Made> {
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
    fn input(&mut self) -> Result<TermId> {
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

    /// The program: backpropagators of inputs, and `fn x. D[t]`.
    fn wrap(mut self) -> Result<Transformed> {
        let input = self.input()?;
        let mut body = self.function_body(self.program.body)?;
        let params: Vec<VarId> = self.program.params.clone();
        let params: Vec<VarId> = params.into_iter().map(|x| self.var(x)).collect();
        let types: Vec<TypeId> = params.iter().map(|x| self.b.context.var_ty(*x)).collect();
        let ty = self.b.types().tuple(&types);
        let all = self.b.fresh("x", ty);
        // The tuple is `((a, b), c)`: the last one is outermost.
        for (depth, x) in params.iter().rev().enumerate().rev() {
            let mut value = self.b.var(all);
            for _ in 0..depth {
                value = self.b.fst(value)?;
            }
            if depth + 1 < params.len() {
                value = self.b.snd(value)?;
            }
            body = self.b.push(Term::Let(*x, value, body))?;
        }
        let function = self.b.push(Term::Fn(all, body))?;
        let body = self.b.pair(input, function)?;
        let program = Program { context: self.b.context, params: Vec::new(), body };
        verify("dual", &program)?;
        Ok(Transformed { program, figure: self.figure, externals: self.externals })
    }
}

/// The number of operands of an operation.
fn operands_of(prim: Prim, program: &Program) -> usize {
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

/// The type of programs as text, for messages.
impl std::fmt::Display for Transformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        lambda::Program::fmt(&self.program, f)
    }
}

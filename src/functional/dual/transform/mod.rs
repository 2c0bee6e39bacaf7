//! Dual-numbers reverse mode as a transformation of programs, typed, as the figures of the paper print it.
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
//! `one_hot`, and `scall`. In Fig. 10 the last two have effects on the arrays, which evaluation by value puts in order. All else is the program itself,
//! with the next identifier passed on where there are identifiers. Every program it makes is verified; [`Transformed::run`] gives the external
//! functions, and resolves.
//!
//! The source is that of Fig. 4 and section 11: products, sums, functions, recursion, data types. Arrays, loops and forks are for the machine, whose
//! identifiers need no passing on.
//!
//! Why correct: `D[e]` is made of `D` of the operands of `e`, once each. A term that takes identifiers has one free variable more, the first of them,
//! which its user binds, and gives the next one beside its value. A term that takes none is left without.

mod scalar;
#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;
use scalar::operands_of;

use crate::base::{Id as _, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::{self, Builder, DataId, ExternalId, Prim, Program, Term, TermId, Type, TypeId, verify};

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

/// The program as text.
impl std::fmt::Display for Transformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        lambda::Program::fmt(&self.program, f)
    }
}

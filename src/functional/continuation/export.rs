//! Programs as terms of the lambda calculus, to be evaluated there.
//!
//! A tuple is a nest of pairs; a function of cotangents is a function of such a tuple; the pair `<r, F>` is a pair. So a derivative runs before its
//! continuations vanish as well as after.

use super::data::{Answer, Atom, Block, End, Fun, Program, Rhs, Stmt, Sweep, Tail, Type, Var};
use crate::base::{Id, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::{self, Builder, Prim, Term, TermId, TypeId};

/// The same program in the lambda calculus. A derivative with continuations gives a pair of its value and its function.
///
/// # Errors
/// [`Error::Bug`] for a program that does not verify.
pub fn to_lambda(program: &Program) -> Result<lambda::Program> {
    let mut builder = Builder::new();
    builder.context.users = program.users.clone();
    let mut export =
        Export { program, builder, vars: vec![None; program.vars.len()], conts: vec![None; program.conts as usize] };
    for x in &program.params {
        let var = export.bind(*x);
        export.builder.push_param(var);
    }
    let body = export.block(&program.body)?;
    export.builder.finish(body)
}

struct Export<'a> {
    program: &'a Program,
    builder: Builder,
    vars: Vec<Option<VarId>>,
    conts: Vec<Option<VarId>>,
}

/// A `let` whose body is not there yet.
type Open = (VarId, TermId);

impl Export<'_> {
    fn ty(&mut self, ty: &Type) -> TypeId {
        match ty {
            Type::Real => self.builder.types().real(),
            Type::Tuple(of) => {
                let of: Vec<TypeId> = of.iter().map(|ty| self.ty(ty)).collect();
                self.builder.types().tuple(&of)
            }
            Type::Array(element) => {
                let element = self.ty(element);
                self.builder.types().array(element)
            }
        }
    }

    fn bind(&mut self, x: Var) -> VarId {
        let ty = self.ty(self.program.ty(x));
        let var = self.builder.fresh(&self.program.vars[x].name, ty);
        self.vars[x.index()] = Some(var);
        var
    }

    fn var(&mut self, x: Var) -> Result<TermId> {
        let missing = || Error::bug("to-lambda", format!("{x} is not in scope"));
        let var = self.vars.get(x.index()).copied().flatten().ok_or_else(missing)?;
        Ok(self.builder.var(var))
    }

    fn atom(&mut self, a: Atom) -> Result<TermId> {
        match a {
            Atom::Var(x) => self.var(x),
            Atom::Number(r) => self.builder.real(r),
            Atom::Zero(x) => {
                let missing = || Error::bug("to-lambda", format!("{x} is not in scope"));
                let var = self.vars.get(x.index()).copied().flatten().ok_or_else(missing)?;
                self.zero(&self.program.ty(x).clone(), var)
            }
        }
    }

    fn atoms(&mut self, of: &[Atom]) -> Result<Vec<TermId>> {
        of.iter().map(|a| self.atom(*a)).collect()
    }

    /// A function of one value that reads it more than once.
    fn shared(
        &mut self,
        value: TermId,
        ty: &Type,
        body: impl FnOnce(&mut Self, VarId) -> Result<TermId>,
    ) -> Result<TermId> {
        let ty = self.ty(ty);
        let x = self.builder.fresh("t", ty);
        let body = body(self, x)?;
        self.builder.push(Term::Let(x, value, body))
    }

    /// The zero of the shape of a variable, which is read where that is no scalar.
    fn zero(&mut self, ty: &Type, like: VarId) -> Result<TermId> {
        match ty {
            Type::Real => self.builder.real(0.0),
            Type::Array(element) => {
                let array = self.builder.var(like);
                let element_ty = self.ty(element);
                let x = self.builder.fresh("t", element_ty);
                let body = self.zero(element, x)?;
                self.builder.push(Term::Map(vec![(x, array)], body))
            }
            Type::Tuple(of) => {
                let mut parts = Vec::with_capacity(of.len());
                for (k, ty) in of.iter().enumerate() {
                    parts.push(match ty {
                        Type::Real => self.builder.real(0.0)?,
                        _ => {
                            let whole = self.builder.var(like);
                            let part = self.part(whole, k, of.len())?;
                            self.shared(part, ty, |export, x| export.zero(ty, x))?
                        }
                    });
                }
                self.builder.tuple(&parts)
            }
        }
    }

    /// The component `k` of `((a, b), ..)`.
    fn part(&mut self, mut tuple: TermId, k: usize, n: usize) -> Result<TermId> {
        if n == 1 {
            return Ok(tuple);
        }
        for _ in k.max(1)..n - 1 {
            tuple = self.builder.fst(tuple)?;
        }
        if k == 0 { self.builder.fst(tuple) } else { self.builder.snd(tuple) }
    }

    /// The sum of two values of a type.
    fn sum(&mut self, ty: &Type, a: TermId, b: TermId) -> Result<TermId> {
        match ty {
            Type::Real => self.builder.add(a, b),
            Type::Array(element) => {
                let element_ty = self.ty(element);
                let (x, y) = (self.builder.fresh("a", element_ty), self.builder.fresh("b", element_ty));
                let (left, right) = (self.builder.var(x), self.builder.var(y));
                let body = self.sum(element, left, right)?;
                self.builder.push(Term::Map(vec![(x, a), (y, b)], body))
            }
            Type::Tuple(of) => self.shared(a, ty, |export, x| {
                export.shared(b, ty, |export, y| {
                    let mut parts = Vec::with_capacity(of.len());
                    for (k, ty) in of.iter().enumerate() {
                        let (left, right) = (export.builder.var(x), export.builder.var(y));
                        let (left, right) = (export.part(left, k, of.len())?, export.part(right, k, of.len())?);
                        parts.push(export.sum(ty, left, right)?);
                    }
                    export.builder.tuple(&parts)
                })
            }),
        }
    }

    fn rhs(&mut self, rhs: &Rhs) -> Result<TermId> {
        match rhs {
            Rhs::Add(a, b) => {
                let ty = self.program.atom_ty(*a);
                let (a, b) = (self.atom(*a)?, self.atom(*b)?);
                self.sum(&ty, a, b)
            }
            Rhs::Mul(a, b) => {
                let (a, b) = (self.atom(*a)?, self.atom(*b)?);
                self.builder.mul(a, b)
            }
            Rhs::Call(function, args) => {
                let args = self.atoms(args)?;
                self.builder.prim(Prim::Scalar(*function), &args)
            }
            Rhs::Tuple(of) => {
                let of = self.atoms(of)?;
                self.builder.tuple(&of)
            }
            Rhs::Part(a, k) => {
                let n = match self.program.atom_ty(*a) {
                    Type::Tuple(of) => of.len(),
                    Type::Real | Type::Array(_) => 1,
                };
                let a = self.atom(*a)?;
                self.part(a, *k, n)
            }
            Rhs::Drop(end, a) => {
                let prim = if *end == End::First { Prim::DropFirst } else { Prim::DropLast };
                let a = self.atom(*a)?;
                self.builder.prim(prim, &[a])
            }
            Rhs::Map { params, body, arrays } => {
                let arrays = self.atoms(arrays)?;
                let vars: Vec<VarId> = params.iter().map(|x| self.bind(*x)).collect();
                let body = self.block(body)?;
                self.builder.push(Term::Map(vars.into_iter().zip(arrays).collect(), body))
            }
            Rhs::Reduce(sweep) => {
                let (init, array, state, element, body) = self.sweep(sweep)?;
                let vars = (state, element);
                self.builder.push(Term::Reduce { vars, body, init: Some(init), array })
            }
            Rhs::Scan(from, sweep) => {
                let (init, array, state, element, body) = self.sweep(sweep)?;
                let vars = if *from == End::First { (state, element) } else { (element, state) };
                self.builder.push(Term::Scan { from: *from, vars, body, init, array })
            }
        }
    }

    fn sweep(&mut self, sweep: &Sweep) -> Result<(TermId, TermId, VarId, VarId, TermId)> {
        let (init, array) = (self.atom(sweep.init)?, self.atom(sweep.array)?);
        let (state, element) = (self.bind(sweep.state), self.bind(sweep.element));
        let body = self.block(&sweep.body)?;
        Ok((init, array, state, element, body))
    }

    fn bind_cont(&mut self, cont: super::data::Cont, ty: TypeId) -> VarId {
        let var = self.builder.fresh(&cont.to_string(), ty);
        self.conts[cont.index()] = Some(var);
        var
    }

    fn stmts(&mut self, stmts: &[Stmt], open: &mut Vec<Open>) -> Result<()> {
        for stmt in stmts {
            let rhs = self.rhs(&stmt.rhs)?;
            let Some((cont, fun)) = &stmt.back else {
                let var = self.bind(stmt.var);
                open.push((var, rhs));
                continue;
            };
            // The function reads the value, so the pair is made of a variable.
            let var = self.bind(stmt.var);
            open.push((var, rhs));
            let fun = self.fun(fun)?;
            let ty = self.builder.ty(fun);
            let cont = self.bind_cont(*cont, ty);
            open.push((cont, fun));
        }
        Ok(())
    }

    fn close(&mut self, open: Vec<Open>, result: TermId) -> Result<TermId> {
        open.into_iter().rev().try_fold(result, |body, (x, value)| self.builder.push(Term::Let(x, value, body)))
    }

    /// `fn t. let y = t.0 in .. answer`.
    fn fun(&mut self, fun: &Fun) -> Result<TermId> {
        let types: Vec<TypeId> = fun.params.iter().map(|y| self.ty(self.program.ty(*y))).collect();
        let domain = self.builder.types().tuple(&types);
        let t = self.builder.fresh("t", domain);
        let mut open = Vec::new();
        // From the last component on: what is before it is a tuple with one component less.
        let mut rest = t;
        for (k, y) in fun.params.iter().enumerate().rev() {
            let whole = self.builder.var(rest);
            let component = if k == 0 { whole } else { self.builder.snd(whole)? };
            let var = self.bind(*y);
            open.push((var, component));
            if k > 0 {
                let whole = self.builder.var(rest);
                let before = self.builder.fst(whole)?;
                let ty = self.builder.ty(before);
                rest = self.builder.fresh("t", ty);
                open.push((rest, before));
            }
        }
        self.stmts(&fun.lets, &mut open)?;
        let answer = match &fun.answer {
            Answer::Value(a) => self.atom(*a)?,
            Answer::Call(cont, args) => {
                let args = self.atoms(args)?;
                let args = self.builder.tuple(&args)?;
                let missing = || Error::bug("to-lambda", format!("{cont} is not in scope"));
                let cont = self.conts[cont.index()].ok_or_else(missing)?;
                let cont = self.builder.var(cont);
                self.builder.apply(cont, args)?
            }
        };
        let body = self.close(open, answer)?;
        self.builder.push(Term::Fn(t, body))
    }

    fn block(&mut self, block: &Block) -> Result<TermId> {
        let mut open = Vec::new();
        if let Some((cont, fun)) = &block.start {
            let fun = self.fun(fun)?;
            let ty = self.builder.ty(fun);
            let cont = self.bind_cont(*cont, ty);
            open.push((cont, fun));
        }
        self.stmts(&block.stmts, &mut open)?;
        let result = match &block.tail {
            Tail::Value(a) => self.atom(*a)?,
            Tail::Pair(a, fun) => {
                let value = self.atom(*a)?;
                let fun = self.fun(fun)?;
                self.builder.pair(value, fun)?
            }
            Tail::Apply(fun, args) => {
                let fun = self.fun(fun)?;
                let args = self.atoms(args)?;
                let args = self.builder.tuple(&args)?;
                self.builder.apply(fun, args)?
            }
        };
        self.close(open, result)
    }
}

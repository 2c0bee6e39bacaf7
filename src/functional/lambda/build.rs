//! Building programs.
//!
//! Each method checks its term by the typing rules and gives the term. Where a binder is built, its body is a function of the variable:
//!
//! ```
//! use iverson::ir::functional::lambda::{Builder, Value, evaluate};
//!
//! let mut b = Builder::new();
//! let real = b.types().real();
//! let x = b.param("x", real);
//! let (left, right) = (b.var(x), b.var(x));
//! let square = b.mul(left, right)?;
//! let body = b.let_("y", square, |b, y| {
//!     let (y, x) = (b.var(y), b.var(x));
//!     b.mul(y, x)
//! })?;
//! let program = b.finish(body)?;
//! assert_eq!(program.to_string(), "param x : real\nlet y = x * x in\ny * x\n");
//! let (value, counts) = evaluate(&program, &[Value::Real(3.0)])?;
//! assert_eq!((value, counts.steps), (Value::Real(27.0), 9));
//! # Ok::<(), iverson::Error>(())
//! ```
//!
//! Passes, which may not recurse, make variables with [`Builder::fresh`] and terms with [`Builder::push`].

use std::collections::BTreeMap;

use super::data::{Context, Data, DataId, End, External, ExternalId, Prim, Program, Term, TermId, TypeId, Variable};
use super::types::{Types, infer};
use crate::base::{Arena, Id, VarId};
use crate::error::{Error, Result};
use crate::scalar::{Comparison, Function, Op};

/// A program that is being built.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    /// Types, variables and terms.
    pub context: Context,
    params: Vec<VarId>,
}

/// A body of one variable.
type Body<'a> = &'a mut Builder;

impl Builder {
    /// Nothing yet.
    pub fn new() -> Self {
        Builder::default()
    }

    /// A builder whose types, data types, external functions and registered functions are those of another program, with the same ids.
    pub fn like(context: &Context) -> Self {
        let context = Context {
            types: context.types.clone(),
            data: context.data.clone(),
            users: context.users.clone(),
            externals: context.externals.clone(),
            ..Context::default()
        };
        Builder { context, params: Vec::new() }
    }

    /// The types.
    pub fn types(&mut self) -> &mut Types {
        &mut self.context.types
    }

    /// The type of a term.
    pub fn ty(&self, e: TermId) -> TypeId {
        self.context.ty(e)
    }

    /// Appends a term.
    ///
    /// # Errors
    /// [`Error::Request`] where it is not well typed.
    pub fn push(&mut self, term: Term) -> Result<TermId> {
        let ty = infer(&mut self.context, &term).map_err(|mismatch| Error::Request(mismatch.0))?;
        self.context.term_types.push(ty);
        Ok(self.context.terms.push(term))
    }

    /// A new variable, to be bound by a term.
    pub fn fresh(&mut self, name: &str, ty: TypeId) -> VarId {
        self.context.vars.push(Variable { name: name.to_string(), ty })
    }

    /// A free variable of the program, after those before it.
    pub fn param(&mut self, name: &str, ty: TypeId) -> VarId {
        let x = self.fresh(name, ty);
        self.params.push(x);
        x
    }

    /// Makes a variable a free variable of the program, after those before it.
    pub fn push_param(&mut self, x: VarId) {
        self.params.push(x);
    }

    /// A data type; its definition may mention it, see [`Builder::define`].
    pub fn data(&mut self, name: &str) -> DataId {
        self.context.data.push(Data { name: name.to_string(), definition: None })
    }

    /// Says what a data type stands for.
    pub fn define(&mut self, data: DataId, definition: TypeId) {
        self.context.data[data].definition = Some(definition);
    }

    /// A function that the evaluator is given.
    pub fn external(&mut self, name: &str, domain: TypeId, codomain: TypeId) -> ExternalId {
        self.context.externals.push(External { name: name.to_string(), domain, codomain })
    }

    /// The program of a term, without the terms that it does not use.
    ///
    /// # Errors
    /// [`Error::Bug`] where what was built is no program, see [`verify`](super::verify()).
    pub fn finish(mut self, body: TermId) -> Result<Program> {
        let body = self.compact(body);
        let program = Program { context: self.context, params: self.params, body };
        super::verify("build", &program)?;
        Ok(program)
    }

    /// Drops what a term does not use; gives the term.
    fn compact(&mut self, body: TermId) -> TermId {
        let terms = &self.context.terms;
        let mut used = vec![false; terms.len()];
        if let Some(used) = used.get_mut(body.index()) {
            *used = true;
        }
        for (e, term) in terms.iter().rev() {
            if used[e.index()] {
                term.for_each_operand(|operand, _| used[operand.index()] = true);
            }
        }
        if used.iter().all(|used| *used) {
            return body;
        }
        let mut new = vec![body; terms.len()];
        let (mut kept, mut types) = (Arena::new(), Vec::new());
        for (e, term) in terms.iter().filter(|(e, _)| used[e.index()]) {
            new[e.index()] = kept.push(term.rename(|operand| new[operand.index()], |x| x));
            types.push(self.context.ty(e));
        }
        self.context.terms = kept;
        self.context.term_types = types;
        new.get(body.index()).copied().unwrap_or(body)
    }

    /// Puts variables in place of others wherever they occur in a term, which is then another one. For terms that a pass has built, and that
    /// nothing else uses.
    pub fn rename_free(&mut self, e: TermId, from: &[VarId], to: &[VarId]) {
        let map: BTreeMap<VarId, VarId> = from.iter().copied().zip(to.iter().copied()).collect();
        let mut todo = if map.is_empty() { Vec::new() } else { vec![e] };
        while let Some(e) = todo.pop() {
            if let Term::Var(x) = &self.context.terms[e]
                && let Some(y) = map.get(x)
            {
                self.context.terms[e] = Term::Var(*y);
            }
            todo.extend(self.context.terms[e].operands());
        }
    }

    /// A variable.
    ///
    /// # Panics
    /// Where the variable is not of this builder.
    pub fn var(&mut self, x: VarId) -> TermId {
        self.context.term_types.push(self.context.vars[x].ty);
        self.context.terms.push(Term::Var(x))
    }

    /// `let x = value in body(x)`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn let_(
        &mut self,
        name: &str,
        value: TermId,
        body: impl FnOnce(Body, VarId) -> Result<TermId>,
    ) -> Result<TermId> {
        let x = self.fresh(name, self.ty(value));
        let body = body(self, x)?;
        self.push(Term::Let(x, value, body))
    }

    /// `fn x. body(x)`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn fn_(
        &mut self,
        name: &str,
        domain: TypeId,
        body: impl FnOnce(Body, VarId) -> Result<TermId>,
    ) -> Result<TermId> {
        let x = self.fresh(name, domain);
        let body = body(self, x)?;
        self.push(Term::Fn(x, body))
    }

    /// `rec f(x). body(f, x)`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn rec(
        &mut self,
        name: &str,
        arg: &str,
        (domain, codomain): (TypeId, TypeId),
        body: impl FnOnce(Body, VarId, VarId) -> Result<TermId>,
    ) -> Result<TermId> {
        let ty = self.types().function(domain, codomain);
        let (f, x) = (self.fresh(name, ty), self.fresh(arg, domain));
        let body = body(self, f, x)?;
        self.push(Term::Rec(f, x, body))
    }

    /// `f a`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn apply(&mut self, f: TermId, a: TermId) -> Result<TermId> {
        self.push(Term::Apply(f, a))
    }

    /// `()`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn unit(&mut self) -> Result<TermId> {
        self.push(Term::Unit)
    }

    /// A real number.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn real(&mut self, r: f64) -> Result<TermId> {
        self.push(Term::Real(r))
    }

    /// An integer.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn int(&mut self, k: i64) -> Result<TermId> {
        self.push(Term::Int(k))
    }

    /// `(a, b)`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn pair(&mut self, a: TermId, b: TermId) -> Result<TermId> {
        self.push(Term::Pair(a, b))
    }

    /// `((a, b), c) ..`; `()` of nothing.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn tuple(&mut self, of: &[TermId]) -> Result<TermId> {
        let Some((first, rest)) = of.split_first() else { return self.unit() };
        rest.iter().try_fold(*first, |a, b| self.pair(a, *b))
    }

    /// `fst e`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn fst(&mut self, e: TermId) -> Result<TermId> {
        self.push(Term::Fst(e))
    }

    /// `snd e`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn snd(&mut self, e: TermId) -> Result<TermId> {
        self.push(Term::Snd(e))
    }

    /// `inl e`, where the other summand is `right`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn inl(&mut self, e: TermId, right: TypeId) -> Result<TermId> {
        let left = self.ty(e);
        let ty = self.types().sum(left, right);
        self.push(Term::Inl(ty, e))
    }

    /// `inr e`, where the other summand is `left`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn inr(&mut self, left: TypeId, e: TermId) -> Result<TermId> {
        let right = self.ty(e);
        let ty = self.types().sum(left, right);
        self.push(Term::Inr(ty, e))
    }

    /// `case e of {inl x -> left(x) | inr y -> right(y)}`.
    ///
    /// # Errors
    /// As of [`Builder::push`]; [`Error::Request`] where `e` is not of a sum type.
    pub fn case(
        &mut self,
        e: TermId,
        (x, left): (&str, impl FnOnce(Body, VarId) -> Result<TermId>),
        (y, right): (&str, impl FnOnce(Body, VarId) -> Result<TermId>),
    ) -> Result<TermId> {
        let super::data::Type::Sum(a, b) = self.context.types[self.ty(e)] else {
            return Err(Error::Request("`case` is of a sum".to_string()));
        };
        let (x, y) = (self.fresh(x, a), self.fresh(y, b));
        let left = left(self, x)?;
        let right = right(self, y)?;
        self.push(Term::Case(e, (x, left), (y, right)))
    }

    /// A primitive operation of operands, which become a tuple.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn prim(&mut self, prim: Prim, operands: &[TermId]) -> Result<TermId> {
        let operand = self.tuple(operands)?;
        self.push(Term::Prim(prim, operand))
    }

    /// `a + b` of reals.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn add(&mut self, a: TermId, b: TermId) -> Result<TermId> {
        self.prim(Prim::Add, &[a, b])
    }

    /// `a * b` of reals.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn mul(&mut self, a: TermId, b: TermId) -> Result<TermId> {
        self.prim(Prim::Mul, &[a, b])
    }

    /// `-a` of reals.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn neg(&mut self, a: TermId) -> Result<TermId> {
        self.prim(Prim::Neg, &[a])
    }

    /// A built-in scalar function.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn op(&mut self, op: Op, operands: &[TermId]) -> Result<TermId> {
        self.prim(Prim::Scalar(Function::from(op)), operands)
    }

    /// A comparison of reals, `inl ()` where it holds.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn compare(&mut self, comparison: Comparison, a: TermId, b: TermId) -> Result<TermId> {
        self.prim(Prim::Compare(comparison), &[a, b])
    }

    /// `build n (i. body(i))`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn build(
        &mut self,
        n: TermId,
        index: &str,
        body: impl FnOnce(Body, VarId) -> Result<TermId>,
    ) -> Result<TermId> {
        let int = self.types().int();
        let i = self.fresh(index, int);
        let body = body(self, i)?;
        self.push(Term::Build(n, i, body))
    }

    /// `a ! k`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn index(&mut self, a: TermId, k: TermId) -> Result<TermId> {
        self.push(Term::Index(a, k))
    }

    /// The type of the elements of an array.
    ///
    /// # Errors
    /// [`Error::Request`] where it is no array.
    pub fn element(&self, a: TermId) -> Result<TypeId> {
        match self.context.types[self.ty(a)] {
            super::data::Type::Array(element) => Ok(element),
            _ => Err(Error::Request("an array is needed".to_string())),
        }
    }

    /// `map (x, ..) in arrays. body(x, ..)`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn map(&mut self, arrays: &[TermId], body: impl FnOnce(Body, &[VarId]) -> Result<TermId>) -> Result<TermId> {
        let mut vars = Vec::with_capacity(arrays.len());
        for a in arrays {
            let element = self.element(*a)?;
            vars.push(self.fresh("x", element));
        }
        let body = body(self, &vars)?;
        self.push(Term::Map(vars.into_iter().zip(arrays.iter().copied()).collect(), body))
    }

    /// `reduce (x, y. body(x, y)) init array`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn reduce(
        &mut self,
        init: Option<TermId>,
        array: TermId,
        body: impl FnOnce(Body, VarId, VarId) -> Result<TermId>,
    ) -> Result<TermId> {
        let element = self.element(array)?;
        let state = init.map_or(element, |init| self.ty(init));
        let vars = (self.fresh("x", state), self.fresh("y", element));
        let body = body(self, vars.0, vars.1)?;
        self.push(Term::Reduce { vars, body, init, array })
    }

    /// `scanl (x, y. body(x, y)) init array` or `scanr`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn scan(
        &mut self,
        from: End,
        init: TermId,
        array: TermId,
        body: impl FnOnce(Body, VarId, VarId) -> Result<TermId>,
    ) -> Result<TermId> {
        let (element, state) = (self.element(array)?, self.ty(init));
        let vars = match from {
            End::First => (self.fresh("x", state), self.fresh("y", element)),
            End::Last => (self.fresh("x", element), self.fresh("y", state)),
        };
        let body = body(self, vars.0, vars.1)?;
        self.push(Term::Scan { from, vars, body, init, array })
    }

    /// `fold t < count, s = init. body(t, s)`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn fold(
        &mut self,
        count: TermId,
        init: TermId,
        body: impl FnOnce(Body, VarId, VarId) -> Result<TermId>,
    ) -> Result<TermId> {
        let int = self.types().int();
        let (index, state) = (self.fresh("t", int), self.fresh("s", self.ty(init)));
        let body = body(self, index, state)?;
        self.push(Term::Fold { count, index, state, init, body })
    }

    /// `iterate s = init while cond(s). body(s)`.
    ///
    /// # Errors
    /// As of [`Builder::push`].
    pub fn iterate(
        &mut self,
        init: TermId,
        cond: impl FnOnce(Body, VarId) -> Result<TermId>,
        body: impl FnOnce(Body, VarId) -> Result<TermId>,
    ) -> Result<TermId> {
        let state = self.fresh("s", self.ty(init));
        let cond = cond(self, state)?;
        let body = body(self, state)?;
        self.push(Term::Iterate { state, init, cond, body })
    }
}

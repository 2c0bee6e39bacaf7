//! The transformation: \[003\], section 7, with sums as in \[000\], Fig. 2.
//!
//! ```text
//!                 forward                                            reverse
//! D[x]            (x, fn v. cell x of v)                             (x, fn v. v at x, else 0)
//! D[let x = t in s], where (x, x') = D[t], (y, y') = D[s]
//!                 (y, fn v. y' (v, x' v))                            (y, fn v. let (v, w) = y' v in v + x' w)
//! D[op t]         (op x, fn v. Dop x (x' v))                         (op x, fn v. x' (Dop^t x v))
//! D[(t, s)]       ((x, y), fn v. (x' v, y' v))                       ((x, y), fn v. x' (fst v) + y' (snd v))
//! D[fst t]        (fst x, fn v. fst (x' v))                          (fst x, fn v. x' (v, 0))
//! D[inl t]        (inl x, fn v. inl (x' v))                          (inl x, fn v. x' (castl v))
//! D[case t of ..] case x of {inl a -> (y, fn v. y' (v, castl (x' v)))}    .. (y, fn v. let (v, w) = y' v in v + x' (inl w))
//! D[fn x. t]      let y = fn x. D[t] in
//!                 (fn x. let (z, z') = y x in (z, fn v. z' (0, v)),  (fn x. let (z, z') = y x in (z, fn v. snd (z' v)),
//!                  fn v. fn x. snd (y x) (v, 0))                      fn v. case v of !x (x) v -> fst (snd (y x) v))
//! D[t s], where (z, z') = x y
//!                 (z, fn v. (x' v) y + z' (y' v))                    (z, fn v. x' (!y (x) v) + y' (z' v))
//! ```
//!
//! Each rule mentions the derivative of each operand once, so the program grows by a constant factor (Corollary 7.2). Environments are a type of their own,
//! so that a variable is one term however many there are. The derivative of a function has two halves: that by its argument is called where the function
//! is, and that by what it captures where its tangent is used or its log of calls is read, so bodies may be evaluated again and again.

use super::types::{derived, unsupported};
use super::{Mode, PASS};
use crate::base::{Id, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::bound::Bound;
use crate::functional::lambda::derived::DerivedTypes;
use crate::functional::lambda::{Builder, Linear, LinearType, Prim, Program, Term, TermId, Type, TypeId};
use crate::functional::lambda::{cotangent, tangent};

/// The variables in scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    pub depth: u32,
    /// The type of an environment of them.
    pub env: TypeId,
}

/// The derivative of each term, from the first one.
pub(super) struct Transform<'a> {
    pub source: &'a Program,
    pub out: Builder,
    pub mode: Mode,
    pub types: DerivedTypes,
    derived: Vec<Option<TermId>>,
    scopes: Vec<Scope>,
    cells: Vec<u32>,
}

/// `D[t]`, a program of the same parameters, and the type of environments.
pub(super) fn transform(source: &Program, mode: Mode) -> Result<(Program, TypeId)> {
    let mut out = Builder::like(&source.context);
    let types = derived(&source.context, mode, &mut out)?;
    for (_, variable) in source.vars.iter() {
        out.fresh(&variable.name, types.first(variable.ty));
    }
    source.params.iter().for_each(|x| out.push_param(*x));
    let terms = source.terms.len();
    let cells = vec![0; source.vars.len()];
    let mut pass = Transform { source, out, mode, types, derived: vec![None; terms], scopes: Vec::new(), cells };
    let env = pass.find_scopes();
    for e in source.terms.ids() {
        let term = pass.term(e)?;
        pass.derived[e.index()] = Some(term);
    }
    let body = pass.take(source.body)?;
    Ok((pass.out.finish(body)?, env))
}

/// What a derivative of a term does with a tangent of the environment, or a cotangent of the term.
pub(super) type Map<'a> = &'a mut dyn FnMut(&mut Builder, VarId) -> Result<TermId>;

/// A linear term.
pub(super) fn linear(b: &mut Builder, term: Linear) -> Result<TermId> {
    b.push(Term::Linear(term))
}

impl Transform<'_> {
    fn find_scopes(&mut self) -> TypeId {
        let nil = self.out.types().intern(Type::NoCells);
        let env = self.out.types().linear(LinearType::Environment(nil));
        let mut params = Scope { depth: 0, env };
        for x in &self.source.params {
            params = self.inner(params, *x);
        }
        self.scopes = vec![params; self.source.terms.len()];
        for (e, term) in self.source.terms.iter().rev() {
            let outer = self.scopes[e.index()];
            let mut operands = Vec::new();
            term.for_each_operand(|operand, binders| operands.push((operand, binders.to_vec())));
            for (operand, binders) in operands {
                self.scopes[operand.index()] = binders.into_iter().fold(outer, |scope, x| self.inner(scope, x));
            }
        }
        params.env
    }

    /// The scope with a variable more.
    fn inner(&mut self, scope: Scope, x: VarId) -> Scope {
        self.cells[x.index()] = scope.depth;
        let ty = self.types.second(self.source.var_ty(x));
        let cells = match self.out.context.types[scope.env] {
            Type::Linear(LinearType::Environment(cells)) => cells,
            _ => scope.env,
        };
        let cells = self.out.types().intern(Type::Cells(cells, ty));
        Scope { depth: scope.depth + 1, env: self.out.types().linear(LinearType::Environment(cells)) }
    }

    pub fn take(&mut self, e: TermId) -> Result<TermId> {
        self.derived[e.index()].take().ok_or_else(|| Error::bug(PASS, "a derivative is used twice"))
    }

    pub fn scope(&self, e: TermId) -> Scope {
        self.scopes[e.index()]
    }

    /// The type of tangents or cotangents of a term.
    pub fn second(&self, e: TermId) -> TypeId {
        self.types.second(self.source.ty(e))
    }

    /// `(value, fn v. map v)`.
    pub fn result(&mut self, e: TermId, value: TermId, map: Map) -> Result<TermId> {
        let domain = match self.mode {
            Mode::Forward => self.scope(e).env,
            Mode::Reverse => self.second(e),
        };
        let map = self.out.fn_("v", domain, |b, v| map(b, v))?;
        self.out.pair(value, map)
    }

    /// `let p = D[operand] in ..`.
    pub fn open(&mut self, operand: TermId) -> Result<Bound> {
        let value = self.take(operand)?;
        Ok(Bound::new(&mut self.out, "p", value))
    }

    fn term(&mut self, e: TermId) -> Result<TermId> {
        let source = self.source;
        match &source.terms[e] {
            Term::Var(x) => {
                let (scope, cell, mode) = (self.scope(e), self.cells[x.index()], self.mode);
                let value = self.out.var(*x);
                self.result(e, value, &mut |b, v| {
                    let v = b.var(v);
                    match mode {
                        Mode::Forward => linear(b, Linear::Cell(scope.depth - 1 - cell, v)),
                        Mode::Reverse => linear(b, Linear::OneHot(cell, scope.env, v)),
                    }
                })
            }
            Term::Let(x, value, body) => self.let_(e, *x, *value, *body),
            Term::Unit => {
                let value = self.out.unit()?;
                self.constant(e, value)
            }
            Term::Real(r) => {
                let value = self.out.real(*r)?;
                self.constant(e, value)
            }
            Term::Int(k) => {
                let value = self.out.int(*k)?;
                self.constant(e, value)
            }
            Term::Prim(Prim::Sum, a) => self.sum(e, *a),
            Term::Prim(prim, a) => self.prim(e, *prim, *a),
            Term::Pair(a, b) | Term::Par(a, b) => self.pair(e, *a, *b),
            Term::Fst(a) | Term::Snd(a) => self.part(e, *a),
            Term::Inl(_, a) | Term::Inr(_, a) => self.injection(e, *a),
            Term::Case(a, left, right) => self.case(e, *a, *left, *right),
            Term::Fn(x, body) => self.function(e, *x, *body),
            Term::Apply(f, a) => self.apply(e, *f, *a),
            Term::Roll(..) | Term::Unroll(_) => self.data(e),
            Term::Rec(..) => Err(unsupported("recursion")),
            Term::External(..) => Err(unsupported("an external function")),
            Term::Linear(_) => Err(unsupported("terms of linear types")),
            _ => self.array(e),
        }
    }

    /// What does not depend on the environment.
    pub fn constant(&mut self, e: TermId, value: TermId) -> Result<TermId> {
        let zero = match self.mode {
            Mode::Forward => self.second(e),
            Mode::Reverse => self.scope(e).env,
        };
        self.result(e, value, &mut |b, _| linear(b, Linear::Zero(zero)))
    }

    fn let_(&mut self, e: TermId, x: VarId, value: TermId, body: TermId) -> Result<TermId> {
        let (scope, mode) = (self.scope(e), self.mode);
        let primed = format!("{}'", self.source.vars[x].name);
        let (p, q) = (self.open(value)?, self.open(body)?);
        let y = q.fst(&mut self.out)?;
        let result = self.result(e, y, &mut |b, v| match mode {
            Mode::Forward => {
                let dx = p.map(b, v)?;
                b.let_(&primed, dx, |b, dx| {
                    let (env, dx) = (b.var(v), b.var(dx));
                    let env = linear(b, Linear::Extend(env, dx))?;
                    q.map_of(b, env)
                })
            }
            Mode::Reverse => {
                let owed = q.map(b, v)?;
                under(b, scope, owed, &mut |b, w| b.let_(&primed, w, |b, w| p.map(b, w)))
            }
        })?;
        let body = q.close(&mut self.out, result)?;
        let first = p.fst(&mut self.out)?;
        let body = self.out.push(Term::Let(x, first, body))?;
        p.close(&mut self.out, body)
    }

    /// A term of one operand, by its value, its tangent, and what it owes.
    pub fn unary(
        &mut self,
        e: TermId,
        a: TermId,
        value: &mut dyn FnMut(&mut Builder, TermId) -> Result<TermId>,
        second: &mut dyn FnMut(&mut Builder, TermId) -> Result<TermId>,
    ) -> Result<TermId> {
        let mode = self.mode;
        let p = self.open(a)?;
        let x = p.fst(&mut self.out)?;
        let y = value(&mut self.out, x)?;
        let result = self.result(e, y, &mut |b, v| match mode {
            Mode::Forward => {
                let dx = p.map(b, v)?;
                second(b, dx)
            }
            Mode::Reverse => {
                let v = b.var(v);
                let owed = second(b, v)?;
                p.map_of(b, owed)
            }
        })?;
        p.close(&mut self.out, result)
    }

    fn prim(&mut self, e: TermId, prim: Prim, a: TermId) -> Result<TermId> {
        let mode = self.mode;
        let p = self.open(a)?;
        let x = p.fst(&mut self.out)?;
        let value = self.out.push(Term::Prim(prim, x))?;
        let result = self.result(e, value, &mut |b, v| {
            let x = p.fst(b)?;
            match mode {
                Mode::Forward => {
                    let dx = p.map(b, v)?;
                    b.let_("a", x, |b, a| b.let_("da", dx, |b, da| tangent(b, prim, a, da)))
                }
                Mode::Reverse => {
                    let owed = b.let_("a", x, |b, a| cotangent(b, prim, a, v))?;
                    p.map_of(b, owed)
                }
            }
        })?;
        p.close(&mut self.out, result)
    }

    fn pair(&mut self, e: TermId, a: TermId, c: TermId) -> Result<TermId> {
        let mode = self.mode;
        let (p, q) = (self.open(a)?, self.open(c)?);
        let b = &mut self.out;
        let (x, y) = (p.fst(b)?, q.fst(b)?);
        let value = match self.source.terms[e] {
            Term::Par(..) => b.push(Term::Par(x, y))?,
            _ => b.pair(x, y)?,
        };
        let result = self.result(e, value, &mut |b, v| match mode {
            Mode::Forward => {
                let (dx, dy) = (p.map(b, v)?, q.map(b, v)?);
                linear(b, Linear::Pair(dx, dy))
            }
            Mode::Reverse => {
                let (first, second) = (b.var(v), b.var(v));
                let first = linear(b, Linear::Fst(first))?;
                let first = p.map_of(b, first)?;
                let second = linear(b, Linear::Snd(second))?;
                let second = q.map_of(b, second)?;
                linear(b, Linear::Plus(first, second))
            }
        })?;
        let body = q.close(&mut self.out, result)?;
        p.close(&mut self.out, body)
    }

    fn part(&mut self, e: TermId, a: TermId) -> Result<TermId> {
        let Type::Pair(first, second) = self.source.types[self.source.ty(a)] else {
            return Err(Error::bug(PASS, "a pair is needed"));
        };
        let (left, mode) = (matches!(self.source.terms[e], Term::Fst(_)), self.mode);
        let other = self.types.second(if left { second } else { first });
        self.unary(e, a, &mut |b, x| if left { b.fst(x) } else { b.snd(x) }, &mut |b, v| match mode {
            Mode::Forward => linear(b, if left { Linear::Fst(v) } else { Linear::Snd(v) }),
            Mode::Reverse => {
                let zero = linear(b, Linear::Zero(other))?;
                linear(b, if left { Linear::Pair(v, zero) } else { Linear::Pair(zero, v) })
            }
        })
    }

    fn injection(&mut self, e: TermId, a: TermId) -> Result<TermId> {
        let (left, mode) = (matches!(self.source.terms[e], Term::Inl(..)), self.mode);
        let (sum, tangents) = (self.types.first(self.source.ty(e)), self.second(e));
        self.unary(e, a, &mut |b, x| b.push(if left { Term::Inl(sum, x) } else { Term::Inr(sum, x) }), &mut |b, v| {
            linear(
                b,
                match (mode, left) {
                    (Mode::Forward, true) => Linear::Inl(tangents, v),
                    (Mode::Forward, false) => Linear::Inr(tangents, v),
                    (Mode::Reverse, true) => Linear::CastL(v),
                    (Mode::Reverse, false) => Linear::CastR(v),
                },
            )
        })
    }

    fn case(&mut self, e: TermId, a: TermId, left: (VarId, TermId), right: (VarId, TermId)) -> Result<TermId> {
        let (scope, sum, mode) = (self.scope(e), self.second(a), self.mode);
        let p = self.open(a)?;
        let mut branches = Vec::with_capacity(2);
        for (k, (x, body)) in [left, right].into_iter().enumerate() {
            let q = self.open(body)?;
            let y = q.fst(&mut self.out)?;
            let result = self.result(e, y, &mut |b, v| match mode {
                Mode::Forward => {
                    let dx = p.map(b, v)?;
                    let dx = linear(b, if k == 0 { Linear::CastL(dx) } else { Linear::CastR(dx) })?;
                    let env = b.var(v);
                    let env = linear(b, Linear::Extend(env, dx))?;
                    q.map_of(b, env)
                }
                Mode::Reverse => {
                    let owed = q.map(b, v)?;
                    under(b, scope, owed, &mut |b, w| {
                        let w = linear(b, if k == 0 { Linear::Inl(sum, w) } else { Linear::Inr(sum, w) })?;
                        p.map_of(b, w)
                    })
                }
            })?;
            branches.push((x, q.close(&mut self.out, result)?));
        }
        let scrutinee = p.fst(&mut self.out)?;
        let body = self.out.push(Term::Case(scrutinee, branches[0], branches[1]))?;
        p.close(&mut self.out, body)
    }

    fn data(&mut self, e: TermId) -> Result<TermId> {
        let (mode, roll) = (self.mode, matches!(self.source.terms[e], Term::Roll(..)));
        let a = match self.source.terms[e] {
            Term::Roll(_, a) | Term::Unroll(a) => a,
            _ => return Err(Error::bug(PASS, "a data type is needed")),
        };
        let whole = if roll { e } else { a };
        let (values, seconds) = (self.types.first(self.source.ty(whole)), self.second(whole));
        let Type::Data(data) = self.out.context.types[values] else {
            return Err(Error::bug(PASS, "a data type is needed"));
        };
        self.unary(e, a, &mut |b, x| b.push(if roll { Term::Roll(data, x) } else { Term::Unroll(x) }), &mut |b, v| {
            match (mode == Mode::Forward) == roll {
                true => linear(b, Linear::Roll(seconds, v)),
                false => linear(b, Linear::Unroll(v)),
            }
        })
    }

    fn function(&mut self, e: TermId, x: VarId, body: TermId) -> Result<TermId> {
        let (mode, scope, derivative) = (self.mode, self.scope(e), self.take(body)?);
        let (domain, codomain) = (self.types.second(self.source.var_ty(x)), self.second(body));
        let values = self.types.first(self.source.var_ty(x));
        let b = &mut self.out;
        let whole = b.push(Term::Fn(x, derivative))?;
        let y = Bound::new(b, "p", whole);
        // The derivative by the argument, beside the value.
        let value = b.fn_("x", values, |b, x| {
            let z = y.call(b, x)?;
            let z = Bound::new(b, "p", z);
            let first = z.fst(b)?;
            let map = match mode {
                Mode::Forward => b.fn_("v", domain, |b, v| {
                    let (env, v) = (linear(b, Linear::Zero(scope.env))?, b.var(v));
                    let env = linear(b, Linear::Extend(env, v))?;
                    z.map_of(b, env)
                })?,
                Mode::Reverse => b.fn_("v", codomain, |b, v| {
                    let owed = z.map(b, v)?;
                    let split = linear(b, Linear::Split(scope.depth, owed))?;
                    b.snd(split)
                })?,
            };
            let both = b.pair(first, map)?;
            z.close(b, both)
        })?;
        // The derivative by what the function captures.
        let result = self.result(e, value, &mut |b, v| match mode {
            Mode::Forward => b.fn_("x", values, |b, x| {
                let z = y.call(b, x)?;
                let map = b.snd(z)?;
                let (env, zero) = (b.var(v), linear(b, Linear::Zero(domain))?);
                let env = linear(b, Linear::Extend(env, zero))?;
                b.apply(map, env)
            }),
            Mode::Reverse => {
                let (x, w) = (b.fresh("x", values), b.fresh("w", codomain));
                let z = y.call(b, x)?;
                let (map, owed) = (b.snd(z)?, b.var(w));
                let owed = b.apply(map, owed)?;
                let split = linear(b, Linear::Split(scope.depth, owed))?;
                let rest = b.fst(split)?;
                let calls = b.var(v);
                linear(b, Linear::Fold(calls, (x, w), rest))
            }
        })?;
        y.close(&mut self.out, result)
    }

    fn apply(&mut self, e: TermId, f: TermId, a: TermId) -> Result<TermId> {
        let mode = self.mode;
        let (p, q) = (self.open(f)?, self.open(a)?);
        let b = &mut self.out;
        let (f, x) = (p.fst(b)?, q.fst(b)?);
        let call = b.apply(f, x)?;
        let r = Bound::new(b, "p", call);
        let z = r.fst(b)?;
        let result = self.result(e, z, &mut |b, v| match mode {
            Mode::Forward => {
                let (by_context, y) = (p.map(b, v)?, q.fst(b)?);
                let by_context = b.apply(by_context, y)?;
                let dy = q.map(b, v)?;
                let by_argument = r.map_of(b, dy)?;
                linear(b, Linear::Plus(by_context, by_argument))
            }
            Mode::Reverse => {
                let (y, w) = (q.fst(b)?, b.var(v));
                let call = linear(b, Linear::Entry(y, w))?;
                let by_context = p.map_of(b, call)?;
                let owed = r.map(b, v)?;
                let by_argument = q.map_of(b, owed)?;
                linear(b, Linear::Plus(by_context, by_argument))
            }
        })?;
        let body = r.close(&mut self.out, result)?;
        let body = q.close(&mut self.out, body)?;
        p.close(&mut self.out, body)
    }
}

/// `let (v, w) = split m in v + then w`, in a scope with one variable less.
pub(super) fn under(
    b: &mut Builder,
    scope: Scope,
    m: TermId,
    then: &mut dyn FnMut(&mut Builder, TermId) -> Result<TermId>,
) -> Result<TermId> {
    let split = linear(b, Linear::Split(scope.depth, m))?;
    b.let_("r", split, |b, r| {
        let (rest, last) = (b.var(r), b.var(r));
        let (rest, last) = (b.fst(rest)?, b.snd(last)?);
        let more = then(b, last)?;
        linear(b, Linear::Plus(rest, more))
    })
}

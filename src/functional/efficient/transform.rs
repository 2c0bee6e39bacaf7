//! The transformation, from the terms without arrays and loops.
//!
//! ```text
//! D[x]              = (x, fn d. one x d)
//! D[let x = t in s] = let (x, x') = D[t] in let (y, y') = D[s] in (y, fn d. under (y' d) x')
//! D[()]             = ((), fn d. nothing)
//! D[(t, s)]         = let (x, x') = D[t] in let (y, y') = D[s] in ((x, y), fn d. both (x' (lfst d)) (y' (lsnd d)))
//! D[fst t]          = let (x, x') = D[t] in (fst x, fn d. x' (d, 0))
//! D[inl t]          = let (x, x') = D[t] in (inl x, fn d. x' (lcastl d))
//! D[case t of ..]   = let (x, x') = D[t] in case x of {inl a -> let (y, y') = D[s] in (y, fn d. under (y' d) (fn e. x' (linl e))) | ..}
//! D[op t]           = let (x, x') = D[t] in (op x, fn d. x' (op^t x d))
//! D[fn x. t]        = (fn x. let (y, y') = D[t] in (y, fn d. the cell of x after y' d), fn d. nothing)            of a closed function
//! D[t s]            = let (x, _) = D[t] in let (y, y') = D[s] in let (z, z') = x y in (z, fn d. y' (z' d))
//! ```
//!
//! Pairs are bound as they are and read in the backpropagators, as in the formalisation of \[000\], so that steps are the paper's. Each rule mentions the
//! derivative of each operand once: the program grows by a constant factor.

use super::style::{Scope, Style};
use super::types::{derived, unsupported};
use crate::base::{Id, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::bound::Bound;
use crate::functional::lambda::derived::DerivedTypes;
use crate::functional::lambda::{Builder, Linear, Prim, Program, Term, TermId, Type, TypeId, cotangent};

pub(super) const PASS: &str = "efficient CHAD";

/// The derivative of each term, from the first one.
pub(super) struct Transform<'a> {
    pub source: &'a Program,
    pub out: Builder,
    pub style: Style,
    pub types: DerivedTypes,
    derived: Vec<Option<TermId>>,
    scopes: Vec<Scope>,
    /// The cell of each variable.
    cells: Vec<u32>,
}

/// `D[t]`, a program of the same parameters.
pub(super) fn transform(source: &Program, style: Style) -> Result<(Program, TypeId)> {
    let mut out = Builder::like(&source.context);
    let types = derived(&source.context, &mut out)?;
    // A variable and the one for its value have the same number, since hidden types mention variables by number.
    for (_, variable) in source.vars.iter() {
        out.fresh(&variable.name, types.first(variable.ty));
    }
    for x in &source.params {
        out.push_param(*x);
    }
    let terms = source.terms.len();
    let mut pass = Transform {
        source,
        out,
        style,
        types,
        derived: vec![None; terms],
        scopes: Vec::new(),
        cells: vec![0; source.vars.len()],
    };
    let cells = pass.find_scopes()?;
    for e in source.terms.ids() {
        let term = pass.term(e)?;
        pass.derived[e.index()] = Some(term);
    }
    let body = pass.take(source.body)?;
    Ok((pass.out.finish(body)?, cells))
}

/// A function of a builder and a variable.
pub(super) type Back<'a> = &'a mut dyn FnMut(&mut Builder, VarId) -> Result<TermId>;

impl Transform<'_> {
    /// The scope of each term; gives the cells of the parameters.
    fn find_scopes(&mut self) -> Result<TypeId> {
        let nil = self.out.types().intern(Type::NoCells);
        let closed = Scope { depth: 0, cells: nil };
        let mut params = closed;
        for x in &self.source.params {
            self.bind(&mut params, *x);
        }
        self.scopes = vec![params; self.source.terms.len()];
        for (e, term) in self.source.terms.iter().rev() {
            let outer = match term {
                Term::Fn(..) | Term::Rec(..) => closed,
                _ => self.scopes[e.index()],
            };
            let mut inner = Vec::new();
            term.for_each_operand(|operand, binders| inner.push((operand, binders.to_vec())));
            for (operand, binders) in inner {
                let mut scope = outer;
                for x in binders {
                    self.bind(&mut scope, x);
                }
                self.scopes[operand.index()] = scope;
            }
        }
        Ok(params.cells)
    }

    fn bind(&mut self, scope: &mut Scope, x: VarId) {
        self.cells[x.index()] = scope.depth;
        let ty = self.types.second(self.source.var_ty(x));
        scope.cells = self.out.types().intern(Type::Cells(scope.cells, ty));
        scope.depth += 1;
    }

    /// The derivative of a term, for its only use.
    pub fn take(&mut self, e: TermId) -> Result<TermId> {
        self.derived[e.index()].take().ok_or_else(|| Error::bug(PASS, "a derivative is used twice"))
    }

    pub fn scope(&self, e: TermId) -> Scope {
        self.scopes[e.index()]
    }

    /// The type of cotangents of a term.
    pub fn second(&self, e: TermId) -> TypeId {
        self.types.second(self.source.ty(e))
    }

    /// `(value, fn d. back d)`, of a term of the source.
    pub fn result(&mut self, e: TermId, value: TermId, back: Back) -> Result<TermId> {
        let d = self.second(e);
        let back = self.out.fn_("d", d, |b, d| back(b, d))?;
        self.out.pair(value, back)
    }

    /// `let p = D[operand] in body`: gives the variable, and what to close with the body.
    pub fn open(&mut self, operand: TermId) -> Result<Bound> {
        let value = self.take(operand)?;
        Ok(Bound::new(&mut self.out, "p", value))
    }

    fn term(&mut self, e: TermId) -> Result<TermId> {
        let source = self.source;
        match &source.terms[e] {
            Term::Var(x) => {
                let (style, scope, cell) = (self.style, self.scope(e), self.cells[x.index()]);
                let value = self.out.var(*x);
                self.result(e, value, &mut |b, d| {
                    let d = b.var(d);
                    style.one(b, scope, cell, d)
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
            Term::Prim(prim, a) => match prim {
                Prim::Sum | Prim::DropFirst | Prim::DropLast => self.array_prim(e, *prim, *a),
                _ => self.prim(e, *prim, *a),
            },
            Term::Pair(a, b) | Term::Par(a, b) => self.pair(e, *a, *b),
            Term::Fst(a) | Term::Snd(a) => self.part(e, *a),
            Term::Inl(_, a) | Term::Inr(_, a) => self.injection(e, *a),
            Term::Case(a, left, right) => self.case(e, *a, *left, *right),
            Term::Fn(..) | Term::Rec(..) => self.function(e),
            Term::Apply(f, a) => self.apply(e, *f, *a),
            Term::Roll(_, a) => {
                let Type::Data(data) = self.out.context.types[self.types.first(source.ty(e))] else {
                    return Err(Error::bug(PASS, "a data type is needed"));
                };
                self.unary(e, *a, &mut |b, x| b.push(Term::Roll(data, x)), &mut |b, d| {
                    b.push(Term::Linear(Linear::Unroll(d)))
                })
            }
            Term::Unroll(a) => {
                let owed = self.second(*a);
                self.unary(e, *a, &mut |b, x| b.push(Term::Unroll(x)), &mut |b, d| {
                    b.push(Term::Linear(Linear::Roll(owed, d)))
                })
            }
            Term::External(..) => Err(unsupported("an external function")),
            Term::Linear(Linear::Close(env, f)) => self.close(e, *env, *f),
            Term::Linear(Linear::Open(a, x, body)) => self.open_closure(e, *a, *x, *body),
            Term::Linear(_) => Err(unsupported("terms of linear types")),
            _ => self.array_or_loop(e),
        }
    }

    /// What owes nothing.
    pub fn constant(&mut self, e: TermId, value: TermId) -> Result<TermId> {
        let (style, scope) = (self.style, self.scope(e));
        self.result(e, value, &mut |b, _| style.nothing(b, scope))
    }

    fn let_(&mut self, e: TermId, x: VarId, value: TermId, body: TermId) -> Result<TermId> {
        let (style, scope, cell) = (self.style, self.scope(e), self.second(value));
        let (p, q) = (self.open(value)?, self.open(body)?);
        let y = q.fst(&mut self.out)?;
        let result = self.result(e, y, &mut |b, d| {
            let m = q.map(b, d)?;
            style.under(b, scope, cell, m, &mut |b, d| p.map_of(b, d))
        })?;
        let body = q.close(&mut self.out, result)?;
        let first = p.fst(&mut self.out)?;
        let body = self.out.push(Term::Let(x, first, body))?;
        p.close(&mut self.out, body)
    }

    /// A term of one operand: its value from the operand's value, and the operand's cotangent from its cotangent.
    pub fn unary(
        &mut self,
        e: TermId,
        a: TermId,
        value: &mut dyn FnMut(&mut Builder, TermId) -> Result<TermId>,
        owed: &mut dyn FnMut(&mut Builder, TermId) -> Result<TermId>,
    ) -> Result<TermId> {
        let p = self.open(a)?;
        let x = p.fst(&mut self.out)?;
        let y = value(&mut self.out, x)?;
        let result = self.result(e, y, &mut |b, d| {
            let f = p.snd(b)?;
            let d = b.var(d);
            let d = owed(b, d)?;
            b.apply(f, d)
        })?;
        p.close(&mut self.out, result)
    }

    fn prim(&mut self, e: TermId, prim: Prim, a: TermId) -> Result<TermId> {
        let p = self.open(a)?;
        let x = p.fst(&mut self.out)?;
        let value = self.out.push(Term::Prim(prim, x))?;
        let result = self.result(e, value, &mut |b, d| {
            let (f, x) = (p.snd(b)?, p.fst(b)?);
            let owed = b.let_("a", x, |b, a| {
                let d = b.var(d);
                b.let_("d", d, |b, d| cotangent(b, prim, a, d))
            })?;
            b.apply(f, owed)
        })?;
        p.close(&mut self.out, result)
    }

    fn pair(&mut self, e: TermId, a: TermId, c: TermId) -> Result<TermId> {
        let style = self.style;
        let (x, y) = (self.take(a)?, self.take(c)?);
        let both = match self.source.terms[e] {
            Term::Par(..) => self.out.push(Term::Par(x, y))?,
            _ => self.out.pair(x, y)?,
        };
        let p = Bound::new(&mut self.out, "p", both);
        let b = &mut self.out;
        let (x, y) = (p.fst(b)?, p.snd(b)?);
        let (x, y) = (b.fst(x)?, b.fst(y)?);
        let value = b.pair(x, y)?;
        let result = self.result(e, value, &mut |b, d| {
            let (f, left) = (p.fst(b)?, b.var(d));
            let (f, left) = (b.snd(f)?, b.push(Term::Linear(Linear::Fst(left)))?);
            let m = b.apply(f, left)?;
            style.both(b, m, |b| {
                let (g, right) = (p.snd(b)?, b.var(d));
                let (g, right) = (b.snd(g)?, b.push(Term::Linear(Linear::Snd(right)))?);
                b.apply(g, right)
            })
        })?;
        p.close(&mut self.out, result)
    }

    fn part(&mut self, e: TermId, a: TermId) -> Result<TermId> {
        let Type::Pair(first, second) = self.source.types[self.source.ty(a)] else {
            return Err(Error::bug(PASS, "a pair is needed"));
        };
        let left = matches!(self.source.terms[e], Term::Fst(_));
        let other = self.types.second(if left { second } else { first });
        self.unary(e, a, &mut |b, x| if left { b.fst(x) } else { b.snd(x) }, &mut |b, d| {
            let zero = b.push(Term::Linear(Linear::Zero(other)))?;
            let (x, y) = if left { (d, zero) } else { (zero, d) };
            b.push(Term::Linear(Linear::Pair(x, y)))
        })
    }

    fn injection(&mut self, e: TermId, a: TermId) -> Result<TermId> {
        let left = matches!(self.source.terms[e], Term::Inl(..));
        let sum = self.types.first(self.source.ty(e));
        self.unary(e, a, &mut |b, x| b.push(if left { Term::Inl(sum, x) } else { Term::Inr(sum, x) }), &mut |b, d| {
            b.push(Term::Linear(if left { Linear::CastL(d) } else { Linear::CastR(d) }))
        })
    }

    fn case(&mut self, e: TermId, a: TermId, left: (VarId, TermId), right: (VarId, TermId)) -> Result<TermId> {
        let (style, scope, sum) = (self.style, self.scope(e), self.second(a));
        let p = self.open(a)?;
        let mut branches = Vec::with_capacity(2);
        for (k, (x, body)) in [left, right].into_iter().enumerate() {
            let cell = self.types.second(self.source.var_ty(x));
            let q = self.open(body)?;
            let y = q.fst(&mut self.out)?;
            let result = self.result(e, y, &mut |b, d| {
                let m = q.map(b, d)?;
                style.under(b, scope, cell, m, &mut |b, d| {
                    let f = p.snd(b)?;
                    let d = b.push(Term::Linear(if k == 0 { Linear::Inl(sum, d) } else { Linear::Inr(sum, d) }))?;
                    b.apply(f, d)
                })
            })?;
            branches.push((x, q.close(&mut self.out, result)?));
        }
        let scrutinee = p.fst(&mut self.out)?;
        let body = self.out.push(Term::Case(scrutinee, branches[0], branches[1]))?;
        p.close(&mut self.out, body)
    }

    /// A closed function, whose backpropagator gives the cotangent of its argument.
    fn function(&mut self, e: TermId) -> Result<TermId> {
        let (x, body) = match &self.source.terms[e] {
            Term::Fn(x, body) | Term::Rec(_, x, body) => (*x, *body),
            _ => return Err(Error::bug(PASS, "a function is needed")),
        };
        let (style, scope) = (self.style, self.scope(body));
        let (owed, cell) = (self.second(body), self.cells[x.index()]);
        let arg = self.types.second(self.source.var_ty(x));
        let q = self.open(body)?;
        let y = q.fst(&mut self.out)?;
        let recursive = matches!(self.source.terms[e], Term::Rec(..));
        let back = self.out.fn_("d", owed, |b, d| {
            let m = q.map(b, d)?;
            argument(style, b, scope, recursive, (cell, arg), m)
        })?;
        let result = self.out.pair(y, back)?;
        let body = q.close(&mut self.out, result)?;
        let value = match &self.source.terms[e] {
            Term::Rec(f, x, _) => self.out.push(Term::Rec(*f, *x, body))?,
            _ => self.out.push(Term::Fn(x, body))?,
        };
        self.constant(e, value)
    }

    fn apply(&mut self, e: TermId, f: TermId, a: TermId) -> Result<TermId> {
        let (p, q) = (self.open(f)?, self.open(a)?);
        let b = &mut self.out;
        let (f, x) = (p.fst(b)?, q.fst(b)?);
        let call = b.apply(f, x)?;
        let r = Bound::new(b, "r", call);
        let z = r.fst(b)?;
        let result = self.result(e, z, &mut |b, d| {
            let owed = r.map(b, d)?;
            q.map_of(b, owed)
        })?;
        let body = r.close(&mut self.out, result)?;
        let body = q.close(&mut self.out, body)?;
        p.close(&mut self.out, body)
    }

    /// `D[close(t, f)]`: what calls owe to the environment goes through packages, since it has a type of its own.
    fn close(&mut self, e: TermId, env: TermId, f: TermId) -> Result<TermId> {
        let owed = self.second(env);
        let (p, q) = (self.open(env)?, self.open(f)?);
        let b = &mut self.out;
        let function = q.fst(b)?;
        let Type::Fn(domain, codomain) = b.context.types[b.ty(function)] else {
            return Err(Error::bug(PASS, "a function is needed"));
        };
        let Type::Pair(_, back) = b.context.types[codomain] else {
            return Err(Error::bug(PASS, "a derivative is needed"));
        };
        let Type::Fn(result, _) = b.context.types[back] else {
            return Err(Error::bug(PASS, "a backpropagator is needed"));
        };
        let packed = b.let_("f", function, |b, f| {
            b.fn_("a", domain, |b, a| {
                let (f, a) = (b.var(f), b.var(a));
                let call = b.apply(f, a)?;
                b.let_("r", call, |b, r| {
                    let value = b.var(r);
                    let value = b.fst(value)?;
                    let back = b.fn_("d", result, |b, d| {
                        let (f, d) = (b.var(r), b.var(d));
                        let f = b.snd(f)?;
                        let owed = b.apply(f, d)?;
                        b.let_("c", owed, |b, c| {
                            let (env, arg) = (b.var(c), b.var(c));
                            let env = b.push(Term::Linear(Linear::Fst(env)))?;
                            let env = b.push(Term::Linear(Linear::Pack(env)))?;
                            let arg = b.push(Term::Linear(Linear::Snd(arg)))?;
                            b.push(Term::Linear(Linear::Pair(env, arg)))
                        })
                    })?;
                    b.pair(value, back)
                })
            })
        })?;
        let env = p.fst(b)?;
        let value = b.push(Term::Linear(Linear::Close(env, packed)))?;
        let result = self.result(e, value, &mut |b, d| {
            let (f, d) = (p.snd(b)?, b.var(d));
            let d = b.push(Term::Linear(Linear::Unpack(owed, d)))?;
            b.apply(f, d)
        })?;
        let body = q.close(&mut self.out, result)?;
        p.close(&mut self.out, body)
    }

    fn open_closure(&mut self, e: TermId, a: TermId, x: VarId, body: TermId) -> Result<TermId> {
        let (style, scope) = (self.style, self.scope(e));
        let cell = self.types.second(self.source.var_ty(x));
        let (p, q) = (self.open(a)?, self.open(body)?);
        let y = q.fst(&mut self.out)?;
        let result = self.result(e, y, &mut |b, d| {
            let m = q.map(b, d)?;
            style.under(b, scope, cell, m, &mut |b, d| {
                let f = p.snd(b)?;
                let package = b.push(Term::Linear(Linear::Fst(d)))?;
                b.apply(f, package)
            })
        })?;
        let inner = q.close(&mut self.out, result)?;
        let closure = p.fst(&mut self.out)?;
        let opened = self.out.push(Term::Linear(Linear::Open(closure, x, inner)))?;
        p.close(&mut self.out, opened)
    }
}

/// The cotangent of the argument of a closed function, from what its body owes. A recursive function has a cell of its own before, which gets nothing.
fn argument(
    style: Style,
    b: &mut Builder,
    scope: Scope,
    recursive: bool,
    (cell, arg): (u32, TypeId),
    m: TermId,
) -> Result<TermId> {
    match style {
        Style::Vectors => {
            let split = b.push(Term::Linear(Linear::Split(cell, m)))?;
            b.snd(split)
        }
        Style::Monad => {
            let unit = b.unit()?;
            let env = match recursive {
                true => {
                    let none = b.types().linear_unit();
                    let none = b.push(Term::Linear(Linear::Zero(none)))?;
                    b.pair(none, unit)?
                }
                false => unit,
            };
            let zero = b.push(Term::Linear(Linear::Zero(arg)))?;
            let env = b.pair(zero, env)?;
            debug_assert_eq!(scope.depth, cell + 1);
            let run = b.push(Term::Linear(Linear::Run(m, env)))?;
            let cells = b.snd(run)?;
            b.fst(cells)
        }
    }
}

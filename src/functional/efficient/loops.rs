//! Loops, which \[000\] does not have: the rule of `let`, as often as there are steps.
//!
//! ```text
//! D[fold t < n, s = e0. e] = let (x, x') = D[e0] in the loop of (s, tape), which puts each step's backpropagator in front of the tape, in
//!                            (the last s, fn d. walk the tape: d := the cell of s after y' d; at its end x' d)
//! ```
//!
//! Each step has cells of its own for `t` and `s`, which `scope` makes, so the steps beneath see those of the loop's scope. Backpropagators are called
//! once each, so the bound of \[000\] holds with a larger constant.

use super::style::{Scope, Style};
use super::transform::{PASS, Transform};
use crate::base::VarId;
use crate::error::{Error, Result};
use crate::functional::lambda::bound::{Bound, plus};
use crate::functional::lambda::{Builder, DataId, End, Linear, Term, TermId, Type, TypeId};

/// The data type of the tape of a loop: `unit + backpropagator * tape`.
struct Tape {
    data: DataId,
    ty: TypeId,
    item: TypeId,
    unit: TypeId,
}

impl Tape {
    fn new(b: &mut Builder, back: TypeId) -> Tape {
        let data = b.data(&format!("tape{}", b.context.data.len()));
        let ty = b.types().intern(Type::Data(data));
        let unit = b.types().unit();
        let item = b.types().pair(back, ty);
        let definition = b.types().sum(unit, item);
        b.define(data, definition);
        Tape { data, ty, item, unit }
    }

    fn empty(&self, b: &mut Builder) -> Result<TermId> {
        let unit = b.unit()?;
        let end = b.inl(unit, self.item)?;
        b.push(Term::Roll(self.data, end))
    }

    fn cons(&self, b: &mut Builder, back: TermId, tape: TermId) -> Result<TermId> {
        let item = b.pair(back, tape)?;
        let item = b.inr(self.unit, item)?;
        b.push(Term::Roll(self.data, item))
    }
}

/// How a tape is walked.
struct Walk {
    style: Style,
    scope: Scope,
    tape: Tape,
    /// The cells of a step, the one of the state last; first, for a scan.
    cells: Vec<TypeId>,
    owed: TypeId,
}

impl Walk {
    /// `rec walk(d, tape). case tape of {end -> return d | (f, rest) -> do d <- scope (f d); walk(d, rest)}`.
    fn function(&self, b: &mut Builder) -> Result<TermId> {
        let domain = b.types().pair(self.owed, self.tape.ty);
        let codomain = self.style.effect(b, self.scope, self.owed);
        let unit = b.types().unit();
        let results = self.cells.iter().rev().fold(unit, |rest, cell| b.types().pair(*cell, rest));
        b.rec("walk", "a", (domain, codomain), |b, walk, a| {
            let tape = b.var(a);
            let tape = b.snd(tape)?;
            let tape = b.push(Term::Unroll(tape))?;
            b.case(
                tape,
                ("end", |b, _| {
                    let d = b.var(a);
                    let d = b.fst(d)?;
                    self.style.give(b, self.scope, d)
                }),
                ("item", |b, item| {
                    let (f, d) = (b.var(item), b.var(a));
                    let (f, d) = (b.fst(f)?, b.fst(d)?);
                    let m = b.apply(f, d)?;
                    let scoped = self.style.scoped(b, self.scope, &self.cells, m)?;
                    self.style.chain(b, results, scoped, &mut |b, r| {
                        let mut state = r;
                        for _ in 1..self.cells.len() {
                            state = b.snd(state)?;
                        }
                        let state = b.fst(state)?;
                        let (walk, rest) = (b.var(walk), b.var(item));
                        let rest = b.snd(rest)?;
                        let arg = b.pair(state, rest)?;
                        b.apply(walk, arg)
                    })
                }),
            )
        })
    }

    /// `rec walk((d, k), tape). case tape of {end -> return d | (f, rest) -> do d <- scope (f d); walk((d + dense ! (k - 1), k - 1), rest)}`, where the
    /// cell of the state is the first one.
    fn of_states(&self, b: &mut Builder, dense: VarId) -> Result<TermId> {
        let int = b.types().int();
        let now = b.types().pair(self.owed, int);
        let domain = b.types().pair(now, self.tape.ty);
        let codomain = self.style.effect(b, self.scope, self.owed);
        let unit = b.types().unit();
        let results = self.cells.iter().rev().fold(unit, |rest, cell| b.types().pair(*cell, rest));
        b.rec("walk", "a", (domain, codomain), |b, walk, a| {
            let tape = b.var(a);
            let tape = b.snd(tape)?;
            let tape = b.push(Term::Unroll(tape))?;
            let cotangent = |b: &mut Builder| {
                let now = b.var(a);
                let now = b.fst(now)?;
                b.fst(now)
            };
            b.case(
                tape,
                ("end", |b, _| {
                    let d = cotangent(b)?;
                    self.style.give(b, self.scope, d)
                }),
                ("item", |b, item| {
                    let f = b.var(item);
                    let (f, d) = (b.fst(f)?, cotangent(b)?);
                    let m = b.apply(f, d)?;
                    let scoped = self.style.scoped(b, self.scope, &self.cells, m)?;
                    self.style.chain(b, results, scoped, &mut |b, r| {
                        let (state, k) = (b.fst(r)?, b.var(a));
                        let k = b.fst(k)?;
                        let k = b.snd(k)?;
                        let k = plus(b, k, -1)?;
                        b.let_("k", k, |b, k| {
                            let (whole, at, k, walk, rest) =
                                (b.var(dense), b.var(k), b.var(k), b.var(walk), b.var(item));
                            let more = b.index(whole, at)?;
                            let d = b.push(Term::Linear(Linear::Plus(state, more)))?;
                            let (now, rest) = (b.pair(d, k)?, b.snd(rest)?);
                            let arg = b.pair(now, rest)?;
                            b.apply(walk, arg)
                        })
                    })
                }),
            )
        })
    }
}

impl Transform<'_> {
    pub fn fold(
        &mut self,
        e: TermId,
        (count, index): (TermId, VarId),
        (state, init): (VarId, TermId),
        body: TermId,
    ) -> Result<TermId> {
        let (n, p) = (self.open(count)?, self.open(init)?);
        let cells = vec![self.types.second(self.source.var_ty(index)), self.second(init)];
        let (tape, step) = self.step(state, body)?;
        let b = &mut self.out;
        let (count, first) = (n.fst(b)?, p.fst(b)?);
        let empty = tape.empty(b)?;
        let init = b.pair(first, empty)?;
        let body = step.body(b, &tape)?;
        let looped = b.push(Term::Fold { count, index, state: step.carried, init, body })?;
        let result = self.walk(e, tape, cells, looped, p)?;
        let body = p.close(&mut self.out, result)?;
        n.close(&mut self.out, body)
    }

    pub fn iterate(&mut self, e: TermId, (state, init): (VarId, TermId), cond: TermId, body: TermId) -> Result<TermId> {
        let p = self.open(init)?;
        let cells = vec![self.second(init)];
        let test = self.take(cond)?;
        let (tape, step) = self.step(state, body)?;
        let b = &mut self.out;
        let first = p.fst(b)?;
        let empty = tape.empty(b)?;
        let init = b.pair(first, empty)?;
        // The condition reads a state variable of its own.
        let test = b.fst(test)?;
        let (s, now) = (b.fresh("s", b.context.var_ty(state)), b.var(step.carried));
        let now = b.fst(now)?;
        b.rename_free(test, &[state], &[s]);
        let cond = b.push(Term::Let(s, now, test))?;
        let body = step.body(b, &tape)?;
        let looped = b.push(Term::Iterate { state: step.carried, init, cond, body })?;
        let result = self.walk(e, tape, cells, looped, p)?;
        p.close(&mut self.out, result)
    }

    /// A scan over indices: each state is a result, so what is owed to it is added when the walk of the tape comes to it.
    pub fn scan(
        &mut self,
        e: TermId,
        (state, index): (VarId, VarId),
        body: TermId,
        init: TermId,
        array: TermId,
    ) -> Result<TermId> {
        let (style, scope) = (self.style, self.scope(e));
        let (p, n) = (self.open(init)?, self.open(array)?);
        let cells = vec![self.second(init), self.types.second(self.source.var_ty(index))];
        let owed = self.second(init);
        let (tape, step) = self.step(state, body)?;
        let b = &mut self.out;
        let (first, indices) = (p.fst(b)?, n.fst(b)?);
        let empty = tape.empty(b)?;
        let init = b.pair(first, empty)?;
        let body = step.body(b, &tape)?;
        let vars = (step.carried, index);
        let path = b.push(Term::Scan { from: End::First, vars, body, init, array: indices })?;
        let path = Bound::new(b, "path", path);
        let whole = b.var(path.var);
        let value = b.map(&[whole], |b, c| {
            let c = b.var(c[0]);
            b.fst(c)
        })?;
        let walk = Walk { style, scope, tape, cells, owed };
        let result = self.result(e, value, &mut |b, d| {
            let (all, last) = (b.var(path.var), b.var(path.var));
            let zeros = b.map(&[all], |b, _| b.push(Term::Linear(Linear::Zero(owed))))?;
            let d = b.var(d);
            let pairs = b.push(Term::Linear(Linear::Collect(d)))?;
            let dense = b.push(Term::Linear(Linear::Scatter(zeros, pairs)))?;
            let n = b.push(Term::Length(last))?;
            let n = plus(b, n, -1)?;
            b.let_("dense", dense, |b, dense| {
                b.let_("n", n, |b, n| {
                    let f = walk.of_states(b, dense)?;
                    let (whole, at, k) = (b.var(dense), b.var(n), b.var(n));
                    let d = b.index(whole, at)?;
                    let d = b.pair(d, k)?;
                    let (states, at) = (b.var(path.var), b.var(n));
                    let last = b.index(states, at)?;
                    let tape = b.snd(last)?;
                    let arg = b.pair(d, tape)?;
                    let m = b.apply(f, arg)?;
                    style.finish(b, owed, m, &mut |b, d| p.map_of(b, d))
                })
            })
        })?;
        let body = path.close(&mut self.out, result)?;
        let body = n.close(&mut self.out, body)?;
        p.close(&mut self.out, body)
    }

    fn step(&mut self, state: VarId, body: TermId) -> Result<(Tape, Step)> {
        let q = self.open(body)?;
        let b = &mut self.out;
        let Type::Pair(value, back) = b.context.types[b.ty(q.value)] else {
            return Err(Error::bug(PASS, "a derivative is needed"));
        };
        let tape = Tape::new(b, back);
        let ty = b.types().pair(value, tape.ty);
        let carried = b.fresh("s", ty);
        Ok((tape, Step { carried, state, q }))
    }

    fn walk(&mut self, e: TermId, tape: Tape, cells: Vec<TypeId>, looped: TermId, p: Bound) -> Result<TermId> {
        let (style, scope, owed) = (self.style, self.scope(e), self.second(e));
        let r = Bound::new(&mut self.out, "last", looped);
        let value = r.fst(&mut self.out)?;
        let walk = Walk { style, scope, tape, cells, owed };
        let result = self.result(e, value, &mut |b, d| {
            let f = walk.function(b)?;
            let (d, tape) = (b.var(d), r.snd(b)?);
            let arg = b.pair(d, tape)?;
            let m = b.apply(f, arg)?;
            style.finish(b, owed, m, &mut |b, d| p.map_of(b, d))
        })?;
        r.close(&mut self.out, result)
    }
}

/// A step: the variable of the state and the tape, that of the state, and the derivative of the body.
struct Step {
    carried: VarId,
    state: VarId,
    q: Bound,
}

impl Step {
    /// `let s = fst carried in let q = D[e] in (fst q, cons (snd q) (snd carried))`.
    fn body(&self, b: &mut Builder, tape: &Tape) -> Result<TermId> {
        let (value, back, rest) = (self.q.fst(b)?, self.q.snd(b)?, b.var(self.carried));
        let rest = b.snd(rest)?;
        let tape = tape.cons(b, back, rest)?;
        let next = b.pair(value, tape)?;
        let next = self.q.close(b, next)?;
        let now = b.var(self.carried);
        let now = b.fst(now)?;
        b.push(Term::Let(self.state, now, next))
    }
}

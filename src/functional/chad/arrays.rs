//! Arrays: \[003\], section 10, which has `map`, and the others in its way.
//!
//! ```text
//!                          forward                                            reverse
//! D[map (x. t) s], where y = fn x. D[t], (z, z') = D[s]
//!    (map (x. fst (y x)) z, fn v. zipWith (x, w. snd (y x) (v, w)) z (z' v))
//!                                                                             fn v. let zs = zipWith (x, w. snd (y x) w) z v in
//!                                                                                   total (map fst zs) + z' (map snd zs)
//! D[build n (i. t)]        the same of indices, whose tangents are zero
//! D[t ! s]                 (x ! i, fn v. (x' v) ! i)                          (x ! i, fn v. x' (v at i, else 0))
//! D[sum t]                 (sum x, fn v. total (x' v))                        (sum x, fn v. x' (v everywhere))
//! D[iterate]               the last state of the scan over as many indices as the loop has steps, which are counted first
//! D[scan], where y = fn s. fn t. D[e], over indices, with the path p of states
//!    (p, fn v. the scan of (s, w) by (fst (y s t), snd (y s t) (v, w, 0)))    from the last step on: w := the cell of s after (snd (y p[t] t) w),
//!                                                                             plus what is owed to the state before
//! ```

use super::transform::{Scope, Transform, linear};
use super::{Mode, PASS};
use crate::base::VarId;
use crate::error::{Error, Result};
use crate::functional::lambda::bound::Bound;
use crate::functional::lambda::{Builder, End, Linear, Prim, Term, TermId, Type, TypeId};
use crate::scalar::Comparison;

impl Transform<'_> {
    pub fn array(&mut self, e: TermId) -> Result<TermId> {
        let source = self.source;
        match &source.terms[e] {
            Term::Build(n, i, body) => self.build(e, *n, *i, *body),
            Term::Map(args, body) => self.map(e, args, *body),
            Term::Index(a, k) => self.index(e, *a, *k),
            Term::Length(a) => {
                let p = self.open(*a)?;
                let x = p.fst(&mut self.out)?;
                let value = self.out.push(Term::Length(x))?;
                let result = self.constant(e, value)?;
                p.close(&mut self.out, result)
            }
            Term::Scan { from: End::First, vars: (x, y), body, init, array } => {
                let (array, init) = (self.open(*array)?, self.open(*init)?);
                let indices = array.fst(&mut self.out)?;
                let path = self.scan(e, (*x, *y), *body, init, indices)?;
                let path = init.close(&mut self.out, path)?;
                array.close(&mut self.out, path)
            }
            Term::Iterate { state, init, cond, body } => {
                let p = self.open(*init)?;
                let last = self.iterate(e, *state, *cond, *body, p)?;
                p.close(&mut self.out, last)
            }
            _ => Err(Error::bug(PASS, "a term without a rule")),
        }
    }

    pub fn sum(&mut self, e: TermId, a: TermId) -> Result<TermId> {
        let mode = self.mode;
        let p = self.open(a)?;
        let x = p.fst(&mut self.out)?;
        let value = self.out.push(Term::Prim(Prim::Sum, x))?;
        let result = self.result(e, value, &mut |b, v| match mode {
            Mode::Forward => {
                let dx = p.map(b, v)?;
                linear(b, Linear::Total(dx))
            }
            Mode::Reverse => {
                let x = p.fst(b)?;
                let owed = b.map(&[x], |b, _| Ok(b.var(v)))?;
                p.map_of(b, owed)
            }
        })?;
        p.close(&mut self.out, result)
    }

    fn index(&mut self, e: TermId, a: TermId, k: TermId) -> Result<TermId> {
        let (mode, element) = (self.mode, self.second(e));
        let (p, q) = (self.open(a)?, self.open(k)?);
        let (x, i) = (p.fst(&mut self.out)?, q.fst(&mut self.out)?);
        let value = self.out.index(x, i)?;
        let result = self.result(e, value, &mut |b, v| match mode {
            Mode::Forward => {
                let (dx, i) = (p.map(b, v)?, q.fst(b)?);
                b.index(dx, i)
            }
            Mode::Reverse => {
                let x = p.fst(b)?;
                let n = b.push(Term::Length(x))?;
                let owed = b.build(n, "j", |b, j| {
                    let (i, j) = (q.fst(b)?, b.var(j));
                    let here = b.prim(Prim::IntCompare(Comparison::Equal), &[j, i])?;
                    b.case(here, ("u", |b, _| Ok(b.var(v))), ("u", |b, _| linear(b, Linear::Zero(element))))
                })?;
                p.map_of(b, owed)
            }
        })?;
        let body = q.close(&mut self.out, result)?;
        p.close(&mut self.out, body)
    }

    /// `map` over the indices.
    fn build(&mut self, e: TermId, n: TermId, i: VarId, body: TermId) -> Result<TermId> {
        let (mode, scope) = (self.mode, self.scope(e));
        let (p, derivative) = (self.open(n)?, self.take(body)?);
        let b = &mut self.out;
        let function = b.push(Term::Fn(i, derivative))?;
        let y = Bound::new(b, "p", function);
        let count = p.fst(b)?;
        let indices = b.build(count, "i", |b, i| Ok(b.var(i)))?;
        let z = Bound::new(b, "p", indices);
        let all = b.var(z.var);
        let value = b.map(&[all], |b, i| {
            let d = y.call(b, i[0])?;
            b.fst(d)
        })?;
        let result = self.result(e, value, &mut |b, v| {
            let all = b.var(z.var);
            match mode {
                Mode::Forward => b.map(&[all], |b, i| {
                    let d = y.call(b, i[0])?;
                    let unit = b.types().linear_unit();
                    let (map, env, zero) = (b.snd(d)?, b.var(v), linear(b, Linear::Zero(unit))?);
                    let env = linear(b, Linear::Extend(env, zero))?;
                    b.apply(map, env)
                }),
                Mode::Reverse => {
                    let owed = b.var(v);
                    let owed = b.map(&[all, owed], |b, iw| {
                        let d = y.call(b, iw[0])?;
                        let (map, w) = (b.snd(d)?, b.var(iw[1]));
                        let owed = b.apply(map, w)?;
                        let split = linear(b, Linear::Split(scope.depth, owed))?;
                        b.fst(split)
                    })?;
                    linear(b, Linear::Total(owed))
                }
            }
        })?;
        let body = z.close(&mut self.out, result)?;
        let body = y.close(&mut self.out, body)?;
        p.close(&mut self.out, body)
    }

    fn map(&mut self, e: TermId, args: &[(VarId, TermId)], body: TermId) -> Result<TermId> {
        let (mode, scope) = (self.mode, self.scope(e));
        let arrays = args.iter().map(|(_, a)| self.open(*a)).collect::<Result<Vec<_>>>()?;
        let derivative = self.take(body)?;
        let b = &mut self.out;
        // A function of as many arguments as there are arrays.
        let mut function = derivative;
        for (x, _) in args.iter().rev() {
            function = b.push(Term::Fn(*x, function))?;
        }
        let y = Bound::new(b, "p", function);
        let call = |b: &mut Builder, xs: &[VarId]| -> Result<TermId> {
            let mut f = b.var(y.var);
            for x in xs {
                let x = b.var(*x);
                f = b.apply(f, x)?;
            }
            Ok(f)
        };
        let values = arrays.iter().map(|p| p.fst(b)).collect::<Result<Vec<_>>>()?;
        let value = b.map(&values, |b, xs| {
            let d: TermId = call(b, xs)?;
            b.fst(d)
        })?;
        let n = args.len();
        let result = self.result(e, value, &mut |b, v| match mode {
            Mode::Forward => {
                let mut all = arrays.iter().map(|p| p.fst(b)).collect::<Result<Vec<_>>>()?;
                for p in &arrays {
                    all.push(p.map(b, v)?);
                }
                b.map(&all, |b, xs| {
                    let d = call(b, &xs[..n])?;
                    let (map, mut env) = (b.snd(d)?, b.var(v));
                    for w in &xs[n..] {
                        let w = b.var(*w);
                        env = linear(b, Linear::Extend(env, w))?;
                    }
                    b.apply(map, env)
                })
            }
            Mode::Reverse => {
                let mut all = arrays.iter().map(|p| p.fst(b)).collect::<Result<Vec<_>>>()?;
                all.push(b.var(v));
                let zs = b.map(&all, |b, xs| {
                    let d = call(b, &xs[..n])?;
                    let (map, w) = (b.snd(d)?, b.var(xs[n]));
                    b.apply(map, w)
                })?;
                b.let_("zs", zs, |b, zs| owed_to_arrays(b, scope, &arrays, zs))
            }
        })?;
        let mut body = y.close(&mut self.out, result)?;
        for p in arrays.iter().rev() {
            body = p.close(&mut self.out, body)?;
        }
        Ok(body)
    }

    /// The path of a scan over indices.
    fn scan(&mut self, e: TermId, (s, t): (VarId, VarId), body: TermId, p: Bound, over: TermId) -> Result<TermId> {
        let (mode, scope, state) = (self.mode, self.scope(e), self.second(body));
        let derivative = self.take(body)?;
        let b = &mut self.out;
        let inner = b.push(Term::Fn(t, derivative))?;
        let function = b.push(Term::Fn(s, inner))?;
        let y = Bound::new(b, "p", function);
        let indices = Bound::new(b, "p", over);
        let call = |b: &mut Builder, s: TermId, t: TermId| {
            let f = b.var(y.var);
            let f = b.apply(f, s)?;
            b.apply(f, t)
        };
        let (first, all) = (p.fst(b)?, b.var(indices.var));
        let path = b.scan(End::First, first, all, |b, s, t| {
            let (s, t) = (b.var(s), b.var(t));
            let d: TermId = call(b, s, t)?;
            b.fst(d)
        })?;
        let path = Bound::new(b, "p", path);
        let value = b.var(path.var);
        let steps = Steps { scope, state, path, indices, counted: true };
        let result = self.result(e, value, &mut |b, v| match mode {
            Mode::Forward => steps.forward(b, v, p, &call),
            Mode::Reverse => steps.reverse(b, v, p, &call),
        })?;
        let body = path.close(&mut self.out, result)?;
        let body = indices.close(&mut self.out, body)?;
        y.close(&mut self.out, body)
    }
}

impl Transform<'_> {
    /// The last state of a loop: it is run to count its steps, and then its path is that of a scan.
    fn iterate(&mut self, e: TermId, s: VarId, cond: TermId, body: TermId, p: Bound) -> Result<TermId> {
        let (mode, scope, state) = (self.mode, self.scope(e), self.second(body));
        let (derivative, test) = (self.take(body)?, self.take(cond)?);
        let b = &mut self.out;
        let function = b.push(Term::Fn(s, derivative))?;
        let y = Bound::new(b, "p", function);
        let next = |b: &mut Builder, s: TermId, _: TermId| {
            let f = b.var(y.var);
            b.apply(f, s)
        };
        // The condition has a state variable of its own.
        let test = b.fst(test)?;
        let now = b.fresh("s", b.context.var_ty(s));
        b.rename_free(test, &[s], &[now]);
        let (first, zero) = (p.fst(b)?, b.int(0)?);
        let init = b.pair(first, zero)?;
        let counting = b.iterate(
            init,
            |b, counted| {
                let s = b.var(counted);
                let s = b.fst(s)?;
                b.push(Term::Let(now, s, test))
            },
            |b, counted| {
                let (s, k, one) = (b.var(counted), b.var(counted), b.int(1)?);
                let (s, k) = (b.fst(s)?, b.snd(k)?);
                let unused = b.unit()?;
                let d: TermId = next(b, s, unused)?;
                let (s, k) = (b.fst(d)?, b.prim(Prim::IntAdd, &[k, one])?);
                b.pair(s, k)
            },
        )?;
        let n = b.snd(counting)?;
        let all = b.build(n, "i", |b, i| Ok(b.var(i)))?;
        let indices = Bound::new(b, "p", all);
        let (first, all) = (p.fst(b)?, b.var(indices.var));
        let path = b.scan(End::First, first, all, |b, s, t| {
            let (s, t) = (b.var(s), b.var(t));
            let d: TermId = next(b, s, t)?;
            b.fst(d)
        })?;
        let path = Bound::new(b, "p", path);
        let (states, all) = (b.var(path.var), b.var(indices.var));
        let n = b.push(Term::Length(all))?;
        let value = b.index(states, n)?;
        let steps = Steps { scope, state, path, indices, counted: false };
        let result = self.result(e, value, &mut |b, v| match mode {
            Mode::Forward => {
                let path = steps.forward(b, v, p, &next)?;
                let all = b.var(indices.var);
                let n = b.push(Term::Length(all))?;
                b.index(path, n)
            }
            Mode::Reverse => steps.reverse(b, v, p, &next),
        })?;
        let body = path.close(&mut self.out, result)?;
        let body = indices.close(&mut self.out, body)?;
        y.close(&mut self.out, body)
    }
}

/// `total (map rest zs) + z1' (map w1 zs) + ..`, where `zs` has environments whose last cells are the elements of the arrays.
fn owed_to_arrays(b: &mut Builder, scope: Scope, arrays: &[Bound], zs: VarId) -> Result<TermId> {
    let n = arrays.len();
    // The environment without its last `k` cells.
    let rest = |b: &mut Builder, z: VarId, k: usize| -> Result<TermId> {
        let mut env = b.var(z);
        for j in 0..k {
            let split = linear(b, Linear::Split(scope.depth + (n - 1 - j) as u32, env))?;
            env = b.fst(split)?;
        }
        Ok(env)
    };
    let whole = b.var(zs);
    let envs = b.map(&[whole], |b, z| rest(b, z[0], n))?;
    let mut sum = linear(b, Linear::Total(envs))?;
    for (k, p) in arrays.iter().enumerate() {
        let whole = b.var(zs);
        let owed = b.map(&[whole], |b, z| {
            let env: TermId = rest(b, z[0], n - 1 - k)?;
            let split = linear(b, Linear::Split(scope.depth + k as u32, env))?;
            b.snd(split)
        })?;
        let owed = p.map_of(b, owed)?;
        sum = linear(b, Linear::Plus(sum, owed))?;
    }
    Ok(sum)
}

/// The steps of a scan.
struct Steps {
    scope: Scope,
    state: TypeId,
    path: Bound,
    indices: Bound,
    /// Whether steps read their index, and the whole path is the value; else the last state is.
    counted: bool,
}

/// The derivative of a step, of a state and an index.
type Call<'a> = &'a dyn Fn(&mut Builder, TermId, TermId) -> Result<TermId>;

impl Steps {
    fn forward(&self, b: &mut Builder, v: VarId, p: Bound, call: Call) -> Result<TermId> {
        let (first, all) = (p.map(b, v)?, b.var(self.indices.var));
        b.scan(End::First, first, all, |b, w, t| {
            let (states, at, t) = (b.var(self.path.var), b.var(t), b.var(t));
            let s = b.index(states, at)?;
            let d = call(b, s, t)?;
            let (map, env, w) = (b.snd(d)?, b.var(v), b.var(w));
            let mut env = linear(b, Linear::Extend(env, w))?;
            if self.counted {
                let unit = b.types().linear_unit();
                let zero = linear(b, Linear::Zero(unit))?;
                env = linear(b, Linear::Extend(env, zero))?;
            }
            b.apply(map, env)
        })
    }

    /// `fold k < n, (env, w) = (0, v[n]). let t = n - 1 - k in let ((rest, w), _) = snd (y p[t] t) w in (env + rest, w + v[t])`.
    fn reverse(&self, b: &mut Builder, v: VarId, p: Bound, call: Call) -> Result<TermId> {
        let length = |b: &mut Builder| {
            let all = b.var(self.indices.var);
            b.push(Term::Length(all))
        };
        let (n, last, owed) = (length(b)?, length(b)?, b.var(v));
        let zero = linear(b, Linear::Zero(self.scope.env))?;
        let w = if self.counted { b.index(owed, last)? } else { owed };
        let init = b.pair(zero, w)?;
        let folded = b.fold(n, init, |b, k, s| {
            let (n, k, one) = (length(b)?, b.var(k), b.int(-1)?);
            let k = b.prim(Prim::IntNeg, &[k])?;
            let t = b.prim(Prim::IntAdd, &[n, k])?;
            let t = b.prim(Prim::IntAdd, &[t, one])?;
            b.let_("t", t, |b, t| {
                let (states, at, now) = (b.var(self.path.var), b.var(t), b.var(t));
                let state = b.index(states, at)?;
                let d = call(b, state, now)?;
                let (map, w) = (b.snd(d)?, b.var(s));
                let w = b.snd(w)?;
                let mut env = b.apply(map, w)?;
                if self.counted {
                    let split = linear(b, Linear::Split(self.scope.depth + 1, env))?;
                    env = b.fst(split)?;
                }
                let split = linear(b, Linear::Split(self.scope.depth, env))?;
                b.let_("r", split, |b, r| {
                    let (before, rest, w) = (b.var(s), b.var(r), b.var(r));
                    let (before, rest, mut w) = (b.fst(before)?, b.fst(rest)?, b.snd(w)?);
                    let env = linear(b, Linear::Plus(before, rest))?;
                    if self.counted {
                        let (owed, at) = (b.var(v), b.var(t));
                        let owed = b.index(owed, at)?;
                        w = linear(b, Linear::Plus(w, owed))?;
                    }
                    b.pair(env, w)
                })
            })
        })?;
        debug_assert!(matches!(b.context.types[b.ty(folded)], Type::Pair(_, w) if w == self.state));
        b.let_("r", folded, |b, r| {
            let (env, w) = (b.var(r), b.var(r));
            let (env, w) = (b.fst(env)?, b.snd(w)?);
            let more = p.map_of(b, w)?;
            linear(b, Linear::Plus(env, more))
        })
    }
}

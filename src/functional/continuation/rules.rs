//! The reverse rule of each operation.
//!
//! For the cotangent `z` of the result, and `D_x e` the partial derivative of `e` by `x` times a seed,
//!
//! ```text
//! a + b                         a += z;  b += z
//! a * b                         a += b * z;  b += a * z
//! f(a, ..)                      a += f'(a, ..) * z, for each operand
//! (a, ..)                       a += z.0, ..
//! a.k                           a += (0, .., z, .., 0)
//! map (x, .. e) A ..            A += map (x, .., z. D_x e) A .. z;  v += sum (map (x, .., z. D_v e) A .. z)
//! reduce (x, y. e) c A          A0 = shift1R (scanl (x, y. e) c A);  A1 = map2 (x, y. D_x e) A0 A;  A3 = shift1L (scanr * 1 A1)
//!                               A += map3 (x, y, s. D_y e, seed s * z) A0 A A3;  c += z * reduce * 1 A1
//! scanl (x, y. e) c A           the states are the result; their cotangents are the recurrence `d = z + D_x e * d`, a scanr
//! scanr (x, y. e) c A           the same the other way round
//! shift1L A                     A += scanl (x, y. y) 0 z
//! shift1R A                     A += scanr (x, y. x) 0 z
//! ```
//!
//! A body may read variables `v` around it. All of these get their cotangents from one more series of calls of the gradient of the body, which answers
//! a tuple; so there are three series, for any number of variables. The rule of `reduce` does not need `e` to be associative.
//!
//! Source: \[004\], Figure `direct_diff_macro` and the gradient of `prod` in the section on partial evaluation. The paper has `scanr * 1 (shift1L A1)` for
//! `shift1L (scanr * 1 A1)`, which is the same where `A` has an element, and one element too long where it has none.
//!
//! Refused: `reduce` and scans whose state is no real number, but for sums; shifts of arrays whose elements are no real numbers.

use super::copy::{Renaming, active, copy_block, copy_sweep, has_partial, rebind};
use super::data::{Atom, Block, End, Program, Rhs, Stmt, Sweep, Tail, Type, Var, free_variables};
use super::reverse::Reverse;
use crate::base::Id;
use crate::error::{Error, Result};
use crate::scalar::{self, Formula, Function, Primitive};

/// What a reverse rule keeps from the values for the cotangents.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    /// Nothing but operands and result.
    Nothing,
    /// Of `reduce`: the states before the steps, the partials by the state, and for each step the product of those after it.
    Steps { states: Atom, partials: Atom, products: Atom },
}

/// The operations of a reverse rule, and what it adds to which cotangent.
#[derive(Clone, Debug, Default)]
pub(super) struct Cotangents {
    /// The operations.
    pub lets: Vec<Stmt>,
    /// The summands.
    pub summands: Vec<(Var, Atom)>,
}

impl Cotangents {
    fn let_(&mut self, program: &mut Program, name: &str, ty: Type, rhs: Rhs) -> Atom {
        let var = program.fresh(name, ty);
        self.lets.push(Stmt::new(var, rhs));
        Atom::Var(var)
    }

    fn add(&mut self, to: Atom, summand: Atom) {
        if let Atom::Var(x) = to {
            self.summands.push((x, summand));
        }
    }
}

/// The seed of the gradient of a body.
#[derive(Clone, Copy, Debug)]
enum Seed {
    /// 1.
    One,
    /// The element of one more array.
    Element(Atom),
    /// The same, times a number.
    Scaled(Atom, Atom),
}

/// A binder over arrays.
struct Binder<'a> {
    params: Vec<Var>,
    body: &'a Block,
    arrays: Vec<Atom>,
}

fn real_array() -> Type {
    Type::array(Type::Real)
}

/// Whether a body is `x + y` of its two variables.
fn is_addition(sweep: &Sweep) -> bool {
    let [Stmt { var, rhs: Rhs::Add(a, b), .. }] = &sweep.body.stmts[..] else { return false };
    let (x, y) = (Atom::Var(sweep.state), Atom::Var(sweep.element));
    sweep.body.tail == Tail::Value(Atom::Var(*var)) && ((*a, *b) == (x, y) || (*a, *b) == (y, x))
}

fn refuse<T>(what: &str) -> Result<T> {
    Err(Error::Limitation { feature: format!("the gradient of {what}"), span: None })
}

impl Reverse<'_> {
    /// What is computed with the value of an operation for its reverse rule, before it.
    pub(super) fn keep(&mut self, rhs: &Rhs, out: &mut Vec<Stmt>) -> Result<Kept> {
        let Rhs::Reduce(sweep) = rhs else { return Ok(Kept::Nothing) };
        if *self.program.ty(sweep.state) != Type::Real {
            return Ok(Kept::Nothing);
        }
        let mut kept = Cotangents::default();
        let copy = copy_sweep(self.program, sweep, &mut Renaming::default())?;
        let all = kept.let_(self.program, "P", real_array(), Rhs::Scan(End::First, Box::new(copy)));
        let states = kept.let_(self.program, "A0", real_array(), Rhs::Drop(End::Last, all));
        let partials = self.partials(sweep, states, &mut kept, false)?;
        let after = self.products(End::Last, partials, &mut kept)?;
        let products = kept.let_(self.program, "A3", real_array(), Rhs::Drop(End::First, after));
        out.extend(kept.lets);
        Ok(Kept::Steps { states, partials, products })
    }

    /// What an operation adds to the cotangents of its operands, for the cotangent `z` of its variable.
    pub(super) fn cotangents(&mut self, stmt: &Stmt, kept: &Kept, z: Atom) -> Result<Cotangents> {
        let mut out = Cotangents::default();
        match &stmt.rhs {
            Rhs::Add(a, b) => {
                out.add(*a, z);
                out.add(*b, z);
            }
            Rhs::Mul(a, b) => {
                for (to, other) in [(a, b), (b, a)] {
                    if to.var().is_some() {
                        let w = out.let_(self.program, "w'", Type::Real, Rhs::Mul(*other, z));
                        out.add(*to, w);
                    }
                }
            }
            Rhs::Call(function, args) => self.call(*function, args, z, &mut out)?,
            Rhs::Tuple(of) => {
                for (k, a) in of.iter().enumerate().filter(|(_, a)| a.var().is_some()) {
                    let ty = self.program.atom_ty(*a);
                    let w = out.let_(self.program, "w'", ty, Rhs::Part(z, k));
                    out.add(*a, w);
                }
            }
            Rhs::Part(a, k) => self.part(*a, *k, z, &mut out),
            Rhs::Map { params, body, arrays } => {
                let binder = Binder { params: params.clone(), body, arrays: arrays.clone() };
                self.elements(&binder, arrays, Seed::Element(z), &mut out)?;
                self.captured(&binder, Seed::Element(z), &mut out)?;
            }
            Rhs::Reduce(sweep) => self.reduce(sweep, kept, z, &mut out)?,
            Rhs::Scan(from, sweep) => self.scan(*from, sweep, stmt.var, z, &mut out)?,
            Rhs::Drop(end, a) => self.shift(*end, *a, z, &mut out)?,
        }
        Ok(out)
    }

    fn call(&mut self, function: Function, args: &[Atom], z: Atom, out: &mut Cotangents) -> Result<()> {
        let Function::Value(primitive) = function else {
            return Err(Error::bug("reverse", "a partial derivative has to be expanded before it is differentiated"));
        };
        for (k, a) in args.iter().enumerate() {
            if a.var().is_none() || !has_partial(self.program, function, k) {
                continue;
            }
            let partial = self.scalar_partial(primitive, k, args, out);
            let w = out.let_(self.program, "w'", Type::Real, Rhs::Mul(partial, z));
            out.add(*a, w);
        }
        Ok(())
    }

    /// A partial derivative: a function of the language where its formula is one, as `cos` for `sin`; else a function of its own.
    fn scalar_partial(&mut self, primitive: Primitive, k: usize, args: &[Atom], out: &mut Cotangents) -> Atom {
        // A function has at most 255 operands.
        let k = u8::try_from(k).unwrap_or(u8::MAX);
        let argument = |e: &Formula| match e {
            Formula::Arg(k) => args.get(usize::from(*k)).copied(),
            _ => None,
        };
        let (function, args) = match scalar::partial_formula(primitive, k, &self.program.users) {
            Formula::Number(x) => return Atom::Number(x),
            Formula::Apply(g, of) if of.iter().all(|e| argument(e).is_some()) => {
                (Function::Value(g), of.iter().filter_map(argument).collect())
            }
            _ => (Function::Partial(primitive, k), args.to_vec()),
        };
        out.let_(self.program, "d", Type::Real, Rhs::Call(function, args))
    }

    fn part(&mut self, a: Atom, k: usize, z: Atom, out: &mut Cotangents) {
        let Type::Tuple(of) = self.program.atom_ty(a) else { return };
        let mut parts = Vec::with_capacity(of.len());
        for (j, ty) in of.iter().enumerate() {
            parts.push(match (j == k, out.let_part(self.program, a, j, ty, j != k)) {
                (true, _) => z,
                (false, Some(x)) => Atom::Zero(x),
                (false, None) => Atom::Number(0.0),
            });
        }
        let w = out.let_(self.program, "w'", Type::Tuple(of), Rhs::Tuple(parts));
        out.add(a, w);
    }

    /// A map of the partials of a body by some variables, `wrt`, over its arrays and that of the seeds.
    fn gradient_map(&mut self, binder: &Binder<'_>, wrt: &[Var], seed: Seed) -> Result<(Rhs, Type)> {
        let mut names = Renaming::default();
        let mut params: Vec<Var> = binder.params.iter().map(|x| rebind(self.program, &mut names, *x)).collect();
        let mut arrays = binder.arrays.clone();
        let body = copy_block(self.program, binder.body, &mut names)?;
        let mut before = Cotangents::default();
        let seed = match seed {
            Seed::One => Atom::Number(1.0),
            Seed::Element(seeds) | Seed::Scaled(seeds, _) => {
                let ty = self.program.atom_ty(body.result()?);
                let z = self.program.fresh("z", ty);
                params.push(z);
                arrays.push(seeds);
                match seed {
                    Seed::Scaled(_, factor) => {
                        before.let_(self.program, "w", Type::Real, Rhs::Mul(Atom::Var(z), factor))
                    }
                    _ => Atom::Var(z),
                }
            }
        };
        let wrt: Vec<Var> = wrt.iter().map(|x| names.get(x).and_then(|a| a.var()).unwrap_or(*x)).collect();
        let ty = match &wrt[..] {
            [x] => self.program.ty(*x).clone(),
            all => Type::tuple(all.iter().map(|x| self.program.ty(*x).clone())),
        };
        let body = self.body_gradient(body, &wrt, seed, before.lets)?;
        Ok((Rhs::Map { params, body: Box::new(body), arrays }, Type::array(ty)))
    }

    /// The cotangents of the arrays whose elements a body depends on, one series of calls for each.
    fn elements(&mut self, binder: &Binder<'_>, arrays: &[Atom], seed: Seed, out: &mut Cotangents) -> Result<()> {
        let active = active(self.program, binder.body);
        for (x, array) in binder.params.iter().zip(arrays) {
            if array.var().is_some() && active[x.index()] {
                let (rhs, ty) = self.gradient_map(binder, &[*x], seed)?;
                let w = out.let_(self.program, "M", ty, rhs);
                out.add(*array, w);
            }
        }
        Ok(())
    }

    /// The cotangents of what a body reads from around it, one series of calls for all.
    fn captured(&mut self, binder: &Binder<'_>, seed: Seed, out: &mut Cotangents) -> Result<()> {
        let active = active(self.program, binder.body);
        let mut wrt = free_variables(binder.body, &binder.params);
        wrt.retain(|x| active[x.index()]);
        if wrt.is_empty() {
            return Ok(());
        }
        let (rhs, ty) = self.gradient_map(binder, &wrt, seed)?;
        let all = out.let_(self.program, "M", ty, rhs);
        for (k, x) in wrt.iter().enumerate() {
            let ty = self.program.ty(*x).clone();
            let series = match &wrt[..] {
                [_] => all,
                _ => self.component(all, k, &ty, out),
            };
            let sum = self.sum(series, &ty, Atom::Zero(*x));
            let w = out.let_(self.program, "r", ty, sum);
            out.add(Atom::Var(*x), w);
        }
        Ok(())
    }

    /// `map (t. t.k) tuples`.
    fn component(&mut self, tuples: Atom, k: usize, ty: &Type, out: &mut Cotangents) -> Atom {
        let element = match self.program.atom_ty(tuples) {
            Type::Array(element) => (*element).clone(),
            other => other,
        };
        let t = self.program.fresh("t", element);
        let part = self.program.fresh("w", ty.clone());
        let stmts = vec![Stmt::new(part, Rhs::Part(Atom::Var(t), k))];
        let body = Block { start: None, stmts, tail: Tail::Value(Atom::Var(part)) };
        out.let_(
            self.program,
            "M",
            Type::array(ty.clone()),
            Rhs::Map { params: vec![t], body: Box::new(body), arrays: vec![tuples] },
        )
    }

    /// `reduce + zero array`.
    fn sum(&mut self, array: Atom, ty: &Type, zero: Atom) -> Rhs {
        Rhs::Reduce(Box::new(self.binary(ty, zero, array, Rhs::Add)))
    }

    /// A sweep whose body is one operation of its two variables.
    fn binary(&mut self, ty: &Type, init: Atom, array: Atom, rhs: impl FnOnce(Atom, Atom) -> Rhs) -> Sweep {
        let (state, element) = (self.program.fresh("a", ty.clone()), self.program.fresh("b", ty.clone()));
        let result = self.program.fresh("w", ty.clone());
        let stmts = vec![Stmt::new(result, rhs(Atom::Var(state), Atom::Var(element)))];
        let body = Block { start: None, stmts, tail: Tail::Value(Atom::Var(result)) };
        Sweep { state, element, body, init, array }
    }

    /// A scan that answers its start, then the elements: an array with one more element at an end.
    fn insert(&mut self, from: End, element: Atom, array: Atom, out: &mut Cotangents) -> Atom {
        let (state, x) = (self.program.fresh("a", Type::Real), self.program.fresh("b", Type::Real));
        let body = Block::value(Atom::Var(x));
        let sweep = Sweep { state, element: x, body, init: element, array };
        out.let_(self.program, "D", real_array(), Rhs::Scan(from, Box::new(sweep)))
    }

    /// The partial of each step by the state before it.
    fn partials(&mut self, sweep: &Sweep, states: Atom, out: &mut Cotangents, state_last: bool) -> Result<Atom> {
        let mut binder = steps(sweep, states);
        if state_last {
            binder.params.reverse();
            binder.arrays.reverse();
        }
        let (rhs, ty) = self.gradient_map(&binder, &[sweep.state], Seed::One)?;
        Ok(out.let_(self.program, "A1", ty, rhs))
    }

    /// `scanl * 1 array` or `scanr * 1 array`.
    fn products(&mut self, from: End, array: Atom, out: &mut Cotangents) -> Result<Atom> {
        let one = Atom::Number(1.0);
        let sweep = self.binary(&Type::Real, one, array, |state, x| match from {
            End::First => Rhs::Mul(state, x),
            End::Last => Rhs::Mul(x, state),
        });
        Ok(out.let_(self.program, "S", real_array(), Rhs::Scan(from, Box::new(sweep))))
    }

    fn reduce(&mut self, sweep: &Sweep, kept: &Kept, z: Atom, out: &mut Cotangents) -> Result<()> {
        let Kept::Steps { states, partials, products } = kept else { return self.reduce_sum(sweep, z, out) };
        let binder = steps(sweep, *states);
        let seed = Seed::Scaled(*products, z);
        // The state is no operand: its cotangents are the products.
        let operands = [Atom::Number(0.0), sweep.array];
        self.elements(&binder, &operands, seed, out)?;
        self.captured(&binder, seed, out)?;
        if sweep.init.var().is_some() {
            let product = self.binary(&Type::Real, Atom::Number(1.0), *partials, Rhs::Mul);
            let all = out.let_(self.program, "r", Type::Real, Rhs::Reduce(Box::new(product)));
            let w = out.let_(self.program, "w'", Type::Real, Rhs::Mul(all, z));
            out.add(sweep.init, w);
        }
        Ok(())
    }

    /// Each element of a sum has the cotangent of the sum.
    fn reduce_sum(&mut self, sweep: &Sweep, z: Atom, out: &mut Cotangents) -> Result<()> {
        if !is_addition(sweep) {
            return refuse("a `reduce` whose state is no real number and which is no sum");
        }
        let ty = self.program.ty(sweep.element).clone();
        let x = self.program.fresh("a", ty.clone());
        let map = Rhs::Map { params: vec![x], body: Box::new(Block::value(z)), arrays: vec![sweep.array] };
        let w = out.let_(self.program, "M", Type::array(ty), map);
        out.add(sweep.array, w);
        out.add(sweep.init, z);
        Ok(())
    }

    fn scan(&mut self, from: End, sweep: &Sweep, result: Var, z: Atom, out: &mut Cotangents) -> Result<()> {
        if *self.program.ty(sweep.state) != Type::Real {
            return self.scan_sum(from, sweep, z, out);
        }
        let other = opposite(from);
        let states = out.let_(self.program, "A0", real_array(), Rhs::Drop(other, Atom::Var(result)));
        let partials = self.partials(sweep, states, out, from == End::Last)?;
        // One more partial, which is multiplied by 0, so that there are as many as cotangents.
        let padded = self.insert(other, Atom::Number(1.0), partials, out);
        let all = self.recurrence(other, padded, z, out);
        let after_start = out.let_(self.program, "W", real_array(), Rhs::Drop(other, all));
        let seeds = out.let_(self.program, "W", real_array(), Rhs::Drop(from, after_start));
        let binder = steps(sweep, states);
        self.elements(&binder, &[Atom::Number(0.0), sweep.array], Seed::Element(seeds), out)?;
        self.captured(&binder, Seed::Element(seeds), out)?;
        if sweep.init.var().is_some() {
            let products = self.products(from, partials, out)?;
            let weighted = self.zip(products, z, Rhs::Mul, Type::Real);
            let weighted = out.let_(self.program, "M", real_array(), weighted);
            let sum = self.sum(weighted, &Type::Real, Atom::Number(0.0));
            let w = out.let_(self.program, "r", Type::Real, sum);
            out.add(sweep.init, w);
        }
        Ok(())
    }

    /// `d = z + partial * d`, beginning with 0 at an end: one more number than there are.
    fn recurrence(&mut self, from: End, partials: Atom, z: Atom, out: &mut Cotangents) -> Atom {
        let pair = Type::tuple([Type::Real, Type::Real]);
        let zip = self.zip(partials, z, |a, b| Rhs::Tuple(vec![a, b]), pair.clone());
        let pairs = out.let_(self.program, "E", Type::array(pair.clone()), zip);
        let (state, element) = (self.program.fresh("s", Type::Real), self.program.fresh("e", pair));
        let mut body = Cotangents::default();
        let partial = body.let_(self.program, "d", Type::Real, Rhs::Part(Atom::Var(element), 0));
        let seed = body.let_(self.program, "z", Type::Real, Rhs::Part(Atom::Var(element), 1));
        let product = body.let_(self.program, "w", Type::Real, Rhs::Mul(partial, Atom::Var(state)));
        let result = body.let_(self.program, "w", Type::Real, Rhs::Add(seed, product));
        let body = Block { start: None, stmts: body.lets, tail: Tail::Value(result) };
        let sweep = Sweep { state, element, body, init: Atom::Number(0.0), array: pairs };
        out.let_(self.program, "W", real_array(), Rhs::Scan(from, Box::new(sweep)))
    }

    /// `map2 (a, b. rhs) x y` of arrays of real numbers.
    fn zip(&mut self, x: Atom, y: Atom, rhs: impl FnOnce(Atom, Atom) -> Rhs, ty: Type) -> Rhs {
        let params = vec![self.program.fresh("a", Type::Real), self.program.fresh("b", Type::Real)];
        let result = self.program.fresh("w", ty);
        let stmts = vec![Stmt::new(result, rhs(Atom::Var(params[0]), Atom::Var(params[1])))];
        let body = Block { start: None, stmts, tail: Tail::Value(Atom::Var(result)) };
        Rhs::Map { params, body: Box::new(body), arrays: vec![x, y] }
    }

    /// An element of a running sum is in all sums after it.
    fn scan_sum(&mut self, from: End, sweep: &Sweep, z: Atom, out: &mut Cotangents) -> Result<()> {
        if !is_addition(sweep) {
            return refuse("a scan whose state is no real number and which is no sum");
        }
        let (ty, other) = (self.program.ty(sweep.state).clone(), opposite(from));
        let zero = match sweep.init {
            Atom::Var(x) | Atom::Zero(x) => Atom::Zero(x),
            Atom::Number(_) => Atom::Number(0.0),
        };
        let running = self.binary(&ty, zero, z, Rhs::Add);
        let all = out.let_(self.program, "W", Type::array(ty.clone()), Rhs::Scan(other, Box::new(running)));
        let after_start = out.let_(self.program, "W", Type::array(ty.clone()), Rhs::Drop(other, all));
        let w = out.let_(self.program, "W", Type::array(ty.clone()), Rhs::Drop(from, after_start));
        out.add(sweep.array, w);
        if sweep.init.var().is_some() {
            let sum = self.sum(z, &ty, zero);
            let w = out.let_(self.program, "r", ty, sum);
            out.add(sweep.init, w);
        }
        Ok(())
    }

    fn shift(&mut self, end: End, a: Atom, z: Atom, out: &mut Cotangents) -> Result<()> {
        if self.program.atom_ty(a) != real_array() {
            return refuse("a shift of an array whose elements are no real numbers");
        }
        let w = self.insert(end, Atom::Number(0.0), z, out);
        out.add(a, w);
        Ok(())
    }
}

impl Cotangents {
    /// The variable of a component, for the zero of its shape.
    fn let_part(&mut self, program: &mut Program, a: Atom, k: usize, ty: &Type, wanted: bool) -> Option<Var> {
        if !wanted {
            return None;
        }
        self.let_(program, "w", ty.clone(), Rhs::Part(a, k)).var()
    }
}

/// The steps of a sweep as a binder over the states before them and the elements.
fn steps(sweep: &Sweep, states: Atom) -> Binder<'_> {
    Binder { params: vec![sweep.state, sweep.element], body: &sweep.body, arrays: vec![states, sweep.array] }
}

fn opposite(end: End) -> End {
    match end {
        End::First => End::Last,
        End::Last => End::First,
    }
}

//! The reverse-mode macro: a block and, with each of its values, the continuation that takes the cotangents from there.
//!
//! For the variables `x1, .., xn` in scope and a continuation `Y` that takes one cotangent for each of them,
//!
//! ```text
//! D[let x = r in e]   ==  let x, Y' = <r, fun (y1, .., yn, z) -> Y(y1 + .., .., yn + ..)> in D[e] with Y' for Y
//! D[xk]               ==  <xk, fun (y1, .., yn, z) -> Y(y1, .., yk + z, .., yn)>
//! ```
//!
//! where the summands are those of the [rule](super::rules) of `r` for the cotangent `z` of its value. A variable of the block enters with the cotangent 0.
//! Each continuation is called in one place, so partial evaluation puts it there. Source: \[004\], Figure `direct_diff_macro`, for sources in unary form.
//!
//! Each continuation has a parameter for each variable in scope, so that a block of `m` operations has a derivative of the order of `m^2` parameters. They
//! vanish. [`adjoint`] makes what remains at once: the values, then the cotangents from the last value to the first, of the size of the block.

use std::collections::BTreeMap;

use super::data::{Answer, Atom, Block, Cont, Fun, Program, Rhs, Stmt, Tail, Type, Var};
use super::rules::{Cotangents, Kept};
use crate::error::Result;

/// How gradients are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// With continuations.
    Continuations,
    /// As sequences of operations.
    Sequence,
}

/// The state of the macro.
pub(super) struct Reverse<'a> {
    pub program: &'a mut Program,
    pub style: Style,
}

/// `D[e]` of a program in unary form: a pair of its value and the function from a cotangent for each parameter, to be added to, and the cotangent of the
/// value to the cotangents of all parameters. The last continuation, `Y`, answers what it gets.
///
/// # Errors
/// [`Error::Limitation`](crate::error::Error::Limitation) for what the rules refuse.
pub fn differentiate(program: &Program) -> Result<Program> {
    let mut out = program.clone();
    let wrt = out.params.clone();
    let block = std::mem::replace(&mut out.body, Block::value(Atom::Number(0.0)));
    let mut reverse = Reverse { program: &mut out, style: Style::Continuations };
    let tuple = true;
    let (start, stmts, fun) = reverse.continuations(&block, &wrt, &wrt, tuple)?;
    let result = block.result()?;
    out.body = Block { start: Some(start), stmts, tail: Tail::Pair(result, fun) };
    Ok(out)
}

/// The value of a block and its cotangents as one sequence of operations: what `D[e]` applied to cotangents is after its continuations vanish. Free
/// variables are the parameters, for each of them the cotangent `y` to be added to unless there are none, and the cotangent `z` of the value.
///
/// # Errors
/// As [`differentiate`].
pub fn adjoint(program: &Program, seeds: Seeds) -> Result<Program> {
    let mut out = program.clone();
    let wrt = out.params.clone();
    let block = std::mem::replace(&mut out.body, Block::value(Atom::Number(0.0)));
    let result = block.result()?;
    let (starts, z) = seeds.free_variables(&mut out, result);
    let mut reverse = Reverse { program: &mut out, style: Style::Sequence };
    let given: BTreeMap<Var, Atom> = wrt.iter().copied().zip(starts.iter().copied()).collect();
    let (mut stmts, cotangents) = reverse.sequence(block, given, z)?;
    let all: Vec<Atom> = wrt.iter().map(|x| cotangents.get(x).copied().unwrap_or(Atom::Zero(*x))).collect();
    out.body.tail = pair(&mut out, &mut stmts, result, all);
    out.body.stmts = stmts;
    Ok(out)
}

/// What the cotangents of a program start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeds {
    /// From free variables: those of the parameters, to be added to, and that of the value.
    Variables,
    /// From 0 for the parameters and a free variable for the value.
    Zero,
    /// From 0 for the parameters and 1 for the value, which is a real number: the gradient.
    One,
}

impl Seeds {
    /// The cotangents of the parameters, to be added to, and that of the value. Variables become parameters of the program.
    pub(super) fn free_variables(self, program: &mut Program, result: Atom) -> (Vec<Atom>, Atom) {
        let wrt = program.params.clone();
        let starts = wrt.iter().map(|x| match self {
            Seeds::Variables => {
                let name = format!("y_{}", program.vars[*x].name);
                let y = program.fresh(&name, program.ty(*x).clone());
                program.params.push(y);
                Atom::Var(y)
            }
            Seeds::Zero | Seeds::One => Atom::Zero(*x),
        });
        let starts = starts.collect();
        let z = match self {
            Seeds::One => Atom::Number(1.0),
            Seeds::Variables | Seeds::Zero => {
                let z = program.fresh("z", program.atom_ty(result));
                program.params.push(z);
                Atom::Var(z)
            }
        };
        (starts, z)
    }
}

/// The result `(value, (cotangent, ..))`.
pub(super) fn pair(program: &mut Program, stmts: &mut Vec<Stmt>, value: Atom, cotangents: Vec<Atom>) -> Tail {
    let all = tuple(program, stmts, cotangents);
    Tail::Value(tuple(program, stmts, vec![value, all]))
}

fn tuple(program: &mut Program, stmts: &mut Vec<Stmt>, of: Vec<Atom>) -> Atom {
    let var = program.fresh("p", Type::tuple(of.iter().map(|a| program.atom_ty(*a))));
    stmts.push(Stmt::new(var, Rhs::Tuple(of)));
    Atom::Var(var)
}

impl Reverse<'_> {
    /// A block for the cotangents of some variables of a body, for a seed of its result; a tuple of them if there are several. `before` computes the seed.
    pub(super) fn body_gradient(&mut self, body: Block, wrt: &[Var], seed: Atom, before: Vec<Stmt>) -> Result<Block> {
        let as_tuple = wrt.len() != 1;
        match self.style {
            Style::Sequence => {
                let (mut stmts, cotangents) = self.sequence(body, BTreeMap::new(), seed)?;
                stmts.splice(..0, before);
                let mut all: Vec<Atom> =
                    wrt.iter().map(|x| cotangents.get(x).copied().unwrap_or(Atom::Zero(*x))).collect();
                let result = if as_tuple { tuple(self.program, &mut stmts, all) } else { all.remove(0) };
                Ok(Block { start: None, stmts, tail: Tail::Value(result) })
            }
            Style::Continuations => {
                let scope = super::data::free_variables(&body, &[]);
                let scope: Vec<Var> = scope.iter().chain(wrt.iter().filter(|x| !scope.contains(x))).copied().collect();
                let (start, body_stmts, fun) = self.continuations(&body, &scope, wrt, as_tuple)?;
                let stmts = before.into_iter().chain(body_stmts).collect();
                let args = scope.iter().map(|x| Atom::Zero(*x)).chain([seed]).collect();
                Ok(Block { start: Some(start), stmts, tail: Tail::Apply(fun, args) })
            }
        }
    }

    /// The last continuation, the operations with their continuations, and the function that begins with the cotangent of the result.
    fn continuations(
        &mut self,
        block: &Block,
        scope: &[Var],
        wrt: &[Var],
        as_tuple: bool,
    ) -> Result<((Cont, Fun), Vec<Stmt>, Fun)> {
        let result = block.result()?;
        let mut cont = self.program.fresh_cont();
        let start = (cont, self.last(scope, wrt, as_tuple));
        let mut scope: Vec<Var> = scope.to_vec();
        let n = scope.len();
        let mut stmts = Vec::with_capacity(block.stmts.len());
        for stmt in &block.stmts {
            let kept = self.keep(&stmt.rhs, &mut stmts)?;
            let z = self.program.fresh("z", self.program.ty(stmt.var).clone());
            let cotangents = self.cotangents(stmt, &kept, Atom::Var(z))?;
            let fun = self.step(&scope, z, cotangents, cont);
            cont = self.program.fresh_cont();
            stmts.push(Stmt { var: stmt.var, rhs: stmt.rhs.clone(), back: Some((cont, fun)) });
            scope.push(stmt.var);
        }
        let fun = self.first(&scope, n, result, cont);
        Ok((start, stmts, fun))
    }

    /// `fun (y1, .., yn) -> (y, ..)`.
    fn last(&mut self, scope: &[Var], wrt: &[Var], as_tuple: bool) -> Fun {
        let params: Vec<Var> = scope.iter().map(|x| self.cotangent_of(*x)).collect();
        let wanted = wrt.iter().filter_map(|x| scope.iter().position(|y| x == y)).map(|k| Atom::Var(params[k]));
        let wanted: Vec<Atom> = wanted.collect();
        let mut lets = Vec::new();
        let answer = match &wanted[..] {
            [y] if !as_tuple => *y,
            _ => tuple(self.program, &mut lets, wanted),
        };
        Fun { params, lets, answer: Answer::Value(answer) }
    }

    /// `fun (y1, .., yn, z) -> Y(y1 + .., ..)`.
    fn step(&mut self, scope: &[Var], z: Var, cotangents: Cotangents, next: Cont) -> Fun {
        let mut params: Vec<Var> = scope.iter().map(|x| self.cotangent_of(*x)).collect();
        let mut args: BTreeMap<Var, Atom> = scope.iter().copied().zip(params.iter().map(|y| Atom::Var(*y))).collect();
        params.push(z);
        let mut lets = cotangents.lets;
        for (x, summand) in cotangents.summands {
            if let Some(y) = args.get(&x).copied() {
                let sum = self.cotangent_of(x);
                lets.push(Stmt::new(sum, Rhs::Add(y, summand)));
                args.insert(x, Atom::Var(sum));
            }
        }
        let args = scope.iter().filter_map(|x| args.get(x).copied()).collect();
        Fun { params, lets, answer: Answer::Call(next, args) }
    }

    /// `fun (y1, .., yn, z) -> Y(y1, .., yk + z, .., 0)`, where the first `n` variables in scope are those of the block's surroundings.
    fn first(&mut self, scope: &[Var], n: usize, result: Atom, next: Cont) -> Fun {
        let mut params: Vec<Var> = scope[..n].iter().map(|x| self.cotangent_of(*x)).collect();
        let z = self.program.fresh("z", self.program.atom_ty(result));
        let mut lets = Vec::new();
        let args = scope.iter().enumerate().map(|(k, x)| match (params.get(k), Some(*x) == result.var()) {
            (Some(y), true) => {
                let sum = self.program.fresh_like(*y);
                lets.push(Stmt::new(sum, Rhs::Add(Atom::Var(*y), Atom::Var(z))));
                Atom::Var(sum)
            }
            (Some(y), false) => Atom::Var(*y),
            (None, true) => Atom::Var(z),
            (None, false) => Atom::Zero(*x),
        });
        let args = args.collect();
        params.push(z);
        Fun { params, lets, answer: Answer::Call(next, args) }
    }

    fn cotangent_of(&mut self, x: Var) -> Var {
        self.program.fresh("y", self.program.ty(x).clone())
    }

    /// The operations of a block, then those of the cotangents; the cotangents by variable, beginning with those that are given.
    fn sequence(
        &mut self,
        block: Block,
        given: BTreeMap<Var, Atom>,
        z: Atom,
    ) -> Result<(Vec<Stmt>, BTreeMap<Var, Atom>)> {
        let result = block.result()?;
        let mut stmts: Vec<Stmt> = Vec::with_capacity(block.stmts.len());
        let mut rules: Vec<(usize, Kept)> = Vec::with_capacity(block.stmts.len());
        for stmt in block.stmts {
            let kept = self.keep(&stmt.rhs, &mut stmts)?;
            rules.push((stmts.len(), kept));
            stmts.push(stmt);
        }
        let mut cotangents = given;
        self.add_to(&mut cotangents, &mut stmts, result, z);
        for (at, kept) in rules.iter().rev() {
            let stmt = stmts[*at].clone();
            let Some(z) = cotangents.remove(&stmt.var) else { continue };
            let back = self.cotangents(&stmt, kept, z)?;
            stmts.extend(back.lets);
            for (x, summand) in back.summands {
                self.add_to(&mut cotangents, &mut stmts, Atom::Var(x), summand);
            }
        }
        Ok((stmts, cotangents))
    }

    fn add_to(&mut self, cotangents: &mut BTreeMap<Var, Atom>, stmts: &mut Vec<Stmt>, to: Atom, summand: Atom) {
        let Atom::Var(x) = to else { return };
        let sum = match cotangents.get(&x) {
            None => summand,
            Some(y) => {
                let sum = self.cotangent_of(x);
                stmts.push(Stmt::new(sum, Rhs::Add(*y, summand)));
                Atom::Var(sum)
            }
        };
        cotangents.insert(x, sum);
    }
}

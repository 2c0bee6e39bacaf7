//! The optimiser: a walk that tries the [rules](super::equations) on each operation as it writes it down again.
//!
//! What a rule answers is written down in turn, so bodies that a rule puts together are simplified as well. Beside the rules,
//!
//! - equal operations in scope have one name, bodies being equal up to names and `a + b` to `b + a`;
//! - an operation of a body that depends on no variable of the body is moved out of it;
//! - what the result does not need is left out.
//!
//! The walk is repeated until no rule applies, at most [`PASSES`] times. Source: \[004\], "Optimizations". As everywhere in this crate, real numbers are a field
//! on finite values: `0 * e == 0`.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::copy::{Renaming, renamed};
use super::data::{Atom, Block, Program, Rhs, Stmt, Sweep, Tail, Type, Var, Variable, free_variables};
use super::equations::EQUATIONS;
use super::partial::remove_dead;
use super::verify::rhs_type;
use crate::base::Id;
use crate::error::{Error, Result};

/// The largest number of walks.
pub const PASSES: usize = 32;

const PASS: &str = "optimise";

/// What the optimiser may assume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assumptions {
    /// That arrays have an element: what the closed forms of the paper need.
    pub non_empty: bool,
}

/// An optimised program, and how often each rule was applied.
#[derive(Clone, Debug)]
pub struct Optimised {
    /// The program.
    pub program: Program,
    /// The number of applications, by the name of the rule.
    pub applied: BTreeMap<&'static str, u64>,
}

/// Optimises a program in unary form.
///
/// # Errors
/// [`Error::Bug`] for a program with continuations.
pub fn optimise(program: &Program, assumptions: Assumptions) -> Result<Optimised> {
    let mut program = program.clone();
    let mut applied = BTreeMap::new();
    for _ in 0..PASSES {
        let mut optimiser = Optimiser::new(program, assumptions);
        optimiser.run()?;
        let Optimiser { out, applied: now, .. } = optimiser;
        program = out;
        let done = now.is_empty();
        now.into_iter().for_each(|(name, n)| *applied.entry(name).or_insert(0) += n);
        if done {
            break;
        }
    }
    Ok(Optimised { program, applied })
}

/// A block that is being written.
#[derive(Default)]
struct Frame {
    stmts: Vec<Stmt>,
    known: FxHashMap<Vec<u64>, Atom>,
}

/// The state of a walk.
pub(super) struct Optimiser {
    pub out: Program,
    pub assumptions: Assumptions,
    source: Block,
    names: Renaming,
    frames: Vec<Frame>,
    /// The frame in which a variable is bound.
    levels: Vec<usize>,
    definitions: Vec<Option<Rhs>>,
    /// How often a variable of the source is read; those made since are not known to be read once.
    reads: Vec<u32>,
    applied: BTreeMap<&'static str, u64>,
}

impl Optimiser {
    fn new(mut program: Program, assumptions: Assumptions) -> Self {
        let mut reads = vec![0; program.vars.len()];
        count_reads(&program.body, &mut reads);
        let source = std::mem::replace(&mut program.body, Block::value(Atom::Number(0.0)));
        let n = program.vars.len();
        Optimiser {
            out: program,
            assumptions,
            source,
            names: Renaming::default(),
            frames: vec![Frame::default()],
            levels: vec![0; n],
            definitions: vec![None; n],
            reads,
            applied: BTreeMap::new(),
        }
    }

    fn run(&mut self) -> Result<()> {
        let source = std::mem::replace(&mut self.source, Block::value(Atom::Number(0.0)));
        let result = self.block(&source)?;
        self.out.body = self.close(result);
        Ok(())
    }

    /// Writes the operations of a block down again, where it stands; its result.
    pub(super) fn block(&mut self, block: &Block) -> Result<Atom> {
        let result = block.result()?;
        for stmt in &block.stmts {
            let rhs = self.again(&stmt.rhs)?;
            let atom = self.emit(rhs, Some(stmt.var))?;
            self.names.insert(stmt.var, atom);
        }
        Ok(renamed(&self.names, result))
    }

    /// The same operation for the atoms that its operands have become.
    fn again(&mut self, rhs: &Rhs) -> Result<Rhs> {
        Ok(match rhs {
            Rhs::Map { params, body, arrays } => {
                let arrays = arrays.iter().map(|a| renamed(&self.names, *a)).collect();
                let (params, body) = self.body(params, |optimiser| optimiser.block(body))?;
                Rhs::Map { params, body: Box::new(body), arrays }
            }
            Rhs::Reduce(sweep) => Rhs::Reduce(self.again_sweep(sweep)?),
            Rhs::Scan(from, sweep) => Rhs::Scan(*from, self.again_sweep(sweep)?),
            other => {
                let names = &self.names;
                other.clone().map_operands(|a| renamed(names, a))
            }
        })
    }

    fn again_sweep(&mut self, sweep: &Sweep) -> Result<Box<Sweep>> {
        let (init, array) = (renamed(&self.names, sweep.init), renamed(&self.names, sweep.array));
        let (params, body) = self.body(&[sweep.state, sweep.element], |optimiser| optimiser.block(&sweep.body))?;
        Ok(Box::new(Sweep { state: params[0], element: params[1], body, init, array }))
    }

    /// A body for new variables like the given ones, which stand for them.
    pub(super) fn body(
        &mut self,
        params: &[Var],
        result: impl FnOnce(&mut Self) -> Result<Atom>,
    ) -> Result<(Vec<Var>, Block)> {
        self.frames.push(Frame::default());
        let fresh: Vec<Var> = params.iter().map(|x| self.bind_like(*x)).collect();
        params.iter().zip(&fresh).for_each(|(x, y)| self.stand_for(*x, Atom::Var(*y)));
        let result = result(self)?;
        Ok((fresh, self.close(result)))
    }

    /// A new variable of the innermost body.
    pub(super) fn bind_like(&mut self, x: Var) -> Var {
        let variable = self.out.vars[x].clone();
        self.bind(variable, self.frames.len() - 1, None)
    }

    /// From here on the atom stands for the variable.
    pub(super) fn stand_for(&mut self, x: Var, a: Atom) {
        self.names.insert(x, a);
    }

    /// What stands for a variable.
    pub(super) fn standing_for(&self, x: Var) -> Atom {
        renamed(&self.names, Atom::Var(x))
    }

    fn bind(&mut self, variable: Variable, level: usize, definition: Option<Rhs>) -> Var {
        let x = self.out.vars.push(variable);
        self.levels.push(level);
        self.definitions.push(definition);
        // Unknown, so not once.
        self.reads.push(u32::MAX);
        x
    }

    fn close(&mut self, result: Atom) -> Block {
        let stmts = self.frames.pop().unwrap_or_default().stmts;
        let mut block = Block { start: None, stmts, tail: Tail::Value(result) };
        remove_dead(&mut block);
        block
    }

    /// The operation that computes an atom, where that is known.
    pub(super) fn definition(&self, a: Atom) -> Option<&Rhs> {
        self.definitions.get(a.var()?.index())?.as_ref()
    }

    /// Whether a value is read in one place.
    pub(super) fn is_read_once(&self, a: Atom) -> bool {
        a.var().is_some_and(|x| self.reads.get(x.index()) == Some(&1))
    }

    /// Applies the rules to an operation, or writes it down.
    pub(super) fn emit(&mut self, rhs: Rhs, name: Option<Var>) -> Result<Atom> {
        for equation in EQUATIONS {
            if let Some(atom) = (equation.apply)(self, &rhs)? {
                *self.applied.entry(equation.name).or_insert(0) += 1;
                return Ok(atom);
            }
        }
        let level = self.level(&rhs);
        let key = key(&rhs);
        if let Some(atom) = self.frames[..=level].iter().rev().find_map(|frame| frame.known.get(&key)) {
            let atom = *atom;
            if let Some(x) = atom.var() {
                self.reads[x.index()] = u32::MAX;
            }
            return Ok(atom);
        }
        let body = rhs.body().map(|(_, body)| body.result()).transpose()?.map(|a| self.out.atom_ty(a));
        let ty = rhs_type(&self.out, &rhs, body).map_err(|message| Error::bug(PASS, message))?;
        let label = name.map_or_else(|| "w".into(), |x| self.out.vars[x].name.clone());
        let var = self.bind(Variable { name: label, ty }, level, Some(rhs.clone()));
        if let Some(x) = name {
            self.reads[var.index()] = self.reads[x.index()];
        }
        let frame = &mut self.frames[level];
        frame.stmts.push(Stmt::new(var, rhs));
        frame.known.insert(key, Atom::Var(var));
        Ok(Atom::Var(var))
    }

    /// The outermost frame in which all that an operation reads is bound.
    fn level(&self, rhs: &Rhs) -> usize {
        let of = |a: Atom| match a {
            Atom::Var(x) | Atom::Zero(x) => self.levels[x.index()],
            Atom::Number(_) => 0,
        };
        let body = rhs.body().map_or_else(Vec::new, |(params, body)| free_variables(body, &params));
        let operands = rhs.operands().into_iter().map(of);
        operands.chain(body.into_iter().map(|x| of(Atom::Var(x)))).max().unwrap_or(0).min(self.frames.len() - 1)
    }

    /// The type of an atom.
    pub(super) fn ty(&self, a: Atom) -> Type {
        self.out.atom_ty(a)
    }
}

fn count_reads(block: &Block, reads: &mut [u32]) {
    let read = |a: Atom, reads: &mut [u32]| {
        if let Atom::Var(x) | Atom::Zero(x) = a
            && let Some(n) = reads.get_mut(x.index())
        {
            *n = n.saturating_add(1);
        }
    };
    for stmt in &block.stmts {
        stmt.rhs.operands().into_iter().for_each(|a| read(a, reads));
        if let Some((_, body)) = stmt.rhs.body() {
            count_reads(body, reads);
        }
    }
    if let Tail::Value(a) = block.tail {
        read(a, reads);
    }
}

/// A key that two operations share only if they have the same value: the operation with the variables of bodies numbered in order.
fn key(rhs: &Rhs) -> Vec<u64> {
    let mut key = Key { of: Vec::new(), bound: BTreeMap::new() };
    key.rhs(rhs);
    key.of
}

struct Key {
    of: Vec<u64>,
    bound: BTreeMap<Var, u64>,
}

impl Key {
    fn atom(&self, a: Atom) -> [u64; 2] {
        match a {
            Atom::Var(x) => self.bound.get(&x).map_or([0, u64::from(x.0)], |k| [1, *k]),
            Atom::Number(r) => [2, r.to_bits()],
            Atom::Zero(x) => self.bound.get(&x).map_or([3, u64::from(x.0)], |k| [4, *k]),
        }
    }

    fn bind(&mut self, x: Var) {
        let k = self.bound.len() as u64;
        self.bound.insert(x, k);
    }

    fn rhs(&mut self, rhs: &Rhs) {
        let mut operands: Vec<[u64; 2]> = rhs.operands().into_iter().map(|a| self.atom(a)).collect();
        match rhs {
            Rhs::Add(..) | Rhs::Mul(..) => {
                operands.sort_unstable();
                self.of.push(if matches!(rhs, Rhs::Add(..)) { 10 } else { 11 });
            }
            Rhs::Call(function, _) => {
                self.of.push(12);
                // The derived order of functions has no number, their text has.
                self.of.extend(format!("{function:?}").bytes().map(u64::from));
                self.of.push(u64::MAX);
            }
            Rhs::Tuple(_) => self.of.push(13),
            Rhs::Part(_, k) => self.of.extend([14, *k as u64]),
            Rhs::Map { .. } => self.of.push(15),
            Rhs::Reduce(_) => self.of.push(16),
            Rhs::Scan(from, _) => self.of.extend([17, *from as u64]),
            Rhs::Drop(end, _) => self.of.extend([18, *end as u64]),
        }
        self.of.push(operands.len() as u64);
        self.of.extend(operands.into_iter().flatten());
        if let Some((params, body)) = rhs.body() {
            params.into_iter().for_each(|x| self.bind(x));
            for stmt in &body.stmts {
                self.rhs(&stmt.rhs);
                self.bind(stmt.var);
            }
            if let Tail::Value(a) = body.tail {
                let result = self.atom(a);
                self.of.push(19);
                self.of.extend(result);
            }
        }
    }
}

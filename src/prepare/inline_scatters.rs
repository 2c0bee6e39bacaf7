//! Tables that maps scatter into are not made, where their readers may go through what is scattered.
//!
//! ```text
//! let T = gen g, h. sum o. [a(o, g) and b(o, h)] * e[o] in gen I. sum K. [(exists o. a(o, g) and b(o, h)) and p] * T[g, h] * x
//!   ==   gen I. sum K, o. [a(o, g) and b(o, h) and p] * e[o] * x
//! ```
//!
//! where `a` and `b` are maps, and `g, h` are among `I` and `K`. So it is in the adjoint of a product of matrices of which some elements are read,
//! `(U @ V')[person(o), item(o)]`: what is owed to the product has a place for each person and item, and only those that were read have something there.
//!
//! **Why it is right.** A product with a sum is a sum of products; each `o` is scattered to one place. Where there is none, the guard fails, and the sum over `o`
//! is over nothing. Without such a guard, what `T` is multiplied by is a finite literal, if anything.
//!
//! **It is less work.** It is done where the table has more places than there are numbers to be scattered, and where all who read it read it so. Several
//! numbers at one place are multiplied one by one, which is what it took to compute the elements that were read there.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::Scope;
use crate::base::{Id, IndexId, VarId};
use crate::error::Result;
use crate::index::{Affine, Pred, Size};
use crate::solver::Relations;
use crate::solver::estimate::{Hints, points};
use crate::tssa::{Builder, OpenStmt, Operand, Program, Rhs, Stmt};

/// How often tables go: what is made of one may be another.
const MAX_ROUNDS: usize = 4;

/// The program without such tables.
pub(super) fn inlined(program: &Program) -> Result<Cow<'_, Program>> {
    let mut now = Cow::Borrowed(program);
    for _ in 0..MAX_ROUNDS {
        let tables = tables(&now);
        if tables.is_empty() {
            break;
        }
        now = Cow::Owned(without(&now, &tables)?);
    }
    Ok(now)
}

/// The tables all of whose readers may do without them.
fn tables(program: &Program) -> BTreeSet<VarId> {
    let mut found: BTreeSet<VarId> =
        program.stmts.iter().filter(|(_, stmt)| is_table(program, stmt)).map(|(x, _)| x).collect();
    if found.is_empty() {
        return found;
    }
    let mut kept: BTreeSet<VarId> = program.outputs.iter().flat_map(|output| output.leaves.iter().copied()).collect();
    for stmt in program.stmts.values() {
        let goes = |x: VarId| !found.contains(&x) || Read::of(program, stmt, x).is_some();
        stmt.rhs.for_each_operand(|x| kept.extend((!goes(x)).then_some(x)));
    }
    found.retain(|x| !kept.contains(x));
    found
}

/// Whether a statement scatters along two maps or more, into more places than there are terms.
fn is_table(program: &Program, stmt: &Stmt) -> bool {
    let Rhs::Contract { sums, guard, operands } = &stmt.rhs else { return false };
    let rank = stmt.dims.len();
    let is_source = |a: &Affine| a.as_index().is_some_and(|i| i.index() >= rank);
    let target = |p: &Pred| {
        let Pred::Relation { relation, args, holds: true } = p else { return None };
        let (target, sources) = args.split_last()?;
        let is_map = program.signature.is_map(*relation) && sources.iter().all(is_source);
        target.as_index().filter(|i| is_map && i.index() < rank)
    };
    let Some(targets) = guard.conjuncts().iter().map(target).collect::<Option<Vec<IndexId>>>() else { return false };
    let is_target = |axis: usize| targets.iter().filter(|i| i.index() == axis).count() == 1;
    let is_scattered = rank >= 2
        && targets.len() == rank
        && (0..rank).all(is_target)
        && operands.iter().all(|x| x.indices.iter().all(|i| i.index() >= rank));
    let count = |dims: &[Size]| {
        let scope: Scope = dims.iter().cloned().enumerate().map(|(k, n)| (IndexId::from_index(k), n)).collect();
        points(&scope, &Pred::True, &Hints::new(), &*program.signature)
    };
    is_scattered && count(&stmt.dims).compare(&count(sums)) == Ordering::Greater
}

/// How a statement reads a table.
struct Read {
    /// Which operand that is.
    at: usize,
    /// The conjunct of the guard that says that something is scattered there.
    asked: Option<usize>,
}

impl Read {
    /// How that is, where it may do without the table.
    fn of(program: &Program, stmt: &Stmt, table: VarId) -> Option<Read> {
        let Rhs::Contract { guard, operands, .. } = &stmt.rhs else { return None };
        let mut reads = operands.iter().enumerate().filter(|(_, x)| x.var == table);
        let (at, operand) = reads.next().filter(|_| reads.next().is_none() && !guard.reads_computed())?;
        let scattered = &program.stmts[table];
        let Rhs::Contract { sums, guard: scatters, .. } = &scattered.rhs else { return None };
        let is_distinct = |i: &IndexId| operand.indices.iter().filter(|j| *j == i).count() == 1;
        if !operand.indices.iter().all(is_distinct) {
            return None;
        }
        let conjuncts = scatters.conjuncts();
        // `exists o. a(o, g) and b(o, h)`, at the places that are read here.
        let is_asked = |p: &Pred| {
            let (mut p, mut bound) = (p, Vec::new());
            while let Pred::Exists { index, extent, body } = p {
                bound.push((*index, extent));
                p = body;
            }
            let rank = scattered.dims.len();
            let sources = || sums.iter().zip(rank..);
            let name = |i: IndexId| match i.index().checked_sub(rank) {
                None => operand.indices.get(i.index()).copied(),
                Some(place) => bound.get(place).map(|(index, _)| *index),
            };
            let same =
                |q: &Pred| q.substitute(&|i| name(i).map(Affine::index)).is_ok_and(|q| p.conjuncts().contains(&q));
            sources().count() == bound.len()
                && sources().zip(&bound).all(|((n, _), (_, extent))| n == *extent)
                && p.conjuncts().len() == conjuncts.len()
                && conjuncts.iter().all(same)
        };
        let asked = guard.conjuncts().iter().position(is_asked);
        let is_literal = |x: &Operand| program.stmts[x.var].rhs.is_finite_literal();
        let is_free = operands.iter().enumerate().all(|(k, x)| k == at || is_literal(x));
        (asked.is_some() || is_free).then_some(Read { at, asked })
    }
}

fn without(program: &Program, tables: &BTreeSet<VarId>) -> Result<Program> {
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, x, stmt| {
        // Of two tables in a product one goes in this round.
        let mut read = None;
        program.stmts[x].rhs.for_each_operand(|y| {
            if read.is_none() && tables.contains(&y) {
                read = Read::of(program, &program.stmts[x], y);
            }
        });
        match read {
            Some(read) => through(builder, stmt, &read),
            None => builder.push(stmt),
        }
    })?;
    builder.finish(outputs).prune()
}

/// The statement over what is scattered into the table that it reads.
fn through(builder: &mut Builder, stmt: &Stmt, read: &Read) -> Result<VarId> {
    let OpenStmt { gens, mut sums, rhs } = builder.open_stmt(stmt)?;
    let Rhs::Contract { guard, mut operands, .. } = rhs else { return builder.push(stmt) };
    let table = operands.remove(read.at);
    let scattered = builder.open(table.var)?;
    let Rhs::Contract { guard: scatters, operands: terms, .. } = scattered.rhs else { return builder.push(stmt) };
    let place = |i: IndexId| {
        let axis = scattered.gens.iter().position(|(g, _)| *g == i)?;
        table.indices.get(axis).copied()
    };
    let scatters = builder.freshen(&scatters, &place)?;
    let rest = guard.conjuncts().iter().enumerate().filter(|(k, _)| Some(*k) != read.asked).map(|(_, p)| p.clone());
    let guard = Pred::all(rest.chain([scatters]));
    let term = match terms.as_slice() {
        [term] => term.clone(),
        _ => {
            let indices = scattered.sums.iter().map(|(i, _)| *i).collect();
            let var = builder.contract(&scattered.sums, &[], Pred::True, terms)?;
            Operand { var, indices }
        }
    };
    sums.extend(scattered.sums);
    operands.push(term);
    builder.contract(&gens, &sums, guard, operands)
}

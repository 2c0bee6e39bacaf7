//! Elements that no reader asks for are not computed.
//!
//! ```text
//! let x = gen i. e in f(gen i. [R(i)] * x[i])   ==   let x = gen i. [R(i)] * e in f(gen i. [R(i)] * x[i])
//! ```
//!
//! A reader asks for the elements where its guard holds, where its other factor may not be zero, and which its own readers ask for. What of that
//! is a relation over axes of the tensor, the same for all readers, becomes a part of the guard of the tensor: then it is stored on
//! the entries of the relation, and computed there alone. The product of two matrices that is read at the entries of a third one takes neither
//! the time nor the memory of a dense one.
//!
//! What sums give is asked of [projections](super::projections) behind that: where there is nothing to add up nothing is computed.
//!
//! **Why it is right.** A guard gives 0 where it fails, whatever its operands hold. So no reader sees another number at the places for which
//! it asks, and it sees none of the others. One loop from the results back finds what is asked for, one forward writes it into the guards.

use std::borrow::Cow;

use super::projections::projected;
use crate::base::{Id, IndexId, RelationId, SideTable, VarId, work};
use crate::error::Result;
use crate::index::{Affine, Pred};
use crate::loops::PLACES;
use crate::tssa::patterns::{Pattern, patterns};
use crate::tssa::{Builder, Program, Rhs, Stmt};

/// The program that computes what is asked for.
pub(super) fn demanded(program: &Program) -> Result<Cow<'_, Program>> {
    Ok(match asked_for(program)? {
        Cow::Borrowed(program) => projected(program)?,
        Cow::Owned(program) => Cow::Owned(projected(&program)?.into_owned()),
    })
}

/// The program that computes what readers ask for.
fn asked_for(program: &Program) -> Result<Cow<'_, Program>> {
    if program.signature.relations.is_empty() {
        return Ok(Cow::Borrowed(program));
    }
    let known = patterns(program);
    let asked = asked(program, &known);
    let missing = |(x, stmt): (VarId, &Stmt)| -> Vec<&Pattern> {
        let computed = !matches!(stmt.rhs, Rhs::Input { .. } | Rhs::Number(_));
        asked[x].iter().flatten().filter(|pattern| computed && !known[x].contains(pattern)).collect()
    };
    if program.stmts.iter().all(|stmt| missing(stmt).is_empty()) {
        return Ok(Cow::Borrowed(program));
    }
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, x, stmt| builder.push(&within(stmt, &missing((x, stmt)))))?;
    Ok(Cow::Owned(builder.finish(outputs).prune()?))
}

/// The statement on patterns.
fn within(stmt: &Stmt, patterns: &[&Pattern]) -> Stmt {
    let at: Vec<Affine> = (0..stmt.dims.len()).map(|k| IndexId::from_index(k).into()).collect();
    let all = || Pred::all(patterns.iter().map(|pattern| pattern.atom(&at)).collect::<Vec<_>>());
    let mut stmt = stmt.clone();
    match &mut stmt.rhs {
        Rhs::Add([(p, _), (q, _)]) => (*p, *q) = (all().and(p.clone()), all().and(q.clone())),
        Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => *guard = all().and(guard.clone()),
        Rhs::Input { .. } | Rhs::Number(_) => {}
    }
    stmt
}

/// The patterns on which all readers of a tensor ask for its elements; nothing for one that nobody reads.
fn asked(program: &Program, known: &SideTable<VarId, Vec<Pattern>>) -> SideTable<VarId, Option<Vec<Pattern>>> {
    let mut asked: SideTable<VarId, Option<Vec<Pattern>>> = SideTable::new(program.stmts.len(), None);
    let ask = |x: VarId, patterns: Vec<Pattern>, asked: &mut SideTable<VarId, Option<Vec<Pattern>>>| {
        let mut both: Vec<Pattern> = Vec::new();
        for pattern in patterns {
            let others = asked[x].as_ref().is_none_or(|others| others.contains(&pattern));
            if others && !both.contains(&pattern) {
                both.push(pattern);
            }
        }
        asked.set(x, Some(both));
    };
    for output in &program.outputs {
        for x in &output.leaves {
            // The places of one that is found out are those of its tensor.
            let given = |r: &RelationId| !program.signature.relations[*r].name.starts_with(PLACES);
            let all = |relation| Pattern { relation, axes: (0..program.stmts[*x].dims.len()).collect() };
            ask(*x, output.storage.pattern().filter(given).map(all).into_iter().collect(), &mut asked);
        }
    }
    // Users come after their operands.
    for x in program.stmts.ids().rev() {
        let Some(own) = asked[x].clone() else { continue };
        work::charge(4 + own.len() * own.len());
        let stmt = &program.stmts[x];
        let ranges: Vec<_> = stmt.dims.iter().chain(stmt.rhs.sums()).collect();
        let extent = |i: IndexId| ranges.get(i.index()).copied();
        let of_guard = |p: &Pred| Pattern::of_guard(&program.signature, p, extent);
        match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => {}
            Rhs::Add(sides) => sides.iter().for_each(|(p, y)| ask(*y, [own.clone(), of_guard(p)].concat(), &mut asked)),
            Rhs::Map { guard, args, .. } => {
                args.iter().for_each(|y| ask(*y, [own.clone(), of_guard(guard)].concat(), &mut asked));
            }
            Rhs::Contract { guard, operands, .. } => {
                let here = [own, of_guard(guard)].concat();
                for (at, operand) in operands.iter().enumerate() {
                    let others = operands.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other);
                    let factors = others.flat_map(|other| {
                        let index = |axis: usize| other.indices.get(axis).map(|i| i.index());
                        known[other.var].iter().filter_map(move |pattern| pattern.renamed(index))
                    });
                    let axis = |index: usize| operand.indices.iter().position(|i| i.index() == index);
                    let patterns = here.iter().cloned().chain(factors).filter_map(|pattern| pattern.renamed(axis));
                    ask(operand.var, patterns.collect(), &mut asked);
                }
            }
        }
        for guard in stmt.rhs.guards() {
            guard.visit_computed(&mut |y| ask(y, Vec::new(), &mut asked));
        }
    }
    asked
}

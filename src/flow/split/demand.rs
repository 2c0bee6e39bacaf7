//! Statements under the tests that all who read them ask.
//!
//! ```text
//! y = gen i. F(s[i]);  z = gen j. [j = k] * y[j];  w = y[l]
//!   ==  y' = gen i. [i = k] * F(s[i]);  z = gen j. [j = k] * y'[j];  y'' = gen i. [i = l] * F(s[i]);  w = y''[l]
//! ```
//!
//! What a reader looks at under a test alone need not be there where the test fails. So a statement is written once for each set of tests under which it is read, with
//! these among its own guards, and what it reads in turn is looked at under them, too, down to what is read of a path. There the tests say at which places
//! the state is needed.
//!
//! Tests are equations, and relations that [tell](super::places) an index; they go through statements as long as their indices are axes of what is read. Only
//! statements that read the path are written under tests. Nothing is changed where that would be more than [`MOST`] times the statements.

use std::collections::{BTreeMap, BTreeSet};

use super::super::build::Builder;
use super::super::data::{Leaf, Loops, ValueId};
use super::super::leaf::{Joined, sources};
use crate::base::{Arena, Id, IndexId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef};
use crate::tssa::{self, Rhs, Stmt};

/// How many times the statements that read the path are written at most.
const MOST: usize = 4;

/// Tests over the axes of a statement.
type Tests = Vec<Pred>;

/// The leaf in which what depends on a path is under the tests of its readers.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub(super) fn under_tests(flow: &Builder, leaf: &Leaf, path: ValueId, loops: &Loops) -> Result<Option<Leaf>> {
    let stmts = &leaf.program.stmts;
    let mut readers: BTreeSet<VarId> = BTreeSet::new();
    for (x, stmt) in stmts.iter() {
        let mut reads = matches!(&stmt.rhs, Rhs::Input { param, .. } if leaf.taken(*param) == Some(&path));
        stmt.rhs.for_each_operand(|y| reads |= readers.contains(&y));
        readers.extend(reads.then_some(x));
    }
    let Some(demands) = demands(&leaf.program, &readers)? else { return Ok(None) };
    let mut joined = Joined::new(flow);
    let mut vars: BTreeMap<(VarId, Tests), VarId> = BTreeMap::new();
    let is_reader = |x: &VarId| readers.contains(x);
    // Tests are about statements that do not read the path, so these come first.
    for x in stmts.ids().filter(|x| !is_reader(x)).chain(stmts.ids().filter(is_reader)) {
        let everywhere = vec![Tests::new()];
        let wanted = if is_reader(&x) { demands.get(&x).map_or(&[][..], Vec::as_slice) } else { everywhere.as_slice() };
        for tests in wanted {
            let var = match &stmts[x].rhs {
                Rhs::Input { .. } => joined.input(&stmts[x], leaf.outer_params(), &sources(leaf))?,
                _ => {
                    let mut stmt = under(&stmts[x], tests);
                    each_operand(&mut stmt, &readers, &mut |y, tests| {
                        let tests = tests_for(stmts, &readers, *y, tests);
                        *y = vars.get(&(*y, tests)).copied().ok_or_else(lost)?;
                        Ok(())
                    })?;
                    each_relation(&mut stmt, &|y| vars.get(&(y, Tests::new())).copied().ok_or_else(lost))?;
                    joined.builder.push(&stmt)?
                }
            };
            joined.builder.suggest_name(var, &leaf.program.names[x]);
            vars.insert((x, tests.clone()), var);
        }
    }
    let mut given = BTreeMap::new();
    for x in leaf.program.outputs.iter().flat_map(|output| &output.leaves) {
        given.insert(*x, vars.get(&(*x, Tests::new())).copied().ok_or_else(lost)?);
    }
    joined.give_all(leaf, &given)?;
    joined.finish(flow, loops, leaf.gives.clone()).map(Some)
}

fn lost() -> Error {
    Error::bug("split", "a statement that nobody asked for")
}

/// The sets of tests under which statements that read the path are read, if they are few.
fn demands(program: &tssa::Program, readers: &BTreeSet<VarId>) -> Result<Option<BTreeMap<VarId, Vec<Tests>>>> {
    let mut demands: BTreeMap<VarId, Vec<Tests>> = BTreeMap::new();
    let mut count = 0;
    let mut ask = |demands: &mut BTreeMap<VarId, Vec<Tests>>, x: VarId, tests: Tests| {
        if readers.contains(&x) && !demands.get(&x).is_some_and(|known| known.contains(&tests)) {
            demands.entry(x).or_default().push(tests);
            count += 1;
        }
        count <= MOST * readers.len()
    };
    for x in program.outputs.iter().flat_map(|output| &output.leaves) {
        ask(&mut demands, *x, Tests::new());
    }
    for x in readers.iter().rev() {
        for tests in demands.get(x).cloned().unwrap_or_default() {
            let mut is_few = true;
            let mut stmt = under(&program.stmts[*x], &tests);
            // What a relation is computed from is asked for everywhere.
            stmt.rhs.guards().for_each(|p| p.visit_computed(&mut |y| is_few &= ask(&mut demands, y, Tests::new())));
            each_operand(&mut stmt, readers, &mut |y, tests| {
                is_few &= ask(&mut demands, *y, tests_for(&program.stmts, readers, *y, tests));
                Ok(())
            })?;
            if !is_few {
                return Ok(None);
            }
        }
    }
    Ok(Some(demands))
}

/// The tests that count for a statement that is read: none for inputs, and those that do not read the path.
fn tests_for(stmts: &Arena<VarId, Stmt>, readers: &BTreeSet<VarId>, x: VarId, tests: Tests) -> Tests {
    let is_input = matches!(stmts[x].rhs, Rhs::Input { .. });
    if is_input || !readers.contains(&x) { Tests::new() } else { tests }
}

/// A statement under tests of its axes.
fn under(stmt: &Stmt, tests: &Tests) -> Stmt {
    let mut stmt = stmt.clone();
    let with = |p: &mut Pred| {
        let more = tests.iter().filter(|test| !p.conjuncts().contains(test)).cloned();
        *p = Pred::all(p.conjuncts().iter().cloned().chain(more).collect::<Vec<_>>());
    };
    match &mut stmt.rhs {
        Rhs::Contract { guard, .. } | Rhs::Map { guard, .. } => with(guard),
        Rhs::Add([(p, _), (q, _)]) => {
            with(p);
            with(q);
        }
        Rhs::Input { .. } | Rhs::Number(_) => {}
    }
    stmt
}

/// Calls `visit` on the operands of a statement, each with the tests under which it is read, over its own axes.
fn each_operand(
    stmt: &mut Stmt,
    readers: &BTreeSet<VarId>,
    visit: &mut dyn FnMut(&mut VarId, Tests) -> Result<()>,
) -> Result<()> {
    let whole: Vec<IndexId> = (0..stmt.dims.len()).map(IndexId::from_index).collect();
    match &mut stmt.rhs {
        Rhs::Contract { guard, operands, .. } => {
            for operand in operands {
                visit(&mut operand.var, asked(guard, &operand.indices, readers)?)?;
            }
        }
        Rhs::Map { guard, args, .. } => {
            for x in args {
                visit(x, asked(guard, &whole, readers)?)?;
            }
        }
        Rhs::Add(sides) => {
            for (p, x) in sides {
                visit(x, asked(p, &whole, readers)?)?;
            }
        }
        Rhs::Input { .. } | Rhs::Number(_) => {}
    }
    Ok(())
}

/// The tests of a guard about these indices alone, over their places.
fn asked(guard: &Pred, indices: &[IndexId], readers: &BTreeSet<VarId>) -> Result<Tests> {
    let axis = |i: IndexId| indices.iter().position(|j| i == *j).map(IndexId::from_index);
    let mut tests = Tests::new();
    for test in guard.conjuncts() {
        let [mut is_own, mut mentions] = [matches!(test, Pred::Zero(_) | Pred::Relation { holds: true, .. }), false];
        test.visit_free(&mut |i| {
            mentions = true;
            is_own &= axis(i).is_some();
        });
        test.visit_computed(&mut |y| is_own &= !readers.contains(&y));
        if is_own && mentions {
            tests.push(test.substitute(&|i| axis(i).map(Affine::index))?);
        }
    }
    tests.sort_unstable();
    tests.dedup();
    Ok(tests)
}

/// Has the relations of a statement computed from others.
fn each_relation(stmt: &mut Stmt, of: &dyn Fn(VarId) -> Result<VarId>) -> Result<()> {
    let rename = |p: &mut Pred| -> Result<()> {
        *p = p.map_relations(&mut |relation| match relation {
            RelationRef::Computed { var, view } => Ok(RelationRef::Computed { var: of(var)?, view }),
            other @ RelationRef::Input(_) => Ok::<_, Error>(other),
        })?;
        Ok(())
    };
    match &mut stmt.rhs {
        Rhs::Contract { guard, .. } | Rhs::Map { guard, .. } => rename(guard),
        Rhs::Add([(p, _), (q, _)]) => rename(p).and_then(|()| rename(q)),
        Rhs::Input { .. } | Rhs::Number(_) => Ok(()),
    }
}

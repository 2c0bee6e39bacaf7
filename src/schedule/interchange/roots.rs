//! Sums over all tuples of a relation, beside nests with a row of it for each value of its first axis.
//!
//! ```text
//! for r in roots R                     for i in 0 .. n - 1
//!   i = nodes 0 R[r]           ==        for e in rows R at i
//!   for e in children 0 R at r             s += f(i, e)
//!     s += f(i, e)
//! for i in 0 .. n - 1
//!   for e in rows R at i
//!     x[i] += g(i, e)
//! ```
//!
//! Both then run over the same rows, so they may [join](super::super::fuse), and what the tuples of a row lead to, as the distance of two points and its
//! powers, is computed once for the sum and for the gradient.
//!
//! **Why it is right.** The roots are the values of the first axis with tuples, in order. Nothing is done at a value but for each of its tuples, so at the
//! others nothing is done. The tuples come in the same order, and have the same numbers.
//!
//! **Where it is done.** The number of a root serves for nothing but its value and its tuples, and another nest goes through all values anyway.

use crate::base::IndexId;
use crate::error::Result;
use crate::loops::{Array, ArrayId, Decision, Domain, Nest, Part, Program, Segment, Stmt};

/// Makes loops over rows of those over roots.
pub(super) fn to_rows(program: &mut Program) -> Result<()> {
    for at in 0..program.nests.len() {
        let Some(Walk { view, stmt, value }) = walk(program, &program.nests[at]) else { continue };
        let of_view = |part| Array { part, ..view.clone() };
        let (rows, nodes) = (of_view(Part::Rows), of_view(Part::Nodes(0)));
        let Some(rows) = program.arrays.iter().find(|(_, array)| **array == rows).map(|(id, _)| id) else { continue };
        let Some(axis) = nodes.extent(&program.signature) else { continue };
        let whole = Domain::whole(axis)?;
        if !program.nests.iter().any(|nest| has_rows(nest, rows, &whole)) {
            continue;
        }
        let nest = &mut program.nests[at];
        nest.decisions.push(Decision::RowsOfRoots {});
        if let Stmt::For { index, domain, body, .. } = &mut nest.body[stmt] {
            let root = std::mem::replace(index, value);
            *domain = whole;
            body.remove(0);
            below(body, root, &Segment { pointers: rows, at: value.into() });
        }
    }
    Ok(())
}

/// A loop over all roots of a view.
struct Walk<'a> {
    view: &'a Array,
    /// Which statement of the nest it is.
    stmt: usize,
    /// The index that is the value of a root, which the first statement inside gives.
    value: IndexId,
}

fn walk<'a>(program: &'a Program, nest: &Nest) -> Option<Walk<'a>> {
    let at = nest.body.iter().position(|stmt| matches!(stmt, Stmt::For { .. }))?;
    let Stmt::For { index, domain: Domain::Segment(Segment { pointers, .. }), body, .. } = &nest.body[at] else {
        return None;
    };
    let view = program.arrays.get(*pointers)?;
    let is_part = |id: ArrayId, part| program.arrays.get(id) == Some(&Array { part, ..view.clone() });
    if view.part != Part::Roots || view.axes.len() < 2 {
        return None;
    }
    let Some((Stmt::Let { index: value, array, at: place, .. }, rest)) = body.split_first() else { return None };
    let mut other_uses = !is_part(*array, Part::Nodes(0)) || place.as_index() != Some(*index);
    for stmt in rest {
        other_uses |= match stmt {
            Stmt::Define(..) | Stmt::Let { .. } | Stmt::Local(_) => false,
            Stmt::For { domain: Domain::Segment(Segment { at, .. }), .. } => at.as_index() != Some(*index),
            _ => true,
        };
        stmt.visit(&mut |stmt| match stmt {
            Stmt::For { domain: Domain::Segment(Segment { pointers, at }), .. } if at.as_index() == Some(*index) => {
                other_uses |= !is_part(*pointers, Part::Children(0));
            }
            stmt => stmt.visit_affine(&mut |a| other_uses |= a.mentions(*index)),
        });
    }
    (!other_uses).then_some(Walk { view, stmt: at, value: *value })
}

/// Whether a nest has a loop over a whole axis, with rows at its index inside.
fn has_rows(nest: &Nest, rows: ArrayId, whole: &Domain) -> bool {
    let mut found = false;
    for stmt in &nest.body {
        let Stmt::For { index, domain, .. } = stmt else { continue };
        if domain != whole {
            continue;
        }
        let row = Segment { pointers: rows, at: (*index).into() };
        stmt.visit(&mut |stmt| found |= matches!(stmt, Stmt::For { domain: Domain::Segment(at), .. } if *at == row));
    }
    found
}

/// Puts the rows in place of what is below a root.
fn below(body: &mut [Stmt], root: IndexId, row: &Segment) {
    for stmt in body {
        if let Stmt::For { domain: Domain::Segment(segment), .. } = stmt
            && segment.at.as_index() == Some(root)
        {
            *segment = row.clone();
        }
        if let Stmt::For { body, .. } | Stmt::If { body, .. } = stmt {
            below(body, root, row);
        }
    }
}

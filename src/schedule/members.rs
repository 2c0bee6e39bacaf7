//! Loops over the places of a row in place of all places.
//!
//! A body that looks for its place in a row, or asks whether a map leads from it to a known target, does one thing where it finds it and the same at all
//! other places:
//!
//! ```text
//! for i in 0 .. n - 1                       for q in rows R at e
//!   q = find i in rows R at e                 i = nodes R[q]
//!   r = f(i, q)                       ==      r = f(i, q)
//!   best max= r                               best max= r
//!                                           if some place is missing
//!                                             r = f(-1)
//!                                             best max= r
//! ```
//!
//! The sources of a target of a map are a row of its transposed view. What is done at a missing place mentions no place, so once is as good as often.
//!
//! **Why it is right.** The places of a row increase and differ, so they come in the order in which the loop over all of them has them, and the row has each
//! that the search finds. A test of what was found is decided on either side; of any other test that depends on it nothing is made.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Arena, IndexId, RelationId};
use crate::error::Result;
use crate::index::{Affine, Checked, RelationRef};
use crate::loops::{Array, ArrayId, Cond, Domain, Fresh, Part, Real, RealId, Segment, Stmt, defined, mentioned};
use crate::solver::Relations;
use crate::ty::Signature;

/// What a body does at the places of a row, and at all others.
pub(super) struct Members {
    /// What is found out before: it is the same for all places.
    before: Vec<Stmt>,
    /// The loop index over the row.
    node: IndexId,
    row: Segment,
    /// What is done at a node of the row, for which its place is found first.
    inside: Vec<Stmt>,
    /// The value there.
    pub value: RealId,
    /// What is done at a missing place.
    pub outside: Vec<Stmt>,
    /// The value at a missing place.
    pub other: RealId,
}

impl Members {
    /// Those of a body over all places, and of the value that it computes.
    ///
    /// # Errors
    /// Where a coefficient leaves the range of 64-bit integers.
    pub fn of(
        arrays: &mut Arena<ArrayId, Array>,
        signature: &Signature,
        names: &mut Fresh,
        (at, body, value): (IndexId, &[Stmt], RealId),
    ) -> Result<Option<Members>> {
        for k in 0..body.len() {
            let Some(found) = Membership::of(arrays, signature, at, body, k)? else { continue };
            let rest: Vec<Stmt> = found.rest(body, k);
            let (outside, other) = made(&found.test.decided(&rest, false)?, value, names)?;
            let depends = mentioned(&outside);
            if depends.contains(&at) || depends.contains(&found.test.index()) {
                continue;
            }
            let (mut inside, value) = made(&found.test.decided(&rest, true)?, value, names)?;
            let (node, row, nodes) = found.row.bind(arrays, names);
            if matches!(found.test, Test::Target(t, _) if mentioned(&inside).contains(&t)) {
                inside.insert(0, body[k].clone());
            }
            inside.insert(0, Stmt::Let { index: at, array: nodes, at: node.into(), step: None });
            return Ok(Some(Members { before: found.before, node, row, inside, value, outside, other }));
        }
        Ok(None)
    }

    /// The loop over the row, with something behind what is done at each place, and what is found out before it.
    pub fn visited(self, behind: impl IntoIterator<Item = Stmt>) -> Vec<Stmt> {
        let inside = self.inside.into_iter().chain(behind).collect();
        self.before.into_iter().chain([Stmt::one_by_one(self.node, Domain::Segment(self.row), inside)]).collect()
    }

    /// Whether the value at a missing place is a literal, and which.
    pub fn literal(&self) -> Option<f64> {
        let mut known: Vec<(RealId, f64)> = Vec::new();
        let read = |known: &[(RealId, f64)], r: RealId| known.iter().rev().find(|(s, _)| *s == r).map(|(_, x)| *x);
        for stmt in &self.outside {
            let (r, x) = match stmt {
                Stmt::Local(r) => (*r, 0.0),
                Stmt::Define(r, Real::Literal(x)) => (*r, *x),
                Stmt::Define(r, Real::Add(a, b)) => (*r, read(&known, *a)? + read(&known, *b)?),
                Stmt::Define(r, Real::Mul(a, b)) => (*r, read(&known, *a)? * read(&known, *b)?),
                Stmt::Assign(r, a) => (*r, read(&known, *a)?),
                _ => return None,
            };
            known.push((r, x));
        }
        read(&known, self.other)
    }
}

/// Statements under fresh names, and a value that they compute. What is given a number once, and in any case, is that number.
fn made(stmts: &[Stmt], value: RealId, names: &mut Fresh) -> Result<(Vec<Stmt>, RealId)> {
    names.again();
    let mut changes: BTreeMap<RealId, usize> = BTreeMap::new();
    let mut count = |stmt: &Stmt| stmt.changes().into_iter().for_each(|r| *changes.entry(r).or_default() += 1);
    stmts.iter().for_each(|stmt| stmt.visit(&mut |stmt| count(stmt)));
    let given = |stmt: &&Stmt| matches!(stmt, Stmt::Assign(..));
    let once: BTreeSet<RealId> =
        stmts.iter().filter(given).filter_map(Stmt::changes).filter(|r| changes.get(r) == Some(&1)).collect();
    let mut out = Vec::with_capacity(stmts.len());
    for stmt in stmts {
        match stmt {
            Stmt::Local(r) if once.contains(r) => {}
            Stmt::Assign(r, a) if once.contains(r) => names.alias(*r, *a),
            stmt => out.extend(names.body(std::slice::from_ref(stmt))?),
        }
    }
    Ok((out, names.read(value)))
}

/// That a statement of a body tells which places are in a row.
struct Membership {
    /// What is found before.
    before: Vec<Stmt>,
    row: Row,
    test: Test,
}

/// A row of places.
enum Row {
    /// One that is searched, and the node that the search finds.
    Searched { node: IndexId, segment: Segment, nodes: ArrayId },
    /// Of the transposed view of a map, the sources of a target.
    Sources { map: RelationId, target: Affine },
}

/// What says whether a place is in the row.
enum Test {
    /// The node, -1 where it is missing.
    Node(IndexId),
    /// What the map leads to, which is the other one in the row alone.
    Target(IndexId, Affine),
}

impl Membership {
    /// What the statement at a place of the body tells.
    fn of(
        arrays: &Arena<ArrayId, Array>,
        signature: &Signature,
        at: IndexId,
        body: &[Stmt],
        k: usize,
    ) -> Result<Option<Membership>> {
        let own = defined(body);
        let is_foreign = |a: &Affine| !a.mentions(at) && !own.iter().any(|i| a.mentions(*i));
        match &body[k] {
            Stmt::Find { index, segment, key: Some((nodes, key)), .. } if key.as_index() == Some(at) => {
                // The row itself may be that of a node which is searched.
                let mut before: Vec<Stmt> = Vec::new();
                let mut row = &segment.at;
                let searched = |row: &Affine| body[..k].iter().find(|stmt| stmt.defines().any(|i| row.mentions(i)));
                while let Some(found) = searched(row) {
                    let Stmt::Find { segment, key, .. } = found else { return Ok(None) };
                    if !key.as_ref().is_none_or(|(_, key)| is_foreign(key)) {
                        return Ok(None);
                    }
                    before.insert(0, found.clone());
                    row = &segment.at;
                }
                let row =
                    is_foreign(row).then(|| Row::Searched { node: *index, segment: segment.clone(), nodes: *nodes });
                Ok(row.map(|row| Membership { before, row, test: Test::Node(*index) }))
            }
            Stmt::Let { index, array, at: source, .. } if source.as_index() == Some(at) => {
                let map = arrays.get(*array).filter(|array| {
                    let is_map = signature.is_map(RelationRef::Input(array.relation));
                    is_map && array.axes == [0, 1] && array.part == Part::Nodes(1)
                });
                let Some(map) = map.map(|array| array.relation) else { return Ok(None) };
                let mut asked = Vec::new();
                body.iter().for_each(|stmt| stmt.visit(&mut |stmt| asked.extend(difference(stmt, *index).cloned())));
                for a in asked {
                    let target = Affine::index(*index).sub(&a)?;
                    let target = if target.mentions(*index) { a.add(&(*index).into())? } else { target };
                    if is_foreign(&target) {
                        let test = Test::Target(*index, target.clone());
                        return Ok(Some(Membership { before: Vec::new(), row: Row::Sources { map, target }, test }));
                    }
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// The body without what tells it.
    fn rest(&self, body: &[Stmt], k: usize) -> Vec<Stmt> {
        let told = body.iter().enumerate().filter(|(at, stmt)| *at != k && !self.before.contains(stmt));
        told.map(|(_, stmt)| stmt.clone()).collect()
    }
}

/// What a test asks to be zero or not, if it mentions an index.
fn difference(stmt: &Stmt, index: IndexId) -> Option<&Affine> {
    match stmt {
        Stmt::If { cond: Cond::Zero(a) | Cond::NonZero(a), .. } => Some(a).filter(|a| a.mentions(index)),
        _ => None,
    }
}

impl Row {
    /// The loop index over the row, the row and the array of its places.
    fn bind(self, arrays: &mut Arena<ArrayId, Array>, names: &mut Fresh) -> (IndexId, Segment, ArrayId) {
        match self {
            Row::Searched { node, segment, nodes } => (node, segment, nodes),
            Row::Sources { map, target } => {
                let mut view = |part| arrays.find_or_push(Array { relation: map, axes: vec![1, 0], part });
                let (pointers, nodes) = (view(Part::Rows), view(Part::Nodes(1)));
                (names.fresh_index(), Segment { pointers, at: target }, nodes)
            }
        }
    }
}

impl Test {
    fn index(&self) -> IndexId {
        match self {
            Test::Node(i) | Test::Target(i, _) => *i,
        }
    }

    /// A body where it is known whether a place is in the row. Loops in it are left alone.
    fn decided(&self, body: &[Stmt], is_found: bool) -> Checked<Vec<Stmt>> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            match stmt {
                Stmt::If { cond, body } => {
                    let body = self.decided(body, is_found)?;
                    match self.holds(cond, is_found)? {
                        Some(true) => out.extend(body),
                        Some(false) => {}
                        None => out.push(Stmt::If { cond: cond.clone(), body }),
                    }
                }
                stmt => out.push(stmt.clone()),
            }
        }
        Ok(out)
    }

    /// Whether a condition holds, as far as that is known.
    fn holds(&self, cond: &Cond, is_found: bool) -> Checked<Option<bool>> {
        Ok(match (cond, self) {
            (Cond::All(conds), _) => {
                let known = conds.iter().map(|cond| self.holds(cond, is_found)).collect::<Checked<Vec<_>>>()?;
                let all = known.iter().all(|known| *known == Some(true)).then_some(true);
                if known.contains(&Some(false)) { Some(false) } else { all }
            }
            (Cond::NonNegative(a), Test::Node(node)) => match a.as_index() {
                Some(i) if i == *node => Some(is_found),
                _ if *a == Affine::index(*node).scale(-1)?.add_constant(-1)? => Some(!is_found),
                _ => None,
            },
            (Cond::Zero(a) | Cond::NonZero(a), Test::Target(i, target)) => {
                let difference = Affine::index(*i).sub(target)?;
                let is_asked = *a == difference || *a == difference.scale(-1)?;
                is_asked.then_some(is_found == matches!(cond, Cond::Zero(_)))
            }
            _ => None,
        })
    }
}

//! Where values are, and statements that are there.

use std::collections::BTreeMap;

use super::PASS;
use crate::base::{Arena, Interner, RelationId};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Size};
use crate::loops::{
    Array, ArrayId, BufferId, Domain, Fresh, Part, Place, Program, Real, RealId, Search, Segment, Stmt,
};
use crate::schedule::machine::{LANES_OF_ELEMENTS, SHORT};
use crate::ty::Signature;

/// The axes of a value.
pub(super) struct Shape {
    /// The relation whose entries are the first axis.
    pub entries: Option<RelationId>,
    pub dims: Vec<Size>,
}

/// Where a value is.
#[derive(Clone, PartialEq)]
pub(super) struct Home {
    pub buffer: BufferId,
    /// The row of the buffer, where it is not all of it.
    pub row: Option<Affine>,
}

impl Home {
    /// A row of a path.
    pub fn at(&self, row: Affine) -> Home {
        Home { buffer: self.buffer, row: Some(row) }
    }

    pub fn place(&self, at: &[Affine]) -> Place {
        Place { buffer: self.buffer, at: self.row.iter().chain(at).cloned().collect() }
    }
}

/// Where the buffers and arrays of a leaf are.
pub(super) struct Placing {
    pub homes: BTreeMap<BufferId, Home>,
    pub arrays: Arena<ArrayId, ArrayId>,
}

impl Placing {
    pub fn home(&self, b: BufferId) -> Result<&Home> {
        self.homes.get(&b).ok_or_else(|| Error::bug(PASS, format!("{b} is nowhere")))
    }

    fn array(&self, s: &mut ArrayId) -> Result<()> {
        *s = *self.arrays.get(*s).ok_or_else(|| Error::bug(PASS, format!("there is no array {s}")))?;
        Ok(())
    }

    /// Has statements load and store where values are.
    pub fn place(&self, body: &mut [Stmt]) -> Result<()> {
        for stmt in body {
            match stmt {
                Stmt::For { domain, body, .. } => {
                    let mut whole = domain;
                    while let Domain::Part { whole: inner, .. } = whole {
                        whole = inner;
                    }
                    if let Domain::Segment(segment) = whole {
                        self.array(&mut segment.pointers)?;
                    }
                    self.place(body)?;
                }
                Stmt::If { body, .. } | Stmt::Extremum { body, .. } => self.place(body)?,
                Stmt::Let { array, .. } => self.array(array)?,
                Stmt::Find { segment, key, how, .. } => {
                    self.array(&mut segment.pointers)?;
                    if let Some((nodes, _)) = key {
                        self.array(nodes)?;
                    }
                    if let Search::Bound(found, _) = how {
                        self.array(found)?;
                    }
                }
                Stmt::Define(_, Real::Load(place)) | Stmt::Store(place, _) | Stmt::Length { place, .. } => {
                    *place = self.home(place.buffer)?.place(&place.at);
                }
                Stmt::Fill(buffer) => *buffer = self.home(*buffer)?.buffer,
                Stmt::End(_)
                | Stmt::Define(..)
                | Stmt::Local(_)
                | Stmt::Assign(..)
                | Stmt::Accumulate(..)
                | Stmt::MulAdd(..)
                | Stmt::Extend(..) => {}
                Stmt::Call { .. } => return Err(Error::bug(PASS, "a leaf that calls a function from outside")),
                Stmt::Tuple(..) => return Err(Error::bug(PASS, "a leaf that finds out a pattern")),
            }
        }
        Ok(())
    }
}

/// Statements of a nest as part of a loop: nothing is parallel, and zeros are stored by loops. They have their new names already, the buffers and
/// arrays those of the leaf.
pub(super) fn on_one_thread(body: Vec<Stmt>, leaf: &mut Program, names: &mut Fresh) -> Result<Vec<Stmt>> {
    let Program { signature, buffers, arrays, .. } = leaf;
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        match stmt {
            Stmt::Fill(b) => {
                let buffer = buffers.get(b).ok_or_else(|| Error::bug(PASS, format!("there is no buffer {b}")))?;
                let shape = Shape { entries: buffer.entries, dims: buffer.dims.clone() };
                let zero = names.fresh_real();
                let mut store = |at: &[Affine], _: &mut Fresh| {
                    let place = Place { buffer: b, at: at.to_vec() };
                    vec![Stmt::Define(zero, Real::Literal(0.0)), Stmt::Store(place, zero)]
                };
                let mut array = |wanted: Array| arrays.find_or_push(wanted);
                out.extend(each(signature, &shape, names, &mut array, &mut store)?);
            }
            mut other => {
                one_by_one(&mut other);
                out.push(other);
            }
        }
    }
    Ok(out)
}

fn one_by_one(stmt: &mut Stmt) {
    match stmt {
        Stmt::For { parallel, body, .. } => {
            *parallel = false;
            body.iter_mut().for_each(one_by_one);
        }
        Stmt::If { body, .. } | Stmt::Extremum { body, .. } => body.iter_mut().for_each(one_by_one),
        _ => {}
    }
}

/// Copies a value.
pub(super) fn copy(
    signature: &Signature,
    shape: &Shape,
    from: &Home,
    to: &Home,
    names: &mut Fresh,
    arrays: &mut Interner<ArrayId, Array>,
) -> Result<Vec<Stmt>> {
    let mut store = |at: &[Affine], names: &mut Fresh| {
        let number: RealId = names.fresh_real();
        vec![Stmt::Define(number, Real::Load(from.place(at))), Stmt::Store(to.place(at), number)]
    };
    Ok(each(signature, shape, names, &mut |array| arrays.intern(array), &mut store)?)
}

/// Makes a value zero, by loops.
pub(super) fn zeros(
    signature: &Signature,
    shape: &Shape,
    to: &Home,
    names: &mut Fresh,
    arrays: &mut Interner<ArrayId, Array>,
) -> Result<Vec<Stmt>> {
    let mut store = |at: &[Affine], names: &mut Fresh| {
        let zero = names.fresh_real();
        vec![Stmt::Define(zero, Real::Literal(0.0)), Stmt::Store(to.place(at), zero)]
    };
    Ok(each(signature, shape, names, &mut |array| arrays.intern(array), &mut store)?)
}

/// Loops over all places of a value.
fn each(
    signature: &Signature,
    shape: &Shape,
    names: &mut Fresh,
    array: &mut dyn FnMut(Array) -> ArrayId,
    body: &mut dyn FnMut(&[Affine], &mut Fresh) -> Vec<Stmt>,
) -> Checked<Vec<Stmt>> {
    let (mut loops, mut at) = (Vec::new(), Vec::new());
    if let Some(relation) = shape.entries {
        let axes = signature.stored_order(relation);
        let mut node = Affine::constant(0);
        for level in 0..axes.len() {
            let part = level.checked_sub(1).map_or(Part::Roots, |above| Part::Children(above as u8));
            let pointers = array(Array { relation, axes: axes.clone(), part });
            let index = names.fresh_index();
            loops.push((index, Domain::Segment(Segment { pointers, at: node })));
            node = index.into();
        }
        at.push(node);
    }
    for n in &shape.dims {
        let index = names.fresh_index();
        loops.push((index, Domain::whole(&names.affine(n)?)?));
        at.push(index.into());
    }
    let is_long = shape.dims.last().is_some_and(|n| n.as_constant().is_none_or(|n| n >= SHORT));
    let mut lanes = if is_long { LANES_OF_ELEMENTS } else { 1 };
    let mut body = body(&at, names);
    for (index, domain) in loops.into_iter().rev() {
        body =
            vec![Stmt::For { index, domain, lanes: std::mem::replace(&mut lanes, 1), jam: 1, parallel: false, body }];
    }
    Ok(body)
}

//! The nests of a group as one, and those that add up its parts.

use std::collections::{BTreeMap, BTreeSet};

use super::uses::{Around, Uses};
use super::{Group, PARTS, Rows, STEP_ROWS};
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Affine, Checked};
use crate::loops::{
    Buffer, BufferId, Cond, Decision, Domain, Fresh, Nest, Place, Program, Real, RealId, Stmt, name_of, reads,
};
use crate::schedule::partial_sums::{combine, parts_loop};
use crate::schedule::privatise::places_mut;

/// Puts one nest for those of a group; gives the number of the first one behind it.
pub(super) fn write(program: &mut Program, from: usize, group: Group) -> Result<usize> {
    let Group { rows, members, before, after, known, private } = group;
    let mut names = Fresh::default();
    let [part, block] = [(); 2].map(|()| names.fresh_index());
    let mut writer = Writer { rows: &rows, names, part, block, buffers: &mut program.buffers, sums: BTreeMap::new() };
    let mut nest = Nest { buffers: Vec::new(), decisions: Vec::new(), body: Vec::new() };
    let [mut first, mut inside, mut last] = [(); 3].map(|()| Vec::new());
    for (at, uses) in &members {
        let Some(member) = program.nests.get(*at) else { continue };
        let [own_first, own_inside, own_last] = writer.member(member, uses)?;
        first.extend(own_first);
        inside.extend(own_inside);
        last.extend(own_last);
        nest.buffers.extend(member.buffers.iter().filter(|b| !uses.sums.contains(b)));
        nest.decisions.extend(member.decisions.iter().cloned());
    }
    let sums = std::mem::take(&mut writer.sums);
    nest.buffers.extend(sums.values());
    nest.body = sums.values().map(|sum| Stmt::Fill(*sum)).collect();
    let blocks = Domain::Part { whole: Box::new(rows.blocks()), part: part.into(), parts: PARTS, grain: 1 };
    first.push(Stmt::one_by_one(block, blocks, inside));
    first.extend(last);
    let axes = private.iter().map(|b| (*b, known.axes.get(b).and_then(|axes| axes.first()).copied())).collect();
    keep(&mut first, &axes, part, &Affine::index(block).scale(-STEP_ROWS)?)?;
    for (b, axis) in &axes {
        let dims = &mut program.buffers[*b].dims;
        if let Some(extent) = axis.and_then(|axis| dims.get_mut(axis)) {
            *extent = Affine::constant(STEP_ROWS);
        }
        dims.insert(0, Affine::constant(i64::from(PARTS)));
    }
    nest.body.push(parts_loop(part, true, first)?);
    nest.decisions
        .push(Decision::RowsOfNests { rows: STEP_ROWS, nests: i64::try_from(members.len()).unwrap_or(i64::MAX) });
    let added = sums.iter().map(|(sum, parts)| added(&program.buffers, *sum, *parts)).collect::<Checked<Vec<_>>>()?;
    let nests = std::mem::take(&mut program.nests);
    let at = |numbers: &[usize]| numbers.iter().filter_map(|at| nests.get(*at).cloned()).collect::<Vec<_>>();
    program.nests = nests.iter().take(from).cloned().chain(at(&before)).chain([nest]).chain(added).collect();
    let behind = program.nests.len();
    program.nests.extend(at(&after));
    Ok(behind)
}

struct Writer<'a> {
    rows: &'a Rows,
    names: Fresh,
    /// The index of the parts, and that of the blocks.
    part: IndexId,
    block: IndexId,
    buffers: &'a mut Arena<BufferId, Buffer>,
    /// Where each part adds up what is a sum.
    sums: BTreeMap<BufferId, BufferId>,
}

impl Writer<'_> {
    /// What a nest does in a part before its blocks, in each block, and behind them.
    fn member(&mut self, nest: &Nest, uses: &Uses) -> Checked<[Vec<Stmt>; 3]> {
        for sum in &uses.sums {
            let name = format!("{}_sums", name_of(self.buffers, *sum));
            let mut dims = self.buffers.get(*sum).map_or(Vec::new(), |buffer| buffer.dims.clone());
            dims.insert(0, Affine::constant(i64::from(PARTS)));
            self.sums.insert(*sum, self.buffers.push(Buffer::workspace(name, None, dims)));
        }
        self.names.again();
        let (mut in_parts, mut body) = (false, Vec::new());
        for stmt in &nest.body {
            let (around, own) = Around::of(self.rows, stmt).unwrap_or((Around::Nest, std::slice::from_ref(stmt)));
            match around {
                Around::Nest => {}
                Around::Block(index) => self.names.fix(index, self.block.into()),
                Around::Part(index) => self.names.fix(index, self.part.into()),
            }
            in_parts |= matches!(around, Around::Part(_));
            body.extend(self.names.body(own)?);
        }
        let sums: BTreeSet<RealId> = uses.sums_in.iter().map(|r| self.names.read(*r)).collect();
        let (reals, indices) = &uses.of_blocks;
        let reals: BTreeSet<RealId> = reals.iter().map(|r| self.names.read(*r)).collect();
        let indices = indices.iter().map(|i| self.names.affine(&Affine::index(*i)));
        let indices: BTreeSet<IndexId> =
            indices.collect::<Checked<Vec<_>>>()?.iter().filter_map(Affine::as_index).collect();
        let is_of_block = |stmt: &Stmt| match stmt {
            Stmt::Define(r, _) | Stmt::Local(r) => reals.contains(r),
            stmt => stmt.defines().any(|i| indices.contains(&i)) || stmt.changes().is_some_and(|r| reals.contains(&r)),
        };
        let around = if in_parts { Around::Part(self.part) } else { Around::Nest };
        let [mut first, mut inside, mut last] = [(); 3].map(|()| Vec::new());
        for stmt in body {
            let is_inside = self.is_over_rows(&stmt, around)? || is_of_block(&stmt) || matches!(stmt, Stmt::Fill(_));
            let mut of_sums = stmt.store().is_some_and(|place| uses.of_parts.contains(&place.buffer));
            of_sums |= reads([&stmt], |r| sums.contains(&r));
            let mut out = Vec::new();
            self.stmt(stmt, around, uses, &sums, &mut out)?;
            match (in_parts, is_inside, of_sums) {
                (true, false, false) => first.extend(out),
                (true, false, true) => last.extend(out),
                _ => inside.extend(out),
            }
        }
        Ok([first, inside, last])
    }

    fn is_over_rows(&self, stmt: &Stmt, around: Around) -> Checked<bool> {
        let is_of = |around: Around| around.is_over_rows(self.rows, stmt);
        Ok(is_of(around)? || around == Around::Nest && is_of(Around::Block(self.block))?)
    }

    /// A statement for the rows of a block.
    // Loops and tests nest to a bounded depth.
    fn stmt(
        &mut self,
        stmt: Stmt,
        around: Around,
        uses: &Uses,
        sums: &BTreeSet<RealId>,
        out: &mut Vec<Stmt>,
    ) -> Checked<()> {
        let is_row = self.is_over_rows(&stmt, around)?;
        let is_product = |a: RealId, b: RealId| sums.contains(&a) || sums.contains(&b);
        match stmt {
            Stmt::For { index, lanes, jam, body, .. } if is_row => {
                let domain = self.rows.of_block(&Affine::index(self.block))?;
                out.push(Stmt::For { index, domain, lanes, jam, parallel: false, body });
            }
            Stmt::For { index, domain, lanes, body, .. } => {
                let body = self.body(body, around, uses, sums)?;
                out.push(Stmt::For { index, domain, lanes, jam: 1, parallel: false, body });
            }
            Stmt::If { cond, body } => {
                let body = self.body(body, around, uses, sums)?;
                out.push(Stmt::If { cond, body });
            }
            Stmt::Fill(b) => out.extend(self.zeros(b, uses)?),
            Stmt::Store(place, x) => match self.sums.get(&place.buffer) {
                // What is not a sum is stored over.
                Some(_) if !sums.contains(&x) => {}
                Some(parts) => {
                    let at = [Affine::index(self.part)].into_iter().chain(place.at).collect();
                    let place = Place { buffer: *parts, at };
                    let [before, after] = [(); 2].map(|()| self.names.fresh_real());
                    out.extend([
                        Stmt::Define(before, Real::Load(place.clone())),
                        Stmt::Define(after, Real::Add(before, x)),
                        Stmt::Store(place, after),
                    ]);
                }
                None => out.push(Stmt::Store(place, x)),
            },
            Stmt::Define(r, Real::Add(a, b)) if sums.contains(&a) != sums.contains(&b) => {
                let (sum, alike) = if sums.contains(&a) { (a, b) } else { (b, a) };
                let once = self.once(alike, out);
                out.push(Stmt::Define(r, Real::Add(sum, once)));
            }
            Stmt::Define(r, Real::MulAdd(a, b, c)) if is_product(a, b) && !sums.contains(&c) => {
                let once = self.once(c, out);
                out.push(Stmt::Define(r, Real::MulAdd(a, b, once)));
            }
            Stmt::Define(r, Real::MulAdd(a, b, c)) if !is_product(a, b) && sums.contains(&c) => {
                let once = self.product_once(a, b, out);
                out.push(Stmt::Define(r, Real::Add(once, c)));
            }
            Stmt::MulAdd(r, a, b) if !is_product(a, b) && sums.contains(&r) => {
                let once = self.product_once(a, b, out);
                out.push(Stmt::Accumulate(r, once));
            }
            Stmt::Assign(r, x) if sums.contains(&r) && !sums.contains(&x) => {
                let once = self.once(x, out);
                out.push(Stmt::Assign(r, once));
            }
            Stmt::Accumulate(r, x) if sums.contains(&r) && !sums.contains(&x) => {
                let once = self.once(x, out);
                out.push(Stmt::Accumulate(r, once));
            }
            other => out.push(other),
        }
        Ok(())
    }

    fn body(&mut self, body: Vec<Stmt>, around: Around, uses: &Uses, sums: &BTreeSet<RealId>) -> Checked<Vec<Stmt>> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            self.stmt(stmt, around, uses, sums, &mut out)?;
        }
        Ok(out)
    }

    /// A number in the first block, and 0 in others.
    fn once(&mut self, x: RealId, out: &mut Vec<Stmt>) -> RealId {
        let once = self.names.fresh_real();
        let body = vec![Stmt::Assign(once, x)];
        out.extend([Stmt::Local(once), Stmt::If { cond: Cond::Zero(Affine::index(self.block)), body }]);
        once
    }

    fn product_once(&mut self, a: RealId, b: RealId, out: &mut Vec<Stmt>) -> RealId {
        let product = self.names.fresh_real();
        out.push(Stmt::Define(product, Real::Mul(a, b)));
        self.once(product, out)
    }

    /// Zeros in the rows of a block; nothing for sums, which each part begins with 0.
    fn zeros(&mut self, b: BufferId, uses: &Uses) -> Checked<Option<Stmt>> {
        let (Some(axis), Some(buffer)) = (uses.axes.get(&b).and_then(|axes| axes.first()), self.buffers.get(b)) else {
            return Ok(None);
        };
        let dims = buffer.dims.clone();
        let indices: Vec<IndexId> = dims.iter().map(|_| self.names.fresh_index()).collect();
        let zero = self.names.fresh_real();
        let place = Place { buffer: b, at: indices.iter().map(|i| Affine::index(*i)).collect() };
        let mut body = vec![Stmt::Define(zero, Real::Literal(0.0)), Stmt::Store(place, zero)];
        for (k, (n, index)) in dims.iter().zip(&indices).enumerate().rev() {
            let domain = if k == *axis { self.rows.of_block(&Affine::index(self.block))? } else { Domain::whole(n)? };
            body = vec![Stmt::one_by_one(*index, domain, body)];
        }
        Ok(body.pop())
    }
}

/// Has each part keep what is its own: of rows, on an axis, those of a block.
fn keep(body: &mut [Stmt], own: &BTreeMap<BufferId, Option<usize>>, part: IndexId, before: &Affine) -> Checked<()> {
    let mut done = Ok(());
    places_mut(body, &mut |place| {
        let Some(axis) = own.get(&place.buffer) else { return };
        if let Some(at) = axis.and_then(|axis| place.at.get_mut(axis)) {
            match at.add(before) {
                Ok(moved) => *at = moved,
                Err(error) => done = Err(error),
            }
        }
        place.at.insert(0, part.into());
    });
    done
}

/// A sum is that of the parts, in order.
fn added(buffers: &Arena<BufferId, Buffer>, sum: BufferId, parts: BufferId) -> Checked<Nest> {
    let dims = buffers.get(sum).map_or(&[][..], |buffer| &buffer.dims);
    let mut names = Fresh::default();
    let part = names.fresh_index();
    let at: Vec<IndexId> = dims.iter().map(|_| names.fresh_index()).collect();
    let place: Vec<Affine> = at.iter().map(|i| Affine::index(*i)).collect();
    let total = names.fresh_real();
    let add = combine(total, parts, &place, part, names.fresh_real())?;
    let mut body = vec![Stmt::Local(total), add, Stmt::Store(Place { buffer: sum, at: place }, total)];
    for (n, index) in dims.iter().zip(&at).rev() {
        body = vec![Stmt::one_by_one(*index, Domain::whole(n)?, body)];
    }
    Ok(Nest { buffers: vec![sum], decisions: vec![Decision::PartsAdded { parts: PARTS }], body })
}

//! The terms of a sum, each at its place.
//!
//! A loop over terms is gone through statement by statement, under new names. What depends on the place waits until something tells it; then it is
//! made for that place, and the term is added there.

use std::collections::{BTreeMap, BTreeSet};

use super::depends::{
    asks_any, asks_numbers, cond_mentions, cond_varies, mentions_any, needed, reads_any, unit, varies,
};
use super::terms::{terms, under};
use super::{Before, Pass, Places};
use crate::base::{IndexId, RelationId};
use crate::error::Result;
use crate::index::{Affine, Checked, Size, Var};
use crate::loops::{
    Array, ArrayId, Buffer, BufferId, Cond, Domain, Part, Place, Real, RealId, Segment, Stmt, changed_outside,
    mentioned, stores,
};
use crate::scalar::{Comparison, Function, Op};

/// What tells the place of a term: the place is a coordinate and a constant.
struct Told {
    /// In the new names.
    coordinate: Affine,
    /// How many values it may have.
    extent: Size,
    shift: Affine,
    /// What holds of the coordinate where it has one of these, in the new names.
    asked: Option<Cond>,
}

/// A matrix that is a relation, as it is gone through.
struct View {
    relation: RelationId,
    axes: [usize; 2],
}

/// What adds the terms of a sum to workspaces.
pub(super) struct Rows<'p, 'a> {
    pub pass: &'p mut Pass<'a>,
    pub places: &'p Places<'p>,
    pub before: &'p Before,
    /// The registers that the sum adds to.
    pub sums: &'p [RealId],
    /// Numbers that are known, and coordinates.
    pub numbers: BTreeMap<RealId, Real>,
    pub coordinates: BTreeMap<IndexId, ArrayId>,
    /// The indices of places and of ranks.
    pub free: BTreeSet<IndexId>,
    /// The numbers that depend on these, in order, and which those are.
    pub dependent: Vec<Stmt>,
    pub varying: BTreeSet<RealId>,
    /// The workspaces, how long their rows are, and what is added to a coordinate to be a place.
    pub made: Option<(Vec<BufferId>, Size, Affine)>,
}

impl Rows<'_, '_> {
    /// Statements under new names, of terms whose place is not known yet, where it becomes known before anything is added.
    // Loops and tests nest to a bounded depth.
    pub fn stmts(&mut self, stmts: &[Stmt], out: &mut Vec<Stmt>) -> Result<bool> {
        for (at, stmt) in stmts.iter().enumerate() {
            match stmt {
                Stmt::Define(r, real) => {
                    self.numbers.insert(*r, real.clone());
                    match varies(stmt, &self.free, &mut self.varying) {
                        true => self.dependent.push(stmt.clone()),
                        false => self.again(stmt, out)?,
                    }
                }
                Stmt::Local(_) => self.again(stmt, out)?,
                Stmt::Let { index, array, at, .. } if !mentions_any(at, &self.free) => {
                    self.coordinates.insert(*index, *array);
                    self.again(stmt, out)?;
                }
                Stmt::Find { .. } => return self.found(&stmts[at..], out),
                Stmt::If { cond, body } if !cond_varies(cond, &self.free, &self.varying) => {
                    let Some(Stmt::If { cond, .. }) = self.head(&Stmt::If { cond: cond.clone(), body: Vec::new() })?
                    else {
                        continue;
                    };
                    let mut inside = Vec::new();
                    if !self.stmts(body, &mut inside)? {
                        return Ok(false);
                    }
                    out.push(Stmt::If { cond, body: inside });
                }
                Stmt::If { cond, body } => {
                    let added = match cond {
                        Cond::Zero(a) => match self.equation(a)? {
                            Some(told) => self.add(&told, None, body, out)?,
                            None => false,
                        },
                        Cond::Support(r) => match self.number(*r, out)? {
                            Some(told) => self.add(&told, Some(cond), body, out)?,
                            None => false,
                        },
                        _ => false,
                    };
                    if !added {
                        return Ok(false);
                    }
                }
                Stmt::Accumulate(..) | Stmt::MulAdd(..) => {
                    let Some((selector, told)) = self.selected(stmt, out)? else { return Ok(false) };
                    if !self.add(&told, Some(&Cond::Support(selector)), std::slice::from_ref(stmt), out)? {
                        return Ok(false);
                    }
                }
                Stmt::For { index, domain, lanes: 1, jam: 1, parallel: false, body } => {
                    let mut mentions = false;
                    domain.visit_affine(&mut |a| mentions |= mentions_any(a, &self.free));
                    if mentions {
                        return self.swapped(stmt, out);
                    }
                    let head = self.head(&Stmt::one_by_one(*index, domain.clone(), Vec::new()))?;
                    let Some(Stmt::For { index, domain, .. }) = head else { return Ok(false) };
                    let mut inside = Vec::new();
                    if !self.stmts(body, &mut inside)? {
                        return Ok(false);
                    }
                    out.push(Stmt::one_by_one(index, domain, inside));
                }
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// A statement under new names.
    fn again(&mut self, stmt: &Stmt, out: &mut Vec<Stmt>) -> Result<()> {
        out.extend(self.pass.names.body(std::slice::from_ref(stmt))?);
        Ok(())
    }

    /// The same of a loop or a test without a body.
    fn head(&mut self, stmt: &Stmt) -> Result<Option<Stmt>> {
        Ok(self.pass.names.body(std::slice::from_ref(stmt))?.pop())
    }

    /// `a = 0` says that the place is the target of a map and a constant.
    fn equation(&self, a: &Affine) -> Result<Option<Told>> {
        let own = Affine::index(self.places.index);
        let value = match a.coefficient(&Var::Index(self.places.index)) {
            1 => own.sub(a)?,
            -1 => own.add(a)?,
            _ => return Ok(None),
        };
        let Some((t, shift)) = unit(&value)? else { return Ok(None) };
        let Some(extent) = self.coordinates.get(&t).and_then(|array| self.pass.nodes(*array)).cloned() else {
            return Ok(None);
        };
        Ok(Some(Told { coordinate: self.pass.names.affine(&t.into())?, extent, shift, asked: None }))
    }

    /// A register that is not zero where a number is the place and a constant.
    fn number(&mut self, r: RealId, out: &mut Vec<Stmt>) -> Result<Option<Told>> {
        let equal = Function::from(Op::Compare(Comparison::Equal));
        let Some(Real::Apply(function, sides)) = self.numbers.get(&r) else { return Ok(None) };
        let ([a, b], true) = (sides.as_slice(), *function == equal) else { return Ok(None) };
        let (place, told) = match (self.numbers.get(a), self.numbers.get(b)) {
            (Some(Real::Load(place)), Some(Real::Index(told))) => (place, told),
            (Some(Real::Index(told)), Some(Real::Load(place))) => (place, told),
            _ => return Ok(None),
        };
        let j = self.places.index;
        let Some((i, shift)) = unit(told)? else { return Ok(None) };
        if i != j || place.at.iter().any(|a| mentions_any(a, &self.free)) {
            return Ok(None);
        }
        let (Some(extent), Some(shift_by)) = (self.places.extent(), shift.as_constant()) else { return Ok(None) };
        let extent = extent.add_constant(shift_by.max(0))?;
        let at = place.at.iter().map(|a| self.pass.names.affine(a)).collect::<Checked<_>>()?;
        let index = self.pass.names.fresh_index();
        let place = Place { buffer: place.buffer, at };
        out.push(Stmt::Length { index, place, most: extent.clone() });
        let below = extent.sub(&index.into())?.add_constant(-1)?;
        let (coordinate, shift) = (index.into(), shift.scale(-1)?);
        Ok(Some(Told { coordinate, extent, shift, asked: Some(Cond::NonNegative(below)) }))
    }

    /// The number that selects what is added, and tells its place.
    fn selected(&mut self, stmt: &Stmt, out: &mut Vec<Stmt>) -> Result<Option<(RealId, Told)>> {
        let mut open = Vec::new();
        stmt.visit_reads(&mut |r| open.push(r));
        while let Some(r) = open.pop() {
            if let Some(Real::Select(selector, a)) = self.numbers.get(&r).cloned() {
                if let Some(told) = self.number(selector, out)? {
                    return Ok(Some((selector, told)));
                }
                open.push(a);
            }
        }
        Ok(None)
    }

    /// A search for an entry in a row of a matrix, of which row or entry are told by the place, and what is done where it is there: all of the
    /// entries of the other row, or of this one.
    fn found(&mut self, stmts: &[Stmt], out: &mut Vec<Stmt>) -> Result<bool> {
        let j = self.places.index;
        let [Stmt::Find { index, segment, key: Some((_, key)), .. }, Stmt::If { cond: Cond::NonNegative(a), body }] =
            stmts
        else {
            return Ok(false);
        };
        let Some(view) = self.pass.view(segment).filter(|_| a.as_index() == Some(*index)) else { return Ok(false) };
        let free = &self.free;
        let told = match (mentions_any(&segment.at, free), mentions_any(key, free)) {
            (true, false) => unit(&segment.at)?,
            (false, true) => unit(key)?,
            _ => None,
        };
        let Some((_, shift)) = told.filter(|(i, _)| *i == j) else { return Ok(false) };
        let is_swapped = segment.at.mentions(j);
        let (at, [first, second]) =
            if is_swapped { (key, [view.axes[1], view.axes[0]]) } else { (&segment.at, view.axes) };
        let at = self.pass.names.affine(at)?;
        let through = View { relation: view.relation, axes: [first, second] };
        let (node, coordinate) = (self.pass.names.fresh_index(), self.pass.names.fresh_index());
        let mut inside = vec![self.pass.second(&through, node, coordinate)];
        let body = match is_swapped {
            true => self.entry(*index, &view, &through, node, body, &mut inside)?,
            false => {
                self.pass.names.keep(*index, node);
                Some(body.to_vec())
            }
        };
        let (Some(body), Some(extent)) = (body, self.pass.extent(&through)) else { return Ok(false) };
        let told = Told { coordinate: coordinate.into(), extent, shift: shift.scale(-1)?, asked: None };
        if !self.add(&told, None, &body, &mut inside)? {
            return Ok(false);
        }
        out.push(self.pass.row(&through, node, at, inside));
        Ok(true)
    }

    /// A loop over the row at the place whose entries are looked for in a row elsewhere: the entries of that one, and for each of them those of the
    /// first matrix.
    fn swapped(&mut self, stmt: &Stmt, out: &mut Vec<Stmt>) -> Result<bool> {
        let Stmt::For { index: k, domain: Domain::Segment(own), body, .. } = stmt else { return Ok(false) };
        let [
            Stmt::Let { index: n, array, at, .. },
            Stmt::Find { index: f, segment, key: Some((_, key)), .. },
            Stmt::If { cond: Cond::NonNegative(a), body },
        ] = body.as_slice()
        else {
            return Ok(false);
        };
        let (Some(view), Some(other)) = (self.pass.view(own), self.pass.view(segment)) else { return Ok(false) };
        let is_node = self.pass.arrays.get(*array).is_some_and(|array| array.part == Part::Nodes(1));
        let (Some((j, shift)), Some((sought, by))) = (unit(&own.at)?, unit(key)?) else { return Ok(false) };
        let elsewhere = [j, *k, *n];
        if j != self.places.index
            || !is_node
            || at.as_index() != Some(*k)
            || sought != *n
            || a.as_index() != Some(*f)
            || elsewhere.iter().chain(&self.free).any(|i| segment.at.mentions(*i))
        {
            return Ok(false);
        }
        let names = &mut self.pass.names;
        let at = names.affine(&segment.at)?;
        let [outer, second, node, coordinate] = [(); 4].map(|()| names.fresh_index());
        let row = Affine::index(second).sub(&by)?;
        names.keep(*f, outer);
        names.fix(*n, row.clone());
        let through = View { relation: view.relation, axes: [view.axes[1], view.axes[0]] };
        let mut inside = vec![self.pass.second(&through, node, coordinate)];
        let Some(body) = self.entry(*k, &view, &through, node, body, &mut inside)? else { return Ok(false) };
        let Some(extent) = self.pass.extent(&through) else { return Ok(false) };
        let told = Told { coordinate: coordinate.into(), extent, shift: shift.scale(-1)?, asked: None };
        if !self.add(&told, None, &body, &mut inside)? {
            return Ok(false);
        }
        let inside = vec![self.pass.second(&other, outer, second), self.pass.row(&through, node, row, inside)];
        out.push(self.pass.row(&other, outer, at, inside));
        Ok(true)
    }

    /// Statements in which the node of one view has the entry that the node of the other one has; nothing where they ask for more.
    fn entry(
        &mut self,
        index: IndexId,
        view: &View,
        through: &View,
        node: IndexId,
        body: &[Stmt],
        out: &mut Vec<Stmt>,
    ) -> Result<Option<Vec<Stmt>>> {
        let is_stored = |pass: &Pass<'_>, view: &View| pass.signature.stored_order(view.relation) == view.axes;
        let entry = match is_stored(self.pass, through) {
            true => node,
            false => {
                let entry = self.pass.names.fresh_index();
                let array = self.pass.array(through, Part::Entries);
                out.push(Stmt::Let { index: entry, array, at: node.into(), step: None });
                entry
            }
        };
        if is_stored(self.pass, view) {
            self.pass.names.keep(index, entry);
            return Ok(Some(body.to_vec()));
        }
        let (asks, others): (Vec<&Stmt>, Vec<&Stmt>) = body.iter().partition(|stmt| match stmt {
            Stmt::Let { array, at, .. } => {
                let part = self.pass.arrays.get(*array).map(|array| array.part);
                at.as_index() == Some(index) && part == Some(Part::Entries)
            }
            _ => false,
        });
        for stmt in asks {
            stmt.defines().for_each(|i| self.pass.names.keep(i, entry));
        }
        let body: Vec<Stmt> = others.into_iter().cloned().collect();
        Ok((!mentioned(&body).contains(&index)).then_some(body))
    }

    /// Adds what a body adds for a place that is told, where `also` holds.
    fn add(&mut self, told: &Told, also: Option<&Cond>, body: &[Stmt], out: &mut Vec<Stmt>) -> Result<bool> {
        let j = self.places.index;
        // What else it changes would be changed for other places, too.
        if !changed_outside(body).iter().all(|r| self.sums.contains(r)) || !stores(body).is_empty() {
            return Ok(false);
        }
        let (buffers, extent, shift) = match &self.made {
            Some(made) => made.clone(),
            None => {
                let buffers = self.pass.workspaces(self.places, self.before, self.sums.len(), &told.extent);
                self.made.insert((buffers, told.extent.clone(), told.shift.clone())).clone()
            }
        };
        if extent != told.extent || shift != told.shift {
            return Ok(false);
        }
        let needs = needed(&self.dependent, &[body], &also.into_iter().collect::<Vec<_>>());
        let mut tests = Vec::new();
        if !needs.is_empty() || mentioned(body).contains(&j) {
            let Some(bounds) = self.places.bounds() else { return Ok(false) };
            let own = self.before.tests.iter().filter(|cond| cond_varies(cond, &self.free, &self.varying));
            tests = bounds.into_iter().chain(own.cloned()).collect();
        }
        let needs = needed(&self.dependent, &[body], &tests.iter().chain(also).collect::<Vec<_>>());
        let locals = &self.before.locals;
        if reads_any(&[&needs, body], locals) || tests.iter().chain(also).any(|cond| asks_any(cond, locals)) {
            return Ok(false);
        }
        self.pass.names.fix(j, told.coordinate.add(&told.shift)?);
        let mut ranks = Vec::new();
        for rank in &self.before.ranks {
            let head = Stmt::one_by_one(rank.index, Domain::whole(&rank.extent)?, Vec::new());
            let Some(Stmt::For { index, domain, .. }) = self.head(&head)? else { return Ok(false) };
            ranks.push((index, domain));
        }
        let own: Vec<IndexId> = ranks.iter().map(|(i, _)| *i).collect();
        let mut positive: BTreeSet<IndexId> = own.iter().copied().collect();
        positive.extend(self.places.around.iter().map(|(i, _)| *i));
        told.coordinate.visit(&mut |v| {
            if let Var::Index(i) = v {
                positive.insert(*i);
            }
        });
        let place = |w: &BufferId| self.places.place(*w, told.coordinate.clone(), &own);
        let places: BTreeMap<RealId, Place> = self.sums.iter().copied().zip(buffers.iter().map(place)).collect();
        // What tells places is asked once for all ranks.
        let is_outside = |cond: &Cond| !self.before.ranks.iter().any(|rank| cond_mentions(cond, rank.index));
        let (outside, inside): (Vec<Cond>, Vec<Cond>) =
            tests.into_iter().partition(|cond| !asks_numbers(cond) && is_outside(cond));
        let mut told_once = Vec::new();
        let mut inner = needs;
        if let Some(Cond::Support(selector)) = also
            && !ranks.is_empty()
        {
            told_once = needed(&inner, &[], &[&Cond::Support(*selector)]);
            inner.retain(|stmt| !told_once.contains(stmt));
        }
        let mut first = self.pass.names.body(&told_once)?;
        let mut all = self.pass.names.body(&inner)?;
        let Some(terms) = terms(&mut self.pass.names, body, &places)? else { return Ok(false) };
        let is_first = !told_once.is_empty();
        let beside = inside.into_iter().chain(also.filter(|_| !is_first).cloned()).collect();
        all.extend(under(&mut self.pass.names, beside, (&positive, None), terms)?);
        for (index, domain) in ranks.into_iter().rev() {
            all = vec![Stmt::one_by_one(index, domain, all)];
        }
        if is_first {
            all = under(&mut self.pass.names, also.cloned().into_iter().collect(), (&positive, None), all)?;
        }
        first.extend(all);
        let mut all = under(&mut self.pass.names, outside, (&positive, told.asked.as_ref()), first)?;
        if let Some(asked) = &told.asked {
            all = vec![Stmt::If { cond: asked.clone(), body: all }];
        }
        out.extend(all);
        Ok(true)
    }
}

impl Pass<'_> {
    fn workspaces(&mut self, places: &Places<'_>, before: &Before, count: usize, extent: &Size) -> Vec<BufferId> {
        let around = places.around.iter().map(|(_, n)| n);
        let dims: Vec<Size> =
            around.chain([extent]).chain(before.ranks.iter().map(|rank| &rank.extent)).cloned().collect();
        (0..count).map(|_| self.buffers.push(Buffer::workspace(self.name.clone(), None, dims.clone()))).collect()
    }

    /// The matrix of which a segment is a row.
    fn view(&self, segment: &Segment) -> Option<View> {
        let Array { relation, axes, part: Part::Rows } = self.arrays.get(segment.pointers)? else { return None };
        Some(View { relation: *relation, axes: axes.as_slice().try_into().ok()? })
    }

    /// How long the columns of a matrix are, as it is gone through.
    fn extent(&self, view: &View) -> Option<Size> {
        self.signature.relations.get(view.relation)?.shape.get(view.axes[1]).cloned()
    }

    fn array(&mut self, view: &View, part: Part) -> ArrayId {
        self.arrays.find_or_push(Array { relation: view.relation, axes: view.axes.to_vec(), part })
    }

    /// The second coordinate of a node.
    fn second(&mut self, view: &View, node: IndexId, coordinate: IndexId) -> Stmt {
        let array = self.array(view, Part::Nodes(1));
        Stmt::Let { index: coordinate, array, at: node.into(), step: None }
    }

    /// A loop over a row.
    fn row(&mut self, view: &View, node: IndexId, at: Affine, body: Vec<Stmt>) -> Stmt {
        let pointers = self.array(view, Part::Rows);
        Stmt::one_by_one(node, Domain::Segment(Segment { pointers, at }), body)
    }
}

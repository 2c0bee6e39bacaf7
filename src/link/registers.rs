//! States of single numbers stay in registers while their loop runs.
//!
//! ```text
//! for t                                local r; r := s
//!   x = s                              for t
//!   s = F(x)              ==             x := r
//!                                        r := F(x)
//!                                      s = r                       where somebody reads `s` behind the loop
//!
//! for t                                local r; r := p[0]
//!   x = p[t]                           for t
//!   p[t + 1] = F(x)       ==             x := r
//!                                        y = F(x); p[t + 1] = y
//!                                        r := y
//! ```
//!
//! The next step waits for the number: from memory, where it was just stored, it comes as late as after several operations. This is *scalar
//! replacement* (Callahan, Carr and Kennedy, 1990). The first form is for workspaces that a loop reads and writes at constant places alone; what is
//! stored in each step before it is read needs no place at all. The second one is for paths, of which a step reads one place and writes the next one.
//!
//! **Why it is right.** A register has what the place has, from the same statements in the same order. It is in double precision, as the workspace is,
//! so nothing is rounded in between. Where lanes, parts or functions from outside read a workspace it stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Arena, IndexId};
use crate::index::{Affine, Checked};
use crate::loops::{
    Bound, Buffer, BufferId, BufferKind, Domain, Fresh, Place, Program, Real, RealId, Stmt, loads, predicate, stores,
};
use crate::solver::Facts;
use crate::ty::Precision;

/// How many registers one loop gets at most.
const MOST: usize = 16;

/// Gives loops of all nests such registers.
pub(super) fn promote(program: &mut Program) -> Checked<()> {
    let facts = program.signature.facts();
    let mut mentioned = BTreeMap::new();
    program.nests.iter().for_each(|nest| count(&nest.body, &mut mentioned));
    // What is read when all nests have run.
    let read = program.rounded.iter().map(|rounded| rounded.from).chain(program.limits.iter().map(|limit| limit.steps));
    read.for_each(|buffer| *mentioned.entry(buffer).or_default() += 1);
    let Program { nests, buffers, .. } = program;
    for nest in nests {
        let mut before = BTreeMap::new();
        count(&nest.body, &mut before);
        let mut pass = Pass { buffers, mentioned: &mentioned, facts: &facts, names: Fresh::after(&nest.body) };
        nest.body = pass.body(std::mem::take(&mut nest.body), false)?;
        let mut left = BTreeMap::new();
        count(&nest.body, &mut left);
        nest.buffers.retain(|buffer| left.contains_key(buffer) || !before.contains_key(buffer));
    }
    Ok(())
}

/// How often statements mention buffers.
fn count(body: &[Stmt], mentioned: &mut BTreeMap<BufferId, usize>) {
    for place in loads(body).into_iter().chain(stores(body)) {
        *mentioned.entry(place.buffer).or_default() += 1;
    }
}

fn filled(stmt: &Stmt) -> Option<BufferId> {
    if let Stmt::Fill(buffer) = stmt { Some(*buffer) } else { None }
}

struct Pass<'a> {
    buffers: &'a Arena<BufferId, Buffer>,
    mentioned: &'a BTreeMap<BufferId, usize>,
    facts: &'a Facts,
    names: Fresh,
}

/// Where a loop mentions a buffer.
#[derive(Default)]
struct Uses<'a> {
    loads: Vec<&'a Place>,
    stores: Vec<&'a Place>,
    /// Whether one of them is in a loop or a test inside.
    inside: bool,
    /// Whether one of them is none of a register: in lanes, or of a function.
    other: bool,
}

/// A register for a place.
struct Register {
    r: RealId,
    first: First,
    kind: Kind,
}

/// What a register has before the first step.
enum First {
    /// Nothing that is read: each step begins by writing it, and nobody reads the place elsewhere.
    InStep,
    /// The same, but what the last step has is stored.
    Nothing,
    /// What was stored just before.
    Known(RealId),
    At(Place),
}

enum Kind {
    /// At constant places.
    Constant { place: Place },
    /// What a step loads, where the last one has stored; what it stores, and the register that has that.
    Path { before: Place, after: Place, next: RealId },
}

impl Register {
    /// The register that has what is loaded from a place.
    fn loaded(&self, from: &Place) -> Option<RealId> {
        match &self.kind {
            Kind::Constant { place } => (place == from).then_some(self.r),
            Kind::Path { before, .. } if before == from => Some(self.r),
            Kind::Path { after, next, .. } => (after == from).then_some(*next),
        }
    }

    /// The register that gets what is stored at a place, and what it is of.
    fn stored(&self, to: &Place) -> Option<(RealId, &Kind)> {
        let (place, r) = match &self.kind {
            Kind::Constant { place } => (place, self.r),
            Kind::Path { after, next, .. } => (after, *next),
        };
        (place == to).then_some((r, &self.kind))
    }
}

impl Pass<'_> {
    /// Statements, inside of loops or not.
    // Loops and tests nest to a bounded depth.
    fn body(&mut self, stmts: Vec<Stmt>, inside: bool) -> Checked<Vec<Stmt>> {
        let mut out = Vec::with_capacity(stmts.len());
        for stmt in stmts {
            match stmt {
                Stmt::For { index, domain, lanes: 1, jam: 1, parallel: false, body } => {
                    let registers = self.registers(index, &domain, &body, &out, inside)?;
                    let body = self.body(with(&registers, body), true)?;
                    let mut last = Vec::new();
                    for Register { r, first, kind } in registers {
                        let from = match first {
                            First::InStep => continue,
                            First::Nothing => None,
                            First::Known(known) => Some(known),
                            First::At(place) => {
                                let loaded = self.names.fresh_real();
                                out.push(Stmt::Define(loaded, Real::Load(place)));
                                Some(loaded)
                            }
                        };
                        out.push(Stmt::Local(r));
                        out.extend(from.map(|from| Stmt::Assign(r, from)));
                        if let Kind::Constant { place } = kind {
                            last.push(Stmt::Store(place, r));
                        }
                    }
                    out.push(Stmt::one_by_one(index, domain, body));
                    out.extend(last);
                }
                Stmt::If { cond, body } => out.push(Stmt::If { cond, body: self.body(body, true)? }),
                other => out.push(other),
            }
        }
        Ok(out)
    }

    /// What a loop keeps in registers, behind statements.
    fn registers(
        &mut self,
        index: IndexId,
        domain: &Domain,
        body: &[Stmt],
        before: &[Stmt],
        inside: bool,
    ) -> Checked<Vec<Register>> {
        let mut uses: BTreeMap<BufferId, Uses<'_>> = BTreeMap::new();
        collect(body, true, true, &mut uses);
        let mut found = Vec::new();
        for (buffer, uses) in uses {
            let is_own = self.buffers.get(buffer).is_some_and(|buffer| {
                let is_double = buffer.entries.is_none() && buffer.precision == Precision::Double;
                is_double && buffer.kind == BufferKind::Workspace
            });
            if !is_own || uses.other || uses.stores.is_empty() || uses.loads.is_empty() || found.len() >= MOST {
                continue;
            }
            let all = || uses.loads.iter().chain(&uses.stores);
            if all().all(|place| place.at.iter().all(|a| a.as_constant().is_some())) {
                let places: BTreeSet<Vec<Affine>> = all().map(|place| place.at.clone()).collect();
                let is_elsewhere = self.mentioned.get(&buffer).is_some_and(|count| *count > all().count());
                let count = places.len();
                let mut own = Vec::new();
                for at in places {
                    let place = Place { buffer, at };
                    let first = match is_elsewhere || !is_written_first(body, &place) {
                        true => known(before, &place, inside),
                        false => Some(First::InStep),
                    };
                    let r = self.names.fresh_real();
                    own.extend(first.map(|first| Register { r, first, kind: Kind::Constant { place } }));
                }
                // All of its places, or none.
                if own.len() == count {
                    found.extend(own);
                }
            } else if let Some((from, to)) = path(index, &uses)? {
                let Some(place) = self.first(index, domain, &from)? else { continue };
                let Some(first @ (First::Known(_) | First::At(_))) = known(before, &place, inside) else { continue };
                let kind = Kind::Path { before: from, after: to, next: self.names.fresh_real() };
                found.push(Register { r: self.names.fresh_real(), first, kind });
            }
        }
        Ok(found)
    }

    /// What the first step loads, if it is in bounds even where there is none.
    fn first(&self, index: IndexId, domain: &Domain, before: &Place) -> Checked<Option<Place>> {
        let Domain::Range { lower, .. } = domain else { return Ok(None) };
        let [Bound { numerator, divisor: 1 }] = lower.as_slice() else { return Ok(None) };
        let at = before.at.iter().map(|a| a.substitute(&|i| (i == index).then(|| numerator.clone())));
        let place = Place { buffer: before.buffer, at: at.collect::<Checked<_>>()? };
        let dims = self.buffers.get(before.buffer).map_or(&[][..], |buffer| &buffer.dims);
        Ok(predicate::are_in_range(self.facts, &place.at, dims)?.then_some(place))
    }
}

/// The body of a loop with registers.
fn with(registers: &[Register], body: Vec<Stmt>) -> Vec<Stmt> {
    if registers.is_empty() {
        return body;
    }
    let mut out = Vec::with_capacity(2 * body.len());
    for Register { r, first, kind } in registers {
        match kind {
            Kind::Constant { .. } if matches!(first, First::InStep) => out.push(Stmt::Local(*r)),
            Kind::Constant { .. } => {}
            Kind::Path { next, .. } => out.push(Stmt::Local(*next)),
        }
    }
    replace(registers, body, &mut out);
    for Register { r, kind, .. } in registers {
        if let Kind::Path { next, .. } = kind {
            out.push(Stmt::Assign(*r, *next));
        }
    }
    out
}

/// Statements that read and write registers.
// Loops and tests nest to a bounded depth.
fn replace(registers: &[Register], body: Vec<Stmt>, out: &mut Vec<Stmt>) {
    for mut stmt in body {
        if let Stmt::For { body, .. } | Stmt::If { body, .. } = &mut stmt {
            let mut inside = Vec::with_capacity(body.len());
            replace(registers, std::mem::take(body), &mut inside);
            *body = inside;
        }
        match stmt {
            Stmt::Define(x, Real::Load(place)) => match registers.iter().find_map(|register| register.loaded(&place)) {
                Some(r) => out.extend([Stmt::Local(x), Stmt::Assign(x, r)]),
                None => out.push(Stmt::Define(x, Real::Load(place))),
            },
            Stmt::Store(place, x) => {
                let own = registers.iter().find_map(|register| register.stored(&place));
                // Others read what paths have.
                if !matches!(own, Some((_, Kind::Constant { .. }))) {
                    out.push(Stmt::Store(place, x));
                }
                out.extend(own.map(|(r, _)| Stmt::Assign(r, x)));
            }
            other => out.push(other),
        }
    }
}

/// Where statements mention buffers; `is_own` says that they are those of the loop itself, `is_plain` that there are no lanes around.
// Loops and tests nest to a bounded depth.
fn collect<'a>(body: &'a [Stmt], is_own: bool, is_plain: bool, uses: &mut BTreeMap<BufferId, Uses<'a>>) {
    for stmt in body {
        match stmt {
            Stmt::For { lanes: 1, jam: 1, parallel: false, body, .. } | Stmt::If { body, .. } => {
                collect(body, false, is_plain, uses);
            }
            Stmt::For { body, .. } | Stmt::Extremum { body, .. } => collect(body, false, false, uses),
            _ => {
                let is_number = matches!(stmt, Stmt::Define(..) | Stmt::Store(..)) && is_plain;
                for (place, stores) in stmt.loads().map(|p| (p, false)).chain(stmt.stores().map(|p| (p, true))) {
                    let known = uses.entry(place.buffer).or_default();
                    if stores {
                        known.stores.push(place)
                    } else {
                        known.loads.push(place)
                    }
                    known.inside |= !is_own;
                    known.other |= !is_number;
                }
                if let Some(buffer) = filled(stmt) {
                    uses.entry(buffer).or_default().other = true;
                }
            }
        }
    }
}

/// What a place has behind statements; nothing where it is to be loaded inside of loops, of which each iteration has another number there.
fn known(before: &[Stmt], place: &Place, inside: bool) -> Option<First> {
    let mut changed = BTreeSet::new();
    for stmt in before.iter().rev() {
        if let Stmt::Store(own, r) = stmt
            && own == place
            && !changed.contains(r)
        {
            return Some(First::Known(*r));
        }
        if stores([stmt]).iter().any(|other| other.buffer == place.buffer && !other.is_apart(place)) {
            return (!inside).then(|| First::At(place.clone()));
        }
        stmt.visit(&mut |stmt| changed.extend(stmt.changes()));
    }
    // A buffer is written by one nest, and this is the first that this one does with it.
    (!inside).then_some(First::Nothing)
}

/// Whether each step stores to a place before it loads from there.
fn is_written_first(body: &[Stmt], place: &Place) -> bool {
    for stmt in body {
        if stmt.store() == Some(place) {
            return true;
        }
        if loads([stmt]).contains(&place) {
            return false;
        }
    }
    false
}

/// The place of a path that a step loads, and the next one, where it stores once; it mentions no others.
fn path(index: IndexId, uses: &Uses<'_>) -> Checked<Option<(Place, Place)>> {
    let ([after], false) = (uses.stores.as_slice(), uses.inside) else { return Ok(None) };
    let Some(before) = uses.loads.iter().find(|place| *place != after) else { return Ok(None) };
    if uses.loads.iter().any(|place| place != after && place != before) {
        return Ok(None);
    }
    let next =
        |a: &Affine| a.substitute(&|i| (i == index).then(|| Affine::index(i).add_constant(1)).and_then(Result::ok));
    let moved: Vec<Affine> = before.at.iter().map(next).collect::<Checked<_>>()?;
    Ok((moved == after.at && before.at != after.at).then(|| ((*before).clone(), (*after).clone())))
}

//! Loops that end early, and how many steps they made.
//!
//! ```text
//! steps = 0
//! for t in 0 .. most
//!   the nests of a step, which store changes
//!   steps = t + 1
//!   end where changes = 0
//! ```
//!
//! Steps are counted only where a statement behind the loop mentions their number. A loop that nobody bounds keeps [`MOST_KEPT`] states at most. Where
//! it goes on changing after these, it stores a number of steps beyond the limit, which a call of the kernel reports.

use super::{Linker, Open, PASS};
use crate::base::IndexId;
use crate::error::{Error, Result};
use crate::flow::{self, Early, Scan};
use crate::index::{Affine, Size};
use crate::loops::{Buffer, BufferId, Cond, Place, Real, RealId, StepLimit, Stmt, loads, stores};
use crate::ty::MOST_STEPS;

/// How many steps a loop may make that nobody bounds, where its states are kept.
const MOST_KEPT: u64 = 1 << 16;

impl Linker<'_> {
    /// Behind a step of a loop that ends early: it was made, and is the last one if it has changed nothing.
    pub(super) fn end_of_step(
        &self,
        early: &Early,
        count: Option<&Place>,
        step: IndexId,
        open: &mut Open,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        if let Some(count) = count {
            let made = open.names.fresh_real();
            out.push(Stmt::Define(made, Real::Index(Affine::index(step).add_constant(1)?)));
            out.push(Stmt::Store(count.clone(), made));
        }
        let home = self.home(early.changes)?.clone();
        let is_asked_later = count.is_some_and(|count| self.limit_of(count).is_some());
        if !is_asked_later && let Some(changes) = taken_from_store(out, home.buffer) {
            open.buffers.retain(|b| *b != home.buffer);
            out.push(Stmt::End(changes));
            return Ok(());
        }
        let changes = open.names.fresh_real();
        out.push(Stmt::Define(changes, Real::Load(home.place(&[]))));
        out.push(Stmt::End(changes));
        Ok(())
    }

    /// How many steps a loop may make that nobody bounds, by where it stores how many it made.
    fn limit_of(&self, count: &Place) -> Option<&StepLimit> {
        self.limits.iter().find(|limit| limit.steps == count.buffer)
    }

    /// Behind a loop that nobody bounds: whether it ended because it may make no more steps.
    pub(super) fn wants_more(&self, early: &Early, count: Place, open: &mut Open, out: &mut Vec<Stmt>) -> Result<()> {
        let Some(limit) = self.limit_of(&count) else { return Ok(()) };
        let (changes, more) = (open.names.fresh_real(), open.names.fresh_real());
        out.push(Stmt::Define(changes, Real::Load(self.home(early.changes)?.place(&[]))));
        let most = i64::try_from(limit.most).unwrap_or(i64::MAX);
        let more_than = Stmt::Define(more, Real::Index(Affine::constant(most).add_constant(1)?));
        out.push(Stmt::If { cond: Cond::Support(changes), body: vec![more_than, Stmt::Store(count, more)] });
        Ok(())
    }

    /// Where a loop that ends early says how many steps it made, so far none, if anyone asks.
    pub(super) fn steps_of(
        &mut self,
        scan: &Scan,
        early: &Early,
        open: &mut Open,
        out: &mut Vec<Stmt>,
    ) -> Result<Option<Place>> {
        let size = scan.steps.as_size();
        let size = size.ok_or_else(|| Error::bug(PASS, "a loop that does not say how many steps it made"))?;
        let is_other = |stmt: &&flow::Stmt| !matches!(stmt, flow::Stmt::Scan(other) if std::ptr::eq(other, scan));
        if !self.flow.body.iter().filter(is_other).any(|stmt| stmt.mentions(size)) {
            self.lengths.insert(size, (None, early.most.clone()));
            return Ok(None);
        }
        let name = self.flow.frame.sizes.get(size).cloned().unwrap_or_default();
        let buffer = self.buffers.push(Buffer::workspace(name, None, Vec::new()));
        open.writes(buffer);
        let is_kept = scan.states.iter().any(|state| self.read.contains(&state.path));
        let most = match early.most.as_constant() {
            Some(MOST_STEPS) if is_kept => {
                self.limits.push(StepLimit { steps: buffer, most: MOST_KEPT });
                Size::constant(MOST_KEPT as i64)
            }
            _ => early.most.clone(),
        };
        self.lengths.insert(size, (Some(buffer), most));
        let (place, none) = (Place { buffer, at: Vec::new() }, open.names.fresh_real());
        out.extend([Stmt::Define(none, Real::Literal(0.0)), Stmt::Store(place.clone(), none)]);
        Ok(Some(place))
    }
}

/// The register that statements store to a buffer of one number, once and no more, and nowhere else; the store goes.
fn taken_from_store(body: &mut Vec<Stmt>, buffer: BufferId) -> Option<RealId> {
    let is_in = |places: Vec<&Place>| places.iter().filter(|place| place.buffer == buffer).count();
    let mentions = (is_in(stores(&*body)), is_in(loads(&*body)));
    let at = body.iter().position(|stmt| stmt.store().is_some_and(|place| place.buffer == buffer))?;
    match (body.get(at), mentions) {
        (Some(Stmt::Store(_, r)), (1, 0)) => {
            let r = *r;
            body.remove(at);
            Some(r)
        }
        _ => None,
    }
}

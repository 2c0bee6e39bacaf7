//! Loops in lanes: full groups of lanes, and what is left over behind the last of them.
//!
//! | lanes | in an innermost loop | around loops, whose text is long |
//! |---|---|---|
//! | independent | groups of half as many, of a quarter, .., then one with lanes that are not in use | full groups of half as many, .., then groups of [`ROUND`], of which the last is partly in use |
//! | with sums | rounds of one vector, each with the partial sums of its own | rounds of [`ROUND`] lanes likewise |
//!
//! No lane adds to a sum in another order for it: what is not in use keeps its partial sum.

use std::collections::BTreeSet;

use super::{Emitter, InUse, Lanes, ROUND, best};
use crate::base::IndexId;
use crate::codegen::expression::{Copy, WIDTH};
use crate::codegen::tile::may_repeat;
use crate::error::Result;
use crate::index::View;
use crate::loops::{RealId, Stmt, outer_extrema, outer_sums};

impl Emitter<'_> {
    pub(super) fn in_lanes(&mut self, index: IndexId, lanes: u32, body: &[Stmt]) -> Result<()> {
        let tile = self.registers.lanes(lanes, self.jam.is_some(), body);
        let back = tile < lanes && may_repeat(body);
        let lanes = tile;
        let extrema = outer_extrema(body);
        let sums: BTreeSet<RealId> = outer_sums(body).into_iter().chain(extrema.keys().copied()).collect();
        self.lane_index = Some(index);
        self.sums = sums.clone();
        let vectors: Vec<(RealId, Vec<Copy>)> = {
            self.lanes = Some(Lanes { of: lanes, in_use: InUse::All });
            sums.iter().map(|r| (*r, self.copies(true, self.jammed.contains(r)))).collect()
        };
        let width = lanes.min(WIDTH);
        for (r, copies) in &vectors {
            for copy in copies {
                let name = self.partial(*r, *copy);
                let start = match extrema.get(r) {
                    None => "0.0",
                    Some(View::ArgMin) => "f64::INFINITY",
                    Some(_) => "f64::NEG_INFINITY",
                };
                self.line(&format!("let mut {name} = all::<{width}>({start});"));
            }
        }
        let has_loops = body.iter().any(|s| !s.body().is_empty());
        self.group(index, Lanes { of: lanes, in_use: InUse::All }, back, body)?;
        match (sums.is_empty(), has_loops) {
            (true, true) => self.rest_by_groups(index, lanes, body)?,
            (true, false) => self.rest_by_halves(index, lanes, body)?,
            (false, true) if lanes > ROUND => self.rest_in_rounds(index, lanes, ROUND, &vectors, body)?,
            (false, true) => self.rest_at_most(index, lanes, body)?,
            (false, false) if lanes > WIDTH => self.rest_in_rounds(index, lanes, WIDTH, &vectors, body)?,
            (false, false) => self.rest(index, lanes, "", body)?,
        }
        (self.lanes, self.lane_index) = (None, None);
        self.sums.clear();
        for (r, copies) in &vectors {
            self.fold(*r, copies, lanes, extrema.get(r).map(|view| best(*view)));
        }
        Ok(())
    }

    /// What is left over of independent lanes: groups of half as many, of a quarter, .., and the lanes that are then left.
    fn rest_by_halves(&mut self, index: IndexId, lanes: u32, body: &[Stmt]) -> Result<()> {
        let mut of = lanes;
        while of > WIDTH {
            of /= 2;
            self.group(index, Lanes { of, in_use: InUse::All }, false, body)?;
        }
        self.rest(index, of, "", body)
    }

    /// The same around loops, whose text is long: few groups, of which the last may be partly in use.
    fn rest_by_groups(&mut self, index: IndexId, lanes: u32, body: &[Stmt]) -> Result<()> {
        if lanes <= WIDTH {
            return self.rest(index, lanes, "", body);
        }
        // A full group reads what loops inside have for all lanes once, and is short: groups of which all lanes are in use come first.
        let mut of = lanes / 2;
        while of > ROUND {
            self.group(index, Lanes { of, in_use: InUse::All }, false, body)?;
            of /= 2;
        }
        let most = if lanes > ROUND { ROUND } else { WIDTH };
        self.open(&format!("while {index} <= to {{"));
        self.rest_at_most(index, most, body)?;
        self.line(&format!("{index} += {most};"));
        self.close();
        Ok(())
    }

    /// What is left over of lanes with sums: rounds of fewer vectors, between which the partial sums change places, so that each
    /// vector of numbers meets its own, and all are where they were after the last round.
    fn rest_in_rounds(
        &mut self,
        index: IndexId,
        lanes: u32,
        round: u32,
        vectors: &[(RealId, Vec<Copy>)],
        body: &[Stmt],
    ) -> Result<()> {
        self.open(&format!("for _ in 0..{} {{", lanes.div_ceil(round)));
        if round == WIDTH {
            self.vector(index, body)?;
        } else {
            self.open(&format!("if {index} <= to {{"));
            self.rest_at_most(index, round, body)?;
            self.close();
        }
        let chunks = lanes.div_ceil(WIDTH);
        for (r, copies) in vectors {
            let name = |copy: &Copy, by: u32| self.partial(*r, Copy { chunk: (copy.chunk + by) % chunks, ..*copy });
            let to: Vec<String> = copies.iter().map(|copy| name(copy, 0)).collect();
            let from: Vec<String> = copies.iter().map(|copy| name(copy, round / WIDTH)).collect();
            self.line(&format!("({}) = ({});", to.join(", "), from.join(", ")));
        }
        self.line(&format!("{index} += {round};"));
        self.close();
        Ok(())
    }

    /// One vector of lanes, all of which are in use or not.
    fn vector(&mut self, index: IndexId, body: &[Stmt]) -> Result<()> {
        self.open(&format!("if {index} + {} <= to {{", WIDTH - 1));
        self.lanes = Some(Lanes { of: WIDTH, in_use: InUse::All });
        self.body(body)?;
        self.wide.clear();
        self.lane_indices.clear();
        self.close();
        self.rest(index, WIDTH, &format!(" && {index} + {} > to", WIDTH - 1), body)
    }

    /// At most so many lanes: one vector where that is enough, which saves whole loops.
    fn rest_at_most(&mut self, index: IndexId, lanes: u32, body: &[Stmt]) -> Result<()> {
        if lanes <= WIDTH {
            return self.rest(index, lanes, "", body);
        }
        self.rest(index, lanes, &format!(" && to - {index} >= {WIDTH}"), body)?;
        self.rest(index, WIDTH, &format!(" && to - {index} < {WIDTH}"), body)
    }

    /// A group of lanes that are not all in use, if there are any and a condition holds.
    fn rest(&mut self, index: IndexId, lanes: u32, condition: &str, body: &[Stmt]) -> Result<()> {
        self.open(&format!("if {index} <= to{condition} {{"));
        self.group(index, Lanes { of: lanes, in_use: InUse::Rest }, false, body)?;
        self.close();
        Ok(())
    }

    /// A loop over full groups of lanes, of which the last may be moved back, or the group at the end that is not full.
    pub(super) fn group(&mut self, index: IndexId, lanes: Lanes, back: bool, body: &[Stmt]) -> Result<()> {
        self.lanes = Some(lanes);
        match lanes.in_use {
            InUse::All => self.open_portions(index, lanes.of, if back { 1 } else { lanes.of }),
            InUse::Rest | InUse::RestOfEach => self.line(&format!("let rest = to - {index} + 1;")),
        }
        self.body(body)?;
        if lanes.in_use == InUse::All {
            self.line(&format!("{index} += {};", lanes.of));
            self.close();
        }
        self.wide.clear();
        self.lane_indices.clear();
        Ok(())
    }
}

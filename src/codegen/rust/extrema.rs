//! Searches for the first place of a largest or smallest number.
//!
//! The best number is found in lanes, and then the first place that has it: two passes of vectors take less time than one that asks each number alone.
//! What is no arithmetic is asked one by one.

use super::{Emitter, InUse, Lanes};
use crate::base::IndexId;
use crate::error::Result;
use crate::index::View;
use crate::loops::{RealId, Stmt, has_calls};

/// Lanes of a search for an extremum: enough to hide the latency of a comparison.
const LANES_OF_SEARCHES: u32 = 16;

/// What is searched: the `index` of the place that is found, that of the loop over all places, and the number there.
#[derive(Clone, Copy)]
pub(super) struct Extremum {
    pub index: IndexId,
    pub at: IndexId,
    pub view: View,
    pub value: RealId,
}

impl Emitter<'_> {
    pub(super) fn extremum(&mut self, search: Extremum, extent: &str, body: &[Stmt]) -> Result<()> {
        if is_arithmetic(body) && !has_calls(body) {
            return self.extremum_in_lanes(search, extent, body);
        }
        let Extremum { index, at, view, value } = search;
        self.line(&format!("let (mut {index}, mut {at}, mut best) = (-1_i64, 0_i64, 0.0_f64);"));
        self.open(&format!("while {at} < {extent} {{"));
        self.body(body)?;
        let sign = if view == View::ArgMin { "<" } else { ">" };
        self.open(&format!("if {at} == 0 || (!best.is_nan() && ({value}.is_nan() || {value} {sign} best)) {{"));
        self.line(&format!("({index}, best) = ({at}, {value});"));
        self.close();
        self.line(&format!("{at} += 1;"));
        self.close();
        Ok(())
    }

    /// The best of numbers, in lanes, and then the first place that has it; where there is a NaN, the first of these.
    fn extremum_in_lanes(&mut self, search: Extremum, extent: &str, body: &[Stmt]) -> Result<()> {
        let Extremum { index, at, view, value } = search;
        let best = self.spare;
        let start = if view == View::ArgMin { "f64::INFINITY" } else { "f64::NEG_INFINITY" };
        self.line(&format!("let (mut {index}, mut {at}, mut {best}) = (-1_i64, 0_i64, {start});"));
        let inside: Vec<Stmt> = body.iter().cloned().chain([Stmt::Extend(view, best, value)]).collect();
        self.open("{");
        self.line(&format!("let (mut {at}, to) = (0_i64, {extent} - 1);"));
        self.in_lanes(at, LANES_OF_SEARCHES, &inside)?;
        self.close();
        self.place_in_lanes(search, extent, body)?;
        self.open(&format!("while {at} < {extent} {{"));
        self.body(body)?;
        self.open(&format!("if {value} == {best} || {value}.is_nan() {{"));
        self.line(&format!("{index} = {at};"));
        self.line("break;");
        self.close();
        self.line(&format!("{at} += 1;"));
        self.close();
        Ok(())
    }

    /// Leaves out the groups of lanes before the first one that has the best, or a NaN.
    fn place_in_lanes(&mut self, Extremum { at, value, .. }: Extremum, extent: &str, body: &[Stmt]) -> Result<()> {
        let best = self.spare;
        let of = self.registers.lanes(LANES_OF_SEARCHES, false, body);
        self.open(&format!("while {at} + {of} <= {extent} {{"));
        (self.lanes, self.lane_index) = (Some(Lanes { of, in_use: InUse::All }), Some(at));
        self.body(body)?;
        let wide = self.wide.contains(&value);
        let attains = |x| if wide { format!("attains({x}, {best})") } else { format!("{x} == {best} || {x}.is_nan()") };
        let any: Vec<String> =
            self.copies(wide, false).into_iter().map(|copy| attains(self.name(value, copy))).collect();
        self.open(&format!("if {} {{", any.join(" || ")));
        self.line("break;");
        self.close();
        self.line(&format!("{at} += {of};"));
        (self.lanes, self.lane_index) = (None, None);
        self.wide.clear();
        self.lane_indices.clear();
        self.close();
        Ok(())
    }
}

/// Whether statements are numbers and sums of their own.
fn is_arithmetic(body: &[Stmt]) -> bool {
    let own = |r: &RealId| body.contains(&Stmt::Local(*r));
    body.iter().all(|stmt| match stmt {
        Stmt::Define(..) | Stmt::Local(_) => true,
        Stmt::Accumulate(r, _) | Stmt::MulAdd(r, _, _) => own(r),
        _ => false,
    })
}

/// The function that gives the best of two numbers.
pub(super) fn best(view: View) -> &'static str {
    if view == View::ArgMin { "min" } else { "max" }
}

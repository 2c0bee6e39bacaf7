//! The registers of the interpreter: integers and real numbers, one for each lane where they differ.

use super::code::{Code, Form};
use super::interpret::{ROOM, outside};
use crate::error::Result;
use crate::tensor::Element;

/// The registers of a run; kept between runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    pub indices: Vec<i64>,
    /// Indices that differ from lane to lane.
    pub lane_indices: Vec<[i64; ROOM]>,
    pub reals: Vec<[f64; ROOM]>,
    /// Partial sums of registers outside of a loop with lanes.
    pub partial: Vec<[f64; ROOM]>,
}

impl Registers {
    /// Room for the registers of any of these.
    pub fn reserve(&mut self, codes: &[Code]) {
        let indices = codes.iter().map(|code| code.indices).max().unwrap_or(0);
        let reals = codes.iter().map(|code| code.wide.len()).max().unwrap_or(0);
        self.indices.resize(indices, 0);
        self.lane_indices.resize(indices, [0; ROOM]);
        self.reals.resize(reals, [0.0; ROOM]);
        self.partial.resize(reals, [0.0; ROOM]);
    }

    /// The value of an expression, but for what differs from lane to lane.
    #[inline(always)]
    pub fn uniform(&self, form: &Form) -> i64 {
        form.terms.iter().fold(form.constant, |sum, (r, k)| sum + k * self.indices[*r])
    }

    /// The value in a lane, from that of [`Registers::uniform`].
    #[inline(always)]
    pub fn lane(&self, form: &Form, base: i64, lane: usize) -> i64 {
        let sum = base + form.step * lane as i64;
        form.lanes.iter().fold(sum, |sum, (r, k)| sum + k * self.lane_indices[*r][lane])
    }

    /// Loads the lanes in use of a register.
    #[inline(always)]
    pub fn load<A: Element>(&mut self, buffer: &[A], to: usize, at: &Form, width: usize) -> Result<()> {
        let base = self.uniform(at);
        let place = |k: i64| usize::try_from(k).ok().and_then(|k| buffer.get(k)).map(|x| x.widen());
        if width == 1 || !at.varies() {
            let base = if at.varies() { self.lane(at, base, 0) } else { base };
            self.reals[to][0] = place(base).ok_or_else(|| outside("a tensor"))?;
        } else if at.lanes.is_empty() && at.step == 1 {
            let from = usize::try_from(base).map_err(|_| outside("a tensor"))?;
            let neighbours = buffer.get(from..from + width).ok_or_else(|| outside("a tensor"))?;
            A::widen_to(neighbours, &mut self.reals[to]);
        } else {
            for lane in 0..width {
                self.reals[to][lane] = place(self.lane(at, base, lane)).ok_or_else(|| outside("a tensor"))?;
            }
        }
        Ok(())
    }
}

//! Register tiles: how many of the interleaved iterations and of the independent lanes of a loop are computed at a time.
//!
//! Loops say what may be done at once, as 32 registers of eight numbers hold it: the sums of 8 iterations in 16 lanes are 16 registers. A
//! processor with 16 registers of four numbers would keep most of these in memory. What is independent may be done in any portions, and each sum
//! keeps its order, so such a processor gets another tile, which gives the same bits:
//!
//! | registers | iterations, lanes | loads in a round | sums |
//! |---|---|---|---|
//! | 32 of 8 numbers | 8, 16, as loops say | 2 vectors, 8 numbers | 16 registers |
//! | 16 of 4 numbers | 6, 8 | 2 vectors, 6 numbers | 12 registers |
//! | 16 of 4 numbers, where a sum has 16 lanes | 3 | 16 vectors | 12 registers |
//!
//! The last tile is moved back until it is full: what it has in common with the one before is computed twice, and stored twice as the same bits.
//! This takes less text and less time than smaller tiles or vectors of which some lanes are in use. It needs iterations that may be repeated
//! ([`may_repeat`]), and at least one full tile.

use std::collections::BTreeSet;

use super::expression::WIDTH;
use crate::loops::{Domain, Stmt, changes_outside, outer_extrema, outer_sums};

/// The vector registers that a source is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registers {
    /// 32 of eight numbers.
    Wide,
    /// 16 of four numbers, or others that hold no more.
    Narrow,
}

/// How many numbers of partial sums stay in narrow registers, beside what is loaded: three quarters.
const NARROW_SUMS: u32 = 48;
/// How many iterations are interleaved at most where registers are narrow: sums of two vectors each.
const NARROW_ITERATIONS: u32 = 6;

impl Registers {
    /// Those of this processor.
    pub fn of_processor() -> Registers {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            return Registers::Wide;
        }
        Registers::Narrow
    }

    /// How many lanes of a loop go at a time; `jammed` tells whether iterations are interleaved around it.
    pub(super) fn lanes(self, lanes: u32, jammed: bool, body: &[Stmt]) -> u32 {
        let is_tile = || jammed || body.iter().any(has_jam);
        let fewer = self == Registers::Narrow
            && lanes > WIDTH
            && is_tile()
            && outer_sums(body).is_empty()
            && outer_extrema(body).is_empty();
        if fewer { WIDTH } else { lanes }
    }

    /// How many iterations of a loop are interleaved, no more than there are; `lanes` are those of the loop around.
    pub(super) fn iterations(self, jam: u32, domain: &Domain, lanes: u32, body: &[Stmt]) -> u32 {
        let most = match self {
            Registers::Wide => jam,
            Registers::Narrow => (NARROW_SUMS / self.sums(lanes, body).max(1)).clamp(2, NARROW_ITERATIONS),
        };
        literal(domain).and_then(|count| u32::try_from(count).ok()).map_or(most, |count| most.min(count.max(1)))
    }

    /// The numbers of partial sums of products in the innermost loop that has most.
    fn sums(self, lanes: u32, body: &[Stmt]) -> u32 {
        let here = body.iter().filter(|stmt| matches!(stmt, Stmt::MulAdd(..))).count() as u32;
        let inside = body.iter().map(|stmt| match stmt {
            Stmt::For { lanes: own, body, .. } => self.sums(lanes.max(self.lanes(*own, true, body)), body),
            stmt => self.sums(lanes, stmt.body()),
        });
        inside.max().unwrap_or(0).max(here.saturating_mul(lanes))
    }
}

/// The portions that follow those of so many iterations.
pub(super) fn smaller(count: u32) -> u32 {
    match count {
        6..=8 => 2,
        2..=5 => 1,
        _ => 0,
    }
}

/// How many values a loop has between literal ends.
fn literal(domain: &Domain) -> Option<i64> {
    let Domain::Range { lower, upper } = domain else { return None };
    let ([lower], [upper]) = (lower.as_slice(), upper.as_slice()) else { return None };
    let ends = (lower.divisor == 1 && upper.divisor == 1).then_some((&lower.numerator, &upper.numerator))?;
    ends.1.as_constant()?.checked_sub(ends.0.as_constant()?)?.checked_add(1)
}

fn has_jam(stmt: &Stmt) -> bool {
    let mut found = false;
    stmt.visit(&mut |stmt| found |= matches!(stmt, Stmt::For { jam: 2.., .. }));
    found
}

/// Whether an iteration of a loop whose iterations are independent gives the same when it is computed once more: it changes nothing outside but
/// places that it stores, and loads from a buffer that it stores to only after it has done so.
pub(super) fn may_repeat(body: &[Stmt]) -> bool {
    let (mut again, mut read) = (!changes_outside(body), BTreeSet::new());
    let mut visit = |stmt: &Stmt| match stmt {
        Stmt::Fill(_) | Stmt::Tuple(..) | Stmt::Call { .. } | Stmt::End(_) => again = false,
        Stmt::Store(place, _) => again &= !read.contains(&place.buffer),
        stmt => read.extend(stmt.load().map(|place| place.buffer)),
    };
    body.iter().for_each(|stmt| stmt.visit(&mut visit));
    again
}

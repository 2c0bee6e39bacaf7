//! What an evaluation takes.
//!
//! *Steps* are those of \[000\], Appendix C: one for each term that is evaluated, one more for each variable that a function captures, two for a
//! literal, which is a primitive of `()`; what is evaluated beneath is added. Terms that the paper does not have are counted the same way: one, and one
//! for each element or round. The cost of calling a function is that of its body.

use std::ops::{Add, Sub};

/// Counts of one evaluation, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps.
    pub steps: u64,
    /// Additions and negations of reals.
    pub adds: u64,
    /// Multiplications of reals.
    pub muls: u64,
    /// Other scalar functions, comparisons of reals among them.
    pub functions: u64,
    /// Real numbers copied: by a variable, into a closure, out of an array.
    pub moves: u64,
    /// Calls of functions.
    pub calls: u64,
    /// Entries of the smaller environment, over all unions of two.
    pub unions: u64,
}

impl Counts {
    /// Additions, multiplications and other scalar functions.
    pub fn operations(&self) -> u64 {
        self.adds + self.muls + self.functions
    }
}

impl Add for Counts {
    type Output = Counts;
    fn add(self, other: Counts) -> Counts {
        Counts {
            steps: self.steps + other.steps,
            adds: self.adds + other.adds,
            muls: self.muls + other.muls,
            functions: self.functions + other.functions,
            moves: self.moves + other.moves,
            calls: self.calls + other.calls,
            unions: self.unions + other.unions,
        }
    }
}

impl Sub for Counts {
    type Output = Counts;
    fn sub(self, other: Counts) -> Counts {
        Counts {
            steps: self.steps - other.steps,
            adds: self.adds - other.adds,
            muls: self.muls - other.muls,
            functions: self.functions - other.functions,
            moves: self.moves - other.moves,
            calls: self.calls - other.calls,
            unions: self.unions - other.unions,
        }
    }
}

//! What several functions of one number begin with, computed once.
//!
//! ```text
//! let r3 = sin(r2);             let angle_parts_r2 = angle_parts(r2);
//! ..                      ==    let r3 = sin_of_angle(angle_parts_r2);
//! let r7 = cos(r2);             ..
//!                               let r7 = cos_of_angle(angle_parts_r2);
//! ```
//!
//! A loss and its gradient take the sine and the cosine of the same angles, and two powers of the same bases. This is *common subexpression
//! elimination*, done where text is written for the functions in [`BEGINNINGS`]. Compilers do the same for functions whose text has no branch and
//! is inlined, such as `softplus` and `sigmoid`, which need no row.
//!
//! **Why it is right.** Each function alone is made of the same two functions, so it has the same bits. What is computed stands in the block of the
//! first function or around it, and is forgotten before a statement that gives the number another value.

use std::collections::{BTreeMap, BTreeSet};

use super::{Copy, Emitter};
use crate::loops::{Nest, Real, RealId, Stmt, changed};
use crate::scalar::{Function, Op, Primitive};

/// Functions, the beginnings that they share, which are of the first argument, and the functions of these and the other arguments.
const BEGINNINGS: [(Op, &str, &str); 3] = [
    (Op::Sin, "angle_parts", "sin_of_angle"),
    (Op::Cos, "angle_parts", "cos_of_angle"),
    (Op::Pow, "base_parts", "pow_of_base"),
];

/// A beginning of functions of a register.
type Beginning = (&'static str, RealId);

/// The beginnings that functions of a nest share.
#[derive(Default)]
pub(super) struct Shared {
    /// Those of several functions.
    of_several: BTreeSet<Beginning>,
    /// Those that are computed in the blocks around.
    computed: Vec<Beginning>,
}

impl Shared {
    pub fn of(nest: &Nest) -> Shared {
        let mut counts: BTreeMap<Beginning, usize> = BTreeMap::new();
        for stmt in &nest.body {
            stmt.visit(&mut |stmt| {
                if let Stmt::Define(_, real) = stmt
                    && let Some((beginning, _)) = beginning(real)
                {
                    *counts.entry(beginning).or_default() += 1;
                }
            });
        }
        let of_several = counts.into_iter().filter_map(|(beginning, count)| (count > 1).then_some(beginning));
        Shared { of_several: of_several.collect(), computed: Vec::new() }
    }

    /// How many beginnings are computed.
    pub fn depth(&self) -> usize {
        self.computed.len()
    }

    /// Forgets those that were computed in a block, since when there were so many.
    pub fn leave(&mut self, depth: usize) {
        self.computed.truncate(depth);
    }
}

/// The beginning of a function, and the function of it.
fn beginning(real: &Real) -> Option<(Beginning, &'static str)> {
    let Real::Apply(Function::Value(Primitive::Op(op)), args) = real else { return None };
    let (_, begins, rest) = BEGINNINGS.iter().find(|(known, ..)| known == op)?;
    Some(((begins, *args.first()?), rest))
}

/// The variable of a beginning of a number.
fn variable(begins: &str, of: &str) -> String {
    format!("{begins}_{of}")
}

impl Emitter<'_> {
    /// Forgets the beginnings of numbers that a statement changes.
    pub(super) fn forget_changed(&mut self, stmt: &Stmt) {
        if !self.shared.computed.is_empty() {
            let changed = changed([stmt]);
            self.shared.computed.retain(|(_, r)| !changed.contains(r));
        }
    }

    /// Computes the beginning of a function if others share it, and it is not there yet.
    pub(super) fn begin(&mut self, real: &Real, wide: bool, copies: &[Copy]) {
        let Some((beginning, _)) = beginning(real) else { return };
        let (begins, r) = beginning;
        let is_new = self.shared.of_several.contains(&beginning) && !self.shared.computed.contains(&beginning);
        // A number for all lanes is left to the compiler.
        if !is_new || wide != self.wide.contains(&r) {
            return;
        }
        self.shared.computed.push(beginning);
        let names: BTreeSet<String> = copies.iter().map(|copy| self.name(r, *copy)).collect();
        for name in names {
            let number = if wide { name.clone() } else { format!("V([{name}])") };
            self.line(&format!("let {} = {begins}({number});", variable(begins, &name)));
        }
    }

    /// A function of a beginning that was computed.
    pub fn rest_of_shared(&self, real: &Real, wide: bool, copy: Copy) -> Option<String> {
        let ((begins, r), rest) = beginning(real)?;
        let computed = self.shared.computed.contains(&(begins, r)) && wide == self.wide.contains(&r);
        let Real::Apply(_, args) = real else { return None };
        computed.then(|| {
            let others = args.iter().skip(1).map(|a| self.read(*a, wide, copy));
            let others = others.map(|a| if wide { a } else { format!("V([{a}])") });
            let args: Vec<String> = [variable(begins, &self.name(r, copy))].into_iter().chain(others).collect();
            format!("{rest}({}){}", args.join(", "), if wide { "" } else { ".0[0]" })
        })
    }
}

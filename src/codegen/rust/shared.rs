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
//! elimination*, done where text is written for the functions in [`BEGINNINGS`]. Compilers do it for text without a branch that is inlined, so `softplus`
//! and `sigmoid`, or `sinh` and `cosh`, need no row. They do not do it across the branch for large angles, and of powers they miss some.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::vector::{V, angle_parts, base_parts, cos_of_angle, pow_of_base, sin_of_angle};
    use crate::codegen::{in_lanes, items, name_in_lanes};

    /// A function alone is made of its beginning, so the bits of both are the same.
    #[test]
    fn functions_alone_use_their_beginnings() {
        for (op, begins, rest) in BEGINNINGS {
            let name = name_in_lanes(op).unwrap();
            let text = items::used(&format!("{name}(x)"));
            for function in [begins, rest] {
                assert!(text.contains(&format!("pub fn {function}<")), "{name} does not use {function}");
            }
        }
    }

    /// The function of a beginning that serves others too has the bits of the function alone, with any number of lanes.
    fn check<const N: usize>(x: [f64; N], y: [f64; N]) {
        let (angle, base) = (angle_parts(V(x)), base_parts(V(x)));
        let same = |op: Op, args: &[[f64; N]], found: V<N>| {
            for (a, b) in in_lanes(op, args).unwrap().iter().zip(found.0) {
                assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{op:?} of {args:?}: {a:e}, {b:e}");
            }
        };
        same(Op::Sin, &[x], sin_of_angle(angle));
        same(Op::Cos, &[x], cos_of_angle(angle));
        same(Op::Pow, &[x, y], pow_of_base(base, V(y)));
        same(Op::Pow, &[x, y.map(|y| y - 1.0)], pow_of_base(base, V(y.map(|y| y - 1.0))));
    }

    #[test]
    fn beginnings_change_no_bit() {
        let special = [0.0, 1.0, 0.5, 2.0, 3.0, 1e6, 1e7, 1e300, f64::MAX, 5e-324, f64::MIN_POSITIVE, f64::INFINITY];
        let special: Vec<f64> = special.iter().flat_map(|x| [*x, -x]).chain([f64::NAN]).collect();
        let mut rng = fastrand::Rng::with_seed(11);
        let mut number = |k: usize| match k % 4 {
            0 => special[rng.usize(..special.len())],
            1 => f64::from_bits(rng.u64(..)),
            2 => 2e6 * (rng.f64() - 0.5),
            _ => 20.0 * (rng.f64() - 0.5),
        };
        for _ in 0..20_000 {
            let (x, y): ([f64; 8], [f64; 8]) = (std::array::from_fn(&mut number), std::array::from_fn(&mut number));
            check(x, y);
            check([x[0]], [y[1]]);
            check([x[1], x[2], x[3], x[4]], [y[4], y[3], y[2], y[1]]);
        }
    }
}

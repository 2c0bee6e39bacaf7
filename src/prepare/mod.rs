//! Tensor-SSA to Tensor-SSA, for lowering: what would be computed again and again becomes a tensor of its own, and what nobody reads is not
//! computed.
//!
//! | pass | what it does | results |
//! |---|---|---|
//! | `axis-order` | axes of intermediate tensors come in the order in which they are read | exact |
//! | `empty-sums` | guards that say that a sum is not over nothing go | contracts |
//! | `inline-scatters` | tables that maps scatter into are not made, where readers may go through what is scattered | reassociates |
//! | `unions` | a sum over a union of places is one sum for each of them | reassociates |
//! | `sink-guards` | searches in guards of what loops have in common go to where they are needed | exact, but for the sign of a zero |
//! | `truth-values` | what numbers say in guards, where it would be looked for again and again, becomes tensors of truth values | exact |
//! | `fill-values` | what is the same all along rows, but for the entries of a relation, is computed on these and once for each row | reassociates |
//! | `target-sums` | what is asked of the target of a map is asked once for each target | reassociates |
//! | `distribute-sums` | sums of what is read through several maps are a sum for each of them | reassociates |
//! | `per-target` | functions and sums of what is read through a map are computed once for each target | exact |
//! | `tabulate` | functions of what depends on sums of indices alone are computed once for each sum | exact |
//! | `group-sums` | sums over the sources of a map are grouped by target | reassociates |
//! | `separate-sums` | sums over several indices, each under tests of its own, are computed one after the other | reassociates |
//! | `exchange-sums` | of two sums along windows of a tensor, those along its first axes come first | reassociates |
//! | `half-sums` | sums over all pairs whose terms are the same both ways are over half of them | reassociates |
//! | `speculate` | products are computed without the masks of their factors, and with them where the result is no number | exact |
//! | `demand` | tensors that are read on the entries of a relation alone are computed there alone, and sums over its fibres where these have some | exact |
//!
//! [`on_patterns`] gives outputs patterns that are found out when a program is bound: what a kernel with sparse results begins with.

mod axis_order;
mod demand;
mod distribute_sums;
mod empty_sums;
mod exchange_sums;
mod fill_values;
mod group_sums;
mod half_sums;
mod inline_scatters;
mod needs;
mod patterns;
mod per_target;
mod projections;
mod separate_sums;
mod sink_guards;
mod speculate;
mod tabulate;
mod target_sums;
mod truth_values;
mod unions;

use std::borrow::Cow;

use crate::base::{IndexId, work};
use crate::error::Result;
use crate::index::Size;
use crate::stages::{Exactness, Stages};
use crate::tssa::Program;

pub use patterns::{OnPatterns, Sparse, on_patterns};

/// A program that is ready to be lowered.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The program.
    pub program: Program,
    /// The same with all of its guards, and before functions were shared: the supports of results are read off it.
    pub unshared: Program,
}

/// Indices with their ranges.
type Scope = Vec<(IndexId, Size)>;

/// A program for one that means the same.
type Rewrite = for<'a> fn(&'a Program) -> Result<Cow<'a, Program>>;

/// A pass from Tensor-SSA to Tensor-SSA, for lowering.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Its name, as [`Stages`] have it.
    pub name: &'static str,
    /// How far results are those of before.
    pub exactness: Exactness,
    rewrite: Rewrite,
}

impl Pass {
    /// The program after the pass.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow), [`Error::Limit`](crate::Error::Limit) and [`Error::Bug`](crate::Error::Bug).
    pub fn apply(&self, program: &Program) -> Result<Program> {
        work::pass(program.stmts.len(), || Ok((self.rewrite)(program)?.into_owned()))
    }
}

/// The passes, in their order.
pub const PASSES: [Pass; 17] = {
    use Exactness::{Contracts, Exact, Reassociates};
    const fn pass(name: &'static str, exactness: Exactness, rewrite: Rewrite) -> Pass {
        Pass { name, exactness, rewrite }
    }
    [
        pass("axis-order", Exact, axis_order::ordered),
        pass("empty-sums", Contracts, empty_sums::unguarded),
        pass("inline-scatters", Reassociates, inline_scatters::inlined),
        pass("unions", Reassociates, unions::separated),
        pass("sink-guards", Exact, sink_guards::sunk),
        pass("truth-values", Exact, truth_values::kept),
        pass("fill-values", Reassociates, fill_values::filled),
        pass("target-sums", Reassociates, target_sums::by_target),
        pass("distribute-sums", Reassociates, distribute_sums::distributed),
        pass("per-target", Exact, per_target::shared),
        pass("tabulate", Exact, tabulate::tabulated),
        pass("group-sums", Reassociates, group_sums::grouped),
        pass("separate-sums", Reassociates, separate_sums::separated),
        pass("exchange-sums", Reassociates, exchange_sums::exchanged),
        pass("half-sums", Reassociates, half_sums::halved),
        pass("speculate", Exact, speculate::speculated),
        pass("demand", Exact, demand::demanded),
    ]
};

/// A program without guards that say that a sum is not over nothing, which the first pass makes.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow).
pub fn without_empty_sums(program: &Program) -> Result<Program> {
    Ok(empty_sums::unguarded(program)?.into_owned())
}

/// Runs the passes.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow), [`Error::Limit`](crate::Error::Limit) and [`Error::Bug`](crate::Error::Bug).
pub fn prepare(program: &Program, stages: &mut Stages<'_>) -> Result<Prepared> {
    let mut run = |pass: Pass, program: &Program| stages.run(pass.name, || pass.apply(program));
    let [first, second, third, fourth, others @ ..] = PASSES;
    let without = run(first, program)?;
    let inlined = run(second, &without)?;
    let separated = run(third, &inlined)?;
    let mut prepared = run(fourth, &separated)?;
    let unshared = match without == *program {
        true => prepared.clone(),
        false => fourth.apply(&third.apply(&second.apply(program)?)?)?,
    };
    for pass in others {
        prepared = run(pass, &prepared)?;
    }
    let program = prepared;
    Ok(Prepared { program, unshared })
}

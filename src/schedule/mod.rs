//! Loop nests to loop nests: the same numbers, sooner.
//!
//! [`lower`](mod@crate::lower) writes one nest for each stored tensor, in the order of its axes. The passes here, in the order of [`PASSES`], cut,
//! join and reorder loops, and choose lanes and parts. Each is a function of the program alone, and each leaves a program that the verifier
//! accepts, so any of them may be left out:
//!
//! | pass | what it does | needs | results |
//! |---|---|---|---|
//! | `collapse` | loops over two axes that lie together in memory become one | one nest a tensor | exact |
//! | `histograms` | sums of which each term knows its whole place are added up in the order of their sources | one nest a tensor | reassociates |
//! | `workspaces` | sums of which each term knows its place are added up in a row, term by term | one nest a tensor | reassociates |
//! | `fold-extrema` | the largest of numbers is kept, and its place is not looked for; of a row where all other places are alike | | exact, but for the sign of a zero |
//! | `fold-places` | the place of the largest of numbers is kept as a number, where columns or rows of a relation are searched | places that serve as numbers | exact |
//! | `sink-selects` | a product under a test is the product of its factors under the test | | exact |
//! | `row-sums` | sums over all of several rows are those of each row, which follow the nest that writes it | one nest a tensor | reassociates |
//! | `unroll-outer` | loops over a few values around long sums become statements | one nest a tensor | exact |
//! | `unroll-and-jam` | loops over a few values around a long one become statements inside of it | one nest a tensor | reassociates |
//! | `growing-sums` | sums over all places up to an index, or from it on, have nests of their own | | exact |
//! | `interchange` | the loop over rows that were just written comes first | one nest a tensor | exact |
//! | `windows` | loops over a few offsets come outside of the one over the places that have the window | one nest a tensor | reassociates |
//! | `unswitch` | loops are told apart by what they test and was known before them | | exact |
//! | `split` | loops are cut where a test of their index begins to hold, or become statements where there are a few | | exact |
//! | `unroll-extrema` | of a few numbers each is compared with the best, whose place is not looked for | loops cut at tests | exact |
//! | `if-conversion` | what is done under tests of numbers is done in any case, and chosen | | exact |
//! | `pack` | a copy of a parameter with its axes in the order of the lanes | | exact |
//! | `layout` | axes of intermediate tensors in the order of the lanes; copies of those that are read in two orders | | exact |
//! | `fuse` | nests over the same rows become one | layouts | exact |
//! | `unroll` | rows of much arithmetic become straight-line code, in registers | fused rows | exact |
//! | `powers` | powers with literal exponents become products | straight-line code | reassociates |
//! | `merge` | loops over the same range, beside each other in a row, become one | fused rows | exact |
//! | `reuse` | what a body has at hand is not made again, and not stored if nobody reads it | merged loops | exact |
//! | `reciprocals` | divisions by one number become products with its reciprocal | merged loops | reassociates |
//! | `quotients` | quotients by powers of one number share its reciprocal | straight-line code | reassociates |
//! | `divisions` | quotients by a number that a loop does not change become products with its reciprocal | merged loops | reassociates |
//! | `fills` | intermediate tensors are not made zero where nobody reads what was not stored | merged loops | exact |
//! | `strip-mine` | sums along columns of a triangle run in lanes, for strips of columns | | reassociates |
//! | `hoist` | a factor that a loop does not change leaves its sum | | reassociates |
//! | `contract` | a product that is added is rounded once, with the sum | hoisted factors | contracts |
//! | `peel` | the ends of a loop, where bounds of sums depend on it or it is tested, have loops of their own | | exact |
//! | `distribute` | what a nest computes once, for all rows, is a nest of its own | hoisted factors | exact |
//! | `vectorise` | lanes, interleaved iterations, parallel loops | contracted sums | reassociates |
//! | `copy-propagation` | parameters are read instead of copies in which lanes have no neighbours | lanes | exact |
//! | `panels` | a factor of a large matrix product is copied in panels, long sums are added in blocks | lanes | exact |
//! | `tiles` | products inside of loops are computed for some columns at a time | lanes | exact |
//! | `partial-sums` | a sum over a whole nest is that of parts | parallel loops | reassociates |
//! | `prefix-sums` | sums over all places up to an index, or from it on, are running sums | nests of their own | reassociates |
//! | `privatise` | rows that only their own iteration reads are kept for each part | parallel loops | exact |
//! | `row-blocks` | sums along columns are those of blocks of rows, which follow the nest that writes the rows | parallel loops | reassociates |
//! | `searches` | searches leave loops, and go on where the last one ended | lanes | exact |
//!
//! *Exact*: the same bits. *Contracts*: a product and a sum are rounded once where they were rounded twice. *Reassociates*: sums and products in
//! another order.
//!
//! Those of [`AT_BINDING`] run when a program is bound, as sizes are known then:
//!
//! | pass | what it does | for | results |
//! |---|---|---|---|
//! | `scatter` | sums by target are computed in the order of their sources | sizes | reassociates |
//! | `fuse-blocks` | a block of rows goes through all nests that are over these rows | sizes, loops over time | reassociates |
//! | `privatise-rows` | longer rows that only their own iteration reads are kept for each part, too | sizes | exact |
//! | `flatten` | functions of the entries of short rows are computed for all entries, one after the other | sizes | exact |
//! | `bins` | sums along another view of a relation are computed in two passes | a program has both forms | exact |
//!
//! Behind the first of them [`hold`](fn@hold) makes two programs of one, where some parameters are constant: what these alone lead to runs once.
//! [`specialise`](fn@specialise) is all of this.
//!
//! Before all passes, [`with_sizes`] makes literals of the sizes that are [short](short_axes()) beside others, where they are known, and behind them of those of
//! [a few vectors](short_rows).

mod beside;
mod bins;
mod blocks;
mod collapse;
mod contract;
mod copy_propagation;
mod distribute;
mod divisions;
mod fills;
mod flatten;
mod fold_extrema;
mod fold_places;
mod fuse;
mod fuse_blocks;
mod histograms;
mod hoist;
pub mod hold;
mod if_conversion;
mod interchange;
mod key;
mod layout;
pub mod machine;
mod members;
mod merge;
mod pack;
mod panels;
mod partial_sums;
mod peel;
mod powers;
mod prefix_sums;
mod privatise;
mod quotients;
mod reciprocals;
mod reuse;
mod row_blocks;
mod row_sums;
mod scatter;
mod searches;
mod short_axes;
mod signs;
mod sink_selects;
mod specialise;
mod split;
mod strip_mine;
mod tiles;
mod unroll;
mod unroll_and_jam;
mod unroll_extrema;
mod unroll_outer;
mod unswitch;
mod vectorise;
mod windows;
mod workspaces;

use crate::base::work;
use crate::error::Result;
use crate::loops::{Program, size};
use crate::stages::{Exactness, Stages, check};

pub(crate) use fuse_blocks::Rows;
pub use hold::{Split, constants_by_name, hold};
pub use scatter::Sizes;
pub use short_axes::{short_axes, short_rows, with_sizes};
pub use specialise::{Specialised, specialise};

/// A pass over loop nests.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Its name, as `show --after` takes it.
    pub name: &'static str,
    /// How far results are those of before.
    pub exactness: Exactness,
    run: fn(&mut Program) -> Result<()>,
}

impl Pass {
    /// The program after the pass.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow), [`Error::Limit`](crate::Error::Limit) and [`Error::Bug`](crate::Error::Bug).
    pub fn apply(&self, mut program: Program) -> Result<Program> {
        work::pass(size(program.nests.iter().flat_map(|nest| &nest.body)), || {
            (self.run)(&mut program)?;
            Ok(program)
        })
    }
}

/// A pass that runs when a program is bound.
#[derive(Clone, Copy, Debug)]
pub struct LatePass {
    /// Its name.
    pub name: &'static str,
    /// How far results are those of before.
    pub exactness: Exactness,
    run: fn(Program, Option<&Sizes<'_>>) -> Result<Program>,
}

impl LatePass {
    /// The program after the pass. Where no sizes are known, what depends on them is left as it is.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug), in debug builds also where the verifier refuses the result.
    pub fn apply(&self, program: Program, sizes: Option<&Sizes<'_>>) -> Result<Program> {
        let program = (self.run)(program, sizes)?;
        if cfg!(debug_assertions) {
            check(self.name, &program)?;
        }
        Ok(program)
    }
}

/// The passes at binding, in their order.
pub const AT_BINDING: [LatePass; 5] = {
    use Exactness::{Exact, Reassociates};
    [
        LatePass { name: "scatter", exactness: Reassociates, run: scatter::run },
        LatePass { name: "fuse-blocks", exactness: Reassociates, run: fuse_blocks::run },
        LatePass { name: "privatise-rows", exactness: Exact, run: privatise::rows },
        LatePass { name: "flatten", exactness: Exact, run: flatten::run },
        LatePass { name: "bins", exactness: Exact, run: bins::run },
    ]
};

/// The passes, in their order.
pub const PASSES: [Pass; 41] = {
    use Exactness::{Contracts, Exact, Reassociates};
    const fn pass(name: &'static str, exactness: Exactness, run: fn(&mut Program) -> Result<()>) -> Pass {
        Pass { name, exactness, run }
    }
    [
        pass("collapse", Exact, collapse::run),
        pass("histograms", Reassociates, histograms::run),
        pass("workspaces", Reassociates, workspaces::run),
        pass("fold-extrema", Exact, fold_extrema::run),
        pass("fold-places", Exact, fold_places::run),
        pass("sink-selects", Exact, sink_selects::run),
        pass("row-sums", Reassociates, row_sums::run),
        pass("unroll-outer", Exact, unroll_outer::run),
        pass("unroll-and-jam", Reassociates, unroll_and_jam::run),
        pass("growing-sums", Exact, prefix_sums::apart),
        pass("interchange", Exact, interchange::run),
        pass("windows", Reassociates, windows::run),
        pass("unswitch", Exact, unswitch::run),
        pass("split", Exact, split::run),
        pass("unroll-extrema", Exact, unroll_extrema::run),
        pass("if-conversion", Exact, if_conversion::run),
        pass("pack", Exact, pack::run),
        pass("layout", Exact, layout::run),
        pass("fuse", Exact, fuse::run),
        pass("unroll", Exact, unroll::run),
        pass("powers", Reassociates, powers::run),
        pass("merge", Exact, merge::run),
        pass("reuse", Exact, reuse::run),
        pass("reciprocals", Reassociates, reciprocals::run),
        pass("quotients", Reassociates, quotients::run),
        pass("divisions", Reassociates, divisions::run),
        pass("fills", Exact, fills::run),
        pass("strip-mine", Reassociates, strip_mine::run),
        pass("hoist", Reassociates, hoist::run),
        pass("contract", Contracts, contract::run),
        pass("peel", Exact, peel::run),
        pass("distribute", Exact, distribute::run),
        pass("vectorise", Reassociates, vectorise::run),
        pass("copy-propagation", Exact, copy_propagation::run),
        pass("panels", Exact, panels::run),
        pass("tiles", Exact, tiles::run),
        pass("partial-sums", Reassociates, partial_sums::run),
        pass("prefix-sums", Reassociates, prefix_sums::run),
        pass("privatise", Exact, privatise::run),
        pass("row-blocks", Reassociates, row_blocks::run),
        pass("searches", Exact, searches::run),
    ]
};

/// The pass that joins axes of tensors.
const JOINS_AXES: &str = "collapse";
/// The passes that make parts for threads.
const FOR_THREADS: [&str; 3] = ["partial-sums", "privatise", "row-blocks"];

/// Where nests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// One after the other, each on all threads.
    Program,
    /// As those of a program, but what they read and write belongs to others, who know it by its axes.
    Leaf,
    /// Those of a leaf in each step of a loop, on one thread: nothing is cut in parts.
    Step,
}

/// All passes, one after the other.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow), [`Error::Limit`](crate::Error::Limit) and [`Error::Bug`](crate::Error::Bug).
pub fn schedule(mut program: Program, within: Within, stages: &mut Stages<'_>) -> Result<Program> {
    let runs = |pass: &Pass| match within {
        Within::Program => true,
        Within::Leaf => pass.name != JOINS_AXES,
        Within::Step => pass.name != JOINS_AXES && !FOR_THREADS.contains(&pass.name),
    };
    for pass in PASSES.iter().filter(|pass| runs(pass)) {
        program = stages.run(pass.name, || pass.apply(program))?;
    }
    Ok(program)
}

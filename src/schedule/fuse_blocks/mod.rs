//! Nests over the same rows: a block of rows goes through all of them.
//!
//! ```text
//! parallel for i in 0 .. n - 1                   s_sums = 0
//!   for t in 0 .. T - 1                          parallel for p in 0 .. 63
//!     q[t + 1, i] = F(q[t, i])                     for b in part p of 64 of 0 .. (n - 1)/64
//! local r                                            for i in 64b .. min(64b + 63, n - 1)
//! for t in 0 .. T - 1                                  for t in 0 .. T - 1
//!   for i in 0 .. n - 1                    ==            q[p, t + 1, i - 64b] = F(q[p, t, i - 64b])
//!     r += G(q[t, i])                                local r
//! s = r                                              for t in 0 .. T - 1
//!                                                      for i in 64b .. min(64b + 63, n - 1)
//!                                                        r += G(q[p, t, i - 64b])
//!                                                    s_sums[p] = s_sums[p] + r
//!                                                s = sum p. s_sums[p]
//! ```
//!
//! So what a gradient keeps of all steps of a loop over time, for each of many rows (rays, particles, curves), is kept for a block of rows only: it is
//! read from a near cache, and takes the memory of a block for each thread. This is loop fusion behind strip-mining, with the arrays that become local
//! contracted (Wolfe, *High Performance Compilers for Parallel Computing*, chapters 9 and 12).
//!
//! **Which nests.** Those whose work is loops over the rows, at the top or inside of loops over steps. Each number that they store is one of three:
//! - *of a row*: on one axis, all places in these nests have the index of the rows;
//! - *alike*: computed outside of loops over rows, of what no nest of them makes, as how many steps a loop makes. Each block computes it;
//! - *a sum* over the rows, or what is linear in such sums, and read by none of these nests. Each part adds up its own, and parts are added in order.
//!
//! A nest that needs such a sum comes behind them, and begins others of its own; one that needs nothing of them comes before.
//!
//! **Why it is right.** What is of a row is computed from the same row by the same statements in the same order. A sum over all rows is the sum over
//! the blocks, and linear functions of sums are sums of linear functions; what does not depend on the rows is added with the first block alone. A loop that
//! ends where no row changes ends for each block where its rows do not: further steps would leave them as they are.
//!
//! No long loop is repeated for each block: one that is neither over rows nor around such, nor over a few values, keeps its nest out.
//!
//! It needs sizes: [many rows](super::machine::PARTS), and numbers between the nests that fit no cache. A row has few numbers at each step.

mod uses;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use super::Sizes;
use super::machine::{PARTS, PRIVATE_ROW, STEP_ROWS};
use crate::error::Result;
use crate::index::{Affine, Checked};
use crate::loops::{Bound, Buffer, BufferId, BufferKind, Decision, Domain, Nest, Program, Stmt, loads, stored};
use uses::{Uses, uses};

/// How many numbers a row has at most at each step.
const FEW_NUMBERS: u64 = 64;

/// Has blocks of rows go through nests that are over the same rows.
pub(super) fn run(mut program: Program, sizes: Option<&Sizes<'_>>) -> Result<Program> {
    let Some(sizes) = sizes else { return Ok(program) };
    let mut from = 0;
    while let Some(group) = Group::find(&program, from, sizes)? {
        from = write::write(&mut program, from, group)?;
    }
    Ok(program)
}

/// The rows `0 ..= last`, which go through loops over steps in blocks.
pub(crate) struct Rows {
    pub last: Affine,
}

impl Rows {
    fn whole(&self) -> Domain {
        Domain::Range { lower: vec![Bound::exact(Affine::constant(0))], upper: vec![Bound::exact(self.last.clone())] }
    }

    /// The blocks.
    pub fn blocks(&self) -> Domain {
        Domain::Range {
            lower: vec![Bound::exact(Affine::constant(0))],
            upper: vec![Bound { numerator: self.last.clone(), divisor: STEP_ROWS }],
        }
    }

    /// The rows of a block.
    ///
    /// # Errors
    /// Where a coefficient leaves the range of 64-bit integers.
    pub fn of_block(&self, block: &Affine) -> Checked<Domain> {
        let first = block.scale(STEP_ROWS)?;
        let end = Bound::exact(first.add_constant(STEP_ROWS - 1)?);
        Ok(Domain::Range { lower: vec![Bound::exact(first)], upper: vec![Bound::exact(self.last.clone()), end] })
    }

    /// The rows of which nests with steps have blocks, or that loops over steps are around, each once.
    fn of_nests(nests: &[Nest]) -> Vec<Rows> {
        let mut found: Vec<Rows> = Vec::new();
        for stmt in nests.iter().filter(|nest| has_steps(nest)).flat_map(|nest| &nest.body) {
            let inside = stmt.body().iter().filter_map(|stmt| last(stmt, 1));
            for last in last(stmt, STEP_ROWS).into_iter().chain(inside) {
                if !found.iter().any(|rows| rows.last == *last) {
                    found.push(Rows { last: last.clone() });
                }
            }
        }
        found
    }
}

/// What the only upper bound of a loop is a fraction of.
fn last(stmt: &Stmt, fraction: i64) -> Option<&Affine> {
    match stmt {
        Stmt::For { domain: Domain::Range { upper, .. }, .. } => match upper.as_slice() {
            [Bound { numerator, divisor }] if *divisor == fraction => Some(numerator),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a nest has a loop over steps, one after the other.
fn has_steps(nest: &Nest) -> bool {
    nest.decisions.iter().any(|decision| matches!(decision, Decision::Steps { .. }))
}

/// What nests do together.
#[derive(Default)]
struct Known {
    /// What is of a row, with the axes that have the row at all places.
    axes: BTreeMap<BufferId, Vec<usize>>,
    alike: BTreeSet<BufferId>,
}

impl Known {
    /// The same with what one more nest does; nothing where it does not go with them.
    fn with(&self, uses: &Uses) -> Option<Known> {
        let mut axes = self.axes.clone();
        for (buffer, own) in &uses.axes {
            let known = axes.entry(*buffer).or_insert_with(|| own.clone());
            known.retain(|axis| own.contains(axis));
            if known.is_empty() {
                return None;
            }
        }
        Some(Known { axes, alike: &self.alike | &uses.alike })
    }
}

/// Nests through which blocks of rows go.
struct Group {
    rows: Rows,
    /// By number, in order.
    members: Vec<(usize, Uses)>,
    before: Vec<usize>,
    after: Vec<usize>,
    known: Known,
    /// What each part has for itself.
    private: BTreeSet<BufferId>,
}

impl Group {
    /// The next nests for which it pays.
    fn find(program: &Program, from: usize, sizes: &Sizes<'_>) -> Result<Option<Group>> {
        for rows in Rows::of_nests(program.nests.get(from..).unwrap_or_default()) {
            let count = (sizes.length)(&rows.last.add_constant(1)?).unwrap_or(0);
            if count < 2 * u64::from(PARTS) {
                continue;
            }
            let group = Group::of(program, from, rows, sizes)?;
            if group.pays(program, sizes) {
                return Ok(Some(group));
            }
        }
        Ok(None)
    }

    /// All nests from one on that go together over some rows.
    fn of(program: &Program, from: usize, rows: Rows, sizes: &Sizes<'_>) -> Result<Group> {
        let mut group = Group {
            rows,
            members: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            known: Known::default(),
            private: BTreeSet::new(),
        };
        let (mut inside, mut behind) = (BTreeSet::new(), BTreeSet::new());
        for (at, nest) in program.nests.iter().enumerate().skip(from) {
            let own = stored(&nest.body);
            let reads = |of: &BTreeSet<BufferId>| loads(&nest.body).iter().any(|place| of.contains(&place.buffer));
            if reads(&behind) {
                group.after.push(at);
                behind.extend(own);
                continue;
            }
            let found = uses(nest, &group.rows, &inside, &group.known)?;
            let found = found.filter(|uses| is_small(program, uses, sizes));
            let joined = found.and_then(|uses| Some((group.known.with(&uses)?, uses)));
            if let Some((known, uses)) = joined {
                group.known = known;
                group.members.push((at, uses));
                inside.extend(own);
            } else if reads(&inside) {
                group.after.push(at);
                behind.extend(own);
            } else {
                group.before.push(at);
            }
        }
        let outside = group.mentioned_outside(program, from);
        let is_own = |b: &BufferId| {
            let buffer = program.buffers.get(*b);
            let is_own = |buffer: &Buffer| buffer.kind == BufferKind::Workspace && buffer.entries.is_none();
            buffer.is_some_and(is_own) && !outside.contains(b)
        };
        group.private = group.known.axes.keys().chain(&group.known.alike).filter(|b| is_own(b)).copied().collect();
        Ok(group)
    }

    /// The buffers that others mention, or that are looked at when all nests have run.
    fn mentioned_outside(&self, program: &Program, from: usize) -> BTreeSet<BufferId> {
        let mut outside: BTreeSet<BufferId> = program.rounded.iter().map(|rounded| rounded.from).collect();
        outside.extend(program.limits.iter().map(|limit| limit.steps));
        let others = self.before.iter().chain(&self.after).copied().chain(0..from);
        for nest in others.filter_map(|at| program.nests.get(at)) {
            outside.extend(loads(&nest.body).iter().map(|place| place.buffer));
            outside.extend(stored(&nest.body));
        }
        outside
    }

    /// Whether loops over steps are among the nests, and what each part then has for itself was much.
    fn pays(&self, program: &Program, sizes: &Sizes<'_>) -> bool {
        let numbers = self.private.iter().filter_map(|b| program.buffers.get(*b)).map(|buffer| {
            let mut dims = buffer.dims.iter().map(|n| (sizes.length)(n));
            dims.try_fold(1_u64, |len, n| Some(len.saturating_mul(n?))).unwrap_or(0)
        });
        self.members.len() > 1
            && self.members.iter().any(|(at, _)| program.nests.get(*at).is_some_and(has_steps))
            && self.known.alike.is_subset(&self.private)
            && numbers.fold(0, u64::saturating_add) > sizes.cached
    }
}

/// Whether rows have few numbers, at each step, and sums few in all.
fn is_small(program: &Program, uses: &Uses, sizes: &Sizes<'_>) -> bool {
    let is_few = |b: &BufferId, row: Option<usize>, most: u64| {
        let Some(Buffer { dims, entries: None, .. }) = program.buffers.get(*b) else { return false };
        let others = dims.iter().enumerate().filter(|(axis, _)| Some(*axis) != row);
        let mut others: Vec<u64> = others.map(|(_, n)| (sizes.length)(n).unwrap_or(u64::MAX)).collect();
        others.sort_unstable();
        if row.is_some() {
            // One axis may be that of the steps.
            others.pop();
        }
        others.iter().try_fold(1_u64, |len, n| len.checked_mul(*n)).is_some_and(|len| len <= most)
    };
    let is_small_row =
        |(b, axes): (&BufferId, &Vec<usize>)| axes.iter().any(|axis| is_few(b, Some(*axis), FEW_NUMBERS));
    uses.axes.iter().all(is_small_row)
        && uses.sums.iter().chain(&uses.alike).all(|b| is_few(b, None, PRIVATE_ROW.unsigned_abs()))
}

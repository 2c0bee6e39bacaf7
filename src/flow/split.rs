//! Flows for kernels: what the steps of a loop compute is neither computed again nor stored where nobody needs it.
//!
//! The adjoint of a loop, as it is derived and printed, runs a step three times: forwards, backwards, and lifted over time for the log of calls. Here
//! the three learn of each other:
//!
//! ```text
//! hoist     scan t < T, s. F(X(t), s)                      ==  X' = gen t < T. X(t); scan t < T, s. F(X'[t], s)
//! log       P = scan t < T, s. F(s);  y = sum t < T. A(P[t])   ==  (P, y) = scan t < T, (s, y = 0). (F(s), y + A(s))
//!                                                         or  ==  (P, A') = scan t < T, (s, _). (F(s), A(s));  y = sum t < T. A'[t + 1]
//! places    P = scan t < T, s. F(s);  y = gen t. P[t, k(t)]  ==  (s, V) = scan t < T, (s, _). (F(s), s[k(t)]);  y = gen t. V[t + 1]
//! tables    scan t < T, s. F(X(2j - t), s)          ==  X' = gen k. X(k); scan t < T, s. F(X'[2j - t], s)
//! residual  P = scan t < T, s. F(s);  scan t < T. G(X(P[t]))   ==  (P, X') = scan t < T, (s, _). (F(s), X(s));  scan t < T. G(X'[t + 1])
//! ```
//!
//! *Hoist*: what a step computes from neither state is computed before the loop: once, or for all steps as one product of matrices.
//!
//! *Log*: a sum over time of what a loop has at hand at each step. Where what one step gives is smaller than the result, as the factors of an outer
//! product are, it is stored for all steps, and the sum stays a product of matrices; else it is added up in the loop, and nothing of it is stored. A
//! sum is taken into a loop only if the step has all reductions in it already.
//!
//! *Residual*: what a later loop computes from the states of an earlier one that computed it, too, is stored by the earlier one, or computed again,
//! by a minimal cut of the statements in between: stored numbers against operations.
//!
//! *Tables*: what a step computes by functions that take long from its number and from indices through sums of them alone is computed for each sum, before the loop.
//!
//! *Places*: of a path that is read at a place of each state alone, as where a step updates one element, that element is stored, and not the path.
//!
//! *Log* comes before simplification, [`take_in`]: what a step and a sum over steps have in common are equal statements as they are derived, and
//! need not be behind it. The others come behind it, [`split`]: what is stored is a number like others, of which simplification knows nothing.
//!
//! `F` and `G` are single leaves; of other loops nothing is changed. What stands for the same thing in two loops is found by hash-consing the
//! statements of both over the same values, states being what paths are at the step. Values are the same but for the order of sums over time.
//!
//! | file | job |
//! |---|---|
//! | `hoist`, `log`, `places`, `residual`, `tables` | the five |
//! | `step` | leaves of steps under construction: places in paths, statements that stand for values |
//! | `demand` | statements under the tests of their readers |
//! | `cut` | minimal cuts |

mod cut;
mod demand;
mod hoist;
mod log;
mod places;
mod residual;
mod step;
mod tables;

pub(super) use step::adds_up;

use std::collections::BTreeSet;

use super::build::Builder;
use super::data::{Loops, Program, Scan, Stmt, ValueId, scans};
use super::join::join;
use crate::base::{RelationId, SizeId};
use crate::error::Result;
use crate::index::{Size, Var};
use crate::ty::RelationKind;

/// The flow with sums over time taken into its loops, where that is less work or less memory.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
pub fn take_in(program: &Program) -> Result<Program> {
    each_block(program, &Lengths::of(program, &|_| None, false), &[log::block])
}

/// The flow with sums over time taken into its loops, whatever is less work: where nobody else reads a path, it need not be kept.
///
/// # Errors
/// As [`take_in`].
pub(super) fn add_up(program: &Program) -> Result<Program> {
    each_block(program, &Lengths::of(program, &|_| None, true), &[log::block])
}

/// The flow in which no step computes what an earlier loop has computed, or what is the same without its states. Some sizes have values.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
pub fn split(program: &Program, sizes: &dyn Fn(SizeId) -> Option<i64>) -> Result<Program> {
    each_block(
        program,
        &Lengths::of(program, sizes, false),
        &[tables::block, places::block, residual::block, hoist::block],
    )
}

type Pass = fn(&mut Builder, Vec<Stmt>, &Loops, &Lengths<'_>) -> Result<Vec<Stmt>>;

fn each_block(program: &Program, lengths: &Lengths<'_>, passes: &[Pass]) -> Result<Program> {
    if !program.body.iter().any(|stmt| matches!(stmt, Stmt::Scan(_))) {
        return Ok(program.clone());
    }
    let mut flow = Builder::resume(program);
    let body = block(&mut flow, &program.body, &Loops::new(), lengths, passes)?;
    join(&flow.finish(body, program.outputs.clone()))
}

// Scans nest to a bounded depth.
fn block(
    flow: &mut Builder,
    body: &[Stmt],
    loops: &Loops,
    lengths: &Lengths<'_>,
    passes: &[Pass],
) -> Result<Vec<Stmt>> {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        out.push(match stmt {
            Stmt::Leaf(leaf) => Stmt::Leaf(leaf.clone()),
            Stmt::Call(call) => Stmt::Call(call.clone()),
            Stmt::Scan(scan) => {
                let mut inside = loops.clone();
                inside.push((scan.index, scan.steps.clone()));
                Stmt::Scan(Scan { body: block(flow, &scan.body, &inside, lengths, passes)?, ..scan.clone() })
            }
        });
    }
    passes.iter().try_fold(out, |body, pass| pass(flow, body, loops, lengths))
}

/// How long axes are, as far as it is known, and what counts.
pub(super) struct Lengths<'a> {
    sizes: &'a dyn Fn(SizeId) -> Option<i64>,
    /// Whether memory alone counts: no sum over time is a product of what is stored for all steps.
    adds_up: bool,
    /// Results, and states after a step: what is read by no statement of a block alone.
    results: BTreeSet<ValueId>,
    /// The relations that are maps.
    maps: BTreeSet<RelationId>,
}

impl<'a> Lengths<'a> {
    fn of(program: &Program, sizes: &'a dyn Fn(SizeId) -> Option<i64>, adds_up: bool) -> Lengths<'a> {
        let mut results: BTreeSet<ValueId> = program.outputs.iter().flat_map(|output| output.values.clone()).collect();
        results.extend(scans(&program.body).iter().flat_map(|scan| &scan.states).map(|state| state.after));
        let relations = &program.signature.relations;
        let maps = relations.iter().filter(|(_, found)| found.kind == RelationKind::Map).map(|(map, _)| map).collect();
        Lengths { sizes, adds_up, results, maps }
    }
}

impl Lengths<'_> {
    /// A length of which nothing is known.
    const TYPICAL: i64 = 64;

    fn length(&self, n: &Size) -> f64 {
        let mut value = |v: &Var| match v {
            Var::Size(n) => Some((self.sizes)(*n).unwrap_or(Lengths::TYPICAL)),
            Var::Index(_) | Var::Apply(_) => None,
        };
        match n.evaluate(&mut value) {
            Some(Ok(n)) => n.max(0) as f64,
            _ => Lengths::TYPICAL as f64,
        }
    }

    /// The number of points of a box.
    fn points<'b>(&self, dims: impl IntoIterator<Item = &'b Size>) -> f64 {
        dims.into_iter().map(|n| self.length(n)).product()
    }
}

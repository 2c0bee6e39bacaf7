//! How many iterations the loops of a program take for given sizes and relations, before any of them runs: nobody can end a kernel.
//!
//! It is an estimate: the bounds of a loop are taken where the indices around it are in the middle of their ranges, which is the mean for bounds
//! that are affine in them, and the nodes below a node are as many as there are on average. What a condition on indices guards counts for nothing, so
//! that no program is refused for loops that it does not run.

use std::collections::BTreeMap;

use super::layout::fold;
use crate::base::{Id, IndexId};
use crate::error::{Error, Result};
use crate::index::Affine;
use crate::loops::{Bound, Cond, Domain, Program, Stmt};
use crate::tensor::Bindings;

/// What is counted, as errors say.
pub const ITERATIONS: &str = "iterations of loops";

/// Refuses a program whose loops take more iterations than a limit.
///
/// # Errors
/// [`Error::Limit`]; [`Error::Overflow`] where an index expression leaves the range of integers.
pub(super) fn check(program: &Program, bindings: &Bindings, arrays: &[Vec<u32>], limit: u64) -> Result<()> {
    let mut effort = Effort { bindings, arrays, middle: BTreeMap::new() };
    let mut total = 0.0;
    for nest in &program.nests {
        total += effort.body(&nest.body)?;
    }
    match total > limit as f64 {
        // The cast saturates.
        true => Err(Error::Limit { what: ITERATIONS, limit, found: total as u64 }),
        false => Ok(()),
    }
}

struct Effort<'a> {
    bindings: &'a Bindings,
    arrays: &'a [Vec<u32>],
    /// The middle of the range of each index around.
    middle: BTreeMap<IndexId, f64>,
}

impl Effort<'_> {
    fn body(&mut self, body: &[Stmt]) -> Result<f64> {
        body.iter().try_fold(0.0, |sum, stmt| Ok(sum + self.stmt(stmt)?))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<f64> {
        let (index, (from, values), body) = match stmt {
            // Data decide when it ends.
            Stmt::For { index, body, .. } if body.iter().any(|stmt| matches!(stmt, Stmt::End(_))) => {
                (*index, (0.0, 1.0), body)
            }
            Stmt::For { index, domain, body, .. } => (*index, self.domain(domain)?, body),
            Stmt::Extremum { extent, at, body, .. } => (*at, (0.0, self.value(extent)?), body),
            Stmt::Length { index, .. } => {
                self.middle.insert(*index, 1.0);
                return Ok(0.0);
            }
            Stmt::If { cond, body } => return if self.holds(cond)? { self.body(body) } else { Ok(0.0) },
            _ => return Ok(0.0),
        };
        let values = values.max(0.0);
        self.middle.insert(index, from + (values - 1.0).max(0.0) / 2.0);
        Ok(values * (1.0 + self.body(body)?))
    }

    /// The least value and how many there are.
    fn domain(&self, domain: &Domain) -> Result<(f64, f64)> {
        Ok(match domain {
            Domain::Range { lower, upper } => {
                let ends =
                    |bounds: &[Bound]| bounds.iter().map(|bound| self.bound(bound)).collect::<Result<Vec<f64>>>();
                let from = ends(lower)?.into_iter().fold(f64::NEG_INFINITY, f64::max);
                let to = ends(upper)?.into_iter().fold(f64::INFINITY, f64::min);
                (from, to - from + 1.0)
            }
            Domain::Segment(segment) => match self.arrays.get(segment.pointers.index()).map(Vec::as_slice) {
                Some([first, .., last]) => {
                    let nodes = f64::from(last.saturating_sub(*first));
                    let parents = self.arrays.get(segment.pointers.index()).map_or(1, |pointers| pointers.len() - 1);
                    (nodes / 2.0, nodes / parents as f64)
                }
                _ => (0.0, 0.0),
            },
            Domain::Part { whole, parts, .. } => {
                let (from, values) = self.domain(whole)?;
                (from + values / 2.0, values / f64::from((*parts).max(1)))
            }
        })
    }

    fn bound(&self, bound: &Bound) -> Result<f64> {
        Ok((self.value(&bound.numerator)? / bound.divisor.max(1) as f64).floor())
    }

    fn value(&self, a: &Affine) -> Result<f64> {
        let (terms, constant) = fold(a, self.bindings)?;
        let middle = |i: &IndexId| self.middle.get(i).copied().unwrap_or(0.0);
        Ok(terms.iter().fold(constant as f64, |sum, (i, k)| sum + *k as f64 * middle(i)))
    }

    /// Whether a condition is known to hold: one on sizes alone.
    fn holds(&self, cond: &Cond) -> Result<bool> {
        let value = |a: &Affine| {
            let (terms, constant) = fold(a, self.bindings)?;
            Ok::<_, Error>(terms.is_empty().then_some(constant))
        };
        Ok(match cond {
            Cond::NonNegative(a) => value(a)?.is_some_and(|k| k >= 0),
            Cond::Zero(a) => value(a)? == Some(0),
            Cond::NonZero(a) => value(a)?.is_some_and(|k| k != 0),
            Cond::Support(_) | Cond::NoSupport(_) => false,
            Cond::All(conds) => {
                for cond in conds {
                    if !self.holds(cond)? {
                        return Ok(false);
                    }
                }
                true
            }
            Cond::Any(conds) => {
                for cond in conds {
                    if self.holds(cond)? {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }
}

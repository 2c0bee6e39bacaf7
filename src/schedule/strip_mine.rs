//! Sums along columns, with bounds that move with the column, run for strips of columns.
//!
//! ```text
//! for i in 0 .. n - 1                          for q in 0 .. (n - 1) / 32
//!   s = 0                                        for i in 32q .. min(32q + 31, n - 1)
//!   for k in 0 .. i { s += A[k, i] * y[k] }        w[i] = sum of k in 0 .. 32q of A[k, i] * y[k]
//!   x[i] = s                            ==       for i in 32q .. min(32q + 31, n - 1)
//!                                                  s = w[i]
//!                                                  for k in 32q + 1 .. i { s += A[k, i] * y[k] }
//!                                                  x[i] = s
//! ```
//!
//! A triangle is read by columns: neighbours in memory belong to neighbouring sums, and these have different lengths, so neither loop has
//! lanes with neighbours. In a strip of columns all sums have most of their summands in common, and those run in lanes; what is left is a
//! small triangle.
//!
//! **Why it is right.** The bound that moves is at its tightest at one end of the strip. Up to there every sum of the strip has its summands, and
//! from there on the second loop goes on with the others. A bound that runs past the last column only moves summands to the second loop. The sums
//! of a strip are kept in a workspace of their own, one place for each value of the outer index.
//!
//! **Where it is done.** In an outermost loop from a constant up to a size, for innermost sums over ranges with one exact bound that moves by one with
//! the outer index, where neighbours of that index are loaded and nothing is that lies along the sum inside of a row of the outer index. What the
//! sum uses of the numbers before it is made again in the strip, if it is not loaded from what the nest writes.

use std::collections::BTreeSet;

use super::machine::LANES_OF_ELEMENTS;
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Affine, Checked, Size, Var};
use crate::loops::{
    Bound, Buffer, BufferId, Decision, Domain, Fresh, Nest, Place, Program, Real, RealId, Stmt, changes_outside,
    outer_sums, stores, title,
};

/// How many values of the outer index a strip has: the lanes of the loop over them.
const STRIP: i64 = LANES_OF_ELEMENTS as i64;

/// Cuts outer loops into strips.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { nests, buffers, .. } = program;
    for nest in nests.iter_mut() {
        let Some(at) = nest.body.iter().position(|stmt| matches!(stmt, Stmt::For { .. })) else { continue };
        let mut strips = Strips {
            name: title(buffers, nest),
            names: Fresh::after(&nest.body),
            written: stores(&nest.body).into_iter().map(|place| place.buffer).collect(),
            made: Vec::new(),
        };
        let Some(stmt) = nest.body.get(at) else { continue };
        if let Some(stmt) = strips.outer(stmt, buffers)? {
            note(nest, at, stmt, &strips.made);
        }
    }
    Ok(())
}

fn note(nest: &mut Nest, at: usize, stmt: Stmt, made: &[BufferId]) {
    nest.body[at] = stmt;
    nest.buffers.extend(made);
    nest.decisions.push(Decision::Strips { columns: u64::from(LANES_OF_ELEMENTS), sums: made.len() });
}

struct Strips {
    /// What the nest makes.
    name: String,
    names: Fresh,
    written: BTreeSet<BufferId>,
    /// The workspaces of sums.
    made: Vec<BufferId>,
}

/// The outer loop.
struct Outer<'a> {
    index: IndexId,
    /// The index of strips, and the first value in one.
    strip: IndexId,
    first: Affine,
    last: &'a Size,
}

impl Outer<'_> {
    /// The values in a strip.
    fn domain(&self) -> Checked<Domain> {
        let end = Bound::exact(self.first.add_constant(STRIP - 1)?);
        Ok(Domain::Range {
            lower: vec![Bound::exact(self.first.clone())],
            upper: vec![end, Bound::exact(self.last.clone())],
        })
    }
}

impl Strips {
    /// The loop over strips; nothing where no sum gains.
    fn outer(&mut self, stmt: &Stmt, buffers: &mut Arena<BufferId, Buffer>) -> Checked<Option<Stmt>> {
        let Stmt::For { index, domain: Domain::Range { lower, upper }, lanes: 1, jam: 1, body, .. } = stmt else {
            return Ok(None);
        };
        let ([lower], [upper]) = (lower.as_slice(), upper.as_slice()) else { return Ok(None) };
        let Some(from) = lower.numerator.as_constant().filter(|from| *from >= 0 && lower.divisor == 1) else {
            return Ok(None);
        };
        if upper.divisor != 1 || !upper.numerator.is_size() || changes_outside(body) {
            return Ok(None);
        }
        let strip = self.names.fresh_index();
        let first = Affine::index(strip).scale(STRIP)?.add_constant(from)?;
        let outer = Outer { index: *index, strip, first, last: &upper.numerator };
        let (mut sums, mut rest) = (Vec::new(), Vec::with_capacity(body.len()));
        for (at, stmt) in body.iter().enumerate() {
            match self.cut(&outer, body.get(..at).unwrap_or_default(), stmt, buffers)? {
                Some((sum, others)) => {
                    sums.push(sum);
                    rest.extend(others);
                }
                None => rest.push(stmt.clone()),
            }
        }
        if sums.is_empty() {
            return Ok(None);
        }
        sums.push(Stmt::one_by_one(*index, outer.domain()?, rest));
        let numerator = upper.numerator.add_constant(-from)?;
        let domain = Domain::Range {
            lower: vec![Bound::exact(Affine::constant(0))],
            upper: vec![Bound { numerator, divisor: STRIP }],
        };
        Ok(Some(Stmt::one_by_one(outer.strip, domain, sums)))
    }

    /// Of a sum what all values of the strip have in common, as a loop over them, and what is left in its place.
    fn cut(
        &mut self,
        outer: &Outer<'_>,
        before: &[Stmt],
        stmt: &Stmt,
        buffers: &mut Arena<BufferId, Buffer>,
    ) -> Checked<Option<(Stmt, Vec<Stmt>)>> {
        let Stmt::For { index, domain: Domain::Range { lower, upper }, lanes: 1, jam: 1, parallel: false, body } = stmt
        else {
            return Ok(None);
        };
        let gains = is_sum(body) && runs_along(outer.index, *index, body);
        let Some(needs) = self.needs(before, stmt).filter(|_| gains) else { return Ok(None) };
        let Some((common, left)) = two(outer, lower, upper)? else { return Ok(None) };
        let sums = outer_sums(body);
        self.names.again();
        let lane = self.names.index(outer.index);
        let mut inside = self.names.body(&needs)?;
        let locals: Vec<Stmt> = sums.iter().map(|r| Stmt::Local(*r)).collect();
        inside.extend(self.names.body(&locals)?);
        inside.extend(self.names.body(&[Stmt::one_by_one(*index, common, body.clone())])?);
        let mut rest = Vec::new();
        for r in sums {
            let dims = vec![outer.last.add_constant(1)?];
            let buffer = buffers.push(Buffer::workspace(format!("{}_strip", self.name), None, dims));
            self.made.push(buffer);
            let place = |i: IndexId| Place { buffer, at: vec![i.into()] };
            inside.extend(self.names.body(&[Stmt::Store(place(outer.index), r)])?);
            let sum = self.names.fresh_real();
            rest.extend([Stmt::Define(sum, Real::Load(place(outer.index))), Stmt::Accumulate(r, sum)]);
        }
        rest.push(Stmt::one_by_one(*index, left, body.clone()));
        Ok(Some((Stmt::one_by_one(lane, outer.domain()?, inside), rest)))
    }

    /// The numbers before a loop that it needs; nothing where they cannot be made elsewhere.
    fn needs(&self, before: &[Stmt], stmt: &Stmt) -> Option<Vec<Stmt>> {
        let (mut reads, mut needs) = (BTreeSet::new(), Vec::new());
        let own = match stmt {
            Stmt::For { body, .. } => outer_sums(body),
            _ => BTreeSet::new(),
        };
        let note = |stmt: &Stmt, reads: &mut BTreeSet<RealId>| {
            stmt.visit(&mut |stmt| {
                stmt.visit_reads(&mut |r| {
                    reads.insert(r);
                });
            });
        };
        note(stmt, &mut reads);
        let mut indices: BTreeSet<IndexId> = BTreeSet::new();
        stmt.visit(&mut |stmt| stmt.visit_indices(&mut |i| indices.extend([i])));
        for stmt in before.iter().rev() {
            if stmt.defines().any(|i| indices.contains(&i)) {
                return None;
            }
            match stmt {
                Stmt::Define(r, real) if reads.contains(r) => {
                    let is_given = |place: &Place| !self.written.contains(&place.buffer);
                    if matches!(real, Real::Load(place) if !is_given(place)) {
                        return None;
                    }
                    note(stmt, &mut reads);
                    stmt.visit_indices(&mut |i| indices.extend([i]));
                    needs.push(stmt.clone());
                }
                Stmt::Local(r) if reads.contains(r) => return None,
                _ => {}
            }
        }
        let loads_given = |stmt: &Stmt| stmt.load().is_none_or(|place| !self.written.contains(&place.buffer));
        let mut declared = BTreeSet::new();
        before.iter().for_each(|stmt| {
            declared.extend(match stmt {
                Stmt::Local(r) => Some(*r),
                _ => None,
            })
        });
        needs.reverse();
        (own.is_subset(&declared) && stmt.body().iter().all(loads_given)).then_some(needs)
    }
}

/// Whether statements add to registers and do nothing else.
fn is_sum(body: &[Stmt]) -> bool {
    body.iter().all(|stmt| matches!(stmt, Stmt::Define(..) | Stmt::Accumulate(..) | Stmt::MulAdd(..)))
        && body.iter().any(|stmt| matches!(stmt, Stmt::Accumulate(..) | Stmt::MulAdd(..)))
}

/// Whether a sum loads neighbours for neighbouring values of the outer index, and else only what these have in common.
fn runs_along(outer: IndexId, inner: IndexId, body: &[Stmt]) -> bool {
    let mut found = false;
    let fits = body.iter().filter_map(Stmt::load).all(|place| {
        let Some((last, others)) = place.at.split_last() else { return true };
        let moves = others.iter().any(|a| a.mentions(outer));
        let next = last.coefficient(&Var::Index(outer)) == 1 && !last.mentions(inner) && !moves;
        found |= next && others.iter().any(|a| a.mentions(inner));
        next || !moves && !last.mentions(outer)
    });
    found && fits
}

/// The values of a sum that all of a strip have in common, and the others.
fn two(outer: &Outer<'_>, lower: &[Bound], upper: &[Bound]) -> Checked<Option<(Domain, Domain)>> {
    let moves = |bound: &&Bound| bound.numerator.mentions(outer.index);
    let (low, high): (Vec<&Bound>, Vec<&Bound>) =
        (lower.iter().filter(moves).collect(), upper.iter().filter(moves).collect());
    let (bound, is_lower) = match (low.as_slice(), high.as_slice()) {
        ([bound], []) => (*bound, true),
        ([], [bound]) => (*bound, false),
        _ => return Ok(None),
    };
    let step = bound.numerator.coefficient(&Var::Index(outer.index));
    if bound.divisor != 1 || step.unsigned_abs() != 1 {
        return Ok(None);
    }
    // A lower bound is tightest where it is largest, an upper one where it is smallest.
    let tightest = if (step == 1) == is_lower { outer.first.add_constant(STRIP - 1)? } else { outer.first.clone() };
    let tight = bound.numerator.substitute(&|i| (i == outer.index).then(|| tightest.clone()))?;
    let replaced = |bounds: &[Bound]| {
        let fixed = bounds.iter().filter(|other| *other != bound).cloned();
        fixed.chain([Bound::exact(tight.clone())]).collect::<Vec<_>>()
    };
    let (common, left) = if is_lower {
        (
            Domain::Range { lower: replaced(lower), upper: upper.to_vec() },
            Domain::Range { lower: lower.to_vec(), upper: Bound::and(upper, tight.add_constant(-1)?) },
        )
    } else {
        (
            Domain::Range { lower: lower.to_vec(), upper: replaced(upper) },
            Domain::Range { lower: Bound::and(lower, tight.add_constant(1)?), upper: upper.to_vec() },
        )
    };
    Ok(Some((common, left)))
}

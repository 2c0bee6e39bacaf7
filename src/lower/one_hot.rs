//! Tensors that say at which place a number stands: one-hot tensors.
//!
//! ```text
//! c = gen g, q. (k[g] = q)
//! sum q. [c[g, q] != 0] * x[q]     ==  x[k[g]] where k[g] is an integer within the range of q, else 0
//! ```
//!
//! A number equals at most one integer, so at most one element of such a tensor is not zero along `q`, and the number says which: it is loaded, and
//! its integer part cut to the range of the axis is the only place to look at. The guard is still tested there, so nothing rests on what the number
//! is: a fraction, a NaN, a number beyond the axis is no place. An access takes one step in place of one for each `q`.

use crate::base::{Id, IndexId, VarId};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, View};
use crate::loops::{Cond, Decision, Place, Stmt};
use crate::scalar::{Comparison, Function, Number, Op, Primitive};
use crate::tssa::{Program, Rhs};

use super::plan::Placement;
use super::points::{Body, Open};
use super::scope::Nester;

/// A tensor that is zero but where its index on an axis is a number.
pub(super) struct OneHot {
    pub axis: usize,
    /// The tensor that holds the number.
    pub number: VarId,
    /// The axes of the one-hot tensor that are those of the numbers.
    pub at: Vec<usize>,
}

impl OneHot {
    /// A tensor as such a one.
    pub fn of(program: &Program, x: VarId) -> Option<OneHot> {
        let Rhs::Map { function: Function::Value(Primitive::Op(Op::Compare(Comparison::Equal))), args, .. } =
            &program.stmts.get(x)?.rhs
        else {
            return None;
        };
        let [a, b] = args.as_slice() else { return None };
        [(a, b), (b, a)].into_iter().find_map(|(index, number)| {
            let Rhs::Number(Number::Index(index)) = &program.stmts.get(*index)?.rhs else { return None };
            let axis = index.as_index()?.index();
            let (number, at) = read_at(program, *number);
            (!at.contains(&axis)).then_some(OneHot { axis, number, at })
        })
    }

    /// An atom that asks a one-hot tensor, and its arguments.
    pub fn asked<'p>(program: &Program, p: &'p Pred) -> Option<(OneHot, &'p [Affine])> {
        let Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds: true } = p
        else {
            return None;
        };
        Some((OneHot::of(program, *var)?, args))
    }

    /// The arguments at which the number is read.
    pub fn source(&self, args: &[Affine]) -> Vec<Affine> {
        self.at.iter().filter_map(|axis| args.get(*axis).cloned()).collect()
    }
}

/// The tensor of which another is a copy with other axes, and which of the copy's axes it has.
fn read_at(program: &Program, copy: VarId) -> (VarId, Vec<usize>) {
    let rank = program.stmts[copy].dims.len();
    let (mut x, mut at): (VarId, Vec<usize>) = (copy, (0..rank).collect());
    while let Rhs::Contract { sums, guard: Pred::True, operands } = &program.stmts[x].rhs {
        let ([], [operand]) = (sums.as_slice(), operands.as_slice()) else { break };
        let axes = operand.indices.iter().map(|i| at.get(i.index()).copied()).collect::<Option<Vec<usize>>>();
        let Some(axes) = axes else { break };
        (x, at) = (operand.var, axes);
    }
    (x, at)
}

impl<'a> Nester<'a> {
    /// The one-hot tensor that an atom asks, where the number is stored dense, and known, and tells an index that has no value.
    pub(super) fn tells<'p>(&self, p: &'p Pred, waits: &dyn Fn(&Affine) -> bool) -> Option<(OneHot, &'p [Affine])> {
        let (one_hot, args) = OneHot::asked(self.program, p)?;
        let stored = match &self.plan.placements[one_hot.number] {
            Placement::Given(stored) | Placement::Stored(stored) => stored.entries.is_none(),
            Placement::Dead | Placement::Inline(_) => false,
        };
        let known = !one_hot.source(args).iter().any(waits);
        (stored && known && args.get(one_hot.axis).is_some_and(waits)).then_some((one_hot, args))
    }

    /// An atom that [tells](Self::tells) an index.
    pub(super) fn told(&self, open: &Open) -> Option<usize> {
        let told = |p: &Pred| {
            let (one_hot, args) = self.tells(p, &|a| open.waits(a))?;
            open.unit(args.get(one_hot.axis)?)
        };
        open.conjuncts.iter().position(|p| told(p).is_some())
    }

    /// Gives the index the value that the number has. The atom stays, as a test.
    pub(super) fn bind_told(&mut self, open: &Open, at: usize, body: Body<'_, 'a>) -> Result<()> {
        let atom = open.conjuncts[at].clone();
        let Some((one_hot, args)) = OneHot::asked(self.program, &atom) else { return self.range(open.clone(), body) };
        let source = one_hot.source(args);
        let program = self.program;
        let Pred::Relation { relation: RelationRef::Computed { var, .. }, .. } = &atom else { return Ok(()) };
        let (extent, last) = (&program.stmts[*var].dims[one_hot.axis], &args[one_hot.axis]);
        let ranges = self.ranges_of(&source, &program.stmts[one_hot.number].dims)?;
        self.guarded(&ranges, &mut |nester| {
            source.iter().zip(&program.stmts[one_hot.number].dims).for_each(|(a, n)| nester.claim(a, n));
            let index = nester.integer(&one_hot, &source, extent)?;
            let inside = extent.sub(&index.into())?.add_constant(-1)?;
            nester.test(Cond::NonNegative(inside), &mut |nester| {
                nester.claim_index(index, extent);
                let next = nester.bind(open, last, index, extent)?;
                nester.step(next, body)
            })
        })
    }

    /// The integer part of the number, from 0 to the extent: made once for each number, as far out as it is known.
    fn integer(&mut self, one_hot: &OneHot, source: &[Affine], extent: &Affine) -> Result<IndexId> {
        let x = one_hot.number;
        if let Some(found) = self.integer_found(x, source, extent) {
            return Ok(found);
        }
        let dims = &self.program.stmts[x].dims;
        let known = source.iter().zip(dims).map(|(a, n)| self.range_level(a, n).unwrap_or(self.innermost()));
        let level = self.past_tests(known.max().unwrap_or(0));
        self.decide(Decision::Told {});
        let plan = self.plan;
        self.at_level(level, |nester| {
            let (Placement::Given(stored) | Placement::Stored(stored)) = &plan.placements[x] else {
                return Err(crate::error::Error::bug(super::PASS, "a number that tells a place is not stored"));
            };
            let index = nester.fresh_index();
            let place = Place { buffer: stored.buffer, at: source.to_vec() };
            nester.emit(Stmt::Length { index, place, most: extent.clone() });
            nester.remember_integer(x, source, extent, index);
            Ok(index)
        })
    }
}

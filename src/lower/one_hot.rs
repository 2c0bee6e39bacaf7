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

use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef};
use crate::loops::{Cond, Decision, Place, Stmt};
use crate::tssa::one_hot::OneHot;

use super::plan::Placement;
use super::points::{Body, Open};
use super::scope::Nester;

impl<'a> Nester<'a> {
    /// The one-hot tensor that an atom asks, where the number is stored dense, and known, and tells an index that has no value.
    pub(super) fn tells<'p>(&self, p: &'p Pred, waits: &dyn Fn(&Affine) -> bool) -> Option<(OneHot, &'p [Affine])> {
        let (one_hot, args) = OneHot::asked(self.program, p)?;
        let stored = match &self.plan.placements[one_hot.number] {
            Placement::Given(stored) | Placement::Stored(stored) => stored.entries.is_none(),
            Placement::Dead | Placement::Inline(_) => false,
        };
        let known = !one_hot.source(args).ok()?.iter().any(waits);
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

    /// An index at which a number is read that tells another one, of a row whose extremum has its place there, or of a source of a map, so that a loop over
    /// the first leaves none over the second.
    pub(super) fn source_of_told(&self, open: &Open) -> Option<usize> {
        open.conjuncts.iter().find_map(|p| {
            let source = match p {
                Pred::Relation { relation, args, holds: true } if self.is_map(*relation) => {
                    let (place, source) = args.split_last()?;
                    open.unit(place)?;
                    source.to_vec()
                }
                p => {
                    let (one_hot, args) = OneHot::asked(self.program, p)?;
                    let placement = &self.plan.placements[one_hot.number];
                    let stored = matches!(placement, Placement::Given(_) | Placement::Stored(_));
                    open.unit(args.get(one_hot.axis)?).filter(|_| stored)?;
                    one_hot.source(args).ok()?
                }
            };
            open.unbound.iter().position(|(i, _)| source.iter().any(|a| a.mentions(*i)))
        })
    }

    /// Gives the index the value that the number has. The atom stays, as a test.
    pub(super) fn bind_told(&mut self, open: &Open, at: usize, body: Body<'_, 'a>) -> Result<()> {
        let atom = open.conjuncts[at].clone();
        let Some((one_hot, args)) = OneHot::asked(self.program, &atom) else { return self.range(open.clone(), body) };
        let source = one_hot.source(args)?;
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

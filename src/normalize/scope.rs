//! The indices in scope, and what a guard over all of them says of some.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{IndexId, SideTable};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, Size, Var};
use crate::solver::{Facts, exists_all};
use crate::ty::{Signature, Types};

/// The `gen` and `sum` indices around the place that a walk has reached, outermost first.
///
/// Opening and closing an index and looking one up take constant time. [`Scope::project`] looks at the guard, at the indices kept and at
/// the distinct ranges in scope, not at every index, so that long nests stay cheap.
pub(super) struct Scope {
    binders: Vec<(IndexId, Size)>,
    /// The place of an index in `binders`, counted from 1; 0 where it is not in scope.
    places: SideTable<IndexId, u32>,
    /// The ranges in scope that may be empty, and how many indices have them.
    maybe_empty: BTreeMap<Size, usize>,
    /// The ranges met so far, and whether the assumptions exclude that they are empty.
    never_empty: BTreeMap<Size, bool>,
    /// What is assumed of sizes.
    facts: Facts,
}

impl Scope {
    /// Nothing in scope yet.
    pub fn new(signature: &Signature) -> Self {
        Scope {
            binders: Vec::new(),
            places: SideTable::new(0, 0),
            maybe_empty: BTreeMap::new(),
            never_empty: BTreeMap::new(),
            facts: signature.facts(),
        }
    }

    /// Opens an index.
    pub fn open(&mut self, index: IndexId, extent: &Size) -> Result<()> {
        let never_empty = match self.never_empty.get(extent) {
            Some(known) => *known,
            None => {
                let proved = self.facts.proves(&not_empty(extent)?);
                self.never_empty.insert(extent.clone(), proved);
                proved
            }
        };
        if !never_empty {
            *self.maybe_empty.entry(extent.clone()).or_insert(0) += 1;
        }
        self.binders.push((index, extent.clone()));
        // A term has at most `u32::MAX` parts.
        self.places.set(index, self.binders.len() as u32);
        Ok(())
    }

    /// Closes the innermost index.
    pub fn close(&mut self) {
        let Some((index, extent)) = self.binders.pop() else { return };
        self.places.set(index, 0);
        if let Some(count) = self.maybe_empty.get_mut(&extent) {
            *count -= 1;
            if *count == 0 {
                self.maybe_empty.remove(&extent);
            }
        }
    }

    /// The innermost index and its range.
    pub fn innermost(&self) -> Option<(IndexId, Size)> {
        self.binders.last().cloned()
    }

    /// The number of indices in scope.
    pub fn len(&self) -> usize {
        self.binders.len()
    }

    /// The place of an index, counted from the outermost; nothing where it is not in scope, as for those bound by `exists`.
    pub fn place(&self, index: IndexId) -> Option<usize> {
        (self.places[index] as usize).checked_sub(1)
    }

    /// The range of an index in scope.
    pub fn extent(&self, index: IndexId) -> Option<&Size> {
        self.binders.get(self.place(index)?).map(|(_, n)| n)
    }

    /// The indices of a set in nesting order with their ranges, as axes of a tensor.
    ///
    /// # Errors
    /// [`Error::Limit`] over [`Types::MAX_RANK`].
    pub fn axes(&self, indices: &BTreeSet<IndexId>) -> Result<Vec<(IndexId, Size)>> {
        let mut places: Vec<usize> = indices.iter().filter_map(|i| self.place(*i)).collect();
        if places.len() > Types::MAX_RANK {
            let (limit, found) = (Types::MAX_RANK as u64, places.len() as u64);
            return Err(Error::Limit { what: "axes of a tensor", limit, found });
        }
        places.sort_unstable();
        Ok(places.into_iter().map(|at| self.binders[at].clone()).collect())
    }

    /// Collects the indices of an expression that are in scope.
    pub fn note(&self, a: &Affine, found: &mut BTreeSet<IndexId>) {
        a.visit(&mut |v| {
            if let Var::Index(i) = v
                && self.place(*i).is_some()
            {
                found.insert(*i);
            }
        });
    }

    /// Collects the indices of a predicate that are in scope.
    pub fn note_pred(&self, p: &Pred, found: &mut BTreeSet<IndexId>) {
        p.visit_affine(&mut |a| self.note(a, found));
    }

    /// `exists (I \ kept). guard` for the indices `I` in scope: where a value that depends on `kept` only is needed.
    ///
    /// A range that may be empty counts, also of an index that the guard does not mention. Bounds that follow from the assumptions on sizes
    /// and from the ranges of `kept` are left out.
    pub fn project(&self, guard: &Pred, kept: &[(IndexId, Size)]) -> Result<Pred> {
        let mut dropped = BTreeSet::new();
        self.note_pred(guard, &mut dropped);
        for (i, _) in kept {
            dropped.remove(i);
        }
        let mut places: Vec<usize> = dropped.iter().filter_map(|i| self.place(*i)).collect();
        places.sort_unstable();
        let dropped: Vec<(IndexId, Size)> = places.into_iter().map(|at| self.binders[at].clone()).collect();
        let mut ranges: BTreeSet<&Size> = self.maybe_empty.keys().collect();
        // An index that is kept has a range that is not empty, and `exists` demands it of one that is dropped.
        for (_, n) in kept.iter().chain(&dropped) {
            ranges.remove(n);
        }
        let result = exists_all(&dropped, guard)?;
        let ranges = ranges.into_iter().map(not_empty).collect::<Result<Vec<_>>>()?;
        if dropped.is_empty() && !guard.conjuncts().iter().any(is_size_bound) {
            return Ok(Pred::all(ranges).and(result));
        }
        let facts = self.facts.under(kept, []);
        let given = guard.conjuncts();
        let implied = |p: &Pred| {
            let made_here = matches!(p, Pred::NonNegative(_)) && !given.contains(p);
            (made_here || is_size_bound(p)) && facts.proves(p)
        };
        let conjuncts = result.conjuncts().iter().filter(|p| !implied(p)).cloned();
        // The constant `false` is a conjunct of its own.
        Ok(Pred::all(conjuncts.chain(ranges)))
    }
}

/// Whether a predicate bounds a size.
fn is_size_bound(p: &Pred) -> bool {
    matches!(p, Pred::NonNegative(a) if a.is_size())
}

/// `0 < n`.
fn not_empty(n: &Size) -> Result<Pred> {
    Ok(Pred::non_negative(n.add_constant(-1)?))
}

//! Where statements are read, and what holds there.
//!
//! A guard of many conjuncts that ask for computed numbers is a place where each of them reads, beside all others. So what holds is shared: the
//! readings are as many as the atoms, and not as the pairs of them.

use std::rc::Rc;

use super::{MAX_SIZES, Trust, is_about_sizes};
use crate::base::{IndexId, VarId, work};
use crate::index::bounds::{common, tightest};
use crate::index::{Affine, Pred, RelationRef, Size, View};
use crate::simplify::graph::slots;
use crate::tssa::Program;

/// An element of a statement.
pub(super) type Element = (VarId, Vec<Affine>);

/// The elements that make a product zero where they are, by what is trusted to be finite.
#[derive(Clone, Default)]
pub(super) struct Factors(pub(super) [Vec<Element>; 4]);

impl Factors {
    pub(super) fn by(&self, trust: Trust) -> &[Element] {
        &self.0[trust as usize]
    }
}

/// A place at which a statement is read: at which indices, and what holds there. Where one of the factors is zero the result is zero,
/// whatever finite number is read; what is read is finite.
#[derive(Clone)]
pub(super) struct Reading {
    pub(super) at: Vec<Affine>,
    pub(super) scope: Rc<Scope>,
    pub(super) holds: Vec<Held>,
    /// Whether a NaN of the reader is one of a result.
    pub(super) seen: bool,
}

/// What stands around a place.
#[derive(Clone, Default)]
pub(super) struct Scope {
    pub(super) ranges: Vec<(IndexId, Size)>,
    pub(super) factors: Factors,
    /// How many of the ranges are axes of the reader, and not summed.
    pub(super) rank: usize,
}

/// Predicates that hold, all or all but one.
#[derive(Clone)]
pub(super) struct Held {
    all: Rc<Stated>,
    but: Option<usize>,
}

struct Stated {
    preds: Vec<Pred>,
    /// Those of their conjuncts that are about sizes.
    sizes: Vec<Pred>,
}

impl Held {
    pub(super) fn all(preds: Vec<Pred>) -> Held {
        let sizes = preds.iter().flat_map(Pred::conjuncts).filter(|p| is_about_sizes(p)).cloned().collect();
        Held { all: Rc::new(Stated { preds, sizes }), but: None }
    }

    /// All but one, which reads computed numbers and so is not about sizes.
    fn but(&self, at: usize) -> Held {
        Held { all: self.all.clone(), but: Some(at) }
    }

    fn preds(&self) -> impl Iterator<Item = &Pred> {
        self.all.preds.iter().enumerate().filter(|(at, _)| Some(*at) != self.but).map(|(_, p)| p)
    }
}

impl Reading {
    /// All that holds there.
    pub(super) fn preds(&self) -> Vec<Pred> {
        let all: Vec<Pred> = self.holds.iter().flat_map(Held::preds).cloned().collect();
        work::charge(all.len());
        all
    }

    /// The facts about sizes: those of the reader come first.
    fn sizes(&self) -> Vec<Pred> {
        let not_empty = |(_, n): &(IndexId, Size)| n.add_constant(-1).map(Pred::non_negative).ok();
        let holds = self.holds.iter().flat_map(|held| held.all.sizes.iter().cloned());
        let all: Vec<Pred> = self.scope.ranges.iter().filter_map(not_empty).chain(holds).collect();
        // Down a chain of windows each range is longer than the one before, and what the first says is said of all.
        tightest(&all)
    }
}

/// The facts about sizes that hold at all readings; of more than a few the first.
pub(super) fn common_sizes(readings: &[Reading]) -> Vec<Pred> {
    let all = readings.iter().map(Reading::sizes).reduce(|these, those| common(&these, &those));
    let mut all = all.unwrap_or_default();
    all.truncate(MAX_SIZES);
    all
}

/// What a guard reads as relations, given what holds around it: what stands beside an atom holds, or the atom does not matter.
pub(super) fn guard_reads(program: &Program, p: &Pred, around: &Reading, found: &mut Vec<(VarId, Reading)>) {
    work::charge(1);
    match p {
        Pred::All(ps) if p.reads_computed() => {
            let beside = Held::all(ps.to_vec());
            for (at, part) in ps.iter().enumerate().filter(|(_, part)| part.reads_computed()) {
                let mut inner = around.clone();
                inner.holds.push(beside.but(at));
                guard_reads(program, part, &inner, found);
            }
        }
        Pred::Any(ps) => ps.iter().for_each(|p| guard_reads(program, p, around, found)),
        Pred::Exists { index, extent, body } => {
            let mut inner = around.clone();
            Rc::make_mut(&mut inner.scope).ranges.push((*index, extent.clone()));
            guard_reads(program, body, &inner, found);
        }
        Pred::Relation { relation: RelationRef::Computed { var, view }, args, .. } => {
            work::charge(16);
            let reading = match view {
                View::Support => Reading { at: args.clone(), ..around.clone() },
                // A row is read as a whole to find its largest element.
                View::ArgMax | View::ArgMin => {
                    let ranges = slots(&program.stmts[*var].dims);
                    let at = Affine::indices(&ranges);
                    let holds = vec![Held::all(around.sizes())];
                    let scope = Scope { rank: ranges.len(), ranges, factors: Factors::default() };
                    Reading { at, scope: Rc::new(scope), holds, seen: true }
                }
            };
            found.push((*var, reading));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Id as _, SizeId};

    fn plus(k: i64) -> Size {
        Affine::size(SizeId::from_index(0)).add_constant(k).unwrap()
    }

    fn reading(ranges: Vec<(IndexId, Size)>, holds: Vec<Held>) -> Reading {
        let rank = ranges.len();
        let scope = Rc::new(Scope { ranges, factors: Factors::default(), rank });
        Reading { at: Vec::new(), scope, holds, seen: true }
    }

    /// Down a chain of windows, where each statement has a longer range than the one that reads it.
    #[test]
    fn what_is_known_of_sizes_does_not_pile_up() {
        let mut known = Vec::new();
        for k in 0..1000 {
            known = common_sizes(&[reading(vec![(IndexId(0), plus(2 * k))], vec![Held::all(known)])]);
            assert_eq!(known, [Pred::non_negative(plus(-1))]);
        }
        // Readers that know different bounds have the looser one in common.
        let two = [3, 5].map(|k| reading(vec![(IndexId(0), plus(k))], Vec::new()));
        assert_eq!(common_sizes(&two), [Pred::non_negative(plus(4))]);
    }

    /// A guard of many tests of computed numbers is kept once for all the places where it reads them.
    #[test]
    fn conjuncts_are_shared_by_the_places_beside_them() {
        let program =
            crate::driver::Function::parse("param x : [n] real\nsum i < n. x[i]").unwrap().tensor_ssa().clone();
        let test = |at: usize| {
            let relation = RelationRef::Computed { var: VarId::from_index(at), view: View::Support };
            Pred::relation(relation, vec![Affine::index(IndexId(0))])
        };
        let mut found = Vec::new();
        guard_reads(&program, &Pred::all((0..50).map(test)), &reading(Vec::new(), Vec::new()), &mut found);
        assert_eq!(found.len(), 50);
        let shared = |(_, reading): &(VarId, Reading)| reading.holds[0].all.clone();
        assert!(found.iter().all(|one| Rc::ptr_eq(&shared(one), &shared(&found[0])) && one.1.preds().len() == 49));
    }
}

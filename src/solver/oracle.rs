//! For tests: predicates evaluated by their definition over small worlds, and random predicates.

use std::collections::{BTreeMap, BTreeSet};

use super::World;
use crate::base::{IndexId, RelationId, SizeId};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var};

/// The relation that is a map, from the first place to the second.
pub(crate) const MAP: RelationRef = RelationRef::Input(RelationId(2));

/// Sizes, relations and one map with gaps.
#[derive(Clone, Debug)]
pub(crate) struct Toy {
    pub(crate) sizes: Vec<i64>,
    pub(crate) relations: Vec<BTreeSet<Vec<i64>>>,
    /// Whether a source without target is sent to 0.
    pub(crate) total: bool,
    /// Whether relations can be enumerated.
    pub(crate) enumerable: bool,
}

impl World for Toy {
    fn size(&self, n: SizeId) -> i64 {
        self.sizes[n.0 as usize]
    }

    fn holds(&self, relation: RelationRef, tuple: &[i64]) -> bool {
        self.tuples(relation).contains(tuple)
    }

    fn candidates(&self, relation: RelationRef, known: &[Option<i64>], axis: usize) -> Option<Vec<i64>> {
        let agrees = |tuple: &&Vec<i64>| known.iter().zip(*tuple).all(|(k, t)| k.is_none_or(|k| k == *t));
        let places: BTreeSet<i64> = self.tuples(relation).iter().filter(agrees).map(|t| t[axis]).collect();
        self.enumerable.then(|| places.into_iter().collect())
    }

    fn apply(&self, map: RelationRef, source: &[i64]) -> Option<i64> {
        self.tuples(map)
            .iter()
            .find(|t| t[..source.len()] == *source)
            .map(|t| t[source.len()])
            .or(self.total.then_some(0))
    }
}

impl Toy {
    fn tuples(&self, relation: RelationRef) -> &BTreeSet<Vec<i64>> {
        match relation {
            RelationRef::Input(r) => &self.relations[r.0 as usize],
            RelationRef::Computed { .. } => unreachable!("the toy world has no tensors"),
        }
    }

    /// Sizes from `least` to 4; relation 0 has one place, 1 has two, 2 is a map.
    pub(crate) fn random(rng: &mut fastrand::Rng, least: i64) -> Toy {
        let sizes: Vec<i64> = (0..2).map(|_| rng.i64(least..5)).collect();
        let mut relations = vec![BTreeSet::new(); 3];
        for a in 0..4 {
            if rng.bool() {
                relations[0].insert(vec![a]);
            }
            for b in 0..4 {
                if rng.u8(0..3) == 0 {
                    relations[1].insert(vec![a, b]);
                }
            }
            if rng.u8(0..4) > 0 {
                relations[2].insert(vec![a, rng.i64(0..4)]);
            }
        }
        Toy { sizes, relations, total: false, enumerable: rng.u8(0..3) > 0 }
    }

    /// The value of an affine expression; nothing where a map has no target.
    pub(crate) fn affine(&self, a: &Affine, at: &BTreeMap<IndexId, i64>) -> Option<i64> {
        let value = a.evaluate(&mut |v| match v {
            Var::Index(i) => Some(at[i]),
            Var::Size(n) => Some(self.size(*n)),
            Var::Apply(application) => {
                let source: Option<Vec<i64>> = application.args.iter().map(|a| self.affine(a, at)).collect();
                self.apply(application.map, &source?)
            }
        });
        value.map(|value| value.expect("small numbers"))
    }

    /// Truth by definition.
    pub(crate) fn truth(&self, p: &Pred, at: &mut BTreeMap<IndexId, i64>) -> bool {
        match p {
            Pred::True => true,
            Pred::False => false,
            Pred::NonNegative(a) => self.affine(a, at).is_some_and(|a| a >= 0),
            Pred::Zero(a) => self.affine(a, at) == Some(0),
            Pred::NonZero(a) => self.affine(a, at).is_some_and(|a| a != 0),
            Pred::Relation { relation, args, holds } => {
                let tuple: Option<Vec<i64>> = args.iter().map(|a| self.affine(a, at)).collect();
                tuple.is_some_and(|tuple| self.holds(*relation, &tuple) == *holds)
            }
            Pred::All(ps) => ps.iter().all(|p| self.truth(p, at)),
            Pred::Any(ps) => ps.iter().any(|p| self.truth(p, at)),
            Pred::Exists { index, extent, body } => {
                let extent = self.affine(extent, at).expect("sizes have values");
                (0..extent).any(|i| {
                    let outer = at.insert(*index, i);
                    let holds = self.truth(body, at);
                    match outer {
                        Some(outer) => at.insert(*index, outer),
                        None => at.remove(index),
                    };
                    holds
                })
            }
        }
    }
}

/// Makes random predicates.
pub(crate) struct Source<'a> {
    pub(crate) rng: &'a mut fastrand::Rng,
    /// The indices in scope.
    pub(crate) indices: Vec<IndexId>,
    /// Whether relation atoms may occur.
    pub(crate) relations: bool,
    /// Whether map applications may occur.
    pub(crate) maps: bool,
    /// Whether `exists` may occur.
    pub(crate) exists: bool,
}

impl Source<'_> {
    pub(crate) fn extent(&mut self) -> Size {
        if self.rng.bool() {
            return Affine::size(SizeId(self.rng.u32(0..2)));
        }
        let sizes = [(Var::Size(SizeId(0)), self.rng.i64(0..2)), (Var::Size(SizeId(1)), self.rng.i64(-1..2))];
        Affine::from_terms(sizes, self.rng.i64(-1..2)).expect("small numbers")
    }

    pub(crate) fn affine(&mut self, depth: usize) -> Affine {
        let coefficients = [1, 1, 1, -1, -1, 2, -2, 3];
        let mut terms = Vec::new();
        for _ in 0..self.rng.usize(1..4) {
            let v = match self.rng.u8(0..8) {
                0 | 1 => Var::Size(SizeId(self.rng.u32(0..2))),
                2 if self.maps && depth > 0 => {
                    Var::Apply(Box::new(Application { map: MAP, args: vec![self.affine(depth - 1)] }))
                }
                _ if self.indices.is_empty() => Var::Size(SizeId(0)),
                _ => Var::Index(self.indices[self.rng.usize(..self.indices.len())]),
            };
            terms.push((v, coefficients[self.rng.usize(..coefficients.len())]));
        }
        Affine::from_terms(terms, self.rng.i64(-3..4)).expect("small numbers")
    }

    /// A conjunction of linear atoms that all mention one index, where roundings and divisors decide.
    pub(crate) fn lattice(&mut self, index: IndexId) -> Pred {
        let atom = |source: &mut Self| {
            let rest = [(1, IndexId(0)), (2, IndexId(0)), (1, IndexId(1)), (0, IndexId(0))][source.rng.usize(0..4)];
            let rest = (Var::Index(rest.1), if rest.1 == index { 0 } else { rest.0 });
            let k = [-3, -2, -2, -1, 1, 2, 2, 3][source.rng.usize(0..8)];
            let a = Affine::from_terms([(Var::Index(index), k), rest], source.rng.i64(-4..5)).expect("small numbers");
            match source.rng.u8(0..8) {
                0 | 1 => Pred::zero(a),
                2 => Pred::non_zero(a),
                _ => Pred::non_negative(a),
            }
        };
        Pred::all((0..self.rng.usize(1..4)).map(|_| atom(self)).collect::<Vec<_>>())
    }

    /// A place of a relation: mostly just an index.
    fn place(&mut self) -> Affine {
        match self.rng.u8(0..4) {
            0 => self.affine(1),
            _ if self.indices.is_empty() => self.affine(1),
            _ => Affine::index(self.indices[self.rng.usize(..self.indices.len())]),
        }
    }

    pub(crate) fn pred(&mut self, depth: usize) -> Pred {
        match self.rng.u8(0..if depth == 0 { 6 } else { 12 }) {
            0 | 1 => Pred::non_negative(self.affine(2)),
            2 | 3 => Pred::zero(self.affine(2)),
            4 => Pred::non_zero(self.affine(2)),
            5 if self.relations => {
                let relation = self.rng.u32(0..3);
                let args = (0..[1, 2, 2][relation as usize]).map(|_| self.place()).collect();
                Pred::Relation {
                    relation: RelationRef::Input(RelationId(relation)),
                    args,
                    holds: self.rng.u8(0..3) > 0,
                }
            }
            5 => Pred::non_negative(self.affine(2)),
            6..=8 => Pred::all((0..self.rng.usize(2..4)).map(|_| self.pred(depth - 1)).collect::<Vec<_>>()),
            9 | 10 => Pred::any((0..self.rng.usize(2..4)).map(|_| self.pred(depth - 1)).collect::<Vec<_>>()),
            _ if self.exists => {
                // Numbered by depth, so that siblings share a name.
                let index = IndexId(100 + self.indices.len() as u32);
                let extent = self.extent();
                self.indices.push(index);
                let body = self.pred(depth - 1);
                self.indices.pop();
                Pred::exists(index, extent, body)
            }
            _ => self.pred(depth - 1),
        }
    }
}

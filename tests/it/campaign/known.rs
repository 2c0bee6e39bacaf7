//! The relations of a run, those that are computed from its numbers by definition.

use std::collections::BTreeMap;

use iverson::ir::base::{Id, SizeId, VarId};
use iverson::ir::index::{RelationRef, View};
use iverson::ir::reference::{Environment, Leaf};
use iverson::ir::solver::World;
use iverson::ir::tssa;
use iverson::ir::ty::Types;

use crate::support::evaluate;

/// The relations of a run, and the tensors that others are computed from.
pub(crate) struct Known<'a> {
    environment: &'a Environment<f64>,
    tensors: BTreeMap<VarId, Leaf<f64>>,
}

impl<'a> Known<'a> {
    /// Evaluates the tensors that are read as relations.
    pub(crate) fn new(
        program: &tssa::Program,
        environment: &'a Environment<f64>,
        vars: &[VarId],
    ) -> iverson::Result<Self> {
        let output = |x: &VarId| tssa::Output {
            name: x.to_string(),
            ty: Types::REAL,
            storage: iverson::ir::ty::Storage::Dense,
            leaves: vec![*x],
        };
        let program = tssa::Program { outputs: vars.iter().map(output).collect(), ..program.clone() };
        Ok(Known { environment, tensors: vars.iter().copied().zip(evaluate(&program, environment)?).collect() })
    }

    fn element(&self, var: VarId, tuple: &[i64]) -> Option<f64> {
        let leaf = &self.tensors[&var];
        let mut place = 0;
        for (n, k) in leaf.dims.iter().zip(tuple) {
            let k = usize::try_from(*k).ok().filter(|k| (*k as u64) < *n)?;
            place = place * *n as usize + k;
        }
        leaf.values().get(place).copied()
    }

    /// By definition: the first of the largest or smallest elements, a NaN before all.
    fn extremum(&self, var: VarId, view: View, source: &[i64]) -> Option<i64> {
        let last = *self.tensors[&var].dims.last()?;
        let mut best: Option<(i64, f64)> = None;
        for k in 0..last as i64 {
            let x = self.element(var, &[source, &[k]].concat())?;
            let better = best
                .is_none_or(|(_, y)| !y.is_nan() && (x.is_nan() || if view == View::ArgMin { x < y } else { x > y }));
            if better {
                best = Some((k, x));
            }
        }
        best.map(|(k, _)| k)
    }
}

impl World for Known<'_> {
    fn size(&self, size: SizeId) -> i64 {
        self.environment.sizes[size.index()]
    }

    fn holds(&self, relation: RelationRef, tuple: &[i64]) -> bool {
        match relation {
            RelationRef::Input(r) => self.environment.relations[r.index()].contains(tuple),
            RelationRef::Computed { var, view: View::Support } => self.element(var, tuple).is_some_and(|x| x != 0.0),
            RelationRef::Computed { var, view } => {
                tuple.split_last().is_some_and(|(last, source)| self.extremum(var, view, source) == Some(*last))
            }
        }
    }

    fn candidates(&self, relation: RelationRef, known: &[Option<i64>], axis: usize) -> Option<Vec<i64>> {
        match relation {
            RelationRef::Input(r) => Some(self.environment.relations[r.index()].candidates(known, axis)),
            RelationRef::Computed { .. } => None,
        }
    }

    fn apply(&self, map: RelationRef, source: &[i64]) -> Option<i64> {
        match map {
            RelationRef::Input(r) => self.environment.relations[r.index()].target(source).map(|k| k as i64),
            RelationRef::Computed { var, view } => self.extremum(var, view, source),
        }
    }
}

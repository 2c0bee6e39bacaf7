//! Who reads whom: liveness, pruning, and the dependence graph.
//!
//! Operands come before their users, so the order of the statements is a topological one and a loop over them, forwards or backwards, is all
//! the graph algorithm that is needed here.

use std::collections::BTreeSet;

use super::data::{Operand, Output, Program, Rhs, Stmt};
use super::exchanges::ranges;
use crate::base::dot::Graph;
use crate::base::{Arena, Id, IndexId, ParamId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::{Pred, RelationRef, Var};
use crate::solver::{Facts, Relations, are_determined, solutions};
use crate::ty::{RelationKind, Signature};

impl Program {
    /// The statements that an output needs, directly or not.
    pub fn live(&self) -> SideTable<VarId, bool> {
        let mut live = SideTable::new(self.stmts.len(), false);
        self.outputs.iter().flat_map(|output| &output.leaves).for_each(|x| live.set(*x, true));
        // Users come after their operands, so a backward loop has seen every user of a statement before the statement.
        for x in self.stmts.ids().rev() {
            if live[x] {
                self.stmts[x].rhs.for_each_operand(|operand| live.set(operand, true));
            }
        }
        live
    }

    /// The program without parameters that it does not read.
    ///
    /// # Errors
    /// [`Error::Bug`] if it reads one of them.
    pub fn without(self, gone: &[ParamId]) -> Result<Program> {
        let mut signature = (*self.signature).clone();
        let mut params = Arena::new();
        let mut names: SideTable<ParamId, Option<ParamId>> = SideTable::new(signature.params.len(), None);
        for (id, param) in signature.params.iter().filter(|(id, _)| !gone.contains(id)) {
            names.set(id, Some(params.push(param.clone())));
        }
        signature.params = params;
        let lost = || Error::bug("without", "a program reads a parameter that it is to lose");
        let ids: Vec<_> = signature.relations.ids().collect();
        for id in ids {
            if let RelationKind::Pattern(param) = &mut signature.relations[id].kind {
                *param = names[*param].ok_or_else(lost)?;
            }
        }
        let mut program = Program { signature: signature.into(), ..self };
        let stmts: Vec<VarId> = program.stmts.ids().collect();
        for x in stmts {
            if let Rhs::Input { param, .. } = &mut program.stmts[x].rhs {
                *param = names[*param].ok_or_else(lost)?;
            }
        }
        Ok(program)
    }

    /// The program without statements that no output needs. Order is kept, so canonical operand order is as well.
    ///
    /// # Errors
    /// [`Error::Bug`] if an operand does not come before its user.
    pub fn prune(self) -> Result<Program> {
        let live = self.live();
        if self.stmts.ids().all(|x| live[x]) {
            return Ok(self);
        }
        let mut renumbered: SideTable<VarId, Option<VarId>> = SideTable::new(self.stmts.len(), None);
        let mut stmts: Arena<VarId, Stmt> = Arena::new();
        let mut names = Arena::new();
        for (x, stmt) in self.stmts.iter().filter(|(x, _)| live[*x]) {
            let stmt = stmt.rename(&|operand| renumbered[operand])?;
            names.push(self.names[x].clone());
            renumbered.set(x, Some(stmts.push(stmt)));
        }
        let outputs = self
            .outputs
            .into_iter()
            .map(|output| {
                let leaves =
                    output.leaves.iter().map(|x| renumbered[*x].ok_or_else(unordered)).collect::<Result<_>>()?;
                Ok(Output { leaves, ..output })
            })
            .collect::<Result<_>>()?;
        Ok(Program { signature: self.signature, stmts, names, outputs })
    }

    /// The dependence graph in the DOT language.
    pub fn to_dot(&self) -> String {
        let names = self.stmt_names();
        let mut dot = Graph::new("tensor-ssa");
        for (x, stmt) in self.stmts.iter() {
            dot.node(x, &format!("{} = {}", names.get(x), super::print::rhs_text(&self.signature, &names, stmt)));
        }
        for (x, stmt) in self.stmts.iter() {
            let mut operands = BTreeSet::new();
            stmt.rhs.for_each_operand(|operand| {
                operands.insert(operand);
            });
            operands.into_iter().for_each(|operand| dot.edge(operand, x, ""));
        }
        for output in &self.outputs {
            dot.node(&output.name, &format!("out {}", output.name));
            output.leaves.iter().for_each(|x| dot.edge(x, &output.name, ""));
        }
        dot.finish()
    }
}

fn unordered() -> Error {
    Error::bug("tensor-ssa", "an operand does not come before its user")
}

/// In more cases an access is none.
const MAX_CASES: usize = 4;

impl Stmt {
    /// Whether a contraction has at most one summand at each place, since its guard determines all `sum` indices by equations and maps. It is an
    /// access then: its value is that of the summand, with the sign of a zero.
    pub fn is_access(&self, signature: &Signature) -> bool {
        !self.rhs.sums().is_empty() && self.determines_sums(&|relation| signature.gives_targets(relation))
    }

    /// Whether the guard gives every `sum` index a value that the `gen` indices determine by equations and maps of the data, so that it takes
    /// neither a loop nor a search.
    pub fn has_no_loop(&self, signature: &Signature) -> bool {
        self.determines_sums(&|relation| signature.is_map(relation))
    }

    /// In how many cases the guard gives every `sum` index a value, as one that wraps around at the end of an axis is in two; nothing where it does not, or
    /// there are more than `MAX_CASES`.
    ///
    /// ```text
    /// x[(i + 1) mod n]   ==   sum k < n. [i + 1 = k or i + 1 = k + n] * x[k]
    /// ```
    pub fn cases(&self, signature: &Signature) -> Option<usize> {
        let Rhs::Contract { guard, .. } = &self.rhs else { return Some(1) };
        if self.has_no_loop(signature) {
            return Some(1);
        }
        let is_map = |relation| signature.is_map(relation);
        let mut cases: Vec<Vec<&Pred>> = vec![Vec::new()];
        for p in guard.conjuncts() {
            let choice = match p {
                Pred::Any(choice) => &choice[..],
                p => std::slice::from_ref(p),
            };
            if cases.len() * choice.len() > MAX_CASES {
                return None;
            }
            let before = std::mem::take(&mut cases);
            for case in &before {
                cases.extend(choice.iter().map(|p| case.iter().copied().chain(p.conjuncts()).collect::<Vec<_>>()));
            }
        }
        let open = self.sum_indices();
        let all = cases.iter().all(|case| are_determined(&open, case.iter().copied(), &is_map));
        all.then_some(cases.len())
    }

    /// What is known at its indices where a guard holds.
    pub(crate) fn facts(&self, guard: &Pred) -> Facts {
        Facts::new().under(&ranges(self.dims.iter().chain(self.rhs.sums())), [&guard.alpha_normal()])
    }

    /// The `gen` index that an equation among some conjuncts ties a `sum` index to, up to a shift.
    pub(crate) fn tied(&self, k: IndexId, conjuncts: &[Pred]) -> Option<IndexId> {
        solutions(&[k], conjuncts).find_map(|(_, _, value)| {
            let mut indices = value.terms().iter().filter(|(v, _)| matches!(v, Var::Index(_)));
            match (indices.next(), indices.next()) {
                (Some((Var::Index(i), 1 | -1)), None) if i.index() < self.dims.len() => Some(*i),
                _ => None,
            }
        })
    }

    fn sum_indices(&self) -> Vec<IndexId> {
        let rank = self.dims.len();
        (rank..rank + self.rhs.sums().len()).map(IndexId::from_index).collect()
    }

    fn determines_sums(&self, is_map: &dyn Fn(RelationRef) -> bool) -> bool {
        let Rhs::Contract { guard, .. } = &self.rhs else { return true };
        are_determined(&self.sum_indices(), guard.conjuncts(), is_map)
    }

    /// The same statement over renamed tensors.
    ///
    /// # Errors
    /// [`Error::Bug`] if a tensor has no new name.
    pub fn rename(&self, name: &impl Fn(VarId) -> Option<VarId>) -> Result<Stmt> {
        let var = |x: VarId| name(x).ok_or_else(unordered);
        let pred = |p: &Pred| {
            p.map_relations(&mut |r| {
                Ok::<_, Error>(match r {
                    RelationRef::Computed { var: x, view } => RelationRef::Computed { var: var(x)?, view },
                    input @ RelationRef::Input(_) => input,
                })
            })
        };
        let rhs = match &self.rhs {
            closed @ (Rhs::Input { .. } | Rhs::Number(_)) => closed.clone(),
            Rhs::Add([(p, x), (q, y)]) => Rhs::Add([(pred(p)?, var(*x)?), (pred(q)?, var(*y)?)]),
            Rhs::Map { guard, function, args } => Rhs::Map {
                guard: pred(guard)?,
                function: *function,
                args: args.iter().map(|x| var(*x)).collect::<Result<_>>()?,
            },
            Rhs::Contract { sums, guard, operands } => Rhs::Contract {
                sums: sums.clone(),
                guard: pred(guard)?,
                operands: operands
                    .iter()
                    .map(|x| Ok(Operand { var: var(x.var)?, indices: x.indices.clone() }))
                    .collect::<Result<_>>()?,
            },
        };
        Ok(Stmt { dims: self.dims.clone(), rhs })
    }
}

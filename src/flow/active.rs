//! Which values depend on some parameters and values, differentiably.

use std::collections::BTreeSet;

use super::data::{Leaf, Stmt, ValueId};
use crate::base::ParamId;
use crate::diff;
use crate::error::Result;
use crate::tssa::Rhs;

/// What derivatives are taken by, and what depends on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Active {
    pub params: BTreeSet<ParamId>,
    pub values: BTreeSet<ValueId>,
}

impl Active {
    /// What is active and not in another one.
    pub fn without(&self, other: &Active) -> Active {
        let values = self.values.difference(&other.values).copied().collect();
        Active { params: self.params.difference(&other.params).copied().collect(), values }
    }

    /// The parameters of the program of a leaf that are active and read.
    pub fn params_of(&self, leaf: &Leaf) -> Vec<ParamId> {
        let mut found = BTreeSet::new();
        for stmt in leaf.program.stmts.values() {
            let Rhs::Input { param, .. } = stmt.rhs else { continue };
            let active = match leaf.taken(param) {
                None => self.params.contains(&param),
                Some(x) => self.values.contains(x),
            };
            if active {
                found.insert(param);
            }
        }
        found.into_iter().collect()
    }

    /// Adds what depends on what is active, of the values of some statements. Partial derivatives in leaves are expanded.
    pub fn through(&mut self, body: &[Stmt]) -> Result<()> {
        for stmt in body {
            match stmt {
                Stmt::Leaf(leaf) => {
                    let wrt = self.params_of(leaf);
                    if wrt.is_empty() {
                        continue;
                    }
                    let active = diff::active(&leaf.program, &wrt)?;
                    for (x, output) in leaf.gives.iter().zip(&leaf.program.outputs) {
                        if output.leaves.iter().any(|var| active[*var]) {
                            self.values.insert(*x);
                        }
                    }
                }
                Stmt::Call(call) => {
                    if call.takes.iter().any(|x| self.values.contains(x)) {
                        self.values.extend(&call.gives);
                    }
                }
                // Each time around at least one state more is active.
                Stmt::Scan(scan) => loop {
                    let before = self.values.len();
                    for state in &scan.states {
                        // A solution does not depend on where it was looked for.
                        let init = scan.implicit.is_none() && self.values.contains(&state.init);
                        if init || self.values.contains(&state.after) {
                            self.values.extend([state.before, state.path, state.last]);
                        }
                    }
                    self.through(&scan.body)?;
                    if self.values.len() == before {
                        break;
                    }
                },
            }
        }
        Ok(())
    }
}

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
                        if [state.init, state.after].iter().any(|x| self.values.contains(x)) {
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

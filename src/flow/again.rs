//! Statements once more.
//!
//! ```text
//! ys = F(xs)  ==  ys' = F(xs'),   xs' what stands for xs
//! ```

use std::collections::BTreeMap;

use super::build::Builder;
use super::data::{Call, Early, Leaf, Scan, State, Stmt, ValueId};

/// Statements once more, which give other values: `copies` has what stands for those that they read, and gets what stands for those they give.
// Scans nest to a bounded depth.
pub(super) fn again(flow: &mut Builder, body: &[Stmt], copies: &mut BTreeMap<ValueId, ValueId>) -> Vec<Stmt> {
    let of = |x: ValueId, copies: &BTreeMap<ValueId, ValueId>| copies.get(&x).copied().unwrap_or(x);
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        match stmt {
            Stmt::Leaf(leaf) => {
                let takes = leaf.takes.iter().map(|x| of(*x, copies)).collect();
                let gives = leaf.gives.iter().map(|x| copy(flow, *x, copies)).collect();
                out.push(Stmt::Leaf(Leaf { program: leaf.program.clone(), takes, gives }));
            }
            Stmt::Call(call) => {
                let takes = call.takes.iter().map(|x| of(*x, copies)).collect();
                let gives = call.gives.iter().map(|x| copy(flow, *x, copies)).collect();
                let when = call.when.map(|x| of(x, copies));
                out.push(Stmt::Call(Call { when, takes, gives, ..call.clone() }));
            }
            Stmt::Scan(scan) => {
                let mut states = Vec::with_capacity(scan.states.len());
                for state in &scan.states {
                    let init = of(state.init, copies);
                    let before = copy(flow, state.before, copies);
                    states.push(State { init, before, ..*state });
                }
                let body = again(flow, &scan.body, copies);
                for state in &mut states {
                    state.after = of(state.after, copies);
                    state.path = copy(flow, state.path, copies);
                    state.last = copy(flow, state.last, copies);
                }
                let early = scan.early.clone().map(|early| Early { changes: of(early.changes, copies), ..early });
                out.push(Stmt::Scan(Scan { states, early, body, ..scan.clone() }));
            }
        }
    }
    out
}

fn copy(flow: &mut Builder, x: ValueId, copies: &mut BTreeMap<ValueId, ValueId>) -> ValueId {
    let value = flow.get(x).clone();
    let new = flow.value(value.name, value.ty, value.storage);
    copies.insert(x, new);
    new
}

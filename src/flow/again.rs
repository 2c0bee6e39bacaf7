//! Statements once more.
//!
//! ```text
//! ys = F(xs)  ==  ys' = F'(xs'),   xs' what stands for xs, F' with what stands for sizes
//! ```
//!
//! Where nothing stands for sizes leaves have the programs that they had, and loops their indices.

use std::collections::BTreeMap;

use super::build::Builder;
use super::data::{Call, Early, Leaf, Loops, Scan, State, Stmt, ValueId};
use super::leaf::{Joined, Source};
use crate::base::SizeId;
use crate::error::Result;
use crate::index::{Affine, Checked, Size, Var};
use crate::ty::Types;

/// What stands for values and sizes; it gets what stands for the values that statements give.
#[derive(Default)]
pub(super) struct Copies {
    pub values: BTreeMap<ValueId, ValueId>,
    pub sizes: BTreeMap<SizeId, Affine>,
}

impl Copies {
    /// What stands for values at the same sizes.
    pub fn of_values(values: impl IntoIterator<Item = (ValueId, ValueId)>) -> Copies {
        Copies { values: values.into_iter().collect(), ..Copies::default() }
    }

    pub fn value(&self, x: ValueId) -> ValueId {
        self.values.get(&x).copied().unwrap_or(x)
    }

    fn affine(&self, a: &Affine) -> Checked<Affine> {
        a.replace(&mut |v| Ok(if let Var::Size(n) = v { self.sizes.get(n).cloned() } else { None }))
    }

    /// A new value for one that the statements give.
    fn give(&mut self, flow: &mut Builder, x: ValueId) -> Result<ValueId> {
        let mut value = flow.get(x).clone();
        if !self.sizes.is_empty() {
            let dims = flow.dims(x)?.iter().map(|n| self.affine(n)).collect::<Checked<Vec<_>>>()?;
            value.ty = flow.types().tensor_of(&dims, Types::REAL);
        }
        let new = flow.value(value.name, value.ty, value.storage);
        self.values.insert(x, new);
        Ok(new)
    }

    /// Statements within some loops once more, which give other values.
    // Scans nest to a bounded depth.
    pub fn block(&mut self, flow: &mut Builder, body: &[Stmt], loops: &Loops) -> Result<Vec<Stmt>> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            out.push(match stmt {
                Stmt::Leaf(leaf) => Stmt::Leaf(self.leaf(flow, leaf, loops)?),
                Stmt::Scan(scan) => Stmt::Scan(self.scan(flow, scan, loops)?),
                Stmt::Call(call) => Stmt::Call(self.call(flow, call)?),
            });
        }
        Ok(out)
    }

    fn leaf(&mut self, flow: &mut Builder, leaf: &Leaf, loops: &Loops) -> Result<Leaf> {
        let takes: Vec<ValueId> = leaf.takes.iter().map(|x| self.value(*x)).collect();
        let gives = leaf.gives.iter().map(|x| self.give(flow, *x)).collect::<Result<Vec<_>>>()?;
        if self.sizes.is_empty() {
            return Ok(Leaf { program: leaf.program.clone(), takes, gives });
        }
        let sources: Vec<Source> = takes.into_iter().map(Source::Value).collect();
        let mut joined = Joined::new(flow);
        let vars = joined.statements_resized(leaf, &sources, &|a| self.affine(a))?;
        joined.give_all(&Leaf { program: leaf.program.clone(), takes: Vec::new(), gives: gives.clone() }, &vars)?;
        joined.finish(flow, loops, gives)
    }

    fn call(&mut self, flow: &mut Builder, call: &Call) -> Result<Call> {
        let takes = call.takes.iter().map(|x| self.value(*x)).collect();
        let when = call.when.map(|x| self.value(x));
        let gives = call.gives.iter().map(|x| self.give(flow, *x)).collect::<Result<_>>()?;
        let all = |sizes: &[Size]| sizes.iter().map(|n| self.affine(n)).collect::<Checked<Vec<_>>>();
        Ok(Call { function: call.function, sizes: all(&call.sizes)?, axes: all(&call.axes)?, when, takes, gives })
    }

    fn scan(&mut self, flow: &mut Builder, scan: &Scan, loops: &Loops) -> Result<Scan> {
        let steps = self.affine(&scan.steps)?;
        let mut index = scan.index;
        if !self.sizes.is_empty() {
            let name = flow.frame().sizes.get(scan.index).cloned().unwrap_or_default();
            index = flow.index(&name);
            self.sizes.insert(scan.index, Affine::size(index));
        }
        let mut states = Vec::with_capacity(scan.states.len());
        for state in &scan.states {
            let (init, before) = (self.value(state.init), self.give(flow, state.before)?);
            states.push(State { init, before, ..*state });
        }
        let mut inside = loops.clone();
        inside.push((index, steps.clone()));
        let body = self.block(flow, &scan.body, &inside)?;
        for state in &mut states {
            state.after = self.value(state.after);
            state.path = self.give(flow, state.path)?;
            state.last = self.give(flow, state.last)?;
        }
        let early = match &scan.early {
            Some(early) => Some(Early { changes: self.value(early.changes), most: self.affine(&early.most)? }),
            None => None,
        };
        let implicit = scan.implicit.as_ref().map(|most| self.affine(most)).transpose()?;
        Ok(Scan { index, steps, states, early, implicit, body, ..scan.clone() })
    }
}

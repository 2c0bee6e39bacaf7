//! The forward derivative of a flow: tangents beside values.
//!
//! ```text
//! D[ys = F(xs)]                      ==  ys = F(xs); dys = D F(xs; dxs)
//! D[scan t < T, s = a. b]            ==  scan t < T, (s, ds) = (a, da). (b, db)       where D[b] gives db
//! ```
//!
//! Leaves are derived by [`diff::forward`]. States that depend on nothing that has a tangent have none. Work: each step has at most 4 times that of
//! the step (Thm 6.1), since leaves are joined with their derivatives.

use std::collections::BTreeMap;

use super::active::Active;
use super::build::Builder;
use super::data::{Loops, Output, Program, Scan, State, Stmt, ValueId};
use super::extend::extended;
use super::join::join;
use super::leaf::{Joined, Small, Source, sources};
use crate::base::{Id, ParamId};
use crate::diff;
use crate::error::{Error, Result};
use crate::ty::Storage;

const PASS: &str = "forward";

/// The forward derivative by some parameters, and the parameter of the tangent of each.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn forward(program: &Program, wrt: &[ParamId], with_value: bool) -> Result<(Program, Vec<(ParamId, ParamId)>)> {
    let tangent = |x: &ParamId| {
        let param = &program.signature.params[*x];
        (format!("d{}", param.name), param.ty, param.storage)
    };
    let (program, tangents) = extended(program, &wrt.iter().map(tangent).collect::<Vec<_>>())?;
    let tangents: Vec<(ParamId, ParamId)> = wrt.iter().copied().zip(tangents).collect();
    let mut active = Active { params: wrt.iter().copied().collect(), ..Active::default() };
    active.through(&program.body)?;
    let mut derive = Forward {
        flow: Builder::resume(&program),
        active,
        params: tangents.iter().copied().collect(),
        values: BTreeMap::new(),
    };
    let mut body = derive.block(&program.body, &Vec::new())?;
    let mut outputs = if with_value { program.outputs.clone() } else { Vec::new() };
    for output in &program.outputs {
        let name = match output.name.as_str() {
            "value" => "tangent".to_owned(),
            name => format!("tangent_{name}"),
        };
        let values = output.values.iter().map(|x| derive.tangent(*x, &Vec::new(), &mut body));
        outputs.push(Output { name, ty: output.ty, values: values.collect::<Result<_>>()? });
    }
    Ok((join(&derive.flow.finish(body, outputs))?, tangents))
}

struct Forward {
    flow: Builder,
    active: Active,
    /// The tangents of parameters.
    params: BTreeMap<ParamId, ParamId>,
    /// The tangents of values.
    values: BTreeMap<ValueId, ValueId>,
}

impl Forward {
    /// The tangent of a value, a leaf of zeros where it has none.
    fn tangent(&mut self, x: ValueId, loops: &Loops, out: &mut Vec<Stmt>) -> Result<ValueId> {
        if let Some(dx) = self.values.get(&x) {
            return Ok(*dx);
        }
        let value = self.flow.get(x).clone();
        let dims = self.flow.frame().types.real_dims(value.ty);
        let dims = dims.ok_or_else(|| Error::bug(PASS, "a value that is no tensor of reals"))?;
        let leaf = Small { flow: &mut self.flow, loops }.constant(&format!("d{}", value.name), &dims, 0.0)?;
        let dx = leaf.gives.first().copied().ok_or_else(|| Error::bug(PASS, "a leaf without a value"))?;
        out.push(Stmt::Leaf(leaf));
        Ok(dx)
    }

    // Scans nest to a bounded depth.
    fn block(&mut self, body: &[Stmt], loops: &Loops) -> Result<Vec<Stmt>> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            match stmt {
                Stmt::Leaf(leaf) => {
                    out.push(stmt.clone());
                    let wrt = self.active.params_of(leaf);
                    if wrt.is_empty() {
                        continue;
                    }
                    let derived = diff::forward(&leaf.program, &wrt, false)?;
                    let outer = leaf.outer_params();
                    let mut all = sources(leaf);
                    for (x, _) in &derived.tangents {
                        let source = match x.index().checked_sub(outer).and_then(|at| leaf.takes.get(at)) {
                            None => self.params.get(x).copied().map(Source::Param),
                            Some(x) => self.values.get(x).copied().map(Source::Value),
                        };
                        all.push(source.ok_or_else(|| Error::bug(PASS, "what is active has no tangent"))?);
                    }
                    let mut joined = Joined::new(&self.flow);
                    let outputs = joined.append(&derived.program, outer, &all, &BTreeMap::new())?;
                    let mut gives = Vec::new();
                    for (x, output) in leaf.gives.iter().zip(outputs) {
                        if !self.active.values.contains(x) {
                            continue;
                        }
                        let value = self.flow.get(*x).clone();
                        let dx = self.flow.value(format!("d{}", value.name), value.ty, value.storage);
                        output.leaves.iter().for_each(|var| joined.give(dx, *var));
                        self.values.insert(*x, dx);
                        gives.push(dx);
                    }
                    out.push(Stmt::Leaf(joined.finish(&self.flow, loops, gives)?));
                }
                Stmt::Scan(scan) => {
                    let scan = self.scan(scan, loops, &mut out)?;
                    out.push(Stmt::Scan(scan));
                }
            }
        }
        Ok(out)
    }

    fn scan(&mut self, scan: &Scan, loops: &Loops, out: &mut Vec<Stmt>) -> Result<Scan> {
        let mut inside = loops.clone();
        inside.push((scan.index, scan.steps.clone()));
        let moving: Vec<State> =
            scan.states.iter().filter(|state| self.active.values.contains(&state.before)).copied().collect();
        let mut states = scan.states.clone();
        for state in &moving {
            let init = self.tangent(state.init, loops, out)?;
            let value = self.flow.get(state.before).clone();
            let before = self.flow.value(format!("d{}", value.name), value.ty, Storage::Dense);
            self.values.insert(state.before, before);
            states.push(State { init, before, after: state.after, path: state.path });
        }
        let mut body = self.block(&scan.body, &inside)?;
        for (state, tangent) in moving.iter().zip(states.iter_mut().skip(scan.states.len())) {
            tangent.after = self.tangent(state.after, &inside, &mut body)?;
            let path = self.flow.get(state.path).clone();
            tangent.path = self.flow.value(format!("d{}", path.name), path.ty, Storage::Dense);
            self.values.insert(state.path, tangent.path);
        }
        Ok(Scan { states, body, ..scan.clone() })
    }
}

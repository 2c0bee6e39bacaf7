//! The forward derivative of a flow: tangents beside values.
//!
//! ```text
//! D[ys = F(xs)]                      ==  ys = F(xs); dys = D F(xs; dxs)
//! D[scan t < T, s = a. b]            ==  scan t < T, (s, ds) = (a, da). (b, db)       where D[b] gives db
//! ```
//!
//! A scan that is a [fixpoint](super::implicit) has a rule of its own. Leaves are derived by [`diff::forward`]. States that depend on nothing that has a tangent have none. Work: each step has at most 4 times that of
//! the step (Thm 6.1), since leaves are joined with their derivatives.

use std::collections::BTreeMap;

use super::active::Active;
use super::again::Copies;
use super::build::Builder;
use super::data::{Call, Leaf, Loops, Output, Program, Scan, State, Stmt, ValueId};
use super::extend::extended;
use super::implicit::{Equation, solve};
use super::join::join;
use super::leaf::{Joined, Small, Source, sources};
use crate::base::ParamId;
use crate::diff;
use crate::error::{Error, Result};
use crate::index::Size;
use crate::scalar::external::Derivative;
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
    let sources = tangents.iter().map(|(x, dx)| (*x, Source::Param(*dx))).collect();
    let mut derive = Forward::new(Builder::resume(&program), vec![Direction::new(sources, &program.body)?]);
    let mut body = derive.block(&program.body, &Vec::new())?;
    let mut outputs = if with_value { program.outputs.clone() } else { Vec::new() };
    for output in &program.outputs {
        let name = match output.name.as_str() {
            "value" => "tangent".to_owned(),
            name => format!("tangent_{name}"),
        };
        let values = output.values.iter().map(|x| derive.tangent(0, *x, &Vec::new(), &mut body));
        outputs.push(Output { name, ty: output.ty, values: values.collect::<Result<_>>()? });
    }
    Ok((join(&derive.flow.finish(body, outputs))?, tangents))
}

/// A tangent of each of some parameters, and what follows from them.
pub(super) struct Direction {
    active: Active,
    /// The tangents of parameters.
    params: BTreeMap<ParamId, Source>,
    /// The tangents of values; those that are not there are zero.
    values: BTreeMap<ValueId, ValueId>,
}

impl Direction {
    /// The tangents of the parameters of some statements, of which no value has a tangent yet.
    pub fn new(params: BTreeMap<ParamId, Source>, body: &[Stmt]) -> Result<Direction> {
        let mut active = Active { params: params.keys().copied().collect(), ..Active::default() };
        active.through(body)?;
        Ok(Direction { active, params, values: BTreeMap::new() })
    }

    /// The tangent of a value, unless it is zero.
    pub fn tangent(&self, x: ValueId) -> Option<ValueId> {
        self.values.get(&x).copied()
    }
}

/// Tangents in some directions, beside the values that they all share.
pub(super) struct Forward {
    pub flow: Builder,
    pub directions: Vec<Direction>,
}

impl Forward {
    pub fn new(flow: Builder, directions: Vec<Direction>) -> Forward {
        Forward { flow, directions }
    }

    fn direction(&mut self, at: usize) -> Result<&mut Direction> {
        self.directions.get_mut(at).ok_or_else(|| Error::bug(PASS, "a direction that there is not"))
    }

    /// The tangent of a value, a leaf of zeros where it has none.
    pub fn tangent(&mut self, direction: usize, x: ValueId, loops: &Loops, out: &mut Vec<Stmt>) -> Result<ValueId> {
        if let Some(dx) = self.direction(direction)?.tangent(x) {
            return Ok(dx);
        }
        let (name, dims) = (format!("d{}", self.flow.get(x).name), self.flow.dims(x)?);
        let leaf = Small { flow: &mut self.flow, loops }.constant(&name, &dims, 0.0)?;
        let dx = leaf.given()?;
        out.push(Stmt::Leaf(leaf));
        Ok(dx)
    }

    /// Statements with the tangents of what they give.
    // Scans nest to a bounded depth.
    pub fn block(&mut self, body: &[Stmt], loops: &Loops) -> Result<Vec<Stmt>> {
        let mut out = Vec::with_capacity(body.len());
        for stmt in body {
            match stmt {
                Stmt::Leaf(leaf) => {
                    out.push(stmt.clone());
                    for at in 0..self.directions.len() {
                        out.extend(self.leaf(leaf, at, loops)?.map(Stmt::Leaf));
                    }
                }
                Stmt::Call(call) => {
                    out.push(stmt.clone());
                    for at in 0..self.directions.len() {
                        self.call(call, at, loops, &mut out)?;
                    }
                }
                Stmt::Scan(scan) if scan.implicit.is_some() => {
                    out.push(stmt.clone());
                    self.implicit(scan, loops, &mut out)?;
                }
                Stmt::Scan(scan) => {
                    let scan = self.scan(scan, loops, &mut out)?;
                    out.push(Stmt::Scan(scan));
                }
            }
        }
        Ok(out)
    }

    /// The tangents of what statements give that have run: loops, but for fixpoints, run once more beside their tangents.
    fn tangents(&mut self, body: &[Stmt], loops: &Loops) -> Result<Vec<Stmt>> {
        let mut out = Vec::new();
        for stmt in body {
            match stmt {
                Stmt::Leaf(leaf) => {
                    for at in 0..self.directions.len() {
                        out.extend(self.leaf(leaf, at, loops)?.map(Stmt::Leaf));
                    }
                }
                Stmt::Call(call) => {
                    for at in 0..self.directions.len() {
                        self.call(call, at, loops, &mut out)?;
                    }
                }
                Stmt::Scan(scan) if scan.implicit.is_some() => self.implicit(scan, loops, &mut out)?,
                Stmt::Scan(_) => {
                    let mut copies = Copies::default();
                    let copy = copies.block(&mut self.flow, std::slice::from_ref(stmt), loops)?;
                    for direction in &mut self.directions {
                        direction.active.through(&copy)?;
                    }
                    out.extend(self.block(&copy, loops)?);
                    for Direction { values, .. } in &mut self.directions {
                        let found = copies.values.iter().filter_map(|(x, copy)| Some((*x, *values.get(copy)?)));
                        let found: Vec<_> = found.collect();
                        values.extend(found);
                    }
                }
            }
        }
        Ok(out)
    }

    /// The tangents of a [fixpoint](super::implicit) that has run, each of which is one.
    fn implicit(&mut self, scan: &Scan, loops: &Loops, out: &mut Vec<Stmt>) -> Result<()> {
        let Some(most) = &scan.implicit else { return Err(Error::bug(PASS, "a loop that is no fixpoint")) };
        for at in 0..self.directions.len() {
            let Direction { active, params, values } = self.direction(at)?;
            let moving: Vec<State> =
                scan.states.iter().filter(|state| active.values.contains(&state.before)).copied().collect();
            if moving.is_empty() {
                continue;
            }
            let mut own = Direction { active: active.clone(), params: params.clone(), values: values.clone() };
            // The step at the solution.
            let mut copies = Copies::of_values(scan.states.iter().map(|s| (s.before, s.last)));
            let step = copies.block(&mut self.flow, &scan.body, loops)?;
            own.active.through(&step)?;
            let mut befores = Vec::with_capacity(moving.len());
            for state in &moving {
                let value = self.flow.get(state.before).clone();
                let before = self.flow.value(format!("d{}", value.name), value.ty, Storage::Dense);
                own.values.insert(state.last, before);
                befores.push(before);
            }
            let mut inside = loops.clone();
            inside.push((self.flow.index("k"), Size::constant(1)));
            let others = std::mem::replace(&mut self.directions, vec![own]);
            let mut body = self.tangents(&step, &inside)?;
            let mut states = Vec::with_capacity(moving.len());
            for (state, before) in moving.iter().zip(befores) {
                let after = copies.value(state.after);
                states.push((before, self.tangent(0, after, &inside, &mut body)?));
            }
            self.directions = others;
            out.extend(step);
            let solved = solve(&mut self.flow, Equation { states, body, most: most.clone() }, loops, out)?;
            let values = &mut self.direction(at)?.values;
            for (state, tangent) in moving.iter().zip(solved) {
                values.extend([(state.path, tangent.path), (state.last, tangent.last)]);
            }
        }
        Ok(())
    }

    /// The tangents, in a direction, of what a leaf gives.
    fn leaf(&mut self, leaf: &Leaf, direction: usize, loops: &Loops) -> Result<Option<Leaf>> {
        let Direction { active, params, values } = self.direction(direction)?;
        let wrt = active.params_of(leaf);
        if wrt.is_empty() {
            return Ok(None);
        }
        let derived = diff::forward(&leaf.program, &wrt, false)?;
        let outer = leaf.outer_params();
        let mut all = sources(leaf);
        for (x, _) in &derived.tangents {
            let source = match leaf.taken(*x) {
                None => params.get(x).cloned(),
                Some(x) => values.get(x).copied().map(Source::Value),
            };
            all.push(source.ok_or_else(|| Error::bug(PASS, "what is active has no tangent"))?);
        }
        let moving: Vec<bool> = leaf.gives.iter().map(|x| active.values.contains(x)).collect();
        let mut joined = Joined::new(&self.flow);
        let outputs = joined.append(&derived.program, outer, &all, &BTreeMap::new())?;
        let mut gives = Vec::new();
        for ((x, output), _) in leaf.gives.iter().zip(outputs).zip(moving).filter(|(_, moving)| *moving) {
            let value = self.flow.get(*x).clone();
            let dx = self.flow.value(format!("d{}", value.name), value.ty, value.storage);
            output.leaves.iter().for_each(|var| joined.give(dx, *var));
            self.direction(direction)?.values.insert(*x, dx);
            gives.push(dx);
        }
        joined.finish(&self.flow, loops, gives).map(Some)
    }

    /// The tangents, in a direction, of what a call gives.
    fn call(&mut self, call: &Call, direction: usize, loops: &Loops, out: &mut Vec<Stmt>) -> Result<()> {
        if !call.takes.iter().any(|x| self.directions.get(direction).is_some_and(|d| d.active.values.contains(x))) {
            return Ok(());
        }
        let mut tangents = Vec::with_capacity(call.takes.len());
        for x in &call.takes {
            tangents.push(self.tangent(direction, *x, loops, out)?);
        }
        let ahead = self.flow.derived_call(call, Derivative::Forward, tangents)?;
        let values = &mut self.direction(direction)?.values;
        values.extend(call.gives.iter().copied().zip(ahead.gives.iter().copied()));
        out.push(Stmt::Call(ahead));
        Ok(())
    }

    fn scan(&mut self, scan: &Scan, loops: &Loops, out: &mut Vec<Stmt>) -> Result<Scan> {
        let mut inside = loops.clone();
        inside.push((scan.index, scan.steps.clone()));
        let mut moving: Vec<(usize, State)> = Vec::new();
        for (at, direction) in self.directions.iter().enumerate() {
            let active = |state: &&State| direction.active.values.contains(&state.before);
            moving.extend(scan.states.iter().filter(active).map(|state| (at, *state)));
        }
        let mut states = scan.states.clone();
        for (at, state) in &moving {
            let init = self.tangent(*at, state.init, loops, out)?;
            let value = self.flow.get(state.before).clone();
            let before = self.flow.value(format!("d{}", value.name), value.ty, Storage::Dense);
            self.direction(*at)?.values.insert(state.before, before);
            states.push(State { init, before, ..*state });
        }
        let mut body = self.block(&scan.body, &inside)?;
        for ((at, state), tangent) in moving.iter().zip(states.iter_mut().skip(scan.states.len())) {
            tangent.after = self.tangent(*at, state.after, &inside, &mut body)?;
            let path = self.flow.get(state.path).clone();
            tangent.path = self.flow.value(format!("d{}", path.name), path.ty, Storage::Dense);
            tangent.last = self.flow.value(format!("d{}", path.name), self.flow.get(tangent.init).ty, Storage::Dense);
            let values = &mut self.direction(*at)?.values;
            values.insert(state.path, tangent.path);
            values.insert(state.last, tangent.last);
        }
        Ok(Scan { states, body, ..scan.clone() })
    }
}

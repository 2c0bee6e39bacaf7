//! Flows to loop nests: the nests of all leaves as one program.
//!
//! ```text
//! path = scan t < T, h = init. F(h)            for i { path[0, i] = init[i] }
//!                                       ==     for t in 0 .. T - 1
//!                                                the nests of F, which load path[t, ..] and store to path[t + 1, ..]
//! ```
//!
//! A leaf at the top keeps its nests. A scan is one nest: its first states, and a loop over its steps, one after the other, around all nests of its body;
//! a scan inside of another one is such a loop inside. So each buffer is written by one nest, as elsewhere.
//!
//! **Values are buffers.** The state before a step is a row of the path, the state after it is another one, and a leaf loads and stores there; what a
//! leaf gives otherwise has a workspace, or is a result. A path that nobody reads is not kept: its state has one place, and what comes after a step is
//! stored there, over the state before if no number of that is loaded later, or by a copy when the step is done. Where what goes on is not what a leaf
//! of the body gives, for this state alone, it is copied; first states are copied, and results that are stored elsewhere.
//!
//! **Loop indices.** What is a size in a leaf is an index in the nest, and nothing else changes. A buffer has no axis of such a length: it is made as long as it
//! may become.
//!
//! **Loops that end early** store how many steps they made. A nest behind them that has to know begins by loading it; buffers are as long as they
//! may become.
//!
//! **Inside of a loop** nothing is parallel, and what is zero before a nest runs is made so by loops. But rows that no step mixes go through all steps
//! in blocks, which are parallel.
//!
//! **Tiles** add to sums that are as long as time: a loop in a step goes on with the sum of the loop around where that is, and a tile adds to its own
//! part of it.
//!
//! **Single numbers** that go from step to step do so in registers (`registers`).
//!
//! No number is computed in another way than in the nests of the leaves.

mod changed;
mod early;
mod in_place;
mod places;
mod projections;
mod registers;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::{Arena, Id, Interner, ParamId, SizeId};
use crate::error::{Error, Result};
use crate::flow::{self, Call, Leaf, Scan, State, ValueId};
use crate::index::{Affine, Checked, Pred, Size, Var};
use crate::loops::{
    Array, ArrayId, Buffer, BufferId, BufferKind, Cond, Decision, Domain, Fresh, Nest, Place, Program, Real, Run,
    StepLimit, Stmt, loads, stores,
};
use crate::schedule::Within;
use crate::schedule::hold::compact;
use crate::tssa;
use crate::ty::Precision;

use places::{Home, Placing, Shape};
use projections::Relations;

const PASS: &str = "link";

/// The loop nests of a flow, of which `nests` makes those of a leaf.
///
/// # Errors
/// [`Error::Limitation`] for states on patterns, [`Error::Overflow`], [`Error::Bug`], and those of `nests`.
pub fn link(flow: &flow::Program, nests: &mut dyn FnMut(&tssa::Program, Within) -> Result<Program>) -> Result<Program> {
    let mut linker = Linker {
        flow,
        compile: nests,
        buffers: Arena::new(),
        arrays: Interner::new(),
        relations: Relations::of(&flow.signature),
        nests: Vec::new(),
        params: BTreeMap::new(),
        homes: BTreeMap::new(),
        results: BTreeMap::new(),
        read: BTreeSet::new(),
        afters: BTreeMap::new(),
        lengths: BTreeMap::new(),
        limits: Vec::new(),
        handed: BTreeMap::new(),
        inits: None,
        reads: BTreeMap::new(),
    };
    linker.plan()?;
    for (at, stmt) in flow.body.iter().enumerate() {
        match stmt {
            flow::Stmt::Leaf(leaf) if linker.gives_inits(leaf, flow.body.get(at + 1)) => linker.inits = Some(leaf),
            flow::Stmt::Leaf(leaf) => linker.leaf(leaf)?,
            flow::Stmt::Call(call) => {
                let mut open = Open::default();
                let body = linker.call(call, &mut open)?;
                linker.nests.push(Nest { buffers: open.buffers, decisions: Vec::new(), body });
            }
            flow::Stmt::Scan(scan) => {
                let mut open = Open::default();
                let mut body = linker.scan(scan, &mut open)?;
                let Open { mut names, buffers, mut decisions, .. } = open;
                decisions.extend(rows::in_blocks(&mut body, &mut names)?);
                let body = linker.with_lengths(body)?;
                linker.nests.push(Nest { buffers, decisions, body });
            }
        }
    }
    linker.finish()
}

struct Linker<'a> {
    flow: &'a flow::Program,
    compile: &'a mut dyn FnMut(&tssa::Program, Within) -> Result<Program>,
    buffers: Arena<BufferId, Buffer>,
    arrays: Interner<ArrayId, Array>,
    relations: Relations,
    nests: Vec<Nest>,
    /// The buffers of the leaves of the parameters.
    params: BTreeMap<(ParamId, usize), BufferId>,
    /// Where the values are that are in scope.
    homes: BTreeMap<ValueId, Home>,
    /// The first of the leaves of results that a value is: which result, and which leaf.
    results: BTreeMap<ValueId, (usize, usize)>,
    /// What is read by leaves, goes on as a state, or is a result.
    read: BTreeSet<ValueId>,
    /// How many states a value is after a step.
    afters: BTreeMap<ValueId, usize>,
    /// How many steps loops make that find it out: where that is, if it is stored, and what it is at most.
    lengths: BTreeMap<SizeId, (Option<BufferId>, Size)>,
    limits: Vec<StepLimit>,
    /// Last states of loops inside of steps that are where the state of the loop around is.
    handed: BTreeMap<ValueId, Home>,
    /// What gives first states of the next loop, and nothing else.
    inits: Option<&'a Leaf>,
    /// How often values are read, or are results.
    reads: BTreeMap<ValueId, usize>,
}

/// The nest of a scan on the way.
#[derive(Default)]
struct Open {
    names: Fresh,
    buffers: Vec<BufferId>,
    decisions: Vec<Decision>,
    /// The loops around, outside in.
    around: flow::Loops,
}

impl Open {
    fn writes(&mut self, buffer: BufferId) {
        if !self.buffers.contains(&buffer) {
            self.buffers.push(buffer);
        }
    }

    /// A length, as large as it may become in the loops around.
    fn most(&self, n: &Size) -> Checked<Size> {
        let mut most = n.clone();
        for (index, steps) in self.around.iter().rev() {
            let v = Var::Size(*index);
            let last = if most.coefficient(&v) > 0 { steps.add_constant(-1)? } else { Affine::constant(0) };
            most = most.replace(&mut |other| Ok((*other == v).then(|| last.clone())))?;
        }
        Ok(most)
    }
}

impl Linker<'_> {
    /// Counts who takes what, and refuses what cannot be linked.
    fn plan(&mut self) -> Result<()> {
        let flow = self.flow;
        for (k, output) in flow.outputs.iter().enumerate() {
            for (leaf, x) in output.values.iter().enumerate() {
                self.results.entry(*x).or_insert((k, leaf));
            }
        }
        self.read.extend(self.results.keys());
        let mut read = |x: ValueId| *self.reads.entry(x).or_default() += 1;
        flow.outputs.iter().flat_map(|output| &output.values).for_each(|x| read(*x));
        flow.body.iter().for_each(|stmt| stmt.visit_reads(&mut read));
        let mut stack: Vec<&flow::Stmt> = flow.body.iter().collect();
        while let Some(stmt) = stack.pop() {
            if let flow::Stmt::Leaf(leaf) = stmt {
                self.read.extend(&leaf.takes);
            }
            if let flow::Stmt::Call(call) = stmt {
                self.read.extend(call.reads());
            }
            if let flow::Stmt::Scan(scan) = stmt {
                stack.extend(&scan.body);
                for State { init, before, after, path, last } in &scan.states {
                    self.read.extend([init, after]);
                    *self.afters.entry(*after).or_default() += 1;
                    if [init, before, after, path, last].iter().any(|x| flow.values[**x].storage.pattern().is_some()) {
                        let name = &flow.values[*path].name;
                        return limitation(format!("a state on the entries of a pattern, as that of {name}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether all that a leaf gives are first states of the tiles that follow, and dense.
    fn gives_inits(&self, leaf: &Leaf, next: Option<&flow::Stmt>) -> bool {
        let Some(flow::Stmt::Scan(scan)) = next else { return false };
        let is_init = |x: &ValueId| self.reads.get(x) == Some(&1) && scan.states.iter().any(|state| state.init == *x);
        scan.tiles && scan.early.is_none() && leaf.gives.iter().all(is_init)
    }

    fn shape(&self, x: ValueId) -> Result<Shape> {
        let value = &self.flow.values[x];
        let entries = value.storage.pattern();
        let dims = match entries {
            Some(_) => Vec::new(),
            None => self.flow.frame.types.real_dims(value.ty).ok_or_else(|| Error::bug(PASS, "no tensor of reals"))?,
        };
        Ok(Shape { entries, dims })
    }

    fn home(&self, x: ValueId) -> Result<&Home> {
        self.homes.get(&x).ok_or_else(|| Error::bug(PASS, format!("{x} is not in scope")))
    }

    /// A buffer for a value: that of a result where it is one and no loop is around.
    fn store(&mut self, x: ValueId, open: Option<&mut Open>) -> Result<Home> {
        let result = self.results.get(&x).copied().filter(|_| open.as_ref().is_none_or(|open| open.around.is_empty()));
        let Shape { entries, mut dims } = self.shape(x)?;
        for n in &mut dims {
            *n = self.longest(n, open.as_deref())?;
        }
        let name = result.map_or_else(|| self.flow.values[x].name.clone(), |result| self.result_name(result));
        let kind = result.map_or(BufferKind::Workspace, |(k, leaf)| BufferKind::Output(k, leaf));
        let buffer = Buffer { kind, ..Buffer::workspace(name, entries, dims) };
        let home = Home { buffer: self.buffers.push(buffer), row: None };
        if let Some(open) = open {
            open.writes(home.buffer);
        }
        self.homes.insert(x, home.clone());
        Ok(home)
    }

    /// The name of the buffer of a leaf of a result.
    fn result_name(&self, (k, leaf): (usize, usize)) -> String {
        self.flow.outputs.get(k).map_or_else(String::new, |output| match output.values.len() {
            1 => output.name.clone(),
            _ => format!("{}_{leaf}", output.name),
        })
    }

    /// The nests of a leaf, with where its buffers and arrays are.
    fn compiled(&mut self, leaf: &Leaf, mut open: Option<&mut Open>) -> Result<(Program, Placing)> {
        let within = if open.is_some() { Within::Step } else { Within::Leaf };
        let mut compiled = (self.compile)(&leaf.program, within)?;
        self.relations.take_in(&mut compiled);
        if !compiled.rounded.is_empty() || compiled.buffers.values().any(|b| b.precision != Precision::Double) {
            return Err(Error::bug(PASS, "nests of a leaf that are not in double precision"));
        }
        for x in &leaf.gives {
            if !self.homes.contains_key(x) {
                self.store(*x, open.as_deref_mut())?;
            }
        }
        let mut mentioned = BTreeSet::new();
        for nest in &compiled.nests {
            mentioned.extend(&nest.buffers);
            mentioned.extend(loads(&nest.body).into_iter().chain(stores(&nest.body)).map(|place| place.buffer));
        }
        let missing = || Error::bug(PASS, "a buffer that is no value of its leaf");
        let mut homes = BTreeMap::new();
        for b in mentioned {
            let buffer = compiled.buffers.get(b).ok_or_else(missing)?;
            let of = |x: Option<&ValueId>| self.home(*x.ok_or_else(missing)?).cloned();
            let home = match buffer.kind {
                BufferKind::Param(param, at) => match param.index().checked_sub(leaf.outer_params()) {
                    Some(taken) => of(leaf.takes.get(taken))?,
                    None => {
                        let known = self.params.entry((param, at));
                        Home { buffer: *known.or_insert_with(|| self.buffers.push(buffer.clone())), row: None }
                    }
                },
                BufferKind::Output(given, _) => of(leaf.gives.get(given))?,
                BufferKind::Workspace => {
                    let mut own = buffer.clone();
                    for n in &mut own.dims {
                        *n = self.longest(n, open.as_deref())?;
                    }
                    Home { buffer: self.buffers.push(own), row: None }
                }
                BufferKind::Held(_) => return Err(missing()),
            };
            homes.insert(b, home);
        }
        let arrays = compiled.arrays.values().map(|array| self.arrays.intern(array.clone())).collect();
        Ok((compiled, Placing { homes, arrays }))
    }

    /// A length, as large as it may become.
    fn longest(&self, n: &Size, open: Option<&Open>) -> Checked<Size> {
        let most = open.map_or_else(|| Ok(n.clone()), |open| open.most(n))?;
        most.replace(&mut |v| {
            Ok(if let Var::Size(n) = v { self.lengths.get(n).map(|(_, most)| most.clone()) } else { None })
        })
    }

    /// The body of a nest where lengths that loops found out are loaded first.
    fn with_lengths(&self, body: Vec<Stmt>) -> Checked<Vec<Stmt>> {
        if self.lengths.is_empty() {
            return Ok(body);
        }
        let mut mentioned = BTreeSet::new();
        for stmt in &body {
            stmt.visit(&mut |stmt| {
                stmt.visit_affine(&mut |a| {
                    a.visit(&mut |v| mentioned.extend(if let Var::Size(n) = v { Some(*n) } else { None }));
                });
            });
        }
        let found = self.lengths.iter().filter(|(n, _)| mentioned.contains(n));
        let (mut names, mut out) = (Fresh::default(), Vec::new());
        for (n, (buffer, most)) in found {
            let Some(buffer) = buffer else { continue };
            let index = names.fresh_index();
            names.fix_size(*n, index.into());
            out.push(Stmt::Length { index, place: Place { buffer: *buffer, at: Vec::new() }, most: most.clone() });
        }
        if out.is_empty() {
            return Ok(body);
        }
        out.extend(names.body(&body)?);
        Ok(out)
    }

    /// A leaf at the top.
    fn leaf(&mut self, leaf: &Leaf) -> Result<()> {
        let (compiled, placing) = self.compiled(leaf, None)?;
        for mut nest in compiled.nests {
            placing.place(&mut nest.body)?;
            for buffer in &mut nest.buffers {
                *buffer = placing.home(*buffer)?.buffer;
            }
            nest.body = self.with_lengths(nest.body)?;
            self.nests.push(nest);
        }
        Ok(())
    }

    /// A leaf in the body of a scan.
    fn leaf_inside(&mut self, leaf: &Leaf, open: &mut Open) -> Result<Vec<Stmt>> {
        let (mut compiled, mut placing) = self.compiled(leaf, Some(&mut *open))?;
        let mut out = Vec::new();
        for nest in std::mem::take(&mut compiled.nests) {
            open.names.again();
            let body = open.names.body(&nest.body)?;
            let mut body = places::on_one_thread(body, &mut compiled, &mut open.names)?;
            for array in compiled.arrays.values().skip(placing.arrays.len()) {
                placing.arrays.push(self.arrays.intern(array.clone()));
            }
            placing.place(&mut body)?;
            out.extend(body);
            for buffer in &nest.buffers {
                open.writes(placing.home(*buffer)?.buffer);
            }
            open.decisions.extend(nest.decisions);
        }
        Ok(out)
    }

    /// A call of a function from outside, for each point of its axes. What it gives has a workspace.
    fn call(&mut self, call: &Call, open: &mut Open) -> Result<Vec<Stmt>> {
        let found = |v: &Var| matches!(v, Var::Size(n) if self.flow.signature.sizes.get(*n).is_none());
        if call.sizes.iter().chain(&call.axes).any(|n| n.terms().iter().any(|(v, _)| found(v))) {
            let name = self.flow.signature.functions.get(call.function).map_or("", |f| f.name());
            return limitation(format!(
                "a call of `{name}`, a function from outside, of tensors of as many steps as a loop has made"
            ));
        }
        let (mut loops, mut at) = (Vec::new(), Vec::new());
        for n in &call.axes {
            let index = open.names.fresh_index();
            loops.push((index, Domain::whole(n)?));
            at.push(Affine::index(index));
        }
        for x in &call.gives {
            let Shape { entries, dims } = self.shape(*x)?;
            let buffer = Buffer::workspace(self.flow.values[*x].name.clone(), entries, dims);
            let home = Home { buffer: self.buffers.push(buffer), row: None };
            open.writes(home.buffer);
            self.homes.insert(*x, home);
        }
        let runs = |of: &[ValueId]| {
            let run = |x: &ValueId| {
                let shape = self.shape(*x)?.dims.split_off(call.axes.len());
                Ok(Run { place: self.home(*x)?.place(&at), shape })
            };
            of.iter().map(run).collect::<Result<Vec<_>>>()
        };
        let mut body =
            vec![Stmt::Call { function: call.function, takes: runs(&call.takes)?, gives: runs(&call.gives)? }];
        let mut out = Vec::new();
        if let Some(when) = &call.when {
            for x in &call.gives {
                let (shape, home) = (self.shape(*x)?, self.home(*x)?.clone());
                out.extend(places::zeros(&self.flow.frame, &shape, &home, &mut open.names, &mut self.arrays)?);
            }
            let asked = open.names.fresh_real();
            let load = Stmt::Define(asked, Real::Load(self.home(*when)?.place(&at)));
            body = vec![load, Stmt::If { cond: Cond::Support(asked), body }];
        }
        let wrap = |body, (index, domain)| vec![Stmt::one_by_one(index, domain, body)];
        out.extend(loops.into_iter().rev().fold(body, wrap));
        Ok(out)
    }

    /// The first states of a scan and the loop over its steps.
    fn scan(&mut self, scan: &Scan, open: &mut Open) -> Result<Vec<Stmt>> {
        let Scan { index, steps, down, states, body, .. } = scan;
        let early = scan.ends(|x| self.read.contains(x));
        let inits = self.inits.take();
        let mut out = Vec::new();
        let last = open.names.affine(steps)?;
        let count = match early.filter(|early| early.most != *steps) {
            Some(early) => self.steps_of(scan, early, open, &mut out)?,
            None => None,
        };
        let (first, end) =
            if *down { (last.clone(), Affine::constant(0)) } else { (Affine::constant(0), last.clone()) };
        let kept = self.first_states(scan, [&first, &end], inits, open, &mut out)?;
        let most = self.longest(&last, None)?;
        if !self.is_not_negative(&most, &open.around)? && !out.is_empty() {
            out = vec![Stmt::If { cond: Cond::NonNegative(most.clone()), body: out }];
        }
        self.decide(scan, open);
        let step = open.names.fresh_index();
        let here = if *down { last.sub(&step.into())?.add_constant(-1)? } else { step.into() };
        let next = here.add_constant(1)?;
        let (before, after) = if *down { (next, here.clone()) } else { (here.clone(), next) };
        open.names.fix_size(*index, here);
        open.around.push((*index, steps.clone()));
        let mut copies = Vec::new();
        for (state, (home, path)) in states.iter().zip(kept) {
            let Some(path) = path else {
                self.homes.insert(state.before, home.clone());
                if is_handed_on(state, body) && self.afters.get(&state.after) == Some(&1) {
                    self.handed.insert(state.after, home.clone());
                }
                if state.after != state.before {
                    copies.push((state, home));
                }
                continue;
            };
            self.homes.insert(state.before, path.at(before.clone()));
            let to = path.at(after.clone());
            match self.is_given_for(state, body) {
                true => drop(self.homes.insert(state.after, to)),
                false => copies.push((state, to)),
            }
        }
        let mut inner = Vec::new();
        for stmt in body {
            inner.extend(match stmt {
                flow::Stmt::Leaf(leaf) => self.leaf_inside(leaf, open)?,
                flow::Stmt::Scan(scan) => self.scan(scan, open)?,
                flow::Stmt::Call(call) => self.call(call, open)?,
            });
        }
        self.states_after_step(copies, scan, &mut inner, open)?;
        open.around.pop();
        let early = early.cloned();
        if let Some(early) = &early {
            self.end_of_step(early, count.as_ref(), step, open, &mut inner)?;
        }
        let domain = Domain::whole(if early.is_some() { &most } else { &last })?;
        out.push(Stmt::one_by_one(step, domain, inner));
        if let (Some(early), Some(count)) = (early, count) {
            self.wants_more(&early, count, open, &mut out)?;
        }
        Ok(out)
    }

    /// Where the states of a scan are, and their paths if those are kept, with statements that store the first states.
    fn first_states(
        &mut self,
        scan: &Scan,
        [first, end]: [&Affine; 2],
        inits: Option<&Leaf>,
        open: &mut Open,
        out: &mut Vec<Stmt>,
    ) -> Result<Vec<(Home, Option<Home>)>> {
        let states = &scan.states;
        let mut kept = Vec::with_capacity(states.len());
        for state in states {
            let is_before = |x: ValueId| states.iter().any(|other| other.before == x && x != state.before);
            let (home, path) = match self.read.contains(&state.path) || is_before(state.after) {
                false if let Some(home) = self.handed.remove(&state.last) => {
                    self.homes.insert(state.last, home.clone());
                    kept.push((home, None));
                    continue;
                }
                true => {
                    let path = self.store(state.path, Some(&mut *open))?;
                    self.homes.insert(state.last, path.at(end.clone()));
                    (path.at(first.clone()), Some(path))
                }
                // Nobody reads the path.
                false => (self.store(state.last, Some(&mut *open))?, None),
            };
            match inits.is_some_and(|leaf| leaf.gives.contains(&state.init)) {
                true => drop(self.homes.insert(state.init, home.clone())),
                false => out.extend(self.copied(state.init, state.before, &home, open)?),
            }
            kept.push((home, path));
        }
        if let Some(leaf) = inits {
            out.extend(self.leaf_inside(leaf, open)?);
        }
        Ok(kept)
    }

    /// Says how a scan runs.
    fn decide(&self, scan: &Scan, open: &mut Open) {
        let Scan { states, steps, .. } = scan;
        let name = |path: ValueId| self.flow.values[path].name.clone();
        open.decisions.push(Decision::Steps { path: name(states.first().map_or(ValueId(0), |s| s.path)) });
        if let (true, Some(steps)) = (scan.tiles, steps.as_constant()) {
            let read = states.iter().filter(|state| self.read.contains(&state.path));
            let kept =
                read.map(|state| Decision::Checkpoints { path: name(state.path), states: steps.saturating_add(1) });
            open.decisions.extend(kept);
        }
    }

    /// Has the states after a step be where those before it are.
    fn states_after_step(
        &mut self,
        mut copies: Vec<(&State, Home)>,
        scan: &Scan,
        inner: &mut Vec<Stmt>,
        open: &mut Open,
    ) -> Result<()> {
        let tests = if scan.tiles { changed::Tests::All } else { changed::Tests::OfPlaces };
        copies.retain(|(state, home)| self.homes.get(&state.after) != Some(home));
        copies = self.in_place(copies, scan, tests, inner, open)?;
        let homes = scan.states.iter().map(|state| self.home(state.before)).collect::<Result<Vec<_>>>()?;
        let states = homes.iter().filter(|home| home.row.is_none()).map(|home| home.buffer).collect();
        changed::cut_loops_to_places(inner, &states, tests, &mut open.names)?;
        for (state, to) in copies {
            inner.extend(self.copied(state.after, state.before, &to, open)?);
        }
        Ok(())
    }

    /// Has steps store states over those before them where that may be; gives those that are still to be copied.
    fn in_place<'s>(
        &mut self,
        mut copies: Vec<(&'s State, Home)>,
        scan: &Scan,
        tests: changed::Tests,
        inner: &mut Vec<Stmt>,
        open: &mut Open,
    ) -> Result<Vec<(&'s State, Home)>> {
        let mut found = changed::States::new();
        for (state, home) in &copies {
            let after = self.home(state.after)?.clone();
            let alone =
                self.is_given_for(state, &scan.body) && copies.iter().all(|(other, _)| other.after != state.before);
            let whole = home.row.is_none() && after.row.is_none() && after.buffer != home.buffer;
            let is_own = self.buffers[after.buffer].kind == BufferKind::Workspace;
            if alone && whole && is_own {
                found.insert(after.buffer, home.buffer);
            }
        }
        let may_be = |body: &[Stmt], after: BufferId, before: BufferId| in_place::may_be_one(body, before, after);
        self.store_between(&found, tests, inner, open)?;
        if found.iter().any(|(after, before)| !may_be(inner, *after, *before)) {
            // Where a step changes few elements others are not stored over.
            while !found.is_empty() {
                let mut fewer = inner.clone();
                found.iter().for_each(|(after, before)| in_place::load_early(&mut fewer, *before, *after));
                changed::cut_loops(&mut fewer, &found, tests, &mut open.names)?;
                let count = found.len();
                found.retain(|after, before| may_be(&fewer, *after, *before));
                if found.len() == count {
                    *inner = fewer;
                    break;
                }
            }
        }
        for (state, home) in &copies {
            let after = self.home(state.after)?.clone();
            if found.get(&after.buffer) != Some(&home.buffer) {
                continue;
            }
            in_place::replace(inner, after.buffer, home.buffer);
            open.buffers.retain(|b| *b != after.buffer);
            self.homes.insert(state.after, home.clone());
        }
        copies.retain(|(state, home)| self.homes.get(&state.after) != Some(home));
        Ok(copies)
    }

    /// Has steps store what they make of a state on the way to the next one over it, where that changes few elements.
    fn store_between(
        &mut self,
        states: &changed::States,
        tests: changed::Tests,
        inner: &mut Vec<Stmt>,
        open: &mut Open,
    ) -> Result<()> {
        let is_stored = |stmt: &Stmt, b: BufferId| stores([stmt]).into_iter().any(|place| place.buffer == b);
        for (after, before) in states {
            let mut at = 0;
            while at < inner.len() && !is_stored(&inner[at], *after) {
                let own = stores([&inner[at]]).first().map(|place| place.buffer);
                at += 1;
                let Some(b) =
                    own.filter(|b| b != before && !states.contains_key(b) && !states.values().any(|s| s == b))
                else {
                    continue;
                };
                let is_like = {
                    let [one, other] = [&self.buffers[b], &self.buffers[*before]];
                    let is_tensor = !one.dims.is_empty() && one.dims == other.dims && one.entries == other.entries;
                    is_tensor && one.kind == BufferKind::Workspace
                };
                // All of it is stored by this statement, and it is asked for later alone.
                let is_elsewhere = |(other, stmt): (usize, &Stmt)| {
                    let is_loaded = loads([stmt]).into_iter().any(|place| place.buffer == b);
                    is_stored(stmt, b) && other != at - 1 || is_loaded && other < at
                };
                if !is_like || inner.iter().enumerate().any(is_elsewhere) {
                    continue;
                }
                let mut fewer = inner.clone();
                in_place::load_early(&mut fewer, *before, b);
                changed::cut_loops(&mut fewer, &changed::States::from([(b, *before)]), tests, &mut open.names)?;
                if fewer != *inner && in_place::may_be_one(&fewer, *before, b) {
                    in_place::replace(&mut fewer, b, *before);
                    open.buffers.retain(|own| *own != b);
                    *inner = fewer;
                }
            }
        }
        Ok(())
    }

    /// Whether a leaf of a body gives a state after a step, which is nothing else.
    fn is_given_for(&self, state: &State, body: &[flow::Stmt]) -> bool {
        let gives = |stmt: &flow::Stmt| matches!(stmt, flow::Stmt::Leaf(leaf) if leaf.gives.contains(&state.after));
        self.afters.get(&state.after) == Some(&1) && body.iter().any(gives)
    }

    fn is_not_negative(&self, n: &Size, around: &[(SizeId, Size)]) -> Result<bool> {
        let mut facts = self.flow.frame.facts();
        for (index, steps) in around {
            facts.assume(&Pred::non_negative(Affine::size(*index)));
            facts.assume(&Pred::lt(&Affine::size(*index), steps)?);
        }
        self.flow.frame.sizes.ids().for_each(|n| facts.assume(&Pred::non_negative(Affine::size(n))));
        Ok(facts.proves(&Pred::non_negative(n.clone())))
    }

    /// Copies a value that has the type of another one.
    fn copied(&mut self, from: ValueId, like: ValueId, to: &Home, open: &mut Open) -> Result<Vec<Stmt>> {
        let (shape, from) = (self.shape(like)?, self.home(from)?.clone());
        open.writes(to.buffer);
        places::copy(&self.flow.frame, &shape, &from, to, &mut open.names, &mut self.arrays)
    }

    /// Results that are not where they belong are copied.
    fn finish(mut self) -> Result<Program> {
        let mut outputs = Vec::new();
        for (k, output) in self.flow.outputs.iter().enumerate() {
            let mut leaves = Vec::new();
            for (leaf, x) in output.values.iter().enumerate() {
                let (shape, from) = (self.shape(*x)?, self.home(*x)?.clone());
                let kind = BufferKind::Output(k, leaf);
                if self.buffers[from.buffer].kind == kind {
                    leaves.push(from.buffer);
                    continue;
                }
                let (name, dims) = (self.result_name((k, leaf)), shape.dims.clone());
                let buffer = Buffer { kind, ..Buffer::workspace(name, shape.entries, dims) };
                let to = Home { buffer: self.buffers.push(buffer), row: None };
                let (signature, mut names) = (&self.flow.frame, Fresh::default());
                let mut body = places::copy(signature, &shape, &from, &to, &mut names, &mut self.arrays)?;
                if let [Stmt::For { parallel, .. }] = body.as_mut_slice() {
                    *parallel = true;
                }
                let body = self.with_lengths(body)?;
                self.nests.push(Nest { buffers: vec![to.buffer], decisions: vec![Decision::CopiedResult {}], body });
                leaves.push(to.buffer);
            }
            outputs.push((output.name.clone(), leaves));
        }
        let Linker { flow, buffers, arrays, relations, nests, limits, .. } = self;
        let mut program = Program {
            signature: Arc::new(relations.within(&flow.signature)),
            arrays: arrays.into_items().collect(),
            buffers,
            nests,
            outputs,
            rounded: Vec::new(),
            limits,
            bins: Default::default(),
        };
        registers::promote(&mut program)?;
        // States that go on where they are, or in registers, leave buffers that nobody mentions.
        compact(&mut program);
        Ok(program)
    }
}

/// Whether a step does nothing with a state but to hand it through a loop inside, whose last state is the one after the step.
fn is_handed_on(state: &State, body: &[flow::Stmt]) -> bool {
    let mut reads = 0;
    body.iter().for_each(|stmt| stmt.visit_reads(&mut |x| reads += usize::from(x == state.before)));
    let through = |stmt: &flow::Stmt| match stmt {
        flow::Stmt::Scan(inner) => {
            inner.early.is_none() && inner.states.iter().any(|own| own.init == state.before && own.last == state.after)
        }
        flow::Stmt::Leaf(_) | flow::Stmt::Call(_) => false,
    };
    reads == 1 && body.iter().any(through)
}

fn limitation<T>(feature: String) -> Result<T> {
    Err(Error::Limitation { feature, span: None })
}

//! The adjoint derivative of a flow: a scan backwards for each scan, and sums over the paths for what its steps read from around.
//!
//! With `<s>` for the adjoint of a value `s`, `F` the step of a scan, `P` its path, and `G` and `L` what those owe that read the path and the last
//! state,
//!
//! ```text
//! [ys = F(xs)]                        ==  <xs> += D^T F(xs; <ys>)                                       by 6.14-6.29
//! [P = scan t < T, s = a. F(s, w)]    ==  Q = scan t < T down, d = L + G[T]. G[t] + D_s^T F(P[t], w; d);
//!                                         <a> += Q[0];
//!                                         <w> += D_w^T (gen t. F(P[t], w)) (Q[t + 1])
//! ```
//!
//! Where the scan goes down, `Q` goes up, and `t` and `t + 1`, `0` and `T` change places. *The last line is the log of calls*: what the steps owe to `w`
//! is a sum over time of what each owes, and this is the adjoint of the step [lifted](super::lift) over time. It is a contraction, a product of
//! matrices where each step has an outer product, and nothing is added into `w` step by step.
//!
//! A step is computed again from the state before it, which the path has; what it gives as the next state is read from the path. A scan in a step is a
//! statement of it like others.
//!
//! A scan that is a [fixpoint](super::implicit) has a rule of its own, and needs no path.
//!
//! *Where steps are [tiles](super::tile_time)* the lifted step would have all that the tiles are there not to keep. What each owes to `w`, a sum over the
//! steps of the tile, is added to what is owed to `w` already, `r`:
//!
//! ```text
//! (Q, <w>) = scan t < T down, (d, r) = (L + G[T], r). (G[t] + D_s^T F(P[t], w; d), r + D_w^T F(P[t], w; d))
//! ```
//!
//! **What is owed** to a value by several statements is added up where the value was made; zeros are made for nothing but results.
//! Work: a scan's steps are run three times at most for each scan around them, each with the bound of Thm 6.35.

use std::collections::{BTreeMap, BTreeSet};

use super::active::Active;
use super::again::Copies;
use super::build::Builder;
use super::data::{Call, Leaf, Loops, Output, Program, Scan, State, Stmt, ValueId};
use super::extend::extended;
use super::implicit::{Equation, solve};
use super::join::join;
use super::leaf::{Joined, Small, Source, sources};
use super::lift::{self, Axis, Lifted};
use crate::base::{ParamId, VarId};
use crate::diff::{self, Options, Seed};
use crate::error::Result;
use crate::index::{Affine, Size};
use crate::scalar::external::Derivative;
use crate::ty::{Storage, Types};

/// The adjoint derivative by some parameters, and the parameters of its seeds; of a gradient there are none.
///
/// # Errors
/// [`Error::Request`](crate::Error::Request) for a gradient of anything but one real output; [`Error::Overflow`](crate::Error::Overflow) and
/// [`Error::Bug`](crate::Error::Bug).
pub fn adjoint(program: &Program, wrt: &[ParamId], seed: Seed, with_value: bool) -> Result<(Program, Vec<ParamId>)> {
    let mut params = Vec::new();
    match seed {
        Seed::One => match program.outputs.as_slice() {
            [output] if output.ty == Types::REAL => {}
            _ => return Err(diff::no_gradient()),
        },
        Seed::Parameter => {
            for output in &program.outputs {
                let name = if output.name == "value" { "dy".to_owned() } else { format!("d{}", output.name) };
                let storage = output.values.first().map_or(Storage::Dense, |x| program.values[*x].storage);
                params.push((name, output.ty, storage));
            }
        }
    }
    let (program, seeds) = extended(program, &params)?;
    let mut active = Active { params: wrt.iter().copied().collect(), ..Active::default() };
    active.through(&program.body)?;
    let mut derive = Adjoint { flow: Builder::resume(&program), one: None };
    let loops = Loops::new();
    let mut body = program.body.clone();
    let mut owed = Owed::default();
    for (at, output) in program.outputs.iter().enumerate() {
        let seeds = match seeds.get(at) {
            Some(seed) => derive.small(&loops).parameter(*seed)?,
            None => derive.small(&loops).constant("dy", &[], 1.0)?,
        };
        if seed == Seed::One {
            derive.one = seeds.gives.first().copied();
        }
        for (x, seed) in output.values.iter().zip(&seeds.gives) {
            owed.value(*x, *seed);
        }
        body.push(Stmt::Leaf(seeds));
    }
    derive.reverse(&program.body, &mut owed, &active, &BTreeMap::new(), &loops, &mut body)?;
    let mut outputs = if with_value { program.outputs.clone() } else { Vec::new() };
    let prefix = if seed == Seed::One { "grad" } else { "adjoint" };
    for x in wrt {
        let param = program.signature.params[*x].clone();
        let name = format!("{prefix}_{}", param.name);
        let mut values = Vec::new();
        for (at, part) in program.signature.types.leaves(param.ty)?.into_iter().enumerate() {
            let terms = owed.params.remove(&(*x, at)).unwrap_or_default();
            let value = match terms.is_empty() {
                true => derive.zeros(&name, &part.dims, param.storage, &loops, &mut body)?,
                false => derive.total(&name, &terms, &loops, &mut body)?,
            };
            values.push(value);
        }
        outputs.push(Output { name, ty: param.ty, values });
    }
    Ok((join(&derive.flow.finish(body, outputs))?, seeds))
}

/// What is owed to leaves of parameters.
pub(super) type OwedToParams = BTreeMap<(ParamId, usize), ValueId>;

/// What is owed to leaves of parameters by the seeds of some values, unless it is zero; what depends on these parameters is active.
pub(super) fn owed_to_params(
    flow: Builder,
    body: &[Stmt],
    active: &Active,
    seeds: &[(ValueId, ValueId)],
    out: &mut Vec<Stmt>,
) -> Result<(Builder, OwedToParams)> {
    let mut derive = Adjoint { flow, one: None };
    let loops = Loops::new();
    let mut owed = Owed::default();
    seeds.iter().for_each(|(x, seed)| owed.value(*x, *seed));
    derive.reverse(body, &mut owed, active, &BTreeMap::new(), &loops, out)?;
    let mut totals = OwedToParams::new();
    for ((param, leaf), terms) in owed.params {
        let name = format!("d{}", derive.flow.signature().params[param].name);
        totals.insert((param, leaf), derive.total(&name, &terms, &loops, out)?);
    }
    Ok((derive.flow, totals))
}

/// What is owed to values, and to leaves of parameters.
#[derive(Default)]
struct Owed {
    values: BTreeMap<ValueId, Vec<ValueId>>,
    params: BTreeMap<(ParamId, usize), Vec<ValueId>>,
}

impl Owed {
    fn value(&mut self, x: ValueId, dx: ValueId) {
        self.values.entry(x).or_default().push(dx);
    }

    fn owe(&mut self, part: Part, dx: ValueId) {
        match part {
            Part::Value(x) => self.value(x, dx),
            Part::Param(x, at) => self.params.entry((x, at)).or_default().push(dx),
        }
    }

    /// What is owed to a part, and no more behind this.
    fn of(&mut self, part: Part) -> Vec<ValueId> {
        let terms = match part {
            Part::Value(x) => self.values.remove(&x),
            Part::Param(x, at) => self.params.remove(&(x, at)),
        };
        terms.unwrap_or_default()
    }

    /// Adds what is owed to some values, and to parameters.
    fn extend(&mut self, more: Owed, to: &BTreeSet<ValueId>) {
        for (x, terms) in more.values {
            if to.contains(&x) {
                terms.into_iter().for_each(|dx| self.value(x, dx));
            }
        }
        for (param, terms) in more.params {
            self.params.entry(param).or_default().extend(terms);
        }
    }
}

/// What something is owed to: a value, or a leaf of a parameter.
#[derive(Clone, Copy)]
enum Part {
    Value(ValueId),
    Param(ParamId, usize),
}

/// What is owed to the states of a scan by those behind it: to the path, and to the last one.
struct To {
    path: Option<ValueId>,
    last: Option<ValueId>,
}

/// Values that need not be computed again, by those that they are.
type Known = BTreeMap<ValueId, ValueId>;

struct Adjoint {
    flow: Builder,
    /// The seed of a gradient, which is the number 1.
    one: Option<ValueId>,
}

impl Adjoint {
    fn small<'a>(&'a mut self, loops: &'a Loops) -> Small<'a> {
        Small { flow: &mut self.flow, loops }
    }

    /// The value of a leaf that gives one, which becomes a statement.
    fn push(&mut self, leaf: Leaf, out: &mut Vec<Stmt>) -> Result<ValueId> {
        let value = leaf.given()?;
        out.push(Stmt::Leaf(leaf));
        Ok(value)
    }

    fn total(&mut self, name: &str, terms: &[ValueId], loops: &Loops, out: &mut Vec<Stmt>) -> Result<ValueId> {
        if let [one] = terms {
            return Ok(*one);
        }
        let leaf = self.small(loops).sum(name, terms)?;
        self.push(leaf, out)
    }

    /// What is owed to a value by some terms, which may be none.
    fn total_or_zeros(
        &mut self,
        name: &str,
        terms: &[ValueId],
        like: ValueId,
        loops: &Loops,
        out: &mut Vec<Stmt>,
    ) -> Result<ValueId> {
        if !terms.is_empty() {
            return self.total(name, terms, loops, out);
        }
        let dims = self.flow.frame().types.real_dims(self.flow.get(like).ty).unwrap_or_default();
        self.zeros(name, &dims, Storage::Dense, loops, out)
    }

    fn zeros(
        &mut self,
        name: &str,
        dims: &[Size],
        storage: Storage,
        loops: &Loops,
        out: &mut Vec<Stmt>,
    ) -> Result<ValueId> {
        let leaf = self.small(loops).zeros(name, dims, storage)?;
        self.push(leaf, out)
    }

    /// What is owed to the values of statements by those behind, which `owed` has, handed on to what the statements read. The statements have run.
    fn reverse(
        &mut self,
        body: &[Stmt],
        owed: &mut Owed,
        active: &Active,
        known: &Known,
        loops: &Loops,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        for stmt in body.iter().rev() {
            match stmt {
                Stmt::Leaf(leaf) => self.leaf(leaf, owed, active, known, loops, out)?,
                Stmt::Scan(scan) => self.scan(scan, owed, active, loops, out)?,
                Stmt::Call(call) => self.call(call, owed, active, loops, out)?,
            }
        }
        Ok(())
    }

    fn leaf(
        &mut self,
        leaf: &Leaf,
        owed: &mut Owed,
        active: &Active,
        known: &Known,
        loops: &Loops,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let mut gives = Vec::new();
        let mut seeds = Vec::new();
        for (at, x) in leaf.gives.iter().enumerate() {
            let Some(terms) = owed.values.remove(x).filter(|_| active.values.contains(x)) else { continue };
            let name = format!("d{}", self.flow.get(*x).name);
            seeds.push(self.total(&name, &terms, loops, out)?);
            gives.push((at, *x));
        }
        if gives.is_empty() {
            return Ok(());
        }
        let mut program = leaf.program.clone();
        program.outputs = gives.iter().map(|(at, _)| program.outputs[*at].clone()).collect();
        let part = Leaf { program: program.prune()?, takes: leaf.takes.clone(), gives: Vec::new() };
        let wrt = active.params_of(&part);
        if wrt.is_empty() {
            return Ok(());
        }
        let is_gradient = seeds.len() == 1 && seeds.first().copied() == self.one;
        let seed = if is_gradient { Seed::One } else { Seed::Parameter };
        let options = Options { seed, with_value: true, derivation: false };
        // What partial derivatives have in common with the step is read, too.
        let derived = diff::expand_partials(&diff::adjoint(&part.program, &wrt, options)?.program)?;
        let mut all = sources(leaf);
        if !is_gradient {
            all.extend(seeds.into_iter().map(Source::Value));
        }
        // What the leaf has given is read.
        let mut instead: BTreeMap<VarId, ValueId> = BTreeMap::new();
        for ((_, x), output) in gives.iter().zip(&derived.outputs) {
            let value = known.get(x).copied().unwrap_or(*x);
            instead.extend(output.leaves.iter().map(|var| (*var, value)));
        }
        let outer = leaf.outer_params();
        let mut joined = Joined::new(&self.flow);
        let outputs = joined.append(&derived, outer, &all, &instead)?;
        let mut given = Vec::new();
        for (x, output) in wrt.iter().zip(outputs.into_iter().skip(gives.len())) {
            let param = &derived.signature.params[*x];
            let name = format!("d{}", param.name);
            let parts = derived.signature.types.leaves(param.ty)?;
            let value = leaf.taken(*x);
            for ((at, part), var) in parts.into_iter().enumerate().zip(output.leaves) {
                let ty = self.flow.types().tensor_of(&part.dims, Types::REAL);
                let dx = self.flow.value(&name, ty, output.storage);
                joined.give(dx, var);
                given.push(dx);
                match value {
                    Some(x) => owed.value(*x, dx),
                    None => owed.params.entry((*x, at)).or_default().push(dx),
                }
            }
        }
        out.push(Stmt::Leaf(joined.finish(&self.flow, loops, given)?));
        Ok(())
    }

    fn call(
        &mut self,
        call: &Call,
        owed: &mut Owed,
        active: &Active,
        loops: &Loops,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let terms: Vec<Vec<ValueId>> = call.gives.iter().map(|x| owed.values.remove(x).unwrap_or_default()).collect();
        let is_active = |x: &ValueId| active.values.contains(x);
        if terms.iter().all(Vec::is_empty) || !call.takes.iter().any(is_active) {
            return Ok(());
        }
        let mut seeds = Vec::with_capacity(terms.len());
        for (x, terms) in call.gives.iter().zip(&terms) {
            let name = format!("d{}", self.flow.get(*x).name);
            seeds.push(self.total_or_zeros(&name, terms, *x, loops, out)?);
        }
        let back = self.flow.derived_call(call, Derivative::Adjoint, seeds)?;
        for (x, dx) in call.takes.iter().zip(&back.gives).filter(|(x, _)| is_active(x)) {
            owed.value(*x, *dx);
        }
        out.push(Stmt::Call(back));
        Ok(())
    }

    fn scan(
        &mut self,
        scan: &Scan,
        owed: &mut Owed,
        active: &Active,
        loops: &Loops,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let mut to: Vec<To> = Vec::with_capacity(scan.states.len());
        for state in &scan.states {
            let mut total = |x: ValueId| match owed.values.remove(&x).filter(|_| active.values.contains(&x)) {
                Some(terms) => {
                    let name = format!("d{}", self.flow.get(x).name);
                    self.total(&name, &terms, loops, out).map(Some)
                }
                None => Ok(None),
            };
            to.push(To { path: total(state.path)?, last: total(state.last)? });
        }
        if to.iter().all(|to| to.path.is_none() && to.last.is_none()) {
            return Ok(());
        }
        if scan.implicit.is_some() {
            return self.implicit(scan, &to, owed, active, loops, out);
        }
        let shared = if scan.tiles { self.shared(scan, active) } else { Active::default() };
        let paths = self.backwards(scan, &to, owed, (active, &shared), loops, out)?;
        for (state, path) in scan.states.iter().zip(&paths) {
            let Some(path) = path.filter(|_| active.values.contains(&state.init)) else { continue };
            owed.value(state.init, path.last);
        }
        let paths: Vec<Option<ValueId>> = paths.into_iter().map(|back| back.map(|back| back.path)).collect();
        self.around(scan, &paths, owed, &active.without(&shared), loops, out)
    }

    /// What a [fixpoint](super::implicit) owes to the values and parameters around, from the step at the solution.
    fn implicit(
        &mut self,
        scan: &Scan,
        to: &[To],
        owed: &mut Owed,
        active: &Active,
        loops: &Loops,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let mut copies = Copies::of_values(scan.states.iter().map(|s| (s.before, s.last)));
        let step = copies.block(&mut self.flow, &scan.body, loops)?;
        let copy = |x: ValueId| copies.value(x);
        out.extend(step.iter().cloned());
        let mut own: BTreeSet<ValueId> = scan.states.iter().map(|state| state.last).collect();
        let is_active = |state: &&State| active.values.contains(&state.before);
        let moving: Vec<&State> = scan.states.iter().filter(is_active).collect();
        let mut by_state = Active { values: moving.iter().map(|state| state.last).collect(), ..Active::default() };
        by_state.through(&step)?;
        all_given(&step, &mut own);
        let known = Known::new();
        let index = self.flow.index("k");
        let mut inside = loops.clone();
        inside.push((index, Size::constant(1)));
        let mut inner = Owed::default();
        let mut befores = Vec::with_capacity(moving.len());
        for state in &moving {
            let value = self.flow.get(state.before).clone();
            let before = self.flow.value(format!("d{}", value.name), value.ty, Storage::Dense);
            inner.value(copy(state.after), before);
            befores.push(before);
        }
        let mut body = Vec::new();
        self.reverse(&step, &mut inner, &by_state, &known, &inside, &mut body)?;
        let mut states = Vec::with_capacity(moving.len());
        for ((state, to), before) in scan.states.iter().zip(to).filter(|(s, _)| is_active(s)).zip(befores) {
            let name = self.flow.get(before).name.clone();
            let mut terms: Vec<ValueId> = to.last.into_iter().collect();
            if let Some(path) = to.path {
                let leaf = self.small(loops).slice(&name, path, &scan.last_place())?;
                terms.push(self.push(leaf, out)?);
            }
            let terms: Vec<ValueId> =
                terms.into_iter().chain(inner.values.remove(&state.last).unwrap_or_default()).collect();
            states.push((before, self.total_or_zeros(&name, &terms, state.last, &inside, &mut body)?));
        }
        let most = scan.implicit.clone().unwrap_or_default();
        let solved = solve(&mut self.flow, Equation { states, body, most }, loops, out)?;
        let mut by_outer = Active { params: active.params.clone(), ..Active::default() };
        let mut read = |x: ValueId| {
            if active.values.contains(&x) && !own.contains(&x) {
                by_outer.values.insert(x);
            }
        };
        step.iter().for_each(|stmt| stmt.visit_reads(&mut read));
        moving.iter().for_each(|state| read(copy(state.after)));
        let outer = by_outer.values.clone();
        by_outer.through(&step)?;
        let mut inner = Owed::default();
        for (state, solved) in moving.iter().zip(&solved) {
            inner.value(copy(state.after), solved.last);
        }
        self.reverse(&step, &mut inner, &by_outer, &known, loops, out)?;
        owed.extend(inner, &outer);
        Ok(())
    }

    /// What steps that are tiles owe to in states of the scan backwards: states are dense.
    fn shared(&self, scan: &Scan, active: &Active) -> Active {
        let is_dense = |x: &ValueId| self.flow.get(*x).storage == Storage::Dense;
        let params = &self.flow.signature().params;
        Active {
            params: active.params.iter().copied().filter(|x| params[*x].storage == Storage::Dense).collect(),
            values: read_around(scan, active).into_iter().filter(is_dense).collect(),
        }
    }

    /// The scan backwards: for each active state the state that is owed to it. What its steps owe to what is shared is added to what is owed.
    fn backwards(
        &mut self,
        scan: &Scan,
        to: &[To],
        outer: &mut Owed,
        (active, shared): (&Active, &Active),
        loops: &Loops,
        out: &mut Vec<Stmt>,
    ) -> Result<Vec<Option<State>>> {
        let mut inside = loops.clone();
        inside.push((scan.index, scan.steps.clone()));
        let at = Affine::size(scan.index);
        let (before_at, after_at) = match scan.down {
            false => (at.clone(), at.add_constant(1)?),
            true => (at.add_constant(1)?, at.clone()),
        };
        let end = scan.last_place();
        let is_active = |state: &State| active.values.contains(&state.before);
        // The step once more, from the states of the paths.
        let mut body = Vec::new();
        let mut copies = Copies::default();
        let mut moving = shared.clone();
        for state in &scan.states {
            let name = self.flow.get(state.before).name.clone();
            let leaf = self.small(&inside).slice(&name, state.path, &before_at)?;
            let value = self.push(leaf, &mut body)?;
            copies.values.insert(state.before, value);
            if is_active(state) {
                moving.values.insert(value);
            }
        }
        let step = copies.block(&mut self.flow, &scan.body, &inside)?;
        let copy = |x: ValueId| copies.value(x);
        let mut known = Known::new();
        let given: BTreeSet<ValueId> = step.iter().flat_map(Stmt::gives).collect();
        for state in scan.states.iter().filter(|state| given.contains(&copy(state.after))) {
            let name = self.flow.get(state.before).name.clone();
            let leaf = self.small(&inside).slice(&name, state.path, &after_at)?;
            let value = self.push(leaf, &mut body)?;
            known.entry(copy(state.after)).or_insert(value);
        }
        moving.through(&step)?;
        let mut owed = Owed::default();
        let mut states = Vec::new();
        for (state, to) in scan.states.iter().zip(to).filter(|(state, _)| is_active(state)) {
            let value = self.flow.get(state.before).clone();
            let name = format!("d{}", value.name);
            let mut terms: Vec<ValueId> = to.last.into_iter().collect();
            if let Some(path) = to.path {
                let leaf = self.small(loops).slice(&name, path, &end)?;
                terms.push(self.push(leaf, out)?);
            }
            let init = self.total_or_zeros(&name, &terms, state.before, loops, out)?;
            let before = self.flow.value(&name, value.ty, Storage::Dense);
            owed.value(copy(state.after), before);
            states.push(self.state_from(&name, init, before, &scan.steps)?);
        }
        let states_before: Vec<ValueId> = scan.states.iter().map(|state| copy(state.before)).collect();
        body.extend(step.iter().cloned());
        let sums = self.sums_so_far(shared, &mut owed)?;
        self.reverse(&step, &mut owed, &moving, &known, &inside, &mut body)?;
        let mut made = states.iter_mut();
        for ((state, to), before) in scan.states.iter().zip(to).zip(states_before) {
            let Some(backward) = (if is_active(state) { made.next() } else { None }) else { continue };
            let name = self.flow.get(backward.before).name.clone();
            let mut terms = owed.values.remove(&before).unwrap_or_default();
            if let Some(path) = to.path {
                let leaf = self.small(&inside).slice(&name, path, &before_at)?;
                terms.push(self.push(leaf, &mut body)?);
            }
            backward.after = self.total_or_zeros(&name, &terms, before, &inside, &mut body)?;
        }
        let mut made = states.iter().copied();
        let backward = scan.states.iter().map(|state| if is_active(state) { made.next() } else { None }).collect();
        for (part, before) in sums {
            let terms = owed.of(part);
            // Nothing was added.
            if terms == [before] {
                continue;
            }
            let name = self.flow.get(before).name.clone();
            let after = self.total(&name, &terms, &inside, &mut body)?;
            let init = self.total_or_zeros(&name, &outer.of(part), before, loops, out)?;
            let state = self.state_from(&name, init, before, &scan.steps)?;
            outer.owe(part, state.last);
            states.push(State { after, ..state });
        }
        let (index, steps) = (scan.index, scan.steps.clone());
        let (down, early, tiles, implicit) = (!scan.down, None, scan.tiles, None);
        out.push(Stmt::Scan(Scan { index, steps, down, states, early, tiles, implicit, body }));
        Ok(backward)
    }

    /// The values that a step adds to what is owed to what is shared: what is owed before it.
    fn sums_so_far(&mut self, shared: &Active, owed: &mut Owed) -> Result<Vec<(Part, ValueId)>> {
        let mut sums = Vec::new();
        for x in &shared.values {
            let value = self.flow.get(*x).clone();
            let before = self.flow.value(format!("d{}", value.name), value.ty, Storage::Dense);
            sums.push((Part::Value(*x), before));
        }
        for x in &shared.params {
            let param = self.flow.signature().params[*x].clone();
            for (at, leaf) in self.flow.frame().types.leaves(param.ty)?.into_iter().enumerate() {
                let ty = self.flow.types().tensor_of(&leaf.dims, Types::REAL);
                let before = self.flow.value(format!("d{}", param.name), ty, Storage::Dense);
                sums.push((Part::Param(*x, at), before));
            }
        }
        sums.iter().for_each(|(part, before)| owed.owe(*part, *before));
        Ok(sums)
    }

    /// A state of a scan, which goes on as it is.
    fn state_from(&mut self, name: &str, init: ValueId, before: ValueId, steps: &Size) -> Result<State> {
        let ty = self.flow.get(before).ty;
        let last = self.flow.value(name, ty, Storage::Dense);
        let path = self.flow.tensor(steps.add_constant(1)?, ty);
        let path = self.flow.value(name, path, Storage::Dense);
        Ok(State { init, before, after: before, path, last })
    }

    /// What all steps owe to the values and parameters around the scan, where `paths` are what is owed to its states.
    fn around(
        &mut self,
        scan: &Scan,
        paths: &[Option<ValueId>],
        owed: &mut Owed,
        active: &Active,
        loops: &Loops,
        out: &mut Vec<Stmt>,
    ) -> Result<()> {
        let mut given: BTreeSet<ValueId> = scan.states.iter().map(|state| state.before).collect();
        all_given(&scan.body, &mut given);
        let mut moving = Active { params: active.params.clone(), values: read_around(scan, active) };
        let axis = Axis { index: scan.index, steps: scan.steps.clone() };
        let (before, after) = if scan.down { (1, 0) } else { (0, 1) };
        let outer = moving.values.clone();
        // Nothing around takes part: so it is for many a fold over data.
        let mut probe = moving.clone();
        probe.through(&scan.body)?;
        if !scan.states.iter().any(|state| probe.values.contains(&state.after)) {
            return Ok(());
        }
        let mut lifted: BTreeMap<ValueId, Lifted> = BTreeMap::new();
        for state in &scan.states {
            let name = self.flow.get(state.before).name.clone();
            let leaf = self.small(loops).shifted(&name, state.path, &axis.steps, before)?;
            let value = self.push(leaf, out)?;
            lifted.insert(state.before, Lifted { value, varies: true });
        }
        let body = lift::block(&mut self.flow, &scan.body, &axis, loops, &mut lifted)?;
        out.extend(body.iter().cloned());
        moving.through(&body)?;
        let mut inner = Owed::default();
        let mut known = Known::new();
        for (state, path) in scan.states.iter().zip(paths) {
            let Some(path) = *path else { continue };
            let name = self.flow.get(state.before).name.clone();
            let made = lifted.get(&state.after).copied().unwrap_or(Lifted { value: state.after, varies: false });
            let leaf = match made.varies {
                true => self.small(loops).shifted(&format!("d{name}"), path, &axis.steps, after)?,
                false => self.small(loops).summed(&format!("d{name}"), path, &axis.steps, after)?,
            };
            let value = self.push(leaf, out)?;
            inner.value(made.value, value);
            if made.varies && given.contains(&state.after) {
                let leaf = self.small(loops).shifted(&name, state.path, &axis.steps, after)?;
                let value = self.push(leaf, out)?;
                known.entry(made.value).or_insert(value);
            }
        }
        self.reverse(&body, &mut inner, &moving, &known, loops, out)?;
        owed.extend(inner, &outer);
        Ok(())
    }
}

/// The active values around a scan that its steps read.
fn read_around(scan: &Scan, active: &Active) -> BTreeSet<ValueId> {
    let mut given: BTreeSet<ValueId> = scan.states.iter().map(|state| state.before).collect();
    all_given(&scan.body, &mut given);
    let mut found = BTreeSet::new();
    let mut read = |x: ValueId| {
        if active.values.contains(&x) && !given.contains(&x) {
            found.insert(x);
        }
    };
    scan.body.iter().for_each(|stmt| stmt.visit_reads(&mut read));
    scan.states.iter().for_each(|state| read(state.after));
    found
}

/// All values that statements give, those inside of scans among them.
fn all_given(body: &[Stmt], given: &mut BTreeSet<ValueId>) {
    for stmt in body {
        given.extend(stmt.gives());
        if let Stmt::Scan(scan) = stmt {
            given.extend(scan.states.iter().map(|state| state.before));
            all_given(&scan.body, given);
        }
    }
}

//! Parameters whose numbers are the same at each call: what depends on them alone is computed once.
//!
//! This is *data specialisation* (Knoblock and Ruf, 1996): a program is split in two that share memory, one that runs when the constants are
//! known, and one that runs at each call and reads what the first has left.
//!
//! ```text
//! program(c, x)  ==  main(setup(c), x)
//! ```
//!
//! It works on the nests as lowering left them, not on Tensor-SSA: each of the two programs is a *slice* of them, the same loops with the same
//! lanes and parts around some of the statements. So every sum is added in the same order and every product that is added is rounded once
//! as before, and no bit changes. A split of Tensor-SSA would be lowered anew, with other lanes where two sums share a loop no more.
//!
//! 1. `times`: which registers, indices and buffers may change between calls.
//! 2. From the stores to results backwards, `main` needs statements. Where it comes to a number that does not change, that number is *held*
//!    if `place` knows a place for it and finds it worth it; then nothing that it is made of is needed for it. Else it is computed as before.
//!    An intermediate tensor that does not change is always held: it was stored at each call.
//! 3. `setup` needs the statements from the held numbers backwards.
//! 4. `edit` writes both programs.
//!
//! | program | setup | main |
//! |---|---|---|
//! | `sum i. f(c[i])` | as it is, and a store | one load |
//! | `for i in columns: k = places[i]; r = X[k]` with a constant `X` | `X_held[i] = X[k]` | `r = X_held[i]`: in order, without the places |
//! | `a[i] * b[j]` with constants `a` and `b` | | as it is: there would be more numbers than in `a` and `b` |
//!
//! A number is stored as an `f64`, or as it was if it is a copy, so it is loaded with the same bits. Registers stay where they are in their
//! loops and tests: what a guard protects is not computed outside of it.

mod edit;
pub(super) mod graph;
pub(super) mod place;
mod times;

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Id, ParamId};
use crate::error::{Error, Result};
use crate::loops::{ArrayId, Buffer, BufferId, BufferKind, Decision, List, Place, Program, RealId, Stmt};
use crate::stages::check;
use crate::ty::Precision;
use crate::ty::Signature;

pub(crate) use edit::compact;

use edit::Edit;
use graph::{Graph, Register};
use place::{home, writes_once};
use times::Changing;

/// A program in two: the results of the first, in order, are the [`BufferKind::Held`] of the second.
#[derive(Clone, Debug)]
pub struct Split {
    /// What runs once.
    pub setup: Program,
    /// What runs at each call.
    pub main: Program,
}

/// The parameters of these names.
///
/// # Errors
/// [`Error::Request`] for a name that no parameter has.
pub fn constants_by_name(signature: &Signature, names: &[&str]) -> Result<BTreeSet<ParamId>> {
    let of = |name: &&str| {
        let known = signature.params.iter().find(|(_, param)| param.name == *name);
        known.map(|(id, _)| id).ok_or_else(|| {
            let names: Vec<&str> = signature.params.values().map(|param| param.name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let advice = match signature.relations.values().any(|r| r.name == **name) {
                true => "tuples of relations are bound in any kernel; of its parameters, constants may be",
                false => "it has",
            };
            Error::Request(format!("the program has no parameter `{name}` that could be constant; {advice}: {names}"))
        })
    };
    names.iter().map(of).collect()
}

/// Splits a program whose parameters are constants, some of them.
///
/// # Errors
/// [`Error::Bug`].
pub fn hold(program: &Program, constants: &BTreeSet<ParamId>) -> Result<Split> {
    let graph = Graph::new(&program.nests);
    let changing = Changing::new(&graph, &program.buffers, constants);
    let live = vec![false; graph.nodes.len()];
    let pinned = program.rounded.iter().map(|rounded| rounded.from).collect();
    let mut split = Splitter {
        program,
        graph,
        changing,
        pinned,
        live,
        todo: Vec::new(),
        held: Vec::new(),
        known: BTreeMap::new(),
        loads: BTreeMap::new(),
    };
    split.main();
    let (setup, main) = (split.setup()?, split.reader()?);
    if cfg!(debug_assertions) {
        check("hold", &setup)?;
        check("hold", &main)?;
    }
    Ok(Split { setup, main })
}

/// What is held.
enum Held {
    /// An intermediate tensor.
    Buffer(BufferId),
    /// A register, stored in a buffer of its own after a statement.
    Real { register: Register, after: usize, place: Place, buffer: Buffer, copy: Option<(BufferId, ArrayId)> },
}

struct Splitter<'a> {
    program: &'a Program,
    graph: Graph<'a>,
    changing: Changing,
    /// Intermediate tensors that become results.
    pinned: BTreeSet<BufferId>,
    /// What `main` needs.
    live: Vec<bool>,
    todo: Vec<usize>,
    held: Vec<Held>,
    /// Whether registers are held that were asked about.
    known: BTreeMap<Register, bool>,
    /// What `main` loads instead of a declaration.
    loads: BTreeMap<usize, (RealId, Place)>,
}

impl Splitter<'_> {
    /// Finds out what `main` needs, and what is held for it.
    fn main(&mut self) {
        let is_result = |b: &BufferId| {
            let kind = self.program.buffers.get(*b).map(|buffer| buffer.kind);
            matches!(kind, Some(BufferKind::Output(..))) || self.pinned.contains(b)
        };
        let results: Vec<BufferId> = self.program.buffers.ids().filter(is_result).collect();
        for buffer in results {
            self.todo.extend(self.graph.stores(buffer));
        }
        while let Some(at) = self.todo.pop() {
            if std::mem::replace(&mut self.live[at], true) {
                continue;
            }
            self.todo.extend(self.graph.nodes[at].parent);
            self.todo.extend(self.graph.mentions(at).into_iter().filter_map(|i| self.graph.definer(i)));
            for r in self.graph.reads(at) {
                if !self.is_held(r) {
                    self.todo.extend(self.graph.writers(r));
                }
            }
            let loaded: Vec<BufferId> = self.graph.nodes[at].stmt.loads().map(|place| place.buffer).collect();
            for buffer in loaded {
                if !self.holds(buffer) {
                    self.todo.extend(self.graph.stores(buffer));
                }
            }
        }
    }

    /// Whether an intermediate tensor is held.
    fn holds(&mut self, buffer: BufferId) -> bool {
        let is_workspace = self.program.buffers.get(buffer).is_some_and(|b| b.kind == BufferKind::Workspace);
        if !is_workspace || self.pinned.contains(&buffer) || self.changing.buffer(buffer) {
            return false;
        }
        // Rows that parts of a loop keep for themselves are written again and again.
        if !self.graph.stores(buffer).iter().all(|at| writes_once(self.program, &self.graph, *at)) {
            return false;
        }
        if !self.held.iter().any(|held| matches!(held, Held::Buffer(known) if *known == buffer)) {
            self.held.push(Held::Buffer(buffer));
        }
        true
    }

    /// Whether a register is held.
    fn is_held(&mut self, r: Register) -> bool {
        if self.changing.real(r) {
            return false;
        }
        if let Some(known) = self.known.get(&r) {
            return *known;
        }
        let home = home(self.program, &self.graph, r);
        self.known.insert(r, home.is_some());
        let (Some(home), Some(first)) = (home, self.graph.writers(r).first().copied()) else { return false };
        // The loops around are needed, and what they run over.
        self.todo.extend(self.graph.nodes[first].parent);
        let same = |held: &Held| matches!(held, Held::Real { copy, .. } if home.copy.is_some() && *copy == home.copy);
        let number = match self.held.iter().position(same) {
            Some(number) => number,
            None => {
                self.held.push(self.new_buffer(r, &home));
                self.held.len() - 1
            }
        };
        self.loads.insert(first, (r.1, Place { buffer: self.buffer(number), at: home.at }));
        true
    }

    /// The buffer of a register by its number among what is held: behind all those that there are.
    fn buffer(&self, number: usize) -> BufferId {
        BufferId::from_index(self.program.buffers.len() + number)
    }

    fn new_buffer(&self, register: Register, home: &place::Home) -> Held {
        let of = match home.copy {
            Some((from, _)) => Some(from),
            None => self.program.nests.get(register.0).and_then(|nest| nest.buffers.first().copied()),
        };
        let of = of.and_then(|of| self.program.buffers.get(of));
        let number = self.held.len();
        let name = format!("{}_held{number}", of.map_or("", |of| of.name.as_str()));
        let precision = match home.copy {
            Some(_) => of.map_or(Precision::Double, |of| of.precision),
            None => Precision::Double,
        };
        let kind = BufferKind::Output(number, 0);
        let buffer = Buffer { kind, precision, ..Buffer::workspace(name, home.entries, home.dims.clone()) };
        let place = Place { buffer: self.buffer(number), at: home.at.clone() };
        Held::Real { register, after: home.complete, place, buffer, copy: home.copy }
    }

    /// The program with the buffers that are held, each of a kind of its number; others of a kind that theirs gives.
    fn program(
        &self,
        edit: &Edit,
        held: impl Fn(usize) -> BufferKind,
        other: impl Fn(BufferKind) -> BufferKind,
    ) -> Result<Program> {
        let mut program = Program { nests: edit.nests(&self.program.nests), ..self.program.clone() };
        for id in self.program.buffers.ids() {
            program.buffers[id].kind = other(program.buffers[id].kind);
        }
        for (number, one) in self.held.iter().enumerate() {
            // Every number has a place behind the others, so that it can be found by its number.
            let behind = match one {
                Held::Buffer(buffer) => {
                    let known = program.buffers.get(*buffer).cloned();
                    program.buffers[*buffer].kind = held(number);
                    known.ok_or_else(|| Error::bug("specialise", "a tensor is held that is not there"))?
                }
                Held::Real { buffer, .. } => Buffer { kind: held(number), ..buffer.clone() },
            };
            program.buffers.push(behind);
        }
        Ok(program)
    }

    /// The program that computes what is held.
    fn setup(&self) -> Result<Program> {
        let mut edit = Edit {
            live: vec![false; self.graph.nodes.len()],
            loads: BTreeMap::new(),
            stores: BTreeMap::new(),
            jam: false,
            wanted: BTreeSet::new(),
        };
        let (mut todo, mut outputs): (Vec<usize>, _) = (Vec::new(), Vec::new());
        for (number, held) in self.held.iter().enumerate() {
            let buffer = match held {
                Held::Buffer(buffer) => {
                    todo.extend(self.graph.stores(*buffer));
                    *buffer
                }
                Held::Real { register, after, place, .. } => {
                    todo.extend(self.graph.writers(*register));
                    edit.stores.entry(*after).or_default().push((register.1, place.clone()));
                    place.buffer
                }
            };
            edit.wanted.insert(buffer);
            outputs.push((format!("held {number}"), vec![buffer]));
        }
        while let Some(at) = todo.pop() {
            if std::mem::replace(&mut edit.live[at], true) {
                continue;
            }
            todo.extend(self.graph.nodes[at].parent);
            todo.extend(self.graph.mentions(at).into_iter().filter_map(|i| self.graph.definer(i)));
            self.graph.reads(at).into_iter().for_each(|r| todo.extend(self.graph.writers(r)));
            self.graph.nodes[at].stmt.loads().for_each(|place| todo.extend(self.graph.stores(place.buffer)));
        }
        let other = |kind| match kind {
            // A result that does not change may be read by what is held.
            BufferKind::Output(..) => BufferKind::Workspace,
            kind => kind,
        };
        let mut program = self.program(&edit, |number| BufferKind::Output(number, 0), other)?;
        (program.outputs, program.rounded) = (outputs, Vec::new());
        compact(&mut program);
        Ok(program)
    }

    /// The program that reads what is held.
    fn reader(&self) -> Result<Program> {
        let wanted = self.program.outputs.iter().flat_map(|(_, leaves)| leaves).copied().collect();
        let (live, loads) = (self.live.clone(), self.loads.clone());
        let edit = Edit { live, loads, stores: BTreeMap::new(), jam: true, wanted };
        let mut program = self.program(&edit, BufferKind::Held, |kind| kind)?;
        for nest in &mut program.nests {
            let held = held_in(nest, &program.buffers);
            if !held.is_empty() {
                nest.decisions.push(Decision::Held { tensors: List(held) });
            }
        }
        compact(&mut program);
        Ok(program)
    }
}

/// The names of what a nest reads that is held.
fn held_in(nest: &crate::loops::Nest, buffers: &crate::base::Arena<BufferId, Buffer>) -> Vec<String> {
    let mut names = Vec::new();
    for stmt in &nest.body {
        stmt.visit(&mut |stmt: &Stmt| {
            for buffer in stmt.loads().filter_map(|place| buffers.get(place.buffer)) {
                let Buffer { name, kind: BufferKind::Held(_), .. } = buffer else { continue };
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        });
    }
    names
}

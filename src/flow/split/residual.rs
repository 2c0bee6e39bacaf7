//! What an earlier loop computed, stored for a later one.
//!
//! ```text
//! P = scan t < T, s. F(s);  scan t < T. G(X(P[t]))   ==  (P, X') = scan t < T, (s, _). (F(s), X(s));  scan t < T. G(X'[t + 1])
//! ```
//!
//! The steps of both loops are written into one program, the state before a step of the earlier one being what its path is at the step. A statement of
//! the later loop that is one of the earlier one may be stored; what does not depend on the later loop's states is stored or made, by a
//! [minimal cut](super::cut). What is the same in all steps is not stored for each of them: it is [computed once](super::hoist), if that takes some work.

use std::collections::{BTreeMap, BTreeSet};

use super::super::build::Builder;
use super::super::data::{Leaf, Loops, Scan, Stmt, ValueId};
use super::super::leaf::Joined;
use super::Lengths;
use super::cut::{self, Node};
use super::hoist;
use super::step::{self, Changing, Instead};
use crate::base::{Id, IndexId, VarId};
use crate::error::Result;
use crate::index::{Pred, RelationRef};
use crate::solver::have_one_value;
use crate::tssa::{self, Rhs};

/// What it costs to store a number and to load it, in operations: in a cache of the core, and beyond.
const NEAR: f64 = 8.0;
const FAR: f64 = 32.0;
/// Numbers that a cache of the core holds.
const CACHE: f64 = 131_072.0;

/// The statements of a block, in which loops store what later ones need.
pub(super) fn block(
    flow: &mut Builder,
    mut body: Vec<Stmt>,
    loops: &Loops,
    lengths: &Lengths<'_>,
) -> Result<Vec<Stmt>> {
    let mut later = 0;
    while later < body.len() {
        let mut earlier = later;
        while earlier > 0 {
            earlier -= 1;
            let (Stmt::Scan(first), Stmt::Scan(second)) = (&body[earlier], &body[later]) else { continue };
            let Some(Stored { ahead, first, second }) = stored(flow, first, second, loops, lengths)? else { continue };
            body[earlier] = Stmt::Scan(first);
            body[later] = Stmt::Scan(second);
            later += ahead.len();
            body.splice(earlier..earlier, ahead);
        }
        later += 1;
    }
    Ok(body)
}

struct Stored {
    ahead: Vec<Stmt>,
    first: Scan,
    second: Scan,
}

fn stored(
    flow: &mut Builder,
    first: &Scan,
    second: &Scan,
    loops: &Loops,
    lengths: &Lengths<'_>,
) -> Result<Option<Stored>> {
    let (Some(a), Some(b)) = (first.single(), second.single()) else { return Ok(None) };
    let reads = first.states.iter().any(|state| b.takes.contains(&state.path));
    if first.index != second.index || first.steps != second.steps || !reads {
        return Ok(None);
    }
    let mut joined = Joined::new(flow);
    let place = first.before_at()?;
    let of_first = step::append(flow, &mut joined, a, &mut |joined, x| {
        let Some(state) = first.states.iter().find(|state| state.before == x) else { return Ok(None) };
        let path = joined.read(state.path, flow.dims(state.path)?);
        step::part(joined, path, 0, &place).map(Some)
    })?;
    let of_second = step::append(flow, &mut joined, b, &mut |_, _| Ok(None))?;
    let graph = Graph::new(&joined, second, b, &of_second);
    let by_first: BTreeSet<VarId> = of_first.values().copied().collect();
    let chosen = graph.stored(&joined.builder, &by_first, lengths, lengths.length(&first.steps));
    if chosen.is_empty() {
        return Ok(None);
    }
    let mut ahead = Vec::new();
    let mut states = first.states.clone();
    let mut given: BTreeMap<ValueId, VarId> = BTreeMap::new();
    let mut instead: BTreeMap<VarId, Instead> = BTreeMap::new();
    let after = first.after_at()?;
    for var in chosen {
        let Some((x, _)) = of_first.iter().find(|(_, other)| **other == var) else { continue };
        let dims = joined.builder.dims(var).to_vec();
        let name = &a.program.names[*x];
        let state = step::from_zeros(flow, name, &dims, &first.steps, loops, &mut ahead)?;
        given.insert(state.after, *x);
        let same = of_second.iter().filter(|(_, other)| **other == var);
        instead.extend(same.map(|(y, _)| (*y, Instead::Part(state.path, after.clone()))));
        states.push(state);
    }
    let mut inside = loops.clone();
    inside.push((first.index, first.steps.clone()));
    let more = giving(flow, a, &given, &inside)?;
    let less = step::rewritten(flow, b, &instead, &inside)?;
    let first = Scan { states, body: vec![Stmt::Leaf(more)], ..first.clone() };
    let second = Scan { body: vec![Stmt::Leaf(less)], ..second.clone() };
    Ok(Some(Stored { ahead, first, second }))
}

/// A leaf that gives more of its statements.
fn giving(flow: &Builder, leaf: &Leaf, given: &BTreeMap<ValueId, VarId>, loops: &Loops) -> Result<Leaf> {
    let mut joined = Joined::new(flow);
    let program = &leaf.program;
    let mut all = program.clone();
    for (value, x) in given {
        let value = flow.get(*value);
        let output = tssa::Output { name: value.name.clone(), ty: value.ty, storage: value.storage, leaves: vec![*x] };
        all.outputs.push(output);
    }
    let gives: Vec<ValueId> = leaf.gives.iter().chain(given.keys()).copied().collect();
    joined.leaf(&Leaf { program: all, takes: leaf.takes.clone(), gives: gives.clone() }, &BTreeMap::new())?;
    joined.finish(flow, loops, gives)
}

/// What a later loop computes from what does not depend on its states.
struct Graph {
    vars: Vec<VarId>,
    asked: BTreeSet<VarId>,
    /// What is not the same in all steps.
    varies: BTreeSet<VarId>,
}

impl Graph {
    fn new(joined: &Joined, scan: &Scan, leaf: &Leaf, vars: &BTreeMap<VarId, VarId>) -> Graph {
        let builder = &joined.builder;
        let outputs: Vec<VarId> = leaf
            .program
            .outputs
            .iter()
            .flat_map(|output| &output.leaves)
            .filter_map(|x| vars.get(x).copied())
            .collect();
        let cone = step::read_by(|x| builder.stmt(x), outputs.iter().copied(), |_| true);
        let Changing { moves, varies } =
            step::changing(cone.iter().map(|x| (*x, builder.stmt(*x))), scan, |param| joined.taken(param));
        let mut asked: BTreeSet<VarId> = BTreeSet::new();
        for x in &moves {
            builder.stmt(*x).rhs.for_each_operand(|y| {
                asked.insert(y);
            });
        }
        asked.extend(outputs);
        let vars: Vec<VarId> = cone.into_iter().filter(|x| !moves.contains(x)).collect();
        asked.retain(|x| !moves.contains(x));
        Graph { vars, asked, varies }
    }

    fn stored(
        &self,
        builder: &tssa::Builder,
        by_first: &BTreeSet<VarId>,
        lengths: &Lengths<'_>,
        steps: f64,
    ) -> Vec<VarId> {
        let at: BTreeMap<VarId, usize> = self.vars.iter().copied().zip(0..).collect();
        let node = |x: &VarId| {
            let stmt = builder.stmt(*x);
            let make = work(stmt, lengths);
            let numbers = lengths.points(&stmt.dims);
            let price = if steps * numbers > CACHE { FAR } else { NEAR };
            let mut operands = Vec::new();
            stmt.rhs.for_each_operand(|y| operands.extend(at.get(&y).copied()));
            let varies = self.varies.contains(x);
            let once = !varies && hoist::is_dear(stmt, lengths);
            Node {
                store: (make > 0.0 && varies && by_first.contains(x)).then_some((price * numbers) as u64),
                make: if once { 0 } else { make as u64 },
                operands,
                asked: self.asked.contains(x),
            }
        };
        let nodes: Vec<Node> = self.vars.iter().map(node).collect();
        cut::stored(&nodes).into_iter().zip(&self.vars).filter(|(stored, _)| *stored).map(|(_, x)| *x).collect()
    }
}

/// How many values an index has where a predicate holds, if equations or maps tell: one, or one in each of some cases.
fn values(guard: &Pred, i: IndexId, lengths: &Lengths<'_>) -> Option<usize> {
    // A place of an extremum is searched for.
    let is_map = |relation| matches!(relation, RelationRef::Input(map) if lengths.maps.contains(&map));
    let tells = |p: &Pred| have_one_value(&[i], p.conjuncts(), &is_map);
    guard.conjuncts().iter().find_map(|p| match p {
        Pred::Any(cases) => cases.iter().all(tells).then_some(cases.len()),
        p => tells(p).then_some(1),
    })
}

/// The operations of a statement, at most.
pub(super) fn work(stmt: &tssa::Stmt, lengths: &Lengths<'_>) -> f64 {
    let each = match &stmt.rhs {
        Rhs::Input { .. } | Rhs::Number(_) => 0.0,
        Rhs::Contract { .. } if step::is_view(stmt) => 0.0,
        Rhs::Contract { sums, guard, operands } => {
            let terms = sums.iter().zip(stmt.dims.len()..).map(|(n, at)| {
                let told = values(guard, IndexId::from_index(at), lengths);
                told.map_or(f64::INFINITY, |values| values as f64).min(lengths.points([n]))
            });
            terms.product::<f64>() * operands.len() as f64
        }
        Rhs::Add(_) => 1.0,
        Rhs::Map { function, .. } => function.work() as f64,
    };
    // A whole number of operations that a cut can add up.
    (each * lengths.points(&stmt.dims)).min(1e12)
}

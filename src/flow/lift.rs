//! Statements under one more axis: what the steps of a loop compute, for all of them at once.
//!
//! For the loop index `t` of `T` steps, and `X'` the tensor of all `X`,
//!
//! ```text
//! [X = gen g. rhs]                  ==  X' = gen t < T, g. rhs[Y -> Y'[t]]     where rhs varies with t; else X stays as it is
//! [scan u < U, s = a. b]            ==  q = scan u < U, s' = [a]. [b];  gen t, u. q[u][t]
//! ```
//!
//! A statement varies if it mentions `t` or reads what varies; where it reads something else beside that, this is repeated over `t`. A lifted
//! statement has the summands of `T` statements, so work is that of the loop. A state varies if its first state or a step's does; others of the same
//! scan go on as they are.
//!
//! Any size that no statement changes can be such an index: the place of the 1 in a one-hot tangent becomes the axis of the columns of a Jacobian.

use std::collections::{BTreeMap, BTreeSet};

use super::build::Builder;
use super::data::{Early, Leaf, Loops, Scan, State, Stmt, ValueId};
use super::leaf::{Joined, Small, Source, sources};
use crate::base::{Id, IndexId, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var};
use crate::scalar::Number;
use crate::tssa::{self, Operand, Program, Rhs};
use crate::ty::Storage;

const PASS: &str = "lift";

/// What stands for a value of the block behind lifting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifted {
    pub value: ValueId,
    /// Whether it has an axis more, as the first one.
    pub varies: bool,
}

/// The index that becomes an axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub index: SizeId,
    pub steps: Size,
}

/// Lifts the statements of a block over the index of the loop that they are the body of. `known` has what stands for values of the block from
/// elsewhere, and gets those of the block itself; values that it does not have stay as they are. `loops` are those around the loop.
pub(super) fn block(
    flow: &mut Builder,
    body: &[Stmt],
    axis: &Axis,
    loops: &Loops,
    known: &mut BTreeMap<ValueId, Lifted>,
) -> Result<Vec<Stmt>> {
    let mut out = Vec::new();
    for stmt in body {
        match stmt {
            Stmt::Leaf(leaf) => out.push(Stmt::Leaf(lift_leaf(flow, leaf, axis, loops, known)?)),
            Stmt::Call(call) => super::call::lift(flow, call, axis, loops, known, &mut out)?,
            Stmt::Scan(scan) => lift_scan(flow, scan, axis, loops, known, &mut out)?,
        }
    }
    Ok(out)
}

pub(super) fn lifted(known: &BTreeMap<ValueId, Lifted>, x: ValueId) -> Lifted {
    known.get(&x).copied().unwrap_or(Lifted { value: x, varies: false })
}

fn lift_leaf(
    flow: &mut Builder,
    leaf: &Leaf,
    axis: &Axis,
    loops: &Loops,
    known: &mut BTreeMap<ValueId, Lifted>,
) -> Result<Leaf> {
    let mut joined = Joined::new(flow);
    let outer = leaf.outer_params();
    let outputs = lift_program(&mut joined, &leaf.program, outer, &sources(leaf), axis, known)?;
    let mut gives = Vec::with_capacity(outputs.len());
    for (x, (var, varies)) in leaf.gives.iter().zip(outputs) {
        let value = flow.get(*x).clone();
        let ty = if varies { flow.tensor(axis.steps.clone(), value.ty) } else { value.ty };
        // Elements beside the pattern are zeros from here on.
        let var = match varies && value.storage != Storage::Dense {
            true => on_pattern(&mut joined.builder, var, value.storage)?,
            false => var,
        };
        let storage = if varies { Storage::Dense } else { value.storage };
        let new = flow.value(value.name, ty, storage);
        joined.give(new, var);
        known.insert(*x, Lifted { value: new, varies });
        gives.push(new);
    }
    joined.finish(flow, loops, gives)
}

/// `gen t, g. [g in pattern] * x[t, g]`.
fn on_pattern(builder: &mut tssa::Builder, var: VarId, storage: Storage) -> Result<VarId> {
    let dims = builder.dims(var).to_vec();
    let gens = builder.fresh_indices(&dims);
    let stored = storage.stored_at(&Affine::indices(gens.get(1..).unwrap_or_default()));
    let indices = gens.iter().map(|(i, _)| *i).collect();
    builder.contract(&gens, &[], stored, vec![Operand { var, indices }])
}

/// The statements of a program, lifted where they vary; gives the leaves of its outputs, and whether they vary.
fn lift_program(
    joined: &mut Joined,
    program: &Program,
    outer: usize,
    sources: &[Source],
    axis: &Axis,
    known: &BTreeMap<ValueId, Lifted>,
) -> Result<Vec<(VarId, bool)>> {
    let mut vars: BTreeMap<VarId, (VarId, bool)> = BTreeMap::new();
    for (x, stmt) in program.stmts.iter() {
        let new = match &stmt.rhs {
            Rhs::Input { param, .. } => {
                let source = param.index().checked_sub(outer).and_then(|at| sources.get(at));
                match source {
                    Some(Source::Value(x)) => {
                        let Lifted { value, varies } = lifted(known, *x);
                        let first = varies.then(|| axis.steps.clone());
                        (joined.read(value, first.into_iter().chain(stmt.dims.iter().cloned()).collect()), varies)
                    }
                    _ => (joined.input(stmt, outer, sources)?, false),
                }
            }
            _ => lift_stmt(joined, stmt, axis, &vars)?,
        };
        joined.builder.suggest_name(new.0, &program.names[x]);
        vars.insert(x, new);
    }
    let leaves = program.outputs.iter().flat_map(|output| &output.leaves);
    let found = leaves.map(|x| vars.get(x).copied().ok_or_else(|| Error::bug(PASS, "an output without a statement")));
    found.collect()
}

fn lift_stmt(
    joined: &mut Joined,
    stmt: &tssa::Stmt,
    axis: &Axis,
    vars: &BTreeMap<VarId, (VarId, bool)>,
) -> Result<(VarId, bool)> {
    let builder = &mut joined.builder;
    let mut varies = mentions(stmt, axis.index);
    stmt.rhs.for_each_operand(|x| varies |= vars.get(&x).is_some_and(|(_, varies)| *varies));
    if !varies {
        let stmt = stmt.rename(&|x| vars.get(&x).map(|(x, _)| *x))?;
        return Ok((builder.push(&stmt)?, false));
    }
    let open = builder.open_stmt(stmt)?;
    let step = builder.fresh_index();
    let gens: Vec<(IndexId, Size)> =
        std::iter::once((step, axis.steps.clone())).chain(open.gens.iter().cloned()).collect();
    let of = |x: VarId| vars.get(&x).copied().ok_or_else(|| Error::bug(PASS, "an operand comes late"));
    let at_step = AtStep { step, index: axis.index, vars };
    // An operand of the axes of the statement. Inputs may be sparse, and are read where the statement reads them.
    let whole = |builder: &mut tssa::Builder, x: VarId, guard: &Pred| -> Result<VarId> {
        let (var, varies) = of(x)?;
        if varies {
            return Ok(var);
        }
        let indices = open.gens.iter().map(|(i, _)| *i).collect();
        let is_input = matches!(builder.stmt(var).rhs, Rhs::Input { .. });
        let guard = if is_input { guard.clone() } else { Pred::True };
        builder.contract(&gens, &[], guard, vec![Operand { var, indices }])
    };
    let new = match open.rhs {
        Rhs::Input { .. } => return Err(Error::bug(PASS, "an input that varies")),
        Rhs::Number(Number::Index(a)) => builder.number(&gens, Number::Index(at_step.affine(&a)?))?,
        Rhs::Number(literal) => builder.number(&gens, literal)?,
        Rhs::Add([(p, x), (q, y)]) => {
            let (p, q) = (at_step.pred(&p)?, at_step.pred(&q)?);
            let (x, y) = (whole(builder, x, &p)?, whole(builder, y, &q)?);
            builder.add(&gens, [(p, x), (q, y)])?
        }
        Rhs::Map { guard, function, args } => {
            let guard = at_step.pred(&guard)?;
            let args = args.into_iter().map(|x| whole(builder, x, &guard)).collect::<Result<_>>()?;
            builder.map(&gens, guard, function, args)?
        }
        Rhs::Contract { guard, operands, .. } => {
            let mut new = Vec::with_capacity(operands.len());
            for Operand { var, indices } in operands {
                let (var, varies) = of(var)?;
                let first = varies.then_some(step);
                new.push(Operand { var, indices: first.into_iter().chain(indices).collect() });
            }
            builder.contract(&gens, &open.sums, at_step.pred(&guard)?, new)?
        }
    };
    Ok((new, true))
}

/// Whether a statement mentions a size in a guard or a number.
pub(super) fn mentions(stmt: &tssa::Stmt, size: SizeId) -> bool {
    let mut found = false;
    let mut look = |a: &Affine| a.visit(&mut |v| found |= *v == Var::Size(size));
    if let Rhs::Number(Number::Index(a)) = &stmt.rhs {
        look(a);
    }
    stmt.rhs.guards().for_each(|p| p.visit_affine(&mut |a| look(a)));
    found
}

/// Whether a statement mentions a size, the lengths of its axes and sums included.
pub(super) fn mentions_anywhere(stmt: &tssa::Stmt, size: SizeId) -> bool {
    let is_in = |n: &Size| n.coefficient(&Var::Size(size)) != 0;
    mentions(stmt, size) || stmt.rhs.sums().iter().chain(&stmt.dims).any(is_in)
}

/// Index expressions where the loop index is an index, and relations of what varies have it as a place.
struct AtStep<'a> {
    step: IndexId,
    index: SizeId,
    vars: &'a BTreeMap<VarId, (VarId, bool)>,
}

impl AtStep<'_> {
    fn relation(&self, relation: RelationRef) -> (RelationRef, Option<Affine>) {
        match relation {
            RelationRef::Computed { var, view } => {
                let (var, varies) = self.vars.get(&var).copied().unwrap_or((var, false));
                (RelationRef::Computed { var, view }, varies.then(|| Affine::index(self.step)))
            }
            input @ RelationRef::Input(_) => (input, None),
        }
    }

    fn affine(&self, a: &Affine) -> Result<Affine> {
        Ok(a.replace(&mut |v| {
            Ok(match v {
                Var::Size(n) if *n == self.index => Some(Affine::index(self.step)),
                Var::Apply(application) => {
                    let (map, first) = self.relation(application.map);
                    let args = first.into_iter().chain(application.args.iter().cloned()).collect();
                    Some(Affine::var(Var::Apply(Box::new(Application { map, args }))))
                }
                Var::Index(_) | Var::Size(_) => None,
            })
        })?)
    }

    // Predicates nest to a bounded depth.
    fn pred(&self, p: &Pred) -> Result<Pred> {
        let all = |ps: &[Pred]| ps.iter().map(|p| self.pred(p)).collect::<Result<Vec<_>>>();
        Ok(match p {
            Pred::True | Pred::False => p.clone(),
            Pred::NonNegative(a) => Pred::non_negative(self.affine(a)?),
            Pred::Zero(a) => Pred::zero(self.affine(a)?),
            Pred::NonZero(a) => Pred::non_zero(self.affine(a)?),
            Pred::Relation { relation, args, holds } => {
                let (relation, first) = self.relation(*relation);
                let args = args.iter().map(|a| self.affine(a)).collect::<Result<Vec<_>>>()?;
                Pred::Relation { relation, args: first.into_iter().chain(args).collect(), holds: *holds }
            }
            Pred::All(ps) => Pred::all(all(ps)?),
            Pred::Any(ps) => Pred::any(all(ps)?),
            Pred::Exists { index, extent, body } => Pred::exists(*index, extent.clone(), self.pred(body)?),
        })
    }
}

/// A value that varies, by a leaf if it does not.
pub(super) fn varying(
    flow: &mut Builder,
    x: Lifted,
    name: &str,
    axis: &Axis,
    loops: &Loops,
    out: &mut Vec<Stmt>,
) -> Result<ValueId> {
    if x.varies {
        return Ok(x.value);
    }
    let leaf = Small { flow, loops }.repeated(name, x.value, &axis.steps)?;
    let value = leaf.given()?;
    out.push(Stmt::Leaf(leaf));
    Ok(value)
}

/// Adds what varies, of the values of some statements.
// Scans nest to a bounded depth.
fn vary(body: &[Stmt], index: SizeId, values: &mut BTreeSet<ValueId>) {
    for stmt in body {
        match stmt {
            Stmt::Leaf(leaf) => {
                let mut vars: BTreeSet<VarId> = BTreeSet::new();
                for (x, stmt) in leaf.program.stmts.iter() {
                    let mut varies = mentions(stmt, index);
                    stmt.rhs.for_each_operand(|y| varies |= vars.contains(&y));
                    if let Rhs::Input { param, .. } = &stmt.rhs {
                        let taken = leaf.taken(*param);
                        varies = taken.is_some_and(|taken| values.contains(taken));
                    }
                    if varies {
                        vars.insert(x);
                    }
                }
                for (x, output) in leaf.gives.iter().zip(&leaf.program.outputs) {
                    if output.leaves.iter().any(|var| vars.contains(var)) {
                        values.insert(*x);
                    }
                }
            }
            Stmt::Call(call) => {
                if call.reads().any(|x| values.contains(&x)) {
                    values.extend(&call.gives);
                }
            }
            Stmt::Scan(scan) => vary_with(scan, index, values),
        }
    }
}

/// Adds the states of a scan that vary, and what varies in its body.
fn vary_with(scan: &Scan, index: SizeId, values: &mut BTreeSet<ValueId>) {
    // Each time around at least one state more varies.
    loop {
        let before = values.len();
        for state in &scan.states {
            if [state.init, state.after].iter().any(|x| values.contains(x)) {
                values.extend([state.before, state.path, state.last]);
            }
        }
        vary(&scan.body, index, values);
        if values.len() == before {
            return;
        }
    }
}

fn lift_scan(
    flow: &mut Builder,
    scan: &Scan,
    axis: &Axis,
    loops: &Loops,
    known: &mut BTreeMap<ValueId, Lifted>,
    out: &mut Vec<Stmt>,
) -> Result<()> {
    let mut inside = loops.clone();
    inside.push((scan.index, scan.steps.clone()));
    let mut moving: BTreeSet<ValueId> = known.iter().filter(|(_, x)| x.varies).map(|(x, _)| *x).collect();
    vary_with(scan, axis.index, &mut moving);
    let varies = |x: ValueId| moving.contains(&x);
    let mut befores = Vec::with_capacity(scan.states.len());
    for state in &scan.states {
        let name = flow.get(state.before).name.clone();
        let init = match varies(state.before) {
            true => varying(flow, lifted(known, state.init), &name, axis, loops, out)?,
            false => lifted(known, state.init).value,
        };
        let ty = flow.get(init).ty;
        let before = flow.value(name, ty, Storage::Dense);
        known.insert(state.before, Lifted { value: before, varies: varies(state.before) });
        befores.push((init, before));
    }
    let mut body = block(flow, &scan.body, axis, &inside, known)?;
    let mut states = Vec::with_capacity(befores.len());
    for (state, (init, before)) in scan.states.iter().zip(befores) {
        let name = flow.get(state.before).name.clone();
        let after = match varies(state.before) {
            true => varying(flow, lifted(known, state.after), &name, axis, &inside, &mut body)?,
            false => lifted(known, state.after).value,
        };
        let ty = flow.get(init).ty;
        let last = flow.value(&name, ty, Storage::Dense);
        let ty = flow.tensor(scan.steps.add_constant(1)?, ty);
        let path = flow.value(name, ty, Storage::Dense);
        known.insert(state.last, Lifted { value: last, varies: varies(state.before) });
        states.push(State { init, before, after, path, last });
    }
    let paths: Vec<(State, ValueId)> = scan.states.iter().zip(&states).map(|(old, new)| (*old, new.path)).collect();
    let early = match &scan.early {
        None => None,
        Some(early) => match lifted(known, early.changes) {
            Lifted { value, varies: false } => Some(Early { changes: value, most: early.most.clone() }),
            Lifted { varies: true, .. } if early.most == scan.steps => None,
            Lifted { varies: true, .. } => return Err(Error::bug(PASS, "the number of steps varies")),
        },
    };
    let Scan { index, steps, down, .. } = scan;
    out.push(Stmt::Scan(Scan { index: *index, steps: steps.clone(), down: *down, states, early, body }));
    for (old, new) in paths {
        if !varies(old.before) {
            known.insert(old.path, Lifted { value: new, varies: false });
            continue;
        }
        let name = flow.get(old.path).name.clone();
        let leaf = Small { flow, loops }.transposed(&name, new)?;
        let value = leaf.given()?;
        out.push(Stmt::Leaf(leaf));
        known.insert(old.path, Lifted { value, varies: true });
    }
    Ok(())
}

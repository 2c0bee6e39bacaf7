//! Loops that end early.
//!
//! ```text
//! fold t < n, s = a. F(s)              ==  fold t < k, s = a. F(s)       k: the first step behind which F(s) = s, or n
//! F(s) = gen g. [p] * x + [not p] * s  ==> F(s) = s where p holds at no g
//! ```
//!
//! A step that keeps what a test does not change gives what it was given where the test fails everywhere; if it is a function of the state alone, so do
//! all steps behind it, and the loop may end. `p` must not mention the loop index, nor anything computed from it; `x` may, since nobody looks at it
//! then. The number of steps is a size that the loop finds out: paths of derivatives are so long, and no statement needs to know of it. How many
//! elements change in a step is a value of the step, so that both engines and the reference end at the same one.
//!
//! A step that gives 0 where a test fails of which no step decides anything, as those of a loop in an arm that is not taken, is the last one as well:
//!
//! ```text
//! fold t < n, s = a. gen g. [c] * x  ==  if c then fold t < n, s = a. x else fold t < min(n, 1), s = a. 0
//! ```
//!
//! A path that is read elsewhere, as that of an `unfold`, is filled up behind the end. Derivatives have as many steps all the same, since that is a leaf:
//!
//! ```text
//! path  ==  gen t < n + 1. [t <= k] * path'[t] + [k < t] * last       path' of k + 1 states
//! ```
//!
//! With `n` in the place of `k` the flow means the same, also a derivative of it: what is printed and counted has `n`. Looked at are loops whose
//! steps end with the leaf that has the test; if loops are before it, no step mentions the loop index. One inside of another loop finds out no size:
//! paths would have other lengths in each step; nor does one that shares its index with a copy of it. Both end early where no path of theirs is read,
//! and a derivative that reads one makes all steps. Paths are filled up in programs as they are written, where no derivative has been taken.

use std::collections::{BTreeMap, BTreeSet};

use super::build::Builder;
use super::data::{Call, Early, Leaf, Loops, Program, Scan, Stmt, ValueId, scans, with_scans};
use super::join::join;
use super::leaf::{Joined, sources};
use super::lift;
use crate::base::{Id, IndexId, ParamId, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Pred, Size, Var};
use crate::scalar::Number;
use crate::tssa::{self, Operand, Rhs};
use crate::ty::{Storage, Type, TypeId, Types};

const PASS: &str = "end-early";

/// The flow with loops that end early.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn end_early(program: &Program) -> Result<Program> {
    ended(program, false)
}

/// The same, of a program as it is written: loops end whose paths are read, too, and what is behind the end is filled up.
///
/// # Errors
/// Those of [`end_early`].
pub fn end_paths_early(program: &Program) -> Result<Program> {
    ended(program, true)
}

fn ended(program: &Program, fills: bool) -> Result<Program> {
    let mut flow = Builder::resume(program);
    let read = program.reads();
    let mut ends = false;
    // Loops that share an index, as copies of one do, have as many steps.
    let (mut indices, mut shared) = (BTreeSet::new(), BTreeSet::new());
    shared.extend(scans(&program.body).iter().map(|scan| scan.index).filter(|index| !indices.insert(*index)));
    let finds = |scan: &&&Scan| scan.early.as_ref().is_some_and(|early| early.most != scan.steps);
    let found: BTreeSet<SizeId> =
        scans(&program.body).iter().filter(finds).filter_map(|scan| scan.steps.as_size()).collect();
    let is_found = |v: &Var| matches!(v, Var::Size(n) if found.contains(n));
    let body = with_scans(&program.body, &Loops::new(), &mut |scan, loops, out| {
        let is_path_read = scan.states.iter().any(|state| read.contains(&state.path));
        // One that makes as many steps as another loop has found out says no other number of steps.
        let follows = scan.steps.terms().iter().any(|(v, _)| is_found(v));
        let may_end = scan.early.is_none() && scan.implicit.is_none() && !follows;
        let is_shared = shared.contains(&scan.index);
        // Where a path is read it has to be known how long it is.
        let may_fill = fills && loops.is_empty() && !is_shared && changes(&scan).is_some();
        let ending = match may_end && (!is_path_read || may_fill) {
            true => ending(&mut flow, &scan, loops, is_shared)?,
            false => None,
        };
        ends |= ending.is_some();
        match ending {
            Some(mut ending) if is_path_read => {
                let whole = fill_paths(&mut flow, &mut ending, &scan.steps, &read)?;
                out.push(Stmt::Scan(ending));
                out.extend(whole.into_iter().map(Stmt::Leaf));
            }
            ending => out.push(Stmt::Scan(ending.unwrap_or(scan))),
        }
        Ok(())
    })?;
    if !ends {
        return Ok(program.clone());
    }
    // Leaves of loops in a loop that has got another number of steps know of it.
    join(&flow.finish(body, program.outputs.clone()))
}

/// A scan that ends early, if it is known when. It finds out a size where no loop is around it, and none shares its index.
fn ending(flow: &mut Builder, scan: &Scan, loops: &Loops, is_shared: bool) -> Result<Option<Scan>> {
    let mut body = scan.body.clone();
    let Some(Stmt::Leaf(leaf)) = body.last_mut() else { return Ok(None) };
    let test = taken(scan, leaf);
    let changes = if scan.down { None } else { changes(scan) };
    let (changes, steps) = match (changes, test.clone()) {
        (Some(changes), _) if loops.is_empty() && !is_shared => (changes, Size::size(flow.index("steps"))),
        (Some(changes), _) => (changes, scan.steps.clone()),
        (None, Some(test)) => (vec![(Vec::new(), test)], scan.steps.clone()),
        (None, None) => return Ok(None),
    };
    let test = test.unwrap_or(Pred::True);
    let mut joined = Joined::new(flow);
    let vars = joined.statements_of(leaf, &mut |_, _, _| Ok(None))?;
    let builder = &mut joined.builder;
    let one = builder.number(&[], Number::Literal(1.0))?;
    let mut count = None;
    for (dims, guard) in changes {
        // The indices of the elements, which are the first ones of a statement, are those of a sum here.
        let rhs = Rhs::Contract { sums: dims, guard: guard.and(test.clone()), operands: Vec::new() };
        let mut stmt = tssa::Stmt { dims: Vec::new(), rhs }.rename(&|x| vars.get(&x).copied())?;
        if let Rhs::Contract { operands, .. } = &mut stmt.rhs {
            operands.push(Operand { var: one, indices: Vec::new() });
        }
        let some = builder.push(&stmt)?;
        count = Some(match count {
            None => some,
            Some(others) if others == some => others,
            Some(others) => builder.add(&[], [(Pred::True, others), (Pred::True, some)])?,
        });
    }
    let Some(count) = count else { return Ok(None) };
    let changes = flow.value("changes", Types::REAL, Storage::Dense);
    joined.give(changes, count);
    joined.give_all(leaf, &vars)?;
    let mut inside = loops.clone();
    inside.push((scan.index, steps.clone()));
    let gives = leaf.gives.iter().copied().chain([changes]).collect();
    *leaf = joined.finish(flow, &inside, gives)?;
    let states = steps.add_constant(1)?;
    for state in &scan.states {
        let ty = flow.get(state.before).ty;
        let ty = flow.tensor(states.clone(), ty);
        flow.retype(state.path, ty);
    }
    let early = Some(Early { changes, most: scan.steps.clone() });
    Ok(Some(Scan { steps, early, body, ..scan.clone() }))
}

/// Gives the scan other paths, as long as it makes steps, and makes those that are read of them.
fn fill_paths(flow: &mut Builder, scan: &mut Scan, most: &Size, read: &BTreeSet<ValueId>) -> Result<Vec<Leaf>> {
    let (steps, states, loops) = (scan.steps.clone(), most.add_constant(1)?, Loops::new());
    let mut leaves = Vec::new();
    for state in scan.states.iter_mut().filter(|state| read.contains(&state.path)) {
        let whole = state.path;
        let (name, ty) = (flow.get(whole).name.clone(), flow.get(whole).ty);
        state.path = flow.value(&name, ty, Storage::Dense);
        let element = flow.get(state.before).ty;
        let ty = flow.tensor(states.clone(), element);
        flow.retype(whole, ty);
        let dims = flow.dims(whole)?;
        let axes = flow.dims(state.path)?;
        let mut joined = Joined::new(flow);
        let (made, last) = (joined.read(state.path, axes.clone()), joined.read(state.last, dims[1..].to_vec()));
        let builder = &mut joined.builder;
        let gens = builder.fresh_indices(&dims);
        let indices: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
        let (Some(t), Some(length)) = (indices.first().copied(), axes.first().cloned()) else {
            return Err(Error::bug(PASS, "a path without an axis"));
        };
        let (t, at) = (Affine::index(t), builder.fresh_index());
        let place = |first: Option<IndexId>| first.into_iter().chain(indices[1..].iter().copied()).collect();
        let here = Pred::equal(&Affine::index(at), &t)?;
        let made = Operand { var: made, indices: place(Some(at)) };
        let made = builder.contract(&gens, &[(at, length)], here, vec![made])?;
        let last = builder.contract(&gens, &[], Pred::True, vec![Operand { var: last, indices: place(None) }])?;
        let sum = builder.add(&gens, [(Pred::le(&t, &steps)?, made), (Pred::lt(&steps, &t)?, last)])?;
        joined.give(whole, sum);
        leaves.push(joined.finish(flow, &loops, vec![whole])?);
    }
    Ok(leaves)
}

/// Which elements of the states change in a step: axes and a guard over the first indices. Nothing where that is not known, or depends on the step.
fn changes(scan: &Scan) -> Option<Vec<(Vec<Size>, Pred)>> {
    let [before @ .., Stmt::Leaf(leaf)] = scan.body.as_slice() else { return None };
    // What the statements before give may depend on the step as well.
    if !before.is_empty() && !scan.is_steady() {
        return None;
    }
    let program = &leaf.program;
    let mut found = Vec::new();
    for state in &scan.states {
        let at = leaf.gives.iter().position(|x| *x == state.after);
        let after = match at {
            Some(at) => *program.outputs.get(at)?.leaves.first()?,
            // A state that goes on as it is.
            None if state.after == state.before => continue,
            None => return None,
        };
        let is_before = |param: ParamId| leaf.taken(param) == Some(&state.before);
        let keeping = Keeping { program, is_before: &is_before };
        let guard = keeping.changed(after)?;
        if guard.is_false() {
            continue;
        }
        // What no number decides goes on in all steps, or in none.
        if !guard.reads_computed() || depends_on_step(scan, leaf, &guard) {
            return None;
        }
        found.push((program.stmts[after].dims.clone(), guard));
    }
    (!found.is_empty()).then_some(found)
}

/// The test without which a step gives 0, where it is the same for all steps and places.
fn taken(scan: &Scan, leaf: &Leaf) -> Option<Pred> {
    let mut after = Vec::with_capacity(scan.states.len());
    for state in &scan.states {
        let at = leaf.gives.iter().position(|x| *x == state.after)?;
        after.push(*leaf.program.outputs.get(at)?.leaves.first()?);
    }
    let inner: BTreeSet<ValueId> = scan.body.iter().flat_map(Stmt::gives).collect();
    let is_around = |x: VarId| match leaf.program.stmts[x].rhs {
        Rhs::Input { param, .. } => match leaf.taken(param) {
            Some(x) => !inner.contains(x) && scan.states.iter().all(|state| state.before != *x),
            None => true,
        },
        _ => false,
    };
    let is_fixed = |p: &Pred| {
        let (mut fixed, mut decided) = (true, false);
        p.visit_affine(&mut |a| a.visit(&mut |v| fixed &= matches!(v, Var::Size(n) if *n != scan.index)));
        p.visit_computed(&mut |x| {
            fixed &= is_around(x);
            decided = true;
        });
        fixed && decided
    };
    let guard = match &leaf.program.stmts[*after.first()?].rhs {
        Rhs::Add([(p, _), (q, _)]) => Pred::all(p.conjuncts().iter().filter(|p| q.conjuncts().contains(p)).cloned()),
        Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => guard.clone(),
        Rhs::Input { .. } | Rhs::Number(_) => Pred::True,
    };
    let is_under = |x: &VarId, p: &Pred| {
        let mut guards = leaf.program.stmts[*x].rhs.guards().peekable();
        guards.peek().is_some() && guards.all(|guard| guard.conjuncts().contains(p))
    };
    let needed = |p: &&Pred| is_fixed(p) && after.iter().all(|x| is_under(x, p));
    let test = Pred::all(guard.conjuncts().iter().filter(needed).cloned());
    (!test.is_true()).then_some(test)
}

/// Whether a guard of a statement says something about the step, but by the states.
fn depends_on_step(scan: &Scan, leaf: &Leaf, guard: &Pred) -> bool {
    let mut depends = false;
    guard.visit_affine(&mut |a| a.visit(&mut |v| depends |= *v == Var::Size(scan.index)));
    let mut stack = Vec::new();
    guard.visit_computed(&mut |x| stack.push(x));
    let mut seen = BTreeSet::new();
    while let Some(x) = stack.pop() {
        if !seen.insert(x) {
            continue;
        }
        let stmt = &leaf.program.stmts[x];
        depends |= lift::mentions_anywhere(stmt, scan.index);
        stmt.rhs.for_each_operand(|y| stack.push(y));
    }
    depends
}

/// What a step keeps of a state.
struct Keeping<'a> {
    program: &'a tssa::Program,
    is_before: &'a dyn Fn(ParamId) -> bool,
}

impl Keeping<'_> {
    /// Where a tensor may be another one than the state before.
    fn changed(&self, x: VarId) -> Option<Pred> {
        if self.kept(x)?.is_true() {
            return Some(Pred::False);
        }
        let Rhs::Add([(p, a), (q, b)]) = &self.program.stmts[x].rhs else { return None };
        let one = |p: &Pred, a: VarId, q: &Pred, b: VarId| {
            let kept = q.clone().and(self.kept(b)?);
            if kept.is_false() {
                return None;
            }
            Some(p.clone().and(self.present(a, 0)).or(kept.negate()?))
        };
        one(p, *a, q, *b).or_else(|| one(q, *b, p, *a))
    }

    /// Where a tensor is the state before; elsewhere it is 0, or something else.
    fn kept(&self, x: VarId) -> Option<Pred> {
        let stmt = &self.program.stmts[x];
        let is_state =
            |x: VarId| matches!(self.program.stmts[x].rhs, Rhs::Input { param, .. } if (self.is_before)(param));
        Some(match &stmt.rhs {
            _ if is_state(x) => Pred::True,
            Rhs::Contract { sums, guard, operands } if sums.is_empty() => match operands.as_slice() {
                [Operand { var, indices }] if is_state(*var) => {
                    let whole = (0..stmt.dims.len()).map(IndexId::from_index);
                    if indices.iter().copied().eq(whole) { guard.clone() } else { Pred::False }
                }
                _ => Pred::False,
            },
            _ => Pred::False,
        })
    }

    /// Where a tensor may be not 0, as far as guards say.
    fn present(&self, x: VarId, depth: usize) -> Pred {
        // How many additions are looked through.
        const DEEP: usize = 8;
        match &self.program.stmts[x].rhs {
            Rhs::Add([(p, a), (q, b)]) if depth < DEEP => {
                let side = |p: &Pred, a: VarId| p.clone().and(self.present(a, depth + 1));
                side(p, *a).or(side(q, *b))
            }
            Rhs::Map { guard, .. } => guard.clone(),
            Rhs::Contract { sums, guard, .. } if sums.is_empty() => guard.clone(),
            Rhs::Contract { guard, .. } => {
                let axes = self.program.stmts[x].dims.len();
                let is_axis = |v: &Var| !matches!(v, Var::Index(i) if i.index() >= axes);
                let of_axes = |p: &&Pred| {
                    let mut found = !matches!(p, Pred::Exists { .. } | Pred::All(_) | Pred::Any(_));
                    p.visit_affine(&mut |a| a.visit(&mut |v| found &= is_axis(v)));
                    found
                };
                Pred::all(guard.conjuncts().iter().filter(of_axes).cloned())
            }
            Rhs::Add(_) | Rhs::Input { .. } | Rhs::Number(_) => Pred::True,
        }
    }
}

/// The flow with loops that make all steps, in which nothing has a length that a loop finds out.
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn to_the_end(program: &Program) -> Result<Program> {
    let early = |stmt: &Stmt| match stmt {
        Stmt::Scan(Scan { steps, early: Some(early), .. }) => Some((steps.as_size()?, early.most.clone())),
        _ => None,
    };
    if !scans(&program.body).iter().any(|scan| scan.early.is_some()) {
        return Ok(program.clone());
    }
    let sizes: BTreeMap<SizeId, Size> = program.body.iter().filter_map(early).collect();
    let mut flow = Builder::resume(program);
    let at_most = |a: &Affine| a.replace(&mut |v| Ok(if let Var::Size(n) = v { sizes.get(n).cloned() } else { None }));
    let old: Vec<Type> = program.frame.types.iter().map(|(_, ty)| ty.clone()).collect();
    let mut types: Vec<TypeId> = Vec::with_capacity(old.len());
    for ty in old {
        let of = |id: TypeId| types.get(id.index()).copied().unwrap_or(Types::REAL);
        types.push(match ty {
            Type::Real => Types::REAL,
            Type::Pair(a, b) => flow.types().pair(of(a), of(b)),
            Type::Tensor(n, element) => flow.types().tensor(at_most(&n)?, of(element)),
        });
    }
    for (x, value) in program.values.iter() {
        let ty = types.get(value.ty.index()).copied();
        flow.retype(x, ty.ok_or_else(|| Error::bug(PASS, "an unknown type"))?);
    }
    let body = whole(&flow, &program.body, &mut Loops::new(), &at_most)?;
    join(&flow.finish(body, program.outputs.clone()))
}

// Scans nest to a bounded depth.
fn whole(
    flow: &Builder,
    body: &[Stmt],
    loops: &mut Loops,
    at_most: &dyn Fn(&Affine) -> Checked<Affine>,
) -> Result<Vec<Stmt>> {
    let mut out = Vec::with_capacity(body.len());
    for stmt in body {
        out.push(match stmt {
            Stmt::Leaf(leaf) => {
                let mut joined = Joined::new(flow);
                let vars = joined.statements_resized(leaf, &sources(leaf), at_most)?;
                joined.give_all(leaf, &vars)?;
                Stmt::Leaf(joined.finish(flow, loops, leaf.gives.clone())?)
            }
            Stmt::Call(call) => {
                let all = |sizes: &[Size]| sizes.iter().map(at_most).collect::<Checked<Vec<_>>>();
                Stmt::Call(Call { sizes: all(&call.sizes)?, axes: all(&call.axes)?, ..call.clone() })
            }
            Stmt::Scan(scan) => {
                let steps = at_most(&scan.steps)?;
                loops.push((scan.index, steps.clone()));
                let body = whole(flow, &scan.body, loops, at_most)?;
                loops.pop();
                Stmt::Scan(Scan { steps, early: None, body, ..scan.clone() })
            }
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    /// The inner loop is the same in all steps, and runs in front of the outer one as well.
    #[test]
    fn a_copy_of_a_loop_has_as_many_steps() {
        let text = "param a : real\n\
                    def orbit(a : real, b : real) = fst (fold t < 6, (s, k) = (a, 0). if s < b then (s + 1/3, k + 1) else (s, k))\n\
                    let p = scan t < 4, (s, k) = (orbit(a / 2, a), 0). if s < 2 then (s + orbit(a, 1), k + 1) else (s, k)\n\
                    sum t < 5. fst p[t]";
        let function = crate::Function::parse(text).unwrap();
        let value = |a: f64| function.eval(&crate::inputs! { "a" => a }).unwrap()["value"].as_scalar().unwrap();
        let gradient = function.gradient(["a"]).unwrap().eval(&crate::inputs! { "a" => 0.4 }).unwrap();
        let expected = (value(0.4 + 1e-6) - value(0.4 - 1e-6)) / 2e-6;
        assert!((gradient["grad_a"].as_scalar().unwrap() - expected).abs() < 1e-6);
    }
}

//! Fixpoints: states that are a solution of an equation, differentiated as such.
//!
//! With `a` near a solution, `J` the partial derivative of `e` by `s` there, and `e'` that by `x`,
//!
//! ```text
//! s = fixpoint s = a. e(s, x)     ==  s = e(a, x)
//! D[s]                            ==  ds = fixpoint ds = b. J ds + e' dx            b what the iteration has from 0 on
//! D^T[s](d)                       ==  w = fixpoint w = b. d + J^T w;  <x> += e'^T w
//! ```
//!
//! This is the implicit function theorem: where `s = e(s, x)` holds for all `x` near by, `ds = J ds + e' dx`, and with `w = (1 - J^T)^-1 d` is
//! `<d | ds> = <w | e' dx>`. Nothing depends on `a`, nor on the steps by which it was found, so no path is kept. A fixpoint is a scan of one step
//! that is [marked](super::Scan::implicit): whoever runs it need not know.
//!
//! **The linear equation is a fixpoint again**, so it prints, parses and is differentiated as others are. It is iterated from 0 on,
//!
//! ```text
//! iterate (w, r) = (0, 1) while r > 0, at most n. (f, if q > 1e-24 or q < r then q else 0)        f = d + J^T w, q = |f - w|^2 / |f|^2
//! ```
//!
//! and made one step more. So it goes on until the relative change of a step is `1e-12` at most, and then as long as the change gets less, to what
//! rounding allows. All states count together, and where a derivative has several columns each ends by itself. The error of `w` is at most
//! `1e-12 / (1 - c)` of it where each step shrinks distances by a factor `c < 1`. A step that is no contraction has no such bound: the iteration ends
//! after `n` steps, or where a number overflows, with what it has.
//!
//! *Why by iteration*: where the solution was found by going on from state to state, `J` shrinks, and as many steps as found the state
//! find the derivative. Each is a product of `J` with a vector, that is, the derivative of the step, as sparse as the step is. A direct solution would
//! make `J`, and take a number of operations that is its size cubed.
//!
//! A state that is found to within a tolerance is no solution, so its derivative is as far from that of one. [`solve_further`] tells this apart from a
//! derivative that is wrong: its fixpoints, those of linear equations as well, go on before their last step.

use super::again::Copies;
use super::build::Builder;
use super::data::{Early, Leaf, Loops, Program, Scan, State, Stmt, ValueId, with_scans};
use super::leaf::{Joined, Small};
use crate::base::VarId;
use crate::error::{Error, Result};
use crate::index::{Pred, RelationRef, Size, View};
use crate::scalar::{Comparison, Number, Op};
use crate::tssa::{self, Operand};
use crate::ty::{Storage, Types};

/// The square of the relative change down to which an iteration goes on in any case.
const CLOSE: f64 = 1e-24;

/// How many steps [`solve_further`] adds at most.
const FURTHER: i64 = 10_000;

/// The flow whose fixpoints make as many steps more as they may take, before the last one:
///
/// ```text
/// fixpoint s = a. e  ==>  fixpoint s = (fold k < most, s = a. e). e
/// ```
///
/// # Errors
/// [`Error::Overflow`] and [`Error::Bug`].
pub fn solve_further(program: &Program) -> Result<Program> {
    let mut flow = Builder::resume(program);
    let body = with_scans(&program.body, &Loops::new(), &mut |mut scan, loops, out| {
        let Some(most) = &scan.implicit else {
            out.push(Stmt::Scan(scan));
            return Ok(());
        };
        let steps = match most.as_constant() {
            Some(k) => Size::constant(k.min(FURTHER)),
            None => most.clone(),
        };
        let index = flow.index("k");
        let mut inside = loops.clone();
        inside.push((index, steps.clone()));
        let mut copies = Copies::default();
        for before in scan.states.iter().map(|state| state.before) {
            let value = flow.get(before).clone();
            copies.values.insert(before, flow.value(value.name, value.ty, Storage::Dense));
        }
        let body = copies.block(&mut flow, &scan.body, &inside)?;
        let mut states = Vec::with_capacity(scan.states.len());
        for own in &scan.states {
            let (before, after) = (copies.value(own.before), copies.value(own.after));
            states.push(state(&mut flow, own.init, before, after, &steps)?);
        }
        for (own, further) in scan.states.iter_mut().zip(&states) {
            own.init = further.last;
        }
        let (early, implicit) = (None, None);
        out.push(Stmt::Scan(Scan { index, steps, down: false, states, early, tiles: false, implicit, body }));
        out.push(Stmt::Scan(scan));
        Ok(())
    })?;
    Ok(flow.finish(body, program.outputs.clone()))
}

/// `w = body(w)`, linear in `w`.
pub(super) struct Equation {
    /// The states before a step, and those behind it.
    pub states: Vec<(ValueId, ValueId)>,
    pub body: Vec<Stmt>,
    /// How many steps the iteration takes at most.
    pub most: Size,
}

/// The states of the scan that has the solution.
pub(super) fn solve(flow: &mut Builder, equation: Equation, loops: &Loops, out: &mut Vec<Stmt>) -> Result<Vec<State>> {
    let Equation { states, body, most } = equation;
    let near = iterate(flow, &states, &body, &most, loops, out)?;
    let mut solved = Vec::with_capacity(states.len());
    for ((before, after), init) in states.into_iter().zip(near) {
        solved.push(state(flow, init, before, after, &Size::constant(1))?);
    }
    let index = flow.index("k");
    let (steps, states) = (Size::constant(1), solved.clone());
    let (early, implicit) = (None, Some(most));
    out.push(Stmt::Scan(Scan { index, steps, down: false, states, early, tiles: false, implicit, body }));
    Ok(solved)
}

fn state(flow: &mut Builder, init: ValueId, before: ValueId, after: ValueId, steps: &Size) -> Result<State> {
    let value = flow.get(before).clone();
    let last = flow.value(&value.name, value.ty, Storage::Dense);
    let path = flow.tensor(steps.add_constant(1)?, value.ty);
    let path = flow.value(value.name, path, Storage::Dense);
    Ok(State { init, before, after, path, last })
}

/// The last states of the iteration from 0 on.
fn iterate(
    flow: &mut Builder,
    states: &[(ValueId, ValueId)],
    body: &[Stmt],
    most: &Size,
    loops: &Loops,
    out: &mut Vec<Stmt>,
) -> Result<Vec<ValueId>> {
    let mut copies = Copies::default();
    let mut inits = Vec::with_capacity(states.len());
    for (before, _) in states {
        let value = flow.get(*before).clone();
        let dims = flow.dims(*before)?;
        let zeros = Small { flow, loops }.constant(&value.name, &dims, 0.0)?;
        inits.push(zeros.given()?);
        out.push(Stmt::Leaf(zeros));
        copies.values.insert(*before, flow.value(value.name, value.ty, Storage::Dense));
    }
    let one = Small { flow, loops }.constant("change", &[], 1.0)?;
    let first = one.given()?;
    out.push(Stmt::Leaf(one));
    let index = flow.index("k");
    let mut inside = loops.clone();
    inside.push((index, most.clone()));
    let mut body = copies.block(flow, body, &inside)?;
    let of = |x: ValueId| copies.value(x);
    let states: Vec<(ValueId, ValueId)> = states.iter().map(|(before, after)| (of(*before), of(*after))).collect();
    let change = flow.value("change", Types::REAL, Storage::Dense);
    let (leaf, after, changes) = step(flow, &states, change, &inside)?;
    body.push(Stmt::Leaf(leaf));
    let befores = states.iter().map(|(before, _)| *before).chain([change]);
    let mut of_scan = Vec::with_capacity(after.len());
    for ((before, after), init) in befores.zip(after).zip(inits.into_iter().chain([first])) {
        of_scan.push(state(flow, init, before, after, most)?);
    }
    let lasts = of_scan.iter().take(states.len()).map(|state| state.last).collect();
    let early = Some(Early { changes, most: most.clone() });
    let (steps, states) = (most.clone(), of_scan);
    out.push(Stmt::Scan(Scan { index, steps, down: false, states, early, tiles: false, implicit: None, body }));
    Ok(lasts)
}

/// `if r > 0 then (f, if q > 1e-24 or q < r then q else 0) else (w, r)` for states `(w, f)` and a change `r`; gives what the next states are, and whether
/// they change.
fn step(
    flow: &mut Builder,
    states: &[(ValueId, ValueId)],
    change: ValueId,
    loops: &Loops,
) -> Result<(Leaf, Vec<ValueId>, ValueId)> {
    let mut joined = Joined::new(flow);
    let now = joined.read(change, Vec::new());
    let (builder, zero) = literal(&mut joined, 0.0)?;
    let less = |builder: &mut tssa::Builder, guard: &Pred, a, b| {
        let var = builder.map(&[], guard.clone(), Op::Compare(Comparison::Less).into(), vec![a, b])?;
        let relation = RelationRef::Computed { var, view: View::Support };
        Ok::<_, Error>([true, false].map(|holds| Pred::Relation { relation, args: Vec::new(), holds }))
    };
    let [more, done] = less(builder, &Pred::True, zero, now)?;
    let mut after = Vec::with_capacity(states.len() + 1);
    let mut squares: Option<[VarId; 2]> = None;
    for (w, f) in states {
        let value = flow.get(*w).clone();
        let dims = flow.dims(*w)?;
        let (w, f) = (joined.read(*w, dims.clone()), joined.read(*f, dims.clone()));
        let (builder, minus) = literal(&mut joined, -1.0)?;
        let gens = builder.fresh_indices(&dims);
        let whole = |var| Operand { var, indices: gens.iter().map(|(i, _)| *i).collect() };
        let scalar = Operand { var: minus, indices: Vec::new() };
        let next = builder.add(&gens, [(more.clone(), f), (done.clone(), w)])?;
        let minus = builder.contract(&gens, &[], more.clone(), vec![whole(w), scalar])?;
        let moved = builder.add(&gens, [(more.clone(), f), (more.clone(), minus)])?;
        let mut square = |x| builder.contract(&[], &gens, more.clone(), vec![whole(x), whole(x)]);
        let own = [square(moved)?, square(f)?];
        squares = Some(match squares {
            None => own,
            Some(before) => {
                let mut sum = |at: usize| builder.add(&[], [(more.clone(), before[at]), (more.clone(), own[at])]);
                [sum(0)?, sum(1)?]
            }
        });
        let new = flow.value(value.name, value.ty, Storage::Dense);
        joined.give(new, next);
        after.push(new);
    }
    let [moved, size] = squares.unwrap_or([now; 2]);
    let (builder, one) = literal(&mut joined, 1.0)?;
    let ratio = builder.map(&[], more.clone(), Op::Div.into(), vec![moved, size])?;
    let (builder, limit) = literal(&mut joined, CLOSE)?;
    let ([far, _], [closer, _]) = (less(builder, &more, limit, ratio)?, less(builder, &more, ratio, now)?);
    let next = builder.add(&[], [(more.clone().and(far.or(closer)), ratio), (done, now)])?;
    let changes = builder.contract(&[], &[], more, vec![Operand { var: one, indices: Vec::new() }])?;
    let name = |flow: &mut Builder, name: &str| flow.value(name, Types::REAL, Storage::Dense);
    let (new, told) = (name(flow, "change"), name(flow, "changes"));
    joined.give(new, next);
    joined.give(told, changes);
    after.push(new);
    let leaf = joined.finish(flow, loops, after.iter().copied().chain([told]).collect())?;
    Ok((leaf, after, told))
}

fn literal(joined: &mut Joined, x: f64) -> Result<(&mut tssa::Builder, VarId)> {
    let var = joined.builder.number(&[], Number::Literal(x))?;
    Ok((&mut joined.builder, var))
}

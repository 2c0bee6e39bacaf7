//! Of sums over several axes of a tensor, each along a window, those along its first axes are computed first.
//!
//! ```text
//! let t = gen i, b. sum l, c. [j + l = c] * g[l] * x[b, c] in gen i, j. sum k, b. [i + k = b] * f[k] * t[j, b]
//!   ==
//! let t = gen i, c. sum k, b. [i + k = b] * f[k] * x[b, c] in gen i, j. [some k, b] * (sum l, c. [j + l = c] * g[l] * t[i, c])
//! ```
//!
//! A filter whose weights are products is one sum after the other, which takes as many operations either way, so simplification has no reason for one of them. Here
//! there is one: sums along the first axes need a row of `t` for each row of the result, and are computed where that is; along the last axes they need
//! rows of `t` that are not there yet. Filters of one picture that go the same way are computed in one nest.
//!
//! **Why it is right.** Sums commute: neither test, nor a factor, mentions an index of the other sum. Where a sum is over nothing all is 0, whatever the weights are:
//! for that of `t` there is no term any more, and for that which was outside it is asked, where `g` may be no number; what is asked there is [proven](exists_all)
//! from ranges, or is of the sizes.
//!
//! **Where it is done.** Nobody else reads `t`, each sum is over the axis of `x` and an index that an equation links to it and to an index of the result, and
//! neither the points nor what is stored become more.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::Scope;
use crate::base::{Id, IndexId, SideTable, VarId};
use crate::error::Result;
use crate::index::Pred;
use crate::solver::estimate::{Growth, Hints, points};
use crate::solver::exists_all;
use crate::tssa::{Builder, OpenStmt, Operand, Program, Rhs, Stmt};

/// How often the sums of a program change places: those along the last of three axes do so twice.
const MAX_ROUNDS: usize = 4;

/// The program in which sums along first axes come first.
pub(super) fn exchanged(program: &Program) -> Result<Cow<'_, Program>> {
    let mut now = Cow::Borrowed(program);
    for _ in 0..MAX_ROUNDS {
        match round(&now)? {
            Some(next) => now = Cow::Owned(next),
            None => break,
        }
    }
    Ok(now)
}

/// The program in which sums have changed places once, if some did.
fn round(program: &Program) -> Result<Option<Program>> {
    let sums_twice = |stmt: &Stmt| {
        let Rhs::Contract { sums, operands, .. } = &stmt.rhs else { return false };
        sums.len() > 1 && operands.iter().any(|x| program.stmts[x.var].rhs.sums().len() > 1)
    };
    if !program.stmts.values().any(sums_twice) {
        return Ok(None);
    }
    let readers = readers(program);
    let mut depths = Depths::default();
    let mut found = false;
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, x, stmt| {
        let Rhs::Contract { operands, .. } = &program.stmts[x].rhs else { return builder.push(stmt) };
        for (at, operand) in operands.iter().enumerate().filter(|(_, operand)| readers[operand.var] == 1) {
            let is_sum = program.stmts[operand.var].rhs.sums().len() > 1;
            if is_sum && let Some(pair) = Pair::of(builder, &mut depths, stmt, at)? {
                found = true;
                return pair.exchanged(builder);
            }
        }
        builder.push(stmt)
    })?;
    Ok(if found { Some(builder.finish(outputs).prune()?) } else { None })
}

/// How many times each tensor is read, or given out.
pub(super) fn readers(program: &Program) -> SideTable<VarId, usize> {
    let mut readers = SideTable::new(program.stmts.len(), 0);
    let leaves = program.outputs.iter().flat_map(|output| output.leaves.iter().copied());
    leaves.for_each(|x| readers[x] += 1);
    program.stmts.values().for_each(|stmt| stmt.rhs.for_each_operand(|x| readers[x] += 1));
    readers
}

/// Which axes of tensors are the first ones: axes of a parameter come in their order, and those of what is computed as they do in what it reads. The
/// order in which Tensor-SSA happens to have the axes of an intermediate tensor says nothing.
#[derive(Default)]
struct Depths {
    of: Vec<Vec<usize>>,
}

impl Depths {
    /// For each axis of a tensor, which one it is.
    fn of(&mut self, builder: &Builder, x: VarId) -> &[usize] {
        for x in (self.of.len()..builder.len()).map(VarId::from_index) {
            let depths = self.own(builder.stmt(x));
            self.of.push(depths);
        }
        self.of.get(x.index()).map_or(&[], Vec::as_slice)
    }

    fn own(&self, stmt: &Stmt) -> Vec<usize> {
        let known = |x: VarId, axis: usize| self.of.get(x.index()).and_then(|depths| depths.get(axis)).copied();
        let of_axis = |axis: usize| match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => None,
            Rhs::Add([(_, x), _]) => known(*x, axis),
            Rhs::Map { args, .. } => args.iter().find_map(|x| known(*x, axis)),
            Rhs::Contract { guard, operands, .. } => {
                let i = IndexId::from_index(axis);
                let is_linked = |j: IndexId| {
                    guard.conjuncts().iter().any(|p| matches!(p, Pred::Zero(_)) && p.mentions(i) && p.mentions(j))
                };
                // A weight has fewer axes than what it weighs.
                let linked = || {
                    operands
                        .iter()
                        .max_by_key(|x| x.indices.len())
                        .map(|x| (x, x.indices.iter().position(|j| is_linked(*j))))
                };
                let own = operands.iter().map(|x| (x, x.indices.iter().position(|j| *j == i)));
                own.chain(linked()).find_map(|(x, axis)| known(x.var, axis?))
            }
        };
        (0..stmt.dims.len()).map(|axis| of_axis(axis).unwrap_or(axis)).collect()
    }
}

/// A sum along a window, of what another one is along another axis.
struct Window {
    sums: Scope,
    /// What mentions them, and what does not.
    asked: Vec<Pred>,
    rest: Vec<Pred>,
    weight: Option<Operand>,
}

/// Two sums in each other.
struct Pair {
    gens: Scope,
    outer: Window,
    inner: Window,
    /// What is summed up.
    summed: Operand,
    /// Where the outer sum is not over nothing.
    is_some: Pred,
}

impl Window {
    fn of(sums: Scope, guard: &Pred, weight: Option<Operand>) -> Window {
        let (asked, rest) = guard.conjuncts().iter().cloned().partition(|p| sums.iter().any(|(k, _)| p.mentions(*k)));
        Window { sums, asked, rest, weight }
    }

    fn has(&self, i: IndexId) -> bool {
        self.sums.iter().any(|(k, _)| *k == i)
    }

    /// Whether an equation links an axis that is summed along to another index of the sum and to one of the result.
    fn is_along(&self, axis: IndexId, gens: &Scope) -> bool {
        let links = |p: &Pred| {
            matches!(p, Pred::Zero(_))
                && p.mentions(axis)
                && self.sums.iter().any(|(k, _)| *k != axis && p.mentions(*k))
                && gens.iter().any(|(i, _)| p.mentions(*i))
        };
        self.asked.iter().any(links)
    }

    /// Whether its tests or its weight mention an index.
    fn reads(&self, i: IndexId) -> bool {
        self.asked.iter().any(|p| p.mentions(i)) || self.weight.as_ref().is_some_and(|x| x.indices.contains(&i))
    }

    /// The first axis of a tensor that is summed along.
    fn axis(&self, x: &Operand) -> Option<usize> {
        x.indices.iter().position(|i| self.has(*i))
    }
}

impl Pair {
    /// A statement and its operand at this place, where their sums are better exchanged.
    fn of(builder: &mut Builder, depths: &mut Depths, stmt: &Stmt, at: usize) -> Result<Option<Pair>> {
        let OpenStmt { gens, sums, rhs: Rhs::Contract { guard, mut operands, .. } } = builder.open_stmt(stmt)? else {
            return Ok(None);
        };
        let between = operands.remove(at);
        let outer = Window::of(sums, &guard, operands.pop());
        let OpenStmt { gens: axes, sums, rhs: Rhs::Contract { guard, operands, .. } } = builder.open(between.var)?
        else {
            return Ok(None);
        };
        let read_at = |i: IndexId| axes.iter().zip(&between.indices).find(|((axis, _), _)| *axis == i).map(|(_, i)| *i);
        let guard = builder.freshen(&guard, &read_at)?;
        let mut operands: Vec<Operand> = operands
            .into_iter()
            .map(|x| Operand { indices: x.indices.iter().map(|i| read_at(*i).unwrap_or(*i)).collect(), ..x })
            .collect();
        let is_summed =
            |x: &Operand| [&outer.sums, &sums].into_iter().all(|sums| sums.iter().any(|(k, _)| x.indices.contains(k)));
        let Some(at) = operands.iter().position(is_summed) else { return Ok(None) };
        let summed = operands.remove(at);
        let inner = Window::of(sums, &guard, operands.pop());
        let pair = Pair { gens, outer, inner, summed, is_some: Pred::True };
        if !pair.is_apart(depths.of(builder, pair.summed.var)) || !pair.gains(builder) {
            return Ok(None);
        }
        let is_finite = pair.inner.weight.as_ref().is_none_or(|x| is_of_literals(builder, x.var));
        let asked =
            if is_finite { Some(Vec::new()) } else { some(builder, &pair.gens, &pair.outer.sums, &pair.outer.asked)? };
        Ok(asked.map(|asked| Pair { is_some: Pred::all(asked), ..pair }))
    }

    /// Whether the sums are along windows of different axes, the outer one of an earlier axis, and neither mentions the other one's indices.
    fn is_apart(&self, depths: &[usize]) -> bool {
        let Pair { gens, outer, inner, summed, .. } = self;
        let (Some(first), Some(second)) = (outer.axis(summed), inner.axis(summed)) else { return false };
        let is_along =
            |window: &Window, axis: usize| summed.indices.get(axis).is_some_and(|i| window.is_along(*i, gens));
        depths.get(first) < depths.get(second)
            && is_along(outer, first)
            && is_along(inner, second)
            && outer.sums.iter().all(|(k, _)| !inner.reads(*k) && !inner.rest.iter().any(|p| p.mentions(*k)))
    }

    /// The indices of a sum along this window, which is then read at those of the other sum.
    fn axes(&self, window: &Window, other: &Window) -> Scope {
        let read = |i: IndexId| window.reads(i) || self.summed.indices.contains(&i);
        self.gens.iter().chain(&other.sums).filter(|(i, _)| read(*i)).cloned().collect()
    }

    /// Whether neither points nor stored numbers become more.
    fn gains(&self, builder: &Builder) -> bool {
        let count =
            |scope: &Scope, guard: Vec<Pred>| points(scope, &Pred::all(guard), &Hints::new(), &**builder.signature());
        let cost = |first: &Window, second: &Window| {
            let axes = self.axes(first, second);
            let inner = [axes.clone(), first.sums.clone()].concat();
            let outer = [self.gens.clone(), second.sums.clone()].concat();
            let stored = count(&axes, Vec::new());
            [count(&inner, first.asked.clone()).add(&count(&outer, second.asked.clone())), stored]
        };
        let (after, before) = (cost(&self.outer, &self.inner), cost(&self.inner, &self.outer));
        let is_less = |(a, b): (&Growth, &Growth)| a.compare(b) != Ordering::Greater;
        after.iter().zip(&before).all(is_less)
    }

    /// The statement, with that of its operand before it.
    fn exchanged(self, builder: &mut Builder) -> Result<VarId> {
        let axes = self.axes(&self.outer, &self.inner);
        let Pair { gens, outer, inner, summed, is_some } = self;
        let indices = axes.iter().map(|(i, _)| *i).collect();
        let first = outer.weight.into_iter().chain([summed]).collect();
        let var = builder.contract(&axes, &outer.sums, Pred::all(outer.asked), first)?;
        let second = inner.weight.into_iter().chain([Operand { var, indices }]).collect();
        let guard = Pred::all(inner.asked.into_iter().chain(inner.rest).chain(outer.rest).chain([is_some]));
        builder.contract(&gens, &inner.sums, guard, second)
    }
}

/// What is to be asked of sizes that there is something to sum up, whatever the indices of the result are: nothing, where that is proven.
pub(super) fn some(builder: &Builder, gens: &Scope, sums: &Scope, asked: &[Pred]) -> Result<Option<Vec<Pred>>> {
    let some = exists_all(sums, &Pred::all(asked.iter().cloned()))?;
    let facts = builder.signature().facts().under(gens, &[]);
    let unknown: Vec<Pred> = some.conjuncts().iter().filter(|p| !facts.proves(p)).cloned().collect();
    let is_of_sizes = |p: &Pred| matches!(p, Pred::NonNegative(a) if !a.has_indices());
    Ok(unknown.iter().all(is_of_sizes).then_some(unknown))
}

/// Whether a tensor consists of finite literals.
pub(super) fn is_of_literals(builder: &Builder, x: VarId) -> bool {
    match &builder.stmt(x).rhs {
        Rhs::Add(sides) => sides.iter().all(|(_, x)| builder.stmt(*x).rhs.is_finite_literal()),
        rhs => rhs.is_finite_literal(),
    }
}

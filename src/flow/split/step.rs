//! Leaves of steps under construction.
//!
//! ```text
//! sum l, s. [l = a] * [p] * P[l, i] * Y[..]  ==  x = gen i. sum l. [l = a] * P[l, i];  sum s. [p] * x[i] * Y[..]    where a mentions no index
//! ```
//!
//! What is read of an input at one place is a statement of its own, a *part*. So a statement over the state of a loop is the same one as a statement over
//! the path of the loop at the step, and hash-consing finds it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::build::Builder;
use super::super::data::{Leaf, Loops, Scan, State, Stmt, ValueId};
use super::super::leaf::{Joined, Small};
use super::super::lift;
use crate::base::{IndexId, ParamId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, Size};
use crate::tssa::tables::Table;
use crate::tssa::{self, Operand, Rhs};
use crate::ty::Storage;

const PASS: &str = "split";

/// Where states are in their path.
impl Scan {
    /// The place of the state before a step.
    pub(super) fn before_at(&self) -> Result<Affine> {
        Ok(Affine::size(self.index).add_constant(i64::from(self.down))?)
    }

    /// The place of the state after a step.
    pub(super) fn after_at(&self) -> Result<Affine> {
        Ok(Affine::size(self.index).add_constant(i64::from(!self.down))?)
    }

    /// The body, if it is one leaf.
    pub(super) fn single(&self) -> Option<&Leaf> {
        match self.body.as_slice() {
            [Stmt::Leaf(leaf)] => Some(leaf),
            _ => None,
        }
    }
}

/// Which statements of a step depend on its states, and which are not the same in all steps by what they say themselves.
pub(super) struct Changing {
    pub moves: BTreeSet<VarId>,
    pub varies: BTreeSet<VarId>,
}

/// Those of statements, operands first, whose inputs are some values.
pub(super) fn changing<'s>(
    stmts: impl Iterator<Item = (VarId, &'s tssa::Stmt)>,
    scan: &Scan,
    taken: impl Fn(ParamId) -> Option<ValueId>,
) -> Changing {
    let (mut moves, mut varies) = (BTreeSet::new(), BTreeSet::new());
    for (x, stmt) in stmts {
        let value = if let Rhs::Input { param, .. } = &stmt.rhs { taken(*param) } else { None };
        let mut reads_state = value.is_some_and(|value| scan.states.iter().any(|state| state.before == value));
        let mut reads_step = lift::mentions(stmt, scan.index);
        stmt.rhs.for_each_operand(|y| {
            reads_state |= moves.contains(&y);
            reads_step |= varies.contains(&y);
        });
        if reads_state {
            moves.insert(x);
        }
        if reads_step {
            varies.insert(x);
        }
    }
    Changing { moves, varies }
}

/// Whether a statement only reads another one at places that equations give.
pub(super) fn is_view(stmt: &tssa::Stmt) -> bool {
    match &stmt.rhs {
        Rhs::Contract { sums, operands, guard } => {
            operands.len() == 1 && sums.len() == guard.conjuncts().len() && guard.conjuncts().iter().all(is_equation)
        }
        _ => false,
    }
}

/// The statements that some read, directly or not, and these themselves; what those read that `through` refuses is not looked at.
pub(super) fn read_by<'s>(
    stmt: impl Fn(VarId) -> &'s tssa::Stmt,
    from: impl IntoIterator<Item = VarId>,
    mut through: impl FnMut(VarId) -> bool,
) -> BTreeSet<VarId> {
    let mut seen: BTreeSet<VarId> = from.into_iter().collect();
    let mut stack: Vec<VarId> = seen.iter().copied().collect();
    while let Some(x) = stack.pop() {
        if through(x) {
            stmt(x).rhs.for_each_operand(|y| {
                if seen.insert(y) {
                    stack.push(y);
                }
            });
        }
    }
    seen
}

/// Whether a statement adds up: equations do not give all of its sum indices, one value each or, as of neighbours on a ring, one in each case.
pub(in super::super) fn adds_up(stmt: &tssa::Stmt) -> bool {
    let tells = |p: &&Pred| match p {
        Pred::Any(cases) => cases.iter().all(|case| case.conjuncts().iter().any(is_equation)),
        p => is_equation(p),
    };
    stmt.rhs.sums().len() > stmt.rhs.guards().flat_map(|p| p.conjuncts()).filter(tells).count()
}

fn is_equation(p: &Pred) -> bool {
    matches!(p, Pred::Zero(_))
}

/// A contraction in which what is read of dense inputs at one place is a part.
fn contract(
    builder: &mut tssa::Builder,
    gens: &[(IndexId, Size)],
    mut sums: Vec<(IndexId, Size)>,
    guard: Pred,
    mut operands: Vec<Operand>,
    is_dense: &dyn Fn(ParamId) -> bool,
) -> Result<VarId> {
    let all: Vec<IndexId> = operands.iter().flat_map(|x| x.indices.iter().copied()).collect();
    let mut conjuncts: Vec<Pred> = guard.conjuncts().to_vec();
    for operand in &mut operands {
        if !matches!(builder.stmt(operand.var).rhs, Rhs::Input { param, .. } if is_dense(param)) {
            continue;
        }
        let mut fixed: Vec<Pred> = Vec::new();
        let mut own: Vec<(IndexId, Size)> = Vec::new();
        for l in &operand.indices {
            let once = all.iter().filter(|other| *other == l).count() == 1;
            let Some(at) = sums.iter().position(|(s, _)| s == l).filter(|_| once) else { continue };
            let mut mentions = (0..conjuncts.len()).filter(|k| conjuncts[*k].mentions(*l));
            let (Some(k), None) = (mentions.next(), mentions.next()) else { continue };
            let is_place =
                matches!(&conjuncts[k], Pred::Zero(a) if a.root(*l).is_some_and(|place| !place.has_indices()));
            if is_place {
                fixed.push(conjuncts.remove(k));
                own.push(sums.remove(at));
            }
        }
        if own.is_empty() {
            continue;
        }
        let dims = builder.dims(operand.var).to_vec();
        let axes = operand.indices.iter().copied().zip(dims);
        let rest: Vec<(IndexId, Size)> = axes.filter(|(i, _)| own.iter().all(|(l, _)| l != i)).collect();
        // An index may be there twice.
        let fresh: Vec<(IndexId, Size)> = rest.iter().map(|(_, n)| (builder.fresh_index(), n.clone())).collect();
        let mut free = fresh.iter().map(|(i, _)| *i);
        let indices = operand.indices.iter().map(|i| match own.iter().any(|(l, _)| l == i) {
            true => Some(*i),
            false => free.next(),
        });
        let indices = indices.collect::<Option<_>>().ok_or_else(|| Error::bug(PASS, "axes are lost"))?;
        let whole = Operand { var: operand.var, indices };
        let part = builder.contract(&fresh, &own, Pred::all(fixed), vec![whole])?;
        *operand = Operand { var: part, indices: rest.into_iter().map(|(i, _)| i).collect() };
    }
    let guard = Pred::all(conjuncts);
    if let [operand] = operands.as_slice()
        && sums.is_empty()
        && guard.is_true()
        && operand.indices.iter().eq(gens.iter().map(|(i, _)| i))
    {
        return Ok(operand.var);
    }
    builder.contract(gens, &sums, guard, operands)
}

/// Appends the program of a leaf with its parts apart; `input` may give what stands for a value that it takes. Gives what each statement is.
pub(super) fn append(
    flow: &Builder,
    joined: &mut Joined,
    leaf: &Leaf,
    input: &mut dyn FnMut(&mut Joined, ValueId) -> Result<Option<VarId>>,
) -> Result<BTreeMap<VarId, VarId>> {
    joined.statements_of(leaf, &mut |joined, _, stmt| match &stmt.rhs {
        Rhs::Input { param, .. } => leaf.taken(*param).map_or(Ok(None), |value| input(joined, *value)),
        _ => push(flow, joined, stmt).map(Some),
    })
}

/// Appends a statement with its parts apart.
pub(super) fn push(flow: &Builder, joined: &mut Joined, stmt: &tssa::Stmt) -> Result<VarId> {
    let open = joined.builder.open_stmt(stmt)?;
    match open.rhs {
        Rhs::Contract { guard, operands, .. } => apart(flow, joined, &open.gens, open.sums, guard, operands),
        _ => joined.builder.push(stmt),
    }
}

/// [`contract`] in a leaf.
pub(super) fn apart(
    flow: &Builder,
    joined: &mut Joined,
    gens: &[(IndexId, Size)],
    sums: Vec<(IndexId, Size)>,
    guard: Pred,
    operands: Vec<Operand>,
) -> Result<VarId> {
    let (builder, taken) = joined.under_construction();
    let is_dense = |param| match taken(param) {
        Some(x) => flow.get(x).storage == Storage::Dense,
        None => flow.signature().params.get(param).is_none_or(|param| param.storage == Storage::Dense),
    };
    contract(builder, gens, sums, guard, operands, &is_dense)
}

/// `gen g. sum l. [l = at] * x[g.., l, ..]`: the part of a tensor at a place of one of its axes.
pub(super) fn part(joined: &mut Joined, x: VarId, axis: usize, at: &Affine) -> Result<VarId> {
    let builder = &mut joined.builder;
    let mut dims = builder.dims(x).to_vec();
    if axis >= dims.len() {
        return Err(Error::bug(PASS, "a part of a tensor without the axis"));
    }
    let length = dims.remove(axis);
    let gens = builder.fresh_indices(&dims);
    let l = builder.fresh_index();
    let mut indices: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
    indices.insert(axis, l);
    let guard = Pred::equal(&Affine::index(l), at)?;
    builder.contract(&gens, &[(l, length)], guard, vec![Operand { var: x, indices }])
}

/// What stands for a statement of a leaf.
#[derive(Clone, Debug)]
pub(super) enum Instead {
    /// A value.
    Value(ValueId),
    /// The part of a value at a place of its first axis.
    Part(ValueId, Affine),
    /// `x[.., t, ..] = value[t + shift, .., ..]`, for `t` at an axis of the statement.
    Steps { value: ValueId, axis: usize, shift: i64 },
    /// A function at the places of its table.
    Table(ValueId, Table),
}

/// A leaf with values in place of some statements.
pub(super) fn rewritten(
    flow: &Builder,
    leaf: &Leaf,
    instead: &BTreeMap<VarId, Instead>,
    loops: &Loops,
) -> Result<Leaf> {
    if instead.is_empty() {
        return Ok(leaf.clone());
    }
    let mut joined = Joined::new(flow);
    let vars = joined.statements_of(leaf, &mut |joined, x, stmt| match instead.get(&x) {
        Some(instead) => stands(flow, joined, instead, stmt).map(Some),
        None => Ok(None),
    })?;
    joined.give_all(leaf, &vars)?;
    joined.finish(flow, loops, leaf.gives.clone())
}

fn stands(flow: &Builder, joined: &mut Joined, instead: &Instead, stmt: &tssa::Stmt) -> Result<VarId> {
    Ok(match instead {
        Instead::Value(x) => joined.read(*x, stmt.dims.clone()),
        Instead::Part(x, at) => {
            let whole = joined.read(*x, flow.dims(*x)?);
            part(joined, whole, 0, at)?
        }
        Instead::Table(x, table) => {
            let whole = joined.read(*x, flow.dims(*x)?);
            table.read(stmt, &mut joined.builder, whole)?
        }
        Instead::Steps { value, axis, shift } => {
            let all = flow.dims(*value)?;
            let length = all.first().cloned().unwrap_or_default();
            let whole = joined.read(*value, all);
            let builder = &mut joined.builder;
            let gens = builder.fresh_indices(&stmt.dims);
            let t = gens.get(*axis).map(|(t, _)| *t).ok_or_else(|| Error::bug(PASS, "steps without an axis"))?;
            let l = builder.fresh_index();
            let rest = gens.iter().map(|(i, _)| *i).filter(|i| *i != t);
            let indices = std::iter::once(l).chain(rest).collect();
            let guard = Pred::equal(&Affine::index(l), &Affine::index(t).add_constant(*shift)?)?;
            builder.contract(&gens, &[(l, length)], guard, vec![Operand { var: whole, indices }])?
        }
    })
}

/// A name for a value.
pub(super) fn name(of_stmt: &str) -> &str {
    if of_stmt.is_empty() { "t" } else { of_stmt }
}

/// A state that starts from zeros, which `out` gets.
pub(super) fn from_zeros(
    flow: &mut Builder,
    name: &str,
    dims: &[Size],
    steps: &Size,
    loops: &Loops,
    out: &mut Vec<Stmt>,
) -> Result<State> {
    let name = self::name(name);
    let zeros = Small { flow, loops }.constant(name, dims, 0.0)?;
    let init = zeros.given()?;
    out.push(Stmt::Leaf(zeros));
    let ty = flow.get(init).ty;
    let of_path = flow.tensor(steps.add_constant(1)?, ty);
    let [before, after, last] = [(); 3].map(|()| flow.value(name, ty, Storage::Dense));
    let path = flow.value(name, of_path, Storage::Dense);
    Ok(State { init, before, after, path, last })
}

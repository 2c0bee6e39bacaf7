//! Sums over time, taken into the loop that has their terms at hand.
//!
//! ```text
//! P = scan t < T, s. F(s);  y = gen g. sum t < T, r. [p] * A[t, ..] * B[..]
//!   ==  (P, y) = scan t < T, (s, y = 0). (F(s), gen g. y[g] + sum r. [p] * A(t)[..] * B[..])           all of `A` is used up at once
//!   ==  (P, A') = scan t < T, (s, _). (F(s), A(t));  y = gen g. sum t < T, r. [p] * A'[t + 1, ..] * B[..]    a step of `A` is smaller than `y`
//! ```
//!
//! Statements behind the loop have a *form at the step* where they have an axis of `T` and read the paths of the loop at the step, and other things that
//! are known before the loop anywhere. A form with a reduction that the step does not have is none: over all steps it is a product of matrices.
//!
//! A sum is taken in where the step has some of its work already, or where nobody else reads the paths, which then are not kept. Functions that take long, of one
//! number or a few in each step, stay behind a loop with as few states: for all steps they are computed in lanes.

use std::collections::{BTreeMap, BTreeSet};

use super::super::build::Builder;
use super::super::data::{Leaf, Loops, Scan, State, Stmt, ValueId};
use super::super::leaf::{Joined, sources};
use super::Lengths;
use super::step::{self, Instead};
use crate::base::{Id, IndexId, SideTable, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Application, Pred, RelationRef, Size, Var};
use crate::scalar::Number;
use crate::solver::Relations;
use crate::tssa::patterns::{Pattern, patterns};
use crate::tssa::{self, Operand, Rhs};
use crate::ty::Storage;

/// How many numbers of a step do not fill lanes.
const FEW: f64 = 4.0;

/// The statements of a block with sums taken into its loops.
pub(super) fn block(
    flow: &mut Builder,
    mut body: Vec<Stmt>,
    loops: &Loops,
    lengths: &Lengths<'_>,
) -> Result<Vec<Stmt>> {
    let mut at = 0;
    while at < body.len() {
        let taken = match &body[at] {
            Stmt::Scan(scan) => taken_in(flow, scan, &body[at + 1..], loops, lengths)?,
            Stmt::Leaf(_) | Stmt::Call(_) => None,
        };
        at += 1;
        if let Some(Taken { ahead, scan, behind, leaf }) = taken {
            body[at + behind] = Stmt::Leaf(leaf);
            body[at - 1] = Stmt::Scan(scan);
            let count = ahead.len();
            body.splice(at - 1..at - 1, ahead);
            at += count;
        }
    }
    Ok(body)
}

/// A loop that does more, what comes before it, and the leaf behind it that does less, by how far behind.
struct Taken {
    ahead: Vec<Stmt>,
    scan: Scan,
    behind: usize,
    leaf: Leaf,
}

fn taken_in(
    flow: &mut Builder,
    scan: &Scan,
    rest: &[Stmt],
    loops: &Loops,
    lengths: &Lengths<'_>,
) -> Result<Option<Taken>> {
    let Some(body) = scan.single() else { return Ok(None) };
    let paths: BTreeSet<ValueId> = scan.states.iter().map(|state| state.path).collect();
    let reads = |stmt: &Stmt| {
        let mut found = false;
        stmt.visit_reads(&mut |x| found |= paths.contains(&x));
        found
    };
    let mut readers = rest.iter().enumerate().filter(|(_, stmt)| reads(stmt));
    let found = readers.find_map(|(at, stmt)| match stmt {
        Stmt::Leaf(leaf) => Some((at, leaf)),
        Stmt::Scan(_) | Stmt::Call(_) => None,
    });
    let Some((behind, leaf)) = found else { return Ok(None) };
    let alone = rest.iter().filter(|stmt| reads(stmt)).count() == 1;
    let mut late: BTreeSet<ValueId> = scan.states.iter().map(|state| state.last).collect();
    late.extend(rest[..behind].iter().flat_map(Stmt::gives));
    let mut joined = Joined::new(flow);
    let vars = step::append(flow, &mut joined, body, &mut |_, _| Ok(None))?;
    joined.give_all(body, &vars)?;
    let known = joined.builder.len();
    let (kinds, free, early) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut forms = Forms { flow, scan, leaf, late, joined, known, kinds, free, early };
    for x in leaf.program.stmts.ids() {
        let kind = forms.kind(x)?;
        if matches!(kind, Kind::Known | Kind::Computed { independent: true, .. }) {
            forms.free(x)?;
        }
        forms.kinds.insert(x, kind);
    }
    let sums = forms.sums(lengths)?;
    let chosen = forms.chosen(sums, alone);
    if chosen.is_empty() {
        return Ok(None);
    }
    let (ahead, scan, leaf) = forms.finish(body, chosen, loops)?;
    Ok(Some(Taken { ahead, scan, behind, leaf }))
}

/// What a statement behind the loop is.
#[derive(Clone, Debug)]
enum Kind {
    /// An input that is there before the loop.
    Known,
    /// The path of a state of the loop.
    Path(usize),
    Computed {
        /// Whether nothing of it depends on the loop.
        independent: bool,
        /// The axis that is time, and the form at the step.
        form: Option<(usize, VarId)>,
    },
    /// An input that is there behind the loop.
    Late,
}

/// A sum over time, and its terms at a step.
struct Sum {
    var: VarId,
    gens: Vec<(IndexId, Size)>,
    sums: Vec<(IndexId, Size)>,
    guard: Pred,
    operands: Vec<Operand>,
    /// What is stored for all steps, if the sum stays where it is.
    stored: Option<Vec<VarId>>,
    /// Whether the step has some of the work.
    shares: bool,
}

struct Forms<'a> {
    flow: &'a mut Builder,
    scan: &'a Scan,
    leaf: &'a Leaf,
    late: BTreeSet<ValueId>,
    /// The step, and behind it the forms.
    joined: Joined,
    /// How many statements the step has.
    known: usize,
    kinds: BTreeMap<VarId, Kind>,
    /// What does not depend on the loop and is there in the step for nothing.
    free: BTreeMap<VarId, VarId>,
    /// What does not depend on the loop and is made before it, to be read by forms as a whole.
    early: BTreeMap<VarId, ValueId>,
}

/// A contraction at a step: sum indices, guard, operands.
type Terms = (Vec<(IndexId, Size)>, Pred, Vec<Operand>);

impl Forms<'_> {
    fn stmt(&self, x: VarId) -> &tssa::Stmt {
        &self.leaf.program.stmts[x]
    }

    fn now(&self) -> Affine {
        Affine::size(self.scan.index)
    }

    fn kind(&mut self, x: VarId) -> Result<Kind> {
        let stmt = self.stmt(x).clone();
        if let Rhs::Input { param, .. } = stmt.rhs {
            let taken = self.leaf.taken(param);
            let Some(value) = taken else { return Ok(Kind::Known) };
            let path = self.scan.states.iter().position(|state| state.path == *value);
            return Ok(match path {
                Some(state) => Kind::Path(state),
                None if self.late.contains(value) => Kind::Late,
                None => Kind::Known,
            });
        }
        let mut independent = true;
        stmt.rhs.for_each_operand(|y| {
            independent &= matches!(self.kinds.get(&y), Some(Kind::Known | Kind::Computed { independent: true, .. }));
        });
        let mut form = None;
        for axis in (0..stmt.dims.len()).filter(|axis| stmt.dims[*axis] == self.scan.steps) {
            form = self.form(&stmt, axis)?.map(|var| (axis, var));
            if form.is_some() {
                break;
            }
        }
        if let Some((_, var)) = form {
            self.joined.builder.suggest_name(var, &self.leaf.program.names[x]);
        }
        Ok(Kind::Computed { independent, form })
    }

    /// The form of a statement at the step, where it has one with time at an axis.
    fn form(&mut self, stmt: &tssa::Stmt, axis: usize) -> Result<Option<VarId>> {
        let open = self.joined.builder.open_stmt(stmt)?;
        let mut gens = open.gens;
        let (t, _) = gens.remove(axis);
        let Some(guards) = self.guards(&open.rhs, t)? else { return Ok(None) };
        let [first, second] = guards;
        let var = match open.rhs {
            Rhs::Input { .. } => return Ok(None),
            Rhs::Number(Number::Index(a)) => {
                let a = a.substitute(&|i| (i == t).then(|| self.now()))?;
                self.joined.builder.number(&gens, Number::Index(a))?
            }
            Rhs::Number(literal) => self.joined.builder.number(&gens, literal)?,
            Rhs::Add([(_, x), (_, y)]) => {
                let (Some(x), Some(y)) = (self.at_step(x, axis)?, self.at_step(y, axis)?) else { return Ok(None) };
                self.joined.builder.add(&gens, [(first, x), (second, y)])?
            }
            Rhs::Map { function, args, .. } => {
                let mut new = Vec::with_capacity(args.len());
                for x in args {
                    let Some(x) = self.at_step(x, axis)? else { return Ok(None) };
                    new.push(x);
                }
                self.joined.builder.map(&gens, first, function, new)?
            }
            Rhs::Contract { operands, .. } => {
                let Some((sums, guard, operands)) = self.terms(t, open.sums, first, operands)? else { return Ok(None) };
                step::apart(self.flow, &mut self.joined, &gens, sums, guard, operands)?
            }
        };
        let new = var.index() >= self.known && step::adds_up(self.joined.builder.stmt(var));
        Ok((!new).then_some(var))
    }

    /// The guards of a right-hand side for one value of an index, which is the step; true where there are fewer.
    fn guards(&mut self, rhs: &Rhs, t: IndexId) -> Result<Option<[Pred; 2]>> {
        let now = self.now();
        // What relations are computed from, and which of its axes is time.
        let mut sources: BTreeMap<VarId, (VarId, Option<usize>)> = BTreeMap::new();
        let mut computed = BTreeSet::new();
        rhs.guards().for_each(|p| {
            p.visit_computed(&mut |x| {
                computed.insert(x);
            })
        });
        for x in computed {
            let source = match self.kinds.get(&x) {
                Some(Kind::Computed { form: Some((axis, var)), .. }) => (*var, Some(*axis)),
                Some(Kind::Known | Kind::Computed { independent: true, .. }) => (self.whole(x)?, None),
                _ => return Ok(None),
            };
            sources.insert(x, source);
        }
        let mut fails = false;
        let mut at_step = |relation: RelationRef, mut args: Vec<Affine>| {
            let RelationRef::Computed { var, view } = relation else { return (relation, args) };
            let Some((var, axis)) = sources.get(&var).copied() else { return (relation, args) };
            if let Some(axis) = axis {
                fails |= args.get(axis) != Some(&now);
                args.truncate(args.len().max(axis));
                if axis < args.len() {
                    args.remove(axis);
                }
            }
            (RelationRef::Computed { var, view }, args)
        };
        let mut affine = |a: &Affine| {
            a.replace(&mut |v| {
                Ok(match v {
                    Var::Index(i) => (*i == t).then(|| now.clone()),
                    Var::Apply(application) if application.map.computed_from().is_some() => {
                        let (map, args) = at_step(application.map, application.args.clone());
                        Some(Affine::var(Var::Apply(Box::new(Application { map, args }))))
                    }
                    Var::Size(_) | Var::Apply(_) => None,
                })
            })
        };
        let mut guards = [Pred::True, Pred::True];
        for (new, p) in guards.iter_mut().zip(rhs.guards()) {
            *new = p.rebuild(&mut |atom| atom.map_affine(&mut affine))?;
        }
        // Relations that are no maps.
        for new in &mut guards {
            *new = new.rebuild(&mut |atom| {
                Ok::<_, Error>(match atom {
                    Pred::Relation { relation, args, holds } => {
                        let (relation, args) = at_step(*relation, args.clone());
                        Pred::Relation { relation, args, holds: *holds }
                    }
                    other => other.clone(),
                })
            })?;
        }
        Ok((!fails).then_some(guards))
    }

    /// An operand of the axes of its statement, of which one is time.
    fn at_step(&mut self, x: VarId, axis: usize) -> Result<Option<VarId>> {
        let now = self.now();
        Ok(match self.kinds.get(&x) {
            Some(Kind::Computed { form: Some((other, var)), .. }) if *other == axis => Some(*var),
            Some(Kind::Known | Kind::Computed { independent: true, .. }) => {
                let whole = self.whole(x)?;
                Some(step::part(&mut self.joined, whole, axis, &now)?)
            }
            _ => None,
        })
    }

    /// A statement that does not depend on the loop, if the step has it already or it costs nothing.
    fn free(&mut self, x: VarId) -> Result<()> {
        let stmt = self.stmt(x).clone();
        let mut known = true;
        stmt.rhs.for_each_operand(|y| known &= self.free.contains_key(&y));
        if !known {
            return Ok(());
        }
        let var = match stmt.rhs {
            Rhs::Input { .. } => self.joined.input(&stmt, self.leaf.outer_params(), &sources(self.leaf))?,
            _ => {
                let stmt = stmt.rename(&|y| self.free.get(&y).copied())?;
                step::push(self.flow, &mut self.joined, &stmt)?
            }
        };
        let made = self.joined.builder.stmt(var);
        if var.index() < self.known || matches!(made.rhs, Rhs::Input { .. } | Rhs::Number(_)) || step::is_view(made) {
            self.free.insert(x, var);
        }
        Ok(())
    }

    /// A tensor that is there before the loop.
    fn whole(&mut self, x: VarId) -> Result<VarId> {
        if let Some(var) = self.free.get(&x) {
            return Ok(*var);
        }
        let stmt = self.leaf.program.stmts[x].clone();
        let value = match self.early.get(&x) {
            Some(value) => *value,
            None => {
                let ty = self.flow.types().tensor_of(&stmt.dims, crate::ty::Types::REAL);
                let value = self.flow.value(step::name(&self.leaf.program.names[x]), ty, Storage::Dense);
                self.early.insert(x, value);
                value
            }
        };
        Ok(self.joined.read(value, stmt.dims))
    }

    /// The terms of a contraction for one value of an index, which is the step; it is in the guard already.
    fn terms(
        &mut self,
        t: IndexId,
        mut sums: Vec<(IndexId, Size)>,
        guard: Pred,
        operands: Vec<Operand>,
    ) -> Result<Option<Terms>> {
        let now = self.now();
        sums.retain(|(s, _)| *s != t);
        let mut conjuncts: Vec<Pred> = guard.conjuncts().to_vec();
        let mut new = Vec::with_capacity(operands.len());
        for Operand { var: x, mut indices } in operands {
            let kind = self.kinds.get(&x).cloned().unwrap_or(Kind::Late);
            let var = match kind {
                Kind::Late => return Ok(None),
                Kind::Path(state) => {
                    let Some(place) = place_of(&indices, &mut sums, &mut conjuncts) else { return Ok(None) };
                    indices.remove(0);
                    let Some(var) = self.state_at(state, &place)? else { return Ok(None) };
                    var
                }
                Kind::Computed { form: Some((axis, var)), .. } if indices.get(axis) == Some(&t) => {
                    indices.remove(axis);
                    var
                }
                Kind::Known | Kind::Computed { independent: true, .. } => self.whole(x)?,
                Kind::Computed { .. } => return Ok(None),
            };
            let dims = self.joined.builder.dims(var).to_vec();
            for (index, length) in indices.iter_mut().zip(dims).filter(|(index, _)| **index == t) {
                let l = self.joined.builder.fresh_index();
                conjuncts.push(Pred::equal(&Affine::index(l), &now)?);
                sums.push((l, length));
                *index = l;
            }
            new.push(Operand { var, indices });
        }
        Ok(Some((sums, Pred::all(conjuncts), new)))
    }

    /// A state at a place of its path, before or after the step.
    fn state_at(&mut self, state: usize, place: &Affine) -> Result<Option<VarId>> {
        let State { before, after, .. } = self.scan.states[state];
        let value = match place {
            place if *place == self.scan.before_at()? => before,
            place if *place == self.scan.after_at()? => after,
            _ => return Ok(None),
        };
        Ok(Some(self.joined.read(value, self.flow.dims(value)?)))
    }

    /// The sums over time of what depends on the loop.
    fn sums(&mut self, lengths: &Lengths<'_>) -> Result<Vec<Sum>> {
        let live = self.leaf.program.live();
        // States are dense.
        let sparse = on_relations(&self.leaf.program);
        let mut found = Vec::new();
        for x in self.leaf.program.stmts.ids().filter(|x| live[*x] && !sparse[*x]) {
            let stmt = self.stmt(x).clone();
            let independent = matches!(self.kinds.get(&x), Some(Kind::Computed { independent: true, .. }));
            if independent || stmt.rhs.sums().is_empty() {
                continue;
            }
            let open = self.joined.builder.open_stmt(&stmt)?;
            let Rhs::Contract { operands, .. } = &open.rhs else { continue };
            let guards: Vec<Pred> = open.rhs.guards().cloned().collect();
            let is_fixed = |t: IndexId| {
                let mut conjuncts = guards.iter().flat_map(|p| p.conjuncts());
                conjuncts.any(|p| matches!(p, Pred::Zero(a) if a.root(t).is_some_and(|at| !at.has_indices())))
            };
            for (t, _) in open.sums.iter().filter(|(t, n)| *n == self.scan.steps && !is_fixed(*t)) {
                let forms: Vec<VarId> = operands
                    .iter()
                    .filter(|x| match self.kinds.get(&x.var) {
                        Some(Kind::Computed { form: Some((axis, _)), .. }) => x.indices.get(*axis) == Some(t),
                        _ => false,
                    })
                    .map(|x| x.var)
                    .collect();
                let Some([guard, _]) = self.guards(&open.rhs, *t)? else { continue };
                let terms = self.terms(*t, open.sums.clone(), guard, operands.clone())?;
                let Some((sums, guard, operands)) = terms else { continue };
                let is_dearer = || self.is_large(&stmt.dims, &guard, &forms, lengths);
                if !lengths.adds_up && (is_dearer() || self.calls_in_lanes(&forms, lengths)?) {
                    continue;
                }
                let stored = self.stays(&stmt.dims, &guard, &operands, &forms, lengths);
                let shares = forms.iter().any(|x| self.shares(*x));
                let gens = open.gens.clone();
                found.push(Sum { var: x, gens, sums, guard, operands, stored, shares });
                break;
            }
        }
        Ok(found)
    }

    /// What is stored for all steps where this is less than the result of the sum.
    fn stays(
        &self,
        dims: &[Size],
        guard: &Pred,
        operands: &[Operand],
        forms: &[VarId],
        lengths: &Lengths<'_>,
    ) -> Option<Vec<VarId>> {
        let step: f64 = operands.iter().map(|x| lengths.points(self.joined.builder.dims(x.var))).sum();
        let mut relations = false;
        guard.visit_relations(&mut |_| relations = true);
        let stored = || forms.iter().copied().filter(|x| !self.is_there(*x)).collect();
        (!lengths.adds_up && (relations || 2.0 * step <= lengths.points(dims))).then(stored)
    }

    /// Whether a sum that relations guard, so that its terms would be stored, has terms that are no smaller than itself. With relations that steps compute
    /// the terms are those of few of its places, and as little as what they are spread from.
    fn is_large(&self, dims: &[Size], guard: &Pred, forms: &[VarId], lengths: &Lengths<'_>) -> bool {
        let [mut computed, mut outer] = [false; 2];
        guard.visit_relations(&mut |r| match r {
            RelationRef::Computed { .. } => computed = true,
            RelationRef::Input(_) => outer = true,
        });
        let stored: Vec<VarId> =
            forms.iter().filter(|x| !self.is_there(**x)).filter_map(|x| self.form_of(*x)).collect();
        let numbers = |x: &VarId| lengths.points(self.joined.builder.dims(*x));
        let is_spread = |x: &VarId| {
            let stmt = self.joined.builder.stmt(*x);
            let from: f64 = match &stmt.rhs {
                Rhs::Contract { operands, .. } if !step::adds_up(stmt) => {
                    operands.iter().map(|y| numbers(&y.var)).sum()
                }
                _ => return false,
            };
            2.0 * from <= numbers(x)
        };
        let is_large = 2.0 * stored.iter().map(numbers).sum::<f64>() > lengths.points(dims);
        is_large && (outer || computed && stored.iter().all(is_spread))
    }

    /// Whether functions that take long are applied to so few numbers in a step that lanes stay empty, and the path is small: behind the loop all steps
    /// are at hand, and lanes are full.
    fn calls_in_lanes(&self, forms: &[VarId], lengths: &Lengths<'_>) -> Result<bool> {
        let mut states = 0.0;
        for state in &self.scan.states {
            states += lengths.points(&self.flow.dims(state.before)?);
        }
        if states > FEW {
            return Ok(false);
        }
        let builder = &self.joined.builder;
        let made = step::read_by(|x| builder.stmt(x), forms.iter().filter_map(|x| self.form_of(*x)), |_| true);
        let is_call = |x: &VarId| {
            let stmt = builder.stmt(*x);
            let is_call = matches!(&stmt.rhs, Rhs::Map { function, .. } if function.is_call());
            x.index() >= self.known && is_call && lengths.points(&stmt.dims) <= FEW
        };
        Ok(made.iter().any(is_call))
    }

    /// The form of a statement at the step.
    fn form_of(&self, x: VarId) -> Option<VarId> {
        match self.kinds.get(&x) {
            Some(Kind::Computed { form: Some((_, var)), .. }) => Some(*var),
            _ => None,
        }
    }

    /// Whether a form is a part of something that is stored in any case.
    fn is_there(&self, x: VarId) -> bool {
        let Some(var) = self.form_of(x) else { return false };
        let stmt = self.joined.builder.stmt(var);
        match &stmt.rhs {
            Rhs::Input { .. } => true,
            Rhs::Contract { operands, .. } if operands.len() == 1 && !step::adds_up(stmt) => {
                operands.iter().all(|x| matches!(self.joined.builder.stmt(x.var).rhs, Rhs::Input { .. }))
            }
            _ => false,
        }
    }

    /// Whether the form of a statement has work that the step has, too.
    fn shares(&self, x: VarId) -> bool {
        let Some(var) = self.form_of(x) else { return false };
        let builder = &self.joined.builder;
        step::read_by(|x| builder.stmt(x), [var], |_| true).into_iter().any(|x| {
            let stmt = builder.stmt(x);
            let is_work = !matches!(stmt.rhs, Rhs::Input { .. } | Rhs::Number(_)) && !step::is_view(stmt);
            x.index() < self.known && is_work
        })
    }

    /// The sums that are taken in: all of them, if then nobody reads the paths, or those that share work.
    fn chosen(&self, sums: Vec<Sum>, alone: bool) -> Vec<Sum> {
        let adds_up = |sum: &Sum| sum.stored.is_none();
        if alone && sums.iter().any(adds_up) && !self.reads_paths_without(&sums) {
            return sums;
        }
        sums.into_iter().filter(|sum| sum.shares).collect()
    }

    /// Whether the leaf reads paths where sums are taken in.
    fn reads_paths_without(&self, sums: &[Sum]) -> bool {
        let mut gone: BTreeSet<VarId> = BTreeSet::new();
        for sum in sums {
            match &sum.stored {
                None => drop(gone.insert(sum.var)),
                Some(stored) => gone.extend(stored),
            }
        }
        let program = &self.leaf.program;
        let outputs = program.outputs.iter().flat_map(|output| output.leaves.iter().copied());
        let read = step::read_by(|x| &program.stmts[x], outputs, |x| !gone.contains(&x));
        read.iter().any(|x| matches!(self.kinds.get(x), Some(Kind::Path(_))))
    }

    fn finish(mut self, body: &Leaf, chosen: Vec<Sum>, loops: &Loops) -> Result<(Vec<Stmt>, Scan, Leaf)> {
        let mut ahead = Vec::new();
        let mut states = self.scan.states.clone();
        let mut gives = body.gives.clone();
        let mut instead: BTreeMap<VarId, Instead> = BTreeMap::new();
        let steps = &self.scan.steps;
        for Sum { var, gens, sums, guard, operands, stored, .. } in chosen {
            if let Some(stored) = stored {
                for x in stored {
                    let Some(Kind::Computed { form: Some((axis, form)), .. }) = self.kinds.get(&x).cloned() else {
                        continue;
                    };
                    if instead.contains_key(&x) {
                        continue;
                    }
                    let dims = self.joined.builder.dims(form).to_vec();
                    let name = self.leaf.program.names[x].clone();
                    let state = step::from_zeros(self.flow, &name, &dims, steps, loops, &mut ahead)?;
                    self.joined.give(state.after, form);
                    gives.push(state.after);
                    states.push(state);
                    instead.insert(x, Instead::Steps { value: state.path, axis, shift: i64::from(!self.scan.down) });
                }
                continue;
            }
            let dims: Vec<Size> = gens.iter().map(|(_, n)| n.clone()).collect();
            let name = self.leaf.program.names[var].clone();
            let state = step::from_zeros(self.flow, &name, &dims, steps, loops, &mut ahead)?;
            let terms = step::apart(self.flow, &mut self.joined, &gens, sums, guard, operands)?;
            let before = self.joined.read(state.before, dims.clone());
            let builder = &mut self.joined.builder;
            let gens = builder.fresh_indices(&dims);
            let after = builder.add(&gens, [(Pred::True, before), (Pred::True, terms)])?;
            self.joined.give(state.after, after);
            gives.push(state.after);
            states.push(state);
            instead.insert(var, Instead::Value(state.last));
        }
        if !self.early.is_empty() {
            ahead.push(Stmt::Leaf(self.ahead(loops)?));
            instead.extend(self.early.iter().map(|(x, value)| (*x, Instead::Value(*value))));
        }
        let leaf = step::rewritten(self.flow, self.leaf, &instead, loops)?;
        let mut inside = loops.clone();
        inside.push((self.scan.index, steps.clone()));
        let body = self.joined.finish(self.flow, &inside, gives)?;
        // Where the loop finds out no size the sum has all of its steps.
        let early = self.scan.early.clone().filter(|early| early.most != self.scan.steps);
        Ok((ahead, Scan { states, early, body: vec![Stmt::Leaf(body)], ..self.scan.clone() }, leaf))
    }

    /// The leaf that computes what is read as a whole by forms.
    fn ahead(&self, loops: &Loops) -> Result<Leaf> {
        let mut joined = Joined::new(self.flow);
        let vars = step::append(self.flow, &mut joined, self.leaf, &mut |_, _| Ok(None))?;
        for (x, value) in &self.early {
            let var = vars.get(x).ok_or_else(|| Error::bug("split", "a statement is lost"))?;
            joined.give(*value, *var);
        }
        joined.finish(self.flow, loops, self.early.values().copied().collect())
    }
}

/// The place of a path that is read, which a guard fixes; its index and the guard go.
fn place_of(indices: &[IndexId], sums: &mut Vec<(IndexId, Size)>, conjuncts: &mut Vec<Pred>) -> Option<Affine> {
    let l = indices.first()?;
    let at = sums.iter().position(|(s, _)| s == l)?;
    let mut mentions = (0..conjuncts.len()).filter(|k| conjuncts[*k].mentions(*l));
    let (Some(k), None) = (mentions.next(), mentions.next()) else { return None };
    let Pred::Zero(a) = &conjuncts[k] else { return None };
    let place = a.root(*l)?;
    conjuncts.remove(k);
    sums.remove(at);
    Some(place)
}

/// The tensors that are zero outside of a relation, or of which nobody needs more than what is on one.
fn on_relations(program: &tssa::Program) -> SideTable<VarId, bool> {
    let is_map = |relation: RelationRef| program.signature.is_map(relation);
    // That a tensor is not needed elsewhere, as far as its readers are known.
    let mut enough = SideTable::new(program.stmts.len(), true);
    for output in program.outputs.iter().filter(|output| output.storage == Storage::Dense) {
        output.leaves.iter().for_each(|x| enough.set(*x, false));
    }
    for y in program.stmts.ids().rev() {
        let stmt = &program.stmts[y];
        let gens: Vec<IndexId> = (0..stmt.dims.len()).map(IndexId::from_index).collect();
        let mut read = |x: VarId, guard: &Pred, indices: &[IndexId]| {
            let is_read = |a: &Affine| a.as_index().is_some_and(|i| indices.contains(&i));
            let is_asked = guard.conjuncts().iter().any(|p| {
                matches!(p, Pred::Relation { relation, args, holds: true }
                    if args.len() > 1 && !is_map(*relation) && args.iter().all(is_read))
            });
            let goes_on = enough[y] && indices.iter().all(|i| gens.contains(i));
            enough.set(x, enough[x] && (is_asked || goes_on));
        };
        match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => {}
            Rhs::Add(sides) => sides.iter().for_each(|(p, x)| read(*x, p, &gens)),
            Rhs::Map { guard, args, .. } => args.iter().for_each(|x| read(*x, guard, &gens)),
            Rhs::Contract { guard, operands, .. } => {
                operands.iter().for_each(|x| read(x.var, guard, &x.indices));
            }
        }
        stmt.rhs.guards().for_each(|p| p.visit_computed(&mut |x| enough.set(x, false)));
    }
    let patterns = patterns(program);
    for x in program.stmts.ids() {
        let is_on = |p: &Pattern| p.axes.len() > 1 && !is_map(RelationRef::Input(p.relation));
        enough.set(x, enough[x] || patterns[x].iter().any(is_on));
    }
    enough
}

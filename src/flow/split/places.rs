//! What is read of a path, and not the path.
//!
//! ```text
//! P = scan t < T, s. F(s);  y = G(gen t. P[t, k(t)])   ==   (s, V) = scan t < T, (s, _). (F(s), s[k(t)]);  y = G(gen t. V[t + 1])
//! ```
//!
//! A loop that updates one element of its state in each step has a path of `n` numbers a step, of which its derivative reads one. If each statement that reads
//! the path reads of the state at a step only places that are *told*, by an equation or a map, from the step alone, then the numbers at these places are a
//! statement of the step itself, here of the state before it, or after it where the reader wants that. They are stored for all steps, and the path is read by nobody:
//! so it is not kept, and the state is updated where it is.
//!
//! **Why.** A statement that reads `P[l, i]` under a guard that implies `l = t` and `i = k(t)` reads `s[k(t)]` of the state before step `t`, which is what `V` is there. Where
//! no place is told, as of a map that has no target there, the guard fails and nothing is read. Tests stay as they are. A statement that is needed
//! under such a guard alone is read there alone: each reader gets its own part of what it reads. All readers do with less, or nothing is changed.
//!
//! Readers are leaves behind the loop, where time is an axis, and loops of the same steps. Places may be told by sizes, the step, maps of the data, and what is
//! computed from a parameter as a whole, as the place of its largest element.

use std::collections::BTreeMap;

use super::super::build::Builder;
use super::super::data::{Leaf, Loops, Scan, State, Stmt, ValueId};
use super::super::leaf::Joined;
use super::Lengths;
use super::step;
use crate::base::{Id, IndexId, ParamId, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::tssa::{self, Operand, Rhs};
use crate::ty::Side;

/// What is stored has at most such a part of the numbers of the state.
const PART: f64 = 0.5;

/// The statements of a block, in which loops store what is read of their paths.
pub(super) fn block(
    flow: &mut Builder,
    mut body: Vec<Stmt>,
    loops: &Loops,
    lengths: &Lengths<'_>,
) -> Result<Vec<Stmt>> {
    let mut at = 0;
    while at < body.len() {
        let states = if let Stmt::Scan(scan) = &body[at] { scan.states.len() } else { 0 };
        for state in 0..states {
            let Some(Less { ahead, scan, readers }) = less(flow, &body, at, state, loops, lengths)? else { continue };
            for (reader, stmt) in readers {
                body[reader] = stmt;
            }
            body[at] = Stmt::Scan(scan);
            let count = ahead.len();
            body.splice(at..at, ahead);
            at += count;
        }
        at += 1;
    }
    Ok(body)
}

/// A loop that stores parts of a state, what comes before it, and what stands for the statements that read its path.
struct Less {
    ahead: Vec<Stmt>,
    scan: Scan,
    readers: Vec<(usize, Stmt)>,
}

fn less(
    flow: &mut Builder,
    body: &[Stmt],
    at: usize,
    state: usize,
    loops: &Loops,
    lengths: &Lengths<'_>,
) -> Result<Option<Less>> {
    let Some(Stmt::Scan(scan)) = body.get(at) else { return Ok(None) };
    let (Some(leaf), Some(state)) = (scan.single(), scan.states.get(state).copied()) else { return Ok(None) };
    if lengths.results.contains(&state.path) || scan.implicit.is_some() {
        return Ok(None);
    }
    let dims = flow.dims(state.before)?;
    let mut parts = Parts {
        scan,
        state,
        declared: flow.signature().sizes.len(),
        dims,
        loops,
        found: Vec::new(),
        ahead: Vec::new(),
    };
    let mut readers = Vec::new();
    for (reader, stmt) in body.iter().enumerate().skip(at + 1) {
        let mut reads = false;
        stmt.visit_reads(&mut |x| reads |= x == state.path);
        if !reads {
            continue;
        }
        match parts.reader(flow, stmt)? {
            Some(stmt) => readers.push((reader, stmt)),
            None => return Ok(None),
        }
    }
    let numbers: f64 = parts.found.iter().map(|(part, _)| lengths.points(part.free.iter().map(|(_, n)| n))).sum();
    if parts.found.is_empty() || numbers > PART * lengths.points(&parts.dims) {
        return Ok(None);
    }
    let Parts { found, ahead, .. } = parts;
    let scan = storing(flow, scan, leaf, &state, &found, loops)?;
    Ok(Some(Less { ahead, scan, readers }))
}

/// A part of a state: `gen free. sum told. [guard] * s[0, 1, ..]`, an index for each axis of the state.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    /// Whether it is of the state after a step.
    after: bool,
    free: Vec<(IndexId, Size)>,
    told: Vec<(IndexId, Size)>,
    guard: Pred,
    /// The parameters that relations in the guard are computed from.
    computed: Vec<(VarId, Source)>,
}

/// A leaf of a parameter, and its axes.
type Source = (ParamId, Vec<Side>, Vec<Size>);

impl Part {
    fn push(&self, joined: &mut Joined, state: &State, dims: &[Size]) -> Result<VarId> {
        let mut guard = self.guard.clone();
        for (x, (param, path, dims)) in &self.computed {
            let var = joined.builder.input(*param, path.clone(), dims.clone());
            guard = guard.map_relations(&mut |relation| {
                Ok::<_, Error>(match relation {
                    RelationRef::Computed { var: y, view } if y == *x => RelationRef::Computed { var, view },
                    other => other,
                })
            })?;
        }
        let var = joined.read(if self.after { state.after } else { state.before }, dims.to_vec());
        let indices = (0..dims.len()).map(IndexId::from_index).collect();
        joined.builder.contract(&self.free, &self.told, guard, vec![Operand { var, indices }])
    }
}

/// The loop with states that are parts of one of its states.
fn storing(
    flow: &Builder,
    scan: &Scan,
    leaf: &Leaf,
    state: &State,
    parts: &[(Part, State)],
    loops: &Loops,
) -> Result<Scan> {
    let dims = flow.dims(state.before)?;
    let mut joined = Joined::new(flow);
    let push = |joined: &mut Joined, after: bool| {
        for (part, own) in parts.iter().filter(|(part, _)| part.after == after) {
            let var = part.push(joined, state, &dims)?;
            joined.give(own.after, var);
        }
        Ok::<_, Error>(())
    };
    // What is read of the state before the step comes first: then that may be stored over.
    push(&mut joined, false)?;
    joined.leaf(leaf, &BTreeMap::new())?;
    push(&mut joined, true)?;
    let mut inside = loops.clone();
    inside.push((scan.index, scan.steps.clone()));
    let gives = leaf.gives.iter().copied().chain(parts.iter().map(|(_, own)| own.after)).collect();
    let body = joined.finish(flow, &inside, gives)?;
    let states = scan.states.iter().copied().chain(parts.iter().map(|(_, own)| *own)).collect();
    Ok(Scan { states, body: vec![Stmt::Leaf(body)], ..scan.clone() })
}

/// What is read of the path of a state.
struct Parts<'a> {
    scan: &'a Scan,
    state: State,
    /// How many sizes are declared outside.
    declared: usize,
    dims: Vec<Size>,
    loops: &'a Loops,
    /// The parts, each with the state that it is.
    found: Vec<(Part, State)>,
    /// What the first states of these are.
    ahead: Vec<Stmt>,
}

/// An access of the path: the indices and tests around it, those of its statement among them, and the place.
struct Access {
    gens: Vec<(IndexId, Size)>,
    sums: Vec<(IndexId, Size)>,
    tests: Vec<Pred>,
    indices: Vec<IndexId>,
}

impl Parts<'_> {
    /// A statement that reads parts in place of the path, if these are all that it reads.
    fn reader(&mut self, flow: &mut Builder, stmt: &Stmt) -> Result<Option<Stmt>> {
        let stmt = match stmt {
            Stmt::Leaf(leaf) => Stmt::Leaf(self.leaf(flow, leaf, false, self.loops)?),
            Stmt::Scan(scan) => {
                let Some(leaf) = scan.single() else { return Ok(None) };
                if scan.index != self.scan.index || scan.steps != self.scan.steps {
                    return Ok(None);
                }
                let mut inside = self.loops.clone();
                inside.push((scan.index, scan.steps.clone()));
                let leaf = self.leaf(flow, leaf, true, &inside)?;
                Stmt::Scan(Scan { body: vec![Stmt::Leaf(leaf)], ..scan.clone() })
            }
            Stmt::Call(_) => return Ok(None),
        };
        let mut reads = false;
        stmt.visit_reads(&mut |x| reads |= x == self.state.path);
        Ok((!reads).then_some(stmt))
    }

    fn leaf(&mut self, flow: &mut Builder, leaf: &Leaf, in_step: bool, loops: &Loops) -> Result<Leaf> {
        let mut joined = Joined::new(flow);
        let write = &mut |joined: &mut Joined, _, stmt: &tssa::Stmt| self.statement(flow, joined, stmt, in_step);
        let vars = joined.statements_of(leaf, write)?;
        joined.give_all(leaf, &vars)?;
        joined.finish(flow, loops, leaf.gives.clone())
    }

    fn statement(
        &mut self,
        flow: &mut Builder,
        joined: &mut Joined,
        stmt: &tssa::Stmt,
        in_step: bool,
    ) -> Result<Option<VarId>> {
        if matches!(stmt.rhs, Rhs::Input { .. } | Rhs::Number(_)) {
            return Ok(None);
        }
        let open = joined.builder.open_stmt(stmt)?;
        let gens = open.gens;
        match open.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => Ok(None),
            Rhs::Map { guard, function, args } => {
                let mut new = Vec::with_capacity(args.len());
                for x in &args {
                    new.push(self.under(flow, joined, (&gens, &guard), *x, in_step)?);
                }
                if new == args { Ok(None) } else { joined.builder.map(&gens, guard, function, new).map(Some) }
            }
            Rhs::Add([(p, x), (q, y)]) => {
                let a = self.under(flow, joined, (&gens, &p), x, in_step)?;
                let b = self.under(flow, joined, (&gens, &q), y, in_step)?;
                if (a, b) == (x, y) { Ok(None) } else { joined.builder.add(&gens, [(p, a), (q, b)]).map(Some) }
            }
            Rhs::Contract { guard, operands, .. } => {
                let (mut sums, mut tests, mut new) = (open.sums, guard, operands.clone());
                for at in 0..new.len() {
                    let others = new.iter().enumerate().filter(|(other, _)| *other != at);
                    let used: Vec<IndexId> = others.flat_map(|(_, x)| x.indices.iter().copied()).collect();
                    let Some(mut access) = self.access(joined, new[at].var, &new[at].indices)? else { continue };
                    access.gens = gens.clone();
                    access.sums.extend(sums.iter().cloned());
                    access.tests.extend(tests.conjuncts().iter().cloned());
                    if let Some((operand, told)) = self.told(flow, joined, access, &used, in_step)? {
                        (sums, tests) = (told.sums, Pred::all(told.tests));
                        new[at] = operand;
                    }
                }
                if new == operands { Ok(None) } else { joined.builder.contract(&gens, &sums, tests, new).map(Some) }
            }
        }
    }

    /// What stands for a tensor where it is needed under a test alone.
    fn under(
        &mut self,
        flow: &mut Builder,
        joined: &mut Joined,
        (gens, test): (&[(IndexId, Size)], &Pred),
        x: VarId,
        in_step: bool,
    ) -> Result<VarId> {
        let at: Vec<IndexId> = gens.iter().map(|(i, _)| *i).collect();
        let Some(mut access) = self.access(joined, x, &at)? else { return Ok(x) };
        access.gens = gens.to_vec();
        access.tests.extend(test.conjuncts().iter().cloned());
        match self.told(flow, joined, access, &[], in_step)? {
            Some((operand, Access { sums, tests, .. })) => {
                joined.builder.contract(gens, &sums, Pred::all(tests), vec![operand])
            }
            None => Ok(x),
        }
    }

    /// A tensor at a place as an access of the path: it is the path, or reads nothing else.
    fn access(&self, joined: &mut Joined, x: VarId, at: &[IndexId]) -> Result<Option<Access>> {
        let is_path = |joined: &Joined, x: VarId| match joined.builder.stmt(x).rhs {
            Rhs::Input { param, .. } => joined.taken(param) == Some(self.state.path),
            _ => false,
        };
        let none = || Access { gens: Vec::new(), sums: Vec::new(), tests: Vec::new(), indices: at.to_vec() };
        if is_path(joined, x) {
            return Ok(Some(none()));
        }
        let reads = match &joined.builder.stmt(x).rhs {
            Rhs::Contract { operands, .. } => matches!(operands.as_slice(), [one] if is_path(joined, one.var)),
            _ => false,
        };
        if !reads {
            return Ok(None);
        }
        let open = joined.builder.open(x)?;
        let Rhs::Contract { guard, operands, .. } = open.rhs else { return Ok(None) };
        let place = |i: IndexId| open.gens.iter().position(|(j, _)| i == *j).and_then(|k| at.get(k)).copied();
        let guard = guard.substitute(&|i| place(i).map(Affine::index))?;
        let indices = operands.iter().flat_map(|x| &x.indices).map(|i| place(*i).unwrap_or(*i)).collect();
        Ok(Some(Access { sums: open.sums, tests: guard.conjuncts().to_vec(), indices, ..none() }))
    }

    /// The part that stands for an access whose place is told, with the indices and tests around it then; `used` are indices that others use.
    fn told(
        &mut self,
        flow: &mut Builder,
        joined: &mut Joined,
        mut access: Access,
        used: &[IndexId],
        in_step: bool,
    ) -> Result<Option<(Operand, Access)>> {
        let Some((l, places)) = access.indices.split_first() else { return Ok(None) };
        let mut mentions = (0..access.tests.len()).filter(|k| access.tests[*k].mentions(*l));
        let (Some(test), None) = (mentions.next(), mentions.next()) else { return Ok(None) };
        let Pred::Zero(a) = &access.tests[test] else { return Ok(None) };
        let Some((now, after)) = a.root(*l).and_then(|place| self.time(&place, &access, in_step)) else {
            return Ok(None);
        };
        let mut part = Part { after, free: Vec::new(), told: Vec::new(), guard: Pred::True, computed: Vec::new() };
        let (mut free, mut guards) = (Vec::new(), Vec::new());
        for (axis, (i, n)) in places.iter().zip(&self.dims).enumerate() {
            let own = IndexId::from_index(axis);
            let place = self.place(joined, &access.tests, (*i, own), &now, &mut part.computed)?;
            match place {
                Some(place) => {
                    guards.push(place);
                    part.told.push((own, n.clone()));
                }
                None => {
                    free.push(*i);
                    part.free.push((own, n.clone()));
                }
            }
        }
        if part.told.is_empty() {
            return Ok(None);
        }
        part.guard = Pred::all(guards);
        let path = self.path_of(flow, part)?;
        if !used.contains(l) {
            access.tests.remove(test);
            access.sums.retain(|(i, _)| i != l);
        }
        let dims = flow.dims(path)?;
        let at = joined.builder.fresh_index();
        let stored = now.add_constant(i64::from(!self.scan.down))?;
        access.tests.push(Pred::equal(&Affine::index(at), &stored)?);
        access.sums.extend(dims.first().map(|n| (at, n.clone())));
        let indices = std::iter::once(at).chain(free).collect();
        Ok(Some((Operand { var: joined.read(path, dims), indices }, access)))
    }

    /// The step that a place of the path belongs to, and whether it is that of the state after it.
    fn time(&self, place: &Affine, access: &Access, in_step: bool) -> Option<(Affine, bool)> {
        let shifts = [(i64::from(self.scan.down), false), (i64::from(!self.scan.down), true)];
        let is_step = |now: &Affine| match now.as_index() {
            Some(t) => {
                let mut ranges = access.gens.iter().chain(&access.sums);
                !in_step && ranges.any(|(i, n)| *i == t && *n == self.scan.steps)
            }
            None => in_step && *now == Affine::size(self.scan.index),
        };
        shifts.into_iter().find_map(|(shift, after)| {
            let now = place.add_constant(-shift).ok()?;
            is_step(&now).then_some((now, after))
        })
    }

    /// A test that tells an index of an access from the step, over another index and the step of the loop.
    fn place(
        &self,
        joined: &Joined,
        tests: &[Pred],
        (index, own): (IndexId, IndexId),
        now: &Affine,
        computed: &mut Vec<(VarId, Source)>,
    ) -> Result<Option<Pred>> {
        let signature = joined.builder.signature();
        let t = now.as_index();
        let is_in_scope = |n: SizeId| {
            signature.sizes.get(n).is_some()
                && (self.declared > n.index() || n == self.scan.index || self.loops.iter().any(|(i, _)| *i == n))
        };
        let is_known = |a: &Affine| {
            let mut known = true;
            a.visit(&mut |v| {
                known &= match v {
                    Var::Index(i) => *i == index || Some(*i) == t,
                    Var::Size(n) => is_in_scope(*n),
                    Var::Apply(application) => application.map.computed_from().is_none(),
                }
            });
            known
        };
        for test in tests {
            let tells = match test {
                Pred::Zero(a) => a.root(index).is_some(),
                Pred::Relation { relation, args, holds: true } => {
                    let last = args.last().and_then(Affine::as_index) == Some(index);
                    let rest = args.iter().rev().skip(1).all(|a| !a.mentions(index));
                    last && rest && signature.gives_targets(*relation)
                }
                _ => false,
            };
            let mut known = tells;
            test.visit_affine(&mut |a| known &= is_known(a));
            let mut sources = Vec::new();
            test.visit_computed(&mut |x| {
                let source = match &joined.builder.stmt(x).rhs {
                    Rhs::Input { param, path } if joined.taken(*param).is_none() => {
                        Some((x, (*param, path.clone(), joined.builder.dims(x).to_vec())))
                    }
                    _ => None,
                };
                known &= source.is_some();
                sources.extend(source);
            });
            if known {
                computed.extend(sources);
                let step = Affine::size(self.scan.index);
                return Ok(Some(test.substitute(&|i| match i {
                    _ if i == index => Some(Affine::index(own)),
                    _ if Some(i) == t => Some(step.clone()),
                    _ => None,
                })?));
            }
        }
        Ok(None)
    }

    /// The path of the state that is a part.
    fn path_of(&mut self, flow: &mut Builder, part: Part) -> Result<ValueId> {
        if let Some((_, own)) = self.found.iter().find(|(other, _)| *other == part) {
            return Ok(own.path);
        }
        let dims: Vec<Size> = part.free.iter().map(|(_, n)| n.clone()).collect();
        let name = flow.get(self.state.before).name.clone();
        let own = step::from_zeros(flow, &name, &dims, &self.scan.steps, self.loops, &mut self.ahead)?;
        self.found.push((part, own));
        Ok(own.path)
    }
}

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
//! under such a guard alone is read there alone: each reader gets its own part of what it reads, and if that is not enough statements between
//! the path and its readers are written [under the tests](super::demand) of these. All readers do with less, or nothing is changed.
//!
//! Readers are leaves behind the loop, where time is an axis, and loops of the same steps. Places may be told by sizes, the step, maps of the data, what is
//! computed from a parameter as a whole, as the place of its largest element, a state that is an index, which the step has and the derivative keeps, and
//! by an equation with an index that one of these tells, as `i + 1` and `k(t) = i`.
//!
//! Left as they are: paths that are results; a loop inside of the step, whose states begin as a whole; places that a step finds among numbers, as
//! that of the least element of the state, which takes all of it anyway.

use std::collections::{BTreeMap, BTreeSet};

use super::super::build::Builder;
use super::super::data::{Leaf, Loops, Scan, State, Stmt, ValueId};
use super::super::leaf::Joined;
use super::Lengths;
use super::demand::under_tests;
use super::step;
use crate::base::{Id, IndexId, ParamId, SizeId, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Comparison, Function, Number, Op, Primitive};
use crate::tssa::one_hot::OneHot;
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
    computed: Sources,
    /// Indices that have the values of states.
    numbers: Vec<(IndexId, ValueId)>,
}

/// A leaf of a parameter, and its axes.
type Source = (ParamId, Vec<Side>, Vec<Size>);

/// Tensors, each with the parameter that it is.
type Sources = Vec<(VarId, Source)>;

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
        for (i, x) in &self.numbers {
            let Some((_, n)) = self.told.iter().find(|(told, _)| told == i) else { continue };
            let number = joined.read(*x, Vec::new());
            let builder = &mut joined.builder;
            let own = [(builder.fresh_index(), n.clone())];
            let all = builder.contract(&own, &[], Pred::True, vec![Operand { var: number, indices: Vec::new() }])?;
            let index = builder.number(&own, Number::Index(Affine::index(own[0].0)))?;
            let function = Function::Value(Primitive::Op(Op::Compare(Comparison::Equal)));
            let var = builder.map(&own, Pred::True, function, vec![all, index])?;
            let relation = RelationRef::Computed { var, view: View::Support };
            guard = guard.and(Pred::Relation { relation, args: vec![Affine::index(*i)], holds: true });
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
    let is_after = |x: &ValueId| scan.states.iter().any(|state| state.after == *x);
    let push = |joined: &mut Joined, after: bool| {
        let is_late = |part: &Part| part.after || part.numbers.iter().any(|(_, x)| is_after(x));
        for (part, own) in parts.iter().filter(|(part, _)| is_late(part) == after) {
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
    /// Whether it is in a step of a loop, and not in a leaf behind the loop.
    in_step: bool,
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
        let (found, ahead) = (self.found.len(), self.ahead.len());
        let less = self.with_parts(flow, leaf, in_step, loops)?;
        if !less.takes.contains(&self.state.path) {
            return Ok(less);
        }
        let Some(leaf) = under_tests(flow, leaf, self.state.path, loops)? else { return Ok(less) };
        self.found.truncate(found);
        self.ahead.truncate(ahead);
        self.with_parts(flow, &leaf, in_step, loops)
    }

    fn with_parts(&mut self, flow: &mut Builder, leaf: &Leaf, in_step: bool, loops: &Loops) -> Result<Leaf> {
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
                    let Some(mut access) = self.access(joined, new[at].var, &new[at].indices, in_step)? else {
                        continue;
                    };
                    access.gens = gens.clone();
                    access.sums.extend(sums.iter().cloned());
                    access.tests.extend(tests.conjuncts().iter().cloned());
                    if let Some((operand, told)) = self.told(flow, joined, access, &used)? {
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
        let Some(mut access) = self.access(joined, x, &at, in_step)? else { return Ok(x) };
        let own = access.tests.clone();
        access.gens = gens.to_vec();
        access.tests.extend(test.conjuncts().iter().cloned());
        let Some((operand, Access { sums, mut tests, .. })) = self.told(flow, joined, access, &[])? else {
            return Ok(x);
        };
        // Where the test fails nobody looks.
        tests.retain(|p| own.contains(p) || !test.conjuncts().contains(p));
        joined.builder.contract(gens, &sums, Pred::all(tests), vec![operand])
    }

    /// A tensor at a place as an access of the path: it is the path, or reads nothing else.
    fn access(&self, joined: &mut Joined, x: VarId, at: &[IndexId], in_step: bool) -> Result<Option<Access>> {
        let is_path = |joined: &Joined, x: VarId| match joined.builder.stmt(x).rhs {
            Rhs::Input { param, .. } => joined.taken(param) == Some(self.state.path),
            _ => false,
        };
        let none = || Access { gens: Vec::new(), sums: Vec::new(), tests: Vec::new(), indices: at.to_vec(), in_step };
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
    ) -> Result<Option<(Operand, Access)>> {
        let Some((l, places)) = access.indices.split_first() else { return Ok(None) };
        let mut mentions = (0..access.tests.len()).filter(|k| access.tests[*k].mentions(*l));
        let (Some(test), None) = (mentions.next(), mentions.next()) else { return Ok(None) };
        let Pred::Zero(a) = &access.tests[test] else { return Ok(None) };
        let Some((now, after)) = a.root(*l).and_then(|place| self.time(&place, &access)) else {
            return Ok(None);
        };
        let mut part = Part {
            after,
            free: Vec::new(),
            told: Vec::new(),
            guard: Pred::True,
            computed: Vec::new(),
            numbers: Vec::new(),
        };
        let mut free = Vec::new();
        for (axis, (i, n)) in places.iter().zip(&self.dims).enumerate() {
            let own = (IndexId::from_index(axis), n.clone());
            if !self.place(joined, &access, (*i, own.clone()), &now, &mut part, true)? {
                free.push(*i);
                part.free.push(own);
            }
        }
        if part.told.is_empty() {
            return Ok(None);
        }
        let path = self.path_of(flow, part)?;
        // An index that nobody else has goes.
        if let Some(at) = access.sums.iter().position(|(i, _)| i == l).filter(|_| !used.contains(l)) {
            access.tests.remove(test);
            access.sums.remove(at);
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
    fn time(&self, place: &Affine, access: &Access) -> Option<(Affine, bool)> {
        let shifts = [(i64::from(self.scan.down), false), (i64::from(!self.scan.down), true)];
        let is_step = |now: &Affine| match now.as_index() {
            Some(t) => {
                let mut ranges = access.gens.iter().chain(&access.sums);
                !access.in_step && ranges.any(|(i, n)| *i == t && *n == self.scan.steps)
            }
            None => access.in_step && *now == Affine::size(self.scan.index),
        };
        shifts.into_iter().find_map(|(shift, after)| {
            let now = place.add_constant(-shift).ok()?;
            is_step(&now).then_some((now, after))
        })
    }

    /// Adds to a part what tells an index of an access from the step, over another index and the step of the loop; says whether anything does.
    fn place(
        &self,
        joined: &Joined,
        access: &Access,
        (index, own): (IndexId, (IndexId, Size)),
        now: &Affine,
        part: &mut Part,
        by_others: bool,
    ) -> Result<bool> {
        let t = now.as_index();
        let step = Affine::size(self.scan.index);
        if t == Some(index) {
            part.guard = part.guard.clone().and(Pred::equal(&Affine::index(own.0), &step)?);
            part.told.push(own);
            return Ok(true);
        }
        for test in &access.tests {
            if let Some(number) = self.number(joined, test, index, now, access) {
                part.numbers.push((own.0, number));
                part.told.push(own);
                return Ok(true);
            }
            let Some((others, sources)) = self.tells(joined, test, index, t) else { continue };
            let mut names = BTreeMap::from([(index, own.0)]);
            let told = part.clone();
            let mut known = others.len() <= usize::from(by_others);
            for other in if known { others } else { BTreeSet::new() } {
                let mut ranges = access.gens.iter().chain(&access.sums);
                let Some((_, n)) = ranges.find(|(i, _)| *i == other) else {
                    known = false;
                    continue;
                };
                // One that is no axis of the state.
                let name = IndexId::from_index(self.dims.len() + part.told.len() + part.free.len());
                names.insert(other, name);
                known &= self.place(joined, access, (other, (name, n.clone())), now, part, false)?;
            }
            if !known {
                *part = told;
                continue;
            }
            part.computed.extend(sources);
            let test = test.substitute(&|i| match names.get(&i) {
                Some(own) => Some(Affine::index(*own)),
                None => (Some(i) == t).then(|| step.clone()),
            })?;
            part.guard = part.guard.clone().and(test);
            part.told.push(own);
            return Ok(true);
        }
        Ok(false)
    }

    /// The other indices, but for time, and the computed relations of a test that tells an index.
    fn tells(
        &self,
        joined: &Joined,
        test: &Pred,
        index: IndexId,
        t: Option<IndexId>,
    ) -> Option<(BTreeSet<IndexId>, Sources)> {
        let signature = joined.builder.signature();
        let is_in_scope = |n: SizeId| {
            signature.sizes.get(n).is_some()
                && (self.declared > n.index() || n == self.scan.index || self.loops.iter().any(|(i, _)| *i == n))
        };
        let mut known = match test {
            Pred::Zero(a) => a.root(index).is_some(),
            Pred::Relation { relation, args, holds: true } => {
                let last = args.last().and_then(Affine::as_index) == Some(index);
                let rest = args.iter().rev().skip(1).all(|a| !a.mentions(index));
                last && rest && signature.gives_targets(*relation)
            }
            _ => false,
        };
        let mut others = BTreeSet::new();
        test.visit_affine(&mut |a| {
            a.visit(&mut |v| match v {
                Var::Index(i) if *i == index || Some(*i) == t => {}
                Var::Index(i) => others.extend([*i]),
                Var::Size(n) => known &= is_in_scope(*n),
                Var::Apply(application) => known &= application.map.computed_from().is_none(),
            });
        });
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
        known.then_some((others, sources))
    }

    /// The state, before the step or after it, that is the number which a test compares with an index.
    fn number(&self, joined: &Joined, test: &Pred, index: IndexId, now: &Affine, access: &Access) -> Option<ValueId> {
        let Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds: true } = test
        else {
            return None;
        };
        let builder = &joined.builder;
        let one_hot = OneHot::among(&|x| (x.index() < builder.len()).then(|| builder.stmt(x)), *var)?;
        let (source, told) = (one_hot.source(args).ok()?, args.get(one_hot.axis)?);
        let Rhs::Input { param, .. } = &builder.stmt(one_hot.number).rhs else { return None };
        let path = joined.taken(*param)?;
        let state = self.scan.states.iter().find(|state| state.path == path)?;
        let [place] = source.as_slice() else { return None };
        let (step, after) = self.time(place, access)?;
        (told.as_index() == Some(index) && step == *now).then_some(if after { state.after } else { state.before })
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

//! The entries of a pattern that was found out, row by row and without reading their coordinates.
//!
//! ```text
//! [[X on its places]]  ==  for i < n. X[i, a1], X[i, a2], ..     at start(i), start(i) + 1, ..
//! ```
//!
//! The clauses of a support say which indices there are below a value of the first axis. Axis by axis these are
//! - every number below a short literal length, one after the other, so that guards on it are true or false;
//! - the target of a map;
//! - numbers and ranges that equations and bounds give, in an order that follows from what is known.
//!
//! Where the first index is a target of a map that is in use, the rows are those of the targets in use.
//!
//! A guard on the first index that decides whether an entry is there splits the rows in *cases*, each with a loop of its own. Where this
//! fails, as for a relation whose tuples nobody knows beforehand, there are no such rows, and places are walked.
//!
//! The program that finds the pattern runs over the same rows, so that both agree on how many entries there are, and in which order.

use super::scope::Nester;
use super::support::Clause;
use super::witness::InUse;
use crate::base::{Id, IndexId, RelationId};
use crate::error::Result;
use crate::index::{Affine, Checked, Pred, RelationRef, Size, Var};
use crate::loops::{Part, Stmt};
use crate::solver::{Facts, Relations};
use crate::ty::Signature;

/// The longest axis whose indices are taken one by one.
const MAX_LITERAL: i64 = 16;
/// How many entries, and how many cases, are written down.
const MAX_ENTRIES: usize = 96;
const MAX_CASES: usize = 16;

/// The entries of a pattern, by the first index.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    dims: Vec<Size>,
    /// That a row is a target in use, of a map, as `exists o. f(o, i)` over index 0 and others.
    in_use: Option<Pred>,
    cases: Vec<Case>,
}

/// The rows of which a guard holds. Axis `k` is index `k`.
#[derive(Clone, Debug)]
struct Case {
    guard: Vec<Pred>,
    items: Vec<Item>,
    /// How many entries each row has, if that is a number and a loop takes all rows from the first to the last.
    entries: Option<i64>,
}

/// Entries of a row, in order.
#[derive(Clone, Debug)]
enum Item {
    /// An entry, and how many are before it with the same first index, and with the same of all leading axes that are rows of a matrix.
    Entry { at: Vec<Affine>, before: Before },
    /// The entries for each value of an axis.
    Each { axis: usize, conjuncts: Vec<Pred>, items: Vec<Item> },
}

/// How many entries are before another one: with the same first index, and with the same row of a matrix.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub first: Affine,
    pub row: Affine,
}

impl Before {
    fn substitute(&self, value: &impl Fn(IndexId) -> Option<Affine>) -> Checked<Before> {
        Ok(Before { first: self.first.substitute(value)?, row: self.row.substitute(value)? })
    }
}

/// Why there are no rows.
enum Stop {
    /// It depends on this.
    Undecided(Pred),
    /// They have another form.
    Unknown,
}

impl From<crate::index::Overflow> for Stop {
    fn from(_: crate::index::Overflow) -> Stop {
        Stop::Unknown
    }
}

type Found<T> = std::result::Result<T, Stop>;

/// What is known on the way down.
struct Search<'a> {
    signature: &'a Signature,
    dims: &'a [Size],
    /// How many leading axes are rows of a matrix.
    row_axes: usize,
    entries: usize,
}

impl Rows {
    /// The rows of the union of some clauses, if they have such a form. So many leading axes are rows of a matrix.
    pub fn new(signature: &Signature, dims: &[Size], row_axes: usize, clauses: &[Clause]) -> Option<Rows> {
        if dims.len() < 2 {
            return None;
        }
        let first = IndexId::from_index(0);
        let mut drivers = clauses.iter().map(|clause| in_use(signature, dims, clause));
        let driver = drivers.next().flatten();
        if drivers.any(|other| other != driver) {
            return None;
        }
        let (in_use, row) = driver.unzip();
        if in_use.is_none() && clauses.iter().any(|clause| !clause.bound.is_empty()) {
            return None;
        }
        let facts = signature.facts().under([&(first, dims[0].clone())], []);
        let others = |clause: &Clause| clause.conjuncts.iter().filter(|p| Some(*p) != row.as_ref()).cloned().collect();
        let clauses: Vec<Vec<Pred>> = clauses.iter().map(others).collect();
        let mut cases: Vec<Case> = Vec::new();
        let mut open = vec![Vec::new()];
        while let Some(guard) = open.pop() {
            let facts = facts.under([], &guard);
            if facts.contradictory() {
                continue;
            }
            let mut search = Search { signature, dims, row_axes, entries: 0 };
            let none = Affine::constant(0);
            match search.below(&facts, clauses.clone(), vec![first.into()], [&none, &none]) {
                Ok((items, count)) => {
                    // What applies maps is tested inside of the loop.
                    let all = in_use.is_none() && !guard.iter().any(Pred::applies_maps);
                    let entries = count.as_constant().filter(|_| all);
                    cases.push(Case { guard, items, entries });
                }
                Err(Stop::Undecided(p)) if open.len() + cases.len() + 2 <= MAX_CASES => {
                    let atom = matches!(p, Pred::NonNegative(_) | Pred::Zero(_) | Pred::NonZero(_));
                    let other = (1..dims.len()).any(|k| p.mentions(IndexId::from_index(k)));
                    let negated = p.negate().filter(|_| atom && !other && is_open(&facts, &p))?;
                    open.extend([p, negated].map(|p| [guard.as_slice(), &[p]].concat()));
                }
                Err(_) => return None,
            }
        }
        cases.retain(|case| !case.items.is_empty());
        Some(Rows { dims: dims.to_vec(), in_use, cases })
    }
}

/// That the first index of a clause is a target in use, with the conjunct that says so; it is all that the clause says of indices it binds.
fn in_use(signature: &Signature, dims: &[Size], clause: &Clause) -> Option<(Pred, Pred)> {
    let sources: Vec<(IndexId, Size)> =
        clause.bound.iter().enumerate().map(|(k, n)| (IndexId::from_index(dims.len() + k), n.clone())).collect();
    let mut of_sources = clause.conjuncts.iter().filter(|p| sources.iter().any(|(i, _)| p.mentions(*i)));
    let (atom, None) = (of_sources.next()?, of_sources.next()) else { return None };
    let used = Pred::exists_each(sources.into_iter(), atom.clone());
    let found = InUse::of(signature, &used)?;
    let is_first = found.target.as_index() == Some(IndexId::from_index(0)) && Some(&found.extent) == dims.first();
    is_first.then(|| (used.clone(), atom.clone()))
}

impl Rows {
    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }
}

/// The indices that a clause has for an axis.
#[derive(Clone, PartialEq)]
enum Values {
    /// From the first to the second, both included.
    Range(Affine, Affine),
    Target(Pred),
}

/// Whether it is not known if a predicate holds.
fn is_open(facts: &Facts, p: &Pred) -> bool {
    !facts.proves(p) && p.negate().is_none_or(|not| !facts.proves(&not))
}

impl Values {
    /// The numbers of a short range, which may be in others as well.
    fn one_by_one(self) -> Checked<Vec<Values>> {
        let Values::Range(first, last) = &self else { return Ok(vec![self]) };
        match last.sub(first)?.as_constant() {
            Some(further @ 1..MAX_LITERAL) => {
                let number = |k| first.add_constant(k).map(|a| Values::Range(a.clone(), a));
                (0..=further).map(number).collect()
            }
            _ => Ok(vec![self]),
        }
    }
}

impl Search<'_> {
    /// The entries below `at`, the first of which has so many before it, and how many they are. The row of the matrix starts after so many.
    fn below(
        &mut self,
        facts: &Facts,
        clauses: Vec<Vec<Pred>>,
        at: Vec<Affine>,
        [before, row]: [&Affine; 2],
    ) -> Found<(Vec<Item>, Affine)> {
        let axis = at.len();
        let row = if axis == self.row_axes { before } else { row };
        let clauses = self.alive(facts, clauses, axis);
        let none = Affine::constant(0);
        let Some(extent) = self.dims.get(axis) else {
            return match clauses.iter().flatten().next() {
                _ if clauses.is_empty() => Ok((Vec::new(), none)),
                Some(p) if clauses.iter().all(|clause| !clause.is_empty()) => {
                    let mut atoms = Vec::new();
                    p.visit_atoms(&mut |atom| atoms.push(atom));
                    let open = atoms.into_iter().find(|p| is_open(facts, p));
                    Err(open.map_or(Stop::Unknown, |p| Stop::Undecided(p.clone())))
                }
                _ => {
                    self.entries += 1;
                    let before = Before { first: before.clone(), row: before.sub(row)? };
                    let entry = Item::Entry { at, before };
                    if self.entries <= MAX_ENTRIES {
                        Ok((vec![entry], Affine::constant(1)))
                    } else {
                        Err(Stop::Unknown)
                    }
                }
            };
        };
        let index = IndexId::from_index(axis);
        let (mut items, mut count) = (Vec::new(), none);
        if let Some(n) = extent.as_constant().filter(|n| *n <= MAX_LITERAL) {
            for k in 0..n {
                let value = Affine::constant(k);
                let (more, len) = self.at(facts, &clauses, &at, &value, [&before.add(&count)?, row])?;
                items.extend(more);
                count = count.add(&len)?;
            }
            return Ok((items, count));
        }
        for (values, clauses) in self.pieces(facts, clauses, axis)? {
            let from = before.add(&count)?;
            let (conjuncts, first, last) = match values {
                Values::Range(first, last) if first == last => {
                    let (more, len) = self.at(facts, &clauses, &at, &first, [&from, row])?;
                    items.extend(more);
                    count = count.add(&len)?;
                    continue;
                }
                Values::Range(first, last) => {
                    let i = Affine::index(index);
                    (vec![Pred::le(&first, &i)?, Pred::le(&i, &last)?], first, last)
                }
                Values::Target(map) => (vec![map], index.into(), index.into()),
            };
            let said = conjuncts.iter().filter(|p| !matches!(p, Pred::Relation { .. }));
            let inside = facts.under([&(index, extent.clone())], said);
            let next = [at.as_slice(), &[index.into()]].concat();
            let none = Affine::constant(0);
            let (_, each) = self.below(&inside, clauses.clone(), next.clone(), [&none, &none])?;
            let k = each.as_constant().ok_or(Stop::Unknown)?;
            let own = from.add(&Affine::index(index).sub(&first)?.scale(k)?)?;
            let (more, _) = self.below(&inside, clauses, next, [&own, row])?;
            if !more.is_empty() {
                items.push(Item::Each { axis, conjuncts, items: more });
            }
            count = count.add(&last.sub(&first)?.add_constant(1)?.scale(k)?)?;
        }
        Ok((items, count))
    }

    /// The entries where the next index has a value.
    fn at(
        &mut self,
        facts: &Facts,
        clauses: &[Vec<Pred>],
        at: &[Affine],
        value: &Affine,
        before: [&Affine; 2],
    ) -> Found<(Vec<Item>, Affine)> {
        let index = IndexId::from_index(at.len());
        let give = |i: IndexId| (i == index).then(|| value.clone());
        let given = |clause: &Vec<Pred>| clause.iter().map(|p| p.substitute(&give)).collect::<Checked<Vec<Pred>>>();
        let clauses = clauses.iter().map(given).collect::<Checked<_>>()?;
        self.below(facts, clauses, [at, std::slice::from_ref(value)].concat(), before)
    }

    /// Whether a predicate mentions axes from one on.
    fn waits(&self, p: &Pred, from: usize) -> bool {
        (from..self.dims.len()).any(|k| p.mentions(IndexId::from_index(k)))
    }

    /// The clauses that may hold, without what is known to.
    fn alive(&self, facts: &Facts, clauses: Vec<Vec<Pred>>, axis: usize) -> Vec<Vec<Pred>> {
        let mut alive = Vec::new();
        for clause in clauses {
            let conjuncts =
                clause.iter().flat_map(|p| if p.is_false() { std::slice::from_ref(p) } else { p.conjuncts() });
            let (waiting, ready): (Vec<Pred>, Vec<Pred>) = conjuncts.cloned().partition(|p| self.waits(p, axis));
            let open: Vec<Pred> = ready.into_iter().filter(|p| !facts.proves(p)).collect();
            let fails = |p: &Pred| p.is_false() || p.negate().is_some_and(|not| facts.proves(&not));
            if !open.iter().any(fails) {
                alive.push([open, waiting].concat());
            }
        }
        // One that holds whatever the others say.
        match alive.iter().position(Vec::is_empty) {
            Some(at) => vec![alive.swap_remove(at)],
            None => alive,
        }
    }

    /// The values of an axis in order, each with what is left of its clauses.
    fn pieces(&self, facts: &Facts, clauses: Vec<Vec<Pred>>, axis: usize) -> Found<Vec<(Values, Vec<Vec<Pred>>)>> {
        let mut pieces: Vec<(Values, Vec<Vec<Pred>>)> = Vec::new();
        let several = clauses.len() > 1;
        for clause in clauses {
            let Some((values, rest)) = self.values(facts, clause, axis)? else { continue };
            for values in if several { values.one_by_one()? } else { vec![values] } {
                match pieces.iter_mut().find(|(other, _)| *other == values) {
                    Some((_, clauses)) => clauses.push(rest.clone()),
                    None => pieces.push((values, vec![rest.clone()])),
                }
            }
        }
        if pieces.len() <= 1 {
            return Ok(pieces);
        }
        let follows = |a: &Affine, b: &Affine| Checked::Ok(facts.proves(&Pred::lt(a, b)?));
        let within = |a: &Affine, b: &Affine| Checked::Ok(facts.proves(&Pred::le(a, b)?));
        // What another range has anyway.
        let mut at = 0;
        while let Some((Values::Range(first, last), _)) = pieces.get(at) {
            let mut covered = false;
            for (other, (values, clauses)) in pieces.iter().enumerate() {
                if let Values::Range(from, to) = values
                    && other != at
                    && clauses.iter().any(Vec::is_empty)
                {
                    covered |= within(from, first)? && within(last, to)?;
                }
            }
            if covered {
                pieces.remove(at);
            } else {
                at += 1;
            }
        }
        let mut sorted = Vec::with_capacity(pieces.len());
        while !pieces.is_empty() {
            let mut first = None;
            for (at, (values, _)) in pieces.iter().enumerate() {
                let Values::Range(_, last) = values else { return Err(Stop::Unknown) };
                let mut before = true;
                for (other, (values, _)) in pieces.iter().enumerate() {
                    let Values::Range(from, _) = values else { return Err(Stop::Unknown) };
                    before &= other == at || follows(last, from)?;
                }
                if before {
                    first = Some(at);
                    break;
                }
            }
            sorted.push(pieces.remove(first.ok_or(Stop::Unknown)?));
        }
        Ok(sorted)
    }

    /// The values that a clause has for an axis, and what else it says; nothing where there are none.
    fn values(&self, facts: &Facts, clause: Vec<Pred>, axis: usize) -> Found<Option<(Values, Vec<Pred>)>> {
        let index = IndexId::from_index(axis);
        let extent = self.dims.get(axis).ok_or(Stop::Unknown)?;
        let (later, own): (Vec<Pred>, Vec<Pred>) = clause.into_iter().partition(|p| self.waits(p, axis + 1));
        let (own, ready): (Vec<Pred>, Vec<Pred>) = own.into_iter().partition(|p| p.mentions(index));
        if let Some(p) = ready.into_iter().next() {
            return Err(Stop::Undecided(p));
        }
        if let [Pred::Relation { relation: relation @ RelationRef::Input(r), args, holds: true }] = own.as_slice() {
            let shape = self.signature.relations.get(*r).map_or(&[][..], |relation| &relation.shape);
            let (Some((target, sources)), Some((range, sizes))) = (args.split_last(), shape.split_last()) else {
                return Err(Stop::Unknown);
            };
            let is_target = target.as_index() == Some(index) && sources.iter().all(|a| !a.mentions(index));
            if !self.signature.is_map(*relation) || !is_target || range != extent {
                return Err(Stop::Unknown);
            }
            for (a, n) in sources.iter().zip(sizes) {
                if let Some(p) = Pred::in_range(a, n)?.conjuncts().iter().find(|p| !facts.proves(p)) {
                    return Err(Stop::Undecided(p.clone()));
                }
            }
            return Ok(Some((Values::Target(own[0].clone()), later)));
        }
        let (mut lower, mut upper) = (vec![Affine::constant(0)], vec![extent.add_constant(-1)?]);
        for p in &own {
            let (Pred::NonNegative(a) | Pred::Zero(a)) = p else { return Err(Stop::Unknown) };
            // k*index + rest >= 0, or = 0
            let k = a.coefficient(&Var::Index(index));
            let bound = a.root(index).ok_or(Stop::Unknown)?;
            let both = matches!(p, Pred::Zero(_));
            if k > 0 || both {
                lower.push(bound.clone());
            }
            if k < 0 || both {
                upper.push(bound);
            }
        }
        let tightest = |bounds: &[Affine], order: fn(&Affine, &Affine) -> Checked<Pred>| -> Found<Affine> {
            for a in bounds.iter().rev() {
                let mut tight = true;
                for b in bounds {
                    tight &= facts.proves(&order(a, b)?);
                }
                if tight {
                    return Ok(a.clone());
                }
            }
            for (k, a) in bounds.iter().enumerate() {
                for b in &bounds[..k] {
                    let p = order(a, b)?;
                    if is_open(facts, &p) {
                        return Err(Stop::Undecided(p));
                    }
                }
            }
            Err(Stop::Unknown)
        };
        let first = tightest(&lower, |a, b| Pred::le(b, a))?;
        let last = tightest(&upper, Pred::le)?;
        let some = Pred::le(&first, &last.add_constant(1)?)?;
        if is_open(facts, &some) {
            return Err(Stop::Undecided(some));
        }
        let empty = facts.proves(&Pred::lt(&last, &first)?);
        Ok((!empty).then_some((Values::Range(first, last), later)))
    }
}

/// What is done at each entry: the indices, the place of the entry, and how many are before it in its row of a matrix.
type Body<'b, 'a> = &'b mut dyn FnMut(&mut Nester<'a>, &[Affine], &Before) -> Result<()>;

/// Opens a row: gives its first entry, where all rows of a loop have so many.
type Start<'s, 'a> = &'s mut dyn FnMut(&mut Nester<'a>, &Affine, Option<i64>) -> Result<Affine>;

impl<'a> Nester<'a> {
    /// Runs `body` at every entry.
    pub fn entries(&mut self, rows: &Rows, start: Start<'_, 'a>, body: Body<'_, 'a>) -> Result<()> {
        for case in &rows.cases {
            let i = self.fresh_index();
            let mut guard = case.guard.iter().map(|p| self.open(p, &[i.into()])).collect::<Result<Vec<_>>>()?;
            // The sources are numbered behind all axes.
            let mut names = vec![Affine::constant(0); rows.dims.len()];
            names[0] = i.into();
            guard.extend(rows.in_use.as_ref().map(|p| self.open(p, &names)).transpose()?);
            self.points(vec![(i, rows.dims[0].clone())], guard, &mut |nester, point| {
                let row = point.value(&i.into())?;
                let start = start(nester, &row, case.entries)?;
                nester.items(rows, &case.items, &[row], &start, body)
            })?;
        }
        Ok(())
    }

    /// The entries of a row, where the indices of the first axes are known.
    fn items(
        &mut self,
        rows: &Rows,
        items: &[Item],
        known: &[Affine],
        start: &Affine,
        body: Body<'_, 'a>,
    ) -> Result<()> {
        let value = |i: IndexId| known.get(i.index()).cloned();
        for item in items {
            match item {
                Item::Entry { at, before } => {
                    let at: Vec<Affine> = at.iter().map(|a| a.substitute(&value)).collect::<Checked<_>>()?;
                    for (a, n) in at.iter().zip(&rows.dims) {
                        if self.range_level(a, n).is_none() {
                            self.claim(a, n);
                        }
                    }
                    let before = before.substitute(&value)?;
                    body(self, &at, &Before { first: start.add(&before.first)?, row: before.row })?;
                }
                Item::Each { axis, conjuncts, items } => {
                    let i = self.fresh_index();
                    // Axes between are in the items as values.
                    let mut names = known.to_vec();
                    names.resize(*axis, Affine::constant(0));
                    names.push(i.into());
                    let conjuncts = conjuncts.iter().map(|p| self.open(p, &names)).collect::<Result<_>>()?;
                    self.points(vec![(i, rows.dims[*axis].clone())], conjuncts, &mut |nester, point| {
                        let mut names = names.clone();
                        names[*axis] = point.value(&i.into())?;
                        nester.items(rows, items, &names, start, body)
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Where a row of a block starts in a matrix. The leading axes but the first are of literal length.
    pub fn start_in_matrix(&mut self, relation: RelationId, dims: &[Size], row: &[Affine]) -> Result<Affine> {
        if let Some((_, known)) = self.entry(relation, row) {
            return Ok(known);
        }
        let mut at = Affine::constant(0);
        for (a, n) in row.iter().zip(dims) {
            at = at.scale(n.as_constant().unwrap_or(1))?.add(a)?;
        }
        let axes: Vec<usize> = (0..dims.len()).collect();
        let array = self.array(relation, &axes, Part::Starts);
        let index = self.fresh_index();
        self.emit(Stmt::Let { index, array, at, step: None });
        self.remember_entry(relation, row, index.into());
        Ok(index.into())
    }

    /// The first entry of a row of a relation, where all rows of a loop over them have so many entries.
    pub fn start(&mut self, relation: RelationId, row: &Affine, rank: usize, step: Option<i64>) -> Result<Affine> {
        let axes: Vec<usize> = (0..rank).collect();
        let mut at = row.clone();
        for level in 0..rank.saturating_sub(1) {
            let part = if level == 0 { Part::Rows } else { Part::Children(level as u8) };
            let array = self.array(relation, &axes, part);
            let index = self.fresh_index();
            let step = step.filter(|_| level == 0 && rank == 2 && at.as_index().is_some());
            self.emit(Stmt::Let { index, array, at, step });
            at = index.into();
        }
        Ok(at)
    }
}

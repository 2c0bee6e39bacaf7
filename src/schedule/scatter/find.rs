//! Which sums over sources can be computed in the order of these.
//!
//! A sum stands in loops over whole axes, one of which is over the targets. What it adds is computed of numbers that are loaded at the target, at the
//! source, and at the other loops' indices, and of nothing else: so it can be computed anywhere. Tests around it are refused, but for the
//! one whether the target has sources at all, and those of the target alone where nothing else depends on it: there the sum is read under them.

use std::collections::{BTreeMap, BTreeSet};

use super::super::workspaces::asks_numbers;
use crate::base::{IndexId, RelationId};
use crate::index::{Affine, Size, Var};
use crate::loops::{Array, BufferId, Cond, Domain, Nest, Part, Place, Program, Real, RealId, Segment, Stmt, stores};
use crate::scalar::{Comparison, Function, Op};

/// What is added for a source.
#[derive(Clone, Copy)]
pub(super) enum Term {
    Number(RealId),
    /// A product, added with one rounding.
    Product(RealId, RealId),
}

/// Over what a sum goes.
pub(super) enum Source {
    /// The tuples of a relation that have the target on an axis: the indices that are their coordinates, by axis, their entries, and those of projections.
    /// Sums are read at the target and `shift`.
    Tuples {
        relation: RelationId,
        axis: usize,
        shift: i64,
        coordinates: Vec<(usize, IndexId)>,
        entries: Vec<IndexId>,
        projected: Vec<(RelationId, IndexId)>,
    },
    /// All places of an axis, at each of which a number tells the target: it is the number and a constant.
    Numbers { source: (IndexId, Size), number: Place, shift: i64 },
}

impl Source {
    /// The indices that a source tells.
    fn indices(&self) -> BTreeSet<IndexId> {
        match self {
            Source::Tuples { coordinates, entries, projected, .. } => {
                let told = coordinates.iter().map(|(_, i)| *i).chain(projected.iter().map(|(_, i)| *i));
                told.chain(entries.iter().copied()).collect()
            }
            Source::Numbers { source, .. } => BTreeSet::from([source.0]),
        }
    }
}

/// A sum by target, or several of the same sources.
pub(super) struct Sum {
    /// The index of the targets, and how many there are.
    pub target: (IndexId, Size),
    /// The other loops around on which the term depends, from outside in.
    pub ranks: Vec<(IndexId, Size)>,
    pub source: Source,
    /// What computes the terms.
    pub items: Vec<Stmt>,
    /// The registers that take sums, and of what; with those that are declared where they stand, and what is done with them there.
    pub added: Vec<(RealId, Term)>,
    pub locals: Vec<RealId>,
    pub tail: Vec<Stmt>,
}

impl Sum {
    /// The buffers of which a row is loaded for each source, or a number where there are no rows.
    pub fn taken(&self) -> impl Iterator<Item = BufferId> {
        let own = self.source.indices();
        let mentions = |place: &Place, i: IndexId| place.at.iter().any(|a| a.mentions(i));
        let is_taken = move |place: &&Place| {
            own.iter().any(|i| mentions(place, *i))
                && (self.ranks.is_empty() || self.ranks.iter().any(|(i, _)| mentions(place, *i)))
        };
        self.items.iter().filter_map(Stmt::load).filter(is_taken).map(|place| place.buffer)
    }
}

/// Where a nest stores the number of a source.
pub(super) struct Told {
    /// The number of the statement of the nest that it is in.
    pub top: usize,
    /// The source.
    pub source: Affine,
}

/// The only store to a buffer of one axis in a nest, in loops that take one value at a time, of which the outermost is parallel.
pub(super) fn told(nest: &Nest, buffer: BufferId) -> Option<Told> {
    let holds = |stmt: &Stmt| stores([stmt]).iter().any(|place| place.buffer == buffer);
    let top = nest.body.iter().position(holds)?;
    let mut stmt = nest.body.get(top)?;
    if !matches!(stmt, Stmt::For { parallel: true, .. }) || nest.body[top + 1..].iter().any(holds) {
        return None;
    }
    loop {
        match stmt {
            Stmt::For { lanes: 1, jam: 1, body, .. } => {
                let mut inside = body.iter().filter(|stmt| holds(stmt));
                stmt = inside.next()?;
                inside.next().is_none().then_some(())?;
            }
            Stmt::Store(place, _) => {
                let [source] = place.at.as_slice() else { return None };
                return Some(Told { top, source: source.clone() });
            }
            _ => return None,
        }
    }
}

/// What is around a statement.
#[derive(Clone, Default)]
struct Scope<'a> {
    /// The loops over whole axes.
    around: Vec<(IndexId, Size)>,
    /// Numbers that are made before, from outside in.
    numbers: Vec<&'a Stmt>,
    /// Whether a target has sources, by the index that tells.
    first: BTreeMap<IndexId, &'a Segment>,
    /// The tests.
    tests: Vec<&'a Segment>,
    /// What else is asked of indices.
    asked: Vec<&'a Affine>,
    /// Whether some of it is asked together.
    together: bool,
}

pub(super) struct Finder<'a> {
    program: &'a Program,
    nest: &'a Nest,
}

impl<'a> Finder<'a> {
    pub fn of(program: &'a Program, nest: &'a Nest) -> Finder<'a> {
        Finder { program, nest }
    }

    /// The sums of the nest, with where they stand, in order.
    pub fn sums(&self) -> Vec<(Vec<usize>, Sum)> {
        let mut found = Vec::new();
        self.inside(&self.nest.body, &Scope::default(), &mut Vec::new(), &mut found);
        found
    }

    fn inside(&self, body: &'a [Stmt], scope: &Scope<'a>, path: &mut Vec<usize>, found: &mut Vec<(Vec<usize>, Sum)>) {
        let mut scope = scope.clone();
        for (at, stmt) in body.iter().enumerate() {
            path.push(at);
            match stmt {
                Stmt::Define(..) => scope.numbers.push(stmt),
                Stmt::Find { index, segment, key: None, .. } => {
                    scope.first.insert(*index, segment);
                }
                Stmt::For { index, domain, jam: 1, body, .. } => match self.sum(stmt, &scope) {
                    Some(sum) => found.push((path.clone(), sum)),
                    None => {
                        let axis = domain.whole_of().whole_extent().map(|extent| (*index, extent));
                        if let Some(axis) = axis.or_else(|| self.targets_in_use(*index, body)) {
                            let mut scope = scope.clone();
                            scope.around.push(axis);
                            self.inside(body, &scope, path, found);
                        }
                    }
                },
                Stmt::If { cond: Cond::NonNegative(a), body } => {
                    let mut inner = scope.clone();
                    match a.as_index().and_then(|i| scope.first.get(&i)) {
                        Some(segment) => inner.tests.push(segment),
                        None => inner.asked.push(a),
                    }
                    self.inside(body, &inner, path, found);
                }
                Stmt::If { cond, body } if !asks_numbers(cond) => {
                    let mut inner = Scope { together: true, ..scope.clone() };
                    cond.visit_affine(&mut |a| {
                        let is_first = a.as_index().is_some_and(|i| scope.first.contains_key(&i));
                        inner.asked.extend((!is_first).then_some(a));
                    });
                    self.inside(body, &inner, path, found);
                }
                _ => {}
            }
            path.pop();
        }
    }

    /// The coordinate that a loop over the first nodes of a view goes through, and how many values it may have.
    fn targets_in_use(&self, index: IndexId, body: &[Stmt]) -> Option<(IndexId, Size)> {
        let Stmt::Let { index: target, array, at, step: None } = body.first()? else { return None };
        let array = self.program.arrays.get(*array).filter(|array| array.part == Part::Nodes(0))?;
        let extent = array.extent(&self.program.signature)?;
        (at.as_index() == Some(index)).then(|| (*target, extent.clone()))
    }

    fn sum(&self, stmt: &'a Stmt, scope: &Scope<'a>) -> Option<Sum> {
        match stmt {
            Stmt::For { domain: Domain::Segment(_), .. } => self.over_tuples(stmt, scope),
            Stmt::For { domain: Domain::Range { .. }, .. } if !scope.together => self.over_numbers(stmt, scope),
            _ => None,
        }
    }

    /// A sum over the tuples that have the target on the first axis of another view than that in which entries are numbered.
    fn over_tuples(&self, stmt: &'a Stmt, scope: &Scope<'a>) -> Option<Sum> {
        let Stmt::For { domain: Domain::Segment(segment), .. } = stmt else { return None };
        let view = self.program.arrays.get(segment.pointers)?;
        let shift = segment.at.offset();
        let t = segment.at.add_constant(shift.checked_neg()?).ok()?.as_index()?;
        let (axis, shape) = (*view.axes.first()?, &self.program.signature.relations.get(view.relation)?.shape);
        if view.part != Part::Rows || view.axes.len() < 2 || view.is_stored_order(&self.program.signature) {
            return None;
        }
        let (_, range) = scope.around.iter().find(|(i, _)| *i == t)?;
        let target = (t, shape.get(axis)?.clone());
        if scope.tests.iter().any(|test| **test != *segment) {
            return None;
        }
        let (coordinates, entries, projected, items) = Default::default();
        let mut walk = Walk { finder: self, view, coordinates, entries, projected, items };
        let levels = walk.level(stmt)?;
        let Walk { coordinates, entries, projected, items, .. } = walk;
        let Levels { added, locals, tail } = levels;
        let source = Source::Tuples { relation: view.relation, axis, shift, coordinates, entries, projected };
        let items = self.needed(&items, scope, &added, &source.indices())?;
        let ranks = ranks(scope, t, &items);
        if shift != 0 || !scope.asked.is_empty() || scope.together || *range != target.1 {
            // Each sum is made, whether anybody reads it or not.
            let alone = |a: &Affine| a.terms().iter().all(|(v, _)| !matches!(v, Var::Index(i) if *i != t));
            let mut depends = false;
            items.iter().for_each(|stmt| stmt.visit_affine(&mut |a| depends |= a.mentions(t)));
            if depends || !scope.asked.iter().all(|a| alone(a)) {
                return None;
            }
        }
        Some(Sum { target, ranks, source, items, added, locals, tail })
    }

    /// A sum over a whole axis of what is selected where a number is the target.
    fn over_numbers(&self, stmt: &'a Stmt, scope: &Scope<'a>) -> Option<Sum> {
        let Stmt::For { index, domain, body, .. } = stmt else { return None };
        let source = (*index, domain.whole_extent()?);
        let (mut items, mut added): (Vec<&Stmt>, Vec<(RealId, Term)>) = Default::default();
        for stmt in body {
            let (r, term) = match stmt {
                Stmt::Define(..) => {
                    items.push(stmt);
                    continue;
                }
                Stmt::Accumulate(r, a) => (*r, Term::Number(*a)),
                Stmt::MulAdd(r, a, b) => (*r, Term::Product(*a, *b)),
                _ => return None,
            };
            if added.iter().any(|(known, _)| *known == r) {
                return None;
            }
            added.push((r, term));
        }
        let defined = |r: RealId| {
            items.iter().chain(&scope.numbers).find_map(|stmt| match stmt {
                Stmt::Define(known, real) if *known == r => Some(real),
                _ => None,
            })
        };
        let selector = |r: RealId| match defined(r) {
            Some(Real::Select(selects, _)) => Some(*selects),
            _ => None,
        };
        let of = |term: &Term| match *term {
            Term::Number(a) => selector(a),
            Term::Product(a, b) => selector(a).or_else(|| selector(b)),
        };
        let selects = added.first().and_then(|(_, term)| of(term))?;
        if added.iter().any(|(_, term)| of(term) != Some(selects)) || !scope.tests.is_empty() {
            return None;
        }
        let equal = Function::from(Op::Compare(Comparison::Equal));
        let mut compared = defined(selects)?;
        let mut beside = Vec::new();
        while let Real::Select(asked, a) = compared {
            beside.push(*asked);
            compared = defined(*a)?;
        }
        let Real::Apply(function, sides) = compared else { return None };
        let [a, b] = sides.as_slice() else { return None };
        // A side that is selected by what is asked beside is as if it were not.
        let side = |r: RealId| {
            let mut side = defined(r)?;
            while let Real::Select(asked, a) = side
                && beside.contains(asked)
            {
                side = defined(*a)?;
            }
            Some(side)
        };
        let (number, told) = match (side(*a)?, side(*b)?) {
            (Real::Load(number), Real::Index(t)) | (Real::Index(t), Real::Load(number)) => (number, t),
            _ => return None,
        };
        // `target + k = number`
        let target = told.add_constant(-told.offset()).ok()?.as_index()?;
        let shift = told.offset().checked_neg()?;
        let of_source = |a: &Affine| a.terms().iter().all(|(v, _)| !matches!(v, Var::Index(i) if i != index));
        let is_read_once = number.at.iter().any(|a| a.mentions(*index)) && number.at.iter().all(of_source);
        if *function != equal || !is_read_once {
            return None;
        }
        let target = scope.around.iter().find(|(i, _)| *i == target)?.clone();
        let items = self.needed(&items, scope, &added, &BTreeSet::from([*index]))?;
        let ranks = ranks(scope, target.0, &items);
        let source = Source::Numbers { source, number: number.clone(), shift };
        Some(Sum { target, ranks, source, items, added, locals: Vec::new(), tail: Vec::new() })
    }

    /// What computes terms, out of the loop over sources and before it; nothing where it takes something else than these and the indices around.
    fn needed(
        &self,
        items: &[&'a Stmt],
        scope: &Scope<'a>,
        added: &[(RealId, Term)],
        known: &BTreeSet<IndexId>,
    ) -> Option<Vec<Stmt>> {
        let mut needed: BTreeSet<RealId> = BTreeSet::new();
        for (_, term) in added {
            match *term {
                Term::Number(a) => needed.extend([a]),
                Term::Product(a, b) => needed.extend([a, b]),
            }
        }
        let mut kept = Vec::new();
        for stmt in scope.numbers.iter().chain(items).rev() {
            let Stmt::Define(r, _) = stmt else { return None };
            if needed.remove(r) {
                stmt.visit_reads(&mut |r| {
                    needed.insert(r);
                });
                kept.push((*stmt).clone());
            }
        }
        let is_known = |i: &IndexId| known.contains(i) || scope.around.iter().any(|(around, _)| around == i);
        let mut fits = needed.is_empty();
        for stmt in &kept {
            stmt.visit_affine(&mut |a| {
                fits &= a.terms().iter().all(|(v, _)| !matches!(v, Var::Index(i) if !is_known(i)))
            });
            fits &= stmt.load().is_none_or(|place| !self.nest.buffers.contains(&place.buffer));
        }
        kept.reverse();
        fits.then_some(kept)
    }
}

/// The loops around that a term depends on, but for that over the targets: not those over parts.
fn ranks(scope: &Scope<'_>, target: IndexId, items: &[Stmt]) -> Vec<(IndexId, Size)> {
    let mentions = |i: IndexId| {
        let mut any = false;
        items.iter().for_each(|stmt| stmt.visit_affine(&mut |a| any |= a.mentions(i)));
        any
    };
    scope.around.iter().filter(|(i, _)| *i != target && mentions(*i)).cloned().collect()
}

/// What a loop over the nodes of a level adds.
struct Levels {
    added: Vec<(RealId, Term)>,
    locals: Vec<RealId>,
    tail: Vec<Stmt>,
}

/// Goes down the levels of a view.
struct Walk<'f, 'a> {
    finder: &'f Finder<'a>,
    view: &'a Array,
    coordinates: Vec<(usize, IndexId)>,
    entries: Vec<IndexId>,
    projected: Vec<(RelationId, IndexId)>,
    items: Vec<&'a Stmt>,
}

impl<'a> Walk<'_, 'a> {
    fn level(&mut self, stmt: &'a Stmt) -> Option<Levels> {
        let Stmt::For { index, domain: Domain::Segment(segment), jam: 1, body, .. } = stmt else { return None };
        let pointers = self.finder.program.arrays.get(segment.pointers)?;
        if pointers.relation != self.view.relation || pointers.axes != self.view.axes {
            return None;
        }
        let (mut inner, mut locals, mut added): (Option<Levels>, Vec<RealId>, Vec<(RealId, Term)>) = Default::default();
        let mut tail = Vec::new();
        for stmt in body {
            match stmt {
                Stmt::Let { index: i, array, at, step: None } if at.as_index() == Some(*index) && inner.is_none() => {
                    self.learn(*i, self.finder.program.arrays.get(*array)?)?;
                }
                Stmt::Let { index: i, array, at, step: None } if inner.is_none() => {
                    self.entries.iter().find(|entry| at.as_index() == Some(**entry))?;
                    let Part::Projected(projected) = self.finder.program.arrays.get(*array)?.part else { return None };
                    self.projected.push((projected, *i));
                }
                Stmt::Define(..) if inner.is_none() => self.items.push(stmt),
                Stmt::Local(r) if inner.is_none() => locals.push(*r),
                Stmt::For { domain: Domain::Segment(below), .. } if inner.is_none() => {
                    (below.at.as_index() == Some(*index)).then_some(())?;
                    inner = Some(self.level(stmt)?);
                }
                Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) if added.iter().any(|(known, _)| known == r) => {
                    return None;
                }
                Stmt::Accumulate(r, a) if inner.is_none() => added.push((*r, Term::Number(*a))),
                Stmt::MulAdd(r, a, b) if inner.is_none() => added.push((*r, Term::Product(*a, *b))),
                Stmt::Accumulate(..) | Stmt::MulAdd(..) if inner.is_some() && tail.is_empty() => tail.push(stmt),
                _ => return None,
            }
        }
        match (inner, added.is_empty(), pointers.is_above_tuples()) {
            (None, false, true) if locals.is_empty() => Some(Levels { added, locals, tail: Vec::new() }),
            (Some(inner), true, false) => self.above(inner, locals, &tail),
            _ => None,
        }
    }

    /// A level whose nodes add a multiple of what is below them: so the sum of all nodes is that multiple of the sum of all below, or, where each node has
    /// a multiple of its own, the sum of such products.
    fn above(&self, inner: Levels, locals: Vec<RealId>, tail: &[&'a Stmt]) -> Option<Levels> {
        let own = |r: &RealId| self.items.iter().any(|stmt| matches!(stmt, Stmt::Define(known, _) if known == r));
        if let ([], []) = (locals.as_slice(), tail) {
            return Some(inner);
        }
        let [(into, _)] = inner.added.as_slice() else { return None };
        let last = inner.tail.last().map_or(Some(*into), |stmt| match stmt {
            Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) => Some(*r),
            _ => None,
        })?;
        match (locals.as_slice(), tail) {
            ([local], [Stmt::MulAdd(r, a, b)])
                if *local == last && r != local && own(if a == local { b } else { a }) =>
            {
                let ([(_, Term::Number(below))], []) = (inner.added.as_slice(), inner.tail.as_slice()) else {
                    return None;
                };
                let factor = if a == local { *b } else { *a };
                let added = vec![(*r, Term::Product(*below, factor))];
                ((a == local) != (b == local)).then_some(Levels { added, ..inner })
            }
            ([local], [stmt]) if *local == last => {
                let linear = match stmt {
                    Stmt::Accumulate(r, a) => r != local && a == local,
                    Stmt::MulAdd(r, a, b) => {
                        r != local && (a == local && !own(b) && b != local || b == local && !own(a))
                    }
                    _ => false,
                };
                linear.then(|| Levels {
                    locals: locals.iter().copied().chain(inner.locals).collect(),
                    tail: inner.tail.into_iter().chain([(*stmt).clone()]).collect(),
                    ..inner
                })
            }
            _ => None,
        }
    }

    /// What an array of the view tells of a node.
    fn learn(&mut self, index: IndexId, array: &Array) -> Option<()> {
        if array.relation != self.view.relation || array.axes != self.view.axes {
            return None;
        }
        match array.part {
            Part::Nodes(level) => self.coordinates.push((*array.axes.get(usize::from(level))?, index)),
            Part::Entries => self.entries.push(index),
            _ => return None,
        }
        Some(())
    }
}

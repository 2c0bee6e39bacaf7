//! Which tensors are stored, and how.
//!
//! | tensor | is |
//! |---|---|
//! | a result | stored in its output |
//! | nearly no work: a parameter, a number, a shifted, transposed or guarded copy, one product | computed wherever it is read |
//! | a sum over the rows of a relation that is added to one over rows at another index | stored, as each has its own order of loops |
//! | read at one place of one statement, each element once | computed there |
//! | a factor of a product that reads its elements again for all values of another index, if it is made of two numbers or more | stored |
//! | such a factor that is larger than each parameter and result | stored, if it takes some work and is made of one as large that is |
//! | quotients and roots that are read again and again, or by several in rows of literal length, but for those by one number | stored |
//! | larger than each parameter and result, of little arithmetic, read or searched once by each of several | computed there, again for each |
//! | the same of more arithmetic, where it is made of nothing as large and nothing as large is made of it; with functions that take long if no [row](super::barriers) of it can be kept | computed there, again for each |
//! | a long sum that is a number, which is added to what another one leads to | stored, so that both are in one nest |
//! | of little arithmetic on one tensor as large that is stored, and on rows and columns, read once by each of several | computed there, again for each |
//! | a sum for each row that this takes | stored |
//! | too large to be nested into others | stored |
//! | what a function such as `exp` is taken of, if it has a sum | stored, so that the function runs in lanes; or the sum, if it has fewer axes |
//! | numbers that tell a place | stored, so that the place is loaded |
//! | anything else | stored, since it would be computed again |
//!
//! An element is read once if the loops of the reader are over the indices of the tensor and what its equations tell of these, as the place and
//! the offset in a window tell what the window is seen from; or if its other loops lie further in, so that the element is read before them.
//! Work is counted with everything that is computed in place, so a chain of cheap tensors ends at some point. What all readers have tested takes none, and a
//! read at one of a few places, as one that wraps around at the end of an axis, takes as many choices.
//!
//! A tensor whose guard implies a relation over distinct `gen` indices (its *pattern*) is stored on the entries of the relation: a place for
//! each entry, times the axes that the relation does not have. Everywhere else it is zero.
//!
//! A tensor whose guard says that an axis is a target of a map that is in use is stored dense, but its other places have no numbers where all
//! readers say the same, or follow the map.

use std::collections::{BTreeMap, BTreeSet};

use super::barriers::Barriers;
use super::matrix_order::MatrixOrder;
use super::readers::{
    Readers, Use, collect_uses, determined, is_asked, is_of_other_rows, is_told_by_all, reads_once, solved,
};
use super::rows::Rows;
use super::straight::Straight;
use super::support::{as_guard, supports, targets_in_use};
use super::witness::InUse;
use crate::base::{Arena, Id, IndexId, RelationId, SideTable, VarId, work};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Size, View};
use crate::loops::{Buffer, BufferId, BufferKind, Decision, StoredAs};
use crate::scalar::{Function, Number, Op, Primitive};
use crate::schedule::machine::FEW;
use crate::tssa::exchanges::{Exchanges, exchanges};
use crate::tssa::one_hot::OneHot;
use crate::tssa::patterns::{Pattern, patterns};
use crate::tssa::{Program, Rhs, Stmt, StmtNames};
use crate::ty::Storage;

/// Work that is rather done again than stored.
const CHEAP: u64 = 6;
/// The least work of a factor that is rather stored than made for each product: two loads and an operation.
const FACTOR: u64 = 3;
/// The work of a loop, whatever it does.
pub(super) const LOOP: u64 = 1 << 20;
/// How many statements may be computed in place together, and how deep they may nest.
pub(super) const MAX_INLINED: usize = 192;
const MAX_DEPTH: usize = 32;
/// How many statements the cases of an access may have.
const MAX_COPIED: usize = 32;

/// How a tensor is stored.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub buffer: BufferId,
    /// On the entries of a relation.
    pub entries: Option<Pattern>,
    /// The axes that are stored dense, in order.
    pub dense: Vec<usize>,
    /// Why; nothing for a parameter.
    pub decision: Option<Decision>,
}

impl Stored {
    /// The atom that holds where there are places.
    pub fn pattern(&self, at: &[Affine]) -> Option<Pred> {
        self.entries.as_ref().map(|pattern| pattern.atom(at))
    }
}

/// Where the elements of a tensor come from.
#[derive(Clone, Debug)]
pub(super) enum Placement {
    /// Nobody needs them.
    Dead,
    /// A parameter.
    Given(Stored),
    /// They are computed where they are read: why, unless it is a number.
    Inline(Option<Decision>),
    /// They are computed once and stored.
    Stored(Stored),
}

/// All decisions.
pub(super) struct Plan {
    pub placements: SideTable<VarId, Placement>,
    pub patterns: SideTable<VarId, Vec<Pattern>>,
    /// The axes that can be exchanged without a change of sign.
    pub exchanges: SideTable<VarId, Exchanges>,
    /// What holds of the `gen` indices wherever an element is not zero.
    pub supports: SideTable<VarId, Pred>,
    /// The targets of a map that are in use wherever an element is not zero, for those who compute all elements.
    pub targets: SideTable<VarId, Pred>,
    pub buffers: Arena<BufferId, Buffer>,
    /// The entries of patterns that were found out, by their relations.
    pub rows: BTreeMap<RelationId, Rows>,
    /// The outputs that are stored in the order of a matrix.
    pub matrix_order: Option<MatrixOrder>,
    /// What is read before and behind sums that it is a part of.
    pub barriers: Barriers,
    /// The work of computing an element in place; none where it is loaded.
    pub work: SideTable<VarId, u64>,
    /// What decisions call the tensors.
    pub names: StmtNames,
    /// Whether a tensor is zero but where an axis is a target in use, and read nowhere else.
    pub read_in_use: SideTable<VarId, bool>,
}

/// What it takes to compute an element in place.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    pub work: u64,
    statements: usize,
    depth: usize,
    /// Entries of something sparse are looked for.
    searches: bool,
}

impl Effort {
    /// That of an element that is stored.
    const LOAD: Effort = Effort { work: 0, statements: 1, depth: 1, searches: false };

    /// Whether an element takes few statements, which are not nested deeply.
    fn is_small(self) -> bool {
        self.statements <= MAX_INLINED && self.depth <= MAX_DEPTH
    }
}

/// Decides for all statements. What a loop around would compute again and again, once readers are computed in place, is stored.
pub(super) fn plan(program: &Program) -> Result<Plan> {
    let live = program.live();
    let mut plan = Plan::undecided(program, &live)?;
    let readers = Readers::of(program, &live);
    let (mut again, mut beside) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let mut found = plan.decide(program, &live, &readers, (&again, &beside))?;
        found.extend(computed_again(program, &plan));
        let stored = computed_beside(program, &plan);
        if found.is_empty() && stored.is_empty() {
            return Ok(plan);
        }
        again.extend(found);
        beside.extend(stored);
    }
}

/// The exchanges of tensors that may be read anywhere: of others the entry is at hand that a loop is at.
fn even_exchanges(program: &Program, known: &SideTable<VarId, Vec<Pattern>>) -> SideTable<VarId, Exchanges> {
    let mut all = exchanges(program);
    for x in program.stmts.ids() {
        let even = all[x].iter().filter(|e| !e.odd && known[x].is_empty()).copied().collect();
        all.set(x, even);
    }
    all
}

impl Plan {
    /// What is known before anything is decided.
    fn undecided(program: &Program, live: &SideTable<VarId, bool>) -> Result<Plan> {
        let len = program.stmts.len();
        let patterns = patterns(program);
        let mut plan = Plan {
            placements: SideTable::new(len, Placement::Dead),
            exchanges: even_exchanges(program, &patterns),
            patterns,
            supports: SideTable::new(len, Pred::True),
            targets: SideTable::new(len, Pred::True),
            buffers: Arena::new(),
            rows: BTreeMap::new(),
            matrix_order: None,
            barriers: Barriers::of(program, live, &shapes_outside(program)),
            work: SideTable::new(len, 0),
            names: program.stmt_names(),
            read_in_use: read_in_use(program, live),
        };
        let supports = supports(program)?;
        for (x, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
            plan.supports.set(x, as_guard(program, &supports[x], &stmt.dims));
            plan.targets.set(x, targets_in_use(program, &supports[x], &stmt.dims));
        }
        Ok(plan)
    }

    /// Decides anew: one forward loop, operands first. What else should have been stored.
    fn decide(
        &mut self,
        program: &Program,
        live: &SideTable<VarId, bool>,
        uses: &Readers,
        (again, beside): (&BTreeSet<VarId>, &BTreeSet<VarId>),
    ) -> Result<BTreeSet<VarId>> {
        let len = program.stmts.len();
        let mut apart = BTreeSet::new();
        self.placements = SideTable::new(len, Placement::Dead);
        self.work = SideTable::new(len, 0);
        self.buffers = Arena::new();
        let outside = shapes_outside(program);
        let live_stmts = program.stmts.ids().filter(|x| live[*x]);
        let tells: BTreeSet<VarId> = live_stmts.filter_map(|x| telling(program, x)).collect();
        let mut efforts = SideTable::new(len, Effort::LOAD);
        for (x, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
            // All statements are decided about again for each round of what turns out to be stored.
            work::charge(16);
            work::check()?;
            let output = output_of(program, x);
            if let Rhs::Input { param, path } = &stmt.rhs {
                let leaves = program.signature.types.leaves(program.signature.params[*param].ty)?;
                let leaf = leaves.iter().position(|leaf| leaf.path == *path).unwrap_or(0);
                let own = || program.signature.params[*param].name.clone();
                let name = if path.is_empty() { own() } else { self.names.get(x) };
                self.given(program, x, BufferKind::Param(*param, leaf), name);
                continue;
            }
            apart.extend(self.store_arguments(program, stmt, &outside, &mut efforts));
            let readers = uses.all(x);
            let mut effort = self.effort(program, stmt, &efforts);
            if output.is_none() && effort.work >= LOOP && readers.len() > 1 && !again.contains(&x) {
                for row in self.rows_beside(program, x, &efforts, &readers) {
                    self.store_operand(program, row, &mut efforts, |stored| Decision::Row { stored });
                }
                effort = self.effort(program, stmt, &efforts);
            }
            if (CHEAP + 1..LOOP).contains(&effort.work) {
                effort.work -= work_of_told(program, x, &readers);
            }
            efforts.set(x, effort);
            let waits = output.is_none() && uses.wait_for_sums(program, x);
            let in_place = match (output, &stmt.rhs) {
                (Some(_), _) => None,
                (None, Rhs::Number(_)) => Some(None),
                _ if tells.contains(&x) => None,
                // It is asked at one place.
                _ if effort.is_small() && effort.work < LOOP && telling(program, x).is_some() => {
                    let (tensor, operations) = (self.names.get(x), effort.work);
                    Some(Some(Decision::Cheap { tensor, operations }))
                }
                _ if again.contains(&x) => None,
                _ if waits => None,
                _ => self.in_place(program, x, effort, &readers, &outside, beside.contains(&x)).map(Some),
            };
            match in_place {
                Some(decision) => {
                    let told = telling(program, x).is_some();
                    self.work.set(x, if told { effort.work.min(CHEAP) } else { effort.work });
                    self.placements.set(x, Placement::Inline(decision));
                }
                None => {
                    let Effort { work, statements, depth: levels, .. } = effort;
                    let (operations, loops) = (work % LOOP, work / LOOP);
                    self.store(program, x, output, |stored| match (output, readers.len()) {
                        (Some(_), _) => Decision::Result { stored },
                        _ if tells.contains(&x) => Decision::Tells { stored },
                        _ if !effort.is_small() => Decision::Nested { stored, statements, levels },
                        _ if again.contains(&x) => Decision::Again { stored, operations, loops },
                        _ if is_of_other_rows(program, x, &readers) => Decision::OtherRows { stored },
                        _ if waits => Decision::OtherSums { stored },
                        (None, 1) => Decision::ReadAgain { stored, operations, loops },
                        (None, readers) => Decision::Shared { stored, readers },
                    });
                    efforts.set(x, Effort::LOAD);
                }
            }
        }
        Ok(apart)
    }
}

/// The numbers that tell the places of a one-hot tensor along an axis that grows.
fn telling(program: &Program, x: VarId) -> Option<VarId> {
    let one_hot = OneHot::of(program, x)?;
    let is_computed = !matches!(program.stmts[one_hot.number].rhs, Rhs::Number(_));
    let is_long = program.stmts[x].dims[one_hot.axis].as_constant().is_none_or(|n| n > FEW);
    (is_computed && is_long).then_some(one_hot.number)
}

/// A statement that is computed inside of loops.
struct Inside {
    x: VarId,
    /// The loops that its indices are.
    at: Vec<usize>,
    /// Whether each loop around it grows with a size.
    growing: Vec<bool>,
    tells: Vec<Told>,
}

/// Loops whose indices others tell by equations, with these.
#[derive(Clone)]
struct Told {
    by: Vec<usize>,
    loops: Vec<usize>,
}

/// The tensors computed in place whose elements a loop around repeats: it is outside of the innermost one on which they depend, and they do not
/// depend on it.
fn computed_again(program: &Program, plan: &Plan) -> BTreeSet<VarId> {
    let mut found = BTreeSet::new();
    for (x, stmt) in program.stmts.iter() {
        if !matches!(plan.placements[x], Placement::Stored(_)) {
            continue;
        }
        let own: Vec<usize> = (0..stmt.dims.len()).collect();
        let grows = |n: &Size| n.as_constant().is_none();
        let growing = stmt.dims.iter().map(grows).collect();
        let mut open = vec![Inside { x, at: own, growing, tells: Vec::new() }];
        while let Some(Inside { x, at, mut growing, mut tells }) = open.pop() {
            work::charge(4);
            let stmt = &program.stmts[x];
            let (rank, around) = (stmt.dims.len(), growing.len());
            growing.extend(stmt.rhs.sums().iter().map(grows));
            let loop_of = |i: IndexId| match i.index() {
                k if k < rank => at.get(k).copied(),
                k => Some(around + k - rank),
            };
            collect_uses(stmt, &mut |y, reading| {
                let (Placement::Inline(_), Some(indices)) = (&plan.placements[y], reading.element()) else { return };
                let read: Vec<IndexId> = indices.iter().map(|i| solved(stmt, *i)).collect();
                let loops: Option<Vec<usize>> = read.iter().map(|i| loop_of(*i)).collect();
                let Some(loops) = loops else { return };
                let level = loops.iter().copied().max();
                let told: Vec<usize> = determined(stmt, &read).into_iter().filter_map(loop_of).collect();
                if told.len() > loops.len() {
                    tells.push(Told { by: loops.clone(), loops: told });
                }
                let is_told =
                    |k: usize| tells.iter().any(|t| t.loops.contains(&k) && t.by.iter().all(|by| loops.contains(by)));
                let repeats =
                    |around: usize| growing.get(around) == Some(&true) && !loops.contains(&around) && !is_told(around);
                let repeated = level.is_some_and(|level| (0..level).any(repeats));
                if repeated && plan.work[y] > CHEAP {
                    found.insert(y);
                } else {
                    // It is computed in the innermost loop on which it depends.
                    let around = growing.iter().copied().take(level.map_or(0, |level| level + 1)).collect();
                    open.push(Inside { x: y, at: loops, growing: around, tells: tells.clone() });
                }
            });
        }
    }
    found
}

/// The tensors that are made where they are read so that nothing large is stored, though something large that is made of them is.
fn computed_beside(program: &Program, plan: &Plan) -> BTreeSet<VarId> {
    let outside = shapes_outside(program);
    let mut found = BTreeSet::new();
    let large =
        |x: VarId| matches!(plan.placements[x], Placement::Stored(_)) && outgrows(&program.stmts[x].dims, &outside);
    let mut open: Vec<VarId> = program.stmts.iter().map(|(x, _)| x).filter(|x| large(*x)).collect();
    let mut seen = BTreeSet::new();
    while let Some(x) = open.pop() {
        program.stmts[x].rhs.for_each_operand(|y| {
            if let Placement::Inline(why) = &plan.placements[y]
                && seen.insert(y)
            {
                open.push(y);
                found.extend(matches!(why, Some(Decision::Alone { .. })).then_some(y));
            }
        });
    }
    found
}

/// The first output of which a tensor is a leaf and whose storage it can have.
fn output_of(program: &Program, x: VarId) -> Option<(usize, usize)> {
    program.outputs.iter().enumerate().find_map(|(k, output)| {
        let leaf = output.leaves.iter().position(|y| *y == x)?;
        // Outside of its pattern a sparse result may not be zero for other readers.
        let read = program.stmts.values().any(|stmt| {
            let mut read = false;
            stmt.rhs.for_each_operand(|y| read |= y == x);
            read
        });
        (output.storage == Storage::Dense || !read).then_some((k, leaf))
    })
}

/// The tensors whose guard says no more of `gen` indices than that one is a target in use, which all readers see to.
fn read_in_use(program: &Program, live: &SideTable<VarId, bool>) -> SideTable<VarId, bool> {
    let mut found = SideTable::new(program.stmts.len(), false);
    let mut axes: SideTable<VarId, Option<(RelationId, usize)>> = SideTable::new(program.stmts.len(), None);
    for (x, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
        axes.set(x, axis_in_use(program, stmt));
        found.set(x, axes[x].is_some());
    }
    program.outputs.iter().flat_map(|output| &output.leaves).for_each(|x| found.set(*x, false));
    for (_, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
        let mut read = |x: VarId, at: Option<IndexId>, guard: &Pred| {
            let follows = |(map, _): (RelationId, usize)| {
                guard.conjuncts().iter().any(|p| match p {
                    Pred::Relation { relation: RelationRef::Input(r), args, holds: true } => {
                        *r == map && args.last().and_then(Affine::as_index) == at
                    }
                    p => {
                        let used = InUse::of(&program.signature, p);
                        used.is_some_and(|used| used.map == map && used.target.as_index() == at)
                    }
                })
            };
            let keeps = at.is_some() && axes[x].is_some_and(follows);
            let so_far = found[x];
            found.set(x, so_far && keeps);
        };
        let own = |x: VarId| axes[x].map(|(_, axis)| IndexId::from_index(axis));
        match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => {}
            Rhs::Add(sides) => sides.iter().for_each(|(p, x)| read(*x, own(*x), p)),
            Rhs::Map { guard, function: _, args } => args.iter().for_each(|x| read(*x, own(*x), guard)),
            Rhs::Contract { sums: _, guard, operands } => {
                for operand in operands {
                    let at = axes[operand.var].and_then(|(_, axis)| operand.indices.get(axis).copied());
                    read(operand.var, at, guard);
                }
            }
        }
        for p in stmt.rhs.guards() {
            p.visit_computed(&mut |x| found.set(x, false));
        }
    }
    found
}

/// The axis of a tensor whose guard says of `gen` indices that this one is a target in use, and nothing else.
fn axis_in_use(program: &Program, stmt: &Stmt) -> Option<(RelationId, usize)> {
    let rank = stmt.dims.len();
    let of = |guard: &Pred| {
        let mut outer = guard.conjuncts().iter().filter(|p| {
            let mut inside = false;
            p.visit_free(&mut |i| inside |= i.index() >= rank);
            !inside
        });
        let used = outer.next().and_then(|p| InUse::of(&program.signature, p))?;
        let axis = used.target.as_index()?.index();
        let whole = stmt.dims.get(axis) == Some(&used.extent);
        (whole && outer.next().is_none()).then_some((used.map, axis))
    };
    match &stmt.rhs {
        Rhs::Input { .. } | Rhs::Number(_) | Rhs::Add(_) => None,
        Rhs::Map { guard, .. } | Rhs::Contract { guard, .. } => of(guard),
    }
}

impl Plan {
    /// Whether a load takes less time than quotients, and no more memory than what they are made of: some are read again and again, or there are
    /// several readers and rows are short.
    fn pays(&self, program: &Program, stmt: &Stmt, readers: &[&Use]) -> bool {
        let short = stmt.dims.split_first().is_some_and(|(_, row)| row.iter().all(|n| n.as_constant().is_some()));
        let mut beside = false;
        stmt.rhs.for_each_operand(|x| {
            beside |= match &self.placements[x] {
                Placement::Given(stored) | Placement::Stored(stored) => stored.entries.is_none(),
                Placement::Dead | Placement::Inline(_) => false,
            };
        });
        beside && readers.iter().any(|read| !reads_once(program, read)) || short && readers.len() > 1
    }

    fn given(&mut self, program: &Program, x: VarId, kind: BufferKind, name: String) {
        let stmt = &program.stmts[x];
        let storage = match &stmt.rhs {
            Rhs::Input { param, .. } => program.signature.params[*param].storage,
            _ => Storage::Dense,
        };
        let stored = self.buffer(stmt, kind, storage.pattern(), name, None);
        self.placements.set(x, Placement::Given(stored));
    }

    /// Why a tensor is computed where it is read; nothing where storing it is better.
    fn in_place(
        &self,
        program: &Program,
        x: VarId,
        effort: Effort,
        readers: &[&Use],
        outside: &[&[Size]],
        beside: bool,
    ) -> Option<Decision> {
        let stmt = &program.stmts[x];
        let tensor = || self.names.get(x);
        let small = effort.is_small();
        let fits = || {
            !outgrows(&stmt.dims, outside)
                || self.is_beside_its_mask(program, stmt)
                || effort.work > FACTOR && self.is_beside_one(program, x)
        };
        let is_factor = || is_factor(program, stmt, effort, readers) && fits();
        match readers {
            _ if small && effort.work <= 1 && !is_factor() => Some(Decision::View { tensor: tensor() }),
            _ if small
                && effort.work <= CHEAP
                && !(divides(program, stmt) && self.pays(program, stmt, readers))
                && !is_factor() =>
            {
                Some(Decision::Cheap { tensor: tensor(), operations: effort.work })
            }
            // What a loop finds out for a row at a time, a guard would look for at each element.
            [once]
                if small
                    && once.reading.element().is_some()
                    && reads_once(program, once)
                    && !is_of_other_rows(program, x, readers)
                    && (effort.work < LOOP || !is_asked(program, x, once.user)) =>
            {
                Some(Decision::ReadOnce { tensor: tensor() })
            }
            // It shares what is read again, which the effort counts again: there may be fewer statements.
            readers if effort.depth <= MAX_DEPTH && !effort.searches && outgrows(&stmt.dims, outside) => {
                self.made_again(program, x, readers, outside, beside)
            }
            readers if effort.depth <= MAX_DEPTH && !effort.searches => self.made_of_one(program, x, readers),
            _ => None,
        }
    }

    /// Whether a tensor is as large as one that is stored, by whose elements it is masked.
    fn is_beside_its_mask(&self, program: &Program, stmt: &Stmt) -> bool {
        let is_mask = |p: &Pred| match p {
            Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, .. } => {
                let is_stored = !matches!(self.placements[*var], Placement::Inline(_) | Placement::Dead);
                is_stored && program.stmts[*var].dims.len() >= stmt.dims.len()
            }
            _ => false,
        };
        is_masked(stmt) && stmt.rhs.guards().any(|guard| guard.conjuncts().iter().any(is_mask))
    }

    /// Whether a tensor is made of one as large that is stored.
    fn is_beside_one(&self, program: &Program, x: VarId) -> bool {
        let sorted = |dims: &[Size]| {
            let mut dims = dims.to_vec();
            dims.sort();
            dims
        };
        let own = sorted(&program.stmts[x].dims);
        let is_stored =
            |y: &VarId| matches!(&self.placements[*y], Placement::Stored(stored) if stored.entries.is_none());
        let loads = Straight::of(program, self, x).map(|straight| straight.loads).unwrap_or_default();
        loads.into_iter().filter(is_stored).any(|y| sorted(&program.stmts[y].dims) == own)
    }

    /// A new buffer for a tensor, dense or with all axes on a pattern.
    fn buffer(
        &mut self,
        stmt: &Stmt,
        kind: BufferKind,
        entries: Option<RelationId>,
        name: String,
        decision: Option<Decision>,
    ) -> Stored {
        let all: Vec<usize> = (0..stmt.dims.len()).collect();
        let pattern = entries.map(|relation| Pattern { relation, axes: all.clone() });
        let dense = if pattern.is_some() { Vec::new() } else { all };
        self.buffer_on(stmt, kind, pattern, dense, name, decision)
    }

    fn buffer_on(
        &mut self,
        stmt: &Stmt,
        kind: BufferKind,
        entries: Option<Pattern>,
        dense: Vec<usize>,
        name: String,
        decision: Option<Decision>,
    ) -> Stored {
        let dims: Vec<Size> = dense.iter().map(|k| stmt.dims[*k].clone()).collect();
        let relation = entries.as_ref().map(|pattern| pattern.relation);
        let buffer = self.buffers.push(Buffer { kind, ..Buffer::workspace(name, relation, dims) });
        Stored { buffer, entries, dense, decision }
    }

    /// Stores what was to be computed in place, for one who reads it.
    pub(super) fn store_operand(
        &mut self,
        program: &Program,
        x: VarId,
        efforts: &mut SideTable<VarId, Effort>,
        why: impl FnOnce(StoredAs) -> Decision,
    ) {
        self.store(program, x, None, why);
        self.work.set(x, 0);
        efforts.set(x, Effort::LOAD);
    }

    /// Stores a tensor, as an output or in a workspace of its own; `why` says why it is stored as it is.
    fn store(
        &mut self,
        program: &Program,
        x: VarId,
        output: Option<(usize, usize)>,
        why: impl FnOnce(StoredAs) -> Decision,
    ) {
        let stmt = &program.stmts[x];
        let stored = match output {
            Some((k, leaf)) => {
                let output = &program.outputs[k];
                let pattern = output.storage.pattern();
                let why = why(stored_as(program, pattern));
                let name =
                    if output.leaves.len() == 1 { output.name.clone() } else { format!("{}.{leaf}", output.name) };
                self.buffer(stmt, BufferKind::Output(k, leaf), pattern, name, Some(why))
            }
            None => {
                let pattern = Pattern::for_storage(&self.patterns[x]).cloned();
                let why = why(stored_as(program, pattern.as_ref().map(|p| p.relation)));
                let sparse = |k: &usize| pattern.as_ref().is_some_and(|p| p.axes.contains(k));
                let dense: Vec<usize> = (0..stmt.dims.len()).filter(|k| !sparse(k)).collect();
                self.buffer_on(stmt, BufferKind::Workspace, pattern, dense, self.names.get(x), Some(why))
            }
        };
        self.placements.set(x, Placement::Stored(stored));
    }

    /// The storage of an output whose tensor is stored elsewhere.
    pub fn copy(&mut self, program: &Program, x: VarId, output: usize, leaf: usize) -> Result<Stored> {
        let o = &program.outputs[output];
        let pattern = o.storage.pattern();
        let name = if o.leaves.len() == 1 { o.name.clone() } else { format!("{}.{leaf}", o.name) };
        let why = Decision::Copied { stored: stored_as(program, pattern) };
        Ok(self.buffer(&program.stmts[x], BufferKind::Output(output, leaf), pattern, name, Some(why)))
    }

    /// What it takes to compute an element of a statement in place.
    fn effort(&self, program: &Program, stmt: &Stmt, efforts: &SideTable<VarId, Effort>) -> Effort {
        let mut effort = Effort { depth: 0, ..Effort::LOAD };
        collect_uses(stmt, &mut |x, _| {
            let load = u64::from(!program.stmts[x].dims.is_empty());
            let Effort { work, statements, depth, searches } = match &self.placements[x] {
                Placement::Inline(_) => efforts[x],
                Placement::Given(Stored { entries: Some(_), .. })
                | Placement::Stored(Stored { entries: Some(_), .. }) => {
                    Effort { work: load, statements: 0, depth: 0, searches: true }
                }
                _ => Effort { work: load, statements: 0, depth: 0, searches: false },
            };
            effort.searches |= searches;
            effort.work = effort.work.saturating_add(work);
            effort.statements += statements;
            effort.depth = effort.depth.max(depth);
        });
        effort.depth += 1;
        let own = match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => 0,
            Rhs::Add([(p, _), (q, _)]) => 1 + guard_work(p) + guard_work(q),
            Rhs::Map { guard, function, .. } => function.work() + guard_work(guard),
            Rhs::Contract { guard, operands, .. } => {
                let product = operands.len().saturating_sub(1) as u64;
                let cases = stmt.cases(&program.signature);
                // Each case has statements of its own, and so does each in what it reads.
                if let Some(cases @ 2..) = cases {
                    let copied = effort.statements.saturating_mul(cases);
                    effort.statements = if copied > MAX_COPIED { MAX_INLINED + 1 } else { copied };
                }
                let loops = cases.map_or(LOOP, |cases| cases as u64 - 1);
                product + loops + guard_work(guard)
            }
        };
        effort.work = effort.work.saturating_add(own);
        effort
    }
}

fn stored_as(program: &Program, pattern: Option<RelationId>) -> StoredAs {
    match pattern.and_then(|r| program.signature.relations.get(r)) {
        Some(relation) => StoredAs::Entries(relation.name.clone()),
        None => StoredAs::Dense,
    }
}

pub(super) fn guard_work(p: &Pred) -> u64 {
    match p {
        Pred::True | Pred::False => 0,
        Pred::NonNegative(_) | Pred::Zero(_) | Pred::NonZero(_) => 0,
        Pred::Relation { relation: RelationRef::Input(_), .. } => 0,
        Pred::Relation { relation: RelationRef::Computed { view: View::Support, .. }, .. } => 1,
        Pred::Relation { relation: RelationRef::Computed { .. }, .. } => LOOP,
        Pred::All(ps) | Pred::Any(ps) => ps.iter().map(guard_work).sum(),
        // Whether a row has entries is seen from where it begins; numbers are gone through.
        Pred::Exists { body, .. } => {
            let mut loops = 0;
            body.visit_computed(&mut |_| loops = LOOP);
            4 + loops + guard_work(body)
        }
    }
}

/// The work of those tests for entries in the guard of a statement that hold wherever it is read.
fn work_of_told(program: &Program, x: VarId, readers: &[&Use]) -> u64 {
    let (Rhs::Map { guard, .. } | Rhs::Contract { guard, .. }) = &program.stmts[x].rhs else { return 0 };
    let tests = guard.conjuncts().iter().filter(|p| matches!(p, Pred::Exists { .. }) && guard_work(p) < LOOP);
    tests.filter(|p| is_told_by_all(program, x, p, readers)).map(guard_work).sum()
}

/// The shapes of the dense parameters and results.
fn shapes_outside(program: &Program) -> Vec<&[Size]> {
    let parameters = program.stmts.values().filter(|stmt| match &stmt.rhs {
        Rhs::Input { param, .. } => program.signature.params[*param].storage == Storage::Dense,
        _ => false,
    });
    let outputs = program.outputs.iter().filter(|output| output.storage == Storage::Dense);
    let results = outputs.flat_map(|output| &output.leaves).map(|x| &program.stmts[*x]);
    parameters.chain(results).map(|stmt| stmt.dims.as_slice()).collect()
}

/// Whether a tensor of a shape has more elements than each of those of these shapes, when sizes grow.
pub(super) fn outgrows(dims: &[Size], shapes: &[&[Size]]) -> bool {
    let grows_like = |n: &Size, other: &Size| n.terms().iter().all(|(v, _)| other.terms().iter().any(|(w, _)| v == w));
    let holds = |shape: &[Size]| {
        let mut left: Vec<&Size> = shape.iter().collect();
        dims.iter().filter(|n| n.as_constant().is_none()).all(|n| {
            let at = left.iter().position(|other| grows_like(n, other));
            at.map(|at| left.swap_remove(at)).is_some()
        })
    };
    !shapes.iter().any(|shape| holds(shape))
}

/// Whether elements take some work, or tests, and some product reads each of them for all values of an index whose range grows with a size.
fn is_factor(program: &Program, stmt: &Stmt, effort: Effort, readers: &[&Use]) -> bool {
    let again = |read: &&Use| {
        let user = &program.stmts[read.user];
        let Rhs::Contract { sums, operands, .. } = &user.rhs else { return false };
        let Some(indices) = read.reading.element() else { return false };
        let read: Vec<IndexId> = indices.iter().map(|i| solved(user, *i)).collect();
        let grows = |n: &Size| n.as_constant().is_none();
        let ranges = user.dims.iter().chain(sums);
        let repeated = ranges.enumerate().any(|(k, n)| grows(n) && !read.contains(&IndexId::from_index(k)));
        let sum = sums.iter().any(grows);
        sum && operands.len() > 1 && repeated
    };
    let takes_work = effort.work >= FACTOR && !effort.searches || is_masked(stmt);
    takes_work && readers.iter().any(again)
}

/// Whether elements of a tensor are taken where a test holds that bounds of loops do not decide.
fn is_masked(stmt: &Stmt) -> bool {
    let Rhs::Contract { sums, guard, operands } = &stmt.rhs else { return false };
    let tests = |p: &Pred| match p {
        Pred::NonZero(a) => !a.is_size(),
        Pred::Relation { relation: RelationRef::Computed { .. }, .. } | Pred::Relation { holds: false, .. } => true,
        _ => false,
    };
    sums.is_empty() && operands.len() == 1 && guard.conjuncts().iter().any(tests)
}

/// Whether every element is a quotient or a root. A quotient by a number that is the same for all is a product with its reciprocal.
fn divides(program: &Program, stmt: &Stmt) -> bool {
    let by_one = |args: &[VarId]| {
        args.get(1).is_some_and(|by| match &program.stmts[*by].rhs {
            Rhs::Number(Number::Literal(_)) => true,
            Rhs::Number(Number::Index(a)) => a.is_size(),
            _ => false,
        })
    };
    match &stmt.rhs {
        Rhs::Map { guard: Pred::True, function: Function::Value(Primitive::Op(op)), args } => {
            matches!(op, Op::Div | Op::Sqrt) && !stmt.dims.is_empty() && !by_one(args)
        }
        _ => false,
    }
}

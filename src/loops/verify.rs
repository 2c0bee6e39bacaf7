//! The verifier of loop nests.
//!
//! - *Scope*: an index or register is defined once in a nest, before its uses and in a scope around them; index expressions mention
//!   indices in scope and known sizes, and no map application.
//! - *Shape*: a place has an index for each axis of its buffer; arrays exist, and are of the part that their use needs.
//! - *Order*: a nest writes its own buffers only, none of them held, and reads parameters, what is held, the buffers of nests before it, and
//!   those that it stored to or made zero. Where a loop loads what it stores to later in its text, that is of the iteration before, and there is a
//!   first one.
//! - *Sums*: a register that is accumulated or assigned is a `local`; in between lies no parallel loop.
//! - *Lanes*: lanes are a power of two, at most [`Program::MAX_LANES`]; a loop with lanes holds no other one, and inside nothing but loads
//!   and arithmetic depends on its index: neither the bounds of loops nor tests nor searches.
//! - *Precision*: workspaces are in double precision, and no nest reads an output in single precision; what is rounded at the end is a workspace
//!   that a nest writes, and becomes an output that none does.
//! - *Matrices*: buffers that are one leaf of an output have one shape and precision, on no pattern, and no nest reads them. Where a row starts in a
//!   matrix says where it is stored, in an output of one axis, and nothing else; each nest takes it from one array, that of its block.
//! - *Places that data tell*: iterations that add to them come one after the other.
//! - *Ends*: a loop that ends early is one by one, and the end stands in its body, under no test.
//! - *Jam*: iterations that may be interleaved add to registers outside in order, at most, and differ in loads, arithmetic, stores, and bounds
//!   of loops alone: see [`can_jam`].

use std::collections::{BTreeMap, BTreeSet};

use super::carried;
use super::data::{
    ArrayId, Binned, Buffer, BufferId, BufferKind, Cond, Domain, Nest, Part, Place, Program, Real, RealId, Rounded,
    Run, Search, Segment, StepLimit, Stmt,
};
use super::effects::adds_where_told;
use super::onwards::searches_onwards;
use super::visit::can_jam;
use crate::base::{Id, IndexId};
use crate::index::{Affine, Var, View};

impl Program {
    /// The most lanes of a loop.
    pub const MAX_LANES: u32 = 64;

    /// Checks every invariant of loop nests.
    ///
    /// # Errors
    /// All violations, each with its nest.
    pub fn verify(&self) -> Result<(), Vec<String>> {
        let mut complaints = Vec::new();
        let mut written = BTreeSet::new();
        let parts = self.parts();
        for nest in &self.nests {
            let mut check = Check {
                program: self,
                nest,
                own: nest.buffers.iter().copied().collect(),
                written: &written,
                parts: &parts,
                stored: BTreeSet::new(),
                blocks: BTreeMap::new(),
                complaints: Vec::new(),
            };
            check.nest();
            let names = nest.buffers.iter().filter_map(|b| self.buffers.get(*b)).map(|b| b.name.as_str());
            let name = names.collect::<Vec<_>>().join(", ");
            complaints.extend(check.complaints.into_iter().map(|c| format!("{name}: {c}")));
            if !nest.buffers.iter().all(|b| written.insert(b.index())) {
                complaints.push(format!("{name} is written by two nests"));
            }
        }
        for StepLimit { steps, .. } in &self.limits {
            let buffer = self.buffers.get(*steps);
            if buffer.is_none_or(|buffer| buffer.rank() != 0) || !written.contains(&steps.index()) {
                complaints.push(format!("{steps} is no number of steps"));
            }
        }
        for Rounded { from, to } in &self.rounded {
            let kind = |b: &BufferId| self.buffers.get(*b).map(|buffer| buffer.kind);
            let is_output = matches!(kind(to), Some(BufferKind::Output(..)));
            if kind(from) != Some(BufferKind::Workspace) || !written.contains(&from.index()) || !is_output {
                complaints.push(format!("{from} is rounded to {to}"));
            }
            if !written.insert(to.index()) {
                complaints.push(format!("{to} is rounded to, and written by a nest"));
            }
        }
        let mut leaves: BTreeMap<(usize, usize), &Buffer> = BTreeMap::new();
        for buffer in self.buffers.values() {
            if let BufferKind::Output(output, leaf) = buffer.kind {
                let first = *leaves.entry((output, leaf)).or_insert(buffer);
                let alike = first.dims == buffer.dims && first.precision == buffer.precision;
                let plain = first.entries.is_none() && buffer.entries.is_none();
                if !(std::ptr::eq(first, buffer) || alike && plain) {
                    complaints.push(format!("{} and {} are one output", first.name, buffer.name));
                }
            }
            if !buffer.is_joined().unwrap_or(false) {
                complaints.push(format!("{} has not the axes that it has outside", buffer.name));
            }
            if buffer.kind == BufferKind::Workspace && !buffer.precision.is_double() {
                complaints.push(format!("{} is a workspace in {}", buffer.name, buffer.precision));
            }
        }
        for (name, leaves) in &self.outputs {
            if leaves.iter().any(|b| !written.contains(&b.index())) {
                complaints.push(format!("output {name}: no nest writes it"));
            }
        }
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }

    /// The leaves of outputs that are several buffers.
    fn parts(&self) -> BTreeSet<(usize, usize)> {
        let mut seen = BTreeSet::new();
        let leaf = |buffer: &Buffer| match buffer.kind {
            BufferKind::Output(output, leaf) => Some((output, leaf)),
            _ => None,
        };
        self.buffers.values().filter_map(leaf).filter(|leaf| !seen.insert(*leaf)).collect()
    }
}

/// What is in scope.
#[derive(Default)]
struct Scope {
    indices: BTreeSet<IndexId>,
    /// Those of loops over ranges.
    ranges: BTreeSet<IndexId>,
    /// Indices and registers that differ from lane to lane.
    varying: BTreeSet<IndexId>,
    varying_reals: BTreeSet<RealId>,
    reals: BTreeSet<RealId>,
    /// Registers that are declared, by the number of parallel loops around. They may be accumulated in no further one.
    locals: BTreeMap<RealId, usize>,
    parallel: usize,
    in_lanes: bool,
    /// Searches that may go on where the last one in the loop around ended.
    onwards: BTreeSet<IndexId>,
    /// Where rows start in a matrix, with the array that says so.
    starts: BTreeMap<IndexId, ArrayId>,
    /// What has come into scope, in order.
    entered: Vec<Entered>,
}

/// Something that leaves the scope with the body that it is defined in.
enum Entered {
    Index(IndexId),
    Range(IndexId),
    Varying(IndexId),
    VaryingReal(RealId),
    Real(RealId),
    Local(RealId),
    Start(IndexId),
}

impl Scope {
    fn enter(&mut self, what: Entered) {
        let new = match what {
            Entered::Index(i) => self.indices.insert(i),
            Entered::Range(i) => self.ranges.insert(i),
            Entered::Varying(i) => self.varying.insert(i),
            Entered::VaryingReal(r) => self.varying_reals.insert(r),
            Entered::Real(r) => self.reals.insert(r),
            Entered::Local(r) => self.locals.insert(r, self.parallel).is_none(),
            Entered::Start(_) => true,
        };
        if new {
            self.entered.push(what);
        }
    }

    fn start(&mut self, i: IndexId, array: ArrayId) {
        self.starts.insert(i, array);
        self.enter(Entered::Start(i));
    }

    /// Goes back to where so much had come into scope.
    fn leave(&mut self, len: usize) {
        for what in self.entered.drain(len..) {
            match what {
                Entered::Index(i) => drop(self.indices.remove(&i)),
                Entered::Range(i) => drop(self.ranges.remove(&i)),
                Entered::Varying(i) => drop(self.varying.remove(&i)),
                Entered::VaryingReal(r) => drop(self.varying_reals.remove(&r)),
                Entered::Real(r) => drop(self.reals.remove(&r)),
                Entered::Local(r) => drop(self.locals.remove(&r)),
                Entered::Start(i) => drop(self.starts.remove(&i)),
            }
        }
    }

    fn is_local(&self, r: RealId) -> bool {
        self.locals.get(&r) == Some(&self.parallel)
    }
}

struct Check<'a> {
    program: &'a Program,
    nest: &'a Nest,
    /// The buffers that it writes.
    own: BTreeSet<BufferId>,
    written: &'a BTreeSet<usize>,
    /// The leaves of outputs that are several buffers.
    parts: &'a BTreeSet<(usize, usize)>,
    /// The buffers that the statements so far store to.
    stored: BTreeSet<BufferId>,
    /// The array that says where the rows of a block start.
    blocks: BTreeMap<BufferId, ArrayId>,
    complaints: Vec<String>,
}

impl Check<'_> {
    fn complain(&mut self, message: impl std::fmt::Display) {
        self.complaints.push(message.to_string());
    }

    fn nest(&mut self) {
        let mut defined = (BTreeSet::new(), BTreeSet::new());
        let mut repeated = false;
        let nest = self.nest;
        for stmt in &nest.body {
            stmt.visit(&mut |stmt| {
                stmt.defines().for_each(|index| repeated |= !defined.0.insert(index));
                match stmt {
                    Stmt::Define(r, _) | Stmt::Local(r) => repeated |= !defined.1.insert(*r),
                    Stmt::For { .. }
                    | Stmt::Let { .. }
                    | Stmt::Find { .. }
                    | Stmt::Length { .. }
                    | Stmt::End(_)
                    | Stmt::Extremum { .. }
                    | Stmt::If { .. }
                    | Stmt::Assign(..)
                    | Stmt::Accumulate(..)
                    | Stmt::MulAdd(..)
                    | Stmt::Extend(..)
                    | Stmt::Store(..)
                    | Stmt::Fill(_)
                    | Stmt::Call { .. }
                    | Stmt::Tuple(..) => {}
                };
            });
        }
        if repeated {
            self.complain("an index or a register is defined twice");
        }
        self.partials();
        self.complaints.extend(carried::complaints(self.program, nest));
        self.ends(&nest.body, false);
        self.body(&nest.body, &mut Scope::default());
    }

    /// Loops that end early are one by one, and the end stands in their body itself.
    fn ends(&mut self, body: &[Stmt], may_end: bool) {
        for stmt in body {
            match stmt {
                Stmt::End(_) if !may_end => self.complain("an end of no loop, or of one that is not one by one"),
                Stmt::For { lanes, jam, parallel, body, .. } => {
                    self.ends(body, *lanes == 1 && *jam == 1 && !parallel);
                }
                stmt => self.ends(stmt.body(), false),
            }
        }
    }

    /// A register that takes sums takes no extrema: lanes are put together in one way.
    fn partials(&mut self) {
        let mut ways: BTreeMap<RealId, Option<View>> = BTreeMap::new();
        let mut mixed = BTreeSet::new();
        for stmt in &self.nest.body {
            stmt.visit(&mut |stmt| {
                let (r, way) = match stmt {
                    Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) => (*r, None),
                    Stmt::Extend(view, r, _) => (*r, Some(*view)),
                    _ => return,
                };
                if *ways.entry(r).or_insert(way) != way {
                    mixed.insert(r);
                }
            });
        }
        mixed.into_iter().for_each(|r| self.complain(format_args!("{r} takes sums and extrema")));
    }

    fn body(&mut self, body: &[Stmt], scope: &mut Scope) {
        let before = scope.entered.len();
        body.iter().for_each(|stmt| self.stmt(stmt, scope));
        scope.leave(before);
    }

    #[allow(clippy::too_many_lines, reason = "an arm for each form of statement")]
    fn stmt(&mut self, stmt: &Stmt, scope: &mut Scope) {
        stmt.visit_affine(&mut |a| self.affine(a, scope));
        self.starts(stmt, scope);
        if !matches!(stmt, Stmt::Extremum { .. }) {
            stmt.visit_reads(&mut |r| self.read(r, scope));
        }
        match stmt {
            Stmt::For { .. } => self.each(stmt, scope),
            Stmt::Let { .. } => self.binding(stmt, scope),
            Stmt::Find { index, segment, key, how } => {
                self.segment(segment);
                if *how == Search::Onwards && !scope.onwards.contains(index) {
                    self.complain(format_args!("{index} cannot be searched for onwards"));
                }
                self.uniform(stmt, scope);
                if let Some((nodes, _)) = key {
                    self.part(*nodes, |part| matches!(part, Part::Nodes(_)));
                }
                if let Search::Bound(array, _) = how {
                    self.neighbours(*array, segment, key.is_some());
                }
                scope.enter(Entered::Index(*index));
            }
            Stmt::Extremum { index, view: _, extent: _, at, body, value } => {
                self.uniform(stmt, scope);
                if scope.in_lanes {
                    self.complain("an extremum inside of lanes");
                }
                let before = scope.entered.len();
                let onwards = std::mem::take(&mut scope.onwards);
                scope.enter(Entered::Index(*at));
                body.iter().for_each(|stmt| self.stmt(stmt, scope));
                self.read(*value, scope);
                scope.onwards = onwards;
                scope.leave(before);
                scope.enter(Entered::Index(*index));
            }
            Stmt::If { cond, body } => {
                self.uniform(stmt, scope);
                self.varying_cond(cond, scope);
                self.body(body, scope);
            }
            Stmt::Define(r, real) => {
                let mut varying = false;
                real.visit_reads(&mut |a| varying |= scope.varying_reals.contains(&a));
                stmt.visit_affine(&mut |a| varying |= varies(a, scope));
                if varying {
                    scope.enter(Entered::VaryingReal(*r));
                }
                if let Real::Load(place) = real {
                    self.place(place, false);
                }
                scope.enter(Entered::Real(*r));
            }
            Stmt::Local(r) => {
                // A register declared in lanes may hold a number for each lane.
                if scope.in_lanes {
                    scope.enter(Entered::VaryingReal(*r));
                }
                scope.enter(Entered::Real(*r));
                scope.enter(Entered::Local(*r));
            }
            Stmt::Assign(r, _) | Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) | Stmt::Extend(_, r, _) => {
                if !scope.is_local(*r) {
                    self.complain(format_args!("{r} is no local of this iteration"));
                }
                if matches!(stmt, Stmt::Assign(..)) && scope.in_lanes && !scope.varying_reals.contains(r) {
                    self.complain(format_args!("{r} is one number, and lanes set it"));
                }
            }
            Stmt::Length { index, place, most } => {
                self.place(place, false);
                self.uniform(stmt, scope);
                if most.has_indices() {
                    self.complain(format_args!("{index} is no length"));
                }
                scope.enter(Entered::Index(*index));
            }
            // Where it may stand is said by the loop.
            Stmt::End(_) => {}
            Stmt::Store(place, _) => self.place(place, true),
            Stmt::Fill(buffer) => {
                self.writes(*buffer);
                self.stored.insert(*buffer);
            }
            Stmt::Call { .. } => self.call(stmt, scope),
            Stmt::Tuple(..) if scope.in_lanes => self.complain("a place is listed inside of lanes"),
            Stmt::Tuple(..) => {}
        }
    }

    /// A call: what it is given has been written, and what it takes and gives are the numbers of all axes behind a place.
    fn call(&mut self, stmt: &Stmt, scope: &Scope) {
        let Stmt::Call { function, takes, gives } = stmt else { return };
        let function = self.program.signature.functions.get(*function).and_then(|f| f.of_tensors());
        let ranks = |runs: &[Run]| runs.iter().map(|run| run.shape.len()).collect::<Vec<_>>();
        let fits = function.is_some_and(|f| {
            f.params.iter().map(|(_, dims)| dims.len()).eq(ranks(takes))
                && f.results.iter().map(Vec::len).eq(ranks(gives))
        });
        if !fits || scope.in_lanes {
            self.complain("a call of a function of other tensors, or in lanes");
        }
        for (run, store) in takes.iter().map(|run| (run, false)).chain(gives.iter().map(|run| (run, true))) {
            let Place { buffer, at } = &run.place;
            let known = self.program.buffers.get(*buffer);
            let known = known.filter(|b| b.entries.is_none() && b.precision.is_double());
            if known.and_then(|b| b.dims.get(at.len()..)) != Some(run.shape.as_slice()) {
                self.complain("a call takes or gives a part of a tensor");
            }
            let rest = run.shape.iter().map(|_| Affine::constant(0));
            self.place(&Place { buffer: *buffer, at: at.iter().cloned().chain(rest).collect() }, store);
        }
    }

    /// A loop, with what stands in it.
    fn each(&mut self, stmt: &Stmt, scope: &mut Scope) {
        let Stmt::For { index, domain, lanes, jam, parallel, body } = stmt else { return };
        let whole = domain.whole_of();
        if let Domain::Segment(segment) = whole {
            self.segment(segment);
        }
        if matches!(domain, Domain::Part { parts: 0, .. } | Domain::Part { grain: 0, .. }) {
            self.complain(format_args!("{index} has no parts"));
        }
        if matches!(whole, Domain::Range { lower, upper } if lower.is_empty() || upper.is_empty()) {
            self.complain(format_args!("{index} has no bounds"));
        }
        self.uniform(stmt, scope);
        if !lanes.is_power_of_two() || *lanes > Program::MAX_LANES {
            self.complain(format_args!("{lanes} lanes"));
        }
        if *lanes > 1 && scope.in_lanes {
            self.complain("lanes inside of lanes");
        }
        if *jam == 0 || *jam > 1 && (*lanes > 1 || !can_jam(*index, body)) {
            self.complain(format_args!("{jam} iterations of {index} cannot be interleaved"));
        }
        if (*lanes > 1 || *jam > 1 || *parallel) && adds_where_told(*index, domain, body) {
            self.complain(format_args!("iterations of {index} add to places that data tell, at the same time"));
        }
        let before = (scope.entered.len(), scope.parallel, scope.in_lanes);
        let onwards = searches_onwards(&self.program.arrays, stmt);
        let onwards = std::mem::replace(&mut scope.onwards, onwards);
        scope.enter(Entered::Index(*index));
        if matches!(whole, Domain::Range { .. }) {
            scope.enter(Entered::Range(*index));
        }
        scope.parallel += usize::from(*parallel);
        if *lanes > 1 {
            scope.in_lanes = true;
            scope.enter(Entered::Varying(*index));
        }
        self.body(body, scope);
        (scope.parallel, scope.in_lanes, scope.onwards) = (before.1, before.2, onwards);
        scope.leave(before.0);
    }

    /// An index that is read from an array.
    fn binding(&mut self, stmt: &Stmt, scope: &mut Scope) {
        let Stmt::Let { index, array, at, step } = stmt else { return };
        if step.is_some() && at.as_index().is_none_or(|i| !scope.ranges.contains(&i)) {
            self.complain(format_args!("{index} has a step, and no loop over a range is over its place"));
        }
        self.part(*array, |part| {
            matches!(
                part,
                Part::Nodes(_)
                    | Part::Entries
                    | Part::Projected(_)
                    | Part::Rows
                    | Part::Children(_)
                    | Part::Starts
                    | Part::Binned(_)
            )
        });
        if varies(at, scope) {
            scope.enter(Entered::Varying(*index));
        }
        if self.program.arrays.get(*array).is_some_and(|array| array.part == Part::Starts) {
            scope.start(*index, *array);
        }
        scope.enter(Entered::Index(*index));
    }

    /// Where a row starts is used for stores to a matrix, each block of which has an array of its own.
    fn starts(&mut self, stmt: &Stmt, scope: &Scope) {
        let mut used = Vec::new();
        stmt.visit_affine(&mut |a| {
            a.visit(&mut |v| {
                if let Var::Index(i) = v {
                    used.extend(scope.starts.get(i));
                }
            })
        });
        let Some(array) = used.first() else { return };
        let fits = match stmt {
            Stmt::Store(place, _) => {
                let kind = self.program.buffers.get(place.buffer).map(|buffer| buffer.kind);
                let own = *self.blocks.entry(place.buffer).or_insert(*array);
                matches!(kind, Some(BufferKind::Output(..))) && place.at.len() == 1 && used.as_slice() == [own]
            }
            _ => false,
        };
        if !fits {
            self.complain("where a row starts in a matrix is used for something else");
        }
    }

    fn read(&mut self, r: RealId, scope: &Scope) {
        if !scope.reals.contains(&r) {
            self.complain(format_args!("{r} is not defined here"));
        }
    }

    fn affine(&mut self, a: &Affine, scope: &Scope) {
        a.visit(&mut |v| match v {
            Var::Index(i) if !scope.indices.contains(i) => self.complain(format_args!("{i} is not defined here")),
            Var::Index(_) => {}
            Var::Size(n) if self.program.signature.sizes.get(*n).is_none() => {
                self.complain(format_args!("the size {n} is unknown"));
            }
            Var::Size(_) => {}
            Var::Apply(_) => self.complain("an index expression applies a map"),
        });
    }

    /// No index expression of this statement differs from lane to lane.
    fn uniform(&mut self, stmt: &Stmt, scope: &Scope) {
        stmt.visit_affine(&mut |a| {
            if varies(a, scope) {
                self.complain("a loop, a test or a search differs from lane to lane");
            }
        });
    }

    fn varying_cond(&mut self, cond: &Cond, scope: &Scope) {
        cond.visit_reads(&mut |r| {
            if scope.varying_reals.contains(&r) {
                self.complain(format_args!("a test of {r} differs from lane to lane"));
            }
        });
    }

    fn part(&mut self, array: ArrayId, allowed: impl Fn(Part) -> bool) {
        match self.program.arrays.get(array) {
            Some(found) if allowed(found.part) => {}
            _ => self.complain(format_args!("the array {array} does not serve here")),
        }
    }

    /// The neighbours that are read in place of a search are sought where it seeks.
    fn neighbours(&mut self, array: ArrayId, segment: &Segment, has_key: bool) {
        let pointers = self.program.arrays.get(segment.pointers);
        let sought = pointers.map(|pointers| (pointers.part, pointers.relation, pointers.axes.clone()));
        self.part(array, |part| match part {
            Part::Neighbours(found) => {
                found.second.is_some() == has_key && sought == Some((Part::Rows, found.relation, found.axes()))
            }
            _ => false,
        });
    }

    fn segment(&mut self, segment: &Segment) {
        self.part(segment.pointers, |part| {
            matches!(part, Part::Roots | Part::Rows | Part::Children(_) | Part::Binned(Binned::All))
        });
    }

    fn writes(&mut self, buffer: BufferId) {
        let kind = self.program.buffers.get(buffer).map(|b| b.kind);
        if matches!(kind, Some(BufferKind::Param(..) | BufferKind::Held(_))) {
            self.complain(format_args!("it writes {buffer}, which is given"));
        }
        if !self.own.contains(&buffer) {
            self.complain(format_args!("it writes {buffer}"));
        }
    }

    /// Whether another buffer is the same leaf of an output.
    fn is_part(&self, buffer: BufferId) -> bool {
        let kind = self.program.buffers.get(buffer).map(|buffer| buffer.kind);
        matches!(kind, Some(BufferKind::Output(output, leaf)) if self.parts.contains(&(output, leaf)))
    }

    fn place(&mut self, place: &Place, store: bool) {
        let Some(buffer) = self.program.buffers.get(place.buffer) else {
            return self.complain(format_args!("there is no buffer {}", place.buffer));
        };
        if buffer.rank() != place.at.len() {
            self.complain(format_args!("{} is read or written at {} indices", buffer.name, place.at.len()));
        }
        if store {
            self.writes(place.buffer);
            self.stored.insert(place.buffer);
        } else if self.is_part(place.buffer) {
            self.complain(format_args!("{} is read, which is a part of an output", buffer.name));
        } else if !matches!(buffer.kind, BufferKind::Param(..) | BufferKind::Held(_))
            && !self.written.contains(&place.buffer.index())
            && !self.stored.contains(&place.buffer)
        {
            self.complain(format_args!("{} is read before it is written", buffer.name));
        } else if matches!(buffer.kind, BufferKind::Output(..)) && !buffer.precision.is_double() {
            self.complain(format_args!("{} is read in {}", buffer.name, buffer.precision));
        }
    }
}

/// Whether an expression differs from lane to lane.
fn varies(a: &Affine, scope: &Scope) -> bool {
    a.terms().iter().any(|(v, _)| matches!(v, Var::Index(i) if scope.varying.contains(i)))
}

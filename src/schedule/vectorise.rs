//! Which loops run in lanes, which iterations are interleaved, and which run in parallel.
//!
//! A loop at the top of a nest runs in parallel if it adds to no register outside, and to no place that data tell. Of nested loops at most one has lanes:
//!
//! | loop | lanes | why |
//! |---|---|---|
//! | around loops over ranges, where loads are of neighbours or the same for all lanes | 32, or 16 in blocks | vectors of elements; the inner loops are not cut |
//! | around loops over entries, likewise, but in products that are interleaved | 64 | the entries are read once for all of the elements |
//! | innermost over a range, adds to a register or extends it | 16 | enough partial sums to hide the latency of an addition |
//! | innermost over the entries of a relation, adds to a register, of some neighbours | 8 | rows are short, and lanes are added up after each |
//! | innermost, stores only | 32, or 8 over entries or with functions | |
//! | innermost, stores only, of much arithmetic on numbers from places far apart | 8 | a vector of each number |
//! | around loops, where numbers are a few places apart and nothing inside has lanes | 16 | as a convolution with a stride has them: a vector of each is loaded once for several rows |
//!
//! These have no lanes:
//! - a loop whose inner bounds, tests or searches differ from lane to lane, or that looks for an extremum;
//! - an innermost loop of a short literal length, which is unrolled;
//! - one of little arithmetic that stores at places that an array gives, or that adds up over entries what is at such places alone: such loads take as
//!   long for a vector as one by one, and rows are short;
//! - a short loop around a longer one that can have lanes.
//!
//! Neighbouring rows of a few numbers each, the coordinates of points, count as neighbours in each of their columns: lanes load whole rows. What is
//! short is known of literals, of loops from an index up to one, and of sizes when a program is bound ([`short_axes`](super::short_axes())).
//!
//! Iterations are *interleaved* where the loop around has lanes or is in them, what is summed inside is a product, and one factor does not
//! depend on the iteration: it is then loaded once for all of them. This is a matrix product in blocks of registers:
//!
//! | block | loads of vectors in a round | of numbers | sums in vectors |
//! |---|---|---|---|
//! | 4 iterations inside of 32 lanes | 4 | 4 | 16 |
//! | 8 iterations around 16 lanes | 2 | 8 | 16 |
//! | 8 iterations, and 8 lanes that are added up | 1 | 8 | 8 |
//! | 4 iterations, each with a sum in 16 lanes | 10 | | 8 |
//!
//! Each takes the least from what is read again and again, which is rarely in the nearest cache: vectors for each group of iterations where
//! these are around, numbers for each group of lanes where those are.
//!
//! What comes of a nest is known before anything is done to it: [`Plan`] is a question that other passes ask too.

mod lengths;
mod own_sums;

use std::collections::{BTreeMap, BTreeSet};

use super::contract::Contraction;
use super::layout::Last;
use super::machine::{
    FEW, JAM, LANES_AROUND_CALLS, LANES_AROUND_ENTRIES, LANES_OF_ELEMENTS, LANES_OF_SUMS, MANY_SUMS, PARTIAL_SUMS,
    ROW_DENSITY, ROW_WORK, SHORT, VECTOR,
};
use super::split::taps::is_border;
use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Affine, Var};
use crate::loops::{
    Bound, Decision, Domain, Nest, Outlook, Place, Program, Real, RealId, Stmt, adds_where_told, changes_outside,
    could_jam, has_calls, has_loop, outer_sums, stores,
};

use lengths::ends_soon;
pub(super) use lengths::{has_fractions, is_short, literal, only_few};

/// Sets lanes, interleaved iterations and parallel loops.
pub(super) fn run(program: &mut Program) -> Result<()> {
    for nest in &mut program.nests {
        let mut plan = Plan::of(nest, Contraction::default());
        if own_sums::give(&plan, nest) {
            plan = Plan::of(nest, Contraction::default());
        }
        plan.apply(&mut nest.body);
        if let Some(iterations) = plan.jam.values().copied().max() {
            nest.decisions.push(Decision::Jammed { iterations });
        }
    }
    Ok(())
}

/// The lanes of the loops of a nest, and which are interleaved or parallel. Loops that it does not mention stay as they are.
#[derive(Default)]
pub(super) struct Plan<'a> {
    /// The products that go into sums before.
    contraction: Contraction,
    /// The axes that are made the last ones of some buffers before.
    last: Option<&'a Last>,
    lanes: BTreeMap<IndexId, u32>,
    jam: BTreeMap<IndexId, u32>,
    parallel: BTreeSet<IndexId>,
}

impl Outlook for Plan<'_> {
    fn lanes(&self, index: IndexId, now: u32) -> u32 {
        self.lanes.get(&index).copied().unwrap_or(now)
    }

    fn adds_product(&self, stmt: &Stmt) -> bool {
        self.contraction.adds_product(stmt)
    }
}

impl<'a> Plan<'a> {
    /// What the pass makes of a nest in which these products went into sums.
    pub(super) fn of(nest: &Nest, contraction: Contraction) -> Self {
        Plan::of_body(&nest.body, contraction)
    }

    /// The same of the statements of a nest.
    pub(super) fn of_body(body: &[Stmt], contraction: Contraction) -> Self {
        Plan { contraction, ..Plan::default() }.for_body(body)
    }

    /// The same, where some buffers have other axes last by then.
    pub(super) fn under(last: &'a Last, nest: &Nest, contraction: Contraction) -> Self {
        Plan { contraction, last: Some(last), ..Plan::default() }.for_body(&nest.body)
    }

    fn for_body(mut self, body: &[Stmt]) -> Self {
        let plan = &mut self;
        plan.run_parallel(body);
        plan.run_in_lanes(body);
        if plan.interleave(body, 1, false) {
            plan.block(body);
            plan.block_sums(body, None);
        }
        self
    }

    /// Which axis of a place is the last one.
    pub(super) fn last_axis(&self, place: &Place) -> usize {
        let chosen = self.last.and_then(|last| last.get(&place.buffer).copied());
        chosen.unwrap_or(place.at.len().wrapping_sub(1))
    }

    /// Whether iterations of some loop are interleaved.
    pub(super) fn interleaves(&self) -> bool {
        !self.jam.is_empty()
    }

    /// How many iterations of a loop are interleaved.
    pub(super) fn jam(&self, index: IndexId, now: u32) -> u32 {
        self.jam.get(&index).copied().unwrap_or(now)
    }

    /// Whether the iterations of a loop may run at the same time.
    pub(super) fn is_parallel(&self, index: IndexId, now: bool) -> bool {
        now || self.parallel.contains(&index)
    }

    /// Whether a loop has lanes or interleaved iterations.
    pub(super) fn is_vector(&self, stmt: &Stmt) -> bool {
        let Stmt::For { index, lanes, jam, .. } = stmt else { return false };
        self.lanes(*index, *lanes) > 1 || self.jam(*index, *jam) > 1
    }

    /// Whether one of these loops runs in lanes.
    pub(super) fn any_vector(&self, stmts: &[Stmt]) -> bool {
        stmts.iter().any(|stmt| self.is_vector(stmt))
    }

    fn apply(&self, body: &mut [Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::For { index, lanes, jam, parallel, body, .. } => {
                    *lanes = self.lanes(*index, *lanes);
                    *jam = self.jam(*index, *jam);
                    *parallel = self.is_parallel(*index, *parallel);
                    self.apply(body);
                }
                Stmt::If { body, .. } | Stmt::Extremum { body, .. } => self.apply(body),
                _ => {}
            }
        }
    }

    /// The outermost loops that add to no register outside.
    fn run_parallel(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::For { index, domain, body, .. } => {
                    let is_apart = !changes_outside(body) && !adds_where_told(*index, domain, body);
                    self.parallel.extend(is_apart.then_some(*index));
                }
                Stmt::If { body, .. } => self.run_parallel(body),
                _ => {}
            }
        }
    }

    fn run_in_lanes(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::For { index, domain, body, .. } => {
                    let found = choose(self, *index, domain, body);
                    let inside = self.stores_neighbours_inside(*index, body) || self.is_short_around(domain, body);
                    match found.filter(|_| !inside) {
                        Some(found) => {
                            self.lanes.insert(*index, found);
                        }
                        None => {
                            let before = self.lanes.len();
                            self.run_in_lanes(body);
                            if self.lanes.len() == before
                                && let Some(found) = near(self, *index, domain, body)
                            {
                                self.lanes.insert(*index, found);
                            }
                        }
                    }
                }
                Stmt::If { body, .. } | Stmt::Extremum { body, .. } => self.run_in_lanes(body),
                _ => {}
            }
        }
    }

    /// Whether a loop holds one other, which can have lanes as well and stores neighbours, where lanes of its own would store places far apart. Of
    /// sums of products that is worth it only where its iterations can be interleaved then.
    fn stores_neighbours_inside(&self, index: IndexId, body: &[Stmt]) -> bool {
        let mut loops = body.iter().filter(|stmt| has_loop(stmt));
        let (Some(Stmt::For { index: inner, domain, body: inside, .. }), None) = (loops.next(), loops.next()) else {
            return false;
        };
        let next = |place: &Place, i: IndexId| place.at.last().is_some_and(|a| a.coefficient(&Var::Index(i)) == 1);
        let mut stores = inside.iter().filter_map(Stmt::store);
        let mut better = stores.clone().next().is_some();
        better &= stores.all(|place| next(place, *inner) && !next(place, index));
        better
            && inside.iter().any(has_loop)
            && choose(self, *inner, domain, inside).is_some()
            && (self.shares(index, body, LANES_OF_ELEMENTS) || !self.adds_products(inside))
    }

    fn adds_products(&self, body: &[Stmt]) -> bool {
        let mut any = false;
        body.iter().for_each(|stmt| stmt.visit(&mut |stmt| any |= self.adds_product(stmt)));
        any
    }

    /// Whether a loop over a few values is around a longer one that can have lanes of neighbours, or goes along these: the taps of a kernel, each summed
    /// up over many places, would leave most lanes empty.
    fn is_short_around(&self, domain: &Domain, body: &[Stmt]) -> bool {
        let is_short = is_short(domain) || ends_soon(domain);
        is_short && (self.has_neighbours_inside(body) || self.has_longer_inside(body))
    }

    fn has_longer_inside(&self, body: &[Stmt]) -> bool {
        body.iter().any(|stmt| match stmt {
            Stmt::For { index, domain, body, .. }
                if !is_short(domain) && choose(self, *index, domain, body).is_some() =>
            {
                let mut seen = Seen::new(self, *index);
                seen.body(body) && (seen.neighbours || seen.far == 0)
            }
            stmt => self.has_longer_inside(stmt.body()),
        })
    }

    fn has_neighbours_inside(&self, body: &[Stmt]) -> bool {
        body.iter().any(|stmt| match stmt {
            Stmt::For { index, domain, body, .. } if !body.iter().any(has_loop) => {
                let mut seen = Seen::new(self, *index);
                literal(domain).is_none() && seen.body(body) && seen.neighbours && seen.far == 0
            }
            stmt => self.has_neighbours_inside(stmt.body()),
        })
    }

    /// Interleaves the iterations of loops, innermost ones first, but those of a loop of few values only where there is none around
    /// that can be: they fill no block. `lanes` are those of the loop around. Whether there are any.
    fn interleave(&mut self, body: &[Stmt], around: u32, can_outside: bool) -> bool {
        let mut any = false;
        for stmt in body {
            match stmt {
                Stmt::For { index, domain, lanes, body, .. } => {
                    let lanes = self.lanes(*index, *lanes);
                    let around = around.max(lanes);
                    let is_few = literal(domain).is_some_and(|n| n <= i64::from(JAM));
                    let is_range = lanes == 1 && matches!(domain, Domain::Range { .. });
                    let can = is_range && self.shares(*index, body, around) && !adds_where_told(*index, domain, body);
                    if self.interleave(body, around, can_outside || can && !is_few) {
                        any = true;
                    } else if can && !(can_outside && is_few) {
                        self.jam.insert(*index, JAM);
                        any = true;
                    }
                }
                Stmt::If { body, .. } | Stmt::Extremum { body, .. } => {
                    any |= self.interleave(body, around, can_outside)
                }
                _ => {}
            }
        }
        any
    }

    /// Whether iterations of a loop can be interleaved, and it pays.
    fn shares(&self, index: IndexId, body: &[Stmt], around: u32) -> bool {
        let gain = Gain::of(self, index, body, around);
        gain.pays && gain.fits && could_jam(self, index, body)
    }

    /// Whether iterations of a loop in a body could be interleaved inside of lanes.
    fn could_interleave(&self, body: &[Stmt]) -> bool {
        body.iter().any(|stmt| match stmt {
            Stmt::For { index, domain: domain @ Domain::Range { .. }, body, .. } => {
                !is_short(domain) && self.shares(*index, body, LANES_OF_ELEMENTS)
            }
            _ => false,
        })
    }

    /// Exchanges half of the vectors of lanes inside of interleaved iterations for twice as many iterations, where all products are in them.
    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            let mut found = Blocks::default();
            if let Stmt::For { index, jam, body, .. } = stmt
                && self.jam(*index, *jam) > 1
            {
                found.body(self, body);
            }
            match stmt {
                Stmt::For { .. } if found.inside > 0 && found.outside == 0 => self.halve(std::slice::from_ref(stmt)),
                Stmt::For { body, .. } | Stmt::If { body, .. } | Stmt::Extremum { body, .. } => self.block(body),
                _ => {}
            }
        }
    }

    /// Exchanges vectors of lanes that go on to be added up, around products of interleaved iterations, for as many iterations as in other blocks.
    /// `around` is the loop around whose iterations are interleaved.
    fn block_sums(&mut self, body: &[Stmt], around: Option<IndexId>) {
        for stmt in body {
            let Stmt::For { index, lanes, jam, body, .. } = stmt else {
                self.block_sums(stmt.body(), around);
                continue;
            };
            let around = if self.jam(*index, *jam) > 1 { Some(*index) } else { around };
            let jammed = if self.lanes(*index, *lanes) > VECTOR && adds_up_loops(body) {
                around.or_else(|| self.jammed_inside(body))
            } else {
                None
            };
            match jammed {
                Some(jammed) => {
                    self.lanes.insert(*index, VECTOR);
                    self.jam.insert(jammed, JAM * 2);
                }
                None => self.block_sums(body, around),
            }
        }
    }

    /// The only loop inside whose iterations are interleaved.
    fn jammed_inside(&self, body: &[Stmt]) -> Option<IndexId> {
        let mut found = BTreeSet::new();
        for stmt in body {
            stmt.visit(&mut |stmt| {
                if let Stmt::For { index, jam, .. } = stmt {
                    found.extend((self.jam(*index, *jam) > 1).then_some(*index));
                }
            });
        }
        found.pop_first().filter(|_| found.is_empty())
    }

    fn halve(&mut self, body: &[Stmt]) {
        for stmt in body {
            let Stmt::For { index, lanes, jam, body, .. } = stmt else { continue };
            if self.lanes(*index, *lanes) == LANES_OF_ELEMENTS {
                self.lanes.insert(*index, LANES_OF_ELEMENTS / 2);
            }
            if self.jam(*index, *jam) == JAM {
                self.jam.insert(*index, JAM * 2);
            }
            self.halve(body);
        }
    }
}

/// What the pass would make of a loop over an index, as far as it is known from its body. Of two bodies, one after the other, it is known from
/// that of each.
#[derive(Clone, Copy)]
pub(super) struct Traits {
    /// There are loops in the body.
    has_loops: bool,
    /// It can run in lanes around these, and loads or stores neighbours, and nothing from afar.
    can: bool,
    neighbours: bool,
    gathers: bool,
    /// Iterations of a loop inside are interleaved.
    is_interleaved: bool,
    gain: Gain,
    can_jam: bool,
}

impl Traits {
    /// Those of a body, where some buffers have other axes last by then.
    pub(super) fn of(index: IndexId, body: &[Stmt], last: &Last) -> Traits {
        let mut plan = Plan { contraction: Contraction::of(body), last: Some(last), ..Plan::default() };
        let mut seen = Seen::new(&plan, index);
        seen.around = true;
        let can = body.iter().all(|stmt| seen.stmt(stmt)) && !plan.stores_neighbours_inside(index, body);
        let Seen { neighbours, gathers, .. } = seen;
        plan.run_in_lanes(body);
        let (gain, can_jam) = (Gain::of(&plan, index, body, 1), could_jam(&plan, index, body));
        Traits {
            has_loops: body.iter().any(|stmt| matches!(stmt, Stmt::For { .. })),
            can,
            neighbours,
            gathers,
            is_interleaved: plan.interleave(body, 1, gain.pays && gain.fits && can_jam),
            gain,
            can_jam,
        }
    }

    /// Those of a body and another one behind it.
    pub(super) fn and(self, other: Traits) -> Traits {
        Traits {
            has_loops: self.has_loops | other.has_loops,
            can: self.can & other.can,
            neighbours: self.neighbours | other.neighbours,
            gathers: self.gathers | other.gathers,
            is_interleaved: self.is_interleaved | other.is_interleaved,
            gain: Gain { pays: self.gain.pays | other.gain.pays, fits: self.gain.fits & other.gain.fits },
            can_jam: self.can_jam & other.can_jam,
        }
    }

    /// Whether the loop runs in lanes that are independent of each other, around other loops.
    pub(super) fn is_independent(&self) -> bool {
        self.has_loops && self.can && self.neighbours && !self.gathers
    }

    /// Whether its iterations are interleaved, since it has no lanes.
    pub(super) fn interleaves(&self) -> bool {
        !self.is_independent() && !self.is_interleaved && self.gain.pays && self.gain.fits && self.can_jam
    }
}

/// How many products of interleaved iterations are in 32 lanes, and how many are not.
#[derive(Default)]
struct Blocks {
    inside: usize,
    outside: usize,
}

impl Blocks {
    fn body(&mut self, plan: &Plan<'_>, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                stmt if is_border(stmt) => {}
                Stmt::For { index, lanes, body, .. } if plan.lanes(*index, *lanes) == LANES_OF_ELEMENTS => {
                    for stmt in body {
                        stmt.visit(&mut |stmt| self.inside += usize::from(plan.adds_product(stmt)));
                    }
                }
                stmt if plan.adds_product(stmt) => self.outside += 1,
                stmt => self.body(plan, stmt.body()),
            }
        }
    }
}

/// What interleaving the iterations over an index would do to the loops inside.
#[derive(Clone, Copy)]
struct Gain {
    /// Some factor is loaded once for all iterations.
    pays: bool,
    /// All partial sums stay in registers, and every sum gains.
    fits: bool,
}

impl Gain {
    fn of(plan: &Plan<'_>, index: IndexId, body: &[Stmt], around: u32) -> Gain {
        let mut gain = Gain { pays: false, fits: true };
        gain.body(plan, &mut BTreeSet::from([index]), body, around);
        gain
    }

    /// Statements, where some indices are others in each iteration.
    fn body(&mut self, plan: &Plan<'_>, own: &mut BTreeSet<IndexId>, body: &[Stmt], around: u32) {
        for stmt in body {
            match stmt {
                // A few places at the ends of rows neither gain nor cost much.
                stmt if is_border(stmt) => {}
                Stmt::For { index: inner, domain, lanes, body, .. } => {
                    if moves(domain, own) {
                        own.insert(*inner);
                    }
                    let around = around.max(plan.lanes(*inner, *lanes));
                    match body.iter().all(|stmt| stmt.body().is_empty()) {
                        true => self.innermost(plan, own, body, around),
                        false => self.body(plan, own, body, around),
                    }
                }
                stmt => self.body(plan, own, stmt.body(), around),
            }
        }
    }

    /// A loop of loads and sums.
    fn innermost(&mut self, plan: &Plan<'_>, own: &BTreeSet<IndexId>, body: &[Stmt], lanes: u32) {
        let products = body.iter().filter(|stmt| plan.adds_product(stmt)).count();
        if products == 0 {
            return;
        }
        let loads = || body.iter().filter_map(Stmt::load);
        let mentions = |place: &Place| place.at.iter().any(|a| own.iter().any(|i| a.mentions(*i)));
        self.fits &= !has_calls(body) && products as u32 * lanes.div_ceil(VECTOR) * JAM <= PARTIAL_SUMS;
        let shared = lanes > VECTOR && loads().any(mentions) && loads().any(|place| !mentions(place));
        self.pays |= shared;
        // Nothing else would be loaded once, but more of memory would be in use at a time.
        self.fits &= shared;
    }
}

/// Whether a range is a few values that follow some indices, in steps: both of its ends are fractions of them, as in a convolution with a stride.
fn moves(domain: &Domain, own: &BTreeSet<IndexId>) -> bool {
    let Domain::Range { lower, upper } = domain else { return false };
    let follows = |bound: &Bound| bound.divisor > 1 && own.iter().any(|i| bound.numerator.mentions(*i));
    lower.iter().any(follows) && upper.iter().any(follows)
}

/// Whether a body adds what comes of its innermost loops to registers outside, not these loops themselves.
fn adds_up_loops(body: &[Stmt]) -> bool {
    let mut innermost = BTreeSet::new();
    for stmt in body {
        stmt.visit(&mut |stmt| {
            if matches!(stmt, Stmt::For { .. }) && !stmt.body().iter().any(has_loop) {
                innermost.append(&mut outer_sums(stmt.body()));
            }
        });
    }
    let sums = outer_sums(body);
    !innermost.is_empty() && !sums.is_empty() && sums.is_disjoint(&innermost)
}

/// Whether a loop around others runs in lanes that are independent of each other.
pub(super) fn independent(index: IndexId, body: &[Stmt]) -> bool {
    let whole = Domain::Range { lower: Vec::new(), upper: Vec::new() };
    body.iter().any(|stmt| matches!(stmt, Stmt::For { .. })) && choose(&Plan::default(), index, &whole, body).is_some()
}

/// The lanes of a loop, nothing where it has none.
fn choose(plan: &Plan<'_>, index: IndexId, domain: &Domain, body: &[Stmt]) -> Option<u32> {
    let mut seen = Seen::new(plan, index);
    if !seen.body(body) || adds_where_told(index, domain, body) {
        return None;
    }
    let over_entries = matches!(domain.whole_of(), Domain::Segment(_));
    // What a short loop has stored one by one, a vector would have to wait for.
    // Functions take as long for a few numbers as for all lanes.
    let is_few = literal(domain).is_some_and(|n| n <= FEW);
    if is_short(domain) && if seen.has_loops { seen.only_short } else { !seen.has_calls || is_few } {
        return None;
    }
    match (seen.has_loops, changes_outside(body)) {
        (false, false) if seen.is_long() => Some(VECTOR),
        // Lanes would be taken apart again.
        (false, false) if seen.scatters && !seen.has_calls => None,
        (true, _) if seen.gathers || !seen.neighbours => None,
        (true, _) if seen.has_calls => Some(LANES_AROUND_CALLS),
        (true, _) if seen.over_entries && !plan.could_interleave(body) => Some(LANES_AROUND_ENTRIES),
        (true, true) if seen.only_short => Some(LANES_OF_SUMS),
        // Rows are read in pieces of two lines then, and all registers still hold the sums.
        (true, _) if seen.sums == MANY_SUMS => Some(LANES_OF_SUMS),
        (true, _) if seen.sums > MANY_SUMS => Some(VECTOR),
        (true, _) => Some(LANES_OF_ELEMENTS),
        (false, true) if over_entries && seen.only_loads_apart() => None,
        (false, true) if over_entries || seen.sums >= MANY_SUMS => Some(VECTOR),
        (false, true) => Some(LANES_OF_SUMS),
        (false, false) if over_entries || seen.has_calls => Some(VECTOR),
        (false, false) => Some(LANES_OF_ELEMENTS),
    }
}

/// The lanes of a loop around others, in which nothing else has any, where numbers are a few places apart: those of a pooling, or a convolution with a stride.
fn near(plan: &Plan<'_>, index: IndexId, domain: &Domain, body: &[Stmt]) -> Option<u32> {
    let mut seen = Seen::new(plan, index);
    let can = seen.body(body) && seen.has_loops && seen.near > 0 && seen.far == seen.near;
    (can && !is_short(domain) && matches!(domain.whole_of(), Domain::Range { .. }))
        .then_some(if seen.has_calls || seen.sums >= MANY_SUMS { VECTOR } else { LANES_OF_SUMS })
}

/// Whether a loop has lanes.
pub(super) fn has_lanes(index: IndexId, domain: &Domain, body: &[Stmt]) -> bool {
    let plan = Plan { contraction: Contraction::of(body), ..Plan::default() };
    choose(&plan, index, domain, body).is_some()
}

/// Whether a row without loops has so much arithmetic that it runs in lanes, wherever its numbers are.
pub(super) fn is_long_row(index: IndexId, body: &[Stmt]) -> bool {
    let plan = Plan { contraction: Contraction::of(body), ..Plan::default() };
    let mut seen = Seen::new(&plan, index);
    seen.body(body) && !seen.has_loops && !changes_outside(body) && seen.is_long()
}

/// What the body of a loop does that differs from lane to lane.
struct Seen<'a> {
    plan: &'a Plan<'a>,
    index: IndexId,
    /// Whether there are loops beside a statement, which take more time than it.
    around: bool,
    indices: BTreeSet<IndexId>,
    /// Those of them that an array gives in steps.
    steps: BTreeSet<IndexId>,
    /// Those of loops around a statement, inside of the lanes, and whether one of these takes many values.
    inner: Vec<IndexId>,
    is_again: bool,
    /// Those of sums inside over a few values.
    few: BTreeSet<IndexId>,
    reals: BTreeSet<RealId>,
    has_loops: bool,
    /// All of them have a short literal length.
    only_short: bool,
    /// Some of them over entries.
    over_entries: bool,
    has_calls: bool,
    /// How many sums an innermost loop has at most.
    sums: usize,
    /// Neighbours are loaded or stored.
    neighbours: bool,
    /// Places far apart are, in the innermost loops.
    gathers: bool,
    /// Places are stored that an array gives.
    scatters: bool,
    /// How many places far apart are loaded or stored, how many of these in steps of a few places, and how many operations there are.
    far: usize,
    near: usize,
    operations: usize,
}

impl Seen<'_> {
    fn new<'a>(plan: &'a Plan<'a>, index: IndexId) -> Seen<'a> {
        Seen {
            plan,
            index,
            around: false,
            indices: [index].into(),
            steps: BTreeSet::new(),
            inner: Vec::new(),
            is_again: false,
            few: BTreeSet::new(),
            reals: BTreeSet::new(),
            has_loops: false,
            only_short: true,
            over_entries: false,
            has_calls: false,
            sums: 0,
            neighbours: false,
            gathers: false,
            scatters: false,
            far: 0,
            near: 0,
            operations: 0,
        }
    }

    /// Whether there is so much arithmetic that it pays for places far apart.
    fn is_long(&self) -> bool {
        self.far > 0 && self.operations >= ROW_WORK.max(ROW_DENSITY.saturating_mul(self.far))
    }

    /// Whether all numbers are loaded from places far apart, with little arithmetic on them.
    fn only_loads_apart(&self) -> bool {
        !self.neighbours && !self.has_calls && self.far > 0 && self.operations < ROW_DENSITY.saturating_mul(self.far)
    }

    fn varies(&self, a: &Affine) -> bool {
        a.terms().iter().any(|(v, _)| matches!(v, Var::Index(i) if self.indices.contains(i)))
    }

    /// Whether statements can run in lanes.
    fn body(&mut self, body: &[Stmt]) -> bool {
        // A loop over a few values becomes statements.
        let is_long = |stmt: &Stmt| match stmt {
            Stmt::For { domain, .. } => literal(domain).is_none_or(|n| n > FEW),
            _ => false,
        };
        let around = std::mem::replace(&mut self.around, body.iter().any(is_long));
        let can = body.iter().all(|stmt| self.stmt(stmt));
        if !self.around {
            let is_sum = |stmt: &&Stmt| matches!(stmt, Stmt::Accumulate(..) | Stmt::MulAdd(..));
            self.sums = self.sums.max(body.iter().filter(is_sum).count());
        }
        self.around = around;
        can
    }

    fn stmt(&mut self, stmt: &Stmt) -> bool {
        let mut varies = false;
        stmt.visit_affine(&mut |a| varies |= self.varies(a));
        match stmt {
            Stmt::For { index, domain, body, .. } => {
                self.has_loops = true;
                // A loop over many values in between goes through the rows again for each column.
                let few = self.few.clone();
                match literal(domain) {
                    Some(n) if n <= FEW => self.few.extend(stores(body).is_empty().then_some(*index)),
                    _ => self.few.clear(),
                }
                self.only_short &= is_short(domain) && !has_fractions(domain);
                self.over_entries |= matches!(domain.whole_of(), Domain::Segment(_));
                let again = self.is_again;
                self.is_again |= !is_short(domain);
                self.inner.push(*index);
                let can = !varies && self.body(body);
                self.inner.pop();
                (self.few, self.is_again) = (few, again);
                can
            }
            Stmt::If { cond, body } => {
                cond.visit_reads(&mut |r| varies |= self.reals.contains(&r));
                !varies && self.body(body)
            }
            Stmt::Find { .. } | Stmt::Length { .. } => !varies,
            Stmt::Extremum { .. } | Stmt::Fill(_) | Stmt::Tuple(..) | Stmt::Call { .. } | Stmt::End(_) => false,
            Stmt::Let { index, step, .. } => {
                if varies {
                    self.indices.insert(*index);
                    self.steps.extend(step.map(|_| *index));
                }
                true
            }
            Stmt::Define(r, real) => {
                real.visit_reads(&mut |a| varies |= self.reals.contains(&a));
                if varies {
                    self.reals.insert(*r);
                }
                match real {
                    Real::Load(place) => self.place(place),
                    Real::Apply(function, _) => {
                        self.has_calls |= function.is_call();
                        self.operations += 1;
                    }
                    Real::Mul(..) if self.plan.contraction.moves(*r) => {}
                    Real::Add(..) | Real::Mul(..) | Real::MulAdd(..) => self.operations += 1,
                    Real::Literal(_) | Real::Index(_) | Real::Select(..) => {}
                }
                true
            }
            // A number for each lane.
            Stmt::Local(r) => {
                self.reals.insert(*r);
                true
            }
            // What is outside has one number, and that of the last lane would be the one.
            Stmt::Assign(r, _) => self.reals.contains(r),
            Stmt::Accumulate(..) | Stmt::MulAdd(..) | Stmt::Extend(..) => true,
            Stmt::Store(place, _) => {
                self.place(place);
                let terms = place.at.iter().flat_map(Affine::terms);
                let known = |i: &IndexId| *i == self.index || self.steps.contains(i);
                let given = |v: &Var| matches!(v, Var::Index(i) if !known(i) && self.indices.contains(i));
                self.scatters |= terms.into_iter().any(|(v, _)| given(v));
                true
            }
        }
    }

    /// Whether lanes are at one column of neighbouring rows of a few numbers, which are loaded whole.
    fn is_column(&self, place: &Place, axis: usize) -> bool {
        let is_few = place.at.get(axis).is_some_and(|a| match a.as_constant() {
            Some(column) => (0..FEW).contains(&column),
            None => a.as_index().is_some_and(|i| self.few.contains(&i)),
        });
        let mut rows = place.at.iter().enumerate().filter(|(at, _)| *at != axis);
        is_few
            && axis + 1 == place.at.len()
            && rows.all(|(at, a)| {
                let step = a.coefficient(&Var::Index(self.index));
                if at + 1 == axis { step == 1 } else { !self.varies(a) }
            })
    }

    fn place(&mut self, place: &Place) {
        let axis = self.plan.last_axis(place);
        let Some(last) = place.at.get(axis) else { return };
        let step = last.coefficient(&Var::Index(self.index));
        let rest = last.terms().iter().filter(|(v, _)| *v != Var::Index(self.index));
        let rest_varies = rest.into_iter().any(|(v, _)| matches!(v, Var::Index(i) if self.indices.contains(i)));
        let others_vary = place.at.iter().enumerate().any(|(at, a)| at != axis && self.varies(a));
        match (others_vary || rest_varies, step) {
            (false, 0) => {}
            (true, 0) if !rest_varies && self.is_column(place, axis) => self.neighbours = true,
            (false, 1) => self.neighbours = true,
            (others, step) => {
                // What the loops inside do not change is loaded before them.
                let is_once = self.is_again && !place.at.iter().any(|a| self.inner.iter().any(|i| a.mentions(*i)));
                self.gathers |= !self.around && !is_once;
                self.far += 1;
                self.near += usize::from(!others && step.unsigned_abs() <= FEW.unsigned_abs());
            }
        }
    }
}

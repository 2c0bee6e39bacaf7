//! What a nest does with rows, if each block of them can do it alone.

use std::collections::{BTreeMap, BTreeSet};

use super::{Known, PARTS, Rows};
use crate::base::IndexId;
use crate::index::{Affine, Checked};
use crate::loops::{BufferId, Domain, Nest, Place, Real, RealId, Stmt, declared, mentioned, stored};
use crate::schedule::machine::FEW_VALUES;

/// What a nest does with rows.
#[derive(Default)]
pub(super) struct Uses {
    /// The registers outside of loops over rows that have sums over rows.
    pub sums_in: BTreeSet<RealId>,
    /// What it stores of rows, or reads of what others of the nests store, with the axes that have the row at all places.
    pub axes: BTreeMap<BufferId, Vec<usize>>,
    /// Where it stores sums over rows.
    pub sums: BTreeSet<BufferId>,
    /// Those of them that have a place for each part, as it is.
    pub of_parts: BTreeSet<BufferId>,
    /// What it stores that is the same for all blocks.
    pub alike: BTreeSet<BufferId>,
    /// The registers and indices outside of loops over rows that each block has for itself, as a loop may end for each after other steps.
    pub of_blocks: (BTreeSet<RealId>, BTreeSet<IndexId>),
}

/// Which loops are over rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    /// Those over all.
    Nest,
    /// Those over the rows of a block.
    Block(IndexId),
    /// Those over the rows of a part.
    Part(IndexId),
}

impl Around {
    /// What a loop at the top of a nest is around.
    pub fn of<'s>(rows: &Rows, stmt: &'s Stmt) -> Option<(Around, &'s [Stmt])> {
        let Stmt::For { index, domain, lanes: 1, jam: 1, parallel: true, body } = stmt else { return None };
        if *domain == rows.blocks() {
            return Some((Around::Block(*index), body));
        }
        let around = Around::Part(*index);
        let has_part = |stmt: &Stmt| around.is_over_rows(rows, stmt).unwrap_or(false);
        let parts = Domain::whole(&Affine::constant(i64::from(PARTS))).ok()?;
        (*domain == parts && body.iter().any(has_part)).then_some((around, body))
    }

    /// Whether a statement is a loop over rows.
    pub fn is_over_rows(self, rows: &Rows, stmt: &Stmt) -> Checked<bool> {
        let Stmt::For { domain, .. } = stmt else { return Ok(false) };
        Ok(match self {
            Around::Nest => *domain == rows.whole(),
            Around::Block(block) => *domain == rows.of_block(&Affine::index(block))?,
            Around::Part(own) => match domain {
                Domain::Part { whole, part, parts: PARTS, .. } => {
                    **whole == rows.whole() && part.as_index() == Some(own)
                }
                _ => false,
            },
        })
    }

    fn index(self) -> Option<IndexId> {
        match self {
            Around::Nest => None,
            Around::Block(index) | Around::Part(index) => Some(index),
        }
    }
}

/// What a nest does with rows, beside nests that store `inside`, as far as it is `known`; nothing where blocks cannot do it alone.
pub(super) fn uses(nest: &Nest, rows: &Rows, inside: &BTreeSet<BufferId>, known: &Known) -> Checked<Option<Uses>> {
    let mut made = inside.clone();
    made.extend(stored(&nest.body));
    // Which registers have sums is known when no more are found.
    let mut sums_in = BTreeSet::new();
    loop {
        let count = sums_in.len();
        let uses = Uses { sums_in, ..Uses::default() };
        let mut walk = Walk { rows, made: &made, known, uses, outer: Vec::new(), over_rows: 0 };
        if !walk.nest(&nest.body)? {
            return Ok(None);
        }
        if walk.uses.sums_in.len() == count {
            let fine = walk.over_rows > 0 && walk.is_linear() && walk.sort_stores();
            return Ok(fine.then_some(walk.uses));
        }
        sums_in = walk.uses.sums_in;
    }
}

/// A statement outside of loops over rows that has no statements inside.
struct Outer<'a> {
    stmt: &'a Stmt,
    /// Whether no loop and no test is around, but those of blocks and parts.
    is_top: bool,
    /// Whether it is in a loop over parts, and whether it mentions the index of that.
    in_parts: bool,
    is_of_part: bool,
    /// Whether, if it stores, no two iterations do so to the same place.
    is_once: bool,
}

struct Walk<'a> {
    rows: &'a Rows,
    /// What this nest and those before it store.
    made: &'a BTreeSet<BufferId>,
    known: &'a Known,
    uses: Uses,
    outer: Vec<Outer<'a>>,
    /// How many loops over rows there are.
    over_rows: usize,
}

impl<'a> Walk<'a> {
    fn nest(&mut self, body: &'a [Stmt]) -> Checked<bool> {
        let mut in_parts = 0;
        for stmt in body {
            let (around, own) = Around::of(self.rows, stmt).unwrap_or((Around::Nest, std::slice::from_ref(stmt)));
            in_parts += usize::from(matches!(around, Around::Part(_)));
            let fine = self.outside(own, around, &mut Vec::new(), true)?;
            if !fine {
                return Ok(false);
            }
        }
        // What stands beside parts is computed once for each part.
        let beside = body.iter().filter(|stmt| !stmt.body().is_empty()).count();
        Ok(in_parts == 0 || in_parts == 1 && beside == 1)
    }

    /// Statements outside of loops over rows, in loops over `around` and `loops`; whether blocks can do alone what they do.
    // Loops and tests nest to a bounded depth.
    fn outside(&mut self, body: &'a [Stmt], around: Around, loops: &mut Vec<IndexId>, top: bool) -> Checked<bool> {
        let in_parts = matches!(around, Around::Part(_));
        for stmt in body {
            if (top || !in_parts) && around.is_over_rows(self.rows, stmt)? {
                self.over_rows += 1;
                if !self.row(stmt, around) {
                    return Ok(false);
                }
                continue;
            }
            let mut mentions = false;
            stmt.visit_indices(&mut |i| mentions |= Some(i) == around.index());
            if mentions && !(in_parts && top && stmt.store().is_some()) || !self.reads_well(stmt) {
                return Ok(false);
            }
            let mut has_sum = false;
            stmt.visit_reads(&mut |r| has_sum |= self.uses.sums_in.contains(&r));
            if self.is_of_block(stmt) {
                if in_parts && (has_sum || !top) {
                    return Ok(false);
                }
                let (reals, indices) = &mut self.uses.of_blocks;
                indices.extend(stmt.defines());
                if let Stmt::Define(r, _) = stmt {
                    reals.insert(*r);
                }
                reals.extend(stmt.changes());
            }
            match stmt {
                Stmt::If { body, .. } if has_sum || !self.outside(body, around, loops, false)? => return Ok(false),
                Stmt::For { index, domain, lanes, body, .. } => {
                    let before = self.over_rows;
                    loops.push(*index);
                    let fine = self.outside(body, around, loops, false)?;
                    loops.pop();
                    // What is the same for all blocks is no long work.
                    let is_short =
                        || domain.whole_extent().and_then(|n| n.as_constant()).is_some_and(|n| n <= FEW_VALUES);
                    if !fine || if self.over_rows > before { *lanes > 1 } else { !is_short() } {
                        return Ok(false);
                    }
                }
                Stmt::Fill(_) if !top || around != Around::Nest => return Ok(false),
                Stmt::Extremum { .. } | Stmt::Tuple(..) | Stmt::Call { .. } => return Ok(false),
                Stmt::Define(r, _) | Stmt::Assign(r, _) | Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) if has_sum => {
                    self.uses.sums_in.insert(*r);
                }
                _ => {}
            }
            if stmt.body().is_empty() {
                let at = stmt.store().map_or(&[][..], |place| &place.at);
                let own = |i: &IndexId| at.iter().filter(|a| a.as_index() == Some(*i)).count() == 1;
                let plain = at.iter().all(|a| a.as_constant().is_some() || a.as_index().is_some());
                let is_once = plain && loops.iter().all(own);
                self.outer.push(Outer { stmt, is_top: top, in_parts, is_of_part: mentions, is_once });
            }
        }
        Ok(true)
    }

    /// Whether a statement depends on what each block stores for itself.
    fn is_of_block(&self, stmt: &Stmt) -> bool {
        let (reals, indices) = &self.uses.of_blocks;
        let mut is_own = stmt.loads().any(|place| self.known.alike.contains(&place.buffer));
        stmt.visit_reads(&mut |r| is_own |= reals.contains(&r));
        stmt.visit_indices(&mut |i| is_own |= indices.contains(&i));
        is_own
    }

    /// Whether a statement outside of loops over rows reads nothing of a row, and no sum that others have stored.
    fn reads_well(&self, stmt: &Stmt) -> bool {
        stmt.loads().all(|place| !self.made.contains(&place.buffer) || self.known.alike.contains(&place.buffer))
    }

    /// A loop over rows: whether what it stores, and reads of what was stored here, is of the row, and it reads no sum.
    fn row(&mut self, stmt: &'a Stmt, around: Around) -> bool {
        let Stmt::For { index: row, body, .. } = stmt else { return false };
        let inside = declared(body);
        let mut fine = !around.index().is_some_and(|i| mentioned(body).contains(&i));
        for stmt in body {
            stmt.visit(&mut |stmt| {
                stmt.visit_reads(&mut |r| fine &= inside.contains(&r) || !self.uses.sums_in.contains(&r));
                match stmt {
                    Stmt::Fill(_) | Stmt::Tuple(..) | Stmt::Call { .. } => fine = false,
                    Stmt::Assign(r, _) | Stmt::Extend(_, r, _) => fine &= inside.contains(r),
                    Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) if !inside.contains(r) => {
                        self.uses.sums_in.insert(*r);
                    }
                    _ => {}
                }
                let loads = stmt.loads().filter(|place| !self.known.alike.contains(&place.buffer));
                for place in loads.chain(stmt.stores()).filter(|place| self.made.contains(&place.buffer)) {
                    let all = || (0..place.at.len()).collect();
                    let axes = self.uses.axes.entry(place.buffer).or_insert_with(all);
                    axes.retain(|axis| place.at.get(*axis).and_then(Affine::as_index) == Some(*row));
                    fine &= !axes.is_empty();
                }
            });
        }
        fine
    }

    /// Whether all that is made of sums is linear in them, but for what is added and alike. Where a loop ends at a sum, there is no other one, and it is
    /// nothing else.
    fn is_linear(&self) -> bool {
        let has_sum = |r: &RealId| self.uses.sums_in.contains(r);
        let stmts = || self.outer.iter().map(|outer| outer.stmt);
        let mut ends = stmts().filter_map(|stmt| if let Stmt::End(r) = stmt { Some(*r) } else { None });
        if let Some(end) = ends.next() {
            let others = stmts().filter(|stmt| !matches!(stmt, Stmt::End(_)));
            let is_own = others.fold(true, |is_own, stmt| {
                let mut is_read = stmt.changes() == Some(end);
                stmt.visit_reads(&mut |r| is_read |= r == end);
                is_own && !is_read
            });
            return ends.all(|other| other == end) && is_own && self.uses.sums_in.iter().all(|r| *r == end);
        }
        // What is alike is added with the first block, and parts know no first one.
        let may_add = |outer: &Outer<'_>, a: bool, b: bool| a == b || !outer.in_parts;
        let product = |a: &RealId, b: &RealId| has_sum(a) || has_sum(b);
        self.outer.iter().all(|outer| match outer.stmt {
            Stmt::Define(_, Real::Add(a, b)) => may_add(outer, has_sum(a), has_sum(b)),
            Stmt::Define(_, Real::Mul(a, b)) => !(has_sum(a) && has_sum(b)),
            Stmt::Define(_, Real::MulAdd(a, b, c)) | Stmt::MulAdd(c, a, b) => {
                !(has_sum(a) && has_sum(b)) && may_add(outer, product(a, b), has_sum(c))
            }
            Stmt::Define(_, Real::Select(test, _)) => !has_sum(test),
            Stmt::Define(_, Real::Apply(_, of)) => !of.iter().any(has_sum),
            Stmt::Accumulate(r, x) | Stmt::Assign(r, x) => may_add(outer, has_sum(r), has_sum(x)),
            Stmt::Extend(_, r, x) => !has_sum(r) && !has_sum(x),
            _ => true,
        })
    }

    /// Tells what is stored outside of loops over rows: sums, each place once, or what is alike. Only sums and rows are made zero.
    fn sort_stores(&mut self) -> bool {
        let mut of: BTreeMap<BufferId, Vec<(&Place, RealId, &Outer<'_>)>> = BTreeMap::new();
        for outer in &self.outer {
            if let Stmt::Store(place, x) = outer.stmt {
                of.entry(place.buffer).or_default().push((place, *x, outer));
            }
        }
        for (buffer, stores) in of {
            let is_sum = |x: &RealId| self.uses.sums_in.contains(x);
            let is_alike = !stores.iter().any(|(_, x, outer)| is_sum(x) || outer.is_of_part);
            if self.uses.axes.contains_key(&buffer) || !is_alike && !are_sums(&stores, &is_sum) {
                return false;
            }
            let kind = match (is_alike, stores.iter().all(|(_, _, outer)| outer.is_of_part)) {
                (true, _) => &mut self.uses.alike,
                (false, true) => &mut self.uses.of_parts,
                (false, false) => &mut self.uses.sums,
            };
            kind.insert(buffer);
        }
        let is_zero_first = |b: &BufferId| self.uses.sums.contains(b) || self.uses.axes.contains_key(b);
        self.outer.iter().all(|outer| !matches!(outer.stmt, Stmt::Fill(b) if !is_zero_first(b)))
    }
}

/// Whether each place is stored to once, and is a sum, but for what is no sum and is stored over at once.
fn are_sums(stores: &[(&Place, RealId, &Outer<'_>)], is_sum: &impl Fn(&RealId) -> bool) -> bool {
    stores.iter().enumerate().all(|(k, (place, x, outer))| {
        let mut later = stores.iter().skip(k + 1).filter(|(other, ..)| !place.is_apart(other)).peekable();
        match later.peek() {
            None => is_sum(x) && outer.is_once,
            Some(_) => !is_sum(x) && outer.is_top && later.all(|(other, _, over)| other == place && over.is_top),
        }
    })
}

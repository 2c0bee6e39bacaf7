//! Guards that say nothing: about sizes, at the border of a range, and that some entry exists.
//!
//! Derivatives come with guards that keep them from computing what nobody reads: `[n >= 1]` before a loop that is empty without it, and
//! `[exists k < n. S?(k, i)]` for the rows that some entry of `S` reads. A conjunct `p` of the guard of a statement `X` goes if
//!
//! ```text
//!   readers:   wherever X is read, p holds, by the ranges and the guard of the reader
//!   operands:  X = gen g. sum s. [p and q] * Y[a] * Z[b], and wherever p fails Y[a] is 0, and Z[b] is 0 too or finite
//! ```
//!
//! *Finite* means whatever the data are: where a guard kept a NaN out, or something that overflows, it stays. There are two exceptions. Of what fails
//! for some sizes alone nothing has to be finite: what is 0 at all its places then, for its ranges or for what its guards say of indices and sizes,
//! is 0 in every [product](crate::tssa::vanishing). And data, and products of them, may be [taken to be finite](super::Options::finite_data) in a product
//! of matrices, whose factors have a summed index in common, where a guard says that some entry exists, since one of them has been multiplied by a
//! sparse one: with a test inside, the product would take many times as long. So they may in any product where a guard says that some number of a
//! computed tensor is not zero, as of what several `relu`s read: to find out takes as long as a product of its own. Where they are not, 0 becomes
//! `0 * inf`, NaN; so this is done only where every NaN of the product is seen in a result, by sums, products and functions that
//! [keep it](crate::scalar::Function::keeps_nan). Results without one are those of the guarded program, and whoever finds one runs that.
//!
//! What keeps a read of a sparse parameter inside of its pattern stays: such a read has no value elsewhere.
//!
//! In the first case `X` changes only where nobody looks, or where a finite number is multiplied by 0; in the second it does not change. A
//! condition on sizes that fails wherever `X` is read makes it 0. An `or` or `exists` that the other conjuncts imply goes in any case: where
//! `Y[a] != 0` is one of them, the guard of `Y` holds.
//!
//! **Work.** Only guards go that save none by the [estimate](crate::solver::estimate): one about sizes restricts nothing if it holds for large ones,
//! a bound that leaves out a place or two is nothing for large sizes, and an `exists` goes where there are more entries than places.
//! `[exists b < B. tok(b, v)]`, the rows of a large table that a batch reads, stays. Nothing is computed of a tensor in
//! other places, so bounds save nothing where it is compared. Whether one of several tests of computed numbers holds is
//! not asked before a product without a sum.

mod readings;

use std::cell::{LazyCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::base::{Id as _, IndexId, SideTable, VarId, work};
use crate::error::Result;
use crate::index::{Affine, Pred, RelationRef, Size, View};
use crate::scalar::{Function, Number, Op, Primitive};
use crate::solver::Facts;
use crate::tssa::print::rhs_text;
use crate::tssa::{Builder, Operand, Output, Program, Rhs, Stmt};

use self::readings::{Element, Factors, Held, Reading, Scope, common_sizes, guard_reads};
use super::Options;
use super::cost::Model;
use super::encode::partial_sums;
use super::expr::rename_pred;
use super::finite::{seen_nans, total};
use super::graph::slots;
use super::price::Pricing;
use super::rule::Tier;

/// One guard may go after another.
const MAX_PASSES: usize = 4;

/// How far operands of operands are asked where they are zero.
const MAX_DEPTH: usize = 3;

/// The same, where one of several tests of computed numbers holds: those of the terms of a sum.
const MAX_DEPTH_OF_TESTS: usize = 8;

/// How many facts about sizes readers tell what they read: in a chain of matrices of different sizes each would add one.
const MAX_SIZES: usize = 64;

/// How many cases are looked at where sums are not zero.
const MAX_CASES: usize = 4;

/// Indices of other statements are renamed to numbers from here on.
const FIRST_FRESH: u32 = 1 << 20;

/// Steps by which guards go, and what each says.
pub(super) const STEPS: [(&str, &str); 4] = [
    ("guard-known-to-readers", "a conjunct goes that holds wherever the tensor is read, or matters"),
    ("guard-known-from-factors", "a conjunct goes that holds wherever the factors are not zero"),
    ("guard-known-from-guards", "a conjunct goes that holds wherever the others do"),
    ("guard-excluded-by-readers", "a condition on sizes becomes false that fails wherever the tensor is read"),
];
const BY_READERS: &str = STEPS[0].0;
const BY_FACTORS: &str = STEPS[1].0;
const BY_OTHERS: &str = STEPS[2].0;
const EXCLUDED: &str = STEPS[3].0;

/// What has to be proved for a guard to go: in each of some cases what is known there implies the goal.
#[derive(Clone, Debug)]
pub(super) struct Obligation {
    goal: Pred,
    cases: Vec<Facts>,
}

impl Obligation {
    /// The same goal, where nothing is known.
    #[cfg(test)]
    pub(super) fn of_nothing(&self) -> Obligation {
        Obligation { goal: self.goal.clone(), cases: vec![Facts::new()] }
    }

    /// Proves it anew.
    pub(super) fn is_proved(&self) -> bool {
        self.cases.iter().all(|facts| facts.proves(&self.goal))
    }
}

/// A statement with fewer guards.
#[derive(Clone, Debug)]
pub(super) struct Dropped {
    pub(super) name: String,
    /// The right-hand sides before and after, as text.
    pub(super) sides: [String; 2],
    /// The [`STEPS`] that were taken.
    pub(super) steps: BTreeSet<&'static str>,
    pub(super) obligations: Vec<Obligation>,
    /// Whether data were taken to be finite for it.
    pub(super) trusts_data: bool,
}

/// The program without guards that say nothing, and the statements that had some. Where points are counted, a guard goes only if it saves none in
/// small worlds either.
pub(super) fn without_needless_guards(
    mut program: Program,
    model: &Model<'_>,
    options: &Options,
    counting: Option<&RefCell<Pricing<'_, '_>>>,
) -> Result<(Program, Vec<Dropped>)> {
    let mut weakened = Vec::new();
    for _ in 0..MAX_PASSES {
        let weaker = SideTable::new(program.stmts.len(), None);
        let pass = Pass {
            program: &program,
            model,
            counting,
            options,
            seen: seen_nans(&program),
            compared: compared(&program),
            always: total(&program, false),
            of_data: total(&program, true),
            weaker,
            current: None,
            final_only: false,
            trust: Trust::Always,
            next: FIRST_FRESH,
            steps: BTreeSet::new(),
            obligations: Vec::new(),
            trusts_data: false,
        };
        match pass.run(&mut weakened)? {
            Some(next) => program = next,
            None => break,
        }
    }
    Ok((program, weakened))
}

/// The statements that nothing but comparisons read.
fn compared(program: &Program) -> SideTable<VarId, bool> {
    let mut compared = SideTable::new(program.stmts.len(), true);
    for x in program.outputs.iter().flat_map(|output| &output.leaves) {
        compared.set(*x, false);
    }
    for (_, stmt) in program.stmts.iter() {
        if !matches!(&stmt.rhs, Rhs::Map { function: Function::Value(Primitive::Op(Op::Compare(_))), .. }) {
            stmt.rhs.for_each_operand(|y| compared.set(y, false));
        }
    }
    compared
}

/// What is trusted to be finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// What is whatever the data are.
    Always,
    /// What is where the data are, but for what grows faster than they do; in a product of matrices.
    OfData,
    /// The same in any product.
    OfDataAnywhere,
    /// Everything beside what is zero for the sizes alone.
    Sizes,
}

impl Trust {
    const ALL: [Trust; 4] = [Trust::Always, Trust::OfData, Trust::OfDataAnywhere, Trust::Sizes];

    /// What may be trusted for a predicate to go, of a product over so many axes: one after the other, as far as need be.
    fn for_predicate(p: &Pred, rank: usize) -> &'static [Trust] {
        match p {
            p if is_about_sizes(p) => &[Trust::Sizes],
            Pred::Exists { body, .. } if body.reads_computed() => &[Trust::Always, Trust::OfDataAnywhere],
            Pred::Exists { .. } if rank >= 2 => &[Trust::Always, Trust::OfData],
            _ => &[Trust::Always],
        }
    }

    fn is_of_data(self) -> bool {
        matches!(self, Trust::OfData | Trust::OfDataAnywhere)
    }

    /// What of it is trusted in a product over so many axes: data in a product of matrices only, whose factors are all read at one index over which
    /// it sums.
    fn in_product(self, factors: &[Element], rank: usize) -> Trust {
        let multiplies_matrices = factors.split_first().is_some_and(|((_, first), others)| {
            let mut summed = first.iter().filter(|a| a.as_index().is_some_and(|i| i.index() >= rank));
            summed.any(|i| others.iter().all(|(_, at)| at.contains(i)))
        });
        match self {
            Trust::OfData if !multiplies_matrices => Trust::Always,
            trust => trust,
        }
    }
}

struct Pass<'a, 'm, 's> {
    program: &'a Program,
    model: &'a Model<'a>,
    counting: Option<&'a RefCell<Pricing<'m, 's>>>,
    options: &'a Options,
    /// Whether a NaN among the elements of a statement is one of a result, unless it does not matter.
    seen: SideTable<VarId, bool>,
    /// Whether nothing but comparisons read a statement.
    compared: SideTable<VarId, bool>,
    /// Whether all elements of a statement are finite, whatever the data are.
    always: SideTable<VarId, bool>,
    /// Whether they are where the data are, but for what grows faster than they do.
    of_data: SideTable<VarId, bool>,
    /// The statements that were met, with the guards that they have left: what went may not be the reason for anything else.
    weaker: SideTable<VarId, Option<Stmt>>,
    /// The statement that is looked at: its own guard, which may go, is no reason for that.
    current: Option<VarId>,
    /// Whether guards of statements that are still to be met are no reason, since they may go; that sums are not over nothing stays one.
    final_only: bool,
    /// What is trusted to be finite beside an element that is zero.
    trust: Trust,
    next: u32,
    /// What was done to the statement that is looked at, and why it may be done.
    steps: BTreeSet<&'static str>,
    obligations: Vec<Obligation>,
    trusts_data: bool,
}

impl Pass<'_, '_, '_> {
    /// The program with fewer guards; nothing where all stay.
    fn run(mut self, weakened: &mut Vec<Dropped>) -> Result<Option<Program>> {
        let program = self.program;
        let count = program.stmts.len();
        let mut readings: SideTable<VarId, Vec<Reading>> = SideTable::new(count, Vec::new());
        for x in program.outputs.iter().flat_map(|output| &output.leaves) {
            let ranges = slots(&program.stmts[*x].dims);
            let at = Affine::indices(&ranges);
            let rank = ranges.len();
            let scope = Rc::new(Scope { ranges, factors: Factors::default(), rank });
            readings[*x].push(Reading { at, scope, holds: Vec::new(), seen: true });
        }
        let mut changed = false;
        let names = LazyCell::new(|| program.stmt_names());
        // Users come after their operands, so all readings of a statement are known when it is met.
        let live = program.live();
        let partial = partial_sums(program, &live);
        for x in program.stmts.ids().rev().filter(|x| live[*x]) {
            self.current = Some(x);
            (self.steps, self.obligations, self.trusts_data) = (BTreeSet::new(), Vec::new(), false);
            let mut known = common_sizes(&readings[x]);
            let mut rhs = match partial[x] {
                // The guards of a partial sum say to which part of the whole its terms belong.
                true => program.stmts[x].rhs.clone(),
                false => self.weaken(x, &readings[x], &mut known)?,
            };
            if !self.reads_stored(&program.stmts[x].dims, &rhs)? {
                rhs = program.stmts[x].rhs.clone();
            }
            let stmt = Stmt { dims: program.stmts[x].dims.clone(), rhs };
            if stmt != program.stmts[x] {
                changed = true;
                let text = |stmt: &Stmt| rhs_text(&program.signature, &names, stmt);
                weakened.push(Dropped {
                    name: names.get(x),
                    sides: [text(&program.stmts[x]), text(&stmt)],
                    steps: std::mem::take(&mut self.steps),
                    obligations: std::mem::take(&mut self.obligations),
                    trusts_data: self.trusts_data,
                });
            }
            let known = Held::all(known);
            for (operand, mut reading) in self.reads(&stmt) {
                reading.holds.push(known.clone());
                reading.seen = self.seen[x];
                readings[operand].push(reading);
            }
            self.weaker.set(x, Some(stmt));
        }
        if changed { rebuilt(program, &self.weaker).map(Some) } else { Ok(None) }
    }

    /// A right-hand side with fewer guards. What all readers know, and so what is read by `X` may rely on, is added to `known`.
    fn weaken(&mut self, x: VarId, readings: &[Reading], known: &mut Vec<Pred>) -> Result<Rhs> {
        let stmt = &self.program.stmts[x];
        let ranges = slots(&stmt.dims);
        Ok(match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => stmt.rhs.clone(),
            Rhs::Add([(p, y), (q, z)]) => {
                let here = Affine::indices(&ranges);
                let all = (ranges.as_slice(), ranges.len());
                let mut side = |p: &Pred, y: VarId| self.guard(p, readings, all, &[(y, here.clone())], known);
                Rhs::Add([(side(p, *y)?, *y), (side(q, *z)?, *z)])
            }
            Rhs::Map { guard, function, args } => Rhs::Map {
                guard: self.guard(guard, readings, (&ranges, ranges.len()), &[], known)?,
                function: *function,
                args: args.clone(),
            },
            Rhs::Contract { sums, guard, operands } => {
                let all: Vec<Size> = stmt.dims.iter().chain(sums).cloned().collect();
                let elements: Vec<Element> = operands.iter().map(element).collect();
                let guard = self.guard(guard, readings, (&slots(&all), ranges.len()), &elements, known)?;
                Rhs::Contract { sums: sums.clone(), guard, operands: operands.clone() }
            }
        })
    }

    /// Whether guards keep the reads of sparse parameters inside of their patterns, also where nobody looks.
    fn reads_stored(&mut self, dims: &[Size], rhs: &Rhs) -> Result<bool> {
        let here: Vec<IndexId> = slots(dims).into_iter().map(|(i, _)| i).collect();
        let whole = |x: VarId| Operand { var: x, indices: here.clone() };
        let (sums, reads): (&[Size], Vec<(&Pred, Operand)>) = match rhs {
            Rhs::Input { .. } | Rhs::Number(_) => return Ok(true),
            Rhs::Add(sides) => (&[], sides.iter().map(|(p, x)| (p, whole(*x))).collect()),
            Rhs::Map { guard, args, .. } => (&[], args.iter().map(|x| (guard, whole(*x))).collect()),
            Rhs::Contract { sums, guard, operands } => (sums, operands.iter().map(|x| (guard, x.clone())).collect()),
        };
        let all: Vec<Size> = dims.iter().chain(sums).cloned().collect();
        for (guard, operand) in reads {
            let (x, at) = element(&operand);
            let Rhs::Input { param, .. } = &self.program.stmts[x].rhs else { continue };
            let Some(param) = self.program.signature.params.get(*param) else { continue };
            let atom = param.storage.stored_at(&at);
            let known = atom.is_true() || guard.is_false() || guard.conjuncts().contains(&atom);
            let holds = std::slice::from_ref(guard);
            if !known && !self.facts(&slots(&all), holds, &[], MAX_DEPTH)?.iter().all(|facts| facts.proves(&atom)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an element is finite, by what is trusted.
    fn is_finite(&self, x: VarId, trust: Trust) -> bool {
        match trust {
            Trust::Always => self.always[x],
            Trust::OfData | Trust::OfDataAnywhere => self.of_data[x],
            Trust::Sizes => true,
        }
    }

    /// The operands but one that make a product over so many axes zero wherever they are: all others are finite.
    fn zeros(&self, operands: &[Operand], but: usize, rank: usize) -> Factors {
        let elements: Vec<Element> = operands.iter().map(element).collect();
        Factors(Trust::ALL.map(|trust| {
            let trust = trust.in_product(&elements, rank);
            let finite = |at: usize| operands.iter().enumerate().all(|(k, x)| k == at || self.is_finite(x.var, trust));
            let others = elements.iter().enumerate().filter(|(k, _)| *k != but && finite(*k));
            others.map(|(_, element)| element.clone()).collect()
        }))
    }

    /// A guard without conjuncts that say nothing. Where one of the operands is zero so is what is guarded.
    fn guard(
        &mut self,
        p: &Pred,
        readings: &[Reading],
        (ranges, rank): (&[(IndexId, Size)], usize),
        operands: &[Element],
        known: &mut Vec<Pred>,
    ) -> Result<Pred> {
        let mut kept: Vec<Pred> = p.conjuncts().to_vec();
        let mut at = 0;
        while at < kept.len() && !work::is_used_up() {
            let goal = kept[at].clone();
            let others: Vec<Pred> = kept.iter().enumerate().filter(|(k, _)| *k != at).map(|(_, p)| p.clone()).collect();
            if goal.has_cases() && self.proves(goal.clone(), Trust::Always, ranges, &others, &[])? {
                self.steps.insert(BY_OTHERS);
                kept.remove(at);
                continue;
            }
            if self.restricts_nothing(&goal, &others, (ranges, rank)) {
                let by_readers = self.holds_for_readers(&goal, ranges, readings)?;
                if by_readers || self.holds_for_operands(&goal, &others, (ranges, rank), operands)? {
                    self.steps.insert(if by_readers { BY_READERS } else { BY_FACTORS });
                    // What holds because another factor is zero elsewhere may hold no longer when the guard of that factor has gone.
                    self.final_only = true;
                    if by_readers && self.holds_for_readers(&goal, ranges, readings)? {
                        known.push(goal);
                    }
                    self.final_only = false;
                    kept.remove(at);
                    continue;
                }
            }
            if let Some(opposite) = goal.negate().filter(|_| is_about_sizes(&goal))
                && self.holds_for_readers(&opposite, ranges, readings)?
            {
                self.steps.insert(EXCLUDED);
                return Ok(Pred::False);
            }
            at += 1;
        }
        Ok(Pred::all(kept))
    }

    /// Whether a conjunct saves no work for large sizes: an `exists` if there are more entries than places, and one of several tests of computed numbers
    /// before a product without a sum.
    fn restricts_nothing(&self, p: &Pred, others: &[Pred], (ranges, rank): (&[(IndexId, Size)], usize)) -> bool {
        // To find out takes as long as the product, and what is summed in its factors has guards of its own.
        let no_loop = || self.current.is_some_and(|x| self.program.stmts[x].has_no_loop(&self.program.signature));
        if is_one_of_tests(p) && no_loop() || matches!(p, Pred::NonNegative(_)) && self.is_compared_view() {
            return true;
        }
        let around = Pred::all(others.iter().cloned());
        if let Some(counting) = self.counting {
            let (gens, sums) = ranges.split_at(rank.min(ranges.len()));
            let extents = |part: &[(IndexId, Size)]| part.iter().map(|(_, n)| n.clone()).collect::<Vec<Size>>();
            let points = |guard: Pred| counting.borrow_mut().points((extents(gens), extents(sums), guard)).to_vec();
            if points(around.clone()) != points(around.clone().and(p.clone())) {
                return false;
            }
        }
        let Pred::Exists { index, extent, body } = p else {
            let affine = matches!(p, Pred::NonNegative(_)) || is_about_sizes(p);
            let restricted = || self.model.points(ranges, &around.clone().and(p.clone()));
            return affine && self.model.points(ranges, &around).compare(&restricted()).is_eq();
        };
        let inner: Vec<(IndexId, Size)> = ranges.iter().cloned().chain([(*index, extent.clone())]).collect();
        let entries = self.model.points(&inner, &around.clone().and((**body).clone()));
        self.model.points(ranges, &around).compare(&entries).is_lt()
    }

    /// Whether the statement that is looked at is another one in other places, and nothing but compared: nothing is computed for it.
    fn is_compared_view(&self) -> bool {
        let is_view =
            |rhs: &Rhs| matches!(rhs, Rhs::Contract { sums, operands, .. } if sums.is_empty() && operands.len() == 1);
        self.current.is_some_and(|x| self.compared[x] && is_view(&self.program.stmts[x].rhs))
    }

    /// Whether a predicate over the indices of a statement holds wherever the statement is read, for all values of its `sum` indices.
    fn holds_for_readers(&mut self, p: &Pred, own: &[(IndexId, Size)], readings: &[Reading]) -> Result<bool> {
        let proved = self.obligations.len();
        let mut trusts_data = false;
        for reading in readings {
            let Reading { at, scope, seen, .. } = reading;
            let Scope { ranges, factors, rank } = &**scope;
            let summed: Vec<(IndexId, Size)> =
                own.iter().skip(at.len()).map(|(_, n)| (self.fresh_index(), n.clone())).collect();
            let places: Vec<Affine> = at.iter().cloned().chain(summed.iter().map(|(i, _)| Affine::index(*i))).collect();
            let goal = self.fresh(p)?.substitute(&|i| places.get(i.index()).cloned())?;
            let ranges: Vec<(IndexId, Size)> = ranges.iter().cloned().chain(summed).collect();
            let holds = reading.preds();
            let mut holds_for_it = false;
            for trust in self.allowed(&goal, *rank, *seen) {
                holds_for_it = self.proves(goal.clone(), *trust, &ranges, &holds, factors.by(*trust))?;
                if holds_for_it {
                    trusts_data |= trust.is_of_data();
                    break;
                }
            }
            if !holds_for_it {
                self.obligations.truncate(proved);
                return Ok(false);
            }
        }
        self.trusts_data |= trusts_data;
        Ok(true)
    }

    /// What may be trusted for a predicate to go where a product over so many axes is zero, whose NaN are seen or not.
    fn allowed(&self, p: &Pred, rank: usize, seen: bool) -> &'static [Trust] {
        let all = Trust::for_predicate(p, rank);
        match all {
            [first @ .., last] if last.is_of_data() && !(seen && self.options.finite_data) => first,
            all => all,
        }
    }

    /// Whether the product of the operands is zero wherever a predicate fails and others hold: those that are not finite are zero each for
    /// itself. The first indices are the axes of the statement, the others are summed.
    fn holds_for_operands(
        &mut self,
        p: &Pred,
        others: &[Pred],
        (ranges, rank): (&[(IndexId, Size)], usize),
        operands: &[Element],
    ) -> Result<bool> {
        if operands.is_empty() || self.options.tier < Tier::Finite {
            return Ok(false);
        }
        let seen = self.current.is_some_and(|x| self.seen[x]);
        for trust in self.allowed(p, rank, seen) {
            if self.holds_for_operands_by(p, trust.in_product(operands, rank), others, ranges, operands)? {
                self.trusts_data |= trust.is_of_data();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same by what is trusted.
    fn holds_for_operands_by(
        &mut self,
        p: &Pred,
        trust: Trust,
        others: &[Pred],
        ranges: &[(IndexId, Size)],
        operands: &[Element],
    ) -> Result<bool> {
        let goal = self.fresh(p)?;
        let partial: Vec<&Element> = operands.iter().filter(|(x, _)| !self.is_finite(*x, trust)).collect();
        if partial.is_empty() {
            return self.proves(goal, trust, ranges, others, operands);
        }
        let proved = self.obligations.len();
        for operand in partial {
            if !self.proves(goal.clone(), trust, ranges, others, std::slice::from_ref(operand))? {
                self.obligations.truncate(proved);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a goal holds where some predicates hold and some elements are not zero; if so that is noted.
    fn proves(
        &mut self,
        goal: Pred,
        trust: Trust,
        ranges: &[(IndexId, Size)],
        holds: &[Pred],
        factors: &[Element],
    ) -> Result<bool> {
        self.trust = trust;
        let depth = if is_one_of_tests(&goal) { MAX_DEPTH_OF_TESTS } else { MAX_DEPTH };
        let obligation = Obligation { goal, cases: self.facts(ranges, holds, factors, depth)? };
        let proved = obligation.is_proved();
        if proved {
            self.obligations.push(obligation);
        }
        Ok(proved)
    }

    /// What holds where some predicates hold, the supports of tensors among them, and some elements are not zero, in each of several cases.
    fn facts(
        &mut self,
        ranges: &[(IndexId, Size)],
        holds: &[Pred],
        factors: &[Element],
        depth: usize,
    ) -> Result<Vec<Facts>> {
        let mut cases = vec![self.program.signature.facts().under(ranges, holds)];
        if self.options.tier >= Tier::Finite {
            let supports = holds.iter().flat_map(Pred::conjuncts).filter_map(|p| match p {
                Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, args, holds: true } => {
                    Some((*var, args.as_slice()))
                }
                _ => None,
            });
            for (x, at) in supports.chain(factors.iter().map(|(x, at)| (*x, at.as_slice()))) {
                self.nonzero(x, at, depth, &mut cases)?;
            }
        }
        Ok(cases)
    }

    /// What a statement reads, of statements that may have guards.
    fn reads(&self, stmt: &Stmt) -> Vec<(VarId, Reading)> {
        let mut found = Vec::new();
        let may_be_guarded = |x: VarId| !matches!(self.program.stmts[x].rhs, Rhs::Input { .. } | Rhs::Number(_));
        let gens = slots(&stmt.dims);
        let here = Affine::indices(&gens);
        let scope = Scope { ranges: gens, factors: Factors::default(), rank: here.len() };
        let around = Reading { at: Vec::new(), scope: Rc::new(scope), holds: Vec::new(), seen: true };
        let under = |guard: &Pred| {
            let holds = vec![Held::all(vec![guard.clone()])];
            Reading { at: here.clone(), holds, ..around.clone() }
        };
        match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => {}
            Rhs::Add(sides) => {
                for (p, x) in sides.iter().filter(|(p, _)| !p.is_false()) {
                    if may_be_guarded(*x) {
                        found.push((*x, under(p)));
                    }
                    guard_reads(self.program, p, &around, &mut found);
                }
            }
            Rhs::Map { guard, args, .. } => {
                found.extend(args.iter().filter(|x| may_be_guarded(**x)).map(|x| (*x, under(guard))));
                guard_reads(self.program, guard, &around, &mut found);
            }
            Rhs::Contract { sums, guard, operands } => {
                let all: Vec<Size> = stmt.dims.iter().chain(sums).cloned().collect();
                let within = |factors: Factors| Rc::new(Scope { ranges: slots(&all), factors, rank: here.len() });
                let holds = vec![Held::all(vec![guard.clone()])];
                for (k, operand) in operands.iter().enumerate().filter(|(_, operand)| may_be_guarded(operand.var)) {
                    let (x, at) = element(operand);
                    let scope = within(self.zeros(operands, k, here.len()));
                    found.push((x, Reading { at, scope, holds: holds.clone(), seen: true }));
                }
                let around = Reading { scope: within(self.zeros(operands, operands.len(), here.len())), ..around };
                guard_reads(self.program, guard, &around, &mut found);
            }
        }
        found
    }

    /// Adds what holds wherever `X[at]` is not zero: its guard for some values of its `sum` indices, and the same of its operands. One of the
    /// terms of a sum is not zero, which makes a case for each.
    fn nonzero(&mut self, x: VarId, at: &[Affine], depth: usize, cases: &mut Vec<Facts>) -> Result<()> {
        if self.current == Some(x) {
            return Ok(());
        }
        let stmt = self.weaker[x].clone().unwrap_or_else(|| self.program.stmts[x].clone());
        let may_go = self.final_only && self.weaker[x].is_none();
        let anywhere;
        let at = match self.trust {
            // What annihilates for the sizes alone is zero everywhere, and not only at this place.
            Trust::Sizes => {
                let ranges: Vec<(IndexId, Size)> = stmt.dims.iter().map(|n| (self.fresh_index(), n.clone())).collect();
                ranges.iter().for_each(|(i, n)| cases.iter_mut().for_each(|facts| facts.range(*i, n)));
                anywhere = Affine::indices(&ranges);
                anywhere.as_slice()
            }
            Trust::Always | Trust::OfData | Trust::OfDataAnywhere => at,
        };
        let (sums, guard, operands): (&[Size], &Pred, &[Operand]) = match &stmt.rhs {
            Rhs::Number(Number::Literal(_)) => return Ok(()),
            // What is 0 at one place annihilates nothing there.
            Rhs::Number(Number::Index(a)) if self.trust == Trust::Sizes && !a.is_size() => return Ok(()),
            Rhs::Number(Number::Index(a)) => {
                let p = Pred::non_zero(a.substitute(&|i| at.get(i.index()).cloned())?);
                cases.iter_mut().for_each(|facts| facts.assume(&p));
                return Ok(());
            }
            // Whoever reads a sparse parameter has a guard for it, which must stay.
            Rhs::Input { .. } => return Ok(()),
            Rhs::Add(sides) => {
                if depth == 0 || cases.len() >= MAX_CASES {
                    return Ok(());
                }
                let before = std::mem::take(cases);
                for (p, y) in sides {
                    let p = self.guard_at(p, at)?;
                    let mut side = before.clone();
                    if !may_go {
                        side.iter_mut().for_each(|facts| facts.assume(&p));
                    }
                    self.nonzero(*y, at, depth - 1, &mut side)?;
                    cases.extend(side);
                }
                return Ok(());
            }
            Rhs::Map { guard, .. } => (&[], guard, &[]),
            Rhs::Contract { sums, guard, operands } => (sums, guard, operands),
        };
        let mut places = at.to_vec();
        for n in sums {
            let i = self.fresh_index();
            cases.iter_mut().for_each(|facts| facts.range(i, n));
            places.push(Affine::index(i));
        }
        let guard = self.guard_at(guard, &places)?;
        if !may_go {
            cases.iter_mut().for_each(|facts| facts.assume(&guard));
        }
        if depth > 0 {
            // Beside a factor that is infinite or no number a product is not zero where another one is.
            let trust = self.trust;
            let finite = |at: usize| operands.iter().enumerate().all(|(k, x)| k == at || self.is_finite(x.var, trust));
            let deciding: Vec<&Operand> =
                operands.iter().enumerate().filter(|(k, _)| finite(*k)).map(|(_, x)| x).collect();
            for operand in deciding {
                let at: Vec<Affine> = operand.indices.iter().filter_map(|i| places.get(i.index()).cloned()).collect();
                self.nonzero(operand.var, &at, depth - 1, cases)?;
            }
        }
        Ok(())
    }

    /// What a guard says at a place, as far as it counts for what is trusted.
    fn guard_at(&mut self, p: &Pred, at: &[Affine]) -> Result<Pred> {
        let p = if self.trust == Trust::Sizes { p.comparisons() } else { p.clone() };
        Ok(self.fresh(&p)?.substitute(&|i| at.get(i.index()).cloned())?)
    }

    fn fresh_index(&mut self) -> IndexId {
        self.next += 1;
        IndexId(self.next)
    }

    /// A predicate with new names for the indices that it binds, so that nothing is captured.
    fn fresh(&mut self, p: &Pred) -> Result<Pred> {
        let mut names = std::collections::BTreeMap::new();
        p.visit_binders(&mut |i| {
            names.insert(i, self.fresh_index());
        });
        Ok(if names.is_empty() { p.clone() } else { rename_pred(p, &names)? })
    }
}

fn element(operand: &Operand) -> Element {
    (operand.var, operand.indices.iter().map(|i| Affine::index(*i)).collect())
}

/// Whether a predicate holds for the sizes alone: it mentions no index, no relation, and binds nothing.
pub(super) fn is_about_sizes(p: &Pred) -> bool {
    let mut plain = !matches!(p, Pred::Exists { .. });
    p.visit_affine(&mut |a| plain &= a.is_size());
    p.visit_relations(&mut |_| plain = false);
    plain
}

/// Whether a predicate says that one of several holds, some of which test numbers of computed tensors.
fn is_one_of_tests(p: &Pred) -> bool {
    matches!(p, Pred::Any(_)) && p.reads_computed()
}

/// The program of other statements.
fn rebuilt(program: &Program, stmts: &SideTable<VarId, Option<Stmt>>) -> Result<Program> {
    let mut builder = Builder::new(program.signature.clone());
    let mut vars: SideTable<VarId, Option<VarId>> = SideTable::new(program.stmts.len(), None);
    for x in program.stmts.ids() {
        let Some(stmt) = &stmts[x] else { continue };
        let y = builder.push(&stmt.rename(&|operand| vars[operand])?)?;
        builder.suggest_name(y, &program.names[x]);
        vars.set(x, Some(y));
    }
    let outputs = program.outputs.iter().map(|output| {
        let leaves = output.leaves.iter().filter_map(|x| vars[*x]).collect();
        Output { leaves, ..output.clone() }
    });
    let outputs = outputs.collect();
    builder.finish(outputs).prune()
}

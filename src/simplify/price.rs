//! What whole programs cost, statement by statement as the evaluator counts it, and whether one of them is dearer than another.
//!
//! Extraction compares nodes of an e-graph by their growth, in normal form. What came in may be cheaper than its normal form, and what grows
//! alike may differ at small sizes. So programs are compared once more when they are written down:
//!
//! 1. by the growth of what they cost, as [`cost`](super::cost) orders it: additions, multiplications and functions, and half an operation
//!    for each number stored;
//! 2. where that is equal, by what they cost in each of the [`WORLDS`], by counting: sizes of 3 and 4 with full relations, and sizes from 2 to
//!    7, different ones, with half of all tuples.
//!
//! So what costs less for large sizes may cost more in a small world. But what grows with a higher power where relations have all tuples is dearer, whatever it
//! costs for a few: no data make a result grow faster than what came in.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::cost::{Cost, Model, STORED, stored_at, stored_where};
use super::graph::slots;
use crate::base::{Id as _, IndexId, SideTable, SizeId, VarId};
use crate::error::Result;
use crate::index::{Overflow, Pred, RelationRef, Size, Var, View};
use crate::solver::estimate::Growth;
use crate::solver::{Plan, Relations as _, World, holds};
use crate::tssa::patterns::{patterns, projections};
use crate::tssa::{Program, Rhs, Stmt};
use crate::ty::Signature;

/// The sizes of a world, in turn, and whether relations have half of their tuples only.
const WORLDS: [([i64; 4], bool); 4] =
    [([3, 3, 3, 3], false), ([4, 4, 4, 4], false), ([2, 5, 3, 7], true), ([7, 3, 5, 2], true)];

/// Statements over larger boxes are not counted.
const MAX_VOLUME: i64 = 4096;

/// Differences below this share are rounding.
const ROUNDING: f64 = 1e-9;

/// What a program costs.
pub(super) struct Price {
    growth: Cost,
    /// The cost in each world; nothing where it cannot be counted there, or the assumptions of the program fail.
    counted: [Option<f64>; WORLDS.len()],
}

impl Price {
    /// How it grows.
    #[cfg(test)]
    pub(super) fn growth(&self) -> &Cost {
        &self.growth
    }

    /// Whether this is no more than another one.
    pub(super) fn is_no_dearer(&self, other: &Price) -> bool {
        if self.growth.full_power() > other.growth.full_power() {
            return false;
        }
        match self.growth.compare_effort(&other.growth) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.counted.iter().zip(&other.counted).all(|pair| match pair {
                (Some(a), Some(b)) => *a <= b + ROUNDING * b,
                _ => true,
            }),
        }
    }
}

/// `gen` ranges, `sum` ranges and a guard.
pub(super) type Shape = (Vec<Size>, Vec<Size>, Pred);

/// Prices programs of one signature. What was counted is kept, since programs that are compared have most of their statements in common.
pub(super) struct Pricing<'m, 'a> {
    model: &'m Model<'a>,
    full: Option<Model<'a>>,
    worlds: Vec<Option<Small<'a>>>,
    /// The points of a shape in each world, and the places that have one.
    known: FxHashMap<Shape, Vec<Option<(i64, i64)>>>,
}

impl<'m, 'a> Pricing<'m, 'a> {
    pub(super) fn new(signature: &'a Signature, model: &'m Model<'a>) -> Self {
        let world = |(sizes, half): &([i64; 4], bool)| {
            let own = |n: SizeId| Some(sizes[n.index() % sizes.len()]);
            let quotients = signature.quotient_values(own).unwrap_or_default();
            let world = Small { signature, sizes: *sizes, quotients, half: *half };
            let holds = |p: &Pred| holds(p, &world, &BTreeMap::new()) == Ok(true);
            signature.assumptions.iter().all(holds).then_some(world)
        };
        Pricing { model, full: model.full(), worlds: WORLDS.iter().map(world).collect(), known: FxHashMap::default() }
    }

    /// What a program costs.
    pub(super) fn price(&mut self, program: &Program) -> Result<Price> {
        let live = program.live();
        let (stored_as, patterns, projections) = (kept(program, &live), patterns(program), projections(program));
        let [mut growth, mut full] = [(); 2].map(|()| [Growth::zero(), Growth::zero()]);
        let mut counted = [Some(0.0); WORLDS.len()];
        for (x, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
            let Some(counting) = Counting::of(stmt) else { continue };
            let Counting { guard, sums, per_point, per_place, support } = &counting;
            let gens = slots(&stmt.dims);
            let all: Vec<(IndexId, Size)> =
                stmt.dims.iter().chain(*sums).zip(0..).map(|(n, at)| (IndexId(at), n.clone())).collect();
            if *per_point + *per_place == 0.0 && self.model.is_view(&all, gens.len(), guard) {
                continue;
            }
            let (inside, weight) = match stored_as[x] {
                Kept::Whole => match &projections[x] {
                    Some(projected) => stored_at(projected, &program.signature, &gens),
                    None => stored_where(&patterns[x], &gens),
                },
                Kept::Points => (guard.clone(), 1.0),
                Kept::Nothing => (Pred::False, 1.0),
            };
            for ([work, stored], model) in [(&mut growth, Some(self.model)), (&mut full, self.full.as_ref())] {
                let Some(model) = model else { continue };
                let points = model.points(&all, guard);
                let places = model.points(&gens, support).min(points.clone());
                work.add_assign(&points.scale(*per_point).add(&places.scale(*per_place)));
                stored.add_assign(&match stored_as[x] {
                    Kept::Points => points,
                    Kept::Whole | Kept::Nothing => model.points(&gens, &inside).scale(weight),
                });
            }
            let shape = (stmt.dims.clone(), sums.to_vec(), guard.clone());
            let numbers = self.points(shape).to_vec();
            let kept = self.points((stmt.dims.clone(), Vec::new(), inside)).to_vec();
            for (total, (numbers, kept)) in counted.iter_mut().zip(numbers.iter().zip(kept)) {
                *total = match (*total, numbers, kept) {
                    (Some(total), Some((points, places)), Some((kept, _))) => {
                        let operations = per_point * *points as f64 + per_place * *places as f64;
                        Some(total + operations + STORED * weight * kept as f64)
                    }
                    _ => None,
                };
            }
        }
        let full = if self.full.is_some() { full } else { growth.clone() };
        Ok(Price { growth: Cost::of(growth, full), counted })
    }

    /// The points of a shape in each world, and the places of the `gen` indices that have one.
    pub(super) fn points(&mut self, shape: Shape) -> &[Option<(i64, i64)>] {
        let worlds = &self.worlds;
        self.known.entry(shape).or_insert_with_key(|(gens, sums, guard)| {
            worlds.iter().map(|world| world.as_ref().and_then(|world| world.points(gens, sums, guard))).collect()
        })
    }
}

/// What of a statement's result is stored.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    /// All of it.
    Whole,
    /// The points of its guard: it is a factor of other products, each of which has it at hand at the one point that reads it.
    Points,
    /// Nothing: it is one of several statements that are computed together, a sum of many terms or a product with a literal.
    Nothing,
}

/// What of each result is stored.
fn kept(program: &Program, live: &SideTable<VarId, bool>) -> SideTable<VarId, Kept> {
    let mut uses = SideTable::new(program.stmts.len(), 0_usize);
    // How many of the uses are factors of other products, read at each of their points once.
    let mut multiplied = uses.clone();
    for (_, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
        stmt.rhs.for_each_operand(|x| uses[x] += 1);
        if let Rhs::Contract { sums, operands, .. } = &stmt.rhs
            && operands.len() == 2
        {
            let count = stmt.dims.len() + sums.len();
            for operand in operands {
                let reads_all = (0..count).all(|at| operand.indices.contains(&IndexId::from_index(at)));
                multiplied[operand.var] += usize::from(reads_all);
            }
        }
    }
    program.outputs.iter().flat_map(|output| &output.leaves).for_each(|x| uses[*x] += 1);
    let mut kept = SideTable::new(program.stmts.len(), Kept::Whole);
    for (_, stmt) in program.stmts.iter().filter(|(x, _)| live[*x]) {
        match &stmt.rhs {
            Rhs::Add(sides) => {
                for (_, x) in sides {
                    if uses[*x] == 1 && matches!(program.stmts[*x].rhs, Rhs::Add(_)) {
                        kept.set(*x, Kept::Nothing);
                    }
                }
            }
            Rhs::Contract { operands, .. } if operands.len() == 2 => {
                let is_number = |x: VarId| matches!(program.stmts[x].rhs, Rhs::Number(_));
                let scales = operands.iter().any(|operand| is_number(operand.var));
                for x in operands.iter().map(|operand| operand.var) {
                    match &program.stmts[x].rhs {
                        Rhs::Contract { .. } if scales && uses[x] == 1 => kept.set(x, Kept::Nothing),
                        Rhs::Contract { sums, operands, .. }
                            if sums.is_empty() && operands.len() == 2 && uses[x] == multiplied[x] =>
                        {
                            kept.set(x, Kept::Points);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    kept
}

/// What a statement costs for each point of its guard, and for each place that has one.
struct Counting<'s> {
    guard: Pred,
    sums: &'s [Size],
    per_point: f64,
    per_place: f64,
    /// Where the result is not zero, as far as its own indices say.
    support: Pred,
}

impl Counting<'_> {
    /// Nothing for what costs nothing.
    fn of(stmt: &Stmt) -> Option<Counting<'_>> {
        Some(match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => return None,
            Rhs::Add([(p, _), (q, _)]) => Counting {
                guard: p.clone().and(q.clone()),
                sums: &[],
                per_point: 1.0,
                per_place: 0.0,
                support: p.clone().or(q.clone()),
            },
            Rhs::Map { guard, .. } => {
                Counting { guard: guard.clone(), sums: &[], per_point: 1.0, per_place: 0.0, support: guard.clone() }
            }
            Rhs::Contract { sums, guard, operands } => {
                let factors = operands.len().saturating_sub(1) as f64;
                let added = if sums.is_empty() { 0.0 } else { 1.0 };
                let inner = |p: &&Pred| {
                    !(stmt.dims.len()..stmt.dims.len() + sums.len()).any(|at| p.mentions(IndexId::from_index(at)))
                };
                let support = Pred::all(guard.conjuncts().iter().filter(inner).cloned());
                Counting { guard: guard.clone(), sums, per_point: factors + added, per_place: -added, support }
            }
        })
    }
}

/// A world of small sizes. Relations that are computed hold everywhere, and a map that is computed has the target 0, since tensors have other
/// names in each program.
struct Small<'a> {
    signature: &'a Signature,
    sizes: [i64; 4],
    quotients: BTreeMap<SizeId, i64>,
    half: bool,
}

impl Small<'_> {
    /// The points of a guard, and the places of the `gen` indices that have one.
    fn points(&self, gens: &[Size], sums: &[Size], guard: &Pred) -> Option<(i64, i64)> {
        let volume = |sizes: &[Size]| -> Option<i64> {
            sizes.iter().try_fold(1_i64, |volume, n| volume.checked_mul(self.extent(n)?))
        };
        let (places, inner) = (volume(gens)?, volume(sums)?);
        let all = places.checked_mul(inner)?;
        if guard.is_false() {
            return Some((0, 0));
        }
        if guard.is_true() || all == 0 {
            return Some((all, if inner == 0 { 0 } else { places }));
        }
        if all > MAX_VOLUME {
            return None;
        }
        let free: Vec<(IndexId, Size)> =
            gens.iter().chain(sums).zip(0..).map(|(n, at)| (IndexId(at), n.clone())).collect();
        let (mut points, mut places) = (0, 0);
        let mut last: Option<Vec<i64>> = None;
        let mut visit = |at: &[i64]| -> std::result::Result<(), Overflow> {
            points += 1;
            let place = at.get(..gens.len()).unwrap_or_default();
            if last.as_deref() != Some(place) {
                places += 1;
                last = Some(place.to_vec());
            }
            Ok(())
        };
        Plan::new(&[], &free, guard).for_each(self, &[], &mut visit).ok()?;
        Some((points, places))
    }

    fn extent(&self, n: &Size) -> Option<i64> {
        let value = n.evaluate(&mut |v| if let Var::Size(n) = v { Some(self.size(*n)) } else { None })?;
        value.ok().map(|n| n.max(0))
    }

    /// Whether a tuple lies inside of the shape of its relation.
    fn is_inside(&self, shape: &[Size], tuple: &[i64]) -> bool {
        shape.len() == tuple.len()
            && shape.iter().zip(tuple).all(|(n, k)| *k >= 0 && self.extent(n).is_some_and(|n| *k < n))
    }
}

impl World for Small<'_> {
    fn size(&self, size: SizeId) -> i64 {
        self.quotients.get(&size).copied().unwrap_or(self.sizes[size.index() % self.sizes.len()])
    }

    fn holds(&self, relation: RelationRef, tuple: &[i64]) -> bool {
        match relation {
            RelationRef::Computed { view: View::Support, .. } => true,
            RelationRef::Computed { view: View::ArgMax | View::ArgMin, .. } => tuple.last() == Some(&0),
            RelationRef::Input(r) => {
                let Some(relation) = self.signature.relations.get(r) else { return false };
                // Whether the sum of the coordinates is even.
                let parity = tuple.iter().fold(0, |bits, x| bits ^ x) & 1 == 0;
                match tuple.split_last() {
                    _ if !self.is_inside(&relation.shape, tuple) => false,
                    Some((target, source)) if self.signature.is_map(RelationRef::Input(r)) => {
                        self.apply(RelationRef::Input(r), source) == Some(*target)
                    }
                    _ => parity || !self.half,
                }
            }
        }
    }

    fn candidates(&self, _: RelationRef, _: &[Option<i64>], _: usize) -> Option<Vec<i64>> {
        None
    }

    fn apply(&self, map: RelationRef, source: &[i64]) -> Option<i64> {
        let RelationRef::Input(r) = map else { return Some(0) };
        let n = self.extent(self.signature.relations.get(r)?.shape.last()?)?;
        source.iter().sum::<i64>().checked_mul(3)?.checked_rem_euclid(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Function;
    use crate::simplify::cost::Model;

    fn is_no_dearer(a: &str, b: &str) -> bool {
        let (a, b) = [a, b].map(|text| Function::parse(text).unwrap().tensor_ssa().clone()).into();
        let hints = BTreeMap::new();
        let model = Model::new(&a.signature, &hints);
        let mut pricing = Pricing::new(&a.signature, &model);
        pricing.price(&a).unwrap().is_no_dearer(&pricing.price(&b).unwrap())
    }

    #[test]
    fn prices_compare_growth_first_and_then_small_worlds() {
        let header = "param x : [n] real\nparam y : [m] real\nmap f : [n] -> [n]\nrel R : [n, n]\nrel E : [n, n, n]\n";
        let cases = [
            // A lower power is cheaper.
            ("(sum i < n. x[i]) * (sum j < m. y[j])", "sum i < n, j < m. x[i] * y[j]", true, false),
            // As many operations.
            ("sum i < n. x[i]", "sum i < n. x[i]", true, true),
            ("sum i < n. exp(x[i])", "sum i < n. x[i]", false, true),
            // Equal for large sizes, more for small ones.
            ("exp(x[0])", "[n > 3] * exp(x[0])", false, true),
            // The second one stores nothing in between.
            ("gen i < n. x[i] * 2", "gen i < n. 2 * exp(x[i])", true, false),
            // A sum by target is no view, though as many numbers go in as come out.
            (
                "gen i < n. sum k < n. [f(k) = i] * x[k]",
                "gen i < n. sum k < n. [f(k) = i] * x[k] * 2 * x[k]",
                true,
                false,
            ),
            ("gen i < n. x[f(i)]", "gen i < n. sum k < n. [f(k) = i] * x[k]", true, false),
            // Stored on the entries of a relation, times another axis.
            (
                "sum i < n, k < n, c < 3. [R(i, k)] * exp(x[i] * y[0] + real(c)) * x[k]",
                "sum i < n, k < n, c < 3. exp(x[i] * y[0] + real(c)) * x[k]",
                true,
                false,
            ),
            // All pairs of the tuples of a fibre cost as much for tuples here and there, and more where they stand together.
            (
                "sum i < n, j < n, l < m. (sum k < n. [E(i, j, k)] * x[k] * y[l])^2",
                "sum i < n, j < n, l < m, k < n, a < n. [E(i, j, k) and E(i, j, a)] * x[k] * y[l] * x[a] * y[l]",
                true,
                false,
            ),
            // A guard of a constant range.
            ("sum i < 3. [1 < i] * exp(y[0] + real(i))", "sum i < 3. exp(y[0] + real(i))", true, false),
        ];
        for (a, b, forwards, backwards) in cases {
            let (a, b) =
                (format!("assume n >= 1 and m >= 1\n{header}{a}"), format!("assume n >= 1 and m >= 1\n{header}{b}"));
            assert_eq!((is_no_dearer(&a, &b), is_no_dearer(&b, &a)), (forwards, backwards), "{a}\n{b}");
        }
    }
}

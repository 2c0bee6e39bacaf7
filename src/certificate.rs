//! What a program costs, as formulas in its sizes, and what is proved of the cost of its derivatives.
//!
//! [`cost`] counts scalar operations as the paper's Fig. 6 does, statement by statement:
//!
//! | statement | operations |
//! |---|---|
//! | `[p] * X + [q] * Y` | an addition for each point of `p and q` (4.24) |
//! | `[p] * f(X, ..)` | a function for each point of `p` (4.26) |
//! | `sum s. [p] * X * Y` | a multiplication for each point of `p` (4.25), and an addition for each but the first of every sum (4.30) |
//! | inputs, numbers | none |
//!
//! Guards and index arithmetic are free. The counts are exact, see [`solver::Count`](Count): for every size that satisfies the assumptions
//! of the program they are what the evaluator of [`reference`](mod@crate::reference) counts. To these come the sizes of inputs and outputs
//! (Fig. 17), where a sparse tensor counts its entries.
//!
//! A [`Certificate`] holds the costs of a program and of a derivative, their ratio, and the bound that a theorem gives. The ratio is that of
//! what is counted: both counts are evaluated in one made-up world ([`Sample`]) for some sizes, whether they are formulas or
//! not, and so the bound holds for it. What it tends to is said only where both are formulas.
//!
//! | theorem | derivative | bound |
//! |---|---|---|
//! | 6.1 | forward, value included | `$(D f) <= c * $(f)` |
//! | 6.35 | adjoint, value included | `$_IO(D^T f) <= c * $_IO(f)`, where `$_IO` adds the sizes of inputs and outputs |
//!
//! The paper has `c = 4`: an addition or a multiplication makes at most four operations, and so does a function of up to two arguments, whose
//! derivative `Df(x; dx)` is one operation there. A function of `k` arguments makes `2 k`: its value, `k` products with partial
//! derivatives, `k - 1` additions. Partial derivatives that are expanded take operations of their own, as many as the operator
//! table says ([`scalar::expanded_cost`]); `c` is the most that any function of the program takes.
//!
//! The theorems are of what the rules of differentiation give. Simplification takes less from that for large sizes; for a size of 0 or 1 it may take
//! more, where a tensor that is computed once has more elements than are read.
//!
//! **Programs with loops.** Their counts are formulas with numbers of steps as unknowns, of all statements under all loops around
//! ([`flow::tally`](crate::flow::tally)). A [`Claim`] says what is proved:
//!
//! | derivative | bound | why |
//! |---|---|---|
//! | forward | `$(D f) <= c * $(f)` | proved: Theorem 6.1 for each leaf, and a leaf runs as often beside its derivative as without |
//! | adjoint | `$_IO(D^T f) <= (c + r - 1) * $_IO(f)` | not proved, compared with the counts: Theorem 6.35 for each leaf, and a step under `d` loops runs `r = 2^(d + 1) - 1` times |
//!
//! A step runs forwards; for each loop around, once more backwards and once lifted over time, in which the loops inside of it do the same. The theorem
//! for a leaf counts what the leaf takes and gives; the bound counts inputs and outputs of the program once, so a step that moves more numbers than it
//! computes may cost more.

mod print;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::base::{Id, IndexId, VarId};
use crate::error::{Error, Result};
use crate::index::{Pred, RelationRef, Size, View};
use crate::scalar::{self, Function, Primitive};
use crate::solver::estimate::{Growth, Hints};
use crate::solver::polynomial::{Polynomial, Unknown};
use crate::solver::{Count, Facts, Relations, Sample, World, count, count_projected, holds};
use crate::tssa::{Program, Rhs, Stmt, StmtNames};
use crate::ty::{Signature, Storage, TypeId};

/// Numbers of scalar operations, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operations<T> {
    /// Additions.
    pub additions: T,
    /// Multiplications.
    pub multiplications: T,
    /// Scalar functions, partial derivatives aside.
    pub functions: T,
    /// Partial derivatives kept as black boxes. The paper takes `Df(x; dx)` as one operation, the product with `dx`, so they are no work.
    pub partials: T,
}

/// What a program costs.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The scalar operations.
    pub operations: Operations<Count>,
    /// `$(f)`: additions, multiplications and functions. Partial derivatives kept as black boxes are free, as in the paper.
    pub work: Count,
    /// `$(T_I)`: the sizes of all parameters.
    pub inputs: Count,
    /// `$(T_O)`: the sizes of all outputs.
    pub outputs: Count,
    /// How many statements have a formula, without sets of points.
    pub closed: usize,
    /// How many statements there are that cost anything.
    pub counted: usize,
    shapes: Shapes,
    names: StmtNames,
}

/// The relations of a program, computed ones included.
#[derive(Clone, Debug)]
struct Shapes {
    signature: Arc<Signature>,
    /// The axes of the tensors that are read as relations.
    computed: BTreeMap<VarId, Vec<Size>>,
}

impl Shapes {
    fn of(program: &Program) -> Shapes {
        let mut computed = BTreeMap::new();
        for stmt in program.stmts.values() {
            let mut read = |p: &Pred| {
                p.visit_computed(&mut |x| computed.extend(program.stmts.get(x).map(|stmt| (x, stmt.dims.clone()))));
            };
            stmt.rhs.guards().for_each(&mut read);
        }
        Shapes { signature: program.signature.clone(), computed }
    }
}

impl Shapes {
    /// The world that hints give for some `N`, if the program takes it.
    fn world(&self, hints: &Hints, n: u32) -> Option<Sample> {
        let (sizes, relations) = (self.signature.sizes.ids(), self.signature.relations.ids());
        // What quotients are in this world follows from the other sizes.
        let number = f64::from(n.max(1));
        let own = |size| Some((hints.size(size) * number).round() as i64);
        let mut hints = hints.clone();
        let quotients = self.signature.quotient_values(own).ok()?;
        hints.sizes.extend(quotients.into_iter().map(|(size, value)| (size, value as f64 / number)));
        let world = Sample::new(&hints, n, sizes, relations, self)?;
        let assumed = self.signature.assumptions.iter().all(|p| holds(p, &world, &BTreeMap::new()) == Ok(true));
        assumed.then_some(world)
    }
}

impl Relations for Shapes {
    fn shape(&self, relation: RelationRef) -> Option<&[Size]> {
        match relation {
            RelationRef::Input(_) => self.signature.shape(relation),
            RelationRef::Computed { var, .. } => self.computed.get(&var).map(Vec::as_slice),
        }
    }

    fn is_map(&self, relation: RelationRef) -> bool {
        match relation {
            RelationRef::Input(_) => self.signature.is_map(relation),
            RelationRef::Computed { view, .. } => matches!(view, View::ArgMax | View::ArgMin),
        }
    }
}

/// Ranges of `gen` indices, ranges of `sum` indices, and a guard: the counts depend on nothing else.
type Shape = (Vec<Size>, Vec<Size>, Pred);

/// Counting in progress.
struct Counting<'a> {
    facts: Facts,
    shapes: &'a Shapes,
    /// The numbers of points, and of elements that have one.
    known: FxHashMap<Shape, (Count, Count)>,
}

impl Counting<'_> {
    /// The points of a guard, and the places of the `gen` axes that have at least one.
    fn points(&mut self, gens: &[Size], sums: &[Size], guard: &Pred) -> Result<(Count, Count)> {
        let shape = (gens.to_vec(), sums.to_vec(), guard.clone());
        if let Some(known) = self.known.get(&shape) {
            return Ok(known.clone());
        }
        let ranges: Vec<(IndexId, Size)> =
            gens.iter().chain(sums).enumerate().map(|(at, n)| (IndexId::from_index(at), n.clone())).collect();
        let points = count(&ranges, guard, &self.facts, self.shapes)?;
        let elements = match ranges.split_at_checked(gens.len()) {
            Some((gens, sums @ [_, ..])) => count_projected(gens, sums, guard, &self.facts, self.shapes)?,
            _ => points.clone(),
        };
        self.known.insert(shape, (points.clone(), elements.clone()));
        Ok((points, elements))
    }

    /// The size of a tensor.
    fn volume(&mut self, dims: &[Size]) -> Result<Count> {
        Ok(self.points(dims, &[], &Pred::True)?.0)
    }

    /// The size of a value: of all its elements, or of those stored.
    fn size(&mut self, signature: &Signature, ty: TypeId, storage: Storage) -> Result<Count> {
        if let Some(pattern) = storage.pattern() {
            return Ok(Count::polynomial(Polynomial::unknown(Unknown::Entries(pattern))));
        }
        let mut sum = Count::zero();
        for leaf in signature.types.leaves(ty)? {
            sum.accumulate(&self.volume(&leaf.dims)?)?;
        }
        Ok(sum)
    }
}

/// The cost of a program.
///
/// # Errors
/// [`Error::Overflow`] where a coefficient does not fit.
pub fn cost(program: &Program) -> Result<Cost> {
    let signature = &program.signature;
    let shapes = Shapes::of(program);
    let mut counting = Counting { facts: signature.facts(), shapes: &shapes, known: FxHashMap::default() };
    let mut operations = Operations::<Count>::default();
    let (mut closed, mut counted) = (0, 0);
    for stmt in program.stmts.values() {
        let gens = &stmt.dims;
        let (points, elements) = match &stmt.rhs {
            Rhs::Input { .. } | Rhs::Number(_) => continue,
            Rhs::Add([(p, _), (q, _)]) => {
                let (points, elements) = counting.points(gens, &[], &p.clone().and(q.clone()))?;
                operations.additions.accumulate(&points)?;
                (points, elements)
            }
            Rhs::Map { guard, function, .. } => {
                let (points, elements) = counting.points(gens, &[], guard)?;
                let functions = match function {
                    Function::Value(_) => &mut operations.functions,
                    Function::Partial(..) => &mut operations.partials,
                };
                functions.accumulate(&points)?;
                (points, elements)
            }
            Rhs::Contract { sums, guard, operands } => {
                let (points, elements) = counting.points(gens, sums, guard)?;
                let factors = i128::try_from(operands.len()).map_err(|_| Error::Overflow)?;
                operations.additions.accumulate(&points.sub(&elements)?)?;
                operations.multiplications.accumulate(&points.scale(factors.saturating_sub(1))?)?;
                (points, elements)
            }
        };
        counted += 1;
        closed += usize::from(points.is_closed() && elements.is_closed());
    }
    let mut inputs = Count::zero();
    for param in signature.params.values() {
        inputs.accumulate(&counting.size(signature, param.ty, param.storage)?)?;
    }
    let mut outputs = Count::zero();
    for output in &program.outputs {
        outputs.accumulate(&counting.size(signature, output.ty, output.storage)?)?;
    }
    let Operations { additions, multiplications, functions, partials } = operations;
    let operations = Operations {
        additions: additions.merge()?,
        multiplications: multiplications.merge()?,
        functions: functions.merge()?,
        partials: partials.merge()?,
    };
    let (inputs, outputs) = (inputs.merge()?, outputs.merge()?);
    let Operations { additions, multiplications, functions, partials: _ } = &operations;
    let work = additions.add(multiplications)?.add(functions)?.merge()?;
    Ok(Cost { operations, work, inputs, outputs, closed, counted, shapes, names: program.stmt_names() })
}

impl Cost {
    /// `$_IO(f) = $(f) + $(T_I) + $(T_O)`.
    ///
    /// # Errors
    /// [`Error::Overflow`].
    pub fn work_io(&self) -> Result<Count> {
        Ok(self.work.add(&self.inputs)?.add(&self.outputs)?.merge()?)
    }

    /// The operations for given sizes and relations.
    ///
    /// # Errors
    /// [`Error::Overflow`]; [`Error::Bug`] where the world does not know a relation.
    pub fn evaluate<W: World + ?Sized>(&self, world: &W) -> Result<Operations<u128>> {
        let Operations { additions, multiplications, functions, partials } = &self.operations;
        Ok(Operations {
            additions: self.value(additions, world)?,
            multiplications: self.value(multiplications, world)?,
            functions: self.value(functions, world)?,
            partials: self.value(partials, world)?,
        })
    }

    /// The sizes of inputs and of outputs for given sizes and relations.
    ///
    /// # Errors
    /// As [`Cost::evaluate`].
    pub fn evaluate_io<W: World + ?Sized>(&self, world: &W) -> Result<(u128, u128)> {
        Ok((self.value(&self.inputs, world)?, self.value(&self.outputs, world)?))
    }

    fn value<W: World + ?Sized>(&self, count: &Count, world: &W) -> Result<u128> {
        match count.evaluate(world, &self.shapes) {
            Some(value) => u128::try_from(value?).map_err(|_| Error::bug("certificate", "a negative count")),
            None => Err(Error::bug("certificate", "a relation is not known")),
        }
    }

    /// How the work grows, where it is a formula of sizes and numbers of entries.
    pub fn growth(&self, hints: &Hints) -> Option<Growth> {
        let hints = self.shapes.signature.with_quotients(hints);
        self.work.is_formula().then(|| self.work.estimate(&hints, &self.shapes))
    }

    /// The work in a made-up world for some `N`, counted.
    pub fn sample(&self, hints: &Hints, n: u32) -> Counted {
        match self.shapes.world(hints, n) {
            Some(world) => self.count_in(&world, &self.work),
            None => Counted::Unknown(Reason::World),
        }
    }

    /// A count in a made-up world.
    fn count_in(&self, world: &Sample, count: &Count) -> Counted {
        if count.reads_values() {
            return Counted::Unknown(Reason::Values);
        }
        if count.effort(world) > MAX_EFFORT {
            return Counted::Unknown(Reason::Effort);
        }
        match self.value(count, world) {
            Ok(value) => Counted::Exactly(value),
            Err(_) => Counted::Unknown(Reason::World),
        }
    }

    /// The tensors that guards read as relations: what counts depend on beside sizes and given relations.
    pub fn computed_relations(&self) -> impl Iterator<Item = VarId> {
        self.shapes.computed.keys().copied()
    }

    /// The rows of a table: what is counted, and how often.
    fn rows(&self) -> Vec<(&'static str, &Count)> {
        let Operations { additions, multiplications, functions, partials } = &self.operations;
        let mut rows = vec![("additions", additions), ("multiplications", multiplications), ("functions", functions)];
        if !partials.is_zero() {
            rows.push(("partial derivatives", partials));
        }
        rows.extend([("work", &self.work), ("inputs", &self.inputs), ("outputs", &self.outputs)]);
        rows
    }
}

/// A number of operations that was counted, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It was counted.
    Exactly(u128),
    /// It was not.
    Unknown(Reason),
}

impl Counted {
    /// The number, if there is one.
    pub fn exactly(self) -> Option<u128> {
        match self {
            Counted::Exactly(count) => Some(count),
            Counted::Unknown(_) => None,
        }
    }
}

/// Why a number of operations was not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It depends on the values of tensors.
    Values,
    /// There are too many points to look at.
    Effort,
    /// There is no such world: the program assumes something else of its sizes, or relations or counts would be too large.
    World,
}

/// How many points are looked at for one count in a made-up world.
const MAX_EFFORT: f64 = 1e6;

/// Which theorem bounds the cost of a derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theorem {
    /// 6.1: the forward derivative.
    Forward,
    /// 6.35: the adjoint derivative.
    Adjoint,
}

/// What a theorem promises of a program's derivatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The theorem.
    pub theorem: Theorem,
    /// How many times the cost of the program its value and derivative together cost at most.
    pub constant: u64,
    /// The function of the program that needs so much, where it is not the 4 of the paper.
    pub function: Option<String>,
    /// Whether partial derivatives are expanded; else they are black boxes.
    pub expanded: bool,
    /// What is proved of it.
    pub claim: Claim,
}

/// What is proved of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The theorem, of the program.
    Program,
    /// The theorem, of each leaf of a program with loops, and so their sum over all steps.
    Leaves,
    /// The theorem, of each leaf of a program with loops, but not their sum: it is what is counted that is within the bound.
    Counted {
        /// How often the adjoint runs a step of the innermost loops.
        runs: u64,
    },
}

impl Bound {
    /// The bound of a program whose loops are so many inside of each other at most.
    pub(crate) fn under_loops(self, depth: usize) -> Bound {
        match (depth, self.theorem) {
            (0, _) => self,
            (_, Theorem::Forward) => Bound { claim: Claim::Leaves, ..self },
            (_, Theorem::Adjoint) => {
                let runs =
                    u32::try_from(depth + 1).ok().and_then(|power| 2u64.checked_pow(power)).unwrap_or(u64::MAX) - 1;
                Bound { claim: Claim::Counted { runs }, constant: self.constant.saturating_add(runs - 1), ..self }
            }
        }
    }
}

/// Two costs in a made-up world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// What `N` is.
    pub n: u32,
    /// The cost of the program.
    pub primal: Counted,
    /// The cost of the derivative.
    pub derivative: Counted,
}

impl Comparison {
    /// The ratio, where both are counted and the program costs something.
    pub fn ratio(&self) -> Option<f64> {
        let (primal, derivative) = (self.primal.exactly()?, self.derivative.exactly()?);
        (primal > 0).then(|| derivative as f64 / primal as f64)
    }
}

/// How much more a derivative costs than its program: in work for Theorem 6.1, with inputs and outputs of the program added to both for
/// Theorem 6.35. The adjoint takes and returns what the program returns and takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// How the costs of the program and of the derivative grow, where both are formulas.
    pub growth: Option<(Growth, Growth)>,
    /// The costs at some sizes, counted.
    pub samples: Vec<Comparison>,
}

impl Ratio {
    /// What the ratio tends to; nothing where there is no formula, where the derivative grows faster, or the program costs nothing.
    pub fn limit(&self) -> Option<f64> {
        let (primal, derivative) = self.growth.as_ref()?;
        let ((p, a), (q, b)) = (primal.leading(), derivative.leading());
        match p.cmp(&q) {
            _ if a <= 0.0 => None,
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(b / a),
            std::cmp::Ordering::Greater => Some(0.0),
        }
    }
}

/// The costs of a program and of a derivative of it, and what is proved of them.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The cost of the program.
    pub primal: Cost,
    /// The cost of the derivative.
    pub derivative: Cost,
    /// Their ratio.
    pub ratio: Ratio,
    /// The bound on the ratio.
    pub bound: Bound,
}

/// Compares the costs of a program and of a derivative of it.
///
/// # Errors
/// [`Error::Overflow`].
pub fn certify(primal: &Program, derivative: &Program, theorem: Theorem, hints: &Hints) -> Result<Certificate> {
    let (cost_primal, cost_derivative) = (cost(primal)?, cost(derivative)?);
    let (mut before, mut after) = (cost_primal.work.clone(), cost_derivative.work.clone());
    if theorem == Theorem::Adjoint {
        let io = cost_primal.inputs.add(&cost_primal.outputs)?;
        (before, after) = (before.add(&io)?.merge()?, after.add(&io)?.merge()?);
    }
    // Both in one world, so that the bound holds for their ratio.
    let sample = |n: u32| match cost_primal.shapes.world(hints, n) {
        Some(world) => Comparison {
            n,
            primal: cost_primal.count_in(&world, &before),
            derivative: cost_derivative.count_in(&world, &after),
        },
        None => {
            let unknown = Counted::Unknown(Reason::World);
            Comparison { n, primal: unknown, derivative: unknown }
        }
    };
    let formulas = before.is_formula() && after.is_formula();
    let growth = || {
        let hints = primal.signature.with_quotients(hints);
        (before.estimate(&hints, &cost_primal.shapes), after.estimate(&hints, &cost_derivative.shapes))
    };
    let ratio = Ratio { growth: formulas.then(growth), samples: SAMPLES.map(sample).into() };
    let expanded = !derivative.stmts.values().any(|stmt| is_partial(&stmt.rhs));
    Ok(Certificate { primal: cost_primal, derivative: cost_derivative, ratio, bound: bound(primal, theorem, expanded) })
}

/// Compares two programs by their work for large sizes.
///
/// # Errors
/// [`Error::Overflow`].
pub fn compare_work(program: &Program, other: &Program) -> Result<Ordering> {
    Ok(growth(program)?.compare(&growth(other)?))
}

/// How the work of a program grows.
fn growth(program: &Program) -> Result<Growth> {
    let hints = program.signature.with_quotients(&Hints::new());
    cost(program).map(|cost| cost.work.estimate(&hints, &cost.shapes))
}

/// With which power of its sizes the work of a program grows, all of them being multiples of one.
///
/// # Errors
/// [`Error::Overflow`].
pub fn power_of_work(program: &Program) -> Result<usize> {
    Ok(growth(program)?.leading().0)
}

/// With which power the largest of its dense inputs and results does.
pub fn power_of_data(program: &Program) -> usize {
    let is_given = |rhs: &Rhs| match rhs {
        Rhs::Input { param, .. } => program.signature.params.get(*param).is_some_and(|p| p.storage == Storage::Dense),
        _ => false,
    };
    let inputs = program.stmts.values().filter(|stmt| is_given(&stmt.rhs));
    let results = program.outputs.iter().flat_map(|output| &output.leaves).map(|x| &program.stmts[*x]);
    let rank = |stmt: &Stmt| stmt.dims.iter().filter(|n| n.as_constant().is_none()).count();
    inputs.chain(results).map(rank).max().unwrap_or(0)
}

/// The `N` at which costs are compared.
const SAMPLES: [u32; 3] = [10, 100, 1000];

fn is_partial(rhs: &Rhs) -> bool {
    matches!(rhs, Rhs::Map { function: Function::Partial(..), .. })
}

/// The bound that a theorem gives for the functions of a program.
pub fn bound(primal: &Program, theorem: Theorem, expanded: bool) -> Bound {
    let mut bound = Bound { theorem, constant: 4, function: None, expanded, claim: Claim::Program };
    for stmt in primal.stmts.values() {
        let Rhs::Map { function, args, .. } = &stmt.rhs else { continue };
        let (Function::Value(primitive) | Function::Partial(primitive, _)) = function;
        let constant = match expanded {
            true => scalar::expanded_cost(*primitive, &primal.signature.functions),
            false => 2 * args.len() as u64,
        };
        if constant > bound.constant {
            bound.constant = constant;
            bound.function = Some(match primitive {
                Primitive::Op(op) => op.name().into_owned(),
                Primitive::User(f) => {
                    primal.signature.functions.get(*f).map_or_else(|| f.to_string(), |f| f.name().to_owned())
                }
            });
        }
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::print::LABEL;
    use super::*;
    use crate::driver::{Function, Mode, Request};

    fn rows(program: &str) -> Vec<String> {
        let cost = Function::parse(program).unwrap().cost().unwrap();
        cost.to_string().lines().take(4).map(|line| line[LABEL + 2..].to_owned()).collect()
    }

    #[test]
    fn costs_are_those_of_books() {
        let cases = [
            ("param x : [n] real\nsum i < n. x[i]^2", ["[0 < n] * (n - 1)", "0", "n", "[0 < n] * (2*n - 1)"]),
            (
                "param A : [n, m] real\nparam B : [m, k] real\nassume n >= 1 and m >= 1 and k >= 1\n\
                 gen i < n, j < k. sum l < m. A[i, l] * B[l, j]",
                ["n*m*k - n*k", "n*m*k", "0", "2*n*m*k - n*k"],
            ),
            (
                "param A : csr [n, m] real\nparam x : [m] real\ngen i < n. sum j < m. A[i, j] * x[j]",
                ["|A?| - |A?(*, _)|", "|A?|", "0", "2*|A?| - |A?(*, _)|"],
            ),
            (
                "param L : [n, n] real\nparam x : [n] real\ngen i < n. sum j < n. [j <= i] * L[i, j] * x[j]",
                ["n^2/2 - n/2", "n^2/2 + n/2", "0", "n^2"],
            ),
            (
                "param x : [n] real\nparam y : [m] real\nmap f : [n] -> [m]\nsum i < n. x[i] * y[f(i)]",
                ["[0 < n] * (n - 1)", "n", "0", "[0 < n] * (2*n - 1)"],
            ),
            ("param x : [n] real\ngen i < n. exp(x[i]) + x[n - i - 1]", ["n", "0", "n", "2*n"]),
        ];
        for (program, expected) in cases {
            assert_eq!(rows(program), expected, "{program}");
        }
    }

    #[test]
    fn bounds_follow_the_operator_table() {
        let cases = [
            ("param x : [n] real\nsum i < n. x[i] * sin(x[i])", 4, None),
            ("param x : [n] real\nsum i < n. x[i] / (1 + x[i]^2)", 7, Some("/")),
            ("fun f(a, b, c) = a * b * c with (b * c, a * c, a * b)\nparam x : real\nf(x, x, x)", 9, Some("f")),
        ];
        for (program, constant, function) in cases {
            let primal = Function::parse(program).unwrap();
            let request = Request::new(Mode::Gradient, &["x"]);
            let derived = primal.derive(&request).unwrap().function;
            let Certificate { bound, ratio, .. } = primal.certify(&derived, request.mode).unwrap();
            assert_eq!((bound.constant, bound.function.as_deref()), (constant, function), "{program}");
            assert!(ratio.samples.iter().all(|s| s.ratio().is_some_and(|ratio| ratio <= constant as f64)), "{ratio:?}");
            let opaque = Request { expand_partials: false, ..request };
            let derived = primal.derive(&opaque).unwrap().function;
            let Certificate { bound, derivative, .. } = primal.certify(&derived, opaque.mode).unwrap();
            assert!(!bound.expanded && !derivative.operations.partials.is_zero(), "{program}");
            assert_eq!(bound.constant, if function == Some("f") { 6 } else { 4 }, "{program}");
        }
    }
}

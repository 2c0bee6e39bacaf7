//! Random programs with loops, judged by independent oracles.
//!
//! The term evaluator knows nothing of flows: it gives the value, and over dual numbers the derivative. Polynomial programs are judged over a prime
//! field as well, where all that should be equal is equal; over reals numbers are compared as `judge` says, by running error bounds, which are 0 for
//! integers. `cargo test` judges 150; thousands, with counts printed:
//!
//! ```text
//! cargo test --release --test it flows::random::full -- --ignored --nocapture
//! ```
//!
//! `IVERSON_PROGRAMS` sets how many and `IVERSON_SEED` the first seed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fastrand::Rng;
use iverson::ir::base::ParamId;
use iverson::ir::certificate::Claim;
use iverson::ir::reference::check::{self, Adjoint, Forward};
use iverson::ir::reference::{Dual, Environment, Field, Leaf, Limits, Numeric, Rounded, Subject, eval_term};
use iverson::ir::stages::{Stages, check as verify};
use iverson::ir::ty::{RelationKind, Signature};
use iverson::ir::{diff, flow, surface, term};
use iverson::kernel::Engine;
use iverson::tensor::{Csr, Dense, Inputs, Relation, bind};
use iverson::{Function, Mode, Request};

use super::programs::{Drawn, program, with_types};
use super::{blocks, jacobians};
use crate::campaign::known::Known;
use crate::judge::{Expected, Ways, is_undecided, numbers};
use crate::support::setting;

/// A relation that does not hold, in words.
pub type Judgement = Result<(), String>;

pub fn words(error: iverson::Error) -> String {
    error.to_string()
}

/// Numbers to judge by.
pub trait Judged: Numeric {
    fn draw(rng: &mut Rng, integer: bool) -> Self;

    fn same(what: &str, found: &[Self], expected: &[Self]) -> Judgement;

    /// The sums of two lists are equal.
    fn sums(what: &str, left: &[Self], right: &[Self]) -> Judgement;
}

fn sum<X: Numeric>(terms: &[X]) -> X {
    terms.iter().fold(X::zero(), |sum, x| sum.add(x))
}

impl Judged for Field {
    fn draw(rng: &mut Rng, _: bool) -> Self {
        Field::new(rng.u64(..))
    }

    fn same(what: &str, found: &[Self], expected: &[Self]) -> Judgement {
        if found == expected { Ok(()) } else { Err(format!("{what}, over a field: {found:?}, expected {expected:?}")) }
    }

    fn sums(what: &str, left: &[Self], right: &[Self]) -> Judgement {
        Field::same(what, &[sum(left)], &[sum(right)])
    }
}

impl Judged for Rounded {
    fn draw(rng: &mut Rng, integer: bool) -> Self {
        Rounded::new(if integer { f64::from(rng.i8(-2..3)) } else { rng.f64() * 3.0 - 1.5 })
    }

    fn same(what: &str, found: &[Self], expected: &[Self]) -> Judgement {
        let found: Vec<f64> = found.iter().map(|x| x.value).collect();
        Expected::from(expected.to_vec()).compare(what, &found, Ways::Simplified).map(|_| ())
    }

    fn sums(what: &str, left: &[Self], right: &[Self]) -> Judgement {
        let (left, right) = (sum(left), sum(right));
        let gap = (left.value - right.value).abs();
        let bound = 4.0 * (left.bound() + right.bound());
        if gap <= bound { Ok(()) } else { Err(format!("{what}: {left:?} and {right:?}")) }
    }
}

/// What a campaign saw.
#[derive(Default)]
pub struct Report {
    judged: BTreeMap<&'static str, usize>,
    /// Programs in which rounding decides a test.
    undecided: usize,
    /// Programs with numbers of which no double keeps much.
    large: usize,
    straight: usize,
    /// Programs whose derivatives are not all zero, and have loops.
    alive: usize,
    /// What is not supported.
    limits: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Report {
    pub fn judge(&mut self, relation: &'static str, judgement: Judgement) -> Judgement {
        *self.judged.entry(relation).or_default() += 1;
        judgement.map_err(|complaint| format!("{relation}: {complaint}"))
    }

    /// How often a relation was judged.
    pub(super) fn count(&self, relation: &str) -> usize {
        self.judged.get(relation).copied().unwrap_or(0)
    }

    pub(super) fn print(&self) {
        for (relation, count) in &self.judged {
            println!("  {relation}: {count} judged");
        }
        let Report { undecided, large, straight, alive, limits, .. } = self;
        println!("  {alive} with derivatives that have loops and are not zero");
        limits.iter().for_each(|(what, count)| println!("  {what}: {count}"));
        println!("  {undecided} where rounding decides a test, {large} with large numbers, {straight} without loops");
    }
}

fn leaves<X: Clone>(leaves: &[Vec<Leaf<X>>]) -> Vec<X> {
    leaves.iter().flatten().flat_map(|leaf| leaf.values().iter().cloned()).collect()
}

/// Random numbers in the shape of leaves.
pub(super) fn like<X: Judged, Y>(leaves: &[Leaf<Y>], rng: &mut Rng, integer: bool) -> Vec<Leaf<X>> {
    leaves.iter().map(|leaf| leaf.map(|_| Ok(X::draw(rng, integer))).expect("nothing fails")).collect()
}

/// The value, over a prime field, of a text that takes what a drawn program takes, on its inputs of a seed.
pub(super) fn value_modulo_a_prime(text: &str, plain: &Drawn, seed: u64) -> Vec<Field> {
    let function = Function::parse(&plain.text).unwrap_or_else(|error| panic!("{}\n{error:#}", plain.text));
    let program = surface::read(text, &[]).unwrap_or_else(|error| panic!("{text}\n{error:#}"));
    let inputs = inputs(&function, plain, &mut Rng::with_seed(seed), true);
    let bound = bind(&program.signature, &inputs).expect("the inputs fit");
    let at = Environment::from_bindings(&bound).expect("they are bound");
    let at = at.map(|_, _, leaf| leaf.map(|x| Ok(Field::new(x.to_bits())))).expect("nothing fails");
    let leaves: Vec<Leaf<Field>> = eval_term::evaluate(&program, &at, Limits::default()).expect("it runs");
    leaves.iter().flat_map(|leaf| leaf.values().to_vec()).collect()
}

pub(super) fn inputs(function: &Function, drawn: &Drawn, rng: &mut Rng, integer: bool) -> Inputs {
    let signature = function.signature();
    let value =
        |name: &str| drawn.sizes.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value as usize);
    let mut inputs = Inputs::new();
    for (name, value) in &drawn.sizes {
        inputs.size(*name, *value);
    }
    for param in signature.params.values() {
        let dims = signature.types.real_dims(param.ty).expect("tensors of reals");
        let dims: Vec<usize> = dims.iter().map(|n| value(&signature.sizes[n.as_size().expect("a size")])).collect();
        let volume: usize = dims.iter().product();
        if param.storage.pattern().is_some() {
            let (mut starts, mut columns) = (vec![0], Vec::new());
            for _ in 0..dims[0] {
                columns.extend((0..dims[1] as u32).filter(|_| rng.bool()));
                starts.push(columns.len());
            }
            let numbers = columns.iter().map(|_| Rounded::draw(rng, integer).value).collect();
            inputs.value(param.name.clone(), Csr::new(dims[0], dims[1], starts, columns, numbers).expect("a matrix"));
            continue;
        }
        let numbers = (0..volume).map(|_| Rounded::draw(rng, integer).value).collect();
        inputs.value(param.name.clone(), Dense::new(&dims, numbers).expect("a tensor"));
    }
    for relation in signature.relations.values().filter(|relation| relation.kind == RelationKind::Map) {
        let (from, to) = (value("T"), value("n"));
        let targets = (0..from).map(|_| rng.usize(0..to)).collect();
        inputs.relation(relation.name.clone(), Relation::from_map(&[from], targets, to).expect("a map"));
    }
    inputs
}

/// A derivative, and the parameters that it has more.
pub(super) struct Derivative {
    pub function: Function,
    pub flow: flow::Program,
    pub added: Vec<ParamId>,
}

pub(super) fn derive(function: &Function, mode: Mode, simplified: bool) -> Result<Derivative, String> {
    derive_with(function, mode, simplified, false)
}

fn derive_with(function: &Function, mode: Mode, simplified: bool, with_value: bool) -> Result<Derivative, String> {
    let names: Vec<String> = function.signature().params.values().map(|param| param.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let request = Request { with_value, ..Request::new(mode, &names) };
    let derived = function.derive(&if simplified { request } else { request.raw() }).map_err(words)?;
    let flow = derived.function.flow().cloned().ok_or("the loops are gone")?;
    verify("derive", &flow).map_err(words)?;
    let added = match derived.added.as_slice() {
        [] => Vec::new(),
        added => diff::params_by_name(&flow.signature, added).map_err(words)?,
    };
    Ok(Derivative { function: derived.function, flow, added })
}

/// What a program is evaluated on, for another one with sizes, parameters and relations of these names.
pub fn renamed<X: Clone>(at: &Environment<X>, from: &Signature, to: &Signature) -> Result<Environment<X>, String> {
    let missing = |name: &String| format!("`{name}` has no value");
    let size = |name: &String| from.sizes.values().position(|known| known == name).ok_or_else(|| missing(name));
    let param = |name: &String| from.params.values().position(|known| known.name == *name).ok_or_else(|| missing(name));
    let relation =
        |name: &String| from.relations.values().position(|known| known.name == *name).ok_or_else(|| missing(name));
    let mut found = at.clone();
    found.sizes = to.sizes.values().map(|n| Ok(at.sizes[size(n)?])).collect::<Result<_, String>>()?;
    found.params = to.params.values().map(|p| Ok(at.params[param(&p.name)?].clone())).collect::<Result<_, String>>()?;
    found.relations =
        to.relations.values().map(|r| Ok(at.relations[relation(&r.name)?].clone())).collect::<Result<_, String>>()?;
    Ok(found)
}

/// What holds over each kind of numbers.
pub struct World<X> {
    pub at: Environment<X>,
    pub direction: Vec<(ParamId, Vec<Leaf<X>>)>,
    pub seeds: Vec<Vec<Leaf<X>>>,
    pub value: Vec<X>,
    tangents: Vec<X>,
    signature: Arc<Signature>,
}

impl<X: Judged> World<X> {
    /// By the term evaluator.
    pub(super) fn new(
        term: &term::Program,
        flow: &flow::Program,
        at: Environment<X>,
        rng: &mut Rng,
        integer: bool,
    ) -> iverson::Result<Self> {
        let value = eval_term::evaluate(term, &at, Limits::default())?;
        let direction: Vec<(ParamId, Vec<Leaf<X>>)> =
            flow.signature.params.ids().zip(&at.params).map(|(p, leaves)| (p, like(leaves, rng, integer))).collect();
        let duals =
            at.map(|p, k, leaf| leaf.zip(&direction[p.0 as usize].1[k], |x, dx| Dual::new(x.clone(), dx.clone())))?;
        let duals = eval_term::evaluate(term, &duals, Limits::default())?;
        let mut rest = value.as_slice();
        let mut seeds = Vec::new();
        for output in &flow.outputs {
            let (own, others) = rest.split_at(output.values.len());
            seeds.push(like(own, rng, integer));
            rest = others;
        }
        let tangents = duals.iter().flat_map(|leaf| leaf.values().iter().map(Dual::derivative)).collect();
        Ok(World { value: leaves(&[value]), tangents, at, direction, seeds, signature: flow.signature.clone() })
    }

    pub(super) fn value(&self, report: &mut Report, what: &'static str, function: &Function) -> Judgement {
        let at = renamed(&self.at, &self.signature, function.signature())?;
        // Where no loop is left, a text is a program without them.
        let found = match function.flow() {
            Some(flow) => flow.evaluate(&at, None, Limits::default(), None),
            None => function.tensor_ssa().evaluate(&at, None, Limits::default(), None),
        };
        let found = found.map_err(words)?;
        report.judge(what, X::same("value", &leaves(&found), &self.value))
    }

    pub(super) fn forward(&self, report: &mut Report, what: &'static str, forward: &Derivative) -> Judgement {
        let tangents: Vec<_> = self.direction.iter().map(|(p, _)| *p).zip(forward.added.iter().copied()).collect();
        let outputs: Vec<usize> = (0..self.seeds.len()).collect();
        let forward = Forward { program: &forward.flow, tangents: &tangents, outputs: &outputs };
        let found = check::tangents(forward, &self.at, &self.direction, Limits::default()).map_err(words)?;
        report.judge(what, X::same("tangent", &leaves(&found), &self.tangents))
    }

    /// The inner products of the tangents, by dual numbers, with the seeds, and of the directions with the adjoints; gives the adjoints.
    pub(super) fn adjoint(
        &self,
        report: &mut Report,
        what: &'static str,
        adjoint: &Derivative,
    ) -> Result<Vec<X>, String> {
        let outputs: Vec<_> = self.direction.iter().map(|(p, _)| *p).zip(0..).collect();
        let adjoint = Adjoint { program: &adjoint.flow, seeds: &adjoint.added, outputs: &outputs };
        let found = check::adjoints(adjoint, &self.at, &self.seeds, Limits::default()).map_err(words)?;
        let found: Vec<Vec<Leaf<X>>> = found.into_iter().map(|(_, leaves)| leaves).collect();
        let directions: Vec<Vec<Leaf<X>>> = self.direction.iter().map(|(_, leaves)| leaves.clone()).collect();
        let found = leaves(&found);
        let products = |a: &[X], b: &[X]| a.iter().zip(b).map(|(a, b)| a.mul(b)).collect::<Vec<X>>();
        let left = products(&self.tangents, &leaves(&self.seeds));
        report.judge(what, X::sums("inner products", &left, &products(&found, &leaves(&directions))))?;
        Ok(found)
    }

    /// What a derivative is evaluated on.
    fn extended(&self, derivative: &Derivative, is_forward: bool) -> Result<Environment<X>, String> {
        let given: Vec<Vec<Leaf<X>>> = match is_forward {
            true => self.direction.iter().map(|(_, leaves)| leaves.clone()).collect(),
            false => self.seeds.clone(),
        };
        let additions: Vec<_> = derivative.added.iter().copied().zip(given).collect();
        check::extend(&derivative.flow.signature, &self.at, &additions).map_err(words)
    }
}

/// All numbers that a kernel gives.
fn by_kernel(function: &Function, inputs: &Inputs, engine: Engine) -> Result<Vec<f64>, String> {
    let kernel = function.kernel(inputs).engine(engine).build().map_err(words)?;
    Ok(numbers(&kernel.call(inputs).map_err(words)?.into_iter().collect::<Vec<_>>()))
}

/// The cost as a formula is what is counted.
pub fn costs(report: &mut Report, function: &Function, inputs: &Inputs) -> Judgement {
    let flow = function.flow().ok_or("no loops")?;
    let cost = function.cost().map_err(words)?;
    if cost.computed_relations().next().is_some() {
        return Ok(());
    }
    let counted = iverson::ir::reference::count(flow, inputs).map_err(words)?;
    let at = Environment::from_bindings(&bind(function.signature(), inputs).map_err(words)?).map_err(words)?;
    let world = Known::new(function.tensor_ssa(), &at, &[]).map_err(words)?;
    let found = cost.evaluate(&world).map_err(words)?;
    let expected = (counted.additions, counted.multiplications, counted.functions, counted.partials);
    let found = (found.additions, found.multiplications, found.functions, found.partials);
    let same = if found == expected { Ok(()) } else { Err(format!("{found:?}, counted {expected:?}")) };
    report.judge("cost", same)
}

/// What is counted is within the bounds of certificates; what they only claim of a bound is told.
fn certificates(report: &mut Report, function: &Function, world: &World<Rounded>, inputs: &Inputs) -> Judgement {
    let work = |function: &Function, inputs: &Inputs| {
        let flow = function.flow().ok_or("no loops")?;
        let counted = iverson::ir::reference::count(flow, inputs).map_err(words)?;
        Ok::<u128, String>(counted.additions + counted.multiplications + counted.functions)
    };
    let at = Environment::from_bindings(&bind(function.signature(), inputs).map_err(words)?).map_err(words)?;
    let known = Known::new(function.tensor_ssa(), &at, &[]).map_err(words)?;
    // The theorems are of what the rules of differentiation give: simplified, it may take more where a size is 0.
    for mode in [Mode::Forward, Mode::Adjoint] {
        let derivative = derive_with(function, mode, false, true)?;
        let certificate = function.certify(&derivative.function, mode).map_err(words)?;
        let extended = world.extended(&derivative, mode == Mode::Forward)?;
        let extended = extended.map(|_, _, leaf| leaf.map(|x| Ok(x.value))).expect("nothing fails");
        let extended = extended.inputs(&derivative.flow.signature).map_err(words)?;
        let (mut before, mut after) = (work(function, inputs)?, work(&derivative.function, &extended)?);
        if mode == Mode::Adjoint {
            let (taken, given) = certificate.primal.evaluate_io(&known).map_err(words)?;
            (before, after) = (before + taken + given, after + taken + given);
        }
        let within = after <= u128::from(certificate.bound.constant) * before;
        let complaint = format!("{mode:?}: {after} operations, {before} of the program, {}", certificate.bound);
        match certificate.bound.claim {
            Claim::Counted { .. } => {
                *report.judged.entry("adjoint within the bound that is not proved").or_default() += usize::from(within);
                if !within {
                    *report.limits.entry(complaint).or_default() += 1;
                }
            }
            Claim::Program | Claim::Leaves => {
                report.judge("within the bound", if within { Ok(()) } else { Err(complaint) })?;
            }
        }
    }
    Ok(())
}

/// What is judged of one program.
struct Way {
    native: bool,
    /// Whether derivatives of derivatives are.
    twice: bool,
    /// Whether Jacobians and the like are.
    matrices: bool,
    /// Whether the costs of derivatives are compared with their bounds.
    certificates: bool,
    /// Whether some parts are written with indices that are found at run time and with sum types.
    types: bool,
}

impl Way {
    fn program(&self, seed: u64, is_real: bool) -> Drawn {
        if self.types { with_types(seed, is_real).1 } else { program(seed, is_real) }
    }
}

/// All derivatives of a function, over the given numbers.
fn derivatives<X: Judged>(report: &mut Report, all: &[Derivative; 4], world: &World<X>) -> Judgement {
    let [forward, adjoint, forward_simplified, adjoint_simplified] = all;
    world.forward(report, "forward = dual numbers", forward)?;
    let expected = world.adjoint(report, "adjoint identity", adjoint)?;
    world.forward(report, "simplified forward = dual numbers", forward_simplified)?;
    let found = world.adjoint(report, "simplified adjoint identity", adjoint_simplified)?;
    report.judge("simplified adjoint = adjoint", X::same("adjoint", &found, &expected))?;
    for derivative in [adjoint, adjoint_simplified] {
        for flow in of_kernels(&derivative.flow)? {
            let (function, added) = (derivative.function.clone(), derivative.added.clone());
            let found =
                world.adjoint(report, "adjoint identity, for kernels", &Derivative { function, flow, added })?;
            report.judge("adjoint for kernels = adjoint", X::same("adjoint", &found, &expected))?;
        }
    }
    Ok(())
}

/// What becomes of a flow on its way to kernels: with sums taken into loops, and then with steps split, for unknown and for small sizes.
pub(super) fn of_kernels(flow: &flow::Program) -> Result<[flow::Program; 3], String> {
    let taken = flow::take_in(flow).map_err(words)?;
    verify("take-in", &taken).map_err(words)?;
    let split = |length: Option<i64>| {
        let split = flow::split(&taken, &|_| length).map_err(words)?;
        verify("split", &split).map_err(words)?;
        Ok::<_, String>(split)
    };
    Ok([split(None)?, split(Some(2))?, taken])
}

fn judge(report: &mut Report, seed: u64, is_real: bool, way: &Way) -> Judgement {
    let drawn = way.program(seed, is_real);
    let function = Function::parse(&drawn.text).map_err(|error| format!("refused: {error}"))?;
    let Some(flow) = function.flow() else {
        report.straight += 1;
        return Ok(());
    };
    judge_function(report, &function, flow, &drawn, seed, is_real, way)
}

/// One relation after the other.
fn judge_function(
    report: &mut Report,
    function: &Function,
    flow: &flow::Program,
    drawn: &Drawn,
    seed: u64,
    is_real: bool,
    way: &Way,
) -> Judgement {
    verify("outline", flow).map_err(words)?;
    let mut rng = Rng::with_seed(seed ^ 0x5eed);
    let given = inputs(function, drawn, &mut rng, !is_real);
    let at = Environment::from_bindings(&bind(function.signature(), &given).map_err(words)?).map_err(words)?;
    let term = function.term().map_err(words)?;
    costs(report, function, &given)?;
    let printed = Function::parse(&function.to_string()).map_err(|error| format!("the text: {error}\n{function}"))?;
    let simplified = function.simplify().map_err(words)?;
    verify("simplify", simplified.flow().ok_or("no flow")?).map_err(words)?;
    let derived = |mode, simplified| derive(function, mode, simplified);
    let all = [
        derived(Mode::Forward, false)?,
        derived(Mode::Adjoint, false)?,
        derived(Mode::Forward, true)?,
        derived(Mode::Adjoint, true)?,
    ];
    let presented =
        Function::parse(&simplified.to_string()).map_err(|e| format!("the simplified text: {e}\n{simplified}"))?;
    let texts: Vec<Function> = all
        .iter()
        .map(|d| Function::parse(&d.function.to_string()).map_err(|e| format!("the text: {e}\n{}", d.function)))
        .collect::<Result<_, _>>()?;
    let has_loop = |flow: &flow::Program| flow.body.iter().any(|stmt| matches!(stmt, flow::Stmt::Scan(_)));
    if !is_real {
        let at = at.map(|_, _, leaf| leaf.map(|_| Ok(Field::draw(&mut rng, true)))).expect("nothing fails");
        let world = World::new(&term, flow, at, &mut rng, true).map_err(words)?;
        world.value(report, "flow = term", function)?;
        world.value(report, "printed = parsed", &printed)?;
        world.value(report, "simplified = raw", &simplified)?;
        derivatives(report, &all, &world)?;
        if way.matrices {
            jacobians::judge(report, function, &term, flow, &world)?;
        }
        let zero = Field::zero();
        report.alive += usize::from(world.tangents.iter().any(|x| *x != zero) && has_loop(&all[3].flow));
        if way.twice {
            derivatives_of_adjoint(report, &all[3], &texts[3], &world, &mut rng)?;
        }
    }
    let rounded = at.map(|_, _, leaf| leaf.map(|x| Ok(Rounded::new(*x)))).expect("nothing fails");
    let world = match World::new(&term, flow, rounded, &mut rng, !is_real) {
        Err(error) if is_undecided(&error) => {
            report.undecided += 1;
            return Ok(());
        }
        world => world.map_err(words)?,
    };
    if world.value.iter().chain(&world.tangents).any(|x| x.value.is_nan() || x.value.abs() > 1e100) {
        report.large += 1;
        return Ok(());
    }
    let some = world.tangents.iter().any(|x| x.value != 0.0);
    report.alive += usize::from(is_real && some && has_loop(&all[3].flow));
    world.value(report, "flow = term", function)?;
    world.value(report, "printed = parsed", &printed)?;
    world.value(report, "printed = parsed", &presented)?;
    world.value(report, "simplified = raw", &simplified)?;
    derivatives(report, &all, &world)?;
    if way.matrices {
        if is_real {
            jacobians::judge(report, function, &term, flow, &world)?;
        }
        jacobians::judge_kernels(report, function, &world, &given)?;
    }
    if way.certificates {
        certificates(report, function, &world, &given)?;
    }
    kernels(report, function, &all, &texts, &world, &given, way)
}

/// The adjoint, as a text, is a program as others.
fn derivatives_of_adjoint(
    report: &mut Report,
    adjoint: &Derivative,
    text: &Function,
    world: &World<Field>,
    rng: &mut Rng,
) -> Judgement {
    let Some(flow) = text.flow() else { return Ok(()) };
    let extended = renamed(&world.extended(adjoint, false)?, &adjoint.flow.signature, &flow.signature)?;
    let world = World::new(&text.term().map_err(words)?, flow, extended, rng, true).map_err(words)?;
    for simplified in [false, true] {
        let forward = derive(text, Mode::Forward, simplified)?;
        world.forward(report, "forward of adjoint = dual numbers", &forward)?;
        world.adjoint(report, "adjoint of adjoint", &derive(text, Mode::Adjoint, simplified)?)?;
    }
    Ok(())
}

/// What kernels of a function and of its derivatives compute.
fn kernels(
    report: &mut Report,
    function: &Function,
    all: &[Derivative; 4],
    texts: &[Function],
    world: &World<Rounded>,
    given: &Inputs,
    way: &Way,
) -> Judgement {
    let loops = |function: &Function| function.loops(&mut Stages::new()).and_then(|loops| verify("link", &loops));
    loops(function).map_err(words)?;
    let expected = Expected::from(world.value.clone());
    let compare =
        |what: &str, found: &[f64], expected: &Expected| expected.compare(what, found, Ways::Simplified).map(|_| ());
    let found = by_kernel(function, given, Engine::Interpreter)?;
    report.judge("kernel = term", compare("value", &found, &expected))?;
    let bits = |numbers: &[f64]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let native = |report: &mut Report, function: &Function, inputs: &Inputs, found: &[f64]| {
        let compiled = by_kernel(function, inputs, Engine::Native)?;
        let same = bits(&compiled) == bits(found);
        report.judge("native = interpreter", if same { Ok(()) } else { Err(format!("{compiled:?} and {found:?}")) })
    };
    if way.native {
        native(report, function, given, &found)?;
    }
    for (k, (derivative, text)) in all.iter().zip(texts).enumerate() {
        let is_forward = k % 2 == 0;
        loops(&derivative.function).map_err(words)?;
        let extended = world.extended(derivative, is_forward)?;
        let plain = extended.map(|_, _, leaf| leaf.map(|x| Ok(x.value))).expect("nothing fails");
        let given = plain.inputs(&derivative.flow.signature).map_err(words)?;
        costs(report, &derivative.function, &given)?;
        let reference = derivative.flow.evaluate(&extended, None, Limits::default(), None).map_err(words)?;
        let expected = Expected::from(leaves(&reference));
        let found = by_kernel(&derivative.function, &given, Engine::Interpreter)?;
        report.judge("kernel of derivative", compare("derivative", &found, &expected))?;
        if let Some([_, nests]) = blocks::fused(&derivative.function, &given) {
            report.judge("blocks of rows", compare("derivative", &blocks::results(&nests, &given), &expected))?;
        }
        if way.native && k == 3 {
            native(report, &derivative.function, &given, &found)?;
        }
        // A result on a pattern is printed as a dense one.
        if derivative.flow.signature.params.values().any(|param| param.storage.pattern().is_some()) {
            continue;
        }
        let found = by_kernel(text, &given, Engine::Interpreter)?;
        report.judge("printed derivative = parsed", compare("derivative", &found, &expected))?;
    }
    Ok(())
}

fn run(first: u64, programs: u64, native: u64, types: bool) {
    let mut report = Report::default();
    for seed in first..first + programs {
        let is_real = seed % 2 == 1;
        let way = Way {
            native: native > 0 && seed % native == 3,
            twice: seed % 4 == 0,
            matrices: seed % 3 == 0,
            certificates: seed % 3 == 1,
            types,
        };
        let judged = catch_unwind(AssertUnwindSafe(|| judge(&mut report, seed, is_real, &way)));
        let complaint = match judged {
            Ok(Ok(())) => continue,
            Ok(Err(complaint)) if complaint.contains(Rounded::UNDECIDED) => {
                report.undecided += 1;
                continue;
            }
            Ok(Err(complaint)) if complaint.starts_with("not supported yet") => {
                *report.limits.entry(complaint).or_default() += 1;
                continue;
            }
            Ok(Err(complaint)) => complaint,
            Err(_) => "a panic".to_owned(),
        };
        let Drawn { text, sizes } = way.program(seed, is_real);
        println!("seed {seed}: {}", complaint.lines().next().unwrap_or_default());
        report.failures.push(format!("seed {seed}, {sizes:?}: {complaint}\n{text}"));
    }
    report.failures.sort_by_key(String::len);
    report.print();
    let shown = report.failures.iter().take(setting("IVERSON_SHOWN", 3)).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(report.failures.is_empty(), "{} failures\n{shown}", report.failures.len());
}

#[test]
fn some_programs() {
    run(0, 100, 66, false);
}

#[test]
fn some_programs_with_types() {
    run(0, 40, 33, true);
}

/// Minutes of work; see the command above.
#[test]
#[ignore = "4,000 programs take minutes; the command is in the module documentation"]
fn full() {
    for types in [false, true] {
        run(setting("IVERSON_SEED", 0), setting("IVERSON_PROGRAMS", 4000), 200, types);
    }
}

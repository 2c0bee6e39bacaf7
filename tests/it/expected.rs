//! The derivatives that a mathematician expects, `tests/expected/<program>.<step>..iv`, against those that are derived.
//!
//! A step makes the next program of the one before, beginning with `tests/programs/<program>.iv`:
//!
//! | step | the next program |
//! |---|---|
//! | `value` | the same |
//! | `x`, `x+y` | the gradient by `x`, or by `x` and `y`; the adjoint where the expectation has a parameter `dy` |
//! | `dx` | the forward derivative by `x`, which takes the tangent `dx` |
//! | `jacobian` | the Jacobian by the first parameter |
//! | `norm2` | the sum of squares of the result, a vector |
//! | `columns` | the results for all tangents with a single 1: the tangent is no parameter any more, the place of the 1 is an axis in front |
//!
//! Every file is what is derived, in value, which is independent of any simplification: exactly on integers where both are polynomial, else up to `1e-12` of the sum of the absolute values of the terms.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use fastrand::Rng;
use iverson::ir::base::Id;
use iverson::ir::index::{Pred, Size, Var};
use iverson::ir::reference::numeric::Users;
use iverson::ir::reference::{Environment, Leaf, Numeric};
use iverson::ir::scalar::{Function as ScalarFunction, Number, Op, Primitive};
use iverson::ir::stages::Stages;
use iverson::ir::tssa::Rhs;
use iverson::ir::ty::{RelationKind, Signature, Storage};
use iverson::ir::{surface, term, tssa};
use iverson::tensor::{Coo, Dense, Inputs, Relation, Tensor, Value, bind};
use iverson::{Function, Mode, Request};

use crate::alike::{same_in_essence, same_up_to_renaming};
use crate::hygiene::faults;
use crate::support::{Numbers, compile, declarations, evaluate};

/// What makes the next program of the one before.
#[derive(Debug)]
enum Step {
    Value,
    Reverse(Vec<String>),
    Forward(String),
    Norm2,
    Columns,
    Jacobian,
}

/// A file of `tests/expected`.
struct Expectation {
    name: String,
    function: Function,
    program: Function,
    steps: Vec<String>,
}

/// A derivative of a program.
type Derive = fn(&Function, Mode, &[&str]) -> Function;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All expectations, by name.
fn expectations() -> Vec<Expectation> {
    let files = std::fs::read_dir(root().join("tests/expected")).expect("the folder is there");
    let mut paths: Vec<_> = files.map(|file| file.expect("the folder can be read").path()).collect();
    paths.sort();
    paths.iter().map(|path| Expectation::new(path)).collect()
}

fn has_param(function: &Function, name: &str) -> bool {
    function.tensor_ssa().signature.params.values().any(|p| p.name == name)
}

impl Expectation {
    fn new(path: &Path) -> Self {
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        let mut parts = name.split('.').map(str::to_owned);
        let program = parts.next().expect("a name has parts");
        let program = compile(&read(&root().join(format!("tests/programs/{program}.iv"))));
        Expectation { function: compile(&read(path)), program, steps: parts.collect(), name }
    }

    /// What a step means for the program before it.
    fn step(&self, word: &str, before: &Function) -> Step {
        let params: Vec<String> = word.split('+').map(str::to_owned).collect();
        match word {
            "value" => Step::Value,
            "norm2" => Step::Norm2,
            "columns" => Step::Columns,
            "jacobian" => Step::Jacobian,
            _ if params.iter().all(|x| has_param(before, x)) => Step::Reverse(params),
            _ => {
                let x = word.strip_prefix('d').filter(|x| has_param(before, x));
                Step::Forward(x.unwrap_or_else(|| panic!("{}: `{word}` is no step", self.name)).to_owned())
            }
        }
    }

    /// The program after all steps, simplified.
    fn simplified(&self) -> Function {
        let derived = self.derived(simplified_derivative);
        derived.simplify().unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// The program after all steps.
    fn derived(&self, derive: Derive) -> Function {
        self.steps.iter().fold(self.program.clone(), |before, word| match self.step(word, &before) {
            Step::Value => before,
            Step::Reverse(wrt) => {
                let seeded = has_param(&self.function, "dy") && !has_param(&before, "dy");
                let mode = if seeded { Mode::Adjoint } else { Mode::Gradient };
                derive(&before, mode, &wrt.iter().map(String::as_str).collect::<Vec<_>>())
            }
            Step::Forward(x) => derive(&before, Mode::Forward, &[&x]),
            Step::Norm2 => norm2(&before),
            Step::Columns => columns(&before),
            Step::Jacobian => {
                let x = before.tensor_ssa().signature.params.values().next().expect("a parameter");
                derive(&before, Mode::Jacobian, &[&x.name])
            }
        })
    }
}

/// Declarations and body of a program.
fn parts(function: &Function) -> (Vec<String>, String) {
    declarations(&function.to_string())
}

/// `norm2(f(x))`
fn norm2(function: &Function) -> Function {
    let (header, body) = parts(function);
    compile(&format!("{}\nsquared_norm({body})", header.join("\n")))
}

/// `gen k < n. f(x, gen i < n. [i = k])`, for a function whose last parameter is a tangent.
fn columns(function: &Function) -> Function {
    let (mut header, body) = parts(function);
    let last = header.iter().rposition(|line| line.starts_with("param ")).expect("a tangent is a parameter");
    let tangent = header.remove(last);
    let declared = tangent.strip_prefix("param ").and_then(|rest| rest.strip_suffix("] real"));
    let (name, sizes) = declared.and_then(|rest| rest.split_once(" : [")).expect("the tangent is a tensor");
    let ranges = |index: &str| -> String {
        let ranges = sizes.split(", ").enumerate().map(|(axis, n)| format!("{index}{axis} < {n}"));
        ranges.collect::<Vec<_>>().join(", ")
    };
    let places = (0..sizes.split(", ").count()).map(|axis| format!("place{axis} = column{axis}"));
    let places = places.collect::<Vec<_>>().join(" and ");
    compile(&format!(
        "{}\ngen {}. let {name} = gen {}. [{places}] * 1 in\n{body}",
        header.join("\n"),
        ranges("column"),
        ranges("place")
    ))
}

/// A derivative as the rules give it.
fn derivative(function: &Function, mode: Mode, wrt: &[&str]) -> Function {
    requested(function, &Request::new(mode, wrt).raw())
}

/// A derivative as the simplifier leaves it.
fn simplified_derivative(function: &Function, mode: Mode, wrt: &[&str]) -> Function {
    requested(function, &Request::new(mode, wrt))
}

fn requested(function: &Function, request: &Request) -> Function {
    let derived = function.derive(request);
    derived.unwrap_or_else(|error| panic!("{error}\n{function}")).function
}

/// A number with the sum of the absolute values of the terms that it is made of: what its rounding error is measured by.
#[derive(Clone, Copy, Debug)]
struct Weighed {
    value: f64,
    weight: f64,
}

impl Weighed {
    fn exact(value: f64) -> Self {
        Weighed { value, weight: value.abs() }
    }
}

impl Numeric for Weighed {
    fn literal(x: f64) -> iverson::Result<Self> {
        Ok(Weighed::exact(x))
    }

    fn integer(k: i64) -> Self {
        Weighed::exact(k as f64)
    }

    fn add(&self, other: &Self) -> Self {
        Weighed { value: self.value + other.value, weight: self.weight + other.weight }
    }

    fn mul(&self, other: &Self) -> Self {
        Weighed { value: self.value * other.value, weight: self.weight * other.weight }
    }

    /// `|f(a)| + sum |f'(a)| * weight(a)`
    fn apply(function: ScalarFunction, users: &Users, args: &[Self]) -> iverson::Result<Self> {
        let values: Vec<f64> = args.iter().map(|a| a.value).collect();
        let mut result = Weighed::exact(f64::apply(function, users, &values)?);
        if let ScalarFunction::Value(primitive) = function {
            for (k, a) in (0..).zip(args) {
                let slope = f64::apply(ScalarFunction::Partial(primitive, k), users, &values)?;
                // At a kink the function may have no slope; then its value has to do.
                result.weight += if slope.is_finite() { slope.abs() * a.weight } else { 0.0 };
            }
        }
        Ok(result)
    }

    fn is_zero(&self) -> iverson::Result<bool> {
        Ok(self.value == 0.0)
    }

    fn compare(&self, other: &Self) -> iverson::Result<Option<std::cmp::Ordering>> {
        Ok(self.value.partial_cmp(&other.value))
    }

    fn is_nan(&self) -> iverson::Result<bool> {
        Ok(self.value.is_nan())
    }
}

/// Whether integers stay integers.
fn is_polynomial(program: &tssa::Program) -> bool {
    program.stmts.values().all(|stmt| match &stmt.rhs {
        Rhs::Number(Number::Literal(x)) => x.fract() == 0.0,
        Rhs::Map { function: ScalarFunction::Value(Primitive::Op(op)), .. } => {
            matches!(op, Op::Powi(0..) | Op::Compare(_) | Op::Max | Op::Min)
        }
        Rhs::Map { .. } => false,
        Rhs::Input { .. } | Rhs::Number(Number::Index(_)) | Rhs::Add(_) | Rhs::Contract { .. } => true,
    })
}

/// The value of a size, none where it is negative.
fn length(n: &Size, sizes: &[i64]) -> i64 {
    let value = n.evaluate(&mut |v| match v {
        Var::Size(n) => sizes.get(n.index()).copied(),
        Var::Index(_) | Var::Apply(_) => None,
    });
    value.expect("sizes are made of size variables").expect("small numbers").max(0)
}

fn shape(dims: &[Size], sizes: &[i64]) -> Vec<usize> {
    dims.iter().map(|n| length(n, sizes) as usize).collect()
}

/// Whether an assumption on sizes holds.
fn holds(p: &Pred, sizes: &[i64]) -> bool {
    let value = |a: &Size| {
        let value = a.evaluate(&mut |v| match v {
            Var::Size(n) => sizes.get(n.index()).copied(),
            Var::Index(_) | Var::Apply(_) => None,
        });
        value.expect("assumptions are on sizes").expect("small numbers")
    };
    match p {
        Pred::True => true,
        Pred::NonNegative(a) => value(a) >= 0,
        Pred::Zero(a) => value(a) == 0,
        Pred::NonZero(a) => value(a) != 0,
        Pred::All(ps) => ps.iter().all(|p| holds(p, sizes)),
        Pred::Any(ps) => ps.iter().any(|p| holds(p, sizes)),
        Pred::False | Pred::Relation { .. } | Pred::Exists { .. } => false,
    }
}

/// Small sizes: all alike, each one empty, and some at random; raised until the assumptions hold.
pub fn small_sizes(signature: &Signature, rng: &mut Rng) -> Vec<Vec<i64>> {
    let count = signature.sizes.len();
    let alike = [0, 1, 2].map(|n| vec![n; count]);
    let one_empty = (0..count).map(|empty| (0..count).map(|k| if k == empty { 0 } else { 3 }).collect());
    let mut cases: Vec<Vec<i64>> = alike.into_iter().chain(one_empty).collect();
    cases.extend((0..3).map(|_| (0..count).map(|_| rng.i64(1..=4)).collect::<Vec<i64>>()));
    for sizes in &mut cases {
        while !signature.assumptions.iter().all(|p| holds(p, sizes)) {
            sizes.iter_mut().for_each(|n| *n += 1);
        }
    }
    cases
}

/// A random subset of the places of a box, in order.
fn tuples(shape: &[usize], rng: &mut Rng) -> Vec<Vec<usize>> {
    let density = [0, 30, 60, 100][rng.usize(0..4)];
    let places = shape.iter().fold(vec![Vec::new()], |tuples, n| {
        tuples.iter().flat_map(|t: &Vec<usize>| (0..*n).map(move |k| [t.as_slice(), &[k]].concat())).collect()
    });
    places.into_iter().filter(|_| rng.u8(0..100) < density).collect()
}

/// Numbers for all parameters; nothing where a map has sources and no target.
pub fn inputs(signature: &Signature, sizes: &[i64], numbers: &mut Numbers, rng: &mut Rng) -> Option<Inputs> {
    let mut inputs = Inputs::new();
    for (name, n) in signature.sizes.values().zip(sizes) {
        inputs.size(name, *n);
    }
    for param in signature.params.values() {
        let leaves = signature.types.leaves(param.ty).expect("few leaves");
        if param.storage == Storage::Dense {
            let leaf = |leaf: &iverson::ir::ty::Leaf| {
                let shape = shape(&leaf.dims, sizes);
                let data = numbers.vector(shape.iter().product());
                Arc::new(Tensor::Dense(Dense::new(&shape, data).expect("the data fill the shape")))
            };
            inputs.value(&param.name, Value::new(leaves.iter().map(leaf).collect()));
            continue;
        }
        let shape = shape(&leaves[0].dims, sizes);
        let places = tuples(&shape, rng);
        let columns = (0..shape.len()).map(|axis| places.iter().map(|t| t[axis]).collect()).collect();
        let coo = Coo::new(shape, columns, numbers.vector(places.len())).expect("sorted and unique");
        let format = param.storage.format().expect("it is sparse");
        inputs.value(&param.name, Tensor::sparse(format, coo).expect("its axes fit"));
    }
    for relation in signature.relations.values() {
        let shape = shape(&relation.shape, sizes);
        match relation.kind {
            RelationKind::Pattern(_) | RelationKind::Projection(..) => {}
            RelationKind::Free => {
                let tuples = tuples(&shape, rng);
                inputs.relation(&relation.name, Relation::from_tuples(&shape, &tuples).expect("sorted and unique"));
            }
            RelationKind::Map => {
                let (target, sources) = shape.split_last().expect("a map has a target");
                let count = sources.iter().product();
                if *target == 0 && count > 0 {
                    return None;
                }
                let targets = (0..count).map(|_| rng.usize(0..*target)).collect();
                inputs.relation(&relation.name, Relation::from_map(sources, targets, *target).expect("in range"));
            }
        }
    }
    Some(inputs)
}

fn run(function: &Function, inputs: &Inputs) -> Vec<Leaf<Weighed>> {
    let program = function.tensor_ssa();
    let bindings = bind(&program.signature, inputs).unwrap_or_else(|error| panic!("{error}\n{function}"));
    let environment = Environment::from_bindings(&bindings).expect("the inputs fit");
    let environment = environment.map(|_, _, leaf| leaf.map(|x| Ok(Weighed::exact(*x)))).expect("nothing fails");
    evaluate(program, &environment).unwrap_or_else(|error| panic!("{error}\n{function}"))
}

/// All elements of a tensor, those without a value 0.
fn dense(leaf: &Leaf<Weighed>) -> Vec<Weighed> {
    let Some(pattern) = leaf.pattern() else { return leaf.values().to_vec() };
    let mut elements = vec![Weighed::exact(0.0); leaf.dims.iter().product::<u64>() as usize];
    for (tuple, value) in pattern.tuples().zip(leaf.values()) {
        let place = tuple.iter().zip(&leaf.dims).fold(0, |place, (k, n)| place * *n as usize + k);
        elements[place] = *value;
    }
    elements
}

/// Judges whether an expectation declares what the derivative declares and has its values, at several sizes from a least one and numbers like
/// these.
pub fn judge(expected: &Function, derived: &Function, least: i64, numbers: &mut Numbers) -> Result<(), String> {
    let (found, wanted) = (parts(derived).0, parts(expected).0);
    if found != wanted {
        return Err(format!("the derivative declares {found:?}, the expectation {wanted:?}"));
    }
    let exact = numbers.are_integers() && is_polynomial(expected.tensor_ssa()) && is_polynomial(derived.tensor_ssa());
    let signature = &derived.tensor_ssa().signature;
    let mut rng = Rng::with_seed(11);
    let (mut judged, mut elements) = (0, 0);
    for sizes in small_sizes(signature, &mut rng) {
        if sizes.iter().any(|n| *n < least) {
            continue;
        }
        let Some(inputs) = inputs(signature, &sizes, numbers, &mut rng) else { continue };
        let (found, wanted) = (run(derived, &inputs), run(expected, &inputs));
        let dims = |leaves: &[Leaf<Weighed>]| leaves.iter().map(|leaf| leaf.dims.clone()).collect::<Vec<_>>();
        if dims(&found) != dims(&wanted) {
            return Err(format!("at {sizes:?} shapes are {:?} and {:?} expected", dims(&found), dims(&wanted)));
        }
        for (a, b) in found.iter().flat_map(dense).zip(wanted.iter().flat_map(dense)) {
            let tolerance = if exact { 0.0 } else { 1e-12 * a.weight.max(b.weight) };
            let equal = (a.value - b.value).abs() <= tolerance;
            if !equal {
                return Err(format!("at {sizes:?} {a:?} is derived, {b:?} expected"));
            }
            elements += 1;
        }
        judged += 1;
    }
    match judged >= 3 && elements > 0 {
        true => Ok(()),
        false => Err(format!("{judged} cases with {elements} elements are too few")),
    }
}

/// The expectation is what is derived, in value.
#[test]
fn expectations_have_the_derived_values() {
    for expectation in expectations() {
        let derived = expectation.derived(derivative);
        if let Err(complaint) = judge(&expectation.function, &derived, 0, &mut Numbers::new(11, true)) {
            panic!("{}: {complaint}\n{derived}\n{}", expectation.name, expectation.function);
        }
    }
}

/// Expectations with a mistake in them are found out.
#[test]
fn mistakes_have_other_values() {
    for (file, right, wrong) in [
        ("e01_trace_of_diagonal.x", "gen i < n. k", "gen i < n. n"),
        ("e07_convolution.x", "[0 <= k + j - m + 1 < n]", "[0 <= k + j - m + 1 < n and j > 0]"),
        ("e08_deconvolution.w", "2 * (", "3 * ("),
        ("k03_sparse_logistic_regression.w", "-t0", "-0.99999999999 * t0"),
        ("k05_matrix_factorisation.U", "[A?(i, j)] * 2", "2"),
        ("k15_embedding.E", "E[tok(k), j]", "E[tok(k), j] + 1"),
    ] {
        let path = root().join(format!("tests/expected/{file}.iv"));
        let text = read(&path);
        assert!(text.contains(right), "{file} has no `{right}`");
        let expectation = Expectation { function: compile(&text.replacen(right, wrong, 1)), ..Expectation::new(&path) };
        let judgement = judge(&expectation.function, &expectation.derived(derivative), 0, &mut Numbers::new(11, true));
        assert!(judgement.is_err(), "{file} with `{wrong}` is not found out");
    }
}

/// An expectation is the same as what is read of its print, and as no other of its program, where it is not said twice.
#[test]
fn expectations_are_told_apart() {
    const TWICE: [&str; 2] = ["e10_quadratic_form.dx.columns.dx.columns", "e10_quadratic_form.x.dx.columns"];
    let all: Vec<(String, term::Program)> =
        expectations().into_iter().map(|e| (e.name.clone(), e.function.term().expect("it was read"))).collect();
    for (k, (name, program)) in all.iter().enumerate() {
        let back = surface::read(&program.to_string(), &[]).expect("what is printed is read");
        assert_eq!(same_up_to_renaming(program, &back), Ok(()), "{name}");
        for (other, another) in &all[..k] {
            let twice = [other, name.as_str()] == TWICE;
            assert_eq!(same_in_essence(program, another).is_ok(), twice, "{name} and {other}");
        }
    }
}

/// What is expected says and does nothing in vain.
#[test]
fn expectations_have_no_faults() {
    for expectation in expectations() {
        let program = expectation.function.term().expect("it was read");
        assert_eq!(faults(&program), [], "{}\n{program}", expectation.name);
    }
}

/// What the simplifier leaves; made once, since it takes a minute without optimisation.
fn simplified() -> &'static [(Expectation, Function)] {
    static ALL: OnceLock<Vec<(Expectation, Function)>> = OnceLock::new();
    let all = || {
        let simplified = |expectation: Expectation| (expectation.simplified(), expectation);
        expectations().into_iter().map(simplified).map(|(derived, expectation)| (expectation, derived)).collect()
    };
    ALL.get_or_init(all)
}

/// Neither does what the simplifier leaves.
#[test]
fn simplified_derivatives_have_no_faults() {
    let mut faulty = 0;
    for (expectation, derived) in simplified() {
        let derived = derived.term().expect("it can be read");
        let found = faults(&derived);
        faulty += usize::from(!found.is_empty());
        println!("{}: {} faults", expectation.name, found.len());
        found.iter().for_each(|(fault, what)| println!("  {fault:?}: {what}"));
    }
    assert_eq!(faulty, 0, "derivatives have faults");
}

/// What the simplifier leaves is what is expected, up to where constants stand and the order of axes.
#[test]
fn simplified_derivatives_are_as_expected() {
    let mut differing = 0;
    for (expectation, derived) in simplified() {
        let expected = expectation.function.term().expect("it was read");
        let derived = derived.term().expect("it can be read");
        let verdict = match (same_up_to_renaming(&derived, &expected), same_in_essence(&derived, &expected)) {
            (Ok(()), _) => "as expected".to_owned(),
            (Err(_), Ok(())) => "as expected, but for where constants stand, or the order of axes".to_owned(),
            (Err(why), Err(_)) => format!("differs: {why}"),
        };
        println!("{}: {verdict}", expectation.name);
        if same_in_essence(&derived, &expected).is_err() {
            differing += 1;
            println!("{}", indented(&parts(&expectation.function).1, "  expected  "));
            println!(
                "{}",
                indented(
                    &parts(&Function::compile(derived, &mut Stages::new()).expect("it compiles")).1,
                    "  found     "
                )
            );
        }
    }
    assert_eq!(differing, 0, "derivatives differ from what is expected");
}

fn indented(text: &str, margin: &str) -> String {
    text.lines().map(|line| format!("{margin}{line}")).collect::<Vec<_>>().join("\n")
}

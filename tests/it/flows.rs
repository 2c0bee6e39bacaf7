//! Programs with loops, those of `tests/flows`: values and derivatives by independent programs, and by each other.
//!
//! Where nothing else is said, the number at place `k` of the parameter `p`, both counted from 0, is `sin(1 + 3 p + 0.7 k) / 2`, derivatives are taken
//! along the direction `cos(p + 0.3 k)`, and a map sends `k` to `k^2 + 1` modulo its range. The expected figures are those of programs in another
//! language, with derivatives by complex steps.

mod blocks;
mod early;
mod external;
mod fixpoints;
mod functions;
mod invariant;
mod jacobians;
mod patterned;
pub mod programs;
mod random;
mod steps;
mod tiles;
mod types;
mod unfolds;
mod updates;

use std::path::PathBuf;
use std::sync::Arc;

use iverson::ir::base::ParamId;
use iverson::ir::index::{Size, Var};
use iverson::ir::reference::check::{self, Adjoint, Forward};
use iverson::ir::reference::{Environment, Leaf, Limits, Subject, eval_term};
use iverson::ir::ty::RelationKind;
use iverson::ir::{diff, flow};
use iverson::kernel::Engine;
use iverson::tensor::{Csr, Dense, Inputs, Relation, Value, bind};
use iverson::{Function, Mode, Request};

use crate::campaign::known::Known;

fn program(name: &str) -> Function {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/flows").join(format!("{name}.iv"));
    let text = std::fs::read_to_string(&path).expect("the program is there");
    Function::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn size(n: &Size, sizes: &[(&str, i64)], names: &[String]) -> usize {
    let value = n.evaluate(&mut |v| match v {
        Var::Size(id) => {
            let name = names.get(id.0 as usize)?;
            sizes.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
        }
        _ => None,
    });
    usize::try_from(value.expect("the sizes are given").expect("no overflow")).expect("no negative size")
}

/// A number of a parameter, from its place.
type Number<'a> = &'a dyn Fn(usize, usize) -> f64;

fn usual(param: usize, place: usize) -> f64 {
    (1.0 + 3.0 * param as f64 + 0.7 * place as f64).sin() / 2.0
}

fn inputs(function: &Function, sizes: &[(&str, i64)], number: Number<'_>, maps: &[(&str, &[usize])]) -> Inputs {
    let signature = function.signature();
    let names: Vec<String> = signature.sizes.values().cloned().collect();
    let mut inputs = Inputs::new();
    for (name, value) in sizes {
        inputs.size(*name, *value);
    }
    for (id, param) in signature.params.iter() {
        let dims = signature.types.real_dims(param.ty).expect("tensors of reals");
        let shape: Vec<usize> = dims.iter().map(|n| size(n, sizes, &names)).collect();
        if param.storage.pattern().is_some() {
            // Entries where 3 i + 5 j is a multiple of 4.
            let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
            for i in 0..shape[0] {
                for j in (0..shape[1]).filter(|j| (3 * i + 5 * j) % 4 == 0) {
                    values.push(number(id.0 as usize, columns.len()));
                    columns.push(j as u32);
                }
                starts.push(columns.len());
            }
            inputs.value(param.name.clone(), Csr::new(shape[0], shape[1], starts, columns, values).expect("a matrix"));
            continue;
        }
        let count = shape.iter().product();
        let numbers = (0..count).map(|k| number(id.0 as usize, k)).collect();
        inputs.value(param.name.clone(), Dense::new(&shape, numbers).expect("a tensor"));
    }
    for relation in signature.relations.values().filter(|relation| relation.kind == RelationKind::Map) {
        let shape: Vec<usize> = relation.shape.iter().map(|n| size(n, sizes, &names)).collect();
        let (range, sources) = shape.split_last().expect("a map has a target");
        let given = maps.iter().find(|(name, _)| *name == relation.name).map(|(_, targets)| *targets);
        let target = |k: usize| given.map_or((k * k + 1) % range, |targets| targets[k]);
        let targets = (0..sources.iter().product()).map(target).collect();
        inputs.relation(relation.name.clone(), Relation::from_map(sources, targets, *range).expect("a map"));
    }
    inputs
}

fn numbers(leaves: &[Leaf<f64>]) -> Vec<f64> {
    leaves.iter().flat_map(Leaf::values).copied().collect()
}

fn close(what: &str, found: f64, expected: f64, tolerance: f64) {
    let gap = (found - expected).abs();
    assert!(gap <= tolerance * expected.abs().max(1.0), "{what}: {found} where {expected} is expected");
}

/// Judges all that can be judged without knowing the value: the evaluators of terms and of flows, kernels of both engines, printed texts, and
/// derivatives, raw and simplified, by dual numbers and the adjoint identity. Gives the value and the gradient along the direction.
fn judge(name: &str, function: &Function, inputs: &Inputs) -> (f64, f64) {
    let flow = function.flow().expect("it has loops");
    flow.verify().expect("it is well formed");
    let at =
        Environment::from_bindings(&bind(&flow.signature, inputs).expect("the inputs fit")).expect("they are bound");
    let value = flow.evaluate(&at, None, Limits::default(), None).expect("it runs");
    let term = function.term().expect("it has a source");
    let by_term = eval_term::evaluate(&term, &at, Limits::default()).expect("it runs");
    for (a, b) in numbers(&value.concat()).iter().zip(numbers(&by_term)) {
        close(&format!("{name}, as a term"), *a, b, 1e-13);
    }
    let wrt: Vec<ParamId> = flow.signature.params.ids().collect();
    let names: Vec<String> = flow.signature.params.values().map(|param| param.name.clone()).collect();
    let direction = wrt.iter().map(|p| {
        let leaf = &at.params[p.0 as usize][0];
        let mut k = 0.0;
        let leaf = leaf.map(|_| {
            k += 1.0;
            Ok((f64::from(p.0) + 0.3 * (k - 1.0)).cos())
        });
        (*p, vec![leaf.expect("no error")])
    });
    let direction: Vec<(ParamId, Vec<Leaf<f64>>)> = direction.collect();
    let seeds: Vec<_> = value.iter().map(|leaves| check::random_like(leaves, 7).expect("numbers")).collect();
    let mut along = f64::NAN;
    for simplify in [None, Request::new(Mode::Forward, &[]).simplify] {
        let derive = |mode| {
            let request = Request { wrt: names.clone(), simplify: simplify.clone(), ..Request::new(mode, &[]) };
            let derived = function.derive(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
            let flow = derived.function.flow().cloned().expect("it has loops");
            flow.verify().unwrap_or_else(|violations| panic!("{name}: {violations:?}\n{flow}"));
            let added = match derived.added.as_slice() {
                [] => Vec::new(),
                added => diff::params_by_name(&flow.signature, added).expect("they are there"),
            };
            (derived.function, flow, added)
        };
        let (_, forward, tangents) = derive(Mode::Forward);
        let (printed, adjoint, seeded) = derive(Mode::Adjoint);
        let tangents: Vec<_> = wrt.iter().copied().zip(tangents).collect();
        let outputs: Vec<usize> = (0..value.len()).collect();
        let adjoints: Vec<_> = wrt.iter().copied().zip(0..).collect();
        let forward = Forward { program: &forward, tangents: &tangents, outputs: &outputs };
        let adjoint = Adjoint { program: &adjoint, seeds: &seeded, outputs: &adjoints };
        let limits = Limits::default();
        let dual = check::dual_numbers(flow, forward, &at, &direction, limits.into()).expect("it runs");
        assert!(dual.ratio() <= 1e-11, "{name}: dual numbers {dual:?}");
        let identity = check::adjoint_identity(forward, adjoint, &at, &direction, &seeds, limits.into());
        let identity = identity.expect("it runs");
        assert!(identity.ratio() <= 1e-12, "{name}: adjoint identity {identity:?}");
        along = numbers(&check::tangents(forward, &at, &direction, limits).expect("it runs").concat()).iter().sum();
        // What is printed means the same.
        let text = printed.to_string();
        let again = Function::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        let additions: Vec<_> = seeded.iter().copied().zip(seeds.iter().cloned()).collect();
        let all = check::extend(&adjoint.program.signature, &at, &additions).expect("all is there");
        let all = all.inputs(&adjoint.program.signature).expect("inputs");
        let results = |function: &Function| {
            let results =
                function.kernel(&all).engine(Engine::Interpreter).build().and_then(|kernel| kernel.call(&all));
            let results = results.unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
            let leaves = results.iter().flat_map(|(_, value)| value.leaves().to_vec());
            leaves.flat_map(|leaf| leaf.lexicographic().into_owned()).collect::<Vec<f64>>()
        };
        let (found, expected) = (results(&again), results(&printed));
        if printed.flow().is_some_and(|flow| flow.signature.params.values().all(|p| p.storage.pattern().is_none())) {
            assert_eq!(found.len(), expected.len(), "{name}");
            for (a, b) in found.iter().zip(&expected) {
                close(&format!("{name}, printed"), *a, *b, 1e-12);
            }
        }
        let reference = adjoint.program.evaluate(
            &check::extend(&adjoint.program.signature, &at, &additions).expect("all is there"),
            None,
            limits,
            None,
        );
        for (a, b) in expected.iter().zip(numbers(&reference.expect("it runs").concat())) {
            close(&format!("{name}, adjoint by a kernel"), *a, b, 1e-11);
        }
        if let Some([before, after]) = blocks::fused(&printed, &all) {
            for (a, b) in blocks::results(&after, &all).iter().zip(blocks::results(&before, &all)) {
                close(&format!("{name}, in blocks of rows"), *a, b, 1e-11);
            }
        }
    }
    let kernel = function.kernel(inputs).engine(Engine::Interpreter).build().expect("it is bound");
    let results = kernel.call(inputs).expect("it runs");
    let found: Vec<f64> = results
        .iter()
        .flat_map(|(_, value)| value.leaves().to_vec())
        .flat_map(|leaf| leaf.lexicographic().into_owned())
        .collect();
    for (a, b) in found.iter().zip(numbers(&value.concat())) {
        close(&format!("{name}, by a kernel"), *a, b, 1e-12);
    }
    (numbers(&value.concat()).iter().sum(), along)
}

/// Absolute values for some parameters.
fn positive(params: &'static [usize]) -> impl Fn(usize, usize) -> f64 {
    move |p, k| if params.contains(&p) { usual(p, k).abs() } else { usual(p, k) }
}

/// Value, and derivative along the direction, as programs in another language find them.
#[test]
fn values_and_derivatives() {
    let option = |p: usize, k: usize| usual(p, k).abs() + if p == 1 { 0.2 } else { 0.0 };
    let lorenz = |p: usize, k: usize| if p == 2 { usual(p, k).abs() / 5.0 } else { usual(p, k) };
    let [all, first_two, second] = [positive(&[0, 1, 2]), positive(&[0, 1]), positive(&[1])];
    type Case<'a> = (&'a str, &'a [(&'a str, i64)], Number<'a>, f64, f64);
    let cases: [Case<'_>; 15] = [
        ("gru", &[("n", 3), ("m", 2), ("T", 4)], &usual, 0.4375489188899837, 1.6506518618354216),
        ("bidirectional", &[("n", 3), ("T", 4)], &usual, 2.80315598715153, 10.17382080057229),
        ("lorenz", &[("T", 9)], &lorenz, 0.37634054050935006, 0.339461066889192),
        ("wave", &[("n", 6), ("T", 7)], &usual, 0.1079562759293263, -0.44827493826780473),
        ("gray_scott", &[("n", 3), ("m", 4), ("T", 4)], &usual, -0.6506057473593281, -4.853998770945181),
        ("value_iteration", &[("s", 3), ("a", 2), ("T", 5)], &usual, 0.5266983828228297, 1.7673450848738599),
        ("viterbi", &[("T", 5), ("K", 3)], &usual, 1.8228770250899076, -4.906655322085365),
        ("sinkhorn", &[("n", 3), ("m", 4), ("T", 6)], &all, 0.5332289819979519, -0.980416086576864),
        ("option_tree", &[("T", 5)], &option, 0.15766575525001592, -0.45969769413186023),
        ("edit_distance", &[("n", 4), ("m", 3)], &first_two, 0.9176145263268196, -0.3304136003699183),
        ("newton_inside", &[("T", 5)], &second, 0.3302439336248375, 0.4141998296620125),
        ("ode", &[("T", 6)], &usual, 6.234104457564112, 6.938294980447869),
        ("pagerank", &[("n", 5), ("T", 6)], &usual, 0.33048053842741487, -1.2973485837178518),
        ("updates", &[("n", 4), ("T", 6)], &usual, 0.7791773032499688, -2.5024845824211894),
        ("seasons", &[("T", 7)], &usual, 3.6562301960190564, -28.254042137225618),
    ];
    for (name, sizes, number, value, derivative) in cases {
        let function = program(name);
        let (found, along) = judge(name, &function, &inputs(&function, sizes, number, &[]));
        close(name, found, value, 1e-13);
        close(&format!("{name}, its derivative"), along, derivative, 1e-12);
    }
}

/// The norm of a gradient by a parameter, or one of its elements.
fn gradient(function: &Function, inputs: &Inputs, wrt: &str) -> Vec<f64> {
    let gradient = function.gradient([wrt]).expect("it has a gradient");
    let kernel = gradient.kernel(inputs).engine(Engine::Interpreter).build().expect("it is bound");
    let results = kernel.call(inputs).expect("it runs");
    results[format!("grad_{wrt}").as_str()].leaves()[0].lexicographic().into_owned()
}

fn norm(numbers: &[f64]) -> f64 {
    numbers.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Figures to ten digits or so.
const DIGITS: f64 = 1e-9;

#[test]
fn a_long_short_term_memory() {
    let function = program("lstm");
    let number = |p: usize, k: usize| {
        let f = |x: usize| x as f64;
        match p {
            0 => (1.0 + f(k / 6) + 2.0 * f(k / 2 % 3) + 3.0 * f(k % 2)).sin() / 2.0,
            1 => (1.0 + f(k / 9) + 2.0 * f(k / 3 % 3) + 3.0 * f(k % 3)).cos() / 2.0,
            2 => (f(k / 3) - f(k % 3)) / 10.0,
            3 => (f(k / 2) + f(k % 2)).sin(),
            _ => (f(k / 3) + 2.0 * f(k % 3)).cos(),
        }
    };
    let inputs = inputs(&function, &[("T", 5), ("n", 3), ("m", 2)], &number, &[]);
    close("value", judge("lstm", &function, &inputs).0, 7.325266312953, DIGITS);
    for (wrt, expected) in [("W", 2.5556497714), ("U", 0.3666037167), ("b", 2.3390059331)] {
        close(wrt, norm(&gradient(&function, &inputs, wrt)), expected, DIGITS);
    }
}

#[test]
fn a_hidden_markov_model() {
    let function = program("hmm");
    let number = |p: usize, k: usize| match p {
        0 => ((k / 3) as f64 + 2.0 * (k % 3) as f64).sin(),
        1 => (2.0 * (k / 3) as f64 + (k % 3) as f64).cos(),
        _ => k as f64 / 10.0,
    };
    let inputs = inputs(&function, &[("K", 3), ("O", 3), ("T", 6)], &number, &[("obs", &[0, 1, 1, 0, 1, 1])]);
    close("value", judge("hmm", &function, &inputs).0, -6.868552742366, DIGITS);
    for (found, expected) in gradient(&function, &inputs, "A").iter().zip([0.11582784, -0.10361059, -0.01221725]) {
        close("by A", *found, expected, 1e-8);
    }
}

#[test]
fn a_kalman_filter() {
    let function = program("kalman");
    let number = |p: usize, k: usize| match p {
        0 => [1.0, 1.0, 0.0, 1.0][k],
        1 => [0.1, 0.0, 0.0, 0.1][k],
        2 => [1.0, 0.0][k],
        3 => 0.5,
        4 => k as f64 + (k as f64).sin(),
        5 => 0.0,
        _ => [1.0, 0.0, 0.0, 1.0][k],
    };
    let inputs = inputs(&function, &[("n", 2), ("T", 8)], &number, &[]);
    close("value", judge("kalman", &function, &inputs).0, -11.99793230814, DIGITS);
    let by_noise = gradient(&function, &inputs, "Q");
    close("by q", by_noise[0] + by_noise[3], -1.82541122, 1e-8);
    close("by r", gradient(&function, &inputs, "r")[0], -1.78612855, 1e-8);
}

#[test]
fn steps_of_runge_and_kutta() {
    for name in ["rk4", "rk4_of_function"] {
        let function = program(name);
        let inputs = inputs(&function, &[("T", 10)], &|p, _| [1.3, 2.0, 0.1][p], &[]);
        close(name, judge(name, &function, &inputs).0, 0.545065465836, DIGITS);
        close("by a", gradient(&function, &inputs, "a")[0], -0.545058078821, DIGITS);
    }
}

#[test]
fn heat_in_a_rod() {
    let function = program("heat");
    let wave = |k: usize| (std::f64::consts::PI * (k as f64 + 1.0) / 4.0).sin();
    let number = |p: usize, k: usize| [wave(k), 0.2, 0.0][p];
    let inputs = inputs(&function, &[("n", 7), ("T", 20)], &number, &[]);
    // The program is without the half.
    close("value", judge("heat", &function, &inputs).0, 2.0 * 0.0136887393, 1e-9);
    close("by c", gradient(&function, &inputs, "c").iter().sum(), 2.0 * -0.3633117304, 1e-9);
    let factor = (0.0136887393_f64 / 2.0) * 2.0;
    for (k, found) in gradient(&function, &inputs, "u0").iter().enumerate() {
        close("by u0", *found, factor * wave(k), 1e-9);
    }
}

#[test]
fn particles() {
    let function = program("particles");
    let number = |p: usize, k: usize| match (p, k % 2) {
        (0, 0) => (k / 2 + 1) as f64 / 2.0,
        (0, _) => 0.1,
        _ => 1.0,
    };
    let inputs = inputs(&function, &[("k", 4), ("T", 1000)], &number, &[]);
    close("value", judge("particles", &function, &inputs).0, 0.00106762335129, 1e-12);
    for (found, expected) in gradient(&function, &inputs, "p").iter().zip([1.24312e-4, 1.74184e-4]) {
        close("by p", *found, expected, 1e-9);
    }
}

#[test]
fn a_random_field_on_a_chain() {
    let function = program("crf");
    let number = |p: usize, k: usize| match p {
        0 => ((k / 2 + k % 2) as f64).sin(),
        _ => [0.3, -0.2, 0.1, 0.4][k],
    };
    let inputs = inputs(&function, &[("T", 4), ("K", 2)], &number, &[("label", &[0, 1, 1, 0])]);
    close("value", judge("crf", &function, &inputs).0, 3.634641077453, DIGITS);
    let expected = [1.05568159, -0.65869616, -0.16657738, -0.23040804];
    for (found, expected) in gradient(&function, &inputs, "w").iter().zip(expected) {
        close("by w", *found, expected, 1e-8);
    }
}

#[test]
fn a_product_with_a_zero() {
    let function = program("product");
    let inputs = inputs(&function, &[("n", 3)], &|_, k| [2.0, 0.0, 4.0][k], &[]);
    close("value", judge("product", &function, &inputs).0, 0.0, 0.0);
    assert_eq!(gradient(&function, &inputs, "x"), [0.0, 8.0, 0.0]);
}

#[test]
fn a_bouncing_ball() {
    let function = program("ball");
    let inputs = inputs(&function, &[("T", 300)], &|p, _| [1.0, 0.5][p], &[]);
    close("value", judge("ball", &function, &inputs).0, 0.04865084512, 1e-11);
    close("by y0", gradient(&function, &inputs, "y0")[0], 1.0, DIGITS);
    close("by v0", gradient(&function, &inputs, "v0")[0], 1.93270656, 1e-8);
}

#[test]
fn states_fed_by_tokens() {
    let function = program("tokens");
    let number = |_: usize, k: usize| (1.0 + (k / 2) as f64 + 2.0 * (k % 2) as f64).sin();
    let inputs = inputs(&function, &[("V", 5), ("n", 2), ("T", 6)], &number, &[("tok", &[1, 3, 1, 0, 3, 3])]);
    close("value", judge("tokens", &function, &inputs).0, -1.16532231812, DIGITS);
    let found = gradient(&function, &inputs, "E");
    close("row 3", found[6], 0.68371615, 1e-8);
    close("row 3", found[7], 1.16639604, 1e-8);
    assert_eq!([found[4], found[5], found[8], found[9]], [0.0; 4]);
}

/// No step, one, and some: the path has one state more than there are steps.
#[test]
fn few_steps() {
    for steps in [0, 1, 2, 5] {
        for name in ["cumulative", "states"] {
            let function = program(name);
            let sizes = [("n", steps), ("T", steps), ("k", 3)];
            let sizes = if name == "cumulative" { &sizes[..1] } else { &sizes[1..] };
            judge(name, &function, &inputs(&function, sizes, &usual, &[]));
        }
    }
}

/// Programs that random ones have found.
#[test]
fn found_by_random_programs() {
    for (name, sizes) in
        [("rows", &[("n", 3), ("T", 5)][..]), ("idle", &[("T", 3), ("U", 2)]), ("antidiagonal", &[("n", 4), ("T", 2)])]
    {
        let function = program(name);
        judge(name, &function, &inputs(&function, sizes, &usual, &[]));
    }
}

/// Both engines give the same bits.
#[test]
fn engines_agree() {
    for (name, sizes) in [
        ("lstm", &[("T", 7), ("n", 33), ("m", 5)][..]),
        ("edit_distance", &[("n", 9), ("m", 20)]),
        ("pagerank", &[("n", 40), ("T", 9)]),
        ("particles", &[("k", 70), ("T", 11)]),
    ] {
        let function = program(name);
        let names: Vec<String> = function.signature().params.values().map(|param| param.name.clone()).collect();
        for function in [function.value_and_gradient(&names).expect("it has a gradient"), function] {
            let inputs = inputs(&function, sizes, &usual, &[]);
            let bits = |engine| {
                let kernel = function.kernel(&inputs).engine(engine).build().expect("it is bound");
                let results = kernel.call(&inputs).expect("it runs");
                let leaves = results.iter().flat_map(|(_, value)| value.leaves().to_vec());
                let numbers = leaves.flat_map(|leaf| leaf.lexicographic().into_owned());
                numbers.map(f64::to_bits).collect::<Vec<_>>()
            };
            assert_eq!(bits(Engine::Interpreter), bits(Engine::Native), "{name}");
        }
    }
}

/// Second derivatives are derivatives of derivatives: a Hessian times a vector, by differences of gradients.
#[test]
fn second_derivatives() {
    for (name, sizes, wrt) in [("product", &[("n", 4)][..], "x"), ("bidirectional", &[("n", 2), ("T", 3)], "W")] {
        let function = program(name);
        let mut inputs = inputs(&function, sizes, &usual, &[]);
        let product = function.hessian_product([wrt]).expect("it is differentiated twice");
        let at = |shift: f64| {
            let mut moved = inputs.clone();
            let value = inputs.get(wrt).expect("it is given").leaves()[0].clone();
            let numbers: Vec<f64> =
                value.lexicographic().iter().zip(0..).map(|(x, k)| x + shift * direction(k)).collect();
            moved.value(wrt, Dense::new(&value.shape(), numbers).expect("a tensor"));
            gradient(&function, &moved, wrt)
        };
        let (before, behind) = (at(-1e-4), at(1e-4));
        let shape = inputs.get(wrt).expect("it is given").leaves()[0].shape();
        let count: usize = shape.iter().product();
        let tangent = Dense::new(&shape, (0..count).map(direction).collect()).expect("a tensor");
        inputs.value(format!("d{wrt}"), Value::new(vec![Arc::new(tangent.into())]));
        let results = product.eval(&inputs).expect("it runs");
        let found = results[format!("hessian_{wrt}").as_str()].leaves()[0].lexicographic().into_owned();
        for ((found, a), b) in found.iter().zip(before).zip(behind) {
            close(name, *found, (b - a) / 2e-4, 1e-6);
        }
    }
}

fn direction(k: usize) -> f64 {
    (1.0 + k as f64).cos()
}

/// What a gradient says: a scan backwards, and sums over the paths.
#[test]
fn gradients_read_well() {
    let text = |name: &str, wrt: &str| {
        let text = program(name).gradient([wrt]).expect("it has a gradient").to_string();
        text.lines()
            .filter(|line| !line.starts_with("param") && !line.starts_with("map"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    insta::assert_snapshot!(text("product", "x"));
    insta::assert_snapshot!(text("tokens", "E"));
    insta::assert_snapshot!(text("heat", "c"));
}

/// What is not there for programs with loops is said, each time.
#[test]
fn what_there_is_not() {
    let function = program("product");
    let no = |error: iverson::Error| {
        let message = error.to_string();
        assert!(
            message.starts_with("not supported yet: ") && message.ends_with(" of a program with loops"),
            "{message}"
        );
    };
    no(function.explain().expect_err("no explanation"));
    let derivation = Request { derivation: true, ..Request::new(Mode::Gradient, &["x"]) };
    no(function.derive(&derivation).expect_err("no derivation"));
}

/// A flow is verified: a state that its step does not make, a value out of scope, a loop index of two ranges.
#[test]
fn flows_are_verified() {
    let function = program("cumulative");
    let sound = function.flow().expect("it has loops");
    let broken = |change: &dyn Fn(&mut flow::Program)| {
        let mut flow = sound.clone();
        change(&mut flow);
        flow.verify().expect_err("it is broken").join("\n")
    };
    let scan = |flow: &mut flow::Program, change: &dyn Fn(&mut flow::Scan)| {
        for stmt in &mut flow.body {
            if let flow::Stmt::Scan(scan) = stmt {
                change(scan);
            }
        }
    };
    assert!(broken(&|flow| scan(flow, &|scan| scan.body.clear())).contains("is not in scope"));
    assert!(broken(&|flow| scan(flow, &|scan| scan.states[0].last = scan.states[0].path)).contains("is given twice"));
    assert!(broken(&|flow| scan(flow, &|scan| scan.steps = Size::constant(3))).contains("is no path of"));
    assert!(broken(&|flow| flow.outputs[0].values.clear()).contains("has other leaves"));
}

/// The cost as a formula is what is counted, of programs and of their gradients.
#[test]
fn costs_are_counted() {
    for (name, sizes) in [
        ("product", &[("n", 5)][..]),
        ("lstm", &[("T", 4), ("n", 3), ("m", 2)]),
        ("edit_distance", &[("n", 4), ("m", 3)]),
        ("option_tree", &[("T", 4)]),
        ("particles", &[("k", 3), ("T", 4)]),
        ("pagerank", &[("n", 5), ("T", 4)]),
        ("viterbi", &[("T", 4), ("K", 3)]),
    ] {
        let function = program(name);
        let names: Vec<String> = function.signature().params.values().map(|param| param.name.clone()).collect();
        for function in [function.gradient(&names).expect("it has a gradient"), function] {
            let inputs = inputs(&function, sizes, &usual, &[]);
            let flow = function.flow().expect("it has loops");
            let counted = iverson::ir::reference::count(flow, &inputs).expect("it runs");
            let cost = function.cost().expect("no overflow");
            let bindings = bind(function.signature(), &inputs).expect("the inputs fit");
            let at = Environment::from_bindings(&bindings).expect("they are bound");
            let world = Known::new(function.tensor_ssa(), &at, &[]).expect("nothing is evaluated");
            if cost.computed_relations().next().is_some() {
                continue;
            }
            let found = cost.evaluate(&world).expect("all is known");
            let expected = (counted.additions, counted.multiplications, counted.functions, counted.partials);
            let found = (found.additions, found.multiplications, found.functions, found.partials);
            assert_eq!(found, expected, "{name}");
        }
    }
}

/// A flow goes through JSON, and what is saved computes the same.
#[test]
fn flows_are_saved() {
    for name in ["lstm", "edit_distance", "pagerank"] {
        let function = program(name);
        let names: Vec<String> = function.signature().params.values().map(|param| param.name.clone()).collect();
        for function in [function.gradient(&names).expect("it has a gradient"), function] {
            let flow = function.flow().expect("it has loops");
            let json = flow.to_json().expect("it is written");
            assert_eq!(flow::Program::from_json(&json).expect("it is read"), *flow);
            assert!(flow::Program::from_json(&json.replace("\"steps\"", "\"stairs\"")).is_err());
            let saved = serde_json::to_string(&function).expect("it is saved");
            let again: Function = serde_json::from_str(&saved).expect("it is loaded");
            assert_eq!(again.to_string(), function.to_string());
        }
    }
}

/// Programs with loops are put into others, and others into them.
#[test]
fn flows_are_composed() {
    let sums = Function::parse("param x : [n] real\nscan t < n, s = 0. s + x[t]").expect("it is a program");
    let squares = Function::parse("param v : [m] real\nsum i < m. v[i]^2").expect("it is a program");
    let loss = squares.substitute("v", &sums).expect("the shapes fit");
    let results = loss.gradient(["x"]).expect("it has a gradient").eval(&iverson::inputs! { "x" => [1.0, 2.0, 3.0] });
    let results = results.expect("it runs");
    assert_eq!(results["grad_x"].as_slice(), Some(&[20.0, 18.0, 12.0][..]));
    let halves = Function::parse("param y : [n] real\ngen i < n. y[i] / 2").expect("it is a program");
    let halved = sums.substitute("x", &halves).expect("the shapes fit");
    let results = halved.eval(&iverson::inputs! { "y" => [2.0, 4.0] }).expect("it runs");
    assert_eq!(results["value"].as_slice(), Some(&[0.0, 1.0, 3.0][..]));
    let renamed = loss.value_and_gradient(["x"]).expect("it has a gradient").rename([("x", "z")]).expect("no z");
    let results = renamed.eval(&iverson::inputs! { "z" => [1.0, 2.0] }).expect("it runs");
    assert_eq!(results["value"].as_scalar(), Some(10.0));
}

/// What parameters that are constant lead to is computed once, with the same bits.
/// States that a program names have these names in what is printed of it, however many they are.
#[test]
fn states_keep_their_names() {
    let text = "param a : real\nfst (fold t < 3, (x, y, z) = (a, 1, 2). (y * x, z + x, x * z))";
    let gradient = Function::parse(text).and_then(|f| f.gradient(["a"])).expect("it has a gradient").to_string();
    assert!(gradient.contains("scan t < 3, (x, y, z) = (a, 1, 2)."), "{gradient}");
    assert!(gradient.contains("fold t < 3 down, (dx, dy, dz) = (1, 0, 0)."), "{gradient}");
}

#[test]
fn constants_change_no_bit() {
    let function = program("lstm");
    let gradient = function.value_and_gradient(["U", "b"]).expect("it has a gradient");
    let inputs = inputs(&gradient, &[("T", 5), ("n", 6), ("m", 3)], &usual, &[]);
    let bits = |constants: &[&str]| {
        let kernel = gradient.kernel(&inputs).constants(constants).engine(Engine::Interpreter).build();
        let results = kernel.and_then(|kernel| kernel.call(&inputs)).expect("it runs");
        let numbers = results.iter().flat_map(|(_, value)| value.leaves().to_vec());
        numbers.flat_map(|leaf| leaf.lexicographic().into_owned()).map(f64::to_bits).collect::<Vec<_>>()
    };
    assert_eq!(bits(&["x", "y", "W"]), bits(&[]));
}

/// A path that nobody reads is not kept: memory does not grow with the number of steps.
#[test]
fn folds_need_no_memory() {
    let function = program("heat");
    let inputs = inputs(&function, &[("n", 4), ("T", 1_000)], &usual, &[]);
    let kernel = function.kernel(&inputs).engine(Engine::Interpreter).build().expect("it is bound");
    let ranks: Vec<usize> = kernel.program().buffers.values().map(|buffer| buffer.dims.len()).collect();
    assert!(ranks.iter().all(|rank| *rank <= 1), "{}", kernel.program());
}

/// `prod` is a fold, and printed as one that it is.
#[test]
fn products_over_indices() {
    for (text, printed, value) in [
        ("prod i < n. x[i]", "prod i < n. x[i]", 6.0),
        (
            "prod i < n, j < n. x[i] + j",
            "prod i < n. prod j < n. x[i] + j",
            1.0 * 2.0 * 3.0 * 2.0 * 3.0 * 4.0 * 3.0 * 4.0 * 5.0,
        ),
        ("fold i < n, p = 1. p * x[i]", "prod i < n. x[i]", 6.0),
        ("2 * (prod (i < n) (x[i] - 1)) + 1", "2 * (prod i < n. x[i] - 1) + 1", 1.0),
        ("sum j < n. prod i < n. [i != j] * x[i] + [i = j]", "sum j < n. prod i < n. [j != i] * x[i] + [j = i]", 11.0),
    ] {
        let function =
            Function::parse(&format!("param x : [n] real\n{text}")).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(function.to_string().lines().last(), Some(printed));
        let again = Function::parse(&function.to_string()).expect("it is read");
        assert_eq!(again.to_string(), function.to_string());
        let results = function.eval(&iverson::inputs! { "x" => [1.0, 2.0, 3.0] }).expect("it runs");
        assert_eq!(results["value"].as_scalar(), Some(value), "{text}");
    }
}

//! Certificates: what they print is what is counted, and below what they prove.

use std::collections::BTreeMap;
use std::path::Path;

use fastrand::Rng;
use iverson::ir::base::{RelationId, SizeId};
use iverson::ir::certificate::Certificate;
use iverson::ir::index::{RelationRef, Size};
use iverson::ir::reference;
use iverson::ir::solver::estimate::Hints;
use iverson::ir::solver::{Sample, World};
use iverson::ir::stages::Stages;
use iverson::ir::surface;
use iverson::ir::ty::{RelationKind, Signature};
use iverson::tensor::{Coo, Inputs, Relation, Tensor, Value};
use iverson::{Function, Mode, Request};

use crate::generate;
use crate::support::{Numbers, compile};

/// Guards of every kind that is counted by a formula, and of kinds that are not: `[p] * x[i] * y[j]` summed over both, and row by row.
const GUARDS: [&str; 25] = [
    "0 <= i",
    "j <= i",
    "j < i",
    "i + 1 = j",
    "2 * i = j",
    "i = 2 * j + 1",
    "i <= j and j <= i + 2",
    "i + j < n",
    "i + j = n",
    "i != j",
    "i = 0 or j = 0",
    "i < 2 or 3 <= j",
    "2 <= i and j < i",
    "3 * j <= i",
    "R(i, j)",
    "i + 1 < n and R(i + 1, j)",
    "R(j, i) and j < i",
    "R(i, j) and R(j, i)",
    "R(i, i)",
    "exists k < n. (R(k, i) and R(k, j))",
    "exists k < n. R(i, k)",
    "exists k < n. (R(i, k) and R(k, j))",
    "f(i) = j",
    "f(i) = j and R(i, j)",
    "f(f(i)) <= j",
];

/// Programs whose sparse reads are shifted, transposed, or under more guards.
const SPARSE: [&str; 7] = [
    "param A : csr [n, n] real\nparam x : [n] real\ngen i < n. sum j < n. [i + 1 < n] * A[i + 1, j] * x[j]",
    "param A : csr [n, n] real\nparam x : [n] real\ngen i < n. sum j < n. [i + 1 < n and j >= 1] * A[i + 1, j - 1] * x[j]",
    "param A : csr [n, n] real\nparam x : [n] real\ngen i < n. sum j < n. A[j, i] * x[j] + A[i, j] * x[i]",
    "param A : csr [n, n] real\nparam x : [n] real\ngen i < n. sum j < n. [j < i] * A[i, j] * x[j]^2",
    "param A : csr [n, n] real\nparam B : csr [n, n] real\ngen i < n, j < n. sum k < n. A[i, k] * B[k, j]",
    "param T : coo [n, n, n] real\nparam x : [n] real\nsum i < n, j < n, k < n. T[i, j, k] * x[i] * x[j] * x[k]",
    "param A : csr [n, n] real\nparam x : [n] real\nmap f : [n] -> [n]\nsum i < n, j < n. A[i, j] * x[f(j)]^2",
];

fn programs_of_the_tests() -> Vec<(String, Function)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("it is there").map(|f| f.expect("it is read").path()).collect();
    files.sort();
    let text = |file: &std::path::PathBuf| std::fs::read_to_string(file).expect("it is read");
    let programs = files.iter().map(|file| (file.display().to_string(), compile(&text(file))));
    programs.chain(SPARSE.iter().map(|text| ((*text).to_owned(), compile(text)))).collect()
}

fn random_programs(count: u64) -> impl Iterator<Item = (String, Function)> {
    (0..count).filter_map(|seed| {
        let generated = generate::program(seed, seed % 2 == 0);
        let source = surface::read(&generated.text, &[]).expect("generated programs are sound");
        let function = Function::compile(source, &mut Stages::new()).expect("it compiles");
        (function.tensor_ssa().stmts.len() <= 40).then_some((format!("seed {seed}"), function))
    })
}

/// What the certificate of a derivative says holds of what it counts. Gives how many ratios were judged.
fn judge(name: &str, certificate: &Certificate) -> usize {
    let (constant, ratio) = (certificate.bound.constant as f64, &certificate.ratio);
    let ratios: Vec<f64> = ratio.samples.iter().filter_map(|sample| sample.ratio()).collect();
    for found in &ratios {
        assert!(*found <= constant, "{name}: {found} is above {constant}:\n{certificate}");
    }
    if let Some(limit) = ratio.limit() {
        assert!(limit <= constant * (1.0 + 1e-9), "{name}: tends to {limit}, above {constant}:\n{certificate}");
    }
    // What is said to be its growth is the count, but for rows of a relation that happen to be empty.
    if let Some((primal, derivative)) = &ratio.growth {
        for sample in ratio.samples.iter().filter(|sample| sample.n == 1000) {
            for (growth, counted) in [(primal, sample.primal), (derivative, sample.derivative)] {
                let Some(counted) = counted.exactly() else { continue };
                let (estimate, counted) = (growth.at(1000.0), counted as f64);
                let has_relations = !certificate.primal.computed_relations().collect::<Vec<_>>().is_empty()
                    || format!("{certificate}").contains('|');
                let factor = if has_relations { 1.05 } else { 1.0 + 1e-9 };
                assert!(
                    estimate <= factor * counted && counted <= factor * estimate,
                    "{name}: {estimate} where {counted} is counted:\n{certificate}"
                );
            }
        }
    }
    ratios.len()
}

fn certificates(name: &str, function: &Function) -> usize {
    let params: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
    let wrt: Vec<&str> = params.iter().map(String::as_str).collect();
    if wrt.is_empty() {
        return 0;
    }
    let mut judged = 0;
    for mode in [Mode::Forward, Mode::Adjoint] {
        let request = Request { with_value: true, ..Request::new(mode, &wrt) }.raw();
        for request in [request.clone(), Request { expand_partials: false, ..request }] {
            let derived = function.derive(&request).expect("it is derived").function;
            let certificate = function.certify(&derived, mode).expect("a theorem bounds it");
            judged += judge(name, &certificate);
        }
    }
    judged
}

#[test]
fn ratios_are_those_of_counts_and_below_their_bounds() {
    let judged: usize = programs_of_the_tests().iter().map(|(name, function)| certificates(name, function)).sum();
    assert!(judged > 200, "only {judged} ratios were judged");
}

#[test]
fn ratios_of_random_programs_are_below_their_bounds() {
    let judged: usize = random_programs(120).map(|(name, function)| certificates(&name, &function)).sum();
    assert!(judged > 200, "only {judged} ratios were judged");
}

/// The same points in two forms have the same numbers.
#[test]
fn equal_sets_have_equal_counts() {
    let declared = "param x : [n] real\nrel R : [n, n]\nmap f : [n] -> [n]\n";
    let pairs = [
        ("sum i < n, j < n. [i + 1 < n and R(i + 1, j)] * x[j]", "sum i < n, j < n. [1 <= i and R(i, j)] * x[j]"),
        ("sum i < n, j < n. [R(i, j)] * x[j]", "sum j < n, i < n. [R(j, i)] * x[i]"),
        ("sum i < n, j < n. [R(i, j) and j <= i] * x[j]", "sum i < n, j < n. [R(j, i) and i <= j] * x[i]"),
        ("sum i < n, j < n. [f(i) = j and R(i, j)] * x[j]", "sum i < n. [R(i, f(i))] * x[f(i)]"),
        ("sum i < n, j < n. [R(i, j) or R(i, j) and j <= i] * x[j]", "sum i < n, j < n. [R(i, j)] * x[j]"),
        ("sum i < n, j < n, k < n. [j = i and R(k, j)] * x[j]", "sum i < n, k < n. [R(k, i)] * x[i]"),
        ("sum i < n, j < n. [i + j < n] * x[j]", "sum i < n, j < n. [j <= i] * x[n - 1 - i]"),
    ];
    for (a, b) in pairs {
        let work = |body: &str| {
            let cost = compile(&format!("{declared}{body}")).cost().expect("small numbers");
            [10, 100].map(|n| cost.sample(&Hints::new(), n).exactly())
        };
        let (found, other) = (work(a), work(b));
        assert!(found[0].is_some() && other[0].is_some(), "{a}");
        for (found, other) in found.iter().zip(other) {
            assert!(found.is_none() || other.is_none() || *found == other, "{a}: {found:?}\n{b}: {other:?}");
        }
    }
}

/// The inputs that are a sample.
fn inputs(signature: &Signature, world: &Sample, seed: u64) -> Option<Inputs> {
    let mut numbers = Numbers::new(seed, true);
    let mut inputs = Inputs::new();
    for (id, name) in signature.sizes.iter() {
        inputs.size(name, world.size(id));
    }
    let shape =
        |dims: &[Size]| -> Option<Vec<usize>> { dims.iter().map(|n| usize::try_from(world.extent(n)?).ok()).collect() };
    let tuples = |r: RelationId, shape: &[usize]| -> Vec<Vec<usize>> {
        let places = shape.iter().fold(vec![Vec::new()], |tuples, n| {
            tuples.iter().flat_map(|t: &Vec<usize>| (0..*n).map(move |k| [t.as_slice(), &[k]].concat())).collect()
        });
        let holds = |t: &Vec<usize>| {
            let tuple: Vec<i64> = t.iter().map(|k| *k as i64).collect();
            world.holds(RelationRef::Input(r), &tuple)
        };
        places.into_iter().filter(holds).collect()
    };
    for param in signature.params.values() {
        let leaves = signature.types.leaves(param.ty).expect("few leaves");
        let Some(pattern) = param.storage.pattern() else {
            let leaf = |leaf: &iverson::ir::ty::Leaf| {
                let shape = shape(&leaf.dims)?;
                let data = numbers.vector(shape.iter().product());
                let dense = iverson::tensor::Dense::new(&shape, data).expect("the data fill the shape");
                Some(std::sync::Arc::new(iverson::tensor::Tensor::Dense(dense)))
            };
            inputs.value(&param.name, Value::new(leaves.iter().map(leaf).collect::<Option<_>>()?));
            continue;
        };
        let shape = shape(&leaves[0].dims)?;
        let places = tuples(pattern, &shape);
        let columns = (0..shape.len()).map(|axis| places.iter().map(|t| t[axis]).collect()).collect();
        let coo = Coo::new(shape, columns, numbers.vector(places.len())).expect("sorted and unique");
        let format = param.storage.format().expect("it is sparse");
        inputs.value(&param.name, Tensor::sparse(format, coo).expect("its axes fit"));
    }
    for (id, relation) in signature.relations.iter() {
        let shape = shape(&relation.shape)?;
        let tuples = tuples(id, &shape);
        match relation.kind {
            RelationKind::Pattern(_) | RelationKind::Projection(..) => {}
            RelationKind::Free => {
                inputs.relation(&relation.name, Relation::from_tuples(&shape, &tuples).expect("sorted and unique"));
            }
            RelationKind::Map => {
                let (target, sources) = shape.split_last()?;
                let targets = tuples.iter().filter_map(|t| t.last().copied()).collect();
                inputs.relation(&relation.name, Relation::from_map(sources, targets, *target).expect("in range"));
            }
        }
    }
    Some(inputs)
}

/// The formulas of a program, evaluated in made-up worlds, are what the evaluator counts on the data that these worlds are.
fn counted(name: &str, function: &Function, rng: &mut Rng) -> usize {
    let (program, cost) = (function.tensor_ssa(), function.cost().expect("small numbers"));
    let signature = &program.signature;
    if cost.work.reads_values() {
        return 0;
    }
    let mut judged = 0;
    for round in 0..6 {
        let sizes: BTreeMap<SizeId, f64> = signature
            .sizes
            .ids()
            .map(|n| (n, if round < 3 { f64::from(round) } else { f64::from(rng.u8(0..6)) }))
            .collect();
        let entries = signature.relations.ids().map(|r| (r, f64::from(rng.u8(0..20)))).collect();
        let hints = Hints { sizes, entries, full: false };
        let ids = (signature.sizes.ids(), signature.relations.ids());
        let Some(world) = Sample::new(&hints, 1, ids.0, ids.1, signature.as_ref()) else { continue };
        // Sizes may not be those that the program assumes.
        let Some(inputs) = inputs(signature, &world, rng.u64(..)) else { continue };
        let Ok(expected) = reference::count(program, &inputs) else { continue };
        let found = cost.evaluate(&world).expect("every relation is known");
        assert_eq!(
            (found.additions, found.multiplications, found.functions, found.partials),
            (expected.additions, expected.multiplications, expected.functions, expected.partials),
            "{name} {hints:?}:\n{cost}\n{program}"
        );
        judged += 1;
    }
    judged
}

#[test]
fn formulas_are_what_is_counted() {
    let mut rng = Rng::with_seed(3);
    let declared = "param x : [n] real\nparam y : [n] real\nrel R : [n, n]\nmap f : [n] -> [n]\n";
    let mut judged = 0;
    for guard in GUARDS {
        for body in ["sum i < n, j < n.", "gen i < n. sum j < n.", "gen j < n. sum i < n.", "gen i < n, j < n."] {
            let text = format!("{declared}{body} [{guard}] * x[i] * y[j]^2");
            judged += counted(&text, &compile(&text), &mut rng);
        }
    }
    assert!(judged > 400, "only {judged} counts were judged");
    let programs = programs_of_the_tests().into_iter().chain(random_programs(150));
    let judged: usize = programs.map(|(name, function)| counted(&name, &function, &mut rng)).sum();
    assert!(judged > 300, "only {judged} counts were judged");
}

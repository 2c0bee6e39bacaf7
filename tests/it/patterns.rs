//! The patterns of sparse results, for sums of products under relations, maps, equations and bounds over several ranges: a place for each
//! element that is not zero, and for no other. All numbers are positive, so that what is not zero says where the places are.

use fastrand::Rng;
use iverson::ir::reference;
use iverson::kernel::Engine;
use iverson::tensor::{Inputs, Relation, Tensor, Value};

use crate::judge::dense;
use crate::support::compile;

const PROGRAMS: u64 = 300;

const DECLARED: &str = "param x : [n] real\nparam y : [m] real\nrel R : [n, m]\nrel S : [n, n]\nmap f : [n] -> [m]\n";

/// What may be said of `i < n`, `j < m`, and of `k`, whose range is either.
const ATOMS: [&str; 16] = [
    "R(i, j)",
    "R(i, k)",
    "R(k, j)",
    "S(i, k)",
    "S(k, i)",
    "S(k, j)",
    "f(i) = j",
    "f(i) = k",
    "k = i",
    "k = j",
    "i = j",
    "k <= i",
    "j <= k",
    "i = j + 1",
    "k < i",
    "1 <= j",
];

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(0..from.len())]
}

/// A sum of a guarded product over `k`.
fn sum(rng: &mut Rng, range: &str, atoms: &[&str]) -> String {
    let factor = pick(rng, &["x[i]", "y[j]", "2"]);
    format!("(sum k < {range}. [{}] * {factor})", atoms.join(" and "))
}

/// One or two terms; the second may say the same of another range.
fn body(rng: &mut Rng) -> String {
    let atoms: Vec<&str> = (0..rng.usize(1..4)).map(|_| pick(rng, &ATOMS)).collect();
    match rng.u8(0..6) {
        0 => sum(rng, "n", &[atoms.as_slice(), &["f(k) = j"]].concat()),
        1 | 2 => format!("{} + {}", sum(rng, "n", &atoms), sum(rng, "m", &atoms)),
        3 => format!("{} + {}", sum(rng, "m", &atoms), sum(rng, "n", &atoms)),
        _ => {
            let others: Vec<&str> = (0..rng.usize(1..3)).map(|_| pick(rng, &ATOMS)).collect();
            let ranges = [pick(rng, &["n", "m"]), pick(rng, &["n", "m"])];
            format!("{} + {}", sum(rng, ranges[0], &atoms), sum(rng, ranges[1], &others))
        }
    }
}

fn inputs(n: usize, m: usize, rng: &mut Rng) -> Inputs {
    let mut inputs = Inputs::new();
    let mut relation = |rows: usize, cols: usize| {
        let places: Vec<[usize; 2]> = (0..rows).flat_map(|i| (0..cols).map(move |j| [i, j])).collect();
        let tuples: Vec<[usize; 2]> = places.into_iter().filter(|_| rng.u8(0..3) == 0).collect();
        Relation::from_tuples(&[rows, cols], &tuples).expect("sorted and unique")
    };
    inputs.relation("R", relation(n, m)).relation("S", relation(n, n));
    let targets = (0..n).map(|_| rng.usize(0..m)).collect();
    inputs.relation("f", Relation::from_map(&[n], targets, m).expect("in range"));
    inputs.value("x", Value::vector((1..=n).map(|k| k as f64).collect()));
    inputs.value("y", Value::vector((1..=m).map(|k| k as f64).collect()));
    inputs
}

#[test]
fn places_are_those_of_what_is_not_zero() {
    let (mut places, mut listed) = (0, 0);
    for seed in 0..PROGRAMS {
        let mut rng = Rng::with_seed(seed);
        let text = format!("{DECLARED}gen i < n, j < m. {}", body(&mut rng));
        let function = compile(&text);
        let assembly = function.assemble(&["value"]).expect("a tensor");
        listed += usize::from(assembly.values().explained().contains("row by row"));
        for (n, m) in [(0, 2), (1, 1), (2, 4), (4, 2), (3, 3)] {
            let inputs = inputs(n, m, &mut rng);
            let expected = reference::evaluate(function.tensor_ssa(), &inputs).expect("it runs");
            let expected = dense(&expected);
            let kernel = assembly.bind(&inputs, Engine::Interpreter).expect("it binds");
            let found = kernel.call(&inputs).expect("it runs");
            assert_eq!(dense(&found), expected, "{text}\n{n} {m}\n{}", assembly.values());
            let stored = match found[0].1.leaves()[0].as_ref() {
                Tensor::Csr(csr) => csr.pattern().len(),
                Tensor::Csc(csc) => csc.pattern().len(),
                Tensor::Coo(coo) => coo.pattern().len(),
                Tensor::Dense(dense) => dense.data().len(),
            };
            let nonzero = expected.iter().filter(|x| **x != 0.0).count();
            assert_eq!(stored, nonzero, "{text}\n{n} {m}: places, and elements that are not zero");
            places += nonzero;
        }
    }
    println!("{places} places, {listed} of {PROGRAMS} programs row by row");
    assert!(places > 2000 && listed > 30, "{places}, {listed}");
}

//! Programs against the reference evaluator.

use super::super::lambda::{evaluate, verify};
use super::*;
use crate::base::ParamId;
use crate::reference::{Field, Limits, eval_term};
use crate::surface;
use crate::tensor::{Dense, Inputs, Relation, Value, bind};

/// A number for each element, which depends on the name as well.
fn number(name: &str, k: usize) -> f64 {
    let seed = name.bytes().fold(k as f64, |seed, byte| seed * 0.7 + f64::from(byte));
    (seed * 1.37).sin() * 0.8 + 0.1
}

/// Data of these sizes for all that a program takes: sparse tensors and relations have about half of their tuples.
pub fn environment(source: &term::Program, sizes: &[(&str, i64)]) -> Environment<f64> {
    let signature = &source.signature;
    let value = |name: &str| sizes.iter().find(|(n, _)| *n == name).map_or(3, |(_, value)| *value);
    let sizes: Vec<i64> = signature.sizes.values().map(|name| value(name)).collect();
    let mut at = Environment { sizes, params: Vec::new(), relations: Vec::new() };
    for relation in signature.relations.values() {
        let shape: Vec<usize> = at.extents(&relation.shape).unwrap().iter().map(|n| *n as usize).collect();
        let relation = match relation.kind {
            RelationKind::Map => {
                let (targets, sources) = shape.split_last().unwrap();
                let count: usize = sources.iter().product();
                let target = |k: usize| if *targets == 0 { 0 } else { (k * k + 1) % targets };
                Relation::from_map(sources, (0..count).map(target).collect(), *targets).unwrap()
            }
            RelationKind::Free | RelationKind::Pattern(_) | RelationKind::Projection(..) => {
                let count: usize = shape.iter().product();
                let tuple = |mut k: usize| {
                    let mut tuple: Vec<usize> = shape.iter().rev().map(|n| (k % n, k /= n).0).collect();
                    tuple.reverse();
                    tuple
                };
                let tuples: Vec<Vec<usize>> = (0..count).filter(|k| (k * k + k / 2) % 3 != 1).map(tuple).collect();
                Relation::from_tuples(&shape, &tuples).unwrap()
            }
        };
        at.relations.push(Arc::new(relation));
    }
    for param in signature.params.values() {
        let leaves = signature.types.leaves(param.ty).unwrap();
        let leaf = |dims: &[crate::index::Size]| match param.storage.pattern() {
            Some(pattern) => {
                let pattern = at.relation(pattern).unwrap().clone();
                let values = (0..pattern.len()).map(|k| number(&param.name, k)).collect();
                crate::reference::Leaf::sparse(pattern, values).unwrap()
            }
            None => {
                let dims = at.extents(dims).unwrap();
                let count = dims.iter().product::<u64>() as usize;
                crate::reference::Leaf::dense(dims, (0..count).map(|k| number(&param.name, k)).collect()).unwrap()
            }
        };
        let leaves = leaves.iter().map(|of| leaf(&of.dims)).collect();
        at.params.push(leaves);
    }
    at
}

/// Evaluates in both languages, to the bit.
fn agrees(name: &str, text: &str, sizes: &[(&str, i64)]) {
    let source = surface::read(text, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
    let at = environment(&source, sizes);
    let elaborated = elaborate(&source, &at).unwrap_or_else(|error| panic!("{name}: {error}"));
    verify("test", &elaborated.program).unwrap();
    let args = elaborated.arguments(&at).unwrap();
    let (value, _) = evaluate(&elaborated.program, &args).unwrap_or_else(|error| panic!("{name}: {error}"));
    let found = elaborated.result(&value, &at).unwrap();
    let expected = eval_term::evaluate(&source, &at, Limits::default()).unwrap();
    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{name}: {}", elaborated.program);
    for (p, _) in source.signature.params.iter() {
        let back = elaborated.leaves_of_param(p, &args[p.index()], &at).unwrap();
        assert_eq!(back, at.param(p).unwrap(), "{name}");
    }
}

/// The programs of a folder of the tests, each at the same sizes.
fn programs(folder: &str) -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut found: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "iv"))
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap()))
        .collect();
    found.sort();
    found
}

#[test]
fn values_of_programs_of_tests() {
    let mut count = 0;
    for (name, text) in programs("programs").into_iter().chain(programs("flows")) {
        // What says that a size is at least so much is satisfied.
        let n = if name == "e06_unrolled_hole" { 1003 } else { 3 };
        // A loop that nobody bounds has too many steps here.
        if name == "newton" {
            let source = surface::read(&text, &[]).unwrap();
            let refused = elaborate(&source, &environment(&source, &[])).map(|_| ()).unwrap_err();
            assert!(matches!(refused, Error::Limit { .. }), "{refused}");
            continue;
        }
        let sizes = [("n", n), ("T", 4), ("m", 2), ("K", 2)];
        if text.contains("fixpoint") {
            let source = surface::read(&text, &[]).unwrap();
            let refused = elaborate(&source, &environment(&source, &sizes)).map(|_| ()).unwrap_err();
            assert!(matches!(refused, Error::Limitation { .. }), "{refused}");
            continue;
        }
        agrees(&name, &text, &sizes);
        count += 1;
    }
    assert!(count > 50);
}

#[test]
fn values_of_index_expressions_and_predicates() {
    for (name, text) in [
        ("stencil", "param x : [n] real\ngen i < n. [0 < i] * x[i - 1] + [i + 1 < n] * x[i + 1] - 2 * x[i]"),
        ("or", "param x : [n] real\ngen i < n. [i = 0 or i = n - 1] * x[i]"),
        ("not", "param x : [n] real\nrel E : [n, n]\ngen i < n. sum j < n. [not E(i, j)] * x[j]"),
        ("exists", "param x : [n] real\nrel E : [n, n]\ngen i < n. [exists j < n. E(i, j) and j != i] * x[i]"),
        ("map of a map", "param x : [n] real\nmap f : [n] -> [n]\nsum i < n. x[f(f(i))] * [f(i) != i] * f(i)"),
        ("size", "param x : [n] real\nn * (sum i < n. (2 * i - n) * x[i])"),
        ("strides", "param x : [2 * n] real\ngen i < n. x[2 * i + 1] - x[2 * i]"),
        ("pairs", "param x : [n] (real, [m] real)\nsum i < n. fst x[i] * (sum j < m. (snd x[i])[j])"),
        ("zero of a pair", "param x : [n] real\n[n < 2] * (x, gen i < n. (x[i], 1))"),
        ("scan of pairs", "param x : [n] real\nscan t < n, (a, b) = (0, 1). (a + x[t], b * x[t])"),
        ("scan down", "param x : [n] real\nscan t < n down, s = 0. s * 0.5 + x[t]"),
        ("fold down", "param x : [n] real\n(scan t < n down, s = 0. s * 0.5 + x[t])[0]"),
        (
            "comparison",
            "param x : [n] real\nparam y : [n] real\nsum i < n. [x[i] < y[i]] * x[i] + [x[i] >= y[i]] * y[i]",
        ),
        ("maximum", "param x : [n, m] real\nsum i < n. max j < m. x[i, j] * x[i, j]"),
        ("argmin", "param x : [n] real\nparam y : [n] real\ny[argmin i < n. x[i]]"),
        ("maximum in a fold", "param x : [n] real\nfold t < n, s = x. gen i < n. s[i] - 0.3 * (max j < n. s[j])"),
        ("sparse", "param A : csr [n, m] real\nparam x : [m] real\nsum i < n, j < m. A[i, j]^2 * x[j]"),
    ] {
        for n in [1, 4] {
            agrees(name, text, &[("n", n), ("m", 2)]);
        }
        if !name.contains("argmin") {
            agrees(name, text, &[("n", 0), ("m", 2)]);
        }
    }
}

#[test]
fn brackets_select() {
    let source = surface::read("param x : [n] real\nsum i < n. [i < 1] * (x[i] / (x[i] - 2))", &[]).unwrap();
    let mut inputs = Inputs::new();
    inputs.value("x", Value::from(Dense::new(&[2], vec![1.0, 2.0]).unwrap()));
    let at = Environment::from_bindings(&bind(&source.signature, &inputs).unwrap()).unwrap();
    let elaborated = elaborate(&source, &at).unwrap();
    let (value, counts) = evaluate(&elaborated.program, &elaborated.arguments(&at).unwrap()).unwrap();
    assert_eq!(value.as_real().unwrap(), &-1.0);
    // The body is evaluated once, of two places.
    assert_eq!(counts.functions, 1);
}

#[test]
fn programs_without_an_order_modulo_a_prime() {
    let source = surface::read("param x : [n] real\nfold t < n, p = 1. p * x[t] + [0 < t] * x[t - 1]", &[]).unwrap();
    let at = environment(&source, &[("n", 5)]);
    let at = at.map(|_, _, leaf| leaf.map(|x| Ok(Field::integer((x * 100.0) as i64)))).unwrap();
    let elaborated = elaborate(&source, &at).unwrap();
    let (value, _) = evaluate(&elaborated.program, &elaborated.arguments(&at).unwrap()).unwrap();
    let expected = eval_term::evaluate(&source, &at, Limits::default()).unwrap();
    assert_eq!(elaborated.result(&value, &at).unwrap(), expected);
}

/// Loops that become maps and reductions, and loops that may not: the value is the same.
#[test]
fn maps_where_they_can_be() {
    for (text, becomes) in [
        ("param x : [n] real\nsum i < n - 1. (x[i + 1] - x[i]^2)^2", "map x_2 in drop_first x, x_3 in drop_last x."),
        (
            "param A : [n, n] real\nparam x : [n] real\nsum i < n, j < n. x[i] * A[i, j] * x[j]",
            "map x_4 in x, x_5 in A. sum (map x_2 in x_5, x_3 in x.",
        ),
        ("param x : [n] real\nfold t < n, s = 1. s * x[t]", "reduce s, x_2 in x from 1.0."),
        // The diagonal, a column, an array that the loop changes, an index as a number.
        ("param A : [n, n] real\nsum i < n. A[i, i]", "build i < 4. A ! i ! i"),
        ("param x : [n] real\nfold t < n, s = x. gen j < n. s[j] + s[t]", "fold t < 4, s = x."),
        ("param x : [n] real\nsum i < n. i * x[i]", "build i < 4. real i * x ! i"),
    ] {
        let source = surface::read(text, &[]).unwrap();
        let at = environment(&source, &[("n", 4)]);
        let elaborated = elaborate(&source, &at).unwrap();
        let (program, args) = (elaborated.with_maps().unwrap(), elaborated.arguments(&at).unwrap());
        assert!(program.to_string().contains(becomes), "{program}");
        assert_eq!(evaluate(&program, &args).unwrap().0, evaluate(&elaborated.program, &args).unwrap().0, "{program}");
    }
}

/// A million levels of sums, and of `let`, on the stack of a test.
#[test]
fn deep_programs() {
    const DEPTH: usize = 1_000_000;
    let start = surface::read("param x : real\nx", &[]).unwrap();
    let mut sums = start.clone();
    for _ in 0..DEPTH {
        let one = sums.literal(1.0).unwrap();
        sums.root = sums.push(term::Term::Add(sums.root, one)).unwrap();
    }
    let mut lets = start.clone();
    let vars: Vec<_> = (0..DEPTH).map(|_| lets.fresh_var("y", ty::Types::REAL)).collect();
    let values: Vec<_> = [start.param(ParamId(0))].iter().chain(&vars[..DEPTH - 1]).copied().collect();
    let mut body = lets.push(term::Term::Var(vars[DEPTH - 1])).unwrap();
    for (var, value) in vars.into_iter().zip(values).rev() {
        let value = lets.push(term::Term::Var(value)).unwrap();
        body = lets.push(term::Term::Let { var, value, body }).unwrap();
    }
    lets.root = body;
    for (source, expected) in [(sums, 1.0 + DEPTH as f64), (lets, 1.0)] {
        let mut at: Environment<f64> = environment(&source, &[]);
        at.params[0] = vec![crate::reference::Leaf::scalar(1.0)];
        let elaborated = elaborate(&source, &at).unwrap();
        let args = elaborated.arguments(&at).unwrap();
        for program in [&elaborated.program, &elaborated.with_maps().unwrap()] {
            assert_eq!(*evaluate(program, &args).unwrap().0.as_real().unwrap(), expected);
        }
    }
}

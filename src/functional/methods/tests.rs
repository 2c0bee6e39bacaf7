//! The methods against each other.

use super::super::elaborate::tests::environment;
use super::super::lambda::random::{Config, Random, Scalars, random_arguments, random_program};
use super::super::lambda::{evaluate, parse};
use super::*;
use crate::reference::Field;
use crate::{surface, term};

#[test]
fn names_of_methods() {
    for method in Method::ALL {
        assert_eq!(method.name().parse::<Method>().unwrap(), method);
    }
    let error = "reverse".parse::<Method>().unwrap_err().to_string();
    assert_eq!(error, "no method is named `reverse`; there are adjoint, forward, chad, efficient, dual, continuation");
}

#[test]
fn a_scalar_program_by_all_methods() {
    let program = parse("param x : real  param y : real\nlet z = x * y in z * x").unwrap();
    let args = [Value::Real(2.0), Value::Real(3.0)];
    for method in Method::ALL.into_iter().filter(|method| *method != Method::Adjoint) {
        let found = gradient(&program, method, &args).unwrap();
        assert_eq!(found.value, 12.0, "{method}");
        assert_eq!(found.gradient, [Value::Real(12.0), Value::Real(4.0)], "{method}");
        assert!(found.counts.muls >= 2 && found.counts.steps > 0, "{method}: {:?}", found.counts);
    }
}

#[test]
fn what_a_method_does_not_have_is_named() {
    let loops = parse("param x : real\niterate s = x while s < 100.0. s * s").unwrap();
    let recursion = parse("param x : real\n(rec f(k : int) : real. if k < 1 then 1.0 else f (k + -1) * x) 5").unwrap();
    let functions = parse("param x : real\n(fn y : real. y * x) x").unwrap();
    for (program, method, name) in [
        (&recursion, Method::Chad, "recursion"),
        (&loops, Method::Continuation, "loops"),
        (&recursion, Method::Continuation, "functions"),
        (&functions, Method::Continuation, "functions"),
    ] {
        match differentiate(program, method) {
            Err(Error::Limitation { feature, .. }) => assert!(feature.contains(name), "{method}, {name}: {feature}"),
            found => panic!("{method}, {name}: {found:?}"),
        }
    }
    let error = differentiate(&loops, Method::Adjoint).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Request(_)), "{error}");
    let vector = parse("param x : [real]\nx").unwrap();
    assert!(matches!(differentiate(&vector, Method::Dual).map(|_| ()), Err(Error::Request(_))));
}

/// All numbers of leaves.
fn numbers<T: Clone>(gradient: &[Vec<Leaf<T>>]) -> Vec<T> {
    gradient.iter().flatten().flat_map(|leaf| leaf.values().to_vec()).collect()
}

fn source(text: &str) -> term::Program {
    surface::read(text, &[]).unwrap()
}

#[test]
fn tensor_programs_by_all_methods() {
    let programs = [
        ("e12", include_str!("../../../tests/programs/e12_rosenbrock.iv"), Some("build")),
        ("k03", include_str!("../../../tests/programs/k03_sparse_logistic_regression.iv"), None),
        ("k13", include_str!("../../../tests/programs/k13_rank_one_residual.iv"), None),
        ("k15", include_str!("../../../tests/programs/k15_embedding.iv"), None),
        ("k16", include_str!("../../../tests/programs/k16_partial_likelihood.iv"), None),
        ("heat", include_str!("../../../tests/flows/heat.iv"), None),
        ("tokens", include_str!("../../../tests/flows/tokens.iv"), None),
        ("product", include_str!("../../../tests/flows/product.iv"), None),
        ("viterbi", include_str!("../../../tests/flows/viterbi.iv"), None),
    ];
    for (name, text, _) in programs {
        let source = source(text);
        let at = environment(&source, &[("n", 4), ("T", 3), ("m", 2), ("K", 3)]);
        let expected = gradient_of_tensors(&source, Method::Adjoint, &at).unwrap();
        let mut refused = Vec::new();
        for method in Method::ALL.into_iter().filter(|method| *method != Method::Adjoint) {
            let found = match gradient_of_tensors(&source, method, &at) {
                Err(Error::Limitation { feature, .. }) => {
                    refused.push(format!("{method}: {feature}"));
                    continue;
                }
                found => found.unwrap_or_else(|error| panic!("{name} by {method}: {error}")),
            };
            assert!((found.value - expected.value).abs() <= 1e-12 * expected.value.abs(), "{name} by {method}");
            let (found, expected) = (numbers(&found.gradient), numbers(&expected.gradient));
            let difference = super::super::compare::difference(&found, &expected);
            assert!(difference.is_some_and(|d| d < 1e-12), "{name} by {method}: {found:?} for {expected:?}");
        }
        assert!(refused.len() <= 2, "{name}: {refused:?}");
        println!("{name}: {refused:?}");
    }
}

#[test]
fn random_programs_by_all_methods_modulo_a_prime() {
    let config = Config { scalars: Scalars::Polynomial, ..Config::all(40) };
    let (mut random, mut ran) = (Random::new(77), [0; 6]);
    for _ in 0..1000 {
        let program = random_program(&mut random, &config).unwrap();
        let args = random_arguments::<Field>(&mut random, &program).unwrap();
        let expected = gradient(&program, Method::Forward, &args).unwrap();
        assert_eq!(Value::Real(expected.value), evaluate(&program, &args).unwrap().0);
        for (k, method) in Method::ALL.into_iter().enumerate().skip(2) {
            match gradient(&program, method, &args) {
                Err(Error::Limitation { .. }) => {}
                found => {
                    let found = found.unwrap_or_else(|error| panic!("{method}: {error}\n{program}"));
                    assert_eq!(found.value, expected.value, "{method}: {program}");
                    assert_eq!(found.gradient, expected.gradient, "{method}: {program}");
                    ran[k] += 1;
                }
            }
        }
    }
    println!("programs by chad, efficient, dual, continuation: {:?}", &ran[2..]);
    assert!(ran[2..5].iter().all(|ran| *ran > 300), "{ran:?}");
}

#[test]
fn operations_are_counted_alike() {
    let source = source("param x : [n] real\nsum i < n. x[i] * x[i]");
    let at = environment(&source, &[("n", 8)]);
    let primal = primal_counts(&source, &at).unwrap();
    assert_eq!((primal.muls, primal.adds, primal.functions), (8, 8, 0));
    for method in Method::ALL {
        let Ok(found) = gradient_of_tensors(&source, method, &at) else { continue };
        assert!(found.counts.operations() >= 8 && found.counts.moves > 0, "{method}: {:?}", found.counts);
    }
}

//! Figures 6, 8 and 9, run by the evaluator of the language, against the machine and forward mode.

use super::tests::{close, doubled, example, forward, numbers, power, reals, squares};
use super::*;
use crate::functional::lambda::evaluate;
use crate::reference::numeric::Field;

const FIGURES: [Figure; 3] = [Figure::Naive, Figure::Staged, Figure::Cayley];

/// All figures agree with forward mode.
pub(super) fn judge(program: &Program, args: &[Value<f64>]) {
    let expected = forward(program, args);
    for figure in FIGURES {
        let transformed = transform(program, figure).unwrap();
        let (value, gradient, _) = run(&transformed, args, &[1.0]).unwrap();
        assert_eq!(value, evaluate(program, args).unwrap().0, "{figure:?}");
        close(&gradient, &expected, 1e-10);
    }
}

#[test]
fn figures_on_the_example() {
    let program = example();
    judge(&program, &reals(&[12.0, 13.0]));
    for figure in FIGURES {
        let transformed = transform(&program, figure).unwrap();
        let (value, gradient, steps) = run(&transformed, &reals(&[12.0, 13.0]), &[1.0]).unwrap();
        assert_eq!((value, gradient), (Value::Real(300.0), vec![37.0, 12.0]));
        // Both inputs, the sum, and the product.
        assert_eq!(steps.calls, if figure == Figure::Naive { 0 } else { 4 });
    }
}

/// Each use is a call for Fig. 6, so its steps double; with identifiers they grow by the same amount.
#[test]
fn figures_on_sharing() {
    for figure in FIGURES {
        let steps = |n: usize| {
            let transformed = transform(&doubled(n), figure).unwrap();
            let (_, gradient, steps) = run(&transformed, &reals(&[1.5]), &[1.0]).unwrap();
            assert_eq!(gradient, [(1u64 << n) as f64]);
            steps.reverse as f64
        };
        let (a, b, c) = (steps(6), steps(8), steps(10));
        match figure {
            Figure::Naive => assert!((c / b - 4.0).abs() < 0.1),
            _ => assert_eq!(c - b, b - a),
        }
    }
}

#[test]
fn figures_on_recursion() {
    judge(&power(7), &reals(&[1.5]));
    let (program, list) = squares();
    judge(&program, &[list(9)]);
}

/// The identifiers and the state are passed on, but nothing recurses: 10^5 deep on 2 MiB.
#[test]
fn figures_are_deep_on_a_small_stack() {
    let run = || {
        for figure in [Figure::Staged, Figure::Cayley] {
            let transformed = transform(&power(100_000), figure).unwrap();
            let (_, gradient, steps) = run(&transformed, &[Value::Real(Field::new(3))], &[Field::new(1)]).unwrap();
            assert_eq!(gradient[0], Field::new(100_000).mul(&Field::new(3).pow(99_999)));
            assert_eq!(steps.calls, 1 + 100_000 + 1);
            let transformed = transform(&doubled(100_000), figure).unwrap();
            let args = [Value::Real(Field::new(3))];
            let (_, gradient, _) = super::run(&transformed, &args, &[Field::new(1)]).unwrap();
            assert_eq!(gradient[0], Field::new(2).pow(100_000));
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

/// Section 5.3 and 6.1, in the text of the language.
#[test]
fn figures_as_text() {
    for figure in FIGURES {
        println!("{}\n", transform(&example(), figure).unwrap());
    }
    let naive = transform(&example(), Figure::Naive).unwrap().to_string();
    assert!(naive.contains("plus"), "{naive}");
}

/// All functions of the operator table, and what selects.
#[test]
fn figures_on_scalar_functions() {
    for op in crate::scalar::Op::all() {
        let n = usize::from(op.arity());
        let program = super::programs::write(
            |b| {
                let real = b.types().real();
                vec![real; n]
            },
            |w, p| {
                let args: Vec<_> = p.iter().map(|x| x.v()).collect();
                w.op(op, &args) * w.r(2.0)
            },
        );
        judge(&program, &reals(&[0.4, 0.7, 0.2, 0.3][..n]));
    }
}

#[test]
fn figures_refuse_arrays() {
    let refused = transform(&super::programs::dot_product(), Figure::Staged);
    assert!(matches!(refused, Err(Error::Limitation { .. })));
}

#[test]
fn figures_on_several_outputs() {
    let program = super::programs::rotate_vec_by_quat();
    let args = super::programs::vector_and_quaternion([1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]);
    let derivative = differentiate(&program, Options::of(Variant::Tape)).unwrap();
    let (expected, _) = derivative.run(&args).unwrap().pull_back(&[1.0, 2.0, 3.0]).unwrap();
    for figure in FIGURES {
        let transformed = transform(&program, figure).unwrap();
        let (value, gradient, _) = run(&transformed, &args, &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(value.numbers(), [&270.0, &180.0, &342.0]);
        assert_eq!(gradient, numbers(&expected));
    }
}

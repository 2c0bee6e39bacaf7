//! The figures, run by the evaluator of the language, against the machine and forward mode.

use super::super::tests::{close, doubled, example, forward, numbers, power, reals, squares};
use super::super::*;
use crate::functional::lambda::evaluate;
use crate::reference::numeric::Field;

const FIGURES: [Figure; 5] = Figure::ALL;

/// All figures agree with forward mode.
fn judge(program: &Program, args: &[Value<f64>]) {
    let expected = forward(program, args);
    for figure in FIGURES {
        let transformed = transform(program, figure).unwrap();
        let (value, gradient, _) = transformed.run(args, &[1.0]).unwrap();
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
        let (value, gradient, steps) = transformed.run(&reals(&[12.0, 13.0]), &[1.0]).unwrap();
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
            let (_, gradient, steps) = transformed.run(&reals(&[1.5]), &[1.0]).unwrap();
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
        for figure in FIGURES.into_iter().filter(|f| *f != Figure::Naive) {
            let transformed = transform(&power(100_000), figure).unwrap();
            let (_, gradient, steps) = transformed.run(&[Value::Real(Field::new(3))], &[Field::new(1)]).unwrap();
            assert_eq!(gradient[0], Field::new(100_000).mul(&Field::new(3).pow(99_999)));
            assert_eq!(steps.calls, 1 + 100_000 + 1);
            let transformed = transform(&doubled(100_000), figure).unwrap();
            let args = [Value::Real(Field::new(3))];
            let (_, gradient, _) = transformed.run(&args, &[Field::new(1)]).unwrap();
            assert_eq!(gradient[0], Field::new(2).pow(100_000));
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

/// The function in dual form, as text.
fn text(figure: Figure) -> String {
    let text = transform(&example(), figure).unwrap().to_string();
    let start = text.find("fn i : ").or_else(|| text.find("let z_2 = ")).unwrap();
    text[start..].trim_end().to_string()
}

/// Section 5.3: `D1` of the example.
#[test]
fn naive_as_text() {
    let expected = "\
let z_2 = let t = x in
let t_2 = y in
let x_2 = fst t in
let d = snd t in
let x_3 = fst t_2 in
let d_2 = snd t_2 in
(x_2 + x_3, fn z : real. plus (d z, d_2 z)) in
let t_3 = x in
let t_4 = z_2 in
let x_4 = fst t_3 in
let d_3 = snd t_3 in
let x_5 = fst t_4 in
let d_4 = snd t_4 in
(x_4 * x_5, fn z_3 : real. plus (d_3 (x_5 * z_3), d_4 (x_4 * z_3))))";
    assert_eq!(text(Figure::Naive), expected);
}

/// Section 6.1: `D2` of the example. References to variables take no identifiers, so the pairs of Fig. 8 for them are not there.
#[test]
fn staged_as_text() {
    let expected = "\
fn i : int. let p = let t = x in
let t_2 = y in
let x_2 = fst t in
let d = snd t in
let x_3 = fst t_2 in
let d_2 = snd t_2 in
((x_2 + x_3, (i, fn z : real. plus (scall (d, z), scall (d_2, z)))), i + 1) in
let i_2 = snd p in
let z_2 = fst p in
let t_3 = x in
let t_4 = z_2 in
let x_4 = fst t_3 in
let d_3 = snd t_3 in
let x_5 = fst t_4 in
let d_4 = snd t_4 in
((x_4 * x_5, (i_2, fn z_3 : real. plus (scall (d_3, x_5 * z_3), scall (d_4, x_4 * z_3)))), i_2 + 1))";
    assert_eq!(text(Figure::Staged), expected);
}

/// Sections 7.2 and 10: what changes is the backpropagator.
#[test]
fn others_as_text() {
    let last = |figure| text(figure).lines().last().unwrap().to_string();
    let cayley = "fn z_3 : real. fn s_2 : opaque s. scall ((d_3, x_5 * z_3), scall ((d_4, x_4 * z_3), s_2))";
    assert!(last(Figure::Cayley).contains(cayley), "{}", text(Figure::Cayley));
    let arrays = "fn z_3 : real. fn s_2 : opaque s. let u_2 = scall ((d_3, x_5 * z_3), s_2) in";
    assert!(text(Figure::Arrays).contains(arrays), "{}", text(Figure::Arrays));
    assert!(text(Figure::Contrib).contains("x_5 * 1"), "{}", text(Figure::Contrib));
}

/// All functions of the operator table, and what selects.
#[test]
fn figures_on_scalar_functions() {
    for op in crate::scalar::Op::all() {
        let n = usize::from(op.arity());
        let program = super::super::programs::write(
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
    let refused = transform(&super::super::programs::dot_product(), Figure::Staged);
    assert!(matches!(refused, Err(Error::Limitation { .. })));
}

#[test]
fn figures_on_several_outputs() {
    let program = super::super::programs::rotate_vec_by_quat();
    let args = super::super::programs::vector_and_quaternion([1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]);
    let derivative = differentiate(&program, Options::of(Variant::Tape)).unwrap();
    let (expected, _) = derivative.run(&args).unwrap().pull_back(&[1.0, 2.0, 3.0]).unwrap();
    for figure in FIGURES {
        let transformed = transform(&program, figure).unwrap();
        let (value, gradient, _) = transformed.run(&args, &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(value.numbers(), [&270.0, &180.0, &342.0]);
        assert_eq!(gradient, numbers(&expected));
    }
}

//! The examples and the golden values of \[004\], and what is refused.

use super::testing::{arguments, at_length, by_continuations, dot, introduction, numbers, optimised, prod, sum};
use super::*;
use crate::error::{Error, Result};
use crate::functional::lambda::{self, Value};
use crate::scalar::Op;

const NON_EMPTY: Assumptions = Assumptions { non_empty: true };

fn reals(of: &[f64]) -> Value<f64> {
    Value::reals(of.iter().copied())
}

#[test]
fn macro_on_the_example_of_the_introduction() -> Result<()> {
    let expected = "\
let Y = fun (y1, y2, y3) -> (y1, y2, y3) in
let w, Y1 = <x1 * x2, fun (y1, y2, y3, z) -> Y(y1 + x2 * z, y2 + x1 * z, y3)> in
let w1, Y2 = <w * x1, fun (y1, y2, y3, y4, z) -> Y1(y1 + w * z, y2, y3, y4 + x1 * z)> in
<w1, fun (y1, y2, y3, z) -> Y2(y1, y2, y3, 0, z)>";
    assert_eq!(differentiate(&introduction()?)?.to_string(), expected);
    Ok(())
}

#[test]
fn partial_evaluation_of_the_example_of_the_introduction() -> Result<()> {
    let derivative = differentiate(&introduction()?)?;
    let g = partially_evaluate(&derivative, Seeds::Variables, Rules::default())?;
    let expected = "\
let w = x1 * x2 in
let w' = x1 * z in
(w * x1, (y_x1 + w * z + x2 * w', y_x2 + x1 * w', y_x3))";
    assert_eq!(g.to_string(), expected);
    Ok(())
}

/// `(x1 x2) x1` at (2, 3, 5): 12, with the gradient (12, 4, 0); before partial evaluation, after it, and by the way that users go.
#[test]
fn gradient_of_the_example_of_the_introduction() -> Result<()> {
    let program = introduction()?;
    let args = [2.0, 3.0, 5.0].map(Value::Real);
    let derivative = to_lambda(&differentiate(&program)?)?;
    let mut machine = lambda::Machine::new(&derivative)?;
    let result = machine.evaluate(&args)?;
    let (value, back) = result.as_pair()?;
    assert_eq!(*value.as_real()?, 12.0);
    let cotangents = machine.call(back, Value::tuple([0.0, 0.0, 0.0, 1.0].map(Value::Real)))?;
    assert_eq!(cotangents.numbers(), [&12.0, &4.0, &0.0]);
    let expected = [12.0, 12.0, 4.0, 0.0];
    assert_eq!(numbers(&by_continuations(&program)?, &args)?, expected);
    let by_users = lambda::evaluate(&gradient(&to_lambda(&program)?)?, &args)?.0;
    assert_eq!(by_users.numbers(), expected.iter().collect::<Vec<_>>());
    Ok(())
}

/// The three closed forms of the paper, to the letter.
#[test]
fn closed_forms() -> Result<()> {
    let component = |program: Program, k: usize| -> Result<String> {
        Ok(print_component(&optimised(&program, NON_EMPTY)?.program, &[1, k]))
    };
    let forms = [component(prod()?, 0)?, component(sum()?, 0)?, component(dot()?, 0)?, component(dot()?, 1)?];
    println!("prod: {}\nsum:  {}\ndot:  {}, {}", forms[0], forms[1], forms[2], forms[3]);
    assert_eq!(forms[0], "map2 * (scanr * 1 (shift1L A)) (shift1R (scanl * 1 A))");
    assert_eq!(forms[1], "map (x -> 1) A");
    assert_eq!(forms[2..], ["B", "A"]);
    Ok(())
}

#[test]
fn gradient_of_a_product() -> Result<()> {
    let closed = optimised(&prod()?, NON_EMPTY)?.program;
    let total = gradient_of(&prod()?)?;
    for (at, expected) in [([2.0, 3.0, 4.0], [24.0, 12.0, 8.0, 6.0]), ([2.0, 0.0, 4.0], [0.0, 0.0, 8.0, 0.0])] {
        assert_eq!(numbers(&closed, &[reals(&at)])?, expected);
        assert_eq!(numbers(&total, &[reals(&at)])?, expected);
    }
    Ok(())
}

/// The gradient of the paper, `scanr * 1 (shift1L A)`, has one element where `A` has none. With the shift outside it has none.
#[test]
fn product_of_an_empty_array() -> Result<()> {
    let total = gradient_of(&prod()?)?;
    assert_eq!(print_component(&total, &[1, 0]), "map2 * (shift1L (scanr * 1 A)) (shift1R (scanl * 1 A))");
    assert_eq!(numbers(&total, &[reals(&[])])?, [1.0]);
    let closed = optimised(&prod()?, NON_EMPTY)?.program;
    assert!(numbers(&closed, &[reals(&[])]).is_err());
    Ok(())
}

#[test]
fn macro_on_a_product() -> Result<()> {
    let g = partially_evaluate(&differentiate(&prod()?)?, Seeds::Variables, Rules::default())?;
    let expected = "\
let A0 = shift1R (scanl * 1 A) in
(reduce * 1 A, (y_A + map3 (a, b, c. a * (c * z)) A0 A (shift1L (scanr * 1 (map2 (a, b. b) A0 A)))))";
    assert_eq!(g.to_string(), expected);
    Ok(())
}

/// The sum of the states of a scan that multiplies, weighted by themselves, and its gradient by elements and start.
fn scan_program(from: End) -> Result<Program> {
    let mut b = Builder::new();
    let (a, c) = (b.param("A", Type::array(Type::Real)), b.param("c", Type::Real));
    let states = b.scan(from, c, a, |b, x, y| b.mul(x, y))?;
    let result = b.reduce(0.0, states, |b, x, y| b.add(x, y))?;
    b.finish(result)
}

/// `c + c a + c a b` and `c + c b + c a b` at a = 2, b = 3, c = 5.
#[test]
fn gradients_of_scans() -> Result<()> {
    let args = [reals(&[2.0, 3.0]), Value::Real(5.0)];
    let left = gradient_of(&scan_program(End::First)?)?;
    assert_eq!(numbers(&left, &args)?, [45.0, 20.0, 10.0, 9.0]);
    let right = gradient_of(&scan_program(End::Last)?)?;
    assert_eq!(numbers(&right, &args)?, [50.0, 15.0, 15.0, 10.0]);
    println!("scanl: {left}\nscanr: {right}");
    Ok(())
}

/// The rule of `reduce` does not need the combination to be associative: Horner's scheme by its point and its coefficients.
#[test]
fn gradient_of_a_fold_that_is_not_associative() -> Result<()> {
    let mut b = Builder::new();
    let (a, x) = (b.param("A", Type::array(Type::Real)), b.param("x", Type::Real));
    let result = b.reduce(0.0, a, |b, s, y| {
        let s = b.mul(s, x)?;
        b.add(s, y)
    })?;
    let g = gradient_of(&b.finish(result)?)?;
    // 3 x^2 + 4 x + 5 at 2.
    assert_eq!(numbers(&g, &[reals(&[3.0, 4.0, 5.0]), Value::Real(2.0)])?, [25.0, 4.0, 2.0, 1.0, 16.0]);
    Ok(())
}

/// `x^2 + (sum of all elements of M)` of a matrix: a body that reads an array around it, and arrays of arrays.
#[test]
fn gradient_of_a_product_with_a_matrix() -> Result<()> {
    let mut b = Builder::new();
    let matrix = b.param("M", Type::array(Type::array(Type::Real)));
    let vector = b.param("v", Type::array(Type::Real));
    let rows = b.map(&[matrix.into()], |b, row| {
        let products = b.map(&[row[0].into(), vector.into()], |b, x| b.mul(x[0], x[1]))?;
        b.reduce(0.0, products, |b, x, y| b.add(x, y))
    })?;
    let squares = b.map(&[rows], |b, x| b.mul(x[0], x[0]))?;
    let result = b.reduce(0.0, squares, |b, x, y| b.add(x, y))?;
    let g = gradient_of(&b.finish(result)?)?;
    println!("{g}");
    // M v = (5, 11), value 146, by M 2 (M v) v^T, by v 2 M^T M v.
    let args = [Value::array(vec![reals(&[1.0, 2.0]), reals(&[3.0, 4.0])]), reals(&[1.0, 2.0])];
    assert_eq!(numbers(&g, &args)?, [146.0, 10.0, 20.0, 22.0, 44.0, 76.0, 108.0]);
    Ok(())
}

#[test]
fn derivatives_of_scalar_functions() -> Result<()> {
    let mut b = Builder::new();
    let x = b.param("x", Type::Real);
    let w = b.op(Op::Sin, &[x.into()])?;
    let result = b.op(Op::Tanh, &[w])?;
    let program = b.finish(result)?;
    let g = by_continuations(&program)?;
    // A partial that is a function of the language is that function; another one is a black box, of cost 1.
    assert_eq!(g.to_string(), "let w = sin(x) in\n(tanh(w), (cos(x) * d0[tanh](w)))");
    let expanded = expand_partials(&g)?;
    verify("expand-partials", &expanded)?;
    let x = 0.3_f64;
    let expected = x.cos() * (1.0 - x.sin().tanh().powi(2));
    let found = numbers(&expanded, &[Value::Real(x)])?;
    assert!((found[1] - expected).abs() < 1e-15, "{found:?} {expected}");
    Ok(())
}

fn refused(program: &lambda::Program) -> Option<String> {
    match gradient(program) {
        Err(Error::Limitation { feature, .. }) => Some(feature),
        _ => None,
    }
}

#[test]
fn refuses_what_the_source_language_does_not_have() -> Result<()> {
    let mut b = lambda::Builder::new();
    let real = b.types().real();
    let x = b.param("x", real);
    let x = b.var(x);
    let f = b.fn_("y", real, |b, y| {
        let (left, right) = (b.var(y), b.var(y));
        b.mul(left, right)
    })?;
    let result = b.apply(f, x)?;
    let message = refused(&b.finish(result)?).unwrap_or_default();
    assert_eq!(message, "functions in the source language of continuations");

    let mut b = lambda::Builder::new();
    let int = b.types().int();
    let k = b.param("k", int);
    let k = b.var(k);
    let result = b.prim(lambda::Prim::ToReal, &[k])?;
    let message = refused(&b.finish(result)?).unwrap_or_default();
    assert_eq!(message, "the type int in the source language of continuations");
    Ok(())
}

#[test]
fn refuses_a_gradient_of_an_array() -> Result<()> {
    let mut b = Builder::new();
    let a = b.param("A", Type::array(Type::Real));
    let result = b.map(&[a.into()], |b, x| b.mul(x[0], x[0]))?;
    let error = gradient_of(&b.finish(result)?).err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("a gradient is that of a real number, not of a value of type [real]"));
    Ok(())
}

#[test]
fn refuses_a_reduce_of_tuples_that_is_no_sum() -> Result<()> {
    let pair = Type::tuple([Type::Real, Type::Real]);
    let mut b = Builder::new();
    let (a, c) = (b.param("A", Type::array(pair.clone())), b.param("c", pair));
    let last = b.reduce(c, a, |_, _, y| Ok(y.into()))?;
    let result = b.part(last, 0)?;
    let message = gradient_of(&b.finish(result)?).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.ends_with("a `reduce` whose state is no real number and which is no sum"), "{message}");
    Ok(())
}

#[test]
fn refuses_bodies_that_nest_too_deep() -> Result<()> {
    fn nest(b: &mut Builder, a: Var, depth: usize) -> Result<Atom> {
        if depth == 0 {
            return Ok(Atom::Number(1.0));
        }
        let map = b.map(&[a.into()], |b, _| nest(b, a, depth - 1))?;
        b.reduce(0.0, map, |b, x, y| b.add(x, y))
    }
    let mut b = Builder::new();
    let a = b.param("A", Type::array(Type::Real));
    assert!(nest(&mut b, a, 20).is_ok());
    assert!(matches!(nest(&mut b, a, 70), Err(Error::Limit { limit: 64, .. })));
    Ok(())
}

/// Verifier: a continuation that is called twice with other types, a variable out of scope.
#[test]
fn verifier_finds_broken_promises() -> Result<()> {
    let program = differentiate(&introduction()?)?;
    let mut broken = program.clone();
    broken.body.stmts.swap(0, 1);
    assert!(matches!(verify("test", &broken), Err(Error::Bug { pass: "test", .. })));
    let mut broken = program.clone();
    if let Tail::Pair(_, Fun { answer: Answer::Call(_, args), .. }) = &mut broken.body.tail {
        args.pop();
    }
    assert!(verify("test", &broken).is_err());
    let mut broken = program;
    broken.params.pop();
    assert!(verify("test", &broken).is_ok(), "the third parameter is read nowhere");
    broken.params.pop();
    assert!(verify("test", &broken).is_err());
    Ok(())
}

/// A term a million levels deep, whose gradient adds a million times to one cotangent, on a stack of 2 MiB.
#[test]
fn a_million_levels() -> Result<()> {
    let run = || -> Result<Vec<f64>> {
        let mut b = lambda::Builder::new();
        let real = b.types().real();
        let (x, y) = (b.param("x", real), b.param("y", real));
        let mut sum = b.var(x);
        for _ in 0..1_000_000 {
            let y = b.var(y);
            sum = b.add(sum, y)?;
        }
        let program = from_lambda(&b.finish(sum)?)?;
        let g = gradient_of(&program)?;
        println!("{} operations, {} characters", g.size(), g.to_string().len());
        numbers(&g, &[Value::Real(1.0), Value::Real(2.0)])
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run);
    let found = thread.map_err(|error| Error::data("thread", error.to_string()))?.join();
    let found = found.unwrap_or_else(|_| Err(Error::data("thread", "it panicked")))?;
    assert_eq!(found, [2_000_001.0, 1.0, 1_000_000.0]);
    Ok(())
}

/// The arguments and shapes that tests make fit each other.
#[test]
fn arguments_of_samples() -> Result<()> {
    let sample = at_length(dot()?, 3);
    let args = arguments(&sample, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(numbers(&sample.program, &args)?, [32.0]);
    Ok(())
}

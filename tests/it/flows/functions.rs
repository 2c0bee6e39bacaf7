//! Programs with functions as values, beside those without.

use iverson::Function;
use iverson::inputs;
use iverson::kernel::Engine;
use iverson::tensor::Inputs;

use super::programs::with_functions;
use super::random;

/// Some parts of random programs are the values of functions, with parameters that hide what is in scope: over a prime field all values are the same.
#[test]
fn applied_functions_have_the_values_of_their_bodies() {
    let mut written = 0;
    for seed in 0..300 {
        let (plain, drawn) = with_functions(seed);
        written += drawn.text.matches("fn ").count() - 2;
        let value = |text: &str| random::value_modulo_a_prime(text, &plain, seed);
        assert_eq!(value(&drawn.text), value(&plain.text), "{}\n{}", plain.text, drawn.text);
    }
    assert!(written > 1000, "{written} functions");
}

fn results(function: &Function, inputs: &Inputs) -> Vec<f64> {
    let kernel = function.kernel(inputs).engine(Engine::Interpreter).build().expect("it is bound");
    let results = kernel.call(inputs).expect("it runs");
    let leaves = results.iter().flat_map(|(_, value)| value.leaves().to_vec());
    leaves.flat_map(|leaf| leaf.lexicographic().into_owned()).collect()
}

/// `f = fn z. x * z + y`, as a value, in a pair, and chosen.
#[test]
fn gradients_of_a_function_that_captures_parameters() {
    for body in [
        "let f = fn z. x * z + y in f(y) * f(x)",
        "let (f, one) = (fn z. x * z + y, 1) in f(y) * f(x) * one",
        "let f = if x < y then fn z. x * z + y else exp in f(y) * f(x)",
        "let f = if x > y then exp else fn z. x * z + y in f(y) * f(x)",
        "def twice(f : real -> real, a : real, b : real) = f(a) * f(b)\ntwice(fn z. x * z + y, y, x)",
        "def line(a : real) = fn b. fn z. a * z + b\nline(x)(y)(y) * line(x)(y)(x)",
    ] {
        let function = Function::parse(&format!("param x : real\nparam y : real\n{body}")).expect(body);
        let inputs = inputs! { "x" => 2.0, "y" => 3.0 };
        assert_eq!(results(&function, &inputs), [63.0], "{body}");
        let gradient = function.gradient(["x", "y"]).expect("it has a gradient");
        assert_eq!(results(&gradient, &inputs), [57.0, 30.0], "{body}");
    }
}

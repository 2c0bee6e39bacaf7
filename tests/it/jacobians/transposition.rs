//! Which programs are taken to be linear, and that they are.

use iverson::ir::reference::{Environment, Numeric, Rounded};
use iverson::tensor::{Inputs, Value, bind};
use iverson::{Function, Mode, Request};

use super::derived;
use crate::judge::{Expected, Ways, numbers_as};
use crate::support::evaluate;

/// Only a program that is linear by its form is transposed.
#[test]
fn transposition_is_of_linear_programs() {
    let declared = "param x : [n] real\nparam y : [n] real\n";
    let linear = [
        "gen i < n. x[i] * y[i]",
        "gen i < n. x[i] / y[i] - 2 * x[i]",
        "(sum i < n. x[i], x)",
        "gen i < n. [y[i] > 0] * x[i]",
    ];
    let other = [
        "gen i < n. x[i]^2",
        "gen i < n. x[i] + 1",
        "gen i < n. x[i] * x[i]",
        "gen i < n. [x[i] > 0] * x[i]",
        "gen i < n. exp(x[i]) * 0",
        "y",
    ];
    let transposed = |body: &str| derived(&format!("{declared}{body}"), Request::new(Mode::Transpose, &["x"]));
    for body in linear {
        assert!(transposed(body).is_ok(), "{body}: {:?}", transposed(body));
    }
    for body in other {
        let error = transposed(body).expect_err(body);
        assert!(error.contains("linear in its parameters x"), "{body}: {error}");
    }
}

/// Whatever two things are put together in whatever way: what is taken to be linear in `x` has the values of a linear function.
#[test]
fn what_is_transposed_is_linear() {
    let atoms = ["x[i]", "y[i]", "3", "0", "x[n - 1 - i]", "[i < 1] * x[i]", "[y[i] > 0] * x[i]", "[x[i] > 0] * y[i]"];
    let ways = [
        "A + B",
        "A - B",
        "A * B",
        "A / B",
        "A / (B^2 + 1)",
        "(A + B)^2",
        "max(A, B)",
        "exp(A) * B",
        "sign(A) * B",
        "A^1 * B",
    ];
    let (mut taken, mut refused) = (0, 0);
    let pairs: Vec<(&str, &str)> = atoms.iter().flat_map(|a| atoms.map(|b| (*a, b))).collect();
    for (way, (a, b)) in ways.iter().flat_map(|way| pairs.iter().map(move |pair| (way, *pair))) {
        let body = way.replace('A', &format!("({a})")).replace('B', &format!("({b})"));
        let text = format!("param x : [n] real\nparam y : [n] real\ngen i < n. {body}");
        let Ok(function) = Function::parse(&text) else { continue };
        match function.derive(&Request::new(Mode::Transpose, &["x"])) {
            Ok(_) => taken += 1,
            Err(iverson::Error::Request(_)) => {
                refused += 1;
                continue;
            }
            Err(error) => panic!("{text}: {error}"),
        }
        let program = function.tensor_ssa();
        let value = |x: [f64; 3]| {
            let mut inputs = Inputs::new();
            inputs.size("n", 3);
            for (name, data) in [("x", x), ("y", [2.0, -1.0, 4.0])] {
                if program.signature.params.values().any(|p| p.name == name) {
                    inputs.value(name, Value::vector(data.to_vec()));
                }
            }
            let bindings = bind(&program.signature, &inputs).expect("the inputs fit");
            let at = Environment::from_bindings(&bindings).expect("the inputs fit");
            let leaves = evaluate(program, &numbers_as(&at, Rounded::new)).expect("it evaluates");
            leaves.iter().flat_map(|leaf| leaf.values().to_vec()).collect::<Vec<Rounded>>()
        };
        let (u, v) = ([1.0, -2.0, 3.0], [4.0, 5.0, -6.0]);
        let sum: [f64; 3] = std::array::from_fn(|i| 2.0 * u[i] - 3.0 * v[i]);
        let (two, three) = (Rounded::new(2.0), Rounded::new(-3.0));
        let both = |(a, b): (&Rounded, &Rounded)| two.mul(a).add(&three.mul(b));
        let expected: Vec<Rounded> = value(u).iter().zip(&value(v)).map(both).collect();
        let found: Vec<f64> = value(sum).iter().map(|x| x.value).collect();
        let judged = Expected::from(expected).compare("linear", &found, Ways::Raw);
        judged.unwrap_or_else(|complaint| panic!("{text}: {complaint}"));
    }
    assert!(taken > 50 && refused > 200, "{taken} programs are linear, {refused} are not");
}

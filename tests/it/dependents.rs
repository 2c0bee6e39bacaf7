//! Parameters that depend on others: derivatives through them equal those of the program that computes them itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use iverson::ir::diff::Sweep;
use iverson::ir::index::{Size, Var};
use iverson::ir::stages::check;
use iverson::ir::ty::{Signature, Types};
use iverson::kernel::Engine;
use iverson::tensor::{Csr, CsrPattern, Dense, Inputs, Value};
use iverson::{Error, Function, Mode, Request};

use crate::support::{Numbers, compile};

/// A program of `x`, `w`, `A` and some `y` that are given, with the programs that compute these.
struct Case {
    /// The declarations of the parameters that all programs have.
    header: &'static str,
    /// Each parameter with its type, and what computes it.
    computed: &'static [(&'static str, &'static str, &'static str)],
    body: &'static str,
}

const CASES: &[Case] = &[
    Case {
        header: "param x : [n] real\nparam w : [n] real",
        computed: &[("y", "[n] real", "gen i < n. 3 * x[i]^2 + w[i]")],
        body: "gen i < n. x[i] * y[i]^2 + w[i]",
    },
    Case {
        header: "param x : [n] real\nparam w : [n] real",
        computed: &[("y", "real", "sum i < n. w[i] * x[i]^2")],
        body: "gen i < n. (x[i] * y, y + i)",
    },
    Case {
        header: "param x : [n] real\nparam w : [m] real",
        computed: &[(
            "y",
            "[n + m - 1] real",
            "gen i < n + m - 1. sum j < m. [0 <= i - j and i - j < n] * w[j] * x[i - j]",
        )],
        body: "sum i < n + m - 1. y[i]^2",
    },
    // A chain, of which the second link reads a parameter too.
    Case {
        header: "param x : [n] real\nparam w : [n] real",
        computed: &[
            ("y", "[n] (real, real)", "gen i < n. (x[i] * w[i], x[n - 1 - i])"),
            ("z", "[n] real", "gen i < n. fst y[i] * snd y[i] + x[i]^2"),
        ],
        body: "sum i < n. z[i] * fst y[i] - z[i]^2",
    },
    Case {
        header: "param x : [n] real\nparam A : csr [n, m] real",
        computed: &[("y", "[n] real", "gen i < n. sum j < m. A[i, j] * x[i]")],
        body: "gen j < m. sum i < n. A[i, j] * y[i]^2",
    },
    Case {
        header: "param x : [n] real\nparam A : csr [n, m] real",
        computed: &[("y", "csr(A) [n, m] real", "gen i < n, j < m. A[i, j] * x[i]^2")],
        body: "gen i < n. sum j < m. y[i, j] * A[i, j]",
    },
    // It does not depend on all, and something depends on nothing.
    Case {
        header: "param x : [n] real\nparam w : [n] real",
        computed: &[("y", "[n] real", "gen i < n. [1 <= i] * w[i - 1]^2"), ("z", "real", "5")],
        body: "sum i < n. z * y[i] * x[i]",
    },
];

const N: usize = 4;
const M: usize = 3;

type Values = BTreeMap<String, Value>;

fn pattern() -> Arc<CsrPattern> {
    CsrPattern::new(N, M, vec![0, 2, 2, 3, 5], vec![0, 2, 1, 0, 1]).expect("a pattern").into()
}

fn is_sparse(signature: &Signature, name: &str) -> bool {
    signature.params.values().any(|param| param.name == name && param.storage.pattern().is_some())
}

/// Gives integers to every parameter that has no value, of the shape that its type says.
fn fill(values: &mut Values, function: &Function, numbers: &mut Numbers) {
    let signature = &function.tensor_ssa().signature;
    let extent = |size: &Size| {
        let mut value = |v: &Var| match v {
            Var::Size(n) if signature.sizes[*n] == "n" => Some(N as i64),
            _ => Some(M as i64),
        };
        size.evaluate(&mut value).expect("sizes").expect("small") as usize
    };
    for param in signature.params.values().filter(|param| !values.contains_key(&param.name)).collect::<Vec<_>>() {
        let leaves = signature.types.leaves(param.ty).expect("leaves").into_iter().map(|leaf| {
            if param.storage.pattern().is_some() {
                let stored = numbers.vector(pattern().entries().count());
                return Value::from(Csr::with_pattern(pattern(), stored).expect("as many numbers"));
            }
            let shape: Vec<usize> = leaf.dims.iter().map(extent).collect();
            let data = numbers.vector(shape.iter().product());
            Value::from(Dense::new(&shape, data).expect("as many numbers"))
        });
        values.insert(param.name.clone(), leaves.reduce(Value::pair).expect("a leaf"));
    }
}

fn results(function: &Function, values: &Values) -> Vec<(String, Value)> {
    check("derivative", function.tensor_ssa()).expect("well formed");
    let signature = &function.tensor_ssa().signature;
    let mut inputs = Inputs::new();
    for (_, name) in signature.sizes.iter() {
        inputs.size(name, if name == "n" { N as i64 } else { M as i64 });
    }
    for param in signature.params.values() {
        inputs.value(&param.name, values[&param.name].clone());
    }
    // Patterns of derivatives that are found in other ways may differ by entries that are 0.
    let kernel = function.clone().dense().kernel(&inputs).engine(Engine::Interpreter).build();
    let kernel = kernel.unwrap_or_else(|error| panic!("{error}\n{function}"));
    kernel.call(&inputs).unwrap_or_else(|error| panic!("{error}\n{function}")).into_vec()
}

/// What computes a parameter, differentiated, and as a program that takes tangents or a seed of its name.
fn derivative(of: &Function, on: &[&str], y: &str, adjoint: bool) -> Function {
    if !adjoint {
        return of.forward(on).expect("it has a derivative");
    }
    let mut program = of.adjoint(on).expect("it has a derivative").tensor_ssa().clone();
    let mut signature = (*program.signature).clone();
    let seed = signature.params.ids().last().expect("a seed");
    signature.params[seed].name = format!("d{y}");
    program.signature = signature.into();
    Function::from_tensor_ssa(program)
}

/// Compares a program that is given what it needs, with derivatives, to one that computes it.
fn agree(case: &Case, adjoint: bool, seed: u64) {
    let wrt: [&str; 2] = if case.header.contains("param A") { ["x", "A"] } else { ["x", "w"] };
    let (mut header, mut lets, mut on) = (case.header.to_owned(), String::new(), wrt.to_vec());
    let mut computed = Vec::new();
    for (y, ty, body) in case.computed {
        computed.push((*y, compile(&format!("{header}\n{body}"))));
        header.push_str(&format!("\nparam {y} : {ty}"));
        lets.push_str(&format!("let {y} = {body} in\n"));
    }
    let whole = compile(&format!("{}\n{lets}{}", case.header, case.body));
    let mut given = compile(&format!("{header}\n{}", case.body));
    for (y, of) in &computed {
        let derivative = derivative(of, &on, y, adjoint && !is_sparse(&given.tensor_ssa().signature, y));
        given = given.with_derivative(y, &derivative).unwrap_or_else(|error| panic!("{error}\n{derivative}"));
        on.push(y);
    }
    let mut modes = vec![Mode::Forward, Mode::Adjoint, Mode::Jacobian, Mode::GaussNewton, Mode::GaussNewtonProduct];
    if let [output] = whole.tensor_ssa().outputs.as_slice()
        && output.ty == Types::REAL
    {
        modes.extend([Mode::Gradient, Mode::Hessian, Mode::HessianProduct]);
    }
    let request = |request: Request| {
        let derived =
            |function: &Function| function.derive(&request).unwrap_or_else(|error| panic!("{error}\n{function}"));
        let (expected, found) = (derived(&whole), derived(&given));
        assert_eq!(found.added, expected.added, "{request:?}\n{}", found.function);
        let mut values = Values::new();
        fill(&mut values, &expected.function, &mut Numbers::new(seed, true));
        for (y, of) in &computed {
            let (_, value) = results(of, &values).remove(0);
            let value = match (is_sparse(&given.tensor_ssa().signature, y), value.as_tensor()) {
                (true, Some(tensor)) => {
                    let stored = pattern().entries().map(|(i, j)| tensor.data()[i * M + j]).collect();
                    Value::from(Csr::with_pattern(pattern(), stored).expect("as many numbers"))
                }
                _ => value,
            };
            values.insert((*y).to_owned(), value);
        }
        let expected = results(&expected.function, &values);
        assert_eq!(results(&found.function, &values), expected, "{request:?}\n{}", found.function);
    };
    for mode in modes {
        for by in [&wrt[..], &wrt[..1], &wrt[1..]] {
            request(Request { sweep: Sweep::Forward, ..Request::new(mode, by).raw() });
            if matches!(mode, Mode::Jacobian | Mode::Hessian | Mode::GaussNewton) {
                request(Request { sweep: Sweep::Adjoint, ..Request::new(mode, by).raw() });
            }
        }
        request(Request::new(mode, &wrt));
    }
}

#[test]
fn derivatives_go_through_what_is_given() {
    for (case, seed) in CASES.iter().zip(0..) {
        agree(case, false, seed);
        agree(case, true, seed);
    }
}

/// The root of each element: the derivative follows from the residual.
#[test]
fn residuals_give_derivatives() {
    let header = "param x : [n] real\nparam w : [n] real\nparam y : [n] real";
    let f = compile(&format!("{header}\nsum i < n. w[i] * y[i]^2"));
    let residual = compile(&format!("{header}\ngen i < n. x[i] * y[i] - w[n - 1 - i]"));
    // y[i] = w[n - 1 - i] / x[i]
    let solved = compile("param x : [n] real\nparam w : [n] real\nsum i < n. w[i] * (w[n - 1 - i] / x[i])^2");
    let f = f.with_implicit("y", &residual).expect("each element is solved for by itself");
    let (x, w) = (vec![1.0, 2.0, -4.0, 0.5], vec![8.0, 4.0, -16.0, 2.0]);
    let y: Vec<f64> = x.iter().zip(w.iter().rev()).map(|(x, w)| w / x).collect();
    let values = [("x", x), ("w", w), ("y", y)].map(|(name, data)| (name.to_owned(), Value::vector(data)));
    let values = BTreeMap::from(values);
    for mode in [Mode::Gradient, Mode::Hessian] {
        let derived = |f: &Function| f.derive(&Request::new(mode, &["x", "w"])).expect("derived").function;
        assert_eq!(results(&derived(&f), &values), results(&derived(&solved), &values), "{}", derived(&f));
    }
}

/// What does not fit is refused, and says so.
#[test]
fn what_does_not_fit_is_refused() {
    let f = || compile("param x : [n] real\nparam y : [n] real\nsum i < n. x[i] * y[i]");
    let refused = |derivative: &str| match f().with_derivative("y", &compile(derivative)) {
        Err(Error::Request(message)) => message,
        other => panic!("{other:?}"),
    };
    let cases = [
        ("param x : [n] real\ngen i < n. x[i]", "takes neither"),
        ("param dx : [n] real\nsum i < n. dx[i]", "not of the shape of the parameter `y`"),
        ("param dx : [n] real\ngen i < n. dx[i]^2", "no linear function"),
        ("param dx : [m] real\ngen i < m. dx[i]", "no size `m`"),
        ("param dx : [n] real\nparam z : real\ngen i < n. z * dx[i]", "no parameter `z`"),
        ("param dy : [n] real\ngen i < n. dy[i]", "called `adjoint_x`"),
        ("param dx : [n] real\nassume 5 <= n\ngen i < n. dx[i]", "assumes more"),
        ("param dx : [n] real\ngen i < n. (dx[i], dx[i])", "not of the shape"),
        ("param x : [n] real\nparam dx : real\ngen i < n. dx", "another one"),
    ];
    for (derivative, part) in cases {
        let message = refused(derivative);
        assert!(message.contains(part), "{derivative}\n{message}");
    }
    let mixed = compile("param x : [n] real\nparam y : [n] real\ngen i < n. y[i] + [1 <= i] * y[i - 1] - x[i]");
    let error = f().with_implicit("y", &mixed).expect_err("elements are mixed").to_string();
    assert!(error.contains("no other"), "{error}");
    let same = compile("param dx : [n] real\ngen i < n. dx[i]");
    let error = f().with_derivative("z", &same).expect_err("there is no z").to_string();
    assert!(error.contains("no parameter `z`"), "{error}");
    let twice = f().with_derivative("y", &same).and_then(|f| f.with_derivative("y", &same));
    assert!(twice.expect_err("given twice").to_string().contains("already"));
}

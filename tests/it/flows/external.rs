//! Functions of tensors from outside: against the same functions written in the language, and what goes wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;
use iverson::builder::{Argument, Builder, UserFunction, sum};
use iverson::ir::codegen::source::{Target, source};
use iverson::ir::reference::{self, Environment, Limits, Rounded, Subject};
use iverson::ir::stages::{Stages, check as verify};
use iverson::kernel::Engine;
use iverson::tensor::{Inputs, bind};
use iverson::{Error, Function, Mode, Request, inputs};

use super::programs::{SUMS, with_calls};
use super::random;
use crate::judge::{Expected, Ways, numbers};

fn running(from: impl Iterator<Item = f64>, to: impl Iterator<Item = usize>, out: &mut [f64]) {
    let mut sum = 0.0;
    for (x, at) in from.zip(to) {
        sum += x;
        out[at] = sum;
    }
}

fn forwards(x: &Argument<'_>, y: &mut [f64]) {
    running(x.iter().copied(), 0..x.len(), y);
}

fn backwards(x: &Argument<'_>, y: &mut [f64]) {
    running(x.iter().rev().copied(), (0..x.len()).rev(), y);
}

/// Sums of all beginnings, and its derivatives, with those of its adjoint.
fn sums() -> Vec<UserFunction> {
    let sums = UserFunction::external("sums(x : [n] real) : [n] real", |x, y| forwards(&x[0], y[0]));
    let sums = sums.expect("a header").with_adjoint(|given, dx| backwards(&given[2], dx[0])).expect("its adjoint");
    vec![sums.with_forward(|given, dy| forwards(&given[2], dy[0])).expect("its forward derivative")]
}

fn parsed(text: &str, functions: &[UserFunction]) -> Result<Function, Error> {
    Function::parse_with(text, functions, &mut |_, _| Err("there are no imports".to_owned()))
}

fn by_kernel(function: &Function, inputs: &Inputs, engine: Engine) -> Result<Vec<f64>, Error> {
    let results = function.kernel(inputs).engine(engine).build()?.call(inputs)?;
    Ok(numbers(&results.into_iter().collect::<Vec<_>>()))
}

/// The reference evaluator and both engines, which give the same bits.
fn all_ways(function: &Function, inputs: &Inputs) -> Result<Vec<f64>, Error> {
    let flow = function.flow().expect("calls are between leaves");
    verify("outline", flow)?;
    verify("link", &function.loops(&mut Stages::new())?)?;
    let found = numbers(&reference::evaluate(flow, inputs)?);
    let interpreted = by_kernel(function, inputs, Engine::Interpreter)?;
    let compiled = by_kernel(function, inputs, Engine::Native)?;
    let bits = |numbers: &[f64]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&interpreted), bits(&compiled), "{function}");
    assert_eq!(found, interpreted, "{function}");
    Ok(interpreted)
}

/// By the reference evaluator, with what rounding may do.
fn expected(function: &Function, inputs: &Inputs) -> Expected {
    let at = Environment::from_bindings(&bind(function.signature(), inputs).expect("they fit")).expect("bound");
    let at = at.map(|_, _, leaf| leaf.map(|x| Ok(Rounded::new(*x)))).expect("nothing fails");
    let found = match function.flow() {
        Some(flow) => flow.evaluate(&at, None, Limits::default(), None),
        None => function.tensor_ssa().evaluate(&at, None, Limits::default(), None),
    };
    let leaves = found.expect("it runs").into_iter().flatten().flat_map(|leaf| leaf.values().to_vec());
    Expected::from(leaves.collect::<Vec<Rounded>>())
}

/// Random programs that call the function, beside those that define it: values, both derivatives, and these read from their text.
#[test]
fn random_programs_have_the_derivatives_of_the_definition() {
    let (mut called, mut moved) = (0, 0);
    for seed in 0..80 {
        let drawn = with_calls(seed);
        let Some(at) = drawn.text.find("size U\n").map(|at| at + "size U\n".len()) else { panic!("{}", drawn.text) };
        let (before, after) = drawn.text.split_at(at);
        // The tangent of a sparse matrix has its pattern, which is not drawn.
        if !after.contains("sums(") || before.contains("csr") {
            continue;
        }
        called += 1;
        let twin =
            Function::parse(&format!("{before}{SUMS}{after}")).unwrap_or_else(|e| panic!("{}\n{e:#}", drawn.text));
        let outside = parsed(&drawn.text, &sums()).unwrap_or_else(|e| panic!("{}\n{e:#}", drawn.text));
        let names: Vec<String> = twin.signature().params.values().map(|param| param.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let derived = |function: &Function, mode: Option<Mode>| match mode {
            None => Ok(function.clone()),
            Some(mode) => function.derive(&Request::new(mode, &names)).map(|derived| derived.function),
        };
        for mode in [None, Some(Mode::Forward), Some(Mode::Gradient)] {
            let (twin, outside) = (derived(&twin, mode).expect("a derivative"), derived(&outside, mode));
            let outside = outside.unwrap_or_else(|error| panic!("{mode:?} {error}\n{}", drawn.text));
            let given = random::inputs(&twin, &drawn, &mut Rng::with_seed(seed), true);
            let expected = expected(&twin, &given);
            let found = match (outside.flow(), seed % 10) {
                // Where a derivative is zero no call is left.
                (None, _) => by_kernel(&outside, &given, Engine::Interpreter),
                (Some(_), 0) => all_ways(&outside, &given),
                (Some(flow), _) => {
                    let by_reference = numbers(&reference::evaluate(flow, &given).expect("it runs"));
                    expected.compare("reference", &by_reference, Ways::Simplified).expect("as defined");
                    by_kernel(&outside, &given, Engine::Interpreter)
                }
            };
            let found = found.unwrap_or_else(|error| panic!("{mode:?} {error}\n{}", drawn.text));
            let complain =
                |what: &str, error: String| panic!("seed {seed}, {what} {mode:?}: {error}\n{}\n{outside}", drawn.text);
            expected.compare("kernel", &found, Ways::Simplified).unwrap_or_else(|error| complain("kernel", error));
            moved += usize::from(mode.is_some() && found.iter().any(|x| *x != 0.0));
            let text = outside.to_string();
            let printed = parsed(&text, &sums()).unwrap_or_else(|error| panic!("{text}\n{error:#}"));
            let found = by_kernel(&printed, &given, Engine::Interpreter).expect("it runs");
            expected.compare("text", &found, Ways::Simplified).unwrap_or_else(|error| complain("text", error));
        }
    }
    assert!(called > 30 && moved > 30, "{called} programs with calls, {moved} derivatives that are not zero");
}

/// Below indices, in a loop, of several tensors, with a tuple as the value: closed forms.
#[test]
fn calls_stand_wherever_a_value_does() {
    // Both sides of `x y'` and its trace, for vectors of any two lengths.
    let outer =
        UserFunction::external("outer(x : [m] real, y : [n] real, s : real) : ([m, n] real, real)", |x, out| {
            let n = x[1].shape()[0];
            for (k, z) in out[0].iter_mut().enumerate() {
                *z = x[2][0] * x[0][k / n] * x[1][k % n];
            }
            out[1][0] = x[2][0];
        });
    let functions = [sums(), vec![outer.expect("a header")]].concat();
    let at = inputs! { "x" => [1.0, 2.0, 3.0], "A" => iverson::ndarray::array![[1.0, 2.0], [3.0, 4.0]] };
    for (text, value) in [
        ("param x : [n] real\nsums(x)[n - 1]\nassume n >= 1", 6.0),
        ("param x : [n] real\nsum i < n. sums(sums(x))[i]", 15.0),
        ("param A : [m, n] real\nsum i < m. sum j < n. sums(A[i])[j]", 14.0),
        ("param A : [m, n] real\nsum i < m, j < n. (gen k < m. sums(gen l < n. A[k, l] * real(i)))[i, j]", 10.0),
        ("param x : [n] real\nlet h = fold t < 2, h = x. sums(h) in sum i < n. h[i]", 15.0),
        ("param x : [n] real\nlet (z, s) = outer(x, [1, 10], 2) in (sum i < n. z[i, 0] + z[i, 1]) + s", 134.0),
        ("param x : [n] real\nsum i < n. [i < 0] * sums(x)[i]", 0.0),
    ] {
        let (declared, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("assume"));
        let text = format!("{}\n{}", declared.join("\n"), rest.join("\n"));
        let function = parsed(&text, &functions).unwrap_or_else(|error| panic!("{text}\n{error:#}"));
        match function.flow() {
            Some(_) => assert_eq!(all_ways(&function, &at).expect("it runs"), [value], "{text}"),
            None => assert_eq!(by_kernel(&function, &at, Engine::Interpreter).expect("it runs"), [value], "{text}"),
        }
    }
}

/// Below a bracket and in a branch a function is called where that is taken alone, by derivatives, too.
#[test]
fn a_branch_that_is_not_taken_calls_nothing() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (of_value, of_adjoint) = (Arc::clone(&calls), Arc::clone(&calls));
    let root = UserFunction::external("root(x : [n] real) : [n] real", move |x, y| {
        of_value.fetch_add(1, Ordering::Relaxed);
        y[0].iter_mut().zip(x[0].iter()).for_each(|(y, x)| *y = x.sqrt());
        assert!(y[0].iter().all(|y| *y > 0.0), "a root of what is not positive");
    });
    let root = root.expect("a header").with_adjoint(move |given, dx| {
        of_adjoint.fetch_add(1, Ordering::Relaxed);
        dx[0].iter_mut().enumerate().for_each(|(i, dx)| *dx = given[2][i] / (2.0 * given[1][i]));
    });
    let functions = [root.expect("its adjoint")];
    let text =
        "param A : [m, n] real\nparam c : [m] real\nsum i < m. if c[i] > 0 then sum j < n. root(A[i])[j] else c[i]";
    let gradient = parsed(text, &functions).and_then(|f| f.value_and_gradient(["A"])).expect("a gradient");
    let a = iverson::ndarray::array![[4.0, 9.0], [-1.0, 1.0], [16.0, 1.0]];
    let given = inputs! { "A" => a, "c" => [1.0, -1.0, 2.0] };
    let expected = [9.0, 0.25, 1.0 / 6.0, 0.0, 0.0, 0.125, 0.5];
    for engine in [Engine::Interpreter, Engine::Native] {
        calls.store(0, Ordering::Relaxed);
        assert_eq!(by_kernel(&gradient, &given, engine).expect("it runs"), expected, "{gradient}");
        assert_eq!(calls.load(Ordering::Relaxed), 4, "two rows, a value and an adjoint each");
    }
    assert_eq!(all_ways(&gradient, &given).expect("it runs"), expected);
}

/// What is given later, and the derivative of a derivative by its name.
#[test]
fn second_derivatives_go_through_what_is_given() {
    // y = x^2: the adjoint is 2 x dy, its adjoint 2 dx dy by x and 2 x dx by dy.
    let square = UserFunction::external("square(x : real) : real", |x, y| y[0][0] = x[0][0] * x[0][0])
        .and_then(|square| square.with_adjoint(|given, dx| dx[0][0] = 2.0 * given[0][0] * given[2][0]))
        .and_then(|square| square.with_forward(|given, dy| dy[0][0] = 2.0 * given[0][0] * given[2][0]))
        .expect("a function");
    let text = "param x : real\nsquare(x) * x";
    let function = parsed(text, std::slice::from_ref(&square)).expect("it is right");
    assert_eq!(all_ways(&function.gradient(["x"]).expect("a gradient"), &inputs! { "x" => 3.0 }), Ok(vec![27.0]));
    let refused = function.hessian(["x"]).expect_err("nothing is known of the adjoint").to_string();
    assert!(
        refused.contains("`square_adjoint` from outside, of which no `square_adjoint_forward` is given"),
        "{refused}"
    );
    let header =
        "square_adjoint_forward(x : real, y : real, dy : real, z : real, tx : real, ty : real, tdy : real) : real";
    let second = UserFunction::external(header, |given, out| {
        let [x, _, dy, _, tx, _, tdy] = given else { return };
        out[0][0] = 2.0 * tx[0] * dy[0] + 2.0 * x[0] * tdy[0];
    });
    let functions = [square.clone(), second.expect("a header")];
    let hessian = parsed(text, &functions).and_then(|f| f.hessian(["x"])).expect("all is given");
    assert_eq!(all_ways(&hessian, &inputs! { "x" => 3.0 }), Ok(vec![18.0]));
    let other = UserFunction::external("square_adjoint_forward(x : real) : real", |_, _| {}).expect("a header");
    let refused = parsed(text, &[square, other]).and_then(|f| f.hessian(["x"])).expect_err("it is another function");
    assert!(
        refused.to_string().contains("does not take and give what a derivative of `square_adjoint` does"),
        "{refused}"
    );
}

/// A panic is an error, and nothing is left undone by it.
#[test]
fn a_panic_is_an_error_of_the_call() {
    let picky = UserFunction::external("picky(x : [n] real) : [n] real", |x, y| {
        assert!(x[0][0] > 0.0, "the first number is {}", x[0][0]);
        y[0].copy_from_slice(&x[0]);
    });
    let function = parsed("param x : [n] real\nsum(picky(x))", &[picky.expect("a header")]).expect("it is right");
    let (right, wrong) = (inputs! { "x" => [1.0, 2.0] }, inputs! { "x" => [-1.0, 2.0] });
    let said = "the function `picky` from outside panicked: the first number is -1";
    for engine in [Engine::Interpreter, Engine::Native] {
        let kernel = function.kernel(&right).engine(engine).build().expect("it is bound");
        assert_eq!(kernel.call(&wrong).err(), Some(Error::Request(said.to_owned())), "{engine:?}");
        assert_eq!(kernel.call(&right).expect("it runs")["value"].as_scalar(), Some(3.0), "{engine:?}");
    }
    assert_eq!(
        reference::evaluate(function.flow().expect("a call"), &wrong).err(),
        Some(Error::Request(said.to_owned()))
    );
}

/// Kernels of several threads call one function at the same time.
#[test]
fn threads_share_a_function() {
    let function =
        parsed("param x : [n] real\nsum(sums(x))", &sums()).and_then(|f| f.gradient(["x"])).expect("it is right");
    let given = inputs! { "x" => vec![1.0; 100] };
    let expected: Vec<f64> = (1..=100).rev().map(f64::from).collect();
    for engine in [Engine::Interpreter, Engine::Native] {
        let kernel = function.kernel(&given).engine(engine).build().expect("it is bound");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let results = kernel.call(&given).expect("it runs");
                        assert_eq!(results["grad_x"].as_slice(), Some(expected.as_slice()));
                    }
                });
            }
        });
    }
}

/// The builder calls it by name; a program that is one call composes.
#[test]
fn it_is_called_in_rust_and_composed() {
    let b = Builder::new();
    let n = b.size("n");
    let x = b.param("x", n);
    let y = b.call("sums", [x]);
    let program = b.finish(sum(n, |i| y[i] * y[i])).expect("it is right");
    let given = inputs! { "x" => [1.0, 2.0] };
    let built = Function::build_with(&program, &sums()).and_then(|f| f.gradient(["x"])).expect("it has a gradient");
    assert_eq!(all_ways(&built, &given), Ok(vec![8.0, 6.0]));
    let alone = Function::external(
        "sums(x : [n] real) : [n] real",
        |x, y| forwards(&x[0], y[0]),
        |given, dx| backwards(&given[2], dx[0]),
    );
    let composed = Function::parse("param y : [n] real\nsum(y^2)").and_then(|f| f.compose(&alone.expect("a header")));
    let composed = composed.and_then(|f| f.gradient(["x"])).expect("it has a gradient");
    assert_eq!(all_ways(&composed, &given), Ok(vec![8.0, 6.0]));
}

/// What cannot be is said in a sentence.
#[test]
fn what_is_refused() {
    let refused = |header: &str| UserFunction::external(header, |_, _| {}).expect_err(header).to_string();
    for (header, said) in [
        ("f(x : [n] real)", "does not say what the function gives, as in `f(x : [n] real) : [n] real`"),
        ("x + 1", "expected"),
        ("f(x : [n] real) : [m] real", "has the size `m`, which is no axis of a parameter"),
        ("f(x : [2*n] real) : [n] real", "has the size `n`, which is no axis of a parameter"),
        ("f(x : (real, real)) : real", "each parameter is a tensor of reals"),
        ("exp(x : [n] real) : [n] real", "is built in"),
        ("f(x : [n] real, x : real) : real", "`x`"),
    ] {
        assert!(refused(header).contains(said), "{header}: {}", refused(header));
    }
    let twice = sums().remove(0).with_adjoint(|_, _| {}).expect_err("it has one").to_string();
    assert_eq!(twice, "the function `sums` has the derivative `sums_adjoint` already");
    for (text, said) in [
        ("sums(x, x)[0]", "`sums` takes 1 argument, found 2"),
        ("sums(A)[0]", "`sums` takes (x : [n] real), found ([n, n] real)"),
        ("sums(1)", "`sums` takes (x : [n] real), found (real)"),
        ("let f = sums in f(x)", "`sums` is a function of tensors from outside, and is called where it stands"),
    ] {
        let text = format!("param x : [n] real\nparam A : [n, n] real\nassume n >= 1\n{text}");
        let found = parsed(&text, &sums()).expect_err(&text).to_string();
        assert!(found.contains(said), "{text}: {found}");
    }
    let bare = UserFunction::external("sums(x : [n] real) : [n] real", |x, y| forwards(&x[0], y[0])).expect("a header");
    let function = parsed("param x : [n] real\nsum(sums(x))", &[bare]).expect("it is right");
    for (mode, said) in [(Mode::Gradient, "`with_adjoint`"), (Mode::Forward, "`with_forward`")] {
        let found = function.derive(&Request::new(mode, &["x"])).expect_err("none is given").to_string();
        assert!(
            found.contains("the derivative goes through the function `sums` from outside") && found.contains(said),
            "{found}"
        );
    }
    let saved = serde_json::to_string(&function).expect_err("code is not saved").to_string();
    assert!(saved.contains("the function `sums` is code in Rust and cannot be saved"), "{saved}");
    let emitted = function.loops(&mut Stages::new()).and_then(|loops| source(&loops, Target::Module));
    let emitted = emitted.expect_err("text of its own calls nobody").to_string();
    assert!(emitted.contains("cannot call functions of tensors from outside"), "{emitted}");
    let transposed =
        function.derive(&Request::new(Mode::Transpose, &["x"])).expect_err("nothing is known of it").to_string();
    assert!(transposed.contains("it calls a function from outside"), "{transposed}");
}

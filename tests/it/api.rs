//! The library as a newcomer's first guess has it: programs from an empty crate.

mod guesses;

use std::collections::BTreeSet;

use iverson::builder::{Builder, generate, sum};
use iverson::prelude::*;
use iverson::tensor::{IntoValue, Slice};
use iverson::{Error, Origin, builder, ndarray, sprs};

const LOGISTIC: &str = "param X : csr [n, d] real\nparam y : [n] real\nparam w : [d] real\n\
                        assume n >= 1\n(sum i < n. softplus(-y[i] * (sum j < d. X[i, j] * w[j]))) / n";

/// A sparse table of `n` rows and `d` columns, and labels 1 and -1.
fn table(n: usize, d: usize) -> (sprs::CsMat<f64>, Vec<f64>) {
    let mut triplets = sprs::TriMat::new((n, d));
    for i in 0..n {
        triplets.add_triplet(i, i % d, 1.0 + (i % 3) as f64);
        triplets.add_triplet(i, (5 * i + 2) % d, -1.5 + (i % 4) as f64);
    }
    let labels = (0..n).map(|i| if (i * i + i / 3) % 5 < 2 { 1.0 } else { -1.0 }).collect();
    let sum: sprs::CsMat<f64> = triplets.to_csr();
    (sum, labels)
}

#[test]
fn inputs_serve_a_function_and_its_derivatives() -> Result<(), Error> {
    let (x, y) = table(12, 4);
    let inputs = inputs! { "X" => &x, "y" => y, "w" => [0.1, -0.2, 0.3, 0.0], "dw" => [1.0, 0.0, 0.0, 0.0] };
    let loss = Function::parse(LOGISTIC)?;
    let value = loss.eval(&inputs)?["value"].as_scalar();
    let both = loss.value_and_gradient(["w"])?.eval(&inputs)?;
    assert_eq!(both["value"].as_scalar().map(|x| (x * 1e12).round()), value.map(|x| (x * 1e12).round()));
    let forward = loss.forward(["w"])?.eval(&inputs)?;
    let hessian = loss.hessian(["w"])?.eval(&inputs)?;
    assert_eq!(hessian["hessian_w_w"].as_csr().map(|h| (h.rows(), h.cols())), Some((4, 4)));
    let (slope, along) = (both["grad_w"].as_slice().unwrap(), forward["tangent"].as_scalar().unwrap());
    assert!((slope[0] - along).abs() < 1e-12);
    // A gradient does not need what a value needs.
    let linear = Function::parse("param x : [n] real\nparam c : [n] real\nsum i < n. c[i] * x[i]")?;
    let mut inputs = inputs! { "x" => [0.0; 3], "c" => [1.0; 3], "lambda" => 2 };
    linear.gradient(["x"])?.eval(inputs.size("k", 4))?;
    let strict = inputs.check_names(&linear.tensor_ssa().signature).unwrap_err().to_string();
    assert_eq!(strict, "k: the program has no such size; it takes x : [n] real, c : [n] real, size n");
    Ok(())
}

#[test]
fn misspelt_inputs_are_helped() -> Result<(), Error> {
    let dot = Function::parse("param first : [n] real\nparam y : [n] real\nsum i < n. first[i] * y[i]")?;
    for (inputs, message) in [
        (
            inputs! { "fist" => [1.0], "y" => [1.0] },
            "first: this parameter is missing (`fist` was given: did you mean `first`?); it takes ",
        ),
        (
            inputs! { "first" => [1.0], "Y" => [1.0] },
            "y: this parameter is missing (`Y` was given: did you mean `y`?); ",
        ),
        (inputs! { "first" => [1.0], "z" => [1.0] }, "y: this parameter is missing; it takes "),
        (inputs! { "other" => [1.0], "y" => [1.0] }, "first: this parameter is missing; it takes "),
    ] {
        let error = dot.eval(&inputs).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let deep = ndarray::Array::<f64, _>::zeros(ndarray::IxDyn(&[1; 17]));
    let mut inputs = inputs! { "first" => &deep, "y" => [1.0] };
    assert!(deep.into_value().is_err());
    assert_eq!(dot.eval(&inputs).unwrap_err().to_string(), "first: 17 axes are more than the limit of 16");
    inputs.value("first", [2.0]);
    assert_eq!(dot.eval(&inputs)?["value"].as_scalar(), Some(2.0));
    Ok(())
}

/// Both globs are used together, and `Result` with two types is that of the standard library.
#[test]
fn globs_go_together() -> Result<(), Error> {
    use iverson::builder::*;
    use iverson::prelude::*;

    fn built() -> Result<Function, String> {
        let b = Builder::new();
        let (n, k) = (b.size("n"), b.size("k"));
        let (x, g, e) = (b.param("x", [n]), b.map("g", [n], k), b.relation("E", [n, n]));
        let pairs = sum((n, n), |(i, j)| (e.holds([i, j]) & g.of([i]).eq(g.of([j]))) * (x[i] * x[j]));
        let ast = b.finish(pairs).map_err(|error| error.to_string())?;
        Function::build(&ast).map_err(|error| error.to_string())
    }
    let mut inputs = inputs! { "x" => [1.0, 2.0, 3.0], "g" => [0, 1, 1], "k" => 2 };
    inputs.relation("E", Relation::from_tuples(&[3, 3], &[[0, 1], [1, 2]])?);
    let results = built().map_err(Error::Request)?.value_and_gradient(["x"])?.eval(&inputs)?;
    assert_eq!(results["value"].as_scalar(), Some(6.0));
    assert_eq!(results["grad_x"].as_slice(), Some(&[0.0, 3.0, 2.0][..]));
    Ok(())
}

#[test]
fn kernels_are_built_by_steps_in_any_order() -> Result<(), Error> {
    let (x, y) = table(30, 5);
    let inputs = inputs! { "X" => x, "y" => y, "w" => [0.0; 5] };
    let both = Function::parse(LOGISTIC)?.value_and_gradient(["w"])?;
    let plain = both.kernel(&inputs).engine(Engine::Interpreter).build()?;
    let w = [0.5, -0.5, 0.25, 1.0, 0.0];
    let expected = plain.call(&{
        let mut inputs = inputs.clone();
        inputs.value("w", w);
        inputs
    })?;
    let names = BTreeSet::from(["y".to_owned(), "X".to_owned()]);
    for kernel in [
        both.kernel(&inputs).constants(["X", "y"]).threads(2).engine(Engine::Native).build()?,
        both.kernel(&inputs).engine(Engine::Interpreter).threads(1).constants(&names).build()?,
    ] {
        assert_eq!(kernel.call(&w)?, expected);
        let (mut value, mut gradient) = (0.0, vec![0.0; 5]);
        kernel.call_into((&w,), (&mut value, &mut gradient))?;
        assert_eq!((Some(value), Some(&gradient[..])), (expected["value"].as_scalar(), expected["grad_w"].as_slice()));
    }
    let single = both.kernel(&inputs).constants(["X"]).single(["grad_w", "y"]).engine(Engine::Interpreter).build()?;
    let labels: Vec<f32> = inputs.get("y").and_then(Value::as_slice).unwrap().iter().map(|y| *y as f32).collect();
    let found = single.call((&labels, &w))?;
    let rounded: Vec<f32> = expected["grad_w"].as_slice().unwrap().iter().map(|x| *x as f32).collect();
    assert_eq!(found["grad_w"].leaves()[0].numbers(), Slice::Single(&rounded));
    let threads = both.kernel(&inputs).threads(0).build().unwrap_err().to_string();
    assert_eq!(threads, "0 threads: a kernel takes at least one");
    for kernel in [both.kernel(&inputs).constants(["z"]), both.kernel(&inputs).single(["z"])] {
        assert!(matches!(kernel.build(), Err(Error::Request(_))));
    }
    Ok(())
}

#[test]
fn results_have_names_and_print() -> Result<(), Error> {
    let f =
        Function::parse("param x : [n] real\nparam s : real\n(sum i < n. x[i], gen i < n, j < n. [i = j] * s * x[i])")?;
    let results = f.eval(&inputs! { "x" => [1.0, 2.0, -0.0], "s" => 3 })?;
    assert_eq!(results.to_string(), "value.0: 3.0\nvalue.1: [3, 3], norm 6.7082: 3.0 0.0 0.0 0.0 6.0 0.0 ..\n");
    let jacobian = f.jacobian(["s"])?.eval(&inputs! { "x" => [1.0, 2.0], "s" => 3 })?;
    insta::assert_snapshot!(jacobian);
    assert!(results.get("loss").is_none());
    let asked = std::panic::catch_unwind(|| results["loss"].clone()).unwrap_err();
    assert_eq!(asked.downcast_ref::<String>().unwrap(), "there is no result `loss`, but value");
    Ok(())
}

/// A program that the builder makes, and the text that means the same.
#[track_caller]
fn builds(build: impl for<'b> FnOnce(&'b Builder<'b>) -> iverson::builder::Expr<'b>, text: &str) {
    let b = Builder::new();
    let ast = b.finish(build(&b)).and_then(|ast| Function::build(&ast));
    let expected = Function::parse(text).expect("it is a program");
    assert_eq!(ast.map(|f| f.to_string()).map_err(|e| e.to_string()), Ok(expected.to_string()));
}

#[test]
fn natural_lines_of_the_builder() {
    let xs = "param x : [n] real\nparam y : [n] real\n";
    let with = |body: &str| format!("{xs}{body}");
    builds(
        |b| {
            let n = b.size("n");
            let (x, y) = (b.param("x", n), b.param("y", [n]));
            sum(n, |i| x[i] * y[i])
        },
        &with("sum i < n. x[i] * y[i]"),
    );
    builds(
        |b| {
            let n = b.size("n");
            let (x, y) = (b.param("x", n), b.param("y", n));
            let half = 0.5_f32;
            sum(n - 1, |i| (x[i + 1] - y[i]) * half + 2.0 * &x[i] - 1)
        },
        &with("sum i < n - 1. (x[i + 1] - y[i]) * 0.5 + 2 * x[i] - 1"),
    );
    builds(
        |b| {
            let (n, three) = (b.size("n"), 3_usize);
            let (x, y) = (b.param("x", n), b.param("y", n));
            generate(n, |i| sum(n, |j| (i.ge(j) & (i - j + three).lt(n)) * (x[i - j + 3] * -y[j])))
        },
        &with("gen i < n. sum j < n. [i >= j and i - j + 3 < n] * x[i - j + 3] * -y[j]"),
    );
    builds(
        |b| {
            let n = b.size("n");
            let (x, y) = (b.param("x", n), b.param("y", 2 * n));
            sum(n, |i| x.at(i).exp() + y[2 * i] / 3_i32 - y[2 * i + 1].powi(2))
        },
        "param x : [n] real\nparam y : [2 * n] real\nsum i < n. exp(x[i]) + y[2 * i] / 3 - y[2 * i + 1]^2",
    );
    builds(
        |b| {
            let (n, m) = (b.size("n"), b.size("m"));
            let a = b.param("A", (n, m));
            let x = b.csr("X", (m, 4));
            sum(n, |i| sum(m, |j| a[(i, j)] * a[[i, j]] + x[(j, 3)]))
        },
        "param A : [n, m] real\nparam X : csr [m, 4] real\nsum i < n, j < m. A[i, j] * A[i, j] + X[j, 3]",
    );
    builds(
        |b| {
            let (n, p) = (b.size("n"), b.size("p"));
            let x = b.param("x", n);
            let of = b.map("of", p, n);
            sum(p, |o| x[of[o]] - x[of.of(o)])
        },
        "param x : [n] real\nmap of : [p] -> [n]\nsum i < p. x[of(i)] - x[of(i)]",
    );
}

#[test]
#[allow(clippy::op_ref, reason = "references are what is tested")]
fn operands_of_the_builder_mix() {
    let x = "param x : [n] real\n";
    builds(
        |b| {
            let n = b.size("n");
            let x = &b.param("x", n);
            sum(n, |i| (2 * &x[i]).exp() + (0.5 - &x[i]).sin() * (1 + &i) - &i * x[i] / 3_usize + (n - 0.5) * i)
        },
        &format!(
            "{x}sum i < n. exp(2 * x[i]) + sin(0.5 - x[i]) * real(1 + i) - real(i) * x[i] / 3 + (real(n) - 0.5) * real(i)"
        ),
    );
    builds(
        |b| {
            let n = b.size("n");
            let x = b.param("x", n);
            let squares: iverson::builder::Expr<'_> = (1..=3).map(|k| sum(n, |i| x[i].powi(k))).sum();
            2.0 * n * squares + [x.dot(x), b.real(1.5)].iter().sum::<iverson::builder::Expr<'_>>()
        },
        &format!(
            "{x}2 * real(n) * ((sum i < n. x[i]^1) + (sum j < n. x[j]^2) + (sum k < n. x[k]^3)) + (dot(x, x) + 1.5)"
        ),
    );
}

#[test]
fn library_functions_are_methods_of_the_builder() {
    builds(
        |b| {
            let (m, n) = (b.size("m"), b.size("n"));
            let (a, x, y) = (b.param("A", [m, n]), b.param("x", n), b.param("y", m));
            a.matvec(x).dot(y) + x.softmax().squared_norm()
        },
        "param A : [m, n] real\nparam x : [n] real\nparam y : [m] real\ndot(matvec(A, x), y) + squared_norm(softmax(x))",
    );
    builds(
        |b| {
            let (m, k) = (b.size("m"), b.size("k"));
            let (a, c) = (b.param("A", [m, k]), b.param("C", [k, m]));
            a.matmul(c).trace() + c.matmul(a).transpose().trace().relu()
        },
        "param A : [m, k] real\nparam C : [k, m] real\ntrace(matmul(A, C)) + relu(trace(transpose(matmul(C, A))))",
    );
}

#[test]
fn programs_are_composed() -> Result<(), Error> {
    let model = Function::parse("param X : csr [n, d] real\nparam w : [d] real\ngen i < n. sum j < d. X[i, j] * w[j]")?;
    let loss = Function::parse(
        "param y : [n] real\nparam p : [n] real\nassume n >= 1\n(sum i < n. softplus(-y[i] * p[i])) / n",
    )?;
    let whole = loss.substitute("p", &model)?;
    let (x, y) = table(20, 4);
    let inputs = inputs! { "X" => &x, "y" => y, "w" => [0.5, -1.0, 0.25, 0.0] };
    let (found, expected) =
        (whole.gradient(["w"])?.eval(&inputs)?, Function::parse(LOGISTIC)?.gradient(["w"])?.eval(&inputs)?);
    for (a, b) in found["grad_w"].as_slice().unwrap().iter().zip(expected["grad_w"].as_slice().unwrap()) {
        assert!((a - b).abs() <= 1e-14, "{found} {expected}");
    }
    insta::assert_snapshot!(whole);
    // Sizes become those of the result, which may not be negative.
    let ends = Function::parse("param p : [k] real\nparam z : [k + 1] real\nz[0] + (sum i < k. p[i])")?;
    let window = Function::parse("param x : [n] real\ngen i < n - 2. x[i] * x[i + 2]")?;
    insta::assert_snapshot!(ends.substitute("p", &window)?);
    for (f, param, g, message) in [
        (&ends, "q", &window, "the program has no parameter `q`"),
        (&ends, "z", &Function::parse("param s : real\ns")?, "the result has another type than `z`"),
        (
            &ends,
            "p",
            &Function::parse("param z : real\nparam q : [n] real\ngen i < n. z * q[i]")?,
            "the parameter `z` is another one",
        ),
        (&model, "X", &window, "`X` is sparse, which no result can stand for"),
    ] {
        let error = f.substitute(param, g).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    Ok(())
}

#[test]
fn gradients_of_each_sample_are_a_map() -> Result<(), Error> {
    let one = Function::parse("param x : [d] real\nparam y : real\nparam w : [d] real\nsoftplus(-y * dot(x, w))")?;
    let inputs = inputs! { "x" => [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], "y" => [1.0, -1.0, 1.0], "w" => [0.5, 0.25] };
    let gradients = one.gradient(["w"])?.map(["x", "y"], "n")?.eval(&inputs)?;
    // Several results keep their names.
    let both = one.value_and_gradient(["w"])?.map(["x", "y"], "n")?.eval(&inputs)?;
    let (values, slopes) = (both["value"].as_slice().unwrap(), both["grad_w"].as_slice().unwrap());
    for (k, x) in [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]].iter().enumerate() {
        let y = inputs.get("y").and_then(Value::as_slice).unwrap()[k];
        let alone = one.value_and_gradient(["w"])?.eval(&inputs! { "x" => x, "y" => y, "w" => [0.5, 0.25] })?;
        assert!((values[k] - alone["value"].as_scalar().unwrap()).abs() < 1e-15);
        for found in [gradients["grad_w"].as_slice().unwrap(), slopes] {
            for (a, b) in found[2 * k..2 * k + 2].iter().zip(alone["grad_w"].as_slice().unwrap()) {
                assert!((a - b).abs() < 1e-15);
            }
        }
    }
    let sparse = Function::parse(LOGISTIC)?.map(["X"], "b").unwrap_err().to_string();
    assert_eq!(sparse, "`X` is sparse, and a map goes through dense parameters");
    let places =
        Function::parse("param x : [n] real\nassume n >= 1\nx[argmax i < n. x[i]]")?.map(["x"], "b").unwrap_err();
    assert!(matches!(places, Error::Limitation { .. }), "{places}");
    Ok(())
}

#[test]
fn names_are_changed() -> Result<(), Error> {
    let f = Function::parse(
        "param X : csr [n, d] real\nparam w : [d] real\nmap of : [d] -> [n]\nsum j < d. X[of(j), j] * w[j]",
    )?;
    insta::assert_snapshot!(f.rename([("X", "A"), ("n", "rows"), ("of", "to")])?);
    for (names, message) in [
        (vec![("q", "r")], "the program has no `q`"),
        (vec![("X", "w")], "two things would be called `w`"),
        (vec![("X", "a b")], "a new name is no name of the language"),
        (vec![("X", "sum")], "a new name is no name of the language"),
    ] {
        let error = f.rename(names).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    // Names can be exchanged.
    let swapped = Function::parse("param a : [n] real\nparam b : [n] real\nsum i < n. a[i] - 2 * b[i]")?;
    let swapped = swapped.rename([("a", "b"), ("b", "a")])?;
    assert_eq!(swapped.to_string().lines().last(), Some("sum i < n. b[i] - 2 * a[i]"));
    Ok(())
}

/// Points, gradients and Hessians have the numbers of all unknowns in order, also of one that nothing depends on.
#[test]
fn objectives_have_hessians() -> Result<(), Error> {
    let text = "param x : [n] real\nparam unused : real\nparam y : [n] (real, real)\nparam a : [n] real\n\
                sum i < n. a[i] * x[i]^2 * fst y[i] + exp(snd y[i])";
    let loss = Function::parse(text)?;
    let pairs = Value::pair(Value::vector(vec![1.0, 2.0]), Value::vector(vec![0.0, 1.0]));
    let inputs = inputs! { "x" => [3.0, 4.0], "unused" => 7, "y" => pairs, "a" => [1.0, 10.0] };
    let objective = loss.objective(&inputs, ["y", "x", "unused"])?;
    let start = objective.start();
    assert_eq!(start, [3.0, 4.0, 7.0, 1.0, 2.0, 0.0, 1.0]);
    let mut gradient = vec![f64::NAN; objective.len()];
    assert_eq!(objective.evaluate(&start, &mut gradient)?, 9.0 + 320.0 + 1.0 + 1f64.exp());
    assert_eq!(gradient, [6.0, 160.0, 0.0, 9.0, 160.0, 1.0, 1f64.exp()]);
    let dense = |matrix: &Csr| -> Vec<Vec<f64>> {
        let row = |i| (0..matrix.cols()).map(move |j| matrix.get(i, j).unwrap_or(0.0)).collect();
        (0..matrix.rows()).map(row).collect()
    };
    for point in [start, vec![1.0, 0.5, 0.0, -1.0, 2.0, 0.5, -0.5]] {
        let hessian = dense(&objective.hessian(&point)?);
        let mut expected = vec![vec![0.0; 7]; 7];
        for (i, a) in [1.0, 10.0].into_iter().enumerate() {
            expected[i][i] = 2.0 * a * point[3 + i];
            expected[i][3 + i] = 2.0 * a * point[i];
            expected[3 + i][i] = expected[i][3 + i];
            expected[5 + i][5 + i] = point[5 + i].exp();
        }
        assert_eq!(hessian, expected);
    }
    assert_eq!(objective.hessian(&[1.0]).unwrap_err().to_string(), "point: 7 numbers are expected, found 1");
    // Of a pair one half may be read alone.
    let half = Function::parse("param y : [n] (real, real)\nsum i < n. (fst y[i])^2")?
        .objective(&objective.at(&[0.0; 7])?, ["y"])?;
    let mut gradient = [f64::NAN; 4];
    assert_eq!((half.evaluate(&[1.0, 2.0, 3.0, 4.0], &mut gradient)?, gradient), (5.0, [2.0, 4.0, 0.0, 0.0]));
    assert_eq!(dense(&half.hessian(&[0.0; 4])?)[0], [2.0, 0.0, 0.0, 0.0]);
    Ok(())
}

/// Solvers of argmin take objectives as they are: the value and the gradient, and the sparse Hessian.
#[test]
fn objectives_are_problems_of_argmin() -> Result<(), Box<dyn std::error::Error>> {
    use argmin::core::{CostFunction, Executor, Gradient};
    use argmin::solver::linesearch::MoreThuenteLineSearch;
    use argmin::solver::newton::NewtonCG;
    use argmin::solver::quasinewton::LBFGS;
    let chain = "param x : [n] real\n(sum i < n - 1. (x[i + 1] - x[i])^2) + (sum i < n. exp(x[i] - 1) - x[i])";
    let inputs = inputs! { "x" => [-1.2, 3.0, 0.0] };
    let objective = || Function::parse(chain)?.objective(&inputs, ["x"]);
    let first = LBFGS::new(MoreThuenteLineSearch::new(), 7).with_tolerance_grad(1e-10)?;
    let fitted = Executor::new(objective()?, first).configure(|state| state.param(vec![-1.2, 3.0, 0.0]).max_iters(200));
    let second = Executor::new(objective()?, NewtonCG::new(MoreThuenteLineSearch::new()).with_tolerance(1e-14)?);
    let second = second.configure(|state| state.param(vec![-1.2, 3.0, 0.0]).max_iters(200));
    let ends = [fitted.run()?.state.best_param, second.run()?.state.best_param];
    for end in ends {
        let end = end.expect("it ends somewhere");
        assert!(end.iter().all(|x| (x - 1.0).abs() < 1e-6), "{end:?}");
    }
    // What is asked one by one is what is computed at once, also where a point is wrong in between.
    let objective = objective()?;
    let mut gradient = vec![0.0; 3];
    for point in [vec![0.0; 3], vec![0.5; 3], vec![-0.0; 3], vec![0.0; 3]] {
        let value = objective.evaluate(&point, &mut gradient)?;
        assert!(objective.cost(&vec![1.0]).is_err());
        assert_eq!((objective.cost(&point)?, objective.gradient(&point)?), (value, gradient.clone()));
        assert_eq!((objective.gradient(&point)?, objective.cost(&point)?), (gradient.clone(), value));
    }
    Ok(())
}

/// Residuals of two results, by a pair and by what they do not depend on: `J' r` is the gradient of half of their squares.
#[test]
fn residuals_have_jacobians() -> Result<(), Error> {
    use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
    let params =
        "param x : [n] real\nparam unused : real\nparam y : [n] (real, real)\nparam a : [n] real\nassume n >= 1\n";
    let (first, second) = ("a[i] * x[i] - (fst y[i])^2", "exp(snd y[0]) - x[0]");
    let both = Function::parse(&format!("{params}(gen i < n. {first}, {second})"))?;
    let loss = Function::parse(&format!("{params}((sum i < n. ({first})^2) + ({second})^2) / 2"))?;
    let pairs = Value::pair(Value::vector(vec![1.0, 2.0]), Value::vector(vec![0.0, 1.0]));
    let inputs = inputs! { "x" => [3.0, 4.0], "unused" => 7, "y" => pairs, "a" => [1.0, 10.0] };
    let unknowns = ["y", "x", "unused"];
    let (residuals, objective) = (both.residuals(&inputs, unknowns)?, loss.objective(&inputs, unknowns)?);
    let start = residuals.start();
    assert_eq!(start, objective.start());
    assert_eq!((residuals.pattern().rows(), residuals.pattern().cols()), (3, 7));
    let (mut found, mut entries) = (vec![f64::NAN; 3], vec![f64::NAN; residuals.pattern().len()]);
    for point in [start.clone(), vec![1.0, 0.5, 0.0, -1.0, 2.0, 0.5, -0.5]] {
        residuals.evaluate(&point, &mut found, &mut entries)?;
        let (mut expected, mut product) = (vec![0.0; 7], vec![0.0; 7]);
        let value = objective.evaluate(&point, &mut expected)?;
        for ((i, j), entry) in residuals.pattern().entries().zip(&entries) {
            product[j] += entry * found[i];
        }
        assert!((found.iter().map(|r| r * r).sum::<f64>() / 2.0 - value).abs() < 1e-12 * value);
        assert!(product.iter().zip(&expected).all(|(p, e)| (p - e).abs() < 1e-10), "{product:?} and {expected:?}");
    }
    assert!(residuals.evaluate(&start[1..], &mut found, &mut entries).is_err());
    assert!(residuals.evaluate(&start, &mut found[1..], &mut entries).is_err());
    assert!(residuals.evaluate(&start, &mut found, &mut entries[1..]).is_err());
    assert!(both.residuals(&inputs, ["x", "z"]).is_err());
    let (end, report) = LevenbergMarquardt::new().minimize(residuals);
    assert!(report.termination.was_successful() && report.objective_function < 1e-12, "{report:?}");
    assert_eq!(end.params()[2], 7.0);
    Ok(())
}

#[test]
fn logistic_regression_is_fitted() -> Result<(), Error> {
    let (x, y) = table(40, 5);
    let loss = Function::parse(LOGISTIC)?;
    let objective = loss.objective(&inputs! { "X" => &x, "y" => y, "w" => [0.0; 5] }, ["w"])?;
    let (mut w, mut slope) = (objective.start(), vec![0.0; objective.len()]);
    let before = objective.evaluate(&w, &mut slope)?;
    for _ in 0..200 {
        w.iter_mut().zip(&slope).for_each(|(w, slope)| *w -= 0.5 * slope);
        objective.evaluate(&w, &mut slope)?;
    }
    assert!(objective.evaluate(&w, &mut slope)? < before);
    assert!(slope.iter().all(|slope| slope.abs() < 1e-3), "{slope:?}");
    let end = loss.gradient(["w"])?.eval(&objective.at(&w)?)?;
    for (a, b) in end["grad_w"].as_slice().unwrap().iter().zip(&slope) {
        assert!((a - b).abs() < 1e-15);
    }
    assert_eq!(
        objective.evaluate(&w[1..], &mut slope).unwrap_err().to_string(),
        "point: 5 numbers are expected, found 4"
    );
    let unknown = loss.objective(&objective.at(&w)?, ["v"]).unwrap_err().to_string();
    assert_eq!(unknown, "the program has no parameter `v`");
    Ok(())
}

#[test]
fn functions_are_saved_and_loaded() -> Result<(), Error> {
    let inputs = inputs! { "x" => [0.5, 1.5, -0.25] };
    let f = Function::parse("param x : [n] real\nsum i < n - 1. exp(x[i + 1] * x[i])")?;
    for function in [f.clone(), f.gradient(["x"])?, f.hessian(["x"])?] {
        let text = serde_json::to_string(&function).expect("it can be saved");
        let again: Function = serde_json::from_str(&text).expect("it can be loaded");
        assert_eq!(again.to_string(), function.to_string());
        assert_eq!(again.sparse_results(), function.sparse_results());
        assert_eq!(again.eval(&inputs)?, function.eval(&inputs)?);
    }
    for text in [r#"{"program": "param x : [n] real\nx[n]"}"#, r#"{"statements": {"json": "{}", "sparse": []}}"#, "1"] {
        assert!(serde_json::from_str::<Function>(text).is_err(), "{text}");
    }
    Ok(())
}

#[test]
fn programs_of_several_results_keep_them() -> Result<(), Error> {
    let of_one = Function::parse(
        "param X : csr [n, d] real\nparam w : [d] real\nparam b : real\nsum i < n. ((sum j < d. X[i, j] * w[j]) - b)^2",
    )?;
    let both = of_one.value_and_gradient(["X", "w"])?;
    let x = Csr::from_integers(2, 2, &[0, 1, 2], &[1, 0], vec![1.0, 2.0]).unwrap();
    let inputs = inputs! { "X" => x, "w" => [1.0, 3.0], "b" => 1.0 };
    let table = inputs.get("X").unwrap();
    let expected = both.eval(&inputs)?;
    let names = |results: &Results| results.names().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(names(&expected), ["value", "grad_X", "grad_w"]);
    // Renamed: the same results, and a gradient by a sparse parameter has its pattern.
    let renamed = both
        .rename([("X", "A"), ("w", "v")])?
        .eval(&inputs! { "A" => table.clone(), "v" => [1.0, 3.0], "b" => 1.0 })?;
    assert_eq!(renamed.to_string(), expected.to_string());
    assert!(renamed["grad_X"].as_csr().is_some());
    // Mapped: each has an axis more.
    let each = both.map(["b"], "k")?.eval(&inputs! { "X" => table.clone(), "w" => [1.0, 3.0], "b" => [1.0, 1.0] })?;
    assert_eq!(names(&each), names(&expected));
    assert_eq!(each["value"].as_slice(), Some(&[5.0, 5.0][..]));
    assert_eq!(each["grad_w"].as_slice().map(<[f64]>::len), Some(4));
    // With a program in place of a parameter.
    let two = Function::parse("param s : real\n2 * s")?;
    let inner = both.substitute("b", &two)?.eval(&inputs! { "X" => table.clone(), "w" => [1.0, 3.0], "s" => 0.5 })?;
    assert_eq!(inner.to_string(), expected.to_string());
    Ok(())
}

#[test]
fn errors_say_where_they_are() {
    let text = "param größe : [n] real\nparam y : [n] real\nΣ i < n. größe[i + 1] * z[i]";
    let error = Function::parse(text).unwrap_err();
    let shown = error.to_string();
    let places: Vec<&str> = shown.lines().filter_map(|line| line.split_once(": ")).map(|(place, _)| place).collect();
    assert_eq!(places, ["line 3, column 10", "line 3, column 25"], "{shown}");
    insta::assert_snapshot!(format!("{error}\n{error:#}"));
    // Without the text, which may be long.
    assert!(!format!("{error:?}").contains("Σ i"), "{error:?}");
    // Errors of other kinds read alike in both forms.
    let error = Function::parse("param s : real\ns").and_then(|f| f.gradient(["t"])).unwrap_err();
    assert_eq!(format!("{error:#}"), error.to_string());
}

/// The number of a line below, and what the builder says.
fn refused(b: &'static Builder<'static>, body: iverson::builder::Expr<'static>) -> Vec<(u32, String)> {
    let Err(Error::Program(problems)) = b.finish(body).and_then(|ast| Function::build(&ast)) else {
        panic!("it is refused")
    };
    let place = |problem: &iverson::Diagnostic| match &problem.origin {
        Some(Origin::Rust(location)) => {
            assert_eq!(location.file(), file!());
            assert!(problem.to_string().starts_with(&format!("{location}: ")), "{problem}");
            (location.line(), problem.message.clone())
        }
        other => panic!("{other:?}"),
    };
    problems.iter().map(place).collect()
}

#[test]
#[rustfmt::skip]
fn errors_of_the_builder_say_which_line_of_rust_is_to_blame() {
    let lines = |found: &[(u32, String)], start: u32| found.iter().map(|(line, _)| line - start).collect::<Vec<_>>();
    let new = || -> &'static Builder<'static> { Box::leak(Box::new(Builder::new())) };
    // Accesses, by operator and by method, and what a map or a sum over too few things is given.
    let (b, start) = (new(), line!());
    let n = b.size("n");
    let x = b.param("x", n);
    let body = sum(n, |i| {
        x[i] * 2.0
            + x[i + 1]
            + x.at(i - 1).exp()
    });
    assert_eq!(lines(&refused(b, body), start), [5, 6]);
    // Names and integers, before there is a program.
    let (b, start) = (new(), line!());
    let n = b.size("n");
    let x = b.param("a b", n);
    let body = sum(n, |i| x[i])
        + x[usize::MAX];
    assert_eq!(lines(&refused(b, body), start), [2, 4]);
    // What is declared: twice the same name.
    let (b, start) = (new(), line!());
    let n = b.size("n");
    let x = b.param("x", n);
    let _ = b.scalar("x");
    assert_eq!(lines(&refused(b, x.dot(x)), start), [3]);
    // An index outside of its closure, which is named, and an expression of another builder.
    let (b, start) = (new(), line!());
    let n = b.size("n");
    let x = b.param("x", n);
    let mut outside = None;
    let body = sum(n, |i| {
        outside = Some(x[i].exp());
        x[i]
    });
    assert_eq!(lines(&refused(b, body * outside.unwrap()), start), [4]);
    let (b, start) = (new(), line!());
    let other = new().scalar("s");
    let body = b.scalar("t") * other;
    assert_eq!(lines(&refused(b, body), start), [2]);
    // A sum of an iterator is where its last term is, not in the iterator.
    let (b, start) = (new(), line!());
    let x = b.param("x", 2);
    let terms = [0_i64, 5].map(|k| x[k]);
    let body: iverson::builder::Expr<'_> = terms.iter().sum();
    assert_eq!(lines(&refused(b, body), start), [2]);
    let (b, start) = (new(), line!());
    let x = b.param("x", 2);
    let y = b.param("y", 3);
    let body: iverson::builder::Expr<'_> = [x, y].iter().sum();
    assert_eq!(lines(&refused(b, body), start), [2]);
}

/// Large results leave their memory to the next call, once nobody has any of it.
#[test]
fn memory_of_results_is_used_again() {
    let f = Function::parse("param x : [n] real\n(gen i < n. 2 * x[i], gen i < n. x[i] + 1)").expect("it is right");
    let x = |k: f64| (0..20_000).map(|i| f64::from(i) * k).collect::<Vec<_>>();
    for engine in [Engine::Interpreter, Engine::Native] {
        let kernel = f.kernel(&inputs! { "x" => x(1.0) }).engine(engine).build().expect("it binds");
        let call = |k: f64| kernel.call(&x(k)).expect("it runs");
        let numbers = |value: &Value, leaf: usize| value.leaves()[leaf].data().as_ptr();
        let is_right = |value: &Value, k: f64| {
            let [double, more] = [0, 1].map(|leaf| value.leaves()[leaf].data());
            double.iter().zip(more).zip(x(k)).all(|((a, b), x)| (*a, *b) == (2.0 * x, x + 1.0))
        };
        let first = call(1.0);
        assert!(is_right(&first[0].1, 1.0));
        let places = [0, 1].map(|leaf| numbers(&first[0].1, leaf));
        drop(first);
        let second = call(2.0);
        assert!(is_right(&second[0].1, 2.0));
        assert_eq!([0, 1].map(|leaf| numbers(&second[0].1, leaf)), places);
        // What is held stays as it is: the results, a part of them, a copy, and what was taken out.
        let third = call(3.0);
        assert!(is_right(&second[0].1, 2.0) && is_right(&third[0].1, 3.0));
        let copy = second.clone();
        let leaf = second[0].1.leaves()[1].clone();
        drop(second);
        let [(_, taken)] = third.into_vec().try_into().expect("one result");
        for k in 4..7 {
            assert!(is_right(&call(f64::from(k))[0].1, f64::from(k)));
        }
        assert!(is_right(&copy[0].1, 2.0) && is_right(&taken, 3.0));
        assert_eq!(leaf.data()[3], 7.0);
        assert!(kernel.call(&vec![0.0; 3]).is_err());
        assert!(is_right(&call(8.0)[0].1, 8.0));
    }
}

/// What one writes at first guess, coming from maps, from `f64`, and from loops that add.
#[test]
fn first_guesses() -> Result<(), Error> {
    let f: Function = "param x : [n] real\nsum(x^2)".parse()?;
    let mut inputs: Inputs = [("x", vec![1.0, 2.0])].into_iter().collect();
    assert_eq!(f.eval(&inputs)?["value"].as_scalar(), Some(5.0));
    inputs.insert("x", [3.0, 4.0]);
    let results = f.eval(&inputs)?;
    assert!(results.contains_key("value") && !results.contains_key("x"));
    // A Hessian is sparse, and dense on request.
    let hessian = f.hessian(["x"])?.eval(&inputs)?;
    let (shape, dense) = (hessian["hessian_x_x"].shape(), hessian["hessian_x_x"].to_dense()?);
    assert_eq!((shape, dense.data()), (Some(vec![2, 2]), &[2.0, 0.0, 0.0, 2.0][..]));
    // What `main` prints is what the error says.
    let error = "sum(y)".parse::<Function>().expect_err("there is no y");
    assert_eq!(format!("{error:?}"), error.to_string());

    let b = Builder::new();
    let n = b.index(2);
    let x = b.param("x", [n]);
    let mut total = x.norm() + x.mean() + x.variance();
    total += x.log_softmax()[0] * x.square()[0].recip();
    total -= x.cumsum()[0].ln_1p() + x[0].log() + x[0].exp_m1();
    total *= x[0].signum();
    total /= 2;
    let squares = builder::r#gen(n, |i| x[i].square());
    let built = b.finish(builder::sum(n, |i| squares[i]) + total)?;
    let text = Function::parse(
        "param x : [2] real
         sum(x^2) + (norm(x) + mean(x) + variance(x) + log_softmax(x)[0] / x[0]^2
           - (log1p(x[0]) + log(x[0]) + expm1(x[0]))) * sign(x[0]) / 2",
    )?;
    let [found, expected] =
        [Function::build(&built)?, text].map(|f| f.eval(&inputs).map(|results| results["value"].as_scalar()));
    let (found, expected) = (found?.expect("a number"), expected?.expect("a number"));
    assert!((found - expected).abs() < 1e-12, "{found} and {expected}");
    Ok(())
}

#[test]
fn first_guesses_of_data() -> Result<(), Error> {
    let form = Function::parse("param A : [n, m] real\nparam x : [m] real\nparam s : real\ns * sum(A @ x)")?;
    assert_eq!(form.params().collect::<Vec<_>>(), ["A", "x", "s"]);
    let rows = vec![vec![1.0, 2.0], vec![3.0, 4.0], vec![5.0, 6.0]];
    let half = &0.5;
    for inputs in [
        inputs! { "A" => &rows, "x" => [1, -1], "s" => half },
        inputs! { "A" => rows.clone(), "x" => vec![1, -1], "s" => half },
        inputs! { "A" => [[1, 2], [3, 4], [5, 6]], "x" => [1.0, -1.0], "s" => 0.5 },
        inputs! { "A" => vec![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "x" => [1.0, -1.0], "s" => 0.5 },
    ] {
        assert_eq!(form.eval(&inputs)?["value"].as_scalar(), Some(-1.5));
    }
    let ragged = inputs! { "A" => vec![vec![1.0, 2.0], vec![3.0]], "x" => [1, -1], "s" => 1 };
    let error = form.eval(&ragged).unwrap_err().to_string();
    assert_eq!(error, "A: row 1 has 1 numbers, the first row has 2");
    let both = form.value_and_gradient(["x"])?;
    assert_eq!(both.outputs().collect::<Vec<_>>(), ["value", "grad_x"]);
    let steps = Function::parse("param x : [n] real\nfold t < n, s = 0. s * s + x[t]")?;
    assert_eq!(steps.outputs().collect::<Vec<_>>(), ["value"]);
    Ok(())
}

#[test]
fn matrices_from_triplets() -> Result<(), Error> {
    let matrix = Csr::from_triplets(3, 2, &[(2, 1, 1.0), (0, 1, 2.0), (2, 0, 4.0), (2, 1, 0.5), (0, 1, -2.0)])?;
    assert_eq!((matrix.indptr(), matrix.indices()), (&[0, 1, 1, 3][..], &[1, 0, 1][..]));
    assert_eq!(matrix.data(), [0.0, 4.0, 1.5]);
    assert_eq!(Csr::from_triplets(0, 0, &[])?.data(), [0.0; 0]);
    let messages = [
        (Csr::from_triplets(3, 2, &[(0, 0, 1.0), (3, 0, 1.0)]), "entry 1"),
        (Csr::from_triplets(3, 2, &[(0, 2, 1.0)]), "entry 0"),
    ];
    for (found, entry) in messages {
        assert!(found.unwrap_err().to_string().contains(entry));
    }
    Ok(())
}

#[test]
fn binders_over_several_ranges() {
    builds(
        |b| {
            let (n, m) = (b.size("n"), b.size("m"));
            let (a, x, y) = (b.param("A", [n, m]), b.param("x", n), b.param("y", m));
            sum((n, m - 1), |(i, j)| x[i] * a[(i, j)] * a[(i, j + 1)] * y[j]) + a.sum()
        },
        "param A : [n, m] real\nparam x : [n] real\nparam y : [m] real\n\
         (sum i < n, j < m - 1. x[i] * A[i, j] * A[i, j + 1] * y[j]) + sum(A)",
    );
    builds(
        |b| {
            let (three, n) = (b.index(3), b.size("n"));
            let (u, w) = (b.param("u", three), b.param("w", n));
            builder::max((n, n, three), |(i, j, k)| w[i] * w[j] * u[k])
        },
        "param u : [3] real\nparam w : [n] real\nmax i < n, j < n, k < 3. w[i] * w[j] * u[k]",
    );
    builds(
        |b| {
            let (u, v) = (b.param("u", b.index(3)), b.param("v", b.index(3)));
            u.cross(v)
        },
        "param u : [3] real\nparam v : [3] real\ncross(u, v)",
    );
}

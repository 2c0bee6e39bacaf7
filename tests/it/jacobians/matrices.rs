//! Derivatives as sparse matrices: their blocks as one, their kernels, their memory.

use iverson::ir::diff;
use iverson::ir::loops::Decision;
use iverson::kernel::Engine;
use iverson::tensor::{Inputs, Results, Tensor};
use iverson::{Function, Mode, Request};

use super::in_full;

/// The blocks of several parameters are one matrix, in the order of its rows and columns, whose numbers are those of the blocks.
#[test]
fn blocks_are_one_matrix() {
    let text = "param x : [n, 2] real\nparam y : [n] real\nparam s : real\nmap f : [p] -> [n]\n\
                (gen o < p, e < 2. x[f(o), e] * y[f(o)] * s, gen i < n. y[i]^2)";
    let function = Function::parse(text).unwrap();
    let derived = function.derive(&Request::new(Mode::Jacobian, &["x", "y", "s"])).unwrap();
    let mut given = Inputs::new();
    given.value("x", iverson::tensor::Dense::new(&[3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap());
    given.value("y", iverson::tensor::Value::vector(vec![7.0, 8.0, 9.0]));
    given.value("s", iverson::tensor::Value::scalar(2.0));
    given.relation("f", iverson::tensor::Relation::from_map(&[2], vec![2, 0], 3).unwrap());
    for engine in [Engine::Interpreter, Engine::Native] {
        let matrix = derived.matrix().unwrap().bind(&given, engine).unwrap();
        let (others, jacobian) = matrix.call(&given).unwrap();
        assert!(others.is_empty());
        // Columns: x by rows, y, s.
        let expected = [
            vec![0.0, 0.0, 0.0, 0.0, 18.0, 0.0, 0.0, 0.0, 10.0, 45.0],
            vec![0.0, 0.0, 0.0, 0.0, 0.0, 18.0, 0.0, 0.0, 12.0, 54.0],
            vec![14.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 7.0],
            vec![0.0, 14.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 14.0],
            vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 14.0, 0.0, 0.0, 0.0],
            vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 16.0, 0.0, 0.0],
            vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 18.0, 0.0],
        ];
        assert_eq!(jacobian.to_dense().unwrap().data(), expected.concat());
        assert_eq!(jacobian.data().len(), 15);
        let mut values = vec![f64::NAN; 15];
        let data: [&[f64]; 3] = [&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[7.0, 8.0, 9.0], &[2.0]];
        matrix.call_into(&data, &mut [], &mut values).unwrap();
        assert_eq!(values, jacobian.data());
        assert!(matrix.call_into(&data, &mut [], &mut values[1..]).is_err());
    }
}

/// The obvious call takes memory for the entries of a matrix, not for its places: one of 8000 rows would be 512 MB.
#[test]
fn large_matrices_are_bound_sparse() {
    const N: usize = 8000;
    let chain = "param x : [n] real\nsum i < n - 1. 100 * (x[i + 1] - x[i]^2)^2 + (1 - x[i])^2";
    let residuals = "param x : [n] real\ngen i < n - 1. 10 * (x[i + 1] - x[i]^2)";
    type Derive = fn(&Function, &[&str]) -> iverson::Result<Function>;
    let cases: [(&str, Derive, Mode, usize); 3] = [
        (chain, |f, wrt| f.hessian(wrt), Mode::Hessian, 3 * N - 2),
        (residuals, |f, wrt| f.jacobian(wrt), Mode::Jacobian, 2 * (N - 1)),
        (residuals, |f, wrt| f.gauss_newton(wrt), Mode::GaussNewton, 3 * N - 2),
    ];
    let mut inputs = Inputs::new();
    inputs.value("x", iverson::tensor::Value::vector((0..N).map(|k| 1.0 + (k % 7) as f64 / 8.0).collect()));
    for (text, derive, mode, entries) in cases {
        let function = Function::parse(text).expect("a program");
        let derivative = derive(&function, &["x"]).expect("it derives");
        let derived = function.derive(&Request::new(mode, &["x"])).expect("it derives");
        let matrix = derived.matrix().and_then(|matrix| matrix.bind(&inputs, Engine::Interpreter));
        let (_, expected) = matrix.and_then(|matrix| matrix.call(&inputs)).expect("it runs");
        for engine in [Engine::Interpreter, Engine::Native] {
            let mut found = Results::default();
            let run = || {
                found =
                    derivative.kernel(&inputs).engine(engine).build().and_then(|k| k.call(&inputs)).expect("it runs")
            };
            let peak = crate::allocations::peak_of(run);
            assert!(peak < 64 << 20, "{mode:?}, {engine:?}: {peak} bytes");
            let [(_, value)] = &*found else { panic!("one result") };
            let Tensor::Csr(csr) = value.leaves()[0].as_ref() else { panic!("{mode:?}, {engine:?}: it is not sparse") };
            assert_eq!((csr.rows(), csr.cols(), csr.data().len()), (expected.rows(), N, entries), "{mode:?}");
            assert_eq!(csr, &expected, "{mode:?}, {engine:?}");
        }
    }
}

/// Results with axes of row and column are sparse, however the function was come by; dense ones have the same numbers.
#[test]
fn kernels_of_matrices_are_sparse_unless_told_otherwise() {
    let text = "param x : [n] real\nparam y : [n, 2] real\nparam s : real\n\
                sum i < n. s * x[i]^2 * y[i, 0] + [i >= 1] * x[i - 1] * y[i, 1]^2 * s^2";
    let function = Function::parse(text).expect("a program");
    let request = Request { with_value: true, ..Request::new(Mode::Hessian, &["x", "y", "s"]) };
    let derived = function.derive(&request).expect("it derives").function;
    let sparse = ["hessian_x_x", "hessian_x_y", "hessian_y_x", "hessian_y_y"];
    assert_eq!(derived.sparse_results(), sparse);
    let simplified = derived.simplify().expect("it simplifies");
    assert_eq!(simplified.sparse_results(), sparse);
    let dense = derived.clone().dense();
    let parsed = Function::parse(&derived.to_string()).expect("it parses back");
    let diagonal = function.hessian_diagonal(["x", "y"]).expect("it derives");
    let whole = Request { part: diff::Part::Diagonal(1), ..Request::new(Mode::Hessian, &["y"]) };
    let blocks = function.derive(&whole).expect("it derives").function;
    for other in [&function, &dense, &parsed, &diagonal, &function.gradient(["x"]).expect("it derives")] {
        assert!(other.sparse_results().is_empty(), "{other}");
    }
    assert_eq!(blocks.sparse_results(), ["hessian_y_y"]);
    let mut inputs = Inputs::new();
    inputs.value("x", iverson::tensor::Value::vector(vec![1.0, 2.0, 3.0]));
    inputs.value("y", iverson::tensor::Dense::new(&[3, 2], vec![4.0, 5.0, 6.0, 7.0, 8.0, 9.0]).expect("it fits"));
    inputs.value("s", iverson::tensor::Value::scalar(2.0));
    let kept = |found: &[(String, iverson::tensor::Value)]| -> Vec<String> {
        let sparse = found.iter().filter(|(_, value)| !matches!(value.leaves()[0].as_ref(), Tensor::Dense(_)));
        sparse.map(|(name, _)| name.clone()).collect()
    };
    for engine in [Engine::Interpreter, Engine::Native] {
        let run = |f: &Function| {
            f.kernel(&inputs).engine(engine).build().and_then(|kernel| kernel.call(&inputs)).expect("it runs")
        };
        let expected = run(&dense);
        assert!(kept(&expected).is_empty());
        for (function, sparse) in [(&derived, &sparse[..]), (&simplified, &sparse), (&parsed, &[])] {
            let found = run(function);
            assert_eq!(kept(&found), sparse);
            for ((name, value), (_, expected)) in found.iter().zip(&expected) {
                assert_eq!(in_full(value), in_full(expected), "{name}");
            }
        }
        // The numbers of constants are bound too, and results may be in single precision.
        let constant = derived.kernel(&inputs).constants(["y"]).engine(engine).build().expect("it binds");
        assert_eq!(constant.constants(), ["y"]);
        let found = constant.call(&inputs).expect("it runs");
        assert_eq!(kept(&found), sparse);
        let single = derived
            .kernel(&inputs)
            .results_in_single()
            .engine(engine)
            .build()
            .and_then(|k| k.call(&inputs))
            .expect("it runs");
        for ((found, single), (name, expected)) in found.iter().zip(&single).zip(&expected) {
            assert_eq!(in_full(&found.1), in_full(expected), "{name}");
            assert!(single.1.leaves()[0].precision() == iverson::tensor::Precision::Single, "{name}");
            assert_eq!(kept(std::slice::from_ref(single)), kept(std::slice::from_ref(found)), "{name}");
        }
        let found = run(&blocks);
        assert_eq!(
            (kept(&found), in_full(&found[0].1)),
            (vec!["hessian_y_y".to_owned()], in_full(&run(&blocks.clone().dense())[0].1))
        );
    }
}

/// Sparse results whose entries are written row by row, for small sizes, where rows at the ends have fewer entries or are all there are.
#[test]
fn patterns_that_are_known_row_by_row() {
    let programs = [
        "param x : [n] real\ngen i < n, j < n. [i = j + 1] * x[i] + [i + 1 = j] * x[j] + [i = j] * 2",
        "param x : [n] real\ngen i < n, j < n. [i <= j] * x[i] * x[j]",
        "param x : [n] real\ngen i < n, j < n. [j <= i and i <= j + 2] * x[i]",
        "param x : [n] real\ngen i < n, j < 3. [i >= j and j != 1] * x[i]",
        "param x : [n] real\ngen i < n, k < 2, j < n. [i = j + k] * x[i]",
        "param x : [n] real\nmap f : [n] -> [m]\ngen i < n, k < 2, c < m. [f(i) = c] * x[i]",
        "param x : [n] real\ngen i < n, j < n. [i = 0] * x[j]",
    ];
    for text in programs {
        let function = Function::parse(text).expect("a program");
        let assembly = function.assemble(&["value"]).expect("a tensor");
        let mut decisions = assembly.values().nests.iter().flat_map(|nest| &nest.decisions);
        assert!(
            decisions.any(|decision| matches!(decision, Decision::RowByRow { .. })),
            "{text}: {}",
            assembly.values()
        );
        for n in 1..6 {
            let mut inputs = Inputs::new();
            let x = (0..n).map(|k| 1.0 + k as f64).collect();
            inputs.value("x", iverson::tensor::Value::vector(x));
            if text.contains("map f") {
                let targets = (0..n).map(|k| (2 * k + 1) % 4).collect();
                inputs.relation("f", iverson::tensor::Relation::from_map(&[n], targets, 4).expect("in range"));
            }
            let dense =
                function.kernel(&inputs).engine(Engine::Interpreter).build().and_then(|kernel| kernel.call(&inputs));
            let dense = dense.expect("it runs");
            let expected = dense[0].1.leaves()[0].data().to_vec();
            for engine in [Engine::Interpreter, Engine::Native] {
                let kernel = assembly.bind(&inputs, engine).expect("it binds");
                let found = kernel.call(&inputs).expect("it runs");
                let mut all = vec![0.0; expected.len()];
                let mut put = |place: usize, value: f64| all[place] = value;
                match found[0].1.leaves()[0].as_ref() {
                    Tensor::Csr(csr) => csr.pattern().entries().zip(csr.data()).for_each(|((i, j), x)| {
                        put(i * csr.cols() + j, *x);
                    }),
                    Tensor::Coo(coo) => coo.pattern().tuples().zip(coo.data()).for_each(|(at, x)| {
                        put(at.iter().zip(coo.pattern().shape()).fold(0, |place, (k, n)| place * n + k), *x);
                    }),
                    other => panic!("it is {}: {text}", other.format()),
                }
                assert_eq!(all, expected, "{text}, n = {n}");
            }
        }
        // Who gave the places could give others.
        let refused =
            iverson::kernel::Kernel::bind(assembly.values().clone().into(), &Inputs::new(), Engine::Interpreter);
        assert!(matches!(refused, Err(iverson::Error::Request(_))), "{text}");
    }
}

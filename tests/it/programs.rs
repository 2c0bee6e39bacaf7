//! The small programs with known answers: every stage and the derivative as a snapshot, and the derivative's value against the known
//! one, exactly, on integers.

use iverson::ir::driver::{Stage, lower};
use iverson::ir::reference::{self, Environment, Limits, count::count_tssa};
use iverson::ir::stages::Stages;
use iverson::ir::{surface, tssa};
use iverson::tensor::{Dense, Inputs, Value, bind};
use iverson::{Function, Mode, Request};

use crate::support::{Numbers, compile, evaluate, flat};

/// A program of `tests/programs` and what its derivative is, as a program over the same parameters and the seed `dy`.
struct Known {
    file: &'static str,
    wrt: &'static str,
    /// Shapes of the parameters in order, and sizes, for two sets of sizes.
    sizes: &'static [&'static [(&'static str, i64)]],
    adjoint: &'static str,
}

const KNOWN: &[Known] = &[
    Known {
        file: "e01_trace_of_diagonal",
        wrt: "x",
        sizes: &[&[("n", 4), ("k", 3)], &[("n", 0), ("k", 3)], &[("n", 4), ("k", 0)]],
        adjoint: "gen i < n. k * dy",
    },
    Known {
        file: "e02_row_times_column",
        wrt: "x",
        sizes: &[&[("n", 5)], &[("n", 1)]],
        adjoint: "gen i < n. [i = 0] * 2 * x[0] * dy",
    },
    Known { file: "e03_eye_trace", wrt: "x", sizes: &[&[("n", 6)], &[("n", 0)]], adjoint: "n * dy" },
    Known { file: "e04_dead_copies", wrt: "x", sizes: &[&[]], adjoint: "2 * dy" },
    Known {
        file: "e05_linear_graph",
        wrt: "x,y",
        sizes: &[&[]],
        adjoint: "let b = 6 * snd dy in let a = 5 * snd dy + b in (2 * a + 4 * b + 8 * fst dy, 3 * a)",
    },
    Known {
        file: "e06_sum_with_hole",
        wrt: "x",
        sizes: &[&[("n", 5)], &[("n", 1)]],
        adjoint: "gen i < n. [i != 1] * dy",
    },
    Known {
        file: "e06_unrolled_hole",
        wrt: "x",
        sizes: &[&[("n", 1003)]],
        adjoint: "gen i < n. [i != 1 and i < 1001] * dy",
    },
    Known {
        file: "e07_convolution",
        wrt: "x",
        sizes: &[&[("n", 6), ("m", 3)], &[("n", 1), ("m", 4)]],
        adjoint: "gen k < n + m - 1. sum j < m. [0 <= k + j - m + 1 < n] * dy[k + j - m + 1] * c[j]",
    },
    Known {
        file: "e08_deconvolution",
        wrt: "w",
        sizes: &[&[("n", 6), ("m", 3)], &[("n", 0), ("m", 3)]],
        adjoint: "let r = gen i < n. 2 * ((sum j < m. x[i - j + m - 1] * w[j]) - z[i])
                  in gen j < m. dy * sum i < n. x[i - j + m - 1] * r[i]",
    },
    Known {
        file: "e08_deconvolution",
        wrt: "x",
        sizes: &[&[("n", 6), ("m", 3)], &[("n", 2), ("m", 5)]],
        adjoint: "let r = gen i < n. 2 * ((sum j < m. x[i - j + m - 1] * w[j]) - z[i])
                  in gen k < n + m - 1. dy * sum j < m. [0 <= k + j - m + 1 < n] * r[k + j - m + 1] * w[j]",
    },
    Known {
        file: "e09_batched_deconvolution",
        wrt: "w",
        sizes: &[&[("B", 3), ("n", 5), ("m", 2)], &[("B", 0), ("n", 5), ("m", 2)]],
        adjoint: "let r = gen b < B, i < n. 2 * ((sum j < m. x[b, i - j + m - 1] * w[j]) - z[b, i])
                  in gen j < m. dy * sum b < B, i < n. x[b, i - j + m - 1] * r[b, i]",
    },
    Known {
        file: "e10_quadratic_form",
        wrt: "x",
        sizes: &[&[("n", 4)], &[("n", 0)]],
        adjoint: "gen i < n. dy * sum j < n. (Q[i, j] + Q[j, i]) * x[j]",
    },
    Known {
        file: "e11_scaled_trace",
        wrt: "x",
        sizes: &[&[("n", 5)], &[("n", 0)]],
        adjoint: "gen i < n. 2 * x[i] * B[i, i] * dy",
    },
    Known {
        file: "e12_rosenbrock",
        wrt: "x",
        sizes: &[&[("n", 6)], &[("n", 1)], &[("n", 0)]],
        adjoint: "gen i < n. dy * ([i + 1 < n] * (-400 * x[i] * (x[i + 1] - x[i]^2) - 2 * (1 - x[i]))
                    + [i > 0] * 200 * (x[i] - x[i - 1]^2))",
    },
];

fn text(file: &str) -> String {
    let path = format!("{}/tests/programs/{file}.iv", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Integers for every parameter of a program, at given sizes.
fn integers(program: &tssa::Program, sizes: &[(&str, i64)], numbers: &mut Numbers) -> Inputs {
    let signature = &program.signature;
    let value = |n: &iverson::ir::index::Size| {
        let value = n.evaluate(&mut |v| match v {
            iverson::ir::index::Var::Size(n) => {
                sizes.iter().find(|(name, _)| *name == signature.sizes[*n]).map(|(_, k)| *k)
            }
            _ => None,
        });
        usize::try_from(value.expect("every size has a value").expect("in range")).unwrap_or(0)
    };
    let mut inputs = Inputs::new();
    for (name, n) in sizes {
        inputs.size(*name, *n);
    }
    for param in signature.params.values() {
        let leaves = signature.types.leaves(param.ty).expect("few leaves");
        let leaves = leaves.into_iter().map(|leaf| {
            let shape: Vec<usize> = leaf.dims.iter().map(value).collect();
            let data = numbers.vector(shape.iter().product());
            std::sync::Arc::new(Dense::new(&shape, data).expect("the data fill the shape").into())
        });
        inputs.value(&param.name, Value::new(leaves.collect()));
    }
    inputs
}

#[test]
fn adjoints_have_the_known_values() {
    for known in KNOWN {
        let source = text(known.file);
        let wrt: Vec<&str> = known.wrt.split(',').collect();
        let adjoint = compile(&source).adjoint(&wrt).expect("it has an adjoint");
        // The known derivative takes the parameters of the program and the seed.
        let header: String = surface::read(&source, &[]).expect("it is sound").to_string();
        let header: String = header.lines().take_while(|l| is_declaration(l)).map(|l| format!("{l}\n")).collect();
        let seed = adjoint.to_string();
        let seed = seed.lines().find(|line| line.starts_with("param dy ")).unwrap_or("param dy : real").to_owned();
        let expected = compile(&format!("{header}{seed}\n{}\n", known.adjoint));
        for sizes in known.sizes {
            let inputs = integers(adjoint.tensor_ssa(), sizes, &mut Numbers::new(7, true));
            let run = |function: &Function| -> Vec<f64> {
                let results = reference::evaluate(function.tensor_ssa(), &inputs).expect("it runs");
                results.iter().flat_map(|(_, v)| v.leaves().iter().flat_map(|t| t.data().to_vec())).collect()
            };
            assert_eq!(run(&adjoint), run(&expected), "{} by {} at {sizes:?}:\n{adjoint}", known.file, known.wrt);
        }
    }
}

fn is_declaration(line: &str) -> bool {
    ["param ", "rel ", "map ", "assume "].iter().any(|word| line.starts_with(word))
}

/// Long texts keep their first and last lines.
fn elided(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= 120 {
        return text.to_owned();
    }
    let cut = |line: &&str| line.chars().take(200).collect::<String>();
    let (head, tail) = (lines[..8].iter().map(cut), lines[lines.len() - 8..].iter().map(cut));
    let middle = format!(".. {} lines ..", lines.len() - 16);
    head.chain([middle]).chain(tail).collect::<Vec<_>>().join("\n")
}

/// A derivative as the rules of differentiation give it.
fn raw(function: &Function, mode: Mode, wrt: &[&str]) -> Function {
    let derived = function.derive(&Request::new(mode, wrt).raw());
    derived.expect("it has a derivative").function
}

/// What the simplifier makes of each program and its derivatives.
#[test]
fn simplified_programs() {
    let mut files: Vec<&str> = KNOWN.iter().map(|known| known.file).collect();
    files.dedup();
    // The sum of a thousand terms is beyond any budget; how far it comes says nothing.
    files.retain(|file| *file != "e06_unrolled_hole");
    let mut shown = String::new();
    for file in files {
        let function = compile(&text(file));
        let simplified = function.simplify().expect("it is simplified");
        shown.push_str(&format!("== {file}\n{}\n", elided(&body(&simplified))));
        for known in KNOWN.iter().filter(|known| known.file == file) {
            let wrt: Vec<&str> = known.wrt.split(',').collect();
            for (what, mode) in [("forward", Mode::Forward), ("adjoint", Mode::Adjoint)] {
                let request = Request::new(mode, &wrt);
                let derived = function.derive(&request).expect("it has a derivative").function;
                shown.push_str(&format!("-- {what} by {}\n{}\n", known.wrt, elided(&body(&derived))));
            }
        }
    }
    insta::assert_snapshot!(shown);
}

/// A program without its declarations.
fn body(function: &Function) -> String {
    crate::support::declarations(&function.to_string()).1
}

#[test]
fn stages_and_derivatives() {
    let mut files: Vec<&str> = KNOWN.iter().map(|known| known.file).collect();
    files.dedup();
    for file in files {
        let source = surface::read(&text(file), &[]).expect("it is sound");
        let mut shown = format!("== surface\n{}", elided(&source.to_string()));
        let mut stages = Stages::observed(|name, program| {
            shown.push_str(&format!("\n== {name}\n{}", elided(&program.to_string())));
        });
        lower(&source, Stage::TensorSsa, &mut stages).expect("it compiles");
        drop(stages);
        let function = compile(&text(file));
        for known in KNOWN.iter().filter(|known| known.file == file) {
            let wrt: Vec<&str> = known.wrt.split(',').collect();
            for (what, mode) in [("forward", Mode::Forward), ("adjoint", Mode::Adjoint)] {
                let derivative = raw(&function, mode, &wrt);
                let (ssa, term) = (derivative.tensor_ssa().to_string(), derivative.to_string());
                shown.push_str(&format!("\n== {what} by {}, tensor-ssa\n{}", known.wrt, elided(&ssa)));
                shown.push_str(&format!("\n== {what} by {}\n{}", known.wrt, elided(&term)));
            }
        }
        insta::assert_snapshot!(file, shown);
    }
}

/// E5: the transposed graph has as many additions as the graph.
#[test]
fn linear_graph_keeps_its_additions() {
    let function = compile(&text("e05_linear_graph"));
    let adjoint = raw(&function, Mode::Adjoint, &["x", "y"]);
    let simplified = function.adjoint(["x", "y"]).expect("it has an adjoint");
    let additions = |function: &Function| {
        let inputs = integers(function.tensor_ssa(), &[], &mut Numbers::new(1, true));
        reference::count(function.tensor_ssa(), &inputs).expect("it runs").additions
    };
    assert_eq!(additions(&function), 3);
    assert_eq!(additions(&adjoint), 3);
    assert!(additions(&simplified) <= 3, "{simplified}");
}

/// E4: what is dead in the program adds nothing to the adjoint.
#[test]
fn dead_copies_cost_nothing() {
    let adjoint = compile(&text("e04_dead_copies")).adjoint(["x"]).expect("it has an adjoint");
    let inputs = integers(adjoint.tensor_ssa(), &[], &mut Numbers::new(1, true));
    let counts = reference::count(adjoint.tensor_ssa(), &inputs).expect("it runs");
    assert_eq!((counts.additions, counts.multiplications), (0, 1), "{adjoint}");
}

/// E6: the adjoint of the sum with a hole, written out, adds nothing either.
#[test]
fn unrolled_hole_adds_nothing() {
    let adjoint = compile(&text("e06_unrolled_hole")).adjoint(["x"]).expect("it has an adjoint");
    let inputs = integers(adjoint.tensor_ssa(), &[("n", 1003)], &mut Numbers::new(1, true));
    let counts = reference::count(adjoint.tensor_ssa(), &inputs).expect("it runs");
    assert_eq!(counts.additions, 0);
}

/// Probes a program that is linear in a parameter with every one-hot vector: the columns of its matrix.
fn probe(program: &tssa::Program, environment: &Environment<f64>, tangent: usize, n: usize) -> Vec<Vec<f64>> {
    (0..n)
        .map(|j| {
            let mut at = environment.clone();
            let one_hot = (0..n).map(|i| f64::from(u8::from(i == j))).collect();
            at.params[tangent] = vec![iverson::ir::reference::Leaf::dense(vec![n as u64], one_hot).expect("a vector")];
            flat(&evaluate(program, &at).expect("it runs"))
        })
        .collect()
}

/// E10 and E12: one-hot probing of the forward derivative of the gradient gives the Hessian.
#[test]
fn hessians_by_probing() {
    let n = 5;
    let hessian = |file: &str| {
        let gradient = compile(&text(file)).gradient(["x"]).expect("it has a gradient");
        let request = Request::new(Mode::Forward, &["x"]);
        let hvp = gradient.derive(&request).expect("a gradient has a derivative").function;
        let program = hvp.tensor_ssa().clone();
        let inputs = integers(&program, &[("n", n as i64)], &mut Numbers::new(3, true));
        let bindings = bind(&program.signature, &inputs).expect("the inputs fit");
        let environment = Environment::from_bindings(&bindings).expect("the inputs fit");
        let tangent = program.signature.params.len() - 1;
        let params: Vec<Vec<f64>> = environment.params.iter().map(|leaves| flat(leaves)).collect();
        (probe(&program, &environment, tangent, n), params)
    };
    let (columns, params) = hessian("e10_quadratic_form");
    let q = &params[1];
    for i in 0..n {
        for j in 0..n {
            assert_eq!(columns[j][i], q[i * n + j] + q[j * n + i], "Q + Q' at ({i}, {j})");
        }
    }
    let (columns, params) = hessian("e12_rosenbrock");
    let x = &params[0];
    for i in 0..n {
        for j in 0..n {
            let inner = if i < n - 1 { 1200.0 * x[i] * x[i] - 400.0 * x[i + 1] + 2.0 } else { 0.0 };
            let expected = match i.abs_diff(j) {
                0 => inner + if i > 0 { 200.0 } else { 0.0 },
                1 => -400.0 * x[i.min(j)],
                _ => 0.0,
            };
            assert_eq!(columns[j][i], expected, "the tri-diagonal Hessian at ({i}, {j})");
        }
    }
}

/// E7: probing the convolution with the one-hot vector at 2 gives the kernel, moved there.
#[test]
fn convolution_of_a_one_hot_signal() {
    let forward = compile(&text("e07_convolution")).forward(["x"]).expect("it has a forward derivative");
    let program = forward.tensor_ssa();
    let (n, m) = (6, 3);
    let inputs = integers(program, &[("n", n), ("m", m)], &mut Numbers::new(5, true));
    let bindings = bind(&program.signature, &inputs).expect("the inputs fit");
    let environment = Environment::from_bindings(&bindings).expect("the inputs fit");
    let c = flat(&environment.params[1]);
    let columns = probe(program, &environment, 2, (n + m - 1) as usize);
    // dx[i - j + m - 1] = 1 where i - j + m - 1 = 2, so j = i + m - 3.
    let expected: Vec<f64> =
        (0..n).map(|i| usize::try_from(i + m - 3).ok().and_then(|j| c.get(j)).copied().unwrap_or(0.0)).collect();
    assert_eq!(columns[2], expected);
}

/// The pathological programs of the paper: what the adjoint costs, over what the program costs, does not grow with the size.
#[test]
fn costs_stay_proportional() {
    for (file, sizes) in [
        ("e01_trace_of_diagonal", &["n", "k"][..]),
        ("e02_row_times_column", &["n"]),
        ("e03_eye_trace", &["n"]),
        ("e06_sum_with_hole", &["n"]),
        ("e11_scaled_trace", &["n"]),
        ("e12_rosenbrock", &["n"]),
    ] {
        let function = compile(&text(file));
        let gradient = function.value_and_gradient(["x"]).expect("it has a gradient");
        let ratio = |n: i64| {
            let sizes: Vec<(&str, i64)> = sizes.iter().map(|name| (*name, n)).collect();
            let cost = |function: &Function| {
                let inputs = integers(function.tensor_ssa(), &sizes, &mut Numbers::new(1, true));
                let bindings = bind(&function.tensor_ssa().signature, &inputs).expect("the inputs fit");
                let environment = Environment::from_bindings(&bindings).expect("the inputs fit");
                let counts = count_tssa(function.tensor_ssa(), &environment, Limits::default()).expect("it runs");
                counts.additions + counts.multiplications + counts.functions + n as u128
            };
            cost(&gradient) as f64 / cost(&function) as f64
        };
        let (small, large) = (ratio(8), ratio(32));
        assert!(large <= 5.0 && large <= 1.3 * small, "{file}: the ratio grows from {small} to {large}");
    }
}

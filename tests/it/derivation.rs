//! The derivation of an adjoint: a numbered list of rules, every step of which keeps the meaning.

use iverson::Function;
use iverson::driver::{Mode, Request};
use iverson::reference::Environment;
use iverson::stages::Stages;
use iverson::surface;
use iverson::tensor::{Dense, Inputs, Value, bind};
use iverson::tssa::Rhs;

use crate::generate;
use crate::support::{Numbers, compile, evaluate, flat, inputs};

fn derive(function: &Function, wrt: &[&str]) -> iverson::diff::Derivation {
    let request = Request { derivation: true, ..Request::new(Mode::Adjoint, wrt) };
    let derived = function.derive(&request, &mut Stages::new()).expect("it has an adjoint");
    derived.derivation.expect("a derivation was asked for")
}

#[test]
fn derivation_of_the_deconvolution_loss() {
    let path = format!("{}/tests/programs/e08_deconvolution.iv", env!("CARGO_MANIFEST_DIR"));
    let function = compile(&std::fs::read_to_string(path).expect("the program is there"));
    insta::assert_snapshot!(derive(&function, &["w"]).to_string());
}

/// Elements at places that exclude each other have one adjoint between them, whatever else is added.
#[test]
fn elements_of_one_parameter() {
    let program = "param x : [n] real\nparam A : [n, n] real\nassume n >= 4\n\
                   x[0] + 2 * x[2] + x[3] + A[1, 2] * x[1] + A[2, 1] * x[1]";
    insta::assert_snapshot!(derive(&compile(program), &["x", "A"]).to_string());
    let request = Request::new(Mode::Gradient, &["x", "A"]).raw();
    let gradient = compile(program).derive(&request, &mut Stages::new()).expect("it has a gradient").function;
    let additions = gradient.tensor_ssa().stmts.values().filter(|stmt| matches!(stmt.rhs, Rhs::Add(_))).count();
    // Two terms have x[1]; x[0] and x[3] have one adjoint, x[1] and x[2] one each; A has one.
    assert_eq!(additions, 3, "{}", gradient.tensor_ssa());
    let n = 4_usize;
    let x: Vec<f64> = (0..n).map(|i| (i + 2) as f64).collect();
    let a: Vec<f64> = (0..n * n).map(|i| (3 * i + 1) as f64).collect();
    let mut inputs = Inputs::new();
    inputs.value("x", Value::vector(x.clone()));
    inputs.value("A", Dense::new(&[n, n], a.clone()).expect("it has as many elements"));
    let bindings = bind(&gradient.tensor_ssa().signature, &inputs).expect("the inputs fit");
    let at = Environment::from_bindings(&bindings).expect("the inputs fit");
    let found = flat(&evaluate(gradient.tensor_ssa(), &at).expect("it has a value"));
    let mut expected = vec![1.0, a[n + 2] + a[2 * n + 1], 2.0, 1.0];
    expected.extend((0..n * n).map(|at| if at == n + 2 || at == 2 * n + 1 { x[1] } else { 0.0 }));
    assert_eq!(found, expected);
}

/// What every form means is the same number: the desugared inner products (Fig. 14) agree exactly on integers.
#[test]
fn every_step_keeps_the_meaning() {
    let mut steps = 0;
    for seed in (0..160).filter(|seed| seed % 4 != 3) {
        let generated = generate::program(seed, false);
        let source = surface::read(&generated.text, &[]).expect("generated programs are sound");
        let names: Vec<String> = source.signature.params.values().map(|p| p.name.clone()).collect();
        let function = Function::compile(source, &mut Stages::new()).expect("it compiles");
        if function.tensor_ssa().stmts.len() > 40 {
            continue;
        }
        let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
        let derivation = derive(&function, &wrt);
        let mut numbers = Numbers::new(seed, true);
        let given = inputs(&generated, &mut numbers);
        let bindings = bind(&function.tensor_ssa().signature, &given).expect("the inputs fit");
        let environment = Environment::from_bindings(&bindings).expect("the inputs fit");
        let mut first: Option<(f64, &'static str)> = None;
        let mut drawn: std::collections::BTreeMap<String, Vec<iverson::reference::Leaf<f64>>> = Default::default();
        for step in &derivation.steps {
            let program = step.form.desugar().expect("a form desugars");
            let mut at = environment.clone();
            for (id, param) in program.signature.params.iter().skip(environment.params.len()) {
                let leaves = program.signature.types.leaves(param.ty).expect("few leaves");
                let random = drawn.entry(param.name.clone()).or_insert_with(|| {
                    // A tangent has the places of its parameter, a seed those of the output.
                    let like = param.name.strip_prefix('d').and_then(|x| names.iter().position(|n| n == x));
                    match like.filter(|_| param.name != "dy") {
                        Some(k) => crate::support::like(&environment.params[k], &mut numbers),
                        None => leaves
                            .iter()
                            .map(|leaf| {
                                let dims = environment.extents(&leaf.dims).expect("sizes are bound");
                                let len = dims.iter().product::<u64>() as usize;
                                iverson::reference::Leaf::dense(dims, numbers.vector(len)).expect("it fits")
                            })
                            .collect(),
                    }
                });
                assert_eq!(id.0 as usize, at.params.len());
                at.params.push(random.clone());
            }
            let value = flat(&evaluate(&program, &at).expect("a form evaluates"))[0];
            if !value.is_finite() || value.abs() > 1e12 {
                break;
            }
            match first {
                None => first = Some((value, step.rule)),
                Some((expected, _)) => {
                    assert_eq!(value, expected, "seed {seed}, rule {}:\n{}\n{}", step.rule, generated.text, derivation);
                }
            }
            steps += 1;
        }
    }
    assert!(steps > 500, "only {steps} steps were judged");
}

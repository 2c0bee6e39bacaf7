//! Functions of what is read through a map: computed once for each target in use, with the same bits, and never for more. Gradients by what
//! is read through a map: the rows in use alone. What a pass does with maps it does with no other relation.

use iverson::Function;
use iverson::ir::loops::Decision;
use iverson::ir::stages::{Stages, check};
use iverson::ir::ty::RelationKind;
use iverson::ir::{reference, tssa};
use iverson::kernel::Engine;
use iverson::tensor::{Dense, Inputs, Relation, Tensor, Value};

use crate::jacobians::energy;
use crate::judge::{Expected, Ways};
use crate::kernels::{fitting, judge, judge_assembled};
use crate::support::{Numbers, compile};

/// The program with relations in place of some of its maps: sources have any number of targets.
fn over_relations(function: &Function, names: &[&str]) -> Function {
    let program = function.tensor_ssa();
    let mut signature = (*program.signature).clone();
    let ids: Vec<_> = signature.relations.ids().collect();
    for id in ids {
        let relation = &mut signature.relations[id];
        if relation.kind == RelationKind::Map && names.contains(&relation.name.as_str()) {
            relation.kind = RelationKind::Free;
        }
    }
    let program = tssa::Program { signature: signature.into(), ..program.clone() };
    check("relations in place of maps", &program).expect("Tensor-SSA applies no map");
    Function::from_tensor_ssa(program)
}

fn shares(function: &Function) -> bool {
    let loops = function.loops(&mut Stages::new()).expect("it lowers");
    loops.nests.iter().flat_map(|nest| &nest.decisions).any(|decision| matches!(decision, Decision::Targets { .. }))
}

/// Each observation and its target, and numbers of the targets: two are not used, and have no logarithm.
fn inputs() -> Inputs {
    let mut inputs = Inputs::new();
    inputs
        .value("a", Value::vector(vec![0.5, -1.0, 2.0, 3.25, -7.0, 0.125]))
        .value("b", Value::vector(vec![1.5, f64::NAN, 0.75, 9.0, f64::INFINITY, 2.0]))
        .value("w", Value::vector((0..11).map(|k| f64::from(k) / 3.0 - 1.0).collect()))
        .relation("m", Relation::from_map(&[11], vec![3, 0, 0, 2, 5, 3, 3, 0, 2, 2, 5], 6).expect("in range"));
    inputs
}

const DECLARED: &str = "param a : [n] real\nparam b : [n] real\nparam w : [p] real\nmap m : [p] -> [n]\n";

fn call(function: &Function, inputs: &Inputs, engine: Engine) -> Vec<u64> {
    let kernel = function.kernel(inputs).as_written().engine(engine).build().expect("it binds");
    kernel.call(inputs).expect("it runs");
    // A second call finds the memory of the first.
    let values = kernel.call(inputs).expect("it runs");
    values
        .iter()
        .flat_map(|(_, value)| value.leaves()[0].data().iter().map(|x| x.to_bits()).collect::<Vec<_>>())
        .collect()
}

/// A program in which nothing is shared, since the guard chooses one observation at a time, gives the expected numbers.
#[test]
fn the_same_bits_from_fewer_applications() {
    let bodies = [
        "ln(a[m(o)])",
        "sin(a[m(o)]) * cos(b[m(o)])",
        "exp(sin(a[m(o)] * b[m(o)]) + 2)",
        "pow(a[m(o)], b[m(o)])",
        "ln(a[m(o)] / b[m(o)])",
        "exp(2 * a[m(o)]) + sin(w[o])",
    ];
    for body in bodies {
        let function = Function::parse(&format!("{DECLARED}gen o < p. {body}")).expect("a program");
        assert!(shares(&function), "{body}: {}", function.loops(&mut Stages::new()).expect("it lowers").explained());
        let inputs = inputs();
        let found = call(&function, &inputs, Engine::Interpreter);
        assert_eq!(found, call(&function, &inputs, Engine::Native), "{body}");
        for (o, x) in found.iter().enumerate() {
            let one = format!("{DECLARED}gen o < p. [o = {o}] * ({body})");
            let one = Function::parse(&format!("{one}\nassume p >= 11")).or_else(|_| Function::parse(&one));
            let one = one.expect("a program");
            assert!(!shares(&one), "{body}");
            assert_eq!(f64::from_bits(call(&one, &inputs, Engine::Interpreter)[o]).to_bits(), *x, "{body}, {o}");
        }
    }
}

/// Where it could be more work, or take more room, nothing is shared.
#[test]
fn never_for_more() {
    let alone = [
        // One observation counts.
        "gen o < p. [o = 3] * exp(a[m(o)])",
        "sum o < p. [o = 3] * exp(a[m(o)])",
        // A pair of indices of which a diagonal counts.
        "let x = gen o < p, q < p. exp(a[m(o)] * w[q]) in gen o < p. x[o, o]",
        // As many targets as a number says, which no parameter has.
        "gen o < p. exp(m(o))",
        // Another observation is in it.
        "gen o < p. exp(a[m(o)] * w[o])",
        // It takes no longer than a load.
        "gen o < p. a[m(o)]^2",
    ];
    for body in alone {
        let Ok(function) = Function::parse(&format!("{DECLARED}{body}")) else { panic!("{body}") };
        assert!(!shares(&function), "{body}: {}", function.loops(&mut Stages::new()).expect("it lowers").explained());
    }
}

/// Many targets, of which few are in use: a call takes no longer than there are observations.
#[test]
fn targets_that_nobody_reads_cost_nothing() {
    for text in [
        "param a : [n] real\nmap m : [p] -> [n]\ngen o < p. exp(a[m(o)])",
        "param a : [n] real\nmap m : [p, q] -> [n]\ngen o < p, u < q. exp(a[m(o, u)])",
        "param a : [n] real\nmap m : [p, q] -> [n]\ngen u < q, k < 3, o < p. exp(k * a[m(o, u)])",
    ] {
        let function = Function::parse(text).expect("a program");
        let loops = function.loops(&mut Stages::new()).expect("it lowers").to_string();
        assert!(shares(&function) && !loops.contains("= 0\n") && !loops.contains("in 0 .. n"), "{loops}");
    }
}

/// Maps of several sources, each index of a source wherever it is in a tensor: the numbers of the reference, on both engines.
#[test]
fn sources_of_several_indices() {
    let declared = "param a : [n] real\nparam E : [n, d] real\nparam h : [d] real\nparam s : [p, q] real\nparam w : [q] real\n\
                    map m : [p, q] -> [n]\n";
    let bodies = [
        "sum o < p, u < q. s[o, u] * exp(a[m(o, u)])",
        "let x = gen u < q, o < p. tanh(a[m(o, u)]) in sum o < p, u < q. s[o, u] * x[u, o]",
        "let x = gen u < q, k < d, o < p. sin(E[m(o, u), k]) in sum o < p, u < q, k < d. s[o, u] * h[k] * x[u, k, o]",
        "sum o < p. (sum u < q. w[u] * tanh(sum k < d. E[m(o, u), k] * h[k]))^2",
        "sum o < p, k < d. (sum u < q. s[o, u] * E[m(o, u), k])^2 * h[k]",
        "let x = gen o < p, u < q. exp(a[m(o, u)]) * w[u] in sum o < p, u < q. x[o, u]^2",
    ];
    for body in bodies {
        let function = compile(&format!("{declared}{body}"));
        let given = ["a", "E", "h", "s", "w"];
        let wrt = given.into_iter().filter(|name| function.tensor_ssa().signature.param(name).is_some());
        let gradient = function.value_and_gradient(wrt.collect::<Vec<_>>()).expect("one real");
        for function in [function, gradient] {
            for size in [0, 1, 4] {
                let inputs = fitting(&function, size, &mut Numbers::new(size as u64, true));
                let expected = Expected::of(function.tensor_ssa(), &inputs).expect("it is evaluated");
                judge(&function, &expected, &inputs, Ways::Raw, false)
                    .unwrap_or_else(|e| panic!("{body}, {size}: {e}"));
            }
        }
    }
}

/// A factor that may be infinite where a target has no source does not reach the result.
#[test]
fn grouped_sums_leave_targets_out_that_are_not_in_use() {
    let text = "param E : [n, d] real\nparam t : [p] real\nmap m : [p] -> [n]\ngen k < d. sum o < p. E[m(o), k] * t[o]";
    let function = Function::parse(text).expect("a program");
    assert!(shares(&function));
    let mut inputs = Inputs::new();
    inputs.value("E", Dense::new(&[3, 2], vec![1.0, 2.0, f64::INFINITY, f64::NAN, 3.0, 5.0]).expect("it fits"));
    inputs.value("t", Value::vector(vec![2.0, 4.0, 8.0]));
    inputs.relation("m", Relation::from_map(&[3], vec![2, 0, 2], 3).expect("in range"));
    for engine in [Engine::Interpreter, Engine::Native] {
        assert_eq!(call(&function, &inputs, engine), [34.0f64, 58.0].map(f64::to_bits));
    }
}

/// A derivative shares what its program does.
#[test]
fn gradients_share() {
    let text = format!("{DECLARED}sum o < p. w[o] * exp(a[m(o)])");
    let gradient = Function::parse(&text).and_then(|loss| loss.value_and_gradient(["w"])).expect("a gradient");
    assert!(shares(&gradient), "{gradient}");
    let inputs = inputs();
    assert_eq!(call(&gradient, &inputs, Engine::Interpreter), call(&gradient, &inputs, Engine::Native));
}

/// Gradients by what is read through a map have the rows of its targets in use, each whole, written without a test.
#[test]
fn gradients_of_rows_in_use() {
    let declared = "param E : [n, d] real\nparam t : [p, d] real\nmap m : [p] -> [n]\n";
    let bodies = [
        "sum o < p, q < d. (E[m(o), q] - t[o, q])^2",
        "sum o < p, q < d - 1. E[m(o), q]^2 * E[m(o), q + 1] * t[o, q]",
        "sum o < p, q < d. [q = 0 or o >= 3] * E[m(o), q]^2",
    ];
    for (k, body) in bodies.into_iter().enumerate() {
        let gradient =
            Function::parse(&format!("{declared}{body}")).and_then(|f| f.gradient(["E"])).expect("it has one");
        let assembly = gradient.assemble(&["grad_E"]).expect("it can be sparse");
        let nests = assembly.values().explained();
        assert_eq!(nests.contains("row by row"), k == 0, "{nests}");
        for (n, p, d) in [(6, 11, 5), (9, 3, 1), (4, 0, 3), (70, 40, 67)] {
            let mut inputs = Inputs::new();
            for (name, rows, seed) in [("E", n, 1), ("t", p, 2)] {
                let data = Numbers::new(seed, true).vector(rows * d);
                inputs.value(name, Dense::new(&[rows, d], data).expect("it fits"));
            }
            let targets: Vec<usize> = (0..p).map(|o| o * o * 3 % n).collect();
            inputs.relation("m", Relation::from_map(&[p], targets, n).expect("in range"));
            let expected = reference::evaluate(gradient.tensor_ssa(), &inputs).expect("it runs");
            for engine in [Engine::Interpreter, Engine::Native] {
                let found = assembly.bind(&inputs, engine).and_then(|kernel| kernel.call(&inputs)).expect("it runs");
                let Tensor::Csr(found) = found[0].1.leaves()[0].as_ref() else { panic!("no matrix") };
                let dense = found.to_dense().expect("small");
                assert_eq!(dense.data(), expected[0].1.leaves()[0].data(), "{body}, {n} {p} {d}, {engine:?}");
            }
        }
    }
}

/// Relations in place of maps: programs that follow maps, and their gradients, as kernels, on relations under which a source has no target, one,
/// or several.
#[test]
fn relations_are_no_maps() {
    let declared = "param a : [n] real\nparam b : [n] real\nparam E : [n, n] real\nparam w : [p] real\nparam S : csr [n, p] real\n\
                    map m : [p] -> [n]\nmap g : [n] -> [n]\n";
    let bodies = [
        "gen o < p. ln(a[m(o)])",
        "gen o < p. sin(a[m(o)]) * cos(b[m(o)])",
        "gen o < p. exp(2 * a[m(o)]) + sin(w[o])",
        "sum o < p. w[o] * exp(a[m(o)] * b[m(o)])",
        "gen o < p. sin(a[g(m(o))])",
        "gen o < p. exp(sum i < n. [g(m(o)) = i and i < 2] * a[i])",
        "gen o < p, i < n. exp(sum c < n. [m(o) = c and g(i) = c] * a[c])",
        "gen o < p. exp(sum c < n. [m(o) = c and c = 1] * a[c])",
        "gen i < n. sum o < p. [m(o) = i] * w[o]",
        "gen i < n. [exists o < p. m(o) = i] * exp(a[i])",
        "sum o < p, q < n. (E[m(o), q] - 1)^2",
        "gen o < p, k < 2, i < n. [m(o) = i] * w[o]",
        "gen o < p, i < n. [m(o) = i] * w[o] * a[i]",
        "sum i < n, o < p. S[i, o] * a[m(o)]",
        "sum i < n, o < p. [m(o) = i] * S[i, o]^2",
        "max o < p + 1. [o < p] * a[m(o)]",
    ];
    let mut exact = 0;
    for body in bodies {
        let program = compile(&format!("{declared}{body}"));
        let loss = match body.starts_with("sum") || body.starts_with("max") {
            true => program.clone(),
            false => Function::from_tensor_ssa(energy(program.tensor_ssa()).expect("small")),
        };
        let wrt: Vec<&str> = ["a", "b", "E", "w", "S"]
            .into_iter()
            .filter(|name| loss.tensor_ssa().signature.param(name).is_some())
            .collect();
        let gradient = loss.gradient(&wrt).expect("one real");
        let over = |names: &[&str]| {
            let own = over_relations(&loss, names).gradient(&wrt).expect("one real");
            [over_relations(&program, names), over_relations(&gradient, names), own]
        };
        let some = [["m"].as_slice(), &["g"], &["m", "g"]];
        let follows = |names: &&[&str]| names.iter().all(|name| body.contains(&format!("{name}(")));
        for function in some.into_iter().filter(follows).flat_map(over) {
            for size in [1, 3, 5] {
                let inputs = fitting(&function, size, &mut Numbers::new(size as u64, true));
                let expected = Expected::of(function.tensor_ssa(), &inputs).expect("it is evaluated");
                let judged = judge(&function, &expected, &inputs, Ways::Raw, false);
                let tally = judged.unwrap_or_else(|complaint| panic!("{body}, {size}: {complaint}"));
                exact += tally.exact + tally.bounded;
                let judged = judge_assembled(&function, &expected, &inputs);
                judged.unwrap_or_else(|complaint| panic!("{body}, {size}, assembled: {complaint}"));
            }
        }
    }
    assert!(exact > 2000, "{exact} numbers");
}

/// Tests of the target of a known source are made of the target: nothing is added up to see whether there is one.
#[test]
fn tests_of_targets() {
    let programs = [
        "param x : [n] real\nmap y : [n] -> [5]\nsum i < n. if y(i) >= 1 then x[i]^2 else x[i]",
        "param x : [n] real\nparam t : [4] real\nmap y : [n] -> [5]
         sum i < n. (if y(i) < 4 then t[y(i)] - x[i] else 1) * (if y(i) >= 1 then t[y(i) - 1] - x[i] else 2)",
        "param x : [n] real\nmap y : [n] -> [5]\nmap z : [n] -> [5]\nsum i < n, j < n. [y(i) <= z(j) or y(i) = 3] * x[i] * x[j]",
        "param x : [n] real\nmap y : [n] -> [5]\nsum i < n. [i + 1 < n and (exists c < 5. c = y(i + 1) and 2 <= c)] * x[i]^3",
        "param x : [n, n] real\nmap y : [n, n] -> [5]\nsum i < n. [not (y(i, i) < 2)] * x[i, i]^2",
    ];
    for text in programs {
        let value = compile(text);
        let loops = value.loops(&mut Stages::new()).expect("it lowers").to_string();
        assert!(!loops.contains("if r"), "{text}\n{loops}");
        for function in [value.value_and_gradient(["x"]).expect("one real result"), value] {
            for size in [1, 4, 9] {
                let inputs = fitting(&function, size, &mut Numbers::new(size as u64, true));
                let expected = Expected::of(function.tensor_ssa(), &inputs).expect("it is evaluated");
                judge(&function, &expected, &inputs, Ways::Raw, false)
                    .unwrap_or_else(|e| panic!("{text}, {size}: {e}"));
            }
        }
    }
}

//! Programs with indices that are found at run time and with sum types: values and gradients by closed forms and by plain loops.

use std::path::PathBuf;

use iverson::Function;
use iverson::inputs;
use iverson::kernel::Engine;
use iverson::tensor::{Inputs, Relation};

use super::programs::with_types;
use super::{close, gradient, inputs, judge, program, random, usual};

/// A program without loops.
fn straight(name: &str) -> Function {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/types").join(format!("{name}.iv"));
    let text = std::fs::read_to_string(&path).expect("the program is there");
    Function::parse(&text).unwrap_or_else(|error| panic!("{name}: {error:#}"))
}

fn results(function: &Function, inputs: &Inputs, engine: Engine) -> Vec<f64> {
    let kernel = function.kernel(inputs).engine(engine).build().expect("it is bound");
    let results = kernel.call(inputs).expect("it runs");
    let leaves = results.iter().flat_map(|(_, value)| value.leaves().to_vec());
    leaves.flat_map(|leaf| leaf.lexicographic().into_owned()).collect()
}

/// The value and the gradients by some parameters, of both engines, and of what is printed.
fn value_and_gradients(function: &Function, inputs: &Inputs, wrt: &[&str]) -> Vec<f64> {
    let both = function.value_and_gradient(wrt).expect("it has a gradient");
    let found = results(&both, inputs, Engine::Interpreter);
    let bits = |numbers: &[f64]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
    assert_eq!(bits(&found), bits(&results(&both, inputs, Engine::Native)), "{function}");
    let printed = both.to_string();
    let again = Function::parse(&printed).unwrap_or_else(|error| panic!("{printed}\n{error:#}"));
    for (a, b) in found.iter().zip(results(&again, inputs, Engine::Interpreter)) {
        close(&printed, b, *a, 1e-13);
    }
    found
}

fn map(targets: &[usize], below: usize) -> Relation {
    Relation::from_map(&[targets.len()], targets.to_vec(), below).expect("in range")
}

/// Gradients are on the pattern of the tag: elsewhere they are 0, and so are the numbers there that nobody means.
#[test]
#[allow(clippy::approx_constant, reason = "the program has this number")]
fn shapes_and_their_prices() {
    let function = straight("shapes");
    let (tag, circle) = ([0, 2, 1, 0, 1], [1.5, f64::NAN, 7.0, 0.5, f64::INFINITY]);
    let (width, height) = ([f64::NAN, 3.0, 2.0, 1.0, 0.5], [9.0, f64::NAN, 3.0, 1.0, 4.0]);
    let price = 2.0;
    let mut inputs = inputs! {
        "s_circle" => circle.to_vec(), "s_box_0" => width.to_vec(), "s_box_1" => height.to_vec(), "price" => price
    };
    inputs.relation("s_tag", map(&tag, 3));
    let found = value_and_gradients(&function, &inputs, &["s_circle", "s_box_0", "s_box_1", "price"]);
    let cost = |a: f64| price * a + a * a;
    let by_area = |a: f64| price + 2.0 * a;
    let areas: Vec<f64> = (0..5)
        .map(|i| match tag[i] {
            0 => 3.14 * circle[i] * circle[i],
            1 => width[i] * height[i],
            _ => 0.0,
        })
        .collect();
    let where_tag = |k: usize, f: &dyn Fn(usize) -> f64| (0..5).map(|i| if tag[i] == k { f(i) } else { 0.0 }).collect();
    let by_circle: Vec<f64> = where_tag(0, &|i| by_area(areas[i]) * 2.0 * 3.14 * circle[i]);
    let by_width: Vec<f64> = where_tag(1, &|i| by_area(areas[i]) * height[i]);
    let by_height: Vec<f64> = where_tag(1, &|i| by_area(areas[i]) * width[i]);
    let value: f64 = areas.iter().map(|a| cost(*a)).sum();
    let expected = [vec![value], by_circle, by_width, by_height, vec![areas.iter().sum()]].concat();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        close("shapes", *found, expected, 1e-14);
    }
}

#[test]
fn arms_that_are_not_taken_do_not_matter() {
    let function = straight("never_taken");
    let mut inputs = inputs! {
        "s_log" => vec![0.0, 2.0, -1.0], "s_ratio_0" => vec![1.0, 0.0, f64::NAN], "s_ratio_1" => vec![4.0, 0.0, 0.0]
    };
    inputs.relation("s_tag", map(&[1, 0, 2], 3));
    let found = value_and_gradients(&function, &inputs, &["s_log", "s_ratio_0", "s_ratio_1"]);
    let expected = [0.25 + 2f64.ln(), 0.0, 0.5, 0.0, 0.25, 0.0, 0.0, -1.0 / 16.0, 0.0, 0.0];
    for (found, expected) in found.iter().zip(expected) {
        close("arms", *found, expected, 1e-14);
    }
}

#[test]
fn points_and_their_nearest_centres() {
    let function = straight("nearest_centre");
    let (n, m, d) = (9, 4, 2);
    let p: Vec<f64> = (0..n * d).map(|k| (1.0 + 0.7 * k as f64).sin()).collect();
    let c: Vec<f64> = (0..m * d).map(|k| (4.0 + 0.9 * k as f64).cos()).collect();
    let tensor = |shape: [usize; 2], data: &[f64]| iverson::tensor::Dense::new(&shape, data.to_vec()).expect("it fits");
    let mut inputs = Inputs::new();
    inputs.value("p", tensor([n, d], &p));
    inputs.value("c", tensor([m, d], &c));
    let found = value_and_gradients(&function, &inputs, &["p", "c"]);
    let (mut value, mut by_p, mut by_c) = (0.0, vec![0.0; n * d], vec![0.0; m * d]);
    for i in 0..n {
        let distance = |j: usize| (0..d).map(|a| (p[i * d + a] - c[j * d + a]).powi(2)).sum::<f64>();
        let nearest = (0..m).fold(0, |best, j| if distance(j) < distance(best) { j } else { best });
        value += distance(nearest);
        for a in 0..d {
            let gap = 2.0 * (p[i * d + a] - c[nearest * d + a]);
            by_p[i * d + a] += gap;
            by_c[nearest * d + a] -= gap;
        }
    }
    for (found, expected) in found.iter().zip([vec![value], by_p, by_c].concat()) {
        close("nearest", *found, expected, 1e-13);
    }
}

#[test]
fn an_automaton_over_a_text() {
    let function = program("automaton");
    let (states, letters, steps) = (5, 3, 11);
    let next: Vec<usize> = (0..states * letters).map(|k| (7 * k + 3 * (k / 4)) % states).collect();
    let text: Vec<usize> = (0..steps).map(|t| (t * t + t / 3) % letters).collect();
    let sizes = [("V", states as i64), ("A", letters as i64), ("T", steps as i64)];
    let inputs = inputs(&function, &sizes, &usual, &[("next", &next), ("text", &text)]);
    let w: Vec<f64> = (0..states).map(|k| usual(0, k)).collect();
    let (mut k, mut sum, mut by_w) = (0, 0.0, vec![0.0; states]);
    for letter in text {
        sum += w[k];
        by_w[k] += 1.0;
        k = next[k * letters + letter];
    }
    by_w[k] += 2.0 * w[k];
    close("automaton", judge("automaton", &function, &inputs).0, sum + w[k] * w[k], 1e-13);
    for (found, expected) in gradient(&function, &inputs, "w").iter().zip(by_w) {
        close("by w", *found, expected, 1e-13);
    }
}

/// The score of the path that is decoded is the largest of all scores, and so are their derivatives.
#[test]
fn the_path_of_viterbi() {
    let function = program("viterbi_path");
    let inputs = inputs(&function, &[("T", 5), ("K", 3)], &usual, &[]);
    let (value, along) = judge("viterbi_path", &function, &inputs);
    close("value", value, 1.8228770250899076, 1e-13);
    close("derivative", along, -4.906655322085365, 1e-12);
}

#[test]
fn a_walk_around() {
    let function = program("walk");
    for (n, steps) in [(1, 4), (3, 8), (5, 2), (2, 0)] {
        let inputs = inputs(&function, &[("n", n), ("T", steps)], &usual, &[]);
        let x: Vec<f64> = (0..n as usize).map(|k| usual(0, k)).collect();
        let (mut k, mut sum, mut by_x) = (0, 0.0, vec![0.0; x.len()]);
        for t in 0..steps as usize {
            let (a, beside) = (usual(1, t), k + 1 < x.len());
            let other = if beside { x[k + 1] } else { 1.0 };
            sum += a * x[k] * x[k] * other;
            by_x[k] += a * 2.0 * x[k] * other;
            if beside {
                by_x[k + 1] += a * x[k] * x[k];
            }
            k = if beside { k + 1 } else { 0 };
        }
        close("walk", judge("walk", &function, &inputs).0, sum, 1e-13);
        for (found, expected) in gradient(&function, &inputs, "x").iter().zip(by_x) {
            close("by x", *found, expected, 1e-12);
        }
    }
}

#[test]
fn a_decision_list() {
    let function = program("decision_list");
    let tag = [0, 0, 1, 0, 1];
    let inputs = inputs(&function, &[("n", 5)], &usual, &[("r_tag", &tag)]);
    let numbers = |param: usize| (0..5).map(|k| usual(param, k)).collect::<Vec<f64>>();
    let (bounds, factors, values, x) = (numbers(0), numbers(1), numbers(2), usual(3, 0));
    let rule = (0..5).find(|i| tag[*i] == 1 || x < bounds[*i]).expect("one of them holds");
    let expected = if tag[rule] == 1 { values[rule].powi(2) } else { factors[rule] * x };
    close("decision list", judge("decision_list", &function, &inputs).0, expected, 1e-14);
    let by_factor = gradient(&function, &inputs, "r_below_1");
    let by_value = gradient(&function, &inputs, "r_otherwise");
    for i in 0..5 {
        close("by factor", by_factor[i], if i == rule && tag[i] == 0 { x } else { 0.0 }, 1e-14);
        close("by value", by_value[i], if i == rule && tag[i] == 1 { 2.0 * values[i] } else { 0.0 }, 1e-14);
    }
}

#[test]
fn a_figure_as_a_state() {
    let function = program("figures");
    for steps in 0..5 {
        let inputs = inputs(&function, &[("T", steps)], &usual, &[]);
        let x = usual(0, 0);
        enum Figure {
            Circle(f64),
            Box(f64, f64),
            Nothing,
        }
        let next = |figure: Figure, t: usize| match figure {
            Figure::Circle(r) => Figure::Box(r, r + usual(1, t)),
            Figure::Box(a, b) if a < b => Figure::Circle(a * b),
            Figure::Box(..) | Figure::Nothing => Figure::Nothing,
        };
        let value = match (0..steps as usize).fold(Figure::Circle(x), next) {
            Figure::Circle(r) => r.sin(),
            Figure::Box(a, b) => a / (1.0 + b * b),
            Figure::Nothing => 0.0,
        };
        close("figure", judge("figures", &function, &inputs).0, value, 1e-14);
    }
}

/// A step that reads one of many numbers takes one iteration, and so does the way back: the iterations are those of steps and numbers, not of their product.
#[test]
fn an_element_is_one_access() {
    for name in ["automaton", "walk"] {
        let function = program(name);
        let wrt = if name == "walk" { ["x"] } else { ["w"] };
        let gradient = function.value_and_gradient(wrt).expect("it has a gradient");
        for (function, most) in [(function, 40.0), (gradient, 200.0)] {
            let at = |size: i64, steps: i64| {
                let sizes = [("V", size), ("A", 2), ("n", size), ("T", steps)];
                let inputs = inputs(&function, &sizes, &usual, &[]);
                match function.kernel(&inputs).engine(Engine::Interpreter).limit(0).build() {
                    Err(iverson::Error::Limit { found, .. }) => found as f64,
                    other => panic!("{other:?}"),
                }
            };
            let found = at(4096, 512);
            assert!(found < most * (4096.0 + 512.0), "{name}: {found} iterations");
            let ratio = at(4096, 2048) / found;
            assert!(ratio < 4.1, "{name}: {ratio} times the iterations for four times the steps");
        }
    }
}

/// Over a prime field programs have the values that they have without indices that are found, and sum types.
#[test]
fn typed_parts_have_the_values_of_what_they_hold() {
    let mut written = 0;
    for seed in 0..200 {
        let (plain, drawn) = with_types(seed, false);
        written += drawn.text.matches("case ").count() + drawn.text.matches(": index").count();
        let value = |text: &str| random::value_modulo_a_prime(text, &plain, seed);
        assert_eq!(value(&drawn.text), value(&plain.text), "{}\n{}", plain.text, drawn.text);
    }
    assert!(written > 300, "{written} parts");
}

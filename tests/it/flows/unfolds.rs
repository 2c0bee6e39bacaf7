//! All states of loops that data end, and ranges that end at the number of their steps: values by plain loops, derivatives by each other.

use iverson::Function;
use iverson::builder::{Builder, sum, unfold};
use iverson::ir::flow::Stmt;
use iverson::kernel::Engine;
use iverson::tensor::Inputs;

use super::{close, gradient, inputs, judge, program, usual};

fn parsed(text: &str) -> Function {
    Function::parse(text).unwrap_or_else(|error| panic!("{text}: {error:#}"))
}

/// All numbers of a kernel's results.
fn results(function: &Function, inputs: &Inputs, engine: Engine) -> Vec<f64> {
    let kernel = function.kernel(inputs).engine(engine).build().expect("it is bound");
    let results = kernel.call(inputs).expect("it runs");
    let leaves = results.iter().flat_map(|(_, value)| value.leaves().to_vec());
    leaves.flat_map(|leaf| leaf.lexicographic().into_owned()).collect()
}

/// Both engines give the same bits, of the value and of the gradient by `x`; the value is this.
fn engines(text: &str, inputs: &Inputs) -> f64 {
    let both = parsed(text).value_and_gradient(["x"]).expect("it has a gradient");
    let bits = |engine| results(&both, inputs, engine).iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
    assert_eq!(bits(Engine::Interpreter), bits(Engine::Native), "{text}");
    results(&parsed(text), inputs, Engine::Interpreter)[0]
}

/// The states of `s + 1 / s` from `x` on while they are below `end`, and how many steps were made of `most`.
fn grown(x: f64, end: f64, most: usize) -> (usize, Vec<f64>) {
    let (mut k, mut path) = (0, vec![x]);
    for t in 0..most {
        let s = path[t];
        let goes_on = s < end;
        k += usize::from(goes_on);
        path.push(if goes_on { s + 1.0 / s } else { s });
    }
    (k, path)
}

const GROWN: &str = "param x : real\nsize n\nlet k, path = unfold s = x while s < 4, at most n. s + 1 / s\n";

/// No step, some, and all that there may be.
#[test]
fn at_all_limits() {
    for (x, n) in [(1.0, 0), (5.0, 0), (5.0, 4), (1.0, 1), (1.0, 4), (1.0, 6), (1.0, 7), (1.0, 20), (-2.0, 3)] {
        let at = iverson::inputs! { "x" => x };
        let mut at: Inputs = at;
        at.size("n", n);
        let (k, path) = grown(x, 4.0, n as usize);
        for (text, expected) in [
            ("k", k as f64),
            ("path[k]", path[k]),
            ("k + path[k]^2 * path[0]", k as f64 + path[k].powi(2) * path[0]),
            ("sum t < n + 1. path[t]", path.iter().sum::<f64>()),
            ("sum t < k. (path[t + 1] - path[t])^2", (0..k).map(|t| (path[t + 1] - path[t]).powi(2)).sum()),
            ("sum t <= k. path[t]", path[..=k].iter().sum()),
        ] {
            let text = format!("{GROWN}{text} + 0 * x");
            let function = parsed(&text);
            close(&text, judge(&text, &function, &at).0, expected, 1e-13);
            close(&text, engines(&text, &at), expected, 1e-13);
        }
    }
}

/// It is the scan that one would write for it, to the bit.
#[test]
fn as_by_hand() {
    let by_hand =
        "param x : real\nsize n\nlet h = scan t < n, (s, k) = (x, 0). if s < 4 then (s + 1 / s, k + 1) else (s, k)\n";
    for (of_unfold, of_scan) in [
        ("sum t < k. path[t]^2", "sum t < n. [t < snd h[n]] * (fst h[t])^2"),
        ("path", "gen t < n + 1. fst h[t]"),
        ("path[k] * k", "fst h[n] * snd h[n]"),
    ] {
        for (x, n) in [(1.0, 9), (1.0, 3), (9.0, 5)] {
            let mut at = iverson::inputs! { "x" => x };
            at.size("n", n);
            let [a, b] = [format!("{GROWN}{of_unfold}"), format!("{by_hand}{of_scan}")].map(|text| {
                let function = parsed(&text);
                let bits = results(&function, &at, Engine::Interpreter).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                (bits, parsed(&function.to_string()).to_string() == function.to_string())
            });
            assert_eq!(a.0, b.0, "{of_unfold}");
            assert!(a.1, "{of_unfold} is read as it is printed");
        }
    }
}

/// Every reduction may go over the steps.
#[test]
fn ranges_that_end_at_it() {
    for (x, n) in [(1.0, 9), (1.0, 4), (3.5, 9), (5.0, 2)] {
        let (k, path) = grown(x, 4.0, n as usize);
        let differences: Vec<f64> = (0..k).map(|t| path[t + 1] - path[t]).collect();
        let mut at = iverson::inputs! { "x" => x };
        at.size("n", n);
        let largest = path[..k].iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = differences.iter().copied().fold(f64::INFINITY, f64::min);
        let down = (0..k).rev().fold(x, |r, t| r / 2.0 + path[t]);
        for (text, expected) in [
            ("max t <= k. path[t]", path[..=k].iter().copied().fold(f64::NEG_INFINITY, f64::max)),
            ("if 0 < k then max t < k. path[t] else 7", if k > 0 { largest } else { 7.0 }),
            ("if 0 < k then min t < k. path[t + 1] - path[t] else 7", if k > 0 { least } else { 7.0 }),
            ("prod t < k. path[t] / 2", path[..k].iter().map(|s| s / 2.0).product()),
            ("fold t < k, r = x. r / 2 + path[t]", (0..k).fold(x, |r, t| r / 2.0 + path[t])),
            ("fold t < k down, r = x. r / 2 + path[t]", down),
            ("fst (fold t < k, (r, q) = (x, 1). (r / 2 + q, q * path[t]))", {
                (0..k).fold((x, 1.0), |(r, q), t| (r / 2.0 + q, q * path[t])).0
            }),
            ("if 0 < k then mean t < k. path[t] else 7", {
                if k > 0 { path[..k].iter().sum::<f64>() / k as f64 } else { 7.0 }
            }),
            ("[0 < k] * path[argmin t < k. path[t + 1] - path[t]]", {
                let at = (0..k).fold(0, |best, t| if differences[t] < differences[best] { t } else { best });
                if k > 0 { path[at] } else { 0.0 }
            }),
            ("[exists t < k. path[t] > 2.5]", f64::from(u8::from(path[..k].iter().any(|s| *s > 2.5)))),
            ("[not (exists t < k. path[t] > 2.5)] * x", if path[..k].iter().any(|s| *s > 2.5) { 0.0 } else { x }),
            ("sum t < k, u < k. [t < u] * path[t] * path[u]", {
                (0..k).flat_map(|t| (t + 1..k).map(move |u| (t, u))).map(|(t, u)| path[t] * path[u]).sum()
            }),
            ("sum(gen t < n. [t < k] * path[t])", path[..k].iter().sum()),
        ] {
            let text = format!("{GROWN}{text} + 0 * x");
            close(&text, judge(&text, &parsed(&text), &at).0, expected, 1e-13);
            close(&text, engines(&text, &at), expected, 1e-13);
        }
    }
}

/// A range may end at any index that is found, and a definition may take one.
#[test]
fn at_indices_of_other_kinds() {
    for (text, expected) in [
        ("let k = argmax(x) in sum t < k. x[t]", 1.0),
        ("let k = argmax(x) in sum t <= k. x[t]", 5.0),
        ("let k = argmax(x) in let j = k + 1 in max t < j. -x[t]", -1.0),
        ("let k : index n = (if x[0] > 0 then 2 else 1) in sum t < k. x[t]", 5.0),
        ("def head(v : [n] real, k : index n) = sum t < k. v[t]\nhead(x, argmax(x)) + head(x, 2)", 6.0),
        ("snd (fold t < n, (j : index n, s) = (0, 0). (t, s + (sum i <= j. x[i])))", 1.0 + 1.0 + 5.0),
    ] {
        let text = format!("param x : [n] real\nassume n >= 3\n{text}");
        close(&text, engines(&text, &iverson::inputs! { "x" => vec![1.0, 4.0, 2.0] }), expected, 1e-14);
    }
}

/// A comparison with NaN does not hold, so the loop ends.
#[test]
fn not_a_number() {
    let text =
        "param x : real\nlet k, path = unfold s = x while s < 100, at most 20. if s > 10 then sqrt(-s) else s * 2\n";
    for (x, k) in [(1.0, 5.0), (f64::NAN, 0.0), (f64::INFINITY, 0.0), (f64::NEG_INFINITY, 20.0)] {
        let at = iverson::inputs! { "x" => x };
        let function = parsed(&format!("{text}k"));
        for engine in [Engine::Interpreter, Engine::Native] {
            assert_eq!(results(&function, &at, engine), [k], "{x}");
        }
    }
    let masked = parsed(&format!("{text}sum t < k. path[t]"));
    let at = iverson::inputs! { "x" => 1.0 };
    assert_eq!(results(&masked, &at, Engine::Interpreter), [31.0]);
}

/// Every place of a binder has its own number of steps.
#[test]
fn below_binders() {
    let x = [1.0, 3.9, 5.0, 0.25];
    let orbit = "let k, path = unfold s = x[i] while s < 4, at most 9. s + 1 / s";
    let orbits = x.map(|x| grown(x, 4.0, 9));
    let each = |f: &dyn Fn(usize, &[f64]) -> f64| orbits.iter().map(|(k, path)| f(*k, path)).sum::<f64>();
    let squares = |k: usize, path: &[f64]| (0..k).map(|t| (path[t + 1] - path[t]).powi(2)).sum();
    let largest = |k: usize, path: &[f64]| path[..=k].iter().copied().fold(f64::MIN, f64::max);
    let whole = (0..7).map(|t| x.iter().sum::<f64>() * 1.5_f64.powi(t)).take_while(|sum| *sum < 60.0).sum();
    for (text, expected) in [
        ("sum i < m. ORBIT in path[k]^2", each(&|k, path| path[k].powi(2))),
        ("sum i < m. ORBIT in sum t < k. (path[t + 1] - path[t])^2", each(&squares)),
        ("sum(gen i < m. ORBIT in k * path[k])", each(&|k, path| k as f64 * path[k])),
        ("sum i < m, j <= i. [i = j] * (ORBIT in path[k])", each(&|k, path| path[k])),
        (
            "sum i < m. [x[i] < 3] * (ORBIT in path[k] - 4)",
            each(&|k, path| if path[0] < 3.0 { path[k] - 4.0 } else { 0.0 }),
        ),
        (
            "let c : [m] index 10 = gen i < m. fst (unfold s = x[i] while s < 4, at most 9. s + 1 / s) in sum i < m. c[i] * x[i]",
            each(&|k, path| k as f64 * path[0]),
        ),
        (
            "fold i < m, r = 0. ORBIT in r / 2 + (max t <= k. path[t])",
            orbits.iter().fold(0.0, |r, (k, path)| r / 2.0 + largest(*k, path)),
        ),
        (
            "let k, path = unfold s = x while sum(s) < 40, at most 9. gen i < m. s[i] * 1.5 in sum t <= k, i < m. path[t, i]",
            whole,
        ),
    ] {
        let text = format!("param x : [m] real\n{}", text.replace("ORBIT", orbit));
        let function = parsed(&text);
        let at = inputs(&function, &[("m", 4)], &|_, k| x[k], &[]);
        close(&text, judge(&text, &function, &at).0, expected, 1e-13);
        close(&text, engines(&text, &at), expected, 1e-13);
    }
}

/// States of several parts, also with indices among them, and one `unfold` in another.
#[test]
fn states_of_parts() {
    for text in [
        "let k, path = unfold (s, v) = (x[0], x) while s < 3, at most 8. (s + 0.4, gen i < n. v[i] * s) in (sum t < k. fst path[t]) + (sum t <= k, i < n. (snd path[t])[i])",
        "let k, path = unfold (s, (r, q)) = (x[0], (1, x[1])) while s + r < 9, at most 8. (s + r, (r + 1, q * s)) in (snd snd path[k]) * (sum t < k. fst snd path[t])",
        "let (k, path) = unfold s = x[0] while s < 3, at most 8. s + 0.7 in k * path[k]",
        "let k, path = unfold (j : index n, s) = (0, x[0]) while s < 2, at most 8. (if j + 1 < n then j + 1 else 0, s + x[j]^2 + 0.3) in x[fst path[k]] * (snd path[k])",
        "let k, path = unfold j : index n = 0 while x[j] < 0.6, at most 8. if j + 1 < n then j + 1 else 0 in sum t <= k. x[path[t]]",
        "let k, p = unfold s = x[0] while s < 3, at most 8. (let j, q = unfold r = s while r < 2, at most 5. r + 0.5 in s + q[j] / 4 + j / 8 + 0.1) in sum t < k. p[t] * p[t + 1]",
        "let k, p = unfold s = x[0] while s < 3, at most 8. s + 0.5\nlet j, q = unfold s = p[k] while s > 0, at most 7. s - 0.25\np[k] * q[j]",
        "snd (fold t < 3, (s, r) = (x[0], 0). let k, p = unfold q = s while q < 2, at most 6. q * 1.5 + 0.2 in (s / 2 + x[1], r + (sum u < k. p[u])))",
    ] {
        let text = format!("param x : [n] real\nassume n >= 3\n{text}");
        let function = parsed(&text);
        let at = inputs(&function, &[("n", 3)], &|p, k| usual(p, k).abs() + 0.1, &[]);
        judge(&text, &function, &at);
        engines(&text, &at);
    }
}

/// However many steps there may be, no more are made than the data ask for, and the path is filled up behind them.
#[test]
fn steps_that_may_be_are_not_made() {
    for inside in ["path[k]^2 / k", "(sum t < k. path[t + 1] / (1 + path[t])) + path[n] + path[n - 1]"] {
        let text = format!("{GROWN}{inside}").replace("size n\n", "size n\nassume n >= 1\n");
        let function = parsed(&text);
        let flow = function.flow().expect("it has loops");
        let is_early = |stmt: &Stmt| if let Stmt::Scan(scan) = stmt { Some(scan.early.is_some()) } else { None };
        assert_eq!(flow.body.iter().filter_map(is_early).collect::<Vec<_>>(), [true], "{text}");
        let both = function.value_and_gradient(["x"]).expect("it has a gradient");
        let found = [9, 30_000].map(|n| {
            let mut at = iverson::inputs! { "x" => 1.0 };
            at.size("n", n);
            results(&both, &at, Engine::Interpreter)
        });
        for (a, b) in found[0].iter().zip(&found[1]) {
            close(&text, *b, *a, 1e-14);
        }
    }
    let source = parsed(&format!("{GROWN}path[k]")).value_and_gradient(["x"]).expect("it has a gradient");
    assert!(source.rust_source().expect("it is written").contains("break;"));
}

/// Programs made in Rust, with a value that is used below ranges which end at the number of steps, and beside them.
#[test]
fn made_in_rust() {
    let b = Builder::new();
    let x = b.scalar("x");
    let grown = unfold(
        x,
        20,
        |s| s.lt(4.0),
        |s| s + 1.0 / s,
        |k, path| {
            let e = (x / 2.0).exp();
            sum(k, |t| path[t] * e) + sum(k, |t| (path[t + 1] - e) * path[k]) + e * path[0]
        },
    );
    let made = Function::build(&b.finish(grown).expect("it is complete")).expect("it is right");
    let written = parsed(
        "param x : real\nlet k, path = unfold s = x while s < 4, at most 20. s + 1 / s\nlet e = exp(x / 2)\n\
         (sum t < k. path[t] * e) + (sum t < k. (path[t + 1] - e) * path[k]) + e * path[0]",
    );
    for x in [1.0, 9.0] {
        let at = iverson::inputs! { "x" => x };
        let [a, b] = [&made, &written].map(|function| {
            let both = function.value_and_gradient(["x"]).expect("it has a gradient");
            results(&both, &at, Engine::Interpreter)
        });
        a.iter().zip(b).for_each(|(a, b)| close("made in Rust", *a, b, 1e-13));
    }
}

/// By small differences, where the number of steps does not change.
#[test]
fn as_by_differences() {
    let text = "param x : real\nlet k, path = unfold (s, v) = (x, 1) while s < 6, at most 40. (s + v * 0.3, v + sin(s) / 4)\n\
                (sum t < k. sin(fst path[t + 1]) * (snd path[t])) + (fst path[k])^2 / (1 + k)";
    let function = parsed(text);
    let value = |x: f64| results(&function, &iverson::inputs! { "x" => x }, Engine::Interpreter)[0];
    for x in [0.3, 1.1, 2.0, 6.5] {
        let found = gradient(&function, &iverson::inputs! { "x" => x }, "x")[0];
        close("by x", found, (value(x + 1e-6) - value(x - 1e-6)) / 2e-6, 1e-7);
    }
}

#[test]
fn a_ball_that_comes_to_rest() {
    let function = program("bounces");
    let inputs = inputs(&function, &[], &|p, _| [2.0, 9.81, 0.7][p], &[]);
    let (value, along) = judge("bounces", &function, &inputs);
    close("value", value, 19.587243965695215, 1e-13);
    close("derivative", along, -14.073623630925992, 1e-12);
    for (name, expected) in [("h", 4.896810991423804), ("g", -0.998330477354496), ("e", 44.289738007725546)] {
        close(name, gradient(&function, &inputs, name)[0], expected, 1e-12);
    }
}

/// Seventy steps, of which one is taken back.
#[test]
fn steps_of_lengths_that_errors_decide() {
    let function = program("adaptive");
    let inputs = inputs(&function, &[], &|p, k| [[1.2, 0.3], [0.4; 2], [1e-3; 2]][p][k], &[]);
    let (value, along) = judge("adaptive", &function, &inputs);
    close("value", value, 1.950544708025494, 1e-12);
    close("derivative", along, 5.5162571384831445, 1e-10);
    let by_start = gradient(&function, &inputs, "y0");
    close("by y0", by_start[0], 2.1320451789445554, 1e-10);
    close("by y0", by_start[1], 2.6990260896508143, 1e-10);
    close("by c", gradient(&function, &inputs, "c")[0], 0.5514677256011119, 1e-10);
    close("by the tolerance", gradient(&function, &inputs, "tolerance")[0], -1.2201812500901383, 1e-10);
}

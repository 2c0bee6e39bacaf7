//! Texts of many statements, each in terms of the one before: the work from a text to loops, and of printing, grows as the text does.
//!
//! `cargo test --test it chains -- --nocapture` prints the exponents; `IVERSON_CASE` picks those whose name contains it, `IVERSON_LENGTHS` is how
//! many statements there are.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;

use iverson::ir::base::work;
use iverson::ir::simplify::{self, Stop};
use iverson::ir::stages::Stages;
use iverson::ir::surface;
use iverson::kernel::Engine;
use iverson::{Function, Mode, Request, inputs};

use crate::support::setting;

/// What a chain starts with, a statement of it, with the one before as `@` and what is left of its length as `#`, and what is made of the last.
struct Family {
    name: &'static str,
    start: &'static str,
    step: &'static str,
    end: &'static str,
}

const FAMILIES: [Family; 8] = [
    Family {
        name: "guarded shift",
        start: "param x : [n] real",
        step: "gen i < n. [1 <= i] * sin(@[i - 1]) * @[i]",
        end: "sum i < n. @[i]^2",
    },
    Family {
        name: "shifts from both sides",
        start: "param x : [n] real",
        step: "gen i < n. [1 <= i and i <= n - 2] * sin(@[i - 1]) * @[i + 1]",
        end: "sum i < n. @[i]^2",
    },
    Family {
        name: "windows",
        start: "param x : [n + #] real",
        step: "gen i < n + #. sin(@[i]) + sin(@[i + 1]) * @[i + 2]",
        end: "sum i < n. @[i]^2",
    },
    Family {
        name: "map",
        start: "param x : [n] real\nmap m : [n] -> [n]",
        step: "gen i < n. sin(@[m(i)]) + @[i]",
        end: "sum i < n. @[i]",
    },
    Family {
        name: "stencil",
        start: "param x : [n] real",
        step: "gen i < n. [i >= 1] * @[i - 1] + [i <= n - 2] * @[i + 1] + sin(@[i])",
        end: "sum i < n. @[i]^2",
    },
    Family {
        name: "matrix product",
        start: "param x : [n, n] real\nparam A : [n, n] real",
        step: "gen i < n, k < n. relu(sum j < n. A[i, j] * @[j, k])",
        end: "sum i < n, k < n. @[i, k]",
    },
    Family {
        name: "column sums",
        start: "param x : [n] real\nparam A : [n, n] real",
        step: "gen i < n. tanh(sum j < n. A[j, i] * @[j])",
        end: "sum i < n. @[i]^2",
    },
    Family {
        name: "entries",
        start: "param x : [n] real\nrel E : [n, n]",
        step: "gen i < n. sin(sum j < n. [E(j, i)] * @[j])",
        end: "sum i < n. @[i]^2",
    },
];

impl Family {
    fn text(&self, length: usize) -> String {
        let filled =
            |part: &str, before: &str, left: usize| part.replace('@', before).replace('#', &(2 * left).to_string());
        let mut text = filled(self.start, "", length);
        let mut before = "x".to_owned();
        for k in 0..length {
            let _ = write!(text, "\nlet y{k} = {}", filled(self.step, &before, length - k - 1));
            before = format!("y{k}");
        }
        text + "\n" + &filled(self.end, &before, 0)
    }
}

/// The units of work of each pass, by name.
fn units(text: &str) -> BTreeMap<&'static str, u64> {
    let (units, last) = (RefCell::new(BTreeMap::new()), RefCell::new(work::spent()));
    let count = |pass: &'static str| {
        let before = last.replace(work::spent());
        *units.borrow_mut().entry(pass).or_default() += work::spent() - before;
    };
    let read = surface::read(text, &[]).unwrap();
    count("check");
    let mut stages = Stages::observed(|pass, _| count(pass));
    let function = Function::compile(read, &mut stages).unwrap();
    function.to_string();
    count("print");
    function.loops(&mut stages).unwrap();
    drop(stages);
    units.into_inner()
}

#[test]
fn work_grows_as_the_text() {
    let case = setting("IVERSON_CASE", String::new());
    let short: usize = setting("IVERSON_LENGTHS", 25);
    let mut steep = String::new();
    for family in FAMILIES.iter().filter(|family| family.name.contains(&case)) {
        let [few, many] = [short, 4 * short].map(|length| units(&family.text(length)));
        let exponent = |few: u64, many: u64| (many.max(1) as f64 / few.max(1) as f64).ln() / 4f64.ln();
        for (pass, many) in &many {
            let few = few.get(pass).copied().unwrap_or(0);
            println!("{}, {pass}: {few} to {many}, {:.2}", family.name, exponent(few, *many));
        }
        let [few, many] = [few, many].map(|units| units.values().sum::<u64>());
        println!("{}: {few} to {many}, {:.2}", family.name, exponent(few, many));
        if exponent(few, many) > 1.3 {
            let _ = writeln!(steep, "{} takes {few}, then {many}", family.name);
        }
    }
    assert!(steep.is_empty(), "{steep}");
}

/// An expression of so many levels.
type Nested = fn(usize) -> String;

/// One factor around another, so deep that each statement is a multiple of the next: where they end is found once.
#[test]
fn printing_grows_as_the_program() {
    let texts: [(&str, Nested); 3] = [
        ("signs", |k| format!("{}x[i]", "-".repeat(k))),
        ("powers", |k| format!("{}x[i]{}", "(-".repeat(k), ")^1".repeat(k))),
        ("guarded multiples", |k| format!("{}exp(x[i]){}", "(-[1 <= i] * ".repeat(k), ")".repeat(k))),
    ];
    for (name, text) in texts {
        let units = |k: usize| {
            let function = Function::parse(&format!("param x : [n] real\nsum i < n. {}", text(k))).unwrap();
            let gradient = function.derive(&Request::new(Mode::Gradient, &["x"]).raw()).unwrap().function;
            let before = work::spent();
            gradient.to_string();
            work::spent() - before
        };
        let (few, many) = (units(150), units(600));
        println!("{name}: {few}, then {many}");
        assert!(many < 5 * few, "{name}: {few}, then {many}");
    }
}

/// Each piece of a definition by cases has the tests of all pieces before as a guard. What is known at one of them is not copied for each of the
/// others.
#[test]
fn many_cases_end_at_their_budget() {
    let cases = |k: usize| {
        let pieces: String = (0..k).map(|j| format!("if x[i] > {} then x[i]^{} else ", k - j, j + 2)).collect();
        Function::parse(&format!("param x : [n] real\nsum i < n. {pieces}0")).unwrap()
    };
    let gradient = cases(12).derive(&Request::new(Mode::Gradient, &["x"])).unwrap().function;
    let options = simplify::Options { work: Some(1 << 18), ..Default::default() };
    let raw = cases(12).derive(&Request::new(Mode::Gradient, &["x"]).raw()).unwrap().function;
    let early = raw.simplify_with(&options).unwrap();
    assert_eq!(early.report.stop, Stop::Work);
    let x = [-1.0, 1.5, 3.0, 11.5];
    let inputs = inputs! { "x" => x };
    let values = |function: &Function| {
        let kernel = function.kernel(&inputs).engine(Engine::Interpreter).build().unwrap();
        let mut found = [0.0; 4];
        kernel.call_into((&x,), &mut found).unwrap();
        found
    };
    let expected = [0.0, 13.0 * 1.5f64.powi(12), 12.0 * 3f64.powi(11), 3.0 * 11.5f64.powi(2)];
    for function in [&gradient, &early.function] {
        for (found, expected) in values(function).into_iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} {expected}");
        }
    }
}

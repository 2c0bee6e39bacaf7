//! Small texts that ask for much work: checking, deriving, simplifying and lowering stay within budgets that are counted, and say when they end early.
//!
//! `cargo test` takes small ones, on small budgets. All of them, of any size, on the budgets that users get, with their times:
//!
//! ```text
//! cargo test --release --test it work::nasty_in_full -- --ignored --nocapture
//! ```
//!
//! `IVERSON_CASE` picks those whose name contains it.

use std::fmt::Write;
use std::time::{Duration, Instant};

use iverson::ir::base::work;
use iverson::ir::driver;
use iverson::ir::reference::{self, Limits};
use iverson::ir::simplify::{self, Stop};
use iverson::ir::stages::{Stages, check};
use iverson::ir::surface;
use iverson::kernel::{Engine, Kernel};
use iverson::tensor::Inputs;
use iverson::{Error, Function, Mode, Request};

use crate::generate;
use crate::support::{Numbers, environment, evaluate, flat, inputs, setting};

/// The parts of a text for `0..k`, with something between them.
fn parts(k: usize, between: &str, part: impl Fn(usize) -> String) -> String {
    (0..k).map(part).collect::<Vec<_>>().join(between)
}

/// `x` before the first step, then the step before.
fn before(j: usize) -> String {
    if j == 0 { "x".to_owned() } else { format!("y{}", j - 1) }
}

/// A name, and the text for each number.
type TextFamily = (&'static str, fn(usize) -> String);

/// Texts that grow with a number.
const FAMILIES: &[TextFamily] = &[
    ("union of equations", |k| {
        format!("param x : [n] real\nsum i < n. [{}] * x[i]", parts(k, " or ", |j| format!("i = {}", 3 * j)))
    }),
    ("conjunction of unions", |k| {
        let union = |j| format!("(i + {j} < j or j + {} <= i)", 2 * j + 1);
        format!("param x : [n] real\nsum i < n, j < n. [{}] * x[i] * x[j]", parts(k, " and ", union))
    }),
    ("conjunction of exists", |k| {
        let exists = |j| format!("(exists q < m. 2*q + {j} = i or q > i + {j})");
        format!("param x : [n] real\nparam y : [m] real\nsum i < n. [{}] * x[i]^2", parts(k, " and ", exists))
    }),
    ("negated unions", |k| {
        let union = |j| format!("(i > {j} and i + {} < n and E(i, i))", j + 2);
        format!("param x : [n] real\nrel E : [n, n]\nsum i < n. [not ({})] * x[i]", parts(k, " or ", union))
    }),
    ("product of sums", |k| {
        format!("param x : [n] real\nsum i < n. {}", parts(k, " * ", |j| format!("(x[i] + {})", j + 2)))
    }),
    ("product of tensors", |k| {
        let params = parts(k, "\n", |j| format!("param x{j} : [n] real"));
        format!("{params}\nsum i < n. {}", parts(k, " * ", |j| format!("x{j}[i]")))
    }),
    ("many relations", |k| {
        let rels = parts(k, "\n", |j| format!("rel E{j} : [n, n]"));
        let any = parts(k, " or ", |j| format!("E{j}(i, j)"));
        format!("param x : [n] real\n{rels}\nsum i < n, j < n. [{any}] * x[i] * x[j]")
    }),
    ("many maps", |k| {
        let maps = parts(k, "\n", |j| format!("map f{j} : [n] -> [n]"));
        format!("param x : [n] real\n{maps}\nsum i < n. {}", parts(k, " * ", |j| format!("x[f{j}(i)]")))
    }),
    ("many sparse matrices", |k| {
        let params = parts(k, "\n", |j| format!("param A{j} : csr [n, n] real"));
        let sum = parts(k, " + ", |j| format!("A{j}[i, j]"));
        format!("param v : [n] real\n{params}\nsum i < n, j < n. ({sum}) * v[i] * v[j]")
    }),
    ("chain of guarded products", |k| {
        let step = |j| {
            let y = before(j);
            format!("let y{j} = gen i < n. sum j < n. [i + {j} <= j] * {y}[j] * {y}[i] in")
        };
        format!("param x : [n] real\n{}\nsum i < n. {}[i]", parts(k, "\n", step), before(k))
    }),
    ("chain of convolutions", |k| {
        let step = |j| format!("let y{j} = gen i < n. sum j < n. [j <= i] * {}[i - j] * x[j] in", before(j));
        format!("param x : [n] real\n{}\nsum i < n. {}[i]", parts(k, "\n", step), before(k))
    }),
    ("chain of squares", |k| {
        let step = |j| format!("let y{j} = gen i < n. {0}[i] * {0}[i] + {0}[i] in", before(j));
        format!("param x : [n] real\n{}\nsum i < n. {}[i]", parts(k, "\n", step), before(k))
    }),
    ("chain of pairs", |k| {
        let step = |j| {
            let p = if j == 0 { "(x, x)".to_owned() } else { format!("p{}", j - 1) };
            format!("let p{j} = (gen i < n. (fst {p})[i] * (snd {p})[i], gen i < n. (fst {p})[i] + (snd {p})[i]) in")
        };
        format!("param x : [n] real\n{}\nsum i < n. (fst p{})[i]", parts(k, "\n", step), k - 1)
    }),
    ("many indices", |k| {
        let guards = parts(k, " and ", |j| format!("i{j} + {j} <= i{}", (7 * j + 3) % k));
        let sums = parts(k, "", |j| format!("sum i{j} < n. "));
        format!("param x : [n] real\n{sums}[{guards}] * {}", parts(k, " * ", |j| format!("x[i{j}]")))
    }),
    ("nested brackets", |k| {
        let open = parts(k, "", |j| format!("[i > {j} or i + {j} < n] * (x[i] + "));
        format!("param x : [n] real\nsum i < n. {open}1{}", ")".repeat(k))
    }),
    ("nested extrema", |k| {
        let open = parts(k, "", |j| format!("(max i{j} < n. x[i{j}] * "));
        format!("param x : [n] real\nassume n >= 1\n{open}1{}", ")".repeat(k))
    }),
    ("many sizes", |k| {
        let params = parts(k, "\n", |j| format!("param x{j} : [n{j}] real"));
        let terms = parts(k, " + ", |j| format!("[i >= {j} and i - {j} < n{j}] * x{j}[i - {j}]"));
        format!("{params}\nsum i < {}. {terms}", parts(k, " + ", |j| format!("n{j}")))
    }),
    ("many assumptions", |k| {
        let params = parts(k, "\n", |j| format!("param x{j} : [n{j}] real"));
        let assume = |j| format!("assume n{j} + {j} <= {}*n{} + n{}", j + 1, (5 * j + 1) % k, (3 * j + 2) % k);
        format!("{params}\n{}\nsum i < n0. x0[i] * [i < n1] * x1[i]", parts(k, "\n", assume))
    }),
    ("many quotients of sizes", |k| {
        let sizes = parts(k, "\n", |j| format!("size h{j} = (n + {j}) // {}", j + 2));
        format!("param x : [n] real\n{sizes}\nsum i < {}. i", parts(k, " + ", |j| format!("h{j} + n // {}", j + 3)))
    }),
    ("many quotients of indices", |k| {
        let terms = parts(k, " + ", |j| format!("[i % {} != {j}] * x[(i + {j}) // {}]", j + 2, j + 2));
        format!("param x : [n] real\nassume n >= 2\nsum i < n. ({terms})^2")
    }),
    ("stencil", |k| {
        format!("param x : [n] real\nsum i < n. ({})^2", parts(k, " + ", |j| format!("[i + {j} < n] * x[i + {j}]")))
    }),
    ("nested functions", |k| {
        format!("param x : [n] real\nsum i < n. {}x[i]{}", "sin(".repeat(k), " * x[i])".repeat(k))
    }),
    ("polynomial", |k| {
        format!("param x : [n] real\nsum i < n. {}", parts(k, " + ", |j| format!("{0} * x[i]^{0}", j + 1)))
    }),
];

/// Where the stages of a program ended, with the units of work that each took.
struct Taken {
    name: &'static str,
    units: u64,
    promised: u64,
    time: Duration,
}

/// Runs a stage, and holds it to what is promised.
fn stage<T>(taken: &mut Vec<Taken>, name: &'static str, promised: u64, run: impl FnOnce() -> T) -> T {
    let (start, before) = (Instant::now(), work::spent());
    let result = run();
    let units = work::spent() - before;
    assert!(units <= promised + work::SLACK, "{name} takes {units} units of work, at most {promised} are promised");
    taken.push(Taken { name, units, promised, time: start.elapsed() });
    result
}

/// An error that says that a budget was used up, as it must then, or nothing.
fn ended(error: Error) -> String {
    let text = match &error {
        Error::Limit { .. } => error.to_string(),
        Error::Program(problems) => {
            let early = |code: &str| code == "too-much-work" || code == "too-large";
            assert!(problems.iter().any(|problem| early(problem.code)), "{error}");
            assert!(
                problems.iter().all(|problem| problem.help.is_some() || problem.code != "too-much-work"),
                "{error}"
            );
            error.to_string()
        }
        _ => panic!("{error}"),
    };
    assert!(text.contains("more than") || text.contains("over the limit"), "{text}");
    text
}

/// More statements than loops have for each of Tensor-SSA.
const STATEMENTS_OF_LOOPS: usize = 64;

/// How many passes lead from Tensor-SSA to loops, and over them.
fn loop_passes() -> u64 {
    driver::passes().count() as u64
}

/// Takes a text through checking, deriving, simplifying and lowering; what each of them took, and how it ended.
fn journey(text: &str, options: &simplify::Options) -> (Vec<Taken>, String) {
    let mut taken = Vec::new();
    // Every expression has at least a letter, and at most two are made of one.
    let program = match stage(&mut taken, "check", work::budget_of_text(2 * text.len()), || surface::read(text, &[])) {
        Ok(program) => program,
        Err(error) => return (taken, ended(error)),
    };
    let terms = program.terms.len();
    assert!(terms as u64 <= work::terms_of_text(2 * text.len()));
    // Four passes.
    let promised = 4 * work::budget(4 * program.terms.len());
    let function = match stage(&mut taken, "compile", promised, || Function::compile(program, &mut Stages::new())) {
        Ok(function) => function,
        Err(error) => return (taken, ended(error)),
    };
    let params: Vec<String> = function.tensor_ssa().signature.params.values().map(|p| p.name.clone()).collect();
    let wrt: Vec<&str> = params.iter().map(String::as_str).collect();
    let promised = work::budget(function.tensor_ssa().stmts.len());
    // Differentiating, and expanding partial derivatives, of which there are not many more.
    let request = Request::new(Mode::Gradient, &wrt).raw();
    let derived = stage(&mut taken, "derive", 8 * promised, || function.derive(&request));
    let derived = match derived {
        Ok(derived) => derived.function,
        Err(error) => return (taken, ended(error)),
    };
    let statements = derived.tensor_ssa().stmts.len();
    let promised = options.work.unwrap_or(work::budget(statements));
    let simplified = stage(&mut taken, "simplify", promised, || derived.simplify_with(options));
    let simplified = simplified.unwrap_or_else(|error| panic!("{error}\n{text}"));
    if let Err(error) = check("simplify", simplified.function.tensor_ssa()) {
        panic!("{error}\n{text}");
    }
    assert!(simplified.report.stop == Stop::Work || simplified.report.work < promised);
    let end = format!("{:?}", simplified.report.stop);
    let statements = simplified.function.tensor_ssa().stmts.len();
    let promised = loop_passes() * work::budget(STATEMENTS_OF_LOOPS * statements);
    let nests = stage(&mut taken, "loops", promised, || simplified.function.loops(&mut Stages::new()));
    let all: u64 = taken.iter().map(|taken| taken.units).sum();
    let largest = STATEMENTS_OF_LOOPS * statements.max(terms);
    assert!(all <= work::budget_of_all(2 * text.len(), largest));
    match nests {
        Ok(_) => (taken, end),
        Err(error) => (taken, ended(error)),
    }
}

#[test]
fn nasty_texts_keep_the_promise() {
    let options = simplify::Options { work: Some(1 << 16), ..simplify::Options::default() };
    for (name, family) in FAMILIES {
        let (taken, end) = journey(&family(6), &options);
        let took: Vec<String> = taken.iter().map(|stage| format!("{} {}", stage.name, stage.units)).collect();
        println!("{name}: {}, {end}", took.join(", "));
    }
}

/// To Tensor-SSA four, deriving at most four, simplification, and those to loops and over them.
#[test]
fn the_sum_of_all_promises() {
    let passes = 4 + 4 + 1 + loop_passes();
    assert!(passes <= work::PASSES, "{passes} passes");
    for (expressions, terms) in [(0, 0), (1000, 0), (0, 1000), (1 << 20, 1 << 20)] {
        let promised = (1 << 33) + (1 << 12) * (expressions + 75 * terms) as u64;
        assert!(work::budget_of_all(expressions, terms) <= promised, "{expressions} expressions, {terms} terms");
    }
}

#[test]
fn random_texts_keep_the_promise() {
    let options = simplify::Options { work: Some(1 << 15), ..simplify::Options::default() };
    for seed in 0..setting("IVERSON_PROGRAMS", 30) {
        let program = generate::program(seed, seed % 2 == 0);
        let read = surface::read(&program.text, &[]).unwrap_or_else(|error| panic!("{error}\n{}", program.text));
        let function = Function::compile(read, &mut Stages::new()).unwrap();
        let mut taken = Vec::new();
        let promised = 1 << 15;
        stage(&mut taken, "simplify", promised, || function.simplify_with(&options)).unwrap();
    }
}

/// The texts at sizes at which something ends early, on the budgets that users get.
#[test]
#[ignore = "minutes; wants a release build"]
fn nasty_in_full() {
    let case = setting("IVERSON_CASE", String::new());
    let mut slow = String::new();
    for (name, family) in FAMILIES.iter().filter(|(name, _)| name.contains(&case)) {
        for k in [8, 16, 32, 64] {
            let text = family(k);
            let (taken, end) = journey(&text, &simplify::Options::default());
            print!("{name}, {} bytes:", text.len());
            for Taken { name, units, promised, time } in taken {
                print!(" {name} {:.2} s, {units} of {promised};", time.as_secs_f64());
                // A unit takes 20 nanoseconds at most.
                if time.as_secs_f64() > 0.5 + 20e-9 * units as f64 {
                    let _ = writeln!(slow, "{name} of {} bytes: {time:?} for {units} units", text.len());
                }
            }
            println!(" {end}");
        }
    }
    assert!(slow.is_empty(), "{slow}");
}

/// What ends early is right all the same, and says so; what has time enough does not end early.
#[test]
fn programs_on_small_budgets() {
    for seed in 0..setting("IVERSON_PROGRAMS", 12) {
        let generated = generate::program(seed, false);
        let mut numbers = Numbers::new(seed, true);
        let at = inputs(&generated, &mut numbers);
        let term = surface::read(&generated.text, &[]).unwrap();
        let (_, environment) = environment(&term, &at).unwrap();
        let function = Function::compile(term, &mut Stages::new()).unwrap();
        let value = |function: &Function| -> Vec<Vec<f64>> {
            evaluate(function.tensor_ssa(), &environment).iter().map(|leaves| flat(leaves)).collect()
        };
        let expected = value(&function);
        let whole = function.simplify_with(&simplify::Options::default()).unwrap().report.work;
        // Of shares of what the whole takes, some end while a form is chosen.
        let shares = (1..8).map(|k| whole * k / 8);
        for units in [0, 1 << 8, 1 << 11, 1 << 14, 1 << 17].into_iter().chain(shares) {
            let options = simplify::Options { work: Some(units), ..simplify::Options::default() };
            let simplified = function.simplify_with(&options).unwrap();
            check("simplify", simplified.function.tensor_ssa()).unwrap();
            assert_eq!(value(&simplified.function), expected, "seed {seed}, {units} units:\n{}", generated.text);
            assert!(simplified.report.stop == Stop::Work || simplified.report.work < units);
            let again = function.simplify_with(&options).unwrap();
            assert_eq!(again.function.tensor_ssa(), simplified.function.tensor_ssa());
            assert_eq!(again.report.work, simplified.report.work);
        }
    }
}

#[test]
fn usual_programs_are_far_from_their_budgets() {
    for entry in std::fs::read_dir("tests/programs").unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let before = work::spent();
        let function = Function::parse(&text).unwrap();
        assert!(work::spent() - before < work::BASE / 8, "{path:?} takes {} to check", work::spent() - before);
        let simplified = function.simplify_with(&simplify::Options::default()).unwrap();
        assert!(simplified.report.work < work::BASE / 8, "{path:?} takes {}", simplified.report.work);
        assert_ne!(simplified.report.stop, Stop::Work);
    }
}

#[test]
fn definitions_that_double() {
    let defs = |first: &str, next: &dyn Fn(usize) -> String| -> String {
        std::iter::once(first.to_owned()).chain((1..24).map(next)).collect::<Vec<_>>().join("\n")
    };
    let nested = defs("def f0(a : real) = a + a", &|k| format!("def f{k}(a : real) = f{0}(f{0}(a))", k - 1));
    let sums = defs("def f0(a : [k] real) = sum i < k. a[i]", &|k| {
        format!("def f{k}(a : [k] real) = f{0}(gen i < k. 2 * a[i]) + f{0}(a)", k - 1)
    });
    for text in [format!("param x : real\n{nested}\nf23(x)"), format!("param x : [n] real\n{sums}\nf23(x)")] {
        let before = work::spent();
        let Err(Error::Program(problems)) = surface::read(&text, &[]) else { panic!("it is too large") };
        assert!(work::spent() - before <= work::budget_of_text(2 * text.len()) + work::SLACK);
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert_eq!(problem.code, "too-large");
        assert_eq!(&text[problem.span.start as usize..problem.span.end as usize], "f23(x)");
        assert!(problem.message.contains("`f0` was expanded"), "{}", problem.message);
    }
}

#[test]
fn misspelt_names_take_time_linear_in_the_text() {
    let text = |k: usize| {
        let params = parts(k, "\n", |j| format!("param alphabet{j} : real"));
        format!("{params}\n{}", parts(k, " + ", |j| format!("alhpabet{j}")))
    };
    let units = |k: usize| {
        let before = work::spent();
        let Err(Error::Program(problems)) = surface::read(&text(k), &[]) else { panic!("no name is right") };
        assert_eq!(problems.len(), 100);
        assert_eq!(problems[0].help.as_deref(), Some("did you mean `alphabet0`?"));
        work::spent() - before
    };
    let (few, many) = (units(500), units(4000));
    assert!(many < 9 * few + (1 << 26), "{few} units, {many} for a text eight times as long");
}

/// Sums that no engine can end, and some that it can.
#[test]
fn sums_that_do_not_end() {
    const MOST: &str = "9223372036854775807";
    let refused = [
        format!("sum i < {MOST}. 1.0"),
        format!("sum i < {MOST}, j < 3. 1.0"),
        "sum i < 4294967296, j < 4294967296. [i <= j] * 1.0".to_owned(),
        "sum i < 1048576. sum j < 1048576. sum k < 1048576. 1.0".to_owned(),
        format!("max i < {MOST}. sin(i)"),
        "sum i < 1048576. exp(sum j < 4611686018427387904. sin(j) * i)".to_owned(),
        format!("[exists k < {MOST}. sin(k) > 2.0] * 1.0"),
    ];
    for text in &refused {
        let function = Function::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let inputs = Inputs::new();
        // The last one is refused when so many values have been tried.
        let limits = Limits { steps: 1 << 20, ..Limits::default() };
        let found = reference::evaluate_within(function.tensor_ssa(), &inputs, limits, &mut |_, _| {});
        assert!(matches!(found, Err(Error::Limit { .. })), "{text}: {found:?}");
        let nests = function.loops(&mut Stages::new()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        for engine in [Engine::Interpreter, Engine::Native] {
            let found = Kernel::bind(nests.clone().into(), &inputs, engine).map(|_| ());
            assert!(matches!(found, Err(Error::Limit { .. })), "{text}: {found:?}\n{nests}");
        }
    }
    let answered = [
        ("sum i < 1000, j < 1000. [i = j] * 1.0".to_owned(), 1000.0),
        (format!("sum i < {MOST}. [i = 4] * i"), 4.0),
        (format!("sum i < {MOST}. [i < 3] * 1.0"), 3.0),
        ("sum i < 1000, j < 4611686018427387904. [j < i] * 1.0".to_owned(), 499_500.0),
    ];
    for (text, expected) in answered {
        let function = Function::parse(&text).unwrap();
        let found = reference::evaluate(function.tensor_ssa(), &Inputs::new()).unwrap();
        assert_eq!(found[0].1.leaves()[0].data(), [expected], "{text}");
        let kernel = function.kernel(&Inputs::new()).engine(Engine::Interpreter).build().unwrap();
        let mut value = [0.0];
        kernel.call_into((), &mut value).unwrap();
        assert_eq!(value, [expected], "{text}");
    }
}

//! The command line as a user meets it: what it prints, what it writes, and how it fails.

mod fixpoints;
mod loops;
mod methods;
mod outputs;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use iverson::ir::driver;
use iverson::ir::{surface, term, tssa};
use iverson::tensor::io::{FileValue, read_value, write_value};
use iverson::tensor::{Coo, Csr, Dense};
use tempfile::TempDir;

const BLUR: &str = "\
# The residual of a blurred signal, and its norm.
param x : [n + m - 1] real
param w : [m] real
param z : [n] real
let y = gen i < n. sum j < m. x[i - j + m - 1] * w[j]
in sum i < n. (y[i] - z[i])^2
";

const MIXED: &str = "\
param A : csr [n, n] real
param ab : [n] (real, real)
param s : real
rel E : [n, n]
map f : [n] -> [n]
s * (sum i < n, j < n. A[i, j] * fst ab[j] * snd ab[f(i)]) + (sum i < n, j < n. [E(i, j)] * fst ab[j])
";

const SEVERAL: &str = "\
param x : [n] real
param T : coo [n, n, n] real
param w : real
(sum i < n. x[i] * w, gen i < n. x[i]^2, sum i < n, j < n, k < n. T[i, j, k] * x[i])
";

/// A directory with programs and data, in which commands run.
struct Place(TempDir);

/// What a command did.
struct Outcome {
    code: i32,
    out: String,
    err: String,
}

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a directory"));
        for (name, text) in [
            ("blur.iv", BLUR),
            ("mixed.iv", MIXED),
            ("several.iv", SEVERAL),
            ("bad.iv", "param x : [n] real\nsum i < n. x[i + 1] + y\n"),
            (
                "product.iv",
                "param A : csr [n, n] real\nparam B : csr [n, n] real\ngen i < n, j < n. sum k < n. A[i, k] * B[k, j]\n",
            ),
            ("free.iv", "param x : real\nassume n >= 2\nsum i < n. x\n"),
            ("empty.csv", ""),
            ("x.csv", "1\n2\n3\n"),
            ("w.csv", "1\n-1\n"),
            ("row.csv", "1,-1\n"),
            ("wrong.csv", "1e400\n2\n3\n"),
            ("blank.csv", "1\n\n3\n"),
            ("headed.csv", "value\n1\n-1\n"),
            ("z.csv", "0\n0\n"),
            ("u.csv", "1\n2\n"),
            ("v.csv", "3\n4\n"),
            ("a.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 5\n2 1 3\n"),
            ("e.csv", "0,1\n1,1\n"),
            ("f.tns", "# shape: 2 2\n1 2\n2 1\n"),
            ("difference.iv", "param x : [n] real\ngen i < n - 1. x[i + 1] - 3 * x[i]\n"),
            ("root.iv", "param x : [n] real\nparam y : [n] real\nsum i < n. x[i] * y[i]\n"),
            ("root_residual.iv", "param x : [n] real\nparam y : [n] real\ngen i < n. y[i]^2 - x[i]\n"),
            ("root_forward.iv", "param y : [n] real\nparam dx : [n] real\ngen i < n. dx[i] / (2 * y[i])\n"),
            ("sizes.iv", "size n\nsum i < n. i\n"),
            ("targets.iv", "map f : [m] -> [n]\nparam x : [n] real\nsum i < m. x[f(i)]\n"),
            ("tabs.csv", "1\t2\t3\n"),
            ("spaces.csv", "1 2 3\n"),
            ("t.tns", "# shape: 2 2 2\n1 1 2 3\n2 2 1 -1\n"),
        ] {
            std::fs::write(place.path(name), text).expect("the file is written");
        }
        let vector = |data: &[f64]| Dense::new(&[data.len()], data.to_vec()).expect("the data fill the shape");
        let (x, w, z) = (vector(&[1.0, 2.0, 3.0]), vector(&[1.0, -1.0]), vector(&[0.0, 0.0]));
        write_value(place.path("x.npy"), &FileValue::Dense(x.clone())).expect("the file is written");
        let archive = [("x", x), ("w", w), ("z", z)].map(|(name, value)| (name.to_owned(), value));
        write_value(place.path("data.npz"), &FileValue::Archive(archive.into())).expect("the file is written");
        place
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iverson"));
        command.current_dir(self.0.path()).args(arguments.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs with arguments that hold no spaces.
    fn run(&self, arguments: &str) -> Outcome {
        let output = self.command(arguments).output().expect("the command runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let code = output.status.code().expect("the command is not killed");
        Outcome { code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// What is printed by a command that must succeed in silence on standard error.
    fn good(&self, arguments: &str) -> String {
        let Outcome { code, out, err } = self.run(arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{arguments}\n{out}");
        out
    }

    /// The message of a command that must fail with a code, without printing results.
    fn bad(&self, arguments: &str, code: i32) -> String {
        let Outcome { code: found, out, err } = self.run(arguments);
        assert_eq!((found, out.as_str()), (code, ""), "{arguments}\n{err}");
        assert!(!err.contains("panicked") && !err.contains('\u{1b}'), "{arguments}\n{err}");
        assert!(err.ends_with('\n') && !err.trim().is_empty(), "{arguments}: {err:?}");
        err
    }

    /// A tensor that was written.
    fn dense(&self, name: &str) -> (Vec<usize>, Vec<f64>) {
        let value = read_value(self.path(name)).unwrap_or_else(|error| panic!("{error}"));
        let dense = value.into_dense(name).unwrap_or_else(|error| panic!("{error}"));
        (dense.shape().to_vec(), dense.data().to_vec())
    }
}

/// `$ command` and what it printed, for snapshots.
fn transcript(run: impl Fn(&str) -> String, commands: &[&str]) -> String {
    let shown = commands.iter().map(|command| format!("$ iverson {command}\n{}", run(command).trim_end()));
    shown.collect::<Vec<_>>().join("\n\n")
}

#[test]
fn help() {
    let place = Place::new();
    let commands =
        ["--help", "check --help", "show --help", "report --help", "run --help", "check-derivative --help", "run -h"];
    let text = transcript(|command| place.good(command), &commands);
    // Lines of help end where a terminal's would.
    insta::assert_snapshot!(text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"));
    assert_eq!(place.good("--version"), format!("iverson {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(place.good("help run"), place.good("run --help"));
}

#[test]
fn check() {
    let place = Place::new();
    let commands = ["check blur.iv", "check mixed.iv", "check several.iv", "check free.iv"];
    insta::assert_snapshot!(transcript(|command| place.good(command), &commands));
}

#[test]
fn show_every_stage_in_every_format() {
    let place = Place::new();
    for program in ["blur.iv", "mixed.iv", "several.iv"] {
        for derivative in
            ["", "--derivative forward", "--derivative adjoint --with-value", "--derivative adjoint --no-simplify"]
        {
            for stage in ["surface", "let-lifting", "pair-elimination", "gen-pushout", "tensor-ssa", "simplify"] {
                if stage == "simplify" && derivative.contains("--no-simplify") {
                    continue;
                }
                let show = |format: &str| {
                    place.good(&format!("show {program} {derivative} --stage {stage} --format {format}"))
                };
                let (text, json, dot) = (show("text"), show("json"), show("dot"));
                assert!(dot.starts_with("digraph") && dot.ends_with("}\n"), "{dot}");
                if stage == "tensor-ssa" || stage == "simplify" {
                    let read = tssa::Program::from_json(&json).unwrap_or_else(|error| panic!("{error}"));
                    assert_eq!(read.to_string().trim_end(), text.trim_end());
                    continue;
                }
                let read = term::Program::from_json(&json).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(read.to_string().trim_end(), text.trim_end());
                for text in [text, show("unicode")] {
                    surface::read(&text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
                }
                assert!(show("latex").contains("\\"), "{program} {stage}");
                assert!(show("mathml").starts_with("<math "), "{program} {stage}");
            }
        }
    }
}

/// A page is written as a whole or not at all.
#[test]
fn report() {
    let place = Place::new();
    let page = |name: &str| std::fs::read_to_string(place.path(name)).expect("a page");
    let out = place.good("report blur.iv --derivative gradient --wrt w -o blur.html");
    assert_eq!(out, "wrote blur.html\n");
    let first = page("blur.html");
    assert!(first.contains("<h1>blur.iv</h1>") && first.contains("# The residual of a blurred signal, and its norm."));
    place.good("report blur.iv --derivative gradient --wrt w --input data.npz -o given.html");
    let given = page("given.html");
    assert!(given.contains("for the inputs given. Here <code>n = 2</code>, <code>m = 2</code>"), "{given}");
    place.good("report mixed.iv --derivative adjoint --no-simplify -o mixed.html");
    assert!(page("mixed.html").contains("Sparsity pattern of E: "));
    place.good("report root.iv --derivative gradient --wrt x --given y=root_forward.iv -o given.html");
    assert!(page("given.html").contains("The gradient by <code>x</code>"));
    for (arguments, code, message) in [
        ("report bad.iv -o blur.html", 1, "out-of-bounds"),
        ("report blur.iv --derivative gradient --wrt q -o blur.html", 2, "no parameter `q`"),
        ("report blur.iv --input x=z.csv --input w=w.csv --input z=x.csv -o blur.html", 1, "z"),
        ("report blur.iv --strict -o blur.html", 2, "nothing is simplified here"),
        ("report blur.iv -o missing/blur.html", 1, "missing/blur.html"),
    ] {
        let err = place.bad(arguments, code);
        assert!(err.contains(message), "{arguments}: {err}");
    }
    assert_eq!(page("blur.html"), first);
}

#[test]
fn show() {
    let place = Place::new();
    let commands = [
        "show blur.iv",
        "show blur.iv --format unicode",
        "show blur.iv --format latex",
        "show blur.iv --stage tensor-ssa",
        "show blur.iv --derivative gradient --wrt w --no-simplify",
        "show blur.iv --derivative gradient --wrt w,z --with-value --no-simplify",
        "show blur.iv --derivative gradient --wrt w --stage tensor-ssa --no-simplify",
        "show blur.iv --derivative forward --wrt w --no-simplify",
        "show blur.iv --derivative adjoint --wrt w --no-simplify",
        "show blur.iv --derivative gradient --wrt w --derivation",
        "show mixed.iv --derivative gradient --no-simplify",
        "show several.iv --derivative adjoint --wrt x --no-simplify",
        "show several.iv --stage loops --constant x,T",
        "show blur.iv --derivative hessian --wrt w --stage loops",
    ];
    insta::assert_snapshot!(transcript(|command| place.good(command), &commands));
}

/// Every pass between Tensor-SSA and kernels can be looked at, and what it made of a program is read back.
#[test]
fn show_after_every_pass() {
    let place = Place::new();
    let after = |derivative: &str, pass: &str| {
        place.good(&format!("show blur.iv --derivative {derivative} --wrt w --stage loops --after {pass}"))
    };
    let text = place.good("show blur.iv --derivative hessian --wrt w --stage tensor-ssa");
    assert!(text.contains("out hessian_w_w"), "{text}");
    let mut lowered = false;
    for pass in driver::passes() {
        let shown = after("hessian", pass);
        assert!(!shown.is_empty(), "{pass}");
        lowered |= pass == "lower";
        if lowered {
            assert!(shown.contains("out hessian_w_w = "), "{pass}: {shown}");
        }
    }
    assert_ne!(after("gradient", "lower"), after("gradient", "searches"));
    assert!(after("gradient", "vectorise").contains("lanes"));
    assert!(!after("gradient", "peel").contains("lanes"));
}

/// What the simplifier leaves, and how it came there.
#[test]
fn show_simplified() {
    let place = Place::new();
    let commands = [
        "show blur.iv --simplify",
        "show blur.iv --stage simplify",
        "show blur.iv --derivative gradient --wrt w",
        "show blur.iv --derivative gradient --wrt w --stage simplify",
        "show blur.iv --derivative forward --wrt w",
        "show blur.iv --derivative adjoint --wrt x",
        "show several.iv --derivative adjoint --wrt x",
        "show blur.iv --derivative gradient --wrt w --strict",
        "show blur.iv --derivative gradient --wrt w --hint n=1000",
        "show root.iv --implicit y=root_residual.iv --derivative gradient --wrt x",
        "show root.iv --given y=root_forward.iv --derivative gradient --wrt x --cost",
        "show root.iv --given y=root_forward.iv --derivative hessian --wrt x",
        "show blur.iv --explain",
        "show blur.iv --derivative gradient --wrt w --explain",
        "show free.iv --stage e-graph --format dot",
    ];
    insta::assert_snapshot!(transcript(|command| place.good(command), &commands));
}

/// A budget that is used up is said on standard error, in one line.
#[test]
fn budgets_that_are_used_up() {
    let place = Place::new();
    for (option, what) in [
        ("--nodes 1", "nodes; a larger --effort goes on"),
        ("--rounds 1", "rounds; a larger --effort goes on"),
        ("--work 1", "work; --work sets another"),
    ] {
        for command in ["show blur.iv --derivative gradient", "run blur.iv --input data.npz --derivative gradient"] {
            let Outcome { code, out, err } = place.run(&format!("{command} {option}"));
            assert_eq!((code, err), (0, format!("note: simplification ended at its budget of {what}\n")), "{command}");
            assert!(!out.is_empty());
        }
    }
}

#[test]
fn cost() {
    let place = Place::new();
    let commands = [
        "show blur.iv --cost",
        "show blur.iv --derivative gradient --wrt w --cost",
        "show blur.iv --derivative forward --cost",
        "show mixed.iv --cost",
        "show mixed.iv --derivative gradient --cost",
        "show several.iv --derivative adjoint --wrt x --with-value --cost",
    ];
    insta::assert_snapshot!(transcript(|command| place.good(command), &commands));
}

#[test]
fn programs_on_standard_input() {
    let place = Place::new();
    let run = |arguments: &str, text: &[u8]| {
        let mut child = place.command(arguments).stdin(Stdio::piped()).spawn().expect("the command starts");
        // A command that fails early does not read.
        let _ = child.stdin.take().expect("it has a standard input").write_all(text);
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(run("show -", BLUR.as_bytes()), (Some(0), place.good("show blur.iv"), String::new()));
    let derived = place.good("show blur.iv --derivative gradient --wrt w");
    let inputs = "--input data.npz";
    assert_eq!(
        run(&format!("run - {inputs}"), derived.as_bytes()).1,
        place.good(&format!("run blur.iv {inputs} --derivative gradient --wrt w")).replace("grad_w", "value")
    );
    let (code, out, err) = run("check -", b"x");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("standard input:1:1"), "{err}");
    let (code, _, err) = run("check -", b"param x : real\n\xff");
    assert_eq!(
        (code, err.as_str()),
        (Some(1), "error: standard input: a program is UTF-8 text, but byte 15 of this file is not\n")
    );
    let (code, _, err) = run("check -", &vec![b' '; surface::MAX_TEXT + 1]);
    assert_eq!(code, Some(1));
    let message = format!("expected a program of at most {} bytes", surface::MAX_TEXT);
    assert!(err.contains(&message) && err.len() < 1000, "{}", err.chars().take(300).collect::<String>());
}

const BLURRED: &str = "run blur.iv --input x=x.npy --input w=w.csv --input z=z.csv";
const MIXED_INPUTS: &str =
    "--input A=a.mtx --input ab.0=u.csv --input ab.1=v.csv --input E=e.csv --input f=f.tns --scalar s=-2";
const SEVERAL_INPUTS: &str = "--input x=u.csv --input T=t.tns --scalar w=2";

#[test]
fn run() {
    let place = Place::new();
    let commands = [
        BLURRED,
        "run blur.iv --input data.npz",
        "run blur.iv --input any=data.npz",
        &format!("{BLURRED} --count"),
        &format!("{BLURRED} --derivative gradient"),
        &format!("{BLURRED} --derivative gradient --wrt w --with-value --count"),
        &format!("{BLURRED} --derivative adjoint --wrt w --seed dy=-1"),
        &format!("{BLURRED} --derivative forward --wrt w,z --seed dw=w.csv --seed dz=u.csv --count"),
        &format!("run mixed.iv {MIXED_INPUTS}"),
        &format!("run mixed.iv {MIXED_INPUTS} --derivative gradient"),
        &format!("run mixed.iv {MIXED_INPUTS} --derivative forward --wrt A,s --seed dA=a.mtx --seed ds=1"),
        &format!("run mixed.iv {MIXED_INPUTS} --derivative forward --wrt ab --seed dab.0=u.csv --seed dab.1=v.csv"),
        &format!("run several.iv {SEVERAL_INPUTS}"),
        &format!("run several.iv {SEVERAL_INPUTS} --derivative forward --wrt x --seed dx=v.csv"),
        &format!(
            "run several.iv {SEVERAL_INPUTS} --derivative adjoint --seed dy.0=1 --seed dy.1.0=u.csv --seed dy.1.1=2"
        ),
        "run free.iv --scalar x=1.5 --size n=4",
        "run free.iv --scalar x=inf --size n=4",
        "run free.iv --scalar x=nan --size n=4",
    ];
    insta::assert_snapshot!(transcript(|command| place.good(command), &commands));
}

/// What other programs read.
#[test]
fn json() {
    let place = Place::new();
    let commands = [
        "run blur.iv --input x=x.csv --input w=row.csv --input z=z.csv --format json",
        &format!("{BLURRED} --derivative gradient --with-value --count --format json"),
        &format!("run mixed.iv {MIXED_INPUTS} --derivative gradient --format json"),
        &format!("run several.iv {SEVERAL_INPUTS} --format json"),
        "run free.iv --scalar x=nan --size n=4 --format json",
        "run free.iv --scalar x=-inf --size n=4 --format json",
        "run product.iv --input A=a.mtx --input B=a.mtx --sparse value --format json",
        "check blur.iv --format json",
    ];
    insta::assert_snapshot!(transcript(|command| place.good(command), &commands));
    for command in commands {
        let document: Result<serde_json::Value, _> = serde_json::from_str(&place.good(command));
        assert!(document.is_ok_and(|document| document.is_object()), "{command}");
    }
    let Outcome { code, out, err } = place.run("check bad.iv --format json");
    assert_eq!((code, err.as_str()), (1, ""));
    insta::assert_snapshot!("json_of_problems", out);
    // The same problems of a command that runs or shows; others have no place in the program.
    let problems = |command: &str, expected: i32| {
        let Outcome { code, out, err } = place.run(command);
        assert_eq!((code, err.as_str()), (expected, ""), "{command}");
        serde_json::from_str::<serde_json::Value>(&out).expect("it is JSON")["problems"].clone()
    };
    let of_check = problems("check bad.iv --format json", 1);
    assert_eq!(of_check.as_array().map(Vec::len), Some(2));
    for command in ["run bad.iv --format json", "show bad.iv --format json"] {
        assert_eq!(problems(command, 1), of_check, "{command}");
    }
    for (command, code, message) in [
        ("run blur.iv --input x=x.csv --format json", 1, "missing"),
        ("run blur.iv --input x=wrong.csv --format json", 1, "wrong.csv"),
        ("run gone.iv --format json", 1, "gone.iv"),
        ("check gone.iv --format json", 1, "gone.iv"),
        ("run blur.iv --derivative gradient --wrt q --format json", 2, "`q`"),
        ("show blur.iv --derivative adjoint --derivation --format json", 2, "a derivation is printed as"),
    ] {
        let found = problems(command, code);
        let said = found[0]["message"].as_str().is_some_and(|said| said.contains(message));
        assert!(found.as_array().is_some_and(|all| all.len() == 1) && said, "{command}: {found}");
    }
    let written = place.good("run free.iv --scalar x=1 --size n=4 --format json --output results");
    let document: serde_json::Value = serde_json::from_str(&written).expect("it is JSON");
    assert_eq!(document["written"], serde_json::json!(["results/value.npy"]));
}

/// Programs are laid out where they are, with their permissions; what does not parse stays.
#[test]
fn layout() {
    let place = Place::new();
    let (wild, tidy) = ("param x:[n]real # signal\nsum i<n.x[i]\n", "param x : [n] real  # signal\nsum i < n. x[i]\n");
    let write = |name: &str, text: &str| std::fs::write(place.path(name), text).expect("the file is written");
    let read = |name: &str| std::fs::read_to_string(place.path(name)).expect("the file is there");
    write("wild.iv", wild);
    write("tidy.iv", tidy);
    let Outcome { code, out, err } = place.run("fmt --check wild.iv tidy.iv");
    assert_eq!((code, out.as_str(), err.as_str(), read("wild.iv").as_str()), (1, "wild.iv\n", "", wild));
    assert_eq!(place.good("fmt wild.iv tidy.iv"), "");
    assert_eq!((read("wild.iv").as_str(), read("tidy.iv").as_str()), (tidy, tidy));
    assert_eq!(place.good("fmt --check wild.iv tidy.iv"), "");
    write("broken.iv", "sum i <");
    assert!(place.bad("fmt broken.iv", 1).contains("broken.iv:1:8"));
    assert_eq!(read("broken.iv"), "sum i <");
}

/// Each shell learns the commands.
#[test]
fn completions() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = place.good(&format!("completions {shell}"));
        assert!(["check-derivative", "fmt", "emit", "derivative"].iter().all(|word| script.contains(word)), "{shell}");
    }
}

#[test]
fn results_as_files() {
    let place = Place::new();
    let written = |command: &str, output: &str| -> Vec<String> {
        let out = place.good(&format!("{command} --output {output}"));
        let told = out.lines().filter_map(|line| line.strip_prefix("wrote ")).map(|path| {
            let path = Path::new(path);
            assert_eq!(path.parent(), Some(Path::new(output)));
            path.file_name().expect("a name").to_string_lossy().into_owned()
        });
        let mut told: Vec<String> = told.collect();
        let mut found: Vec<String> = std::fs::read_dir(place.path(output))
            .expect("the directory is there")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        found.sort();
        told.sort();
        assert_eq!(told, found, "{command}");
        told
    };
    assert_eq!(written(BLURRED, "plain"), ["value.npy"]);
    assert_eq!(place.dense("plain/value.npy"), (vec![], vec![2.0]));
    // A directory in a directory is made, and what is there is replaced.
    for _ in 0..2 {
        assert_eq!(
            written(&format!("{BLURRED} --derivative gradient --wrt w,z --with-value"), "deep/er"),
            ["grad_w.npy", "grad_z.npy", "value.npy"]
        );
    }
    assert_eq!(place.dense("deep/er/grad_w.npy"), (vec![2], vec![10.0, 6.0]));
    assert_eq!(place.dense("deep/er/grad_z.npy"), (vec![2], vec![-2.0, -2.0]));
    assert_eq!(
        written(&format!("run mixed.iv {MIXED_INPUTS} --derivative adjoint --seed dy=2"), "mixed"),
        ["adjoint_A.mtx", "adjoint_ab_0.npy", "adjoint_ab_1.npy", "adjoint_s.npy"]
    );
    let a = read_value(place.path("mixed/adjoint_A.mtx")).expect("it is read");
    let places = Coo::new(vec![2, 2], vec![vec![0, 1], vec![0, 0]], vec![-16.0, -12.0]).expect("sorted");
    assert_eq!(a, FileValue::Csr(Csr::from_coo(&places).expect("a matrix")));
    assert_eq!(place.dense("mixed/adjoint_ab_1.npy"), (vec![2], vec![-12.0, -20.0]));
    assert_eq!(
        written(&format!("run several.iv {SEVERAL_INPUTS}"), "several"),
        ["value_0.npy", "value_1.npy", "value_2.npy"]
    );
    assert_eq!(place.dense("several/value_1.npy"), (vec![2], vec![1.0, 4.0]));
    let seeds = "--seed dy.0=1 --seed dy.1.0=u.csv --seed dy.1.1=2";
    assert_eq!(
        written(&format!("run several.iv {SEVERAL_INPUTS} --derivative adjoint --wrt T,w {seeds}"), "sparse"),
        ["adjoint_T.tns", "adjoint_w.npy"]
    );
    let t = read_value(place.path("sparse/adjoint_T.tns")).expect("it is read");
    let columns = vec![vec![0, 1], vec![0, 1], vec![1, 0]];
    assert_eq!(t, FileValue::Coo(Coo::new(vec![2, 2, 2], columns, vec![2.0, 4.0]).expect("sorted")));
    assert_eq!(
        written(&format!("run several.iv {SEVERAL_INPUTS} --derivative forward --wrt w --seed dw=1"), "forward"),
        ["tangent_0.npy", "tangent_1.npy", "tangent_2.npy"]
    );
}

#[test]
fn check_derivative() {
    const KERNEL: &str = "  f x by the reference evaluator";
    let place = Place::new();
    for command in [
        "check-derivative blur.iv --input data.npz",
        "check-derivative blur.iv --input data.npz --wrt w --random 7",
        "check-derivative blur.iv --input data.npz --no-simplify",
        &format!("check-derivative mixed.iv {MIXED_INPUTS}"),
        &format!("check-derivative several.iv {SEVERAL_INPUTS}"),
    ] {
        let blocks = [
            ("reference", &["by the reference evaluator:"][..]),
            ("interpreter", &["by the kernel (interpreter):", KERNEL]),
        ];
        let mut all = vec![
            "  adjoint identity",
            "  Df dx by dual numbers",
            "  Df dx by complex step",
            "  Df dx by finite differences",
        ];
        all.extend((!command.contains("several")).then_some("  the identity with the gradient beside f x"));
        let holds = |out: &str, expected: &[&str]| {
            assert_eq!(out.lines().count(), expected.len(), "{command}\n{out}");
            for (line, start) in out.lines().zip(expected) {
                assert!(
                    line.starts_with(start) && line.contains("  holds (") != line.starts_with("by"),
                    "{command}\n{out}"
                );
            }
        };
        let both: Vec<&str> = blocks.iter().flat_map(|(_, head)| head.iter().chain(&all).copied()).collect();
        holds(&place.good(command), &both);
        for (engine, head) in blocks {
            holds(&place.good(&format!("{command} --engine {engine}")), &[head, all.as_slice()].concat());
        }
    }
    let out = place.good("check-derivative blur.iv --input data.npz --engine native");
    assert!(out.starts_with("by the kernel (") && out.matches("  holds (").count() == 6, "{out}");
    let out = place.good("check-derivative difference.iv --input x=x.csv --transpose");
    assert!(out.matches("  <dy, f x> = <f' dy, x>").count() == 2 && out.matches("  holds (").count() == 3, "{out}");
    for from in ["--implicit y=root_residual.iv", "--given y=root_forward.iv"] {
        let out = place.good(&format!("check-derivative root.iv --input x=x.csv --input y=x.csv --wrt x {from}"));
        assert_eq!(out.matches("  holds (").count(), 5, "{out}");
        assert_eq!(out.matches("not available: a parameter is computed outside of the program").count(), 6, "{out}");
    }
    // Branches a thousandth away from a kink, and at one.
    let ball = "param y : real  param v : real\nfst (fold t < 300, (y, v) = (y, v).
  let v = v - 0.0981 in let y = y + 0.01 * v in if y < 0 then (-y, -0.8 * v) else (y, v))\n";
    std::fs::write(place.path("ball.iv"), ball).expect("it is written");
    let out = place.good("check-derivative ball.iv --scalar y=1 --scalar v=0.5");
    assert!(
        out.matches("Df dx by finite differences").count() == 2 && !out.contains("not available: the program"),
        "{out}"
    );
    std::fs::write(place.path("kink.iv"), "param x : real\nrelu(x)\n").expect("it is written");
    let out = place.good("check-derivative kink.iv --scalar x=0");
    assert_eq!(
        out.matches("not available: the program has a kink here, where no step is short enough").count(),
        2,
        "{out}"
    );
    // Differences on both sides make up for each other there, and the complex step takes one side.
    std::fs::write(place.path("fold.iv"), "param x : [n] real\nsum i < n. abs(x[i])\n").expect("it is written");
    std::fs::write(place.path("zero.csv"), "0\n1\n-2\n").expect("it is written");
    let out = place.good("check-derivative fold.iv --input x=zero.csv");
    assert_eq!(out.matches("by complex step").count(), 2, "{out}");
    assert_eq!(out.matches("the program has a kink here, of which the step takes one side").count(), 2, "{out}");
    // A derivative that is wrong: the program's own function lies about it.
    std::fs::write(place.path("lie.iv"), "fun f(a) = a^2 with (a)\nparam x : real\nf(x)\n").expect("it is written");
    let Outcome { code, out, err } = place.run("check-derivative lie.iv --scalar x=3");
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    assert!(out.contains("adjoint identity") && out.contains("FAILS") && out.contains("holds"), "{out}");
}

#[test]
fn diagonals() {
    let place = Place::new();
    let run = "run root_residual.iv --input x=x.csv --input y=x.csv --derivative jacobian --diagonal";
    let expected = "jacobian_x: [3], norm 1.73205: -1.0 -1.0 -1.0\njacobian_y: [3], norm 7.48331: 2.0 4.0 6.0\n";
    for engine in ["reference", "interpreter", "native"] {
        assert_eq!(place.good(&format!("{run} --engine {engine}")), expected);
    }
    let out = place.good(&format!("{run} --wrt y --with-value --output results"));
    assert_eq!(out.lines().count(), 4, "{out}");
    assert!(place.path("results/jacobian_y.npy").exists() && !place.path("results/jacobian.mtx").exists());
}

#[test]
fn failures() {
    let place = Place::new();
    let cases = [
        // The program or its data is wrong.
        (1, "check bad.iv"),
        (1, "show bad.iv"),
        (1, "run bad.iv --scalar y=1"),
        (1, "check nowhere.iv"),
        (1, "show root.iv --given y=nowhere.iv --derivative gradient"),
        (1, "show root.iv --given y=bad.iv --derivative gradient"),
        (2, "show root.iv --given y --derivative gradient"),
        (2, "show root.iv --given y=root_forward.iv"),
        (2, "show blur.iv --strict"),
        (2, "run blur.iv --input data.npz --hint n=2"),
        (2, "show root.iv --given y=difference.iv --derivative gradient"),
        (2, "show root.iv --given q=root_forward.iv --derivative gradient"),
        (2, "show root.iv --implicit y=root.iv --derivative gradient"),
        (2, "check-derivative blur.iv --input data.npz --transpose"),
        (2, "run difference.iv --input x=x.csv --derivative jacobian --diagonal"),
        (2, "show blur.iv --derivative hessian --wrt w --columns x --diagonal"),
        (1, "check empty.csv"),
        (1, "run blur.iv"),
        (1, "run blur.iv --input x=nowhere.npy"),
        (1, "run blur.iv --input x=empty.csv"),
        (1, "run blur.iv --input x=x"),
        (1, "run blur.iv --input data.npz --input q=x.npy"),
        (2, "run blur.iv --input data.npz --scalar x=3"),
        (1, "run blur.iv --input data.npz --size n=3"),
        (1, "run blur.iv --input data.npz --size k=3"),
        (1, "run blur.iv --input data.npz --derivative adjoint --seed dy=x.csv"),
        (1, "run blur.iv --input data.npz --output x.csv/out"),
        (1, "run mixed.iv --input A=e.csv"),
        (1, "run free.iv --scalar x=1"),
        (1, "run free.iv --scalar x=1 --size n=1"),
        // The command line is wrong.
        (2, ""),
        (2, "chekc blur.iv"),
        (2, "check"),
        (2, "check blur.iv mixed.iv"),
        (2, "check --verbose blur.iv"),
        (2, "show blur.iv --stage tssa"),
        (2, "show blur.iv --format pdf"),
        (2, "show blur.iv --stage tensor-ssa --format latex"),
        (2, "show blur.iv --wrt w"),
        (2, "show blur.iv --derivation"),
        (2, "show blur.iv --cost --stage surface"),
        (2, "show blur.iv --constant x"),
        (2, "show blur.iv --stage loops --constant q"),
        (2, "show blur.iv --stage loops --after q"),
        (2, "show blur.iv --stage loops --after structure"),
        (2, "show blur.iv --after fuse"),
        (2, "show mixed.iv --stage loops --constant E"),
        (2, "show blur.iv --cost --derivative adjoint --derivation"),
        (2, "show blur.iv --derivative backward"),
        (2, "show blur.iv --derivative gradient --no-simplify --stage simplify"),
        (2, "show blur.iv --simplify --no-simplify"),
        (2, "show blur.iv --explain --no-simplify"),
        (2, "show blur.iv --no-simplify --strict"),
        (2, "show blur.iv --stage e-graph"),
        (2, "show blur.iv --simplify --hint n"),
        (2, "show blur.iv --simplify --hint n=-1"),
        (2, "show blur.iv --simplify --hint k=2"),
        (2, "show blur.iv --simplify --hint n=1 --hint n=2"),
        (2, "show blur.iv --simplify --nodes many"),
        (2, "show blur.iv --derivative forward --derivation"),
        (2, "show blur.iv --derivative adjoint --derivation --stage surface"),
        (2, "show blur.iv --derivative adjoint --derivation --format dot"),
        (2, "show blur.iv --derivative gradient --wrt v"),
        (2, "show blur.iv --derivative gradient --wrt w,w"),
        (2, "show blur.iv --derivative gradient --wrt="),
        (2, "show blur.iv --derivative gradient --wrt w,,x"),
        (2, "show blur.iv --gradient"),
        (2, "run blur.iv --hessian"),
        (2, "run sizes.iv n=3 --derivative gradient"),
        (1, "run sizes.iv n=2.5"),
        (1, "run blur.iv x=tabs.csv w=w.csv z=z.csv"),
        (1, "run blur.iv x=spaces.csv w=w.csv z=z.csv"),
        (1, "run mixed.iv data.npz"),
        (1, "run product.iv A=x.npy"),
        (1, "run targets.iv f=u.csv x=w.csv"),
        (2, "show mixed.iv --derivative gradient --wrt E"),
        (2, "show mixed.iv --derivative gradient --wrt ab.0"),
        (2, "show several.iv --derivative gradient"),
        (2, "run blur.iv --input x"),
        (2, "run blur.iv --input =x.npy"),
        (2, "run blur.iv --input x="),
        (2, "run blur.iv --input x=x.npy --input x=x.csv"),
        (2, "run free.iv --scalar x=one"),
        (2, "run free.iv --scalar x=1e999"),
        (2, "run free.iv --scalar x=1 --size n=2.5"),
        (2, "run blur.iv --seed dy=1"),
        (2, "run blur.iv --input data.npz --derivative adjoint"),
        (2, "run blur.iv --input data.npz --derivative forward --wrt w,x"),
        (2, "run blur.iv --input data.npz --derivative gradient --seed dy=1"),
        (2, "run blur.iv --input data.npz --derivative adjoint --seed dz=1"),
        (2, "run several.iv --input x=u.csv --derivative adjoint --seed dy.0=1"),
        (2, "run blur.iv --input data.npz --derivative adjoint --seed dy"),
        (2, "check-derivative blur.iv --input data.npz --wrt q"),
        (2, "check-derivative blur.iv --input data.npz --random x"),
        (2, "check-derivative blur.iv --input data.npz --engine gpu"),
        (2, "run blur.iv --input data.npz --input x=x.npy"),
        (2, "run product.iv --input A=a.mtx --input B=a.mtx --sparse value --engine reference"),
        (2, "run product.iv --input A=a.mtx --input B=a.mtx --sparse C"),
        (2, "run blur.iv --input data.npz --sparse value"),
        (2, "run blur.iv --input data.npz --derivative hessian --wrt w --sparse value"),
        (1, "run blur.iv --input x=wrong.csv --input data.npz"),
        (1, "run blur.iv --input x=blank.csv --input data.npz"),
    ];
    let mut all = String::new();
    for (code, command) in cases {
        let text = place.bad(command, code);
        all.push_str(&format!("$ iverson {command}\n{}\n[{code}]\n\n", text.trim_end()));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn colour_only_where_it_is_wanted() {
    let place = Place::new();
    for (arguments, coloured) in
        [("check bad.iv", false), ("check bad.iv --color never", false), ("--color always check bad.iv", true)]
    {
        let Outcome { code, out, err } = place.run(arguments);
        assert_eq!((code, out.as_str(), err.contains('\u{1b}')), (1, "", coloured), "{arguments}\n{err}");
    }
}

#[test]
fn headers_are_told() {
    let place = Place::new();
    let Outcome { code, out, err } = place.run("run blur.iv --input x=x.npy --input w=headed.csv --input z=z.csv");
    assert_eq!((code, out), (0, place.good(BLURRED)));
    assert_eq!(err, "note: headed.csv: the first line, `value`, is taken for a header\n");
}

#[test]
fn fixpoints_that_make_all_steps_are_noted() {
    let place = Place::new();
    let text = |most: usize| {
        format!("param a : real\nfixpoint s = 0 while abs(s - cos(a * s)) > 1e-10, at most {most}. cos(a * s)\n")
    };
    std::fs::write(place.path("few.iv"), text(5)).expect("it is written");
    std::fs::write(place.path("enough.iv"), text(500)).expect("it is written");
    for options in ["", "--derivative gradient", "--format json"] {
        let Outcome { code, err, .. } = place.run(&format!("run few.iv a=0.5 {options}"));
        assert_eq!((code, err.as_str()), (0, "note: the condition of the fixpoint still holds after 5 steps\n"));
        place.good(&format!("run enough.iv a=0.5 {options}"));
    }
}

/// A result whose pattern follows is written on that pattern.
#[test]
fn sparse_results() {
    let place = Place::new();
    let out = place.good("run product.iv --input A=a.mtx --input B=a.mtx --sparse value --output product");
    assert!(
        out.starts_with("value: [2, 2] csr with 2 entries, norm ") && out.contains("wrote product/value.mtx"),
        "{out}"
    );
    let product = read_value(place.path("product/value.mtx")).expect("it is read");
    let places = Coo::new(vec![2, 2], vec![vec![0, 1], vec![0, 0]], vec![25.0, 15.0]).expect("sorted");
    assert_eq!(product, FileValue::Csr(Csr::from_coo(&places).expect("a matrix")));
    // By columns inside, by rows in files.
    let text = "param A : csc [n, n] real\nparam B : csc [n, n] real\ngen i < n, j < n. sum k < n. A[i, k] * B[k, j]\n";
    std::fs::write(place.path("columns.iv"), text).expect("it is written");
    place.good("run columns.iv --input A=a.mtx --input B=a.mtx --sparse value --output columns");
    assert_eq!(read_value(place.path("columns/value.mtx")).expect("it is read"), product);
    let text = "param A : csc [n, n] real\nsum i < n, j < n. (1 + j) * A[i, j]^2\n";
    std::fs::write(place.path("weighted.iv"), text).expect("it is written");
    std::fs::write(place.path("c.mtx"), "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 5\n2 1 3\n1 2 7\n")
        .expect("it is written");
    for engine in ["reference", "interpreter", "native"] {
        let wanted = "--derivative gradient --wrt A --with-value";
        let out = place.good(&format!("run weighted.iv --input A=c.mtx {wanted} --engine {engine} --output {engine}"));
        assert!(out.contains("grad_A: [2, 2] csc with 3 entries"), "{out}");
        let gradient = read_value(place.path(&format!("{engine}/grad_A.mtx"))).expect("it is read");
        let columns = vec![vec![0, 0, 1], vec![0, 1, 0]];
        let places = Coo::new(vec![2, 2], columns, vec![10.0, 28.0, 6.0]).expect("sorted");
        assert_eq!(gradient, FileValue::Csr(Csr::from_coo(&places).expect("a matrix")));
    }
    let dense = place.good("run product.iv --input A=a.mtx --input B=a.mtx --output dense");
    assert!(dense.contains("wrote dense/value.npy"), "{dense}");
    assert_eq!(place.dense("dense/value.npy"), (vec![2, 2], vec![25.0, 0.0, 15.0, 0.0]));
    // Another number of axes, and a derivative.
    let gradient = "--derivative gradient --wrt A --with-value";
    std::fs::write(place.path("sum.iv"), "param T : coo [n, n, n] real\ngen i < n, j < n, k < n. T[i, k, j]^2\n")
        .expect("it is written");
    place.good("run sum.iv --input T=t.tns --sparse value --output turned");
    let turned = read_value(place.path("turned/value.tns")).expect("it is read");
    let columns = vec![vec![0, 1], vec![1, 0], vec![0, 1]];
    assert_eq!(turned, FileValue::Coo(Coo::new(vec![2, 2, 2], columns, vec![9.0, 1.0]).expect("sorted")));
    std::fs::write(
        place.path("norm.iv"),
        "param A : [n, n] real\nrel E : [n, n]\nsum i < n, j < n. [E(i, j)] * A[i, j]^2\n",
    )
    .expect("it is written");
    let out = place.good(&format!("run norm.iv --input A=e.csv --input E=e.csv {gradient} --sparse grad_A"));
    assert!(out.contains("grad_A: [2, 2] csr with 3 entries"), "{out}");
}

//! What brackets, patterns and empty sums mask does not get out, whatever it is, and zeros have the same sign everywhere.
//!
//! A table of programs and data: rows and columns without entries, guards, bands, relations, maps and sizes 0; at the places that nobody asks for
//! stand numbers that overflow, poles, infinities and NaN. Where the program as it stands is finite by the reference evaluator, so is what every
//! engine gives, simplified or not, with its gradient beside it or not, and equal to it; and where the gradient is finite as the rules of
//! differentiation give it, so is the simplified one.

use iverson::ir::reference;
use iverson::ir::simplify::{Options, Tier};
use iverson::ir::{reference::Environment, reference::Limits, reference::eval_term, term};
use iverson::kernel::Engine;
use iverson::tensor::{Csr, Dense, Inputs, Relation, Value};
use iverson::{Function, tensor::bind};
use iverson::{Mode, Request};

use crate::judge::{Expected, Ways};
use crate::kernels::numbers;
use crate::support::{compile, setting};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// An input of a program.
#[derive(Clone)]
enum Datum {
    Number(f64),
    Vector(&'static [f64]),
    Matrix(usize, usize, &'static [f64]),
    /// Rows, columns, and entries.
    Sparse(usize, usize, &'static [(usize, usize, f64)]),
    Relation([usize; 2], &'static [[usize; 2]]),
    Map(&'static [usize], usize),
}

use Datum::{Map, Matrix, Number, Relation as Tuples, Sparse, Vector};

/// What it shows, the program, by what it is differentiated, the data.
type Case = (&'static str, &'static str, &'static [&'static str], &'static [(&'static str, Datum)]);

/// A matrix with nothing in its first, third and last rows, nor in its second column.
const HOLES: Datum = Sparse(5, 3, &[(1, 0, 2.0), (1, 2, -1.0), (3, 0, 0.5)]);
const EMPTY: Datum = Sparse(5, 3, &[]);
/// Harmless in the rows that have entries.
const OVERFLOWS: Datum = Vector(&[1000.0, 0.5, 800.0, -0.25, 1e6]);
const SQUARES: Datum = Vector(&[1e200, 0.5, -1e200, -0.25, 1e300]);
const POLES: Datum = Vector(&[0.0, 0.5, 0.0, 2.0, -0.0]);
const LOST: Datum = Vector(&[NAN, 0.5, INF, 2.0, -INF]);

const CASES: &[Case] = &[
    (
        "NaN at a node of whose edges each fails a test",
        "map f : [e] -> [n]\nmap g : [e] -> [n]\nparam p : [n, k] real\nparam x : [n, d] real\nparam t : [n, k] real\nsum i < d, c < k. (sum o < e. if p[f(o), c] + p[g(o), c] > 0 then x[f(o), i] * t[g(o), c] else 0)^2",
        &["t"],
        &[
            ("f", Map(&[0, 0, 1, 2], 3)),
            ("g", Map(&[1, 2, 2, 0], 3)),
            ("p", Matrix(3, 2, &[1.0, 2.0, -3.0, -4.0, -1.0, 0.5])),
            ("x", Matrix(3, 2, &[1.0, 2.0, NAN, INF, 5.0, 6.0])),
            ("t", Matrix(3, 2, &[1.0, -2.0, 3.0, 4.0, -5.0, 6.0])),
        ],
    ),
    (
        "NaN where indices are the same",
        "param p : [n, n] real\nparam q : [n, m] real\nsum i < n, j < m. (sum k < n. [i != k] * p[i, k] * q[k, j])^2",
        &["p"],
        &[
            ("p", Matrix(3, 3, &[1.0, 2.0, 3.0, 4.0, NAN, 6.0, 7.0, 8.0, 9.0])),
            ("q", Matrix(3, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        ],
    ),
    (
        "NaN where a test of another tensor fails",
        "param t : [n, c] real\nparam X : [n, d] real\nsum i < c, j < d. (sum k < n. [t[k, i] > 0] * X[k, j])^2",
        &["X"],
        &[
            ("t", Matrix(3, 2, &[1.0, -1.0, -1.0, -1.0, -1.0, -1.0])),
            ("X", Matrix(3, 2, &[1.0, 2.0, NAN, 4.0, INF, 6.0])),
        ],
    ),
    (
        "NaN at the target of a map, and where a test fails",
        "param t : [n, c] real\nparam X : [n, d] real\nmap y : [n] -> [c]
         sum i < c, j < d. (sum k < n. [y(k) != i and t[k, i] > 0] * X[k, j])^2",
        &["X"],
        &[
            ("t", Matrix(3, 2, &[1.0, 1.0, -1.0, 1.0, -1.0, -1.0])),
            ("X", Matrix(3, 2, &[1.0, 2.0, NAN, 4.0, INF, 6.0])),
            ("y", Map(&[0, 1, 0], 2)),
        ],
    ),
    (
        "NaN and infinities in rows that no entry reads, in a product of matrices",
        "param S : csr [m, n] real\nparam X : [n, d] real\nparam W : [d, c] real
         sum i < m, k < c. (sum j < n. S[i, j] * (sum l < d. X[j, l] * W[l, k]))^2",
        &["W"],
        &[
            ("S", HOLES),
            ("X", Matrix(3, 2, &[1.0, 2.0, NAN, INF, 3.0, -1.0])),
            ("W", Matrix(2, 2, &[0.5, 1.0, -2.0, 3.0])),
        ],
    ),
    (
        "a product that overflows in rows that no entry reads, behind another product of matrices",
        "param S : csr [n, n] real\nparam X : [n, a] real\nparam W : [a, b] real\nparam V : [b, c] real
         let H = gen i < n, k < b. relu(sum j < n. S[i, j] * (sum l < a. X[j, l] * W[l, k])) in
         sum i < n, k < c. (sum j < n. S[i, j] * (sum l < b. H[j, l] * V[l, k]))^2",
        &["W", "V", "X"],
        &[
            ("S", Sparse(3, 3, &[(0, 0, 1.0), (0, 2, -2.0), (2, 0, 0.5)])),
            ("X", Matrix(3, 2, &[1.0, 2.0, 1e300, -1e300, 3.0, -1.0])),
            ("W", Matrix(2, 2, &[1e10, 1.0, -2e10, 3.0])),
            ("V", Matrix(2, 1, &[2.0, -3.0])),
        ],
    ),
    (
        "NaN behind the mask of a factor",
        "param x : [n, l] real\nparam p : [n, l] real\nparam q : [l, m] real\ngen i < n, j < m. sum k < l. [x[i, k] > 0] * p[i, k] * q[k, j]",
        &[],
        &[
            ("x", Matrix(2, 3, &[1.0, -1.0, -2.0, 0.5, 3.0, -1.0])),
            ("p", Matrix(2, 3, &[1.0, 2.0, NAN, 4.0, 5.0, 6.0])),
            ("q", Matrix(3, 2, &[1.0, 2.0, INF, 4.0, NAN, 6.0])),
        ],
    ),
    (
        "NaN behind a mask, of which the loss is made",
        "param x : [n, l] real\nparam p : [n, l] real\nparam q : [l, m] real\nlet t = gen i < n, j < m. sum k < l. [x[i, k] > 0] * p[i, k] * q[k, j]\nsum i < n, j < m. t[i, j]^2",
        &["p", "q"],
        &[
            ("x", Matrix(2, 3, &[1.0, -1.0, -2.0, 0.5, 3.0, -1.0])),
            ("p", Matrix(2, 3, &[1.0, 2.0, NAN, 4.0, 5.0, INF])),
            ("q", Matrix(3, 2, &[1.0, 2.0, 3.0, 4.0, NAN, 6.0])),
        ],
    ),
    (
        "NaN behind masks of a product and of what sums it",
        "param x : [n, l] real\nparam u : [n] real\nparam p : [n, l] real\nparam q : [l, m] real\nlet t = gen i < n, j < m. sum k < l. [x[i, k] > 0] * p[i, k] * q[k, j]\ngen j < m. sum i < n. [u[i] > 0] * t[i, j]",
        &[],
        &[
            ("x", Matrix(2, 3, &[1.0, -1.0, -2.0, 0.5, 3.0, -1.0])),
            ("u", Vector(&[-1.0, 2.0])),
            ("p", Matrix(2, 3, &[NAN, 2.0, NAN, 4.0, 5.0, 6.0])),
            ("q", Matrix(3, 2, &[1.0, 2.0, 3.0, 4.0, NAN, INF])),
        ],
    ),
    (
        "NaN behind the mask of a convolution",
        "param x : [h, w] real\nparam p : [h, w] real\nparam f : [3, 3] real\ngen i < h + 2, j < w + 2. sum a < 3, b < 3. [0 <= i - a and i - a < h and 0 <= j - b and j - b < w] * sum r < h, s < w. [r = i - a and s = j - b and x[i - a, j - b] > 0] * p[r, s] * f[a, b]",
        &[],
        &[
            ("x", Matrix(2, 3, &[1.0, -1.0, -2.0, 0.5, 3.0, -1.0])),
            ("p", Matrix(2, 3, &[1.0, 2.0, NAN, 4.0, 5.0, INF])),
            ("f", Matrix(3, 3, &[1.0, 2.0, 3.0, 4.0, NAN, 6.0, 7.0, 8.0, 9.0])),
        ],
    ),
    (
        "a layer that is off where its data are lost",
        "param x : [n, l] real\nparam p : [l] real\nparam q : [l, m] real\nlet z = gen i < n, k < l. relu(x[i, k] - p[k])\nsum i < n, j < m. (sum k < l. z[i, k] * q[k, j])^2",
        &["x", "q"],
        &[
            ("x", Matrix(2, 3, &[1.0, -1.0, -2.0, 0.5, 3.0, -1.0])),
            ("p", Vector(&[0.0, 0.5, 2.0])),
            ("q", Matrix(3, 2, &[1.0, 2.0, 3.0, 4.0, 1e200, -1e300])),
        ],
    ),
    (
        "an overflowing factor of empty rows",
        "param S : csr [n, m] real\nparam c : [n] real\nsum i < n, j < m. S[i, j] * exp(c[i])",
        &["S", "c"],
        &[("S", HOLES), ("c", OVERFLOWS)],
    ),
    (
        "nothing but empty rows",
        "param S : csr [n, m] real\nparam c : [n] real\nsum i < n, j < m. S[i, j] * exp(c[i])",
        &["S", "c"],
        &[("S", EMPTY), ("c", Vector(&[1000.0; 5]))],
    ),
    (
        "a term that is not multiplied by the entries",
        "param S : csr [n, m] real\nparam c : [n] real\nsum i < n, j < m. [S?(i, j)] * (S[i, j] * c[i] - exp(c[i]))",
        &["c"],
        &[("S", HOLES), ("c", OVERFLOWS)],
    ),
    (
        "squares of a factor of empty rows",
        "param S : csr [n, m] real\nparam c : [n] real\nsum i < n, j < m. S[i, j] * c[i]^2",
        &["S", "c"],
        &[("S", HOLES), ("c", SQUARES)],
    ),
    (
        "a pole in empty rows",
        "param S : csr [n, m] real\nparam c : [n] real\nsum i < n, j < m. [S?(i, j)] * (S[i, j] / c[i] + ln(abs(c[i])))",
        &["S", "c"],
        &[("S", HOLES), ("c", POLES)],
    ),
    (
        "NaN in empty rows",
        "param S : csr [n, m] real\nparam c : [n] real\nparam x : [m] real\nsum i < n, j < m. S[i, j] * x[j] * c[i]",
        &["S", "c", "x"],
        &[("S", HOLES), ("c", LOST), ("x", Vector(&[1.0, NAN, 3.0]))],
    ),
    (
        "rows times an invariant, as a vector",
        "param S : csr [n, m] real\nparam c : [n] real\nparam x : [m] real\ngen i < n. sum j < m. c[i] * S[i, j] * x[j]",
        &[],
        &[("S", HOLES), ("c", LOST), ("x", Vector(&[1.0, NAN, 3.0]))],
    ),
    (
        "columns times an invariant",
        "param S : csr [n, m] real\nparam c : [n] real\nparam x : [m] real\nsum j < m. (sum i < n. exp(x[j]) * S[i, j] * c[i])^2",
        &["S", "c", "x"],
        &[("S", HOLES), ("c", LOST), ("x", Vector(&[1.0, 1000.0, 3.0]))],
    ),
    (
        "a test of a number around a product",
        "param S : csr [n, k] real\nparam T : csr [n, k] real\nexp([T[0, 0] >= 1] * (sum i < k. T[i, 1] * S[i, i]))",
        &["S", "T"],
        &[
            ("S", Sparse(3, 2, &[(0, 0, INF), (1, 1, NAN)])),
            ("T", Sparse(3, 2, &[(0, 0, 0.5), (0, 1, 2.0), (1, 1, 3.0)])),
        ],
    ),
    (
        "an `or` that leaves nothing of a sum",
        "param x : [n] real\nparam a : [m] real\nparam b : [k] real\n(sum i < m. [(k = 0 or 0 < i) and 1 <= n] * (sqrt(x[0]) * a[i])) + (sum l < k. b[l])",
        &["x", "a"],
        &[("x", Vector(&[NAN])), ("a", Vector(&[1.0])), ("b", Vector(&[1.0, 2.0]))],
    ),
    (
        "a size that keeps a read in its axis, and a pole at what is read",
        "param x1 : [2*k, m + n] real\nparam x2 : [k, n] real\nparam x3 : csr [2*k, k] real\nparam z : real\nlet t4 = gen i5 < m. gen i6 < m. let t7 = gen i8 < m. [x3?(i8 + 2*i5, 2*i5 + 3*i8)] * 1 in ([0 <= i6 - 2] * 1)^-1 * (t7[i6] + [i6 + 3 < 2*k] * x1[i6 + 3, 0]) in z * [3 < m] * t4[3, 0]",
        &["x1"],
        &[
            ("x1", Matrix(4, 4, &[1.0; 16])),
            ("x2", Matrix(2, 2, &[1.0; 4])),
            ("x3", Sparse(4, 2, &[(0, 1, 1.0), (2, 0, 1.0)])),
            ("z", Number(2.0)),
        ],
    ),
    (
        "a factor that is 0 at one place only",
        "param u : [n] real\nparam v : [n] real\nlet y = gen i < n. [i + 2 < n] * exp(v[i]) in\n(gen i < n. [n >= 4 and i = 1] * u[i] * y[i], sum i < n. y[i])",
        &[],
        &[("u", Vector(&[1.0, NAN, 2.0])), ("v", Vector(&[1.0, 2.0, 3.0]))],
    ),
    (
        "a triangle whose first row is empty",
        "param u : [n] real\nparam v : [m] real\nsum i < n, j < m. [j < i] * u[i]^2 * v[j]^2",
        &["u", "v"],
        &[("u", Vector(&[1e200, 1.0, 2.0])), ("v", Vector(&[1.0, 2.0, NAN, INF]))],
    ),
    (
        "a band with nothing at its ends",
        "param u : [n] real\nparam v : [n] real\nsum i < n, j < n. [i + 2 <= j and j <= i + 3] * exp(u[i]) * v[j]",
        &["u", "v"],
        &[("u", Vector(&[1.0, 2.0, 1000.0, NAN])), ("v", Vector(&[NAN, INF, 3.0, 4.0]))],
    ),
    (
        "a guard on a relation",
        "param u : [n] real\nparam v : [m] real\nrel E : [n, m]\nsum i < n, j < m. [E(i, j)] * u[i] * v[j]",
        &["u", "v"],
        &[("u", Vector(&[NAN, 1.0, INF])), ("v", Vector(&[1.0, NAN])), ("E", Tuples([3, 2], &[[1, 0]]))],
    ),
    (
        "rows in which something exists",
        "param u : [n] real\nrel E : [n, m]\nsum i < n. [exists j < m. E(i, j)] * exp(u[i])",
        &["u"],
        &[("u", Vector(&[1000.0, 1.0, NAN])), ("E", Tuples([3, 2], &[[1, 0], [1, 1]]))],
    ),
    (
        "targets of a map that have no source",
        "param u : [n] real\nparam v : [m] real\nmap f : [n] -> [m]\nsum j < m, i < n. [f(i) = j] * exp(v[j]) * u[i]",
        &["u", "v"],
        &[("u", Vector(&[1.0, 2.0, 3.0])), ("v", Vector(&[1.0, 1000.0, NAN, 2.0])), ("f", Map(&[0, 3, 0], 4))],
    ),
    (
        "a guard that keeps a pole out",
        "param x : [n] real\nsum i < n, j < n. [i != j] * (1 / (x[i] - x[j])^2)",
        &["x"],
        &[("x", Vector(&[1.0, 2.0, 4.0]))],
    ),
    (
        "a common factor under two guards",
        "param x : [n] real\nparam y : [n] real\nsum i < n, j < n. [i < j] * x[i] * y[j] + [j + 1 < i] * x[i] * y[i]",
        &["x", "y"],
        &[("x", Vector(&[1.0, 2.0, 3.0])), ("y", Vector(&[NAN, 2.0, 3.0]))],
    ),
    (
        "a comparison that decides",
        "param x : [n] real\nparam y : [n] real\nsum i < n. [x[i] > 0] * x[i] * exp(y[i])",
        &["x", "y"],
        &[("x", Vector(&[1.0, -2.0, 0.0])), ("y", Vector(&[1.0, 1000.0, NAN]))],
    ),
    (
        "a range that is empty",
        "param u : [n] real\nparam v : [m] real\nsum i < n, j < m. u[i]^2 * v[j]^2",
        &["u", "v"],
        &[("u", Vector(&[1e200, NAN])), ("v", Vector(&[]))],
    ),
    (
        "rows of length 0",
        "param A : [n, m] real\nparam x : [m] real\nparam c : [n] real\nsum i < n. exp(c[i]) * (sum j < m. A[i, j] * x[j])",
        &["A", "x"],
        &[("A", Matrix(2, 0, &[])), ("x", Vector(&[])), ("c", Vector(&[1000.0, NAN]))],
    ),
    (
        "a matrix without rows",
        "param A : [n, m] real\nparam x : [m] real\nsum i < n, j < m. A[i, j] * x[j]^2",
        &["A", "x"],
        &[("A", Matrix(0, 2, &[])), ("x", Vector(&[1e200, INF]))],
    ),
    (
        "a range that is too short for a shift",
        "param u : [n] real\nparam v : [m] real\nsum i < n, j < m - 2. u[i] * v[j + 2]",
        &["u", "v"],
        &[("u", Vector(&[NAN])), ("v", Vector(&[INF, 1.0]))],
    ),
];

fn inputs(data: &[(&str, Datum)]) -> Inputs {
    let mut inputs = Inputs::new();
    for (name, datum) in data {
        match datum {
            Number(x) => inputs.value(*name, Value::scalar(*x)),
            Vector(x) => inputs.value(*name, Value::vector(x.to_vec())),
            Matrix(n, m, x) => inputs.value(*name, Dense::new(&[*n, *m], x.to_vec()).expect("it fits")),
            Sparse(n, m, entries) => {
                let starts = (0..=*n).map(|i| entries.iter().filter(|(row, ..)| *row < i).count()).collect();
                let columns = entries.iter().map(|(_, j, _)| *j as u32).collect();
                let values = entries.iter().map(|(.., x)| *x).collect();
                inputs.value(*name, Csr::new(*n, *m, starts, columns, values).expect("sorted and unique"))
            }
            Tuples(shape, tuples) => inputs.relation(*name, Relation::from_tuples(shape, tuples).expect("sorted")),
            Map(targets, n) => {
                inputs.relation(*name, Relation::from_map(&[targets.len()], targets.to_vec(), *n).expect("in range"))
            }
        };
    }
    inputs
}

/// What the reference evaluators and the interpreter give, and native code where it is asked for.
fn engines(function: &Function, inputs: &Inputs, native: bool) -> Vec<(&'static str, Vec<f64>)> {
    let program = function.meant();
    let mut found = vec![("reference", numbers(&reference::evaluate(program, inputs).expect("it runs")))];
    let kernel = |engine| {
        let kernel = function
            .kernel(inputs)
            .as_written()
            .engine(engine)
            .build()
            .unwrap_or_else(|error| panic!("{error}\n{program}"));
        numbers(&kernel.call(inputs).expect("it runs"))
    };
    found.push(("interpreter", kernel(Engine::Interpreter)));
    if native {
        found.push(("native", kernel(Engine::Native)));
    }
    found
}

/// A program as it was written, and what it is run on.
fn source(function: &Function, inputs: &Inputs) -> (term::Program, Environment<f64>) {
    let program = function.term().expect("it has a source");
    let bindings = bind(&program.signature, inputs).expect("they fit");
    let environment = Environment::from_bindings(&bindings).expect("they fit");
    (program, environment)
}

/// What a program means as it was written.
fn as_written(function: &Function, inputs: &Inputs) -> Vec<f64> {
    let (program, environment) = source(function, inputs);
    let leaves = eval_term::evaluate::<f64>(&program, &environment, Limits::default()).expect("it runs");
    leaves.iter().flat_map(|leaf| leaf.values().to_vec()).collect()
}

/// What the statements of a function give.
fn expected(function: &Function, inputs: &Inputs) -> Expected {
    Expected::of(function.tensor_ssa(), inputs).expect("it is evaluated")
}

fn options(tier: Tier) -> Options {
    Options { tier, ..Options::default() }
}

#[test]
fn masked_numbers_stay_behind_their_masks() {
    let native = setting("IVERSON_STRONG_ZEROS_NATIVE", true);
    let mut wrong = Vec::new();
    for (what, text, wrt, data) in CASES {
        let function = compile(text);
        let inputs = inputs(data);
        let written = expected(&function, &inputs);
        let (term, environment) = source(&function, &inputs);
        let term = Expected::of_term(&term, &environment).expect("it is evaluated");
        let values = written.values();
        term.compare("as statements", &values, Ways::Raw).unwrap_or_else(|complaint| panic!("{what}: {complaint}"));
        assert!(values.iter().any(|x| x.is_finite()), "{what}: nothing is asked for: {values:?}");
        let mut judge = |form: &str, expected: &Expected, function: &Function, ways: Ways| {
            // Of the forms that are run as a rule: compiling takes its time.
            let native = native && ["as it is", "gradient"].contains(&form);
            for (engine, found) in engines(function, &inputs, native) {
                if let Err(complaint) = expected.compare(engine, &found, ways) {
                    wrong.push(format!("{what}, {form}: {complaint}\n{}", function.tensor_ssa()));
                }
            }
        };
        judge("as it is", &written, &function, Ways::Raw);
        for (form, tier) in [("simplified", Tier::Finite), ("strict", Tier::Exact)] {
            let simplified = function.simplify_with(&options(tier)).expect("it simplifies").function;
            judge(form, &written, &simplified, Ways::Simplified);
        }
        if wrt.is_empty() {
            continue;
        }
        let request = || Request { with_value: true, ..Request::new(Mode::Gradient, wrt) };
        let derived = |request: &Request| function.derive(request).expect("it has a gradient");
        let raw = derived(&request().raw()).function;
        let given = expected(&raw, &inputs);
        let beside = written.compare("beside the gradient", &given.values()[..values.len()], Ways::Raw);
        beside.unwrap_or_else(|complaint| panic!("{what}: {complaint}"));
        judge("raw gradient", &given, &raw, Ways::Raw);
        judge("gradient", &given, &derived(&request()).function, Ways::Simplified);
        let strict = raw.simplify_with(&options(Tier::Exact)).expect("it simplifies").function;
        judge("strict gradient", &given, &strict, Ways::Simplified);
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A program, its data, and the numbers that it gives.
type SignCase = (&'static str, &'static [(&'static str, Datum)], &'static [f64]);

/// Programs that show the signs of zeros, and what they give: by a division, or an angle.
const SIGNS: &[SignCase] = &[
    // A sum begins with 0, however many summands it has.
    ("param x : [n] real\n1 / (sum i < n. x[i])", &[("x", Vector(&[-0.0]))], &[INF]),
    ("param x : [n] real\n1 / (sum i < n. x[i])", &[("x", Vector(&[-0.0, -0.0, -0.0]))], &[INF]),
    ("param x : [n] real\natan2((sum i < n. x[i]), -1)", &[("x", Vector(&[-0.0, -0.0]))], &[std::f64::consts::PI]),
    ("param x : [n] real\n1 / (sum i < n. x[i])", &[("x", Vector(&[]))], &[INF]),
    // In rows that become straight-line code too.
    (
        "param x : [n, 3] real\nparam w : [p] real\nmap f : [p] -> [n]
         let s = gen o < p, a < 3. sum b < 3. [b <= a] * (x[f(o), b] + w[o]) * (x[f(o), a] + 2)
         let t = gen o < p, a < 3. sum b < 3. [a <= b + 1] * s[o, b] * (x[f(o), a] + b + 1)
         let u = gen o < p, a < 3. sum b < 3. [a != b] * s[o, a] * t[o, b]
         gen o < p, e < 2. 1 / (sum a < 3. [e <= a] * x[f(o), a] * (s[o, a] + t[o, a] * u[o, a]))",
        &[("x", Matrix(1, 3, &[-0.0; 3])), ("w", Vector(&[1.0; 9])), ("f", Map(&[0; 9], 1))],
        &[INF; 18],
    ),
    // Of few terms, of one, along a window, and in a product of matrices.
    ("param x : [n, 2] real\ngen i < n. 1 / (sum k < 2. x[i, k])", &[("x", Matrix(9, 2, &[-0.0; 18]))], &[INF; 9]),
    ("param x : [n, 1] real\ngen i < n. 1 / (sum k < 1. x[i, k])", &[("x", Matrix(9, 1, &[-0.0; 9]))], &[INF; 9]),
    ("param x : [n] real\ngen i < n - 2. 1 / (sum k < 3. x[i + k])", &[("x", Vector(&[-0.0; 20]))], &[INF; 18]),
    (
        "param x : [n, n] real\nparam f : [3, 3] real\ngen i < n - 2, j < n - 2. 1 / (sum a < 3, b < 3. x[i + a, j + b] * f[a, b])",
        &[("x", Matrix(12, 12, &[-0.0; 144])), ("f", Matrix(3, 3, &[1.0; 9]))],
        &[INF; 100],
    ),
    (
        "param a : [n, m] real\nparam b : [m, n] real\ngen i < n, j < n. 1 / (sum k < m. a[i, k] * b[k, j])",
        &[("a", Matrix(20, 2, &[-0.0; 40])), ("b", Matrix(2, 20, &[1.0; 40]))],
        &[INF; 400],
    ),
    // One that has one summand by accident is none that has it by an equation.
    ("param x : [n] real\n1 / (sum i < n. [i < 1] * x[i])", &[("x", Vector(&[-0.0, 1.0]))], &[INF]),
    ("param x : [n] real\ngen i < n. 1 / (sum k < n. [2 * k = i] * x[k])", &[("x", Vector(&[-0.0, 1.0]))], &[INF, INF]),
    // An access keeps -0, as a sum with an equation too.
    ("param x : [n] real\ngen i < n - 1. 1 / x[i + 1]", &[("x", Vector(&[0.0, -0.0]))], &[-INF]),
    (
        "param x : [n] real\ngen i < n. 1 / (sum k < n. [k = i + 1] * x[k])",
        &[("x", Vector(&[0.0, -0.0]))],
        &[-INF, INF],
    ),
    ("param x : [n] real\n1 / (sum i < n, k < n. [k = 1 and i = k] * x[i])", &[("x", Vector(&[0.0, -0.0]))], &[-INF]),
    (
        "param x : [m] real\nmap f : [n] -> [m]\ngen i < n. 1 / x[f(i)]",
        &[("x", Vector(&[0.0, -0.0])), ("f", Map(&[1, 0], 2))],
        &[-INF, INF],
    ),
    (
        "param x : [m] real\nmap f : [n] -> [m]\ngen i < n. 1 / (sum k < m. [f(i) = k] * x[k])",
        &[("x", Vector(&[0.0, -0.0])), ("f", Map(&[1, 0], 2))],
        &[-INF, INF],
    ),
    // Where the brackets of the terms leave one summand, the sum is none by an equation of its own, and begins with 0.
    (
        "param x : [n] real\ngen i < n. 1 / (sum j < n. x[j] * [j = i] + x[j] * [j = i])",
        &[("x", Vector(&[-0.0, 0.0, 1.0]))],
        &[INF, INF, 0.5],
    ),
    (
        "param x : [n] real\nlet y = gen i < n, j < n. [j = i] * x[j] in\ngen i < n. 1 / (sum j < n. y[i, j] + y[i, j])",
        &[("x", Vector(&[-0.0, 1.0]))],
        &[INF, 0.5],
    ),
    (
        "param x : [n] real\ngen i < n. 1 / (sum j < n. [j = i] * (x[j] + x[j]))",
        &[("x", Vector(&[-0.0, 1.0]))],
        &[-INF, 0.5],
    ),
    (
        "param x : [m] real\nmap f : [n] -> [m]\ngen i < n. 1 / (sum j < m. x[j] * [f(i) = j] + x[j] * [f(i) = j])",
        &[("x", Vector(&[1.0, -0.0])), ("f", Map(&[1, 0], 2))],
        &[INF, 0.5],
    ),
    (
        "param x : [n] real\ngen i < n. 1 / ((sum j < n. [j = i] * x[j]) + (sum j < n. [j = i] * x[j]))",
        &[("x", Vector(&[-0.0, 1.0]))],
        &[-INF, 0.5],
    ),
    // A bracket that fails is 0, and is added as such.
    ("param x : [n] real\ngen i < n. 1 / ([i >= 1] * x[i])", &[("x", Vector(&[-0.0, -0.0]))], &[INF, -INF]),
    ("param x : [n] real\ngen i < n. 1 / ([i >= 1] * x[i] + x[i])", &[("x", Vector(&[-0.0, -0.0]))], &[INF, -INF]),
    ("param x : [n] real\ngen i < n. 1 / (-x[i])", &[("x", Vector(&[0.0, -0.0]))], &[-INF, INF]),
    (
        "param S : csr [n, m] real\ngen i < n. 1 / (sum j < m. S[i, j])",
        &[("S", Sparse(3, 2, &[(0, 0, -0.0), (1, 0, -0.0), (1, 1, -0.0)]))],
        &[INF, INF, INF],
    ),
];

#[test]
fn zeros_have_the_same_sign_everywhere() {
    let native = setting("IVERSON_STRONG_ZEROS_NATIVE", true);
    let mut wrong = Vec::new();
    for (text, data, expected) in SIGNS {
        let function = compile(text);
        let inputs = inputs(data);
        let strict = function.simplify_with(&options(Tier::Exact)).expect("it simplifies").function;
        let mut found = vec![("term", as_written(&function, &inputs))];
        found.extend(engines(&function, &inputs, native));
        found.extend(engines(&strict, &inputs, native).into_iter().map(|(_, numbers)| ("strict", numbers)));
        for (engine, numbers) in found {
            if numbers != *expected {
                let nests = function.loops_for(&inputs).expect("it lowers");
                wrong.push(format!("{engine}: {numbers:?} in place of {expected:?}\n{text}\n{nests}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

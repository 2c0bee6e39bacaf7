//! Jacobians and Hessians, their supports, Gauss-Newton matrices and products, and transposition, against columns that are probed one by one.
//!
//! `cargo test` judges some programs; thousands, with counts printed:
//!
//! ```text
//! cargo test --release --test it jacobians::full -- --ignored --nocapture
//! ```
//!
//! `IVERSON_PROGRAMS` sets how many and `IVERSON_SEED` the first seed.

mod matrices;
mod transposition;

use std::collections::{BTreeMap, BTreeSet};

use iverson::ir::base::ParamId;
use iverson::ir::certificate::compare_work;
use iverson::ir::diff::{self, Jacobian, Options, Seed, Sweep};
use iverson::ir::driver::{Stage, Staged, lower};
use iverson::ir::index::{Pred, RelationRef};
use iverson::ir::reference::check::extend;
use iverson::ir::reference::{Environment, Leaf, Numeric, Rounded};
use iverson::ir::stages::{Stages, check};
use iverson::ir::surface;
use iverson::ir::tssa::{Builder, Operand, Output, Program};
use iverson::ir::ty::{Storage, Types};
use iverson::kernel::Engine;
use iverson::tensor::{Inputs, Tensor};
use iverson::{Function, Mode, Request};

use crate::generate;
use crate::judge::{Expected, Ways, numbers_as};
use crate::support::{Numbers, environment, evaluate, flat, inputs, setting};

/// A relation that does not hold, in words.
type Judgement = Result<(), String>;

/// A matrix, row by row, with a bound on the error of each number.
type Matrix = Vec<Vec<Rounded>>;

fn words(error: iverson::Error) -> String {
    error.to_string()
}

/// The place in row-major order of each element that a leaf stores.
pub fn places<T>(leaf: &Leaf<T>) -> Vec<usize> {
    match leaf.pattern() {
        None => (0..leaf.values().len()).collect(),
        Some(pattern) => {
            let place = |tuple: Vec<usize>| tuple.iter().zip(pattern.shape()).fold(0, |place, (k, n)| place * n + k);
            pattern.tuples().map(|tuple| place(tuple.to_vec())).collect()
        }
    }
}

/// How many elements a leaf has, stored or not.
pub fn volume<T>(leaf: &Leaf<T>) -> usize {
    match leaf.pattern() {
        None => leaf.values().len(),
        Some(pattern) => pattern.shape().iter().product(),
    }
}

/// The Jacobian of each output leaf by each parameter leaf, column by column with the forward derivative: by output, then by parameter.
fn probed(program: &Program, wrt: &[ParamId], at: &Environment<f64>) -> Result<Vec<Matrix>, String> {
    let forward = diff::forward(program, wrt, false).map_err(words)?;
    let derivative = diff::expand_partials(&forward.program).map_err(words)?;
    let zeros = |leaves: &[Leaf<f64>]| -> Vec<Leaf<f64>> {
        leaves.iter().map(|leaf| leaf.map(|_| Ok(0.0)).expect("nothing fails")).collect()
    };
    let outputs = evaluate(program, at).map_err(words)?;
    let mut columns = Vec::new();
    for x in wrt {
        columns.extend(at.param(*x).map_err(words)?.iter().enumerate().map(|(k, leaf)| (*x, k, leaf)));
    }
    let zero = |row: &Leaf<f64>, column: &Leaf<f64>| vec![vec![Rounded::new(0.0); volume(column)]; volume(row)];
    let mut blocks: Vec<Matrix> =
        outputs.iter().flat_map(|row| columns.iter().map(|(_, _, column)| zero(row, column))).collect();
    for (column, (x, k, leaf)) in columns.iter().enumerate() {
        for (stored, place) in places(leaf).into_iter().enumerate() {
            let mut additions = Vec::new();
            for (y, dy) in &forward.tangents {
                let mut tangents = zeros(at.param(*y).map_err(words)?);
                if y == x {
                    let mut at = 0;
                    let one = |_: &f64| {
                        at += 1;
                        Ok(if at == stored + 1 { 1.0 } else { 0.0 })
                    };
                    tangents[*k] = tangents[*k].map(one).map_err(words)?;
                }
                additions.push((*dy, tangents));
            }
            let along = extend(&derivative.signature, at, &additions).map_err(words)?;
            let along = numbers_as(&along, Rounded::new);
            for (row, result) in evaluate(&derivative, &along).map_err(words)?.iter().enumerate() {
                for (x, at) in result.values().iter().zip(places(result)) {
                    blocks[row * columns.len() + column][at][place] = *x;
                }
            }
        }
    }
    Ok(blocks)
}

/// The results of a program, flat.
fn results(program: &Program, at: &Environment<f64>) -> Result<Vec<Vec<f64>>, String> {
    Ok(evaluate(program, at).map_err(words)?.into_iter().map(|leaf| flat(&[leaf])).collect())
}

/// Blocks are as expected.
fn agree(what: &str, found: &[Vec<f64>], expected: &[Matrix]) -> Judgement {
    if found.len() != expected.len() {
        return Err(format!("{what}: {} blocks and {}", found.len(), expected.len()));
    }
    found.iter().zip(expected).try_for_each(|(found, expected)| {
        Expected::from(expected.concat()).compare(what, found, Ways::Simplified).map(|_| ())
    })
}

/// `sum of f^2` over all elements of all outputs.
pub fn energy(program: &Program) -> iverson::Result<Program> {
    let mut builder = Builder::resume(program);
    let mut total = builder.number(&[], iverson::ir::scalar::Number::Literal(0.0))?;
    for x in program.outputs.iter().flat_map(|output| &output.leaves) {
        let sums = builder.fresh_indices(&program.stmts[*x].dims);
        let operand = Operand { var: *x, indices: sums.iter().map(|(i, _)| *i).collect() };
        let square = builder.contract(&[], &sums, Pred::True, vec![operand.clone(), operand])?;
        total = builder.add(&[], [(Pred::True, total), (Pred::True, square)])?;
    }
    let name = "value".to_owned();
    builder.finish(vec![Output { name, ty: Types::REAL, storage: Storage::Dense, leaves: vec![total] }]).prune()
}

/// What a campaign saw.
#[derive(Default)]
struct Report {
    judged: BTreeMap<&'static str, usize>,
    entries: usize,
    places: usize,
    /// Entries of patterns that were zero at all points tried, of programs whose guards compare numbers: another point may be another case.
    conditional: usize,
    /// The same where a size is 0 or a relation is empty.
    degenerate: usize,
    /// The same elsewhere: entries that are zero for all inputs.
    loose: usize,
    loosest: Vec<String>,
    /// Programs of which nothing more is judged: rounding decides a test, or a pattern is beyond a limit of work.
    left: usize,
    failures: Vec<String>,
}

impl Report {
    fn judge(&mut self, relation: &'static str, judgement: Judgement) -> Judgement {
        *self.judged.entry(relation).or_default() += 1;
        judgement.map_err(|complaint| format!("{relation}: {complaint}"))
    }

    fn print(&self) {
        for (relation, count) in &self.judged {
            println!("  {relation}: {count} judged");
        }
        let Report { entries, places, conditional, degenerate, loose, .. } = self;
        println!(
            "  {entries} entries of {places} places; zero at all points: {conditional} in programs that compare numbers,"
        );
        println!("  {degenerate} where a size is 0 or a relation is empty, {loose} others");
        println!("  {} programs where rounding decides a test, or a limit of work is met", self.left);
        self.loosest.iter().take(3).for_each(|text| println!("LOOSE {text}"));
        self.failures.iter().take(10).for_each(|text| println!("FAILURE {text}"));
    }
}

/// Points of the parameters, real ones and integers by turns, with the sizes and relations of some inputs.
fn points(given: &Environment<f64>, seed: u64, count: u64) -> Vec<Environment<f64>> {
    let mut all = vec![given.clone()];
    for k in 1..count {
        let mut numbers = Numbers::new(seed ^ k, k % 2 == 0);
        all.push(given.map(|_, _, leaf| leaf.map(|_| Ok(numbers.next()))).expect("nothing fails"));
    }
    all
}

/// Whether a guard reads a relation that is computed from numbers.
fn compares(program: &Program) -> bool {
    let mut found = false;
    for guard in program.stmts.values().flat_map(|stmt| stmt.rhs.guards()) {
        guard.visit_relations(&mut |r| found |= matches!(r, RelationRef::Computed { .. }));
    }
    found
}

/// The supports of the results of a program, by place, and where they are not zero at some of several points.
fn support(report: &mut Report, function: &Function, given: &Inputs, at: &[Environment<f64>], what: &str) -> Judgement {
    let tensors = function.tensor_ssa().outputs.iter().filter(|output| output.ty != Types::REAL);
    let names: Vec<&str> = tensors.map(|output| output.name.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let kernel = function.assemble(&names).and_then(|a| a.bind(given, Engine::Interpreter)).map_err(words)?;
    let computed = kernel.call(given).map_err(words)?;
    let mut alive: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); computed.len()];
    for environment in at {
        for (alive, values) in alive.iter_mut().zip(results(function.tensor_ssa(), environment)?) {
            alive.extend(values.iter().enumerate().filter(|(_, x)| **x != 0.0).map(|(place, _)| place));
        }
    }
    let here = evaluate(function.tensor_ssa(), &numbers_as(&at[0], Rounded::new)).map_err(words)?;
    let here: Vec<Vec<Rounded>> = here.iter().map(|leaf| leaf.values().to_vec()).collect();
    for (k, (name, value)) in computed.iter().enumerate().filter(|(_, (name, _))| names.contains(&name.as_str())) {
        let (pattern, data) = match value.leaves()[0].as_ref() {
            Tensor::Csr(csr) => (csr.pattern().relation(), csr.data()),
            Tensor::Coo(coo) => (coo.pattern(), coo.data()),
            Tensor::Csc(_) | Tensor::Dense(_) => return Err(format!("{name} is {}", value.leaves()[0].format())),
        };
        let shape = pattern.shape();
        let mut dense = vec![0.0; shape.iter().product()];
        let mut stored = BTreeSet::new();
        for (tuple, x) in pattern.tuples().zip(data) {
            let place = tuple.iter().zip(shape).fold(0, |place, (k, n)| place * n + k);
            dense[place] = *x;
            stored.insert(place);
        }
        if let Some(place) = alive[k].difference(&stored).next() {
            return Err(format!("{name} is not zero at place {place}, which its pattern misses\n{function}"));
        }
        agree("assembled values", &[dense], &[vec![here[k].clone()]])?;
        let loose = stored.difference(&alive[k]).count();
        (report.entries, report.places) = (report.entries + stored.len(), report.places + here[k].len());
        if compares(function.tensor_ssa()) {
            report.conditional += loose;
        } else if at[0].sizes.contains(&0) || at[0].relations.iter().any(|relation| relation.is_empty()) {
            report.degenerate += loose;
        } else if loose > 0 {
            report.loose += loose;
            report.loosest.push(format!("{what}: {name}, {loose} of {}\n{function}", stored.len()));
        }
    }
    Ok(())
}

fn judge(report: &mut Report, seed: u64) -> Judgement {
    let smooth = seed % 4 == 3;
    let generated = generate::program(seed, smooth);
    let source = surface::read(&generated.text, &[]).map_err(words)?;
    let mut numbers = Numbers::new(seed ^ 0xacab, !smooth);
    let given = inputs(&generated, &mut numbers);
    let (_, environment) = environment(&source, &given).map_err(words)?;
    let Staged::TensorSsa(program) = lower(&source, Stage::TensorSsa, &mut Stages::new()).map_err(words)? else {
        return Err("no Tensor-SSA".to_owned());
    };
    let wrt: Vec<ParamId> = program.signature.params.ids().collect();
    if wrt.is_empty() {
        return Ok(());
    }
    let expected = probed(&program, &wrt, &environment)?;
    let of = |program: &Program, sweep, of| {
        let how = Jacobian { sweep, of, ..Jacobian::default() };
        let jacobian = diff::jacobian(program, &[], &wrt, how, &compare_work).map_err(words)?.0;
        check("jacobian", &jacobian).map_err(|e| format!("{e}\n{jacobian}"))?;
        Ok::<Program, String>(jacobian)
    };
    let mut cheapest = None;
    for (relation, sweep) in [("by columns", Sweep::Forward), ("by rows", Sweep::Adjoint)] {
        let jacobian = of(&program, sweep, None)?;
        let found = results(&jacobian, &environment)?;
        let judgement = agree("jacobian", &found, &expected).map_err(|e| format!("{e}\n{jacobian}"));
        report.judge(relation, judgement)?;
        cheapest = Some(jacobian);
    }
    if let Some(jacobian) = cheapest {
        let simplified = Function::from_tensor_ssa(jacobian).simplify().map_err(words)?;
        let found = results(simplified.tensor_ssa(), &environment)?;
        let judgement = agree("jacobian", &found, &expected).map_err(|e| format!("{e}\n{}", simplified.tensor_ssa()));
        report.judge("simplified", judgement)?;
        let at = points(&environment, seed ^ 0xf00d, 12);
        let judgement = support(report, &simplified, &given, &at, &format!("seed {seed}, jacobian"));
        report.judge("its support", judgement)?;
    }
    let energy = energy(&program).map_err(words)?;
    let one = Options { seed: Seed::One, with_value: false, derivation: false };
    let gradient = diff::adjoint(&energy, &wrt, one).map_err(words)?.program;
    let gradient = diff::expand_partials(&gradient).map_err(words)?;
    let expected = probed(&gradient, &wrt, &environment)?;
    if gradient.stmts.len() > 120 {
        return Ok(());
    }
    for (relation, sweep) in [("Hessian by columns", Sweep::Forward), ("Hessian by rows", Sweep::Adjoint)] {
        let hessian = of(&gradient, sweep, Some("grad"))?;
        let found = results(&hessian, &environment)?;
        report.judge(relation, agree("hessian", &found, &expected).map_err(|e| format!("{e}\n{hessian}")))?;
        let leaves = expected.len().isqrt();
        for (row, column) in (0..leaves).flat_map(|row| (0..leaves).map(move |column| (row, column))) {
            let (block, other) = (&expected[row * leaves + column], &found[column * leaves + row]);
            let transposed: Vec<Rounded> =
                (0..block.first().map_or(0, Vec::len)).flat_map(|j| block.iter().map(move |line| line[j])).collect();
            report.judge("symmetry", agree("symmetry", std::slice::from_ref(other), &[vec![transposed]]))?;
        }
    }
    let loss = Function::from_tensor_ssa(energy);
    let names: Vec<&str> = program.signature.params.values().map(|p| p.name.as_str()).collect();
    let hessian = loss.hessian(&names).map_err(words)?;
    let found = results(hessian.tensor_ssa(), &environment)?;
    let judgement = agree("hessian", &found, &expected).map_err(|e| format!("{e}\n{}", hessian.tensor_ssa()));
    report.judge("simplified Hessian", judgement)?;
    let at = points(&environment, seed ^ 0xbeef, 12);
    let judgement = support(report, &hessian, &given, &at, &format!("seed {seed}, hessian"));
    report.judge("support of the Hessian", judgement)
}

fn run(first: u64, programs: u64) {
    let mut report = Report::default();
    for seed in first..first + programs {
        if let Err(complaint) = judge(&mut report, seed) {
            if complaint.contains(Rounded::UNDECIDED) || complaint.contains("units of work of one pass") {
                report.left += 1;
                continue;
            }
            let text = generate::program(seed, seed % 4 == 3).text;
            report.failures.push(format!("seed {seed}: {complaint}\n{text}"));
        }
    }
    report.failures.sort_by_key(String::len);
    report.loosest.sort_by_key(String::len);
    report.print();
    assert!(report.left as u64 <= 1 + programs / 100, "{} of {programs} programs are not judged", report.left);
    let shown = report.failures.iter().take(3).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(report.failures.is_empty(), "{} failures\n{shown}", report.failures.len());
}

#[test]
fn some_programs() {
    run(0, 24);
    // A guard whose cases all say where a sparse parameter is stored, but none of them for the axes of the coefficient alone.
    run(20486, 1);
    // Tensors that are views of each other.
    run(40417, 1);
    // A guard that comes again with each statement of a chain, in a pattern that is listed.
    run(41819, 1);
}

/// Minutes of work; see the command above.
#[test]
#[ignore = "2,000 programs take minutes; the command is in the module documentation"]
fn full() {
    run(setting("IVERSON_SEED", 0), setting("IVERSON_PROGRAMS", 2000));
}

/// A derivative of a program, and its text without declarations.
/// The numbers of a value, dense.
fn in_full(value: &iverson::tensor::Value) -> Vec<f64> {
    match value.leaves()[0].as_ref() {
        Tensor::Dense(dense) => dense.data().to_vec(),
        Tensor::Csr(csr) => csr.to_dense().expect("it fits").data().to_vec(),
        Tensor::Csc(csc) => csc.to_dense().expect("it fits").data().to_vec(),
        Tensor::Coo(coo) => {
            let shape = coo.pattern().shape();
            let mut all = vec![0.0; shape.iter().product()];
            for (tuple, x) in coo.pattern().tuples().zip(coo.data()) {
                all[tuple.iter().zip(shape).fold(0, |place, (k, n)| place * n + k)] = *x;
            }
            all
        }
    }
}

fn derived(text: &str, request: Request) -> Result<String, String> {
    let function = Function::parse(text).map_err(words)?;
    let derived = function.derive(&request).map_err(words)?.function;
    Ok(crate::support::declarations(&derived.to_string()).1)
}

/// The support of a long chain of copies says once what each copy says, and indices that are only looked for are not combined.
#[test]
fn guards_that_are_repeated_are_walked_once() {
    let guard = "exists k < m. E(k, i)";
    let copies: String = (1..12).map(|k| format!("let y{k} = gen i < n. [{guard}] * y{} [i] in\n", k - 1)).collect();
    let text = format!(
        "param x : [n] real\nrel E : [m, n]\nlet y0 = gen i < n. [{guard}] * x[i]^2 in\n{copies}gen i < n, j < n. y11[i] * y11[j]"
    );
    let function = Function::parse(&text).expect("a program");
    let assembly = function.assemble(&["value"]).expect("a tensor");
    let loops = assembly.structure().to_string().matches("for ").count();
    assert!(loops <= 4, "{}", assembly.structure());
    let (m, n) = (30, 4);
    let mut given = Inputs::new();
    given.value("x", iverson::tensor::Value::vector(vec![1.0, 2.0, 3.0, 4.0]));
    let tuples: Vec<Vec<usize>> = (0..m).flat_map(|k| [vec![k, 0], vec![k, 2]]).collect();
    given.relation("E", iverson::tensor::Relation::from_tuples(&[m, n], &tuples).expect("in range"));
    let kernel = assembly.bind(&given, Engine::Interpreter).expect("it binds");
    let (_, value) = kernel.call(&given).expect("it runs")[0].clone();
    let Tensor::Csr(csr) = value.leaves()[0].as_ref() else { panic!("it is no matrix") };
    let found: Vec<((usize, usize), f64)> = csr.pattern().entries().zip(csr.data().iter().copied()).collect();
    assert_eq!(found, [((0, 0), 1.0), ((0, 2), 9.0), ((2, 0), 9.0), ((2, 2), 81.0)]);
}

/// What a mathematician writes.
#[test]
fn derivatives_of_books() {
    let diagonal = |axes| Request { part: diff::Part::Diagonal(axes), ..Request::new(Mode::Hessian, &["x"]) };
    let weighted = Request { weighted: true, ..Request::new(Mode::GaussNewton, &["x"]) };
    let cases = [
        (
            "param x : [n] real\ngen i < n. x[i]^2",
            Request::new(Mode::Jacobian, &["x"]),
            "gen i < n, j < n. [i = j] * 2 * x[i]",
        ),
        (
            "param x : [n] real\nmap f : [p] -> [n]\ngen o < p. x[f(o)]",
            Request::new(Mode::Jacobian, &["x"]),
            "gen i < p, j < n. [f(i) = j]",
        ),
        ("param x : [n] real\nsum i < n. x[i]^3", diagonal(1), "gen i < n. 6 * x[i]"),
        ("param x : [n, m] real\nsum i < n. (sum j < m. x[i, j])^2", diagonal(1), "gen i < n, j < m, k < m. 2"),
        (
            "param A : [n, m] real\nparam x : [m] real\ngen i < n. sum j < m. A[i, j] * x[j]",
            weighted,
            "let t0 = gen i < m, j < n. weight[j] * A[j, i]\nin gen i < m, j < m. sum k < n. A[k, j] * t0[i, k]",
        ),
        (
            "param A : csr [n, m] real\nparam x : [m] real\ngen i < n. sum j < m. A[i, j] * x[j]",
            Request::new(Mode::Transpose, &["x"]),
            "gen i < m. sum j < n. A[j, i] * dy[j]",
        ),
    ];
    for (text, request, expected) in cases {
        assert_eq!(derived(text, request).as_deref(), Ok(expected), "{text}");
    }
}

/// A diagonal of a Jacobian is that of each of its blocks.
#[test]
fn diagonals_of_jacobians() {
    let request = |axes| Request { part: diff::Part::Diagonal(axes), ..Request::new(Mode::Jacobian, &[]) };
    let by = |wrt: &[&str], axes| Request { wrt: wrt.iter().map(|x| (*x).to_owned()).collect(), ..request(axes) };
    let books = [
        ("param x : [n] real\ngen i < n. x[i]^3", by(&["x"], usize::MAX), "gen i < n. 3 * x[i]^2"),
        ("param x : [n, m] real\ngen i < n, j < m. x[i, j]^2", by(&["x"], usize::MAX), "gen i < n, j < m. 2 * x[i, j]"),
        ("param x : [n, m] real\ngen i < n. sum j < m. x[i, j]^2", by(&["x"], 1), "gen i < n, j < m. 2 * x[i, j]"),
        (
            "param x : [n] real\nparam c : [3] real\ngen i < n, j < 3. c[j] * x[i]^2",
            by(&["x"], 1),
            "let t0 = gen i < 3. 2 * c[i]\nin gen i < n, j < 3. x[i] * t0[j]",
        ),
        ("param x : real\nx^2", by(&["x"], usize::MAX), "2 * x"),
    ];
    for (text, request, expected) in books {
        assert_eq!(derived(text, request).as_deref(), Ok(expected), "{text}");
    }

    // Several outputs and parameters: the entries of the whole matrix, by both sweeps, simplified or not.
    let text = "param x : [n, k] real\nparam y : [n, k] real\nassume n = m\nparam z : [m, k] real\n\
                (gen i < n, j < k. x[i, j]^2 * y[i, j] + [i >= 1] * x[i - 1, j] * z[i, j], \
                 gen i < n, j < k. sum l < k. x[i, l] * y[i, j] * z[i, j]^2)";
    let function = Function::parse(text).expect("a program");
    let (n, k) = (3, 2);
    let mut inputs = Inputs::new();
    let mut numbers = Numbers::new(11, true);
    for name in ["x", "y", "z"] {
        inputs.value(name, iverson::tensor::Dense::new(&[n, k], numbers.vector(n * k)).expect("it fits"));
    }
    let run = |request: &Request| {
        let derived = function.derive(request).expect("it derives").function.dense();
        derived
            .kernel(&inputs)
            .engine(Engine::Interpreter)
            .build()
            .and_then(|kernel| kernel.call(&inputs))
            .expect("it runs")
    };
    for sweep in [Sweep::Forward, Sweep::Adjoint, Sweep::Cheapest] {
        for raw in [false, true] {
            let with = |request: Request| {
                let request = Request { sweep, with_value: true, ..request };
                if raw { request.raw() } else { request }
            };
            let wrt = ["x", "y", "z"];
            let whole = run(&with(Request::new(Mode::Jacobian, &wrt)));
            assert_eq!(whole.len(), 7);
            for axes in [1, 2, usize::MAX] {
                let found = run(&with(by(&wrt, axes)));
                assert_eq!(found.len(), whole.len());
                for ((name, found), (known, whole)) in found.iter().zip(&whole).skip(1) {
                    assert_eq!(name, known);
                    let (found, whole) = (in_full(found), in_full(whole));
                    let places = (0..n * k).flat_map(|row| (0..n * k).map(move |column| (row, column)));
                    let shared =
                        places.filter(|(row, column)| if axes == 1 { row / k == column / k } else { row == column });
                    let expected: Vec<f64> = shared.map(|(row, column)| whole[row * n * k + column]).collect();
                    assert_eq!(found, expected, "{name}, {axes} axes, {sweep:?}");
                }
            }
        }
    }

    // Where there is none, that is said.
    let refused = [
        (
            "param x : [n] real\nsum i < n. x[i]",
            by(&["x"], usize::MAX),
            "of the result, of shape [], by `x`, of shape [n]",
        ),
        ("param x : [n] real\ngen i < n - 1. x[i + 1]", by(&["x"], 1), "of shape [n - 1], by `x`, of shape [n]"),
        ("param x : [n, m] real\ngen j < m. x[0, j]", by(&["x"], 1), "it takes 1 equal leading axes"),
        ("param x : [n, m] real\ngen i < n. x[i, 0]", by(&["x"], 2), "it takes 2 equal leading axes"),
        ("param x : [n, m] real\ngen i < n. x[i, 0]", by(&["x"], usize::MAX), "a diagonal takes equal shapes"),
        ("param x : [n] real\nparam s : real\ngen i < n. s * x[i]", by(&["x", "s"], usize::MAX), "by `s`, of shape []"),
        ("param x : [n] real\n(x, sum i < n. x[i])", by(&["x"], usize::MAX), "of the result `1`, of shape []"),
        (
            "param x : [n] real\nparam y : [n] real\nsum i < n. x[i] * y[i]",
            Request { columns: Some(vec!["y".to_owned()]), mode: Mode::Hessian, ..by(&["x"], usize::MAX) },
            "the Hessian has no diagonal",
        ),
    ];
    for (text, request, expected) in refused {
        let text = text.replace("x[0, j]", "[0 < n] * x[0, j]").replace("x[i, 0]", "[0 < m] * x[i, 0]");
        let error = derived(&text, request).expect_err(&text);
        assert!(error.contains(expected), "{text}: {error}, expected: {expected}");
    }
}

/// `J' J` is the product of the dense matrices, by both sweeps, simplified or not; pieces of one block are joined before they are multiplied.
#[test]
fn gauss_newton_matrices_are_products() {
    let programs = [
        // As in bundle adjustment.
        "param c : [n, 4] real\nparam x : [m, 2] real\nparam w : [p] real\nmap f : [p] -> [n]\nmap g : [p] -> [m]\n\
         (gen o < p, e < 2. w[o] * (c[f(o), 0] * x[g(o), e] + c[f(o), e + 1] * c[f(o), 3]^2), gen o < p. 1 - w[o]^2)",
        // A band, and an axis of which only some places count.
        "param x : [n, 3] real\ngen i < n, e < 3. x[i, e]^2 + [i >= 1 and e != 1] * x[i - 1, 2] * x[i, 0]",
        // Few of many places: these stay apart.
        "param x : [n, 9] real\ngen i < n, e < 9. [e = 4] * x[i, 3] * x[i, 2] + x[i, e]^2",
    ];
    for text in programs {
        let source = surface::read(text, &[]).expect("a program");
        let mut given = Inputs::new();
        let mut numbers = Numbers::new(7, true);
        let width = [2, 3, 9].into_iter().find(|k| text.contains(&format!("param x : [n, {k}]"))).unwrap_or(2);
        for (name, shape) in [("c", vec![3, 4]), ("x", vec![4, width]), ("w", vec![6])] {
            if text.contains(&format!("param {name} ")) {
                let data = numbers.vector(shape.iter().product());
                given.value(name, iverson::tensor::Dense::new(&shape, data).expect("it fits"));
            }
        }
        if text.contains("map") {
            let map = |targets: Vec<usize>, n| iverson::tensor::Relation::from_map(&[6], targets, n).expect("in range");
            given.relation("f", map(vec![2, 0, 0, 2, 2, 0], 3)).relation("g", map(vec![0, 1, 2, 0, 3, 1], 4));
        }
        let (_, at) = environment(&source, &given).expect("they fit");
        let Staged::TensorSsa(program) = lower(&source, Stage::TensorSsa, &mut Stages::new()).expect("it lowers")
        else {
            panic!("no Tensor-SSA")
        };
        let wrt: Vec<ParamId> = program.signature.params.ids().collect();
        let all = probed(&program, &wrt, &at).expect("it has columns");
        let mut expected = Vec::new();
        for (first, second) in (0..wrt.len()).flat_map(|a| (0..wrt.len()).map(move |b| (a, b))) {
            let pairs: Vec<_> = all.chunks(wrt.len()).map(|blocks| (&blocks[first], &blocks[second])).collect();
            let (rows, columns) = (pairs[0].0[0].len(), pairs[0].1[0].len());
            let dot = |i: usize, j: usize| -> Rounded {
                let products = pairs.iter().flat_map(|(x, y)| x.iter().zip(*y).map(|(x, y)| x[i].mul(&y[j])));
                products.fold(Rounded::new(0.0), |sum, x| sum.add(&x))
            };
            expected.push((0..rows).map(|i| (0..columns).map(|j| dot(i, j)).collect()).collect::<Matrix>());
        }
        for sweep in [Sweep::Forward, Sweep::Adjoint] {
            let (product, _) =
                diff::gauss_newton(&program, &[], &wrt, sweep, false, &compare_work).expect("it derives");
            check("gauss-newton", &product).unwrap_or_else(|e| panic!("{e}\n{product}"));
            agree("J' J", &results(&product, &at).expect("it runs"), &expected).expect(text);
            let simplified = Function::from_tensor_ssa(product).simplify().expect("it simplifies");
            let found = results(simplified.tensor_ssa(), &at).expect("it runs");
            agree("simplified J' J", &found, &expected).expect(text);
        }
    }
    let text = include_str!("../programs/k10_bundle_adjustment.iv");
    let program = Function::parse(text).expect("a program").tensor_ssa().clone();
    let wrt: Vec<ParamId> = ["cam", "x", "w"]
        .iter()
        .filter_map(|name| program.signature.params.iter().find(|(_, param)| param.name == *name).map(|(id, _)| id))
        .collect();
    let (product, _) =
        diff::gauss_newton(&program, &[], &wrt, Sweep::Cheapest, false, &compare_work).expect("it derives");
    assert!(product.stmts.len() < 600, "{} tensors", product.stmts.len());
}

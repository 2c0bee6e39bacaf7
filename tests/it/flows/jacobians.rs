//! Jacobians, Hessians, Gauss-Newton matrices and transposed programs of programs with loops: random ones against columns that dual numbers give one
//! by one, some against closed forms.

use iverson::ir::base::ParamId;
use iverson::ir::certificate::{Certificate, Claim};
use iverson::ir::diff::{self, Part, Sweep};
use iverson::ir::reference::check;
use iverson::ir::reference::{Dual, Environment, Leaf, Limits, Rounded, Subject, eval_term};
use iverson::ir::stages::check as verify;
use iverson::ir::{flow, term};
use iverson::kernel::Engine;
use iverson::tensor::{Dense, Inputs, Tensor, bind};
use iverson::{Function, Mode, Request};

use super::random::{Judged, Judgement, Report, World, costs, renamed, words};
use super::{close, inputs, program, usual};
use crate::jacobians::{places, volume};
use crate::judge::{Expected, Ways, dense};

/// A program over dual numbers.
type Run<'a, X> = &'a dyn Fn(&Environment<Dual<X>>) -> iverson::Result<Vec<Leaf<Dual<X>>>>;

/// Values of parameters.
type Given<X> = Vec<(ParamId, Vec<Leaf<X>>)>;

/// A matrix by the leaves of its columns, row by row within each leaf of its rows.
struct Matrix<X> {
    /// How many elements the leaves of rows and of columns have.
    rows: Vec<usize>,
    columns: Vec<usize>,
    /// The numbers, row by row of all of it.
    numbers: Vec<Vec<X>>,
}

impl<X: Judged> Matrix<X> {
    /// The columns that a program over dual numbers gives.
    fn probed(at: &Environment<X>, wrt: &[ParamId], run: Run<'_, X>) -> iverson::Result<Matrix<X>> {
        let mut found: Vec<Vec<X>> = Vec::new();
        let mut columns = Vec::new();
        let still = at.map(|_, _, leaf| leaf.map(|value| Ok(Dual::new(value.clone(), X::zero()))))?;
        let rows: Vec<usize> = run(&still)?.iter().map(volume).collect();
        for x in wrt {
            for (k, leaf) in at.param(*x)?.iter().enumerate() {
                let mut of_leaf = vec![Vec::new(); volume(leaf)];
                for (stored, place) in places(leaf).into_iter().enumerate() {
                    let along = at.map(|y, l, leaf| {
                        let mut element = 0;
                        leaf.map(|value| {
                            let one = y == *x && l == k && element == stored;
                            element += 1;
                            Ok(Dual::new(value.clone(), if one { X::integer(1) } else { X::zero() }))
                        })
                    })?;
                    let results = run(&along)?;
                    let mut column = Vec::new();
                    for leaf in &results {
                        let mut all = vec![X::zero(); volume(leaf)];
                        for (value, place) in leaf.values().iter().zip(places(leaf)) {
                            all[place] = value.derivative();
                        }
                        column.extend(all);
                    }
                    of_leaf[place] = column;
                }
                columns.push(of_leaf.len());
                found.extend(of_leaf);
            }
        }
        let height = rows.iter().sum();
        for column in &mut found {
            column.resize(height, X::zero());
        }
        let numbers = (0..height).map(|row| found.iter().map(|column| column[row].clone()).collect()).collect();
        Ok(Matrix { rows, columns, numbers })
    }

    /// The blocks, each row by row: by leaf of rows, then of columns.
    fn blocks(&self) -> Vec<Vec<X>> {
        let mut blocks = Vec::new();
        let mut top = 0;
        for height in &self.rows {
            let mut left = 0;
            for width in &self.columns {
                let rows = &self.numbers[top..top + height];
                blocks.push(rows.iter().flat_map(|row| row[left..left + width].to_vec()).collect());
                left += width;
            }
            top += height;
        }
        blocks
    }

    /// The transposed matrix times this one, with weights of the rows.
    fn squared(&self, weights: &[X]) -> Matrix<X> {
        let width: usize = self.columns.iter().sum();
        let element = |i: usize, j: usize| {
            let rows = self.numbers.iter().zip(weights);
            rows.fold(X::zero(), |sum, (row, weight)| sum.add(&weight.mul(&row[i]).mul(&row[j])))
        };
        let numbers = (0..width).map(|i| (0..width).map(|j| element(i, j)).collect()).collect();
        Matrix { rows: self.columns.clone(), columns: self.columns.clone(), numbers }
    }

    fn times(&self, vector: &[X]) -> Vec<X> {
        let row = |row: &Vec<X>| row.iter().zip(vector).fold(X::zero(), |sum, (a, b)| sum.add(&a.mul(b)));
        self.numbers.iter().map(row).collect()
    }
}

/// The numbers of leaves, with zeros beside patterns.
fn whole<X: Judged>(leaves: &[Leaf<X>]) -> Vec<X> {
    let mut all = Vec::new();
    for leaf in leaves {
        let first = all.len();
        all.resize(first + volume(leaf), X::zero());
        for (value, place) in leaf.values().iter().zip(places(leaf)) {
            all[first + place] = value.clone();
        }
    }
    all
}

/// The results of a derivative, each of one leaf; and what has the text of it.
fn blocks_of<X: Judged>(
    function: &Function,
    at: &Environment<X>,
    added: &[(ParamId, Vec<Leaf<X>>)],
) -> Result<Vec<Vec<X>>, String> {
    let flow = function.flow().ok_or("the loops are gone")?;
    verify("derive", flow).map_err(words)?;
    let at = check::extend(&flow.signature, at, added).map_err(words)?;
    let found = flow.evaluate(&at, None, Limits::default(), None).map_err(words)?;
    let text = Function::parse(&function.to_string()).map_err(|error| format!("the text: {error}\n{function}"))?;
    let renamed = renamed(&at, &flow.signature, text.signature())?;
    let again = match text.flow() {
        Some(flow) => flow.evaluate(&renamed, None, Limits::default(), None),
        None => text.tensor_ssa().evaluate(&renamed, None, Limits::default(), None),
    };
    let found: Vec<Vec<X>> = found.iter().map(|leaves| whole(leaves)).collect();
    X::same("as a text", &whole(&again.map_err(words)?.concat()), &found.concat())?;
    Ok(found)
}

fn all_params(function: &Function) -> Vec<String> {
    function.signature().params.values().map(|param| param.name.clone()).collect()
}

fn request(function: &Function, mode: Mode) -> Request {
    Request { wrt: all_params(function), ..Request::new(mode, &[]) }
}

/// Both sweeps, and simplified whichever is cheaper.
fn ways(request: &Request) -> [Request; 3] {
    let raw = |sweep| Request { sweep, ..request.clone() }.raw();
    [raw(Sweep::Forward), raw(Sweep::Adjoint), Request { sweep: Sweep::Cheapest, ..request.clone() }]
}

/// The derivatives that `judge` was asked for.
struct Judging<'a, X> {
    report: &'a mut Report,
    function: &'a Function,
    world: &'a World<X>,
    wrt: Vec<ParamId>,
}

/// All matrices of a program that are derivatives.
pub fn judge<X: Judged>(
    report: &mut Report,
    function: &Function,
    term: &term::Program,
    flow: &flow::Program,
    world: &World<X>,
) -> Judgement {
    let wrt: Vec<ParamId> = flow.signature.params.ids().collect();
    let run = |at: &Environment<Dual<X>>| eval_term::evaluate(term, at, Limits::default());
    let jacobian = Matrix::probed(&world.at, &wrt, &run).map_err(words)?;
    let mut judging = Judging { report, function, world, wrt };
    judging.jacobian(&jacobian)?;
    judging.gauss_newton(&jacobian)?;
    judging.gauss_newton_product(&jacobian)?;
    if flow.outputs.iter().all(|output| output.ty == iverson::ir::ty::Types::REAL) && flow.outputs.len() == 1 {
        judging.hessian()?;
    }
    Ok(())
}

/// Kernels of a Jacobian, with sparse results, with dense ones and as one matrix.
pub fn judge_kernels(report: &mut Report, function: &Function, world: &World<Rounded>, inputs: &Inputs) -> Judgement {
    let derived = function.derive(&request(function, Mode::Jacobian)).map_err(words)?;
    let blocks = blocks_of(&derived.function, &world.at, &[])?;
    costs(report, &derived.function, inputs)?;
    let expected = Expected::from(blocks.concat());
    let compare = |found: &[f64]| expected.compare("block", found, Ways::Simplified).map(|_| ());
    for function in [derived.function.clone(), derived.function.clone().dense()] {
        let kernel = function.kernel(inputs).engine(Engine::Interpreter).build().map_err(words)?;
        let found = dense(&kernel.call(inputs).map_err(words)?);
        report.judge("kernel of a Jacobian", compare(&found))?;
    }
    let matrix = derived.matrix().and_then(|matrix| matrix.bind(inputs, Engine::Interpreter)).map_err(words)?;
    let (_, found) = matrix.call(inputs).map_err(words)?;
    let wrt: Vec<ParamId> = function.signature().params.ids().collect();
    let widths: Vec<usize> = wrt.iter().flat_map(|x| world.at.param(*x).expect("it is there")).map(volume).collect();
    let mut rows: Vec<Rounded> = Vec::new();
    for blocks in blocks.chunks(widths.len()) {
        // Of columns without an element nothing is seen.
        let height = blocks.iter().zip(&widths).find_map(|(block, width)| block.len().checked_div(*width));
        for row in 0..height.unwrap_or(0) {
            let of = |(block, width): (&Vec<Rounded>, &usize)| block[row * width..(row + 1) * width].to_vec();
            rows.extend(blocks.iter().zip(&widths).flat_map(of));
        }
    }
    let found = found.to_dense().map_err(|error| error.to_string())?;
    let judgement = Expected::from(rows).compare("matrix", found.data(), Ways::Simplified).map(|_| ());
    report.judge("Jacobian as a matrix", judgement)
}

impl<X: Judged> Judging<'_, X> {
    fn derive(&self, request: &Request) -> Result<Function, String> {
        Ok(self.function.derive(request).map_err(words)?.function)
    }

    fn jacobian(&mut self, expected: &Matrix<X>) -> Judgement {
        let expected = expected.blocks();
        for request in ways(&request(self.function, Mode::Jacobian)) {
            let found = blocks_of(&self.derive(&request)?, &self.world.at, &[])?;
            self.report.judge("Jacobian = its columns", same(&found, &expected))?;
        }
        Ok(())
    }

    fn hessian(&mut self) -> Judgement {
        let gradient = self.derive(&request(self.function, Mode::Gradient).raw())?;
        let gradient = gradient.flow().ok_or("the loops are gone")?;
        let run = |at: &Environment<Dual<X>>| Ok(gradient.evaluate(at, None, Limits::default(), None)?.concat());
        let expected = Matrix::probed(&self.world.at, &self.wrt, &run).map_err(words)?;
        let transposed = |i: usize| expected.numbers.iter().map(|row| row[i].clone()).collect::<Vec<X>>();
        for (i, row) in expected.numbers.iter().enumerate() {
            self.report.judge("Hessians are symmetric", X::same("a row", row, &transposed(i)))?;
        }
        let blocks = expected.blocks();
        let hessian = request(self.function, Mode::Hessian);
        for request in ways(&hessian) {
            let found = blocks_of(&self.derive(&request)?, &self.world.at, &[])?;
            self.report.judge("Hessian = columns of the gradient", same(&found, &blocks))?;
        }
        // Blocks of parameters by themselves, each with as many rows as columns.
        let diagonals: Vec<Vec<X>> = (0..expected.rows.len())
            .map(|k| {
                let n = expected.rows[k];
                let block = &blocks[k * expected.columns.len() + k];
                (0..n).map(|i| block[i * n + i].clone()).collect()
            })
            .collect();
        let found = blocks_of(&self.derive(&hessian.clone().diagonal())?, &self.world.at, &[])?;
        self.report.judge("diagonal = that of the whole", same(&found, &diagonals))?;
        let first = all_params(self.function).into_iter().take(1).collect();
        let value = Request { columns: Some(first), part: Part::Whole, with_value: true, ..hessian };
        let found = blocks_of(&self.derive(&value)?, &self.world.at, &[])?;
        let count = expected.rows.len();
        let mut some = vec![self.world.value.clone()];
        let gradient = gradient.evaluate(&self.world.at, None, Limits::default(), None).map_err(words)?;
        some.extend(gradient.iter().map(|leaves| whole(leaves)));
        some.extend((0..count).map(|row| blocks[row * count].clone()));
        self.report.judge("Hessian with value, some columns", same(&found, &some))
    }

    fn gauss_newton(&mut self, jacobian: &Matrix<X>) -> Judgement {
        let ones = vec![X::integer(1); jacobian.numbers.len()];
        let plain = jacobian.squared(&ones).blocks();
        for request in ways(&request(self.function, Mode::GaussNewton)) {
            let found = blocks_of(&self.derive(&request)?, &self.world.at, &[])?;
            self.report.judge("Gauss-Newton matrix = J' J", same(&found, &plain))?;
        }
        let weighted = Request { weighted: true, ..request(self.function, Mode::GaussNewton) };
        let function = self.derive(&weighted)?;
        let weights = self.given(&function, "weight")?;
        let expected = jacobian.squared(&self.seeds()).blocks();
        let found = blocks_of(&function, &self.world.at, &weights)?;
        self.report.judge("Gauss-Newton matrix = J' W J", same(&found, &expected))
    }

    fn gauss_newton_product(&mut self, jacobian: &Matrix<X>) -> Judgement {
        // The direction, with zeros beside patterns.
        let vector: Vec<X> = self.world.direction.iter().flat_map(|(_, leaves)| whole(leaves)).collect();
        for weighted in [false, true] {
            let weights = if weighted { self.seeds() } else { vec![X::integer(1); jacobian.numbers.len()] };
            let request = Request { weighted, ..request(self.function, Mode::GaussNewtonProduct) };
            for request in [request.clone().raw(), request] {
                let derived = self.function.derive(&request).map_err(words)?;
                let signature = derived.function.signature();
                let tangents = diff::params_by_name(signature, &derived.added).map_err(words)?;
                let mut added: Given<X> =
                    tangents.into_iter().zip(self.world.direction.iter().map(|(_, leaves)| leaves.clone())).collect();
                if weighted {
                    added.extend(self.given(&derived.function, "weight")?);
                }
                let found = blocks_of(&derived.function, &self.world.at, &added)?;
                let expected = jacobian.squared(&weights).times(&vector);
                let judgement = X::same("product", &found.concat(), &expected);
                self.report.judge("Gauss-Newton product = J' W J v", judgement)?;
            }
        }
        Ok(())
    }

    /// What is used as weights.
    fn seeds(&self) -> Vec<X> {
        self.world.seeds.iter().flat_map(|leaves| whole(leaves)).collect()
    }

    fn given(&self, function: &Function, name: &str) -> Result<Given<X>, String> {
        let id = function.signature().param(name).ok_or("no weights")?;
        Ok(vec![(id, self.world.seeds.concat())])
    }
}

/// Blocks are as expected.
fn same<X: Judged>(found: &[Vec<X>], expected: &[Vec<X>]) -> Judgement {
    if found.len() != expected.len() {
        return Err(format!("{} blocks and {}", found.len(), expected.len()));
    }
    found.iter().zip(expected).try_for_each(|(found, expected)| X::same("block", found, expected))
}

/// The numbers of a result, zeros and all.
fn result(function: &Function, inputs: &Inputs, name: &str) -> Vec<f64> {
    let kernel = function.clone().dense();
    let kernel = kernel.kernel(inputs).engine(Engine::Interpreter).build().expect("it is bound");
    let results = kernel.call(inputs).expect("it runs");
    results[name].leaves()[0].lexicographic().into_owned()
}

/// The matrix of a derivative, row by row.
fn matrix(function: &Function, request: &Request, inputs: &Inputs) -> Vec<f64> {
    let matrix = function.derive(request).and_then(|derived| derived.matrix()).expect("it is a matrix");
    let kernel = matrix.bind(inputs, Engine::Interpreter).expect("it is bound");
    let (_, found) = kernel.call(inputs).expect("it runs");
    found.to_dense().expect("it is small").data().to_vec()
}

/// `y0 R(-a h)^T` of ten Runge-Kutta steps, of which `R` is the polynomial `1 + z + z^2/2 + z^3/6 + z^4/24`.
#[test]
fn a_hessian_of_runge_and_kutta() {
    let function = program("rk4");
    let (a, y0, h) = (1.3_f64, 2.0_f64, 0.1_f64);
    let inputs = inputs(&function, &[("T", 10)], &|p, _| [a, y0, h][p], &[]);
    let hessian = function.hessian(["a", "y0"]).expect("it is derived twice");
    let z = -a * h;
    let r = 1.0 + z + z.powi(2) / 2.0 + z.powi(3) / 6.0 + z.powi(4) / 24.0;
    let slope = 1.0 + z + z.powi(2) / 2.0 + z.powi(3) / 6.0;
    let bend = 1.0 + z + z.powi(2) / 2.0;
    let twice = y0 * h * h * (90.0 * r.powi(8) * slope.powi(2) + 10.0 * r.powi(9) * bend);
    let mixed = -h * 10.0 * r.powi(9) * slope;
    for (name, expected) in
        [("hessian_a_a", twice), ("hessian_a_y0", mixed), ("hessian_y0_a", mixed), ("hessian_y0_y0", 0.0)]
    {
        close(name, result(&hessian, &inputs, name)[0], expected, 1e-12);
    }
    let found = matrix(&function, &Request::new(Mode::Hessian, &["a", "y0"]), &inputs);
    for (found, expected) in found.iter().zip([twice, mixed, mixed, 0.0]) {
        close("the matrix", *found, expected, 1e-12);
    }
}

/// Heat in a rod is linear in where it begins: the Hessian by that is `2 M' M` for the matrix `M` of all steps, which is the Jacobian of the states, and
/// the sine is an eigenvector of it.
#[test]
fn a_hessian_of_heat_in_a_rod() {
    let function = program("heat");
    let wave = |k: usize| (std::f64::consts::PI * (k as f64 + 1.0) / 4.0).sin();
    let n = 7;
    let inputs = inputs(&function, &[("n", n as i64), ("T", 20)], &|p, k| [wave(k), 0.2, 0.0][p], &[]);
    let hessian = result(&function.hessian(["u0"]).expect("it is derived"), &inputs, "hessian_u0_u0");
    let factor = 1.0 - 0.8 * (std::f64::consts::PI / 8.0).sin().powi(2);
    for i in 0..n {
        let found: f64 = (0..n).map(|j| hessian[i * n + j] * wave(j)).sum();
        close("an eigenvector", found, 2.0 * factor.powi(40) * wave(i), 1e-12);
        for j in 0..n {
            close("symmetry", hessian[i * n + j], hessian[j * n + i], 1e-14);
        }
    }
    let residuals = Function::parse(
        "param u0 : [n] real\nparam c : [n] real\nsize T\nlet u = fold t < T, u = u0. gen i < n. u[i] + c[i] * \
         ([0 < i] * u[i - 1] - 2 * u[i] + [i + 1 < n] * u[i + 1])\nin u",
    );
    let residuals = residuals.expect("it is a program");
    let squared = result(&residuals.gauss_newton(["u0"]).expect("it is derived"), &inputs, "gauss_newton_u0_u0");
    for (found, expected) in squared.iter().zip(&hessian) {
        close("J' J", 2.0 * found, *expected, 1e-12);
    }
}

/// Of all programs, second derivatives on unit vectors are the columns of the Hessian.
#[test]
fn hessians_are_products_with_unit_vectors() {
    for (name, sizes, wrt) in [
        ("product", &[("n", 4)][..], "x"),
        ("gru", &[("n", 2), ("m", 2), ("T", 3)], "x"),
        ("option_tree", &[("T", 3)], "s"),
        ("edit_distance", &[("n", 3), ("m", 2)], "x"),
        ("pagerank", &[("n", 3), ("T", 3)], "A"),
        ("kalman", &[("n", 2), ("T", 3)], "F"),
    ] {
        let function = program(name);
        let param = function.signature().param(wrt).or(function.signature().params.ids().next());
        let wrt = function.signature().params[param.expect("it has parameters")].name.clone();
        let inputs = inputs(&function, sizes, &usual, &[]);
        let hessian =
            result(&function.hessian([&wrt]).expect("it is derived"), &inputs, &format!("hessian_{wrt}_{wrt}"));
        let product = function.hessian_product([&wrt]).expect("it is derived");
        let shape = inputs.get(&wrt).expect("it is given").leaves()[0].shape();
        let count: usize = shape.iter().product();
        if matches!(**inputs.get(&wrt).expect("it is given").leaves().first().expect("a leaf"), Tensor::Csr(_)) {
            continue;
        }
        for column in 0..count {
            let mut unit = vec![0.0; count];
            unit[column] = 1.0;
            let mut inputs = inputs.clone();
            inputs.value(format!("d{wrt}"), Dense::new(&shape, unit).expect("a tensor"));
            let found = result(&product, &inputs, &format!("hessian_{wrt}"));
            for (row, found) in found.iter().enumerate() {
                close(name, hessian[row * count + column], *found, 1e-11);
                close(name, hessian[column * count + row], *found, 1e-11);
            }
        }
    }
}

/// What is owed to the entries of a matrix stays with them when rows become an axis.
#[test]
fn a_hessian_by_entries() {
    let text = "param A : csr [n, n] real\nsize T\n\
                let s = scan t < T, s = (gen i < n, j < n. min(A[i, j], 0.5)). s\n\
                in sum i < n. s[T, i, i] * exp(A[i, n - 1 - i])";
    let function = Function::parse(text).expect("it is a program");
    // The entries are those of the diagonal; only the middle one meets itself.
    let inputs = inputs(&function, &[("n", 3), ("T", 3)], &usual, &[]);
    let middle = usual(0, 1);
    for request in ways(&Request::new(Mode::Hessian, &["A"])) {
        let derived = function.derive(&request).expect("it is derived").function;
        let flow = derived.flow().expect("it has a loop");
        let bound = bind(&flow.signature, &inputs).expect("the inputs fit");
        let at = Environment::from_bindings(&bound).expect("they are bound");
        let found = flow.evaluate(&at, None, Limits::default(), None).expect("it runs").concat();
        for (place, found) in places(&found[0]).into_iter().zip(found[0].values()) {
            let expected = if place == 4 * 9 + 4 { (2.0 + middle) * middle.exp() } else { 0.0 };
            close("a second derivative", *found, expected, 1e-13);
        }
    }
}

/// What does not go through a loop is as sparse as without loops; what is zero by its form is a block of zeros; a column of a loop is dense.
#[test]
fn blocks_beside_loops_are_sparse() {
    let text = "param x : [n] real\nparam y : [n] real\nsize T\n\
                (gen i < n. x[i]^2 * y[i], fold t < T, s = y. gen i < n. s[i] * y[i])";
    let function = Function::parse(text).expect("it is a program");
    let jacobian = function.jacobian(["x", "y"]).expect("it is derived");
    let printed = jacobian.to_string();
    assert!(printed.contains("(gen i < n, j < n. [i = j] * 2 * (x[i] * y[i]),"), "{printed}");
    let mut inputs = Inputs::new();
    inputs.size("T", 2);
    for (name, numbers) in [("x", vec![1.0, 2.0, 3.0]), ("y", vec![4.0, 5.0, 6.0])] {
        inputs.value(name, Dense::new(&[3], numbers).expect("a tensor"));
    }
    let kernel = jacobian.kernel(&inputs).engine(Engine::Interpreter).build().expect("it is bound");
    let results = kernel.call(&inputs).expect("it runs");
    let entries: Vec<usize> = results.iter().map(|(_, value)| value.leaves()[0].data().len()).collect();
    assert_eq!(entries, [3, 3, 0, 9]);
    let whole = matrix(&function, &Request::new(Mode::Jacobian, &["x", "y"]), &inputs);
    let expected = [
        [8.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        [0.0, 20.0, 0.0, 0.0, 4.0, 0.0],
        [0.0, 0.0, 36.0, 0.0, 0.0, 9.0],
        [0.0, 0.0, 0.0, 48.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 75.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 108.0],
    ];
    assert_eq!(whole, expected.concat());
}

/// What a Jacobian and a Hessian say: tangents with an axis of columns beside states that have none.
#[test]
fn jacobians_read_well() {
    let text = |name: &str, request: Request| {
        let text = program(name).derive(&request).expect("it is derived").function.to_string();
        text.lines().filter(|line| !line.starts_with("param")).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(text("product", Request::new(Mode::Jacobian, &["x"])));
    insta::assert_snapshot!(text("product", Request::new(Mode::Hessian, &["x"])));
    insta::assert_snapshot!(text("product", Request::new(Mode::GaussNewtonProduct, &["x"])));
    insta::assert_snapshot!(text("heat", Request::new(Mode::Hessian, &["u0"])));
}

/// A program that is linear in its parameters, through its loops, is transposed; others are not.
#[test]
fn linear_programs_are_transposed() {
    let declared = "param x : [n] real\nparam A : [n, n] real\nsize T\n";
    let linear = [
        "fold t < T, s = x. gen i < n. sum j < n. A[i, j] * s[j]",
        "scan t < T down, s = (gen i < n. 0). gen i < n. s[i] * A[i, i] + [i < t] * x[i]",
        "let p = fold t < T, (a, b) = (x, gen i < n. 0). (gen i < n. a[i] + b[i], a) in snd p",
        "fold t < T, s = x. gen i < n. s[i] / (fold u < T, a = 1. a * A[i, i] + 1)",
    ];
    for body in linear {
        let function = Function::parse(&format!("{declared}{body}")).expect("it is a program");
        let transposed = function.transpose(["x"]).unwrap_or_else(|error| panic!("{body}: {error}"));
        assert!(transposed.signature().param("x").is_none(), "{transposed}");
        let adjoint = function.adjoint(["x"]).expect("it has an adjoint");
        let mut given = inputs(&function, &[("n", 3), ("T", 4)], &usual, &[]);
        let seeds: Vec<String> = transposed.signature().params.values().map(|param| param.name.clone()).collect();
        let added = inputs(&transposed, &[("n", 3), ("T", 4)], &usual, &[]);
        for name in seeds.iter().filter(|name| *name != "A") {
            given.value(name.clone(), added.get(name).expect("it is given").clone());
        }
        let expected = result(&adjoint, &given, "adjoint_x");
        for (found, expected) in result(&transposed, &given, "adjoint_x").iter().zip(&expected) {
            close(body, *found, *expected, 1e-13);
        }
        let again = Function::parse(&transposed.to_string()).expect("it is read");
        let found = again.eval(&given).expect("it runs");
        for (found, expected) in
            found.iter().next().expect("a result").1.leaves()[0].lexicographic().iter().zip(&expected)
        {
            close(body, *found, *expected, 1e-13);
        }
    }
    let other = [
        "fold t < T, s = x. gen i < n. s[i] * s[i]",
        "fold t < T, s = (gen i < n. 1). gen i < n. s[i] + x[i]",
        "fold t < T, (a, b) = (x, x). (b, gen i < n. a[i] + 1)",
        "fold t < T, s = 1. s * A[0, 0]",
        "fold t < T, s = x. gen i < n. [s[i] > 0] * s[i]",
    ];
    for body in other {
        let function = Function::parse(&format!("{declared}assume n >= 1\n{body}")).expect("it is a program");
        let error = function.transpose(["x"]).expect_err(body).to_string();
        assert!(error.contains("linear in its parameters x"), "{body}: {error}");
    }
}

/// Solvers of optimisation are given programs with loops.
#[test]
fn objectives_and_residuals_have_loops() {
    let function = program("product");
    let inputs = inputs(&function, &[("n", 3)], &|_, k| [2.0, 3.0, 4.0][k], &[]);
    let objective = function.objective(&inputs, ["x"]).expect("it is an objective");
    let hessian = objective.hessian(&[2.0, 3.0, 4.0]).expect("it is derived");
    let expected = [0.0, 4.0, 3.0, 4.0, 0.0, 2.0, 3.0, 2.0, 0.0];
    assert_eq!(hessian.to_dense().expect("it is small").data(), expected);
    let sums = Function::parse("param x : [n] real\nscan t < n, s = 0. s + x[t]^2").expect("it is a program");
    let residuals = sums.residuals(&inputs, ["x"]).expect("they are residuals");
    let (mut values, mut entries) = ([0.0; 4], [0.0; 12]);
    residuals.evaluate(&[1.0, 2.0, 3.0], &mut values, &mut entries).expect("they are evaluated");
    assert_eq!(values, [0.0, 1.0, 5.0, 14.0]);
    assert_eq!(entries, [0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 2.0, 4.0, 0.0, 2.0, 4.0, 6.0]);
}

/// What certificates say of programs with loops, and that it holds of what is counted.
#[test]
fn certificates_of_loops() {
    let nested = "param x : [n] real\nfold t < n, s = 0. s + (fold u < n, p = x[t]. p * x[u])";
    let nested = Function::parse(nested).expect("it is a program");
    for (name, function, runs) in
        [("heat", program("heat"), 3), ("product", program("product"), 3), ("nested", nested, 7)]
    {
        let names = all_params(&function);
        for (mode, claim) in [
            (Mode::Forward, Claim::Leaves),
            (Mode::Adjoint, Claim::Counted { runs }),
            (Mode::Gradient, Claim::Counted { runs }),
        ] {
            let request = Request { wrt: names.clone(), with_value: true, ..Request::new(mode, &[]) };
            let derived = function.derive(&request).expect("it is derived").function;
            let Certificate { bound, ratio, .. } = function.certify(&derived, mode).expect("it is certified");
            assert_eq!(bound.claim, claim, "{name}");
            let counted: Vec<f64> = ratio.samples.iter().filter_map(|sample| sample.ratio()).collect();
            assert!(!counted.is_empty(), "{name}: {ratio:?}");
            assert!(counted.iter().all(|ratio| *ratio <= bound.constant as f64), "{name}: {ratio:?}, {bound}");
        }
    }
    let function = program("heat");
    let certificate = |mode| {
        let derived = function.derive(&Request::new(mode, &["u0", "c"])).expect("it is derived").function;
        function.certify(&derived, mode).expect("it is certified").to_string()
    };
    insta::assert_snapshot!(certificate(Mode::Forward));
    insta::assert_snapshot!(certificate(Mode::Gradient));
}

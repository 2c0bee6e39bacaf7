//! Jacobians, Hessians and Gauss-Newton matrices of programs with loops, against columns that dual numbers give one by one.

use iverson::ir::base::ParamId;
use iverson::ir::diff::{self, Part, Sweep};
use iverson::ir::reference::check;
use iverson::ir::reference::{Dual, Environment, Leaf, Limits, Rounded, Subject, eval_term};
use iverson::ir::stages::check as verify;
use iverson::ir::{flow, term};
use iverson::kernel::Engine;
use iverson::tensor::Inputs;
use iverson::{Function, Mode, Request};

use super::random::{Judged, Judgement, Report, World, renamed, words};
use crate::jacobians::{places, volume};
use crate::judge::{Expected, Ways, dense};

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
    fn probed(
        at: &Environment<X>,
        wrt: &[ParamId],
        run: &dyn Fn(&Environment<Dual<X>>) -> iverson::Result<Vec<Leaf<Dual<X>>>>,
    ) -> iverson::Result<Matrix<X>> {
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
                let mut added: Vec<(ParamId, Vec<Leaf<X>>)> =
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

    fn given(&self, function: &Function, name: &str) -> Result<Vec<(ParamId, Vec<Leaf<X>>)>, String> {
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

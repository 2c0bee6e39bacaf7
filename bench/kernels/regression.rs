//! K3, K4 and K13: losses over sparse matrices.

use iverson::codegen::vector::{self, V};
use iverson::tensor::{Csr, Dense, Inputs, Value};
use iverson::{Function, Result};

use crate::harness::{Case, Run, Table, add_scaled, by_power_law, digest, dot, gathered, random, sparse};

pub fn run(table: &mut Table) -> Result<()> {
    logistic(table, 1000, 500)?;
    logistic(table, 100_000, 50_000)?;
    logistic_in_single(table, 1000, 500)?;
    logistic_in_single(table, 100_000, 50_000)?;
    product(table, 1000)?;
    product(table, 10_000)?;
    rank_one(table, 100_000, 50_000)
}

pub fn large(table: &mut Table) -> Result<()> {
    logistic(table, 100_000, 1_000_000)?;
    logistic_of(table, "power law, ", || by_power_law(100_000, 50_000, 20, 4), 100_000, 50_000)?;
    product(table, 100_000)?;
    rank_one(table, 1_000_000, 500_000)
}

/// The rows of a matrix times a vector.
fn times(csr: &Csr, x: &[f64], y: &mut [f64]) {
    let pattern = csr.pattern();
    for (i, y) in y.iter_mut().enumerate() {
        let row = pattern.row(i);
        *y = gathered(&pattern.indices()[row.clone()], &csr.data()[row], x);
    }
}

/// The columns of a matrix, and for each entry its place in the rows.
struct Columns {
    starts: Vec<usize>,
    rows: Vec<u32>,
    places: Vec<u32>,
}

impl Columns {
    fn new(csr: &Csr) -> Columns {
        let columns = csr.pattern().transposed();
        let narrow = |x: &usize| *x as u32;
        Columns {
            starts: columns.indptr.to_vec(),
            rows: columns.rows.iter().map(narrow).collect(),
            places: columns.positions.iter().map(narrow).collect(),
        }
    }

    /// The values column by column.
    fn ordered(&self, values: &[f64]) -> Vec<f64> {
        self.places.iter().map(|at| values[*at as usize]).collect()
    }

    /// The transposed matrix with values column by column, times a vector.
    fn times_ordered(&self, ordered: &[f64], x: &[f64], y: &mut [f64]) {
        for (j, y) in y.iter_mut().enumerate() {
            let column = self.starts[j]..self.starts[j + 1];
            *y = gathered(&self.rows[column.clone()], &ordered[column], x);
        }
    }

    /// The transposed matrix with these values, times a vector.
    fn times(&self, values: &[f64], x: &[f64], y: &mut [f64]) {
        for (j, y) in y.iter_mut().enumerate() {
            let range = self.starts[j]..self.starts[j + 1];
            let (rows, places) = (&self.rows[range.clone()], &self.places[range]);
            let (row_blocks, place_blocks) = (rows.chunks_exact(8), places.chunks_exact(8));
            let rest = row_blocks.remainder().iter().zip(place_blocks.remainder());
            let rest: f64 = rest.map(|(i, at)| values[*at as usize] * x[*i as usize]).sum();
            let mut sums = [0.0; 8];
            for (i, at) in row_blocks.zip(place_blocks) {
                for (l, sum) in sums.iter_mut().enumerate() {
                    *sum = values[at[l] as usize].mul_add(x[i[l] as usize], *sum);
                }
            }
            *y = V(sums).sum() + rest;
        }
    }
}

/// The loss of K3.
struct Logistic {
    x: Csr,
    y: Vec<f64>,
    w: Vec<f64>,
}

impl Logistic {
    /// Margins in blocks, so that softplus runs in lanes.
    fn margins(&self, a: &mut [f64]) {
        times(&self.x, &self.w, a);
        a.iter_mut().zip(&self.y).for_each(|(a, y)| *a *= -y);
    }

    fn total(&self, a: &[f64]) -> f64 {
        let mut sum = V::<8>::splat(0.0);
        let blocks = a.chunks_exact(8);
        let rest: f64 = blocks.remainder().iter().map(|a| vector::softplus(V([*a])).0[0]).sum();
        for a in blocks {
            sum = sum + vector::softplus(crate::harness::lanes(a, 0));
        }
        (sum.sum() + rest) / a.len() as f64
    }

    fn value(&self) -> Run<'_> {
        let mut a = vec![0.0; self.y.len()];
        Box::new(move || {
            self.margins(&mut a);
            digest([&[self.total(&a)][..]])
        })
    }

    /// With a product by the transposed matrix.
    fn gradient<'a>(&'a self, transposed: impl Fn(&[f64], &mut [f64]) + Send + 'a) -> Run<'a> {
        let (n, mut b, mut dw) = (self.y.len(), vec![0.0; self.y.len()], vec![0.0; self.w.len()]);
        Box::new(move || {
            self.margins(&mut b);
            let value = self.total(&b);
            for (b, y) in b.chunks_mut(8).zip(self.y.chunks(8)) {
                let mut block = [0.0; 8];
                block[..b.len()].copy_from_slice(b);
                let s = vector::sigmoid(V(block));
                b.iter_mut().zip(y).zip(s.0).for_each(|((b, y), s)| *b = -y * s / n as f64);
            }
            transposed(&b, &mut dw);
            digest([&[value][..], &dw])
        })
    }
}

fn logistic(table: &mut Table, n: usize, d: usize) -> Result<()> {
    logistic_of(table, "", || sparse(n, d, 20, 4), n, d)
}

fn logistic_of(table: &mut Table, kind: &str, x: impl Fn() -> Csr, n: usize, d: usize) -> Result<()> {
    let name = format!("K3 sparse logistic regression, {kind}{n} x {d}");
    let constant = format!("{name}, constant X, y");
    if !table.wants(&constant) {
        return Ok(());
    }
    let y = random(n, 6).into_iter().map(f64::signum).collect();
    let loss = Logistic { x: x(), y, w: random(d, 7) };
    let Logistic { x, y, w } = &loss;
    let mut inputs = Inputs::new();
    inputs.value("X", x.clone()).value("y", Value::vector(y.clone())).value("w", Value::vector(w.clone()));
    let columns = Columns::new(x);
    let text = include_str!("../../tests/programs/k03_sparse_logistic_regression.iv");
    let (wrt, inputs) = (&["w"][..], &inputs);
    let case = Case { name: &name, text, wrt, inputs, constants: &[], data: &[x.data(), y, w] };
    let gradient = loss.gradient(|b, dw| columns.times(x.data(), b, dw));
    table.compare(case, loss.value(), gradient)?;
    let ordered = columns.ordered(x.data());
    let case = Case { name: &constant, text, wrt, inputs, constants: &["X", "y"], data: &[w] };
    table.compare(case, loss.value(), loss.gradient(|b, dw| columns.times_ordered(&ordered, b, dw)))
}

/// The column of kernels by hand has that in double precision.
fn logistic_in_single(table: &mut Table, n: usize, d: usize) -> Result<()> {
    let name = format!("K3 in single over double precision, with gradient, {n} x {d}");
    if !table.wants(&name) {
        return Ok(());
    }
    let y: Vec<f64> = random(n, 6).into_iter().map(f64::signum).collect();
    let mut inputs = Inputs::new();
    inputs.value("X", sparse(n, d, 20, 4)).value("y", Value::vector(y)).value("w", Value::vector(random(d, 7)));
    let text = include_str!("../../tests/programs/k03_sparse_logistic_regression.iv");
    table.in_single(name, &Function::parse(text)?.value_and_gradient(&["w"])?, &inputs)
}

fn product(table: &mut Table, n: usize) -> Result<()> {
    const K: usize = 64;
    let name = format!("K4 sparse times dense, n = {n}, {K} columns");
    if !table.wants(&name) {
        return Ok(());
    }
    let s = sparse(n, n, 20, 8);
    let dense = random(n * K, 9);
    let mut inputs = Inputs::new();
    inputs.value("S", s.clone()).value("D", Dense::new(&[n, K], dense.clone()).expect("it fits"));
    let pattern = s.pattern().clone();
    let row_of = |j: u32| &dense[j as usize * K..][..K];
    let product = |i: usize, row: &mut [f64; K]| {
        row.fill(0.0);
        for at in pattern.row(i) {
            add_scaled(row, s.data()[at], row_of(pattern.indices()[at]));
        }
    };
    let value: Run<'_> = Box::new(|| {
        let mut row = [0.0; K];
        let square = |i| {
            product(i, &mut row);
            dot(&row, &row)
        };
        digest([&[(0..n).map(square).sum::<f64>()][..]])
    });
    let mut ds = vec![0.0; pattern.len()];
    let gradient: Run<'_> = Box::new(|| {
        let (mut value, mut row) = (0.0, [0.0; K]);
        for i in 0..n {
            product(i, &mut row);
            value += dot(&row, &row);
            for at in pattern.row(i) {
                ds[at] = 2.0 * dot(&row, row_of(pattern.indices()[at]));
            }
        }
        digest([&[value][..], &ds])
    });
    let text = include_str!("../../tests/programs/k04_sparse_times_dense.iv");
    let case = Case { name: &name, text, wrt: &["S"], inputs: &inputs, constants: &[], data: &[s.data(), &dense] };
    table.compare(case, value, gradient)
}

/// The loss of K13: `sum X^2 - 2 u'Xv + (u'u)(v'v)`.
struct RankOne {
    x: Csr,
    u: Vec<f64>,
    v: Vec<f64>,
}

impl RankOne {
    fn square(&self) -> f64 {
        dot(self.x.data(), self.x.data())
    }

    fn loss(&self, square: f64, xv: &mut [f64]) -> f64 {
        let RankOne { x, u, v } = self;
        times(x, v, xv);
        square - 2.0 * dot(u, xv) + dot(u, u) * dot(v, v)
    }

    fn value<'a>(&'a self, square: impl Fn() -> f64 + Send + 'a) -> Run<'a> {
        let mut xv = vec![0.0; self.u.len()];
        Box::new(move || digest([&[self.loss(square(), &mut xv)][..]]))
    }

    /// With a product by the transposed matrix.
    fn gradient<'a>(
        &'a self,
        square: impl Fn() -> f64 + Send + 'a,
        transposed: impl Fn(&[f64], &mut [f64]) + Send + 'a,
    ) -> Run<'a> {
        let RankOne { u, v, .. } = self;
        let (mut xv, mut du, mut dv) = (vec![0.0; u.len()], vec![0.0; u.len()], vec![0.0; v.len()]);
        Box::new(move || {
            let value = self.loss(square(), &mut xv);
            let (uu, vv) = (dot(u, u), dot(v, v));
            for ((du, u), xv) in du.iter_mut().zip(u).zip(&xv) {
                *du = 2.0 * (vv * u - xv);
            }
            transposed(u, &mut dv);
            dv.iter_mut().zip(v).for_each(|(dv, v)| *dv = 2.0 * (uu * v - *dv));
            digest([&[value][..], &du, &dv])
        })
    }
}

fn rank_one(table: &mut Table, m: usize, n: usize) -> Result<()> {
    let name = format!("K13 rank one residual, {m} x {n}");
    let constant = format!("{name}, constant X");
    if !table.wants(&constant) {
        return Ok(());
    }
    let loss = RankOne { x: sparse(m, n, 20, 20), u: random(m, 21), v: random(n, 22) };
    let RankOne { x, u, v } = &loss;
    let mut inputs = Inputs::new();
    inputs.value("X", x.clone()).value("u", Value::vector(u.clone())).value("v", Value::vector(v.clone()));
    let columns = Columns::new(x);
    let text = include_str!("../../tests/programs/k13_rank_one_residual.iv");
    let (wrt, inputs) = (&["u", "v"][..], &inputs);
    let case = Case { name: &name, text, wrt, inputs, constants: &[], data: &[x.data(), u, v] };
    let gradient = loss.gradient(|| loss.square(), |u, dv| columns.times(x.data(), u, dv));
    table.compare(case, loss.value(|| loss.square()), gradient)?;
    let (ordered, square) = (columns.ordered(x.data()), loss.square());
    let case = Case { name: &constant, text, wrt, inputs, constants: &["X"], data: &[u, v] };
    let gradient = loss.gradient(move || square, |u, dv| columns.times_ordered(&ordered, u, dv));
    table.compare(case, loss.value(move || square), gradient)
}

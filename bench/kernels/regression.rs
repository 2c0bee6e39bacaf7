//! K3, K4 and K13: losses over sparse matrices.

use iverson::ir::codegen::vector;
use iverson::tensor::{Csr, Dense, Inputs, Value};
use iverson::{Function, Result};

use crate::harness::{Case, Run, Table, by_power_law, random, sparse};
use crate::simd::{Lanes, dot, each, gathered};

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

/// `y += s * x` at the places of a row: on one thread nothing is gathered along the columns, so each number of the matrix is read once.
#[inline(always)]
pub fn scatter(columns: &[u32], values: &[f64], s: f64, y: &mut [f64]) {
    for (j, v) in columns.iter().zip(values) {
        let y = &mut y[*j as usize];
        *y = s.mul_add(*v, *y);
    }
}

/// The loss of K3.
struct Logistic {
    x: Csr,
    y: Vec<f64>,
    w: Vec<f64>,
}

impl Logistic {
    /// Rows are taken in blocks: their functions run in lanes, and they are still in the nearest cache when they are read again.
    const BLOCK: usize = 64;

    fn value(&self) -> Run<'_> {
        Box::new(|results| {
            let mut margins = [0.0; Self::BLOCK];
            let blocks = (0..self.y.len()).step_by(Self::BLOCK);
            let sum: f64 = blocks.map(|first| self.block(first, &mut margins)).sum();
            results[0][0] = sum / self.y.len() as f64;
        })
    }

    /// The loss of the rows of a block, and their margins. Rows that are not there have a margin of which the loss is 0.
    #[inline(always)]
    fn block(&self, first: usize, margins: &mut [f64; Self::BLOCK]) -> f64 {
        let (pattern, y) = (self.x.pattern(), &self.y[first..]);
        for (l, margin) in margins.iter_mut().enumerate() {
            *margin = match y.get(l) {
                Some(y) => {
                    let row = pattern.row(first + l);
                    -y * gathered(&pattern.indices()[row.clone()], &self.x.data()[row], &self.w)
                }
                None => f64::NEG_INFINITY,
            };
        }
        let losses = (0..Self::BLOCK).step_by(8).map(|l| Lanes::load(margins, l).map(vector::softplus));
        losses.fold(Lanes::splat(0.0), |sum, loss| sum + loss).sum()
    }

    fn gradient(&self) -> Run<'_> {
        let n = self.y.len();
        Box::new(move |results| {
            let [value, dw] = results else { return };
            let mut margins = [0.0; Self::BLOCK];
            (value[0], _) = (0.0, dw.fill(0.0));
            for first in (0..n).step_by(Self::BLOCK) {
                value[0] += self.block(first, &mut margins) / n as f64;
                for l in (0..Self::BLOCK).step_by(8) {
                    Lanes::load(&margins, l).map(vector::sigmoid).store(&mut margins, l);
                }
                for (l, y) in self.y[first..].iter().take(Self::BLOCK).enumerate() {
                    let row = self.x.pattern().row(first + l);
                    let columns = &self.x.pattern().indices()[row.clone()];
                    scatter(columns, &self.x.data()[row], -y * margins[l] / n as f64, dw);
                }
            }
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
    let text = include_str!("../../tests/programs/k03_sparse_logistic_regression.iv");
    let (wrt, inputs) = (&["w"][..], &inputs);
    let case = Case { name: &name, text, wrt, inputs, constants: &[], data: &[x.data(), y, w] };
    table.compare(case, loss.value(), loss.gradient())?;
    let case = Case { name: &constant, text, wrt, inputs, constants: &["X", "y"], data: &[w] };
    table.compare(case, loss.value(), loss.gradient())
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
    table.in_single(name, &Function::parse(text)?.value_and_gradient(["w"])?, &inputs)
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
    let row_of = |at: usize| -> [Lanes; K / 8] {
        let row = &dense[pattern.indices()[at] as usize * K..][..K];
        each(|c| Lanes::load(row, 8 * c))
    };
    // A row of the product, which stays in registers, and its square.
    let product = |i: usize| {
        let mut row = [Lanes::splat(0.0); K / 8];
        for at in pattern.row(i) {
            let scale = Lanes::splat(s.data()[at]);
            row.iter_mut().zip(row_of(at)).for_each(|(sum, x)| *sum = scale.fused(x, *sum));
        }
        (row, row.iter().fold(Lanes::splat(0.0), |sum, x| x.fused(*x, sum)))
    };
    let value: Run<'_> = Box::new(|results| {
        results[0][0] = (0..n).fold(Lanes::splat(0.0), |sum, i| sum + product(i).1).sum();
    });
    let gradient: Run<'_> = Box::new(|results| {
        let [value, ds] = results else { return };
        let mut sum = Lanes::splat(0.0);
        for i in 0..n {
            let (row, square) = product(i);
            sum += square;
            let row = row.map(|x| x + x);
            let along = |at: usize| {
                let x = row_of(at);
                let of = |first: usize| {
                    let last = row[first..].iter().zip(&x[first..]).step_by(2);
                    last.fold(Lanes::splat(0.0), |sum, (a, b)| a.fused(*b, sum))
                };
                of(0) + of(1)
            };
            let entries = pattern.row(i);
            let blocks = entries.start..entries.end - entries.len() % 8;
            for at in blocks.clone().step_by(8) {
                Lanes::sums(each(|l| along(at + l))).store(ds, at);
            }
            (blocks.end..entries.end).for_each(|at| ds[at] = along(at).sum());
        }
        value[0] = sum.sum();
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
    /// `sum X^2`, where it is not known, and `u'Xv`, in one pass over the matrix.
    fn loss(&self, square: Option<f64>, mut row_of: impl FnMut(usize, f64)) -> f64 {
        let RankOne { x, u, v } = self;
        let (pattern, mut across) = (x.pattern(), 0.0);
        let mut own = 0.0;
        for (i, u) in u.iter().enumerate() {
            let row = pattern.row(i);
            let (columns, values) = (&pattern.indices()[row.clone()], &x.data()[row]);
            let xv = gathered(columns, values, v);
            if square.is_none() {
                own += dot(values, values);
            }
            across += u * xv;
            row_of(i, xv);
        }
        square.unwrap_or(own) - 2.0 * across + dot(u, u) * dot(v, v)
    }

    fn value(&self, square: Option<f64>) -> Run<'_> {
        Box::new(move |results| results[0][0] = self.loss(square, |_, _| {}))
    }

    fn gradient(&self, square: Option<f64>) -> Run<'_> {
        let RankOne { x, u, v } = self;
        Box::new(move |results| {
            let [value, du, dv] = results else { return };
            let (uu, vv) = (dot(u, u), dot(v, v));
            dv.iter_mut().zip(v).for_each(|(dv, v)| *dv = 2.0 * uu * v);
            value[0] = self.loss(square, |i, xv| {
                du[i] = 2.0 * (vv * u[i] - xv);
                let row = x.pattern().row(i);
                scatter(&x.pattern().indices()[row.clone()], &x.data()[row], -2.0 * u[i], dv);
            });
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
    let text = include_str!("../../tests/programs/k13_rank_one_residual.iv");
    let (wrt, inputs) = (&["u", "v"][..], &inputs);
    let case = Case { name: &name, text, wrt, inputs, constants: &[], data: &[x.data(), u, v] };
    table.compare(case, loss.value(None), loss.gradient(None))?;
    let square = Some(dot(x.data(), x.data()));
    let case = Case { name: &constant, text, wrt, inputs, constants: &["X"], data: &[u, v] };
    table.compare(case, loss.value(square), loss.gradient(square))
}

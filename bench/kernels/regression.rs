//! K3, K4 and K13: losses over sparse matrices.

use iverson::codegen::vector::{self, V};
use iverson::tensor::{Csr, Dense, Inputs, Value};
use iverson::{Function, Result};

use crate::harness::{Case, Run, Table, add_scaled, digest, dot, gathered, random, sparse};

pub fn run(table: &mut Table) -> Result<()> {
    logistic(table, 1000, 500)?;
    logistic(table, 100_000, 50_000)?;
    logistic_in_single(table, 1000, 500)?;
    logistic_in_single(table, 100_000, 50_000)?;
    product(table, 1000)?;
    product(table, 10_000)?;
    rank_one(table, 100_000, 50_000)
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

fn logistic(table: &mut Table, n: usize, d: usize) -> Result<()> {
    let name = format!("K3 sparse logistic regression, {n} x {d}");
    if !table.wants(&name) {
        return Ok(());
    }
    let csr = sparse(n, d, 20, 4);
    let y: Vec<f64> = random(n, 6).into_iter().map(f64::signum).collect();
    let w = random(d, 7);
    let mut inputs = Inputs::new();
    inputs.value("X", csr.clone()).value("y", Value::vector(y.clone())).value("w", Value::vector(w.clone()));
    // Margins in blocks, so that softplus runs in lanes.
    let margins = |a: &mut [f64]| {
        times(&csr, &w, a);
        a.iter_mut().zip(&y).for_each(|(a, y)| *a *= -y);
    };
    let total = |a: &[f64]| {
        let mut sum = V::<8>::splat(0.0);
        let blocks = a.chunks_exact(8);
        let rest: f64 = blocks.remainder().iter().map(|a| vector::softplus(V([*a])).0[0]).sum();
        for a in blocks {
            sum = sum + vector::softplus(crate::harness::lanes(a, 0));
        }
        (sum.sum() + rest) / n as f64
    };
    let (mut a, mut b, mut dw) = (vec![0.0; n], vec![0.0; n], vec![0.0; d]);
    let value: Run<'_> = Box::new(|| {
        margins(&mut a);
        digest([&[total(&a)][..]])
    });
    let columns = Columns::new(&csr);
    let gradient: Run<'_> = Box::new(|| {
        margins(&mut b);
        let value = total(&b);
        for (b, y) in b.chunks_mut(8).zip(y.chunks(8)) {
            let mut block = [0.0; 8];
            block[..b.len()].copy_from_slice(b);
            let s = vector::sigmoid(V(block));
            b.iter_mut().zip(y).zip(s.0).for_each(|((b, y), s)| *b = -y * s / n as f64);
        }
        columns.times(csr.data(), &b, &mut dw);
        digest([&[value][..], &dw])
    });
    let text = include_str!("../../tests/programs/k03_sparse_logistic_regression.iv");
    let case = Case { name: &name, text, wrt: &["w"], inputs: &inputs, data: &[csr.data(), &y, &w] };
    table.compare(case, value, gradient)
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
    let case = Case { name: &name, text, wrt: &["S"], inputs: &inputs, data: &[s.data(), &dense] };
    table.compare(case, value, gradient)
}

fn rank_one(table: &mut Table, m: usize, n: usize) -> Result<()> {
    let name = format!("K13 rank one residual, {m} x {n}");
    if !table.wants(&name) {
        return Ok(());
    }
    let csr = sparse(m, n, 20, 20);
    let (u, v) = (random(m, 21), random(n, 22));
    let mut inputs = Inputs::new();
    inputs.value("X", csr.clone()).value("u", Value::vector(u.clone())).value("v", Value::vector(v.clone()));
    let (mut xv, mut other, mut du, mut dv) = (vec![0.0; m], vec![0.0; m], vec![0.0; m], vec![0.0; n]);
    // sum X^2 - 2 u'Xv + (u'u)(v'v)
    let loss = |xv: &mut [f64]| {
        times(&csr, &v, xv);
        dot(csr.data(), csr.data()) - 2.0 * dot(&u, xv) + dot(&u, &u) * dot(&v, &v)
    };
    let value: Run<'_> = Box::new(|| digest([&[loss(&mut xv)][..]]));
    let columns = Columns::new(&csr);
    let gradient: Run<'_> = Box::new(|| {
        let value = loss(&mut other);
        let (uu, vv) = (dot(&u, &u), dot(&v, &v));
        for ((du, u), xv) in du.iter_mut().zip(&u).zip(&other) {
            *du = 2.0 * (vv * u - xv);
        }
        columns.times(csr.data(), &u, &mut dv);
        dv.iter_mut().zip(&v).for_each(|(dv, v)| *dv = 2.0 * (uu * v - *dv));
        digest([&[value][..], &du, &dv])
    });
    let text = include_str!("../../tests/programs/k13_rank_one_residual.iv");
    let case = Case { name: &name, text, wrt: &["u", "v"], inputs: &inputs, data: &[csr.data(), &u, &v] };
    table.compare(case, value, gradient)
}

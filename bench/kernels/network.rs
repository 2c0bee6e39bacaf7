//! K6 and K11: networks. By hand, matrix products are those of `ndarray`, which has a GEMM of its own.

use iverson::Result;
use iverson::codegen::vector::{self, V};
use iverson::tensor::{Dense, Inputs, Value};
use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, Axis};

use crate::harness::{Case, Run, Table, add_scaled, digest, dot, random, sparse};

pub fn run(table: &mut Table) -> Result<()> {
    graph(table, 1000)?;
    graph(table, 20_000)?;
    perceptron(table, [8, 20, 16, 10])?;
    perceptron(table, [128, 784, 256, 10])
}

fn matrix(rows: usize, cols: usize, seed: u64) -> Array2<f64> {
    Array2::from_shape_vec((rows, cols), random(rows * cols, seed)).expect("it fits")
}

fn dense(x: &Array2<f64>) -> Dense {
    Dense::new(x.shape(), x.iter().copied().collect()).expect("it fits")
}

fn slice(x: &Array2<f64>) -> &[f64] {
    x.as_slice().expect("row by row")
}

/// `c = a b`
fn multiply(a: ArrayView2<'_, f64>, b: ArrayView2<'_, f64>, c: &mut Array2<f64>) {
    general_mat_mul(1.0, &a, &b, 0.0, c);
}

fn graph(table: &mut Table, n: usize) -> Result<()> {
    let name = format!("K6 graph convolution, n = {n}");
    if !table.wants(&name) {
        return Ok(());
    }
    let (a, b, c) = (64, 32, 32);
    let s = sparse(n, n, 10, 51);
    let (x, w1, w2, y) = (matrix(n, a, 52), matrix(a, b, 53), matrix(b, c, 54), matrix(n, c, 55));
    let mut inputs = Inputs::new();
    inputs.value("S", s.clone());
    for (name, x) in [("X", &x), ("W1", &w1), ("W2", &w2), ("Y", &y)] {
        inputs.value(name, dense(x));
    }
    let pattern = s.pattern().clone();
    let columns = pattern.transposed();
    // y = S x
    let product = |x: &Array2<f64>, y: &mut Array2<f64>| {
        let (k, x) = (x.ncols(), slice(x));
        for (i, mut row) in y.outer_iter_mut().enumerate() {
            let row = row.as_slice_mut().expect("row by row");
            row.fill(0.0);
            for at in pattern.row(i) {
                add_scaled(row, s.data()[at], &x[pattern.indices()[at] as usize * k..][..k]);
            }
        }
    };
    // y = S' x
    let transposed = |x: &Array2<f64>, y: &mut Array2<f64>| {
        let (k, x) = (x.ncols(), slice(x));
        for (j, mut row) in y.outer_iter_mut().enumerate() {
            let row = row.as_slice_mut().expect("row by row");
            row.fill(0.0);
            for q in columns.indptr[j]..columns.indptr[j + 1] {
                add_scaled(row, s.data()[columns.positions[q]], &x[columns.rows[q] * k..][..k]);
            }
        }
    };
    let forward = |xw: &mut Array2<f64>, h: &mut Array2<f64>, hw: &mut Array2<f64>, o: &mut Array2<f64>| {
        multiply(x.view(), w1.view(), xw);
        product(xw, h);
        h.mapv_inplace(|x| x.max(0.0));
        multiply(h.view(), w2.view(), hw);
        product(hw, o);
        *o -= &y;
        dot(slice(o), slice(o))
    };
    let new = |k: usize| Array2::<f64>::zeros((n, k));
    let (mut xw, mut h, mut hw, mut o) = (new(b), new(b), new(c), new(c));
    let value: Run<'_> = Box::new(|| digest([&[forward(&mut xw, &mut h, &mut hw, &mut o)][..]]));
    let (mut xw2, mut h2, mut hw2, mut o2) = (new(b), new(b), new(c), new(c));
    let (mut so, mut dh, mut sh) = (new(c), new(b), new(b));
    let (mut dw1, mut dw2) = (Array2::zeros((a, b)), Array2::zeros((b, c)));
    let gradient: Run<'_> = Box::new(|| {
        let value = forward(&mut xw2, &mut h2, &mut hw2, &mut o2);
        o2.mapv_inplace(|x| 2.0 * x);
        transposed(&o2, &mut so);
        multiply(h2.t(), so.view(), &mut dw2);
        multiply(so.view(), w2.t(), &mut dh);
        dh.zip_mut_with(&h2, |d, h| *d = if *h > 0.0 { *d } else { 0.0 });
        transposed(&dh, &mut sh);
        multiply(x.t(), sh.view(), &mut dw1);
        digest([&[value][..], slice(&dw1), slice(&dw2)])
    });
    let text = include_str!("../../tests/programs/k06_graph_convolution.iv");
    let data: Vec<&[f64]> = vec![s.data(), slice(&x), slice(&w1), slice(&w2), slice(&y)];
    let case = Case { name: &name, text, wrt: &["W1", "W2"], inputs: &inputs, constants: &[], data: &data };
    table.compare(case, value, gradient)
}

/// `tanh` of all elements, in lanes.
fn tanh(x: &mut [f64]) {
    for x in x.chunks_mut(8) {
        let mut block = [0.0; 8];
        block[..x.len()].copy_from_slice(x);
        let y = vector::tanh(V(block));
        x.copy_from_slice(&y.0[..x.len()]);
    }
}

fn perceptron(table: &mut Table, [n, a, b, c]: [usize; 4]) -> Result<()> {
    let name = format!("K11 perceptron, {a}-{b}-{c}, batch {n}");
    if !table.wants(&name) {
        return Ok(());
    }
    let (x, w1, w2) = (matrix(n, a, 61), matrix(a, b, 62) * 0.05, matrix(b, c, 63));
    let t = matrix(n, c, 64).mapv(f64::abs);
    let (b1, b2) = (Array1::from(random(b, 65)), Array1::from(random(c, 66)));
    let mut inputs = Inputs::new();
    for (name, x) in [("x", &x), ("t", &t), ("W1", &w1), ("W2", &w2)] {
        inputs.value(name, dense(x));
    }
    inputs.value("b1", Value::vector(b1.to_vec())).value("b2", Value::vector(b2.to_vec()));
    let forward = |h: &mut Array2<f64>, o: &mut Array2<f64>| {
        h.assign(&b1);
        general_mat_mul(1.0, &x, &w1, 1.0, h);
        tanh(h.as_slice_mut().expect("row by row"));
        o.assign(&b2);
        general_mat_mul(1.0, &*h, &w2, 1.0, o);
        let mut value = 0.0;
        for (mut o, t) in o.outer_iter_mut().zip(t.outer_iter()) {
            let top = o.fold(f64::NEG_INFINITY, |top, x| top.max(*x));
            value -= o.dot(&t);
            o.mapv_inplace(|x| (x - top).exp());
            let sum = o.sum();
            o.mapv_inplace(|x| x / sum);
            value += top + sum.ln();
        }
        value
    };
    let (mut h, mut o) = (Array2::zeros((n, b)), Array2::zeros((n, c)));
    let value: Run<'_> = Box::new(|| digest([&[forward(&mut h, &mut o)][..]]));
    let (mut h2, mut o2, mut dh) = (Array2::zeros((n, b)), Array2::zeros((n, c)), Array2::zeros((n, b)));
    let (mut dw1, mut dw2) = (Array2::zeros((a, b)), Array2::zeros((b, c)));
    let gradient: Run<'_> = Box::new(|| {
        let value = forward(&mut h2, &mut o2);
        o2 -= &t;
        multiply(h2.t(), o2.view(), &mut dw2);
        multiply(o2.view(), w2.t(), &mut dh);
        dh.zip_mut_with(&h2, |d, h| *d *= 1.0 - h * h);
        multiply(x.t(), dh.view(), &mut dw1);
        let (db1, db2) = (dh.sum_axis(Axis(0)), o2.sum_axis(Axis(0)));
        let sums = [&db1, &db2].map(|x| x.as_slice().expect("neighbours"));
        digest([&[value][..], slice(&dw1), sums[0], slice(&dw2), sums[1]])
    });
    let text = include_str!("../../tests/programs/k11_perceptron.iv");
    let data: Vec<&[f64]> = vec![
        slice(&x),
        slice(&t),
        slice(&w1),
        b1.as_slice().expect("neighbours"),
        slice(&w2),
        b2.as_slice().expect("neighbours"),
    ];
    // The bars of t sum to anything, so the gradient is that of the program as written.
    let case = Case { name: &name, text, wrt: &["W1", "b1", "W2", "b2"], inputs: &inputs, constants: &[], data: &data };
    table.compare(case, value, gradient)
}

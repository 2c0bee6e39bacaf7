//! K6 and K11: networks.

use iverson::Result;
use iverson::ir::codegen::vector;
use iverson::tensor::{Dense, Inputs, Value};

use crate::gemm::{Matrix, multiply, packed};
use crate::harness::{Case, Run, Table, random, sparse};
use crate::simd::{Lanes, each, mapped};

pub fn run(table: &mut Table) -> Result<()> {
    graph(table, 1000)?;
    graph(table, 20_000)?;
    perceptron(table, [8, 20, 16, 10])?;
    perceptron(table, [128, 784, 256, 10])
}

fn dense(rows: usize, columns: usize, x: &[f64]) -> Dense {
    Dense::new(&[rows, columns], x.to_vec()).expect("it fits")
}

/// `c = a' b` for `a` and `b` with many rows, a block of them after the other.
fn multiply_along(a: &[f64], b: &[f64], [rows, columns]: [usize; 2], c: &mut [f64], room: &mut [f64]) {
    let blocks = a.chunks(BLOCK * rows).zip(b.chunks(BLOCK * columns)).enumerate();
    for (at, (a, b)) in blocks {
        let inner = a.len() / rows;
        let beta = if at == 0 { 0.0 } else { 1.0 };
        multiply(Matrix::new(a, rows).transposed(), Matrix::new(b, columns), [rows, inner, columns], beta, c, room);
    }
}

/// Rows of a block of [`multiply_along`].
const BLOCK: usize = 256;

fn graph(table: &mut Table, n: usize) -> Result<()> {
    let name = format!("K6 graph convolution, n = {n}");
    if !table.wants(&name) {
        return Ok(());
    }
    let (a, b, c) = (64, 32, 32);
    let s = sparse(n, n, 10, 51);
    let (x, w1, w2, y) = (random(n * a, 52), random(a * b, 53), random(b * c, 54), random(n * c, 55));
    let mut inputs = Inputs::new();
    inputs.value("S", s.clone());
    for (name, rows, columns, x) in [("X", n, a, &x), ("W1", a, b, &w1), ("W2", b, c, &w2), ("Y", n, c, &y)] {
        inputs.value(name, dense(rows, columns, x));
    }
    let pattern = s.pattern().clone();
    let columns = pattern.transposed();
    let narrow = |x: &[usize]| x.iter().map(|x| *x as u32).collect::<Vec<u32>>();
    let (rows, positions) = (narrow(&columns.rows), narrow(&columns.positions));
    // Rows of S x are given to `found` while they are in registers.
    let product = |x: &[f64], found: &mut dyn FnMut(usize, [Lanes; WIDE])| {
        for i in 0..n {
            let entries = pattern.row(i).map(|at| (s.data()[at], pattern.indices()[at]));
            found(i, combined(entries, x));
        }
    };
    // And rows of S' x.
    let transposed = |x: &[f64], found: &mut dyn FnMut(usize, [Lanes; WIDE])| {
        for j in 0..n {
            let entries = columns.indptr[j]..columns.indptr[j + 1];
            found(j, combined(entries.map(|q| (s.data()[positions[q] as usize], rows[q])), x));
        }
    };
    let forward = |[xw, h, hw]: [&mut [f64]; 3], room: &mut [f64], residual: &mut dyn FnMut(usize, [Lanes; WIDE])| {
        multiply(Matrix::new(&x, a), Matrix::new(&w1, b), [n, a, b], 0.0, xw, room);
        product(xw, &mut |i, row| store(mapped(row, |x| x.map(|x| x.map(|x| x.max(0.0)))), h, i));
        multiply(Matrix::new(h, b), Matrix::new(&w2, c), [n, b, c], 0.0, hw, room);
        let mut square = Lanes::splat(0.0);
        product(hw, &mut |i, row| {
            let r: [Lanes; WIDE] = each(|v| row[v] - Lanes::load(&y, i * c + 8 * v));
            square = r.into_iter().fold(square, |sum, r| r.fused(r, sum));
            residual(i, r);
        });
        square.sum()
    };
    let new = |k: usize| vec![0.0; n * k];
    let room = || packed(a.max(BLOCK), b.max(c));
    let (mut xw, mut h, mut hw, mut rooms) = (new(b), new(b), new(c), [room(), room()]);
    let [one, two] = &mut rooms;
    let value: Run<'_> = Box::new(|results| results[0][0] = forward([&mut xw, &mut h, &mut hw], one, &mut |_, _| {}));
    let (mut xw2, mut h2, mut hw2, mut o) = (new(b), new(b), new(c), new(c));
    let (mut so, mut dh, mut sh) = (new(c), new(b), new(b));
    let gradient: Run<'_> = Box::new(|results| {
        let [value, dw1, dw2] = results else { return };
        value[0] = forward([&mut xw2, &mut h2, &mut hw2], two, &mut |i, r| store(mapped(r, |r| r + r), &mut o, i));
        transposed(&o, &mut |j, row| store(row, &mut so, j));
        multiply_along(&h2, &so, [b, c], dw2, two);
        multiply(Matrix::new(&so, c), Matrix::new(&w2, c).transposed(), [n, c, b], 0.0, &mut dh, two);
        dh.iter_mut().zip(&h2).for_each(|(d, h)| *d = if *h > 0.0 { *d } else { 0.0 });
        transposed(&dh, &mut |j, row| store(row, &mut sh, j));
        multiply_along(&x, &sh, [a, b], dw1, two);
    });
    let text = include_str!("../../tests/programs/k06_graph_convolution.iv");
    let data: Vec<&[f64]> = vec![s.data(), &x, &w1, &w2, &y];
    let case = Case { name: &name, text, wrt: &["W1", "W2"], inputs: &inputs, constants: &[], data: &data };
    table.compare(case, value, gradient)
}

/// Vectors of a row of K6.
const WIDE: usize = 4;

/// The sum of multiples of rows.
#[inline(always)]
fn combined(entries: impl Iterator<Item = (f64, u32)>, x: &[f64]) -> [Lanes; WIDE] {
    let mut sums = [Lanes::splat(0.0); WIDE];
    for (s, j) in entries {
        let (s, x) = (Lanes::splat(s), &x[j as usize * 8 * WIDE..][..8 * WIDE]);
        sums.iter_mut().enumerate().for_each(|(v, sum)| *sum = s.fused(Lanes::load(x, 8 * v), *sum));
    }
    sums
}

#[inline(always)]
fn store(row: [Lanes; WIDE], to: &mut [f64], i: usize) {
    row.into_iter().enumerate().for_each(|(v, x)| x.store(to, 8 * (i * WIDE + v)));
}

/// A function of all elements, in lanes.
#[inline(always)]
fn apply(x: &mut [f64], f: impl Fn(Lanes) -> Lanes) {
    for x in x.chunks_mut(8) {
        let mut block = [0.0; 8];
        block[..x.len()].copy_from_slice(x);
        x.copy_from_slice(&f(Lanes::load(&block, 0)).array()[..x.len()]);
    }
}

/// The sums of the columns.
fn sums_of_columns(x: &[f64], sums: &mut [f64]) {
    sums.fill(0.0);
    x.chunks_exact(sums.len()).for_each(|row| sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x));
}

fn perceptron(table: &mut Table, [n, a, b, c]: [usize; 4]) -> Result<()> {
    let name = format!("K11 perceptron, {a}-{b}-{c}, batch {n}");
    if !table.wants(&name) {
        return Ok(());
    }
    let scaled = |x: Vec<f64>, s: f64| x.into_iter().map(|x| s * x).collect::<Vec<f64>>();
    let (x, w1, w2) = (random(n * a, 61), scaled(random(a * b, 62), 0.05), random(b * c, 63));
    let t: Vec<f64> = random(n * c, 64).into_iter().map(f64::abs).collect();
    let (b1, b2) = (random(b, 65), random(c, 66));
    let mut inputs = Inputs::new();
    for (name, rows, columns, x) in [("x", n, a, &x), ("t", n, c, &t), ("W1", a, b, &w1), ("W2", b, c, &w2)] {
        inputs.value(name, dense(rows, columns, x));
    }
    inputs.value("b1", Value::vector(b1.clone())).value("b2", Value::vector(b2.clone()));
    let forward = |h: &mut [f64], o: &mut [f64], room: &mut [f64]| {
        h.chunks_exact_mut(b).for_each(|row| row.copy_from_slice(&b1));
        multiply(Matrix::new(&x, a), Matrix::new(&w1, b), [n, a, b], 1.0, h, room);
        apply(h, |x| x.map(vector::tanh));
        o.chunks_exact_mut(c).for_each(|row| row.copy_from_slice(&b2));
        multiply(Matrix::new(h, b), Matrix::new(&w2, c), [n, b, c], 1.0, o, room);
        let mut value = 0.0;
        for (o, t) in o.chunks_exact_mut(c).zip(t.chunks_exact(c)) {
            let top = o.iter().fold(f64::NEG_INFINITY, |top, x| top.max(*x));
            value -= o.iter().zip(t).map(|(o, t)| o * t).sum::<f64>();
            o.iter_mut().for_each(|x| *x -= top);
            apply(o, |x| x.map(vector::exp));
            let sum: f64 = o.iter().sum();
            o.iter_mut().for_each(|x| *x /= sum);
            value += top + sum.ln();
        }
        value
    };
    let mut room = [(); 2].map(|()| packed(a.max(b).max(n), b.max(c)));
    let [one, two] = &mut room;
    let (mut h, mut o) = (vec![0.0; n * b], vec![0.0; n * c]);
    let value: Run<'_> = Box::new(|results| results[0][0] = forward(&mut h, &mut o, one));
    let (mut h2, mut o2, mut dh) = (vec![0.0; n * b], vec![0.0; n * c], vec![0.0; n * b]);
    let gradient: Run<'_> = Box::new(|results| {
        let [value, dw1, db1, dw2, db2] = results else { return };
        value[0] = forward(&mut h2, &mut o2, two);
        o2.iter_mut().zip(&t).for_each(|(o, t)| *o -= t);
        multiply(Matrix::new(&h2, b).transposed(), Matrix::new(&o2, c), [b, n, c], 0.0, dw2, two);
        multiply(Matrix::new(&o2, c), Matrix::new(&w2, c).transposed(), [n, c, b], 0.0, &mut dh, two);
        dh.iter_mut().zip(&h2).for_each(|(d, h)| *d *= 1.0 - h * h);
        multiply(Matrix::new(&x, a).transposed(), Matrix::new(&dh, b), [a, n, b], 0.0, dw1, two);
        sums_of_columns(&dh, db1);
        sums_of_columns(&o2, db2);
    });
    let text = include_str!("../../tests/programs/k11_perceptron.iv");
    let data: Vec<&[f64]> = vec![&x, &t, &w1, &b1, &w2, &b2];
    // The bars of t sum to anything, so the gradient is that of the program as written.
    let case = Case { name: &name, text, wrt: &["W1", "b1", "W2", "b2"], inputs: &inputs, constants: &[], data: &data };
    table.compare(case, value, gradient)
}

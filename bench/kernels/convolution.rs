//! K1 and K2: deconvolution, of one signal and of a batch.

use iverson::Result;
use iverson::tensor::{Dense, Inputs, Value};

use crate::harness::{Case, Run, Table, random};
use crate::simd::{Lanes, dot, each};

pub fn run(table: &mut Table) -> Result<()> {
    for (n, m) in [(1000, 9), (100_000, 9), (100_000, 64)] {
        one(table, n, m)?;
    }
    batch(table, 64, 4096, 32)
}

pub fn large(table: &mut Table) -> Result<()> {
    one(table, 262_144, 32)
}

/// `y[i] = sum over k of w[k] x[i + k]`, in blocks that stay in registers.
fn correlate(x: &[f64], w: &[f64], y: &mut [f64]) {
    const WIDTH: usize = 64;
    let n = y.len();
    let mut start = 0;
    while start + WIDTH <= n {
        let mut sums = [Lanes::splat(0.0); WIDTH / 8];
        for (k, w) in w.iter().enumerate() {
            let (w, x) = (Lanes::splat(*w), &x[start + k..start + k + WIDTH]);
            for (c, sum) in sums.iter_mut().enumerate() {
                *sum = Lanes::load(x, 8 * c).fused(w, *sum);
            }
        }
        for (c, sum) in sums.into_iter().enumerate() {
            sum.store(y, start + 8 * c);
        }
        start += WIDTH;
    }
    for i in start..n {
        y[i] = dot(w, &x[i..]);
    }
}

/// `y[k] = sum over i of r[i] x[i + k]`, eight at a time.
fn moments(x: &[f64], r: &[f64], y: &mut [f64]) {
    let n = r.len() / 8 * 8;
    for (block, y) in y.chunks_mut(8).enumerate() {
        let mut sums = [Lanes::splat(0.0); 8];
        let starts: [usize; 8] = each(|k| 8 * block + k.min(y.len() - 1));
        for i in (0..n).step_by(8) {
            let r = Lanes::load(r, i);
            for (sum, start) in sums.iter_mut().zip(starts) {
                *sum = Lanes::load(x, start + i).fused(r, *sum);
            }
        }
        for ((y, sum), start) in y.iter_mut().zip(sums).zip(starts) {
            *y = sum.sum() + dot(&r[n..], &x[start + n..]);
        }
    }
}

fn residual(x: &[f64], reversed: &[f64], z: &[f64], r: &mut [f64]) -> f64 {
    correlate(x, reversed, r);
    r.iter_mut().zip(z).for_each(|(r, z)| *r -= z);
    dot(r, r)
}

fn one(table: &mut Table, n: usize, m: usize) -> Result<()> {
    let name = format!("K1 deconvolution, n = {n}, m = {m}");
    if !table.wants(&name) {
        return Ok(());
    }
    let (x, w, z) = (random(n + m - 1, 1), random(m, 2), random(n, 3));
    let mut inputs = Inputs::new();
    inputs
        .value("x", Value::vector(x.clone()))
        .value("w", Value::vector(w.clone()))
        .value("z", Value::vector(z.clone()));
    let reversed: Vec<f64> = w.iter().rev().copied().collect();
    let mut block = [0.0; 1024];
    // The value needs no residual in memory.
    let value: Run<'_> = Box::new(|results| {
        let blocks = z.chunks(1024).enumerate();
        results[0][0] = blocks.map(|(k, z)| residual(&x[1024 * k..], &reversed, z, &mut block[..z.len()])).sum();
    });
    let (mut r, mut padded) = (vec![0.0; n], vec![0.0; n + 2 * m]);
    let gradient: Run<'_> = Box::new(|results| {
        let [value, dx, dw] = results else { return };
        value[0] = residual(&x, &reversed, &z, &mut r);
        r.iter_mut().for_each(|r| *r *= 2.0);
        // dx[i] = sum over j of w[j] r[i + j - m + 1], where r is 0 outside.
        padded[m - 1..m - 1 + n].copy_from_slice(&r);
        correlate(&padded, &w, dx);
        moments(&x, &r, dw);
        dw.reverse();
    });
    let text = include_str!("../../tests/programs/e08_deconvolution.iv");
    let case = Case { name: &name, text, wrt: &["x", "w"], inputs: &inputs, constants: &[], data: &[&x, &w, &z] };
    table.compare(case, value, gradient)
}

fn batch(table: &mut Table, b: usize, n: usize, m: usize) -> Result<()> {
    let name = format!("K2 batched deconvolution, B = {b}, n = {n}, m = {m}");
    if !table.wants(&name) {
        return Ok(());
    }
    let (x, w, z) = (random(b * (n + m - 1), 1), random(m, 2), random(b * n, 3));
    let mut inputs = Inputs::new();
    inputs
        .value("x", Dense::new(&[b, n + m - 1], x.clone()).expect("it fits"))
        .value("w", Value::vector(w.clone()))
        .value("z", Dense::new(&[b, n], z.clone()).expect("it fits"));
    let reversed: Vec<f64> = w.iter().rev().copied().collect();
    let rows = || x.chunks(n + m - 1).zip(z.chunks(n));
    let (mut r, mut s, mut part) = (vec![0.0; n], vec![0.0; n], vec![0.0; m]);
    let value: Run<'_> =
        Box::new(|results| results[0][0] = rows().map(|(x, z)| residual(x, &reversed, z, &mut r)).sum::<f64>());
    let gradient: Run<'_> = Box::new(|results| {
        let [value, dw] = results else { return };
        dw.fill(0.0);
        value[0] = 0.0;
        for (x, z) in rows() {
            value[0] += residual(x, &reversed, z, &mut s);
            moments(x, &s, &mut part);
            dw.iter_mut().zip(part.iter().rev()).for_each(|(dw, part)| *dw += 2.0 * part);
        }
    });
    let text = include_str!("../../tests/programs/e09_batched_deconvolution.iv");
    let case = Case { name: &name, text, wrt: &["w"], inputs: &inputs, constants: &[], data: &[&x, &w, &z] };
    table.compare(case, value, gradient)
}

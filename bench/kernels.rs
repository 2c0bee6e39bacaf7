//! Kernels beside hand-written ones: `cargo bench --bench kernels`.
//!
//! Value and gradient of K1, K3, K4 and K5 of the workloads. The hand-written kernels are what an expert writes in Rust: fused where that
//! saves memory traffic, with partial sums in lanes, the transposed structure built beforehand. All kernels of a workload run in turn,
//! round after round; times are medians. So that `rustc` may use the same instructions for both, run it with
//! `RUSTFLAGS="-C target-cpu=native"`. One thread unless `RAYON_NUM_THREADS` says otherwise, and the ratio is native over hand-written.

use std::time::{Duration, Instant};

use iverson::kernel::{Engine, Kernel};
use iverson::tensor::{Csr, Dense, Inputs, Value};
use iverson::{Function, Result};

const ROUNDS: usize = 9;

/// What is timed.
type Run<'a> = Box<dyn FnMut() -> f64 + 'a>;

fn main() -> Result<()> {
    // Before rayon starts its threads; nothing else runs yet.
    if std::env::var_os("RAYON_NUM_THREADS").is_none() {
        rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("the only thread pool");
    }
    println!("{:<34}{:>12}{:>12}{:>12}{:>8}", "ms", "by hand", "native", "interpreter", "ratio");
    deconvolution(100_000, 9)?;
    deconvolution(100_000, 64)?;
    logistic_regression(100_000, 50_000, 20)?;
    sparse_times_dense(10_000, 64, 20)?;
    factorisation(4000, 3000, 32, 300_000)
}

/// Prints a line: medians of interleaved runs.
fn compare(name: &str, by_hand: Run<'_>, native: Run<'_>, interpreter: Run<'_>) {
    let mut runs = [by_hand, native, interpreter];
    let mut times = [const { Vec::<Duration>::new() }; 3];
    let mut values = [0.0; 3];
    for _ in 0..ROUNDS {
        for ((run, times), value) in runs.iter_mut().zip(&mut times).zip(&mut values) {
            let start = Instant::now();
            *value = run();
            times.push(start.elapsed());
        }
    }
    let [hand, native, interpreter] = times.map(|mut times| {
        times.sort();
        1e3 * times[ROUNDS / 2].as_secs_f64()
    });
    println!("{name:<34}{hand:>12.3}{native:>12.3}{interpreter:>12.3}{:>8.2}", native / hand);
    let scale = values[0].abs().max(1.0);
    assert!(values.iter().all(|x| (x - values[0]).abs() <= 1e-9 * scale), "{name}: {values:?}");
}

/// The kernels of a program and of its value and gradient.
fn kernels(text: &str, wrt: &[&str], inputs: &Inputs) -> Result<[[Kernel; 2]; 2]> {
    let value = Function::parse(text)?;
    let gradient = value.value_and_gradient(wrt)?;
    let both = |f: &Function| {
        Ok::<_, iverson::Error>([f.kernel(inputs, Engine::Native)?, f.kernel(inputs, Engine::Interpreter)?])
    };
    Ok([both(&value)?, both(&gradient)?])
}

/// A run of a kernel, which gives a number made of its results.
fn run<'a>(kernel: &'a Kernel, data: &'a [&'a [f64]], digest: fn(&[Vec<f64>]) -> f64) -> Run<'a> {
    let leaves = kernel.outputs().iter().flat_map(|o| &o.leaves);
    let mut outputs: Vec<Vec<f64>> = leaves.map(|leaf| vec![0.0; leaf.len()]).collect();
    Box::new(move || {
        let mut slices: Vec<&mut [f64]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        kernel.call_into(data, &mut slices).expect("the inputs fit");
        digest(&outputs)
    })
}

/// The value, and the absolute values of some derivatives.
fn digest(outputs: &[Vec<f64>]) -> f64 {
    let some = |x: &Vec<f64>| x.iter().step_by(97).map(|x| x.abs()).sum::<f64>();
    outputs.iter().map(some).sum()
}

fn both(name: &str, kernels: &[[Kernel; 2]; 2], data: &[&[f64]], value: Run<'_>, gradient: Run<'_>) {
    let [[native, interpreter], [native_gradient, interpreter_gradient]] = kernels;
    compare(name, value, run(native, data, digest), run(interpreter, data, digest));
    let name = format!("{name}, gradient");
    compare(&name, gradient, run(native_gradient, data, digest), run(interpreter_gradient, data, digest));
}

fn random(len: usize, seed: u64) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| rng.f64() * 2.0 - 1.0).collect()
}

/// A sparse matrix with so many entries in each row.
fn sparse(rows: usize, cols: usize, each: usize, seed: u64) -> Csr {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut indptr, mut indices) = (vec![0], Vec::new());
    for _ in 0..rows {
        let mut row: Vec<u32> = (0..each).map(|_| rng.u32(0..cols as u32)).collect();
        row.sort_unstable();
        row.dedup();
        indices.extend(row);
        indptr.push(indices.len());
    }
    let data = random(indices.len(), seed + 1);
    Csr::new(rows, cols, indptr, indices, data).expect("sorted and in range")
}

/// The sum of products, in eight lanes.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a_chunks, b_chunks) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_chunks.zip(b_chunks) {
        for l in 0..8 {
            sums[l] += x[l] * y[l];
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// `y += s * x`
fn add_scaled(y: &mut [f64], s: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += s * x);
}

fn deconvolution(n: usize, m: usize) -> Result<()> {
    let text = include_str!("../tests/programs/e08_deconvolution.iv");
    let (x, w, z) = (random(n + m - 1, 1), random(m, 2), random(n, 3));
    let mut inputs = Inputs::new();
    inputs
        .value("x", Value::vector(x.clone()))
        .value("w", Value::vector(w.clone()))
        .value("z", Value::vector(z.clone()));
    let kernels = kernels(text, &["x", "w"], &inputs)?;
    let data: Vec<&[f64]> = vec![&x, &w, &z];
    let reversed: Vec<f64> = w.iter().rev().copied().collect();
    let residual = |r: &mut [f64]| {
        // Outputs in blocks that stay in registers.
        for (block, r) in r.chunks_mut(32).enumerate() {
            let start = 32 * block;
            let mut sums = [0.0; 32];
            let sums = &mut sums[..r.len()];
            for (k, w) in reversed.iter().enumerate() {
                add_scaled(sums, *w, &x[start + k..start + k + r.len()]);
            }
            for ((r, sum), z) in r.iter_mut().zip(sums.iter()).zip(&z[start..]) {
                *r = sum - z;
            }
        }
    };
    let (mut r, mut r2, mut padded, mut dx) = (vec![0.0; n], vec![0.0; n], vec![0.0; n + 2 * m], vec![0.0; n + m - 1]);
    let value: Run<'_> = Box::new(|| {
        residual(&mut r);
        dot(&r, &r)
    });
    let gradient: Run<'_> = Box::new(|| {
        residual(&mut r2);
        let value = dot(&r2, &r2);
        r2.iter_mut().for_each(|r| *r *= 2.0);
        // dx[i] = sum over j of w[j] r[i + j - m + 1], where r is 0 outside.
        padded[m - 1..m - 1 + n].copy_from_slice(&r2);
        for (block, dx) in dx.chunks_mut(32).enumerate() {
            let start = 32 * block;
            let mut sums = [0.0; 32];
            let sums = &mut sums[..dx.len()];
            for (j, w) in w.iter().enumerate() {
                add_scaled(sums, *w, &padded[start + j..start + j + dx.len()]);
            }
            dx.copy_from_slice(sums);
        }
        let dw: Vec<f64> = (0..m).map(|j| dot(&r2, &x[m - 1 - j..])).collect();
        digest(&[vec![value], dx.clone(), dw])
    });
    both(&format!("K1 deconvolution, m = {m}"), &kernels, &data, value, gradient);
    Ok(())
}

fn logistic_regression(n: usize, d: usize, each: usize) -> Result<()> {
    let text = include_str!("../tests/programs/k03_sparse_logistic_regression.iv");
    let table = sparse(n, d, each, 4);
    let y: Vec<f64> = random(n, 6).into_iter().map(f64::signum).collect();
    let w = random(d, 7);
    let mut inputs = Inputs::new();
    inputs.value("X", table.clone()).value("y", Value::vector(y.clone())).value("w", Value::vector(w.clone()));
    let kernels = kernels(text, &["w"], &inputs)?;
    let data: Vec<&[f64]> = vec![table.data(), &y, &w];
    let pattern = table.pattern().clone();
    let row = |i: usize| {
        let range = pattern.row(i);
        let (columns, values) = (&pattern.indices()[range.clone()], &table.data()[range]);
        columns.iter().zip(values).map(|(j, x)| x * w[*j as usize]).sum::<f64>()
    };
    let softplus = |a: f64| a.max(0.0) + (-a.abs()).exp().ln_1p();
    let value: Run<'_> = Box::new(|| (0..n).map(|i| softplus(-(y[i] * row(i)))).sum::<f64>() / n as f64);
    let columns = pattern.transposed();
    let (mut s, mut dw) = (vec![0.0; n], vec![0.0; d]);
    let gradient: Run<'_> = Box::new(|| {
        let mut value = 0.0;
        for i in 0..n {
            let a = -(y[i] * row(i));
            let e = (-a.abs()).exp();
            value += a.max(0.0) + e.ln_1p();
            s[i] = -y[i] * (if a > 0.0 { 1.0 } else { e } / (1.0 + e)) / n as f64;
        }
        for (j, dw) in dw.iter_mut().enumerate() {
            let range = columns.indptr[j]..columns.indptr[j + 1];
            let (rows, positions) = (&columns.rows[range.clone()], &columns.positions[range]);
            *dw = rows.iter().zip(positions).map(|(i, at)| table.data()[*at] * s[*i]).sum();
        }
        digest(&[vec![value / n as f64], dw.clone()])
    });
    both("K3 sparse logistic regression", &kernels, &data, value, gradient);
    Ok(())
}

fn sparse_times_dense(n: usize, k: usize, each: usize) -> Result<()> {
    let text = include_str!("../tests/programs/k04_sparse_times_dense.iv");
    let s = sparse(n, n, each, 8);
    let dense = random(n * k, 9);
    let mut inputs = Inputs::new();
    inputs.value("S", s.clone()).value("D", Dense::new(&[n, k], dense.clone()).expect("it fits"));
    let kernels = kernels(text, &["S"], &inputs)?;
    let data: Vec<&[f64]> = vec![s.data(), &dense];
    let pattern = s.pattern().clone();
    let product = |i: usize, row: &mut [f64]| {
        row.fill(0.0);
        for at in pattern.row(i) {
            let j = pattern.indices()[at] as usize;
            add_scaled(row, s.data()[at], &dense[j * k..(j + 1) * k]);
        }
    };
    let (mut row, mut other) = (vec![0.0; k], vec![0.0; k]);
    let value: Run<'_> = Box::new(move || {
        (0..n)
            .map(|i| {
                product(i, &mut row);
                dot(&row, &row)
            })
            .sum()
    });
    let mut ds = vec![0.0; pattern.len()];
    let gradient: Run<'_> = Box::new(|| {
        let mut value = 0.0;
        for i in 0..n {
            product(i, &mut other);
            value += dot(&other, &other);
            for at in pattern.row(i) {
                let j = pattern.indices()[at] as usize;
                ds[at] = 2.0 * dot(&other, &dense[j * k..(j + 1) * k]);
            }
        }
        digest(&[vec![value], ds.clone()])
    });
    both("K4 sparse times dense", &kernels, &data, value, gradient);
    Ok(())
}

fn factorisation(m: usize, n: usize, k: usize, entries: usize) -> Result<()> {
    let text = include_str!("../tests/programs/k05_matrix_factorisation.iv");
    let a = sparse(m, n, entries / m, 10);
    let (u, v) = (random(m * k, 11), random(n * k, 12));
    let mut inputs = Inputs::new();
    inputs.value("A", a.clone());
    inputs.value("U", Dense::new(&[m, k], u.clone()).expect("it fits"));
    inputs.value("V", Dense::new(&[n, k], v.clone()).expect("it fits"));
    let kernels = kernels(text, &["U", "V"], &inputs)?;
    let data: Vec<&[f64]> = vec![a.data(), &u, &v];
    let pattern = a.pattern().clone();
    let residual = |i: usize, at: usize| {
        let j = pattern.indices()[at] as usize;
        a.data()[at] - dot(&u[i * k..(i + 1) * k], &v[j * k..(j + 1) * k])
    };
    let value: Run<'_> = Box::new(|| {
        let row = |i: usize| pattern.row(i).map(|at| residual(i, at).powi(2)).sum::<f64>();
        (0..m).map(row).sum()
    });
    let columns = pattern.transposed();
    let (mut r, mut du, mut dv) = (vec![0.0; pattern.len()], vec![0.0; m * k], vec![0.0; n * k]);
    let gradient: Run<'_> = Box::new(|| {
        let mut value = 0.0;
        du.fill(0.0);
        dv.fill(0.0);
        for i in 0..m {
            for at in pattern.row(i) {
                let j = pattern.indices()[at] as usize;
                let e = residual(i, at);
                value += e * e;
                r[at] = -2.0 * e;
                add_scaled(&mut du[i * k..(i + 1) * k], r[at], &v[j * k..(j + 1) * k]);
            }
        }
        for j in 0..n {
            for q in columns.indptr[j]..columns.indptr[j + 1] {
                let i = columns.rows[q];
                add_scaled(&mut dv[j * k..(j + 1) * k], r[columns.positions[q]], &u[i * k..(i + 1) * k]);
            }
        }
        digest(&[vec![value], du.clone(), dv.clone()])
    });
    both("K5 matrix factorisation", &kernels, &data, value, gradient);
    Ok(())
}

//! Loops over time: recurrent nets, chains of states, filters, differential equations, particles.
//!
//! The programs are those of `tests/flows`. By hand the states that the way back needs are stored, what follows from them is computed again where
//! that is cheaper than to load it, and products that do not go through the state are one product of matrices over all steps.

use iverson::Result;
use iverson::ir::codegen::vector;

use crate::gemm::{Matrix, multiply, packed};
use crate::harness::{Run, Table, random};
use crate::program::{Program, positive, random_below};
use crate::simd::{Lanes, axpy, dot, each, mapped};
use crate::stencils::sum;

pub fn run(table: &mut Table) -> Result<()> {
    lstm(table, 14, 1024)?;
    lstm(table, 128, 256)?;
    hidden_markov(table, 32, 10_000)?;
    crf(table, 16, 10_000)?;
    kalman(table, 10_000)?;
    kalman(table, 100_000)?;
    runge_kutta(table, 10_000)?;
    runge_kutta(table, 100_000)?;
    heat(table, 1000, 1000)?;
    heat(table, 4096, 4096)?;
    particles(table, 4, 1000)?;
    particles(table, 4096, 1000)?;
    rays(table, 1_000_000)
}

/// `y = b + sum k. x[k] * rows[k]`, rows of a whole number of vectors.
fn combine(b: &[f64], x: &[f64], rows: &[f64], y: &mut [f64]) {
    let width = y.len();
    let mut first = 0;
    while first < width {
        match width - first {
            64.. => first += block::<8>(b, x, rows, y, first),
            32.. => first += block::<4>(b, x, rows, y, first),
            16.. => first += block::<2>(b, x, rows, y, first),
            _ => first += block::<1>(b, x, rows, y, first),
        }
    }
}

#[inline(always)]
fn block<const B: usize>(b: &[f64], x: &[f64], rows: &[f64], y: &mut [f64], first: usize) -> usize {
    let mut sums: [Lanes; B] = each(|v| Lanes::load(b, first + 8 * v));
    let mut other: [Lanes; B] = each(|_| Lanes::splat(0.0));
    let pairs = x.chunks_exact(2);
    let last = pairs.remainder();
    let width = y.len();
    for (x, rows) in pairs.zip(rows.chunks_exact(2 * width)) {
        for v in 0..B {
            sums[v] = Lanes::splat(x[0]).fused(Lanes::load(rows, first + 8 * v), sums[v]);
            other[v] = Lanes::splat(x[1]).fused(Lanes::load(rows, width + first + 8 * v), other[v]);
        }
    }
    if let [x] = last {
        let row = &rows[rows.len() - width..];
        (0..B).for_each(|v| sums[v] = Lanes::splat(*x).fused(Lanes::load(row, first + 8 * v), sums[v]));
    }
    (0..B).for_each(|v| (sums[v] + other[v]).store(y, first + 8 * v));
    8 * B
}

fn lstm(table: &mut Table, n: usize, t: usize) -> Result<()> {
    let (name, text) = (format!("LSTM, {n} cells, {t} steps"), include_str!("../../tests/flows/lstm.iv"));
    let Some(p) = Program::new(table, name, text, &["W", "U", "b"]) else { return Ok(()) };
    let small = |len: usize, seed| random(len, seed).into_iter().map(|x| x / (n as f64).sqrt()).collect::<Vec<_>>();
    let p = p
        .tensor("W", &[4, n, n], small(4 * n * n, 1401))
        .tensor("U", &[4, n, n], small(4 * n * n, 1402))
        .tensor("b", &[4, n], small(4 * n, 1403))
        .tensor("x", &[t, n], random(t * n, 1404))
        .tensor("y", &[t, n], random(t * n, 1405));
    let [w, u, b, x, y] = p.numbers();
    p.compare(table, || -> Run<'_> {
        // Cells of a gate fill vectors.
        let width = n.next_multiple_of(8);
        let gates = 4 * width;
        let (mut ut, mut wide, mut zero) = (vec![0.0; n * gates], vec![0.0; 4 * n * width], vec![0.0; gates]);
        let mut inputs = vec![0.0; t * 4 * n];
        let (mut a, mut c, mut h) = (vec![0.0; t * gates], vec![0.0; (t + 1) * width], vec![0.0; (t + 1) * width]);
        let (mut tc, mut da, mut dh, mut dc) =
            (vec![0.0; t * width], vec![0.0; t * 4 * n], vec![0.0; width], vec![0.0; width]);
        let (mut row, mut spare) = (vec![0.0; gates], vec![0.0; 4 * n]);
        let mut room = packed(t.max(4 * n), 4 * n.max(n));
        zero.fill(0.0);
        Box::new(move |results| {
            for j in 0..n {
                (0..4 * n).for_each(|r| ut[j * gates + r / n * width + r % n] = u[r * n + j]);
            }
            multiply(Matrix::new(x, n), Matrix::new(w, n).transposed(), [t, n, 4 * n], 0.0, &mut inputs, &mut room);
            let mut loss = 0.0;
            for s in 0..t {
                for g in 0..4 {
                    let from = &inputs[s * 4 * n + g * n..][..n];
                    row[g * width..][..n].iter_mut().zip(from).zip(&b[g * n..]).for_each(|((y, x), b)| *y = x + b);
                }
                let (before, after) = h.split_at_mut((s + 1) * width);
                let a = &mut a[s * gates..][..gates];
                combine(&row, &before[s * width..][..n], &ut, a);
                let (c_before, c_after) = c.split_at_mut((s + 1) * width);
                for i in (0..width).step_by(8) {
                    let gate = |g: usize| Lanes::load(a, g * width + i);
                    let [input, forget, output] = each(|g| gate(g).map(vector::sigmoid));
                    let candidate = gate(3).map(vector::tanh);
                    let cell = forget.fused(Lanes::load(c_before, s * width + i), input * candidate);
                    let squashed = cell.map(vector::tanh);
                    cell.store(c_after, i);
                    squashed.store(&mut tc, s * width + i);
                    (output * squashed).store(after, i);
                    [input, forget, output, candidate]
                        .into_iter()
                        .enumerate()
                        .for_each(|(g, x)| x.store(a, g * width + i));
                }
                loss += after[..n].iter().zip(&y[s * n..]).map(|(h, y)| (h - y) * (h - y)).sum::<f64>();
            }
            results[0][0] = loss;
            let [_, dw, du, db] = results else { return };
            for (r, row) in u.chunks_exact(n).enumerate() {
                wide[r * width..][..n].copy_from_slice(row);
            }
            dh.fill(0.0);
            dc.fill(0.0);
            for s in (0..t).rev() {
                let h = &h[(s + 1) * width..][..n];
                dh.iter_mut().zip(h).zip(&y[s * n..]).for_each(|((d, h), y)| *d += 2.0 * (h - y));
                let a = &a[s * gates..][..gates];
                for i in (0..width).step_by(8) {
                    let one = Lanes::splat(1.0);
                    let [input, forget, output, candidate] = each(|g| Lanes::load(a, g * width + i));
                    let (squashed, d) = (Lanes::load(&tc, s * width + i), Lanes::load(&dh, i));
                    let cell = (d * output).fused(one - squashed * squashed, Lanes::load(&dc, i));
                    (cell * forget).store(&mut dc, i);
                    let slopes = [
                        cell * candidate * input * (one - input),
                        cell * Lanes::load(&c, s * width + i) * forget * (one - forget),
                        d * squashed * output * (one - output),
                        cell * input * (one - candidate * candidate),
                    ];
                    slopes.into_iter().enumerate().for_each(|(g, x)| x.store(&mut row, g * width + i));
                }
                let da = &mut da[s * 4 * n..][..4 * n];
                (0..4).for_each(|g| da[g * n..][..n].copy_from_slice(&row[g * width..][..n]));
                combine(&zero[..width], da, &wide, &mut dh);
            }
            spare.fill(0.0);
            da.chunks_exact(4 * n).for_each(|da| axpy(1.0, da, &mut spare));
            db.copy_from_slice(&spare);
            let slopes = Matrix::new(&da, 4 * n).transposed();
            multiply(slopes, Matrix::new(x, n), [4 * n, t, n], 0.0, dw, &mut room);
            multiply(slopes, Matrix::new(&h, width), [4 * n, t, n], 0.0, du, &mut room);
        })
    })
}

/// The logarithm of the sum of exponentials for eight columns: `f[i] + a[i][columns]`; the largest one and the sum.
#[inline(always)]
fn lse(f: &[f64], a: &[f64], width: usize, first: usize) -> (Lanes, Lanes) {
    let at = |i: usize| Lanes::splat(f[i]) + Lanes::load(a, i * width + first);
    let top = (0..f.len()).fold(Lanes::splat(f64::NEG_INFINITY), |top, i| top.max(at(i)));
    let mut sums = [Lanes::splat(0.0); 2];
    (0..f.len()).for_each(|i| sums[i % 2] += (at(i) - top).map(vector::exp));
    (top, sums[0] + sums[1])
}

fn log_softmax(x: &[f64], width: usize, y: &mut [f64]) {
    for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)) {
        let top = x.iter().fold(f64::NEG_INFINITY, |top, x| top.max(*x));
        let mut total = Lanes::splat(0.0);
        (0..width).step_by(8).for_each(|j| total += (Lanes::load(x, j) - Lanes::splat(top)).map(vector::exp));
        let shift = top + total.sum().ln();
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x - shift);
    }
}

/// What slopes by rows of a logarithm of softmax give to what went in.
fn log_softmax_back(y: &[f64], dy: &[f64], width: usize, dx: &mut [f64]) {
    for ((y, dy), dx) in y.chunks_exact(width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(width)) {
        let all = Lanes::splat(sum(dy));
        (0..width).step_by(8).for_each(|j| {
            (Lanes::load(dy, j) - all * Lanes::load(y, j).map(vector::exp)).store(dx, j);
        });
    }
}

/// States of a chain in log space, and what is left of their steps for the way back.
struct Chain {
    k: usize,
    /// The states, their largest arguments and their sums.
    f: Vec<f64>,
    top: Vec<f64>,
    sums: Vec<f64>,
    d: [Vec<f64>; 2],
}

impl Chain {
    fn new(k: usize, steps: usize) -> Chain {
        let room = || vec![0.0; (steps + 1) * k];
        Chain { k, f: room(), top: room(), sums: room(), d: [vec![0.0; k], vec![0.0; k]] }
    }

    /// A step: `next[j] = logsumexp(gen i. f[i] + a[i, j]) + e[j]`.
    fn step(&mut self, t: usize, a: &[f64], e: &[f64]) {
        let k = self.k;
        let (before, after) = self.f.split_at_mut((t + 1) * k);
        for j in (0..k).step_by(8) {
            let (top, sums) = lse(&before[t * k..], a, k, j);
            top.store(&mut self.top, t * k + j);
            sums.store(&mut self.sums, t * k + j);
            (top + sums.map(vector::ln) + Lanes::load(e, j)).store(after, j);
        }
    }

    /// The logarithm of the sum of exponentials of the last state, whose slope becomes what is owed to it.
    fn end(&mut self, t: usize) -> f64 {
        let f = &self.f[t * self.k..][..self.k];
        let top = f.iter().fold(f64::NEG_INFINITY, |top, x| top.max(*x));
        let d = &mut self.d[0];
        (0..self.k).step_by(8).for_each(|j| (Lanes::load(f, j) - Lanes::splat(top)).map(vector::exp).store(d, j));
        let total = sum(d);
        d.iter_mut().for_each(|d| *d /= total);
        top + total.ln()
    }

    /// What is owed to the state before a step; adds what is owed to `a`.
    fn back(&mut self, t: usize, a: &[f64], da: &mut [f64]) {
        let k = self.k;
        let f = &self.f[t * k..][..k];
        let [d, next] = &mut self.d;
        let over: [Lanes; 4] = each(|c| match 8 * c < k {
            true => Lanes::load(d, 8 * c) / Lanes::load(&self.sums, t * k + 8 * c),
            false => Lanes::splat(0.0),
        });
        let mut rows: [Lanes; 8] = each(|_| Lanes::splat(0.0));
        for i in 0..k {
            let mut total = Lanes::splat(0.0);
            for j in (0..k).step_by(8) {
                let x = Lanes::splat(f[i]) + Lanes::load(a, i * k + j) - Lanes::load(&self.top, t * k + j);
                let y = over[j / 8] * x.map(vector::exp);
                (Lanes::load(da, i * k + j) + y).store(da, i * k + j);
                total += y;
            }
            rows[i % 8] = total;
            if i % 8 == 7 {
                Lanes::sums(rows).store(next, i - 7);
            }
        }
        self.d.swap(0, 1);
    }
}

fn hidden_markov(table: &mut Table, k: usize, t: usize) -> Result<()> {
    let (name, text) = (format!("forward algorithm, {k} states, {t} steps"), include_str!("../../tests/flows/hmm.iv"));
    let Some(p) = Program::new(table, name, text, &["A", "B", "p"]) else { return Ok(()) };
    let symbol = random_below(t, k, 1414);
    let p = p
        .tensor("A", &[k, k], random(k * k, 1411))
        .tensor("B", &[k, k], random(k * k, 1412))
        .tensor("p", &[k], random(k, 1413))
        .map("obs", &[t], &symbol, k);
    let [a, b, first] = p.numbers();
    let symbol = &symbol;
    p.compare(table, || -> Run<'_> {
        let square = || vec![0.0; k * k];
        let (mut la, mut lb, mut lp, mut by_symbol) = (square(), square(), vec![0.0; k], square());
        let (mut da, mut db, mut dp, mut to_symbol) = (square(), square(), vec![0.0; k], square());
        let mut chain = Chain::new(k, t);
        Box::new(move |results| {
            log_softmax(a, k, &mut la);
            log_softmax(b, k, &mut lb);
            log_softmax(first, k, &mut lp);
            (0..k * k).for_each(|at| by_symbol[at % k * k + at / k] = lb[at]);
            let emitted = |s: usize| symbol[s] as usize * k;
            chain.f[..k].iter_mut().zip(&lp).zip(&by_symbol[emitted(0)..]).for_each(|((f, p), e)| *f = p + e);
            (0..t - 1).for_each(|s| chain.step(s, &la, &by_symbol[emitted(s + 1)..]));
            results[0][0] = chain.end(t - 1);
            let [_, to_a, to_b, to_p] = results else { return };
            da.fill(0.0);
            to_symbol.fill(0.0);
            for s in (0..t - 1).rev() {
                axpy(1.0, &chain.d[0], &mut to_symbol[emitted(s + 1)..][..k]);
                chain.back(s, &la, &mut da);
            }
            axpy(1.0, &chain.d[0], &mut to_symbol[emitted(0)..][..k]);
            dp.copy_from_slice(&chain.d[0]);
            (0..k * k).for_each(|at| db[at] = to_symbol[at % k * k + at / k]);
            log_softmax_back(&la, &da, k, to_a);
            log_softmax_back(&lb, &db, k, to_b);
            log_softmax_back(&lp, &dp, k, to_p);
        })
    })
}

fn crf(table: &mut Table, k: usize, t: usize) -> Result<()> {
    let (name, text) = (format!("chain of {t} labels of {k}"), include_str!("../../tests/flows/crf.iv"));
    let Some(p) = Program::new(table, name, text, &["u", "w"]) else { return Ok(()) };
    let label = random_below(t, k, 1423);
    let p = p.tensor("u", &[t, k], random(t * k, 1421)).tensor("w", &[k, k], random(k * k, 1422)).map(
        "label",
        &[t],
        &label,
        k,
    );
    let [u, w] = p.numbers();
    let label = &label;
    p.compare(table, || -> Run<'_> {
        let mut chain = Chain::new(k, t);
        Box::new(move |results| {
            chain.f[..k].copy_from_slice(&u[..k]);
            (0..t - 1).for_each(|s| chain.step(s, w, &u[(s + 1) * k..]));
            let at = |s: usize| label[s] as usize;
            let unary: f64 = (0..t).map(|s| u[s * k + at(s)]).sum();
            let pair: f64 = (0..t - 1).map(|s| w[at(s) * k + at(s + 1)]).sum();
            results[0][0] = chain.end(t - 1) - unary - pair;
            let [_, du, dw] = results else { return };
            dw.fill(0.0);
            for s in (0..t - 1).rev() {
                du[(s + 1) * k..][..k].copy_from_slice(&chain.d[0]);
                chain.back(s, w, dw);
            }
            du[..k].copy_from_slice(&chain.d[0]);
            (0..t).for_each(|s| du[s * k + at(s)] -= 1.0);
            (0..t - 1).for_each(|s| dw[at(s) * k + at(s + 1)] -= 1.0);
        })
    })
}

const N: usize = 4;
type Vector = [f64; N];
type Square = [[f64; N]; N];

fn product(a: &Square, b: &Square) -> Square {
    each(|i| (0..N).fold([0.0; N], |row, k| each(|j| a[i][k].mul_add(b[k][j], row[j]))))
}

fn transposed(a: &Square) -> Square {
    each(|i| each(|j| a[j][i]))
}

fn apply(a: &Square, x: &Vector) -> Vector {
    each(|i| inner(&a[i], x))
}

fn inner(x: &Vector, y: &Vector) -> f64 {
    (0..N).fold(0.0, |sum, i| x[i].mul_add(y[i], sum))
}

/// A step of a filter: mean and covariance before the measurement, gain, variance, error.
struct Predicted {
    m: Vector,
    p: Square,
    v: Vector,
    s: f64,
    e: f64,
}

fn predict(f: &Square, q: &Square, g: &Vector, r: f64, z: f64, (m, p): (&Vector, &Square)) -> Predicted {
    let m = apply(f, m);
    let p = product(&product(f, p), &transposed(f));
    let p: Square = each(|i| each(|j| p[i][j] + q[i][j]));
    let v = apply(&p, g);
    Predicted { m, v, s: inner(g, &v) + r, e: z - inner(g, &m), p }
}

fn kalman(table: &mut Table, t: usize) -> Result<()> {
    let (name, text) = (format!("Kalman filter, {N} states, {t} steps"), include_str!("../../tests/flows/kalman.iv"));
    let Some(p) = Program::new(table, name, text, &["F", "Q", "g", "r"]) else { return Ok(()) };
    let on_diagonal = |x: f64| (0..N * N).map(|at| if at / N == at % N { x } else { 0.0 }).collect::<Vec<_>>();
    let f: Vec<f64> = on_diagonal(0.8).iter().zip(random(N * N, 1431)).map(|(x, y)| x + y / 20.0).collect();
    let p = p
        .tensor("F", &[N, N], f)
        .tensor("Q", &[N, N], on_diagonal(0.1))
        .tensor("g", &[N], positive(N, 1432))
        .tensor("r", &[], vec![0.5])
        .tensor("z", &[t], random(t, 1433))
        .tensor("m0", &[N], random(N, 1434))
        .tensor("P0", &[N, N], on_diagonal(1.0));
    let [f, q, g, r, z, m0, p0] = p.numbers();
    let square = |x: &[f64]| -> Square { each(|i| each(|j| x[i * N + j])) };
    let (f, q, p0, r) = (square(f), square(q), square(p0), r[0]);
    let (g, m0): (Vector, Vector) = (each(|i| g[i]), each(|i| m0[i]));
    p.compare(table, || -> Run<'_> {
        let mut path: Vec<(Vector, Square)> = vec![(m0, p0); t + 1];
        Box::new(move |results| {
            let mut total = 0.0;
            for s in 0..t {
                let (m, p) = &path[s];
                let Predicted { m, p, v, s: variance, e } = predict(&f, &q, &g, r, z[s], (m, p));
                let over = 1.0 / variance;
                path[s + 1] = (each(|i| m[i] + v[i] * e * over), each(|i| each(|j| p[i][j] - v[i] * v[j] * over)));
                total -= (variance.ln() + e * e * over + 1.837_877_066_409_345_3) / 2.0;
            }
            results[0][0] = total;
            let [_, to_f, to_q, to_g, to_r] = results else { return };
            let (mut df, mut dq, mut dg, mut dr) = (Square::default(), Square::default(), Vector::default(), 0.0);
            let (mut dm, mut dp) = (Vector::default(), Square::default());
            for s in (0..t).rev() {
                let (m0, p0) = &path[s];
                let Predicted { m, p, v, s: variance, e } = predict(&f, &q, &g, r, z[s], (m0, p0));
                let over = 1.0 / variance;
                let along = inner(&dm, &v);
                let both: Square = each(|i| each(|j| dp[i][j] + dp[j][i]));
                let by = apply(&both, &v);
                let ds = over * over * (inner(&v, &by) / 2.0 - along * e) - (over - e * e * over * over) / 2.0;
                let de = along * over - e * over;
                let dv: Vector = each(|i| (dm[i] * e - by[i]) * over + ds * g[i]);
                let dp1: Square = each(|i| each(|j| dp[i][j] + dv[i] * g[j]));
                let back = apply(&transposed(&p), &dv);
                dg = each(|i| dg[i] + ds * v[i] - de * m[i] + back[i]);
                dr += ds;
                let dm1: Vector = each(|i| dm[i] - de * g[i]);
                let (left, right) =
                    (product(&dp1, &product(&f, &transposed(p0))), product(&transposed(&dp1), &product(&f, p0)));
                df = each(|i| each(|j| dm1[i].mul_add(m0[j], df[i][j] + left[i][j] + right[i][j])));
                dq = each(|i| each(|j| dq[i][j] + dp1[i][j]));
                dm = apply(&transposed(&f), &dm1);
                dp = product(&transposed(&f), &product(&dp1, &f));
            }
            to_f.copy_from_slice(df.as_flattened());
            to_q.copy_from_slice(dq.as_flattened());
            to_g.copy_from_slice(&dg);
            to_r[0] = dr;
        })
    })
}

fn runge_kutta(table: &mut Table, t: usize) -> Result<()> {
    let (name, text) = (format!("Runge-Kutta, {t} steps"), include_str!("../../tests/flows/rk4.iv"));
    let Some(p) = Program::new(table, name, text, &["a", "y0"]) else { return Ok(()) };
    let p = p.tensor("a", &[], vec![1.3]).tensor("y0", &[], vec![2.0]).tensor("h", &[], vec![0.1 / t as f64]);
    let p = p.size("T", t);
    let [a, y0, h] = p.numbers();
    let (a, y0, h) = (a[0], y0[0], h[0]);
    p.compare(table, || -> Run<'_> {
        let mut path = vec![0.0; t + 1];
        Box::new(move |results| {
            let stages = |y: f64| {
                let k = -a * y;
                let l = -a * (y + h / 2.0 * k);
                let m = -a * (y + h / 2.0 * l);
                [k, l, m, -a * (y + h * m)]
            };
            path[0] = y0;
            for s in 0..t {
                let y = path[s];
                let [k, l, m, o] = stages(y);
                path[s + 1] = y + h / 6.0 * (k + 2.0 * l + 2.0 * m + o);
            }
            results[0][0] = path[t];
            let [_, to_a, to_y] = results else { return };
            let (mut d, mut da) = (1.0, 0.0);
            for y in path[..t].iter().rev() {
                let [k, l, m, _] = stages(*y);
                let dy = h / 6.0 * d;
                let up = -a * dy;
                let dm = 2.0 * dy + h * up;
                let dl = 2.0 * dy - h / 2.0 * a * dm;
                let dk = dy - h / 2.0 * a * dl;
                da -= dy * (y + h * m) + dm * (y + h / 2.0 * l) + dl * (y + h / 2.0 * k) + dk * y;
                d += up - a * (dm + dl + dk);
            }
            to_a[0] = da;
            to_y[0] = d;
        })
    })
}

fn heat(table: &mut Table, n: usize, t: usize) -> Result<()> {
    let (name, text) = (format!("heat, {n} points, {t} steps"), include_str!("../../tests/flows/heat.iv"));
    let Some(p) = Program::new(table, name, text, &["u0", "c"]) else { return Ok(()) };
    let c: Vec<f64> = positive(n, 1442).into_iter().map(|x| x / 4.0).collect();
    let p = p.tensor("u0", &[n], random(n, 1441)).tensor("c", &[n], c).tensor("z", &[n], random(n, 1443)).size("T", t);
    let [u0, c, z] = p.numbers();
    p.compare(table, || -> Run<'_> {
        // A row has a zero at each end.
        let width = n + 2;
        let (mut path, mut last) = (vec![0.0; (t + 1) * width], [vec![0.0; width], vec![0.0; width]]);
        let (mut cd, mut d) = (vec![0.0; width], vec![0.0; n]);
        Box::new(move |results| {
            let step = |u: &[f64], to: &mut [f64]| {
                let (left, right, to) = (&u[..n], &u[2..][..n], &mut to[1..][..n]);
                let middle = &u[1..][..n];
                for i in 0..n {
                    to[i] = c[i].mul_add((-2.0_f64).mul_add(middle[i], left[i] + right[i]), middle[i]);
                }
            };
            let gradient = results.len() > 1;
            let end = match gradient {
                true => {
                    path[1..][..n].copy_from_slice(u0);
                    for s in 0..t {
                        let (before, after) = path.split_at_mut((s + 1) * width);
                        step(&before[s * width..], after);
                    }
                    &path[t * width..]
                }
                false => {
                    last[0][1..][..n].copy_from_slice(u0);
                    for _ in 0..t {
                        let [from, to] = &mut last;
                        step(from, to);
                        last.swap(0, 1);
                    }
                    &last[0]
                }
            };
            for i in 0..n {
                d[i] = end[i + 1] - z[i];
            }
            results[0][0] = dot(&d, &d);
            let [_, to_u, to_c] = results else { return };
            d.iter_mut().for_each(|d| *d *= 2.0);
            to_c.fill(0.0);
            for u in path.chunks_exact(width).take(t).rev() {
                let (left, middle, right) = (&u[..n], &u[1..][..n], &u[2..][..n]);
                for i in 0..n {
                    to_c[i] = d[i].mul_add((-2.0_f64).mul_add(middle[i], left[i] + right[i]), to_c[i]);
                    cd[i + 1] = c[i] * d[i];
                }
                let (left, middle, right) = (&cd[..n], &cd[1..][..n], &cd[2..][..n]);
                for i in 0..n {
                    d[i] += (-2.0_f64).mul_add(middle[i], left[i] + right[i]);
                }
            }
            to_u.copy_from_slice(&d);
        })
    })
}

/// One step of a spring for eight coordinates at once, `steps` times.
#[inline(always)]
fn springs<const B: usize>(q: &mut [Lanes; B], w: &mut [Lanes; B], steps: usize) {
    let (dt, pull, drag) = (Lanes::splat(0.05), Lanes::splat(-0.5), Lanes::splat(-0.2));
    for _ in 0..steps {
        for b in 0..B {
            let push = pull.fused(q[b], drag * w[b]);
            q[b] = dt.fused(w[b], q[b]);
            w[b] = dt.fused(push, w[b]);
        }
    }
}

/// The same backwards, for what is owed to place and speed.
#[inline(always)]
fn back<const B: usize>(q: &mut [Lanes; B], w: &mut [Lanes; B], steps: usize) {
    let (dt, pull, drag) = (Lanes::splat(0.05), Lanes::splat(-0.025), Lanes::splat(-0.01));
    for _ in 0..steps {
        for b in 0..B {
            let slope = w[b];
            w[b] = dt.fused(q[b], drag.fused(slope, slope));
            q[b] = pull.fused(slope, q[b]);
        }
    }
}

fn particles(table: &mut Table, k: usize, t: usize) -> Result<()> {
    let (name, text) = (format!("{k} particles, {t} steps"), include_str!("../../tests/flows/particles.iv"));
    let Some(p) = Program::new(table, name, text, &["p", "v"]) else { return Ok(()) };
    let p = p.tensor("p", &[k, 2], random(2 * k, 1451)).tensor("v", &[k, 2], random(2 * k, 1452)).size("T", t);
    let [places, speeds] = p.numbers();
    p.compare(table, || -> Run<'_> {
        // Sixty-four coordinates stay in registers for all steps.
        const B: usize = 8;
        let mut at = [0.0; 8 * B];
        Box::new(move |results| {
            let mut loss = 0.0;
            for first in (0..2 * k).step_by(8 * B) {
                let some = (8 * B).min(2 * k - first);
                let load = |x: &[f64]| -> [Lanes; B] {
                    each(|b| Lanes::of(|l| x.get(first + 8 * b + l).copied().unwrap_or(0.0)))
                };
                let (mut q, mut w) = (load(places), load(speeds));
                springs(&mut q, &mut w, t);
                q.iter().enumerate().for_each(|(b, q)| q.store(&mut at, 8 * b));
                loss += at[..some].chunks_exact(2).map(|q| q[0] * q[1]).sum::<f64>();
                if let [_, to_p, to_v] = &mut *results {
                    let mut dq: [Lanes; B] = each(|b| Lanes::of(|l| at[(8 * b + l) ^ 1]));
                    let mut dw = each(|_| Lanes::splat(0.0));
                    back(&mut dq, &mut dw, t);
                    for (slopes, to) in [(dq, to_p), (dw, to_v)] {
                        slopes.iter().enumerate().for_each(|(b, x)| x.store(&mut at, 8 * b));
                        to[first..][..some].copy_from_slice(&at[..some]);
                    }
                }
            }
            results[0][0] = loss;
        })
    })
}

/// Rays that march until they are close to a disc: thirty-two at a time, whose places stay in the first cache for the way back.
fn rays(table: &mut Table, k: usize) -> Result<()> {
    let (name, text) = (format!("{k} rays"), include_str!("../../tests/flows/march.iv"));
    let Some(p) = Program::new(table, name, text, &["c", "r"]) else { return Ok(()) };
    let angles = random(k, 1461).into_iter().map(|x| 0.3 * x).collect();
    let p = p.tensor("c", &[], vec![3.0]).tensor("r", &[], vec![1.0]).tensor("al", &[k], angles);
    let [c, r, al] = p.numbers();
    p.compare(table, || -> Run<'_> {
        const B: usize = 4;
        let mut path: Vec<[Lanes; B]> = Vec::with_capacity(201);
        Box::new(move |results| {
            let (mut total, mut by_c, mut by_r) = (Lanes::splat(0.0), Lanes::splat(0.0), Lanes::splat(0.0));
            let (one, zero, near) = (Lanes::splat(1.0), Lanes::splat(0.0), Lanes::splat(1e-9));
            let (centre, radius) = (Lanes::splat(c[0]), Lanes::splat(r[0]));
            for first in (0..k).step_by(8 * B) {
                let there = |b: usize| Lanes::of(|l| f64::from(u8::from(first + 8 * b + l < k)));
                let angle: [Lanes; B] = each(|b| Lanes::of(|l| al.get(first + 8 * b + l).copied().unwrap_or(0.0)));
                let (sin, cos) = (mapped(angle, |x| x.map(vector::sin)), mapped(angle, |x| x.map(vector::cos)));
                let mut t = [zero; B];
                path.clear();
                for _ in 0..200 {
                    path.push(t);
                    let gaps: [Lanes; B] = each(|b| {
                        let (y, x) = (t[b] * sin[b], t[b].fused(cos[b], zero - centre));
                        y.fused(y, x * x).sqrt() - radius
                    });
                    let goes: [Lanes; B] = each(|b| near.less(gaps[b].max(zero - gaps[b]), one, zero));
                    if goes.iter().all(|goes| goes.array() == [0.0; 8]) {
                        break;
                    }
                    t = each(|b| goes[b].fused(gaps[b], t[b]));
                }
                (0..B).for_each(|b| total = there(b).fused(t[b], total));
                if results.len() == 1 {
                    continue;
                }
                let mut owed: [Lanes; B] = each(there);
                for t in path.iter().rev() {
                    for b in 0..B {
                        let (y, x) = (t[b] * sin[b], t[b].fused(cos[b], zero - centre));
                        let far = y.fused(y, x * x).sqrt();
                        let gap = far - radius;
                        let goes = near.less(gap.max(zero - gap), owed[b], zero);
                        let slope = one / far;
                        by_c = by_c - goes * x * slope;
                        by_r = by_r - goes;
                        owed[b] = (goes * slope).fused(y.fused(sin[b], x * cos[b]), owed[b]);
                    }
                }
            }
            results[0][0] = total.sum();
            if let [_, to_c, to_r] = &mut *results {
                (to_c[0], to_r[0]) = (by_c.sum(), by_r.sum());
            }
        })
    })
}

//! Chains of probabilities, and tensors of observed entries.

use iverson::Result;
use iverson::ir::codegen::vector;
use iverson::tensor::Coo;

use crate::factorisation::{Row, add, products, residuals, row, times};
use crate::gemm::{Matrix, multiply, packed};
use crate::harness::{Run, Table, random};
use crate::program::{Program, positive, random_below};
use crate::simd::{Lanes, dot, each, mapped};
use crate::stencils::sum;

pub fn run(table: &mut Table) -> Result<()> {
    hidden(table, 1000)?;
    hidden(table, 8000)?;
    pseudo_likelihood(table, 5000)?;
    pseudo_likelihood(table, 50_000)?;
    tucker(table, 60, 10_000)?;
    tucker(table, 150, 50_000)?;
    counts(table, 40, 10_000)?;
    counts(table, 200, 100_000)
}

const K: usize = 16;
const C: usize = K / 8;

/// Rows that are exponentiated and divided by their sums.
fn softmax(x: &[f64], width: usize, y: &mut [f64]) {
    for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)) {
        let top = Lanes::splat(x.iter().fold(f64::NEG_INFINITY, |top, x| if *x > top { *x } else { top }));
        (0..width).step_by(8).for_each(|j| (Lanes::load(x, j) - top).map(vector::exp).store(y, j));
        let over = 1.0 / sum(y);
        y.iter_mut().for_each(|y| *y *= over);
    }
}

/// What slopes by rows of a softmax give to what went in.
fn softmax_back(y: &[f64], dy: &[f64], width: usize, dx: &mut [f64]) {
    for ((y, dy), dx) in y.chunks_exact(width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(width)) {
        let mean = dot(y, dy);
        dx.iter_mut().zip(y).zip(dy).for_each(|((dx, y), dy)| *dx = y * (dy - mean));
    }
}

fn hidden(table: &mut Table, n: usize) -> Result<()> {
    const V: usize = 32;
    const BLOCK: usize = 96;
    let (name, text) = (format!("hidden Markov model, {n} sequences"), include_str!("../programs/hmm.iv"));
    let Some(p) = Program::new(table, name, text, &["initial", "transition", "emission"]) else { return Ok(()) };
    let symbol = random_below(4 * n, V, 1104);
    let p = p
        .tensor("initial", &[K], random(K, 1101))
        .tensor("transition", &[K, K], random(K * K, 1102))
        .tensor("emission", &[K, V], random(K * V, 1103))
        .map("symbol", &[n, 4], &symbol, V);
    let [initial, transition, emission] = p.numbers();
    let symbol = &symbol;
    p.compare(table, || -> Run<'_> {
        let (mut start, mut step, mut emit, mut by_symbol) =
            (vec![0.0; K], vec![0.0; K * K], vec![0.0; K * V], vec![0.0; V * K]);
        let (mut to_start, mut to_step, mut to_symbol, mut to_emit) =
            (vec![0.0; K], vec![0.0; K * K], vec![0.0; V * K], vec![0.0; K * V]);
        // Before and after the emission, at each of four times.
        let mut before = [(); 4].map(|()| vec![0.0; BLOCK * K]);
        let mut after = [(); 4].map(|()| vec![0.0; BLOCK * K]);
        let (mut g, mut h, mut room) = (vec![0.0; BLOCK * K], vec![0.0; BLOCK * K], packed(BLOCK, K));
        Box::new(move |results| {
            softmax(initial, K, &mut start);
            softmax(transition, K, &mut step);
            softmax(emission, V, &mut emit);
            (0..K * V).for_each(|at| by_symbol[at % V * K + at / V] = emit[at]);
            to_start.fill(0.0);
            to_step.fill(0.0);
            to_symbol.fill(0.0);
            let (mut loss, gradient) = (0.0, results.len() > 1);
            for first in (0..n).step_by(BLOCK) {
                let rows = BLOCK.min(n - first);
                let symbol = |s: usize, t: usize| symbol[4 * (first + s) + t];
                for t in 0..4 {
                    match t {
                        0 => before[0].chunks_exact_mut(K).for_each(|row| row.copy_from_slice(&start)),
                        _ => multiply(
                            Matrix::new(&after[t - 1], K),
                            Matrix::new(&step, K),
                            [rows, K, K],
                            0.0,
                            &mut before[t],
                            &mut room,
                        ),
                    }
                    for s in 0..rows {
                        let (b, e): (Row<C>, Row<C>) = (row(&before[t], s as u32), row(&by_symbol, symbol(s, t)));
                        times(b, e).into_iter().enumerate().for_each(|(c, x)| x.store(&mut after[t], s * K + 8 * c));
                    }
                }
                for s in (0..rows).step_by(8) {
                    let of = |l: usize| {
                        let a: Row<C> = row(&after[3], (s + l) as u32);
                        a.into_iter().skip(1).fold(a[0], |sum, a| sum + a)
                    };
                    let total = match rows - s {
                        8.. => Lanes::sums(each(of)),
                        some => Lanes::of(|l| if l < some { of(l).sum() } else { 1.0 }),
                    };
                    loss -= total.map(vector::ln).sum();
                    let over = (Lanes::splat(-1.0) / total).array();
                    (0..8.min(rows - s)).for_each(|l| g[(s + l) * K..][..K].fill(over[l]));
                }
                if !gradient {
                    continue;
                }
                for t in (0..4).rev() {
                    for s in 0..rows {
                        let (g, b): (Row<C>, Row<C>) = (row(&g, s as u32), row(&before[t], s as u32));
                        let e: Row<C> = row(&by_symbol, symbol(s, t));
                        add(&mut to_symbol, symbol(s, t), Lanes::splat(1.0), times(g, b));
                        times(g, e).into_iter().enumerate().for_each(|(c, x)| x.store(&mut h, s * K + 8 * c));
                    }
                    let h = &h[..rows * K];
                    if t == 0 {
                        h.chunks_exact(K).for_each(|h| to_start.iter_mut().zip(h).for_each(|(d, h)| *d += h));
                        continue;
                    }
                    let left = Matrix::new(&after[t - 1][..rows * K], K).transposed();
                    multiply(left, Matrix::new(h, K), [K, rows, K], 1.0, &mut to_step, &mut room);
                    let right = Matrix::new(&step, K).transposed();
                    multiply(Matrix::new(h, K), right, [rows, K, K], 0.0, &mut g, &mut room);
                }
            }
            results[0][0] = loss;
            let [_, dinitial, dtransition, demission] = results else { return };
            (0..K * V).for_each(|at| to_emit[at] = to_symbol[at % V * K + at / V]);
            softmax_back(&start, &to_start, K, dinitial);
            softmax_back(&step, &to_step, K, dtransition);
            softmax_back(&emit, &to_emit, V, demission);
        })
    })
}

fn pseudo_likelihood(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("chain of {n} labels"), include_str!("../programs/crf.iv"));
    let Some(p) = Program::new(table, name, text, &["unary", "pair"]) else { return Ok(()) };
    let label = random_below(n + 2, K, 1113);
    let p = p.tensor("unary", &[n + 2, K], random((n + 2) * K, 1111)).tensor("pair", &[K, K], random(K * K, 1112)).map(
        "label",
        &[n + 2],
        &label,
        K,
    );
    let [unary, pair] = p.numbers();
    let label = &label;
    p.compare(table, || -> Run<'_> {
        let [mut turned, mut slopes, mut slopes_turned] = [(); 3].map(|()| vec![0.0; K * K]);
        Box::new(move |results| {
            (0..K * K).for_each(|at| turned[at % K * K + at / K] = pair[at]);
            slopes.fill(0.0);
            slopes_turned.fill(0.0);
            if let [_, du, _] = results {
                du[..K].fill(0.0);
                du[(n + 1) * K..].fill(0.0);
            }
            let mut loss = 0.0;
            // Eight places at a time, whose logarithms are taken at once.
            for first in (0..n).step_by(8) {
                let count = 8.min(n - first);
                let (mut totals, mut exps) = ([1.0; 8], [[Lanes::splat(0.0); C]; 8]);
                for l in 0..count {
                    let i = first + l;
                    let (u, a, b): (Row<C>, Row<C>, Row<C>) =
                        (row(unary, i as u32 + 1), row(pair, label[i]), row(&turned, label[i + 2]));
                    let score: Row<C> = each(|c| u[c] + a[c] + b[c]);
                    let all = score[0].max(score[1]).array();
                    let top = all.into_iter().fold(f64::NEG_INFINITY, |top, x| if x > top { x } else { top });
                    let own = label[i + 1] as usize;
                    loss += top - score[own / 8].array()[own % 8];
                    exps[l] = mapped(score, |s| (s - Lanes::splat(top)).map(vector::exp));
                    totals[l] = (exps[l][0] + exps[l][1]).sum();
                }
                loss += Lanes::load(&totals, 0).map(vector::ln).sum();
                let [_, du, _] = results else { continue };
                for l in 0..count {
                    let i = first + l;
                    let (over, own) = (Lanes::splat(1.0 / totals[l]), label[i + 1] as usize);
                    let du = &mut du[(i + 1) * K..][..K];
                    exps[l].into_iter().enumerate().for_each(|(c, e)| (e * over).store(du, 8 * c));
                    du[own] -= 1.0;
                    let g: Row<C> = row(du, 0);
                    add(&mut slopes, label[i], Lanes::splat(1.0), g);
                    add(&mut slopes_turned, label[i + 2], Lanes::splat(1.0), g);
                }
            }
            results[0][0] = loss;
            if let [_, _, dp] = results {
                (0..K * K).for_each(|at| dp[at] = slopes[at] + slopes_turned[at % K * K + at / K]);
            }
        })
    })
}

/// Places of entries, sorted.
fn tuples<const D: usize>(n: usize, count: usize, seed: u64) -> Vec<[usize; D]> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut all: Vec<[usize; D]> = (0..count).map(|_| each(|_| rng.usize(0..n))).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn coo<const D: usize>(n: usize, tuples: &[[usize; D]], data: &[f64]) -> Coo {
    let columns = (0..D).map(|axis| tuples.iter().map(|t| t[axis]).collect()).collect();
    Coo::new(vec![n; D], columns, data.to_vec()).expect("sorted and in range")
}

/// The core is multiplied with each row of the first factor once.
fn tucker(table: &mut Table, n: usize, count: usize) -> Result<()> {
    let (name, text) = (format!("Tucker factors, {n}^3, {count} entries"), include_str!("../programs/tucker.iv"));
    let Some(p) = Program::new(table, name, text, &["G", "A", "B", "C"]) else { return Ok(()) };
    let tuples = tuples::<3>(n, count, 1121);
    let data = random(tuples.len(), 1122);
    let p = p
        .coo("T", coo(n, &tuples, &data), data.clone())
        .tensor("G", &[8, 8, 8], random(512, 1123))
        .tensor("A", &[n, 8], random(8 * n, 1124))
        .tensor("B", &[n, 8], random(8 * n, 1125))
        .tensor("C", &[n, 8], random(8 * n, 1126));
    let [data, g, a, b, c] = p.numbers();
    let starts: Vec<usize> = (0..=n).map(|i| tuples.partition_point(|t| t[0] < i)).collect();
    let others: Vec<[u32; 2]> = tuples.iter().map(|t| [t[1] as u32, t[2] as u32]).collect();
    let (starts, others) = (&starts, &others);
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let none = Lanes::splat(0.0);
            if let [_, dg, _, db, dc] = results {
                dg.fill(0.0);
                db.fill(0.0);
                dc.fill(0.0);
            }
            let mut loss = 0.0;
            for i in 0..n {
                let (a, own) = (&a[8 * i..][..8], starts[i]..starts[i + 1]);
                let (others, data) = (&others[own.clone()], &data[own]);
                let core: [Lanes; 8] =
                    each(|q| (0..8).fold(none, |sum, p| Lanes::splat(a[p]).fused(Lanes::load(g, 64 * p + 8 * q), sum)));
                let along = |j: u32| {
                    let b = &b[8 * j as usize..][..8];
                    (0..8).fold(none, |sum, q| Lanes::splat(b[q]).fused(core[q], sum))
                };
                let [_, dg, da, db, dc] = results else {
                    loss += residuals(
                        data,
                        |at| along(others[at][0]) * Lanes::load(c, 8 * others[at][1] as usize),
                        |_, _| {},
                    );
                    continue;
                };
                let mut to_core = [none; 8];
                let of = |at: usize| along(others[at][0]) * Lanes::load(c, 8 * others[at][1] as usize);
                loss += residuals(data, of, |at, e| {
                    let ([j, k], s) = (others[at], Lanes::splat(-2.0 * e));
                    add(dc, k, s, [along(j)]);
                    let to_row = s * Lanes::load(c, 8 * k as usize);
                    let b = &b[8 * j as usize..][..8];
                    to_core.iter_mut().zip(b).for_each(|(d, b)| *d = Lanes::splat(*b).fused(to_row, *d));
                    add(db, j, Lanes::splat(1.0), [Lanes::sums(mapped(core, |x| x * to_row))]);
                });
                let of = |p: usize| (0..8).fold(none, |sum, q| to_core[q].fused(Lanes::load(g, 64 * p + 8 * q), sum));
                Lanes::sums(each(of)).store(da, 8 * i);
                for (p, q) in (0..8).flat_map(|p| (0..8).map(move |q| (p, q))) {
                    let at = 64 * p + 8 * q;
                    Lanes::splat(a[p]).fused(to_core[q], Lanes::load(dg, at)).store(dg, at);
                }
            }
            results[0][0] = loss;
        })
    })
}

fn counts(table: &mut Table, n: usize, count: usize) -> Result<()> {
    let (name, text) = (format!("factors of counts, {n}^4, {count} entries"), include_str!("../programs/cp_tensor.iv"));
    let Some(p) = Program::new(table, name, text, &["A", "B", "C", "D"]) else { return Ok(()) };
    let tuples = tuples::<4>(n, count, 1131);
    let data = positive(tuples.len(), 1132);
    let mut p = p.coo("T", coo(n, &tuples, &data), data.clone());
    for (name, seed) in ["A", "B", "C", "D"].into_iter().zip(1133..) {
        p = p.tensor(name, &[n, K], positive(n * K, seed));
    }
    let [data, a, b, c, d] = p.numbers();
    let starts: Vec<usize> = (0..=n).map(|i| tuples.partition_point(|t| t[0] < i)).collect();
    let others: Vec<[u32; 3]> = tuples.iter().map(|t| [1, 2, 3].map(|axis| t[axis] as u32)).collect();
    let (starts, others) = (&starts, &others);
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let (mut loss, one) = (Lanes::splat(0.0), Lanes::splat(1.0));
            if let [_, _, db, dc, dd] = results {
                db.fill(0.0);
                dc.fill(0.0);
                dd.fill(0.0);
            }
            for i in 0..n {
                let (a, own): (Row<C>, _) = (row(a, i as u32), starts[i]..starts[i + 1]);
                let mut sums = [Lanes::splat(0.0); C];
                for (others, data) in others[own.clone()].chunks(8).zip(data[own].chunks(8)) {
                    let of = |l: usize| {
                        let [j, k, m] = others[l];
                        products(times(a, row(b, j)), times(row(c, k), row(d, m)))
                    };
                    let (rate, t, there) = match data.len() {
                        8 => (Lanes::sums(each(of)), Lanes::load(data, 0), one),
                        some => (
                            Lanes::of(|l| if l < some { of(l).sum() } else { 1.0 }),
                            Lanes::of(|l| if l < some { data[l] } else { 0.0 }),
                            Lanes::of(|l| if l < some { 1.0 } else { 0.0 }),
                        ),
                    };
                    loss += there * rate - t * rate.map(vector::ln);
                    let [_, _, db, dc, dd] = results else { continue };
                    let g = (one - t / rate).array();
                    for ([j, k, m], g) in others.iter().zip(g) {
                        let g = Lanes::splat(g);
                        let (b, c, d): (Row<C>, Row<C>, Row<C>) = (row(b, *j), row(c, *k), row(d, *m));
                        let (ab, cd) = (times(a, b), times(c, d));
                        sums.iter_mut().zip(times(b, cd)).for_each(|(s, x)| *s = g.fused(x, *s));
                        add(db, *j, g, times(a, cd));
                        add(dc, *k, g, times(ab, d));
                        add(dd, *m, g, times(ab, c));
                    }
                }
                if let [_, da, ..] = results {
                    sums.into_iter().enumerate().for_each(|(c, x)| x.store(da, i * K + 8 * c));
                }
            }
            results[0][0] = loss.sum();
        })
    })
}

//! Layers of networks.

use crate::gemm::{Matrix, multiply, packed};
use crate::harness::{Run, Table, random};
use crate::products::column_means;
use crate::program::Program;
use crate::simd::{Lanes, dot};
use crate::stencils::sum;
use iverson::Result;
use iverson::ir::codegen::vector;

pub fn run(table: &mut Table) -> Result<()> {
    recurrent(table, [64, 64, 64])?;
    recurrent(table, [256, 128, 192])?;
    relu(table, [200, 20, 16, 3])?;
    relu(table, [1000, 200, 128, 10])?;
    attention(table, [2, 96, 32])?;
    attention(table, [4, 192, 32])?;
    batch_norm(table, 100, 64)?;
    batch_norm(table, 300, 128)
}

/// A function of numbers in lanes; there are a multiple of 8.
#[inline(always)]
fn apply(x: &mut [f64], f: impl Fn(Lanes) -> Lanes) {
    (0..x.len()).step_by(8).for_each(|at| f(Lanes::load(x, at)).store(x, at));
}

fn sums_of_columns(x: &[f64], d: usize, sums: &mut [f64]) {
    sums.fill(0.0);
    x.chunks_exact(d).for_each(|row| sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x));
}

fn recurrent(table: &mut Table, [b, d, k]: [usize; 3]) -> Result<()> {
    let wrt = &["Wz", "Uz", "bz", "Wr", "Ur", "br", "Wc", "Uc", "bc"];
    let (name, text) = (format!("gated recurrent unit, {b} x {d}, {k} units"), include_str!("../programs/gru.iv"));
    let Some(p) = Program::new(table, name, text, wrt) else { return Ok(()) };
    let mut p = p.tensor("x", &[b, d], random(b * d, 501)).tensor("h", &[b, k], random(b * k, 502));
    for (at, name) in wrt.iter().enumerate() {
        let shape = [vec![d, k], vec![k, k], vec![k]][at % 3].clone();
        let data = random(shape.iter().product(), 503 + at as u64).into_iter().map(|x| 0.2 * x).collect();
        p = p.tensor(name, &shape, data);
    }
    let p = p.tensor("target", &[b, k], random(b * k, 512));
    let [x, h, wz, uz, bz, wr, ur, br, wc, uc, bc, target] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let mut rooms = [(); 5].map(|()| vec![0.0; b * k]);
        let mut room = packed(b.max(d).max(k), k);
        Box::new(move |results| {
            let [z, r, c, rh, g] = &mut rooms;
            let mut layer = |h: &[f64], [w, u, bias]: [&[f64]; 3], to: &mut [f64]| {
                to.chunks_exact_mut(k).for_each(|row| row.copy_from_slice(bias));
                multiply(Matrix::new(x, d), Matrix::new(w, k), [b, d, k], 1.0, to, &mut room);
                multiply(Matrix::new(h, k), Matrix::new(u, k), [b, k, k], 1.0, to, &mut room);
            };
            layer(h, [wz, uz, bz], z);
            layer(h, [wr, ur, br], r);
            apply(r, |x| x.map(vector::sigmoid));
            rh.iter_mut().zip(&*r).zip(h).for_each(|((rh, r), h)| *rh = r * h);
            layer(rh, [wc, uc, bc], c);
            let (mut square, one) = (Lanes::splat(0.0), Lanes::splat(1.0));
            let gradient = results.len() > 1;
            for at in (0..b * k).step_by(8) {
                let (zs, cs) = (Lanes::load(z, at).map(vector::sigmoid), Lanes::load(c, at).map(vector::tanh));
                let h = Lanes::load(h, at);
                let e = zs.fused(cs - h, h) - Lanes::load(target, at);
                square = e.fused(e, square);
                if gradient {
                    let e = e + e;
                    (e * zs * (one - cs * cs)).store(c, at);
                    (e * (cs - h) * zs * (one - zs)).store(z, at);
                }
            }
            let [value, dwz, duz, dbz, dwr, dur, dbr, dwc, duc, dbc] = results else {
                results[0][0] = square.sum();
                return;
            };
            value[0] = square.sum();
            multiply(Matrix::new(c, k), Matrix::new(uc, k).transposed(), [b, k, k], 0.0, g, &mut room);
            for (g, (r, h)) in g.iter_mut().zip(r.iter().zip(h)) {
                *g *= h * r * (1.0 - r);
            }
            let mut back = |h: &[f64], of: &[f64], [w, u, bias]: [&mut [f64]; 3]| {
                multiply(Matrix::new(x, d).transposed(), Matrix::new(of, k), [d, b, k], 0.0, w, &mut room);
                multiply(Matrix::new(h, k).transposed(), Matrix::new(of, k), [k, b, k], 0.0, u, &mut room);
                sums_of_columns(of, k, bias);
            };
            back(h, z, [dwz, duz, dbz]);
            back(h, g, [dwr, dur, dbr]);
            back(rh, c, [dwc, duc, dbc]);
        })
    })
}

fn relu(table: &mut Table, [b, d, h, o]: [usize; 4]) -> Result<()> {
    let name = format!("layers with ReLU, {d}-{h}-{o}, batch {b}");
    let text = include_str!("../programs/relu_layers.iv");
    let Some(p) = Program::new(table, name, text, &["W", "c", "V"]) else { return Ok(()) };
    let scaled = |x: Vec<f64>| x.into_iter().map(|x| 0.2 * x).collect::<Vec<f64>>();
    let p = p.tensor("X", &[b, d], random(b * d, 521)).tensor("W", &[h, d], scaled(random(h * d, 522)));
    let p = p.tensor("c", &[h], random(h, 523)).tensor("V", &[o, h], scaled(random(o * h, 524)));
    let p = p.tensor("Y", &[b, o], random(b * o, 525));
    let [x, w, c, v, y] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let (mut z, mut t, mut back) = (vec![0.0; b * h], vec![0.0; b * o], vec![0.0; b * h]);
        let mut room = packed(b.max(d).max(h), h.max(d));
        Box::new(move |results| {
            z.chunks_exact_mut(h).for_each(|row| row.copy_from_slice(c));
            multiply(Matrix::new(x, d), Matrix::new(w, d).transposed(), [b, d, h], 1.0, &mut z, &mut room);
            z.iter_mut().for_each(|z| *z = z.max(0.0));
            multiply(Matrix::new(&z, h), Matrix::new(v, h).transposed(), [b, h, o], 0.0, &mut t, &mut room);
            t.iter_mut().zip(y).for_each(|(t, y)| *t -= y);
            results[0][0] = dot(&t, &t);
            let [_, dw, dc, dv] = results else { return };
            t.iter_mut().for_each(|t| *t *= 2.0);
            multiply(Matrix::new(&t, o).transposed(), Matrix::new(&z, h), [o, b, h], 0.0, dv, &mut room);
            multiply(Matrix::new(&t, o), Matrix::new(v, h), [b, o, h], 0.0, &mut back, &mut room);
            back.iter_mut().zip(&z).for_each(|(back, z)| *back = if *z > 0.0 { *back } else { 0.0 });
            sums_of_columns(&back, h, dc);
            multiply(Matrix::new(&back, h).transposed(), Matrix::new(x, d), [h, b, d], 0.0, dw, &mut room);
        })
    })
}

fn attention(table: &mut Table, [h, n, d]: [usize; 3]) -> Result<()> {
    let (name, text) = (format!("attention, {h} heads, {n} x {d}"), include_str!("../programs/attention.iv"));
    let Some(p) = Program::new(table, name, text, &["Q", "K", "V"]) else { return Ok(()) };
    let p = ["Q", "K", "V", "Y"]
        .iter()
        .zip(521..)
        .fold(p, |p, (name, seed)| p.tensor(name, &[h, n, d], random(h * n * d, seed)));
    let [q, k, v, y] = p.numbers();
    // Rows of a block, of which scores and weights stay in the cache.
    const BLOCK: usize = 48;
    p.compare(table, || -> Run<'_> {
        let [mut weights, mut slopes] = [(); 2].map(|()| vec![0.0; BLOCK * n]);
        let (mut o, mut room) = (vec![0.0; BLOCK * d], packed(n.max(d).max(BLOCK), n.max(d)));
        Box::new(move |results| {
            let (scale, mut square) = (1.0 / (d as f64).sqrt(), 0.0);
            for (a, first) in (0..h).flat_map(|a| (0..n).step_by(BLOCK).map(move |first| (a, first))) {
                let rows = BLOCK.min(n - first);
                let (at, own) = (a * n * d, (a * n + first) * d..(a * n + first + rows) * d);
                let (k, v) = (Matrix::new(&k[at..][..n * d], d), Matrix::new(&v[at..][..n * d], d));
                let (q, y) = (Matrix::new(&q[own.clone()], d), &y[own.clone()]);
                let (weights, o) = (&mut weights[..rows * n], &mut o[..rows * d]);
                multiply(q, k.transposed(), [rows, d, n], 0.0, weights, &mut room);
                for row in weights.chunks_exact_mut(n) {
                    let top = row.iter().fold(f64::NEG_INFINITY, |top, x| if *x > top { *x } else { top });
                    let (scale, shift) = (Lanes::splat(scale), Lanes::splat(-scale * top));
                    apply(row, |x| x.fused(scale, shift).map(vector::exp));
                    let over = Lanes::splat(1.0 / sum(row));
                    apply(row, |x| x * over);
                }
                multiply(Matrix::new(weights, n), v, [rows, n, d], 0.0, o, &mut room);
                o.iter_mut().zip(y).for_each(|(o, y)| *o -= y);
                square += dot(o, o);
                let [_, dq, dk, dv] = results else { continue };
                let beta = if first == 0 { 0.0 } else { 1.0 };
                let slopes = &mut slopes[..rows * n];
                o.iter_mut().for_each(|o| *o *= 2.0);
                multiply(Matrix::new(o, d), v.transposed(), [rows, d, n], 0.0, slopes, &mut room);
                let [dk, dv] = [dk, dv].map(|x| &mut x[at..][..n * d]);
                let left = Matrix::new(weights, n).transposed();
                multiply(left, Matrix::new(o, d), [n, rows, d], beta, dv, &mut room);
                for (w, s) in weights.chunks_exact(n).zip(slopes.chunks_exact_mut(n)) {
                    let mean = dot(w, s);
                    s.iter_mut().zip(w).for_each(|(s, w)| *s = scale * w * (*s - mean));
                }
                multiply(Matrix::new(slopes, n), k, [rows, n, d], 0.0, &mut dq[own], &mut room);
                multiply(Matrix::new(slopes, n).transposed(), q, [n, rows, d], beta, dk, &mut room);
            }
            results[0][0] = square;
        })
    })
}

fn batch_norm(table: &mut Table, n: usize, d: usize) -> Result<()> {
    let (name, text) = (format!("batch normalisation, {n} x {d}"), include_str!("../programs/batch_norm.iv"));
    let wrt = &["x", "gamma", "beta", "head"];
    let Some(p) = Program::new(table, name, text, wrt) else { return Ok(()) };
    let p = p
        .tensor("x", &[n, d], random(n * d, 531))
        .tensor("gamma", &[d], random(d, 532))
        .tensor("beta", &[d], random(d, 533))
        .tensor("head", &[d], random(d, 534))
        .tensor("y", &[n], random(n, 535));
    let [x, gamma, beta, head, y] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let mut rooms = [(); 4].map(|()| vec![0.0; d]);
        let (mut r, none) = (vec![0.0; n], Lanes::splat(0.0));
        Box::new(move |results| {
            let [mu, over, s, t] = &mut rooms;
            column_means(x, d, mu);
            over.fill(0.0);
            for x in x.chunks_exact(d) {
                over.iter_mut().zip(x).zip(&*mu).for_each(|((v, x), mu)| *v += (x - mu) * (x - mu));
            }
            over.iter_mut().for_each(|v| *v = 1.0 / (*v / n as f64 + 1e-5).sqrt());
            for j in 0..d {
                s[j] = gamma[j] * over[j];
                t[j] = beta[j] - mu[j] * s[j];
            }
            for (i, x) in x.chunks_exact(d).enumerate() {
                let mut score = none;
                for j in (0..d).step_by(8) {
                    let z = Lanes::load(x, j).fused(Lanes::load(s, j), Lanes::load(t, j));
                    score = z.max(none).fused(Lanes::load(head, j), score);
                }
                r[i] = score.sum() - y[i];
            }
            results[0][0] = dot(&r, &r) / n as f64;
            let [_, dx, dgamma, dbeta, dhead] = results else { return };
            dgamma.fill(0.0);
            dbeta.fill(0.0);
            dhead.fill(0.0);
            let sides = |x: &[f64], g: Lanes, j: usize| {
                let x = Lanes::load(x, j);
                let z = x.fused(Lanes::load(s, j), Lanes::load(t, j));
                let dz = none.less(z, g * Lanes::load(head, j), none);
                (x - Lanes::load(mu, j), z.max(none), dz)
            };
            for (x, r) in x.chunks_exact(d).zip(&r) {
                let g = Lanes::splat(2.0 / n as f64 * r);
                for j in (0..d).step_by(8) {
                    let (centred, z, dz) = sides(x, g, j);
                    g.fused(z, Lanes::load(dhead, j)).store(dhead, j);
                    (dz + Lanes::load(dbeta, j)).store(dbeta, j);
                    dz.fused(centred, Lanes::load(dgamma, j)).store(dgamma, j);
                }
            }
            dgamma.iter_mut().zip(&*over).for_each(|(d, over)| *d *= over);
            let over_n = Lanes::splat(1.0 / n as f64);
            for ((x, r), dx) in x.chunks_exact(d).zip(&r).zip(dx.chunks_exact_mut(d)) {
                let g = Lanes::splat(2.0 / n as f64 * r);
                for j in (0..d).step_by(8) {
                    let (centred, _, dz) = sides(x, g, j);
                    let along = centred * Lanes::load(over, j) * Lanes::load(dgamma, j) + Lanes::load(dbeta, j);
                    (Lanes::load(s, j) * (dz - over_n * along)).store(dx, j);
                }
            }
        })
    })
}

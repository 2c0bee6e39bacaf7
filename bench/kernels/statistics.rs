//! Likelihoods and losses of tables of numbers.

use iverson::Result;
use iverson::ir::codegen::vector;

use crate::gemm::{Matrix, multiply, packed};
use crate::harness::{Run, Table, random};
use crate::mixture::{PANEL, ROWS, add_products};
use crate::polybench::{add_rows, dots, fours};
use crate::program::{Program, positive, random_below};
use crate::simd::{Lanes, axpy, dot, each, mapped};
use crate::stencils::sum;

pub fn run(table: &mut Table) -> Result<()> {
    huber(table, 4000, 32)?;
    huber(table, 40_000, 64)?;
    quantile(table, 4000, 32)?;
    quantile(table, 30_000, 64)?;
    cox(table, 2000, 16)?;
    cox(table, 8000, 32)?;
    ordinal(table, 4000, 32)?;
    ordinal(table, 60_000, 32)?;
    label_smoothing(table, [500, 64, 10])?;
    label_smoothing(table, [8000, 128, 20])?;
    focal(table, 20_000)?;
    focal(table, 500_000)?;
    mahalanobis(table, 500, 24)?;
    mahalanobis(table, 8000, 64)?;
    bernoulli(table, [500, 64, 8])?;
    bernoulli(table, [4000, 256, 16])?;
    contrastive(table, 128, 32)?;
    contrastive(table, 640, 64)
}

#[inline(always)]
fn none() -> Lanes {
    Lanes::splat(0.0)
}

fn huber(table: &mut Table, n: usize, d: usize) -> Result<()> {
    let (name, text) = (format!("Huber regression, {n} x {d}"), include_str!("../programs/huber.iv"));
    let Some(p) = Program::new(table, name, text, &["w"]) else { return Ok(()) };
    let p =
        p.tensor("X", &[n, d], random(n * d, 601)).tensor("w", &[d], random(d, 602)).tensor("y", &[n], random(n, 603));
    let [x, w, y] = p.numbers();
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let mut loss = 0.0;
            if let [_, dw] = results {
                dw.fill(0.0);
            }
            fours(x, d, |i, rows| {
                let products = dots(rows, w);
                let r: [f64; 4] = each(|k| products[k] - y[i + k]);
                // With the residual cut at 0.5, the loss is g (r - g / 2).
                let g = mapped(r, |r| r.clamp(-0.5, 0.5));
                loss += (0..4).map(|k| g[k] * (r[k] - 0.5 * g[k])).sum::<f64>();
                if let [_, dw] = results {
                    add_rows(mapped(g, |g| g / n as f64), rows, dw);
                }
            });
            results[0][0] = loss / n as f64;
        })
    })
}

fn quantile(table: &mut Table, n: usize, d: usize) -> Result<()> {
    let (name, text) = (format!("quantile regression, {n} x {d}"), include_str!("../programs/quantile.iv"));
    let Some(p) = Program::new(table, name, text, &["W", "b"]) else { return Ok(()) };
    let p = p
        .tensor("X", &[n, d], random(n * d, 611))
        .tensor("W", &[d, 3], random(3 * d, 612))
        .tensor("b", &[3], random(3, 613))
        .tensor("q", &[3], vec![0.1, 0.5, 0.9])
        .tensor("y", &[n], random(n, 614));
    let [x, w, b, q, y] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let [mut columns, mut slopes] = [(); 2].map(|()| [(); 3].map(|()| vec![0.0; d]));
        Box::new(move |results| {
            for (c, column) in columns.iter_mut().enumerate() {
                column.iter_mut().zip(w.chunks_exact(3)).for_each(|(x, w)| *x = w[c]);
                slopes[c].fill(0.0);
            }
            let (mut loss, mut db, gradient) = (0.0, [0.0; 3], results.len() > 1);
            fours(x, d, |i, rows| {
                for c in 0..3 {
                    let products = dots(rows, &columns[c]);
                    let s: [f64; 4] = each(|k| {
                        let r = y[i + k] - b[c] - products[k];
                        let slope = if r > 0.0 { q[c] } else { q[c] - 1.0 };
                        loss += slope * r;
                        slope
                    });
                    if gradient {
                        db[c] -= (s[0] + s[1]) + (s[2] + s[3]);
                        add_rows(s, rows, &mut slopes[c]);
                    }
                }
            });
            results[0][0] = loss / n as f64;
            let [_, dw, to] = results else { return };
            for c in 0..3 {
                to[c] = db[c] / n as f64;
                dw.chunks_exact_mut(3).zip(&slopes[c]).for_each(|(dw, s)| dw[c] = -s / n as f64);
            }
        })
    })
}

/// Those at risk are summed from the last one on.
fn cox(table: &mut Table, n: usize, d: usize) -> Result<()> {
    let (name, text) = (format!("Cox partial likelihood, {n} x {d}"), include_str!("../programs/cox.iv"));
    let Some(p) = Program::new(table, name, text, &["w"]) else { return Ok(()) };
    let event = random_below(n, 2, 623).into_iter().map(f64::from).collect();
    let p = p.tensor("X", &[n, d], random(n * d, 621)).tensor("w", &[d], random(d, 622)).tensor("event", &[n], event);
    let [x, w, event] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let [mut eta, mut e, mut risk] = [(); 3].map(|()| vec![0.0; n]);
        Box::new(move |results| {
            fours(x, d, |i, rows| eta[i..i + 4].copy_from_slice(&dots(rows, w)));
            for i in (0..n).step_by(8) {
                Lanes::load(&eta, i).map(vector::exp).store(&mut e, i);
            }
            let mut total = 0.0;
            for i in (0..n).rev() {
                total += e[i];
                risk[i] = total;
            }
            let mut loss = none();
            for i in (0..n).step_by(8) {
                let log = Lanes::load(&risk, i).map(vector::ln) - Lanes::load(&eta, i);
                loss = Lanes::load(event, i).fused(log, loss);
            }
            results[0][0] = loss.sum();
            let [_, dw] = results else { return };
            risk.iter_mut().zip(event).for_each(|(r, event)| *r = event / *r);
            let mut total = 0.0;
            for i in 0..n {
                total += risk[i];
                e[i] = e[i].mul_add(total, -event[i]);
            }
            dw.fill(0.0);
            fours(x, d, |i, rows| add_rows([e[i], e[i + 1], e[i + 2], e[i + 3]], rows, dw));
        })
    })
}

fn ordinal(table: &mut Table, n: usize, d: usize) -> Result<()> {
    let (name, text) = (format!("ordinal regression, {n} x {d}"), include_str!("../programs/ordinal.iv"));
    let Some(p) = Program::new(table, name, text, &["w", "cut"]) else { return Ok(()) };
    let label = random_below(n, 5, 633);
    let p = p
        .tensor("X", &[n, d], random(n * d, 631))
        .tensor("w", &[d], random(d, 632))
        .tensor("cut", &[4], vec![-2.0, -0.5, 0.5, 2.0])
        .map("label", &[n], &label, 5);
    let [x, w, cut] = p.numbers();
    let label = &label;
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            // Class c lies between edge c and edge c + 1.
            let edges = [f64::NEG_INFINITY, cut[0], cut[1], cut[2], cut[3], f64::INFINITY];
            let (mut loss, one, mut to_edges) = (none(), Lanes::splat(1.0), [0.0; 6]);
            if let [_, dw, _] = results {
                dw.fill(0.0);
            }
            for i in (0..n).step_by(8) {
                let rows: [[&[f64]; 4]; 2] = [0, 4].map(|h| each(|r| &x[(i + h + r) * d..][..d]));
                let (low, high) = (dots(rows[0], w), dots(rows[1], w));
                let eta = Lanes::of(|l| if l < 4 { low[l] } else { high[l - 4] });
                let labels = &label[i..i + 8];
                let from = Lanes::of(|l| edges[labels[l] as usize]);
                let to = Lanes::of(|l| edges[labels[l] as usize + 1]);
                let (a, b) = ((eta - from).map(vector::sigmoid), (eta - to).map(vector::sigmoid));
                let p = a - b;
                loss += p.map(vector::ln);
                let [_, dw, _] = results else { continue };
                let over = Lanes::splat(-1.0 / n as f64) / p;
                let (da, db) = (over * a * (one - a), over * b * (one - b));
                let (g, down, up) = ((da - db).array(), da.array(), db.array());
                for (l, label) in labels.iter().enumerate() {
                    to_edges[*label as usize] -= down[l];
                    to_edges[*label as usize + 1] += up[l];
                }
                add_rows([g[0], g[1], g[2], g[3]], rows[0], dw);
                add_rows([g[4], g[5], g[6], g[7]], rows[1], dw);
            }
            results[0][0] = -loss.sum() / n as f64;
            if let [_, _, dcut] = results {
                dcut.copy_from_slice(&to_edges[1..5]);
            }
        })
    })
}

/// The softmax of a row, and its logarithm's normaliser; places from `k` on are not there.
#[inline(always)]
fn softmax(row: &mut [f64], k: usize) -> f64 {
    let top = row[..k].iter().fold(f64::NEG_INFINITY, |top, x| if *x > top { *x } else { top });
    row[k..].fill(f64::NEG_INFINITY);
    let mut total = none();
    for j in (0..row.len()).step_by(8) {
        let e = (Lanes::load(row, j) - Lanes::splat(top)).map(vector::exp);
        total += e;
        e.store(row, j);
    }
    let total = total.sum();
    row.iter_mut().for_each(|x| *x /= total);
    top + vector::ln(vector::V([total])).0[0]
}

/// Rows of blocks whose scores stay in the cache.
const BLOCK: usize = 96;

fn label_smoothing(table: &mut Table, [n, d, k]: [usize; 3]) -> Result<()> {
    let (name, text) =
        (format!("label smoothing, {n} x {d}, {k} classes"), include_str!("../programs/label_smoothing.iv"));
    let Some(p) = Program::new(table, name, text, &["W", "b"]) else { return Ok(()) };
    let label = random_below(n, k, 644);
    let p = p
        .tensor("X", &[n, d], random(n * d, 641))
        .tensor("W", &[d, k], random(d * k, 642))
        .tensor("b", &[k], random(k, 643))
        .map("label", &[n], &label, k);
    let [x, w, b] = p.numbers();
    let (label, wide) = (&label, k.next_multiple_of(8));
    p.compare(table, || -> Run<'_> {
        // Classes are filled up to whole vectors.
        let (mut z, mut room) = (vec![0.0; BLOCK * wide], packed(d.max(BLOCK), wide));
        let (mut padded, mut slopes) = (vec![0.0; d * wide], vec![0.0; d * wide]);
        Box::new(move |results| {
            padded.chunks_exact_mut(wide).zip(w.chunks_exact(k)).for_each(|(p, w)| p[..k].copy_from_slice(w));
            let (mut loss, gradient) = (0.0, results.len() > 1);
            if gradient {
                results[2].fill(0.0);
            }
            for (at, x) in x.chunks(BLOCK * d).enumerate() {
                let rows = x.len() / d;
                let z = &mut z[..rows * wide];
                multiply(Matrix::new(x, d), Matrix::new(&padded, wide), [rows, d, wide], 0.0, z, &mut room);
                for (row, label) in z.chunks_exact_mut(wide).zip(&label[at * BLOCK..]) {
                    row[..k].iter_mut().zip(b).for_each(|(z, b)| *z += b);
                    let own = 0.9 * row[*label as usize] + 0.1 / k as f64 * row[..k].iter().sum::<f64>();
                    loss += softmax(row, k) - own;
                    if let [_, _, db] = results {
                        row[..k].iter_mut().for_each(|p| *p = (*p - 0.1 / k as f64) / n as f64);
                        row[*label as usize] -= 0.9 / n as f64;
                        db.iter_mut().zip(row).for_each(|(d, g)| *d += *g);
                    }
                }
                if gradient {
                    let (beta, x) = (if at == 0 { 0.0 } else { 1.0 }, Matrix::new(x, d).transposed());
                    multiply(x, Matrix::new(z, wide), [d, rows, wide], beta, &mut slopes, &mut room);
                }
            }
            results[0][0] = loss / n as f64;
            if let [_, dw, _] = results {
                dw.chunks_exact_mut(k).zip(slopes.chunks_exact(wide)).for_each(|(d, s)| d.copy_from_slice(&s[..k]));
            }
        })
    })
}

fn focal(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("focal loss, n = {n}"), include_str!("../programs/focal.iv"));
    let Some(p) = Program::new(table, name, text, &["z"]) else { return Ok(()) };
    let y = random_below(n, 2, 652).into_iter().map(f64::from).collect();
    let p = p.tensor("z", &[n], random(n, 651)).tensor("y", &[n], y);
    let [z, y] = p.numbers();
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let (mut loss, one) = (none(), Lanes::splat(1.0));
            for i in (0..n).step_by(8) {
                let (p, y) = (Lanes::load(z, i).map(vector::sigmoid), Lanes::load(y, i));
                let pt = y * p + (one - y) * (one - p);
                let a = Lanes::splat(0.25) * y + Lanes::splat(0.75) * (one - y);
                let (q, log) = (one - pt, pt.map(vector::ln));
                loss = (a * q * q).fused(log, loss);
                if let [_, dz] = results {
                    let by_p = a * q * (log + log - q / pt) * (y + y - one);
                    (Lanes::splat(1.0 / n as f64) * by_p * p * (one - p)).store(dz, i);
                }
            }
            results[0][0] = -loss.sum() / n as f64;
        })
    })
}

/// Points lie in the lanes, as in the mixture; images are made in tiles of rows that end at the same column.
fn mahalanobis(table: &mut Table, n: usize, d: usize) -> Result<()> {
    let (name, text) =
        (format!("Gaussian by a triangular factor, {n} x {d}"), include_str!("../programs/mahalanobis.iv"));
    let Some(p) = Program::new(table, name, text, &["mu", "L"]) else { return Ok(()) };
    let p = p.tensor("x", &[n, d], random(n * d, 661)).tensor("mu", &[d], random(d, 662)).tensor(
        "L",
        &[d, d],
        positive(d * d, 663),
    );
    let [x, mu, l] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let [mut centred, mut images] = [(); 2].map(|()| vec![0.0; PANEL * d]);
        let ([mut lower, mut products], mut sums) = ([(); 2].map(|()| vec![0.0; d * d]), vec![0.0; d]);
        Box::new(move |results| {
            (0..d).for_each(|a| lower[a * d..][..a + 1].copy_from_slice(&l[a * d..][..a + 1]));
            let mut square = 0.0;
            sums.fill(0.0);
            products.fill(0.0);
            for x in x.chunks(PANEL * d) {
                if x.len() < PANEL * d {
                    centred.fill(0.0);
                }
                for (l, x) in x.chunks_exact(d).enumerate() {
                    x.iter().zip(mu).enumerate().for_each(|(j, (x, mu))| centred[j * PANEL + l] = x - mu);
                }
                for (i, l) in (0..d).step_by(ROWS).flat_map(|i| (0..PANEL).step_by(8).map(move |l| (i, l))) {
                    let rows: [&[f64]; ROWS] = each(|r| &lower[(i + r) * d..][..i + ROWS]);
                    let mut tile = [none(); ROWS];
                    for (j, x) in centred.chunks_exact(PANEL).take(i + ROWS).enumerate() {
                        let x = Lanes::load(x, l);
                        tile.iter_mut().zip(rows).for_each(|(y, row)| *y = Lanes::splat(row[j]).fused(x, *y));
                    }
                    tile.into_iter().enumerate().for_each(|(r, y)| y.store(&mut images, (i + r) * PANEL + l));
                }
                square += dot(&images, &images);
                if results.len() > 1 {
                    sums.iter_mut().zip(images.chunks_exact(PANEL)).for_each(|(s, y)| *s += sum(y));
                    add_products(&images, &centred, &mut products, d);
                }
            }
            let logs: f64 = (0..d).map(|a| l[a * d + a].abs().ln()).sum();
            results[0][0] = 0.5 * square - n as f64 * logs;
            let [_, dmu, dl] = results else { return };
            dmu.fill(0.0);
            dl.fill(0.0);
            for a in 0..d {
                axpy(-sums[a], &lower[a * d..][..d], dmu);
                dl[a * d..][..a + 1].copy_from_slice(&products[a * d..][..a + 1]);
                dl[a * d + a] -= n as f64 / l[a * d + a];
            }
        })
    })
}

fn bernoulli(table: &mut Table, [n, d, k]: [usize; 3]) -> Result<()> {
    let (name, text) =
        (format!("Bernoulli mixture, {n} x {d}, {k} parts"), include_str!("../programs/bernoulli_mixture.iv"));
    let Some(p) = Program::new(table, name, text, &["logits", "weight"]) else { return Ok(()) };
    let bits = random_below(n * d, 2, 673).into_iter().map(f64::from).collect();
    let p = p.tensor("logits", &[k, d], random(k * d, 671)).tensor("weight", &[k], random(k, 672)).tensor(
        "x",
        &[n, d],
        bits,
    );
    let [logits, weight, x] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let (mut scores, mut room) = (vec![0.0; BLOCK * k], packed(d.max(BLOCK), d.max(k)));
        let [mut base, mut share, mut mass] = [(); 3].map(|()| vec![0.0; k]);
        Box::new(move |results| {
            share.copy_from_slice(weight);
            let normaliser = softmax(&mut share, k);
            for (c, logits) in logits.chunks_exact(d).enumerate() {
                let parts = (0..d).step_by(8).map(|j| Lanes::load(logits, j).map(vector::softplus));
                base[c] = weight[c] - normaliser - parts.fold(none(), |sum, part| sum + part).sum();
            }
            mass.fill(0.0);
            let (mut loss, gradient) = (0.0, results.len() > 1);
            for (at, x) in x.chunks(BLOCK * d).enumerate() {
                let rows = x.len() / d;
                let scores = &mut scores[..rows * k];
                let (left, right) = (Matrix::new(x, d), Matrix::new(logits, d).transposed());
                multiply(left, right, [rows, d, k], 0.0, scores, &mut room);
                for row in scores.chunks_exact_mut(k) {
                    row.iter_mut().zip(&base).for_each(|(s, b)| *s += b);
                    loss -= softmax(row, k);
                    mass.iter_mut().zip(row).for_each(|(m, s)| *m += *s);
                }
                if gradient {
                    let (left, beta) = (Matrix::new(scores, k).transposed(), if at == 0 { 0.0 } else { 1.0 });
                    multiply(left, Matrix::new(x, d), [k, rows, d], beta, &mut results[1], &mut room);
                }
            }
            results[0][0] = loss;
            let [_, dlogits, dweight] = results else { return };
            for c in 0..k {
                dweight[c] = n as f64 * share[c] - mass[c];
                for j in (0..d).step_by(8) {
                    let own = Lanes::load(logits, c * d + j).map(vector::sigmoid) * Lanes::splat(mass[c]);
                    (own - Lanes::load(dlogits, c * d + j)).store(dlogits, c * d + j);
                }
            }
        })
    })
}

fn contrastive(table: &mut Table, n: usize, d: usize) -> Result<()> {
    let (name, text) = (format!("contrastive loss, {n} x {d}"), include_str!("../programs/info_nce.iv"));
    let Some(p) = Program::new(table, name, text, &["a", "b", "temperature"]) else { return Ok(()) };
    let p = p.tensor("a", &[n, d], random(n * d, 681)).tensor("b", &[n, d], random(n * d, 682)).tensor(
        "temperature",
        &[],
        vec![0.2],
    );
    let [a, b, temperature] = p.numbers();
    let unit = |x: &[f64], u: &mut [f64], norms: &mut [f64]| {
        for ((x, u), norm) in x.chunks_exact(d).zip(u.chunks_exact_mut(d)).zip(norms) {
            *norm = dot(x, x).sqrt();
            let over = 1.0 / *norm;
            u.iter_mut().zip(x).for_each(|(u, x)| *u = over * x);
        }
    };
    // What the slopes by unit rows give to the rows.
    let back = |u: &[f64], norms: &[f64], dx: &mut [f64]| {
        for ((u, norm), dx) in u.chunks_exact(d).zip(norms).zip(dx.chunks_exact_mut(d)) {
            let (along, over) = (dot(u, dx), 1.0 / norm);
            dx.iter_mut().zip(u).for_each(|(dx, u)| *dx = over * (*dx - along * u));
        }
    };
    p.compare(table, || -> Run<'_> {
        let ([mut u, mut v], [mut u_norms, mut v_norms]) =
            ([(); 2].map(|()| vec![0.0; n * d]), [(); 2].map(|()| vec![0.0; n]));
        let (mut s, mut raw, mut room) = (vec![0.0; BLOCK * n], vec![0.0; n], packed(n.max(d), n.max(d)));
        Box::new(move |results| {
            let over = 1.0 / temperature[0];
            unit(a, &mut u, &mut u_norms);
            unit(b, &mut v, &mut v_norms);
            let (mut loss, mut by_temperature, gradient) = (0.0, 0.0, results.len() > 1);
            for first in (0..n).step_by(BLOCK) {
                let rows = BLOCK.min(n - first);
                let (s, own) = (&mut s[..rows * n], first * d..(first + rows) * d);
                let (left, right) = (Matrix::new(&u[own.clone()], d), Matrix::new(&v, d));
                multiply(left, right.transposed(), [rows, d, n], 0.0, s, &mut room);
                for (i, row) in (first..).zip(s.chunks_exact_mut(n)) {
                    row.iter_mut().for_each(|s| *s *= over);
                    loss -= row[i];
                    if gradient {
                        raw.copy_from_slice(row);
                    }
                    loss += softmax(row, n);
                    if gradient {
                        row[i] -= 1.0;
                        by_temperature -= dot(row, &raw);
                        row.iter_mut().for_each(|s| *s *= over / n as f64);
                    }
                }
                let [_, da, db, _] = results else { continue };
                multiply(Matrix::new(s, n), right, [rows, n, d], 0.0, &mut da[own], &mut room);
                let beta = if first == 0 { 0.0 } else { 1.0 };
                multiply(Matrix::new(s, n).transposed(), left, [n, rows, d], beta, db, &mut room);
            }
            results[0][0] = loss / n as f64;
            let [_, da, db, dt] = results else { return };
            dt[0] = by_temperature * over / n as f64;
            back(&u, &u_norms, da);
            back(&v, &v_norms, db);
        })
    })
}

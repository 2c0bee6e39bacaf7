//! Products of matrices with a sum of squares on top, most of them of PolyBench.

use iverson::Result;

use crate::gemm::{Matrix, multiply, packed};
use crate::harness::{Run, Table, random};
use crate::program::Program;
use crate::simd::{Lanes, dot};

pub fn run(table: &mut Table) -> Result<()> {
    doitgen(table, [16, 64, 64])?;
    doitgen(table, [16, 128, 128])?;
    for [n, m] in [[96, 64], [400, 240]] {
        syrk(table, n, m)?;
        trmm(table, n, m)?;
        symm(table, n, m)?;
    }
    for [n, d] in [[400, 32], [4000, 96]] {
        covariance(table, n, d)?;
        correlation(table, n, d)?;
    }
    Ok(())
}

fn doitgen(table: &mut Table, [r, q, w]: [usize; 3]) -> Result<()> {
    let text = include_str!("../programs/doitgen.iv");
    let Some(p) = Program::new(table, format!("doitgen, {r} x {q} x {w}"), text, &["A", "C"]) else { return Ok(()) };
    let p = p.tensor("A", &[r, q, w], random(r * q * w, 341)).tensor("C", &[w, w], random(w * w, 342));
    let [a, c] = p.numbers();
    // Blocks of rows, so that a product is still in the cache when its square is added and it is multiplied again.
    const BLOCK: usize = 128;
    p.compare(table, || -> Run<'_> {
        let (mut room, mut other, mut g) = (packed(w.max(BLOCK), w), packed(BLOCK, w), vec![0.0; BLOCK * w]);
        Box::new(move |results| {
            let (mut sum, gradient) = (0.0, results.len() > 1);
            for (at, a) in a.chunks(BLOCK * w).enumerate() {
                let rows = a.len() / w;
                let g = &mut g[..rows * w];
                multiply(Matrix::new(a, w), Matrix::new(c, w), [rows, w, w], 0.0, g, &mut room);
                sum += dot(g, g);
                if gradient {
                    g.iter_mut().for_each(|g| *g *= 2.0);
                    let da = &mut results[1][at * BLOCK * w..][..rows * w];
                    multiply(Matrix::new(g, w), Matrix::new(c, w).transposed(), [rows, w, w], 0.0, da, &mut room);
                    let beta = if at == 0 { 0.0 } else { 1.0 };
                    let (a, g) = (Matrix::new(a, w).transposed(), Matrix::new(g, w));
                    multiply(a, g, [w, rows, w], beta, &mut results[2], &mut other);
                }
            }
            results[0][0] = sum;
        })
    })
}

/// `c = x' x` for a matrix of many rows: its lower triangle, block by block, which is then copied to the upper one.
fn gram(x: &[f64], [n, d]: [usize; 2], c: &mut [f64], part: &mut [f64], room: &mut [f64]) {
    const ROWS: usize = 128;
    const BLOCK: usize = 24;
    c.fill(0.0);
    for (at, x) in x.chunks(ROWS * d).enumerate() {
        let inner = ROWS.min(n - at * ROWS);
        for first in (0..d).step_by(BLOCK) {
            let rows = BLOCK.min(d - first);
            let last = first + rows;
            let part = &mut part[..rows * last];
            let left = Matrix { data: &x[first..], row: 1, column: d };
            multiply(left, Matrix::new(x, d), [rows, inner, last], 0.0, part, room);
            for (i, part) in (first..).zip(part.chunks_exact(last)) {
                c[i * d..][..i + 1].iter_mut().zip(part).for_each(|(c, x)| *c += x);
            }
        }
    }
    (0..d).for_each(|i| (0..i).for_each(|j| c[j * d + i] = c[i * d + j]));
}

fn syrk(table: &mut Table, n: usize, m: usize) -> Result<()> {
    let text = include_str!("../programs/syrk.iv");
    let Some(p) = Program::new(table, format!("syrk, {n} x {m}"), text, &["A", "C"]) else { return Ok(()) };
    let p = p.tensor("A", &[n, m], random(n * m, 351)).tensor("C", &[n, n], random(n * n, 352));
    let [a, c] = p.numbers();
    // Rows of a block, which is multiplied with the rows up to its last one.
    const BLOCK: usize = 48;
    p.compare(table, || -> Run<'_> {
        let (mut room, mut g, mut block) = (packed(m.max(n), n.max(m)), vec![0.0; n * n], vec![0.0; BLOCK * n]);
        Box::new(move |results| {
            let (mut sum, gradient) = (0.0, results.len() > 1);
            if gradient {
                results[2].fill(0.0);
            }
            for first in (0..n).step_by(BLOCK) {
                let rows = BLOCK.min(n - first);
                let last = first + rows;
                let (left, right) = (Matrix::new(&a[first * m..], m), Matrix::new(a, m).transposed());
                let block = &mut block[..rows * last];
                multiply(left, right, [rows, m, last], 0.0, block, &mut room);
                for (i, row) in (first..).zip(block.chunks_exact(last)) {
                    let mut square = Lanes::splat(0.0);
                    for (j, (product, c)) in row[..i + 1].chunks(8).zip(c[i * n..][..i + 1].chunks(8)).enumerate() {
                        let at = |x: &[f64], l: usize| if l < x.len() { x[l] } else { 0.0 };
                        let d = match (product.len(), c.len()) {
                            (8, 8) => Lanes::splat(0.5).fused(Lanes::load(c, 0), Lanes::load(product, 0)),
                            _ => Lanes::of(|l| 0.5 * at(c, l) + at(product, l)),
                        };
                        square = d.fused(d, square);
                        if gradient {
                            let (d, twice) = (d.array(), (d + d).array());
                            results[2][i * n + 8 * j..][..c.len()].copy_from_slice(&d[..c.len()]);
                            g[i * n + 8 * j..][..c.len()].copy_from_slice(&twice[..c.len()]);
                        }
                    }
                    sum += square.sum();
                }
            }
            results[0][0] = sum;
            if gradient {
                symmetrise(&mut g, n);
                multiply(Matrix::new(&g, n), Matrix::new(a, m), [n, n, m], 0.0, &mut results[1], &mut room);
            }
        })
    })
}

/// Adds a lower triangle to its transposed one.
fn symmetrise(g: &mut [f64], n: usize) {
    for i in 0..n {
        for j in 0..i {
            g[j * n + i] = g[i * n + j];
        }
        g[i * n + i] *= 2.0;
    }
}

fn trmm(table: &mut Table, m: usize, n: usize) -> Result<()> {
    let text = include_str!("../programs/trmm.iv");
    let Some(p) = Program::new(table, format!("trmm, {m} x {n}"), text, &["A", "B"]) else { return Ok(()) };
    let p = p.tensor("A", &[m, m], random(m * m, 361)).tensor("B", &[m, n], random(m * n, 362));
    let [a, b] = p.numbers();
    // The strict triangle is copied with zeros beside it, and its blocks that are zero are left out.
    const BLOCK: usize = 48;
    p.compare(table, || -> Run<'_> {
        let (mut room, mut c, mut lower) = (packed(m.max(n), n.max(m)), b.to_vec(), vec![0.0; m * m]);
        let mut part = vec![0.0; BLOCK * m];
        Box::new(move |results| {
            (0..m).for_each(|k| lower[k * m..][..k].copy_from_slice(&a[k * m..][..k]));
            c.copy_from_slice(b);
            for first in (0..m).step_by(BLOCK) {
                let (rows, inner) = (BLOCK.min(m - first), m - first);
                let left = Matrix { data: &lower[first * m + first..], row: 1, column: m };
                let right = Matrix::new(&b[first * n..], n);
                multiply(left, right, [rows, inner, n], 1.0, &mut c[first * n..][..rows * n], &mut room);
            }
            results[0][0] = dot(&c, &c);
            let [_, da, db] = results else { return };
            c.iter_mut().for_each(|c| *c *= 2.0);
            db.copy_from_slice(&c);
            for first in (0..m).step_by(BLOCK) {
                let rows = BLOCK.min(m - first);
                let last = first + rows;
                let left = Matrix::new(&lower[first * m..], m);
                let to = &mut db[first * n..][..rows * n];
                multiply(left, Matrix::new(&c, n), [rows, last, n], 1.0, to, &mut room);
                let part = &mut part[..rows * last];
                let (b, c) = (Matrix::new(&b[first * n..], n), Matrix::new(&c, n).transposed());
                multiply(b, c, [rows, n, last], 0.0, part, &mut room);
                for (k, row) in (first..).zip(part.chunks_exact(last)) {
                    da[k * m..][..k].copy_from_slice(&row[..k]);
                    da[k * m + k..][..m - k].fill(0.0);
                }
            }
        })
    })
}

fn symm(table: &mut Table, m: usize, n: usize) -> Result<()> {
    let text = include_str!("../programs/symm.iv");
    let Some(p) = Program::new(table, format!("symm, {m} x {n}"), text, &["A", "B"]) else { return Ok(()) };
    let p = p.tensor("A", &[m, m], random(m * m, 371)).tensor("B", &[m, n], random(m * n, 372));
    let [a, b] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let (mut room, mut c, mut s) = (packed(m.max(n), n.max(m)), vec![0.0; m * n], vec![0.0; m * m]);
        Box::new(move |results| {
            for i in 0..m {
                s[i * m..][..i + 1].copy_from_slice(&a[i * m..][..i + 1]);
                (0..i).for_each(|j| s[j * m + i] = a[i * m + j]);
            }
            multiply(Matrix::new(&s, m), Matrix::new(b, n), [m, m, n], 0.0, &mut c, &mut room);
            results[0][0] = dot(&c, &c);
            let [_, da, db] = results else { return };
            c.iter_mut().for_each(|c| *c *= 2.0);
            multiply(Matrix::new(&s, m), Matrix::new(&c, n), [m, m, n], 0.0, db, &mut room);
            multiply(Matrix::new(&c, n), Matrix::new(b, n).transposed(), [m, n, m], 0.0, &mut s, &mut room);
            for i in 0..m {
                (0..i).for_each(|j| da[i * m + j] = s[i * m + j] + s[j * m + i]);
                da[i * m + i] = s[i * m + i];
                da[i * m + i + 1..][..m - i - 1].fill(0.0);
            }
        })
    })
}

/// The means of the columns.
pub fn column_means(x: &[f64], d: usize, means: &mut [f64]) {
    means.fill(0.0);
    x.chunks_exact(d).for_each(|row| means.iter_mut().zip(row).for_each(|(mean, x)| *mean += x));
    means.iter_mut().for_each(|mean| *mean /= (x.len() / d) as f64);
}

fn covariance(table: &mut Table, n: usize, d: usize) -> Result<()> {
    let text = include_str!("../programs/covariance.iv");
    let Some(p) = Program::new(table, format!("covariance, {n} x {d}"), text, &["X"]) else { return Ok(()) };
    let p = p.tensor("X", &[n, d], random(n * d, 381)).tensor("T", &[d, d], random(d * d, 382));
    let [x, target] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let (mut room, mut c, mut part) = (packed(d.max(128), d), vec![0.0; n * d], vec![0.0; d * d]);
        let (mut mu, mut r, mut g) = (vec![0.0; d], vec![0.0; d * d], vec![0.0; d * d]);
        Box::new(move |results| {
            column_means(x, d, &mut mu);
            for (c, x) in c.chunks_exact_mut(d).zip(x.chunks_exact(d)) {
                c.iter_mut().zip(x).zip(&mu).for_each(|((c, x), mu)| *c = x - mu);
            }
            gram(&c, [n, d], &mut r, &mut part, &mut room);
            r.iter_mut().zip(target).for_each(|(r, t)| *r = *r / n as f64 - t);
            results[0][0] = dot(&r, &r);
            let [_, dx] = results else { return };
            // The columns of c have the mean 0, so those of its multiples have it too.
            for (i, j) in (0..d).flat_map(|i| (0..d).map(move |j| (i, j))) {
                g[i * d + j] = 2.0 / n as f64 * (r[i * d + j] + r[j * d + i]);
            }
            multiply(Matrix::new(&c, d), Matrix::new(&g, d), [n, d, d], 0.0, dx, &mut room);
        })
    })
}

fn correlation(table: &mut Table, n: usize, d: usize) -> Result<()> {
    let text = include_str!("../programs/correlation.iv");
    let Some(p) = Program::new(table, format!("correlation, {n} x {d}"), text, &["X"]) else { return Ok(()) };
    let p = p.tensor("X", &[n, d], random(n * d, 391)).tensor("T", &[d, d], random(d * d, 392));
    let [x, target] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let (mut room, mut z, mut part) = (packed(d.max(128), d), vec![0.0; n * d], vec![0.0; d * d]);
        let [mut mu, mut over, mut along_z] = [(); 3].map(|()| vec![0.0; d]);
        let (mut r, mut g) = (vec![0.0; d * d], vec![0.0; d * d]);
        Box::new(move |results| {
            column_means(x, d, &mut mu);
            over.fill(0.0);
            for x in x.chunks_exact(d) {
                over.iter_mut().zip(x).zip(&mu).for_each(|((s, x), mu)| *s += (x - mu) * (x - mu));
            }
            over.iter_mut().for_each(|s| *s = 1.0 / s.sqrt());
            for (z, x) in z.chunks_exact_mut(d).zip(x.chunks_exact(d)) {
                z.iter_mut().zip(x).zip(mu.iter().zip(&over)).for_each(|((z, x), (mu, over))| *z = (x - mu) * over);
            }
            gram(&z, [n, d], &mut r, &mut part, &mut room);
            g.copy_from_slice(&r);
            r.iter_mut().zip(target).for_each(|(r, t)| *r -= t);
            results[0][0] = dot(&r, &r);
            let [_, dx] = results else { return };
            // dZ = Z G with G = 2 (R + R'), and the product of the columns of Z and dZ is the diagonal of Z'Z G.
            along_z.fill(0.0);
            for i in 0..d {
                for j in 0..d {
                    let both = 2.0 * (r[i * d + j] + r[j * d + i]);
                    along_z[j] += g[j * d + i] * both;
                }
            }
            for (i, j) in (0..d).flat_map(|i| (0..d).map(move |j| (i, j))) {
                let own = if i == j { along_z[j] } else { 0.0 };
                g[i * d + j] = (2.0 * (r[i * d + j] + r[j * d + i]) - own) * over[j];
            }
            multiply(Matrix::new(&z, d), Matrix::new(&g, d), [n, d, d], 0.0, dx, &mut room);
        })
    })
}

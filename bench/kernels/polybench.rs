//! Products with vectors and stencils of PolyBench, with a sum of squares on top.

use crate::harness::{Run, Table, random};
use crate::program::Program;
use crate::simd::{Lanes, dot, each, mapped};
use crate::stencils::{shifted, sum};
use iverson::Result;

pub fn run(table: &mut Table) -> Result<()> {
    for n in [320, 1280] {
        gemver(table, n)?;
        atax(table, n)?;
        bicg(table, n)?;
        mvt(table, n)?;
        gesummv(table, n)?;
    }
    for n in [160, 960] {
        jacobi(table, n)?;
    }
    heat(table, 40)?;
    heat(table, 96)
}

/// The products of four rows with a vector, whose length is a multiple of 8.
#[inline(always)]
pub fn dots(rows: [&[f64]; 4], x: &[f64]) -> [f64; 4] {
    let mut sums = [Lanes::splat(0.0); 4];
    for at in (0..x.len()).step_by(8) {
        let x = Lanes::load(x, at);
        sums.iter_mut().zip(rows).for_each(|(sum, row)| *sum = Lanes::load(row, at).fused(x, *sum));
    }
    mapped(sums, Lanes::sum)
}

/// Adds multiples of four rows to a vector.
#[inline(always)]
pub fn add_rows(s: [f64; 4], rows: [&[f64]; 4], y: &mut [f64]) {
    let rows = mapped(rows, |row| &row[..y.len()]);
    for (j, y) in y.iter_mut().enumerate() {
        let low = s[0].mul_add(rows[0][j], s[1].mul_add(rows[1][j], *y));
        *y = s[2].mul_add(rows[2][j], s[3].mul_add(rows[3][j], low));
    }
}

/// Calls `found` with each four rows of a matrix; the number of rows is a multiple of 4.
#[inline(always)]
pub fn fours(a: &[f64], n: usize, mut found: impl FnMut(usize, [&[f64]; 4])) {
    for (block, rows) in a.chunks_exact(4 * n).enumerate() {
        found(4 * block, each(|r| &rows[r * n..][..n]));
    }
}

/// `c[i, :] = s[i] x + t[i] y` for rows from `first` on.
#[inline(always)]
fn outer_rows(c: &mut [f64], first: usize, [s, t]: [&[f64]; 2], [x, y]: [&[f64]; 2]) {
    let n = x.len();
    for i in first..first + 4 {
        let (s, t) = (s[i], t[i]);
        c[i * n..][..n].iter_mut().zip(x).zip(y).for_each(|((c, x), y)| *c = s.mul_add(*x, t * y));
    }
}

#[inline(always)]
fn four(x: &[f64], at: usize) -> [f64; 4] {
    *x[at..].first_chunk().expect("four numbers")
}

fn gemver(table: &mut Table, n: usize) -> Result<()> {
    let names = ["A", "u1", "v1", "u2", "v2", "y", "z"];
    let text = include_str!("../programs/gemver.iv");
    let Some(p) = Program::new(table, format!("gemver, n = {n}"), text, &names) else { return Ok(()) };
    let p = names[1..]
        .iter()
        .zip(302..)
        .fold(p.tensor("A", &[n, n], random(n * n, 301)), |p, (name, seed)| p.tensor(name, &[n], random(n, seed)));
    let [a, u1, v1, u2, v2, y, z] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let mut room = [(); 4].map(|()| vec![0.0; n]);
        Box::new(move |results| {
            let [x, w, gx, gw] = &mut room;
            x.fill(0.0);
            fours(a, n, |i, rows| add_rows(four(y, i), rows, x));
            let (s1, s2) = (dot(u1, y), dot(u2, y));
            (0..n).for_each(|j| x[j] = 1.2 * (x[j] + s1 * v1[j] + s2 * v2[j]) + z[j]);
            let (t1, t2) = (dot(v1, x), dot(v2, x));
            let [value, da, du1, dv1, du2, dv2, dy, dz] = results else {
                fours(a, n, |i, rows| w[i..i + 4].copy_from_slice(&dots(rows, x)));
                (0..n).for_each(|i| w[i] = 1.5 * (w[i] + t1 * u1[i] + t2 * u2[i]));
                results[0][0] = dot(w, w);
                return;
            };
            // Rows are read once for w and for what w gives to x.
            gx.fill(0.0);
            fours(a, n, |i, rows| {
                let of_row = dots(rows, x);
                for (r, product) in of_row.into_iter().enumerate() {
                    w[i + r] = 1.5 * (product + t1 * u1[i + r] + t2 * u2[i + r]);
                    gw[i + r] = 3.0 * w[i + r];
                }
                add_rows(four(gw, i), rows, gx);
            });
            value[0] = dot(w, w);
            let (r1, r2) = (dot(u1, gw), dot(u2, gw));
            (0..n).for_each(|j| dz[j] = gx[j] + r1 * v1[j] + r2 * v2[j]);
            gx.iter_mut().zip(&*dz).for_each(|(g, dz)| *g = 1.2 * dz);
            let (q1, q2) = (dot(v1, gx), dot(v2, gx));
            fours(a, n, |i, rows| {
                dy[i..i + 4].copy_from_slice(&dots(rows, gx));
                outer_rows(da, i, [gw, y], [x, gx]);
            });
            for i in 0..n {
                dy[i] += q1 * u1[i] + q2 * u2[i];
                du1[i] = gw[i] * t1 + y[i] * q1;
                du2[i] = gw[i] * t2 + y[i] * q2;
                dv1[i] = x[i] * r1 + gx[i] * s1;
                dv2[i] = x[i] * r2 + gx[i] * s2;
            }
        })
    })
}

fn atax(table: &mut Table, n: usize) -> Result<()> {
    let text = include_str!("../programs/atax.iv");
    let Some(p) = Program::new(table, format!("atax, n = {n}"), text, &["A", "x"]) else { return Ok(()) };
    let p = p.tensor("A", &[n, n], random(n * n, 311)).tensor("x", &[n], random(n, 312));
    let [a, x] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let mut room = [(); 3].map(|()| vec![0.0; n]);
        Box::new(move |results| {
            let [y, z, gy] = &mut room;
            z.fill(0.0);
            fours(a, n, |i, rows| {
                let products = dots(rows, x);
                y[i..i + 4].copy_from_slice(&products);
                add_rows(products, rows, z);
            });
            results[0][0] = dot(z, z);
            let [_, da, dx] = results else { return };
            z.iter_mut().for_each(|z| *z *= 2.0);
            dx.fill(0.0);
            fours(a, n, |i, rows| {
                let products = dots(rows, z);
                gy[i..i + 4].copy_from_slice(&products);
                add_rows(products, rows, dx);
                outer_rows(da, i, [y, gy], [z, x]);
            });
        })
    })
}

fn bicg(table: &mut Table, n: usize) -> Result<()> {
    let text = include_str!("../programs/bicg.iv");
    let Some(p) = Program::new(table, format!("bicg, n = {n}"), text, &["A", "p", "r"]) else { return Ok(()) };
    let p =
        p.tensor("A", &[n, n], random(n * n, 315)).tensor("p", &[n], random(n, 316)).tensor("r", &[n], random(n, 317));
    let [a, p_vector, r] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let mut room = [(); 2].map(|()| vec![0.0; n]);
        Box::new(move |results| {
            let [s, q] = &mut room;
            s.fill(0.0);
            fours(a, n, |i, rows| {
                q[i..i + 4].copy_from_slice(&dots(rows, p_vector));
                add_rows(four(r, i), rows, s);
            });
            results[0][0] = dot(s, s) + dot(q, q);
            let [_, da, dp, dr] = results else { return };
            s.iter_mut().for_each(|s| *s *= 2.0);
            q.iter_mut().for_each(|q| *q *= 2.0);
            dp.fill(0.0);
            fours(a, n, |i, rows| {
                dr[i..i + 4].copy_from_slice(&dots(rows, s));
                add_rows(four(q, i), rows, dp);
                outer_rows(da, i, [r, q], [s, p_vector]);
            });
        })
    })
}

fn mvt(table: &mut Table, n: usize) -> Result<()> {
    let text = include_str!("../programs/mvt.iv");
    let wrt = &["A", "x1", "x2", "y1", "y2"];
    let Some(p) = Program::new(table, format!("mvt, n = {n}"), text, wrt) else { return Ok(()) };
    let p = wrt[1..]
        .iter()
        .zip(322..)
        .fold(p.tensor("A", &[n, n], random(n * n, 321)), |p, (name, seed)| p.tensor(name, &[n], random(n, seed)));
    let [a, x1, x2, y1, y2] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let mut room = [(); 2].map(|()| vec![0.0; n]);
        Box::new(move |results| {
            let [r1, r2] = &mut room;
            r2.copy_from_slice(x2);
            fours(a, n, |i, rows| {
                let products = dots(rows, y1);
                (0..4).for_each(|r| r1[i + r] = x1[i + r] + products[r]);
                add_rows(four(y2, i), rows, r2);
            });
            results[0][0] = dot(r1, r1) + dot(r2, r2);
            let [_, da, dx1, dx2, dy1, dy2] = results else { return };
            dx1.iter_mut().zip(&*r1).for_each(|(d, r)| *d = 2.0 * r);
            dx2.iter_mut().zip(&*r2).for_each(|(d, r)| *d = 2.0 * r);
            dy1.fill(0.0);
            fours(a, n, |i, rows| {
                dy2[i..i + 4].copy_from_slice(&dots(rows, dx2));
                add_rows(four(dx1, i), rows, dy1);
                outer_rows(da, i, [dx1, y2], [y1, dx2]);
            });
        })
    })
}

fn gesummv(table: &mut Table, n: usize) -> Result<()> {
    let text = include_str!("../programs/gesummv.iv");
    let wrt = &["A", "B", "x", "alpha", "beta"];
    let Some(p) = Program::new(table, format!("gesummv, n = {n}"), text, wrt) else { return Ok(()) };
    let p = p
        .tensor("A", &[n, n], random(n * n, 331))
        .tensor("B", &[n, n], random(n * n, 332))
        .tensor("x", &[n], random(n, 333))
        .tensor("alpha", &[], vec![1.5])
        .tensor("beta", &[], vec![1.2]);
    let [a, b, x, alpha, beta] = p.numbers();
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let (alpha, beta) = (alpha[0], beta[0]);
            let [value, da, db, dx, dalpha, dbeta] = results else {
                let mut sum = 0.0;
                fours(a, n, |i, rows| {
                    let others = each(|r| &b[(i + r) * n..][..n]);
                    let (one, two) = (dots(rows, x), dots(others, x));
                    sum += (0..4).map(|r| (alpha * one[r] + beta * two[r]).powi(2)).sum::<f64>();
                });
                results[0][0] = sum;
                return;
            };
            let mut sums = [0.0; 3];
            dx.fill(0.0);
            fours(a, n, |i, rows| {
                let others = each(|r| &b[(i + r) * n..][..n]);
                let (one, two) = (dots(rows, x), dots(others, x));
                let y: [f64; 4] = each(|r| alpha * one[r] + beta * two[r]);
                for r in 0..4 {
                    sums[0] += y[r] * y[r];
                    sums[1] += 2.0 * y[r] * one[r];
                    sums[2] += 2.0 * y[r] * two[r];
                    let (s, t) = (2.0 * alpha * y[r], 2.0 * beta * y[r]);
                    da[(i + r) * n..][..n].iter_mut().zip(x).for_each(|(d, x)| *d = s * x);
                    db[(i + r) * n..][..n].iter_mut().zip(x).for_each(|(d, x)| *d = t * x);
                }
                add_rows(y.map(|y| 2.0 * alpha * y), rows, dx);
                add_rows(y.map(|y| 2.0 * beta * y), others, dx);
            });
            [value[0], dalpha[0], dbeta[0]] = sums;
        })
    })
}

/// `y[j] = 0.2 (x[1][j] + x[1][j - 1] + x[1][j + 1] + x[0][j] + x[2][j])` for rows that begin one place before those of `y`.
#[inline(always)]
fn cross(x: [&[f64]; 3], y: &mut [f64]) {
    let n = y.len();
    let ([left, own, right], up, down) = (shifted(x[1], n), &x[0][1..][..n], &x[2][1..][..n]);
    for j in 0..n {
        y[j] = 0.2 * ((own[j] + left[j]) + (right[j] + up[j]) + down[j]);
    }
}

fn jacobi(table: &mut Table, n: usize) -> Result<()> {
    let text = include_str!("../programs/jacobi_2d.iv");
    let Some(p) = Program::new(table, format!("jacobi-2d, two steps, n = {n}"), text, &["A"]) else { return Ok(()) };
    let (w, v) = (n + 4, n + 2);
    let p = p.tensor("A", &[w, w], random(w * w, 395));
    let [a] = p.numbers();
    // Three rows of the first step, and three of each adjoint with a margin of zeros, are all that is kept.
    p.compare(table, || -> Run<'_> {
        let mut b = vec![0.0; 3 * v];
        let (mut c, mut db) = (vec![0.0; 3 * (n + 4)], vec![0.0; 3 * (v + 4)]);
        Box::new(move |results| {
            let (mut sum, gradient) = (0.0, results.len() > 1);
            c.fill(0.0);
            db.fill(0.0);
            let row_of_a = |i: usize| &a[i * w..][..w];
            // Row i of the second step, row i - 1 of the adjoint of the first one, and row i - 2 of that of A, as soon as they are known.
            for i in 0..n + 4 {
                if i < n + 2 {
                    cross([row_of_a(i), row_of_a(i + 1), row_of_a(i + 2)], &mut b[i % 3 * v..][..v]);
                }
                // Row i - 2 of the second step.
                if i >= 2 {
                    let row = &mut c[i % 3 * (n + 4)..][..n + 4];
                    match i < n + 2 {
                        true => {
                            let b = |i: usize| &b[i % 3 * v..][..v];
                            cross([b(i - 2), b(i - 1), b(i)], &mut row[2..n + 2]);
                            sum += dot(&row[2..n + 2], &row[2..n + 2]);
                        }
                        false => row.fill(0.0),
                    }
                }
                if !gradient {
                    continue;
                }
                // Row i - 2 of db is made of rows i - 4 to i - 2 of c; row i - 4 + .. of dA of rows of db.
                if i >= 2 {
                    let at = |k: usize| &c[k % 3 * (n + 4)..][..n + 4];
                    let row = &mut db[i % 3 * (v + 4)..][2..v + 2];
                    cross([at(i + 1), at(i + 2), at(i)], row);
                }
                if i >= 2 {
                    let at = |k: usize| &db[k % 3 * (v + 4)..][..v + 4];
                    let da = &mut results[1][(i - 2) * w..][..w];
                    cross([at(i + 1), at(i + 2), at(i)], da);
                    da.iter_mut().for_each(|x| *x *= 2.0);
                }
            }
            if gradient {
                last_rows(&mut db, &mut results[1], [n, w, v]);
            }
            results[0][0] = sum;
        })
    })
}

/// The last two rows of the adjoint of A, of which the rows of `db` that follow are zero.
fn last_rows(db: &mut [f64], da: &mut [f64], [n, w, v]: [usize; 3]) {
    for i in n + 4..n + 6 {
        db[i % 3 * (v + 4)..][..v + 4].fill(0.0);
        let at = |k: usize| &db[k % 3 * (v + 4)..][..v + 4];
        let da = &mut da[(i - 2) * w..][..w];
        cross([at(i + 1), at(i + 2), at(i)], da);
        da.iter_mut().for_each(|x| *x *= 2.0);
    }
}

fn heat(table: &mut Table, n: usize) -> Result<()> {
    let text = include_str!("../programs/heat_3d.iv");
    let Some(p) = Program::new(table, format!("heat-3d, n = {n}"), text, &["A"]) else { return Ok(()) };
    let w = n + 2;
    let p = p.tensor("A", &[w, w, w], random(w * w * w, 396));
    let [a] = p.numbers();
    // A stencil on one row; it is its own adjoint.
    let stencil = |x: &[f64], at: usize, y: &mut [f64], squares: &mut [f64]| {
        let n = y.len();
        let squares = &mut squares[..n];
        let [m, l, r, d, u, b, f] =
            [at, at - 1, at + 1, at - w, at + w, at - w * w, at + w * w].map(|first| &x[first..][..n]);
        for k in 0..n {
            y[k] = 0.25f64.mul_add(m[k], 0.125 * (((l[k] + r[k]) + (d[k] + u[k])) + (b[k] + f[k])));
            squares[k] = y[k].mul_add(y[k], squares[k]);
        }
    };
    p.compare(table, || -> Run<'_> {
        // The residual with a margin of two, so that its adjoint needs no case.
        let side = n + 4;
        let (mut row, mut squares, mut g) = (vec![0.0; n], vec![0.0; n], vec![0.0; side * side * side]);
        Box::new(move |results| {
            squares.fill(0.0);
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let to = match results.len() {
                    1 => &mut row[..],
                    _ => &mut g[((i + 2) * side + j + 2) * side + 2..][..n],
                };
                stencil(a, ((i + 1) * w + j + 1) * w + 1, to, &mut squares);
            }
            results[0][0] = sum(&squares);
            let [_, da] = results else { return };
            for (i, j) in (0..w).flat_map(|i| (0..w).map(move |j| (i, j))) {
                adjoint_of_heat(&g, side, [i + 1, j + 1], &mut da[(i * w + j) * w..][..w]);
            }
        })
    })
}

/// Twice the stencil on a row of the residual with its margin.
#[inline(always)]
fn adjoint_of_heat(g: &[f64], side: usize, [i, j]: [usize; 2], y: &mut [f64]) {
    let (n, at) = (y.len(), (i * side + j) * side + 1);
    let [m, l, r, d, u, b, f] =
        [at, at - 1, at + 1, at - side, at + side, at - side * side, at + side * side].map(|first| &g[first..][..n]);
    for k in 0..n {
        y[k] = 0.5f64.mul_add(m[k], 0.25 * (((l[k] + r[k]) + (d[k] + u[k])) + (b[k] + f[k])));
    }
}

//! Filters of pictures.

use iverson::Result;
use iverson::ir::codegen::vector;

use crate::harness::{Run, Table, random};
use crate::program::{Program, positive};
use crate::simd::{Lanes, dot, each, mapped};
use crate::stencils::{shifted, sum};

pub fn run(table: &mut Table) -> Result<()> {
    horn_schunck(table, 128)?;
    horn_schunck(table, 704)?;
    bilateral(table, 32)?;
    bilateral(table, 128)?;
    local_contrast(table, 96)?;
    local_contrast(table, 512)
}

fn horn_schunck(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("optical flow, {n} x {n}"), include_str!("../programs/horn_schunck.iv"));
    let Some(p) = Program::new(table, name, text, &["u", "v"]) else { return Ok(()) };
    let w = n + 1;
    let p = p
        .tensor("u", &[w, w], random(w * w, 441))
        .tensor("v", &[w, w], random(w * w, 442))
        .tensor("ix", &[n, n], random(n * n, 443))
        .tensor("iy", &[n, n], random(n * n, 444))
        .tensor("it", &[n, n], random(n * n, 445))
        .tensor("alpha", &[], vec![0.3]);
    let [u, v, ix, iy, it, alpha] = p.numbers();
    // The squares of the differences of a row, and what they add to the gradient of this row and of the next one.
    let smooth = |x: &[f64], i: usize, alpha: f64, squares: &mut [f64], gradient: Option<(&mut [f64], &mut [f64])>| {
        let [own, right, next] = [i * w, i * w + 1, (i + 1) * w].map(|first| &x[first..][..n]);
        let squares = &mut squares[..n];
        for j in 0..n {
            let (d, e) = (next[j] - own[j], right[j] - own[j]);
            squares[j] = e.mul_add(e, d.mul_add(d, squares[j]));
        }
        let Some((dx, below)) = gradient else { return };
        let (dx, below) = (&mut dx[i * w..(i + 2) * w], &mut below[..w]);
        let (to_own, to_next) = dx.split_at_mut(w);
        let s = 2.0 * alpha;
        (below[0], to_next[n]) = (0.0, 0.0);
        let (ahead, to, to_next) = (&mut below[1..][..n], &mut to_own[..n], &mut to_next[..n]);
        for j in 0..n {
            let (d, e) = (s * (next[j] - own[j]), s * (right[j] - own[j]));
            to_next[j] = d;
            to[j] -= d + e;
            ahead[j] = e;
        }
        to_own.iter_mut().zip(below).for_each(|(x, e)| *x += *e);
    };
    p.compare(table, || -> Run<'_> {
        let (mut below, mut squares, mut r) = (vec![0.0; w], vec![0.0; n], vec![0.0; n]);
        Box::new(move |results| {
            let (alpha, mut data) = (alpha[0], 0.0);
            squares.fill(0.0);
            if let [_, du, dv] = results {
                du[..w].fill(0.0);
                dv[..w].fill(0.0);
            }
            for i in 0..n {
                let [ix, iy, it] = [ix, iy, it].map(|x| &x[i * n..][..n]);
                let (u_row, v_row) = (&u[i * w..][..n], &v[i * w..][..n]);
                let r = &mut r[..n];
                (0..n).for_each(|j| r[j] = ix[j].mul_add(u_row[j], iy[j].mul_add(v_row[j], it[j])));
                data += dot(r, r);
                let [_, du, dv] = results else {
                    smooth(u, i, alpha, &mut squares, None);
                    smooth(v, i, alpha, &mut squares, None);
                    continue;
                };
                smooth(u, i, alpha, &mut squares, Some((du, &mut below)));
                smooth(v, i, alpha, &mut squares, Some((dv, &mut below)));
                let (du, dv) = (&mut du[i * w..][..n], &mut dv[i * w..][..n]);
                for j in 0..n {
                    du[j] = (2.0 * r[j]).mul_add(ix[j], du[j]);
                    dv[j] = (2.0 * r[j]).mul_add(iy[j], dv[j]);
                }
            }
            results[0][0] = data + alpha * sum(&squares);
        })
    })
}

fn bilateral(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("bilateral filter, {n} x {n}"), include_str!("../programs/bilateral.iv"));
    let Some(p) = Program::new(table, name, text, &["x", "sharp"]) else { return Ok(()) };
    let w = n + 6;
    let p = p.tensor("x", &[w, w], positive(w * w, 451)).tensor("y", &[n, n], positive(n * n, 452)).tensor(
        "sharp",
        &[],
        vec![3.0],
    );
    let [x, y, sharp] = p.numbers();
    let places = || (0..7).flat_map(|a| (0..7).map(move |b| (a, b)));
    p.compare(table, || -> Run<'_> {
        // The weights of a row of pixels, place by place in the window, eight pixels at a time; n is a multiple of 8.
        let (mut weights, mut over, mut fit, mut to_centre) =
            (vec![0.0; 49 * n], vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        Box::new(move |results| {
            let (s, mut square, mut to_sharp) = (Lanes::splat(-sharp[0]), Lanes::splat(0.0), Lanes::splat(0.0));
            if let [_, dx, _] = results {
                dx.fill(0.0);
            }
            for i in 0..n {
                let centre = &x[(i + 3) * w + 3..][..n];
                for j in (0..n).step_by(8) {
                    let (mut total, mut mean, c) = (Lanes::splat(0.0), Lanes::splat(0.0), Lanes::load(centre, j));
                    for (place, (a, b)) in places().enumerate() {
                        let far = ((a as f64 - 3.0).powi(2) + (b as f64 - 3.0).powi(2)) / 18.0;
                        let x = Lanes::load(x, (i + a) * w + j + b);
                        let d = x - c;
                        let e = (d * d).fused(s, Lanes::splat(-far)).map(vector::exp);
                        total += e;
                        mean = e.fused(x, mean);
                        if results.len() > 1 {
                            e.store(&mut weights, place * n + j);
                        }
                    }
                    let one_over = Lanes::splat(1.0) / total;
                    let z = mean * one_over;
                    let r = z - Lanes::load(y, i * n + j);
                    square = r.fused(r, square);
                    ((r + r) * one_over).store(&mut over, j);
                    z.store(&mut fit, j);
                }
                let [_, dx, _] = results else { continue };
                to_centre.fill(0.0);
                for (place, (a, b)) in places().enumerate() {
                    let weights = &weights[place * n..][..n];
                    let (at, row) = ((i + a) * w + b, &x[(i + a) * w + b..][..n]);
                    for j in (0..n).step_by(8) {
                        let x = Lanes::load(row, j);
                        let d = x - Lanes::load(centre, j);
                        let e = Lanes::load(weights, j) * Lanes::load(&over, j);
                        let by_exponent = e * (x - Lanes::load(&fit, j)) * d;
                        to_sharp = by_exponent.fused(d, to_sharp);
                        let slope = (s + s) * by_exponent;
                        (Lanes::load(dx, at + j) + e + slope).store(dx, at + j);
                        (Lanes::load(&to_centre, j) - slope).store(&mut to_centre, j);
                    }
                }
                let dx = &mut dx[(i + 3) * w + 3..][..n];
                dx.iter_mut().zip(&to_centre).for_each(|(dx, t)| *dx += t);
            }
            results[0][0] = square.sum();
            if let [_, _, dsharp] = results {
                dsharp[0] = -to_sharp.sum();
            }
        })
    })
}

fn local_contrast(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("local contrast, {n} x {n}"), include_str!("../programs/local_contrast.iv"));
    let Some(p) = Program::new(table, name, text, &["x"]) else { return Ok(()) };
    let w = n + 4;
    let p = p.tensor("x", &[w, w], random(w * w, 461)).tensor("y", &[n, n], random(n * n, 462));
    let [x, y] = p.numbers();
    // Windows are summed along columns, then along rows; what each row of pixels gives to the sums lies with a margin of 4 around it.
    let side = n + 8;
    p.compare(table, || -> Run<'_> {
        let (mut one, mut two, mut r) = (vec![0.0; side], vec![0.0; side], vec![0.0; n]);
        let [mut to_mean, mut to_square] = [(); 2].map(|()| vec![0.0; side * side]);
        let mut to_centre = vec![0.0; n * n];
        Box::new(move |results| {
            let (mut square, gradient) = (0.0, results.len() > 1);
            for i in 0..n {
                let rows: [&[f64]; 5] = each(|a| &x[(i + a) * w..][..w]);
                let (one, two) = (&mut one[..w], &mut two[..w]);
                for j in 0..w {
                    let x = mapped(rows, |row| row[j]);
                    one[j] = ((x[0] + x[1]) + (x[2] + x[3])) + x[4];
                    let low = x[0].mul_add(x[0], x[1].mul_add(x[1], x[2] * x[2]));
                    two[j] = x[3].mul_add(x[3], x[4].mul_add(x[4], low));
                }
                let (one, two, y, c) =
                    (shifted::<5>(one, n), shifted::<5>(two, n), &y[i * n..][..n], &rows[2][2..][..n]);
                let five = |x: [&[f64]; 5], j: usize| ((x[0][j] + x[1][j]) + (x[2][j] + x[3][j])) + x[4][j];
                let r = &mut r[..n];
                if !gradient {
                    for j in 0..n {
                        let mu = five(one, j) * 0.04;
                        let v = mu.mul_add(-mu, five(two, j) * 0.04) + 0.1;
                        r[j] = (c[j] - mu) / v.sqrt() - y[j];
                    }
                    square += dot(r, r);
                    continue;
                }
                let at = (i + 4) * side + 4;
                let (to_mean, to_square) = (&mut to_mean[at..][..n], &mut to_square[at..][..n]);
                let to_centre = &mut to_centre[i * n..][..n];
                for j in 0..n {
                    let mu = five(one, j) * 0.04;
                    let v = mu.mul_add(-mu, five(two, j) * 0.04) + 0.1;
                    let over = 1.0 / v.sqrt();
                    let z = (c[j] - mu) * over;
                    r[j] = z - y[j];
                    let g = 2.0 * r[j];
                    let dv = -0.5 * g * z * over * over;
                    to_centre[j] = g * over;
                    to_mean[j] = -0.04 * (g * over + 2.0 * dv * mu);
                    to_square[j] = 0.08 * dv;
                }
                square += dot(r, r);
            }
            results[0][0] = square;
            let [_, dx] = results else { return };
            for i in 0..w {
                let column = |x: &[f64], sums: &mut [f64]| {
                    let rows: [&[f64]; 5] = each(|a| &x[(i + a) * side..][..side]);
                    let sums = &mut sums[..side];
                    (0..side).for_each(|j| {
                        sums[j] = ((rows[0][j] + rows[1][j]) + (rows[2][j] + rows[3][j])) + rows[4][j];
                    });
                };
                column(&to_mean, &mut one);
                column(&to_square, &mut two);
                let (dx, x) = (&mut dx[i * w..][..w], &x[i * w..][..w]);
                let five = |x: [&[f64]; 5], j: usize| ((x[0][j] + x[1][j]) + (x[2][j] + x[3][j])) + x[4][j];
                let (one, two) = (shifted(&one, w), shifted(&two, w));
                (0..w).for_each(|j| dx[j] = x[j].mul_add(five(two, j), five(one, j)));
                if (2..n + 2).contains(&i) {
                    dx[2..n + 2].iter_mut().zip(&to_centre[(i - 2) * n..]).for_each(|(dx, t)| *dx += t);
                }
            }
        })
    })
}

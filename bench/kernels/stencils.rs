//! Stencils on grids: residuals of differential equations, and total variation.

use crate::harness::{Run, Table, random};
use crate::program::{Program, positive};
use crate::simd::{Lanes, dot, each, mapped};
use iverson::Result;

pub fn run(table: &mut Table) -> Result<()> {
    total_variation(table, 24)?;
    total_variation(table, 88)?;
    for n in [128, 704] {
        gray_scott(table, n)?;
        wave(table, n)?;
        poisson(table, n)?;
    }
    Ok(())
}

/// The sum of numbers.
#[inline(always)]
pub fn sum(x: &[f64]) -> f64 {
    let blocks = x.chunks_exact(32);
    let rest: f64 = blocks.remainder().iter().sum();
    let mut sums = [Lanes::splat(0.0); 4];
    for x in blocks {
        sums.iter_mut().enumerate().for_each(|(c, sum)| *sum += Lanes::load(x, 8 * c));
    }
    ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum() + rest
}

/// The numbers of a row from each of its first places on, as many as there are in a row of the result.
#[inline(always)]
pub fn shifted<const S: usize>(x: &[f64], n: usize) -> [&[f64]; S] {
    each(|s| &x[s..][..n])
}

/// Three rows that are kept, of all rows in turn.
struct Rows {
    data: Vec<f64>,
    width: usize,
}

impl Rows {
    fn new(width: usize) -> Rows {
        Rows { data: vec![0.0; 3 * width], width }
    }

    fn at(&self, i: usize) -> &[f64] {
        &self.data[i % 3 * self.width..][..self.width]
    }

    fn at_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.data[i % 3 * self.width..][..self.width]
    }
}

fn total_variation(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("total variation, {n}^3"), include_str!("../programs/total_variation_3d.iv"));
    let Some(p) = Program::new(table, name, text, &["u"]) else { return Ok(()) };
    let w = n + 1;
    let p = p.tensor("u", &[w; 3], random(w * w * w, 401)).tensor("z", &[w; 3], random(w * w * w, 402));
    let [u, z] = p.numbers();
    let plane = w * w;
    p.compare(table, || -> Run<'_> {
        let (mut lengths, mut ahead) = (vec![0.0; n], vec![0.0; w]);
        Box::new(move |results| {
            let (mut tv, mut fit) = (0.0, 0.0);
            let gradient = results.len() > 1;
            for i in 0..w {
                let (u_plane, z_plane) = (&u[i * plane..][..plane], &z[i * plane..][..plane]);
                fit += squares(u_plane, z_plane);
            }
            if gradient {
                difference(&u[..plane], &z[..plane], &mut results[1][..plane]);
            }
            for i in 0..n {
                if gradient {
                    let next = (i + 1) * plane..(i + 2) * plane;
                    difference(&u[next.clone()], &z[next.clone()], &mut results[1][next]);
                }
                for j in 0..n {
                    let at = i * plane + j * w;
                    let [c, x, y, z] = [at, at + plane, at + w, at + 1].map(|first| &u[first..][..n]);
                    let lengths = &mut lengths[..n];
                    for k in 0..n {
                        let d = [x[k] - c[k], y[k] - c[k], z[k] - c[k]];
                        lengths[k] = d[0].mul_add(d[0], d[1].mul_add(d[1], d[2].mul_add(d[2], 1e-6))).sqrt();
                    }
                    tv += sum(lengths);
                    if !gradient {
                        continue;
                    }
                    let (before, after) = results[1].split_at_mut(at + plane);
                    let (own, below) = before[at..].split_at_mut(w);
                    let (to_own, below, beyond, next) =
                        (&mut own[..n], &mut below[..n], &mut after[..n], &mut ahead[1..][..n]);
                    for k in 0..n {
                        let s = 0.1 / lengths[k];
                        let d = [s * (x[k] - c[k]), s * (y[k] - c[k]), s * (z[k] - c[k])];
                        beyond[k] += d[0];
                        below[k] += d[1];
                        to_own[k] -= d[0] + d[1] + d[2];
                        next[k] = d[2];
                    }
                    own.iter_mut().zip(&ahead).for_each(|(own, d)| *own += d);
                }
            }
            results[0][0] = 0.1 * tv + 0.5 * fit;
        })
    })
}

fn squares(x: &[f64], y: &[f64]) -> f64 {
    let blocks = x.len() / 16 * 16;
    let mut sums = [Lanes::splat(0.0); 2];
    for at in (0..blocks).step_by(16) {
        for (c, sum) in sums.iter_mut().enumerate() {
            let d = Lanes::load(x, at + 8 * c) - Lanes::load(y, at + 8 * c);
            *sum = d.fused(d, *sum);
        }
    }
    (sums[0] + sums[1]).sum() + x[blocks..].iter().zip(&y[blocks..]).map(|(x, y)| (x - y).powi(2)).sum::<f64>()
}

fn difference(x: &[f64], y: &[f64], d: &mut [f64]) {
    d.iter_mut().zip(x).zip(y).for_each(|((d, x), y)| *d = x - y);
}

fn gray_scott(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("Gray-Scott residual, {n} x {n}"), include_str!("../programs/gray_scott.iv"));
    let Some(p) = Program::new(table, name, text, &["u", "v", "feed", "kill"]) else { return Ok(()) };
    let w = n + 2;
    let p = p
        .tensor("u", &[w, w], positive(w * w, 411))
        .tensor("v", &[w, w], positive(w * w, 412))
        .tensor("u0", &[n, n], positive(n * n, 413))
        .tensor("v0", &[n, n], positive(n * n, 414))
        .tensor("feed", &[], vec![0.035])
        .tensor("kill", &[], vec![0.06]);
    let [u, v, u0, v0, feed, kill] = p.numbers();
    p.compare(table, || -> Run<'_> {
        // Rows of residuals begin two places after those of the grid.
        let (mut ru, mut rv) = (Rows::new(n + 4), Rows::new(n + 4));
        let (mut to_feed, mut to_kill) = (vec![0.0; n], vec![0.0; n]);
        Box::new(move |results| {
            let (feed, kill) = (feed[0], kill[0]);
            ru.data.fill(0.0);
            rv.data.fill(0.0);
            let (mut square, gradient) = (0.0, results.len() > 1);
            to_feed.fill(0.0);
            to_kill.fill(0.0);
            for i in 0..w {
                let (a, b) = (&mut ru.at_mut(i)[2..n + 2], &mut rv.at_mut(i)[2..n + 2]);
                if i < n {
                    let [[u_up, u_down], [v_up, v_down]] = [u, v].map(|x| [0, 2].map(|k| &x[(i + k) * w + 1..][..n]));
                    let [[ul, u, ur], [vl, v, vr]] = [u, v].map(|x| shifted(&x[(i + 1) * w..], n));
                    let (u0, v0) = (&u0[i * n..][..n], &v0[i * n..][..n]);
                    for j in 0..n {
                        let (uc, vc) = (u[j], v[j]);
                        let lu = (u_up[j] + u_down[j]) + (ul[j] + ur[j]) - 4.0 * uc;
                        let lv = (v_up[j] + v_down[j]) + (vl[j] + vr[j]) - 4.0 * vc;
                        let uvv = uc * vc * vc;
                        a[j] = uc - u0[j] - (0.16 * lu - uvv + feed * (1.0 - uc));
                        b[j] = vc - v0[j] - (0.08 * lv + uvv - (feed + kill) * vc);
                    }
                    square += dot(a, a) + dot(b, b);
                    if gradient {
                        let (to_feed, to_kill) = (&mut to_feed[..n], &mut to_kill[..n]);
                        for j in 0..n {
                            to_feed[j] += a[j] * (u[j] - 1.0);
                            to_kill[j] += b[j] * v[j];
                        }
                    }
                } else {
                    a.fill(0.0);
                    b.fill(0.0);
                }
                if gradient {
                    let (du, dv) = results[1..3].split_at_mut(1);
                    let (du, dv) = (&mut du[0][i * w..][..w], &mut dv[0][i * w..][..w]);
                    let [[a_up, a_down], [b_up, b_down]] = [&ru, &rv].map(|r| [i + 1, i].map(|k| &r.at(k)[1..][..w]));
                    let [[al, a, ar], [bl, b, br]] = [&ru, &rv].map(|r| shifted(r.at(i + 2), w));
                    let (u, v) = (&u[i * w..][..w], &v[i * w..][..w]);
                    for j in 0..w {
                        let la = (a_up[j] + a_down[j]) + (al[j] + ar[j]);
                        let lb = (b_up[j] + b_down[j]) + (bl[j] + br[j]);
                        let (ac, bc, vv, uv) = (a[j], b[j], v[j] * v[j], 2.0 * u[j] * v[j]);
                        du[j] = 2.0 * (ac * (1.64 + feed + vv) - bc * vv - 0.16 * la);
                        dv[j] = 2.0 * (bc * (1.32 + feed + kill - uv) + ac * uv - 0.08 * lb);
                    }
                }
            }
            results[0][0] = square;
            if let [_, _, _, dfeed, dkill] = results {
                dkill[0] = 2.0 * sum(&to_kill);
                dfeed[0] = 2.0 * sum(&to_feed) + dkill[0];
            }
        })
    })
}

fn wave(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("wave residual, {n} x {n}"), include_str!("../programs/wave.iv"));
    let Some(p) = Program::new(table, name, text, &["u", "c"]) else { return Ok(()) };
    let w = n + 2;
    let p = p.tensor("u", &[w, w], random(w * w, 421)).tensor("c", &[n], positive(n, 422));
    let [u, c] = p.numbers();
    p.compare(table, || -> Run<'_> {
        // Residuals, and their products with the squares of speeds, begin two places after the rows of the grid.
        let (mut r, mut cr, mut cc) = (Rows::new(n + 4), vec![0.0; n + 4], vec![0.0; n]);
        let (mut before, mut squares) = (vec![0.0; n + 4], vec![0.0; n]);
        Box::new(move |results| {
            r.data.fill(0.0);
            cr.fill(0.0);
            before.fill(0.0);
            cc.iter_mut().zip(c).for_each(|(cc, c)| *cc = c * c);
            squares.fill(0.0);
            let (mut square, gradient) = (Lanes::splat(0.0), results.len() > 1);
            if gradient {
                results[2].fill(0.0);
            }
            for s in 0..w {
                let row = &mut r.at_mut(s)[2..n + 2];
                // The products of the row before, which is the middle one of the row of the adjoint.
                before.copy_from_slice(&cr);
                if s < n {
                    let [old, new] = [0, 2].map(|k| &u[(s + k) * w + 1..][..n]);
                    let [left, now, right] = shifted(&u[(s + 1) * w..], n);
                    if !gradient {
                        // Nothing is stored, eight places at a time; n is a multiple of 8.
                        let [old, new, left] = mapped([old, new, left], |x| x.as_chunks::<8>().0);
                        let [now, right, cc] = mapped([now, right, &cc], |x| x.as_chunks::<8>().0);
                        let fields = old.iter().zip(new).zip(left).zip(now).zip(right).zip(cc);
                        for (((((old, new), left), now), right), cc) in fields {
                            let of = |x: &[f64; 8]| Lanes::load(x, 0);
                            let twice = of(now) + of(now);
                            let r = (of(new) + of(old)) - twice - of(cc) * ((of(left) + of(right)) - twice);
                            square = r.fused(r, square);
                        }
                        continue;
                    }
                    let (cc, row) = (&cc[..n], &mut row[..n]);
                    let squares = &mut squares[..n];
                    for i in 0..n {
                        let bend = (left[i] + right[i]) - 2.0 * now[i];
                        row[i] = (new[i] + old[i]) - 2.0 * now[i] - cc[i] * bend;
                        squares[i] = row[i].mul_add(row[i], squares[i]);
                    }
                    if gradient {
                        let (cr, dc) = (&mut cr[2..n + 2], &mut results[2][..n]);
                        for i in 0..n {
                            let bend = (left[i] + right[i]) - 2.0 * now[i];
                            cr[i] = cc[i] * row[i];
                            dc[i] = row[i].mul_add(bend, dc[i]);
                        }
                    }
                } else {
                    row.fill(0.0);
                    cr.fill(0.0);
                }
                if gradient {
                    let [up, middle, down] = [s + 1, s + 2, s].map(|k| &r.at(k)[1..][..w]);
                    let ([left, own, right], du) = (shifted(&before, w), &mut results[1][s * w..][..w]);
                    for i in 0..w {
                        let flow = (left[i] + right[i]) - 2.0 * own[i];
                        du[i] = 2.0 * ((up[i] + down[i]) - 2.0 * middle[i] - flow);
                    }
                }
            }
            results[0][0] = square.sum() + sum(&squares);
            if let [_, _, dc] = results {
                dc.iter_mut().zip(c).for_each(|(dc, c)| *dc *= -4.0 * c);
            }
        })
    })
}

fn poisson(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("Poisson residual, {n} x {n}"), include_str!("../programs/poisson_2d.iv"));
    let Some(p) = Program::new(table, name, text, &["u"]) else { return Ok(()) };
    let p = p.tensor("u", &[n, n], random(n * n, 431)).tensor("f", &[n, n], random(n * n, 432));
    let [u, f] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let (zeros, mut r, mut squares) = (vec![0.0; n], Rows::new(n), vec![0.0; n]);
        Box::new(move |results| {
            r.data.fill(0.0);
            squares.fill(0.0);
            let (mut square, gradient) = (0.0, results.len() > 1);
            for i in 0..n + 1 {
                let row = |k: usize| if k < n { &u[k * n..][..n] } else { &zeros };
                if !gradient {
                    if i < n {
                        square += square_of_row([row(i.wrapping_sub(1)), row(i), row(i + 1)], &f[i * n..][..n]);
                    }
                    continue;
                }
                let to = r.at_mut(i);
                match i < n {
                    true => {
                        stencil([row(i.wrapping_sub(1)), row(i), row(i + 1)], to);
                        let f = &f[i * n..][..n];
                        for ((r, f), square) in to.iter_mut().zip(f).zip(&mut squares) {
                            *r -= f;
                            *square = r.mul_add(*r, *square);
                        }
                    }
                    false => to.fill(0.0),
                }
                if i > 0 {
                    let du = &mut results[1][(i - 1) * n..][..n];
                    stencil([r.at(i + 1), r.at(i + 2), r.at(i)], du);
                    du.iter_mut().for_each(|x| *x *= 2.0);
                }
            }
            results[0][0] = square + sum(&squares);
        })
    })
}

/// The square of four times a row less its neighbours and `f`; nothing is stored.
#[inline(always)]
fn square_of_row([up, x, down]: [&[f64]; 3], f: &[f64]) -> f64 {
    let last = f.len() - 1;
    let beside = |j: usize| {
        if j == 0 {
            x[1]
        } else if j < last {
            x[j - 1] + x[j + 1]
        } else {
            x[last - 1]
        }
    };
    let at = |j: usize| (4.0 * x[j] - beside(j) - up[j] - down[j] - f[j]).powi(2);
    let (mut square, whole) = (Lanes::splat(0.0), 1 + (last - 1) / 8 * 8);
    for j in (1..whole).step_by(8) {
        let [left, own, right] = mapped([j - 1, j, j + 1], |j| Lanes::load(x, j));
        let around = (left + right) + (Lanes::load(up, j) + Lanes::load(down, j)) + Lanes::load(f, j);
        let r = Lanes::splat(4.0) * own - around;
        square = r.fused(r, square);
    }
    square.sum() + at(0) + (whole..=last).map(at).sum::<f64>()
}

/// Four times a row less its neighbours, where there are any.
#[inline(always)]
fn stencil([up_row, x, down_row]: [&[f64]; 3], y: &mut [f64]) {
    let n = y.len();
    let (up, down) = (up_row, down_row);
    y[0] = 4.0 * x[0] - x[1] - up[0] - down[0];
    let ([left, own, right], up, down) = (shifted(x, n - 2), &up[1..][..n - 2], &down[1..][..n - 2]);
    for (j, y) in y[1..n - 1].iter_mut().enumerate() {
        *y = 4.0f64.mul_add(own[j], -((left[j] + right[j]) + (up[j] + down[j])));
    }
    let (up, down) = (up_row, down_row);
    y[n - 1] = 4.0 * x[n - 1] - x[n - 2] - up[n - 1] - down[n - 1];
}

//! Points, cameras and triangles. What depends on no other element is computed for eight of them at a time.

use iverson::Result;
use iverson::ir::codegen::vector;

use crate::harness::{Run, Table, random};
use crate::program::{Program, positive, random_below};
use crate::simd::{Lanes, dot, each, mapped};

pub fn run(table: &mut Table) -> Result<()> {
    icp(table, 20_000)?;
    icp(table, 150_000)?;
    mesh(table, 10_000)?;
    mesh(table, 100_000)?;
    reprojection(table, 10_000)?;
    reprojection(table, 100_000)?;
    rigid(table, 20_000)?;
    rigid(table, 300_000)
}

type Three = [Lanes; 3];

#[inline(always)]
fn sub(a: Three, b: Three) -> Three {
    each(|k| a[k] - b[k])
}

#[inline(always)]
fn inner(a: Three, b: Three) -> Lanes {
    a[0].fused(b[0], a[1].fused(b[1], a[2] * b[2]))
}

#[inline(always)]
fn cross(a: Three, b: Three) -> Three {
    each(|k| {
        let (i, j) = ((k + 1) % 3, (k + 2) % 3);
        a[i] * b[j] - a[j] * b[i]
    })
}

#[inline(always)]
fn add_rows(x: &mut [f64], at: &[u32], of: Three) {
    let of = mapped(of, Lanes::array);
    for (l, at) in at.iter().enumerate() {
        let x = &mut x[3 * *at as usize..][..3];
        x.iter_mut().zip(of).for_each(|(x, of)| *x += of[l]);
    }
}

fn icp(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("points to planes, {n} points"), include_str!("../programs/icp.iv"));
    let Some(p) = Program::new(table, name, text, &["w", "t"]) else { return Ok(()) };
    let m = n / 2;
    let closest = random_below(n, m, 906);
    let p = p
        .tensor("source", &[n, 3], random(3 * n, 901))
        .tensor("target", &[m, 3], random(3 * m, 902))
        .tensor("normal", &[m, 3], random(3 * m, 903))
        .tensor("w", &[3], random(3, 904))
        .tensor("t", &[3], random(3, 905))
        .map("closest", &[n], &closest, m);
    let [source, target, normal, w, t] = p.numbers();
    let closest = &closest;
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let [w, t]: [Three; 2] = [w, t].map(|x| each(|k| Lanes::splat(x[k])));
            let none = Lanes::splat(0.0);
            let (mut square, mut dw, mut dt) = (none, [none; 3], [none; 3]);
            for i in (0..n).step_by(8) {
                let closest = &closest[i..i + 8];
                let p: Three = Lanes::columns(&source[3 * i..]);
                let (q, normal): (Three, Three) =
                    (Lanes::gather_rows(target, closest), Lanes::gather_rows(normal, closest));
                let turned = cross(w, p);
                let moved: Three = each(|k| p[k] + t[k] + turned[k]);
                let r = inner(sub(moved, q), normal);
                square = r.fused(r, square);
                if results.len() > 1 {
                    let side = cross(p, normal);
                    for k in 0..3 {
                        dw[k] = r.fused(side[k], dw[k]);
                        dt[k] = r.fused(normal[k], dt[k]);
                    }
                }
            }
            results[0][0] = square.sum();
            if let [_, to_w, to_t] = results {
                for k in 0..3 {
                    (to_w[k], to_t[k]) = (2.0 * dw[k].sum(), 2.0 * dt[k].sum());
                }
            }
        })
    })
}

/// Triangles of a grid, with corners near each other in memory, as meshes have them.
fn mesh(table: &mut Table, t: usize) -> Result<()> {
    let (name, text) = (format!("mesh of {t} triangles"), include_str!("../programs/mesh.iv"));
    let Some(p) = Program::new(table, name, text, &["x", "stiffness"]) else { return Ok(()) };
    let n = t / 2;
    let corner = |k: usize| -> Vec<u32> {
        let near = random_below(t, 64, 911 + k as u64);
        near.iter().enumerate().map(|(f, d)| ((f / 2 + 64 * k + *d as usize) % n) as u32).collect()
    };
    let [a, b, c] = [0, 1, 2].map(corner);
    let p = p
        .tensor("x", &[n, 3], random(3 * n, 914))
        .tensor("stiffness", &[], vec![0.7])
        .map("a", &[t], &a, n)
        .map("b", &[t], &b, n)
        .map("c", &[t], &c, n);
    let [x, stiffness] = p.numbers();
    let (a, b, c) = (&a, &b, &c);
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let (mut area, mut volume, s) = (Lanes::splat(0.0), Lanes::splat(0.0), Lanes::splat(0.5 * stiffness[0]));
            let sixth = Lanes::splat(1.0 / 6.0);
            if let [_, dx, _] = results {
                dx.fill(0.0);
            }
            for f in (0..t).step_by(8) {
                let corners = mapped([a, b, c], |corner| &corner[f..f + 8]);
                let [p, q, r]: [Three; 3] = each(|k| Lanes::gather_rows(x, corners[k]));
                let (u, v) = (sub(q, p), sub(r, p));
                let normal = cross(u, v);
                let long = inner(normal, normal).sqrt();
                area += long;
                volume += inner(p, normal);
                let [_, dx, _] = results else { continue };
                let over = s / long;
                let g: Three = each(|k| over * normal[k] - sixth * p[k]);
                let (to_q, to_r) = (cross(v, g), cross(g, u));
                let to_p: Three = each(|k| Lanes::splat(0.0) - to_q[k] - to_r[k] - sixth * normal[k]);
                add_rows(dx, corners[0], to_p);
                add_rows(dx, corners[1], to_q);
                add_rows(dx, corners[2], to_r);
            }
            let area = 0.5 * area.sum();
            results[0][0] = stiffness[0] * area - volume.sum() / 6.0;
            if let [_, _, ds] = results {
                ds[0] = area;
            }
        })
    })
}

fn reprojection(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("reprojection, {n} observations"), include_str!("../programs/reprojection.iv"));
    let Some(p) = Program::new(table, name, text, &["R", "t", "f", "x"]) else { return Ok(()) };
    let (c, m) = (40, n / 5);
    // Observations come camera by camera.
    let mut camera = random_below(n, c, 921);
    camera.sort_unstable();
    let point = random_below(n, m, 922);
    let near = |k: usize, x: f64| if k.is_multiple_of(4) { 1.0 + 0.1 * x } else { 0.1 * x };
    let turns = random(9 * c, 923).iter().enumerate().map(|(k, x)| near(k % 9, *x)).collect();
    let shifts = random(3 * c, 924).iter().enumerate().map(|(k, x)| if k % 3 == 2 { 4.0 + x } else { *x }).collect();
    let p = p
        .tensor("R", &[c, 3, 3], turns)
        .tensor("t", &[c, 3], shifts)
        .tensor("f", &[c], positive(c, 925))
        .tensor("x", &[m, 3], random(3 * m, 926))
        .tensor("seen", &[n, 2], random(2 * n, 927))
        .map("camera", &[n], &camera, c)
        .map("point", &[n], &point, m);
    let [r, t, f, x, seen] = p.numbers();
    let (camera, point) = (&camera, &point);
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let (mut loss, one) = (Lanes::splat(0.0), Lanes::splat(1.0));
            results[1..].iter_mut().for_each(|d| d.fill(0.0));
            for o in (0..n).step_by(8) {
                let (camera, point) = (&camera[o..o + 8], &point[o..o + 8]);
                let at = |l: usize| camera[l] as usize;
                let x: Three = Lanes::gather_rows(x, point);
                let turn: [Lanes; 9] = Lanes::gather_rows(r, camera);
                let turn: [Three; 3] = each(|a| each(|b| turn[3 * a + b]));
                let (t, f): (Three, Lanes) = (Lanes::gather_rows(t, camera), Lanes::gather(f, camera));
                let seen: [Lanes; 2] = Lanes::columns(&seen[2 * o..]);
                let y: Three = each(|a| t[a] + inner(turn[a], x));
                let over = one / y[2];
                let flat: [Lanes; 2] = each(|e| y[e] * over);
                let d: [Lanes; 2] = each(|e| f * flat[e] - seen[e]);
                let r2 = d[0].fused(d[0], d[1] * d[1]);
                loss += r2.map(vector::log1p);
                let [_, dr, dt, df, dx] = results else { continue };
                let g = Lanes::splat(2.0) / (one + r2);
                let by: [Lanes; 2] = mapped(d, |d| g * d);
                let to_f = (by[0] * flat[0] + by[1] * flat[1]).array();
                let gf = f * over;
                let last = Lanes::splat(0.0) - gf * (by[0] * flat[0] + by[1] * flat[1]);
                let dy: Three = [by[0] * gf, by[1] * gf, last];
                add_rows(dt, camera, dy);
                let along = |b: usize| dy[0].fused(turn[0][b], dy[1].fused(turn[1][b], dy[2] * turn[2][b]));
                add_rows(dx, point, each(along));
                for a in 0..3 {
                    let of: [[f64; 8]; 3] = each(|b| (dy[a] * x[b]).array());
                    for l in 0..8 {
                        let dr = &mut dr[9 * at(l) + 3 * a..][..3];
                        dr.iter_mut().zip(of).for_each(|(dr, of)| *dr += of[l]);
                    }
                }
                (0..8).for_each(|l| df[at(l)] += to_f[l]);
            }
            results[0][0] = loss.sum();
        })
    })
}

fn rigid(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("rigid alignment, {n} points"), include_str!("../programs/rigid_alignment.iv"));
    let Some(p) = Program::new(table, name, text, &["q", "t", "s"]) else { return Ok(()) };
    let p = p
        .tensor("p", &[n, 3], random(3 * n, 931))
        .tensor("y", &[n, 3], random(3 * n, 932))
        .tensor("q", &[4], positive(4, 933))
        .tensor("t", &[3], random(3, 934))
        .tensor("s", &[], vec![1.3]);
    let [points, y, q, t, s] = p.numbers();
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let norm = dot(q, q).sqrt();
            let u: [f64; 4] = each(|a| q[a] / norm);
            let (w, v) = (u[0], [u[1], u[2], u[3]]);
            let vv = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
            let turned = [[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]];
            let turn: [[f64; 3]; 3] = each(|a| {
                each(|b| {
                    let own = if a == b { 1.0 - 2.0 * vv } else { 0.0 };
                    own + 2.0 * v[a] * v[b] + 2.0 * w * turned[a][b]
                })
            });
            let none = Lanes::splat(0.0);
            let scaled: [Three; 3] = turn.map(|row| row.map(|x| Lanes::splat(s[0] * x)));
            let (mut square, mut to_t, mut to_turn) = (none, [none; 3], [[none; 3]; 3]);
            for i in (0..n).step_by(8) {
                let (p, y): (Three, Three) = (Lanes::columns(&points[3 * i..]), Lanes::columns(&y[3 * i..]));
                for a in 0..3 {
                    let r = inner(scaled[a], p) + (Lanes::splat(t[a]) - y[a]);
                    square = r.fused(r, square);
                    if results.len() > 1 {
                        to_t[a] += r;
                        to_turn[a].iter_mut().zip(p).for_each(|(d, p)| *d = r.fused(p, *d));
                    }
                }
            }
            results[0][0] = square.sum();
            let [_, dq, dt, ds] = results else { return };
            (0..3).for_each(|a| dt[a] = 2.0 * to_t[a].sum());
            let g: [[f64; 3]; 3] = to_turn.map(|row| row.map(|x| 2.0 * x.sum()));
            ds[0] = (0..3).map(|a| (0..3).map(|b| g[a][b] * turn[a][b]).sum::<f64>()).sum();
            // By the unit quaternion, then by the one that is normalised.
            let trace = g[0][0] + g[1][1] + g[2][2];
            let skew = [g[2][1] - g[1][2], g[0][2] - g[2][0], g[1][0] - g[0][1]];
            let mut du = [0.0; 4];
            du[0] = 2.0 * s[0] * (skew[0] * v[0] + skew[1] * v[1] + skew[2] * v[2]);
            for k in 0..3 {
                let both: f64 = (0..3).map(|b| (g[k][b] + g[b][k]) * v[b]).sum();
                du[k + 1] = 2.0 * s[0] * (both - 2.0 * v[k] * trace + w * skew[k]);
            }
            let along = dot(&du, &u);
            (0..4).for_each(|a| dq[a] = (du[a] - along * u[a]) / norm);
        })
    })
}

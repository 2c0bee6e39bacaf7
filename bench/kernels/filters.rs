//! Convolutions of networks.

use iverson::Result;
use iverson::ir::codegen::vector;

use crate::gemm::{Matrix, multiply, packed};
use crate::harness::{Run, Table, random};
use crate::program::Program;
use crate::simd::{Lanes, dot, each};

pub fn run(table: &mut Table) -> Result<()> {
    max_pool(table, [8, 32, 32])?;
    max_pool(table, [4, 64, 64])?;
    average_pool(table, [8, 32, 32])?;
    average_pool(table, [8, 128, 128])?;
    depthwise(table, [16, 32, 32])?;
    depthwise(table, [64, 112, 112])?;
    transposed(table, [256, 32, 16])?;
    transposed(table, [2048, 64, 32])?;
    strided(table, [8, 512, 9, 12])?;
    strided(table, [32, 2048, 9, 48])
}

/// Two rows of eight places of a window each become one of four.
fn average_pool(table: &mut Table, [c, h, w]: [usize; 3]) -> Result<()> {
    let (name, text) = (format!("average pooling, {c} x {h} x {w}"), include_str!("../programs/average_pooling.iv"));
    let Some(p) = Program::new(table, name, text, &["x"]) else { return Ok(()) };
    let p =
        p.tensor("x", &[c, 2 * h, 2 * w], random(4 * c * h * w, 581)).tensor("y", &[c, h, w], random(c * h * w, 582));
    let [x, y] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let (mut t, mut r) = (vec![0.0; 4 * w], vec![0.0; w]);
        Box::new(move |results| {
            let mut square = 0.0;
            for (i, (x, y)) in x.chunks_exact(4 * w).zip(y.chunks_exact(w)).enumerate() {
                (0..4 * w).step_by(8).for_each(|j| Lanes::load(x, j).map(vector::tanh).store(&mut t, j));
                let (above, below) = t.split_at(2 * w);
                let pairs = above.chunks_exact(2).zip(below.chunks_exact(2));
                for (r, ((a, b), y)) in r.iter_mut().zip(pairs.zip(y)) {
                    *r = 0.25 * ((a[0] + a[1]) + (b[0] + b[1])) - y;
                }
                square += dot(&r, &r);
                let [_, dx] = results else { continue };
                for (dx, t) in dx[4 * w * i..][..4 * w].chunks_exact_mut(2 * w).zip(t.chunks_exact(2 * w)) {
                    for ((dx, t), r) in dx.chunks_exact_mut(2).zip(t.chunks_exact(2)).zip(&r) {
                        (dx[0], dx[1]) = (0.5 * r * (1.0 - t[0] * t[0]), 0.5 * r * (1.0 - t[1] * t[1]));
                    }
                }
            }
            results[0][0] = square;
        })
    })
}

/// The even places of rows, and the odd ones.
fn halves(x: &[f64], width: usize, [even, odd]: [&mut [f64]; 2]) {
    let half = width / 2;
    let rows = even.chunks_exact_mut(half).zip(odd.chunks_exact_mut(half));
    for (x, (even, odd)) in x.chunks_exact(width).zip(rows) {
        for ((x, even), odd) in x.chunks_exact(2).zip(even).zip(odd) {
            (*even, *odd) = (x[0], x[1]);
        }
    }
}

fn max_pool(table: &mut Table, [c, h, w]: [usize; 3]) -> Result<()> {
    let name = format!("convolution, ReLU and max-pooling, {c} x {h} x {w}");
    let text = include_str!("../programs/max_pool_layer.iv");
    let Some(p) = Program::new(table, name, text, &["f", "bias"]) else { return Ok(()) };
    let (height, half) = (2 * h + 2, w + 1);
    let p = p
        .tensor("x", &[height, 2 * half], random(2 * height * half, 541))
        .tensor("f", &[c, 3, 3], random(9 * c, 542))
        .tensor("bias", &[c], random(c, 543))
        .tensor("out", &[c, h, w], random(c * h * w, 544));
    let [x, f, bias, out] = p.numbers();
    p.compare(table, || -> Run<'_> {
        // Even and odd columns apart, so that the four places of a window are four vectors.
        let [mut even, mut odd] = [(); 2].map(|()| vec![0.0; height * half]);
        let mut winners = [(); 4].map(|()| vec![0.0; w]);
        let none = Lanes::splat(0.0);
        Box::new(move |results| {
            halves(x, 2 * half, [&mut even, &mut odd]);
            // The number that place b of a filter sees in the column of parity `side`, from column j on.
            let seen = |row: usize, side: usize, b: usize, j: usize| {
                let from = if (side + b).is_multiple_of(2) { &even } else { &odd };
                Lanes::load(from, row * half + j + (side + b) / 2)
            };
            let (mut square, gradient) = (none, results.len() > 1);
            for (o, f) in f.chunks_exact(9).enumerate() {
                let (f, bias): ([Lanes; 9], _) = (each(|k| Lanes::splat(f[k])), Lanes::splat(bias[o]));
                let (mut df, mut dbias) = ([none; 9], none);
                for i in 0..h {
                    for j in (0..w).step_by(8) {
                        let y: [Lanes; 4] = each(|q| {
                            (0..9).fold(bias, |y, k| seen(2 * i + q / 2 + k / 3, q % 2, k % 3, j).fused(f[k], y))
                        });
                        let top = y[0].max(y[1]).max(y[2].max(y[3]));
                        let e = top.max(none) - Lanes::load(out, (o * h + i) * w + j);
                        square = e.fused(e, square);
                        if gradient {
                            let mut g = none.less(top, e + e, none);
                            dbias += g;
                            // The first of the largest takes all.
                            for (y, winners) in y.into_iter().zip(&mut winners) {
                                y.less(top, none, g).store(winners, j);
                                g = y.less(top, g, none);
                            }
                        }
                    }
                    if gradient {
                        for (a, df) in df.chunks_exact_mut(3).enumerate() {
                            for j in (0..w).step_by(8) {
                                for (q, winners) in winners.iter().enumerate() {
                                    let g = Lanes::load(winners, j);
                                    df.iter_mut().enumerate().for_each(|(b, df)| {
                                        *df = g.fused(seen(2 * i + q / 2 + a, q % 2, b, j), *df);
                                    });
                                }
                            }
                        }
                    }
                }
                if let [_, to, to_bias] = results {
                    df.into_iter().enumerate().for_each(|(k, df)| to[9 * o + k] = df.sum());
                    to_bias[o] = dbias.sum();
                }
            }
            results[0][0] = square.sum();
        })
    })
}

fn depthwise(table: &mut Table, [c, h, w]: [usize; 3]) -> Result<()> {
    let name = format!("depthwise convolution, {c} x {h} x {w}");
    let text = include_str!("../programs/depthwise_conv.iv");
    let Some(p) = Program::new(table, name, text, &["x", "f"]) else { return Ok(()) };
    let p = p.tensor("x", &[c, h, w], random(c * h * w, 551)).tensor("f", &[c, 3, 3], random(9 * c, 552)).tensor(
        "y",
        &[c, h, w],
        random(c * h * w, 553),
    );
    let [x, f, y] = p.numbers();
    let side = w + 2;
    p.compare(table, || -> Run<'_> {
        // A channel, and its slopes, with a margin of zeros.
        let [mut padded, mut g] = [(); 2].map(|()| vec![0.0; (h + 2) * side]);
        let (none, one) = (Lanes::splat(0.0), Lanes::splat(1.0));
        // The filter on eight places.
        let filtered = move |x: &[f64], f: &[Lanes; 9], at: usize| {
            let row = |a: usize| (0..3).fold(none, |z, b| Lanes::load(x, at + a * side + b).fused(f[3 * a + b], z));
            (row(0) + row(1)) + row(2)
        };
        Box::new(move |results| {
            let mut square = none;
            for (o, f) in f.chunks_exact(9).enumerate() {
                let (x, y) = (&x[o * h * w..][..h * w], &y[o * h * w..][..h * w]);
                for (i, row) in x.chunks_exact(w).enumerate() {
                    padded[(i + 1) * side + 1..][..w].copy_from_slice(row);
                }
                let (mut df, f): (_, [Lanes; 9]) = ([none; 9], each(|k| Lanes::splat(f[k])));
                let gradient = results.len() > 1;
                for (i, j) in (0..h).flat_map(|i| (0..w).step_by(8).map(move |j| (i, j))) {
                    let z = filtered(&padded, &f, i * side + j);
                    let s = z.map(vector::sigmoid);
                    let e = z.fused(s, none) - Lanes::load(y, i * w + j);
                    square = e.fused(e, square);
                    if gradient {
                        let slope = (z * (one - s)).fused(s, s);
                        ((e + e) * slope).store(&mut g, (i + 1) * side + j + 1);
                    }
                }
                let [_, dx, to] = results else { continue };
                let back: [Lanes; 9] = each(|k| f[8 - k]);
                for (i, j) in (0..h).flat_map(|i| (0..w).step_by(8).map(move |j| (i, j))) {
                    filtered(&g, &back, i * side + j).store(dx, (o * h + i) * w + j);
                }
                for (a, df) in df.chunks_exact_mut(3).enumerate() {
                    for (i, j) in (0..h).flat_map(|i| (0..w).step_by(8).map(move |j| (i, j))) {
                        let g = Lanes::load(&g, (i + 1) * side + j + 1);
                        df.iter_mut().enumerate().for_each(|(b, df)| {
                            *df = g.fused(Lanes::load(&padded, (i + a) * side + j + b), *df);
                        });
                    }
                }
                df.into_iter().enumerate().for_each(|(k, df)| to[9 * o + k] = df.sum());
            }
            results[0][0] = square.sum();
        })
    })
}

/// Each two rows of the result come from two rows of `x` that lie side by side: one product of matrices.
fn transposed(table: &mut Table, [n, c, d]: [usize; 3]) -> Result<()> {
    let name = format!("transposed convolution, {n} x {c}, {d} filters");
    let text = include_str!("../programs/transposed_conv.iv");
    let Some(p) = Program::new(table, name, text, &["x", "f"]) else { return Ok(()) };
    let p = p.tensor("x", &[n, c], random(n * c, 561)).tensor("f", &[c, 4, d], random(4 * c * d, 562)).tensor(
        "y",
        &[2 * n + 2, d],
        random((2 * n + 2) * d, 563),
    );
    let [x, f, y] = p.numbers();
    p.compare(table, || -> Run<'_> {
        // Rows of zeros before the first one and behind the last one; filters as a matrix from two rows to two.
        let (mut padded, mut g) = (vec![0.0; (n + 2) * c], vec![0.0; (n + 1) * 2 * d]);
        let [mut filters, mut slopes, mut back] = [(); 3].map(|()| vec![0.0; 4 * c * d]);
        let mut room = packed((2 * c).max(4 * d).max(256), (2 * d).max(c));
        Box::new(move |results| {
            padded[c..][..n * c].copy_from_slice(x);
            let place = |q: usize, a: usize| ((1 - a / 2) * c + q) * 2 * d + a % 2 * d;
            for (q, f) in f.chunks_exact(4 * d).enumerate() {
                f.chunks_exact(d).enumerate().for_each(|(a, f)| filters[place(q, a)..][..d].copy_from_slice(f));
            }
            let two = Matrix { data: &padded, row: c, column: 1 };
            multiply(two, Matrix::new(&filters, 2 * d), [n + 1, 2 * c, 2 * d], 0.0, &mut g, &mut room);
            g.iter_mut().zip(y).for_each(|(g, y)| *g -= y);
            results[0][0] = dot(&g, &g);
            let [_, dx, df] = results else { return };
            g.iter_mut().for_each(|g| *g *= 2.0);
            for (at, g) in g.chunks(256 * 2 * d).enumerate() {
                let (rows, beta) = (g.len() / (2 * d), if at == 0 { 0.0 } else { 1.0 });
                let two = Matrix { data: &padded[at * 256 * c..], row: 1, column: c };
                multiply(two, Matrix::new(g, 2 * d), [2 * c, rows, 2 * d], beta, &mut slopes, &mut room);
            }
            for (q, df) in df.chunks_exact_mut(4 * d).enumerate() {
                df.chunks_exact_mut(d).enumerate().for_each(|(a, df)| df.copy_from_slice(&slopes[place(q, a)..][..d]));
            }
            for (q, f) in f.chunks_exact(4 * d).enumerate() {
                f.iter().enumerate().for_each(|(k, f)| back[k * c + q] = *f);
            }
            let two = Matrix { data: &g, row: 2 * d, column: 1 };
            multiply(two, Matrix::new(&back, c), [n, 4 * d, c], 0.0, dx, &mut room);
        })
    })
}

/// The even and the odd places apart, each place of a filter sees a row from some column on; rows of several filters are made in tiles.
fn strided(table: &mut Table, [c, n, k, o]: [usize; 4]) -> Result<()> {
    let name = format!("strided convolution, {c} x {}, {o} filters of {k}", 2 * n + k);
    let text = include_str!("../programs/strided_conv.iv");
    let Some(p) = Program::new(table, name, text, &["x", "f"]) else { return Ok(()) };
    let (w, half) = (2 * n + k, n + k.div_ceil(2) + 32);
    let p = p.tensor("x", &[c, w], random(c * w, 571)).tensor("f", &[o, c, k], random(o * c * k, 572)).tensor(
        "y",
        &[o, n],
        random(o * n, 573),
    );
    let [x, f, y] = p.numbers();
    const R: usize = 6;
    let none = Lanes::splat(0.0);
    p.compare(table, || -> Run<'_> {
        // Even places of all channels, then odd ones; where each place of a filter begins.
        let mut parts = vec![0.0; 2 * c * half];
        let starts: Vec<usize> = (0..c * k).map(|at| (at % k % 2 * c + at / k) * half + at % k / 2).collect();
        // Slopes with a margin of k on both sides.
        let (margin, mut packed) = (k, vec![0.0; f.len()]);
        let side = n + 2 * margin + 64;
        let (mut g, mut to_half) = (vec![0.0; o * side], vec![0.0; half]);
        Box::new(move |results| {
            let (even, odd) = parts.split_at_mut(c * half);
            for (q, x) in x.chunks_exact(w).enumerate() {
                even[q * half..].iter_mut().zip(x.iter().step_by(2)).for_each(|(to, x)| *to = *x);
                odd[q * half..].iter_mut().zip(x[1..].iter().step_by(2)).for_each(|(to, x)| *to = *x);
            }
            let mut square = none;
            for first in (0..o).step_by(R) {
                // The places of R filters side by side.
                let packed = &mut packed[..R * c * k];
                (0..R * c * k).for_each(|at| packed[at] = f[(first + at % R) * c * k + at / R]);
                for i in (0..n).step_by(8) {
                    let mut z = [none; R];
                    for (start, f) in starts.iter().zip(packed.chunks_exact(R)) {
                        let (x, f): (_, &[f64; R]) =
                            (Lanes::load(&parts, start + i), f.first_chunk().expect("filters"));
                        z.iter_mut().zip(f).for_each(|(z, f)| *z = x.fused(Lanes::splat(*f), *z));
                    }
                    for (r, z) in z.into_iter().enumerate() {
                        let e = z - Lanes::load(y, (first + r) * n + i);
                        square = e.fused(e, square);
                        (e + e).store(&mut g, (first + r) * side + margin + i);
                    }
                }
            }
            results[0][0] = square.sum();
            let [_, dx, df] = results else { return };
            // Three filters by two places.
            for (first, place) in (0..o).step_by(3).flat_map(|first| (0..c * k).step_by(2).map(move |at| (first, at))) {
                let mut sums = [[none; 2]; 3];
                let slopes: [&[f64]; 3] = each(|r| &g[(first + r) * side + margin..][..n]);
                let rows: [&[f64]; 2] = each(|s| &parts[starts[place + s]..][..n]);
                for i in (0..n).step_by(8) {
                    let x = [Lanes::load(rows[0], i), Lanes::load(rows[1], i)];
                    for (sums, g) in sums.iter_mut().zip(slopes) {
                        let g = Lanes::load(g, i);
                        *sums = [g.fused(x[0], sums[0]), g.fused(x[1], sums[1])];
                    }
                }
                for (r, sums) in sums.into_iter().enumerate() {
                    let to = (first + r) * c * k + place;
                    (df[to], df[to + 1]) = (sums[0].sum(), sums[1].sum());
                }
            }
            for (q, dx) in dx.chunks_exact_mut(w).enumerate() {
                for parity in 0..2 {
                    let count = (w - parity).div_ceil(2);
                    for i in (0..count).step_by(32) {
                        let mut sums = [none; 4];
                        for (g, f) in g.chunks_exact(side).zip(f.chunks_exact(c * k)) {
                            for j in (parity..k).step_by(2) {
                                let (f, g) = (Lanes::splat(f[q * k + j]), &g[margin + i - j / 2..][..32]);
                                sums.iter_mut().enumerate().for_each(|(v, sum)| {
                                    *sum = f.fused(Lanes::load(g, 8 * v), *sum);
                                });
                            }
                        }
                        sums.into_iter().enumerate().for_each(|(v, sum)| sum.store(&mut to_half, i + 8 * v));
                    }
                    (0..count).for_each(|i| dx[2 * i + parity] = to_half[i]);
                }
            }
        })
    })
}

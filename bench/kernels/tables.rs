//! Sparse tables, and embeddings that are looked up by maps.

use iverson::Result;
use iverson::ir::codegen::vector;
use iverson::tensor::{Csr, CsrPattern};

use crate::factorisation::{Row, add, products, residuals, row};
use crate::harness::{Run, Table, random, sparse};
use crate::program::{Program, positive, random_below};
use crate::regression::scatter;
use crate::simd::{Lanes, dot, each, gathered};
use crate::stencils::sum;

pub fn run(table: &mut Table) -> Result<()> {
    hinge(table, 10_000, 2000)?;
    hinge(table, 80_000, 20_000)?;
    poisson(table, 10_000, 2000)?;
    poisson(table, 80_000, 20_000)?;
    machine(table, 2000, 1000)?;
    machine(table, 20_000, 10_000)?;
    completion(table, 1000, 500)?;
    completion(table, 10_000, 5000)?;
    divergence(table, 500, 400)?;
    divergence(table, 5000, 4000)?;
    skip_gram(table, 2000, 2000)?;
    skip_gram(table, 20_000, 20_000)?;
    triplet(table, 2000, 5000)?;
    triplet(table, 20_000, 40_000)?;
    bags(table, [2000, 500, 10_000])?;
    bags(table, [20_000, 20_000, 200_000])
}

/// The columns and the numbers of a row.
#[inline(always)]
pub fn entries<'a>(pattern: &'a CsrPattern, data: &'a [f64], i: usize) -> (&'a [u32], &'a [f64]) {
    let row = pattern.row(i);
    (&pattern.indices()[row.clone()], &data[row])
}

/// The same pattern with numbers between 0.1 and 1.
pub fn with_positive(x: &Csr, seed: u64) -> Csr {
    Csr::with_pattern(x.pattern().clone(), positive(x.data().len(), seed)).expect("the same pattern")
}

fn hinge(table: &mut Table, m: usize, n: usize) -> Result<()> {
    let (name, text) = (format!("sparse support vectors, {m} x {n}"), include_str!("../programs/hinge_svm.iv"));
    let Some(p) = Program::new(table, name, text, &["w", "bias"]) else { return Ok(()) };
    let x = sparse(m, n, 20, 701);
    let y = random(m, 703).into_iter().map(f64::signum).collect();
    let p = p.csr("X", &x).tensor("w", &[n], random(n, 702)).tensor("bias", &[], vec![0.1]).tensor("y", &[m], y);
    let [data, w, bias, y] = p.numbers();
    let pattern = x.pattern();
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let (mut loss, mut dbias, mut slack) = (0.0, 0.0, [0.0; BLOCK]);
            if let [_, dw, _] = results {
                dw.iter_mut().zip(w).for_each(|(d, w)| *d = 0.02 * w);
            }
            // Slacks of a block first: whether a row is within the margin is a guess that would hold up the next rows.
            for (first, y) in (0..m).step_by(BLOCK).zip(y.chunks(BLOCK)) {
                for (l, (slack, y)) in slack.iter_mut().zip(y).enumerate() {
                    let (columns, values) = entries(pattern, data, first + l);
                    *slack = (1.0 - y * (gathered(columns, values, w) + bias[0])).max(0.0);
                    loss += *slack;
                }
                let [_, dw, _] = results else { continue };
                for (l, (slack, y)) in slack.iter().zip(y).enumerate() {
                    if *slack > 0.0 {
                        dbias -= y;
                        let (columns, values) = entries(pattern, data, first + l);
                        scatter(columns, values, -y / m as f64, dw);
                    }
                }
            }
            results[0][0] = loss / m as f64 + 0.01 * dot(w, w);
            if let [_, _, to] = results {
                to[0] = dbias / m as f64;
            }
        })
    })
}

/// Rows are taken in blocks, whose functions run in lanes.
fn poisson(table: &mut Table, m: usize, n: usize) -> Result<()> {
    let (name, text) =
        (format!("sparse Poisson regression, {m} x {n}"), include_str!("../programs/poisson_regression.iv"));
    let Some(p) = Program::new(table, name, text, &["w"]) else { return Ok(()) };
    let x = sparse(m, n, 20, 711);
    let counts = random_below(m, 4, 714).into_iter().map(f64::from).collect();
    let p = p.csr("X", &x).tensor("w", &[n], random(n, 712)).tensor("exposure", &[m], positive(m, 713)).tensor(
        "y",
        &[m],
        counts,
    );
    let [data, w, exposure, y] = p.numbers();
    let pattern = x.pattern();
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let (mut eta, mut rate, mut loss) = ([0.0; BLOCK], [0.0; BLOCK], 0.0);
            if let [_, dw] = results {
                dw.fill(0.0);
            }
            for first in (0..m).step_by(BLOCK) {
                let rows = BLOCK.min(m - first);
                for (l, eta) in eta.iter_mut().enumerate().take(rows) {
                    let (columns, values) = entries(pattern, data, first + l);
                    *eta = gathered(columns, values, w);
                }
                (0..BLOCK).step_by(8).for_each(|l| Lanes::load(&eta, l).map(vector::exp).store(&mut rate, l));
                let (exposure, y) = (&exposure[first..][..rows], &y[first..][..rows]);
                for l in 0..rows {
                    rate[l] *= exposure[l];
                    loss += rate[l] - y[l] * eta[l];
                }
                let [_, dw] = results else { continue };
                for l in 0..rows {
                    let (columns, values) = entries(pattern, data, first + l);
                    scatter(columns, values, rate[l] - y[l], dw);
                }
            }
            results[0][0] = loss;
        })
    })
}

/// Rows of a block, whose functions run in lanes.
const BLOCK: usize = 64;

const C: usize = 2;
const K: usize = 8 * C;

fn machine(table: &mut Table, m: usize, n: usize) -> Result<()> {
    let name = format!("factorisation machine, {m} x {n}");
    let text = include_str!("../programs/factorisation_machine.iv");
    let Some(p) = Program::new(table, name, text, &["w", "V"]) else { return Ok(()) };
    let x = sparse(m, n, 20, 721);
    let y = random_below(m, 2, 724).into_iter().map(f64::from).collect();
    let small = random(n * K, 723).into_iter().map(|x| 0.3 * x).collect();
    let p = p.csr("X", &x).tensor("w", &[n], random(n, 722)).tensor("V", &[n, K], small).tensor("y", &[m], y);
    let [data, w, v, y] = p.numbers();
    let pattern = x.pattern();
    let none = Lanes::splat(0.0);
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let (mut z, mut sums, mut loss) = ([0.0; BLOCK], [[none; C]; BLOCK], none);
            if let [_, dw, dv] = results {
                dw.fill(0.0);
                dv.fill(0.0);
            }
            for first in (0..m).step_by(BLOCK) {
                let rows = BLOCK.min(m - first);
                for l in 0..rows {
                    let (columns, values) = entries(pattern, data, first + l);
                    let (mut s, mut q) = ([none; C], none);
                    for (j, x) in columns.iter().zip(values) {
                        let (x, v) = (Lanes::splat(*x), row::<C>(v, *j));
                        for (s, v) in s.iter_mut().zip(v) {
                            let t = x * v;
                            *s += t;
                            q = t.fused(t, q);
                        }
                    }
                    sums[l] = s;
                    z[l] = gathered(columns, values, w) + 0.5 * (products(s, s) - q).sum();
                }
                for l in (0..rows).step_by(8) {
                    let (zs, y) = (Lanes::load(&z, l), Lanes::of(|k| y.get(first + l + k).copied().unwrap_or(0.0)));
                    let parts = zs.map(vector::softplus) - y * zs;
                    loss += Lanes::of(|k| if l + k < rows { parts.array()[k] } else { 0.0 });
                    ((zs.map(vector::sigmoid) - y) * Lanes::splat(1.0 / m as f64)).store(&mut z, l);
                }
                let [_, dw, dv] = results else { continue };
                for l in 0..rows {
                    let (columns, values) = entries(pattern, data, first + l);
                    let (g, s) = (z[l], sums[l]);
                    for (j, x) in columns.iter().zip(values) {
                        dw[*j as usize] += g * x;
                        let (minus, v) = (Lanes::splat(-x), row::<C>(v, *j));
                        let slope: Row<C> = each(|c| minus.fused(v[c], s[c]));
                        add(dv, *j, Lanes::splat(g * x), slope);
                    }
                }
            }
            results[0][0] = loss.sum() / m as f64;
        })
    })
}

fn completion(table: &mut Table, m: usize, n: usize) -> Result<()> {
    let (name, text) = (format!("ratings with biases, {m} x {n}"), include_str!("../programs/matrix_completion.iv"));
    let Some(p) = Program::new(table, name, text, &["mu", "a", "b", "U", "V"]) else { return Ok(()) };
    let r = sparse(m, n, 20, 731);
    let p = p
        .csr("R", &r)
        .tensor("mu", &[], vec![0.1])
        .tensor("a", &[m], random(m, 732))
        .tensor("b", &[n], random(n, 733))
        .tensor("U", &[m, K], random(m * K, 734))
        .tensor("V", &[n, K], random(n * K, 735));
    let [data, mu, a, b, u, v] = p.numbers();
    let pattern = r.pattern();
    p.compare(table, || -> Run<'_> {
        let mut shifted = vec![0.0; n];
        Box::new(move |results| {
            let (mut fit, mut total) = (0.0, 0.0);
            if let [_, _, _, db, _, dv] = results {
                db.iter_mut().zip(b).for_each(|(d, b)| *d = 0.04 * b);
                dv.iter_mut().zip(v).for_each(|(d, v)| *d = 0.04 * v);
            }
            for i in 0..m {
                let (columns, values) = entries(pattern, data, i);
                let (base, u) = (mu[0] + a[i], row::<C>(u, i as u32));
                let targets = &mut shifted[..values.len()];
                for (t, (j, x)) in targets.iter_mut().zip(columns.iter().zip(values)) {
                    *t = x - base - b[*j as usize];
                }
                let [_, _, da, db, du, dv] = results else {
                    fit += residuals(targets, |at| products(u, row(v, columns[at])), |_, _| {});
                    continue;
                };
                let (mut own, mut sums) = (0.0, [Lanes::splat(0.0); C]);
                fit += residuals(
                    targets,
                    |at| products(u, row(v, columns[at])),
                    |at, e| {
                        let (j, g) = (columns[at], -2.0 * e);
                        own += g;
                        db[j as usize] += g;
                        let (g, v) = (Lanes::splat(g), row::<C>(v, j));
                        sums.iter_mut().zip(v).for_each(|(sum, v)| *sum = g.fused(v, *sum));
                        add(dv, j, g, u);
                    },
                );
                total += own;
                da[i] = own + 0.04 * a[i];
                let penalty = Lanes::splat(0.04);
                sums.into_iter()
                    .zip(u)
                    .enumerate()
                    .for_each(|(c, (s, u))| penalty.fused(u, s).store(du, i * K + 8 * c));
            }
            results[0][0] = fit + 0.02 * ((dot(a, a) + dot(b, b)) + (dot(u, u) + dot(v, v)));
            if let [_, dmu, ..] = results {
                dmu[0] = total;
            }
        })
    })
}

/// The right factor is transposed first, so that its columns are rows.
fn divergence(table: &mut Table, m: usize, n: usize) -> Result<()> {
    let (name, text) = (format!("factors of counts, {m} x {n}"), include_str!("../programs/kl_factorisation.iv"));
    let Some(p) = Program::new(table, name, text, &["W", "H"]) else { return Ok(()) };
    let x = with_positive(&sparse(m, n, 40, 741), 742);
    let p = p.csr("X", &x).tensor("W", &[m, K], positive(m * K, 743)).tensor("H", &[K, n], positive(K * n, 744));
    let [data, w, h] = p.numbers();
    let pattern = x.pattern();
    p.compare(table, || -> Run<'_> {
        let (mut columns_of, mut slopes) = (vec![0.0; n * K], vec![0.0; n * K]);
        Box::new(move |results| {
            for (f, h) in h.chunks_exact(n).enumerate() {
                h.iter().enumerate().for_each(|(j, h)| columns_of[j * K + f] = *h);
            }
            let sums_of_h: [f64; K] = each(|f| sum(&h[f * n..][..n]));
            let mut sums_of_w = [Lanes::splat(0.0); C];
            let sums_of_h_lanes: Row<C> = row(&sums_of_h, 0);
            let (mut fit, one, gradient) = (Lanes::splat(0.0), Lanes::splat(1.0), results.len() > 1);
            slopes.fill(0.0);
            for i in 0..m {
                let ((columns, values), w) = (entries(pattern, data, i), row::<C>(w, i as u32));
                let mut own = sums_of_h_lanes;
                sums_of_w.iter_mut().zip(w).for_each(|(s, w)| *s += w);
                for (columns, values) in columns.chunks(8).zip(values.chunks(8)) {
                    let of = |l: usize| products(w, row::<C>(&columns_of, columns[l]));
                    let (rate, x) = match values.len() {
                        8 => (Lanes::sums(each(of)), Lanes::load(values, 0)),
                        some => (
                            Lanes::of(|l| if l < some { of(l).sum() } else { 1.0 }),
                            Lanes::of(|l| if l < some { values[l] } else { 0.0 }),
                        ),
                    };
                    fit = x.fused(rate.map(vector::ln), fit);
                    if gradient {
                        let g = ((x * Lanes::splat(-1.0)) * (one / rate)).array();
                        for (j, g) in columns.iter().zip(g) {
                            let (g, h) = (Lanes::splat(g), row::<C>(&columns_of, *j));
                            own.iter_mut().zip(h).for_each(|(own, h)| *own = g.fused(h, *own));
                            add(&mut slopes, *j, g, w);
                        }
                    }
                }
                if let [_, dw, _] = results {
                    own.into_iter().enumerate().for_each(|(c, x)| x.store(dw, i * K + 8 * c));
                }
            }
            results[0][0] = products(sums_of_w, sums_of_h_lanes).sum() - fit.sum();
            let [_, _, dh] = results else { return };
            for (f, dh) in dh.chunks_exact_mut(n).enumerate() {
                let base = sums_of_w[f / 8].array()[f % 8];
                dh.iter_mut().enumerate().for_each(|(j, d)| *d = base + slopes[j * K + f]);
            }
        })
    })
}

fn skip_gram(table: &mut Table, words: usize, pairs: usize) -> Result<()> {
    let (name, text) = (format!("skip-gram, {words} words, {pairs} pairs"), include_str!("../programs/skip_gram.iv"));
    let Some(p) = Program::new(table, name, text, &["U", "W"]) else { return Ok(()) };
    let [centre, context] = [751, 752].map(|seed| random_below(pairs, words, seed));
    let noise = random_below(5 * pairs, words, 753);
    let p = p
        .tensor("U", &[words, K], random(words * K, 754))
        .tensor("W", &[words, K], random(words * K, 755))
        .map("centre", &[pairs], &centre, words)
        .map("context", &[pairs], &context, words)
        .map("noise", &[pairs, 5], &noise, words);
    let [u, w] = p.numbers();
    let (centre, context, noise) = (&centre, &context, &noise);
    // A pair and its five others are six of eight lanes.
    let signs = Lanes::of(|l| if l == 0 { -1.0 } else { 1.0 });
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let mut loss = Lanes::splat(0.0);
            if let [_, du, dw] = results {
                du.fill(0.0);
                dw.fill(0.0);
            }
            for t in 0..pairs {
                let own = row::<C>(u, centre[t]);
                let other = |l: usize| if l == 0 { context[t] } else { noise[5 * t + l - 1] };
                let of = |l: usize| if l < 6 { products(own, row::<C>(w, other(l))) } else { Lanes::splat(0.0) };
                let z = signs * Lanes::sums(each(of));
                let losses = z.map(vector::softplus).array();
                loss += Lanes::of(|l| if l < 6 { losses[l] } else { 0.0 });
                let [_, du, dw] = results else { continue };
                let g = (z.map(vector::sigmoid) * signs * Lanes::splat(1.0 / pairs as f64)).array();
                let mut sums = [Lanes::splat(0.0); C];
                for (l, g) in g.into_iter().enumerate().take(6) {
                    let (g, w) = (Lanes::splat(g), row::<C>(w, other(l)));
                    sums.iter_mut().zip(w).for_each(|(s, w)| *s = g.fused(w, *s));
                    add(dw, other(l), g, own);
                }
                add(du, centre[t], Lanes::splat(1.0), sums);
            }
            results[0][0] = loss.sum() / pairs as f64;
        })
    })
}

fn triplet(table: &mut Table, rows: usize, n: usize) -> Result<()> {
    let (name, text) = (format!("triplet loss, {rows} rows, {n} triplets"), include_str!("../programs/triplet.iv"));
    let Some(p) = Program::new(table, name, text, &["E"]) else { return Ok(()) };
    let [a, b, c] = [762, 763, 764].map(|seed| random_below(n, rows, seed));
    let p = p
        .tensor("E", &[rows, K], random(rows * K, 761))
        .map("anchor", &[n], &a, rows)
        .map("positive", &[n], &b, rows)
        .map("negative", &[n], &c, rows);
    let [e] = p.numbers();
    let (a, b, c) = (&a, &b, &c);
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let mut loss = Lanes::splat(0.0);
            if let [_, de] = results {
                de.fill(0.0);
            }
            let scale = Lanes::splat(2.0 / n as f64);
            for first in (0..n).step_by(8) {
                let sides = |t: usize| {
                    let [x, y, z]: [Row<C>; 3] = [row(e, a[t]), row(e, b[t]), row(e, c[t])];
                    let (near, far): (Row<C>, Row<C>) = (each(|l| x[l] - y[l]), each(|l| x[l] - z[l]));
                    (near, far)
                };
                let margins = Lanes::sums(each(|l| {
                    let (near, far) = sides(first + l);
                    products(near, near) - products(far, far)
                }));
                let margins = (margins + Lanes::splat(1.0)).max(Lanes::splat(0.0));
                loss += margins;
                let [_, de] = results else { continue };
                for (t, margin) in (first..).zip(margins.array()) {
                    if margin > 0.0 {
                        let (near, far) = sides(t);
                        add::<C>(de, a[t], scale, each(|l| near[l] - far[l]));
                        add(de, b[t], Lanes::splat(0.0) - scale, near);
                        add(de, c[t], scale, far);
                    }
                }
            }
            results[0][0] = loss.sum() / n as f64;
        })
    })
}

/// The score of each word is computed once; words of a bag come one after the other, as they do in documents.
fn bags(table: &mut Table, [words, bags, count]: [usize; 3]) -> Result<()> {
    let name = format!("bags of words, {words} words, {count} in {bags} bags");
    let text = include_str!("../programs/embedding_bag.iv");
    let Some(p) = Program::new(table, name, text, &["E", "w", "head"]) else { return Ok(()) };
    let word = random_below(count, words, 771);
    let mut bag = random_below(count, bags, 772);
    bag.sort_unstable();
    let y = random_below(bags, 2, 776).into_iter().map(f64::from).collect();
    let p = p
        .tensor("E", &[words, K], random(words * K, 773))
        .tensor("w", &[count], random(count, 774))
        .tensor("head", &[K], random(K, 775))
        .tensor("y", &[bags], y)
        .map("word", &[count], &word, words)
        .map("bag", &[count], &bag, bags);
    let [e, w, head, y] = p.numbers();
    let (word, bag) = (&word, &bag);
    p.compare(table, || -> Run<'_> {
        let [mut of_word, mut to_word] = [(); 2].map(|()| vec![0.0; words]);
        let mut score = vec![0.0; bags.next_multiple_of(8)];
        Box::new(move |results| {
            let h: Row<C> = row(head, 0);
            (0..words).for_each(|q| of_word[q] = products(h, row::<C>(e, q as u32)).sum());
            score.fill(0.0);
            for q in 0..count {
                score[bag[q] as usize] += w[q] * of_word[word[q] as usize];
            }
            let mut loss = 0.0;
            for j in (0..bags).step_by(8) {
                let z = Lanes::load(&score, j);
                let parts = z.map(vector::softplus).array();
                (j..bags.min(j + 8)).for_each(|k| loss += parts[k - j] - y[k] * score[k]);
                z.map(vector::sigmoid).store(&mut score, j);
            }
            results[0][0] = loss;
            let [_, de, dw, dhead] = results else { return };
            score.iter_mut().zip(y).for_each(|(s, y)| *s -= y);
            to_word.fill(0.0);
            for q in 0..count {
                let (g, word) = (score[bag[q] as usize], word[q] as usize);
                dw[q] = g * of_word[word];
                to_word[word] += g * w[q];
            }
            let mut sums = [Lanes::splat(0.0); C];
            for (q, g) in to_word.iter().enumerate() {
                let (g, e) = (Lanes::splat(*g), row::<C>(e, q as u32));
                for c in 0..C {
                    sums[c] = g.fused(e[c], sums[c]);
                    (g * h[c]).store(de, q * K + 8 * c);
                }
            }
            sums.into_iter().enumerate().for_each(|(c, s)| s.store(dhead, 8 * c));
        })
    })
}

//! Graphs, as sparse matrices and as lists of edges.

use iverson::Result;
use iverson::ir::codegen::vector;

use crate::factorisation::{Row, add, products, row};
use crate::harness::{Run, Table, random, sparse};
use crate::program::{Program, positive, random_below};
use crate::simd::{Lanes, dot, each, mapped};
use crate::tables::{entries, with_positive};

pub fn run(table: &mut Table) -> Result<()> {
    attention(table, 500)?;
    attention(table, 3000)?;
    attention_by_edges(table, 500)?;
    attention_by_edges(table, 3000)?;
    page_rank(table, 400)?;
    page_rank(table, 2000)?;
    labels(table, 2000)?;
    labels(table, 20_000)?;
    springs(table, 2000, 20_000)?;
    springs(table, 20_000, 200_000)
}

const C: usize = 4;
const D: usize = 8 * C;

/// A layer of attention with the edges of each node side by side, and all that a run keeps.
struct Attention<'a> {
    n: usize,
    h: &'a [f64],
    s: &'a [f64],
    t: &'a [f64],
    y: &'a [f64],
}

impl<'a> Attention<'a> {
    fn run(self, neighbours: impl Fn(usize) -> &'a [u32] + Send + 'a) -> Run<'a> {
        let Attention { n, h, s, t, y } = self;
        let [mut left, mut right, mut to_left, mut to_right] = [(); 4].map(|()| vec![0.0; n]);
        let (mut w, mut slopes) = (vec![0.0; n], vec![0.0; n]);
        let (none, one) = (Lanes::splat(0.0), Lanes::splat(1.0));
        Box::new(move |results| {
            let (s_row, t_row): (Row<C>, Row<C>) = (row(s, 0), row(t, 0));
            for i in 0..n {
                let h: Row<C> = row(h, i as u32);
                (left[i], right[i]) = (products(h, s_row).sum(), products(h, t_row).sum());
            }
            if let [_, dh, ..] = results {
                dh.fill(0.0);
                to_right.fill(0.0);
            }
            let mut square = none;
            for i in 0..n {
                let columns = neighbours(i);
                let own = Lanes::splat(left[i]);
                let mut total = none;
                // Weights, and their slopes by the scores, eight neighbours at a time; those that are not there have no weight.
                for (at, columns) in columns.chunks(8).enumerate() {
                    let score = own
                        + match columns.len() {
                            8 => Lanes::gather(&right, columns),
                            some => {
                                Lanes::of(|l| if l < some { right[columns[l] as usize] } else { f64::NEG_INFINITY })
                            }
                        };
                    let slope = none.less(score, one, Lanes::splat(0.2));
                    let e = (score * slope).map(vector::exp);
                    total += e;
                    e.store(&mut w, 8 * at);
                    slope.store(&mut slopes, 8 * at);
                }
                let over = 1.0 / (total.sum() + 1e-9);
                let mut sums = [none; C];
                for (j, w) in columns.iter().zip(&w) {
                    let (w, h) = (Lanes::splat(*w), row::<C>(h, *j));
                    sums.iter_mut().zip(h).for_each(|(s, h)| *s = w.fused(h, *s));
                }
                let (over_lanes, y) = (Lanes::splat(over), row::<C>(y, i as u32));
                let o = mapped(sums, |s| s * over_lanes);
                let r: Row<C> = each(|c| o[c] - y[c]);
                square = r.into_iter().fold(square, |sum, r| r.fused(r, sum));
                let [_, dh, ..] = results else { continue };
                let g = mapped(r, |r| (r + r) * over_lanes);
                let along = products(g, o).sum();
                to_left[i] = 0.0;
                for (at, columns) in columns.chunks(8).enumerate() {
                    let of = |l: usize| if l < columns.len() { products(g, row::<C>(h, columns[l])) } else { none };
                    let by = Lanes::sums(each(of)) - Lanes::splat(along);
                    let w = Lanes::load(&w, 8 * at);
                    let by_score = (by * w * Lanes::load(&slopes, 8 * at)).array();
                    for ((j, w), d) in columns.iter().zip(w.array()).zip(by_score) {
                        to_left[i] += d;
                        to_right[*j as usize] += d;
                        add(dh, *j, Lanes::splat(w), g);
                    }
                }
            }
            results[0][0] = square.sum();
            let [_, dh, ds, dt] = results else { return };
            let (mut by_s, mut by_t) = ([none; C], [none; C]);
            for i in 0..n {
                let (a, b, h) = (Lanes::splat(to_left[i]), Lanes::splat(to_right[i]), row::<C>(h, i as u32));
                for c in 0..C {
                    by_s[c] = a.fused(h[c], by_s[c]);
                    by_t[c] = b.fused(h[c], by_t[c]);
                    let own = a.fused(s_row[c], b.fused(t_row[c], Lanes::load(dh, i * D + 8 * c)));
                    own.store(dh, i * D + 8 * c);
                }
            }
            for c in 0..C {
                by_s[c].store(ds, 8 * c);
                by_t[c].store(dt, 8 * c);
            }
        })
    }
}

fn attention(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("graph attention, {n} nodes"), include_str!("../programs/gat.iv"));
    let Some(p) = Program::new(table, name, text, &["H", "s", "t"]) else { return Ok(()) };
    let a = sparse(n, n, 10, 801);
    let p = p
        .csr("A", &a)
        .tensor("H", &[n, D], random(n * D, 802))
        .tensor("s", &[D], random(D, 803))
        .tensor("t", &[D], random(D, 804))
        .tensor("Y", &[n, D], random(n * D, 805));
    let [_, h, s, t, y] = p.numbers();
    let pattern = a.pattern();
    p.compare(table, || Attention { n, h, s, t, y }.run(|i| &pattern.indices()[pattern.row(i)]))
}

/// Edges come in the order of the nodes that they end in.
fn attention_by_edges(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("graph attention by edges, {n} nodes"), include_str!("../programs/gat_edges.iv"));
    let Some(p) = Program::new(table, name, text, &["H", "s", "t"]) else { return Ok(()) };
    let m = 10 * n;
    let from = random_below(m, n, 811);
    let mut to = random_below(m, n, 812);
    to.sort_unstable();
    let starts: Vec<usize> = (0..=n).map(|i| to.partition_point(|t| (*t as usize) < i)).collect();
    let p = p
        .tensor("H", &[n, D], random(n * D, 813))
        .tensor("s", &[D], random(D, 814))
        .tensor("t", &[D], random(D, 815))
        .tensor("Y", &[n, D], random(n * D, 816))
        .map("from", &[m], &from, n)
        .map("to", &[m], &to, n);
    let [h, s, t, y] = p.numbers();
    let (from, starts) = (&from, &starts);
    p.compare(table, || Attention { n, h, s, t, y }.run(|i| &from[starts[i]..starts[i + 1]]))
}

fn page_rank(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("PageRank residual, {n} nodes"), include_str!("../programs/pagerank.iv"));
    let Some(p) = Program::new(table, name, text, &["A", "r"]) else { return Ok(()) };
    let a = with_positive(&sparse(n, n, 12, 821), 822);
    let p = p.csr("A", &a).tensor("r", &[n], positive(n, 823));
    let [data, r] = p.numbers();
    let pattern = a.pattern();
    p.compare(table, || -> Run<'_> {
        let (mut g, mut over) = (vec![0.0; n], vec![0.0; n]);
        Box::new(move |results| {
            g.iter_mut().zip(r).for_each(|(g, r)| *g = r - 0.15 / n as f64);
            for i in 0..n {
                let (columns, values) = entries(pattern, data, i);
                over[i] = 1.0 / (1e-3 + dot(values, values));
                let share = -0.85 * r[i] * over[i];
                columns.iter().zip(values).for_each(|(j, a)| g[*j as usize] += share * a * a);
            }
            results[0][0] = dot(&g, &g);
            let [_, da, dr] = results else { return };
            g.iter_mut().for_each(|g| *g *= 2.0);
            for i in 0..n {
                let (columns, values) = entries(pattern, data, i);
                let da = &mut da[pattern.row(i)];
                let mut flow = 0.0;
                for ((j, a), d) in columns.iter().zip(values).zip(&mut *da) {
                    *d = -0.85 * g[*j as usize];
                    flow += *d * a * a;
                }
                dr[i] = g[i] + flow * over[i];
                let (share, mean) = (2.0 * r[i] * over[i], flow * over[i]);
                da.iter_mut().zip(values).for_each(|(d, a)| *d = share * a * (*d - mean));
            }
        })
    })
}

fn labels(table: &mut Table, n: usize) -> Result<()> {
    const K: usize = 8;
    let (name, text) = (format!("label propagation, {n} nodes"), include_str!("../programs/label_propagation.iv"));
    let Some(p) = Program::new(table, name, text, &["A", "F"]) else { return Ok(()) };
    let a = with_positive(&sparse(n, n, 12, 831), 832);
    let p = p.csr("A", &a).tensor("F", &[n, K], random(n * K, 833)).tensor("Y", &[n, K], random(n * K, 834)).tensor(
        "known",
        &[n],
        random_below(n, 2, 835).into_iter().map(f64::from).collect(),
    );
    let [data, f, y, known] = p.numbers();
    let pattern = a.pattern();
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let (none, mut smooth, mut fit) = (Lanes::splat(0.0), Lanes::splat(0.0), Lanes::splat(0.0));
            if let [_, _, df] = results {
                df.fill(0.0);
            }
            for i in 0..n {
                let (columns, values) = entries(pattern, data, i);
                let [own] = row::<1>(f, i as u32);
                let known = Lanes::splat(known[i]);
                let e = own - Lanes::load(y, i * K);
                fit = (known * e).fused(e, fit);
                let [_, da, df] = results else {
                    for (j, a) in columns.iter().zip(values) {
                        let d = own - Lanes::load(f, *j as usize * K);
                        smooth = (Lanes::splat(*a) * d).fused(d, smooth);
                    }
                    continue;
                };
                let mut to_own = (known + known) * e;
                let first = pattern.row(i).start;
                for (at, (columns, values)) in columns.chunks(8).zip(values.chunks(8)).enumerate() {
                    let mut squares = [none; 8];
                    for ((j, a), square) in columns.iter().zip(values).zip(&mut squares) {
                        let d = own - Lanes::load(f, *j as usize * K);
                        let ad = Lanes::splat(*a) * d;
                        *square = d * d;
                        smooth = ad.fused(d, smooth);
                        to_own += ad;
                        add(df, *j, Lanes::splat(-1.0), [ad]);
                    }
                    let sums = (Lanes::splat(0.5) * Lanes::sums(squares)).array();
                    da[first + 8 * at..][..columns.len()].copy_from_slice(&sums[..columns.len()]);
                }
                add(df, i as u32, Lanes::splat(1.0), [to_own]);
            }
            results[0][0] = 0.5 * smooth.sum() + fit.sum();
        })
    })
}

/// Eight springs at a time.
fn springs(table: &mut Table, n: usize, m: usize) -> Result<()> {
    let (name, text) = (format!("network of {m} springs"), include_str!("../programs/springs.iv"));
    let Some(p) = Program::new(table, name, text, &["x", "stiffness"]) else { return Ok(()) };
    let [from, to] = [841, 842].map(|seed| random_below(m, n, seed));
    // No spring joins a node with itself.
    let to: Vec<u32> = from.iter().zip(to).map(|(a, b)| if *a == b { (b + 1) % n as u32 } else { b }).collect();
    let p = p
        .tensor("x", &[n, 3], random(3 * n, 843))
        .tensor("rest", &[m], positive(m, 844))
        .tensor("stiffness", &[m], positive(m, 845))
        .map("from", &[m], &from, n)
        .map("to", &[m], &to, n);
    let [x, rest, stiffness] = p.numbers();
    let (from, to) = (&from, &to);
    p.compare(table, || -> Run<'_> {
        Box::new(move |results| {
            let mut energy = Lanes::splat(0.0);
            if let [_, dx, _] = results {
                dx.fill(0.0);
            }
            for e in (0..m).step_by(8) {
                let (from, to) = (&from[e..e + 8], &to[e..e + 8]);
                let (a, b): ([Lanes; 3], [Lanes; 3]) = (Lanes::gather_rows(x, from), Lanes::gather_rows(x, to));
                let d: [Lanes; 3] = each(|k| a[k] - b[k]);
                let long = d[0].fused(d[0], d[1].fused(d[1], d[2] * d[2])).sqrt();
                let (pull, s) = (long - Lanes::load(rest, e), Lanes::load(stiffness, e));
                let square = pull * pull;
                energy = s.fused(square, energy);
                let [_, dx, ds] = results else { continue };
                (Lanes::splat(0.5) * square).store(ds, e);
                let force = s * pull / long;
                let f = mapped(d, |d| (force * d).array());
                for l in 0..8 {
                    for k in 0..3 {
                        dx[3 * from[l] as usize + k] += f[k][l];
                        dx[3 * to[l] as usize + k] -= f[k][l];
                    }
                }
            }
            results[0][0] = 0.5 * energy.sum();
        })
    })
}

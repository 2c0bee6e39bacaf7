//! K5, K7 and K15: factors of observed entries, of matrices and tensors, and embeddings.

use iverson::Result;
use iverson::tensor::{Coo, Dense, Inputs, Relation};

use crate::harness::{Case, Run, Table, random, sparse};
use crate::simd::{Lanes, each};

pub fn run(table: &mut Table) -> Result<()> {
    matrix::<2>(table, 400, 300, 20_000)?;
    matrix::<4>(table, 4000, 3000, 300_000)?;
    matrix::<2>(table, 20_000, 10_000, 1_000_000)?;
    tensor(table, 100, 20_000)?;
    tensor(table, 1000, 500_000)?;
    embedding(table, 10_000)?;
    embedding(table, 1_000_000)
}

pub fn large(table: &mut Table) -> Result<()> {
    matrix::<2>(table, 100_000, 50_000, 10_000_000)
}

fn rows(data: &[f64], n: usize, k: usize) -> Dense {
    Dense::new(&[n, k], data.to_vec()).expect("it fits")
}

/// A row of a factor: `C` vectors.
pub type Row<const C: usize> = [Lanes; C];

#[inline(always)]
pub fn row<const C: usize>(data: &[f64], at: u32) -> Row<C> {
    let data = &data[at as usize * 8 * C..][..8 * C];
    each(|c| Lanes::load(data, 8 * c))
}

/// `data[at] += s * x`
#[inline(always)]
pub fn add<const C: usize>(data: &mut [f64], at: u32, s: Lanes, x: Row<C>) {
    let data = &mut data[at as usize * 8 * C..][..8 * C];
    for (c, x) in x.into_iter().enumerate() {
        s.fused(x, Lanes::load(data, 8 * c)).store(data, 8 * c);
    }
}

/// The product of two rows, of which the sum over all lanes is left to do.
#[inline(always)]
pub fn products<const C: usize>(a: Row<C>, b: Row<C>) -> Lanes {
    a.into_iter().zip(b).skip(1).fold(a[0] * b[0], |sum, (a, b)| a.fused(b, sum))
}

#[inline(always)]
pub fn times<const C: usize>(a: Row<C>, b: Row<C>) -> Row<C> {
    each(|c| a[c] * b[c])
}

/// The residuals of some entries: `data[k]` less the sum of the lanes of `of(k)`, eight at a time, given to `found`, which gets places from 0 on.
#[inline(always)]
pub fn residuals(data: &[f64], of: impl Fn(usize) -> Lanes, mut found: impl FnMut(usize, f64)) -> f64 {
    let (mut squares, none, places) = (Lanes::splat(0.0), Lanes::splat(0.0), Lanes::of(|l| l as f64));
    for (block, data) in data.chunks(8).enumerate() {
        // The last entry stands for those that are not there.
        let (at, last) = (8 * block, data.len() - 1);
        let sums = Lanes::sums(each(|l| of(at + l.min(last))));
        let e = match data.len() {
            8 => Lanes::load(data, 0) - sums,
            some => {
                let e = Lanes::of(|l| data[l.min(last)]) - sums;
                places.less(Lanes::splat(some as f64), e, none)
            }
        };
        squares = e.fused(e, squares);
        e.array().into_iter().take(data.len()).enumerate().for_each(|(l, e)| found(at + l, e));
    }
    squares.sum()
}

fn matrix<const C: usize>(table: &mut Table, m: usize, n: usize, entries: usize) -> Result<()> {
    let k = 8 * C;
    let name = format!("K5 matrix factorisation, {m} x {n}, r = {k}");
    if !table.wants(&name) {
        return Ok(());
    }
    let a = sparse(m, n, entries / m, 10);
    let (u, v) = (random(m * k, 11), random(n * k, 12));
    let mut inputs = Inputs::new();
    inputs.value("A", a.clone()).value("U", rows(&u, m, k)).value("V", rows(&v, n, k));
    let pattern = a.pattern().clone();
    let entries = |i: usize| {
        let row = pattern.row(i);
        (&pattern.indices()[row.clone()], &a.data()[row])
    };
    let value: Run<'_> = Box::new(|results| {
        results[0][0] = (0..m)
            .map(|i| {
                let (u, (columns, data)) = (row::<C>(&u, i as u32), entries(i));
                residuals(data, |at| products(u, row(&v, columns[at])), |_, _| {})
            })
            .sum();
    });
    // One pass: what an entry adds to its row stays in registers, what it adds to its column goes to memory.
    let gradient: Run<'_> = Box::new(|results| {
        let [value, du, dv] = results else { return };
        dv.fill(0.0);
        value[0] = 0.0;
        for i in 0..m {
            let (u, (columns, data)) = (row::<C>(&u, i as u32), entries(i));
            let mut sum = [Lanes::splat(0.0); C];
            value[0] += residuals(
                data,
                |at| products(u, row(&v, columns[at])),
                |at, e| {
                    let (r, v) = (Lanes::splat(-2.0 * e), row::<C>(&v, columns[at]));
                    sum.iter_mut().zip(v).for_each(|(sum, v)| *sum = r.fused(v, *sum));
                    add(dv, columns[at], r, u);
                },
            );
            sum.into_iter().enumerate().for_each(|(c, x)| x.store(du, i * k + 8 * c));
        }
    });
    let text = include_str!("../../tests/programs/k05_matrix_factorisation.iv");
    let case = Case { name: &name, text, wrt: &["U", "V"], inputs: &inputs, constants: &[], data: &[a.data(), &u, &v] };
    table.compare(case, value, gradient)
}

fn tensor(table: &mut Table, n: usize, entries: usize) -> Result<()> {
    const C: usize = 2;
    const K: usize = 8 * C;
    let name = format!("K7 tensor factorisation, {n}^3, {entries} entries");
    if !table.wants(&name) {
        return Ok(());
    }
    let mut rng = fastrand::Rng::with_seed(31);
    let mut tuples: Vec<[usize; 3]> = (0..entries).map(|_| [(); 3].map(|()| rng.usize(0..n))).collect();
    tuples.sort_unstable();
    tuples.dedup();
    let column = |axis: usize| tuples.iter().map(|t| t[axis]).collect();
    let data = random(tuples.len(), 32);
    let t = Coo::new(vec![n; 3], (0..3).map(column).collect(), data.clone()).expect("sorted and in range");
    let factors: Vec<Vec<f64>> = (0..3).map(|k| random(n * K, 33 + k)).collect();
    let mut inputs = Inputs::new();
    inputs.value("T", t);
    for (name, factor) in ["A", "B", "C"].iter().zip(&factors) {
        inputs.value(*name, rows(factor, n, K));
    }
    // Entries row by row of the first factor, with the rows of the other two.
    let starts: Vec<usize> = (0..=n).map(|i| tuples.partition_point(|t| t[0] < i)).collect();
    let others: Vec<[u32; 2]> = tuples.iter().map(|t| [t[1] as u32, t[2] as u32]).collect();
    let [a, b, c] = [0, 1, 2].map(|k: usize| factors[k].as_slice());
    let entries = |i: usize| (&others[starts[i]..starts[i + 1]], &data[starts[i]..starts[i + 1]]);
    let value: Run<'_> = Box::new(|results| {
        results[0][0] = (0..n)
            .map(|i| {
                let (a, (others, data)) = (row::<C>(a, i as u32), entries(i));
                let of = |at: usize| products(times(a, row(b, others[at][0])), row(c, others[at][1]));
                residuals(data, of, |_, _| {})
            })
            .sum();
    });
    // One pass, as for matrices.
    let gradient: Run<'_> = Box::new(|results| {
        let [value, da, db, dc] = results else { return };
        db.fill(0.0);
        dc.fill(0.0);
        value[0] = 0.0;
        for i in 0..n {
            let (a, (others, data)) = (row::<C>(a, i as u32), entries(i));
            let mut sum = [Lanes::splat(0.0); C];
            let of = |at: usize| products(times(a, row(b, others[at][0])), row(c, others[at][1]));
            value[0] += residuals(data, of, |at, e| {
                let [j, k] = others[at];
                let (r, b, c) = (Lanes::splat(-2.0 * e), row::<C>(b, j), row::<C>(c, k));
                sum.iter_mut().zip(times(b, c)).for_each(|(sum, x)| *sum = r.fused(x, *sum));
                add(db, j, r, times(a, c));
                add(dc, k, r, times(a, b));
            });
            sum.into_iter().enumerate().for_each(|(l, x)| x.store(da, i * K + 8 * l));
        }
    });
    let text = include_str!("../../tests/programs/k07_tensor_factorisation.iv");
    let all: Vec<&[f64]> = vec![&data, &factors[0], &factors[1], &factors[2]];
    let case = Case { name: &name, text, wrt: &["A", "B", "C"], inputs: &inputs, constants: &[], data: &all };
    table.compare(case, value, gradient)
}

/// The gradient as that of all of `E`, a dense matrix, and as the rows in use alone.
fn embedding(table: &mut Table, rows_of_e: usize) -> Result<()> {
    const K: usize = 16;
    const BATCH: usize = 1024;
    let name = format!("K15 embedding, V = {rows_of_e}");
    if !table.wants(&name) {
        return Ok(());
    }
    let mut rng = fastrand::Rng::with_seed(41);
    let tokens: Vec<usize> = (0..BATCH).map(|_| rng.usize(0..rows_of_e)).collect();
    let (e, t) = (random(rows_of_e * K, 42), random(BATCH * K, 43));
    let mut inputs = Inputs::new();
    inputs.value("E", rows(&e, rows_of_e, K)).value("t", rows(&t, BATCH, K));
    inputs.relation("tok", Relation::from_map(&[BATCH], tokens.clone(), rows_of_e).expect("in range"));
    let value: Run<'_> = Box::new(|results| {
        let square = |(b, token): (usize, &usize)| {
            let (e, t) = (&e[token * K..][..K], &t[b * K..][..K]);
            e.iter().zip(t).map(|(e, t)| (e - t).powi(2)).sum::<f64>()
        };
        results[0][0] = tokens.iter().enumerate().map(square).sum::<f64>();
    });
    let gradient: Run<'_> = Box::new(|results| {
        let [value, de] = results else { return };
        de.fill(0.0);
        value[0] = 0.0;
        for (b, token) in tokens.iter().enumerate() {
            for q in 0..K {
                let r = e[token * K + q] - t[b * K + q];
                value[0] += r * r;
                de[token * K + q] += 2.0 * r;
            }
        }
    });
    let text = include_str!("../../tests/programs/k15_embedding.iv");
    let data: [&[f64]; 2] = [&e, &t];
    let case = |name| Case { name, text, wrt: &["E"], inputs: &inputs, constants: &[], data: &data };
    table.compare(case(&name), value, gradient)?;
    let mut in_use = tokens.clone();
    in_use.sort_unstable();
    in_use.dedup();
    let place = |token| in_use.binary_search(token).expect("a token in use");
    let places: Vec<usize> = tokens.iter().map(place).collect();
    let gradient: Run<'_> = Box::new(|results| {
        let [value, de] = results else { return };
        de.fill(0.0);
        value[0] = 0.0;
        for ((b, token), place) in tokens.iter().enumerate().zip(&places) {
            for q in 0..K {
                let r = e[token * K + q] - t[b * K + q];
                value[0] += r * r;
                de[place * K + q] += 2.0 * r;
            }
        }
    });
    table.compare_sparse(&case(&format!("{name}, with gradient of rows in use")), &["grad_E"], gradient)
}

//! K5, K7 and K15: factors of observed entries, of matrices and tensors, and embeddings.

use iverson::Result;
use iverson::tensor::{Coo, Dense, Inputs, Relation};

use crate::harness::{Case, Lanes, Run, Table, add_scaled, digest, fused, lanes, random, sparse};

pub fn run(table: &mut Table) -> Result<()> {
    matrix::<16>(table, 400, 300, 20_000)?;
    matrix::<32>(table, 4000, 3000, 300_000)?;
    matrix::<16>(table, 20_000, 10_000, 1_000_000)?;
    tensor(table, 100, 20_000)?;
    tensor(table, 1000, 500_000)?;
    embedding(table, 10_000)?;
    embedding(table, 1_000_000)
}

pub fn large(table: &mut Table) -> Result<()> {
    matrix::<16>(table, 100_000, 50_000, 10_000_000)
}

fn rows(data: &[f64], n: usize, k: usize) -> Dense {
    Dense::new(&[n, k], data.to_vec()).expect("it fits")
}

fn matrix<const K: usize>(table: &mut Table, m: usize, n: usize, entries: usize) -> Result<()> {
    let name = format!("K5 matrix factorisation, {m} x {n}, r = {K}");
    if !table.wants(&name) {
        return Ok(());
    }
    let a = sparse(m, n, entries / m, 10);
    let (u, v) = (random(m * K, 11), random(n * K, 12));
    let mut inputs = Inputs::new();
    inputs.value("A", a.clone()).value("U", rows(&u, m, K)).value("V", rows(&v, n, K));
    let pattern = a.pattern().clone();
    let of = |x: &[f64], i: usize| -> [f64; K] { *x[i * K..].first_chunk().expect("a row") };
    // Rows are as long as the type says, so their loops unroll.
    let residual = |u: &[f64; K], at: usize| {
        let v = of(&v, pattern.indices()[at] as usize);
        let mut sum = Lanes::splat(0.0);
        for c in (0..K).step_by(8) {
            sum = fused(lanes(u, c), lanes(&v, c), sum);
        }
        (a.data()[at] - sum.sum(), v)
    };
    let value: Run<'_> = Box::new(|| {
        let row = |i: usize| {
            let u = of(&u, i);
            pattern.row(i).map(|at| residual(&u, at).0.powi(2)).sum::<f64>()
        };
        digest([&[(0..m).map(row).sum::<f64>()][..]])
    });
    let columns = pattern.transposed();
    let (mut r, mut du, mut dv) = (vec![0.0; pattern.len()], vec![0.0; m * K], vec![0.0; n * K]);
    let gradient: Run<'_> = Box::new(|| {
        let mut value = 0.0;
        for i in 0..m {
            let (row, mut sum) = (of(&u, i), [0.0; K]);
            for at in pattern.row(i) {
                let (e, v) = residual(&row, at);
                value += e * e;
                r[at] = -2.0 * e;
                add_scaled(&mut sum, r[at], &v);
            }
            du[i * K..][..K].copy_from_slice(&sum);
        }
        for j in 0..n {
            let mut sum = [0.0; K];
            for q in columns.indptr[j]..columns.indptr[j + 1] {
                add_scaled(&mut sum, r[columns.positions[q]], &of(&u, columns.rows[q]));
            }
            dv[j * K..][..K].copy_from_slice(&sum);
        }
        digest([&[value][..], &du, &dv])
    });
    let text = include_str!("../../tests/programs/k05_matrix_factorisation.iv");
    let case = Case { name: &name, text, wrt: &["U", "V"], inputs: &inputs, constants: &[], data: &[a.data(), &u, &v] };
    table.compare(case, value, gradient)
}

fn tensor(table: &mut Table, n: usize, entries: usize) -> Result<()> {
    const K: usize = 16;
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
    let of = |k: usize, i: usize| -> [f64; K] { *factors[k][i * K..].first_chunk().expect("a row") };
    let residual = |at: usize| {
        let [a, b, c] = [0, 1, 2].map(|k| of(k, tuples[at][k]));
        let mut sum = Lanes::splat(0.0);
        for l in (0..K).step_by(8) {
            sum = fused(lanes(&a, l) * lanes(&b, l), lanes(&c, l), sum);
        }
        data[at] - sum.sum()
    };
    let value: Run<'_> = Box::new(|| digest([&[(0..tuples.len()).map(|at| residual(at).powi(2)).sum::<f64>()][..]]));
    // The entries in the order of each mode.
    let orders: Vec<Vec<usize>> = (0..3)
        .map(|mode| {
            let mut order: Vec<usize> = (0..tuples.len()).collect();
            order.sort_by_key(|at| tuples[*at][mode]);
            order
        })
        .collect();
    let mut r = vec![0.0; tuples.len()];
    let mut grads = vec![vec![0.0; n * K]; 3];
    let gradient: Run<'_> = Box::new(|| {
        let mut value = 0.0;
        for (at, r) in r.iter_mut().enumerate() {
            let e = residual(at);
            value += e * e;
            *r = -2.0 * e;
        }
        for (mode, grad) in grads.iter_mut().enumerate() {
            let (p, q) = ((mode + 1) % 3, (mode + 2) % 3);
            let order = &orders[mode];
            let mut next = 0;
            for i in 0..n {
                let mut sum = [0.0; K];
                while next < order.len() && tuples[order[next]][mode] == i {
                    let at = order[next];
                    let (x, y) = (of(p, tuples[at][p]), of(q, tuples[at][q]));
                    for l in 0..K {
                        sum[l] = (r[at] * x[l]).mul_add(y[l], sum[l]);
                    }
                    next += 1;
                }
                grad[i * K..][..K].copy_from_slice(&sum);
            }
        }
        digest(std::iter::once(&[value][..]).chain(grads.iter().map(Vec::as_slice)))
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
    let value: Run<'_> = Box::new(|| {
        let square = |(b, token): (usize, &usize)| {
            let (e, t) = (&e[token * K..][..K], &t[b * K..][..K]);
            e.iter().zip(t).map(|(e, t)| (e - t).powi(2)).sum::<f64>()
        };
        digest([&[tokens.iter().enumerate().map(square).sum::<f64>()][..]])
    });
    let mut de = vec![0.0; rows_of_e * K];
    let gradient: Run<'_> = Box::new(|| {
        de.fill(0.0);
        let mut value = 0.0;
        for (b, token) in tokens.iter().enumerate() {
            for q in 0..K {
                let r = e[token * K + q] - t[b * K + q];
                value += r * r;
                de[token * K + q] += 2.0 * r;
            }
        }
        digest([&[value][..], &de])
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
    let mut de = vec![0.0; in_use.len() * K];
    let gradient: Run<'_> = Box::new(|| {
        de.fill(0.0);
        let mut value = 0.0;
        for ((b, token), place) in tokens.iter().enumerate().zip(&places) {
            for q in 0..K {
                let r = e[token * K + q] - t[b * K + q];
                value += r * r;
                de[place * K + q] += 2.0 * r;
            }
        }
        digest([&[value][..], &de])
    });
    table.compare_sparse(&case(&format!("{name}, with gradient of rows in use")), &["grad_E"], gradient)
}

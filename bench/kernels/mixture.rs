//! K9: the Gaussian mixture of GradBench. By hand, matrix products are those of `ndarray`.

use iverson::Result;
use iverson::codegen::vector::{self, V};
use iverson::tensor::{Dense, Inputs, Value};
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, Axis};

use crate::harness::{Case, Run, Table, digest, dot, random};

pub fn run(table: &mut Table) -> Result<()> {
    mixture(table, 1000, 2, 5)?;
    mixture(table, 1000, 32, 10)?;
    mixture(table, 1000, 64, 25)
}

pub fn large(table: &mut Table) -> Result<()> {
    mixture(table, 1000, 64, 100)?;
    mixture(table, 10_000, 64, 25)?;
    mixture(table, 1000, 128, 200)
}

fn lgamma(x: f64) -> f64 {
    libm::lgamma(x)
}

struct Mixture {
    n: usize,
    d: usize,
    k: usize,
    alpha: Vec<f64>,
    mu: Vec<f64>,
    q: Vec<f64>,
    l: Vec<f64>,
    x: Array2<f64>,
}

/// What a run fills.
struct Scratch {
    /// For each component the rows `x - mu`, and their images `y`.
    centred: Vec<Array2<f64>>,
    y: Vec<Array2<f64>>,
    /// Logarithms of weights, then weights.
    w: Vec<f64>,
}

const GAMMA: f64 = 1.5;
const M: f64 = 0.0;

impl Mixture {
    /// The lower triangular factor of component k.
    fn factor(&self, k: usize) -> Array2<f64> {
        let d = self.d;
        Array2::from_shape_fn((d, d), |(i, j)| match i.cmp(&j) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => self.q[k * d + i].exp(),
            std::cmp::Ordering::Greater => self.l[(k * d + i) * d + j],
        })
    }

    fn scratch(&self) -> Scratch {
        let each = || vec![Array2::zeros((self.n, self.d)); self.k];
        Scratch { centred: each(), y: each(), w: vec![0.0; self.n * self.k] }
    }

    fn value(&self, scratch: &mut Scratch) -> f64 {
        let (n, d, k) = (self.n, self.d, self.k);
        let mut size = 0.0;
        let q_sums: Vec<f64> = self.q.chunks(d).map(|q| q.iter().sum()).collect();
        for (c, q_sum) in q_sums.iter().enumerate() {
            let mu = &self.mu[c * d..][..d];
            let factor = self.factor(c);
            size += factor.iter().map(|x| x * x).sum::<f64>();
            for (mut row, x) in scratch.centred[c].outer_iter_mut().zip(self.x.outer_iter()) {
                for ((row, x), mu) in row.iter_mut().zip(x).zip(mu) {
                    *row = x - mu;
                }
            }
            general_mat_mul(1.0, &scratch.centred[c], &factor.t(), 0.0, &mut scratch.y[c]);
            for (i, y) in scratch.y[c].outer_iter().enumerate() {
                let y = y.to_slice().expect("a row");
                scratch.w[i * k + c] = self.alpha[c] + q_sum - 0.5 * dot(y, y);
            }
        }
        let mut likelihood = 0.0;
        for w in scratch.w.chunks_mut(k) {
            likelihood += weights(w);
        }
        let mut alpha = self.alpha.clone();
        likelihood -= n as f64 * weights(&mut alpha);
        let (df, nf, kf) = (d as f64, n as f64, k as f64);
        let freedom = df + M + 1.0;
        let gammas: f64 = (0..d).map(|j| lgamma(0.5 * (freedom - j as f64))).sum();
        let normaliser =
            freedom * df * (GAMMA.ln() - 0.34657359027997264) - 0.28618247146235004 * df * (df - 1.0) - gammas;
        likelihood - 0.9189385332046727 * nf * df + 0.5 * GAMMA * GAMMA * size
            - M * q_sums.iter().sum::<f64>()
            - kf * normaliser
    }
}

/// `logsumexp`, and its gradient in the place of what is given.
fn weights(w: &mut [f64]) -> f64 {
    let top = w.iter().fold(f64::NEG_INFINITY, |top, x| top.max(*x));
    let mut sum = 0.0;
    for w in w.chunks_mut(8) {
        let mut block = [f64::NEG_INFINITY; 8];
        w.iter().zip(&mut block).for_each(|(w, b)| *b = w - top);
        let e = vector::exp(V(block));
        sum += e.sum();
        w.copy_from_slice(&e.0[..w.len()]);
    }
    w.iter_mut().for_each(|w| *w /= sum);
    top + sum.ln()
}

fn mixture(table: &mut Table, n: usize, d: usize, k: usize) -> Result<()> {
    let name = format!("K9 Gaussian mixture, d = {d}, K = {k}, n = {n}");
    if !table.wants(&name) {
        return Ok(());
    }
    let mut l = random(k * d * d, 74);
    for (at, l) in l.iter_mut().enumerate() {
        if at % d >= at / d % d {
            *l = 0.0;
        }
    }
    let x = Array2::from_shape_vec((n, d), random(n * d, 75)).expect("it fits");
    let q: Vec<f64> = random(k * d, 73).into_iter().map(|q| 0.5 * q).collect();
    let model = Mixture { n, d, k, alpha: random(k, 71), mu: random(k * d, 72), q, l, x };
    let mut inputs = Inputs::new();
    let dense = |shape: &[usize], data: &[f64]| Dense::new(shape, data.to_vec()).expect("it fits");
    let points = model.x.as_slice().expect("row by row");
    inputs
        .value("alpha", Value::vector(model.alpha.clone()))
        .value("mu", dense(&[k, d], &model.mu))
        .value("q", dense(&[k, d], &model.q))
        .value("L", dense(&[k, d, d], &model.l))
        .value("x", dense(&[n, d], points))
        .value("gamma", Value::scalar(GAMMA))
        .value("m", Value::scalar(M));
    let (mut scratch, mut other) = (model.scratch(), model.scratch());
    let value: Run<'_> = Box::new(|| digest([&[model.value(&mut scratch)][..]]));
    let gradient: Run<'_> = Box::new(|| {
        let value = model.value(&mut other);
        let mut alpha = model.alpha.clone();
        weights(&mut alpha);
        let mut dalpha: Vec<f64> = alpha.iter().map(|p| -(n as f64) * p).collect();
        let (mut dmu, mut dq, mut dl) = (Vec::new(), Vec::new(), Vec::new());
        for (c, dalpha) in dalpha.iter_mut().enumerate() {
            let factor = model.factor(c);
            let mut mass = 0.0;
            for (i, mut y) in other.y[c].outer_iter_mut().enumerate() {
                let p = other.w[i * k + c];
                mass += p;
                y.mapv_inplace(|y| -p * y);
            }
            *dalpha += mass;
            let dy = &other.y[c];
            dmu.extend(factor.t().dot(&dy.sum_axis(Axis(0))).iter().map(|x| -x));
            let mut products = Array2::zeros((d, d));
            general_mat_mul(1.0, &dy.t(), &other.centred[c], 0.0, &mut products);
            for i in 0..d {
                let e = factor[[i, i]];
                dq.push(mass + products[[i, i]] * e + GAMMA * GAMMA * e * e - M);
                let lower = |j: usize| products[[i, j]] + GAMMA * GAMMA * factor[[i, j]];
                dl.extend((0..d).map(|j| if j < i { lower(j) } else { 0.0 }));
            }
        }
        digest([&[value][..], &dalpha, &dmu, &dq, &dl])
    });
    let text = include_str!("../../tests/programs/k09_gaussian_mixture.iv");
    let data: Vec<&[f64]> = vec![&model.alpha, &model.mu, &model.q, &model.l, points, &[GAMMA], &[M]];
    let case =
        Case { name: &name, text, wrt: &["alpha", "mu", "q", "L"], inputs: &inputs, constants: &[], data: &data };
    table.compare(case, value, gradient)
}

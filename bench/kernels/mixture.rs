//! K9: the Gaussian mixture of GradBench.
//!
//! By hand, points lie in the lanes. The images of a panel of points by a triangular factor, and their products with the points, are computed in
//! tiles that stay in registers. The gradient computes images anew: that is cheaper than reading all of them from memory.

use iverson::Result;
use iverson::ir::codegen::vector;
use iverson::tensor::{Dense, Inputs, Value};

use crate::harness::{Case, Run, Table, random};
use crate::simd::{Lanes, each, mapped};

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

struct Mixture {
    n: usize,
    d: usize,
    k: usize,
    alpha: Vec<f64>,
    mu: Vec<f64>,
    q: Vec<f64>,
    l: Vec<f64>,
    x: Vec<f64>,
}

/// Points of a panel, and tiles of so many rows by so many vectors or columns.
pub const PANEL: usize = 128;
pub const ROWS: usize = 4;
const VECTORS: usize = if cfg!(target_feature = "avx512f") { 4 } else { 1 };

/// What a run fills; numbers of points and of coordinates are rounded up, and what is added is zero.
struct Scratch {
    /// The points, coordinate by coordinate.
    x: Vec<f64>,
    /// The triangular factor of each component.
    factors: Vec<f64>,
    /// Logarithms of weights, then weights, of each component.
    w: Vec<f64>,
    /// The points of a panel less the mean of a component, and their images.
    centred: Vec<f64>,
    images: Vec<f64>,
    /// The products of images and points.
    products: Vec<f64>,
}

const GAMMA: f64 = 1.5;
const M: f64 = 0.0;

impl Mixture {
    fn padded(&self) -> [usize; 2] {
        [self.n.next_multiple_of(PANEL), self.d.next_multiple_of(ROWS)]
    }

    fn scratch(&self) -> Scratch {
        let [n, d] = self.padded();
        let zeros = |len: usize| vec![0.0; len];
        Scratch {
            x: zeros(n * d),
            factors: zeros(self.k * d * d),
            w: zeros(self.k * n),
            centred: zeros(d * PANEL),
            images: zeros(d * PANEL),
            products: zeros(d * d),
        }
    }

    /// The factors of all components, and the points coordinate by coordinate.
    fn prepare(&self, scratch: &mut Scratch) {
        let [n, d] = self.padded();
        for (c, factor) in scratch.factors.chunks_exact_mut(d * d).enumerate() {
            for (i, row) in factor.chunks_exact_mut(d).take(self.d).enumerate() {
                row[..i].copy_from_slice(&self.l[(c * self.d + i) * self.d..][..i]);
                row[i] = self.q[c * self.d + i].exp();
            }
        }
        for (i, x) in self.x.chunks_exact(self.d).enumerate() {
            x.iter().enumerate().for_each(|(j, x)| scratch.x[j * n + i] = *x);
        }
    }

    /// Centres a panel of points by the mean of a component, and multiplies it by its factor.
    #[inline(always)]
    fn images(&self, c: usize, first: usize, scratch: &mut Scratch) {
        let [n, d] = self.padded();
        let Scratch { x, factors, centred, images, .. } = scratch;
        for (j, mu) in self.mu[c * self.d..][..self.d].iter().enumerate() {
            let (x, mu) = (&x[j * n + first..][..PANEL], Lanes::splat(*mu));
            let row = &mut centred[j * PANEL..][..PANEL];
            (0..PANEL).step_by(8).for_each(|l| (Lanes::load(x, l) - mu).store(row, l));
        }
        let factor = &factors[c * d * d..][..d * d];
        for (i, l) in (0..d).step_by(ROWS).flat_map(|i| (0..PANEL).step_by(8 * VECTORS).map(move |l| (i, l))) {
            let rows: [&[f64]; ROWS] = each(|r| &factor[(i + r) * d..][..i + ROWS]);
            let mut sums = [[Lanes::splat(0.0); VECTORS]; ROWS];
            for j in 0..i + ROWS {
                let points = &centred[j * PANEL + l..][..8 * VECTORS];
                let points: [Lanes; VECTORS] = each(|v| Lanes::load(points, 8 * v));
                for (sums, row) in sums.iter_mut().zip(rows) {
                    let a = Lanes::splat(row[j]);
                    sums.iter_mut().zip(points).for_each(|(sum, x)| *sum = a.fused(x, *sum));
                }
            }
            for (r, sums) in sums.into_iter().enumerate() {
                sums.into_iter().enumerate().for_each(|(v, y)| y.store(images, (i + r) * PANEL + l + 8 * v));
            }
        }
    }

    fn value(&self, scratch: &mut Scratch) -> f64 {
        let (df, kf, [n, d]) = (self.d as f64, self.k as f64, self.padded());
        self.prepare(scratch);
        let size: f64 = scratch.factors.iter().map(|x| x * x).sum();
        let mut q_sum = 0.0;
        for (c, q) in self.q.chunks(self.d).enumerate() {
            let own: f64 = q.iter().sum();
            q_sum += own;
            let base = Lanes::splat(self.alpha[c] + own);
            for first in (0..n).step_by(PANEL) {
                self.images(c, first, scratch);
                for l in (0..PANEL).step_by(8) {
                    let image = |i: usize| Lanes::load(&scratch.images, i * PANEL + l);
                    let square = (0..d).fold(Lanes::splat(0.0), |sum, i| image(i).fused(image(i), sum));
                    Lanes::splat(-0.5).fused(square, base).store(&mut scratch.w, c * n + first + l);
                }
            }
        }
        let blocks = (0..n).step_by(8).map(|first| weights(&mut scratch.w, n, first));
        let of_points: f64 = blocks.flat_map(|block| block.array()).take(self.n).sum();
        let mut alpha = vec_of_lanes(&self.alpha);
        let likelihood = of_points - self.n as f64 * weights(&mut alpha, 8, 0).array()[0];
        let freedom = df + M + 1.0;
        let gammas: f64 = (0..self.d).map(|j| libm::lgamma(0.5 * (freedom - j as f64))).sum();
        let normaliser =
            freedom * df * (GAMMA.ln() - 0.34657359027997264) - 0.28618247146235004 * df * (df - 1.0) - gammas;
        likelihood - 0.9189385332046727 * self.n as f64 * df + 0.5 * GAMMA * GAMMA * size - M * q_sum - kf * normaliser
    }

    /// Fills the gradient; the weights are those of the value.
    fn gradient(&self, scratch: &mut Scratch, [dalpha, dmu, dq, dl]: [&mut [f64]; 4]) {
        let [n, d] = self.padded();
        let mut alpha = vec_of_lanes(&self.alpha);
        weights(&mut alpha, 8, 0);
        for c in 0..self.k {
            let mut mass = 0.0;
            let dmu = &mut dmu[c * self.d..][..self.d];
            dmu.fill(0.0);
            scratch.products.fill(0.0);
            for first in (0..n).step_by(PANEL) {
                self.images(c, first, scratch);
                // Points that were added have no weight.
                let real = self.n.saturating_sub(first).min(PANEL);
                scratch.w[c * n + first..][real..PANEL].fill(0.0);
                let w = &scratch.w[c * n + first..][..PANEL];
                mass += w.iter().sum::<f64>();
                for image in scratch.images.chunks_exact_mut(PANEL) {
                    (0..PANEL).step_by(8).for_each(|l| (Lanes::load(image, l) * Lanes::load(w, l)).store(image, l));
                }
                add_products(&scratch.images, &scratch.centred, &mut scratch.products, d);
                for (i, image) in scratch.images.chunks_exact(PANEL).take(self.d).enumerate() {
                    let sum = (0..PANEL).step_by(8).fold(Lanes::splat(0.0), |sum, l| sum + Lanes::load(image, l)).sum();
                    let row = &scratch.factors[(c * d + i) * d..][..=i];
                    dmu.iter_mut().zip(row).for_each(|(dmu, a)| *dmu = sum.mul_add(*a, *dmu));
                }
            }
            dalpha[c] = mass - self.n as f64 * alpha[8 * c];
            for i in 0..self.d {
                let (factor, products) = (&scratch.factors[(c * d + i) * d..], &scratch.products[i * d..]);
                dq[c * self.d + i] = mass - products[i] * factor[i] + GAMMA * GAMMA * factor[i] * factor[i] - M;
                let row = &mut dl[(c * self.d + i) * self.d..][..self.d];
                row.fill(0.0);
                (0..i).for_each(|j| row[j] = GAMMA * GAMMA * factor[j] - products[j]);
            }
        }
    }
}

/// Adds the products of all rows of `y` with those of `x` that are not later, in tiles.
#[inline(always)]
pub fn add_products(y: &[f64], x: &[f64], products: &mut [f64], d: usize) {
    for (i, j) in (0..d).step_by(ROWS).flat_map(|i| (0..=i).step_by(ROWS).map(move |j| (i, j))) {
        let (y, x): ([&[f64]; ROWS], [&[f64]; ROWS]) =
            (each(|r| &y[(i + r) * PANEL..][..PANEL]), each(|r| &x[(j + r) * PANEL..][..PANEL]));
        let mut sums = [[Lanes::splat(0.0); ROWS]; ROWS];
        for l in (0..PANEL).step_by(8) {
            let x = mapped(x, |x| Lanes::load(x, l));
            for (sums, y) in sums.iter_mut().zip(y) {
                let y = Lanes::load(y, l);
                sums.iter_mut().zip(x).for_each(|(sum, x)| *sum = y.fused(x, *sum));
            }
        }
        for half in 0..ROWS / 2 {
            let two = Lanes::sums(each(|l| sums[2 * half + l / ROWS][l % ROWS])).array();
            for (l, sum) in two.into_iter().enumerate() {
                products[(i + 2 * half + l / ROWS) * d + j + l % ROWS] += sum;
            }
        }
    }
}

/// Numbers, each in the first of eight lanes.
fn vec_of_lanes(x: &[f64]) -> Vec<f64> {
    x.iter().flat_map(|x| [*x; 8]).collect()
}

/// `logsumexp` of eight points, whose numbers are rows of so many, and its gradient in the place of what is given.
#[inline(always)]
fn weights(w: &mut [f64], stride: usize, first: usize) -> Lanes {
    let rows = w.len() / stride;
    let top = (0..rows).fold([f64::NEG_INFINITY; 8], |top, c| {
        let w = Lanes::load(w, c * stride + first).array();
        each(|l| if w[l] > top[l] { w[l] } else { top[l] })
    });
    let top = Lanes::load(&top, 0);
    let mut sum = Lanes::splat(0.0);
    for c in 0..rows {
        let e = (Lanes::load(w, c * stride + first) - top).map(vector::exp);
        sum += e;
        e.store(w, c * stride + first);
    }
    let over = Lanes::load(&sum.array().map(|x| 1.0 / x), 0);
    (0..rows).for_each(|c| (Lanes::load(w, c * stride + first) * over).store(w, c * stride + first));
    top + sum.map(vector::ln)
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
    let q: Vec<f64> = random(k * d, 73).into_iter().map(|q| 0.5 * q).collect();
    let model = Mixture { n, d, k, alpha: random(k, 71), mu: random(k * d, 72), q, l, x: random(n * d, 75) };
    let mut inputs = Inputs::new();
    let dense = |shape: &[usize], data: &[f64]| Dense::new(shape, data.to_vec()).expect("it fits");
    let points = model.x.as_slice();
    inputs
        .value("alpha", Value::vector(model.alpha.clone()))
        .value("mu", dense(&[k, d], &model.mu))
        .value("q", dense(&[k, d], &model.q))
        .value("L", dense(&[k, d, d], &model.l))
        .value("x", dense(&[n, d], points))
        .value("gamma", Value::scalar(GAMMA))
        .value("m", Value::scalar(M));
    let (mut scratch, mut other) = (model.scratch(), model.scratch());
    let value: Run<'_> = Box::new(|results| results[0][0] = model.value(&mut scratch));
    let gradient: Run<'_> = Box::new(|results| {
        let [value, dalpha, dmu, dq, dl] = results else { return };
        value[0] = model.value(&mut other);
        model.gradient(&mut other, [dalpha, dmu, dq, dl]);
    });
    let text = include_str!("../../tests/programs/k09_gaussian_mixture.iv");
    let data: Vec<&[f64]> = vec![&model.alpha, &model.mu, &model.q, &model.l, points, &[GAMMA], &[M]];
    let case =
        Case { name: &name, text, wrt: &["alpha", "mu", "q", "L"], inputs: &inputs, constants: &[], data: &data };
    table.compare(case, value, gradient)
}

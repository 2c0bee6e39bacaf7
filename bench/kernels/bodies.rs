//! Sums over all pairs of points.
//!
//! By hand each pair is taken once, coordinates lie one after the other, and eight partners of a point are taken at a time.

use iverson::Result;
use iverson::ir::codegen::vector;

use crate::harness::{Run, Table, random, sparse};
use crate::program::Program;
use crate::simd::{Lanes, dot, each, mapped};
use crate::tables::{entries, with_positive};

pub fn run(table: &mut Table) -> Result<()> {
    lennard_jones(table, 8)?;
    lennard_jones(table, 12)?;
    coulomb(table, 600)?;
    coulomb(table, 2000)?;
    matern(table, 256)?;
    matern(table, 900)?;
    ridge(table, 256)?;
    ridge(table, 1000)?;
    neighbours(table, 400)?;
    neighbours(table, 1200)
}

/// Coordinates one after the other, and room for what is added to them; there is room for eight numbers more.
struct Points<const D: usize> {
    x: [Vec<f64>; D],
    d: [Vec<f64>; D],
}

impl<const D: usize> Points<D> {
    fn new(n: usize) -> Points<D> {
        let zeros = || std::array::from_fn(|_| vec![0.0; n + 8]);
        Points { x: zeros(), d: zeros() }
    }

    fn load(&mut self, x: &[f64]) {
        for (k, column) in self.x.iter_mut().enumerate() {
            column.iter_mut().zip(x.chunks_exact(D)).for_each(|(to, x)| *to = x[k]);
        }
        self.d.iter_mut().for_each(|d| d.fill(0.0));
    }

    /// Calls `f` with the differences of point `i` and eight points before it, and with 1 for those that are there and 0 for others; what it returns, times
    /// the differences, is added to point `i`, and taken from the others, where a gradient is wanted.
    #[inline(always)]
    fn before(&mut self, i: usize, gradient: bool, mut f: impl FnMut(usize, Lanes, Lanes) -> Lanes) {
        let own: [Lanes; D] = each(|k| Lanes::splat(self.x[k][i]));
        let mut to_own = [Lanes::splat(0.0); D];
        let (one, none) = (Lanes::splat(1.0), Lanes::splat(0.0));
        let mut block = |j: usize, there: Lanes| {
            let d: [Lanes; D] = each(|k| own[k] - Lanes::load(&self.x[k], j));
            let square = d.iter().skip(1).fold(d[0] * d[0], |sum, d| d.fused(*d, sum));
            let g = f(j, square, there);
            if gradient {
                for k in 0..D {
                    let along = g * d[k];
                    to_own[k] += along;
                    (Lanes::load(&self.d[k], j) - along).store(&mut self.d[k], j);
                }
            }
        };
        let whole = i / 8 * 8;
        (0..whole).step_by(8).for_each(|j| block(j, one));
        if whole < i {
            let count = Lanes::splat((i - whole) as f64);
            block(whole, Lanes::of(|l| l as f64).less(count, one, none));
        }
        if gradient {
            (0..D).for_each(|k| self.d[k][i] += to_own[k].sum());
        }
    }

    fn store(&self, dx: &mut [f64]) {
        for (k, column) in self.d.iter().enumerate() {
            dx.chunks_exact_mut(D).zip(column).for_each(|(dx, d)| dx[k] = *d);
        }
    }
}

/// Points near those of a lattice, shuffled.
fn lattice(side: usize, seed: u64) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut places: Vec<usize> = (0..side * side * side).collect();
    rng.shuffle(&mut places);
    let at = |place: usize| [place / side / side, place / side % side, place % side];
    places.into_iter().flat_map(at).map(|x| 1.2 * x as f64 + 0.2 * rng.f64()).collect()
}

fn lennard_jones(table: &mut Table, side: usize) -> Result<()> {
    let n = side * side * side;
    let (name, text) = (format!("Lennard-Jones, {n} atoms"), include_str!("../programs/lennard_jones.iv"));
    let Some(p) = Program::new(table, name, text, &["x"]) else { return Ok(()) };
    let p = p.tensor("x", &[n, 3], lattice(side, 1001)).tensor("cutoff", &[], vec![2.5]);
    let [x, cutoff] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let mut points = Points::<3>::new(n);
        Box::new(move |results| {
            points.load(x);
            let (none, one, far) = (Lanes::splat(0.0), Lanes::splat(1.0), Lanes::splat(cutoff[0] * cutoff[0]));
            let (mut energy, gradient) = (none, results.len() > 1);
            for i in 0..n {
                points.before(i, gradient, |_, square, there| {
                    // Those that are not there are far away.
                    let square = none.less(there, square, far);
                    let near = |x| square.less(far, x, none);
                    let over = one / square;
                    let sixth = over * over * over;
                    energy += near(sixth * (sixth - one));
                    near(Lanes::splat(24.0) * over * sixth * (one - (sixth + sixth)))
                });
            }
            results[0][0] = 4.0 * energy.sum();
            if let [_, dx] = results {
                points.store(dx);
            }
        })
    })
}

fn coulomb(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("Coulomb energy, {n} charges"), include_str!("../programs/coulomb.iv"));
    let Some(p) = Program::new(table, name, text, &["x", "q"]) else { return Ok(()) };
    let p = p.tensor("x", &[n, 3], random(3 * n, 1011)).tensor("q", &[n], random(n, 1012));
    let [x, q] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let (mut points, mut charges, mut potential) = (Points::<3>::new(n), vec![0.0; n + 8], vec![0.0; n + 8]);
        Box::new(move |results| {
            points.load(x);
            charges[..n].copy_from_slice(q);
            potential.fill(0.0);
            let (none, one, soft) = (Lanes::splat(0.0), Lanes::splat(1.0), Lanes::splat(0.01));
            let (mut energy, gradient) = (0.0, results.len() > 1);
            for i in 0..n {
                let mut own = none;
                let q = Lanes::splat(charges[i]);
                points.before(i, gradient, |j, square, there| {
                    let other = there * Lanes::load(&charges, j);
                    let over = one / (square + soft).sqrt();
                    own = other.fused(over, own);
                    if gradient {
                        (there * q).fused(over, Lanes::load(&potential, j)).store(&mut potential, j);
                        return (none - q) * other * (over * over * over);
                    }
                    none
                });
                let sum = own.sum();
                energy += charges[i] * sum;
                potential[i] += sum;
            }
            results[0][0] = energy;
            if let [_, dx, dq] = results {
                points.store(dx);
                dq.copy_from_slice(&potential[..n]);
            }
        })
    })
}

fn matern(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("Matern kernel, {n} points"), include_str!("../programs/matern.iv"));
    let Some(p) = Program::new(table, name, text, &["x", "a", "scale", "noise"]) else { return Ok(()) };
    let p = p
        .tensor("x", &[n, 3], random(3 * n, 1021))
        .tensor("a", &[n], random(n, 1022))
        .tensor("scale", &[], vec![0.7])
        .tensor("noise", &[], vec![0.1]);
    let [x, a, scale, noise] = p.numbers();
    p.compare(table, || -> Run<'_> {
        let (mut points, mut weights, mut of) = (Points::<3>::new(n), vec![0.0; n + 8], vec![0.0; n + 8]);
        Box::new(move |results| {
            points.load(x);
            weights[..n].copy_from_slice(a);
            of.fill(0.0);
            let (none, one, third) = (Lanes::splat(0.0), Lanes::splat(1.0), Lanes::splat(1.0 / 3.0));
            let (five, tiny, over) = (Lanes::splat(5.0), Lanes::splat(1e-12), Lanes::splat(1.0 / scale[0]));
            let (mut sum, mut to_scale, gradient) = (0.0, none, results.len() > 1);
            let slope = Lanes::splat(-10.0 / 3.0 / (scale[0] * scale[0]));
            for i in 0..n {
                let (mut own, w) = (none, Lanes::splat(weights[i]));
                points.before(i, gradient, |j, square, there| {
                    let r = square.fused(five, tiny).sqrt() * over;
                    let e = (none - r).map(vector::exp);
                    let k = (r * r).fused(third, one + r) * e;
                    let other = there * Lanes::load(&weights, j);
                    own = other.fused(k, own);
                    if !gradient {
                        return none;
                    }
                    (there * w).fused(k, Lanes::load(&of, j)).store(&mut of, j);
                    let g = w * other * (one + r) * e;
                    to_scale = (r * r).fused(g, to_scale);
                    slope * g
                });
                let own = own.sum();
                sum += weights[i] * own;
                of[i] += own;
            }
            let r = 1e-6 / scale[0];
            let e = (-r).exp();
            let (aa, own) = (dot(a, a), (1.0 + r + r * r / 3.0) * e);
            results[0][0] = 2.0 * sum + aa * (own + noise[0]);
            let [_, dx, da, dscale, dnoise] = results else { return };
            points.store(dx);
            da.iter_mut().zip(&of).zip(a).for_each(|((d, of), a)| *d = 2.0 * (of + a * (own + noise[0])));
            dscale[0] = (2.0 * to_scale.sum() + aa * r * r * (1.0 + r) * e) / (3.0 * scale[0]);
            dnoise[0] = aa;
        })
    })
}

fn ridge(table: &mut Table, n: usize) -> Result<()> {
    const D: usize = 8;
    let (name, text) = (format!("kernel ridge regression, {n} points"), include_str!("../programs/kernel_ridge.iv"));
    let Some(p) = Program::new(table, name, text, &["a", "gamma"]) else { return Ok(()) };
    let p = p
        .tensor("X", &[n, D], random(D * n, 1031))
        .tensor("a", &[n], random(n, 1032))
        .tensor("y", &[n], random(n, 1033))
        .tensor("gamma", &[], vec![0.4]);
    let [x, a, y, gamma] = p.numbers();
    p.compare(table, || -> Run<'_> {
        // Numbers of the kernel and squares are kept for the gradient, row by row up to the diagonal.
        let (mut points, mut weights, mut f) = (Points::<D>::new(n), vec![0.0; n + 8], vec![0.0; n + 8]);
        let (mut kernel, mut squares) = (vec![0.0; n * (n + 8)], vec![0.0; n * (n + 8)]);
        let (mut g, mut back) = (vec![0.0; n + 8], vec![0.0; n + 8]);
        Box::new(move |results| {
            points.load(x);
            weights[..n].copy_from_slice(a);
            let (none, s, gradient) = (Lanes::splat(0.0), Lanes::splat(-gamma[0]), results.len() > 1);
            f[..n].copy_from_slice(a);
            f[n..].fill(0.0);
            for i in 0..n {
                let (mut own, w) = (none, Lanes::splat(weights[i]));
                points.before(i, false, |j, square, there| {
                    let k = there * (s * square).map(vector::exp);
                    own = k.fused(Lanes::load(&weights, j), own);
                    w.fused(k, Lanes::load(&f, j)).store(&mut f, j);
                    if gradient {
                        k.store(&mut kernel, i * (n + 8) + j);
                        square.store(&mut squares, i * (n + 8) + j);
                    }
                    none
                });
                f[i] += own.sum();
            }
            let (f, mut fit) = (&f[..n], 0.0);
            for i in 0..n {
                let r = f[i] - y[i];
                fit += r * r + 0.1 * a[i] * f[i];
                g[i] = 2.0 * r + 0.1 * a[i];
            }
            results[0][0] = fit;
            let [_, da, dgamma] = results else { return };
            let mut to_gamma = none;
            back.copy_from_slice(&g);
            for i in 0..n {
                let (mut own, gi, ai) = (none, Lanes::splat(g[i]), Lanes::splat(weights[i]));
                for j in (0..i).step_by(8) {
                    let at = i * (n + 8) + j;
                    let (k, gj, aj) = (Lanes::load(&kernel, at), Lanes::load(&g, j), Lanes::load(&weights, j));
                    own = k.fused(gj, own);
                    gi.fused(k, Lanes::load(&back, j)).store(&mut back, j);
                    to_gamma = (k * Lanes::load(&squares, at)).fused(gi.fused(aj, gj * ai), to_gamma);
                }
                back[i] += own.sum();
            }
            dgamma[0] = -to_gamma.sum();
            (0..n).for_each(|i| da[i] = back[i] + 0.1 * f[i]);
        })
    })
}

fn neighbours(table: &mut Table, n: usize) -> Result<()> {
    let (name, text) = (format!("t-SNE, {n} points"), include_str!("../programs/tsne.iv"));
    let Some(p) = Program::new(table, name, text, &["y"]) else { return Ok(()) };
    let near = with_positive(&sparse(n, n, 30, 1041), 1042);
    let p = p.csr("P", &near).tensor("y", &[n, 2], random(2 * n, 1043));
    let [data, y] = p.numbers();
    let pattern = near.pattern();
    p.compare(table, || -> Run<'_> {
        let mut points = Points::<2>::new(n);
        Box::new(move |results| {
            points.load(y);
            let (none, one, gradient) = (Lanes::splat(0.0), Lanes::splat(1.0), results.len() > 1);
            let mut total = none;
            for i in 0..n {
                points.before(i, gradient, |_, square, there| {
                    let w = there / (one + square);
                    total += w;
                    w * w
                });
            }
            let total = 2.0 * total.sum();
            if let [_, dy] = results {
                points.store(dy);
                dy.iter_mut().for_each(|d| *d *= -4.0 / total);
            }
            let mut attract = none;
            for i in 0..n {
                let (columns, values) = entries(pattern, data, i);
                let own = [y[2 * i], y[2 * i + 1]];
                for (columns, values) in columns.chunks(8).zip(values.chunks(8)) {
                    let number = |l: usize, k: usize| match columns.get(l) {
                        Some(j) => own[k] - y[2 * *j as usize + k],
                        None => 0.0,
                    };
                    let d = [Lanes::of(|l| number(l, 0)), Lanes::of(|l| number(l, 1))];
                    let p = Lanes::of(|l| values.get(l).copied().unwrap_or(0.0));
                    let square = d[0].fused(d[0], d[1] * d[1]);
                    attract = p.fused(square.map(vector::log1p), attract);
                    let [_, dy] = results else { continue };
                    let g = (p + p) / (one + square);
                    let g = mapped(d, |d| (g * d).array());
                    for (l, j) in columns.iter().enumerate() {
                        for k in 0..2 {
                            dy[2 * i + k] += g[k][l];
                            dy[2 * *j as usize + k] -= g[k][l];
                        }
                    }
                }
            }
            results[0][0] = attract.sum() + total.ln();
        })
    })
}

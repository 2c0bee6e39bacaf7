//! Levenberg and Marquardt's method for bundle adjustment: cameras and points from where cameras saw points, with noise.
//!
//! The sparse Jacobian `J` of the residuals `r` is a symbolic program; `J' J` is multiplied out by `faer`, since each of its entries is a sum of
//! many products where `J` is one of sums. A step solves `(J' J + damping * diagonal) step = J' r`.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::sparse::linalg::matmul::{
    SparseMatMulInfo, sparse_sparse_matmul_numeric, sparse_sparse_matmul_numeric_scratch, sparse_sparse_matmul_symbolic,
};
use faer::sparse::{SparseColMatMut, SparseColMatRef, SymbolicSparseColMat};
use faer::{Accum, Par};
use iverson::kernel::Engine;
use iverson::tensor::{CsrPattern, Dense, Inputs, Relation};
use iverson::{Function, Mode, Request};

use crate::{Summary, System, milliseconds, norm, timed};

const RESIDUALS: &str = include_str!("residuals.iv");
const STEPS: usize = 50;
/// The standard deviation of what cameras see, in pixels.
pub const NOISE: f64 = 0.5;
/// The parameters of a camera and of a point.
const CAMERA: usize = 9;
const POINT: usize = 3;

/// Cameras, points and observations.
struct Scene {
    cameras: Vec<f64>,
    points: Vec<f64>,
    of: Vec<usize>,
    pt: Vec<usize>,
}

/// A number of mean 0 and variance 1.
fn normal(rng: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

impl Scene {
    /// Cameras on a ring around points in a cube, which each see the centre; each point is seen by some of them.
    fn new(n: usize, m: usize, each: usize, rng: &mut fastrand::Rng) -> Scene {
        let (mut cameras, mut points, mut of, mut pt) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for c in 0..n {
            let around = 0.3 + 5.5 * c as f64 / n as f64;
            cameras.extend([0.2 * normal(rng), around, 0.2 * normal(rng)]);
            cameras.extend([0.1 * normal(rng), 0.1 * normal(rng), 5.0 + 0.3 * normal(rng)]);
            cameras.extend([500.0 + 20.0 * normal(rng), -0.05, 0.01]);
        }
        for p in 0..m {
            points.extend([(); POINT].map(|()| 2.0 * rng.f64() - 1.0));
            let mut seen_by = rng.choose_multiple(0..n, each.min(n));
            seen_by.sort_unstable();
            pt.extend(std::iter::repeat_n(p, seen_by.len()));
            of.extend(seen_by);
        }
        Scene { cameras, points, of, pt }
    }
}

/// The matrix `J' J` for Jacobians of one pattern.
struct Product {
    /// The places of `J'`, column by column: those of `J`, row by row.
    left: SymbolicSparseColMat<usize>,
    /// The places of `J`, column by column.
    right: SymbolicSparseColMat<usize>,
    /// Where the entries of the columns of `J` are in its rows.
    positions: Vec<usize>,
    product: SymbolicSparseColMat<usize>,
    info: SparseMatMulInfo,
    memory: MemBuffer,
    by_columns: Vec<f64>,
}

impl Product {
    fn new(jacobian: &CsrPattern) -> Result<Product, Box<dyn Error>> {
        let (rows, columns) = (jacobian.rows(), jacobian.cols());
        let wide = jacobian.indices().iter().map(|column| *column as usize).collect();
        let left = SymbolicSparseColMat::new_checked(columns, rows, jacobian.indptr().to_vec(), None, wide);
        let transposed = jacobian.transposed();
        let (starts, places) = (transposed.indptr.clone(), transposed.rows.clone());
        let right = SymbolicSparseColMat::new_checked(rows, columns, starts, None, places);
        let (product, info) = sparse_sparse_matmul_symbolic(left.as_ref(), right.as_ref())?;
        let memory =
            MemBuffer::try_new(sparse_sparse_matmul_numeric_scratch::<usize, f64>(product.as_ref(), Par::Seq))?;
        let (positions, by_columns) = (transposed.positions.clone(), vec![0.0; jacobian.len()]);
        Ok(Product { left, right, positions, product, info, memory, by_columns })
    }

    /// The numbers of `J' J`, from those of `J` row by row.
    fn multiply(&mut self, jacobian: &[f64], numbers: &mut [f64]) {
        self.by_columns.iter_mut().zip(&self.positions).for_each(|(x, at)| *x = jacobian[*at]);
        let left = SparseColMatRef::new(self.left.as_ref(), jacobian);
        let right = SparseColMatRef::new(self.right.as_ref(), &self.by_columns);
        let product = SparseColMatMut::new(self.product.as_ref(), numbers);
        let stack = MemStack::new(&mut self.memory);
        sparse_sparse_matmul_numeric(product, Accum::Replace, left, right, 1.0, &self.info, Par::Seq, stack);
    }
}

/// `J' r`
fn back(pattern: &CsrPattern, jacobian: &[f64], r: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; pattern.cols()];
    for (row, r) in r.iter().enumerate() {
        pattern.row(row).for_each(|at| sums[pattern.indices()[at] as usize] += jacobian[at] * r);
    }
    sums
}

/// Adjusts `n` cameras and `m` points, each of which some cameras have seen.
///
/// # Errors
/// If a kernel cannot be bound, or nothing can be written.
pub fn run(out: &mut dyn Write, [n, m, each]: [usize; 3], engine: Engine) -> Result<Summary, Box<dyn Error>> {
    let residuals = Function::parse(RESIDUALS)?;
    let start = Instant::now();
    let jacobian = Request { with_value: true, ..Request::new(Mode::Jacobian, &["cam", "x"]) };
    let jacobian = residuals.derive(&jacobian)?;
    let derived = start.elapsed();

    let rng = &mut fastrand::Rng::with_seed(1);
    let Scene { mut cameras, mut points, of, pt } = Scene::new(n, m, each, rng);
    let p = of.len();
    let mut inputs = Inputs::new();
    inputs
        .value("cam", Dense::new(&[n, CAMERA], cameras.clone())?)
        .value("x", Dense::new(&[m, POINT], points.clone())?)
        .value("feat", Dense::new(&[p, 2], vec![0.0; 2 * p])?)
        .relation("of", Relation::from_map(&[p], of, n)?)
        .relation("pt", Relation::from_map(&[p], pt, m)?);
    let start = Instant::now();
    let residuals = residuals.kernel(&inputs).engine(engine).build()?;
    let matrix = jacobian.matrix()?.bind(&inputs, engine)?;
    let bound = start.elapsed();
    let start = Instant::now();
    let mut product = Product::new(matrix.pattern())?;
    let square = CsrPattern::new(
        matrix.pattern().cols(),
        matrix.pattern().cols(),
        product.product.col_ptr().to_vec(),
        product.product.row_idx().iter().map(|row| *row as u32).collect(),
    )?;
    let system = System::new(&square)?;
    let planned = start.elapsed();
    let (entries, squared) = (matrix.pattern().len(), square.len());
    let times = [derived, bound, planned].map(milliseconds);
    writeln!(out, "{n} cameras, {m} points, {p} observations: a Jacobian of {entries} entries")?;
    writeln!(
        out,
        "derived in {:.0} ms, bound in {:.0} ms, solution planned in {:.0} ms\n",
        times[0], times[1], times[2]
    )?;

    // What would be seen is where the residuals are zero.
    let mut seen = vec![0.0; 2 * p];
    residuals.call_into((&cameras, &points, &vec![0.0; 2 * p]), &mut seen)?;
    seen.iter_mut().for_each(|x| *x += NOISE * normal(rng));
    for camera in cameras.chunks_exact_mut(CAMERA) {
        camera[..3].iter_mut().for_each(|x| *x += 0.01 * normal(rng));
        camera[3..6].iter_mut().for_each(|x| *x += 0.05 * normal(rng));
        camera[6] *= 1.0 + 0.02 * normal(rng);
        camera[7..].fill(0.0);
    }
    points.iter_mut().for_each(|x| *x += 0.05 * normal(rng));

    let loss = |r: &[f64]| r.iter().map(|r| r * r).sum::<f64>();
    let (mut r, mut there) = (vec![0.0; 2 * p], vec![0.0; 2 * p]);
    let (mut numbers, mut normal, mut damped) = (vec![0.0; entries], vec![0.0; squared], vec![0.0; squared]);
    let (mut losses, mut damping, mut steepness) = (Vec::<f64>::new(), 1e-4, 0.0);
    writeln!(out, "step          loss   gradient   derivatives    product       solve")?;
    for step in 0..=STEPS {
        let [mut derivatives, mut multiply, mut solve] = [Duration::ZERO; 3];
        timed(&mut derivatives, || matrix.call_into((&cameras, &points, &seen), &mut [&mut r], &mut numbers))?;
        let gradient = timed(&mut multiply, || {
            product.multiply(&numbers, &mut normal);
            back(matrix.pattern(), &numbers, &r)
        });
        let value = loss(&r);
        steepness = norm(&gradient);
        let mut done = step == STEPS || losses.last().is_some_and(|last| last - value <= 1e-9 * value);
        losses.push(value);
        while !done {
            damped.copy_from_slice(&normal);
            system.diagonal.iter().for_each(|at| damped[*at] += damping * damped[*at].max(1e-9));
            if let Some(go) = timed(&mut solve, || system.solve(&damped, &gradient))? {
                let (of_cameras, of_points) = go.split_at(cameras.len());
                let less = |x: &[f64], go: &[f64]| x.iter().zip(go).map(|(x, go)| x - go).collect::<Vec<f64>>();
                let next = (less(&cameras, of_cameras), less(&points, of_points));
                timed(&mut derivatives, || residuals.call_into((&next.0, &next.1, &seen), &mut there))?;
                if loss(&there) < value {
                    (cameras, points) = next;
                    damping = (damping / 10.0_f64).max(1e-12);
                    break;
                }
            }
            damping *= 10.0;
            done = damping > 1e6;
        }
        let times = [derivatives, multiply, solve].map(milliseconds);
        writeln!(
            out,
            "{step:4} {value:13.6e} {steepness:10.1e} {:10.1} ms {:7.1} ms {:8.1} ms",
            times[0], times[1], times[2]
        )?;
        if done {
            break;
        }
    }
    // Seven directions change nothing that is seen: all is turned, moved or scaled together.
    let free = (2 * p + 7).saturating_sub(CAMERA * n + POINT * m);
    let last = losses.last().copied().unwrap_or(f64::NAN);
    let sigma = (last / free as f64).sqrt();
    writeln!(out, "\nWhat is left is noise of {sigma:.4} pixels; there was noise of {NOISE} pixels.")?;
    Ok(Summary { losses, gradient: steepness, entries })
}

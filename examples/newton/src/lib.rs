//! Minimisation by second derivatives: `iverson` gives the matrices, and `faer` solves with them.
//!
//! The places of a matrix are known before its numbers are, so what depends on places is done once: the assembly, and the symbolic part of the
//! factorisation. A step is then a call of a kernel, a numeric factorisation, and two triangular solves.

pub mod bundle_adjustment;
pub mod rosenbrock;

use std::error::Error;
use std::time::{Duration, Instant};

use faer::Side;
use faer::prelude::{ColRef, Solve};
use faer::sparse::linalg::LltError;
use faer::sparse::linalg::solvers::{Llt, SymbolicLlt};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMat};
use iverson::tensor::CsrPattern;

/// Equations with symmetric matrices of one pattern.
pub struct System {
    /// The entry of each element of the diagonal.
    pub diagonal: Vec<usize>,
    places: SymbolicSparseColMat<usize>,
    plan: SymbolicLlt<usize>,
}

impl System {
    /// Plans the factorisation.
    ///
    /// # Errors
    /// If an element of the diagonal has no place, or memory does not suffice.
    pub fn new(pattern: &CsrPattern) -> Result<System, Box<dyn Error>> {
        let n = pattern.rows();
        let diagonal: Option<Vec<usize>> = (0..n).map(|i| pattern.position(i, i)).collect();
        let diagonal = diagonal.ok_or("an element of the diagonal has no place")?;
        // The rows of a symmetric matrix are its columns.
        let rows = pattern.indices().iter().map(|row| *row as usize).collect();
        let places = SymbolicSparseColMat::new_checked(n, n, pattern.indptr().to_vec(), None, rows);
        let plan = SymbolicLlt::try_new(places.as_ref(), Side::Lower)?;
        Ok(System { diagonal, places, plan })
    }

    /// The solution of `A x = b`, from the numbers of `A`; nothing where `A` is not positive definite.
    ///
    /// # Errors
    /// If memory does not suffice.
    pub fn solve(&self, numbers: &[f64], b: &[f64]) -> Result<Option<Vec<f64>>, Box<dyn Error>> {
        let matrix = SparseColMatRef::new(self.places.as_ref(), numbers);
        match Llt::try_new_with_symbolic(self.plan.clone(), matrix, Side::Lower) {
            Ok(factor) => Ok(Some(factor.solve(ColRef::from_slice(b)).iter().copied().collect())),
            Err(LltError::Numeric(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// What a minimisation came to.
pub struct Summary {
    /// The loss before every step and after the last one.
    pub losses: Vec<f64>,
    /// The norm of the gradient at the end.
    pub gradient: f64,
    /// The entries of the matrix.
    pub entries: usize,
}

/// Adds the time of some work to a total.
fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *total += start.elapsed();
    result
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

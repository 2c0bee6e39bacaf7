//! Newton's method from an empty crate: a sparse Hessian, and the factorisation of `faer`.
use faer::Side;
use faer::prelude::{ColRef, Solve};
use faer::sparse::{SparseColMat, Triplet};
use iverson::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let loss = "param x : [n] real\n(sum i < n. cosh(x[i] - i / n)) + n * sum i < n - 1. (x[i + 1] - x[i])^2";
    let objective = Function::parse(loss)?.objective(&inputs! { "x" => vec![0.0; 1000] }, ["x"])?;
    let (mut x, mut gradient) = (objective.start(), vec![0.0; objective.len()]);
    for step in 0..20 {
        let value = objective.evaluate(&x, &mut gradient)?;
        let slope = gradient.iter().fold(0.0, |most: f64, slope| most.max(slope.abs()));
        println!("{step:2} {value:.9} {slope:.0e}");
        if slope < 1e-9 {
            break;
        }
        let hessian = objective.hessian(&x)?;
        let entries = hessian.pattern().entries().zip(hessian.data()).map(|((i, j), h)| Triplet::new(i, j, *h));
        let matrix = SparseColMat::try_new_from_triplets(x.len(), x.len(), &entries.collect::<Vec<_>>())?;
        let newton = matrix.sp_cholesky(Side::Lower)?.solve(ColRef::from_slice(&gradient));
        x.iter_mut().zip(newton.iter()).for_each(|(x, d)| *x -= d);
    }
    Ok(())
}

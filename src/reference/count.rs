//! Counts scalar operations exactly as the paper's Figs 6 and 17 define them.
//!
//! | rule | what is counted |
//! |---|---|
//! | 4.24 | an addition, where the guards directly below both operands hold |
//! | 4.25 | a multiplication |
//! | 4.26 | a function |
//! | 4.30 | a nest of sums: one addition for each point where the guard directly below holds, less one if there is any |
//! | 4.32 | the value of a `let`, once |
//! | 4.33 | nothing below a false guard |
//!
//! Guards and index arithmetic are free. A partial derivative kept as a black box is counted apart: the paper takes `Df(x; dx)` as
//! one operation, the product with `dx`, so there it is free ([`Partials::Free`]).
//!
//! Which guards hold may depend on values, through computed relations, so terms are evaluated while they are counted; of Tensor-SSA only
//! what guards look at is evaluated.

use super::environment::{Elements, Environment, Leaf, Limits, box_volume};
use super::eval_term::evaluate_and_count;
use super::eval_tssa::Evaluation;
use crate::error::{Error, Result};
use crate::scalar::Function;
use crate::ty::{Type, TypeId, Types};
use crate::{term, tssa};

/// What a partial derivative costs that is kept as a black box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partials {
    /// Nothing, as in the paper: the product with the tangent is the one operation `Df(x; dx)`.
    Free,
    /// 1, as any function.
    Counted,
}

/// Numbers of scalar operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Additions.
    pub additions: u128,
    /// Multiplications.
    pub multiplications: u128,
    /// Scalar functions, partial derivatives aside.
    pub functions: u128,
    /// Partial derivatives kept as black boxes.
    pub partials: u128,
}

impl Counts {
    /// The work.
    ///
    /// # Errors
    /// [`Error::Overflow`].
    pub fn total(&self, partials: Partials) -> Result<u128> {
        let work = Counts::plus(Counts::plus(self.additions, self.multiplications)?, self.functions)?;
        match partials {
            Partials::Free => Ok(work),
            Partials::Counted => Counts::plus(work, self.partials),
        }
    }

    pub(super) fn plus(a: u128, b: u128) -> Result<u128> {
        a.checked_add(b).ok_or(Error::Overflow)
    }

    pub(super) fn times(a: u128, b: u128) -> Result<u128> {
        a.checked_mul(b).ok_or(Error::Overflow)
    }

    /// What comes to earlier counts, so many times.
    pub(super) fn since(&self, earlier: &Counts, times: u128) -> Result<Counts> {
        let more = |now: u128, then: u128| Counts::times(now.saturating_sub(then), times);
        Ok(Counts {
            additions: more(self.additions, earlier.additions)?,
            multiplications: more(self.multiplications, earlier.multiplications)?,
            functions: more(self.functions, earlier.functions)?,
            partials: more(self.partials, earlier.partials)?,
        })
    }

    /// Adds other counts.
    pub(super) fn join(&mut self, other: &Counts) -> Result<()> {
        let Counts { additions, multiplications, functions, partials } = *other;
        self.add(additions)?;
        self.mul(multiplications)?;
        self.functions = Counts::plus(self.functions, functions)?;
        self.partials = Counts::plus(self.partials, partials)?;
        Ok(())
    }

    pub(super) fn add(&mut self, n: u128) -> Result<()> {
        self.additions = Counts::plus(self.additions, n)?;
        Ok(())
    }

    pub(super) fn mul(&mut self, n: u128) -> Result<()> {
        self.multiplications = Counts::plus(self.multiplications, n)?;
        Ok(())
    }

    pub(super) fn apply(&mut self, function: Function, n: u128) -> Result<()> {
        let count = match function {
            Function::Value(_) => &mut self.functions,
            Function::Partial(..) => &mut self.partials,
        };
        *count = Counts::plus(*count, n)?;
        Ok(())
    }
}

/// `$[e]`: what evaluating a term costs. A value whose type holds no number costs nothing.
///
/// # Errors
/// As [`evaluate`](super::eval_term::evaluate).
pub fn count_term(program: &term::Program, inputs: &Environment<f64>, limits: Limits) -> Result<Counts> {
    Ok(evaluate_and_count(program, inputs, limits)?.1)
}

/// `$[e]` for Tensor-SSA: every statement once.
///
/// # Errors
/// As [`evaluate`](super::eval_tssa::evaluate).
pub fn count_tssa(program: &tssa::Program, inputs: &Environment<f64>, limits: Limits) -> Result<Counts> {
    let mut evaluation = Evaluation::new(program, inputs, limits)?;
    let needed = evaluation.guard_reads();
    let mut counts = Counts::default();
    for x in program.stmts.ids() {
        if needed[x] {
            evaluation.statement(x)?;
        }
        evaluation.count(x, &mut counts)?;
    }
    Ok(counts)
}

/// `$(T)`, the numbers that a dense value of the type holds (Fig. 17).
///
/// # Errors
/// [`Error::Overflow`].
pub fn size_cost<T>(types: &Types, ty: TypeId, inputs: &Environment<T>) -> Result<u128> {
    let mut sizes: Vec<Option<u128>> = Vec::new();
    for (id, entry) in types.iter() {
        let of = |id: &TypeId| sizes.get(crate::base::Id::index(*id)).copied().flatten();
        let size = match entry {
            Type::Real => Some(1),
            Type::Pair(a, b) => of(a).zip(of(b)).and_then(|(a, b)| a.checked_add(b)),
            Type::Tensor(n, element) => {
                let n = u128::from(inputs.extent(n)?);
                of(element).and_then(|size| size.checked_mul(n))
            }
        };
        if id == ty {
            return size.ok_or(Error::Overflow);
        }
        sizes.push(size);
    }
    Err(Error::bug("count", "an unknown type"))
}

/// `$(T)` of given tensors, where a sparse one counts its stored elements (6.34).
///
/// # Errors
/// [`Error::Overflow`].
pub fn size_cost_of<T>(leaves: &[Leaf<T>]) -> Result<u128> {
    leaves.iter().try_fold(0, |sum, leaf| {
        let size = match &leaf.elements {
            Elements::Dense(_) => box_volume(&leaf.dims)?,
            Elements::Sparse(pattern, _) => pattern.len() as u128,
        };
        Counts::plus(sum, size)
    })
}

/// `$_IO(e) = $[e] + $(T_I) + $(T_O)`: the work and the sizes of all parameters and outputs (Theorem 6.35). Sparse ones count their
/// stored elements.
///
/// # Errors
/// As [`count_tssa`].
pub fn cost_io(program: &tssa::Program, inputs: &Environment<f64>, partials: Partials, limits: Limits) -> Result<u128> {
    let mut cost = count_tssa(program, inputs, limits)?.total(partials)?;
    for leaves in &inputs.params {
        cost = Counts::plus(cost, size_cost_of(leaves)?)?;
    }
    for output in &program.outputs {
        let size = match output.storage.pattern() {
            Some(pattern) => inputs.relation(pattern)?.len() as u128,
            None => size_cost(&program.signature.types, output.ty, inputs)?,
        };
        cost = Counts::plus(cost, size)?;
    }
    Ok(cost)
}

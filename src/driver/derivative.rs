//! Derivatives: what is asked for, and which passes make it.

use std::sync::Arc;

use super::{Function, bounded, simplified};
use crate::base::ParamId;
use crate::certificate::{Theorem, compare_work, power_of_data, power_of_work};
use crate::diff::{self, Adjoint, Derivation, Jacobian, Options, Part, Seed, Sweep};
use crate::error::{Error, Result};
use crate::kernel::Matrix;
use crate::simplify::Simplified;
use crate::stages::Stages;
use crate::ty::Block;
use crate::{simplify, tssa};

/// Which derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `D f(x; dx)`: takes a tangent of each parameter.
    Forward,
    /// `D^T f(x; dy)`: takes a seed for each output.
    Adjoint,
    /// The adjoint with seed 1, of a program with one real output.
    Gradient,
    /// All partial derivatives of each output by each parameter, as sparse tensors with the axes of both; what goes through a loop is dense.
    Jacobian,
    /// The Jacobian of the gradient, of a program with one real output.
    Hessian,
    /// The Hessian times a vector: takes a tangent of each parameter.
    HessianProduct,
    /// `J' J`, or `J' W J` with a weight for each element of the outputs, `J` being the Jacobian.
    GaussNewton,
    /// `J' J v`, or `J' W J v`: takes a tangent of each parameter.
    GaussNewtonProduct,
    /// The transposed program of one that is linear in the parameters: takes a seed for each output in their place.
    Transpose,
}

impl Mode {
    /// The theorem that bounds the cost of the derivative.
    pub fn theorem(self) -> Option<Theorem> {
        match self {
            Mode::Forward => Some(Theorem::Forward),
            Mode::Adjoint | Mode::Gradient | Mode::Transpose => Some(Theorem::Adjoint),
            Mode::Jacobian | Mode::Hessian | Mode::HessianProduct | Mode::GaussNewton | Mode::GaussNewtonProduct => {
                None
            }
        }
    }
}

/// What is wanted of a derivative.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which one.
    pub mode: Mode,
    /// The names of the parameters to differentiate by.
    pub wrt: Vec<String>,
    /// The parameters that the columns of a Hessian belong to, where they are others than those of the rows, which are `wrt`.
    pub columns: Option<Vec<String>>,
    /// Which entries of a Jacobian or Hessian are wanted.
    pub part: Part,
    /// In which direction a Jacobian, a Hessian or a Gauss-Newton matrix is derived.
    pub sweep: Sweep,
    /// Whether a Gauss-Newton matrix or product has weights: a new parameter `weight` of the shape of the output.
    pub weighted: bool,
    /// Whether the results of the primal program are wanted as well.
    pub with_value: bool,
    /// Whether the adjoint's derivation is wanted, of a program without loops.
    pub derivation: bool,
    /// Whether partial derivatives of scalar functions are replaced by their expressions.
    pub expand_partials: bool,
    /// How the derivative is simplified; not at all where nothing is said.
    pub simplify: Option<simplify::Options>,
}

impl Request {
    /// A derivative by the given parameters, simplified, and nothing else.
    pub fn new(mode: Mode, wrt: &[&str]) -> Self {
        Request {
            mode,
            wrt: wrt.iter().map(|name| (*name).to_owned()).collect(),
            columns: None,
            part: Part::Whole,
            sweep: Sweep::Cheapest,
            weighted: false,
            with_value: false,
            derivation: false,
            expand_partials: true,
            simplify: Some(simplify::Options::default()),
        }
    }

    /// Checks that nothing is asked for that this derivative does not have.
    fn check(&self) -> Result<()> {
        let matrix = matches!(self.mode, Mode::Jacobian | Mode::Hessian);
        let square = matches!(self.mode, Mode::GaussNewton | Mode::GaussNewtonProduct);
        let product = matches!(self.mode, Mode::HessianProduct | Mode::Transpose);
        let wrong = [
            (self.columns.is_some() && self.mode != Mode::Hessian, "only a Hessian has columns of other parameters"),
            (self.part != Part::Whole && !matrix, "only a Jacobian or a Hessian has a diagonal"),
            (self.weighted && !square, "only a Gauss-Newton matrix or product has weights"),
            (self.with_value && (square || product), "this derivative comes without the value of the program"),
            (
                self.derivation && !matches!(self.mode, Mode::Adjoint | Mode::Gradient),
                "only an adjoint or a gradient has a derivation",
            ),
        ];
        match wrong.into_iter().find(|(wrong, _)| *wrong) {
            Some((_, message)) => Err(Error::Request(message.to_owned())),
            None => Ok(()),
        }
    }

    /// The same derivative as the rules of differentiation give it.
    pub fn raw(self) -> Self {
        Request { simplify: None, ..self }
    }

    /// The diagonal of the same Jacobian or Hessian.
    pub fn diagonal(self) -> Self {
        Request { part: Part::Diagonal(usize::MAX), ..self }
    }

    /// The same derivative, for which simplification may search so many times as far as by default.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let request = Request::new(Mode::Gradient, &["x"]).effort(4);
    /// assert_eq!(request.simplify.map(|options| options.budget.nodes), Some(1600));
    /// ```
    pub fn effort(self, times: usize) -> Self {
        let budget = simplify::Budget::default().times(times);
        let simplify = self.simplify.map(|options| simplify::Options { budget, ..options });
        Request { simplify, ..self }
    }
}

/// What differentiation gives: the program, the parameters that were added, and what else was asked for.
pub(super) struct Raw<P> {
    pub program: P,
    pub added: Vec<ParamId>,
    pub blocks: Vec<Block>,
    pub derivation: Option<Derivation>,
}

/// A derivative and how it was found.
#[derive(Clone, Debug)]
pub struct Derived {
    /// The derivative.
    pub function: Function,
    /// The parameters that were added: tangents, or seeds.
    pub added: Vec<String>,
    /// Of a Jacobian, a Hessian or a Gauss-Newton matrix, the results that are blocks of it, for [`Derived::matrix`].
    pub blocks: Vec<Block>,
    /// The derivation of an adjoint, if it was asked for. It ends before simplification.
    pub derivation: Option<Derivation>,
    /// How simplification went, if it was asked for.
    pub simplification: Option<simplify::Report>,
}

impl Derived {
    /// The blocks of a Jacobian, a Hessian or a Gauss-Newton matrix as one sparse matrix.
    ///
    /// # Errors
    /// [`Error::Request`] for a derivative that is no matrix, or a part of one; [`Error::Overflow`] and [`Error::Bug`].
    pub fn matrix(&self) -> Result<Matrix> {
        if self.blocks.is_empty() {
            return Err(Error::Request("this derivative is no matrix".to_owned()));
        }
        self.function.matrix(&self.blocks, &mut Stages::new())
    }
}

impl Function {
    /// A derivative with options. [`gradient`](Function::gradient), [`jacobian`](Function::jacobian) and so on are short for the common ones.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let loss = Function::parse("param x : [n] real\nsum i < n. x[i]^4")?;
    /// let request = Request { with_value: true, ..Request::new(Mode::Hessian, &["x"]).diagonal() };
    /// let results = loss.derive(&request)?.function.eval(&inputs! { "x" => [1.0, 2.0] })?;
    /// assert_eq!(results["value"].as_scalar(), Some(17.0));
    /// assert_eq!(results["hessian_x_x"].as_slice(), Some(&[12.0, 48.0][..]));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Request`] if the program has no such parameters, or no gradient; [`Error::Limitation`] for the derivation of a program with loops;
    /// [`Error::Overflow`] and [`Error::Bug`].
    pub fn derive(&self, request: &Request) -> Result<Derived> {
        self.derive_in(request, &mut Stages::new())
    }

    /// The same, with its passes shown.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn derive_in(&self, request: &Request, stages: &mut Stages<'_>) -> Result<Derived> {
        request.check()?;
        if let Some(flow) = &self.flow {
            return self.derive_flow(flow, request, stages);
        }
        let Raw { program, added, mut blocks, derivation } = self.differentiate(request, stages)?;
        let sparse = sparse_blocks(&blocks);
        // A part of a matrix is none.
        if request.part != Part::Whole {
            blocks.clear();
        }
        let program = match request.expand_partials {
            true => bounded(stages, &program, "expand-partials", || diff::expand_partials(&program))?,
            false => program,
        };
        let (program, strict, simplification) = match &request.simplify {
            Some(options) => {
                let found = simplified(&program, options, stages)?;
                let Simplified { program, strict, report } = self.no_faster(request, options, found, stages)?;
                (program, strict.map(Arc::new), Some(report))
            }
            None => (program, None, None),
        };
        let name = |id| program.signature.params.get(id).map(|p| p.name.clone());
        let added = added.into_iter().filter_map(name).collect();
        let dependents = self.dependents.clone();
        let function = Function { dependents, sparse, strict, ..Function::from_tensor_ssa(program) };
        Ok(Derived { function, added, blocks, derivation, simplification })
    }

    /// A simplified derivative, or that of the simplified program where its work grows less.
    ///
    /// Simplification searches so far and no farther. A derivative is larger than what it is made of, so what was found there may not be found again, and the
    /// work grew faster than that of the simplified program, against what the theorem promises. Where the work is that of reading the data nothing can be gained.
    fn no_faster(
        &self,
        request: &Request,
        options: &simplify::Options,
        found: Simplified,
        stages: &mut Stages<'_>,
    ) -> Result<Simplified> {
        if !matches!(request.mode, Mode::Forward | Mode::Adjoint | Mode::Gradient) {
            return Ok(found);
        }
        let power = power_of_work(&found.program)?;
        if power <= power_of_data(&found.program) {
            return Ok(found);
        }
        let strict = simplify::Options { finite_data: false, ..options.clone() };
        let simple = simplified(self.meant(), &strict, stages)?.program;
        if power_of_work(&simple)? >= power {
            return Ok(found);
        }
        let function = Function { dependents: self.dependents.clone(), ..Function::from_tensor_ssa(simple) };
        let simpler = function.derive_in(&Request { derivation: false, simplify: None, ..request.clone() }, stages)?;
        let other = simplified(simpler.function.meant(), options, stages)?;
        let is_better = power_of_work(&other.program)? < power;
        Ok(if is_better { other } else { found })
    }

    /// The derivative as the rules of differentiation give it.
    fn differentiate(&self, request: &Request, stages: &mut Stages<'_>) -> Result<Raw<tssa::Program>> {
        let wrt = diff::params_by_name(self.signature(), &request.wrt)?;
        let (mut added, mut derivation, mut blocks) = (Vec::new(), None, Vec::new());
        let dependents = self.dependents.as_slice();
        let Request { with_value, sweep, part, weighted, .. } = *request;
        let program = match request.mode {
            Mode::Forward => bounded(stages, self.meant(), "forward", || {
                let forward = diff::forward_through(self.meant(), dependents, &wrt, with_value)?;
                added = forward.tangents.into_iter().map(|(_, tangent)| tangent).collect();
                Ok(forward.program)
            })?,
            Mode::Adjoint | Mode::Gradient => bounded(stages, self.meant(), "adjoint", || {
                let seed = if request.mode == Mode::Gradient { Seed::One } else { Seed::Parameter };
                let options = Options { seed, with_value, derivation: request.derivation };
                let Adjoint { program, seeds, derivation: steps } =
                    diff::adjoint_through(self.meant(), dependents, &wrt, options)?;
                (added, derivation) = (seeds, steps);
                Ok(program)
            })?,
            Mode::Jacobian => {
                let how = Jacobian { sweep, part, of: None, with_value };
                bounded(stages, self.meant(), "jacobian", || {
                    of_blocks(&mut blocks, diff::jacobian(self.meant(), dependents, &wrt, how, &compare_work))
                })?
            }
            Mode::Hessian => {
                let gradient = self.simple_gradient(request, stages)?;
                let columns = match &request.columns {
                    Some(names) => diff::params_by_name(self.signature(), names)?,
                    None => wrt,
                };
                let how = Jacobian { sweep, part, of: Some("grad"), with_value };
                bounded(stages, gradient.meant(), "jacobian", || {
                    of_blocks(&mut blocks, diff::jacobian(gradient.meant(), dependents, &columns, how, &compare_work))
                })?
            }
            Mode::HessianProduct => {
                let gradient = self.simple_gradient(request, stages)?;
                bounded(stages, gradient.meant(), "forward", || {
                    let (program, tangents) = diff::hessian_product(gradient.meant(), dependents, &wrt)?;
                    added = tangents;
                    Ok(program)
                })?
            }
            Mode::GaussNewton => {
                let derive = || diff::gauss_newton(self.meant(), dependents, &wrt, sweep, weighted, &compare_work);
                bounded(stages, self.meant(), "gauss-newton", || of_blocks(&mut blocks, derive()))?
            }
            Mode::GaussNewtonProduct => bounded(stages, self.meant(), "gauss-newton", || {
                let (program, tangents) = diff::gauss_newton_product(self.meant(), dependents, &wrt, weighted)?;
                added = tangents;
                Ok(program)
            })?,
            Mode::Transpose if !dependents.is_empty() => {
                let message = "a program some of whose parameters depend on others has no transposed program";
                return Err(Error::Request(message.to_owned()));
            }
            Mode::Transpose => bounded(stages, self.meant(), "transpose", || {
                let transposed = diff::transpose(self.meant(), &wrt)?;
                added = transposed.seeds;
                Ok(transposed.program)
            })?,
        };
        Ok(Raw { program, added, blocks, derivation })
    }

    /// The gradient that a Hessian is made of.
    pub(super) fn simple_gradient(&self, request: &Request, stages: &mut Stages<'_>) -> Result<Function> {
        let gradient = Request {
            wrt: request.wrt.clone(),
            with_value: request.with_value,
            simplify: request.simplify.clone(),
            ..Request::new(Mode::Gradient, &[])
        };
        Ok(self.derive_in(&gradient, stages)?.function)
    }

    /// The gradient by some parameters, simplified, as are all derivatives that [`Function::derive`] is not told to leave as they are.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn gradient(&self, wrt: impl Names) -> Result<Function> {
        self.of(request(Mode::Gradient, wrt))
    }

    /// The value and the gradient by some parameters, which share their work.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn value_and_gradient(&self, wrt: impl Names) -> Result<Function> {
        self.of(Request { with_value: true, ..request(Mode::Gradient, wrt) })
    }

    /// The adjoint derivative by some parameters; it takes a seed `dy`.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn adjoint(&self, wrt: impl Names) -> Result<Function> {
        self.of(request(Mode::Adjoint, wrt))
    }

    /// The forward derivative by some parameters; it takes a tangent `dx` of each parameter `x`.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn forward(&self, wrt: impl Names) -> Result<Function> {
        self.of(request(Mode::Forward, wrt))
    }

    /// The Jacobian by some parameters: a result `jacobian_x` for each parameter `x`, with the axes of the output and of `x`, as a program whose
    /// guards say where it may differ from zero, and which [`Function::kernel`] stores sparse. What it prints is a program as any other: parsed
    /// again, it has dense results.
    ///
    /// ```
    /// # use iverson::Function;
    /// // The differences of neighbours: row i has -1 at i and 1 at i + 1.
    /// let f = Function::parse("param x : [n] real\ngen i < n - 1. x[i + 1] - x[i]")?;
    /// let expected = "gen i < n - 1, j < n. [i + 1 = j] - [i = j]";
    /// assert_eq!(f.jacobian(&["x"])?.to_string().lines().last(), Some(expected));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn jacobian(&self, wrt: impl Names) -> Result<Function> {
        self.of(request(Mode::Jacobian, wrt))
    }

    /// The Hessian by some parameters, of a program with one real output: a result `hessian_x_y` for each two parameters `x` and `y`, which
    /// [`Function::kernel`] stores sparse.
    ///
    /// ```
    /// # use iverson::Function;
    /// let f = Function::parse("param x : [n] real\nsum i < n. x[i]^4")?;
    /// let expected = "gen i < n, j < n. [i = j] * 12 * x[i]^2";
    /// assert_eq!(f.hessian(&["x"])?.to_string().lines().last(), Some(expected));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn hessian(&self, wrt: impl Names) -> Result<Function> {
        self.of(request(Mode::Hessian, wrt))
    }

    /// The diagonal of the Hessian by some parameters: a result `hessian_x_x` for each parameter `x`, of its shape.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn hessian_diagonal(&self, wrt: impl Names) -> Result<Function> {
        self.of(request(Mode::Hessian, wrt).diagonal())
    }

    /// The Hessian times a vector: takes a tangent `dx` of each parameter `x`, and has a result `hessian_x`.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn hessian_product(&self, wrt: impl Names) -> Result<Function> {
        self.of(request(Mode::HessianProduct, wrt))
    }

    /// The Gauss-Newton matrix `J' J` of the Jacobian by some parameters: a result `gauss_newton_x_y` for each two parameters `x` and `y`, which
    /// [`Function::kernel`] stores sparse.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn gauss_newton(&self, wrt: impl Names) -> Result<Function> {
        self.of(request(Mode::GaussNewton, wrt))
    }

    /// The Gauss-Newton matrix times a vector, `J' J v`: takes a tangent `dx` of each parameter `x`, and has a result `gauss_newton_x`.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn gauss_newton_product(&self, wrt: impl Names) -> Result<Function> {
        self.of(request(Mode::GaussNewtonProduct, wrt))
    }

    /// The transposed program of one that is linear in some parameters: takes a seed `dy` in their place, and has a result `adjoint_x`.
    ///
    /// # Errors
    /// [`Error::Request`] if the program is not linear in them by its form, and as [`Function::derive`].
    pub fn transpose(&self, wrt: impl Names) -> Result<Function> {
        self.of(request(Mode::Transpose, wrt))
    }

    fn of(&self, request: Request) -> Result<Function> {
        Ok(self.derive(&request)?.function)
    }
}

/// Names of parameters, such as `["x", "y"]`: anything that goes through strings.
#[diagnostic::on_unimplemented(
    message = "names of parameters are strings in an array, a vector or an iterator, found `{Self}`",
    note = "one name is written `[\"x\"]`"
)]
pub trait Names {
    /// The names.
    fn names(self) -> Vec<String>;
}

impl<N: AsRef<str>, I: IntoIterator<Item = N>> Names for I {
    fn names(self) -> Vec<String> {
        self.into_iter().map(|name| name.as_ref().to_owned()).collect()
    }
}

/// A derivative by parameters and nothing else.
fn request(mode: Mode, wrt: impl Names) -> Request {
    Request { wrt: wrt.names(), ..Request::new(mode, &[]) }
}

/// The results that kernels store sparse: blocks with axes of both a row and a column.
pub(super) fn sparse_blocks(blocks: &[Block]) -> Vec<String> {
    let sparse = blocks.iter().filter(|block| block.row_axes > 0 && block.column_axes > 0);
    sparse.map(|block| block.result.clone()).collect()
}

/// Keeps the blocks of a matrix, and passes its program on.
pub(super) fn of_blocks<P>(blocks: &mut Vec<Block>, derived: Result<(P, Vec<Block>)>) -> Result<P> {
    let (program, found) = derived?;
    *blocks = found;
    Ok(program)
}

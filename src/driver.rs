//! The pipeline: which passes run, and in which order. No other module knows.

mod back_end;

use std::fmt;
use std::sync::Arc;

use crate::base::{SizeId, work};
use crate::certificate::{self, Certificate, Cost, Theorem};
use crate::diff::{self, Adjoint, Dependent, Derivation, Jacobian, Options, Part, Seed, Sweep};
use crate::error::{Error, Result};
use crate::index::estimate::Hints;
use crate::kernel::{Assembly, Engine, Kernel, Matrix};
use crate::stages::Stages;
use crate::surface::ast::Ast;
use crate::tensor::{self, Inputs};
use crate::ty::Block;
use crate::{loops, normalize, present, schedule, simplify, surface, term, tssa};

pub use back_end::passes;

/// A stage of the pipeline, named as its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The program as it was written, with names, sizes and types resolved.
    Surface,
    /// `let`s only at the top.
    LetLifting,
    /// Pairs only as projections of inputs and as output tuple.
    PairElimination,
    /// Every right-hand side is `gen .. gen e`.
    GenPushout,
    /// Straight-line statements.
    TensorSsa,
    /// Straight-line statements with no more work than these.
    Simplify,
}

/// A program at some stage.
#[derive(Clone, Debug)]
pub enum Staged {
    /// One of the stages before Tensor-SSA.
    Term(term::Program),
    /// Tensor-SSA.
    TensorSsa(tssa::Program),
}

impl fmt::Display for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Staged::Term(program) => program.fmt(f),
            Staged::TensorSsa(program) => program.fmt(f),
        }
    }
}

/// What is counted where a pass takes too long.
const WORK: &str = "units of work of one pass";

/// Takes a program through the passes up to a stage, with the default options.
///
/// # Errors
/// [`Error::Overflow`], [`Error::Limit`], [`Error::Limitation`], and [`Error::Bug`].
pub fn lower(program: &term::Program, until: Stage, stages: &mut Stages<'_>) -> Result<Staged> {
    let mut program = program.clone();
    type Pass = fn(&term::Program) -> Result<term::Program>;
    let passes: [(Stage, &'static str, Pass); 3] = [
        (Stage::LetLifting, "let-lifting", normalize::lift_lets),
        (Stage::PairElimination, "pair-elimination", normalize::eliminate_pairs),
        (Stage::GenPushout, "gen-pushout", normalize::push_out_gens),
    ];
    for (stage, name, pass) in passes {
        if stage > until {
            return Ok(Staged::Term(program));
        }
        program = stages.run(name, || work::bounded(WORK, work::budget(program.terms.len()), || pass(&program)))?;
    }
    if until < Stage::TensorSsa {
        return Ok(Staged::Term(program));
    }
    let budget = work::budget(program.terms.len());
    let tssa = stages.run("tensor-ssa", || work::bounded(WORK, budget, || normalize::to_tensor_ssa(&program)))?;
    if until < Stage::Simplify {
        return Ok(Staged::TensorSsa(tssa));
    }
    Ok(Staged::TensorSsa(simplified(&tssa, &simplify::Options::default(), stages)?.0))
}

/// A pass over a program in Tensor-SSA that takes no more work than its length allows.
fn bounded(
    stages: &mut Stages<'_>,
    program: &tssa::Program,
    pass: &'static str,
    run: impl FnOnce() -> Result<tssa::Program>,
) -> Result<tssa::Program> {
    stages.run(pass, || work::bounded(WORK, work::budget(program.stmts.len()), run))
}

/// Simplification as a pass.
fn simplified(
    program: &tssa::Program,
    options: &simplify::Options,
    stages: &mut Stages<'_>,
) -> Result<(tssa::Program, simplify::Report)> {
    let mut report = None;
    let program = stages.run("simplify", || {
        let simplified = simplify::simplify(program, options)?;
        report = Some(simplified.report);
        Ok(simplified.program)
    })?;
    match report {
        Some(report) => Ok((program, report)),
        None => Err(Error::bug("driver", "simplification did not run")),
    }
}

/// Which derivative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `D f(x; dx)`: takes a tangent of each parameter.
    Forward,
    /// `D^T f(x; dy)`: takes a seed for each output.
    Adjoint,
    /// The adjoint with seed 1, of a program with one real output.
    Gradient,
    /// All partial derivatives of each output by each parameter, as sparse tensors with the axes of both.
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
    /// Whether the adjoint's derivation is wanted.
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

/// A simplified function and how it was found.
#[derive(Clone, Debug)]
pub struct Simplification {
    /// The function.
    pub function: Function,
    /// How simplification went.
    pub report: simplify::Report,
}

/// A program that was compiled to Tensor-SSA: what a user holds.
///
/// It prints as a program of the language, and what it prints parses back.
#[derive(Clone, Debug)]
pub struct Function {
    source: Option<term::Program>,
    tssa: tssa::Program,
    /// The parameters that are computed from others outside, in order.
    dependents: Vec<Dependent>,
    /// The results that kernels store as sparse tensors.
    sparse: Vec<String>,
}

impl Function {
    /// Compiles a program text.
    ///
    /// # Errors
    /// [`Error::Program`] with every problem in the text, and those of [`lower`].
    pub fn parse(text: &str) -> Result<Function> {
        Function::compile(surface::read(text, &[])?, &mut Stages::new())
    }

    /// Compiles a program made by the Rust builder.
    ///
    /// # Errors
    /// As [`Function::parse`].
    pub fn build(ast: &Ast) -> Result<Function> {
        Function::compile(surface::elaborate(ast, &[]).map_err(Error::Program)?, &mut Stages::new())
    }

    /// Compiles a typed program.
    ///
    /// # Errors
    /// Those of [`lower`].
    pub fn compile(source: term::Program, stages: &mut Stages<'_>) -> Result<Function> {
        match lower(&source, Stage::TensorSsa, stages)? {
            Staged::TensorSsa(tssa) => Ok(Function { source: Some(source), ..Function::from_tensor_ssa(tssa) }),
            Staged::Term(_) => Err(Error::bug("driver", "the pipeline ended before Tensor-SSA")),
        }
    }

    /// A program that is in Tensor-SSA already.
    pub fn from_tensor_ssa(tssa: tssa::Program) -> Function {
        Function { source: None, tssa, dependents: Vec::new(), sparse: Vec::new() }
    }

    /// The same program, where a parameter is computed from others outside of it: by a solver, a simulation, another program. Its
    /// derivative is a program, either forward, with a parameter `dx` for each parameter `x` that it depends on and a result of the shape of
    /// the parameter, or adjoint, with a seed `dy` for the parameter `y` and a result `adjoint_x` for each parameter `x`. Other
    /// parameters of that program are those of this one, by name, the value `y` among them.
    ///
    /// All derivatives of this program by `x` then go through `y`. By `y` itself it is independent.
    ///
    /// ```
    /// # use iverson::Function;
    /// // y is the square root of x, and comes from outside.
    /// let f = Function::parse("param x : [n] real\nparam y : [n] real\nsum i < n. x[i] * y[i]")?;
    /// let root = Function::parse("param y : [n] real\nparam dx : [n] real\ngen i < n. dx[i] / (2 * y[i])")?;
    /// let gradient = f.with_derivative("y", &root)?.gradient(&["x"])?;
    /// assert_eq!(gradient.to_string().lines().last(), Some("gen i < n. y[i] + x[i] / (2 * y[i])"));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Request`] for a derivative that is not of this form, or not linear in what it takes, and for a parameter that others
    /// depend on already: they come after it.
    pub fn with_derivative(self, param: &str, derivative: &Function) -> Result<Function> {
        let dependent = Dependent::new(&self.tssa.signature, param, &derivative.tssa)?;
        self.with(dependent)
    }

    /// The same program, where a parameter is computed outside of it such that a residual is zero: a program with one result of the shape
    /// of the parameter, each element of which depends on the same element of the parameter and on no other.
    ///
    /// ```
    /// # use iverson::Function;
    /// let f = Function::parse("param x : [n] real\nparam y : [n] real\nsum i < n. x[i] * y[i]")?;
    /// let residual = Function::parse("param x : [n] real\nparam y : [n] real\ngen i < n. y[i]^2 - x[i]")?;
    /// let gradient = f.with_implicit("y", &residual)?.gradient(&["x"])?;
    /// assert_eq!(gradient.to_string().lines().last(), Some("gen i < n. y[i] + x[i] / (2 * y[i])"));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Request`] for a residual that is not of this form, and as [`Function::with_derivative`].
    pub fn with_implicit(self, param: &str, residual: &Function) -> Result<Function> {
        let dependent = Dependent::implicit(&self.tssa.signature, param, &residual.tssa)?;
        self.with(dependent)
    }

    fn with(mut self, dependent: Dependent) -> Result<Function> {
        let param = dependent.param;
        let name = self.tssa.signature.params.get(param).map_or("", |p| p.name.as_str());
        if self.dependents.iter().any(|other| other.param == param) {
            return Err(Error::Request(format!("the parameter `{name}` has a derivative already")));
        }
        if self.dependents.iter().any(|other| other.on().any(|x| x == param)) {
            let message = "parameters that depend on it have their derivatives already; give its own first";
            return Err(Error::Request(format!("the parameter `{name}`: {message}")));
        }
        self.dependents.push(dependent);
        Ok(self)
    }

    /// The program in Tensor-SSA.
    pub fn tensor_ssa(&self) -> &tssa::Program {
        &self.tssa
    }

    /// The program as a term: as it was written, or, for a derivative, put together again for reading.
    ///
    /// # Errors
    /// [`Error::Overflow`] and [`Error::Bug`].
    pub fn term(&self) -> Result<term::Program> {
        match &self.source {
            Some(source) => Ok(source.clone()),
            None => present::present(&self.tssa),
        }
    }

    /// How many scalar operations the program takes, as formulas in its sizes.
    ///
    /// # Errors
    /// [`Error::Overflow`].
    pub fn cost(&self) -> Result<Cost> {
        certificate::cost(&self.tssa)
    }

    /// The cost of a derivative of this program beside its own, and what is proved of it.
    ///
    /// # Errors
    /// [`Error::Request`] for a derivative of which nothing is proved; [`Error::Overflow`].
    pub fn certify(&self, derivative: &Function, mode: Mode) -> Result<Certificate> {
        let Some(theorem) = mode.theorem() else {
            let message =
                "no theorem bounds the cost of this derivative by that of the program; it has a cost of its own";
            return Err(Error::Request(message.to_owned()));
        };
        if !self.dependents.is_empty() {
            let message = "no theorem bounds the cost of a derivative that is given in part";
            return Err(Error::Request(message.to_owned()));
        }
        certificate::certify(&self.tssa, &derivative.tssa, theorem, &Hints::new())
    }

    /// The same function with no more work.
    ///
    /// # Errors
    /// [`Error::Overflow`] and [`Error::Bug`].
    pub fn simplify(&self, options: &simplify::Options) -> Result<Simplification> {
        let (program, report) = simplified(&self.tssa, options, &mut Stages::new())?;
        let function = Function { source: None, tssa: program, ..self.clone() };
        Ok(Simplification { function, report })
    }

    /// The results that [`Function::kernel`] stores as sparse tensors: the blocks of a Jacobian, a Hessian or a Gauss-Newton matrix that have axes of
    /// both a row and a column. Programs that are parsed have none; [`Function::assemble`] takes any.
    pub fn sparse_results(&self) -> Vec<&str> {
        self.sparse.iter().map(String::as_str).collect()
    }

    /// The same function, of which kernels store all results as dense tensors, zeros and all.
    ///
    /// ```
    /// # use iverson::Function;
    /// use iverson::kernel::Engine;
    /// use iverson::tensor::{Inputs, Value};
    ///
    /// let hessian = Function::parse("param x : [n] real\nsum i < n. x[i]^2")?.hessian(&["x"])?;
    /// let mut inputs = Inputs::new();
    /// inputs.value("x", Value::vector(vec![1.0, 2.0, 3.0]));
    /// let sparse = hessian.kernel(&inputs, Engine::Interpreter)?.call(&inputs)?;
    /// let dense = hessian.dense().kernel(&inputs, Engine::Interpreter)?.call(&inputs)?;
    /// assert_eq!(sparse[0].1.leaves()[0].data(), [2.0, 2.0, 2.0]);
    /// assert_eq!(dense[0].1.leaves()[0].data(), [2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0]);
    /// # Ok::<(), iverson::Error>(())
    /// ```
    pub fn dense(mut self) -> Function {
        self.sparse.clear();
        self
    }

    /// The program as loop nests, with all results dense.
    ///
    /// # Errors
    /// [`Error::Overflow`] and [`Error::Bug`].
    pub fn loops(&self, stages: &mut Stages<'_>) -> Result<loops::Program> {
        back_end::loops(&self.tssa, stages)
    }

    /// The program as loop nests for the sizes of inputs: products with sums over empty ranges are zero, whatever the other factors are. Only
    /// then are they other nests.
    ///
    /// # Errors
    /// As [`Function::loops`].
    pub fn loops_for(&self, inputs: &Inputs) -> Result<loops::Program> {
        // Inputs that do not fit are complained about when they are bound.
        let Ok(sizes) = tensor::sizes(&self.tssa.signature, inputs) else { return self.loops(&mut Stages::new()) };
        let unknown = || Error::bug("lower", "a size without a value");
        let size = |n: SizeId| sizes.get(n).copied().ok_or_else(unknown);
        match tssa::vanishing::without_vanishing(&self.tssa, &size)? {
            Some(program) => back_end::loops(&program, &mut Stages::new()),
            None => self.loops(&mut Stages::new()),
        }
    }

    /// The program as loop nests in two: what parameters that are constant alone lead to, and what is left for each call.
    ///
    /// # Errors
    /// [`Error::Request`] for a name that no parameter has, and as [`Function::loops`].
    pub fn split(&self, constants: &[&str]) -> Result<schedule::Split> {
        let constants = schedule::constants_by_name(&self.tssa.signature, constants)?;
        schedule::hold(&self.loops(&mut Stages::new())?, &constants)
    }

    /// The program as a kernel for the sizes and relations of inputs.
    ///
    /// A Jacobian, a Hessian or a Gauss-Newton matrix is stored sparse, matrices in CSR and others in COO format: the patterns are found out now,
    /// [`Kernel::outputs`] has them, and calls compute the numbers of their entries. [`Function::dense`] is for dense results.
    ///
    /// ```
    /// # use iverson::Function;
    /// use iverson::kernel::{Engine, Leaf};
    /// use iverson::tensor::{Inputs, Value};
    ///
    /// let chain = Function::parse("param x : [n] real\nsum i < n - 1. (x[i + 1] - x[i])^2")?;
    /// let mut inputs = Inputs::new();
    /// inputs.value("x", Value::vector(vec![0.0; 3]));
    /// let kernel = chain.hessian(&["x"])?.kernel(&inputs, Engine::Interpreter)?;
    /// let Leaf::Csr(pattern) = &kernel.outputs()[0].leaves[0] else { panic!("a matrix is in CSR format") };
    /// assert_eq!(pattern.entries().collect::<Vec<_>>(), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)]);
    /// let mut values = [0.0; 7];
    /// kernel.call_into(&[&[1.0, 2.0, 3.0]], &mut [&mut values])?;
    /// assert_eq!(values, [2.0, -2.0, -2.0, 4.0, -2.0, -2.0, 2.0]);
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Kernel::bind`] and [`Function::assemble`], and [`Error::Bug`].
    pub fn kernel(&self, inputs: &Inputs, engine: Engine) -> Result<Kernel> {
        self.kernel_with_constants(inputs, &[], engine)
    }

    /// The program as a kernel for calls in which the numbers of some parameters are always those of the inputs, as the data are in an
    /// optimiser. What depends on these alone is computed once; calls take the other parameters, and give the same bits.
    ///
    /// ```
    /// # use iverson::Function;
    /// use iverson::kernel::Engine;
    /// use iverson::tensor::{Inputs, Value};
    ///
    /// let distance = Function::parse("param x : [n] real\nparam w : [n] real\n(sum i < n. x[i]^2) - (sum i < n. x[i] * w[i])")?;
    /// let mut inputs = Inputs::new();
    /// inputs.value("x", Value::vector(vec![1.0, 2.0])).value("w", Value::vector(vec![0.0; 2]));
    /// let kernel = distance.kernel_with_constants(&inputs, &["x"], Engine::Interpreter)?;
    /// let mut value = [0.0];
    /// kernel.call_into(&[&[1.0, 1.0]], &mut [&mut value])?;
    /// assert_eq!(value, [2.0]);
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Kernel::bind_with_constants`], and [`Error::Bug`].
    pub fn kernel_with_constants(&self, inputs: &Inputs, constants: &[&str], engine: Engine) -> Result<Kernel> {
        match self.sparse_results().as_slice() {
            [] => Kernel::bind_with_constants(Arc::new(self.loops_for(inputs)?), inputs, constants, engine),
            sparse => self.assemble(sparse)?.bind_with_constants(inputs, constants, engine),
        }
    }

    /// The program as a kernel all of whose results are stored in single precision, rounded once from double precision, in which everything is
    /// computed. Parameters are stored as the tensors are that are bound, here as with [`Function::kernel`].
    ///
    /// ```
    /// # use iverson::Function;
    /// use iverson::kernel::Engine;
    /// use iverson::tensor::{Dense, Inputs, Slice};
    ///
    /// let mean = Function::parse("param x : [n] real\nassume n >= 1\n(sum i < n. x[i]) / n")?;
    /// let mut inputs = Inputs::new();
    /// inputs.value("x", Dense::single(&[3], vec![0.1_f32, 0.2, 0.3]).map_err(|e| e.of("x"))?);
    /// let results = mean.kernel_in_single(&inputs, Engine::Interpreter)?.call(&inputs)?;
    /// assert_eq!(results[0].1.leaves()[0].numbers(), Slice::Single(&[0.2]));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::kernel`].
    pub fn kernel_in_single(&self, inputs: &Inputs, engine: Engine) -> Result<Kernel> {
        let sparse = self.sparse_results();
        if sparse.is_empty() {
            let mut nests = self.loops_for(inputs)?;
            nests.store_results_in_single()?;
            return Kernel::bind(Arc::new(nests), inputs, engine);
        }
        let mut assembly = self.assemble(&sparse)?;
        assembly.store_results_in_single()?;
        assembly.bind(inputs, engine)
    }

    /// The program as a kernel of which some results, tensors of reals, are sparse: their patterns follow from guards, relations and the
    /// patterns of sparse parameters, and are found out when inputs are bound.
    ///
    /// # Errors
    /// [`Error::Request`] for results that are not there or cannot be sparse, [`Error::Overflow`] and [`Error::Bug`].
    pub fn assemble(&self, results: &[&str]) -> Result<Assembly> {
        self.assemble_in(results, &mut Stages::new())
    }

    /// The same, with its passes shown.
    ///
    /// # Errors
    /// As [`Function::assemble`].
    pub fn assemble_in(&self, results: &[&str], stages: &mut Stages<'_>) -> Result<Assembly> {
        let results: Vec<(&str, usize)> = results.iter().map(|name| (*name, 0)).collect();
        back_end::assemble(&self.tssa, &results, false, stages)
    }

    /// Results that are [blocks](Derived::blocks) of a Jacobian, a Hessian or a Gauss-Newton matrix as one sparse matrix.
    ///
    /// # Errors
    /// As [`Function::assemble`].
    pub fn matrix(&self, blocks: &[Block], stages: &mut Stages<'_>) -> Result<Matrix> {
        back_end::matrix(&self.tssa, blocks, stages)
    }

    /// A derivative.
    ///
    /// # Errors
    /// [`Error::Request`] if the program has no such parameters, or no gradient; [`Error::Overflow`] and [`Error::Bug`].
    pub fn derive(&self, request: &Request, stages: &mut Stages<'_>) -> Result<Derived> {
        request.check()?;
        let wrt = diff::params_by_name(&self.tssa.signature, &request.wrt)?;
        let (mut added, mut derivation, mut blocks) = (Vec::new(), None, Vec::new());
        let dependents = self.dependents.as_slice();
        let Request { with_value, sweep, part, weighted, .. } = *request;
        let program = match request.mode {
            Mode::Forward => bounded(stages, &self.tssa, "forward", || {
                let forward = diff::forward_through(&self.tssa, dependents, &wrt, with_value)?;
                added = forward.tangents.into_iter().map(|(_, tangent)| tangent).collect();
                Ok(forward.program)
            })?,
            Mode::Adjoint | Mode::Gradient => bounded(stages, &self.tssa, "adjoint", || {
                let seed = if request.mode == Mode::Gradient { Seed::One } else { Seed::Parameter };
                let options = Options { seed, with_value, derivation: request.derivation };
                let Adjoint { program, seeds, derivation: steps } =
                    diff::adjoint_through(&self.tssa, dependents, &wrt, options)?;
                (added, derivation) = (seeds, steps);
                Ok(program)
            })?,
            Mode::Jacobian => {
                let how = Jacobian { sweep, part, of: None, with_value };
                bounded(stages, &self.tssa, "jacobian", || {
                    of_blocks(&mut blocks, diff::jacobian(&self.tssa, dependents, &wrt, how))
                })?
            }
            Mode::Hessian => {
                let gradient = self.simple_gradient(request, stages)?;
                let columns = match &request.columns {
                    Some(names) => diff::params_by_name(&self.tssa.signature, names)?,
                    None => wrt,
                };
                let how = Jacobian { sweep, part, of: Some("grad"), with_value };
                bounded(stages, &gradient.tssa, "jacobian", || {
                    of_blocks(&mut blocks, diff::jacobian(&gradient.tssa, dependents, &columns, how))
                })?
            }
            Mode::HessianProduct => {
                let gradient = self.simple_gradient(request, stages)?;
                bounded(stages, &gradient.tssa, "forward", || {
                    let (program, tangents) = diff::hessian_product(&gradient.tssa, dependents, &wrt)?;
                    added = tangents;
                    Ok(program)
                })?
            }
            Mode::GaussNewton => {
                let derive = || diff::gauss_newton(&self.tssa, dependents, &wrt, sweep, weighted);
                bounded(stages, &self.tssa, "gauss-newton", || of_blocks(&mut blocks, derive()))?
            }
            Mode::GaussNewtonProduct => bounded(stages, &self.tssa, "gauss-newton", || {
                let (program, tangents) = diff::gauss_newton_product(&self.tssa, dependents, &wrt, weighted)?;
                added = tangents;
                Ok(program)
            })?,
            Mode::Transpose if !dependents.is_empty() => {
                let message = "a program some of whose parameters depend on others has no transposed program";
                return Err(Error::Request(message.to_owned()));
            }
            Mode::Transpose => bounded(stages, &self.tssa, "transpose", || {
                let transposed = diff::transpose(&self.tssa, &wrt)?;
                added = transposed.seeds;
                Ok(transposed.program)
            })?,
        };
        let sparse = blocks.iter().filter(|block| block.row_axes > 0 && block.column_axes > 0);
        let sparse = sparse.map(|block| block.result.clone()).collect();
        // A part of a matrix is none.
        if part != Part::Whole {
            blocks.clear();
        }
        let program = match request.expand_partials {
            true => bounded(stages, &program, "expand-partials", || diff::expand_partials(&program))?,
            false => program,
        };
        let (program, simplification) = match &request.simplify {
            Some(options) => {
                let (program, report) = simplified(&program, options, stages)?;
                (program, Some(report))
            }
            None => (program, None),
        };
        let name = |id| program.signature.params.get(id).map(|p| p.name.clone());
        let added = added.into_iter().filter_map(name).collect();
        let function = Function { source: None, tssa: program, dependents: self.dependents.clone(), sparse };
        Ok(Derived { function, added, blocks, derivation, simplification })
    }

    /// The gradient that a Hessian is made of.
    fn simple_gradient(&self, request: &Request, stages: &mut Stages<'_>) -> Result<Function> {
        let gradient = Request {
            wrt: request.wrt.clone(),
            with_value: request.with_value,
            simplify: request.simplify.clone(),
            ..Request::new(Mode::Gradient, &[])
        };
        Ok(self.derive(&gradient, stages)?.function)
    }

    /// The gradient by some parameters, simplified, as are all derivatives that [`Function::derive`] is not told to leave as they are.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn gradient(&self, wrt: &[&str]) -> Result<Function> {
        self.of(Request::new(Mode::Gradient, wrt))
    }

    /// The value and the gradient by some parameters, which share their work.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn value_and_gradient(&self, wrt: &[&str]) -> Result<Function> {
        self.of(Request { with_value: true, ..Request::new(Mode::Gradient, wrt) })
    }

    /// The adjoint derivative by some parameters; it takes a seed `dy`.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn adjoint(&self, wrt: &[&str]) -> Result<Function> {
        self.of(Request::new(Mode::Adjoint, wrt))
    }

    /// The forward derivative by some parameters; it takes a tangent `dx` of each parameter `x`.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn forward(&self, wrt: &[&str]) -> Result<Function> {
        self.of(Request::new(Mode::Forward, wrt))
    }

    /// The Jacobian by some parameters: a result `jacobian_x` for each parameter `x`, with the axes of the output and of `x`, as a program whose
    /// guards say where it may differ from zero, and which [`Function::kernel`] stores sparse. What it prints is a program as any other: parsed
    /// again, it has dense results.
    ///
    /// ```
    /// # use iverson::Function;
    /// // The differences of neighbours: row i has -1 at i and 1 at i + 1.
    /// let f = Function::parse("param x : [n] real\ngen i < n - 1. x[i + 1] - x[i]")?;
    /// let expected = "gen i < n - 1, j < n. [i + 1 = j] * 1 - [i = j] * 1";
    /// assert_eq!(f.jacobian(&["x"])?.to_string().lines().last(), Some(expected));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn jacobian(&self, wrt: &[&str]) -> Result<Function> {
        self.of(Request::new(Mode::Jacobian, wrt))
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
    pub fn hessian(&self, wrt: &[&str]) -> Result<Function> {
        self.of(Request::new(Mode::Hessian, wrt))
    }

    /// The diagonal of the Hessian by some parameters: a result `hessian_x_x` for each parameter `x`, of its shape.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn hessian_diagonal(&self, wrt: &[&str]) -> Result<Function> {
        self.of(Request { part: Part::Diagonal(usize::MAX), ..Request::new(Mode::Hessian, wrt) })
    }

    /// The Hessian times a vector: takes a tangent `dx` of each parameter `x`, and has a result `hessian_x`.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn hessian_product(&self, wrt: &[&str]) -> Result<Function> {
        self.of(Request::new(Mode::HessianProduct, wrt))
    }

    /// The Gauss-Newton matrix `J' J` of the Jacobian by some parameters: a result `gauss_newton_x_y` for each two parameters `x` and `y`, which
    /// [`Function::kernel`] stores sparse.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn gauss_newton(&self, wrt: &[&str]) -> Result<Function> {
        self.of(Request::new(Mode::GaussNewton, wrt))
    }

    /// The Gauss-Newton matrix times a vector, `J' J v`: takes a tangent `dx` of each parameter `x`, and has a result `gauss_newton_x`.
    ///
    /// # Errors
    /// As [`Function::derive`].
    pub fn gauss_newton_product(&self, wrt: &[&str]) -> Result<Function> {
        self.of(Request::new(Mode::GaussNewtonProduct, wrt))
    }

    /// The transposed program of one that is linear in some parameters: takes a seed `dy` in their place, and has a result `adjoint_x`.
    ///
    /// # Errors
    /// [`Error::Request`] if the program is not linear in them by its form, and as [`Function::derive`].
    pub fn transpose(&self, wrt: &[&str]) -> Result<Function> {
        self.of(Request::new(Mode::Transpose, wrt))
    }

    fn of(&self, request: Request) -> Result<Function> {
        Ok(self.derive(&request, &mut Stages::new())?.function)
    }
}

/// Keeps the blocks of a matrix, and passes its program on.
fn of_blocks(blocks: &mut Vec<Block>, derived: Result<(tssa::Program, Vec<Block>)>) -> Result<tssa::Program> {
    let (program, found) = derived?;
    *blocks = found;
    Ok(program)
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.term() {
            Ok(term) => term.fmt(f),
            Err(_) => self.tssa.fmt(f),
        }
    }
}

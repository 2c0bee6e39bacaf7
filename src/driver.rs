//! The pipeline: which passes run, and in which order.
//!
//! | file | job |
//! |---|---|
//! | `derivative` | derivatives: what is asked for, and which passes make it |
//! | `back_end` | the passes between Tensor-SSA and kernels |
//! | `flows` | functions with loops |
//! | `kernels` | kernels of a function |
//! | `memory` | kernels within a budget of memory |
//! | `compose` | programs made of programs |
//! | `objective` | functions of one vector, for optimisers: a loss, or residuals |
//! | `save` | functions in files |

mod back_end;
mod compose;
mod derivative;
mod flows;
mod kernels;
mod memory;
mod objective;
mod save;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::base::work;
use crate::certificate::{self, Certificate, Cost};
use crate::diff::Dependent;
use crate::error::{Diagnostic, Error, Result};
use crate::scalar::UserFunction;
use crate::scalar::external::Argument;
use crate::simplify::Explanation;
use crate::solver::estimate::Hints;
use crate::stages::Stages;
use crate::surface::ast::Ast;
use crate::term::Style;
use crate::ty::Signature;
use crate::{flow, normalize, present, simplify, surface, term, tssa};

pub use back_end::{loops_of_flow, loops_of_flow_for, passes};
pub use derivative::{Derived, Mode, Names, Request};
pub use kernels::{KernelBuilder, Nests};
pub use objective::{Objective, Residuals};

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
    /// Tensor-SSA with loops around it.
    Flow(flow::Program),
}

impl fmt::Display for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Staged::Term(program) => program.fmt(f),
            Staged::TensorSsa(program) => program.fmt(f),
            Staged::Flow(program) => program.fmt(f),
        }
    }
}

/// Takes a program through the passes up to a stage, with the default options. A program with loops has no normal forms as a whole: it is as it was
/// written, or a flow, whose leaves are in Tensor-SSA.
///
/// # Errors
/// [`Error::Overflow`], [`Error::Limit`], [`Error::Limitation`], and [`Error::Bug`].
pub fn lower(program: &term::Program, until: Stage, stages: &mut Stages<'_>) -> Result<Staged> {
    if flows::has_scans(program) {
        return flows::lower(program, until, stages);
    }
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
        program = stages.run(name, || work::pass(program.terms.len(), || pass(&program)))?;
    }
    if until < Stage::TensorSsa {
        return Ok(Staged::Term(program));
    }
    let tssa = stages.run("tensor-ssa", || work::pass(program.terms.len(), || normalize::to_tensor_ssa(&program)))?;
    if until < Stage::Simplify {
        return Ok(Staged::TensorSsa(tssa));
    }
    Ok(Staged::TensorSsa(simplified(&tssa, &simplify::Options::default(), stages)?.program))
}

/// A pass over a program in Tensor-SSA that takes no more work than its length allows.
fn bounded(
    stages: &mut Stages<'_>,
    program: &tssa::Program,
    pass: &'static str,
    run: impl FnOnce() -> Result<tssa::Program>,
) -> Result<tssa::Program> {
    stages.run(pass, || work::pass(program.stmts.len(), run))
}

/// Simplification as a pass.
fn simplified(
    program: &tssa::Program,
    options: &simplify::Options,
    stages: &mut Stages<'_>,
) -> Result<simplify::Simplified> {
    let mut found = None;
    let program = stages.run("simplify", || {
        let simplified = simplify::simplify(program, options)?;
        found = Some((simplified.strict, simplified.report));
        Ok(simplified.program)
    })?;
    match found {
        Some((strict, report)) => Ok(simplify::Simplified { program, strict, report }),
        None => Err(Error::bug("driver", "simplification did not run")),
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
    /// The program, unless it has loops.
    tssa: tssa::Program,
    /// The program that is meant, where `tssa` takes data to be finite: that is it wherever its results are numbers.
    strict: Option<Arc<tssa::Program>>,
    /// A program with loops.
    flow: Option<flow::Program>,
    /// What kernels of a derivative with loops run instead.
    steps: Option<Arc<flows::Steps>>,
    /// What a derivative with loops is the derivative of.
    primal: Option<Arc<memory::Primal>>,
    /// The parameters that are computed from others outside, in order.
    dependents: Vec<Dependent>,
    /// What is right in its text and easily misread.
    warnings: Vec<Diagnostic>,
    /// The results that kernels store as sparse tensors.
    sparse: Vec<String>,
    /// What kernels of a program as it was written run, once that is known.
    run: OnceLock<Arc<Function>>,
}

/// [`Function::parse`].
impl std::str::FromStr for Function {
    type Err = Error;
    fn from_str(text: &str) -> Result<Function> {
        Function::parse(text)
    }
}

impl Function {
    /// Compiles a program text.
    ///
    /// # Errors
    /// [`Error::Program`] with every problem in the text, and those of [`lower`].
    pub fn parse(text: &str) -> Result<Function> {
        Function::parse_with(text, &[], &mut |_, _| {
            Err("`Function::parse` reads no other texts, `Function::parse_with` does".to_owned())
        })
    }

    /// Compiles a program text that may call scalar functions of the user, and whose imports a loader finds: from the name of the text that imports,
    /// empty for the program itself, and the path as written.
    ///
    /// ```
    /// # use iverson::Function;
    /// use iverson::Import;
    ///
    /// let text = "import \"squares.iv\"\nparam x : [n] real\nsquares(x)";
    /// let function = Function::parse_with(text, &[], &mut |_, path| match path {
    ///     "squares.iv" => Ok(Import { name: path.to_owned(), text: "def squares(a : [n] real) = sum(a^2)".to_owned() }),
    ///     _ => Err("there is no such library".to_owned()),
    /// })?;
    /// assert_eq!(function.to_string(), "param x : [n] real\nsum i < n. x[i]^2\n");
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::parse`].
    pub fn parse_with(text: &str, functions: &[UserFunction], loader: &mut surface::Loader<'_>) -> Result<Function> {
        let surface::Reading { program, warnings } = surface::read_with(text, functions, loader)?;
        Ok(Function { warnings, ..Function::compile(program, &mut Stages::new())? })
    }

    /// What is right in the text of the program and easily misread, each with its place; empty for a program that was not read.
    ///
    /// ```
    /// # use iverson::Function;
    /// let text = "param x : [n] real\nparam b : real\n(sum i < n. x[i] + b)^2";
    /// let function = Function::parse(text)?;
    /// assert_eq!(function.warnings()[0].message, "`b` does not depend on `i`, and is added for each of its values");
    /// # Ok::<(), iverson::Error>(())
    /// ```
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Compiles a program made by the Rust builder.
    ///
    /// # Errors
    /// As [`Function::parse`].
    pub fn build(ast: &Ast) -> Result<Function> {
        Function::build_with(ast, &[])
    }

    /// Compiles a program made by the Rust builder that calls scalar functions of the user.
    ///
    /// ```
    /// # use iverson::Function;
    /// use iverson::builder::{Builder, Formula, Op, UserFunction, sum};
    ///
    /// // The derivative of ln(1 + exp(x)) is 1 - exp(-result).
    /// let slope = 1.0 - Op::Exp.of([&-Formula::Result]);
    /// let smooth_relu = UserFunction::native("smooth_relu", 1, |x| x[0].exp().ln_1p(), vec![slope])?;
    /// let b = Builder::new();
    /// let n = b.size("n");
    /// let x = b.param("x", n);
    /// let program = b.finish(sum(n, |i| b.call("smooth_relu", [x[i]])))?;
    /// let gradient = Function::build_with(&program, &[smooth_relu])?.gradient(["x"])?;
    /// let slope = gradient.eval(&iverson::inputs! { "x" => [0.0] })?;
    /// assert_eq!(slope["grad_x"].as_slice(), Some(&[0.5][..]));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::parse`].
    pub fn build_with(ast: &Ast, functions: &[UserFunction]) -> Result<Function> {
        Function::compile(surface::elaborate(ast, functions).map_err(Error::Program)?, &mut Stages::new())
    }

    /// The function of tensors that some code computes, with its backpropagator, as a program of one call: its parameters are those of the header,
    /// which is one of a `def`. It composes as others do. [`UserFunction::external`] says what the code is given, and makes what programs call by name.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let smooth = Function::external(
    ///     "smooth(x : [n] real) : [n] real",
    ///     |x, y| y[0].iter_mut().enumerate().for_each(|(i, y)| *y = (x[0][i] + x[0][i.saturating_sub(1)]) / 2.0),
    ///     |given, owed| {
    ///         for (i, dy) in given[2].iter().enumerate() {
    ///             owed[0][i] += dy / 2.0;
    ///             owed[0][i.saturating_sub(1)] += dy / 2.0;
    ///         }
    ///     },
    /// )?;
    /// let loss = Function::parse("param y : [n] real\nsum(y^2)")?.compose(&smooth)?;
    /// assert_eq!(loss.gradient(["x"])?.eval(&inputs! { "x" => [2.0, 4.0] })?["grad_x"].as_slice(), Some(&[7.0, 3.0][..]));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`UserFunction::external`].
    pub fn external(
        header: &str,
        code: impl Fn(&[Argument<'_>], &mut [&mut [f64]]) + Send + Sync + 'static,
        adjoint: impl Fn(&[Argument<'_>], &mut [&mut [f64]]) + Send + Sync + 'static,
    ) -> Result<Function> {
        let function = UserFunction::external(header, code)?.with_adjoint(adjoint)?;
        Function::compile(surface::call_of(&function)?, &mut Stages::new())
    }

    /// Compiles a typed program.
    ///
    /// # Errors
    /// Those of [`lower`].
    pub fn compile(source: term::Program, stages: &mut Stages<'_>) -> Result<Function> {
        match lower(&source, Stage::TensorSsa, stages)? {
            Staged::TensorSsa(tssa) => Ok(Function { source: Some(source), ..Function::from_tensor_ssa(tssa) }),
            Staged::Flow(flow) => Ok(Function { source: Some(source), ..Function::from_flow(flow) }),
            Staged::Term(_) => Err(Error::bug("driver", "the pipeline ended before Tensor-SSA")),
        }
    }

    /// A program that is in Tensor-SSA already.
    pub fn from_tensor_ssa(tssa: tssa::Program) -> Function {
        Function {
            source: None,
            tssa,
            strict: None,
            flow: None,
            steps: None,
            primal: None,
            dependents: Vec::new(),
            warnings: Vec::new(),
            sparse: Vec::new(),
            run: OnceLock::new(),
        }
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
        self.straight("a parameter with a derivative of its own")?;
        let dependent =
            Dependent::new(&self.tssa.signature, param, derivative.straight("a derivative that is given")?)?;
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
        self.straight("a parameter with a derivative of its own")?;
        let dependent = Dependent::implicit(&self.tssa.signature, param, residual.straight("a residual")?)?;
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

    /// What the program takes from outside.
    pub fn signature(&self) -> &Signature {
        &self.tssa.signature
    }

    /// The names of the parameters, in the order in which they are declared.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let loss = Function::parse("param x : [n] real\nparam y : [n] real\nsum((x - y)^2)")?;
    /// assert_eq!(loss.params().collect::<Vec<_>>(), ["x", "y"]);
    /// assert_eq!(loss.value_and_gradient(["x"])?.outputs().collect::<Vec<_>>(), ["value", "grad_x"]);
    /// # Ok::<(), iverson::Error>(())
    /// ```
    pub fn params(&self) -> impl Iterator<Item = &str> {
        self.tssa.signature.params.values().map(|param| param.name.as_str())
    }

    /// The names of the results, as [`Results`](crate::tensor::Results) have them.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        let of_loops = self.flow().map_or(&[][..], |flow| flow.outputs.as_slice());
        let own = self.tssa.outputs.iter().map(|output| output.name.as_str());
        own.chain(of_loops.iter().map(|output| output.name.as_str()))
    }

    /// The program in Tensor-SSA. Of one with loops, which is a [`flow`](Function::flow), there are no statements here but its signature.
    pub fn tensor_ssa(&self) -> &tssa::Program {
        &self.tssa
    }

    /// The program in Tensor-SSA that says what its results are. It is [`tensor_ssa`](Function::tensor_ssa), which is printed and runs, but for
    /// derivatives that multiply dense matrices with rows that only a sparse one reads: numbers in other rows are taken to be finite in what is
    /// printed. Kernels compare, and run this program where a result would be NaN. That printed text has no such guard.
    pub fn meant(&self) -> &tssa::Program {
        self.strict.as_deref().unwrap_or(&self.tssa)
    }

    /// The program as a term: as it was written, or, for a derivative, put together again for reading.
    ///
    /// # Errors
    /// [`Error::Overflow`] and [`Error::Bug`].
    pub fn term(&self) -> Result<term::Program> {
        match &self.source {
            Some(source) => Ok(source.clone()),
            None => self.presented(),
        }
    }

    /// The program put together again for reading.
    fn presented(&self) -> Result<term::Program> {
        match &self.flow {
            Some(flow) => flow::present(flow),
            None => present::present(&self.tssa),
        }
    }

    /// The program in one of the ways in which it is written; [`Display`](fmt::Display) writes the canonical text.
    ///
    /// ```
    /// use iverson::{Function, Style};
    ///
    /// let program = Function::parse("param x : [n] real\nsum i < n. 2 * x[i]")?;
    /// assert_eq!(program.print(Style::Unicode)?, "param x : [n] real\nΣ i < n. 2 · x[i]\n");
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::term`].
    pub fn print(&self, style: Style) -> Result<String> {
        Ok(self.term()?.print(style))
    }

    /// The program in matrix notation, `2 X' (X w - y) / n`, as it was written or else as it is presented: a line for each variable and result.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let loss = Function::parse("param A : [m, n] real\nparam x : [n] real\nparam b : [m] real\nsum((A @ x - b)^2)")?;
    /// assert_eq!(loss.gradient(["x"])?.matrix_notation()?, "2 A' (A x - b)\n");
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Limitation`] for a program that has none; see `src/term/print/matrix.rs`.
    pub fn matrix_notation(&self) -> Result<String> {
        self.term()?.matrix_notation().or_else(|error| self.presented()?.matrix_notation().map_err(|_| error))
    }

    /// How many scalar operations the program takes, as formulas in its sizes. Kernels of derivatives with loops share work of their steps, which is
    /// counted here as often as it is printed.
    ///
    /// # Errors
    /// [`Error::Overflow`].
    pub fn cost(&self) -> Result<Cost> {
        certificate::cost(&*self.counted()?)
    }

    /// The statements to count.
    fn counted(&self) -> Result<Cow<'_, tssa::Program>> {
        Ok(match &self.flow {
            Some(flow) => Cow::Owned(flow::tally(flow)?),
            None => Cow::Borrowed(&self.tssa),
        })
    }

    /// The cost of a derivative of this program beside its own, and what is proved of it: of the adjoint of a program with loops the bound is
    /// [not proved](certificate::Claim).
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
        if self.flow.as_ref().is_some_and(flow::Program::has_fixpoints) {
            let message = "no theorem bounds the cost of the derivative of a `fixpoint`, whose equation takes steps of its own; it has a cost";
            return Err(Error::Request(message.to_owned()));
        }
        let certificate = certificate::certify(&*self.counted()?, &*derivative.counted()?, theorem, &Hints::new())?;
        let depth = self.flow.as_ref().map_or(0, flow::Program::depth);
        Ok(Certificate { bound: certificate.bound.under_loops(depth), ..certificate })
    }

    /// What kernels run of a program as it was written: it is simplified, once. Nothing for others, which run as they are.
    fn for_kernels(&self) -> Result<Option<&Function>> {
        if self.source.is_none() {
            return Ok(None);
        }
        if let Some(simplified) = self.run.get() {
            return Ok(Some(simplified));
        }
        let simplified = Arc::new(self.simplify()?);
        Ok(Some(self.run.get_or_init(|| simplified)))
    }

    /// The same function with no more work. Derivatives come simplified, and kernels run what this gives.
    ///
    /// ```
    /// # use iverson::Function;
    /// let program = Function::parse("param x : [n] real\nsum i < n. sum j < n. [i = j] * x[j]")?;
    /// assert_eq!(program.simplify()?.to_string(), "param x : [n] real\nsum i < n. x[i]\n");
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Overflow`] and [`Error::Bug`].
    pub fn simplify(&self) -> Result<Function> {
        Ok(self.simplify_with(&simplify::Options::default())?.function)
    }

    /// The same with options, and with how it went.
    ///
    /// # Errors
    /// As [`Function::simplify`].
    pub fn simplify_with(&self, options: &simplify::Options) -> Result<Simplification> {
        if let Some(flow) = &self.flow {
            let flow = flows::without_invariant_states(flow, &mut Stages::new())?;
            let (flow, report) = flows::simplified(&flow, options, &mut Stages::new())?;
            return Ok(Simplification {
                function: Function { source: None, flow: Some(flow), steps: None, ..self.clone() },
                report,
            });
        }
        let simplify::Simplified { program, strict, report } = simplified(self.meant(), options, &mut Stages::new())?;
        let function = Function { source: None, tssa: program, strict: strict.map(Arc::new), ..self.clone() };
        Ok(Simplification { function, report })
    }

    /// The equations that lead from the program to the [simplified](Function::simplify) one, each with the rules that it follows from.
    ///
    /// # Errors
    /// As [`Function::simplify`].
    pub fn explain(&self) -> Result<Explanation> {
        simplify::explain(self.straight("the explanation")?, &simplify::Options::default())
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.term() {
            Ok(term) => term.fmt(f),
            Err(_) => match &self.flow {
                Some(flow) => flow.fmt(f),
                None => self.tssa.fmt(f),
            },
        }
    }
}

//! Kernels of a function: its loop nests for some inputs, and which of its results are stored sparse.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Function, Names, back_end};
use crate::codegen::source::{Target, source};
use crate::error::Result;
use crate::kernel::{Assembly, Engine, Footprint, Kernel, Matrix};
use crate::schedule::{Specialised, constants_by_name, specialise};
use crate::stages::Stages;
use crate::tensor::{self, Inputs, Results};
use crate::ty::Block;
use crate::{loops, schedule};

/// The loop nests of a function as kernels run them, by when they run.
#[derive(Clone, Debug)]
pub struct Nests {
    /// What finds the entries of sparse results, once; nothing where all results are dense.
    pub structure: Option<loops::Program>,
    /// What is computed once, from parameters that are constant; nothing where there are none.
    pub setup: Option<loops::Program>,
    /// What runs at each call.
    pub main: loops::Program,
}

impl Function {
    /// The results that [`Function::kernel`] stores as sparse tensors: the blocks of a Jacobian, a Hessian or a Gauss-Newton matrix that have axes of
    /// both a row and a column. Programs that are parsed have none; [`Function::assemble`] takes any.
    pub fn sparse_results(&self) -> Vec<&str> {
        self.sparse.iter().map(String::as_str).collect()
    }

    /// The same function, of which kernels store all results as dense tensors, zeros and all.
    ///
    /// ```
    /// # use iverson::Function;
    /// use iverson::inputs;
    ///
    /// let hessian = Function::parse("param x : [n] real\nsum i < n. x[i]^2")?.hessian(["x"])?;
    /// let inputs = inputs! { "x" => [1.0, 2.0] };
    /// assert_eq!(hessian.eval(&inputs)?["hessian_x_x"].as_slice(), Some(&[2.0, 2.0][..]));
    /// assert_eq!(hessian.dense().eval(&inputs)?["hessian_x_x"].as_slice(), Some(&[2.0, 0.0, 0.0, 2.0][..]));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    pub fn dense(mut self) -> Function {
        self.sparse.clear();
        self
    }

    /// A kernel of the program as Rust source for `include!` within a module, which needs `core` alone: for what is compiled ahead of time, where a
    /// build script writes the source. All results are dense; its head says how it is called, its end what it is given.
    ///
    /// ```
    /// # use iverson::Function;
    /// let loss = Function::parse("param x : [n] real\nsum i < n. x[i]^2")?;
    /// assert!(loss.rust_source()?.contains("pub unsafe fn run(call: &Call)"));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Function::loops`].
    pub fn rust_source(&self) -> Result<String> {
        Ok(source(&self.loops(&mut Stages::new())?, Target::Included)?.text)
    }

    /// The program as loop nests, with all results dense.
    ///
    /// # Errors
    /// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
    pub fn loops(&self, stages: &mut Stages<'_>) -> Result<loops::Program> {
        match self.flow_of_kernels()? {
            Some(flow) => back_end::loops_of_flow(flow, stages),
            None => back_end::loops(&self.tssa, stages),
        }
    }

    /// The loop nests that a kernel of this function runs, where `constants` are parameters whose numbers are the same at each call. `blocks` are
    /// those that a derivative has as a [matrix](super::Derived::blocks), or none.
    ///
    /// # Errors
    /// [`Error::Request`](crate::Error::Request) for a name that no parameter has, and as [`Function::loops`].
    pub fn nests(&self, blocks: &[Block], constants: &[&str], stages: &mut Stages<'_>) -> Result<Nests> {
        let assembled = match (blocks, self.sparse_results().as_slice()) {
            ([], []) => None,
            ([], sparse) => Some(self.assemble_in(sparse, stages)?),
            (blocks, _) => Some(self.matrix(blocks, stages)?.assembly().clone()),
        };
        let (structure, nests) = match assembled {
            None => (None, self.loops(stages)?),
            Some(assembly) => {
                let structure = specialise(assembly.structure(), None, &BTreeSet::new())?.main;
                (Some(structure), assembly.values().clone())
            }
        };
        let constants = constants_by_name(&nests.signature, constants)?;
        let Specialised { setup, main } = specialise(&nests, None, &constants)?;
        Ok(Nests { structure, setup, main })
    }

    /// The program as loop nests for the sizes of inputs: products with sums over empty ranges are zero, whatever the other factors are, and
    /// axes of a few values beside long ones are [known to be so](schedule::short_axes). Only then are they other nests.
    ///
    /// # Errors
    /// As [`Function::loops`].
    pub fn loops_for(&self, inputs: &Inputs) -> Result<loops::Program> {
        // Inputs that do not fit are complained about when they are bound.
        let Ok(sizes) = tensor::sizes(&self.tssa.signature, inputs) else { return self.loops(&mut Stages::new()) };
        match self.flow_of_kernels()? {
            Some(flow) => back_end::loops_of_flow_for(flow, &sizes),
            None => back_end::loops_for(&self.tssa, &sizes),
        }
    }

    /// The program as loop nests in two: what parameters that are constant alone lead to, and what is left for each call.
    ///
    /// # Errors
    /// [`Error::Request`](crate::Error::Request) for a name that no parameter has, and as [`Function::loops`].
    pub fn split(&self, constants: &[&str]) -> Result<schedule::Split> {
        let constants = schedule::constants_by_name(&self.tssa.signature, constants)?;
        schedule::hold(&self.loops(&mut Stages::new())?, &constants)
    }

    /// The program as a kernel for the sizes and relations of inputs, which [`KernelBuilder::build`] makes: with parameters that stay the same, in
    /// single precision, on threads of its own, as the builder is told.
    ///
    /// It runs the program [simplified](Function::simplify), as derivatives come, if it is not told to run it [as written](KernelBuilder::as_written).
    ///
    /// A Jacobian, a Hessian or a Gauss-Newton matrix is stored sparse, matrices in CSR and others in COO format: the patterns are found out when
    /// the kernel is built, [`Kernel::outputs`] has them, and calls compute the numbers of their entries. [`Function::dense`] is for dense results.
    ///
    /// ```
    /// use iverson::prelude::*;
    /// use iverson::kernel::Leaf;
    ///
    /// let chain = Function::parse("param x : [n] real\nsum i < n - 1. (x[i + 1] - x[i])^2")?;
    /// let kernel = chain.hessian(["x"])?.kernel(&inputs! { "x" => [0.0; 3] }).build()?;
    /// let Leaf::Csr(pattern) = &kernel.outputs()[0].leaves[0] else { panic!("a matrix is in CSR format") };
    /// assert_eq!(pattern.entries().collect::<Vec<_>>(), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)]);
    /// let mut values = [0.0; 7];
    /// kernel.call_into(&[1.0, 2.0, 3.0], &mut values)?;
    /// assert_eq!(values, [2.0, -2.0, -2.0, 4.0, -2.0, -2.0, 2.0]);
    /// # Ok::<(), iverson::Error>(())
    /// ```
    pub fn kernel<'f>(&'f self, inputs: &'f Inputs) -> KernelBuilder<'f> {
        KernelBuilder {
            function: Cow::Borrowed(self),
            inputs: Cow::Borrowed(inputs),
            constants: Vec::new(),
            single: Vec::new(),
            results_in_single: false,
            sparse: self.sparse.clone(),
            engine: Engine::Auto,
            threads: None,
            limit: None,
            memory: None,
            as_written: false,
        }
    }

    /// The results for some inputs, of the program as it is, by the interpreter. Whoever evaluates a function often binds a [kernel](Function::kernel) once.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let loss = Function::parse("param x : [n] real\nsum i < n. x[i]^2")?;
    /// assert_eq!(loss.eval(&inputs! { "x" => [1.0, 2.0] })?["value"].as_scalar(), Some(5.0));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`KernelBuilder::build`].
    pub fn eval(&self, inputs: &Inputs) -> Result<Results> {
        self.kernel(inputs).as_written().engine(Engine::Interpreter).build()?.call(inputs)
    }

    /// The program as a kernel of which some results, tensors of reals, are sparse: their patterns follow from guards, relations and the
    /// patterns of sparse parameters, and are found out when inputs are bound. What comes out of a loop is taken to have an entry at each place.
    ///
    /// # Errors
    /// [`Error::Request`](crate::Error::Request) for results that are not there or cannot be sparse, [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
    pub fn assemble(&self, results: &[&str]) -> Result<Assembly> {
        self.assemble_in(results, &mut Stages::new())
    }

    /// The same, with its passes shown.
    ///
    /// # Errors
    /// As [`Function::assemble`].
    pub fn assemble_in(&self, results: &[&str], stages: &mut Stages<'_>) -> Result<Assembly> {
        if let Some(flow) = &self.flow {
            return back_end::assemble_flow(flow, results, stages);
        }
        let results: Vec<(&str, usize)> = results.iter().map(|name| (*name, 0)).collect();
        back_end::assemble(&self.tssa, &results, false, stages)
    }

    /// Results that are [blocks](super::Derived::blocks) of a Jacobian, a Hessian or a Gauss-Newton matrix as one sparse matrix.
    ///
    /// # Errors
    /// As [`Function::assemble`].
    pub fn matrix(&self, blocks: &[Block], stages: &mut Stages<'_>) -> Result<Matrix> {
        match &self.flow {
            Some(flow) => back_end::matrix_of_flow(flow, blocks, stages),
            None => back_end::matrix(self.meant(), blocks, stages),
        }
    }
}

/// A kernel to be: what is asked for beside the sizes and relations that it is bound to. Calls can be chained in any order.
///
/// ```
/// use iverson::prelude::*;
///
/// let loss = Function::parse("param X : [n, d] real\nparam w : [d] real\nsum i < n. (sum j < d. X[i, j] * w[j])^2")?;
/// let inputs = inputs! { "X" => [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "w" => [0.0; 2] };
/// let gradient = loss.gradient(["w"])?;
/// let kernel = gradient.kernel(&inputs).constants(["X"]).single(["X", "grad_w"]).engine(Engine::Interpreter).threads(2).build()?;
/// let mut slope = [0.0_f32; 2];
/// kernel.call_into(&[1.0, 1.0], &mut slope)?;
/// assert_eq!(slope, [158.0, 200.0]);
/// # Ok::<(), iverson::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a kernel is made by `build`"]
pub struct KernelBuilder<'f> {
    function: Cow<'f, Function>,
    inputs: Cow<'f, Inputs>,
    constants: Vec<String>,
    single: Vec<String>,
    results_in_single: bool,
    sparse: Vec<String>,
    engine: Engine,
    threads: Option<usize>,
    limit: Option<u64>,
    memory: Option<u64>,
    as_written: bool,
}

impl KernelBuilder<'_> {
    /// Parameters whose numbers are always those of the inputs, as the data are in an optimiser. What depends on these alone is computed once;
    /// calls take the other parameters, and give the same bits.
    pub fn constants(mut self, names: impl Names) -> Self {
        add(&mut self.constants, names);
        self
    }

    /// Parameters and results that are stored in single precision, rounded once from double precision, in which everything is computed. Parameters
    /// whose tensors are in single precision are so anyway.
    pub fn single(mut self, names: impl Names) -> Self {
        add(&mut self.single, names);
        self
    }

    /// Stores all results in single precision.
    ///
    /// ```
    /// use iverson::prelude::*;
    /// use iverson::tensor::Slice;
    ///
    /// let mean = Function::parse("param x : [n] real\nassume n >= 1\n(sum i < n. x[i]) / n")?;
    /// let inputs = inputs! { "x" => [0.1_f32, 0.2, 0.3] };
    /// let results = mean.kernel(&inputs).results_in_single().build()?.call(&inputs)?;
    /// assert_eq!(results["value"].leaves()[0].numbers(), Slice::Single(&[0.2]));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    pub fn results_in_single(mut self) -> Self {
        self.results_in_single = true;
        self
    }

    /// More results that are sparse, tensors of reals: their patterns follow from guards, relations and the patterns of sparse parameters, and are
    /// found out when the kernel is built.
    pub fn sparse(mut self, names: impl Names) -> Self {
        add(&mut self.sparse, names);
        self
    }

    /// Runs the sums and products of the program text, in the loops that follow from them, and none that are equal to them.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let mass = Function::parse("param x : [n] real\nsum i < n, j < n. x[i] * x[j]")?;
    /// let inputs = inputs! { "x" => vec![1.0; 100_000] };
    /// // All pairs are more steps than are allowed here, and the square of the sum is not.
    /// let [kernel, written] = [mass.kernel(&inputs), mass.kernel(&inputs).as_written()].map(|kernel| kernel.limit(1_000_000).build());
    /// assert_eq!(kernel?.call(&inputs)?["value"].as_scalar(), Some(1e10));
    /// assert!(written.is_err());
    /// # Ok::<(), iverson::Error>(())
    /// ```
    pub fn as_written(mut self) -> Self {
        self.as_written = true;
        self
    }

    /// What runs it; [`Engine::Auto`] where nothing is said.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// How many threads of its own native code has, in place of those of the pool that a call comes from.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// How many [iterations](crate::kernel::ITERATIONS) the loops of a call may take, in place of [`Engine::limit`].
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// How many bytes of [memory](Kernel::memory) a call may take beside inputs and results. A gradient of a loop over time keeps all states, unless they
    /// are more: then it keeps some of them, and runs the steps between once more, in as few levels as the budget allows. So two levels keep about
    /// `2 sqrt(T)` of `T` states, and three `3 T^(1/3)`. Sums over time are added up tile by tile, so they may be rounded in another way than without a
    /// budget; what is computed depends on nothing but sizes and budget.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let loss = Function::parse("param a : real\nsize T\nfold t < T, s = a. s + sin(s) / 100")?;
    /// let mut inputs = inputs! { "a" => 0.5 };
    /// inputs.size("T", 10_000);
    /// let gradient = loss.gradient(["a"])?;
    /// let [whole, tiles] = [1 << 40, 5_000].map(|bytes| gradient.kernel(&inputs).memory(bytes).build());
    /// let (whole, tiles) = (whole?, tiles?);
    /// assert!(whole.memory() > 80_000 && tiles.memory() < 5_000);
    /// assert_eq!(whole.call(&inputs)?["grad_a"], tiles.call(&inputs)?["grad_a"]);
    /// # Ok::<(), iverson::Error>(())
    /// ```
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Makes the kernel.
    ///
    /// # Errors
    /// Those of [`Kernel::bind_with_constants`]; [`Error::Request`](crate::Error::Request) for names that neither parameters nor results have,
    /// for results that cannot be sparse, for threads that cannot be started, and for a budget of [memory](KernelBuilder::memory) that is too small.
    pub fn build(mut self) -> Result<Kernel> {
        if let Cow::Borrowed(function) = self.function
            && !self.as_written
            && let Some(simplified) = function.for_kernels()?
        {
            self.function = Cow::Borrowed(simplified);
        }
        let mut notes = Vec::new();
        if let Some(bytes) = self.memory {
            let inputs = self.rounded_inputs();
            let fitting = self.function.within(bytes, &inputs, &|function| self.footprint(function, &inputs))?;
            notes = fitting.notes;
            if let Cow::Owned(function) = fitting.function {
                self.function = Cow::Owned(function);
            }
        }
        Ok(self.build_whole()?.with_memory_notes(notes))
    }

    fn build_whole(self) -> Result<Kernel> {
        let Some(strict) = self.function.strict.clone() else { return self.bind(None) };
        let function =
            Function { tssa: Arc::unwrap_or_clone(strict), strict: None, ..self.function.clone().into_owned() };
        let mut kernel = self.bind(Some(&function))?;
        let inputs = Cow::Owned(self.inputs.into_owned());
        let meant = KernelBuilder { function: Cow::Owned(function), inputs, ..self };
        kernel.stand_in(move || meant.bind(None));
        Ok(kernel)
    }

    /// The inputs, with what is stored in single precision rounded.
    fn rounded_inputs(&self) -> Cow<'_, Inputs> {
        if self.single.is_empty() {
            return Cow::Borrowed(&self.inputs);
        }
        let mut rounded = self.inputs.as_ref().clone();
        for name in &self.single {
            rounded.store_in_single(name);
        }
        Cow::Owned(rounded)
    }

    /// The nests of a function whose results are all dense.
    fn nests(&self, function: &Function, inputs: &Inputs) -> Result<loops::Program> {
        let mut nests = function.loops_for(inputs)?;
        nests.store_in_single(&strs(&self.single))?;
        if self.results_in_single {
            nests.store_results_in_single()?;
        }
        Ok(nests)
    }

    fn assembly(&self, function: &Function, sparse: &[&str]) -> Result<Assembly> {
        let mut assembly = function.assemble(sparse)?;
        assembly.store_in_single(&strs(&self.single))?;
        if self.results_in_single {
            assembly.store_results_in_single()?;
        }
        Ok(assembly)
    }

    /// What a kernel of a function keeps; that depends on patterns that are found out where results are sparse.
    fn footprint(&self, function: &Function, inputs: &Inputs) -> Result<Footprint> {
        let (constants, sparse) = (strs(&self.constants), strs(&self.sparse));
        if sparse.is_empty() {
            return Footprint::of(self.nests(function, inputs)?, inputs, &constants);
        }
        let limit = self.limit.unwrap_or(Engine::Interpreter.limit());
        let bound = self.assembly(function, &sparse)?.bind_within(inputs, &constants, Engine::Interpreter, limit)?;
        Ok(bound.footprint().clone())
    }

    /// The kernel of the function, with results on the patterns of those of another one.
    fn bind(&self, meant: Option<&Function>) -> Result<Kernel> {
        let [constants, sparse] = [&self.constants, &self.sparse].map(|names| strs(names));
        let (engine, limit) = (self.engine, self.limit.unwrap_or(self.engine.limit()));
        let inputs = &*self.rounded_inputs();
        let mut kernel = match sparse.as_slice() {
            [] => {
                let nests = self.nests(&self.function, inputs)?;
                Kernel::bind_within(Arc::new(nests), inputs, &constants, engine, limit)?
            }
            sparse => {
                let assembly = self.assembly(&self.function, sparse)?;
                match meant {
                    None => assembly.bind_within(inputs, &constants, engine, limit)?,
                    Some(meant) => {
                        assembly.bind_on_patterns_of(&meant.assemble(sparse)?, inputs, &constants, (engine, limit))?
                    }
                }
            }
        };
        if let Some(threads) = self.threads {
            kernel.set_threads(threads)?;
        }
        Ok(kernel)
    }
}

fn strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Adds names that are not there yet.
fn add(to: &mut Vec<String>, names: impl Names) {
    for name in names.names() {
        if !to.contains(&name) {
            to.push(name);
        }
    }
}

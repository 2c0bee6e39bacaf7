//! Kernels of a function: its loop nests for some inputs, and which of its results are stored sparse.

use std::sync::Arc;

use super::{Function, back_end};
use crate::error::Result;
use crate::kernel::{Assembly, Engine, Kernel, Matrix};
use crate::stages::Stages;
use crate::tensor::{self, Inputs};
use crate::ty::Block;
use crate::{loops, schedule};

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
    /// [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
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
        match back_end::without_vanishing(&self.tssa, &sizes)? {
            Some(program) => back_end::loops(&program, &mut Stages::new()),
            None => self.loops(&mut Stages::new()),
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
    /// Those of [`Kernel::bind`] and [`Function::assemble`], and [`Error::Bug`](crate::Error::Bug).
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
    /// Those of [`Kernel::bind_with_constants`], and [`Error::Bug`](crate::Error::Bug).
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
    /// [`Error::Request`](crate::Error::Request) for results that are not there or cannot be sparse, [`Error::Overflow`](crate::Error::Overflow) and [`Error::Bug`](crate::Error::Bug).
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

    /// Results that are [blocks](super::Derived::blocks) of a Jacobian, a Hessian or a Gauss-Newton matrix as one sparse matrix.
    ///
    /// # Errors
    /// As [`Function::assemble`].
    pub fn matrix(&self, blocks: &[Block], stages: &mut Stages<'_>) -> Result<Matrix> {
        back_end::matrix(&self.tssa, blocks, stages)
    }
}

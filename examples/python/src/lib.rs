//! The native half of the Python package: all that it uses of the crate `iverson`.
//!
//! | class | what it is |
//! |---|---|
//! | [`Program`] | a program, its derivatives, its texts; bound by [`Program::bind`] |
//! | [`Bound`] | a program that is bound to sizes and patterns |
//! | [`Kernel`] | the same as Python calls it: numbers in, results out |
//!
//! The Python half describes inputs as tuples of arrays ([`inputs`]), and says what results look like ([`call`]). It sees classes for
//! people; errors are classes of its own ([`errors`]).

mod call;
mod errors;
mod inputs;

use std::collections::BTreeMap;
use std::sync::Arc;

use iverson::kernel::Engine;
use iverson::{Import, KernelBuilder, Mode, Request, Style};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use call::{Bound as BoundKernel, Kernel};
use errors::{Problem, Text, problems};

/// A program.
#[pyclass(frozen, module = "iverson._native")]
pub struct Program {
    function: iverson::Function,
    /// The parameters that a derivative has and its program has not: tangents, or seeds.
    #[pyo3(get)]
    added: Vec<String>,
}

/// A parameter or relation as Python is told of it: its name, `dense`, `csr`, `csc`, `coo`, `map` or `rel`, and how many leaves it has.
type Declared = (String, &'static str, usize);

#[pymethods]
impl Program {
    /// Reads a program text. `file` is what errors call it; `load`, if there is one, takes the name of the text that imports and the path as
    /// written, and gives name and text of what is imported. Returns the program and the warnings.
    #[staticmethod]
    fn parse(
        py: Python<'_>,
        text: String,
        file: String,
        load: Option<Py<PyAny>>,
    ) -> PyResult<(Program, Vec<Problem>, String)> {
        let mut loader = |from: &str, path: &str| match &load {
            Some(load) => Python::attach(|py| {
                let found = load.call1(py, (from, path)).map_err(|error| error.value(py).to_string())?;
                let (name, text) = found.extract(py).map_err(|error: PyErr| error.to_string())?;
                Ok(Import { name, text })
            }),
            None => Err("a text from nowhere has no place to look for others; read the program from a path".to_owned()),
        };
        let text = Text { file, text };
        let function = py.detach(|| iverson::Function::parse_with(&text.text, &[], &mut loader));
        let function = function.map_err(|error| text.error(py, &error))?;
        let drawing = text.warnings(function.warnings());
        let warnings = problems(&text.text, function.warnings());
        Ok((Program { function, added: Vec::new() }, warnings, drawing))
    }

    /// A derivative by parameters.
    fn derive(
        &self,
        py: Python<'_>,
        mode: &str,
        wrt: Vec<String>,
        with_value: bool,
        diagonal: bool,
    ) -> PyResult<Program> {
        let mode = match mode {
            "forward" => Mode::Forward,
            "adjoint" => Mode::Adjoint,
            "gradient" => Mode::Gradient,
            "jacobian" => Mode::Jacobian,
            "hessian" => Mode::Hessian,
            "hessian_product" => Mode::HessianProduct,
            "gauss_newton" => Mode::GaussNewton,
            "gauss_newton_product" => Mode::GaussNewtonProduct,
            "transpose" => Mode::Transpose,
            _ => return Err(PyValueError::new_err(format!("there is no derivative `{mode}`"))),
        };
        let wrt: Vec<&str> = wrt.iter().map(String::as_str).collect();
        let request = Request { with_value, ..Request::new(mode, &wrt) };
        let request = if diagonal { request.diagonal() } else { request };
        let derived = py.detach(|| self.function.derive(&request));
        let derived = derived.map_err(|error| errors::error(py, &error))?;
        Ok(Program { function: derived.function, added: derived.added })
    }

    /// The same program with dense results.
    fn dense(&self) -> Program {
        Program { function: self.function.clone().dense(), added: self.added.clone() }
    }

    /// The same function with no more work.
    fn simplify(&self, py: Python<'_>) -> PyResult<Program> {
        let simplified = py.detach(|| self.function.simplify());
        let function = simplified.map_err(|error| errors::error(py, &error))?;
        Ok(Program { function, added: self.added.clone() })
    }

    /// The program as text, in unicode or in LaTeX.
    fn print(&self, py: Python<'_>, style: &str) -> PyResult<String> {
        let style = match style {
            "text" => return Ok(self.function.to_string()),
            "unicode" => Style::Unicode,
            "latex" => Style::Latex,
            _ => return Err(PyValueError::new_err(format!("there is no style `{style}`"))),
        };
        self.function.print(style).map_err(|error| errors::error(py, &error))
    }

    /// The parameters in order, then the relations and maps.
    fn declared(&self, py: Python<'_>) -> PyResult<Vec<Declared>> {
        let signature = &self.function.tensor_ssa().signature;
        let mut declared = Vec::new();
        for param in signature.params.values() {
            let leaves = signature.types.leaves(param.ty).map_err(|error| errors::error(py, &error))?;
            declared.push((param.name.clone(), param.storage.name(), leaves.len()));
        }
        for relation in signature.relations.values() {
            if let Some(keyword) = relation.kind.keyword() {
                declared.push((relation.name.clone(), keyword, 1));
            }
        }
        Ok(declared)
    }

    /// The names of the results.
    fn results(&self) -> Vec<String> {
        self.function.outputs().map(str::to_owned).collect()
    }

    /// The program for the sizes and patterns of inputs, with the numbers of the constants. Results that are named `sparse` are stored so.
    #[expect(clippy::too_many_arguments, reason = "the keywords of `kernel` in Python")]
    #[pyo3(signature = (values, sizes, constants, sparse, engine, threads, memory, as_written))]
    fn bind(
        &self,
        py: Python<'_>,
        values: Vec<inputs::Given<'_>>,
        sizes: BTreeMap<String, i64>,
        constants: Vec<String>,
        sparse: Vec<String>,
        engine: &str,
        threads: Option<usize>,
        memory: Option<u64>,
        as_written: bool,
    ) -> PyResult<BoundKernel> {
        let engine = match engine {
            "auto" => Engine::Auto,
            "interpreter" => Engine::Interpreter,
            "native" => Engine::Native,
            _ => {
                let message = format!("there is no engine `{engine}`; take `auto`, `native` or `interpreter`");
                return Err(PyValueError::new_err(message));
            }
        };
        let inputs = inputs::inputs(py, values, sizes, &constants)?;
        let mut builder = self.function.kernel(&inputs).constants(&constants).sparse(&sparse).engine(engine);
        builder = threads.into_iter().fold(builder, KernelBuilder::threads);
        builder = memory.into_iter().fold(builder, KernelBuilder::memory);
        builder = if as_written { builder.as_written() } else { builder };
        let kernel = py.detach(|| builder.build());
        Ok(BoundKernel { kernel: Arc::new(kernel.map_err(|error| errors::error(py, &error))?) })
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Program>()?;
    module.add_class::<BoundKernel>()?;
    module.add_class::<Kernel>()
}

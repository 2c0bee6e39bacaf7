//! Calls: Python objects in, Python objects out, arithmetic in between, during which other threads run.
//!
//! What lies in memory as the kernel reads it is read where it is: arrays of the right type and shape, row by row, and the values of a
//! sparse matrix whose index arrays are those that were bound, or the same numbers. Anything else is converted by the Python half, or refused.
//!
//! The index arrays of sparse results were made when the kernel was bound, and all results share them. A result is made as `copy.copy` would
//! make it: an object of its class with the attributes of a template, and its own values.

use std::sync::Arc;

use iverson::kernel::{Input, Kernel as NativeKernel, Leaf};
use iverson::tensor::{Precision, SliceMut};
use numpy::{
    IxDyn, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArrayMethods,
};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyString, PyTuple};

use crate::errors;

/// A program that is bound to sizes and patterns.
#[pyclass(frozen, module = "iverson._native")]
pub struct Bound {
    pub kernel: Arc<NativeKernel>,
}

/// A leaf of a result: its name, its format, its shape, and its index arrays.
type Described<'py> = (String, &'static str, Vec<usize>, Vec<pyo3::Bound<'py, PyAny>>);

#[pymethods]
impl Bound {
    /// The leaves of all results in order.
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Described<'py>>> {
        let mut outputs = Vec::new();
        for output in self.kernel.outputs() {
            for leaf in &output.leaves {
                let (format, shape, arrays) = match leaf {
                    Leaf::Dense(shape) => ("dense", shape.clone(), Vec::new()),
                    Leaf::Csr(pattern) => {
                        let arrays = [offsets(py, pattern.indptr())?, indices(py, pattern.indices())?];
                        ("csr", vec![pattern.rows(), pattern.cols()], arrays.to_vec())
                    }
                    Leaf::Csc(pattern) => {
                        let arrays = [offsets(py, pattern.indptr())?, indices(py, pattern.indices())?];
                        ("csc", vec![pattern.rows(), pattern.cols()], arrays.to_vec())
                    }
                    Leaf::Coo(pattern) => {
                        let axes = 0..pattern.rank();
                        let arrays = axes.map(|axis| offsets(py, pattern.column(axis))).collect::<PyResult<_>>()?;
                        ("coo", pattern.shape().to_vec(), arrays)
                    }
                };
                outputs.push((output.name.clone(), format, shape, arrays));
            }
        }
        Ok(outputs)
    }

    /// How many leaves each result has.
    fn leaves(&self) -> Vec<usize> {
        self.kernel.outputs().iter().map(|output| output.leaves.len()).collect()
    }

    /// For each leaf of a result that has the pattern of a leaf of a parameter the number of the latter.
    fn shared(&self) -> Vec<Option<usize>> {
        let same = |a: &Leaf, b: &Leaf| match (a, b) {
            (Leaf::Csr(a), Leaf::Csr(b)) => Arc::ptr_eq(a, b),
            (Leaf::Csc(a), Leaf::Csc(b)) => Arc::ptr_eq(a, b),
            (Leaf::Coo(a), Leaf::Coo(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        let inputs = self.kernel.inputs();
        let leaves = self.kernel.outputs().iter().flat_map(|output| &output.leaves);
        leaves.map(|leaf| inputs.iter().position(|(_, input)| same(leaf, input))).collect()
    }
}

/// Offsets or coordinates, in 32 bits where they fit.
fn offsets<'py>(py: Python<'py>, offsets: &[usize]) -> PyResult<pyo3::Bound<'py, PyAny>> {
    if offsets.iter().all(|k| i32::try_from(*k).is_ok()) {
        return PyArray1::from_iter(py, offsets.iter().map(|k| *k as i32)).into_bound_py_any(py);
    }
    PyArray1::from_iter(py, offsets.iter().map(|k| *k as i64)).into_bound_py_any(py)
}

fn indices<'py>(py: Python<'py>, indices: &[u32]) -> PyResult<pyo3::Bound<'py, PyAny>> {
    if indices.iter().all(|k| i32::try_from(*k).is_ok()) {
        return PyArray1::from_iter(py, indices.iter().map(|k| *k as i32)).into_bound_py_any(py);
    }
    PyArray1::from_iter(py, indices.iter().map(|k| i64::from(*k))).into_bound_py_any(py)
}

/// How a leaf of a parameter is given.
enum Slot {
    /// A number.
    Number,
    /// An array of this shape.
    Array(Vec<usize>),
    /// A matrix with these arrays `indptr` and `indices`, whose entries are in order.
    Compressed { indptr: Py<PyAny>, indices: Py<PyAny>, len: [usize; 1] },
    /// What the Python half converts.
    Other,
}

/// What a leaf of a result becomes.
enum Made {
    Number,
    Array(Vec<usize>),
    /// An object of a class, with these attributes and `data`.
    Sparse {
        class: Py<PyAny>,
        state: Py<PyDict>,
        len: usize,
    },
}

/// A program with sizes and patterns, to be called with numbers. A call takes the parameters in order, or by name; one result is returned as it
/// is, several as a named tuple.
#[pyclass(frozen, module = "iverson", name = "Kernel")]
pub struct Kernel {
    kernel: Arc<NativeKernel>,
    /// The parameters with how many leaves they have.
    parameters: Vec<(Py<PyString>, usize)>,
    slots: Vec<Slot>,
    /// `convert(k, value)` is an array for leaf `k`.
    convert: Py<PyAny>,
    made: Vec<Made>,
    /// How many leaves each result has.
    leaves: Vec<usize>,
    /// The class of several results.
    results: Option<Py<PyAny>>,
    names: Vec<String>,
}

/// The numbers of a leaf, held where they are.
enum Numbers<'py> {
    Number([f64; 1]),
    Double(PyReadonlyArrayDyn<'py, f64>),
    Single(PyReadonlyArrayDyn<'py, f32>),
}

impl Numbers<'_> {
    fn input(&self) -> PyResult<Input<'_>> {
        Ok(match self {
            Numbers::Number(number) => number.into(),
            Numbers::Double(array) => array.as_slice()?.into(),
            Numbers::Single(array) => array.as_slice()?.into(),
        })
    }
}

/// Where the numbers of a leaf of a result go.
enum Room<'py> {
    Number([f64; 1]),
    Array(pyo3::Bound<'py, PyArrayDyn<f64>>, PyReadwriteArrayDyn<'py, f64>),
}

#[pymethods]
impl Kernel {
    /// `parameters` are names with numbers of leaves; `slots` the shape of an array, or the index arrays of a matrix, or nothing, for each leaf;
    /// `templates` class and attributes for each sparse leaf of a result.
    #[new]
    fn new(
        bound: &pyo3::Bound<'_, Bound>,
        parameters: Vec<(Py<PyString>, usize)>,
        slots: Vec<Option<(Py<PyAny>, Py<PyAny>)>>,
        convert: Py<PyAny>,
        templates: Vec<Option<(Py<PyAny>, Py<PyDict>)>>,
        results: Option<Py<PyAny>>,
    ) -> PyResult<Kernel> {
        let kernel = bound.get().kernel.clone();
        let outputs = kernel.outputs().iter().flat_map(|output| &output.leaves);
        let made = outputs.zip(templates).map(|(leaf, template)| match (leaf, template) {
            (leaf, Some((class, state))) => Made::Sparse { class, state, len: leaf.len() },
            (Leaf::Dense(shape), None) if shape.is_empty() => Made::Number,
            (Leaf::Dense(shape), None) => Made::Array(shape.clone()),
            (leaf, None) => Made::Array(vec![leaf.len()]),
        });
        type Arrays = Option<(Py<PyAny>, Py<PyAny>)>;
        let slot = |(((_, leaf), precision), arrays): ((&(String, Leaf), &Precision), Arrays)| match (leaf, arrays) {
            // Numbers in single precision are compared by the Python half, which knows what may be rounded.
            _ if *precision == Precision::Single => Slot::Other,
            (leaf, Some((indptr, indices))) => Slot::Compressed { indptr, indices, len: [leaf.len()] },
            (Leaf::Dense(shape), None) if shape.is_empty() => Slot::Number,
            (Leaf::Dense(shape), None) => Slot::Array(shape.clone()),
            (_, None) => Slot::Other,
        };
        let made: Vec<Made> = made.collect();
        let leaves: Vec<usize> = kernel.outputs().iter().map(|output| output.leaves.len()).collect();
        let names = kernel.outputs().iter().map(|output| output.name.clone()).collect();
        let slots: Vec<Slot> = kernel.inputs().iter().zip(kernel.input_precisions()).zip(slots).map(slot).collect();
        if made.len() != leaves.iter().sum::<usize>() || slots.len() != kernel.inputs().len() {
            return Err(PyValueError::new_err("a kernel needs a slot for each leaf"));
        }
        Ok(Kernel { kernel, parameters, slots, convert, made, leaves, results, names })
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &pyo3::Bound<'py, PyTuple>,
        kwargs: Option<&pyo3::Bound<'py, PyDict>>,
    ) -> PyResult<pyo3::Bound<'py, PyAny>> {
        let mut given = Vec::with_capacity(self.slots.len());
        for (value, (name, leaves)) in self.arguments(py, args, kwargs)?.into_iter().zip(&self.parameters) {
            match leaves {
                1 => given.push(self.numbers(given.len(), value)?),
                leaves => self.components(py, name, *leaves, &value, &mut given)?,
            }
        }
        let mut rooms = self.made.iter().map(|made| made.room(py)).collect::<PyResult<Vec<Room<'py>>>>()?;
        let inputs = given.iter().map(Numbers::input).collect::<PyResult<Vec<Input<'_>>>>()?;
        let mut outputs = rooms.iter_mut().map(Room::slice).collect::<PyResult<Vec<SliceMut<'_>>>>()?;
        let done = py.detach(|| self.kernel.call_into(&inputs, &mut outputs));
        done.map_err(|error| errors::error(py, &error))?;
        self.result(py, rooms)
    }

    /// The parameters that a call takes, in order.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<pyo3::Bound<'py, PyTuple>> {
        PyTuple::new(py, self.parameters.iter().map(|(name, _)| name))
    }

    /// The names of the results.
    #[getter]
    fn results<'py>(&self, py: Python<'py>) -> PyResult<pyo3::Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.names)
    }

    /// The shapes of the leaves of each result; of a sparse one, how many entries it has.
    #[getter]
    fn result_shapes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Vec<pyo3::Bound<'py, PyTuple>>>> {
        let shape = |leaf: &Leaf| match leaf {
            Leaf::Dense(shape) => PyTuple::new(py, shape),
            leaf => PyTuple::new(py, [leaf.len()]),
        };
        let outputs = self.kernel.outputs().iter();
        outputs.map(|output| output.leaves.iter().map(shape).collect()).collect()
    }

    /// The parameters whose numbers were bound.
    #[getter]
    fn constants<'py>(&self, py: Python<'py>) -> PyResult<pyo3::Bound<'py, PyTuple>> {
        PyTuple::new(py, self.kernel.constants())
    }

    /// Which engine the next call uses, and why.
    #[getter]
    fn status(&self) -> String {
        self.kernel.status().to_string()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let names: Vec<String> = self.parameters.iter().map(|(name, _)| name.bind(py).to_string()).collect();
        format!("<iverson.Kernel ({}) -> ({}), {}>", names.join(", "), self.names.join(", "), self.status())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("a kernel cannot be pickled; pickle the function, and bind it again"))
    }
}

impl Kernel {
    /// The value of each parameter.
    fn arguments<'py>(
        &self,
        py: Python<'py>,
        args: &pyo3::Bound<'py, PyTuple>,
        kwargs: Option<&pyo3::Bound<'py, PyDict>>,
    ) -> PyResult<Vec<pyo3::Bound<'py, PyAny>>> {
        let wrong = |message: String| PyTypeError::new_err(message);
        if args.len() > self.parameters.len() {
            let (takes, found) = (self.parameters.len(), args.len());
            return Err(wrong(format!("this kernel takes {takes} parameters, {found} were given")));
        }
        let mut values: Vec<pyo3::Bound<'py, PyAny>> = args.iter().collect();
        let mut named = 0;
        for (at, (name, _)) in self.parameters.iter().enumerate() {
            let value = kwargs.map(|kwargs| kwargs.get_item(name)).transpose()?.flatten();
            match (value, at < args.len()) {
                (Some(_), true) => return Err(wrong(format!("`{}` is given twice", name.bind(py)))),
                (None, false) => return Err(wrong(format!("`{}` is missing", name.bind(py)))),
                (Some(value), false) => {
                    values.push(value);
                    named += 1;
                }
                (None, true) => {}
            }
        }
        if let Some(kwargs) = kwargs.filter(|kwargs| kwargs.len() > named) {
            for name in kwargs.keys() {
                let mut known = false;
                for (parameter, _) in &self.parameters {
                    known = known || name.eq(parameter)?;
                }
                if !known {
                    return Err(wrong(format!("a call of this kernel has no parameter `{name}`")));
                }
            }
        }
        Ok(values)
    }

    /// The components of a parameter of pairs, from tuples in tuples.
    fn components<'py>(
        &self,
        py: Python<'py>,
        name: &Py<PyString>,
        leaves: usize,
        value: &pyo3::Bound<'py, PyAny>,
        given: &mut Vec<Numbers<'py>>,
    ) -> PyResult<()> {
        let mut open = vec![value.clone()];
        let mut found = Vec::new();
        while let Some(value) = open.pop() {
            match value.cast::<PyTuple>() {
                Ok(pair) => open.extend(pair.iter().rev()),
                Err(_) => found.push(value),
            }
        }
        if found.len() != leaves {
            let message = format!("{}: a tuple of {leaves} components is expected", name.bind(py));
            return Err(PyTypeError::new_err(message));
        }
        for value in found {
            given.push(self.numbers(given.len(), value)?);
        }
        Ok(())
    }

    /// The numbers of a leaf.
    fn numbers<'py>(&self, k: usize, value: pyo3::Bound<'py, PyAny>) -> PyResult<Numbers<'py>> {
        let py = value.py();
        match self.slots.get(k) {
            Some(Slot::Number) => {
                if let Ok(number) = value.cast_exact::<PyFloat>() {
                    return Ok(Numbers::Number([number.value()]));
                }
            }
            Some(Slot::Array(shape)) => {
                if let Some(array) = as_it_lies(&value, shape)? {
                    return Ok(Numbers::Double(array));
                }
            }
            Some(Slot::Compressed { indptr, indices, len }) => {
                let own = |name| value.getattr_opt(name);
                if own(intern!(py, "indptr"))?.is_some_and(|own| own.is(indptr))
                    && own(intern!(py, "indices"))?.is_some_and(|own| own.is(indices))
                    && let Some(array) = as_it_lies(&value.getattr(intern!(py, "data"))?, len)?
                {
                    return Ok(Numbers::Double(array));
                }
            }
            Some(Slot::Other) | None => {}
        }
        let converted = self.convert.bind(py).call1((k, value))?;
        if let Ok(array) = converted.cast::<PyArrayDyn<f64>>() {
            return Ok(Numbers::Double(array.try_readonly()?));
        }
        Ok(Numbers::Single(converted.cast::<PyArrayDyn<f32>>()?.try_readonly()?))
    }

    /// What a call returns.
    fn result<'py>(&self, py: Python<'py>, rooms: Vec<Room<'py>>) -> PyResult<pyo3::Bound<'py, PyAny>> {
        let mut leaves = Vec::with_capacity(rooms.len());
        for (room, made) in rooms.into_iter().zip(&self.made) {
            leaves.push(made.object(py, room)?);
        }
        let mut results = Vec::with_capacity(self.leaves.len());
        let mut leaves = leaves.into_iter();
        for count in &self.leaves {
            match count {
                1 => results.extend(leaves.next()),
                count => results.push(PyTuple::new(py, leaves.by_ref().take(*count).collect::<Vec<_>>())?.into_any()),
            }
        }
        match &self.results {
            Some(class) => class.bind(py).call1(PyTuple::new(py, results)?),
            None => results.pop().ok_or_else(|| PyValueError::new_err("this program has no result")),
        }
    }
}

/// An array that a kernel reads where it is: of `f64`, of this shape, row by row.
fn as_it_lies<'py>(value: &pyo3::Bound<'py, PyAny>, shape: &[usize]) -> PyResult<Option<PyReadonlyArrayDyn<'py, f64>>> {
    match value.cast::<PyArrayDyn<f64>>() {
        Ok(array) if array.shape() == shape && array.is_c_contiguous() => {
            let array = array.try_readonly()?;
            Ok(array.as_slice().is_ok().then_some(array))
        }
        _ => Ok(None),
    }
}

impl Made {
    fn room<'py>(&self, py: Python<'py>) -> PyResult<Room<'py>> {
        let array = match self {
            Made::Number => return Ok(Room::Number([0.0])),
            Made::Array(shape) => PyArrayDyn::zeros(py, IxDyn(shape), false),
            Made::Sparse { len, .. } => PyArrayDyn::zeros(py, IxDyn(&[*len]), false),
        };
        let open = array.try_readwrite()?;
        Ok(Room::Array(array, open))
    }

    fn object<'py>(&self, py: Python<'py>, room: Room<'py>) -> PyResult<pyo3::Bound<'py, PyAny>> {
        let array = match room {
            Room::Number([number]) => return PyFloat::new(py, number).into_bound_py_any(py),
            Room::Array(array, open) => {
                drop(open);
                array.into_any()
            }
        };
        let Made::Sparse { class, state, .. } = self else { return Ok(array) };
        let class = class.bind(py);
        let object = class.call_method1(intern!(py, "__new__"), (class,))?;
        let attributes = object.getattr(intern!(py, "__dict__"))?.cast_into::<PyDict>()?;
        attributes.update(state.bind(py).as_mapping())?;
        attributes.set_item(intern!(py, "data"), array)?;
        Ok(object)
    }
}

impl Room<'_> {
    fn slice(&mut self) -> PyResult<SliceMut<'_>> {
        Ok(match self {
            Room::Number(number) => number.into(),
            Room::Array(_, open) => open.as_slice_mut()?.into(),
        })
    }
}

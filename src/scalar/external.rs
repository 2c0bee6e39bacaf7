//! Functions of tensors from outside: code in Rust that programs call and cannot look into.
//!
//! ```text
//! y = f(x)                 the value
//! f_adjoint(x, y, dy)  ==  what is owed to x: the backpropagator of f at x, applied to dy
//! f_forward(x, y, dx)  ==  the tangent of y
//! ```
//!
//! A function is a name, the shapes of what it takes and gives over sizes of its own, and code. Its derivatives are functions like it, under these
//! names: differentiation calls them, printed derivatives show the calls, and a second derivative is a derivative of one of them, where that is given.
//!
//! **Calls.** Code is given slices of the right lengths and fills others, so no length can be wrong. It must give the same for the same, since a
//! derivative may call it again. A panic is caught, and is an error of the call of the program.

use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::base::{Id, SizeId};
use crate::error::{Error, Result};
use crate::index::{Affine, Checked, Size, Var};

/// The code of a function of tensors: what it is given, and what it fills, which is zero before.
pub type Code = Arc<dyn Fn(&[Argument<'_>], &mut [&mut [f64]]) + Send + Sync>;

/// A tensor that code from outside is given: its numbers in row-major order, as a slice, with its shape.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    numbers: &'a [f64],
    shape: &'a [usize],
}

impl<'a> Argument<'a> {
    pub(crate) fn new(numbers: &'a [f64], shape: &'a [usize]) -> Self {
        Argument { numbers, shape }
    }

    /// How long its axes are.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }
}

impl Deref for Argument<'_> {
    type Target = [f64];
    fn deref(&self) -> &[f64] {
        self.numbers
    }
}

/// A function of tensors from outside.
#[derive(Clone)]
pub struct External {
    /// The names of its sizes.
    pub sizes: Vec<String>,
    /// What it takes: tensors of reals, each with a name and its axes, over the sizes by number.
    pub params: Vec<(String, Vec<Size>)>,
    /// The axes of the tensors that it gives.
    pub results: Vec<Vec<Size>>,
    code: Code,
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let External { sizes, params, results, code: _ } = self;
        f.debug_struct("External").field("sizes", sizes).field("params", params).field("results", results).finish()
    }
}

/// Code is not compared.
impl PartialEq for External {
    fn eq(&self, other: &Self) -> bool {
        self.sizes == other.sizes && self.params == other.params && self.results == other.results
    }
}

/// What a derivative of a function of tensors does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivative {
    /// What is owed to all that the function takes, of that, what it gives, and what is owed to that.
    Adjoint,
    /// The tangents of what it gives, of what it takes, what it gives, and the tangents of what it takes.
    Forward,
}

impl Derivative {
    /// What the derivative of a function is called.
    pub fn name(self, function: &str) -> String {
        match self {
            Derivative::Adjoint => format!("{function}_adjoint"),
            Derivative::Forward => format!("{function}_forward"),
        }
    }

    /// What gives a function this derivative, for messages.
    pub fn giver(self) -> &'static str {
        match self {
            Derivative::Adjoint => "with_adjoint",
            Derivative::Forward => "with_forward",
        }
    }
}

impl External {
    pub(crate) fn new(
        sizes: Vec<String>,
        params: Vec<(String, Vec<Size>)>,
        results: Vec<Vec<Size>>,
        code: Code,
    ) -> Self {
        External { sizes, params, results, code }
    }

    /// The derivative of this function with some code.
    pub(crate) fn derivative(&self, derivative: Derivative, code: Code) -> External {
        let mut params = self.params.clone();
        let given = self.results.iter().enumerate();
        params.extend(given.clone().map(|(k, dims)| (format!("y{k}"), dims.clone())));
        let results = match derivative {
            Derivative::Adjoint => {
                params.extend(given.map(|(k, dims)| (format!("dy{k}"), dims.clone())));
                self.params.iter().map(|(_, dims)| dims.clone()).collect()
            }
            Derivative::Forward => {
                params.extend(self.params.iter().map(|(name, dims)| (format!("d{name}"), dims.clone())));
                self.results.clone()
            }
        };
        External { sizes: self.sizes.clone(), params, results, code }
    }

    /// Whether another function takes and gives what this derivative of the function does.
    pub fn is_derivative(&self, derivative: Derivative, other: &External) -> bool {
        let expected = self.derivative(derivative, self.code.clone());
        let dims = |f: &External| f.params.iter().map(|(_, dims)| dims.clone()).collect::<Vec<_>>();
        dims(&expected) == dims(other) && expected.results == other.results
    }

    /// Axes where its sizes are these.
    ///
    /// # Errors
    /// [`Error::Overflow`].
    pub fn with_sizes(dims: &[Size], sizes: &[Size]) -> Checked<Vec<Size>> {
        let known = |v: &Var| match v {
            Var::Size(n) => sizes.get(n.index()).cloned(),
            Var::Index(_) | Var::Apply(_) => None,
        };
        dims.iter().map(|n| n.replace(&mut |v| Ok(known(v)))).collect()
    }

    /// The sizes for which the parameters have these axes, where `same` says what sizes are equal; nothing where there are none.
    pub fn sizes_for(
        &self,
        args: &[Vec<Size>],
        same: &mut dyn FnMut(&Size, &Size) -> bool,
    ) -> Checked<Option<Vec<Size>>> {
        let mut sizes: Vec<Option<Size>> = vec![None; self.sizes.len()];
        let pairs = || self.params.iter().zip(args).flat_map(|((_, formal), actual)| formal.iter().zip(actual));
        for (formal, actual) in pairs() {
            if let Some(size) = formal.as_size().and_then(|n| sizes.get_mut(n.index())) {
                size.get_or_insert_with(|| actual.clone());
            }
        }
        let Some(sizes) = sizes.into_iter().collect::<Option<Vec<Size>>>() else { return Ok(None) };
        let fits = self.params.iter().zip(args).all(|((_, formal), actual)| formal.len() == actual.len());
        for (formal, actual) in pairs() {
            let found = External::with_sizes(std::slice::from_ref(formal), &sizes)?;
            if !found.first().is_some_and(|found| found == actual || same(found, actual)) {
                return Ok(None);
            }
        }
        Ok((fits && args.len() == self.params.len()).then_some(sizes))
    }

    /// The first of its sizes that is no axis of a parameter, so that no call says what it is.
    pub(crate) fn open_size(&self) -> Option<&str> {
        let is_axis = |n: SizeId| self.params.iter().flat_map(|(_, dims)| dims).any(|dim| *dim == Affine::size(n));
        let mut sizes = self.sizes.iter().enumerate();
        sizes.find(|(at, _)| !is_axis(SizeId::from_index(*at))).map(|(_, name)| name.as_str())
    }

    /// The parameters with their types as programs write them.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&str, String)> {
        let size = |n: &Size| {
            let mut text = String::new();
            // Writing to a string does not fail.
            let _ = n.write(&mut text, &mut |v| match v {
                Var::Size(n) => self.sizes.get(n.index()).cloned().unwrap_or_default(),
                Var::Index(_) | Var::Apply(_) => String::new(),
            });
            text
        };
        self.params.iter().map(move |(name, dims)| match dims.as_slice() {
            [] => (name.as_str(), "real".to_owned()),
            dims => (name.as_str(), format!("[{}] real", dims.iter().map(size).collect::<Vec<_>>().join(", "))),
        })
    }

    /// Calls the code, whose results are zero before.
    ///
    /// # Errors
    /// [`Error::Request`] where it panics.
    pub fn call(&self, name: &str, args: &[Argument<'_>], results: &mut [&mut [f64]]) -> Result<()> {
        catch_unwind(AssertUnwindSafe(|| (self.code)(args, results))).map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
            Error::Request(format!("the function `{name}` from outside panicked: {text}"))
        })
    }
}

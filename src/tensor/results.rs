//! What a program gives: its results by name, in order.

use std::fmt;
use std::mem;
use std::ops::{Deref, Index};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::{Tensor, Value};

/// The results of a program, by name and in order.
///
/// ```
/// use iverson::prelude::*;
///
/// let loss = Function::parse("param x : [n] real\nsum i < n. x[i]^2")?;
/// let results = loss.value_and_gradient(["x"])?.eval(&inputs! { "x" => [1.0, 2.0] })?;
/// assert_eq!(results["value"].as_scalar(), Some(5.0));
/// assert_eq!(results["grad_x"].as_slice(), Some(&[2.0, 4.0][..]));
/// assert_eq!(results.to_string(), "value: 5.0\ngrad_x: [2], norm 4.47214: 2.0 4.0\n");
/// # Ok::<(), iverson::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Results {
    results: Vec<(String, Value)>,
    #[serde(skip)]
    home: Home,
}

/// Where results come from, and where their memory goes that nobody holds when they are dropped: to ask the system for large memory anew costs
/// more than many a kernel.
#[derive(Debug, Default)]
struct Home(Option<Arc<Returned>>);

/// A copy has memory of its own.
impl Clone for Home {
    fn clone(&self) -> Self {
        Home(None)
    }
}

/// It says nothing of what results are.
impl PartialEq for Home {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The tensors of results that were dropped last.
#[derive(Debug, Default)]
pub(crate) struct Returned(Mutex<Vec<Tensor>>);

impl Returned {
    /// The tensors, in the order of the leaves of the results; none where some are held elsewhere.
    pub fn take(&self) -> Vec<Tensor> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn give(&self, results: Vec<(String, Value)>) {
        let leaves = results.into_iter().flat_map(|(_, value)| value.into_leaves());
        if let Some(tensors) = leaves.map(Arc::into_inner).collect() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tensors;
        }
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        if let Some(home) = self.home.0.take() {
            home.give(mem::take(&mut self.results));
        }
    }
}

impl Results {
    /// The same, whose memory goes back to its home.
    pub(crate) fn with_home(mut self, home: &Arc<Returned>) -> Self {
        self.home = Home(Some(Arc::clone(home)));
        self
    }

    /// The result of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.results.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Whether there is a result of this name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The names of the results.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.results.iter().map(|(name, _)| name.as_str())
    }

    /// The results with their names, as they are.
    pub fn into_vec(mut self) -> Vec<(String, Value)> {
        self.home = Home(None);
        mem::take(&mut self.results)
    }
}

impl From<Vec<(String, Value)>> for Results {
    fn from(results: Vec<(String, Value)>) -> Self {
        Results { results, home: Home(None) }
    }
}

impl Deref for Results {
    type Target = [(String, Value)];
    fn deref(&self) -> &[(String, Value)] {
        &self.results
    }
}

/// `results["value"]`, as of a map: asking for a result that there is not is a bug of who asks. [`Results::get`] answers instead.
impl Index<&str> for Results {
    type Output = Value;
    fn index(&self, name: &str) -> &Value {
        self.get(name).unwrap_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            panic!("there is no result `{name}`, but {}", names.join(", "))
        })
    }
}

/// `results[0]`: a result with its name, as of a slice.
impl Index<usize> for Results {
    type Output = (String, Value);
    fn index(&self, at: usize) -> &(String, Value) {
        &self.results[at]
    }
}

impl IntoIterator for Results {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;
    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'a> IntoIterator for &'a Results {
    type Item = &'a (String, Value);
    type IntoIter = std::slice::Iter<'a, (String, Value)>;
    fn into_iter(self) -> Self::IntoIter {
        self.results.iter()
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.results.iter().try_for_each(|(name, value)| write_named(f, name, value))
    }
}

impl fmt::Display for Value {
    /// Numbers with all digits; of tensors the shape, the norm and the first numbers with six digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, leaf) in self.leaves().iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            write_tensor(f, leaf)?;
        }
        Ok(())
    }
}

/// `grad_w: [9], norm 1.25e-3: -0.25 0.5 ..`, a line for each leaf.
fn write_named(f: &mut fmt::Formatter<'_>, name: &str, value: &Value) -> fmt::Result {
    let several = value.leaves().len() > 1;
    for (at, leaf) in value.leaves().iter().enumerate() {
        match several {
            true => write!(f, "{name}.{at}: ")?,
            false => write!(f, "{name}: ")?,
        }
        write_tensor(f, leaf)?;
        writeln!(f)?;
    }
    Ok(())
}

fn write_tensor(f: &mut fmt::Formatter<'_>, tensor: &Tensor) -> fmt::Result {
    let data = tensor.data();
    if let Some(x) = tensor.as_dense().and_then(|dense| dense.as_scalar()) {
        return write!(f, "{x:?}");
    }
    let shape: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
    write!(f, "[{}]", shape.join(", "))?;
    if let Some(format) = tensor.sparse_format() {
        write!(f, " {} with {} entries", format.name(), data.len())?;
    }
    // Sums of the standard library begin with -0.
    let norm = data.iter().fold(0.0, |sum, x| sum + x * x).sqrt();
    write!(f, ", norm {}:", short(norm))?;
    data.iter().take(6).try_for_each(|x| write!(f, " {}", short(*x)))?;
    f.write_str(if data.len() > 6 { " .." } else { "" })
}

/// Six digits of a number.
fn short(x: f64) -> String {
    format!("{:?}", format!("{x:.5e}").parse().unwrap_or(x))
}

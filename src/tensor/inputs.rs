//! What programs are given: values, relations and sizes by name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, de, ser};

use super::bind::text::expected;
use super::targets::Targets;
use super::{IntoValue, Malformed, Precision, Relation, Value};
use crate::error::{Error, Result};
use crate::ty::{Param, RelationKind, Signature, is_part, leaf_name};

/// What is said of a relation that was given as a value, and of a map whose targets were no integers from 0 on.
pub(super) fn given_as_numbers(kind: RelationKind) -> &'static str {
    match kind {
        RelationKind::Map => "the targets of a map are integers from 0 on, one for each source",
        _ => "it is a relation, which is given by its tuples: a file such as `E.tns`, in Rust `Inputs::relation`",
    }
}

/// What a program and its derivatives are given, by name; validated by [`bind`](fn@super::bind), which takes what a program needs and leaves the rest. A name that
/// is given again replaces what it had.
///
/// ```
/// use iverson::prelude::*;
///
/// let mut inputs = inputs! { "A" => [[1.0, 2.0], [3.0, 4.0]], "x" => vec![1.0, -1.0] };
/// inputs.value("scale", 0.5).value("x", ndarray::array![2.0, 0.0]);
/// # assert!(inputs.has_value("A"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub(super) values: BTreeMap<String, Value>,
    /// What was given as a value and is none.
    pub(super) malformed: BTreeMap<String, Malformed>,
    pub(super) relations: BTreeMap<String, Arc<Relation>>,
    /// Maps that are given by their targets.
    pub(super) maps: BTreeMap<String, Arc<Targets>>,
    pub(super) sizes: BTreeMap<String, i64>,
}

impl Inputs {
    /// No inputs.
    pub fn new() -> Self {
        Inputs::default()
    }

    /// Gives a parameter its value: whole, or component by component as `ab.0`, `ab.1`, `ab.1.0`. An array or a matrix that is no tensor is
    /// refused when the inputs are bound.
    #[doc(alias = "set")]
    pub fn value(&mut self, name: impl Into<String>, value: impl IntoValue) -> &mut Self {
        let name = name.into();
        match value.into_value() {
            Ok(value) => {
                self.malformed.remove(&name);
                self.values.insert(name, value);
            }
            Err(malformed) => {
                self.values.remove(&name);
                self.malformed.insert(name, malformed);
            }
        }
        self
    }

    /// [`Inputs::value`], as maps have it.
    pub fn insert(&mut self, name: impl Into<String>, value: impl IntoValue) -> &mut Self {
        self.value(name, value)
    }

    /// Gives a relation or a map its tuples.
    pub fn relation(&mut self, name: impl Into<String>, relation: impl Into<Arc<Relation>>) -> &mut Self {
        let name = name.into();
        self.maps.remove(&name);
        self.relations.insert(name, relation.into());
        self
    }

    /// Gives a map the targets of all sources, in row-major order. How many targets there may be follows from the other inputs.
    ///
    /// ```
    /// use iverson::prelude::*;
    ///
    /// let f = Function::parse("param x : [n] real\nmap to : [p] -> [n]\nsum o < p. x[to(o)]")?;
    /// let mut inputs = inputs! { "x" => vec![1.0, 2.0, 4.0] };
    /// inputs.map("to", &[2], vec![2, 0]);
    /// assert_eq!(f.eval(&inputs)?["value"].as_scalar(), Some(5.0));
    /// # Ok::<(), iverson::Error>(())
    /// ```
    pub fn map(&mut self, name: impl Into<String>, sources: &[usize], targets: Vec<usize>) -> &mut Self {
        let name = name.into();
        self.relations.remove(&name);
        self.maps.insert(name, Arc::new(Targets::new(sources, targets)));
        self
    }

    /// Gives a size variable its value; needed for those that no shape determines.
    pub fn size(&mut self, name: impl Into<String>, size: i64) -> &mut Self {
        self.sizes.insert(name.into(), size);
        self
    }

    /// The inputs of a program, where integers that were given as values are what they are there: the targets of a map, or a size.
    pub(super) fn of_program(&self, signature: &Signature) -> Cow<'_, Inputs> {
        let mut inputs = Cow::Borrowed(self);
        for relation in signature.relations.values().filter(|relation| relation.kind == RelationKind::Map) {
            let name = &relation.name;
            if let Some((shape, targets)) =
                self.values.get(name).and_then(integers).filter(|_| !self.gives_relation(name))
            {
                let sources = if shape.is_empty() { vec![1] } else { shape };
                inputs.to_mut().values.remove(name);
                inputs.to_mut().map(name, &sources, targets);
            }
        }
        for name in signature.sizes.values().filter(|name| !self.sizes.contains_key(*name)) {
            let is_param = signature.params.values().any(|param| is_part(name, &param.name));
            let given = self.values.get(name).and_then(integers).filter(|(shape, _)| shape.is_empty() && !is_param);
            if let Some(size) = given.and_then(|(_, size)| i64::try_from(*size.first()?).ok()) {
                inputs.to_mut().values.remove(name);
                inputs.to_mut().size(name, size);
            }
        }
        inputs
    }

    /// Rounds the value of a parameter, or of all its components, to single precision. Whether there is one.
    pub fn store_in_single(&mut self, name: &str) -> bool {
        let mut found = false;
        for (_, value) in self.values.iter_mut().filter(|(given, _)| is_part(given, name)) {
            *value = value.in_precision(Precision::Single);
            found = true;
        }
        found
    }

    /// The same inputs with all numbers widened or rounded.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Inputs {
        let mut inputs = self.clone();
        inputs.values.values_mut().for_each(|value| *value = value.in_precision(precision));
        inputs
    }

    /// Whether a parameter, or a component of it, was given.
    pub(crate) fn gives(&self, name: &str) -> bool {
        self.values.keys().any(|given| is_part(given, name))
    }

    /// Whether a relation or a map was given.
    pub(crate) fn gives_relation(&self, name: &str) -> bool {
        self.relations.contains_key(name) || self.maps.contains_key(name)
    }

    /// The size that was given under this name.
    pub(crate) fn given_size(&self, name: &str) -> Option<i64> {
        self.sizes.get(name).copied()
    }

    /// The value that was given under this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Checks that a program takes all that is given, as a list of arguments should be that was written for this program alone.
    ///
    /// # Errors
    /// [`Error::Data`] for the first name that the program does not have.
    pub fn check_names(&self, signature: &Signature) -> Result<()> {
        self.of_program(signature).have_names_of(signature)
    }

    fn have_names_of(&self, signature: &Signature) -> Result<()> {
        let no = |what: &str, name: &str| match self.meant_by(name, signature) {
            Some(meant) => format!("the program has no such {what} (did you mean `{meant}`?); {}", expected(signature)),
            None => format!("the program has no such {what}; {}", expected(signature)),
        };
        let relation = |name: &str| signature.relations.values().find(|relation| relation.name == name);
        let is_relation = |name: &str| relation(name).is_some();
        let is_component = |name: &str| signature.params.values().any(|param| is_part(name, &param.name));
        if let Some(name) = self.sizes.keys().find(|name| !signature.sizes.values().any(|size| size == *name)) {
            return Err(Error::data(name, no("size", name)));
        }
        if let Some(name) = self.values.keys().find(|name| !is_component(name)) {
            let message = match () {
                () if let Some(relation) = relation(name) => {
                    format!("{}; {}", given_as_numbers(relation.kind), expected(signature))
                }
                () if signature.sizes.values().any(|size| size == name) => match self.values.get(name).and_then(number)
                {
                    Some(x) => format!("it is a size, a whole number from 0 on, found {x}; {}", expected(signature)),
                    None => format!(
                        "it is a size, which is given by `--size`, in Rust by `Inputs::size`; {}",
                        expected(signature)
                    ),
                },
                () => no("parameter", name),
            };
            return Err(Error::data(name, message));
        }
        match self.relations.keys().chain(self.maps.keys()).find(|name| !is_relation(name)) {
            Some(name) => Err(Error::data(name, no("relation", name))),
            None => Ok(()),
        }
    }

    /// The input of a program that was not given, whose name is much like one that was.
    fn meant_by<'s>(&self, name: &str, signature: &'s Signature) -> Option<&'s str> {
        let params = signature.params.values().map(|param| &param.name);
        let relations = signature.relations.values().map(|relation| &relation.name);
        let missing = params.chain(relations).filter(|name| !self.gives(name) && !self.gives_relation(name));
        missing.filter(|other| is_like(name, other)).min_by_key(|other| distance(name, other)).map(String::as_str)
    }

    /// What there is to say of an input that is missing: that it was given as something else, or under a name much like its own.
    pub(super) fn missing(&self, what: &str, name: &str, signature: &Signature) -> Error {
        let known = |given: &str| {
            let param = signature.params.values().any(|param| is_part(given, &param.name));
            param || signature.relations.values().any(|relation| relation.name == given)
        };
        let given =
            self.values.keys().chain(self.relations.keys()).chain(self.maps.keys()).filter(|given| !known(given));
        let likeness = |given: &str| (!given.eq_ignore_ascii_case(name), distance(given, name));
        let like = given.map(|given| (likeness(given), given)).min().map(|(_, given)| given);
        let hint = match (what, like) {
            ("parameter", _) if self.relations.contains_key(name) || self.maps.contains_key(name) => {
                "it is a parameter, but a relation was given".to_owned()
            }
            (_, Some(given)) if is_like(given, name) => {
                format!("this {what} is missing (`{given}` was given: did you mean `{name}`?)")
            }
            _ => format!("this {what} is missing"),
        };
        let others = match self.all_missing(signature).as_slice() {
            [] | [_] => String::new(),
            all => {
                let others: Vec<String> =
                    all.iter().filter(|other| *other != name).map(|other| format!("`{other}`")).collect();
                format!(", and so {} {}", if others.len() == 1 { "is" } else { "are" }, others.join(", "))
            }
        };
        Error::data(name, format!("{hint}{others}; {}", expected(signature)))
    }

    /// The components of parameters, and the relations, that nothing was given for.
    fn all_missing(&self, signature: &Signature) -> Vec<String> {
        // A type that is malformed is the verifier's to report.
        let of = |param| self.missing_components(signature, param).unwrap_or_default();
        let components = signature.params.values().flat_map(of).map(|(name, _)| name);
        let relations = signature.relations.values().filter(|relation| relation.kind.is_given());
        let given = |name: &String| self.relations.contains_key(name) || self.maps.contains_key(name);
        components.chain(relations.map(|relation| relation.name.clone()).filter(|name| !given(name))).collect()
    }

    /// The components of a parameter that nothing was given for, alone or with others: their names, and how many axes they have.
    ///
    /// # Errors
    /// [`Error::Limit`] for a type with too many components.
    pub fn missing_components(&self, signature: &Signature, param: &Param) -> Result<Vec<(String, usize)>> {
        let mut missing = Vec::new();
        for leaf in signature.types.leaves(param.ty)? {
            let names = |depth: usize| leaf_name(&param.name, &leaf.path[..depth]);
            let given = |name: &String| self.values.contains_key(name) || self.malformed.contains_key(name);
            if !(0..=leaf.path.len()).map(names).any(|name| given(&name)) {
                missing.push((names(leaf.path.len()), leaf.dims.len()));
            }
        }
        Ok(missing)
    }

    /// Whether a value was given under this name.
    pub fn has_value(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }
}

/// Whether a name is much like one that is meant.
fn is_like(given: &str, meant: &str) -> bool {
    let far = distance(given, meant);
    far <= 2 && far < meant.chars().count() || given.eq_ignore_ascii_case(meant)
}

/// The number that a value is.
fn number(value: &Value) -> Option<f64> {
    match value.as_tensor()?.as_dense()?.data() {
        [x] => Some(*x),
        _ => None,
    }
}

/// The shape and the numbers of a dense tensor, if all are integers from 0 on.
fn integers(value: &Value) -> Option<(Vec<usize>, Vec<usize>)> {
    let dense = value.as_tensor()?.as_dense()?;
    let integer = |x: &f64| (x.fract() == 0.0 && (0.0..9e15).contains(x)).then_some(*x as usize);
    Some((dense.shape().to_vec(), dense.data().iter().map(integer).collect::<Option<_>>()?))
}

/// Inputs in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved<'i> {
    values: Cow<'i, BTreeMap<String, Value>>,
    relations: Cow<'i, BTreeMap<String, Arc<Relation>>>,
    /// The lengths of the axes of the sources, and the targets.
    maps: BTreeMap<String, (Vec<usize>, Vec<usize>)>,
    sizes: Cow<'i, BTreeMap<String, i64>>,
}

impl Serialize for Inputs {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        if let Some((name, malformed)) = self.malformed.first_key_value() {
            return Err(ser::Error::custom(malformed.clone().of(name)));
        }
        let map =
            |(name, map): (&String, &Arc<Targets>)| (name.clone(), (map.sources().to_vec(), map.targets().to_vec()));
        let Inputs { values, relations, maps, sizes, .. } = self;
        let maps = maps.iter().map(map).collect();
        let (values, relations, sizes) = (Cow::Borrowed(values), Cow::Borrowed(relations), Cow::Borrowed(sizes));
        Saved { values, relations, maps, sizes }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Inputs {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> std::result::Result<Inputs, D::Error> {
        let Saved { values, relations, maps, sizes } = Saved::deserialize(deserializer)?;
        let (values, relations, sizes) = (values.into_owned(), relations.into_owned(), sizes.into_owned());
        let mut inputs = Inputs { values, relations, sizes, ..Inputs::new() };
        for (name, (sources, targets)) in maps {
            inputs.map(name, &sources, targets);
        }
        Ok(inputs)
    }
}

impl<K: Into<String>, V: IntoValue> Extend<(K, V)> for Inputs {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, values: I) {
        for (name, value) in values {
            self.value(name, value);
        }
    }
}

/// Values of parameters by name.
impl<K: Into<String>, V: IntoValue> FromIterator<(K, V)> for Inputs {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(values: I) -> Self {
        let mut inputs = Inputs::new();
        inputs.extend(values);
        inputs
    }
}

/// How many characters to insert, remove or replace to make one name of another.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j].min(diagonal) + 1);
        }
    }
    row[b.len()]
}

/// [`Inputs`] from names and their values: all that [`Inputs::value`](crate::tensor::Inputs::value) takes.
///
/// ```
/// use iverson::prelude::*;
///
/// let dot = Function::parse("param x : [n] real\nparam y : [n] real\nsum i < n. x[i] * y[i]")?;
/// let inputs = inputs! { "x" => vec![1.0, 2.0], "y" => ndarray::array![3.0, 4.0] };
/// assert_eq!(dot.eval(&inputs)?["value"].as_scalar(), Some(11.0));
/// # Ok::<(), iverson::Error>(())
/// ```
///
/// [`Inputs`]: crate::tensor::Inputs
#[macro_export]
macro_rules! inputs {
    ($($name:expr => $value:expr),* $(,)?) => {{
        #[allow(unused_mut, reason = "there may be none")]
        let mut inputs = $crate::tensor::Inputs::new();
        $(inputs.value($name, $value);)*
        inputs
    }};
}

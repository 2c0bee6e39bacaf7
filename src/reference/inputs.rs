//! What a program is run on: sizes, the leaves of its parameters, its relations. And what it returns.
//!
//! Everything is generic over the numbers of [`Numeric`](super::Numeric) and knows nothing of file formats: a test builds it from a few
//! vectors.

use crate::base::{Id, ParamId, RelationId, SizeId};
use crate::error::{Error, Result};
use crate::index::{Size, Var};

/// How much an evaluation may take. Counts, never clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Numbers kept at a time, at least those of one tensor.
    pub elements: u64,
    /// Terms evaluated, or summands visited.
    pub steps: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { elements: 1 << 28, steps: 1 << 36 }
    }
}

impl Limits {
    /// Refuses more elements than allowed.
    pub(super) fn elements(&self, found: u128) -> Result<()> {
        let limit = self.elements;
        if found <= u128::from(limit) {
            return Ok(());
        }
        let found = u64::try_from(found).unwrap_or(u64::MAX);
        Err(Error::Limit { what: "elements kept by the reference evaluator", limit, found })
    }

    /// Counts one step.
    pub(super) fn step(&self, steps: &mut u64) -> Result<()> {
        *steps += 1;
        if *steps <= self.steps {
            return Ok(());
        }
        Err(Error::Limit { what: "steps of the reference evaluator", limit: self.steps, found: *steps })
    }
}

/// A set of index tuples over a box, sorted.
///
/// A tuple is kept as its place in the box in row-major order, so the order of the keys is the lexicographic order of the tuples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuples {
    shape: Vec<u64>,
    keys: Vec<u128>,
}

/// The number of places of a box, nothing beyond 2^127.
pub(super) fn volume(dims: &[u64]) -> Option<u128> {
    if dims.contains(&0) {
        return Some(0);
    }
    let volume = dims.iter().try_fold(1u128, |v, n| v.checked_mul(u128::from(*n)))?;
    (volume <= i128::MAX as u128).then_some(volume)
}

/// The place of a tuple in a box, nothing outside. The box has a [`volume`].
pub(super) fn place(dims: &[u64], tuple: &[i64]) -> Option<u128> {
    if dims.len() != tuple.len() {
        return None;
    }
    let mut key = 0u128;
    for (n, i) in dims.iter().zip(tuple) {
        let i = u64::try_from(*i).ok().filter(|i| i < n)?;
        key = key * u128::from(*n) + u128::from(i);
    }
    Some(key)
}

/// The tuple at a place of a box; the inverse of [`place`].
pub(super) fn tuple_at(dims: &[u64], mut key: u128) -> Vec<i64> {
    let mut tuple = vec![0; dims.len()];
    for (i, n) in tuple.iter_mut().zip(dims).rev() {
        let n = u128::from((*n).max(1));
        // A remainder of an extent, which fits `i64`.
        *i = (key % n) as i64;
        key /= n;
    }
    tuple
}

impl Tuples {
    /// The set of the given tuples, in any order.
    ///
    /// # Errors
    /// [`Error::Data`] for a tuple outside the shape or one given twice; [`Error::Limit`] for a box of more than 2^127 places.
    pub fn new(name: &str, shape: Vec<u64>, tuples: impl IntoIterator<Item = Vec<i64>>) -> Result<Self> {
        box_volume(&shape)?;
        let key = |tuple: Vec<i64>| {
            place(&shape, &tuple).ok_or_else(|| Error::data(name, format!("{tuple:?} is outside the shape {shape:?}")))
        };
        let mut keys = tuples.into_iter().map(key).collect::<Result<Vec<_>>>()?;
        keys.sort_unstable();
        if let Some(twice) = keys.windows(2).find(|w| w[0] == w[1]) {
            return Err(Error::data(name, format!("{:?} is given twice", tuple_at(&shape, twice[0]))));
        }
        Ok(Tuples { shape, keys })
    }

    /// The ranges of the places.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The number of tuples.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no tuple.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The tuples in lexicographic order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Vec<i64>> + ExactSizeIterator {
        self.keys.iter().map(|key| tuple_at(&self.shape, *key))
    }

    /// The position of a tuple among the sorted tuples, nothing where it is not in the set.
    pub fn find(&self, tuple: &[i64]) -> Option<usize> {
        self.keys.binary_search(&place(&self.shape, tuple)?).ok()
    }

    /// Whether a tuple is in the set; none outside the shape is.
    pub fn contains(&self, tuple: &[i64]) -> bool {
        self.find(tuple).is_some()
    }

    /// The last place of the first tuple that begins with `source`: the target of a map.
    pub fn target(&self, source: &[i64]) -> Option<i64> {
        let (last, outer) = self.shape.split_last()?;
        let first = place(outer, source)? * u128::from(*last);
        let key = self.keys.get(self.keys.partition_point(|key| *key < first))?;
        i64::try_from(key - first).ok().filter(|target| target.unsigned_abs() < *last)
    }

    pub(super) fn keys(&self) -> &[u128] {
        &self.keys
    }
}

/// The number of places of a box.
pub(super) fn box_volume(dims: &[u64]) -> Result<u128> {
    volume(dims).ok_or(Error::Limit { what: "places of a tensor", limit: u64::MAX, found: u64::MAX })
}

/// A tensor of numbers: a leaf of a parameter or of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf<T> {
    /// The axes.
    pub dims: Vec<u64>,
    /// The elements.
    pub elements: Elements<T>,
}

/// The elements of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements<T> {
    /// All, in row-major order.
    Dense(Vec<T>),
    /// Those on a pattern, in the order of its tuples. The others have no value.
    Sparse(Tuples, Vec<T>),
}

impl<T> Leaf<T> {
    /// A dense tensor.
    ///
    /// # Errors
    /// [`Error::Data`] if there is not one value for each place.
    pub fn dense(dims: Vec<u64>, values: Vec<T>) -> Result<Self> {
        if volume(&dims) != Some(values.len() as u128) {
            return Err(Error::data("tensor", format!("{} values do not fill the shape {dims:?}", values.len())));
        }
        Ok(Leaf { dims, elements: Elements::Dense(values) })
    }

    /// A number.
    pub fn scalar(value: T) -> Self {
        Leaf { dims: Vec::new(), elements: Elements::Dense(vec![value]) }
    }

    /// A tensor that has elements on a pattern only.
    ///
    /// # Errors
    /// [`Error::Data`] if there is not one value for each tuple.
    pub fn sparse(pattern: Tuples, values: Vec<T>) -> Result<Self> {
        if pattern.len() != values.len() {
            return Err(Error::data("tensor", format!("{} values for {} entries", values.len(), pattern.len())));
        }
        Ok(Leaf { dims: pattern.shape.clone(), elements: Elements::Sparse(pattern, values) })
    }

    /// The stored elements, in order.
    pub fn values(&self) -> &[T] {
        match &self.elements {
            Elements::Dense(values) | Elements::Sparse(_, values) => values,
        }
    }

    /// The element at a place in row-major order, nothing where none is stored.
    pub(super) fn at(&self, key: u128) -> Option<&T> {
        match &self.elements {
            Elements::Dense(values) => values.get(usize::try_from(key).ok()?),
            Elements::Sparse(pattern, values) => values.get(pattern.keys.binary_search(&key).ok()?),
        }
    }

    /// The same places with other numbers.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn map<U>(&self, map: impl FnMut(&T) -> Result<U>) -> Result<Leaf<U>> {
        let values = self.values().iter().map(map).collect::<Result<Vec<U>>>()?;
        let elements = match &self.elements {
            Elements::Dense(_) => Elements::Dense(values),
            Elements::Sparse(pattern, _) => Elements::Sparse(pattern.clone(), values),
        };
        Ok(Leaf { dims: self.dims.clone(), elements })
    }

    /// The same places with numbers made from those of two tensors.
    ///
    /// # Errors
    /// [`Error::Data`] where the tensors have different places.
    pub fn zip<U, V>(&self, other: &Leaf<U>, mut zip: impl FnMut(&T, &U) -> V) -> Result<Leaf<V>> {
        let same_pattern = match (&self.elements, &other.elements) {
            (Elements::Sparse(p, _), Elements::Sparse(q, _)) => p == q,
            (Elements::Dense(_), Elements::Dense(_)) => true,
            _ => false,
        };
        if self.dims != other.dims || !same_pattern {
            return Err(Error::data(
                "tensor",
                format!("a shape of {:?} is expected, found {:?}", self.dims, other.dims),
            ));
        }
        let mut others = other.values().iter();
        self.map(|x| match others.next() {
            Some(y) => Ok(zip(x, y)),
            None => Err(Error::data("tensor", "a value is missing")),
        })
    }
}

/// Everything a program takes from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs<T> {
    /// The size variables, by id.
    pub sizes: Vec<i64>,
    /// The leaves of each parameter, in the order of [`Types::leaves`](crate::ty::Types::leaves).
    pub params: Vec<Vec<Leaf<T>>>,
    /// The relations, by id; the patterns of sparse parameters among them.
    pub relations: Vec<Tuples>,
}

impl<T> Inputs<T> {
    /// The value of a size variable.
    ///
    /// # Errors
    /// [`Error::Bug`] where none was bound.
    pub fn size(&self, n: SizeId) -> Result<i64> {
        self.sizes.get(n.index()).copied().ok_or_else(|| Error::bug("evaluate", format!("no value for the size {n}")))
    }

    /// The leaves of a parameter.
    ///
    /// # Errors
    /// [`Error::Bug`] where none were bound.
    pub fn param(&self, p: ParamId) -> Result<&[Leaf<T>]> {
        let leaves = self.params.get(p.index()).map(Vec::as_slice);
        leaves.ok_or_else(|| Error::bug("evaluate", format!("no value for the parameter {p}")))
    }

    /// A relation.
    ///
    /// # Errors
    /// [`Error::Bug`] where none was bound.
    pub fn relation(&self, r: RelationId) -> Result<&Tuples> {
        self.relations.get(r.index()).ok_or_else(|| Error::bug("evaluate", format!("no tuples for the relation {r}")))
    }

    /// The number of indices of a range, none where the size is negative.
    ///
    /// # Errors
    /// [`Error::Overflow`]; [`Error::Bug`] where the size mentions anything but bound size variables.
    pub fn extent(&self, size: &Size) -> Result<u64> {
        let value = size.evaluate(&mut |v| match v {
            Var::Size(n) => self.sizes.get(n.index()).copied(),
            Var::Index(_) | Var::Apply(_) => None,
        });
        let value = value.ok_or_else(|| Error::bug("evaluate", format!("no value for the size {size:?}")))??;
        // Negative sizes are empty ranges.
        Ok(u64::try_from(value).unwrap_or(0))
    }

    /// The numbers of indices of the axes of a tensor.
    ///
    /// # Errors
    /// As [`Inputs::extent`].
    pub fn extents(&self, dims: &[Size]) -> Result<Vec<u64>> {
        dims.iter().map(|n| self.extent(n)).collect()
    }

    /// The same sizes and relations with other numbers, leaf by leaf.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn map<U>(&self, mut map: impl FnMut(ParamId, usize, &Leaf<T>) -> Result<Leaf<U>>) -> Result<Inputs<U>> {
        let params = self.params.iter().enumerate().map(|(p, leaves)| {
            leaves.iter().enumerate().map(|(k, leaf)| map(ParamId::from_index(p), k, leaf)).collect()
        });
        let params = params.collect::<Result<_>>()?;
        Ok(Inputs { sizes: self.sizes.clone(), params, relations: self.relations.clone() })
    }
}

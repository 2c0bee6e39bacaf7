//! What a program is run on: sizes, the leaves of its parameters, its relations. And what it returns.
//!
//! Everything is generic over the numbers of [`Numeric`](super::Numeric). [`Environment::from_bindings`] makes it from bound data,
//! [`to_value`] makes data of a result.

use std::sync::Arc;

use crate::base::{Id, ParamId, RelationId, SizeId};
use crate::error::{Error, Result};
use crate::index::{Size, Var};
use crate::tensor::{Bindings, Coo, Dense, Inputs, Malformed, Relation, Tensor, Value};
use crate::ty::{Format, RelationKind, Signature, Storage};

/// What is counted, as errors say.
pub const STEPS: &str = "steps of the reference evaluator";

/// How much an evaluation may take. Counts, never clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Numbers kept at a time, at least those of one tensor.
    pub elements: u64,
    /// Terms evaluated, or, in one statement of Tensor-SSA, values that indices take. It is refused before it begins where so many are plainly
    /// needed.
    pub steps: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { elements: 1 << 28, steps: 1 << 32 }
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
        self.steps((*steps).into())
    }

    /// Refuses more steps than allowed.
    pub(super) fn steps(&self, found: u128) -> Result<()> {
        if found <= u128::from(self.steps) {
            return Ok(());
        }
        let found = u64::try_from(found).unwrap_or(u64::MAX);
        Err(Error::Limit { what: STEPS, limit: self.steps, found })
    }
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

/// The number of places of a box.
pub(super) fn box_volume(dims: &[u64]) -> Result<u128> {
    volume(dims).ok_or(Error::Limit { what: "places of a tensor", limit: i64::MAX as u64, found: u64::MAX })
}

/// The axes of a shape.
fn lengths(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|n| *n as u64).collect()
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
    Sparse(Arc<Relation>, Vec<T>),
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
    pub fn sparse(pattern: Arc<Relation>, values: Vec<T>) -> Result<Self> {
        if pattern.len() != values.len() {
            return Err(Error::data("tensor", format!("{} values for {} entries", values.len(), pattern.len())));
        }
        Ok(Leaf { dims: lengths(pattern.shape()), elements: Elements::Sparse(pattern, values) })
    }

    /// The stored elements, in order.
    pub fn values(&self) -> &[T] {
        match &self.elements {
            Elements::Dense(values) | Elements::Sparse(_, values) => values,
        }
    }

    /// Where elements are stored, of a sparse tensor.
    pub fn pattern(&self) -> Option<&Arc<Relation>> {
        match &self.elements {
            Elements::Dense(_) => None,
            Elements::Sparse(pattern, _) => Some(pattern),
        }
    }

    /// The element at a place in row-major order, nothing where none is stored.
    pub(super) fn at(&self, key: u128) -> Option<&T> {
        match &self.elements {
            Elements::Dense(values) => values.get(usize::try_from(key).ok()?),
            Elements::Sparse(pattern, values) => values.get(pattern.position(&tuple_at(&self.dims, key))?),
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
            (Elements::Sparse(p, _), Elements::Sparse(q, _)) => Arc::ptr_eq(p, q) || p == q,
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
pub struct Environment<T> {
    /// The size variables, by id.
    pub sizes: Vec<i64>,
    /// The leaves of each parameter, in the order of [`Types::leaves`](crate::ty::Types::leaves).
    pub params: Vec<Vec<Leaf<T>>>,
    /// The relations, by id; the patterns of sparse parameters among them.
    pub relations: Vec<Arc<Relation>>,
}

impl<T> Environment<T> {
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
    pub fn relation(&self, r: RelationId) -> Result<&Arc<Relation>> {
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
    /// As [`Environment::extent`].
    pub fn extents(&self, dims: &[Size]) -> Result<Vec<u64>> {
        dims.iter().map(|n| self.extent(n)).collect()
    }

    /// The same sizes and relations with other numbers, leaf by leaf.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn map<U>(&self, mut map: impl FnMut(ParamId, usize, &Leaf<T>) -> Result<Leaf<U>>) -> Result<Environment<U>> {
        let params = self.params.iter().enumerate().map(|(p, leaves)| {
            leaves.iter().enumerate().map(|(k, leaf)| map(ParamId::from_index(p), k, leaf)).collect()
        });
        let params = params.collect::<Result<_>>()?;
        Ok(Environment { sizes: self.sizes.clone(), params, relations: self.relations.clone() })
    }
}

impl Environment<f64> {
    /// What a program was bound to.
    ///
    /// # Errors
    /// [`Error::Data`] if a tensor has not one value for each place, which [`bind`](crate::tensor::bind) rules out.
    pub fn from_bindings(bindings: &Bindings) -> Result<Self> {
        Ok(Environment {
            sizes: bindings.sizes().values().copied().collect(),
            params: bindings.values().values().map(leaves_of).collect::<Result<_>>()?,
            relations: bindings.relations().values().cloned().collect(),
        })
    }

    /// Inputs that are bound to the same; the inverse of [`Environment::from_bindings`].
    ///
    /// # Errors
    /// [`Error::Bug`] for a parameter or relation that has no value here; [`Error::Data`] for a shape that no tensor can have.
    pub fn inputs(&self, signature: &Signature) -> Result<Inputs> {
        let mut inputs = Inputs::new();
        for (n, name) in signature.sizes.iter() {
            inputs.size(name.clone(), self.size(n)?);
        }
        for (p, param) in signature.params.iter() {
            let tensors = self.param(p)?.iter().map(|leaf| Ok(Arc::new(tensor_of(leaf, param.storage)?)));
            inputs.value(param.name.clone(), Value::new(tensors.collect::<Result<_>>()?));
        }
        for (r, relation) in signature.relations.iter() {
            if relation.kind.is_given() {
                inputs.relation(relation.name.clone(), self.relation(r)?.clone());
            }
        }
        Ok(inputs)
    }
}

/// The leaves of a value.
///
/// # Errors
/// [`Error::Data`] if a tensor has not one value for each place, which no value of a program has.
pub fn leaves_of(value: &Value) -> Result<Vec<Leaf<f64>>> {
    let leaf = |tensor: &Arc<Tensor>| {
        let data = tensor.lexicographic().into_owned();
        match tensor.pattern() {
            None => Leaf::dense(lengths(&tensor.shape()), data),
            Some(pattern) => Leaf::sparse(pattern.clone(), data),
        }
    };
    value.leaves().iter().map(leaf).collect()
}

/// The tensor that a leaf is, in the format of a parameter.
fn tensor_of(leaf: &Leaf<f64>, storage: Storage) -> Result<Tensor> {
    let data = leaf.values().to_vec();
    let malformed = |malformed: Malformed| malformed.of("tensor");
    let Some(pattern) = leaf.pattern() else {
        let shape = leaf.dims.iter().map(|n| usize::try_from(*n).map_err(|_| Error::Overflow));
        return Ok(Dense::new(&shape.collect::<Result<Vec<_>>>()?, data).map_err(malformed)?.into());
    };
    let coo = Coo::with_pattern(pattern.clone(), data).map_err(malformed)?;
    Tensor::sparse(storage.format().unwrap_or(Format::Coo), coo).map_err(malformed)
}

/// The value that the leaves of a result are, stored as asked: a sparse one shares the pattern of its parameter.
///
/// # Errors
/// [`Error::Bug`] if the leaves do not fit the storage; [`Error::Limit`] or [`Error::Data`] for a shape that no tensor can have.
pub fn to_value(signature: &Signature, bindings: &Bindings, storage: Storage, leaves: &[Leaf<f64>]) -> Result<Value> {
    let tensor = |leaf: &Leaf<f64>| -> Result<Arc<Tensor>> {
        let data = leaf.values().to_vec();
        let Some(pattern) = storage.pattern() else {
            let shape: Option<Vec<usize>> = leaf.dims.iter().map(|n| usize::try_from(*n).ok()).collect();
            let shape = shape.ok_or(Error::Overflow)?;
            return Ok(Arc::new(Dense::new(&shape, data).map_err(|malformed| malformed.of("result"))?.into()));
        };
        let parameter = signature.relations.get(pattern).and_then(|relation| match relation.kind {
            RelationKind::Pattern(p) => bindings.values().get(p)?.leaves().first(),
            RelationKind::Free | RelationKind::Map | RelationKind::Projection(..) => None,
        });
        // A result with the pattern of a parameter is that parameter with other values.
        let tensor = parameter
            .ok_or_else(|| Error::bug("evaluate", format!("{pattern} is the pattern of no parameter")))?
            .with_lexicographic(data);
        let tensor =
            tensor.map_err(|_| Error::bug("evaluate", "a sparse result has not the pattern of its storage"))?;
        Ok(Arc::new(tensor))
    };
    Ok(Value::new(leaves.iter().map(tensor).collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{S, signature};
    use super::*;
    use crate::base::VarId;
    use crate::reference::eval_tssa::{self, Options};
    use crate::tensor::{Csr, bind};
    use crate::tssa::{Builder, Output};
    use crate::ty::Types;

    #[test]
    fn places_and_tuples_are_inverse() {
        let dims = [2, 3, 4];
        for key in 0..24 {
            assert_eq!(place(&dims, &tuple_at(&dims, key)), Some(key));
        }
        for outside in [&[2, 0, 0][..], &[0, -1, 0], &[0, 0, 4], &[0, 0]] {
            assert_eq!(place(&dims, outside), None, "{outside:?}");
        }
        assert_eq!(volume(&[1 << 40, 0, u64::MAX, u64::MAX]), Some(0));
        assert_eq!(volume(&[u64::MAX, u64::MAX]), None);
    }

    /// Bound data, through the evaluator, back to data: the sparse parameter comes out as it went in.
    #[test]
    fn bound_data_and_back() {
        let signature = Arc::new(signature());
        let csr = Csr::new(3, 2, vec![0, 1, 1, 2], vec![1, 0], vec![7.0, 8.0]).unwrap();
        let pattern = |shape: [usize; 2], tuples: &[[usize; 2]]| Relation::from_tuples(&shape, tuples).unwrap();
        let mut inputs = Inputs::new();
        inputs.value("x", Value::vector(vec![1.0, 2.0, 3.0])).value("y", Value::vector(vec![10.0, 20.0]));
        inputs.value("A", Dense::new(&[3, 2], vec![0.0; 6]).unwrap()).value("S", csr.clone());
        let halves = (Value::vector(vec![0.0; 3]), Value::from(Dense::new(&[3, 2], vec![0.0; 6]).unwrap()));
        inputs.value("ab", Value::pair(halves.0, halves.1)).value("t", Value::scalar(5.0));
        inputs.relation("E", pattern([3, 3], &[[0, 1]]));
        inputs.relation("cam", pattern([3, 2], &[[0, 1], [1, 0], [2, 1]]));
        let bindings = bind(&signature, &inputs).unwrap();
        let at = Environment::from_bindings(&bindings).unwrap();
        assert_eq!(at.sizes, [3, 2]);
        let again = bind(&signature, &at.inputs(&signature).unwrap()).unwrap();
        assert_eq!(Environment::from_bindings(&again).unwrap(), at);

        let param = &signature.params[S];
        let dims = signature.types.real_dims(param.ty).unwrap();
        let mut b = Builder::new(signature.clone());
        let s: VarId = b.input(S, Vec::new(), dims);
        let t = b.number(&[], crate::scalar::Number::Literal(2.5)).unwrap();
        let output = |ty, storage, x| Output { name: "v".into(), ty, storage, leaves: vec![x] };
        let outputs = vec![output(param.ty, param.storage, s), output(Types::REAL, Storage::Dense, t)];
        let program = b.finish(outputs);
        let found = eval_tssa::evaluate(&program, &at, Options::default()).unwrap();
        let back = |k: usize| to_value(&signature, &bindings, program.outputs[k].storage, &found[k]).unwrap();
        assert_eq!(back(0), Value::from(csr));
        assert_eq!(back(1), Value::scalar(2.5));
    }
}

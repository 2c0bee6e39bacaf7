//! Arguments of elaborated programs, and their results, as leaves in struct-of-arrays form and as values.

use super::{Elaborated, PASS, pop};
use crate::base::{Id, ParamId, RelationId};
use crate::error::{Error, Result};
use crate::functional::lambda::Value;
use crate::reference::{Elements, Environment, Leaf, Numeric};
use crate::tensor::Relation;
use crate::ty::{RelationKind, Type, TypeId, Types};

/// How many numbers a relation or a sparse parameter may have when it is written out.
const MOST_ELEMENTS: u64 = 1 << 24;

/// What is left to do.
enum Step {
    /// The value of a type, whose leaves begin here, at a place of the outer axes.
    Visit(TypeId, usize, usize),
    Pair,
    Array(usize),
}

impl Elaborated {
    /// The values of the parameters of the program.
    ///
    /// # Errors
    /// [`Error::Limit`] for relations and sparse parameters that are large when they are written out; [`Error::Bug`] for an environment of another
    /// program.
    pub fn arguments<T: Numeric>(&self, at: &Environment<T>) -> Result<Vec<Value<T>>> {
        let mut args = Vec::new();
        for (p, param) in self.signature.params.iter() {
            args.push(self.value(param.ty, at.param(p)?, at)?);
        }
        for r in &self.relations {
            args.push(self.relation(*r, at.relation(*r)?)?);
        }
        Ok(args)
    }

    /// The leaves of the result.
    ///
    /// # Errors
    /// [`Error::Bug`] for a value of another type.
    pub fn result<T: Numeric>(&self, value: &Value<T>, at: &Environment<T>) -> Result<Vec<Leaf<T>>> {
        self.leaves(self.result, value, at)
    }

    /// The leaves of a value of the shape of a parameter, such as its cotangent: of a sparse parameter the elements on its pattern.
    ///
    /// # Errors
    /// [`Error::Bug`] for a value of another type.
    pub fn leaves_of_param<T: Numeric>(
        &self,
        p: ParamId,
        value: &Value<T>,
        at: &Environment<T>,
    ) -> Result<Vec<Leaf<T>>> {
        let ty = self.signature.params.get(p).ok_or_else(|| Error::bug(PASS, "an unknown parameter"))?.ty;
        let leaves = self.leaves(ty, value, at)?;
        let stored = leaves.into_iter().zip(at.param(p)?).map(|(leaf, like)| match &like.elements {
            Elements::Dense(_) => Ok(leaf),
            Elements::Sparse(pattern, _) => {
                let element = |tuple: Vec<usize>| {
                    let place = tuple
                        .iter()
                        .zip(&leaf.dims)
                        .try_fold(0, |place, (k, n)| usize::try_from(*n).ok().map(|n| place * n + k));
                    let element = place.and_then(|place| leaf.values().get(place));
                    element.cloned().ok_or_else(|| Error::bug(PASS, "an entry outside of a tensor"))
                };
                Leaf::sparse(pattern.clone(), pattern.tuples().map(element).collect::<Result<_>>()?)
            }
        });
        stored.collect()
    }

    /// The value that leaves are, with 0 where nothing is stored.
    fn value<T: Numeric>(&self, ty: TypeId, leaves: &[Leaf<T>], at: &Environment<T>) -> Result<Value<T>> {
        let leaves = leaves.iter().map(written_out).collect::<Result<Vec<_>>>()?;
        let counts = leaf_counts(&self.types);
        let (mut todo, mut made) = (vec![Step::Visit(ty, 0, 0)], Vec::new());
        while let Some(step) = todo.pop() {
            match step {
                Step::Visit(ty, first, place) => match self.types.get(ty) {
                    Type::Real => {
                        let element = leaves.get(first).and_then(|leaf| leaf.get(place)).cloned();
                        made.push(Value::Real(element.ok_or_else(|| Error::bug(PASS, "an element is missing"))?));
                    }
                    Type::Pair(a, b) => todo.extend([
                        Step::Pair,
                        Step::Visit(*b, first + counts[a.index()], place),
                        Step::Visit(*a, first, place),
                    ]),
                    Type::Tensor(n, element) => {
                        let n = usize::try_from(at.extent(n)?).map_err(|_| Error::Overflow)?;
                        todo.push(Step::Array(n));
                        todo.extend((0..n).rev().map(|k| Step::Visit(*element, first, place * n + k)));
                    }
                },
                Step::Pair => {
                    let (b, a) = (pop(&mut made)?, pop(&mut made)?);
                    made.push(Value::pair(a, b));
                }
                Step::Array(n) => {
                    let from = made.len().checked_sub(n).ok_or_else(|| Error::bug(PASS, "an element is missing"))?;
                    let items = made.split_off(from);
                    made.push(Value::array(items));
                }
            }
        }
        pop(&mut made)
    }

    fn leaves<T: Numeric>(&self, ty: TypeId, value: &Value<T>, at: &Environment<T>) -> Result<Vec<Leaf<T>>> {
        let mut leaves = Vec::new();
        for leaf in self.types.leaves(ty)? {
            leaves.push((at.extents(&leaf.dims)?, Vec::new()));
        }
        let counts = leaf_counts(&self.types);
        let mut todo = vec![(value, ty, 0)];
        while let Some((value, ty, first)) = todo.pop() {
            match self.types.get(ty) {
                Type::Real => match leaves.get_mut(first) {
                    Some((_, values)) => values.push(value.as_real()?.clone()),
                    None => return Err(Error::bug(PASS, "a leaf is missing")),
                },
                Type::Pair(a, b) => {
                    let (x, y) = value.as_pair()?;
                    todo.extend([(y, *b, first + counts[a.index()]), (x, *a, first)]);
                }
                Type::Tensor(_, element) => {
                    todo.extend(value.as_array()?.iter().rev().map(|item| (item, *element, first)));
                }
            }
        }
        leaves.into_iter().map(|(dims, values)| Leaf::dense(dims, values)).collect()
    }

    /// The targets of a map, or 0 and 1.
    fn relation<T: Numeric>(&self, r: RelationId, relation: &Relation) -> Result<Value<T>> {
        let is_map = self.signature.relations.get(r).is_some_and(|found| found.kind == RelationKind::Map);
        let shape = relation.shape();
        let dims = if is_map { &shape[..shape.len().saturating_sub(1)] } else { shape };
        let mut items = vec![Value::Int(0); volume(dims.iter().map(|n| *n as u64))?];
        for tuple in relation.tuples() {
            let place = tuple.iter().zip(dims).fold(0, |place, (k, n)| place * n + k);
            let item = if is_map { tuple.last().map_or(0, |target| *target as i64) } else { 1 };
            *items.get_mut(place).ok_or_else(|| Error::bug(PASS, "an entry outside of a relation"))? = Value::Int(item);
        }
        // The innermost axis first.
        for (axis, n) in dims.iter().enumerate().rev() {
            let rows = dims[..axis].iter().product::<usize>();
            let mut rest = items.into_iter();
            items = (0..rows).map(|_| Value::array(rest.by_ref().take(*n).collect())).collect();
        }
        pop(&mut items)
    }
}

fn volume(dims: impl IntoIterator<Item = u64>) -> Result<usize> {
    let volume = dims.into_iter().try_fold(1u64, u64::checked_mul).unwrap_or(u64::MAX);
    if volume > MOST_ELEMENTS {
        let what = "elements of a sparse tensor or a relation in the lambda calculus";
        return Err(Error::Limit { what, limit: MOST_ELEMENTS, found: volume });
    }
    usize::try_from(volume).map_err(|_| Error::Overflow)
}

/// All elements, in row-major order.
fn written_out<T: Numeric>(leaf: &Leaf<T>) -> Result<Vec<T>> {
    let Some(pattern) = leaf.pattern() else { return Ok(leaf.values().to_vec()) };
    let mut all = vec![T::zero(); volume(leaf.dims.iter().copied())?];
    for (tuple, x) in pattern.tuples().zip(leaf.values()) {
        let place = tuple.iter().zip(pattern.shape()).fold(0, |place, (k, n)| place * n + k);
        *all.get_mut(place).ok_or_else(|| Error::bug(PASS, "an entry outside of a tensor"))? = x.clone();
    }
    Ok(all)
}

/// The number of leaves of each type.
fn leaf_counts(types: &Types) -> Vec<usize> {
    let mut counts: Vec<usize> = Vec::new();
    for (_, ty) in types.iter() {
        let count = match ty {
            Type::Real => 1,
            Type::Pair(a, b) => counts[a.index()].saturating_add(counts[b.index()]),
            Type::Tensor(_, element) => counts[element.index()],
        };
        counts.push(count);
    }
    counts
}

//! Values while a term is evaluated, and the layout of types for given sizes: extents, numbers and leaves.

use std::rc::Rc;

use super::PASS;
use crate::base::Id;
use crate::error::{Error, Result};
use crate::reference::environment::{Elements, Environment, Leaf, Limits, box_volume};
use crate::reference::numeric::Numeric;
use crate::term::{Program, Term};
use crate::ty::{Type, TypeId, Types};

/// A value. Clones are cheap: what is large is shared.
#[derive(Clone, Debug)]
pub(super) enum Value<'a, T> {
    /// Zero of any type, and every value of a type that holds no number.
    Zero,
    /// A number.
    Real(T),
    /// An array of numbers.
    Reals(Rc<Vec<T>>),
    /// An array of other values, or a pair.
    Node(Rc<Node<'a, T>>),
    /// A part of a parameter.
    View(View<'a, T>),
}

impl<T: Numeric> Value<'_, T> {
    /// Whether two values of one type are the same to the last bit; false where that is not looked at. Types nest to a bounded depth.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Zero, Value::Zero) => true,
            (Value::Real(a), Value::Real(b)) => a.is_same(b),
            (Value::Reals(a), Value::Reals(b)) => a.iter().zip(b.iter()).all(|(a, b)| a.is_same(b)),
            (Value::Node(a), Value::Node(b)) => a.children.iter().zip(&b.children).all(|(a, b)| a.is_same(b)),
            _ => false,
        }
    }
}

/// A part of a parameter in struct-of-arrays form: all leaves below it begin at one place of their common outer axes.
#[derive(Debug)]
pub(super) struct View<'a, T> {
    pub(super) leaves: &'a [Leaf<T>],
    pub(super) first: usize,
    pub(super) level: usize,
    pub(super) place: u128,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

/// Children that are dropped without recursion, however deep they are.
#[derive(Debug)]
pub(super) struct Node<'a, T> {
    pub(super) children: Vec<Value<'a, T>>,
}

impl<T> Drop for Node<'_, T> {
    fn drop(&mut self) {
        let mut stack = Vec::new();
        let mut children = std::mem::take(&mut self.children);
        loop {
            stack.extend(children.drain(..).filter_map(|v| match v {
                Value::Node(node) => Rc::into_inner(node),
                _ => None,
            }));
            match stack.pop() {
                // Its own drop finds no children left.
                Some(mut node) => children = std::mem::take(&mut node.children),
                None => return,
            }
        }
    }
}

/// What is known of the types once the sizes are: extents, numbers, leaves.
pub(super) struct Layout<'t> {
    types: &'t Types,
    /// The extent of a tensor type, 0 for others.
    extents: Vec<u64>,
    /// How many numbers a value holds, saturated.
    numbers: Vec<u128>,
    /// How many leaves a type has, saturated.
    leaf_counts: Vec<usize>,
}

impl<'t> Layout<'t> {
    pub(super) fn new<T>(types: &'t Types, inputs: &Environment<T>) -> Result<Self> {
        let mut layout = Layout { types, extents: Vec::new(), numbers: Vec::new(), leaf_counts: Vec::new() };
        for (_, ty) in types.iter() {
            let (extent, numbers, leaves) = match ty {
                Type::Real => (0, 1, 1),
                Type::Pair(a, b) => {
                    let numbers = layout.numbers(*a).saturating_add(layout.numbers(*b));
                    (0, numbers, layout.leaf_count(*a).saturating_add(layout.leaf_count(*b)))
                }
                Type::Tensor(n, element) => {
                    let extent = inputs.extent(n)?;
                    let numbers = layout.numbers(*element).saturating_mul(u128::from(extent));
                    (extent, numbers, layout.leaf_count(*element))
                }
            };
            layout.extents.push(extent);
            layout.numbers.push(numbers);
            layout.leaf_counts.push(leaves);
        }
        Ok(layout)
    }

    pub(super) fn numbers(&self, ty: TypeId) -> u128 {
        self.numbers.get(ty.index()).copied().unwrap_or(0)
    }

    fn leaf_count(&self, ty: TypeId) -> usize {
        self.leaf_counts.get(ty.index()).copied().unwrap_or(0)
    }

    /// The extent and the element type of a tensor type.
    pub(super) fn tensor(&self, ty: TypeId) -> Result<(u64, TypeId)> {
        match self.types.get(ty) {
            Type::Tensor(_, element) => Ok((self.extents.get(ty.index()).copied().unwrap_or(0), *element)),
            _ => Err(Error::bug(PASS, "a tensor is expected")),
        }
    }

    /// Refuses programs whose arrays do not fit together. At any time a `gen` has at most one value under construction or bound.
    pub(super) fn check_limits(&self, program: &Program, limits: &Limits) -> Result<()> {
        let mut inner = vec![false; program.terms.len()];
        let mut total = self.numbers(program.ty(program.root));
        for (id, term) in program.terms.iter().rev() {
            if let Term::Gen { body, .. } = term {
                if let (Some(flag), Term::Gen { .. }) = (inner.get_mut(body.index()), &program.terms[*body]) {
                    *flag = true;
                }
                if id != program.root && !inner.get(id.index()).copied().unwrap_or(false) {
                    total = total.saturating_add(self.numbers(program.ty(id)));
                }
            }
        }
        limits.elements(total)
    }

    /// The element of an array.
    pub(super) fn element<'a, T: Numeric>(&self, array: &Value<'a, T>, ty: TypeId, k: i64) -> Result<Value<'a, T>> {
        let (extent, _) = self.tensor(ty)?;
        let at = u64::try_from(k).ok().filter(|k| *k < extent);
        let at = at.ok_or_else(|| Error::bug(PASS, format!("an access at {k} of an axis of extent {extent}")))?;
        let missing = || Error::bug(PASS, "an array is shorter than its type says");
        Ok(match array {
            Value::Zero => Value::Zero,
            Value::Real(_) => return Err(Error::bug(PASS, "an access to a number")),
            Value::Reals(xs) => Value::Real(xs.get(at as usize).cloned().ok_or_else(missing)?),
            Value::Node(node) => node.children.get(at as usize).cloned().ok_or_else(missing)?,
            Value::View(view) => {
                let place = view.place.checked_mul(u128::from(extent)).and_then(|p| p.checked_add(u128::from(at)));
                let place = place.ok_or(Error::Overflow)?;
                Value::View(View { level: view.level + 1, place, ..*view })
            }
        })
    }

    /// Writes a value as leaves. `[[v : T]]` fills the leaves of `T` in row-major order.
    pub(super) fn leaves<T: Numeric>(
        &self,
        value: &Value<'_, T>,
        ty: TypeId,
        inputs: &Environment<T>,
        limits: &Limits,
    ) -> Result<Vec<Leaf<T>>> {
        limits.elements(self.numbers(ty))?;
        let types = self.types.leaves(ty)?;
        let mut leaves: Vec<(Vec<u64>, Vec<T>)> = Vec::with_capacity(types.len());
        for leaf in &types {
            leaves.push((inputs.extents(&leaf.dims)?, Vec::new()));
        }
        let mut stack = vec![(value.clone(), ty, 0)];
        while let Some((value, ty, first)) = stack.pop() {
            if self.numbers(ty) == 0 {
                continue;
            }
            match self.types.get(ty) {
                Type::Real => match leaves.get_mut(first) {
                    Some((_, values)) => values.push(real(&value)?),
                    None => return Err(Error::bug(PASS, "a leaf is missing")),
                },
                Type::Pair(a, b) => {
                    let [x, y] = self.parts(&value, *a)?;
                    stack.push((y, *b, first + self.leaf_count(*a)));
                    stack.push((x, *a, first));
                }
                Type::Tensor(_, element) => match (&value, leaves.get_mut(first)) {
                    (Value::Reals(xs), Some((_, values))) => values.extend(xs.iter().cloned()),
                    _ => {
                        let (extent, _) = self.tensor(ty)?;
                        // Bounded by the numbers that the value holds.
                        for k in (0..extent).rev() {
                            stack.push((self.element(&value, ty, k as i64)?, *element, first));
                        }
                    }
                },
            }
        }
        let leaf = |(dims, values): (Vec<u64>, Vec<T>)| match box_volume(&dims)? == values.len() as u128 {
            true => Ok(Leaf { dims, elements: Elements::Dense(values) }),
            false => Err(Error::bug(PASS, "a leaf has holes")),
        };
        leaves.into_iter().map(leaf).collect()
    }

    /// The components of a pair whose first component has type `a`.
    pub(super) fn parts<'a, T: Numeric>(&self, pair: &Value<'a, T>, a: TypeId) -> Result<[Value<'a, T>; 2]> {
        match pair {
            Value::Zero => Ok([Value::Zero, Value::Zero]),
            Value::View(view) => {
                let second = View { first: view.first + self.leaf_count(a), ..*view };
                Ok([Value::View(*view), Value::View(second)])
            }
            Value::Node(node) => match node.children.as_slice() {
                [x, y] => Ok([x.clone(), y.clone()]),
                _ => Err(Error::bug(PASS, "a pair is expected")),
            },
            Value::Real(_) | Value::Reals(_) => Err(Error::bug(PASS, "a pair is expected")),
        }
    }
}

/// The number that a value of type `real` is.
pub(super) fn real<T: Numeric>(value: &Value<'_, T>) -> Result<T> {
    match value {
        Value::Zero => Ok(T::zero()),
        Value::Real(x) => Ok(x.clone()),
        Value::View(view) => {
            let leaf = view.leaves.get(view.first).filter(|leaf| leaf.dims.len() == view.level);
            let leaf = leaf.ok_or_else(|| Error::bug(PASS, "a parameter has another shape than its type"))?;
            let outside = || Error::bug(PASS, "a sparse parameter is read outside its pattern");
            leaf.at(view.place).cloned().ok_or_else(outside)
        }
        Value::Reals(_) | Value::Node(_) => Err(Error::bug(PASS, "a number is expected")),
    }
}

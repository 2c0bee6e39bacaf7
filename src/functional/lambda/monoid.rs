//! Zero and sums of linear types, and what they take.
//!
//! ```text
//! 0 + v = v + 0 = v      (a, b) + (c, d) = (a + c, b + d)      inl a + inl b = inl (a + b)      numbers are added
//! ```
//!
//! A sum visits what both summands have, and nothing else, with a step for each place, as `plusv` of \[000\], Appendix D. Sums of copowers and of functions
//! are written down; sums of environments are unions, whose steps are the entries of the smaller one (\[000\], Appendix A, whose union is faster than any).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::count::Counts;
use super::data::{Context, Type, TypeId};
use super::linear::LinearType;
use super::value::{Node, Value};
use crate::error::{Error, Result};
use crate::reference::Numeric;

/// How the values of linear types are represented: the steps of \[000\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Store {
    /// Zeros of pairs and environments are written out (Fig. 4).
    Dense,
    /// Zeros are a value of their own; an environment has the cells that are not zero (section 4.1). The cells of a run are in a map (section 4.2),
    /// where access takes the logarithm of their number.
    Map,
    /// The same, but the cells of a run are in an array, where access takes one step (section 5).
    #[default]
    Array,
}

/// Zero of a linear type, and the steps to make it: one, or one for each place that is written out.
pub(super) fn zero<T: Numeric>(context: &Context, store: Store, ty: TypeId) -> (Value<T>, u64) {
    if store != Store::Dense {
        return match &context.types[ty] {
            Type::Linear(LinearType::Real) => (Value::Real(T::zero()), 1),
            Type::Linear(LinearType::Unit) => (Value::Unit, 1),
            _ => (Value::Zero, 1),
        };
    }
    enum Step {
        Type(TypeId),
        Pair,
    }
    let (mut todo, mut done, mut steps) = (vec![Step::Type(ty)], Vec::new(), 0);
    while let Some(step) = todo.pop() {
        let ty = match step {
            Step::Type(ty) => ty,
            Step::Pair => {
                let b = done.pop().unwrap_or(Value::Zero);
                let a = done.pop().unwrap_or(Value::Zero);
                done.push(Value::pair(a, b));
                continue;
            }
        };
        steps += 1;
        match &context.types[ty] {
            Type::Linear(LinearType::Real) => done.push(Value::Real(T::zero())),
            Type::Linear(LinearType::Unit) | Type::NoCells => done.push(Value::Unit),
            Type::Linear(LinearType::Pair(a, b)) | Type::Cells(a, b) => {
                todo.extend([Step::Pair, Step::Type(*b), Step::Type(*a)]);
            }
            Type::Linear(LinearType::Environment(cells)) => todo.push(Step::Type(*cells)),
            _ => done.push(Value::Zero),
        }
    }
    (done.pop().unwrap_or(Value::Zero), steps)
}

/// What is left of a sum.
enum Sum<T> {
    Add(Value<T>, Value<T>),
    Pair,
    Inl,
    Inr,
    Array(usize),
    Package(TypeId),
    Cells(Vec<u32>, BTreeMap<u32, Value<T>>),
}

/// The sum of two values, and its steps.
pub(super) fn plus<T: Numeric>(a: &Value<T>, b: &Value<T>, counts: &mut Counts) -> Result<Value<T>> {
    let (mut todo, mut done) = (vec![Sum::Add(a.clone(), b.clone())], Vec::<Value<T>>::new());
    while let Some(step) = todo.pop() {
        let mut pop = || done.pop().ok_or_else(|| Error::bug("evaluate", "a summand is missing"));
        let value = match step {
            Sum::Pair => {
                let (b, a) = (pop()?, pop()?);
                Value::pair(a, b)
            }
            Sum::Inl => Value::inl(pop()?),
            Sum::Inr => Value::inr(pop()?),
            Sum::Package(ty) => Value::node(Node::Package(ty, pop()?)),
            Sum::Array(n) => Value::array(done.split_off(done.len().saturating_sub(n))),
            Sum::Cells(keys, mut cells) => {
                for k in keys.into_iter().rev() {
                    let value = pop()?;
                    cells.insert(k, value);
                }
                Value::node(Node::Cells(cells))
            }
            Sum::Add(a, b) => {
                counts.steps += 1;
                match (a, b) {
                    (Value::Zero, v) | (v, Value::Zero) => v,
                    (Value::Real(a), Value::Real(b)) => {
                        counts.adds += 1;
                        Value::Real(a.add(&b))
                    }
                    (Value::Unit, Value::Unit) => Value::Unit,
                    (Value::Node(a), Value::Node(b)) => match add_nodes(a, b, &mut todo, counts)? {
                        Some(sum) => sum,
                        None => continue,
                    },
                    _ => return Err(Error::bug("evaluate", "values of different linear types are added")),
                }
            }
        };
        done.push(value);
    }
    done.pop().ok_or_else(|| Error::bug("evaluate", "a sum is missing"))
}

/// The sum of two values with parts, or the sums of the parts as what is left to do.
fn add_nodes<T: Clone>(
    a: Arc<Node<T>>,
    b: Arc<Node<T>>,
    todo: &mut Vec<Sum<T>>,
    counts: &mut Counts,
) -> Result<Option<Value<T>>> {
    let add = |a: &Value<T>, b: &Value<T>| Sum::Add(a.clone(), b.clone());
    match (&*a, &*b) {
        (Node::Pair(a0, a1), Node::Pair(b0, b1)) => todo.extend([Sum::Pair, add(a1, b1), add(a0, b0)]),
        (Node::Inl(a), Node::Inl(b)) => todo.extend([Sum::Inl, add(a, b)]),
        (Node::Inr(a), Node::Inr(b)) => todo.extend([Sum::Inr, add(a, b)]),
        (Node::Package(t, a), Node::Package(u, b)) if t == u => todo.extend([Sum::Package(*t), add(a, b)]),
        (Node::Array(a), Node::Array(b)) if a.len() == b.len() => {
            todo.push(Sum::Array(a.len()));
            todo.extend(a.iter().zip(b).rev().map(|(a, b)| add(a, b)));
        }
        (Node::Cells(_), Node::Cells(_)) => unite(a, b, todo, counts),
        (Node::Entry(..) | Node::Plus(..), Node::Entry(..) | Node::Plus(..))
        | (Node::Closure(..) | Node::Plus(..), Node::Closure(..) | Node::Plus(..)) => {
            return Ok(Some(Value::node(Node::Plus(Value::Node(a), Value::Node(b)))));
        }
        _ => return Err(Error::bug("evaluate", "values of different sides of a linear type are added")),
    }
    Ok(None)
}

/// The union of two environments; cells that both have are left to add.
fn unite<T: Clone>(a: Arc<Node<T>>, b: Arc<Node<T>>, todo: &mut Vec<Sum<T>>, counts: &mut Counts) {
    let (large, small) = ordered(a, b);
    counts.unions += small.len() as u64;
    counts.steps += small.len() as u64;
    let mut large = Arc::try_unwrap(large).map_or_else(|shared| shared.copy_cells(), Node::into_cells);
    let (mut keys, mut sums) = (Vec::new(), Vec::new());
    for (k, v) in small {
        match large.remove(&k) {
            Some(old) => {
                keys.push(k);
                sums.push(Sum::Add(old, v));
            }
            None => {
                large.insert(k, v);
            }
        }
    }
    todo.push(Sum::Cells(keys, large));
    todo.extend(sums.into_iter().rev());
}

/// The larger environment, and the entries of the smaller one.
fn ordered<T: Clone>(a: Arc<Node<T>>, b: Arc<Node<T>>) -> (Arc<Node<T>>, BTreeMap<u32, Value<T>>) {
    let len = |node: &Node<T>| if let Node::Cells(cells) = node { cells.len() } else { 0 };
    let (large, small) = if len(&a) >= len(&b) { (a, b) } else { (b, a) };
    (large, Arc::try_unwrap(small).map_or_else(|shared| shared.copy_cells(), Node::into_cells))
}

impl<T: Clone> Node<T> {
    fn copy_cells(&self) -> BTreeMap<u32, Value<T>> {
        if let Node::Cells(cells) = self { cells.clone() } else { BTreeMap::new() }
    }
}

impl<T> Node<T> {
    fn into_cells(mut self) -> BTreeMap<u32, Value<T>> {
        if let Node::Cells(cells) = &mut self { std::mem::take(cells) } else { BTreeMap::new() }
    }
}

/// The entries of a copower, in the order in which they were added.
pub(super) fn entries<T: Clone>(value: &Value<T>, steps: &mut u64) -> Result<Vec<Value<T>>> {
    let (mut todo, mut found) = (vec![value], Vec::new());
    while let Some(value) = todo.pop() {
        *steps += 1;
        match value {
            Value::Zero => {}
            Value::Node(node) => match &**node {
                Node::Entry(a, b) => found.push(Value::pair(a.clone(), b.clone())),
                Node::Plus(a, b) => todo.extend([b, a]),
                _ => return Err(Error::bug("evaluate", "a copower is needed")),
            },
            _ => return Err(Error::bug("evaluate", "a copower is needed")),
        }
    }
    Ok(found)
}

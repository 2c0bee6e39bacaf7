//! The inner product of tangents and cotangents, by which derivatives are checked.

use super::monoid::entries;
use super::value::{Node, Value};
use crate::error::{Error, Result};
use crate::reference::Numeric;

/// The inner product of a tangent, which is a value of the source language, and a cotangent, which may be a bag where the tangent is an array.
///
/// # Errors
/// [`Error::Request`] for values of different shapes.
pub fn pairing<T: Numeric>(tangent: &Value<T>, cotangent: &Value<T>) -> Result<T> {
    let different = || Error::Request("a tangent and a cotangent of different shapes".to_string());
    let mut sum = T::zero();
    let mut todo = vec![(tangent.clone(), cotangent.clone())];
    while let Some(pair) = todo.pop() {
        match &pair {
            (_, Value::Zero | Value::Unit) | (Value::Unit | Value::Int(_), _) => {}
            (Value::Real(x), Value::Real(d)) => sum = sum.add(&x.mul(d)),
            (Value::Node(x), Value::Node(d)) => match (&**x, &**d) {
                (Node::Pair(x0, x1), Node::Pair(d0, d1)) => {
                    todo.extend([(x0.clone(), d0.clone()), (x1.clone(), d1.clone())]);
                }
                (Node::Inl(x), Node::Inl(d)) | (Node::Inr(x), Node::Inr(d)) => todo.push((x.clone(), d.clone())),
                (Node::Array(xs), Node::Array(ds)) if xs.len() == ds.len() => {
                    todo.extend(xs.iter().cloned().zip(ds.iter().cloned()));
                }
                (Node::Array(xs), Node::Entry(..) | Node::Plus(..)) => {
                    for entry in entries(&pair.1, &mut 0)? {
                        let (k, d) = entry.as_pair()?;
                        let x = usize::try_from(k.as_int()?).ok().and_then(|k| xs.get(k));
                        todo.push((x.ok_or_else(different)?.clone(), d.clone()));
                    }
                }
                _ => return Err(different()),
            },
            _ => return Err(different()),
        }
    }
    Ok(sum)
}

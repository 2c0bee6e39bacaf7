//! Values of the evaluator. Parts are shared; nothing recurses on the depth of a value, not even dropping it.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::data::{TermId, TypeId};
use crate::error::{Error, Result};
use crate::reference::Numeric;

/// A value.
#[derive(Clone)]
pub enum Value<T> {
    /// A real number.
    Real(T),
    /// An integer.
    Int(i64),
    /// `()`.
    Unit,
    /// Zero of a linear type, where it is not written out.
    Zero,
    /// Everything that has parts.
    Node(Arc<Node<T>>),
}

/// A value with parts. A value of a data type is the value that it is made of.
pub enum Node<T> {
    /// `(a, b)`.
    Pair(Value<T>, Value<T>),
    /// `inl a`.
    Inl(Value<T>),
    /// `inr b`.
    Inr(Value<T>),
    /// An array.
    Array(Vec<Value<T>>),
    /// A function: its term, and the values of the variables that it captures.
    Closure(TermId, Vec<Value<T>>),
    /// A value of a linear type, with its type.
    Package(TypeId, Value<T>),
    /// `!a (x) b`.
    Entry(Value<T>, Value<T>),
    /// A sum in a copower, or of functions.
    Plus(Value<T>, Value<T>),
    /// An environment: the cells that are not zero, by number.
    Cells(BTreeMap<u32, Value<T>>),
    /// The action that gives a value.
    Return(Value<T>),
    /// An action, and the function that gives the next one.
    Bind(Value<T>, Value<T>),
    /// The action that adds to a cell.
    Add(u32, Value<T>),
    /// The action with one more cell of this start.
    Scope(Value<T>, Value<T>),
    /// All actions of an array.
    Sequence(Value<T>),
    /// What only external functions look into.
    Opaque(Arc<dyn Any + Send + Sync>),
}

impl<T> Drop for Node<T> {
    fn drop(&mut self) {
        let mut todo: Vec<Value<T>> = Vec::new();
        self.take_parts(&mut todo);
        while let Some(value) = todo.pop() {
            if let Value::Node(node) = value
                && let Some(mut node) = Arc::into_inner(node)
            {
                // It has no parts when it is dropped at the end of this block.
                node.take_parts(&mut todo);
            }
        }
    }
}

impl<T> Node<T> {
    fn take_parts(&mut self, into: &mut Vec<Value<T>>) {
        let mut take = |value: &mut Value<T>| {
            if let Value::Node(_) = value {
                into.push(std::mem::replace(value, Value::Unit));
            }
        };
        match self {
            Node::Pair(a, b) | Node::Entry(a, b) | Node::Plus(a, b) | Node::Bind(a, b) | Node::Scope(a, b) => {
                take(a);
                take(b);
            }
            Node::Inl(a)
            | Node::Inr(a)
            | Node::Package(_, a)
            | Node::Return(a)
            | Node::Add(_, a)
            | Node::Sequence(a) => take(a),
            Node::Array(items) | Node::Closure(_, items) => items.iter_mut().for_each(take),
            Node::Cells(cells) => cells.values_mut().for_each(take),
            Node::Opaque(_) => {}
        }
    }

    fn parts(&self) -> Vec<&Value<T>> {
        match self {
            Node::Pair(a, b) | Node::Entry(a, b) | Node::Plus(a, b) | Node::Bind(a, b) | Node::Scope(a, b) => {
                vec![a, b]
            }
            Node::Inl(a)
            | Node::Inr(a)
            | Node::Package(_, a)
            | Node::Return(a)
            | Node::Add(_, a)
            | Node::Sequence(a) => vec![a],
            Node::Array(items) | Node::Closure(_, items) => items.iter().collect(),
            Node::Cells(cells) => cells.values().collect(),
            Node::Opaque(_) => Vec::new(),
        }
    }
}

/// A value of another type than a term has; the verifier rules this out.
fn ill_typed<V>(wanted: &str) -> Result<V> {
    Err(Error::bug("evaluate", format!("{wanted} is needed")))
}

impl<T> Value<T> {
    pub(super) fn node(node: Node<T>) -> Self {
        Value::Node(Arc::new(node))
    }

    /// `(a, b)`.
    pub fn pair(a: Value<T>, b: Value<T>) -> Self {
        Value::node(Node::Pair(a, b))
    }

    /// `((a, b), c) ..`; `()` of nothing.
    pub fn tuple(of: impl IntoIterator<Item = Value<T>>) -> Self {
        of.into_iter().reduce(Value::pair).unwrap_or(Value::Unit)
    }

    /// `inl a`.
    pub fn inl(a: Value<T>) -> Self {
        Value::node(Node::Inl(a))
    }

    /// `inr b`.
    pub fn inr(b: Value<T>) -> Self {
        Value::node(Node::Inr(b))
    }

    /// `inl ()` for true, `inr ()` for false.
    pub fn truth(holds: bool) -> Self {
        if holds { Value::inl(Value::Unit) } else { Value::inr(Value::Unit) }
    }

    /// An array.
    pub fn array(items: Vec<Value<T>>) -> Self {
        Value::node(Node::Array(items))
    }

    /// An array of reals.
    pub fn reals(items: impl IntoIterator<Item = T>) -> Self {
        Value::array(items.into_iter().map(Value::Real).collect())
    }

    /// A closure.
    pub fn closure(code: TermId, captured: Vec<Value<T>>) -> Self {
        Value::node(Node::Closure(code, captured))
    }

    /// What only external functions look into.
    pub fn opaque(of: impl Any + Send + Sync) -> Self {
        Value::node(Node::Opaque(Arc::new(of)))
    }

    /// The parts of a pair.
    ///
    /// # Errors
    /// [`Error::Bug`] for other values, as all methods of this name.
    pub fn as_pair(&self) -> Result<(&Value<T>, &Value<T>)> {
        match self {
            Value::Node(node) => match &**node {
                Node::Pair(a, b) => Ok((a, b)),
                _ => ill_typed("a pair"),
            },
            _ => ill_typed("a pair"),
        }
    }

    /// The value under `inl` (`Ok`) or `inr` (`Err`).
    ///
    /// # Errors
    /// [`Error::Bug`] for other values.
    pub fn as_sum(&self) -> Result<std::result::Result<&Value<T>, &Value<T>>> {
        match self {
            Value::Node(node) => match &**node {
                Node::Inl(a) => Ok(Ok(a)),
                Node::Inr(b) => Ok(Err(b)),
                _ => ill_typed("a sum"),
            },
            _ => ill_typed("a sum"),
        }
    }

    /// The elements of an array.
    ///
    /// # Errors
    /// [`Error::Bug`] for other values.
    pub fn as_array(&self) -> Result<&[Value<T>]> {
        match self {
            Value::Node(node) => match &**node {
                Node::Array(items) => Ok(items),
                _ => ill_typed("an array"),
            },
            _ => ill_typed("an array"),
        }
    }

    /// A real number.
    ///
    /// # Errors
    /// [`Error::Bug`] for other values.
    pub fn as_real(&self) -> Result<&T> {
        match self {
            Value::Real(x) => Ok(x),
            _ => ill_typed("a real number"),
        }
    }

    /// An integer.
    ///
    /// # Errors
    /// [`Error::Bug`] for other values.
    pub fn as_int(&self) -> Result<i64> {
        match self {
            Value::Int(k) => Ok(*k),
            _ => ill_typed("an integer"),
        }
    }

    /// What an external function made, where it is of this type.
    ///
    /// # Errors
    /// [`Error::Bug`] for other values.
    pub fn as_opaque<V: Any>(&self) -> Result<&V> {
        match self {
            Value::Node(node) => match &**node {
                Node::Opaque(of) => of.downcast_ref().map_or_else(|| ill_typed("another opaque value"), Ok),
                _ => ill_typed("an opaque value"),
            },
            _ => ill_typed("an opaque value"),
        }
    }

    /// The real numbers of a value, from left to right; those that functions capture among them.
    pub fn numbers(&self) -> Vec<&T> {
        let mut numbers = Vec::new();
        let mut todo = vec![self];
        while let Some(value) = todo.pop() {
            match value {
                Value::Real(x) => numbers.push(x),
                Value::Int(_) | Value::Unit | Value::Zero => {}
                Value::Node(node) => todo.extend(node.parts().into_iter().rev()),
            }
        }
        numbers
    }

    /// The same value of other numbers, shared parts once for each place where they are.
    ///
    /// # Errors
    /// Of `f`; [`Error::Request`] for functions and opaque values.
    pub fn map<U>(&self, mut f: impl FnMut(&T) -> Result<U>) -> Result<Value<U>> {
        enum Step<'a, T> {
            Visit(&'a Value<T>),
            Make(&'a Node<T>),
        }
        let (mut todo, mut done) = (vec![Step::Visit(self)], Vec::new());
        while let Some(step) = todo.pop() {
            match step {
                Step::Visit(Value::Real(x)) => done.push(Value::Real(f(x)?)),
                Step::Visit(Value::Int(k)) => done.push(Value::Int(*k)),
                Step::Visit(Value::Unit) => done.push(Value::Unit),
                Step::Visit(Value::Zero) => done.push(Value::Zero),
                Step::Visit(Value::Node(node)) => {
                    todo.push(Step::Make(node));
                    todo.extend(node.parts().into_iter().rev().map(Step::Visit));
                }
                Step::Make(node) => {
                    let mut parts = done.split_off(done.len() - node.parts().len());
                    let value = match (node, parts.pop()) {
                        (Node::Pair(..), Some(b)) => parts.pop().map(|a| Value::pair(a, b)),
                        (Node::Entry(..), Some(b)) => parts.pop().map(|a| Value::node(Node::Entry(a, b))),
                        (Node::Plus(..), Some(b)) => parts.pop().map(|a| Value::node(Node::Plus(a, b))),
                        (Node::Inl(_), Some(a)) => Some(Value::inl(a)),
                        (Node::Inr(_), Some(b)) => Some(Value::inr(b)),
                        (Node::Array(_), last) => {
                            parts.extend(last);
                            Some(Value::array(parts))
                        }
                        _ => None,
                    };
                    done.push(value.ok_or_else(|| Error::Request("functions have no numbers to map".to_string()))?);
                }
            }
        }
        done.pop().map_or_else(|| ill_typed("a value"), Ok)
    }
}

impl<T: Numeric> Value<T> {
    /// A literal.
    ///
    /// # Errors
    /// [`Error::Limitation`] where these numbers do not have it.
    pub fn real(x: f64) -> Result<Self> {
        T::literal(x).map(Value::Real)
    }
}

impl<T: PartialEq> PartialEq for Value<T> {
    /// Equal structure and numbers; functions are equal where their terms and what they capture are.
    fn eq(&self, other: &Self) -> bool {
        let mut todo = vec![(self, other)];
        while let Some(pair) = todo.pop() {
            match pair {
                (Value::Real(a), Value::Real(b)) if a == b => {}
                (Value::Int(a), Value::Int(b)) if a == b => {}
                (Value::Unit, Value::Unit) | (Value::Zero, Value::Zero) => {}
                (Value::Node(a), Value::Node(b)) => {
                    let same = match (&**a, &**b) {
                        (Node::Closure(f, _), Node::Closure(g, _)) => f == g,
                        (Node::Opaque(a), Node::Opaque(b)) => Arc::ptr_eq(a, b),
                        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
                    };
                    let (a, b) = (a.parts(), b.parts());
                    if !same || a.len() != b.len() {
                        return false;
                    }
                    todo.extend(a.into_iter().zip(b));
                }
                _ => return false,
            }
        }
        true
    }
}

impl<T: fmt::Debug> fmt::Debug for Value<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        enum Step<'a, T> {
            Visit(&'a Value<T>),
            Text(&'static str),
        }
        let mut todo = vec![Step::Visit(self)];
        while let Some(step) = todo.pop() {
            let node = match step {
                Step::Text(text) => {
                    f.write_str(text)?;
                    continue;
                }
                Step::Visit(Value::Real(x)) => {
                    x.fmt(f)?;
                    continue;
                }
                Step::Visit(Value::Int(k)) => {
                    write!(f, "{k}")?;
                    continue;
                }
                Step::Visit(Value::Unit) => {
                    f.write_str("()")?;
                    continue;
                }
                Step::Visit(Value::Zero) => {
                    f.write_str("0")?;
                    continue;
                }
                Step::Visit(Value::Node(node)) => node,
            };
            let (open, close) = match &**node {
                Node::Pair(..) => ("(", ")"),
                Node::Inl(_) => ("inl ", ""),
                Node::Inr(_) => ("inr ", ""),
                Node::Array(_) => ("[", "]"),
                Node::Closure(..) => ("fn[", "]"),
                Node::Package(..) => ("pack(", ")"),
                Node::Entry(..) => ("!(", ")"),
                Node::Plus(..) => ("plus(", ")"),
                Node::Cells(_) => ("{", "}"),
                Node::Return(_) => ("return(", ")"),
                Node::Bind(..) => ("bind(", ")"),
                Node::Add(..) => ("add(", ")"),
                Node::Scope(..) => ("scope(", ")"),
                Node::Sequence(_) => ("sequence(", ")"),
                Node::Opaque(_) => ("opaque", ""),
            };
            f.write_str(open)?;
            todo.push(Step::Text(close));
            for (k, part) in node.parts().into_iter().enumerate().rev() {
                todo.push(Step::Visit(part));
                if k > 0 {
                    todo.push(Step::Text(", "));
                }
            }
        }
        Ok(())
    }
}

//! What metavariables stand for.

use std::rc::Rc;

use smallvec::SmallVec;

use super::expr::Expr;
use super::rule::{Arg, Linear, Meta};
use crate::base::IndexId;
use crate::index::{Affine, Pred, Size};
use crate::scalar::Function;

/// The indices that a metavariable is applied to.
pub(super) type Params = SmallVec<[IndexId; 4]>;

/// What a metavariable stands for. Expressions and predicates come with the indices that they are applied to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Expr(Params, Expr),
    Pred(Params, Pred),
    Literal(f64),
    Function(Function),
    Index(IndexId),
    Indices(Rc<[(IndexId, Size)]>),
    Integer(i64),
    Affine(Affine),
}

/// The values of metavariables. What was bound after a [`Mark`] can be taken back.
#[derive(Clone, Debug, Default)]
pub(super) struct Bindings {
    values: Vec<Option<Value>>,
    /// Those that have a value, in the order in which they got it.
    order: SmallVec<[Meta; 8]>,
    /// The indices that the pattern binds.
    bound: Params,
}

/// A state of bindings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    order: usize,
    bound: usize,
}

impl Bindings {
    /// The same, with room for so many metavariables.
    pub(super) fn with_room(mut self, metas: usize) -> Self {
        if self.values.len() < metas {
            self.values.resize(metas, None);
        }
        self
    }

    pub(super) fn get(&self, meta: Meta) -> Option<&Value> {
        self.values.get(meta)?.as_ref()
    }

    /// The state now.
    pub(super) fn mark(&self) -> Mark {
        Mark { order: self.order.len(), bound: self.bound.len() }
    }

    /// Takes back what was bound since.
    pub(super) fn undo(&mut self, mark: Mark) {
        for meta in self.order.drain(mark.order..) {
            if let Some(slot) = self.values.get_mut(meta) {
                *slot = None;
            }
        }
        self.bound.truncate(mark.bound);
    }

    /// Binds, or compares with what is bound.
    pub(super) fn bind(&mut self, meta: Meta, value: Value) -> bool {
        match self.values.get_mut(meta) {
            Some(slot @ None) => {
                match &value {
                    Value::Index(i) => self.bound.push(*i),
                    Value::Indices(list) => self.bound.extend(list.iter().map(|(i, _)| *i)),
                    _ => {}
                }
                *slot = Some(value);
                self.order.push(meta);
                true
            }
            Some(Some(known)) => match (known, &value) {
                (Value::Expr(_, a), Value::Expr(_, b)) => a.same(b),
                (known, value) => known == value,
            },
            None => false,
        }
    }

    /// The indices that the pattern binds.
    pub(super) fn bound(&self) -> &[IndexId] {
        &self.bound
    }

    /// The indices that a metavariable is applied to, on a left-hand side.
    pub(super) fn params(&self, args: &[Arg]) -> Option<Params> {
        let mut found = Params::new();
        for arg in args {
            match arg {
                Arg::Linear(Linear::Meta(meta)) => match self.get(*meta)? {
                    Value::Index(i) => found.push(*i),
                    _ => return None,
                },
                Arg::Linear(_) => return None,
                Arg::Indices(meta) => match self.get(*meta)? {
                    Value::Indices(list) => found.extend(list.iter().map(|(i, _)| *i)),
                    _ => return None,
                },
            }
        }
        Some(found)
    }
}

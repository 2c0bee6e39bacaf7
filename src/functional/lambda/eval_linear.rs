//! Evaluation of terms of linear types, and of actions.
//!
//! An action does nothing until it is run; then the machine keeps the cells, and steps are those of the monad of \[000\], Appendix D: one for `return`,
//! one for `bind` and `scope`, one and those of the sum for `add`, one and one for each cell for `run`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::data::{TermId, Type};
use super::eval::{Control, Machine, broken};
use super::linear::{Linear, LinearType};
use super::monoid::{Store, entries, plus, zero};
use super::value::{Node, Value};
use crate::error::{Error, Result};
use crate::reference::Numeric;

/// The cells of a run.
pub(super) enum Cells<T> {
    Array(Vec<Value<T>>),
    Map(BTreeMap<u32, Value<T>>),
}

/// The steps of finding an entry of a balanced tree.
fn depth(n: usize) -> usize {
    (usize::BITS - n.leading_zeros()) as usize
}

impl<T: Numeric> Machine<'_, T> {
    /// Runs an action on cells, the first one first; gives its result and the cells. Takes a step, one for each cell, and those of the action.
    ///
    /// # Errors
    /// As of [`Machine::evaluate`].
    pub fn run_action(&mut self, action: &Value<T>, cells: Vec<Value<T>>) -> Result<(Value<T>, Vec<Value<T>>)> {
        self.reset();
        self.push_cells(cells)?;
        self.control.push(Control::Execute(action.clone()));
        let result = self.run()?;
        Ok((result, self.pop_cells()?))
    }

    fn push_cells(&mut self, cells: Vec<Value<T>>) -> Result<()> {
        self.step(1 + cells.len())?;
        self.runs.push(match self.store {
            Store::Map => Cells::Map((0u32..).zip(cells).collect()),
            Store::Dense | Store::Array => Cells::Array(cells),
        });
        Ok(())
    }

    fn pop_cells(&mut self) -> Result<Vec<Value<T>>> {
        match self.runs.pop() {
            Some(Cells::Array(cells)) => Ok(cells),
            Some(Cells::Map(cells)) => Ok(cells.into_values().collect()),
            None => broken("no action is run"),
        }
    }

    fn zero(&mut self, ty: super::data::TypeId) -> Result<()> {
        let (value, steps) = zero(&self.program.context, self.store, ty);
        self.push(value);
        self.step(steps as usize)
    }

    /// The zero of the type of a term.
    pub(super) fn zero_of(&mut self, e: TermId) -> Result<()> {
        self.zero(self.program.ty(e))
    }

    /// A term whose operands are values.
    pub(super) fn finish_linear(&mut self, e: TermId, term: &Linear) -> Result<()> {
        match term {
            Linear::Zero(ty) => {
                // A step of the term is taken; `~real` is a primitive of `~unit`.
                let (value, steps) = zero(&self.program.context, self.store, *ty);
                self.push(value);
                let real = matches!(self.program.types[*ty], Type::Linear(LinearType::Real));
                self.step(steps as usize - 1 + usize::from(real))
            }
            Linear::Plus(..) => self.finish_plus(),
            Linear::Pair(..) => {
                let (b, a) = (self.pop()?, self.pop()?);
                self.push(Value::pair(a, b));
                Ok(())
            }
            Linear::Fst(_) | Linear::Snd(_) => {
                let value = self.pop()?;
                if let Value::Zero = value {
                    return self.zero_of(e);
                }
                let (a, b) = value.as_pair()?;
                self.push(if matches!(term, Linear::Fst(_)) { a.clone() } else { b.clone() });
                Ok(())
            }
            Linear::Inl(..) | Linear::Inr(..) => {
                let value = self.pop()?;
                self.push(if matches!(term, Linear::Inl(..)) { Value::inl(value) } else { Value::inr(value) });
                Ok(())
            }
            Linear::CastL(_) | Linear::CastR(_) => {
                let value = self.pop()?;
                if let Value::Zero = value {
                    return self.zero_of(e);
                }
                match (value.as_sum()?, term) {
                    (Ok(a), Linear::CastL(_)) => self.push(a.clone()),
                    (Err(b), Linear::CastR(_)) => self.push(b.clone()),
                    _ => return broken("a cotangent of a sum is of the other side"),
                }
                Ok(())
            }
            // A cotangent of a data type is that of its definition.
            Linear::Roll(..) => Ok(()),
            Linear::Unroll(_) => match self.pop()? {
                Value::Zero => self.zero_of(e),
                value => {
                    self.push(value);
                    Ok(())
                }
            },
            Linear::Entry(..)
            | Linear::Entries(_)
            | Linear::Fold(..)
            | Linear::Collect(_)
            | Linear::Scatter(..)
            | Linear::Total(_) => self.finish_copower(e, term),
            Linear::Extend(..) => {
                let (value, env) = (self.pop()?, self.pop()?);
                self.push(Value::pair(env, value));
                Ok(())
            }
            Linear::Cell(k, _) => {
                let mut env = self.pop()?;
                for _ in 0..*k {
                    self.step(1)?;
                    if let Value::Node(_) = &env {
                        env = env.as_pair()?.0.clone();
                    }
                }
                match env {
                    Value::Node(_) => {
                        let last = env.as_pair()?.1.clone();
                        self.push(last);
                        Ok(())
                    }
                    _ => self.zero_of(e),
                }
            }
            Linear::OneHot(..) | Linear::Split(..) => self.finish_environment(term),
            Linear::Close(..) | Linear::Open(..) | Linear::Pack(_) | Linear::Unpack(..) => self.finish_closure(e, term),
            _ => self.finish_action(term),
        }
    }

    /// The sum of the last two values.
    pub(super) fn finish_plus(&mut self) -> Result<()> {
        let (b, a) = (self.pop()?, self.pop()?);
        let value = plus(&a, &b, &mut self.counts)?;
        self.push(value);
        self.step(0)
    }

    fn finish_copower(&mut self, e: TermId, term: &Linear) -> Result<()> {
        match term {
            Linear::Entry(..) => {
                let (b, a) = (self.pop()?, self.pop()?);
                self.push(Value::node(Node::Entry(a, b)));
            }
            Linear::Entries(_) => {
                let array = self.pop()?;
                let items = if let Value::Zero = array { &[] } else { array.as_array()? };
                self.step(items.len())?;
                let entry = |(k, v): (usize, &Value<T>)| Value::node(Node::Entry(Value::Int(k as i64), v.clone()));
                let all = items.iter().enumerate().map(entry).reduce(|a, b| Value::node(Node::Plus(a, b)));
                self.push(all.unwrap_or(Value::Zero));
            }
            Linear::Collect(_) => {
                let mut steps = 0;
                let found = entries(&self.pop()?, &mut steps)?;
                self.step(steps as usize)?;
                self.push(Value::array(found));
            }
            Linear::Fold(..) => {
                let mut steps = 0;
                let found = entries(&self.pop()?, &mut steps)?;
                self.step(steps as usize)?;
                let of = found.len();
                self.push(Value::array(found));
                let Linear::Fold(_, _, body) = term else { return broken("a fold is needed") };
                self.zero_of(*body)?;
                self.control.push(Control::Round { term: e, round: 0, of, at: 0 });
            }
            Linear::Scatter(..) => {
                let (pairs, base) = (self.pop()?, self.pop()?);
                let mut items = base.as_array()?.to_vec();
                self.step(items.len())?;
                for pair in pairs.as_array()? {
                    let (k, v) = pair.as_pair()?;
                    let k = k.as_int()?;
                    let slot = usize::try_from(k).ok().and_then(|k| items.get_mut(k));
                    let slot = slot.ok_or_else(|| Error::data("scatter", format!("{k} is out of bounds")))?;
                    // The old value is not used again.
                    let old = std::mem::replace(slot, Value::Zero);
                    *slot = plus(&old, v, &mut self.counts)?;
                    self.counts.steps += 1;
                }
                self.push(Value::array(items));
            }
            _ => {
                let array = self.pop()?;
                self.zero_of(e)?;
                if let Value::Zero = array {
                    return Ok(());
                }
                let mut total = self.pop()?;
                for item in array.as_array()? {
                    total = plus(&total, item, &mut self.counts)?;
                }
                self.push(total);
            }
        }
        self.step(0)
    }

    /// A round of a fold of a copower: the sum, and the array of entries below, are on the stack.
    pub(super) fn fold_round(&mut self, term: &Linear, round: usize, of: usize, next: Control<T>) -> Result<()> {
        let Linear::Fold(_, _, body) = term else { return broken("a fold is needed") };
        if round > 0 {
            self.finish_plus()?;
        }
        if round >= of {
            let total = self.pop()?;
            self.pop()?;
            self.push(total);
            return Ok(());
        }
        self.step(1)?;
        let entry = self.element(self.values.len().wrapping_sub(2), round)?;
        let (x, v) = entry.as_pair()?;
        self.frames.extend([x.clone(), v.clone()]);
        self.control.extend([next, Control::Unbind(2), Control::Eval(*body)]);
        Ok(())
    }

    fn finish_environment(&mut self, term: &Linear) -> Result<()> {
        match term {
            Linear::OneHot(cell, ty, _) => {
                let value = self.pop()?;
                if self.store != Store::Dense {
                    self.push(Value::node(Node::Cells(BTreeMap::from([(*cell, value)]))));
                    return self.step(1);
                }
                let Type::Linear(LinearType::Environment(mut cells)) = self.program.types[*ty] else {
                    return broken("an environment is needed");
                };
                // The cells, from the last one.
                let mut types = Vec::new();
                while let Type::Cells(rest, last) = self.program.types[cells] {
                    types.push(last);
                    cells = rest;
                }
                let mut env = Value::Unit;
                for (k, ty) in types.into_iter().rev().enumerate() {
                    let cell = if k == *cell as usize {
                        value.clone()
                    } else {
                        self.zero(ty)?;
                        self.pop()?
                    };
                    env = Value::pair(env, cell);
                    self.step(1)?;
                }
                self.push(env);
                Ok(())
            }
            Linear::Split(cell, e) => {
                let env = self.pop()?;
                let (rest, last) = match env {
                    Value::Zero => (Value::Zero, None),
                    Value::Node(node) if matches!(&*node, Node::Cells(_)) => {
                        let mut node = Arc::try_unwrap(node).unwrap_or_else(|shared| match &*shared {
                            Node::Cells(cells) => Node::Cells(cells.clone()),
                            _ => Node::Cells(BTreeMap::new()),
                        });
                        let Node::Cells(cells) = &mut node else { return broken("an environment is needed") };
                        self.step(depth(cells.len()))?;
                        let last = cells.remove(cell);
                        let empty = cells.is_empty();
                        (if empty { Value::Zero } else { Value::node(node) }, last)
                    }
                    env => {
                        let (rest, last) = env.as_pair()?;
                        (rest.clone(), Some(last.clone()))
                    }
                };
                let last = match last {
                    Some(last) => last,
                    None => {
                        let Type::Linear(LinearType::Environment(cells)) = self.program.types[self.program.ty(*e)]
                        else {
                            return broken("an environment is needed");
                        };
                        let Some((_, last)) = super::linear::last_cell(&self.program.context, cells) else {
                            return broken("a cell is needed");
                        };
                        self.zero(last)?;
                        self.pop()?
                    }
                };
                self.push(Value::pair(rest, last));
                Ok(())
            }
            _ => broken("a term without a rule"),
        }
    }

    fn finish_closure(&mut self, e: TermId, term: &Linear) -> Result<()> {
        match term {
            Linear::Close(..) => {
                let (f, env) = (self.pop()?, self.pop()?);
                self.push(Value::pair(env, f));
            }
            Linear::Open(_, _, body) => {
                let closure = self.pop()?;
                self.frames.push(closure);
                self.control.extend([Control::Unbind(1), Control::Eval(*body)]);
            }
            Linear::Pack(e) => {
                let ty = self.program.ty(*e);
                let value = self.pop()?;
                self.push(Value::node(Node::Package(ty, value)));
            }
            Linear::Unpack(ty, _) => match self.pop()? {
                Value::Zero => self.zero_of(e)?,
                Value::Node(node) => match &*node {
                    Node::Package(found, value) if found == ty => self.push(value.clone()),
                    _ => return broken("a package has a value of another type"),
                },
                _ => return broken("a package is needed"),
            },
            _ => return broken("a term without a rule"),
        }
        Ok(())
    }

    fn finish_action(&mut self, term: &Linear) -> Result<()> {
        let action = match term {
            Linear::Return(..) => Node::Return(self.pop()?),
            Linear::Bind(..) => {
                let (k, m) = (self.pop()?, self.pop()?);
                Node::Bind(m, k)
            }
            Linear::Add(cell, ..) => Node::Add(*cell, self.pop()?),
            Linear::Scope(..) => {
                let (m, init) = (self.pop()?, self.pop()?);
                Node::Scope(init, m)
            }
            Linear::Sequence(_) => Node::Sequence(self.pop()?),
            Linear::Run(..) => {
                let (mut env, m) = (self.pop()?, self.pop()?);
                let mut cells = Vec::new();
                while let Value::Node(_) = &env {
                    let (last, rest) = env.as_pair()?;
                    cells.push(last.clone());
                    env = rest.clone();
                }
                cells.reverse();
                self.push_cells(cells)?;
                self.control.extend([Control::RunEnd, Control::Execute(m)]);
                return Ok(());
            }
            _ => return broken("a term without a rule"),
        };
        self.push(Value::node(action));
        Ok(())
    }

    /// An action is run, on the cells of the last run.
    pub(super) fn execute(&mut self, action: &Value<T>) -> Result<()> {
        let Value::Node(node) = action else { return broken("an action is needed") };
        match &**node {
            Node::Return(value) => {
                self.push(value.clone());
                self.step(1)
            }
            Node::Bind(m, k) => {
                self.control.extend([Control::Then(k.clone()), Control::Execute(m.clone())]);
                self.step(1)
            }
            Node::Add(cell, value) => {
                let Some(cells) = self.runs.last_mut() else { return broken("no action is run") };
                let (extra, slot) = match cells {
                    Cells::Array(cells) => (0, cells.get_mut(*cell as usize)),
                    Cells::Map(cells) => (depth(cells.len()), cells.get_mut(cell)),
                };
                let Some(slot) = slot else { return broken("a cell is missing") };
                // The old value is not used again.
                let old = std::mem::replace(slot, Value::Zero);
                *slot = plus(value, &old, &mut self.counts)?;
                self.push(Value::Unit);
                self.step(1 + extra)
            }
            Node::Scope(init, m) => {
                let Some(cells) = self.runs.last_mut() else { return broken("no action is run") };
                let extra = match cells {
                    Cells::Array(cells) => {
                        cells.push(init.clone());
                        0
                    }
                    Cells::Map(cells) => {
                        let n = cells.len();
                        cells.insert(n as u32, init.clone());
                        2 * depth(n + 1)
                    }
                };
                self.control.extend([Control::ScopeEnd, Control::Execute(m.clone())]);
                self.step(1 + extra)
            }
            Node::Sequence(array) => {
                let at = self.values.len();
                self.control.push(Control::Sequence { array: array.clone(), round: 0, at });
                self.step(1)
            }
            _ => broken("an action is needed"),
        }
    }

    /// After the action of a scope: its cell and its result.
    pub(super) fn scope_end(&mut self) -> Result<()> {
        let result = self.pop()?;
        let Some(cells) = self.runs.last_mut() else { return broken("no action is run") };
        let last = match cells {
            Cells::Array(cells) => cells.pop(),
            Cells::Map(cells) => cells.pop_last().map(|(_, last)| last),
        };
        let Some(last) = last else { return broken("a cell is missing") };
        self.push(Value::pair(last, result));
        Ok(())
    }

    /// After the action of a run: its result and the cells.
    pub(super) fn run_end(&mut self) -> Result<()> {
        let result = self.pop()?;
        let cells = self.pop_cells()?;
        let env = cells.into_iter().fold(Value::Unit, |rest, cell| Value::pair(cell, rest));
        self.push(Value::pair(result, env));
        Ok(())
    }

    /// The next of a sequence of actions; their results begin at a place on the stack.
    pub(super) fn sequence(&mut self, array: Value<T>, round: usize, at: usize) -> Result<()> {
        match array.as_array()?.get(round).cloned() {
            Some(action) => {
                self.control.extend([Control::Sequence { array, round: round + 1, at }, Control::Execute(action)]);
                self.step(1)
            }
            None => {
                let results = self.values.split_off(at);
                self.push(Value::array(results));
                Ok(())
            }
        }
    }
}

impl<T: Numeric> Machine<'_, T> {
    /// Zero of a linear type. Takes no steps.
    ///
    /// # Errors
    /// None; zeros are made as evaluation makes them.
    pub fn zero_value(&mut self, ty: super::data::TypeId) -> Result<Value<T>> {
        Ok(zero(&self.program.context, self.store, ty).0)
    }

    /// The cells of an environment, the first one first, where those that it does not have are these.
    ///
    /// # Errors
    /// [`Error::Bug`] for a value that is no environment.
    pub fn environment(&mut self, env: &Value<T>, mut zeros: Vec<Value<T>>) -> Result<Vec<Value<T>>> {
        if let Value::Node(node) = env
            && let Node::Cells(cells) = &**node
        {
            for (k, value) in cells {
                match zeros.get_mut(*k as usize) {
                    Some(slot) => *slot = value.clone(),
                    None => return broken("a cell is missing"),
                }
            }
            return Ok(zeros);
        }
        let mut rest = env.clone();
        let mut cells = Vec::new();
        while let Value::Node(_) = &rest {
            let (before, last) = rest.as_pair()?;
            cells.push(last.clone());
            rest = before.clone();
        }
        cells.reverse();
        Ok(if cells.is_empty() { zeros } else { cells })
    }
}

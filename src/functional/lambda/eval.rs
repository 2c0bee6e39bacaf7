//! The evaluator: a machine with a stack of what is left to do, a stack of values, and one of frames. Nothing recurses.
//!
//! It is generic in [`Numeric`]: the same program gives values, dual numbers, complex steps, and exact values modulo a prime. Evaluation is by value, from
//! left to right; [`Counts`] says what it took.

use std::sync::Arc;

use super::code::{Code, Place};
use super::count::Counts;
use super::data::{End, ExternalId, Program, Term, TermId};
use super::eval_linear::Cells;
use super::monoid::Store;
use super::value::{Node, Value};
use crate::base::VarId;
use crate::error::{Error, Result};
use crate::reference::Numeric;

/// What is left to do.
pub(super) enum Control<T> {
    Eval(TermId),
    /// The operands are values.
    Finish(TermId),
    /// The value gets a place in the frame.
    Bind,
    /// The last values in the frame are out of scope.
    Unbind(usize),
    Return {
        base: usize,
        closure: Option<Arc<Node<T>>>,
    },
    /// A loop, before this round of so many; the values of a map or scan begin at a place on the stack.
    Round {
        term: TermId,
        round: usize,
        of: usize,
        at: usize,
    },
    /// The condition of a loop has a value.
    Test(TermId),
    /// The last two values are added.
    Plus,
    /// A function is called.
    Enter(Value<T>, Value<T>),
    /// An action is run.
    Execute(Value<T>),
    /// The last value is an action, which is run.
    ExecuteLast,
    /// A function gives the next action, of the result of the last one.
    Then(Value<T>),
    ScopeEnd,
    RunEnd,
    Sequence {
        array: Value<T>,
        round: usize,
        at: usize,
    },
}

/// Functions from outside.
type Host<'p, T> = Box<dyn FnMut(ExternalId, Value<T>) -> Result<Value<T>> + 'p>;

/// An evaluator of a program.
pub struct Machine<'p, T> {
    pub(super) program: &'p Program,
    code: Code,
    host: Option<Host<'p, T>>,
    pub(super) control: Vec<Control<T>>,
    pub(super) values: Vec<Value<T>>,
    pub(super) frames: Vec<Value<T>>,
    base: usize,
    closure: Option<Arc<Node<T>>>,
    pub(super) runs: Vec<Cells<T>>,
    pub(super) store: Store,
    pub(super) counts: Counts,
    limit: u64,
}

/// The value of a program, and what it took.
///
/// # Errors
/// As of [`Machine::evaluate`].
pub fn evaluate<T: Numeric>(program: &Program, args: &[Value<T>]) -> Result<(Value<T>, Counts)> {
    let mut machine = Machine::new(program)?;
    let value = machine.evaluate(args)?;
    Ok((value, machine.counts()))
}

/// A promise of the verifier that does not hold.
pub(super) fn broken<V>(what: &str) -> Result<V> {
    Err(Error::bug("evaluate", what))
}

impl<'p, T: Numeric> Machine<'p, T> {
    /// A machine for a verified program.
    ///
    /// # Errors
    /// [`Error::Bug`] for a program that is not verified.
    pub fn new(program: &'p Program) -> Result<Self> {
        Ok(Machine {
            program,
            code: Code::new(program)?,
            host: None,
            control: Vec::new(),
            values: Vec::new(),
            frames: Vec::new(),
            base: 0,
            closure: None,
            runs: Vec::new(),
            store: Store::default(),
            counts: Counts::default(),
            limit: u64::MAX,
        })
    }

    /// The same machine, which calls `host` for external functions.
    #[must_use]
    pub fn with_host(mut self, host: impl FnMut(ExternalId, Value<T>) -> Result<Value<T>> + 'p) -> Self {
        self.host = Some(Box::new(host));
        self
    }

    /// The same machine, with this representation of values of linear types.
    #[must_use]
    pub fn with_store(mut self, store: Store) -> Self {
        self.store = store;
        self
    }

    /// The same machine, which gives up after so many steps.
    #[must_use]
    pub fn with_limit(mut self, steps: u64) -> Self {
        self.limit = steps;
        self
    }

    /// What all evaluations by this machine took.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The value of the program for values of its parameters.
    ///
    /// # Errors
    /// [`Error::Data`] for an index out of bounds, a reduction of nothing, arrays of different lengths; [`Error::Overflow`] of integers;
    /// [`Error::Limit`] for too many steps; [`Error::Limitation`] where the numbers do not have a function; those of external functions.
    pub fn evaluate(&mut self, args: &[Value<T>]) -> Result<Value<T>> {
        if args.len() != self.program.params.len() {
            return Err(Error::Request(format!("{} values are needed", self.program.params.len())));
        }
        self.reset();
        self.frames.extend_from_slice(args);
        self.control.push(Control::Eval(self.program.body));
        self.run()
    }

    /// The value of a function that this program gave, for an argument. What it takes is what its body takes.
    ///
    /// # Errors
    /// As of [`Machine::evaluate`].
    pub fn call(&mut self, f: &Value<T>, arg: Value<T>) -> Result<Value<T>> {
        self.reset();
        self.enter(f, arg)?;
        self.run()
    }

    /// After an error something may be left.
    pub(super) fn reset(&mut self) {
        self.control.clear();
        self.values.clear();
        self.frames.clear();
        self.runs.clear();
        self.base = 0;
        self.closure = None;
    }

    pub(super) fn run(&mut self) -> Result<Value<T>> {
        while let Some(control) = self.control.pop() {
            match control {
                Control::Eval(e) => self.eval(e)?,
                Control::Finish(e) => self.finish(e)?,
                Control::Bind => {
                    let value = self.pop()?;
                    self.frames.push(value);
                }
                Control::Unbind(n) => self.frames.truncate(self.frames.len().saturating_sub(n)),
                Control::Return { base, closure } => {
                    self.frames.truncate(self.base);
                    self.base = base;
                    self.closure = closure;
                }
                Control::Round { term, round, of, at } => self.round(term, round, of, at)?,
                Control::Test(e) => self.test(e)?,
                Control::Plus => self.finish_plus()?,
                Control::Enter(f, arg) => self.enter(&f, arg)?,
                Control::Execute(action) => self.execute(&action)?,
                Control::Then(k) => {
                    let result = self.pop()?;
                    self.control.push(Control::ExecuteLast);
                    self.enter(&k, result)?;
                }
                Control::ExecuteLast => {
                    let action = self.pop()?;
                    self.execute(&action)?;
                }
                Control::ScopeEnd => self.scope_end()?,
                Control::RunEnd => self.run_end()?,
                Control::Sequence { array, round, at } => self.sequence(array, round, at)?,
            }
        }
        self.pop()
    }

    pub(super) fn pop(&mut self) -> Result<Value<T>> {
        self.values.pop().map_or_else(|| broken("a value is missing"), Ok)
    }

    pub(super) fn push(&mut self, value: Value<T>) {
        self.values.push(value);
    }

    pub(super) fn step(&mut self, n: usize) -> Result<()> {
        self.counts.steps += n as u64;
        match self.counts.steps > self.limit {
            true => Err(Error::Limit { what: "steps", limit: self.limit, found: self.counts.steps }),
            false => Ok(()),
        }
    }

    fn get(&mut self, place: Place) -> Result<Value<T>> {
        let value = match place {
            Place::Local(k) => self.frames.get(self.base + k as usize),
            Place::Captured(k) => match self.closure.as_deref() {
                Some(Node::Closure(_, captured)) => captured.get(k as usize),
                _ => None,
            },
        };
        let value = value.cloned().map_or_else(|| broken("a variable has no value"), Ok)?;
        self.counts.moves += u64::from(matches!(value, Value::Real(_)));
        Ok(value)
    }

    /// A term: a value, or its operands are next.
    fn eval(&mut self, e: TermId) -> Result<()> {
        let term = &self.program.terms[e];
        self.step(1)?;
        match term {
            Term::Var(_) => {
                let place = self.code.place(e).map_or_else(|| broken("a variable without a place"), Ok)?;
                let value = self.get(place)?;
                self.push(value);
            }
            Term::Unit => self.push(Value::Unit),
            Term::Real(r) => {
                self.step(1)?;
                self.push(Value::Real(T::literal(*r)?));
            }
            Term::Int(k) => {
                self.step(1)?;
                self.push(Value::Int(*k));
            }
            Term::Let(_, value, body) => {
                self.control.extend([Control::Unbind(1), Control::Eval(*body), Control::Bind, Control::Eval(*value)]);
            }
            Term::Case(scrutinee, ..) => self.control.extend([Control::Finish(e), Control::Eval(*scrutinee)]),
            Term::Fn(..) | Term::Rec(..) => {
                let places = self.code.captures(e).to_vec();
                self.step(places.len())?;
                let captured = places.into_iter().map(|place| self.get(place)).collect::<Result<_>>()?;
                self.push(Value::closure(e, captured));
            }
            _ => {
                self.control.push(Control::Finish(e));
                let at = self.control.len();
                // Bodies are evaluated later, round by round.
                term.for_each_operand(|operand, binders| {
                    if binders.is_empty() {
                        self.control.push(Control::Eval(operand));
                    }
                });
                self.control[at..].reverse();
            }
        }
        Ok(())
    }

    /// A term whose operands are values.
    fn finish(&mut self, e: TermId) -> Result<()> {
        match &self.program.terms[e] {
            Term::Prim(prim, _) => {
                let arg = self.pop()?;
                let value = super::prim::apply(*prim, &arg, &self.program.users, &mut self.counts)?;
                self.push(value);
            }
            Term::Pair(..) | Term::Par(..) => {
                let (b, a) = (self.pop()?, self.pop()?);
                self.push(Value::pair(a, b));
            }
            Term::Fst(_) => {
                let value = self.pop()?.as_pair()?.0.clone();
                self.push(value);
            }
            Term::Snd(_) => {
                let value = self.pop()?.as_pair()?.1.clone();
                self.push(value);
            }
            Term::Inl(..) => {
                let value = self.pop()?;
                self.push(Value::inl(value));
            }
            Term::Inr(..) => {
                let value = self.pop()?;
                self.push(Value::inr(value));
            }
            Term::Case(_, (_, left), (_, right)) => {
                let value = self.pop()?;
                let (value, branch) = match value.as_sum()? {
                    Ok(a) => (a.clone(), *left),
                    Err(b) => (b.clone(), *right),
                };
                self.frames.push(value);
                self.control.extend([Control::Unbind(1), Control::Eval(branch)]);
            }
            Term::Apply(..) => {
                let (arg, f) = (self.pop()?, self.pop()?);
                if let Value::Zero = f {
                    return self.zero_of(e);
                }
                self.enter(&f, arg)?;
            }
            // A value of a data type is its definition.
            Term::Roll(..) | Term::Unroll(_) => {}
            Term::External(f, _) => {
                let arg = self.pop()?;
                let Some(host) = &mut self.host else {
                    return Err(Error::Request(
                        "the program calls external functions, which are not given".to_string(),
                    ));
                };
                let value = host(*f, arg)?;
                self.push(value);
            }
            Term::Linear(term) => return self.finish_linear(e, term),
            _ => return self.start(e),
        }
        Ok(())
    }

    /// The body of a function is next.
    fn enter(&mut self, f: &Value<T>, arg: Value<T>) -> Result<()> {
        let Value::Node(node) = f else { return broken("a function is needed") };
        if let Node::Plus(f, g) = &**node {
            let first = Control::Enter(f.clone(), arg.clone());
            self.control.extend([Control::Plus, Control::Enter(g.clone(), arg), first]);
            return Ok(());
        }
        let Node::Closure(e, _) = &**node else { return broken("a function is needed") };
        self.control.push(Control::Return { base: self.base, closure: self.closure.take() });
        self.counts.calls += 1;
        self.base = self.frames.len();
        self.closure = Some(node.clone());
        let body = match &self.program.terms[*e] {
            Term::Fn(_, body) => *body,
            Term::Rec(_, _, body) => {
                self.frames.push(f.clone());
                *body
            }
            _ => return broken("a function is needed"),
        };
        self.frames.push(arg);
        self.control.push(Control::Eval(body));
        Ok(())
    }

    /// An array or a loop whose operands are values: its rounds are next.
    fn start(&mut self, e: TermId) -> Result<()> {
        let (of, at) = match &self.program.terms[e] {
            Term::Index(..) => {
                let (k, a) = (self.pop()?.as_int()?, self.pop()?);
                if let Value::Zero = a {
                    return self.zero_of(e);
                }
                let items = a.as_array()?;
                let value = usize::try_from(k).ok().and_then(|k| items.get(k));
                let value = value.cloned().ok_or_else(|| out_of_bounds(k, items.len()))?;
                self.counts.moves += u64::from(matches!(value, Value::Real(_)));
                self.push(value);
                return Ok(());
            }
            Term::Length(_) => {
                let n = self.pop()?.as_array()?.len();
                self.push(Value::Int(n as i64));
                return Ok(());
            }
            Term::Build(..) => (rounds(self.pop()?.as_int()?), self.values.len()),
            Term::Map(args, _) => {
                let at = self.values.len().saturating_sub(args.len());
                // Zero is an array of zeros, of any length.
                let written = self.values[at..].iter().filter(|a| !matches!(a, Value::Zero));
                let lengths = written.map(|a| a.as_array().map(<[_]>::len)).collect::<Result<Vec<_>>>()?;
                let of = lengths.first().copied().unwrap_or(0);
                if let Some(n) = lengths.iter().find(|n| **n != of) {
                    return Err(Error::data("map", format!("arrays of {of} and of {n} elements")));
                }
                (of, at)
            }
            Term::Reduce { init, .. } => return self.start_reduce(e, init.is_some()),
            Term::Scan { .. } => {
                let array = self.pop()?;
                let of = array.as_array()?.len();
                // The states come after the array.
                let init = self.pop()?;
                let at = self.values.len();
                self.values.extend([array, init]);
                (of, at)
            }
            Term::Fold { .. } => {
                let (init, count) = (self.pop()?, self.pop()?);
                self.push(init);
                (rounds(count.as_int()?), 0)
            }
            Term::Iterate { .. } => (0, 0),
            _ => return broken("a term without a rule"),
        };
        self.control.push(Control::Round { term: e, round: 0, of, at });
        Ok(())
    }

    fn start_reduce(&mut self, e: TermId, has_init: bool) -> Result<()> {
        let array = self.pop()?;
        let of = array.as_array()?.len();
        let (init, round) = match has_init {
            true => (self.pop()?, 0),
            false => {
                let first = array.as_array()?.first().cloned();
                (first.ok_or_else(|| Error::data("reduce", "an array without elements, and no start"))?, 1)
            }
        };
        self.values.extend([array, init]);
        self.control.push(Control::Round { term: e, round, of, at: 0 });
        Ok(())
    }

    /// A round of a loop, or its end.
    fn round(&mut self, e: TermId, round: usize, of: usize, at: usize) -> Result<()> {
        let term = &self.program.terms[e];
        let next = Control::Round { term: e, round: round + 1, of, at };
        if let Term::Iterate { cond, .. } = term {
            let state = self.pop()?;
            self.frames.push(state);
            self.control.extend([Control::Test(e), Control::Eval(*cond)]);
            return self.step(1);
        }
        if let Term::Linear(term) = term {
            return self.fold_round(term, round, of, next);
        }
        if round >= of {
            return self.end(term, at);
        }
        self.step(1)?;
        let (bound, body) = match term {
            Term::Build(_, _, body) => {
                self.frames.push(Value::Int(round as i64));
                (1, *body)
            }
            Term::Map(args, body) => {
                for (k, (x, _)) in args.iter().enumerate() {
                    let element = match &self.values[at + k] {
                        Value::Zero => {
                            super::monoid::zero(&self.program.context, self.store, self.program.var_ty(*x)).0
                        }
                        array => array.as_array()?[round].clone(),
                    };
                    self.frames.push(element);
                }
                (args.len(), *body)
            }
            Term::Reduce { body, .. } => {
                let state = self.pop()?;
                let element = self.element(self.values.len().wrapping_sub(1), round)?;
                self.frames.extend([state, element]);
                (2, *body)
            }
            Term::Scan { from, body, .. } => {
                let state = self.values.last().cloned().map_or_else(|| broken("a state is missing"), Ok)?;
                match from {
                    End::First => {
                        let element = self.element(at, round)?;
                        self.frames.extend([state, element]);
                    }
                    End::Last => {
                        let element = self.element(at, of - 1 - round)?;
                        self.frames.extend([element, state]);
                    }
                }
                (2, *body)
            }
            Term::Fold { body, .. } => {
                let state = self.pop()?;
                self.frames.extend([Value::Int(round as i64), state]);
                (2, *body)
            }
            _ => return broken("a term without rounds"),
        };
        self.control.extend([next, Control::Unbind(bound), Control::Eval(body)]);
        Ok(())
    }

    /// An element of an array on the stack of values.
    pub(super) fn element(&self, at: usize, k: usize) -> Result<Value<T>> {
        match self.values.get(at) {
            Some(array) => array.as_array()?.get(k).cloned().map_or_else(|| broken("an element is missing"), Ok),
            None => broken("an array is missing"),
        }
    }

    /// The value of a loop, after its rounds.
    fn end(&mut self, term: &Term, at: usize) -> Result<()> {
        let value = match term {
            Term::Build(..) => Value::array(self.values.split_off(at)),
            Term::Map(args, _) => {
                let items = self.values.split_off(at + args.len());
                self.values.truncate(at);
                Value::array(items)
            }
            Term::Reduce { .. } => {
                let state = self.pop()?;
                self.pop()?;
                state
            }
            Term::Scan { from, .. } => {
                let mut states = self.values.split_off(at + 1);
                self.pop()?;
                if *from == End::Last {
                    states.reverse();
                }
                Value::array(states)
            }
            // The state is the last value.
            _ => return Ok(()),
        };
        self.push(value);
        Ok(())
    }

    fn test(&mut self, e: TermId) -> Result<()> {
        let Term::Iterate { body, .. } = &self.program.terms[e] else { return broken("a loop is needed") };
        match self.pop()?.as_sum()?.is_ok() {
            true => {
                let next = Control::Round { term: e, round: 0, of: 0, at: 0 };
                self.control.extend([next, Control::Unbind(1), Control::Eval(*body)]);
            }
            false => {
                let state = self.frames.pop().map_or_else(|| broken("a state is missing"), Ok)?;
                self.push(state);
            }
        }
        Ok(())
    }
}

/// The rounds of a loop that runs so often; none for a negative count.
fn rounds(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}

fn out_of_bounds(k: i64, n: usize) -> Error {
    Error::data("index", format!("{k} is out of the bounds of an array of {n} elements"))
}

/// The values of the parameters of a program, by their names.
///
/// # Errors
/// [`Error::Request`] for a name that is missing.
pub fn by_name<T: Clone>(program: &Program, values: &[(&str, Value<T>)]) -> Result<Vec<Value<T>>> {
    let find = |x: &VarId| {
        let name = &program.vars[*x].name;
        let value = values.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
        value.ok_or_else(|| Error::Request(format!("there is no value for `{name}`")))
    };
    program.params.iter().map(find).collect()
}

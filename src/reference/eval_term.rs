//! Evaluates a term as the paper's Figs 4 and 5 define it, and counts operations as its Fig. 6 does.
//!
//! A machine with two stacks, of what is left to do and of the values found, does what the recursive definition says; nothing
//! recurses, so depth costs memory only. Brackets are selects: where the guard is false the body is not looked at. Points that the
//! paper leaves open:
//!
//! - A value whose type holds no number, such as `[2^40] [0] real`, is not computed, unless numbers may be computed on the way to it.
//! - A sum begins with 0, and a bracket that fails is 0: a sum of -0 alone is 0. A nest of sums whose brackets determine all of its indices, by
//!   equations and maps, has one summand at most: it is an access, `sum k. [k = i + 1] * x[k]  ==  x[i + 1]`, also where that is -0.
//! - An access at the argmax of an empty range gives 0, as `sum k. [argmax = k] * x[k]` does.
//!
//! **Counting.** A value carries the number of its *points*: the summands of a nest of sums where the guard directly below the nest
//! holds, or 1 and 0 for a guard that holds or not. A nest that ends at another term costs one addition less than it has points
//! (4.30), an addition costs 1 where both operands have a point (4.24). A `let` between a sum or an addition and the guard is looked
//! through, as let-lifting would move it out of the way.
//!
//! | file | job |
//! |---|---|
//! | `value` | values; extents, numbers and leaves of types |
//! | `variables` | the variables in scope |
//! | `analysis` | what is known of terms before they are evaluated |

mod analysis;
#[cfg(test)]
mod tests;
mod value;
mod variables;

use std::rc::Rc;

use self::analysis::{Fold, accesses, folds, summands, working};
use self::value::{Layout, Node, Value, View, real};
use self::variables::Variables;
use super::count::Counts;
use super::environment::{Environment, Leaf, Limits};
use super::numeric::Numeric;
use super::scope::{Indices, Scope};
use crate::base::{Id, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Size};
use crate::scalar::Number;
use crate::term::{Program, Term, TermId};
use crate::ty::{Type, Types};

const PASS: &str = "evaluate";

/// The value of a program: its leaves in struct-of-arrays form, in the order of [`Types::leaves`].
///
/// # Errors
/// [`Error::Limit`], [`Error::Overflow`]; [`Error::Limitation`] where the numbers lack a function; [`Error::Bug`] where the program
/// breaks a promise of the front end, such as an access outside the bounds or outside the pattern of a sparse parameter.
pub fn evaluate<T: Numeric>(program: &Program, inputs: &Environment<T>, limits: Limits) -> Result<Vec<Leaf<T>>> {
    Ok(evaluate_and_count(program, inputs, limits)?.0)
}

/// The value, and what it cost.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_and_count<T: Numeric>(
    program: &Program,
    inputs: &Environment<T>,
    limits: Limits,
) -> Result<(Vec<Leaf<T>>, Counts)> {
    let layout = Layout::new(&program.types, inputs)?;
    layout.check_limits(program, &limits)?;
    let mut variables = Variables { layout: &layout, bindings: Vec::new() };
    for (p, param) in program.signature.params.iter() {
        let view = View { leaves: inputs.param(p)?, first: 0, level: 0, place: 0 };
        variables.bind(program.param(p), Value::View(view), param.ty);
    }
    let mut machine = Machine {
        program,
        inputs,
        limits,
        layout: &layout,
        summands: summands(program),
        accesses: accesses(program),
        folds: folds(program),
        working: working(program),
        variables,
        indices: Indices::default(),
        todo: vec![Step::Eval(program.root)],
        values: Vec::new(),
        counts: Counts::default(),
    };
    machine.run()?;
    let result = machine.pop()?.value;
    let leaves = layout.leaves(&result, program.ty(program.root), inputs, &limits)?;
    Ok((leaves, machine.counts))
}

/// What is left to do. Each step but `Eval` finds the values of its operands on the stack of values.
enum Step<'a, T> {
    Eval(TermId),
    Add,
    Mul,
    Apply(TermId),
    Pair,
    Project(TermId),
    Access(TermId),
    /// The body has been evaluated at `at`; goes on with `at + 1`.
    Gen {
        term: TermId,
        at: i64,
        count: i64,
        elements: Collected<'a, T>,
    },
    /// As `Gen`, with the number of points so far.
    Sum {
        term: TermId,
        at: i64,
        count: i64,
        total: Option<T>,
        points: u128,
    },
    Bind(TermId),
    Unbind(VarId),
    /// The state of a scan after so many of its steps is the last value; `elements` are those before, or the last of them where the scan is a fold.
    Scan {
        term: TermId,
        steps: i64,
        count: i64,
        elements: Collected<'a, T>,
        /// What was counted before the step.
        counts: Counts,
    },
}

/// The elements of an array under construction.
enum Collected<'a, T> {
    Reals(Vec<T>),
    Others(Vec<Value<'a, T>>),
}

impl<'a, T: Numeric> Collected<'a, T> {
    /// Adds an element, or puts it in the place of those before; gives whether it is the one before to the last bit.
    fn add(&mut self, value: Value<'a, T>, alone: bool) -> Result<bool> {
        match self {
            Collected::Reals(xs) => {
                let x = real(&value)?;
                let same = xs.last().is_some_and(|last| last.is_same(&x));
                xs.truncate(if alone { 0 } else { xs.len() });
                xs.push(x);
                Ok(same)
            }
            Collected::Others(xs) => {
                let same = xs.last().is_some_and(|last| last.is_same(&value));
                xs.truncate(if alone { 0 } else { xs.len() });
                xs.push(value);
                Ok(same)
            }
        }
    }
}

/// A value with the number of its points, see the module header.
struct Found<'a, T> {
    value: Value<'a, T>,
    points: u128,
    /// Whether the brackets around its factors hold.
    present: bool,
}

struct Machine<'a, 'l, T> {
    program: &'a Program,
    inputs: &'a Environment<T>,
    limits: Limits,
    layout: &'l Layout<'l>,
    /// Which terms are summands of a sum, seen through `let`s.
    summands: Vec<bool>,
    /// Which sums belong to a nest that has at most one summand.
    accesses: Vec<bool>,
    /// Which scans are folds.
    folds: Vec<Option<Fold>>,
    /// Which terms may compute numbers that their value does not hold.
    working: Vec<bool>,
    variables: Variables<'a, 'l, T>,
    indices: Indices,
    todo: Vec<Step<'a, T>>,
    values: Vec<Found<'a, T>>,
    counts: Counts,
}

impl<'a, T: Numeric> Machine<'a, '_, T> {
    fn pop(&mut self) -> Result<Found<'a, T>> {
        self.values.pop().ok_or_else(|| Error::bug(PASS, "a value is missing"))
    }

    fn pop_real(&mut self) -> Result<T> {
        real(&self.pop()?.value)
    }

    fn push(&mut self, value: Value<'a, T>) {
        self.values.push(Found { value, points: 1, present: true });
    }

    fn term(&self, e: TermId) -> Result<&'a Term> {
        self.program.terms.get(e).ok_or_else(|| Error::bug(PASS, "an unknown term"))
    }

    fn affine(&self, a: &Affine) -> Result<Option<i64>> {
        let scope = Scope { inputs: self.inputs, tensors: &self.variables, limits: self.limits };
        scope.affine(a, &self.indices)
    }

    fn run(&mut self) -> Result<()> {
        while let Some(step) = self.todo.pop() {
            match step {
                Step::Eval(e) => self.eval(e)?,
                Step::Add => {
                    let (b, a) = (self.pop()?, self.pop()?);
                    // 4.24: only where both guards hold.
                    self.counts.add(u128::from(a.points > 0 && b.points > 0))?;
                    self.push(Value::Real(real(&a.value)?.add(&real(&b.value)?)));
                }
                Step::Mul => {
                    let (b, a) = (self.pop()?, self.pop()?);
                    self.counts.mul(1)?;
                    let value = Value::Real(real(&a.value)?.mul(&real(&b.value)?));
                    self.values.push(Found { value, points: 1, present: a.present && b.present });
                }
                Step::Apply(e) => self.apply(e)?,
                Step::Pair => {
                    let (b, a) = (self.pop()?.value, self.pop()?.value);
                    self.push(Value::Node(Rc::new(Node { children: vec![a, b] })));
                }
                Step::Project(e) => self.project(e)?,
                Step::Access(e) => self.access(e)?,
                Step::Gen { term, at, count, elements } => self.next_element(term, at, count, elements)?,
                Step::Sum { term, at, count, total, points } => self.next_summand(term, at, count, total, points)?,
                Step::Bind(e) => {
                    let value = self.pop()?.value;
                    let Term::Let { var, body, .. } = self.term(e)? else { return Err(Error::bug(PASS, "no let")) };
                    let bound = self.program.variables.get(*var);
                    let bound = bound.ok_or_else(|| Error::bug(PASS, format!("an unknown variable {var}")))?;
                    self.variables.bind(*var, value, bound.ty);
                    self.todo.push(Step::Unbind(*var));
                    self.todo.push(Step::Eval(*body));
                }
                Step::Unbind(x) => self.variables.unbind(x),
                Step::Scan { term, steps, count, elements, counts } => {
                    self.next_state(term, (steps, count), elements, counts)?;
                }
            }
        }
        Ok(())
    }

    /// `[[e | environment]]`: either the value at once, or the steps that lead to it. The first operand is evaluated first.
    fn eval(&mut self, e: TermId) -> Result<()> {
        self.limits.step(&mut self.indices.steps)?;
        // A value without numbers needs no computing.
        if self.layout.numbers(self.program.ty(e)) == 0 && !self.working.get(e.index()).copied().unwrap_or(true) {
            self.push(Value::Zero);
            return Ok(());
        }
        match self.term(e)? {
            Term::Number(Number::Literal(x)) => self.push(Value::Real(T::literal(*x)?)),
            Term::Number(Number::Index(a)) => {
                let value = match self.affine(a)? {
                    // What is 0 for the sizes alone is nothing.
                    Some(0) if a.is_size() => T::zero(),
                    value => value.map_or_else(T::zero, T::integer),
                };
                self.push(Value::Real(value));
            }
            Term::Var(x) => {
                let value = self.variables.get(*x)?.value.clone();
                self.push(value);
            }
            Term::Add(a, b) => self.todo.extend([Step::Add, Step::Eval(*b), Step::Eval(*a)]),
            Term::Mul(a, b) => self.todo.extend([Step::Mul, Step::Eval(*b), Step::Eval(*a)]),
            Term::Pair(a, b) => self.todo.extend([Step::Pair, Step::Eval(*b), Step::Eval(*a)]),
            Term::Apply(_, args) => {
                self.todo.push(Step::Apply(e));
                self.todo.extend(args.iter().rev().map(|a| Step::Eval(*a)));
            }
            Term::Call { .. } => {
                let feature = "a function of tensors from outside in the evaluation of terms".to_owned();
                return Err(Error::Limitation { feature, span: None });
            }
            Term::Fst(a) | Term::Snd(a) => self.todo.extend([Step::Project(e), Step::Eval(*a)]),
            Term::Access { array, .. } => self.todo.extend([Step::Access(e), Step::Eval(*array)]),
            Term::Gen { extent, body, .. } => {
                let count = self.count(extent)?;
                let elements = self.elements_like(*body);
                self.next_element(e, -1, count, elements)?;
            }
            Term::Scan { steps, init, .. } => {
                let count = self.count(steps)?;
                let elements = self.elements_like(*init);
                let counts = self.counts;
                self.todo.extend([Step::Scan { term: e, steps: 0, count, elements, counts }, Step::Eval(*init)]);
            }
            Term::Sum { extent, .. } => {
                let count = self.count(extent)?;
                self.next_summand(e, -1, count, None, 0)?;
            }
            Term::Iverson { guard, body } => {
                let scope = Scope { inputs: self.inputs, tensors: &self.variables, limits: self.limits };
                if scope.holds(guard, &mut self.indices)? {
                    self.todo.push(Step::Eval(*body));
                } else {
                    self.values.push(Found { value: Value::Zero, points: 0, present: false });
                }
            }
            Term::Let { value, .. } => self.todo.extend([Step::Bind(e), Step::Eval(*value)]),
        }
        Ok(())
    }

    /// No elements yet, of the type of a term.
    fn elements_like(&self, e: TermId) -> Collected<'a, T> {
        match self.program.ty(e) {
            Types::REAL => Collected::Reals(Vec::new()),
            _ => Collected::Others(Vec::new()),
        }
    }

    fn count(&self, extent: &Size) -> Result<i64> {
        Ok(i64::try_from(self.inputs.extent(extent)?).unwrap_or(i64::MAX))
    }

    fn apply(&mut self, e: TermId) -> Result<()> {
        let Term::Apply(function, args) = self.term(e)? else { return Err(Error::bug(PASS, "no application")) };
        let mut values = Vec::with_capacity(args.len());
        for _ in args {
            values.push(self.pop_real()?);
        }
        values.reverse();
        self.counts.apply(*function, 1)?;
        self.push(Value::Real(T::apply(*function, &self.program.signature.functions, &values)?));
        Ok(())
    }

    fn project(&mut self, e: TermId) -> Result<()> {
        let pair = self.pop()?.value;
        let (operand, side) = match self.term(e)? {
            Term::Fst(operand) => (operand, 0),
            Term::Snd(operand) => (operand, 1),
            _ => return Err(Error::bug(PASS, "no projection")),
        };
        let (dims, element) = self.program.types.peel(self.program.ty(*operand));
        let Type::Pair(a, _) = *self.program.types.get(element) else { return Err(Error::bug(PASS, "no pair")) };
        if !dims.is_empty() && !matches!(pair, Value::View(_) | Value::Zero) {
            return Err(Error::bug(PASS, "a projection of an array of pairs that is no parameter"));
        }
        let [fst, snd] = self.layout.parts(&pair, a)?;
        self.push(if side == 0 { fst } else { snd });
        Ok(())
    }

    fn access(&mut self, e: TermId) -> Result<()> {
        let value = self.pop()?.value;
        let Term::Access { array, index } = self.term(e)? else { return Err(Error::bug(PASS, "no access")) };
        let element = match self.affine(index)? {
            // The last state is all that was kept.
            Some(_) if self.fold(*array).is_some() => self.layout.element(&value, self.program.ty(*array), 0)?,
            Some(k) => self.layout.element(&value, self.program.ty(*array), k)?,
            None => Value::Zero,
        };
        self.push(element);
        Ok(())
    }

    /// `[[gen i < n. e]] = [ [[e | i = 0]], .., [[e | i = n - 1]] ]` (4.7)
    fn next_element(&mut self, e: TermId, at: i64, count: i64, mut elements: Collected<'a, T>) -> Result<()> {
        let Term::Gen { index, body, .. } = self.term(e)? else { return Err(Error::bug(PASS, "no gen")) };
        if at >= 0 {
            let value = self.pop()?.value;
            match &mut elements {
                Collected::Reals(xs) => xs.push(real(&value)?),
                Collected::Others(xs) => xs.push(value),
            }
        }
        let at = at + 1;
        if at < count {
            self.indices.set(*index, at);
            self.todo.extend([Step::Gen { term: e, at, count, elements }, Step::Eval(*body)]);
        } else {
            self.push(match elements {
                Collected::Reals(xs) => Value::Reals(Rc::new(xs)),
                Collected::Others(children) => Value::Node(Rc::new(Node { children })),
            });
        }
        Ok(())
    }

    /// What a scan is of which the last state is all that is read.
    fn fold(&self, e: TermId) -> Option<Fold> {
        self.folds.get(e.index()).copied().flatten()
    }

    /// `[[scan t < n, s = e0. e]] = [s0, .., sn]` with `s0 = [[e0]]` and `s(t + 1) = [[e | t, s = s(t)]]`. A fold ends where `s(t + 1)` is `s(t)` and
    /// `e` does not mention `t`: so are all others, for the same operations.
    fn next_state(
        &mut self,
        e: TermId,
        (mut steps, count): (i64, i64),
        mut elements: Collected<'a, T>,
        counts: Counts,
    ) -> Result<()> {
        let Term::Scan { index, down, state, body, .. } = self.term(e)? else {
            return Err(Error::bug(PASS, "no scan"));
        };
        let value = self.pop()?.value;
        self.variables.unbind(*state);
        let fold = self.fold(e);
        let same = elements.add(value.clone(), fold.is_some())?;
        if same && fold.is_some_and(|fold| fold.steady) && steps > 0 {
            let rest = u128::try_from(count.saturating_sub(steps)).unwrap_or(0);
            let more = self.counts.since(&counts, rest)?;
            self.counts.join(&more)?;
            steps = count;
        }
        if steps < count {
            let ty = self.program.variables.get(*state).map(|state| state.ty);
            self.variables.bind(*state, value, ty.ok_or_else(|| Error::bug(PASS, "an unknown state"))?);
            self.indices.set(*index, if *down { count - 1 - steps } else { steps });
            let counts = self.counts;
            self.todo.extend([Step::Scan { term: e, steps: steps + 1, count, elements, counts }, Step::Eval(*body)]);
            return Ok(());
        }
        self.push(match elements {
            Collected::Reals(mut xs) => {
                if *down {
                    xs.reverse();
                }
                Value::Reals(Rc::new(xs))
            }
            Collected::Others(mut children) => {
                if *down {
                    children.reverse();
                }
                Value::Node(Rc::new(Node { children }))
            }
        });
        Ok(())
    }

    /// `[[sum i < n. e]] = [[e | i = 0]] + .. + [[e | i = n - 1]]` (4.8)
    fn next_summand(&mut self, e: TermId, at: i64, count: i64, mut total: Option<T>, mut points: u128) -> Result<()> {
        let Term::Sum { index, body, .. } = self.term(e)? else { return Err(Error::bug(PASS, "no sum")) };
        if at >= 0 {
            let found = self.pop()?;
            let x = real(&found.value)?;
            let access = self.accesses.get(e.index()).copied().unwrap_or(false);
            total = match total {
                total if access && !found.present => total,
                None if access => Some(x),
                total => Some(total.unwrap_or_else(T::zero).add(&x)),
            };
            points = Counts::plus(points, found.points)?;
        }
        let at = at + 1;
        if at < count {
            self.indices.set(*index, at);
            self.todo.extend([Step::Sum { term: e, at, count, total, points }, Step::Eval(*body)]);
            return Ok(());
        }
        let present = total.is_some();
        let value = Value::Real(total.unwrap_or_else(T::zero));
        if self.summands.get(e.index()).copied().unwrap_or(false) {
            // 4.30: the sum around it goes on counting.
            self.values.push(Found { value, points, present });
        } else {
            self.counts.add(points.saturating_sub(1))?;
            self.push(value);
        }
        Ok(())
    }
}

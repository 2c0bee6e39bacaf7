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

use std::cell::RefCell;
use std::cmp::Ordering;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::count::Counts;
use super::environment::{Elements, Environment, Leaf, Limits, box_volume};
use super::numeric::Numeric;
use super::scope::{Indices, Scope, Tensors};
use crate::base::{Id, VarId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, Size, View as RelationView, are_determined};
use crate::scalar::Number;
use crate::term::{Program, Term, TermId};
use crate::ty::{Type, TypeId, Types};

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

/// A value. Clones are cheap: what is large is shared.
#[derive(Clone, Debug)]
enum Value<'a, T> {
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

/// A part of a parameter in struct-of-arrays form: all leaves below it begin at one place of their common outer axes.
#[derive(Debug)]
struct View<'a, T> {
    leaves: &'a [Leaf<T>],
    first: usize,
    level: usize,
    place: u128,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

/// Children that are dropped without recursion, however deep they are.
#[derive(Debug)]
struct Node<'a, T> {
    children: Vec<Value<'a, T>>,
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
struct Layout<'t> {
    types: &'t Types,
    /// The extent of a tensor type, 0 for others.
    extents: Vec<u64>,
    /// How many numbers a value holds, saturated.
    numbers: Vec<u128>,
    /// How many leaves a type has, saturated.
    leaf_counts: Vec<usize>,
}

impl<'t> Layout<'t> {
    fn new<T>(types: &'t Types, inputs: &Environment<T>) -> Result<Self> {
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

    fn numbers(&self, ty: TypeId) -> u128 {
        self.numbers.get(ty.index()).copied().unwrap_or(0)
    }

    fn leaf_count(&self, ty: TypeId) -> usize {
        self.leaf_counts.get(ty.index()).copied().unwrap_or(0)
    }

    /// The extent and the element type of a tensor type.
    fn tensor(&self, ty: TypeId) -> Result<(u64, TypeId)> {
        match self.types.get(ty) {
            Type::Tensor(_, element) => Ok((self.extents.get(ty.index()).copied().unwrap_or(0), *element)),
            _ => Err(Error::bug(PASS, "a tensor is expected")),
        }
    }

    /// Refuses programs whose arrays do not fit together. At any time a `gen` has at most one value under construction or bound.
    fn check_limits(&self, program: &Program, limits: &Limits) -> Result<()> {
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
    fn element<'a, T: Numeric>(&self, array: &Value<'a, T>, ty: TypeId, k: i64) -> Result<Value<'a, T>> {
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
    fn leaves<T: Numeric>(
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
    fn parts<'a, T: Numeric>(&self, pair: &Value<'a, T>, a: TypeId) -> Result<[Value<'a, T>; 2]> {
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
fn real<T: Numeric>(value: &Value<'_, T>) -> Result<T> {
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

/// The places of extrema along the last axis, for given other places; nothing along an empty axis.
pub(super) type Extrema = FxHashMap<(RelationView, Vec<i64>), Option<i64>>;

/// The variables in scope.
struct Variables<'a, 'l, T> {
    layout: &'l Layout<'l>,
    bindings: Vec<Option<Binding<'a, T>>>,
}

struct Binding<'a, T> {
    value: Value<'a, T>,
    ty: TypeId,
    /// The extrema that were asked for.
    extrema: RefCell<Extrema>,
}

impl<'a, T: Numeric> Variables<'a, '_, T> {
    fn bind(&mut self, x: VarId, value: Value<'a, T>, ty: TypeId) {
        if x.index() >= self.bindings.len() {
            self.bindings.resize_with(x.index() + 1, || None);
        }
        self.bindings[x.index()] = Some(Binding { value, ty, extrema: RefCell::default() });
    }

    fn unbind(&mut self, x: VarId) {
        if let Some(binding) = self.bindings.get_mut(x.index()) {
            *binding = None;
        }
    }

    fn get(&self, x: VarId) -> Result<&Binding<'a, T>> {
        let binding = self.bindings.get(x.index()).and_then(Option::as_ref);
        binding.ok_or_else(|| Error::bug(PASS, format!("the variable {x} is not in scope")))
    }

    /// The part of a tensor at given outer places, with its type; nothing outside.
    fn part(&self, x: VarId, outer: &[i64]) -> Result<Option<(Value<'a, T>, TypeId)>> {
        let binding = self.get(x)?;
        let (mut value, mut ty) = (binding.value.clone(), binding.ty);
        for k in outer {
            let (extent, element) = self.layout.tensor(ty)?;
            if !(0..i128::from(extent)).contains(&i128::from(*k)) {
                return Ok(None);
            }
            (value, ty) = (self.layout.element(&value, ty, *k)?, element);
        }
        Ok(Some((value, ty)))
    }
}

impl<T: Numeric> Tensors for Variables<'_, '_, T> {
    fn supports(&self, var: VarId, place: &[i64]) -> Result<bool> {
        match self.part(var, place)? {
            Some((value, Types::REAL)) => Ok(!real(&value)?.is_zero()?),
            Some(_) => Err(Error::bug(PASS, "a relation with too few arguments")),
            None => Ok(false),
        }
    }

    fn extremum(&self, var: VarId, view: RelationView, source: &[i64]) -> Result<Option<i64>> {
        let key = (view, source.to_vec());
        if let Some(known) = self.get(var)?.extrema.borrow().get(&key) {
            return Ok(*known);
        }
        let mut best: Option<(i64, T)> = None;
        if let Some((row, ty)) = self.part(var, source)? {
            for k in 0..i64::try_from(self.layout.tensor(ty)?.0).unwrap_or(i64::MAX) {
                let x = real(&self.layout.element(&row, ty, k)?)?;
                if better(view, &x, best.as_ref().map(|(_, x)| x))? {
                    best = Some((k, x));
                }
            }
        }
        let found = best.map(|(k, _)| k);
        self.get(var)?.extrema.borrow_mut().insert(key, found);
        Ok(found)
    }
}

/// Whether an element takes the place of the best one before it: if strictly beyond, where a NaN is beyond everything.
pub(super) fn better<T: Numeric>(view: RelationView, x: &T, best: Option<&T>) -> Result<bool> {
    let Some(best) = best else { return Ok(true) };
    if best.is_nan()? || x.is_nan()? {
        return Ok(!best.is_nan()?);
    }
    Ok(match view {
        RelationView::ArgMax => x.compare(best)? == Some(Ordering::Greater),
        RelationView::ArgMin => x.compare(best)? == Some(Ordering::Less),
        RelationView::Support => return Err(Error::bug(PASS, "an extremum of a support")),
    })
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
}

/// The elements of an array under construction.
enum Collected<'a, T> {
    Reals(Vec<T>),
    Others(Vec<Value<'a, T>>),
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
    /// Which terms may compute numbers that their value does not hold.
    working: Vec<bool>,
    variables: Variables<'a, 'l, T>,
    indices: Indices,
    todo: Vec<Step<'a, T>>,
    values: Vec<Found<'a, T>>,
    counts: Counts,
}

/// Which terms are summands of a sum, seen through `let`s: users hand it to their operands.
fn summands(program: &Program) -> Vec<bool> {
    let mut summands = vec![false; program.terms.len()];
    for (id, term) in program.terms.iter().rev() {
        let (body, inherited) = match term {
            Term::Sum { body, .. } => (body, true),
            Term::Let { body, .. } => (body, summands.get(id.index()).copied().unwrap_or(false)),
            _ => continue,
        };
        if let Some(flag) = summands.get_mut(body.index()) {
            *flag = inherited;
        }
    }
    summands
}

/// Which sums belong to a nest that has at most one summand: the brackets below it, those around factors of a product too, determine all of its
/// indices.
fn accesses(program: &Program) -> Vec<bool> {
    let mut accesses = vec![false; program.terms.len()];
    let mut seen = vec![false; program.terms.len()];
    for (id, _) in program.terms.iter().rev().filter(|(_, term)| matches!(term, Term::Sum { .. })) {
        if seen.get(id.index()).copied().unwrap_or(true) {
            continue;
        }
        let (mut nest, mut indices, mut guard) = (Vec::new(), Vec::new(), Pred::True);
        let mut stack = vec![(id, true)];
        while let Some((e, below_sums)) = stack.pop() {
            match program.terms.get(e) {
                Some(Term::Sum { index, body, .. }) if below_sums => {
                    nest.push(e);
                    indices.push(*index);
                    stack.push((*body, true));
                }
                Some(Term::Let { body, .. }) => stack.push((*body, below_sums)),
                Some(Term::Iverson { guard: p, body }) => {
                    guard = guard.and(p.clone());
                    stack.push((*body, below_sums));
                }
                Some(Term::Mul(a, b)) => stack.extend([(*b, false), (*a, false)]),
                _ => {}
            }
        }
        let access = are_determined(&indices, &guard, &|relation| program.signature.gives_targets(relation));
        for e in nest {
            if let (Some(access_at), Some(seen)) = (accesses.get_mut(e.index()), seen.get_mut(e.index())) {
                (*access_at, *seen) = (access, true);
            }
        }
    }
    accesses
}

/// Which terms may compute numbers that their value does not hold: in the value of a `let`, or in a component projected away.
fn working(program: &Program) -> Vec<bool> {
    let mut working: Vec<bool> = Vec::with_capacity(program.terms.len());
    for term in program.terms.values() {
        let mut found = matches!(term, Term::Let { .. } | Term::Fst(_) | Term::Snd(_));
        term.for_each_operand(|e| found |= working.get(e.index()).copied().unwrap_or(true));
        working.push(found);
    }
    working
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
            Term::Fst(a) | Term::Snd(a) => self.todo.extend([Step::Project(e), Step::Eval(*a)]),
            Term::Access { array, .. } => self.todo.extend([Step::Access(e), Step::Eval(*array)]),
            Term::Gen { extent, body, .. } => {
                let count = self.count(extent)?;
                let elements = match self.program.ty(*body) {
                    Types::REAL => Collected::Reals(Vec::new()),
                    _ => Collected::Others(Vec::new()),
                };
                self.next_element(e, -1, count, elements)?;
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

#[cfg(test)]
mod tests {
    use super::super::numeric::{Dual, Field};
    use super::super::testing::*;
    use super::*;
    use crate::scalar::Op;

    /// Name, program, the values of all leaves, and `[additions, multiplications, functions]`, worked out by hand.
    type Case = (&'static str, fn(&mut Terms) -> TermId, &'static [f64], [u128; 3]);

    const CASES: &[Case] = &[
        (
            "sum of squares",
            |b| {
                b.sum(n(), |b, i| {
                    let (p, q) = (b.x(i), b.x(i));
                    b.mul(p, q)
                })
            },
            &[14.],
            [2, 3, 0],
        ),
        // 4.30: three of the nine points hold.
        (
            "diagonal",
            |b| {
                b.sum(n(), |b, i| {
                    b.sum(n(), |b, j| {
                        let (p, q) = (b.x(i), b.x(j));
                        let product = b.mul(p, q);
                        b.guard(eq(i, j), product)
                    })
                })
            },
            &[14.],
            [2, 3, 0],
        ),
        ("a nest is one sum", |b| b.sum(n(), |b, i| b.sum(m(), |b, j| b.a(i, j))), &[21.], [5, 0, 0]),
        (
            "triangle",
            |b| {
                b.sum(n(), |b, i| {
                    b.sum(m(), |b, j| {
                        let e = b.a(i, j);
                        b.guard(lt(j, i), e)
                    })
                })
            },
            &[14.],
            [2, 0, 0],
        ),
        (
            "a nest none of whose points hold",
            |b| {
                b.sum(n(), |b, i| {
                    b.sum(n(), |b, j| {
                        let e = b.x(j);
                        b.guard(lt(i, j).and(lt(j, i)), e)
                    })
                })
            },
            &[0.],
            [0, 0, 0],
        ),
        // Rows 1 and 2: one addition in each, one between them.
        (
            "a guard splits a nest",
            |b| {
                b.sum(n(), |b, i| {
                    let row = b.sum(m(), |b, j| b.a(i, j));
                    b.guard(lt(0, i), row)
                })
            },
            &[18.],
            [3, 0, 0],
        ),
        (
            "a product splits a nest",
            |b| {
                b.sum(n(), |b, i| {
                    let (x, row) = (b.x(i), b.sum(m(), |b, j| b.a(i, j)));
                    b.mul(x, row)
                })
            },
            &[50.],
            [5, 3, 0],
        ),
        (
            "guards directly below each other are one",
            |b| {
                b.sum(n(), |b, i| {
                    let x = b.x(i);
                    let inner = b.guard(lt(i, 2), x);
                    b.guard(lt(0, i), inner)
                })
            },
            &[2.],
            [0, 0, 0],
        ),
        // 4.24: both guards hold at 1 only.
        (
            "guarded addition",
            |b| {
                b.gen_(n(), |b, i| {
                    let (p, q) = (b.x(i), b.x(i));
                    let (p, q) = (b.guard(lt(i, 2), p), b.guard(lt(0, i), q));
                    b.add(p, q)
                })
            },
            &[1., 4., 3.],
            [1, 0, 0],
        ),
        (
            "addition of a guarded and a plain term",
            |b| {
                b.gen_(n(), |b, i| {
                    let (p, q) = (b.x(i), b.x(i));
                    let p = b.guard(lt(i, 2), p);
                    b.add(p, q)
                })
            },
            &[2., 4., 3.],
            [2, 0, 0],
        ),
        // x[i] / (x[i] - 2) is infinite at 1, outside the guard.
        (
            "a bracket is a select",
            |b| {
                b.gen_(n(), |b, i| {
                    let (p, q, two) = (b.x(i), b.x(i), b.lit(-2.));
                    let q = b.add(q, two);
                    let e = b.op(Op::Div, &[p, q]);
                    b.guard(lt(i, 1), e)
                })
            },
            &[-1., 0., 0.],
            [1, 0, 1],
        ),
        (
            "a product with a false bracket still multiplies",
            |b| {
                let (p, q) = (b.lit(2.), b.lit(3.));
                let q = b.guard(crate::index::Pred::False, q);
                b.mul(p, q)
            },
            &[0.],
            [0, 1, 0],
        ),
        ("sum over nothing", |b| b.sum(n_less(3), |b, i| b.x(i)), &[0.], [0, 0, 0]),
        ("sum over a negative size", |b| b.sum(n_less(7), |b, i| b.x(i)), &[0.], [0, 0, 0]),
        ("gen over a negative size", |b| b.gen_(n_less(7), |b, i| b.x(i)), &[], [0, 0, 0]),
        (
            "2^40 empty rows",
            |b| b.gen_(Affine::constant(1 << 40), |b, _| b.gen_(n_less(3), |b, j| b.x(j))),
            &[],
            [0; 3],
        ),
        // v is computed once: 3 products; then 3 inner and 2 outer additions.
        (
            "a let is counted once",
            |b| {
                let v = b.gen_(n(), |b, i| {
                    let (p, q) = (b.x(i), b.x(i));
                    b.mul(p, q)
                });
                b.let_(v, |b, v| {
                    b.sum(n(), |b, i| {
                        let v = b.var(v);
                        let p = b.push(Term::Access { array: v, index: i.into() });
                        let q = b.x(i);
                        b.add(p, q)
                    })
                })
            },
            &[20.],
            [5, 3, 0],
        ),
        (
            "sparse parameter",
            |b| {
                b.sum(n(), |b, i| {
                    b.sum(m(), |b, j| {
                        let (s, y) = (b.read(S, &[i.into(), j.into()]), b.read(Y, &[j.into()]));
                        let e = b.mul(s, y);
                        b.guard(rel(S_PATTERN, &[i, j]), e)
                    })
                })
            },
            &[220.],
            [1, 2, 0],
        ),
        ("gather by a map", |b| b.sum(n(), |b, i| b.read(Y, &[apply_map(CAM, &[i])])), &[50.], [2, 0, 0]),
        (
            "array of pairs",
            |b| {
                b.sum(n(), |b, i| {
                    let (p, q) = (b.read(AB, &[i.into()]), b.read(AB, &[i.into()]));
                    let p = b.push(Term::Fst(p));
                    let row = b.sum(m(), |b, j| {
                        let row = b.push(Term::Snd(q));
                        b.push(Term::Access { array: row, index: j.into() })
                    });
                    b.mul(p, row)
                })
            },
            &[50.],
            [5, 3, 0],
        ),
        (
            "maximum by a one-hot relation",
            |b| {
                b.sum(n(), |b, i| {
                    let x = b.x(i);
                    b.guard(rel(computed(VarId(X.0), RelationView::ArgMax), &[i]), x)
                })
            },
            &[3.],
            [0, 0, 0],
        ),
        (
            "argmin as an index",
            |b| {
                let at = apply_map(computed(VarId(X.0), RelationView::ArgMin), &[]);
                b.read(A, &[at, 1.into()])
            },
            &[2.],
            [0, 0, 0],
        ),
        (
            "argmax of nothing",
            |b| {
                let v = b.gen_(n_less(3), |b, i| b.x(i));
                b.let_(v, |b, v| b.read(X, &[apply_map(computed(v, RelationView::ArgMax), &[])]))
            },
            &[0.],
            [0, 0, 0],
        ),
        // The comparison is made three times; two summands count.
        (
            "a let between a sum and its guard",
            |b| {
                b.sum(n(), |b, i| {
                    let (one, x) = (b.lit(1.), b.x(i));
                    let c = b.less(one, x);
                    b.let_(c, |b, c| {
                        let x = b.x(i);
                        b.guard(rel(computed(c, RelationView::Support), &[]), x)
                    })
                })
            },
            &[5.],
            [1, 0, 3],
        ),
        (
            "rows that are not empty",
            |b| {
                b.gen_(n(), |b, i| {
                    let k = b.0.fresh_index("k");
                    let x = b.x(i);
                    b.guard(crate::index::Pred::exists(k, n(), rel(E, &[i, k])), x)
                })
            },
            &[1., 2., 0.],
            [0, 0, 0],
        ),
        (
            "an index as a number",
            |b| {
                b.sum(n(), |b, i| {
                    let a = Affine::index(i).scale(2).unwrap().add(&n()).unwrap();
                    b.push(Term::Number(Number::Index(a)))
                })
            },
            &[15.],
            [2, 0, 0],
        ),
        (
            "pairs inside arrays come out as leaves",
            |b| {
                b.gen_(n(), |b, i| {
                    let (x, row) = (b.x(i), b.gen_(m(), |b, j| b.a(i, j)));
                    b.push(Term::Pair(x, row))
                })
            },
            &[1., 2., 3., 1., 2., 3., 4., 5., 6.],
            [0, 0, 0],
        ),
        (
            "zero of a pair",
            |b| {
                let (t, x) = (b.read(T, &[]), b.gen_(n(), |b, i| b.x(i)));
                let pair = b.push(Term::Pair(t, x));
                b.guard(lt(m(), 2), pair)
            },
            &[0., 0., 0., 0.],
            [0, 0, 0],
        ),
        ("a parameter as it is", |b| b.var(VarId(AB.0)), &[1., 2., 3., 1., 2., 3., 4., 5., 6.], [0, 0, 0]),
    ];

    #[test]
    fn values_and_counts() {
        for (name, build, expected, [additions, multiplications, functions]) in CASES {
            let mut terms = Terms::new();
            let root = build(&mut terms);
            let program = terms.finish(root);
            let (leaves, counts) = evaluate_and_count(&program, &environment(|x| x as f64), limits()).unwrap();
            let found: Vec<f64> = leaves.iter().flat_map(Leaf::values).copied().collect();
            assert_eq!(found, *expected, "{name}");
            let expected =
                Counts { additions: *additions, multiplications: *multiplications, functions: *functions, partials: 0 };
            assert_eq!(counts, expected, "{name}");
        }
    }

    /// Every number agrees with `f64` on what it can do; the prime field lacks an order.
    #[test]
    fn other_numbers_agree() {
        for (name, build, expected, _) in CASES {
            let mut terms = Terms::new();
            let root = build(&mut terms);
            let program = terms.finish(root);
            match evaluate(&program, &environment(Field::integer), limits()) {
                Ok(leaves) => {
                    let found: Vec<Field> = leaves.iter().flat_map(Leaf::values).copied().collect();
                    let expected: Vec<Field> = expected.iter().map(|x| Field::literal(*x).unwrap()).collect();
                    assert_eq!(found, expected, "{name}");
                }
                Err(error) => assert!(matches!(error, Error::Limitation { .. }), "{name}: {error}"),
            }
            let duals = evaluate(&program, &environment(|x| Dual::constant(x as f64)), limits()).unwrap();
            let found: Vec<f64> = duals.iter().flat_map(Leaf::values).map(|x| x.value).collect();
            assert_eq!(found, *expected, "{name}");
        }
    }

    fn failure(build: impl FnOnce(&mut Terms) -> TermId) -> Error {
        let mut terms = Terms::new();
        let root = build(&mut terms);
        evaluate(&terms.finish(root), &environment(|x| x as f64), limits()).unwrap_err()
    }

    #[test]
    fn broken_promises_are_bugs() {
        let outside = failure(|b| b.read(X, &[n()]));
        assert!(
            matches!(&outside, Error::Bug { message, .. } if message.contains("at 3 of an axis of extent 3")),
            "{outside}"
        );
        let unstored = failure(|b| b.read(S, &[0.into(), 0.into()]));
        assert!(
            matches!(&unstored, Error::Bug { message, .. } if message.contains("outside its pattern")),
            "{unstored}"
        );
    }

    #[test]
    fn limits_are_errors() {
        let large = failure(|b| b.gen_(Affine::constant(1 << 21), |b, _| b.lit(1.)));
        assert!(matches!(large, Error::Limit { limit, .. } if limit == 1 << 20), "{large}");
        let long = failure(|b| b.sum(Affine::constant(1 << 40), |b, _| b.lit(1.)));
        assert!(matches!(long, Error::Limit { limit, .. } if limit == 1 << 24), "{long}");
    }

    /// `D (x1 * x2 + ln x0)` along a basis vector, by dual numbers.
    #[test]
    fn dual_numbers_differentiate() {
        let mut b = Terms::new();
        let (p, q, r) = (b.read(X, &[1.into()]), b.read(X, &[2.into()]), b.read(X, &[0.into()]));
        let (product, ln) = (b.mul(p, q), b.op(Op::Ln, &[r]));
        let root = b.add(product, ln);
        let program = b.finish(root);
        let gradient: Vec<f64> = (0..3)
            .map(|k| {
                let mut at = environment(|x| Dual::constant(x as f64));
                if let Elements::Dense(xs) = &mut at.params[X.index()][0].elements {
                    xs[k].tangent = Some(1.0);
                }
                evaluate(&program, &at, limits()).unwrap()[0].values()[0].derivative()
            })
            .collect();
        assert_eq!(gradient, [1.0, 3.0, 2.0]);
    }

    const DEPTH: usize = 1_000_000;

    /// Each builder makes a program `DEPTH` deep; the value and the number of additions.
    #[test]
    fn deep_terms_on_a_small_stack() {
        type Deep = (fn(&mut Terms) -> TermId, f64, usize);
        let cases: [Deep; 5] = [
            (
                |b| {
                    let one = b.lit(1.);
                    (0..DEPTH).fold(one, |e, _| {
                        let one = b.lit(1.);
                        b.add(e, one)
                    })
                },
                DEPTH as f64 + 1.,
                DEPTH,
            ),
            (
                |b| {
                    let one = b.lit(1.);
                    (0..DEPTH).fold(one, |e, _| {
                        let one = b.lit(1.);
                        b.add(one, e)
                    })
                },
                DEPTH as f64 + 1.,
                DEPTH,
            ),
            (
                |b| {
                    let one = b.lit(1.);
                    (0..DEPTH).fold(one, |e, _| b.guard(lt(0, n()), e))
                },
                1.,
                0,
            ),
            // Nested to the right, with the innermost variable as the result.
            (
                |b| {
                    let mut bound = Vec::new();
                    let mut value = b.read(T, &[]);
                    for _ in 0..DEPTH {
                        let var = b.0.fresh_var("v", Types::REAL);
                        bound.push((var, value));
                        value = b.var(var);
                    }
                    bound.into_iter().rev().fold(value, |body, (var, value)| b.push(Term::Let { var, value, body }))
                },
                5.,
                0,
            ),
            // A value as deep as the term, built and dropped.
            (
                |b| {
                    let t = b.read(T, &[]);
                    let pairs = (0..DEPTH).fold(t, |e, _| {
                        let one = b.lit(1.);
                        b.push(Term::Pair(e, one))
                    });
                    b.let_(pairs, |b, _| b.lit(2.))
                },
                2.,
                0,
            ),
        ];
        let check = move || {
            for (build, value, additions) in cases {
                let mut terms = Terms::new();
                let root = build(&mut terms);
                let program = terms.finish(root);
                let (leaves, counts) = evaluate_and_count(&program, &environment(|x| x as f64), limits()).unwrap();
                assert_eq!(leaves[0].values(), [value]);
                assert_eq!(counts.additions, additions as u128);
            }
        };
        std::thread::Builder::new().stack_size(2 << 20).spawn(check).unwrap().join().unwrap();
    }

    /// A value that doubles at each of 1000 levels takes 1000 nodes.
    #[test]
    fn doubling_values_are_shared() {
        let mut b = Terms::new();
        let t = b.read(T, &[]);
        let mut bound = Vec::new();
        let mut value = t;
        for _ in 0..1000 {
            let ty = b.0.ty(value);
            let var = b.0.fresh_var("v", ty);
            bound.push((var, value));
            let (p, q) = (b.var(var), b.var(var));
            value = b.push(Term::Pair(p, q));
        }
        let root = (0..1000).fold(value, |e, _| b.push(Term::Fst(e)));
        let root = bound.into_iter().rev().fold(root, |body, (var, value)| b.push(Term::Let { var, value, body }));
        let leaves = evaluate(&b.finish(root), &environment(|x| x as f64), limits()).unwrap();
        assert_eq!(leaves[0].values(), [5.0]);
    }
}

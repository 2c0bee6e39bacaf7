//! Binds data to a program: solves for its sizes and validates every input against its signature.
//!
//! Every axis of every parameter and relation has a *formula*, affine in the size variables, and every input has a *length*
//! there. The lengths determine the sizes:
//! 1. A formula with one unknown is solved for it; what it determines may leave another formula with one unknown.
//!    A formula of value `<= 0` means length 0, so a length of 0 says only `formula <= 0`. As sizes are not negative, `n + m - 1`
//!    of length 0 with `m = 1` gives `n = 0`, while `n - 1` of length 0 leaves `n` open (0 or 1).
//! 2. What remains is a linear system, eliminated exactly over the integers.
//! 3. Every formula is evaluated and compared with its length, and the assumptions of the program are checked.
//!
//! Sizes that remain open, that are negative or fractional, and lengths that contradict each other are refused with the axes
//! that are responsible. Nothing is converted here: a dense tensor is no csr matrix until its owner says so.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Inputs, Relation, Tensor, Value};
use crate::base::{Arena, Id, ParamId, RelationId, SizeId};
use crate::error::{Error, Result};
use crate::index::{Affine, Pred, RelationRef, Size, Var};
use crate::ty::{RelationKind, Signature, Storage, is_part, leaf_name};

/// The inputs of a program after validation: every shape, format and assumption of the signature holds.
#[derive(Clone, Debug)]
pub struct Bindings {
    sizes: Arena<SizeId, i64>,
    values: Arena<ParamId, Value>,
    relations: Arena<RelationId, Arc<Relation>>,
}

impl Bindings {
    /// The values of the size variables, none negative.
    pub fn sizes(&self) -> &Arena<SizeId, i64> {
        &self.sizes
    }

    /// The values of the parameters; leaves as in [`Types::leaves`](crate::ty::Types::leaves).
    pub fn values(&self) -> &Arena<ParamId, Value> {
        &self.values
    }

    /// The relations, patterns of sparse parameters included.
    pub fn relations(&self) -> &Arena<RelationId, Arc<Relation>> {
        &self.relations
    }

    /// The value of an expression over sizes.
    ///
    /// # Errors
    /// [`Error::Overflow`]; a bug if something other than sizes occurs.
    pub fn evaluate(&self, size: &Size) -> Result<i64> {
        evaluate(size, &|n| self.sizes.get(n).copied())
    }

    /// The number of elements that a size means: none where it is negative.
    ///
    /// # Errors
    /// As [`Bindings::evaluate`].
    pub fn length(&self, size: &Size) -> Result<usize> {
        usize::try_from(self.evaluate(size)?.max(0)).map_err(|_| Error::Overflow)
    }
}

/// Validates the inputs of a program and solves for its sizes.
///
/// Sizes follow from the lengths of the axes, which are affine in them; a formula that is not positive means length 0. A size
/// that does not follow must be [given](Inputs::size). Nothing is converted.
///
/// # Errors
/// [`Error::Data`] names the input at fault, what was expected and what was found.
pub fn bind(signature: &Signature, inputs: &Inputs) -> Result<Bindings> {
    let bindings = solved(signature, inputs, given(signature, inputs)?)?;
    for (id, relation) in signature.relations.iter() {
        if relation.kind == RelationKind::Map {
            bindings.relations[id].is_map().map_err(|malformed| malformed.of(&relation.name))?;
        }
    }
    for assumption in &signature.assumptions {
        if !holds(signature, &bindings, assumption)? {
            return Err(Error::data(
                format!("assume {}", predicate_text(signature, assumption)),
                format!("this does not hold: {}", sizes_text(signature, &bindings, assumption)),
            ));
        }
    }
    Ok(bindings)
}

/// The sizes that are given by name.
fn given(signature: &Signature, inputs: &Inputs) -> Result<Vec<Equation>> {
    let mut equations = Vec::new();
    for (name, &length) in &inputs.sizes {
        // Of another program.
        let Some((n, _)) = signature.sizes.iter().find(|(_, size)| *size == name) else { continue };
        if length < 0 {
            return Err(Error::data(name, format!("a size is not negative, found {length}")));
        }
        equations.push(Equation { formula: Size::size(n), length, origin: Origin::Given(name.clone()) });
    }
    Ok(equations)
}

/// The values of all sizes.
///
/// # Errors
/// [`Error::Data`] for inputs from which they do not follow.
pub fn sizes(signature: &Signature, inputs: &Inputs) -> Result<Arena<SizeId, i64>> {
    Ok(solved(signature, inputs, given(signature, inputs)?)?.sizes)
}

/// What inputs are, with the sizes that solve the equations.
fn solved(signature: &Signature, inputs: &Inputs, mut equations: Vec<Equation>) -> Result<Bindings> {
    let values = collect_values(signature, inputs, &mut equations)?;
    let relations = collect_relations(signature, inputs, &values, &mut equations)?;
    let sizes = Solver::new(signature, equations)?.solve()?;
    Ok(Bindings { sizes, values, relations })
}

/// The leaves of every parameter, and the equations of their axes.
fn collect_values(
    signature: &Signature,
    inputs: &Inputs,
    equations: &mut Vec<Equation>,
) -> Result<Arena<ParamId, Value>> {
    let mut used = BTreeSet::new();
    let mut values = Arena::new();
    for (id, param) in signature.params.iter() {
        if !signature.types.contains(param.ty) {
            return Err(Error::bug("bind", format!("the type of `{}` is not in the signature", param.name)));
        }
        let leaves = signature.types.leaves(param.ty)?;
        let mut tensors: Vec<Arc<Tensor>> = Vec::with_capacity(leaves.len());
        while let Some(leaf) = leaves.get(tensors.len()) {
            // The leaf may be given alone, with its siblings, or with the whole parameter.
            let names = (0..=leaf.path.len()).map(|depth| leaf_name(&param.name, &leaf.path[..depth]));
            let given: Vec<(usize, String)> =
                names.enumerate().filter(|(_, name)| inputs.values.contains_key(name)).collect();
            let (depth, name) = match given.as_slice() {
                [(depth, name)] => (*depth, name.clone()),
                [] => {
                    let name = leaf_name(&param.name, &leaf.path);
                    let whole = (0..=leaf.path.len()).map(|depth| leaf_name(&param.name, &leaf.path[..depth]));
                    let malformed = whole.filter_map(|name| inputs.malformed.get_key_value(&name)).next();
                    return Err(match malformed {
                        Some((name, malformed)) => malformed.clone().of(name),
                        None => inputs.missing("parameter", &name, signature),
                    });
                }
                [(_, outer), (_, inner), ..] => {
                    return Err(Error::data(inner, format!("this is given twice, here and as a part of `{outer}`")));
                }
            };
            let part = &leaf.path[..depth];
            let start = tensors.len();
            let group = leaves[start..].iter().take_while(|other| other.path.starts_with(part)).count();
            let value = &inputs.values[&name];
            if value.leaves().len() != group {
                let found = value.leaves().len();
                let s = if group == 1 { "" } else { "s" };
                return Err(Error::data(
                    name,
                    format!("this has {group} component{s}, a value with {found} was given"),
                ));
            }
            for (leaf, tensor) in leaves[start..start + group].iter().zip(value.leaves()) {
                let subject = leaf_name(&param.name, &leaf.path);
                check_format(&subject, param.storage, tensor)?;
                push_axes(signature, &subject, &leaf.dims, &tensor.shape(), equations)?;
                tensors.push(tensor.clone());
            }
            used.insert(name);
        }
        let pushed: ParamId = values.push(Value::new(tensors));
        debug_assert!(pushed == id);
    }
    // What is of another program is left alone.
    for name in inputs.values.keys().filter(|name| !used.contains(*name)) {
        let hint = if signature.relations.values().any(|r| r.name == *name) {
            "it is a relation; give its tuples with `Inputs::relation`"
        } else if signature.params.values().any(|param| is_part(name, &param.name)) {
            "the program has no such parameter"
        } else {
            continue;
        };
        return Err(Error::data(name, format!("{hint}; {}", expected(signature))));
    }
    Ok(values)
}

/// The relations, patterns of sparse parameters included, and the equations of their axes.
fn collect_relations(
    signature: &Signature,
    inputs: &Inputs,
    values: &Arena<ParamId, Value>,
    equations: &mut Vec<Equation>,
) -> Result<Arena<RelationId, Arc<Relation>>> {
    let mut relations = Arena::new();
    for relation in signature.relations.values() {
        let tuples = match relation.kind {
            RelationKind::Pattern(param) => {
                match values.get(param).and_then(Value::as_tensor).and_then(Tensor::pattern) {
                    Some(pattern) => pattern.clone(),
                    None => {
                        return Err(Error::bug(
                            "bind",
                            format!("`{}` is the pattern of no sparse parameter", relation.name),
                        ));
                    }
                }
            }
            RelationKind::Free | RelationKind::Map => match inputs.relations.get(&relation.name) {
                Some(tuples) => tuples.clone(),
                None => return Err(inputs.missing("relation", &relation.name, signature)),
            },
        };
        // People know a pattern by its parameter.
        let name = relation.name.trim_end_matches('?');
        push_axes(signature, name, &relation.shape, tuples.shape(), equations)?;
        let _: RelationId = relations.push(tuples);
    }
    for (id, param) in signature.params.iter() {
        let Some(shared) = param.storage.pattern().and_then(|r| Some((signature.relations.get(r)?, relations.get(r)?)))
        else {
            continue;
        };
        let (RelationKind::Pattern(owner), own) = (shared.0.kind, values.get(id).and_then(Value::as_tensor)) else {
            continue;
        };
        let same = own.and_then(Tensor::pattern).is_none_or(|pattern| pattern == shared.1);
        if owner != id && !same {
            let owner = signature.params.get(owner).map_or("another", |p| p.name.as_str());
            return Err(Error::data(
                &param.name,
                format!("it must have the entries that `{owner}` has, and no others"),
            ));
        }
    }
    for name in inputs.relations.keys() {
        let found = signature.relations.values().find(|relation| relation.name == *name);
        if found.is_some_and(|relation| matches!(relation.kind, RelationKind::Pattern(_))) {
            return Err(Error::data(name, "this is the pattern of a sparse parameter, which brings it along"));
        }
    }
    Ok(relations)
}

fn check_format(subject: &str, storage: Storage, tensor: &Tensor) -> Result<()> {
    let advice = match (storage.format(), tensor.sparse_format()) {
        (wanted, found) if wanted == found => return Ok(()),
        (None, _) => "convert it with `to_dense`, or declare the parameter sparse".to_owned(),
        (Some(format), None) => {
            format!("convert it with `{}`, or declare the parameter dense", format.conversion(None))
        }
        (Some(format), found) => format!("convert it with `{}`", format.conversion(found)),
    };
    let (wanted, found) = (storage.name(), tensor.format());
    Err(Error::data(subject, format!("expected a {wanted} tensor, found a {found} one; {advice}")))
}

fn push_axes(
    signature: &Signature,
    subject: &str,
    formulas: &[Size],
    shape: &[usize],
    equations: &mut Vec<Equation>,
) -> Result<()> {
    if formulas.len() != shape.len() {
        let kind = |axes: &[String]| match axes {
            [] => "a number".to_string(),
            axes => format!("a tensor of the shape [{}]", axes.join(", ")),
        };
        let wanted: Vec<String> = formulas.iter().map(|formula| affine_text(signature, formula)).collect();
        let found: Vec<String> = shape.iter().map(usize::to_string).collect();
        return Err(Error::data(subject, format!("expected {}, found {}", kind(&wanted), kind(&found))));
    }
    for (axis, (formula, &length)) in formulas.iter().zip(shape).enumerate() {
        let length = i64::try_from(length).map_err(|_| Error::Overflow)?;
        let origin = Origin::Axis { subject: subject.to_string(), axis };
        equations.push(Equation { formula: formula.clone(), length, origin });
    }
    Ok(())
}

/// `max(formula, 0) = length`
struct Equation {
    formula: Size,
    length: i64,
    origin: Origin,
}

enum Origin {
    /// A size that was given by name.
    Given(String),
    /// An axis of a tensor or relation.
    Axis { subject: String, axis: usize },
}

impl Equation {
    /// Whether the formula itself is known: an axis of length 0 may have any formula that is not positive.
    fn is_exact(&self) -> bool {
        self.length > 0 || matches!(self.origin, Origin::Given(_))
    }

    fn text(&self) -> String {
        match &self.origin {
            Origin::Given(name) => format!("{name} = {} was given", self.length),
            Origin::Axis { subject, axis } => format!("axis {axis} of `{subject}` has length {}", self.length),
        }
    }

    fn subject(&self) -> &str {
        match &self.origin {
            Origin::Given(name) | Origin::Axis { subject: name, .. } => name,
        }
    }
}

/// A row of the linear system: `sum of coefficient * variable = constant`.
#[derive(Clone)]
struct Row {
    terms: BTreeMap<usize, i128>,
    constant: i128,
    /// The equations it was combined from.
    from: BTreeSet<usize>,
}

struct Solver<'a> {
    signature: &'a Signature,
    equations: Vec<Equation>,
    /// The unknown terms of each equation, and the value of the rest.
    open: Vec<(BTreeMap<usize, i128>, i128)>,
    /// The equations in which a variable occurs.
    uses: Vec<Vec<usize>>,
    /// The value of each variable and the equations it came from.
    known: Vec<Option<(i64, BTreeSet<usize>)>>,
    steps: u64,
}

impl<'a> Solver<'a> {
    /// How many operations on coefficients the solution may take; ordinary programs need a handful.
    const MAX_STEPS: u64 = 100_000_000;

    fn new(signature: &'a Signature, mut equations: Vec<Equation>) -> Result<Self> {
        // Given sizes and plain variables first: they make the clearest reasons.
        equations.sort_by_key(|e| (!matches!(e.origin, Origin::Given(_)), e.formula.as_size().is_none()));
        let mut uses = vec![Vec::new(); signature.sizes.len()];
        let mut open = Vec::with_capacity(equations.len());
        for (at, equation) in equations.iter().enumerate() {
            let mut terms = BTreeMap::new();
            for (v, k) in equation.formula.terms() {
                match v {
                    Var::Size(n) if n.index() < uses.len() => {
                        terms.insert(n.index(), i128::from(*k));
                        uses[n.index()].push(at);
                    }
                    _ => return Err(Error::bug("bind", "a shape depends on something other than the sizes")),
                }
            }
            open.push((terms, i128::from(equation.formula.offset())));
        }
        let known = vec![None; signature.sizes.len()];
        Ok(Solver { signature, equations, open, uses, known, steps: 0 })
    }

    fn solve(mut self) -> Result<Arena<SizeId, i64>> {
        let mut queue: Vec<usize> = (0..self.equations.len()).rev().collect();
        loop {
            while let Some(at) = queue.pop() {
                self.propagate(at, &mut queue)?;
            }
            for row in self.eliminate()? {
                if let Some((&v, &k)) = row.terms.first_key_value()
                    && row.terms.len() == 1
                {
                    self.assign(v, k, row.constant, row.from, &mut queue)?;
                }
            }
            if queue.is_empty() {
                break;
            }
        }
        let names = self.signature.sizes.values();
        let unknown: Vec<&String> =
            names.zip(&self.known).filter(|(_, known)| known.is_none()).map(|(name, _)| name).collect();
        if let Some(name) = unknown.first() {
            let all: Vec<String> = unknown.iter().take(8).map(|name| format!("`{name}`")).collect();
            let message = match unknown.len() {
                1 => {
                    "this size does not follow from the shapes of the inputs; give it, with `--size` or `Inputs::size`"
                        .to_string()
                }
                _ => format!(
                    "the sizes {} do not follow from the shapes of the inputs; give them, with `--size` or `Inputs::size`",
                    all.join(", ")
                ),
            };
            return Err(Error::data(*name, message));
        }
        for at in 0..self.equations.len() {
            self.check(at)?;
        }
        Ok(self.known.into_iter().flatten().map(|(n, _)| n).collect())
    }

    fn step(&mut self, count: usize) -> Result<()> {
        self.steps = self.steps.saturating_add(count as u64 + 1);
        if self.steps > Self::MAX_STEPS {
            return Err(Error::Limit {
                what: "steps to solve for the sizes",
                limit: Self::MAX_STEPS,
                found: self.steps,
            });
        }
        Ok(())
    }

    /// What an equation says about its unknowns by itself.
    fn propagate(&mut self, at: usize, queue: &mut Vec<usize>) -> Result<()> {
        let (terms, rest) = &self.open[at];
        let (exact, length) = (self.equations[at].is_exact(), i128::from(self.equations[at].length));
        if terms.is_empty() {
            return self.check(at);
        }
        let rest = *rest;
        if exact {
            if let Some((&v, &k)) = terms.first_key_value()
                && terms.len() == 1
            {
                let from = BTreeSet::from([at]);
                self.assign(v, k, length.checked_sub(rest).ok_or(Error::Overflow)?, from, queue)?;
            }
            return Ok(());
        }
        // sum of k * v + rest <= 0 with k > 0 and v >= 0: a term with k + rest > 0 must vanish.
        if terms.values().all(|&k| k > 0) {
            if rest > 0 {
                return Err(self.conflict(at, &format!("at least {rest}"), []));
            }
            let zero: Vec<usize> = terms.iter().filter(|&(_, &k)| k > -rest).map(|(&v, _)| v).collect();
            let count = terms.len();
            self.step(count)?;
            for v in zero {
                self.assign(v, 1, 0, BTreeSet::from([at]), queue)?;
            }
        }
        Ok(())
    }

    /// `coefficient * v = constant`
    fn assign(
        &mut self,
        v: usize,
        coefficient: i128,
        constant: i128,
        from: BTreeSet<usize>,
        queue: &mut Vec<usize>,
    ) -> Result<()> {
        if self.known[v].is_some() {
            return Ok(());
        }
        let name = self.signature.sizes.get(SizeId::from_index(v)).cloned().unwrap_or_default();
        let reasons = self.reasons(&from);
        let (value, remainder) = (constant.checked_div(coefficient), constant.checked_rem(coefficient));
        let (Some(value), Some(remainder)) = (value, remainder) else { return Err(Error::Overflow) };
        if remainder != 0 {
            let divisor = gcd(constant, coefficient).max(1);
            let sign = if coefficient < 0 { -1 } else { 1 };
            let (above, below) = (sign * constant / divisor, sign * coefficient / divisor);
            return Err(Error::data(name, format!("this size would be {above}/{below}, not an integer: {reasons}")));
        }
        if value < 0 {
            return Err(Error::data(
                name,
                format!("this size would be {value}, but a size is not negative: {reasons}"),
            ));
        }
        let value = i64::try_from(value).map_err(|_| Error::Overflow)?;
        self.known[v] = Some((value, from));
        for &at in &self.uses[v] {
            let (terms, rest) = &mut self.open[at];
            if let Some(k) = terms.remove(&v) {
                let term = k.checked_mul(i128::from(value)).ok_or(Error::Overflow)?;
                *rest = rest.checked_add(term).ok_or(Error::Overflow)?;
                queue.push(at);
            }
        }
        self.step(self.uses[v].len())
    }

    /// Compares a formula without unknowns with its length.
    fn check(&self, at: usize) -> Result<()> {
        let (terms, value) = &self.open[at];
        let equation = &self.equations[at];
        if !terms.is_empty() || (*value).max(0) == i128::from(equation.length) {
            return Ok(());
        }
        let from = equation.formula.terms().iter().filter_map(|(v, _)| match v {
            Var::Size(n) => self.known.get(n.index())?.as_ref().map(|(value, from)| (*n, *value, from)),
            _ => None,
        });
        Err(self.conflict(at, &(*value).max(0).to_string(), from))
    }

    fn conflict<'b>(
        &self,
        at: usize,
        value: &str,
        known: impl IntoIterator<Item = (SizeId, i64, &'b BTreeSet<usize>)>,
    ) -> Error {
        let equation = &self.equations[at];
        let found = match &equation.origin {
            Origin::Given(_) => format!("{} was given", equation.length),
            Origin::Axis { axis, .. } => format!("axis {axis} has length {}", equation.length),
        };
        let mut message = format!("{found}, but {} is {value}", affine_text(self.signature, &equation.formula));
        for (k, (n, value, from)) in known.into_iter().take(4).enumerate() {
            let name = self.signature.sizes.get(n).map_or("?", String::as_str);
            let link = if k == 0 { ":" } else { "," };
            let given = from.len() == 1 && from.iter().all(|at| matches!(self.equations[*at].origin, Origin::Given(_)));
            message += &match given {
                true => format!("{link} {name} = {value} was given"),
                false => format!("{link} {name} = {value} because {}", self.reasons(from)),
            };
        }
        Error::data(equation.subject(), message)
    }

    fn reasons(&self, from: &BTreeSet<usize>) -> String {
        let mut texts: Vec<String> = from.iter().take(4).map(|&at| self.equations[at].text()).collect();
        if from.len() > 4 {
            texts.push("..".to_string());
        }
        texts.join(" and ")
    }

    /// Gauss-Jordan elimination of the equations with several unknowns; the rows that remain, in reduced form.
    fn eliminate(&mut self) -> Result<Vec<Row>> {
        // Each row with its pivot variable, which occurs in no other row.
        let mut rows: Vec<(usize, Row)> = Vec::new();
        for at in 0..self.equations.len() {
            let (terms, rest) = &self.open[at];
            if !self.equations[at].is_exact() || terms.is_empty() {
                continue;
            }
            let constant = i128::from(self.equations[at].length).checked_sub(*rest).ok_or(Error::Overflow)?;
            let mut row = Row { terms: terms.clone(), constant, from: BTreeSet::from([at]) };
            for (pivot, other) in &rows {
                self.steps = self.steps.saturating_add(1);
                if row.terms.contains_key(pivot) {
                    self.steps = self.steps.saturating_add(other.terms.len() as u64);
                    row = cancel(row, other, *pivot)?;
                }
            }
            self.step(row.terms.len())?;
            let Some((&pivot, _)) = row.terms.first_key_value() else {
                if row.constant != 0 {
                    return Err(Error::data(
                        self.equations[at].subject(),
                        format!("these contradict each other: {}", self.reasons(&row.from)),
                    ));
                }
                continue;
            };
            for (_, other) in &mut rows {
                self.steps = self.steps.saturating_add(1);
                if other.terms.contains_key(&pivot) {
                    self.steps = self.steps.saturating_add(row.terms.len() as u64);
                    *other = cancel(other.clone(), &row, pivot)?;
                }
            }
            rows.push((pivot, row));
        }
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }
}

/// The combination of two rows in which `pivot` does not occur, divided by its common divisor.
fn cancel(row: Row, other: &Row, pivot: usize) -> Result<Row> {
    let (Some(&a), Some(&b)) = (row.terms.get(&pivot), other.terms.get(&pivot)) else { return Ok(row) };
    let combine = |x: i128, y: i128| x.checked_mul(b)?.checked_sub(y.checked_mul(a)?);
    let keys: BTreeSet<usize> = row.terms.keys().chain(other.terms.keys()).copied().collect();
    let coefficient = |row: &Row, v: usize| row.terms.get(&v).copied().unwrap_or(0);
    let mut terms = BTreeMap::new();
    for v in keys {
        let k = combine(coefficient(&row, v), coefficient(other, v)).ok_or(Error::Overflow)?;
        if k != 0 {
            terms.insert(v, k);
        }
    }
    let mut constant = combine(row.constant, other.constant).ok_or(Error::Overflow)?;
    let divisor = terms.values().fold(constant, |g, &k| gcd(g, k));
    if divisor > 1 {
        constant /= divisor;
        terms.values_mut().for_each(|k| *k /= divisor);
    }
    Ok(Row { terms, constant, from: row.from.union(&other.from).copied().collect() })
}

/// The greatest common divisor, not negative.
fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    // 2^127 is the only value that does not fit, and dividing by 1 instead is right too.
    i128::try_from(a).unwrap_or(1)
}

fn evaluate(size: &Affine, value: &impl Fn(SizeId) -> Option<i64>) -> Result<i64> {
    let result = size.evaluate(&mut |v| match v {
        Var::Size(n) => value(*n),
        _ => None,
    });
    match result {
        Some(result) => Ok(result?),
        None => Err(Error::bug("bind", "an expression over sizes mentions something else")),
    }
}

/// The truth of an assumption.
fn holds(signature: &Signature, bindings: &Bindings, pred: &Pred) -> Result<bool> {
    let value = |a: &Affine| {
        if !a.is_size() {
            let feature = format!("the assumption `{}`, which is not about sizes", predicate_text(signature, pred));
            return Err(Error::Limitation { feature, span: None });
        }
        bindings.evaluate(a)
    };
    Ok(match pred {
        Pred::True => true,
        Pred::False => false,
        Pred::NonNegative(a) => value(a)? >= 0,
        Pred::Zero(a) => value(a)? == 0,
        Pred::NonZero(a) => value(a)? != 0,
        Pred::Relation { relation: RelationRef::Input(id), args, holds } => {
            let tuple = args.iter().map(value).collect::<Result<Vec<i64>>>()?;
            bindings.relations.get(*id).is_some_and(|relation| relation.contains(&tuple)) == *holds
        }
        Pred::All(preds) => {
            for p in preds.iter() {
                if !self::holds(signature, bindings, p)? {
                    return Ok(false);
                }
            }
            true
        }
        Pred::Any(preds) => {
            for p in preds.iter() {
                if self::holds(signature, bindings, p)? {
                    return Ok(true);
                }
            }
            false
        }
        Pred::Relation { .. } | Pred::Exists { .. } => {
            let feature = format!("the assumption `{}`", predicate_text(signature, pred));
            return Err(Error::Limitation { feature, span: None });
        }
    })
}

fn affine_text(signature: &Signature, a: &Affine) -> String {
    let mut text = String::new();
    let mut name = |v: &Var| match v {
        Var::Size(n) => signature.sizes.get(*n).cloned().unwrap_or_else(|| n.to_string()),
        Var::Index(i) => i.to_string(),
        Var::Apply(_) => "..".to_string(),
    };
    // Writing to a string does not fail.
    let _ = a.write(&mut text, &mut name);
    text
}

/// An assumption as its author may have written it: `n >= 2`, not `n - 2 >= 0`.
fn predicate_text(signature: &Signature, pred: &Pred) -> String {
    let comparison = |a: &Affine, op: &str| {
        let negated = a.terms().iter().filter(|(_, k)| *k < 0).map(|(v, k)| (v.clone(), k.saturating_neg()));
        let positive = a.terms().iter().filter(|(_, k)| *k > 0).cloned();
        let offset = a.offset();
        let left = Affine::from_terms(positive, offset.max(0)).unwrap_or_default();
        let right = Affine::from_terms(negated, offset.min(0).saturating_neg()).unwrap_or_default();
        format!("{} {op} {}", affine_text(signature, &left), affine_text(signature, &right))
    };
    let list = |preds: &[Pred], word: &str| {
        let texts: Vec<String> = preds
            .iter()
            .map(|p| match p {
                Pred::All(_) | Pred::Any(_) => format!("({})", predicate_text(signature, p)),
                p => predicate_text(signature, p),
            })
            .collect();
        texts.join(word)
    };
    match pred {
        Pred::True => "true".to_string(),
        Pred::False => "false".to_string(),
        Pred::NonNegative(a) => comparison(a, ">="),
        Pred::Zero(a) => comparison(a, "="),
        Pred::NonZero(a) => comparison(a, "!="),
        Pred::Relation { relation, args, holds } => {
            let name = match relation {
                RelationRef::Input(id) => signature.relations.get(*id).map_or("?", |r| r.name.as_str()),
                RelationRef::Computed { .. } => "?",
            };
            let args: Vec<String> = args.iter().map(|a| affine_text(signature, a)).collect();
            format!("{}{name}({})", if *holds { "" } else { "not " }, args.join(", "))
        }
        Pred::All(preds) => list(preds, " and "),
        Pred::Any(preds) => list(preds, " or "),
        Pred::Exists { index, extent, body } => {
            format!("exists {index} < {}. {}", affine_text(signature, extent), predicate_text(signature, body))
        }
    }
}

/// The sizes that an assumption mentions: `n = 1, m = 4`.
fn sizes_text(signature: &Signature, bindings: &Bindings, pred: &Pred) -> String {
    let mut mentioned = BTreeSet::new();
    pred.visit_affine(&mut |a| {
        a.visit(&mut |v| {
            if let Var::Size(n) = v {
                mentioned.insert(*n);
            }
        });
    });
    let known = mentioned.into_iter().filter_map(|n| Some((signature.sizes.get(n)?, bindings.sizes.get(n)?)));
    let texts: Vec<String> = known.map(|(name, value)| format!("{name} = {value}")).collect();
    if texts.is_empty() { "it is false for all sizes".to_string() } else { texts.join(", ") }
}

/// What the program takes, for errors about names.
pub(super) fn expected(signature: &Signature) -> String {
    const MOST: usize = 24;
    let axes = |dims: &[Size]| {
        let dims: Vec<String> = dims.iter().map(|d| affine_text(signature, d)).collect();
        if dims.is_empty() { String::new() } else { format!("[{}]", dims.join(", ")) }
    };
    let mut items = Vec::new();
    for param in signature.params.values().take(MOST) {
        let format = match param.storage {
            Storage::Dense => String::new(),
            sparse => format!("{} ", sparse.name()),
        };
        if !signature.types.contains(param.ty) {
            continue;
        }
        for leaf in signature.types.leaves(param.ty).unwrap_or_default().iter().take(MOST) {
            let name = leaf_name(&param.name, &leaf.path);
            items.push(format!("{name} : {format}{} real", axes(&leaf.dims)).replace(":  real", ": real"));
        }
    }
    for relation in signature.relations.values().take(MOST) {
        match relation.kind {
            RelationKind::Free => items.push(format!("rel {} : {}", relation.name, axes(&relation.shape))),
            RelationKind::Map => match relation.shape.split_last() {
                Some((codomain, sources)) => items.push(format!(
                    "map {} : {} -> {}",
                    relation.name,
                    axes(sources),
                    axes(std::slice::from_ref(codomain))
                )),
                None => items.push(format!("map {}", relation.name)),
            },
            RelationKind::Pattern(_) => {}
        }
    }
    items.extend(signature.sizes.values().take(MOST).map(|n| format!("size {n}")));
    let more = if items.len() > MOST { ", .." } else { "" };
    items.truncate(MOST);
    if items.is_empty() { "it takes nothing".to_string() } else { format!("it takes {}{more}", items.join(", ")) }
}

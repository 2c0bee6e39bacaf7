//! Checks derivatives against each other and against the primal, in ways that share no code with differentiation.
//!
//! | check | compares | expected figure |
//! |---|---|---|
//! | [`adjoint_identity`] | `<Df dx, dy>` with `<dx, Df' dy>` | a few `f64::EPSILON`; exactly 0 over [`Field`](super::Field) |
//! | [`transposition`] | `<f x, dy>` with `<x, f' dy>`, for a program `f` that is linear | a few `f64::EPSILON` |
//! | [`dual_numbers`] | `Df dx` with the primal over dual numbers | a few `f64::EPSILON`; exactly 0 over `Field` |
//! | [`complex_step`] | `Df dx` with the primal at `x + i*h*dx` | 1e-13, for analytic programs |
//! | [`finite_differences`] | `Df dx` with differences of the primal | 1e-9; says where there is a kink |
//! | [`values`] | the primal with the reference evaluator | a few `f64::EPSILON`; for kernels |
//!
//! A [`Judge`] says what evaluates the programs that are judged: the reference evaluator, or kernels, which then have to agree with what the
//! reference makes of dual and complex numbers, and with differences of their own values.
//!
//! A figure is relative to a scale that is computed beside it, never to a size: for the identity the sum of the absolute values of all
//! terms, otherwise the largest derivative found.

use num_complex::Complex64;

use super::environment::{Environment, Leaf, Limits};
use super::numeric::{Dual, Numeric};
use super::subject::Subject;
use crate::base::{Id, ParamId};
use crate::error::{Error, Result};
use crate::tssa::Program;
use crate::ty::{RelationKind, Signature};

/// What evaluates a program: gives the outputs of these numbers, all where nothing is said.
pub type Evaluator<'a, P = Program> =
    dyn Fn(&P, &Environment<f64>, Option<&[usize]>) -> Result<Vec<Vec<Leaf<f64>>>> + 'a;

/// What evaluates the programs that are judged.
pub struct Judge<'a, P = Program> {
    /// How much an evaluation by the reference evaluator may take.
    pub limits: Limits,
    /// What evaluates values, `Df dx` and `Df' dy`; the reference evaluator where nothing is said.
    pub engine: Option<&'a Evaluator<'a, P>>,
}

impl<P> Clone for Judge<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Judge<'_, P> {}

impl<P> From<Limits> for Judge<'_, P> {
    fn from(limits: Limits) -> Self {
        Judge { limits, engine: None }
    }
}

impl<P: Subject> Judge<'_, P> {
    fn run(&self, program: &P, at: &Environment<f64>, outputs: Option<Vec<usize>>) -> Result<Vec<Vec<Leaf<f64>>>> {
        match self.engine {
            Some(evaluate) => evaluate(program, at, outputs.as_deref()),
            None => run(program, at, outputs, self.limits),
        }
    }

    /// `Df dx` by what is judged.
    fn tangents(
        &self,
        forward: Forward<'_, P>,
        at: &Environment<f64>,
        direction: &Assignment<f64>,
    ) -> Result<Vec<Vec<Leaf<f64>>>> {
        self.run(forward.program, &with_tangents(forward, at, direction)?, Some(forward.outputs.to_vec()))
    }
}

/// Values of parameters.
pub type Assignment<T> = [(ParamId, Vec<Leaf<T>>)];

/// A forward derivative. Its parameters are those of the primal, with the same ids, and a tangent for each active one.
#[derive(Debug)]
pub struct Forward<'a, P = Program> {
    /// The program.
    pub program: &'a P,
    /// Each active parameter of the primal with the parameter that is its tangent.
    pub tangents: &'a [(ParamId, ParamId)],
    /// The number of the output that is the tangent of each output of the primal, in order.
    pub outputs: &'a [usize],
}

impl<P> Clone for Forward<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Forward<'_, P> {}

impl<P> Clone for Adjoint<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Adjoint<'_, P> {}

/// An adjoint derivative. Its parameters are those of the primal, with the same ids, and a seed for each output.
#[derive(Debug)]
pub struct Adjoint<'a, P = Program> {
    /// The program.
    pub program: &'a P,
    /// The parameter that is the seed of each output of the primal, in order.
    pub seeds: &'a [ParamId],
    /// Each active parameter of the primal with the number of the output that is its adjoint.
    pub outputs: &'a [(ParamId, usize)],
}

/// How far two ways to a number are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The absolute difference, the largest one where there are several.
    pub difference: f64,
    /// What it is to be compared with.
    pub scale: f64,
}

impl Figure {
    /// `difference / scale`; 0 where nothing differs, infinite where something is not a number.
    pub fn ratio(&self) -> f64 {
        match self.difference / self.scale {
            _ if self.difference == 0.0 => 0.0,
            ratio if ratio.is_nan() => f64::INFINITY,
            ratio => ratio,
        }
    }
}

/// The figures reached by a derivative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// `<Df dx, dy> = <dx, Df' dy>`.
    pub adjoint_identity: Figure,
    /// `Df` against dual numbers.
    pub dual_numbers: Figure,
    /// `Df` against the complex step; nothing where a function has no complex value.
    pub complex_step: Option<Figure>,
    /// `Df` against finite differences; nothing where the program has a kink.
    pub finite_differences: Option<Figure>,
}

/// Makes all checks along one direction `dx`, given for each active parameter, and for one seed `dy`, given for each output.
///
/// # Errors
/// As [`Subject::evaluate`].
pub fn check<P: Subject>(
    primal: &P,
    forward: Forward<'_, P>,
    adjoint: Adjoint<'_, P>,
    at: &Environment<f64>,
    direction: &Assignment<f64>,
    seed: &[Vec<Leaf<f64>>],
    judge: Judge<'_, P>,
) -> Result<Report> {
    Ok(Report {
        adjoint_identity: adjoint_identity(forward, adjoint, at, direction, seed, judge)?,
        dual_numbers: dual_numbers(primal, forward, at, direction, judge)?,
        complex_step: match complex_step(primal, forward, at, direction, judge) {
            Err(Error::Limitation { .. }) => None,
            figure => Some(figure?),
        },
        finite_differences: finite_differences(primal, forward, at, direction, judge)?,
    })
}

/// The environment of a derivative: that of the primal and further parameters. A pattern that the derivative declares for one of
/// these is the pattern of its value.
///
/// # Errors
/// [`Error::Request`] if a parameter of the signature has no value.
pub fn extend<T: Clone>(
    signature: &Signature,
    at: &Environment<T>,
    additions: &Assignment<T>,
) -> Result<Environment<T>> {
    let mut extended = at.clone();
    for (p, param) in signature.params.iter().skip(at.params.len()) {
        let value = additions.iter().find(|(q, _)| *q == p).map(|(_, leaves)| leaves.clone());
        let value = value.ok_or_else(|| Error::Request(format!("`{}` has no value", param.name)))?;
        extended.params.push(value);
    }
    for (_, relation) in signature.relations.iter().skip(at.relations.len()) {
        let pattern = match relation.kind {
            RelationKind::Pattern(p) => extended.param(p)?.first().and_then(Leaf::pattern),
            RelationKind::Free | RelationKind::Map | RelationKind::Projection(..) => None,
        };
        let pattern = pattern.ok_or_else(|| Error::Request(format!("`{}` has no tuples", relation.name)))?;
        extended.relations.push(pattern.clone());
    }
    Ok(extended)
}

fn run<T: Numeric, P: Subject>(
    program: &P,
    at: &Environment<T>,
    outputs: Option<Vec<usize>>,
    limits: Limits,
) -> Result<Vec<Vec<Leaf<T>>>> {
    program.evaluate(at, outputs, limits, None)
}

fn direction_of<T>(direction: &Assignment<T>, p: ParamId) -> Result<&[Leaf<T>]> {
    let found = direction.iter().find(|(q, _)| *q == p).map(|(_, leaves)| leaves.as_slice());
    found.ok_or_else(|| Error::Request(format!("the direction has no component for the parameter {p}")))
}

/// `Df dx`: the tangent of each output of the primal.
///
/// # Errors
/// As [`Subject::evaluate`].
pub fn tangents<T: Numeric, P: Subject>(
    forward: Forward<'_, P>,
    at: &Environment<T>,
    direction: &Assignment<T>,
    limits: Limits,
) -> Result<Vec<Vec<Leaf<T>>>> {
    run(forward.program, &with_tangents(forward, at, direction)?, Some(forward.outputs.to_vec()), limits)
}

/// The environment of a forward derivative.
fn with_tangents<T: Numeric, P: Subject>(
    forward: Forward<'_, P>,
    at: &Environment<T>,
    direction: &Assignment<T>,
) -> Result<Environment<T>> {
    let tangent = |(x, dx): &(ParamId, ParamId)| Ok((*dx, direction_of(direction, *x)?.to_vec()));
    let additions = forward.tangents.iter().map(tangent).collect::<Result<Vec<_>>>()?;
    extend(forward.program.signature(), at, &additions)
}

/// `Df' dy`: the adjoint of each active parameter.
///
/// # Errors
/// As [`Subject::evaluate`].
pub fn adjoints<T: Numeric, P: Subject>(
    adjoint: Adjoint<'_, P>,
    at: &Environment<T>,
    seed: &[Vec<Leaf<T>>],
    limits: Limits,
) -> Result<Vec<(ParamId, Vec<Leaf<T>>)>> {
    adjoints_by(adjoint, at, seed, |at, numbers| run(adjoint.program, at, Some(numbers), limits))
}

fn adjoints_by<T: Numeric, P: Subject>(
    adjoint: Adjoint<'_, P>,
    at: &Environment<T>,
    seed: &[Vec<Leaf<T>>],
    run: impl FnOnce(&Environment<T>, Vec<usize>) -> Result<Vec<Vec<Leaf<T>>>>,
) -> Result<Vec<(ParamId, Vec<Leaf<T>>)>> {
    let additions: Vec<_> = adjoint.seeds.iter().copied().zip(seed.iter().cloned()).collect();
    let at = extend(adjoint.program.signature(), at, &additions)?;
    let values = run(&at, adjoint.outputs.iter().map(|(_, k)| *k).collect())?;
    Ok(adjoint.outputs.iter().map(|(x, _)| *x).zip(values).collect())
}

/// The products of corresponding elements.
fn products<T: Numeric>(a: &[Leaf<T>], b: &[Leaf<T>], into: &mut Vec<T>) -> Result<()> {
    if a.len() != b.len() {
        return Err(Error::Request(format!("{} components are expected, found {}", a.len(), b.len())));
    }
    for (a, b) in a.iter().zip(b) {
        into.extend(a.zip(b, T::mul)?.values().iter().cloned());
    }
    Ok(())
}

/// The terms of `<Df dx, dy>` and of `<dx, Df' dy>`.
///
/// # Errors
/// As [`Subject::evaluate`]; [`Error::Data`] where shapes differ.
pub fn identity_terms<T: Numeric, P: Subject>(
    forward: Forward<'_, P>,
    adjoint: Adjoint<'_, P>,
    at: &Environment<T>,
    direction: &Assignment<T>,
    seed: &[Vec<Leaf<T>>],
    limits: Limits,
) -> Result<[Vec<T>; 2]> {
    terms(tangents(forward, at, direction, limits)?, adjoints(adjoint, at, seed, limits)?, direction, seed)
}

fn terms<T: Numeric>(
    tangents: Vec<Vec<Leaf<T>>>,
    adjoints: Vec<(ParamId, Vec<Leaf<T>>)>,
    direction: &Assignment<T>,
    seed: &[Vec<Leaf<T>>],
) -> Result<[Vec<T>; 2]> {
    if tangents.len() != seed.len() {
        return Err(Error::Request(format!("{} seeds are expected, found {}", tangents.len(), seed.len())));
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (dy, y) in seed.iter().zip(&tangents) {
        products(dy, y, &mut left)?;
    }
    for (x, adjoint) in adjoints {
        products(direction_of(direction, x)?, &adjoint, &mut right)?;
    }
    Ok([left, right])
}

/// `|<Df dx, dy> - <dx, Df' dy>|` against the sum of the absolute values of the terms of both.
///
/// # Errors
/// As [`identity_terms`].
pub fn adjoint_identity<P: Subject>(
    forward: Forward<'_, P>,
    adjoint: Adjoint<'_, P>,
    at: &Environment<f64>,
    direction: &Assignment<f64>,
    seed: &[Vec<Leaf<f64>>],
    judge: Judge<'_, P>,
) -> Result<Figure> {
    let tangents = judge.tangents(forward, at, direction)?;
    let adjoints = adjoints_by(adjoint, at, seed, |at, numbers| judge.run(adjoint.program, at, Some(numbers)))?;
    let [left, right] = terms(tangents, adjoints, direction, seed)?;
    Ok(difference_of_sums(&left, &right))
}

/// `|<f x, dy> - <x, f' dy>|` against the sum of the absolute values of the terms of both, for a program that is linear in some parameters
/// and its transposed program, which has the other parameters, by name, and a seed for each output.
///
/// # Errors
/// As [`Subject::evaluate`]; [`Error::Request`] if a parameter of the transposed program has no value.
pub fn transposition<P: Subject>(
    primal: &P,
    wrt: &[ParamId],
    transposed: &P,
    seeds: &[ParamId],
    at: &Environment<f64>,
    seed: &[Vec<Leaf<f64>>],
    judge: Judge<'_, P>,
) -> Result<Figure> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (dy, y) in seed.iter().zip(judge.run(primal, at, None)?) {
        products(dy, &y, &mut left)?;
    }
    let mut params = Vec::new();
    for (id, param) in transposed.signature().params.iter() {
        let seed = seeds.iter().position(|dy| *dy == id).and_then(|k| seed.get(k));
        let own = primal.signature().param(&param.name);
        params.push(match (seed, own) {
            (Some(seed), _) => seed.clone(),
            (None, Some(own)) => at.param(own)?.to_vec(),
            (None, None) => return Err(Error::Request(format!("`{}` has no value", param.name))),
        });
    }
    let adjoints = judge.run(transposed, &Environment { params, ..at.clone() }, None)?;
    for (x, adjoint) in wrt.iter().zip(&adjoints) {
        products(at.param(*x)?, adjoint, &mut right)?;
    }
    Ok(difference_of_sums(&left, &right))
}

/// The difference of two sums against the sum of the absolute values of all their terms.
fn difference_of_sums(left: &[f64], right: &[f64]) -> Figure {
    let difference = (left.iter().sum::<f64>() - right.iter().sum::<f64>()).abs();
    Figure { difference, scale: left.iter().chain(right).map(|x| x.abs()).sum() }
}

/// The environment with each leaf of an active parameter changed along the direction.
fn along<U>(
    at: &Environment<f64>,
    direction: &Assignment<f64>,
    constant: impl Fn(f64) -> U,
    moved: impl Fn(f64, f64) -> U,
) -> Result<Environment<U>> {
    at.map(|p, k, leaf| match direction.iter().find(|(q, _)| *q == p) {
        Some((_, leaves)) => {
            let direction =
                leaves.get(k).ok_or_else(|| Error::Request(format!("the direction of {p} is incomplete")))?;
            leaf.zip(direction, |x, dx| moved(*x, *dx))
        }
        None => leaf.map(|x| Ok(constant(*x))),
    })
}

/// The largest difference between `Df dx` and another way to it, against the largest derivative.
fn compare(found: &[Vec<Leaf<f64>>], expected: impl Iterator<Item = f64>) -> Figure {
    let found = found.iter().flatten().flat_map(Leaf::values);
    let (mut difference, mut scale) = (0.0, 0.0);
    for (x, y) in found.zip(expected) {
        // Unlike `f64::max`, these keep a NaN.
        let gap = (x - y).abs();
        difference = if gap > difference || gap.is_nan() { gap } else { difference };
        scale = f64::max(scale, x.abs().max(y.abs()));
    }
    Figure { difference, scale }
}

/// `Df dx` against the primal over dual numbers.
///
/// # Errors
/// As [`Subject::evaluate`].
pub fn dual_numbers<P: Subject>(
    primal: &P,
    forward: Forward<'_, P>,
    at: &Environment<f64>,
    direction: &Assignment<f64>,
    judge: Judge<'_, P>,
) -> Result<Figure> {
    let duals = run(primal, &along(at, direction, Dual::constant, Dual::new)?, None, judge.limits)?;
    let expected = duals.iter().flatten().flat_map(Leaf::values).map(Dual::derivative);
    Ok(compare(&judge.tangents(forward, at, direction)?, expected))
}

/// `Df dx` against `Im f(x + i*h*dx) / h`.
///
/// # Errors
/// As [`Subject::evaluate`]; [`Error::Limitation`] where a function has no complex value.
pub fn complex_step<P: Subject>(
    primal: &P,
    forward: Forward<'_, P>,
    at: &Environment<f64>,
    direction: &Assignment<f64>,
    judge: Judge<'_, P>,
) -> Result<Figure> {
    // So small that its square vanishes beside 1, so nothing is lost but rounding.
    const STEP: f64 = 1e-40;
    let moved = along(at, direction, |x| Complex64::new(x, 0.0), |x, dx| Complex64::new(x, STEP * dx))?;
    let values = run(primal, &moved, None, judge.limits)?;
    let expected = values.iter().flatten().flat_map(Leaf::values).map(|z| z.im / STEP);
    Ok(compare(&judge.tangents(forward, at, direction)?, expected))
}

/// A thousandth, of the largest number of a direction.
fn step(direction: &Assignment<f64>) -> f64 {
    let largest =
        direction.iter().flat_map(|(_, leaves)| leaves).flat_map(Leaf::values).fold(0.0, |m, x| f64::max(m, x.abs()));
    1e-3 / if largest > 0.0 { largest } else { 1.0 }
}

/// The values by what is judged against those of the reference evaluator.
///
/// Where the terms of a value cancel, as in a loss at its minimum, its rounding is that of the terms. So the scale is the largest value here
/// or a step along the direction away.
///
/// # Errors
/// As [`Subject::evaluate`].
pub fn values<P: Subject>(
    primal: &P,
    at: &Environment<f64>,
    direction: &Assignment<f64>,
    judge: Judge<'_, P>,
) -> Result<Figure> {
    let expected = run(primal, at, None, judge.limits)?;
    let figure = compare(&judge.run(primal, at, None)?, expected.iter().flatten().flat_map(Leaf::values).copied());
    let (mut scale, h) = (figure.scale, step(direction));
    for step in [-h, h] {
        let moved = along(at, direction, |x| x, |x, dx| x + step * dx)?;
        let values = run(primal, &moved, None, judge.limits)?;
        let sizes = values.iter().flatten().flat_map(Leaf::values).map(|y| y.abs()).filter(|y| y.is_finite());
        scale = sizes.fold(scale, f64::max);
    }
    Ok(Figure { scale, ..figure })
}

/// What finite differences resolve of their terms. A move by `h` is itself rounded, by some 1e-13 of it, and so are the terms;
/// against this scale that is 1e-7.
const FINEST: f64 = 1e-6;

/// How many steps are tried, each an eighth of the one before.
const STEPS: usize = 5;

/// `Df dx` against `(f(x - 2h dx) - 8 f(x - h dx) + 8 f(x + h dx) - f(x + 2h dx)) / 12h`; nothing where the program has a kink here.
///
/// The step is the largest for which a step of an eighth gives the same, which does not ask what is judged: a program that branches has kinks nearby,
/// and a step that reaches one says nothing. Where no step does, or the differences on both sides stay apart however short they are, there is a
/// kink at the place itself.
///
/// Where `Df dx` is small the four terms cancel and leave their rounding, so the scale is at least a millionth of the terms.
///
/// # Errors
/// As [`Subject::evaluate`].
pub fn finite_differences<P: Subject>(
    primal: &P,
    forward: Forward<'_, P>,
    at: &Environment<f64>,
    direction: &Assignment<f64>,
    judge: Judge<'_, P>,
) -> Result<Option<Figure>> {
    let along = |step: f64| values_along(primal, at, direction, step, judge);
    let tangents = judge.tangents(forward, at, direction)?;
    let mut h = step(direction);
    let mut found = Differences::of(&along, h)?;
    for _ in 1..STEPS {
        let finer = Differences::of(&along, h / 8.0)?;
        if !found.agrees(&finer) {
            (found, h) = (finer, h / 8.0);
            continue;
        }
        let figure = compare(&tangents, found.slopes.iter().copied());
        let figure = Figure { scale: figure.scale.max(found.resolved), ..figure };
        let is_kink = figure.ratio() > FINEST && is_kink(&along, h, figure.scale)?;
        return Ok((!is_kink).then_some(figure));
    }
    Ok(None)
}

/// Whether the program has a kink here, which slopes of this size show: there the complex step takes one side, and derivatives may take another.
///
/// # Errors
/// As [`Subject::evaluate`].
pub fn has_kink<P: Subject>(
    primal: &P,
    at: &Environment<f64>,
    direction: &Assignment<f64>,
    scale: f64,
    judge: Judge<'_, P>,
) -> Result<bool> {
    is_kink(&|h| values_along(primal, at, direction, h, judge), step(direction) / 64.0, scale)
}

/// All numbers of the results a step along the direction away.
fn values_along<P: Subject>(
    primal: &P,
    at: &Environment<f64>,
    direction: &Assignment<f64>,
    step: f64,
    judge: Judge<'_, P>,
) -> Result<Vec<f64>> {
    let values = judge.run(primal, &along(at, direction, |x| x, |x, dx| x + step * dx)?, None)?;
    Ok(values.iter().flatten().flat_map(Leaf::values).copied().collect())
}

/// Slopes of all results, and the least one that the terms of which they are made resolve.
struct Differences {
    slopes: Vec<f64>,
    resolved: f64,
}

impl Differences {
    /// The error of the formula is h^4, that of rounding epsilon / h.
    fn of(along: &dyn Fn(f64) -> Result<Vec<f64>>, h: f64) -> Result<Differences> {
        let (mut slopes, mut terms): (Vec<f64>, f64) = (Vec::new(), 0.0);
        for (step, weight) in [(-2.0, 1.0), (-1.0, -8.0), (1.0, 8.0), (2.0, -1.0)] {
            let values: Vec<f64> = along(step * h)?.into_iter().map(|y| weight * y / (12.0 * h)).collect();
            terms = values.iter().fold(terms, |m, y| f64::max(m, y.abs()));
            slopes.resize(values.len(), 0.0);
            slopes.iter_mut().zip(values).for_each(|(sum, y)| *sum += y);
        }
        Ok(Differences { slopes, resolved: FINEST * terms })
    }

    /// Whether those of a finer step are the same, as far as that resolves them.
    fn agrees(&self, finer: &Differences) -> bool {
        let scale = self.slopes.iter().fold(finer.resolved, |m, y| f64::max(m, y.abs()));
        let same =
            |(a, b): (&f64, &f64)| f64::is_nan(*a) && f64::is_nan(*b) || a == b || (a - b).abs() <= FINEST * scale;
        self.slopes.iter().zip(&finer.slopes).all(same)
    }
}

/// Whether slopes on both sides are apart, and no less for a step of an eighth.
fn is_kink(along: &dyn Fn(f64) -> Result<Vec<f64>>, h: f64, scale: f64) -> Result<bool> {
    let here = along(0.0)?;
    let apart = |h: f64| -> Result<f64> {
        let (before, after) = (along(-h)?, along(h)?);
        let sides = here.iter().zip(before.iter().zip(&after));
        Ok(sides.fold(0.0, |m, (y, (a, b))| f64::max(m, ((a - y) + (b - y)).abs() / h)))
    };
    let (wide, near) = (apart(h)?, apart(h / 8.0)?);
    Ok(near > FINEST * scale && near > wide / 2.0)
}

/// Numbers in `-1 .. 1` in the shape of the given leaves, the same for the same seed.
pub fn random_like<T>(leaves: &[Leaf<T>], seed: u64) -> Result<Vec<Leaf<f64>>> {
    let mut state = seed;
    let mut next = |_: &T| {
        // SplitMix64, the standard choice for seeding: any state is good.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Ok(((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    };
    leaves.iter().map(|leaf| leaf.map(&mut next)).collect()
}

/// A direction for some parameters of an environment: [`random_like`] their values.
///
/// # Errors
/// [`Error::Bug`] for a parameter that has no value.
pub fn random_direction<T>(
    at: &Environment<T>,
    params: &[ParamId],
    seed: u64,
) -> Result<Vec<(ParamId, Vec<Leaf<f64>>)>> {
    let direction = |p: &ParamId| Ok((*p, random_like(at.param(*p)?, seed.wrapping_add(p.index() as u64))?));
    params.iter().map(direction).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::numeric::Field;
    use super::super::testing::{X, Y, environment, limits, n, signature};
    use super::*;
    use crate::base::VarId;
    use crate::index::Pred;
    use crate::scalar::{Function, Op, Primitive};
    use crate::tssa::{Builder, Operand, Output};
    use crate::ty::{Param, Signature, Storage, Types};

    const FIRST_NEW: ParamId = ParamId(6);

    /// The signature with one more parameter.
    fn with(name: &str, dims: &[crate::index::Size]) -> Arc<Signature> {
        let mut signature = signature();
        let ty = signature.types.tensor_of(dims, Types::REAL);
        signature.params.push(Param { name: name.into(), ty, storage: Storage::Dense });
        Arc::new(signature)
    }

    fn output(name: &str, x: VarId) -> Vec<Output> {
        vec![Output { name: name.into(), ty: Types::REAL, storage: Storage::Dense, leaves: vec![x] }]
    }

    fn at_each(b: &mut Builder, x: VarId, y: VarId) -> VarId {
        let g = b.fresh_indices(&[n()]);
        let operand = |var| Operand { var, indices: vec![g[0].0] };
        b.contract(&g, &[], Pred::True, vec![operand(x), operand(y)]).unwrap()
    }

    /// `v[i] = f(x[i])`, its tangent `f'(x[i]) * dx[i]` and its adjoint `f'(x[i]) * dv[i]`, with the tangent scaled by `factor`.
    fn programs(function: Op, factor: f64) -> [Program; 3] {
        let partial = Function::Partial(Primitive::Op(function), 0);
        let build = |name: &str, function: Function, scale: f64| {
            let mut b = Builder::new(with(name, &[n()]));
            let x = b.input(X, vec![], vec![n()]);
            let g = b.fresh_indices(&[n()]);
            let mut v = b.map(&g, Pred::True, function, vec![x]).unwrap();
            if !name.is_empty() {
                let d = b.input(FIRST_NEW, vec![], vec![n()]);
                v = at_each(&mut b, v, d);
            }
            if scale != 1.0 {
                let k = b.number(&g, crate::scalar::Number::Literal(scale)).unwrap();
                v = at_each(&mut b, v, k);
            }
            b.finish(output("v", v))
        };
        let mut primal = build("", function.into(), 1.0);
        primal.signature = Arc::new(signature());
        [primal, build("x_tan", partial, factor), build("v_adj", partial, 1.0)]
    }

    fn report(function: Op, factor: f64) -> Report {
        report_at(function, factor, |x| x as f64)
    }

    fn report_at(function: Op, factor: f64, number: impl Fn(i64) -> f64) -> Report {
        let [primal, forward, adjoint] = &programs(function, factor);
        let forward = Forward { program: forward, tangents: &[(X, FIRST_NEW)], outputs: &[0] };
        let adjoint = Adjoint { program: adjoint, seeds: &[FIRST_NEW], outputs: &[(X, 0)] };
        let at = environment(number);
        let direction = random_direction(&at, &[X], 1).unwrap();
        let seed = random_like(at.param(X).unwrap(), 2).unwrap();
        check(primal, forward, adjoint, &at, &direction, &[seed], limits().into()).unwrap()
    }

    #[test]
    fn right_derivatives_pass() {
        for function in [Op::Powi(3), Op::Sin, Op::Ln, Op::Tanh, Op::Sqrt] {
            let report = report(function, 1.0);
            assert!(report.adjoint_identity.ratio() <= 8.0 * f64::EPSILON, "{function:?} {report:?}");
            assert!(report.dual_numbers.ratio() <= 8.0 * f64::EPSILON, "{function:?} {report:?}");
            assert!(report.complex_step.is_some_and(|f| f.ratio() <= 1e-13), "{function:?} {report:?}");
            assert!(report.finite_differences.is_some_and(|f| f.ratio() <= 1e-9), "{function:?} {report:?}");
        }
    }

    /// Where the derivative is nearly 0, differences are made of rounding.
    #[test]
    fn right_derivatives_pass_at_stationary_points() {
        let figure = report_at(Op::Sin, 1.0, |_| std::f64::consts::FRAC_PI_2).finite_differences.unwrap();
        assert!(figure.difference > 0.0 && figure.ratio() <= 1e-6, "{figure:?}");
    }

    /// A kink nearby is passed by, for a step that does not reach it; one at the place itself is told from a derivative that is wrong.
    #[test]
    fn kinks_are_kinks() {
        for near in [1e-2, 1e-4, -1e-5] {
            let right = report_at(Op::Abs, 1.0, |_| near).finite_differences.unwrap();
            assert!(right.ratio() <= 1e-9, "{near}: {right:?}");
            let wrong = report_at(Op::Abs, 1.000_1, |_| near).finite_differences.unwrap();
            assert!(wrong.ratio() > 1e-5, "{near}: {wrong:?}");
        }
        // Nearer than any step.
        assert_eq!(report_at(Op::Abs, 1.0, |_| 1e-9).finite_differences, None);
    }

    /// A tangent that is wrong by one part in a million fails every check.
    #[test]
    fn wrong_derivatives_fail() {
        let Report { adjoint_identity, dual_numbers, complex_step, finite_differences } = report(Op::Powi(3), 1.000001);
        for figure in [Some(adjoint_identity), Some(dual_numbers), complex_step, finite_differences] {
            assert!(figure.is_some_and(|f| f.ratio() > 1e-8), "{figure:?}");
        }
    }

    /// Over a prime field the identity is an equality: for a wrong derivative it fails.
    #[test]
    fn polynomial_identities_are_exact() {
        let [_, forward, adjoint] = &programs(Op::Powi(5), 1.0);
        let [_, wrong, _] = &programs(Op::Powi(4), 1.0);
        let at = environment(|x| Field::new(0x1234_5678_9abc_def1 ^ (x as u64) << 40));
        let numbers = |k: u64| vec![at.param(X).unwrap()[0].map(|x| Ok(x.pow(k))).unwrap()];
        let adjoint = Adjoint { program: adjoint, seeds: &[FIRST_NEW], outputs: &[(X, 0)] };
        let equal = |program| {
            let forward = Forward { program, tangents: &[(X, FIRST_NEW)], outputs: &[0] };
            let direction = [(X, numbers(7))];
            let sides = identity_terms(forward, adjoint, &at, &direction, &[numbers(11)], limits()).unwrap();
            let [left, right] = sides.map(|terms| terms.iter().fold(Field::zero(), |sum, x| sum.add(x)));
            left == right
        };
        assert!(equal(forward));
        assert!(!equal(wrong));
    }

    #[test]
    fn missing_values_are_requests() {
        let [_, forward, _] = &programs(Op::Sin, 1.0);
        let forward = Forward { program: forward, tangents: &[(X, FIRST_NEW)], outputs: &[0] };
        let at = environment(|x| x as f64);
        let direction = random_direction(&at, &[Y], 1).unwrap();
        assert!(matches!(tangents(forward, &at, &direction, limits()), Err(Error::Request(_))));
    }

    #[test]
    fn a_nan_is_never_close() {
        let leaf = |x| vec![vec![Leaf::scalar(x)]];
        assert_eq!(compare(&leaf(f64::NAN), [1.0].into_iter()).ratio(), f64::INFINITY);
        assert_eq!(compare(&leaf(0.0), [0.0].into_iter()).ratio(), 0.0);
    }
}

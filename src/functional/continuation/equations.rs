//! The rules of the optimiser, as data.

use super::data::{Atom, Block, End, Rhs, Sweep, Tail, Type, Var};
use super::optimise::Optimiser;
use crate::error::Result;

/// A rule of the optimiser: both sides have the same value.
pub struct Equation {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub text: &'static str,
    /// The value of an operation, where the rule applies to it.
    pub(super) apply: fn(&mut Optimiser, &Rhs) -> Result<Option<Atom>>,
}

/// All rules; the first that applies is applied.
pub const EQUATIONS: &[Equation] = &[
    Equation { name: "add-zero", text: "0 + e == e", apply: add_zero },
    Equation { name: "add-numbers", text: "r + s == the number r + s", apply: add_numbers },
    Equation { name: "mul-zero", text: "0 * e == 0", apply: mul_zero },
    Equation { name: "mul-one", text: "1 * e == e", apply: mul_one },
    Equation { name: "mul-numbers", text: "r * s == the number r * s", apply: mul_numbers },
    Equation { name: "factor", text: "a * b + a * c == a * (b + c)", apply: factor },
    Equation { name: "part-tuple", text: "(a, b).0 == a", apply: part_tuple },
    Equation { name: "part-add", text: "(a + b).k == a.k + b.k", apply: part_add },
    Equation { name: "map-identity", text: "map (x -> x) A == A", apply: map_identity },
    Equation { name: "map-unused", text: "map2 (a, b. e) A B == map (b -> e) B, where e has no a", apply: map_unused },
    Equation { name: "map-same", text: "map2 (a, b. e) A A == map (a -> e[a / b]) A", apply: map_same },
    Equation {
        name: "map-fuse",
        text: "map f (map g A) == map (x -> f (g x)) A, where map g A is read once or g is constant",
        apply: map_fuse,
    },
    Equation { name: "map-commute", text: "map2 * A B == map2 * B A, for one order of operations", apply: map_commute },
    Equation {
        name: "shift-map",
        text: "shift1L (map f A) == map f (shift1L A), on the same conditions",
        apply: shift_map,
    },
    Equation {
        name: "shift-ones",
        text: "shift1L (scanr * 1 (map (x -> 1) A)) == map (x -> 1) A, and shift1R, scanl",
        apply: shift_ones,
    },
    Equation {
        name: "shift-scanr",
        text: "shift1L (scanr f c A) == scanr f c (shift1L A), where A has an element",
        apply: shift_scanr,
    },
    Equation { name: "reduce-ones", text: "reduce * c (map (x -> 1) A) == c", apply: reduce_ones },
    Equation { name: "reduce-zeros", text: "reduce + c (map (x -> 0) A) == c", apply: reduce_zeros },
];

fn is_number(a: Atom, r: f64) -> bool {
    matches!(a, Atom::Number(x) if x == r)
}

fn is_zero(a: Atom) -> bool {
    matches!(a, Atom::Zero(_)) || is_number(a, 0.0)
}

fn add_zero(_: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    Ok(match rhs {
        Rhs::Add(zero, e) | Rhs::Add(e, zero) if is_zero(*zero) => Some(*e),
        _ => None,
    })
}

fn add_numbers(_: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    Ok(match rhs {
        Rhs::Add(Atom::Number(r), Atom::Number(s)) => Some(Atom::Number(r + s)),
        _ => None,
    })
}

fn mul_zero(_: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    Ok(match rhs {
        Rhs::Mul(zero, _) | Rhs::Mul(_, zero) if is_zero(*zero) => Some(Atom::Number(0.0)),
        _ => None,
    })
}

fn mul_one(_: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    Ok(match rhs {
        Rhs::Mul(one, e) | Rhs::Mul(e, one) if is_number(*one, 1.0) => Some(*e),
        _ => None,
    })
}

fn mul_numbers(_: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    Ok(match rhs {
        Rhs::Mul(Atom::Number(r), Atom::Number(s)) => Some(Atom::Number(r * s)),
        _ => None,
    })
}

/// Only where both products are read here alone; else there would be more of them.
fn factor(optimiser: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Add(p, q) = rhs else { return Ok(None) };
    let (Some(Rhs::Mul(a, b)), Some(Rhs::Mul(c, d))) = (optimiser.definition(*p), optimiser.definition(*q)) else {
        return Ok(None);
    };
    let (a, b, c, d) = (*a, *b, *c, *d);
    if p == q || !optimiser.is_read_once(*p) || !optimiser.is_read_once(*q) {
        return Ok(None);
    }
    let (common, left, right) = match () {
        () if a == c => (a, b, d),
        () if a == d => (a, b, c),
        () if b == c => (b, a, d),
        () if b == d => (b, a, c),
        () => return Ok(None),
    };
    let sum = optimiser.emit(Rhs::Add(left, right), None)?;
    optimiser.emit(Rhs::Mul(common, sum), None).map(Some)
}

fn part_tuple(optimiser: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Part(a, k) = rhs else { return Ok(None) };
    Ok(match optimiser.definition(*a) {
        Some(Rhs::Tuple(of)) => of.get(*k).copied(),
        _ => None,
    })
}

/// A sum of tuples is not computed where components are all that is read.
fn part_add(optimiser: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Part(sum, k) = rhs else { return Ok(None) };
    let Some(Rhs::Add(a, b)) = optimiser.definition(*sum) else { return Ok(None) };
    let (a, b) = (*a, *b);
    let left = optimiser.emit(Rhs::Part(a, *k), None)?;
    let right = optimiser.emit(Rhs::Part(b, *k), None)?;
    optimiser.emit(Rhs::Add(left, right), None).map(Some)
}

fn map_identity(_: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Map { params, body, arrays } = rhs else { return Ok(None) };
    Ok(match (&params[..], &body.tail) {
        ([x], Tail::Value(Atom::Var(y))) if x == y => Some(arrays[0]),
        _ => None,
    })
}

/// A map of fewer arrays, which a choice says.
fn choose(optimiser: &mut Optimiser, rhs: &Rhs, chosen: &[usize]) -> Result<Option<Atom>> {
    let Rhs::Map { params, body, arrays } = rhs else { return Ok(None) };
    let pick = |of: &[Atom]| chosen.iter().map(|k| of[*k]).collect();
    let map =
        Rhs::Map { params: chosen.iter().map(|k| params[*k]).collect(), body: body.clone(), arrays: pick(arrays) };
    optimiser.emit(map, None).map(Some)
}

/// Of arrays whose elements are not read one stays, if no other does: a parameter of the program, if there is one.
fn map_unused(optimiser: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Map { params, body, arrays } = rhs else { return Ok(None) };
    let read = super::data::free_variables(body, &[]);
    let mut chosen: Vec<usize> = (0..params.len()).filter(|k| read.contains(&params[*k])).collect();
    if chosen.is_empty() {
        let plain = arrays.iter().position(|a| optimiser.definition(*a).is_none());
        chosen.push(plain.unwrap_or(arrays.len() - 1));
    }
    if chosen.len() == params.len() { Ok(None) } else { choose(optimiser, rhs, &chosen) }
}

fn map_same(optimiser: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Map { params, body, arrays } = rhs else { return Ok(None) };
    let first = |k: usize| arrays.iter().position(|a| *a == arrays[k]).unwrap_or(k);
    let chosen: Vec<usize> = (0..arrays.len()).filter(|k| first(*k) == *k).collect();
    if chosen.len() == arrays.len() {
        return Ok(None);
    }
    let kept: Vec<Var> = chosen.iter().map(|k| params[*k]).collect();
    let (kept, body) = optimiser.body(&kept, |optimiser| {
        for (k, param) in params.iter().enumerate() {
            let stands = chosen.iter().position(|j| *j == first(k)).map(|j| kept[j]);
            if let Some(x) = stands.filter(|x| x != param) {
                let y = optimiser.standing_for(x);
                optimiser.stand_for(*param, y);
            }
        }
        optimiser.block(body)
    })?;
    let arrays = chosen.iter().map(|k| arrays[*k]).collect();
    optimiser.emit(Rhs::Map { params: kept, body: Box::new(body), arrays }, None).map(Some)
}

/// Whether a map can be computed where it is read without more work.
fn is_free(optimiser: &Optimiser, array: Atom, body: &Block) -> bool {
    body.stmts.is_empty() || optimiser.is_read_once(array)
}

fn map_fuse(optimiser: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Map { params, body, arrays } = rhs else { return Ok(None) };
    let inner = arrays.iter().enumerate().find_map(|(k, a)| match optimiser.definition(*a) {
        Some(Rhs::Map { params, body, arrays }) if is_free(optimiser, *a, body) => {
            Some((k, params.clone(), body.clone(), arrays.clone()))
        }
        _ => None,
    });
    let Some((k, inner_params, inner_body, inner_arrays)) = inner else { return Ok(None) };
    let others: Vec<usize> = (0..params.len()).filter(|j| *j != k).collect();
    let all: Vec<Var> = others.iter().map(|j| params[*j]).chain(inner_params).collect();
    let (fresh, body) = optimiser.body(&all, |optimiser| {
        let element = optimiser.block(&inner_body)?;
        optimiser.stand_for(params[k], element);
        optimiser.block(body)
    })?;
    let arrays = others.iter().map(|j| arrays[*j]).chain(inner_arrays).collect();
    optimiser.emit(Rhs::Map { params: fresh, body: Box::new(body), arrays }, None).map(Some)
}

/// The place of the operation that computes an array in the order of operations; that of what it shifts, where it is a shift.
fn rank(optimiser: &Optimiser, array: Atom) -> (u8, u8, Option<Var>) {
    let kind = |a: Atom| match optimiser.definition(a) {
        Some(Rhs::Map { .. }) => 0,
        Some(Rhs::Scan(End::Last, _)) => 1,
        Some(Rhs::Scan(End::First, _)) => 2,
        Some(Rhs::Drop(..)) => 3,
        Some(_) => 4,
        None => 5,
    };
    let shifted = match optimiser.definition(array) {
        Some(Rhs::Drop(_, of)) => kind(*of),
        _ => 0,
    };
    (kind(array), shifted, array.var())
}

fn map_commute(optimiser: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Map { params, body, arrays } = rhs else { return Ok(None) };
    let ([x, y], [stmt]) = (&params[..], &body.stmts[..]) else { return Ok(None) };
    let (Rhs::Add(a, b) | Rhs::Mul(a, b)) = stmt.rhs else { return Ok(None) };
    if body.tail != Tail::Value(Atom::Var(stmt.var)) || a == b || stmt.rhs.operands().iter().any(|a| a.var().is_none())
    {
        return Ok(None);
    }
    let commutes = (a, b) == (Atom::Var(*x), Atom::Var(*y)) || (a, b) == (Atom::Var(*y), Atom::Var(*x));
    let in_order = a == Atom::Var(*x) && rank(optimiser, arrays[0]) <= rank(optimiser, arrays[1]);
    if !commutes || in_order {
        return Ok(None);
    }
    let mut arrays = arrays.clone();
    arrays.sort_by_key(|a| rank(optimiser, *a));
    let mut body = body.clone();
    body.stmts[0].rhs = match stmt.rhs {
        Rhs::Add(..) => Rhs::Add(Atom::Var(*x), Atom::Var(*y)),
        _ => Rhs::Mul(Atom::Var(*x), Atom::Var(*y)),
    };
    optimiser.emit(Rhs::Map { params: params.clone(), body, arrays }, None).map(Some)
}

fn shift_map(optimiser: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Drop(end, a) = rhs else { return Ok(None) };
    let (params, body, arrays) = match optimiser.definition(*a) {
        Some(Rhs::Map { params, body, arrays }) if is_free(optimiser, *a, body) => {
            (params.clone(), body.clone(), arrays.clone())
        }
        _ => return Ok(None),
    };
    let mut shifted = Vec::with_capacity(arrays.len());
    for array in arrays {
        shifted.push(optimiser.emit(Rhs::Drop(*end, array), None)?);
    }
    let (params, body) = optimiser.body(&params, |optimiser| optimiser.block(&body))?;
    optimiser.emit(Rhs::Map { params, body: Box::new(body), arrays: shifted }, None).map(Some)
}

/// Whether a body is an operation of its two variables.
fn is_operation(sweep: &Sweep, operation: fn(Atom, Atom) -> Rhs) -> bool {
    let [stmt] = &sweep.body.stmts[..] else { return false };
    let (x, y) = (Atom::Var(sweep.state), Atom::Var(sweep.element));
    sweep.body.tail == Tail::Value(Atom::Var(stmt.var)) && (stmt.rhs == operation(x, y) || stmt.rhs == operation(y, x))
}

/// Whether all elements of an array are one number.
fn is_constant(optimiser: &Optimiser, array: Atom, r: f64) -> bool {
    match optimiser.definition(array) {
        Some(Rhs::Map { body, .. }) => matches!(body.tail, Tail::Value(a) if is_number(a, r)),
        _ => false,
    }
}

fn shift_ones(optimiser: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Drop(_, scan) = rhs else { return Ok(None) };
    Ok(match optimiser.definition(*scan) {
        Some(Rhs::Scan(_, sweep))
            if is_operation(sweep, Rhs::Mul)
                && is_number(sweep.init, 1.0)
                && is_constant(optimiser, sweep.array, 1.0) =>
        {
            Some(sweep.array)
        }
        _ => None,
    })
}

fn shift_scanr(optimiser: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Drop(End::First, scan) = rhs else { return Ok(None) };
    if !optimiser.assumptions.non_empty || !optimiser.is_read_once(*scan) {
        return Ok(None);
    }
    let Some(Rhs::Scan(End::Last, sweep)) = optimiser.definition(*scan) else { return Ok(None) };
    let sweep = sweep.clone();
    let array = optimiser.emit(Rhs::Drop(End::First, sweep.array), None)?;
    let (params, body) = optimiser.body(&[sweep.state, sweep.element], |optimiser| optimiser.block(&sweep.body))?;
    let sweep = Sweep { state: params[0], element: params[1], body, init: sweep.init, array };
    optimiser.emit(Rhs::Scan(End::Last, Box::new(sweep)), None).map(Some)
}

fn reduce_ones(optimiser: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Reduce(sweep) = rhs else { return Ok(None) };
    let ones = is_operation(sweep, Rhs::Mul) && is_constant(optimiser, sweep.array, 1.0);
    Ok(ones.then_some(sweep.init))
}

fn reduce_zeros(optimiser: &mut Optimiser, rhs: &Rhs) -> Result<Option<Atom>> {
    let Rhs::Reduce(sweep) = rhs else { return Ok(None) };
    let zeros = optimiser.ty(sweep.init) == Type::Real
        && is_operation(sweep, Rhs::Add)
        && is_constant(optimiser, sweep.array, 0.0);
    Ok(zeros.then_some(sweep.init))
}

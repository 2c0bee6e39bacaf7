//! What is written shorter than it stands: differences, elements of sparse parameters, comparisons and counts in brackets, largest elements.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::{Id, IndexId, VarId};
use crate::index::{Affine, Pred, RelationRef, Size, Var, View};
use crate::scalar::{Comparison, Function, Number, Op, Primitive};
use crate::solver::exists;
use crate::term::data::{Program, Term, TermId};

/// `-1 * e`, where `e` is no literal.
pub(super) fn negated(program: &Program, term: &Term) -> Option<TermId> {
    match *term {
        Term::Mul(a, b) if is_minus_one(&program.terms[a]) => {
            let literal = matches!(program.terms[b], Term::Number(Number::Literal(_)));
            (!literal).then_some(b)
        }
        _ => None,
    }
}

pub(super) fn is_minus_one(term: &Term) -> bool {
    matches!(term, Term::Number(Number::Literal(x)) if *x == -1.0)
}

/// Whether a term is an index as a number.
fn is_index(term: &Term) -> bool {
    matches!(term, Term::Number(Number::Index(a)) if a.as_index().is_some())
}

/// Whether the text of a term could be that of an index expression. Two of them compared are read back as a comparison of indices.
fn reads_as_index(program: &Program, term: TermId) -> bool {
    let mut stack = vec![term];
    while let Some(e) = stack.pop() {
        match &program.terms[e] {
            Term::Number(_) => {}
            term @ (Term::Add(..) | Term::Mul(..)) => term.for_each_operand(|operand| stack.push(operand)),
            _ => return false,
        }
    }
    true
}

/// Which compared variables have a single use, in the bracket inside their `let`, with nothing between but such `let`s, which stand in
/// the order in which the bracket asks: so they stand when it is read back.
pub(super) fn fold_comparisons(program: &Program) -> BTreeMap<VarId, TermId> {
    let mut candidates: BTreeMap<VarId, TermId> = BTreeMap::new();
    // The bracket inside each chain of `let`s.
    let mut bracket_in: BTreeMap<TermId, TermId> = BTreeMap::new();
    for (at, term) in program.terms.iter() {
        let Term::Let { var, value, body } = term else { continue };
        let bracket = match &program.terms[*body] {
            Term::Iverson { .. } => *body,
            _ => match bracket_in.get(body) {
                Some(bracket) => *bracket,
                None => continue,
            },
        };
        bracket_in.insert(at, bracket);
        let Term::Iverson { guard, .. } = &program.terms[bracket] else { continue };
        // The entries that it reads are among those of the bracket, which takes them to the comparison again when it is read.
        let (compare, entries) = match &program.terms[*value] {
            Term::Iverson { guard, body } => (*body, guard.conjuncts()),
            _ => (*value, &[][..]),
        };
        // A comparison for equality would be read back as a support where it compares a variable with 0.
        let compared = match &program.terms[compare] {
            Term::Apply(Function::Value(Primitive::Op(Op::Compare(op))), args) => {
                let is_read = |entry: &Pred| args.iter().any(|e| is_entry(program, entry, *e));
                let with_index = || args.iter().any(|e| is_index(&program.terms[*e]));
                (matches!(op, Comparison::Less | Comparison::LessEqual) || *op == Comparison::Equal && with_index())
                    && args.iter().any(|e| !reads_as_index(program, *e))
                    && entries.iter().all(|entry| guard.conjuncts().contains(entry) && is_read(entry))
            }
            _ => false,
        };
        if compared && folds_into(guard, *var, None) {
            candidates.insert(*var, compare);
        }
        if counted(program, *value).is_some() && folds_into(guard, *var, Some(false)) {
            candidates.insert(*var, *value);
        }
    }
    if candidates.is_empty() {
        return candidates;
    }
    let mut used = BTreeSet::new();
    let mut reject = BTreeSet::new();
    let mut visit = |r: RelationRef| {
        if let RelationRef::Computed { var, .. } = r
            && !used.insert(var)
        {
            reject.insert(var);
        }
    };
    for term in program.terms.values() {
        match term {
            Term::Iverson { guard, .. } => guard.visit_relations(&mut visit),
            Term::Number(Number::Index(a)) | Term::Access { index: a, .. } => a.visit(&mut |v| {
                if let Var::Apply(application) = v {
                    visit(application.map);
                }
            }),
            _ => {}
        }
    }
    for term in program.terms.values() {
        if let Term::Var(x) = term {
            reject.insert(*x);
        }
    }
    candidates.retain(|x, _| !reject.contains(x));
    without_others_between(program, &bracket_in, candidates)
}

/// Those whose `let` is directly around the bracket, or around another one of them that the bracket asks later.
fn without_others_between(
    program: &Program,
    bracket_in: &BTreeMap<TermId, TermId>,
    candidates: BTreeMap<VarId, TermId>,
) -> BTreeMap<VarId, TermId> {
    let mut kept = BTreeMap::new();
    let mut orders: BTreeMap<TermId, BTreeMap<VarId, usize>> = BTreeMap::new();
    // Bodies come before the `let`s around them.
    for (at, bracket) in bracket_in {
        let (Term::Let { var, body, .. }, Term::Iverson { guard, .. }) =
            (&program.terms[*at], &program.terms[*bracket])
        else {
            continue;
        };
        let Some(compare) = candidates.get(var) else { continue };
        let stays = match &program.terms[*body] {
            Term::Let { var: inner, .. } => {
                let order = orders.entry(*bracket).or_insert_with(|| order_asked(guard));
                kept.contains_key(inner) && order.get(var) < order.get(inner)
            }
            _ => true,
        };
        if stays {
            kept.insert(*var, *compare);
        }
    }
    kept
}

/// The places of variables among those that a bracket asks outside of `exists`, as it is written.
fn order_asked(guard: &Pred) -> BTreeMap<VarId, usize> {
    let mut order = BTreeMap::new();
    let mut stack = vec![guard];
    while let Some(p) = stack.pop() {
        match p {
            Pred::All(ps) | Pred::Any(ps) => {
                let mut ps: Vec<&Pred> = ps.iter().collect();
                ps.sort_by_key(|p| p.applied());
                stack.extend(ps.into_iter().rev());
            }
            Pred::Relation { relation: RelationRef::Computed { var, view: View::Support }, .. } => {
                let place = order.len();
                order.entry(*var).or_insert(place);
            }
            _ => {}
        }
    }
    order
}

/// Whether a term is `A.value(i, j)` and a predicate `A?(i, j)`.
pub(super) fn is_entry(program: &Program, p: &Pred, e: TermId) -> bool {
    let Pred::Relation { relation: RelationRef::Input(r), args, holds: true } = p else { return false };
    let (array, indices) = peel_access(program, e);
    let Term::Var(x) = program.terms[array] else { return false };
    let param = program.signature.params.values().nth(x.index());
    param.is_some_and(|param| param.storage.pattern() == Some(*r)) && args.iter().eq(indices)
}

/// The array under a chain of accesses, and the indices from the first axis on.
pub(super) fn peel_access(program: &Program, mut array: TermId) -> (TermId, Vec<&Affine>) {
    let mut indices = Vec::new();
    while let Term::Access { array: inner, index } = &program.terms[array] {
        indices.push(index);
        array = *inner;
    }
    indices.reverse();
    (array, indices)
}

/// Whether the variable stands in the guard as a truth value outside of `exists`, of this kind if one is asked for.
fn folds_into(guard: &Pred, var: VarId, kind: Option<bool>) -> bool {
    match guard {
        Pred::Relation { relation: RelationRef::Computed { var: x, view: View::Support }, args, holds } => {
            *x == var && args.is_empty() && kind.is_none_or(|kind| kind == *holds)
        }
        Pred::All(ps) | Pred::Any(ps) => ps.iter().any(|p| folds_into(p, var, kind)),
        _ => false,
    }
}

/// Of `sum k < n. [p] * 1` the predicate `exists k < n. p`, if its negation is read back as that sum being 0.
pub(super) fn counted(program: &Program, mut value: TermId) -> Option<Pred> {
    let mut sums = Vec::new();
    while let Term::Sum { index, extent, body } = &program.terms[value] {
        sums.push((*index, extent));
        value = *body;
    }
    let Term::Iverson { guard, body } = &program.terms[value] else { return None };
    let one = matches!(program.terms[*body], Term::Number(Number::Literal(x)) if x == 1.0);
    // What keeps maps in range would be read as a part of the sum.
    if !one || sums.is_empty() || guard.applies_maps() || matches!(guard, Pred::Exists { .. }) {
        return None;
    }
    let (outermost, n) = *sums.first()?;
    let mut body = guard.clone();
    for (index, extent) in sums.iter().skip(1).rev() {
        body = Pred::exists(*index, (*extent).clone(), body);
        matches!(body, Pred::Exists { .. }).then_some(())?;
    }
    let quantified = Pred::exists(outermost, n.clone(), body.clone());
    let stays = exists(outermost, n, &body).is_ok_and(|eliminated| eliminated.negate().is_none());
    (stays && matches!(quantified, Pred::Exists { .. })).then_some(quantified)
}

/// How far out a fact is looked for.
const MAX_AROUND: usize = 16;

/// Which terms are written `max k < n. v[i, k]`, with the sum over the place of the largest element in each.
///
/// ```text
/// (sum k < n. [(argmax l < n. v[i, l]) = k] * v[i, k]) + [n <= 0] * -inf
/// ```
///
/// Where `n >= 1` by what stands around, the sum alone, as it is read back. The other indices of `v` are those of loops over its
/// axes: these are in range.
pub(super) fn fold_largest(program: &Program) -> BTreeMap<TermId, TermId> {
    /// What stands around a place: one more, around that of the given number less one.
    enum Around<'a> {
        Range(IndexId, &'a Size, usize),
        Guard(&'a Pred, usize),
    }
    let mut found = BTreeMap::new();
    let mut scopes: Vec<Around<'_>> = Vec::new();
    let mut stack = vec![(program.root, 0usize)];
    while let Some((e, at)) = stack.pop() {
        let Some(term) = program.terms.get(e) else { continue };
        let range = |i: IndexId| {
            let mut at = at;
            for _ in 0..MAX_AROUND {
                match scopes.get(at.checked_sub(1)?)? {
                    Around::Range(j, extent, _) if *j == i => return Some(*extent),
                    Around::Range(_, _, outer) | Around::Guard(_, outer) => at = *outer,
                }
            }
            None
        };
        let positive = |n: &Size| {
            let claims = |p: &Pred| matches!(p, Pred::NonNegative(a) if n.add_constant(-1).as_ref() == Ok(a));
            let mut known = n.as_constant().is_some_and(|n| n >= 1) || program.signature.assumptions.iter().any(claims);
            let mut at = at;
            for _ in 0..MAX_AROUND {
                match at.checked_sub(1).and_then(|at| scopes.get(at)) {
                    Some(Around::Range(_, extent, outer)) => {
                        known |= *extent == n;
                        at = *outer;
                    }
                    Some(Around::Guard(p, outer)) => {
                        known |= p.conjuncts().iter().any(claims);
                        at = *outer;
                    }
                    None => break,
                }
            }
            known
        };
        let sum = match *term {
            Term::Add(sum, otherwise) => largest(program, sum, &range).filter(|(view, n)| {
                let limit = if *view == View::ArgMax { f64::NEG_INFINITY } else { f64::INFINITY };
                let Term::Iverson { guard, body } = &program.terms[otherwise] else { return false };
                matches!(program.terms[*body], Term::Number(Number::Literal(x)) if x == limit)
                    && n.scale(-1).is_ok_and(|n| *guard == Pred::non_negative(n))
                    && !positive(n)
            }),
            Term::Sum { .. } => largest(program, e, &range).filter(|(_, n)| positive(n)),
            _ => None,
        };
        if sum.is_some() {
            let sum = if let Term::Add(sum, _) = *term { sum } else { e };
            found.insert(e, sum);
            continue;
        }
        let inner = match term {
            Term::Gen { index, extent, .. } | Term::Sum { index, extent, .. } => {
                scopes.push(Around::Range(*index, extent, at));
                scopes.len()
            }
            Term::Iverson { guard, .. } => {
                scopes.push(Around::Guard(guard, at));
                scopes.len()
            }
            _ => at,
        };
        term.for_each_operand(|operand| stack.push((operand, inner)));
    }
    found
}

/// `sum k < n. [(argmax l < n. v[i, l]) = k] * v[i, k]`: which end, and `n`.
fn largest<'a>(
    program: &'a Program,
    e: TermId,
    range: &impl Fn(IndexId) -> Option<&'a Size>,
) -> Option<(View, &'a Size)> {
    let Term::Sum { index, extent, body } = &program.terms[e] else { return None };
    let Term::Iverson { guard, body } = &program.terms[*body] else { return None };
    let Pred::Relation { relation: RelationRef::Computed { var, view }, args, holds: true } = guard else {
        return None;
    };
    let dims = program.types.real_dims(program.variables.get(*var)?.ty)?;
    let (last, outer) = args.split_last()?;
    let mut array = *body;
    for a in args.iter().rev() {
        let Term::Access { array: inner, index } = &program.terms[array] else { return None };
        if index != a {
            return None;
        }
        array = *inner;
    }
    let sparse = program.signature.params.values().nth(var.index()).is_some_and(|p| p.storage.pattern().is_some());
    let found = *view != View::Support
        && !sparse
        && program.terms[array] == Term::Var(*var)
        && last.as_index() == Some(*index)
        && dims.len() == args.len()
        && dims.last() == Some(extent)
        && outer.iter().zip(&dims).all(|(a, n)| a.as_index().is_some_and(|i| i != *index && range(i) == Some(n)));
    found.then_some((*view, extent))
}

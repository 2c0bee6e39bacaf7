//! Terms that are added to places.

use std::collections::{BTreeMap, BTreeSet};

use super::depends::{is_positive, one};
use crate::base::IndexId;
use crate::error::Result;
use crate::loops::{Cond, Fresh, Place, Real, RealId, Stmt, changed_outside, only_sums};

/// The statements, under new names, that add to places what others add to registers; nothing where these do something else with them.
// Loops and tests nest to a bounded depth.
pub(in super::super) fn terms(
    names: &mut Fresh,
    body: &[Stmt],
    places: &BTreeMap<RealId, Place>,
) -> Result<Option<Vec<Stmt>>> {
    let mut out = Vec::new();
    for stmt in body {
        let changed = stmt.changes().filter(|r| places.contains_key(r));
        let sum = match stmt {
            Stmt::Accumulate(_, a) => Some((*a, None)),
            Stmt::MulAdd(_, a, b) => Some((*a, Some(*b))),
            _ => None,
        };
        match (changed, sum) {
            (Some(r), Some((a, b))) => {
                let (before, after) = (names.fresh_real(), names.fresh_real());
                let a = names.read(a);
                let sum = match b {
                    None => Real::Add(before, a),
                    Some(b) => Real::MulAdd(a, names.read(b), before),
                };
                let place = places[&r].clone();
                out.push(Stmt::Define(before, Real::Load(place.clone())));
                out.push(Stmt::Define(after, sum));
                out.push(Stmt::Store(place, after));
                continue;
            }
            (Some(_), None) => return Ok(None),
            (None, _) => {}
        }
        let inside: Vec<RealId> =
            changed_outside(std::slice::from_ref(stmt)).into_iter().filter(|r| places.contains_key(r)).collect();
        match stmt {
            Stmt::If { cond, body } if !inside.is_empty() => {
                let Some(body) = terms(names, body, places)? else { return Ok(None) };
                let test = names.body(&[Stmt::If { cond: cond.clone(), body: Vec::new() }])?;
                if let Some(Stmt::If { cond, .. }) = test.into_iter().next() {
                    out.push(Stmt::If { cond, body });
                }
            }
            // What an inner loop adds is added when it is done.
            Stmt::For { .. } if !inside.is_empty() => {
                if !only_sums(stmt.body()) {
                    return Ok(None);
                }
                for r in &inside {
                    let own = names.fresh_real();
                    out.push(Stmt::Local(own));
                    names.alias(*r, own);
                }
                out.extend(names.body(std::slice::from_ref(stmt))?);
                for r in &inside {
                    let (before, after) = (names.fresh_real(), names.fresh_real());
                    out.push(Stmt::Define(before, Real::Load(places[r].clone())));
                    out.push(Stmt::Define(after, Real::Add(before, names.read(*r))));
                    out.push(Stmt::Store(places[r].clone(), after));
                }
            }
            stmt => out.extend(names.body(std::slice::from_ref(stmt))?),
        }
    }
    Ok(Some(out))
}

/// Statements under tests that are renamed, but for those that always hold, since some indices are never negative, and one that is asked anyway.
pub(in super::super) fn under(
    names: &mut Fresh,
    tests: Vec<Cond>,
    (positive, asked): (&BTreeSet<IndexId>, Option<&Cond>),
    body: Vec<Stmt>,
) -> Result<Vec<Stmt>> {
    let test = names.body(&[Stmt::If { cond: Cond::All(tests), body: Vec::new() }])?;
    let Some(Stmt::If { cond: Cond::All(conds), .. }) = test.into_iter().next() else { return Ok(Vec::new()) };
    let holds = |cond: &Cond| asked == Some(cond) || matches!(cond, Cond::NonNegative(a) if is_positive(a, positive));
    let open: Vec<Cond> = conds.into_iter().filter(|cond| !holds(cond)).collect();
    Ok(tested(open, body))
}

/// Statements under all of some tests.
pub(in super::super) fn tested(conds: Vec<Cond>, body: Vec<Stmt>) -> Vec<Stmt> {
    if conds.is_empty() { body } else { vec![Stmt::If { cond: one(conds), body }] }
}

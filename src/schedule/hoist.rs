//! A factor that a loop does not change leaves the sum.
//!
//! ```text
//! for i { t += a(i) * (b(i) * c) }   ==   local s; for i { s += a(i) * b(i) }; t += s * c
//! ```
//!
//! It is one multiplication less in every round. Inner loops come first, so that a factor leaves as many loops as do not change it, and is no longer in
//! the way of what these compute once. Simplification does the same for whole tensors; what is left are factors of tensors that are computed in place.
//!
//! A sum of nothing is 0 whatever stands behind it, and `s * c` is not where `c` is infinite or no number. So `c` is replaced by 0 where the loop
//! has no rounds: outside of it, by a select on the length of an axis or on the first entry of a row.
//!
//! ```text
//! for k in R[i] { t += a(k) * c }   ==   local s; for k in R[i] { s += a(k) }; f = first k in R[i]; t += s * select(f + 1, c)
//! ```
//!
//! [Growing sums](super::prefix_sums) keep their factors: a step multiplies once.
//!
//! Literals and index expressions are finite and need no select. What bounds of several kinds leave of a range is not known by one number; there
//! other factors stay.
//!
//! Of more than two factors that stay, those come first that the outer loops change least: `(a(k) * b(j, k)) * c(i, k)` is one product for each `i`
//! where iterations over `i` are interleaved, and the first one is there for all.

use std::collections::{BTreeMap, BTreeSet};

use super::prefix_sums::is_apart;
use crate::base::{Arena, IndexId};
use crate::error::Result;
use crate::index::{Affine, Size};
use crate::loops::{
    Array, ArrayId, Bound, Decision, Domain, Fresh, Nest, Part, Program, Real, RealId, Search, Segment, Stmt,
};

/// Takes factors out of loops, inner ones first.
pub(super) fn run(program: &mut Program) -> Result<()> {
    let Program { arrays, nests, .. } = program;
    nests.iter_mut().filter(|nest| !is_apart(nest)).for_each(|nest| hoist(nest, arrays));
    Ok(())
}

fn hoist(nest: &mut Nest, arrays: &Arena<ArrayId, Array>) {
    let mut uses: BTreeMap<RealId, usize> = BTreeMap::new();
    for stmt in &nest.body {
        stmt.visit(&mut |stmt| stmt.visit_reads(&mut |r| *uses.entry(r).or_default() += 1));
    }
    let names = Fresh::after(&nest.body);
    let (changes, finite) = (BTreeMap::new(), BTreeSet::new());
    let mut pass = Pass { arrays, names, uses, around: Vec::new(), changes, finite, factors: 0 };
    nest.body = pass.body(std::mem::take(&mut nest.body));
    if pass.factors > 0 {
        nest.decisions.push(Decision::Hoisted { factors: pass.factors });
    }
}

/// The bit of a loop with so many around.
fn bit(depth: usize) -> u64 {
    1 << 63_usize.saturating_sub(depth)
}

struct Pass<'a> {
    arrays: &'a Arena<ArrayId, Array>,
    names: Fresh,
    uses: BTreeMap<RealId, usize>,
    /// The loops around.
    around: Vec<IndexId>,
    /// By which of the loops around a register is changed: the outermost ones are the highest bits.
    changes: BTreeMap<RealId, u64>,
    /// The registers that are finite whatever the data are.
    finite: BTreeSet<RealId>,
    /// How many it has taken out.
    factors: usize,
}

/// Whether a loop has any rounds.
enum Rounds {
    /// It has.
    Some,
    /// It has if this is positive; it is never negative.
    Length(Size),
    /// It has if there is an entry.
    Entries(Segment),
    /// It depends on more than one number.
    Unknown,
}

/// What tells whether a loop over a domain has any rounds. A node has nodes below it, or it would not be there; a row may have none.
fn rounds(domain: &Domain, arrays: &Arena<ArrayId, Array>) -> Rounds {
    let below = |segment: &Segment| arrays.get(segment.pointers).map(|array| array.part);
    let (lower, upper) = match domain {
        Domain::Segment(segment) if matches!(below(segment), Some(Part::Children(_))) => return Rounds::Some,
        Domain::Segment(segment) => return Rounds::Entries(segment.clone()),
        Domain::Range { lower, upper } => (lower.as_slice(), upper.as_slice()),
        Domain::Part { .. } => return Rounds::Unknown,
    };
    let length = |lower: &Bound, upper: &Bound| {
        let exact = lower.divisor == 1 && upper.divisor == 1;
        exact.then(|| upper.numerator.sub(&lower.numerator)?.add_constant(1))?.ok()
    };
    match (lower, upper) {
        ([lower], [upper]) => match length(lower, upper) {
            Some(n) if n.as_constant().is_some_and(|n| n > 0) => Rounds::Some,
            Some(n) if is_natural(&n) => Rounds::Length(n),
            _ => Rounds::Unknown,
        },
        _ => Rounds::Unknown,
    }
}

/// Whether an expression is a sum of sizes, and so never negative.
fn is_natural(a: &Affine) -> bool {
    a.is_size() && a.offset() >= 0 && a.terms().iter().all(|(_, k)| *k >= 0)
}

/// What the statements of a loop do with registers, those of inner loops included.
#[derive(Default)]
struct Inside {
    defined: BTreeSet<RealId>,
    /// How often each is changed.
    added: BTreeMap<RealId, usize>,
    read: BTreeSet<RealId>,
    /// Those of the loop itself.
    products: BTreeMap<RealId, (RealId, RealId)>,
}

impl Inside {
    fn of(body: &[Stmt]) -> Inside {
        let mut found = Inside::default();
        for stmt in body {
            if let Stmt::Define(r, Real::Mul(a, b)) = stmt {
                found.products.insert(*r, (*a, *b));
            }
            stmt.visit(&mut |stmt| {
                match stmt {
                    Stmt::Define(r, _) | Stmt::Local(r) => {
                        found.defined.insert(*r);
                    }
                    Stmt::Assign(r, _) | Stmt::Accumulate(r, _) | Stmt::MulAdd(r, ..) | Stmt::Extend(_, r, _) => {
                        *found.added.entry(*r).or_default() += 1;
                    }
                    _ => {}
                }
                stmt.visit_reads(&mut |r| {
                    found.read.insert(r);
                });
            });
        }
        found
    }
}

impl Pass<'_> {
    fn body(&mut self, stmts: Vec<Stmt>) -> Vec<Stmt> {
        let mut out = Vec::with_capacity(stmts.len());
        for mut stmt in stmts {
            self.note(&stmt);
            match &mut stmt {
                Stmt::For { index, domain, body, .. } => {
                    let is_innermost = body.iter().all(|stmt| stmt.body().is_empty());
                    if is_innermost {
                        body.iter().for_each(|stmt| self.note(stmt));
                    } else {
                        self.around.push(*index);
                        *body = self.body(std::mem::take(body));
                        self.around.pop();
                    }
                    let (before, after) = self.leaving(domain, body, is_innermost);
                    after.iter().for_each(|stmt| self.note(stmt));
                    out.extend(before);
                    out.push(stmt);
                    out.extend(after);
                    continue;
                }
                Stmt::If { body, .. } | Stmt::Extremum { body, .. } => {
                    *body = self.body(std::mem::take(body));
                }
                _ => {}
            }
            out.push(stmt);
        }
        out
    }

    /// Notes by which loops a register is changed.
    fn note(&mut self, stmt: &Stmt) {
        let all = (0..self.around.len()).fold(0, |all, k| all | bit(k));
        if let Stmt::Define(r, real) = stmt {
            let finite = match real {
                Real::Literal(c) => c.is_finite(),
                Real::Index(_) => true,
                Real::Mul(a, b) => self.finite.contains(a) && self.finite.contains(b),
                Real::Load(_) | Real::Add(..) | Real::MulAdd(..) | Real::Apply(..) | Real::Select(..) => false,
            };
            if finite {
                self.finite.insert(*r);
            }
        }
        match stmt {
            Stmt::Define(r, Real::Literal(_)) => self.changes.insert(*r, 0),
            Stmt::Define(r, Real::Load(place)) => {
                let inside = |i: &IndexId| place.at.iter().any(|a| a.mentions(*i));
                let changes =
                    self.around.iter().zip(0..).filter(|(i, _)| inside(i)).fold(0, |all, (_, k)| all | bit(k));
                self.changes.insert(*r, changes)
            }
            Stmt::Define(r, real @ (Real::Add(..) | Real::Mul(..) | Real::MulAdd(..) | Real::Apply(..))) => {
                let mut changes = 0;
                real.visit_reads(&mut |a| changes |= self.changes.get(&a).copied().unwrap_or(all));
                self.changes.insert(*r, changes)
            }
            Stmt::Define(r, _) | Stmt::Local(r) => self.changes.insert(*r, all),
            _ => None,
        };
    }

    /// What comes before a loop, and after it; factors of an innermost one are put in order if it is over a range.
    fn leaving(&mut self, domain: &Domain, body: &mut Vec<Stmt>, is_innermost: bool) -> (Vec<Stmt>, Vec<Stmt>) {
        let rounds = rounds(domain, self.arrays);
        let mut any_round = None;
        let in_order = is_innermost
            && matches!(domain, Domain::Range { .. })
            && !body.iter().any(|stmt| matches!(stmt, Stmt::Let { .. } | Stmt::Find { .. }));
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let Inside { defined: inside, added, read, products } = Inside::of(body);
        let mut at = 0;
        while let Some(stmt) = body.get(at) {
            at += 1;
            let Stmt::Accumulate(sum, product) = *stmt else { continue };
            if inside.contains(&sum) || added.get(&sum) != Some(&1) || read.contains(&sum) {
                continue;
            }
            let Some((leaves, gone)) = self.leaves(product, &products) else { continue };
            let leaves_sum = |r: &RealId| !matches!(rounds, Rounds::Unknown) || self.finite.contains(r);
            let is_fixed = |r: &RealId| !inside.contains(r) && !added.contains_key(r) && leaves_sum(r);
            let (fixed, mut rest): (Vec<RealId>, Vec<RealId>) = leaves.into_iter().partition(is_fixed);
            let given = rest.clone();
            if in_order && rest.len() > 2 {
                rest.sort_by_key(|r| self.changes.get(r).copied().unwrap_or(u64::MAX));
            }
            if rest.is_empty() || fixed.is_empty() && rest == given {
                continue;
            }
            let mut part = sum;
            if !fixed.is_empty() {
                self.factors += fixed.len();
                part = self.names.fresh_real();
                before.push(Stmt::Local(part));
            }
            let mut smaller = Vec::new();
            let summand = self.product(&rest, &mut smaller);
            if !fixed.is_empty() {
                let (finite, others): (Vec<RealId>, Vec<RealId>) =
                    fixed.into_iter().partition(|r| self.finite.contains(r));
                let mut factors = vec![part];
                if !others.is_empty() {
                    let factor = self.product(&others, &mut after);
                    factors.push(self.where_any(&rounds, factor, &mut any_round, &mut after));
                }
                factors.extend(finite);
                let whole = self.product(&factors, &mut after);
                after.push(Stmt::Accumulate(sum, whole));
            }
            body[at - 1] = Stmt::Accumulate(part, summand);
            let here = at - 1;
            body.splice(here..here, smaller);
            body.retain(|stmt| !matches!(stmt, Stmt::Define(r, _) if gone.contains(r)));
            at = body.iter().position(|stmt| *stmt == Stmt::Accumulate(part, summand)).map_or(body.len(), |k| k + 1);
        }
        (before, after)
    }

    /// A factor where a loop has any rounds, else 0. What tells it is found once for a loop.
    fn where_any(
        &mut self,
        rounds: &Rounds,
        factor: RealId,
        known: &mut Option<RealId>,
        stmts: &mut Vec<Stmt>,
    ) -> RealId {
        let count = match (rounds, *known) {
            (Rounds::Some | Rounds::Unknown, _) => return factor,
            (_, Some(count)) => count,
            (Rounds::Length(n), None) => self.define(Real::Index(n.clone()), stmts),
            (Rounds::Entries(segment), None) => {
                let index = self.names.fresh_index();
                stmts.push(Stmt::Find { index, segment: segment.clone(), key: None, how: Search::Halving });
                // -1 where there is none.
                let count = Affine::index(index).add_constant(1).unwrap_or_else(|_| Affine::index(index));
                self.define(Real::Index(count), stmts)
            }
        };
        *known = Some(count);
        self.define(Real::Select(count, factor), stmts)
    }

    fn define(&mut self, real: Real, stmts: &mut Vec<Stmt>) -> RealId {
        let r = self.names.fresh_real();
        stmts.push(Stmt::Define(r, real));
        r
    }

    /// The factors of a product, and the registers of products that are used for it alone. Nothing where there is no product.
    fn leaves(
        &self,
        product: RealId,
        products: &BTreeMap<RealId, (RealId, RealId)>,
    ) -> Option<(Vec<RealId>, BTreeSet<RealId>)> {
        let (mut leaves, mut gone, mut todo) = (Vec::new(), BTreeSet::new(), vec![product]);
        while let Some(r) = todo.pop() {
            match products.get(&r) {
                Some((a, b)) if self.uses.get(&r) == Some(&1) => {
                    gone.insert(r);
                    todo.extend([*b, *a]);
                }
                _ => leaves.push(r),
            }
        }
        (!gone.is_empty()).then_some((leaves, gone))
    }

    /// The product of factors, of which there is at least one.
    fn product(&mut self, factors: &[RealId], stmts: &mut Vec<Stmt>) -> RealId {
        let Some((first, rest)) = factors.split_first() else { return RealId(0) };
        rest.iter().fold(*first, |product, factor| {
            let r = self.names.fresh_real();
            stmts.push(Stmt::Define(r, Real::Mul(product, *factor)));
            self.uses.insert(r, 1);
            r
        })
    }
}

//! Sums over several indices, each under tests of its own, are computed one after the other.
//!
//! ```text
//! gen I. sum J, K. [p and q] * b[.., K, ..]   ==   let t = gen M. sum K. [q] * b[.., K, ..] in gen I. sum J. [p] * t[M]
//! gen I. sum J, K. [p and q] * f[J] * g[K] * b[.., K, ..]
//!   ==   let t = gen M. sum K. [q] * g[K] * b[.., K, ..] in gen I. sum J. [p and some K. q] * f[J] * t[M]
//! ```
//!
//! where `q` is all that is asked of `K`, and `M` are the other indices that `q` mentions or `b` is read at. The same numbers are added, in another order. Where `q`
//! leaves no `K`, 0 would be multiplied by `f`, which may be NaN: that there is some is proven or asked, if `f` is not made of finite literals. Simplification
//! makes one sum of two that stand in each other, and counts what two factors take; here it is one factor under two tests.
//!
//! - A sum over a rectangle that ends at a place, `sum a, b. [a <= i and b <= j] * x[a, b]`, is that over its rows of sums over a part of a row; both are running
//!   sums then.
//! - A sum over a window, `sum a < h, b < w. x[i + a, j + b]`, takes `h + w` additions a place, not `h * w`: `K` are two indices that an equation links. Those of
//!   the first axes come first, so `t` has the same first axes as the sum, and is made a row at a time.
//!
//! **It is less work.** It is done where at most half of the points are left, as [`points`] estimates them, and where `t` is no larger than the tensors that the
//! statement reads and writes. A place that `t` has and nobody reads costs as much as one that is read; what stands there does not matter.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::Scope;
use super::exchange_sums::{is_of_literals, some};
use crate::base::{Id, IndexId};
use crate::error::Result;
use crate::index::Pred;
use crate::solver::estimate::{Growth, Hints, points};
use crate::tssa::{Builder, OpenStmt, Operand, Program, Rhs, Stmt};

/// How many factors of a weight are told apart.
const MAX_FACTORS: usize = 8;

/// The program in which such sums are statements of their own.
pub(super) fn separated(program: &Program) -> Result<Cow<'_, Program>> {
    let has_several = |stmt: &Stmt| stmt.rhs.sums().len() > 1;
    if !program.stmts.values().any(has_several) {
        return Ok(Cow::Borrowed(program));
    }
    let mut found = false;
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, _, stmt| {
        if !has_several(stmt) {
            return builder.push(stmt);
        }
        let mut open = builder.open_stmt(stmt)?;
        while let Some(part) = Part::of(builder, &open)? {
            found = true;
            open = part.apart(builder, &open)?;
        }
        builder.close(open)
    })?;
    Ok(if found { Cow::Owned(builder.finish(outputs).prune()?) } else { Cow::Borrowed(program) })
}

/// Sums of a statement that its tests do not link to others, to be computed first.
struct Part {
    /// `K` with their ranges.
    sums: Scope,
    /// `M` with their ranges.
    axes: Scope,
    /// `q`, and what is asked of `M` alone, which says where the sum is needed.
    asked: Vec<Pred>,
    needed: Vec<Pred>,
    /// `J`, and `p`
    others: Scope,
    rest: Vec<Pred>,
    /// `b`
    operand: Operand,
    /// `g` and `f`
    weights: Vec<Operand>,
    factors: Vec<Operand>,
}

impl Part {
    /// The first that leaves at most half of the points.
    fn of(builder: &Builder, open: &OpenStmt) -> Result<Option<Part>> {
        let Rhs::Contract { guard, operands, .. } = &open.rhs else { return Ok(None) };
        for (b, weights) in weighted(builder, operands) {
            let mut parts = linked(&open.sums, guard);
            parts.sort_by_key(|sums| b.indices.iter().position(|i| sums.iter().any(|(k, _)| k == i)));
            for sums in parts {
                let part = Part::by(sums, open, guard, b, &weights).filter(|part| part.gains(builder, open));
                if let Some(mut part) = part
                    && part.is_never_empty(builder, open)?
                {
                    return Ok(Some(part));
                }
            }
        }
        Ok(None)
    }

    fn by(sums: Scope, open: &OpenStmt, guard: &Pred, b: &Operand, weights: &[Operand]) -> Option<Part> {
        let is_summed = |i: &IndexId| sums.iter().any(|(k, _)| k == i);
        let others: Scope = open.sums.iter().filter(|(i, _)| !is_summed(i)).cloned().collect();
        let is_other = |i: &IndexId| others.iter().any(|(k, _)| k == i);
        let (weights, factors): (Vec<Operand>, Vec<Operand>) =
            weights.iter().cloned().partition(|x| x.indices.iter().any(is_summed));
        let is_window = sums.len() > 1 && !weights.iter().any(|x| x.indices.iter().any(is_other));
        if !b.indices.iter().any(is_summed) || !(is_window || weights.is_empty() && factors.is_empty()) {
            return None;
        }
        let (asked, rest): (Vec<Pred>, Vec<Pred>) =
            guard.conjuncts().iter().cloned().partition(|p| sums.iter().any(|(k, _)| p.mentions(*k)));
        let read = |i: IndexId| weights.iter().chain([b]).any(|x| x.indices.contains(&i));
        let is_axis = |i: IndexId| read(i) || asked.iter().any(|p| p.mentions(i));
        let (axes, outside): (Scope, Scope) = open.gens.iter().chain(&others).cloned().partition(|(i, _)| is_axis(*i));
        let needed = rest.iter().filter(|p| !outside.iter().any(|(i, _)| p.mentions(*i))).cloned().collect();
        let operand = b.clone();
        (!outside.is_empty()).then(|| Part { sums, axes, asked, needed, others, rest, operand, weights, factors })
    }

    /// Whether the sum is never over nothing, if it is multiplied by what may be no number. What remains to be asked of sizes is asked from here on.
    fn is_never_empty(&mut self, builder: &Builder, open: &OpenStmt) -> Result<bool> {
        if self.factors.iter().all(|x| is_of_literals(builder, x.var)) {
            return Ok(true);
        }
        let asked = some(builder, &open.gens, &self.sums, &self.asked)?;
        self.rest.extend(asked.iter().flatten().cloned());
        Ok(asked.is_some())
    }

    fn gains(&self, builder: &Builder, open: &OpenStmt) -> bool {
        let Rhs::Contract { guard, .. } = &open.rhs else { return false };
        let count = |scope: &Scope, guard: &Pred| points(scope, guard, &Hints::new(), &**builder.signature());
        let all: Scope = open.gens.iter().chain(&open.sums).cloned().collect();
        let inner: Scope = self.axes.iter().chain(&self.sums).cloned().collect();
        let outer: Scope = open.gens.iter().chain(&self.others).cloned().collect();
        let first = count(&inner, &Pred::all(self.asked.iter().chain(&self.needed).cloned()));
        let second = count(&outer, &Pred::all(self.rest.iter().cloned()));
        let is_less = |a: &Growth, b: &Growth| a.compare(b) != Ordering::Greater;
        let elements = |scope: &Scope| count(scope, &Pred::True);
        let read: Scope = all.iter().filter(|(i, _)| self.operand.indices.contains(i)).cloned().collect();
        let stored = elements(&self.axes);
        is_less(&first.add(&second).scale(2.0), &count(&all, guard))
            && [&read, &open.gens].into_iter().any(|scope| is_less(&stored, &elements(scope)))
    }

    /// The statement over these sums, which become a statement.
    fn apart(self, builder: &mut Builder, open: &OpenStmt) -> Result<OpenStmt> {
        let mut guard = Pred::all(self.asked);
        for p in &self.needed {
            guard = guard.and(builder.freshen(p, &|_| None)?);
        }
        let indices = self.axes.iter().map(|(i, _)| *i).collect();
        let all: Scope = open.gens.iter().chain(&open.sums).cloned().collect();
        let weight = product(builder, &all, self.weights)?;
        let first = weight.into_iter().chain([self.operand]).collect();
        let first = builder.contract(&self.axes, &self.sums, guard, first)?;
        let factor = product(builder, &all, self.factors)?;
        let operands = factor.into_iter().chain([Operand { var: first, indices }]).collect();
        let rhs = Rhs::Contract {
            sums: self.others.iter().map(|(_, n)| n.clone()).collect(),
            guard: Pred::all(self.rest),
            operands,
        };
        Ok(OpenStmt { gens: open.gens.clone(), sums: self.others, rhs })
    }
}

/// The sums of a statement, together where an equation mentions several.
fn linked(sums: &Scope, guard: &Pred) -> Vec<Scope> {
    let mut parts: Vec<Scope> = sums.iter().map(|sum| vec![sum.clone()]).collect();
    for p in guard.conjuncts().iter().filter(|p| matches!(p, Pred::Zero(_))) {
        let (mentioned, others): (Vec<Scope>, Vec<Scope>) =
            parts.into_iter().partition(|part| part.iter().any(|(i, _)| p.mentions(*i)));
        parts = others;
        parts.extend((!mentioned.is_empty()).then(|| mentioned.concat()));
    }
    parts
}

/// A tensor that is summed up and the factors of what weighs it, which of two operands that may be.
fn weighted<'o>(builder: &Builder, operands: &'o [Operand]) -> Vec<(&'o Operand, Vec<Operand>)> {
    match operands {
        [b] => vec![(b, Vec::new())],
        [a, b] => vec![(a, factors(builder, b)), (b, factors(builder, a))],
        _ => Vec::new(),
    }
}

/// Those that are not made of others.
fn factors(builder: &Builder, weight: &Operand) -> Vec<Operand> {
    let (mut left, mut factors) = (vec![weight.clone()], Vec::new());
    while let Some(factor) = left.pop() {
        match &builder.stmt(factor.var).rhs {
            Rhs::Contract { sums, guard: Pred::True, operands } if sums.is_empty() && factors.len() < MAX_FACTORS => {
                let at =
                    |x: &Operand| x.indices.iter().filter_map(|i| factor.indices.get(i.index()).copied()).collect();
                left.extend(operands.iter().map(|x| Operand { var: x.var, indices: at(x) }));
            }
            _ => factors.push(factor),
        }
    }
    factors
}

/// The product of factors over some indices, if there are any.
fn product(builder: &mut Builder, scope: &Scope, factors: Vec<Operand>) -> Result<Option<Operand>> {
    let mut factors = factors.into_iter();
    let Some(mut product) = factors.next() else { return Ok(None) };
    for factor in factors {
        let has = |i: IndexId| product.indices.contains(&i) || factor.indices.contains(&i);
        let axes: Scope = scope.iter().filter(|(i, _)| has(*i)).cloned().collect();
        let var = builder.contract(&axes, &[], Pred::True, vec![product, factor])?;
        product = Operand { var, indices: axes.iter().map(|(i, _)| *i).collect() };
    }
    Ok(Some(product))
}

//! Sums over several indices, each under tests of its own, are computed one after the other.
//!
//! ```text
//! gen I. sum J, k. [p and q] * b[.., k, ..]   ==   let t = gen M. sum k. [q] * b[.., k, ..] in gen I. sum J. [p] * t[M]
//! ```
//!
//! where `q` is all that is asked of `k`, and `M` are the other indices that `q` mentions or `b` is read at. The same numbers are added, in another order. Beside
//! another factor nothing is done: where `q` leaves no `k`, it would be multiplied by 0, and may be NaN. Sums over a rectangle that ends at a place, `sum a, b. [a <= i and b <= j] * x[a, b]`, are those over its rows of sums over a
//! part of a row; both are running sums then. Simplification makes one sum of two that stand in each other, and counts what two factors take; here it is one
//! factor under two tests.
//!
//! **It is less work.** It is done where at most half of the points are left, as [`points`] estimates them, and where `t` is no larger than the tensors that the
//! statement reads and writes. A place that `t` has and nobody reads costs as much as one that is read; what stands there does not matter.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::base::IndexId;
use crate::error::Result;
use crate::index::{Pred, Size};
use crate::solver::estimate::{Growth, Hints, points};
use crate::tssa::{Builder, OpenStmt, Operand, Program, Rhs, Stmt};

/// Indices with their ranges.
type Scope = Vec<(IndexId, Size)>;

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
        while let Some(part) = Part::of(builder, &open) {
            found = true;
            open = part.apart(builder, &open)?;
        }
        match open.rhs {
            Rhs::Contract { guard, operands, .. } => builder.contract(&open.gens, &open.sums, guard, operands),
            _ => builder.push(stmt),
        }
    })?;
    Ok(if found { Cow::Owned(builder.finish(outputs).prune()?) } else { Cow::Borrowed(program) })
}

/// One of the sums of a statement, to be computed first.
struct Part {
    /// `k` with its range.
    sum: (IndexId, Size),
    /// `M` with their ranges.
    axes: Scope,
    /// `q`, and what is asked of `M` alone, which says where the sum is needed.
    asked: Vec<Pred>,
    needed: Vec<Pred>,
    /// `p`
    rest: Vec<Pred>,
    /// `b`
    operand: Operand,
}

impl Part {
    /// The first that leaves at most half of the points.
    fn of(builder: &Builder, open: &OpenStmt) -> Option<Part> {
        let Rhs::Contract { guard, operands, .. } = &open.rhs else { return None };
        open.sums.iter().find_map(|sum| Part::by(sum, open, guard, operands).filter(|part| part.gains(builder, open)))
    }

    fn by(sum: &(IndexId, Size), open: &OpenStmt, guard: &Pred, operands: &[Operand]) -> Option<Part> {
        let k = sum.0;
        let [b] = operands else { return None };
        if !b.indices.contains(&k) {
            return None;
        }
        let (asked, rest): (Vec<Pred>, Vec<Pred>) = guard.conjuncts().iter().cloned().partition(|p| p.mentions(k));
        let others = || open.gens.iter().chain(&open.sums).filter(|(i, _)| *i != k);
        let is_axis = |i: IndexId| b.indices.contains(&i) || asked.iter().any(|p| p.mentions(i));
        let (axes, outside): (Scope, Scope) = others().cloned().partition(|(i, _)| is_axis(*i));
        let needed = rest.iter().filter(|p| !outside.iter().any(|(i, _)| p.mentions(*i))).cloned().collect();
        (!outside.is_empty()).then_some(Part { sum: sum.clone(), axes, asked, needed, rest, operand: b.clone() })
    }

    fn gains(&self, builder: &Builder, open: &OpenStmt) -> bool {
        let Rhs::Contract { guard, .. } = &open.rhs else { return false };
        let count = |scope: &Scope, guard: &Pred| points(scope, guard, &Hints::new(), &**builder.signature());
        let all: Scope = open.gens.iter().chain(&open.sums).cloned().collect();
        let inner: Scope = self.axes.iter().chain([&self.sum]).cloned().collect();
        let outer: Scope = all.iter().filter(|(i, _)| *i != self.sum.0).cloned().collect();
        let first = count(&inner, &Pred::all(self.asked.iter().chain(&self.needed).cloned()));
        let second = count(&outer, &Pred::all(self.rest.iter().cloned()));
        let is_less = |a: &Growth, b: &Growth| a.compare(b) != Ordering::Greater;
        let elements = |scope: &Scope| count(scope, &Pred::True);
        let read: Scope = all.iter().filter(|(i, _)| self.operand.indices.contains(i)).cloned().collect();
        let stored = elements(&self.axes);
        is_less(&first.add(&second).scale(2.0), &count(&all, guard))
            && [&read, &open.gens].into_iter().any(|scope| is_less(&stored, &elements(scope)))
    }

    /// The statement over the sum, which becomes a statement.
    fn apart(self, builder: &mut Builder, open: &OpenStmt) -> Result<OpenStmt> {
        let mut guard = Pred::all(self.asked);
        for p in &self.needed {
            guard = guard.and(builder.freshen(p, &|_| None)?);
        }
        let indices = self.axes.iter().map(|(i, _)| *i).collect();
        let first = builder.contract(&self.axes, std::slice::from_ref(&self.sum), guard, vec![self.operand])?;
        let operands = vec![Operand { var: first, indices }];
        let is_left = |(i, _): &&(IndexId, Size)| *i != self.sum.0;
        let sums: Scope = open.sums.iter().filter(is_left).cloned().collect();
        let rhs = Rhs::Contract {
            sums: sums.iter().map(|(_, n)| n.clone()).collect(),
            guard: Pred::all(self.rest),
            operands,
        };
        Ok(OpenStmt { gens: open.gens.clone(), sums, rhs })
    }
}

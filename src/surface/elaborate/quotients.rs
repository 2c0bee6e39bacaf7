//! Floor division and remainders of indices by positive integers.
//!
//! ```text
//! e(i // k)       ==  sum q < n. [k*q <= i and i <= k*q + k - 1] * e(q)         around a value
//! [p(i // k)]     ==  [exists q < n. k*q <= i and i <= k*q + k - 1 and p(q)]    in a bracket
//! i % k           ==  i - k * (i // k)
//! e(i % n)        ==  sum r < n. [r = i or r = i - n or r = i + n] * e(r)               for a size n, and i from -n to 2*n - 1
//! ```
//!
//! There is exactly one such `q`, so both are exact, and a negation may stand on either side of the `exists`. What `k` divides leaves the
//! quotient, `(k*a + r) // k == a + r // k`, and `r` is made of multiples from 0 on, so nothing is to be proved: a quotient may be negative.
//! Of sizes alone it is a size, see [`Quotient`](crate::ty::Quotient).

use super::super::ast::{BinaryOp, Expr, ExprId};
use super::computed::Hoisted;
use super::names::Meaning;
use super::sizes::{linear, not_a_divisor};
use super::{Elaborator, Task};
use crate::base::{IndexId, Span, VarId, work};
use crate::error::Diagnostic;
use crate::index::{Affine, Checked, Pred, Size, Var};
use crate::solver::exists;
use crate::term::{Term, TermId};

/// `index = floor(of / by)`, or `of % extent` where `by` is 0.
#[derive(Clone)]
pub(super) struct Quotient {
    index: IndexId,
    extent: Size,
    of: Affine,
    by: i64,
    /// What says that it is this quotient.
    guard: Pred,
}

/// Whether an operator of indices gives an index.
pub(super) fn is_of_indices(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::FloorDiv | BinaryOp::Rem)
}

impl Elaborator<'_> {
    /// `a // k` or `a % k` as an index.
    pub(super) fn quotient(&mut self, at: ExprId) {
        let Expr::Binary(op, a, by) = self.expr(at) else { return };
        if *op == BinaryOp::Rem && self.is_remainder_of_value(*a, *by) {
            self.affines.push(None);
            return;
        }
        if *op == BinaryOp::Rem && self.is_size(*by) {
            self.tasks.push(Task::Remainder(at));
            self.tasks.push(Task::Index(*a));
            return;
        }
        if self.constant(*by).is_none_or(|by| by <= 0) {
            let diagnostic = not_a_divisor(*op, self.span(at));
            self.diagnose(diagnostic);
            self.affines.push(None);
            return;
        }
        self.tasks.push(Task::Quotient(at));
        self.tasks.push(Task::Index(*a));
    }

    pub(super) fn finish_quotient(&mut self, at: ExprId) {
        let a = self.pop_affine();
        let Expr::Binary(op, _, by) = self.expr(at) else { return };
        let affine = a.zip(self.constant(*by)).and_then(|(a, by)| {
            let quotient = self.floor(at, &a, by)?;
            match op {
                BinaryOp::Rem => {
                    let remainder = quotient.scale(by).and_then(|multiple| a.sub(&multiple));
                    self.checked(at, remainder)
                }
                _ => Some(quotient),
            }
        });
        self.affines.push(affine);
    }

    /// Whether an expression is a size, and no integer.
    fn is_size(&self, e: ExprId) -> bool {
        self.constant(e).is_none()
            && linear(self.frame.source, e).is_ok_and(|size| {
                let mut names = size.names().into_iter();
                names.all(|name| matches!(self.peek(name), Meaning::Size(_)))
            })
    }

    /// `a % n` of a place that is off an axis by less than its length: the place itself, one axis further or one axis back.
    pub(super) fn finish_remainder(&mut self, at: ExprId) {
        let a = self.pop_affine();
        let Expr::Binary(_, _, by) = self.expr(at) else { return };
        let n = self.extent(*by);
        let remainder = a.zip(n).and_then(|(a, n)| self.remainder(at, &a, &n));
        self.affines.push(remainder);
    }

    fn remainder(&mut self, at: ExprId, of: &Affine, n: &Size) -> Option<Affine> {
        let twice = n.scale(2).and_then(|twice| twice.sub(of)?.add_constant(-1));
        let (room, back) = (self.checked(at, twice)?, self.checked(at, of.add(n))?);
        let below = self.checked(at, Pred::lt(of, n))?;
        let (starts, ends) = (self.proves(&Pred::non_negative(of.clone())), self.proves(&below));
        for (distance, is_needed) in [(room, !ends), (back, !starts)] {
            if is_needed && !self.proves(&Pred::non_negative(distance.clone())) {
                self.far_off(at, of, n, &distance);
                return None;
            }
        }
        if starts && ends {
            return Some(of.clone());
        }
        let span = self.span(at);
        if self.stands_in(of) {
            let (place, n) = (self.show(of), self.show(n));
            let message = "a remainder of an index that is found at run time is not in the language";
            let help =
                format!("write the choice: `let k : index {n} = if {place} < {n} then {place} else {place} - {n}`");
            self.diagnose(Diagnostic::new("not-affine", span, message).help(help));
            return None;
        }
        let Some(anchor) = self.anchors.last() else {
            self.report("not-an-index", span, "a remainder of indices stands in an access or a bracket");
            return None;
        };
        work::charge(anchor.quotients.len());
        let known = anchor.quotients.iter().find(|known| known.of == *of && known.by == 0 && known.extent == *n);
        if let Some(known) = known {
            return Some(Affine::index(known.index));
        }
        let index = self.program.fresh_index("r");
        let is = |offset: Checked<Affine>| Pred::equal(&Affine::index(index), &offset?);
        let guard = [(true, Ok(of.clone())), (!ends, of.sub(n)), (!starts, of.add(n))]
            .into_iter()
            .filter(|(is_possible, _)| *is_possible)
            .map(|(_, offset)| is(offset))
            .collect::<Checked<Vec<Pred>>>();
        let guard = Pred::any(self.checked(at, guard)?);
        let remainder = Quotient { index, extent: n.clone(), of: of.clone(), by: 0, guard };
        self.knowledge.enter_range(index, Some(n));
        self.anchors.last_mut()?.quotients.push(remainder);
        Some(Affine::index(index))
    }

    /// Reports a place that is not known to be off an axis by less than its length.
    fn far_off(&mut self, at: ExprId, of: &Affine, n: &Size, distance: &Affine) {
        let (place, n) = (self.show(of), self.show(n));
        let message = format!("`{place}` may be off an axis of `{n}` places by more than `{n}`");
        let least = self.knowledge.least(distance);
        let diagnostic = Diagnostic::new("out-of-bounds", self.span(at), message);
        let sizes = self.and_non_negative(Some(Vec::new()), least).map(|sizes| sizes.concat());
        // An index of another range goes around as often as that says.
        let is_other = self.range_of(of).is_some();
        self.diagnose(match sizes {
            _ if is_other => diagnostic.help(format!(
                "an index that stands for two is two indices, one of them below `{n}`, as in `kron(A, B)`; other remainders come in by a map, as in `map rest : [m] -> [{n}]` and `x[rest({place})]`"
            )),
            Some(sizes) => diagnostic.help(format!("declare `assume {sizes}`")),
            None => diagnostic.help("the divisor of `//` and of other remainders is a positive integer literal"),
        });
    }

    /// Whether an index that stands for a number is in an index expression.
    fn stands_in(&self, a: &Affine) -> bool {
        let mut found = false;
        a.visit(&mut |v| found |= matches!(v, Var::Index(i) if self.stand_ins.contains_key(i)));
        found
    }

    /// `floor(a / by)`
    fn floor(&mut self, at: ExprId, a: &Affine, by: i64) -> Option<Affine> {
        let divided = a.div_rem(by);
        let (whole, rest) = self.checked(at, divided)?;
        if rest.terms().is_empty() {
            return Some(whole);
        }
        let quotient = match rest.terms().iter().all(|(v, _)| matches!(v, Var::Size(_))) {
            true => {
                let size = self.size_quotient(&rest, by);
                self.checked(at, size)?
            }
            false => Affine::index(self.quotient_index(at, rest, by)?),
        };
        let sum = whole.add(&quotient);
        self.checked(at, sum)
    }

    /// The index that is `floor(of / by)` around the term in force.
    fn quotient_index(&mut self, at: ExprId, of: Affine, by: i64) -> Option<IndexId> {
        if self.stands_in(&of) {
            let span = self.span(at);
            let message = "a quotient of an index that is found at run time is not in the language";
            let help = "read it from a table: `map half : [n] -> [m]`, and `half[k]`";
            self.diagnose(Diagnostic::new("not-affine", span, message).help(help));
            return None;
        }
        let Some(anchor) = self.anchors.last() else {
            let span = self.span(at);
            self.report("not-an-index", span, "a quotient of indices stands in an access or a bracket");
            return None;
        };
        work::charge(anchor.quotients.len());
        let known = anchor.quotients.iter().find(|known| known.of == of && known.by == by).cloned();
        let quotient = match known {
            Some(known) => known,
            None => {
                let index = self.program.fresh_index("q");
                let made = self.largest_value(&of).and_then(|largest| {
                    let multiple = Affine::index(index).scale(by)?;
                    let rest = of.sub(&multiple)?;
                    let below = Affine::constant(by - 1).sub(&rest)?;
                    let guard = Pred::non_negative(rest).and(Pred::non_negative(below));
                    // Exactly the quotients, where their number needs no division.
                    let (exact, remainder) = largest.add_constant(by)?.div_rem(by)?;
                    let extent = if remainder.terms().is_empty() { exact } else { largest.add_constant(1)? };
                    Ok(Quotient { index, extent, of, by, guard })
                });
                let quotient = self.checked(at, made)?;
                self.anchors.last_mut()?.quotients.push(quotient.clone());
                self.quotient_indices.insert(index, (quotient.of.clone(), by));
                quotient
            }
        };
        self.knowledge.enter_range(quotient.index, Some(&quotient.extent));
        self.knowledge.enter_guard(&self.program, &quotient.guard);
        Some(quotient.index)
    }

    /// The largest value of a sum of multiples of indices, targets of maps, and sizes, all from 0 on.
    fn largest_value(&self, a: &Affine) -> Checked<Size> {
        a.replace(&mut |v| {
            let extent = match v {
                Var::Index(i) => self.knowledge.extent(*i).cloned(),
                Var::Apply(application) => super::bounds::shape(&self.program, application.map).pop(),
                Var::Size(_) => return Ok(None),
            };
            // An index without a range was reported.
            extent.unwrap_or_default().add_constant(-1).map(Some)
        })
    }

    /// A bracket with the quotients that it asks about, which is all that asks about them.
    pub(super) fn with_quotients(&mut self, pred: Option<Pred>, hoisted: &mut Hoisted) -> Option<Pred> {
        let quotients = std::mem::take(&mut hoisted.quotients);
        if !quotients.is_empty() {
            self.knowledge.leave(hoisted.facts);
        }
        self.exists_quotients(&quotients, pred?)
    }

    /// `exists q < n. k*q <= i and i <= k*q + k - 1 and p`
    pub(super) fn exists_quotients(&mut self, quotients: &[Quotient], pred: Pred) -> Option<Pred> {
        let around = quotients.iter().rev().try_fold(pred, |pred, quotient| {
            exists(quotient.index, &quotient.extent, &quotient.guard.clone().and(pred))
        });
        match around {
            Ok(pred) => Some(pred),
            Err(overflow) => {
                self.report("overflow", Span::default(), overflow.to_string());
                None
            }
        }
    }

    /// Takes the quotients of what an `exists` binds, and quotients of these: they belong inside.
    pub(super) fn take_quotients_of(&mut self, index: IndexId) -> Vec<Quotient> {
        let Some(anchor) = self.anchors.last_mut() else { return Vec::new() };
        let mut inside = vec![index];
        let (taken, kept) = std::mem::take(&mut anchor.quotients).into_iter().partition(|quotient| {
            let depends = inside.iter().any(|i| quotient.of.mentions(*i));
            inside.extend(depends.then_some(quotient.index));
            depends
        });
        anchor.quotients = kept;
        taken
    }

    /// The value where an index is a quotient: of a tensor that of each element.
    pub(super) fn at_quotient(&mut self, quotient: Quotient, value: TermId, span: Span) -> Option<TermId> {
        let Quotient { index, extent, guard, .. } = quotient;
        self.at_index((index, extent), guard, None, value, span)
    }

    /// The value where an index is what its guard says, which may ask what is compared: of a tensor that of each element.
    pub(super) fn at_index(
        &mut self,
        (index, extent): (IndexId, Size),
        guard: Pred,
        compared: Option<(VarId, TermId)>,
        value: TermId,
        span: Span,
    ) -> Option<TermId> {
        let Some(shape) = self.real_shape(value) else {
            let message = "an element at a quotient of indices, or at an index that is found, is a number or a tensor of numbers, found a pair";
            let help = "take the half in front of the access: `(fst x)[i // 2]`";
            self.diagnose(Diagnostic::new("expected-real", span, message).help(help));
            return None;
        };
        let indices = self.fresh_indices(&shape, &[value]);
        let element = self.element_at(value, &indices, span)?;
        let mut masked = self.push(Term::Iverson { guard, body: element }, span)?;
        if let Some((var, value)) = compared {
            masked = self.push(Term::Let { var, value, body: masked }, span)?;
        }
        let sum = self.push(Term::Sum { index, extent, body: masked }, span)?;
        self.gens(&indices, &shape, sum, span)
    }
}

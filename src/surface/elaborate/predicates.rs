//! Predicates of brackets.
//!
//! `pred(not p) == negate(pred(p))`, and chains of `and` and `or` of any length are taken apart in one pass, so only their alternation
//! nests. From left to right each conjunct may rely on the ones before. The negation of an `exists` is a count that is 0, see
//! [`computed`](super::computed).
//!
//! A comparison compares integers if both sides are index expressions, else reals.

use super::super::ast::{BinaryOp, BinderKind, Expr, ExprId, UnaryOp};
use super::computed::Slot;
use super::names::{Binding, Global, Meaning};
use super::text::{count, noun};
use super::{Elaborator, MAX_OPERANDS, Task};
use crate::base::{IndexId, Span, work};
use crate::error::Diagnostic;
use crate::index::{Affine, Application, Checked, Overflow, Pred, RelationRef, Size, Var, View};
use crate::solver::exists;

impl<'a> Elaborator<'a> {
    #[allow(clippy::too_many_lines, reason = "an arm for each form of a predicate")]
    pub(super) fn pred(&mut self, at: ExprId) {
        let mut e = at;
        let mut negated = false;
        while let Expr::Unary(UnaryOp::Not, a) = self.expr(e) {
            negated = !negated;
            e = *a;
        }
        match self.expr(e) {
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), ..) => match self.operands(e, *op) {
                Some(parts) => {
                    let facts = self.knowledge.len();
                    self.chain(e, *op, parts, 0, facts, negated);
                }
                None => self.preds.push(None),
            },
            Expr::Binary(
                op @ (BinaryOp::Less
                | BinaryOp::LessEqual
                | BinaryOp::Greater
                | BinaryOp::GreaterEqual
                | BinaryOp::Equal
                | BinaryOp::NotEqual),
                a,
                b,
            ) => self.comparison(e, *op, *a, *b, negated),
            Expr::Binder { kind: BinderKind::Exists, index, extent: end, body } => {
                let is_found = self.ends_at_index(*end);
                let extent = match is_found {
                    true => self.bound_by_index(*end).map(|(_, extent)| extent),
                    false => self.range(*end, &index.text, *body),
                };
                let id = self.program.fresh_index(&index.text);
                self.knowledge.enter_range(id, extent.as_ref());
                let anchor = self.anchors.len().saturating_sub(1);
                if let Some(innermost) = self.anchors.last_mut() {
                    let slot = innermost.slots.len();
                    innermost.slots.push(Slot::new(id, extent.clone()));
                    self.bind(&index.text, Binding::Quantified { anchor, slot });
                }
                self.tasks.push(Task::Exists { at: e, index: id, extent, negated });
                match is_found {
                    true => self.exists_below(e, (id, *end), *body),
                    false => self.tasks.push(Task::Pred(*body)),
                }
            }
            Expr::Call { callee, args } => self.atom(e, &callee.text, args, negated),
            Expr::Error => {
                self.fail();
                self.preds.push(None);
            }
            other => {
                let span = self.span(e);
                let found = match other {
                    Expr::Name(name) => match self.peek(name) {
                        Meaning::Var(_) => "a value".to_owned(),
                        Meaning::Index(_) => "an index".to_owned(),
                        Meaning::Size(_) => "a size".to_owned(),
                        Meaning::Callable(_) | Meaning::Function(_) => {
                            format!("{} without its arguments", self.noun_of(name))
                        }
                        Meaning::Error => {
                            self.fail();
                            self.preds.push(None);
                            return;
                        }
                        Meaning::Unknown => {
                            self.unknown(name, span, false);
                            self.preds.push(None);
                            return;
                        }
                    },
                    other => noun(other).to_owned(),
                };
                let message = format!("a predicate is expected, found {found}");
                let number = match other {
                    Expr::Access { array, indices } => match (self.expr(*array), indices.as_slice()) {
                        (Expr::Name(array), [place]) => match self.expr(*place) {
                            Expr::Name(place) => Some(format!("{array}[{place}]")),
                            _ => None,
                        },
                        _ => None,
                    },
                    Expr::Name(name) if found == "a value" => Some(name.clone()),
                    _ => None,
                };
                let help = match self.swallowed_comparison(e) {
                    None if let Some(number) = number => format!("a number is compared: `{number} != 0`"),
                    Some(word) => format!(
                        "the `{word}` reaches as far right as it can, over the comparison as well: put it in parentheses, as in `({word} i < n. e) > 1`"
                    ),
                    None => {
                        "a predicate compares (`i < j`, `x[i] > 0`), asks a relation (`R(i, j)`), or joins such with \
                             `and`, `or`, `not`, `exists`"
                            .to_owned()
                    }
                };
                self.diagnose(Diagnostic::new("not-a-predicate", span, message).help(help));
                self.preds.push(None);
            }
        }
    }

    /// The word of a binder whose body has a comparison at its end that was meant of the whole, as in `sum i < n. e > 1`.
    fn swallowed_comparison(&self, e: ExprId) -> Option<&'static str> {
        let (mut e, mut word) = (e, None);
        // A `mean` is a quotient of a sum.
        if let Expr::Binary(BinaryOp::Div, sum, _) = self.expr(e)
            && let Expr::Binder { .. } = self.expr(*sum)
        {
            (e, word) = (*sum, Some("mean"));
        }
        loop {
            work::charge(1);
            match self.expr(e) {
                Expr::Binder { kind, body, .. } => {
                    word = word.or(Some(kind.word()));
                    e = *body;
                }
                Expr::Iverson { body, .. } if word.is_some() => e = *body,
                Expr::Binary(op, ..) => return word.filter(|_| is_comparison(*op)),
                _ => return None,
            }
        }
    }

    /// The operands of a tree of one associative operator, from left to right.
    fn operands(&mut self, at: ExprId, op: BinaryOp) -> Option<Vec<ExprId>> {
        let mut parts = Vec::new();
        let mut stack = vec![at];
        while let Some(e) = stack.pop() {
            work::charge(4);
            match self.expr(e) {
                Expr::Binary(other, a, b) if *other == op => stack.extend([*b, *a]),
                _ => parts.push(e),
            }
            if parts.len() > MAX_OPERANDS {
                let span = self.span(at);
                self.report("too-large", span, format!("a predicate has at most {MAX_OPERANDS} parts"));
                return None;
            }
        }
        Some(parts)
    }

    /// Goes on with a chain: the operands before `next` are complete.
    pub(super) fn chain(
        &mut self,
        at: ExprId,
        op: BinaryOp,
        parts: Vec<ExprId>,
        next: usize,
        facts: usize,
        negated: bool,
    ) {
        match parts.get(next).copied() {
            Some(part) => {
                if op == BinaryOp::And && next > 0 {
                    self.assume_conjunct();
                }
                self.tasks.push(Task::Chain { at, op, parts, next: next + 1, facts, negated });
                self.tasks.push(Task::Pred(part));
            }
            None if op == BinaryOp::And => self.finish_all(at, parts.len(), facts, negated),
            None => {
                let any = self.pop_preds(parts.len()).map(Pred::any);
                let any = self.negate_if(at, negated, any);
                self.push_pred(at, any);
            }
        }
    }

    /// Ends a predicate: its depth is limited.
    fn push_pred(&mut self, at: ExprId, pred: Option<Pred>) {
        let pred = pred.filter(|p| {
            let fits = p.nesting() <= Pred::MAX_NESTING;
            if !fits {
                let span = self.span(at);
                let message = format!("`and`, `or` and `exists` alternate to a depth of at most {}", Pred::MAX_NESTING);
                self.report("too-deep", span, message);
            }
            fits
        });
        self.preds.push(pred);
    }

    fn negate_if(&mut self, at: ExprId, negated: bool, p: Option<Pred>) -> Option<Pred> {
        let p = p?;
        if negated { self.negated(at, &p) } else { Some(p) }
    }

    /// `not p`, pushed to the atoms and to the `exists` that cannot be eliminated. Predicates nest to a bounded depth.
    pub(super) fn negated(&mut self, at: ExprId, p: &Pred) -> Option<Pred> {
        match p {
            Pred::All(ps) => {
                let parts: Vec<Option<Pred>> = ps.iter().map(|p| self.negated(at, p)).collect();
                Some(Pred::any(parts.into_iter().collect::<Option<Vec<_>>>()?))
            }
            Pred::Any(ps) => {
                let parts: Vec<Option<Pred>> = ps.iter().map(|p| self.negated(at, p)).collect();
                Some(Pred::all(parts.into_iter().collect::<Option<Vec<_>>>()?))
            }
            Pred::Exists { index, extent, body } => {
                let eliminated = exists(*index, extent, body);
                let eliminated = self.checked(at, eliminated)?;
                match eliminated.negate() {
                    Some(opposite) => Some(opposite),
                    None => self.nowhere(at, p),
                }
            }
            atom => {
                let opposite = atom.negate().ok_or(Overflow);
                self.checked(at, opposite)
            }
        }
    }

    /// The last predicate holds for the ones that follow.
    fn assume_conjunct(&mut self) {
        match self.preds.last() {
            Some(Some(p)) => self.knowledge.enter_guard(&self.program, p),
            _ => self.silent += 1,
        }
    }

    fn finish_all(&mut self, at: ExprId, n: usize, facts: usize, negated: bool) {
        self.knowledge.leave(facts);
        let from = self.preds.len().saturating_sub(n);
        let last = self.preds.len().saturating_sub(1);
        let missing = self.preds.get(from..last).unwrap_or_default().iter().filter(|p| p.is_none()).count();
        self.silent = self.silent.saturating_sub(missing);
        let all = self.pop_preds(n).map(Pred::all);
        let all = self.negate_if(at, negated, all);
        self.push_pred(at, all);
    }

    pub(super) fn finish_exists(&mut self, at: ExprId, index: IndexId, extent: Option<Size>, negated: bool) {
        if let Expr::Binder { index: name, .. } = self.expr(at) {
            self.leave_index(&name.text, extent.as_ref());
        }
        if let Some(anchor) = self.anchors.last_mut() {
            anchor.slots.pop();
        }
        let body = self.preds.pop().flatten();
        let quotients = self.take_quotients_of(index);
        let body = body.and_then(|body| self.exists_quotients(&quotients, body));
        let exists = body.zip(extent).map(|(body, extent)| Pred::exists(index, extent, body));
        let exists = self.negate_if(at, negated, exists);
        self.push_pred(at, exists);
    }

    /// `R(a, ..)`
    fn atom(&mut self, at: ExprId, name: &str, args: &'a [ExprId], negated: bool) {
        let span = self.span(at);
        let global = self.globals.get(name).filter(|_| self.local_function(name).is_none());
        let relation = match global {
            Some(Global::Relation(r) | Global::Map(r)) => Some(RelationRef::Input(*r)),
            Some(Global::Error) => {
                self.fail();
                None
            }
            _ => match self.pattern_named(name) {
                Some(pattern) => Some(pattern),
                None => {
                    self.not_a_relation(name, span);
                    None
                }
            },
        };
        let Some(relation) = relation else {
            self.preds.push(None);
            return;
        };
        let places = super::bounds::shape(&self.program, relation).len();
        if args.len() != places {
            let places = count(places, "index", "indices");
            let message = format!("the relation `{name}` takes {places}, found {}", args.len());
            self.report("wrong-arity", span, message);
            self.preds.push(None);
            return;
        }
        self.tasks.push(Task::Relation { relation, n: args.len(), holds: !negated });
        self.tasks.extend(args.iter().rev().map(|a| Task::Index(*a)));
    }

    /// The pattern that `A?` names.
    fn pattern_named(&self, name: &str) -> Option<RelationRef> {
        match self.globals.get(name.strip_suffix('?')?) {
            Some(Global::Param(var)) => self.sparse(*var),
            _ => None,
        }
    }

    fn not_a_relation(&mut self, name: &str, span: crate::base::Span) {
        if let Some(param) = name.strip_suffix('?') {
            let message = match self.globals.get(param) {
                Some(Global::Param(_)) => format!("`{param}` is stored dense and has no pattern"),
                Some(global) => format!("`{param}` is {}, which has no pattern", global.noun()),
                None => format!("there is no parameter `{param}`"),
            };
            self.report("no-pattern", span, message);
            return;
        }
        if self.is_callable(name) || !matches!(self.peek(name), super::names::Meaning::Unknown) {
            let message = format!("a predicate is expected, but `{name}` is not a relation");
            self.report("not-a-predicate", span, message);
        } else {
            self.unknown_callee(name, span);
        }
    }

    pub(super) fn finish_relation(&mut self, relation: RelationRef, n: usize, holds: bool) {
        let args = self.pop_affines(n);
        let pred = args.and_then(|args| self.about_numbers(Pred::Relation { relation, args, holds }, Span::default()));
        self.preds.push(pred);
    }

    fn comparison(&mut self, at: ExprId, op: BinaryOp, a: ExprId, b: ExprId, negated: bool) {
        if self.compares_indices(a, b) {
            self.tasks.push(Task::CompareIndices { at, op, negated });
            for side in [b, a] {
                let task = match self.is_application(side) && matches!(op, BinaryOp::Equal | BinaryOp::NotEqual) {
                    true => Task::Application { at: side, prove: false },
                    false => Task::Index(side),
                };
                self.tasks.push(task);
            }
            return;
        }
        let zero = |e: ExprId| matches!(self.expr(e), Expr::Number { value, .. } if *value == 0.0);
        let element = match op {
            BinaryOp::Equal | BinaryOp::NotEqual if zero(b) => self.element(a),
            BinaryOp::Equal | BinaryOp::NotEqual if zero(a) => self.element(b),
            _ => None,
        };
        // The support of a tensor is a relation: it holds of no tuple outside, so there is nothing to prove.
        if let Some((var, indices)) = element {
            let relation = RelationRef::Computed { var, view: View::Support };
            let holds = (op == BinaryOp::NotEqual) != negated;
            self.tasks.push(Task::Relation { relation, n: indices.len(), holds });
            self.tasks.extend(indices.iter().rev().map(|i| Task::Index(*i)));
            return;
        }
        self.enter_moved();
        self.tasks.push(Task::CompareReals { at, op, negated });
        self.tasks.extend([Task::Value(b), Task::Value(a)]);
    }

    /// Whether a comparison is one of integers.
    pub(super) fn compares_indices(&mut self, a: ExprId, b: ExprId) -> bool {
        self.is_index_expression(a) && self.is_index_expression(b)
    }

    /// Whether an expression is just a map applied, or an `argmax`.
    fn is_application(&self, e: ExprId) -> bool {
        match self.expr(e) {
            Expr::Binder { kind, .. } => matches!(kind, BinderKind::ArgMax | BinderKind::ArgMin),
            _ => self.applied_map(e).is_some(),
        }
    }

    pub(super) fn finish_compare_indices(&mut self, at: ExprId, op: BinaryOp, negated: bool) {
        let b = self.pop_affine();
        let a = self.pop_affine();
        let pred = a.zip(b).and_then(|(a, b)| self.compare_indices(at, op, &a, &b));
        let pred = self.negate_if(at, negated, pred);
        let span = self.span(at);
        let pred = pred.and_then(|pred| self.about_numbers(pred, span));
        self.push_pred(at, pred);
    }

    fn compare_indices(&mut self, at: ExprId, op: BinaryOp, a: &Affine, b: &Affine) -> Option<Pred> {
        if matches!(op, BinaryOp::Equal | BinaryOp::NotEqual) {
            // map(args) = k  ==  the tuple (args, k) is in the map
            for (side, other) in [(a, b), (b, a)] {
                if let Some(Application { map, args }) = application(side)
                    && other.nesting() == 0
                    && args.iter().all(|a| a.nesting() == 0)
                {
                    let args = args.iter().chain([other]).cloned().collect();
                    return Some(Pred::Relation { relation: *map, args, holds: op == BinaryOp::Equal });
                }
            }
            let Expr::Binary(_, left, right) = self.expr(at) else { return None };
            for (e, side) in [(*left, a), (*right, b)] {
                if let (true, Some(application)) = (self.is_application(e), application(side)) {
                    self.demand_source(e, application)?;
                }
            }
        }
        let pred: Checked<Pred> = match op {
            BinaryOp::Less => Pred::lt(a, b),
            BinaryOp::LessEqual => Pred::le(a, b),
            BinaryOp::Greater => Pred::lt(b, a),
            BinaryOp::GreaterEqual => Pred::le(b, a),
            BinaryOp::NotEqual => Pred::unequal(a, b),
            _ => Pred::equal(a, b),
        };
        self.checked(at, pred)
    }
}

/// The application that an affine form is, where it is just one.
fn application(a: &Affine) -> Option<&Application> {
    match (a.terms(), a.offset()) {
        ([(Var::Apply(application), 1)], 0) => Some(application),
        _ => None,
    }
}

pub(super) fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    matches!(op, Less | LessEqual | Greater | GreaterEqual | Equal | NotEqual)
}

//! Places that are the smaller or the larger of two, `u[min(i + 1, n - 1)]`, or one of two by a condition: choices between elements.
//!
//! ```text
//! u[min(a, b)]          ==  if a <= b then u[a] else u[b]
//! u[max(a, b) - 1]      ==  if a >= b then u[a - 1] else u[b - 1]
//! u[abs(a)]             ==  if a >= -a then u[a] else u[-a]
//! u[if p then a else b] ==  if p then u[a] else u[b]
//! u[f(min(a, b))]       ==  if a <= b then u[f(a)] else u[f(b)]      f a map
//! ```
//!
//! Each element is in bounds by what is known on its side.

use super::{Operand, Parser};
use crate::base::Span;
use crate::surface::ast::{BinaryOp, Decl, Expr, ExprId, Name, UnaryOp};

/// How many elements one access may choose from.
const MAX_CHOICES: usize = 32;
/// How many parts of an index are looked at.
const MAX_PARTS: usize = 256;

/// A `min`, a `max`, an `abs` or an `if` in an index.
struct Chosen {
    /// The place among the indices.
    at: usize,
    call: ExprId,
    by: By,
}

/// What decides between places.
enum By {
    /// What holds of the first of several where it is the one, the first, and the others.
    Extremum(BinaryOp, ExprId, Vec<ExprId>),
    /// `abs(e)`, which is the larger of `e` and `-e`.
    Absolute(ExprId),
    /// `if c then a else b`
    Condition([ExprId; 3]),
}

impl Parser<'_> {
    /// `x[i, j]`, or a choice of elements.
    pub(super) fn access(&mut self, array: Operand, indices: Vec<ExprId>, end: Span) -> Operand {
        let span = array.span.to(end);
        let mut left = MAX_CHOICES;
        match self.choice(array.id, &indices, span, &mut left) {
            Some(choice) => choice,
            // The call is refused where it gets its meaning.
            None => self.node(Expr::Access { array: array.id, indices }, span),
        }
    }

    /// The access, or the choice; nothing where there are too many elements to choose from. The depth is that of the elements.
    fn choice(&mut self, array: ExprId, indices: &[ExprId], span: Span, left: &mut usize) -> Option<Operand> {
        let Some(Chosen { at, call, by }) = self.chosen(indices) else {
            *left = left.checked_sub(1)?;
            return Some(self.node(Expr::Access { array, indices: indices.to_vec() }, span));
        };
        *left = left.checked_sub(1)?;
        let (guard, sides) = match by {
            By::Condition([guard, a, b]) => (self.copied(guard, (guard, guard)), [a, b]),
            By::Absolute(e) => {
                let negative = self.copied(e, (e, e));
                let negative = self.node(Expr::Unary(UnaryOp::Neg, negative), span).id;
                self.larger(BinaryOp::GreaterEqual, e, vec![negative], span)?
            }
            By::Extremum(op, first, others) => self.larger(op, first, others, span)?,
        };
        let sides = sides.map(|side| {
            let mut indices = indices.to_vec();
            indices[at] = self.copied(indices[at], (call, side));
            indices
        });
        let [then, otherwise] = sides;
        let then = self.choice(array, &then, span, left)?.id;
        let otherwise = self.choice(array, &otherwise, span, left)?.id;
        let callee = Name { text: "select".to_owned(), span };
        Some(self.node(Expr::Call { callee, args: vec![guard, then, otherwise] }, span))
    }

    /// What holds where the first of several places is the smallest or the largest, this, and what is the place elsewhere.
    fn larger(
        &mut self,
        op: BinaryOp,
        first: ExprId,
        others: Vec<ExprId>,
        span: Span,
    ) -> Option<(ExprId, [ExprId; 2])> {
        let mut guard = None;
        for other in &others {
            let [a, b] = [first, *other].map(|side| self.copied(side, (side, side)));
            let compared = self.node(Expr::Binary(op, a, b), span).id;
            guard = Some(match guard {
                None => compared,
                Some(guard) => self.node(Expr::Binary(BinaryOp::And, guard, compared), span).id,
            });
        }
        let rest = match others.as_slice() {
            [second] => *second,
            _ => {
                let word = if op == BinaryOp::LessEqual { "min" } else { "max" };
                let callee = Name { text: word.to_owned(), span };
                self.node(Expr::Call { callee, args: others }, span).id
            }
        };
        Some((guard?, [first, rest]))
    }

    /// The first choice in the arithmetic of some indices. What it takes has none in it, as `min(i, n)` in `max(0, min(i, n))`.
    fn chosen(&self, indices: &[ExprId]) -> Option<Chosen> {
        for (at, index) in indices.iter().enumerate() {
            let mut stack = vec![*index];
            let mut found = None;
            for _ in 0..MAX_PARTS {
                let Some(e) = stack.pop() else { break };
                match self.ast.exprs.get(e)? {
                    Expr::Unary(UnaryOp::Neg, a) => stack.push(*a),
                    Expr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::FloorDiv, a, b) => {
                        stack.extend([*b, *a]);
                    }
                    Expr::Call { callee, args } if matches!(callee.text.as_str(), "min" | "max") => {
                        let (first, others) = args.split_first().filter(|(_, others)| !others.is_empty())?;
                        let op = if callee.text == "min" { BinaryOp::LessEqual } else { BinaryOp::GreaterEqual };
                        stack.extend(args.iter().rev());
                        // One inside is decided first.
                        found = Some(Chosen { at, call: e, by: By::Extremum(op, *first, others.to_vec()) });
                    }
                    Expr::Call { callee, args } => match (callee.text.as_str(), args.as_slice()) {
                        ("abs", [of]) if !self.is_declared_function("abs") => {
                            stack.push(*of);
                            found = Some(Chosen { at, call: e, by: By::Absolute(*of) });
                        }
                        ("select", [guard, a, b]) => {
                            stack.extend([*b, *a]);
                            found = Some(Chosen { at, call: e, by: By::Condition([*guard, *a, *b]) });
                        }
                        // The places of a map.
                        _ if self.is_declared_map(&callee.text) => stack.extend(args.iter().rev()),
                        _ => {}
                    },
                    _ => {}
                }
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Whether a `map` or a parameter in front of this place has a name: what is applied in an index is a map.
    fn is_declared_map(&self, text: &str) -> bool {
        let has_name = |decl: &Decl| match decl {
            Decl::Map { name, .. } | Decl::Param { name, .. } => name.text == text,
            _ => false,
        };
        self.ast.decls.iter().any(has_name)
    }
}

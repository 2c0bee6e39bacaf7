//! Places that are the smaller or the larger of two, `u[min(i + 1, n - 1)]`: choices between elements.
//!
//! ```text
//! u[min(a, b)]          ==  if a <= b then u[a] else u[b]
//! u[max(a, b) - 1]      ==  if a >= b then u[a - 1] else u[b - 1]
//! ```
//!
//! Each element is in bounds by what is known on its side.

use super::{Operand, Parser};
use crate::base::Span;
use crate::surface::ast::{BinaryOp, Expr, ExprId, Name, UnaryOp};

/// How many elements one access may choose from.
const MAX_CHOICES: usize = 32;
/// How many parts of an index are looked at.
const MAX_PARTS: usize = 256;

/// A `min` or a `max` in an index.
struct Extremum {
    /// The place among the indices.
    at: usize,
    call: ExprId,
    /// What holds of the first of the two where it is the one.
    op: BinaryOp,
    /// The first, and the others.
    first: ExprId,
    others: Vec<ExprId>,
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
        let Some(Extremum { at, call, op, first, others }) = self.extremum(indices) else {
            *left = left.checked_sub(1)?;
            return Some(self.node(Expr::Access { array, indices: indices.to_vec() }, span));
        };
        *left = left.checked_sub(1)?;
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
        let sides = [first, rest].map(|side| {
            let mut indices = indices.to_vec();
            indices[at] = self.copied(indices[at], (call, side));
            indices
        });
        let guard = guard?;
        let [then, otherwise] = sides;
        let then = self.choice(array, &then, span, left)?.id;
        let otherwise = self.choice(array, &otherwise, span, left)?.id;
        let callee = Name { text: "select".to_owned(), span };
        Some(self.node(Expr::Call { callee, args: vec![guard, then, otherwise] }, span))
    }

    /// The first `min` or `max` of two or more in the arithmetic of some indices. What it takes has none in it, as `min(i, n)` in `max(0, min(i, n))`.
    fn extremum(&self, indices: &[ExprId]) -> Option<Extremum> {
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
                        let others = others.to_vec();
                        stack.extend(args.iter().rev());
                        // One inside is decided first.
                        found = Some(Extremum { at, call: e, op, first: *first, others });
                    }
                    _ => {}
                }
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

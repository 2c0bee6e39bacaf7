//! What is right and easily misread: warnings.
//!
//! `sum j < d. X[i, j] * w[j] + b` adds `b` to each of its terms. Who meant `(sum j < d. X[i, j] * w[j]) + b` gets a warning with both
//! readings, unless the body of the `sum` stands in parentheses.

use super::{Operand, Parser};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::surface::ast::{BinaryOp, Expr, ExprId};

/// The longest body that is shown in a warning, in bytes.
const MAX_SHOWN: usize = 60;
/// How many nodes of one term are looked at.
const MAX_TERM: usize = 256;

impl Parser<'_> {
    /// The body of a `sum` over some indices is complete.
    pub(super) fn warn_of_sum(&mut self, indices: &[String], body: Operand, sum: Span) {
        let is_sum = |e: &Expr| matches!(e, Expr::Binary(BinaryOp::Add | BinaryOp::Sub, ..));
        if indices.is_empty() || !is_sum(&self.ast.exprs[body.id]) || self.ast.spans[body.id] != body.span {
            return;
        }
        // The terms from the last to the first.
        let mut terms = Vec::new();
        let mut rest = body.id;
        while let Expr::Binary(BinaryOp::Add | BinaryOp::Sub, left, right) = &self.ast.exprs[rest] {
            terms.push(*right);
            rest = *left;
            if terms.len() > MAX_TERM {
                return;
            }
        }
        terms.push(rest);
        let mut free = Vec::with_capacity(terms.len());
        for term in &terms {
            match self.mentions(*term, indices) {
                Some(mentions) => free.push(!mentions),
                None => return,
            }
        }
        // The term in front of those at the end that do not depend. A sum that ends with one that does is read as it is meant.
        let Some(before) = free.iter().position(|free| !free).filter(|before| *before > 0) else { return };
        let span = self.ast.spans[terms[before - 1]].to(self.ast.spans[terms[0]]);
        let text = |from: u32, to: u32| match self.text.get(from as usize..to as usize).unwrap_or("").trim() {
            text if text.len() > MAX_SHOWN || text.contains('\n') => "..",
            text => text,
        };
        let message = format!(
            "`{}` does not depend on `{}`, and is added for each of its values",
            text(span.start, span.end),
            indices.join(", ")
        );
        let end = self.ast.spans[terms[before]].end;
        let help = format!(
            "write `{} ({})` if it is to be added each time, `({}) {}` if once",
            text(sum.start, body.span.start),
            text(body.span.start, body.span.end),
            text(sum.start, end),
            text(end, body.span.end)
        );
        self.ast.warnings.push(Diagnostic::new("summand-without-index", span, message).help(help));
    }

    /// Whether an expression mentions one of some names; nothing for one that is too long to tell.
    fn mentions(&mut self, e: ExprId, names: &[String]) -> Option<bool> {
        let mut stack = vec![e];
        let mut seen = 0;
        while let Some(e) = stack.pop() {
            seen += 1;
            self.looked_at += 1;
            if seen > MAX_TERM || self.looked_at > super::MAX_LOOKED_AT {
                return None;
            }
            match &self.ast.exprs[e] {
                Expr::Name(name) if names.contains(name) => return Some(true),
                expr => expr.for_each_operand(|e| stack.push(e)),
            }
        }
        Some(false)
    }
}

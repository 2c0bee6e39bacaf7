//! Brackets: `[p] * e`, a select, and `[a, b]`, a vector.

use super::frame::{Frame, Next, is_comparison};
use super::{Operand, Parser, starts_operand};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::lexer::Token;
use crate::surface::ast::{BinaryOp, BinderKind, Expr, ExprId, Name, UnaryOp};

impl Parser<'_> {
    /// Behind the `]` of a guard stands `*` and the body, or the body, or nothing: then the bracket is the number 1 or 0.
    pub(super) fn guard(&mut self, guard: ExprId, open: Span) -> Next {
        let juxtaposed = starts_operand(self.token()) && !self.current.starts_line;
        if self.eat(Token::Star).is_none() && !juxtaposed {
            let span = open.to(self.last_end);
            let one = self.node(Expr::Number { value: 1.0, integer: Some(1) }, span);
            return Next::Operand(self.node(Expr::Iverson { guard, body: one.id }, span));
        }
        self.open(Frame::Iverson { guard, start: open });
        Next::Expect
    }

    /// Behind the first comma of `[a, b]`: a vector, unless `a` is a predicate.
    pub(super) fn behind_comma(&mut self, open: Span, operand: Operand, comma: Span) -> Next {
        let is_predicate = match self.ast.exprs.get(operand.id) {
            Some(Expr::Binary(op, ..)) => is_comparison(*op) || matches!(op, BinaryOp::And | BinaryOp::Or),
            Some(Expr::Unary(UnaryOp::Not, _) | Expr::Binder { kind: BinderKind::Exists, .. }) => true,
            Some(Expr::Call { callee, .. }) => callee.text.ends_with('?'),
            _ => false,
        };
        if !is_predicate {
            self.open(Frame::Vector { open, items: vec![operand] });
            return Next::Expect;
        }
        let message = "expected `]` or an operator behind the predicate, found `,`";
        self.report(
            Diagnostic::new("unexpected-token", comma, message)
                .help("a bracket holds one predicate: join several with `and`"),
        );
        self.open(Frame::Guard { open });
        self.open(Frame::Infix { op: BinaryOp::And, lhs: operand });
        Next::Expect
    }

    /// `[a, b]` is `gen i < 2. [i = 0] * a + [i = 1] * b`, with a name for `i` that nobody can write.
    pub(super) fn vector(&mut self, items: Vec<Operand>, open: Span, end: Span) -> Operand {
        let span = open.to(end);
        let index = Name { text: "place in a vector".to_owned(), span: open };
        let integer = |k: usize| Expr::Number { value: k as f64, integer: i64::try_from(k).ok() };
        let extent = self.node(integer(items.len()), span).id;
        let mut sum: Option<Operand> = None;
        for (k, item) in items.into_iter().enumerate() {
            let (i, k) = (self.node(Expr::Name(index.text.clone()), open), self.node(integer(k), open));
            let guard = self.node(Expr::Binary(BinaryOp::Equal, i.id, k.id), open).id;
            let term = self.node(Expr::Iverson { guard, body: item.id }, item.span);
            sum = Some(match sum {
                None => term,
                Some(sum) => self.node(Expr::Binary(BinaryOp::Add, sum.id, term.id), span),
            });
        }
        let body = sum.map_or_else(|| self.error_leaf().id, |sum| sum.id);
        self.node(Expr::Binder { kind: BinderKind::Gen, index, extent, body }, span)
    }
}

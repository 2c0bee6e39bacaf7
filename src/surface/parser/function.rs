//! `fn x, y : [n] real. e`: parameters, each with its type or `real`, a point, and the body. A pattern takes a parameter apart, as in
//! `fn (a, b) : (real, real). a * b`.
//!
//! What is wrong with the head is reported once, and the whole stands as an [`Expr::Error`](crate::surface::ast::Expr::Error).

use super::frame::{Frame, Pattern};
use super::{Operand, Parser};
use crate::error::Diagnostic;
use crate::foreign;
use crate::lexer::Token;
use crate::surface::ast::{Name, TypeExpr, TypeKind};

impl Parser<'_> {
    /// Reads from the word to the point.
    pub(super) fn function(&mut self) -> Option<Operand> {
        let misread = self.reported_at == Some(self.current.span.start);
        let start = self.advance().span;
        let before = self.diagnostics.len();
        let mut params = Vec::new();
        let mut patterns = Vec::new();
        while let Some((pattern, ty)) = self.function_parameter() {
            let mut name = match &pattern {
                Pattern::Name(name) => name.clone(),
                Pattern::Pair(span, ..) => Name { text: pattern.whole(), span: *span },
            };
            if matches!(pattern, Pattern::Pair(..)) {
                // Patterns may begin alike; no name has a blank in it.
                name.text.push_str(&" ".repeat(patterns.len()));
                patterns.push((pattern, name.text.clone()));
            }
            params.push((name, ty));
            if self.eat(Token::Comma).is_none() {
                break;
            }
        }
        if self.diagnostics.len() == before && self.token() != Token::Dot {
            let message = format!("expected `,` or `.` behind a parameter of `fn`, found {}", self.found());
            self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(foreign::FUNCTION));
        }
        let sound = !misread && self.token() == Token::Dot && self.diagnostics.len() == before;
        if matches!(self.token(), Token::Dot | Token::Arrow | Token::Equal | Token::Colon) {
            self.advance();
        }
        self.open(Frame::FunctionBody { params, start, sound });
        for (pattern, whole) in patterns {
            let start = self.current.span;
            self.open_parts(pattern, &whole, start);
        }
        None
    }

    /// `x`, `x : T`, `(a, b) : (T, U)`
    fn function_parameter(&mut self) -> Option<(Pattern, TypeExpr)> {
        let pattern = self.pattern(0, "the name of a parameter of `fn`, as in `fn x. e`")?;
        let ty = match self.eat(Token::Colon) {
            Some(_) => self.ty(0)?,
            None => reals(&pattern),
        };
        Some((pattern, ty))
    }
}

/// The type of a parameter where none is written. Patterns nest to a bounded depth.
fn reals(pattern: &Pattern) -> TypeExpr {
    match pattern {
        Pattern::Name(name) => TypeExpr { kind: TypeKind::Real, span: name.span },
        Pattern::Pair(span, first, second) => {
            TypeExpr { kind: TypeKind::Pair(Box::new(reals(first)), Box::new(reals(second))), span: *span }
        }
    }
}

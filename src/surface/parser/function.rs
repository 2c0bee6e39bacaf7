//! `fn x, y : [n] real. e`: parameters, each with its type or `real`, a point, and the body. A pattern takes a parameter apart, as in
//! `fn (a, b) : (real, real). a * b`.
//!
//! What is wrong with the head is reported once, and the whole stands as an [`Expr::Error`](crate::surface::ast::Expr::Error).

use super::frame::{Frame, Pattern};
use super::{Operand, Parser, starts_operand};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::foreign;
use crate::lexer::Token;
use crate::surface::ast::{Name, TypeExpr, TypeKind};

/// How many tokens are looked at for the end of a list of parameters.
const MAX_HEAD: usize = 32;

impl Parser<'_> {
    /// Reads from the word to the point.
    pub(super) fn function(&mut self) -> Option<Operand> {
        let start = self.advance().span;
        let before = self.diagnostics.len();
        let (params, patterns) = self.function_parameters();
        let mut sound = self.diagnostics.len() == before;
        if sound && self.token() != Token::Dot {
            let message = format!("expected `,` or `.` behind a parameter of `fn`, found {}", self.found());
            self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(foreign::FUNCTION));
            sound = false;
        }
        if !sound {
            self.skip_head();
        }
        self.eat(Token::Dot);
        self.open(Frame::FunctionBody { params, start, sound });
        for (pattern, whole) in patterns {
            let start = self.current.span;
            self.open_parts(pattern, &whole, start);
        }
        None
    }

    /// A function as another language writes it, `lambda x: e`, from the token behind the word `word`: it is reported, and its body is read.
    pub(super) fn foreign_function(&mut self, word: Span) -> Option<Operand> {
        let text = self.text.get(word.range()).unwrap_or("");
        let message = format!("expected an expression, found `{text}`");
        self.push_diagnostic(Diagnostic::new("unexpected-token", word, message).help(foreign::FUNCTION));
        if self.eat(Token::LeftParen).is_some() {
            self.skip(|token| token == Token::RightParen);
            self.eat(Token::RightParen);
        }
        self.skip_head();
        self.open(Frame::FunctionBody { params: Vec::new(), start: word, sound: false });
        None
    }

    /// Whether a function of another language begins with the name at `word`: `lambda x: e`, `function(x) e`.
    pub(super) fn begins_foreign_function(&self, word: Span) -> bool {
        let word = self.text.get(word.range());
        match self.token() {
            _ if self.current.starts_line => false,
            Token::Name => word == Some("lambda"),
            Token::LeftParen if matches!(word, Some("function" | "func")) => {
                let mut lexer = self.lexer.clone();
                let mut tokens = (0..MAX_HEAD).map(|_| lexer.next(&mut Vec::new()));
                tokens.by_ref().any(|lexeme| lexeme.token == Token::RightParen)
                    && tokens.next().is_some_and(|behind| !behind.starts_line && starts_operand(behind.token))
            }
            _ => false,
        }
    }

    /// Whether a `map` here is no declaration but that of other languages, `map(f, x)`.
    pub(super) fn maps_function(&self) -> bool {
        self.token() == Token::Map && self.lexer.clone().next(&mut Vec::new()).token == Token::LeftParen
    }

    /// Passes over parameters and what stands behind them, where the body follows.
    fn skip_head(&mut self) {
        let mut lexer = self.lexer.clone();
        let mut lexeme = self.current;
        for length in 1..=MAX_HEAD {
            match lexeme.token {
                _ if lexeme.starts_line => return,
                Token::Dot | Token::Arrow | Token::Equal | Token::Colon => {
                    (0..length).for_each(|_| {
                        self.advance();
                    });
                    return;
                }
                Token::Name | Token::Comma | Token::LeftParen | Token::RightParen => {}
                _ => return,
            }
            lexeme = lexer.next(&mut Vec::new());
        }
    }

    /// The parameters with their types, and the patterns with the names of the whole pairs.
    #[allow(clippy::type_complexity)]
    fn function_parameters(&mut self) -> (Vec<(Name, TypeExpr)>, Vec<(Pattern, String)>) {
        let mut params = Vec::new();
        let mut patterns = Vec::new();
        while let Some((pattern, ty)) = self.function_parameter() {
            let mut name = match &pattern {
                Pattern::Name(name) | Pattern::Typed(name, _) => name.clone(),
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
        (params, patterns)
    }

    /// `x`, `x : T`, `(a, b) : (T, U)`
    fn function_parameter(&mut self) -> Option<(Pattern, TypeExpr)> {
        let pattern = self.pattern(0, "the name of a parameter of `fn`, as in `fn x. e`", false)?;
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
        Pattern::Name(name) | Pattern::Typed(name, _) => TypeExpr { kind: TypeKind::Real, span: name.span },
        Pattern::Pair(span, first, second) => {
            TypeExpr { kind: TypeKind::Pair(Box::new(reals(first)), Box::new(reals(second))), span: *span }
        }
    }
}

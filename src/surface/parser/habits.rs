//! What other languages would go on with where an expression ends here: it is reported with what to write instead, and is not read.
//!
//! The operand in front of it is part of the habit, as the `np` of `np.exp(x)` is, and means nothing either.

use super::frame::{Frame, Next};
use super::{Operand, Parser, is_decl, starts_operand};
use crate::error::Diagnostic;
use crate::foreign::{self, Member};
use crate::lexer::Token;
use crate::surface::ast::Expr;

/// The longest text that is repeated in a sentence, in bytes.
const MAX_SHOWN: usize = 40;

impl Parser<'_> {
    /// Whether the word stands here.
    pub(super) fn at_word(&self, word: &str) -> bool {
        self.token() == Token::Name && self.text.get(self.current.span.range()) == Some(word)
    }

    /// Whether a condition on what was read stands here, `where x[i] > 0`.
    pub(super) fn is_condition(&self) -> bool {
        !self.current.starts_line && (self.at_word("where") || self.at_word("when"))
    }

    /// What to write instead of what stands here, behind a finished operand.
    pub(super) fn habit(&self, operand: Operand) -> Option<String> {
        let habit = match self.token() {
            Token::Colon if matches!(self.frames.last(), Some(Frame::Access { .. })) => foreign::SLICE,
            Token::Dot if self.current.span.start == operand.span.end => return self.member(operand),
            Token::Question if !self.current.starts_line => foreign::CHOICE,
            Token::If if !self.current.starts_line => foreign::CHOICE,
            _ if self.is_condition() => foreign::CONDITION,
            // `x -> x^2`
            Token::Arrow => foreign::FUNCTION,
            // `x[i] for i in range(n)`
            _ if self.at_word("for") && !self.current.starts_line => foreign::LOOPS,
            _ => return None,
        };
        Some(habit.to_owned())
    }

    /// Whether a parenthesis here holds arguments of the operand in front of it: behind another parenthesis on its line.
    pub(super) fn holds_arguments(&self) -> bool {
        self.token() == Token::LeftParen
            && !self.current.starts_line
            && self.text.get(self.last_end.range()) == Some(")")
    }

    /// `x.T`, `x.sum(axis=0)`, `np.linalg.norm(x)`
    fn member(&self, operand: Operand) -> Option<String> {
        let of = self.text.get(operand.span.range()).unwrap_or("");
        let of = if of.len() > MAX_SHOWN || of.contains('\n') { "A" } else { of };
        let mut lexer = self.lexer.clone();
        let mut problems = Vec::new();
        let (mut member, mut behind) = (lexer.next(&mut problems), lexer.next(&mut problems));
        // The last of several: all in front of it are modules.
        for _ in 0..3 {
            if behind.token != Token::Dot || behind.span.start != member.span.end {
                break;
            }
            (member, behind) = (lexer.next(&mut problems), lexer.next(&mut problems));
        }
        let name = self.text.get(member.span.range()).unwrap_or("");
        if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return None;
        }
        let called = behind.token == Token::LeftParen && behind.span.start == member.span.end;
        let rest = self.text.get(behind.span.end as usize..).unwrap_or("");
        let arguments = called.then(|| {
            let mut depth = 1usize;
            let end = rest.char_indices().take(MAX_SHOWN).find(|(_, c)| {
                depth = match c {
                    '(' => depth + 1,
                    ')' => depth - 1,
                    _ => depth,
                };
                depth == 0 || *c == '\n'
            });
            end.map_or("..", |(end, _)| rest.get(..end).unwrap_or("..").trim())
        });
        foreign::member(&Member { of, name, arguments })
    }

    /// What to write instead of a word with an operand behind it, as in `return x`.
    pub(super) fn habit_of_word(&self, operand: Operand) -> Option<&'static str> {
        match self.ast.exprs.get(operand.id) {
            Some(Expr::Name(name)) => foreign::word(name),
            // `function(x) x^2`
            Some(Expr::Call { callee, .. }) => foreign::word(&callee.text),
            _ => None,
        }
    }

    /// Passes over a habit, up to a token that ends what it stands in.
    pub(super) fn skip_habit(&mut self) -> Operand {
        // The `in` of a loop belongs to it, as the `else` of `a if c else b` does.
        let is_loop = self.at_word("for");
        let in_choice =
            self.frames.iter().any(|frame| matches!(frame, Frame::IfCondition { .. } | Frame::IfThen { .. }));
        let mut depth = usize::from(self.token() == Token::LeftParen);
        self.advance();
        loop {
            let token = self.token();
            let ends = match token {
                Token::In => !is_loop,
                Token::Let | Token::Comma | Token::Semicolon => true,
                Token::RightParen | Token::RightBracket | Token::With => true,
                Token::Then | Token::Else => in_choice,
                _ => self.current.starts_line && starts_operand(token),
            };
            if token == Token::End || is_decl(token) || depth == 0 && ends {
                return self.error_leaf();
            }
            match token {
                Token::LeftParen | Token::LeftBracket => depth += 1,
                Token::RightParen | Token::RightBracket => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.advance();
        }
    }

    /// `sum i < n: e` and `sum i < n where p. e`, behind the range.
    pub(super) fn foreign_range(&mut self, operand: Operand) -> Next {
        let help = match self.token() {
            Token::Colon if matches!(self.frames.last(), Some(Frame::ScanInit { .. })) => {
                "the body stands behind a point: `fold t < n, s = e0. e`"
            }
            Token::Colon => "the body stands behind a point: `sum i < n. e`",
            _ => foreign::CONDITION,
        };
        let message = format!("expected an operator, or `.` and the body, found {}", self.found());
        self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
        if self.token() != Token::Colon {
            self.skip(|token| matches!(token, Token::Dot | Token::Comma | Token::RightParen | Token::RightBracket));
            if self.token() != Token::Dot {
                return Next::Operand(operand);
            }
        }
        let end = self.advance().span;
        self.end_group(Token::Dot, end, operand)
    }
}

//! `fold t < T, s = e0. e` and `scan` alike: an index and its range, perhaps `down`, the state and its first value, the body.
//!
//! What is wrong with the head is reported once, and the whole stands as an [`Expr::Error`](crate::surface::ast::Expr::Error): without index or
//! state each use of them in the body would be a further problem.

use super::frame::{Frame, Head, Next, Pattern};
use super::{Operand, Parser, starts_operand};
use crate::error::Diagnostic;
use crate::foreign;
use crate::lexer::Token;
use crate::surface::ast::{ExprId, Name};

impl Parser<'_> {
    /// Reads from the word to the range.
    pub(super) fn scan(&mut self, fold: bool) -> Option<Operand> {
        let start = self.advance().span;
        let text = self.text.get(self.current.span.range()).unwrap_or("");
        if !text.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            let word = word(fold);
            let expected = format!("expected an index and a state, as in `{word} t < n, s = e0. e`");
            let message = format!("{expected}, found {}", self.found());
            let help = format!("{}; as a name it is `{word}'`", foreign::STEPS);
            self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
            if self.token() == Token::LeftParen {
                self.advance();
                self.skip(|token| token == Token::RightParen);
                self.eat(Token::RightParen);
            }
            return Some(self.error_leaf());
        }
        let before = self.diagnostics.len();
        let (index, inclusive) = self.binder_index();
        let sound = self.diagnostics.len() == before;
        let head = Head { fold, down: false, sound, index, start };
        self.open(Frame::ScanRange { head, inclusive });
        None
    }

    /// The word `down` stands behind the range.
    pub(super) fn scan_down(&mut self) {
        self.advance();
        if let Some(Frame::ScanRange { head, .. }) = self.frames.last_mut() {
            head.down = true;
        }
        if self.token() != Token::Comma {
            self.unexpected("`,` and the state behind `down`");
        }
    }

    /// Reads the state and its `=`, behind the comma.
    pub(super) fn scan_state(&mut self, mut head: Head, steps: ExprId) -> Next {
        if self.is_index() {
            let word = word(head.fold);
            let message = format!("expected the state, as in `s = e0`, found another index, {}", self.found());
            let help = format!(
                "a `{word}` goes over one index: nest them, as in `{word} t < n, s = e0. fold u < m, r = s. e`"
            );
            self.report_head(&mut head, Diagnostic::new("unexpected-token", self.current.span, message).help(help));
            let (index, inclusive) = self.binder_index();
            self.open(Frame::ScanRange { head: Head { index, ..head }, inclusive });
            return Next::Expect;
        }
        let before = self.diagnostics.len();
        let state = self.pattern(0, "the state, as in `s = e0`").unwrap_or_else(|| Pattern::Name(self.no_name()));
        self.expect(Token::Equal, "and the state at the beginning");
        head.sound &= self.diagnostics.len() == before;
        if !head.sound && self.eat(Token::Dot).is_some() {
            let init = self.error_leaf().id;
            self.scan_body(head, steps, state, init);
            return Next::Expect;
        }
        self.open(Frame::ScanInit { head, steps, state });
        Next::Expect
    }

    /// The state at the beginning is complete: the body comes next.
    pub(super) fn scan_body(&mut self, head: Head, steps: ExprId, state: Pattern, init: ExprId) {
        let (span, pattern) = match state {
            Pattern::Name(state) => return self.open(Frame::ScanBody { head, steps, state, init }),
            Pattern::Pair(span, ..) => (span, state),
        };
        let text = pattern.whole();
        self.open(Frame::ScanBody { head, steps, state: Name { text: text.clone(), span }, init });
        let start = self.current.span;
        self.open_parts(pattern, &text, start);
    }

    /// The current token ends neither the range nor the first value of the state; nothing where it is no mistake of scans.
    pub(super) fn recover_scan(&mut self, operand: Operand) -> Option<Next> {
        let token = self.token();
        let in_range = matches!(self.frames.last(), Some(Frame::ScanRange { .. }));
        match token {
            _ if in_range && (token == Token::Dot || starts_operand(token)) => self.without_state(operand),
            _ if in_range => None,
            Token::Comma => Some(self.another_state(operand)),
            _ if token == Token::Colon || self.is_condition() => Some(self.foreign_range(operand)),
            _ if starts_operand(token) => {
                self.report_open_group();
                Some(self.end_group(Token::Dot, self.current.span, operand))
            }
            _ => None,
        }
    }

    /// Behind the range there is no comma: the state is read where it stands all the same.
    fn without_state(&mut self, operand: Operand) -> Option<Next> {
        let Some(Frame::ScanRange { mut head, inclusive }) = self.frames.pop() else { return None };
        let word = word(head.fold);
        let message = format!("expected an operator, or `,` and the state, found {}", self.found());
        let help = format!("`{word} t < n, s = e0. e` begins with `e0`, and goes on from `s` to `e`");
        self.report_head(&mut head, Diagnostic::new("unexpected-token", self.current.span, message).help(help));
        let steps = self.range(operand, inclusive);
        if self.eat(Token::Dot).is_none() {
            return Some(self.scan_state(head, steps));
        }
        let init = self.error_leaf().id;
        self.scan_body(head, steps, Pattern::Name(self.no_name()), init);
        Some(Next::Expect)
    }

    /// `, r = e1` stands behind the first state.
    fn another_state(&mut self, operand: Operand) -> Next {
        let Some(Frame::ScanInit { mut head, steps, .. }) = self.frames.pop() else { return Next::Operand(operand) };
        let word = word(head.fold);
        let message = "expected an operator, or `.` and the body, found `,`";
        let help =
            format!("a `{word}` has one state: of several make a pair, as in `{word} t < n, (s, r) = (a, b). e`");
        self.report_head(&mut head, Diagnostic::new("unexpected-token", self.current.span, message).help(help));
        self.advance();
        self.scan_state(head, steps)
    }

    /// Reports what is wrong with the head, if it is the first.
    fn report_head(&mut self, head: &mut Head, diagnostic: Diagnostic) {
        if head.sound {
            self.report(diagnostic);
        }
        head.sound = false;
    }

    /// Whether an index and its range stand here.
    fn is_index(&self) -> bool {
        let behind = self.lexer.clone().next(&mut Vec::new()).token;
        self.token() == Token::Name && matches!(behind, Token::Less | Token::LessEqual)
    }
}

fn word(fold: bool) -> &'static str {
    if fold { "fold" } else { "scan" }
}

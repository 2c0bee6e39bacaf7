//! How reading goes on behind a mistake: what is open is closed, or tokens are skipped up to one that means something.

use super::frame::{Frame, Next, Pattern};
use super::{Operand, Parser, is_decl, starts_operand, symbol_text};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::foreign;
use crate::lexer::Token;
use crate::surface::ast::{BinaryOp, Expr, LoopKind, UnaryOp};

/// What stands for two operands beside each other.
const PRODUCT: &str = "a product needs its sign: `2 * x`, of matrices and vectors `A @ x`";

/// The same behind a transpose.
const TRANSPOSED: &str = "a product needs its sign: `A' @ x`, and of two vectors, which are not transposed, `x @ y`";

/// What stands for a comment of another language.
pub(super) const COMMENTS: &str = "comments begin with `#` or `//` and end with the line";

impl Parser<'_> {
    /// The current token neither continues the operand nor ends the group on top.
    pub(super) fn recover(&mut self, operand: Operand, base: usize, stops: &[Token]) -> Next {
        let token = self.token();
        // A definition goes on with the block of a `let`.
        if matches!(self.frames.last(), Some(Frame::LetValue { .. })) && self.goes_on_with_definition() {
            return self.end_group(Token::In, self.current.span, operand);
        }
        let outer = |parser: &Self| parser.frames.iter().skip(base).any(|frame| frame.accepts(token));
        if token == Token::End || is_decl(token) || stops.contains(&token) || outer(self) {
            return Next::Operand(self.close_groups(operand, base));
        }
        match self.frames.last() {
            // A block: what begins a line is no part of the value.
            Some(Frame::LetValue { .. }) if starts_operand(token) && self.current.starts_line => {
                return self.end_group(Token::In, self.current.span, operand);
            }
            Some(Frame::LetValue { .. }) if token == Token::Let => {
                self.report_open_group();
                return self.end_group(Token::In, self.current.span, operand);
            }
            Some(Frame::Extent { open: None, .. }) if token == Token::Colon || self.is_condition() => {
                return self.foreign_range(operand);
            }
            Some(Frame::Extent { open: None, .. }) if self.is_step() => return self.range_in_steps(operand),
            Some(Frame::Extent { open: None, .. }) if starts_operand(token) => {
                self.report_open_group();
                return self.end_group(Token::Dot, self.current.span, operand);
            }
            Some(Frame::ScanRange { .. } | Frame::ScanInit { .. }) => {
                if let Some(next) = self.recover_scan(operand) {
                    return next;
                }
            }
            Some(Frame::IterateInit { .. }) if token == Token::Dot => return self.without_condition(operand),
            // `if c: a`
            Some(Frame::IfCondition { .. }) if token == Token::Colon => {
                let end = self.advance().span;
                return self.end_group(Token::Then, end, operand);
            }
            _ => {}
        }
        if matches!(token, Token::RightParen | Token::RightBracket) {
            let message = format!("expected no closing bracket here, found {}", self.found());
            self.report(
                Diagnostic::new("unmatched-bracket", self.current.span, message)
                    .help("no bracket is open here that it could close"),
            );
            self.advance();
            return Next::Operand(operand);
        }
        let message = format!("expected {}, found {}", self.expected(), self.found());
        let mut diagnostic = Diagnostic::new("unexpected-token", self.current.span, message);
        if let Some(help) = self.habit(operand) {
            self.report(diagnostic.help(help));
            return Next::Operand(self.skip_habit());
        }
        if matches!(token, Token::LeftBracket | Token::LeftParen) {
            diagnostic = diagnostic.help(if token == Token::LeftParen && !self.current.starts_line {
                "a product needs its sign, as in `2 * (a + b)`; what is called is a name, a call, or in parentheses"
            } else {
                "an access or a call begins on the line on which what it applies to ends"
            });
        }
        if let Some(help) = self.habit_of_word(operand) {
            diagnostic = diagnostic.help(help);
        } else if let Some(help) = self.beside(operand).filter(|_| token == Token::Name && !self.current.starts_line) {
            diagnostic = diagnostic.help(help);
        }
        self.report(diagnostic);
        // What is beside an operand was meant to be a part of it.
        let beside = starts_operand(token) && !self.current.starts_line;
        if token == Token::Let {
            self.open(Frame::Infix { op: BinaryOp::Mul, lhs: operand });
            return Next::Expect;
        }
        if matches!(token, Token::In | Token::Comma | Token::Semicolon) {
            self.advance();
        }
        self.skip(|token| {
            matches!(
                token,
                Token::Let | Token::In | Token::RightParen | Token::RightBracket | Token::Comma | Token::Semicolon
            )
        });
        Next::Operand(if beside { self.error_leaf() } else { operand })
    }

    /// What to write instead of an operand and the word here beside each other: a product needs its sign, where the operand has a value.
    fn beside(&mut self, operand: Operand) -> Option<String> {
        let here = self.current.span;
        let line = self.text.get(..here.start as usize).and_then(|text| text.rsplit('\n').next()).unwrap_or("");
        if line.trim_start().starts_with("--") {
            return Some(COMMENTS.to_owned());
        }
        let word = self.text.get(here.range()).unwrap_or("");
        if let Some(help) = foreign::between_words(word) {
            return Some(help.to_owned());
        }
        let mut last = operand.id;
        // `A^T w`
        while let Some(Expr::Binary(op, _, e)) = self.ast.exprs.get(last)
            && *op != BinaryOp::Pow
        {
            last = *e;
        }
        let name = match self.ast.exprs.get(last) {
            Some(Expr::Name(name)) if name != "pi" => name.clone(),
            Some(Expr::Unary(UnaryOp::Transpose, _)) => return Some(TRANSPOSED.to_owned()),
            _ => return Some(PRODUCT.to_owned()),
        };
        // `x' y`
        if let Some(name) = name.strip_suffix('\'')
            && self.is_known(name)
        {
            return Some(TRANSPOSED.to_owned());
        }
        if let Some(help) = self.binder_meant(&name) {
            return Some(help);
        }
        Some(match self.is_known(&name) {
            true => PRODUCT.to_owned(),
            false => format!(
                "`{name}` means nothing here: a program is declarations, such as `param x : [n] real`, and behind them one expression"
            ),
        })
    }

    /// What to write instead of `std i < n. e`, where the name in front of what stands here is no binder.
    fn binder_meant(&self, name: &str) -> Option<String> {
        if !self.index_follows() {
            return None;
        }
        let text = self.text.get(self.current.span.start as usize..)?.lines().next()?;
        let (range, body) = text.split_once('.')?;
        let mut depth = 0usize;
        let closes = body.find(|c: char| match c {
            '(' | '[' => {
                depth += 1;
                false
            }
            ')' | ']' => {
                depth = depth.wrapping_sub(1);
                depth == usize::MAX
            }
            _ => false,
        });
        let body = body.get(..closes.unwrap_or(body.len()))?;
        foreign::binder(name, range.trim(), body.trim())
    }

    /// What may be behind an operand.
    fn expected(&self) -> &'static str {
        match self.frames.last() {
            Some(Frame::LetValue { .. }) => "an operator, or a line break or `in` and the rest of the program",
            Some(Frame::CaseValue { .. }) => "an operator, or `of` and the arms",
            Some(Frame::IfCondition { .. }) => "an operator, or `then`",
            Some(Frame::IfThen { .. }) => "an operator, or `else`",
            Some(Frame::Lower { .. }) => "an operator, or `<` and an index",
            Some(Frame::Extent { open: Some(_), .. }) => "an operator, `,` or `)`",
            Some(Frame::Extent { .. }) => "an operator, or `.` and the body",
            Some(Frame::ScanRange { .. }) => "an operator, or `,` and the state",
            Some(Frame::ScanInit { .. } | Frame::IterateMost { .. }) => "an operator, or `.` and the body",
            Some(Frame::IterateInit { head, .. }) if head.kind == LoopKind::Fixpoint => {
                "an operator, `while` and a condition, or `, at most` and a size"
            }
            Some(Frame::IterateInit { .. }) => "an operator, or `while` and a condition",
            Some(Frame::IterateWhile { head, .. }) if head.kind == LoopKind::Unfold => {
                "an operator, or `, at most` and a size"
            }
            Some(Frame::IterateWhile { .. }) => "an operator, `, at most` and a size, or `.` and the body",
            Some(Frame::Paren { .. }) => "an operator, `,` or `)`",
            Some(Frame::Guard { .. }) => "an operator or `]`",
            Some(Frame::Vector { .. }) => "an operator, `,` or `]`",
            Some(Frame::Access { .. }) => "an operator, `,`, `:` or `]`",
            Some(Frame::Part { .. }) => "an operator, `,` or `]`",
            _ => "an operator, `,` or a closing bracket",
        }
    }

    /// Closes the groups on top that the current token cannot end.
    fn close_groups(&mut self, mut operand: Operand, base: usize) -> Operand {
        let (token, end) = (self.token(), self.last_end);
        while self.frames.len() > base && !self.frames.last().is_some_and(|frame| frame.accepts(token)) {
            self.report_open_group();
            if let Some(frame) = self.frames.pop() {
                operand = self.finish_group(frame, operand, end);
            }
            operand = self.finish_operators(0, operand, base);
        }
        operand
    }

    /// The group on top ends before its time.
    pub(super) fn report_open_group(&mut self) {
        let found = self.found();
        let (expected, code, span) = match self.frames.last() {
            Some(Frame::LetValue { .. }) if is_decl(self.token()) => {
                let message = format!("expected the rest of the program behind a `let`, found {found}");
                let help = match self.token() {
                    Token::Def => {
                        "definitions come before the first `let`; a function that uses a variable is `let f = fn a : real. ..`"
                    }
                    _ => "declarations come before the first `let`",
                };
                return self.report(Diagnostic::new("misplaced-declaration", self.current.span, message).help(help));
            }
            Some(Frame::Paren { open, .. }) => return self.unclosed(*open, "`)`"),
            Some(Frame::Guard { open } | Frame::Vector { open, .. } | Frame::Access { open, .. }) => {
                return self.unclosed(*open, "`]`");
            }
            // Its access stands below it.
            Some(Frame::Part { .. }) => match self.frames.iter().rev().nth(1) {
                Some(Frame::Access { open, .. }) => return self.unclosed(*open, "`]`"),
                _ => ("`]`", "unclosed", self.current.span),
            },
            Some(Frame::Call { open, close, .. }) => return self.unclosed(*open, symbol_text(*close)),
            Some(Frame::Apply { open, .. }) => return self.unclosed(*open, "`)`"),
            Some(Frame::CaseValue { .. }) => ("`of` and the arms of the `case`", "missing-body", self.current.span),
            Some(Frame::IfCondition { .. }) => ("`then` and a value", "missing-body", self.current.span),
            Some(Frame::IfThen { .. }) => ("`else` and a value", "missing-body", self.current.span),
            Some(Frame::Extent { open: Some(open), .. }) => return self.unclosed(*open, "`)`"),
            Some(Frame::ScanRange { .. }) => ("`,` and the state behind the range", "missing-body", self.current.span),
            Some(Frame::ScanInit { .. }) => ("`.` and the body behind the state", "missing-body", self.current.span),
            Some(Frame::IterateInit { .. }) => ("`while` and a condition", "missing-body", self.current.span),
            Some(Frame::IterateWhile { .. } | Frame::IterateMost { .. }) => {
                ("`.` and the body behind the condition", "missing-body", self.current.span)
            }
            Some(Frame::LetValue { .. }) => {
                ("`in` and the expression in which the variable stands", "missing-body", self.current.span)
            }
            _ => ("`.` and the body behind the range", "missing-body", self.current.span),
        };
        let diagnostic = Diagnostic::new(code, span, format!("expected {expected}, found {found}"));
        let help = self.point_behind_range();
        self.report(match help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        });
    }

    /// Passes over the value of a `let` whose names were reported, and goes on behind it.
    pub(super) fn let_without_value(&mut self, pattern: Pattern, start: Span, indent: u32) {
        loop {
            let ends = matches!(self.token(), Token::End | Token::In | Token::Semicolon | Token::Let);
            if ends || self.current.starts_line && self.current.indent <= indent {
                break;
            }
            self.advance();
        }
        if matches!(self.token(), Token::In | Token::Semicolon) {
            self.advance();
        }
        let value = self.error_leaf();
        self.let_body(pattern, None, value, start);
    }

    /// What to write where a body stands right behind the range of a binder, `sum i < n x[i]`.
    fn point_behind_range(&self) -> Option<String> {
        let Some(Frame::Extent { open: None, start, .. }) = self.frames.last() else { return None };
        let is_body = starts_operand(self.token()) && !self.current.starts_line;
        let word = self.text.get(start.range()).unwrap_or("sum");
        let range = self.text.get(start.end as usize..self.last_end.end as usize).unwrap_or("").trim();
        let range = if range.len() > foreign::MAX_SHOWN || range.contains('\n') { "i < n" } else { range };
        is_body.then(|| {
            format!("put a `.` behind the range, `{word} {range}. ..`, or parentheses around it, `{word} ({range}) ..`")
        })
    }

    /// Something stands behind the body.
    pub(super) fn report_rest(&mut self) {
        let message = format!("expected an operator or the end of the text, found {}", self.found());
        let diagnostic = Diagnostic::new("unexpected-token", self.current.span, message);
        let mut body = self.ast.body;
        while let Some(Expr::Let { body: inner, .. }) = body.and_then(|body| self.ast.exprs.get(body)) {
            body = Some(*inner);
        }
        let body = body.map(|id| Operand { id, span: self.last_end });
        if let Some(help) = body.and_then(|body| self.habit_of_word(body)) {
            self.report(diagnostic.help(help));
            self.ast.body = Some(self.error_leaf().id);
            // What it governs may be the rest of the text.
            self.skip(|_| false);
            return;
        }
        if let Some(help) = self.definition_meant() {
            self.report(diagnostic.help(help));
            self.ast.body = Some(self.error_leaf().id);
            return;
        }
        if self.token() == Token::Colon
            && let Some(Expr::Name(name)) = self.ast.body.and_then(|body| self.ast.exprs.get(body))
        {
            self.report(diagnostic.help(format!("a parameter is declared as in `param {name} : [n] real`")));
            self.ast.body = Some(self.error_leaf().id);
            return;
        }
        if self.token() == Token::Comma {
            let line =
                body.and_then(|body| self.text.get(body.span.start as usize..)).and_then(|text| text.lines().next());
            if let Some(help) = self.pattern_meant() {
                self.report(diagnostic.help(help));
                self.ast.body = Some(self.error_leaf().id);
                self.skip(|_| false);
                return;
            }
            let results =
                line.map(str::trim).filter(|line| line.len() <= foreign::MAX_SHOWN && !line.contains(['#', ';']));
            self.report(diagnostic.help(foreign::results(results.unwrap_or("a, b"))));
            return;
        }
        if starts_operand(self.token()) && !self.current.starts_line {
            // What is beside the body was meant to be a part of it.
            let help = body.and_then(|body| self.beside(body));
            self.report(match help {
                Some(help) => diagnostic.help(help),
                None => diagnostic,
            });
            self.ast.body = Some(self.error_leaf().id);
            return;
        }
        self.report(match self.token() {
            Token::RightBracket | Token::RightParen => diagnostic.help("no bracket is open here that it could close"),
            Token::LeftBracket | Token::LeftParen if self.current.starts_line => {
                diagnostic.help("an access or a call begins on the line on which what it applies to ends")
            }
            token if self.current.starts_line && starts_operand(token) && self.is_behind_minus() => diagnostic.help(
                "a line that begins with `-` goes on with the one in front of it where it is indented deeper, and begins a new expression where it is not",
            ),
            Token::Name if self.current.starts_line => {
                diagnostic.help("declarations begin with param, rel, map, assume, def or fun")
            }
            _ => diagnostic,
        });
    }

    /// Whether the line in front of this place begins with `-`.
    fn is_behind_minus(&self) -> bool {
        let before = self.text.get(..self.last_end.end as usize).unwrap_or("");
        before.lines().next_back().is_some_and(|line| line.trim_start().starts_with(['-', '−']))
    }

    /// What to write instead of `a, b = e` at its first comma.
    fn pattern_meant(&self) -> Option<String> {
        let line = self.last_end.start as usize;
        let line = self.text.get(line..)?.lines().next()?;
        let (names, value) = line.split_once('=')?;
        let (names, value) = (names.trim(), value.split('#').next()?.trim());
        let is_name = |name: &str| crate::lexer::is_name(name.trim());
        if value.starts_with('=') || !names.split(',').all(is_name) {
            return None;
        }
        let is_list = value.matches([',']).count() > 0 && !value.starts_with('(') && value.len() <= foreign::MAX_SHOWN;
        Some(match is_list && !value.contains(['<', '.']) {
            true => format!("several names stand in parentheses, and so do their values: `({names}) = ({value})`"),
            false => format!("several names stand in parentheses: `({names}) = ..`"),
        })
    }

    /// What to write instead of `y = e` and `f(a) = e` in front of the body.
    fn definition_meant(&self) -> Option<String> {
        let behind = self.lexer.clone().next(&mut Vec::new()).token;
        if self.token() == Token::Name && self.current.starts_line && behind == Token::Equal {
            let name = self.text.get(self.current.span.range()).unwrap_or("y");
            return Some(format!("a variable is bound by `let {name} = ..`, and so is each in front of it"));
        }
        let Some(Expr::Binary(op, left, _)) = self.ast.exprs.get(self.ast.body?) else { return None };
        let behind = self.text.get(self.ast.spans.get(*left)?.end as usize..)?.trim_start();
        // `y <- e` of R is a comparison with a negative number.
        if *op != BinaryOp::Equal && !behind.starts_with("<-") {
            return None;
        }
        match self.ast.exprs.get(*left)? {
            Expr::Name(name) => Some(format!("a variable is bound by `let {name} = ..`")),
            Expr::Call { callee, .. } => {
                let name = &callee.text;
                Some(format!(
                    "a function is `let {name} = fn x. ..`, or declared in front: `def {name}(x : real) = ..`"
                ))
            }
            _ => None,
        }
    }

    /// Skips to a token on which reading can go on; what is in brackets is skipped whole.
    pub(super) fn skip(&mut self, stop: impl Fn(Token) -> bool) {
        let mut depth = 0usize;
        loop {
            let token = self.token();
            if token == Token::End || is_decl(token) || depth == 0 && stop(token) {
                return;
            }
            match token {
                Token::LeftParen | Token::LeftBracket => depth += 1,
                Token::RightParen | Token::RightBracket => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.advance();
        }
    }
}

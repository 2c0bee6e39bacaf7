//! Expressions, by precedence of operators: what stands at the place of an operand, what comes behind it, and the nodes that are
//! made when an operator or a group ends.

use super::frame::{AND, COMPARE, Frame, Head, Made, Next, POWER, PRODUCT, Pattern, Prefix, Signature, chains, infix};
use super::recovery::COMMENTS;
use super::{Operand, Parser, starts_operand};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::foreign;
use crate::lexer::{Lexeme, Token};
use crate::scalar::Op;
use crate::surface::MAX_TYPE_NESTING;
use crate::surface::ast::{Arm, BinaryOp, BinderKind, Decl, Expr, LoopKind, Name, UnaryOp};

impl Parser<'_> {
    /// An expression up to a token that cannot continue it. `stops` are the tokens by which the caller ends it.
    pub(super) fn expression(&mut self, stops: &[Token]) -> Operand {
        let base = self.frames.len();
        loop {
            let Some(mut operand) = self.operand() else { continue };
            loop {
                match self.behind(operand, base, stops) {
                    Next::Operand(larger) => operand = larger,
                    Next::Expect => break,
                    Next::Done(whole) => return whole,
                }
            }
        }
    }

    /// Reads at a place where an operand must stand. Nothing if one is still needed.
    #[allow(clippy::too_many_lines, reason = "an arm for each token that begins an operand")]
    fn operand(&mut self) -> Option<Operand> {
        let Lexeme { token, span, .. } = self.current;
        match token {
            Token::Name => {
                self.advance();
                self.operand_name(span)
            }
            // `1[p]` is the indicator of `p`.
            Token::Number { integer: Some(1), .. } if self.bracket_touches() => {
                self.advance();
                None
            }
            Token::Number { value, integer } => {
                self.advance();
                Some(self.node(Expr::Number { value, integer }, span))
            }
            Token::LeftParen => {
                self.advance();
                self.open(Frame::Paren { open: span, items: Vec::new() });
                None
            }
            Token::LeftBracket => {
                self.advance();
                self.open(Frame::Guard { open: span });
                None
            }
            Token::Minus => self.prefix(Prefix::Neg),
            Token::Plus | Token::Star if self.begins_reduction() => Some(self.reduction()),
            Token::Plus if !matches!(self.text.get(self.last_end.range()), Some("+" | "-" | "−")) => {
                self.advance();
                None
            }
            Token::Not => self.prefix(Prefix::Not),
            Token::Fst => self.prefix(Prefix::Fst),
            Token::Snd => self.prefix(Prefix::Snd),
            Token::Let => {
                self.advance();
                self.binding(span);
                None
            }
            Token::If => {
                self.advance();
                self.open(Frame::IfCondition { start: span });
                None
            }
            Token::Case => self.case(),
            Token::Def if self.begins_local_definition() => {
                self.local_definition();
                None
            }
            Token::Map if self.maps_function() => {
                self.report(
                    Diagnostic::new("unexpected-token", span, "expected an expression, found `map(`")
                        .help(foreign::EACH),
                );
                self.advance();
                self.advance();
                self.skip(|token| token == Token::RightParen);
                self.eat(Token::RightParen);
                Some(self.error_leaf())
            }
            Token::Colon if matches!(self.frames.last(), Some(Frame::Access { .. })) => {
                self.advance();
                self.behind_colon(span, None)
            }
            Token::Colon if matches!(self.frames.last(), Some(Frame::Part { at_step: false, to: None, .. })) => {
                self.advance();
                self.second_colon(None)
            }
            Token::Text => {
                self.advance();
                let name = self.name_at(span);
                Some(self.node(Expr::Name(name.text), span))
            }
            Token::Foreign => {
                self.advance();
                let lhs = self.node(Expr::Error, span);
                // What it begins, as `\sum_{i<n}` does, is unknown as well.
                if starts_operand(self.token()) && !self.current.starts_line {
                    self.open(Frame::Unknown { lhs });
                    return None;
                }
                Some(lhs)
            }
            Token::Gen => self.binder(BinderKind::Gen),
            Token::Sum => {
                self.advance();
                if let Some(operand) = self.over_entries(BinderKind::Sum) {
                    return Some(operand);
                }
                match self.token() {
                    _ if self.opens_binder(BinderKind::Sum, Made::Itself, 1, span) => None,
                    Token::LeftParen => self.call(Name { text: "sum".to_owned(), span }),
                    _ => self.binder_indices(BinderKind::Sum, Made::Itself, span),
                }
            }
            Token::ArgMax | Token::ArgMin => {
                self.advance();
                let kind = if token == Token::ArgMax { BinderKind::ArgMax } else { BinderKind::ArgMin };
                match self.token() {
                    _ if self.opens_binder(kind, Made::Itself, 1, span) => None,
                    Token::LeftParen => self.call(self.name_at(span)),
                    _ => self.binder_indices(kind, Made::Itself, span),
                }
            }
            Token::Exists => self.binder(BinderKind::Exists),
            Token::Fold => self.scan(LoopKind::Fold),
            Token::Scan => self.scan(LoopKind::Scan),
            Token::Iterate => self.iterate(LoopKind::Iterate),
            Token::Fixpoint => self.iterate(LoopKind::Fixpoint),
            Token::Unfold => self.iterate(LoopKind::Unfold),
            Token::Fn => self.function(),
            // A declaration begins a line.
            Token::Fun if !self.current.starts_line => {
                self.advance();
                self.foreign_function(span)
            }
            Token::Max | Token::Min | Token::Real => {
                self.advance();
                let kind = if token == Token::Max { BinderKind::Max } else { BinderKind::Min };
                match self.token() {
                    // As a function: `f(max, x)`.
                    _ if token != Token::Real && self.ends_name() => {
                        let name = self.name_at(span);
                        Some(self.node(Expr::Name(name.text), span))
                    }
                    _ if token != Token::Real && self.opens_binder(kind, Made::Itself, usize::MAX, span) => None,
                    Token::LeftParen => self.call(self.name_at(span)),
                    Token::Number { .. } if token != Token::Real && self.is_range_from_below() => {
                        self.binder_indices(kind, Made::Itself, span)
                    }
                    Token::Name if token != Token::Real => self.binder_indices(kind, Made::Itself, span),
                    _ => {
                        self.unexpected(match token {
                            Token::Real => "`(` and an index expression behind `real`",
                            Token::Max => "`max(a, b)` or `max i < n. e`",
                            _ => "`min(a, b)` or `min i < n. e`",
                        });
                        Some(self.error_leaf())
                    }
                }
            }
            _ => {
                let message = format!("expected an expression, found {}", self.found());
                // `<x, y>`
                if token == Token::Less {
                    let help = "the product of two vectors is `x @ y`";
                    self.report(Diagnostic::new("unexpected-token", span, message).help(help));
                    self.skip(|token| token == Token::Greater);
                    self.eat(Token::Greater);
                    return Some(self.error_leaf());
                }
                let diagnostic = Diagnostic::new("unexpected-token", span, message);
                self.report(match token {
                    Token::Dot if matches!(self.frames.last(), Some(Frame::Access { .. })) => {
                        diagnostic.help("each whole axis is a `:`, as in `A[:, 0]`")
                    }
                    Token::Dot => diagnostic.help("a number begins with a digit, as in `0.5`"),
                    Token::Plus => diagnostic.help("one sign is enough: `a + b`"),
                    Token::Percent => diagnostic.help(COMMENTS),
                    _ => diagnostic,
                });
                // Whatever may stand behind an operand is left to end this one.
                if matches!(token, Token::Colon | Token::Question | Token::Arrow | Token::DotValue | Token::Format(_)) {
                    self.advance();
                }
                Some(self.error_leaf())
            }
        }
    }

    /// Whether a bracket begins right behind the token here.
    fn bracket_touches(&self) -> bool {
        let behind = self.lexer.clone().next(&mut Vec::new());
        behind.token == Token::LeftBracket && behind.span.start == self.current.span.end
    }

    /// Whether the word in front of this place stands alone there.
    fn ends_name(&self) -> bool {
        match self.token() {
            Token::Comma | Token::RightParen | Token::In | Token::Semicolon | Token::Then | Token::Else => true,
            token => self.current.starts_line && starts_operand(token) && !self.range_follows(),
        }
    }

    fn prefix(&mut self, prefix: Prefix) -> Option<Operand> {
        let start = self.advance().span;
        self.open(Frame::Prefix { prefix, start });
        None
    }

    /// A name at `span` and what belongs to it: `x`, `f(`, `A?(`, `A.value(`.
    fn operand_name(&mut self, span: Span) -> Option<Operand> {
        match self.token() {
            _ if self.begins_foreign_function(span) => self.foreign_function(span),
            token if !self.current.starts_line && starts_operand(token) && self.is_habit_in_front(span) => None,
            _ if self.opens_vector(span) => None,
            Token::LeftParen if self.is_body_without_point(span) => {
                let name = self.name_at(span);
                Some(self.node(Expr::Name(name.text), span))
            }
            Token::LeftParen if !self.current.starts_line => match self.made(span) {
                Some(made) if self.opens_binder(BinderKind::Sum, made, 1, span) => None,
                _ => self.call(self.name_at(span)),
            },
            Token::Name if self.is_constant(span) => {
                self.binding(span);
                None
            }
            Token::Name if !self.current.starts_line && self.made(span) == Some(Made::Mean) => {
                self.binder_indices(BinderKind::Sum, Made::Mean, span)
            }
            Token::Number { .. } if self.made(span) == Some(Made::Mean) && self.is_range_from_below() => {
                self.binder_indices(BinderKind::Sum, Made::Mean, span)
            }
            Token::Name | Token::Number { .. }
                if !self.current.starts_line && self.made(span).is_some() && self.index_follows() =>
            {
                self.binder_indices(BinderKind::Sum, Made::Product, span)
            }
            // `exp.(x)`
            Token::Dot if self.is_dotted_call(span) => {
                self.advance();
                self.call(self.name_at(span))
            }
            Token::Question if self.current.span.start == span.end => {
                let end = self.advance().span;
                if self.token() == Token::LeftParen {
                    return self.call(self.name_at(span.to(end)));
                }
                self.unexpected("`(` and indices behind the pattern of a sparse tensor");
                Some(self.error_leaf())
            }
            Token::DotValue => {
                let end = self.advance().span;
                self.call(self.name_at(span.to(end)))
            }
            _ => {
                let name = self.name_at(span);
                Some(self.node(Expr::Name(name.text), span))
            }
        }
    }

    /// What a word makes of a binder that is a name elsewhere.
    fn made(&self, span: Span) -> Option<Made> {
        match self.text.get(span.range())? {
            "mean" => Some(Made::Mean),
            "prod" | "∏" => Some(Made::Product),
            _ => None,
        }
    }

    /// The arguments of a call, from its bracket on.
    fn call(&mut self, callee: Name) -> Option<Operand> {
        let Lexeme { token, span: open, .. } = self.advance();
        let close = if token == Token::LeftBracket { Token::RightBracket } else { Token::RightParen };
        if let Some(end) = self.eat(close) {
            let span = callee.span.to(end);
            return Some(self.node(Expr::Call { callee, args: Vec::new() }, span));
        }
        self.open(Frame::Call { open, close, callee, args: Vec::new() });
        None
    }

    /// Whether the point behind a function is one of Julia, which applies it to each element.
    fn is_dotted_call(&self, name: Span) -> bool {
        let end = self.current.span.end as usize;
        let called =
            name.end == self.current.span.start && self.text.get(end..).is_some_and(|rest| rest.starts_with('('));
        let is_function =
            |name: &str| Op::from_name(name).is_some() || name == "log" || self.is_declared_function(name);
        called && self.text.get(name.range()).is_some_and(|name| is_function(name) || !self.ends_range(0))
    }

    /// Whether a `def` or a `fun` in front of this place has a name.
    pub(super) fn is_declared_function(&self, text: &str) -> bool {
        let has_name = |decl: &Decl| match decl {
            Decl::Def { name, .. } | Decl::Fun { name, .. } => name.text == text,
            _ => false,
        };
        self.ast.decls.iter().any(has_name)
    }

    /// What a `let` binds and its `=`, in front of the value.
    fn binding(&mut self, start: Span) {
        let indent = self.current.indent;
        let what = "the name of a variable behind `let`";
        let pattern = self.pattern(0, what, true).unwrap_or_else(|| Pattern::Name(self.no_name()));
        let pattern = match pattern {
            Pattern::Name(name) if self.token() == Token::LeftParen && !self.current.starts_line => {
                return self.bound_function(name, start, indent);
            }
            pattern => pattern,
        };
        let before = self.diagnostics.len();
        let pattern = if self.token() == Token::Comma { self.steps_and_path(pattern) } else { pattern };
        if self.diagnostics.len() > before {
            return self.let_without_value(pattern, start, indent);
        }
        self.expect(Token::Equal, "and the value of the variable");
        self.open(Frame::LetValue { pattern, function: None, start, indent });
    }

    /// `x`, `(a, b)`, `(a, (b, c))`; `typed` says whether names may have types.
    pub(super) fn pattern(&mut self, depth: usize, what: &str, typed: bool) -> Option<Pattern> {
        let start = self.current.span;
        if depth > MAX_TYPE_NESTING || self.eat(Token::LeftParen).is_none() {
            let name = self.name(what)?;
            return if typed { self.typed_name(name) } else { Some(Pattern::Name(name)) };
        }
        let mut parts = vec![self.pattern(depth + 1, what, typed)?];
        while self.eat(Token::Comma).is_some() {
            parts.push(self.pattern(depth + 1, what, typed)?);
        }
        self.close(start, Token::RightParen)?;
        let span = start.to(self.last_end);
        let last = parts.pop()?;
        Some(parts.into_iter().rev().fold(last, |second, first| Pattern::Pair(span, Box::new(first), Box::new(second))))
    }

    /// The value of a `let` is complete: its body comes next. A pattern binds a pair and, one after the other, its parts.
    pub(super) fn let_body(&mut self, pattern: Pattern, function: Option<Signature>, value: Operand, start: Span) {
        let value = self.bound_value(function, value);
        let value = self.with_types(&pattern, value);
        let (span, pattern) = match pattern {
            Pattern::Name(name) | Pattern::Typed(name, _) => return self.open(Frame::LetBody { name, value, start }),
            Pattern::Pair(span, ..) => (span, pattern),
        };
        let text = pattern.whole();
        self.open(Frame::LetBody { name: Name { text: text.clone(), span }, value, start });
        self.open_parts(pattern, &text, start);
    }

    /// Binds the parts of the pair that has the name `whole`.
    pub(super) fn open_parts(&mut self, pattern: Pattern, whole: &str, start: Span) {
        let mut parts = vec![(pattern, Vec::new())];
        while let Some((part, path)) = parts.pop() {
            match part {
                Pattern::Name(_) | Pattern::Typed(..) => {
                    let ty = part.types();
                    let (Pattern::Name(name) | Pattern::Typed(name, _)) = part else { continue };
                    let mut value = self.node(Expr::Name(whole.to_owned()), name.span);
                    for first in path {
                        value = self.node(if first { Expr::Fst(value.id) } else { Expr::Snd(value.id) }, name.span);
                    }
                    if let Some(ty) = ty {
                        value = self.trusted(value, ty);
                    }
                    self.open(Frame::LetBody { name, value: value.id, start });
                }
                Pattern::Pair(_, first, second) => {
                    let with = |half: bool| path.iter().copied().chain([half]).collect::<Vec<bool>>();
                    parts.extend([(*second, with(false)), (*first, with(true))]);
                }
            }
        }
    }

    /// `x²`, at its exponent.
    fn raised(&mut self, base: Operand, exponent: i32) -> Operand {
        let end = self.advance().span;
        let digits = Expr::Number { value: f64::from(exponent).abs(), integer: Some(i64::from(exponent).abs()) };
        let mut power = self.node(digits, end);
        if exponent < 0 {
            power = self.node(Expr::Unary(UnaryOp::Neg, power.id), end);
        }
        self.node(Expr::Binary(BinaryOp::Pow, base.id, power.id), base.span.to(end))
    }

    /// Whether the point here is that of the number in front of it, `1.`, and ends no range.
    fn is_point_of_number(&self, operand: Operand, base: usize, stops: &[Token]) -> bool {
        let (token, start, end) = (self.token(), self.current.span.start, self.current.span.end as usize);
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let is_member = |rest: &str| rest.starts_with(|c: char| c.is_alphabetic() || c == '.');
        token == Token::Dot
            && start == operand.span.end
            && self.text.get(operand.span.range()).is_some_and(is_number)
            && !self.text.get(end..).is_some_and(is_member)
            && !stops.contains(&token)
            && !self.ends_range(base)
    }

    /// The number in front of the point here, which has no digits behind it.
    fn without_digits(&mut self, number: Operand) -> Operand {
        let message = "expected a digit behind the point of a number";
        let span = number.span.to(self.current.span);
        let help = format!("it is written `{}.0`", self.text.get(number.span.range()).unwrap_or("1"));
        self.report(Diagnostic::new("bad-number", span, message).help(help));
        self.advance();
        number
    }

    /// Whether a point ends the innermost group.
    fn ends_range(&self, base: usize) -> bool {
        let group = self.frames.iter().skip(base).rfind(|frame| frame.level().is_none());
        group.is_some_and(|frame| frame.accepts(Token::Dot))
    }

    /// Whether an `in` behind the value of a line `y = e` is that of a `let` around the line, whose frame is at a place.
    pub(super) fn is_in_of_let(&mut self, base: usize, at: usize) -> bool {
        for frame in self.frames[base..at].iter().rev() {
            self.looked_at += 1;
            if frame.level().is_none() || self.looked_at > super::MAX_LOOKED_AT {
                return matches!(frame, Frame::LetValue { .. });
            }
        }
        false
    }

    /// The operator here with its level; `mod` is one between two operands.
    fn infix_here(&self) -> Option<(BinaryOp, u8)> {
        if !self.at_word("mod") || self.current.starts_line {
            return infix(self.token());
        }
        let behind = self.lexer.clone().next(&mut Vec::new());
        (!behind.starts_line && starts_operand(behind.token)).then_some((BinaryOp::Rem, PRODUCT))
    }

    /// Whether this line begins anew with a `-`: it is indented no deeper than the line of the `let` or declaration whose value ends.
    fn begins_with_minus(&self, base: usize) -> bool {
        if self.token() != Token::Minus || !self.current.starts_line {
            return false;
        }
        let group = self.frames.iter().skip(base).rfind(|frame| frame.level().is_none());
        let outer = match group {
            Some(Frame::LetValue { indent, .. }) => Some(*indent),
            Some(_) => None,
            None => self.indent,
        };
        outer.is_some_and(|outer| self.current.indent <= outer)
    }

    /// Whether `, y = ..` goes on with another variable of a `let`.
    fn another_binding(&self) -> bool {
        let mut lexer = self.lexer.clone();
        let mut problems = Vec::new();
        self.token() == Token::Comma
            && matches!(self.frames.last(), Some(Frame::LetValue { .. }))
            && lexer.next(&mut problems).token == Token::Name
            && lexer.next(&mut problems).token == Token::Equal
    }

    /// Goes on behind a finished operand.
    fn behind(&mut self, operand: Operand, base: usize, stops: &[Token]) -> Next {
        let token = self.token();
        if token == Token::LeftBracket && !self.current.starts_line && !self.is_body_without_point(self.last_end) {
            let open = self.advance().span;
            self.open(Frame::Access { open, array: operand, indices: Vec::new() });
            return Next::Expect;
        }
        if self.holds_arguments() {
            let open = self.advance().span;
            if let Some(end) = self.eat(Token::RightParen) {
                let apply = Expr::Apply { function: operand.id, args: Vec::new() };
                return Next::Operand(self.node(apply, operand.span.to(end)));
            }
            self.open(Frame::Apply { open, function: operand, args: Vec::new() });
            return Next::Expect;
        }
        if self.is_point_of_number(operand, base, stops) {
            return Next::Operand(self.without_digits(operand));
        }
        if let Token::Raised(exponent) = token {
            return Next::Operand(self.raised(operand, exponent));
        }
        if token == Token::Prime {
            let end = self.advance().span;
            let span = operand.span.to(end);
            return Next::Operand(self.node(Expr::Unary(UnaryOp::Transpose, operand.id), span));
        }
        if self.begins_with_minus(base) {
            let operand = self.finish_operators(0, operand, base);
            return match self.frames.len() <= base {
                true => Next::Done(operand),
                false => self.end_group(Token::In, self.current.span, operand),
            };
        }
        if let Some(next) = self.assignment(operand, base, stops) {
            return next;
        }
        if let Some(next) = self.ends_lower(operand, base) {
            return next;
        }
        if let Some((op, level)) = self.infix_here() {
            let op_span = self.advance().span;
            self.infix(op, level, op_span, operand, base);
            return Next::Expect;
        }
        if (self.skipped || token == Token::Foreign) && starts_operand(token) && !self.current.starts_line {
            self.skipped = false;
            let lhs = self.finish_operators(AND, operand, base);
            self.open(Frame::Unknown { lhs });
            return Next::Expect;
        }
        if token == Token::Bar
            && let Some(next) = self.next_arm(operand, base)
        {
            return next;
        }
        let operand = self.finish_operators(0, operand, base);
        if self.frames.len() <= base {
            if !stops.contains(&token)
                && let Some(help) = self.habit(operand)
            {
                let message = format!("expected an operator or the end of the expression, found {}", self.found());
                self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
                return Next::Done(self.skip_habit());
            }
            return Next::Done(operand);
        }
        if self.another_binding() {
            let start = self.advance().span;
            let next = self.end_group(Token::In, start, operand);
            self.binding(start);
            return next;
        }
        if let Some(next) = self.word_behind(operand) {
            return next;
        }
        if self.frames.last().is_some_and(|frame| frame.accepts(token)) {
            let end = self.advance().span;
            return self.end_group(token, end, operand);
        }
        self.recover(operand, base, stops)
    }

    /// Goes on behind an operand with a word that is a name elsewhere.
    fn word_behind(&mut self, operand: Operand) -> Option<Next> {
        match self.frames.last() {
            Some(Frame::ScanRange { .. }) if self.at_word("down") => {
                self.scan_down();
                Some(Next::Operand(operand))
            }
            // `elif` is `else if`.
            Some(Frame::IfThen { .. }) if self.at_word("elif") => {
                let start = self.advance().span;
                let next = self.end_group(Token::Else, start, operand);
                self.open(Frame::IfCondition { start });
                Some(next)
            }
            Some(Frame::CaseValue { .. }) if self.at_word("of") => Some(self.case_of(operand)),
            Some(Frame::IterateInit { .. }) if self.at_word("while") => Some(self.iterate_while(operand)),
            _ => None,
        }
    }

    fn infix(&mut self, op: BinaryOp, level: u8, op_span: Span, operand: Operand, base: usize) {
        if op == BinaryOp::FloorDiv && !matches!(self.token(), Token::Number { .. }) {
            self.divided_at = Some(op_span.start);
        }
        // `^` associates to the right, and comparisons form chains: neither finishes its like.
        let finished = if level == POWER || level == COMPARE { level + 1 } else { level };
        let lhs = self.finish_operators(finished, operand, base);
        if level != COMPARE {
            self.open(Frame::Infix { op, lhs });
            return;
        }
        let mut chain = None;
        if self.frames.len() > base
            && let Some(Frame::Compare { op: first, .. }) = self.frames.last()
        {
            if !chains(*first, op) {
                self.push_diagnostic(
                    Diagnostic::new(
                        "ambiguous-comparison",
                        op_span,
                        "expected a chain of comparisons that all point the same way, such as `0 <= i < n`, found another",
                    )
                    .help("join the comparisons with `and`"),
                );
            }
            chain = self.frames.pop().map(|frame| self.finish_operator(frame, lhs));
        }
        self.open(Frame::Compare { op, lhs, chain });
    }

    /// Finishes the operators on top whose level is at least `level`.
    pub(super) fn finish_operators(&mut self, level: u8, mut operand: Operand, base: usize) -> Operand {
        while self.frames.len() > base && self.frames.last().and_then(Frame::level).is_some_and(|l| l >= level) {
            if let Some(frame) = self.frames.pop() {
                operand = self.finish_operator(frame, operand);
            }
        }
        operand
    }

    fn infix_node(&mut self, op: BinaryOp, lhs: Operand, rhs: Operand) -> Operand {
        let between = self.text.get(lhs.span.end as usize..rhs.span.start as usize).unwrap_or("");
        let whole = self.node(Expr::Binary(op, lhs.id, rhs.id), lhs.span.to(rhs.span));
        if matches!(between.trim(), "·" | "⋅") {
            self.ast.dots.insert(whole.id);
        }
        if between.trim_start().starts_with('.') {
            self.ast.of_elements.insert(whole.id);
        }
        whole
    }

    pub(super) fn finish_operator(&mut self, frame: Frame, operand: Operand) -> Operand {
        match frame {
            Frame::Prefix { prefix, start } => self.node(prefix.of(operand.id), start.to(operand.span)),
            Frame::Unknown { lhs } => self.node(Expr::Error, lhs.span.to(operand.span)),
            Frame::Infix { op, lhs } => self.infix_node(op, lhs, operand),
            Frame::Compare { op, lhs, chain } => {
                let last = self.node(Expr::Binary(op, lhs.id, operand.id), lhs.span.to(operand.span));
                match chain {
                    None => last,
                    Some(first) => self.node(Expr::Binary(BinaryOp::And, first.id, last.id), first.span.to(last.span)),
                }
            }
            Frame::Iverson { guard, start } => {
                self.node(Expr::Iverson { guard, body: operand.id }, start.to(operand.span))
            }
            Frame::Body { kind, index, extent, start, summed } => {
                let span = start.to(operand.span);
                self.warn_of_body(&summed, Made::Itself, operand);
                self.warn_of_zero(kind, operand);
                self.node(Expr::Binder { kind, index, extent, body: operand.id }, span)
            }
            Frame::Mean { divisors } => self.mean(operand, divisors),
            Frame::OfVector { callee } => {
                let span = callee.span.to(operand.span);
                self.node(Expr::Call { callee, args: vec![operand.id] }, span)
            }
            Frame::Restricted { guard, kind, made, summed } => {
                self.warn_of_body(&summed, made, operand);
                self.warn_of_zero(kind, operand);
                self.restricted(guard, (kind, made), operand)
            }
            Frame::Product { index, extent, start, factors } => {
                self.warn_of_body(&factors, Made::Product, operand);
                self.product(operand, index, extent, start)
            }
            Frame::IfElse { cond, then, start } => {
                let callee = Name { text: "select".to_owned(), span: start };
                self.node(Expr::Call { callee, args: vec![cond, then, operand.id] }, start.to(operand.span))
            }
            Frame::LetBody { name, value, start } => {
                self.node(Expr::Let { name, value, body: operand.id }, start.to(operand.span))
            }
            Frame::ScanBody { head, steps, state, init } => {
                if head.tested && head.kind == LoopKind::Fixpoint && head.sound {
                    return self.fixpoint(head, steps, state, init, operand);
                }
                let Head { kind, down, sound, index, start, .. } = head;
                let scan = Expr::Scan { kind, down, index, steps, state, init, body: operand.id };
                self.node(if sound { scan } else { Expr::Error }, start.to(operand.span))
            }
            Frame::IterateBody { cond, state, count } => self.iterate_step(cond, state, count, operand),
            Frame::Typed { ty } => self.node(Expr::Typed { value: operand.id, ty, trusted: false }, operand.span),
            Frame::Arm { start, value, arms, constructor, names, sound } => {
                let arm = sound.then_some(Arm { constructor, names, body: operand.id });
                self.finish_case((start, value), arms, arm, operand.span)
            }
            Frame::FunctionBody { params, start, sound } => {
                let function = Expr::Function { params, body: operand.id };
                self.node(if sound { function } else { Expr::Error }, start.to(operand.span))
            }
            // Groups have no level, so none gets here.
            Frame::LetValue { .. }
            | Frame::CaseValue { .. }
            | Frame::IfCondition { .. }
            | Frame::IfThen { .. }
            | Frame::Extent { .. }
            | Frame::Lower { .. }
            | Frame::ScanRange { .. }
            | Frame::ScanInit { .. }
            | Frame::IterateInit { .. }
            | Frame::IterateWhile { .. }
            | Frame::IterateMost { .. }
            | Frame::Paren { .. }
            | Frame::Guard { .. }
            | Frame::Vector { .. }
            | Frame::Access { .. }
            | Frame::Part { .. }
            | Frame::Apply { .. }
            | Frame::Call { .. } => operand,
        }
    }
}

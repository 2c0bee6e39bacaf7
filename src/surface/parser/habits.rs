//! What other languages would go on with where an expression ends here: it is reported with what to write instead, and is not read.
//!
//! The operand in front of it is part of the habit, as the `np` of `np.exp(x)` is, and means nothing either.

use super::frame::{Bound, Frame, Link, Made, Next};
use super::{Operand, Parser, is_decl, starts_operand};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::foreign::{self, MAX_SHOWN, Member};
use crate::lexer::Token;
use crate::scalar::Op;
use crate::surface::ast::{BinaryOp, BinderKind, Decl, Expr, ExprId, Name, StorageKind, TypeKind};

/// The word of a binder that is a loop.
const PRODUCT: &str = "prod";

impl Parser<'_> {
    /// Whether the word stands here.
    pub(super) fn at_word(&self, word: &str) -> bool {
        self.token() == Token::Name && self.text.get(self.current.span.range()) == Some(word)
    }

    /// Whether a condition on what was read stands here, `where x[i] > 0`.
    pub(super) fn is_condition(&self) -> bool {
        !self.current.starts_line && (self.at_word("where") || self.at_word("when"))
    }

    /// Whether a reduction of APL begins here, `+/ x`.
    pub(super) fn begins_reduction(&self) -> bool {
        let behind = self.lexer.clone().next(&mut Vec::new());
        behind.token == Token::Slash && behind.span.start == self.current.span.end
    }

    /// `+/ x * y`, which is reported and passed over to the end of its line.
    pub(super) fn reduction(&mut self) -> Operand {
        let start = self.current.span;
        let word = if self.token() == Token::Plus { "sum" } else { PRODUCT };
        let rest = self.text.get(start.end as usize + 1..).and_then(|rest| rest.lines().next()).unwrap_or("");
        let of = within_brackets(rest.split('#').next().unwrap_or("")).trim();
        let of = if of.is_empty() || of.len() > MAX_SHOWN { "x" } else { of };
        let sign = self.text.get(start.start as usize..start.end as usize + 1).unwrap_or("+/");
        let message = format!("expected an expression, found `{sign}`");
        self.report(Diagnostic::new("unexpected-token", start, message).help(format!("it is written `{word}({of})`")));
        loop {
            self.advance();
            let ends = matches!(self.token(), Token::End | Token::RightParen | Token::RightBracket | Token::Comma);
            if ends || self.current.starts_line {
                return self.error_leaf();
            }
        }
    }

    /// What to write instead of what stands here, behind a finished operand.
    pub(super) fn habit(&self, operand: Operand) -> Option<String> {
        let habit = match self.token() {
            Token::Colon
                if matches!(
                    self.frames.last(),
                    Some(Frame::Access { .. } | Frame::Call { .. } | Frame::Apply { .. })
                ) =>
            {
                foreign::SLICE
            }
            Token::Dot if self.current.span.start == operand.span.end => return self.member(),
            Token::Dot if self.is_dot_between() => foreign::DOT,
            Token::Question if !self.current.starts_line => foreign::CHOICE,
            Token::If if !self.current.starts_line => return Some(self.condition_behind(operand)),
            _ if self.is_condition() => return Some(self.condition_on_body()),
            // `x -> x^2`
            Token::Arrow => foreign::FUNCTION,
            // `x[i] for i in range(n)`
            _ if self.at_word("for") && !self.current.starts_line => foreign::LOOPS,
            _ => return None,
        };
        Some(habit.to_owned())
    }

    /// What to write instead of `x[i] if i > 0`, and of `a if c else b`.
    fn condition_behind(&self, operand: Operand) -> String {
        let line = self.text.get(self.current.span.end as usize..).and_then(|text| text.lines().next()).unwrap_or("");
        let mut value = operand.id;
        while let Some(Expr::Binder { body, .. }) = self.ast.exprs.get(value) {
            value = *body;
        }
        let value = self.ast.spans.get(value).and_then(|span| self.text.get(span.range())).unwrap_or("");
        let condition = line.split('#').next().unwrap_or("").trim();
        let is_short = |text: &str| !text.is_empty() && text.len() <= MAX_SHOWN && !text.contains('\n');
        let is_balanced = condition.matches(['(', '[']).count() == condition.matches([')', ']']).count();
        let has_else = condition.split_whitespace().any(|word| word == "else");
        match has_else || !is_balanced || !is_short(condition) || !is_short(value) {
            true => foreign::CHOICE.to_owned(),
            false => foreign::condition_behind(condition, value),
        }
    }

    /// What to write instead of a condition behind the body of a binder.
    fn condition_on_body(&self) -> String {
        let word = self.frames.iter().rev().find_map(|frame| match frame {
            Frame::Body { kind, .. } => Some(kind.word()),
            Frame::Product { .. } => Some(PRODUCT),
            _ => None,
        });
        foreign::condition(word.unwrap_or("sum"), None)
    }

    /// The index that a condition here is the first to name, which has no range: the `j` of `i < n, j > i`.
    fn unranged_index(&mut self) -> Option<Name> {
        let behind = self.lexer.clone().next(&mut Vec::new()).token;
        let is_compared = matches!(behind, Token::Greater | Token::GreaterEqual | Token::NotEqual);
        if self.token() != Token::Name || !is_compared {
            return None;
        }
        let name = self.name_at(self.current.span);
        let is_bound = match self.frames.last() {
            Some(Frame::Extent { chain, bare, done, .. }) => {
                let ended = done.iter().map(|bound| &bound.index);
                chain.iter().map(|link| &link.index).chain(bare).chain(ended).any(|index| index.text == name.text)
            }
            _ => true,
        };
        (!is_bound && !self.is_known(&name.text)).then_some(name)
    }

    /// What to write instead of a condition on the indices of a binder, whose text is from a place on to the point in front of the body. The last
    /// range that was read ends where `range` ends.
    fn condition_on_range(&self, from: u32, range: Span, unranged: Option<&Name>) -> String {
        let Some(Frame::Extent { kind, made, start, .. }) = self.frames.last() else {
            return foreign::condition("sum", None);
        };
        let word = match made {
            Made::Itself => kind.word(),
            Made::Mean => "mean",
            Made::Product => PRODUCT,
        };
        let ranges = self.text.get(start.end as usize..range.end as usize).map(str::trim);
        let ranges = ranges.filter(|text| text.len() <= MAX_SHOWN && !text.contains(['\n', '(']));
        let ranges = ranges.map(|text| match unranged {
            Some(index) => format!("{text}, {} < {}", index.text, self.text.get(range.range()).unwrap_or("n")),
            None => text.to_owned(),
        });
        foreign::condition(word, ranges.as_deref().zip(self.text_to_point(from)))
    }

    /// The text from a place on to the point in front of a body, where it is short.
    fn text_to_point(&self, from: u32) -> Option<&str> {
        let (mut lexer, mut problems) = (self.lexer.clone(), Vec::new());
        let mut depth = usize::from(matches!(self.token(), Token::LeftParen | Token::LeftBracket));
        for _ in 0..MAX_SHOWN {
            let next = lexer.next(&mut problems);
            match next.token {
                Token::LeftParen | Token::LeftBracket => depth += 1,
                Token::RightParen | Token::RightBracket => depth = depth.checked_sub(1)?,
                Token::Dot if depth == 0 => {
                    let text = self.text.get(from as usize..next.span.start as usize)?.trim();
                    return Some(text).filter(|text| text.len() <= MAX_SHOWN && !text.contains('\n'));
                }
                Token::End => return None,
                _ => {}
            }
        }
        None
    }

    /// Whether a condition on indices stands here in place of the next index: `i != j` and `E(i, j)`, and what says something of an index again, of another
    /// one. An index that hides another, `i < n, i < m`, has a range.
    pub(super) fn is_condition_on(&self, chain: &[Link], done: &[Bound]) -> bool {
        let text = self.text.get(self.current.span.range());
        let mut lexer = self.lexer.clone();
        let [behind, other] = std::array::from_fn(|_| lexer.next(&mut Vec::new()));
        let is_index = |text: Option<&str>| {
            let ended = done.iter().rev().take(MAX_SHOWN).map(|bound| &bound.index);
            let mut names = ended.chain(chain.iter().map(|link| &link.index));
            names.any(|index| Some(index.text.as_str()) == text)
        };
        match (self.token(), behind.token) {
            _ if self.is_range_from_below() => false,
            (Token::Name, Token::NotEqual | Token::Greater | Token::GreaterEqual | Token::LeftParen) => true,
            (Token::Name, Token::Equal) => is_index(text),
            (Token::Name, Token::Less | Token::LessEqual) => {
                is_index(text) && is_index(self.text.get(other.span.range()))
            }
            (Token::Not | Token::LeftBracket, _) => true,
            _ => false,
        }
    }

    /// Whether a parenthesis here holds arguments of the operand in front of it: behind another parenthesis on its line.
    pub(super) fn holds_arguments(&self) -> bool {
        self.token() == Token::LeftParen
            && !self.current.starts_line
            && self.text.get(self.last_end.range()) == Some(")")
    }

    /// Whether the point here stands between two operands with blanks around it, `x . y`.
    fn is_dot_between(&self) -> bool {
        let next = self.lexer.clone().next(&mut Vec::new());
        let is_apart = next.span.start > self.current.span.end;
        is_apart && !self.current.starts_line && !next.starts_line && starts_operand(next.token)
    }

    /// `x.T`, `x.sum(axis=0)`, `np.linalg.norm(x)`
    fn member(&self) -> Option<String> {
        let before = self.text.get(..self.current.span.start as usize).unwrap_or("");
        let of = before.rsplit('\n').next().unwrap_or("");
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
        let known = Op::from_name(name).is_some()
            || matches!(name, "log" | "sum" | "mean" | "max" | "min" | "argmax" | "argmin");
        let known =
            known || self.is_declared_function(name) || crate::surface::library().any(|defined| defined == name);
        foreign::member(&Member { of, name, arguments, known })
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

    /// Reports `return x` and `exp x`, where the word and not what is behind it is a habit.
    pub(super) fn is_habit_in_front(&mut self, word: Span) -> bool {
        let Some(text) = self.text.get(word.range()) else { return false };
        let is_function = || Op::from_name(text).is_some() || text == "log";
        let message = match text {
            "return" => "expected an expression, found `return`".to_owned(),
            _ if !matches!(self.token(), Token::LeftParen | Token::LeftBracket) && is_function() => {
                format!("expected `(` behind the function `{text}`, found {}", self.found())
            }
            _ => return false,
        };
        let help =
            foreign::word(text).map_or_else(|| format!("arguments stand in parentheses: `{text}(..)`"), str::to_owned);
        self.push_diagnostic(Diagnostic::new("unexpected-token", word, message).help(help));
        if text != "return" {
            let lhs = self.node(Expr::Error, word);
            self.open(Frame::Unknown { lhs });
        }
        true
    }

    /// `sum((i, j) in X) e`, behind the word, where `X` was declared with axes: it is reported, and passed over with what it governs.
    pub(super) fn over_entries(&mut self, kind: BinderKind) -> Option<Operand> {
        let (mut lexer, mut problems) = (self.lexer.clone(), Vec::new());
        let mut next = || {
            let lexeme = lexer.next(&mut problems);
            (lexeme.token, self.text.get(lexeme.span.range()).unwrap_or(""))
        };
        let (mut token, mut text) = (self.token(), self.text.get(self.current.span.range()).unwrap_or(""));
        let mut indices = Vec::new();
        while token != Token::In {
            match token {
                Token::Name if indices.len() < MAX_SHOWN => indices.push(text),
                Token::LeftParen | Token::RightParen | Token::Comma => {}
                _ => return None,
            }
            (token, text) = next();
        }
        let (_, name) = next();
        let (asks, axes) = self.ast.decls.iter().find_map(|decl| match decl {
            Decl::Relation { name: rel, shape } if rel.text == name => Some(("", shape.as_slice())),
            Decl::Param { name: param, storage, ty, .. } if param.text == name => match &ty.kind {
                TypeKind::Tensor(axes, _) if *storage != StorageKind::Dense => Some(("?", axes.as_slice())),
                _ => None,
            },
            _ => None,
        })?;
        let extent = |e: &ExprId| self.ast.spans.get(*e).and_then(|span| self.text.get(span.range())).unwrap_or("n");
        let ranges: Vec<String> = indices.iter().zip(axes).map(|(i, n)| format!("{i} < {}", extent(n))).collect();
        let help = format!(
            "entries are asked for in a bracket: `{} {}. [{name}{asks}({})] * e`",
            kind.word(),
            ranges.join(", "),
            indices.join(", ")
        );
        let message = format!("expected the name of an index and its range, as in `i < n`, found {}", self.found());
        self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
        self.skip(|token| token == Token::In);
        self.eat(Token::In);
        Some(self.skip_habit())
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
                Token::In | Token::Comma => !is_loop,
                Token::Let | Token::Semicolon => true,
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
        let help = match self.frames.last() {
            _ if self.token() != Token::Colon => self.condition_on_range(self.current.span.end, operand.span, None),
            Some(Frame::ScanInit { .. }) => "the body stands behind a point: `fold t < n, s = e0. e`".to_owned(),
            _ => "the body stands behind a point: `sum i < n. e`".to_owned(),
        };
        let message = format!("expected an operator, or `.` and the body, found {}", self.found());
        self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
        if self.token() != Token::Colon {
            return self.skip_condition(operand);
        }
        let end = self.advance().span;
        self.end_group(Token::Dot, end, operand)
    }

    /// Reports `sum(i < n, e)`, where a range stands among the arguments of a binder as a function.
    pub(super) fn has_range_as_argument(&mut self, callee: &Name, args: &[ExprId]) -> bool {
        let is_binder = ["sum", "mean", "prod", "max", "min", "argmax", "argmin"].contains(&callee.text.as_str());
        let Some((body, ranges)) = args.split_last().filter(|(_, ranges)| is_binder && !ranges.is_empty()) else {
            return false;
        };
        for range in ranges {
            let Some(Expr::Binary(BinaryOp::Less | BinaryOp::LessEqual, index, _)) = self.ast.exprs.get(*range) else {
                return false;
            };
            let Some(Expr::Name(index)) = self.ast.exprs.get(*index) else { return false };
            let index = index.clone();
            if self.is_known(&index) {
                return false;
            }
        }
        let text = |e: &ExprId| self.in_one_line(self.ast.spans.get(*e).copied().unwrap_or_default());
        let written = ranges.iter().map(text).collect::<Vec<_>>().join(", ");
        let help = format!("a range stands in front of a body: `{} {written}. {}`", callee.text, text(body));
        let message = format!("`{}` takes one tensor, found {} arguments", callee.text, args.len());
        self.push_diagnostic(Diagnostic::new("wrong-arity", callee.span, message).help(help));
        true
    }

    /// Whether places in steps stand here, the `step 2` of `sum i < n step 2. e`.
    pub(super) fn is_step(&self) -> bool {
        let behind = self.lexer.clone().next(&mut Vec::new()).token;
        (self.at_word("step") || self.at_word("by")) && matches!(behind, Token::Number { integer: Some(_), .. })
    }

    /// `sum i < n step 2. e`, behind the range.
    pub(super) fn range_in_steps(&mut self, operand: Operand) -> Next {
        let message = format!("expected an operator, or `.` and the body, found {}", self.found());
        let behind = self.lexer.clone().next(&mut Vec::new()).token;
        let index = match self.frames.last() {
            Some(Frame::Extent { chain, .. }) => chain.last().map_or("i", |link| link.index.text.as_str()),
            _ => "i",
        };
        let help = match (behind, self.text.get(operand.span.range())) {
            (Token::Number { integer: Some(step), .. }, Some(extent)) if step > 1 => {
                foreign::in_steps(index, extent, step)
            }
            _ => foreign::in_steps(index, "n", 2),
        };
        self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
        self.skip_condition(operand)
    }

    /// `sum i < n, i != j. e`, behind the comma.
    pub(super) fn condition_among_ranges(&mut self, operand: Operand) -> Next {
        let message = format!("expected the name of an index, as in `i < n`, found {}", self.found());
        let unranged = self.unranged_index();
        let help = self.condition_on_range(self.current.span.start, operand.span, unranged.as_ref());
        self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
        // It is read on with the range that the sentence gives it.
        if let (Some(index), Some(Frame::Extent { bare, .. })) = (unranged, self.frames.last_mut()) {
            bare.push(index);
        }
        self.skip_condition(operand)
    }

    /// Goes on with the body of a binder behind a condition on its indices.
    fn skip_condition(&mut self, operand: Operand) -> Next {
        self.skip(|token| matches!(token, Token::Dot | Token::RightParen | Token::RightBracket));
        if self.token() != Token::Dot {
            return Next::Operand(operand);
        }
        let end = self.advance().span;
        self.end_group(Token::Dot, end, operand)
    }
}

/// The front of a text up to a bracket that it closes and has not opened.
fn within_brackets(text: &str) -> &str {
    let mut depth = 0i32;
    let end = text.find(|c| {
        depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
        depth < 0
    });
    text.get(..end.unwrap_or(text.len())).unwrap_or("")
}

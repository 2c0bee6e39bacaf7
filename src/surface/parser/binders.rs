//! Binders: their indices, ranges and bodies.

use rustc_hash::FxHashMap;

use super::frame::{Bound, Frame, Made, Range};
use super::{Operand, Parser, starts_operand};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::foreign;
use crate::lexer::Token;
use crate::surface::ast::{BinaryOp, BinderKind, Expr, ExprId, Name};

/// How many tokens are looked at for the point behind ranges.
const MAX_INDICES: usize = 256;

impl Parser<'_> {
    /// Whether the name here has a range, `i < n`.
    pub(super) fn range_follows(&self) -> bool {
        let mut lexer = self.lexer.clone();
        matches!(lexer.next(&mut Vec::new()).token, Token::Less | Token::LessEqual)
    }

    pub(super) fn binder(&mut self, kind: BinderKind) -> Option<Operand> {
        let start = self.advance().span;
        if let Some(operand) = self.over_entries(kind) {
            return Some(operand);
        }
        self.binder_indices(kind, Made::Itself, start)
    }

    pub(super) fn binder_indices(&mut self, kind: BinderKind, made: Made, start: Span) -> Option<Operand> {
        if self.token() == Token::Foreign {
            // `sum |x|`: what was reported stands in the place of the indices.
            let lhs = self.error_leaf();
            self.open(Frame::Unknown { lhs });
            return None;
        }
        let open = self.eat(Token::LeftParen);
        self.indices(kind, made, open, Vec::new(), start);
        None
    }

    /// Reads indices up to the range of one, or up to the body where none has one: `i, j < n` have one range, and those of `i, j` are found later.
    pub(super) fn indices(
        &mut self,
        kind: BinderKind,
        made: Made,
        open: Option<Span>,
        mut done: Vec<Bound>,
        start: Span,
    ) {
        let mut bare = Vec::new();
        while self.index_is_bare() {
            let span = self.advance().span;
            bare.push(self.name_at(span));
            if self.eat(Token::Comma).is_some() {
                continue;
            }
            // The end of the indices.
            self.advance();
            if open.is_some() {
                self.eat(Token::Dot);
            }
            for index in bare {
                let extent = self.node(Expr::All, index.span).id;
                done.push(Bound { index, extent, lower: None });
            }
            self.open_bodies(kind, made, done, start);
            return;
        }
        self.ranged_index((kind, made), open, bare, done, start);
    }

    /// Gives indices the range of the one behind them, unless it ends at one of them.
    pub(super) fn share_range(&mut self, bare: Vec<Name>, extent: ExprId, done: &mut Vec<Bound>) {
        let last = self.last_of_range(extent);
        for index in bare {
            let own = last.as_deref() == Some(index.text.as_str());
            let extent = if own { self.node(Expr::All, index.span).id } else { extent };
            done.push(Bound { index, extent, lower: None });
        }
    }

    /// The name that a range ends at, `j` of `i < j + 1`.
    pub(super) fn last_of_range(&self, extent: ExprId) -> Option<String> {
        let mut end = extent;
        while let Some(Expr::Binary(BinaryOp::Add | BinaryOp::Sub, left, _)) = self.ast.exprs.get(end) {
            end = *left;
        }
        match self.ast.exprs.get(end) {
            Some(Expr::Name(name)) => Some(name.clone()),
            _ => None,
        }
    }

    /// Whether an index stands here without a range: a comma, the point in front of a body, or the end of the parentheses is behind it.
    fn index_is_bare(&self) -> bool {
        let mut lexer = self.lexer.clone();
        let behind = lexer.next(&mut Vec::new());
        self.token() == Token::Name
            && match behind.token {
                Token::Comma => lexer.next(&mut Vec::new()).token == Token::Name,
                Token::Dot | Token::RightParen => true,
                _ => false,
            }
    }

    /// Whether an index stands here, with a range or without.
    pub(super) fn index_follows(&self) -> bool {
        self.range_follows()
            || self.is_range_from_below()
            || self.index_is_bare() && self.token_behind() != Token::RightParen
    }

    /// Opens the binder whose word was read, where the parenthesis behind it holds its indices, or these and its body. As a function it takes so
    /// many arguments at most.
    pub(super) fn opens_binder(&mut self, kind: BinderKind, made: Made, arguments: usize, start: Span) -> bool {
        if self.token() != Token::LeftParen {
            return false;
        }
        if self.body_in_parentheses() {
            let open = self.advance().span;
            self.open(Frame::Paren { open, items: Vec::new() });
            self.indices(kind, made, None, Vec::new(), start);
            return true;
        }
        let holds = self.indices_in_parentheses(arguments);
        if holds {
            self.binder_indices(kind, made, start);
        }
        holds
    }

    /// Opens the vector of a function that takes one, where indices stand behind its name: `logsumexp i < n. e` is `logsumexp(gen i < n. e)`, and
    /// `logsumexp(i < n. e)` as well.
    pub(super) fn opens_vector(&mut self, word: Span) -> bool {
        let is_function = self.text.get(word.range()).is_some_and(|name| foreign::OF_VECTOR.contains(&name));
        if !is_function || self.current.starts_line {
            return false;
        }
        let is_bare = matches!(self.token(), Token::Name | Token::Number { .. }) && self.index_follows();
        let callee = self.name_at(word);
        if is_bare {
            self.open(Frame::OfVector { callee });
        } else if self.token() == Token::LeftParen && self.body_in_parentheses() {
            let open = self.advance().span;
            self.open(Frame::Call { open, close: Token::RightParen, callee, args: Vec::new() });
        } else {
            return false;
        }
        self.indices(BinderKind::Gen, Made::Itself, None, Vec::new(), word);
        true
    }

    /// Whether the parenthesis here holds a range and behind a point the body, `sum(i < n. x[i])`.
    fn body_in_parentheses(&self) -> bool {
        let mut lexer = self.lexer.clone();
        let mut problems = Vec::new();
        let (mut depth, mut ranges) = (0usize, false);
        let first = lexer.next(&mut problems).token;
        if !matches!(first, Token::Name | Token::Number { .. }) {
            return false;
        }
        for _ in 0..MAX_INDICES {
            match lexer.next(&mut problems).token {
                Token::Less | Token::LessEqual => ranges = true,
                Token::Dot if depth == 0 => {
                    let behind = lexer.next(&mut problems).token;
                    return ranges && (starts_operand(behind) || behind == Token::Minus);
                }
                Token::LeftParen => depth += 1,
                Token::RightParen if depth > 0 => depth -= 1,
                Token::Name | Token::Number { .. } | Token::Plus | Token::Minus | Token::Star => {}
                Token::SlashSlash | Token::Percent | Token::Comma => {}
                _ => return false,
            }
        }
        false
    }

    /// Whether the bracket here begins the body of a binder whose point is missing, `sum i < n (x[i] - 1)^2`: in front of it the range
    /// ends with a number or the name of a size, which is neither called nor read.
    pub(super) fn is_body_without_point(&self, name: Span) -> bool {
        let text = self.text.get(name.range()).unwrap_or("");
        let is_apart = self.current.span.start > name.end && !self.current.starts_line;
        let mut groups = self.frames.iter().rev().take(MAX_INDICES).filter(|frame| frame.level().is_none());
        let is_size = self.known_sizes.contains(text) || text.starts_with(|c: char| c.is_ascii_digit());
        is_apart && is_size && matches!(groups.next(), Some(Frame::Extent { open: None, .. }))
    }

    /// The token behind the one here.
    fn token_behind(&self) -> Token {
        self.lexer.clone().next(&mut Vec::new()).token
    }

    /// Whether the parenthesis here holds the indices of a binder, as in `sum (i < n, j < m) e`, and no argument, as in `sum(x < y)`: it
    /// holds indices and sizes, and a body stands behind it. What is looked at holds no such parenthesis itself. As a function the binder takes so many arguments at most.
    fn indices_in_parentheses(&mut self, arguments: usize) -> bool {
        let mut lexer = self.lexer.clone();
        let mut problems = Vec::new();
        let mut next = || lexer.next(&mut problems);
        let middle = self.middle_in_parentheses();
        if next().token != Token::Name && middle.is_none() {
            return false;
        }
        let (mut depth, mut ranges, mut names) = (0usize, middle.is_some(), 1);
        let end = loop {
            let lexeme = next();
            match lexeme.token {
                Token::Name => {}
                Token::Comma => names += 1,
                Token::Less | Token::LessEqual => ranges = true,
                Token::RightParen if depth == 0 => break lexeme.span.end,
                // In front of the first range stand names.
                _ if !ranges => return false,
                Token::LeftParen => depth += 1,
                Token::RightParen => depth -= 1,
                Token::Number { .. } | Token::Plus | Token::Minus | Token::Star => {}
                _ => return false,
            }
        };
        let behind = next();
        let begins = behind.token == Token::Dot || starts_operand(behind.token);
        match ranges {
            // `sum(0 < x < 1)` at the end of a line compares.
            true if behind.starts_line && middle.is_some_and(|middle| self.is_known(&middle.text)) => false,
            true => begins,
            false if behind.token == Token::Dot => names > arguments,
            // `max(a, b)` is a call, also in front of an access, the point of a loop, and words such as `while`.
            false => {
                let is_body = begins
                    && !matches!(
                        behind.token,
                        Token::Number { .. } | Token::Foreign | Token::LeftBracket | Token::Let | Token::If
                    );
                let goes_on = self
                    .text
                    .get(behind.span.range())
                    .is_some_and(|word| ["down", "for", "of", "when", "where", "while"].contains(&word));
                is_body && !goes_on && !behind.starts_line && behind.span.start > end
            }
        }
    }

    /// What begins the range of an index in other languages, behind the token here: the `0..` of `0..n`, the `1:` of `1:n`, the `range` of
    /// `range(n)`. How many tokens it is, and the number that the range begins with.
    fn range_of_others(&self) -> (usize, Option<Span>) {
        let mut lexer = self.lexer.clone();
        let mut next = || lexer.next(&mut Vec::new());
        let first = next();
        match (first.token, next().token) {
            (Token::Number { .. }, Token::Colon) => (2, Some(first.span)),
            (Token::Number { .. }, Token::Dot) if next().token == Token::Dot => (3, Some(first.span)),
            (Token::Name, Token::LeftParen) => (1, None),
            _ => (0, None),
        }
    }

    /// The name of an index, and whether its range has its end: `i < n`, or `i <= n`.
    pub(super) fn binder_index(&mut self) -> (Name, bool) {
        let name = self.name("the name of an index, as in `i < n`").unwrap_or_else(|| self.no_name());
        let inclusive = self.eat(Token::LessEqual).is_some();
        if !inclusive && self.eat(Token::Less).is_none() {
            let message = format!("expected `<` and the range of the index, found {}", self.found());
            let end = if name.text == "n" { "m" } else { "n" };
            let mut help = format!("indices run from 0 to below the range, as in `{} < {end}`", name.text);
            let begins_range = |parser: &Self| matches!(parser.token(), Token::Equal | Token::Colon | Token::In);
            let (_, first) = if begins_range(self) { self.range_of_others() } else { (0, None) };
            if let Some(first) = first.and_then(|first| self.text.get(first.range())).filter(|first| *first != "0") {
                help += &format!("; a range with two ends is `{first} <= {} < {end}`", name.text);
            }
            // Of several it is said once.
            let between = self.unranged.and_then(|end| self.text.get(end as usize..name.span.start as usize));
            if between.is_none_or(|between| between.trim() != ",") {
                self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
            }
            self.reported_at = Some(self.current.span.start);
            self.unranged = Some(name.span.end);
            if begins_range(self) {
                let (tokens, _) = self.range_of_others();
                for _ in 0..=tokens {
                    self.advance();
                }
            }
        }
        (name, inclusive)
    }

    /// The range that ends at an operand: `i <= n` is `i < n + 1`.
    pub(super) fn range(&mut self, end: Operand, inclusive: bool) -> ExprId {
        if !inclusive {
            return end.id;
        }
        let one = self.node(Expr::Number { value: 1.0, integer: Some(1) }, end.span);
        self.node(Expr::Binary(BinaryOp::Add, end.id, one.id), end.span).id
    }

    /// The indices of a binder, each behind those that its range mentions: `sum i < j, j < n. e` is reported.
    fn in_order(&mut self, kind: BinderKind, made: Made, mut indices: Vec<Bound>) -> Vec<Bound> {
        let mut mentioned: FxHashMap<String, usize> = FxHashMap::default();
        let mut found = None;
        for (at, Bound { index, extent, .. }) in indices.iter().enumerate() {
            found = mentioned.get(&index.text).map(|before| (*before, at));
            if found.is_some() {
                break;
            }
            if let Some(name) = self.last_of_range(*extent) {
                mentioned.entry(name).or_insert(at);
            }
        }
        let Some((before, behind)) = found else { return indices };
        let word = if made == Made::Itself { kind.word() } else { "sum" };
        let text = |bound: &Bound| self.in_one_line(self.span_of_range(bound));
        let (first, second) = (text(&indices[behind]), text(&indices[before]));
        let message = format!("the range of `{}` ends at an index that stands behind it", indices[before].index.text);
        let help = format!("an index stands behind those that its range mentions: `{word} {first}, {second}. e`");
        let span = indices[before].index.span;
        self.push_diagnostic(Diagnostic::new("range-order", span, message).help(help));
        let moved = indices.remove(behind);
        indices.insert(before, moved);
        indices
    }

    /// The text of an index with its range.
    fn span_of_range(&self, bound: &Bound) -> Span {
        let at = |e: ExprId| self.ast.spans.get(e).copied().unwrap_or_default();
        bound.lower.map_or(bound.index.span, at).to(at(bound.extent))
    }

    /// `gen i < n, j < m. e` is `gen i < n. gen j < m. e`.
    pub(super) fn open_bodies(&mut self, kind: BinderKind, made: Made, indices: Vec<Bound>, start: Span) {
        let indices = self.in_order(kind, made, indices);
        if made == Made::Mean {
            let divisors = self.divisors(&indices, start);
            self.open(Frame::Mean { divisors });
        }
        let last = indices.len().saturating_sub(1);
        let is_warned = made == Made::Product || made == Made::Itself && kind == BinderKind::Sum;
        let range =
            |bound: &Bound| Range { index: bound.index.text.clone(), span: self.span_of_range(bound), word: start };
        let ranges: Vec<Range> = if is_warned { indices.iter().map(range).collect() } else { Vec::new() };
        for (k, Bound { index, extent, lower }) in indices.into_iter().enumerate() {
            let start = if k == 0 { start } else { index.span };
            let mut summed = if k == last { ranges.clone() } else { Vec::new() };
            let inner = if lower.is_some() { std::mem::take(&mut summed) } else { Vec::new() };
            self.open(match made {
                Made::Product => Frame::Product { index, extent, start, factors: summed },
                _ => Frame::Body { kind, index, extent, start, summed },
            });
            if let Some(guard) = lower {
                self.open(Frame::Restricted { guard, kind, made, summed: inner });
            }
        }
    }
}

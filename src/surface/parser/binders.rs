//! Binders: their indices, ranges and bodies.

use rustc_hash::FxHashMap;

use super::frame::{Frame, Made, Range};
use super::{Operand, Parser, starts_operand};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::lexer::Token;
use crate::surface::ast::{BinaryOp, BinderKind, Expr, ExprId, Name};

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
        let (index, inclusive) = self.binder_index(false);
        self.open(Frame::Extent { kind, made, open, index, inclusive, done: Vec::new(), start });
        None
    }

    /// Whether the parenthesis here holds the indices of a binder, as in `sum (i < n, j < m) e`, and no argument, as in `sum(x < y)`: it
    /// holds indices and sizes, and a body stands behind it. What is looked at holds no such parenthesis itself.
    pub(super) fn indices_in_parentheses(&self) -> bool {
        let mut lexer = self.lexer.clone();
        let mut problems = Vec::new();
        let mut next = || lexer.next(&mut problems);
        if next().token != Token::Name || !matches!(next().token, Token::Less | Token::LessEqual) {
            return false;
        }
        let mut depth = 0usize;
        loop {
            match next().token {
                Token::LeftParen => depth += 1,
                Token::RightParen if depth > 0 => depth -= 1,
                Token::RightParen => break,
                Token::Name | Token::Number { .. } | Token::Plus | Token::Minus | Token::Star => {}
                Token::Comma | Token::Less | Token::LessEqual => {}
                _ => return false,
            }
        }
        let behind = next();
        behind.token == Token::Dot || starts_operand(behind.token)
    }

    /// Passes over what begins the range of an index in other languages: the `0..` of `0..n`, the `1:` of `1:n`, the `range` of `range(n)`.
    pub(super) fn skip_range_of_others(&mut self) {
        let mut lexer = self.lexer.clone();
        let mut next = || lexer.next(&mut Vec::new()).token;
        let tokens = match (self.token(), next()) {
            (Token::Number { .. }, Token::Colon) => 2,
            (Token::Number { .. }, Token::Dot) if next() == Token::Dot => 3,
            (Token::Name, Token::LeftParen) => 1,
            _ => 0,
        };
        for _ in 0..tokens {
            self.advance();
        }
    }

    /// Whether a range has two ends here, `1 <= i < n`.
    pub(super) fn is_range_from_below(&self) -> bool {
        let mut lexer = self.lexer.clone();
        let mut next = || lexer.next(&mut Vec::new()).token;
        let is_less = |token| matches!(token, Token::Less | Token::LessEqual);
        matches!(self.token(), Token::Name | Token::Number { .. })
            && is_less(next())
            && next() == Token::Name
            && is_less(next())
    }

    /// The name of an index, and whether its range has its end: `i < n`, or `i <= n`.
    pub(super) fn binder_index(&mut self, in_loop: bool) -> (Name, bool) {
        if self.is_range_from_below() {
            let from = self.text.get(self.current.span.range()).unwrap_or("");
            let message = format!("expected the name of an index, as in `i < n`, found a range from {from}");
            let help = match in_loop {
                true => format!("steps run from 0: make fewer, `t < n - {from}`, and read `x[t + {from}]`"),
                false => format!("indices run from 0: a bracket leaves some out, as in `sum i < n. [{from} <= i] * e`"),
            };
            self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
            self.advance();
            self.advance();
        }
        let name = self.name("the name of an index, as in `i < n`").unwrap_or_else(|| self.no_name());
        let inclusive = self.eat(Token::LessEqual).is_some();
        if !inclusive && self.eat(Token::Less).is_none() {
            let message = format!("expected `<` and the range of the index, found {}", self.found());
            let end = if name.text == "n" { "m" } else { "n" };
            let help = format!("indices run from 0 to below the range, as in `{} < {end}`", name.text);
            // Of several it is said once.
            let between = self.unranged.and_then(|end| self.text.get(end as usize..name.span.start as usize));
            if between.is_none_or(|between| between.trim() != ",") {
                self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
            }
            self.reported_at = Some(self.current.span.start);
            self.unranged = Some(name.span.end);
            if matches!(self.token(), Token::Equal | Token::Colon | Token::In) {
                self.advance();
                self.skip_range_of_others();
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
    fn in_order(&mut self, kind: BinderKind, made: Made, mut indices: Vec<(Name, ExprId)>) -> Vec<(Name, ExprId)> {
        let mut mentioned: FxHashMap<String, usize> = FxHashMap::default();
        let mut found = None;
        for (at, (index, extent)) in indices.iter().enumerate() {
            found = mentioned.get(&index.text).map(|before| (*before, at));
            if found.is_some() {
                break;
            }
            let mut end = *extent;
            while let Some(Expr::Binary(BinaryOp::Add | BinaryOp::Sub, left, _)) = self.ast.exprs.get(end) {
                end = *left;
            }
            if let Some(Expr::Name(name)) = self.ast.exprs.get(end) {
                mentioned.entry(name.clone()).or_insert(at);
            }
        }
        let Some((before, behind)) = found else { return indices };
        let range = |(index, extent): &(Name, ExprId)| {
            self.in_one_line(index.span.to(self.ast.spans.get(*extent).copied().unwrap_or_default()))
        };
        let word = if made == Made::Itself { kind.word() } else { "sum" };
        let (first, second) = (range(&indices[behind]), range(&indices[before]));
        let message = format!("the range of `{}` ends at an index that stands behind it", indices[before].0.text);
        let help = format!("an index stands behind those that its range mentions: `{word} {first}, {second}. e`");
        let span = indices[before].0.span;
        self.push_diagnostic(Diagnostic::new("range-order", span, message).help(help));
        let moved = indices.remove(behind);
        indices.insert(before, moved);
        indices
    }

    /// `gen i < n, j < m. e` is `gen i < n. gen j < m. e`.
    pub(super) fn open_bodies(&mut self, kind: BinderKind, made: Made, indices: Vec<(Name, ExprId)>, start: Span) {
        let indices = self.in_order(kind, made, indices);
        if made == Made::Product {
            for (k, (index, extent)) in indices.into_iter().enumerate() {
                let start = if k == 0 { start } else { index.span };
                self.open(Frame::Product { index, extent, start });
            }
            return;
        }
        if made == Made::Mean {
            let extents = indices.iter().map(|(_, extent)| *extent).collect();
            self.open(Frame::Mean { extents, start });
        }
        let last = indices.len().saturating_sub(1);
        let ranges: Vec<Range> = match kind {
            BinderKind::Sum if made == Made::Itself => {
                let range = |(index, extent): &(Name, ExprId)| Range {
                    index: index.text.clone(),
                    span: index.span.to(self.ast.spans.get(*extent).copied().unwrap_or_default()),
                    sum: start,
                };
                indices.iter().map(range).collect()
            }
            _ => Vec::new(),
        };
        for (k, (index, extent)) in indices.into_iter().enumerate() {
            let start = if k == 0 { start } else { index.span };
            let summed = if k == last { ranges.clone() } else { Vec::new() };
            self.open(Frame::Body { kind, index, extent, start, summed });
        }
    }
}

//! Ranges with two ends, and chains of indices.
//!
//! ```text
//! sum a <= i < n. e        ==  sum i < n. [a <= i] * e               so mean, and `exists` by `and`
//! max a <= i < n. e        ==  max i < n. if a <= i then e else -inf
//! prod a <= i < n. e       ==  prod i < n. if a <= i then e else 1
//! fold a <= t < n, s = b. e  ==  fold t < n, s = b. if a <= t then e else s
//! sum i < j < n. e         ==  sum j < n. sum i < j. e               where `i` means nothing yet
//! ```
//!
//! `0 <= i < n` is `i < n`. What stands in front of the first sign is an index if it is a name that nothing has so far, and the lower end of
//! the range otherwise. A `gen`, a `scan` and an `argmax` have places from 0 on, so they take no other lower end.

use super::frame::{Bound, Frame, Head, Link, Made, Next, Ranged};
use super::scan::one_index;
use super::{Operand, Parser};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::lexer::{Lexeme, Lexer, Token};
use crate::surface::ast::{BinaryOp, BinderKind, Decl, Expr, ExprId, LoopKind, Name};

/// How many tokens a lower end may have.
const MAX_LOWER: usize = 48;

fn is_less(token: Token) -> bool {
    matches!(token, Token::Less | Token::LessEqual)
}

/// The name in the middle of `a < i < n`, if this is what begins with a token.
fn middle(mut lexer: Lexer<'_>, first: Lexeme) -> Option<Span> {
    let mut problems = Vec::new();
    let (mut lexeme, mut depth) = (first, 0usize);
    if !matches!(first.token, Token::Name | Token::Number { .. }) {
        return None;
    }
    for _ in 0..MAX_LOWER {
        match lexeme.token {
            token if is_less(token) && depth == 0 => {
                let (name, behind) = (lexer.next(&mut problems), lexer.next(&mut problems));
                return (name.token == Token::Name && is_less(behind.token)).then_some(name.span);
            }
            Token::LeftParen | Token::LeftBracket => depth += 1,
            Token::RightParen | Token::RightBracket => depth = depth.checked_sub(1)?,
            Token::Comma if depth > 0 => {}
            Token::Name | Token::Number { .. } | Token::Plus | Token::Minus => {}
            Token::Star | Token::SlashSlash | Token::Percent => {}
            _ => return None,
        }
        lexeme = lexer.next(&mut problems);
    }
    None
}

impl Parser<'_> {
    /// Whether a range has two ends here, `1 <= i < n`, or indices form a chain, `i < j < n`.
    pub(super) fn is_range_from_below(&self) -> bool {
        middle(self.lexer.clone(), self.current).is_some()
    }

    /// The name in the middle of a range with two ends behind the parenthesis here.
    pub(super) fn middle_in_parentheses(&self) -> Option<Name> {
        let mut lexer = self.lexer.clone();
        let first = lexer.next(&mut Vec::new());
        middle(lexer, first).map(|span| self.name_at(span))
    }

    /// Whether the range here begins with its lower end, and not with an index. Some indices in front of it are read.
    fn begins_with_lower(&mut self, done: &[Bound]) -> bool {
        if !self.is_range_from_below() {
            return false;
        }
        let is_alone = self.token() == Token::Name && is_less(self.lexer.clone().next(&mut Vec::new()).token);
        if !is_alone {
            return true;
        }
        let name = self.name_at(self.current.span);
        done.iter().any(|bound| bound.index.text == name.text) || self.is_known(&name.text)
    }

    /// Whether something in front of this place has a name.
    pub(super) fn is_known(&mut self, name: &str) -> bool {
        let is = |other: &Name| other.text == name;
        for frame in self.frames.iter().rev() {
            self.looked_at += 1;
            let found = match frame {
                Frame::Body { index, .. } | Frame::Product { index, .. } => is(index),
                Frame::LetBody { name, .. } => is(name),
                Frame::ScanBody { head, state, .. } => is(&head.index) || is(state),
                Frame::FunctionBody { params, .. } => params.iter().any(|(name, _)| is(name)),
                Frame::Arm { names, .. } => names.iter().any(is),
                Frame::Extent { done, .. } => done.iter().any(|bound| is(&bound.index)),
                _ => false,
            };
            if found || self.looked_at > super::MAX_LOOKED_AT {
                return true;
            }
        }
        self.looked_at += self.known.len();
        self.known.iter().any(|known| known == name)
    }

    /// Notes the names in expressions from a place of the arena on: those of sizes.
    pub(super) fn know_sizes(&mut self, from: usize) {
        let names = self.ast.exprs.values().skip(from).filter_map(|expr| match expr {
            Expr::Name(name) => Some(name.clone()),
            _ => None,
        });
        let names: Vec<String> = names.collect();
        self.known.extend(names.iter().cloned());
        self.known_sizes.extend(names);
    }

    /// Notes the name of a declaration.
    pub(super) fn know_declared(&mut self, decl: &Decl) {
        match decl {
            Decl::Size { name, .. } => {
                self.known.push(name.text.clone());
                self.known_sizes.insert(name.text.clone());
            }
            Decl::Param { name, .. }
            | Decl::Map { name, .. }
            | Decl::Relation { name, .. }
            | Decl::Sum { name, .. } => {
                self.known.push(name.text.clone());
            }
            Decl::Def { name, params, .. } if params.is_empty() => self.known.push(name.text.clone()),
            Decl::Type { .. } | Decl::Assume { .. } | Decl::Def { .. } | Decl::Fun { .. } => {}
        }
    }

    /// Reads an index of a binder up to its range; the range of some in front of it is the same.
    pub(super) fn ranged_index(
        &mut self,
        (kind, made): (BinderKind, Made),
        open: Option<Span>,
        mut bare: Vec<Name>,
        done: Vec<Bound>,
        start: Span,
    ) {
        if self.begins_with_lower(&done) {
            return self.open(Frame::Lower { of: Ranged::Binder { kind, made, open, bare, done, start } });
        }
        let chain = self.chain_of(None, (kind, made), &mut bare);
        self.open(Frame::Extent { kind, made, open, bare, chain, done, start });
    }

    /// Reads the index of a loop up to its range.
    pub(super) fn loop_index(&mut self, kind: LoopKind, start: Span) {
        if self.begins_with_lower(&[]) {
            return self.open(Frame::Lower { of: Ranged::Loop { kind, start } });
        }
        self.open_loop(kind, None, start);
    }

    fn open_loop(&mut self, kind: LoopKind, lower: Option<(Operand, BinaryOp)>, start: Span) {
        let before = self.diagnostics.len();
        let at = self.current.span;
        let mut chain = self.links(lower);
        if chain.len() > 1 {
            let message = format!("expected the range of the index, found a chain of {}", chain.len());
            self.report(Diagnostic::new("unexpected-token", at, message).help(one_index(kind.word())));
        }
        let Some(Link { index, lower, inclusive }) = chain.pop() else { return };
        if let (Some(lower), LoopKind::Scan) = (lower, kind) {
            let help = format!(
                "the states of a `scan` are those of steps from 0 on: make fewer, {}",
                self.leaving_out("scan t < ", lower, ", s = e0. ..")
            );
            self.report_lower(lower, help);
        }
        let sound = self.diagnostics.len() == before;
        let head = Head { kind, down: false, tested: false, sound, index, start };
        self.open(Frame::ScanRange { head, inclusive, lower: lower.filter(|_| sound) });
    }

    /// Goes on behind the lower end of a range, if the sign here ends one.
    pub(super) fn ends_lower(&mut self, operand: Operand, base: usize) -> Option<Next> {
        let mut groups = self.frames.iter().skip(base).rev().filter(|frame| frame.level().is_none());
        if !is_less(self.token()) || !matches!(groups.next(), Some(Frame::Lower { .. })) {
            return None;
        }
        let lower = self.finish_operators(0, operand, base);
        Some(self.lower_end(lower))
    }

    /// The sign behind the lower end of a range: the index comes next.
    fn lower_end(&mut self, lower: Operand) -> Next {
        let Some(Frame::Lower { of }) = self.frames.pop() else { return Next::Operand(lower) };
        let op = if self.advance().token == Token::Less { BinaryOp::Less } else { BinaryOp::LessEqual };
        match of {
            Ranged::Binder { kind, made, open, mut bare, done, start } => {
                let chain = self.chain_of(Some((lower, op)), (kind, made), &mut bare);
                self.open(Frame::Extent { kind, made, open, bare, chain, done, start });
            }
            Ranged::Loop { kind, start } => self.open_loop(kind, Some((lower, op)), start),
        }
        Next::Expect
    }

    /// Reads indices up to the range of the last: `i <`, or `i < j <` of a chain.
    fn links(&mut self, mut lower: Option<(Operand, BinaryOp)>) -> Vec<Link> {
        let mut chain: Vec<Link> = Vec::new();
        let before = self.diagnostics.len();
        loop {
            let (index, inclusive) = self.binder_index();
            let lower = lower.take().and_then(|(end, op)| self.lower_guard(end, op, &index));
            chain.push(Link { index, lower, inclusive });
            if self.diagnostics.len() > before || !self.range_follows() || self.token() != Token::Name {
                return chain;
            }
        }
    }

    /// The indices of a binder up to a range. What is reported is read on as indices of one range.
    fn chain_of(
        &mut self,
        lower: Option<(Operand, BinaryOp)>,
        (kind, made): (BinderKind, Made),
        bare: &mut Vec<Name>,
    ) -> Vec<Link> {
        let mut chain = self.links(lower);
        if made != Made::Itself || !matches!(kind, BinderKind::Gen | BinderKind::ArgMax | BinderKind::ArgMin) {
            return chain;
        }
        if let [first, .., last] = chain.as_slice() {
            let span = first.index.span.to(last.index.span);
            let message = format!("expected an index and its range, found a chain of {} indices", chain.len());
            let help = match kind {
                BinderKind::Gen => {
                    "each axis has the places of a range: `gen j < n, i < n. [i < j] * e` has zeros at the others"
                }
                _ => "each index has a range: `i < n, j < n`",
            };
            self.push_diagnostic(Diagnostic::new("unexpected-token", span, message).help(help));
            let before = chain.len() - 1;
            bare.extend(chain.drain(..before).map(|link| link.index));
        } else if let Some(lower) = chain.first().and_then(|link| link.lower) {
            self.refuse_lower(kind, lower);
        }
        chain
    }

    /// `a < i` or `a <= i`; nothing where it says what holds of every index.
    fn lower_guard(&mut self, end: Operand, op: BinaryOp, index: &Name) -> Option<ExprId> {
        let is_zero = matches!(self.ast.exprs.get(end.id), Some(Expr::Number { integer: Some(0), .. }));
        if is_zero && op == BinaryOp::LessEqual {
            return None;
        }
        let name = self.node(Expr::Name(index.text.clone()), index.span);
        Some(self.node(Expr::Binary(op, end.id, name.id), end.span.to(index.span)).id)
    }

    /// Reports the lower end of a range whose places are counted from 0.
    fn refuse_lower(&mut self, kind: BinderKind, lower: ExprId) {
        let (word, guard) = (kind.word(), self.text_of(lower));
        let help = match kind {
            BinderKind::Gen => format!(
                "the places of a tensor are counted from 0: with zeros in front it is `gen i < n. [{guard}] * e`, and without them {}",
                self.leaving_out("gen i < ", lower, ". ..")
            ),
            _ => {
                let other = if kind == BinderKind::ArgMax { "-inf" } else { "inf" };
                format!("places below the end are left out by `{word} i < n. if {guard} then e else {other}`")
            }
        };
        self.report_lower(lower, help);
    }

    fn report_lower(&mut self, lower: ExprId, help: String) {
        let span = self.ast.spans.get(lower).copied().unwrap_or_default();
        let message = format!("expected a range from 0 on, as in `i < n`, found `{}`", self.text_of(lower));
        self.push_diagnostic(Diagnostic::new("unexpected-token", span, message).help(help));
    }

    fn text_of(&self, e: ExprId) -> String {
        self.in_one_line(self.ast.spans.get(e).copied().unwrap_or_default())
    }

    /// How a construct goes over the places from a lower end on, which are counted from 0: `gen i < n - 1. ..`, which reads `x[i + 1]`.
    fn leaving_out(&self, front: &str, lower: ExprId, behind: &str) -> String {
        let Some(Expr::Binary(op, end, index)) = self.ast.exprs.get(lower) else { return String::new() };
        let (end, index, strict) = (self.text_of(*end), self.text_of(*index), *op == BinaryOp::Less);
        let first = match end.parse::<i64>() {
            Ok(end) => (end + i64::from(strict)).to_string(),
            Err(_) if end.contains(' ') => format!("({end})"),
            Err(_) => end,
        };
        let (less, more) = match (strict, first.parse::<i64>()) {
            (true, Err(_)) => (" - 1", " + 1"),
            _ => ("", ""),
        };
        let front = front.replace("i <", &format!("{index} <")).replace("t <", &format!("{index} <"));
        format!("`{front}n - {first}{less}{behind}`, which reads `x[{index} + {first}{more}]`")
    }

    /// Adds the ranges of a chain of indices, of which the last ends at an operand, and of those in front of it.
    pub(super) fn add_ranges(&mut self, bare: Vec<Name>, mut chain: Vec<Link>, end: Operand, done: &mut Vec<Bound>) {
        let Some(Link { index, lower, inclusive }) = chain.pop() else { return };
        let extent = self.range(end, inclusive);
        self.share_range(bare, extent, done);
        let mut next = index.clone();
        done.push(Bound { index, extent, lower });
        while let Some(Link { index, lower, inclusive }) = chain.pop() {
            let end = self.node(Expr::Name(next.text), next.span);
            let extent = self.range(end, inclusive);
            next = index.clone();
            done.push(Bound { index, extent, lower });
        }
    }

    /// The body of a binder where its lower end holds, and what leaves the whole as it is elsewhere.
    pub(super) fn restricted(&mut self, guard: ExprId, (kind, made): (BinderKind, Made), body: Operand) -> Operand {
        let other = match (made, kind) {
            (Made::Product, _) => 1.0,
            (_, BinderKind::Max) => f64::NEG_INFINITY,
            (_, BinderKind::Min) => f64::INFINITY,
            (_, BinderKind::Exists) => {
                return self.node(Expr::Binary(BinaryOp::And, guard, body.id), body.span);
            }
            _ => return self.node(Expr::Iverson { guard, body: body.id }, body.span),
        };
        let integer = (other == 1.0).then_some(1);
        let other = self.node(Expr::Number { value: other, integer }, body.span);
        let callee = Name { text: "select".to_owned(), span: body.span };
        self.node(Expr::Call { callee, args: vec![guard, body.id, other.id] }, body.span)
    }

    /// What a `mean` divides its sum by: the sizes of its ranges, or how many places there are, `sum i < n. [a <= i]`.
    pub(super) fn divisors(&mut self, bounds: &[Bound], start: Span) -> Vec<ExprId> {
        let ends_inside = |end: Option<String>| bounds.iter().any(|bound| Some(&bound.index.text) == end.as_ref());
        let is_plain = |bound: &Bound| bound.lower.is_none() && !ends_inside(self.last_of_range(bound.extent));
        if bounds.iter().all(is_plain) {
            let real = || Name { text: "real".to_owned(), span: start };
            let calls = bounds.iter().map(|bound| Expr::Call { callee: real(), args: vec![bound.extent] });
            let calls: Vec<Expr> = calls.collect();
            return calls.into_iter().map(|call| self.node(call, start).id).collect();
        }
        let mut count = self.node(Expr::Number { value: 1.0, integer: Some(1) }, start).id;
        for Bound { index, extent, lower } in bounds.iter().rev() {
            if let Some(guard) = lower {
                let guard = self.copied(*guard, (*guard, *guard));
                count = self.node(Expr::Iverson { guard, body: count }, start).id;
            }
            let extent = self.copied(*extent, (*extent, *extent));
            count =
                self.node(Expr::Binder { kind: BinderKind::Sum, index: index.clone(), extent, body: count }, start).id;
        }
        vec![count]
    }
}

//! `fold t < T, s = e0. e` and `scan` alike: an index and its range, perhaps `down`, the state and its first value, the body. And `iterate`,
//! `fixpoint` and `unfold`:
//!
//! ```text
//! iterate s = e0 while c, at most n. e   ==  fold t < n, s = e0. if c then e else s
//! fixpoint s = e0 while c, at most n. e  ==  fixpoint s = (iterate s = e0 while c, at most n. e), at most n. e
//! unfold s = e0 while c, at most n. e    ==  unfold (s, k) = (e0, 0), at most n. if c then (e, k + 1) else (s, k)
//! let k, p = e in f                      ==  let (k, p) = e in f                 where e is an `unfold`
//! ```
//!
//! `prod` is a loop as well, and `mean` a sum.
//!
//! What is wrong with the head is reported once, and the whole stands as an [`Expr::Error`]: without index or
//! state each use of them in the body would be a further problem.

use std::collections::{BTreeMap, BTreeSet};

use super::frame::{Frame, Head, Next, Pattern};
use super::{Operand, Parser, starts_operand};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::foreign;
use crate::lexer::Token;
use crate::surface::ast::{BinaryOp, Expr, ExprId, LoopKind, Name};
use crate::ty::MOST_STEPS;

const AT_MOST: &str =
    "`fixpoint s = e0 while c, at most n. e` says how many steps it makes at most, and so does its derivative";
const LENGTH: &str = "`unfold s = e0 while c, at most n. e` says how many steps it makes at most: its path has a place for each of their states";

/// What to write where a loop has several indices.
pub(super) fn one_index(word: &str) -> String {
    format!("a `{word}` goes over one index: nest them, as in `{word} t < n, s = e0. fold u < m, r = s. e`")
}

/// What to write where a loop has several states.
fn one_state(word: &str) -> String {
    format!("a `{word}` has one state: of several make a pair, as in `{word} t < n, (s, r) = (a, b). e`")
}

impl Parser<'_> {
    /// Reads from the word to the range.
    pub(super) fn scan(&mut self, kind: LoopKind) -> Option<Operand> {
        let start = self.advance().span;
        let text = self.text.get(self.current.span.range()).unwrap_or("");
        if !text.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            let word = kind.word();
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
        self.loop_index(kind, start);
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
    pub(super) fn scan_state(&mut self, mut head: Head, steps: ExprId, lower: Option<ExprId>) -> Next {
        if self.is_index() {
            let word = head.kind.word();
            let message = format!("expected the state, as in `s = e0`, found another index, {}", self.found());
            let help = one_index(word);
            self.report_head(&mut head, Diagnostic::new("unexpected-token", self.current.span, message).help(help));
            let (index, inclusive) = self.binder_index();
            self.open(Frame::ScanRange { head: Head { index, ..head }, inclusive, lower: None });
            return Next::Expect;
        }
        let before = self.diagnostics.len();
        let state = self.pattern(0, "the state, as in `s = e0`", true).unwrap_or_else(|| Pattern::Name(self.no_name()));
        if self.token() == Token::Comma && self.diagnostics.len() == before {
            return self.several_states(head, steps, state);
        }
        self.expect(Token::Equal, "and the state at the beginning");
        head.sound &= self.diagnostics.len() == before;
        if !head.sound && self.eat(Token::Dot).is_some() {
            let init = self.error_leaf().id;
            self.scan_body(head, steps, state, init);
            return Next::Expect;
        }
        self.open(Frame::ScanInit { head, steps, lower, state });
        Next::Expect
    }

    /// The head of a loop is complete. Steps below the lower end of its range leave the state as it is.
    pub(super) fn ranged_body(
        &mut self,
        head: Head,
        (steps, lower): (ExprId, Option<ExprId>),
        state: Pattern,
        init: ExprId,
    ) {
        let hidden = lower.and_then(|lower| self.name_hidden(lower, &state));
        if let Some(name) = hidden {
            let span = lower.and_then(|lower| self.ast.spans.get(lower)).copied().unwrap_or_default();
            let message = format!("the lower end of the range has the name of the state, `{name}`");
            self.push_diagnostic(Diagnostic::new("duplicate-name", span, message).help("give the state another name"));
        }
        let state = self.scan_body(head, steps, state, init);
        if let Some(cond) = lower {
            self.open(Frame::IterateBody { cond, state, count: None });
        }
    }

    /// A name of a state that stands in the lower end of a range.
    fn name_hidden(&self, lower: ExprId, state: &Pattern) -> Option<String> {
        let mut names = Vec::new();
        let mut patterns = vec![state];
        while let Some(pattern) = patterns.pop() {
            match pattern {
                Pattern::Name(name) | Pattern::Typed(name, _) => names.push(name.text.as_str()),
                Pattern::Pair(_, a, b) => patterns.extend([&**a, &**b]),
            }
        }
        let mut stack = vec![lower];
        while let Some(e) = stack.pop() {
            match self.ast.exprs.get(e)? {
                Expr::Name(name) if names.contains(&name.as_str()) => return Some(name.clone()),
                expr => expr.for_each_operand(|e| stack.push(e)),
            }
        }
        None
    }

    /// The state at the beginning is complete: the body comes next. Gives the name of the whole state.
    pub(super) fn scan_body(&mut self, head: Head, steps: ExprId, state: Pattern, init: ExprId) -> Name {
        let (span, pattern) = match state {
            Pattern::Name(state) => {
                self.open(Frame::ScanBody { head, steps, state: state.clone(), init });
                return state;
            }
            Pattern::Typed(ref name, _) => (name.span, state),
            Pattern::Pair(span, ..) => (span, state),
        };
        let init = self.with_types(&pattern, init);
        let text = pattern.whole();
        let whole = Name { text: text.clone(), span };
        self.open_typed_body(head, steps, whole.clone(), init, &pattern);
        let start = self.current.span;
        self.open_parts(pattern, &text, start);
        whole
    }

    /// Reads from `iterate`, `fixpoint` or `unfold` to the `=` behind the state.
    pub(super) fn iterate(&mut self, kind: LoopKind) -> Option<Operand> {
        let start = self.advance().span;
        let before = self.diagnostics.len();
        let what = match kind {
            LoopKind::Fixpoint => "the state, as in `fixpoint s = e0 while c, at most n. e`",
            LoopKind::Unfold => "the state, as in `unfold s = e0 while c, at most n. e`",
            _ => "the state, as in `iterate s = e0 while c. e`",
        };
        let state = self.pattern(0, what, true).unwrap_or_else(|| Pattern::Name(self.no_name()));
        self.expect(Token::Equal, "and the state at the beginning");
        let sound = self.diagnostics.len() == before;
        // Nobody can write this name.
        let index = Name { text: format!("steps of {}", state.whole()), span: start };
        let head = Head { kind, down: false, tested: false, sound, index, start };
        if !sound && self.skip_to_body() {
            let nothing = self.error_leaf().id;
            self.iterate_body(head, nothing, state, nothing, None);
            return None;
        }
        self.open(Frame::IterateInit { head, state });
        None
    }

    /// The word `while` stands behind the state at the beginning.
    pub(super) fn iterate_while(&mut self, operand: Operand) -> Next {
        self.advance();
        match self.frames.pop() {
            Some(Frame::IterateInit { mut head, state }) => {
                head.tested = true;
                self.open(Frame::IterateWhile { head, state, init: operand.id });
                Next::Expect
            }
            _ => Next::Operand(operand),
        }
    }

    /// Behind the state there is no condition: the body is read all the same.
    pub(super) fn without_condition(&mut self, operand: Operand) -> Next {
        let Some(Frame::IterateInit { mut head, state }) = self.frames.pop() else { return Next::Operand(operand) };
        let (expected, help) = match head.kind {
            LoopKind::Fixpoint => ("an operator, `while` and a condition, or `, at most` and a size", AT_MOST),
            LoopKind::Unfold => (
                "an operator, or `while` and a condition",
                "`unfold s = e0 while c, at most n. e` goes on as long as `c` holds; all states of `n` steps are `scan t < n, s = e0. e`",
            ),
            _ => (
                "an operator, or `while` and a condition",
                "`iterate s = e0 while c. e` goes on as long as `c` holds; with a number of steps it is `fold t < n, s = e0. e`",
            ),
        };
        let message = format!("expected {expected}, found {}", self.found());
        self.report_head(&mut head, Diagnostic::new("unexpected-token", self.current.span, message).help(help));
        self.advance();
        let nothing = self.error_leaf().id;
        self.iterate_body(head, nothing, state, operand.id, None);
        Next::Expect
    }

    /// The condition is complete, or there is none; behind a comma stands how many steps there are at most.
    pub(super) fn iterate_most(
        &mut self,
        mut head: Head,
        state: Pattern,
        init: ExprId,
        cond: Option<ExprId>,
        behind: Token,
    ) {
        if behind == Token::Comma {
            for word in ["at", "most"] {
                if self.at_word(word) {
                    self.advance();
                    continue;
                }
                let message = format!("expected `at most` and a size behind the condition, found {}", self.found());
                let help = format!(
                    "`{} s = e0 while c, at most n. e` makes `n` steps at most; conditions are joined by `and`",
                    head.kind.word()
                );
                self.report_head(&mut head, Diagnostic::new("unexpected-token", self.current.span, message).help(help));
                if self.skip_to_body() {
                    let nothing = self.error_leaf().id;
                    return self.iterate_body(head, nothing, state, init, cond);
                }
                break;
            }
            return self.open(Frame::IterateMost { head, state, init, cond });
        }
        let help = match head.kind {
            LoopKind::Fixpoint => Some(AT_MOST),
            LoopKind::Unfold => Some(LENGTH),
            _ => None,
        };
        if let Some(help) = help {
            let message = "expected `, at most` and a size behind the condition, found `.`";
            self.report_head(&mut head, Diagnostic::new("unexpected-token", self.last_end, message).help(help));
        }
        let most = Expr::Number { value: MOST_STEPS as f64, integer: Some(MOST_STEPS) };
        let most = self.node(most, head.start).id;
        self.iterate_body(head, most, state, init, cond);
    }

    /// Skips what is left of a head that is wrong, and the point behind it.
    fn skip_to_body(&mut self) -> bool {
        self.skip(|token| matches!(token, Token::Dot | Token::In | Token::RightParen | Token::RightBracket));
        self.eat(Token::Dot).is_some()
    }

    /// The head is complete: the next state comes next.
    pub(super) fn iterate_body(
        &mut self,
        head: Head,
        most: ExprId,
        state: Pattern,
        init: ExprId,
        cond: Option<ExprId>,
    ) {
        let (state, init, count) = match head.kind {
            LoopKind::Unfold => self.counted(state, init, head.start),
            _ => (state, init, None),
        };
        let state = self.scan_body(head, most, state, init);
        if let Some(cond) = cond {
            self.open(Frame::IterateBody { cond, state, count });
        }
    }

    /// The state of an `unfold` with the number of steps made, `(s, k) = (e0, 0)`, and the name of the number, which nobody can write.
    fn counted(&mut self, state: Pattern, init: ExprId, start: Span) -> (Pattern, ExprId, Option<Name>) {
        let span = self.ast.spans.get(init).copied().unwrap_or_default();
        let zero = self.node(Expr::Number { value: 0.0, integer: Some(0) }, start).id;
        let init = self.node(Expr::Pair(init, zero), span).id;
        let count = Name { text: "count ..".to_owned(), span: start };
        let state = Pattern::Pair(start, Box::new(state), Box::new(Pattern::Name(count.clone())));
        (state, init, Some(count))
    }

    /// `if c then e else s`, behind the next state `e`, and `if c then (e, k + 1) else s` where steps are counted.
    pub(super) fn iterate_step(&mut self, cond: ExprId, state: Name, count: Option<Name>, next: Operand) -> Operand {
        let mut step = next;
        if let Some(count) = count {
            let made = self.node(Expr::Name(count.text), count.span);
            let one = self.node(Expr::Number { value: 1.0, integer: Some(1) }, count.span);
            let made = self.node(Expr::Binary(BinaryOp::Add, made.id, one.id), count.span);
            step = self.node(Expr::Pair(next.id, made.id), next.span);
        }
        let before = self.node(Expr::Name(state.text), state.span);
        let callee = Name { text: "select".to_owned(), span: state.span };
        self.node(Expr::Call { callee, args: vec![cond, step.id, before.id] }, next.span)
    }

    /// `k, path` in front of `= unfold ..`: the first of them was read.
    pub(super) fn steps_and_path(&mut self, steps: Pattern) -> Pattern {
        let before = self.diagnostics.len();
        let comma = self.advance().span;
        let what = "the name of the path, as in `let k, path = unfold s = e0 while c, at most n. e`";
        let path = self.pattern(0, what, true).unwrap_or_else(|| Pattern::Name(self.no_name()));
        let mut lexer = self.lexer.clone();
        let is_unfold = self.token() == Token::Equal && lexer.next(&mut Vec::new()).token == Token::Unfold;
        if !is_unfold && self.diagnostics.len() == before {
            let message = "expected an `unfold` behind two names of a `let`, found another value";
            let help = "a pair is taken apart by `let (a, b) = e`, and two variables are `let a = e, b = f`";
            self.report(Diagnostic::new("unexpected-token", comma, message).help(help));
        }
        Pattern::Pair(comma, Box::new(steps), Box::new(path))
    }

    /// `fixpoint s = e0 while c, at most n. e`, whose body was read as that of an `iterate`: `if c then e else s`, with the parts of a pattern around.
    pub(super) fn fixpoint(&mut self, head: Head, steps: ExprId, state: Name, init: ExprId, body: Operand) -> Operand {
        let span = head.start.to(body.span);
        let mut choice = body.id;
        while let Some(Expr::Let { body, .. } | Expr::Typed { value: body, .. }) = self.ast.exprs.get(choice) {
            choice = *body;
        }
        let step = match self.ast.exprs.get(choice) {
            Some(Expr::Call { args, .. }) => args.get(1).copied().unwrap_or(choice),
            _ => choice,
        };
        let once_more = self.copied(body.id, (choice, step));
        let most = self.copied(steps, (steps, steps));
        let Head { down, index, .. } = head;
        let near = Expr::Scan {
            kind: LoopKind::Iterate,
            down,
            index: index.clone(),
            steps,
            state: state.clone(),
            init,
            body: body.id,
        };
        let ty = match self.ast.exprs.get(init) {
            Some(Expr::Typed { ty, .. }) => Some(ty.clone()),
            _ => None,
        };
        let near = self.node(near, span).id;
        let init = match ty {
            Some(ty) => self.node(Expr::Typed { value: near, ty, trusted: true }, span).id,
            None => near,
        };
        let kind = LoopKind::Fixpoint;
        self.node(Expr::Scan { kind, down, index, steps: most, state, init, body: once_more }, span)
    }

    /// A copy of an expression, with a copy of another one in the place of one inside. Expressions with several users are bound by `let`, out of
    /// the scope of a state.
    pub(super) fn copied(&mut self, root: ExprId, (out, stands_in): (ExprId, ExprId)) -> ExprId {
        let instead = |e: ExprId| if e == out { stands_in } else { e };
        let mut found = BTreeSet::new();
        let mut stack = vec![instead(root)];
        while let Some(e) = stack.pop() {
            if found.insert(e) {
                self.ast.exprs[e].for_each_operand(|operand| stack.push(instead(operand)));
            }
        }
        // Operands come before their users.
        let mut copies: BTreeMap<ExprId, ExprId> = BTreeMap::new();
        for e in found {
            let of = |operand: ExprId| copies.get(&instead(operand)).copied().unwrap_or(operand);
            let copy = self.ast.exprs[e].map_operands(of);
            let span = self.ast.spans[e];
            copies.insert(e, self.node(copy, span).id);
        }
        copies.get(&instead(root)).copied().unwrap_or(root)
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
        let Some(Frame::ScanRange { mut head, inclusive, lower }) = self.frames.pop() else { return None };
        let word = head.kind.word();
        let message = format!("expected an operator, or `,` and the state, found {}", self.found());
        let help = format!("`{word} t < n, s = e0. e` begins with `e0`, and goes on from `s` to `e`");
        self.report_head(&mut head, Diagnostic::new("unexpected-token", self.current.span, message).help(help));
        let steps = self.range(operand, inclusive);
        if self.eat(Token::Dot).is_none() {
            return Some(self.scan_state(head, steps, lower));
        }
        let init = self.error_leaf().id;
        self.scan_body(head, steps, Pattern::Name(self.no_name()), init);
        Some(Next::Expect)
    }

    /// `, r = e1` stands behind the first state.
    fn another_state(&mut self, operand: Operand) -> Next {
        let Some(Frame::ScanInit { mut head, steps, lower, .. }) = self.frames.pop() else {
            return Next::Operand(operand);
        };
        let message = "expected an operator, or `.` and the body, found `,`";
        let help = one_state(head.kind.word());
        self.report_head(&mut head, Diagnostic::new("unexpected-token", self.current.span, message).help(help));
        self.advance();
        if self.token() == Token::Name {
            return self.scan_state(head, steps, lower);
        }
        // `(s, r) = a, b`
        self.skip_to_body();
        let init = self.error_leaf().id;
        self.scan_body(head, steps, Pattern::Name(self.no_name()), init);
        Next::Expect
    }

    /// `, r = ..` stands behind the first name of a state: what is left of the head is passed over, and the body is read.
    fn several_states(&mut self, mut head: Head, steps: ExprId, state: Pattern) -> Next {
        let message = format!("expected `=` and the state at the beginning, found {}", self.found());
        let help = one_state(head.kind.word());
        self.report_head(&mut head, Diagnostic::new("unexpected-token", self.current.span, message).help(help));
        self.skip_to_body();
        let init = self.error_leaf().id;
        self.scan_body(head, steps, state, init);
        Next::Expect
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

    /// `prod i < n. e` is `fold i < n, p = 1. p * e`, with a name for `p` that nobody can write.
    pub(super) fn product(&mut self, factor: Operand, index: Name, extent: ExprId, start: Span) -> Operand {
        let state = Name { text: format!("product over {}", index.text), span: start };
        let one = self.node(Expr::Number { value: 1.0, integer: Some(1) }, start).id;
        let before = self.node(Expr::Name(state.text.clone()), start);
        let body = self.node(Expr::Binary(BinaryOp::Mul, before.id, factor.id), factor.span).id;
        let scan = Expr::Scan { kind: LoopKind::Fold, down: false, index, steps: extent, state, init: one, body };
        self.node(scan, start.to(factor.span))
    }

    /// `mean i < n, j < m. e` is `(sum i < n, j < m. e) / real(n) / real(m)`.
    pub(super) fn mean(&mut self, sum: Operand, divisors: Vec<ExprId>) -> Operand {
        divisors.into_iter().fold(sum, |mean, n| self.node(Expr::Binary(BinaryOp::Div, mean.id, n), sum.span))
    }
}

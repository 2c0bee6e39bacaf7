//! The ends of groups: what a bracket, a comma or a word such as `in` makes of the frame that it ends.
//!
//! A group ends only by its token, an operator by whatever binds less tightly, which is done in [`expression`](super::expression).

use super::frame::{Bound, Frame, Next};
use super::{Operand, Parser};
use crate::base::Span;
use crate::lexer::Token;
use crate::surface::ast::Expr;

impl Parser<'_> {
    /// The token at `end` ends the group on top, or one item of it.
    pub(super) fn end_group(&mut self, token: Token, end: Span, operand: Operand) -> Next {
        if let Some(next) = self.part(token, end, operand) {
            return next;
        }
        if let Some(Frame::Extent { chain, done, .. }) = self.frames.last()
            && token == Token::Comma
            && self.is_condition_on(chain, done)
        {
            return self.condition_among_ranges(operand);
        }
        match self.frames.last_mut() {
            Some(Frame::Vector { .. }) if token == Token::Comma && self.current.token == Token::RightBracket => {
                let end = self.advance().span;
                self.end_group(Token::RightBracket, end, operand)
            }
            Some(Frame::Paren { items, .. } | Frame::Vector { items, .. }) if token == Token::Comma => {
                items.push(operand);
                Next::Expect
            }
            Some(
                Frame::Access { indices: items, .. }
                | Frame::Call { args: items, .. }
                | Frame::Apply { args: items, .. },
            ) if token == Token::Comma => {
                items.push(operand.id);
                Next::Expect
            }
            _ => match self.frames.pop() {
                Some(Frame::LetValue { pattern, function, start, .. }) => {
                    self.let_body(pattern, function, operand, start);
                    Next::Expect
                }
                Some(Frame::IfCondition { start }) => {
                    self.open(Frame::IfThen { cond: operand.id, start });
                    Next::Expect
                }
                Some(Frame::IfThen { cond, start }) => {
                    // `else: b`
                    self.eat(Token::Colon);
                    self.open(Frame::IfElse { cond, then: operand.id, start });
                    Next::Expect
                }
                Some(Frame::Extent { kind, made, open, bare, chain, mut done, start }) => {
                    self.add_ranges(bare, chain, operand, &mut done);
                    if token == Token::Comma {
                        self.indices(kind, made, open, done, start);
                    } else {
                        if open.is_some() {
                            self.eat(Token::Dot);
                        }
                        self.open_bodies(kind, made, done, start);
                    }
                    Next::Expect
                }
                Some(Frame::ScanRange { head, inclusive, lower }) => {
                    let steps = self.range(operand, inclusive);
                    self.scan_state(head, steps, lower)
                }
                Some(Frame::ScanInit { head, steps, lower, state }) => {
                    self.ranged_body(head, (steps, lower), state, operand.id);
                    Next::Expect
                }
                Some(Frame::IterateInit { head, state }) => {
                    self.iterate_most(head, state, operand.id, None, token);
                    Next::Expect
                }
                Some(Frame::IterateWhile { head, state, init }) => {
                    self.iterate_most(head, state, init, Some(operand.id), token);
                    Next::Expect
                }
                Some(Frame::IterateMost { head, state, init, cond }) => {
                    self.iterate_body(head, operand.id, state, init, cond);
                    Next::Expect
                }
                Some(Frame::Guard { open }) if token == Token::Comma => self.behind_comma(open, operand, end),
                Some(Frame::Guard { open }) => self.guard(operand.id, open),
                Some(frame) => Next::Operand(self.finish_group(frame, operand, end)),
                None => Next::Operand(operand),
            },
        }
    }

    /// Builds a group that is closed, or closed by force, at `end`.
    pub(super) fn finish_group(&mut self, frame: Frame, operand: Operand, end: Span) -> Operand {
        match frame {
            Frame::Paren { open, mut items } => {
                let span = open.to(end);
                items.push(operand);
                let last = items.len() - 1;
                let mut pair = operand;
                for (k, first) in items.into_iter().enumerate().take(last).rev() {
                    let inner = if k == 0 { span } else { first.span.to(pair.span) };
                    pair = self.node(Expr::Pair(first.id, pair.id), inner);
                }
                Operand { id: pair.id, span }
            }
            Frame::Vector { open, mut items } => {
                items.push(operand);
                self.vector(items, open, end)
            }
            Frame::Access { array, mut indices, .. } => {
                indices.push(operand.id);
                self.access(array, indices, end)
            }
            Frame::Call { callee, open, mut args, .. } => {
                args.push(operand.id);
                if self.has_range_as_argument(&callee, &args) {
                    return self.error_leaf();
                }
                self.warn_of_power(&callee, open, &args, end);
                let span = callee.span.to(end);
                self.node(Expr::Call { callee, args }, span)
            }
            Frame::Apply { function, mut args, .. } => {
                args.push(operand.id);
                let span = function.span.to(end);
                self.node(Expr::Apply { function: function.id, args }, span)
            }
            Frame::Part { start, from, to, at_step } => self.finish_part(start, from, to, at_step, operand),
            Frame::LetValue { pattern, function, start, .. } => {
                let base = self.frames.len();
                let body = self.error_leaf();
                self.let_body(pattern, function, operand, start);
                self.finish_operators(0, body, base)
            }
            Frame::CaseValue { .. } => {
                self.lexer.bars = self.lexer.bars.saturating_sub(1);
                self.error_leaf()
            }
            Frame::IfCondition { .. } | Frame::IfThen { .. } => self.error_leaf(),
            Frame::Extent { kind, bare, chain, mut done, start, .. } => {
                self.add_ranges(bare, chain, operand, &mut done);
                let mut body = self.error_leaf();
                for Bound { index, extent, .. } in done.into_iter().rev() {
                    body = self.finish_operator(Frame::Body { kind, index, extent, start, summed: Vec::new() }, body);
                }
                body
            }
            Frame::ScanRange { .. } | Frame::ScanInit { .. } | Frame::Guard { .. } => self.error_leaf(),
            Frame::Lower { .. } => self.error_leaf(),
            Frame::IterateInit { .. } | Frame::IterateWhile { .. } | Frame::IterateMost { .. } => self.error_leaf(),
            frame => self.finish_operator(frame, operand),
        }
    }
}

//! Parts of axes, which stand among the indices of an access.
//!
//! ```text
//! x[a:b], x[a:], x[:b], x[a:b:k], x[::k]        each of a, b and k may be missing; x[:] is a whole axis
//! ```
//!
//! A `:` behind an index, or in the place of one, opens a frame over that of the access. The `,` or `]` that ends the index ends both.

use super::frame::{Frame, Next};
use super::{Operand, Parser};
use crate::base::Span;
use crate::lexer::Token;
use crate::surface::ast::{Expr, ExprId};

impl Parser<'_> {
    /// Reads on behind the first `:`, which was passed over. Nothing where an operand comes next.
    pub(super) fn behind_colon(&mut self, start: Span, from: Option<ExprId>) -> Option<Operand> {
        match self.token() {
            Token::Comma | Token::RightBracket => {
                let span = start.to(self.last_end);
                let whole = Expr::Part { from, to: None, step: None };
                Some(self.node(if from.is_some() { whole } else { Expr::All }, span))
            }
            _ => {
                self.open(Frame::Part { start, from, to: None, at_step: false });
                None
            }
        }
    }

    /// Reads on behind the second `:`, which was passed over; the frame of the part is on top.
    pub(super) fn second_colon(&mut self, end: Option<ExprId>) -> Option<Operand> {
        let Some(Frame::Part { start, from, to, at_step }) = self.frames.last_mut() else { return None };
        *to = end;
        *at_step = true;
        let (start, from) = (*start, *from);
        if !matches!(self.token(), Token::Comma | Token::RightBracket) {
            return None;
        }
        self.frames.pop();
        let span = start.to(self.last_end);
        let no_ends = from.is_none() && end.is_none();
        Some(self.node(if no_ends { Expr::All } else { Expr::Part { from, to: end, step: None } }, span))
    }

    /// Goes on with a part of an axis at a token that ends an operand of it; nothing where it belongs to no part.
    pub(super) fn part(&mut self, token: Token, end: Span, operand: Operand) -> Option<Next> {
        match (self.frames.last(), token) {
            (Some(Frame::Access { .. }), Token::Colon) => {
                Some(match self.behind_colon(operand.span, Some(operand.id)) {
                    Some(part) => Next::Operand(part),
                    None => Next::Expect,
                })
            }
            (Some(Frame::Part { .. }), Token::Colon) => Some(match self.second_colon(Some(operand.id)) {
                Some(part) => Next::Operand(part),
                None => Next::Expect,
            }),
            (Some(Frame::Part { .. }), _) => {
                let frame = self.frames.pop()?;
                let part = self.finish_group(frame, operand, end);
                Some(self.end_group(token, end, part))
            }
            _ => None,
        }
    }

    pub(super) fn finish_part(
        &mut self,
        start: Span,
        from: Option<ExprId>,
        to: Option<ExprId>,
        at_step: bool,
        last: Operand,
    ) -> Operand {
        let (to, step) = if at_step { (to, Some(last.id)) } else { (Some(last.id), None) };
        self.node(Expr::Part { from, to, step }, start.to(last.span))
    }
}

//! What is right and easily misread: warnings.
//!
//! `sum j < d. X[i, j] * w[j] + b` adds `b` to each of its terms. Who meant `(sum j < d. X[i, j] * w[j]) + b` gets a warning with both
//! readings, unless the body of the `sum` stands in parentheses. So does who adds `h[i]` in `sum (i < n, j < n) W[i, j] + h[i]` for each `j`.
//!
//! A last factor of a `prod` is one of each factor, `prod i < n. x[i] * s`, and gets the same warning.
//!
//! Of a `mean` both readings have one value. Only terms at the end of a body are looked at: `sum j < d. b + x[j]` has one reading, since `x[j]` means nothing outside.
//!
//! `sum (x - y)^2` is the square of the sum, as `sum(x - y)^2` is. With a space it looks like `sum((x - y)^2)`, and gets a warning.
//!
//! `max i < n. [p] * x[i]` is over zeros as well, where `p` does not hold, and gets a warning unless the body stands in parentheses.
//!
//! `x = 2` as a whole program compares; who meant an assignment gets a warning.

use super::frame::{Made, Range};
use super::{Operand, Parser};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::lexer::Token;
use crate::surface::ast::{BinaryOp, BinderKind, Expr, ExprId, Name};

/// The longest body that is shown in a warning, in bytes.
const MAX_SHOWN: usize = 60;
/// How many nodes of one term are looked at.
const MAX_TERM: usize = 256;
/// How many indices of one `sum` are told apart.
const MAX_INDICES: usize = 64;

/// The last terms of a body that do not depend on an index.
struct Parts {
    span: Span,
    /// Where the term in front of them ends.
    end: u32,
    /// The indices that they mention, those that are missing, and the others, as bits.
    shared: u64,
    missing: u64,
    kept: u64,
}

impl Parser<'_> {
    /// The body of a `sum`, or of a `prod`, over some indices is complete.
    pub(super) fn warn_of_body(&mut self, indices: &[Range], made: Made, body: Operand) {
        // In parentheses it is read as it is meant.
        if indices.is_empty() || indices.len() > MAX_INDICES || self.ast.spans[body.id] != body.span {
            return;
        }
        let is_sum = |e: &Expr| matches!(e, Expr::Binary(BinaryOp::Add | BinaryOp::Sub, ..));
        let is_product = |e: &Expr| matches!(e, Expr::Binary(BinaryOp::Mul | BinaryOp::Div, ..));
        let expr = &self.ast.exprs[body.id];
        let parts = match made {
            _ if is_sum(expr) => self.parts(body.id, is_sum),
            Made::Product if is_product(expr) => self.parts(body.id, is_product),
            _ => return,
        };
        if let Some(found) = parts.and_then(|parts| self.without_index(&parts, indices)) {
            self.warn_of_parts(&found, indices, made, body);
        }
    }

    /// The operands of a chain of operators from the last to the first; nothing where there are too many.
    fn parts(&self, e: ExprId, is_chain: impl Fn(&Expr) -> bool) -> Option<Vec<ExprId>> {
        let (mut parts, mut rest) = (Vec::new(), e);
        while let Expr::Binary(_, left, right) = &self.ast.exprs[rest]
            && is_chain(&self.ast.exprs[rest])
        {
            parts.push(*right);
            rest = *left;
            if parts.len() > MAX_TERM {
                return None;
            }
        }
        parts.push(rest);
        Some(parts)
    }

    /// The terms at the end that have fewer indices than one in front of them, which has all of theirs.
    fn without_index(&mut self, terms: &[ExprId], indices: &[Range]) -> Option<Parts> {
        // The indices of each as bits.
        let mentioned = terms.iter().map(|term| self.mentions(*term, indices)).collect::<Option<Vec<u64>>>()?;
        let last = mentioned[0];
        let before = mentioned.iter().position(|indices| indices & !last != 0)?;
        let shared = mentioned[..before].iter().fold(0, |all, indices| all | indices);
        if shared & !mentioned[before] != 0 {
            return None;
        }
        let every = u64::MAX >> (MAX_INDICES - indices.len());
        // What mentions none is added for each value of all of them.
        let missing = if shared == 0 { every } else { mentioned[before] & !shared };
        let span = self.ast.spans[terms[before - 1]].to(self.ast.spans[terms[0]]);
        Some(Parts { span, end: self.ast.spans[terms[before]].end, shared, missing, kept: every & !missing })
    }

    /// Says both readings of a body whose last parts do not depend on an index.
    fn warn_of_parts(&mut self, parts: &Parts, indices: &[Range], made: Made, body: Operand) {
        let Parts { span, end, shared, missing, kept } = *parts;
        let (word, stands, each) = match made {
            Made::Product => ("prod", "is in the factor of each of its values", "is in each factor"),
            _ => ("sum", "is added for each of its values", "is to be added each time"),
        };
        let text = |from: u32, to: u32| match self.text.get(from as usize..to as usize).unwrap_or("").trim() {
            text if text.len() > MAX_SHOWN || text.contains('\n') => "..",
            text => text,
        };
        let those =
            |bits: u64| indices.iter().enumerate().filter(move |(k, _)| bits >> k & 1 == 1).map(|(_, range)| range);
        let names = |bits: u64| those(bits).map(|range| range.index.as_str()).collect::<Vec<_>>().join(", ");
        let ranges =
            |bits: u64| those(bits).map(|range| text(range.span.start, range.span.end)).collect::<Vec<_>>().join(", ");
        let message = format!("`{}` does not depend on `{}`, and {stands}", text(span.start, span.end), names(missing));
        let begin = indices.first().map_or(body.span.start, |range| range.word.start);
        let (head, whole) = (text(begin, body.span.start), text(body.span.start, body.span.end));
        let (front, behind) = (text(body.span.start, end), text(end, body.span.end));
        let once = match shared {
            0 => format!("`({head} {front}) {behind}` if once"),
            _ => format!(
                "`{word} {}. ({word} {}. {front}) {behind}` if once for each `{}`",
                ranges(kept),
                ranges(missing),
                names(kept)
            ),
        };
        let help = format!("write `{head} ({whole})` if it {each}, {once}");
        let code = if made == Made::Product { "factor-without-index" } else { "summand-without-index" };
        self.ast.warnings.push(Diagnostic::new(code, span, message).help(help));
    }

    /// The body of an extremum is complete: where it is a bracket and more than a truth value, zeros take part.
    pub(super) fn warn_of_zero(&mut self, kind: BinderKind, body: Operand) {
        let other = match kind {
            BinderKind::Max | BinderKind::ArgMax => "-inf",
            BinderKind::Min | BinderKind::ArgMin => "inf",
            _ => return,
        };
        let Expr::Iverson { guard, body: value } = self.ast.exprs[body.id] else { return };
        let is_number = matches!(self.ast.exprs[value], Expr::Number { .. });
        // In parentheses it is read as it is meant.
        if is_number || self.ast.spans[body.id] != body.span {
            return;
        }
        let text = |e: ExprId| match self.text.get(self.ast.spans[e].range()) {
            Some(text) if text.len() <= MAX_SHOWN && !text.contains('\n') => text,
            _ => "..",
        };
        let (guard, value) = (text(guard), text(value));
        let message = format!("the `{}` is over zeros, too, where `{guard}` does not hold", kind.word());
        let help = format!(
            "write `if {guard} then {value} else {other}` to leave these out, and parentheses around the body if they count"
        );
        self.ast.warnings.push(Diagnostic::new("zero-in-extremum", body.span, message).help(help));
    }

    /// A call of a function is complete.
    pub(super) fn warn_of_power(&mut self, callee: &Name, open: Span, args: &[ExprId], end: Span) {
        let is_total = matches!(callee.text.as_str(), "sum" | "mean") && args.len() == 1;
        let is_power = matches!(self.token(), Token::Caret | Token::Raised(_));
        if !is_total || !is_power || open.start == callee.span.end {
            return;
        }
        let name = &callee.text;
        let body = match self.text.get(open.start as usize..end.end as usize) {
            Some(body) if body.len() <= MAX_SHOWN && !body.contains('\n') => body,
            _ => "(..)",
        };
        let behind = self.text.get(end.end as usize..).unwrap_or("").trim_start();
        let power = match behind.strip_prefix('^') {
            Some(exponent) => match exponent.trim_start().find(|c: char| !c.is_alphanumeric()) {
                Some(0) => "^..".to_owned(),
                at => format!("^{}", &exponent.trim_start()[..at.unwrap_or(exponent.trim_start().len())]),
            },
            None => behind.chars().next().map(String::from).unwrap_or_default(),
        };
        let message = format!("`{name} {body}{power}` is a power of the {name}, not the {name} of powers");
        let help = format!("write `{name}({body}{power})` for that of powers, `{name}{body}{power}` for a power of it");
        let span = callee.span.to(end);
        self.ast.warnings.push(Diagnostic::new("power-of-sum", span, message).help(help));
    }

    /// Which of some indices an expression mentions, as bits; nothing for one that is too long to tell.
    fn mentions(&mut self, e: ExprId, indices: &[Range]) -> Option<u64> {
        // With the indices that still have their meaning there, as others of the same names may be bound inside.
        let mut stack = vec![(e, u64::MAX)];
        let (mut seen, mut found) = (0, 0);
        while let Some((e, visible)) = stack.pop() {
            seen += 1;
            self.looked_at += 1;
            if seen > MAX_TERM || self.looked_at > super::MAX_LOOKED_AT {
                return None;
            }
            match &self.ast.exprs[e] {
                Expr::Name(name) => {
                    let at = indices.iter().rposition(|range| range.index == *name);
                    found |= at.map_or(0, |at| 1 << at) & visible;
                }
                expr => {
                    let bound = match expr {
                        Expr::Binder { index, .. } => Some(&index.text),
                        Expr::Let { name, .. } => Some(&name.text),
                        _ => None,
                    };
                    let hidden = indices.iter().enumerate().filter(|(_, range)| Some(&range.index) == bound);
                    let visible = hidden.fold(visible, |visible, (at, _)| visible & !(1 << at));
                    expr.for_each_operand(|e| stack.push((e, visible)));
                }
            }
        }
        Some(found)
    }

    /// The whole program is read.
    pub(super) fn warn_of_assignment(&mut self) {
        let mut end = self.ast.body;
        while let Some(Expr::Let { body, .. }) = end.map(|e| &self.ast.exprs[e]) {
            end = Some(*body);
        }
        let Some(end) = end else { return };
        if let Expr::Binary(BinaryOp::Equal, left, _) = &self.ast.exprs[end]
            && let Expr::Name(name) = &self.ast.exprs[*left]
        {
            let message = format!("the value of the program is a comparison of `{name}`, 1 or 0");
            let help = format!(
                "`=` compares: a name is given by `let {name} = ..`, and a comparison that is meant is `[{name} = ..]`"
            );
            let span = self.ast.spans[end];
            self.ast.warnings.push(Diagnostic::new("comparison-as-program", span, message).help(help));
        }
    }
}

//! What is written of square matrices as on paper, and is of elements here: it gets a warning with both readings.
//!
//! ```text
//! A^3 @ x, trace(A^3), (A^3)'     the powers of the elements, where A @ A @ A may be meant
//! A' * B                          the products of the elements, where A' @ B may be meant
//! A^-1 @ x, trace(A^-1)           refused: there is no inverse
//! ```
//!
//! With a point, `A.^3` and `A' .* B`, elements are meant. Matrices that are not square have one reading.

use rustc_hash::FxHashMap;

use super::super::ast::{Ast, BinaryOp, Expr, ExprId, UnaryOp};
use super::names::{Global, Meaning};
use super::{Elaborator, Source};
use crate::error::Diagnostic;
use crate::foreign;
use crate::index::Size;
use crate::term::TermId;

/// The longest product that is shown for a power.
const MAX_FACTORS: i32 = 4;

/// What a power is an operand of, where this is for matrices.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Around {
    Product,
    Trace,
    Transpose,
}

/// The powers that are operands of what is for matrices, signs and transposes between them left out.
pub(super) fn powers(ast: &Ast) -> FxHashMap<ExprId, Around> {
    let mut around = FxHashMap::default();
    // Users come behind operands.
    for (at, expr) in ast.exprs.iter().rev() {
        let here = around.get(&at).copied();
        let of_operands = match expr {
            Expr::Binary(BinaryOp::MatMul, ..) => Around::Product,
            Expr::Call { callee, .. } if callee.text == "trace" => Around::Trace,
            Expr::Unary(UnaryOp::Transpose, _) => here.unwrap_or(Around::Transpose),
            Expr::Unary(UnaryOp::Neg, _) if here.is_some() => here.unwrap_or(Around::Product),
            _ => continue,
        };
        expr.for_each_operand(|operand| {
            if matches!(ast.exprs[operand], Expr::Binary(BinaryOp::Pow, ..) | Expr::Unary(..)) {
                around.insert(operand, of_operands);
            }
        });
    }
    around.retain(|at, _| matches!(ast.exprs[*at], Expr::Binary(BinaryOp::Pow, ..)));
    around
}

impl Elaborator<'_> {
    /// Whether what stands at a place is of elements beyond doubt: a point says so, or it is no text of the program.
    fn is_of_elements(&self, at: ExprId) -> bool {
        let main: &Source<'_> = self.callers.first().map_or(self.frame.source, |frame| frame.source);
        let ast = self.frame.source.ast;
        !std::ptr::eq(self.frame.source, main) || !ast.callers.is_empty() || ast.of_elements.contains(&at)
    }

    /// The extents of a square matrix.
    fn square(&mut self, value: TermId) -> Option<Size> {
        let [n, m] = <[Size; 2]>::try_from(self.real_shape(value)?).ok()?;
        self.same_size(&n, &m).then_some(n)
    }

    /// Whether the power of a matrix with an integer has a meaning where it stands. It gets a warning where it has two readings.
    pub(super) fn allows_power(&mut self, at: ExprId, base: TermId, k: i32) -> bool {
        let Some(around) = self.frame.source.powers.get(&at).copied() else { return true };
        if self.is_of_elements(at) || around == Around::Trace && !self.is_trace_of_library() {
            return true;
        }
        let Some(shape) = self.real_shape(base).filter(|shape| shape.len() == 2) else { return true };
        let Expr::Binary(_, operand, _) = self.expr(at) else { return true };
        let written = self.name_of_matrix(*operand);
        let name = written.clone().unwrap_or_else(|| "A".to_owned());
        let power = written.map_or_else(|| "a power of a matrix".to_owned(), |name| format!("`{name}^{k}`"));
        let span = self.span(at);
        if k < 0 && around != Around::Transpose {
            let message = format!("{power} has the powers of the elements, and there is no inverse of a matrix");
            let help = format!(
                "{}; powers of the elements are `{name}.^{k}`",
                foreign::function("inv").unwrap_or("there is no linear algebra")
            );
            self.diagnose(Diagnostic::new("inverse-of-matrix", span, message).help(help));
            return false;
        }
        if k >= 2
            && let Some(n) = shape.first().cloned().filter(|_| self.square(base).is_some())
        {
            let product = match k {
                ..=MAX_FACTORS => vec![name.as_str(); k as usize].join(" @ "),
                _ => format!("fold t < {k}, P = eye({}). P @ {name}", self.show(&n)),
            };
            let message = format!("{power} has the powers of the elements, and is no product of matrices");
            let help = format!("write `{product}` for that of matrices, `{name}.^{k}` for powers of the elements");
            self.warn_once(Diagnostic::new("power-of-matrix", span, message).help(help));
        }
        true
    }

    /// Warns of a product of the elements of two square matrices of which one is a transpose.
    pub(super) fn warn_of_transpose(&mut self, at: ExprId, operands: [ExprId; 2], values: [TermId; 2]) {
        if !operands.iter().any(|e| self.is_transposed(*e)) || self.is_of_elements(at) {
            return;
        }
        // Of a chain of factors it is said once.
        if let Expr::Binary(BinaryOp::Mul, a, b) = self.expr(operands[0])
            && [a, b].into_iter().any(|e| self.is_transposed(*e))
        {
            return;
        }
        let [left, right] = values.map(|value| self.square(value));
        if !left.zip(right).is_some_and(|(left, right)| self.same_size(&left, &right)) {
            return;
        }
        let names = operands.map(|e| self.name_of_matrix(e));
        let (product, a, b) = match names {
            [Some(a), Some(b)] => (format!("`{a} * {b}`"), a, b),
            _ => ("`*` of square matrices".to_owned(), "A'".to_owned(), "B".to_owned()),
        };
        let message = format!("{product} has the products of the elements, and is no product of matrices");
        let help = format!("write `{a} @ {b}` for that of matrices, `{a} .* {b}` for products of the elements");
        let span = self.span(at);
        self.warn_once(Diagnostic::new("product-of-matrices", span, message).help(help));
    }

    fn is_transposed(&self, e: ExprId) -> bool {
        match self.expr(e) {
            Expr::Unary(UnaryOp::Transpose, _) => true,
            Expr::Binary(BinaryOp::Pow, _, exponent) => self.is_transpose(*exponent),
            Expr::Name(name) => name.ends_with('\'') && matches!(self.peek(name), Meaning::Unknown),
            _ => false,
        }
    }

    /// A matrix as it is written, where it has a name.
    fn name_of_matrix(&self, e: ExprId) -> Option<String> {
        let of = match self.expr(e) {
            Expr::Name(name) => return Some(name.clone()),
            Expr::Unary(UnaryOp::Transpose, of) => of,
            Expr::Binary(BinaryOp::Pow, of, exponent) if self.is_transpose(*exponent) => of,
            _ => return None,
        };
        match self.expr(*of) {
            Expr::Name(name) => Some(format!("{name}'")),
            _ => None,
        }
    }

    fn is_trace_of_library(&self) -> bool {
        match self.peek("trace") {
            Meaning::Callable(Global::Definition(def)) => self.definitions[def].library,
            _ => false,
        }
    }

    /// Keeps a warning, unless it was met in another expansion of the same text.
    fn warn_once(&mut self, warning: Diagnostic) {
        if self.reported.insert((warning.code, warning.span, warning.message.clone())) {
            self.warnings.push(warning);
        }
    }
}

//! Definitions among the lines of a block, and constants.
//!
//! ```text
//! def f(a, b) = e      ==  let f = fn a, b. e          behind a `let`; so is `let f(a, b) = e`
//! def c = e            ==  let c = e                   behind a `let`; so is `const c = e`
//! def c = e            ==  size c = e                  among the declarations, where `e` is made of sizes and integers
//! def c = e            ==  def c() = e                 among the declarations, elsewhere; `c` is its value
//! ```

use super::frame::{Frame, Pattern, Signature};
use super::{Operand, Parser};
use crate::base::Span;
use crate::lexer::Token;
use crate::surface::ast::{BinaryOp, Decl, Expr, ExprId, Name, TypeExpr, TypeKind};

/// How many parts of the value of a constant are looked at to tell whether it is a size.
const MAX_PARTS: usize = 64;

impl Parser<'_> {
    /// Whether a `def` here stands behind a `let`, as a line of its block.
    pub(super) fn begins_local_definition(&self) -> bool {
        self.token() == Token::Def && matches!(self.frames.last(), Some(Frame::LetBody { .. }))
    }

    /// Whether a `def` here goes on with the block of a `let`: it begins a line, deeper than that of the declaration around.
    pub(super) fn goes_on_with_definition(&self) -> bool {
        self.token() == Token::Def
            && self.current.starts_line
            && self.indent.is_none_or(|outer| self.current.indent > outer)
    }

    /// Reads a `def` behind a `let` up to its value.
    pub(super) fn local_definition(&mut self) {
        let indent = self.current.indent;
        let start = self.advance().span;
        let name = self.name("the name of a definition").unwrap_or_else(|| self.no_name());
        self.bound_function(name, start, indent);
    }

    /// Reads the parameters of a function that a name is bound to, if there are any, and the `=` in front of its value.
    pub(super) fn bound_function(&mut self, name: Name, start: Span, indent: u32) {
        let mut function = None;
        if self.token() == Token::LeftParen {
            let signature = self.signature();
            let sound = signature.is_some();
            function = Some(signature.unwrap_or(Signature { params: Vec::new(), result: None }));
            if !sound {
                self.skip(|token| token == Token::Equal);
            }
        }
        self.expect(Token::Equal, "and the value");
        self.open(Frame::LetValue { pattern: Pattern::Name(name), function, start, indent });
    }

    /// `(a, b : T) : U`, with types where they are written.
    pub(super) fn signature(&mut self) -> Option<Signature> {
        let params = self.typed_parameters()?;
        self.with_result(params)
    }

    /// Parameters with the type of the value, `: U` or `-> U`, if it stands behind them.
    pub(super) fn with_result(&mut self, params: Vec<(Name, TypeExpr)>) -> Option<Signature> {
        let result = match self.token() {
            Token::Colon | Token::Arrow => {
                self.advance();
                Some(self.ty(0)?)
            }
            _ => None,
        };
        Some(Signature { params, result })
    }

    /// `(a, b : T)`
    pub(super) fn typed_parameters(&mut self) -> Option<Vec<(Name, TypeExpr)>> {
        self.list("parameters such as `(a : real)`", |parser| {
            let name = parser.name("the name of a parameter")?;
            if matches!(parser.token(), Token::Comma | Token::RightParen) {
                let ty = TypeExpr { kind: TypeKind::Inferred, span: name.span };
                return Some((name, ty));
            }
            parser.expect(Token::Colon, "and a type behind the name of a parameter").then_some(())?;
            Some((name, parser.ty(0)?))
        })
    }

    /// What a `let` binds: its value, or the function that this makes.
    pub(super) fn bound_value(&mut self, function: Option<Signature>, value: Operand) -> ExprId {
        let Some(Signature { params, result }) = function else { return value.id };
        let body = match result {
            Some(ty) => self.node(Expr::Typed { value: value.id, ty, trusted: false }, value.span).id,
            None => value.id,
        };
        self.node(Expr::Function { params, body }, value.span).id
    }

    /// Whether `const c = e` stands here.
    pub(super) fn begins_constant(&self) -> bool {
        let mut lexer = self.lexer.clone();
        let mut next = || lexer.next(&mut Vec::new());
        let (name, sign) = (next(), next());
        self.at_word("const") && name.token == Token::Name && !name.starts_line && sign.token == Token::Equal
    }

    /// Whether the word at a place is the `const` of `const c = e`, whose name is here.
    pub(super) fn is_constant(&self, word: Span) -> bool {
        self.text.get(word.range()) == Some("const")
            && self.token() == Token::Name
            && !self.current.starts_line
            && self.lexer.clone().next(&mut Vec::new()).token == Token::Equal
    }

    /// The value of a constant, behind its name and at the `=`.
    pub(super) fn constant(&mut self, name: Name) -> Decl {
        self.advance();
        let value = self.expression(&[]).id;
        match self.is_size_value(value) {
            true => Decl::Size { name, value: Some(value) },
            false => Decl::Def { name, params: Vec::new(), result: None, body: value },
        }
    }

    /// Whether an expression is made of sizes and integers, from 0 on.
    fn is_size_value(&self, e: ExprId) -> bool {
        let mut stack = vec![e];
        for _ in 0..MAX_PARTS {
            let Some(e) = stack.pop() else { return true };
            match self.ast.exprs.get(e) {
                Some(Expr::Number { integer: Some(_), .. }) => {}
                Some(Expr::Name(name)) if self.known_sizes.contains(name) => {}
                Some(Expr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::FloorDiv, a, b)) => {
                    stack.extend([*a, *b]);
                }
                _ => return false,
            }
        }
        false
    }
}

//! Definitions among the lines of a block, and constants.
//!
//! ```text
//! def f(a, b) = e      ==  let f = fn a, b. e          behind a `let`; so is `let f(a, b) = e`
//! def c = e            ==  let c = e                   behind a `let`; so is `const c = e`
//! def c = e            ==  size c = e                  among the declarations, where `e` is made of sizes and integers
//! def c = e            ==  def c() = e                 among the declarations, elsewhere; `c` is its value
//! y = e                ==  let y = e                   on a line in front of others; so are `f(a) = e` and `(a, b) = e`
//! ```

use rustc_hash::FxHashSet;

use super::frame::{Frame, Next, Pattern, Signature};
use super::{Operand, Parser, starts_operand};
use crate::base::Span;
use crate::lexer::{Lexer, Token};
use crate::surface::MAX_TYPE_NESTING;
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

    /// `y = e` on a line of its own, in front of what it is used in: `let y = e`; `(a, b) = e`, a pattern; and `f(x) = e`, which is
    /// `let f = fn x. e` of an `x` of any type.
    pub(super) fn assignment(&mut self, operand: Operand, base: usize, stops: &[Token]) -> Option<Next> {
        let is_in = self.token() == Token::In;
        let next = match self.token() {
            Token::Semicolon => self.lexer.clone().next(&mut Vec::new()),
            _ if self.current.starts_line || is_in => self.current,
            _ => return None,
        };
        // A declaration goes on in lines that are indented deeper.
        let ends = self.indent.is_some_and(|outer| next.indent <= outer || !next.starts_line);
        let is_minus = next.token == Token::Minus && next.starts_line;
        let goes_on = starts_operand(next.token) || is_minus || self.goes_on_with_definition();
        if !is_in && (ends || !goes_on) {
            return None;
        }
        // What is open behind the sign, as the body of a `sum` is, ends with the value.
        let stands = |frame: &Frame| frame.level().is_none() || matches!(frame, Frame::Compare { .. });
        let at = base + self.frames.get(base..)?.iter().rposition(stands)?;
        let (lhs, compared) = self.sides_of_line(at)?;
        let before = self.text.get(..lhs.span.start as usize)?.trim_end_matches([' ', '\t']);
        let begins = before.is_empty() || before.ends_with(['\n', ';', '\u{feff}']);
        // A line that begins with `-` goes on with one that is indented less.
        if is_minus && next.indent as usize > self.indent_of(lhs.span) {
            return None;
        }
        let in_block = match at.checked_sub(1).filter(|_| at > base).and_then(|at| self.frames.get(at)) {
            None => stops.is_empty(),
            // The body of a function, in lines that are indented deeper.
            Some(Frame::LetValue { function: Some(_), indent, .. }) => next.starts_line && next.indent > *indent,
            Some(frame) => frame.begins_block(),
        };
        if is_in && self.is_in_of_let(base, at) {
            return None;
        }
        if !begins || !in_block || self.ast.spans.get(lhs.id) != Some(&lhs.span) {
            return None;
        }
        let (pattern, params) = match self.ast.exprs.get(lhs.id)? {
            Expr::Name(_) => (Pattern::Name(self.name_at(lhs.span)), None),
            Expr::Pair(..) => (self.pattern_of(lhs.id, 0)?, None),
            Expr::Call { callee, args } => {
                let any = |arg: &ExprId| match (self.ast.exprs.get(*arg)?, self.ast.spans.get(*arg)) {
                    (Expr::Name(text), Some(span)) => {
                        let name = Name { text: text.clone(), span: *span };
                        Some((name, TypeExpr { kind: TypeKind::Inferred, span: *span }))
                    }
                    _ => None,
                };
                let params = args.iter().map(any).collect::<Option<Vec<_>>>()?;
                (Pattern::Name(callee.clone()), Some(params))
            }
            _ => return None,
        };
        let mut value = self.finish_operators(0, operand, at + 1);
        self.frames.pop();
        if let Some((op, left)) = compared {
            value = self.node(Expr::Binary(op, left.id, value.id), left.span.to(value.span));
        }
        if let Some(params) = params {
            value = self.node(Expr::Function { params, body: value.id }, lhs.span.to(value.span));
        }
        if self.eat(Token::Semicolon).is_none() {
            self.eat(Token::In);
        }
        self.let_body(pattern, None, value, lhs.span);
        Some(Next::Expect)
    }

    /// What a line `y = ..` gives, whose last comparison waits at a place of the stack: of `y = a == b` this and `a ==`, which was read as a chain.
    fn sides_of_line(&self, at: usize) -> Option<(Operand, Option<(BinaryOp, Operand)>)> {
        let Some(Frame::Compare { op, lhs, chain }) = self.frames.get(at) else { return None };
        let Some(first) = chain else {
            return (*op == BinaryOp::Equal).then_some((*lhs, None));
        };
        match self.ast.exprs.get(first.id)? {
            Expr::Binary(BinaryOp::Equal, name, left) if *left == lhs.id => {
                let given = Operand { id: *name, span: *self.ast.spans.get(*name)? };
                Some((given, Some((*op, *lhs))))
            }
            _ => None,
        }
    }

    /// How far the line of a place is indented, in bytes.
    fn indent_of(&self, place: Span) -> usize {
        let before = self.text.get(..place.start as usize).unwrap_or("");
        let line = before.rfind('\n').map_or(0, |end| end + 1);
        let line = self.text.get(line..).unwrap_or("").trim_start_matches('\u{feff}');
        line.len() - line.trim_start_matches(|c: char| c.is_whitespace() && c != '\n').len()
    }

    /// A pair of names as a pattern; nothing where there is anything else in it.
    fn pattern_of(&self, e: ExprId, depth: usize) -> Option<Pattern> {
        let span = *self.ast.spans.get(e)?;
        match self.ast.exprs.get(e)? {
            Expr::Name(text) => Some(Pattern::Name(Name { text: text.clone(), span })),
            Expr::Pair(first, second) if depth < MAX_TYPE_NESTING => {
                let [first, second] = [self.pattern_of(*first, depth + 1)?, self.pattern_of(*second, depth + 1)?];
                Some(Pattern::Pair(span, Box::new(first), Box::new(second)))
            }
            _ => None,
        }
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

/// The names in front of a `=` at the begin of a line, and behind `let`: `y`, `f` and `a` of `f(a)`, `a` and `b` of `(a, b)`.
pub(super) fn names_given(text: &str) -> FxHashSet<String> {
    let (mut lexer, mut problems) = (Lexer::new(text), Vec::new());
    let (mut names, mut line): (FxHashSet<String>, Vec<Span>) = (FxHashSet::default(), Vec::new());
    // Whether only names and what joins them stand on the line so far.
    let mut is_front = false;
    loop {
        let lexeme = lexer.next(&mut problems);
        problems.clear();
        if lexeme.starts_line || lexeme.token == Token::Let || lexeme.token == Token::Semicolon {
            line.clear();
            is_front = true;
        }
        match lexeme.token {
            Token::End => return names,
            Token::Name if is_front => line.push(lexeme.span),
            Token::Let | Token::Semicolon | Token::LeftParen | Token::RightParen | Token::Comma => {}
            Token::Equal if is_front => {
                names.extend(line.drain(..).filter_map(|span| text.get(span.range())).map(str::to_owned));
                is_front = false;
            }
            _ => is_front = false,
        }
    }
}

//! Text to [`Ast`].
//!
//! ```text
//! program  = (decl [";"])* expr [";"]
//! decl     = "param" name ":" ["csr" | "csc" | "coo"] type | "rel" name ":" sizes | "map" name ":" sizes "->" "[" expr "]"
//!          | "assume" expr | "def" name "(" (name ":" type),* ")" "=" expr
//!          | "fun" name "(" name,* ")" "=" expr "with" "(" expr,+ ")"
//! type     = "real" | sizes type | "(" type,+ ")"            sizes = "[" expr,+ "]"
//! expr     = "let" name "=" expr "in" expr
//!          | ("gen" | "sum" | "max" | "min" | "argmax" | "argmin" | "exists") (name "<" expr),+ "." expr
//!          | "[" expr "]" "*" expr | operators
//! ```
//!
//! Operators from loose to tight: `or`; `and`; `not`; comparisons; `+ -`; `* /`; unary `-`; `^` to the right; `fst`, `snd`;
//! access `e[..]` and call `f(..)`. A `let`, a binder or a bracket may stand wherever an operand may, and reaches as far right
//! as it can: a `let` and a binder to the end of what encloses them, `[p] *` over products and quotients but not over sums.
//! `0 <= i < n` is `0 <= i and i < n` with one node for both `i`.
//!
//! **Where an expression ends.** No expression follows another without an operator, so a declaration ends where the next
//! operand begins. Two cases would be read as one expression: a `[` or `(` is an access or a call only on the line on which
//! what it applies to ends, so a bracket at the start of a line begins something new; and a `-` behind an operand is always a
//! difference, so a program that begins with `-` needs a `;` behind the declaration before it.
//!
//! The parser is an operator-precedence parser with its stack on the heap. Every token is pushed and popped once, so time is
//! linear and depth costs no call stack. Only types recurse, to [`MAX_TYPE_NESTING`].
//!
//! **Errors.** A problem is reported once for each place; the parser then closes what is open, or skips to a token on which
//! it can go on (a declaration, `let`, `in`, a comma, a closing bracket), with an [`Expr::Error`] where an expression is missing.
//! After [`MAX_DIAGNOSTICS`] problems it stops.

use crate::base::Span;
use crate::error::Diagnostic;

use super::MAX_TYPE_NESTING;
use super::ast::{Ast, BinaryOp, BinderKind, Decl, Expr, ExprId, Name, StorageKind, TypeExpr, TypeKind, UnaryOp};
use super::elaborate::closest;
use crate::base::MAX_TEXT;
use crate::lexer::{Lexeme, Lexer, Token};

/// The most expressions in a program.
pub const MAX_EXPRS: usize = 16 << 20;
/// The most constructs open at once.
pub const MAX_NESTING: usize = 4 << 20;
/// The most problems reported for one text.
pub const MAX_DIAGNOSTICS: usize = 100;

/// Reads a program. The problems are in the order of the text; without any, the tree holds no [`Expr::Error`] and has a body.
pub fn parse(text: &str) -> (Ast, Vec<Diagnostic>) {
    if text.len() > MAX_TEXT {
        let message = format!("expected a program of at most {MAX_TEXT} bytes, found {} bytes", text.len());
        return (Ast::default(), vec![Diagnostic::new("too-large", Span::default(), message)]);
    }
    let mut parser = Parser {
        text,
        lexer: Lexer::new(text),
        current: Lexeme { token: Token::End, span: Span::default(), starts_line: true },
        last_end: Span::default(),
        frames: Vec::new(),
        ast: Ast::default(),
        diagnostics: Vec::new(),
        reported_at: None,
        unclosed_at: None,
        skipped: false,
        halted: false,
    };
    parser.advance();
    parser.program();
    parser.diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
    (parser.ast, parser.diagnostics)
}

/// A finished expression; its place includes the parentheses around it, which its node does not.
#[derive(Clone, Copy)]
struct Operand {
    id: ExprId,
    span: Span,
}

#[derive(Clone, Copy, PartialEq)]
enum Prefix {
    Neg,
    Not,
    Fst,
    Snd,
}

/// What waits for an expression to its right: operators first, then groups, which a closing token ends.
enum Frame {
    Prefix {
        prefix: Prefix,
        start: Span,
    },
    Infix {
        op: BinaryOp,
        lhs: Operand,
    },
    /// An operator that there is not; it was reported.
    Unknown {
        lhs: Operand,
    },
    Compare {
        op: BinaryOp,
        lhs: Operand,
        chain: Option<Operand>,
    },
    Iverson {
        guard: ExprId,
        start: Span,
    },
    Body {
        kind: BinderKind,
        index: Name,
        extent: ExprId,
        start: Span,
    },
    LetBody {
        name: Name,
        value: ExprId,
        start: Span,
    },
    LetValue {
        name: Name,
        start: Span,
    },
    Extent {
        kind: BinderKind,
        index: Name,
        done: Vec<(Name, ExprId)>,
        start: Span,
    },
    Paren {
        open: Span,
        items: Vec<Operand>,
    },
    Guard {
        open: Span,
    },
    Access {
        open: Span,
        array: Operand,
        indices: Vec<ExprId>,
    },
    Call {
        open: Span,
        close: Token,
        callee: Name,
        args: Vec<ExprId>,
    },
}

/// What comes after an operand and its following token.
enum Next {
    /// A larger operand.
    Operand(Operand),
    /// A right operand is needed.
    Expect,
    /// The whole expression.
    Done(Operand),
}

const AND: u8 = 4;
const NOT: u8 = 6;
const COMPARE: u8 = 8;
const SUM: u8 = 10;
const PRODUCT: u8 = 12;
const POWER: u8 = 16;

/// The operator a token stands for behind an operand, with its level.
fn infix(token: Token) -> Option<(BinaryOp, u8)> {
    Some(match token {
        Token::Or => (BinaryOp::Or, 2),
        Token::And => (BinaryOp::And, AND),
        Token::Less => (BinaryOp::Less, COMPARE),
        Token::LessEqual => (BinaryOp::LessEqual, COMPARE),
        Token::Greater => (BinaryOp::Greater, COMPARE),
        Token::GreaterEqual => (BinaryOp::GreaterEqual, COMPARE),
        Token::Equal => (BinaryOp::Equal, COMPARE),
        Token::NotEqual => (BinaryOp::NotEqual, COMPARE),
        Token::Plus => (BinaryOp::Add, SUM),
        Token::Minus => (BinaryOp::Sub, SUM),
        Token::Star => (BinaryOp::Mul, PRODUCT),
        Token::Slash => (BinaryOp::Div, PRODUCT),
        Token::Caret => (BinaryOp::Pow, POWER),
        _ => return None,
    })
}

impl Frame {
    /// How tightly an operator holds what follows; nothing for a group. An incoming infix operator of level `l` finishes the
    /// operators on top whose level is at least `l`.
    fn level(&self) -> Option<u8> {
        Some(match self {
            Frame::Body { .. } | Frame::LetBody { .. } => 0,
            Frame::Prefix { prefix: Prefix::Not, .. } => NOT,
            Frame::Compare { .. } => COMPARE,
            // Looser than a product, so that products and quotients stay inside the bracket.
            Frame::Iverson { .. } => SUM + 1,
            // As loose as `and`, for which it may stand.
            Frame::Unknown { .. } => AND,
            Frame::Prefix { prefix: Prefix::Neg, .. } => PRODUCT + 2,
            Frame::Prefix { prefix: Prefix::Fst | Prefix::Snd, .. } => POWER + 2,
            Frame::Infix { op, .. } => match op {
                BinaryOp::Or => 2,
                BinaryOp::And => AND,
                BinaryOp::Less
                | BinaryOp::LessEqual
                | BinaryOp::Greater
                | BinaryOp::GreaterEqual
                | BinaryOp::Equal
                | BinaryOp::NotEqual => COMPARE,
                BinaryOp::Add | BinaryOp::Sub => SUM,
                BinaryOp::Mul | BinaryOp::Div => PRODUCT,
                BinaryOp::Pow => POWER,
            },
            Frame::LetValue { .. }
            | Frame::Extent { .. }
            | Frame::Paren { .. }
            | Frame::Guard { .. }
            | Frame::Access { .. }
            | Frame::Call { .. } => return None,
        })
    }

    /// Whether a token ends this group or one item of it.
    fn accepts(&self, token: Token) -> bool {
        match self {
            Frame::LetValue { .. } => token == Token::In,
            Frame::Extent { .. } => matches!(token, Token::Dot | Token::Comma),
            Frame::Paren { .. } => matches!(token, Token::RightParen | Token::Comma),
            Frame::Guard { .. } => token == Token::RightBracket,
            Frame::Access { .. } => matches!(token, Token::RightBracket | Token::Comma),
            Frame::Call { close, .. } => token == *close || token == Token::Comma,
            _ => false,
        }
    }
}

/// Whether comparisons may stand in one chain: they all point the same way.
fn chains(first: BinaryOp, second: BinaryOp) -> bool {
    let up = |op| matches!(op, BinaryOp::Less | BinaryOp::LessEqual | BinaryOp::Equal);
    let down = |op| matches!(op, BinaryOp::Greater | BinaryOp::GreaterEqual | BinaryOp::Equal);
    up(first) && up(second) || down(first) && down(second)
}

fn is_decl(token: Token) -> bool {
    matches!(token, Token::Param | Token::Rel | Token::Map | Token::Assume | Token::Def | Token::Fun)
}

/// Whether a token begins an operand and cannot continue one.
fn starts_operand(token: Token) -> bool {
    matches!(
        token,
        Token::Name
            | Token::Number { .. }
            | Token::LeftParen
            | Token::LeftBracket
            | Token::Let
            | Token::Gen
            | Token::Sum
            | Token::Max
            | Token::Min
            | Token::ArgMax
            | Token::ArgMin
            | Token::Exists
            | Token::Not
            | Token::Fst
            | Token::Snd
            | Token::Real
    )
}

fn symbol_text(token: Token) -> &'static str {
    match token {
        Token::RightParen => "`)`",
        Token::RightBracket => "`]`",
        Token::LeftParen => "`(`",
        Token::LeftBracket => "`[`",
        Token::Equal => "`=`",
        Token::Colon => "`:`",
        Token::Arrow => "`->`",
        Token::With => "`with`",
        _ => "another token",
    }
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    current: Lexeme,
    /// The place of the token before.
    last_end: Span,
    frames: Vec<Frame>,
    ast: Ast,
    diagnostics: Vec<Diagnostic>,
    /// The token at which the last problem was found: one problem for each token.
    reported_at: Option<u32>,
    /// The same for groups left open, which are reported at their opening.
    unclosed_at: Option<u32>,
    /// Whether characters that begin no token stand in front of the current one.
    skipped: bool,
    halted: bool,
}

impl Parser<'_> {
    fn token(&self) -> Token {
        self.current.token
    }

    fn advance(&mut self) -> Lexeme {
        let lexeme = self.current;
        self.last_end = lexeme.span;
        if !self.halted {
            let reported = self.diagnostics.len();
            self.current = self.lexer.next(&mut self.diagnostics);
            let found = self.diagnostics.get(reported..).unwrap_or_default();
            self.skipped = found.iter().any(|d| d.code == "bad-character");
            if !found.is_empty() {
                // What stood in front of this token may be what is missing here.
                self.reported_at = Some(self.current.span.start);
            }
            self.check_diagnostics();
        }
        lexeme
    }

    fn eat(&mut self, token: Token) -> Option<Span> {
        (self.token() == token).then(|| self.advance().span)
    }

    /// Ends the text here, so that everything open unwinds in silence.
    fn halt(&mut self, diagnostic: Diagnostic) {
        if !self.halted {
            self.halted = true;
            self.diagnostics.push(diagnostic);
            let at = self.current.span.start as usize;
            self.current = Lexeme { token: Token::End, span: Span::new(at, at), starts_line: true };
        }
    }

    fn check_diagnostics(&mut self) {
        if self.diagnostics.len() >= MAX_DIAGNOSTICS {
            self.diagnostics.truncate(MAX_DIAGNOSTICS - 1);
            let message = format!("expected fewer problems, found at least {MAX_DIAGNOSTICS} and stopped reading");
            self.halt(Diagnostic::new("too-many-errors", self.current.span, message));
        }
    }

    fn push_diagnostic(&mut self, diagnostic: Diagnostic) {
        if !self.halted {
            self.diagnostics.push(diagnostic);
            self.check_diagnostics();
        }
    }

    /// Reports a problem at the current token, unless there was one already.
    fn report(&mut self, diagnostic: Diagnostic) {
        if self.reported_at != Some(self.current.span.start) {
            self.reported_at = Some(self.current.span.start);
            self.push_diagnostic(diagnostic);
        }
    }

    /// Reports a group that the current token cannot end.
    fn report_unclosed(&mut self, diagnostic: Diagnostic) {
        if self.unclosed_at != Some(self.current.span.start) {
            self.unclosed_at = Some(self.current.span.start);
            self.reported_at = Some(self.current.span.start);
            self.push_diagnostic(diagnostic);
        }
    }

    /// What the current token is, for messages.
    fn found(&self) -> String {
        let text = self.text.get(self.current.span.range()).unwrap_or("");
        let mut short: String = text.chars().take(40).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        match self.token() {
            Token::End => "the end of the text".to_string(),
            Token::Name => format!("the name `{short}`"),
            Token::Number { .. } => format!("the number `{short}`"),
            token if is_decl(token) => format!("the declaration `{short}`"),
            _ => format!("`{short}`"),
        }
    }

    fn unexpected(&mut self, expected: &str) {
        let message = format!("expected {expected}, found {}", self.found());
        self.report(Diagnostic::new("unexpected-token", self.current.span, message));
    }

    fn expect(&mut self, token: Token, context: &str) -> bool {
        let found = self.eat(token).is_some();
        if !found {
            self.unexpected(&format!("{} {context}", symbol_text(token)));
        }
        found
    }

    /// A name; nothing where there is none, which is reported.
    fn name(&mut self, what: &str) -> Option<Name> {
        if self.token() == Token::Name {
            let span = self.advance().span;
            return Some(self.name_at(span));
        }
        let message = format!("expected {what}, found {}", self.found());
        let diagnostic = Diagnostic::new("unexpected-token", self.current.span, message);
        let span = self.current.span;
        let is_word = self.text.get(span.range()).is_some_and(|text| text.starts_with(char::is_alphabetic));
        if !is_word {
            self.report(diagnostic);
            return None;
        }
        self.report(diagnostic.help("a keyword cannot be a name; add a letter or a `'`"));
        if self.current.starts_line {
            return None;
        }
        // Read on as if it were the name.
        self.advance();
        Some(self.name_at(span))
    }

    fn name_at(&self, span: Span) -> Name {
        Name { text: self.text.get(span.range()).unwrap_or("").to_string(), span }
    }

    fn program(&mut self) {
        // A misspelt declaration is read as the body; the declarations behind it are no second mistake.
        let mut body_failed = false;
        loop {
            let token = self.token();
            if token == Token::End {
                break;
            } else if token == Token::Semicolon {
                self.advance();
            } else if is_decl(token) {
                if self.ast.body.is_some() && !body_failed {
                    body_failed = true;
                    let message =
                        format!("expected the end of the text behind the program's body, found {}", self.found());
                    self.report(
                        Diagnostic::new("misplaced-declaration", self.current.span, message)
                            .help("declarations come before the body"),
                    );
                }
                self.decl();
            } else if let Some(keyword) = self.misspelt_declaration() {
                self.ast.body = None;
                self.decl_of(keyword);
            } else if self.ast.body.is_none() {
                let body = self.expression(&[]);
                self.ast.body = Some(body.id);
            } else {
                self.report_rest();
                body_failed = true;
                self.skip(|token| is_decl(token) || matches!(token, Token::Let | Token::In));
                if self.eat(Token::In).is_some() || self.token() == Token::Let {
                    self.expression(&[]);
                }
            }
        }
        if self.ast.body.is_none() {
            self.report(
                Diagnostic::new("missing-body", self.current.span, "expected an expression, found the end of the text")
                    .help("behind its declarations a program has one expression: its value"),
            );
        }
    }

    /// A name and behind it another, where the first could be a declaration: `parm x`. What was read as the body is none.
    fn misspelt_declaration(&mut self) -> Option<Token> {
        let body = self.ast.body?;
        let Expr::Name(word) = &self.ast.exprs[body] else { return None };
        if self.token() != Token::Name || self.current.starts_line || self.skipped {
            return None;
        }
        let keywords = [
            ("param", Token::Param),
            ("rel", Token::Rel),
            ("map", Token::Map),
            ("assume", Token::Assume),
            ("def", Token::Def),
            ("fun", Token::Fun),
        ];
        let longer = keywords.iter().find(|(keyword, _)| word.starts_with(keyword));
        let close = || closest(word, keywords.iter().map(|(keyword, _)| *keyword));
        let (keyword, token) = match longer {
            Some(found) => *found,
            None => close().and_then(|close| keywords.into_iter().find(|(keyword, _)| *keyword == close))?,
        };
        let span = self.ast.spans.get(body).copied().unwrap_or_default();
        let message = format!("expected a declaration or an expression, found the name `{word}`");
        let diagnostic = Diagnostic::new("unknown-declaration", span, message);
        self.push_diagnostic(diagnostic.help(format!("did you mean `{keyword}`?")));
        Some(token)
    }

    /// Something stands behind the body.
    fn report_rest(&mut self) {
        let message = format!("expected an operator or the end of the text, found {}", self.found());
        let diagnostic = Diagnostic::new("unexpected-token", self.current.span, message);
        self.report(match self.token() {
            Token::RightBracket | Token::RightParen => diagnostic.help("no bracket is open here that it could close"),
            Token::LeftBracket | Token::LeftParen if self.current.starts_line => {
                diagnostic.help("an access or a call begins on the line on which what it applies to ends")
            }
            Token::Name if self.current.starts_line => {
                diagnostic.help("declarations begin with param, rel, map, assume, def or fun")
            }
            token if starts_operand(token) && !self.current.starts_line => {
                diagnostic.help("a product needs its sign, as in `2 * x`")
            }
            _ => diagnostic,
        });
    }

    /// Skips to a token on which reading can go on; what is in brackets is skipped whole.
    fn skip(&mut self, stop: impl Fn(Token) -> bool) {
        let mut depth = 0usize;
        loop {
            let token = self.token();
            if token == Token::End || is_decl(token) || depth == 0 && stop(token) {
                return;
            }
            match token {
                Token::LeftParen | Token::LeftBracket => depth += 1,
                Token::RightParen | Token::RightBracket => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.advance();
        }
    }

    fn decl(&mut self) {
        let keyword = self.advance().token;
        self.decl_of(keyword);
    }

    /// What stands behind the keyword of a declaration.
    fn decl_of(&mut self, keyword: Token) {
        let reported = self.diagnostics.len();
        let decl = match keyword {
            Token::Param => self.param(),
            Token::Rel => self.relation(),
            Token::Map => self.map(),
            Token::Assume => {
                let pred = self.expression(&[]).id;
                Some(Decl::Assume { pred })
            }
            Token::Def => self.def(),
            _ => self.fun(),
        };
        if let Some(decl) = decl {
            self.ast.decls.push(decl);
        }
        if self.diagnostics.len() > reported && self.reported_at == Some(self.current.span.start) {
            // The token at fault is still there: go on with the next line.
            while !self.current.starts_line
                && !is_decl(self.token())
                && !matches!(self.token(), Token::End | Token::Let | Token::Semicolon)
            {
                self.advance();
            }
        }
    }

    fn param(&mut self) -> Option<Decl> {
        let name = self.name("the name of a parameter")?;
        let storage = StorageKind::Dense;
        Some(match self.param_type() {
            Some((storage, like, ty)) => Decl::Param { name, storage, like, ty },
            // The name is declared, so that its uses are no further problems.
            None => Decl::Param { name, storage, like: None, ty: self.error_type() },
        })
    }

    /// `: csr(A) [n, m] real`
    fn param_type(&mut self) -> Option<(StorageKind, Option<Name>, TypeExpr)> {
        let colon = self.expect(Token::Colon, "and a type behind the name of a parameter");
        let starts_type =
            matches!(self.token(), Token::Real | Token::LeftBracket | Token::LeftParen | Token::Format(_));
        if !colon && (!starts_type || self.current.starts_line) {
            return None;
        }
        let storage = match self.token() {
            Token::Format(format) => {
                self.advance();
                StorageKind::Sparse(format)
            }
            _ => StorageKind::Dense,
        };
        let mut like = None;
        if storage != StorageKind::Dense && self.eat(Token::LeftParen).is_some() {
            like = Some(self.name("the sparse parameter whose entries it has")?);
            self.expect(Token::RightParen, "behind the parameter whose entries it has").then_some(())?;
        }
        Some((storage, like, self.ty(0)?))
    }

    /// A placeholder for a type that is missing; it was reported.
    fn error_type(&mut self) -> TypeExpr {
        let leaf = self.error_leaf();
        let real = TypeExpr { kind: TypeKind::Real, span: leaf.span };
        TypeExpr { kind: TypeKind::Tensor(vec![leaf.id], Box::new(real)), span: leaf.span }
    }

    fn relation(&mut self) -> Option<Decl> {
        let name = self.name("the name of a relation")?;
        let colon = self.expect(Token::Colon, "and a shape behind the name of a relation");
        let shape = colon.then(|| self.sizes("a shape such as `[n, m]`")).flatten();
        let shape = shape.unwrap_or_else(|| vec![self.error_leaf().id]);
        Some(Decl::Relation { name, shape })
    }

    fn map(&mut self) -> Option<Decl> {
        let name = self.name("the name of a map")?;
        let (source, target) = self.map_type().unwrap_or_else(|| {
            let leaf = self.error_leaf().id;
            (vec![leaf], leaf)
        });
        Some(Decl::Map { name, source, target })
    }

    /// `: [p] -> [c]`
    fn map_type(&mut self) -> Option<(Vec<ExprId>, ExprId)> {
        self.expect(Token::Colon, "and `[p] -> [c]` behind the name of a map").then_some(())?;
        let source = self.sizes("the ranges of a map's arguments such as `[p]`")?;
        self.expect(Token::Arrow, "and the range of the map's target").then_some(())?;
        let start = self.current.span;
        let targets = self.sizes("the range of a map's target such as `[c]`")?;
        if targets.len() > 1 {
            let span = start.to(self.last_end);
            let message = format!("expected one range for the target of a map, found {}", targets.len());
            self.push_diagnostic(
                Diagnostic::new("unexpected-token", span, message)
                    .help("declare one map for each coordinate of the target, or a relation"),
            );
        }
        Some((source, *targets.first()?))
    }

    fn def(&mut self) -> Option<Decl> {
        let name = self.name("the name of a definition")?;
        let Some((params, body)) = self.def_body() else {
            // The name is declared, so that its uses are no further problems.
            let param = (self.no_name(), self.error_type());
            return Some(Decl::Def { name, params: vec![param], body: self.error_leaf().id });
        };
        Some(Decl::Def { name, params, body })
    }

    /// `(a : [n] real, ..) = e`
    fn def_body(&mut self) -> Option<(Vec<(Name, TypeExpr)>, ExprId)> {
        let params = self.list("parameters such as `(a : real)`", |parser| {
            let name = parser.name("the name of a parameter")?;
            parser.expect(Token::Colon, "and a type behind the name of a parameter").then_some(())?;
            Some((name, parser.ty(0)?))
        })?;
        self.expect(Token::Equal, "and the body of the definition").then_some(())?;
        Some((params, self.expression(&[]).id))
    }

    fn fun(&mut self) -> Option<Decl> {
        let name = self.name("the name of a scalar function")?;
        let Some((params, value, partials)) = self.fun_body(&name) else {
            // The name is declared, so that its uses are no further problems.
            let value = self.error_leaf().id;
            return Some(Decl::Fun { name, params: Vec::new(), value, partials: Vec::new() });
        };
        Some(Decl::Fun { name, params, value, partials })
    }

    /// `(a, b) = e with (da, db)`
    fn fun_body(&mut self, name: &Name) -> Option<(Vec<Name>, ExprId, Vec<ExprId>)> {
        let params = self.list("arguments such as `(a, b)`", |parser| parser.name("the name of an argument"))?;
        self.expect(Token::Equal, "and the value of the function").then_some(())?;
        let value = self.expression(&[Token::With]).id;
        self.expect(Token::With, "and one partial derivative for each argument").then_some(())?;
        let partials = self.list("partial derivatives such as `(da, db)`", |parser| {
            Some(parser.expression(&[Token::Comma, Token::RightParen]).id)
        })?;
        if partials.len() != params.len() {
            let message = format!(
                "expected {} partial derivatives, one for each argument, found {}",
                params.len(),
                partials.len()
            );
            self.push_diagnostic(Diagnostic::new("partials-count", name.span, message));
        }
        Some((params, value, partials))
    }

    /// `( item , .. )`.
    fn list<T>(&mut self, what: &str, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let open = self.current.span;
        if self.eat(Token::LeftParen).is_none() {
            self.unexpected(what);
            return None;
        }
        let mut items = Vec::new();
        if self.eat(Token::RightParen).is_some() {
            return Some(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(Token::Comma).is_none() {
                self.close(open, Token::RightParen)?;
                return Some(items);
            }
        }
    }

    /// `[ size , .. ]`.
    fn sizes(&mut self, what: &str) -> Option<Vec<ExprId>> {
        let open = self.current.span;
        if self.eat(Token::LeftBracket).is_none() {
            self.unexpected(what);
            return None;
        }
        let mut sizes = Vec::new();
        loop {
            sizes.push(self.expression(&[Token::Comma, Token::RightBracket]).id);
            if self.eat(Token::Comma).is_none() {
                // A missing bracket in front of a type is the only mistake here: read on as if it stood there.
                if self.close(open, Token::RightBracket).is_none() && !matches!(self.token(), Token::Real) {
                    return None;
                }
                return Some(sizes);
            }
        }
    }

    fn close(&mut self, open: Span, close: Token) -> Option<Span> {
        let span = self.eat(close);
        if span.is_none() {
            self.unclosed(open, symbol_text(close));
        }
        span
    }

    fn unclosed(&mut self, open: Span, close: &str) {
        let bracket = self.text.get(open.range()).unwrap_or("");
        let message = format!("expected {close} to close this `{bracket}`, found {}", self.found());
        self.report_unclosed(Diagnostic::new("unclosed-bracket", open, message));
    }

    /// A type; `depth` types are around it.
    fn ty(&mut self, depth: usize) -> Option<TypeExpr> {
        if depth >= MAX_TYPE_NESTING {
            let message = format!("expected a type that nests at most {MAX_TYPE_NESTING} deep, found a deeper one");
            self.report(Diagnostic::new("too-deep", self.current.span, message));
            return None;
        }
        let start = self.current.span;
        match self.token() {
            Token::Real => {
                self.advance();
                Some(TypeExpr { kind: TypeKind::Real, span: start })
            }
            Token::LeftBracket => {
                let sizes = self.sizes("a shape")?;
                let item = self.ty(depth + 1)?;
                let span = start.to(item.span);
                Some(TypeExpr { kind: TypeKind::Tensor(sizes, Box::new(item)), span })
            }
            Token::LeftParen => {
                let mut nested = depth;
                let mut items = self.list("a type", |parser| {
                    nested += 1;
                    parser.ty(nested)
                })?;
                let span = start.to(self.last_end);
                let Some(last) = items.pop() else {
                    let message = "expected a type in these parentheses, found none";
                    self.push_diagnostic(Diagnostic::new("unexpected-token", span, message));
                    return None;
                };
                let mut ty = items.into_iter().rev().fold(last, |second, first| {
                    let span = first.span.to(second.span);
                    TypeExpr { kind: TypeKind::Pair(Box::new(first), Box::new(second)), span }
                });
                ty.span = span;
                Some(ty)
            }
            _ => {
                self.unexpected("a type such as `real`, `[n] real` or `(real, real)`");
                None
            }
        }
    }

    fn node(&mut self, expr: Expr, span: Span) -> Operand {
        if self.ast.exprs.len() >= MAX_EXPRS {
            let message = format!("expected a program of at most {MAX_EXPRS} expressions, found more");
            self.halt(Diagnostic::new("too-large", self.current.span, message));
        }
        Operand { id: self.ast.push(expr, span), span }
    }

    fn error_leaf(&mut self) -> Operand {
        let at = self.current.span.start as usize;
        self.node(Expr::Error, Span::new(at, at))
    }

    fn open(&mut self, frame: Frame) {
        if self.frames.len() >= MAX_NESTING {
            let message = format!("expected at most {MAX_NESTING} constructs inside each other, found more");
            self.halt(Diagnostic::new("too-deep", self.current.span, message));
        }
        self.frames.push(frame);
    }

    /// An expression up to a token that cannot continue it. `stops` are the tokens by which the caller ends it.
    fn expression(&mut self, stops: &[Token]) -> Operand {
        let base = self.frames.len();
        loop {
            let Some(mut operand) = self.operand() else { continue };
            loop {
                match self.behind(operand, base, stops) {
                    Next::Operand(larger) => operand = larger,
                    Next::Expect => break,
                    Next::Done(whole) => return whole,
                }
            }
        }
    }

    /// Reads at a place where an operand must stand. Nothing if a frame was opened that still needs one.
    fn operand(&mut self) -> Option<Operand> {
        let Lexeme { token, span, .. } = self.current;
        match token {
            Token::Name => {
                self.advance();
                self.operand_name(span)
            }
            Token::Number { value, integer } => {
                self.advance();
                Some(self.node(Expr::Number { value, integer }, span))
            }
            Token::LeftParen => {
                self.advance();
                self.open(Frame::Paren { open: span, items: Vec::new() });
                None
            }
            Token::LeftBracket => {
                self.advance();
                self.open(Frame::Guard { open: span });
                None
            }
            Token::Minus => self.prefix(Prefix::Neg),
            Token::Not => self.prefix(Prefix::Not),
            Token::Fst => self.prefix(Prefix::Fst),
            Token::Snd => self.prefix(Prefix::Snd),
            Token::Let => {
                self.advance();
                let name = self.name("the name of a variable behind `let`").unwrap_or_else(|| self.no_name());
                self.expect(Token::Equal, "and the value of the variable");
                self.open(Frame::LetValue { name, start: span });
                None
            }
            Token::Gen => self.binder(BinderKind::Gen),
            Token::Sum => self.binder(BinderKind::Sum),
            Token::ArgMax => self.binder(BinderKind::ArgMax),
            Token::ArgMin => self.binder(BinderKind::ArgMin),
            Token::Exists => self.binder(BinderKind::Exists),
            Token::Max | Token::Min | Token::Real => {
                self.advance();
                let kind = if token == Token::Max { BinderKind::Max } else { BinderKind::Min };
                match self.token() {
                    Token::LeftParen => self.call(self.name_at(span)),
                    Token::Name if token != Token::Real => self.binder_indices(kind, span),
                    _ => {
                        self.unexpected(match token {
                            Token::Real => "`(` and an index expression behind `real`",
                            Token::Max => "`max(a, b)` or `max i < n. e`",
                            _ => "`min(a, b)` or `min i < n. e`",
                        });
                        Some(self.error_leaf())
                    }
                }
            }
            _ => {
                let message = format!("expected an expression, found {}", self.found());
                let diagnostic = Diagnostic::new("unexpected-token", span, message);
                self.report(match token {
                    Token::Dot => diagnostic.help("a number begins with a digit, as in `0.5`"),
                    Token::Plus => diagnostic.help("there is no unary `+`"),
                    _ => diagnostic,
                });
                // Whatever may stand behind an operand is left to end this one.
                if matches!(token, Token::Colon | Token::Question | Token::Arrow | Token::DotValue | Token::Format(_)) {
                    self.advance();
                }
                Some(self.error_leaf())
            }
        }
    }

    /// A placeholder for a name that is missing; it was reported.
    fn no_name(&self) -> Name {
        let at = self.current.span.start as usize;
        Name { text: String::new(), span: Span::new(at, at) }
    }

    fn prefix(&mut self, prefix: Prefix) -> Option<Operand> {
        let start = self.advance().span;
        self.open(Frame::Prefix { prefix, start });
        None
    }

    /// A name at `span` and what belongs to it: `x`, `f(`, `A?(`, `A.value(`.
    fn operand_name(&mut self, span: Span) -> Option<Operand> {
        match self.token() {
            Token::LeftParen if !self.current.starts_line => self.call(self.name_at(span)),
            Token::Question if self.current.span.start == span.end => {
                let end = self.advance().span;
                if self.token() == Token::LeftParen {
                    return self.call(self.name_at(span.to(end)));
                }
                self.unexpected("`(` and indices behind the pattern of a sparse tensor");
                Some(self.error_leaf())
            }
            Token::DotValue => {
                let end = self.advance().span;
                self.call(self.name_at(span.to(end)))
            }
            _ => {
                let name = self.name_at(span);
                Some(self.node(Expr::Name(name.text), span))
            }
        }
    }

    /// The arguments of a call, from its bracket on.
    fn call(&mut self, callee: Name) -> Option<Operand> {
        let Lexeme { token, span: open, .. } = self.advance();
        let close = if token == Token::LeftBracket { Token::RightBracket } else { Token::RightParen };
        if let Some(end) = self.eat(close) {
            let span = callee.span.to(end);
            return Some(self.node(Expr::Call { callee, args: Vec::new() }, span));
        }
        self.open(Frame::Call { open, close, callee, args: Vec::new() });
        None
    }

    fn binder(&mut self, kind: BinderKind) -> Option<Operand> {
        let start = self.advance().span;
        self.binder_indices(kind, start)
    }

    fn binder_indices(&mut self, kind: BinderKind, start: Span) -> Option<Operand> {
        let index = self.binder_index();
        self.open(Frame::Extent { kind, index, done: Vec::new(), start });
        None
    }

    /// `i <`, in front of the extent.
    fn binder_index(&mut self) -> Name {
        let name = self.name("the name of an index, as in `i < n`").unwrap_or_else(|| self.no_name());
        if self.eat(Token::Less).is_none() {
            let message = format!("expected `<` and the range of the index, found {}", self.found());
            let help = match self.token() {
                Token::LessEqual => "indices run from 0 to below the range: write `i < n + 1`",
                _ => "indices run from 0 to below the range, as in `i < n`",
            };
            self.report(Diagnostic::new("unexpected-token", self.current.span, message).help(help));
            if matches!(self.token(), Token::LessEqual | Token::Equal | Token::Colon | Token::In) {
                self.advance();
            }
        }
        name
    }

    /// Goes on behind a finished operand.
    fn behind(&mut self, operand: Operand, base: usize, stops: &[Token]) -> Next {
        let token = self.token();
        if token == Token::LeftBracket && !self.current.starts_line {
            let open = self.advance().span;
            self.open(Frame::Access { open, array: operand, indices: Vec::new() });
            return Next::Expect;
        }
        if let Some((op, level)) = infix(token) {
            let op_span = self.advance().span;
            self.infix(op, level, op_span, operand, base);
            return Next::Expect;
        }
        if self.skipped && starts_operand(token) && !self.current.starts_line {
            self.skipped = false;
            let lhs = self.finish_operators(AND, operand, base);
            self.open(Frame::Unknown { lhs });
            return Next::Expect;
        }
        let operand = self.finish_operators(0, operand, base);
        if self.frames.len() <= base {
            return Next::Done(operand);
        }
        if self.frames.last().is_some_and(|frame| frame.accepts(token)) {
            let end = self.advance().span;
            return self.end_group(token, end, operand);
        }
        self.recover(operand, base, stops)
    }

    fn infix(&mut self, op: BinaryOp, level: u8, op_span: Span, operand: Operand, base: usize) {
        // `^` associates to the right, and comparisons form chains: neither finishes its like.
        let finished = if level == POWER || level == COMPARE { level + 1 } else { level };
        let lhs = self.finish_operators(finished, operand, base);
        if level != COMPARE {
            self.open(Frame::Infix { op, lhs });
            return;
        }
        let mut chain = None;
        if self.frames.len() > base
            && let Some(Frame::Compare { op: first, .. }) = self.frames.last()
        {
            if !chains(*first, op) {
                self.push_diagnostic(
                    Diagnostic::new(
                        "ambiguous-comparison",
                        op_span,
                        "expected a chain of comparisons that all point the same way, such as `0 <= i < n`, found another",
                    )
                    .help("join the comparisons with `and`"),
                );
            }
            chain = self.frames.pop().map(|frame| self.finish_operator(frame, lhs));
        }
        self.open(Frame::Compare { op, lhs, chain });
    }

    /// Finishes the operators on top whose level is at least `level`.
    fn finish_operators(&mut self, level: u8, mut operand: Operand, base: usize) -> Operand {
        while self.frames.len() > base && self.frames.last().and_then(Frame::level).is_some_and(|l| l >= level) {
            if let Some(frame) = self.frames.pop() {
                operand = self.finish_operator(frame, operand);
            }
        }
        operand
    }

    fn finish_operator(&mut self, frame: Frame, operand: Operand) -> Operand {
        match frame {
            Frame::Prefix { prefix, start } => {
                let expr = match prefix {
                    Prefix::Neg => Expr::Unary(UnaryOp::Neg, operand.id),
                    Prefix::Not => Expr::Unary(UnaryOp::Not, operand.id),
                    Prefix::Fst => Expr::Fst(operand.id),
                    Prefix::Snd => Expr::Snd(operand.id),
                };
                self.node(expr, start.to(operand.span))
            }
            Frame::Unknown { lhs } => self.node(Expr::Error, lhs.span.to(operand.span)),
            Frame::Infix { op, lhs } => self.node(Expr::Binary(op, lhs.id, operand.id), lhs.span.to(operand.span)),
            Frame::Compare { op, lhs, chain } => {
                let last = self.node(Expr::Binary(op, lhs.id, operand.id), lhs.span.to(operand.span));
                match chain {
                    None => last,
                    Some(first) => self.node(Expr::Binary(BinaryOp::And, first.id, last.id), first.span.to(last.span)),
                }
            }
            Frame::Iverson { guard, start } => {
                self.node(Expr::Iverson { guard, body: operand.id }, start.to(operand.span))
            }
            Frame::Body { kind, index, extent, start } => {
                self.node(Expr::Binder { kind, index, extent, body: operand.id }, start.to(operand.span))
            }
            Frame::LetBody { name, value, start } => {
                self.node(Expr::Let { name, value, body: operand.id }, start.to(operand.span))
            }
            // Groups have no level, so none gets here.
            Frame::LetValue { .. }
            | Frame::Extent { .. }
            | Frame::Paren { .. }
            | Frame::Guard { .. }
            | Frame::Access { .. }
            | Frame::Call { .. } => operand,
        }
    }

    /// The token at `end` ends the group on top, or one item of it.
    fn end_group(&mut self, token: Token, end: Span, operand: Operand) -> Next {
        match self.frames.last_mut() {
            Some(Frame::Paren { items, .. }) if token == Token::Comma => {
                items.push(operand);
                Next::Expect
            }
            Some(Frame::Access { indices: items, .. } | Frame::Call { args: items, .. }) if token == Token::Comma => {
                items.push(operand.id);
                Next::Expect
            }
            _ => match self.frames.pop() {
                Some(Frame::LetValue { name, start }) => {
                    self.open(Frame::LetBody { name, value: operand.id, start });
                    Next::Expect
                }
                Some(Frame::Extent { kind, index, mut done, start }) => {
                    done.push((index, operand.id));
                    if token == Token::Comma {
                        let index = self.binder_index();
                        self.open(Frame::Extent { kind, index, done, start });
                    } else {
                        self.open_bodies(kind, done, start);
                    }
                    Next::Expect
                }
                Some(Frame::Guard { open }) => self.guard(operand.id, open),
                Some(frame) => Next::Operand(self.finish_group(frame, operand, end)),
                None => Next::Operand(operand),
            },
        }
    }

    /// `gen i < n, j < m. e` is `gen i < n. gen j < m. e`.
    fn open_bodies(&mut self, kind: BinderKind, indices: Vec<(Name, ExprId)>, start: Span) {
        for (k, (index, extent)) in indices.into_iter().enumerate() {
            let start = if k == 0 { start } else { index.span };
            self.open(Frame::Body { kind, index, extent, start });
        }
    }

    /// Behind the `]` of a guard stands `*` and the body.
    fn guard(&mut self, guard: ExprId, open: Span) -> Next {
        if self.eat(Token::Star).is_none() {
            let message = format!("expected `*` and an expression behind the bracket, found {}", self.found());
            self.report(
                Diagnostic::new("missing-body", self.current.span, message)
                    .help("a bracket guards an expression: `[p] * e`; the number 1 or 0 is `[p] * 1`"),
            );
            if !starts_operand(self.token()) || self.current.starts_line {
                return Next::Operand(self.error_leaf());
            }
        }
        self.open(Frame::Iverson { guard, start: open });
        Next::Expect
    }

    /// Builds a group that is closed, or closed by force, at `end`.
    fn finish_group(&mut self, frame: Frame, operand: Operand, end: Span) -> Operand {
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
            Frame::Access { array, mut indices, .. } => {
                indices.push(operand.id);
                self.node(Expr::Access { array: array.id, indices }, array.span.to(end))
            }
            Frame::Call { callee, mut args, .. } => {
                args.push(operand.id);
                let span = callee.span.to(end);
                self.node(Expr::Call { callee, args }, span)
            }
            Frame::LetValue { name, start } => {
                let body = self.error_leaf();
                self.finish_operator(Frame::LetBody { name, value: operand.id, start }, body)
            }
            Frame::Extent { kind, index, mut done, start } => {
                done.push((index, operand.id));
                let mut body = self.error_leaf();
                for (index, extent) in done.into_iter().rev() {
                    body = self.finish_operator(Frame::Body { kind, index, extent, start }, body);
                }
                body
            }
            Frame::Guard { .. } => self.error_leaf(),
            frame => self.finish_operator(frame, operand),
        }
    }

    /// The current token neither continues the operand nor ends the group on top.
    fn recover(&mut self, operand: Operand, base: usize, stops: &[Token]) -> Next {
        let token = self.token();
        let outer = |parser: &Self| parser.frames.iter().skip(base).any(|frame| frame.accepts(token));
        if token == Token::End || is_decl(token) || stops.contains(&token) || outer(self) {
            return Next::Operand(self.close_groups(operand, base));
        }
        match self.frames.last() {
            Some(Frame::LetValue { .. })
                if token == Token::Let || starts_operand(token) && self.current.starts_line =>
            {
                self.report_open_group();
                return self.end_group(Token::In, self.current.span, operand);
            }
            Some(Frame::Extent { .. }) if starts_operand(token) => {
                self.report_open_group();
                return self.end_group(Token::Dot, self.current.span, operand);
            }
            Some(Frame::Guard { .. }) if token == Token::Comma => {
                let message = "expected `]` or an operator behind the predicate, found `,`";
                self.report(
                    Diagnostic::new("unexpected-token", self.current.span, message)
                        .help("a bracket holds one predicate: join several with `and`"),
                );
                self.advance();
                self.open(Frame::Infix { op: BinaryOp::And, lhs: operand });
                return Next::Expect;
            }
            _ => {}
        }
        if matches!(token, Token::RightParen | Token::RightBracket) {
            let message = format!("expected no closing bracket here, found {}", self.found());
            self.report(
                Diagnostic::new("unmatched-bracket", self.current.span, message)
                    .help("no bracket is open here that it could close"),
            );
            self.advance();
            return Next::Operand(operand);
        }
        let expected = match self.frames.last() {
            Some(Frame::LetValue { .. }) => "an operator, or `in` and the rest of the program",
            Some(Frame::Extent { .. }) => "an operator, or `.` and the body",
            Some(Frame::Paren { .. }) => "an operator, `,` or `)`",
            Some(Frame::Guard { .. }) => "an operator or `]`",
            Some(Frame::Access { .. }) => "an operator, `,` or `]`",
            _ => "an operator, `,` or a closing bracket",
        };
        let message = format!("expected {expected}, found {}", self.found());
        let mut diagnostic = Diagnostic::new("unexpected-token", self.current.span, message);
        if matches!(token, Token::LeftBracket | Token::LeftParen) {
            diagnostic = diagnostic.help(if token == Token::LeftParen && !self.current.starts_line {
                "only a name can be called; a product needs its sign, as in `2 * (a + b)`"
            } else {
                "an access or a call begins on the line on which what it applies to ends"
            });
        }
        self.report(diagnostic);
        if token == Token::Let {
            self.open(Frame::Infix { op: BinaryOp::Mul, lhs: operand });
            return Next::Expect;
        }
        if matches!(token, Token::In | Token::Comma | Token::Semicolon) {
            self.advance();
        }
        self.skip(|token| {
            matches!(
                token,
                Token::Let | Token::In | Token::RightParen | Token::RightBracket | Token::Comma | Token::Semicolon
            )
        });
        Next::Operand(operand)
    }

    /// Closes the groups on top that the current token cannot end.
    fn close_groups(&mut self, mut operand: Operand, base: usize) -> Operand {
        let (token, end) = (self.token(), self.last_end);
        while self.frames.len() > base && !self.frames.last().is_some_and(|frame| frame.accepts(token)) {
            self.report_open_group();
            if let Some(frame) = self.frames.pop() {
                operand = self.finish_group(frame, operand, end);
            }
            operand = self.finish_operators(0, operand, base);
        }
        operand
    }

    /// The group on top ends before its time.
    fn report_open_group(&mut self) {
        let found = self.found();
        let (expected, code, span) = match self.frames.last() {
            Some(Frame::Paren { open, .. }) => return self.unclosed(*open, "`)`"),
            Some(Frame::Guard { open } | Frame::Access { open, .. }) => return self.unclosed(*open, "`]`"),
            Some(Frame::Call { open, close, .. }) => return self.unclosed(*open, symbol_text(*close)),
            Some(Frame::LetValue { .. }) => {
                ("`in` and the expression in which the variable stands", "missing-body", self.current.span)
            }
            _ => ("`.` and the body behind the range", "missing-body", self.current.span),
        };
        self.report(Diagnostic::new(code, span, format!("expected {expected}, found {found}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surface::sexpr::{decls, sexpr};

    fn body(text: &str) -> String {
        let (ast, diagnostics) = parse(text);
        assert!(diagnostics.is_empty(), "{text}: {diagnostics:?}");
        sexpr(&ast, ast.body.expect(text))
    }

    fn check(table: &[(&str, &str)]) {
        for (text, expected) in table {
            assert_eq!(body(text), *expected, "{text}");
        }
    }

    #[test]
    fn parse_levels_of_operators() {
        check(&[
            ("a + b * c", "(+ a (* b c))"),
            ("a - b - c", "(- (- a b) c)"),
            ("a / b * c", "(* (/ a b) c)"),
            ("a ^ b ^ c", "(^ a (^ b c))"),
            ("-x^2", "(neg (^ x 2))"),
            ("-x * y", "(* (neg x) y)"),
            ("2 ^ -x * y", "(* (^ 2 (neg x)) y)"),
            ("2 ^ -x ^ 2", "(^ 2 (neg (^ x 2)))"),
            ("a - -b", "(- a (neg b))"),
            ("-3", "(neg 3)"),
            ("(a + b) * c", "(* (+ a b) c)"),
            ("not a < b and c", "(and (not (< a b)) c)"),
            ("a or b and c", "(or a (and b c))"),
            ("a * not b < c", "(* a (not (< b c)))"),
            ("a + b < c - d", "(< (+ a b) (- c d))"),
            ("fst ab[i]", "(fst (at ab i))"),
            ("(fst ab)[i]", "(at (fst ab) i)"),
            ("fst snd x ^ 2", "(^ (fst (snd x)) 2)"),
            ("x[i][j, k + 1]", "(at (at x i) j (+ k 1))"),
            ("f(x)[1]", "(at (f x) 1)"),
            ("max(a, b) - min(a, b)", "(- (max a b) (min a b))"),
            ("real(2*i - 1)", "(real (- (* 2 i) 1))"),
            ("select(x[i] > 0, a, b)", "(select (> (at x i) 0) a b)"),
            ("f()", "(f)"),
        ]);
    }

    #[test]
    fn parse_reach_of_brackets_binders_and_lets() {
        check(&[
            ("[p] * a * b + c", "(+ (iv p (* a b)) c)"),
            ("a * [p] * b", "(* a (iv p b))"),
            ("[p] * a / b", "(iv p (/ a b))"),
            ("[p] * [q] * e", "(iv p (iv q e))"),
            ("-[p] * a * b", "(neg (iv p (* a b)))"),
            ("[p] * a < b", "(< (iv p a) b)"),
            ("[i < j and (E(i, j) or i + 1 = j)] * e", "(iv (and (< i j) (or (E i j) (= (+ i 1) j))) e)"),
            ("[cam(o) = k] * e", "(iv (= (cam o) k) e)"),
            ("1 + sum i < n. x[i] + 2", "(+ 1 (sum i n (+ (at x i) 2)))"),
            ("(sum i < n. x[i]) + 2", "(+ (sum i n (at x i)) 2)"),
            ("2 * let y = 1 + z in y + 1", "(* 2 (let y (+ 1 z) (+ y 1)))"),
            ("let y = let z = a in z in y", "(let y (let z a z) y)"),
            ("gen i < n, j < m + 1. e", "(gen i n (gen j (+ m 1) e))"),
            ("[exists k < n, l < m. R(k, l) or p] * e", "(iv (exists k n (exists l m (or (R k l) p))) e)"),
            ("max i < n. x[i]", "(max i n (at x i))"),
            ("min i < n. x[i]", "(min i n (at x i))"),
            ("x[argmax i < n. x[i]]", "(at x (argmax i n (at x i)))"),
            ("argmin i < n. x[i]", "(argmin i n (at x i))"),
            ("gen i < 2. e", "(gen i 2 e)"),
            ("gen i < n. value(i)", "(gen i n (value i))"),
            ("sum i < n. [i < 2] * x[i] + y", "(sum i n (+ (iv (< i 2) (at x i)) y))"),
        ]);
    }

    #[test]
    fn parse_chains_share_the_middle() {
        check(&[
            ("[0 <= i < n] * e", "(iv (and (<= 0 i) (< i n)) e)"),
            ("[0 <= i < j < n or p] * e", "(iv (or (and (and (<= 0 i) (< i j)) (< j n)) p) e)"),
            ("[n > i >= 0] * e", "(iv (and (> n i) (>= i 0)) e)"),
        ]);
        let (ast, _) = parse("[0 <= i < n] * e");
        assert_eq!(ast.exprs.values().filter(|expr| **expr == Expr::Name("i".into())).count(), 1);
    }

    #[test]
    fn parse_pairs_calls_and_sparse_reads() {
        check(&[
            ("(a, b)", "(pair a b)"),
            ("(a, b, c)", "(pair a (pair b c))"),
            ("((a, b), c)", "(pair (pair a b) c)"),
            ("[A?(i, j)] * A.value(i, j)", "(iv (A? i j) (A.value i j))"),
            ("A.value[i, j] + 1", "(+ (A.value i j) 1)"),
            ("dot(a, gen i < n. b[i])", "(dot a (gen i n (at b i)))"),
        ]);
    }

    #[test]
    fn parse_unicode_spellings() {
        check(&[
            ("⊞ i < n. Σ j < m. x[i] · y[j] × 2 − 1", "(gen i n (sum j m (- (* (* (at x i) (at y j)) 2) 1)))"),
            (
                "∑i < n. Σj<n. [i ≤ j ∧ ¬(i ≥ 2) ∨ i ≠ 1] · x'",
                "(sum i n (sum j n (iv (or (and (<= i j) (not (>= i 2))) (!= i 1)) x')))",
            ),
            ("[∃ k < n. R(k)] * größe₁", "(iv (exists k n (R k)) größe₁)"),
        ]);
    }

    #[test]
    fn parse_numbers() {
        check(&[
            ("1.5e-3 + 1e9 + 1.5 + 12", "(+ (+ (+ 0.0015r 1000000000r) 1.5r) 12)"),
            ("9223372036854775807 - 9223372036854775808", "(- 9223372036854775807 9223372036854776000r)"),
            ("-inf + nan", "(+ (neg infr) NaNr)"),
        ]);
    }

    #[test]
    fn parse_declarations() {
        for (text, expected) in [
            ("param x : [n + m - 1] real", "(param x dense [(- (+ n m) 1)]real)"),
            ("param A : csr [m, n] real", "(param A csr [m n]real)"),
            ("param A : csc [m, n] real", "(param A csc [m n]real)"),
            ("param T : coo [p, q, r] real", "(param T coo [p q r]real)"),
            ("param ab : [n] (real, [3] real, real)", "(param ab dense [n](real ([3]real real)))"),
            ("param s : (real)", "(param s dense real)"),
            ("rel E : [n, n]", "(rel E [n n])"),
            ("map cam : [p] -> [c]", "(map cam [p] c)"),
            ("map f : [p, q] → [c + 1]", "(map f [p q] (+ c 1))"),
            ("assume n >= 2", "(assume (>= n 2))"),
            (
                "def dot(a : [k] real, b : [k] real) = sum i < k. a[i] * b[i]",
                "(def dot (a [k]real b [k]real) (sum i k (* (at a i) (at b i))))",
            ),
            ("fun f(a, b) = a * b with (b, a)", "(fun f (a b) (* a b) b a)"),
            ("fun g(a) = exp(a) with (result);", "(fun g (a) (exp a) result)"),
        ] {
            for end in ["\n0", "\n(0)", "\n[p] * 0", " let y = 0 in y", "\nparam z : real 0", "; -1"] {
                let (ast, diagnostics) = parse(&format!("{text}{end}"));
                assert!(diagnostics.is_empty(), "{text}{end}: {diagnostics:?}");
                assert_eq!(decls(&ast)[0], expected);
            }
        }
    }

    #[test]
    fn parse_whole_program() {
        let text = "# deconvolution.iv                     comments run to the end of the line
            param x : [n + m - 1] real             # sizes are affine in size variables
            param w : [m] real
            param z : [n] real
            let y = gen i < n. sum j < m. x[i - j + m - 1] * w[j]
            in sum i < n. (y[i] - z[i])^2";
        let (ast, diagnostics) = parse(text);
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        assert_eq!(ast.decls.len(), 3);
        assert_eq!(
            sexpr(&ast, ast.body.unwrap()),
            "(let y (gen i n (sum j m (* (at x (- (+ (- i j) m) 1)) (at w j)))) (sum i n (^ (- (at y i) (at z i)) 2)))"
        );
    }

    #[test]
    fn parse_spans_are_precise() {
        let text = "\u{feff}# Σ\nlet y = (a + b)[i] in gen i < n, j < m. f(y)";
        let (ast, _) = parse(text);
        let mut found: Vec<&str> = ast.spans.values().map(|span| &text[span.range()]).collect();
        found.sort();
        let mut expected = vec![
            "a",
            "b",
            "a + b",
            "i",
            "(a + b)[i]",
            "n",
            "m",
            "y",
            "f(y)",
            "j < m. f(y)",
            "gen i < n, j < m. f(y)",
            "let y = (a + b)[i] in gen i < n, j < m. f(y)",
        ];
        expected.sort();
        assert_eq!(found, expected);
    }

    /// Codes with the text at fault.
    fn problems(text: &str) -> Vec<(&'static str, &str)> {
        let (ast, diagnostics) = parse(text);
        for (id, expr) in ast.exprs.iter() {
            for operand in crate::surface::sexpr::operands(expr) {
                assert!(operand < id, "{text}: operands come first");
            }
        }
        diagnostics.iter().map(|d| (d.code, &text[d.span.range()])).collect()
    }

    #[test]
    fn parse_reports_problems() {
        for (text, expected) in [
            ("", vec![("missing-body", "")]),
            ("param x : real", vec![("missing-body", "")]),
            ("a +", vec![("unexpected-token", "")]),
            ("a b", vec![("unexpected-token", "b")]),
            ("(a + b", vec![("unclosed-bracket", "(")]),
            ("(a +", vec![("unclosed-bracket", "("), ("unexpected-token", "")]),
            ("x[i", vec![("unclosed-bracket", "[")]),
            ("f(a]", vec![("unclosed-bracket", "("), ("unmatched-bracket", "]")]),
            ("x[f(a]", vec![("unclosed-bracket", "(")]),
            ("a)", vec![("unexpected-token", ")")]),
            ("f(a))", vec![("unexpected-token", ")")]),
            ("1.5.2", vec![("bad-number", "1.5.2")]),
            ("2x", vec![("bad-number", "2x")]),
            ("1e + 2", vec![("bad-number", "1e")]),
            ("1e999", vec![("bad-number", "1e999")]),
            ("a @@ b", vec![("bad-character", "@@")]),
            ("a && b", vec![("bad-character", "&&")]),
            ("[a == b] * c", vec![("unexpected-token", "==")]),
            (".5", vec![("unexpected-token", ".")]),
            ("+1", vec![("unexpected-token", "+")]),
            ("[p]", vec![("missing-body", "")]),
            ("[p] e", vec![("missing-body", "e")]),
            ("[p, q] * e", vec![("unexpected-token", ",")]),
            ("[0 < i > j] * e", vec![("ambiguous-comparison", ">")]),
            ("[i != j != k] * e", vec![("ambiguous-comparison", "!=")]),
            ("let y = a", vec![("missing-body", "")]),
            ("let y = a let z = b in y", vec![("missing-body", "let")]),
            ("let = a in b", vec![("unexpected-token", "=")]),
            ("let sum = a in b", vec![("unexpected-token", "sum")]),
            ("let y a in y", vec![("unexpected-token", "a")]),
            ("gen i < n x[i]", vec![("missing-body", "x")]),
            ("(gen i < n)", vec![("missing-body", ")")]),
            ("gen i <= n. e", vec![("unexpected-token", "<=")]),
            ("gen i in n. e", vec![("unexpected-token", "in")]),
            ("max + 1", vec![("unexpected-token", "+")]),
            ("x[]", vec![("unexpected-token", "]")]),
            ("(a, b,)", vec![("unexpected-token", ")")]),
            ("x\n[i]", vec![("unexpected-token", "[")]),
            ("(x\n[i])", vec![("unexpected-token", "[")]),
            ("2(a)", vec![("unexpected-token", "(")]),
            ("A? + 1", vec![("unexpected-token", "+")]),
            ("param x real\n0", vec![("unexpected-token", "real")]),
            ("param x : [n real\n0", vec![("unclosed-bracket", "[")]),
            ("param x : [n]\n0", vec![("unexpected-token", "0")]),
            ("param let : real\n0", vec![("unexpected-token", "let")]),
            ("param\nlet x = 0 in x", vec![("unexpected-token", "let")]),
            ("param x : ()\n0", vec![("unexpected-token", "()")]),
            ("map f : [p] -> [c, d]\n0", vec![("unexpected-token", "[c, d]")]),
            ("map f : [p]\n0", vec![("unexpected-token", "0")]),
            ("fun f(a, b) = a with (b)\n0", vec![("partials-count", "f")]),
            ("fun f(a) = a\n0", vec![("unexpected-token", "0")]),
            ("x\nparam x : real\nparam y : real", vec![("misplaced-declaration", "param")]),
            ("parm x : real\nparam y : real\ny", vec![("unknown-declaration", "parm")]),
            ("x\nprm y", vec![("unexpected-token", "prm")]),
            ("let a = 1\na", vec![("missing-body", "a")]),
            ("[i % 2 = 0] * a", vec![("bad-character", "%")]),
            ("a + \"b c\"", vec![("bad-character", "\"b c\"")]),
        ] {
            assert_eq!(problems(text), expected, "{text}");
        }
    }

    #[test]
    fn parse_reports_several_problems_in_one_go() {
        let text =
            "param x : [n reel\nparam y : [m] real\nmap c : [p] >> [q]\ndef f(a : real) = a +\nlet u = (x[1 + ] * 2x in
            let v = sum i < n u[i] in [v > ] * (u + v";
        assert_eq!(
            problems(text),
            vec![
                ("unclosed-bracket", "["),
                ("unexpected-token", ">"),
                ("unclosed-bracket", "("),
                ("unexpected-token", "]"),
                ("bad-number", "2x"),
                ("missing-body", "u"),
                ("unexpected-token", "]"),
                ("unclosed-bracket", "("),
            ]
        );
    }

    #[test]
    fn parse_messages_say_expected_and_found() {
        for (text, message) in [
            ("(a + b", "expected `)` to close this `(`, found the end of the text"),
            ("gen i < n x[i]", "expected `.` and the body behind the range, found the name `x`"),
            ("param x : 3\n0", "expected a type such as `real`, `[n] real` or `(real, real)`, found the number `3`"),
            ("a *", "expected an expression, found the end of the text"),
        ] {
            assert_eq!(parse(text).1[0].message, message);
        }
    }

    #[test]
    fn parse_stops_at_limits() {
        let codes = |text: &str| parse(text).1.iter().map(|d| d.code).collect::<Vec<_>>();
        assert_eq!(codes(&" ".repeat(MAX_TEXT + 1)), ["too-large"]);
        assert_eq!(codes(&format!("param x : {}real 0", "[n]".repeat(MAX_TYPE_NESTING - 1))), [""; 0]);
        assert_eq!(codes(&format!("param x : {}real\n0", "[n]".repeat(MAX_TYPE_NESTING))), ["too-deep"]);
        assert_eq!(codes(&format!("param x : ({}real)\n0", "real, ".repeat(100))), ["too-deep"]);
        let many = codes(&format!("f({}", "f(a b), ".repeat(1000)));
        assert_eq!((many.len(), many.last()), (MAX_DIAGNOSTICS, Some(&"too-many-errors")));
        assert_eq!(codes(&"(".repeat(MAX_NESTING + 1)).last(), Some(&"too-deep"));
    }

    /// Runs with the stack of a small thread.
    fn on_small_stack(work: impl FnOnce() + Send + 'static) {
        std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
    }

    #[test]
    fn parse_a_million_deep() {
        on_small_stack(|| {
            let deep = 1_000_000;
            for (text, exprs) in [
                (format!("{}x", "let x = 1 in ".repeat(deep)), 2 * deep + 1),
                (format!("{}x{}", "(".repeat(deep), ")".repeat(deep)), 1),
                (format!("x{}", " + x".repeat(deep)), 2 * deep + 1),
                (format!("x{}", "^x".repeat(deep)), 2 * deep + 1),
                (format!("{}x", "sum i < n. ".repeat(deep)), 2 * deep + 1),
                (format!("{}x", "[p] * ".repeat(deep)), 2 * deep + 1),
                (format!("{}x", "- ".repeat(deep)), deep + 1),
                (format!("({}x)", "x, ".repeat(deep)), 2 * deep + 1),
                (format!("{}x{}", "x[".repeat(deep), "]".repeat(deep)), 2 * deep + 1),
            ] {
                let (ast, diagnostics) = parse(&text);
                assert!(diagnostics.is_empty(), "{diagnostics:?}");
                assert_eq!(ast.exprs.len(), exprs);
            }
            for broken in ["(", "x[f(", "let x = ", "gen i < ", "[", "(]", ")", "[(", "x y ", "def f(a : "] {
                assert!(!parse(&broken.repeat(deep)).1.is_empty());
            }
            let far = format!("{}[{}x]", "(".repeat(deep), "(".repeat(deep));
            assert!(!parse(&far).1.is_empty());
        });
    }

    #[test]
    fn parse_survives_any_text() {
        let pieces = [
            "let ", "in ", "gen ", "sum ", "max ", "i ", "< ", "n ", ". ", "( ", ") ", "[ ", "] ", ", ", "* ", "- ",
            "not ", "param ", "def ", ": ", "real ", "= ", "\n", "1 ", "A?", ".value(", "; ", "with ", "fun ", "map ",
            "-> ", "@", "Σ", "fst ", "1.5", "assume ", "rel ", "exists ", "#", "csr ", "^",
        ];
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let text: String = (0..random.usize(0..30)).map(|_| *random.choice(&pieces).unwrap()).collect();
            let (ast, diagnostics) = parse(&text);
            let errors = ast.exprs.values().any(|expr| *expr == Expr::Error);
            assert!(!diagnostics.is_empty() || ast.body.is_some() && !errors, "{text}");
            for diagnostic in &diagnostics {
                assert!(text.get(diagnostic.span.range()).is_some(), "{text}: {diagnostic:?}");
                assert!(diagnostic.message.starts_with("expected "), "{text}: {diagnostic:?}");
            }
            for (id, expr) in ast.exprs.iter() {
                assert!(crate::surface::sexpr::operands(expr).iter().all(|operand| *operand < id), "{text}");
            }
        }
    }
}

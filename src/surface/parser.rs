//! Text to [`Ast`].
//!
//! ```text
//! program  = ("import" text | decl [";"])* expr [";"]
//! decl     = "param" name ":" ["csr" | "csc" | "coo"] type | "rel" name,+ ":" sizes | "map" name,+ ":" sizes "->" "[" expr "]"
//!          | "assume" expr | "def" name "(" (name ":" type),* ")" [(":" | "->") type] "=" expr
//!          | "fun" name "(" name,* ")" "=" expr "with" "(" expr,+ ")"
//! type     = plain | (plain | "(" type,+ ")") "->" type       sizes = "[" expr,+ "]"
//! plain    = "real" | sizes plain | "(" type,+ ")" | "index" size | name
//! expr     = "let" (pattern "=" expr),+ ("in" | ";" | line break) expr | "let" pattern "," pattern "=" expr ("in" | ";" | line break) expr
//!          | ("let" name parameters "=" expr | "def" name parameters "=" expr | "const" name "=" expr) ("in" | ";" | line break) expr
//!          | binder range,+ "." expr | binder "(" range,+ ")" ["."] expr | binder "(" range,+ "." expr ")"
//!          | of_vector range,+ "." expr | of_vector "(" range,+ "." expr ")"
//!          | "iterate" pattern "=" expr "while" pred ["," "at" "most" expr] "." expr
//!          | "fixpoint" pattern "=" expr ["while" pred] "," "at" "most" expr "." expr
//!          | "unfold" pattern "=" expr "while" pred "," "at" "most" expr "." expr
//!          | ("fold" | "scan") name "<" expr ["down"] "," pattern "=" expr "." expr
//!          | "if" expr "then" expr "else" expr | "[" expr "]" [["*"] expr]
//!          | "[" expr "," expr,+ "]" | operators
//!          | "fn" (pattern [":" type]),+ "." expr
//! range    = [expr ("<" | "<=")] (name ("<" | "<="))+ expr
//! access   = expr "[" (expr | [expr] ":" [expr] [":" [expr]]),+ "]"
//! binder   = "gen" | "sum" | "mean" | "prod" | "max" | "min" | "argmax" | "argmin" | "exists"
//! of_vector = "logsumexp" | "softmax" | ..                        the functions of the library that take a vector alone
//! pattern  = name | "(" pattern,+ ")"
//! ```
//!
//! Operators from loose to tight: `or`; `and`; `not`; comparisons; `+ -`; `* / @`; unary `-`; `^` to the right; `fst`, `snd`;
//! access `e[..]`, call `f(..)` and `(e)(..)`, and `'` behind a closing bracket. A `let`, an `if`, a binder, a scan, a `fn` or a bracket may stand wherever an operand may, and reaches as far right
//! as it can: a `let`, an `else`, a binder, a scan and a `fn` to the end of what encloses them, `[p] *` over products and quotients but not over sums.
//! `0 <= i < n` is `0 <= i and i < n` with one node for both `i`. `down` is a word like others elsewhere.
//!
//! **Where an expression ends.** No expression follows another without an operator, so a declaration ends where the next
//! operand begins. Two cases would be read as one expression: a `[` or `(` is an access or a call only on the line on which
//! what it applies to ends, so a bracket at the start of a line begins something new; and a `-` behind an operand is a
//! difference, unless it begins a line that is indented no deeper than the line of the `let` or declaration whose value would go on.
//!
//! The parser is an operator-precedence parser with its stack on the heap. Every token is pushed and popped once, so time is
//! linear and depth costs no call stack. Only types recurse, to [`MAX_TYPE_NESTING`](super::MAX_TYPE_NESTING).
//!
//! **Errors.** A problem is reported once for each place; the parser then closes what is open, or skips to a token on which
//! it can go on (a declaration, `let`, `in`, a comma, a closing bracket), with an [`Expr::Error`] where an expression is missing.
//! After [`MAX_DIAGNOSTICS`] problems it stops.
//!
//! | file | job |
//! |---|---|
//! | `frame` | what waits on the stack: operators with their levels, groups |
//! | `declaration` | declarations and types |
//! | `expression` | expressions |
//! | `binders` | indices, ranges and bodies of `sum`, `gen` and so on |
//! | `brackets` | selects and vectors |
//! | `cases` | sum types, `case`, types at names |
//! | `choices` | places that are the smaller or the larger of two, or one of two |
//! | `definitions` | definitions behind a `let`, constants |
//! | `function` | `fn` |
//! | `habits` | what other languages go on with |
//! | `misread` | what is right and easily misread |
//! | `parts` | parts of axes, `x[a:b]` |
//! | `ranges` | ranges with two ends, `1 <= i < n` |
//! | `recovery` | how reading goes on behind a mistake |
//! | `scan` | `fold`, `scan`, `iterate`, `fixpoint` and `unfold` |

mod binders;
mod brackets;
mod cases;
mod choices;
mod declaration;
mod definitions;
mod expression;
mod frame;
mod function;
mod groups;
mod habits;
mod misread;
mod parts;
mod ranges;
mod recovery;
mod scan;
#[cfg(test)]
mod tests;

use rustc_hash::FxHashSet;

use crate::base::Span;
use crate::error::Diagnostic;

use self::frame::Frame;
use super::ast::{Ast, BinaryOp, Expr, ExprId, Name};
use crate::base::MAX_TEXT;
use crate::lexer::{Lexeme, Lexer, Token};

/// What a `//` behind an operand takes.
const DIVISOR: &str =
    "the divisor of `//` is a positive integer literal, as in `n // 2`; a comment behind code begins with `#`";

/// The most expressions in a program.
pub const MAX_EXPRS: usize = 16 << 20;
/// The most constructs open at once.
pub const MAX_NESTING: usize = 4 << 20;
/// How many nodes are looked at for warnings.
const MAX_LOOKED_AT: usize = 1 << 20;
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
        current: Lexeme { token: Token::End, span: Span::default(), starts_line: true, indent: 0 },
        last_end: Span::default(),
        frames: Vec::new(),
        ast: Ast::default(),
        diagnostics: Vec::new(),
        reported_at: None,
        unclosed_at: None,
        skipped: false,
        halted: false,
        indent: None,
        unranged: None,
        divided_at: None,
        known: Vec::new(),
        known_sizes: FxHashSet::default(),
        looked_at: 0,
    };
    parser.advance();
    parser.program();
    parser.warn_of_assignment();
    if !parser.diagnostics.is_empty() {
        parser.ast.unread = definitions::names_given(text);
    }
    parser.diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
    parser.ast.warnings.sort_by_key(|warning| warning.span.start);
    (parser.ast, parser.diagnostics)
}

/// A finished expression; its place includes the parentheses around it, which its node does not.
#[derive(Clone, Copy)]
struct Operand {
    id: ExprId,
    span: Span,
}

pub(super) fn is_decl(token: Token) -> bool {
    matches!(token, Token::Param | Token::Rel | Token::Map | Token::Assume | Token::Def | Token::Fun)
}

/// Whether a token binds an index.
pub(super) fn is_binder(token: Token) -> bool {
    matches!(token, Token::Gen | Token::Sum | Token::Max | Token::Min | Token::ArgMax | Token::ArgMin | Token::Exists)
}

/// Whether a token begins an operand and cannot continue one.
fn starts_operand(token: Token) -> bool {
    is_binder(token)
        || matches!(
            token,
            Token::Name
                | Token::Fold
                | Token::Scan
                | Token::Iterate
                | Token::Fixpoint
                | Token::Unfold
                | Token::Fn
                | Token::Number { .. }
                | Token::LeftParen
                | Token::LeftBracket
                | Token::Let
                | Token::If
                | Token::Case
                | Token::Not
                | Token::Fst
                | Token::Snd
                | Token::Real
                | Token::Foreign
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
    /// How far the declaration is indented that is read.
    indent: Option<u32>,
    /// The end of the last index without a range.
    unranged: Option<u32>,
    /// Where the last `//` stands whose divisor is no number: what follows may be meant as a comment.
    divided_at: Option<u32>,
    /// The names of what is declared so far, of sizes in types, and of the parameters of the definition that is read.
    known: Vec<String>,
    /// Those of sizes.
    known_sizes: FxHashSet<String>,
    /// How many nodes were looked at for warnings, and for what a name means.
    looked_at: usize,
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
            self.current = Lexeme { token: Token::End, span: Span::new(at, at), starts_line: true, indent: 0 };
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
            let is_text = self.is_behind_division();
            self.push_diagnostic(if is_text { diagnostic.help(DIVISOR) } else { diagnostic });
            if is_text {
                // What was read as a divisor is the front of a text, of which nothing more is said.
                self.forget_division();
                self.lexer.skip_line();
                self.advance();
                self.reported_at = Some(self.current.span.start);
            }
        }
    }

    /// Puts a mistake in the place of the last floor division.
    fn forget_division(&mut self) {
        let at = self.divided_at.take().unwrap_or_default();
        let waits = self
            .frames
            .iter_mut()
            .rev()
            .find(|frame| matches!(frame, Frame::Infix { op: BinaryOp::FloorDiv, lhs } if lhs.span.end <= at));
        if let Some(frame) = waits
            && let Frame::Infix { lhs, .. } = *frame
        {
            *frame = Frame::Unknown { lhs };
        } else if let Some(e) =
            self.ast.exprs.ids().rev().find(|e| matches!(self.ast.exprs[*e], Expr::Binary(BinaryOp::FloorDiv, ..)))
        {
            self.ast.exprs[e] = Expr::Error;
        }
    }

    /// Whether a `//` with a divisor that is no number stands in front of this token on its line.
    fn is_behind_division(&self) -> bool {
        let line = self.divided_at.and_then(|at| self.text.get(at as usize..self.current.span.start as usize));
        !self.halted && line.is_some_and(|line| !line.contains('\n'))
    }

    /// Reports a group that the current token cannot end.
    fn report_unclosed(&mut self, diagnostic: Diagnostic) {
        if self.unclosed_at != Some(self.current.span.start) {
            self.unclosed_at = Some(self.current.span.start);
            self.reported_at = Some(self.current.span.start);
            self.push_diagnostic(diagnostic);
        }
    }

    /// A part of the text, for messages, which have one line.
    fn in_one_line(&self, span: Span) -> String {
        self.text.get(span.range()).unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ")
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
        self.report(diagnostic.help("a keyword cannot be a name; add a letter or a `'`, as in `fold'`"));
        if self.current.starts_line {
            return None;
        }
        // Read on as if it were the name.
        self.advance();
        Some(self.name_at(span))
    }

    fn name_at(&self, span: Span) -> Name {
        let text = match self.text.get(span.range()).unwrap_or("") {
            "∏" => "prod",
            text => text,
        };
        Name { text: text.to_string(), span }
    }

    fn program(&mut self) {
        // A misspelt declaration is read as the body; the declarations behind it are no second mistake.
        let mut body_failed = false;
        // Whether a declaration stands behind the body: what stands behind it was meant as the body.
        let mut misplaced = false;
        loop {
            let token = self.token();
            if token == Token::End {
                break;
            } else if token == Token::Semicolon {
                self.advance();
            } else if token == Token::SlashSlash && !self.ast.decls.is_empty() && self.ast.body.is_none() {
                // No operator goes on with a declaration, so this is a comment behind it.
                self.lexer.skip_line();
                self.advance();
            } else if is_decl(token) && !(self.ast.body.is_none() && self.maps_function())
                || self.begins_size()
                || self.begins_type()
                || self.ast.body.is_none() && self.begins_constant()
            {
                if self.ast.body.is_some() && !body_failed {
                    body_failed = true;
                    let message =
                        format!("expected the end of the text behind the program's body, found {}", self.found());
                    self.report(
                        Diagnostic::new("misplaced-declaration", self.current.span, message)
                            .help("declarations come before the body"),
                    );
                }
                misplaced |= self.ast.body.is_some();
                self.decl();
            } else if self.import() {
            } else if let Some(keyword) = self.misspelt_declaration() {
                self.ast.body = None;
                self.decl_of(keyword);
            } else if self.ast.body.is_none() {
                let body = self.expression(&[]);
                self.ast.body = Some(body.id);
            } else {
                // What follows is seldom a problem of its own.
                let is_missing = self.ast.body.is_some_and(|body| matches!(self.ast.exprs[body], Expr::Error));
                let is_known = is_missing && !self.diagnostics.is_empty();
                if !misplaced && !body_failed && !is_known {
                    self.report_rest();
                }
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

    /// A placeholder for a name that is missing; it was reported.
    fn no_name(&self) -> Name {
        let at = self.current.span.start as usize;
        Name { text: String::new(), span: Span::new(at, at) }
    }
}

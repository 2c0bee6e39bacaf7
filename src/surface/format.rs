//! White space as others expect it.
//!
//! ```text
//! tokens(format(t)) = tokens(t)    comments(format(t)) = comments(t)    format(format(t)) = format(t)
//! ```
//!
//! Where a line ends is the author's decision, and comments stay where they are. What changes is blanks between tokens, how far lines are indented,
//! and empty lines, of which one is left. Products with a number, `2*i`, may be tight. So a text keeps its meaning token by token, which is checked before it is given back.
//!
//! *Indentation.* A line is indented once for each earlier line on which something begins that goes on here: a declaration, a bracket, the
//! value of a `let`, an expression. A line that begins with a closing bracket counts as the one on which it was opened. The body of a `let` is not inside of it, so lines of a block stand below each other. Comments stand as the
//! token behind them.
//!
//! *Refused* is a text that does not parse, with what the parser says; a library, which has no body, is laid out too. What a text means is not looked at: no import is read, and a program
//! that is badly typed is laid out as well as any other.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::ast::{Ast, Expr};
use super::parser::{is_binder, is_decl, parse};
use crate::base::Span;
use crate::error::{Diagnostic, Error, Result};
use crate::lexer::{Lexeme, Lexer, Token};

/// How much deeper a line stands than the one on which begins what goes on.
const INDENT: &str = "  ";

/// Lays out a program text.
///
/// ```
/// let text = "param x:[n] real # a signal\nsum i<n-1 .\n(x[i+1]-x[i])^2";
/// let laid_out = iverson::ir::surface::format(text)?;
/// assert_eq!(laid_out, "param x : [n] real  # a signal\nsum i < n - 1.\n  (x[i + 1] - x[i])^2\n");
/// # Ok::<(), iverson::Error>(())
/// ```
///
/// # Errors
/// [`Error::Program`] if the text does not parse.
pub fn format(text: &str) -> Result<String> {
    let (ast, problems) = read(text);
    if !problems.is_empty() {
        return Err(Error::Program(problems).in_text(text));
    }
    let source = Source::new(text);
    let starts = Starts::new(&ast, &source);
    let laid_out = source.lay_out(&starts);
    let again = Source::new(&laid_out);
    match source.content().eq(again.content()) && read(&laid_out).1.is_empty() {
        true => Ok(laid_out),
        false => Err(Error::bug("format", "white space alone changed what a text says")),
    }
}

/// Reads a program, or a library, which has no body.
fn read(text: &str) -> (Ast, Vec<Diagnostic>) {
    let (ast, mut problems) = parse(text);
    problems.retain(|problem| problem.code != "missing-body");
    (ast, problems)
}

/// A text as tokens, and what stands between them.
struct Source<'a> {
    text: &'a str,
    /// Without the end.
    tokens: Vec<Lexeme>,
    /// Whether the innermost bracket around each token is a square one.
    in_square: Vec<bool>,
}

/// What stands between two tokens, where it ends a line.
struct Break<'a> {
    /// The comment that ends the line.
    trailing: Option<&'a str>,
    /// The comments on lines of their own, and the empty lines between and around them.
    lines: Vec<Option<&'a str>>,
}

impl<'a> Source<'a> {
    fn new(text: &'a str) -> Self {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        // The parser has reported what is to be said.
        let mut problems = Vec::new();
        let (mut open, mut in_square) = (Vec::new(), Vec::new());
        loop {
            let lexeme = lexer.next(&mut problems);
            match lexeme.token {
                Token::End => return Source { text, tokens, in_square },
                Token::LeftParen | Token::LeftBracket => open.push(lexeme.token),
                Token::RightParen | Token::RightBracket => drop(open.pop()),
                _ => {}
            }
            in_square.push(open.last() == Some(&Token::LeftBracket));
            tokens.push(lexeme);
        }
    }

    fn of(&self, lexeme: &Lexeme) -> &'a str {
        self.text.get(lexeme.span.range()).unwrap_or("")
    }

    /// The blanks and comments in front of a token, or behind the last one.
    fn before(&self, at: usize) -> &'a str {
        let start = at.checked_sub(1).map_or(0, |before| self.tokens[before].span.end as usize);
        let end = self.tokens.get(at).map_or(self.text.len(), |lexeme| lexeme.span.start as usize);
        self.text.get(start..end).unwrap_or("").trim_start_matches('\u{feff}')
    }

    /// What ends the line in front of a token; nothing where the line goes on.
    fn line_break(&self, at: usize) -> Option<Break<'a>> {
        let (first, rest) = self.before(at).split_once('\n')?;
        let comment = |line: &'a str| Some(line.trim()).filter(|line| !line.is_empty());
        // Behind the last line break stands the token.
        let lines = rest.rsplit_once('\n').map(|(lines, _)| lines.split('\n').map(comment).collect());
        Some(Break { trailing: comment(first), lines: lines.unwrap_or_default() })
    }

    /// What may not change: tokens as written, with whether they start a line, and comments.
    fn content(&self) -> impl Iterator<Item = (&'a str, bool)> {
        (0..=self.tokens.len()).flat_map(|at| {
            let comments = self.before(at).split('\n').map(str::trim).filter(|line| !line.is_empty());
            let token = self.tokens.get(at).map(|lexeme| (self.of(lexeme), at == 0 || lexeme.starts_line));
            comments.map(|comment| (comment, false)).chain(token)
        })
    }

    fn lay_out(&self, starts: &Starts) -> String {
        let mut lines = Lines::default();
        for (at, lexeme) in self.tokens.iter().enumerate() {
            let start = lexeme.span.start as usize;
            match self.line_break(at) {
                _ if at == 0 => {
                    // The first token may stand behind comments.
                    let before = self.before(0).rsplit_once('\n').map_or("", |(before, _)| before);
                    before.split('\n').for_each(|line| lines.comment(0, line.trim()));
                    lines.begin(0);
                }
                Some(found) => {
                    let depth = starts.depth(start);
                    lines.end(found.trailing);
                    found.lines.into_iter().for_each(|line| lines.comment(depth, line.unwrap_or("")));
                    lines.begin(depth);
                }
                None if self.is_apart(at) => lines.text.push(' '),
                None => {}
            }
            lines.text.push_str(self.of(lexeme));
        }
        let behind = self.before(self.tokens.len());
        let (trailing, rest) = behind.split_once('\n').unwrap_or((behind, ""));
        lines.end(Some(trailing.trim()).filter(|comment| !comment.is_empty()));
        rest.split('\n').for_each(|line| lines.comment(0, line.trim()));
        lines.finish()
    }

    /// Whether a blank stands in front of a token that does not start a line.
    fn is_apart(&self, at: usize) -> bool {
        let token = |at: usize| self.tokens.get(at).map(|lexeme| lexeme.token);
        let (Some(next), Some(before)) = (token(at), at.checked_sub(1).and_then(token)) else { return false };
        let as_written = !self.before(at).is_empty();
        let before_that = at.checked_sub(2).and_then(token);
        let is_axis = |at: usize| {
            token(at) == Some(Token::Colon)
                && matches!(token(at.wrapping_sub(1)), Some(Token::LeftBracket | Token::Comma))
        };
        match (before, next) {
            (Token::LeftParen | Token::LeftBracket | Token::Caret | Token::DotValue, _) => false,
            (
                _,
                Token::Comma
                | Token::Semicolon
                | Token::RightParen
                | Token::RightBracket
                | Token::Dot
                | Token::DotValue
                | Token::Prime
                | Token::Raised(_)
                | Token::Question
                | Token::Caret,
            ) => false,
            (Token::Minus | Token::Plus, _) if !before_that.is_some_and(ends_operand) => false,
            // At the start of a line only the parser knows whether it is a difference.
            (Token::Minus, _) if self.tokens[at - 1].starts_line => as_written,
            (Token::Colon, _) if is_axis(at - 1) => false,
            // `x[1:]` and `x[i + 1 : n]`.
            (Token::Colon, _) if self.in_square[at - 1] => as_written,
            (before, Token::Colon) if self.in_square[at] && before != Token::Comma => as_written,
            (Token::Question, Token::LeftParen) => false,
            // `exp.(x)` beside `gen i < n. (x)`.
            (Token::Dot, Token::LeftParen) => as_written,
            // `mean (i < n) e` beside `mean(x)`.
            (Token::Name, Token::LeftParen) if self.of(&self.tokens[at - 1]) == "mean" => as_written,
            (Token::Name | Token::Prime, Token::LeftParen | Token::LeftBracket) => false,
            (before, Token::LeftParen | Token::LeftBracket) if ends_operand(before) || is_prefix(before) => as_written,
            // `2*i + 1` and `1/2` may be tight.
            (Token::Star | Token::Slash, _) => !self.is_tight(at - 1),
            (_, Token::Star | Token::Slash) => !self.is_tight(at),
            // `¬p`, `!p`.
            (Token::Not, _) if self.of(&self.tokens[at - 1]) != "not" => as_written,
            _ => true,
        }
    }

    /// Whether a `*` or `/` is written without blanks behind a number, as in `2*i` and `1/2`, or between a name and a number, as in `n/2`.
    fn is_tight(&self, at: usize) -> bool {
        let token = |at: usize| self.tokens.get(at).map(|lexeme| lexeme.token);
        let with_number = matches!(
            (at.checked_sub(1).and_then(token), token(at), token(at + 1)),
            (Some(Token::Number { .. }), ..) | (Some(Token::Name), Some(Token::Slash), Some(Token::Number { .. }))
        );
        with_number && self.before(at).is_empty() && self.before(at + 1).is_empty()
    }
}

/// Whether an operand may end with a token, so that a `-` behind it is a difference.
fn ends_operand(token: Token) -> bool {
    matches!(
        token,
        Token::Name
            | Token::Number { .. }
            | Token::RightParen
            | Token::RightBracket
            | Token::Prime
            | Token::Real
            | Token::Format(_)
            | Token::Question
    )
}

/// Whether a bracket may follow a token with a blank or without: `sum (i < n) e` and `sum(x)`.
fn is_prefix(token: Token) -> bool {
    is_binder(token) || matches!(token, Token::Not | Token::Fst | Token::Snd)
}

/// What begins where, and goes on until where.
struct Starts {
    /// The offsets at which lines begin.
    lines: Vec<usize>,
    /// What each line counts as: one that begins with a closing bracket as the one on which it was opened.
    counts_as: Vec<usize>,
    /// By where they begin; of those that begin together the longest first.
    stretches: Vec<Stretch>,
}

struct Stretch {
    start: usize,
    end: usize,
    /// On how many lines this and what it goes on in begin.
    depth: usize,
    parent: Option<usize>,
}

impl Starts {
    fn new(ast: &Ast, source: &Source<'_>) -> Self {
        let lines = std::iter::once(0).chain(source.text.match_indices('\n').map(|(at, _)| at + 1)).collect::<Vec<_>>();
        let mut found = BTreeSet::new();
        let mut add = |start: usize, end: usize| {
            // The longest first.
            found.insert((start, std::cmp::Reverse(end)));
        };
        let mut ends: Vec<u32> = Vec::with_capacity(ast.exprs.len());
        for id in ast.exprs.ids() {
            let Span { start, mut end } = ast.spans[id];
            match &ast.exprs[id] {
                // A `let` goes on to the end of its value.
                Expr::Let { value, .. } => end = ast.spans[*value].end.max(start),
                // What stands where one of its parts does is not written, as the choice in an `iterate`.
                expr => expr.for_each_operand(|part| {
                    if ast.spans[part] == ast.spans[id] {
                        end = ends.get(part.0 as usize).copied().unwrap_or(end);
                    }
                }),
            }
            ends.push(end);
            add(start as usize, end as usize);
        }
        for (start, end) in declarations(ast, source) {
            add(start, end);
        }
        let counts_as = (0..=lines.len()).collect();
        let mut starts = Starts { lines, counts_as, stretches: Vec::new() };
        let mut open = Vec::new();
        for Lexeme { token, span, starts_line, .. } in &source.tokens {
            let at = span.start as usize;
            match token {
                Token::LeftParen | Token::LeftBracket => open.push(at),
                Token::RightParen | Token::RightBracket => {
                    let Some(start) = open.pop() else { continue };
                    add(start, at);
                    if *starts_line {
                        let closes = starts.line(at);
                        starts.counts_as[closes] = starts.line(start);
                    }
                }
                _ => {}
            }
        }
        let mut parent: Option<usize> = None;
        for (start, std::cmp::Reverse(end)) in found {
            while let Some(at) = parent.filter(|at| starts.stretches[*at].end <= start) {
                parent = starts.stretches[at].parent;
            }
            let line = starts.line(start);
            let depth = match parent.map(|at| &starts.stretches[at]) {
                None => 1,
                Some(outer) => outer.depth + usize::from(starts.line(outer.start) != line),
            };
            starts.stretches.push(Stretch { start, end, depth, parent });
            parent = Some(starts.stretches.len() - 1);
        }
        starts
    }

    fn line(&self, at: usize) -> usize {
        self.counts_as[self.lines.partition_point(|start| *start <= at)]
    }

    /// How deep the line stands that begins with a token.
    fn depth(&self, at: usize) -> usize {
        let mut near = self.stretches.partition_point(|stretch| stretch.start < at).checked_sub(1);
        while let Some(stretch) = near.map(|near| &self.stretches[near]) {
            if at < stretch.end {
                return stretch.depth - usize::from(self.line(stretch.start) == self.line(at));
            }
            near = stretch.parent;
        }
        0
    }
}

/// Where declarations and imports begin, and where the next one does, or the body.
fn declarations(ast: &Ast, source: &Source<'_>) -> Vec<(usize, usize)> {
    let end = source.text.len();
    let body = ast.body.map_or(end, |body| ast.spans[body].start as usize);
    let before_body = source.tokens.partition_point(|lexeme| (lexeme.span.start as usize) < body);
    // The place of an expression leaves out the parentheses around it.
    let opening =
        source.tokens[..before_body].iter().rev().take_while(|lexeme| lexeme.token == Token::LeftParen).count();
    let body = source.tokens.get(before_body - opening).map_or(end, |lexeme| lexeme.span.start as usize);
    let begins = |lexeme: &&Lexeme| {
        let word = || lexeme.starts_line && matches!(source.of(lexeme), "import" | "size" | "const");
        (lexeme.span.start as usize) < body && (is_decl(lexeme.token) || word())
    };
    let starts: Vec<usize> = source.tokens.iter().filter(begins).map(|lexeme| lexeme.span.start as usize).collect();
    let ends = starts.iter().skip(1).copied().chain([body]);
    starts.iter().copied().zip(ends).collect()
}

/// Lines as they are put out.
#[derive(Default)]
struct Lines {
    done: String,
    /// The line that is being written, and how deep it stands.
    text: String,
    depth: usize,
    /// Lines that wait with their comments, which stand below each other.
    waiting: Vec<(String, String)>,
}

impl Lines {
    fn begin(&mut self, depth: usize) {
        self.depth = depth;
    }

    /// Ends the line, perhaps with a comment.
    fn end(&mut self, comment: Option<&str>) {
        let line = INDENT.repeat(self.depth) + &std::mem::take(&mut self.text);
        match comment {
            Some(comment) => self.waiting.push((line, comment.to_owned())),
            None => {
                self.flush();
                self.done += &line;
                self.done.push('\n');
            }
        }
    }

    /// A comment on a line of its own, or an empty line.
    fn comment(&mut self, depth: usize, text: &str) {
        self.flush();
        match text {
            "" if self.done.is_empty() || self.done.ends_with("\n\n") => {}
            "" => self.done.push('\n'),
            text => {
                self.done += &INDENT.repeat(depth);
                self.done += text;
                self.done.push('\n');
            }
        }
    }

    fn flush(&mut self) {
        let width = self.waiting.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0) + 2;
        for (line, comment) in self.waiting.drain(..) {
            let blanks = " ".repeat(width - line.chars().count());
            self.done.extend([line.as_str(), &blanks, &comment, "\n"]);
        }
    }

    fn finish(mut self) -> String {
        self.flush();
        while self.done.ends_with("\n\n") {
            self.done.pop();
        }
        self.done
    }
}

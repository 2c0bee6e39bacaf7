//! Text to tokens.

use crate::base::{MAX_TEXT, Span};
use crate::error::{Diagnostic, Error, Result};

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Name(String),
    Real(f64),
    Int(i64),
    Symbol(&'static str),
    End,
}

/// A token and its place.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    pub span: Span,
}

/// A longer symbol comes before its beginnings.
const SYMBOLS: &[&str] = &[
    "->", "=>", "<=", "!=", "//", "~*", "~+", ".+", "~", "(", ")", "[", "]", "{", "}", ",", ".", ":", "=", "<", ">",
    "+", "-", "*", "/", "%", "|", "!",
];

/// A problem at a place.
pub(super) fn problem(span: Span, code: &'static str, message: impl Into<String>) -> Error {
    Error::Program(vec![Diagnostic::new(code, span, message)])
}

/// The tokens of a text; the last one is the end.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>> {
    if text.len() > MAX_TEXT {
        return Err(Error::Limit { what: "bytes of text", limit: MAX_TEXT as u64, found: text.len() as u64 });
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = match c {
            _ if c.is_whitespace() => c.len_utf8(),
            '#' => rest.find('\n').unwrap_or(rest.len()),
            _ => {
                let (kind, length) = if c.is_ascii_digit() {
                    number(rest, at)?
                } else if c.is_alphabetic() || c == '_' {
                    let inner = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
                    let length = rest.find(|c| !inner(c)).unwrap_or(rest.len());
                    (Kind::Name(rest[..length].to_string()), length)
                } else {
                    let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
                    let unknown = || problem(Span::new(at, at + c.len_utf8()), "symbol", format!("`{c}` is no symbol"));
                    let symbol = symbol.ok_or_else(unknown)?;
                    (Kind::Symbol(symbol), symbol.len())
                };
                tokens.push(Token { kind, span: Span::new(at, at + length) });
                length
            }
        };
        at += length;
    }
    tokens.push(Token { kind: Kind::End, span: Span::new(text.len(), text.len()) });
    Ok(tokens)
}

/// A number, which is real if it has a decimal point and a digit behind.
fn number(rest: &str, at: usize) -> Result<(Kind, usize)> {
    let digits = |from: usize| rest[from..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |n| from + n);
    let mut end = digits(0);
    let fraction = rest[end..].starts_with('.') && rest[end + 1..].starts_with(|c: char| c.is_ascii_digit());
    if fraction {
        end = digits(end + 1);
        if rest[end..].starts_with('e') {
            let sign = usize::from(rest[end + 1..].starts_with(['-', '+']));
            let power = digits(end + 1 + sign);
            if power > end + 1 + sign {
                end = power;
            }
        }
    }
    let text = &rest[..end];
    let bad = || problem(Span::new(at, at + end), "number", format!("`{text}` is no number of 64 bits"));
    let kind = match fraction {
        true => Kind::Real(text.parse().map_err(|_| bad())?),
        false => Kind::Int(text.parse().map_err(|_| bad())?),
    };
    Ok((kind, end))
}

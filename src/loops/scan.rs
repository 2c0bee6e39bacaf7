//! The text of nests, line by line and word by word.

use super::names::{Key, number_of, unquoted, word};
use crate::base::Span;
use crate::error::{Diagnostic, Error, Result};

/// A problem at a place.
pub(super) fn problem(code: &'static str, span: Span, message: impl Into<String>) -> Error {
    Error::Program(vec![Diagnostic::new(code, span, message)])
}

/// What is left of a line.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    text: &'a str,
    at: usize,
    end: usize,
}

/// A line by its content.
pub(super) enum Content<'a> {
    /// Nothing.
    Blank,
    /// What stands behind `#`, and whether blanks stand before.
    Comment(&'a str, bool),
    /// A statement, by how many blanks are before it.
    Statement(usize),
}

impl<'a> Line<'a> {
    /// The line of a text that starts at a place, and where the next one starts.
    pub fn new(text: &'a str, start: usize) -> (Line<'a>, usize) {
        let rest = text.get(start..).unwrap_or("");
        let len = rest.find('\n').unwrap_or(rest.len());
        (Line { text, at: start, end: start + len }, start + len + 1)
    }

    pub fn rest(&self) -> &'a str {
        self.text.get(self.at..self.end).unwrap_or("")
    }

    /// Looks at the content, and goes to where it begins.
    pub fn content(&mut self) -> Content<'a> {
        let blanks = self.rest().bytes().take_while(|b| *b == b' ').count();
        self.skip();
        match self.rest().strip_prefix('#') {
            Some(comment) => Content::Comment(comment.strip_prefix(' ').unwrap_or(comment).trim_end(), blanks > 0),
            None if self.rest().is_empty() => Content::Blank,
            None => Content::Statement(blanks),
        }
    }

    /// Goes over blanks.
    fn skip(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\r']).len();
    }

    /// Where the next token starts.
    pub fn start(&mut self) -> usize {
        self.skip();
        self.at
    }

    /// What was read from a place on.
    pub fn since(&self, start: usize) -> Span {
        Span::new(start, self.at.max(start))
    }

    /// The place of the next token.
    pub fn here(&mut self) -> Span {
        let start = self.start();
        let rest = self.rest();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let first = rest.chars().next().map_or(0, char::len_utf8);
        Span::new(start, start + word(rest).len().max(digits).max(first))
    }

    /// What was expected instead of the next token.
    pub fn expected<T>(&mut self, what: &str) -> Result<T> {
        let span = self.here();
        let found = match self.text.get(span.range()) {
            None | Some("" | "#") => "the end of the line".to_owned(),
            Some(found) => format!("`{}`", found.chars().take(60).collect::<String>().escape_debug()),
        };
        Err(problem("unexpected-token", span, format!("expected {what}, found {found}")))
    }

    /// The word that is next; empty where there is none.
    pub fn word(&mut self) -> &'a str {
        self.skip();
        word(self.rest())
    }

    /// Goes over a word or a sign, if it is next.
    pub fn eat(&mut self, token: &str) -> bool {
        self.skip();
        let first_is_letter = token.chars().next().is_some_and(char::is_alphabetic);
        let found = if first_is_letter { self.word() == token } else { self.rest().starts_with(token) };
        if found {
            self.at += token.len();
        }
        found
    }

    /// Goes over some words, if they are next.
    pub fn eat_words(&mut self, words: &[&str]) -> bool {
        let mut line = *self;
        let found = words.iter().all(|word| line.eat(word));
        if found {
            *self = line;
        }
        found
    }

    pub fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { self.expected(&format!("`{token}`")) }
    }

    /// Nothing but a comment is left.
    pub fn finish(&mut self) -> Result<()> {
        self.skip();
        if self.rest().is_empty() || self.rest().starts_with('#') {
            Ok(())
        } else {
            self.expected("the end of the line")
        }
    }

    /// Whether the next token begins with a digit.
    pub fn at_digit(&mut self) -> bool {
        self.skip();
        self.rest().starts_with(|c: char| c.is_ascii_digit())
    }

    /// Whether the next token is a word before a bracket, as in a call.
    pub fn at_call(&mut self) -> bool {
        let word = self.word();
        !word.is_empty() && self.rest().get(word.len()..).is_some_and(|rest| rest.starts_with('('))
    }

    /// The number of the index or the register that is next, with this letter.
    pub fn at_id(&mut self, letter: char) -> bool {
        number_of(self.word(), letter).is_some()
    }

    /// The number of an index or a register, which is below a limit.
    pub fn id(&mut self, letter: char, what: &str, limit: u32) -> Result<u32> {
        let span = self.here();
        let Some(digits) = number_of(self.word(), letter) else { return self.expected(what) };
        self.at += 1 + digits.len();
        let number = digits.parse().ok().filter(|number| *number < limit);
        number.ok_or_else(|| problem("bad-number", span, format!("expected {what} of a number below {limit}")))
    }

    /// Digits, as a number that fits.
    pub fn integer<T: std::str::FromStr>(&mut self, what: &str) -> Result<T> {
        let span = self.here();
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let found = self.rest().get(..digits).unwrap_or("");
        if found.is_empty() {
            return self.expected(what);
        }
        self.at += digits;
        found.parse().map_err(|_| problem("bad-number", span, format!("expected {what}, found a larger number")))
    }

    /// A number as Rust prints it.
    pub fn real(&mut self) -> Result<f64> {
        let start = self.start();
        let negative = self.eat("-");
        let magnitude = match self.word() {
            "inf" => {
                self.at += "inf".len();
                f64::INFINITY
            }
            "NaN" => {
                self.at += "NaN".len();
                f64::NAN
            }
            _ => {
                let mut before = ' ';
                let outside = |c: char| {
                    let signed = matches!(c, '+' | '-') && matches!(before, 'e' | 'E');
                    before = c;
                    !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E') || signed)
                };
                let rest = self.rest();
                let digits = rest.get(..rest.find(outside).unwrap_or(rest.len())).unwrap_or("");
                if digits.is_empty() {
                    return self.expected("a number");
                }
                self.at += digits.len();
                let value = digits.parse().ok().filter(|value: &f64| value.is_finite());
                value.ok_or_else(|| {
                    problem("bad-number", self.since(start), "expected a number such as `2.0` or `1e-9`")
                })?
            }
        };
        Ok(if negative { -magnitude } else { magnitude })
    }

    /// A name with its number, from which `behind` takes what may follow its first word.
    fn name_with(&mut self, what: &str, behind: impl Fn(&str) -> usize) -> Result<Key> {
        let start = self.start();
        let name = if self.rest().starts_with('"') {
            let Some((name, len)) = unquoted(self.rest()) else {
                let span = Span::new(start, self.end);
                return Err(problem("bad-name", span, "expected a name and quotes behind it"));
            };
            self.at += len;
            name
        } else {
            let first = self.word();
            if first.is_empty() {
                return self.expected(what);
            }
            self.at += first.len();
            self.at += behind(self.rest());
            self.text.get(start..self.at).unwrap_or(first).to_owned()
        };
        let number = if self.rest().starts_with('@') {
            self.at += 1;
            self.integer("the number of one of several things of this name")?
        } else {
            1
        };
        Ok((name, number))
    }

    /// The name of a buffer, a size or a parameter.
    pub fn name(&mut self, what: &str) -> Result<Key> {
        self.name_with(what, |_| 0)
    }

    /// The name of a relation: `E`, `A?`, `places of y`.
    pub fn relation(&mut self) -> Result<Key> {
        let found = self.word() == "places";
        self.name_with("a relation", |rest| {
            let more = rest.strip_prefix(" of ").filter(|_| found).map(word).filter(|word| !word.is_empty());
            let len = more.map_or(0, |word| " of ".len() + word.len());
            len + usize::from(rest.get(len..).is_some_and(|rest| rest.starts_with('?')))
        })
    }

    /// The name of an output: words with a blank between them.
    pub fn output(&mut self) -> Result<String> {
        let inside = |c: char| c.is_alphanumeric() || c == '_';
        let (name, _) = self.name_with("the name of an output", |rest| {
            let mut len = 0;
            while let Some(more) = rest.get(len..).and_then(|rest| rest.strip_prefix(' ')) {
                let word = more.len() - more.trim_start_matches(inside).len();
                if word == 0 {
                    break;
                }
                len += 1 + word;
            }
            len
        })?;
        Ok(name)
    }
}

//! Commands, indices and formulas of LaTeX, which are refused whole.
//!
//! `x_{i}`, `\sum_{i}` and `\frac{a}{b}` are one problem each, with what is written instead as advice. Each stands as [`Token::Foreign`](super::Token)
//! or, between operands, for nothing, so that the parser has no more to say of it.

use super::{Lexer, MAX_LOOKED_AT, continues_name, starts_name};
use crate::base::Span;
use crate::error::Diagnostic;
use crate::foreign;

impl Lexer<'_> {
    /// Whether a sign of LaTeX stands here: a command, `Σ_i`, `x_{i}`, or `sum_i` beside an operand.
    pub(super) fn begins_formula(&self, c: char) -> bool {
        let rest = self.rest();
        if c == '\\' {
            return rest[1..].starts_with(|c: char| c.is_alphabetic() || c == '|');
        }
        if matches!(c, 'Σ' | '∑') {
            return rest[c.len_utf8()..].starts_with('_');
        }
        if !starts_name(c) {
            return false;
        }
        let name = &rest[..rest.find(|c| !continues_name(c)).unwrap_or(rest.len())];
        let behind = rest[name.len()..].trim_start_matches([' ', '\t']);
        let is_binder = ["sum_", "prod_", "max_", "min_"].iter().any(|word| name.starts_with(word));
        name.ends_with('_') && behind.starts_with('{')
            || is_binder && name.len() < rest.len() - behind.len() && behind.starts_with(|c| starts_name(c) || c == '(')
    }

    /// The line as a formula of LaTeX, behind a `let x =`: it is refused whole, if it can be said how it is written here.
    pub(super) fn formula(&mut self, diagnostics: &mut Vec<Diagnostic>) -> bool {
        let line = &self.text[self.line_start..];
        let end = line.char_indices().take(MAX_LOOKED_AT).find(|(_, c)| matches!(c, '\n' | '#'));
        let line = match end {
            Some((end, _)) => &line[..end],
            None if line.len() <= MAX_LOOKED_AT => line,
            None => return false,
        };
        let value = match line.split_once('=') {
            Some((name, value)) if name.trim_start().starts_with("let ") => value,
            _ => line,
        };
        let formula = value.trim().trim_end_matches(['.', ',', ';', '\\', ' ']);
        let from = self.line_start + line.len() - value.trim_start().len();
        let Some(text) = foreign::translate(formula).filter(|_| from <= self.at) else { return false };
        let span = Span::new(from, from + formula.len());
        let message = "expected an expression of this language, found a formula as in LaTeX";
        diagnostics.push(Diagnostic::new("bad-character", span, message).help(format!("it is written `{text}`")));
        self.at = self.line_start + line.len();
        true
    }

    /// A command of LaTeX with its arguments and indices, which is refused. Whether it stands between operands: then nothing stands for it.
    pub(super) fn command(&mut self, diagnostics: &mut Vec<Diagnostic>) -> bool {
        let start = self.at;
        self.at += 1;
        self.skip_while(char::is_alphabetic);
        let span = Span::new(start, self.at);
        let (help, between) = match self.arrow_of_function() {
            // `\x y -> e` of Haskell, `\x. e` on paper.
            Some(end) => {
                self.at = end;
                (foreign::FUNCTION, false)
            }
            None => foreign::command(&self.text[start + 1..self.at]),
        };
        self.skip_groups();
        let message = format!("expected a name, a number or an operator, found `{}`", &self.text[span.range()]);
        diagnostics.push(Diagnostic::new("bad-character", span, message).help(help));
        between
    }

    /// Behind `\x`: the end of an arrow or a point on this line with nothing but further names in front of it.
    fn arrow_of_function(&self) -> Option<usize> {
        let rest = self.rest();
        let names = rest.find(|c| !(c == ' ' || c == ',' || continues_name(c)))?;
        let arrow = ["->", ". "].into_iter().find(|arrow| rest[names..].starts_with(arrow))?;
        Some(self.at + names + arrow.len())
    }

    /// Behind a name that ends with `_`: indices in braces, which are refused. Nothing is read where there are none.
    pub(super) fn subscript(&mut self, start: usize, diagnostics: &mut Vec<Diagnostic>) -> bool {
        let name = &self.text[start..self.at - 1];
        let inside = self.rest().strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(inside, _)| inside);
        let Some(inside) = inside.filter(|inside| !inside.contains('\n')) else { return false };
        self.skip_groups();
        let span = Span::new(start, self.at);
        let message = "expected a name, a number or an operator, found indices in braces";
        diagnostics.push(Diagnostic::new("bad-character", span, message).help(foreign::subscript(name, inside)));
        true
    }

    /// Behind `Σ_`: an index without braces, as in `Σ_i`, which is refused.
    pub(super) fn letters_below(&mut self, start: usize, diagnostics: &mut Vec<Diagnostic>) -> bool {
        let index = self.at;
        self.skip_while(continues_name);
        if self.at == index {
            return false;
        }
        let help = foreign::subscript(&self.text[start..index - 1], &self.text[index..self.at]);
        let message = "expected an index and its range, found an index below a sign";
        diagnostics.push(Diagnostic::new("bad-character", Span::new(start, self.at), message).help(help));
        true
    }

    /// Passes over `{..}`, `_{..}` and `^{..}` on this line, and over `_i` and `^2` behind such.
    fn skip_groups(&mut self) {
        loop {
            let rest = self.rest();
            let open = rest.strip_prefix(['_', '^']).unwrap_or(rest);
            let mut depth = 0usize;
            let end = open.char_indices().take_while(|(_, c)| *c != '\n').find(|(_, c)| {
                match c {
                    '{' => depth += 1,
                    '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                depth == 0
            });
            match end {
                Some((end, '}')) => self.at += rest.len() - open.len() + end + 1,
                _ => return,
            }
        }
    }
}

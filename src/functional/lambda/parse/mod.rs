//! Programs from text, as [`Display`](std::fmt::Display) writes them.
//!
//! A push-down automaton: what waits for a term is on a stack of frames, so nesting is limited by memory alone. A term that is complete is the left
//! operand of an operator that binds strongly enough, or what the last frame waits for. Types are inferred on the way; only parameters of functions, the
//! other side of `inl` and `inr`, and terms of linear types name them. Beside what is printed there are `a - b`, `a > b`, `a >= b` and
//! `if c then a else b`. Problems have their places.

mod frames;
mod lexer;
mod terms;
mod types;

use std::collections::HashMap;

use super::build::Builder;
use super::data::{DataId, ExternalId, Program};
use crate::base::{Arena, Span, VarId};
use crate::error::{Error, Result};
use crate::reference::numeric::Users;
use lexer::{Kind, Token, problem, tokens};

/// The program that a text says.
///
/// # Errors
/// [`Error::Program`](crate::error::Error::Program) with the place of the first problem.
pub fn parse(text: &str) -> Result<Program> {
    parse_with(text, &Arena::new())
}

/// The same, where programs may call registered functions.
///
/// # Errors
/// As of [`parse`].
pub fn parse_with(text: &str, users: &Users) -> Result<Program> {
    let mut parser = Parser {
        tokens: tokens(text).map_err(|error| error.in_text(text))?,
        at: 0,
        builder: Builder::new(),
        data: HashMap::new(),
        externals: HashMap::new(),
        scope: HashMap::new(),
    };
    parser.builder.context.users = users.clone();
    let program = parser.program();
    program.map_err(|error| error.in_text(text))
}

/// A parser, before some token.
struct Parser {
    tokens: Vec<Token>,
    at: usize,
    builder: Builder,
    data: HashMap<String, DataId>,
    externals: HashMap<String, ExternalId>,
    /// The variables of each name, the innermost last.
    scope: HashMap<String, Vec<VarId>>,
}

impl Parser {
    fn peek(&self) -> &Token {
        // The last token is the end, which is not passed.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn next(&mut self) {
        self.at += 1;
    }

    fn is(&self, symbol: &str) -> bool {
        match &self.peek().kind {
            Kind::Symbol(found) => *found == symbol,
            Kind::Name(found) => found == symbol,
            _ => false,
        }
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<()> {
        match self.eat(symbol) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{symbol}`"))),
        }
    }

    fn unexpected(&self, wanted: &str) -> Error {
        let token = self.peek();
        let found = match &token.kind {
            Kind::Name(name) => format!("`{name}`"),
            Kind::Real(x) => format!("{x}"),
            Kind::Int(k) => format!("{k}"),
            Kind::Symbol(symbol) => format!("`{symbol}`"),
            Kind::End => "the end".to_string(),
        };
        problem(token.span, "syntax", format!("{wanted} is expected, found {found}"))
    }

    fn name(&mut self) -> Result<String> {
        match self.peek().kind.clone() {
            Kind::Name(name) => {
                self.next();
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// A name that a variable may have.
    fn new_name(&mut self) -> Result<String> {
        let span = self.peek().span;
        let name = self.name()?;
        match super::print::is_reserved(&name) {
            true => Err(problem(span, "reserved", format!("`{name}` is a word of the language"))),
            false => Ok(name),
        }
    }

    /// A variable in scope.
    fn variable_name(&mut self) -> Result<VarId> {
        let span = self.peek().span;
        let name = self.name()?;
        let found = self.scope.get(&name).and_then(|all| all.last()).copied();
        found.ok_or_else(|| problem(span, "unknown-name", format!("`{name}` is not in scope")))
    }

    fn enter(&mut self, name: &str, x: VarId) {
        self.scope.entry(name.to_string()).or_default().push(x);
    }

    fn leave(&mut self, name: &str) {
        if let Some(all) = self.scope.get_mut(name) {
            all.pop();
        }
    }

    fn program(mut self) -> Result<Program> {
        // Data types may mention each other.
        for pair in 0..self.tokens.len().saturating_sub(1) {
            if let (Kind::Name(word), Kind::Name(name)) = (&self.tokens[pair].kind, &self.tokens[pair + 1].kind)
                && word == "data"
            {
                let name = name.clone();
                if self.data.contains_key(&name) {
                    let span = self.tokens[pair + 1].span;
                    return Err(problem(span, "twice", format!("the data type `{name}` is there already")));
                }
                let data = self.builder.data(&name);
                self.data.insert(name, data);
            }
        }
        loop {
            if self.eat("data") {
                let name = self.name()?;
                if self.eat("=") {
                    let definition = self.ty()?;
                    if let Some(data) = self.data.get(&name) {
                        self.builder.define(*data, definition);
                    }
                }
            } else if self.eat("external") {
                let name = self.new_name()?;
                self.expect(":")?;
                let span = self.peek().span;
                let ty = self.ty()?;
                let super::data::Type::Fn(domain, codomain) = self.builder.context.types[ty] else {
                    return Err(problem(span, "type", "an external function has a type of functions"));
                };
                let external = self.builder.external(&name, domain, codomain);
                self.externals.insert(name, external);
            } else if self.eat("param") {
                let name = self.new_name()?;
                self.expect(":")?;
                let ty = self.ty()?;
                let x = self.builder.param(&name, ty);
                self.enter(&name, x);
            } else {
                break;
            }
        }
        let body = self.term()?;
        if self.peek().kind != Kind::End {
            return Err(self.unexpected("the end"));
        }
        let end = self.peek().span.end as usize;
        self.builder.finish(body).map_err(|error| match error {
            // What the rules for single terms do not see, as cells that are not there.
            Error::Bug { message, .. } => problem(Span::new(0, end), "not-well-formed", message),
            error => error,
        })
    }
}

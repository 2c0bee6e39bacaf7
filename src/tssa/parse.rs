//! Text to Tensor-SSA: what the printer writes, line by line.
//!
//! ```text
//! program ::= (name = rhs | out name [on R] [: type] = leaves)*
//! rhs     ::= input (fst | snd)* name : type
//!           | [gen i < n, ..] (number | real(a))
//!           | [gen i < n, ..] [p] * x[i, ..] + [p] * y[i, ..]
//!           | [gen i < n, ..] [p] * (f(x[i, ..], ..) | x[i, ..] / y[i, ..] | x[i, ..]^k)
//!           | [gen i < n, ..] [sum j < m, ..] [p] * x[..] [* y[..]]
//! p       ::= exists i < n. p | p or p | p and p | (p) | true | false | a < b | a <= b | a = b | a != b
//!           | [not] R(a, ..) | x[a, ..] != 0 | argmax(x[a, ..]) = a
//! ```
//!
//! The declarations are not part of the text: parameters, sizes, relations and functions are those of a signature. Every statement goes
//! through the [`Builder`], so a text that was edited becomes canonical, and one that was printed becomes the program that it was
//! printed from, up to names: of tensors that were named alike, and of those that had none.
//!
//! Reading stops at the first problem, which has its place in the text. Recursion is on guards and types, of limited nesting.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::build::Builder;
use super::data::{Operand, Output, Program};
use crate::base::MAX_TEXT;
use crate::base::{Id, IndexId, ParamId, RelationId, SizeId, Span, VarId};
use crate::error::{Diagnostic, Error, Result};
use crate::index::{Affine, Overflow, Pred, RelationRef, Size, Var, View};
use crate::lexer::{Lexeme, Lexer, Token};
use crate::scalar::{self, Function, Number, Op};
use crate::ty::{self, Side, Signature, Storage, TypeId, Types};

/// Reads what a program in Tensor-SSA prints.
///
/// # Errors
/// [`Error::Program`] with the first problem in the text; [`Error::Limit`] for a text that is too long; [`Error::Overflow`].
pub fn parse(text: &str, signature: &Arc<Signature>) -> Result<Program> {
    if text.len() > MAX_TEXT {
        return Err(Error::Limit { what: "bytes of a program", limit: MAX_TEXT as u64, found: text.len() as u64 });
    }
    let mut parser = Parser::new(text, signature);
    let read = match parser.program() {
        // What cannot be read as tokens comes before what they were taken for.
        _ if !parser.diagnostics.is_empty() => Err(Error::Program(parser.diagnostics)),
        Ok(outputs) => parser.finish(outputs),
        Err(error) => Err(error),
    };
    read.map_err(|error| error.in_text(text))
}

/// The numbers of indices inside `exists` begin with those of the statement; parentheses nest no deeper than predicates may.
const MAX_DEPTH: usize = 2 * Pred::MAX_NESTING;

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// The token in turn, and the one behind it.
    here: Lexeme,
    ahead: Lexeme,
    diagnostics: Vec<Diagnostic>,
    signature: Arc<Signature>,
    /// Types of outputs may be new.
    types: Types,
    sizes: BTreeMap<&'a str, SizeId>,
    relations: BTreeMap<&'a str, RelationId>,
    builder: Builder,
    stmts: BTreeMap<&'a str, VarId>,
    /// The indices of the statement: `gen`, then `sum`, then those of `exists` around.
    indices: Vec<(&'a str, Size)>,
    depth: usize,
}

/// A tensor and the indices it is read at.
struct Read {
    var: VarId,
    indices: Vec<IndexId>,
    span: Span,
}

fn problem(code: &'static str, span: Span, message: impl Into<String>) -> Error {
    Error::Program(vec![Diagnostic::new(code, span, message)])
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, signature: &'a Arc<Signature>) -> Self {
        let mut diagnostics = Vec::new();
        let mut lexer = Lexer::new(text);
        let here = lexer.next(&mut diagnostics);
        let ahead = lexer.next(&mut diagnostics);
        Parser {
            text,
            lexer,
            here,
            ahead,
            diagnostics,
            signature: signature.clone(),
            types: signature.types.clone(),
            sizes: signature.sizes.iter().map(|(id, name)| (name.as_str(), id)).collect(),
            relations: signature.relations.iter().map(|(id, relation)| (relation.name.as_str(), id)).collect(),
            builder: Builder::new(signature.clone()),
            stmts: BTreeMap::new(),
            indices: Vec::new(),
            depth: 0,
        }
    }

    fn finish(self, outputs: Vec<Output>) -> Result<Program> {
        let Parser { mut builder, signature, types, text, .. } = self;
        if types != signature.types {
            builder.extend_signature(Arc::new(Signature { types, ..Signature::clone(&signature) }));
        }
        let program = builder.finish(outputs);
        let whole = Span::new(0, text.len());
        program.verify().map_err(|complaints| problem("not-well-formed", whole, complaints.join("\n")))?;
        Ok(program)
    }

    fn step(&mut self) -> Lexeme {
        let ahead = self.lexer.next(&mut self.diagnostics);
        std::mem::replace(&mut self.here, std::mem::replace(&mut self.ahead, ahead))
    }

    fn text_of(&self, lexeme: Lexeme) -> &'a str {
        self.text.get(lexeme.span.range()).unwrap_or("")
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        let found = match self.here.token {
            Token::End => "the end of the text".to_owned(),
            _ => format!("`{}`", self.text_of(self.here)),
        };
        Err(problem("unexpected-token", self.here.span, format!("expected {what}, found {found}")))
    }

    fn eat(&mut self, token: Token) -> bool {
        let found = self.here.token == token;
        if found {
            self.step();
        }
        found
    }

    fn expect(&mut self, token: Token, what: &str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { self.expected(what) }
    }

    fn name(&mut self, what: &str) -> Result<(&'a str, Span)> {
        match self.here.token {
            Token::Name => {
                let lexeme = self.step();
                Ok((self.text_of(lexeme), lexeme.span))
            }
            _ => self.expected(what),
        }
    }

    /// Whether the name in turn is this word.
    fn at_word(&self, word: &str) -> bool {
        self.here.token == Token::Name && self.text_of(self.here) == word
    }

    /// Items with commas between them, up to a closing token.
    fn list<T>(&mut self, close: Token, what: &str, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(Token::Comma) {
            items.push(item(self)?);
        }
        self.expect(close, what)?;
        Ok(items)
    }

    fn program(&mut self) -> Result<Vec<Output>> {
        let mut outputs = Vec::new();
        while self.here.token != Token::End {
            if !self.here.starts_line {
                return self.expected("the end of the line");
            }
            if self.at_word("out") && self.ahead.token == Token::Name {
                outputs.push(self.output()?);
            } else {
                self.statement()?;
            }
        }
        Ok(outputs)
    }

    fn statement(&mut self) -> Result<()> {
        let (name, span) = self.name("the name of a statement")?;
        if self.stmts.contains_key(name) {
            return Err(problem("duplicate-name", span, format!("there is a statement `{name}` already")));
        }
        if self.sizes.contains_key(name) {
            return Err(problem("duplicate-name", span, format!("`{name}` is a size")));
        }
        self.expect(Token::Equal, "`=`")?;
        self.indices.clear();
        let at = self.builder.len();
        let x = match self.at_word("input") {
            true => self.input()?,
            false => self.rhs()?,
        };
        // A tensor without a name is printed by its number.
        if name != format!("t{at}") {
            self.builder.suggest_name(x, name);
        }
        self.stmts.insert(name, x);
        Ok(())
    }

    /// `input fst x : [n] real`
    fn input(&mut self) -> Result<VarId> {
        self.step();
        let mut path = Vec::new();
        loop {
            if self.eat(Token::Fst) {
                path.push(Side::Fst);
            } else if self.eat(Token::Snd) {
                path.push(Side::Snd);
            } else {
                break;
            }
        }
        path.reverse();
        let (name, span) = self.name("the name of a parameter")?;
        let param = self.param(name, span)?;
        self.expect(Token::Colon, "`:` and a type")?;
        let declared = self.here.span;
        let ty = self.ty(0)?;
        let dims = self.types.real_dims(ty);
        let leaves = self.signature.types.leaves(self.signature.params[param].ty)?;
        let leaf = leaves.into_iter().find(|leaf| leaf.path == path);
        let leaf = leaf.ok_or_else(|| {
            problem(
                "unknown-leaf",
                span,
                format!("expected the projections of `{name}` that lead to a tensor of reals"),
            )
        })?;
        if dims.as_ref() != Some(&leaf.dims) {
            return Err(problem("wrong-type", declared, format!("expected the type that this part of `{name}` has")));
        }
        Ok(self.builder.input(param, path, leaf.dims))
    }

    fn param(&self, name: &str, span: Span) -> Result<ParamId> {
        let found = self.signature.param(name);
        found.ok_or_else(|| problem("unknown-name", span, format!("there is no parameter `{name}`")))
    }

    /// `real`, `[n, m] T`, `(T, U)`
    fn ty(&mut self, depth: usize) -> Result<TypeId> {
        if depth > ty::MAX_NESTING {
            let (limit, found) = (ty::MAX_NESTING as u64, depth as u64);
            return Err(Error::Limit { what: "nesting of types", limit, found });
        }
        if self.eat(Token::Real) {
            return Ok(Types::REAL);
        }
        if self.eat(Token::LeftBracket) {
            let dims = self.list(Token::RightBracket, "`,` or `]`", Self::size)?;
            let element = self.ty(depth + 1)?;
            return Ok(self.types.tensor_of(&dims, element));
        }
        if self.eat(Token::LeftParen) {
            let first = self.ty(depth + 1)?;
            self.expect(Token::Comma, "`,` and the other half of the pair")?;
            let second = self.ty(depth + 1)?;
            self.expect(Token::RightParen, "`)`")?;
            return Ok(self.types.pair(first, second));
        }
        self.expected("a type such as `real` or `[n] real`")
    }

    /// `[gen ..] [sum ..] [p] * ..`
    fn rhs(&mut self) -> Result<VarId> {
        let gens = self.binders(Token::Gen)?;
        if let Some(number) = self.number()? {
            return self.builder.number(&gens, number);
        }
        let sums = self.binders(Token::Sum)?;
        let guard = self.guard()?;
        let called =
            self.ahead.token == Token::LeftParen && matches!(self.here.token, Token::Name | Token::Max | Token::Min);
        if sums.is_empty() && called {
            return self.call(&gens, guard);
        }
        let first = self.read()?;
        match self.here.token {
            Token::Slash if sums.is_empty() => {
                self.step();
                let second = self.read()?;
                self.map(&gens, guard, Op::Div.into(), vec![first, second])
            }
            Token::Caret if sums.is_empty() => {
                self.step();
                let exponent = self.exponent()?;
                self.map(&gens, guard, Op::Powi(exponent).into(), vec![first])
            }
            Token::Plus if sums.is_empty() => {
                self.step();
                let other = self.guard()?;
                let second = self.read()?;
                self.aligned(&gens, &first)?;
                self.aligned(&gens, &second)?;
                self.builder.add(&gens, [(guard, first.var), (other, second.var)])
            }
            Token::Star => {
                self.step();
                let second = self.read()?;
                self.contract(&gens, &sums, guard, vec![first, second])
            }
            _ => self.contract(&gens, &sums, guard, vec![first]),
        }
    }

    /// `gen i < n, j < m.`, numbered behind the indices in scope.
    fn binders(&mut self, word: Token) -> Result<Vec<(IndexId, Size)>> {
        if !self.eat(word) {
            return Ok(Vec::new());
        }
        self.list(Token::Dot, "`,` or `.`", Self::binder)
    }

    /// `i < n`
    fn binder(&mut self) -> Result<(IndexId, Size)> {
        let (name, span) = self.name("the name of an index")?;
        let used = self.indices.iter().any(|(other, _)| *other == name)
            || self.sizes.contains_key(name)
            || self.stmts.contains_key(name);
        if used {
            return Err(problem("duplicate-name", span, format!("the name `{name}` is in use")));
        }
        self.expect(Token::Less, "`<` and a size")?;
        let extent = self.size()?;
        let index = IndexId::from_index(self.indices.len());
        self.indices.push((name, extent.clone()));
        Ok((index, extent))
    }

    /// `2.0`, `-inf`, `NaN`, `real(2*i - 1)`
    fn number(&mut self) -> Result<Option<Number>> {
        let negative = self.here.token == Token::Minus;
        let sign = if negative { -1.0 } else { 1.0 };
        let value = if negative { self.ahead } else { self.here };
        let value = match value.token {
            Token::Number { value, .. } => value,
            Token::Name if self.text_of(value) == "NaN" && !self.stmts.contains_key("NaN") => f64::NAN,
            Token::Real if !negative => {
                self.step();
                self.expect(Token::LeftParen, "`(`")?;
                let value = self.affine()?;
                self.expect(Token::RightParen, "`)`")?;
                return Ok(Some(Number::Index(value)));
            }
            _ => return Ok(None),
        };
        if negative {
            self.step();
        }
        self.step();
        Ok(Some(Number::Literal(sign * value)))
    }

    /// `^k`, where `k` is a 32-bit integer.
    fn exponent(&mut self) -> Result<i32> {
        let span = self.here.span;
        let k = self.integer("an integer")?;
        i32::try_from(k).map_err(|_| problem("bad-number", span, "expected an exponent of 32 bits"))
    }

    fn integer(&mut self, what: &str) -> Result<i64> {
        let negative = self.eat(Token::Minus);
        let Token::Number { integer: Some(k), .. } = self.here.token else { return self.expected(what) };
        self.step();
        Ok(if negative { -k } else { k })
    }

    /// `[p] *`, or nothing.
    fn guard(&mut self) -> Result<Pred> {
        if !self.eat(Token::LeftBracket) {
            return Ok(Pred::True);
        }
        let span = self.here.span;
        let guard = self.pred()?;
        if guard.nesting() > Pred::MAX_NESTING {
            return Err(problem("too-deep", span, "expected a predicate that nests less"));
        }
        self.expect(Token::RightBracket, "`]`")?;
        self.expect(Token::Star, "`*`")?;
        Ok(guard)
    }

    fn statement_named(&self, name: &str, span: Span) -> Result<VarId> {
        let found = self.stmts.get(name).copied();
        found.ok_or_else(|| problem("unknown-name", span, format!("there is no statement `{name}` before this one")))
    }

    /// `x[i, j]`, at indices whose ranges are those of the axes.
    fn read(&mut self) -> Result<Read> {
        let (name, span) = self.name("a tensor")?;
        let var = self.statement_named(name, span)?;
        let indices = match self.eat(Token::LeftBracket) {
            true => self.list(Token::RightBracket, "`,` or `]`", |parser| {
                let (name, span) = parser.name("an index")?;
                let found = parser.indices.iter().position(|(other, _)| *other == name);
                let found =
                    found.ok_or_else(|| problem("unknown-name", span, format!("there is no index `{name}`")))?;
                Ok((IndexId::from_index(found), span))
            })?,
            false => Vec::new(),
        };
        let dims = self.builder.dims(var);
        if dims.len() != indices.len() {
            let message = format!("`{name}` has {} axes and is read at {} indices", dims.len(), indices.len());
            return Err(problem("wrong-rank", span, message));
        }
        for (n, (i, span)) in dims.iter().zip(&indices) {
            if self.indices.get(i.index()).is_none_or(|(_, extent)| extent != n) {
                let message = format!("the range of the index is not that of the axis of `{name}`");
                return Err(problem("wrong-range", *span, message));
            }
        }
        Ok(Read { var, indices: indices.into_iter().map(|(i, _)| i).collect(), span })
    }

    /// Additions and functions read their operands at the `gen` indices, in order.
    fn aligned(&self, gens: &[(IndexId, Size)], read: &Read) -> Result<()> {
        match read.indices.iter().eq(gens.iter().map(|(i, _)| i)) {
            true => Ok(()),
            false => Err(problem("not-aligned", read.span, "expected all `gen` indices, in order")),
        }
    }

    /// `f(x[i], ..)`
    fn call(&mut self, gens: &[(IndexId, Size)], guard: Pred) -> Result<VarId> {
        let lexeme = self.step();
        let function = self.function(self.text_of(lexeme), lexeme.span)?;
        self.expect(Token::LeftParen, "`(`")?;
        let args = self.list(Token::RightParen, "`,` or `)`", Self::read)?;
        scalar::check(function, args.len(), &self.signature.functions)
            .map_err(|error| problem("wrong-call", lexeme.span, error.to_string()))?;
        self.map(gens, guard, function, args)
    }

    fn function(&self, name: &str, span: Span) -> Result<Function> {
        let found = self.signature.function_named(name);
        found.ok_or_else(|| problem("unknown-name", span, format!("there is no function `{name}`")))
    }

    fn map(&mut self, gens: &[(IndexId, Size)], guard: Pred, function: Function, args: Vec<Read>) -> Result<VarId> {
        args.iter().try_for_each(|read| self.aligned(gens, read))?;
        self.builder.map(gens, guard, function, args.into_iter().map(|read| read.var).collect())
    }

    fn contract(
        &mut self,
        gens: &[(IndexId, Size)],
        sums: &[(IndexId, Size)],
        guard: Pred,
        operands: Vec<Read>,
    ) -> Result<VarId> {
        let operands = operands.into_iter().map(|Read { var, indices, span: _ }| Operand { var, indices }).collect();
        self.builder.contract(gens, sums, guard, operands)
    }

    /// `out name on R : type = (x, y)`
    fn output(&mut self) -> Result<Output> {
        self.step();
        let (name, _) = self.name("the name of an output")?;
        let storage = match self.at_word("on") {
            true => {
                self.step();
                self.pattern()?
            }
            false => Storage::Dense,
        };
        let declared = match self.eat(Token::Colon) {
            true => Some((self.here.span, self.ty(0)?)),
            false => None,
        };
        self.expect(Token::Equal, "`=`")?;
        let start = self.here.span;
        let leaf = |parser: &mut Self| {
            let (name, span) = parser.name("a tensor")?;
            parser.statement_named(name, span)
        };
        let leaves = match self.eat(Token::LeftParen) {
            true => self.list(Token::RightParen, "`,` or `)`", leaf)?,
            false => vec![leaf(self)?],
        };
        let ty = match (declared, leaves.as_slice()) {
            (Some((span, ty)), _) => {
                let expected = self.types.leaves(ty)?;
                let fits =
                    expected.iter().map(|leaf| leaf.dims.as_slice()).eq(leaves.iter().map(|x| self.builder.dims(*x)));
                if !fits {
                    return Err(problem("wrong-type", span, "expected the type that these tensors are the leaves of"));
                }
                ty
            }
            (None, [x]) => self.types.tensor_of(self.builder.dims(*x), Types::REAL),
            (None, _) => {
                return Err(problem(
                    "missing-type",
                    start,
                    "several leaves need a type, as in `out y : (real, real) = (a, b)`",
                ));
            }
        };
        Ok(Output { name: name.to_owned(), ty, storage, leaves })
    }

    /// The storage with the pattern `A?`.
    fn pattern(&mut self) -> Result<Storage> {
        let span = self.here.span;
        let relation = self.relation()?;
        match self.signature.pattern_owner(relation).map(|param| param.storage) {
            Some(storage @ Storage::Sparse(..)) => Ok(storage.on(relation)),
            Some(Storage::Dense) | None => {
                Err(problem("wrong-pattern", span, "expected the pattern of a sparse parameter"))
            }
        }
    }

    /// `R` or `A?`
    fn relation(&mut self) -> Result<RelationId> {
        let (name, span) = self.name("a relation")?;
        let name = match self.eat(Token::Question) {
            true => format!("{name}?"),
            false => name.to_owned(),
        };
        let found = self.relations.get(name.as_str()).copied();
        found.ok_or_else(|| problem("unknown-name", span, format!("there is no relation `{name}`")))
    }

    /// An expression over sizes.
    fn size(&mut self) -> Result<Size> {
        let span = self.here.span;
        let size = self.affine()?;
        match size.is_size() {
            true => Ok(size),
            false => Err(problem("not-a-size", span, "expected a size, which mentions no index")),
        }
    }

    /// `2*i - j + n - 1`
    fn affine(&mut self) -> Result<Affine> {
        let mut sum = Affine::constant(0);
        let mut negative = self.eat(Token::Minus);
        loop {
            let term = self.affine_term()?;
            sum = if negative { sum.sub(&term)? } else { sum.add(&term)? };
            negative = match self.here.token {
                Token::Plus => false,
                Token::Minus => true,
                _ => return Ok(sum),
            };
            self.step();
        }
    }

    /// `3`, `i`, `3*i`
    fn affine_term(&mut self) -> Result<Affine> {
        if self.here.token == Token::Name {
            return self.variable();
        }
        let k = self.integer("an index, a size or an integer")?;
        match self.eat(Token::Star) {
            true => Ok(self.variable()?.scale(k)?),
            false => Ok(Affine::constant(k)),
        }
    }

    fn variable(&mut self) -> Result<Affine> {
        let (name, span) = self.name("an index or a size")?;
        let found = self.index_or_size(name);
        found
            .map(Affine::var)
            .ok_or_else(|| problem("unknown-name", span, format!("there is no index or size `{name}`")))
    }

    fn index_or_size(&self, name: &str) -> Option<Var> {
        let index = self.indices.iter().rposition(|(other, _)| *other == name);
        let index = index.map(|at| Var::Index(IndexId::from_index(at)));
        index.or_else(|| self.sizes.get(name).map(|n| Var::Size(*n)))
    }

    /// `p or p`
    fn pred(&mut self) -> Result<Pred> {
        if self.depth >= MAX_DEPTH {
            return Err(problem("too-deep", self.here.span, "expected a predicate that nests less"));
        }
        self.depth += 1;
        let mut sides = vec![self.conjunction()?];
        while self.eat(Token::Or) {
            sides.push(self.conjunction()?);
        }
        self.depth -= 1;
        Ok(Pred::any(sides))
    }

    fn conjunction(&mut self) -> Result<Pred> {
        let mut sides = vec![self.atom()?];
        while self.eat(Token::And) {
            sides.push(self.atom()?);
        }
        Ok(Pred::all(sides))
    }

    fn atom(&mut self) -> Result<Pred> {
        match self.here.token {
            Token::LeftParen => {
                self.step();
                let inner = self.pred()?;
                self.expect(Token::RightParen, "`)`")?;
                Ok(inner)
            }
            Token::Exists => {
                self.step();
                let (index, extent) = self.binder()?;
                self.expect(Token::Dot, "`.`")?;
                let body = self.pred()?;
                self.indices.pop();
                Ok(Pred::exists(index, extent, body))
            }
            Token::Not => {
                self.step();
                self.application(false)
            }
            Token::ArgMax | Token::ArgMin => self.one_hot(),
            Token::Name if matches!(self.ahead.token, Token::LeftParen | Token::Question) => self.application(true),
            Token::Name if self.index_or_size(self.text_of(self.here)).is_none() => match self.text_of(self.here) {
                name if self.stmts.contains_key(name) => self.support(),
                word @ ("true" | "false") => {
                    self.step();
                    Ok(Pred::from(word == "true"))
                }
                _ => self.comparison(),
            },
            _ => self.comparison(),
        }
    }

    /// `R(a, ..)`
    fn application(&mut self, holds: bool) -> Result<Pred> {
        let span = self.here.span;
        let relation = self.relation()?;
        self.expect(Token::LeftParen, "`(`")?;
        let args = self.list(Token::RightParen, "`,` or `)`", Self::affine)?;
        let rank = self.signature.relations[relation].shape.len();
        if rank != args.len() {
            let message = format!("the relation has {rank} places and is applied to {}", args.len());
            return Err(problem("wrong-rank", span, message));
        }
        Ok(Pred::Relation { relation: RelationRef::Input(relation), args, holds })
    }

    /// `x[a, ..] != 0`
    fn support(&mut self) -> Result<Pred> {
        let (name, span) = self.name("a tensor")?;
        let var = self.statement_named(name, span)?;
        let args = match self.eat(Token::LeftBracket) {
            true => self.list(Token::RightBracket, "`,` or `]`", Self::affine)?,
            false => Vec::new(),
        };
        let holds = self.is_not_equal(false)?;
        let zero = self.here.span;
        if self.integer("`0`")? != 0 {
            return Err(problem("unexpected-token", zero, "expected `0`"));
        }
        self.computed(var, View::Support, args, holds, span)
    }

    /// `argmax(x[a, ..]) = a`
    fn one_hot(&mut self) -> Result<Pred> {
        let view = if self.step().token == Token::ArgMax { View::ArgMax } else { View::ArgMin };
        self.expect(Token::LeftParen, "`(`")?;
        let (name, span) = self.name("a tensor")?;
        let var = self.statement_named(name, span)?;
        self.expect(Token::LeftBracket, "`[`")?;
        let mut args = Vec::new();
        while self.here.token != Token::Dot {
            args.push(self.affine()?);
            self.expect(Token::Comma, "`,`")?;
        }
        self.expect(Token::Dot, "`..`")?;
        self.expect(Token::Dot, "`..`")?;
        self.expect(Token::RightBracket, "`]`")?;
        self.expect(Token::RightParen, "`)`")?;
        let holds = self.is_not_equal(true)?;
        args.push(self.affine()?);
        self.computed(var, view, args, holds, span)
    }

    /// `!=`, or `=`; whether the relation holds where `=` says what `equal` is.
    fn is_not_equal(&mut self, equal: bool) -> Result<bool> {
        if self.eat(Token::Equal) {
            return Ok(equal);
        }
        self.expect(Token::NotEqual, "`=` or `!=`")?;
        Ok(!equal)
    }

    fn computed(&self, var: VarId, view: View, args: Vec<Affine>, holds: bool, span: Span) -> Result<Pred> {
        let rank = self.builder.dims(var).len();
        if rank != args.len() {
            let message = format!("the tensor has {rank} axes and is read as a relation at {} places", args.len());
            return Err(problem("wrong-rank", span, message));
        }
        Ok(Pred::Relation { relation: RelationRef::Computed { var, view }, args, holds })
    }

    /// `a < b`
    fn comparison(&mut self) -> Result<Pred> {
        let left = self.affine()?;
        let compare: fn(&Affine, &Affine) -> std::result::Result<Pred, Overflow> = match self.here.token {
            Token::Less => Pred::lt,
            Token::LessEqual => Pred::le,
            Token::Greater => |a, b| Pred::lt(b, a),
            Token::GreaterEqual => |a, b| Pred::le(b, a),
            Token::Equal => Pred::equal,
            Token::NotEqual => Pred::unequal,
            _ => return self.expected("a comparison such as `<`"),
        };
        self.step();
        Ok(compare(&left, &self.affine()?)?)
    }
}

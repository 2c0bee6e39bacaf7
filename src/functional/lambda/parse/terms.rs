//! Terms from text.

use super::Parser;
use super::lexer::{Kind, problem};
use crate::base::{Span, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::data::{End, Prim, Term, TermId, TypeId};
use crate::functional::lambda::linear::Linear;
use crate::functional::lambda::print::Level;
use crate::scalar::{Function, Op, Primitive};

/// A name that is bound, and its variable.
pub(super) type Bound = (String, VarId);

/// What a term in front of its operand is.
#[derive(Clone)]
pub(super) enum Prefix {
    Prim(Prim),
    /// An operator in parentheses: of reals or of integers.
    Section(&'static str),
    Term(fn(TermId) -> Term),
    Linear(fn(TermId) -> Linear),
    Injection(bool, TypeId),
    Typed(fn(TypeId, TermId) -> Linear, TypeId),
    OneHot(u32, TypeId),
    Split(u32),
    Cell(u32),
    Add(u32, TypeId),
    Roll(crate::functional::lambda::DataId),
    External(crate::functional::lambda::ExternalId),
}

/// A term of two operands in parentheses.
#[derive(Clone, Copy)]
pub(super) enum Two {
    Term(fn(TermId, TermId) -> Term),
    Linear(fn(TermId, TermId) -> Linear),
}

/// What waits for a term, at some place.
pub(super) enum Frame {
    Paren,
    Second(TermId),
    TwoFirst(Two),
    TwoSecond(Two, TermId),
    Infix(&'static str, TermId),
    Neg,
    Prefix(Prefix),
    Apply(TermId),
    Index(TermId),
    LetValue(String),
    LetBody(Bound, TermId),
    OpenValue(String),
    OpenBody(Bound, TermId),
    FnBody(Bound),
    RecBody(Bound, Bound),
    Scrutinee,
    CaseLeft(TermId, Bound),
    CaseRight(TermId, (VarId, TermId), Bound),
    IfCond,
    IfThen(TermId),
    IfElse(TermId, TermId),
    BuildCount(String),
    BuildBody(TermId, Bound),
    MapArray(Vec<(Bound, TermId)>, String),
    MapBody(Vec<(Bound, TermId)>),
    Elements(Fold, String, String),
    Start(Fold, String, String, TermId),
    Body(Fold, Bound, Bound, TermId, Option<TermId>),
    Count(String),
    Init(TermId, String, String),
    FoldBody(TermId, TermId, Bound, Bound),
    IterateInit(String),
    IterateCond(TermId, Bound),
    IterateBody(TermId, TermId, Bound),
}

/// What goes through an array or a copower.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fold {
    Reduce,
    Scan(End),
    Each,
}

/// The binding strength of an infix operator.
fn infix(symbol: &str) -> Option<Level> {
    Some(match symbol {
        "<" | "<=" | "=" | "!=" | ">" | ">=" => Level::Compare,
        "+" | "-" | ".+" => Level::Add,
        "*" | "/" | "//" | "%" => Level::Mul,
        _ => return None,
    })
}

impl Frame {
    /// How strongly an operator has to bind to take what the frame waits for as its left operand.
    fn level(&self) -> Level {
        match self {
            Frame::Infix(symbol, _) => match infix(symbol) {
                Some(Level::Compare) => Level::Add,
                Some(Level::Add) => Level::Mul,
                _ => Level::Neg,
            },
            Frame::Neg => Level::Neg,
            Frame::Prefix(_) | Frame::Apply(_) | Frame::Index(_) => Level::Atom,
            // The sign of a comparison ends these.
            Frame::BuildCount(_) | Frame::Count(_) => Level::Add,
            _ => Level::Open,
        }
    }
}

impl Parser {
    /// A term.
    pub(super) fn term(&mut self) -> Result<TermId> {
        let mut frames: Vec<Frame> = Vec::new();
        loop {
            let Some(mut e) = self.start(&mut frames)? else { continue };
            loop {
                match self.extend_or_close(&mut frames, e)? {
                    Step::Done(e) => return Ok(e),
                    Step::Have(next) => e = next,
                    Step::Want => break,
                }
            }
        }
    }

    pub(super) fn push(&mut self, span: Span, term: Term) -> Result<TermId> {
        self.builder.push(term).map_err(|error| match error {
            Error::Request(message) => problem(span, "type", message),
            error => error,
        })
    }

    pub(super) fn fresh(&mut self, name: String, ty: TypeId) -> Bound {
        let x = self.builder.fresh(&name, ty);
        self.enter(&name, x);
        (name, x)
    }

    /// The beginning of a term: a whole one, or one that waits for more.
    fn start(&mut self, frames: &mut Vec<Frame>) -> Result<Option<TermId>> {
        let token = self.peek().clone();
        let whole = match token.kind {
            Kind::Real(x) => Term::Real(x),
            Kind::Int(k) => Term::Int(k),
            Kind::Symbol("-") => {
                self.next();
                match self.peek().kind {
                    Kind::Real(x) => Term::Real(-x),
                    Kind::Int(k) => Term::Int(-k),
                    Kind::Name(ref name) if name == "inf" => Term::Real(f64::NEG_INFINITY),
                    _ => {
                        frames.push(Frame::Neg);
                        return Ok(None);
                    }
                }
            }
            Kind::Symbol("(") => {
                self.next();
                return self.parenthesis(frames, token.span);
            }
            Kind::Name(ref name) if name == "nan" => Term::Real(f64::NAN),
            Kind::Name(ref name) if name == "inf" => Term::Real(f64::INFINITY),
            Kind::Name(name) => {
                self.next();
                return self.word(frames, &name, token.span);
            }
            _ => return Err(self.unexpected("a term")),
        };
        self.next();
        self.push(token.span, whole).map(Some)
    }

    /// Behind `(`: unit, an operator, or a term.
    fn parenthesis(&mut self, frames: &mut Vec<Frame>, span: Span) -> Result<Option<TermId>> {
        if self.eat(")") {
            return self.push(span, Term::Unit).map(Some);
        }
        if let Kind::Symbol(symbol) = self.peek().kind
            && infix(symbol).is_some()
            && self.tokens.get(self.at + 1).is_some_and(|token| token.kind == Kind::Symbol(")"))
        {
            self.next();
            self.next();
            frames.push(Frame::Prefix(Prefix::Section(symbol)));
            return Ok(None);
        }
        frames.push(Frame::Paren);
        Ok(None)
    }

    /// A term that begins with a name.
    fn word(&mut self, frames: &mut Vec<Frame>, name: &str, span: Span) -> Result<Option<TermId>> {
        if let Some(x) = self.scope.get(name).and_then(|all| all.last()).copied() {
            return Ok(Some(self.builder.var(x)));
        }
        if let Some(frame) = self.binder(name)? {
            frames.push(frame);
            return Ok(None);
        }
        if let Some(two) = two(name) {
            self.expect("(")?;
            frames.push(Frame::TwoFirst(two));
            return Ok(None);
        }
        if name == "zero" {
            self.expect("[")?;
            let ty = self.ty()?;
            self.expect("]")?;
            return self.push(span, Term::Linear(Linear::Zero(ty))).map(Some);
        }
        match self.prefix(name)? {
            Some(prefix) => {
                frames.push(Frame::Prefix(prefix));
                Ok(None)
            }
            None => Err(problem(span, "unknown-name", format!("`{name}` is not in scope"))),
        }
    }

    /// Terms that bind variables, and others that reach as far as they can.
    fn binder(&mut self, word: &str) -> Result<Option<Frame>> {
        let two_names = |parser: &mut Self| -> Result<(String, String)> {
            let x = parser.new_name()?;
            parser.expect(",")?;
            let y = parser.new_name()?;
            parser.expect("in")?;
            Ok((x, y))
        };
        Ok(Some(match word {
            "let" | "open" => {
                let name = self.new_name()?;
                self.expect("=")?;
                if word == "let" { Frame::LetValue(name) } else { Frame::OpenValue(name) }
            }
            "fn" => {
                let name = self.new_name()?;
                self.expect(":")?;
                let ty = self.ty()?;
                self.expect(".")?;
                Frame::FnBody(self.fresh(name, ty))
            }
            "rec" => {
                let name = self.new_name()?;
                self.expect("(")?;
                let arg = self.new_name()?;
                self.expect(":")?;
                let domain = self.ty()?;
                self.expect(")")?;
                self.expect(":")?;
                let codomain = self.ty()?;
                self.expect(".")?;
                let ty = self.builder.types().function(domain, codomain);
                let f = self.fresh(name, ty);
                Frame::RecBody(f, self.fresh(arg, domain))
            }
            "case" => Frame::Scrutinee,
            "if" => Frame::IfCond,
            "build" => {
                let name = self.new_name()?;
                self.expect("<")?;
                Frame::BuildCount(name)
            }
            "map" => {
                let name = self.new_name()?;
                self.expect("in")?;
                Frame::MapArray(Vec::new(), name)
            }
            "reduce" | "scanl" | "scanr" | "each" => {
                let (x, y) = two_names(self)?;
                let fold = match word {
                    "reduce" => Fold::Reduce,
                    "scanl" => Fold::Scan(End::First),
                    "scanr" => Fold::Scan(End::Last),
                    _ => Fold::Each,
                };
                Frame::Elements(fold, x, y)
            }
            "fold" => {
                let name = self.new_name()?;
                self.expect("<")?;
                Frame::Count(name)
            }
            "iterate" => {
                let name = self.new_name()?;
                self.expect("=")?;
                Frame::IterateInit(name)
            }
            _ => return Ok(None),
        }))
    }

    /// Terms in front of their operand.
    fn prefix(&mut self, word: &str) -> Result<Option<Prefix>> {
        Ok(Some(match word {
            "fst" => Prefix::Term(Term::Fst),
            "snd" => Prefix::Term(Term::Snd),
            "length" => Prefix::Term(Term::Length),
            "unroll" => Prefix::Term(Term::Unroll),
            "order" => Prefix::Prim(Prim::Order),
            "real" => Prefix::Prim(Prim::ToReal),
            "sum" => Prefix::Prim(Prim::Sum),
            "drop_first" => Prefix::Prim(Prim::DropFirst),
            "drop_last" => Prefix::Prim(Prim::DropLast),
            "scale" => Prefix::Prim(Prim::Scale),
            "opposite" => Prefix::Prim(Prim::Opposite),
            "lfst" => Prefix::Linear(Linear::Fst),
            "lsnd" => Prefix::Linear(Linear::Snd),
            "lcastl" => Prefix::Linear(Linear::CastL),
            "lcastr" => Prefix::Linear(Linear::CastR),
            "entries" => Prefix::Linear(Linear::Entries),
            "collect" => Prefix::Linear(Linear::Collect),
            "total" => Prefix::Linear(Linear::Total),
            "sequence" => Prefix::Linear(Linear::Sequence),
            "pack" => Prefix::Linear(Linear::Pack),
            "lunroll" => Prefix::Linear(Linear::Unroll),
            "inl" | "inr" => Prefix::Injection(word == "inl", self.bracketed()?),
            "linl" => Prefix::Typed(Linear::Inl, self.bracketed()?),
            "linr" => Prefix::Typed(Linear::Inr, self.bracketed()?),
            "unpack" => Prefix::Typed(Linear::Unpack, self.bracketed()?),
            "lroll" => Prefix::Typed(Linear::Roll, self.bracketed()?),
            "return" => Prefix::Typed(Linear::Return, self.bracketed()?),
            "onehot" | "add" => {
                self.expect("[")?;
                let cell = self.number()?;
                self.expect(",")?;
                let ty = self.ty()?;
                self.expect("]")?;
                if word == "add" { Prefix::Add(cell, ty) } else { Prefix::OneHot(cell, ty) }
            }
            "split" | "cell" => {
                self.expect("[")?;
                let cell = self.number()?;
                self.expect("]")?;
                if word == "split" { Prefix::Split(cell) } else { Prefix::Cell(cell) }
            }
            "roll" => {
                self.expect("[")?;
                let span = self.peek().span;
                let name = self.name()?;
                let unknown = || problem(span, "unknown-type", format!("`{name}` is no data type"));
                let data = self.data.get(&name).copied().ok_or_else(unknown)?;
                self.expect("]")?;
                Prefix::Roll(data)
            }
            "partial" => {
                self.expect("[")?;
                let span = self.peek().span;
                let name = self.name()?;
                let primitive = self.primitive(&name)?;
                let unknown = || problem(span, "unknown-name", format!("`{name}` is no function"));
                let primitive = primitive.ok_or_else(unknown)?;
                self.expect(",")?;
                let place = self.peek().span;
                let k = self.number()?;
                let k = u8::try_from(k).map_err(|_| problem(place, "number", "a function has fewer operands"))?;
                self.expect("]")?;
                Prefix::Prim(Prim::Scalar(Function::Partial(primitive, k)))
            }
            _ => match (self.externals.get(word).copied(), self.primitive(word)?) {
                (Some(external), _) => Prefix::External(external),
                (None, Some(primitive)) => Prefix::Prim(Prim::Scalar(Function::Value(primitive))),
                (None, None) => return Ok(None),
            },
        }))
    }

    fn bracketed(&mut self) -> Result<TypeId> {
        self.expect("[")?;
        let ty = self.ty()?;
        self.expect("]")?;
        Ok(ty)
    }

    fn number(&mut self) -> Result<u32> {
        match self.peek().kind {
            Kind::Int(k) if u32::try_from(k).is_ok() => {
                self.next();
                Ok(k as u32)
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    /// A scalar function of a name.
    fn primitive(&mut self, name: &str) -> Result<Option<Primitive>> {
        if name == "power" {
            self.expect("[")?;
            let negative = self.eat("-");
            let k = i64::from(self.number()?);
            let k = i32::try_from(if negative { -k } else { k });
            let k = k.map_err(|_| self.unexpected("an exponent of 32 bits"))?;
            self.expect("]")?;
            return Ok(Some(Primitive::Op(Op::Powi(k))));
        }
        let op = match name {
            "divide" => Some(Op::Div),
            _ => Op::from_name(name),
        };
        let user = || {
            let users = &self.builder.context.users;
            users.iter().find(|(_, user)| user.name() == name).map(|(id, _)| Primitive::User(id))
        };
        Ok(op.map(Primitive::Op).or_else(user))
    }

    /// A term that is complete becomes the operand of what follows it, or of what waits for it.
    fn extend_or_close(&mut self, frames: &mut Vec<Frame>, e: TermId) -> Result<Step> {
        let level = frames.last().map_or(Level::Open, Frame::level);
        match self.peek().kind.clone() {
            Kind::Symbol(symbol) => {
                // `>=` is two symbols.
                if let Some(binds) = infix(symbol)
                    && binds >= level
                {
                    self.next();
                    let symbol = if symbol == ">" && self.eat("=") { ">=" } else { symbol };
                    frames.push(Frame::Infix(symbol, e));
                    return Ok(Step::Want);
                }
                if symbol == "!" && level <= Level::Prefix {
                    self.next();
                    frames.push(Frame::Index(e));
                    return Ok(Step::Want);
                }
                if symbol == "(" && level <= Level::Prefix {
                    frames.push(Frame::Apply(e));
                    return Ok(Step::Want);
                }
            }
            Kind::Name(name) if level <= Level::Prefix && self.begins_operand(&name) => {
                frames.push(Frame::Apply(e));
                return Ok(Step::Want);
            }
            Kind::Real(_) | Kind::Int(_) if level <= Level::Prefix => {
                frames.push(Frame::Apply(e));
                return Ok(Step::Want);
            }
            _ => {}
        }
        match frames.pop() {
            Some(frame) => self.close(frames, frame, e),
            None => Ok(Step::Done(e)),
        }
    }

    /// Whether a name is an operand of its own, as opposed to a word that goes on with what is around.
    fn begins_operand(&self, name: &str) -> bool {
        self.scope.get(name).is_some_and(|all| !all.is_empty())
            || matches!(name, "case" | "par" | "zero" | "nan" | "inf")
            || two(name).is_some()
    }
}

/// What comes after a term.
pub(super) enum Step {
    /// It is the whole text.
    Done(TermId),
    /// A larger term is complete.
    Have(TermId),
    /// Another term has to follow.
    Want,
}

/// Terms of two operands in parentheses.
fn two(word: &str) -> Option<Two> {
    Some(match word {
        "par" => Two::Term(Term::Par),
        "lpair" => Two::Linear(Linear::Pair),
        "entry" => Two::Linear(Linear::Entry),
        "scatter" => Two::Linear(Linear::Scatter),
        "extend" => Two::Linear(Linear::Extend),
        "bind" => Two::Linear(Linear::Bind),
        "scope" => Two::Linear(Linear::Scope),
        "run" => Two::Linear(Linear::Run),
        "close" => Two::Linear(Linear::Close),
        _ => return None,
    })
}

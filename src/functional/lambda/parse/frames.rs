//! What complete terms are operands of.

use super::Parser;
use super::lexer::problem;
use super::terms::{Fold, Frame, Prefix, Step, Two};
use crate::base::Span;
use crate::error::{Error, Result};
use crate::functional::lambda::data::{End, Prim, Term, TermId, Type, TypeId};
use crate::functional::lambda::linear::{Linear, LinearType};
use crate::scalar::{Comparison, Function, Op};

impl Parser {
    /// What a frame makes of the term that it waits for.
    pub(super) fn close(&mut self, frames: &mut Vec<Frame>, frame: Frame, e: TermId) -> Result<Step> {
        let span = self.tokens[self.at.saturating_sub(1)].span;
        let term = match frame {
            Frame::Paren => {
                if self.eat(",") {
                    frames.push(Frame::Second(e));
                    return Ok(Step::Want);
                }
                self.expect(")")?;
                return Ok(Step::Have(e));
            }
            Frame::Second(first) => {
                self.expect(")")?;
                Term::Pair(first, e)
            }
            Frame::TwoFirst(two) => {
                self.expect(",")?;
                frames.push(Frame::TwoSecond(two, e));
                return Ok(Step::Want);
            }
            Frame::TwoSecond(two, first) => {
                self.expect(")")?;
                match two {
                    Two::Term(make) => make(first, e),
                    Two::Linear(make) => Term::Linear(make(first, e)),
                }
            }
            Frame::Infix(symbol, left) => return self.operation(span, symbol, left, e).map(Step::Have),
            Frame::Neg => {
                let prim = if self.is_int(e) { Prim::IntNeg } else { Prim::Neg };
                Term::Prim(prim, e)
            }
            Frame::Prefix(prefix) => self.apply_prefix(prefix, e)?,
            Frame::Apply(f) => Term::Apply(f, e),
            Frame::Index(a) => Term::Index(a, e),
            Frame::LetValue(name) => {
                self.expect("in")?;
                let ty = self.builder.ty(e);
                frames.push(Frame::LetBody(self.fresh(name, ty), e));
                return Ok(Step::Want);
            }
            Frame::LetBody((name, x), value) => {
                self.leave(&name);
                Term::Let(x, value, e)
            }
            Frame::FnBody((name, x)) => {
                self.leave(&name);
                Term::Fn(x, e)
            }
            Frame::RecBody((f, g), (name, x)) => {
                self.leave(&name);
                self.leave(&f);
                Term::Rec(g, x, e)
            }
            Frame::OpenValue(name) => return self.open(frames, span, name, e),
            Frame::OpenBody((name, x), closure) => {
                self.leave(&name);
                Term::Linear(Linear::Open(closure, x, e))
            }
            frame @ (Frame::Scrutinee
            | Frame::CaseLeft(..)
            | Frame::CaseRight(..)
            | Frame::IfCond
            | Frame::IfThen(_)
            | Frame::IfElse(..)) => return self.branches(frames, frame, span, e),
            frame => return self.loops(frames, frame, span, e),
        };
        self.push(span, term).map(Step::Have)
    }

    fn is_int(&self, e: TermId) -> bool {
        self.builder.context.types[self.builder.ty(e)] == Type::Int
    }

    fn open(&mut self, frames: &mut Vec<Frame>, span: Span, name: String, e: TermId) -> Result<Step> {
        self.expect("in")?;
        let Type::Closure(arg, result) = self.builder.context.types[self.builder.ty(e)] else {
            return Err(problem(span, "type", "a closure is needed"));
        };
        let unit = self.builder.types().unit();
        let (name, x) = self.fresh(name, unit);
        let hidden = self.builder.types().intern(Type::Hidden(x));
        let domain = self.builder.types().pair(hidden, arg);
        let code = self.builder.types().function(domain, result);
        let ty = self.builder.types().pair(hidden, code);
        self.builder.context.vars[x].ty = ty;
        frames.push(Frame::OpenBody((name, x), e));
        Ok(Step::Want)
    }

    /// An infix operation; its type is that of its left operand.
    fn operation(&mut self, span: Span, symbol: &str, left: TermId, right: TermId) -> Result<TermId> {
        if symbol == ".+" {
            return self.push(span, Term::Linear(Linear::Plus(left, right)));
        }
        let (left, right) = match symbol {
            ">" | ">=" => (right, left),
            "-" => {
                let neg = if self.is_int(right) { Prim::IntNeg } else { Prim::Neg };
                (left, self.push(span, Term::Prim(neg, right))?)
            }
            _ => (left, right),
        };
        let prim = operator(symbol, self.is_int(left));
        let pair = self.push(span, Term::Pair(left, right))?;
        self.push(span, Term::Prim(prim, pair))
    }

    fn apply_prefix(&mut self, prefix: Prefix, e: TermId) -> Result<Term> {
        Ok(match prefix {
            Prefix::Prim(prim) => Term::Prim(prim, e),
            Prefix::Section(symbol) => {
                let first = match self.builder.context.types[self.builder.ty(e)] {
                    Type::Pair(first, _) => first,
                    _ => self.builder.ty(e),
                };
                let int = self.builder.context.types[first] == Type::Int;
                Term::Prim(operator(symbol, int), e)
            }
            Prefix::Term(make) => make(e),
            Prefix::Linear(make) => Term::Linear(make(e)),
            Prefix::Injection(left, other) => {
                let own = self.builder.ty(e);
                let (a, b) = if left { (own, other) } else { (other, own) };
                let sum = self.builder.types().sum(a, b);
                if left { Term::Inl(sum, e) } else { Term::Inr(sum, e) }
            }
            Prefix::Typed(make, ty) => Term::Linear(make(ty, e)),
            Prefix::OneHot(cell, ty) => Term::Linear(Linear::OneHot(cell, ty, e)),
            Prefix::Split(cell) => Term::Linear(Linear::Split(cell, e)),
            Prefix::Cell(cell) => Term::Linear(Linear::Cell(cell, e)),
            Prefix::Add(cell, ty) => Term::Linear(Linear::Add(cell, ty, e)),
            Prefix::Roll(data) => Term::Roll(data, e),
            Prefix::External(f) => Term::External(f, e),
        })
    }

    fn branches(&mut self, frames: &mut Vec<Frame>, frame: Frame, span: Span, e: TermId) -> Result<Step> {
        let sides = |parser: &Self, e: TermId| match parser.builder.context.types[parser.builder.ty(e)] {
            Type::Sum(a, b) => Ok((a, b)),
            _ => Err(problem(span, "type", "a value of a sum type is needed")),
        };
        let next = match frame {
            Frame::Scrutinee => {
                let (left, _) = sides(self, e)?;
                for word in ["of", "{", "inl"] {
                    self.expect(word)?;
                }
                let name = self.new_name()?;
                self.expect("->")?;
                Frame::CaseLeft(e, self.fresh(name, left))
            }
            Frame::CaseLeft(scrutinee, (name, x)) => {
                self.leave(&name);
                let (_, right) = sides(self, scrutinee)?;
                for word in ["|", "inr"] {
                    self.expect(word)?;
                }
                let name = self.new_name()?;
                self.expect("->")?;
                Frame::CaseRight(scrutinee, (x, e), self.fresh(name, right))
            }
            Frame::CaseRight(scrutinee, left, (name, y)) => {
                self.leave(&name);
                self.expect("}")?;
                return self.push(span, Term::Case(scrutinee, left, (y, e))).map(Step::Have);
            }
            Frame::IfCond => {
                sides(self, e)?;
                self.expect("then")?;
                Frame::IfThen(e)
            }
            Frame::IfThen(cond) => {
                self.expect("else")?;
                Frame::IfElse(cond, e)
            }
            Frame::IfElse(cond, then) => {
                let (a, b) = sides(self, cond)?;
                let (x, y) = (self.builder.fresh("u", a), self.builder.fresh("u", b));
                return self.push(span, Term::Case(cond, (x, then), (y, e))).map(Step::Have);
            }
            _ => return Err(Error::bug("parse", "a frame without a rule")),
        };
        frames.push(next);
        Ok(Step::Want)
    }

    fn loops(&mut self, frames: &mut Vec<Frame>, frame: Frame, span: Span, e: TermId) -> Result<Step> {
        let int = self.builder.types().int();
        let next = match frame {
            Frame::BuildCount(name) => {
                self.expect(".")?;
                Frame::BuildBody(e, self.fresh(name, int))
            }
            Frame::MapArray(mut args, name) => {
                let element = self.element(span, e)?;
                // The variable is in scope in the body only.
                let x = self.builder.fresh(&name, element);
                args.push(((name, x), e));
                if self.eat(",") {
                    let name = self.new_name()?;
                    self.expect("in")?;
                    Frame::MapArray(args, name)
                } else {
                    self.expect(".")?;
                    for ((name, x), _) in &args {
                        self.scope.entry(name.clone()).or_default().push(*x);
                    }
                    Frame::MapBody(args)
                }
            }
            Frame::Elements(fold, x, y) => {
                if fold == Fold::Each || !self.eat("from") {
                    self.expect(".")?;
                    let (a, b) = self.entry_types(span, fold, e, None)?;
                    let x = self.fresh(x, a);
                    Frame::Body(fold, x, self.fresh(y, b), e, None)
                } else {
                    Frame::Start(fold, x, y, e)
                }
            }
            Frame::Start(fold, x, y, array) => {
                self.expect(".")?;
                let (a, b) = self.entry_types(span, fold, array, Some(e))?;
                let x = self.fresh(x, a);
                Frame::Body(fold, x, self.fresh(y, b), array, Some(e))
            }
            Frame::Count(name) => {
                self.expect(",")?;
                let state = self.new_name()?;
                self.expect("=")?;
                Frame::Init(e, name, state)
            }
            Frame::Init(count, name, state) => {
                self.expect(".")?;
                let ty = self.builder.ty(e);
                let t = self.fresh(name, int);
                Frame::FoldBody(count, e, t, self.fresh(state, ty))
            }
            Frame::IterateInit(name) => {
                self.expect("while")?;
                let ty = self.builder.ty(e);
                Frame::IterateCond(e, self.fresh(name, ty))
            }
            Frame::IterateCond(init, state) => {
                self.expect(".")?;
                Frame::IterateBody(init, e, state)
            }
            frame => return self.end_of_loop(frame, span, e),
        };
        frames.push(next);
        Ok(Step::Want)
    }

    fn end_of_loop(&mut self, frame: Frame, span: Span, e: TermId) -> Result<Step> {
        let term = match frame {
            Frame::BuildBody(n, (name, i)) => {
                self.leave(&name);
                Term::Build(n, i, e)
            }
            Frame::MapBody(args) => {
                args.iter().for_each(|((name, _), _)| self.leave(name));
                Term::Map(args.into_iter().map(|((_, x), a)| (x, a)).collect(), e)
            }
            Frame::Body(fold, (first, x), (second, y), array, init) => {
                self.leave(&second);
                self.leave(&first);
                match (fold, init) {
                    (Fold::Reduce, init) => Term::Reduce { vars: (x, y), body: e, init, array },
                    (Fold::Scan(from), Some(init)) => Term::Scan { from, vars: (x, y), body: e, init, array },
                    (Fold::Each, _) => Term::Linear(Linear::Fold(array, (x, y), e)),
                    (Fold::Scan(_), None) => return Err(problem(span, "syntax", "a scan starts `from` a value")),
                }
            }
            Frame::FoldBody(count, init, (t, index), (s, state)) => {
                self.leave(&s);
                self.leave(&t);
                Term::Fold { count, index, state, init, body: e }
            }
            Frame::IterateBody(init, cond, (s, state)) => {
                self.leave(&s);
                Term::Iterate { state, init, cond, body: e }
            }
            _ => return Err(Error::bug("parse", "a frame without a rule")),
        };
        self.push(span, term).map(Step::Have)
    }

    fn element(&self, span: Span, e: TermId) -> Result<TypeId> {
        match self.builder.context.types[self.builder.ty(e)] {
            Type::Array(element) => Ok(element),
            _ => Err(problem(span, "type", "an array is needed")),
        }
    }

    /// The types of the variables of what goes through an array or a copower.
    fn entry_types(&mut self, span: Span, fold: Fold, over: TermId, init: Option<TermId>) -> Result<(TypeId, TypeId)> {
        if fold == Fold::Each {
            return match self.builder.context.types[self.builder.ty(over)] {
                Type::Linear(LinearType::Copower(a, l)) => Ok((a, l)),
                _ => Err(problem(span, "type", "a copower is needed")),
            };
        }
        let element = self.element(span, over)?;
        let state = init.map_or(element, |init| self.builder.ty(init));
        Ok(if fold == Fold::Scan(End::Last) { (element, state) } else { (state, element) })
    }
}

/// The primitive that an operator is.
fn operator(symbol: &str, int: bool) -> Prim {
    let comparison = match symbol {
        "<" | ">" => Some(Comparison::Less),
        "<=" | ">=" => Some(Comparison::LessEqual),
        "=" => Some(Comparison::Equal),
        "!=" => Some(Comparison::NotEqual),
        _ => None,
    };
    match (comparison, symbol) {
        (Some(comparison), _) if int => Prim::IntCompare(comparison),
        (Some(comparison), _) => Prim::Compare(comparison),
        (None, "*") if int => Prim::IntMul,
        (None, "*") => Prim::Mul,
        (None, "/") => Prim::Scalar(Function::from(Op::Div)),
        (None, "//") => Prim::IntDiv,
        (None, "%") => Prim::IntRem,
        (None, _) if int => Prim::IntAdd,
        (None, _) => Prim::Add,
    }
}

//! Types from text: operators by precedence, on a stack.

use super::Parser;
use super::lexer::Kind;
use crate::error::Result;
use crate::functional::lambda::data::{Type, TypeId};
use crate::functional::lambda::linear::LinearType;

/// A type constructor of two types, and how strongly it binds.
fn operator(symbol: &str) -> Option<u8> {
    Some(match symbol {
        "->" | "=>" => 1,
        "+" | "~+" => 2,
        "*" | "~*" => 3,
        _ => return None,
    })
}

/// What waits for a type.
enum Frame {
    /// The right operand of a constructor.
    Right(TypeId, &'static str),
    /// `)` or `]`.
    Closing(&'static str),
    /// The next cell of an environment, or its end; then the constructor that the cells are for.
    Cells(TypeId, Of),
    /// The result of an action.
    Result(TypeId),
    /// The parts of a closure.
    Argument,
    ClosureResult(TypeId),
}

#[derive(Clone, Copy)]
enum Of {
    Cells,
    Environment,
    Action,
}

impl Parser {
    /// A type.
    pub(super) fn ty(&mut self) -> Result<TypeId> {
        let mut frames: Vec<Frame> = Vec::new();
        'operand: loop {
            let Some(mut ty) = self.operand(&mut frames)? else { continue };
            loop {
                let level = match frames.last() {
                    Some(Frame::Right(_, symbol)) => operator(symbol).unwrap_or(0),
                    _ => 0,
                };
                if let Kind::Symbol(symbol) = self.peek().kind
                    && let Some(next) = operator(symbol)
                    // Arrows are right associative.
                    && (next > level || next == 1 && level == 1)
                {
                    self.next();
                    frames.push(Frame::Right(ty, symbol));
                    continue 'operand;
                }
                ty = match frames.pop() {
                    None => return Ok(ty),
                    Some(Frame::Right(left, symbol)) => self.combine(left, symbol, ty),
                    Some(Frame::Closing(symbol)) => {
                        self.expect(symbol)?;
                        if symbol == "]" { self.builder.types().array(ty) } else { ty }
                    }
                    Some(Frame::Cells(before, of)) => {
                        let cells = self.builder.types().intern(Type::Cells(before, ty));
                        if self.eat(",") {
                            frames.push(Frame::Cells(cells, of));
                            continue 'operand;
                        }
                        self.expect("}")?;
                        match self.close_cells(cells, of, &mut frames)? {
                            Some(ty) => ty,
                            None => continue 'operand,
                        }
                    }
                    Some(Frame::Result(cells)) => {
                        self.expect(")")?;
                        self.builder.types().intern(Type::Action(cells, ty))
                    }
                    Some(Frame::Argument) => {
                        self.expect(",")?;
                        frames.push(Frame::ClosureResult(ty));
                        continue 'operand;
                    }
                    Some(Frame::ClosureResult(arg)) => {
                        self.expect(")")?;
                        self.builder.types().intern(Type::Closure(arg, ty))
                    }
                };
            }
        }
    }

    fn combine(&mut self, left: TypeId, symbol: &str, right: TypeId) -> TypeId {
        let types = self.builder.types();
        match symbol {
            "->" => types.function(left, right),
            "=>" => types.linear(LinearType::Copower(left, right)),
            "+" => types.sum(left, right),
            "~+" => types.linear(LinearType::Sum(left, right)),
            "*" => types.pair(left, right),
            _ => types.linear(LinearType::Pair(left, right)),
        }
    }

    /// A type without operators, or the beginning of one.
    fn operand(&mut self, frames: &mut Vec<Frame>) -> Result<Option<TypeId>> {
        if self.eat("(") {
            frames.push(Frame::Closing(")"));
            return Ok(None);
        }
        if self.eat("[") {
            frames.push(Frame::Closing("]"));
            return Ok(None);
        }
        if self.eat("{") {
            return self.cells(Of::Cells, frames);
        }
        let linear = self.eat("~");
        let span = self.peek().span;
        let name = self.name()?;
        Ok(Some(match (name.as_str(), linear) {
            ("real", false) => self.builder.types().real(),
            ("int", false) => self.builder.types().int(),
            ("unit", false) => self.builder.types().unit(),
            ("opaque", false) => {
                let name = self.name()?;
                self.builder.types().intern(Type::Opaque(name))
            }
            ("hidden", false) => {
                let x = self.variable_name()?;
                self.builder.types().intern(Type::Hidden(x))
            }
            ("action", false) => {
                self.expect("(")?;
                self.expect("{")?;
                return self.cells(Of::Action, frames);
            }
            ("closure", false) => {
                self.expect("(")?;
                frames.push(Frame::Argument);
                return Ok(None);
            }
            ("real", true) => self.builder.types().linear_real(),
            ("unit", true) => self.builder.types().linear_unit(),
            ("package", true) => self.builder.types().linear(LinearType::Package),
            ("env", true) => {
                self.expect("{")?;
                return self.cells(Of::Environment, frames);
            }
            (name, linear) => match self.data.get(name) {
                Some(data) if linear => self.builder.types().linear(LinearType::Data(*data)),
                Some(data) => self.builder.types().intern(Type::Data(*data)),
                None => return Err(super::lexer::problem(span, "unknown-type", format!("`{name}` is no type"))),
            },
        }))
    }

    /// The cells behind `{`.
    fn cells(&mut self, of: Of, frames: &mut Vec<Frame>) -> Result<Option<TypeId>> {
        let cells = self.builder.types().intern(Type::NoCells);
        if self.eat("}") {
            return self.close_cells(cells, of, frames);
        }
        frames.push(Frame::Cells(cells, of));
        Ok(None)
    }

    fn close_cells(&mut self, cells: TypeId, of: Of, frames: &mut Vec<Frame>) -> Result<Option<TypeId>> {
        match of {
            Of::Cells => Ok(Some(cells)),
            Of::Environment => Ok(Some(self.builder.types().linear(LinearType::Environment(cells)))),
            Of::Action => {
                self.expect(",")?;
                frames.push(Frame::Result(cells));
                Ok(None)
            }
        }
    }
}

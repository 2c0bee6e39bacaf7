//! The cost of programs: four counts.
//!
//! | | moves | additions | multiplications | functions |
//! |---|---|---|---|---|
//! | `a + b`, for each number | 3 | 1 | | |
//! | `a * b` | 3 | | 1 | |
//! | `f(a)`, `f(a, b)` | 2, 3 | | | 1 |
//! | a literal | 1 | | | |
//! | a variable as an operand, tuples, components, shifts | | | | |
//! | a variable that a body of an operation on arrays answers, for each number | 1 | | | |
//!
//! The operands and the result of an operation are its moves. An operation on an array of `n` elements costs `n` times its body; `scanl` and `scanr`
//! store their start beside. There is no parallelism. Source: \[004\], "Cost model".
//!
//! With `p` the [nesting](super::array_nesting) of operations on arrays, `e` a program of type real, and `G` its derivative after partial evaluation,
//!
//! ```text
//! cost(G) <= 4 * 3^p * cost(e)
//! ```
//!
//! for the sum of the four counts, where `0 + e == e` is a rule of partial evaluation and cotangents are added to from 0. Without this rule `x1 * x2` has the
//! ratio 5. The bound does not hold for each count: `x * x` has no addition, and its derivative has one. What the table does not say of
//! `G` is what it starts from: the cotangent of the value is a variable.

use std::fmt;
use std::ops::{Add, AddAssign, Mul};

use super::data::{Atom, Block, End, Program, Rhs, Stmt, Sweep, Type, Var};
use crate::base::Id;
use crate::error::{Error, Result};

/// What a program takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Numbers that are moved.
    pub moves: u64,
    /// Additions.
    pub adds: u64,
    /// Multiplications.
    pub muls: u64,
    /// Other scalar functions.
    pub functions: u64,
}

impl Cost {
    /// The sum of the counts.
    pub fn total(self) -> u64 {
        [self.adds, self.muls, self.functions].into_iter().fold(self.moves, u64::saturating_add)
    }

    fn moves(n: u64) -> Cost {
        Cost { moves: n, ..Cost::default() }
    }
}

impl Add for Cost {
    type Output = Cost;
    fn add(self, other: Cost) -> Cost {
        Cost {
            moves: self.moves.saturating_add(other.moves),
            adds: self.adds.saturating_add(other.adds),
            muls: self.muls.saturating_add(other.muls),
            functions: self.functions.saturating_add(other.functions),
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        *self = *self + other;
    }
}

impl Mul<Cost> for u64 {
    type Output = Cost;
    fn mul(self, cost: Cost) -> Cost {
        Cost {
            moves: cost.moves.saturating_mul(self),
            adds: cost.adds.saturating_mul(self),
            muls: cost.muls.saturating_mul(self),
            functions: cost.functions.saturating_mul(self),
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}, {}, {})", self.moves, self.adds, self.muls, self.functions)
    }
}

/// The type of a value with the lengths of its arrays. All elements of an array have one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A real number.
    Real,
    /// A tuple.
    Tuple(Vec<Shape>),
    /// An array of a length.
    Array(u64, Box<Shape>),
}

impl Shape {
    /// An array.
    pub fn array(n: u64, element: Shape) -> Shape {
        Shape::Array(n, Box::new(element))
    }

    /// The shape of a type all of whose arrays have one length.
    pub fn of(ty: &Type, n: u64) -> Shape {
        match ty {
            Type::Real => Shape::Real,
            Type::Tuple(of) => Shape::Tuple(of.iter().map(|ty| Shape::of(ty, n)).collect()),
            Type::Array(element) => Shape::array(n, Shape::of(element, n)),
        }
    }

    /// The number of real numbers.
    pub fn size(&self) -> u64 {
        match self {
            Shape::Real => 1,
            Shape::Tuple(of) => of.iter().map(Shape::size).fold(0, u64::saturating_add),
            Shape::Array(n, element) => n.saturating_mul(element.size()),
        }
    }
}

/// The cost of a program in unary form, for parameters of the given shapes.
///
/// # Errors
/// [`Error::Data`] where the number of shapes is another one than that of parameters, or the arrays of a map have different lengths.
pub fn cost(program: &Program, shapes: &[Shape]) -> Result<Cost> {
    if shapes.len() != program.params.len() {
        return Err(Error::data("shapes", format!("{} for {} parameters", shapes.len(), program.params.len())));
    }
    let mut counter = Counter { shapes: vec![None; program.vars.len()] };
    for (x, shape) in program.params.iter().zip(shapes) {
        counter.set(*x, shape.clone());
    }
    let (cost, _) = counter.stmts(&program.body.stmts)?;
    Ok(cost + if let Atom::Number(_) = program.body.result()? { Cost::moves(1) } else { Cost::default() })
}

struct Counter {
    shapes: Vec<Option<Shape>>,
}

/// Which variables operations of a block compute.
type Written = std::collections::BTreeMap<Var, Vec<Atom>>;

impl Counter {
    fn set(&mut self, x: Var, shape: Shape) {
        self.shapes[x.index()] = Some(shape);
    }

    fn shape(&self, a: Atom) -> Result<Shape> {
        match a {
            Atom::Number(_) => Ok(Shape::Real),
            Atom::Var(x) | Atom::Zero(x) => {
                let missing = || Error::bug("cost", format!("{x} is not in scope"));
                self.shapes.get(x.index()).cloned().flatten().ok_or_else(missing)
            }
        }
    }

    fn array(&self, a: Atom) -> Result<(u64, Shape)> {
        match self.shape(a)? {
            Shape::Array(n, element) => Ok((n, *element)),
            _ => Err(Error::bug("cost", "an array is needed")),
        }
    }

    /// What an operand costs where it is a literal.
    fn operand(&self, a: Atom) -> Result<Cost> {
        Ok(match a {
            Atom::Var(_) => Cost::default(),
            Atom::Number(_) => Cost::moves(1),
            Atom::Zero(_) => Cost::moves(self.shape(a)?.size()),
        })
    }

    fn stmts(&mut self, stmts: &[Stmt]) -> Result<(Cost, Written)> {
        let mut total = Cost::default();
        let mut written = Written::new();
        for stmt in stmts {
            let (cost, shape) = self.rhs(&stmt.rhs)?;
            total += cost;
            self.set(stmt.var, shape);
            match &stmt.rhs {
                Rhs::Tuple(of) => written.insert(stmt.var, of.clone()),
                Rhs::Part(..) | Rhs::Drop(..) => None,
                _ => written.insert(stmt.var, Vec::new()),
            };
        }
        Ok((total, written))
    }

    /// The cost of a body and the shape of its result.
    fn body(&mut self, body: &Block) -> Result<(Cost, Shape)> {
        let result = body.result()?;
        let (mut total, written) = self.stmts(&body.stmts)?;
        // Tuples are in place where their components are.
        let mut copies = vec![result];
        while let Some(a) = copies.pop() {
            match a.var().and_then(|x| written.get(&x)) {
                Some(components) => copies.extend(components),
                None => total += Cost::moves(self.shape(a)?.size()),
            }
        }
        Ok((total, self.shape(result)?))
    }

    fn rhs(&mut self, rhs: &Rhs) -> Result<(Cost, Shape)> {
        let mut literals = Cost::default();
        if !matches!(rhs, Rhs::Tuple(_)) {
            for a in rhs.operands() {
                literals += self.operand(a)?;
            }
        }
        let (cost, shape) = match rhs {
            Rhs::Add(a, _) => {
                let shape = self.shape(*a)?;
                (shape.size() * Cost { moves: 3, adds: 1, ..Cost::default() }, shape)
            }
            Rhs::Mul(..) => (Cost { moves: 3, muls: 1, ..Cost::default() }, Shape::Real),
            Rhs::Call(_, args) => (Cost { moves: 1 + args.len() as u64, functions: 1, ..Cost::default() }, Shape::Real),
            Rhs::Tuple(of) => {
                let of = of.iter().map(|a| self.shape(*a)).collect::<Result<_>>()?;
                (Cost::default(), Shape::Tuple(of))
            }
            Rhs::Part(a, k) => match self.shape(*a)? {
                Shape::Tuple(of) if *k < of.len() => (Cost::default(), of[*k].clone()),
                _ => return Err(Error::bug("cost", "a tuple is needed")),
            },
            Rhs::Drop(End::First | End::Last, a) => {
                let (n, element) = self.array(*a)?;
                (Cost::default(), Shape::array(n.saturating_sub(1), element))
            }
            Rhs::Map { params, body, arrays } => {
                let mut length = None;
                for (x, a) in params.iter().zip(arrays) {
                    let (n, element) = self.array(*a)?;
                    if length.is_some_and(|length| length != n) {
                        return Err(Error::data("map", "the arrays have different lengths"));
                    }
                    length = Some(n);
                    self.set(*x, element);
                }
                let (cost, element) = self.body(body)?;
                let n = length.unwrap_or(0);
                (n * cost, Shape::array(n, element))
            }
            Rhs::Reduce(sweep) => {
                let (_, cost, state) = self.sweep(sweep)?;
                (cost, state)
            }
            Rhs::Scan(_, sweep) => {
                let (n, cost, state) = self.sweep(sweep)?;
                let start = if sweep.init.var().is_some() { state.size() } else { 0 };
                (cost + Cost::moves(start), Shape::array(n.saturating_add(1), state))
            }
        };
        Ok((literals + cost, shape))
    }

    fn sweep(&mut self, sweep: &Sweep) -> Result<(u64, Cost, Shape)> {
        let ((n, element), state) = (self.array(sweep.array)?, self.shape(sweep.init)?);
        self.set(sweep.state, state.clone());
        self.set(sweep.element, element);
        let (cost, _) = self.body(&sweep.body)?;
        Ok((n, n * cost, state))
    }
}

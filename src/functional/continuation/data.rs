//! Types, blocks and programs.
//!
//! ```text
//! types        A ::= real | (A, ..) | [A]
//! atoms        a ::= x | r | 0
//! operations   r ::= a + a | a * a | f(a, ..) | (a, ..) | a.k | map (x, ... b) a .. | reduce (x, y. b) a a
//!                  | scanl (x, y. b) a a | scanr (x, y. b) a a | shift1L a | shift1R a
//! blocks       b ::= let x = r in .. a
//! ```
//!
//! A block in *unary form* is a sequence of operations on atoms with a name for each result; source programs and derivatives are of this form. Between
//! them, the derivative has *continuations*, functions of the cotangents of all variables in scope:
//!
//! ```text
//! functions    F ::= fun (y, ..) -> let y = r in .. Y(a, ..) | fun (y, ..) -> a
//! blocks       b ::= let Y = F in let x, Y = <r, F> in .. <a, F>        the derivative of a block
//!                  |                                      .. F(a, ..)    its cotangents for a seed
//! ```
//!
//! Arrays of real numbers, tuples and arrays nest at most [`Type::MAX_NESTING`] deep, and so do the bodies of operations on arrays: recursion over types
//! and bodies is safe on any stack. Sequences have any length and are walked by loops.

use std::sync::Arc;

use crate::base::{Arena, define_id};
use crate::error::{Error, Result};
use crate::reference::numeric::Users;
use crate::scalar::Function;

pub use crate::functional::lambda::End;

define_id!(
    /// A variable of ground type, bound in one place.
    Var,
    "x"
);
define_id!(
    /// A continuation variable: a function of cotangents.
    Cont,
    "Y"
);

/// A ground type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A real number.
    Real,
    /// A tuple.
    Tuple(Arc<[Type]>),
    /// Arrays of any length.
    Array(Arc<Type>),
}

impl Type {
    /// How deep types, and the bodies of operations on arrays, may nest.
    pub const MAX_NESTING: usize = 64;

    /// The type of tuples.
    pub fn tuple(of: impl IntoIterator<Item = Type>) -> Type {
        Type::Tuple(of.into_iter().collect())
    }

    /// The type of arrays.
    pub fn array(element: Type) -> Type {
        Type::Array(Arc::new(element))
    }

    /// The number of levels.
    pub fn nesting(&self) -> usize {
        match self {
            Type::Real => 1,
            Type::Tuple(of) => 1 + of.iter().map(Type::nesting).max().unwrap_or(0),
            Type::Array(element) => 1 + element.nesting(),
        }
    }
}

/// An operand.
#[derive(Clone, Copy, Debug)]
pub enum Atom {
    /// A variable.
    Var(Var),
    /// A literal.
    Number(f64),
    /// The zero of the type and shape of a variable: the cotangent of what is not used.
    Zero(Var),
}

impl PartialEq for Atom {
    fn eq(&self, other: &Atom) -> bool {
        match (self, other) {
            (Atom::Var(x), Atom::Var(y)) | (Atom::Zero(x), Atom::Zero(y)) => x == y,
            (Atom::Number(a), Atom::Number(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

impl From<Var> for Atom {
    fn from(x: Var) -> Atom {
        Atom::Var(x)
    }
}

impl Atom {
    /// The variable, if it is one.
    pub fn var(self) -> Option<Var> {
        match self {
            Atom::Var(x) => Some(x),
            Atom::Number(_) | Atom::Zero(_) => None,
        }
    }
}

/// An operation on atoms.
#[derive(Clone, Debug, PartialEq)]
pub enum Rhs {
    /// `a + b`, of any type: tuples and arrays are added element by element.
    Add(Atom, Atom),
    /// `a * b` of real numbers.
    Mul(Atom, Atom),
    /// A scalar function, or a partial derivative of one.
    Call(Function, Vec<Atom>),
    /// `(a, ..)`.
    Tuple(Vec<Atom>),
    /// `a.k`: a component of a tuple, from 0.
    Part(Atom, usize),
    /// `map (x, ... body) arrays`: the body for the elements at each index, of arrays of one length.
    Map {
        /// The elements.
        params: Vec<Var>,
        /// The result for them.
        body: Box<Block>,
        /// The arrays.
        arrays: Vec<Atom>,
    },
    /// `reduce (x, y. body) init array`: from left to right, `x` is the state.
    Reduce(Box<Sweep>),
    /// `scanl` from the first element, where `x` is the state; `scanr` from the last one, where `y` is. All states, one more than elements, in the order
    /// of the array.
    Scan(End, Box<Sweep>),
    /// `shift1L a`, `shift1R a`: an array without its first element, or without its last one.
    Drop(End, Atom),
}

/// What `reduce` and the scans have in common: `s = init`, and `s = body` for each element of the array.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The state.
    pub state: Var,
    /// The element.
    pub element: Var,
    /// The next state.
    pub body: Block,
    /// The first state.
    pub init: Atom,
    /// The elements.
    pub array: Atom,
}

/// `let x = rhs`, or `let x, Y = <rhs, fun>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// The variable.
    pub var: Var,
    /// Its value.
    pub rhs: Rhs,
    /// In a derivative, the continuation that begins with the cotangent of the variable.
    pub back: Option<(Cont, Fun)>,
}

/// A function of cotangents.
#[derive(Clone, Debug, PartialEq)]
pub struct Fun {
    /// Its parameters.
    pub params: Vec<Var>,
    /// What it computes.
    pub lets: Vec<Stmt>,
    /// What it answers.
    pub answer: Answer,
}

/// The answer of a function of cotangents.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// That of a continuation.
    Call(Cont, Vec<Atom>),
    /// A value.
    Value(Atom),
}

/// A sequence of operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// In a derivative, the continuation that everything ends with.
    pub start: Option<(Cont, Fun)>,
    /// The operations.
    pub stmts: Vec<Stmt>,
    /// The result.
    pub tail: Tail,
}

/// The result of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum Tail {
    /// A value.
    Value(Atom),
    /// `<a, F>`: a value, and the function from its cotangent and those of the variables in scope.
    Pair(Atom, Fun),
    /// `F(a, ..)`.
    Apply(Fun, Vec<Atom>),
}

/// What is known of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, for people.
    pub name: Arc<str>,
    /// Its type.
    pub ty: Type,
}

/// A block with free variables.
#[derive(Clone, Debug)]
pub struct Program {
    /// The registered scalar functions.
    pub users: Users,
    /// All variables.
    pub vars: Arena<Var, Variable>,
    /// The number of continuation variables.
    pub conts: u32,
    /// The free variables.
    pub params: Vec<Var>,
    /// The block.
    pub body: Block,
}

impl Block {
    /// A block without operations.
    pub fn value(result: Atom) -> Block {
        Block { start: None, stmts: Vec::new(), tail: Tail::Value(result) }
    }

    /// The result of a block in unary form.
    ///
    /// # Errors
    /// [`Error::Bug`] for a block with continuations.
    pub fn result(&self) -> Result<Atom> {
        match self.tail {
            Tail::Value(result) => Ok(result),
            Tail::Pair(..) | Tail::Apply(..) => Err(Error::bug("continuation", "a block of unary form is needed")),
        }
    }
}

impl Stmt {
    /// `let x = rhs`.
    pub fn new(var: Var, rhs: Rhs) -> Stmt {
        Stmt { var, rhs, back: None }
    }
}

impl Rhs {
    /// The atoms that the operation itself reads.
    pub fn operands(&self) -> Vec<Atom> {
        match self {
            Rhs::Add(a, b) | Rhs::Mul(a, b) => vec![*a, *b],
            Rhs::Call(_, of) | Rhs::Tuple(of) | Rhs::Map { arrays: of, .. } => of.clone(),
            Rhs::Part(a, _) | Rhs::Drop(_, a) => vec![*a],
            Rhs::Reduce(sweep) | Rhs::Scan(_, sweep) => vec![sweep.init, sweep.array],
        }
    }

    /// The same operation on other atoms. Bodies stay.
    pub fn map_operands(mut self, mut f: impl FnMut(Atom) -> Atom) -> Rhs {
        match &mut self {
            Rhs::Add(a, b) | Rhs::Mul(a, b) => {
                *a = f(*a);
                *b = f(*b);
            }
            Rhs::Call(_, of) | Rhs::Tuple(of) | Rhs::Map { arrays: of, .. } => of.iter_mut().for_each(|a| *a = f(*a)),
            Rhs::Part(a, _) | Rhs::Drop(_, a) => *a = f(*a),
            Rhs::Reduce(sweep) | Rhs::Scan(_, sweep) => {
                sweep.init = f(sweep.init);
                sweep.array = f(sweep.array);
            }
        }
        self
    }

    /// The body, with the variables bound in it.
    pub fn body(&self) -> Option<(Vec<Var>, &Block)> {
        match self {
            Rhs::Map { params, body, .. } => Some((params.clone(), body)),
            Rhs::Reduce(sweep) | Rhs::Scan(_, sweep) => Some((vec![sweep.state, sweep.element], &sweep.body)),
            _ => None,
        }
    }

    /// The body.
    pub fn body_mut(&mut self) -> Option<&mut Block> {
        match self {
            Rhs::Map { body, .. } => Some(body),
            Rhs::Reduce(sweep) | Rhs::Scan(_, sweep) => Some(&mut sweep.body),
            _ => None,
        }
    }
}

impl Program {
    /// The type of a variable.
    pub fn ty(&self, x: Var) -> &Type {
        &self.vars[x].ty
    }

    /// The type of an atom.
    pub fn atom_ty(&self, a: Atom) -> Type {
        match a {
            Atom::Var(x) | Atom::Zero(x) => self.ty(x).clone(),
            Atom::Number(_) => Type::Real,
        }
    }

    /// A new variable.
    pub fn fresh(&mut self, name: &str, ty: Type) -> Var {
        self.vars.push(Variable { name: name.into(), ty })
    }

    /// A new continuation variable.
    pub fn fresh_cont(&mut self) -> Cont {
        let cont = Cont(self.conts);
        self.conts += 1;
        cont
    }

    /// A new variable of the name and type of another one.
    pub fn fresh_like(&mut self, x: Var) -> Var {
        let variable = self.vars[x].clone();
        self.vars.push(variable)
    }

    /// The number of operations, those of bodies included.
    pub fn size(&self) -> usize {
        block_size(&self.body)
    }
}

fn block_size(block: &Block) -> usize {
    let stmts = |stmts: &[Stmt]| stmts.iter().map(stmt_size).sum::<usize>();
    let tail = match &block.tail {
        Tail::Value(_) => 0,
        Tail::Pair(_, fun) | Tail::Apply(fun, _) => stmts(&fun.lets),
    };
    block.start.iter().map(|(_, fun)| stmts(&fun.lets)).sum::<usize>() + stmts(&block.stmts) + tail
}

fn stmt_size(stmt: &Stmt) -> usize {
    let body = stmt.rhs.body().map_or(0, |(_, body)| block_size(body));
    1 + body + stmt.back.iter().flat_map(|(_, fun)| &fun.lets).map(stmt_size).sum::<usize>()
}

/// The variables that a block in unary form reads and does not bind, in the order of their first use in a block before its bodies.
pub fn free_variables(block: &Block, bound: &[Var]) -> Vec<Var> {
    let mut seen: std::collections::BTreeSet<Var> = bound.iter().copied().collect();
    let mut free = Vec::new();
    collect_free(block, &mut seen, &mut free);
    free
}

/// Variables are bound in one place, so what was bound in a body is not met outside of it.
fn collect_free(block: &Block, seen: &mut std::collections::BTreeSet<Var>, free: &mut Vec<Var>) {
    let mut read = |a: Atom, seen: &mut std::collections::BTreeSet<Var>| {
        if let Atom::Var(x) | Atom::Zero(x) = a
            && seen.insert(x)
        {
            free.push(x);
        }
    };
    let mut bodies: Vec<&Block> = Vec::new();
    for stmt in &block.stmts {
        stmt.rhs.operands().into_iter().for_each(|a| read(a, seen));
        if let Some((params, body)) = stmt.rhs.body() {
            seen.extend(params);
            bodies.push(body);
        }
        seen.insert(stmt.var);
    }
    if let Tail::Value(a) = block.tail {
        read(a, seen);
    }
    // The variables of this block are all known by now.
    bodies.into_iter().for_each(|body| collect_free(body, seen, free));
}

/// Refuses bodies that nest too deep.
pub(super) fn check_nesting(found: usize) -> Result<()> {
    if found <= Type::MAX_NESTING {
        return Ok(());
    }
    Err(Error::Limit {
        what: "the nesting of operations on arrays",
        limit: Type::MAX_NESTING as u64,
        found: found as u64,
    })
}

//! Building programs in unary form.
//!
//! Each method appends an operation, checks it by the typing rules and answers its variable. A body is a function of its variables:
//!
//! ```
//! use iverson::ir::functional::continuation::{Builder, Type};
//!
//! let mut b = Builder::new();
//! let a = b.param("A", Type::array(Type::Real));
//! let product = b.reduce(1.0, a, |b, x, y| b.mul(x, y))?;
//! assert_eq!(b.finish(product)?.to_string(), "reduce * 1 A");
//! # Ok::<(), iverson::Error>(())
//! ```

use super::data::{Atom, Block, End, Program, Rhs, Stmt, Sweep, Tail, Type, Var, check_nesting};
use super::verify::{rhs_type, verify};
use crate::base::Arena;
use crate::error::{Error, Result};
use crate::reference::numeric::Users;
use crate::scalar::{Function, Op, Primitive};

/// A program that is being built.
#[derive(Clone, Debug)]
pub struct Builder {
    program: Program,
    /// The blocks that are open, the innermost last.
    open: Vec<Vec<Stmt>>,
}

impl Default for Builder {
    fn default() -> Self {
        let vars = Arena::new();
        let body = Block::value(Atom::Number(0.0));
        Builder {
            program: Program { users: Users::new(), vars, conts: 0, params: Vec::new(), body },
            open: vec![Vec::new()],
        }
    }
}

impl From<Var> for Operand {
    fn from(x: Var) -> Operand {
        Operand(Atom::Var(x))
    }
}

impl From<Atom> for Operand {
    fn from(a: Atom) -> Operand {
        Operand(a)
    }
}

impl From<f64> for Operand {
    fn from(x: f64) -> Operand {
        Operand(Atom::Number(x))
    }
}

/// What the builder takes for an operand: a variable, an atom or a number.
#[derive(Clone, Copy, Debug)]
pub struct Operand(pub Atom);

impl Builder {
    /// Nothing yet.
    pub fn new() -> Self {
        Builder::default()
    }

    /// With registered scalar functions.
    pub fn with_users(users: Users) -> Self {
        let mut builder = Builder::default();
        builder.program.users = users;
        builder
    }

    /// What is there so far.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// A free variable of the program.
    pub fn param(&mut self, name: &str, ty: Type) -> Var {
        let x = self.program.fresh(name, ty);
        self.program.params.push(x);
        x
    }

    /// A variable to be bound by an operation.
    pub fn fresh(&mut self, name: &str, ty: Type) -> Var {
        self.program.fresh(name, ty)
    }

    /// Begins a body.
    ///
    /// # Errors
    /// [`Error::Limit`] beyond [`Type::MAX_NESTING`].
    pub fn open_body(&mut self) -> Result<()> {
        check_nesting(self.open.len())?;
        self.open.push(Vec::new());
        Ok(())
    }

    /// Ends a body.
    pub fn close_body(&mut self, result: Atom) -> Block {
        let stmts = self.open.pop().unwrap_or_default();
        Block { start: None, stmts, tail: Tail::Value(result) }
    }

    /// `let name = rhs`.
    ///
    /// # Errors
    /// [`Error::Request`] where the operation is not well typed.
    pub fn let_(&mut self, name: &str, rhs: Rhs) -> Result<Atom> {
        let body = rhs.body().map(|(_, body)| body.result()).transpose()?.map(|a| self.program.atom_ty(a));
        let ty = rhs_type(&self.program, &rhs, body).map_err(Error::Request)?;
        let var = self.program.fresh(name, ty);
        if let Some(block) = self.open.last_mut() {
            block.push(Stmt::new(var, rhs));
        }
        Ok(Atom::Var(var))
    }

    /// `a + b`, of any type.
    ///
    /// # Errors
    /// As of [`Builder::let_`].
    pub fn add(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Atom> {
        self.let_("w", Rhs::Add(a.into().0, b.into().0))
    }

    /// `a * b`.
    ///
    /// # Errors
    /// As of [`Builder::let_`].
    pub fn mul(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Atom> {
        self.let_("w", Rhs::Mul(a.into().0, b.into().0))
    }

    /// A built-in scalar function.
    ///
    /// # Errors
    /// As of [`Builder::let_`].
    pub fn op(&mut self, op: Op, args: &[Atom]) -> Result<Atom> {
        self.let_("w", Rhs::Call(Function::Value(Primitive::Op(op)), args.to_vec()))
    }

    /// `(a, ..)`.
    ///
    /// # Errors
    /// As of [`Builder::let_`].
    pub fn tuple(&mut self, of: &[Atom]) -> Result<Atom> {
        self.let_("p", Rhs::Tuple(of.to_vec()))
    }

    /// `a.k`.
    ///
    /// # Errors
    /// As of [`Builder::let_`].
    pub fn part(&mut self, a: impl Into<Operand>, k: usize) -> Result<Atom> {
        self.let_("w", Rhs::Part(a.into().0, k))
    }

    /// The type of the elements of an array.
    ///
    /// # Errors
    /// [`Error::Request`] where it is no array.
    pub fn element(&self, array: Atom) -> Result<Type> {
        match self.program.atom_ty(array) {
            Type::Array(element) => Ok((*element).clone()),
            found => Err(Error::Request(format!("an array is needed, found {found}"))),
        }
    }

    /// `map (x, ... body) arrays`.
    ///
    /// # Errors
    /// As of [`Builder::let_`] and [`Builder::open_body`].
    pub fn map(&mut self, arrays: &[Atom], body: impl FnOnce(&mut Builder, &[Var]) -> Result<Atom>) -> Result<Atom> {
        let mut params = Vec::with_capacity(arrays.len());
        for (k, array) in arrays.iter().enumerate() {
            let element = self.element(*array)?;
            params.push(self.fresh(["a", "b", "c", "d"].get(k).copied().unwrap_or("e"), element));
        }
        self.open_body()?;
        let result = body(self, &params)?;
        let body = self.close_body(result);
        self.let_("M", Rhs::Map { params, body: Box::new(body), arrays: arrays.to_vec() })
    }

    /// `reduce (x, y. body(x, y)) init array`.
    ///
    /// # Errors
    /// As of [`Builder::let_`] and [`Builder::open_body`].
    pub fn reduce(
        &mut self,
        init: impl Into<Operand>,
        array: impl Into<Operand>,
        body: impl FnOnce(&mut Builder, Var, Var) -> Result<Atom>,
    ) -> Result<Atom> {
        let sweep = self.sweep(init.into().0, array.into().0, End::First, body)?;
        self.let_("r", Rhs::Reduce(Box::new(sweep)))
    }

    /// `scanl (x, y. body(x, y)) init array` from the first element, `scanr` from the last one.
    ///
    /// # Errors
    /// As of [`Builder::let_`] and [`Builder::open_body`].
    pub fn scan(
        &mut self,
        from: End,
        init: impl Into<Operand>,
        array: impl Into<Operand>,
        body: impl FnOnce(&mut Builder, Var, Var) -> Result<Atom>,
    ) -> Result<Atom> {
        let sweep = self.sweep(init.into().0, array.into().0, from, body)?;
        self.let_("S", Rhs::Scan(from, Box::new(sweep)))
    }

    fn sweep(
        &mut self,
        init: Atom,
        array: Atom,
        from: End,
        body: impl FnOnce(&mut Builder, Var, Var) -> Result<Atom>,
    ) -> Result<Sweep> {
        let (state, element) = (self.program.atom_ty(init), self.element(array)?);
        let (state, element) = match from {
            End::First => (self.fresh("a", state), self.fresh("b", element)),
            End::Last => (self.fresh("b", state), self.fresh("a", element)),
        };
        self.open_body()?;
        let result = match from {
            End::First => body(self, state, element)?,
            End::Last => body(self, element, state)?,
        };
        Ok(Sweep { state, element, body: self.close_body(result), init, array })
    }

    /// `shift1L a`, which has no first element, and `shift1R a`, which has no last one.
    ///
    /// # Errors
    /// As of [`Builder::let_`].
    pub fn drop(&mut self, end: End, array: impl Into<Operand>) -> Result<Atom> {
        self.let_("A", Rhs::Drop(end, array.into().0))
    }

    /// The program of a result.
    ///
    /// # Errors
    /// [`Error::Bug`] where what was built is no program, see [`verify`].
    pub fn finish(mut self, result: Atom) -> Result<Program> {
        self.program.body = self.close_body(result);
        verify("build", &self.program)?;
        Ok(self.program)
    }
}

//! Types, and the typing rules.
//!
//! [`infer`] has one rule for each term: the type of the term from those of its operands. The builder, the parser and the verifier all ask it, so there
//! is one place that says what is well typed.

use std::fmt;

use super::data::{Context, Prim, Term, TermId, Type, TypeId};
use super::linear::LinearType;
use crate::base::{Interner, VarId};
use crate::reference::numeric::Users;
use crate::scalar::{Function, Primitive};

/// The types of a program.
#[derive(Clone, Debug, Default)]
pub struct Types(Interner<TypeId, Type>);

impl std::ops::Index<TypeId> for Types {
    type Output = Type;
    fn index(&self, ty: TypeId) -> &Type {
        &self.0[ty]
    }
}

impl Types {
    /// The id of a type.
    pub fn intern(&mut self, ty: Type) -> TypeId {
        self.0.intern(ty)
    }

    /// All types; the parts of a type come before it.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        self.0.iter()
    }

    /// The number of types.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no types.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `real`.
    pub fn real(&mut self) -> TypeId {
        self.intern(Type::Real)
    }

    /// `int`.
    pub fn int(&mut self) -> TypeId {
        self.intern(Type::Int)
    }

    /// `unit`.
    pub fn unit(&mut self) -> TypeId {
        self.intern(Type::Unit)
    }

    /// `unit + unit`, where `inl ()` is true.
    pub fn boolean(&mut self) -> TypeId {
        let unit = self.unit();
        self.sum(unit, unit)
    }

    /// `a * b`.
    pub fn pair(&mut self, a: TypeId, b: TypeId) -> TypeId {
        self.intern(Type::Pair(a, b))
    }

    /// `((a * b) * c) * ..`; `unit` of no types.
    pub fn tuple(&mut self, of: &[TypeId]) -> TypeId {
        let pairs = of.iter().copied().reduce(|a, b| self.pair(a, b));
        pairs.unwrap_or_else(|| self.unit())
    }

    /// `a + b`.
    pub fn sum(&mut self, a: TypeId, b: TypeId) -> TypeId {
        self.intern(Type::Sum(a, b))
    }

    /// `a -> b`.
    pub fn function(&mut self, a: TypeId, b: TypeId) -> TypeId {
        self.intern(Type::Fn(a, b))
    }

    /// A linear type.
    pub fn linear(&mut self, ty: LinearType) -> TypeId {
        self.intern(Type::Linear(ty))
    }

    /// `~real`.
    pub fn linear_real(&mut self) -> TypeId {
        self.linear(LinearType::Real)
    }

    /// `~unit`.
    pub fn linear_unit(&mut self) -> TypeId {
        self.linear(LinearType::Unit)
    }

    /// `[a]`.
    pub fn array(&mut self, a: TypeId) -> TypeId {
        self.intern(Type::Array(a))
    }
}

/// Why a term is not well typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch(pub String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The result of a typing rule.
pub type Typing = std::result::Result<TypeId, Mismatch>;

/// The domain and the codomain of a primitive operation; nothing for those of arrays.
fn signature(types: &mut Types, prim: Prim, users: &Users) -> (TypeId, TypeId) {
    let (real, int, boolean) = (types.real(), types.int(), types.boolean());
    match prim {
        Prim::Add | Prim::Mul => (types.pair(real, real), real),
        Prim::Neg => (real, real),
        Prim::Scalar(function) => (types.tuple(&vec![real; arity(function, users)]), real),
        Prim::Compare(_) => (types.pair(real, real), boolean),
        Prim::Order => {
            let unit = types.unit();
            (real, types.sum(boolean, unit))
        }
        Prim::ToReal => (int, real),
        Prim::IntAdd | Prim::IntMul | Prim::IntDiv | Prim::IntRem => (types.pair(int, int), int),
        Prim::IntNeg => (int, int),
        Prim::IntCompare(_) => (types.pair(int, int), boolean),
        Prim::Sum => (types.array(real), real),
        Prim::Scale => {
            let linear = types.linear_real();
            (types.pair(linear, real), linear)
        }
        Prim::Opposite => {
            let linear = types.linear_real();
            (linear, linear)
        }
        // Of arrays of all types.
        Prim::DropFirst | Prim::DropLast => (real, real),
    }
}

/// The number of operands of a scalar function.
pub fn arity(function: Function, users: &Users) -> usize {
    match function {
        Function::Value(Primitive::Op(op)) | Function::Partial(Primitive::Op(op), _) => usize::from(op.arity()),
        Function::Value(Primitive::User(id)) | Function::Partial(Primitive::User(id), _) => {
            users.get(id).map_or(0, |user| usize::from(user.arity()))
        }
    }
}

/// The type of a term, by those of its operands and variables.
///
/// # Errors
/// What does not fit.
pub fn infer(context: &mut Context, term: &Term) -> Typing {
    Rule { context }.infer(term)
}

struct Rule<'a> {
    context: &'a mut Context,
}

impl Rule<'_> {
    fn types(&mut self) -> &mut Types {
        &mut self.context.types
    }

    fn fail<T>(&self, what: &str, found: TypeId) -> std::result::Result<T, Mismatch> {
        Err(Mismatch(format!("{what}, found {}", self.context.show(found))))
    }

    /// The term has to have the type.
    fn want(&self, what: &str, e: TermId, ty: TypeId) -> std::result::Result<(), Mismatch> {
        self.want_type(what, self.context.ty(e), ty)
    }

    fn want_type(&self, what: &str, found: TypeId, ty: TypeId) -> std::result::Result<(), Mismatch> {
        match found == ty {
            true => Ok(()),
            false => self.fail(&format!("{what} has to be of type {}", self.context.show(ty)), found),
        }
    }

    /// The variable has to have the type.
    fn bound(&self, x: VarId, ty: TypeId) -> std::result::Result<(), Mismatch> {
        let variable = &self.context.vars[x];
        self.want_type(&format!("the value of `{}`", variable.name), ty, variable.ty)
    }

    fn element(&self, a: TermId) -> Typing {
        let ty = self.context.ty(a);
        match self.context.types[ty] {
            Type::Array(element) => Ok(element),
            _ => self.fail("an array is needed", ty),
        }
    }

    fn int(&mut self, what: &str, e: TermId) -> std::result::Result<(), Mismatch> {
        let int = self.types().int();
        self.want(what, e, int)
    }

    fn infer(&mut self, term: &Term) -> Typing {
        let of = |rule: &Self, e: TermId| (rule.context.ty(e), rule.context.types[rule.context.ty(e)].clone());
        match term {
            Term::Var(x) => Ok(self.context.vars[*x].ty),
            Term::Let(x, value, body) => {
                self.bound(*x, self.context.ty(*value))?;
                Ok(self.context.ty(*body))
            }
            Term::Unit => Ok(self.types().unit()),
            Term::Real(_) => Ok(self.types().real()),
            Term::Int(_) => Ok(self.types().int()),
            Term::Prim(prim, a) => self.prim(*prim, *a),
            Term::Pair(a, b) | Term::Par(a, b) => {
                let (a, b) = (self.context.ty(*a), self.context.ty(*b));
                Ok(self.types().pair(a, b))
            }
            Term::Fst(a) => match of(self, *a) {
                (_, Type::Pair(a, _)) => Ok(a),
                (ty, _) => self.fail("`fst` is of a pair", ty),
            },
            Term::Snd(a) => match of(self, *a) {
                (_, Type::Pair(_, b)) => Ok(b),
                (ty, _) => self.fail("`snd` is of a pair", ty),
            },
            Term::Inl(ty, a) => match self.context.types[*ty] {
                Type::Sum(left, _) => self.want("the operand of `inl`", *a, left).map(|()| *ty),
                _ => self.fail("`inl` is of a sum type", *ty),
            },
            Term::Inr(ty, b) => match self.context.types[*ty] {
                Type::Sum(_, right) => self.want("the operand of `inr`", *b, right).map(|()| *ty),
                _ => self.fail("`inr` is of a sum type", *ty),
            },
            Term::Case(e, (x, a), (y, b)) => {
                let (_, Type::Sum(left, right)) = of(self, *e) else {
                    return self.fail("`case` is of a sum", self.context.ty(*e));
                };
                self.bound(*x, left)?;
                self.bound(*y, right)?;
                let result = self.context.ty(*a);
                self.want("the second branch of `case`", *b, result)?;
                Ok(result)
            }
            Term::Fn(..) | Term::Rec(..) | Term::Apply(..) | Term::Roll(..) | Term::Unroll(_) | Term::External(..) => {
                self.function(term)
            }
            Term::Build(..)
            | Term::Index(..)
            | Term::Length(_)
            | Term::Map(..)
            | Term::Reduce { .. }
            | Term::Scan { .. } => self.array(term),
            Term::Fold { .. } | Term::Iterate { .. } => self.repeat(term),
            Term::Linear(linear) => super::linear::infer(self.context, linear),
        }
    }

    fn function(&mut self, term: &Term) -> Typing {
        let of = |rule: &Self, e: TermId| (rule.context.ty(e), rule.context.types[rule.context.ty(e)].clone());
        match term {
            Term::Fn(x, body) => {
                let (domain, codomain) = (self.context.var_ty(*x), self.context.ty(*body));
                Ok(self.types().function(domain, codomain))
            }
            Term::Rec(f, x, body) => {
                let (domain, codomain) = (self.context.var_ty(*x), self.context.ty(*body));
                let ty = self.types().function(domain, codomain);
                self.bound(*f, ty)?;
                Ok(ty)
            }
            Term::Apply(f, a) => match of(self, *f) {
                (_, Type::Fn(domain, codomain)) => {
                    self.want("the argument of a function", *a, domain).map(|()| codomain)
                }
                (ty, _) => self.fail("a function is needed", ty),
            },
            Term::Roll(data, a) => {
                let ty = self.types().intern(Type::Data(*data));
                match self.context.data[*data].definition {
                    Some(definition) => self.want("the operand of `roll`", *a, definition).map(|()| ty),
                    None => self.fail("a data type without a definition", ty),
                }
            }
            Term::Unroll(a) => match of(self, *a) {
                (ty, Type::Data(data)) => match self.context.data[data].definition {
                    Some(definition) => Ok(definition),
                    None => self.fail("a data type without a definition", ty),
                },
                (ty, _) => self.fail("`unroll` is of a data type", ty),
            },
            Term::External(f, a) => {
                let external = &self.context.externals[*f];
                let (domain, codomain) = (external.domain, external.codomain);
                self.want("the argument of a function", *a, domain).map(|()| codomain)
            }
            _ => Err(Mismatch("not a term of functions or data types".to_string())),
        }
    }

    fn prim(&mut self, prim: Prim, a: TermId) -> Typing {
        if let Prim::DropFirst | Prim::DropLast = prim {
            let element = self.element(a)?;
            return Ok(self.types().array(element));
        }
        if let Prim::Scalar(function @ Function::Partial(_, k)) = prim
            && usize::from(k) >= arity(function, &self.context.users)
        {
            return Err(Mismatch(format!("there is no partial derivative by operand {k}")));
        }
        let (domain, codomain) = signature(&mut self.context.types, prim, &self.context.users);
        self.want("the operand of a primitive operation", a, domain).map(|()| codomain)
    }

    fn array(&mut self, term: &Term) -> Typing {
        match term {
            Term::Build(n, i, body) => {
                let int = self.types().int();
                self.int("the length of an array", *n)?;
                self.bound(*i, int)?;
                let element = self.context.ty(*body);
                Ok(self.types().array(element))
            }
            Term::Index(a, k) => {
                self.int("an index", *k)?;
                self.element(*a)
            }
            Term::Length(a) => {
                self.element(*a)?;
                Ok(self.types().int())
            }
            Term::Map(args, body) => {
                if args.is_empty() {
                    return Err(Mismatch("a map is of one array or more".to_string()));
                }
                for (x, a) in args {
                    let element = self.element(*a)?;
                    self.bound(*x, element)?;
                }
                let element = self.context.ty(*body);
                Ok(self.types().array(element))
            }
            Term::Reduce { vars: (x, y), body, init, array } => {
                let element = self.element(*array)?;
                let state = self.context.ty(*body);
                self.bound(*x, state)?;
                self.bound(*y, element)?;
                match init {
                    Some(init) => self.want("the start of a reduction", *init, state)?,
                    None => self.want_type("an element of a reduction without a start", element, state)?,
                }
                Ok(state)
            }
            Term::Scan { from, vars: (x, y), body, init, array } => {
                let element = self.element(*array)?;
                let state = self.context.ty(*body);
                let (state_var, element_var) = match from {
                    super::data::End::First => (*x, *y),
                    super::data::End::Last => (*y, *x),
                };
                self.bound(state_var, state)?;
                self.bound(element_var, element)?;
                self.want("the start of a scan", *init, state)?;
                Ok(self.types().array(state))
            }
            _ => Err(Mismatch("not a term of arrays".to_string())),
        }
    }

    fn repeat(&mut self, term: &Term) -> Typing {
        match term {
            Term::Fold { count, index, state, init, body } => {
                let int = self.types().int();
                self.int("the number of steps", *count)?;
                self.bound(*index, int)?;
                let ty = self.context.ty(*init);
                self.bound(*state, ty)?;
                self.want("the next state", *body, ty)?;
                Ok(ty)
            }
            Term::Iterate { state, init, cond, body } => {
                let boolean = self.types().boolean();
                let ty = self.context.ty(*init);
                self.bound(*state, ty)?;
                self.want("the condition of a loop", *cond, boolean)?;
                self.want("the next state", *body, ty)?;
                Ok(ty)
            }
            _ => Err(Mismatch("not a loop".to_string())),
        }
    }
}

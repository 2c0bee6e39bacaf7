//! The typing rules of operations, and what every program promises. Run on the result of every pass.
//!
//! - each variable is bound in one place and read where it is in scope;
//! - each operation has the type that its rule gives it, and its variable has that type;
//! - each continuation is called with one cotangent for each of its parameters, of the same types.
//!
//! [`is_unary_form`] says which programs have no continuations: sources, and what partial evaluation leaves.

use std::fmt;

use super::data::{Answer, Atom, Block, Cont, End, Fun, Program, Rhs, Stmt, Sweep, Tail, Type, Var, check_nesting};
use crate::base::Id;
use crate::error::{Error, Result};
use crate::functional::lambda::arity;

type Check<T = ()> = std::result::Result<T, String>;

/// Checks a program; the error names the pass that made it.
///
/// # Errors
/// [`Error::Bug`] for the first promise that is broken, [`Error::Limit`] for bodies that nest deeper than [`Type::MAX_NESTING`].
pub fn verify(pass: &'static str, program: &Program) -> Result<()> {
    check_nesting(nesting(&program.body))?;
    let mut scope = Scope { program, bound: vec![false; program.vars.len()], visible: Vec::new(), conts: Vec::new() };
    let check = scope.bind_all(&program.params).and_then(|()| scope.block(&program.body).map(drop));
    check.map_err(|message| Error::Bug { pass, message, program: program.to_string() })
}

/// The nesting of the bodies of a block.
pub(super) fn nesting(block: &Block) -> usize {
    let of = |stmts: &[Stmt]| {
        stmts.iter().filter_map(|stmt| stmt.rhs.body()).map(|(_, body)| 1 + nesting(body)).max().unwrap_or(0)
    };
    let backs = block.stmts.iter().filter_map(|stmt| stmt.back.as_ref()).map(|(_, fun)| of(&fun.lets)).max();
    of(&block.stmts).max(backs.unwrap_or(0))
}

/// Why a program is not in unary form: the place of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(pub String);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a program is in unary form: no function of cotangents is left anywhere, in no body of an operation either.
///
/// # Errors
/// The first function.
pub fn is_unary_form(program: &Program) -> std::result::Result<(), Reason> {
    unary(&program.body)
}

fn unary(block: &Block) -> std::result::Result<(), Reason> {
    if let Some((cont, _)) = &block.start {
        return Err(Reason(format!("{cont} is a function")));
    }
    for stmt in &block.stmts {
        if let Some((cont, _)) = &stmt.back {
            return Err(Reason(format!("{cont}, beside {}, is a function", stmt.var)));
        }
        if let Some((_, body)) = stmt.rhs.body() {
            unary(body)?;
        }
    }
    match block.tail {
        Tail::Value(_) => Ok(()),
        Tail::Pair(..) => Err(Reason("the result has a function".to_string())),
        Tail::Apply(..) => Err(Reason("the result is that of a function".to_string())),
    }
}

/// The type of an operation.
pub(super) fn rhs_type(program: &Program, rhs: &Rhs, body: Option<Type>) -> Check<Type> {
    let ty = |a: Atom| program.atom_ty(a);
    let real = |a: Atom| match ty(a) {
        Type::Real => Ok(()),
        found => Err(format!("a real number is needed, found {found}")),
    };
    let element = |a: Atom| match ty(a) {
        Type::Array(element) => Ok((*element).clone()),
        found => Err(format!("an array is needed, found {found}")),
    };
    let body = || body.ok_or_else(|| "an operation without its body".to_string());
    match rhs {
        Rhs::Add(a, b) if ty(*a) == ty(*b) => Ok(ty(*a)),
        Rhs::Add(a, b) => Err(format!("`+` is of one type, found {} and {}", ty(*a), ty(*b))),
        Rhs::Mul(a, b) => real(*a).and(real(*b)).map(|()| Type::Real),
        Rhs::Call(function, args) if args.len() != arity(*function, &program.users) => {
            Err(format!("a scalar function has {} operands", args.len()))
        }
        Rhs::Call(_, args) => args.iter().try_for_each(|a| real(*a)).map(|()| Type::Real),
        Rhs::Tuple(of) => Ok(Type::tuple(of.iter().map(|a| ty(*a)))),
        Rhs::Part(a, k) => match ty(*a) {
            Type::Tuple(of) => of.get(*k).cloned().ok_or_else(|| format!("a tuple without component {k}")),
            found => Err(format!("a tuple is needed, found {found}")),
        },
        Rhs::Map { params, arrays, .. } => {
            if params.len() != arrays.len() || params.is_empty() {
                return Err("a map has one parameter for each array, and an array".to_string());
            }
            for (x, a) in params.iter().zip(arrays) {
                same("an element", &element(*a)?, program.ty(*x))?;
            }
            Ok(Type::array(body()?))
        }
        Rhs::Reduce(sweep) | Rhs::Scan(_, sweep) => {
            let Sweep { state, element: x, init, array, .. } = &**sweep;
            same("an element", &element(*array)?, program.ty(*x))?;
            same("the first state", &ty(*init), program.ty(*state))?;
            let next = body()?;
            same("the next state", &next, program.ty(*state))?;
            Ok(if matches!(rhs, Rhs::Reduce(_)) { next } else { Type::array(next) })
        }
        Rhs::Drop(End::First | End::Last, a) => element(*a).map(Type::array),
    }
}

fn same(what: &str, found: &Type, wanted: &Type) -> Check {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what} is of type {found}, its variable of type {wanted}"))
}

struct Scope<'a> {
    program: &'a Program,
    /// Whether a variable was bound anywhere.
    bound: Vec<bool>,
    /// Whether a variable is in scope.
    visible: Vec<bool>,
    /// The types of the parameters of a continuation, and of its answer.
    conts: Vec<Option<(Vec<Type>, Type)>>,
}

impl Scope<'_> {
    fn bind(&mut self, x: Var) -> Check {
        match self.bound.get_mut(x.index()) {
            Some(bound) if !*bound => *bound = true,
            _ => return Err(format!("{x} is bound twice, or no variable")),
        }
        if self.program.ty(x).nesting() > Type::MAX_NESTING {
            return Err(format!("the type of {x} nests too deep"));
        }
        self.visible.resize(self.bound.len(), false);
        self.visible[x.index()] = true;
        Ok(())
    }

    fn bind_all(&mut self, of: &[Var]) -> Check {
        of.iter().try_for_each(|x| self.bind(*x))
    }

    fn leave(&mut self, of: impl IntoIterator<Item = Var>) {
        of.into_iter().for_each(|x| self.visible[x.index()] = false);
    }

    fn read(&self, a: Atom) -> Check {
        match a {
            Atom::Var(x) | Atom::Zero(x) if !self.visible.get(x.index()).copied().unwrap_or(false) => {
                Err(format!("{x} is read out of its scope"))
            }
            _ => Ok(()),
        }
    }

    fn bind_cont(&mut self, cont: Cont, fun: &Fun, answer: Type) -> Check {
        if cont.0 >= self.program.conts {
            return Err(format!("{cont} is no continuation variable"));
        }
        let types = fun.params.iter().map(|x| self.program.ty(*x).clone()).collect();
        self.conts.resize(self.program.conts as usize, None);
        match self.conts[cont.index()].replace((types, answer)) {
            None => Ok(()),
            Some(_) => Err(format!("{cont} is bound twice")),
        }
    }

    fn stmts(&mut self, stmts: &[Stmt]) -> Check {
        for stmt in stmts {
            stmt.rhs.operands().into_iter().try_for_each(|a| self.read(a))?;
            let body = match stmt.rhs.body() {
                Some((params, body)) => {
                    self.bind_all(&params)?;
                    let ty = self.block(body)?;
                    self.leave(params);
                    Some(ty)
                }
                None => None,
            };
            let ty = rhs_type(self.program, &stmt.rhs, body).map_err(|message| format!("{}: {message}", stmt.var))?;
            same(&stmt.var.to_string(), &ty, self.program.ty(stmt.var))?;
            self.bind(stmt.var)?;
            if let Some((cont, fun)) = &stmt.back {
                let answer = self.fun(fun)?;
                self.bind_cont(*cont, fun, answer)?;
            }
        }
        Ok(())
    }

    /// The type of the answer of a function.
    fn fun(&mut self, fun: &Fun) -> Check<Type> {
        self.bind_all(&fun.params)?;
        self.stmts(&fun.lets)?;
        let answer = match &fun.answer {
            Answer::Value(a) => {
                self.read(*a)?;
                self.program.atom_ty(*a)
            }
            Answer::Call(cont, args) => {
                args.iter().try_for_each(|a| self.read(*a))?;
                let Some((params, answer)) = self.conts.get(cont.index()).cloned().flatten() else {
                    return Err(format!("{cont} is called out of its scope"));
                };
                let types: Vec<Type> = args.iter().map(|a| self.program.atom_ty(*a)).collect();
                if types != params {
                    return Err(format!("{cont} is called with other types than it has"));
                }
                answer
            }
        };
        self.leave(fun.params.iter().copied().chain(fun.lets.iter().map(|stmt| stmt.var)).collect::<Vec<_>>());
        Ok(answer)
    }

    /// The type of the result of a block; of its value, where it has a function beside.
    fn block(&mut self, block: &Block) -> Check<Type> {
        if let Some((cont, fun)) = &block.start {
            let answer = self.fun(fun)?;
            self.bind_cont(*cont, fun, answer)?;
        }
        self.stmts(&block.stmts)?;
        let ty = match &block.tail {
            Tail::Value(a) => {
                self.read(*a)?;
                self.program.atom_ty(*a)
            }
            Tail::Pair(a, fun) => {
                self.read(*a)?;
                self.fun(fun)?;
                self.program.atom_ty(*a)
            }
            Tail::Apply(fun, args) => {
                args.iter().try_for_each(|a| self.read(*a))?;
                let types = args.iter().map(|a| self.program.atom_ty(*a));
                if !types.eq(fun.params.iter().map(|x| self.program.ty(*x).clone())) {
                    return Err("a function is applied to other types than it has".to_string());
                }
                self.fun(fun)?
            }
        };
        self.leave(block.stmts.iter().map(|stmt| stmt.var).collect::<Vec<_>>());
        Ok(ty)
    }
}

/// The nesting of operations on arrays: 0 where there are none.
pub fn array_nesting(program: &Program) -> usize {
    nesting(&program.body)
}

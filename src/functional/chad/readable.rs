//! Derivatives as a mathematician writes them: partial evaluation, for reading. Appendix B of \[003\] does the same by rewriting.
//!
//! ```text
//! known pairs, functions, zeros, logs of calls and arrays of these are computed with; what is left are operations on reals, each with a name
//! (map (x. (e, f)) a, of which the parts are read)  =  map (x. e) a and map (x. f) a
//! case sum of !x (x) v over a of !x (x) v -> e      =  sum over a of e
//! ```
//!
//! The result is a program of the source language: `~real` is `real`, `~*` is `*`. What is used once has no name of its own, but for the variables of the
//! source and their tangents and cotangents, which are primed. Known functions disappear, so the time of what is left is another: this shows what a derivative
//! computes, not how often. Refused: what depends on unknown sums and loops, and large programs, since this recurses.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Derivative, Mode};
use crate::base::{Id, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::{Builder, Linear, LinearType, Prim, Program, Term, TermId, Type, TypeId};
use crate::scalar::{Formula, Function, Partial, Primitive, partial};

/// The largest derivative, in terms.
const LARGEST: usize = 4000;

#[path = "write.rs"]
mod write;

/// A value that is known as far as it is.
#[derive(Clone)]
enum Known {
    Atom(Atom),
    Zero,
    Pair(Rc<(Known, Known)>),
    Function(TermId, Scope),
    /// The sum of two functions.
    Both(Rc<(Known, Known)>),
    /// The entries of a copower.
    Entries(Vec<Entry>),
    /// An array that is not written down.
    Array(Rc<Array>),
}

/// What is there at run time.
#[derive(Clone, Copy, PartialEq)]
enum Atom {
    Var(VarId),
    Real(f64),
    Int(i64),
    Unit,
}

/// `!x (x) v`, or the sum of these over some arrays.
#[derive(Clone)]
struct Entry {
    over: Option<Rc<Array>>,
    x: Known,
    v: Known,
}

/// `map vars in over. let block in element`.
#[derive(Clone)]
struct Array {
    over: Over,
    block: Vec<(VarId, Rhs)>,
    element: Known,
}

/// What an array goes through.
#[derive(Clone)]
enum Over {
    Count(Atom, VarId),
    Arrays(Vec<(VarId, Atom)>),
}

#[derive(Clone)]
enum Rhs {
    Prim(Prim, Vec<Atom>),
    Fst(Atom),
    Snd(Atom),
    Index(Atom, Atom),
    Length(Atom),
    Array(Rc<Array>),
    /// The same value.
    Same(Atom),
}

/// The variables of the derivative that are in scope.
#[derive(Clone, Default)]
struct Scope(Option<Rc<(VarId, Known, Scope)>>);

impl Scope {
    fn with(&self, x: VarId, value: Known) -> Scope {
        Scope(Some(Rc::new((x, value, self.clone()))))
    }

    fn get(&self, x: VarId) -> Result<Known> {
        let mut at = self;
        while let Some(node) = &at.0 {
            if node.0 == x {
                return Ok(node.1.clone());
            }
            at = &node.2;
        }
        Err(Error::bug("readable", "a variable is not in scope"))
    }
}

fn unknown<T>(what: &str) -> Result<T> {
    Err(Error::Limitation { feature: format!("{what} in a readable derivative"), span: None })
}

struct Reader<'a> {
    source: &'a Program,
    out: Builder,
    /// What is computed in the present block.
    block: Vec<(VarId, Rhs)>,
    /// Variables with a name that is to be kept.
    named: BTreeMap<VarId, String>,
    /// The number of variables of the source, which are the first ones.
    variables: usize,
    /// The parameters.
    out_params: Vec<VarId>,
}

impl Derivative {
    /// The derivative as a program of the source language, for reading.
    ///
    /// # Errors
    /// [`Error::Limit`] for a large one, [`Error::Limitation`] for what cannot be computed with.
    pub fn readable(&self) -> Result<Program> {
        let size = self.program.size();
        if size > LARGEST {
            return Err(Error::Limit {
                what: "terms of a derivative to read",
                limit: LARGEST as u64,
                found: size as u64,
            });
        }
        let mut reader = Reader {
            source: &self.program,
            out: Builder::new(),
            block: Vec::new(),
            named: BTreeMap::new(),
            variables: self.variables,
            out_params: Vec::new(),
        };
        let mut scope = Scope::default();
        for x in &self.program.params {
            let variable = &self.program.vars[*x];
            let ty = reader.plain(variable.ty)?;
            let param = reader.out.param(&variable.name, ty);
            reader.named.insert(param, variable.name.clone());
            reader.out_params.push(param);
            scope = scope.with(*x, Known::Atom(Atom::Var(param)));
        }
        let result = reader.eval(self.program.body, &scope)?;
        let (value, map) = reader.parts(result)?;
        reader.derivative(self, value, map)
    }
}

impl Reader<'_> {
    /// A linear type as one of values.
    fn plain(&mut self, ty: TypeId) -> Result<TypeId> {
        Ok(match self.source.types[ty] {
            Type::Real | Type::Linear(LinearType::Real) => self.out.types().real(),
            Type::Int => self.out.types().int(),
            Type::Unit | Type::NoCells | Type::Linear(LinearType::Unit) => self.out.types().unit(),
            Type::Pair(a, b) | Type::Linear(LinearType::Pair(a, b)) => {
                let (a, b) = (self.plain(a)?, self.plain(b)?);
                self.out.types().pair(a, b)
            }
            Type::Array(a) => {
                let a = self.plain(a)?;
                self.out.types().array(a)
            }
            _ => return unknown("this type"),
        })
    }

    /// The value, and the linear map as a function of the tuple of tangents or of the cotangent.
    fn derivative(mut self, of: &Derivative, value: Known, map: Known) -> Result<Program> {
        let outer = std::mem::take(&mut self.block);
        let names: Vec<String> = of.program.params.iter().map(|x| format!("{}'", of.program.vars[*x].name)).collect();
        let types = of.parameters.iter().map(|ty| self.plain(*ty)).collect::<Result<Vec<_>>>()?;
        let (domain, name) = match of.mode {
            Mode::Forward => {
                (self.out.types().tuple(&types), if names.len() == 1 { names[0].clone() } else { "v".into() })
            }
            Mode::Reverse => {
                let Type::Fn(domain, _) = of.program.types[self.type_of_map(of)?] else {
                    return unknown("this result");
                };
                let last = match value {
                    Known::Atom(Atom::Var(x)) => self.named.get(&x).map(|name| format!("{name}'")),
                    _ => None,
                };
                (self.plain(domain)?, last.unwrap_or_else(|| "v".into()))
            }
        };
        let v = self.out.fresh(&name, domain);
        self.named.insert(v, name);
        let arg = Known::Atom(Atom::Var(v));
        let arg = match of.mode {
            Mode::Reverse => arg,
            Mode::Forward => {
                let mut cells = Vec::new();
                let mut rest = arg;
                for k in (0..names.len()).rev() {
                    let cell = if k == 0 { rest.clone() } else { self.second(&rest)? };
                    if let Known::Atom(Atom::Var(x)) = cell {
                        self.named.insert(x, names[k].clone());
                    }
                    cells.push(cell);
                    if k > 0 {
                        rest = self.first(&rest)?;
                    }
                }
                let nothing = Known::Atom(Atom::Unit);
                cells.into_iter().rev().fold(nothing, |env, cell| Known::Pair(Rc::new((env, cell))))
            }
        };
        let owed = self.apply(map, arg)?;
        let result = match of.mode {
            Mode::Forward => owed,
            Mode::Reverse => {
                let mut cells = Vec::new();
                let mut rest = owed;
                for k in (0..names.len()).rev() {
                    let (cell, param) = (self.second(&rest)?, self.out_params[k]);
                    cells.push(self.filled(cell, of.parameters[k], &Known::Atom(Atom::Var(param)))?);
                    rest = self.first(&rest)?;
                }
                let first = cells.pop().unwrap_or(Known::Zero);
                cells.into_iter().rev().fold(first, |tuple, cell| Known::Pair(Rc::new((tuple, cell))))
            }
        };
        let inner = std::mem::take(&mut self.block);
        let mut uses = write::Uses::default();
        uses.block(0, &outer, &value);
        uses.block(1, &inner, &result);
        let (named, mut out) = (self.named, self.out);
        let mut writer = write::Writer { out: &mut out, uses: &uses, named: &named };
        let result = writer.block(&inner, &result)?;
        let map = writer.out.push(Term::Fn(v, result))?;
        let body = writer.pair(&outer, &value, map)?;
        for (x, name) in &named {
            out.context.vars[*x].name.clone_from(name);
        }
        out.finish(body)
    }

    /// A cotangent whose zeros are written out, of the shape of a value.
    // Types of parameters nest as deep as the program does, which is small.
    fn filled(&mut self, of: Known, ty: TypeId, like: &Known) -> Result<Known> {
        match (&self.source.types[ty], of) {
            (Type::Linear(LinearType::Pair(a, b)), of @ (Known::Zero | Known::Pair(_))) => {
                let (a, b) = (*a, *b);
                let (first, second) = self.parts(of)?;
                let (x, y) = (self.first(like)?, self.second(like)?);
                Ok(Known::Pair(Rc::new((self.filled(first, a, &x)?, self.filled(second, b, &y)?))))
            }
            (Type::Array(element), Known::Zero) => {
                let element = *element;
                self.zip(vec![like.clone()], |reader, xs| reader.filled(Known::Zero, element, &xs[0]))
            }
            (Type::Linear(LinearType::Unit), _) => Ok(Known::Atom(Atom::Unit)),
            (_, of) => Ok(of),
        }
    }

    fn type_of_map(&self, of: &Derivative) -> Result<TypeId> {
        match of.program.types[of.program.result()] {
            Type::Pair(_, map) => Ok(map),
            _ => unknown("this result"),
        }
    }

    fn atom(&mut self, rhs: Rhs, ty: TypeId) -> Known {
        if let Rhs::Prim(prim, args) = &rhs
            && let Some((x, _)) =
                self.block.iter().find(|(_, old)| matches!(old, Rhs::Prim(p, a) if p == prim && a == args))
        {
            return Known::Atom(Atom::Var(*x));
        }
        let x = self.out.fresh("a", ty);
        self.block.push((x, rhs));
        Known::Atom(Atom::Var(x))
    }

    fn parts(&mut self, of: Known) -> Result<(Known, Known)> {
        Ok((self.first(&of)?, self.second(&of)?))
    }

    fn first(&mut self, of: &Known) -> Result<Known> {
        self.part(of, true)
    }

    fn second(&mut self, of: &Known) -> Result<Known> {
        self.part(of, false)
    }

    fn part(&mut self, of: &Known, first: bool) -> Result<Known> {
        match of {
            Known::Pair(pair) => Ok(if first { pair.0.clone() } else { pair.1.clone() }),
            Known::Zero => Ok(Known::Zero),
            Known::Atom(Atom::Var(x)) => match self.out.context.types[self.out.context.var_ty(*x)] {
                Type::Pair(a, b) => {
                    let rhs = if first { Rhs::Fst(Atom::Var(*x)) } else { Rhs::Snd(Atom::Var(*x)) };
                    Ok(self.atom(rhs, if first { a } else { b }))
                }
                _ => unknown("a part of what is no pair"),
            },
            _ => unknown("a part of what is no pair"),
        }
    }

    fn apply(&mut self, f: Known, arg: Known) -> Result<Known> {
        match f {
            Known::Function(e, scope) => match self.source.terms[e] {
                Term::Fn(x, body) => self.eval(body, &scope.with(x, arg)),
                _ => unknown("recursion"),
            },
            Known::Both(pair) => {
                let (f, g) = (self.apply(pair.0.clone(), arg.clone())?, self.apply(pair.1.clone(), arg)?);
                self.plus(f, g)
            }
            Known::Zero => Ok(Known::Zero),
            _ => unknown("a call of an unknown function"),
        }
    }

    fn eval(&mut self, e: TermId, scope: &Scope) -> Result<Known> {
        let source = self.source;
        match &source.terms[e] {
            Term::Var(x) => scope.get(*x),
            Term::Let(x, value, body) => {
                let value = self.eval(*value, scope)?;
                let value = self.name(*x, value)?;
                self.eval(*body, &scope.with(*x, value))
            }
            Term::Unit => Ok(Known::Atom(Atom::Unit)),
            Term::Real(r) => Ok(Known::Atom(Atom::Real(*r))),
            Term::Int(k) => Ok(Known::Atom(Atom::Int(*k))),
            Term::Prim(prim, a) => {
                let arg = self.eval(*a, scope)?;
                let ty = self.plain(source.ty(e))?;
                self.prim(*prim, arg, ty)
            }
            Term::Pair(a, b) | Term::Par(a, b) | Term::Linear(Linear::Pair(a, b) | Linear::Extend(a, b)) => {
                Ok(Known::Pair(Rc::new((self.eval(*a, scope)?, self.eval(*b, scope)?))))
            }
            Term::Fst(a) | Term::Linear(Linear::Fst(a)) => {
                let a = self.eval(*a, scope)?;
                self.first(&a)
            }
            Term::Snd(a) | Term::Linear(Linear::Snd(a)) => {
                let a = self.eval(*a, scope)?;
                self.second(&a)
            }
            Term::Fn(..) => Ok(Known::Function(e, scope.clone())),
            Term::Apply(f, a) => {
                let (f, a) = (self.eval(*f, scope)?, self.eval(*a, scope)?);
                self.apply(f, a)
            }
            Term::Build(n, i, body) => {
                let n = self.eval(*n, scope)?;
                let n = self.written(n)?;
                let int = self.out.types().int();
                let k = self.out.fresh("i", int);
                let inner = scope.with(*i, Known::Atom(Atom::Var(k)));
                self.array(Over::Count(n, k), Vec::new(), |reader| reader.eval(*body, &inner))
            }
            Term::Map(args, body) => self.map(args, *body, scope),
            Term::Index(a, k) => {
                let (a, k) = (self.eval(*a, scope)?, self.eval(*k, scope)?);
                if let Known::Zero = a {
                    return Ok(Known::Zero);
                }
                let (a, k, ty) = (self.written(a)?, self.written(k)?, self.plain(source.ty(e))?);
                Ok(self.atom(Rhs::Index(a, k), ty))
            }
            Term::Length(a) => {
                let a = self.eval(*a, scope)?;
                let (a, int) = (self.written(a)?, self.out.types().int());
                Ok(self.atom(Rhs::Length(a), int))
            }
            Term::Linear(linear) => self.linear(linear, scope),
            _ => unknown("a choice or a loop"),
        }
    }

    fn linear(&mut self, term: &Linear, scope: &Scope) -> Result<Known> {
        match term {
            Linear::Zero(_) => Ok(Known::Zero),
            Linear::Plus(a, b) => {
                let (a, b) = (self.eval(*a, scope)?, self.eval(*b, scope)?);
                self.plus(a, b)
            }
            Linear::Cell(k, env) => {
                let mut env = self.eval(*env, scope)?;
                for _ in 0..*k {
                    env = self.first(&env)?;
                }
                self.second(&env)
            }
            Linear::OneHot(cell, ty, value) => {
                let value = self.eval(*value, scope)?;
                let Type::Linear(LinearType::Environment(mut cells)) = self.source.types[*ty] else {
                    return unknown("an environment");
                };
                let mut n = 0;
                while let Type::Cells(rest, _) = self.source.types[cells] {
                    n += 1;
                    cells = rest;
                }
                let cells = (0..n).map(|k| if k == *cell { value.clone() } else { Known::Zero });
                Ok(cells.fold(Known::Zero, |env, cell| Known::Pair(Rc::new((env, cell)))))
            }
            Linear::Split(_, env) => {
                let env = self.eval(*env, scope)?;
                let (rest, last) = self.parts(env)?;
                Ok(Known::Pair(Rc::new((rest, last))))
            }
            Linear::Entry(x, v) => {
                let (x, v) = (self.eval(*x, scope)?, self.eval(*v, scope)?);
                Ok(Known::Entries(vec![Entry { over: None, x, v }]))
            }
            Linear::Fold(calls, (x, v), body) => {
                let calls = match self.eval(*calls, scope)? {
                    Known::Zero => Vec::new(),
                    Known::Entries(entries) => entries,
                    _ => return unknown("an unknown log of calls"),
                };
                let mut sum = Known::Zero;
                for entry in calls {
                    let inner = scope.with(*x, entry.x).with(*v, entry.v);
                    let term = match &entry.over {
                        None => self.eval(*body, &inner)?,
                        Some(array) => {
                            let array = self
                                .array(array.over.clone(), array.block.clone(), |reader| reader.eval(*body, &inner))?;
                            self.total(array)?
                        }
                    };
                    sum = self.plus(sum, term)?;
                }
                Ok(sum)
            }
            Linear::Total(a) => {
                let a = self.eval(*a, scope)?;
                self.total(a)
            }
            _ => unknown("a term of sums or actions"),
        }
    }

    fn plus(&mut self, a: Known, b: Known) -> Result<Known> {
        Ok(match (a, b) {
            (Known::Zero, v) | (v, Known::Zero) => v,
            (Known::Pair(a), Known::Pair(b)) => {
                let first = self.plus(a.0.clone(), b.0.clone())?;
                let second = self.plus(a.1.clone(), b.1.clone())?;
                Known::Pair(Rc::new((first, second)))
            }
            (Known::Entries(mut a), Known::Entries(b)) => {
                a.extend(b);
                Known::Entries(a)
            }
            (a @ (Known::Function(..) | Known::Both(_)), b @ (Known::Function(..) | Known::Both(_))) => {
                Known::Both(Rc::new((a, b)))
            }
            (Known::Atom(Atom::Unit), Known::Atom(Atom::Unit)) => Known::Atom(Atom::Unit),
            (a @ (Known::Atom(_) | Known::Array(_)), b @ (Known::Atom(_) | Known::Array(_))) => {
                let is_array = |reader: &Self, k: &Known| match k {
                    Known::Atom(Atom::Var(x)) => {
                        matches!(reader.out.context.types[reader.out.context.var_ty(*x)], Type::Array(_))
                    }
                    known => matches!(known, Known::Array(_)),
                };
                if is_array(self, &a) || is_array(self, &b) {
                    return self.zip(vec![a, b], |reader, xs| reader.plus(xs[0].clone(), xs[1].clone()));
                }
                let (a, b) = (self.written(a)?, self.written(b)?);
                let real = self.out.types().real();
                self.atom(Rhs::Prim(Prim::Add, vec![a, b]), real)
            }
            _ => return unknown("a sum of values of different kinds"),
        })
    }

    fn prim(&mut self, prim: Prim, arg: Known, ty: TypeId) -> Result<Known> {
        let real = self.out.types().real();
        match prim {
            Prim::Scale => {
                let (v, x) = self.parts(arg)?;
                if let Known::Zero = v {
                    return Ok(v);
                }
                // A factor of 1 is left out.
                if let Known::Atom(Atom::Real(1.0)) = x {
                    return Ok(v);
                }
                let (v, x) = (self.written(v)?, self.written(x)?);
                Ok(self.atom(Rhs::Prim(Prim::Mul, vec![x, v]), real))
            }
            Prim::Opposite => {
                if let Known::Zero = arg {
                    return Ok(arg);
                }
                let v = self.written(arg)?;
                Ok(self.atom(Rhs::Prim(Prim::Neg, vec![v]), real))
            }
            _ => {
                let mut args = Vec::new();
                let mut rest = arg;
                while let Known::Pair(pair) = &rest {
                    args.push(self.written(pair.1.clone())?);
                    rest = pair.0.clone();
                }
                args.push(self.written(rest)?);
                args.reverse();
                if let Prim::Scalar(Function::Partial(primitive, k)) = prim
                    && let Partial::Formula(formula) = partial(primitive, k, &self.source.users)
                {
                    return self.formula(&formula, primitive, &args);
                }
                Ok(self.atom(Rhs::Prim(prim, args), ty))
            }
        }
    }

    /// A formula of the operator table.
    // Formulas nest to a bounded depth.
    fn formula(&mut self, formula: &Formula, of: Primitive, args: &[Atom]) -> Result<Known> {
        let real = self.out.types().real();
        let (prim, operands) = match formula {
            Formula::Arg(k) => {
                return args.get(usize::from(*k)).map_or_else(|| unknown("an operand"), |atom| Ok(Known::Atom(*atom)));
            }
            Formula::Result => (Prim::Scalar(Function::Value(of)), args.to_vec()),
            Formula::Number(r) => return Ok(Known::Atom(Atom::Real(*r))),
            Formula::Add(x, y) | Formula::Mul(x, y) => {
                let (x, y) = (self.formula(x, of, args)?, self.formula(y, of, args)?);
                let (x, y) = (self.written(x)?, self.written(y)?);
                match formula {
                    Formula::Add(..) => (Prim::Add, vec![x, y]),
                    _ if x == Atom::Real(-1.0) => (Prim::Neg, vec![y]),
                    _ => (Prim::Mul, vec![x, y]),
                }
            }
            Formula::Apply(g, operands) => {
                let mut atoms = Vec::with_capacity(operands.len());
                for operand in operands {
                    let operand = self.formula(operand, of, args)?;
                    atoms.push(self.written(operand)?);
                }
                (Prim::Scalar(Function::Value(*g)), atoms)
            }
        };
        Ok(self.atom(Rhs::Prim(prim, operands), real))
    }

    /// What is read at run time: numbers, and arrays that are written down.
    fn written(&mut self, of: Known) -> Result<Atom> {
        match of {
            Known::Atom(atom) => Ok(atom),
            Known::Zero => Ok(Atom::Real(0.0)),
            Known::Array(array) => {
                let ty = match array.element {
                    Known::Atom(Atom::Var(x)) => self.out.context.var_ty(x),
                    Known::Atom(Atom::Real(_)) | Known::Zero => self.out.types().real(),
                    Known::Atom(Atom::Int(_)) => self.out.types().int(),
                    _ => return unknown("an array of pairs or functions"),
                };
                let ty = self.out.types().array(ty);
                let array = self.renew(&array, &BTreeMap::new());
                match self.atom(Rhs::Array(Rc::new(array)), ty) {
                    Known::Atom(atom) => Ok(atom),
                    _ => unknown("an array"),
                }
            }
            _ => unknown("a pair or a function where a number is needed"),
        }
    }

    /// `map over. element`, with a block of its own.
    fn array(
        &mut self,
        over: Over,
        block: Vec<(VarId, Rhs)>,
        element: impl FnOnce(&mut Self) -> Result<Known>,
    ) -> Result<Known> {
        let outer = std::mem::replace(&mut self.block, block);
        let element = element(self);
        let block = std::mem::replace(&mut self.block, outer);
        Ok(Known::Array(Rc::new(Array { over, block, element: element? })))
    }

    /// The same array with variables of its own, and without what its elements do not read.
    // Arrays nest as deep as the program does, which is small.
    fn renew(&mut self, array: &Array, names: &BTreeMap<VarId, Atom>) -> Array {
        let mut names = names.clone();
        let mut new = |out: &mut Builder, x: VarId| {
            let variable = out.context.vars[x].clone();
            let y = out.fresh(&variable.name, variable.ty);
            names.insert(x, Atom::Var(y));
            y
        };
        let mut over = match &array.over {
            Over::Count(n, k) => Over::Count(*n, new(&mut self.out, *k)),
            Over::Arrays(arrays) => Over::Arrays(arrays.iter().map(|(x, a)| (new(&mut self.out, *x), *a)).collect()),
        };
        for (x, _) in &array.block {
            let y = new(&mut self.out, *x);
            if let Some(name) = self.named.get(x).cloned() {
                self.named.insert(y, name);
            }
        }
        let rename = |atom: Atom| match atom {
            Atom::Var(x) => names.get(&x).copied().unwrap_or(atom),
            atom => atom,
        };
        match &mut over {
            Over::Count(n, _) => *n = rename(*n),
            Over::Arrays(arrays) => arrays.iter_mut().for_each(|(_, a)| *a = rename(*a)),
        }
        let element = match &array.element {
            Known::Atom(atom) => Known::Atom(rename(*atom)),
            element => element.clone(),
        };
        let mut block = Vec::with_capacity(array.block.len());
        for (x, rhs) in &array.block {
            let Atom::Var(y) = rename(Atom::Var(*x)) else { continue };
            let rhs = match rhs {
                Rhs::Prim(prim, atoms) => Rhs::Prim(*prim, atoms.iter().map(|a| rename(*a)).collect()),
                Rhs::Fst(a) => Rhs::Fst(rename(*a)),
                Rhs::Snd(a) => Rhs::Snd(rename(*a)),
                Rhs::Index(a, k) => Rhs::Index(rename(*a), rename(*k)),
                Rhs::Length(a) => Rhs::Length(rename(*a)),
                Rhs::Same(a) => Rhs::Same(rename(*a)),
                Rhs::Array(inner) => Rhs::Array(Rc::new(self.renew(inner, &names))),
            };
            block.push((y, rhs));
        }
        Array { over, block, element }
    }

    fn map(&mut self, args: &[(VarId, TermId)], body: TermId, scope: &Scope) -> Result<Known> {
        let mut arrays = Vec::with_capacity(args.len());
        for (_, a) in args {
            arrays.push(self.eval(*a, scope)?);
        }
        self.zip(arrays, |reader, elements| {
            let mut inner = scope.clone();
            for ((x, _), element) in args.iter().zip(elements) {
                inner = inner.with(*x, element.clone());
            }
            reader.eval(body, &inner)
        })
    }

    /// An array over the elements of others. Two of them that go through the same have the same variables.
    fn zip(&mut self, arrays: Vec<Known>, element: impl FnOnce(&mut Self, &[Known]) -> Result<Known>) -> Result<Known> {
        let (mut count, mut over, mut block, mut elements) = (None, Vec::new(), Vec::new(), Vec::new());
        for array in arrays {
            match array {
                Known::Zero => elements.push(Known::Zero),
                Known::Atom(a @ Atom::Var(x)) => {
                    let Type::Array(ty) = self.out.context.types[self.out.context.var_ty(x)] else {
                        return unknown("an array");
                    };
                    let y = self.out.fresh("x", ty);
                    over.push((y, a));
                    elements.push(Known::Atom(Atom::Var(y)));
                }
                Known::Array(array) => {
                    match &array.over {
                        Over::Count(n, k) => match count {
                            None => count = Some((*n, *k)),
                            Some((_, first)) if first == *k => {}
                            Some((_, first)) => block.push((*k, Rhs::Same(Atom::Var(first)))),
                        },
                        Over::Arrays(more) => {
                            for pair in more {
                                if !over.contains(pair) {
                                    over.push(*pair);
                                }
                            }
                        }
                    }
                    for (x, rhs) in &array.block {
                        if block.iter().all(|(y, _)| y != x) {
                            block.push((*x, rhs.clone()));
                        }
                    }
                    elements.push(array.element.clone());
                }
                _ => return unknown("an array"),
            }
        }
        let over = match count {
            Some((n, k)) => {
                // Elements are read by index.
                let reads = over.into_iter().map(|(x, a)| (x, Rhs::Index(a, Atom::Var(k))));
                block.splice(0..0, reads);
                Over::Count(n, k)
            }
            None => Over::Arrays(over),
        };
        self.array(over, block, |reader| element(reader, &elements))
    }

    /// The sum of an array of linear type, part by part.
    fn total(&mut self, array: Known) -> Result<Known> {
        let of = match array {
            Known::Zero => return Ok(Known::Zero),
            Known::Array(array) => array,
            Known::Atom(a) => {
                let real = self.out.types().real();
                return Ok(self.atom(Rhs::Prim(Prim::Sum, vec![a]), real));
            }
            _ => return unknown("an array"),
        };
        let with =
            |element: Known| Known::Array(Rc::new(Array { over: of.over.clone(), block: of.block.clone(), element }));
        match &of.element {
            Known::Zero => Ok(Known::Zero),
            Known::Atom(Atom::Unit) => Ok(Known::Atom(Atom::Unit)),
            Known::Pair(pair) => {
                let first = self.total(with(pair.0.clone()))?;
                let second = self.total(with(pair.1.clone()))?;
                Ok(Known::Pair(Rc::new((first, second))))
            }
            Known::Entries(entries) => {
                let mut all = Vec::with_capacity(entries.len());
                for entry in entries {
                    if entry.over.is_some() {
                        return unknown("a log of calls in nested arrays");
                    }
                    all.push(Entry { over: Some(of.clone()), ..entry.clone() });
                }
                Ok(Known::Entries(all))
            }
            Known::Atom(_) => {
                let a = self.written(with(of.element.clone()))?;
                let real = self.out.types().real();
                Ok(self.atom(Rhs::Prim(Prim::Sum, vec![a]), real))
            }
            Known::Function(..) | Known::Both(_) | Known::Array(_) => unknown("a sum of functions or arrays"),
        }
    }

    /// Gives a value the name of a variable of the source, or of its tangent or cotangent.
    fn name(&mut self, x: VarId, value: Known) -> Result<Known> {
        let name = &self.source.vars[x].name;
        if !name.ends_with('\'') && x.index() >= self.variables {
            return Ok(value);
        }
        let value = match value {
            Known::Array(array) if matches!(array.element, Known::Atom(_)) => {
                Known::Atom(self.written(Known::Array(array))?)
            }
            value => value,
        };
        if let Known::Atom(Atom::Var(y)) = value
            && self.block.iter().any(|(z, _)| *z == y)
        {
            self.named.entry(y).or_insert_with(|| name.clone());
        }
        Ok(value)
    }
}

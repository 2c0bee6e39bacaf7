//! Terms of the lambda calculus as programs in unary form.
//!
//! The source language of \[004\] is first order: real numbers, pairs and arrays; scalar functions; `let`; `map`, `reduce`, `scanl`, `scanr`, `shift1L` and
//! `shift1R`. A term in it becomes a sequence of operations on atoms in the order of evaluation. A `let` of a variable is a name for it, and a component of
//! a pair that is built in sight is what it was built of. A sum of arrays element by element, or of pairs component by component, is one sum: as the body
//! of a `reduce` or a scan it has a derivative.
//!
//! `reduce` without a start begins with the first element, `reduce + 0 (map2 * A (shift1R (scanl (a, b. 0) 1 A)))`, where elements are real numbers.
//!
//! Refused, with its name: whatever else a term may be, functions, sums, integers, loops and recursion among them.

use rustc_hash::FxHashMap;

use super::build::Builder;
use super::data::{Atom, End, Program, Rhs, Sweep, Type, Var, check_nesting};
use super::partial::remove_dead;
use super::verify::verify;
use crate::base::VarId;
use crate::error::{Error, Result};
use crate::functional::lambda::{self, Prim, Term, TermId, TypeId};

const PASS: &str = "unary-form";

/// The program in unary form of a term of the first order.
///
/// # Errors
/// [`Error::Limitation`] for a term or a type that the source language does not have, [`Error::Limit`] beyond [`Type::MAX_NESTING`].
pub fn from_lambda(program: &lambda::Program) -> Result<Program> {
    let mut import = Import {
        program,
        builder: Builder::with_users(program.users.clone()),
        names: FxHashMap::default(),
        tuples: FxHashMap::default(),
        linear: FxHashMap::default(),
        atoms: Vec::new(),
        params: Vec::new(),
    };
    for x in &program.params {
        let variable = &program.vars[*x];
        let ty = import.ty(variable.ty, 0)?;
        let param = import.builder.param(&variable.name, ty);
        import.names.insert(*x, Atom::Var(param));
    }
    import.run()?;
    let result = import.pop()?;
    let mut out = import.builder.finish(result)?;
    remove_dead(&mut out.body);
    verify(PASS, &out)?;
    Ok(out)
}

struct Import<'a> {
    program: &'a lambda::Program,
    builder: Builder,
    names: FxHashMap<VarId, Atom>,
    /// The tuples that are built in sight.
    tuples: FxHashMap<Var, Vec<Atom>>,
    /// The sums and the components that are computed.
    linear: FxHashMap<Var, Rhs>,
    /// The values of terms that are not used yet.
    atoms: Vec<Atom>,
    /// The variables of the bodies that are open.
    params: Vec<Vec<Var>>,
}

/// What is left to do.
enum Step {
    Visit(TermId),
    /// The value of the last term is that of the variable.
    Name(VarId),
    /// The operands of the term are there.
    Operation(TermId),
    /// The array becomes its first element and the others.
    Split,
    /// The operands of the term are there but for its body, which begins.
    Open(TermId),
    /// Its body is there.
    Close(TermId),
}

fn refuse<T>(what: &str) -> Result<T> {
    Err(Error::Limitation { feature: format!("{what} in the source language of continuations"), span: None })
}

impl Import<'_> {
    fn ty(&self, ty: TypeId, depth: usize) -> Result<Type> {
        check_nesting(depth)?;
        match self.program.types[ty] {
            lambda::Type::Real => Ok(Type::Real),
            lambda::Type::Unit => Ok(Type::tuple([])),
            lambda::Type::Pair(a, b) => Ok(Type::tuple([self.ty(a, depth + 1)?, self.ty(b, depth + 1)?])),
            lambda::Type::Array(element) => Ok(Type::array(self.ty(element, depth + 1)?)),
            _ => refuse(&format!("the type {}", self.program.context.show(ty))),
        }
    }

    fn pop(&mut self) -> Result<Atom> {
        self.atoms.pop().ok_or_else(|| Error::bug(PASS, "an operand is missing"))
    }

    fn run(&mut self) -> Result<()> {
        let mut todo = vec![Step::Visit(self.program.body)];
        while let Some(step) = todo.pop() {
            match step {
                Step::Visit(e) => self.visit(e, &mut todo)?,
                Step::Name(x) => {
                    let a = self.pop()?;
                    self.names.insert(x, a);
                }
                Step::Operation(e) => {
                    let a = self.operation(e)?;
                    self.atoms.push(a);
                }
                Step::Split => self.split()?,
                Step::Open(e) => self.open(e)?,
                Step::Close(e) => {
                    let a = self.close(e)?;
                    self.atoms.push(a);
                }
            }
        }
        Ok(())
    }

    fn visit(&mut self, e: TermId, todo: &mut Vec<Step>) -> Result<()> {
        match &self.program.terms[e] {
            Term::Var(x) => {
                let missing = || Error::bug(PASS, format!("{x} is not in scope"));
                self.atoms.push(self.names.get(x).copied().ok_or_else(missing)?);
            }
            Term::Real(r) => self.atoms.push(Atom::Number(*r)),
            Term::Let(x, value, body) => todo.extend([Step::Visit(*body), Step::Name(*x), Step::Visit(*value)]),
            Term::Unit | Term::Prim(..) | Term::Pair(..) | Term::Fst(_) | Term::Snd(_) => {
                todo.push(Step::Operation(e));
                todo.extend(self.program.terms[e].operands().into_iter().rev().map(Step::Visit));
            }
            Term::Map(args, body) => {
                todo.extend([Step::Close(e), Step::Visit(*body), Step::Open(e)]);
                todo.extend(args.iter().rev().map(|(_, a)| Step::Visit(*a)));
            }
            Term::Reduce { body, init: Some(init), array, .. } | Term::Scan { body, init, array, .. } => {
                todo.extend([Step::Close(e), Step::Visit(*body), Step::Open(e)]);
                todo.extend([Step::Visit(*array), Step::Visit(*init)]);
            }
            Term::Reduce { body, init: None, array, .. } => {
                todo.extend([Step::Close(e), Step::Visit(*body), Step::Open(e), Step::Split, Step::Visit(*array)]);
            }
            other => return refuse(name_of(other)),
        }
        Ok(())
    }

    /// The components of a pair.
    fn parts(&mut self, pair: Atom) -> Result<(Atom, Atom)> {
        Ok((self.part(pair, 0)?, self.part(pair, 1)?))
    }

    fn part(&mut self, pair: Atom, k: usize) -> Result<Atom> {
        let known = pair.var().and_then(|x| self.tuples.get(&x)).and_then(|of| of.get(k).copied());
        known.map_or_else(|| self.linear(Rhs::Part(pair, k)), Ok)
    }

    fn linear(&mut self, rhs: Rhs) -> Result<Atom> {
        let a = self.builder.let_("w", rhs.clone())?;
        if let Some(x) = a.var() {
            self.linear.insert(x, rhs);
        }
        Ok(a)
    }

    /// `(x.0 + y.0, x.1 + y.1) == x + y`
    fn sum_of_parts(&self, of: &[Atom]) -> Option<(Atom, Atom)> {
        let mut sum = None;
        for (k, a) in of.iter().enumerate() {
            let Some(Rhs::Add(left, right)) = a.var().and_then(|x| self.linear.get(&x)) else { return None };
            let whole = |a: &Atom| match a.var().and_then(|x| self.linear.get(&x)) {
                Some(Rhs::Part(whole, j)) if *j == k => Some(*whole),
                _ => None,
            };
            let pair = (whole(left)?, whole(right)?);
            if *sum.get_or_insert(pair) != pair {
                return None;
            }
        }
        let (x, y) = sum?;
        let is_whole = |a: Atom| matches!(self.builder.program().atom_ty(a), Type::Tuple(all) if all.len() == of.len());
        (is_whole(x) && is_whole(y)).then_some((x, y))
    }

    /// The `n` operands in `((a, b), c)`.
    fn operands(&mut self, mut tuple: Atom, n: usize) -> Result<Vec<Atom>> {
        let mut operands = Vec::with_capacity(n);
        for _ in 1..n {
            let (rest, last) = self.parts(tuple)?;
            operands.push(last);
            tuple = rest;
        }
        operands.push(tuple);
        operands.reverse();
        Ok(operands)
    }

    fn tuple(&mut self, of: &[Atom]) -> Result<Atom> {
        if let Some((x, y)) = self.sum_of_parts(of) {
            return self.linear(Rhs::Add(x, y));
        }
        let tuple = self.builder.tuple(of)?;
        if let Some(x) = tuple.var() {
            self.tuples.insert(x, of.to_vec());
        }
        Ok(tuple)
    }

    fn operation(&mut self, e: TermId) -> Result<Atom> {
        match &self.program.terms[e] {
            Term::Unit => self.tuple(&[]),
            Term::Pair(..) => {
                let (b, a) = (self.pop()?, self.pop()?);
                self.tuple(&[a, b])
            }
            Term::Fst(_) => {
                let pair = self.pop()?;
                self.part(pair, 0)
            }
            Term::Snd(_) => {
                let pair = self.pop()?;
                self.part(pair, 1)
            }
            Term::Prim(prim, _) => {
                let operand = self.pop()?;
                self.prim(*prim, operand)
            }
            _ => Err(Error::bug(PASS, "no operation")),
        }
    }

    fn prim(&mut self, prim: Prim, operand: Atom) -> Result<Atom> {
        match prim {
            Prim::Add => {
                let (a, b) = self.parts(operand)?;
                self.linear(Rhs::Add(a, b))
            }
            Prim::Mul => {
                let (a, b) = self.parts(operand)?;
                self.builder.mul(a, b)
            }
            Prim::Neg => self.builder.mul(-1.0, operand),
            Prim::Scalar(function) => {
                let n = lambda::arity(function, &self.program.users);
                let args = self.operands(operand, n)?;
                self.builder.let_("w", Rhs::Call(function, args))
            }
            Prim::Sum => self.builder.reduce(0.0, operand, |b, x, y| b.add(x, y)),
            Prim::DropFirst => self.builder.drop(End::First, operand),
            Prim::DropLast => self.builder.drop(End::Last, operand),
            _ => refuse("integers, comparisons and what else primitive operations there are"),
        }
    }

    /// The first element by a product with `[1, 0, ..]`, and the rest.
    fn split(&mut self) -> Result<()> {
        let array = self.pop()?;
        if self.builder.element(array)? != Type::Real {
            return refuse("a `reduce` without a start, of elements that are no real numbers,");
        }
        let marks = self.builder.scan(End::First, 1.0, array, |_, _, _| Ok(Atom::Number(0.0)))?;
        let marks = self.builder.drop(End::Last, marks)?;
        let marked = self.builder.map(&[array, marks], |b, x| b.mul(x[0], x[1]))?;
        let first = self.builder.reduce(0.0, marked, |b, x, y| b.add(x, y))?;
        let rest = self.builder.drop(End::First, array)?;
        self.atoms.extend([first, rest]);
        Ok(())
    }

    fn bound(&self, e: TermId) -> Vec<VarId> {
        match &self.program.terms[e] {
            Term::Map(args, _) => args.iter().map(|(x, _)| *x).collect(),
            Term::Reduce { vars: (x, y), .. } | Term::Scan { vars: (x, y), .. } => vec![*x, *y],
            _ => Vec::new(),
        }
    }

    fn open(&mut self, e: TermId) -> Result<()> {
        let mut params = Vec::new();
        for x in self.bound(e) {
            let variable = &self.program.vars[x];
            let ty = self.ty(variable.ty, 0)?;
            let param = self.builder.fresh(&variable.name, ty);
            self.names.insert(x, Atom::Var(param));
            params.push(param);
        }
        self.params.push(params);
        self.builder.open_body()
    }

    fn close(&mut self, e: TermId) -> Result<Atom> {
        let result = self.pop()?;
        let mut body = self.builder.close_body(result);
        remove_dead(&mut body);
        let params = self.params.pop().unwrap_or_default();
        if let Term::Map(args, _) = &self.program.terms[e] {
            let at = self.atoms.len().saturating_sub(args.len());
            let arrays = self.atoms.split_off(at);
            if let ([x, y], [stmt], [a, b]) = (&params[..], &body.stmts[..], &arrays[..])
                && stmt.rhs == Rhs::Add(Atom::Var(*x), Atom::Var(*y))
                && result == Atom::Var(stmt.var)
            {
                // `map2 + A B == A + B`
                return self.linear(Rhs::Add(*a, *b));
            }
            return self.builder.let_("M", Rhs::Map { params, body: Box::new(body), arrays });
        }
        let (array, init) = (self.pop()?, self.pop()?);
        let [x, y] = params[..] else { return Err(Error::bug(PASS, "a body of two variables is needed")) };
        let sweep = |state, element| Box::new(Sweep { state, element, body, init, array });
        match &self.program.terms[e] {
            Term::Scan { from: End::Last, .. } => self.builder.let_("S", Rhs::Scan(End::Last, sweep(y, x))),
            Term::Scan { .. } => self.builder.let_("S", Rhs::Scan(End::First, sweep(x, y))),
            _ => self.builder.let_("r", Rhs::Reduce(sweep(x, y))),
        }
    }
}

/// What a term that is refused is called.
fn name_of(term: &Term) -> &'static str {
    match term {
        Term::Int(_) | Term::Build(..) | Term::Index(..) | Term::Length(_) => "integers and what they index",
        Term::Inl(..) | Term::Inr(..) | Term::Case(..) => "sums",
        Term::Fn(..) | Term::Apply(..) | Term::External(..) => "functions",
        Term::Rec(..) | Term::Roll(..) | Term::Unroll(_) => "recursion",
        Term::Par(..) => "fork-join",
        Term::Fold { .. } | Term::Iterate { .. } => "loops",
        _ => "a term of another system",
    }
}

//! Closure conversion: \[000\], Appendix B.
//!
//! ```text
//! [a -> b] = closure([a], [b])
//! [fn x. t] = close (free variables, fn p. let .. = fst p in let x = snd p in [t])
//! [rec f(x). t] = close (free variables, rec g(p). let .. = fst p in let f = close (fst p, g) in let x = snd p in [t])
//! [t s]     = open z = [t] in (snd z) (fst z, [s])
//! ```
//!
//! Functions are closed afterwards, so that a call owes nothing to what a function captures, but to an argument of it: the derivative runs the body once
//! where that of \[003\] runs it twice.

use crate::base::{Id, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::{Builder, Linear, Program, Term, TermId, Type, TypeId, captured_variables};

const PASS: &str = "closure conversion";

/// The same program, where all functions are closed.
///
/// # Errors
/// [`Error::Bug`] for a program that is not verified.
pub fn convert_closures(source: &Program) -> Result<Program> {
    let mut b = Builder::like(&source.context);
    let types = convert_types(source, &mut b);
    let convert = |ty: TypeId| types.get(ty.index()).copied().unwrap_or(ty);
    for (_, variable) in source.vars.iter() {
        b.fresh(&variable.name, convert(variable.ty));
    }
    for (id, data) in source.data.iter() {
        if let Some(definition) = data.definition {
            b.define(id, convert(definition));
        }
    }
    source.params.iter().for_each(|x| b.push_param(*x));
    let captured = captured_variables(source)?;
    let mut new: Vec<TermId> = Vec::with_capacity(source.terms.len());
    // Variables of a function's body stand for the ones that it captures.
    for (e, term) in source.terms.iter() {
        let term = match term {
            Term::Fn(x, body) => {
                let free = captured.get(&e).map_or(&[][..], Vec::as_slice);
                close(&mut b, None, *x, free, new[body.index()])?
            }
            Term::Rec(f, x, body) => {
                let free = captured.get(&e).map_or(&[][..], Vec::as_slice);
                close(&mut b, Some(*f), *x, free, new[body.index()])?
            }
            Term::Apply(f, a) => apply(&mut b, new[f.index()], new[a.index()])?,
            Term::Inl(ty, a) => b.push(Term::Inl(convert(*ty), new[a.index()]))?,
            Term::Inr(ty, a) => b.push(Term::Inr(convert(*ty), new[a.index()]))?,
            term => b.push(term.rename(|e| new[e.index()], |x| x))?,
        };
        new.push(term);
    }
    let body = new.get(source.body.index()).copied().ok_or_else(|| Error::bug(PASS, "there is no body"))?;
    b.finish(body)
}

/// The converted types; the parts of a type come before it.
fn convert_types(source: &Program, b: &mut Builder) -> Vec<TypeId> {
    let mut types: Vec<TypeId> = Vec::with_capacity(source.types.len());
    for (id, ty) in source.types.iter() {
        let of = |ty: &TypeId| types[ty.index()];
        let new = match ty {
            Type::Pair(x, y) => b.types().pair(of(x), of(y)),
            Type::Sum(x, y) => b.types().sum(of(x), of(y)),
            Type::Array(x) => b.types().array(of(x)),
            Type::Fn(x, y) => b.types().intern(Type::Closure(of(x), of(y))),
            _ => id,
        };
        types.push(new);
    }
    types
}

fn apply(b: &mut Builder, f: TermId, a: TermId) -> Result<TermId> {
    let Type::Closure(arg, result) = b.context.types[b.ty(f)] else {
        return Err(Error::bug(PASS, "a closure is needed"));
    };
    let z = opened(b, arg, result);
    let (env, code) = (b.var(z), b.var(z));
    let (env, code) = (b.fst(env)?, b.snd(code)?);
    let arg = b.pair(env, a)?;
    let call = b.apply(code, arg)?;
    b.push(Term::Linear(Linear::Open(f, z, call)))
}

/// A variable for an opened closure, whose type mentions it.
fn opened(b: &mut Builder, arg: TypeId, result: TypeId) -> VarId {
    let unit = b.types().unit();
    let z = b.fresh("z", unit);
    let hidden = b.types().intern(Type::Hidden(z));
    let domain = b.types().pair(hidden, arg);
    let code = b.types().function(domain, result);
    let ty = b.types().pair(hidden, code);
    b.context.vars[z].ty = ty;
    z
}

/// A closure of a function with a body.
fn close(b: &mut Builder, name: Option<VarId>, x: VarId, free: &[VarId], body: TermId) -> Result<TermId> {
    // The body gets variables of its own for what it captures.
    let own: Vec<VarId> =
        free.iter().map(|y| b.fresh(&b.context.vars[*y].name.clone(), b.context.var_ty(*y))).collect();
    b.rename_free(body, free, &own);
    let env: Vec<TypeId> = own.iter().map(|y| b.context.var_ty(*y)).collect();
    let env = b.types().tuple(&env);
    let arg = b.context.var_ty(x);
    let domain = b.types().pair(env, arg);
    let p = b.fresh("p", domain);
    let e = b.fresh("e", env);
    let mut inner = body;
    // ((y0, y1), y2): each but the first one is the second part of what is left.
    let mut rest = e;
    let mut lets = Vec::new();
    for (k, y) in own.iter().enumerate().rev() {
        let value = b.var(rest);
        if k == 0 {
            lets.push((*y, value));
            break;
        }
        let first = b.var(rest);
        let (value, first) = (b.snd(value)?, b.fst(first)?);
        lets.push((*y, value));
        rest = b.fresh("e", b.ty(first));
        lets.push((rest, first));
    }
    for (y, value) in lets.into_iter().rev() {
        inner = b.push(Term::Let(y, value, inner))?;
    }
    let arg = b.var(p);
    let arg = b.snd(arg)?;
    let mut inner = b.push(Term::Let(x, arg, inner))?;
    let codomain = b.ty(body);
    let code = b.types().function(domain, codomain);
    let g = name.map(|_| b.fresh("g", code));
    if let (Some(f), Some(g)) = (name, g) {
        let (env, code) = (b.var(p), b.var(g));
        let env = b.fst(env)?;
        let own = b.push(Term::Linear(Linear::Close(env, code)))?;
        inner = b.push(Term::Let(f, own, inner))?;
    }
    let whole = b.var(p);
    let whole = b.fst(whole)?;
    let inner = b.push(Term::Let(e, whole, inner))?;
    let code = match g {
        Some(g) => b.push(Term::Rec(g, p, inner))?,
        None => b.push(Term::Fn(p, inner))?,
    };
    let free: Vec<TermId> = free.iter().map(|y| b.var(*y)).collect();
    let env = b.tuple(&free)?;
    b.push(Term::Linear(Linear::Close(env, code)))
}

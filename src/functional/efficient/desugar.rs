//! Terms that the rules do not have, by those that they have.
//!
//! ```text
//! map (x, ..) in (a, ..). e       =  let b = a in .. build (length b) (i. let x = b ! i in .. e)
//! reduce x, y in a from s. e      =  let b = a in fold t < length b, x = s. let y = b ! t in e
//! scanl, scanr                    =  scans over indices
//! ```

use crate::base::{Id, VarId};
use crate::error::{Error, Result};
use crate::functional::lambda::bound::Bound;
use crate::functional::lambda::scans::Scan;
use crate::functional::lambda::{Builder, Program, Term, TermId};

/// The same program without maps, and reductions that have a start, whose scans are over indices.
pub(super) fn desugar(source: &Program) -> Result<Program> {
    let mut b = Builder::like(&source.context);
    for (_, variable) in source.vars.iter() {
        b.fresh(&variable.name, variable.ty);
    }
    source.params.iter().for_each(|x| b.push_param(*x));
    let mut new: Vec<TermId> = Vec::with_capacity(source.terms.len());
    for (_, term) in source.terms.iter() {
        let term = match term {
            Term::Map(args, body) => map(&mut b, args, new[body.index()], &new)?,
            Term::Reduce { vars: (x, y), body, init: Some(init), array } => {
                let array = new[array.index()];
                let a = b.fresh("a", b.ty(array));
                let int = b.types().int();
                let t = b.fresh("t", int);
                let (elements, at) = (b.var(a), b.var(t));
                let element = b.index(elements, at)?;
                let body = b.push(Term::Let(*y, element, new[body.index()]))?;
                let whole = b.var(a);
                let count = b.push(Term::Length(whole))?;
                let fold = Term::Fold { count, index: t, state: *x, init: new[init.index()], body };
                let fold = b.push(fold)?;
                b.push(Term::Let(a, array, fold))?
            }
            Term::Scan { from, vars, body, init, array } => {
                let a = Bound::new(&mut b, "a", new[array.index()]);
                let scan = Scan { from: *from, vars: *vars, body: new[body.index()], init: new[init.index()] };
                let path = scan.of(&mut b, a.var, 0)?;
                a.close(&mut b, path)?
            }
            term => b.push(term.rename(|e| new[e.index()], |x| x))?,
        };
        new.push(term);
    }
    let body = new.get(source.body.index()).copied().ok_or_else(|| Error::bug("desugar", "there is no body"))?;
    b.finish(body)
}

fn map(b: &mut Builder, args: &[(VarId, TermId)], body: TermId, new: &[TermId]) -> Result<TermId> {
    let int = b.types().int();
    let i = b.fresh("i", int);
    let arrays: Vec<VarId> = args.iter().map(|(_, a)| b.fresh("a", b.ty(new[a.index()]))).collect();
    let mut body = body;
    for ((x, _), a) in args.iter().zip(&arrays).rev() {
        let (elements, at) = (b.var(*a), b.var(i));
        let element = b.index(elements, at)?;
        body = b.push(Term::Let(*x, element, body))?;
    }
    let first = arrays.first().ok_or_else(|| Error::bug("desugar", "a map of no array"))?;
    let first = b.var(*first);
    let n = b.push(Term::Length(first))?;
    let mut whole = b.push(Term::Build(n, i, body))?;
    for ((_, array), a) in args.iter().zip(&arrays).rev() {
        whole = b.push(Term::Let(*a, new[array.index()], whole))?;
    }
    Ok(whole)
}

//! Loops and reductions by scans over indices, which have no derivative.
//!
//! ```text
//! scanl x, y in a from s. e     =  let a = a in scanl x, t in indices (length a) from s. let y = a ! t in e
//! scanr x, y in a from s. e     =  let a = a in let p = scanl y, t in indices (length a) from s. let x = a ! (length a - 1 - t) in e
//!                                  in build i < length p. p ! (length p - 1 - i)
//! fold t < n, s = s0. e         =  let p = scanl s, t in indices n from s0. e in p ! (length p - 1)
//! reduce x, y in a from s. e    =  let p = (the scan) in p ! (length p - 1)
//! reduce x, y in a. e           =  let a = a in the same of drop_first a, from a ! 0
//! drop_first a                  =  let a = a in build i < length a - 1. a ! (i + 1),  and drop_last
//! ```

use crate::base::Id;
use crate::error::{Error, Result};
use crate::functional::lambda::bound::{Bound, plus};
use crate::functional::lambda::scans::{Scan, indices, last};
use crate::functional::lambda::{Builder, End, Prim, Program, Term, TermId};

/// The same program, whose only loops are `build`, `map`, `iterate` and scans over indices.
pub(super) fn desugar(source: &Program) -> Result<Program> {
    let mut b = Builder::like(&source.context);
    for (_, variable) in source.vars.iter() {
        b.fresh(&variable.name, variable.ty);
    }
    source.params.iter().for_each(|x| b.push_param(*x));
    let mut new: Vec<TermId> = Vec::with_capacity(source.terms.len());
    for (_, term) in source.terms.iter() {
        let of = |e: &TermId| new[e.index()];
        let term = match term {
            Term::Scan { from, vars, body, init, array } => {
                let scan = Scan { from: *from, vars: *vars, body: of(body), init: of(init) };
                let a = Bound::new(&mut b, "a", of(array));
                let e = scan.of(&mut b, a.var, 0)?;
                a.close(&mut b, e)?
            }
            Term::Reduce { vars, body, init, array } => {
                let a = Bound::new(&mut b, "a", of(array));
                let (init, from) = match init {
                    Some(init) => (of(init), 0),
                    None => {
                        let (whole, zero) = (b.var(a.var), b.int(0)?);
                        (b.index(whole, zero)?, 1)
                    }
                };
                let scan = Scan { from: End::First, vars: *vars, body: of(body), init };
                let path = scan.of(&mut b, a.var, from)?;
                let last = last(&mut b, path)?;
                a.close(&mut b, last)?
            }
            Term::Fold { count, index, state, init, body } => {
                let array = indices(&mut b, of(count))?;
                let (body, init) = (of(body), of(init));
                let path = b.push(Term::Scan { from: End::First, vars: (*state, *index), body, init, array })?;
                last(&mut b, path)?
            }
            Term::Prim(prim @ (Prim::DropFirst | Prim::DropLast), array) => {
                let a = Bound::new(&mut b, "a", of(array));
                let n = a.length(&mut b, -1)?;
                let by = i64::from(*prim == Prim::DropFirst);
                let rest = b.build(n, "i", |b, i| {
                    let (whole, at) = (b.var(a.var), b.var(i));
                    let at = plus(b, at, by)?;
                    b.index(whole, at)
                })?;
                a.close(&mut b, rest)?
            }
            term => b.push(term.rename(|e| new[e.index()], |x| x))?,
        };
        new.push(term);
    }
    let body = new.get(source.body.index()).copied().ok_or_else(|| Error::bug("desugar", "there is no body"))?;
    b.finish(body)
}

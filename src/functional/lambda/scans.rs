//! Scans over the indices of an array: what methods make of other scans, since an index has no derivative.
//!
//! ```text
//! scanl x, y in a from s. e     =  scanl x, t in indices (length a) from s. let y = a ! t in e
//! scanr x, y in a from s. e     =  let p = scanl y, t in indices (length a) from s. let x = a ! (length a - 1 - t) in e
//!                                  in build i < length p. p ! (length p - 1 - i)
//! ```

use super::bound::{Bound, plus};
use super::build::Builder;
use super::data::{End, Prim, Term, TermId};
use crate::base::VarId;
use crate::error::Result;

pub(in crate::ir::functional) fn indices(b: &mut Builder, n: TermId) -> Result<TermId> {
    b.build(n, "i", |b, i| Ok(b.var(i)))
}

/// The last element of an array.
pub(in crate::ir::functional) fn last(b: &mut Builder, array: TermId) -> Result<TermId> {
    let p = Bound::new(b, "a", array);
    let (whole, at) = (b.var(p.var), p.length(b, -1)?);
    let element = b.index(whole, at)?;
    p.close(b, element)
}

/// A scan over an array.
pub(in crate::ir::functional) struct Scan {
    pub from: End,
    pub vars: (VarId, VarId),
    pub body: TermId,
    pub init: TermId,
}

impl Scan {
    /// The scan over the indices of an array without its first elements.
    pub fn of(&self, b: &mut Builder, a: VarId, without: i64) -> Result<TermId> {
        let int = b.types().int();
        let t = b.fresh("t", int);
        let all = Bound { var: a, value: self.init };
        let (state, element) = match self.from {
            End::First => self.vars,
            End::Last => (self.vars.1, self.vars.0),
        };
        let at = match self.from {
            End::First => {
                let t = b.var(t);
                plus(b, t, without)?
            }
            End::Last => {
                let (n, t) = (all.length(b, -1)?, b.var(t));
                let t = b.prim(Prim::IntNeg, &[t])?;
                b.prim(Prim::IntAdd, &[n, t])?
            }
        };
        let whole = b.var(a);
        let value = b.index(whole, at)?;
        let body = b.push(Term::Let(element, value, self.body))?;
        let n = all.length(b, -without)?;
        let array = indices(b, n)?;
        let path = b.push(Term::Scan { from: End::First, vars: (state, t), body, init: self.init, array })?;
        match self.from {
            End::First => Ok(path),
            End::Last => {
                let p = Bound::new(b, "a", path);
                let n = p.length(b, 0)?;
                let reversed = b.build(n, "i", |b, i| {
                    let (whole, n, i) = (b.var(p.var), p.length(b, -1)?, b.var(i));
                    let i = b.prim(Prim::IntNeg, &[i])?;
                    let at = b.prim(Prim::IntAdd, &[n, i])?;
                    b.index(whole, at)
                })?;
                p.close(b, reversed)
            }
        }
    }
}

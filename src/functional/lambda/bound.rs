//! Values that are bound to a variable until the term around them is complete.
//!
//! ```text
//! let p = value in body        begun with the value, closed with the body
//! ```

use super::build::Builder;
use super::data::{Prim, Term, TermId};
use crate::base::VarId;
use crate::error::Result;

/// A value and the variable that it is bound to: a derivative, which is a pair of a value and a linear map, a function that gives such, or an array.
#[derive(Clone, Copy)]
pub(in crate::ir::functional) struct Bound {
    pub var: VarId,
    pub value: TermId,
}

impl Bound {
    pub fn new(b: &mut Builder, name: &str, value: TermId) -> Bound {
        Bound { var: b.fresh(name, b.ty(value)), value }
    }

    pub fn fst(&self, b: &mut Builder) -> Result<TermId> {
        let p = b.var(self.var);
        b.fst(p)
    }

    pub fn snd(&self, b: &mut Builder) -> Result<TermId> {
        let p = b.var(self.var);
        b.snd(p)
    }

    /// The linear map, of a variable.
    pub fn map(&self, b: &mut Builder, v: VarId) -> Result<TermId> {
        let v = b.var(v);
        self.map_of(b, v)
    }

    /// The linear map, of a term.
    pub fn map_of(&self, b: &mut Builder, v: TermId) -> Result<TermId> {
        let f = self.snd(b)?;
        b.apply(f, v)
    }

    /// A call of the function, of a variable.
    pub fn call(&self, b: &mut Builder, x: VarId) -> Result<TermId> {
        let (f, x) = (b.var(self.var), b.var(x));
        b.apply(f, x)
    }

    /// The length of the array, and so much more.
    pub fn length(&self, b: &mut Builder, by: i64) -> Result<TermId> {
        let whole = b.var(self.var);
        let n = b.push(Term::Length(whole))?;
        plus(b, n, by)
    }

    pub fn close(&self, b: &mut Builder, body: TermId) -> Result<TermId> {
        b.push(Term::Let(self.var, self.value, body))
    }
}

/// `k + by`
pub(in crate::ir::functional) fn plus(b: &mut Builder, k: TermId, by: i64) -> Result<TermId> {
    if by == 0 {
        return Ok(k);
    }
    let by = b.int(by)?;
    b.prim(Prim::IntAdd, &[k, by])
}

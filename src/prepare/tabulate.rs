//! Functions of what depends on indices through sums of them alone are computed once for each sum.
//!
//! ```text
//! let x = gen i, j. f(real(i) + -1 * real(j)) in e   ==   let t = gen k < n + n. f(real(k - n + 1)) in e[x[i, j] := t[i - j + n - 1]]
//! let x = gen i, a. f(y[i + a]) in e                 ==   let t = gen k. f(y[k]) in e[x[i, a] := t[i + a]]
//! ```
//!
//! Stationary kernels, `exp(-(i - j)^2 / (2 * l^2))`, discounts, `g^(s - t)`, and functions below a window are such: `n^2` applications of a function that
//! takes long where `2 n` are enough, or one for each place of a window where one for each pixel is.
//!
//! **Why it is right.** Which functions are such, and what their tables are, is what [`tables`](crate::tssa::tables) say: the bits are the same.
//!
//! **Where it is done.** For at most half as many applications. With two places or more all elements have to be [wanted], since a relation may ask for a few of
//! them.

use std::borrow::Cow;

use super::needs::wanted;
use crate::base::{SideTable, VarId};
use crate::error::Result;
use crate::tssa::tables::{Memo, Tables, Written};
use crate::tssa::{Builder, Program};

/// The program in which such functions are tabulated.
pub(super) fn tabulated(program: &Program) -> Result<Cow<'_, Program>> {
    if !program.stmts.values().any(Tables::is_long) {
        return Ok(Cow::Borrowed(program));
    }
    let tables = Tables::of(program, None, &|_| true)?;
    let all = wanted(program);
    let (mut found, mut memo) = (false, Memo::new());
    let mut vars: SideTable<VarId, Option<VarId>> = SideTable::new(program.stmts.len(), None);
    let mut builder = Builder::new(program.signature.clone());
    let outputs = builder.append_with(program, |builder, x, stmt| {
        let table = if Tables::is_long(stmt) { tables.table(x, all[x])? } else { None };
        let y = match table {
            Some(table) => {
                found = true;
                let written = &mut Written { tables: &tables, builder, vars: &vars, memo: &mut memo };
                let filled = table.filled(written)?;
                table.read(stmt, builder, filled)?
            }
            None => builder.push(stmt)?,
        };
        vars.set(x, Some(y));
        Ok(y)
    })?;
    Ok(if found { Cow::Owned(builder.finish(outputs).prune()?) } else { Cow::Borrowed(program) })
}

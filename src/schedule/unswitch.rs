//! Loops that test, again and again, what was known before them.
//!
//! ```text
//! for i in D                       if r != 0
//!   if r != 0                        for i in D
//!     A(i)                             A(i)
//!   if r = 0              ==           C(i)
//!     B(i)                         if r = 0
//!   C(i)                             for i in D
//!                                      B(i)
//!                                      C(i)
//! ```
//!
//! where the loop does not give `r` its number. This is *loop unswitching* (Allen and Cocke, 1971). Either loop has no test left that would keep it
//! from having lanes. The test leaves the loops around as well, as far out as its number is known.
//!
//! **Why it is right.** The number is the same in all iterations, so it is the same one of the two that each of them does.
//!
//! **Where it is done.** Where there are both an `A` and a `B`, one of which has a loop: what is straight-line code is
//! [converted](super::if_conversion) instead, and a test alone is no more in a loop than its own loops are. The loop at the top of a nest stays
//! whole, since nests over the same rows become one.

use super::machine::COPIED_STATEMENTS;
use crate::error::Result;
use crate::index::Checked;
use crate::loops::{Cond, Decision, Fresh, Program, RealId, Stmt, has_loop, inside_of_loops};

/// Takes tests out of loops.
pub(super) fn run(program: &mut Program) -> Result<()> {
    for nest in &mut program.nests {
        inside_of_loops(nest, &Decision::Unswitched {}, inside)?;
    }
    Ok(())
}

/// Takes tests out of the loops among statements, innermost loops first.
fn inside(body: &mut Vec<Stmt>, names: &mut Fresh, found: &mut bool) -> Checked<()> {
    for mut stmt in std::mem::take(body) {
        if let Stmt::For { body, .. } | Stmt::If { body, .. } = &mut stmt {
            inside(body, names, found)?;
        }
        match tested(&stmt) {
            Some(r) => {
                *found = true;
                let both = [Cond::Support(r), Cond::NoSupport(r)];
                for cond in &both {
                    names.again();
                    let chosen = names.body(&[where_holds(&stmt, cond, &both)])?;
                    body.push(Stmt::If { cond: cond.clone(), body: chosen });
                }
            }
            None => body.push(stmt),
        }
    }
    Ok(())
}

/// The number that the body of a loop tests around other loops, where it is known before.
fn tested(stmt: &Stmt) -> Option<RealId> {
    let Stmt::For { body, .. } = stmt else { return None };
    let tests = |holds: &Cond| body.iter().any(|stmt| matches!(stmt, Stmt::If { cond, .. } if cond == holds));
    let test = body.iter().find_map(|inner| match inner {
        Stmt::If { cond: Cond::Support(r) | Cond::NoSupport(r), body } if body.iter().any(has_loop) => {
            Some(*r).filter(|r| tests(&Cond::Support(*r)) && tests(&Cond::NoSupport(*r)))
        }
        _ => None,
    })?;
    let (mut size, mut known) = (0, true);
    stmt.visit(&mut |stmt| {
        size += 1;
        known &= !matches!(stmt, Stmt::Define(r, _) | Stmt::Local(r) if *r == test) && stmt.changes() != Some(test);
    });
    (known && size <= COPIED_STATEMENTS).then_some(test)
}

/// A loop where one of both conditions holds, which exclude each other.
fn where_holds(stmt: &Stmt, holds: &Cond, both: &[Cond]) -> Stmt {
    let mut stmt = stmt.clone();
    if let Stmt::For { body, .. } = &mut stmt {
        for inner in std::mem::take(body) {
            match inner {
                Stmt::If { cond, body: chosen } if both.contains(&cond) => {
                    if cond == *holds {
                        body.extend(chosen);
                    }
                }
                inner => body.push(inner),
            }
        }
    }
    stmt
}

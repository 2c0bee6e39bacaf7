//! Whether two programs read the same, up to what a reader does not mind.
//!
//! [`same_up_to_renaming`] passes over
//!
//! - names of `let`s and indices, the order of `let`s that follow one another, of adjacent `sum`s, and of the operands of `+`, `*`,
//!   `and`, `or`, `=`, `!=`; how `+` and `*` are nested; `a - (b - c)` for `a - b + c` and where in a product its sign stands;
//! - where in a product its guard stands: `[p] * (a * b)` for `([p] * a) * b`, and `[p] * (sum i. e)` for `sum i. [p] * e`;
//! - guards that a factor has anyway: the pattern beside an element of a sparse parameter, `X[i, j]` for `X.value(i, j)`, and the guard
//!   with which a tensor was defined beside an element of it;
//! - whether the numbers that a guard compares have a name: `[a < b]` for `[c != 0]` with `c` only there.
//!
//! [`same_in_essence`] also passes over
//!
//! - where literal factors stand: `2 * (sum i. x[i])` for `sum i. 2 * x[i]`, and for `let y = gen i. 2 * x[i] in sum i. y[i]`; which is
//!   less work depends on sizes;
//! - the order of the axes of a `let`.
//!
//! A program becomes a tree of [`Node`](node::Node)s, in which these differences are gone but for order; two trees are matched from the root, with
//! the binders of one renamed to those of the other. Under given names sameness is an equivalence, so operands can be matched in
//! any order, greedily; only `let`s and `sum`s need a search. Recursion is on programs that people read.

mod matcher;
mod node;
mod reader;
mod side;
mod tests;

use std::collections::BTreeMap;

use iverson::ir::term::Program;

use self::matcher::{Matcher, Strictness, is_one};
use self::reader::Reader;
use self::side::Side;
use crate::support::declarations;

/// Whether both programs are the same, but for the differences that the module documentation lists; if not, where they differ.
pub fn same_up_to_renaming(a: &Program, b: &Program) -> Result<(), String> {
    compare(a, b, Strictness::AsWritten)
}

/// The same, passing also over where literal factors stand, and over the order of the axes of `let`s.
pub fn same_in_essence(a: &Program, b: &Program) -> Result<(), String> {
    compare(a, b, Strictness::InEssence)
}

fn compare(a: &Program, b: &Program, strictness: Strictness) -> Result<(), String> {
    let header = |program: &Program| declarations(&program.to_string()).0;
    if header(a) != header(b) {
        return Err(format!("the declarations differ: {:?} and {:?}", header(a), header(b)));
    }
    let mut matcher = Matcher {
        sides: [Side::new(a, a), Side::new(b, a)],
        next: 0,
        strictness,
        scales: BTreeMap::new(),
        layouts: BTreeMap::new(),
    };
    let nodes = [a, b].map(|program| Reader::new(program).node(program.root));
    let scale = matcher.node(&nodes[0], &nodes[1])?;
    if is_one(scale) { Ok(()) } else { Err(format!("one is {scale} times the other")) }
}

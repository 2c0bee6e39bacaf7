//! Axes that are short, where sizes are known.
//!
//! ```text
//! for i in 0 .. n - 1                      for i in 0 .. n - 1
//!   for k in 0 .. d - 1          ==          for k in 0 .. 5
//!     s += x[i, k]                             s += x[i, k]
//! ```
//!
//! The coordinates of a point, the features of an observation, the states of a chain: which loop runs in lanes, which are unrolled and which copies
//! have their axes in another order depends on what is few and what is many, and programs do not say. When a program is bound, the sizes with few
//! values become literals before any pass asks, if another one has many; the signature assumes what they are. Those of a few vectors become literals
//! behind all passes, which have nothing to decide by that: loops over such rows are straight-line code for the compiler of the kernel.
//!
//! **Why it is right.** An expression over sizes has the same value with the values of sizes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::machine::{MANY, ROW, SHORT};
use crate::base::{Arena, SizeId};
use crate::error::Result;
use crate::index::{Affine, Pred, Var};
use crate::loops::{Fresh, Program};

/// The sizes that are short beside others, with their values.
pub fn short_axes(sizes: &Arena<SizeId, i64>) -> BTreeMap<SizeId, i64> {
    beside_long(sizes, 1..=SHORT - 1)
}

/// The sizes of a few vectors beside others, with their values.
pub fn short_rows(sizes: &Arena<SizeId, i64>) -> BTreeMap<SizeId, i64> {
    beside_long(sizes, SHORT..=ROW)
}

fn beside_long(sizes: &Arena<SizeId, i64>, values: RangeInclusive<i64>) -> BTreeMap<SizeId, i64> {
    let many = sizes.values().any(|n| *n >= MANY);
    sizes.iter().map(|(id, n)| (id, *n)).filter(|(_, n)| many && values.contains(n)).collect()
}

/// A program in which some sizes are literals.
///
/// # Errors
/// [`Error::Overflow`](crate::Error::Overflow).
pub fn with_sizes(mut program: Program, sizes: &BTreeMap<SizeId, i64>) -> Result<Program> {
    if sizes.is_empty() {
        return Ok(program);
    }
    let signature = Arc::make_mut(&mut program.signature);
    for (n, value) in sizes {
        signature.assumptions.push(Pred::equal(&Affine::size(*n), &Affine::constant(*value))?);
    }
    let mut value = |v: &Var| {
        Ok(match v {
            Var::Size(n) => sizes.get(n).map(|value| Affine::constant(*value)),
            Var::Index(_) | Var::Apply(_) => None,
        })
    };
    for id in program.buffers.ids().collect::<Vec<_>>() {
        let buffer = &mut program.buffers[id];
        for n in &mut buffer.dims {
            *n = n.replace(&mut value)?;
        }
    }
    for nest in &mut program.nests {
        nest.body = Fresh::at_sizes(sizes).body(&nest.body)?;
    }
    Ok(program)
}

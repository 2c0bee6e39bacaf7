//! The types of derivatives.
//!
//! ```text
//!                 forward                                      reverse
//! D[a -> b]1      D[a]1 -> D[b]1 * (D[a]2 -> D[b]2)            D[a]1 -> D[b]1 * (D[b]2 -> D[a]2)
//! D[a -> b]2      D[a]1 -> D[b]2                               D[a]1 => D[b]2
//! ```
//!
//! Arrays are differentiated element by element, `D[[a]]1 = [D[a]1]` and `D[[a]]2 = [D[a]2]`; the others are as [`DerivedTypes`] has them.

use super::Mode;
use crate::error::{Error, Result};
use crate::functional::lambda::derived::DerivedTypes;
use crate::functional::lambda::{Builder, Context, LinearType, Type};

/// The types of derivatives, as types of a builder that has the types of the source.
pub(super) fn derived(source: &Context, mode: Mode, out: &mut Builder) -> Result<DerivedTypes> {
    let own = |types: &DerivedTypes, ty: &Type, out: &mut Builder| match ty {
        Type::Fn(a, b) => {
            let (x, y, dx, dy) = (types.first(*a), types.first(*b), types.second(*a), types.second(*b));
            let (derivative, owed) = match mode {
                Mode::Forward => (out.types().function(dx, dy), out.types().function(x, dy)),
                Mode::Reverse => (out.types().function(dy, dx), out.types().linear(LinearType::Copower(x, dy))),
            };
            let result = out.types().pair(y, derivative);
            Some((out.types().function(x, result), owed))
        }
        Type::Array(a) => Some((out.types().array(types.first(*a)), out.types().array(types.second(*a)))),
        _ => None,
    };
    DerivedTypes::new(source, out, &own, unsupported)
}

/// What this method does not differentiate.
pub(super) fn unsupported(what: &str) -> Error {
    Error::Limitation { feature: format!("{what} under CHAD"), span: None }
}

//! The types of derivatives.
//!
//! ```text
//! D[a -> b]1 = D[a]1 -> D[b]1 * (D[b]2 -> D[a]2)        D[closure(a, b)]1 = closure(D[a]1, D[b]1 * (D[b]2 -> ~package ~* D[a]2))
//! D[a -> b]2 = ~unit                                    D[closure(a, b)]2 = ~package
//! D[[a]]1 = [D[a]1]                                     D[[a]]2 = int => D[a]2
//! ```
//!
//! Functions are closed (\[000\], Appendix B), so nothing is owed to what they capture. A hidden type has cotangents of type `~package`: the closure that hides it
//! puts the type to them, and takes it off. The others are as [`DerivedTypes`] has them.

use crate::error::{Error, Result};
use crate::functional::lambda::derived::DerivedTypes;
use crate::functional::lambda::{Builder, Context, LinearType, Type, TypeId};

/// The types of derivatives, as types of a builder that has the types of the source.
pub(super) fn derived(source: &Context, out: &mut Builder) -> Result<DerivedTypes> {
    DerivedTypes::new(source, out, &own, unsupported)
}

fn own(types: &DerivedTypes, ty: &Type, out: &mut Builder) -> Option<(TypeId, TypeId)> {
    Some(match ty {
        Type::Fn(a, b) => {
            let back = out.types().function(types.second(*b), types.second(*a));
            let result = out.types().pair(types.first(*b), back);
            let unit = out.types().linear_unit();
            (out.types().function(types.first(*a), result), unit)
        }
        Type::Closure(a, b) => {
            let package = out.types().linear(LinearType::Package);
            let owed = out.types().linear(LinearType::Pair(package, types.second(*a)));
            let back = out.types().function(types.second(*b), owed);
            let result = out.types().pair(types.first(*b), back);
            (out.types().intern(Type::Closure(types.first(*a), result)), package)
        }
        Type::Hidden(x) => (out.types().intern(Type::Hidden(*x)), out.types().linear(LinearType::Package)),
        Type::Array(a) => {
            let int = out.types().int();
            let bag = out.types().linear(LinearType::Copower(int, types.second(*a)));
            (out.types().array(types.first(*a)), bag)
        }
        _ => return None,
    })
}

/// What this method does not differentiate.
pub(super) fn unsupported(what: &str) -> Error {
    Error::Limitation { feature: format!("{what} under efficient CHAD"), span: None }
}

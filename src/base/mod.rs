//! What every layer may use and that knows nothing of tensors: typed ids, arenas, side tables, source spans,
//! errors by who is to blame and their pictures, counted work, the common divisor, and the writers shared by all printers.

mod arena;
mod diagnostics;
pub mod dot;
pub(crate) mod error;
mod format;
pub(crate) mod integers;
pub mod layout;
mod span;
pub(crate) mod typeset;
pub mod work;
pub mod xml;

pub use arena::{Arena, Id, Interner, SideTable};
pub use diagnostics::locate;
pub use format::{Capabilities, Format};
pub use span::{MAX_TEXT, Span};

/// Declares an id type: a `u32` newtype that indexes one arena and prints as its prefix and number.
macro_rules! define_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $crate::base::Id for $name {
            fn from_index(index: usize) -> Self {
                // An arena holds at most `u32::MAX` items, see `Arena::push`.
                $name(index as u32)
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}

pub(crate) use define_id;

define_id!(
    /// A size variable of a program, such as the `n` of `x : [n] real`.
    SizeId,
    "n"
);
define_id!(
    /// An index variable. In a term each binder has its own; in Tensor-SSA they are numbered in each statement.
    IndexId,
    "i"
);
define_id!(
    /// A variable that holds a value: in a term a parameter or a `let`, in Tensor-SSA a statement.
    VarId,
    "%"
);
define_id!(
    /// A relation given at run time: declared, a map, or the pattern of a sparse parameter.
    RelationId,
    "R"
);
define_id!(
    /// A parameter of a program.
    ParamId,
    "p"
);
define_id!(
    /// A scalar function registered by the user.
    FunctionId,
    "f"
);

//! Flows: loops over time around straight-line programs.
//!
//! Tensor-SSA has no recurrences. A [`Program`] here is a thin layer over it: statements that are *leaves*, closed programs in Tensor-SSA, *scans*,
//! whose steps are statements again, and *calls* of code that nobody looks into. The forms, theorems and proofs of Tensor-SSA hold for each leaf as they are.
//!
//! ```text
//! leaf   ys = F(xs)                                           F in Tensor-SSA
//! call   ys = f(xs)                                           f from outside
//! scan   paths = scan t < T [down], states = inits. stmts     states go on from step to step, paths are all of them; or, if it is marked,
//!                                                             states are a solution of states = stmts
//! ```
//!
//! **A loop index is a size of the leaf.** Inside of a leaf `t` is what sizes are: an integer that no statement changes, of which `t < T` is
//! assumed. So `x[t, i]` is an access like others, in bounds by the prover as it stands, and nothing in Tensor-SSA knows of loops.
//!
//! **A path keeps the first state**: `T + 1` states, the one before step `t` at `t`. Where a scan goes down, the state before step `t` is at `t + 1`.
//!
//! **Scopes are static.** A statement reads values of the statements before it, and of those around its scan; the log of what steps owe to a value
//! around them is a sum over the paths, and needs no cells.
//!
//! | file | job |
//! |---|---|
//! | `data` | the types |
//! | `build` | building flows |
//! | `call` | calls of functions from outside, and their derivatives |
//! | `verify` | checks all that a flow promises |
//! | `print` | flows as text, for looking at |
//! | `outline` | terms with scans to flows |
//! | `lift` | statements under one more axis |
//! | `forward`, `adjoint` | derivatives |
//! | `jacobian`, `gauss_newton` | Jacobians, Hessians and Gauss-Newton matrices: derivatives with one-hot tangents or seeds, lifted; and products |
//! | `implicit` | fixpoints, whose derivatives are by the implicit function theorem |
//! | `invariant` | states that no step changes go, and copies of others |
//! | `again` | statements once more |
//! | `transpose` | transposed programs |
//! | `join` | leaves beside each other as one; what is not needed goes |
//! | `active` | what depends on what derivatives are taken by |
//! | `leaf` | leaves made of programs |
//! | `last` | results that the last leaf gives |
//! | `extend` | flows that take more from outside |
//! | `early` | loops that end early |
//! | `tiles` | long loops as loops over tiles, whose derivatives keep few states |
//! | `split` | flows for kernels: nothing is computed again, or stored, for nobody |
//! | `inits` | first states of tiles where they can be stored at once |
//! | `present` | flows to terms, for reading |
//! | `json` | flows as JSON |
//! | `tally` | all statements as a list, to count |

mod active;
mod adjoint;
mod again;
mod build;
mod call;
mod data;
mod early;
mod extend;
mod forward;
mod gauss_newton;
mod implicit;
mod inits;
mod invariant;
mod jacobian;
mod join;
mod json;
mod last;
mod leaf;
mod lift;
mod outline;
mod patterned;
mod present;
mod print;
mod split;
mod tally;
mod tiles;
mod transpose;
mod verify;

pub use adjoint::adjoint;
pub use build::Builder;
pub use data::{Call, Early, Leaf, Loops, Output, Program, Scan, State, Stmt, Value, ValueId, split_result};
pub use early::{end_early, end_paths_early, to_the_end};
pub use forward::forward;
pub use gauss_newton::{gauss_newton, gauss_newton_product};
pub use implicit::solve_further;
pub use inits::part_inits;
pub use invariant::without_invariant_states;
pub use jacobian::jacobian;
pub use join::{join, map_leaves};
pub use last::given_last;
pub use outline::{MAX_DEPTH, Normalise, outline};
pub use patterned::on_patterns;
pub use present::present;
pub use split::{split, take_in};
pub use tally::tally;
pub use tiles::{Kept, Tiled, Tiling, Why, tile_time};
pub use transpose::transpose;

//! Derivatives of tensor programs that are purely functional, sparse by construction, and no more expensive than theory says.
//!
//! A program is written with Iverson brackets, as a mathematician writes sums:
//!
//! ```
//! use iverson::prelude::*;
//!
//! let loss = Function::parse(
//!     "param x : [n + m - 1] real
//!      param w : [m] real
//!      param z : [n] real
//!      let y = gen i < n. sum j < m. x[i - j + m - 1] * w[j]
//!      in sum i < n. (y[i] - z[i])^2",
//! )?;
//! println!("{}", loss.gradient(["w"])?);
//! # Ok::<(), iverson::Error>(())
//! ```
//!
//! [`tutorial`] has chapters for learners. How programs are written is in [`language`]; what most users need of the library is in [`prelude`].
//! A program runs on data as a kernel, which is bound to sizes and sparse structures once:
//!
//! ```
//! use iverson::prelude::*;
//!
//! let loss = Function::parse("param x : [n] real\nsum i < n. x[i]^2")?;
//! let inputs = inputs! { "x" => vec![1.0, 2.0, 3.0] };
//! assert_eq!(loss.eval(&inputs)?["value"].as_scalar(), Some(14.0));
//!
//! let kernel = loss.value_and_gradient(["x"])?.kernel(&inputs).build()?;
//! let (mut value, mut gradient) = (0.0, [0.0; 3]);
//! kernel.call_into(&[1.0, 2.0, 3.0], (&mut value, &mut gradient))?;
//! assert_eq!((value, gradient), (14.0, [2.0, 4.0, 6.0]));
//! # Ok::<(), iverson::Error>(())
//! ```
//!
//! The gradient is again a program: it has no `+=`, no tape and no scatter, it prints, parses, and can be differentiated again.
//! The theory is that of *Differentiating a Tensor Language* by Bernstein, Mara, Li, Maclaurin and Ragan-Kelley, called *the paper* here;
//! numbers such as 5.6 or 6.28 are its rules.
//!
//! | where | what |
//! |---|---|
//! | [`tutorial`], [`language`], [`reliability`] | chapters for learners; how programs are written; what is promised, and what shows it: documentation only |
//! | [`prelude`] | the names that most programs need |
//! | [`tensor`], [`kernel`] | values, sparse formats and files; what is bound, and what calls take and give |
//! | [`builder`] | programs made in Rust, and functions of your own: of scalars, and of tensors from outside |
//! | [`report`] | a page about a program and its derivative |
//! | [`error`] | errors, and how they are drawn |
//! | [`ir`] | the compiler from inside. Programs that use the library do not need it, and any version may change it |
//!
//! The rest of this page is about the inside.
//!
//! # The pipeline
//!
//! ```text
//!   text ──parse──> ast ──elaborate──> term            names, sizes and types resolved, every access proved in bounds
//!   Rust ──build──> ast                  │ let-lifting         lets only at the top                       5.1-5.10
//!                                        │ pair-elimination    no pairs but inputs and outputs            5.11-5.20
//!                                        │ gen-pushout         every right-hand side is gen .. gen e      5.21-5.24
//!                                        │ tensor-ssa                                                     5.25-5.34
//!                                        │   with loops: outline ──> flow, whose leaves go the same way
//!                                        v
//!                              ┌───> Tensor-SSA ───> reference: evaluate, count operations
//!                              │         │ forward             D f(x; dx)                                 6.1-6.13
//!                              │         │ adjoint             D^T f(x; dy), by inner products            6.14-6.29
//!                              │         │ jacobian            one-hot tensors through either of them
//!                              │         │ expand-partials     f' becomes an expression
//!                              ├─────────┤ simplify            the same function for no more work
//!                              │         v
//!                              │      present ───> term        for reading, and for parsing back
//!                              │     with loops: take in, split    no step is computed three times
//!                              └───> prepare, lower ───> loops
//!                                                          │ schedule     the same numbers, sooner
//!                                                          │ link         with loops: the leaves as one program
//!                                                          v
//!                                                        kernel: interpreted, or compiled by `rustc`
//! ```
//!
//! [`ir::driver`] knows this order; that of the passes between Tensor-SSA and loops is [`ir::prepare::PASSES`], that of the passes over loops
//! [`ir::schedule::PASSES`], and that of those that run at binding [`ir::schedule::AT_BINDING`]. In debug builds a verifier
//! runs after every pass, from let-lifting on, and an error names the guilty pass; `iverson show --stage loops --after NAME` prints what a pass made.
//!
//! # The intermediate representations
//!
//! | IR | what it is | what it guarantees |
//! |---|---|---|
//! | [`ir::surface::ast`] | what was written | nothing |
//! | [`ir::term`] | typed expression trees, in four normal forms | well typed; accesses in bounds; binders distinct; one user for each term |
//! | [`ir::tssa`] | straight-line statements of six forms over whole tensors | operands first; no two statements equal; index names canonical |
//! | [`ir::flow`] | loops over time around leaves, which are in Tensor-SSA, and calls of functions from outside | values given once, before they are read; states of one type |
//! | [`ir::loops`] | loop nests over buffers and the arrays of relations | operands first; `+=` only to what one part owns; every sum in a fixed order |
//! | [`ir::diff::Form`] | statements, pending tangents and a sum of guarded inner products | what the adjoint is while it is derived |
//!
//! Expressions, terms and statements lie in arenas, operands before their users. A pass is a loop forwards, or backwards and then forwards;
//! nothing recurses on the depth of a program, so a million nested `let`s need no more stack than one.
//!
//! # The modules, in the order of the pipeline
//!
//! | module | holds |
//! |---|---|
//! | [`ir::base`] | typed ids, arenas, side tables, spans, text layout, the GraphViz writer; counted work and its budgets |
//! | [`ir::index`] | sizes, affine index expressions, predicates |
//! | [`ir::solver`] | a prover, quantifier elimination, enumeration and counting of points |
//! | [`ir::scalar`] | the operator table: value, partial derivatives, domain and facts of each scalar function, one row each |
//! | [`ir::ty`], [`error`] | types and signatures; errors by who is to blame |
//! | [`ir::surface`], [`builder`] | text to [`ir::term`]; Rust to [`ir::surface::ast`] |
//! | [`ir::normalize`] | the four normal forms |
//! | [`ir::diff`] | derivatives, and the derivation of an adjoint as a list of rules |
//! | [`mod@ir::simplify`] | equality saturation over Tensor-SSA by rules that are data; why a result is the same function |
//! | [`ir::present`] | Tensor-SSA to [`ir::term`], for reading |
//! | [`ir::flow`] | programs with loops: terms to flows and back, their derivatives, leaves made one, long loops in tiles |
//! | [`ir::certificate`] | what a program costs, as formulas in its sizes, and what its derivatives cost at most |
//! | [`tensor`] | values at run time: dense, CSR, CSC, COO, relations; binding sizes to shapes; files |
//! | [`ir::loops`] | loop nests, what they mean, and their verifier |
//! | [`ir::prepare`], [`mod@ir::lower`] | Tensor-SSA to loop nests: what is stored and what is computed in place, how guards become loops |
//! | [`mod@ir::link`] | the nests of the leaves of a flow as one program |
//! | [`mod@ir::schedule`] | loop nests to loop nests: interchange, fusion, layouts, lanes, parts; constants and bins |
//! | [`kernel`] | programs bound to sizes and relations: the interpreter, memory, calls |
//! | [`ir::codegen`] | loop nests as Rust source, compiled by `rustc` and loaded; vectors and functions of them |
//! | [`mod@ir::reference`] | the evaluator and the operation counter straight from the paper, finite differences, complex step |
//! | [`mod@ir::functional`] | a lambda calculus, and four more ways to differentiate its programs |
//! | [`ir::stages`], [`ir::driver`] | running, showing, checking and timing passes; the pipeline |
//! | [`report`] | a page about a program and its derivative |
//!
//! # Who uses whom
//!
//! Every module may use [`ir::base`]; of the others it uses these, and there is no circle. Inside of the crate modules are named without `ir`, which
//! is their name for others and so has no row:
//!
//! | module | uses |
//! |---|---|
//! | `base` | |
//! | `index` | |
//! | `solver` | `index` |
//! | `scalar` | `index` |
//! | `ty` | `index`, `scalar`, `solver` |
//! | `language` | |
//! | `foreign` | |
//! | `lexer` | `foreign` |
//! | `surface` | `foreign`, `index`, `lexer`, `scalar`, `solver`, `term`, `ty` |
//! | `builder` | `lexer`, `scalar`, `surface` |
//! | `term` | `index`, `scalar`, `solver`, `ty` |
//! | `normalize` | `index`, `scalar`, `solver`, `term`, `tssa`, `ty` |
//! | `tssa` | `index`, `lexer`, `scalar`, `solver`, `ty` |
//! | `certificate` | `index`, `scalar`, `solver`, `tssa`, `ty` |
//! | `diff` | `index`, `scalar`, `solver`, `term`, `tssa`, `ty` |
//! | `simplify` | `index`, `scalar`, `solver`, `stages`, `tssa`, `ty` |
//! | `present` | `index`, `scalar`, `solver`, `term`, `tssa`, `ty` |
//! | `tensor` | `index`, `scalar`, `solver`, `ty` |
//! | `loops` | `index`, `scalar`, `solver`, `ty` |
//! | `prepare` | `index`, `loops`, `scalar`, `solver`, `stages`, `tssa`, `ty` |
//! | `lower` | `index`, `loops`, `prepare`, `scalar`, `schedule`, `solver`, `tssa`, `ty` |
//! | `flow` | `diff`, `index`, `normalize`, `present`, `scalar`, `solver`, `term`, `tssa`, `ty` |
//! | `link` | `flow`, `index`, `loops`, `scalar`, `schedule`, `solver`, `tssa`, `ty` |
//! | `schedule` | `index`, `loops`, `scalar`, `solver`, `stages`, `ty` |
//! | `codegen` | `index`, `loops`, `scalar`, `tensor` |
//! | `kernel` | `codegen`, `index`, `loops`, `scalar`, `schedule`, `tensor`, `ty` |
//! | `reference` | `flow`, `index`, `scalar`, `solver`, `tensor`, `term`, `tssa`, `ty` |
//! | `stages` | `flow`, `loops`, `term`, `tssa` |
//! | `driver` | `certificate`, `codegen`, `diff`, `flow`, `index`, `kernel`, `link`, `loops`, `lower`, `normalize`, `prepare`, `present`, `scalar`, `schedule`, `simplify`, `solver`, `stages`, `surface`, `tensor`, `term`, `tssa`, `ty` |
//! | `functional` | `driver`, `index`, `reference`, `scalar`, `stages`, `tensor`, `term`, `ty` |
//! | `report` | `certificate`, `driver`, `index`, `kernel`, `loops`, `simplify`, `stages`, `tensor`, `term`, `tssa`, `ty` |
//! | `prelude` | `kernel`, `tensor` |
//! | `tutorial` | |
//! | `reliability` | |
//!
//! # Glossary
//!
//! | the paper writes | we call it | type |
//! |---|---|---|
//! | `⊞ i<n. e`, tensor generation | `gen` | [`ir::term::Term::Gen`] |
//! | `Σ i<n. e` | `sum` | [`ir::term::Term::Sum`] |
//! | `[p] · e`, Iverson bracket | bracket, its predicate a guard; always a *select* | [`ir::term::Term::Iverson`], [`ir::index::Pred`] |
//! | `R(a, ..)`, data predicate | relation; a *map* has one target for each source | [`ir::index::RelationRef`] |
//! | `a`, affine index | index expression | [`ir::index::Affine`] |
//! | `n`, size variable | size | [`ir::index::Size`] |
//! | `π0 e`, `π1 e` | `fst e`, `snd e` | [`ir::term::Term::Fst`] |
//! | `E`, right-hand side of Tensor-SSA | right-hand side | [`ir::tssa::Rhs`] |
//! | `⊞g Σs [p] · X0[i0] · X1[i1]` | contraction | [`ir::tssa::Rhs::Contract`] |
//! | | leaf: what stands between loops; path: all states of a loop, `scan` | [`ir::flow::Leaf`], [`ir::flow::State`] |
//! | | tile: steps of a loop that are together, between two checkpoints | [`ir::flow::tile_time`] |
//! | | one-hot tensor: `gen q < n. (k = q)`, where a number tells the place; stand-in: the index that stands for such a number in proofs | |
//! | | closure: a function with the bindings in scope where it stands; none is left behind `surface` | [`mod@ir::surface`] |
//! | `D[e]`, total derivative | forward derivative; of a variable, its tangent | [`ir::diff::forward`] |
//! | `D^T[e]`, adjoint derivative | adjoint | [`ir::diff::adjoint()`] |
//! | `<e0 \| e1>_[p]` | guarded inner product | [`ir::diff::InnerProduct`] |
//! | `$[e]` | cost, operation count | [`ir::certificate::Cost`], [`mod@ir::reference`] |

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

// The files of these modules lie beside this one.
#[path = ""]
pub mod ir {
    //! The compiler from inside: representations and passes, for whoever looks at what becomes of a program. Programs that use the library need
    //! none of it, but for what is at the root as well, and any version may change it. The [documentation of the crate](crate#the-pipeline) is the tour.

    pub mod base;
    pub mod index;
    pub mod scalar;
    pub mod solver;
    pub mod ty;

    pub mod surface;
    pub mod term;

    pub mod normalize;
    pub mod tssa;

    pub mod certificate;
    pub mod diff;
    pub mod flow;
    pub mod present;
    pub mod simplify;

    pub mod link;
    pub mod loops;
    pub mod lower;
    pub mod prepare;
    pub mod schedule;

    pub mod codegen;

    pub mod reference;

    pub mod functional;

    pub mod stages;

    pub mod driver {
        //! The pipeline: which passes run, and in which order. [`Function`](crate::Function) and what its methods take and give are at the root.

        pub use crate::driver::{
            Names, Nests, Simplification, Stage, Staged, loops_of_flow, loops_of_flow_for, lower, passes,
        };
    }
}

// Inside of the crate no path goes through `ir`.
use ir::{
    base, certificate, codegen, diff, flow, functional, index, link, loops, lower, normalize, prepare, present,
    reference, scalar, schedule, simplify, solver, stages, surface, term, tssa, ty,
};

mod driver;
mod foreign;
mod lexer;

pub mod error {
    //! Errors, by who is to blame: the user's program, the user's data, a limit, a missing feature, or the compiler; and how they are drawn.
    //!
    //! An error is one line for each problem, with the line and column where it is. The alternate form `{:#}` draws the lines of a program text, each
    //! with a caret under the place:
    //!
    //! ```
    //! let error = iverson::Function::parse("param x : [n] real\nsum i < n. x[i + 1]").unwrap_err();
    //! assert!(error.to_string().starts_with("line 2, column 12: "), "{error}");
    //! assert!(format!("{error:#}").contains("2 │ sum i < n. x[i + 1]"), "{error:#}");
    //! ```

    pub use crate::base::error::{Diagnostic, Error, Origin, Result, render, render_error, render_warnings};
}

pub mod builder;
pub mod kernel;
pub mod tensor;

pub mod report;

pub mod language;
pub mod prelude;
pub mod reliability;
pub mod tutorial;

/// The programs of the page that people meet first are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use driver::{Derived, Function, KernelBuilder, Mode, Objective, Request, Residuals};
pub use error::{Diagnostic, Error, Origin, Result};
#[doc(inline)]
pub use surface::Import;
#[doc(inline)]
pub use term::Style;

pub use ndarray;
pub use sprs;

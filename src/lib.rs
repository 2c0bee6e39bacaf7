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
//! # The pipeline
//!
//! ```text
//!   text ──parse──> ast ──elaborate──> term            names, sizes and types resolved, every access proved in bounds
//!   Rust ──build──> ast                  │ let-lifting         lets only at the top                       5.1-5.10
//!                                        │ pair-elimination    no pairs but inputs and outputs            5.11-5.20
//!                                        │ gen-pushout         every right-hand side is gen .. gen e      5.21-5.24
//!                                        │ tensor-ssa                                                     5.25-5.34
//!                                        v
//!                              ┌───> Tensor-SSA ───> reference: evaluate, count operations
//!                              │         │ forward             D f(x; dx)                                 6.1-6.13
//!                              │         │ adjoint             D^T f(x; dy), by inner products            6.14-6.29
//!                              │         │ jacobian            one-hot tensors through either of them
//!                              │         │ expand-partials     f' becomes an expression
//!                              ├─────────┤ simplify            the same function for no more work
//!                              │         v
//!                              │      present ───> term        for reading, and for parsing back
//!                              └───> prepare, lower ───> loops
//!                                                          │ schedule     the same numbers, sooner
//!                                                          v
//!                                                        kernel: interpreted, or compiled by `rustc`
//! ```
//!
//! [`driver`] knows this order; that of the passes between Tensor-SSA and loops is [`prepare::PASSES`], that of the passes over loops
//! [`schedule::PASSES`], and that of the four that run at binding [`schedule::specialise`](fn@schedule::specialise). In debug builds a verifier
//! runs after every pass, from let-lifting on, and an error names the guilty pass; `iverson show --stage loops --after NAME` prints what a pass made.
//!
//! # The intermediate representations
//!
//! | IR | what it is | what it guarantees |
//! |---|---|---|
//! | [`surface::ast`] | what was written | nothing |
//! | [`term`] | typed expression trees, in four normal forms | well typed; accesses in bounds; binders distinct; one user for each term |
//! | [`tssa`] | straight-line statements of six forms over whole tensors | operands first; no two statements equal; index names canonical |
//! | [`loops`] | loop nests over buffers and the arrays of relations | operands first; `+=` only to a part's own workspace; every sum in a fixed order |
//! | [`diff::Form`] | statements, pending tangents and a sum of guarded inner products | what the adjoint is while it is derived |
//!
//! Expressions, terms and statements lie in arenas, operands before their users. A pass is a loop forwards, or backwards and then forwards;
//! nothing recurses on the depth of a program, so a million nested `let`s need no more stack than one.
//!
//! # The modules, in the order of the pipeline
//!
//! | module | holds |
//! |---|---|
//! | [`base`] | typed ids, arenas, side tables, spans, text layout, the GraphViz writer; counted work and its budgets |
//! | [`index`] | sizes, affine index expressions, predicates |
//! | [`solver`] | a prover, quantifier elimination, enumeration and counting of points |
//! | [`scalar`] | the operator table: value, partial derivatives, domain and facts of each scalar function, one row each |
//! | [`ty`], [`error`] | types and signatures; errors by who is to blame |
//! | [`language`] | how programs are written: documentation only |
//! | [`surface`] | text and Rust builder to [`term`] |
//! | [`normalize`] | the four normal forms |
//! | [`diff`] | derivatives, and the derivation of an adjoint as a list of rules |
//! | [`mod@simplify`] | equality saturation over Tensor-SSA by rules that are data; why a result is the same function |
//! | [`present`] | Tensor-SSA to [`term`], for reading |
//! | [`certificate`] | what a program costs, as formulas in its sizes, and what its derivatives cost at most |
//! | [`tensor`] | values at run time: dense, CSR, CSC, COO, relations; binding sizes to shapes; files |
//! | [`loops`] | loop nests, what they mean, and their verifier |
//! | [`prepare`], [`mod@lower`] | Tensor-SSA to loop nests: what is stored and what is computed in place, how guards become loops |
//! | [`mod@schedule`] | loop nests to loop nests: interchange, fusion, layouts, lanes, parts; constants and bins |
//! | [`kernel`] | programs bound to sizes and relations: the interpreter, memory, calls |
//! | [`codegen`] | loop nests as Rust source, compiled by `rustc` and loaded; vectors and functions of them |
//! | [`mod@reference`] | the evaluator and the operation counter straight from the paper, finite differences, complex step |
//! | [`stages`], [`driver`] | running, showing, checking and timing passes; the pipeline |
//! | [`report`] | a page about a program and its derivative |
//! | [`prelude`] | the names that most users need |
//! | [`tutorial`] | chapters for learners: documentation only |
//!
//! # Who uses whom
//!
//! Every module may use [`base`]; of the others it uses these, and there is no circle:
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
//! | `lower` | `index`, `loops`, `prepare`, `scalar`, `solver`, `tssa`, `ty` |
//! | `schedule` | `index`, `loops`, `scalar`, `solver`, `stages`, `ty` |
//! | `codegen` | `index`, `loops`, `scalar`, `tensor` |
//! | `kernel` | `codegen`, `index`, `loops`, `scalar`, `schedule`, `tensor`, `ty` |
//! | `reference` | `index`, `scalar`, `solver`, `tensor`, `term`, `tssa`, `ty` |
//! | `stages` | `loops`, `term`, `tssa` |
//! | `driver` | `certificate`, `diff`, `index`, `kernel`, `loops`, `lower`, `normalize`, `prepare`, `present`, `scalar`, `schedule`, `simplify`, `solver`, `stages`, `surface`, `tensor`, `term`, `tssa`, `ty` |
//! | `report` | `certificate`, `driver`, `index`, `kernel`, `loops`, `simplify`, `stages`, `tensor`, `term`, `tssa`, `ty` |
//! | `prelude` | `driver`, `kernel`, `surface`, `tensor` |
//! | `tutorial` | |
//!
//! # Glossary
//!
//! | the paper writes | we call it | type |
//! |---|---|---|
//! | `⊞ i<n. e`, tensor generation | `gen` | [`term::Term::Gen`] |
//! | `Σ i<n. e` | `sum` | [`term::Term::Sum`] |
//! | `[p] · e`, Iverson bracket | bracket, its predicate a guard; always a *select* | [`term::Term::Iverson`], [`index::Pred`] |
//! | `R(a, ..)`, data predicate | relation; a *map* has one target for each source | [`index::RelationRef`] |
//! | `a`, affine index | index expression | [`index::Affine`] |
//! | `n`, size variable | size | [`index::Size`] |
//! | `π0 e`, `π1 e` | `fst e`, `snd e` | [`term::Term::Fst`] |
//! | `E`, right-hand side of Tensor-SSA | right-hand side | [`tssa::Rhs`] |
//! | `⊞g Σs [p] · X0[i0] · X1[i1]` | contraction | [`tssa::Rhs::Contract`] |
//! | `D[e]`, total derivative | forward derivative; of a variable, its tangent | [`diff::forward`] |
//! | `D^T[e]`, adjoint derivative | adjoint | [`diff::adjoint()`] |
//! | `<e0 \| e1>_[p]` | guarded inner product | [`diff::InnerProduct`] |
//! | `$[e]` | cost, operation count | [`certificate::Cost`], [`mod@reference`] |

#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod base;
pub mod index;
pub mod scalar;
pub mod solver;
pub mod ty;

mod foreign;
pub mod language;
mod lexer;
pub mod surface;
pub mod term;

pub mod normalize;
pub mod tssa;

pub mod certificate;
pub mod diff;
pub mod present;
pub mod simplify;

pub mod tensor;

pub mod loops;
pub mod lower;
pub mod prepare;
pub mod schedule;

pub mod codegen;
pub mod kernel;

pub mod reference;

pub mod driver;
pub mod stages;

pub mod report;

pub mod prelude;
pub mod tutorial;

/// The programs of the page that people meet first are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use base::error;
pub use driver::Function;
pub use error::{Diagnostic, Error, Origin, Result};
pub use ndarray;
pub use sprs;

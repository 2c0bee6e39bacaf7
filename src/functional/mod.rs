//! A typed lambda calculus, and four ways to differentiate its programs.
//!
//! The tensor language has an adjoint of its own, which this module does not touch. Here are the methods of four papers, each complete, on one language and
//! one counter of steps, so that they can be compared, and what the papers prove can be run:
//!
//! | module | method | source | what it gives |
//! |---|---|---|---|
//! | [`chad`] | combinatory homomorphic differentiation, forward and reverse | \[003\] | programs with functions as they are; code of linear size; no bound on time |
//! | [`efficient`] | the same, with sparse cotangents, a monad of cells and closed functions | \[000\] | time within a constant factor, which is proved |
//! | [`dual`] | dual numbers with backpropagators, staged | \[001\] | everything, recursion and fork-join among it; what has no static shape |
//! | [`continuation`] | continuations, which partial evaluation makes vanish | \[004\] | programs without functions, as a mathematician writes them |
//!
//! ```text
//!            ┌─ chad ────────── D[t] : value * (cotangent -> environment)      ─┐
//! lambda ────┼─ efficient ───── D[t] : value * (cotangent -> action on cells)   ─┼─ run by the evaluator of lambda, over reals,
//!  (text)    ├─ dual ────────── a tape of leaf calls, resolved from the last     │  complex numbers, dual numbers, or a prime field
//!            └─ continuation ── a program of operations on reals and arrays     ─┘
//! ```
//!
//! Who uses whom:
//!
//! | module | imports |
//! |---|---|
//! | [`lambda`] | `base`, `scalar`, `reference::numeric`, `error` of the crate |
//! | [`chad`], [`efficient`], [`dual`], [`continuation`] | `lambda`, not each other |
//! | [`compare`] | `lambda`: judges of gradients that share nothing with the methods |
//! | [`errata`] | all: what the papers state and programs refute |
//! | [`mod@elaborate`] | `lambda`: programs of the tensor language in it, for given sizes |
//! | [`methods`] | all: one door to the methods and to the adjoint of tensor programs, one counter |
//!
//! The same program, four times; all agree with forward mode:
//!
//! ```
//! use iverson::ir::functional::{chad, efficient, lambda::{Value, parse}};
//!
//! let program = parse("param x : real  param y : real  let f = fn z : real. x * z + y in f y * f x")?;
//! let args = [Value::Real(2.0), Value::Real(3.0)];
//! let (value, by_chad) = chad::differentiate(&program, chad::Mode::Reverse)?.cotangents(&args, &Value::Real(1.0))?;
//! let gradient = efficient::differentiate(&program, efficient::Stage::Array)?.run(&args, &Value::Real(1.0))?;
//! assert_eq!(value, Value::Real(63.0));
//! assert_eq!(by_chad, [Value::Real(57.0), Value::Real(30.0)]);
//! assert_eq!(gradient.cotangents, by_chad);
//! # Ok::<(), iverson::Error>(())
//! ```
//!
//! The papers, by the numbers that the files cite:
//!
//! - \[000\] T. Smeding, M. Vákár, *Efficient CHAD*, POPL 2024.
//! - \[001\] T. Smeding, M. Vákár, *Parallel Dual-Numbers Reverse AD*.
//! - \[003\] M. Vákár, T. Smeding, *CHAD: Combinatory Homomorphic Automatic Differentiation*, TOPLAS 2022.
//! - \[004\] M. Huot, A. Shaikhha, *Denotationally correct, purely functional, efficient reverse-mode automatic differentiation*.

pub mod chad;
pub mod compare;
pub mod continuation;
pub mod dual;
pub mod efficient;
pub mod elaborate;
pub mod errata;
pub mod lambda;
pub mod methods;

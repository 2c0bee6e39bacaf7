//! A tutorial: six chapters, and one on how an adjoint is derived. Every block of code is compiled and run, and what it shows is compared.
//!
//! | chapter | after it you can |
//! |---|---|
//! | [`first_program`] | write a program, run it, and have its gradient |
//! | [`brackets`] | leave out what is zero: guards, sums over parts, band matrices |
//! | [`sparse_data`] | use sparse matrices, relations and maps |
//! | [`kernels`] | run a program often: kernels, constants, threads, memory |
//! | [`second_derivatives`] | compute Jacobians, Hessians and products with them, and use them for Newton's method |
//! | [`reading`] | read how a derivative was found, why it is right, and what it costs |
//! | [`adjoints`] | derive an adjoint by hand |
//!
//! [`language`](crate::language) says how programs are written, [`short`] has whole programs that do one thing.

#[doc = include_str!("adjoints.md")]
pub mod adjoints {}

#[doc = include_str!("brackets.md")]
pub mod brackets {}

#[doc = include_str!("first_program.md")]
pub mod first_program {}

#[doc = include_str!("kernels.md")]
pub mod kernels {}

#[doc = include_str!("reading.md")]
pub mod reading {}

#[doc = include_str!("second_derivatives.md")]
pub mod second_derivatives {}

#[doc = include_str!("short.md")]
pub mod short {}

#[doc = include_str!("sparse_data.md")]
pub mod sparse_data {}

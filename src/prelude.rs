//! What most programs need: `use iverson::prelude::*;`.
//!
//! ```
//! use iverson::prelude::*;
//!
//! let loss = Function::parse("param X : [n, d] real\nparam y : [n] real\nparam w : [d] real\nsum i < n. ((sum j < d. X[i, j] * w[j]) - y[i])^2")?;
//! let mut inputs = inputs! { "X" => [[1.0, 2.0], [3.0, 4.0]], "y" => [5.0, 6.0], "w" => vec![0.0; 2] };
//! println!("{}", loss.gradient(["w"])?);
//! println!("{}", loss.hessian(["w"])?.eval(&inputs)?);
//! let kernel = loss.value_and_gradient(["w"])?.kernel(&inputs).constants(["X", "y"]).build()?;
//! let results = kernel.call(&[1.0, 1.0])?;
//! assert_eq!((results["value"].as_scalar(), results["grad_w"].as_slice()), (Some(5.0), Some(&[2.0, 0.0][..])));
//! # Ok::<(), iverson::Error>(())
//! ```
//!
//! | to | there are |
//! |---|---|
//! | write programs | [`Function`]; those in Rust are made in [`builder`](crate::builder) |
//! | differentiate them | methods of [`Function`] such as `gradient`; with options, [`Request`] and [`Mode`] |
//! | give them data | [`inputs!`], [`Inputs`], [`Value`], [`Tensor`], [`Dense`], [`Csr`], [`Csc`], [`Coo`], [`Relation`]; the targets of a map as integers |
//! | look at results | `results["value"]` is a [`Value`]: `as_scalar`, `as_slice`, `as_array` for `ndarray`, `as_csr`, each nothing where it is another kind of value; and copies, `to_vec`, `to_array`, `to_sprs` |
//! | tell errors apart | [`Error`]; [`Result`] is that of this crate where one type is given, `Result<()>`, and that of the standard library where two are, `Result<(), String>` |
//! | print them | `to_string`, and `print` in a [`Style`] |
//! | run them | [`KernelBuilder`], [`Kernel`], [`Engine`], [`Results`] |
//! | minimise them | [`Objective`] |

pub use crate::inputs;
pub use crate::kernel::{Engine, Kernel};
pub use crate::tensor::{Coo, Csc, Csr, Dense, Inputs, Relation, Results, Tensor, Value};
pub use crate::{Error, Function, KernelBuilder, Mode, Objective, Request, Result, Style};

//! `iverson` compiles tensor programs written with Iverson brackets into purely functional derivatives.

pub mod base;
pub mod error;
pub mod index;
pub mod scalar;
pub mod ty;

pub mod surface;
pub mod term;

pub mod normalize;
pub mod tssa;

pub mod diff;
pub mod present;

pub mod reference;
pub mod tensor;

pub use error::{Diagnostic, Error, Result};

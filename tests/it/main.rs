//! The integration tests, one binary.

mod alike;
mod campaign;
mod cli;
mod dependents;
mod depth;
mod derivation;
mod errors;
mod examples;
mod expected;
mod generate;
mod gradbench;
mod hygiene;
mod jacobians;
mod kernel_memory;
mod kernels;
mod programs;
mod regressions;
mod support;
mod tssa_text;

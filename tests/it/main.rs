//! The integration tests, one binary.

mod alike;
mod allocations;
mod campaign;
mod cli;
mod constants;
mod dependents;
mod depth;
mod derivation;
mod errors;
mod examples;
mod expected;
mod generate;
mod gradbench;
mod hygiene;
mod intersections;
mod jacobians;
mod kernel_memory;
mod kernels;
mod maps;
mod products;
mod programs;
mod regressions;
mod single;
mod support;
mod tssa_text;
mod views;

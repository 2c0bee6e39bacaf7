//! The interpreter, once for each set of vector instructions that the processor may have.
//!
//! All give the same bits: what is computed is fixed lane by lane, and the instructions only do more lanes at a time.
#![allow(unsafe_code)]

use super::code::Code;
use super::interpret::{self, Memory};
use super::registers::Registers;
use crate::error::Result;

/// Runs the code of a nest.
pub(super) fn run(code: &Code, registers: &mut Registers, memory: &mut Memory<'_, '_, '_>) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") && has!("avx512dq") && has!("avx512vl") && has!("avx512bw") && has!("fma") {
            // SAFETY: the processor has these instructions.
            return unsafe { with_avx512(code, registers, memory) };
        }
        if has!("avx2") && has!("fma") {
            // SAFETY: the processor has these instructions.
            return unsafe { with_avx2(code, registers, memory) };
        }
    }
    interpret::run(code, registers, memory)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,fma")]
fn with_avx512(code: &Code, registers: &mut Registers, memory: &mut Memory<'_, '_, '_>) -> Result<()> {
    interpret::run(code, registers, memory)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2(code: &Code, registers: &mut Registers, memory: &mut Memory<'_, '_, '_>) -> Result<()> {
    interpret::run(code, registers, memory)
}

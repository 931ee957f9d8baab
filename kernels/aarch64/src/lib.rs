//! The Pocket kernels on 64-bit Arm: Neon, Neon with dot products, Neon with int8 matrix products.
//!
//! Every target with hardware floats has `Neon`, so its token is for the taking. The two extensions cannot be asked
//! for by a program without an operating system's help, so `NeonDot` and `NeonI8mm` are made from what somebody
//! else knows: the bits of `AT_HWCAP`, the identification registers that firmware reads, or the caller's word.
//!
//! A value of `FPCR` other than that after reset and under every operating system gives other bits: rounding to
//! nearest, no flushing to zero, IEEE half precision (`RMode`, `FZ`, `FIZ`, `AH`, `NEP` and `AHP` zero). Firmware that
//! changes it must change it back before it calls a kernel; the compiler assumes the same.
//!
//! The crate is empty on other processors, and on targets without hardware floats.
#![no_std]
#![deny(missing_docs)]

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod detect;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod forward;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod isa;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon_dot;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon_i8mm;

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
pub use {neon::Neon, neon_dot::NeonDot, neon_i8mm::NeonI8mm};

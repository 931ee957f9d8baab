//! The Pocket kernels on x86-64: AVX2, AVX-512 with VNNI, and AMX with 8-bit integers.
//!
//! [`Avx2::detect`], [`Avx512Vnni::detect`] and [`Amx::detect`] ask the processor and whoever manages its vector state (CPUID, XCR0), so
//! they work under an operating system, in firmware and in a hypervisor alike. The crate is empty on other processors.
#![no_std]
#![deny(missing_docs)]

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512vnni;
#[cfg(target_arch = "x86_64")]
mod detect;
#[cfg(target_arch = "x86_64")]
mod isa;

#[cfg(target_arch = "x86_64")]
pub use amx::Amx;
#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512vnni::{Avx512, Avx512Vnni};

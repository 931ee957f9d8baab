//! The Pocket kernels on x86-64: AVX2, AVX-VNNI, AVX-512 with VNNI, and AMX with 8-bit integers.
//!
//! [`Avx2::detect`], [`AvxVnni::detect`], [`Avx512Vnni::detect`] and [`Amx::detect`] ask the processor and whoever manages
//! its vector state (CPUID, XCR0), so they work under an operating system, in firmware and in a hypervisor alike. The
//! crate is empty on other processors, and where the compiler is told to do without vector registers, as for kernels of
//! systems.
#![no_std]
#![deny(missing_docs)]

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod amx;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx512vnni;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod detect;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod isa;

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub use amx::Amx;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub use avx2::{Avx, Avx2, AvxVnni};
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub use avx512vnni::{Avx512, Avx512Vnni};

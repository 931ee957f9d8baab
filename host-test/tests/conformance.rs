//! The kernels: every instruction set against `Scalar`, and `Scalar` against `kernels/NUMERICS.md`.
//!
//! The suite of `pocket-kernels-conformance` proves that chips agree; the other tests here prove, with plain code
//! written from the contract alone, that what they agree on is right, and that the suite notices when it is not.
//!
//! Two settings of the harness: `POCKET_REQUIRE_ISA=avx2,avx512vnni` makes a missing instruction set a failure, and
//! `POCKET_REPLAY=avx2/matmul_q4a64:17` runs that one case of a report.

#[path = "conformance/contract.rs"]
mod contract;
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
#[path = "conformance/detect.rs"]
mod detect;
#[cfg(target_arch = "x86_64")]
#[path = "conformance/detect_x86.rs"]
mod detect_x86;
#[path = "conformance/elementary.rs"]
mod elementary;
#[cfg(not(target_arch = "aarch64"))]
#[path = "conformance/grid.rs"]
mod grid;
// Ports of portable code, so one processor is enough; an emulated one would take minutes for them.
#[cfg(not(target_arch = "aarch64"))]
#[path = "conformance/mutations.rs"]
mod mutations;
#[path = "conformance/naive.rs"]
mod naive;
#[path = "conformance/properties.rs"]
mod properties;
#[path = "conformance/suite.rs"]
mod suite;
#[path = "conformance/threads.rs"]
mod threads;

/// Calls a macro for every instruction set that can run here, with its token.
macro_rules! for_each_isa {
    ($run:ident) => {
        $run!(pocket_kernels::Scalar);
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(lanes) = pocket_kernels_x86::Avx2::detect() {
                $run!(lanes);
            }
            if let Some(lanes) = pocket_kernels_x86::AvxVnni::detect() {
                $run!(lanes);
            }
            if let Some(lanes) = pocket_kernels_x86::Avx512Vnni::detect() {
                $run!(lanes);
            }
            if let Some(lanes) = pocket_kernels_x86::Amx::detect() {
                $run!(lanes);
            }
        }
        #[cfg(target_arch = "aarch64")]
        {
            $run!(pocket_kernels_aarch64::Neon::new());
            if let Some(lanes) = pocket_pack::isa::neon_dot() {
                $run!(lanes);
            }
            if let Some(lanes) = pocket_pack::isa::neon_i8mm() {
                $run!(lanes);
            }
        }
    };
}
pub(crate) use for_each_isa;

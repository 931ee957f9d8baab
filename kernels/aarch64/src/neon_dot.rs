//! Neon with dot products (FEAT_DotProd, Armv8.2 to 8.4): four products a lane in one instruction.

use core::arch::aarch64::*;
use core::arch::asm;
use pocket_kernels::{Job, Kernels, Lanes};

use crate::detect::Features;
use crate::forward::forward_all_but_products;
use crate::isa::isa;
use crate::neon::{Neon, broadcast};

/// Proof that Neon and its dot products may be used.
#[derive(Clone, Copy, Debug)]
pub struct NeonDot(Neon);

impl NeonDot {
    /// The token, if an operating system's auxiliary vector says so: the values of `AT_HWCAP` and `AT_HWCAP2`.
    ///
    /// # Safety
    /// The values must be those of a Linux system on AArch64 (or one with its numbers), for the running process.
    #[must_use]
    pub const unsafe fn from_hwcap(hwcap: u64, hwcap2: u64) -> Option<Self> {
        Self::from_features(Features::from_hwcap(hwcap, hwcap2))
    }

    /// The token, if the identification registers say so: the values of `ID_AA64ISAR0_EL1` and `ID_AA64ISAR1_EL1`.
    ///
    /// # Safety
    /// The values must have been read on this machine; where its cores differ, they must be the bitwise minimum of
    /// the fields of all cores that may run a kernel. Access to Neon registers must not trap.
    #[must_use]
    pub const unsafe fn from_id_registers(isar0: u64, isar1: u64) -> Option<Self> {
        Self::from_features(Features::from_id_registers(isar0, isar1))
    }

    /// The token without asking.
    ///
    /// # Safety
    /// Every core that may run a kernel must have FEAT_DotProd, and access to Neon registers must not trap.
    #[must_use]
    pub const unsafe fn assume() -> Self {
        Self(Neon::new())
    }

    const fn from_features(features: Features) -> Option<Self> {
        if features.dotprod { Some(Self(Neon::new())) } else { None }
    }
}

/// Adds to each lane the dot product of its four signed bytes: `vdotq_s32`, which is not stable yet.
#[target_feature(enable = "dotprod")]
#[inline]
fn sdot(mut acc: int32x4_t, w: int8x16_t, q: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction belongs to the feature; it reads and writes the named registers and nothing else.
    unsafe {
        asm!(
            // The assembler is told apart from the compiler, for callers that are not inlined into `enter`.
            ".arch_extension dotprod",
            "sdot {acc:v}.4s, {w:v}.16b, {q:v}.16b",
            acc = inout(vreg) acc,
            w = in(vreg) w,
            q = in(vreg) q,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    acc
}

// SAFETY: `NeonDot` is made by constructors whose callers vouch for FEAT_DotProd; no other value exists.
unsafe impl Lanes for NeonDot {
    const NAME: &'static str = "neon-dot";
    /// 16 registers of sums and 8 of codes.
    const COLUMNS: usize = 4;
    const BYTES_BIAS: i32 = 0;
    type F = <Neon as Lanes>::F;
    type I = <Neon as Lanes>::I;
    type Codes = <Neon as Lanes>::Codes;
    type Bytes = <Neon as Lanes>::Bytes;
    type Sums = Self::I;

    fn enter<J: Job>(self, job: J) -> J::Out {
        #[target_feature(enable = "dotprod")]
        fn inside<J: Job>(lanes: NeonDot, job: J) -> J::Out {
            job.run(lanes)
        }
        isa!(inside(self, job))
    }

    forward_all_but_products!();

    #[inline(always)]
    fn no_sums(self) -> Self::Sums {
        self.splat_i(0)
    }
    #[inline(always)]
    fn dot_codes(self, sums: Self::Sums, codes: Self::Codes, q: &[i8; 4]) -> Self::Sums {
        // Codes are below 16, so they are the same signed or unsigned.
        self.dot_bytes(sums, codes, q)
    }
    #[inline(always)]
    fn add_sums(self, acc: Self::I, sums: Self::Sums) -> Self::I {
        self.add_i(acc, sums)
    }
    #[inline(always)]
    fn dot_bytes(self, acc: Self::I, w: Self::Bytes, q: &[i8; 4]) -> Self::I {
        let q = broadcast(q);
        isa!([sdot(acc[0], w[0], q), sdot(acc[1], w[1], q), sdot(acc[2], w[2], q), sdot(acc[3], w[3], q)])
    }
}

impl Kernels for NeonDot {}

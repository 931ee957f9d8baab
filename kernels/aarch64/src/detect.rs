//! Which extensions a processor has, from what an operating system or its own registers say.
//!
//! # Source
//! Linux, `arch/arm64/include/uapi/asm/hwcap.h`: `HWCAP_ASIMDDP`, `HWCAP2_I8MM`. Arm, "A-profile Architecture
//! Registers" (DDI 0601): `ID_AA64ISAR0_EL1.DP`, bits 47:44, and `ID_AA64ISAR1_EL1.I8MM`, bits 55:52; such a field
//! grows with what is supported, and zero is nothing.

/// `AT_HWCAP`: SDOT and UDOT.
const HWCAP_ASIMDDP: u64 = 1 << 20;
/// `AT_HWCAP2`: SMMLA and its kin for Neon registers.
const HWCAP2_I8MM: u64 = 1 << 13;
/// The lowest bit of `ID_AA64ISAR0_EL1.DP`.
const ISAR0_DP: u32 = 44;
/// The lowest bit of `ID_AA64ISAR1_EL1.I8MM`.
const ISAR1_I8MM: u32 = 52;

/// Extensions that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features {
    pub(crate) dotprod: bool,
    pub(crate) i8mm: bool,
}

impl Features {
    /// From the auxiliary vector's entries.
    pub(crate) const fn from_hwcap(hwcap: u64, hwcap2: u64) -> Self {
        Self { dotprod: hwcap & HWCAP_ASIMDDP != 0, i8mm: hwcap2 & HWCAP2_I8MM != 0 }
    }

    /// From the identification registers.
    pub(crate) const fn from_id_registers(isar0: u64, isar1: u64) -> Self {
        Self { dotprod: (isar0 >> ISAR0_DP) & 15 != 0, i8mm: (isar1 >> ISAR1_I8MM) & 15 != 0 }
    }

    /// What the kernels for int8 matrix products use.
    pub(crate) const fn both(self) -> bool {
        self.dotprod && self.i8mm
    }
}

//! What the processor can do and what the system lets it do.
//!
//! # Source
//! Intel, "Software Developer's Manual", volume 1, sections 14.3 (AVX), 15.2 (AVX-512): an extension may be used if
//! CPUID reports it, OSXSAVE is set, and XCR0 enables the state of its registers.

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

/// Leaf 1, ECX: FMA, OSXSAVE, AVX, F16C.
const LEAF_1_ECX: u32 = 1 << 12 | 1 << 27 | 1 << 28 | 1 << 29;
/// Leaf 7, EBX: AVX2.
const AVX2_EBX: u32 = 1 << 5;
/// Leaf 7, EBX: AVX512F, AVX512BW, AVX512VL.
const AVX512_EBX: u32 = 1 << 16 | 1 << 30 | 1 << 31;
/// Leaf 7, ECX: AVX512_VNNI.
const VNNI_ECX: u32 = 1 << 11;
/// XCR0: SSE and AVX registers.
const YMM_STATE: u64 = 0b110;
/// XCR0: those, mask registers, upper halves and upper registers.
const ZMM_STATE: u64 = 0b1110_0110;

/// Extensions that may be used.
pub(crate) struct Features {
    pub(crate) avx2: bool,
    pub(crate) avx512_vnni: bool,
}

/// Asks the processor.
pub(crate) fn features() -> Features {
    let none = Features { avx2: false, avx512_vnni: false };
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & LEAF_1_ECX != LEAF_1_ECX {
        return none;
    }
    let state = enabled_state();
    let leaf_7 = __cpuid_count(7, 0);
    let avx2 = state & YMM_STATE == YMM_STATE && leaf_7.ebx & AVX2_EBX != 0;
    let avx512 = leaf_7.ebx & AVX512_EBX == AVX512_EBX && leaf_7.ecx & VNNI_ECX != 0;
    Features { avx2, avx512_vnni: avx2 && state & ZMM_STATE == ZMM_STATE && avx512 }
}

/// XCR0; only to be called where CPUID reports OSXSAVE.
fn enabled_state() -> u64 {
    // SAFETY: XGETBV exists wherever OSXSAVE is set, which the only caller has checked.
    unsafe { _xgetbv(0) }
}

//! What the processor can do and what the system lets it do.
//!
//! # Source
//! Intel, "Software Developer's Manual", volume 1, sections 14.3 (AVX), 15.2 (AVX-512): an extension may be used if
//! CPUID reports it, OSXSAVE is set, and XCR0 enables the state of its registers. Section 18.3 for the tiles of AMX.

use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

/// Leaf 0, EBX, EDX, ECX: "GenuineIntel".
const INTEL: [u32; 3] = [u32::from_le_bytes(*b"Genu"), u32::from_le_bytes(*b"ineI"), u32::from_le_bytes(*b"ntel")];
/// Leaf 1, ECX: FMA, OSXSAVE, AVX, F16C.
const LEAF_1_ECX: u32 = 1 << 12 | 1 << 27 | 1 << 28 | 1 << 29;
/// Leaf 7, EBX: AVX2.
const AVX2_EBX: u32 = 1 << 5;
/// Leaf 7, EBX: AVX512F, AVX512BW, AVX512VL.
const AVX512_EBX: u32 = 1 << 16 | 1 << 30 | 1 << 31;
/// Leaf 7, subleaf 1, EAX: AVX-VNNI.
const AVX_VNNI_EAX: u32 = 1 << 4;
/// Leaf 7, ECX: AVX512_VNNI.
const VNNI_ECX: u32 = 1 << 11;
/// Leaf 7, EDX: AMX-TILE, AMX-INT8.
const AMX_EDX: u32 = 1 << 24 | 1 << 25;
/// XCR0: SSE and AVX registers.
const YMM_STATE: u64 = 0b110;
/// XCR0: those, mask registers, upper halves and upper registers.
const ZMM_STATE: u64 = 0b1110_0110;
/// XCR0: how tiles are set up, and their data.
const TILE_STATE: u64 = 0b11 << 17;

/// Extensions that may be used.
pub(crate) struct Features {
    pub(crate) avx2: bool,
    pub(crate) avx_vnni: bool,
    pub(crate) avx512_vnni: bool,
    /// Where the operating system wants to be asked, it has to be, too.
    pub(crate) amx: bool,
}

/// Asks the processor.
pub(crate) fn features() -> Features {
    let none = Features { avx2: false, avx_vnni: false, avx512_vnni: false, amx: false };
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & LEAF_1_ECX != LEAF_1_ECX {
        return none;
    }
    let state = enabled_state();
    let leaf_7 = __cpuid_count(7, 0);
    let avx2 = state & YMM_STATE == YMM_STATE && leaf_7.ebx & AVX2_EBX != 0;
    // Subleaf 0 says which is the last one.
    let avx_vnni = avx2 && leaf_7.eax >= 1 && __cpuid_count(7, 1).eax & AVX_VNNI_EAX != 0;
    let avx512 = leaf_7.ebx & AVX512_EBX == AVX512_EBX && leaf_7.ecx & VNNI_ECX != 0;
    let avx512_vnni = avx2 && state & ZMM_STATE == ZMM_STATE && avx512;
    let amx = avx512_vnni && state & TILE_STATE == TILE_STATE && leaf_7.edx & AMX_EDX == AMX_EDX;
    Features { avx2, avx_vnni, avx512_vnni, amx }
}

/// How far ahead to ask for what a product reads.
///
/// Measured: an Intel server core that streams weights gains a quarter by it, on pages of 4 kB and of 2 MB; a Zen 4 core of
/// AMD lost by hints 4 kB ahead, and others were not tried there.
pub(crate) fn ahead() -> usize {
    let leaf = __cpuid(0);
    if [leaf.ebx, leaf.edx, leaf.ecx] == INTEL { 8192 } else { 0 }
}

/// XCR0; only to be called where CPUID reports OSXSAVE.
fn enabled_state() -> u64 {
    // SAFETY: XGETBV exists wherever OSXSAVE is set, which the only caller has checked.
    unsafe { _xgetbv(0) }
}

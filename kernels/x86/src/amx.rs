//! AMX with 8-bit integers: a whole weight tile times sixteen tokens in one instruction, beside AVX-512.
//!
//! # Source
//! Intel, "Software Developer's Manual", volume 1, chapter 18 (tiles and their palettes); volume 2, TDPBSSD. The Linux
//! kernel's "Using XSTATE features in user space applications" for the permission to use tiles.

use core::arch::asm;
use core::arch::x86_64::*;
use core::marker::PhantomData;

use pocket_kernels::grid::{Bytes, COLUMNS, Grid, GridMatmul, Square};
use pocket_kernels::matmul::Matmul;
use pocket_kernels::tile::Block;
use pocket_kernels::{Kernels, Lanes, WIDTH};

use crate::avx512vnni::Avx512;
use crate::detect::{ahead, features};
use crate::isa::isa;

/// Proof that AMX-INT8 and AVX-512 F, BW, VL and VNNI may be used.
pub type Amx = Avx512<true>;

impl Amx {
    /// The token, if the processor has the extensions and the system saves the registers.
    ///
    /// Linux wants to be asked, for the whole process: from then on the frame of a signal is some 8 kB larger. On other
    /// operating systems nobody is asked and there is no token.
    #[must_use]
    pub fn detect() -> Option<Self> {
        (features().amx && permitted()).then(|| Self { ahead: ahead() })
    }

    /// The token without asking.
    ///
    /// # Safety
    /// The processor must have AMX-TILE, AMX-INT8 and AVX-512 F, BW, VL and VNNI, and whoever switches contexts must
    /// save tiles, ZMM and mask registers and allow their use.
    #[must_use]
    pub unsafe fn assume() -> Self {
        Self { ahead: ahead() }
    }
}

/// Whether whoever runs this program lets it use tiles.
fn permitted() -> bool {
    if cfg!(target_os = "linux") {
        const ARCH_PRCTL: i64 = 158;
        const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
        const XFEATURE_XTILEDATA: i64 = 18;
        let mut result = ARCH_PRCTL;
        // SAFETY: the call changes what the kernel saves for this process and touches no memory of it; a kernel that does
        // not know it says so. The instruction overwrites the two registers that are named and nothing else.
        unsafe {
            asm!(
                "syscall",
                inout("rax") result,
                in("rdi") ARCH_REQ_XCOMP_PERM,
                in("rsi") XFEATURE_XTILEDATA,
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack)
            );
        }
        result == 0
    } else {
        cfg!(any(target_os = "none", target_os = "uefi"))
    }
}

/// How large each tile is: palette 1.
#[repr(C, align(64))]
struct Palette {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Palette {
    /// Tile 0: sums. Tile 1: activations of 16 tokens. Tile 2: weights.
    const fn new(group: u8) -> Self {
        Self {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [64, group as u16, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            rows: [16, 16, group / 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }
}

static PALETTE_32: Palette = Palette::new(32);
static PALETTE_64: Palette = Palette::new(64);

/// The tiles of this thread, set up for groups of one size.
pub struct Tiles<B>(PhantomData<*const B>);

impl<B> Drop for Tiles<B> {
    fn drop(&mut self) {
        // SAFETY: a value exists only where tiles may be used.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
    }
}

/// The codes of the first block, as a pointer that may go on to those of the others.
#[inline(always)]
fn codes<B: Block>(x: &[B]) -> *const u8 {
    let within = x.first().map_or(0, |first| first.q().as_ptr().addr() - x.as_ptr().addr());
    x.as_ptr().cast::<u8>().wrapping_add(within)
}

// No tile is named as overwritten: the compiler keeps nothing in them.
impl Grid for Amx {
    type Unit<B: Block> = Tiles<B>;

    #[inline(always)]
    unsafe fn open<B: Block>(self) -> Tiles<B> {
        let palette = if B::GROUP == 64 { &PALETTE_64 } else { &PALETTE_32 };
        // SAFETY: the token is the proof that tiles may be used; the palette is a valid one of 64 bytes.
        unsafe { asm!("ldtilecfg [{}]", in(reg) palette, options(nostack, preserves_flags, readonly)) };
        Tiles(PhantomData)
    }

    #[inline(always)]
    fn squares<B: Block, const M: usize>(
        self,
        _: &Tiles<B>,
        weights: &[Bytes; M],
        x: &[B],
        stride: usize,
        out: &mut [Square; M],
    ) {
        if (COLUMNS - 1).checked_mul(stride).is_none_or(|last| last >= x.len()) {
            return;
        }
        // SAFETY: the tiles are set up for such groups. Sixteen blocks' codes are read, the last of which is in `x`.
        unsafe {
            asm!(
                "tileloadd tmm1, [{x} + {stride}]",
                x = in(reg) codes(x),
                stride = in(reg) stride * size_of::<B>(),
                options(nostack, preserves_flags, readonly)
            );
        }
        for m in 0..M {
            // SAFETY: as above. At most sixteen lines of weights are read, and sixteen lines of sums are written.
            unsafe {
                asm!(
                    "tileloadd tmm2, [{weights} + {line}]",
                    "tilezero tmm0",
                    "tdpbssd tmm0, tmm1, tmm2",
                    "tilestored [{out} + {line}], tmm0",
                    weights = in(reg) &weights[m],
                    line = in(reg) 64_usize,
                    out = in(reg) &mut out[m],
                    options(nostack, preserves_flags)
                );
            }
        }
    }

    #[inline(always)]
    fn nibbles(self, bytes: &[u8; 64], bias: u8, out: &mut [[u8; 64]; 2]) {
        let [low, high] = self.unpack(bytes);
        isa!({
            let bias = _mm512_set1_epi8(bias as i8);
            _mm512_storeu_si512(out[0].as_mut_ptr().cast(), _mm512_sub_epi8(low, bias));
            _mm512_storeu_si512(out[1].as_mut_ptr().cast(), _mm512_sub_epi8(high, bias));
        });
    }
    #[inline(always)]
    fn sums(self, sums: &[i32; WIDTH]) -> Self::I {
        isa!(_mm512_loadu_si512(sums.as_ptr().cast()))
    }
}

impl Kernels for Amx {
    fn matmul(self, job: Matmul<'_, '_>) {
        self.enter(GridMatmul { grid: self, matmul: job });
    }
}

//! Neon with int8 matrix products (FEAT_I8MM, Armv8.2 to 8.6): batches two rows by two tokens at a time.
//!
//! SMMLA multiplies a matrix of 2 rows × 8 columns with another one, transposed, and adds to 2 × 2 sums: 32 products,
//! twice those of SDOT. A tile's chunk holds columns 0..4 of four rows in a register of low nibbles and columns 4..8 in
//! one of high nibbles, so zipping the two by 32 bits gives two registers of 2 rows × 8 columns. Of bytes, two chunks
//! in a row do the same. One token alone would leave half of each product unused: it gets the dot products.

use core::arch::aarch64::*;
use core::arch::asm;
use pocket_kernels::{Job, Kernels, Lanes};

use crate::detect::Features;
use crate::forward::{forward, forward_all_but_products};
use crate::isa::isa;
use crate::neon_dot::NeonDot;

/// Proof that Neon, its dot products and its int8 matrix products may be used.
#[derive(Clone, Copy, Debug)]
pub struct NeonI8mm(NeonDot);

impl NeonI8mm {
    /// The token, if an operating system's auxiliary vector says so: the values of `AT_HWCAP` and `AT_HWCAP2`.
    ///
    /// # Safety
    /// As for [`NeonDot::from_hwcap`].
    #[must_use]
    pub const unsafe fn from_hwcap(hwcap: u64, hwcap2: u64) -> Option<Self> {
        Self::from_features(Features::from_hwcap(hwcap, hwcap2))
    }

    /// The token, if the identification registers say so: the values of `ID_AA64ISAR0_EL1` and `ID_AA64ISAR1_EL1`.
    ///
    /// # Safety
    /// As for [`NeonDot::from_id_registers`].
    #[must_use]
    pub const unsafe fn from_id_registers(isar0: u64, isar1: u64) -> Option<Self> {
        Self::from_features(Features::from_id_registers(isar0, isar1))
    }

    /// The token without asking.
    ///
    /// # Safety
    /// Every core that may run a kernel must have FEAT_DotProd and FEAT_I8MM, and access to Neon registers must not
    /// trap.
    #[must_use]
    pub const unsafe fn assume() -> Self {
        // SAFETY: the caller vouches for FEAT_DotProd too.
        Self(unsafe { NeonDot::assume() })
    }

    const fn from_features(features: Features) -> Option<Self> {
        // SAFETY: both extensions are there, says whoever vouches for the features.
        if features.both() { Some(unsafe { Self::assume() }) } else { None }
    }
}

/// Adds to `[w₀·x₀, w₀·x₁, w₁·x₀, w₁·x₁]` for two rows of eight weights and two tokens' eight activations: `vmmlaq_s32`, which is
/// not stable yet.
#[target_feature(enable = "i8mm")]
#[inline]
fn smmla(mut acc: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction belongs to the feature; it reads and writes the named registers and nothing else.
    unsafe {
        asm!(
            ".arch_extension i8mm",
            "smmla {acc:v}.4s, {w:v}.16b, {x:v}.16b",
            acc = inout(vreg) acc,
            w = in(vreg) w,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    acc
}

/// 16 rows × 2 tokens, two rows a register.
type Square = [int32x4_t; 8];

/// Zips columns 0..4 and 4..8 of four rows into rows 0 and 1, rows 2 and 3.
#[inline(always)]
fn zip(first: int8x16_t, second: int8x16_t) -> [int8x16_t; 2] {
    isa!({
        let (first, second) = (vreinterpretq_s32_s8(first), vreinterpretq_s32_s8(second));
        [vreinterpretq_s8_s32(vzip1q_s32(first, second)), vreinterpretq_s8_s32(vzip2q_s32(first, second))]
    })
}

/// Eight activations of two tokens.
#[inline(always)]
fn pair(a: &[i8; 8], b: &[i8; 8]) -> int8x16_t {
    isa!(vcombine_s8(vld1_s8(a.as_ptr()), vld1_s8(b.as_ptr())))
}

/// Adds the products of eight columns, given as the first four and the second, with every pair of tokens.
///
/// The sums of tokens `2n` and `2n + 1` are `acc[n]`; of the `N` squares half is used.
#[inline(always)]
fn eight_columns<const N: usize>(
    acc: &mut [Square; N],
    first: [int8x16_t; 4],
    second: [int8x16_t; 4],
    q: [&[i8; 8]; N],
) {
    let [a, b] = zip(first[0], second[0]);
    let [c, d] = zip(first[1], second[1]);
    let [e, f] = zip(first[2], second[2]);
    let [g, h] = zip(first[3], second[3]);
    for n in 0..N / 2 {
        let x = pair(q[2 * n], q[2 * n + 1]);
        let s = acc[n];
        acc[n] = isa!([
            smmla(s[0], a, x),
            smmla(s[1], b, x),
            smmla(s[2], c, x),
            smmla(s[3], d, x),
            smmla(s[4], e, x),
            smmla(s[5], f, x),
            smmla(s[6], g, x),
            smmla(s[7], h, x),
        ]);
    }
}

/// The sums of 16 rows for each token.
#[inline(always)]
fn rows<const N: usize>(acc: &[Square; N]) -> [[int32x4_t; 4]; N] {
    core::array::from_fn(|n| {
        let s = &acc[n / 2];
        isa!(if n % 2 == 0 {
            [vuzp1q_s32(s[0], s[1]), vuzp1q_s32(s[2], s[3]), vuzp1q_s32(s[4], s[5]), vuzp1q_s32(s[6], s[7])]
        } else {
            [vuzp2q_s32(s[0], s[1]), vuzp2q_s32(s[2], s[3]), vuzp2q_s32(s[4], s[5]), vuzp2q_s32(s[6], s[7])]
        })
    })
}

// SAFETY: `NeonI8mm` is made by constructors whose callers vouch for FEAT_DotProd and FEAT_I8MM; no other value exists.
unsafe impl Lanes for NeonI8mm {
    const NAME: &'static str = "neon-i8mm";
    /// 16 registers of sums and 8 of zipped codes.
    const COLUMNS: usize = 4;
    const BYTES_BIAS: i32 = 0;
    type F = <NeonDot as Lanes>::F;
    type I = <NeonDot as Lanes>::I;
    type Codes = <NeonDot as Lanes>::Codes;
    type Bytes = <NeonDot as Lanes>::Bytes;
    type Sums = <NeonDot as Lanes>::Sums;

    fn enter<J: Job>(self, job: J) -> J::Out {
        #[target_feature(enable = "dotprod,i8mm")]
        fn inside<J: Job>(lanes: NeonI8mm, job: J) -> J::Out {
            job.run(lanes)
        }
        isa!(inside(self, job))
    }

    forward_all_but_products!();

    forward! {
        no_sums() -> Self::Sums;
        dot_codes(sums: Self::Sums, codes: Self::Codes, q: &[i8; 4]) -> Self::Sums;
        add_sums(acc: Self::I, sums: Self::Sums) -> Self::I;
        dot_bytes(acc: Self::I, bytes: Self::Bytes, q: &[i8; 4]) -> Self::I;
    }

    #[inline(always)]
    fn dot_code_chunks<const N: usize>(self, chunks: &[[u8; 64]], q: [&[i8]; N]) -> [Self::I; N] {
        if !N.is_multiple_of(2) {
            return self.0.dot_code_chunks(chunks, q);
        }
        let q = q.map(|q| q.as_chunks::<8>().0);
        let mut acc = isa!([[vdupq_n_s32(0); 8]; N]);
        for (c, chunk) in chunks.iter().enumerate() {
            let [first, second] = self.unpack(chunk);
            eight_columns(&mut acc, first, second, q.map(|q| &q[c]));
        }
        rows(&acc)
    }

    #[inline(always)]
    fn dot_byte_chunks<const N: usize>(self, chunks: &[[u8; 64]], q: [&[i8]; N]) -> [Self::I; N] {
        if !N.is_multiple_of(2) {
            return self.0.dot_byte_chunks(chunks, q);
        }
        let q = q.map(|q| q.as_chunks::<8>().0);
        let mut acc = isa!([[vdupq_n_s32(0); 8]; N]);
        for (c, [first, second]) in chunks.as_chunks::<2>().0.iter().enumerate() {
            eight_columns(&mut acc, self.bytes(first), self.bytes(second), q.map(|q| &q[c]));
        }
        rows(&acc)
    }
}

impl Kernels for NeonI8mm {}

//! Neon as every Armv8-A processor has it: 16 lanes in four registers.

use core::arch::aarch64::*;
use pocket_kernels::{Job, Kernels, Lanes, WIDTH};

use crate::isa::isa;

/// Proof that Neon may be used, which a program compiled for this target has already assumed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Neon(());

impl Neon {
    /// The token.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

/// Applies an intrinsic to each of the four registers.
macro_rules! each {
    ($f:ident $(::<$n:literal>)? ($($x:ident),+)) => {
        isa!([
            $f$(::<$n>)?($($x[0]),+),
            $f$(::<$n>)?($($x[1]),+),
            $f$(::<$n>)?($($x[2]),+),
            $f$(::<$n>)?($($x[3]),+),
        ])
    };
}

/// Where the four quarters of 16 elements begin.
#[inline(always)]
fn quarters<T>(x: &[T; WIDTH]) -> [*const T; 4] {
    let (low, high) = x.split_at(8);
    let ((a, b), (c, d)) = (low.split_at(4), high.split_at(4));
    [a.as_ptr(), b.as_ptr(), c.as_ptr(), d.as_ptr()]
}

/// As [`quarters`], for stores.
#[inline(always)]
fn quarters_mut<T>(x: &mut [T; WIDTH]) -> [*mut T; 4] {
    let (low, high) = x.split_at_mut(8);
    let ((a, b), (c, d)) = (low.split_at_mut(4), high.split_at_mut(4));
    [a.as_mut_ptr(), b.as_mut_ptr(), c.as_mut_ptr(), d.as_mut_ptr()]
}

/// Four activations in every lane of a register.
#[inline(always)]
pub(crate) fn broadcast(q: &[i8; 4]) -> int8x16_t {
    isa!(vreinterpretq_s8_s32(vdupq_n_s32(i32::from_le_bytes(q.map(|q| q as u8)))))
}

/// Products of four lanes' codes with the activations, added to two registers of 16-bit sums.
#[inline(always)]
fn multiply_codes([low, high]: [int16x8_t; 2], codes: int8x16_t, q: int8x16_t) -> [int16x8_t; 2] {
    isa!([vmlal_s8(low, vget_low_s8(codes), vget_low_s8(q)), vmlal_high_s8(high, codes, q)])
}

/// Adds the 16-bit sums of four lanes, four of each, to the lanes. Sums of two must fit 16 bits.
#[inline(always)]
fn add_pairs(acc: int32x4_t, [low, high]: [int16x8_t; 2]) -> int32x4_t {
    isa!(vpadalq_s16(acc, vpaddq_s16(low, high)))
}

/// Adds the products of four lanes' bytes with the activations to the lanes.
#[inline(always)]
fn multiply_bytes(acc: int32x4_t, bytes: int8x16_t, q: int8x16_t) -> int32x4_t {
    // A sum of two products is at most 2 · 128 · 127 = 32512, below 2¹⁵.
    add_pairs(acc, isa!([vmull_s8(vget_low_s8(bytes), vget_low_s8(q)), vmull_high_s8(bytes, q)]))
}

// SAFETY: a target of which this module is part has Neon in its baseline, so every program that runs may use it.
unsafe impl Lanes for Neon {
    const NAME: &'static str = "neon";
    /// 16 registers of sums and 8 of codes.
    const COLUMNS: usize = 2;
    const BYTES_BIAS: i32 = 0;
    type F = [float32x4_t; 4];
    type I = [int32x4_t; 4];
    type Codes = [int8x16_t; 4];
    type Bytes = [int8x16_t; 4];
    /// One 16-bit sum for each of a lane's four codes.
    type Sums = [[int16x8_t; 2]; 4];

    fn enter<J: Job>(self, job: J) -> J::Out {
        #[target_feature(enable = "neon")]
        fn inside<J: Job>(lanes: Neon, job: J) -> J::Out {
            job.run(lanes)
        }
        isa!(inside(self, job))
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        isa!([vdupq_n_f32(x); 4])
    }
    #[inline(always)]
    fn load(self, x: &[f32; WIDTH]) -> Self::F {
        let x = quarters(x);
        each!(vld1q_f32(x))
    }
    #[inline(always)]
    fn store(self, x: Self::F, out: &mut [f32; WIDTH]) {
        let out = quarters_mut(out);
        each!(vst1q_f32(out, x));
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        each!(vaddq_f32(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        each!(vsubq_f32(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        each!(vmulq_f32(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        each!(vdivq_f32(a, b))
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // The instruction adds to its first operand.
        each!(vfmaq_f32(c, a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        each!(vmaxq_f32(a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        each!(vminq_f32(a, b))
    }
    #[inline(always)]
    fn keep_at_least(self, value: Self::F, x: Self::F, limit: Self::F) -> Self::F {
        let (kept, value) = (each!(vcgeq_f32(x, limit)), each!(vreinterpretq_u32_f32(value)));
        let value = each!(vandq_u32(value, kept));
        each!(vreinterpretq_f32_u32(value))
    }

    #[inline(always)]
    fn splat_i(self, x: i32) -> Self::I {
        isa!([vdupq_n_s32(x); 4])
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        each!(vaddq_s32(a, b))
    }
    #[inline(always)]
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I {
        each!(vsubq_s32(a, b))
    }
    #[inline(always)]
    fn max_i(self, a: Self::I, b: Self::I) -> Self::I {
        each!(vmaxq_s32(a, b))
    }
    #[inline(always)]
    fn reduce_add_i(self, a: Self::I) -> i32 {
        isa!(vaddvq_s32(vaddq_s32(vaddq_s32(a[0], a[1]), vaddq_s32(a[2], a[3]))))
    }
    #[inline(always)]
    fn reduce_max_i(self, a: Self::I) -> i32 {
        isa!(vmaxvq_s32(vmaxq_s32(vmaxq_s32(a[0], a[1]), vmaxq_s32(a[2], a[3]))))
    }
    #[inline(always)]
    fn abs_bits(self, x: Self::F) -> Self::I {
        let x = each!(vabsq_f32(x));
        each!(vreinterpretq_s32_f32(x))
    }
    #[inline(always)]
    fn round_i(self, x: Self::F) -> Self::I {
        each!(vcvtnq_s32_f32(x))
    }
    #[inline(always)]
    fn to_f(self, x: Self::I) -> Self::F {
        each!(vcvtq_f32_s32(x))
    }
    #[inline(always)]
    fn shift_exponent(self, x: Self::F, n: Self::I) -> Self::F {
        let (x, n) = (each!(vreinterpretq_s32_f32(x)), each!(vshlq_n_s32::<23>(n)));
        let x = each!(vaddq_s32(x, n));
        each!(vreinterpretq_f32_s32(x))
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; WIDTH]) -> Self::F {
        let x = quarters(x);
        let x = each!(vld1_u16(x));
        let x = each!(vreinterpret_f16_u16(x));
        each!(vcvt_f32_f16(x))
    }
    #[inline(always)]
    fn store_f16(self, x: Self::F, out: &mut [u16; WIDTH]) {
        let x = each!(vcvt_f16_f32(x));
        let (x, out) = (each!(vreinterpret_u16_f16(x)), quarters_mut(out));
        each!(vst1_u16(out, x));
    }
    #[inline(always)]
    fn load_i8(self, x: &[i8; WIDTH]) -> Self::I {
        isa!({
            let x = vld1q_s8(x.as_ptr());
            let (low, high) = (vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x));
            [vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)]
        })
    }
    #[inline(always)]
    fn store_i8(self, x: Self::I, out: &mut [i8; WIDTH]) {
        isa!({
            let low = vmovn_high_s32(vmovn_s32(x[0]), x[1]);
            let high = vmovn_high_s32(vmovn_s32(x[2]), x[3]);
            vst1q_s8(out.as_mut_ptr(), vmovn_high_s16(vmovn_s16(low), high));
        });
    }

    #[inline(always)]
    fn unpack(self, chunk: &[u8; 64]) -> [Self::Codes; 2] {
        let (chunk, mask) = (self.bytes(chunk), isa!([vdupq_n_s8(15); 4]));
        let high = each!(vreinterpretq_u8_s8(chunk));
        let high = each!(vshrq_n_u8::<4>(high));
        [each!(vandq_s8(chunk, mask)), each!(vreinterpretq_s8_u8(high))]
    }
    #[inline(always)]
    fn store_codes(self, codes: Self::Codes, out: &mut [u8; 64]) {
        for (codes, out) in codes.into_iter().zip(out.as_chunks_mut::<16>().0) {
            isa!(vst1q_u8(out.as_mut_ptr(), vreinterpretq_u8_s8(codes)));
        }
    }
    #[inline(always)]
    fn load_codes(self, bytes: &[u8; 64]) -> Self::Codes {
        self.bytes(bytes)
    }
    #[inline(always)]
    fn no_sums(self) -> Self::Sums {
        isa!([[vdupq_n_s16(0); 2]; 4])
    }
    #[inline(always)]
    fn dot_codes(self, sums: Self::Sums, codes: Self::Codes, q: &[i8; 4]) -> Self::Sums {
        // Codes are below 16, so they are the same signed or unsigned; eight products are at most 8 · 15 · 127 = 15240.
        let q = broadcast(q);
        core::array::from_fn(|i| multiply_codes(sums[i], codes[i], q))
    }
    #[inline(always)]
    fn add_sums(self, acc: Self::I, sums: Self::Sums) -> Self::I {
        // Two sums are at most 30480.
        core::array::from_fn(|i| add_pairs(acc[i], sums[i]))
    }
    #[inline(always)]
    fn bytes(self, chunk: &[u8; 64]) -> Self::Bytes {
        let chunk = chunk.as_chunks::<16>().0;
        isa!(core::array::from_fn(|i| vld1q_s8(chunk[i].as_ptr().cast())))
    }
    #[inline(always)]
    fn dot_bytes(self, acc: Self::I, bytes: Self::Bytes, q: &[i8; 4]) -> Self::I {
        let q = broadcast(q);
        core::array::from_fn(|i| multiply_bytes(acc[i], bytes[i], q))
    }
}

impl Kernels for Neon {}

//! `Scalar`: the arithmetic contract in plain Rust, the definition every port is compared with.
//!
//! It needs a fused multiply-add; `libm::fmaf` computes one in software where the compiler has no instruction, which
//! is correct and slow. It is the reference, and the fallback for a chip that has no port yet.

use crate::lanes::{Job, Kernels, Lanes, WIDTH};

/// One lane at a time, on any target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalar;

// The larger operations are calls: inlined sixteen lanes deep into every kernel they would be most of a program's code,
// and speed is not what this implementation is for.

#[inline(always)]
fn map<T: Copy, U>(a: [T; WIDTH], f: impl Fn(T) -> U) -> [U; WIDTH] {
    a.map(f)
}

#[inline(always)]
fn zip<T: Copy, U: Copy, V>(a: [T; WIDTH], b: [U; WIDTH], f: impl Fn(T, U) -> V) -> [V; WIDTH] {
    core::array::from_fn(|i| f(a[i], b[i]))
}

/// Four products of one lane, summed exactly.
#[inline(always)]
fn dot4(w: [i32; 4], q: &[i8; 4]) -> i32 {
    w[0] * i32::from(q[0]) + w[1] * i32::from(q[1]) + w[2] * i32::from(q[2]) + w[3] * i32::from(q[3])
}

#[inline(never)]
fn fma(a: &[f32; WIDTH], b: &[f32; WIDTH], c: &[f32; WIDTH]) -> [f32; WIDTH] {
    core::array::from_fn(|i| libm::fmaf(a[i], b[i], c[i]))
}

#[inline(never)]
fn round_i(x: &[f32; WIDTH]) -> [i32; WIDTH] {
    map(*x, |x| libm::rintf(x) as i32)
}

#[inline(never)]
fn load_f16(x: &[u16; WIDTH]) -> [f32; WIDTH] {
    map(*x, f16_to_f32)
}

#[inline(never)]
fn unpack(chunk: &[u8; 64]) -> [[[u8; 4]; WIDTH]; 2] {
    let nibbles =
        |shift: u32| core::array::from_fn(|lane| core::array::from_fn(|i| (chunk[lane * 4 + i] >> shift) & 15));
    [nibbles(0), nibbles(4)]
}

#[inline(never)]
fn dot_codes(sums: &[i32; WIDTH], codes: &[[u8; 4]; WIDTH], q: &[i8; 4]) -> [i32; WIDTH] {
    zip(*sums, *codes, |sum, u| sum + dot4(u.map(i32::from), q))
}

#[inline(never)]
fn dot_bytes(acc: &[i32; WIDTH], bytes: &[[i8; 4]; WIDTH], q: &[i8; 4]) -> [i32; WIDTH] {
    zip(*acc, *bytes, |acc, w| acc.wrapping_add(dot4(w.map(i32::from), q)))
}

/// Exact conversion of binary16 bits, subnormals, infinities and NaN included.
#[must_use]
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits) & 0x3ff;
    let magnitude = match exponent {
        // Subnormal: fraction · 2⁻²⁴, exact in f32.
        0 => (fraction as f32 * f32::from_bits(0x3380_0000)).to_bits(),
        0x1f => 0x7f80_0000 | (fraction << 13) | if fraction == 0 { 0 } else { 0x0040_0000 },
        _ => ((exponent + 112) << 23) | (fraction << 13),
    };
    f32::from_bits(sign | magnitude)
}

/// Rounds to binary16 bits, nearest even; too large becomes infinity.
#[must_use]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let rounded = if magnitude > 0x7f80_0000 {
        // NaN stays a quiet NaN with its leading fraction bits.
        0x7e00 | ((magnitude >> 13) & 0x3ff)
    } else if magnitude >= 0x4780_0000 {
        // 65536 and above, infinity included.
        0x7c00
    } else if magnitude >= 0x3880_0000 {
        // Normal result: rebias, then round the 13 dropped bits to nearest even; a carry moves into the exponent.
        let rebased = magnitude - (112 << 23);
        (rebased + 0xfff + ((rebased >> 13) & 1)) >> 13
    } else {
        // Subnormal result: adding 0.5 (whose ulp is 2⁻²⁴) lets the FPU round at the right place.
        let aligned = f32::from_bits(magnitude) + 0.5;
        aligned.to_bits() - 0.5f32.to_bits()
    };
    sign | rounded as u16
}

// SAFETY: `Scalar` uses no instruction beyond the target's baseline.
unsafe impl Lanes for Scalar {
    const NAME: &'static str = "scalar";
    const COLUMNS: usize = 2;
    const BYTES_BIAS: i32 = 0;
    type F = [f32; WIDTH];
    type I = [i32; WIDTH];
    type Codes = [[u8; 4]; WIDTH];
    type Bytes = [[i8; 4]; WIDTH];
    type Sums = [i32; WIDTH];

    fn enter<J: Job>(self, job: J) -> J::Out {
        job.run(self)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; WIDTH]
    }
    #[inline(always)]
    fn load(self, x: &[f32; WIDTH]) -> Self::F {
        *x
    }
    #[inline(always)]
    fn store(self, x: Self::F, out: &mut [f32; WIDTH]) {
        *out = x;
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        fma(&a, &b, &c)
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn keep_at_least(self, value: Self::F, x: Self::F, limit: Self::F) -> Self::F {
        core::array::from_fn(|i| if x[i] >= limit[i] { value[i] } else { 0.0 })
    }

    #[inline(always)]
    fn splat_i(self, x: i32) -> Self::I {
        [x; WIDTH]
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        zip(a, b, i32::wrapping_add)
    }
    #[inline(always)]
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I {
        zip(a, b, i32::wrapping_sub)
    }
    #[inline(always)]
    fn max_i(self, a: Self::I, b: Self::I) -> Self::I {
        zip(a, b, i32::max)
    }
    #[inline(always)]
    fn reduce_add_i(self, a: Self::I) -> i32 {
        a.iter().fold(0, |sum, &x| sum.wrapping_add(x))
    }
    #[inline(always)]
    fn reduce_max_i(self, a: Self::I) -> i32 {
        a.iter().fold(i32::MIN, |most, &x| most.max(x))
    }
    #[inline(always)]
    fn abs_bits(self, x: Self::F) -> Self::I {
        map(x, |x| (x.to_bits() & 0x7fff_ffff) as i32)
    }
    #[inline(always)]
    fn round_i(self, x: Self::F) -> Self::I {
        round_i(&x)
    }
    #[inline(always)]
    fn to_f(self, x: Self::I) -> Self::F {
        map(x, |x| x as f32)
    }
    #[inline(always)]
    fn shift_exponent(self, x: Self::F, n: Self::I) -> Self::F {
        zip(x, n, |x, n| f32::from_bits(x.to_bits().wrapping_add((n as u32) << 23)))
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; WIDTH]) -> Self::F {
        load_f16(x)
    }
    #[inline(always)]
    fn store_f16(self, x: Self::F, out: &mut [u16; WIDTH]) {
        *out = map(x, f32_to_f16);
    }
    #[inline(always)]
    fn load_i8(self, x: &[i8; WIDTH]) -> Self::I {
        map(*x, i32::from)
    }
    #[inline(always)]
    fn store_i8(self, x: Self::I, out: &mut [i8; WIDTH]) {
        *out = map(x, |x| x as i8);
    }

    #[inline(always)]
    fn unpack(self, chunk: &[u8; 64]) -> [Self::Codes; 2] {
        unpack(chunk)
    }
    #[inline(always)]
    fn store_codes(self, codes: Self::Codes, out: &mut [u8; 64]) {
        for (codes, out) in codes.iter().zip(out.as_chunks_mut().0) {
            *out = *codes;
        }
    }
    #[inline(always)]
    fn load_codes(self, bytes: &[u8; 64]) -> Self::Codes {
        core::array::from_fn(|lane| core::array::from_fn(|i| bytes[lane * 4 + i]))
    }
    #[inline(always)]
    fn no_sums(self) -> Self::Sums {
        [0; WIDTH]
    }
    #[inline(always)]
    fn dot_codes(self, sums: Self::Sums, codes: Self::Codes, q: &[i8; 4]) -> Self::Sums {
        dot_codes(&sums, &codes, q)
    }
    #[inline(always)]
    fn add_sums(self, acc: Self::I, sums: Self::Sums) -> Self::I {
        self.add_i(acc, sums)
    }
    #[inline(always)]
    fn bytes(self, chunk: &[u8; 64]) -> Self::Bytes {
        core::array::from_fn(|lane| core::array::from_fn(|i| chunk[lane * 4 + i] as i8))
    }
    #[inline(always)]
    fn dot_bytes(self, acc: Self::I, bytes: Self::Bytes, q: &[i8; 4]) -> Self::I {
        dot_bytes(&acc, &bytes, q)
    }
}

impl Kernels for Scalar {}

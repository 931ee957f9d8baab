//! Weight tiles and activation blocks: the byte formats of the arithmetic contract.
//!
//! A quantised matrix is cut into tiles of 16 rows × G columns. A tile holds its codes as 64-byte chunks in which byte
//! `lane·4 + i` belongs to row `lane`, then 16 scales and, for asymmetric formats, 16 minima (binary16). The same order
//! feeds one 512-bit register a chunk, two 256-bit ones, four 128-bit ones or scalar code.
//!
//! # Source
//! `kernels/NUMERICS.md`, section Weights.

use crate::grid::Grid;
use crate::lanes::{Lanes, WIDTH};
use bytemuck::{Pod, Zeroable};
use core::hint::black_box;

mod unpacked;

pub use unpacked::Unpacked;
use unpacked::{chunks, dot_unpacked_codes, unpack_codes};

/// One quantisation group of one token's activations: `x ≈ d · q`.
pub trait Block: Pod {
    /// Columns in the group.
    const GROUP: usize;
    /// The codes, in −127..=127.
    fn q(&self) -> &[i8];
    /// The codes, to be filled.
    fn q_mut(&mut self) -> &mut [i8];
    /// The scale `d`.
    fn scale(&self) -> f32;
    /// `d · f32(Σ q)`, what a minimum is multiplied with.
    fn scaled_sum(&self) -> f32;
    /// Sets the scale `d` and the exact sum of the codes.
    fn set(&mut self, d: f32, sum: i32);
}

macro_rules! block {
    ($name:ident, $group:literal) => {
        #[doc = concat!("A group of ", $group, " quantised activations.")]
        #[derive(Clone, Copy, Debug, Pod, Zeroable)]
        #[repr(C)]
        pub struct $name {
            /// Codes.
            pub q: [i8; $group],
            /// Scale.
            pub d: f32,
            /// `d · f32(sum)`, what a minimum is multiplied with.
            pub s: f32,
            /// Sum of the codes.
            pub sum: i32,
            /// Keeps the size a multiple of 16; zero.
            pub reserved: u32,
        }

        impl Block for $name {
            const GROUP: usize = $group;
            #[inline(always)]
            fn q(&self) -> &[i8] {
                &self.q
            }
            #[inline(always)]
            fn q_mut(&mut self) -> &mut [i8] {
                &mut self.q
            }
            #[inline(always)]
            fn scale(&self) -> f32 {
                self.d
            }
            #[inline(always)]
            fn scaled_sum(&self) -> f32 {
                self.s
            }
            #[inline(always)]
            fn set(&mut self, d: f32, sum: i32) {
                self.d = d;
                self.s = d * sum as f32;
                self.sum = sum;
                self.reserved = 0;
            }
        }
    };
}

block!(Block32, 32);
block!(Block64, 64);

/// 16 rows × one quantisation group of a weight matrix.
pub trait Tile: Pod {
    /// The activations it is multiplied with; gives the group size.
    type Block: Block;
    /// Whether there are minima.
    const ASYMMETRIC: bool;
    /// The 16 scales, binary16 bits.
    fn scales(&self) -> &[u16; WIDTH];
    /// The 16 minima, binary16 bits; `None` for a symmetric format.
    fn minima(&self) -> Option<&[u16; WIDTH]>;
    /// Exact dot products of every row with `N` columns, of signed weight codes (symmetric) or raw codes (asymmetric).
    fn dot<L: Lanes, const N: usize>(&self, lanes: L, x: &[&Self::Block; N]) -> [L::I; N];
    /// Unpacks the codes for [`dot_unpacked`](Self::dot_unpacked).
    fn unpack<L: Lanes>(&self, lanes: L, out: &mut Unpacked);
    /// As [`dot`](Self::dot), of `M` tiles whose codes are unpacked.
    fn dot_unpacked<L: Lanes, const N: usize, const M: usize>(
        lanes: L,
        codes: [&Unpacked; M],
        x: &[&Self::Block; N],
    ) -> [[L::I; N]; M];
    /// The signed weight codes (symmetric) or raw codes (asymmetric) as bytes: byte `lane·4 + i` of row `r` is that of
    /// column `4r + i`. Rows beyond the group stay as they are.
    fn signed_bytes<G: Grid>(&self, grid: G, out: &mut [[u8; 64]; 16]);
    /// The code of one row and column as an integer; signed for symmetric formats. Column is taken modulo the group.
    fn code(&self, lane: usize, column: usize) -> i32;
}

/// `n` rounds of a loop over chunks, hidden from the compiler where it shall not unroll it.
#[inline(always)]
fn rolled<L: Lanes>(n: usize) -> usize {
    if L::ROLLED { black_box(n) } else { n }
}

/// Dot products of 4-bit chunks, four chunks (32 columns) at a time so that 16-bit sums cannot overflow.
#[inline(always)]
pub(crate) fn dot_code_chunks<L: Lanes, const N: usize>(l: L, codes: &[[u8; 64]], q: [&[i8]; N]) -> [L::I; N] {
    let q = q.map(|q| q.as_chunks::<4>().0.as_chunks::<8>().0);
    let mut acc = [l.splat_i(0); N];
    for (half, chunks) in codes.as_chunks::<4>().0.iter().enumerate() {
        let mut sums = [l.no_sums(); N];
        for (c, chunk) in chunks.iter().enumerate().take(rolled::<L>(4)) {
            let [low, high] = l.unpack(chunk);
            for n in 0..N {
                sums[n] = l.dot_codes(sums[n], low, &q[n][half][2 * c]);
                sums[n] = l.dot_codes(sums[n], high, &q[n][half][2 * c + 1]);
            }
        }
        for n in 0..N {
            acc[n] = l.add_sums(acc[n], sums[n]);
        }
    }
    acc
}

/// Dot products of chunks of bytes, each increased by the bias.
#[inline(always)]
pub(crate) fn dot_byte_chunks<L: Lanes, const N: usize>(l: L, codes: &[[u8; 64]], q: [&[i8]; N]) -> [L::I; N] {
    let q = q.map(|q| q.as_chunks::<4>().0);
    let mut acc = [l.splat_i(0); N];
    for (c, chunk) in codes.iter().enumerate().take(rolled::<L>(codes.len())) {
        let bytes = l.bytes(chunk);
        for n in 0..N {
            acc[n] = l.dot_bytes(acc[n], bytes, &q[n][c]);
        }
    }
    acc
}

/// 4-bit chunks as bytes, each decreased by `bias`.
#[inline(always)]
fn nibble_bytes<G: Grid>(g: G, codes: &[[u8; 64]], bias: u8, out: &mut [[u8; 64]; 16]) {
    for (chunk, out) in codes.iter().zip(out.as_chunks_mut().0) {
        g.nibbles(chunk, bias, out);
    }
}

#[inline(always)]
fn nibble(codes: &[[u8; 64]], lane: usize, column: usize) -> i32 {
    let byte = codes[(column / 8) % codes.len()][(lane % WIDTH) * 4 + column % 4];
    i32::from(if column % 8 < 4 { byte & 15 } else { byte >> 4 })
}

/// The codes of blocks, by four. No closure: its compiler may call it.
macro_rules! fours {
    ($x:ident) => {{
        let mut q = [bytemuck::must_cast_ref(&$x[0].q); N];
        for n in 0..N {
            q[n] = bytemuck::must_cast_ref(&$x[n].q);
        }
        q
    }};
}

/// Takes `bias` times the sum of each token's codes away from the products of several tiles.
macro_rules! unbias {
    ($l:ident, $acc:ident, $bias:expr, $x:ident) => {
        for n in 0..N {
            let bias = $l.splat_i($bias * $x[n].sum);
            for acc in &mut $acc {
                acc[n] = $l.sub_i(acc[n], bias);
            }
        }
    };
}

macro_rules! w4 {
    ($name:ident, $block:ident, $group:literal, asymmetric) => {
        #[doc = concat!("4-bit codes 0..=15 in groups of ", $group, ": value = d·u + m.")]
        #[derive(Clone, Copy, Debug, Pod, Zeroable)]
        #[repr(C)]
        pub struct $name {
            /// Chunks of 8 columns.
            pub codes: [[u8; 64]; $group / 8],
            /// Scales.
            pub d: [u16; WIDTH],
            /// Minima.
            pub m: [u16; WIDTH],
        }

        impl Tile for $name {
            type Block = $block;
            const ASYMMETRIC: bool = true;
            #[inline(always)]
            fn scales(&self) -> &[u16; WIDTH] {
                &self.d
            }
            #[inline(always)]
            fn minima(&self) -> Option<&[u16; WIDTH]> {
                Some(&self.m)
            }
            #[inline(always)]
            fn dot<L: Lanes, const N: usize>(&self, l: L, x: &[&Self::Block; N]) -> [L::I; N] {
                l.dot_code_chunks(&self.codes, x.map(|x| x.q.as_slice()))
            }
            #[inline(always)]
            fn unpack<L: Lanes>(&self, l: L, out: &mut Unpacked) {
                unpack_codes(l, &self.codes, out);
            }
            #[inline(always)]
            fn dot_unpacked<L: Lanes, const N: usize, const M: usize>(
                l: L,
                codes: [&Unpacked; M],
                x: &[&Self::Block; N],
            ) -> [[L::I; N]; M] {
                dot_unpacked_codes::<L, { $group / 4 }, N, M>(l, chunks(codes), fours!(x))
            }
            #[inline(always)]
            fn signed_bytes<G: Grid>(&self, g: G, out: &mut [[u8; 64]; 16]) {
                nibble_bytes(g, &self.codes, 0, out);
            }
            #[inline(always)]
            fn code(&self, lane: usize, column: usize) -> i32 {
                nibble(&self.codes, lane, column)
            }
        }
    };
    ($name:ident, $block:ident, $group:literal, symmetric) => {
        #[doc = concat!("4-bit codes 0..=15 in groups of ", $group, ": value = d·(u − 8).")]
        #[derive(Clone, Copy, Debug, Pod, Zeroable)]
        #[repr(C)]
        pub struct $name {
            /// Chunks of 8 columns.
            pub codes: [[u8; 64]; $group / 8],
            /// Scales.
            pub d: [u16; WIDTH],
        }

        impl Tile for $name {
            type Block = $block;
            const ASYMMETRIC: bool = false;
            #[inline(always)]
            fn scales(&self) -> &[u16; WIDTH] {
                &self.d
            }
            #[inline(always)]
            fn minima(&self) -> Option<&[u16; WIDTH]> {
                None
            }
            #[inline(always)]
            fn dot<L: Lanes, const N: usize>(&self, l: L, x: &[&Self::Block; N]) -> [L::I; N] {
                let mut acc = l.dot_code_chunks(&self.codes, x.map(|x| x.q.as_slice()));
                for n in 0..N {
                    acc[n] = l.sub_i(acc[n], l.splat_i(8 * x[n].sum));
                }
                acc
            }
            #[inline(always)]
            fn unpack<L: Lanes>(&self, l: L, out: &mut Unpacked) {
                unpack_codes(l, &self.codes, out);
            }
            #[inline(always)]
            fn dot_unpacked<L: Lanes, const N: usize, const M: usize>(
                l: L,
                codes: [&Unpacked; M],
                x: &[&Self::Block; N],
            ) -> [[L::I; N]; M] {
                let mut acc = dot_unpacked_codes::<L, { $group / 4 }, N, M>(l, chunks(codes), fours!(x));
                unbias!(l, acc, 8, x);
                acc
            }
            #[inline(always)]
            fn signed_bytes<G: Grid>(&self, g: G, out: &mut [[u8; 64]; 16]) {
                nibble_bytes(g, &self.codes, 8, out);
            }
            #[inline(always)]
            fn code(&self, lane: usize, column: usize) -> i32 {
                nibble(&self.codes, lane, column) - 8
            }
        }
    };
}

w4!(TileQ4A64, Block64, 64, asymmetric);
w4!(TileQ4A32, Block32, 32, asymmetric);
w4!(TileQ4S64, Block64, 64, symmetric);
w4!(TileQ4S32, Block32, 32, symmetric);

/// Signed bytes in groups of 32: value = d·q.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct TileQ8 {
    /// Chunks of 4 columns, two's complement.
    pub codes: [[u8; 64]; 8],
    /// Scales.
    pub d: [u16; WIDTH],
}

impl Tile for TileQ8 {
    type Block = Block32;
    const ASYMMETRIC: bool = false;
    #[inline(always)]
    fn scales(&self) -> &[u16; WIDTH] {
        &self.d
    }
    #[inline(always)]
    fn minima(&self) -> Option<&[u16; WIDTH]> {
        None
    }
    #[inline(always)]
    fn dot<L: Lanes, const N: usize>(&self, l: L, x: &[&Self::Block; N]) -> [L::I; N] {
        let mut acc = l.dot_byte_chunks(&self.codes, x.map(|x| x.q.as_slice()));
        if L::BYTES_BIAS != 0 {
            for n in 0..N {
                acc[n] = l.sub_i(acc[n], l.splat_i(L::BYTES_BIAS * x[n].sum));
            }
        }
        acc
    }
    #[inline(always)]
    fn unpack<L: Lanes>(&self, _: L, out: &mut Unpacked) {
        for (chunk, out) in self.codes.iter().zip(&mut out.0) {
            *out = *chunk;
        }
    }
    #[inline(always)]
    fn dot_unpacked<L: Lanes, const N: usize, const M: usize>(
        l: L,
        codes: [&Unpacked; M],
        x: &[&Self::Block; N],
    ) -> [[L::I; N]; M] {
        let q: [&[[i8; 4]; 8]; N] = fours!(x);
        let codes: [&[[u8; 64]; 8]; M] = chunks(codes);
        let mut acc = [[l.splat_i(0); N]; M];
        for c in 0..8 {
            for m in 0..M {
                let bytes = l.bytes(&codes[m][c]);
                for n in 0..N {
                    acc[m][n] = l.dot_bytes(acc[m][n], bytes, &q[n][c]);
                }
            }
        }
        if L::BYTES_BIAS != 0 {
            unbias!(l, acc, L::BYTES_BIAS, x);
        }
        acc
    }
    #[inline(always)]
    fn signed_bytes<G: Grid>(&self, _: G, out: &mut [[u8; 64]; 16]) {
        for (chunk, out) in self.codes.iter().zip(out) {
            *out = *chunk;
        }
    }
    #[inline(always)]
    fn code(&self, lane: usize, column: usize) -> i32 {
        i32::from(self.codes[(column / 4) % 8][(lane % WIDTH) * 4 + column % 4] as i8)
    }
}

static_assertions::const_assert_eq!(size_of::<TileQ4A64>(), 576);
static_assertions::const_assert_eq!(size_of::<TileQ4A32>(), 320);
static_assertions::const_assert_eq!(size_of::<TileQ4S64>(), 544);
static_assertions::const_assert_eq!(size_of::<TileQ4S32>(), 288);
static_assertions::const_assert_eq!(size_of::<TileQ8>(), 544);
static_assertions::const_assert_eq!(size_of::<Block64>(), 80);
static_assertions::const_assert_eq!(size_of::<Block32>(), 48);

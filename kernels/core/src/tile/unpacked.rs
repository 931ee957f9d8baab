//! Tiles whose codes have been unpacked to memory, for batches.

use crate::lanes::Lanes;

/// The codes of a tile, each in a byte: byte `lane·4 + i` of chunk `r` is column `4r + i`. Groups of 32 fill half.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Unpacked(pub [[u8; 64]; 16]);

impl Unpacked {
    /// No codes.
    pub const EMPTY: Self = Self([[0; 64]; 16]);
}

/// The chunks of tiles of so many columns.
#[inline(always)]
pub(super) fn chunks<const C: usize, const M: usize>(codes: [&Unpacked; M]) -> [&[[u8; 64]; C]; M] {
    let mut chunks = [&[[0; 64]; C]; M];
    for (chunks, codes) in chunks.iter_mut().zip(codes) {
        if let Some(codes) = codes.0.first_chunk() {
            *chunks = codes;
        }
    }
    chunks
}

/// 4-bit chunks, a code in each byte.
#[inline(always)]
pub(super) fn unpack_codes<L: Lanes>(l: L, codes: &[[u8; 64]], out: &mut Unpacked) {
    for (chunk, [low, high]) in codes.iter().zip(out.0.as_chunks_mut().0) {
        let codes = l.unpack(chunk);
        l.store_codes(codes[0], low);
        l.store_codes(codes[1], high);
    }
}

/// Dot products of unpacked codes of `M` tiles of `C` chunks, 32 columns at a time where sums are narrow.
#[inline(always)]
pub(super) fn dot_unpacked_codes<L: Lanes, const C: usize, const N: usize, const M: usize>(
    l: L,
    codes: [&[[u8; 64]; C]; M],
    q: [&[[i8; 4]; C]; N],
) -> [[L::I; N]; M] {
    let mut acc = [[l.splat_i(0); N]; M];
    let run = if L::WIDE_SUMS { C } else { 8 };
    for first in (0..C).step_by(run) {
        let mut sums = [[l.no_sums(); N]; M];
        for c in first..first + run {
            for m in 0..M {
                let codes = l.load_codes(&codes[m][c]);
                for n in 0..N {
                    sums[m][n] = l.dot_codes(sums[m][n], codes, &q[n][c]);
                }
            }
        }
        for m in 0..M {
            for n in 0..N {
                acc[m][n] = l.add_sums(acc[m][n], sums[m][n]);
            }
        }
    }
    acc
}

//! Primitives of the integer dot products.

use crate::cases::Draw;
use crate::integers::lanes;
use crate::report::{Record, Shape};
use pocket_kernels::{Job, Kernels, Lanes, WIDTH};

/// Chunks of 4-bit codes in 32 columns: as many as one set of sums must hold.
const CHUNKS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    Unpack,
    DotCodes,
    DotBytes,
}

struct Unpack<'a>(&'a [u8; 64]);

impl Job for Unpack<'_> {
    type Out = [[i32; WIDTH]; 8];

    /// Each column alone, seen through the dot product with a unit vector.
    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Self::Out {
        let codes = l.unpack(self.0);
        core::array::from_fn(|column| {
            let unit = core::array::from_fn(|i| i8::from(i == column % 4));
            let sums = l.dot_codes(l.no_sums(), codes[column / 4], &unit);
            lanes(l, l.add_sums(l.splat_i(0), sums))
        })
    }
}

struct DotCodes<'a> {
    chunks: &'a [[u8; 64]; CHUNKS],
    q: &'a [[i8; 4]; 2 * CHUNKS],
    start: i32,
}

impl Job for DotCodes<'_> {
    type Out = [i32; WIDTH];

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Self::Out {
        let mut sums = l.no_sums();
        for (chunk, q) in self.chunks.iter().zip(self.q.as_chunks::<2>().0) {
            let [low, high] = l.unpack(chunk);
            sums = l.dot_codes(sums, low, &q[0]);
            sums = l.dot_codes(sums, high, &q[1]);
        }
        lanes(l, l.add_sums(l.splat_i(self.start), sums))
    }
}

struct DotBytes<'a> {
    chunks: &'a [[u8; 64]; CHUNKS],
    q: &'a [[i8; 4]; CHUNKS],
    start: i32,
}

impl Job for DotBytes<'_> {
    type Out = [i32; WIDTH];

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Self::Out {
        let sum: i32 = self.q.as_flattened().iter().map(|&q| i32::from(q)).sum();
        let start = l.splat_i(self.start.wrapping_sub(L::BYTES_BIAS.wrapping_mul(sum)));
        let dots = self.chunks.iter().zip(self.q).fold(start, |acc, (chunk, q)| l.dot_bytes(acc, l.bytes(chunk), q));
        lanes(l, dots)
    }
}

pub(crate) fn run<K: Kernels>(op: Product, k: K, mut draw: Draw, record: &mut Record<'_>) -> Shape {
    let [weights, activations] = [draw.kind(), draw.kind()];
    let random = &mut draw.random;
    let chunks: [[u8; 64]; CHUNKS] =
        core::array::from_fn(|c| core::array::from_fn(|i| weights.byte(c * 64 + i, random)));
    let q: [[i8; 4]; 2 * CHUNKS] =
        core::array::from_fn(|c| core::array::from_fn(|i| activations.code(c * 4 + i, random)));
    let start = random.bits() as i32 >> 8;
    match op {
        Product::Unpack => chunks.iter().for_each(|chunk| record.ints(k.enter(Unpack(chunk)).as_flattened())),
        Product::DotCodes => record.ints(&k.enter(DotCodes { chunks: &chunks, q: &q, start })),
        Product::DotBytes => {
            let (q, _) = q.split_first_chunk().unwrap_or((&[[0; 4]; CHUNKS], &[]));
            record.ints(&k.enter(DotBytes { chunks: &chunks, q, start }));
        }
    }
    Shape::default().word("weights", weights.name()).word("activations", activations.name())
}

//! The 16-lane machine: what a chip must be able to do.
//!
//! A value of a `Lanes` type is the proof that its instructions may run; vectors are plain data and operations hang off
//! the token. A lane is an independent output element, so an implementation is free to hold the 16 lanes in one, two,
//! four or sixteen registers: no operation here looks across lanes except the two exact integer reductions.

use crate::matmul::Matmul;
use crate::tile;

/// Number of lanes of the machine, on every chip.
pub const WIDTH: usize = 16;

/// A kernel with its operands, ready to run on some lanes.
///
/// [`Lanes::enter`] runs it inside the one function of a port that carries `#[target_feature]`, so that the kernel and
/// every primitive in it are compiled for that instruction set.
pub trait Job {
    /// What the kernel returns.
    type Out;
    /// Runs the kernel. Implementations are `#[inline(always)]`, and do nothing with `lanes` in closures: one that the compiler
    /// does not inline is not compiled for the instruction set, and its primitives are calls.
    fn run<L: Lanes>(self, lanes: L) -> Self::Out;
}

/// Primitive operations of one instruction set on 16 lanes.
///
/// All float operations are IEEE 754 binary32, rounded to nearest even, without flush-to-zero. Where an operation says
/// "exact", every implementation gives the same bits because the true result is representable.
///
/// # Safety
/// A value of the implementing type may exist only where every instruction that its methods use can run, including the
/// operating system's or firmware's consent to the vector state.
pub unsafe trait Lanes: Copy + Send + Sync + 'static {
    /// The name in reports, benches and `--isa`.
    const NAME: &'static str;
    /// How many columns of a batch one weight tile is multiplied with while it is in registers: 1, 2, 4 or 8, and where a
    /// batch is [`BATCHED`](Self::BATCHED), 6.
    const COLUMNS: usize;
    /// Whether the loop over a tile's chunks stays a loop. Unrolled, the compiler does one column after the other, and where
    /// registers are few the unpacked codes of all chunks go through the stack.
    const ROLLED: bool = false;
    /// Whether the codes of a batch are unpacked to memory once, for all its tokens, and not in registers for every few.
    const BATCHED: bool = false;
    /// Whether that is done with two row groups at once, so that an activation is loaded once for both: worth it where
    /// registers hold the sums of both.
    const PAIRS: bool = false;
    /// Whether [`Sums`](Self::Sums) have 32 bits, so that any number of products may be added to them.
    const WIDE_SUMS: bool = false;
    /// What [`dot_bytes`](Self::dot_bytes) adds to each weight byte; the kernels take `BYTES_BIAS · Σq` away again.
    const BYTES_BIAS: i32;

    /// 16 f32 lanes.
    type F: Copy;
    /// 16 i32 lanes.
    type I: Copy;
    /// 16 lanes of four unsigned 4-bit codes, one per byte.
    type Codes: Copy;
    /// 16 lanes of four signed bytes, in whatever form [`dot_bytes`](Self::dot_bytes) likes best.
    type Bytes: Copy;
    /// Running dot products of codes; may be narrower than 32 bits, see [`dot_codes`](Self::dot_codes).
    type Sums: Copy;

    /// Runs a kernel inside this instruction set's `#[target_feature]` region.
    fn enter<J: Job>(self, job: J) -> J::Out;

    /// How far ahead of its reading, in bytes, a product that waits for memory asks for weights; 0 where the processor does
    /// better alone.
    #[inline(always)]
    fn ahead(self) -> usize {
        0
    }
    /// Asks the second-level cache for the line that holds this byte; does nothing where there is no such hint.
    #[inline(always)]
    fn fetch(self, byte: &u8) {
        let _ = byte;
    }

    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::F;
    /// Loads 16 floats.
    fn load(self, x: &[f32; WIDTH]) -> Self::F;
    /// Stores 16 floats.
    fn store(self, x: Self::F, out: &mut [f32; WIDTH]);
    /// `a + b`.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`.
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a · b`.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`, correctly rounded.
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a · b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The larger of two numbers; unspecified for NaN and for the sign of zero.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The smaller of two numbers; unspecified for NaN and for the sign of zero.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// `value` where `x >= limit`, +0 elsewhere (also where `x` is NaN).
    fn keep_at_least(self, value: Self::F, x: Self::F, limit: Self::F) -> Self::F;

    /// All lanes `x`.
    fn splat_i(self, x: i32) -> Self::I;
    /// Wrapping `a + b`.
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// Wrapping `a - b`.
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// Signed maximum.
    fn max_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// Sum over the lanes (wrapping, so the order does not matter).
    fn reduce_add_i(self, a: Self::I) -> i32;
    /// Largest lane.
    fn reduce_max_i(self, a: Self::I) -> i32;
    /// The bits of |x| as an integer. Orders finite values like their magnitude; NaN above infinity.
    fn abs_bits(self, x: Self::F) -> Self::I;
    /// Rounds to the nearest integer, ties to even. Specified for |x| ≤ 2²².
    fn round_i(self, x: Self::F) -> Self::I;
    /// Converts to float, rounded to nearest even.
    fn to_f(self, x: Self::I) -> Self::F;
    /// Adds `n` to the exponent field of `x` (which multiplies by 2ⁿ while the result stays normal).
    fn shift_exponent(self, x: Self::F, n: Self::I) -> Self::F;

    /// Loads 16 IEEE binary16 values; exact.
    fn load_f16(self, x: &[u16; WIDTH]) -> Self::F;
    /// Rounds to binary16, nearest even; overflow gives infinity.
    fn store_f16(self, x: Self::F, out: &mut [u16; WIDTH]);
    /// Loads 16 signed bytes.
    fn load_i8(self, x: &[i8; WIDTH]) -> Self::I;
    /// Stores 16 integers that lie in −128..=127 as bytes.
    fn store_i8(self, x: Self::I, out: &mut [i8; WIDTH]);

    /// Unpacks a chunk of 4-bit codes: byte `lane·4 + i` holds column `i` in its low nibble (first result) and column
    /// `4 + i` in its high nibble (second result).
    fn unpack(self, chunk: &[u8; 64]) -> [Self::Codes; 2];
    /// Stores codes, each in a byte.
    fn store_codes(self, codes: Self::Codes, out: &mut [u8; 64]);
    /// Loads codes that [`store_codes`](Self::store_codes) has stored.
    fn load_codes(self, bytes: &[u8; 64]) -> Self::Codes;
    /// Empty sums.
    fn no_sums(self) -> Self::Sums;
    /// Adds to each lane the dot product of its four codes with the four activations of `q`, which lie in −127..=127.
    /// At most 8 calls (32 columns) may follow one [`no_sums`](Self::no_sums), so 16 bits hold a sum of two products, if
    /// there are no [`WIDE_SUMS`](Self::WIDE_SUMS).
    fn dot_codes(self, sums: Self::Sums, codes: Self::Codes, q: &[i8; 4]) -> Self::Sums;
    /// Widens the sums and adds them to `acc`.
    fn add_sums(self, acc: Self::I, sums: Self::Sums) -> Self::I;
    /// Loads a chunk of signed bytes: byte `lane·4 + i` is column `i`.
    fn bytes(self, chunk: &[u8; 64]) -> Self::Bytes;
    /// Adds to each lane the dot product of its four bytes, each increased by [`BYTES_BIAS`](Self::BYTES_BIAS), with
    /// the four activations of `q`, which lie in −127..=127.
    fn dot_bytes(self, acc: Self::I, bytes: Self::Bytes, q: &[i8; 4]) -> Self::I;

    /// Exact dot products of all chunks of a tile of 4-bit codes with `N` columns, `N ≤ COLUMNS`. Provided; overridden
    /// where one instruction multiplies more than one column.
    #[inline(always)]
    fn dot_code_chunks<const N: usize>(self, chunks: &[[u8; 64]], q: [&[i8]; N]) -> [Self::I; N] {
        tile::dot_code_chunks(self, chunks, q)
    }
    /// As [`dot_code_chunks`](Self::dot_code_chunks), of bytes, each increased by [`BYTES_BIAS`](Self::BYTES_BIAS).
    #[inline(always)]
    fn dot_byte_chunks<const N: usize>(self, chunks: &[[u8; 64]], q: [&[i8]; N]) -> [Self::I; N] {
        tile::dot_byte_chunks(self, chunks, q)
    }
}

/// The kernels a chip may do in its own way. The defaults are the generic kernels; the bits must not change.
pub trait Kernels: Lanes {
    /// Matrix product of quantised weights with a batch of quantised activations.
    fn matmul(self, job: Matmul<'_, '_>) {
        self.enter(job);
    }
}

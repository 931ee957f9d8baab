//! Activations to int8: per token and group, round to nearest even, symmetric.
//!
//! # Source
//! `kernels/NUMERICS.md`, section Activations.

use crate::lanes::{Job, Lanes, WIDTH};
use crate::reduce::INFINITY_BITS;
use crate::tile::{Block, Block32, Block64};

/// Largest magnitude of a code.
const CODE_MAX: f32 = 127.0;
/// 2⁻¹⁰⁰: groups whose largest magnitude is below count as zero, so `127 / amax` stays finite.
const AMAX_LEAST: f32 = f32::from_bits(27 << 23);

/// Quantised activations of a batch, token-major: `[tokens, groups]`.
#[derive(Clone, Copy, Debug)]
pub enum Activations<'a> {
    /// Groups of 32 columns.
    G32(&'a [Block32]),
    /// Groups of 64 columns.
    G64(&'a [Block64]),
}

/// One token's quantised activations, to be filled.
#[derive(Debug)]
pub enum ActivationsMut<'a> {
    /// Groups of 32 columns.
    G32(&'a mut [Block32]),
    /// Groups of 64 columns.
    G64(&'a mut [Block64]),
}

/// The scale of a group with this largest magnitude, and the factor that makes codes.
#[inline(always)]
pub(crate) fn scale_of(amax: f32) -> (f32, f32) {
    if amax < AMAX_LEAST { (0.0, 0.0) } else { (amax / CODE_MAX, CODE_MAX / amax) }
}

/// Codes of 16 values, in −127..=127.
#[inline(always)]
pub(crate) fn codes<L: Lanes>(l: L, x: L::F, factor: f32) -> L::I {
    let scaled = l.mul(x, l.splat(factor));
    l.round_i(l.max(l.min(scaled, l.splat(CODE_MAX)), l.splat(-CODE_MAX)))
}

/// Quantises the row of these 16-element vectors; the last group is padded with zeros. Gives whether every element was
/// finite.
#[inline(always)]
pub(crate) fn quantize<L: Lanes, B: Block>(l: L, mut vectors: impl Iterator<Item = L::F>, out: &mut [B]) -> bool {
    let per_group = B::GROUP / WIDTH;
    let mut finite = true;
    for block in out {
        // A group has at most four vectors; those beyond `per_group` are never touched.
        let mut x = [l.splat(0.0); 4];
        let mut bits = l.splat_i(0);
        for x in x.iter_mut().take(per_group) {
            if let Some(vector) = vectors.next() {
                *x = vector;
            }
            bits = l.max_i(bits, l.abs_bits(*x));
        }
        let amax = l.reduce_max_i(bits);
        finite &= amax < INFINITY_BITS;
        let (d, factor) = scale_of(f32::from_bits(amax as u32));
        let mut sum = l.splat_i(0);
        for (x, out) in x.iter().zip(block.q_mut().as_chunks_mut::<WIDTH>().0) {
            let q = codes(l, *x, factor);
            sum = l.add_i(sum, q);
            l.store_i8(q, out);
        }
        block.set(d, l.reduce_add_i(sum));
    }
    finite
}

/// Runs [`quantize`] on whichever group size is asked for.
#[inline(always)]
pub(crate) fn quantize_into<L: Lanes>(l: L, vectors: impl Iterator<Item = L::F>, out: ActivationsMut<'_>) -> bool {
    match out {
        ActivationsMut::G32(out) => quantize(l, vectors, out),
        ActivationsMut::G64(out) => quantize(l, vectors, out),
    }
}

/// Quantises one token's activations. The result says whether all of them were finite.
///
/// # Shapes
/// `x: [columns]`, a multiple of 16; `out: [columns / group]`, rounded up.
#[derive(Debug)]
pub struct Quantize<'a> {
    /// The activations.
    pub x: &'a [f32],
    /// Where the groups go.
    pub out: ActivationsMut<'a>,
}

impl Job for Quantize<'_> {
    type Out = bool;

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> bool {
        quantize_into(l, self.x.as_chunks::<WIDTH>().0.iter().map(|x| l.load(x)), self.out)
    }
}

//! RMSNorm, over a token's hidden state and over single heads.
//!
//! `y = (x · 1/√(mean(x²) + ε)) · w`. The sum of squares is one of the two horizontal float reductions of the contract:
//! 16 virtual lanes, then a fixed fold.
//!
//! # Source
//! Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019); order as in `kernels/NUMERICS.md`.

use crate::lanes::{Job, Lanes, WIDTH};
use crate::quantize::{ActivationsMut, quantize_into};
use crate::reduce::fold;

/// A norm's learned scale and its ε.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// Scale per element.
    pub weight: &'a [f32],
    /// Added to the mean of the squares.
    pub eps: f32,
}

/// `1 / √(mean(x²) + ε)`; `x` has a multiple of 16 elements. Where the sum of the squares overflows it is NaN and not 0,
/// so that numbers too large for a norm are reported instead of vanishing.
#[inline(always)]
fn inverse_rms<L: Lanes>(l: L, x: &[[f32; WIDTH]], eps: f32) -> f32 {
    let mut squares = l.splat(0.0);
    for chunk in x {
        let v = l.load(chunk);
        squares = l.fma(v, v, squares);
    }
    let mean = fold(l, squares) / (x.len() * WIDTH) as f32;
    if mean.is_finite() { 1.0 / libm::sqrtf(mean + eps) } else { f32::NAN }
}

/// Normalises a head in place; `x` and the weight have the same length, a multiple of 16.
#[inline(always)]
pub(crate) fn norm_in_place<L: Lanes>(l: L, norm: &Norm<'_>, x: &mut [f32]) {
    let chunks = x.as_chunks_mut::<WIDTH>().0;
    let inverse = l.splat(inverse_rms(l, chunks, norm.eps));
    for (x, w) in chunks.iter_mut().zip(norm.weight.as_chunks::<WIDTH>().0) {
        let y = l.mul(l.mul(l.load(x), inverse), l.load(w));
        l.store(y, x);
    }
}

/// Normalises one token's hidden state and quantises it for the next product, without storing the floats between.
/// The result says whether all values were finite.
///
/// # Shapes
/// `x`, `norm.weight: [columns]`, a multiple of 16; `out: [columns / group]`, rounded up.
#[derive(Debug)]
pub struct NormQuantize<'a> {
    /// The norm.
    pub norm: Norm<'a>,
    /// The hidden state.
    pub x: &'a [f32],
    /// Where the groups go.
    pub out: ActivationsMut<'a>,
}

impl Job for NormQuantize<'_> {
    type Out = bool;

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> bool {
        let x = self.x.as_chunks::<WIDTH>().0;
        let w = self.norm.weight.as_chunks::<WIDTH>().0;
        let inverse = l.splat(inverse_rms(l, x, self.norm.eps));
        quantize_into(l, x.iter().zip(w).map(|(x, w)| l.mul(l.mul(l.load(x), inverse), l.load(w))), self.out)
    }
}

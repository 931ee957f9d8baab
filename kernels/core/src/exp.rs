//! The exponential function, the only transcendental on the way of a token, and SiLU on top of it.
//!
//! `exp(x) = 2ⁿ · e^r` with `n = rne(x · log₂ e)` and `r = x − n · ln 2`, the latter in two steps (Cody and Waite) so
//! that it is exact where it matters. `e^r` is `1 + r + r² · P(r)` with a polynomial of degree 5 in Horner form; every
//! step is one FMA. Below `ln 2⁻¹²⁶` the result is +0, so no subnormal number ever appears.
//!
//! # Source
//! `kernels/NUMERICS.md`, section Elementary functions; coefficients as in the Cephes library's `expf`.

use crate::lanes::Lanes;

/// Largest distance from the true value, in units in the last place, for every argument; a tested number.
pub const EXP_MAX_ULP: u32 = 2;

/// Arguments below this give +0: the next float above `ln 2⁻¹²⁶`.
const LEAST: f32 = -87.336_54;
/// Arguments above this count as this; its exponential is finite.
const MOST: f32 = 88.72;

const P: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1];

/// `e^x` in every lane, within [`EXP_MAX_ULP`] for −87.3 ≤ x ≤ 88.7; +0 below and for NaN, a finite number above.
#[inline(always)]
pub fn exp<L: Lanes>(l: L, x: L::F) -> L::F {
    let limit = l.splat(LEAST);
    let x_in = l.max(l.min(x, l.splat(MOST)), limit);
    let n = l.round_i(l.mul(x_in, l.splat(core::f32::consts::LOG2_E)));
    let n_f = l.to_f(n);
    let r = l.fma(n_f, l.splat(-0.693_359_4), x_in);
    let r = l.fma(n_f, l.splat(2.121_944_4e-4), r);
    let mut p = l.splat(P[0]);
    for c in &P[1..] {
        p = l.fma(p, r, l.splat(*c));
    }
    let e = l.add(l.fma(p, l.mul(r, r), r), l.splat(1.0));
    l.keep_at_least(l.shift_exponent(e, n), x, limit)
}

/// `x / (1 + exp(−x))` in every lane.
#[inline(always)]
pub fn silu<L: Lanes>(l: L, x: L::F) -> L::F {
    let negative = l.sub(l.splat(0.0), x);
    l.div(x, l.add(l.splat(1.0), exp(l, negative)))
}

/// `e^x` of one number, the same bits as a lane gives.
#[inline(always)]
pub fn exp_one<L: Lanes>(l: L, x: f32) -> f32 {
    let mut out = [0.0; 16];
    l.store(exp(l, l.splat(x)), &mut out);
    out[0]
}

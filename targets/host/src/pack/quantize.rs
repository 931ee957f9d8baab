//! Floats to codes, for tensors whose own codes cannot be kept.

use half::f16;

use super::matrix::{BLOCK, Kind};

/// What F32, F16 and BF16 matrices become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quant {
    /// 8 bits, symmetric, groups of 32.
    #[default]
    Q8,
    /// 4 bits, asymmetric, groups of 32.
    Q4,
}

/// How far requantised values are from the originals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requantised {
    squared_error: f64,
    squares: f64,
}

impl Requantised {
    /// `√(Σ(x − y)² / Σx²)`.
    pub(super) fn relative(&self) -> f64 {
        if self.squares == 0.0 { 0.0 } else { (self.squared_error / self.squares).sqrt() }
    }
}

/// A block's codes, scale bits and, for asymmetric kinds, minimum bits.
type Block = ([u8; BLOCK], u16, Option<u16>);

/// Quantises a block. A scale that binary16 cannot hold comes out infinite; the caller checks.
pub(super) fn requantise(x: &[f32; BLOCK], kind: Kind, error: &mut Requantised) -> Block {
    let block = match kind {
        Kind::Symmetric8 => symmetric_8(x),
        Kind::Asymmetric4 | Kind::Symmetric4 => asymmetric_4(x),
    };
    error.squared_error += squared_error(x, &block);
    error.squares += x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
    block
}

/// The largest magnitude becomes 127.
fn symmetric_8(x: &[f32; BLOCK]) -> Block {
    let amax = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let scale = f16::from_f32(amax / 127.0);
    let d = scale.to_f32();
    let code = |x: f32| if d > 0.0 { (x / d).round_ties_even().clamp(-127.0, 127.0) as i8 as u8 } else { 0 };
    (x.map(code), scale.to_bits(), None)
}

/// Smallest and largest value become 0 and 15; then scale and minimum are fitted to the codes by least squares for as
/// long as that helps.
fn asymmetric_4(x: &[f32; BLOCK]) -> Block {
    let least = x.iter().copied().fold(f32::INFINITY, f32::min);
    let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut best = codes_4(x, (most - least) / 15.0, least);
    let mut best_error = squared_error(x, &best);
    for _ in 0..4 {
        let (d, m) = fit(x, &best.0);
        let next = codes_4(x, d, m);
        let error = squared_error(x, &next);
        if error >= best_error {
            break;
        }
        (best, best_error) = (next, error);
    }
    best
}

/// Codes for this scale and minimum, as binary16 holds them.
fn codes_4(x: &[f32; BLOCK], d: f32, m: f32) -> Block {
    let (scale, minimum) = (f16::from_f32(d), f16::from_f32(m));
    let (d, m) = (scale.to_f32(), minimum.to_f32());
    let code = |x: f32| if d > 0.0 { ((x - m) / d).round_ties_even().clamp(0.0, 15.0) as u8 } else { 0 };
    (x.map(code), scale.to_bits(), Some(minimum.to_bits()))
}

/// The straight line through (code, value) with the least squared error.
fn fit(x: &[f32; BLOCK], codes: &[u8; BLOCK]) -> (f32, f32) {
    let n = BLOCK as f64;
    let u = || codes.iter().map(|&u| f64::from(u));
    let v = || x.iter().map(|&x| f64::from(x));
    let (su, sv) = (u().sum::<f64>(), v().sum::<f64>());
    let suu = u().map(|u| u * u).sum::<f64>();
    let suv = u().zip(v()).map(|(u, v)| u * v).sum::<f64>();
    let spread = n * suu - su * su;
    let d = if spread > 0.0 { (n * suv - su * sv) / spread } else { 0.0 };
    (d as f32, ((sv - d * su) / n) as f32)
}

/// Distance between a block's values and what its codes say.
fn squared_error(x: &[f32; BLOCK], (codes, d, m): &Block) -> f64 {
    let d = f16::from_bits(*d).to_f32();
    let value = |code: u8| match m {
        Some(m) => d * f32::from(code) + f16::from_bits(*m).to_f32(),
        None => d * f32::from(code as i8),
    };
    x.iter().zip(codes).map(|(&x, &code)| f64::from(x - value(code)).powi(2)).sum()
}

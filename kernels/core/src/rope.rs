//! Rotary position embedding, half-split: element i turns with element i + head_dim/2.
//!
//! Importers permute the rows of models that rotate neighbouring elements, so there is one rotation. Angles are
//! computed in f64 by the software functions of `libm`, which are the same on every chip, and rounded once to f32.
//!
//! # Source
//! Su et al., "RoFormer" (2021); order of operations as in `kernels/NUMERICS.md`.

use crate::lanes::{Job, Lanes, WIDTH};
use crate::norm::{Norm, norm_in_place};
use crate::panel::Panel;

/// Writes the rotation of one position: `head_dim / 2` cosines, then as many sines.
///
/// `inverse_frequencies` are those of the model, f64, computed by the packer; `out` is twice as long.
pub fn rotation(position: usize, inverse_frequencies: &[f64], out: &mut [f32]) {
    let (cosines, sines) = out.split_at_mut(out.len() / 2);
    for ((frequency, cosine), sine) in inverse_frequencies.iter().zip(cosines).zip(sines) {
        let angle = position as f64 * frequency;
        *cosine = libm::cos(angle) as f32;
        *sine = libm::sin(angle) as f32;
    }
}

/// Rotates one head in place by `rotation` (cosines, then sines; together as long as the head).
#[inline(always)]
pub(crate) fn rotate<L: Lanes>(l: L, rotation: &[f32], x: &mut [f32]) {
    let (low, high) = x.split_at_mut(x.len() / 2);
    let (cosines, sines) = rotation.split_at(rotation.len() / 2);
    let low = low.as_chunks_mut::<WIDTH>().0.iter_mut();
    let high = high.as_chunks_mut::<WIDTH>().0.iter_mut();
    let turns = cosines.as_chunks::<WIDTH>().0.iter().zip(sines.as_chunks::<WIDTH>().0);
    for ((a_out, b_out), (c, s)) in low.zip(high).zip(turns) {
        let (a, b, c, s) = (l.load(a_out), l.load(b_out), l.load(c), l.load(s));
        let minus = l.sub(l.splat(0.0), l.mul(b, s));
        l.store(l.fma(a, c, minus), a_out);
        l.store(l.fma(b, c, l.mul(a, s)), b_out);
    }
}

/// What happens to every query and key head: an optional norm, then the rotation of its position.
#[derive(Clone, Copy, Debug)]
pub struct HeadTurn<'a> {
    /// The norm over a head, for models that have one.
    pub norm: Option<Norm<'a>>,
    /// Rotations of the batch, `[tokens, head_dim]`.
    pub rotations: &'a [f32],
    /// Elements of a head; a multiple of 32.
    pub head_dim: usize,
}

impl HeadTurn<'_> {
    /// Norms and rotates the head of token `token`.
    #[inline(always)]
    pub(crate) fn apply<L: Lanes>(&self, l: L, token: usize, head: &mut [f32]) {
        if let Some(norm) = &self.norm {
            norm_in_place(l, norm, head);
        }
        let start = token * self.head_dim;
        rotate(l, self.rotations.get(start..start + self.head_dim).unwrap_or(&[]), head);
    }
}

/// Norms and rotates query heads in place.
///
/// # Shapes
/// `queries: [tokens, heads · head_dim]`, any number of whole heads.
#[derive(Debug)]
pub struct TurnQueries<'a, 'o> {
    /// What is done to each head.
    pub turn: HeadTurn<'a>,
    /// The heads.
    pub queries: Panel<'o, f32>,
}

impl Job for TurnQueries<'_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, l: L) {
        for token in 0..self.queries.rows() {
            for head in self.queries.row(token).chunks_exact_mut(self.turn.head_dim.max(1)) {
                self.turn.apply(l, token, head);
            }
        }
    }
}

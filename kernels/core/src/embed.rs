//! Embedding lookup: one row of a quantised matrix, back to floats.

use crate::lanes::{Job, Lanes, WIDTH};
use crate::tile::{Block, Tile, TileQ4A32, TileQ4A64, TileQ4S32, TileQ4S64, TileQ8};
use crate::weights::{Format, Weights};

/// Writes row `row` of the matrix as floats: `fma(d, u, m)`, or `d · code` for symmetric formats.
///
/// # Shapes
/// `weights: [rows, columns]`, `row < rows` (beyond, `out` stays as it is), `out: [columns]`, a multiple of 16.
#[derive(Debug)]
pub struct EmbedRow<'a> {
    /// The embedding matrix.
    pub weights: Weights<'a>,
    /// Which row: the token id.
    pub row: usize,
    /// The hidden state.
    pub out: &'a mut [f32],
}

impl EmbedRow<'_> {
    #[inline(always)]
    fn tiles<L: Lanes, T: Tile>(self, l: L) {
        let lane = self.row % WIDTH;
        let tiles: &[T] = self.weights.tiles(self.row / WIDTH);
        for (tile, out) in tiles.iter().zip(self.out.chunks_mut(T::Block::GROUP)) {
            let d = l.load_f16(&[tile.scales()[lane]; WIDTH]);
            let m = match tile.minima() {
                Some(m) => l.load_f16(&[m[lane]; WIDTH]),
                None => l.splat(0.0),
            };
            for (i, out) in out.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
                let codes: [f32; WIDTH] = core::array::from_fn(|j| tile.code(lane, i * WIDTH + j) as f32);
                let value = match tile.minima() {
                    Some(_) => l.fma(d, l.load(&codes), m),
                    None => l.mul(d, l.load(&codes)),
                };
                l.store(value, out);
            }
        }
    }
}

impl Job for EmbedRow<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        match self.weights.format() {
            Format::Q4A64 => self.tiles::<L, TileQ4A64>(l),
            Format::Q4A32 => self.tiles::<L, TileQ4A32>(l),
            Format::Q4S64 => self.tiles::<L, TileQ4S64>(l),
            Format::Q4S32 => self.tiles::<L, TileQ4S32>(l),
            Format::Q8 => self.tiles::<L, TileQ8>(l),
        }
    }
}

//! Putting the keys and values of a batch into the cache.

use super::{HEAD_DIM_MAX, HeadCacheMut, Writable, quantize_head};
use crate::lanes::{Job, Lanes, WIDTH};
use crate::rope::HeadTurn;

/// Keys and values of a batch, `[tokens, width]` each.
#[derive(Clone, Copy, Debug)]
pub struct KeysValues<'a> {
    /// The keys.
    pub keys: &'a [f32],
    /// The values.
    pub values: &'a [f32],
    /// `kv_heads · head_dim`.
    pub width: usize,
}

/// Stores the keys and values of a batch for one KV head, the keys normed and rotated on the way.
///
/// The result says whether everything could be stored: an int8 cache holds no infinity or NaN (a binary16 cache does;
/// attention reports them), and shapes must agree.
///
/// # Shapes
/// `rows`: those of the whole batch; `turn.head_dim ≤` [`HEAD_DIM_MAX`].
#[derive(Debug)]
pub struct StoreHead<'a, 'o> {
    /// What is done to each key.
    pub turn: HeadTurn<'a>,
    /// Keys and values as the projections gave them.
    pub rows: KeysValues<'a>,
    /// Which KV head.
    pub head: usize,
    /// Position of the first token.
    pub position: usize,
    /// The head's cache.
    pub cache: HeadCacheMut<'o>,
}

impl Job for StoreHead<'_, '_> {
    type Out = bool;

    #[inline(always)]
    fn run<L: Lanes>(mut self, l: L) -> bool {
        let head_dim = self.turn.head_dim;
        let columns = self.head * head_dim..(self.head + 1) * head_dim;
        let mut buffer = [0.0; HEAD_DIM_MAX];
        let Some(key) = buffer.get_mut(..head_dim) else { return false };
        let width = self.rows.width.max(1);
        let rows = self.rows.keys.chunks_exact(width).zip(self.rows.values.chunks_exact(width));
        let mut stored = true;
        for (token, (keys, values)) in rows.enumerate() {
            let (Some(k), Some(value)) = (keys.get(columns.clone()), values.get(columns.clone())) else { return false };
            key.copy_from_slice(k);
            self.turn.apply(l, token, key);
            stored &= store(l, &mut self.cache.0, self.position + token, key, value).unwrap_or(false);
        }
        stored
    }
}

/// Stores one position; whether all was finite, `None` if the position lies outside.
#[inline(always)]
fn store<L: Lanes>(l: L, cache: &mut Writable<'_>, position: usize, key: &[f32], value: &[f32]) -> Option<bool> {
    let (tile, lane) = (position / WIDTH, position % WIDTH);
    let vectors = value.len() / WIDTH;
    match cache {
        Writable::F16 { keys, values } => {
            let tile = keys.get_mut(tile * key.len()..(tile + 1) * key.len())?;
            for (x, out) in key.as_chunks::<WIDTH>().0.iter().zip(tile.as_chunks_mut::<WIDTH>().0) {
                let mut half = [0; WIDTH];
                l.store_f16(l.load(x), &mut half);
                for (x, out) in half.iter().zip(out) {
                    out[lane] = *x;
                }
            }
            let row = values.get_mut(position * vectors..(position + 1) * vectors)?;
            for (x, out) in value.as_chunks::<WIDTH>().0.iter().zip(row) {
                l.store_f16(l.load(x), out);
            }
            Some(true)
        }
        Writable::I8 { keys, key_scales, values, value_scales } => {
            let mut q = [0; HEAD_DIM_MAX];
            let (d, key_finite) = quantize_head(l, key, &mut q);
            *key_scales.get_mut(position)? = d;
            let chunks = key.len() / 4;
            let tile = keys.get_mut(tile * chunks..(tile + 1) * chunks)?;
            for (q, out) in q.as_chunks::<4>().0.iter().zip(tile) {
                out.as_chunks_mut::<4>().0[lane] = q.map(|q| q as u8);
            }
            let (d, value_finite) = quantize_head(l, value, &mut q);
            *value_scales.get_mut(position)? = d;
            let row = values.get_mut(position * vectors..(position + 1) * vectors)?;
            row.copy_from_slice(q.as_chunks::<WIDTH>().0.get(..vectors)?);
            Some(key_finite && value_finite)
        }
    }
}

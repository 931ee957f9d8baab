//! The attention cache of one layer and KV head: how keys and values lie in it.
//!
//! Keys live in tiles of 16 positions, dimension-major, so that lanes are positions; values are position-major, so that
//! lanes are dimensions. Elements are binary16, or signed bytes with one f32 scale per position.
//!
//! ```text
//! f16   keys [positions / 16][head_dim][16] u16            · values [positions][head_dim] u16
//! i8    keys [positions / 16][head_dim / 4][16 · 4] i8     · key scales [positions] f32
//!       values [positions][head_dim] i8                    · value scales [positions] f32
//! ```
//!
//! # Source
//! `kernels/NUMERICS.md`, section Attention.

mod store;

pub use store::{KeysValues, StoreHead};

use core::ops::Range;

use crate::lanes::{Lanes, WIDTH};
use crate::quantize::{codes, scale_of};
use crate::reduce::INFINITY_BITS;

/// Largest head that the kernels handle; bounds their stack.
pub const HEAD_DIM_MAX: usize = 256;

/// How the elements of a cache are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheType {
    /// IEEE binary16: 2 bytes an element.
    F16,
    /// Signed bytes and a scale per position and head: 1 byte an element, 4 a head.
    I8,
}

impl CacheType {
    /// Bytes of the keys, or of the values, of one position of one KV head.
    #[must_use]
    pub const fn position_bytes(self, head_dim: usize) -> usize {
        match self {
            Self::F16 => head_dim.saturating_mul(2),
            Self::I8 => head_dim.saturating_add(4),
        }
    }

    /// Bytes of one KV head of one layer.
    #[must_use]
    pub const fn head_bytes(self, head_dim: usize, positions: usize) -> usize {
        2 * self.position_bytes(head_dim) * positions
    }

    /// Where the first `count` positions lie in the cache of one KV head that has room for `positions`: the bytes of their
    /// keys, key scales, values and value scales. Put one behind the other they are a cache of `count` positions. Both
    /// numbers are multiples of 16.
    #[must_use]
    pub const fn pieces(self, head_dim: usize, positions: usize, count: usize) -> [Range<usize>; 4] {
        let half = self.position_bytes(head_dim) * positions;
        let (element, scale) = match self {
            Self::F16 => (2, 0),
            Self::I8 => (1, 4),
        };
        let scales = head_dim * element * positions;
        let (elements_len, scales_len) = (head_dim * element * count, scale * count);
        [
            0..elements_len,
            scales..scales + scales_len,
            half..half + elements_len,
            half + scales..half + scales + scales_len,
        ]
    }

    /// Zeroes what a cache of `positions` positions has from position `from` on, as far as that is in its last tile; the
    /// bytes of a position in one tile lie between those of others.
    pub fn clear_from(self, head_dim: usize, positions: usize, from: usize, head: &mut [u8]) {
        let [keys, key_scales, values, value_scales] = self.pieces(head_dim, positions, positions);
        let (lane, row) = match self {
            Self::F16 => (2, head_dim * 2),
            Self::I8 => (4, head_dim),
        };
        let mut clear = |range: Range<usize>, unit: usize, stride: usize| {
            for piece in head.get_mut(range).unwrap_or_default().chunks_mut(stride.max(1)) {
                piece.iter_mut().skip(unit).for_each(|byte| *byte = 0);
            }
        };
        let tile = from / WIDTH;
        let lanes = from % WIDTH;
        // Of the tile, the lanes from the position on; everything behind is nobody's.
        let tile_bytes = row * WIDTH;
        clear(keys.start + tile * tile_bytes..keys.end, lanes * lane, WIDTH * lane);
        clear(values.start + from * row..values.end, 0, usize::MAX);
        if matches!(self, Self::I8) {
            clear(key_scales.start + from * 4..key_scales.end, 0, usize::MAX);
            clear(value_scales.start + from * 4..value_scales.end, 0, usize::MAX);
        }
    }
}

/// The cached keys and values of one layer and KV head, for reading.
#[derive(Clone, Copy, Debug)]
pub enum HeadCache<'a> {
    /// Binary16.
    F16(CacheF16<'a>),
    /// Signed bytes.
    I8(CacheI8<'a>),
}

/// A binary16 cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheF16<'a> {
    /// `[positions / 16 · head_dim]`: one dimension of 16 positions.
    pub(crate) keys: &'a [[u16; WIDTH]],
    /// `[positions · head_dim / 16]`: 16 dimensions of one position.
    pub(crate) values: &'a [[u16; WIDTH]],
}

/// A cache of signed bytes.
#[derive(Clone, Copy, Debug)]
pub struct CacheI8<'a> {
    /// `[positions / 16 · head_dim / 4]`: 4 dimensions of 16 positions.
    pub(crate) keys: &'a [[u8; 64]],
    /// `[positions / 16]`.
    pub(crate) key_scales: &'a [[f32; WIDTH]],
    /// `[positions · head_dim / 16]`: 16 dimensions of one position.
    pub(crate) values: &'a [[i8; WIDTH]],
    /// `[positions]`.
    pub(crate) value_scales: &'a [f32],
}

impl<'a> HeadCache<'a> {
    /// A view of the cache of `positions` positions in `data`. `None` unless the data has
    /// [`CacheType::head_bytes`] bytes and is 4-byte aligned, and `positions` and `head_dim` are multiples of 16.
    #[must_use]
    pub fn new(kind: CacheType, head_dim: usize, positions: usize, data: &'a [u8]) -> Option<Self> {
        let (keys, values) = halves(kind, head_dim, positions, data.len()).map(|half| data.split_at(half))?;
        Some(match kind {
            CacheType::F16 => Self::F16(CacheF16 {
                keys: bytemuck::try_cast_slice(keys).ok()?,
                values: bytemuck::try_cast_slice(values).ok()?,
            }),
            CacheType::I8 => {
                let (keys, key_scales) = keys.split_at_checked(positions * head_dim)?;
                let (values, value_scales) = values.split_at_checked(positions * head_dim)?;
                Self::I8(CacheI8 {
                    keys: bytemuck::try_cast_slice(keys).ok()?,
                    key_scales: bytemuck::try_cast_slice(key_scales).ok()?,
                    values: bytemuck::try_cast_slice(values).ok()?,
                    value_scales: bytemuck::try_cast_slice(value_scales).ok()?,
                })
            }
        })
    }

    /// The bytes of the keys and of the values of `count` positions from `start` on, as far as they are cached, without
    /// their scales.
    #[must_use]
    pub fn elements(&self, head_dim: usize, start: usize, count: usize) -> [&'a [u8]; 2] {
        let (keys, values, element): (&[u8], &[u8], _) = match self {
            Self::F16(cache) => (bytemuck::cast_slice(cache.keys), bytemuck::cast_slice(cache.values), 2),
            Self::I8(cache) => (bytemuck::cast_slice(cache.keys), bytemuck::cast_slice(cache.values), 1),
        };
        [keys, values].map(|half| {
            let bytes = |positions: usize| positions.saturating_mul(head_dim * element).min(half.len());
            half.get(bytes(start)..bytes(start.saturating_add(count))).unwrap_or(&[])
        })
    }
}

/// The cache of one layer and KV head, for writing.
#[derive(Debug)]
pub struct HeadCacheMut<'a>(Writable<'a>);

/// Writable views, shaped like those of [`HeadCache`].
#[derive(Debug)]
enum Writable<'a> {
    F16 {
        keys: &'a mut [[u16; WIDTH]],
        values: &'a mut [[u16; WIDTH]],
    },
    I8 {
        keys: &'a mut [[u8; 64]],
        key_scales: &'a mut [f32],
        values: &'a mut [[i8; WIDTH]],
        value_scales: &'a mut [f32],
    },
}

impl<'a> HeadCacheMut<'a> {
    /// A writable view, under the conditions of [`HeadCache::new`].
    #[must_use]
    pub fn new(kind: CacheType, head_dim: usize, positions: usize, data: &'a mut [u8]) -> Option<Self> {
        let half = halves(kind, head_dim, positions, data.len())?;
        let (keys, values) = data.split_at_mut(half);
        Some(Self(match kind {
            CacheType::F16 => Writable::F16 {
                keys: bytemuck::try_cast_slice_mut(keys).ok()?,
                values: bytemuck::try_cast_slice_mut(values).ok()?,
            },
            CacheType::I8 => {
                let (keys, key_scales) = keys.split_at_mut_checked(positions * head_dim)?;
                let (values, value_scales) = values.split_at_mut_checked(positions * head_dim)?;
                Writable::I8 {
                    keys: bytemuck::try_cast_slice_mut(keys).ok()?,
                    key_scales: bytemuck::try_cast_slice_mut(key_scales).ok()?,
                    values: bytemuck::try_cast_slice_mut(values).ok()?,
                    value_scales: bytemuck::try_cast_slice_mut(value_scales).ok()?,
                }
            }
        }))
    }
}

/// Where the values begin, if `bytes` is the size of such a cache.
fn halves(kind: CacheType, head_dim: usize, positions: usize, bytes: usize) -> Option<usize> {
    let half = kind.position_bytes(head_dim).checked_mul(positions)?;
    let whole = positions.is_multiple_of(WIDTH) && head_dim.is_multiple_of(WIDTH) && half.checked_mul(2)? == bytes;
    whole.then_some(half)
}

/// Quantises a head's values with one scale for all; codes of `x`, the scale, and whether all were finite.
#[inline(always)]
pub(crate) fn quantize_head<L: Lanes>(l: L, x: &[f32], out: &mut [i8; HEAD_DIM_MAX]) -> (f32, bool) {
    let x = x.as_chunks::<WIDTH>().0;
    let mut bits = l.splat_i(0);
    for x in x {
        bits = l.max_i(bits, l.abs_bits(l.load(x)));
    }
    let amax = l.reduce_max_i(bits);
    let (d, factor) = scale_of(f32::from_bits(amax as u32));
    for (x, out) in x.iter().zip(out.as_chunks_mut::<WIDTH>().0) {
        l.store_i8(codes(l, l.load(x), factor), out);
    }
    (d, amax < INFINITY_BITS)
}

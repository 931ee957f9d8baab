//! The two products of attention, query · key and weight · value, for each type of cache.

use super::CHUNK;
use crate::ahead::Ahead;
use crate::cache::{CacheF16, CacheI8, HEAD_DIM_MAX, quantize_head};
use crate::lanes::{Lanes, WIDTH};

/// Softmax weights of a chunk for one head.
type Weights = [[f32; WIDTH]; CHUNK / WIDTH];

/// Keys of neighbouring positions: their first tile, and the elements of a key.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) tile: usize,
    pub(super) dim: usize,
}

/// A type of cache, seen by attention.
pub(super) trait Cached {
    /// A query head in the form in which it meets the keys.
    type Query;

    /// Prepares `N` heads; whether they were finite.
    fn queries<L: Lanes, const N: usize>(l: L, heads: &[f32], dim: usize) -> ([Self::Query; N], bool);

    /// Products of `N` queries with the 16 keys of each of `T` tiles, not yet scaled by 1/√head_dim, while so many lines
    /// are asked for.
    fn scores<L: Lanes, const N: usize, const T: usize>(
        &self,
        l: L,
        keys: Keys,
        queries: &[Self::Query; N],
        ahead: (&mut Ahead<'_>, usize),
    ) -> [[L::F; N]; T];

    /// Multiplies the weights of `count` positions from `start` on with the scales of their values, if they have any.
    fn scale_weights<const N: usize>(&self, start: usize, count: usize, p: &mut [Weights; N]);

    /// Sixteen dimensions of a position.
    type Value;

    /// The values, `[positions, head_dim / 16]`.
    fn values(&self) -> &[Self::Value];

    /// A value as floats, without its scale.
    fn value<L: Lanes>(l: L, value: &Self::Value) -> L::F;

    /// `Σ p_t · v_t` over the `count` positions from `start` on, in order, for `V` vectors from `vector` on of the
    /// `vectors` in a head.
    #[inline(always)]
    fn weighted_sum<L: Lanes, const N: usize, const V: usize>(
        &self,
        l: L,
        p: &[Weights; N],
        (start, count): (usize, usize),
        (vector, vectors): (usize, usize),
        (ahead, pace): (&mut Ahead<'_>, usize),
    ) -> [[L::F; N]; V] {
        let values = self.values().get(start * vectors..).unwrap_or(&[]);
        let mut acc = [[l.splat(0.0); N]; V];
        for (tile, values) in values.chunks(WIDTH * vectors.max(1)).take(count.min(CHUNK).div_ceil(WIDTH)).enumerate() {
            let mut ahead = ahead.take(1, pace * V);
            let left = count - tile * WIDTH;
            for (t, values) in values.chunks_exact(vectors.max(1)).take(left).enumerate() {
                ahead.fetch(l);
                let Some(values) = values.get(vector..).and_then(|values| values.first_chunk::<V>()) else { break };
                let mut value = [l.splat(0.0); V];
                for v in 0..V {
                    value[v] = Self::value(l, &values[v]);
                }
                for n in 0..N {
                    let p = l.splat(p[n][tile % (CHUNK / WIDTH)][t % WIDTH]);
                    for v in 0..V {
                        acc[v][n] = l.fma(p, value[v], acc[v][n]);
                    }
                }
            }
        }
        acc
    }
}

impl Cached for CacheF16<'_> {
    type Query = [f32; HEAD_DIM_MAX];

    #[inline(always)]
    fn queries<L: Lanes, const N: usize>(_: L, heads: &[f32], dim: usize) -> ([Self::Query; N], bool) {
        let mut queries = [[0.0; HEAD_DIM_MAX]; N];
        for (query, head) in queries.iter_mut().zip(heads.chunks_exact(dim.max(1))) {
            for (q, x) in query.iter_mut().zip(head) {
                *q = *x;
            }
        }
        (queries, true)
    }

    #[inline(always)]
    fn scores<L: Lanes, const N: usize, const T: usize>(
        &self,
        l: L,
        Keys { tile, dim }: Keys,
        queries: &[Self::Query; N],
        (ahead, lines): (&mut Ahead<'_>, usize),
    ) -> [[L::F; N]; T] {
        let mut acc = [[l.splat(0.0); N]; T];
        let tiles: [&[[u16; WIDTH]]; T] =
            core::array::from_fn(|t| self.keys.get((tile + t) * dim..(tile + t + 1) * dim).unwrap_or(&[]));
        let mut ahead = ahead.take(0, lines);
        for j in 0..dim {
            ahead.fetch(l);
            let mut key = [l.splat(0.0); T];
            for t in 0..T {
                let Some(of_tile) = tiles[t].get(j) else { return acc };
                key[t] = l.load_f16(of_tile);
            }
            for n in 0..N {
                let q = l.splat(queries[n][j % HEAD_DIM_MAX]);
                for t in 0..T {
                    acc[t][n] = l.fma(q, key[t], acc[t][n]);
                }
            }
        }
        acc
    }

    #[inline(always)]
    fn scale_weights<const N: usize>(&self, _: usize, _: usize, _: &mut [Weights; N]) {}

    type Value = [u16; WIDTH];

    #[inline(always)]
    fn values(&self) -> &[Self::Value] {
        self.values
    }

    #[inline(always)]
    fn value<L: Lanes>(l: L, value: &Self::Value) -> L::F {
        l.load_f16(value)
    }
}

/// A query head as signed bytes with its scale.
pub(super) struct QueryI8 {
    codes: [i8; HEAD_DIM_MAX],
    sum: i32,
    d: f32,
}

impl Cached for CacheI8<'_> {
    type Query = QueryI8;

    #[inline(always)]
    fn queries<L: Lanes, const N: usize>(l: L, heads: &[f32], dim: usize) -> ([Self::Query; N], bool) {
        let mut finite = true;
        let mut heads = heads.chunks_exact(dim.max(1));
        let mut queries = [const { QueryI8 { codes: [0; HEAD_DIM_MAX], sum: 0, d: 0.0 } }; N];
        for query in &mut queries {
            let (d, head_finite) = quantize_head(l, heads.next().unwrap_or(&[]), &mut query.codes);
            finite &= head_finite;
            (query.d, query.sum) = (d, query.codes.iter().map(|&q| i32::from(q)).sum());
        }
        (queries, finite)
    }

    #[inline(always)]
    fn scores<L: Lanes, const N: usize, const T: usize>(
        &self,
        l: L,
        Keys { tile, dim }: Keys,
        queries: &[Self::Query; N],
        (ahead, lines): (&mut Ahead<'_>, usize),
    ) -> [[L::F; N]; T] {
        let chunks = dim / 4;
        let mut scores = [[l.splat(0.0); N]; T];
        for (tile, scores) in (tile..).zip(&mut scores) {
            let mut ahead = ahead.take(0, lines.div_ceil(T));
            let mut acc = [l.splat_i(0); N];
            for n in 0..N {
                acc[n] = l.splat_i(L::BYTES_BIAS.wrapping_mul(queries[n].sum).wrapping_neg());
            }
            for (c, key) in self.keys.get(tile * chunks..(tile + 1) * chunks).unwrap_or(&[]).iter().enumerate() {
                // Four elements at once, so two lines for each of them.
                ahead.fetch(l);
                ahead.fetch(l);
                let key = l.bytes(key);
                for n in 0..N {
                    let codes = queries[n].codes.as_chunks::<4>().0;
                    acc[n] = l.dot_bytes(acc[n], key, &codes[c % (HEAD_DIM_MAX / 4)]);
                }
            }
            let d_k = l.load(self.key_scales.get(tile).unwrap_or(&[0.0; WIDTH]));
            for n in 0..N {
                scores[n] = l.mul(l.to_f(acc[n]), l.mul(l.splat(queries[n].d), d_k));
            }
        }
        scores
    }

    #[inline(always)]
    fn scale_weights<const N: usize>(&self, start: usize, count: usize, p: &mut [Weights; N]) {
        for p in p {
            let scales = self.value_scales.get(start..).unwrap_or(&[]);
            for (p, d) in p.as_flattened_mut().iter_mut().zip(scales).take(count) {
                *p *= d;
            }
        }
    }

    type Value = [i8; WIDTH];

    #[inline(always)]
    fn values(&self) -> &[Self::Value] {
        self.values
    }

    #[inline(always)]
    fn value<L: Lanes>(l: L, value: &Self::Value) -> L::F {
        l.to_f(l.load_i8(value))
    }
}

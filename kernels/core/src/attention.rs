//! Attention of a group of query heads over the cache of their KV head, in fixed chunks of positions.
//!
//! A chunk of 256 positions gives, per query head, the partial result `o = Σ p·v` with its `m = max s` and `l = Σ p`,
//! where `p = exp(s − m)`; [`Join`] adds the chunks in order. Chunks begin at multiples of 256 from position 0, so the
//! split does not depend on who computes it, and idle workers can take chunks of one token.
//!
//! # Source
//! `kernels/NUMERICS.md`, section Attention; the join as in Milakov and Gimelshein, "Online normalizer calculation for
//! softmax" (2018).

mod join;
mod scores;

pub use join::Join;

use crate::ahead::Ahead;
use crate::cache::{HEAD_DIM_MAX, HeadCache};
use crate::exp::exp;
use crate::lanes::{Job, Lanes, WIDTH};
use crate::reduce::{INFINITY_BITS, fold, largest};
use scores::{Cached, Keys};

/// Positions in a chunk; part of the arithmetic contract.
pub const CHUNK: usize = 256;

/// Floats of one head's partial result: `o`, then `m`, `l` and padding.
#[must_use]
pub const fn partial_len(head_dim: usize) -> usize {
    head_dim + WIDTH
}

/// Number of chunks that `positions` positions are cut into.
#[must_use]
pub const fn chunks(positions: usize) -> usize {
    positions.div_ceil(CHUNK)
}

/// The query heads that share a KV head, for one token.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// The heads, `[heads, head_dim]`, normed and rotated.
    pub heads: &'a [f32],
    /// Elements of a head: a multiple of 32, at most [`HEAD_DIM_MAX`].
    pub head_dim: usize,
    /// How many positions the token sees: its own and all before.
    pub positions: usize,
}

/// Attends one chunk. The result says whether all scores were finite.
///
/// # Shapes
/// `partials: [heads, partial_len(head_dim)]`.
#[derive(Debug)]
pub struct Attend<'a, 'o> {
    /// The query heads.
    pub queries: Queries<'a>,
    /// Their KV head's cache.
    pub cache: HeadCache<'a>,
    /// Which chunk of positions; it holds at least one that the token sees.
    pub chunk: usize,
    /// What will be read next: keys, which are asked for during the scores, and values, during the weighted sums.
    pub ahead: Ahead<'a>,
    /// The partial results.
    pub partials: &'o mut [f32],
}

impl Job for Attend<'_, '_> {
    type Out = bool;

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> bool {
        match self.cache {
            HeadCache::F16(cache) => group(l, &cache, &self.queries, self.chunk, (self.partials, self.ahead)),
            HeadCache::I8(cache) => group(l, &cache, &self.queries, self.chunk, (self.partials, self.ahead)),
        }
    }
}

/// All heads of a group, several at a time, so that a cached element is loaded once for them.
#[inline(always)]
fn group<L: Lanes, C: Cached>(
    l: L,
    cache: &C,
    queries: &Queries<'_>,
    chunk: usize,
    (partials, mut ahead): (&mut [f32], Ahead<'_>),
) -> bool {
    let dim = queries.head_dim.min(HEAD_DIM_MAX);
    let mut heads = queries.heads;
    let mut partials = partials;
    let mut finite = true;
    loop {
        // As many heads as leave their sums in registers.
        let count = match heads.len() / dim.max(1) {
            0 => return finite,
            7 if L::COLUMNS >= 8 => 7,
            few @ 1..=3 => few,
            _ => 4,
        };
        let (Some((now, later)), Some((out, rest))) = (
            heads.split_at_checked(count * dim),
            core::mem::take(&mut partials).split_at_mut_checked(count * partial_len(dim)),
        ) else {
            return false;
        };
        let span = Span { dim, start: chunk * CHUNK, positions: queries.positions };
        finite &= match count {
            1 => heads_of_chunk::<L, C, 1>(l, cache, now, &span, (out, &mut ahead)),
            2 => heads_of_chunk::<L, C, 2>(l, cache, now, &span, (out, &mut ahead)),
            3 => heads_of_chunk::<L, C, 3>(l, cache, now, &span, (out, &mut ahead)),
            7 => heads_of_chunk::<L, C, 7>(l, cache, now, &span, (out, &mut ahead)),
            _ => heads_of_chunk::<L, C, 4>(l, cache, now, &span, (out, &mut ahead)),
        };
        heads = later;
        partials = rest;
    }
}

/// The part of the cache that a call looks at.
struct Span {
    dim: usize,
    start: usize,
    positions: usize,
}

#[inline(always)]
fn heads_of_chunk<L: Lanes, C: Cached, const N: usize>(
    l: L,
    cache: &C,
    heads: &[f32],
    span: &Span,
    (out, ahead): (&mut [f32], &mut Ahead<'_>),
) -> bool {
    let count = span.positions.saturating_sub(span.start).min(CHUNK);
    let tiles = count.div_ceil(WIDTH);
    let mut p = [[[0.0f32; WIDTH]; CHUNK / WIDTH]; N];
    let (queries, mut finite) = C::queries::<L, N>(l, heads, span.dim);
    let scale = l.splat(1.0 / libm::sqrtf(span.dim as f32));
    let vectors = span.dim / WIDTH;
    let of_keys = ahead.lines_of(0).div_ceil(tiles.max(1));
    let pace = ahead.lines_of(1).div_ceil((tiles * vectors).max(1));
    let mut tile = 0;
    // Where there are registers for the sums of two tiles, an element of a query is loaded once for both.
    while L::COLUMNS >= 8 && tiles - tile >= 2 {
        let keys = Keys { tile: span.start / WIDTH + tile, dim: span.dim };
        let scores = cache.scores::<L, N, 2>(l, keys, &queries, (ahead, 2 * of_keys));
        store(l, scale, scores, tile, &mut p);
        tile += 2;
    }
    while tiles > tile {
        let keys = Keys { tile: span.start / WIDTH + tile, dim: span.dim };
        let scores = cache.scores::<L, N, 1>(l, keys, &queries, (ahead, of_keys));
        store(l, scale, scores, tile, &mut p);
        tile += 1;
    }
    let (partials, _) = out.as_chunks_mut::<WIDTH>();
    for (p, partial) in p.iter_mut().zip(partials.chunks_exact_mut(vectors + 1)) {
        let (Some(p), Some((last, _))) = (p.get_mut(..tiles), partial.split_last_mut()) else { return false };
        let (m, sum, head_finite) = softmax(l, p, count);
        finite &= head_finite;
        *last = [0.0; WIDTH];
        (last[0], last[1]) = (m, sum);
    }
    cache.scale_weights(span.start, count, &mut p);
    let mut weighted = Weighted { p: &p, positions: (span.start, count), vectors, partials };
    let mut vector = 0;
    // Where there are registers for the sums of two vectors, a weight is loaded once for both.
    while L::COLUMNS >= 8 && vectors - vector >= 2 {
        weighted.sum::<L, C, 2>(l, cache, vector, (ahead, pace));
        vector += 2;
    }
    while vectors > vector {
        weighted.sum::<L, C, 1>(l, cache, vector, (ahead, pace));
        vector += 1;
    }
    finite
}

/// Scales the scores of neighbouring tiles and stores them.
#[inline(always)]
fn store<L: Lanes, const N: usize, const T: usize>(
    l: L,
    scale: L::F,
    scores: [[L::F; N]; T],
    tile: usize,
    p: &mut [[[f32; WIDTH]; CHUNK / WIDTH]; N],
) {
    for (t, scores) in scores.into_iter().enumerate() {
        for (p, scores) in p.iter_mut().zip(scores) {
            l.store(l.mul(scores, scale), &mut p[(tile + t) % (CHUNK / WIDTH)]);
        }
    }
}

/// Where the weights of a chunk are, and where its weighted sums go.
struct Weighted<'a, const N: usize> {
    p: &'a [[[f32; WIDTH]; CHUNK / WIDTH]; N],
    positions: (usize, usize),
    vectors: usize,
    partials: &'a mut [[f32; WIDTH]],
}

impl<const N: usize> Weighted<'_, N> {
    /// Sums `V` vectors of each head, from vector `vector` on.
    #[inline(always)]
    fn sum<L: Lanes, C: Cached, const V: usize>(
        &mut self,
        l: L,
        cache: &C,
        vector: usize,
        ahead: (&mut Ahead<'_>, usize),
    ) {
        let vectors = self.vectors;
        let sums = cache.weighted_sum::<L, N, V>(l, self.p, self.positions, (vector, vectors), ahead);
        for (v, sums) in sums.into_iter().enumerate() {
            for (partial, sum) in self.partials.chunks_exact_mut(vectors + 1).zip(sums) {
                if let Some(out) = partial.get_mut(vector + v) {
                    l.store(sum, out);
                }
            }
        }
    }
}

/// Turns the scores of a chunk into `exp(s − m)`; gives `m`, their sum, and whether the scores were finite.
///
/// Lanes beyond `count` hold whatever the cache held there, so they first take the first score, which changes neither
/// maximum nor finiteness, and end as +0, which changes no sum.
#[inline(always)]
fn softmax<L: Lanes>(l: L, p: &mut [[f32; WIDTH]], count: usize) -> (f32, f32, bool) {
    let flat = p.as_flattened_mut();
    let first = flat.first().copied().unwrap_or(0.0);
    flat.iter_mut().skip(count).for_each(|s| *s = first);
    let mut most = l.splat(f32::NEG_INFINITY);
    let mut bits = l.splat_i(0);
    for s in p.iter() {
        let s = l.load(s);
        most = l.max(most, s);
        bits = l.max_i(bits, l.abs_bits(s));
    }
    let m = largest(l, most);
    for s in p.iter_mut() {
        let e = exp(l, l.sub(l.load(s), l.splat(m)));
        l.store(e, s);
    }
    p.as_flattened_mut().iter_mut().skip(count).for_each(|s| *s = 0.0);
    let mut sum = l.splat(0.0);
    for e in p.iter() {
        sum = l.add(sum, l.load(e));
    }
    (m, fold(l, sum), l.reduce_max_i(bits) < INFINITY_BITS)
}

//! Batches on lanes: codes are unpacked once for many tokens.
//!
//! With a few tokens a weight tile is unpacked in registers, for as many columns as have room there. With more of them
//! that is work done again and again: here the codes of a few groups go through memory, in the nearest cache, and are
//! multiplied with all tokens of the batch before the next ones are unpacked. Sums wait in memory meanwhile; each is
//! still added up in the order of the contract.
//!
//! # Source
//! `kernels/NUMERICS.md`, sections Weights and Matrix × vector.

use crate::ahead::Ahead;
use crate::lanes::{Lanes, WIDTH};
use crate::matmul::Matmul;
use crate::quantize::Activations;
use crate::tile::{Block, Tile, TileQ4A32, TileQ4A64, TileQ4S32, TileQ4S64, TileQ8, Unpacked};
use crate::weights::Format;
use core::hint::black_box;

/// Tokens that share unpacked codes.
const TOKENS: usize = 64;
/// Groups whose codes are unpacked at once.
const PART: usize = 4;
/// Row groups that are finished together: gate and up, or two neighbours.
const MATRICES: usize = 2;

/// One tile, ready to be multiplied.
#[derive(Clone, Copy)]
struct Ready {
    codes: Unpacked,
    scales: [f32; WIDTH],
    minima: [f32; WIDTH],
}

/// What a batch is computed with, to be used again: the tiles of a part, and for each token the sums so far.
struct Room {
    ready: [[Ready; MATRICES]; PART],
    sums: [[[f32; WIDTH]; MATRICES]; TOKENS],
}

impl Room {
    const EMPTY: Self = Self {
        ready: [[Ready { codes: Unpacked::EMPTY, scales: [0.0; WIDTH], minima: [0.0; WIDTH] }; MATRICES]; PART],
        sums: [[[0.0; WIDTH]; MATRICES]; TOKENS],
    };
}

/// A product whose format is known.
struct Typed<'a, 'o, 'x, L, B> {
    l: L,
    matmul: Matmul<'a, 'o>,
    x: &'x [B],
    room: &'x mut Room,
}

/// Tokens of the batch that are multiplied with the same unpacked codes.
#[derive(Clone, Copy)]
struct Tokens {
    first: usize,
    count: usize,
}

impl<'a, L: Lanes, B: Block> Typed<'a, '_, '_, L, B> {
    /// Adds up the products of `M` row groups from matrix `matrix` on with some tokens.
    #[inline(always)]
    fn row_groups<T: Tile<Block = B>, const N: usize, const M: usize>(
        &mut self,
        row_groups: [&[T]; M],
        matrix: usize,
        tokens: Tokens,
        (ahead, pace): (&mut Ahead<'a>, usize),
    ) {
        let groups = row_groups.first().map_or(0, |tiles| tiles.len());
        for start in (0..groups).step_by(PART) {
            let count = PART.min(groups - start);
            for (m, tiles) in row_groups.iter().enumerate() {
                for (ready, tile) in self.room.ready.iter_mut().zip(tiles.get(start..).unwrap_or(&[])) {
                    let ready = &mut ready[m];
                    tile.unpack(self.l, &mut ready.codes);
                    self.l.store(self.l.load_f16(tile.scales()), &mut ready.scales);
                    if let Some(minima) = tile.minima() {
                        self.l.store(self.l.load_f16(minima), &mut ready.minima);
                    }
                }
            }
            for token in (0..tokens.count).step_by(N) {
                ahead.fetch(self.l, pace);
                let x = self.x.get((tokens.first + token) * groups + start..).unwrap_or(&[]);
                self.columns::<T, N, M>((x, groups), (matrix, token), count, start == 0);
            }
        }
    }

    /// Adds the products of `count` groups with `N` tokens, whose blocks `x` begins with.
    #[inline(always)]
    fn columns<T: Tile<Block = B>, const N: usize, const M: usize>(
        &mut self,
        (x, stride): (&[B], usize),
        (matrix, token): (usize, usize),
        count: usize,
        fresh: bool,
    ) {
        let l = self.l;
        let Room { ready, sums } = &mut *self.room;
        let Some(sums) = sums.get_mut(token..).and_then(|sums| sums.first_chunk_mut::<N>()) else { return };
        for (s, ready) in ready.iter().enumerate().take(count) {
            let Some(first) = x.get(s) else { return };
            let mut blocks = [first; N];
            for (n, block) in blocks.iter_mut().enumerate() {
                let Some(found) = x.get(n * stride + s) else { return };
                *block = found;
            }
            // Rows at one stride are one row to the compiler, and then it computes addresses instead of keeping them.
            let blocks = black_box(blocks);
            let mut codes = [&ready[0].codes; M];
            for m in 0..M {
                codes[m] = &ready[m].codes;
            }
            let dots = T::dot_unpacked(l, codes, &blocks);
            // And sums of several groups would take the registers that this group's are in.
            let sums = black_box(&mut *sums);
            for m in 0..M {
                let d_w = l.load(&ready[m].scales);
                let m_w = l.load(&ready[m].minima);
                for n in 0..N {
                    let sum = &mut sums[n][(matrix + m) % MATRICES];
                    let acc = if fresh && s == 0 { l.splat(0.0) } else { l.load(sum) };
                    let d = l.mul(d_w, l.splat(blocks[n].scale()));
                    let mut acc = l.fma(d, l.to_f(dots[m][n]), acc);
                    if T::ASYMMETRIC {
                        acc = l.fma(m_w, l.splat(blocks[n].scaled_sum()), acc);
                    }
                    l.store(acc, sum);
                }
            }
        }
    }

    /// Everything, `N` tokens at once.
    #[inline(always)]
    fn run<T: Tile<Block = B>, const N: usize>(&mut self) {
        let l = self.l;
        let whole = self.matmul.out.rows() / N * N;
        let most = TOKENS / N * N;
        let count = self.matmul.out.width().div_ceil(WIDTH);
        let mut group = 0;
        while group < count {
            let tiles = self.matmul.weights.tiles::<T>(self.matmul.row_group + group);
            let (second, together) = self.matmul.second::<T>(group, L::PAIRS);
            let mut ahead = self.matmul.next(group + together - 1);
            let passes = if L::PAIRS || second.is_none() { 1 } else { MATRICES };
            let steps = tiles.len().div_ceil(PART) * whole.div_ceil(N) * passes;
            let pace = ahead.lines().div_ceil(steps.max(1));
            for first in (0..whole).step_by(most) {
                let tokens = Tokens { first, count: (whole - first).min(most) };
                match second {
                    Some(second) if L::PAIRS => {
                        self.row_groups::<T, N, 2>([tiles, second], 0, tokens, (&mut ahead, pace));
                    }
                    _ => {
                        for (matrix, tiles) in [Some(tiles), second].into_iter().flatten().enumerate() {
                            self.row_groups::<T, N, 1>([tiles], matrix, tokens, (&mut ahead, pace));
                        }
                    }
                }
                let Self { room, matmul, .. } = self;
                for (n, [a, b]) in room.sums.iter().enumerate().take(tokens.count) {
                    matmul.finish_both(l, (group, together), first + n, [l.load(a), l.load(b)]);
                }
            }
            for group in group..group + together {
                self.matmul.rest(l, group, whole, &mut Ahead::default(), 0);
            }
            group += together;
        }
    }
}

/// A product with many tokens; gives back one that is not for this way: few tokens, or gate and up of different formats.
#[inline(always)]
pub(crate) fn matmul<'a, 'o, L: Lanes>(l: L, matmul: Matmul<'a, 'o>) -> Option<Matmul<'a, 'o>> {
    if matmul.is_mixed() || !L::BATCHED || matmul.out.rows() < 2 * L::COLUMNS {
        return Some(matmul);
    }
    let mut room = Room::EMPTY;
    macro_rules! typed {
        ($tile:ty, $x:ident) => {{
            let mut typed = Typed { l, matmul, x: $x, room: &mut room };
            match L::COLUMNS {
                8.. => typed.run::<$tile, 8>(),
                6.. => typed.run::<$tile, 6>(),
                _ => typed.run::<$tile, 4>(),
            }
            None
        }};
    }
    match (matmul.weights.format(), matmul.x) {
        (Format::Q4A64, Activations::G64(x)) => typed!(TileQ4A64, x),
        (Format::Q4S64, Activations::G64(x)) => typed!(TileQ4S64, x),
        (Format::Q4A32, Activations::G32(x)) => typed!(TileQ4A32, x),
        (Format::Q4S32, Activations::G32(x)) => typed!(TileQ4S32, x),
        (Format::Q8, Activations::G32(x)) => typed!(TileQ8, x),
        _ => Some(matmul),
    }
}

//! Batches on a unit that multiplies a whole weight tile with sixteen tokens at once.
//!
//! Such a unit (AMX, say) gives 16 × 16 exact sums of one quantisation group in the time in which lanes give a few, so
//! what is left to do is to scale and to add the sums, in the order of the contract. Codes are unpacked to bytes once
//! for all tokens of a block; panels of a few groups keep bytes, activations and sums in the nearest cache.
//!
//! # Source
//! `kernels/NUMERICS.md`, sections Weights and Matrix × vector.

use crate::ahead::Ahead;
use crate::lanes::{Job, Lanes, WIDTH};
use crate::matmul::Matmul;
use crate::quantize::Activations;
use crate::tile::{Block, Tile, TileQ4A32, TileQ4A64, TileQ4S32, TileQ4S64, TileQ8};
use crate::weights::Format;

/// Tokens that are multiplied at once.
pub const COLUMNS: usize = 16;
/// Of which so many have their sums scaled while those of two row groups are in registers.
const PART: usize = 8;
/// Groups whose codes are unpacked at once.
const SLOTS: usize = 2;
/// Row groups that are multiplied with a panel of activations while it is in the nearest cache.
const MATRICES: usize = 2;
/// Times 16 tokens that share unpacked codes.
const BLOCKS: usize = 4;

/// The weights of a tile as signed bytes: byte `lane·4 + i` of row `r` is column `4r + i`. Groups of 32 fill half.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Bytes(pub [[u8; 64]; 16]);

/// Sums of 16 tokens, each with 16 rows of a matrix.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Square(pub [[i32; WIDTH]; COLUMNS]);

/// Lanes beside a unit for such squares.
pub trait Grid: Lanes {
    /// The unit, set up for groups of one size. Dropping it leaves the processor as it was.
    type Unit<B: Block>;

    /// Sets the unit up.
    ///
    /// # Safety
    /// No other unit may be in use on this thread until this one is dropped.
    unsafe fn open<B: Block>(self) -> Self::Unit<B>;
    /// Exact dot products of the rows of `M` tiles with blocks 0, `stride`, `2 · stride`, … of `x`, one for each of 16
    /// tokens. Does nothing if they do not all exist.
    fn squares<B: Block, const M: usize>(
        self,
        unit: &Self::Unit<B>,
        weights: &[Bytes; M],
        x: &[B],
        stride: usize,
        out: &mut [Square; M],
    );
    /// The low and the high halves of bytes, each decreased by `bias`.
    fn nibbles(self, bytes: &[u8; 64], bias: u8, out: &mut [[u8; 64]; 2]);
    /// One token's sums.
    fn sums(self, sums: &[i32; WIDTH]) -> Self::I;
}

/// A [`Matmul`] on the unit of `grid`; tokens that are no whole sixteen, and what the unit has no kernel for, go through
/// its lanes.
#[derive(Debug)]
pub struct GridMatmul<'a, 'o, G> {
    /// The unit's lanes.
    pub grid: G,
    /// The product.
    pub matmul: Matmul<'a, 'o>,
}

/// What a panel is computed with, to be used again: for each group and row group codes, scales and minima, and sums.
struct Room {
    bytes: [[Bytes; MATRICES]; SLOTS],
    scales: [[[[f32; WIDTH]; 2]; MATRICES]; SLOTS],
    squares: [[Square; MATRICES]; SLOTS],
}

impl Room {
    const EMPTY: Self = Self {
        bytes: [[Bytes([[0; 64]; 16]); MATRICES]; SLOTS],
        scales: [[[[0.0; WIDTH]; 2]; MATRICES]; SLOTS],
        squares: [[Square([[0; WIDTH]; COLUMNS]); MATRICES]; SLOTS],
    };
}

/// A product whose format is known.
struct Typed<'a, 'o, 'x, G, B> {
    g: G,
    matmul: Matmul<'a, 'o>,
    x: &'x [B],
    products: [[[[f32; WIDTH]; MATRICES]; COLUMNS]; BLOCKS],
    room: Room,
}

/// Where a panel is: its first group, its first token, and how many times 16 tokens it has.
#[derive(Clone, Copy)]
struct Place {
    group: usize,
    token: usize,
    blocks: usize,
}

impl<'a, G: Grid, B: Block> Typed<'a, '_, '_, G, B> {
    /// Products of `M` row groups with the tokens of a place, over all groups.
    #[inline(always)]
    fn row_groups<T: Tile<Block = B>, const M: usize>(
        &mut self,
        unit: &G::Unit<B>,
        row_groups: [&[T]; M],
        mut place: Place,
        ahead: &mut Ahead<'a>,
    ) {
        let groups = row_groups.first().map_or(0, |tiles| tiles.len());
        let pace = ahead.lines().div_ceil((groups.div_ceil(SLOTS) * place.blocks).max(1));
        while groups - place.group >= SLOTS {
            self.panel::<T, SLOTS, M>(unit, row_groups, place, (ahead, pace));
            place.group += SLOTS;
        }
        while groups > place.group {
            self.panel::<T, 1, M>(unit, row_groups, place, (ahead, pace));
            place.group += 1;
        }
    }

    /// Adds the products of `S` tiles of each of `M` row groups.
    #[inline(always)]
    fn panel<T: Tile<Block = B>, const S: usize, const M: usize>(
        &mut self,
        unit: &G::Unit<B>,
        row_groups: [&[T]; M],
        place: Place,
        (ahead, pace): (&mut Ahead<'a>, usize),
    ) {
        let g = self.g;
        for (m, tiles) in row_groups.iter().enumerate() {
            let tiles = tiles.get(place.group..).and_then(|tiles| tiles.first_chunk::<S>());
            let Some(tiles) = tiles else { return };
            for (slot, tile) in tiles.iter().enumerate() {
                tile.signed_bytes(g, &mut self.room.bytes[slot][m].0);
                let [scales, minima] = &mut self.room.scales[slot][m];
                g.store(g.load_f16(tile.scales()), scales);
                if let Some(m_w) = tile.minima() {
                    g.store(g.load_f16(m_w), minima);
                }
            }
        }
        let stride = row_groups.first().map_or(0, |tiles| tiles.len());
        for block in 0..place.blocks.min(BLOCKS) {
            let token = place.token + block * COLUMNS;
            let Some(x) = self.x.get(token * stride + place.group..) else { return };
            ahead.fetch(g, pace);
            for slot in 0..S {
                let (weights, squares) = (&self.room.bytes[slot], &mut self.room.squares[slot]);
                let (Some(weights), Some(squares)) = (weights.first_chunk::<M>(), squares.first_chunk_mut()) else {
                    return;
                };
                g.squares(unit, weights, x.get(slot..).unwrap_or(&[]), stride, squares);
            }
            for part in (0..COLUMNS).step_by(PART) {
                self.scale::<T, S, M>((x, stride), (block, part), place.group == 0);
            }
        }
    }

    /// Scales the sums of [`PART`] tokens of a block, whose first blocks `x` begins with, and adds them.
    #[inline(always)]
    fn scale<T: Tile<Block = B>, const S: usize, const M: usize>(
        &mut self,
        (x, stride): (&[B], usize),
        (block, part): (usize, usize),
        fresh: bool,
    ) {
        let g = self.g;
        let Room { squares, scales, .. } = &self.room;
        let products =
            self.products[block % BLOCKS].get_mut(part..).and_then(|products| products.first_chunk_mut::<PART>());
        let (Some(products), Some(x)) = (products, x.get(part * stride..)) else { return };
        let Some(first) = x.first_chunk::<S>() else { return };
        let mut rows = [first; PART];
        for (n, row) in rows.iter_mut().enumerate() {
            let Some(blocks) = x.get(n * stride..).and_then(|x| x.first_chunk()) else { return };
            *row = blocks;
        }
        let mut acc = [[g.splat(0.0); M]; PART];
        if !fresh {
            for n in 0..PART {
                for m in 0..M {
                    acc[n][m] = g.load(&products[n][m]);
                }
            }
        }
        for slot in 0..S {
            let mut d_w = [g.splat(0.0); M];
            let mut m_w = [g.splat(0.0); M];
            for m in 0..M {
                d_w[m] = g.load(&scales[slot][m][0]);
                m_w[m] = g.load(&scales[slot][m][1]);
            }
            for n in 0..PART {
                let d = g.splat(rows[n][slot].scale());
                for m in 0..M {
                    let sums = g.sums(&squares[slot][m].0[(part + n) % COLUMNS]);
                    acc[n][m] = g.fma(g.mul(d_w[m], d), g.to_f(sums), acc[n][m]);
                }
                if T::ASYMMETRIC {
                    let s = g.splat(rows[n][slot].scaled_sum());
                    for m in 0..M {
                        acc[n][m] = g.fma(m_w[m], s, acc[n][m]);
                    }
                }
            }
        }
        for n in 0..PART {
            for m in 0..M {
                g.store(acc[n][m], &mut products[n][m]);
            }
        }
    }

    /// Everything.
    #[inline(always)]
    fn run<T: Tile<Block = B>>(&mut self) {
        let g = self.g;
        // SAFETY: this is the only place that opens one, and what it calls meanwhile opens none.
        let unit = unsafe { g.open::<B>() };
        let whole = self.matmul.out.rows() / COLUMNS;
        let count = self.matmul.out.width().div_ceil(WIDTH);
        let mut group = 0;
        while group < count {
            let tiles = self.matmul.weights.tiles::<T>(self.matmul.row_group + group);
            let (second, together) = self.matmul.second::<T>(group, true);
            let mut ahead = self.matmul.next(group + together - 1);
            for first in (0..whole).step_by(BLOCKS) {
                let (token, blocks) = (first * COLUMNS, (whole - first).min(BLOCKS));
                let place = Place { group: 0, token, blocks };
                match second {
                    Some(second) => self.row_groups(&unit, [tiles, second], place, &mut ahead),
                    None => self.row_groups(&unit, [tiles], place, &mut ahead),
                }
                let Self { products, matmul, .. } = self;
                for (n, [a, b]) in products.as_flattened().iter().enumerate().take(blocks * COLUMNS) {
                    matmul.finish_both(g, (group, together), token + n, [g.load(a), g.load(b)]);
                }
            }
            for group in group..group + together {
                self.matmul.rest(g, group, whole * COLUMNS, &mut Ahead::default(), 0);
            }
            group += together;
        }
    }
}

impl<G: Grid> Job for GridMatmul<'_, '_, G> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self { grid: g, matmul } = self;
        if matmul.is_mixed() || matmul.out.rows() < COLUMNS {
            return matmul.run(g);
        }
        let products = [[[[0.0; WIDTH]; MATRICES]; COLUMNS]; BLOCKS];
        let room = Room::EMPTY;
        match (matmul.weights.format(), matmul.x) {
            (Format::Q4A64, Activations::G64(x)) => Typed { g, matmul, x, products, room }.run::<TileQ4A64>(),
            (Format::Q4S64, Activations::G64(x)) => Typed { g, matmul, x, products, room }.run::<TileQ4S64>(),
            (Format::Q4A32, Activations::G32(x)) => Typed { g, matmul, x, products, room }.run::<TileQ4A32>(),
            (Format::Q4S32, Activations::G32(x)) => Typed { g, matmul, x, products, room }.run::<TileQ4S32>(),
            (Format::Q8, Activations::G32(x)) => Typed { g, matmul, x, products, room }.run::<TileQ8>(),
            _ => matmul.run(g),
        }
    }
}

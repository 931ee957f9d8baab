//! Batches on a unit that multiplies a whole weight tile with sixteen tokens at once.
//!
//! Such a unit (AMX, say) gives 16 × 16 exact sums of one quantisation group in the time in which lanes give a few, so
//! what is left to do is to scale and to add the sums, in the order of the contract. Codes are unpacked to bytes once
//! for all tokens of a block; panels of a few groups keep bytes, activations and sums in the nearest cache.
//!
//! # Source
//! `kernels/NUMERICS.md`, sections Weights and Matrix × vector.

use crate::ahead::Ahead;
use crate::exp::silu;
use crate::lanes::{Job, Lanes, WIDTH};
use crate::matmul::{Matmul, Then};
use crate::quantize::Activations;
use crate::tile::{Block, Tile, TileQ4A32, TileQ4A64, TileQ4S32, TileQ4S64, TileQ8};
use crate::weights::Format;

/// Tokens that are multiplied at once.
pub const COLUMNS: usize = 16;
/// Groups whose codes are unpacked at once.
const SLOTS: usize = 4;
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
    /// Exact dot products of the rows of a tile with blocks 0, `stride`, `2 · stride`, … of `x`, one for each of 16 tokens.
    /// Does nothing if they do not all exist.
    fn square<B: Block>(self, unit: &Self::Unit<B>, weights: &Bytes, x: &[B], stride: usize, out: &mut Square);
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

/// Products of 16 rows with tokens.
type Products = [[[f32; WIDTH]; COLUMNS]; BLOCKS];

/// Scales and scaled sums of one group of 16 tokens.
type Scales = [[f32; 2]; COLUMNS];

/// Adds a tile's sums.
#[inline(always)]
fn scale<G: Grid, T: Tile>(g: G, tile: &T, x: &Scales, square: &Square, acc: &mut [G::F; COLUMNS]) {
    let d_w = g.load_f16(tile.scales());
    for n in 0..COLUMNS {
        let [d, _] = x[n];
        acc[n] = g.fma(g.mul(d_w, g.splat(d)), g.to_f(g.sums(&square.0[n])), acc[n]);
    }
    if let Some(minima) = tile.minima() {
        let m_w = g.load_f16(minima);
        for n in 0..COLUMNS {
            let [_, s] = x[n];
            acc[n] = g.fma(m_w, g.splat(s), acc[n]);
        }
    }
}

/// What a panel is computed with, to be used again.
struct Room {
    bytes: [[Bytes; SLOTS]; MATRICES],
    squares: [Square; SLOTS],
    scales: [Scales; SLOTS],
}

impl Room {
    const EMPTY: Self = Self {
        bytes: [[Bytes([[0; 64]; 16]); SLOTS]; MATRICES],
        squares: [Square([[0; WIDTH]; COLUMNS]); SLOTS],
        scales: [[[0.0; 2]; COLUMNS]; SLOTS],
    };
}

/// A product whose format is known.
struct Typed<'a, 'o, 'x, G, B> {
    g: G,
    matmul: Matmul<'a, 'o>,
    x: &'x [B],
    products: [Products; MATRICES],
    room: Room,
}

impl<'a, G: Grid, B: Block> Typed<'a, '_, '_, G, B> {
    /// Products of these row groups with `blocks` times 16 tokens, from token `token` on.
    #[inline(always)]
    fn row_groups<T: Tile<Block = B>>(
        &mut self,
        unit: &G::Unit<B>,
        row_groups: &[&[T]],
        (token, blocks): (usize, usize),
        ahead: &mut Ahead<'a>,
    ) {
        let g = self.g;
        let groups = row_groups.first().map_or(0, |tiles| tiles.len());
        let x = self.x.get(token * groups..).unwrap_or(&[]);
        let pace = ahead.lines().div_ceil((groups.div_ceil(SLOTS) * row_groups.len() * blocks).max(1));
        for first in (0..groups).step_by(SLOTS) {
            let panels: [&[T]; MATRICES] = core::array::from_fn(|m| {
                let tiles = row_groups.get(m).and_then(|tiles| tiles.get(first..)).unwrap_or(&[]);
                &tiles[..tiles.len().min(SLOTS)]
            });
            for (tiles, bytes) in panels.iter().zip(&mut self.room.bytes) {
                for (tile, bytes) in tiles.iter().zip(bytes) {
                    tile.signed_bytes(&mut bytes.0);
                }
            }
            for block in 0..blocks.min(BLOCKS) {
                let Some(x) = x.get(block * COLUMNS * groups + first..) else { return };
                for (n, x) in x.chunks(groups).take(COLUMNS).enumerate() {
                    for (x, scales) in x.iter().zip(&mut self.room.scales) {
                        scales[n] = [x.scale(), x.scaled_sum()];
                    }
                }
                for (m, tiles) in panels.iter().enumerate().take(row_groups.len()) {
                    ahead.fetch(g, pace);
                    self.panel(unit, tiles, (x, groups), (m, block), first == 0);
                }
            }
        }
    }

    /// Adds the products of up to [`SLOTS`] tiles, unpacked, with 16 tokens, whose first blocks `x` begins with.
    #[inline(always)]
    fn panel<T: Tile<Block = B>>(
        &mut self,
        unit: &G::Unit<B>,
        tiles: &[T],
        (x, stride): (&[B], usize),
        (m, block): (usize, usize),
        fresh: bool,
    ) {
        let g = self.g;
        let Room { bytes, squares, scales } = &mut self.room;
        let bytes = &bytes[m % MATRICES];
        let products = &mut self.products[m % MATRICES][block % BLOCKS];
        // All before any is scaled, as the unit and the lanes work at the same time.
        for (slot, (square, bytes)) in squares.iter_mut().zip(bytes).enumerate().take(tiles.len()) {
            g.square(unit, bytes, x.get(slot..).unwrap_or(&[]), stride, square);
        }
        let mut acc = [g.splat(0.0); COLUMNS];
        if !fresh {
            for n in 0..COLUMNS {
                acc[n] = g.load(&products[n]);
            }
        }
        for (slot, tile) in tiles.iter().enumerate().take(SLOTS) {
            scale(g, tile, &scales[slot], &squares[slot], &mut acc);
        }
        for n in 0..COLUMNS {
            g.store(acc[n], &mut products[n]);
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
            let row_group = self.matmul.row_group + group;
            let weights = self.matmul.weights;
            let tiles = weights.tiles::<T>(row_group);
            // Gate and up are multiplied together, else two neighbours.
            let (row_groups, together, used) = match self.matmul.then {
                Then::SwiGlu(up) => ([tiles, up.tiles(row_group)], 1, MATRICES),
                Then::Store | Then::Add if group + 1 < count => ([tiles, weights.tiles(row_group + 1)], 2, 2),
                Then::Store | Then::Add => ([tiles; MATRICES], 1, 1),
            };
            let mut ahead = self.matmul.next(group + together - 1);
            for first in (0..whole).step_by(BLOCKS) {
                let (token, blocks) = (first * COLUMNS, (whole - first).min(BLOCKS));
                self.row_groups(&unit, row_groups.get(..used).unwrap_or(&[]), (token, blocks), &mut ahead);
                let [a, b] = &self.products;
                for (n, (a, b)) in a.as_flattened().iter().zip(b.as_flattened()).enumerate().take(blocks * COLUMNS) {
                    let (a, b) = (g.load(a), g.load(b));
                    if let Then::SwiGlu(_) = self.matmul.then {
                        self.matmul.finish(g, group, token + n, g.mul(silu(g, a), b));
                        continue;
                    }
                    self.matmul.finish(g, group, token + n, a);
                    if together > 1 {
                        self.matmul.finish(g, group + 1, token + n, b);
                    }
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
        // Gate and up of different formats are not multiplied together.
        let mixed = matches!(matmul.then, Then::SwiGlu(up) if up.format() != matmul.weights.format());
        if mixed || matmul.out.rows() < COLUMNS {
            return matmul.run(g);
        }
        let products = [[[[0.0; WIDTH]; COLUMNS]; BLOCKS]; MATRICES];
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

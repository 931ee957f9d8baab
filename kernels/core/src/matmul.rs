//! Quantised matrix × batch of quantised activations; with one token, matrix × vector.
//!
//! For each row: `acc = 0`; for each group b in order `acc = fma(d_w·d_a, f32(Σ u·q), acc)`, and for asymmetric formats
//! `acc = fma(m_w, s_a, acc)`. A weight tile is unpacked once and multiplied with up to [`Lanes::COLUMNS`] tokens while
//! it is in registers; a token's result does not depend on its neighbours.
//!
//! # Source
//! `kernels/NUMERICS.md`, section Matrix × vector.

use crate::ahead::{Ahead, LINE};
use crate::batch;
use crate::exp::silu;
use crate::lanes::{Job, Lanes, WIDTH};
use crate::panel::Panel;
use crate::quantize::Activations;
use crate::tile::{Block, Tile, TileQ4A32, TileQ4A64, TileQ4S32, TileQ4S64, TileQ8};
use crate::weights::{Format, Weights};

/// What becomes of a product.
#[derive(Clone, Copy, Debug)]
pub enum Then<'a> {
    /// It is stored.
    Store,
    /// It is added to what the output holds (the residual stream).
    Add,
    /// It is the gate: `silu(product) · up` is stored, `up` being the product with this matrix of the same shape.
    SwiGlu(Weights<'a>),
}

/// A panel of `weights · x`.
///
/// # Shapes
/// `x: [tokens, columns]` quantised; `out: [tokens, panel width]`, whose first column is row `16 · row_group` of the
/// matrix.
#[derive(Debug)]
pub struct Matmul<'a, 'o> {
    /// The matrix.
    pub weights: Weights<'a>,
    /// The activations, in groups of the format's size.
    pub x: Activations<'a>,
    /// First group of 16 rows.
    pub row_group: usize,
    /// What becomes of the product.
    pub then: Then<'a>,
    /// Where it goes.
    pub out: Panel<'o, f32>,
}

/// Block `b` of each row.
#[inline(always)]
fn blocks<'x, B, const N: usize>(rows: &[&'x [B]; N], b: usize) -> Option<[&'x B; N]> {
    let mut blocks = [rows.first()?.get(b)?; N];
    for (block, row) in blocks.iter_mut().zip(rows) {
        *block = row.get(b)?;
    }
    Some(blocks)
}

/// Products of one row group with `N` tokens from `token` on.
#[inline(always)]
fn tiles<L: Lanes, T: Tile, const N: usize>(
    l: L,
    tiles: &[T],
    x: &[T::Block],
    token: usize,
    mut ahead: Ahead<'_>,
) -> [L::F; N] {
    let mut acc = [l.splat(0.0); N];
    let groups = tiles.len();
    let rows: [&[T::Block]; N] =
        core::array::from_fn(|n| x.get((token + n) * groups..(token + n + 1) * groups).unwrap_or(&[]));
    if rows.iter().any(|row| row.len() != groups) {
        return acc;
    }
    for (b, tile) in tiles.iter().enumerate() {
        let Some(x) = blocks(&rows, b) else { break };
        ahead.fetch(l, size_of::<T>().div_ceil(LINE));
        let dots = tile.dot(l, &x);
        let d_w = l.load_f16(tile.scales());
        for n in 0..N {
            let d = l.mul(d_w, l.splat(x[n].scale()));
            acc[n] = l.fma(d, l.to_f(dots[n]), acc[n]);
        }
        if let Some(minima) = tile.minima() {
            let m_w = l.load_f16(minima);
            for n in 0..N {
                acc[n] = l.fma(m_w, l.splat(x[n].scaled_sum()), acc[n]);
            }
        }
    }
    acc
}

/// [`tiles`] for whichever format the matrix has. Activations of another group size give zeros: images and plans are
/// checked for that before.
#[inline(always)]
fn product<L: Lanes, const N: usize>(
    l: L,
    w: &Weights<'_>,
    row_group: usize,
    x: Activations<'_>,
    t: usize,
    distance: usize,
) -> [L::F; N] {
    let ahead = Ahead::new([if distance > 0 { w.behind(row_group, distance) } else { &[] }, &[]]);
    match (w.format(), x) {
        (Format::Q4A64, Activations::G64(x)) => tiles::<L, TileQ4A64, N>(l, w.tiles(row_group), x, t, ahead),
        (Format::Q4S64, Activations::G64(x)) => tiles::<L, TileQ4S64, N>(l, w.tiles(row_group), x, t, ahead),
        (Format::Q4A32, Activations::G32(x)) => tiles::<L, TileQ4A32, N>(l, w.tiles(row_group), x, t, ahead),
        (Format::Q4S32, Activations::G32(x)) => tiles::<L, TileQ4S32, N>(l, w.tiles(row_group), x, t, ahead),
        (Format::Q8, Activations::G32(x)) => tiles::<L, TileQ8, N>(l, w.tiles(row_group), x, t, ahead),
        _ => [l.splat(0.0); N],
    }
}

/// Copies as much as both have. A call, as it is rare and in every product.
#[inline(never)]
fn copy(from: &[f32], to: &mut [f32]) {
    for (x, out) in from.iter().zip(to) {
        *out = *x;
    }
}

impl<'a> Matmul<'a, '_> {
    /// The weights of the row group behind row group `group` of the panel.
    #[inline(always)]
    pub(crate) fn next(&self, group: usize) -> Ahead<'a> {
        let row_group = self.row_group + group + 1;
        let up = if let Then::SwiGlu(up) = self.then { up.row_group(row_group) } else { &[] };
        Ahead::new([self.weights.row_group(row_group), up])
    }

    /// Row group `group` of the panel, for `N` tokens from `token` on, while weights are asked for at this pace.
    #[inline(always)]
    fn column_tile<L: Lanes, const N: usize>(&mut self, l: L, group: usize, token: usize, pace: usize) {
        let row_group = self.row_group + group;
        // Where nothing is asked for meanwhile, the first tile waits for memory, and those after it find the weights.
        let distance = if pace == 0 && token == 0 { l.ahead() } else { 0 };
        let mut y = [l.splat(0.0); N];
        let (matrices, count) = match self.then {
            Then::SwiGlu(up) => ([self.weights, up], 2),
            Then::Store | Then::Add => ([self.weights; 2], 1),
        };
        // One loop for gate and up, so that the products are compiled once: they are most of a program's code.
        for (i, weights) in matrices.iter().enumerate().take(count) {
            let gate = y;
            y = product::<L, N>(l, weights, row_group, self.x, token, distance);
            if i > 0 {
                for n in 0..N {
                    y[n] = l.mul(silu(l, gate[n]), y[n]);
                }
            }
        }
        for (n, y) in y.into_iter().enumerate() {
            self.finish(l, group, token + n, y);
        }
    }

    /// Whether gate and up have different formats, so that they are not multiplied together.
    #[inline(always)]
    pub(crate) fn is_mixed(&self) -> bool {
        matches!(self.then, Then::SwiGlu(up) if up.format() != self.weights.format())
    }

    /// What is multiplied together with row group `group` of the panel, and how many row groups of it that finishes: up
    /// with the gate, else a neighbour, if there is one and `neighbours` are wanted.
    #[inline(always)]
    pub(crate) fn second<T: Tile>(&self, group: usize, neighbours: bool) -> (Option<&'a [T]>, usize) {
        let (row_group, count) = (self.row_group + group, self.out.width().div_ceil(WIDTH));
        match self.then {
            Then::SwiGlu(up) => (Some(up.tiles(row_group)), 1),
            Then::Store | Then::Add if neighbours && group + 1 < count => (Some(self.weights.tiles(row_group + 1)), 2),
            Then::Store | Then::Add => (None, 1),
        }
    }

    /// Finishes one token's products with row group `group` and its [`second`](Self::second).
    #[inline(always)]
    pub(crate) fn finish_both<L: Lanes>(
        &mut self,
        l: L,
        (group, together): (usize, usize),
        token: usize,
        [a, b]: [L::F; 2],
    ) {
        if let Then::SwiGlu(_) = self.then {
            return self.finish(l, group, token, l.mul(silu(l, a), b));
        }
        self.finish(l, group, token, a);
        if together > 1 {
            self.finish(l, group + 1, token, b);
        }
    }

    /// Stores or adds one token's products with row group `group` of the panel.
    #[inline(always)]
    pub(crate) fn finish<L: Lanes>(&mut self, l: L, group: usize, token: usize, y: L::F) {
        let row = self.out.row(token).get_mut(group * WIDTH..).unwrap_or(&mut []);
        if let Some(out) = row.first_chunk_mut() {
            let y = if let Then::Add = self.then { l.add(l.load(out), y) } else { y };
            l.store(y, out);
        } else {
            // The last rows of a matrix whose height is no multiple of 16.
            let mut padded = [0.0; WIDTH];
            copy(row, &mut padded);
            let y = if let Then::Add = self.then { l.add(l.load(&padded), y) } else { y };
            l.store(y, &mut padded);
            copy(&padded, row);
        }
    }

    /// Row group `group` of the panel, for all tokens from `token` on.
    #[inline(always)]
    pub(crate) fn rest<L: Lanes>(&mut self, l: L, group: usize, token: usize, ahead: &mut Ahead<'a>, pace: usize) {
        let (tokens, mut token) = (self.out.rows(), token);
        while L::COLUMNS >= 8 && tokens - token >= 8 {
            ahead.fetch(l, pace);
            self.column_tile::<L, 8>(l, group, token, pace);
            token += 8;
        }
        while L::COLUMNS >= 4 && tokens - token >= 4 {
            ahead.fetch(l, pace);
            self.column_tile::<L, 4>(l, group, token, pace);
            token += 4;
        }
        while L::COLUMNS >= 2 && tokens - token >= 2 {
            ahead.fetch(l, pace);
            self.column_tile::<L, 2>(l, group, token, pace);
            token += 2;
        }
        while tokens > token {
            self.column_tile::<L, 1>(l, group, token, pace);
            token += 1;
        }
    }
}

impl Job for Matmul<'_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        let Some(mut this) = batch::matmul(l, self) else { return };
        let tokens = this.out.rows();
        // One token's products wait for memory and nothing else, so there is no time to use.
        let columns = tokens / L::COLUMNS;
        for group in 0..this.out.width().div_ceil(WIDTH) {
            let mut ahead = if columns > 1 { this.next(group) } else { Ahead::default() };
            let pace = ahead.lines().div_ceil(columns.max(1));
            this.rest(l, group, 0, &mut ahead, pace);
        }
    }
}

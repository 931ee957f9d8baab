//! Kernels over one token's row: quantisation, norm, the largest element.

use crate::cases::Draw;
use crate::report::{Record, Shape};
use crate::scratch::Shelf;
use bytemuck::Pod;
use pocket_kernels::norm::{Norm, NormQuantize};
use pocket_kernels::quantize::{ActivationsMut, Quantize};
use pocket_kernels::reduce::ArgMax;
use pocket_kernels::tile::{Block32, Block64};
use pocket_kernels::{Kernels, WIDTH};

/// Columns of a row: one vector, whole groups, groups that end early, long.
const COLUMNS: [usize; 10] = [16, 32, 48, 64, 80, 96, 112, 128, 1040, 4096];

/// Blocks of one group size, poisoned.
enum Blocks<'a> {
    G32(&'a mut [Block32]),
    G64(&'a mut [Block64]),
}

impl<'a> Blocks<'a> {
    fn take(group: usize, columns: usize, shelf: &mut Shelf<'a>) -> Self {
        let count = columns.div_ceil(group);
        if group == 32 { Self::G32(poisoned(shelf, count)) } else { Self::G64(poisoned(shelf, count)) }
    }

    fn lend(&mut self) -> ActivationsMut<'_> {
        match self {
            Self::G32(blocks) => ActivationsMut::G32(blocks),
            Self::G64(blocks) => ActivationsMut::G64(blocks),
        }
    }

    /// The blocks if they may be used, and in any case whether.
    fn record(&self, finite: bool, record: &mut Record<'_>) {
        record.verdict(u32::from(finite));
        match self {
            _ if !finite => {}
            Self::G32(blocks) => record.blocks(blocks, |block| block.sum),
            Self::G64(blocks) => record.blocks(blocks, |block| block.sum),
        }
    }
}

/// Blocks that hold what no kernel writes.
fn poisoned<'a, B: Pod>(shelf: &mut Shelf<'a>, count: usize) -> &'a mut [B] {
    let blocks = shelf.take(count);
    bytemuck::cast_slice_mut::<B, u8>(blocks).fill(0x80);
    blocks
}

pub(crate) fn quantize<K: Kernels>(
    group: usize,
    k: K,
    mut draw: Draw,
    mut shelf: Shelf<'_>,
    record: &mut Record<'_>,
) -> Shape {
    let columns = draw.axis(&COLUMNS);
    let kind = draw.kind();
    let x = shelf.take(columns);
    kind.floats(&mut draw.random, x);
    let mut out = Blocks::take(group, columns, &mut shelf);
    let finite = k.enter(Quantize { x, out: out.lend() });
    out.record(finite, record);
    Shape::default().number("columns", columns).word("data", kind.name())
}

pub(crate) fn norm_quantize<K: Kernels>(
    group: usize,
    k: K,
    mut draw: Draw,
    mut shelf: Shelf<'_>,
    record: &mut Record<'_>,
) -> Shape {
    let columns = draw.axis(&COLUMNS);
    let eps = draw.axis(&[1e-6, 1e-5]);
    let [kind, kind_weight] = [draw.kind(), draw.kind()];
    let [x, weight] = core::array::from_fn(|_| shelf.take(columns));
    kind.floats(&mut draw.random, x);
    kind_weight.floats(&mut draw.random, weight);
    let mut out = Blocks::take(group, columns, &mut shelf);
    let finite = k.enter(NormQuantize { norm: Norm { weight, eps }, x, out: out.lend() });
    out.record(finite, record);
    Shape::default().number("columns", columns).word("data", kind.name()).word("weight", kind_weight.name())
}

pub(crate) fn arg_max<K: Kernels>(k: K, mut draw: Draw, mut shelf: Shelf<'_>, record: &mut Record<'_>) -> Shape {
    let len = draw.axis(&[0, 1, 15, 16, 17, 31, 32, 33, 100, 1000, 1003]);
    let kind = draw.kind();
    let x: &mut [f32] = shelf.take(len);
    kind.floats(&mut draw.random, x);
    let change = draw.axis(&["as is", "tie", "nan", "negative", "last"]);
    match change {
        _ if len == 0 => {}
        "tie" => (0..3).for_each(|_| x[draw.random.below(len)] = f32::MAX),
        "nan" => x[draw.random.below(len)] = draw.random.of(&[f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY]),
        "negative" => x.iter_mut().for_each(|x| *x = -x.abs()),
        "last" => x[len - 1 - draw.random.below(len.min(WIDTH))] = f32::MAX,
        _ => {}
    }
    let found = k.enter(ArgMax { x });
    record.word(found.map_or(u32::MAX, |index| index as u32));
    Shape::default().number("length", len).word("data", kind.name()).word("change", change)
}

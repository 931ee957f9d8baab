//! Products with quantised matrices, and the embedding.

use crate::cases::Draw;
use crate::data::{Kind, Random};
use crate::report::{Record, Shape};
use crate::scratch::{FITS, Shelf};
use pocket_kernels::embed::EmbedRow;
use pocket_kernels::matmul::{Matmul, Then};
use pocket_kernels::panel::Panels;
use pocket_kernels::quantize::Activations;
use pocket_kernels::tile::{Block, Block32, Block64};
use pocket_kernels::weights::{Format, Weights};
use pocket_kernels::{Kernels, WIDTH};

const ROWS: [usize; 5] = [1, 15, 16, 17, 33];
const TOKENS: usize = 17;
const THEN: [&str; 3] = ["store", "add", "swiglu"];
/// A full cross of rows, tokens and what follows, twice with other data.
pub(crate) const CASES: u32 = 2 * (ROWS.len() * TOKENS * THEN.len()) as u32;
/// Columns; 32, 96, 160 and 544 end a group of 64 early.
const COLUMNS: [usize; 7] = [32, 64, 96, 128, 160, 544, 576];
/// A long row, for one group of rows and few tokens.
const LONG: usize = 8192;

/// Kinds of codes and scales of a matrix.
struct Content {
    codes: Kind,
    scales: Kind,
}

impl Content {
    /// Fills row groups of tiles that begin `stride` bytes apart.
    fn fill(&self, format: Format, columns: usize, stride: usize, random: &mut Random, data: &mut [u8]) {
        for rows in data.chunks_mut(stride) {
            let whole = format.row_group_bytes(columns).min(rows.len());
            for (t, tile) in rows[..whole].chunks_exact_mut(format.tile_bytes()).enumerate() {
                let code_bytes = if format == Format::Q8 { 512 } else { format.group() * WIDTH / 2 };
                let (codes, scales) = tile.split_at_mut(code_bytes);
                for (i, code) in codes.iter_mut().enumerate() {
                    *code = self.codes.byte(t * code_bytes + i, random);
                }
                for (i, scale) in scales.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    *scale = self.scales.half(t * 32 + i, random).to_le_bytes();
                }
            }
        }
    }
}

/// Quantised activations of any kind; beyond `columns` the codes are zero, as quantising leaves them.
fn blocks<'a, B: Block>(
    (tokens, columns): (usize, usize),
    (codes, scales): (Kind, Kind),
    random: &mut Random,
    shelf: &mut Shelf<'a>,
) -> &'a [B] {
    let groups = columns.div_ceil(B::GROUP);
    let blocks = shelf.take(tokens * groups);
    for (b, block) in blocks.iter_mut().enumerate() {
        let block: &mut B = block;
        let mut sum = 0;
        for (i, q) in block.q_mut().iter_mut().enumerate() {
            let column = b % groups * B::GROUP + i;
            *q = if column < columns { codes.code(b * B::GROUP + i, random) } else { 0 };
            sum += i32::from(*q);
        }
        block.set(scales.float(b, random).abs(), sum);
    }
    blocks
}

pub(crate) fn matmul<K: Kernels>(
    format: Format,
    k: K,
    mut draw: Draw,
    mut shelf: Shelf<'_>,
    record: &mut Record<'_>,
) -> Shape {
    let rows = draw.axis(&ROWS);
    let tokens = 1 + draw.axis(&core::array::from_fn::<usize, TOKENS, _>(|i| i));
    let then = draw.axis(&THEN);
    let long = rows <= WIDTH && tokens <= 2;
    let columns = if long { LONG } else { draw.random.of(&COLUMNS) };
    let first_group = if long { 0 } else { draw.random.below(3) };
    let [kind_x, kind_d] = [draw.kind(), draw.kind()];
    let content = Content { codes: draw.kind(), scales: draw.kind() };
    let row_group = format.row_group_bytes(columns);
    // Alone, interleaved with the other matrix of the pass, or with a gap.
    let stride = if then == "swiglu" { 2 * row_group } else { row_group + draw.random.of(&[0, 64, 2, row_group]) };
    let data = shelf.take((first_group + rows.div_ceil(WIDTH)) * stride);
    let random = &mut draw.random;
    // Between the row groups lies what would be NaN as a scale.
    data.fill(0xff);
    content.fill(format, columns, stride, random, data);
    if then == "swiglu" {
        content.fill(format, columns, stride, random, &mut data[row_group..]);
    }
    let height = first_group * WIDTH + rows;
    let weights = Weights::new(format, height, columns, stride, data).expect(FITS);
    let then_do = match then {
        "store" => Then::Store,
        "add" => Then::Add,
        _ => Then::SwiGlu(Weights::new(format, height, columns, stride, &data[row_group..]).expect(FITS)),
    };
    let x = if format.group() == 64 {
        Activations::G64(blocks::<Block64>((tokens, columns), (kind_x, kind_d), random, &mut shelf))
    } else {
        Activations::G32(blocks::<Block32>((tokens, columns), (kind_x, kind_d), random, &mut shelf))
    };
    let out = shelf.take(tokens * rows);
    if then == "add" {
        kind_x.floats(random, out);
    } else {
        out.fill(f32::NAN);
    }
    let groups_a_panel = random.of(&[1, 2, 3]);
    let panels = Panels::columns(out, tokens, groups_a_panel * WIDTH);
    while let Some((panel, out)) = panels.claim() {
        k.matmul(Matmul { weights, x, row_group: first_group + panel * groups_a_panel, then: then_do, out });
    }
    record.floats(out);
    Shape::default()
        .number("rows", rows)
        .number("columns", columns)
        .number("tokens", tokens)
        .word("then", then)
        .word("codes", content.codes.name())
        .word("scales", content.scales.name())
        .word("x", kind_x.name())
        .word("scales of x", kind_d.name())
}

pub(crate) fn embed<K: Kernels>(
    format: Format,
    k: K,
    mut draw: Draw,
    mut shelf: Shelf<'_>,
    record: &mut Record<'_>,
) -> Shape {
    let rows = draw.axis(&ROWS);
    let columns = draw.axis(&[16, 48, 64, 96, 576]);
    let content = Content { codes: draw.kind(), scales: draw.kind() };
    let row = draw.random.below(rows);
    let stride = format.row_group_bytes(columns) + draw.random.of(&[0, 64]);
    let data = shelf.take(rows.div_ceil(WIDTH) * stride);
    data.fill(0xff);
    content.fill(format, columns, stride, &mut draw.random, data);
    let out: &mut [f32] = shelf.take(columns);
    out.fill(f32::NAN);
    let weights = Weights::new(format, rows, columns, stride, data).expect(FITS);
    k.enter(EmbedRow { weights, row, out });
    record.floats(out);
    Shape::default()
        .number("rows", rows)
        .number("columns", columns)
        .number("row", row)
        .word("codes", content.codes.name())
        .word("scales", content.scales.name())
}

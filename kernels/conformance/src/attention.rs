//! Attention over a cache whose invisible part is garbage, and the join of its chunks.

use crate::cases::Draw;
use crate::data::Kind;
use crate::report::{Record, Shape};
use crate::rope::HEAD_DIMS;
use crate::scratch::{FITS, Shelf};
use pocket_kernels::ahead::Ahead;
use pocket_kernels::attention::{Attend, CHUNK, Join, Queries, chunks, partial_len};
use pocket_kernels::cache::{CacheType, HeadCache};
use pocket_kernels::{Kernels, WIDTH};

/// Positions seen: around multiples of a tile and of a chunk.
const POSITIONS: [usize; 16] = [1, 2, 15, 16, 17, 31, 33, 64, 240, 255, 256, 257, 272, 511, 513, 529];
/// The largest heads see at most so many, for the sake of memory.
const POSITIONS_OF_LARGEST: usize = 272;

/// What lies in the cache: kinds of keys and values, and how many positions are visible.
struct Content {
    keys: Kind,
    values: Kind,
    head_dim: usize,
    visible: usize,
}

/// Fills a cache of `positions` positions in the layout of [`pocket_kernels::cache`]: garbage, then what is visible.
fn fill(kind: CacheType, content: &Content, draw: &mut Draw, positions: usize, data: &mut [u8]) {
    let (dim, random) = (content.head_dim, &mut draw.random);
    let (keys, values) = data.split_at_mut(kind.position_bytes(dim) * positions);
    match kind {
        CacheType::F16 => {
            let halves: [&mut [u16]; 2] = [bytemuck::cast_slice_mut(keys), bytemuck::cast_slice_mut(values)];
            let [keys, values] = halves;
            for half in keys.iter_mut().chain(values.iter_mut()) {
                *half = random.of(&[0x7e00, 0xfe01, 0x7c00, 0xfc00, 0x7d55, 0x7bff]);
            }
            for position in 0..content.visible {
                for j in 0..dim {
                    let key = (position / WIDTH * dim + j) * WIDTH + position % WIDTH;
                    keys[key] = content.keys.half(position * dim + j, random);
                    values[position * dim + j] = content.values.half(position * dim + j, random);
                }
            }
        }
        CacheType::I8 => {
            let (keys, key_scales) = keys.split_at_mut(dim * positions);
            let (values, value_scales) = values.split_at_mut(dim * positions);
            let scales: [&mut [f32]; 2] =
                [bytemuck::cast_slice_mut(key_scales), bytemuck::cast_slice_mut(value_scales)];
            random.bytes(keys);
            random.bytes(values);
            for scale in scales.into_iter().zip([content.keys, content.values]) {
                let (scales, kind) = scale;
                scales.fill(f32::NAN);
                for scale in &mut scales[..content.visible] {
                    *scale = match kind {
                        Kind::Uniform | Kind::Ties | Kind::Primes => random.uniform().abs() / 100.0,
                        kind => kind.float(1, random).abs(),
                    };
                }
            }
            for position in 0..content.visible {
                for j in 0..dim {
                    let key = (position / WIDTH * dim / 4 + j / 4) * 64 + position % WIDTH * 4 + j % 4;
                    keys[key] = content.keys.code(position * dim + j, random) as u8;
                    values[position * dim + j] = content.values.code(position * dim + j, random) as u8;
                }
            }
        }
    }
}

pub(crate) fn attend<K: Kernels>(
    kind: CacheType,
    k: K,
    mut draw: Draw,
    mut shelf: Shelf<'_>,
    record: &mut Record<'_>,
) -> Shape {
    let head_dim = draw.axis(&HEAD_DIMS);
    let visible = draw.axis(&POSITIONS).min(if head_dim < 256 { usize::MAX } else { POSITIONS_OF_LARGEST });
    let heads = 1 + draw.random.below(8);
    // Most cases are such that all is finite: the rest is one verdict.
    let usual = [Kind::Uniform, Kind::Uniform, Kind::Primes, Kind::Ties, Kind::Zeros, Kind::Denormals, Kind::Extremes];
    let [kind_queries, keys, values] =
        core::array::from_fn(|_| if draw.random.below(12) == 0 { draw.kind() } else { draw.random.of(&usual) });
    let queries: &mut [f32] = shelf.take(heads * head_dim);
    kind_queries.floats(&mut draw.random, queries);
    if kind_queries != Kind::Wide {
        queries.iter_mut().for_each(|q| *q *= 0.0625);
    }
    let positions = visible.next_multiple_of(WIDTH);
    let data = shelf.take(kind.head_bytes(head_dim, positions));
    fill(kind, &Content { keys, values, head_dim, visible }, &mut draw, positions, data);
    let chunk_len = heads * partial_len(head_dim);
    let partials: &mut [f32] = shelf.take(chunks(visible) * chunk_len);
    let out: &mut [f32] = shelf.take(heads * head_dim);
    partials.fill(f32::NAN);
    out.fill(f32::NAN);
    let cache = HeadCache::new(kind, head_dim, positions, data).expect(FITS);
    let mut finite = 0;
    for (chunk, partials) in partials.chunks_exact_mut(chunk_len).enumerate() {
        let queries = Queries { heads: queries, head_dim, positions: visible };
        // Asking for memory changes nothing.
        let ahead = Ahead::new(cache.elements(head_dim, CHUNK * chunk, CHUNK));
        finite += u32::from(k.enter(Attend { queries, cache, chunk, ahead, partials }));
    }
    record.verdict(finite);
    if finite as usize == chunks(visible) {
        k.enter(Join { partials, head_dim, out });
        for partial in partials.chunks_exact(partial_len(head_dim)) {
            let (o, rest) = partial.split_at(head_dim);
            record.floats(o);
            // The sign of a zero maximum is open, and changes nothing.
            rest.iter().for_each(|&x| record.float(x + 0.0));
        }
        record.floats(out);
    }
    Shape::default()
        .number("head_dim", head_dim)
        .number("heads", heads)
        .number("positions", visible)
        .word("queries", kind_queries.name())
        .word("keys", keys.name())
        .word("values", values.name())
}

pub(crate) fn join<K: Kernels>(k: K, mut draw: Draw, mut shelf: Shelf<'_>, record: &mut Record<'_>) -> Shape {
    let head_dim = draw.axis(&HEAD_DIMS);
    let chunks = draw.axis(&[1, 2, 3, 7]);
    let heads = draw.axis(&[1, 3, 8, 5]);
    let kind = draw.kind();
    let partials = shelf.take(chunks * heads * partial_len(head_dim));
    kind.floats(&mut draw.random, partials);
    let out: &mut [f32] = shelf.take(heads * head_dim);
    out.fill(f32::NAN);
    k.enter(Join { partials, head_dim, out });
    record.floats(out);
    Shape::default()
        .number("head_dim", head_dim)
        .number("chunks", chunks)
        .number("heads", heads)
        .word("data", kind.name())
}

//! Storing keys and values.

use crate::cases::Draw;
use crate::report::{Record, Shape};
use crate::rope::{HEAD_DIMS, turn};
use crate::scratch::{FITS, Shelf};
use pocket_kernels::Kernels;
use pocket_kernels::cache::{CacheType, HeadCacheMut, KeysValues, StoreHead};

/// Positions of the cache.
const POSITIONS: usize = 32;

pub(crate) fn store_head<K: Kernels>(
    kind: CacheType,
    k: K,
    mut draw: Draw,
    mut shelf: Shelf<'_>,
    record: &mut Record<'_>,
) -> Shape {
    let head_dim = draw.axis(&HEAD_DIMS);
    let (position, tokens) = draw.axis(&[(0, 1), (15, 1), (16, 1), (31, 1), (0, 17), (13, 5), (15, 17), (16, 16)]);
    let (turn, norm) = turn(&mut draw, &mut shelf, head_dim, tokens);
    let heads = 1 + draw.random.below(3);
    let head = draw.random.below(heads);
    let width = heads * head_dim;
    let [kind_keys, kind_values] = [draw.kind(), draw.kind()];
    let [keys, values] = core::array::from_fn(|_| shelf.take(tokens * width));
    kind_keys.floats(&mut draw.random, keys);
    kind_values.floats(&mut draw.random, values);
    // What is not to be touched is no NaN, so that a change shows.
    let data: &mut [u8] = shelf.take(kind.head_bytes(head_dim, POSITIONS));
    data.fill(0x5a);
    let cache = HeadCacheMut::new(kind, head_dim, POSITIONS, data).expect(FITS);
    let rows = KeysValues { keys, values, width };
    let stored = k.enter(StoreHead { turn, rows, head, position, cache });
    record.verdict(u32::from(stored));
    match kind {
        CacheType::F16 => record.halves(bytemuck::cast_slice(data)),
        // Codes of what is not finite are nobody's.
        CacheType::I8 if !stored => {}
        CacheType::I8 => bytemuck::cast_slice(data).iter().for_each(|&word: &u32| record.word(word)),
    }
    Shape::default()
        .number("head_dim", head_dim)
        .number("position", position)
        .number("tokens", tokens)
        .number("heads", heads)
        .number("head", head)
        .word("norm", norm)
        .word("keys", kind_keys.name())
        .word("values", kind_values.name())
}

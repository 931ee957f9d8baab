//! `Scalar` against the contract in plain loops ([`crate::naive`]), bit for bit.

use crate::naive::{self, Cached, Group};
use half::f16;
use pocket_kernels::ahead::Ahead;
use pocket_kernels::attention::{Attend, Join, Queries, chunks, partial_len};
use pocket_kernels::cache::{CacheType, HeadCache, HeadCacheMut, KeysValues, StoreHead};
use pocket_kernels::embed::EmbedRow;
use pocket_kernels::matmul::{Matmul, Then};
use pocket_kernels::norm::{Norm, NormQuantize};
use pocket_kernels::panel::Panel;
use pocket_kernels::quantize::{Activations, ActivationsMut, Quantize};
use pocket_kernels::rope::{HeadTurn, TurnQueries, rotation};
use pocket_kernels::tile::{Block, Block32, Block64};
use pocket_kernels::weights::{Format, Weights};
use pocket_kernels::{Kernels, Lanes, Scalar};
use std::fmt::Debug;

/// Random numbers for operands (an LCG; its upper bits).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    pub(crate) fn float(&mut self) -> f32 {
        self.bits() as f32 / 536_870_912.0 - 4.0
    }

    pub(crate) fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.float()).collect()
    }

    /// Tiles with any codes and scales of ordinary size.
    pub(crate) fn tiles(&mut self, format: Format, columns: usize, rows: usize) -> Vec<u8> {
        let codes = if format == Format::Q8 { 512 } else { format.group() * 8 };
        let mut data = Vec::new();
        for _ in 0..rows.div_ceil(16) * columns.div_ceil(format.group()) {
            data.extend((0..codes).map(|_| self.bits() as u8));
            data.extend(
                (codes..format.tile_bytes()).step_by(2).flat_map(|_| f16::from_f32(self.float()).to_le_bytes()),
            );
        }
        data
    }
}

/// Asserts that two rows have the same bits, NaN included.
pub(crate) fn assert_bits(got: &[f32], want: &[f32], what: &dyn Debug) {
    assert_eq!(got.len(), want.len(), "{what:?}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let same = g.to_bits() == w.to_bits() || (g.is_nan() && w.is_nan());
        assert!(same, "{what:?}: element {i}: got {g:e} {:#010x}, want {w:e} {:#010x}", g.to_bits(), w.to_bits());
    }
}

/// Quantised groups in both forms.
struct Quantized {
    b32: Vec<Block32>,
    b64: Vec<Block64>,
    naive: Vec<Vec<Group>>,
}

fn assert_groups<B: Block>(got: &[B], want: &[Group], sum: impl Fn(&B) -> i32, what: &dyn Debug) {
    assert_eq!(got.len(), want.len(), "{what:?}");
    for (block, want) in got.iter().zip(want) {
        assert_eq!(block.q(), want.q, "{what:?}");
        assert_eq!(sum(block), want.q.iter().map(|&q| i32::from(q)).sum::<i32>(), "{what:?}");
        assert_bits(&[block.scale(), block.scaled_sum()], &[want.d, want.s], what);
    }
}

/// Quantises a batch by kernel and naively and compares on the way.
fn quantize(x: &[f32], columns: usize, group: usize) -> Quantized {
    let count = columns.div_ceil(group);
    let tokens = x.len() / columns;
    let mut q = Quantized {
        b32: vec![zero_block(); if group == 32 { tokens * count } else { 0 }],
        b64: vec![zero_block(); if group == 64 { tokens * count } else { 0 }],
        naive: x.chunks(columns).map(|x| naive::quantize(x, group)).collect(),
    };
    for (t, x) in x.chunks(columns).enumerate() {
        let at = t * count..(t + 1) * count;
        if group == 32 {
            assert!(Scalar.enter(Quantize { x, out: ActivationsMut::G32(&mut q.b32[at.clone()]) }));
            assert_groups(&q.b32[at], &q.naive[t], |b| b.sum, &(columns, t));
        } else {
            assert!(Scalar.enter(Quantize { x, out: ActivationsMut::G64(&mut q.b64[at.clone()]) }));
            assert_groups(&q.b64[at], &q.naive[t], |b| b.sum, &(columns, t));
        }
    }
    q
}

/// A block of zeros.
pub(crate) fn zero_block<B: Block>() -> B {
    B::zeroed()
}

#[test]
fn quantize_obeys_the_contract() {
    let mut numbers = Numbers(1);
    for (round, columns) in [16, 32, 48, 64, 80, 512, 1008].into_iter().enumerate() {
        for group in [32, 64] {
            let mut x = numbers.floats(columns);
            // Ties (127 fixes the scale at 1), tiny groups on both sides of the limit, and zero.
            match round % 4 {
                0 => x.iter_mut().enumerate().for_each(|(i, x)| *x = if i == 0 { 127.0 } else { x.floor() + 0.5 }),
                1 => x.iter_mut().for_each(|x| *x *= 2.0f32.powi(-102)),
                2 => x.iter_mut().for_each(|x| *x *= 2.0f32.powi(-101) / 4.0),
                _ => x[..group.min(columns)].fill(0.0),
            }
            quantize(&x, columns, group);
            quantize(&numbers.floats(columns * 3), columns, group);
        }
    }
    let mut out = [zero_block::<Block32>(); 2];
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = numbers.floats(64);
        x[37] = bad;
        assert!(!Scalar.enter(Quantize { x: &x, out: ActivationsMut::G32(&mut out) }), "{bad}");
    }
}

#[test]
fn norm_and_rotation_obey_the_contract() {
    let mut numbers = Numbers(2);
    for columns in [16, 48, 64, 96, 1024] {
        let (x, weight) = (numbers.floats(columns), numbers.floats(columns));
        let want = naive::norm(&x, &weight, 1e-6);
        let mut out = vec![zero_block::<Block64>(); columns.div_ceil(64)];
        let norm = Norm { weight: &weight, eps: 1e-6 };
        assert!(Scalar.enter(NormQuantize { norm, x: &x, out: ActivationsMut::G64(&mut out) }));
        assert_groups(&out, &naive::quantize(&want, 64), |b| b.sum, &columns);
    }
    for head_dim in [32, 96, 128] {
        for with_norm in [false, true] {
            let (tokens, heads) = (3, 2);
            let (weight, rotations) = (numbers.floats(head_dim), numbers.floats(tokens * head_dim));
            let norm = with_norm.then_some(Norm { weight: &weight, eps: 1e-5 });
            let before = numbers.floats(tokens * heads * head_dim);
            let mut after = before.clone();
            let turn = HeadTurn { norm, rotations: &rotations, head_dim };
            Scalar.enter(TurnQueries { turn, queries: Panel::whole(&mut after, heads * head_dim) });
            for (i, (x, got)) in before.chunks(head_dim).zip(after.chunks(head_dim)).enumerate() {
                let x = if with_norm { naive::norm(x, &weight, 1e-5) } else { x.to_vec() };
                assert_bits(got, &naive::rotate(&x, &rotations[i / heads * head_dim..][..head_dim]), &(head_dim, i));
            }
        }
    }
}

#[test]
fn rotations_are_cosines_and_sines() {
    let frequencies: Vec<f64> = (0..32).map(|i| 1e4f64.powf(f64::from(i) / -32.0)).collect();
    for position in [0usize, 1, 77, 4095, 131_071] {
        let mut out = [f32::NAN; 64];
        rotation(position, &frequencies, &mut out);
        for (i, frequency) in frequencies.iter().enumerate() {
            let (sine, cosine) = (position as f64 * frequency).sin_cos();
            // Two libraries' f64 functions differ in a last f64 bit, so at most in rounding to f32.
            for (got, want) in [(out[i], cosine as f32), (out[32 + i], sine as f32)] {
                assert!(got.to_bits().abs_diff(want.to_bits()) <= 1, "{position} {i}: {got} {want}");
            }
        }
    }
}

#[test]
fn products_obey_the_contract() {
    let mut numbers = Numbers(3);
    for format in Format::ALL {
        for (rows, columns, tokens) in [(16, 64, 1), (1, 32, 2), (33, 96, 3), (17, 160, 7), (48, 1024, 2)] {
            let what = (format, rows, columns, tokens);
            let stride = format.row_group_bytes(columns);
            let x = numbers.floats(tokens * columns);
            let q = quantize(&x, columns, format.group());
            let data = [numbers.tiles(format, columns, rows), numbers.tiles(format, columns, rows)];
            let [weights, up] =
                [0, 1].map(|i| Weights::new(format, rows, columns, stride, &data[i]).expect("tiles of that size"));
            let product = |data: &[u8], row: usize, token: usize| {
                naive::dot(&naive::tiles(format, columns, stride, row / 16, data), row % 16, &q.naive[token])
            };
            let before = numbers.floats(tokens * rows);
            for then in [Then::Store, Then::Add, Then::SwiGlu(up)] {
                let mut out = before.clone();
                let x = if format.group() == 64 { Activations::G64(&q.b64) } else { Activations::G32(&q.b32) };
                Scalar.matmul(Matmul { weights, x, row_group: 0, then, out: Panel::whole(&mut out, rows) });
                let want: Vec<f32> = (0..tokens * rows)
                    .map(|i| {
                        let y = product(&data[0], i % rows, i / rows);
                        match then {
                            Then::Store => y,
                            Then::Add => before[i] + y,
                            Then::SwiGlu(_) => naive::silu(y) * product(&data[1], i % rows, i / rows),
                        }
                    })
                    .collect();
                assert_bits(&out, &want, &what);
            }
            for row in [0, rows - 1] {
                let mut out = vec![f32::NAN; columns];
                Scalar.enter(EmbedRow { weights, row, out: &mut out });
                let tiles = naive::tiles(format, columns, stride, row / 16, &data[0]);
                let group = format.group();
                let want: Vec<f32> = (0..columns).map(|c| tiles[c / group].value(row % 16, c % group)).collect();
                assert_bits(&out, &want, &("embedding", what));
            }
        }
    }
}

/// Stores a sequence in two batches, attends from the last position, joins.
fn attend(kind: CacheType, head_dim: usize, heads: usize, positions: usize, numbers: &mut Numbers) {
    let what = (kind, head_dim, heads, positions);
    let (kv_heads, head) = (2, 1);
    let width = kv_heads * head_dim;
    let (keys, values) = (numbers.floats(positions * width), numbers.floats(positions * width));
    let (weight, rotations) = (numbers.floats(head_dim), numbers.floats(positions * head_dim));
    let norm = Some(Norm { weight: &weight, eps: 1e-6 });
    let room = positions.next_multiple_of(16) + 16;
    // Every position beyond holds NaN.
    let mut memory = Aligned::new(kind.head_bytes(head_dim, room), 0xff);
    let first = positions / 3;
    for (from, to) in [(0, first), (first, positions)] {
        let turn = HeadTurn { norm, rotations: &rotations[from * head_dim..to * head_dim], head_dim };
        let rows =
            KeysValues { keys: &keys[from * width..to * width], values: &values[from * width..to * width], width };
        let cache = HeadCacheMut::new(kind, head_dim, room, memory.bytes()).expect("a cache of that size");
        assert!(Scalar.enter(StoreHead { turn, rows, head, position: from, cache }), "{what:?}");
    }
    let hold = if kind == CacheType::F16 { Cached::f16 } else { Cached::i8 };
    let row = |x: &[f32], t: usize| x[t * width + head * head_dim..][..head_dim].to_vec();
    let turned =
        |t: usize| naive::rotate(&naive::norm(&row(&keys, t), &weight, 1e-6), &rotations[t * head_dim..][..head_dim]);
    let naive_keys: Vec<Cached> = (0..positions).map(|t| hold(&turned(t))).collect();
    let naive_values: Vec<Cached> = (0..positions).map(|t| hold(&row(&values, t))).collect();

    let queries = numbers.floats(heads * head_dim);
    let chunk_len = heads * partial_len(head_dim);
    let mut partials = vec![f32::NAN; chunks(positions) * chunk_len];
    let cache = HeadCache::new(kind, head_dim, room, memory.bytes()).expect("a cache of that size");
    for (chunk, partials) in partials.chunks_mut(chunk_len).enumerate() {
        let queries = Queries { heads: &queries, head_dim, positions };
        assert!(Scalar.enter(Attend { queries, cache, chunk, ahead: Ahead::default(), partials }), "{what:?}");
    }
    let mut out = vec![f32::NAN; heads * head_dim];
    Scalar.enter(Join { partials: &partials, head_dim, out: &mut out });
    for (query, out) in queries.chunks(head_dim).zip(out.chunks(head_dim)) {
        assert_bits(out, &naive::attention(query, &naive_keys, &naive_values), &what);
    }
}

/// `bytes` bytes of the given value with the alignment of f32, inside a vector.
pub(crate) struct Aligned(Vec<u8>, usize);

impl Aligned {
    pub(crate) fn new(bytes: usize, value: u8) -> Self {
        Self(vec![value; bytes + 3], bytes)
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(4);
        &mut self.0[start..start + self.1]
    }
}

#[test]
fn attention_obeys_the_contract() {
    let mut numbers = Numbers(4);
    for kind in [CacheType::F16, CacheType::I8] {
        for head_dim in [32, 64, 96, 128, 256] {
            for (heads, positions) in [(1, 1), (2, 16), (3, 33), (8, 17)] {
                attend(kind, head_dim, heads, positions, &mut numbers);
            }
        }
        for positions in [255, 256, 257, 513] {
            attend(kind, 64, 7, positions, &mut numbers);
        }
    }
}

#[test]
fn the_software_fma_is_the_fused_one() {
    let mut numbers = Numbers(5);
    for _ in 0..1_000_000 {
        let [a, b, mut c] = std::array::from_fn(|_| f32::from_bits(numbers.bits()));
        if numbers.bits() & 3 == 0 {
            // Almost cancelling: what is left is the rounding error of the product.
            c = -(a * b);
        }
        let got = Scalar.fma([a; 16], [b; 16], [c; 16])[0];
        assert_bits(&[got], &[a.mul_add(b, c)], &(a, b, c));
    }
}

#[test]
fn numbers_too_large_for_a_norm_are_reported() {
    for x in [f32::MAX, 1e30, -1e20] {
        let (weight, mut out) = ([1.0; 64], [zero_block::<Block64>()]);
        let norm = Norm { weight: &weight, eps: 1e-6 };
        let finite = Scalar.enter(NormQuantize { norm, x: &[x; 64], out: ActivationsMut::G64(&mut out) });
        assert!(!finite, "{x:e} is finite, the sum of its squares is not");
        // A head that is normed on its way shows it in what follows.
        let turn = HeadTurn { norm: Some(Norm { weight: &weight, eps: 1e-6 }), rotations: &[0.5; 64], head_dim: 64 };
        let mut head = [x; 64];
        Scalar.enter(TurnQueries { turn, queries: Panel::whole(&mut head, 64) });
        assert!(head.iter().all(|x| x.is_nan()), "{x:e}");
    }
}

//! Kernels alone, on every instruction set: `cargo bench -p pocket-host-test --bench kernels`. An item is a
//! multiplication with its addition. What bounds `prefill` is `micro`: one row group and its activations in the
//! nearest cache.

use divan::Bencher;
use divan::counter::ItemsCount;
use pocket_host_test::images::AlignedBytes;
use pocket_kernels::Kernels;
use pocket_kernels::ahead::Ahead;
use pocket_kernels::attention::{Attend, Join, Queries, partial_len};
use pocket_kernels::cache::{CacheType, HeadCache};
use pocket_kernels::matmul::{Matmul, Then};
use pocket_kernels::panel::Panel;
use pocket_kernels::quantize::{Activations, ActivationsMut, Quantize};
use pocket_kernels::tile::{Block, Block64};
use pocket_kernels::weights::{Format, Weights};
use pocket_pack::isa::{Isa, WithKernels};

fn main() {
    divan::main();
}

/// Bytes without a pattern, none of which makes a scale or element infinite.
fn bytes(len: usize) -> AlignedBytes {
    let mut bytes = AlignedBytes::filled(0, len);
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[2] & 0x3f;
    }
    bytes
}

fn floats(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 1e7 - 0.8).collect()
}

/// A product with 4-bit weights in groups of 64.
struct Product<'b, 'c> {
    bencher: Bencher<'b, 'c>,
    rows: usize,
    columns: usize,
    tokens: usize,
}

impl WithKernels for Product<'_, '_> {
    type Out = ();

    fn with<K: Kernels>(self, kernels: K) {
        let Self { bencher, rows, columns, tokens } = self;
        let stride = Format::Q4A64.row_group_bytes(columns);
        let data = bytes(rows / 16 * stride);
        let weights = Weights::new(Format::Q4A64, rows, columns, stride, &data).expect("a matrix");
        let mut blocks = vec![bytemuck::Zeroable::zeroed(); tokens * columns / Block64::GROUP];
        for (row, out) in floats(tokens * columns).chunks(columns).zip(blocks.chunks_mut(columns / Block64::GROUP)) {
            kernels.enter(Quantize { x: row, out: ActivationsMut::G64(out) });
        }
        let mut out = vec![0.0; tokens * rows];
        bencher.counter(ItemsCount::new(rows * columns * tokens)).bench_local(|| {
            let x = Activations::G64(&blocks);
            let out = Panel::whole(&mut out, rows);
            kernels.matmul(Matmul { weights, x, row_group: 0, then: Then::Store, out });
        });
    }
}

#[divan::bench(args = Isa::available())]
fn micro(bencher: Bencher<'_, '_>, isa: Isa) {
    isa.run(Product { bencher, rows: 16, columns: 896, tokens: 8 }).expect("it is available");
}

#[divan::bench(args = Isa::available())]
fn prefill_up(bencher: Bencher<'_, '_>, isa: Isa) {
    isa.run(Product { bencher, rows: 2560, columns: 896, tokens: 64 }).expect("it is available");
}

#[divan::bench(args = Isa::available())]
fn prefill_down(bencher: Bencher<'_, '_>, isa: Isa) {
    isa.run(Product { bencher, rows: 896, columns: 2560, tokens: 64 }).expect("it is available");
}

#[divan::bench(args = Isa::available())]
fn decode_in_cache(bencher: Bencher<'_, '_>, isa: Isa) {
    isa.run(Product { bencher, rows: 896, columns: 896, tokens: 1 }).expect("it is available");
}

/// A chunk of 256 positions for the seven heads of one token that share a KV head.
struct Chunk<'b, 'c> {
    bencher: Bencher<'b, 'c>,
    kind: CacheType,
}

impl WithKernels for Chunk<'_, '_> {
    type Out = ();

    fn with<K: Kernels>(self, kernels: K) {
        const HEADS: usize = 7;
        const HEAD_DIM: usize = 64;
        const POSITIONS: usize = 256;
        let data = bytes(self.kind.head_bytes(HEAD_DIM, POSITIONS));
        let cache = HeadCache::new(self.kind, HEAD_DIM, POSITIONS, &data).expect("a cache");
        let heads = floats(HEADS * HEAD_DIM);
        let mut partials = vec![0.0; HEADS * partial_len(HEAD_DIM)];
        self.bencher.counter(ItemsCount::new(2 * HEADS * HEAD_DIM * POSITIONS)).bench_local(|| {
            let queries = Queries { heads: &heads, head_dim: HEAD_DIM, positions: POSITIONS };
            kernels.enter(Attend { queries, cache, chunk: 0, ahead: Ahead::default(), partials: &mut partials })
        });
    }
}

/// Two chunks of seven heads become one result.
struct Joining<'b, 'c>(Bencher<'b, 'c>);

impl WithKernels for Joining<'_, '_> {
    type Out = ();

    fn with<K: Kernels>(self, kernels: K) {
        let partials = floats(2 * 7 * partial_len(64));
        let mut out = vec![0.0; 7 * 64];
        self.0.bench_local(|| kernels.enter(Join { partials: &partials, head_dim: 64, out: &mut out }));
    }
}

#[divan::bench(args = Isa::available())]
fn join(bencher: Bencher<'_, '_>, isa: Isa) {
    isa.run(Joining(bencher)).expect("it is available");
}

#[divan::bench(args = Isa::available())]
fn attend_f16(bencher: Bencher<'_, '_>, isa: Isa) {
    isa.run(Chunk { bencher, kind: CacheType::F16 }).expect("it is available");
}

#[divan::bench(args = Isa::available())]
fn attend_i8(bencher: Bencher<'_, '_>, isa: Isa) {
    isa.run(Chunk { bencher, kind: CacheType::I8 }).expect("it is available");
}

//! Products on units for squares of 16 tokens and 16 rows, in batches that are larger than those of the suite: whole
//! blocks of 64 tokens, several of them, and every rest.

use crate::mutations::{Mistake, Wrong};
use pocket_kernels::matmul::{Matmul, Then};
use pocket_kernels::panel::Panels;
use pocket_kernels::quantize::{Activations, ActivationsMut, Quantize};
use pocket_kernels::tile::{Block32, Block64};
use pocket_kernels::weights::{Format, Weights};
use pocket_kernels::{Kernels, Scalar, WIDTH};

/// Numbers without a pattern.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// Tiles whose scales are finite numbers.
    fn tiles(&mut self, format: Format, tiles: usize) -> Vec<u16> {
        let bytes = format.tile_bytes();
        let codes = if format == Format::Q8 { 512 } else { format.group() * WIDTH / 2 };
        let halves = |i: usize| if i % (bytes / 2) < codes / 2 { 0xffff } else { 0xb7ff };
        (0..tiles * bytes / 2).map(|i| self.next() as u16 & halves(i)).collect()
    }
}

/// One product, as bits.
fn product<K: Kernels>(k: K, format: Format, rows: usize, columns: usize, tokens: usize, then: &str) -> Vec<u32> {
    let mut numbers = Numbers((rows * columns * tokens) as u64);
    let groups = columns.div_ceil(format.group());
    let stride = format.row_group_bytes(columns);
    let [gate, up] = [0; 2].map(|_| numbers.tiles(format, rows.div_ceil(WIDTH) * groups));
    let matrix = |data| Weights::new(format, rows, columns, stride, bytemuck::cast_slice(data)).expect("a matrix");
    let x: Vec<f32> = (0..tokens * columns).map(|_| numbers.next() as f32 / 1e9 - 1.0).collect();
    let (mut g32, mut g64) = (vec![], vec![]);
    for row in x.chunks(columns) {
        let mut a = vec![<Block32 as bytemuck::Zeroable>::zeroed(); columns.div_ceil(32)];
        let mut b = vec![<Block64 as bytemuck::Zeroable>::zeroed(); columns.div_ceil(64)];
        assert!(Scalar.quantize(row, ActivationsMut::G32(&mut a)) && Scalar.quantize(row, ActivationsMut::G64(&mut b)));
        g32.extend(a);
        g64.extend(b);
    }
    let mut out: Vec<f32> = (0..tokens * rows).map(|i| i as f32).collect();
    let panels = Panels::columns(&mut out, tokens, 3 * WIDTH);
    while let Some((panel, out)) = panels.claim() {
        let x = if format.group() == 64 { Activations::G64(&g64) } else { Activations::G32(&g32) };
        let then = match then {
            "store" => Then::Store,
            "add" => Then::Add,
            _ => Then::SwiGlu(matrix(&up)),
        };
        k.matmul(Matmul { weights: matrix(&gate), x, row_group: 3 * panel, then, out });
    }
    out.into_iter().map(f32::to_bits).collect()
}

/// Quantising, as a method.
trait Quantizes: Kernels {
    fn quantize(self, x: &[f32], out: ActivationsMut<'_>) -> bool {
        self.enter(Quantize { x, out })
    }
}

impl Quantizes for Scalar {}

fn agrees<K: Kernels>(k: K) {
    for format in Format::ALL {
        for (tokens, rows, columns) in
            [(16, 16, 64), (31, 40, 320), (48, 17, 256), (64, 96, 896), (79, 64, 576), (130, 33, 448)]
        {
            for then in ["store", "add", "swiglu"] {
                let same = product(k, format, rows, columns, tokens, then)
                    == product(Scalar, format, rows, columns, tokens, then);
                assert!(same, "{}: {} {rows} × {columns}, {tokens} tokens, {then}", K::NAME, format.name());
            }
        }
    }
}

#[test]
fn a_unit_in_plain_code_gives_the_bits_of_scalar() {
    agrees(Wrong(Mistake::NoneOnGrid));
}

#[test]
fn every_isa_gives_the_bits_of_scalar_in_large_batches() {
    macro_rules! check {
        ($lanes:expr) => {
            agrees($lanes);
        };
    }
    crate::for_each_isa!(check);
}

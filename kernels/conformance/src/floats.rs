//! Primitives on floats.

use crate::cases::Draw;
use crate::report::{Record, Shape};
use crate::scratch::Shelf;
use pocket_kernels::{Job, Kernels, Lanes, WIDTH};

/// Vectors in a case.
const VECTORS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Float {
    Splat,
    LoadStore,
    Add,
    Sub,
    Mul,
    Div,
    Fma,
    Max,
    Min,
    KeepAtLeast,
    LoadF16,
    StoreF16,
}

type Row = [f32; WIDTH];

struct Floats<'a> {
    op: Float,
    a: &'a [Row],
    b: &'a [Row],
    c: &'a [Row],
    halves: &'a mut [[u16; WIDTH]],
    out: &'a mut [Row],
}

impl Job for Floats<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        for (i, out) in self.out.iter_mut().enumerate() {
            let (a, b, c) = (l.load(&self.a[i]), l.load(&self.b[i]), l.load(&self.c[i]));
            let result = match self.op {
                Float::Splat => l.splat(self.a[i][i]),
                Float::LoadStore => a,
                Float::Add => l.add(a, b),
                Float::Sub => l.sub(a, b),
                Float::Mul => l.mul(a, b),
                Float::Div => l.div(a, b),
                Float::Fma => l.fma(a, b, c),
                Float::Max => l.max(a, b),
                Float::Min => l.min(a, b),
                Float::KeepAtLeast => l.keep_at_least(a, b, c),
                Float::LoadF16 => l.load_f16(&self.halves[i]),
                Float::StoreF16 => {
                    l.store_f16(a, &mut self.halves[i]);
                    continue;
                }
            };
            l.store(result, out);
        }
    }
}

pub(crate) fn run<K: Kernels>(op: Float, k: K, mut draw: Draw, mut shelf: Shelf<'_>, record: &mut Record<'_>) -> Shape {
    let [kind_a, kind_b, kind_c] = [draw.kind(), draw.kind(), draw.kind()];
    let [a, b, c, out] = core::array::from_fn(|_| shelf.take::<Row>(VECTORS));
    let halves = shelf.take::<[u16; WIDTH]>(VECTORS);
    kind_a.floats(&mut draw.random, a.as_flattened_mut());
    kind_b.floats(&mut draw.random, b.as_flattened_mut());
    kind_c.floats(&mut draw.random, c.as_flattened_mut());
    halves.as_flattened_mut().iter_mut().enumerate().for_each(|(i, h)| *h = kind_a.half(i, &mut draw.random));
    // A quarter of the cases cancel, or compare a number with itself.
    if draw.random.below(4) == 0 {
        match op {
            Float::Fma => c.as_flattened_mut().iter_mut().enumerate().for_each(|(i, c)| {
                *c = -(a.as_flattened()[i] * b.as_flattened()[i]);
            }),
            _ => c.copy_from_slice(b),
        }
    }
    if op == Float::StoreF16 && draw.random.below(2) == 0 {
        near_halves(&mut draw, a.as_flattened_mut(), halves.as_flattened());
    }
    out.as_flattened_mut().fill(f32::NAN);
    k.enter(Floats { op, a, b, c, halves, out });
    for (i, &x) in out.as_flattened().iter().enumerate() {
        let (a, b) = (a.as_flattened()[i], b.as_flattened()[i]);
        // What the trait leaves open is not compared.
        let open = a.is_nan() || b.is_nan() || (a == 0.0 && b == 0.0);
        match op {
            Float::StoreF16 => {}
            Float::Max | Float::Min if open => record.word(0),
            _ => record.float(x),
        }
    }
    if op == Float::StoreF16 {
        record.halves(halves.as_flattened());
    }
    Shape::default().word("a", kind_a.name()).word("b", kind_b.name()).word("c", kind_c.name())
}

/// Numbers on, just below and just above the midpoint between two binary16 numbers.
fn near_halves(draw: &mut Draw, out: &mut [f32], halves: &[u16]) {
    for (out, &half) in out.iter_mut().zip(halves) {
        let [low, high] = [half, half.wrapping_add(1)].map(pocket_kernels::scalar::f16_to_f32);
        let middle = (low + high) / 2.0;
        *out = f32::from_bits(middle.to_bits().wrapping_add_signed(draw.random.of(&[0, 1, -1])));
    }
}

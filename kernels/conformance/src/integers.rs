//! Primitives on integers. The machine has no way to load or store 32-bit integers, so they go through others.

use crate::cases::Draw;
use crate::data::Kind;
use crate::report::{Record, Shape};
use pocket_kernels::{Job, Kernels, Lanes, WIDTH};

/// Vectors in a case.
const VECTORS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integer {
    ReduceAdd,
    ReduceMax,
    Splat,
    Add,
    Sub,
    Max,
    AbsBits,
    Round,
    ToFloat,
    ShiftExponent,
    LoadI8,
    StoreI8,
}

/// Loads any integers: the low 31 bits pass as those of a float, the sign is subtracted in two halves.
#[inline(always)]
pub(crate) fn load<L: Lanes>(l: L, x: &[i32; WIDTH]) -> L::I {
    let low = l.abs_bits(l.load(&x.map(|x| f32::from_bits(x as u32 & 0x7fff_ffff))));
    let half = l.abs_bits(l.load(&x.map(|x| f32::from_bits(if x < 0 { 1 << 30 } else { 0 }))));
    l.sub_i(l.sub_i(low, half), half)
}

/// Reads the lanes: all but one are raised to the maximum, which is then taken away from the sum.
#[inline(always)]
pub(crate) fn lanes<L: Lanes>(l: L, x: L::I) -> [i32; WIDTH] {
    core::array::from_fn(|lane| {
        let mask = load(l, &core::array::from_fn(|i| if i == lane { i32::MIN } else { i32::MAX }));
        l.reduce_add_i(l.max_i(x, mask)).wrapping_sub(i32::MAX.wrapping_mul(WIDTH as i32 - 1))
    })
}

/// One vector.
struct Integers<'a> {
    op: Integer,
    a: &'a [i32; WIDTH],
    b: &'a [i32; WIDTH],
    x: &'a [f32; WIDTH],
}

impl Job for Integers<'_> {
    type Out = [i32; WIDTH];

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Self::Out {
        let (a, b, x) = (load(l, self.a), load(l, self.b), l.load(self.x));
        let mut bytes = [0; WIDTH];
        let mut floats = [f32::NAN; WIDTH];
        let result = match self.op {
            Integer::ReduceAdd => return [l.reduce_add_i(a); WIDTH],
            Integer::ReduceMax => return [l.reduce_max_i(a); WIDTH],
            Integer::Splat => l.splat_i(self.a[0]),
            Integer::Add => l.add_i(a, b),
            Integer::Sub => l.sub_i(a, b),
            Integer::Max => l.max_i(a, b),
            Integer::AbsBits => l.abs_bits(x),
            Integer::Round => l.round_i(x),
            Integer::LoadI8 => l.load_i8(&self.a.map(|a| a as i8)),
            Integer::StoreI8 => {
                l.store_i8(load(l, &self.a.map(|a| i32::from(a as i8))), &mut bytes);
                return bytes.map(i32::from);
            }
            Integer::ToFloat => {
                l.store(l.to_f(a), &mut floats);
                return floats.map(|x| x.to_bits() as i32);
            }
            Integer::ShiftExponent => {
                l.store(l.shift_exponent(x, b), &mut floats);
                return floats.map(|x| x.to_bits() as i32);
            }
        };
        lanes(l, result)
    }
}

pub(crate) fn run<K: Kernels>(op: Integer, k: K, mut draw: Draw, record: &mut Record<'_>) -> Shape {
    let [kind_a, kind_b] = [draw.kind(), draw.kind()];
    for vector in 0..VECTORS {
        let random = &mut draw.random;
        let at = |i: usize| vector * WIDTH + i;
        let a = core::array::from_fn(|i| kind_a.int(at(i), random));
        let mut b = core::array::from_fn(|i| kind_b.int(at(i), random));
        let mut x = core::array::from_fn(|i| kind_a.float(at(i), random));
        match op {
            Integer::Round => x = x.map(|x| roundable(x, random.bits())),
            Integer::ShiftExponent => {
                x = core::array::from_fn(|i| Kind::Wide.float(at(i), random))
                    .map(|x| if x.is_normal() { x } else { 1.0 });
                // The exponent field stays within 1..=254.
                b = x.map(|x| 1 + random.below(254) as i32 - ((x.to_bits() >> 23) & 0xff) as i32);
            }
            _ => {}
        }
        record.ints(&k.enter(Integers { op, a: &a, b: &b, x: &x }));
    }
    Shape::default().word("a", kind_a.name()).word("b", kind_b.name())
}

/// `x` where it may be rounded, else an integer and a half, |x| ≤ 2²².
fn roundable(x: f32, bits: u32) -> f32 {
    if x.abs() <= 4_194_304.0 && bits & 1 == 0 { x } else { ((bits >> 9) as i32 - 0x40_0000) as f32 + 0.5 }
}

//! `exp`, and the conversions from and to binary16, over all of their range.

use crate::contract::assert_bits;
use crate::{for_each_isa, naive};
use half::f16;
use pocket_host_test::exponential::{Exp, LEAST, MOST, check};
use pocket_kernels::exp::{EXP_MAX_ULP, silu};
use pocket_kernels::scalar::{f16_to_f32, f32_to_f16};
use pocket_kernels::{Job, Lanes, Scalar, WIDTH};

struct Silu<'a>(&'a [f32; WIDTH]);

impl Job for Silu<'_> {
    type Out = [f32; WIDTH];

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Self::Out {
        let mut out = [0.0; WIDTH];
        l.store(silu(l, l.load(self.0)), &mut out);
        out
    }
}

#[test]
fn exp_is_as_close_as_it_says() {
    // Every f32 is checked by `examples/exp_every_f32.rs`.
    assert!(check(257) <= f64::from(EXP_MAX_ULP));
}

#[test]
fn exp_at_its_edges() {
    let x = [
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
        -1e30,
        -88.0,
        LEAST.next_down(),
        LEAST,
        LEAST.next_up(),
        0.0,
        -0.0,
        MOST,
        MOST.next_up(),
        89.0,
        1e30,
        f32::INFINITY,
        1.0,
    ];
    let mut out = Vec::new();
    macro_rules! check {
        ($lanes:expr) => {
            $lanes.enter(Exp(&x, &mut out));
            assert!(out[..6].iter().all(|y| y.to_bits() == 0), "{out:?}");
            // The smallest result is normal, and the next is no smaller.
            assert!(out[6].is_normal() && out[6] >= f32::MIN_POSITIVE && out[7] >= out[6], "{out:?}");
            assert_eq!(out[8..10], [1.0, 1.0]);
            assert!(out[10].is_finite() && out[11..15].iter().all(|y| *y == out[10]), "{out:?}");
            assert_bits(&out, &x.map(naive::exp), &"naive");
        };
    }
    for_each_isa!(check);
}

#[test]
fn exp_and_silu_are_those_of_the_contract() {
    for i in 0..200_000u32 {
        let x: [f32; WIDTH] = std::array::from_fn(|lane| f32::from_bits((i * 16 + lane as u32).wrapping_mul(1341)));
        let mut out = Vec::new();
        Scalar.enter(Exp(&x, &mut out));
        assert_bits(&out, &x.map(naive::exp), &x);
        assert_bits(&Scalar.enter(Silu(&x)), &x.map(naive::silu), &x);
    }
}

struct FromHalves<'a>(&'a [u16; WIDTH]);

impl Job for FromHalves<'_> {
    type Out = [f32; WIDTH];

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Self::Out {
        let mut out = [0.0; WIDTH];
        l.store(l.load_f16(self.0), &mut out);
        out
    }
}

struct ToHalves<'a>(&'a [f32; WIDTH]);

impl Job for ToHalves<'_> {
    type Out = [u16; WIDTH];

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Self::Out {
        let mut out = [0; WIDTH];
        l.store_f16(l.load(self.0), &mut out);
        out
    }
}

/// Converts 16 numbers on every instruction set: all bits as `Scalar`'s, those of NaN too (x86 and `Scalar` keep the
/// leading bits of a NaN; the contract asks for some NaN only).
fn check_to_halves(x: &[f32; WIDTH]) {
    let want = x.map(f32_to_f16);
    for (x, got) in x.iter().zip(want) {
        let other = f16::from_f32(*x);
        assert!(other.to_bits() == got || (x.is_nan() && f16::from_bits(got).is_nan()), "{x:e}: {got:#06x} {other:?}");
    }
    macro_rules! same {
        ($lanes:expr) => {
            assert_eq!($lanes.enter(ToHalves(x)), want, "{x:?}");
        };
    }
    for_each_isa!(same);
}

#[test]
fn every_half_converts_exactly() {
    for first in (0..=u16::MAX).step_by(WIDTH) {
        let bits: [u16; WIDTH] = std::array::from_fn(|i| first + i as u16);
        let want = bits.map(f16_to_f32);
        assert_bits(&want, &bits.map(|bits| f16::from_bits(bits).to_f32()), &first);
        macro_rules! same {
            ($lanes:expr) => {
                assert_eq!($lanes.enter(FromHalves(&bits)).map(f32::to_bits), want.map(f32::to_bits), "{first}");
            };
        }
        for_each_isa!(same);
        // And back: the same half, a NaN made quiet.
        let back = want.map(f32_to_f16);
        assert_eq!(back, bits.map(|b| if f16::from_bits(b).is_nan() { b | 0x200 } else { b }));
    }
}

#[test]
fn floats_round_to_the_nearest_half() {
    // Every midpoint between neighbours, and the floats on either side of it.
    for bits in 0..0x7c00u16 {
        let next = if bits == 0x7bff { 65536.0 } else { f16_to_f32(bits + 1) };
        let middle = (f16_to_f32(bits) + next) / 2.0;
        let near = [middle, middle.next_up(), middle.next_down(), next];
        check_to_halves(&std::array::from_fn(|i| if i < 8 { near[i % 4] } else { -near[i % 4] }));
    }
    let mut patterns = (0..=u32::MAX).step_by(1009);
    while let Some(first) = patterns.next() {
        let mut x = [f32::from_bits(first); WIDTH];
        x[1..].iter_mut().zip(patterns.by_ref()).for_each(|(x, bits)| *x = f32::from_bits(bits));
        check_to_halves(&x);
    }
}

//! `exp`, and the conversions from and to binary16, over all of their range.

use crate::contract::assert_bits;
use crate::{for_each_isa, naive};
use half::f16;
use pocket_kernels::exp::{EXP_MAX_ULP, exp, silu};
use pocket_kernels::scalar::{f16_to_f32, f32_to_f16};
use pocket_kernels::{Job, Lanes, Scalar, WIDTH};

/// Where `exp` becomes zero, and where it stops growing; as in the contract of the function.
const LEAST: f32 = -87.336_54;
const MOST: f32 = 88.72;

struct Exp<'a>(&'a [f32], &'a mut Vec<f32>);

impl Job for Exp<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        self.1.resize(self.0.len(), f32::NAN);
        for (x, out) in self.0.as_chunks::<WIDTH>().0.iter().zip(self.1.as_chunks_mut::<WIDTH>().0) {
            l.store(exp(l, l.load(x)), out);
        }
    }
}

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

/// Distance from the true value in units of the last place of the true value.
fn ulps(got: f32, x: f32) -> f64 {
    let want = f64::from(x).exp();
    let ulp = 2.0f64.powf(want.log2().floor() - 23.0);
    (f64::from(got) - want).abs() / ulp
}

/// Checks every `step`-th bit pattern of f32 as an argument, on every instruction set; the largest error.
fn check_exp(step: usize) -> f64 {
    const BATCH: usize = 1 << 12;
    let at_most = {
        let mut out = Vec::new();
        Scalar.enter(Exp(&[MOST; WIDTH], &mut out));
        out[0]
    };
    let mut worst = (0.0, 0.0);
    let (mut out, mut other) = (Vec::new(), Vec::new());
    let mut patterns = (0..=u32::MAX).step_by(step);
    loop {
        let mut x: Vec<f32> = patterns.by_ref().take(BATCH).map(f32::from_bits).collect();
        if x.is_empty() {
            break;
        }
        x.resize(x.len().next_multiple_of(WIDTH), 0.0);
        Scalar.enter(Exp(&x, &mut out));
        for (&x, &y) in x.iter().zip(&out) {
            assert!(!y.is_subnormal() && y.is_finite() && y.is_sign_positive(), "exp({x}) = {y:e}");
            if x.is_nan() || x < LEAST {
                assert_eq!(y.to_bits(), 0, "exp({x})");
            } else if x > MOST {
                assert_eq!(y, at_most, "exp({x})");
            } else {
                let error = ulps(y, x);
                worst = if error > worst.0 { (error, x) } else { worst };
            }
        }
        macro_rules! same {
            ($lanes:expr) => {
                $lanes.enter(Exp(&x, &mut other));
                let differs = out.iter().zip(&other).position(|(a, b)| a.to_bits() != b.to_bits());
                assert_eq!(differs.map(|i| x[i]), None, "an argument on which an instruction set differs");
            };
        }
        for_each_isa!(same);
    }
    println!("exp: largest error {:.4} ulp at {:e}, over every {step}th f32", worst.0, worst.1);
    worst.0
}

#[test]
fn exp_is_as_close_as_it_says() {
    assert!(check_exp(257) <= f64::from(EXP_MAX_ULP));
}

/// Takes minutes: for a scheduled run.
#[test]
#[ignore = "every f32: minutes"]
fn exp_is_as_close_as_it_says_for_every_argument() {
    assert!(check_exp(1) <= f64::from(EXP_MAX_ULP));
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

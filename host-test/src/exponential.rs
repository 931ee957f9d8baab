//! How far `exp` is from the truth, and whether all instruction sets agree on it.

use pocket_kernels::exp::exp;
use pocket_kernels::{Job, Kernels, Lanes, Scalar, WIDTH};
use pocket_pack::isa::{Isa, WithKernels};

/// Where `exp` becomes zero; as in the function's contract.
pub const LEAST: f32 = -87.336_54;
/// Where it stops growing.
pub const MOST: f32 = 88.72;

/// Computes `exp` of a multiple of 16 numbers.
#[derive(Debug)]
pub struct Exp<'a>(pub &'a [f32], pub &'a mut Vec<f32>);

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

impl WithKernels for Exp<'_> {
    type Out = ();

    fn with<K: Kernels>(self, kernels: K) {
        kernels.enter(self);
    }
}

/// Distance from the true value in units of the last place of the true value.
fn ulps(got: f32, x: f32) -> f64 {
    let want = f64::from(x).exp();
    let ulp = 2.0f64.powf(want.log2().floor() - 23.0);
    (f64::from(got) - want).abs() / ulp
}

/// Checks every `step`-th bit pattern of f32 as an argument, on every instruction set; gives the largest error in ulp.
///
/// # Panics
/// If a result is not what the contract says, or instruction sets differ.
pub fn check(step: usize) -> f64 {
    const BATCH: usize = 1 << 12;
    let mut out = Vec::new();
    Scalar.enter(Exp(&[MOST; WIDTH], &mut out));
    let at_most = out[0];
    let mut other = Vec::new();
    let mut worst = (0.0, 0.0);
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
        for isa in Isa::available().filter(|&isa| isa != Isa::Scalar) {
            isa.run(Exp(&x, &mut other)).expect("an instruction set that is there");
            let differs = out.iter().zip(&other).position(|(a, b)| a.to_bits() != b.to_bits());
            assert_eq!(differs.map(|i| x[i]), None, "an argument on which {isa} differs");
        }
    }
    println!("exp: largest error {:.4} ulp at {:e}, over every {step}th f32", worst.0, worst.1);
    worst.0
}

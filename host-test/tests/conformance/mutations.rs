//! The suite must be able to fail: ports that are wrong in one way each, and what the suite says about them.

use pocket_kernels::grid::{Bytes, Grid, GridMatmul, Square};
use pocket_kernels::matmul::{Matmul, Then};
use pocket_kernels::tile::Block;
use pocket_kernels::{Job, Kernels, Lanes, Scalar, WIDTH};
use pocket_kernels_conformance::{HASH, Scratch, hash_only, run};
use std::collections::BTreeSet;

/// One mistake of the sort that a port makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The wrapper itself changes nothing.
    None,
    /// Nor does a unit for squares, in plain code.
    NoneOnGrid,
    /// A unit that multiplies the first token sixteen times.
    OneToken,
    /// Multiply, round, add.
    Unfused,
    /// The two halves of a chunk change places.
    NibblesSwapped,
    /// Rows 0..8 and 8..16 of a chunk change places, as after an unpermuted 256-bit operation.
    LanesSwapped,
    /// Unpacked codes come back with rows 0..8 and 8..16 swapped: seen in batches only.
    StoredSwapped,
    /// Sums of codes saturate at 16 bits: seen with the largest codes only.
    SumsSaturate,
    /// −128 counts as −127: seen with that one byte only.
    ByteClamped,
    /// Ties round away from zero.
    TiesAway,
    /// Binary16 is made by cutting bits off.
    HalfCut,
    /// Subnormal products are flushed to zero.
    Flushed,
    /// Division by multiplying with the reciprocal.
    Reciprocal,
    /// Comparing with "not below": NaN is kept.
    NanKept,
    /// An overriding product that forgets the residual stream.
    ResidualLost,
    /// An overriding product that begins every panel at the first row.
    PanelFirst,
}

/// `Scalar` with a mistake. A value, not a type, so that all kernels are compiled for it once.
#[derive(Clone, Copy)]
pub(crate) struct Wrong(pub(crate) Mistake);

/// Passes operations on unchanged.
macro_rules! same {
    ($($name:ident($($arg:ident: $t:ty),*) -> $out:ty;)*) => {
        $(#[inline(always)] fn $name(self, $($arg: $t),*) -> $out { Scalar.$name($($arg),*) })*
    };
}

type F = [f32; WIDTH];
type I = [i32; WIDTH];

// SAFETY: no instruction is used beyond those of `Scalar`, which needs none beyond the baseline.
unsafe impl Lanes for Wrong {
    const NAME: &'static str = "wrong";
    const COLUMNS: usize = 2;
    const BATCHED: bool = true;
    const PAIRS: bool = true;
    const BYTES_BIAS: i32 = 0;
    type F = F;
    type I = I;
    type Codes = <Scalar as Lanes>::Codes;
    type Bytes = <Scalar as Lanes>::Bytes;
    type Sums = I;

    fn enter<J: Job>(self, job: J) -> J::Out {
        job.run(self)
    }

    same! {
        splat(x: f32) -> F;
        load(x: &F) -> F;
        store(x: F, out: &mut F) -> ();
        add(a: F, b: F) -> F;
        sub(a: F, b: F) -> F;
        max(a: F, b: F) -> F;
        min(a: F, b: F) -> F;
        splat_i(x: i32) -> I;
        add_i(a: I, b: I) -> I;
        sub_i(a: I, b: I) -> I;
        max_i(a: I, b: I) -> I;
        reduce_add_i(a: I) -> i32;
        reduce_max_i(a: I) -> i32;
        abs_bits(x: F) -> I;
        to_f(x: I) -> F;
        shift_exponent(x: F, n: I) -> F;
        load_f16(x: &[u16; WIDTH]) -> F;
        load_i8(x: &[i8; WIDTH]) -> I;
        store_i8(x: I, out: &mut [i8; WIDTH]) -> ();
        store_codes(codes: Self::Codes, out: &mut [u8; 64]) -> ();
        no_sums() -> I;
        add_sums(acc: I, sums: I) -> I;
        dot_bytes(acc: I, bytes: Self::Bytes, q: &[i8; 4]) -> I;
    }

    fn mul(self, a: F, b: F) -> F {
        let product = Scalar.mul(a, b);
        if self.0 == Mistake::Flushed { product.map(|x| if x.is_subnormal() { 0.0 } else { x }) } else { product }
    }
    fn div(self, a: F, b: F) -> F {
        if self.0 == Mistake::Reciprocal { Scalar.mul(a, b.map(|b| 1.0 / b)) } else { Scalar.div(a, b) }
    }
    fn fma(self, a: F, b: F, c: F) -> F {
        if self.0 == Mistake::Unfused { Scalar.add(Scalar.mul(a, b), c) } else { Scalar.fma(a, b, c) }
    }
    fn keep_at_least(self, value: F, x: F, limit: F) -> F {
        if self.0 == Mistake::NanKept {
            return core::array::from_fn(|i| if x[i] < limit[i] { 0.0 } else { value[i] });
        }
        Scalar.keep_at_least(value, x, limit)
    }
    fn round_i(self, x: F) -> I {
        if self.0 == Mistake::TiesAway { x.map(|x| x.round() as i32) } else { Scalar.round_i(x) }
    }
    fn store_f16(self, x: F, out: &mut [u16; WIDTH]) {
        // Cut where the value is normal in both formats; the rest as it should be.
        let cut = x.map(|x| if x.abs() >= 6.2e-5 { f32::from_bits(x.to_bits() & !0x1fff) } else { x });
        Scalar.store_f16(if self.0 == Mistake::HalfCut { cut } else { x }, out);
    }
    fn unpack(self, chunk: &[u8; 64]) -> [Self::Codes; 2] {
        let [mut low, mut high] = Scalar.unpack(chunk);
        match self.0 {
            Mistake::NibblesSwapped => core::mem::swap(&mut low, &mut high),
            Mistake::LanesSwapped => high.rotate_left(WIDTH / 2),
            _ => {}
        }
        [low, high]
    }
    fn load_codes(self, bytes: &[u8; 64]) -> Self::Codes {
        let mut codes = Scalar.load_codes(bytes);
        if self.0 == Mistake::StoredSwapped {
            codes.rotate_left(WIDTH / 2);
        }
        codes
    }
    fn dot_codes(self, sums: I, codes: Self::Codes, q: &[i8; 4]) -> I {
        let sums = Scalar.dot_codes(sums, codes, q);
        if self.0 == Mistake::SumsSaturate { sums.map(|s| s.clamp(-0x8000, 0x7fff)) } else { sums }
    }
    fn bytes(self, chunk: &[u8; 64]) -> Self::Bytes {
        let bytes = Scalar.bytes(chunk);
        if self.0 == Mistake::ByteClamped { bytes.map(|b| b.map(|b| b.max(-127))) } else { bytes }
    }
}

impl Grid for Wrong {
    type Unit<B: Block> = ();

    unsafe fn open<B: Block>(self) {}

    fn squares<B: Block, const M: usize>(
        self,
        _: &(),
        weights: &[Bytes; M],
        x: &[B],
        stride: usize,
        out: &mut [Square; M],
    ) {
        for (weights, out) in weights.iter().zip(out) {
            for (n, out) in out.0.iter_mut().enumerate() {
                let q = x[if self.0 == Mistake::OneToken { 0 } else { n * stride }].q();
                let weight = |lane: usize, column: usize| weights.0[column / 4][lane * 4 + column % 4] as i8;
                *out = core::array::from_fn(|lane| {
                    q.iter().enumerate().map(|(column, &q)| i32::from(weight(lane, column)) * i32::from(q)).sum()
                });
            }
        }
    }
    fn nibbles(self, bytes: &[u8; 64], bias: u8, out: &mut [[u8; 64]; 2]) {
        *out = [bytes.map(|b| (b & 15).wrapping_sub(bias)), bytes.map(|b| (b >> 4).wrapping_sub(bias))];
    }
    fn sums(self, sums: &I) -> I {
        *sums
    }
}

impl Kernels for Wrong {
    fn matmul(self, mut job: Matmul<'_, '_>) {
        match self.0 {
            Mistake::NoneOnGrid | Mistake::OneToken => return self.enter(GridMatmul { grid: self, matmul: job }),
            Mistake::ResidualLost if matches!(job.then, Then::Add) => job.then = Then::Store,
            Mistake::PanelFirst => job.row_group = 0,
            _ => {}
        }
        self.enter(job);
    }
}

/// The operations that the suite reports as failing for a mistake.
fn reported(mistake: Mistake) -> BTreeSet<String> {
    let mut scratch = Box::new(Scratch::new());
    let mut report = String::new();
    let outcome = run(Wrong(mistake), &mut scratch, &mut report).expect("a string takes any report");
    let lines = report.lines().filter_map(|line| line.strip_prefix("FAIL wrong/"));
    let failed: BTreeSet<String> = lines.filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect();
    assert_eq!(failed.is_empty(), outcome.failures == 0, "{report}");
    // A board that compares hashes alone sees it too.
    let alone = hash_only(Wrong(mistake), &mut scratch, &mut String::new()).expect("a string");
    assert_eq!(alone.hash, outcome.hash);
    assert_eq!(outcome.hash == HASH, failed.is_empty());
    failed
}

/// Asserts that the mistake is reported for `wrong` and for nothing in `right`; a name ending in `*` stands for all
/// operations that begin so.
fn assert_reported(mistake: Mistake, wrong: &[&str], right: &[&str]) {
    let failed = reported(mistake);
    let matches = |pattern: &str, name: &String| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    for pattern in wrong {
        assert!(failed.iter().any(|name| matches(pattern, name)), "{pattern} should have failed: {failed:?}");
    }
    for pattern in right {
        assert!(!failed.iter().any(|name| matches(pattern, name)), "{pattern} should have passed: {failed:?}");
    }
}

const FORMATS4: [&str; 4] = ["matmul_q4a64", "matmul_q4a32", "matmul_q4s64", "matmul_q4s32"];

#[test]
fn a_wrapper_without_mistake_passes() {
    assert!(reported(Mistake::None).is_empty());
    assert!(reported(Mistake::NoneOnGrid).is_empty());
}

#[test]
fn mistakes_in_float_primitives_are_named() {
    let all = ["fma", "exp", "silu", "norm_quantize_g64", "turn_queries", "attend_f16", "attend_i8", "join"];
    assert_reported(Mistake::Unfused, &all, &["add", "mul", "quantize_g32", "quantize_g64", "arg_max"]);
    // A binary16 scale times a 4-bit code is exact, so the embedding cannot tell.
    assert_reported(Mistake::Unfused, &["matmul_q8", FORMATS4[0], FORMATS4[3]], &["embed*"]);
    assert_reported(Mistake::TiesAway, &["round_i", "quantize_g32", "quantize_g64", "store_head_i8"], &["fma"]);
    assert_reported(
        Mistake::HalfCut,
        &["store_f16", "store_head_f16"],
        &["attend*", "matmul*", "store_head_i8", "load_f16"],
    );
    assert_reported(
        Mistake::Flushed,
        &["mul", "matmul_q4a64", "matmul_q8", "turn_queries"],
        &["add", "fma", "quantize_g*"],
    );
    assert_reported(
        Mistake::Reciprocal,
        &["div", "silu", "join", "attend_f16", "matmul_q4a64"],
        &["exp", "embed*", "dot*"],
    );
    assert_reported(Mistake::NanKept, &["keep_at_least", "exp"], &["quantize*", "add", "embed*"]);
}

#[test]
fn mistakes_in_integer_primitives_are_named() {
    let others = ["matmul_q8", "embed*", "attend*", "quantize*", "dot_bytes", "fma"];
    for mistake in [Mistake::NibblesSwapped, Mistake::LanesSwapped] {
        assert_reported(mistake, &["unpack", "dot_codes"], &others);
        assert_reported(mistake, &FORMATS4, &[]);
    }
    assert_reported(Mistake::StoredSwapped, &FORMATS4, &others);
    assert_reported(Mistake::StoredSwapped, &[], &["unpack", "dot_codes"]);
    assert_reported(Mistake::SumsSaturate, &["dot_codes"], &["unpack"]);
    assert_reported(Mistake::SumsSaturate, &FORMATS4, &others);
    assert_reported(Mistake::ByteClamped, &["dot_bytes", "matmul_q8"], &["dot_codes", "unpack", "matmul_q4*"]);
}

#[test]
fn mistakes_in_an_overriding_kernel_are_named_and_nothing_else_is() {
    for mistake in [Mistake::ResidualLost, Mistake::PanelFirst, Mistake::OneToken] {
        assert_reported(
            mistake,
            &FORMATS4,
            &["attend*", "embed*", "quantize*", "norm*", "fma", "dot*", "unpack", "exp", "silu"],
        );
        assert_reported(mistake, &["matmul_q8"], &[]);
    }
}

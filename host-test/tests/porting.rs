//! `kernels/PORTING.md`, followed for a toy machine: registers of 128 bits, and nothing but plain Rust in them.
//!
//! The port must pass the suite; with a mistake in one operation, the suite must name that operation first.

use pocket_kernels::scalar::{f16_to_f32, f32_to_f16};
use pocket_kernels::{Job, Kernels, Lanes, WIDTH};
use pocket_kernels_conformance::{HASH, Scratch, run};
use std::array::from_fn;

/// Step 2: the token. The mistake is in it so that all kernels are compiled once.
#[derive(Clone, Copy, Debug)]
struct Toy {
    /// Two lanes of a register of bytes' products change places.
    mistaken: bool,
}

/// A register.
type R<T> = [T; 4];
/// Sixteen lanes of it.
type Q<T> = [R<T>; 4];

/// An instruction on one register after the other.
#[inline(always)]
fn one<T: Copy, U>(a: Q<T>, f: impl Fn(T) -> U) -> Q<U> {
    a.map(|a| a.map(&f))
}

/// As [`one`], with two operands.
#[inline(always)]
fn two<T: Copy, U: Copy, V>(a: Q<T>, b: Q<U>, f: impl Fn(T, U) -> V) -> Q<V> {
    from_fn(|r| from_fn(|i| f(a[r][i], b[r][i])))
}

#[inline(always)]
fn load<T: Copy>(x: &[T; WIDTH]) -> Q<T> {
    from_fn(|r| from_fn(|i| x[4 * r + i]))
}

#[inline(always)]
fn store<T: Copy>(x: Q<T>, out: &mut [T; WIDTH]) {
    out.copy_from_slice(x.as_flattened());
}

/// The machine's dot product: four products a lane.
#[inline(always)]
fn dot<T: Copy + Into<i32>>(w: R<T>, q: &[i8; 4]) -> i32 {
    (0..4).map(|i| w[i].into() * i32::from(q[i])).sum()
}

// SAFETY: no instruction is used beyond the baseline of any target.
unsafe impl Lanes for Toy {
    const NAME: &'static str = "toy";
    const COLUMNS: usize = 2;
    // Few registers, but many tokens.
    const BATCHED: bool = true;
    const WIDE_SUMS: bool = true;
    const BYTES_BIAS: i32 = 0;
    type F = Q<f32>;
    type I = Q<i32>;
    type Codes = Q<R<u8>>;
    type Bytes = Q<R<i8>>;
    /// Eight calls with four products each are at most 8 · 4 · 15 · 127, which 16 bits do not hold.
    type Sums = Q<i32>;

    // A real port has `#[target_feature]` here.
    fn enter<J: Job>(self, job: J) -> J::Out {
        job.run(self)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [[x; 4]; 4]
    }
    #[inline(always)]
    fn load(self, x: &[f32; WIDTH]) -> Self::F {
        load(x)
    }
    #[inline(always)]
    fn store(self, x: Self::F, out: &mut [f32; WIDTH]) {
        store(x, out);
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        two(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        two(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        two(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        two(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        from_fn(|r| from_fn(|i| a[r][i].mul_add(b[r][i], c[r][i])))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        two(a, b, f32::max)
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        two(a, b, f32::min)
    }
    #[inline(always)]
    fn keep_at_least(self, value: Self::F, x: Self::F, limit: Self::F) -> Self::F {
        let keep = two(x, limit, |x, limit| x >= limit);
        two(value, keep, |value, keep| if keep { value } else { 0.0 })
    }

    #[inline(always)]
    fn splat_i(self, x: i32) -> Self::I {
        [[x; 4]; 4]
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        two(a, b, i32::wrapping_add)
    }
    #[inline(always)]
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I {
        two(a, b, i32::wrapping_sub)
    }
    #[inline(always)]
    fn max_i(self, a: Self::I, b: Self::I) -> Self::I {
        two(a, b, i32::max)
    }
    #[inline(always)]
    fn reduce_add_i(self, a: Self::I) -> i32 {
        a.as_flattened().iter().fold(0, |sum: i32, x| sum.wrapping_add(*x))
    }
    #[inline(always)]
    fn reduce_max_i(self, a: Self::I) -> i32 {
        a.as_flattened().iter().fold(i32::MIN, |most, x| most.max(*x))
    }
    #[inline(always)]
    fn abs_bits(self, x: Self::F) -> Self::I {
        one(x, |x| (x.to_bits() & 0x7fff_ffff) as i32)
    }
    #[inline(always)]
    fn round_i(self, x: Self::F) -> Self::I {
        one(x, |x| x.round_ties_even() as i32)
    }
    #[inline(always)]
    fn to_f(self, x: Self::I) -> Self::F {
        one(x, |x| x as f32)
    }
    #[inline(always)]
    fn shift_exponent(self, x: Self::F, n: Self::I) -> Self::F {
        two(x, n, |x, n| f32::from_bits(x.to_bits().wrapping_add((n as u32) << 23)))
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; WIDTH]) -> Self::F {
        one(load(x), f16_to_f32)
    }
    #[inline(always)]
    fn store_f16(self, x: Self::F, out: &mut [u16; WIDTH]) {
        store(one(x, f32_to_f16), out);
    }
    #[inline(always)]
    fn load_i8(self, x: &[i8; WIDTH]) -> Self::I {
        one(load(x), i32::from)
    }
    #[inline(always)]
    fn store_i8(self, x: Self::I, out: &mut [i8; WIDTH]) {
        store(one(x, |x| x as i8), out);
    }

    #[inline(always)]
    fn unpack(self, chunk: &[u8; 64]) -> [Self::Codes; 2] {
        let nibbles = |shift: u32| from_fn(|r| from_fn(|i| from_fn(|b| (chunk[16 * r + 4 * i + b] >> shift) & 15)));
        [nibbles(0), nibbles(4)]
    }
    #[inline(always)]
    fn store_codes(self, codes: Self::Codes, out: &mut [u8; 64]) {
        for (out, code) in out.iter_mut().zip(codes.as_flattened().as_flattened()) {
            *out = *code;
        }
    }
    #[inline(always)]
    fn load_codes(self, bytes: &[u8; 64]) -> Self::Codes {
        from_fn(|r| from_fn(|i| from_fn(|b| bytes[16 * r + 4 * i + b])))
    }
    #[inline(always)]
    fn no_sums(self) -> Self::Sums {
        self.splat_i(0)
    }
    #[inline(always)]
    fn dot_codes(self, sums: Self::Sums, codes: Self::Codes, q: &[i8; 4]) -> Self::Sums {
        self.add_i(sums, one(codes, |codes| dot(codes, q)))
    }
    #[inline(always)]
    fn add_sums(self, acc: Self::I, sums: Self::Sums) -> Self::I {
        self.add_i(acc, sums)
    }
    #[inline(always)]
    fn bytes(self, chunk: &[u8; 64]) -> Self::Bytes {
        from_fn(|r| from_fn(|i| from_fn(|b| chunk[16 * r + 4 * i + b] as i8)))
    }
    #[inline(always)]
    fn dot_bytes(self, acc: Self::I, bytes: Self::Bytes, q: &[i8; 4]) -> Self::I {
        let mut products = one(bytes, |bytes| dot(bytes, q));
        if self.mistaken {
            products[2].swap(0, 1);
        }
        self.add_i(acc, products)
    }
}

// Step 6 is not needed: the generic kernels do.
impl Kernels for Toy {}

/// Step 4: the suite's report, and whether its hash is the one of all machines.
fn report(port: Toy) -> (String, bool) {
    let mut scratch = Box::new(Scratch::new());
    let mut report = String::new();
    let outcome = run(port, &mut scratch, &mut report).expect("a string takes any report");
    (report, outcome.failures == 0 && outcome.hash == HASH)
}

#[test]
fn a_port_made_by_the_document_passes() {
    let (report, conforms) = report(Toy { mistaken: false });
    assert!(conforms, "{report}");
}

#[test]
fn the_first_failure_names_the_wrong_operation() {
    let (report, conforms) = report(Toy { mistaken: true });
    assert!(!conforms);
    let first = report.lines().find_map(|line| line.strip_prefix("FAIL toy/")).expect("a failure");
    assert!(first.starts_with("dot_bytes:"), "{report}");
    // The case above it names a lane that is wrong: rows 8 and 9 were swapped.
    let element = report.lines().find(|line| line.contains("lane")).expect("a wrong element");
    assert!(element.contains("lane 8") || element.contains("lane 9"), "{element}");
}

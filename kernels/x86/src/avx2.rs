//! AVX2 with FMA and F16C, and the same with AVX-VNNI: 16 lanes in two registers.

use core::arch::x86_64::*;
use pocket_kernels::{Job, Kernels, Lanes, WIDTH};

use crate::detect::{ahead, features};
use crate::isa::isa;

/// Proof that AVX2, FMA and F16C may be used; with `VNNI`, AVX-VNNI, too.
#[derive(Clone, Copy, Debug)]
pub struct Avx<const VNNI: bool> {
    ahead: usize,
}

/// AVX2 with FMA and F16C.
pub type Avx2 = Avx<false>;

/// AVX2 with FMA, F16C and AVX-VNNI: the processors of PCs from 2021 on, which have no AVX-512.
pub type AvxVnni = Avx<true>;

impl<const VNNI: bool> Avx<VNNI> {
    /// The token, if the processor has the extensions and the system saves the registers.
    #[must_use]
    pub fn detect() -> Option<Self> {
        let features = features();
        let found = if VNNI { features.avx_vnni } else { features.avx2 };
        found.then(|| Self { ahead: ahead() })
    }

    /// The token without asking.
    ///
    /// # Safety
    /// The processor must have AVX2, FMA and F16C, with `VNNI` also AVX-VNNI, and whoever switches contexts must save the YMM
    /// registers.
    #[must_use]
    pub unsafe fn assume() -> Self {
        Self { ahead: ahead() }
    }
}

/// Running a job where the compiler may use the extensions, which a function names.
trait Inside: Sized {
    /// Runs it.
    fn inside<J: Job>(self, job: J) -> J::Out;
}

impl Inside for Avx2 {
    fn inside<J: Job>(self, job: J) -> J::Out {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn inside<J: Job>(lanes: Avx2, job: J) -> J::Out {
            job.run(lanes)
        }
        isa!(inside(self, job))
    }
}

impl Inside for AvxVnni {
    fn inside<J: Job>(self, job: J) -> J::Out {
        #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
        fn inside<J: Job>(lanes: AvxVnni, job: J) -> J::Out {
            job.run(lanes)
        }
        isa!(inside(self, job))
    }
}

/// Applies an intrinsic to both halves.
macro_rules! both {
    ($f:ident($($x:ident),+)) => {
        isa!([$f($($x[0]),+), $f($($x[1]),+)])
    };
}

/// An expression for each half. Not a closure: one that is not inlined is not compiled for the instruction set, and then its
/// intrinsics are calls.
macro_rules! each {
    ($i:ident => $e:expr) => {
        isa!([
            {
                let $i = 0;
                $e
            },
            {
                let $i = 1;
                $e
            },
        ])
    };
}

/// The two 8-element halves of 16 elements.
#[inline(always)]
fn halves<T>(x: &[T; WIDTH]) -> [*const T; 2] {
    let (a, b) = x.split_at(WIDTH / 2);
    [a.as_ptr(), b.as_ptr()]
}

/// As [`halves`], for stores.
#[inline(always)]
fn halves_mut<T>(x: &mut [T; WIDTH]) -> [*mut T; 2] {
    let (a, b) = x.split_at_mut(WIDTH / 2);
    [a.as_mut_ptr(), b.as_mut_ptr()]
}

// SAFETY: `Avx` is made by `detect`, or by `assume` whose caller takes the obligation; no other value exists.
unsafe impl<const VNNI: bool> Lanes for Avx<VNNI>
where
    Self: Inside,
{
    const NAME: &'static str = if VNNI { "avxvnni" } else { "avx2" };
    const COLUMNS: usize = 6;
    const ROLLED: bool = true;
    const BATCHED: bool = true;
    const WIDE_SUMS: bool = VNNI;
    /// The dot instruction of VNNI wants unsigned weights, so bytes are shifted by 128.
    const BYTES_BIAS: i32 = if VNNI { 128 } else { 0 };
    type F = [__m256; 2];
    type I = [__m256i; 2];
    type Codes = [__m256i; 2];
    type Bytes = [__m256i; 2];
    /// 16-bit sums of two products, with VNNI 32-bit sums of four.
    type Sums = [__m256i; 2];

    fn enter<J: Job>(self, job: J) -> J::Out {
        self.inside(job)
    }

    #[inline(always)]
    fn ahead(self) -> usize {
        self.ahead
    }
    #[inline(always)]
    fn fetch(self, byte: &u8) {
        isa!(_mm_prefetch::<_MM_HINT_T1>(core::ptr::from_ref(byte).cast()));
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        isa!([_mm256_set1_ps(x); 2])
    }
    #[inline(always)]
    fn load(self, x: &[f32; WIDTH]) -> Self::F {
        let x = halves(x);
        each!(i => _mm256_loadu_ps(x[i]))
    }
    #[inline(always)]
    fn store(self, x: Self::F, out: &mut [f32; WIDTH]) {
        let [a, b] = halves_mut(out);
        isa!({
            _mm256_storeu_ps(a, x[0]);
            _mm256_storeu_ps(b, x[1]);
        });
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        both!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_min_ps(a, b))
    }
    #[inline(always)]
    fn keep_at_least(self, value: Self::F, x: Self::F, limit: Self::F) -> Self::F {
        each!(i => _mm256_and_ps(value[i], _mm256_cmp_ps::<_CMP_GE_OQ>(x[i], limit[i])))
    }

    #[inline(always)]
    fn splat_i(self, x: i32) -> Self::I {
        isa!([_mm256_set1_epi32(x); 2])
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        both!(_mm256_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I {
        both!(_mm256_sub_epi32(a, b))
    }
    #[inline(always)]
    fn max_i(self, a: Self::I, b: Self::I) -> Self::I {
        both!(_mm256_max_epi32(a, b))
    }
    #[inline(always)]
    fn reduce_add_i(self, a: Self::I) -> i32 {
        isa!({
            let x = _mm256_add_epi32(a[0], a[1]);
            let x = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            let x = _mm_add_epi32(x, _mm_shuffle_epi32::<0b01_00_11_10>(x));
            _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32::<0b10_11_00_01>(x)))
        })
    }
    #[inline(always)]
    fn reduce_max_i(self, a: Self::I) -> i32 {
        isa!({
            let x = _mm256_max_epi32(a[0], a[1]);
            let x = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            let x = _mm_max_epi32(x, _mm_shuffle_epi32::<0b01_00_11_10>(x));
            _mm_cvtsi128_si32(_mm_max_epi32(x, _mm_shuffle_epi32::<0b10_11_00_01>(x)))
        })
    }
    #[inline(always)]
    fn abs_bits(self, x: Self::F) -> Self::I {
        each!(i => _mm256_and_si256(_mm256_castps_si256(x[i]), _mm256_set1_epi32(i32::MAX)))
    }
    #[inline(always)]
    fn round_i(self, x: Self::F) -> Self::I {
        both!(_mm256_cvtps_epi32(x))
    }
    #[inline(always)]
    fn to_f(self, x: Self::I) -> Self::F {
        both!(_mm256_cvtepi32_ps(x))
    }
    #[inline(always)]
    fn shift_exponent(self, x: Self::F, n: Self::I) -> Self::F {
        each!(i => _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x[i]), _mm256_slli_epi32::<23>(n[i]))))
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; WIDTH]) -> Self::F {
        let x = halves(x);
        each!(i => _mm256_cvtph_ps(_mm_loadu_si128(x[i].cast())))
    }
    #[inline(always)]
    fn store_f16(self, x: Self::F, out: &mut [u16; WIDTH]) {
        let [a, b] = halves_mut(out);
        isa!({
            _mm_storeu_si128(a.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x[0]));
            _mm_storeu_si128(b.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x[1]));
        });
    }
    #[inline(always)]
    fn load_i8(self, x: &[i8; WIDTH]) -> Self::I {
        let x = halves(x);
        each!(i => _mm256_cvtepi8_epi32(_mm_loadl_epi64(x[i].cast())))
    }
    #[inline(always)]
    fn store_i8(self, x: Self::I, out: &mut [i8; WIDTH]) {
        isa!({
            // Packing works within 128-bit lanes; the permutation puts the quarters back in order.
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(x[0], x[1]));
            let bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(out.as_mut_ptr().cast(), bytes);
        });
    }

    #[inline(always)]
    fn unpack(self, chunk: &[u8; 64]) -> [Self::Codes; 2] {
        let chunk = self.load_codes(chunk);
        let mask = isa!(_mm256_set1_epi8(15));
        [
            each!(i => _mm256_and_si256(chunk[i], mask)),
            each!(i => _mm256_and_si256(_mm256_srli_epi16::<4>(chunk[i]), mask)),
        ]
    }
    #[inline(always)]
    fn store_codes(self, codes: Self::Codes, out: &mut [u8; 64]) {
        let (a, b) = out.split_at_mut(32);
        isa!({
            _mm256_storeu_si256(a.as_mut_ptr().cast(), codes[0]);
            _mm256_storeu_si256(b.as_mut_ptr().cast(), codes[1]);
        });
    }
    #[inline(always)]
    fn load_codes(self, bytes: &[u8; 64]) -> Self::Codes {
        let (a, b) = bytes.split_at(32);
        isa!([_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.as_ptr().cast())])
    }
    #[inline(always)]
    fn no_sums(self) -> Self::Sums {
        isa!([_mm256_setzero_si256(); 2])
    }
    #[inline(always)]
    fn dot_codes(self, sums: Self::Sums, codes: Self::Codes, q: &[i8; 4]) -> Self::Sums {
        let q = isa!(broadcast(q));
        if VNNI {
            return each!(i => _mm256_dpbusd_avx_epi32(sums[i], codes[i], q));
        }
        // Two products are at most 2 · 15 · 127 = 3810, so eight of these sums fit 16 bits.
        each!(i => _mm256_add_epi16(sums[i], _mm256_maddubs_epi16(codes[i], q)))
    }
    #[inline(always)]
    fn add_sums(self, acc: Self::I, sums: Self::Sums) -> Self::I {
        if VNNI {
            return self.add_i(acc, sums);
        }
        let ones = isa!(_mm256_set1_epi16(1));
        each!(i => _mm256_add_epi32(acc[i], _mm256_madd_epi16(sums[i], ones)))
    }
    #[inline(always)]
    fn bytes(self, chunk: &[u8; 64]) -> Self::Bytes {
        let chunk = self.load_codes(chunk);
        if VNNI {
            // Flipping the sign bit adds 128.
            return each!(i => _mm256_xor_si256(chunk[i], _mm256_set1_epi8(i8::MIN)));
        }
        chunk
    }
    #[inline(always)]
    fn dot_bytes(self, acc: Self::I, bytes: Self::Bytes, q: &[i8; 4]) -> Self::I {
        let q = isa!(broadcast(q));
        if VNNI {
            return each!(i => _mm256_dpbusd_avx_epi32(acc[i], bytes[i], q));
        }
        // |w| · (sign of w · q): the unsigned side reaches 128, two products 2 · 128 · 127 = 32512, below 2¹⁵.
        let ones = isa!(_mm256_set1_epi16(1));
        each!(i => {
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(bytes[i]), _mm256_sign_epi8(q, bytes[i]));
            _mm256_add_epi32(acc[i], _mm256_madd_epi16(pairs, ones))
        })
    }
}

/// Four activations in every lane.
///
/// # Safety
/// AVX2 may be used.
#[inline(always)]
unsafe fn broadcast(q: &[i8; 4]) -> __m256i {
    // SAFETY: passed on to the caller.
    unsafe { _mm256_set1_epi32(i32::from_le_bytes(q.map(|q| q as u8))) }
}

impl Kernels for Avx2 {}

impl Kernels for AvxVnni {}

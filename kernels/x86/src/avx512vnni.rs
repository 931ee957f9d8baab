//! AVX-512 (F, BW, VL) with VNNI: 16 lanes in one register.

use core::arch::x86_64::*;
use pocket_kernels::{Job, Kernels, Lanes, WIDTH};

use crate::detect::{ahead, features};
use crate::isa::isa;

/// AVX-512 lanes, with or without the tiles of AMX beside them.
#[derive(Clone, Copy, Debug)]
pub struct Avx512<const TILES: bool> {
    pub(crate) ahead: usize,
}

/// Proof that AVX-512 F, BW, VL and VNNI may be used.
pub type Avx512Vnni = Avx512<false>;

impl Avx512Vnni {
    /// The token, if the processor has the extensions and the system saves the registers.
    #[must_use]
    pub fn detect() -> Option<Self> {
        features().avx512_vnni.then(|| Self { ahead: ahead() })
    }

    /// The token without asking.
    ///
    /// # Safety
    /// The processor must have AVX-512 F, BW, VL and VNNI, and whoever switches contexts must save the ZMM and mask
    /// registers.
    #[must_use]
    pub unsafe fn assume() -> Self {
        Self { ahead: ahead() }
    }
}

// SAFETY: `Avx512` is made by `detect`, or by `assume` whose caller takes the obligation; no other value exists.
unsafe impl<const TILES: bool> Lanes for Avx512<TILES> {
    const NAME: &'static str = if TILES { "amx" } else { "avx512vnni" };
    const COLUMNS: usize = 8;
    /// Where there are tiles, they have the batches.
    const BATCHED: bool = !TILES;
    const PAIRS: bool = true;
    const WIDE_SUMS: bool = true;
    /// The dot instruction wants unsigned weights, so bytes are shifted by 128.
    const BYTES_BIAS: i32 = 128;
    type F = __m512;
    type I = __m512i;
    type Codes = __m512i;
    type Bytes = __m512i;
    type Sums = __m512i;

    fn enter<J: Job>(self, job: J) -> J::Out {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
        fn inside<J: Job, const TILES: bool>(lanes: Avx512<TILES>, job: J) -> J::Out {
            job.run(lanes)
        }
        isa!(inside(self, job))
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
        isa!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    fn load(self, x: &[f32; WIDTH]) -> Self::F {
        isa!(_mm512_loadu_ps(x.as_ptr()))
    }
    #[inline(always)]
    fn store(self, x: Self::F, out: &mut [f32; WIDTH]) {
        isa!(_mm512_storeu_ps(out.as_mut_ptr(), x));
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        isa!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        isa!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn keep_at_least(self, value: Self::F, x: Self::F, limit: Self::F) -> Self::F {
        isa!(_mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, limit), value))
    }

    #[inline(always)]
    fn splat_i(self, x: i32) -> Self::I {
        isa!(_mm512_set1_epi32(x))
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        isa!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I {
        isa!(_mm512_sub_epi32(a, b))
    }
    #[inline(always)]
    fn max_i(self, a: Self::I, b: Self::I) -> Self::I {
        isa!(_mm512_max_epi32(a, b))
    }
    #[inline(always)]
    fn reduce_add_i(self, a: Self::I) -> i32 {
        isa!(_mm512_reduce_add_epi32(a))
    }
    #[inline(always)]
    fn reduce_max_i(self, a: Self::I) -> i32 {
        isa!(_mm512_reduce_max_epi32(a))
    }
    #[inline(always)]
    fn abs_bits(self, x: Self::F) -> Self::I {
        isa!(_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(i32::MAX)))
    }
    #[inline(always)]
    fn round_i(self, x: Self::F) -> Self::I {
        isa!(_mm512_cvtps_epi32(x))
    }
    #[inline(always)]
    fn to_f(self, x: Self::I) -> Self::F {
        isa!(_mm512_cvtepi32_ps(x))
    }
    #[inline(always)]
    fn shift_exponent(self, x: Self::F, n: Self::I) -> Self::F {
        isa!(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32::<23>(n))))
    }

    #[inline(always)]
    fn load_f16(self, x: &[u16; WIDTH]) -> Self::F {
        isa!(_mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast())))
    }
    #[inline(always)]
    fn store_f16(self, x: Self::F, out: &mut [u16; WIDTH]) {
        isa!(_mm256_storeu_si256(out.as_mut_ptr().cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x)));
    }
    #[inline(always)]
    fn load_i8(self, x: &[i8; WIDTH]) -> Self::I {
        isa!(_mm512_cvtepi8_epi32(_mm_loadu_si128(x.as_ptr().cast())))
    }
    #[inline(always)]
    fn store_i8(self, x: Self::I, out: &mut [i8; WIDTH]) {
        isa!(_mm_storeu_si128(out.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(x)));
    }

    #[inline(always)]
    fn unpack(self, chunk: &[u8; 64]) -> [Self::Codes; 2] {
        isa!({
            let x = _mm512_loadu_si512(chunk.as_ptr().cast());
            let mask = _mm512_set1_epi8(15);
            [_mm512_and_si512(x, mask), _mm512_and_si512(_mm512_srli_epi16::<4>(x), mask)]
        })
    }
    #[inline(always)]
    fn store_codes(self, codes: Self::Codes, out: &mut [u8; 64]) {
        isa!(_mm512_storeu_si512(out.as_mut_ptr().cast(), codes));
    }
    #[inline(always)]
    fn load_codes(self, bytes: &[u8; 64]) -> Self::Codes {
        isa!(_mm512_loadu_si512(bytes.as_ptr().cast()))
    }
    #[inline(always)]
    fn no_sums(self) -> Self::Sums {
        isa!(_mm512_setzero_si512())
    }
    #[inline(always)]
    fn dot_codes(self, sums: Self::Sums, codes: Self::Codes, q: &[i8; 4]) -> Self::Sums {
        isa!(_mm512_dpbusd_epi32(sums, codes, broadcast(q)))
    }
    #[inline(always)]
    fn add_sums(self, acc: Self::I, sums: Self::Sums) -> Self::I {
        self.add_i(acc, sums)
    }
    #[inline(always)]
    fn bytes(self, chunk: &[u8; 64]) -> Self::Bytes {
        // Flipping the sign bit adds 128.
        isa!(_mm512_xor_si512(_mm512_loadu_si512(chunk.as_ptr().cast()), _mm512_set1_epi8(i8::MIN)))
    }
    #[inline(always)]
    fn dot_bytes(self, acc: Self::I, bytes: Self::Bytes, q: &[i8; 4]) -> Self::I {
        isa!(_mm512_dpbusd_epi32(acc, bytes, broadcast(q)))
    }
}

/// Four activations in every lane.
///
/// # Safety
/// AVX-512 F may be used.
#[inline(always)]
unsafe fn broadcast(q: &[i8; 4]) -> __m512i {
    // SAFETY: passed on to the caller.
    unsafe { _mm512_set1_epi32(i32::from_le_bytes(q.map(|q| q as u8))) }
}

impl Kernels for Avx512Vnni {}

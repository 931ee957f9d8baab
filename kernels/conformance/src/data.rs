//! Operands: a small random generator and the kinds of data that break kernels.

/// SplitMix64: eight lines, every seed is good, the same on every chip.
///
/// # Source
/// Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }

    /// A number in `0..end`; slightly uneven, which does not matter here.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.bits() as usize % end.max(1)
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// In −4.0..4.0, a multiple of 2⁻²¹.
    pub(crate) fn uniform(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / 2_097_152.0 - 4.0
    }

    /// Fills with bytes of any value.
    pub(crate) fn bytes(&mut self, out: &mut [u8]) {
        for out in out {
            *out = self.bits() as u8;
        }
    }
}

/// What a row of operands looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Evenly between −4 and 4.
    Uniform,
    /// Finite, of any exponent: order of operations shows.
    Wide,
    /// +0 and −0.
    Zeros,
    /// Subnormal.
    Denormals,
    /// The largest magnitudes of either sign.
    Extremes,
    /// ±127 and codes and a half between: ties of rounding.
    Ties,
    /// A pattern of prime period: swapped or shifted blocks show.
    Primes,
    /// Some infinities and NaN of either kind among finite numbers.
    NonFinite,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Uniform,
        Self::Wide,
        Self::Zeros,
        Self::Denormals,
        Self::Extremes,
        Self::Ties,
        Self::Primes,
        Self::NonFinite,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Wide => "wide",
            Self::Zeros => "zeros",
            Self::Denormals => "denormals",
            Self::Extremes => "extremes",
            Self::Ties => "ties",
            Self::Primes => "primes",
            Self::NonFinite => "non-finite",
        }
    }

    /// Element `i` of a row.
    pub(crate) fn float(self, i: usize, random: &mut Random) -> f32 {
        let bits = random.bits();
        let sign = bits & 0x8000_0000;
        f32::from_bits(match self {
            Self::Uniform => return random.uniform(),
            Self::Wide if (bits >> 23) & 0xff == 0xff => bits & !0x4000_0000,
            Self::Wide => bits,
            Self::Zeros => sign,
            Self::Denormals => sign | (bits & 0x007f_ffff),
            Self::Extremes if bits & 7 == 0 => sign | 0x0080_0000,
            Self::Extremes => sign | 0x7f7f_ffff,
            Self::Ties if i == 0 || bits & 7 == 0 => sign | 127.0f32.to_bits(),
            Self::Ties => sign | ((bits & 0x7f) as f32 - 0.5).abs().to_bits(),
            Self::Primes => return ((i * 31) % 251) as f32 - 125.0,
            Self::NonFinite => match bits & 0x3f {
                0 => sign | 0x7f80_0000,
                1 => sign | 0x7fc0_1234,
                2 => sign | 0x7f80_0001,
                _ => return random.uniform(),
            },
        })
    }

    pub(crate) fn floats(self, random: &mut Random, out: &mut [f32]) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = self.float(i, random);
        }
    }

    /// Element `i` of a row, as binary16 bits.
    pub(crate) fn half(self, i: usize, random: &mut Random) -> u16 {
        let bits = random.bits() as u16;
        let sign = bits & 0x8000;
        match self {
            Self::Uniform | Self::Ties => pocket_kernels::scalar::f32_to_f16(random.uniform()),
            Self::Wide if bits & 0x7c00 == 0x7c00 => bits & !0x4000,
            Self::Wide => bits,
            Self::Zeros => sign,
            Self::Denormals => sign | (bits & 0x3ff),
            Self::Extremes if bits & 7 == 0 => sign | 0x0400,
            Self::Extremes => sign | 0x7bff,
            Self::Primes => pocket_kernels::scalar::f32_to_f16(((i * 31) % 251) as f32 - 125.0),
            Self::NonFinite => match bits & 0x3f {
                0 => sign | 0x7c00,
                1 => sign | 0x7e12,
                2 => sign | 0x7c01,
                _ => pocket_kernels::scalar::f32_to_f16(random.uniform()),
            },
        }
    }

    /// Element `i` of a row of raw bytes: weight codes of any width.
    pub(crate) fn byte(self, i: usize, random: &mut Random) -> u8 {
        match self {
            Self::Zeros => 0,
            // All 4-bit codes at their maximum; as signed bytes −1, 127 and −128.
            Self::Extremes => random.of(&[0xff, 0xff, 0x7f, 0x80]),
            Self::Denormals => random.of(&[0x00, 0x01, 0x10, 0x88]),
            Self::Ties => random.of(&[0x7f, 0x81]),
            Self::Primes => ((i * 31) % 251) as u8,
            Self::Uniform | Self::Wide | Self::NonFinite => random.bits() as u8,
        }
    }

    /// Element `i` of a row of activation codes, in −127..=127.
    pub(crate) fn code(self, i: usize, random: &mut Random) -> i8 {
        match self {
            Self::Zeros => 0,
            Self::Extremes => 127,
            Self::Ties => random.of(&[127, -127]),
            Self::Denormals => random.of(&[1, 0, -1]),
            Self::Primes => ((i * 31) % 251) as i8,
            Self::Uniform | Self::Wide | Self::NonFinite => random.bits() as i8,
        }
        .max(-127)
    }

    /// An integer of 32 bits.
    pub(crate) fn int(self, i: usize, random: &mut Random) -> i32 {
        match self {
            Self::Zeros => 0,
            Self::Extremes => random.of(&[i32::MAX, i32::MIN, i32::MAX - 1, i32::MIN + 1]),
            Self::Ties => 0x0100_0001 + 2 * (random.bits() & 0xff) as i32,
            Self::Denormals => random.of(&[1, 0, -1]),
            Self::Primes => ((i * 31) % 251) as i32 - 125,
            Self::Uniform | Self::Wide | Self::NonFinite => random.bits() as i32,
        }
    }
}

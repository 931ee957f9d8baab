//! The instruction sets that this build has kernels for: the one list that tests, benches and `--isa` use.
//!
//! Kernels are chosen once, when a session is made, and everything behind that choice is compiled for it; so code that
//! wants chosen kernels is a [`WithKernels`] and gets them as a type. An instruction set that the machine lacks is an
//! error, never a slower path.

use std::fmt;

use pocket_kernels::{Kernels, Lanes, Scalar};
#[cfg(target_arch = "aarch64")]
use pocket_kernels_aarch64::{Neon, NeonDot, NeonI8mm};
#[cfg(target_arch = "x86_64")]
use pocket_kernels_x86::{Amx, Avx2, Avx512Vnni, AvxVnni};

/// An instruction set, from the plainest to the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// No vectors: the definition, on every machine.
    Scalar,
    /// AVX2 with FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX2 with FMA, F16C and AVX-VNNI.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    /// AVX-512 with VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    /// AMX with 8-bit integers, beside AVX-512.
    #[cfg(target_arch = "x86_64")]
    Amx,
    /// Neon, on every such machine.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// Neon with dot products.
    #[cfg(target_arch = "aarch64")]
    NeonDot,
    /// Neon with int8 matrix products.
    #[cfg(target_arch = "aarch64")]
    NeonI8mm,
}

/// The token, if the operating system says that the processor has dot products.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub fn neon_dot() -> Option<NeonDot> {
    // SAFETY: the operating system was asked.
    std::arch::is_aarch64_feature_detected!("dotprod").then(|| unsafe { NeonDot::assume() })
}

/// The token, if the operating system says that the processor has dot products and int8 matrix products.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub fn neon_i8mm() -> Option<NeonI8mm> {
    let both = std::arch::is_aarch64_feature_detected!("dotprod") && std::arch::is_aarch64_feature_detected!("i8mm");
    // SAFETY: the operating system was asked.
    both.then(|| unsafe { NeonI8mm::assume() })
}

/// Code that runs on kernels yet to be chosen.
pub trait WithKernels {
    /// What it gives.
    type Out;
    /// Runs it.
    fn with<K: Kernels>(self, kernels: K) -> Self::Out;
}

/// An instruction set that this machine lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this machine has no {}; it has {}", .isa.name(), names(Isa::available()))]
pub struct MissingIsa {
    /// What was asked for.
    pub isa: Isa,
}

impl Isa {
    /// All that this build knows.
    pub const ALL: &'static [Self] = &[
        Self::Scalar,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::AvxVnni,
        #[cfg(target_arch = "x86_64")]
        Self::Avx512Vnni,
        #[cfg(target_arch = "x86_64")]
        Self::Amx,
        #[cfg(target_arch = "aarch64")]
        Self::Neon,
        #[cfg(target_arch = "aarch64")]
        Self::NeonDot,
        #[cfg(target_arch = "aarch64")]
        Self::NeonI8mm,
    ];

    /// The name in reports and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => Scalar::NAME,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::NAME,
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => AvxVnni::NAME,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => Avx512Vnni::NAME,
            #[cfg(target_arch = "x86_64")]
            Self::Amx => Amx::NAME,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => Neon::NAME,
            #[cfg(target_arch = "aarch64")]
            Self::NeonDot => NeonDot::NAME,
            #[cfg(target_arch = "aarch64")]
            Self::NeonI8mm => NeonI8mm::NAME,
        }
    }

    /// The instruction set of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|isa| isa.name() == name)
    }

    /// Those that this machine has.
    pub fn available() -> impl DoubleEndedIterator<Item = Self> {
        struct Nothing;
        impl WithKernels for Nothing {
            type Out = ();
            fn with<K: Kernels>(self, _: K) {}
        }
        Self::ALL.iter().copied().filter(|isa| isa.run(Nothing).is_ok())
    }

    /// The fastest that this machine has.
    #[must_use]
    pub fn best() -> Self {
        Self::available().next_back().unwrap_or(Self::Scalar)
    }

    /// Runs code on the kernels of this instruction set.
    ///
    /// # Errors
    /// [`MissingIsa`] if this machine lacks it; the code is not run.
    pub fn run<W: WithKernels>(self, code: W) -> Result<W::Out, MissingIsa> {
        match self {
            Self::Scalar => Ok(code.with(Scalar)),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::detect().map(|kernels| code.with(kernels)).ok_or(MissingIsa { isa: self }),
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => AvxVnni::detect().map(|kernels| code.with(kernels)).ok_or(MissingIsa { isa: self }),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => Avx512Vnni::detect().map(|kernels| code.with(kernels)).ok_or(MissingIsa { isa: self }),
            #[cfg(target_arch = "x86_64")]
            Self::Amx => Amx::detect().map(|kernels| code.with(kernels)).ok_or(MissingIsa { isa: self }),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => Ok(code.with(Neon::new())),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDot => neon_dot().map(|kernels| code.with(kernels)).ok_or(MissingIsa { isa: self }),
            #[cfg(target_arch = "aarch64")]
            Self::NeonI8mm => neon_i8mm().map(|kernels| code.with(kernels)).ok_or(MissingIsa { isa: self }),
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The names of instruction sets, for people.
pub fn names(isas: impl Iterator<Item = Isa>) -> String {
    isas.map(Isa::name).collect::<Vec<_>>().join(", ")
}

//! The choice of kernels: by name or the best there are, once for each session.

use core::ffi::{CStr, c_char, c_void};

use pocket_runtime::{Image, Plan, Session};

use crate::status::{Checked, Fault, POCKET_ERROR_KERNELS, POCKET_ERROR_VALUE};
use crate::steps::{ChosenSession, Steps};
use crate::workers::{CallersWorkers, PocketRunFn};

/// The fastest that this machine has and this library knows.
pub const POCKET_KERNELS_BEST: u32 = 0;
/// No vectors: the definition, everywhere, and slow.
pub const POCKET_KERNELS_SCALAR: u32 = 1;
/// x86-64: AVX2 with FMA and F16C.
pub const POCKET_KERNELS_AVX2: u32 = 2;
/// x86-64: AVX-512 (F, BW, VL) with VNNI.
pub const POCKET_KERNELS_AVX512VNNI: u32 = 3;
/// AArch64: what every such processor has.
pub const POCKET_KERNELS_NEON: u32 = 4;
/// AArch64: dot products (dotprod).
pub const POCKET_KERNELS_NEON_DOT: u32 = 5;
/// AArch64: dot products and 8-bit matrix products (dotprod, i8mm).
pub const POCKET_KERNELS_NEON_I8MM: u32 = 6;
/// x86-64: AMX with 8-bit integers, beside AVX-512. Where Linux runs the program, asking for it asks Linux for the use of tiles.
pub const POCKET_KERNELS_AMX: u32 = 7;
/// x86-64: AVX2 with FMA, F16C and AVX-VNNI.
pub const POCKET_KERNELS_AVXVNNI: u32 = 8;

/// What a session computes with. All zeros: the best kernels, on the calling thread alone.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PocketMachine {
    /// `POCKET_KERNELS_BEST` or the number of others. The bits of the results do not depend on it.
    pub kernels: u32,
    /// Not 0: the caller promises that the processor has the instructions of `kernels`, and that whoever switches
    /// contexts saves their registers. Nothing is asked then. For firmware that knows its chip.
    pub promised: u32,
    /// AArch64: `getauxval(AT_HWCAP)`, for which this library has nobody to ask; 0 means what every processor has.
    /// Elsewhere without effect: x86-64 is asked by CPUID and XCR0.
    pub hwcap: u64,
    /// AArch64: `getauxval(AT_HWCAP2)`.
    pub hwcap2: u64,
    /// How many calls of a job `run` makes; 0 and 1 are the calling thread alone.
    pub workers: usize,
    /// Shares jobs among workers; null with more than one worker is an error.
    pub run: PocketRunFn,
    /// Handed to `run`.
    pub run_context: *mut c_void,
}

impl PocketMachine {
    /// The best kernels, on the calling thread alone.
    pub(crate) const BEST: Self = Self {
        kernels: POCKET_KERNELS_BEST,
        promised: 0,
        hwcap: 0,
        hwcap2: 0,
        workers: 1,
        run: None,
        run_context: core::ptr::null_mut(),
    };
}

/// Defines [`AnySession`] and how its kernels are proved, from a list that has the fastest first. What a session computes
/// is in the library once for each entry, so every one is a feature that a program for one chip can do without.
macro_rules! sessions {
    ($( $(#[$cfg:meta])? $isa:ident($kernels:ty) = $number:ident, $name:literal, $proof:expr; )+) => {
        /// A session on kernels that were chosen at run time.
        pub(crate) enum AnySession {
            $( $(#[$cfg])? $isa(ChosenSession<$kernels>), )+
        }

        impl AnySession {
            /// Makes a session on the kernels that `machine` asks for.
            pub(crate) fn new(
                machine: &PocketMachine,
                (image, plan): (&Image<'static>, &Plan),
                arena: &'static mut [u8],
                workers: &'static CallersWorkers,
            ) -> Checked<Self> {
                let best = machine.kernels == POCKET_KERNELS_BEST;
                if machine.kernels > POCKET_KERNELS_AVXVNNI || (best && machine.promised != 0) {
                    return Err(Fault::Here(POCKET_ERROR_VALUE));
                }
                $(
                    $(#[$cfg])?
                    if best || machine.kernels == $number {
                        let proof: fn(&PocketMachine) -> Option<$kernels> = $proof;
                        if let Some(kernels) = proof(machine) {
                            return Ok(Self::$isa(Session::new(image, plan, arena, kernels, workers)?));
                        }
                    }
                )+
                Err(Fault::Here(POCKET_ERROR_KERNELS))
            }

            /// The number of its kernels.
            pub(crate) const fn kernels(&self) -> u32 {
                match self {
                    $( $(#[$cfg])? Self::$isa(_) => $number, )+
                }
            }

            /// The session, whatever its kernels.
            pub(crate) fn steps(&mut self) -> &mut dyn Steps {
                match self {
                    $( $(#[$cfg])? Self::$isa(session) => session, )+
                }
            }
        }

        /// The name of kernels, if this library has them.
        fn name(kernels: u32) -> Option<&'static CStr> {
            match kernels {
                $( $(#[$cfg])? $number => Some($name), )+
                _ => None,
            }
        }
    };
}

sessions! {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", feature = "amx"))]
    Amx(pocket_kernels_x86::Amx) = POCKET_KERNELS_AMX, c"amx", |machine| match machine.promised {
        0 => pocket_kernels_x86::Amx::detect(),
        // SAFETY: the caller's promise.
        _ => Some(unsafe { pocket_kernels_x86::Amx::assume() }),
    };
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", feature = "avx512vnni"))]
    Avx512Vnni(pocket_kernels_x86::Avx512Vnni) = POCKET_KERNELS_AVX512VNNI, c"avx512vnni",
        |machine| match machine.promised {
        0 => pocket_kernels_x86::Avx512Vnni::detect(),
        // SAFETY: the caller's promise.
        _ => Some(unsafe { pocket_kernels_x86::Avx512Vnni::assume() }),
    };
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", feature = "avxvnni"))]
    AvxVnni(pocket_kernels_x86::AvxVnni) = POCKET_KERNELS_AVXVNNI, c"avxvnni", |machine| match machine.promised {
        0 => pocket_kernels_x86::AvxVnni::detect(),
        // SAFETY: the caller's promise.
        _ => Some(unsafe { pocket_kernels_x86::AvxVnni::assume() }),
    };
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", feature = "avx2"))]
    Avx2(pocket_kernels_x86::Avx2) = POCKET_KERNELS_AVX2, c"avx2", |machine| match machine.promised {
        0 => pocket_kernels_x86::Avx2::detect(),
        // SAFETY: the caller's promise.
        _ => Some(unsafe { pocket_kernels_x86::Avx2::assume() }),
    };
    #[cfg(all(target_arch = "aarch64", target_feature = "neon", feature = "neon-i8mm"))]
    NeonI8mm(pocket_kernels_aarch64::NeonI8mm) = POCKET_KERNELS_NEON_I8MM, c"neon-i8mm",
        |machine| match machine.promised {
        // SAFETY: by the header's contract the values are the operating system's, or 0, which is nothing.
        0 => unsafe { pocket_kernels_aarch64::NeonI8mm::from_hwcap(machine.hwcap, machine.hwcap2) },
        // SAFETY: the caller's promise.
        _ => Some(unsafe { pocket_kernels_aarch64::NeonI8mm::assume() }),
    };
    #[cfg(all(target_arch = "aarch64", target_feature = "neon", feature = "neon-dot"))]
    NeonDot(pocket_kernels_aarch64::NeonDot) = POCKET_KERNELS_NEON_DOT, c"neon-dot", |machine| match machine.promised {
        // SAFETY: by the header's contract the values are the operating system's, or 0, which is nothing.
        0 => unsafe { pocket_kernels_aarch64::NeonDot::from_hwcap(machine.hwcap, machine.hwcap2) },
        // SAFETY: the caller's promise.
        _ => Some(unsafe { pocket_kernels_aarch64::NeonDot::assume() }),
    };
    #[cfg(all(target_arch = "aarch64", target_feature = "neon", feature = "neon"))]
    Neon(pocket_kernels_aarch64::Neon) = POCKET_KERNELS_NEON, c"neon", |_| Some(pocket_kernels_aarch64::Neon::new());
    #[cfg(feature = "scalar")]
    Scalar(pocket_kernels::Scalar) = POCKET_KERNELS_SCALAR, c"scalar", |_| Some(pocket_kernels::Scalar);
}

/// The name of kernels, for logs and command lines; the empty string for those that this library does not have.
#[unsafe(no_mangle)]
pub extern "C" fn pocket_kernels_name(kernels: u32) -> *const c_char {
    name(kernels).unwrap_or_default().as_ptr()
}

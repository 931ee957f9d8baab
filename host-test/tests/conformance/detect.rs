//! Which extensions a processor has: the doors for targets without `std`, against what `std` says.

use pocket_kernels_aarch64::{NeonDot, NeonI8mm};
use pocket_pack::isa::{neon_dot, neon_i8mm};

const HWCAP_ASIMDDP: u64 = 1 << 20;
const HWCAP2_I8MM: u64 = 1 << 13;
const ISAR0_DP: u64 = 0xf << 44;
const ISAR1_I8MM: u64 = 0xf << 52;

/// Whether there are dot products, and whether int8 matrix products.
type Found = (bool, bool);

fn here() -> Found {
    (neon_dot().is_some(), neon_i8mm().is_some())
}

/// # Safety
/// What the values claim, this processor has.
unsafe fn by_hwcap(hwcap: u64, hwcap2: u64) -> Found {
    // SAFETY: passed on to the caller; there is an operating system, so Neon does not trap.
    unsafe { (NeonDot::from_hwcap(hwcap, hwcap2).is_some(), NeonI8mm::from_hwcap(hwcap, hwcap2).is_some()) }
}

/// # Safety
/// What the values claim, this processor has.
unsafe fn by_id_registers(isar0: u64, isar1: u64) -> Found {
    // SAFETY: as above.
    unsafe { (NeonDot::from_id_registers(isar0, isar1).is_some(), NeonI8mm::from_id_registers(isar0, isar1).is_some()) }
}

#[test]
fn the_auxiliary_vector_says_what_std_says() {
    // SAFETY: reading the auxiliary vector changes nothing.
    let (hwcap, hwcap2) = unsafe { (libc::getauxval(libc::AT_HWCAP), libc::getauxval(libc::AT_HWCAP2)) };
    // SAFETY: the values are this processor's, and less than that is true of it as well.
    let (all, no_dot, neither) = unsafe {
        (by_hwcap(hwcap, hwcap2), by_hwcap(hwcap & !HWCAP_ASIMDDP, hwcap2), by_hwcap(!HWCAP_ASIMDDP, !HWCAP2_I8MM))
    };
    assert_eq!(all, here());
    assert_eq!(no_dot, (false, false), "int8 matrix products come with dot products or not at all");
    assert_eq!(neither, (false, false), "other bits mean other things");
    // SAFETY: as above.
    assert_eq!(unsafe { by_hwcap(hwcap, 0) }, (here().0, false));
}

#[test]
fn identification_registers_count_from_one() {
    // SAFETY: they claim nothing of what is used.
    assert_eq!(unsafe { by_id_registers(!ISAR0_DP, !ISAR1_I8MM) }, (false, false));
    let (dot, i8mm) = here();
    // A later version of an extension is a larger number and includes the earlier.
    for version in [1, 2, 15] {
        let (isar0, isar1) = (version << 44, version << 52);
        if dot {
            // SAFETY: this processor has dot products.
            assert_eq!(unsafe { by_id_registers(isar0, 0) }, (true, false));
        }
        if dot && i8mm {
            // SAFETY: this processor has both.
            assert_eq!(unsafe { by_id_registers(isar0, isar1) }, (true, true));
        }
    }
}

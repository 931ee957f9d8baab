//! Where the boot code arrives, and where failures end.

use core::arch::{asm, global_asm};
use core::fmt::Write;
use core::panic::PanicInfo;

use crate::uart::Uart;
use crate::{command, semihosting};

global_asm!(include_str!("boot.s"));

/// First address behind the board's 300 MB.
const RAM_END: usize = 0x4000_0000 + 300_000_000;

unsafe extern "C" {
    /// Where the loader puts the image; from the linker script.
    static __image: u8;
}

/// The memory from the image's place to the end of RAM.
fn image() -> &'static [u8] {
    let start = &raw const __image;
    // SAFETY: the memory is RAM, mapped by the boot code, behind everything that the linker script places; nobody
    // writes it, and the loader has filled what it holds before the program began.
    unsafe { core::slice::from_raw_parts(start, RAM_END - start as usize) }
}

/// The registers that say which instructions this core has: ID_AA64ISAR0_EL1 and ID_AA64ISAR1_EL1.
pub(crate) fn id_registers() -> [u64; 2] {
    let (isar0, isar1);
    // SAFETY: reading these registers is allowed at EL1 and changes nothing.
    unsafe {
        asm!("mrs {}, id_aa64isar0_el1", "mrs {}, id_aa64isar1_el1", out(reg) isar0, out(reg) isar1,
            options(nomem, nostack, preserves_flags));
    }
    [isar0, isar1]
}

#[unsafe(no_mangle)]
extern "C" fn main_core() -> ! {
    let mut buffer = [0; 4096];
    let line = semihosting::command_line(&mut buffer);
    let status = command::run(image(), line);
    semihosting::exit(status)
}

#[unsafe(no_mangle)]
extern "C" fn exception(syndrome: u64, link: u64, address: u64) -> ! {
    let _ = writeln!(Uart, "exception: syndrome {syndrome:#x} at {link:#x}, address {address:#x}");
    semihosting::exit(102)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(Uart, "{info}");
    semihosting::exit(101)
}

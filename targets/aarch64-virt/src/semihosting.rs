//! Asking the debugger or emulator: the command line, the end, and its stream for logs.
//!
//! # Source
//! Arm, "Semihosting for AArch32 and AArch64": the operation in w0, its block in x1, `hlt #0xf000`.

use core::arch::asm;

#[cfg(feature = "defmt")]
const SYS_OPEN: u64 = 0x01;
#[cfg(feature = "defmt")]
const SYS_WRITE: u64 = 0x05;
const SYS_GET_CMDLINE: u64 = 0x15;
const SYS_EXIT: u64 = 0x18;
const ADP_STOPPED_APPLICATION_EXIT: u64 = 0x2_0026;

/// A semihosting call. The block must be what the operation asks for.
fn call<const N: usize>(operation: u64, block: &mut [u64; N]) -> u64 {
    let result;
    // SAFETY: the emulator reads and writes the block and the memory that it points to, which its maker lends for the
    // call; the assembly is taken to change any memory.
    unsafe {
        asm!("hlt #0xf000", inout("x0") operation => result, in("x1") block.as_mut_ptr(), options(nostack));
    }
    result
}

/// The command line; "" if there is none, if it is too long for `buffer` or no UTF-8.
pub(crate) fn command_line(buffer: &mut [u8]) -> &str {
    let mut block = [buffer.as_mut_ptr() as u64, buffer.len() as u64];
    if call(SYS_GET_CMDLINE, &mut block) != 0 {
        return "";
    }
    let len = usize::try_from(block[1]).unwrap_or(0);
    buffer.get(..len).and_then(|line| core::str::from_utf8(line).ok()).unwrap_or("").trim_end_matches('\0')
}

/// The emulator's own stream for errors, which is not the board's serial line.
#[cfg(feature = "defmt")]
#[derive(Clone, Copy)]
pub(crate) struct Console(u64);

#[cfg(feature = "defmt")]
impl Console {
    /// Opens it.
    pub(crate) fn open() -> Self {
        // Of ":tt" reading gives standard input, writing standard output and appending standard error.
        const APPEND: u64 = 8;
        let name = c":tt";
        Self(call(SYS_OPEN, &mut [name.as_ptr() as u64, APPEND, name.count_bytes() as u64]))
    }

    /// Writes bytes. There is nobody to tell if it fails.
    pub(crate) fn write(self, bytes: &[u8]) {
        call(SYS_WRITE, &mut [self.0, bytes.as_ptr() as u64, bytes.len() as u64]);
    }
}

/// Ends the machine with this status.
pub(crate) fn exit(status: u8) -> ! {
    call(SYS_EXIT, &mut [ADP_STOPPED_APPLICATION_EXIT, u64::from(status)]);
    loop {
        core::hint::spin_loop();
    }
}

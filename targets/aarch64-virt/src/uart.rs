//! The board's serial line, an Arm PL011.
//!
//! # Source
//! Arm, "PrimeCell UART (PL011) Technical Reference Manual", sections 3.3.1 (UARTDR) and 3.3.3 (UARTFR).

use core::fmt;

const DATA: *mut u32 = 0x0900_0000 as *mut u32;
const FLAGS: *const u32 = 0x0900_0018 as *const u32;
/// The transmit queue is full.
const FULL: u32 = 1 << 5;

/// Writes to the serial line. Only the main core does.
pub(crate) struct Uart;

impl fmt::Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: these are the registers of the board's PL011, mapped as device memory by the boot code.
            unsafe {
                while FLAGS.read_volatile() & FULL != 0 {
                    core::hint::spin_loop();
                }
                DATA.write_volatile(u32::from(byte));
            }
        }
        Ok(())
    }
}

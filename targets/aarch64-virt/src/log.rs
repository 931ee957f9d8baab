//! Where defmt's logs go: to the emulator's stream for errors, from the main core.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::semihosting::Console;

/// A frame in the making.
struct Frames {
    /// Somebody is writing a frame.
    taken: AtomicBool,
    encoder: UnsafeCell<defmt::Encoder>,
    /// Opened by the first frame.
    console: UnsafeCell<Option<Console>>,
}

// SAFETY: the cells are used between `acquire` and `release` only, and `taken` lets one caller at a time be there.
unsafe impl Sync for Frames {}

static FRAMES: Frames = Frames {
    taken: AtomicBool::new(false),
    encoder: UnsafeCell::new(defmt::Encoder::new()),
    console: UnsafeCell::new(None),
};

impl Frames {
    /// Lends the parts for one call.
    ///
    /// # Safety
    /// Between `acquire` and `release`, and not while another loan lives.
    unsafe fn with(&self, use_them: impl FnOnce(&mut defmt::Encoder, Console)) {
        // SAFETY: the caller promises that nobody else uses the cells.
        let (encoder, console) = unsafe { (&mut *self.encoder.get(), &mut *self.console.get()) };
        use_them(encoder, *console.get_or_insert_with(Console::open));
    }
}

#[defmt::global_logger]
struct Logger;

// SAFETY: `acquire` panics rather than letting a second caller in: the runtime logs from the core that steps the
// session, and there are no interrupts.
unsafe impl defmt::Logger for Logger {
    fn acquire() {
        assert!(!FRAMES.taken.swap(true, Ordering::Acquire), "a log within a log, or from two cores");
        // SAFETY: just acquired, and `write` of the encoder does not log.
        unsafe { FRAMES.with(|encoder, console| encoder.start_frame(|bytes| console.write(bytes))) };
    }

    unsafe fn flush() {}

    unsafe fn release() {
        // SAFETY: the caller has acquired.
        unsafe { FRAMES.with(|encoder, console| encoder.end_frame(|bytes| console.write(bytes))) };
        FRAMES.taken.store(false, Ordering::Release);
    }

    unsafe fn write(bytes: &[u8]) {
        // SAFETY: the caller has acquired.
        unsafe { FRAMES.with(|encoder, console| encoder.write(bytes, |bytes| console.write(bytes))) };
    }
}

/// Ticks of the counter that every core has.
fn ticks() -> u64 {
    let ticks;
    // SAFETY: reading the counter is allowed at EL1 and changes nothing.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// Ticks a second.
fn frequency() -> u64 {
    let frequency;
    // SAFETY: reading the register is allowed at EL1 and changes nothing.
    unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack, preserves_flags)) };
    frequency
}

defmt::timestamp!("{=u64:us}", ticks().saturating_mul(1_000_000) / frequency().max(1));

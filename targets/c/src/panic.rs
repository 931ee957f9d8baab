//! What a panic does where nobody could print it: the processor's trap.
//!
//! No input leads to a panic; should a defect do so, the process or the core stops where it happened, and a debugger
//! or a core file shows the place.

#[panic_handler]
fn trap(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an undefined instruction; what it raises does not come back to Rust code.
        unsafe {
            core::arch::asm!("ud2", options(nomem, nostack));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: a breakpoint; who handles it may come back, into the loop.
        unsafe {
            core::arch::asm!("brk #1", options(nomem, nostack));
        }
        core::hint::spin_loop();
    }
}

//! What a panic does where nobody could print it: the processor's trap.
//!
//! Rust asks for it, and nothing calls it: `targets/c/build` makes no library from which it can be reached, by no input
//! and no defect. For those who build one in their own way the process or the core stops where it happened, and a
//! debugger or a core file shows the place.

// Inlined into what calls it, it could not be looked for.
#[inline(never)]
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

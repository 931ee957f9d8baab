//! The second core as a worker: started through PSCI, it waits for jobs and shares them.
//!
//! # Source
//! Arm, "Power State Coordination Interface" (DEN0022): CPU_ON by `hvc`, which is what the board asks for when it has
//! neither EL2 nor EL3.

use core::arch::asm;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pocket_runtime::Workers;

use crate::stack;

/// A job as the second core sees it. Its lifetime is a promise of [`Cores::run`].
type Job = &'static (dyn Fn(usize) + Sync);

/// The posted job: a pointer to a [`Job`] on the main core's stack.
static JOB: AtomicPtr<Job> = AtomicPtr::new(core::ptr::null_mut());
/// Jobs posted so far.
static POSTED: AtomicUsize = AtomicUsize::new(0);
/// Jobs that the second core has ended.
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// The cores that work on a step: one, or two.
pub(crate) struct Cores {
    count: usize,
}

impl Cores {
    /// Starts the second core, if the board has one.
    pub(crate) fn start() -> Self {
        const CPU_ON: u64 = 0xC400_0003;
        const SECOND: u64 = 1;
        let result: i64;
        // SAFETY: the call starts core 1 at `_start_second` with the top of its own stack in x0, memory that nobody else
        // uses; the calling convention lets it change x0 to x17.
        unsafe {
            asm!(
                "adrp x2, _start_second",
                "add x2, x2, :lo12:_start_second",
                "hvc #0",
                inout("x0") CPU_ON => result,
                inout("x1") SECOND => _,
                out("x2") _,
                inout("x3") stack::top_of_second() => _,
                out("x4") _, out("x5") _, out("x6") _, out("x7") _, out("x8") _, out("x9") _, out("x10") _,
                out("x11") _, out("x12") _, out("x13") _, out("x14") _, out("x15") _, out("x16") _, out("x17") _,
                options(nostack)
            );
        }
        Self { count: if result == 0 { 2 } else { 1 } }
    }
}

impl Workers for Cores {
    fn count(&self) -> usize {
        self.count
    }

    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        if self.count < 2 {
            job(0);
            return;
        }
        JOB.store((&raw const job).cast_mut().cast(), Ordering::Release);
        let posted = POSTED.fetch_add(1, Ordering::Release) + 1;
        job(0);
        while ENDED.load(Ordering::Acquire) != posted {
            core::hint::spin_loop();
        }
    }
}

/// The life of the second core.
#[unsafe(no_mangle)]
extern "C" fn second_core() -> ! {
    let mut seen = 0;
    loop {
        while POSTED.load(Ordering::Acquire) == seen {
            core::hint::spin_loop();
        }
        seen += 1;
        let job = JOB.load(Ordering::Acquire);
        // SAFETY: `run` stored a pointer to its own `job` before it counted `POSTED` up, and does not return before
        // `ENDED` has reached that count: the reference and what its closure borrows live until then.
        let job = unsafe { &*job };
        job(1);
        ENDED.store(seen, Ordering::Release);
    }
}

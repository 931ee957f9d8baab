//! The caller's cores.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};

use pocket_runtime::Workers;

use crate::pointer::Context;

/// A share of a step: to be called as `job(job_context, index)`.
pub type PocketJobFn = unsafe extern "C" fn(job_context: *mut c_void, index: usize);

/// Calls `job(job_context, i)` for each `i` below `count`, at the same time if it can, and returns when all these calls
/// have returned; what they wrote is visible to the caller then. It is called some hundred times a token, and always by
/// the thread that called the library.
///
/// Every call takes work until none is left, so calls may run one behind the other, and some may be left out: that is
/// slower and gives the same bits.
pub type PocketRunFn =
    Option<unsafe extern "C" fn(run_context: *mut c_void, count: usize, job: PocketJobFn, job_context: *mut c_void)>;

/// Workers that are the caller's.
#[derive(Debug)]
pub(crate) struct CallersWorkers {
    pub(crate) count: usize,
    pub(crate) run: PocketRunFn,
    pub(crate) context: Context,
}

// SAFETY: the context is only handed to the caller's function, and the header says from which threads.
unsafe impl Sync for CallersWorkers {}

/// What a job's context leads to.
struct Share<'j> {
    job: &'j (dyn Fn(usize) + Sync),
    begun: AtomicBool,
}

/// Does a share.
unsafe extern "C" fn share(job_context: *mut c_void, index: usize) {
    // SAFETY: `CallersWorkers::run` passed a pointer to its own `Share`, and by the header's contract it is called with
    // that pointer, and only until the caller's function returns.
    let share = unsafe { &*job_context.cast::<Share<'_>>() };
    share.begun.store(true, Ordering::Relaxed);
    (share.job)(index);
}

impl Workers for CallersWorkers {
    fn count(&self) -> usize {
        self.count
    }

    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        let work = Share { job, begun: AtomicBool::new(false) };
        if let Some(run) = self.run {
            // SAFETY: the caller's function, called as the header says.
            unsafe { run(self.context.0, self.count, share, (&raw const work).cast_mut().cast()) };
        }
        if !work.begun.load(Ordering::Relaxed) {
            job(0);
        }
    }
}

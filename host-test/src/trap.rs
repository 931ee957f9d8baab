//! An allocator that counts, for tests of what must not allocate.
//!
//! It counts while it is armed, and only on threads that take part: the test harness allocates on its own thread
//! whenever it likes. A test program that wants it says so:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: pocket_host_test::trap::Counting = pocket_host_test::trap::Counting;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pocket_pack::pool::Pool;
use pocket_runtime::Workers;

/// The system's allocator, counted.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    /// Whether this thread's allocations count.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}
static ARMED: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

impl Counting {
    fn count() {
        if ARMED.load(Ordering::SeqCst) && WATCHED.try_with(Cell::get).unwrap_or(false) {
            ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        }
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: passed on to the caller.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count();
        // SAFETY: passed on to the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Workers whose allocations count.
///
/// # Panics
/// If the system refuses a thread.
pub fn watched(count: usize) -> Pool {
    let workers = Pool::new(count).expect("threads");
    workers.run(&|_| WATCHED.set(true));
    workers
}

/// From now on this thread's and watched workers' allocations count. One test at a time: the counter is everybody's.
pub fn arm() {
    WATCHED.set(true);
    ALLOCATIONS.store(0, Ordering::SeqCst);
    ARMED.store(true, Ordering::SeqCst);
}

/// Ends counting and gives the count.
pub fn disarm() -> usize {
    ARMED.store(false, Ordering::SeqCst);
    ALLOCATIONS.load(Ordering::SeqCst)
}

/// Allocations while `work` runs.
pub fn allocations(work: impl FnOnce()) -> usize {
    arm();
    work();
    disarm()
}

//! Threads that share the stages of a step: fork and join in about a microsecond while they are warm.
//!
//! A step has some two hundred stages, each a few dozen microseconds long, so a thread that has ended its share looks
//! for the next stage for a moment before it sleeps. The moment is bounded, and it is left out where there are more
//! workers than cores: a machine that is busy otherwise, or too small, costs speed but never collapses.
//!
//! ```text
//! caller   post job ─▶ started += 1 ─▶ job(0) ────────────▶ wait: running = 0
//! worker i            wait: started changed ─▶ job(i) ─▶ running −= 1
//! ```

use std::any::Any;
use std::hint;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use pocket_runtime::Workers;

/// A job as the workers see it. The lifetime is a promise of [`Pool::run`], which does not return before they have ended.
type Job = &'static (dyn Fn(usize) + Sync);

/// How long a thread looks before it yields: some 50 µs.
const SPINS: u32 = 2000;
/// How often it yields before it sleeps.
const YIELDS: u32 = 20;

/// A fork–join pool: the calling thread and `count − 1` others.
///
/// A job that calls [`run`](Workers::run) of the pool that runs it, and a second thread that calls it at the same time,
/// get all shares done on their own thread: the result is the same, and nothing can wait for itself. A panic in a job
/// reaches the caller when all shares have ended. Dropping the pool ends its threads.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads of a pool see.
#[derive(Debug)]
struct Shared {
    /// The posted job: a pointer to a [`Job`] on the stack of the caller.
    job: AtomicPtr<Job>,
    /// Whether a job is being run.
    busy: AtomicBool,
    /// Whether the pool is being dropped.
    ending: AtomicBool,
    /// Jobs so far.
    started: Signal,
    /// Workers that have not ended their share.
    running: Signal,
    /// What the first job that panicked said.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    spins: u32,
}

impl Pool {
    /// A pool that runs every job `count` times at once; one is none but the calling thread.
    ///
    /// # Errors
    /// If the system refuses a thread; those already started are ended.
    pub fn new(count: usize) -> std::io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut pool = Self {
            shared: Arc::new(Shared {
                job: AtomicPtr::new(ptr::null_mut()),
                busy: AtomicBool::new(false),
                ending: AtomicBool::new(false),
                started: Signal::default(),
                running: Signal::default(),
                panic: Mutex::new(None),
                spins: if count > cores { 0 } else { SPINS },
            }),
            threads: Vec::new(),
        };
        for index in 1..count {
            let shared = Arc::clone(&pool.shared);
            let thread = thread::Builder::new().name(format!("pocket-{index}"));
            pool.threads.push(thread.spawn(move || shared.work(index))?);
        }
        Ok(pool)
    }
}

impl Workers for Pool {
    fn count(&self) -> usize {
        self.threads.len() + 1
    }

    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        if self.threads.is_empty() || self.shared.busy.swap(true, Ordering::Acquire) {
            (0..self.count()).for_each(job);
            return;
        }
        self.shared.running.set(self.threads.len());
        self.shared.job.store((&raw const job).cast_mut().cast(), Ordering::Release);
        self.shared.started.add(1);
        let own = panic::catch_unwind(AssertUnwindSafe(|| job(0)));
        self.shared.running.wait(self.shared.spins, |running| running == 0);
        let others = lock(&self.shared.panic).take();
        self.shared.busy.store(false, Ordering::Release);
        if let Some(panic) = own.err().or(others) {
            panic::resume_unwind(panic);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        self.shared.started.add(1);
        for thread in self.threads.drain(..) {
            // A worker catches the panics of jobs and has none of its own.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The life of worker `index`.
    fn work(&self, index: usize) {
        let mut seen = 0;
        loop {
            // One call of `run` after the other: a worker is never behind by more than one job.
            seen = self.started.wait(self.spins, |started| started != seen);
            if self.ending.load(Ordering::Acquire) {
                return;
            }
            let job = self.job.load(Ordering::Acquire);
            // SAFETY: `run` stored a pointer to its own `job` before it counted `started` up, and it neither returns
            // nor unwinds before this worker has counted `running` down below: the reference and all that the closure
            // borrows live until then, and it is not used after.
            let job = unsafe { &*job };
            if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| job(index))) {
                lock(&self.panic).get_or_insert(panic);
            }
            self.running.subtract(1);
        }
    }
}

/// A number that threads wait for: they look, then yield, then sleep.
///
/// Changing it costs no system call unless somebody sleeps. Either the waiting thread, having announced its sleep, sees
/// the new number, or the changing thread, having changed it, sees the announcement: both do so in sequentially
/// consistent order.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Signal {
    number: AtomicUsize,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Signal {
    /// Sets the number while nobody waits for it.
    fn set(&self, number: usize) {
        self.number.store(number, Ordering::SeqCst);
    }

    fn add(&self, n: usize) {
        self.number.fetch_add(n, Ordering::SeqCst);
        self.wake();
    }

    fn subtract(&self, n: usize) {
        self.number.fetch_sub(n, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.lock));
            self.changed.notify_all();
        }
    }

    /// Waits for a number that is `ready`, and gives it.
    fn wait(&self, spins: u32, ready: impl Fn(usize) -> bool) -> usize {
        for turn in 0..spins + YIELDS {
            let number = self.number.load(Ordering::Acquire);
            if ready(number) {
                return number;
            }
            if turn < spins {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        let mut guard = lock(&self.lock);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let number = loop {
            let number = self.number.load(Ordering::SeqCst);
            if ready(number) {
                break number;
            }
            guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        number
    }
}

/// Locks what no panic can leave half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

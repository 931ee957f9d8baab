//! Threads that share the stages of a step: fork and join in about a microsecond while they are warm.
//!
//! A step has some two hundred stages, each a few dozen microseconds long, so a thread that has ended its share looks
//! for the next stage for a moment before it sleeps. The moment is bounded, and it is left out where there are more
//! workers than cores.
//!
//! Shares are tickets, and the caller takes those that nobody else took in time. So a worker that the system keeps from
//! running is only waited for where it was stopped within a share: a machine that is busy otherwise costs speed, but
//! not a scheduling delay for every stage.
//!
//! ```text
//! caller   post job, count tickets ─▶ take tickets until there are none ─▶ wait until all shares are done
//! worker   wait for tickets ─▶ take one ─▶ do that share ─▶ wait for tickets …
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

/// No share is left to take.
const NONE_LEFT: usize = usize::MAX;
/// No share will ever come again.
const ENDING: usize = usize::MAX - 1;

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
    /// The next share that nobody has taken; [`NONE_LEFT`] between jobs, [`ENDING`] when the pool is dropped.
    tickets: Signal,
    /// Shares that are not done.
    undone: Signal,
    /// How often every job runs.
    count: usize,
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
                tickets: Signal::new(NONE_LEFT),
                undone: Signal::new(0),
                count,
                panic: Mutex::new(None),
                spins: if count > cores { 0 } else { SPINS },
            }),
            threads: Vec::new(),
        };
        for index in 1..count {
            let shared = Arc::clone(&pool.shared);
            let thread = thread::Builder::new().name(format!("pocket-{index}"));
            pool.threads.push(thread.spawn(move || shared.work())?);
        }
        Ok(pool)
    }
}

impl Workers for Pool {
    fn count(&self) -> usize {
        self.threads.len() + 1
    }

    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        let shared = &*self.shared;
        if self.threads.is_empty() || shared.busy.swap(true, Ordering::Acquire) {
            (0..self.count()).for_each(job);
            return;
        }
        shared.undone.set(shared.count);
        shared.job.store((&raw const job).cast_mut().cast(), Ordering::Relaxed);
        shared.tickets.change(0);
        while shared.take_share().is_some() {}
        shared.undone.wait(shared.spins, |undone| undone == 0);
        let panic = lock(&shared.panic).take();
        shared.busy.store(false, Ordering::Release);
        if let Some(panic) = panic {
            panic::resume_unwind(panic);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.tickets.change(ENDING);
        for thread in self.threads.drain(..) {
            // A worker catches the panics of jobs and has none of its own.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The life of a worker.
    fn work(&self) {
        while self.tickets.wait(self.spins, |ticket| ticket != NONE_LEFT) != ENDING {
            self.take_share();
        }
    }

    /// Does the next share, if one is left.
    fn take_share(&self) -> Option<()> {
        let next = |ticket: usize| match ticket {
            NONE_LEFT | ENDING => None,
            ticket if ticket + 1 == self.count => Some(NONE_LEFT),
            ticket => Some(ticket + 1),
        };
        let ticket = self.tickets.number.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).ok()?;
        let job = self.job.load(Ordering::Relaxed);
        // SAFETY: `run` stored a pointer to its own `job` before it released the tickets, of which this thread has
        // acquired one; and it neither returns nor unwinds, nor are there tickets of another job, before this thread
        // has counted `undone` down below. The reference and all that the closure borrows live until then.
        let job = unsafe { &*job };
        if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| job(ticket))) {
            lock(&self.panic).get_or_insert(panic);
        }
        self.undone.subtract(1);
        Some(())
    }
}

/// A number that threads wait for: they look, then yield, then sleep.
///
/// Changing it costs no system call unless somebody sleeps. Either the waiting thread, having announced its sleep, sees
/// the new number, or the changing thread, having changed it, sees the announcement: both do so in sequentially
/// consistent order.
#[derive(Debug)]
#[repr(align(128))]
struct Signal {
    number: AtomicUsize,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Signal {
    const fn new(number: usize) -> Self {
        Self {
            number: AtomicUsize::new(number),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Sets the number while nobody waits for it.
    fn set(&self, number: usize) {
        self.number.store(number, Ordering::SeqCst);
    }

    /// Sets the number and wakes those who wait for it.
    fn change(&self, number: usize) {
        self.set(number);
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

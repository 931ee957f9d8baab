//! The host's pool of workers: every share done once, seen by the caller, and never a wait that does not end.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pocket_pack::pool::Pool;
use pocket_runtime::Workers;

/// More than any machine here has cores.
const COUNTS: [usize; 6] = [1, 2, 3, 4, 8, 33];

fn pool(count: usize) -> Pool {
    Pool::new(count).expect("the system grants threads")
}

/// Fails if `test` has not ended after a time that is out of all proportion.
fn in_time(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(test);
    for _ in 0..6000 {
        if thread.is_finished() {
            return thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the pool hangs");
}

#[test]
fn every_share_is_done_once_and_seen_by_the_caller() {
    in_time(|| {
        for count in COUNTS {
            let pool = pool(count);
            assert_eq!(pool.count(), count);
            // Plain data behind relaxed cells: only the pool itself orders the writes before the reads.
            let written: Vec<AtomicUsize> = (0..count * 100).map(|_| AtomicUsize::new(0)).collect();
            let rounds = if count > 8 { 300 } else { 5000 };
            for round in 1..=rounds {
                pool.run(&|worker| {
                    for cell in &written[worker * 100..][..100] {
                        cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    }
                });
                assert!(written.iter().all(|cell| cell.load(Ordering::Relaxed) == round), "{count} workers");
            }
        }
    });
}

#[test]
fn jobs_see_what_the_caller_wrote_before() {
    in_time(|| {
        let pool = pool(4);
        for round in 0..5000usize {
            let local = [round; 64];
            let sum = AtomicUsize::new(0);
            pool.run(&|_| {
                sum.fetch_add(local.iter().sum::<usize>(), Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 4 * 64 * round);
        }
    });
}

#[test]
fn workers_wake_after_they_slept() {
    in_time(|| {
        let pool = pool(3);
        for pause in [0, 1, 20, 5, 0, 50] {
            thread::sleep(Duration::from_millis(pause));
            let shares = AtomicUsize::new(0);
            pool.run(&|_| {
                // A share that outlasts the caller's spinning, so that the caller sleeps too.
                thread::sleep(Duration::from_millis(pause));
                shares.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(shares.into_inner(), 3);
        }
    });
}

#[test]
fn shares_run_at_the_same_time() {
    in_time(|| {
        let pool = pool(3);
        let arrived = AtomicUsize::new(0);
        // Would never end if one share waited for another to end.
        pool.run(&|_| {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
        });
    });
}

#[test]
fn a_job_may_use_the_pool_that_runs_it() {
    in_time(|| {
        for count in COUNTS {
            let pool = pool(count);
            let shares = AtomicUsize::new(0);
            pool.run(&|_| {
                pool.run(&|_| {
                    shares.fetch_add(1, Ordering::Relaxed);
                });
            });
            assert_eq!(shares.into_inner(), count * count);
        }
    });
}

#[test]
fn several_threads_may_use_one_pool() {
    in_time(|| {
        let pool = pool(2);
        let shares = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        pool.run(&|_| {
                            shares.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(shares.into_inner(), 4 * 2000 * 2);
    });
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
    in_time(|| {
        let pool = pool(3);
        for culprit in [0, 1, 2] {
            let done = AtomicUsize::new(0);
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
                pool.run(&|worker| {
                    if worker == culprit {
                        // Without the hook: a message for each expected panic would bury a real one.
                        panic::resume_unwind(Box::new("a job failed"));
                    }
                    thread::sleep(Duration::from_millis(5));
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }));
            let panic = outcome.expect_err("the panic is not swallowed");
            assert_eq!(panic.downcast_ref(), Some(&"a job failed"));
            assert_eq!(done.load(Ordering::Relaxed), 2, "the others ended before the caller heard of it");
            let shares = AtomicUsize::new(0);
            pool.run(&|_| {
                shares.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(shares.into_inner(), 3);
        }
    });
}

#[test]
fn dropping_ends_the_threads() {
    in_time(|| {
        for round in 0..200 {
            let pool = pool(1 + round % 5);
            if round % 2 == 0 {
                pool.run(&|_| {});
            }
            if round % 50 == 0 {
                thread::sleep(Duration::from_millis(3));
            }
            drop(pool);
        }
    });
}

#[test]
fn a_busy_machine_costs_speed_only() {
    in_time(|| {
        let stop = AtomicBool::new(false);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..cores {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let pool = pool(2 * cores);
            let shares = AtomicUsize::new(0);
            for _ in 0..500 {
                pool.run(&|_| {
                    shares.fetch_add(1, Ordering::Relaxed);
                });
            }
            stop.store(true, Ordering::Relaxed);
            assert_eq!(shares.into_inner(), 500 * 2 * cores);
        });
    });
}

//! Sharing a stage among cores.

/// Something that can run a job on several cores at once.
///
/// A stage is one shared closure that claims pieces of work until none are left; which worker does what cannot be seen
/// in the results.
pub trait Workers: Sync {
    /// How many calls of a job run at the same time, the calling thread's included.
    fn count(&self) -> usize;

    /// Calls `job(i)` once for every `i < count()`, possibly at the same time, and returns when all calls have. What
    /// the calls wrote must be visible to the caller afterwards (release and acquire).
    fn run(&self, job: &(dyn Fn(usize) + Sync));
}

/// No helpers: the calling thread does everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Single;

impl Workers for Single {
    fn count(&self) -> usize {
        1
    }

    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        job(0);
    }
}

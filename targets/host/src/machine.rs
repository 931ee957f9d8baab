//! What a session needs beside its image: the plan, the arena, the threads and the kernels.

use std::io;

use pocket_kernels::Kernels;
use pocket_runtime::{Error, Image, Limits, Plan, Session};

use crate::isa::{Isa, MissingIsa, WithKernels};
use crate::memory::HostArena;
use crate::pool::Pool;

/// A session on a host.
pub(crate) type HostSession<'s, K> = Session<'s, K, Pool>;

/// Code that uses a session on kernels yet to be chosen.
pub(crate) trait UseSession {
    /// What it gives.
    type Out;
    /// Runs it.
    fn with<K: Kernels>(self, session: HostSession<'_, K>) -> Self::Out;
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MachineError {
    /// The model cannot be run like this.
    #[error(transparent)]
    Run(#[from] Error),
    /// The machine lacks the instruction set.
    #[error(transparent)]
    Isa(#[from] MissingIsa),
    /// The system has no memory.
    #[error("the system grants no {:.1} MB for the arena; plan a shorter context", *bytes as f64 / 1e6)]
    Memory { bytes: usize, source: io::Error },
    /// The system has no threads.
    #[error("the system grants no {workers} threads; use fewer --workers")]
    Threads { workers: u32, source: io::Error },
}

/// Everything that a session needs but its image.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) plan: Plan,
    pub(crate) isa: Isa,
    arena: HostArena,
    pool: Pool,
}

impl Machine {
    /// Plans a session and provides for it.
    pub(crate) fn new(image: &Image<'_>, limits: &Limits, isa: Isa) -> Result<Self, MachineError> {
        let plan = Plan::try_new(image.config(), limits).map_err(Error::from)?;
        let (bytes, workers) = (plan.arena_bytes(), limits.workers);
        let arena = HostArena::new(bytes).map_err(|source| MachineError::Memory { bytes, source })?;
        let pool = Pool::new(workers as usize).map_err(|source| MachineError::Threads { workers, source })?;
        Ok(Self { plan, isa, arena, pool })
    }

    /// Runs code with a session for the image that was planned for.
    pub(crate) fn with_session<U: UseSession>(&mut self, image: &Image<'_>, code: U) -> Result<U::Out, MachineError> {
        let Self { plan, isa, arena, pool } = self;
        isa.run(Begin { image, plan, arena, pool, code })?
    }
}

/// Makes the session once the kernels are known.
struct Begin<'m, U> {
    image: &'m Image<'m>,
    plan: &'m Plan,
    arena: &'m mut HostArena,
    pool: &'m Pool,
    code: U,
}

impl<U: UseSession> WithKernels for Begin<'_, U> {
    type Out = Result<U::Out, MachineError>;

    fn with<K: Kernels>(self, kernels: K) -> Self::Out {
        let session = Session::new(self.image, self.plan, self.arena.bytes(), kernels, self.pool);
        Ok(self.code.with(session.map_err(Error::from)?))
    }
}

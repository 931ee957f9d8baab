//! The stacks: the only memory that is written beside the arena.
//!
//! Nothing recurses and no buffer of the stack has a size that a model or a limit decides, so the worst case is one
//! number for all models. It is kept by painting: `targets/c/tests/stack.c` calls everything there is with each set of
//! kernels, `ci/virt` looks at the stacks of a whole firmware, and both fail above these constants.

use super::Plan;

/// Bytes of stack that a call of a session takes of the calling thread, at most, in a release build and without what
/// the caller's own [`Workers`](crate::Workers) and closures take.
///
/// Attention with 512-bit vectors takes 33 KB; 64-bit Arm takes 27 KB.
pub const CALL_STACK_BYTES: usize = 40 * 1024;

/// Bytes of stack that a job takes of a worker, at most, in a release build.
///
/// 25 KB with 512-bit vectors; 64-bit Arm takes 16 KB.
pub const JOB_STACK_BYTES: usize = 32 * 1024;

impl Plan {
    /// Bytes of all stacks: one call's, and a job's on every worker beside the calling thread.
    #[must_use]
    pub const fn stack_bytes(&self) -> usize {
        let others = self.limits.workers.saturating_sub(1) as usize;
        CALL_STACK_BYTES.saturating_add(others.saturating_mul(JOB_STACK_BYTES))
    }
}

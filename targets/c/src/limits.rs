//! What a session is granted, and the bytes that follow from it.

use pocket_runtime::plan::{CALL_STACK_BYTES, JOB_STACK_BYTES};
use pocket_runtime::{CacheType, Limits, Plan, PlanError};
use static_assertions::const_assert_eq;

use crate::image::{Opened, PocketImage};
use crate::pointer::{Out, read};
use crate::session::HEAD_BYTES;
use crate::status::{Checked, Fault, POCKET_ERROR_VALUE, PocketStatus, status};

/// The attention cache holds 16-bit floats.
pub const POCKET_CACHE_F16: u32 = 0;
/// The attention cache holds 8-bit integers with scales: about half the bytes.
pub const POCKET_CACHE_I8: u32 = 1;

/// Stack that a call takes of the calling thread, at most and without what callbacks take.
pub const POCKET_STACK_BYTES: usize = 40 * 1024;
/// Stack that a job takes of a worker, at most.
pub const POCKET_JOB_STACK_BYTES: usize = 32 * 1024;
// The header has the numbers, the runtime decides them.
const_assert_eq!(POCKET_STACK_BYTES, CALL_STACK_BYTES);
const_assert_eq!(POCKET_JOB_STACK_BYTES, JOB_STACK_BYTES);

/// What a session is granted. Everything that the plan counts follows from this and the model's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PocketLimits {
    /// Positions: prompts and replies together, in tokens.
    pub context: u32,
    /// Tokens of a prompt that are processed at once: speed and memory, never results.
    pub batch: u32,
    /// Workers that may share a step, the calling thread included.
    pub workers: u32,
    /// `POCKET_CACHE_F16` or `POCKET_CACHE_I8`.
    pub cache: u32,
    /// The longest stretch of text without a boundary, in bytes; 0 if the session is only given tokens.
    pub word_bytes: u32,
    /// The longest rendered chat of one `pocket_prefill_chat`, in bytes; 0 if it is not called.
    pub chat_bytes: u32,
}

/// Limits with this context: one worker, 64 tokens at a time, a 16-bit cache, words of up to 4 KiB, and four bytes of
/// chat for each position.
#[unsafe(no_mangle)]
pub extern "C" fn pocket_limits_new(context: u32) -> PocketLimits {
    let Limits { context, batch, workers, cache: _, word_bytes } = Limits::new(context);
    PocketLimits { context, batch, workers, cache: POCKET_CACHE_F16, word_bytes, chat_bytes: context.saturating_mul(4) }
}

/// Bytes that a session takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PocketPlan {
    /// Bytes of the arena, which begins at a multiple of 64. Everything is in it: the session itself, its attention
    /// cache, logits and scratch. Beyond it only stacks are used.
    pub arena_bytes: usize,
    /// Bytes of the image.
    pub image_bytes: usize,
    /// Bytes of stack: `POCKET_STACK_BYTES`, and `POCKET_JOB_STACK_BYTES` for every worker beside the calling thread.
    pub stack_bytes: usize,
    /// Arena, image and stacks together: the most memory that the model takes.
    pub peak_bytes: usize,
}

/// A plan with what this library puts around it.
///
/// ```text
/// | head: the session object | arena of the runtime | room for a rendered chat |
/// ```
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) chat_offset: usize,
    pub(crate) arena_bytes: usize,
}

impl Planned {
    pub(crate) fn new(opened: &Opened, limits: PocketLimits) -> Checked<Self> {
        let PocketLimits { context, batch, workers, cache, word_bytes, chat_bytes } = limits;
        let cache = match cache {
            POCKET_CACHE_F16 => CacheType::F16,
            POCKET_CACHE_I8 => CacheType::I8,
            _ => return Err(Fault::Here(POCKET_ERROR_VALUE)),
        };
        let plan = Plan::try_new(opened.image.config(), &Limits { context, batch, workers, cache, word_bytes })?;
        let chat_offset = HEAD_BYTES.checked_add(plan.arena_bytes());
        let whole = chat_offset.and_then(|offset| offset.checked_add(usize::try_from(chat_bytes).ok()?));
        match (chat_offset, whole.and_then(|bytes| bytes.checked_next_multiple_of(64))) {
            (Some(chat_offset), Some(arena_bytes)) if arena_bytes <= isize::MAX as usize => {
                Ok(Self { plan, chat_offset, arena_bytes })
            }
            _ => Err(PlanError::TooLarge.into()),
        }
    }
}

/// Computes what a session with these limits takes. Nothing is allocated, here or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_plan_session(
    image: *const PocketImage,
    limits: *const PocketLimits,
    plan: *mut PocketPlan,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, limits, out) = unsafe { (Opened::behind(image)?, read(limits)?, Out::new(plan)?) };
        let Planned { plan, arena_bytes, .. } = Planned::new(opened, limits)?;
        let (image_bytes, stack_bytes) = (opened.image.bytes().len(), plan.stack_bytes());
        let peak_bytes = arena_bytes.saturating_add(image_bytes).saturating_add(stack_bytes);
        out.set(PocketPlan { arena_bytes, image_bytes, stack_bytes, peak_bytes });
        Ok(())
    })
}

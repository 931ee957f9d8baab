//! Sessions: made in an arena, entered by one call at a time.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_void};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use pocket_runtime::{Error, Sampler, Sampling, SessionError, StepError};

use crate::image::{Opened, PocketImage};
use crate::kernels::{AnySession, PocketMachine};
use crate::limits::{Planned, PocketLimits};
use crate::pointer::{Context, Out, one, read, slice_mut};
use crate::sentence;
use crate::status::{
    Checked, Fault, POCKET_ERROR_BUSY, POCKET_ERROR_NOT_OPEN, POCKET_ERROR_NULL, POCKET_ERROR_OVERLAP, PocketStatus,
    status,
};
use crate::workers::CallersWorkers;

/// A session: one conversation's tokens, their keys and values, the logits of what follows, and a sampler. It lives at
/// the head of its arena, needs no closing, and is over when the caller uses that memory for something else.
pub struct PocketSession {
    /// [`TAG`] and the session's own address, so that a copy is none.
    tag: usize,
    busy: AtomicBool,
    pub(crate) cancel: AtomicBool,
    workers: CallersWorkers,
    inner: UnsafeCell<Inner>,
}

/// What one call at a time may touch.
pub(crate) struct Inner {
    pub(crate) session: AnySession,
    pub(crate) opened: Opened,
    pub(crate) sampler: Sampler,
    pub(crate) chat: &'static mut [u8],
    /// Why the last call that failed did so.
    fault: Option<Fault>,
}

/// Marks a session.
const TAG: usize = u32::from_le_bytes(*b"sess") as usize;

/// Bytes of the arena's head, in which the session object lies.
pub(crate) const HEAD_BYTES: usize = size_of::<PocketSession>().next_multiple_of(64);

static_assertions::const_assert!(align_of::<PocketSession>() <= 64);

/// A session that a call has entered; it is left when this is dropped.
pub(crate) struct Entered<'a>(&'a PocketSession);

impl<'a> Entered<'a> {
    /// Enters the session behind a pointer.
    ///
    /// # Safety
    /// The header's contract, for `'a`.
    pub(crate) unsafe fn new(pointer: *const PocketSession) -> Checked<Self> {
        // SAFETY: passed on to the caller.
        let session = unsafe { behind(pointer) }?;
        if session.busy.swap(true, Ordering::Acquire) { Err(Fault::Here(POCKET_ERROR_BUSY)) } else { Ok(Self(session)) }
    }

    /// Whether somebody wants the reply to end.
    pub(crate) fn cancel(&self) -> &'a AtomicBool {
        &self.0.cancel
    }
}

impl Deref for Entered<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        // SAFETY: whoever set `busy` is the only one here until it is cleared, which only dropping this does.
        unsafe { &*self.0.inner.get() }
    }
}

impl DerefMut for Entered<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { &mut *self.0.inner.get() }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}

/// Runs what is behind a function of a session, and keeps why it was not done.
///
/// # Safety
/// The header's contract.
pub(crate) unsafe fn within(
    session: *const PocketSession,
    body: impl FnOnce(&mut Entered<'_>) -> Checked<()>,
) -> PocketStatus {
    status(|| {
        // SAFETY: passed on to the caller.
        let mut entered = unsafe { Entered::new(session) }?;
        body(&mut entered).inspect_err(|&fault| {
            entered.fault = Some(fault);
            if let Fault::There(Error::Step(StepError::Cancelled { .. })) = fault {
                entered.cancel().store(false, Ordering::Relaxed);
            }
        })
    })
}

/// The session behind a pointer, not entered.
///
/// # Safety
/// The header's contract, for `'a`.
unsafe fn behind<'a>(pointer: *const PocketSession) -> Checked<&'a PocketSession> {
    let pointer = one(pointer)?;
    // SAFETY: by the header's contract the pointer leads to a session, or at least to memory that is as large.
    let tag = unsafe { (&raw const (*pointer.as_ptr()).tag).read() };
    if tag != TAG ^ pointer.as_ptr().addr() {
        return Err(Fault::Here(POCKET_ERROR_NOT_OPEN));
    }
    // SAFETY: only `pocket_session_new` writes the tag, after everything else, and a copy elsewhere has the wrong one.
    Ok(unsafe { pointer.as_ref() })
}

/// Makes a session in `arena`, which begins at a multiple of 64, holds at least `arena_bytes` of the plan for these
/// limits, is not the image's memory, and is the library's until the session is over. What is in it does not matter,
/// nor do `image` and `machine` afterwards, only the image's bytes. `machine` may be null: the best kernels that can be
/// asked for, on the calling thread.
///
/// The session's sampler is greedy until `pocket_session_sampling` changes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_session_new(
    image: *const PocketImage,
    limits: *const PocketLimits,
    machine: *const PocketMachine,
    arena: *mut c_void,
    arena_bytes: usize,
    session: *mut *mut PocketSession,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (out, opened, limits) = unsafe { (Out::new(session)?, Opened::behind(image)?, read(limits)?) };
        out.set(core::ptr::null_mut());
        // SAFETY: the header's contract.
        let machine = if machine.is_null() { PocketMachine::BEST } else { unsafe { read(machine) }? };
        let planned = Planned::new(opened, limits)?;
        // SAFETY: the header's contract, which for an arena lasts until the session is over.
        let arena = unsafe { arena_slice(opened, arena, arena_bytes, planned.arena_bytes) }?;
        // SAFETY: `arena_slice` gave as much as was planned, at a multiple of 64.
        out.set(unsafe { place(opened, &planned, &machine, arena) }?.as_ptr());
        Ok(())
    })
}

/// The arena, if it is large enough and where it may be.
///
/// # Safety
/// The header's contract, until the session is over.
unsafe fn arena_slice(
    opened: &Opened,
    arena: *mut c_void,
    have: usize,
    need: usize,
) -> Result<&'static mut [u8], Fault> {
    let start = arena.addr();
    if start != 0 && !start.is_multiple_of(64) {
        return Err(SessionError::ArenaMisaligned { remainder: (start % 64) as u32 }.into());
    }
    if have < need {
        return Err(SessionError::ArenaTooSmall { need: need as u64, have: have as u64 }.into());
    }
    let image = opened.image.bytes().as_ptr_range();
    if start < image.end.addr() && image.start.addr() < start.saturating_add(need) {
        return Err(Fault::Here(POCKET_ERROR_OVERLAP));
    }
    // SAFETY: passed on to the caller.
    unsafe { slice_mut(arena.cast(), need) }
}

/// Makes the session object in the head of an arena, and the session behind it.
///
/// # Safety
/// The arena has as many bytes as planned and begins at a multiple of 64.
unsafe fn place(
    opened: &Opened,
    planned: &Planned,
    machine: &PocketMachine,
    arena: &'static mut [u8],
) -> Checked<NonNull<PocketSession>> {
    let small = SessionError::ArenaTooSmall { need: planned.arena_bytes as u64, have: arena.len() as u64 };
    let (arena, chat) = arena.split_at_mut_checked(planned.chat_offset).ok_or(small)?;
    let (head, arena) = arena.split_at_mut_checked(HEAD_BYTES).ok_or(small)?;
    let head: *mut PocketSession = head.as_mut_ptr().cast();
    if machine.workers > 1 && machine.run.is_none() {
        return Err(Fault::Here(POCKET_ERROR_NULL));
    }
    let workers =
        CallersWorkers { count: machine.workers.max(1), run: machine.run, context: Context(machine.run_context) };
    // SAFETY: the head is aligned room for a session object, which this is the only pointer to.
    let (workers, cancel): (&'static CallersWorkers, &'static AtomicBool) = unsafe {
        (&raw mut (*head).tag).write(0);
        (&raw mut (*head).workers).write(workers);
        (&raw mut (*head).cancel).write(AtomicBool::new(false));
        (&(*head).workers, &(*head).cancel)
    };
    let mut session = AnySession::new(machine, (&opened.image, &planned.plan), arena, workers)?;
    session.steps().cancel_by(cancel);
    let inner = Inner { session, opened: *opened, sampler: Sampler::new(Sampling::GREEDY, 0)?, chat, fault: None };
    // SAFETY: as above; the workers and the flag, which the session refers to, are not written again.
    unsafe {
        (&raw mut (*head).busy).write(AtomicBool::new(false));
        (&raw mut (*head).inner).write(UnsafeCell::new(inner));
        (&raw mut (*head).tag).write(TAG ^ head.addr());
    }
    one(head)
}

/// Which kernels the session computes with: `POCKET_KERNELS_*`, never `POCKET_KERNELS_BEST`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_session_kernels(session: *const PocketSession, kernels: *mut u32) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        unsafe { Out::new(kernels) }?.set(entered.session.kernels());
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

/// Writes why the last call that failed with this session did so, with the numbers: `*length` bytes of UTF-8 at `text`,
/// where there is `room` for them; not terminated. `POCKET_SENTENCE_BYTES` are always enough; if the room is too small,
/// `*length` says how much it takes and the status is `POCKET_ERROR_BUFFER`.
///
/// Calls that were refused with `POCKET_ERROR_BUSY`, and this one, do not count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_session_error_text(
    session: *const PocketSession,
    text: *mut c_char,
    room: usize,
    length: *mut usize,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        unsafe { sentence::write(Entered::new(session)?.fault, text, room, length) }
    })
}

/// Ends the step or the reply that the session is at, before the next half of a layer; if it is at none, the next one at
/// once. A reply then ends with `POCKET_ENDED_BY_CANCEL`, a step with `POCKET_ERROR_CANCELLED`; what they left is
/// computed by the next step. Any thread and any signal handler may call this at any time while the session lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_cancel(session: *const PocketSession) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        unsafe { behind(session) }?.cancel.store(true, Ordering::Relaxed);
        Ok(())
    })
}

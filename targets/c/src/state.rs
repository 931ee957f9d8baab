//! Saved states.

use core::ffi::c_void;

use pocket_runtime::{State, StateError};

use crate::pointer::{Out, slice, slice_mut};
use crate::session::{Entered, PocketSession, within};
use crate::status::PocketStatus;

/// How many bytes `pocket_state_save` takes now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_state_bytes(session: *const PocketSession, bytes: *mut usize) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        let out = unsafe { Out::new(bytes) }?;
        let need = entered.session.steps().state_bytes();
        out.set(usize::try_from(need).map_err(|_| StateError::Room { need, have: usize::MAX as u64 })?);
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

/// Saves the tokens that the session holds, with their keys and values, as `*length` bytes at `state`, where there is
/// `room` for them. Pending tokens and logits are not saved. The same tokens make the same bytes on every chip, whatever
/// the context, the batch and the workers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_state_save(
    session: *const PocketSession,
    state: *mut c_void,
    room: usize,
    length: *mut usize,
) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        let (out, state) = unsafe { (Out::new(length)?, slice_mut::<u8>(state.cast(), room)?) };
        out.set(entered.session.steps().save(state)?);
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

/// Takes up a saved state in place of whatever the session holds, and goes on to the same bits as if it had processed
/// those tokens itself. There are no logits before the next step. The state must be of the same model and kind of cache,
/// and fit the context; otherwise the session stays as it was. Its bytes may begin anywhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_state_restore(
    session: *mut PocketSession,
    state: *const c_void,
    length: usize,
) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        let state = State::open(unsafe { slice(state.cast(), length) }?)?;
        Ok(entered.session.steps().restore(&state)?)
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

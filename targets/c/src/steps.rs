//! The steps of a session.

use core::ffi::c_char;
use core::sync::atomic::AtomicBool;

use pocket_kernels::Kernels;
use pocket_runtime::generate::{Reply, Until};
use pocket_runtime::text::{Specials, Tokenizer};
use pocket_runtime::{Error, Sampler, Session, State, StateError, StepError};

use crate::generate::Listener;
use crate::pointer::{Out, read, slice, text};
use crate::sampling::PocketSampling;
use crate::session::{Entered, PocketSession, within};
use crate::status::PocketStatus;
use crate::text::specials;
use crate::workers::CallersWorkers;

/// A session on these kernels, shared by the caller's workers, in the caller's memory.
pub(crate) type ChosenSession<K> = Session<'static, K, CallersWorkers>;

/// [`Session`] without its types.
pub(crate) trait Steps {
    fn prefill(&mut self, ids: &[u32]) -> Result<(), StepError>;
    fn prefill_text(&mut self, tokenizer: &Tokenizer<'_>, text: &str, specials: Specials<'_>) -> Result<usize, Error>;
    fn sample(&mut self, sampler: &mut Sampler) -> Result<u32, StepError>;
    fn generate(
        &mut self,
        tokenizer: &Tokenizer<'_>,
        sampler: &mut Sampler,
        until: Until<'_, '_>,
        listener: &mut Listener<'_>,
    ) -> Result<Reply, StepError>;
    fn cancel_by(&mut self, flag: &'static AtomicBool);
    fn resume(&mut self) -> Result<(), StepError>;
    fn pending(&self) -> usize;
    fn logits(&self) -> Option<&[f32]>;
    fn tokens(&self) -> &[u32];
    fn room(&self) -> usize;
    fn rewind(&mut self, position: usize) -> Result<(), StepError>;
    fn reset(&mut self);
    fn state_bytes(&self) -> u64;
    fn save(&self, out: &mut [u8]) -> Result<usize, StateError>;
    fn restore(&mut self, state: &State<'_>) -> Result<(), StateError>;
}

impl<K: Kernels> Steps for ChosenSession<K> {
    fn prefill(&mut self, ids: &[u32]) -> Result<(), StepError> {
        self.prefill(ids)
    }
    fn prefill_text(&mut self, tokenizer: &Tokenizer<'_>, text: &str, specials: Specials<'_>) -> Result<usize, Error> {
        self.prefill_text(tokenizer, text, specials)
    }
    fn sample(&mut self, sampler: &mut Sampler) -> Result<u32, StepError> {
        self.sample(sampler)
    }
    fn generate(
        &mut self,
        tokenizer: &Tokenizer<'_>,
        sampler: &mut Sampler,
        until: Until<'_, '_>,
        listener: &mut Listener<'_>,
    ) -> Result<Reply, StepError> {
        self.generate(tokenizer, sampler, until, listener)
    }
    fn cancel_by(&mut self, flag: &'static AtomicBool) {
        self.cancel_by(flag);
    }
    fn resume(&mut self) -> Result<(), StepError> {
        self.resume()
    }
    fn pending(&self) -> usize {
        self.pending()
    }
    fn logits(&self) -> Option<&[f32]> {
        self.logits()
    }
    fn tokens(&self) -> &[u32] {
        self.tokens()
    }
    fn room(&self) -> usize {
        self.room()
    }
    fn rewind(&mut self, position: usize) -> Result<(), StepError> {
        self.rewind(position)
    }
    fn reset(&mut self) {
        self.reset();
    }
    fn state_bytes(&self) -> u64 {
        self.state_bytes()
    }
    fn save(&self, out: &mut [u8]) -> Result<usize, StateError> {
        self.save(out)
    }
    fn restore(&mut self, state: &State<'_>) -> Result<(), StateError> {
        self.restore(state)
    }
}

/// Appends tokens and computes the logits of the last. Before any work it is clear whether they fit and are known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_prefill(session: *mut PocketSession, tokens: *const u32, count: usize) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        let tokens = unsafe { slice(tokens, count) }?;
        Ok(entered.session.steps().prefill(tokens)?)
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

/// Turns text into tokens and appends them as `pocket_prefill` does; text that makes no token changes nothing.
///
/// `special` is one of `POCKET_SPECIAL_*`. No begin-of-text token is added, see `pocket_facts`. `count`, where the number
/// of tokens goes, may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_prefill_text(
    session: *mut PocketSession,
    text: *const c_char,
    length: usize,
    special: u32,
    count: *mut usize,
) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        let (text, out) = unsafe { (self::text(text, length)?, Out::optional(count)?) };
        let specials = specials(special)?;
        let tokenizer = entered.opened.tokenizer()?;
        let count = entered.session.steps().prefill_text(&tokenizer, text, specials)?;
        out.inspect(|out| out.set(count));
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

/// Appends one token and computes the logits of what follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_decode(session: *mut PocketSession, token: u32) -> PocketStatus {
    // SAFETY: the header's contract.
    unsafe { within(session, |entered| Ok(entered.session.steps().prefill(&[token])?)) }
}

/// Computes the tokens that a cancelled call left, if there are any. Every other step does so first, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_resume(session: *mut PocketSession) -> PocketStatus {
    // SAFETY: the header's contract.
    unsafe { within(session, |entered| Ok(entered.session.steps().resume()?)) }
}

/// How many tokens a cancelled call left. `pocket_rewind` and `pocket_reset` forget them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_pending(session: *const PocketSession, count: *mut usize) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        unsafe { Out::new(count) }?.set(entered.session.steps().pending());
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

/// Gives the session another sampler; equal seeds give equal tokens, on every chip. `sampling` may be null: the settings
/// that the model's author recommends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_session_sampling(
    session: *mut PocketSession,
    sampling: *const PocketSampling,
    seed: u64,
) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        let settings = match sampling.is_null() {
            true => entered.opened.image.sampling(),
            // SAFETY: the header's contract.
            false => unsafe { read(sampling) }?.into(),
        };
        entered.sampler = Sampler::new(settings, seed)?;
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

/// Chooses the token that follows; it is not appended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_sample(session: *mut PocketSession, token: *mut u32) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        let out = unsafe { Out::new(token) }?;
        let inner = &mut **entered;
        out.set(inner.session.steps().sample(&mut inner.sampler)?);
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

/// The logits of what follows: `*count` (the vocabulary's size) at `*logits`, in the arena, until the next call that
/// changes the session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_logits(
    session: *mut PocketSession,
    logits: *mut *const f32,
    count: *mut usize,
) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        let (logits, count) = unsafe { (Out::new(logits)?, Out::new(count)?) };
        let found = entered.session.steps().logits().ok_or(StepError::NoLogits)?;
        logits.set(found.as_ptr());
        count.set(found.len());
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

/// The tokens that the session holds: `*count` at `*tokens`, in the arena, until the next call that changes the session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_tokens(
    session: *mut PocketSession,
    tokens: *mut *const u32,
    count: *mut usize,
) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        let (tokens, count) = unsafe { (Out::new(tokens)?, Out::new(count)?) };
        let found = entered.session.steps().tokens();
        tokens.set(found.as_ptr());
        count.set(found.len());
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

/// How many more tokens fit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_room(session: *mut PocketSession, tokens: *mut usize) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        unsafe { Out::new(tokens) }?.set(entered.session.steps().room());
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

/// Forgets the tokens from `position` on; the next step goes on as if they had never been.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_rewind(session: *mut PocketSession, position: usize) -> PocketStatus {
    // SAFETY: the header's contract.
    unsafe { within(session, |entered| Ok(entered.session.steps().rewind(position)?)) }
}

/// Forgets everything but the sampler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_reset(session: *mut PocketSession) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        entered.session.steps().reset();
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

//! Replies.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use pocket_runtime::generate::{Emit, Ending, Reply, Until};
use pocket_runtime::text::StopStrings;

use crate::image::{POCKET_NO_TOKEN, POCKET_STOPS_MAX};
use crate::pointer::{Out, read, slice, text};
use crate::session::{Entered, Inner, PocketSession, within};
use crate::status::{Checked, Fault, POCKET_ERROR_TOO_MANY_STOPS, PocketStatus};

/// The longest stop string, in bytes.
pub const POCKET_STOP_BYTES_MAX: usize = 252;

/// The model ended the reply, with a stop token, which is neither shown nor appended.
pub const POCKET_ENDED_BY_STOP_TOKEN: u32 = 1;
/// A stop string ended it; neither it nor what follows is shown. The session holds some of its tokens: to go on as if the
/// reply had ended with what was shown, rewind to where it began and append that text.
pub const POCKET_ENDED_BY_STOP_STRING: u32 = 2;
/// It has as many tokens as it may.
pub const POCKET_ENDED_BY_TOKENS: u32 = 3;
/// The session has no room for another token.
pub const POCKET_ENDED_BY_CONTEXT: u32 = 4;
/// The callback or `pocket_cancel` ended it.
pub const POCKET_ENDED_BY_CANCEL: u32 = 5;

/// Text of a stop string.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PocketText {
    /// UTF-8, which need not be terminated.
    pub bytes: *const c_char,
    /// Bytes of it.
    pub length: usize,
}

/// Takes a token of a reply, the `count`-th from 1 on: after the text that it completes was shown, before it is appended.
/// `pocket_detokenize` has its bytes. Gives 0 to go on, and anything else to end the reply after this token.
pub type PocketTokenFn = Option<unsafe extern "C" fn(context: *mut c_void, token: u32, count: usize) -> c_int>;

/// What may end a reply.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PocketUntil {
    /// The most tokens that it may have.
    pub tokens: usize,
    /// Tokens that end it; null for those that `pocket_image_stop_tokens` gives.
    pub stop_tokens: *const u32,
    /// How many.
    pub stop_token_count: usize,
    /// Strings that end it.
    pub stop_strings: *const PocketText,
    /// How many.
    pub stop_string_count: usize,
    /// Takes every token; null: nobody does.
    pub tell: PocketTokenFn,
    /// Handed to `tell`.
    pub tell_context: *mut c_void,
}

/// Takes a piece of a reply: whole characters of UTF-8, not terminated, valid during the call. Gives 0 to go on, and
/// anything else to end the reply before its next token, after which it is not called again.
pub type PocketTextFn = Option<unsafe extern "C" fn(context: *mut c_void, text: *const c_char, length: usize) -> c_int>;

/// A reply that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PocketReply {
    /// Tokens appended to the session.
    pub tokens: usize,
    /// `POCKET_ENDED_BY_*`.
    pub ending: u32,
    /// The stop token that ended it, or `POCKET_NO_TOKEN`.
    pub stop_token: u32,
}

impl From<Reply> for PocketReply {
    fn from(Reply { tokens, ending }: Reply) -> Self {
        let (ending, stop_token) = match ending {
            Ending::StopToken(id) => (POCKET_ENDED_BY_STOP_TOKEN, id),
            Ending::StopString => (POCKET_ENDED_BY_STOP_STRING, POCKET_NO_TOKEN),
            Ending::Tokens => (POCKET_ENDED_BY_TOKENS, POCKET_NO_TOKEN),
            Ending::ContextFull => (POCKET_ENDED_BY_CONTEXT, POCKET_NO_TOKEN),
            _ => (POCKET_ENDED_BY_CANCEL, POCKET_NO_TOKEN),
        };
        Self { tokens, ending, stop_token }
    }
}

/// Stop strings that have been read.
struct Stops<'a> {
    strings: [&'a str; POCKET_STOPS_MAX],
    count: usize,
}

impl<'a> Stops<'a> {
    /// Reads stop strings.
    ///
    /// # Safety
    /// The header's contract, for `'a`.
    unsafe fn read(strings: *const PocketText, count: usize) -> Checked<Self> {
        // SAFETY: passed on to the caller.
        let given = unsafe { slice(strings, count) }?;
        let mut stops = Self { strings: [""; POCKET_STOPS_MAX], count };
        if count > POCKET_STOPS_MAX {
            return Err(Fault::Here(POCKET_ERROR_TOO_MANY_STOPS));
        }
        for (stop, &PocketText { bytes, length }) in stops.strings.iter_mut().zip(given) {
            // SAFETY: passed on to the caller.
            *stop = unsafe { text(bytes, length) }?;
        }
        Ok(stops)
    }
}

/// The caller's functions.
pub(crate) struct Listener<'a> {
    show: PocketTextFn,
    show_context: *mut c_void,
    tell: PocketTokenFn,
    tell_context: *mut c_void,
    /// Set when one of them has had enough.
    end: &'a AtomicBool,
}

impl Listener<'_> {
    fn end(&self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

impl Emit for &mut Listener<'_> {
    fn text(&mut self, text: &str) {
        let Some(show) = self.show else { return };
        // SAFETY: the caller's function, called as the header says.
        if unsafe { show(self.show_context, text.as_ptr().cast(), text.len()) } != 0 {
            self.show = None;
            self.end();
        }
    }

    fn token(&mut self, id: u32, count: usize) {
        let Some(tell) = self.tell else { return };
        // SAFETY: the caller's function, called as the header says.
        if unsafe { tell(self.tell_context, id, count) } != 0 {
            self.end();
        }
    }
}

/// Generates a reply to the tokens that the session holds, with the session's sampler, and gives its text to `show`
/// (null: to nobody) as it comes. Control tokens are appended but not shown. Every token that is shown is appended, so a
/// chat goes on with `pocket_prefill_chat`. `reply` may be null.
///
/// `until` may ask for the tokens too: it is told all that are appended and no other. For logits, or another choice of
/// tokens, call `pocket_sample` and `pocket_decode` in turn.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_generate(
    session: *mut PocketSession,
    until: *const PocketUntil,
    show: PocketTextFn,
    show_context: *mut c_void,
    reply: *mut PocketReply,
) -> PocketStatus {
    let body = |entered: &mut Entered<'_>| {
        // SAFETY: the header's contract.
        let (until, out) = unsafe { (read(until)?, Out::optional(reply)?) };
        // SAFETY: the header's contract.
        let stops = unsafe { Stops::read(until.stop_strings, until.stop_string_count) }?;
        let own_stops = match until.stop_tokens.is_null() {
            true => None,
            // SAFETY: the header's contract.
            false => Some(unsafe { slice(until.stop_tokens, until.stop_token_count) }?),
        };
        let mut held = [0; POCKET_STOP_BYTES_MAX + 4];
        let strings = stops.strings.get(..stops.count).unwrap_or_default();
        let mut stop_strings = StopStrings::new(strings, &mut held)?;

        let (cancel, end) = (entered.cancel(), AtomicBool::new(false));
        let mut listener =
            Listener { show, show_context, tell: until.tell, tell_context: until.tell_context, end: &end };
        let Inner { session, opened, sampler, .. } = &mut **entered;
        let tokenizer = opened.tokenizer()?;
        let ends = Until {
            stop_tokens: own_stops.unwrap_or(opened.stop_tokens()),
            stop_strings: &mut stop_strings,
            tokens: until.tokens,
            cancel: &end,
        };
        let generated = session.steps().generate(&tokenizer, sampler, ends, &mut listener)?;
        if generated.ending == Ending::Cancelled && !end.into_inner() {
            cancel.store(false, Ordering::Relaxed);
        }
        out.inspect(|out| out.set(generated.into()));
        Ok(())
    };
    // SAFETY: the header's contract.
    unsafe { within(session, body) }
}

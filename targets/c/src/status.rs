//! Errors as numbers that stay the same in every release, and what they mean.

use core::ffi::{CStr, c_char};
use core::fmt;

use pocket_runtime::text::TextError;
use pocket_runtime::{Error, ImageError, PlanError, SessionError, StateError, StepError};

/// What became of a call: `POCKET_OK`, or the number of an error, which stays the same in every release.
pub type PocketStatus = u32;

/// It was done.
pub const POCKET_OK: PocketStatus = 0;

/// The model has no layers or more than 1024.
pub const POCKET_ERROR_CONFIG_LAYERS: PocketStatus = 100;
/// The hidden size is not a multiple of 32 in 32..=1048576.
pub const POCKET_ERROR_CONFIG_HIDDEN: PocketStatus = 101;
/// The feed-forward size is not a multiple of 32 in 32..=1048576.
pub const POCKET_ERROR_CONFIG_FFN: PocketStatus = 102;
/// The head size is not a multiple of 32 in 32..=256.
pub const POCKET_ERROR_CONFIG_HEAD_DIM: PocketStatus = 103;
/// Query heads cannot be shared by the KV heads.
pub const POCKET_ERROR_CONFIG_HEADS: PocketStatus = 104;
/// The vocabulary is empty or too large.
pub const POCKET_ERROR_CONFIG_VOCABULARY: PocketStatus = 105;
/// The trained context is empty or too large.
pub const POCKET_ERROR_CONFIG_CONTEXT: PocketStatus = 106;
/// The norm's epsilon is not a number between 0 and 1.
pub const POCKET_ERROR_CONFIG_RMS_EPS: PocketStatus = 107;

/// The image was cut short: transfer or pack it again.
pub const POCKET_ERROR_IMAGE_TRUNCATED: PocketStatus = 200;
/// This is not an image.
pub const POCKET_ERROR_IMAGE_MAGIC: PocketStatus = 201;
/// The image has the format of another release: pack it again.
pub const POCKET_ERROR_IMAGE_VERSION: PocketStatus = 202;
/// The image does not begin at a multiple of 64.
pub const POCKET_ERROR_IMAGE_MISALIGNED: PocketStatus = 203;
/// A checksum does not match: the image is damaged.
pub const POCKET_ERROR_IMAGE_CHECKSUM: PocketStatus = 204;
/// The image contradicts itself.
pub const POCKET_ERROR_IMAGE_FIELD: PocketStatus = 205;
/// The image lacks a part that is needed here, such as a tokenizer or a chat template.
pub const POCKET_ERROR_IMAGE_MISSING: PocketStatus = 206;
/// The image has a section that this release does not know.
pub const POCKET_ERROR_IMAGE_UNKNOWN_SECTION: PocketStatus = 207;
/// A tensor does not fit the image's configuration.
pub const POCKET_ERROR_IMAGE_TENSOR: PocketStatus = 209;
/// The image is not signed.
pub const POCKET_ERROR_IMAGE_UNSIGNED: PocketStatus = 211;
/// The image was signed by somebody else, or changed since: do not use it.
pub const POCKET_ERROR_IMAGE_SIGNATURE: PocketStatus = 212;

/// The context is 0 or longer than the model was trained for.
pub const POCKET_ERROR_PLAN_CONTEXT: PocketStatus = 301;
/// The batch is 0 or longer than the context.
pub const POCKET_ERROR_PLAN_BATCH: PocketStatus = 302;
/// No workers, or more than 256.
pub const POCKET_ERROR_PLAN_WORKERS: PocketStatus = 303;
/// The plan needs more bytes than can be addressed.
pub const POCKET_ERROR_PLAN_TOO_LARGE: PocketStatus = 304;

/// The arena is smaller than planned.
pub const POCKET_ERROR_ARENA_TOO_SMALL: PocketStatus = 401;
/// The arena does not begin at a multiple of 64.
pub const POCKET_ERROR_ARENA_MISALIGNED: PocketStatus = 402;
/// More workers than the limits allow.
pub const POCKET_ERROR_TOO_MANY_WORKERS: PocketStatus = 403;

/// The context cannot hold these tokens; nothing was computed.
pub const POCKET_ERROR_CONTEXT_FULL: PocketStatus = 500;
/// A token is not in the vocabulary; nothing was computed.
pub const POCKET_ERROR_UNKNOWN_TOKEN: PocketStatus = 501;
/// No tokens were given.
pub const POCKET_ERROR_EMPTY: PocketStatus = 502;
/// A value that is not finite appeared: verify the image.
pub const POCKET_ERROR_NON_FINITE: PocketStatus = 503;
/// There are no logits yet, or no longer.
pub const POCKET_ERROR_NO_LOGITS: PocketStatus = 504;
/// A rewind to a position that was not reached.
pub const POCKET_ERROR_REWIND_BEYOND: PocketStatus = 505;
/// Sampling settings are out of range.
pub const POCKET_ERROR_SAMPLING: PocketStatus = 506;
/// `pocket_cancel` ended the step; the tokens that are left are computed by the next one, or by `pocket_resume`.
pub const POCKET_ERROR_CANCELLED: PocketStatus = 507;

/// A text section is none.
pub const POCKET_ERROR_TEXT_MAGIC: PocketStatus = 601;
/// A text section is of another release.
pub const POCKET_ERROR_TEXT_VERSION: PocketStatus = 602;
/// A text section is not aligned.
pub const POCKET_ERROR_TEXT_MISALIGNED: PocketStatus = 603;
/// A text section has a wrong length.
pub const POCKET_ERROR_TEXT_LENGTH: PocketStatus = 604;
/// A table of a text section contradicts itself.
pub const POCKET_ERROR_TEXT_DAMAGED: PocketStatus = 605;
/// The text has an unbroken run longer than `word_bytes` allows.
pub const POCKET_ERROR_PIECE_TOO_LONG: PocketStatus = 606;
/// The text has more tokens than fit; nothing was computed.
pub const POCKET_ERROR_TOO_MANY_TOKENS: PocketStatus = 607;
/// There is no turn to render.
pub const POCKET_ERROR_NO_TURNS: PocketStatus = 609;
/// The template has no place for a turn of this role here.
pub const POCKET_ERROR_TURN_ORDER: PocketStatus = 610;
/// The rendered chat does not fit.
pub const POCKET_ERROR_RENDER_TOO_LONG: PocketStatus = 611;
/// More than `POCKET_TURNS_MAX` turns in one call.
pub const POCKET_ERROR_TOO_MANY_TURNS: PocketStatus = 612;
/// A stop string is empty.
pub const POCKET_ERROR_STOP_EMPTY: PocketStatus = 613;
/// A stop string is longer than `POCKET_STOP_BYTES_MAX`.
pub const POCKET_ERROR_STOP_TOO_LONG: PocketStatus = 614;

/// A pointer is null that must not be.
pub const POCKET_ERROR_NULL: PocketStatus = 701;
/// A pointer is not aligned for what it points to.
pub const POCKET_ERROR_MISALIGNED: PocketStatus = 702;
/// A length is more than can be addressed.
pub const POCKET_ERROR_LENGTH: PocketStatus = 703;
/// The object is not an open image or a session.
pub const POCKET_ERROR_NOT_OPEN: PocketStatus = 704;
/// The session is in use: another thread's call has not returned, or this is a callback of its own.
pub const POCKET_ERROR_BUSY: PocketStatus = 705;
/// This library or this machine has no such kernels.
pub const POCKET_ERROR_KERNELS: PocketStatus = 706;
/// A number is none of the values that are possible there.
pub const POCKET_ERROR_VALUE: PocketStatus = 707;
/// The text is not UTF-8.
pub const POCKET_ERROR_UTF8: PocketStatus = 708;
/// The output is too small; the length that is needed was written.
pub const POCKET_ERROR_BUFFER: PocketStatus = 709;
/// The arena overlaps the image.
pub const POCKET_ERROR_OVERLAP: PocketStatus = 710;
/// More stop tokens or stop strings than `POCKET_STOPS_MAX`.
pub const POCKET_ERROR_TOO_MANY_STOPS: PocketStatus = 711;

/// The memory for a state is too small.
pub const POCKET_ERROR_STATE_ROOM: PocketStatus = 800;
/// A state was cut short.
pub const POCKET_ERROR_STATE_TRUNCATED: PocketStatus = 801;
/// This is no saved state.
pub const POCKET_ERROR_STATE_MAGIC: PocketStatus = 802;
/// A state has the format of another release.
pub const POCKET_ERROR_STATE_VERSION: PocketStatus = 803;
/// The checksum of a state does not match: it is damaged.
pub const POCKET_ERROR_STATE_CHECKSUM: PocketStatus = 804;
/// A state contradicts itself.
pub const POCKET_ERROR_STATE_FIELD: PocketStatus = 805;
/// A state was saved with another model.
pub const POCKET_ERROR_STATE_OTHER_MODEL: PocketStatus = 806;
/// A state was saved from another kind of attention cache.
pub const POCKET_ERROR_STATE_OTHER_CACHE: PocketStatus = 807;
/// A state is longer than the context.
pub const POCKET_ERROR_STATE_CONTEXT: PocketStatus = 808;

/// What a status means and what to do, as an English sentence that lives for ever; never null. Where it happened and
/// which numbers do not fit say `pocket_image_error_text` and `pocket_session_error_text`.
#[unsafe(no_mangle)]
pub extern "C" fn pocket_error_text(status: PocketStatus) -> *const c_char {
    sentence(status).as_ptr()
}

/// The sentence of a status.
fn sentence(status: PocketStatus) -> &'static CStr {
    match status {
        POCKET_OK => c"done",
        POCKET_ERROR_CONFIG_LAYERS => c"the model has no layers or more than 1024; use another model",
        POCKET_ERROR_CONFIG_HIDDEN => c"the hidden size is not a multiple of 32 in 32..=1048576; use another model",
        POCKET_ERROR_CONFIG_FFN => c"the feed-forward size is not a multiple of 32 in 32..=1048576; use another model",
        POCKET_ERROR_CONFIG_HEAD_DIM => c"the head size is not a multiple of 32 in 32..=256; use another model",
        POCKET_ERROR_CONFIG_HEADS => c"the query heads cannot be shared by the KV heads; use another model",
        POCKET_ERROR_CONFIG_VOCABULARY => c"the vocabulary is not of 1 to 16777216 tokens; use another model",
        POCKET_ERROR_CONFIG_CONTEXT => c"the trained context is not 1 to 16777216 positions; use another model",
        POCKET_ERROR_CONFIG_RMS_EPS => c"the norm's epsilon is not a number between 0 and 1; use another model",
        POCKET_ERROR_IMAGE_TRUNCATED => c"the image was cut short; transfer or pack it again",
        POCKET_ERROR_IMAGE_MAGIC => c"this is not a Pocket image; make one with `pocket pack`",
        POCKET_ERROR_IMAGE_VERSION => c"the image has the format of another release; pack it again",
        POCKET_ERROR_IMAGE_MISALIGNED => c"the image does not begin at a multiple of 64 bytes; place it at one",
        POCKET_ERROR_IMAGE_CHECKSUM => c"a checksum of the image does not match; transfer or pack it again",
        POCKET_ERROR_IMAGE_FIELD => c"the image contradicts itself; pack it again",
        POCKET_ERROR_IMAGE_MISSING => c"the image lacks a part that is needed; pack it from a file that has it",
        POCKET_ERROR_IMAGE_UNKNOWN_SECTION => {
            c"the image has a section that this release does not know; use a newer one"
        }
        POCKET_ERROR_IMAGE_TENSOR => c"a tensor of the image does not fit its configuration; pack it again",
        POCKET_ERROR_IMAGE_UNSIGNED => c"the image is not signed; sign it with `pocket sign`",
        POCKET_ERROR_IMAGE_SIGNATURE => c"the image was signed by somebody else or changed since; do not use it",
        POCKET_ERROR_PLAN_CONTEXT => c"the context is 0 or longer than the model was trained for; choose a shorter one",
        POCKET_ERROR_PLAN_BATCH => c"the batch is 0 or longer than the context; choose one in between",
        POCKET_ERROR_PLAN_WORKERS => c"the number of workers is not 1 to 256",
        POCKET_ERROR_PLAN_TOO_LARGE => c"the plan needs more bytes than can be addressed; choose smaller limits",
        POCKET_ERROR_ARENA_TOO_SMALL => c"the arena is smaller than planned; lend as many bytes as the plan says",
        POCKET_ERROR_ARENA_MISALIGNED => c"the arena does not begin at a multiple of 64 bytes; align it",
        POCKET_ERROR_TOO_MANY_WORKERS => c"there are more workers than the limits allow; raise the limit or use fewer",
        POCKET_ERROR_CONTEXT_FULL => {
            c"the context cannot hold these tokens; shorten the prompt, rewind, or plan a longer one"
        }
        POCKET_ERROR_UNKNOWN_TOKEN => c"a token is not in the vocabulary",
        POCKET_ERROR_EMPTY => c"no tokens were given",
        POCKET_ERROR_NON_FINITE => c"a value that is not finite appeared; verify the image",
        POCKET_ERROR_NO_LOGITS => c"there are no logits; process a token after a start, a rewind or an error",
        POCKET_ERROR_REWIND_BEYOND => c"the session holds fewer tokens than it was to go back to",
        POCKET_ERROR_SAMPLING => c"sampling settings are out of range; see pocket_sampling",
        POCKET_ERROR_CANCELLED => c"cancelled; call pocket_resume, or rewind or reset to forget the tokens left",
        POCKET_ERROR_TEXT_MAGIC => c"a text section of the image is of another kind; pack it again",
        POCKET_ERROR_TEXT_VERSION => c"a text section of the image is of another release; pack it again",
        POCKET_ERROR_TEXT_MISALIGNED => c"a text section of the image is not aligned; place the image at 64 bytes",
        POCKET_ERROR_TEXT_LENGTH => c"a text section of the image has a wrong length; pack it again",
        POCKET_ERROR_TEXT_DAMAGED => c"a text section of the image is damaged; pack it again",
        POCKET_ERROR_PIECE_TOO_LONG => {
            c"the text has too long a run without a boundary; raise word_bytes or shorten it"
        }
        POCKET_ERROR_TOO_MANY_TOKENS => c"the text has more tokens than there is room for; shorten it or start anew",
        POCKET_ERROR_NO_TURNS => c"there is no turn to render; pass at least one",
        POCKET_ERROR_TURN_ORDER => {
            c"the template has no place for a turn of this role; let user and assistant alternate"
        }
        POCKET_ERROR_RENDER_TOO_LONG => c"the rendered chat does not fit; raise chat_bytes or drop turns",
        POCKET_ERROR_TOO_MANY_TURNS => c"there are more turns than one call takes; drop some or append in pieces",
        POCKET_ERROR_STOP_EMPTY => c"a stop string is empty; leave it out",
        POCKET_ERROR_STOP_TOO_LONG => c"a stop string is too long; shorten it",
        POCKET_ERROR_NULL => c"a pointer is null that must not be",
        POCKET_ERROR_MISALIGNED => c"a pointer is not aligned for its type",
        POCKET_ERROR_LENGTH => c"a length is more than can be addressed",
        POCKET_ERROR_NOT_OPEN => c"the object is not an open image or a session",
        POCKET_ERROR_BUSY => c"the session is in use; wait for the call that has not returned",
        POCKET_ERROR_KERNELS => c"this library or this machine has no such kernels; choose others",
        POCKET_ERROR_VALUE => c"a number is none of the values that are possible there",
        POCKET_ERROR_UTF8 => c"the text is not UTF-8",
        POCKET_ERROR_BUFFER => c"the output is too small; lend as much as was reported",
        POCKET_ERROR_OVERLAP => c"the arena overlaps the image; keep them apart",
        POCKET_ERROR_TOO_MANY_STOPS => c"there are more stop tokens or strings than one call takes; drop some",
        POCKET_ERROR_STATE_ROOM => c"the memory for the state is too small; lend what pocket_state_bytes says",
        POCKET_ERROR_STATE_TRUNCATED => c"the state was cut short; save it again",
        POCKET_ERROR_STATE_MAGIC => c"this is no saved state",
        POCKET_ERROR_STATE_VERSION => c"the state has the format of another release; save it again",
        POCKET_ERROR_STATE_CHECKSUM => c"the checksum of the state does not match; save it again",
        POCKET_ERROR_STATE_FIELD => c"the state contradicts itself; save it again",
        POCKET_ERROR_STATE_OTHER_MODEL => c"the state was saved with another model; process the tokens anew",
        POCKET_ERROR_STATE_OTHER_CACHE => {
            c"the state was saved from another kind of attention cache; plan with that one or process the tokens anew"
        }
        POCKET_ERROR_STATE_CONTEXT => c"the state is longer than the context; plan a longer one",
        _ => c"an error that this release has no sentence for",
    }
}

/// Why something was not done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// An error of this interface.
    Here(PocketStatus),
    /// An error of the runtime, with its numbers.
    There(Error),
}

impl Fault {
    fn status(self) -> PocketStatus {
        // The innermost reason says most where sentences have no numbers in them.
        let code = match self {
            Self::Here(status) => return status,
            Self::There(Error::Image(ImageError::Config { reason }) | Error::Plan(PlanError::Config { reason })) => {
                reason.code()
            }
            Self::There(Error::Image(ImageError::Text { reason })) => reason.code(),
            Self::There(
                Error::Image(ImageError::Prefix { reason }) | Error::Session(SessionError::Prefix { reason }),
            ) => reason.code(),
            Self::There(other) => other.code(),
        };
        code.into()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(status) => f.write_str(sentence(*status).to_str().unwrap_or_default()),
            Self::There(error) => error.fmt(f),
        }
    }
}

/// What is behind every function.
pub(crate) type Checked<T> = Result<T, Fault>;

/// Runs what is behind a function.
pub(crate) fn status(body: impl FnOnce() -> Checked<()>) -> PocketStatus {
    match body() {
        Ok(()) => POCKET_OK,
        Err(fault) => fault.status(),
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::There(error)
    }
}

macro_rules! faults {
    ($($error:ty),+) => {
        $(impl From<$error> for Fault {
            fn from(error: $error) -> Self {
                Error::from(error).into()
            }
        })+
    };
}
faults!(ImageError, PlanError, SessionError, StateError, StepError, TextError);

//! Text to tokens and back.

use core::ffi::c_char;

use pocket_runtime::StepError;
use pocket_runtime::text::{Specials, scratch_len};

use crate::image::{Opened, PocketImage};
use crate::pointer::{Out, slice, slice_mut, text};
use crate::status::{Checked, Fault, POCKET_ERROR_BUFFER, POCKET_ERROR_VALUE, PocketStatus, status};

/// Special tokens in the text are text like any other: for all that people write.
pub const POCKET_SPECIAL_AS_TEXT: u32 = 0;
/// Special tokens in the text steer the model: only for text that the program wrote itself.
pub const POCKET_SPECIAL_RECOGNISE: u32 = 1;

/// What special tokens in text are.
pub(crate) fn specials(special: u32) -> Checked<Specials<'static>> {
    match special {
        POCKET_SPECIAL_AS_TEXT => Ok(Specials::AsText),
        POCKET_SPECIAL_RECOGNISE => Ok(Specials::Recognise),
        _ => Err(Fault::Here(POCKET_ERROR_VALUE)),
    }
}

/// Words of scratch with which `pocket_encode` takes text whose stretches without a boundary have at most this many
/// bytes. A text of n bytes has none longer than n.
#[unsafe(no_mangle)]
pub extern "C" fn pocket_encode_scratch(word_bytes: usize) -> usize {
    scratch_len(word_bytes)
}

/// Turns text into tokens, without a session: `*count` of them at `tokens`, where there is `room` for them. `scratch` is
/// `scratch_words` words that the caller lends, see `pocket_encode_scratch`; `special` is one of `POCKET_SPECIAL_*`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_encode(
    image: *const PocketImage,
    text: *const c_char,
    length: usize,
    special: u32,
    scratch: *mut u32,
    scratch_words: usize,
    tokens: *mut u32,
    room: usize,
    count: *mut usize,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, text, out) = unsafe { (Opened::behind(image)?, self::text(text, length)?, Out::new(count)?) };
        // SAFETY: the header's contract.
        let (scratch, tokens) = unsafe { (slice_mut(scratch, scratch_words)?, slice_mut(tokens, room)?) };
        out.set(opened.tokenizer()?.encode(text, specials(special)?, scratch, tokens)?);
        Ok(())
    })
}

/// Turns tokens into the bytes that they stand for, one behind the other: `*length` of them at `bytes`, where there is
/// `room` for them; not terminated. The first or last character may be cut, as tokens may end inside of one. With
/// `skip_control` not 0, tokens that steer the model are left out. If the room is too small, `*length` says how much it
/// takes and the status is `POCKET_ERROR_BUFFER`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_detokenize(
    image: *const PocketImage,
    tokens: *const u32,
    count: usize,
    skip_control: u32,
    bytes: *mut c_char,
    room: usize,
    length: *mut usize,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, tokens, out) = unsafe { (Opened::behind(image)?, slice(tokens, count)?, Out::new(length)?) };
        // SAFETY: the header's contract.
        let bytes = unsafe { slice_mut::<u8>(bytes.cast(), room) }?;
        let tokenizer = opened.tokenizer()?;
        let vocabulary = opened.image.config().vocabulary;
        let mut len = 0_usize;
        for &id in tokens {
            if id >= vocabulary {
                return Err(StepError::UnknownToken { id, vocabulary }.into());
            }
            if skip_control != 0 && tokenizer.is_control(id) {
                continue;
            }
            // A padded vocabulary has rows that stand for no token and so for no text.
            let token = tokenizer.token_bytes(id).unwrap_or_default();
            if let Some(place) = bytes.get_mut(len..).and_then(|room| room.get_mut(..token.len())) {
                place.copy_from_slice(token);
            }
            len = len.saturating_add(token.len());
        }
        out.set(len);
        if len > room { Err(Fault::Here(POCKET_ERROR_BUFFER)) } else { Ok(()) }
    })
}

/// Whether a token steers the model and should not be shown: `*control` becomes 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_token_is_control(
    image: *const PocketImage,
    token: u32,
    control: *mut u32,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, out) = unsafe { (Opened::behind(image)?, Out::new(control)?) };
        out.set(opened.tokenizer()?.is_control(token).into());
        Ok(())
    })
}

/// The special token that is written like this, or `POCKET_NO_TOKEN`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pocket_token_of(
    image: *const PocketImage,
    text: *const c_char,
    length: usize,
    token: *mut u32,
) -> PocketStatus {
    status(|| {
        // SAFETY: the header's contract.
        let (opened, text, out) = unsafe { (Opened::behind(image)?, self::text(text, length)?, Out::new(token)?) };
        let found = opened.tokenizer()?.id_of(text.as_bytes());
        out.set(found.unwrap_or(crate::image::POCKET_NO_TOKEN));
        Ok(())
    })
}

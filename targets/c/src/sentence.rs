//! Sentences with numbers, written where the caller says.

use core::ffi::c_char;
use core::fmt::{self, Write};

use crate::pointer::{Out, slice_mut};
use crate::status::{Checked, Fault, POCKET_ERROR_BUFFER, POCKET_OK};

/// As many bytes have room for every sentence of `pocket_image_error_text` and `pocket_session_error_text`.
pub const POCKET_SENTENCE_BYTES: usize = 256;

/// Text of which as much is kept as there is room for.
struct Sentence<'a> {
    room: &'a mut [u8],
    length: usize,
}

impl Write for Sentence<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if let Some(place) = self.room.get_mut(self.length..).and_then(|room| room.get_mut(..piece.len())) {
            place.copy_from_slice(piece.as_bytes());
        }
        self.length = self.length.saturating_add(piece.len());
        Ok(())
    }
}

/// Writes what went wrong, if anything did.
///
/// # Safety
/// The header's contract.
pub(crate) unsafe fn write(fault: Option<Fault>, text: *mut c_char, room: usize, length: *mut usize) -> Checked<()> {
    // SAFETY: passed on to the caller.
    let (room, out) = unsafe { (slice_mut::<u8>(text.cast(), room)?, Out::new(length)?) };
    let mut sentence = Sentence { room, length: 0 };
    // Writing to memory does not fail.
    let _ = write!(sentence, "{}", fault.unwrap_or(Fault::Here(POCKET_OK)));
    out.set(sentence.length);
    if sentence.length > sentence.room.len() { Err(Fault::Here(POCKET_ERROR_BUFFER)) } else { Ok(()) }
}

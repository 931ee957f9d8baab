//! Turns the bytes of tokens into text, character by character.
//!
//! A token may end inside a character, so up to three bytes are held back until the rest
//! comes. What can never become a character is shown as U+FFFD, one for each maximal
//! subpart.
//!
//! # Source
//! Unicode Standard, section 3.9, "U+FFFD Substitution of Maximal Subparts"; the same as
//! the WHATWG Encoding Standard's decoder.

/// What stands for bytes that are no text.
const REPLACEMENT: &str = "\u{FFFD}";

/// The longest beginning of a character that can still become one.
const MAX_HELD: usize = 3;

/// The state of a text that comes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Utf8Stream {
    /// One byte more than is ever held, for the byte that completes a character.
    held: [u8; MAX_HELD + 1],
    len: u8,
}

impl Utf8Stream {
    /// Starts a text.
    pub const fn new() -> Self {
        Self { held: [0; MAX_HELD + 1], len: 0 }
    }

    /// Takes bytes and emits the characters that are whole.
    pub fn push(&mut self, bytes: &[u8], mut emit: impl FnMut(&str)) {
        let rest = self.complete(bytes, &mut emit);
        let mut chunks = rest.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            if !chunk.valid().is_empty() {
                emit(chunk.valid());
            }
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && may_continue(invalid) {
                self.hold(invalid);
            } else if !invalid.is_empty() {
                emit(REPLACEMENT);
            }
        }
    }

    /// Ends the text: what is held back never became a character.
    pub fn finish(&mut self, mut emit: impl FnMut(&str)) {
        if self.len > 0 {
            emit(REPLACEMENT);
        }
        *self = Self::new();
    }

    /// How many bytes are held back.
    pub const fn held(&self) -> usize {
        self.len as usize
    }

    /// Adds bytes to what is held back until that is a character or can't become one, and
    /// gives the bytes left over.
    fn complete<'b>(&mut self, mut bytes: &'b [u8], emit: &mut impl FnMut(&str)) -> &'b [u8] {
        while let (1.., Some((&byte, rest))) = (self.len, bytes.split_first()) {
            let mut longer = *self;
            longer.append(byte);
            match core::str::from_utf8(longer.bytes()) {
                Ok(character) => {
                    emit(character);
                    *self = Self::new();
                    bytes = rest;
                }
                Err(error) if error.error_len().is_none() => {
                    *self = longer;
                    bytes = rest;
                }
                Err(_) => {
                    // The byte does not belong to what was held; it begins something new.
                    emit(REPLACEMENT);
                    *self = Self::new();
                }
            }
        }
        bytes
    }

    /// Holds the beginning of a character.
    fn hold(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.append(byte));
    }

    /// Holds one more byte.
    fn append(&mut self, byte: u8) {
        if let Some(slot) = self.held.get_mut(usize::from(self.len)) {
            *slot = byte;
            self.len = self.len.saturating_add(1);
        }
    }

    /// What is held.
    fn bytes(&self) -> &[u8] {
        self.held.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// Whether bytes are the beginning of a character.
fn may_continue(bytes: &[u8]) -> bool {
    core::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

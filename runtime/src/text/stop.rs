//! Ends a text at the first of several strings, and never shows part of one.
//!
//! Text comes in pieces, and a stop string may come in several. What could still become
//! one is held back in a buffer that the caller lends; it is shown as soon as it can't.
//! The stop string that is complete first counts, of those that end together the longest.

use super::error::{TextError, count};

/// The longest character.
const MAX_CHAR: usize = 4;

/// Stop strings and the text that may become one.
#[derive(Debug)]
pub struct StopStrings<'a> {
    stops: &'a [&'a str],
    held: &'a mut [u8],
    len: usize,
    stopped: bool,
}

impl<'a> StopStrings<'a> {
    /// The bytes of buffer that these stop strings need.
    pub fn held_bytes(stops: &[&str]) -> usize {
        let longest = stops.iter().map(|stop| stop.len()).max().unwrap_or(0);
        longest.saturating_add(MAX_CHAR)
    }

    /// Starts a text that ends at any of these strings.
    ///
    /// # Errors
    /// [`TextError::StopEmpty`], or [`TextError::StopBuffer`] if the buffer is smaller than
    /// [`held_bytes`](Self::held_bytes).
    pub fn new(stops: &'a [&'a str], held: &'a mut [u8]) -> Result<Self, TextError> {
        if let Some(index) = stops.iter().position(|stop| stop.is_empty()) {
            return Err(TextError::StopEmpty { index: count(index) });
        }
        let need = Self::held_bytes(stops);
        if held.len() < need {
            return Err(TextError::StopBuffer { need: count(need), have: count(held.len()) });
        }
        Ok(Self { stops, held, len: 0, stopped: false })
    }

    /// Takes text, emits what can be shown, and says whether the text has ended.
    ///
    /// After it has ended nothing more is emitted.
    pub fn push(&mut self, text: &str, mut emit: impl FnMut(&str)) -> bool {
        // Text that begins no stop string is emitted in one run.
        let mut run = 0;
        for (at, c) in text.char_indices() {
            if self.stopped {
                return true;
            }
            let end = at.saturating_add(c.len_utf8());
            let character = text.get(at..end).unwrap_or_default();
            if self.len == 0 && !self.begins(character) {
                continue;
            }
            emit_some(text.get(run..at).unwrap_or_default(), &mut emit);
            run = end;
            self.hold(character);
            self.settle(&mut emit);
        }
        if !self.stopped {
            emit_some(text.get(run..).unwrap_or_default(), &mut emit);
        }
        self.stopped
    }

    /// Ends the text without a stop string: what was held back is shown.
    pub fn finish(&mut self, mut emit: impl FnMut(&str)) {
        if !self.stopped {
            self.release(self.len, &mut emit);
        }
        self.len = 0;
        self.stopped = false;
    }

    /// Whether a stop string was met.
    pub const fn stopped(&self) -> bool {
        self.stopped
    }

    /// Whether a stop string begins with this character.
    fn begins(&self, character: &str) -> bool {
        self.stops.iter().any(|stop| stop.starts_with(character))
    }

    /// Adds a character to what is held back.
    fn hold(&mut self, character: &str) {
        let rest = self.held.get_mut(self.len..).and_then(|rest| rest.get_mut(..character.len()));
        if let Some(place) = rest {
            place.copy_from_slice(character.as_bytes());
            self.len = self.len.saturating_add(character.len());
        }
    }

    /// Stops at a stop string, or releases what can't become one.
    fn settle(&mut self, emit: &mut impl FnMut(&str)) {
        let held = self.held.get(..self.len).unwrap_or_default();
        let met = self.stops.iter().map(|stop| stop.as_bytes());
        let met = met.filter(|stop| held.ends_with(stop)).map(<[u8]>::len);
        if let Some(longest) = met.max() {
            self.release(self.len.saturating_sub(longest), emit);
            self.stopped = true;
            self.len = 0;
            return;
        }
        let may_begin = |from: &usize| {
            let rest = held.get(*from..).unwrap_or_default();
            self.stops.iter().any(|stop| stop.as_bytes().starts_with(rest))
        };
        let keep_from = (0..self.len).find(may_begin).unwrap_or(self.len);
        self.release(keep_from, emit);
    }

    /// Emits the first bytes that are held and moves the others up.
    fn release(&mut self, bytes: usize, emit: &mut impl FnMut(&str)) {
        let held = self.held.get_mut(..self.len).unwrap_or_default();
        // Stop strings are made of whole characters, so this cuts none.
        let text = held.get(..bytes).unwrap_or_default();
        emit_some(core::str::from_utf8(text).unwrap_or_default(), emit);
        if bytes <= held.len() {
            held.copy_within(bytes.., 0);
            self.len = held.len().saturating_sub(bytes);
        }
    }
}

/// Emits text unless it is empty.
fn emit_some(text: &str, emit: &mut impl FnMut(&str)) {
    if !text.is_empty() {
        emit(text);
    }
}

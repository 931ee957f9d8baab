//! Special tokens: found in text as they stand, never made by merging.
//!
//! Where several begin at a place the longest counts. They are what steers the model, so
//! whoever writes them steers it: text that comes from a user must not be searched for
//! them. A rendered chat is both, template and user text; the template says which ranges
//! are whose, and the search keeps out of those.

use core::ops::Range;

use super::error::{TextError, TextPart, count};
use super::layout::Special;

/// Where special tokens are recognised when text is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials<'a> {
    /// Everywhere: the text is trusted.
    Recognise,
    /// Nowhere: `<|im_end|>` is ten characters.
    AsText,
    /// Where they touch none of these byte ranges, which are sorted and do not overlap:
    /// the contents of a rendered chat.
    RecogniseOutside(&'a [Range<usize>]),
}

impl Specials<'_> {
    /// Checks that ranges are sorted and inside the text.
    pub(super) fn check(self, text_len: usize) -> Result<(), TextError> {
        let Self::RecogniseOutside(ranges) = self else {
            return Ok(());
        };
        let mut from = 0;
        for (index, range) in ranges.iter().enumerate() {
            if range.start < from || range.end < range.start || range.end > text_len {
                return Err(TextError::ProtectedRange { index: count(index) });
            }
            from = range.end;
        }
        Ok(())
    }

    /// Whether a special token may lie at this place.
    fn allow(self, at: &Range<usize>) -> bool {
        match self {
            Self::Recognise => true,
            Self::AsText => false,
            Self::RecogniseOutside(ranges) => {
                // The only range that can touch is the first that ends behind the start.
                let next = ranges.partition_point(|range| range.end <= at.start);
                // An empty range there protects nothing, but the one after it might.
                ranges
                    .get(next..)
                    .unwrap_or_default()
                    .iter()
                    .take_while(|range| range.start < at.end)
                    .all(Range::is_empty)
            }
        }
    }
}

/// A special token found in text.
pub(super) struct Found {
    pub(super) at: Range<usize>,
    pub(super) id: u32,
}

/// A view of the special tokens of a tokenizer section.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpecialTable<'a> {
    /// By first byte, the longest of a byte first.
    table: &'a [Special],
    /// A bit for each byte that one begins with.
    first: &'a [u32; 8],
}

impl<'a> SpecialTable<'a> {
    /// Checks the tokens, their order and the bits.
    ///
    /// `bytes_of` gives the bytes of a token.
    pub(super) fn open(
        table: &'a [Special],
        first: &'a [u32; 8],
        bytes_of: impl Fn(u32) -> Option<&'a [u8]>,
    ) -> Result<Self, TextError> {
        let damaged = TextError::damaged(TextPart::Specials);
        let opened = Self { table, first };
        let mut seen = [0_u32; 8];
        let mut before: Option<&[u8]> = None;
        for special in table {
            let bytes = bytes_of(special.id).ok_or(damaged)?;
            let &byte = bytes.first().ok_or(damaged)?;
            let ordered = before.is_none_or(|before| order(before) < order(bytes));
            // Only whole characters can be cut out of text.
            if special.control > 1 || !ordered || core::str::from_utf8(bytes).is_err() {
                return Err(damaged);
            }
            if let Some(word) = seen.get_mut(usize::from(byte / 32)) {
                *word |= 1 << (byte % 32);
            }
            before = Some(bytes);
        }
        if seen != *first {
            return Err(damaged);
        }
        Ok(opened)
    }

    /// The special token's entry.
    pub(super) fn get(&self, id: u32) -> Option<&'a Special> {
        self.table.iter().find(|special| special.id == id)
    }

    /// The special token that is exactly these bytes.
    pub(super) fn id_of<'b>(&self, bytes: &[u8], bytes_of: impl Fn(u32) -> Option<&'b [u8]>) -> Option<u32> {
        self.starting_with(*bytes.first()?, &bytes_of).find(|&(_, token)| token == bytes).map(|(id, _)| id)
    }

    /// The first special token at or behind `from` that is allowed where it lies.
    pub(super) fn find<'b>(
        &self,
        text: &[u8],
        from: usize,
        allowed: Specials<'_>,
        bytes_of: impl Fn(u32) -> Option<&'b [u8]>,
    ) -> Option<Found> {
        if allowed == Specials::AsText {
            return None;
        }
        let rest = text.get(from..)?;
        for (offset, &byte) in rest.iter().enumerate() {
            if !self.begins(byte) {
                continue;
            }
            let here = rest.get(offset..)?;
            let longest = self.starting_with(byte, &bytes_of).find(|(_, token)| here.starts_with(token));
            let Some((id, token)) = longest else { continue };
            let start = from.saturating_add(offset);
            let at = start..start.saturating_add(token.len());
            if allowed.allow(&at) {
                return Some(Found { at, id });
            }
        }
        None
    }

    /// Whether a special token begins with this byte.
    fn begins(&self, byte: u8) -> bool {
        self.first.get(usize::from(byte / 32)).is_some_and(|word| word >> (byte % 32) & 1 == 1)
    }

    /// The special tokens that begin with a byte, the longest first.
    fn starting_with<'b>(
        &self,
        byte: u8,
        bytes_of: &impl Fn(u32) -> Option<&'b [u8]>,
    ) -> impl Iterator<Item = (u32, &'b [u8])> {
        let first = |special: &Special| bytes_of(special.id).and_then(<[u8]>::first).copied();
        let start = self.table.partition_point(|s| first(s) < Some(byte));
        self.table
            .get(start..)
            .unwrap_or_default()
            .iter()
            .filter_map(|special| Some((special.id, bytes_of(special.id)?)))
            .take_while(move |(_, token)| token.first() == Some(&byte))
    }
}

/// The order of the table: by first byte, the longest first, then by bytes.
pub(super) fn order(bytes: &[u8]) -> (Option<&u8>, core::cmp::Reverse<usize>, &[u8]) {
    (bytes.first(), core::cmp::Reverse(bytes.len()), bytes)
}

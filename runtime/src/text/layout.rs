//! How the text sections lie in an image; written by the packer, read in place.
//!
//! All numbers are little-endian. A section begins with its header, and its tables follow
//! in a fixed order, each padded to four bytes, so their places follow from the counts and
//! no offset has to be believed.
//!
//! Tokenizer, after [`TokenizerHeader`]:
//!
//! | table | element | count |
//! | --- | --- | --- |
//! | token ends | `u32`, where a token's bytes end; a token begins where the one before ends | `vocabulary` |
//! | byte tokens | `u32`, the token of a byte, [`NONE`] if it has none | 256 |
//! | merges | [`Merge`], the lowest rank first | `merges` |
//! | merge slots | `u32`, a merge's rank, [`NONE`] if free | `merge_slots`, a power of two |
//! | specials | [`Special`], by first byte, then the longest first | `specials` |
//! | blocks | `u16`, the class block of 64 characters | `block_index` |
//! | classes | `u8`, the class of a character | `class_blocks` × 64 |
//! | transitions | `u8`, state × class to state | `states` × `classes` |
//! | accepts | `u8`, pattern that a state accepts plus one, or 0 | `states` |
//! | token bytes | `u8` | `token_bytes` |
//!
//! Template, after [`TemplateHeader`]: the stop tokens (`u32`), then the text.

use bytemuck::{Pod, Zeroable};

use super::error::{TextError, count};

/// No token, no merge, no pattern.
pub const NONE: u32 = u32::MAX;

/// First bytes of a tokenizer section.
pub const TOKENIZER_MAGIC: [u8; 4] = *b"PkTk";
/// The version of the tokenizer section that is written and read.
pub const TOKENIZER_VERSION: u32 = 1;
/// First bytes of a template section.
pub const TEMPLATE_MAGIC: [u8; 4] = *b"PkTt";
/// The version of the template section that is written and read.
pub const TEMPLATE_VERSION: u32 = 1;

/// The text must be in Unicode normal form C before it is encoded.
pub const FLAG_NFC: u32 = 1;
/// The first token of a context is the begin-of-text token.
pub const FLAG_ADD_BOS: u32 = 2;
/// Every flag that has a meaning.
pub(super) const FLAGS: u32 = FLAG_NFC | FLAG_ADD_BOS;

/// Characters in a block of the class table.
pub const BLOCK: usize = 64;
/// The state in which the automaton has nothing left to match.
pub const DEAD: u8 = 0;
/// The state in which the automaton begins a piece.
pub const START: u8 = 1;

/// The start of a tokenizer section.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct TokenizerHeader {
    /// [`TOKENIZER_MAGIC`].
    pub magic: [u8; 4],
    /// [`TOKENIZER_VERSION`].
    pub version: u32,
    /// [`FLAG_NFC`], [`FLAG_ADD_BOS`].
    pub flags: u32,
    /// Tokens.
    pub vocabulary: u32,
    /// Bytes of all tokens together.
    pub token_bytes: u32,
    /// Merges.
    pub merges: u32,
    /// Slots of the merge index, a power of two of at least two.
    pub merge_slots: u32,
    /// The most slots that have to be looked at to find a merge.
    pub merge_probes: u32,
    /// Special tokens.
    pub specials: u32,
    /// The begin-of-text token or [`NONE`].
    pub bos: u32,
    /// The end-of-text token or [`NONE`].
    pub eos: u32,
    /// Elements of the block index.
    pub block_index: u32,
    /// Blocks of the class table.
    pub class_blocks: u32,
    /// The class of characters behind the block index.
    pub default_class: u32,
    /// States of the automaton.
    pub states: u32,
    /// Classes of characters.
    pub classes: u32,
    /// The pattern that matches a run of white space.
    pub space_pattern: u32,
    /// The pattern whose match ends a piece like an end of text, or [`NONE`].
    pub isolated_pattern: u32,
    /// A bit for each byte that a special token begins with.
    pub special_first: [u32; 8],
}

/// Two neighbouring tokens that become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Merge {
    /// The first token.
    pub left: u32,
    /// The second token.
    pub right: u32,
    /// The token that they become.
    pub merged: u32,
}

/// A token that stands for itself in text and is not made by merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Special {
    /// The token.
    pub id: u32,
    /// 1 if it steers the model and is not text for people, else 0.
    pub control: u32,
}

/// Where a text lies among the texts of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Span {
    /// The first byte, or [`NONE`] if the template has no such text.
    pub start: u32,
    /// How many bytes.
    pub len: u32,
}

impl Span {
    /// No such text.
    pub const ABSENT: Self = Self { start: NONE, len: 0 };
}

/// Before the first turn, and after a turn of each role.
pub const PLACES: usize = 4;
/// System, user, assistant.
pub const ROLES: usize = 3;

/// What a template writes around turns, for one setting of thinking.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct TurnTable {
    /// From a place to the content of a turn of a role, if other turns follow.
    pub inner: [[Span; ROLES]; PLACES],
    /// From a place to the content of a turn of a role, if it is the last.
    pub last: [[Span; ROLES]; PLACES],
    /// After the last turn, by its role.
    pub end: [Span; ROLES],
    /// After the last turn, by its role, if the assistant is to reply.
    pub reply: [Span; ROLES],
    /// What is cut off a content, by role, if other turns follow: [`Trim`] codes.
    pub inner_trim: [u32; ROLES],
    /// What is cut off a content, by role, if it is the last.
    pub last_trim: [u32; ROLES],
}

/// The start of a template section.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct TemplateHeader {
    /// [`TEMPLATE_MAGIC`].
    pub magic: [u8; 4],
    /// [`TEMPLATE_VERSION`].
    pub version: u32,
    /// How many tokens end a reply.
    pub stop_tokens: u32,
    /// Bytes of the texts together.
    pub text_bytes: u32,
    /// The tables for thinking unsaid, on and off.
    pub tables: [TurnTable; 3],
}

/// What a template cuts off the two ends of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trim {
    /// What is cut off the start.
    pub start: Cut,
    /// What is cut off the end.
    pub end: Cut,
}

/// Which characters are cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Cut {
    /// None.
    Nothing = 0,
    /// Line feeds.
    LineFeeds = 1,
    /// All white space.
    Space = 2,
}

impl Cut {
    /// From a code.
    const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Nothing),
            1 => Some(Self::LineFeeds),
            2 => Some(Self::Space),
            _ => None,
        }
    }

    /// Whether this character is cut off.
    fn cuts(self, c: char) -> bool {
        match self {
            Self::Nothing => false,
            Self::LineFeeds => c == '\n',
            Self::Space => c.is_whitespace(),
        }
    }
}

impl Trim {
    /// The number by which the section stores it.
    pub const fn code(self) -> u32 {
        (self.start as u32) << 4 | self.end as u32
    }

    /// From the number by which the section stores it.
    pub const fn from_code(code: u32) -> Option<Self> {
        let (Some(start), Some(end)) = (Cut::from_code(code >> 4), Cut::from_code(code & 15)) else {
            return None;
        };
        Some(Self { start, end })
    }

    /// The content without what is cut off.
    pub fn apply(self, content: &str) -> &str {
        content.trim_start_matches(|c| self.start.cuts(c)).trim_end_matches(|c| self.end.cuts(c))
    }
}

/// Takes table after table off a section.
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    have: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the front of a section.
    pub(super) fn new(section: &'a [u8]) -> Self {
        Self { rest: section, have: section.len() }
    }

    /// Takes a header.
    pub(super) fn header<T: Pod>(&mut self) -> Result<&'a T, TextError> {
        let bytes = self.bytes(size_of::<T>())?;
        bytemuck::try_from_bytes(bytes).map_err(|_| TextError::Misaligned)
    }

    /// Takes a table of `len` elements.
    pub(super) fn table<T: Pod>(&mut self, len: u32) -> Result<&'a [T], TextError> {
        let bytes = (len as usize).checked_mul(size_of::<T>()).ok_or_else(|| self.too_short(usize::MAX))?;
        let table = self.bytes(bytes)?;
        bytemuck::try_cast_slice(table).map_err(|_| TextError::Misaligned)
    }

    /// Ends: the section has nothing but its tables.
    pub(super) fn end(self) -> Result<(), TextError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(TextError::Length { need: count(self.have.saturating_sub(self.rest.len())), have: count(self.have) })
    }

    /// Takes bytes and the padding behind them.
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], TextError> {
        let padded = len.checked_next_multiple_of(4).ok_or_else(|| self.too_short(len))?;
        let (table, rest) = self.rest.split_at_checked(padded).ok_or_else(|| self.too_short(padded))?;
        self.rest = rest;
        table.get(..len).ok_or_else(|| self.too_short(len))
    }

    /// A table of `len` bytes does not fit.
    fn too_short(&self, len: usize) -> TextError {
        let used = self.have.saturating_sub(self.rest.len());
        TextError::Length { need: count(used.saturating_add(len)), have: count(self.have) }
    }
}

// Tables are read as they lie; a big-endian chip would need the numbers swapped.
const _: () = assert!(cfg!(target_endian = "little"));

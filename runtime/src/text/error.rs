//! What can go wrong with text: in the image's tables and in the caller's buffers.
//!
//! Every error is a few numbers, so that it can cross a C boundary or go to a log on a
//! chip. A damaged table is found when it is opened; after that only the caller's buffers
//! can be too small or its turns out of order.

use core::fmt;

/// The part of a tokenizer or template section that an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
#[repr(u8)]
pub enum TextPart {
    /// Magic, counts and flags at the start.
    Header = 1,
    /// Where each token's bytes begin and end.
    TokenBytes = 2,
    /// The token of each byte value.
    ByteTokens = 3,
    /// The pairs of tokens that merge into one.
    Merges = 4,
    /// The hash table that finds a merge by its pair.
    MergeIndex = 5,
    /// The special tokens and the bytes they begin with.
    Specials = 6,
    /// The automaton that cuts text into pieces.
    PreTokenizer = 7,
    /// The texts between the turns of a chat.
    Turns = 8,
    /// The tokens that end a reply.
    StopTokens = 9,
}

impl fmt::Display for TextPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::TokenBytes => "token bytes",
            Self::ByteTokens => "byte tokens",
            Self::Merges => "merges",
            Self::MergeIndex => "merge index",
            Self::Specials => "special tokens",
            Self::PreTokenizer => "pre-tokenizer",
            Self::Turns => "turns",
            Self::StopTokens => "stop tokens",
        })
    }
}

/// Why text could not be read, cut or rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TextError {
    /// The section does not begin with the expected magic. Pass the section of that kind;
    /// if it is, repack the image.
    Magic,
    /// The section was made by another version of the packer. Repack the image.
    Version {
        /// The version that the section declares.
        found: u32,
        /// The version that is read.
        read: u32,
    },
    /// The section does not lie at a multiple of four bytes. Place the image at a multiple
    /// of 64.
    Misaligned,
    /// The section's length is not what its counts demand. Repack the image.
    Length {
        /// The bytes that the counts demand, or `u32::MAX` if more.
        need: u32,
        /// The bytes that are there, or `u32::MAX` if more.
        have: u32,
    },
    /// A table contradicts itself or another. Repack the image.
    Damaged {
        /// The table.
        part: TextPart,
    },
    /// A run of text that the pre-tokenizer does not cut is longer than the scratch
    /// allows. Lend more scratch (see `scratch_len`) or shorten the text.
    PieceTooLong {
        /// The run's length.
        bytes: u32,
        /// The longest run for which the scratch suffices.
        limit: u32,
    },
    /// The text has more tokens than the output holds. Lend a longer output or shorten
    /// the text.
    TooManyTokens {
        /// The tokens that the output holds.
        limit: u32,
    },
    /// The protected ranges are not sorted, overlap, or run past the text. Pass those that
    /// the template gave for this very text.
    ProtectedRange {
        /// The first range that is wrong.
        index: u32,
    },
    /// There is no turn to render. Pass at least one.
    NoTurns,
    /// The model's template has no place for a turn of this role here. Begin with a system
    /// or user turn and let user and assistant alternate.
    TurnOrder {
        /// The turn that is out of order.
        index: u32,
    },
    /// The rendered turns do not fit the output. Lend a longer output or drop turns.
    RenderTooLong {
        /// The bytes that the turns need.
        need: u32,
        /// The bytes that the output holds.
        limit: u32,
    },
    /// There are more turns than ranges to protect them. Lend a longer list or drop turns.
    TooManyTurns {
        /// The turns.
        turns: u32,
        /// The ranges that were lent.
        limit: u32,
    },
    /// A stop string is empty and would stop before the first character. Leave it out.
    StopEmpty {
        /// The stop string.
        index: u32,
    },
    /// The buffer for held-back text is too small for the longest stop string. Lend as
    /// many bytes as `StopStrings::held_bytes` says.
    StopBuffer {
        /// The bytes that are needed.
        need: u32,
        /// The bytes that were lent.
        have: u32,
    },
}

const _: () = assert!(size_of::<TextError>() <= 16);

impl TextError {
    /// A number that stays the same in every version, for C and logs.
    pub const fn code(self) -> u16 {
        match self {
            Self::Magic => 601,
            Self::Version { .. } => 602,
            Self::Misaligned => 603,
            Self::Length { .. } => 604,
            Self::Damaged { .. } => 605,
            Self::PieceTooLong { .. } => 606,
            Self::TooManyTokens { .. } => 607,
            Self::ProtectedRange { .. } => 608,
            Self::NoTurns => 609,
            Self::TurnOrder { .. } => 610,
            Self::RenderTooLong { .. } => 611,
            Self::TooManyTurns { .. } => 612,
            Self::StopEmpty { .. } => 613,
            Self::StopBuffer { .. } => 614,
        }
    }

    /// A table contradicts itself.
    pub(super) const fn damaged(part: TextPart) -> Self {
        Self::Damaged { part }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Magic => f.write_str("this is no text section of that kind; repack the image"),
            Self::Version { found, read } => {
                write!(f, "the text section has version {found}, version {read} is read; repack the image")
            }
            Self::Misaligned => {
                f.write_str("the text section is not aligned; place the image at a multiple of 64 bytes")
            }
            Self::Length { need, have } => {
                write!(f, "the text section has {have} bytes but needs {need}; repack the image")
            }
            Self::Damaged { part } => write!(f, "the {part} of the text section are damaged; repack the image"),
            Self::PieceTooLong { bytes, limit } => write!(
                f,
                "an unbroken run of {bytes} bytes exceeds the scratch, which is for {limit}; \
                 lend more or shorten the text"
            ),
            Self::TooManyTokens { limit } => {
                write!(f, "the text has more than the {limit} tokens that were lent; lend more or shorten it")
            }
            Self::ProtectedRange { index } => write!(
                f,
                "the protected range {index} is out of order or outside the text; \
                 pass those that the template gave"
            ),
            Self::NoTurns => f.write_str("there is no turn to render; pass at least one"),
            Self::TurnOrder { index } => write!(
                f,
                "the model's template has no place for the role of turn {index}; \
                 let user and assistant alternate after an optional system turn"
            ),
            Self::RenderTooLong { need, limit } => {
                write!(f, "the rendered turns need {need} bytes, {limit} were lent; lend more or drop turns")
            }
            Self::TooManyTurns { turns, limit } => {
                write!(f, "{turns} turns need as many ranges, {limit} were lent; lend more or drop turns")
            }
            Self::StopEmpty { index } => {
                write!(f, "the stop string {index} is empty; leave it out")
            }
            Self::StopBuffer { need, have } => {
                write!(f, "the stop strings need a buffer of {need} bytes, {have} were lent; lend more")
            }
        }
    }
}

impl core::error::Error for TextError {}

/// A length as the number in an error; what is longer than that counts as the most.
pub(super) fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

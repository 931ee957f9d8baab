//! The tokenizer: a view of its section of the image, checked once.
//!
//! Opening follows every number in the section: after it no lookup can leave a table, and
//! because each merge is checked to join the bytes of its two tokens, the bytes of an
//! encoded text's tokens are the text, save for bytes that the vocabulary lacks. Nothing
//! is built; what the packer computed is used as it lies.

use super::bpe::{Piece, WORDS_PER_BYTE};
use super::error::{TextError, TextPart, count};
use super::layout::{
    BLOCK, Cursor, FLAG_ADD_BOS, FLAG_NFC, FLAGS, NONE, TOKENIZER_MAGIC, TOKENIZER_VERSION, TokenizerHeader,
};
use super::merges::Merges;
use super::pretokenize::PreTokenizer;
use super::specials::{SpecialTable, Specials};

/// Words of scratch with which [`Tokenizer::encode`] takes pieces of this length.
///
/// A piece is what the tokenizer's regular expression does not cut: a word, a number, a
/// run of punctuation or white space. Natural text has pieces of some dozens of bytes
/// where words are spaced, and of a clause where they are not; the longest piece that any
/// text of `n` bytes can have is `n`.
pub const fn scratch_len(max_piece_bytes: usize) -> usize {
    max_piece_bytes.saturating_mul(WORDS_PER_BYTE)
}

/// A byte-level BPE tokenizer that borrows its section of an image.
#[derive(Debug, Clone, Copy)]
pub struct Tokenizer<'a> {
    tokens: Tokens<'a>,
    byte_tokens: &'a [u32],
    merges: Merges<'a>,
    specials: SpecialTable<'a>,
    pre_tokenizer: PreTokenizer<'a>,
    flags: u32,
    bos: Option<u32>,
    eos: Option<u32>,
}

/// The bytes of every token.
#[derive(Debug, Clone, Copy)]
struct Tokens<'a> {
    ends: &'a [u32],
    bytes: &'a [u8],
}

impl<'a> Tokens<'a> {
    /// The bytes of a token.
    fn get(&self, id: u32) -> Option<&'a [u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = match id.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start as usize..end as usize)
    }

    /// Checks that tokens follow one another and use up the bytes.
    fn check(&self) -> Result<(), TextError> {
        let last = self.ends.last().copied().unwrap_or(0);
        let mut pairs = self.ends.iter().zip(self.ends.iter().skip(1));
        if pairs.all(|(end, next)| end <= next) && last as usize == self.bytes.len() {
            return Ok(());
        }
        Err(TextError::damaged(TextPart::TokenBytes))
    }
}

impl<'a> Tokenizer<'a> {
    /// Checks a section and views it.
    ///
    /// # Errors
    /// [`TextError::Magic`], [`TextError::Version`], [`TextError::Misaligned`],
    /// [`TextError::Length`] or [`TextError::Damaged`] for the first thing that is wrong.
    pub fn open(section: &'a [u8]) -> Result<Self, TextError> {
        let mut cursor = Cursor::new(section);
        let header: &TokenizerHeader = cursor.header()?;
        if header.magic != TOKENIZER_MAGIC {
            return Err(TextError::Magic);
        }
        if header.version != TOKENIZER_VERSION {
            return Err(TextError::Version { found: header.version, read: TOKENIZER_VERSION });
        }
        let bad_header = TextError::damaged(TextPart::Header);
        let byte = |value: u32| u8::try_from(value).map_err(|_| bad_header);
        let too_many = |_: ()| bad_header;
        let class_count = byte(header.classes)?;
        let class_bytes = product(header.class_blocks, BLOCK as u32).map_err(too_many)?;
        let transitions = product(header.states, header.classes).map_err(too_many)?;

        let ends = cursor.table(header.vocabulary)?;
        let byte_tokens = cursor.table(256)?;
        let merges = cursor.table(header.merges)?;
        let slots = cursor.table(header.merge_slots)?;
        let specials = cursor.table(header.specials)?;
        let pre_tokenizer = PreTokenizer {
            block_index: cursor.table(header.block_index)?,
            classes: cursor.table(class_bytes)?,
            default_class: byte(header.default_class)?,
            transitions: cursor.table(transitions)?,
            class_count,
            accepts: cursor.table(header.states)?,
            space_pattern: byte(header.space_pattern)?,
            isolated_pattern: match header.isolated_pattern {
                NONE => None,
                pattern => Some(byte(pattern)?),
            },
        };
        let tokens = Tokens { ends, bytes: cursor.table(header.token_bytes)? };
        cursor.end()?;

        let token = |id: u32| match id {
            NONE => Ok(None),
            id if id < header.vocabulary => Ok(Some(id)),
            _ => Err(bad_header),
        };
        if header.flags & !FLAGS != 0 {
            return Err(bad_header);
        }
        tokens.check()?;
        pre_tokenizer.check()?;
        let opened = Self {
            tokens,
            byte_tokens,
            merges: Merges::open(merges, slots, header.merge_probes)?,
            specials: SpecialTable::open(specials, &header.special_first, |id| tokens.get(id))?,
            pre_tokenizer,
            flags: header.flags,
            bos: token(header.bos)?,
            eos: token(header.eos)?,
        };
        opened.check_bytes()?;
        Ok(opened)
    }

    /// Checks that byte tokens are their byte and merges join their tokens' bytes.
    fn check_bytes(&self) -> Result<(), TextError> {
        let byte_tokens = self.byte_tokens.iter().zip(0_u8..=255);
        for (&id, byte) in byte_tokens {
            if id != NONE && self.tokens.get(id) != Some(&[byte]) {
                return Err(TextError::damaged(TextPart::ByteTokens));
            }
        }
        for merge in self.merges.all() {
            let tokens = (self.tokens.get(merge.left), self.tokens.get(merge.right), self.tokens.get(merge.merged));
            let (Some(left), Some(right), Some(merged)) = tokens else {
                return Err(TextError::damaged(TextPart::Merges));
            };
            if merged.strip_prefix(left) != Some(right) {
                return Err(TextError::damaged(TextPart::Merges));
            }
        }
        Ok(())
    }

    /// Encodes a text into `out` and gives the number of tokens.
    ///
    /// The begin-of-text token is not added; a chat template has it, and where there is no
    /// template [`add_bos`](Self::add_bos) says whether to put it first. If
    /// [`wants_nfc`](Self::wants_nfc), the text must be normalised by the caller. A byte
    /// for which the vocabulary has no token is left out, as other tokenizers do.
    ///
    /// # Errors
    /// [`TextError::PieceTooLong`] if `scratch` is too short (see [`scratch_len`]),
    /// [`TextError::TooManyTokens`] if `out` is, [`TextError::ProtectedRange`] for ranges
    /// that do not belong to the text. What `out` then holds is of no use.
    pub fn encode(
        &self,
        text: &str,
        specials: Specials<'_>,
        scratch: &mut [u32],
        out: &mut [u32],
    ) -> Result<usize, TextError> {
        specials.check(text.len())?;
        let mut output = Output { out, len: 0 };
        let mut from = 0;
        while let Some(found) = self.specials.find(text.as_bytes(), from, specials, |id| self.tokens.get(id)) {
            let before = text.get(from..found.at.start).unwrap_or_default();
            self.encode_text(before, scratch, &mut output)?;
            output.push(found.id)?;
            from = found.at.end;
        }
        let rest = text.get(from..).unwrap_or_default();
        self.encode_text(rest, scratch, &mut output)?;
        Ok(output.len)
    }

    /// Encodes text without special tokens.
    fn encode_text(&self, text: &str, scratch: &mut [u32], output: &mut Output<'_>) -> Result<(), TextError> {
        for piece in self.pre_tokenizer.pieces(text) {
            self.encode_piece(piece.as_bytes(), scratch, output)?;
        }
        Ok(())
    }

    /// Encodes one piece.
    fn encode_piece(&self, piece: &[u8], scratch: &mut [u32], output: &mut Output<'_>) -> Result<(), TextError> {
        let tokens = piece.iter().filter_map(|&byte| self.byte_token(byte));
        if let [byte] = *piece {
            return self.byte_token(byte).map_or(Ok(()), |id| output.push(id));
        }
        let len = tokens.clone().count();
        let limit = scratch.len() / WORDS_PER_BYTE;
        let mut merging = Piece::new(scratch, len)
            .ok_or(TextError::PieceTooLong { bytes: count(piece.len()), limit: count(limit) })?;
        for (slot, token) in merging.tokens_mut().iter_mut().zip(tokens) {
            *slot = token;
        }
        merging.merge(&self.merges);
        merging.iter().try_for_each(|id| output.push(id))
    }

    /// The token of a byte, if the vocabulary has one.
    fn byte_token(&self, byte: u8) -> Option<u32> {
        self.byte_tokens.get(usize::from(byte)).copied().filter(|&id| id != NONE)
    }

    /// The bytes that a token stands for, which may be part of a character.
    pub fn token_bytes(&self, id: u32) -> Option<&'a [u8]> {
        self.tokens.get(id)
    }

    /// The special token that is written like this.
    pub fn id_of(&self, special: &[u8]) -> Option<u32> {
        self.specials.id_of(special, |id| self.tokens.get(id))
    }

    /// Whether a token is special: recognised in text as it stands.
    pub fn is_special(&self, id: u32) -> bool {
        self.specials.get(id).is_some()
    }

    /// Whether a token is special and steers the model, so that people should not see it.
    pub fn is_control(&self, id: u32) -> bool {
        self.specials.get(id).is_some_and(|s| s.control == 1)
    }

    /// The number of tokens; ids are below it.
    pub fn vocabulary(&self) -> u32 {
        count(self.tokens.ends.len())
    }

    /// Whether a context that no template writes begins with [`bos`](Self::bos).
    pub fn add_bos(&self) -> bool {
        self.flags & FLAG_ADD_BOS != 0
    }

    /// Whether text must be in Unicode normal form C before it is encoded.
    pub fn wants_nfc(&self) -> bool {
        self.flags & FLAG_NFC != 0
    }

    /// The begin-of-text token.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The end-of-text token.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }
}

/// The tokens written so far.
struct Output<'o> {
    out: &'o mut [u32],
    len: usize,
}

impl Output<'_> {
    /// Writes one more token.
    fn push(&mut self, id: u32) -> Result<(), TextError> {
        let limit = count(self.out.len());
        let slot = self.out.get_mut(self.len);
        *slot.ok_or(TextError::TooManyTokens { limit })? = id;
        self.len = self.len.saturating_add(1);
        Ok(())
    }
}

/// A product of two counts, if it is a count.
fn product(a: u32, b: u32) -> Result<u32, ()> {
    a.checked_mul(b).ok_or(())
}

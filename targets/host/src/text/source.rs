//! A tokenizer as model files describe it, before it is packed.

use crate::gguf::{Array, Gguf, GgufError, Value};
use crate::printable::printable;

use super::alphabet::bytes_of;
use super::error::TextBuildError;
use super::pretokenizer::PreTokenizerKind;

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Made by merging bytes.
    Normal,
    /// Special, and steers the model: `<|im_end|>`.
    Control,
    /// Special, and text for people: `<think>`.
    UserDefined,
    /// A place in the vocabulary that nothing becomes.
    Unused,
}

impl TokenKind {
    /// Whether the token is found in text as it stands.
    pub fn is_special(self) -> bool {
        matches!(self, Self::Control | Self::UserDefined)
    }
}

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The bytes that it stands for.
    pub bytes: Vec<u8>,
    /// What it is for.
    pub kind: TokenKind,
}

/// A byte-level BPE tokenizer, read from a model file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerSource {
    /// The tokens; their places are their ids.
    pub tokens: Vec<Token>,
    /// The bytes of the two tokens that merge, the lowest rank first.
    pub merges: Vec<(Vec<u8>, Vec<u8>)>,
    /// How text is cut before merging.
    pub pre_tokenizer: PreTokenizerKind,
    /// The begin-of-text token.
    pub bos: Option<u32>,
    /// The end-of-text token.
    pub eos: Option<u32>,
    /// Whether a context begins with the begin-of-text token.
    pub add_bos: bool,
    /// Whether text has to be in Unicode normal form C before it is encoded.
    ///
    /// GGUF has no such flag; a tokenizer from GGUF does not ask for it.
    pub nfc: bool,
}

impl TokenizerSource {
    /// Reads the tokenizer in a GGUF file's metadata (`tokenizer.ggml.*`).
    ///
    /// # Errors
    /// [`TextBuildError`] if data are missing or of a wrong type, or the tokenizer is of a
    /// kind that is not packed.
    pub fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, TextBuildError> {
        let model: &str = gguf.require("tokenizer.ggml.model")?;
        if model != "gpt2" {
            return Err(TextBuildError::Model { model: printable(model) });
        }
        let pre: &str = gguf.require("tokenizer.ggml.pre")?;
        let pre_tokenizer =
            PreTokenizerKind::from_gguf(pre).ok_or_else(|| TextBuildError::PreTokenizer { name: printable(pre) })?;
        Ok(Self {
            tokens: gguf_tokens(gguf)?,
            merges: strings(gguf, "tokenizer.ggml.merges")?
                .into_iter()
                .enumerate()
                .map(|(rank, merge)| read_merge(rank, merge))
                .collect::<Result<_, _>>()?,
            pre_tokenizer,
            bos: gguf.optional("tokenizer.ggml.bos_token_id")?,
            eos: gguf.optional("tokenizer.ggml.eos_token_id")?,
            add_bos: gguf.optional("tokenizer.ggml.add_bos_token")?.unwrap_or(false),
            nfc: false,
        })
    }

    /// The bytes for which there is no token, so that encoding leaves them out.
    ///
    /// Bytes that occur in no UTF-8 text do not count.
    pub fn missing_bytes(&self) -> Vec<u8> {
        let mut missing = [true; 256];
        for token in &self.tokens {
            if let (TokenKind::Normal, [byte]) = (token.kind, token.bytes.as_slice()) {
                missing[usize::from(*byte)] = false;
            }
        }
        (0..=u8::MAX)
            .filter(|byte| !matches!(byte, 0xC0 | 0xC1 | 0xF5..))
            .filter(|&byte| missing[usize::from(byte)])
            .collect()
    }
}

/// The strings of a metadata array.
fn strings<'a>(gguf: &Gguf<'a>, key: &str) -> Result<Vec<&'a str>, GgufError> {
    let array: Array<'a> = gguf.require(key)?;
    let strings =
        array.strs().ok_or_else(|| GgufError::WrongType { key: key.to_owned(), wanted: "an array of strings" })?;
    Ok(strings.collect())
}

/// The tokens of a GGUF file.
fn gguf_tokens(gguf: &Gguf<'_>) -> Result<Vec<Token>, TextBuildError> {
    let written = strings(gguf, "tokenizer.ggml.tokens")?;
    let kinds: Array<'_> = gguf.require("tokenizer.ggml.token_type")?;
    if kinds.len() != written.len() {
        return Err(TextBuildError::Counts { tokens: written.len(), kinds: kinds.len() });
    }
    let tokens = written.into_iter().zip(kinds.iter()).enumerate();
    tokens.map(|(id, (written, kind))| gguf_token(id, written, kind)).collect()
}

/// One token of a GGUF file.
fn gguf_token(id: usize, written: &str, kind: Value<'_>) -> Result<Token, TextBuildError> {
    let kind = match kind.as_u64() {
        // Unknown is a special token like others: `<unk>` in text is that token.
        Some(2 | 3) => TokenKind::Control,
        Some(4) => TokenKind::UserDefined,
        Some(5) => TokenKind::Unused,
        Some(1 | 6) => TokenKind::Normal,
        other => {
            return Err(TextBuildError::TokenKind {
                id,
                kind: other.and_then(|kind| kind.try_into().ok()).unwrap_or(-1),
            });
        }
    };
    Token::read(id, written, kind)
}

impl Token {
    /// Reads how a token is written: merged ones in the byte alphabet, others as they are.
    pub(super) fn read(id: usize, written: &str, kind: TokenKind) -> Result<Self, TextBuildError> {
        let bytes = if kind == TokenKind::Normal {
            bytes_of(written).ok_or_else(|| TextBuildError::Alphabet { id, token: printable(written) })?
        } else {
            written.as_bytes().to_vec()
        };
        Ok(Self { bytes, kind })
    }
}

/// Reads a merge that is written as two tokens with a space between them.
pub(super) fn read_merge(rank: usize, merge: &str) -> Result<(Vec<u8>, Vec<u8>), TextBuildError> {
    merge
        .split_once(' ')
        .and_then(|(left, right)| Some((bytes_of(left)?, bytes_of(right)?)))
        .filter(|(left, right)| !left.is_empty() && !right.is_empty())
        .ok_or_else(|| TextBuildError::MergeForm { rank, merge: printable(merge) })
}

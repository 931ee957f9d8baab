//! A vocabulary of any size: bytes, then pairs of bytes, then a pair and a byte.

use crate::text::byte_characters;

/// The last two tokens, which no text makes.
pub(super) const CONTROL: [&str; 2] = ["<|im_start|>", "<|im_end|>"];

/// Tokens, and the merges that make them.
pub(super) struct Vocabulary {
    pub(super) tokens: Vec<String>,
    pub(super) merges: Vec<String>,
}

/// The smallest size: all bytes and the control tokens.
pub(super) const LEAST: usize = 256 + CONTROL.len();
/// The largest: all sequences of up to three bytes, and the control tokens.
pub(super) const MOST: usize = 256 + (1 << 16) + (1 << 24) + CONTROL.len();

impl Vocabulary {
    /// A vocabulary of `size` tokens, from [`LEAST`] to [`MOST`].
    pub(super) fn new(size: usize) -> Self {
        let bytes: Vec<String> = byte_characters().map(String::from).to_vec();
        let pairs = bytes.iter().flat_map(|a| bytes.iter().map(move |b| (a.clone(), b)));
        let triples = pairs.clone().flat_map(|(a, b)| bytes.iter().map(move |c| (format!("{a}{b}"), c)));
        let made = size.saturating_sub(LEAST);
        let (joined, merges) = pairs
            .chain(triples)
            .take(made)
            .map(|(a, b)| (format!("{a}{b}"), format!("{a} {b}")))
            .unzip::<_, _, Vec<_>, _>();
        let control = CONTROL.map(str::to_owned);
        Self { tokens: bytes.into_iter().chain(joined).chain(control).collect(), merges }
    }
}

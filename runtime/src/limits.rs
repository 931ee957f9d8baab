//! What a vendor grants a session.

use pocket_kernels::cache::CacheType;

/// The bounds of a session. Everything the plan counts follows from these and the model's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Positions that the attention cache holds: prompt and reply together.
    pub context: u32,
    /// Tokens of a prompt that are processed at once; changes speed and memory, never results.
    pub batch: u32,
    /// Workers that may share a step.
    pub workers: u32,
    /// How the attention cache stores its elements.
    pub cache: CacheType,
    /// Longest stretch of text without a boundary (a "word") that the tokenizer can take, in bytes; 0 if the session
    /// is only given token ids.
    pub word_bytes: u32,
}

impl Limits {
    /// A single worker, 64 tokens at a time, a binary16 cache, words of up to 4 KiB.
    #[must_use]
    pub const fn new(context: u32) -> Self {
        let batch = if context < 64 { context } else { 64 };
        Self { context, batch, workers: 1, cache: CacheType::F16, word_bytes: 4096 }
    }
}

//! The ways in which known tokenizers cut text into pieces.
//!
//! Each is a list of patterns in order of preference: those of the tokenizer's regular
//! expression, without `\s+(?!\S)`, whose give-back the device does by hand.

/// A known pre-tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PreTokenizerKind {
    /// GPT-2's: words, numbers, punctuation, each with a space before it.
    Gpt2,
    /// SmolLM's: each digit alone, then GPT-2's.
    SmolLm,
    /// Qwen2's and Qwen3's: digits alone, words with any one sign before them, line ends.
    Qwen2,
}

/// The regular expression in Qwen2's and Qwen3's `tokenizer.json`.
pub(super) const QWEN2_REGEX: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

impl PreTokenizerKind {
    /// All that are known.
    pub const ALL: [Self; 3] = [Self::Gpt2, Self::SmolLm, Self::Qwen2];

    /// The pre-tokenizer that GGUF files name so in `tokenizer.ggml.pre`.
    ///
    /// The other names are those that llama.cpp reads as the same. `default` is what
    /// converters wrote before the key had a meaning; here it is GPT-2's.
    pub fn from_gguf(name: &str) -> Option<Self> {
        match name {
            "gpt-2" | "gpt2" | "default" | "phi-2" | "gigachat" | "a.x-4.0" | "mellum" | "exaone4" | "modern-bert"
            | "jina-es" | "jina-de" | "jina-v2-es" | "jina-v2-de" => Some(Self::Gpt2),
            "smollm" => Some(Self::SmolLm),
            "qwen2" | "deepseek-r1-qwen" | "kormo" | "f2llmv2" | "megrez" => Some(Self::Qwen2),
            _ => None,
        }
    }

    /// The patterns, the preferred first; the last is a run of white space.
    pub(super) fn patterns(self) -> &'static [&'static str] {
        match self {
            Self::Gpt2 => &["'s|'t|'re|'ve|'m|'ll|'d", r" ?\p{L}+", r" ?\p{N}+", r" ?[^\s\p{L}\p{N}]+", r"\s+"],
            Self::SmolLm => &[r"\p{N}", "'s|'t|'re|'ve|'m|'ll|'d", r" ?\p{L}+", r" ?[^\s\p{L}\p{N}]+", r"\s+"],
            Self::Qwen2 => &[
                "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
                r"[^\r\n\p{L}\p{N}]?\p{L}+",
                r"\p{N}",
                r" ?[^\s\p{L}\p{N}]+[\r\n]*",
                r"\s*[\r\n]+",
                r"\s+",
            ],
        }
    }

    /// The pattern whose matches are cut out before the others are tried.
    pub(super) fn isolated_pattern(self) -> Option<u8> {
        match self {
            Self::SmolLm => Some(0),
            Self::Gpt2 | Self::Qwen2 => None,
        }
    }
}

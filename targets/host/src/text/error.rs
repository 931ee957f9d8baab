//! Why a tokenizer or template can't be packed, each in one sentence.

use pocket_runtime::text::TextError;
use thiserror::Error;

use crate::gguf::GgufError;

/// Why a tokenizer was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TextBuildError {
    /// The tokenizer's data in a GGUF file are missing or of a wrong type.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The file is no JSON, or no tokenizer.
    #[error("this is no tokenizer.json: {reason}")]
    Json {
        /// What the JSON reader says.
        reason: String,
    },
    /// The tokenizer is no byte-level BPE.
    #[error(
        "the tokenizer is of the kind \"{model}\"; only byte-level BPE (\"gpt2\" in GGUF, \"BPE\" in tokenizer.json) is packed"
    )]
    Model {
        /// The kind that the file names, escaped.
        model: String,
    },
    /// The way in which text is cut into pieces is not known.
    #[error("the pre-tokenizer \"{name}\" is not known; known are those of GPT-2, SmolLM and Qwen2")]
    PreTokenizer {
        /// The name that the file gives, escaped.
        name: String,
    },
    /// A setting of the tokenizer that changes its tokens is not supported.
    #[error("the tokenizer uses {what}, which is not supported")]
    Unsupported {
        /// The setting.
        what: String,
    },
    /// The counts of two lists that belong together differ.
    #[error("there are {tokens} tokens but {kinds} token types")]
    Counts {
        /// Tokens.
        tokens: usize,
        /// Token types.
        kinds: usize,
    },
    /// A token's type is not one that GGUF knows.
    #[error("the token {id} has the type {kind}, which GGUF does not know")]
    TokenKind {
        /// The token.
        id: usize,
        /// Its type.
        kind: i64,
    },
    /// A token is written with a character that stands for no byte.
    #[error("the token {id}, \"{token}\", has a character that stands for no byte")]
    Alphabet {
        /// The token.
        id: usize,
        /// How it is written, escaped.
        token: String,
    },
    /// An id below the largest has no token.
    #[error("the id {id} has no token, though larger ids have")]
    Hole {
        /// The id.
        id: usize,
    },
    /// A token has no bytes.
    #[error("the token {id} is empty")]
    Empty {
        /// The token.
        id: usize,
    },
    /// Two tokens are the same, so text could become either.
    #[error("the tokens {first} and {second} are both \"{token}\"")]
    Duplicate {
        /// The token with the lower id.
        first: usize,
        /// The other.
        second: usize,
        /// How they are written, escaped.
        token: String,
    },
    /// A merge is not written as two tokens.
    #[error("the merge {rank}, \"{merge}\", is not two tokens with a space between them")]
    MergeForm {
        /// Its place in the list.
        rank: usize,
        /// How it is written, escaped.
        merge: String,
    },
    /// A merge names a token that the vocabulary lacks.
    #[error("the merge {rank} needs the token \"{token}\", which the vocabulary lacks")]
    MergeToken {
        /// Its place in the list.
        rank: usize,
        /// The token, escaped.
        token: String,
    },
    /// Two merges join the same tokens.
    #[error("the merges {first} and {second} join the same tokens, \"{left}\" and \"{right}\"")]
    MergeTwice {
        /// The first in the list.
        first: usize,
        /// The other.
        second: usize,
        /// The left token, escaped.
        left: String,
        /// The right token, escaped.
        right: String,
    },
    /// The begin-of-text or end-of-text token is not in the vocabulary.
    #[error("the {which} token is {id}, but the vocabulary has {vocabulary} tokens")]
    NoSuchToken {
        /// Which of the two.
        which: &'static str,
        /// The id.
        id: u32,
        /// The number of tokens.
        vocabulary: usize,
    },
    /// A table is larger than the image's format can say.
    #[error("the tokenizer is too large: {what}")]
    TooLarge {
        /// The table.
        what: &'static str,
    },
    /// What was built does not open: a mistake of the packer.
    #[error("the packed tokenizer does not open, which is a mistake of this packer: {0}")]
    Unsound(TextError),
}

/// Why a chat template was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The template is no valid Jinja.
    #[error("the chat template can't be read: {reason}")]
    Syntax {
        /// What the template engine says.
        reason: String,
    },
    /// The template refuses even one user turn.
    #[error("the chat template refuses {chat}: {reason}")]
    Refuses {
        /// The chat: the roles of its turns.
        chat: String,
        /// What the template or its engine says.
        reason: String,
    },
    /// The template does something that depends on more than neighbouring turns.
    #[error("the chat template can't be expressed as a turn table: {what}")]
    Inexpressible {
        /// What does not fit.
        what: String,
    },
    /// The reply would never end: no token was found that ends it.
    #[error(
        "the chat template ends a reply with \"{end}\", which is no special token, and the tokenizer has no end-of-text token"
    )]
    NoStopToken {
        /// What stands behind a reply, escaped.
        end: String,
    },
    /// It took more than the process that ran it may.
    #[error("the chat template takes more than {} MB of memory or {seconds} seconds", bytes / 1_000_000)]
    Exhausts {
        /// Bytes that it may take.
        bytes: u64,
        /// Seconds that it may take.
        seconds: u64,
    },
    /// The process that ran it refused it, for one of the other reasons.
    #[error("{reason}")]
    Apart {
        /// What it said.
        reason: String,
    },
    /// What was built does not open: a mistake of the packer.
    #[error("the packed chat template does not open, which is a mistake of this packer: {0}")]
    Unsound(TextError),
}

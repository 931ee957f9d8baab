//! What can go wrong, one small enum per door.
//!
//! Every error is `Copy` and numeric; [`code`](ImageError::code) is stable, for logs and C. The sentences say what is
//! wrong and what to do about it.

use core::fmt;

use crate::text::TextError;

/// Defines an error: variants with their stable code, sentence and fields.
macro_rules! errors {
    (
        $(#[$about:meta])*
        $name:ident {
            $( $(#[$doc:meta])* $variant:ident $({ $( $(#[$fdoc:meta])* $field:ident: $type:ty),+ $(,)? })? = $code:literal, $text:literal; )+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$doc])* $variant $({ $( $(#[$fdoc])* $field: $type),+ })?, )+
        }

        impl $name {
            /// A number that stays the same in every release.
            #[must_use]
            pub const fn code(self) -> u16 {
                match self {
                    $( Self::$variant $({ $($field: _),+ })? => $code, )+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Self::$variant $({ $($field),+ })? => write!(f, $text), )+
                }
            }
        }

        impl core::error::Error for $name {}
        static_assertions::const_assert!(size_of::<$name>() <= 24);
    };
}

errors! {
    /// A model shape that the kernels cannot run. The remedy is another model.
    ConfigError {
        /// Layers outside 1..=1024.
        Layers { /** What was found. */ layers: u32 } = 100, "the model has {layers} layers; 1 to 1024 are supported";
        /// A hidden size that is zero, above 2²⁰ or no multiple of 32.
        Hidden { /** What was found. */ hidden: u32 } = 101, "the hidden size {hidden} is not a multiple of 32 in 32..=1048576";
        /// A feed-forward size that is zero, above 2²⁰ or no multiple of 32.
        Ffn { /** What was found. */ ffn: u32 } = 102, "the feed-forward size {ffn} is not a multiple of 32 in 32..=1048576";
        /// A head size that is not 32, 64, … 256.
        HeadDim { /** What was found. */ head_dim: u32 } = 103, "the head size {head_dim} is not a multiple of 32 in 32..=256";
        /// No heads, more than 1024, or query heads that KV heads do not divide.
        Heads { /** Query heads. */ heads: u32, /** KV heads. */ kv_heads: u32 } = 104, "{heads} query heads cannot be shared by {kv_heads} KV heads";
        /// An empty vocabulary or one above 2²⁴.
        Vocabulary { /** What was found. */ vocabulary: u32 } = 105, "a vocabulary of {vocabulary} tokens is not supported; 1 to 16777216 are";
        /// A trained context of zero or above 2²⁴.
        Context { /** What was found. */ context: u32 } = 106, "a trained context of {context} positions is not supported; 1 to 16777216 are";
        /// An ε that is not a number in 0..1.
        RmsEps = 107, "the norm's epsilon is not a number between 0 and 1";
    }
}

errors! {
    /// An image that cannot be used. Unless a variant says otherwise the remedy is to transfer or pack it again.
    ImageError {
        /// Shorter than a header, or than the header says.
        Truncated { /** Bytes needed. */ need: u64, /** Bytes given. */ have: u64 } = 200, "the image has {have} bytes and needs {need}: it was cut short; transfer or pack it again";
        /// Not an image at all.
        Magic = 201, "this is not a Pocket image; make one with `pocket pack`";
        /// Written by another format version. Remedy: pack with the packer of this release.
        Version { /** The image's version. */ found: u32, /** The version this release reads. */ expected: u32 } = 202, "the image has format version {found}, this release reads {expected}; pack it again";
        /// The bytes do not begin at a multiple of 64. Remedy: align the memory or the flash address.
        Misaligned { /** The address modulo 64. */ remainder: u32 } = 203, "the image begins {remainder} bytes after a multiple of 64; place it at a 64-byte boundary";
        /// A checksum does not match.
        Checksum { /** Which part. */ part: Part } = 204, "the checksum of the image's {part} does not match: it is damaged; transfer or pack it again";
        /// A field of the header or of a table has a value that cannot be.
        Field { /** Which part. */ part: Part } = 205, "the image's {part} contradicts itself; pack it again";
        /// A section that must be there is not.
        Missing { /** Which part. */ part: Part } = 206, "the image has no {part}; pack it again from a file that has one";
        /// A section that this release does not know and must not ignore. Remedy: a newer release.
        UnknownSection { /** Its kind. */ kind: u32 } = 207, "the image has a section of kind {kind} that this release does not know; use a newer one";
        /// A shape that the kernels cannot run.
        Config { /** Why. */ reason: ConfigError } = 208, "{reason}";
        /// A tensor that has another role, shape or place than the header's configuration asks for.
        Tensor { /** Its index in the directory. */ index: u32 } = 209, "tensor {index} of the image does not fit its configuration; pack it again";
        /// A tokenizer or template that contradicts itself.
        Text { /** Why. */ reason: TextError } = 210, "{reason}";
        /// Nobody signed the image. Remedy: `pocket sign`.
        Unsigned = 211, "the image is not signed; sign it with `pocket sign`";
        /// The signature is not the key's owner's, or the image was changed since. Do not use it.
        Signature = 212, "the image's signature does not match the key: it was signed by somebody else or changed since; do not use it";
        /// The baked prefix is no state of this model.
        Prefix { /** Why. */ reason: StateError } = 213, "the image's baked prefix cannot be used: {reason}";
    }
}

impl From<TextError> for ImageError {
    fn from(reason: TextError) -> Self {
        Self::Text { reason }
    }
}

/// A part of an image, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Part {
    /// The fixed header.
    Header,
    /// The section table.
    SectionTable,
    /// The directory of tensors.
    Tensors,
    /// The weights.
    Weights,
    /// Inverse frequencies of the rotary embedding.
    RopeFrequencies,
    /// The tokenizer.
    Tokenizer,
    /// The chat template.
    Template,
    /// Defaults for generation.
    Generation,
    /// Where the model came from.
    Provenance,
    /// A prefix computed when the image was packed.
    Prefix,
    /// The system prompt that the prefix was computed of.
    SystemPrompt,
    /// The signature of the header.
    Signature,
    /// The zeros between sections.
    Padding,
    /// A section this release does not know and may ignore.
    Other,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "header",
            Self::SectionTable => "section table",
            Self::Tensors => "tensor directory",
            Self::Weights => "weights",
            Self::RopeFrequencies => "rotary frequencies",
            Self::Tokenizer => "tokenizer",
            Self::Template => "chat template",
            Self::Generation => "generation defaults",
            Self::Provenance => "provenance",
            Self::Prefix => "baked prefix",
            Self::SystemPrompt => "system prompt",
            Self::Signature => "signature",
            Self::Padding => "padding",
            Self::Other => "additional section",
        })
    }
}

errors! {
    /// Limits that cannot be planned for.
    PlanError {
        /// A shape that the kernels cannot run.
        Config { /** Why. */ reason: ConfigError } = 300, "{reason}";
        /// A context of zero, or longer than the model was trained for. Remedy: a shorter one.
        Context { /** What was asked for. */ context: u32, /** What the model can. */ most: u32 } = 301, "a context of {context} positions was asked for; the model can have 1 to {most}";
        /// A batch of zero, or larger than the context. Remedy: one in between.
        Batch { /** What was asked for. */ batch: u32, /** The context. */ most: u32 } = 302, "a batch of {batch} tokens was asked for; 1 to the context, {most}, are possible";
        /// No workers or more than 256.
        Workers { /** What was asked for. */ workers: u32 } = 303, "{workers} workers were asked for; 1 to 256 are possible";
        /// More bytes than the target can address. Remedy: smaller limits.
        TooLarge = 304, "the plan needs more bytes than this target can address; choose a smaller context or batch";
    }
}

errors! {
    /// A session that cannot begin.
    SessionError {
        /// The plan was made for another model. Remedy: plan with the image's configuration.
        OtherModel = 400, "the plan was made for another model; plan with this image's configuration";
        /// The arena is smaller than planned.
        ArenaTooSmall { /** Bytes needed. */ need: u64, /** Bytes given. */ have: u64 } = 401, "the arena has {have} bytes, the plan needs {need}";
        /// The arena does not begin at a multiple of 64.
        ArenaMisaligned { /** The address modulo 64. */ remainder: u32 } = 402, "the arena begins {remainder} bytes after a multiple of 64; align it to 64 bytes";
        /// More workers than planned.
        TooManyWorkers { /** Workers given. */ have: u32, /** Workers planned. */ planned: u32 } = 403, "{have} workers were given, the plan counts {planned}";
        /// The image's baked prefix is damaged or of another model. Remedy: transfer or pack it again.
        Prefix { /** Why. */ reason: StateError } = 404, "the image's baked prefix cannot be used: {reason}";
    }
}

errors! {
    /// A step that could not be done. The session stays as it was before the batch in which the error appeared.
    StepError {
        /// The context cannot hold these tokens. Nothing was computed. Remedy: rewind, reset, or plan a longer one.
        ContextFull { /** Positions needed. */ need: u32, /** Positions planned. */ have: u32 } = 500, "the context holds {have} positions and {need} are needed; shorten the prompt, start anew or plan a longer context";
        /// A token that is not in the vocabulary. Nothing was computed.
        UnknownToken { /** The token. */ id: u32, /** Tokens in the vocabulary. */ vocabulary: u32 } = 501, "token {id} is not in the vocabulary of {vocabulary} tokens";
        /// No tokens were given.
        Empty = 502, "no tokens were given";
        /// An infinity or NaN appeared: the weights are damaged or the model is unsound. Remedy: verify the image.
        NonFinite { /** Position of the batch's first token. */ position: u32 } = 503, "a value that is not finite appeared at or after position {position}; verify the image";
        /// Logits were asked for before a step, or after a rewind.
        NoLogits = 504, "there are no logits yet; process at least one token after a start or rewind";
        /// A rewind to a position that was not reached.
        RewindBeyond { /** What was asked for. */ position: u32, /** Positions held. */ have: u32 } = 505, "cannot rewind to position {position}; {have} are held";
        /// Somebody cancelled it. The tokens stay: those of the batches that were done are held, those that are left
        /// are computed by the next step, or by `resume`.
        Cancelled { /** Positions held. */ position: u32, /** Tokens left. */ left: u32 } = 507, "cancelled at position {position} with {left} tokens left; they are computed by the next step";
        /// Sampling settings outside their range.
        Sampling = 506, "sampling settings are out of range: temperature >= 0, 0 < top-p <= 1, 0 <= min-p <= 1, repetition penalty > 0";
    }
}

errors! {
    /// A state that cannot be saved or taken up.
    StateError {
        /// The memory for it is too small.
        Room { /** Bytes needed. */ need: u64, /** Bytes given. */ have: u64 } = 800, "the state takes {need} bytes and there is room for {have}; lend more memory";
        /// Shorter than a header, or than the header says.
        Truncated { /** Bytes needed. */ need: u64, /** Bytes given. */ have: u64 } = 801, "the state has {have} bytes and needs {need}: it was cut short; save it again";
        /// Not a state at all.
        Magic = 802, "this is no saved state";
        /// Written by another format version.
        Version { /** The state's version. */ found: u32, /** The version this release reads. */ expected: u32 } = 803, "the state has format version {found}, this release reads {expected}; save it again";
        /// The checksum does not match.
        Checksum = 804, "the checksum of the state does not match: it is damaged; save it again";
        /// A field has a value that cannot be.
        Field = 805, "the state contradicts itself; save it again";
        /// It was saved with another model.
        OtherModel = 806, "the state was saved with another model; process the tokens anew";
        /// It was saved from another kind of attention cache.
        OtherCache = 807, "the state was saved from another kind of attention cache; plan with that one, or process the tokens anew";
        /// It is longer than the context.
        ContextTooSmall { /** Positions needed. */ need: u32, /** Positions planned. */ have: u32 } = 808, "the state has {need} positions and the context {have}; plan a longer one";
    }
}

/// Any error of this crate, for callers who treat all doors alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error {
    /// From [`crate::Image`].
    Image(ImageError),
    /// From [`crate::Plan`].
    Plan(PlanError),
    /// From [`crate::Session::new`].
    Session(SessionError),
    /// From a step.
    Step(StepError),
    /// From [`crate::text`].
    Text(TextError),
    /// From saving or taking up a state.
    State(StateError),
}

impl Error {
    /// The code of the error inside.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Image(e) => e.code(),
            Self::Plan(e) => e.code(),
            Self::Session(e) => e.code(),
            Self::Step(e) => e.code(),
            Self::Text(e) => e.code(),
            Self::State(e) => e.code(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(e) => e.fmt(f),
            Self::Plan(e) => e.fmt(f),
            Self::Session(e) => e.fmt(f),
            Self::Step(e) => e.fmt(f),
            Self::Text(e) => e.fmt(f),
            Self::State(e) => e.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

macro_rules! from {
    ($($variant:ident($type:ty)),+) => {
        $(impl From<$type> for Error {
            fn from(error: $type) -> Self {
                Self::$variant(error)
            }
        })+
    };
}
from!(Image(ImageError), Plan(PlanError), Session(SessionError), Step(StepError), Text(TextError), State(StateError));

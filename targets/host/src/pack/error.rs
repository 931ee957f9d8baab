//! Why a model could not be packed.

use std::path::PathBuf;

use pocket_runtime::{ConfigError, ImageError};

use super::prefix::PrefixError;
use crate::gguf::GgufError;
use crate::quant::QuantError;
use crate::text::TextBuildError;

/// Why a model could not be packed. Nothing has been written then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Input and output are the same file.
    #[error("{} is both input and output; choose another name for the image", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// The file is no GGUF file, is damaged, or lacks metadata.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The prefix cannot be computed.
    #[error("the prefix cannot be computed: {0}")]
    Prefix(#[from] PrefixError),
    /// The program that is to run the chat template does not run.
    #[error("{} cannot be started to run the chat template: {source}", program.display())]
    TemplateProgram {
        /// The program.
        program: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The tokenizer cannot be packed.
    #[error(transparent)]
    Tokenizer(#[from] TextBuildError),
    /// The shape cannot be run.
    #[error("{0}")]
    Config(ConfigError),
    /// An architecture that is not packed.
    #[error("the architecture \"{name}\" is not supported; `llama` and `qwen3` are")]
    Architecture {
        /// What the file says, escaped and cut.
        name: String,
    },
    /// Something in the metadata that the runtime cannot do.
    #[error("the model has {what}, which is not supported")]
    Feature {
        /// What.
        what: String,
    },
    /// A tensor that must be there is not.
    #[error("the tensor {name} is missing; the file is incomplete")]
    MissingTensor {
        /// Its name.
        name: String,
    },
    /// A tensor that no place is known for.
    #[error("the tensor {name} has no place in a {architecture} model as this packer knows it")]
    UnknownTensor {
        /// Its name, escaped and cut.
        name: String,
        /// The architecture.
        architecture: String,
    },
    /// A tensor of another shape than the metadata say.
    #[error("the tensor {name} is {found:?}, the metadata ask for {wanted:?}")]
    Shape {
        /// Its name.
        name: String,
        /// Rows and columns in the file.
        found: [usize; 2],
        /// Rows and columns asked for.
        wanted: [usize; 2],
    },
    /// More tokens than the embedding has rows.
    #[error("the tokenizer has {tokens} tokens, the embedding has rows for {rows}; they belong to different models")]
    Vocabulary {
        /// Tokens.
        tokens: u32,
        /// Rows.
        rows: u32,
    },
    /// A tensor that cannot be decoded.
    #[error("the tensor {name}: {source}")]
    Decode {
        /// Its name.
        name: String,
        /// Why.
        source: QuantError,
    },
    /// A value or scale that is not a finite number.
    #[error("the tensor {name} has a value that is not a finite number in row {row}; the file is damaged")]
    NotFinite {
        /// Its name.
        name: String,
        /// The row.
        row: usize,
    },
    /// Values whose scale or minimum is beyond binary16, in a tensor that is quantised anew.
    #[error("the tensor {name} has values in row {row} that are too large to be quantised")]
    OutOfRange {
        /// Its name.
        name: String,
        /// The row.
        row: usize,
    },
    /// The finished image does not open: a defect of the packer.
    #[error("the finished image does not open ({0}); please report this")]
    Defect(ImageError),
}

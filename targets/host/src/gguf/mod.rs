//! Reading GGUF files (versions 2 and 3) in place, without trusting them.
//!
//! A GGUF file is counts, metadata, tensor descriptions and tensor bytes, every size of
//! which is declared by the file itself. This reader borrows the file (mapped or read by
//! the caller), checks each declared size against what the file's own length can hold
//! before it acts on it, and hands out slices. After [`Gguf::parse`] no access can fail
//! for the shape of the file; what it refuses it refuses in one sentence.

mod cursor;
mod error;
mod file;
mod tensor;
mod tensor_type;
mod value;

pub use error::GgufError;
pub use file::Gguf;
pub use tensor::Tensor;
pub use tensor_type::TensorType;
pub use value::{Array, FromValue, Value, ValueType};

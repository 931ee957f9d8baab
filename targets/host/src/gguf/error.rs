//! What is wrong with a GGUF file, each in one sentence.
//!
//! A packer's user can't debug a hex dump. Every variant names the thing in the file
//! that is wrong and, where there is one, the way out. Names come from the file, so
//! they are escaped and cut before they reach a terminal.

use thiserror::Error;

/// Why a GGUF file was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file does not begin with the four letters `GGUF`: it is another kind of file.
    #[error("this is not a GGUF file: it does not begin with the letters GGUF")]
    NotGguf,
    /// The version field reads as a small number only with its bytes swapped.
    #[error("this GGUF file is big-endian; convert it to little-endian first")]
    BigEndian,
    /// Only versions 2 and 3 are read; version 1 has other field widths.
    #[error("this GGUF file has version {version}; versions 2 and 3 are read, so convert it anew")]
    Version {
        /// The version that the file declares.
        version: u32,
    },
    /// The file ends inside something it announced: it is cut off or its sizes are wrong.
    #[error("the file ends inside {what}: {need} bytes are announced at byte {at}, {have} are there")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where in the file.
        at: usize,
        /// How many bytes the file announces.
        need: u64,
        /// How many bytes are left.
        have: usize,
    },
    /// A count is beyond any real model, so the file is damaged or hostile.
    #[error("the file announces {count} {what}; more than {limit} are not read")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// The count that the file declares.
        count: u64,
        /// The most that this reader accepts.
        limit: u64,
    },
    /// A string in the file is not UTF-8, which the format demands.
    #[error("the string in {what} at byte {at} is not UTF-8")]
    NotUtf8 {
        /// What was being read.
        what: &'static str,
        /// Where in the file.
        at: usize,
    },
    /// A metadata value has a type number that the format does not define.
    #[error("the metadata value at byte {at} has the unknown type {code}")]
    ValueType {
        /// Where in the file.
        at: usize,
        /// The type number.
        code: u32,
    },
    /// A boolean is neither 0 nor 1.
    #[error("the boolean at byte {at} is neither 0 nor 1")]
    Bool {
        /// Where in the file.
        at: usize,
    },
    /// Arrays are nested more deeply than any real file does.
    #[error("the metadata array at byte {at} is nested too deeply")]
    Nesting {
        /// Where in the file.
        at: usize,
    },
    /// Two metadata entries or two tensors share a name, so neither can be meant.
    #[error("the {what} {name} is there twice")]
    Duplicate {
        /// `metadata key` or `tensor`.
        what: &'static str,
        /// The name, escaped and cut.
        name: String,
    },
    /// A metadata key or a tensor has an empty name.
    #[error("a {what} at byte {at} has an empty name")]
    NoName {
        /// `metadata key` or `tensor`.
        what: &'static str,
        /// Where in the file.
        at: usize,
    },
    /// `general.alignment` is not a power of two between 8 and 65536.
    #[error("general.alignment must be a power of two from 8 to 65536")]
    Alignment,
    /// A tensor has no dimension, more than four, or one that is zero.
    #[error("the tensor {name} must have one to four dimensions, none of them zero")]
    Dimensions {
        /// The tensor's name, escaped and cut.
        name: String,
    },
    /// A tensor's element type is not one that this packer reads.
    #[error("the tensor {name} has the type {code}, which is not read; requantise it, say to Q8_0")]
    TensorType {
        /// The tensor's name, escaped and cut.
        name: String,
        /// The type number in the file.
        code: u32,
    },
    /// A row does not divide into the blocks of its type.
    #[error("the rows of tensor {name} have {cols} elements, no multiple of {block} as its type {kind} needs")]
    RowLength {
        /// The tensor's name, escaped and cut.
        name: String,
        /// Elements in a row.
        cols: usize,
        /// Elements in a block of the type.
        block: usize,
        /// The type's name.
        kind: &'static str,
    },
    /// The number of elements or bytes of a tensor does not fit in an address.
    #[error("the tensor {name} is larger than this machine can address")]
    TooLarge {
        /// The tensor's name, escaped and cut.
        name: String,
    },
    /// A tensor's offset is no multiple of the file's alignment.
    #[error("the data of tensor {name} is not aligned as the file demands")]
    Misaligned {
        /// The tensor's name, escaped and cut.
        name: String,
    },
    /// A tensor's data lies wholly or partly behind the end of the file.
    #[error("the data of tensor {name} runs past the end of the file; was it downloaded wholly?")]
    PastEnd {
        /// The tensor's name, escaped and cut.
        name: String,
    },
    /// Two tensors claim the same bytes.
    #[error("the data of tensors {first} and {second} overlap")]
    Overlap {
        /// The tensor that begins first, escaped and cut.
        first: String,
        /// The tensor that begins inside it, escaped and cut.
        second: String,
    },
    /// A metadata key that is needed is not in the file.
    #[error("the metadata key {key} is missing")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A metadata value is of another type, or a number out of range for its use.
    #[error("the metadata key {key} must hold {wanted}")]
    WrongType {
        /// The key.
        key: String,
        /// What it should hold.
        wanted: &'static str,
    },
}

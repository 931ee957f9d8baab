//! A whole GGUF file: header, metadata, tensor descriptions, data.
//!
//! Layout: magic, version, tensor count, metadata count, metadata entries, tensor
//! descriptions, padding to the alignment, tensor data. All of it is little-endian.

use std::collections::HashMap;

use super::cursor::Cursor;
use super::error::GgufError;
use super::tensor::{Description, Tensor};
use super::value::{FromValue, Value};
use crate::printable::printable;

/// Most tensors that are read; a model of 0.3 B parameters has some hundreds.
const MAX_TENSORS: u64 = 1 << 16;
/// Most metadata entries that are read; real files have some dozens.
const MAX_METADATA: u64 = 1 << 16;
/// The fewest bytes of a metadata entry: key, type, value.
const MIN_METADATA_BYTES: u64 = 8 + 1 + 4 + 1;
/// Longest metadata key, a limit of the format.
const MAX_KEY_BYTES: u64 = 65535;
/// Alignment of tensor data where the file does not say.
const DEFAULT_ALIGNMENT: u64 = 32;

/// A parsed GGUF file that borrows the bytes it was read from.
#[derive(Debug, Clone)]
pub struct Gguf<'a> {
    version: u32,
    metadata: Vec<(&'a str, Value<'a>)>,
    metadata_index: HashMap<&'a str, usize>,
    tensors: Vec<Tensor<'a>>,
    tensor_index: HashMap<&'a str, usize>,
}

impl<'a> Gguf<'a> {
    /// Reads header, metadata and descriptions, and checks that every tensor lies in the
    /// file. Takes no more memory than a small multiple of the file's length.
    ///
    /// # Errors
    /// [`GgufError`] for the first thing that is wrong.
    pub fn parse(file: &'a [u8]) -> Result<Self, GgufError> {
        let mut cursor = Cursor::new(file);
        if cursor.take(4, "the header").ok() != Some(b"GGUF") {
            return Err(GgufError::NotGguf);
        }
        let version = cursor.u32("the header")?;
        match version {
            2 | 3 => {}
            _ if (1..=3).contains(&version.swap_bytes()) => return Err(GgufError::BigEndian),
            _ => return Err(GgufError::Version { version }),
        }
        let tensor_count = cursor.count("tensors", MAX_TENSORS, Description::MIN_BYTES)?;
        let metadata_count = cursor.count("metadata entries", MAX_METADATA, MIN_METADATA_BYTES)?;

        let mut metadata = Vec::with_capacity(metadata_count);
        let mut metadata_index = HashMap::with_capacity(metadata_count);
        for _ in 0..metadata_count {
            let key = read_key(&mut cursor)?;
            if metadata_index.insert(key, metadata.len()).is_some() {
                return Err(GgufError::Duplicate { what: "metadata key", name: printable(key) });
            }
            metadata.push((key, Value::read(&mut cursor)?));
        }
        let mut gguf = Self { version, metadata, metadata_index, tensors: Vec::new(), tensor_index: HashMap::new() };
        gguf.read_tensors(cursor, file, tensor_count)?;
        Ok(gguf)
    }

    /// Reads the descriptions, then finds the data of each.
    fn read_tensors(&mut self, mut cursor: Cursor<'a>, file: &'a [u8], count: usize) -> Result<(), GgufError> {
        let alignment = self.alignment()?;
        // The metadata in between has used up bytes, so the count is checked again.
        let count = cursor.must_hold(count as u64, Description::MIN_BYTES, "tensors")?;
        let mut descriptions = Vec::with_capacity(count);
        self.tensor_index.reserve(count);
        for index in 0..count {
            let description = Description::read(&mut cursor)?;
            if self.tensor_index.insert(description.name(), index).is_some() {
                return Err(GgufError::Duplicate { what: "tensor", name: printable(description.name()) });
            }
            descriptions.push(description);
        }
        let data_start = (cursor.at() as u64)
            .checked_next_multiple_of(alignment)
            .and_then(|start| usize::try_from(start).ok())
            // Nothing can lie there, so each tensor will be reported as past the end.
            .unwrap_or(usize::MAX);
        self.tensors = descriptions
            .iter()
            .map(|description| description.locate(file, data_start, alignment))
            .collect::<Result<_, _>>()?;
        refuse_overlap(&mut descriptions)
    }

    /// The alignment of tensor data.
    fn alignment(&self) -> Result<u64, GgufError> {
        let Some(value) = self.get("general.alignment") else {
            return Ok(DEFAULT_ALIGNMENT);
        };
        value.as_u64().filter(|a| a.is_power_of_two() && (8..=65536).contains(a)).ok_or(GgufError::Alignment)
    }

    /// The format version: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// All metadata, in the order of the file.
    pub fn metadata(&self) -> &[(&'a str, Value<'a>)] {
        &self.metadata
    }

    /// The value of a metadata key, whatever its type.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        let index = *self.metadata_index.get(key)?;
        self.metadata.get(index).map(|&(_, value)| value)
    }

    /// The value of a metadata key as a `T`, or nothing if the key is not there.
    ///
    /// # Errors
    /// [`GgufError::WrongType`] if the key is there but holds something else.
    pub fn optional<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>, GgufError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        T::from_value(value).map(Some).ok_or_else(|| GgufError::WrongType { key: key.to_owned(), wanted: T::WANTED })
    }

    /// The value of a metadata key as a `T`.
    ///
    /// # Errors
    /// [`GgufError::MissingKey`] or [`GgufError::WrongType`].
    pub fn require<T: FromValue<'a>>(&self, key: &str) -> Result<T, GgufError> {
        self.optional(key)?.ok_or_else(|| GgufError::MissingKey { key: key.to_owned() })
    }

    /// All tensors, in the order of the file.
    pub fn tensors(&self) -> &[Tensor<'a>] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'a>> {
        let index = *self.tensor_index.get(name)?;
        self.tensors.get(index).copied()
    }
}

/// Reads a metadata key.
fn read_key<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, GgufError> {
    let at = cursor.at();
    let key = cursor.str("a metadata key")?;
    if key.is_empty() {
        return Err(GgufError::NoName { what: "metadata key", at });
    }
    if key.len() as u64 > MAX_KEY_BYTES {
        return Err(GgufError::TooMany {
            what: "bytes in a metadata key",
            count: key.len() as u64,
            limit: MAX_KEY_BYTES,
        });
    }
    Ok(key)
}

/// Refuses tensors that share bytes: packing one would silently repeat another.
fn refuse_overlap(descriptions: &mut [Description<'_>]) -> Result<(), GgufError> {
    descriptions.sort_by_key(Description::range);
    for pair in descriptions.windows(2) {
        let [first, second] = pair else { continue };
        if second.range().0 < first.range().1 {
            return Err(GgufError::Overlap { first: printable(first.name()), second: printable(second.name()) });
        }
    }
    Ok(())
}

//! Lays tables into a section, each padded to four bytes.

use bytemuck::{NoUninit, cast_slice};

/// A section that is being written.
pub(super) struct Section {
    bytes: Vec<u8>,
}

impl Section {
    /// Begins with a header.
    pub(super) fn new(header: &[u8]) -> Self {
        Self { bytes: header.to_vec() }
    }

    /// Appends a table.
    pub(super) fn table<T: NoUninit>(&mut self, table: &[T]) {
        self.bytes.extend_from_slice(cast_slice(table));
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// The whole section.
    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// A copy of bytes at a multiple of four, as an image's sections are.
///
/// A `Vec<u8>` may lie anywhere, and sections are read in place.
#[derive(Debug, Clone)]
pub struct AlignedBytes {
    words: Vec<u32>,
    len: usize,
}

impl AlignedBytes {
    /// Copies bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let mut words = vec![0_u32; bytes.len().div_ceil(4)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Self { words, len: bytes.len() }
    }
}

impl std::ops::Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &cast_slice(&self.words)[..self.len]
    }
}

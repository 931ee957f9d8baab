//! A bounds-checked reading position in a file.
//!
//! Every number, string and count of a GGUF file is taken through here, so that there
//! is one place where a declared size meets the bytes that are left.

use super::error::GgufError;

/// Where reading has got to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Offset of the next byte.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// The bytes from `from` to here, for a value that was skipped over.
    pub(super) fn since(&self, from: usize) -> &'a [u8] {
        self.bytes.get(from..self.at).unwrap_or_default()
    }

    /// Takes the next `need` bytes.
    pub(super) fn take(&mut self, need: u64, what: &'static str) -> Result<&'a [u8], GgufError> {
        let taken = usize::try_from(need).ok().and_then(|need| {
            let end = self.at.checked_add(need)?;
            Some((self.bytes.get(self.at..end)?, end))
        });
        let Some((bytes, end)) = taken else {
            return Err(self.truncated(need, what));
        };
        self.at = end;
        Ok(bytes)
    }

    /// Takes the next `N` bytes as an array.
    pub(super) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        let bytes = self.take(N as u64, what)?;
        bytes.try_into().map_err(|_| self.truncated(N as u64, what))
    }

    /// Takes a little-endian u32.
    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Takes a little-endian u64.
    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Takes a count of things that are at least `min_bytes` long each, and refuses one
    /// that the rest of the file cannot hold.
    pub(super) fn count(&mut self, what: &'static str, limit: u64, min_bytes: u64) -> Result<usize, GgufError> {
        let count = self.u64(what)?;
        if count > limit {
            return Err(GgufError::TooMany { what, count, limit });
        }
        self.must_hold(count, min_bytes, what)
    }

    /// Refuses `count` things of at least `min_bytes` each if the rest can't hold them.
    pub(super) fn must_hold(&self, count: u64, min_bytes: u64, what: &'static str) -> Result<usize, GgufError> {
        let need = count.saturating_mul(min_bytes);
        if need > self.left() as u64 {
            return Err(self.truncated(need, what));
        }
        usize::try_from(count).map_err(|_| self.truncated(need, what))
    }

    /// Takes a string: its length in bytes, then UTF-8.
    pub(super) fn str(&mut self, what: &'static str) -> Result<&'a str, GgufError> {
        let len = self.u64(what)?;
        let at = self.at;
        let bytes = self.take(len, what)?;
        core::str::from_utf8(bytes).map_err(|_| GgufError::NotUtf8 { what, at })
    }

    /// The error for something that does not fit in the bytes that are left.
    fn truncated(&self, need: u64, what: &'static str) -> GgufError {
        GgufError::Truncated { what, at: self.at, need, have: self.left() }
    }
}

//! One tensor of a file: name, type, shape and its bytes.
//!
//! GGUF writes the innermost dimension first. A weight matrix of a linear layer is
//! therefore `[inputs, outputs]`: `cols` inputs in a row, one row per output.

use super::cursor::Cursor;
use super::error::GgufError;
use super::tensor_type::TensorType;
use crate::printable::printable;

/// Most dimensions that the format allows.
const MAX_DIMS: usize = 4;
/// Longest tensor name that is read, in bytes; the format's own limit is 64.
const MAX_NAME_BYTES: u64 = 256;

/// A tensor whose bytes lie in the file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tensor<'a> {
    /// The tensor's name, such as `blk.0.attn_q.weight`.
    pub name: &'a str,
    /// How the elements are stored.
    pub kind: TensorType,
    /// The elements, row after row.
    pub data: &'a [u8],
    dims: [usize; MAX_DIMS],
    rank: usize,
    row_bytes: usize,
}

impl<'a> Tensor<'a> {
    /// Dimensions, innermost first, as the file has them.
    pub fn dims(&self) -> &[usize] {
        self.dims.get(..self.rank).unwrap_or_default()
    }

    /// Elements in a row: the innermost dimension.
    pub fn cols(&self) -> usize {
        let [cols, ..] = self.dims;
        cols
    }

    /// How many rows there are: the product of the outer dimensions.
    pub fn rows(&self) -> usize {
        // The product was checked at parse; dimensions beyond the rank are 1.
        let [_, outer @ ..] = self.dims;
        outer.iter().product()
    }

    /// Elements in all.
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// The bytes of one row, or nothing if there is no such row.
    pub fn row(&self, row: usize) -> Option<&'a [u8]> {
        let from = row.checked_mul(self.row_bytes)?;
        self.data.get(from..from.checked_add(self.row_bytes)?)
    }
}

/// A tensor's description in the file, before its bytes are found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description<'a> {
    name: &'a str,
    kind: TensorType,
    dims: [usize; MAX_DIMS],
    rank: usize,
    row_bytes: usize,
    bytes: usize,
    offset: u64,
}

impl<'a> Description<'a> {
    /// The fewest bytes that a description takes: name, rank, one dimension, type, offset.
    pub(super) const MIN_BYTES: u64 = 8 + 1 + 4 + 8 + 4 + 8;

    /// The tensor's name.
    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// Reads a description and computes the size of its data.
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, GgufError> {
        const WHAT: &str = "a tensor's description";
        let at = cursor.at();
        let name = cursor.str(WHAT)?;
        if name.is_empty() {
            return Err(GgufError::NoName { what: "tensor", at });
        }
        if name.len() as u64 > MAX_NAME_BYTES {
            return Err(GgufError::TooMany {
                what: "bytes in a tensor's name",
                count: name.len() as u64,
                limit: MAX_NAME_BYTES,
            });
        }
        let rank = cursor.u32(WHAT)?;
        let mut dims = [1_usize; MAX_DIMS];
        let rank = usize::try_from(rank)
            .ok()
            .filter(|rank| (1..=MAX_DIMS).contains(rank))
            .ok_or_else(|| GgufError::Dimensions { name: printable(name) })?;
        for dim in dims.iter_mut().take(rank) {
            let size = cursor.u64(WHAT)?;
            *dim = usize::try_from(size).map_err(|_| GgufError::TooLarge { name: printable(name) })?;
            if size == 0 {
                return Err(GgufError::Dimensions { name: printable(name) });
            }
        }
        let code = cursor.u32(WHAT)?;
        let kind = TensorType::from_code(code).ok_or_else(|| GgufError::TensorType { name: printable(name), code })?;
        let offset = cursor.u64(WHAT)?;

        let [cols, outer @ ..] = dims;
        if !cols.is_multiple_of(kind.block_elements()) {
            return Err(GgufError::RowLength {
                name: printable(name),
                cols,
                block: kind.block_elements(),
                kind: kind.name(),
            });
        }
        let sizes = kind.bytes_of(cols).and_then(|row_bytes| {
            let rows = outer.iter().try_fold(1_usize, |n, &d| n.checked_mul(d))?;
            cols.checked_mul(rows)?;
            Some((row_bytes, row_bytes.checked_mul(rows)?))
        });
        let (row_bytes, bytes) = sizes.ok_or_else(|| GgufError::TooLarge { name: printable(name) })?;
        Ok(Self { name, kind, dims, rank, row_bytes, bytes, offset })
    }

    /// Finds the tensor's bytes, which count from `data_start`.
    pub(super) fn locate(&self, file: &'a [u8], data_start: usize, alignment: u64) -> Result<Tensor<'a>, GgufError> {
        if !self.offset.is_multiple_of(alignment) {
            return Err(GgufError::Misaligned { name: printable(self.name) });
        }
        let range = usize::try_from(self.offset).ok().and_then(|offset| {
            let from = data_start.checked_add(offset)?;
            Some(from..from.checked_add(self.bytes)?)
        });
        let data =
            range.and_then(|range| file.get(range)).ok_or_else(|| GgufError::PastEnd { name: printable(self.name) })?;
        Ok(Tensor {
            name: self.name,
            kind: self.kind,
            data,
            dims: self.dims,
            rank: self.rank,
            row_bytes: self.row_bytes,
        })
    }

    /// Where the data begins and ends, counted from the start of all data. Only called
    /// after `locate` has shown that the end does not overflow.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.offset, self.offset.saturating_add(self.bytes as u64))
    }
}

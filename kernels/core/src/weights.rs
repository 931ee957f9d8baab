//! A quantised matrix as it lies in an image: row groups of tiles, read in place.
//!
//! The row groups of a matrix may be interleaved with those of another one that is read in the same pass (gate and up
//! projection), so a matrix has a stride between its row groups.

use crate::lanes::WIDTH;
use crate::tile::{Tile, TileQ4A32, TileQ4A64, TileQ4S32, TileQ4S64, TileQ8};

/// The formats a weight matrix can have. The numbers are stored in images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// 4-bit asymmetric, groups of 64 (4.5 bits a weight).
    Q4A64 = 1,
    /// 4-bit asymmetric, groups of 32 (5 bits a weight).
    Q4A32 = 2,
    /// 4-bit symmetric, groups of 64 (4.25 bits a weight).
    Q4S64 = 3,
    /// 4-bit symmetric, groups of 32 (4.5 bits a weight).
    Q4S32 = 4,
    /// 8-bit symmetric, groups of 32 (8.5 bits a weight).
    Q8 = 5,
}

impl Format {
    /// Every format, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Q4A64, Self::Q4A32, Self::Q4S64, Self::Q4S32, Self::Q8];

    /// The format with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Q4A64),
            2 => Some(Self::Q4A32),
            3 => Some(Self::Q4S64),
            4 => Some(Self::Q4S32),
            5 => Some(Self::Q8),
            _ => None,
        }
    }

    /// Columns in a quantisation group.
    #[must_use]
    pub const fn group(self) -> usize {
        match self {
            Self::Q4A64 | Self::Q4S64 => 64,
            Self::Q4A32 | Self::Q4S32 | Self::Q8 => 32,
        }
    }

    /// Bytes of a tile of 16 rows × one group.
    #[must_use]
    pub const fn tile_bytes(self) -> usize {
        match self {
            Self::Q4A64 => size_of::<TileQ4A64>(),
            Self::Q4A32 => size_of::<TileQ4A32>(),
            Self::Q4S64 => size_of::<TileQ4S64>(),
            Self::Q4S32 => size_of::<TileQ4S32>(),
            Self::Q8 => size_of::<TileQ8>(),
        }
    }

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Q4A64 => "q4a64",
            Self::Q4A32 => "q4a32",
            Self::Q4S64 => "q4s64",
            Self::Q4S32 => "q4s32",
            Self::Q8 => "q8",
        }
    }

    /// Bytes of one group of 16 rows with this many columns (rounded up to whole tiles).
    #[must_use]
    pub const fn row_group_bytes(self, columns: usize) -> usize {
        columns.div_ceil(self.group()) * self.tile_bytes()
    }
}

/// A matrix of `rows × columns` in one of the formats, borrowed from an image.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    format: Format,
    rows: usize,
    columns: usize,
    stride_bytes: usize,
    data: &'a [u8],
}

impl<'a> Weights<'a> {
    /// A view of `data`, whose row group `g` begins at `g · stride_bytes`. `None` if the data is too short, the
    /// stride smaller than a row group, or data and stride are not aligned for tiles (2 bytes).
    #[must_use]
    pub fn new(format: Format, rows: usize, columns: usize, stride_bytes: usize, data: &'a [u8]) -> Option<Self> {
        let group_bytes = columns.div_ceil(format.group()).checked_mul(format.tile_bytes())?;
        let groups = rows.div_ceil(WIDTH);
        let need = match groups {
            0 => 0,
            n => (n - 1).checked_mul(stride_bytes)?.checked_add(group_bytes)?,
        };
        let aligned = stride_bytes.is_multiple_of(2) && (data.as_ptr() as usize).is_multiple_of(2);
        (need <= data.len() && group_bytes <= stride_bytes && aligned).then_some(Self {
            format,
            rows,
            columns,
            stride_bytes,
            data,
        })
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Number of output elements.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of input elements.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of groups of 16 rows, the last one padded.
    #[must_use]
    pub fn row_groups(&self) -> usize {
        self.rows.div_ceil(WIDTH)
    }

    /// Bytes that a product reads.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.row_groups() * self.format.row_group_bytes(self.columns)
    }

    /// The bytes of one row group; none beyond the matrix.
    #[inline(always)]
    pub(crate) fn row_group(&self, row_group: usize) -> &'a [u8] {
        let bytes = self.format.row_group_bytes(self.columns);
        let rest = self.data.get(row_group.saturating_mul(self.stride_bytes)..);
        rest.and_then(|rest| rest.get(..bytes)).unwrap_or(&[])
    }

    /// As many bytes as a row group has, from `distance` behind the start of one on; fewer at the end of the matrix.
    #[inline(always)]
    pub(crate) fn behind(&self, row_group: usize, distance: usize) -> &'a [u8] {
        let start = row_group.saturating_mul(self.stride_bytes).saturating_add(distance);
        let rest = self.data.get(start..).unwrap_or(&[]);
        &rest[..rest.len().min(self.format.row_group_bytes(self.columns))]
    }

    /// The tiles of one row group in the order of the columns; empty beyond the matrix.
    #[inline(always)]
    pub(crate) fn tiles<T: Tile>(&self, row_group: usize) -> &'a [T] {
        bytemuck::try_cast_slice(self.row_group(row_group)).unwrap_or(&[])
    }
}

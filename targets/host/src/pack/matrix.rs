//! A quantised matrix on its way from a file's blocks to tiles.
//!
//! Codes and scales are kept as they are wherever the file has them in a form that tiles know; everything else goes
//! through f32 and is quantised anew, with the error measured.

use pocket_kernels::lanes::WIDTH;
use pocket_kernels::weights::Format;

use super::architecture::RowOrder;
use super::error::PackError;
use super::quantize::{Quant, Requantised, requantise};
use crate::gguf::{Tensor, TensorType};
use crate::quant::{q4_0_blocks, q4_1_blocks, q8_0_blocks};

/// Columns of a block in a file and of the small quantisation group.
pub(super) const BLOCK: usize = 32;

/// How the codes of a matrix are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// 4 bits, value `d · (u − 8)`.
    Symmetric4,
    /// 4 bits, value `d · u + m`.
    Asymmetric4,
    /// Signed bytes, value `d · q`.
    Symmetric8,
}

impl Kind {
    /// The tile format in groups of 32 or 64 columns.
    pub(super) fn format(self, wide: bool) -> Format {
        match (self, wide) {
            (Self::Symmetric4, false) => Format::Q4S32,
            (Self::Symmetric4, true) => Format::Q4S64,
            (Self::Asymmetric4, false) => Format::Q4A32,
            (Self::Asymmetric4, true) => Format::Q4A64,
            (Self::Symmetric8, _) => Format::Q8,
        }
    }
}

/// The kind that a tensor of this type becomes, and whether that is without loss.
pub(super) fn kind_of(tensor: TensorType, target: Quant) -> (Kind, bool) {
    match tensor {
        TensorType::Q4_0 => (Kind::Symmetric4, true),
        TensorType::Q4_1 => (Kind::Asymmetric4, true),
        TensorType::Q8_0 => (Kind::Symmetric8, true),
        TensorType::F32 | TensorType::F16 | TensorType::Bf16 if target == Quant::Q4 => (Kind::Asymmetric4, false),
        _ => (Kind::Symmetric8, false),
    }
}

/// Codes and scales of a matrix in blocks of 32 columns, rows in the runtime's order.
pub(super) struct Matrix {
    kind: Kind,
    rows: usize,
    blocks_per_row: usize,
    /// `[rows, blocks_per_row · 32]`; 8-bit codes as two's complement.
    codes: Vec<u8>,
    /// `[rows, blocks_per_row]`, binary16 bits.
    scales: Vec<u16>,
    /// As the scales; empty if the kind has none.
    minima: Vec<u16>,
    /// `√(Σ(x − y)² / Σx²)` if the matrix was quantised anew.
    pub(super) relative_error: Option<f64>,
}

impl Matrix {
    /// Reads a tensor whose columns are a multiple of 32.
    pub(super) fn read(tensor: &Tensor<'_>, target: Quant, order: RowOrder) -> Result<Self, PackError> {
        let (kind, lossless) = kind_of(tensor.kind, target);
        let (rows, blocks_per_row) = (tensor.rows(), tensor.cols() / BLOCK);
        let mut matrix = Self {
            kind,
            rows,
            blocks_per_row,
            codes: Vec::with_capacity(rows * blocks_per_row * BLOCK),
            scales: Vec::with_capacity(rows * blocks_per_row),
            minima: Vec::new(),
            relative_error: None,
        };
        let mut error = Requantised::default();
        for row in (0..rows).map(|row| order.source(row)) {
            let data = tensor.row(row).unwrap_or_default();
            let decode = |source| PackError::Decode { name: tensor.name.to_owned(), source };
            let before = matrix.scales.len();
            match (kind, lossless) {
                (Kind::Symmetric4, true) => {
                    for block in q4_0_blocks(data).map_err(decode)? {
                        matrix.push(&block.codes, block.scale_bits, None);
                    }
                }
                (Kind::Asymmetric4, true) => {
                    for block in q4_1_blocks(data).map_err(decode)? {
                        matrix.push(&block.codes, block.scale_bits, Some(block.minimum_bits));
                    }
                }
                (Kind::Symmetric8, true) => {
                    for block in q8_0_blocks(data).map_err(decode)? {
                        matrix.push(&block.codes.map(|q| q as u8), block.scale_bits, None);
                    }
                }
                (_, false) => {
                    let mut values = vec![0.0; tensor.cols()];
                    crate::quant::dequantize(tensor.kind, data, &mut values).map_err(decode)?;
                    if values.iter().any(|x| !x.is_finite()) {
                        return Err(PackError::NotFinite { name: tensor.name.to_owned(), row });
                    }
                    for block in values.as_chunks::<BLOCK>().0 {
                        let (codes, d, m) = requantise(block, kind, &mut error);
                        matrix.push(&codes, d, m);
                    }
                }
            }
            let finite = |bits: &u16| bits & 0x7c00 != 0x7c00;
            let minima = matrix.minima.get(before..).unwrap_or_default();
            if !matrix.scales[before..].iter().chain(minima).all(finite) {
                let name = tensor.name.to_owned();
                // What is quantised anew was finite until its scale was rounded to binary16.
                return Err(match lossless {
                    true => PackError::NotFinite { name, row },
                    false => PackError::OutOfRange { name, row },
                });
            }
        }
        matrix.relative_error = (!lossless).then(|| error.relative());
        Ok(matrix)
    }

    fn push(&mut self, codes: &[u8; BLOCK], scale: u16, minimum: Option<u16>) {
        self.codes.extend_from_slice(codes);
        self.scales.push(scale);
        self.minima.extend(minimum);
    }

    /// The tile format in groups of 32 or 64 columns.
    pub(super) fn format(&self, wide: bool) -> Format {
        self.kind.format(wide)
    }

    /// Groups of 16 rows.
    pub(super) fn row_groups(&self) -> usize {
        self.rows.div_ceil(WIDTH)
    }

    /// Appends the tiles of one group of 16 rows. What lies beyond the matrix is zero.
    pub(super) fn write_row_group(&self, row_group: usize, wide: bool, out: &mut Vec<u8>) {
        let blocks_per_tile = if wide { 2 } else { 1 };
        for first in (0..self.blocks_per_row).step_by(blocks_per_tile) {
            let columns = first * BLOCK..(first + blocks_per_tile) * BLOCK;
            let width = if self.kind == Kind::Symmetric8 { 4 } else { 8 };
            for chunk in columns.step_by(width) {
                for lane in 0..WIDTH {
                    let code = |column| self.code(row_group * WIDTH + lane, column);
                    for i in chunk..chunk + 4 {
                        out.push(if width == 4 { code(i) } else { code(i) | code(i + 4) << 4 });
                    }
                }
            }
            for values in [&self.scales, &self.minima] {
                if values.is_empty() {
                    continue;
                }
                for lane in 0..WIDTH {
                    let row = row_group * WIDTH + lane;
                    let value = if row < self.rows { values[row * self.blocks_per_row + first] } else { 0 };
                    out.extend_from_slice(&value.to_le_bytes());
                }
            }
        }
    }

    fn code(&self, row: usize, column: usize) -> u8 {
        let columns = self.blocks_per_row * BLOCK;
        if row < self.rows && column < columns { self.codes[row * columns + column] } else { 0 }
    }
}

/// Whether every two neighbouring blocks of a 4-bit tensor have the same scale and minimum, so that they are one group
/// of 64 columns.
pub(super) fn pairs_agree(tensor: &Tensor<'_>) -> bool {
    let agree = |keys: Vec<u32>| keys.chunks_exact(2).all(|pair| pair[0] == pair[1]);
    (0..tensor.rows()).all(|row| {
        let data = tensor.row(row).unwrap_or_default();
        match tensor.kind {
            TensorType::Q4_0 => q4_0_blocks(data).is_ok_and(|b| agree(b.map(|b| b.scale_bits.into()).collect())),
            TensorType::Q4_1 => q4_1_blocks(data)
                .is_ok_and(|b| agree(b.map(|b| u32::from(b.scale_bits) << 16 | u32::from(b.minimum_bits)).collect())),
            _ => false,
        }
    })
}

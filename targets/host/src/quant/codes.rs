//! Codes and scales of Q4_0, Q4_1 and Q8_0 blocks, as stored.
//!
//! The packer moves these types into tiles without decoding them. A block holds 32
//! neighbouring columns of one row. In the 4-bit types byte i carries column i in its low
//! nibble and column i + 16 in its high nibble; here the codes come in column order.

use super::dequantize::QuantError;
use crate::gguf::TensorType;

/// 32 codes 0..=15 with value `scale · (code − 8)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Q4_0Block {
    /// Codes in column order.
    pub codes: [u8; 32],
    /// The scale's f16 bits.
    pub scale_bits: u16,
}

/// 32 codes 0..=15 with value `scale · code + minimum`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Q4_1Block {
    /// Codes in column order.
    pub codes: [u8; 32],
    /// The scale's f16 bits.
    pub scale_bits: u16,
    /// The minimum's f16 bits.
    pub minimum_bits: u16,
}

/// 32 codes −128..=127 with value `scale · code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Q8_0Block {
    /// Codes in column order.
    pub codes: [i8; 32],
    /// The scale's f16 bits.
    pub scale_bits: u16,
}

/// The blocks of Q4_0 data, such as one row.
///
/// # Errors
/// [`QuantError::Blocks`] if `data` is no whole number of blocks.
pub fn q4_0_blocks(data: &[u8]) -> Result<impl ExactSizeIterator<Item = Q4_0Block> + '_, QuantError> {
    Ok(whole_blocks::<18>(TensorType::Q4_0, data)?.iter().map(q4_0_block))
}

/// The blocks of Q4_1 data, such as one row.
///
/// # Errors
/// [`QuantError::Blocks`] if `data` is no whole number of blocks.
pub fn q4_1_blocks(data: &[u8]) -> Result<impl ExactSizeIterator<Item = Q4_1Block> + '_, QuantError> {
    Ok(whole_blocks::<20>(TensorType::Q4_1, data)?.iter().map(q4_1_block))
}

/// The blocks of Q8_0 data, such as one row.
///
/// # Errors
/// [`QuantError::Blocks`] if `data` is no whole number of blocks.
pub fn q8_0_blocks(data: &[u8]) -> Result<impl ExactSizeIterator<Item = Q8_0Block> + '_, QuantError> {
    Ok(whole_blocks::<34>(TensorType::Q8_0, data)?.iter().map(q8_0_block))
}

/// Splits data into blocks.
fn whole_blocks<const BYTES: usize>(kind: TensorType, data: &[u8]) -> Result<&[[u8; BYTES]], QuantError> {
    match data.as_chunks() {
        (blocks, []) => Ok(blocks),
        _ => Err(QuantError::Blocks { kind, bytes: data.len() }),
    }
}

/// Takes one Q4_0 block apart.
pub(super) fn q4_0_block(block: &[u8; 18]) -> Q4_0Block {
    let [s0, s1, nibbles @ ..] = block;
    Q4_0Block { codes: unpack(nibbles), scale_bits: u16::from_le_bytes([*s0, *s1]) }
}

/// Takes one Q4_1 block apart.
pub(super) fn q4_1_block(block: &[u8; 20]) -> Q4_1Block {
    let [s0, s1, m0, m1, nibbles @ ..] = block;
    Q4_1Block {
        codes: unpack(nibbles),
        scale_bits: u16::from_le_bytes([*s0, *s1]),
        minimum_bits: u16::from_le_bytes([*m0, *m1]),
    }
}

/// Takes one Q8_0 block apart.
pub(super) fn q8_0_block(block: &[u8; 34]) -> Q8_0Block {
    let [s0, s1, codes @ ..] = block;
    Q8_0Block { codes: codes.map(|byte| i8::from_le_bytes([byte])), scale_bits: u16::from_le_bytes([*s0, *s1]) }
}

/// Spreads 16 bytes to 32 codes: low nibbles first, then high ones.
pub(super) fn unpack(nibbles: &[u8; 16]) -> [u8; 32] {
    let mut codes = [0; 32];
    let (low, high) = codes.split_at_mut(16);
    for ((byte, low), high) in nibbles.iter().zip(low).zip(high) {
        *low = byte & 15;
        *high = byte >> 4;
    }
    codes
}

//! The one door to f32: checks sizes once, then picks the type's decoder.
//!
//! Decoders see exact blocks only; none of them can meet a short slice.

use thiserror::Error;

use super::{float, iq4, k, legacy};
use crate::gguf::TensorType;

/// Why data could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QuantError {
    /// The number of bytes is not what that many elements take. Pass whole rows.
    #[error("{elements} elements of type {kind} do not take {bytes} bytes")]
    Size {
        /// The type.
        kind: TensorType,
        /// Elements asked for.
        elements: usize,
        /// Bytes given.
        bytes: usize,
    },
    /// The number of bytes is no multiple of the type's block. Pass whole blocks.
    #[error("{bytes} bytes are no whole number of {kind} blocks")]
    Blocks {
        /// The type.
        kind: TensorType,
        /// Bytes given.
        bytes: usize,
    },
}

/// Writes the elements stored in `data` to `out` as f32.
///
/// # Shapes
/// `data`: blocks of `kind`; `out`: as many elements as these blocks hold.
///
/// # Errors
/// [`QuantError::Size`] if the two do not match.
pub fn dequantize(kind: TensorType, data: &[u8], out: &mut [f32]) -> Result<(), QuantError> {
    if kind.bytes_of(out.len()) != Some(data.len()) {
        return Err(QuantError::Size { kind, elements: out.len(), bytes: data.len() });
    }
    match kind {
        TensorType::F32 => float::f32(data, out),
        TensorType::F16 => float::f16(data, out),
        TensorType::Bf16 => float::bf16(data, out),
        TensorType::Q4_0 => each_block(data, out, legacy::q4_0),
        TensorType::Q4_1 => each_block(data, out, legacy::q4_1),
        TensorType::Q5_0 => each_block(data, out, legacy::q5_0),
        TensorType::Q5_1 => each_block(data, out, legacy::q5_1),
        TensorType::Q8_0 => each_block(data, out, legacy::q8_0),
        TensorType::Q2K => each_block(data, out, k::q2),
        TensorType::Q3K => each_block(data, out, k::q3),
        TensorType::Q4K => each_block(data, out, k::q4),
        TensorType::Q5K => each_block(data, out, k::q5),
        TensorType::Q6K => each_block(data, out, k::q6),
        TensorType::Iq4Nl => each_block(data, out, iq4::nl),
        TensorType::Iq4Xs => each_block(data, out, iq4::xs),
    }
    Ok(())
}

/// Decodes block after block; the lengths were matched by the caller.
fn each_block<const BYTES: usize, const ELEMENTS: usize>(
    data: &[u8],
    out: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; ELEMENTS]),
) {
    let (blocks, _) = data.as_chunks::<BYTES>();
    let (outs, _) = out.as_chunks_mut::<ELEMENTS>();
    for (block, out) in blocks.iter().zip(outs) {
        decode(block, out);
    }
}

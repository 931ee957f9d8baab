//! What the numbers of a GGUF tensor mean: dequantisation and lossless codes.
//!
//! Two ways into a tensor. [`dequantize`] turns any type that is read into f32, with the
//! same operations in the same order as the format's definition, so the result is exact
//! to the bit. [`q4_0_blocks`], [`q4_1_blocks`] and [`q8_0_blocks`] give the integer codes
//! and the scales as stored, so that these types can be repacked without a rounding.

mod codes;
mod dequantize;
mod float;
mod iq4;
mod k;
mod legacy;

pub use codes::{Q4_0Block, Q4_1Block, Q8_0Block, q4_0_blocks, q4_1_blocks, q8_0_blocks};
pub use dequantize::{QuantError, dequantize};

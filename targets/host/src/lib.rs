//! Packer of Pocket.

pub mod gguf;
pub mod quant;
pub mod text;

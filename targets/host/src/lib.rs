//! Packer of Pocket.

pub mod gguf;
pub mod pack;
pub mod quant;
pub mod text;

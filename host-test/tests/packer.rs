//! The packer: what it keeps to the bit, how much it changes what it cannot keep, and what it refuses.
//!
//! Codes and scales are read back from the packed image by a reader of its own, written from `kernels/NUMERICS.md`, and
//! compared with the file's blocks. What is refused is refused in one sentence, and leaves no trace.

#[path = "packer/floats.rs"]
mod floats;
#[path = "packer/lossless.rs"]
mod lossless;
#[path = "packer/metadata.rs"]
mod metadata;
#[path = "packer/refusals.rs"]
mod refusals;
#[path = "packer/tiles.rs"]
mod tiles;

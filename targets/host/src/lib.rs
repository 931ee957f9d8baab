//! Pocket on a developer's machine: the packer, and what a host adds to the runtime.
//!
//! * packing: [`gguf`] (reading models), [`quant`] (weights), [`text`] (tokenizers and templates), [`pack`] (images)
//! * running: [`isa`] (choosing kernels), [`pool`] (threads), [`memory`] (mapped images, arenas)
//! * sizing: [`synth`] (models of a shape without weights), [`energy`] (joules of an answer)
//! * commanding: [`cli`], behind the command `pocket`
//! * signing: [`sign`] (an image's origin)
//! * checking: [`golden`] (logits to the bit), [`npy`] (logits for others)

// In the library, so that kernels are compiled once for library and command.
pub mod cli;
pub mod energy;
pub mod gguf;
pub mod golden;
pub mod isa;
mod machine;
pub mod memory;
pub mod npy;
pub mod pack;
pub mod pool;
mod printable;
mod prompt;
pub mod quant;
pub mod sign;
pub mod synth;
pub mod text;
mod whole_file;

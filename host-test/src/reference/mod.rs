//! An independent forward pass in plain f32: what the weights of a GGUF file say.
//!
//! It has its own file reader and its own decoders and shares no code with the library,
//! so that a mistake has to be made twice to go unseen. It is checked against another
//! engine's logits and then serves as the oracle for models that have none. It wants to
//! be read, not to be fast: loops in the order of the formulas, all tokens at once.

mod decode;
mod file;
mod forward;
mod model;

pub use model::Reference;

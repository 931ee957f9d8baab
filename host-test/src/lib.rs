//! Host tests of Pocket: an independent reference, oracles and their comparison.
//!
//! Equal bits on every chip may be equally wrong. This crate therefore holds a second
//! opinion: a float forward pass that shares no code with the library, the logits of
//! another engine to check that pass against, and the figures by which closeness is
//! judged. Everything sees the library from here; nothing sees this crate.

pub mod divergence;
pub mod exercise;
pub mod exponential;
pub mod golden;
pub mod images;
pub mod model_file;
pub mod models;
pub mod npy;
pub mod plans;
pub mod reference;
pub mod session;
pub mod soak;
pub mod trap;

/// Whether the processor is emulated, as in `ci/cross`, and some 50 times slower: then long tests take fewer cases of
/// every kind.
pub const EMULATED: bool = cfg!(target_arch = "aarch64");

/// The README's example, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

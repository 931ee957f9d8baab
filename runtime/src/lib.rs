//! A language model of some 0.3 billion parameters, run from an arena that was planned before.
//!
//! No `std`, no allocator. An [`Image`] is checked and read in place; a [`Plan`] says how many bytes a session takes; a
//! [`Session`] runs the model in exactly those bytes, on any [`Kernels`](pocket_kernels::Kernels), shared among any
//! [`Workers`]. The logits are the same bits on every chip, for every number of workers and every split into batches.
//!
//! ```text
//! bytes ──Image::open──▶ Image ──Plan::try_new──▶ Plan ──Session::new──▶ Session ──▶ logits ──Sampler──▶ tokens
//! ```
#![no_std]
#![deny(missing_docs)]
#![deny(unsafe_code)]
// Numbers of images, states, texts and limits are other people's: a sum or product of them says what happens when it
// does not fit, or why it does.
#![deny(clippy::arithmetic_side_effects)]

#[expect(unsafe_code, reason = "static memory is handed out here, once")]
mod arena;
mod config;
mod error;
pub mod generate;
pub mod image;
mod limits;
mod log;
#[expect(clippy::arithmetic_side_effects, reason = "indices into regions, whose sizes the plan counted with checks")]
mod model;
pub mod plan;
pub mod sampling;
#[expect(clippy::arithmetic_side_effects, reason = "what is held and what is pending are no more than the context")]
mod session;
pub mod state;
pub mod text;
mod workers;

pub use arena::Arena;
pub use config::{Config, Group, Groups};
pub use error::{ConfigError, Error, ImageError, Part, PlanError, SessionError, StateError, StepError};
pub use image::Image;
pub use limits::Limits;
pub use plan::Plan;
pub use pocket_kernels::cache::CacheType;
pub use sampling::{Sampler, Sampling};
pub use session::Session;
pub use state::State;
pub use workers::{Single, Workers};

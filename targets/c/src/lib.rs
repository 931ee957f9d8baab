//! Pocket for C and C++: the functions and types of `pocket.h`.
//!
//! The header is made from this crate, so its documentation is here; its first page is `cbindgen.toml`'s. Nothing is
//! decided here but what C cannot say in Rust's words: pointers are checked, enumerations are numbers, errors are
//! codes, the kernels' type becomes a choice at run time, and a session lives at the head of its arena.
//!
//! ```text
//! bytes ──pocket_image_open──▶ pocket_image ──pocket_plan_session──▶ arena_bytes
//!                                    └──pocket_session_new(arena)──▶ pocket_session ──▶ prefill, decode, generate
//! ```
//!
//! # Safety
//! One obligation holds for every function, and the `SAFETY` lines call it *the header's contract*: a pointer that is
//! not null leads to as many initialised elements of its type as its length says (one without a length; room for as
//! many, if they are written), which nobody writes while the function runs and, where the header says so, for as long
//! as the image or session is used. Null, misaligned and overlong ranges are found and reported.
#![no_std]
#![deny(missing_docs)]
#![expect(clippy::missing_safety_doc, reason = "one contract for all functions, stated above and in the header")]

// In the header's order, from the first function that is called to the last.
mod status;

mod sentence;

mod image;

mod origin;

mod limits;

mod workers;

mod kernels;

mod session;

mod sampling;

mod steps;

mod chat;

mod generate;

mod text;

mod state;

#[cfg(feature = "panic-handler")]
mod panic;
mod pointer;

pub use chat::*;
pub use generate::*;
pub use image::*;
pub use kernels::*;
pub use limits::*;
pub use origin::*;
pub use sampling::*;
pub use sentence::*;
pub use session::*;
pub use state::*;
pub use status::*;
pub use steps::*;
pub use text::*;
pub use workers::*;

//! Text: from characters to tokens and back, chats to text, and where a reply ends.
//!
//! Everything works on sections of an image that the packer has prepared, and in buffers
//! that the caller lends. A chat goes through four of the types here:
//!
//! ```text
//! turns ─ChatTemplate─▶ text + ranges that are people's ─Tokenizer─▶ tokens ─▶ model
//! model ─▶ token ─Tokenizer::token_bytes─▶ bytes ─Utf8Stream─▶ text ─StopStrings─▶ reply
//! ```
//!
//! What is not done here: Unicode normalisation (a tokenizer that
//! [wants it](Tokenizer::wants_nfc) says so) and templates with tools.

mod bpe;
mod error;
pub mod layout;
mod merges;
mod pretokenize;
mod specials;
mod stop;
mod template;
mod tokenizer;
mod utf8;

pub use error::{TextError, TextPart};
pub use merges::merge_slot;
pub use specials::Specials;
pub use stop::StopStrings;
pub use template::{ChatTemplate, RenderOptions, Rendered, Role, Turn};
pub use tokenizer::{Tokenizer, scratch_len};
pub use utf8::Utf8Stream;

//! Packs tokenizers and chat templates into the sections that the device reads.
//!
//! Model files describe a tokenizer by lists and a regular expression, and a chat template
//! by a program. Here the lists become tables, the expression an automaton, and the
//! program a table of what it writes, so that the device needs none of the three.

mod alphabet;
mod automaton;
mod error;
mod hugging_face;
mod pretokenizer;
mod section;
mod source;
mod template;
mod tokenizer;

pub(crate) use alphabet::byte_characters;
pub use error::{TemplateError, TextBuildError};
pub use pretokenizer::PreTokenizerKind;
pub use section::AlignedBytes;
pub use source::{Token, TokenKind, TokenizerSource};
pub use template::build_template;
pub(crate) use template::{TEMPLATE_COMMAND, build_template_apart, serve_template};
pub use tokenizer::build_tokenizer;

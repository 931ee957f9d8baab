//! Finds out what a chat template writes, and packs it as a table.
//!
//! A chat template is a Jinja program over the whole chat, and nearly all of them write
//! the contents in order with fixed texts between. Which texts is found by running the
//! program here:
//!
//! ```text
//! probe   run short chats whose contents are markers; what stands between two markers is
//!         the text between those roles
//! pack    lay the texts into the section
//! check   run many more chats, long ones, with awkward contents, with every setting, and
//!         compare the device's rendering with the program's
//! ```
//!
//! If a usual chat (an optional system turn, then user and assistant in turn) comes out
//! differently, the template is refused: it depends on more than a table can say. If an
//! unusual one does, the device gets no text for that step and refuses such chats.
//!
//! Three things are not expressed. Contents in which the template looks for marks, such as
//! `</think>` or `<tool_response>`, are taken as they are. There are no tools. And there is
//! no date: `strftime_now` is left undefined, so that a template that asks for it first
//! (Llama 3.2's does) writes the fixed date it has for that case, and the same model is
//! packed into the same image every day.

mod apart;
mod check;
mod jinja;
mod probe;
mod table;

use pocket_runtime::text::{ChatTemplate, Tokenizer};

use super::error::TemplateError;
use super::section::AlignedBytes;
pub(crate) use apart::{TEMPLATE_COMMAND, build_template_apart, serve_template};
use jinja::Jinja;
use table::Draft;

use crate::printable::printable;

/// Packs a chat template. The section belongs at a multiple of four bytes.
///
/// The template is run in this process: a hostile one can take all of its memory.
/// [`crate::pack::Options::template_program`] bounds it.
///
/// # Errors
/// [`TemplateError`] if the template can't be run or can't be expressed as a table.
pub fn build_template(jinja: &str, tokenizer: &Tokenizer<'_>) -> Result<Vec<u8>, TemplateError> {
    let text_of = |id: Option<u32>| {
        let bytes = id.and_then(|id| tokenizer.token_bytes(id)).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    let jinja = Jinja::new(jinja, text_of(tokenizer.bos()), text_of(tokenizer.eos()))?;
    let mut draft = probe::probe(&jinja)?;
    draft.stop_tokens = stop_tokens(&draft, tokenizer)?;
    check::check(&jinja, &mut draft)?;
    let section = draft.pack();
    ChatTemplate::open(&AlignedBytes::new(&section)).map_err(TemplateError::Unsound)?;
    Ok(section)
}

/// The tokens that end a reply: the one that the template writes behind it, and the
/// tokenizer's own.
fn stop_tokens(draft: &Draft, tokenizer: &Tokenizer<'_>) -> Result<Vec<u32>, TemplateError> {
    let end = draft.after_reply().unwrap_or_default().trim_start();
    let written = (1..=end.len()).rev().find_map(|len| tokenizer.id_of(end.as_bytes().get(..len)?));
    let mut tokens: Vec<u32> = written.into_iter().chain(tokenizer.eos()).collect();
    tokens.dedup();
    if tokens.is_empty() {
        return Err(TemplateError::NoStopToken { end: printable(end) });
    }
    Ok(tokens)
}

//! A reply: sample, show, append, until something ends it.
//!
//! ```text
//! logits ─Sampler─▶ token ─Tokenizer─▶ bytes ─Utf8Stream─▶ text ─StopStrings─▶ emit
//!    ▲                └──────────────── decode ◀─────────── nothing ends it
//!    └────────────────────────────────────┘
//! ```
//!
//! Every token that is shown is also appended to the session, and the token that ends a reply is not: so what a session
//! holds afterwards is the prompt and the reply, and a chat goes on from there.

use core::sync::atomic::{AtomicBool, Ordering};

use pocket_kernels::Kernels;

use crate::error::StepError;
use crate::log::log;
use crate::sampling::Sampler;
use crate::session::Session;
use crate::text::{StopStrings, Tokenizer, Utf8Stream};
use crate::workers::Workers;

/// What may end a reply.
#[derive(Debug)]
pub struct Until<'s, 'b> {
    /// Tokens that end it; they are neither shown nor appended.
    pub stop_tokens: &'s [u32],
    /// Strings that end it; neither they nor what follows is shown.
    pub stop_strings: &'s mut StopStrings<'b>,
    /// The most tokens that it may have.
    pub tokens: usize,
    /// Ends it from outside, before the next token; an interrupt may set it.
    pub cancel: &'s AtomicBool,
}

/// What ended a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Ending {
    /// The model, with this token.
    StopToken(u32),
    /// A stop string. The session holds tokens up to where it began, and some of its own; to go on as if it had ended
    /// with what was shown, go back to where the reply began and append that text.
    StopString,
    /// It has as many tokens as it may.
    Tokens,
    /// The session has no room for another token.
    ContextFull,
    /// Somebody cancelled it, by [`Until::cancel`] or [`Session::cancel_by`]; in the latter case the last token may be
    /// [pending](Session::pending).
    Cancelled,
}

/// A reply that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Reply {
    /// Tokens appended to the session, the last of them perhaps [pending](Session::pending).
    pub tokens: usize,
    /// What ended it.
    pub ending: Ending,
}

/// Takes a reply as it comes; a function that takes text is one.
pub trait Emit {
    /// Takes text, whole characters.
    fn text(&mut self, text: &str);

    /// Takes a token that will be appended, after the text that it completes; `count` of them are the reply so far.
    fn token(&mut self, id: u32, count: usize) {
        let _ = (id, count);
    }
}

impl<F: FnMut(&str)> Emit for F {
    fn text(&mut self, text: &str) {
        self(text);
    }
}

/// Whether a step was done, and not cancelled.
fn done(step: Result<(), StepError>) -> Result<bool, StepError> {
    match step {
        Err(StepError::Cancelled { .. }) => Ok(false),
        step => step.map(|()| true),
    }
}

impl<K: Kernels, W: Workers + ?Sized> Session<'_, K, W> {
    /// Generates a reply to the tokens that the session holds, and gives its text, whole characters at a time, and its
    /// tokens to `emit`. Control tokens are appended but not shown.
    ///
    /// # Errors
    /// [`StepError::NoLogits`] if nothing was processed before, [`StepError::NonFinite`] as in a step. What was held
    /// back of the text is then lost.
    pub fn generate(
        &mut self,
        tokenizer: &Tokenizer<'_>,
        sampler: &mut Sampler,
        until: Until<'_, '_>,
        mut emit: impl Emit,
    ) -> Result<Reply, StepError> {
        let Until { stop_tokens, stop_strings, tokens: most, cancel } = until;
        let mut characters = Utf8Stream::new();
        let mut tokens = 0;
        let ending = loop {
            if stop_strings.stopped() {
                break Ending::StopString;
            }
            if cancel.load(Ordering::Relaxed) || self.cancelled() {
                break Ending::Cancelled;
            }
            if !done(self.resume())? {
                break Ending::Cancelled;
            }
            if tokens == most {
                break Ending::Tokens;
            }
            if self.room() == 0 {
                break Ending::ContextFull;
            }
            let id = self.sample(sampler)?;
            if stop_tokens.contains(&id) {
                break Ending::StopToken(id);
            }
            // A padded vocabulary has rows that stand for no token and so for no text.
            let bytes = tokenizer.token_bytes(id).filter(|_| !tokenizer.is_control(id)).unwrap_or(&[]);
            characters.push(bytes, |text| {
                stop_strings.push(text, |text| emit.text(text));
            });
            if !stop_strings.stopped() {
                tokens = tokens.saturating_add(1);
                emit.token(id, tokens);
                let appended = done(self.decode(id))?;
                if !appended {
                    break Ending::Cancelled;
                }
            }
        };
        characters.finish(|text| {
            stop_strings.push(text, |text| emit.text(text));
        });
        stop_strings.finish(|text| emit.text(text));
        log!(info, "reply of {} tokens, ended by {}", tokens, ending);
        Ok(Reply { tokens, ending })
    }
}

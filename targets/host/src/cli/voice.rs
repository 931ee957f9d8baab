//! How a model is spoken to: its tokenizer, its template, and what ends its replies.

use std::sync::atomic::AtomicBool;

use anyhow::{Result, anyhow};
use clap::Args;
use pocket_kernels::Kernels;
use pocket_runtime::generate::{Ending, Reply, Until};
use pocket_runtime::text::{ChatTemplate, Specials, StopStrings, TextError, Tokenizer, Turn};
use pocket_runtime::{Error, Image, ImageError, Part, Sampler};

use super::arguments::SamplingArgs;
use super::machine::HostSession;
use crate::prompt::{Written, encode, normalised};

/// How the model is spoken to.
#[derive(Clone, Debug, Args)]
pub(super) struct VoiceArgs {
    /// Instructions that come before everything else [default: those of the image's prefix, or the template's].
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Continue the text as it stands, special tokens in it included, instead of putting it into the chat template.
    #[arg(long)]
    pub(super) raw: bool,
    /// End a reply before this text; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// The most tokens of a reply.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 512)]
    tokens: usize,
    #[command(flatten)]
    pub(super) sampling: SamplingArgs,
}

/// A model's text side, opened.
#[derive(Debug)]
pub(super) struct Voice<'a> {
    pub(super) tokenizer: Tokenizer<'a>,
    /// None if text is taken raw.
    pub(super) template: Option<ChatTemplate<'a>>,
    /// Instructions of the first turn.
    pub(super) system: Option<&'a str>,
    pub(super) sampler: Sampler,
    stop_tokens: Vec<u32>,
    stop_strings: &'a [String],
    tokens: usize,
}

impl VoiceArgs {
    /// Opens the text side of an image.
    pub(super) fn open<'a>(&'a self, image: &Image<'a>) -> Result<Voice<'a>> {
        let tokenizer = image.tokenizer()?;
        let template = match image.template() {
            _ if self.raw => None,
            Ok(template) => Some(template),
            Err(error @ ImageError::Missing { part: Part::Template }) => {
                return Err(anyhow!("{error}, or use --raw to continue text without one"));
            }
            Err(error) => return Err(error.into()),
        };
        let mut stop_tokens = image.stop_tokens().to_vec();
        stop_tokens.extend(template.iter().flat_map(ChatTemplate::stop_tokens));
        let sampler = Sampler::new(self.sampling.sampling(image.sampling())?, self.sampling.seed)?;
        let system = match (self.system.as_deref(), image.system_prompt()) {
            (Some(system), _) => Some(system),
            (None, Ok(system)) => Some(system),
            (None, Err(ImageError::Missing { .. })) => None,
            (None, Err(error)) => return Err(error.into()),
        };
        Ok(Voice { tokenizer, template, system, sampler, stop_tokens, stop_strings: &self.stop, tokens: self.tokens })
    }
}

impl Voice<'_> {
    /// Appends raw text; gives the number of tokens.
    pub(super) fn hear_raw<K: Kernels>(&self, session: &mut HostSession<'_, K>, text: &str) -> Result<usize> {
        let start = session.position();
        if let (0, true, Some(bos)) = (start, self.tokenizer.add_bos(), self.tokenizer.bos()) {
            session.prefill(&[bos])?;
        }
        let text = normalised(&self.tokenizer, text);
        self.hear(session, &text, Specials::Recognise)?;
        Ok(session.position() - start)
    }

    /// Appends turns and what begins a reply; gives the number of tokens. At the session's beginning they are the
    /// beginning of a chat, elsewhere they follow a reply.
    pub(super) fn hear_turns<K: Kernels>(
        &self,
        template: &ChatTemplate<'_>,
        session: &mut HostSession<'_, K>,
        turns: &[Turn<'_>],
    ) -> Result<usize> {
        let written = Written::new(&self.tokenizer, template, turns, session.position() == 0)?;
        self.hear(session, &written.text, written.specials())
    }

    /// Makes the session hold this chat and what begins a reply, keeping what it holds already; before any work it is
    /// clear whether it fits.
    pub(super) fn hear_again<K: Kernels>(
        &self,
        template: &ChatTemplate<'_>,
        session: &mut HostSession<'_, K>,
        turns: &[Turn<'_>],
    ) -> Result<()> {
        let ids = Written::new(&self.tokenizer, template, turns, true)?.tokens(&self.tokenizer)?;
        let context = session.plan().limits().context;
        if ids.len() > context as usize {
            return Err(does_not_fit(context, session.room()));
        }
        let same = ids.iter().zip(session.tokens()).take_while(|(new, old)| new == old).count();
        // The last token is computed in any case: the reply needs its logits.
        let keep = same.min(ids.len().saturating_sub(1));
        session.rewind(keep)?;
        Ok(session.prefill(&ids[keep..])?)
    }

    /// Whether a chat cannot go on by appending to it.
    pub(super) fn writes_anew(&self) -> bool {
        self.template.is_some_and(|template| !template.appends(None))
    }

    /// Appends text; before any work it is clear whether it fits.
    fn hear<K: Kernels>(&self, session: &mut HostSession<'_, K>, text: &str, specials: Specials<'_>) -> Result<usize> {
        let (room, context) = (session.room(), session.plan().limits().context);
        session.prefill_text(&self.tokenizer, text, specials).map_err(|error| match error {
            Error::Text(TextError::TooManyTokens { .. }) => does_not_fit(context, room),
            Error::Text(TextError::PieceTooLong { bytes, limit }) => anyhow!(
                "the text has a run of {bytes} bytes without any boundary, and the plan has room for {limit}; \
                 put spaces or line ends into it"
            ),
            Error::Step(error) => error.into(),
            error => error.into(),
        })
    }

    /// Generates a reply, gives its text to `emit` as it comes, and in the end; `cancel` ends it. The session then holds
    /// what was shown.
    pub(super) fn reply<K: Kernels>(
        &mut self,
        session: &mut HostSession<'_, K>,
        cancel: &AtomicBool,
        mut emit: impl FnMut(&str),
    ) -> Result<(String, Reply)> {
        let (start, mut text) = (session.position(), String::new());
        let stops: Vec<&str> = self.stop_strings.iter().map(String::as_str).collect();
        let mut held = vec![0; StopStrings::held_bytes(&stops)];
        let until = Until {
            stop_tokens: &self.stop_tokens,
            stop_strings: &mut StopStrings::new(&stops, &mut held)?,
            tokens: self.tokens,
            cancel,
        };
        let reply = session.generate(&self.tokenizer, &mut self.sampler, until, |piece: &str| {
            text.push_str(piece);
            emit(piece);
        })?;
        if reply.ending == Ending::StopString {
            self.keep_shown(session, start, &text)?;
        }
        Ok((text, reply))
    }

    /// Takes back what a stop string cut off a reply that began at `start`.
    fn keep_shown<K: Kernels>(&self, session: &mut HostSession<'_, K>, start: usize, shown: &str) -> Result<()> {
        let ids = encode(&self.tokenizer, shown, Specials::AsText)?;
        let said = session.tokens().get(start..).unwrap_or_default();
        let same = ids.iter().zip(said).take_while(|(new, old)| new == old).count();
        session.rewind(start + same)?;
        match ids.get(same..) {
            None | Some([]) => Ok(()),
            Some(rest) => Ok(session.prefill(rest)?),
        }
    }
}

fn does_not_fit(context: u32, room: usize) -> anyhow::Error {
    anyhow!(
        "the text does not fit: the context is planned for {context} positions and {room} of them are free; shorten \
         the text, start anew or use a larger --context"
    )
}

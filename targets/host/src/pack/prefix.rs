//! Baked prefixes: what most sessions begin with, computed when the image is packed.
//!
//! Keys and values are the same bits on every machine, so those that a developer's computes are those that a device
//! would: it begins where the prefix ends.

use std::num::NonZero;
use std::thread;

use pocket_kernels::Kernels;
use pocket_runtime::text::{ChatTemplate, Role, Specials, Tokenizer, Turn};
use pocket_runtime::{CacheType, Error, Image, ImageError, Limits};

use crate::isa::Isa;
use crate::machine::{HostSession, Machine, MachineError, UseSession};
use crate::prompt::{Written, encode, normalised};

/// What most sessions begin with.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<'a> {
    /// The instructions of a chat's first turn; for a model without a template, text as it stands.
    pub text: &'a str,
    /// The kind of attention cache that it is for.
    pub cache: CacheType,
}

/// Why a prefix was not computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// The model cannot take it.
    #[error(transparent)]
    Run(#[from] Error),
    /// It makes no token, or none that every chat with it begins with.
    #[error("the text makes no token that every session would begin with")]
    Empty,
    /// It is as long as the longest context.
    #[error("the text has {tokens} tokens and the model's longest context is {context}; shorten it")]
    TooLong {
        /// Its tokens.
        tokens: usize,
        /// Positions.
        context: u32,
    },
    /// The system has no memory or threads.
    #[error("the system grants no memory or threads for it: {0}")]
    System(#[from] std::io::Error),
}

impl From<MachineError> for PrefixError {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::Run(error) => Self::Run(error),
            MachineError::Memory { source, .. } | MachineError::Threads { source, .. } => Self::System(source),
            // A machine has its best kernels.
            MachineError::Isa(missing) => Self::System(std::io::Error::other(missing)),
        }
    }
}

/// A prefix that was computed.
pub(super) struct Baked {
    pub(super) tokens: usize,
    /// The bytes of a [`pocket_runtime::State`].
    pub(super) state: Vec<u8>,
    /// What the first turn of a chat must say.
    pub(super) system_prompt: Option<String>,
}

/// Computes the prefix of the image in `bytes`.
pub(super) fn bake(bytes: &[u8], prefix: &Prefix<'_>) -> Result<Baked, PrefixError> {
    let image = Image::open(bytes).map_err(Error::from)?;
    let tokenizer = image.tokenizer().map_err(Error::from)?;
    let text = normalised(&tokenizer, prefix.text);
    let (ids, system_prompt) = match image.template() {
        Ok(template) => (common_tokens(&tokenizer, &template, &text)?, Some(text.into_owned())),
        Err(ImageError::Missing { .. }) => (raw_tokens(&tokenizer, &text)?, None),
        Err(error) => return Err(Error::from(error).into()),
    };
    if ids.is_empty() {
        return Err(PrefixError::Empty);
    }
    let config = image.config();
    // There must be room for what follows.
    let (tokens, context) = (ids.len(), config.context);
    let planned = u32::try_from(tokens).ok().filter(|&tokens| tokens < context);
    let planned = planned.ok_or(PrefixError::TooLong { tokens, context })?;
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(256);
    let limits = Limits { cache: prefix.cache, workers: workers as u32, word_bytes: 0, ..Limits::new(planned) };
    let state = Machine::new(&image, &limits, Isa::best())?.with_session(&image, Prefill { ids: &ids })??;
    Ok(Baked { tokens, state, system_prompt })
}

/// Processes the tokens and saves the state.
struct Prefill<'a> {
    ids: &'a [u32],
}

impl UseSession for Prefill<'_> {
    type Out = Result<Vec<u8>, Error>;

    fn with<K: Kernels>(self, mut session: HostSession<'_, K>) -> Self::Out {
        session.prefill(self.ids)?;
        let mut state = vec![0; usize::try_from(session.state_bytes()).unwrap_or(usize::MAX)];
        let len = session.save(&mut state)?;
        state.truncate(len);
        Ok(state)
    }
}

/// The tokens that every chat begins with whose first turn are these instructions, whatever a user says then.
fn common_tokens(tokenizer: &Tokenizer<'_>, template: &ChatTemplate<'_>, system: &str) -> Result<Vec<u32>, Error> {
    let chat = |user: &str| -> Result<Vec<u32>, Error> {
        let turns = [Turn { role: Role::System, content: system }, Turn { role: Role::User, content: user }];
        Ok(Written::new(tokenizer, template, &turns, true)?.tokens(tokenizer)?)
    };
    // Two that have nothing in common, a letter and a digit.
    let (one, other) = (chat("a")?, chat("1")?);
    let same = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    Ok(one[..same].to_vec())
}

/// The tokens of text that no template writes.
fn raw_tokens(tokenizer: &Tokenizer<'_>, text: &str) -> Result<Vec<u32>, Error> {
    let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
    let rest = encode(tokenizer, text, Specials::Recognise)?;
    Ok(bos.into_iter().chain(rest).collect())
}

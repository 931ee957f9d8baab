//! How long it takes from nothing to the first token.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use pocket_kernels::Kernels;
use pocket_runtime::{Limits, Sampler, Sampling};
use serde::Serialize;

use super::arguments::Pages;
use super::machine::{HostSession, Machine, UseSession, load, open};
use crate::isa::Isa;

/// Tokens of the prompt.
const PROMPT: u32 = 16;

/// A first token, counted from before the image was opened, and again in the session that there is by then.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Start {
    workers: u32,
    prompt_tokens: u32,
    first_token_ms: f64,
    /// Prefill of the prompt and choice of the token alone.
    prefill_ms: f64,
}

impl Start {
    /// Opens the image, its file being in the system's cache, makes a session and computes the first token behind a short prompt.
    pub(super) fn measure(path: &Path, pages: Pages, isa: Isa, limits: &Limits) -> Result<Self> {
        // So that the file is in the system's cache, whatever became of it since.
        io::copy(&mut File::open(path)?, &mut io::sink())?;
        let begin = Instant::now();
        let file = load(path, pages)?;
        let image = open(&file)?;
        let prompt_tokens = PROMPT.min(limits.context);
        let vocabulary = image.config().vocabulary;
        let ids = (0..prompt_tokens).map(|i| i.wrapping_mul(2_654_435_761) % vocabulary).collect();
        let [first, again] = Machine::new(&image, limits, isa)?.with_session(&image, FirstToken { begin, ids })??;
        Ok(Self { workers: limits.workers, prompt_tokens, first_token_ms: first, prefill_ms: again })
    }

    pub(super) fn words(&self) -> String {
        let Self { workers, prompt_tokens, first_token_ms, prefill_ms } = self;
        format!(
            "{workers:>7}  {first_token_ms:.1} ms to the first token of {prompt_tokens}, {:.2} of its prefill alone",
            first_token_ms / prefill_ms
        )
    }
}

/// A prompt, and when the image began to be opened.
struct FirstToken {
    begin: Instant,
    ids: Vec<u32>,
}

impl UseSession for FirstToken {
    /// Milliseconds to the first token, and of doing it again.
    type Out = Result<[f64; 2]>;

    fn with<K: Kernels>(self, mut session: HostSession<'_, K>) -> Self::Out {
        let mut begin = self.begin;
        let mut sampler = Sampler::new(Sampling::GREEDY, 0)?;
        let mut times = [0.0; 2];
        for time in &mut times {
            session.prefill(&self.ids)?;
            session.sample(&mut sampler)?;
            *time = begin.elapsed().as_secs_f64() * 1e3;
            session.reset();
            begin = Instant::now();
        }
        Ok(times)
    }
}

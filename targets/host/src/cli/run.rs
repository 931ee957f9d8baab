//! `pocket run`: one prompt, one reply.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use pocket_kernels::Kernels;
use pocket_runtime::generate::{Ending, Reply};
use pocket_runtime::text::{Role, Turn};
use serde::Serialize;

use super::arguments::{IsaArgs, LimitArgs, PagesArgs};
use super::machine::{HostSession, Machine, Memory, UseSession, load, open};
use super::output::{per_second, print, print_json};
use super::state::StateArgs;
use super::voice::{Voice, VoiceArgs};

/// Answer one prompt.
///
/// The reply goes to stdout as it comes, on a terminal with its control characters shown, not sent; afterwards speed,
/// context and memory go to stderr. With --json everything goes to stdout as one object at the end.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// The image.
    image: PathBuf,
    /// What is asked, put into the model's chat template.
    #[arg(short, long, value_name = "TEXT")]
    prompt: String,
    #[command(flatten)]
    voice: VoiceArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    isa: IsaArgs,
    #[command(flatten)]
    pages: PagesArgs,
    #[command(flatten)]
    state: StateArgs,
    /// Print reply and figures as JSON.
    #[arg(long)]
    json: bool,
}

/// What came of a run.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    text: String,
    ending: &'static str,
    /// Taken up with --state.
    state_tokens: usize,
    prompt_tokens: usize,
    reply_tokens: usize,
    prefill_tok_s: Option<f64>,
    decode_tok_s: Option<f64>,
    seed: u64,
    context: u32,
    batch: u32,
    workers: u32,
    kv: &'static str,
    isa: &'static str,
    memory: Option<Memory>,
}

impl Run {
    pub(super) fn run(self) -> Result<()> {
        let file = load(&self.image, self.pages.pages)?;
        let image = open(&file)?;
        let voice = self.voice.open(&image)?;
        self.state.check(&voice)?;
        let mut machine = Machine::new(&image, &self.limits.limits(image.config()), self.isa.isa())?;
        let mut outcome = machine.with_session(&image, Answer { run: &self, voice })??;
        outcome.isa = machine.isa.name();
        let memory = Memory::now(&image, &machine.plan);
        outcome.memory = Some(memory);
        if self.json { print_json(&outcome) } else { outcome.print(&memory) }
    }
}

/// Answers the prompt once there is a session.
struct Answer<'a> {
    run: &'a Run,
    voice: Voice<'a>,
}

impl UseSession for Answer<'_> {
    type Out = Result<Outcome>;

    fn with<K: Kernels>(self, mut session: HostSession<'_, K>) -> Self::Out {
        let Self { run, mut voice } = self;
        run.state.take_up(&mut session)?;
        let state_tokens = session.position();
        let begin = Instant::now();
        let prompt_tokens = match voice.template {
            None => voice.hear_raw(&mut session, &run.prompt)?,
            Some(template) => {
                let system = voice.system.filter(|_| state_tokens == 0);
                let system = system.map(|content| Turn { role: Role::System, content });
                let user = Turn { role: Role::User, content: &run.prompt };
                let turns: Vec<Turn<'_>> = system.into_iter().chain([user]).collect();
                voice.hear_turns(&template, &mut session, &turns)?
            }
        };
        if prompt_tokens == 0 {
            bail!("the prompt makes no token, so there is nothing to continue; give some text with -p");
        }
        let prefill = begin.elapsed();

        let cancel = AtomicBool::new(false);
        let mut printed = Ok(());
        let begin = Instant::now();
        let (text, reply) = voice.reply(&mut session, &cancel, |piece| {
            if !run.json {
                printed = print(piece);
                // Nobody reads any more: what follows is not worth computing.
                cancel.store(printed.is_err(), Ordering::Relaxed);
            }
        })?;
        let decode = begin.elapsed();
        printed?;
        run.state.save(&session)?;
        Ok(Outcome::new(run, &session, (state_tokens, prompt_tokens, prefill), (text, reply, decode)))
    }
}

impl Outcome {
    fn new<K: Kernels>(
        run: &Run,
        session: &HostSession<'_, K>,
        (state_tokens, prompt_tokens, prefill): (usize, usize, Duration),
        (text, reply, decode): (String, Reply, Duration),
    ) -> Self {
        let limits = session.plan().limits();
        Self {
            text,
            ending: ending(reply.ending),
            state_tokens,
            prompt_tokens,
            reply_tokens: reply.tokens,
            prefill_tok_s: per_second(prompt_tokens, prefill.as_secs_f64()),
            decode_tok_s: per_second(reply.tokens, decode.as_secs_f64()),
            seed: run.voice.sampling.seed,
            context: limits.context,
            batch: limits.batch,
            workers: limits.workers,
            kv: run.limits.kv.name(),
            isa: "",
            memory: None,
        }
    }

    /// Prints the figures below the streamed text.
    fn print(&self, memory: &Memory) -> Result<()> {
        print("\n")?;
        let Self { state_tokens, prompt_tokens, reply_tokens, context, batch, workers, kv, isa, seed, ending, .. } =
            self;
        let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.1} tok/s"));
        let used = state_tokens + prompt_tokens + reply_tokens;
        let mut out = io::stderr().lock();
        writeln!(out)?;
        if *state_tokens > 0 {
            writeln!(out, "state    {state_tokens} tokens taken up")?;
        }
        writeln!(out, "prefill  {prompt_tokens} tokens, {}", rate(self.prefill_tok_s))?;
        writeln!(out, "decode   {reply_tokens} tokens, {}; ended by {ending}", rate(self.decode_tok_s))?;
        writeln!(
            out,
            "context  {used} of {context} positions; {kv} cache, batch {batch}, {workers} workers, {isa}, seed {seed}"
        )?;
        writeln!(out, "memory   {}", memory.planned())?;
        writeln!(out, "         {}", memory.measured())?;
        Ok(())
    }
}

/// What ended a reply, in words that stay the same.
pub(super) fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::StopToken(_) => "stop token",
        Ending::StopString => "stop string",
        Ending::Tokens => "token limit",
        Ending::ContextFull => "full context",
        Ending::Cancelled => "cancel",
        _ => "other",
    }
}

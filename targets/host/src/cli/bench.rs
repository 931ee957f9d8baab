//! `pocket bench`: tokens a second, and how much of the memory's speed that is.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::pool::Pool;
use anyhow::{Result, bail};
use clap::Args;
use pocket_kernels::Kernels;
use pocket_runtime::image::Role;
use pocket_runtime::{Image, Limits, Sampler, Sampling};
use serde::Serialize;

use super::arguments::{IsaArgs, Kv, PagesArgs, default_workers};
use super::machine::{HostSession, Machine, UseSession, load, open};
use super::output::{bytes, per_second, print_json};
use super::read_rate::Buffer;

/// Measure prefill and decode, and decode as a share of what the machine's memory allows.
///
/// Decoding a token reads all weights once. The rate at which plain memory can be read is measured in the same run, with
/// the same number of threads; `bus share` is decode tok/s × weight bytes a token ÷ that rate.
#[derive(Debug, Args)]
pub(super) struct Bench {
    /// The image.
    image: PathBuf,
    /// Tokens of the prompt; decoding begins behind them.
    #[arg(long, value_name = "N", default_value_t = 512)]
    prefill: u32,
    /// Tokens to decode.
    #[arg(long, value_name = "N", default_value_t = 128)]
    decode: u32,
    /// Numbers of workers [default: 1, and the machine's cores].
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    workers: Vec<u32>,
    /// Tokens of the prompt that are processed at once.
    #[arg(long, value_name = "N", default_value_t = 64)]
    batch: u32,
    /// How the attention cache stores its elements.
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    kv: Kv,
    #[command(flatten)]
    isa: IsaArgs,
    #[command(flatten)]
    pages: PagesArgs,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// What `bench` prints.
#[derive(Debug, Serialize)]
struct Figures {
    /// With the largest number of workers.
    read_gb_s: f64,
    weight_bytes_per_token: u64,
    isa: &'static str,
    kv: &'static str,
    batch: u32,
    runs: Vec<Figure>,
}

/// The figures of one number of workers.
#[derive(Debug, Serialize)]
struct Figure {
    workers: u32,
    /// Positions that the cache held when decoding began.
    depth: u32,
    prefill_tok_s: Option<f64>,
    decode_tok_s: Option<f64>,
    bus_share: Option<f64>,
    /// With this number of workers.
    read_gb_s: f64,
}

impl Bench {
    pub(super) fn run(self) -> Result<()> {
        let file = load(&self.image, self.pages.pages)?;
        let image = open(&file)?;
        let context = self.prefill.saturating_add(self.decode);
        if self.prefill == 0 || self.decode == 0 || context > image.config().context {
            bail!(
                "--prefill and --decode must be at least 1 and together at most the model's context of {}",
                image.config().context
            );
        }
        let mut counts = self.workers.clone();
        if counts.is_empty() {
            counts = vec![1, default_workers()];
            counts.dedup();
        }
        let isa = self.isa.isa();
        let weight_bytes = weight_bytes_per_token(&image);
        let mut buffer = Buffer::new(weight_bytes, self.pages.pages)?;
        let mut runs = Vec::new();
        for workers in counts {
            let limits =
                Limits { context, batch: self.batch.min(context), workers, cache: self.kv.cache(), word_bytes: 0 };
            let mut machine = Machine::new(&image, &limits, isa)?;
            let pool = Pool::new(workers as usize)?;
            let before = buffer.read_rate(isa, &pool)?;
            let Times { prefill, decode } = machine.with_session(&image, &self)?;
            // Whatever else the machine does now and then should not make decoding look better than reading.
            let rate = before.max(buffer.read_rate(isa, &pool)?);
            let decode_tok_s = per_second(self.decode as usize, decode.as_secs_f64());
            runs.push(Figure {
                workers,
                depth: self.prefill,
                prefill_tok_s: per_second(self.prefill as usize, prefill.as_secs_f64()),
                decode_tok_s,
                bus_share: decode_tok_s.map(|decode| decode * weight_bytes as f64 / rate),
                read_gb_s: rate / 1e9,
            });
        }
        let figures = Figures {
            read_gb_s: runs.iter().max_by_key(|run| run.workers).map_or(0.0, |run| run.read_gb_s),
            weight_bytes_per_token: weight_bytes,
            isa: isa.name(),
            kv: self.kv.name(),
            batch: self.batch.min(context),
            runs,
        };
        if self.json { print_json(&figures) } else { figures.print() }
    }
}

/// Bytes of weights that decoding a token reads: everything but the embedding, of which it reads one row, unless that
/// is also the head.
fn weight_bytes_per_token(image: &Image<'_>) -> u64 {
    let tied = image.config().tied;
    let read = image.tensors().iter().filter(|tensor| tied || tensor.role != Role::Embedding as u32);
    read.map(|tensor| tensor.data_bytes()).sum()
}

/// How long things took.
pub(super) struct Times {
    prefill: Duration,
    decode: Duration,
}

impl UseSession for &Bench {
    type Out = Times;

    fn with<K: Kernels>(self, mut session: HostSession<'_, K>) -> Result<Times> {
        let vocabulary = session.plan().config().vocabulary;
        // Tokens without a pattern: a multiplicative hash of their number.
        let ids: Vec<u32> = (0..self.prefill).map(|i| i.wrapping_mul(2_654_435_761) % vocabulary).collect();
        let mut sampler = Sampler::new(Sampling::GREEDY, 0)?;
        // The first batch pages the weights in and fills the cache's first pages.
        session.prefill(&ids[..ids.len().min(self.batch as usize)])?;
        session.reset();
        let begin = Instant::now();
        session.prefill(&ids)?;
        let prefill = begin.elapsed();
        let begin = Instant::now();
        for _ in 0..self.decode {
            let id = session.sample(&mut sampler)?;
            session.decode(id)?;
        }
        Ok(Times { prefill, decode: begin.elapsed() })
    }
}

impl Figures {
    fn print(&self) -> Result<()> {
        let mut out = io::stdout().lock();
        let Self { weight_bytes_per_token, isa, kv, batch, .. } = self;
        writeln!(
            out,
            "{isa}, {kv} cache, batch {batch}; a token reads {} of weights\n",
            bytes(*weight_bytes_per_token)
        )?;
        writeln!(out, "workers  depth  prefill tok/s  decode tok/s  read GB/s  bus share")?;
        for run in &self.runs {
            let Figure { workers, depth, prefill_tok_s, decode_tok_s, bus_share, read_gb_s } = run;
            let [prefill, decode, share] = [prefill_tok_s, decode_tok_s, bus_share].map(|x| x.unwrap_or(0.0));
            writeln!(
                out,
                "{workers:>7}  {depth:>5}  {prefill:>13.1}  {decode:>12.1}  {read_gb_s:>9.2}  {:>8.1}%",
                100.0 * share
            )?;
        }
        Ok(())
    }
}

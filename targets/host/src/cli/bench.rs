//! `pocket bench`: tokens a second, how much of the memory's speed that is, and what energy an answer takes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::energy::{Answer, BATTERY_JOULES, GOAL_SHARE, Meter, PROFILES, Profile, Work};
use crate::pool::Pool;
use anyhow::{Result, bail};
use clap::Args;
use pocket_kernels::Kernels;
use pocket_runtime::image::Role;
use pocket_runtime::{CacheType, Image, Limits, Sampler, Sampling};
use serde::Serialize;

use super::arguments::{IsaArgs, Kv, PagesArgs, default_workers};
use super::machine::{HostSession, Machine, UseSession, load, open};
use super::output::{bytes, per_second, print_json};
use super::read_rate::Buffer;
use super::stages::{Stage, Stages};
use super::start::Start;

/// Measure prefill and decode, and decode as a share of what the machine's memory allows.
///
/// Decoding a token reads all weights once. The rate at which plain memory can be read is measured in the same run, with
/// the same number of threads; `bus share` is decode tok/s × weight bytes a token ÷ that rate. The energy of an answer is
/// counted if the system shows a counter, and modelled from the bytes that it moves and the multiplications that it does.
/// How long the first token takes is counted from before the image is opened, its file being in the system's cache.
#[derive(Debug, Args)]
pub(super) struct Bench {
    /// The image.
    image: PathBuf,
    /// Tokens of the prompt; decoding begins behind them. Several are measured one after the other.
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "512")]
    prefill: Vec<u32>,
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
    /// Also measure every stage alone, on one worker: of a token, and of a batch behind the first --prefill tokens.
    #[arg(long)]
    stages: bool,
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
    starts: Vec<Start>,
    energy: Energy,
    stages: Vec<BatchStages>,
}

/// The stages of a batch.
#[derive(Debug, Serialize)]
struct BatchStages {
    tokens: u32,
    depth: u32,
    stages: Vec<Stage>,
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
    /// Counted by the system, if it does.
    prefill_j_per_token: Option<f64>,
    decode_j_per_token: Option<f64>,
}

impl Bench {
    pub(super) fn run(self) -> Result<()> {
        let file = load(&self.image, self.pages.pages)?;
        let image = open(&file)?;
        let most = self.prefill.iter().copied().max().unwrap_or(0);
        let context = most.saturating_add(self.decode);
        if self.prefill.contains(&0) || self.decode == 0 || context > image.config().context {
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
        let meter = Meter::find(Path::new("/sys"));
        let (mut runs, mut starts) = (Vec::new(), Vec::new());
        for workers in counts {
            let limits =
                Limits { context, batch: self.batch.min(context), workers, cache: self.kv.cache(), word_bytes: 0 };
            let mut machine = Machine::new(&image, &limits, isa)?;
            let pool = Pool::new(workers as usize)?;
            for &depth in &self.prefill {
                let before = buffer.read_rate(isa, &pool)?;
                let run = Measured { depth, decode: self.decode, batch: self.batch, meter: meter.as_ref() };
                let [prefill, decode] = machine.with_session(&image, run)??;
                // Whatever else the machine does now and then should not make decoding look better than reading.
                let rate = before.max(buffer.read_rate(isa, &pool)?);
                let decode_tok_s = per_second(self.decode as usize, decode.seconds);
                runs.push(Figure {
                    workers,
                    depth,
                    prefill_tok_s: per_second(depth as usize, prefill.seconds),
                    decode_tok_s,
                    bus_share: decode_tok_s.map(|decode| decode * weight_bytes as f64 / rate),
                    read_gb_s: rate / 1e9,
                    prefill_j_per_token: prefill.joules.map(|joules| joules / f64::from(depth)),
                    decode_j_per_token: decode.joules.map(|joules| joules / f64::from(self.decode)),
                });
            }
            starts.push(Start::measure(&self.image, self.pages.pages, isa, &limits)?);
        }
        let energy = Energy::new(&image, self.kv.cache(), self.batch, &runs, meter.as_ref());
        let mut stages = Vec::new();
        for tokens in [1, self.batch.min(context)].into_iter().filter(|_| self.stages) {
            let depth = self.prefill.first().copied().unwrap_or(0).min(image.config().context - tokens);
            let batch =
                Stages { image: &image, cache: self.kv.cache(), tokens: tokens as usize, depth: depth as usize };
            stages.push(BatchStages { tokens, depth, stages: isa.run(batch)?? });
        }
        let figures = Figures {
            read_gb_s: runs.iter().max_by_key(|run| run.workers).map_or(0.0, |run| run.read_gb_s),
            weight_bytes_per_token: weight_bytes,
            isa: isa.name(),
            kv: self.kv.name(),
            batch: self.batch.min(context),
            runs,
            starts,
            energy,
            stages,
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

/// A prompt and a reply to be measured.
struct Measured<'a> {
    depth: u32,
    decode: u32,
    batch: u32,
    meter: Option<&'a Meter>,
}

/// What something took.
pub(super) struct Cost {
    seconds: f64,
    joules: Option<f64>,
}

impl Measured<'_> {
    /// Measures some work.
    fn cost(&self, work: impl FnOnce() -> Result<()>) -> Result<Cost> {
        let before = self.meter.and_then(Meter::read);
        let begin = Instant::now();
        work()?;
        let seconds = begin.elapsed().as_secs_f64();
        let joules = self.meter.zip(before).and_then(|(meter, before)| meter.joules(&before, &meter.read()?));
        Ok(Cost { seconds, joules })
    }
}

impl UseSession for Measured<'_> {
    /// Of prefill and of decoding.
    type Out = Result<[Cost; 2]>;

    fn with<K: Kernels>(self, mut session: HostSession<'_, K>) -> Self::Out {
        let vocabulary = session.plan().config().vocabulary;
        // Tokens without a pattern: a multiplicative hash of their number.
        let ids: Vec<u32> = (0..self.depth).map(|i| i.wrapping_mul(2_654_435_761) % vocabulary).collect();
        let mut sampler = Sampler::new(Sampling::GREEDY, 0)?;
        // The first batch pages the weights in and fills the cache's first pages.
        session.prefill(&ids[..ids.len().min(self.batch as usize)])?;
        session.reset();
        let prefill = self.cost(|| Ok(session.prefill(&ids)?))?;
        let decode = self.cost(|| {
            for _ in 0..self.decode {
                let id = session.sample(&mut sampler)?;
                session.decode(id)?;
            }
            Ok(())
        })?;
        Ok([prefill, decode])
    }
}

impl BatchStages {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { tokens, depth, stages } = self;
        writeln!(out, "\nstages of {tokens} tokens at depth {depth}, one worker")?;
        writeln!(out, "stage                 µs/token   share  weights GB/s  G MAC/s")?;
        let whole: f64 = stages.iter().map(|stage| stage.us_per_token).sum();
        for Stage { name, us_per_token, weight_bytes, macs } in stages {
            let nanoseconds = us_per_token * f64::from(*tokens) * 1e3;
            let rate = |n: u64| if n == 0 { String::new() } else { format!("{:.1}", n as f64 / nanoseconds) };
            writeln!(
                out,
                "{name:<20}  {us_per_token:>8.1}  {:>5.1}%  {:>12}  {:>7}",
                100.0 * us_per_token / whole,
                rate(*weight_bytes),
                rate(*macs)
            )?;
        }
        Ok(())
    }
}

/// The energy of an answer.
#[derive(Debug, Serialize)]
struct Energy {
    answer: Answer,
    /// What counted, if something did.
    counter: Option<&'static str>,
    /// By the counter, with the largest number of workers.
    counted: Option<Share>,
    modelled: Vec<Modelled>,
    battery_joules: f64,
    goal_share: f64,
}

/// Joules of an answer, and what share of a phone's battery that is.
#[derive(Clone, Copy, Debug, Serialize)]
struct Share {
    joules: f64,
    battery_share: f64,
}

#[derive(Debug, Serialize)]
struct Modelled {
    profile: Profile,
    #[serde(flatten)]
    share: Share,
}

impl Share {
    fn of(joules: f64) -> Self {
        Self { joules, battery_share: joules / BATTERY_JOULES }
    }

    fn words(self) -> String {
        let Self { joules, battery_share } = self;
        format!("{joules:.1} J, 1/{:.0} of a phone's battery", 1.0 / battery_share)
    }
}

/// The answer whose energy is stated: a short question and a paragraph.
const ANSWER: Answer = Answer { prompt: 64, reply: 128 };

impl Energy {
    fn new(image: &Image<'_>, cache: CacheType, batch: u32, runs: &[Figure], meter: Option<&Meter>) -> Self {
        let head_bytes = image.weights().head.bytes() as u64;
        let layer_bytes = weight_bytes_per_token(image).saturating_sub(head_bytes);
        let work = Work::of(image.config(), (layer_bytes, head_bytes), cache, batch, ANSWER);
        let Answer { prompt, reply } = ANSWER;
        let of_answer = |prefill: f64, decode: f64| f64::from(prompt) * prefill + f64::from(reply) * decode;
        let last = runs.last();
        let seconds = last.and_then(|run| Some(of_answer(1.0 / run.prefill_tok_s?, 1.0 / run.decode_tok_s?)));
        let modelled = seconds.into_iter().flat_map(|seconds| {
            PROFILES.map(|profile| Modelled { profile, share: Share::of(profile.joules(work, seconds)) })
        });
        let counted = last.and_then(|run| Some(of_answer(run.prefill_j_per_token?, run.decode_j_per_token?)));
        Self {
            answer: ANSWER,
            counter: meter.map(Meter::name),
            counted: counted.map(Share::of),
            modelled: modelled.collect(),
            battery_joules: BATTERY_JOULES,
            goal_share: GOAL_SHARE,
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Answer { prompt, reply } = self.answer;
        writeln!(
            out,
            "\nenergy of an answer of {reply} tokens to {prompt}; the goal is 1/{:.0}",
            1.0 / self.goal_share
        )?;
        match (self.counter, self.counted) {
            (Some(counter), Some(share)) => writeln!(out, "counted   {} ({counter})", share.words())?,
            _ => writeln!(out, "counted   not available: this system shows no counter to this user")?,
        }
        for Modelled { profile, share } in &self.modelled {
            writeln!(out, "modelled  {} ({})", share.words(), profile.name)?;
        }
        Ok(())
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
            let Figure { workers, depth, prefill_tok_s, decode_tok_s, bus_share, read_gb_s, .. } = run;
            let [prefill, decode, share] = [prefill_tok_s, decode_tok_s, bus_share].map(|x| x.unwrap_or(0.0));
            writeln!(
                out,
                "{workers:>7}  {depth:>5}  {prefill:>13.1}  {decode:>12.1}  {read_gb_s:>9.2}  {:>8.1}%",
                100.0 * share
            )?;
        }
        writeln!(out, "\nworkers  from opening the image")?;
        self.starts.iter().try_for_each(|start| writeln!(out, "{}", start.words()))?;
        self.energy.print(&mut out)?;
        self.stages.iter().try_for_each(|batch| batch.print(&mut out))?;
        Ok(())
    }
}

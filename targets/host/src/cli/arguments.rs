//! Arguments that several commands share, and how their values are written.

use std::str::FromStr;
use std::thread;

use crate::isa::Isa;
use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use pocket_runtime::{CacheType, Config, Limits, Sampling};

/// The context that is planned unless another is asked for.
const DEFAULT_CONTEXT: u32 = 2048;
/// The name that stands for the fastest instruction set.
const AUTO: &str = "auto";

/// How the attention cache stores its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kv {
    /// Binary16: 2 bytes an element.
    F16,
    /// Signed bytes with a scale: half of that.
    I8,
}

impl Kv {
    pub(super) fn cache(self) -> CacheType {
        match self {
            Self::F16 => CacheType::F16,
            Self::I8 => CacheType::I8,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::I8 => "i8",
        }
    }
}

/// The limits of a session.
#[derive(Clone, Debug, Args)]
pub(super) struct LimitArgs {
    /// Positions that are planned, prompt and reply together [default: 2048, or the model's if that is less].
    #[arg(long, value_name = "N")]
    pub(super) context: Option<u32>,
    /// Tokens of a prompt that are processed at once; changes speed and memory, never results [default: 64].
    #[arg(long, value_name = "N")]
    pub(super) batch: Option<u32>,
    /// Threads that share the work [default: the machine's cores].
    #[arg(long, value_name = "N")]
    pub(super) workers: Option<u32>,
    /// How the attention cache stores its elements.
    #[arg(long, value_enum, default_value_t = Kv::F16)]
    pub(super) kv: Kv,
}

impl LimitArgs {
    /// The limits for a model.
    pub(super) fn limits(&self, config: &Config) -> Limits {
        let defaults = Limits::new(self.context.unwrap_or(DEFAULT_CONTEXT.min(config.context)));
        Limits {
            batch: self.batch.unwrap_or(defaults.batch),
            workers: self.workers.unwrap_or_else(default_workers),
            cache: self.kv.cache(),
            ..defaults
        }
    }
}

/// As many workers as the machine has cores for this process.
pub(super) fn default_workers() -> u32 {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(u32::MAX).clamp(1, 256)
}

/// Where an image is while it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Pages {
    /// The mapped file: starts at once, shared between processes, and the system's to drop.
    Mapped,
    /// Read once into memory of huge pages, where the system has them: reads faster from then on.
    Huge,
}

/// The choice of memory for an image.
#[derive(Clone, Debug, Args)]
pub(super) struct PagesArgs {
    /// The memory that the image is used from.
    #[arg(long, value_enum, default_value_t = Pages::Mapped)]
    pub(super) pages: Pages,
}

/// The choice of an instruction set.
#[derive(Clone, Debug, Args)]
pub(super) struct IsaArgs {
    /// Instruction set of the kernels; `auto` is the fastest that this machine has.
    #[arg(long, default_value = AUTO, value_parser = isa_parser(AUTO))]
    isa: IsaChoice,
}

impl IsaArgs {
    pub(super) fn isa(&self) -> Isa {
        self.isa.0.unwrap_or_else(Isa::best)
    }
}

/// An instruction set, or the word that stands for no particular one.
#[derive(Clone, Copy, Debug)]
pub(super) struct IsaChoice(pub(super) Option<Isa>);

/// Parses the name of an instruction set that this build knows, or `word`.
pub(super) fn isa_parser(word: &'static str) -> impl TypedValueParser<Value = IsaChoice> {
    let names = [word].into_iter().chain(Isa::ALL.iter().map(|isa| isa.name()));
    PossibleValuesParser::new(names).map(|name| IsaChoice(Isa::from_name(&name)))
}

/// How tokens are drawn. What is not said is as the model's author recommends.
#[derive(Clone, Debug, Args)]
pub(super) struct SamplingArgs {
    /// Always take the most likely token.
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "min_p", "repetition_penalty"])]
    greedy: bool,
    /// Divide the logits by this; 0 is greedy [default: the model's].
    #[arg(long, value_name = "T")]
    temperature: Option<f32>,
    /// Draw from the K most likely tokens; 0 is all [default: the model's].
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,
    /// Draw from the fewest tokens whose probabilities reach P; 1 is all [default: the model's].
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Draw from tokens at least P times as likely as the most likely one; 0 is all [default: the model's].
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,
    /// Make tokens that came before less likely by this factor; 1 is not at all [default: the model's].
    #[arg(long, value_name = "F")]
    repetition_penalty: Option<f32>,
    /// Seed of the random numbers: the same seed gives the same text on every machine.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
}

impl SamplingArgs {
    /// The settings for a model that recommends these.
    pub(super) fn sampling(&self, model: Sampling) -> Result<Sampling> {
        if self.greedy {
            return Ok(Sampling::GREEDY);
        }
        let sampling = Sampling {
            temperature: self.temperature.unwrap_or(model.temperature),
            top_k: self.top_k.unwrap_or(model.top_k),
            top_p: self.top_p.unwrap_or(model.top_p),
            min_p: self.min_p.unwrap_or(model.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(model.repetition_penalty),
            ..model
        };
        sampling.check()?;
        let filters = self.top_k.is_some() || self.top_p.is_some() || self.min_p.is_some();
        if sampling.temperature == 0.0 && filters {
            bail!(
                "--top-k, --top-p and --min-p do nothing at temperature 0, which is this model's; add --temperature 1"
            );
        }
        Ok(sampling)
    }
}

/// Token ids: numbers between commas or white space, as a JSON list or bare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ids(pub(super) Vec<u32>);

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.trim();
        let bare = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(bare);
        let numbers = bare.split(|c: char| c == ',' || c.is_whitespace()).filter(|number| !number.is_empty());
        let number = |number: &str| number.parse().map_err(|_| format!("{number:?} is no token id"));
        numbers.map(number).collect::<Result<_, _>>().map(Self)
    }
}

/// A number of bytes: `300MB` (10⁶), `300MiB` (2²⁰), or plain bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteCount(pub(super) u64);

impl FromStr for ByteCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const UNITS: [(&str, u64); 8] = [
            ("", 1),
            ("b", 1),
            ("kb", 1_000),
            ("mb", 1_000_000),
            ("gb", 1_000_000_000),
            ("kib", 1 << 10),
            ("mib", 1 << 20),
            ("gib", 1 << 30),
        ];
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim().to_ascii_lowercase();
        let wrong = || format!("{text:?} is no number of bytes; write it like 300MB, 286MiB or 300000000");
        let (_, factor) = UNITS.into_iter().find(|&(name, _)| name == unit).ok_or_else(wrong)?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Self).ok_or_else(wrong);
        }
        let bytes = number.parse::<f64>().map_err(|_| wrong())? * factor as f64;
        if bytes < u64::MAX as f64 { Ok(Self(bytes as u64)) } else { Err(wrong()) }
    }
}

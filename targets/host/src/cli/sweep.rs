//! `pocket sweep`: what other shapes would cost.

use std::io::{self, Write};

use anyhow::{Result, bail};
use clap::Args;
use pocket_runtime::{Config, Limits, Plan};
use serde::Serialize;

use super::arguments::{IsaArgs, LimitArgs, Pages};
use super::output::{bytes, print_json};
use super::read_rate::Buffer;
use super::shape::shapes;
use crate::pool::Pool;
use crate::synth::{SHAPES, Shape, weights};

/// Bytes of the tokenizer section a token, as in an image of 65,536 tokens.
const TOKENIZER_BYTES_PER_TOKEN: u64 = 31;

/// Compare shapes of models before one is trained.
///
/// For every combination of layers, hidden size and vocabulary: parameters, image, memory peak, and how fast tokens can be
/// decoded at most, which is as fast as this machine reads their weights (4 bits, groups of 64). Heads and feed-forward
/// size grow with the hidden size as in --shape.
#[derive(Debug, Args)]
pub(super) struct Sweep {
    /// The model whose proportions are kept.
    #[arg(long, default_value = SHAPES[0].name, value_parser = shapes())]
    shape: Shape,
    /// Transformer blocks [default: the model's, and a quarter less and more].
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    layers: Vec<u32>,
    /// Elements of the hidden state [default: the model's].
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    hidden: Vec<u32>,
    /// Tokens [default: the model's, and half and twice as many].
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    vocabulary: Vec<u32>,
    /// GB/s that memory can be read with, instead of measuring it here.
    #[arg(long, value_name = "GB/S")]
    read_gb_s: Option<f64>,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    isa: IsaArgs,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// A shape and what it costs.
#[derive(Debug, Serialize)]
struct Row {
    layers: u32,
    hidden: u32,
    vocabulary: u32,
    parameters: u64,
    image_bytes: u64,
    peak_bytes: u64,
    weight_bytes_per_token: u64,
    decode_tok_s: f64,
}

#[derive(Debug, Serialize)]
struct Outcome {
    read_gb_s: f64,
    context: u32,
    workers: u32,
    rows: Vec<Row>,
}

impl Sweep {
    pub(super) fn run(self) -> Result<()> {
        let base = self.shape.config;
        let limits = self.limits.limits(&base);
        let rate = match self.read_gb_s {
            Some(rate) if rate > 0.0 && rate.is_finite() => rate * 1e9,
            Some(rate) => bail!("--read-gb-s {rate} is no rate; give GB/s above 0"),
            None => {
                let pool = Pool::new(limits.workers as usize)?;
                Buffer::new(weights(&base).bytes, Pages::Mapped)?.read_rate(self.isa.isa(), &pool)?
            }
        };
        let or = |given: &[u32], usual: &[u32]| if given.is_empty() { usual.to_vec() } else { given.to_vec() };
        let all_layers = or(&self.layers, &[base.layers - base.layers / 4, base.layers, base.layers + base.layers / 4]);
        let all_hidden = or(&self.hidden, &[base.hidden]);
        let all_vocabulary = or(&self.vocabulary, &[base.vocabulary / 2, base.vocabulary, base.vocabulary * 2]);
        let mut rows = Vec::new();
        for &layers in &all_layers {
            for &hidden in &all_hidden {
                for &vocabulary in &all_vocabulary {
                    rows.push(row(&scaled(&base, layers, hidden, vocabulary), &limits, rate)?);
                }
            }
        }
        let outcome = Outcome { read_gb_s: rate / 1e9, context: limits.context, workers: limits.workers, rows };
        if self.json { print_json(&outcome) } else { outcome.print() }
    }
}

/// The shape with other numbers and the same proportions.
fn scaled(base: &Config, layers: u32, hidden: u32, vocabulary: u32) -> Config {
    let of = |n: u32, step: u32| {
        let scaled = u64::from(n) * u64::from(hidden) / u64::from(base.hidden);
        u32::try_from(scaled.next_multiple_of(u64::from(step))).unwrap_or(u32::MAX)
    };
    let heads = of(base.heads, base.kv_heads);
    Config { layers, hidden, vocabulary, heads, ffn: of(base.ffn, 64), ..*base }
}

fn row(config: &Config, limits: &Limits, rate: f64) -> Result<Row> {
    let plan = Plan::try_new(config, limits)?;
    let counted = weights(config);
    let image_bytes = counted.bytes + u64::from(config.vocabulary) * TOKENIZER_BYTES_PER_TOKEN;
    let weight_bytes_per_token = counted.layer_bytes + counted.head_bytes;
    Ok(Row {
        layers: config.layers,
        hidden: config.hidden,
        vocabulary: config.vocabulary,
        parameters: counted.parameters,
        image_bytes,
        peak_bytes: plan.peak_bytes(0) as u64 + image_bytes,
        weight_bytes_per_token,
        decode_tok_s: rate / weight_bytes_per_token as f64,
    })
}

impl Outcome {
    fn print(&self) -> Result<()> {
        let mut out = io::stdout().lock();
        let Self { read_gb_s, context, workers, rows } = self;
        writeln!(out, "memory reads {read_gb_s:.1} GB/s on {workers} workers; context {context}\n")?;
        writeln!(out, "layers  hidden  vocabulary  parameters      image       peak  decode tok/s, at most")?;
        for row in rows {
            let Row { layers, hidden, vocabulary, parameters, image_bytes, peak_bytes, decode_tok_s, .. } = row;
            let millions = *parameters as f64 / 1e6;
            let [image, peak] = [image_bytes, peak_bytes].map(|&n| bytes(n));
            writeln!(
                out,
                "{layers:>6}  {hidden:>6}  {vocabulary:>10}  {millions:>8.1} M  {image:>9}  {peak:>9}  {decode_tok_s:>21.1}"
            )?;
        }
        Ok(())
    }
}

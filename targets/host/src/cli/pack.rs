//! `pocket pack`: GGUF in, image out.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::pack::{Conversion, Options, Prefix, Progress, Quant, Report, pack_file};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::arguments::Kv;
use super::output::{bytes, print_json};
use crate::printable::one_line;

/// Pack a GGUF file into an image.
///
/// Reads GGUF version 2 and 3 with architecture `llama` or `qwen3`. Q4_0, Q4_1 and Q8_0 are kept as they are; F32, F16
/// and BF16 become what --quant says; other types become 8 bits, and the error that this adds is printed. The output
/// is written beside its place and then renamed: it is whole or not there.
#[derive(Debug, Args)]
pub(super) struct Pack {
    /// The GGUF file.
    #[arg(value_name = "IN.gguf")]
    input: PathBuf,
    /// The image to write.
    #[arg(short, long, value_name = "OUT.pocket")]
    output: PathBuf,
    /// What matrices of floats become.
    #[arg(long, value_enum, default_value_t = QuantChoice::Q8)]
    quant: QuantChoice,
    /// Compute this text now, so that sessions begin behind it: the instructions of a chat's first turn, which `run` and
    /// `chat` then give by themselves; for a model without a chat template, what every prompt begins with.
    #[arg(long, value_name = "FILE")]
    prefix: Option<PathBuf>,
    /// The kind of attention cache that the prefix is for.
    #[arg(long, value_enum, default_value_t = Kv::F16, requires = "prefix")]
    kv: Kv,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum QuantChoice {
    /// 8 bits, groups of 32.
    Q8,
    /// 4 bits, groups of 32.
    Q4,
}

impl Pack {
    pub(super) fn run(self) -> Result<()> {
        let quant = match self.quant {
            QuantChoice::Q8 => Quant::Q8,
            QuantChoice::Q4 => Quant::Q4,
        };
        let text = self.prefix.as_deref().map(read_prefix).transpose()?;
        let prefix = text.as_deref().map(|text| Prefix { text, cache: self.kv.cache() });
        let program =
            env::current_exe().context("the path of this program, which runs the chat template, is not known")?;
        // Drawn on stderr, and only if that is a terminal.
        let bar = ProgressBar::new(0)
            .with_style(ProgressStyle::with_template("packing {bar:40} {bytes}/{total_bytes} {bytes_per_sec}")?);
        let mut progress = |Progress { done, total }| {
            bar.set_length(total);
            bar.set_position(done);
        };
        let options = Options { quant, prefix, template_program: Some(&program) };
        let packed = pack_file(&self.input, &self.output, &options, &mut progress);
        bar.finish_and_clear();
        let report = packed?;
        if self.json { print_json(&report) } else { self.print(&report) }
    }

    fn print(&self, report: &Report) -> Result<()> {
        let mut out = io::stdout().lock();
        let Report { image_bytes, weight_bytes, parameters, prefix_tokens, conversions, notes } = report;
        writeln!(
            out,
            "{}: {}, {:.1} M parameters, {:.2} bits a weight",
            self.output.display(),
            bytes(*image_bytes),
            *parameters as f64 / 1e6,
            *weight_bytes as f64 * 8.0 / (*parameters).max(1) as f64
        )?;
        if let Some(tokens) = prefix_tokens {
            writeln!(out, "a prefix of {tokens} tokens is computed")?;
        }
        if conversions.is_empty() {
            writeln!(out, "every tensor was kept without loss")?;
        }
        for (kind, (tensors, error)) in kinds(conversions) {
            writeln!(out, "{kind}: {tensors} tensors, relative error at most {error:.4}")?;
        }
        for note in notes {
            writeln!(out, "note: {}", one_line(note))?;
        }
        Ok(())
    }
}

/// The text of a prefix, without the line's end that editors put behind it.
fn read_prefix(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read as text", path.display()))?;
    let text = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text)).unwrap_or(&text);
    Ok(text.to_owned())
}

/// For each kind of conversion how many tensors there were, and the largest error.
fn kinds(conversions: &[Conversion]) -> BTreeMap<String, (usize, f64)> {
    let mut kinds = BTreeMap::new();
    for Conversion { from, to, relative_error, .. } in conversions {
        let (tensors, error) = kinds.entry(format!("{from} to {to}")).or_insert((0, 0.0));
        *tensors += 1;
        *error = relative_error.max(*error);
    }
    kinds
}

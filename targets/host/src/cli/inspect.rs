//! `pocket inspect`: what is in an image.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use pocket_runtime::image::{SectionRecord, TensorRecord};
use pocket_runtime::{Config, Image, ImageError, Part, Sampling};
use serde::Serialize;
use serde_json::{Value, json};

use super::machine::{map, open};
use super::output::{bytes, hex, print_json};
use crate::printable::one_line;

/// Show what an image holds: shape, sections, tensors by format, text tables, and where it came from.
#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// The image.
    image: PathBuf,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

/// What `inspect` shows.
#[derive(Debug, Serialize)]
struct Facts {
    image_bytes: u64,
    /// The public key of whoever says to have signed it.
    signer: Option<String>,
    parameters: u64,
    bits_per_weight: f64,
    config: Value,
    sections: Vec<Section>,
    formats: BTreeMap<&'static str, Tensors>,
    tokenizer: Option<TokenizerFacts>,
    template: Option<TemplateFacts>,
    sampling: Value,
    stop_tokens: Vec<u32>,
    provenance: Value,
}

#[derive(Debug, Serialize)]
struct Section {
    name: String,
    offset: u64,
    bytes: u64,
    crc32c: String,
    sha256: String,
}

/// Tensors of one format.
#[derive(Debug, Default, Serialize)]
struct Tensors {
    tensors: u64,
    elements: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct TokenizerFacts {
    vocabulary: u32,
    special_tokens: usize,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    nfc: bool,
}

#[derive(Debug, Serialize)]
struct TemplateFacts {
    stop_tokens: Vec<u32>,
    appends: bool,
}

impl Inspect {
    pub(super) fn run(self) -> Result<()> {
        let file = map(&self.image)?;
        let facts = Facts::of(&open(&file)?)?;
        if self.json { print_json(&facts) } else { facts.print() }
    }
}

impl Facts {
    fn of(image: &Image<'_>) -> Result<Self> {
        let mut formats: BTreeMap<&'static str, Tensors> = BTreeMap::new();
        for tensor in image.tensors() {
            let name = tensor.quantisation().map_or("f32", |format| format.name());
            formats.entry(name).or_default().add(tensor);
        }
        let total = |part: fn(&Tensors) -> u64| formats.values().map(part).sum::<u64>();
        let (parameters, weight_bytes) = (total(|t| t.elements), total(|t| t.bytes));
        let tokenizer = present(image.tokenizer())?.map(|tokenizer| TokenizerFacts {
            vocabulary: tokenizer.vocabulary(),
            special_tokens: (0..tokenizer.vocabulary()).filter(|&id| tokenizer.is_special(id)).count(),
            bos: tokenizer.bos(),
            eos: tokenizer.eos(),
            add_bos: tokenizer.add_bos(),
            nfc: tokenizer.wants_nfc(),
        });
        let template = present(image.template())?.map(|template| TemplateFacts {
            stop_tokens: template.stop_tokens().to_vec(),
            appends: template.appends(None),
        });
        Ok(Self {
            image_bytes: image.bytes().len() as u64,
            signer: image.signature().map(|signature| hex(&signature.public_key)),
            parameters,
            bits_per_weight: weight_bytes as f64 * 8.0 / parameters.max(1) as f64,
            config: config(image.config()),
            sections: image.sections().iter().map(Section::of).collect(),
            formats,
            tokenizer,
            template,
            sampling: sampling(&image.sampling()),
            stop_tokens: image.stop_tokens().to_vec(),
            provenance: serde_json::from_str(image.provenance()).unwrap_or(Value::Null),
        })
    }

    fn print(&self) -> Result<()> {
        let mut out = io::stdout().lock();
        let millions = self.parameters as f64 / 1e6;
        let (size, bits) = (bytes(self.image_bytes), self.bits_per_weight);
        writeln!(out, "image        {size}, {millions:.1} M parameters, {bits:.2} bits a weight")?;
        writeln!(out, "signer       {}", self.signer.as_deref().unwrap_or("none"))?;
        writeln!(out, "config       {}", words(&self.config))?;
        writeln!(out, "\n{:<22} {:>12} {:>12}  {:<9} sha-256", "section", "offset", "bytes", "crc-32c")?;
        for Section { name, offset, bytes, crc32c, sha256 } in &self.sections {
            writeln!(out, "{name:<22} {offset:>12} {bytes:>12}  {crc32c}  {:.16}…", sha256)?;
        }
        writeln!(out, "\n{:<8} {:>8} {:>13} {:>12}  bits a weight", "format", "tensors", "elements", "bytes")?;
        for (name, Tensors { tensors, elements, bytes }) in &self.formats {
            let bits = *bytes as f64 * 8.0 / (*elements).max(1) as f64;
            writeln!(out, "{name:<8} {tensors:>8} {elements:>13} {bytes:>12}  {bits:.2}")?;
        }
        let facts = |facts: Option<Value>| facts.map_or_else(|| "none".to_owned(), |facts| words(&facts));
        let value = |value: &Option<TokenizerFacts>| value.as_ref().map(|facts| json!(facts));
        writeln!(out, "\ntokenizer    {}", facts(value(&self.tokenizer)))?;
        writeln!(out, "template     {}", facts(self.template.as_ref().map(|facts| json!(facts))))?;
        writeln!(out, "sampling     {}", words(&self.sampling))?;
        writeln!(out, "stop tokens  {}", json!(self.stop_tokens))?;
        if let Value::Object(provenance) = &self.provenance {
            writeln!(out)?;
            for (name, value) in provenance {
                // A list of a line each is for --json.
                let shown = match value {
                    Value::Array(list) => list.len().to_string(),
                    value => word(value),
                };
                writeln!(out, "{:<16} {}", one_line(name), one_line(&shown))?;
            }
        }
        Ok(())
    }
}

impl Tensors {
    fn add(&mut self, tensor: &TensorRecord) {
        self.tensors += 1;
        self.elements += u64::from(tensor.rows) * u64::from(tensor.columns);
        self.bytes += tensor.data_bytes();
    }
}

impl Section {
    fn of(record: &SectionRecord) -> Self {
        let name = record.part().to_string();
        let (crc32c, sha256) = (format!("{:08x}", record.crc), hex(&record.sha256));
        Self { name, offset: record.offset, bytes: record.len, crc32c, sha256 }
    }
}

/// A part that an image may lack.
fn present<T>(part: Result<T, ImageError>) -> Result<Option<T>> {
    match part {
        Ok(part) => Ok(Some(part)),
        Err(ImageError::Missing { part: Part::Tokenizer | Part::Template }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn config(config: &Config) -> Value {
    let groups = &config.groups;
    json!({
        "layers": config.layers,
        "hidden": config.hidden,
        "heads": config.heads,
        "kv_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "ffn": config.ffn,
        "vocabulary": config.vocabulary,
        "context": config.context,
        "rms_eps": config.rms_eps,
        "qk_norm": config.qk_norm,
        "tied": config.tied,
        "groups": {
            "qkv": groups.qkv.columns(),
            "attention_output": groups.attention_output.columns(),
            "gate_up": groups.gate_up.columns(),
            "down": groups.down.columns(),
            "head": groups.head.columns(),
        },
    })
}

fn sampling(sampling: &Sampling) -> Value {
    json!({
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "penalty_window": sampling.penalty_window,
    })
}

/// The fields of an object on one line.
fn words(value: &Value) -> String {
    let Value::Object(fields) = value else { return word(value) };
    let fields = fields.iter().map(|(name, value)| match value {
        Value::Object(_) => format!("{name} ({})", words(value)),
        value => format!("{name} {}", word(value)),
    });
    fields.collect::<Vec<_>>().join(", ")
}

/// A value without quotes.
fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        value => value.to_string(),
    }
}

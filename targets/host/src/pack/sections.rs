//! The sections beside the weights: text, defaults for generation, origin.

use std::path::Path;

use pocket_runtime::Sampling;
use pocket_runtime::image::GenerationRecord;
use pocket_runtime::text::{ChatTemplate, Tokenizer};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::error::PackError;
use crate::gguf::{Gguf, Value};
use crate::text::{AlignedBytes, TokenizerSource, build_template, build_template_apart, build_tokenizer};

/// Tokenizer, template and defaults of a model.
pub(super) struct Text {
    pub(super) tokenizer: Vec<u8>,
    pub(super) template: Option<Vec<u8>>,
    pub(super) generation: GenerationRecord,
    /// What a user should know.
    pub(super) notes: Vec<String>,
}

impl Text {
    /// Builds the text sections of a model whose embedding has this many rows; the template is run by `program`, or here.
    pub(super) fn build(gguf: &Gguf<'_>, rows: u32, program: Option<&Path>) -> Result<Self, PackError> {
        let source = TokenizerSource::from_gguf(gguf)?;
        let bytes = build_tokenizer(&source)?;
        let aligned = AlignedBytes::new(&bytes);
        let tokenizer = Tokenizer::open(&aligned).map_err(|reason| PackError::Defect(reason.into()))?;
        // A vocabulary may be padded, but every token needs its row.
        if tokenizer.vocabulary() > rows {
            return Err(PackError::Vocabulary { tokens: tokenizer.vocabulary(), rows });
        }
        let mut notes = Vec::new();
        let template = template(gguf, (&tokenizer, &bytes), program, &mut notes)?;
        let stop = stop_tokens(gguf, &tokenizer, template.as_deref())?;
        let generation = GenerationRecord::new(&sampling(gguf, &mut notes)?, &stop);
        if stop.is_empty() {
            notes.push("no token is known to end a reply; use a token limit or stop strings".to_owned());
        }
        Ok(Self { tokenizer: bytes, template, generation, notes })
    }
}

/// The chat template as a turn table, or a note why there is none.
fn template(
    gguf: &Gguf<'_>,
    (tokenizer, section): (&Tokenizer<'_>, &[u8]),
    program: Option<&Path>,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<u8>>, PackError> {
    let Some(jinja) = gguf.optional::<&str>("tokenizer.chat_template")? else {
        notes.push("the file has no chat template; the image answers raw prompts only".to_owned());
        return Ok(None);
    };
    let built = match program {
        None => build_template(jinja, tokenizer),
        Some(program) => build_template_apart(program, jinja, section)
            .map_err(|source| PackError::TemplateProgram { program: program.to_owned(), source })?,
    };
    match built {
        Ok(table) => Ok(Some(table)),
        Err(reason) => {
            notes.push(format!("packed without a chat template, the image answers raw prompts only: {reason}"));
            Ok(None)
        }
    }
}

/// End of text, end of turn, padding, and what the template ends a reply with; each once.
fn stop_tokens(gguf: &Gguf<'_>, tokenizer: &Tokenizer<'_>, template: Option<&[u8]>) -> Result<Vec<u32>, PackError> {
    let mut stop = Vec::new();
    if let Some(table) = template {
        let table = AlignedBytes::new(table);
        let table = ChatTemplate::open(&table).map_err(|reason| PackError::Defect(reason.into()))?;
        stop.extend_from_slice(table.stop_tokens());
    }
    stop.extend(tokenizer.eos());
    for key in ["eot_token_id", "padding_token_id"] {
        // Padding is written between texts, so a model that writes it has ended its own.
        let id = gguf.optional::<u32>(&format!("tokenizer.ggml.{key}"))?;
        stop.extend(id.filter(|&id| tokenizer.is_control(id)));
    }
    let mut seen = std::collections::HashSet::new();
    stop.retain(|&id| id < tokenizer.vocabulary() && seen.insert(id));
    Ok(stop)
}

/// The author's sampling settings (`general.sampling.*`), greedy where there are none.
fn sampling(gguf: &Gguf<'_>, notes: &mut Vec<String>) -> Result<Sampling, PackError> {
    let number = |key: &str| gguf.optional::<f32>(&format!("general.sampling.{key}"));
    // In these settings a negative count means all, which is 0 here.
    let count = |key: &str| match gguf.get(&format!("general.sampling.{key}")) {
        Some(Value::I32(n)) => Some(n.max(0).unsigned_abs()),
        Some(value) => value.as_u64().and_then(|n| n.try_into().ok()),
        None => None,
    };
    let none = Sampling::GREEDY;
    let mut found = Sampling {
        temperature: number("temp")?.unwrap_or(none.temperature),
        top_k: count("top_k").unwrap_or(none.top_k),
        top_p: number("top_p")?.unwrap_or(none.top_p),
        min_p: number("min_p")?.unwrap_or(none.min_p),
        repetition_penalty: number("penalty_repeat")?.unwrap_or(none.repetition_penalty),
        penalty_window: count("penalty_last_n").unwrap_or(none.penalty_window),
    };
    if gguf.get("general.sampling.penalty_last_n").and_then(|n| n.as_u64()) == Some(0) {
        // A window of no tokens is no penalty.
        found.repetition_penalty = none.repetition_penalty;
    }
    if found.check().is_ok() {
        return Ok(found);
    }
    notes.push("the file's sampling settings are out of range and were left out".to_owned());
    Ok(none)
}

/// Where an image came from; for people and logs.
#[derive(Serialize)]
pub(super) struct Provenance {
    packer: &'static str,
    packer_version: &'static str,
    source: String,
    source_sha256: String,
    architecture: String,
    name: Option<String>,
    license: Option<String>,
    conversions: Vec<super::Conversion>,
    notes: Vec<String>,
}

impl Provenance {
    /// Describes a file.
    pub(super) fn new(
        gguf: &Gguf<'_>,
        file: &[u8],
        source: &str,
        (conversions, notes): (&[super::Conversion], &[String]),
    ) -> Result<Self, PackError> {
        let text = |key| gguf.optional::<&str>(key).map(|text| text.map(str::to_owned));
        let digest = Sha256::digest(file);
        Ok(Self {
            packer: env!("CARGO_PKG_NAME"),
            packer_version: env!("CARGO_PKG_VERSION"),
            source: source.to_owned(),
            source_sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            architecture: gguf.require::<&str>("general.architecture")?.to_owned(),
            name: text("general.name")?,
            license: text("general.license")?,
            conversions: conversions.to_vec(),
            notes: notes.to_vec(),
        })
    }
}

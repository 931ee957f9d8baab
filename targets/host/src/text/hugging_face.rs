//! Reads a byte-level BPE tokenizer from a Hugging Face `tokenizer.json`.
//!
//! The file describes a pipeline of parts with many settings. Those that the packer knows
//! are read, and any other that changes tokens is refused by name: a tokenizer that is
//! nearly right is worse than none.

use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

use super::alphabet::bytes_of;
use super::error::TextBuildError;
use super::pretokenizer::{PreTokenizerKind, QWEN2_REGEX};
use super::source::{Token, TokenKind, TokenizerSource, read_merge};
use crate::printable::printable;

/// The parts of the file that matter.
#[derive(Deserialize)]
struct File {
    added_tokens: Vec<Added>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    model: Model,
}

/// A token that is found in text as it stands.
#[derive(Deserialize)]
struct Added {
    id: usize,
    content: String,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
    special: bool,
}

/// The model that merges.
#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    dropout: Option<f64>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    vocab: HashMap<String, usize>,
    merges: Vec<WrittenMerge>,
}

/// A merge, written as one string or as two.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenMerge {
    Joined(String),
    Pair(String, String),
}

impl TokenizerSource {
    /// Reads a `tokenizer.json`.
    ///
    /// The file does not say which tokens begin and end a text; set
    /// [`bos`](Self::bos), [`eos`](Self::eos) and [`add_bos`](Self::add_bos) afterwards.
    ///
    /// # Errors
    /// [`TextBuildError`] if the file is no tokenizer or of a kind that is not packed.
    pub fn from_hugging_face(json: &[u8]) -> Result<Self, TextBuildError> {
        let file: File =
            serde_json::from_slice(json).map_err(|e| TextBuildError::Json { reason: printable(e.to_string()) })?;
        check_model(&file.model)?;
        let nfc = match &file.normalizer {
            None => false,
            Some(normalizer) if normalizer["type"] == "NFC" => true,
            Some(other) => {
                let kind = printable(other["type"].as_str().unwrap_or_default());
                return Err(unsupported(&format!("the normalizer \"{kind}\"")));
            }
        };
        let pre_tokenizer = pre_tokenizer(file.pre_tokenizer.as_ref().unwrap_or(&Value::Null))?;
        Ok(Self {
            tokens: tokens(&file)?,
            merges: file
                .model
                .merges
                .iter()
                .enumerate()
                .map(|(rank, merge)| merge.read(rank))
                .collect::<Result<_, _>>()?,
            pre_tokenizer,
            bos: None,
            eos: None,
            add_bos: false,
            nfc,
        })
    }
}

impl WrittenMerge {
    /// The bytes of its two tokens.
    fn read(&self, rank: usize) -> Result<(Vec<u8>, Vec<u8>), TextBuildError> {
        match self {
            Self::Joined(merge) => read_merge(rank, merge),
            Self::Pair(left, right) => bytes_of(left)
                .zip(bytes_of(right))
                .ok_or_else(|| TextBuildError::MergeForm { rank, merge: printable(format!("{left} {right}")) }),
        }
    }
}

/// Refuses models that merge in another way.
fn check_model(model: &Model) -> Result<(), TextBuildError> {
    let kind = model.kind.as_deref().unwrap_or("BPE");
    if kind != "BPE" {
        return Err(TextBuildError::Model { model: printable(kind) });
    }
    let is_set = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let settings = [
        (model.dropout.is_some_and(|p| p > 0.0), "dropout"),
        (is_set(&model.unk_token), "an unknown token"),
        (is_set(&model.continuing_subword_prefix), "a prefix of continued words"),
        (is_set(&model.end_of_word_suffix), "a suffix of words"),
        (model.byte_fallback, "byte fallback"),
        (model.ignore_merges, "whole words without merging"),
    ];
    match settings.into_iter().find(|&(set, _)| set) {
        Some((_, what)) => Err(unsupported(what)),
        None => Ok(()),
    }
}

/// Recognises a known pre-tokenizer by its parts.
fn pre_tokenizer(part: &Value) -> Result<PreTokenizerKind, TextBuildError> {
    let unknown = || TextBuildError::PreTokenizer { name: printable(part.to_string()) };
    let parts = match part["pretokenizers"].as_array() {
        Some(parts) if part["type"] == "Sequence" => parts.as_slice(),
        _ => std::slice::from_ref(part),
    };
    let is_bytes = |part: &Value, regex: bool| {
        part["type"] == "ByteLevel"
            && part["add_prefix_space"] == false
            // The key is younger than the expression, which ran before there was a choice.
            && part["use_regex"].as_bool().unwrap_or(true) == regex
    };
    match parts {
        [bytes] if is_bytes(bytes, true) => Ok(PreTokenizerKind::Gpt2),
        [digits, bytes]
            if digits["type"] == "Digits" && digits["individual_digits"] == true && is_bytes(bytes, true) =>
        {
            Ok(PreTokenizerKind::SmolLm)
        }
        [split, bytes]
            if split["type"] == "Split"
                && split["pattern"]["Regex"] == QWEN2_REGEX
                && split["behavior"] == "Isolated"
                && split["invert"] == false
                && is_bytes(bytes, false) =>
        {
            Ok(PreTokenizerKind::Qwen2)
        }
        _ => Err(unknown()),
    }
}

/// All tokens by id.
fn tokens(file: &File) -> Result<Vec<Token>, TextBuildError> {
    let mut written: HashMap<usize, (&str, TokenKind)> = HashMap::new();
    let vocabulary = file.model.vocab.iter();
    for (token, &id) in vocabulary {
        if let Some((other, _)) = written.insert(id, (token, TokenKind::Normal)) {
            return Err(unsupported(&format!(
                "the id {id} for two tokens, \"{}\" and \"{}\"",
                printable(other),
                printable(token)
            )));
        }
    }
    for added in &file.added_tokens {
        if added.single_word || added.lstrip || added.rstrip {
            return Err(unsupported(&format!(
                "a token that takes the space around it, \"{}\"",
                printable(&added.content)
            )));
        }
        let kind = if added.special { TokenKind::Control } else { TokenKind::UserDefined };
        written.insert(added.id, (&added.content, kind));
    }
    (0..written.len())
        .map(|id| {
            let &(token, kind) = written.get(&id).ok_or(TextBuildError::Hole { id })?;
            Token::read(id, token, kind)
        })
        .collect()
}

/// A setting that is not supported.
fn unsupported(what: &str) -> TextBuildError {
    TextBuildError::Unsupported { what: what.to_owned() }
}

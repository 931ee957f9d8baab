//! Where test models are, and the oracles that belong to them.
//!
//! Small models and all oracles are in `host-test/fixtures`. Real models are fetched once
//! by `ci/setup` into `models/`; a test that needs one fails with that command's name
//! rather than passing untried.

use std::path::{Path, PathBuf};

use crate::npy;

/// The random-weight models in `fixtures/gguf`, without `.gguf`.
pub const TINY: [&str; 7] = [
    "tiny-qwen3-f32",
    "tiny-qwen3-f16-untied",
    "tiny-qwen3-q8_0",
    "tiny-qwen3-q4_0",
    "tiny-qwen3-q4_1",
    "tiny-qwen3-q4_1-g64",
    "tiny-qwen3-q4_1-ffn160",
];

/// The name of SmolLM2's oracle in `fixtures/logits`.
pub const SMOLLM2: &str = "smollm2-135m-q4_1";

/// Another engine's answer for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Oracle {
    /// The tokens.
    pub ids: Vec<u32>,
    /// The logits at every position: `[tokens, vocabulary]`.
    pub logits: Vec<Vec<f32>>,
}

/// The path of a file below `host-test/fixtures`.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path)
}

/// The path of a small model, such as `tiny-qwen3-f32`.
pub fn tiny(name: &str) -> PathBuf {
    fixture("gguf").join(format!("{name}.gguf"))
}

/// The path of SmolLM2-135M-Instruct.
///
/// # Panics
/// If it was not fetched; the message names the command.
pub fn smollm2() -> PathBuf {
    fetched("SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// The path of the original Qwen3 tokenizer's `tokenizer.json`.
///
/// # Panics
/// If it was not fetched; the message names the command.
pub fn qwen3_tokenizer() -> PathBuf {
    fetched("qwen3-tokenizer.json")
}

/// The oracle of a model, such as `tiny-qwen3-f32` or [`SMOLLM2`].
///
/// # Panics
/// If the fixture is missing or damaged: the checkout is not whole.
pub fn oracle(name: &str) -> Oracle {
    let ids = read(&fixture("logits").join(format!("{name}.ids.json")));
    let npy = read(&fixture("logits").join(format!("{name}.npy")));
    let oracle = Oracle {
        ids: serde_json::from_slice(&ids).unwrap_or_else(|e| panic!("{name}.ids.json is no list of token ids: {e}")),
        logits: npy::read_rows(&npy).unwrap_or_else(|e| panic!("{name}.npy: {e}")),
    };
    assert_eq!(oracle.ids.len(), oracle.logits.len(), "positions of oracle {name}");
    oracle
}

/// The bytes of a fixture or a fetched file.
///
/// # Panics
/// If it can't be read.
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{} can't be read: {e}", path.display()))
}

/// The path of a file that `ci/setup` fetches.
fn fetched(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models").join(name);
    assert!(path.is_file(), "models/{name} is missing: run ci/setup in the repository's root to fetch it");
    path
}

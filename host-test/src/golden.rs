//! The pinned bits of the test models, and of what they say in a soak.

use std::collections::BTreeMap;

use pocket_runtime::CacheType;

use crate::models::{self, SMOLLM2, fixture};
use crate::soak;

/// Pinned hashes, by [`key`] and the like.
///
/// # Panics
/// If the fixture is broken.
pub fn pinned() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(fixture("golden.json")).expect("fixtures/golden.json");
    serde_json::from_str(&text).expect("a map of strings")
}

/// The name of a model and cache in the fixture.
pub fn key(model: &str, cache: CacheType) -> String {
    format!("{model} {cache:?}").to_lowercase()
}

/// The pinned hash of a model and cache.
///
/// # Panics
/// If there is none; the message says how to pin one.
pub fn hash(model: &str, cache: CacheType) -> String {
    find(&key(model, cache))
}

/// The hash of this name.
fn find(key: &str) -> String {
    pinned().remove(key).unwrap_or_else(|| panic!("golden.json has no hash for {key}; see examples/pin.rs"))
}

/// Positions that machines without time for all tokens of a real model check.
pub const FIRST: usize = 4;

/// The name of a model's first [`FIRST`] positions in the fixture.
pub fn first_key(model: &str, cache: CacheType) -> String {
    format!("{}, first {FIRST}", key(model, cache))
}

/// The pinned hash over the logits of a model's first [`FIRST`] positions.
///
/// # Panics
/// If there is none; the message says how to pin one.
pub fn first_hash(model: &str, cache: CacheType) -> String {
    find(&first_key(model, cache))
}

/// The name in the fixture of [`soak::run`] with all its conversations.
pub const SOAK_KEY: &str = "soak";

/// The pinned hash of all conversations.
///
/// # Panics
/// If there is none; the message says how to pin one.
pub fn soak_hash() -> String {
    find(SOAK_KEY)
}

/// The name in the fixture of the first conversations only.
pub fn first_soak_key() -> String {
    format!("{SOAK_KEY}, first {}", soak::FIRST)
}

/// The pinned hash of the first conversations.
///
/// # Panics
/// If there is none; the message says how to pin one.
pub fn first_soak_hash() -> String {
    find(&first_soak_key())
}

/// The tokens whose logits are pinned: the oracle's, and for tiny models repeated to 300, so that attention has more
/// than one chunk.
pub fn tokens(model: &str) -> Vec<u32> {
    let ids = models::oracle(model).ids;
    let count = if model == SMOLLM2 { ids.len() } else { 300 };
    ids.into_iter().cycle().take(count).collect()
}

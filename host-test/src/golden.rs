//! The pinned bits of the test models.

use std::collections::BTreeMap;

use pocket_runtime::CacheType;

use crate::models::{self, SMOLLM2, fixture};

/// Pinned hashes over the logits of every position, by [`key`].
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
    let key = key(model, cache);
    pinned().remove(&key).unwrap_or_else(|| panic!("golden.json has no hash for {key}; see examples/pin.rs"))
}

/// The tokens whose logits are pinned: the oracle's, and for tiny models repeated to 300, so that attention has more
/// than one chunk.
pub fn tokens(model: &str) -> Vec<u32> {
    let ids = models::oracle(model).ids;
    let count = if model == SMOLLM2 { ids.len() } else { 300 };
    ids.into_iter().cycle().take(count).collect()
}

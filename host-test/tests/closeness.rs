//! The runtime against other engines' logits: equal bits on every chip could be equally wrong.
//!
//! The oracles compute with the model's weights in f32, so the distance is what int8 activations (and, for models of
//! floats, 8-bit weights) change. A simulation of the arithmetic contract gives a mean KL of 0.005 and a top-1
//! agreement of 0.95 on SmolLM2; the bounds leave room for that and none for a mistake.

use pocket_host_test::divergence::{Divergence, argmax, compare, margin};
use pocket_host_test::images;
use pocket_host_test::models::{self, SMOLLM2, TINY};
use pocket_host_test::session::{Way, logits};
use pocket_runtime::{CacheType, Image};

fn divergence(name: &str, cache: CacheType) -> Divergence {
    let oracle = models::oracle(name);
    let image = Image::open(images::image(name)).unwrap();
    let ours = logits(&image, &oracle.ids, Way { cache, ..Way::new(128) });
    for (position, (theirs, ours)) in oracle.logits.iter().zip(&ours).enumerate() {
        // Where the oracle is sure, so must we be: near-ties may go either way, these may not.
        if margin(theirs) > SURE {
            assert_eq!(argmax(theirs), argmax(ours), "{name}: position {position}");
        }
    }
    compare(&oracle.logits, &ours)
}

/// Margin of the largest logit beyond which quantised activations must not change it. Random weights give flat
/// logits and errors up to 1, a trained model's margins tell more.
const SURE: f32 = 2.0;

#[test]
fn tiny_models_are_close_to_the_oracle() {
    for name in TINY {
        let found = divergence(name, CacheType::F16);
        println!("{name}: {found:?}");
        assert!(found.mean_kl <= 0.02, "{name}: {found:?}");
    }
}

#[test]
fn smollm2_is_close_to_the_oracle() {
    for cache in [CacheType::F16, CacheType::I8] {
        let found = divergence(SMOLLM2, cache);
        println!("{SMOLLM2}, cache {cache:?}: {found:?}");
        assert!(found.mean_kl <= 0.01, "{cache:?}: {found:?}");
        assert!(found.top1_agreement >= 0.93, "{cache:?}: {found:?}");
    }
}

#[test]
fn an_int8_cache_is_close_on_tiny_models() {
    for name in TINY {
        let found = divergence(name, CacheType::I8);
        println!("{name}, int8 cache: {found:?}");
        assert!(found.mean_kl <= 0.02, "{name}: {found:?}");
    }
}

//! The arithmetic contract: the same bits on every instruction set, for every number of workers, every split into
//! batches, and after rewinding; and the bits that were pinned when the model was added.

use pocket_host_test::EMULATED;
use pocket_host_test::golden::{self, tokens};
use pocket_host_test::images;
use pocket_host_test::models::{SMOLLM2, TINY};
use pocket_host_test::session::{Way, hash, logits, with};
use pocket_pack::isa::Isa;
use pocket_runtime::{CacheType, Image};

const CACHES: [CacheType; 2] = [CacheType::F16, CacheType::I8];

fn hash_of(rows: &[Vec<f32>]) -> String {
    hash(rows.iter().map(Vec::as_slice))
}

#[test]
fn tiny_models_have_one_hash() {
    for (name, cache) in TINY.into_iter().flat_map(|name| CACHES.map(|cache| (name, cache))) {
        let image = Image::open(images::image(name)).unwrap();
        let ids = tokens(name);
        let golden = golden::hash(name, cache);
        for isa in Isa::available() {
            // Three workers are more than there are KV heads.
            let ways: &[(u32, u32)] = match isa {
                Isa::Scalar if EMULATED => &[(2, 64)],
                _ if EMULATED => &[(1, 1), (3, 64)],
                _ => &[(1, 1), (1, 2), (1, 7), (1, 64), (2, 1), (2, 2), (2, 7), (2, 64), (3, 1), (3, 300)],
            };
            for &(workers, batch) in ways {
                let way = Way { isa, workers, batch, cache, context: 304 };
                assert_eq!(hash_of(&logits(&image, &ids, way)), golden, "{name}: {way:?}");
            }
        }
    }
}

#[test]
fn smollm2_has_one_hash() {
    let image = Image::open(images::image(SMOLLM2)).unwrap();
    let mut ids = tokens(SMOLLM2);
    // An emulated processor has time for the first tokens; elsewhere the first rows of all must have that hash too.
    if EMULATED {
        ids.truncate(golden::FIRST);
    }
    for cache in CACHES {
        let golden = if EMULATED { golden::first_hash(SMOLLM2, cache) } else { golden::hash(SMOLLM2, cache) };
        let ways = Isa::available().flat_map(|isa| {
            // The scalar definition takes a while: once is enough to tie the others to it.
            let ways: &[(u32, u32)] = match (isa == Isa::Scalar, EMULATED) {
                (true, _) => &[(2, 64)],
                (_, true) => &[(2, 3)],
                _ => &[(1, 1), (2, 1), (1, 2), (2, 7), (2, 64)],
            };
            ways.iter().map(move |&(workers, batch)| Way { isa, workers, batch, cache, context: 64 })
        });
        for way in ways {
            let rows = logits(&image, &ids, way);
            assert_eq!(hash_of(&rows), golden, "{way:?}");
            assert_eq!(hash_of(&rows[..golden::FIRST]), golden::first_hash(SMOLLM2, cache), "{way:?}");
        }
    }
}

#[test]
fn what_was_rewound_leaves_no_trace() {
    let models = if EMULATED { &TINY[..2] } else { &TINY[..] };
    for (name, cache) in models.iter().flat_map(|&name| CACHES.map(|cache| (name, cache))) {
        let image = Image::open(images::image(name)).unwrap();
        let ids = tokens(name);
        let plain = logits(&image, &ids, Way { cache, ..Way::new(304) });
        let other: Vec<u32> = ids.iter().rev().copied().take(40).collect();
        let way = Way { cache, workers: 2, batch: 7, ..Way::new(304) };
        let rows = with(&image, way, |session| {
            let mut rows = Vec::new();
            // Other tokens come and go at places inside and at the edges of tiles, batches and chunks.
            let mut from = 0;
            for to in [1, 15, 16, 17, 100, 255, 256, 257, 264] {
                session.prefill_each(&ids[from..to], &mut |_, row| rows.push(row.to_vec())).unwrap();
                session.prefill(&other).unwrap();
                session.rewind(to).unwrap();
                assert!(session.logits().is_none(), "logits of tokens that were taken back");
                from = to;
            }
            session.prefill_each(&ids[from..], &mut |_, row| rows.push(row.to_vec())).unwrap();
            assert_eq!(session.tokens(), ids);
            rows
        });
        assert_eq!(hash_of(&rows), hash_of(&plain), "{name}, {cache:?}");
    }
}

#[test]
fn one_token_at_a_time_is_the_same_as_all_at_once() {
    let image = Image::open(images::image(TINY[0])).unwrap();
    let ids = tokens(TINY[0]);
    let way = Way::new(304);
    let all = logits(&image, &ids, way);
    with(&image, way, |session| {
        for (id, row) in ids.iter().zip(&all) {
            session.decode(*id).unwrap();
            assert_eq!(session.logits().unwrap(), row);
        }
        // A prefill's own logits are those of its last token.
        session.reset();
        session.prefill(&ids).unwrap();
        assert_eq!(session.logits().unwrap(), all[ids.len() - 1]);
    });
}

#[test]
fn models_differ() {
    let hashes: std::collections::HashSet<_> = golden::pinned().into_values().collect();
    let pinned = 2 * (TINY.len() + 2) + 2;
    assert_eq!(hashes.len(), pinned, "every model and cache has a hash of its own, SmolLM2 two, and a soak has two");
}

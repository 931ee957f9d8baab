//! Prints `fixtures/golden.json`: the hash of every test model's logits, for each type of cache, and that of a soak.
//!
//! Run it when a model is added, or when the arithmetic contract is changed on purpose:
//! `cargo run --release -p pocket-host-test --example pin > host-test/fixtures/golden.json`.
//!
//! With `plans` it prints `fixtures/plans.txt` instead, the reference shapes' memory: when a plan is changed on purpose.

use std::collections::BTreeMap;

use pocket_host_test::models::{SMOLLM2, TINY};
use pocket_host_test::session::{Way, hash, logits};
use pocket_host_test::{golden, images, plans, soak};
use pocket_pack::isa::Isa;
use pocket_pack::pool::Pool;
use pocket_runtime::{CacheType, Image};

fn main() {
    if std::env::args().nth(1).as_deref() == Some("plans") {
        print!("{}", plans::table());
        return;
    }
    let mut pinned = BTreeMap::new();
    for name in TINY.into_iter().chain([SMOLLM2]) {
        let image = Image::open(images::image(name)).expect("an image that was just packed");
        for cache in [CacheType::F16, CacheType::I8] {
            let ids = golden::tokens(name);
            let rows = logits(&image, &ids, Way { cache, ..Way::new(304) });
            pinned.insert(golden::key(name, cache), hash(rows.iter().map(Vec::as_slice)));
            if name == SMOLLM2 {
                let first = rows.iter().take(golden::FIRST);
                pinned.insert(golden::first_key(name, cache), hash(first.map(Vec::as_slice)));
            }
        }
    }
    for (key, conversations) in
        [(golden::SOAK_KEY.to_owned(), soak::CONVERSATIONS), (golden::first_soak_key(), soak::FIRST)]
    {
        let pool = |count| Pool::new(count).expect("threads");
        pinned.insert(key, soak::run(Isa::best(), pool, conversations, &mut |_| ()).hash);
    }
    println!("{}", serde_json::to_string_pretty(&pinned).expect("strings"));
}

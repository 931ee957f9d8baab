//! A golden file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pocket_pack::golden::Golden;

fuzz_target!(|text: &str| {
    if let Ok(golden) = Golden::from_json(text) {
        assert!(golden.positions() <= text.len());
    }
});

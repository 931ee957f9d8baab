//! Any text, through a tokenizer that is sound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pocket_host_test::exercise;

fuzz_target!(|text: &str| {
    exercise::tokenizer(&pocket_fuzz::tokenizer(), text);
});

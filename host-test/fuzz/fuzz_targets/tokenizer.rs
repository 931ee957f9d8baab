//! A tokenizer: the section of an image, or a `tokenizer.json` to be made one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pocket_host_test::exercise;
use pocket_pack::text::{AlignedBytes, TokenizerSource, build_tokenizer};
use pocket_runtime::text::Tokenizer;

fuzz_target!(|data: &[u8]| {
    if data.starts_with(b"PkTk") {
        open(data);
    } else if let Ok(source) = TokenizerSource::from_hugging_face(data)
        && let Ok(section) = build_tokenizer(&source)
    {
        open(&section);
    }
});

/// Opens a section and encodes a text of our own and one that looks like its tokens, which lie last in it.
fn open(section: &[u8]) {
    let section = AlignedBytes::new(section);
    if let Ok(tokenizer) = Tokenizer::open(&section) {
        exercise::tokenizer(&tokenizer, exercise::TEXT);
        let tail = &section[section.len().saturating_sub(200)..];
        exercise::tokenizer(&tokenizer, &String::from_utf8_lossy(tail));
    }
}

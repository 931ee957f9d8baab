//! A chat template: the section of an image, or a Jinja program to be made one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pocket_host_test::exercise;
use pocket_pack::text::{AlignedBytes, build_template};
use pocket_runtime::text::ChatTemplate;

fuzz_target!(|data: &[u8]| {
    if data.starts_with(b"PkTt") {
        open(data);
    } else if let Ok(jinja) = std::str::from_utf8(data)
        && let Ok(section) = build_template(jinja, &pocket_fuzz::tokenizer())
    {
        open(&section);
    }
});

fn open(section: &[u8]) {
    if let Ok(template) = ChatTemplate::open(&AlignedBytes::new(section)) {
        exercise::template(&template, exercise::TEXT);
    }
}

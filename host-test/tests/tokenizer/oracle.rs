//! Every text of the fixtures has exactly the tokens that another library gives it.

use pocket_host_test::models;
use pocket_runtime::text::Specials;
use unicode_normalization::UnicodeNormalization as _;

use crate::support::{Packed, bytes, encode, pocket_64k, qwen3, smollm2, tiny};

/// Compares all lines of a fixture.
fn matches_fixture(name: &str, packed: &Packed) {
    let tokenizer = packed.tokenizer();
    let file = models::read(&models::fixture("tokenize").join(format!("tokenize-{name}.jsonl")));
    let file = String::from_utf8(file).expect("the fixture is text");
    let mut lines = 0;
    for line in file.lines() {
        let case: serde_json::Value = serde_json::from_str(line).expect("a line is a JSON object");
        let text = case["text"].as_str().expect("a case has a text");
        let wanted: Vec<u32> = serde_json::from_value(case["ids"].clone()).expect("a case has ids");
        let normalised: String = if tokenizer.wants_nfc() { text.nfc().collect() } else { text.to_owned() };
        let ids = encode(&tokenizer, &normalised, Specials::Recognise);
        assert_eq!(ids, wanted, "{name}: the tokens of {text:?}");
        let missing = packed.source.missing_bytes();
        let kept: Vec<u8> = normalised.bytes().filter(|byte| !missing.contains(byte)).collect();
        assert_eq!(bytes(&tokenizer, &ids), kept, "{name}: the bytes of {text:?}");
        lines += 1;
    }
    assert_eq!(lines, 77, "lines of fixture {name}");
}

#[test]
fn smollm2_has_the_librarys_tokens() {
    matches_fixture("smollm2-135m", smollm2());
}

#[test]
fn tiny_qwen3_has_the_librarys_tokens() {
    matches_fixture("tiny-qwen3", tiny());
}

#[test]
fn qwen3_has_the_librarys_tokens_after_nfc() {
    assert!(qwen3().tokenizer().wants_nfc());
    matches_fixture("qwen3-151k", qwen3());
}

#[test]
fn pocket_64k_has_the_librarys_tokens() {
    assert!(!pocket_64k().tokenizer().wants_nfc());
    matches_fixture("pocket-64k", pocket_64k());
}

#[test]
fn the_section_carries_what_the_model_file_says() {
    let tokenizer = smollm2().tokenizer();
    assert_eq!(tokenizer.vocabulary(), 49_152);
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.add_bos()), (Some(1), Some(2), false));
    assert_eq!(tokenizer.token_bytes(2), Some("<|im_end|>".as_bytes()));
    assert_eq!(tokenizer.token_bytes(28_120), Some("hello".as_bytes()));
    assert_eq!(tokenizer.token_bytes(49_152), None);
    assert_eq!(tokenizer.token_bytes(u32::MAX), None);

    let tokenizer = tiny().tokenizer();
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (None, Some(1000)));
    // <|im_end|> steers the model, <think> is shown, and both are special.
    assert!(tokenizer.is_special(1000) && tokenizer.is_control(1000));
    assert!(tokenizer.is_special(1022) && !tokenizer.is_control(1022));
    assert!(!tokenizer.is_special(71) && !tokenizer.is_control(71));
    assert_eq!(tokenizer.id_of(b"<think>"), Some(1022));
    assert_eq!(tokenizer.id_of(b"<think"), None);
    assert_eq!(tokenizer.id_of(b"h"), None, "h is a token, but not a special one");
    assert_eq!(tokenizer.id_of(b""), None);
}

#[test]
fn bytes_without_a_token_are_left_out() {
    // As the library does; SmolLM2 lacks six control characters and the bytes that begin rare planes.
    let packed = smollm2();
    assert_eq!(packed.source.missing_bytes(), [0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2]);
    let tokenizer = packed.tokenizer();
    let plain = encode(&tokenizer, "hello", Specials::Recognise);
    assert_eq!(encode(&tokenizer, "hel\u{4}lo", Specials::Recognise).len(), 2, "the piece is cut there");
    assert!(encode(&tokenizer, "\u{4}", Specials::Recognise).is_empty());
    assert_eq!(encode(&tokenizer, "\u{4}hello", Specials::Recognise), plain);
    assert!(tiny().source.missing_bytes().is_empty());
}

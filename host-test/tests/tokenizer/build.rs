//! Tokenizers that can't be packed are refused in a sentence that says why.

use pocket_pack::gguf::{Gguf, GgufError};
use pocket_pack::text::{PreTokenizerKind, TextBuildError, Token, TokenKind, TokenizerSource, build_tokenizer};
use serde_json::{Value, json};

use crate::support::{encode, mini_source, tiny};

/// A GGUF file with these strings and lists in its metadata.
fn gguf(model: &str, pre: Option<&str>, tokens: &[&str], kinds: &[i32], merges: &[&str]) -> Vec<u8> {
    fn string(file: &mut Vec<u8>, text: &str) {
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text.as_bytes());
    }
    fn key(file: &mut Vec<u8>, name: &str, kind: u32) {
        string(file, &format!("tokenizer.ggml.{name}"));
        file.extend(kind.to_le_bytes());
    }
    fn list(file: &mut Vec<u8>, kind: u32, len: usize) {
        file.extend(kind.to_le_bytes());
        file.extend((len as u64).to_le_bytes());
    }
    const STRING: u32 = 8;
    const I32: u32 = 5;
    const ARRAY: u32 = 9;
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend(0_u64.to_le_bytes());
    file.extend((4 + u64::from(pre.is_some())).to_le_bytes());
    key(&mut file, "model", STRING);
    string(&mut file, model);
    if let Some(pre) = pre {
        key(&mut file, "pre", STRING);
        string(&mut file, pre);
    }
    for (name, strings) in [("tokens", tokens), ("merges", merges)] {
        key(&mut file, name, ARRAY);
        list(&mut file, STRING, strings.len());
        strings.iter().for_each(|text| string(&mut file, text));
    }
    key(&mut file, "token_type", ARRAY);
    list(&mut file, I32, kinds.len());
    kinds.iter().for_each(|kind| file.extend(kind.to_le_bytes()));
    file
}

/// Reads the tokenizer of a GGUF file.
fn read(file: &[u8]) -> Result<TokenizerSource, TextBuildError> {
    TokenizerSource::from_gguf(&Gguf::parse(file).expect("the file is sound"))
}

#[test]
fn a_gguf_tokenizer_is_read() {
    let file = gguf("gpt2", Some("gpt-2"), &["a", "Ġ", "Ġa", "<x>", "[PAD é]"], &[1, 1, 1, 4, 5], &["Ġ a"]);
    let source = read(&file).expect("it is sound");
    let token = |bytes: &str, kind| Token { bytes: bytes.as_bytes().to_vec(), kind };
    assert_eq!(
        source.tokens,
        [
            token("a", TokenKind::Normal),
            token(" ", TokenKind::Normal),
            token(" a", TokenKind::Normal),
            token("<x>", TokenKind::UserDefined),
            token("[PAD é]", TokenKind::Unused),
        ]
    );
    assert_eq!(source.merges, [(b" ".to_vec(), b"a".to_vec())]);
    assert!(build_tokenizer(&source).is_ok());
}

#[test]
fn pre_tokenizers_are_known_by_name() {
    for (name, kind) in [
        ("gpt-2", Some(PreTokenizerKind::Gpt2)),
        ("gpt2", Some(PreTokenizerKind::Gpt2)),
        ("default", Some(PreTokenizerKind::Gpt2)),
        ("smollm", Some(PreTokenizerKind::SmolLm)),
        ("qwen2", Some(PreTokenizerKind::Qwen2)),
        ("deepseek-r1-qwen", Some(PreTokenizerKind::Qwen2)),
        ("llama-bpe", None),
        ("qwen35", None),
        ("", None),
    ] {
        assert_eq!(PreTokenizerKind::from_gguf(name), kind, "{name:?}");
    }
}

#[test]
fn gguf_tokenizers_of_other_kinds_are_refused() {
    let refused = |file: Vec<u8>, sentence: &str| {
        let error = read(&file).expect_err("it is refused").to_string();
        assert!(error.contains(sentence), "{error:?} does not say {sentence:?}");
    };
    refused(gguf("llama", Some("default"), &[], &[], &[]), "of the kind \"llama\"");
    refused(gguf("t5", Some("default"), &[], &[], &[]), "only byte-level BPE");
    refused(gguf("gpt2", Some("llama-bpe"), &[], &[], &[]), "\"llama-bpe\" is not known");
    refused(gguf("gpt2", Some("\u{1b}[31m"), &[], &[], &[]), r#""\u{1b}[31m" is not known"#);
    refused(gguf("gpt2", None, &[], &[], &[]), "tokenizer.ggml.pre is missing");
    refused(gguf("gpt2", Some("qwen2"), &["a", "b"], &[1], &[]), "2 tokens but 1 token types");
    refused(gguf("gpt2", Some("qwen2"), &["a"], &[9], &[]), "type 9");
    refused(gguf("gpt2", Some("qwen2"), &["a"], &[-1], &[]), "type -1");
    refused(gguf("gpt2", Some("qwen2"), &["a b"], &[1], &[]), "stands for no byte");
    refused(gguf("gpt2", Some("qwen2"), &["a"], &[1], &["a"]), "not two tokens with a space");
    refused(gguf("gpt2", Some("qwen2"), &["a"], &[1], &["a "]), "not two tokens with a space");
    refused(gguf("gpt2", Some("qwen2"), &["a"], &[1], &["a b c"]), "not two tokens with a space");
    let error = read(b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").expect_err("it has no tokenizer");
    assert_eq!(error, GgufError::MissingKey { key: "tokenizer.ggml.model".into() }.into());
}

#[test]
fn tokens_and_merges_that_contradict_each_other_are_refused() {
    type Change = fn(&mut TokenizerSource);
    let cases: [(Change, &str); 9] = [
        (|s| s.tokens[5].bytes = b"a".to_vec(), "the tokens 5 and 97 are both \"a\""),
        (|s| s.tokens[264].bytes = b"<|end|>".to_vec(), "the tokens 263 and 264 are both \"<|end|>\""),
        (|s| s.tokens[3].bytes = vec![], "the token 3 is empty"),
        (|s| s.tokens[265].bytes = vec![], "the token 265 is empty"),
        (|s| s.merges[0].1 = b"nothing".to_vec(), "the merge 0 needs the token \"nothing\""),
        (|s| s.merges[0].1 = b"c".to_vec(), "the merge 0 needs the token \" c\""),
        (|s| s.merges[4] = s.merges[2].clone(), "the merges 2 and 4 join the same tokens, \"ab\" and \"ab\""),
        (|s| s.eos = Some(266), "the end-of-text token is 266, but the vocabulary has 266 tokens"),
        (|s| s.bos = Some(u32::MAX), "the begin-of-text token is 4294967295"),
    ];
    for (change, sentence) in cases {
        let mut source = mini_source();
        change(&mut source);
        let error = build_tokenizer(&source).expect_err(sentence).to_string();
        assert!(error.contains(sentence), "{error:?} does not say {sentence:?}");
    }
}

#[test]
fn a_tokenizer_without_merges_or_special_tokens_is_packed() {
    let mut source = mini_source();
    source.merges.clear();
    source.tokens.truncate(256);
    source.eos = None;
    let packed = crate::support::Packed::new(source);
    let ids = encode(&packed.tokenizer(), "lol <|end|>", pocket_runtime::text::Specials::Recognise);
    assert_eq!(ids, "lol <|end|>".bytes().map(u32::from).collect::<Vec<_>>());
}

#[test]
fn the_same_tokenizer_is_packed_into_the_same_bytes() {
    let again = build_tokenizer(&tiny().source).expect("it is sound");
    assert_eq!(again, &tiny().section[..]);
}

/// A small `tokenizer.json`.
fn hugging_face() -> Value {
    json!({
        "added_tokens": [{
            "id": 3, "content": "<x>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true
        }],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false,
            "vocab": {"a": 0, "Ġ": 1, "Ġa": 2}, "merges": ["Ġ a"]
        }
    })
}

#[test]
fn a_tokenizer_json_is_read() {
    let source = TokenizerSource::from_hugging_face(hugging_face().to_string().as_bytes()).expect("it is sound");
    assert_eq!(source.pre_tokenizer, PreTokenizerKind::Gpt2);
    assert_eq!(source.merges, [(b" ".to_vec(), b"a".to_vec())]);
    assert_eq!(source.tokens[3], Token { bytes: b"<x>".to_vec(), kind: TokenKind::Control });
    let mut digits = hugging_face();
    digits["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": true}, digits["pre_tokenizer"]]});
    digits["model"]["merges"] = json!([["Ġ", "a"]]);
    let digits = TokenizerSource::from_hugging_face(digits.to_string().as_bytes()).expect("it is sound");
    assert_eq!(digits, TokenizerSource { pre_tokenizer: PreTokenizerKind::SmolLm, ..source });
}

#[test]
fn a_tokenizer_json_with_other_parts_is_refused() {
    let cases = [
        ("/model/type", json!("Unigram"), "of the kind \"Unigram\""),
        ("/model/dropout", json!(0.1), "dropout"),
        ("/model/unk_token", json!("<x>"), "an unknown token"),
        ("/model/end_of_word_suffix", json!("</w>"), "a suffix of words"),
        ("/model/continuing_subword_prefix", json!("##"), "a prefix of continued words"),
        ("/normalizer", json!({"type": "NFKC"}), "the normalizer \"NFKC\""),
        ("/pre_tokenizer", json!(null), "is not known"),
        ("/pre_tokenizer/add_prefix_space", json!(true), "is not known"),
        ("/pre_tokenizer/use_regex", json!(false), "is not known"),
        ("/added_tokens/0/lstrip", json!(true), "takes the space around it"),
        ("/added_tokens/0/id", json!(5), "the id 3 has no token"),
        ("/model/vocab/a", json!(1), "the id 1 for two tokens"),
        ("/model/vocab", json!([]), "no tokenizer.json"),
        // Nothing and a token would merge into that token, for ever.
        ("/model/merges", json!([["", "a"]]), "needs the token \"\""),
        ("/model/merges", json!([["a", "a"]]), "needs the token \"aa\""),
        ("/added_tokens/0/content", json!(""), "the token 3 is empty"),
        ("/added_tokens/0/id", json!(usize::MAX), "the id 3 has no token"),
    ];
    for (place, value, sentence) in cases {
        let mut file = hugging_face();
        *file.pointer_mut(place).expect("the place is there") = value;
        let packed =
            TokenizerSource::from_hugging_face(file.to_string().as_bytes()).and_then(|source| build_tokenizer(&source));
        let error = packed.expect_err(place).to_string();
        assert!(error.contains(sentence), "{place}: {error:?} does not say {sentence:?}");
    }
    for flag in ["byte_fallback", "ignore_merges"] {
        let mut file = hugging_face();
        file["model"][flag] = json!(true);
        assert!(TokenizerSource::from_hugging_face(file.to_string().as_bytes()).is_err(), "{flag}");
    }
    assert!(TokenizerSource::from_hugging_face(b"{").is_err());
}

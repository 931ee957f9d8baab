//! The tokenizers under test and how to call them.

use std::collections::HashSet;
use std::sync::OnceLock;

use pocket_host_test::models;
use pocket_pack::gguf::Gguf;
use pocket_pack::text::{AlignedBytes, PreTokenizerKind, Token, TokenKind, TokenizerSource, build_tokenizer};
use pocket_runtime::text::{Specials, TextError, Tokenizer, scratch_len};

/// The merges of MNN-Pocket-0.3B's vocabulary and the tokens added to it.
const POCKET_TOKENS: usize = 65_536;

/// A tokenizer as it was read and as it was packed.
pub(crate) struct Packed {
    pub(crate) source: TokenizerSource,
    pub(crate) section: AlignedBytes,
}

impl Packed {
    pub(crate) fn new(source: TokenizerSource) -> Self {
        let section = build_tokenizer(&source).unwrap_or_else(|e| panic!("the tokenizer is not packed: {e}"));
        Self { source, section: AlignedBytes::new(&section) }
    }

    pub(crate) fn tokenizer(&self) -> Tokenizer<'_> {
        Tokenizer::open(&self.section).expect("what was packed opens")
    }
}

/// The tokenizer of a GGUF file.
fn from_gguf(file: &[u8]) -> Packed {
    let gguf = Gguf::parse(file).expect("the model is sound");
    Packed::new(TokenizerSource::from_gguf(&gguf).unwrap_or_else(|e| panic!("{e}")))
}

pub(crate) fn smollm2() -> &'static Packed {
    static PACKED: OnceLock<Packed> = OnceLock::new();
    PACKED.get_or_init(|| from_gguf(&models::read(&models::smollm2())))
}

pub(crate) fn tiny() -> &'static Packed {
    static PACKED: OnceLock<Packed> = OnceLock::new();
    PACKED.get_or_init(|| from_gguf(&models::read(&models::tiny("tiny-qwen3-q4_1"))))
}

pub(crate) fn qwen3() -> &'static Packed {
    static PACKED: OnceLock<Packed> = OnceLock::new();
    PACKED.get_or_init(|| {
        let json = models::read(&models::qwen3_tokenizer());
        Packed::new(TokenizerSource::from_hugging_face(&json).unwrap_or_else(|e| panic!("{e}")))
    })
}

/// The vocabulary of MNN-Pocket-0.3B: Qwen3's bytes, as many of its first merges as there is room for, its added tokens.
pub(crate) fn pocket_64k() -> &'static Packed {
    static PACKED: OnceLock<Packed> = OnceLock::new();
    PACKED.get_or_init(|| {
        let full = &qwen3().source;
        let (added, normal): (Vec<Token>, Vec<Token>) =
            full.tokens.iter().cloned().partition(|token| token.kind.is_special());
        let mut tokens: Vec<Token> = normal[..256].to_vec();
        let mut have: HashSet<Vec<u8>> = tokens.iter().map(|token| token.bytes.clone()).collect();
        let mut merges = Vec::new();
        for (left, right) in &full.merges {
            if tokens.len() == POCKET_TOKENS - added.len() {
                break;
            }
            let bytes = [left.as_slice(), right].concat();
            if have.contains(left) && have.contains(right) && have.insert(bytes.clone()) {
                tokens.push(Token { bytes, kind: TokenKind::Normal });
                merges.push((left.clone(), right.clone()));
            }
        }
        tokens.extend(added);
        assert_eq!(tokens.len(), POCKET_TOKENS);
        Packed::new(TokenizerSource { tokens, merges, nfc: false, ..full.clone() })
    })
}

/// A tokenizer so small that every bit of it can be flipped: bytes, a few merges, three special tokens.
pub(crate) fn mini() -> Packed {
    Packed::new(mini_source())
}

pub(crate) fn mini_source() -> TokenizerSource {
    let token = |bytes: &[u8], kind| Token { bytes: bytes.to_vec(), kind };
    let mut tokens: Vec<Token> = (0..=u8::MAX).map(|byte| token(&[byte], TokenKind::Normal)).collect();
    let mut merges = Vec::new();
    for (left, right) in [(" ", "a"), ("a", "b"), ("ab", "ab"), (" a", "b"), ("l", "o"), ("lo", "l"), ("o", "l")] {
        tokens.push(token([left, right].concat().as_bytes(), TokenKind::Normal));
        merges.push((left.as_bytes().to_vec(), right.as_bytes().to_vec()));
    }
    for special in ["<|end|>", "<|end|>!"] {
        tokens.push(token(special.as_bytes(), TokenKind::Control));
    }
    tokens.push(token("<think>".as_bytes(), TokenKind::UserDefined));
    TokenizerSource {
        tokens,
        merges,
        pre_tokenizer: PreTokenizerKind::SmolLm,
        bos: None,
        eos: Some(263),
        add_bos: false,
        nfc: false,
    }
}

/// Encodes with as much scratch and room as the text can need.
pub(crate) fn encode(tokenizer: &Tokenizer<'_>, text: &str, specials: Specials<'_>) -> Vec<u32> {
    try_encode(tokenizer, text, specials).unwrap_or_else(|e| panic!("{text:?} is not encoded: {e}"))
}

pub(crate) fn try_encode(tokenizer: &Tokenizer<'_>, text: &str, specials: Specials<'_>) -> Result<Vec<u32>, TextError> {
    let mut scratch = vec![0; scratch_len(text.len())];
    let mut out = vec![0; text.len()];
    let len = tokenizer.encode(text, specials, &mut scratch, &mut out)?;
    out.truncate(len);
    Ok(out)
}

/// The bytes of tokens.
pub(crate) fn bytes(tokenizer: &Tokenizer<'_>, ids: &[u32]) -> Vec<u8> {
    let token = |&id: &u32| tokenizer.token_bytes(id).expect("an encoded token is in the vocabulary");
    ids.iter().flat_map(token).copied().collect()
}

/// Texts made of what is cut in different ways, and any characters.
pub(crate) fn texts() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let fragment = prop_oneof![
        6 => "[a-zA-Z]{1,6}",
        4 => "[ \t\n\r]{1,4}",
        2 => "[0-9]{1,4}",
        3 => "['’](s|S|t|T|re|RE|ve|Ve|m|M|ll|lL|d|D|ſ|x)?",
        2 => "[!-/:-@\\[-`{-~]{1,3}",
        2 => "[\u{85}\u{A0}\u{2003}\u{3000}\u{2028}\u{B}\u{C}]{1,3}",
        2 => "[éßøžçæðþİıſK]{1,3}",
        2 => "[а-яα-ω一-龥ぁ-ん가-힣अ-ह]{1,4}",
        1 => "[²½ⅷ①٣४零]{1,2}",
        1 => "[\u{300}\u{301}\u{200B}\u{200D}\u{FE0F}😀👩🇨🇳]{1,3}",
        2 => any::<String>(),
    ];
    prop::collection::vec(fragment, 0..12).prop_map(|fragments| fragments.concat())
}

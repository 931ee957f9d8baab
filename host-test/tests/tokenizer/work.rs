//! Texts that are one long piece, and buffers that are a little too small.

use pocket_runtime::text::{Specials, TextError, scratch_len};

use crate::support::{bytes, encode, pocket_64k, smollm2, tiny};

/// The length of the long texts.
const LONG: usize = 100_000;

#[test]
fn a_hundred_kilobytes_in_one_piece_are_encoded() {
    // With merging that looks at every pair for every merge this would not end for a day.
    for packed in [smollm2(), pocket_64k()] {
        let tokenizer = packed.tokenizer();
        for pattern in ["a", " ", "\n", "-", "ab", "=-", "é", "漢", "\n ", "<", "the"] {
            let text: String =
                pattern.chars().cycle().take(LONG / pattern.chars().next().map_or(1, char::len_utf8)).collect();
            let ids = encode(&tokenizer, &text, Specials::Recognise);
            assert_eq!(bytes(&tokenizer, &ids), text.as_bytes(), "{pattern:?}");
        }
    }
}

#[test]
fn a_long_run_of_spaces_is_the_longest_tokens_there_are() {
    let tokenizer = tiny().tokenizer();
    let ids = encode(&tokenizer, &" ".repeat(LONG), Specials::Recognise);
    let eight = encode(&tokenizer, &" ".repeat(8), Specials::Recognise);
    assert_eq!(eight.len(), 1);
    let longest = ids.iter().filter_map(|&id| tokenizer.token_bytes(id)).map(<[u8]>::len).max();
    let first = ids.first().copied();
    assert_eq!(first.and_then(|id| tokenizer.token_bytes(id)).map(<[u8]>::len), longest);
}

#[test]
fn arbitrary_characters_are_encoded() {
    // A linear congruential sequence of characters from all planes.
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from_u32((state >> 40) as u32 % 0x11_0000)
    };
    let text: String = std::iter::repeat_with(&mut next).flatten().take(LONG / 4).collect();
    let tokenizer = tiny().tokenizer();
    let ids = encode(&tokenizer, &text, Specials::Recognise);
    assert_eq!(bytes(&tokenizer, &ids), text.as_bytes());
}

#[test]
fn scratch_is_for_the_longest_piece_and_no_more() {
    let tokenizer = tiny().tokenizer();
    let piece = "abcdefghij".repeat(LONG / 10);
    // A hundred such pieces need no more scratch than one.
    let text = [piece.as_str(); 3].join(" ");
    let mut out = vec![0; text.len()];
    let mut scratch = vec![0; scratch_len(LONG + 1)];
    assert!(tokenizer.encode(&text, Specials::Recognise, &mut scratch, &mut out).is_ok());
    let short = &mut scratch[..scratch_len(LONG)];
    assert_eq!(
        tokenizer.encode(&text, Specials::Recognise, short, &mut out),
        Err(TextError::PieceTooLong { bytes: LONG as u32 + 1, limit: LONG as u32 })
    );
    assert_eq!(
        tokenizer.encode("ab", Specials::Recognise, &mut [], &mut out),
        Err(TextError::PieceTooLong { bytes: 2, limit: 0 })
    );
    assert_eq!(tokenizer.encode("1 2", Specials::Recognise, &mut [], &mut out), Ok(3), "single bytes need none");
}

#[test]
fn the_output_may_be_exactly_full() {
    let tokenizer = tiny().tokenizer();
    let text = "some words<|im_end|> and more";
    let ids = encode(&tokenizer, text, Specials::Recognise);
    let mut scratch = [0; scratch_len(16)];
    for room in 0..ids.len() {
        let mut out = vec![0; room];
        let refused = tokenizer.encode(text, Specials::Recognise, &mut scratch, &mut out);
        assert_eq!(refused, Err(TextError::TooManyTokens { limit: room as u32 }));
    }
    let mut out = vec![0; ids.len()];
    assert_eq!(tokenizer.encode(text, Specials::Recognise, &mut scratch, &mut out), Ok(ids.len()));
    assert_eq!(out, ids);
}

#[test]
fn a_text_does_not_depend_on_what_the_scratch_held() {
    let tokenizer = smollm2().tokenizer();
    let text = "Encoding is the same with dirty scratch, 123 times.";
    let ids = encode(&tokenizer, text, Specials::Recognise);
    let mut scratch = vec![0xDEAD_BEEF; scratch_len(64)];
    let mut out = vec![u32::MAX; 64];
    for _ in 0..2 {
        let len = tokenizer.encode(text, Specials::Recognise, &mut scratch, &mut out).expect("it fits");
        assert_eq!(out[..len], ids);
    }
}

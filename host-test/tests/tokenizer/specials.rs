//! Special tokens are recognised where they may be, and only there.

#![expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant, not the numbers in it")]

use std::ops::Range;

use pocket_runtime::text::{Specials, TextError};
use proptest::prelude::*;

use crate::support::{bytes, encode, mini, tiny, try_encode};

/// `<|im_end|>` of the tiny model.
const IM_END: u32 = 1000;

/// Encodes outside of ranges.
fn outside(text: &str, ranges: &[Range<usize>]) -> Vec<u32> {
    encode(&tiny().tokenizer(), text, Specials::RecogniseOutside(ranges))
}

#[test]
fn a_special_token_is_one_token_or_text() {
    let tokenizer = tiny().tokenizer();
    let text = "a<|im_end|>b";
    let recognised = encode(&tokenizer, text, Specials::Recognise);
    assert_eq!(recognised, [64, IM_END, 65]);
    let as_text = encode(&tokenizer, text, Specials::AsText);
    assert!(as_text.len() > 5 && as_text.iter().all(|&id| !tokenizer.is_special(id)), "{as_text:?}");
    assert_eq!(bytes(&tokenizer, &as_text), text.as_bytes());
}

#[test]
fn ranges_protect_whatever_touches_them() {
    //          0123456789012
    let text = "a<|im_end|>b";
    assert_eq!(outside(text, &[]), [64, IM_END, 65]);
    assert_eq!(outside(text, &[0..1, 11..12]), [64, IM_END, 65], "the token lies between the ranges");
    assert_eq!(outside(text, &[5..5]), [64, IM_END, 65], "an empty range protects nothing");
    let as_text = encode(&tiny().tokenizer(), text, Specials::AsText);
    for range in [0..12, 1..11, 1..2, 5..6, 10..11, 0..2, 10..12] {
        assert_eq!(outside(text, std::slice::from_ref(&range)), as_text, "{range:?}");
        let empty = range.start..range.start;
        assert_eq!(outside(text, &[0..0, empty, range.clone()]), as_text, "empty ranges before {range:?}");
    }
}

#[test]
fn protected_text_is_no_border() {
    // A range says who wrote a text, not where a word ends: the word is encoded as one.
    let tokenizer = tiny().tokenizer();
    let whole = encode(&tokenizer, "condition", Specials::Recognise);
    assert_eq!(outside("condition", &[3..6]), whole);
}

#[test]
fn the_longest_special_token_counts() {
    let packed = mini();
    let tokenizer = packed.tokenizer();
    let id = |text: &str| tokenizer.id_of(text.as_bytes()).expect("a special token");
    assert_eq!(encode(&tokenizer, "<|end|>!", Specials::Recognise), [id("<|end|>!")]);
    assert_eq!(encode(&tokenizer, "<|end|>", Specials::Recognise), [id("<|end|>")]);
    assert_eq!(encode(&tokenizer, "<<|end|><think>", Specials::Recognise)[1..], [id("<|end|>"), id("<think>")]);
    // Where the longest is protected, what is left of it is text, not a shorter special token: which it is must not
    // depend on where a content ends.
    let ids = encode(&tokenizer, "<|end|>!", Specials::RecogniseOutside(&[7..8]));
    assert!(ids.iter().all(|&id| !tokenizer.is_special(id)), "{ids:?}");
}

#[test]
fn a_special_token_ends_white_space_like_a_text() {
    // "a  " before a special token keeps both spaces in one piece.
    let tokenizer = tiny().tokenizer();
    let mut apart = encode(&tokenizer, "a  ", Specials::Recognise);
    apart.push(IM_END);
    apart.extend(encode(&tokenizer, "  b", Specials::Recognise));
    assert_eq!(encode(&tokenizer, "a  <|im_end|>  b", Specials::Recognise), apart);
}

#[test]
fn ranges_that_do_not_belong_to_the_text_are_refused() {
    let tokenizer = tiny().tokenizer();
    let refused = |ranges: &[Range<usize>]| try_encode(&tokenizer, "abcdef", Specials::RecogniseOutside(ranges));
    let wrong = |index| Err(TextError::ProtectedRange { index });
    assert_eq!(refused(&[0..7]), wrong(0));
    assert_eq!(refused(&[0..2, 1..3]), wrong(1));
    assert_eq!(refused(&[3..4, 0..1]), wrong(1));
    #[expect(clippy::reversed_empty_ranges, reason = "that it is reversed is what is tested")]
    let reversed = 4..2;
    assert_eq!(refused(&[0..1, reversed]), wrong(1));
    assert_eq!(refused(&[usize::MAX..usize::MAX]), wrong(0));
    assert!(refused(&[0..0, 0..6, 6..6]).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However user text and marks are mixed, no special token comes out of a protected range.
    #[test]
    fn no_special_token_comes_out_of_user_text(
        parts in prop::collection::vec(("(<\\|im_end\\|>|<think>|[a-z<|> ]){0,3}", any::<bool>()), 0..8)
    ) {
        let packed = tiny();
        let tokenizer = packed.tokenizer();
        let (mut text, mut ranges) = (String::new(), Vec::new());
        for (part, user) in &parts {
            let start = text.len();
            text.push_str(part);
            if *user {
                ranges.push(start..text.len());
            }
        }
        let ids = encode(&tokenizer, &text, Specials::RecogniseOutside(&ranges));
        prop_assert_eq!(bytes(&tokenizer, &ids), text.as_bytes());
        let mut at = 0;
        for id in ids {
            let end = at + tokenizer.token_bytes(id).expect("a token").len();
            let protected = ranges.iter().any(|range| range.start < end && at < range.end);
            prop_assert!(!(protected && tokenizer.is_special(id)), "{id} at {at}..{end} of {text:?}, {ranges:?}");
            at = end;
        }
    }
}

//! Damaged sections: an error or a tokenizer, never a panic, a hang or a wrong text.
//!
//! What opens although it is damaged must still keep the promise of every tokenizer: the bytes of a text's tokens are
//! the text, less the bytes that have no token.

use pocket_host_test::exercise;
use pocket_pack::text::{AlignedBytes, Token, TokenKind, TokenizerSource};
use pocket_runtime::text::layout::{Merge, NONE, TOKENIZER_VERSION, TokenizerHeader};
use pocket_runtime::text::{Specials, TextError, TextPart, Tokenizer, merge_slot};
use proptest::prelude::*;

use crate::support::{Packed, encode, mini, mini_source};

/// Opens a section and, if it opens, encodes.
fn try_out(section: &[u8]) -> Result<(), TextError> {
    Tokenizer::open(section).map(|tokenizer| exercise::tokenizer(&tokenizer, exercise::TEXT))
}

/// The words of a section, to be damaged.
fn words(packed: &Packed) -> Vec<u32> {
    bytemuck::cast_slice(&packed.section).to_vec()
}

#[test]
fn a_whole_section_is_tried_out() {
    let packed = mini();
    try_out(&packed.section).expect("the undamaged section is sound");
    assert_eq!(encode(&packed.tokenizer(), "lol abab", Specials::Recognise), [261, 259, 257]);
}

#[test]
fn a_section_cut_off_anywhere_is_refused() {
    let packed = mini();
    for len in 0..packed.section.len() {
        let error = Tokenizer::open(&packed.section[..len]).expect_err("a cut section is refused");
        assert!(matches!(error, TextError::Length { have, .. } if have as usize == len), "{len}: {error:?}");
    }
    let longer = AlignedBytes::new(&[&packed.section[..], &[0; 4]].concat());
    assert!(matches!(Tokenizer::open(&longer), Err(TextError::Length { .. })));
}

/// Flips each bit in a part of the section.
fn flip_bits(part: usize, parts: usize) {
    let packed = mini();
    let mut section = words(&packed);
    let mut opened = 0_u32;
    for word in (0..section.len()).skip(part).step_by(parts) {
        for bit in 0..32 {
            section[word] ^= 1 << bit;
            opened += u32::from(try_out(bytemuck::cast_slice(&section)).is_ok());
            section[word] ^= 1 << bit;
        }
    }
    assert!(opened > 0, "no damage is harmless, which is hard to believe");
}

#[test]
fn any_flipped_bit_is_harmless_1() {
    flip_bits(0, 2);
}

#[test]
fn any_flipped_bit_is_harmless_2() {
    flip_bits(1, 2);
}

#[test]
fn a_section_must_be_aligned_and_of_its_kind() {
    let packed = mini();
    let shifted = AlignedBytes::new(&[&[0], &packed.section[..]].concat());
    assert_eq!(Tokenizer::open(&shifted[1..]).err(), Some(TextError::Misaligned));

    let mut section = words(&packed);
    section[1] = 2;
    let version = TextError::Version { found: 2, read: TOKENIZER_VERSION };
    assert_eq!(try_out(bytemuck::cast_slice(&section)), Err(version));
    section[0] = 0;
    assert_eq!(try_out(bytemuck::cast_slice(&section)), Err(TextError::Magic));
}

#[test]
fn merges_in_a_circle_are_refused() {
    // The one merge, a + b, is made a + nothing = a, which would go on for ever.
    let token = |bytes: &[u8], kind| Token { bytes: bytes.to_vec(), kind };
    let packed = Packed::new(TokenizerSource {
        tokens: vec![
            token(b"a", TokenKind::Normal),
            token(b"b", TokenKind::Normal),
            token(b"ab", TokenKind::Normal),
            token(b"", TokenKind::Unused),
        ],
        merges: vec![(b"a".to_vec(), b"b".to_vec())],
        eos: None,
        ..mini_source()
    });
    let header = size_of::<TokenizerHeader>() / 4;
    let merges = header + packed.source.tokens.len() + 256;
    let slots = merges + size_of::<Merge>() / 4;
    let with_merge = |left: u32, right: u32, merged: u32| {
        let mut section = words(&packed);
        assert_eq!(section[merges..slots], [0, 1, 2], "the place of the merge");
        section[merges..slots].copy_from_slice(&[left, right, merged]);
        section[slots..slots + 4].fill(NONE);
        section[slots + merge_slot(left, right, 2)] = 0;
        Tokenizer::open(bytemuck::cast_slice(&section)).map(|_| ())
    };
    assert_eq!(with_merge(0, 1, 2), Ok(()));
    let damaged = Err(TextError::Damaged { part: TextPart::Merges });
    assert_eq!(with_merge(0, 0, 0), damaged);
    assert_eq!(with_merge(2, 2, 2), damaged);
    assert_eq!(with_merge(0, 1, 0), damaged);
    assert_eq!(with_merge(0, 1, 4), damaged, "a token that is not there");
    assert_eq!(with_merge(4, 1, 2), damaged);
    // This one is true to its bytes and could repeat for ever, were not each merge one token fewer; and no byte is the
    // empty token, so it never begins.
    assert_eq!(with_merge(0, 3, 0), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Some words of a sound section are overwritten, mostly with numbers that look like others in it.
    #[test]
    fn overwritten_words_are_harmless(
        damage in prop::collection::vec(
            (any::<prop::sample::Index>(), prop_oneof![0_u32..300, any::<u32>(), Just(NONE), Just(0x0101_0101)]), 1..6),
        in_header in any::<bool>(),
    ) {
        let packed = mini();
        let mut section = words(&packed);
        let len = if in_header { size_of::<TokenizerHeader>() / 4 } else { section.len() };
        for (at, word) in damage {
            section[at.index(len)] = word;
        }
        let _ = try_out(bytemuck::cast_slice(&section));
    }

    /// Random bytes behind a header that could be real.
    #[test]
    fn random_bytes_are_harmless(
        mut header in prop::collection::vec(0_u32..20, size_of::<TokenizerHeader>() / 4),
        body in prop::collection::vec(any::<u32>(), 0..600),
        small in any::<bool>(),
    ) {
        let packed = mini();
        header[..2].copy_from_slice(&words(&packed)[..2]);
        header[2] &= 3;
        let body = body.into_iter().map(|word| if small { word & 0x0103_0101 } else { word });
        let section: Vec<u32> = header.into_iter().chain(body).collect();
        let _ = try_out(bytemuck::cast_slice(&section));
    }
}

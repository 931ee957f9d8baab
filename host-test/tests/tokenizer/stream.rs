//! Bytes become text character by character, and text ends at a stop string.

use pocket_runtime::text::{Specials, StopStrings, TextError, Utf8Stream};
use proptest::prelude::*;

use crate::support::{encode, pocket_64k, texts, tiny};

/// Passes bytes through in chunks, checking that little is held back.
fn stream<'b>(chunks: impl IntoIterator<Item = &'b [u8]>) -> String {
    let (mut utf8, mut text) = (Utf8Stream::new(), String::new());
    for chunk in chunks {
        utf8.push(chunk, |part| {
            assert!(!part.is_empty(), "an empty part is emitted");
            text.push_str(part);
        });
        assert!(utf8.held() <= 3, "{} bytes are held back", utf8.held());
    }
    utf8.finish(|part| text.push_str(part));
    text
}

#[test]
fn a_character_appears_with_its_last_byte() {
    let mut utf8 = Utf8Stream::new();
    let mut seen = Vec::new();
    for &byte in "é漢😀".as_bytes() {
        utf8.push(&[byte], |part| seen.push(part.to_owned()));
        seen.push("|".to_owned());
    }
    assert_eq!(seen.concat(), "|é|||漢||||😀|");
    utf8.finish(|part| panic!("nothing was held back, but {part:?} comes"));
}

#[test]
fn what_is_no_text_is_replaced_by_maximal_subparts() {
    // The examples of the Unicode Standard, table 3-8 and around it.
    let shown = |bytes: &[u8]| stream(bytes.chunks(1));
    assert_eq!(
        shown(b"\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
        "a\u{FFFD}\u{FFFD}\u{FFFD}b\u{FFFD}c\u{FFFD}\u{FFFD}d"
    );
    assert_eq!(shown(b"\xC0\xAF"), "\u{FFFD}\u{FFFD}");
    assert_eq!(shown(b"\xED\xA0\x80"), "\u{FFFD}\u{FFFD}\u{FFFD}");
    assert_eq!(shown(b"\xF0\x9F\x98"), "\u{FFFD}", "the end of the text cuts a character off");
    assert_eq!(shown(b"\xE6\xBC\xE6\xBC\xA2"), "\u{FFFD}漢", "a character begins inside another");
}

#[test]
fn a_text_is_shown_again_from_its_tokens() {
    // Tokens cut characters; the tiny vocabulary cuts most of them into bytes.
    for packed in [tiny(), pocket_64k()] {
        let tokenizer = packed.tokenizer();
        let config = ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let outcome = runner.run(&texts(), |text| {
            let ids = encode(&tokenizer, &text, Specials::Recognise);
            let shown = stream(ids.iter().map(|&id| tokenizer.token_bytes(id).expect("a token")));
            prop_assert_eq!(shown, text);
            Ok(())
        });
        outcome.unwrap_or_else(|e| panic!("{e}"));
    }
}

/// What has been emitted when a text ends at the stop string that is complete first, the longest of those.
fn stopped_naively<'t>(text: &'t str, stops: &[&str]) -> (&'t str, bool) {
    let found = stops.iter().filter_map(|stop| text.find(stop).map(|at| (at + stop.len(), at)));
    match found.min() {
        Some((_, at)) => (&text[..at], true),
        None => (text, false),
    }
}

/// Passes parts through stop strings.
fn stopped(parts: &[&str], stops: &[&str]) -> (String, bool) {
    let mut held = vec![0; StopStrings::held_bytes(stops)];
    let mut stream = StopStrings::new(stops, &mut held).expect("the buffer is as asked for");
    let mut text = String::new();
    let mut ended = false;
    for part in parts {
        let before = text.len();
        let now = stream.push(part, |shown| text.push_str(shown));
        assert!(!ended || text.len() == before, "text comes after the end");
        assert!(now || !ended, "the end is taken back");
        ended = now;
    }
    assert_eq!(stream.stopped(), ended);
    stream.finish(|shown| text.push_str(shown));
    (text, ended)
}

#[test]
fn a_stop_string_ends_the_text_wherever_it_is_cut() {
    let stops = ["\nUser:", "</s>"];
    let text = "An answer.\nUse it.\n\nUser: next</s>";
    for cut in 0..=text.len() {
        let (a, b) = text.split_at(cut);
        assert_eq!(stopped(&[a, b], &stops), ("An answer.\nUse it.\n".to_owned(), true), "cut at {cut}");
    }
    assert_eq!(stopped(&["a</s"], &stops), ("a</s".to_owned(), false), "what is held back is shown at the end");
    assert_eq!(stopped(&["ab", "c"], &[]), ("abc".to_owned(), false));
}

#[test]
fn text_is_held_back_no_longer_than_needed() {
    let stops = ["<end>"];
    let mut held = [0; 9];
    let mut stream = StopStrings::new(&stops, &mut held).expect("the buffer is as asked for");
    let mut seen = Vec::new();
    for part in ["a<", "e", "n", "x", "<<e"] {
        stream.push(part, |shown| seen.push(shown.to_owned()));
        seen.push("|".to_owned());
    }
    assert_eq!(seen.concat(), "a|||<enx|<|");
    stream.finish(|shown| seen.push(shown.to_owned()));
    assert_eq!(seen.last().map(String::as_str), Some("<e"));
}

#[test]
fn stop_strings_that_can_not_work_are_refused() {
    let mut held = [0; 8];
    assert_eq!(StopStrings::new(&["a", ""], &mut held).err(), Some(TextError::StopEmpty { index: 1 }));
    let need = StopStrings::held_bytes(&["abcdef"]) as u32;
    assert_eq!(StopStrings::new(&["abcdef"], &mut held).err(), Some(TextError::StopBuffer { need, have: 8 }));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes, cut anywhere, are shown as the standard library shows them whole.
    #[test]
    fn any_bytes_are_shown_as_if_whole(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0xC0_u8..=0xF8, 0x80_u8..=0xBF, 0x20_u8..0x7F], 0..40),
        size in 1_usize..7,
    ) {
        prop_assert_eq!(stream(bytes.chunks(size)), String::from_utf8_lossy(&bytes));
    }

    /// Stop strings that overlap themselves and each other, cut anywhere.
    #[test]
    fn stop_strings_end_a_text_as_a_search_would(
        parts in prop::collection::vec("[abé]{0,4}", 0..8),
        stops in prop::collection::vec("[abé]{1,5}", 0..4),
    ) {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        let text = parts.concat();
        let (shown, ended) = stopped_naively(&text, &stops);
        prop_assert_eq!(stopped(&parts, &stops), (shown.to_owned(), ended));
    }
}

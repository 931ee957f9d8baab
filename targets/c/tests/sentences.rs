//! Every error of the runtime and of this interface has a sentence and a name of its own.

use std::collections::BTreeMap;
use std::ffi::CStr;

use pocket_c::{POCKET_SENTENCE_BYTES, pocket_error_text};

/// The sentence of a status.
fn sentence(status: u32) -> String {
    // SAFETY: the function gives a terminated string that lives for ever.
    unsafe { CStr::from_ptr(pocket_error_text(status)) }.to_str().expect("UTF-8").to_owned()
}

/// The numbers that follow a mark in a source, and end before any of `ends`.
fn numbers(source: &str, mark: &str, ends: [char; 2]) -> Vec<u32> {
    source.split(mark).skip(1).filter_map(|rest| rest.split(ends).next()?.trim().parse().ok()).collect()
}

#[test]
fn every_error_of_the_runtime_has_a_sentence() {
    let mut codes = numbers(include_str!("../../../runtime/src/error.rs"), " = ", [',', ';']);
    codes.extend(numbers(include_str!("../../../runtime/src/text/error.rs"), " => ", [',', ';']));
    assert!(codes.len() > 40, "the sources are written in another way: {codes:?}");
    // What wraps another error has the sentence of that, and these cannot arise through this interface.
    let unreachable = [208, 210, 213, 300, 400, 404, 608];
    let unknown = sentence(999);
    for code in codes.into_iter().filter(|code| !unreachable.contains(code)) {
        assert_ne!(sentence(code), unknown, "error {code}");
    }
}

/// No sentence is longer than its source with the longest number, or name of a part, for each of its fields.
#[test]
fn the_room_that_is_promised_is_enough_for_every_sentence() {
    let sources = [include_str!("../../../runtime/src/error.rs"), include_str!("../../../runtime/src/text/error.rs")];
    let longest = u64::MAX.to_string().len();
    let mut seen = 0;
    for literal in sources.iter().flat_map(|source| source.split('"').skip(1).step_by(2)) {
        let most = literal.len() + literal.matches('{').count() * longest;
        assert!(most <= POCKET_SENTENCE_BYTES, "{most} bytes: {literal}");
        seen += 1;
    }
    assert!(seen > 50, "the sources are written in another way: {seen}");
    for status in 0..1000 {
        assert!(sentence(status).len() <= POCKET_SENTENCE_BYTES, "{status}");
    }
}

#[test]
fn every_name_in_the_header_has_a_sentence_of_its_own() {
    let mut seen = BTreeMap::new();
    for line in include_str!("../include/pocket.h").lines() {
        let Some((name, code)) = line.strip_prefix("#define POCKET_ERROR_").and_then(|line| line.split_once(' '))
        else {
            continue;
        };
        let code = code.parse().expect("a number");
        assert_ne!(sentence(code), sentence(999), "{name}");
        let other = seen.insert(sentence(code), name);
        assert_eq!(other, None, "{name}");
    }
    assert!(seen.len() > 50, "{seen:?}");
}

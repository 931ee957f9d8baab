//! Byte-pair encoding as its definition reads, over the regular expressions as their files state them.

use std::collections::HashMap;

use fancy_regex::Regex;
use pocket_pack::text::{PreTokenizerKind, TokenKind, TokenizerSource};
use pocket_runtime::text::{Specials, Tokenizer};
use proptest::prelude::*;

use crate::support::{Packed, bytes, encode, mini, smollm2, texts, tiny};

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A tokenizer without special tokens.
struct Naive {
    regex: Regex,
    digits_alone: bool,
    ids: HashMap<Vec<u8>, u32>,
    ranks: HashMap<(Vec<u8>, Vec<u8>), usize>,
}

impl Naive {
    fn new(source: &TokenizerSource) -> Self {
        let regex = if source.pre_tokenizer == PreTokenizerKind::Qwen2 { QWEN2 } else { GPT2 };
        let normal = source.tokens.iter().zip(0..).filter(|(token, _)| token.kind == TokenKind::Normal);
        Self {
            regex: Regex::new(regex).expect("the expression is sound"),
            digits_alone: source.pre_tokenizer == PreTokenizerKind::SmolLm,
            ids: normal.map(|(token, id)| (token.bytes.clone(), id)).collect(),
            ranks: source.merges.iter().cloned().zip(0..).collect(),
        }
    }

    /// Cuts out digits first where they stand alone, then runs the expression over each part.
    fn pieces<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut parts = vec![text];
        if self.digits_alone {
            parts = text.split_inclusive(char::is_numeric).collect();
            parts = parts
                .into_iter()
                .flat_map(|part| {
                    let digit = part.char_indices().next_back().filter(|(_, c)| c.is_numeric());
                    let (before, digit) = part.split_at(digit.map_or(part.len(), |(at, _)| at));
                    [before, digit]
                })
                .collect();
        }
        let matches = |part: &'t str| self.regex.find_iter(part).map(|found| found.expect("no limit is hit").as_str());
        let pieces: Vec<&str> = parts.into_iter().flat_map(matches).collect();
        assert_eq!(pieces.concat(), text, "the expression matches everything");
        pieces
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        self.pieces(text).into_iter().flat_map(|piece| self.merge(piece)).collect()
    }

    /// Merges the leftmost pair of the lowest rank until none merges.
    fn merge(&self, piece: &str) -> Vec<u32> {
        let known = |byte: &u8| self.ids.contains_key([*byte].as_slice());
        let mut symbols: Vec<Vec<u8>> = piece.bytes().filter(known).map(|byte| vec![byte]).collect();
        loop {
            let rank = |at: usize| self.ranks.get(&(symbols[at].clone(), symbols[at + 1].clone()));
            let pairs = (0..symbols.len().saturating_sub(1)).filter_map(|at| Some((*rank(at)?, at)));
            let Some((_, at)) = pairs.min() else { break };
            let right = symbols.remove(at + 1);
            symbols[at].extend(right);
        }
        symbols.iter().map(|symbol| self.ids[symbol]).collect()
    }
}

/// A tokenizer and its naive twin.
struct Twins<'p> {
    tokenizer: Tokenizer<'p>,
    missing: Vec<u8>,
    naive: Naive,
}

impl<'p> Twins<'p> {
    fn new(packed: &'p Packed) -> Self {
        Self {
            tokenizer: packed.tokenizer(),
            missing: packed.source.missing_bytes(),
            naive: Naive::new(&packed.source),
        }
    }

    /// Both give the same tokens, and their bytes are the text.
    fn agree(&self, text: &str) {
        let ids = encode(&self.tokenizer, text, Specials::AsText);
        assert_eq!(ids, self.naive.encode(text), "{text:?}");
        let kept: Vec<u8> = text.bytes().filter(|byte| !self.missing.contains(byte)).collect();
        assert_eq!(bytes(&self.tokenizer, &ids), kept, "{text:?}");
    }

    /// They agree on many random texts.
    fn agree_on(&self, texts: &impl Strategy<Value = String>, cases: u32) {
        let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let outcome = runner.run(texts, |text| {
            self.agree(&text);
            Ok(())
        });
        outcome.unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn smollm2_agrees_with_the_definition() {
    Twins::new(smollm2()).agree_on(&texts(), 2000);
}

#[test]
fn qwen2_agrees_with_the_definition() {
    Twins::new(tiny()).agree_on(&texts(), 2000);
}

#[test]
fn gpt2_agrees_with_the_definition() {
    // No model here is cut as GPT-2's; the way of cutting does not depend on the vocabulary.
    let source = TokenizerSource { pre_tokenizer: PreTokenizerKind::Gpt2, ..tiny().source.clone() };
    Twins::new(&Packed::new(source)).agree_on(&texts(), 2000);
}

#[test]
fn long_pieces_agree_with_the_definition() {
    // Pieces whose merges overlap in every way, of many lengths: the tournament's shape depends on the length.
    let packed = mini();
    let twins = Twins::new(&packed);
    for len in 0..200 {
        for pattern in ["a", "ab", "abb", "lol", "lolab", "ababl"] {
            let text: String = pattern.chars().cycle().take(len).collect();
            twins.agree(&text);
        }
    }
    twins.agree_on(&"[ablo]{0,120}", 500);
}

#[test]
fn white_space_goes_to_the_word_behind_it() {
    // The rule that is done by hand, at each of its edges.
    for twins in [Twins::new(smollm2()), Twins::new(tiny())] {
        for text in [
            "a b",
            "a  b",
            "a   ",
            "a \t b",
            "a\t\tb",
            "a\u{3000}\u{3000}b",
            "a \u{A0}b",
            "a  1",
            "a   1 b",
            "  ",
            " ",
            "a \n b",
            "a\n\n  b",
            "\r\n  \r\n x",
            "a  !",
            "a  'sb",
            "\u{85}\u{85}b",
            "1  2",
            "   ٣",
            "   ½",
            " 's",
            "  's",
        ] {
            twins.agree(text);
        }
    }
}

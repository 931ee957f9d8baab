//! Compiles a pre-tokenizer's patterns into the small automaton that the device runs.
//!
//! `regex-automata` compiles the patterns, Unicode tables and all, into an automaton over
//! bytes. That has over a thousand states, for the parts of characters: 45–60 kB in its
//! sparse form and over 1 MB in its dense one. Seen from character to character it has a
//! dozen or two, and most of the million characters are alike to all of them. So:
//!
//! ```text
//! states   ← those that can be reached from the start by whole characters
//! classes  ← characters that every state takes to the same state
//! table    ← states × classes, equal states joined (Moore)
//! ```
//!
//! and the class of a character is looked up by its block of 64, equal blocks stored
//! once. That is some 25 kB for any of the known pre-tokenizers, runs faster, and takes a
//! page of code on the device.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use pocket_runtime::text::layout::{BLOCK, DEAD};
use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, MatchKind};

use super::pretokenizer::PreTokenizerKind;

/// The characters, with the surrogates that are none.
const CHARACTERS: u32 = 0x11_0000;

/// The tables of the automaton, as the image holds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Automaton {
    pub(super) block_index: Vec<u16>,
    /// Blocks of [`BLOCK`] classes each.
    pub(super) classes: Vec<u8>,
    pub(super) default_class: u8,
    pub(super) class_count: u8,
    /// State by class.
    pub(super) transitions: Vec<u8>,
    /// By state: the pattern plus one, or 0.
    pub(super) accepts: Vec<u8>,
}

impl Automaton {
    /// The automaton of a pre-tokenizer, compiled once a process.
    pub(super) fn of(kind: PreTokenizerKind) -> &'static Self {
        static COMPILED: [OnceLock<Automaton>; PreTokenizerKind::ALL.len()] =
            [const { OnceLock::new() }; PreTokenizerKind::ALL.len()];
        COMPILED[kind as usize].get_or_init(|| Self::compile(kind.patterns()))
    }

    /// Compiles patterns in order of preference.
    fn compile(patterns: &[&str]) -> Self {
        let config =
            dense::Config::new().start_kind(StartKind::Anchored).match_kind(MatchKind::LeftmostFirst).accelerate(false);
        let bytes = dense::Builder::new().configure(config).build_many(patterns).expect("the known patterns compile");
        let start =
            bytes.universal_start_state(Anchored::Yes).expect("patterns without look-around have one start state");
        let (states, class_of) = explore(&bytes, start);

        let class_count = class_of.iter().max().map_or(0, |&most| most + 1);
        let mut example = vec!['\0'; class_count as usize];
        for c in (0..CHARACTERS).rev().filter_map(char::from_u32) {
            example[class_of[c as usize] as usize] = c;
        }
        let number: HashMap<StateID, usize> = states.iter().zip(0..).map(|(&id, at)| (id, at)).collect();
        let next: Vec<Vec<usize>> = states
            .iter()
            .map(|&state| {
                let step = |&c: &char| number[&step_char(&bytes, state, c)];
                example.iter().map(step).collect()
            })
            .collect();
        let accepts: Vec<u8> = states.iter().map(|&s| accepted(&bytes, s)).collect();
        let (next, accepts) = join_equal(next, accepts);

        let (block_index, classes, default_class) = compress(&class_of);
        Self {
            block_index,
            classes,
            default_class,
            class_count: small(class_count as usize),
            transitions: next.into_iter().flatten().map(small).collect(),
            accepts,
        }
    }
}

/// The states between characters, the dead one and the start first, and the class of each
/// character.
fn explore(bytes: &dense::DFA<Vec<u32>>, start: StateID) -> (Vec<StateID>, Vec<u32>) {
    let dead = (0..CHARACTERS)
        .filter_map(char::from_u32)
        .map(|c| step_char(bytes, start, c))
        .map(|state| bytes.next_eoi_state(state))
        .find(|&state| bytes.is_dead_state(state))
        .unwrap_or_default();
    let mut states = vec![dead, start];
    let mut known: HashSet<StateID> = states.iter().copied().collect();
    let mut class_of = vec![0_u32; CHARACTERS as usize];
    let mut at = 0;
    while let Some(&state) = states.get(at) {
        at += 1;
        // Characters stay in one class if they were and this state takes them alike too.
        let mut split: HashMap<(u32, StateID), u32> = HashMap::new();
        let mut prefix = None;
        let mut previous = None;
        for code in 0..CHARACTERS {
            let Some(c) = char::from_u32(code) else {
                continue;
            };
            let next = step_in_block(bytes, state, c, &mut prefix);
            let class = &mut class_of[code as usize];
            let key = (*class, next);
            // Neighbours are mostly alike, and a million look-ups would take a while.
            if let Some((last, its_class)) = previous
                && last == key
            {
                *class = its_class;
                continue;
            }
            if known.insert(next) {
                states.push(next);
            }
            let classes = split.len() as u32;
            *class = *split.entry(key).or_insert(classes);
            previous = Some((key, *class));
        }
    }
    (states, class_of)
}

/// Steps over a character, remembering the state before its last byte for the next ones.
fn step_in_block(
    bytes: &dense::DFA<Vec<u32>>,
    state: StateID,
    c: char,
    prefix: &mut Option<(u32, StateID)>,
) -> StateID {
    let mut buffer = [0; 4];
    let encoded = c.encode_utf8(&mut buffer).as_bytes();
    let [first @ .., last] = encoded else {
        return state;
    };
    let block = if first.is_empty() { 0 } else { c as u32 | 63 };
    let before = match *prefix {
        Some((known, before)) if known == block => before,
        _ => {
            let before = first.iter().fold(state, |s, &b| bytes.next_state(s, b));
            *prefix = Some((block, before));
            before
        }
    };
    bytes.next_state(before, *last)
}

/// Steps over a character.
fn step_char(bytes: &dense::DFA<Vec<u32>>, state: StateID, c: char) -> StateID {
    step_in_block(bytes, state, c, &mut None)
}

/// The pattern that has matched when the text ends in this state, plus one, or 0.
///
/// Without look-around a match does not depend on what follows, so the end of the text
/// shows it as well as any next character would.
fn accepted(bytes: &dense::DFA<Vec<u32>>, state: StateID) -> u8 {
    let end = bytes.next_eoi_state(state);
    if !bytes.is_match_state(end) {
        return 0;
    }
    small(bytes.match_pattern(end, 0).as_usize() + 1)
}

/// Joins states that accept alike and lead to equal states, by Moore's refinement.
///
/// States keep their order, so the dead one stays first and the start second.
fn join_equal(next: Vec<Vec<usize>>, accepts: Vec<u8>) -> (Vec<Vec<usize>>, Vec<u8>) {
    let mut group: Vec<usize> = accepts.iter().map(|&pattern| pattern.into()).collect();
    let mut groups = 0;
    loop {
        let mut numbers: HashMap<(usize, Vec<usize>), usize> = HashMap::new();
        let refined: Vec<usize> = next
            .iter()
            .zip(&group)
            .map(|(next, &own)| {
                let key = (own, next.iter().map(|&state| group[state]).collect());
                let count = numbers.len();
                *numbers.entry(key).or_insert(count)
            })
            .collect();
        group = refined;
        if numbers.len() == groups {
            break;
        }
        groups = numbers.len();
    }
    let first = |number| group.iter().position(|&g| g == number);
    let kept: Vec<usize> = (0..groups).filter_map(first).collect();
    let rows = kept.iter().map(|&state| &next[state]);
    (
        rows.map(|row| row.iter().map(|&state| group[state]).collect()).collect(),
        kept.iter().map(|&state| accepts[state]).collect(),
    )
}

/// Stores each block of classes once, and none behind the last that is not all one class.
fn compress(class_of: &[u32]) -> (Vec<u16>, Vec<u8>, u8) {
    let default = class_of.last().copied().unwrap_or(0);
    let end = class_of.iter().rposition(|&class| class != default);
    let used = class_of.get(..end.map_or(0, |end| end + 1));
    let mut index = Vec::new();
    let mut classes: Vec<u8> = Vec::new();
    let mut stored: HashMap<Vec<u8>, u16> = HashMap::new();
    for block in used.unwrap_or_default().chunks(BLOCK) {
        let mut block: Vec<u8> = block.iter().map(|&class| small(class as usize)).collect();
        block.resize(BLOCK, small(default as usize));
        let number = stored.len() as u16;
        let number = *stored.entry(block.clone()).or_insert_with(|| {
            classes.extend(block);
            number
        });
        index.push(number);
    }
    (index, classes, small(default as usize))
}

/// A number that the known patterns keep below 256.
fn small(number: usize) -> u8 {
    u8::try_from(number).expect("the known patterns make small automata")
}

// The dead state is explored first.
const _: () = assert!(DEAD == 0);

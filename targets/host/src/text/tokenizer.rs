//! Packs a tokenizer into the section that the device reads in place.

use std::collections::HashMap;

use bytemuck::bytes_of;
use pocket_runtime::text::layout::{
    BLOCK, FLAG_ADD_BOS, FLAG_NFC, Merge, NONE, Special, TOKENIZER_MAGIC, TOKENIZER_VERSION, TokenizerHeader,
};
use pocket_runtime::text::{Tokenizer, merge_slot};

use super::automaton::Automaton;
use super::error::TextBuildError;
use super::section::{AlignedBytes, Section};
use super::source::{TokenKind, TokenizerSource};
use crate::printable::printable;

/// Packs a tokenizer. The section belongs at a multiple of four bytes.
///
/// # Errors
/// [`TextBuildError`] if tokens or merges contradict each other.
pub fn build_tokenizer(source: &TokenizerSource) -> Result<Vec<u8>, TextBuildError> {
    let vocabulary = source.tokens.len();
    for (which, id) in [("begin-of-text", source.bos), ("end-of-text", source.eos)] {
        if let Some(id) = id.filter(|&id| id as usize >= vocabulary) {
            return Err(TextBuildError::NoSuchToken { which, id, vocabulary });
        }
    }
    let ids = Ids::new(source)?;
    let merges = ids.merges(source)?;
    let (slots, probes) = index_merges(&merges)?;
    let specials = ids.specials(source);
    let automaton = Automaton::of(source.pre_tokenizer);

    let mut end = 0_u32;
    let mut ends = Vec::with_capacity(vocabulary);
    for token in &source.tokens {
        end = u32::try_from(token.bytes.len())
            .ok()
            .and_then(|len| end.checked_add(len))
            .ok_or(TextBuildError::TooLarge { what: "its tokens have more than 4 GB" })?;
        ends.push(end);
    }
    let mut special_first = [0_u32; 8];
    for special in &specials {
        if let Some(&byte) = source.tokens[special.id as usize].bytes.first() {
            special_first[usize::from(byte / 32)] |= 1 << (byte % 32);
        }
    }
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    let header = TokenizerHeader {
        magic: TOKENIZER_MAGIC,
        version: TOKENIZER_VERSION,
        flags: flag(source.nfc, FLAG_NFC) | flag(source.add_bos, FLAG_ADD_BOS),
        vocabulary: count(vocabulary)?,
        token_bytes: end,
        merges: count(merges.len())?,
        merge_slots: count(slots.len())?,
        merge_probes: probes,
        specials: count(specials.len())?,
        bos: source.bos.unwrap_or(NONE),
        eos: source.eos.unwrap_or(NONE),
        block_index: count(automaton.block_index.len())?,
        class_blocks: count(automaton.classes.len() / BLOCK)?,
        default_class: automaton.default_class.into(),
        states: count(automaton.accepts.len())?,
        classes: automaton.class_count.into(),
        space_pattern: count(source.pre_tokenizer.patterns().len() - 1)?,
        isolated_pattern: source.pre_tokenizer.isolated_pattern().map_or(NONE, u32::from),
        special_first,
    };
    let mut section = Section::new(bytes_of(&header));
    section.table(&ends);
    section.table(&ids.bytes);
    section.table(&merges);
    section.table(&slots);
    section.table(&specials);
    section.table(&automaton.block_index);
    section.table(&automaton.classes);
    section.table(&automaton.transitions);
    section.table(&automaton.accepts);
    let token_bytes: Vec<u8> = source.tokens.iter().flat_map(|token| token.bytes.iter().copied()).collect();
    section.table(&token_bytes);
    let section = section.finish();
    Tokenizer::open(&AlignedBytes::new(&section)).map_err(TextBuildError::Unsound)?;
    Ok(section)
}

/// A count as the section stores it.
fn count(count: usize) -> Result<u32, TextBuildError> {
    u32::try_from(count).map_err(|_| TextBuildError::TooLarge { what: "a table has more than 2^32 elements" })
}

/// The ids of tokens by their bytes.
struct Ids<'s> {
    /// Tokens that merging can make or that stand for themselves.
    by_bytes: HashMap<&'s [u8], u32>,
    /// The token of each byte.
    bytes: [u32; 256],
}

impl<'s> Ids<'s> {
    /// Takes down all tokens and refuses two of a kind.
    fn new(source: &'s TokenizerSource) -> Result<Self, TextBuildError> {
        let mut normal: HashMap<&[u8], u32> = HashMap::with_capacity(source.tokens.len());
        let mut special: HashMap<&[u8], u32> = HashMap::new();
        count(source.tokens.len())?;
        for (token, id) in source.tokens.iter().zip(0_u32..) {
            let known = match token.kind {
                TokenKind::Normal => &mut normal,
                TokenKind::Control | TokenKind::UserDefined => &mut special,
                TokenKind::Unused => continue,
            };
            if token.bytes.is_empty() {
                return Err(TextBuildError::Empty { id: id as usize });
            }
            if let Some(first) = known.insert(&token.bytes, id) {
                return Err(TextBuildError::Duplicate {
                    first: first as usize,
                    second: id as usize,
                    token: printable(&token.bytes),
                });
            }
        }
        let mut bytes = [NONE; 256];
        for (byte, slot) in (0..=u8::MAX).zip(&mut bytes) {
            if let Some(&id) = normal.get([byte].as_slice()) {
                *slot = id;
            }
        }
        // A merge may make a token that is also special; what is merged wins.
        let mut by_bytes = special;
        by_bytes.extend(normal);
        Ok(Self { by_bytes, bytes })
    }

    /// The merges by id.
    fn merges(&self, source: &TokenizerSource) -> Result<Vec<Merge>, TextBuildError> {
        let merge = |(rank, (left, right)): (usize, &(Vec<u8>, Vec<u8>))| {
            let id = |bytes: &[u8]| {
                let id = self.by_bytes.get(bytes).copied();
                id.ok_or_else(|| TextBuildError::MergeToken { rank, token: printable(bytes) })
            };
            Ok(Merge { left: id(left)?, right: id(right)?, merged: id(&[left.as_slice(), right.as_slice()].concat())? })
        };
        let merges: Vec<Merge> = source.merges.iter().enumerate().map(merge).collect::<Result<_, TextBuildError>>()?;
        let mut seen = HashMap::with_capacity(merges.len());
        for (second, merge) in merges.iter().enumerate() {
            if let Some(first) = seen.insert((merge.left, merge.right), second) {
                let (left, right) = &source.merges[second];
                return Err(TextBuildError::MergeTwice {
                    first,
                    second,
                    left: printable(left),
                    right: printable(right),
                });
            }
        }
        Ok(merges)
    }

    /// The special tokens in the order of the section.
    fn specials(&self, source: &TokenizerSource) -> Vec<Special> {
        let tokens = source.tokens.iter().zip(0_u32..);
        let mut specials: Vec<_> = tokens.filter(|(token, _)| token.kind.is_special()).collect();
        specials.sort_by_key(|(token, _)| {
            let bytes = token.bytes.as_slice();
            (bytes.first(), std::cmp::Reverse(bytes.len()), bytes)
        });
        let entry = |(token, id): (&super::source::Token, u32)| Special {
            id,
            control: u32::from(token.kind == TokenKind::Control),
        };
        specials.into_iter().map(entry).collect()
    }
}

/// Fills the merge index, and gives the most slots that a search looks at.
///
/// Robin Hood: of two merges that want a slot, the one that is further from its first
/// slot gets it. That keeps the furthest near at a load of up to three quarters.
///
/// # Source
/// Celis, Larson, Munro: Robin Hood Hashing (1985).
fn index_merges(merges: &[Merge]) -> Result<(Vec<u32>, u32), TextBuildError> {
    let len = (merges.len() / 3 * 4 + 4).next_power_of_two();
    count(len)?;
    let (mask, bits) = (len - 1, len.trailing_zeros());
    let mut slots = vec![NONE; len];
    let home = |rank: u32| {
        let merge = &merges[rank as usize];
        merge_slot(merge.left, merge.right, bits)
    };
    let distance = |rank: u32, slot: usize| slot.wrapping_sub(home(rank)) & mask;
    let mut most = 0;
    for (_, mut rank) in merges.iter().zip(0_u32..) {
        let mut slot = home(rank);
        while slots[slot] != NONE {
            if distance(slots[slot], slot) < distance(rank, slot) {
                std::mem::swap(&mut slots[slot], &mut rank);
            }
            slot = (slot + 1) & mask;
        }
        slots[slot] = rank;
    }
    for (slot, &rank) in slots.iter().enumerate() {
        if rank != NONE {
            most = most.max(distance(rank, slot) + 1);
        }
    }
    Ok((slots, count(most)?))
}

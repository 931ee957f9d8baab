//! The merges of byte-pair encoding, found by the pair of tokens.
//!
//! An open-addressing hash table with linear probing whose slots hold ranks. The packer
//! fills it so that no merge lies further than `merge_probes` slots from its first one,
//! which bounds every search, of pairs that do not merge too.

use super::error::{TextError, TextPart};
use super::layout::{Merge, NONE};

/// The first slot for a pair of tokens in a table of `2^bits` slots, 1 to 32 bits.
///
/// # Source
/// Fibonacci hashing: Knuth, The Art of Computer Programming 3, section 6.4.
pub const fn merge_slot(left: u32, right: u32, bits: u32) -> usize {
    let pair = ((left as u64) << 32) | right as u64;
    // The high half is folded in first: without it, pairs that differ in `left` alone
    // would land in few slots.
    let mixed = (pair ^ (pair >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 64_u32.saturating_sub(bits)) as usize
}

/// A view of the merges of a tokenizer section.
#[derive(Debug, Clone, Copy)]
pub(super) struct Merges<'a> {
    merges: &'a [Merge],
    slots: &'a [u32],
    bits: u32,
    probes: u32,
}

impl<'a> Merges<'a> {
    /// Checks that the index is whole: it finds every merge under its own rank.
    pub(super) fn open(merges: &'a [Merge], slots: &'a [u32], probes: u32) -> Result<Self, TextError> {
        let damaged = TextError::damaged(TextPart::MergeIndex);
        if slots.len() < 2 || !slots.len().is_power_of_two() || probes as usize > slots.len() {
            return Err(damaged);
        }
        let opened = Self { merges, slots, bits: slots.len().trailing_zeros(), probes };
        let filled = slots.iter().filter(|&&rank| rank != NONE).count();
        let found = merges.iter().zip(0..).all(|(merge, rank)| opened.rank(merge.left, merge.right) == Some(rank));
        // Each rank lies in one slot, so as many filled slots as merges are all of them.
        if filled != merges.len() || !found {
            return Err(damaged);
        }
        Ok(opened)
    }

    /// The rank at which two tokens merge, if they do.
    pub(super) fn rank(&self, left: u32, right: u32) -> Option<u32> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut slot = merge_slot(left, right, self.bits);
        for _ in 0..self.probes {
            let rank = *self.slots.get(slot)?;
            // A free slot holds no rank, and no merge has that many before it.
            let merge = self.merges.get(rank as usize)?;
            if merge.left == left && merge.right == right {
                return Some(rank);
            }
            slot = slot.wrapping_add(1) & mask;
        }
        None
    }

    /// The token that the merge of this rank makes.
    pub(super) fn merged(&self, rank: u32) -> Option<u32> {
        self.merges.get(rank as usize).map(|merge| merge.merged)
    }

    /// All merges, the lowest rank first.
    pub(super) fn all(&self) -> &'a [Merge] {
        self.merges
    }
}

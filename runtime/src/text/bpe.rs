//! Byte-pair encoding of one piece of text, in scratch that the caller lends.
//!
//! The rule: of all neighbouring tokens that merge, merge those of the lowest rank, the
//! leftmost of equals; repeat until none merge. The tokens form a doubly linked list, and
//! a tournament tree holds at its root the position with the lowest (rank, position). A
//! merge changes three leaves, so `n` tokens take `n` merges of `log n` steps whatever
//! the text is, and a table with merges in a circle ends like any other: each merge
//! removes a token.
//!
//! ```text
//! node 1           the winner of all
//! node k           the better of nodes 2k and 2k+1        1 ≤ k < n
//! node n + i       leaf: position i                       0 ≤ i < n
//! ```
//!
//! # Source
//! Sennrich et al., Neural Machine Translation of Rare Words with Subword Units; the order
//! of merges is that of the library `tokenizers`.

use super::layout::NONE;
use super::merges::Merges;

/// Words of scratch for each byte of a piece.
pub(super) const WORDS_PER_BYTE: usize = 5;

/// The tokens of a piece while they merge; all slices have the same length.
pub(super) struct Piece<'s> {
    /// Token at a position; what it was before if it has merged into its left neighbour.
    tokens: &'s mut [u32],
    /// The position before, or [`NONE`].
    before: &'s mut [u32],
    /// The position after, or [`NONE`].
    after: &'s mut [u32],
    /// The rank at which the token merges with the one after it, or [`NONE`].
    ranks: &'s mut [u32],
    /// The winning position of each inner node.
    winners: &'s mut [u32],
}

impl<'s> Piece<'s> {
    /// Lays out the scratch for `len` tokens; nothing if it is too short.
    pub(super) fn new(scratch: &'s mut [u32], len: usize) -> Option<Self> {
        let (tokens, rest) = scratch.split_at_mut_checked(len)?;
        let (before, rest) = rest.split_at_mut_checked(len)?;
        let (after, rest) = rest.split_at_mut_checked(len)?;
        let (ranks, rest) = rest.split_at_mut_checked(len)?;
        let (winners, _) = rest.split_at_mut_checked(len)?;
        Some(Self { tokens, before, after, ranks, winners })
    }

    /// Where the tokens to merge are put before [`merge`](Self::merge).
    pub(super) fn tokens_mut(&mut self) -> &mut [u32] {
        self.tokens
    }

    /// Merges until nothing merges.
    pub(super) fn merge(&mut self, merges: &Merges<'_>) {
        self.link(merges);
        // One token fewer each time, so the bound is never met by a sound table.
        for _ in 1..self.tokens.len() {
            let at = get(self.winners, 1);
            let rank = get(self.ranks, at);
            let Some(merged) = merges.merged(rank) else {
                break;
            };
            self.join(at, merged, merges);
        }
    }

    /// The tokens, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        let mut at = if self.tokens.is_empty() { NONE } else { 0 };
        // Links only ever skip forward, but a bound costs nothing.
        (0..self.tokens.len()).map_while(move |_| {
            let token = *self.tokens.get(at as usize)?;
            at = get(self.after, at);
            Some(token)
        })
    }

    /// Links all positions, ranks all pairs and plays the tournament.
    fn link(&mut self, merges: &Merges<'_>) {
        let len = self.tokens.len();
        let links = self.before.iter_mut().zip(self.after.iter_mut());
        for ((before, after), at) in links.zip(0_u32..) {
            *before = at.checked_sub(1).unwrap_or(NONE);
            *after = at.checked_add(1).filter(|&next| (next as usize) < len).unwrap_or(NONE);
        }
        for (rank, pair) in self.ranks.iter_mut().zip(self.tokens.windows(2)) {
            if let [left, right] = *pair {
                *rank = merges.rank(left, right).unwrap_or(NONE);
            }
        }
        if let Some(last) = self.ranks.last_mut() {
            *last = NONE;
        }
        for node in (1..len).rev() {
            let winner = self.winner_below(node);
            set(self.winners, node as u32, winner);
        }
    }

    /// Merges the token at `at` with the one after it.
    fn join(&mut self, at: u32, merged: u32, merges: &Merges<'_>) {
        let gone = get(self.after, at);
        let next = get(self.after, gone);
        let previous = get(self.before, at);
        set(self.tokens, at, merged);
        set(self.after, at, next);
        set(self.before, next, at);

        set(self.ranks, gone, NONE);
        self.replay(gone);
        self.rank(at, merges);
        if previous != NONE {
            self.rank(previous, merges);
        }
    }

    /// Ranks the pair that begins at a position anew.
    fn rank(&mut self, at: u32, merges: &Merges<'_>) {
        let next = get(self.after, at);
        let rank = match self.tokens.get(next as usize) {
            Some(&right) => merges.rank(get(self.tokens, at), right),
            None => None,
        };
        set(self.ranks, at, rank.unwrap_or(NONE));
        self.replay(at);
    }

    /// Plays the matches of a leaf again, up to where they no longer matter.
    fn replay(&mut self, leaf: u32) {
        let mut node = self.tokens.len().wrapping_add(leaf as usize) / 2;
        while node >= 1 {
            let winner = self.winner_below(node);
            // The others' ranks are as they were: a match that neither was nor is won by
            // this leaf changes nothing above it.
            if winner != leaf && winner == get(self.winners, node as u32) {
                break;
            }
            set(self.winners, node as u32, winner);
            node /= 2;
        }
    }

    /// The better of a node's two children.
    fn winner_below(&self, node: usize) -> u32 {
        let left = node.saturating_mul(2);
        let (a, b) = (self.winner_of(left), self.winner_of(left | 1));
        let (rank_a, rank_b) = (get(self.ranks, a), get(self.ranks, b));
        if (rank_b, b) < (rank_a, a) { b } else { a }
    }

    /// The position that a node stands for.
    fn winner_of(&self, node: usize) -> u32 {
        match node.checked_sub(self.tokens.len()) {
            Some(leaf) => leaf as u32,
            None => get(self.winners, node as u32),
        }
    }
}

/// An element, or [`NONE`] for the position [`NONE`].
fn get(slice: &[u32], at: u32) -> u32 {
    slice.get(at as usize).copied().unwrap_or(NONE)
}

/// Sets an element; nothing for the position [`NONE`].
fn set(slice: &mut [u32], at: u32, value: u32) {
    if let Some(element) = slice.get_mut(at as usize) {
        *element = value;
    }
}

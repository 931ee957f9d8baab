//! Candidates in rank order, no more of them than are asked for.
//!
//! The candidates that are not ranked yet are a heap with the best at its root. The heap lies backwards: the root is the
//! last candidate, and the children of the one `i` places before it are `2i + 1` and `2i + 2` places before it. So the
//! place that becomes free when the root is taken is the first, which is where the root belongs. Ranks are total, so
//! nothing of this can be seen in the order.
//!
//! # Source
//! Williams, "Algorithm 232: Heapsort" (1964); Floyd, "Algorithm 245: Treesort 3" (1964) for making the heap.

use core::cmp::Ordering;

use super::Candidate;

/// Most likely first; equal logits by token. Zeros of both signs are equal.
pub(super) fn rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.id.cmp(&b.id))
}

/// Gives candidates in rank order, and puts them in that order in front of those that it has not given.
pub(super) struct Ranking<'a> {
    heap: &'a mut [Candidate],
}

impl<'a> Ranking<'a> {
    /// Ranks these candidates.
    pub(super) fn of(candidates: &'a mut [Candidate]) -> Self {
        for place in (0..candidates.len() / 2).rev() {
            sink(candidates, place);
        }
        Self { heap: candidates }
    }
}

impl Iterator for Ranking<'_> {
    type Item = Candidate;

    fn next(&mut self) -> Option<Candidate> {
        let (first, heap) = core::mem::take(&mut self.heap).split_first_mut()?;
        if let Some(root) = heap.last_mut() {
            core::mem::swap(first, root);
            sink(heap, 0);
        }
        self.heap = heap;
        Some(*first)
    }
}

/// Moves the candidate `place` places before the root down to where no child ranks before it.
#[expect(clippy::arithmetic_side_effects, reason = "places are less than the length, and a candidate has 8 bytes")]
fn sink(heap: &mut [Candidate], mut place: usize) {
    let len = heap.len();
    // Beyond the first candidate there is none, as these wrap to numbers that are no index.
    let index = |place: usize| len.wrapping_sub(1).wrapping_sub(place);
    let Some(&sinking) = heap.get(index(place)) else { return };
    while let Some(&child) = heap.get(index(2 * place + 1)) {
        let (child, child_place) = match heap.get(index(2 * place + 2)) {
            Some(other) if rank(other, &child).is_lt() => (*other, 2 * place + 2),
            _ => (child, 2 * place + 1),
        };
        if rank(&sinking, &child).is_lt() {
            break;
        }
        if let Some(free) = heap.get_mut(index(place)) {
            *free = child;
        }
        place = child_place;
    }
    if let Some(free) = heap.get_mut(index(place)) {
        *free = sinking;
    }
}

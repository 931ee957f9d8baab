//! Cuts text into pieces, inside which byte-pair encoding merges.
//!
//! A tokenizer's regular expression is an ordered choice: of the alternatives that match
//! at a place, the first counts. The packer compiles it into an automaton over classes of
//! characters (some twenty, looked up in a two-level table), whose states say which
//! alternative has matched; the last one met before nothing more can match is the piece.
//!
//! One thing no automaton can say: `\s+(?!\S)` matches a run of white space only up to
//! what is not followed by text, so it gives the last character of the run back to the
//! word behind it. That is done here by hand. Where digits stand alone (SmolLM), they are
//! cut out before the expression runs, so white space before a digit ends like a text.
//!
//! ```text
//! step through characters until the dead state, remembering the last accepted end
//! if the piece is white space, more than one character, and text follows
//!    that is not cut out beforehand: end one character earlier
//! ```

use super::error::{TextError, TextPart};
use super::layout::{BLOCK, DEAD, START};

/// A view of the automaton of a tokenizer section.
#[derive(Debug, Clone, Copy)]
pub(super) struct PreTokenizer<'a> {
    pub(super) block_index: &'a [u16],
    pub(super) classes: &'a [u8],
    pub(super) default_class: u8,
    pub(super) transitions: &'a [u8],
    pub(super) class_count: u8,
    pub(super) accepts: &'a [u8],
    pub(super) space_pattern: u8,
    pub(super) isolated_pattern: Option<u8>,
}

impl PreTokenizer<'_> {
    /// Checks that every class, state and pattern exists.
    pub(super) fn check(&self) -> Result<(), TextError> {
        let blocks = self.classes.len() / BLOCK;
        let states = self.accepts.len();
        let sound = states > usize::from(START)
            && self.class_count > 0
            && Some(self.transitions.len()) == states.checked_mul(usize::from(self.class_count))
            && self.default_class < self.class_count
            && self.classes.iter().all(|&class| class < self.class_count)
            && self.block_index.iter().all(|&b| usize::from(b) < blocks)
            && self.transitions.iter().all(|&s| usize::from(s) < states)
            // Nothing leads out of the dead state, and it accepts nothing.
            && self.accepts.first() == Some(&0)
            && (0..self.class_count).all(|class| self.step_class(DEAD, class) == DEAD);
        if sound {
            return Ok(());
        }
        Err(TextError::damaged(TextPart::PreTokenizer))
    }

    /// The pieces of a text, in order; together they are the text.
    pub(super) fn pieces<'s>(&'s self, text: &'s str) -> Pieces<'s> {
        Pieces { automaton: self, rest: text }
    }

    /// The length of the first piece of a text.
    fn cut(&self, text: &str) -> usize {
        let mut state = START;
        let mut matched = None;
        for (at, c) in text.char_indices() {
            state = self.step_class(state, self.class(c));
            if state == DEAD {
                break;
            }
            if let Some(pattern) = self.accepted(state) {
                matched = Some((pattern, at, at.saturating_add(c.len_utf8())));
            }
        }
        let Some((pattern, last, end)) = matched else {
            // No pattern matches, which the packer's patterns never do: go on behind the
            // character.
            return text.chars().next().map_or(text.len(), char::len_utf8);
        };
        if pattern == self.space_pattern && last > 0 && self.is_text(text.get(end..)) {
            return last;
        }
        end
    }

    /// Whether the first character of what follows takes white space before it.
    fn is_text(&self, rest: Option<&str>) -> bool {
        let Some(next) = rest.and_then(|rest| rest.chars().next()) else {
            return false;
        };
        let state = self.step_class(START, self.class(next));
        self.isolated_pattern.is_none() || self.accepted(state) != self.isolated_pattern
    }

    /// The class of a character.
    #[expect(clippy::arithmetic_side_effects, reason = "a 16-bit number times 64")]
    fn class(&self, c: char) -> u8 {
        let at = c as usize;
        self.block_index
            .get(at / BLOCK)
            .and_then(|&block| self.classes.get(usize::from(block) * BLOCK + at % BLOCK))
            .copied()
            .unwrap_or(self.default_class)
    }

    /// The state after a character of this class.
    #[expect(clippy::arithmetic_side_effects, reason = "three 8-bit numbers")]
    fn step_class(&self, state: u8, class: u8) -> u8 {
        let at = usize::from(state) * usize::from(self.class_count) + usize::from(class);
        self.transitions.get(at).copied().unwrap_or(DEAD)
    }

    /// The pattern that a state accepts.
    fn accepted(&self, state: u8) -> Option<u8> {
        self.accepts.get(usize::from(state))?.checked_sub(1)
    }
}

/// Iterator over the pieces of a text.
pub(super) struct Pieces<'s> {
    automaton: &'s PreTokenizer<'s>,
    rest: &'s str,
}

impl<'s> Iterator for Pieces<'s> {
    type Item = &'s str;

    fn next(&mut self) -> Option<&'s str> {
        if self.rest.is_empty() {
            return None;
        }
        // A cut is always at a character, so nothing is ever split off past the end.
        let (piece, rest) = self.rest.split_at_checked(self.automaton.cut(self.rest)).unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(piece)
    }
}

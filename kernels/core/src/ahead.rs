//! Asking for memory before it is read.
//!
//! A processor fetches what lies behind the memory that is being read, but only to the end of a page, and not before the
//! reading comes near it. Where multipliers are the bound, the caches can be told meanwhile what comes next. Nothing of
//! that can be seen in the results.

use crate::lanes::Lanes;

/// What the caches move at once, on the chips that we know.
pub(crate) const LINE: usize = 64;

/// Memory that will be read soon, asked for a few cache lines at a time while something else is computed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead<'a> {
    parts: [&'a [u8]; 2],
}

impl<'a> Ahead<'a> {
    /// These stretches, in this order.
    #[must_use]
    pub fn new(parts: [&'a [u8]; 2]) -> Self {
        Self { parts }
    }

    /// Lines that are left.
    #[inline(always)]
    pub(crate) fn lines(&self) -> usize {
        self.parts.iter().map(|part| part.len().div_ceil(LINE)).sum()
    }

    /// Asks for the next `lines` lines.
    #[inline(always)]
    pub(crate) fn fetch<L: Lanes>(&mut self, l: L, lines: usize) {
        let mut lines = lines;
        for part in &mut self.parts {
            let (now, rest) = part.split_at(part.len().min(lines * LINE));
            for byte in now.iter().step_by(LINE) {
                l.fetch(byte);
            }
            lines -= now.len().div_ceil(LINE);
            *part = rest;
            if lines == 0 {
                return;
            }
        }
    }
}

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

    /// Lines that are left of one stretch.
    #[inline(always)]
    pub(crate) fn lines_of(&self, part: usize) -> usize {
        self.parts[part % 2].len().div_ceil(LINE)
    }

    /// Takes at most so many lines of one stretch away, to ask for them one by one.
    #[inline(always)]
    pub(crate) fn take(&mut self, part: usize, lines: usize) -> Lines<'a> {
        let part = &mut self.parts[part % 2];
        let (bytes, rest) = part.split_at(part.len().min(lines * LINE));
        *part = rest;
        Lines { bytes, next: 0 }
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

/// Lines that are asked for one by one: a processor waits for few at a time, so that many at once would hold up a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines<'a> {
    bytes: &'a [u8],
    next: usize,
}

impl Lines<'_> {
    /// Asks for the next line, if there is one.
    #[inline(always)]
    pub(crate) fn fetch<L: Lanes>(&mut self, l: L) {
        if let Some(byte) = self.bytes.get(self.next) {
            l.fetch(byte);
        }
        self.next += LINE;
    }
}

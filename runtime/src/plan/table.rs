//! A plan for people: its regions with names, as a table and as a picture.

use core::fmt;

use super::{Plan, Region};

/// When a region is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// As long as the session lives.
    Always,
    /// While attention is computed.
    Attention,
    /// While the feed-forward part is computed.
    FeedForward,
    /// While logits are computed and a token is drawn.
    Head,
    /// While text becomes tokens.
    Text,
}

impl Phase {
    /// The phases that share scratch memory.
    pub const OVERLAPPING: [Self; 4] = [Self::Attention, Self::FeedForward, Self::Head, Self::Text];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Attention => "attention",
            Self::FeedForward => "feed-forward",
            Self::Head => "head",
            Self::Text => "text",
        }
    }
}

/// A region with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedRegion {
    /// What it holds.
    pub name: &'static str,
    /// When.
    pub phase: Phase,
    /// Bytes from the start of the arena.
    pub offset: usize,
    /// Bytes.
    pub bytes: usize,
}

impl NamedRegion {
    const fn of<T>(phase: Phase, name: &'static str, region: &Region<T>) -> Self {
        Self { name, phase, offset: region.offset(), bytes: region.bytes() }
    }
}

impl Plan {
    /// Every region.
    #[must_use]
    pub const fn regions(&self) -> [NamedRegion; 16] {
        use Phase::{Always, Attention, FeedForward, Head, Text};
        let (p, a, f, h) = (&self.persistent, &self.attention, &self.ffn, &self.head);
        [
            NamedRegion::of(Always, "attention cache", &p.cache),
            NamedRegion::of(Always, "tokens", &p.tokens),
            NamedRegion::of(Always, "hidden state", &p.hidden),
            NamedRegion::of(Always, "rotations", &p.rotations),
            NamedRegion::of(Always, "logits", &p.logits),
            NamedRegion::of(Attention, "quantised input", &a.blocks),
            NamedRegion::of(Attention, "queries", &a.queries),
            NamedRegion::of(Attention, "keys", &a.keys),
            NamedRegion::of(Attention, "values", &a.values),
            NamedRegion::of(Attention, "partial results", &a.partials),
            NamedRegion::of(FeedForward, "quantised input", &f.blocks),
            NamedRegion::of(FeedForward, "gate and up", &f.gated),
            NamedRegion::of(FeedForward, "quantised gate", &f.gated_blocks),
            NamedRegion::of(Head, "quantised input", &h.blocks),
            NamedRegion::of(Head, "candidates", &h.candidates),
            NamedRegion::of(Text, "tokenizer", &self.text.symbols),
        ]
    }

    /// Bytes that a phase uses of the scratch memory.
    #[must_use]
    pub fn phase_bytes(&self, phase: Phase) -> usize {
        let of_phase = self.regions().into_iter().filter(|region| region.phase == phase);
        let ends = of_phase.map(|region| region.offset.saturating_add(region.bytes));
        let start = if phase == Phase::Always { 0 } else { self.scratch_offset };
        ends.max().unwrap_or(start).saturating_sub(start)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<13} {:<16} {:>12} {:>13}", "when", "what", "offset", "bytes")?;
        for region in self.regions() {
            let NamedRegion { name, phase, offset, bytes } = region;
            writeln!(f, "{:<13} {name:<16} {offset:>12} {bytes:>13}", phase.name())?;
        }
        writeln!(f, "{:<30} {:>12} {:>13}", "arena", "", self.arena_bytes)?;
        write!(f, "{:<30} {:>12} {:>13}", "stacks", "", self.stack_bytes())
    }
}

//! What a case gives: its result in comparable form, and the shape it had.

use core::fmt;
use pocket_kernels::WIDTH;
use pocket_kernels::tile::Block;

/// The pattern that stands for every NaN.
const NAN: u32 = 0x7fc0_0000;

/// FNV-1a, 64 bits, over little-endian words.
///
/// # Source
/// RFC 9923.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash(pub(crate) u64);

impl Hash {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn add(&mut self, word: u32) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// The result of a case, element by element, every NaN replaced by one.
pub(crate) struct Record<'a> {
    words: &'a mut [u32],
    len: usize,
    verdict: u32,
}

impl<'a> Record<'a> {
    pub(crate) fn new(words: &'a mut [u32]) -> Self {
        Self { words, len: 0, verdict: 0 }
    }

    pub(crate) fn word(&mut self, word: u32) {
        self.words[self.len] = word;
        self.len += 1;
    }

    pub(crate) fn float(&mut self, x: f32) {
        self.word(if x.is_nan() { NAN } else { x.to_bits() });
    }

    pub(crate) fn floats(&mut self, x: &[f32]) {
        x.iter().for_each(|&x| self.float(x));
    }

    pub(crate) fn halves(&mut self, x: &[u16]) {
        x.iter().for_each(|&x| self.word(if x & 0x7fff > 0x7c00 { 0x7e00 } else { u32::from(x) }));
    }

    pub(crate) fn ints(&mut self, x: &[i32]) {
        x.iter().for_each(|&x| self.word(x as u32));
    }

    /// Codes one by one, then scale, scaled sum and sum of each group.
    pub(crate) fn blocks<B: Block>(&mut self, blocks: &[B], sum: impl Fn(&B) -> i32) {
        for block in blocks {
            block.q().iter().for_each(|&q| self.word(i32::from(q) as u32));
            self.float(block.scale());
            self.float(block.scaled_sum());
            self.word(sum(block) as u32);
        }
    }

    /// What the kernel returned besides its output.
    pub(crate) fn verdict(&mut self, verdict: u32) {
        self.verdict = verdict;
    }

    pub(crate) fn hash(&self, hash: &mut Hash) {
        hash.add(self.verdict);
        hash.add(self.len as u32);
        self.words[..self.len].iter().for_each(|&word| hash.add(word));
    }

    /// The elements that differ from those of `want`, in order; a different verdict comes alone.
    pub(crate) fn differences<'b>(&'b self, want: &'b Record<'_>) -> impl Iterator<Item = Difference> + 'b {
        let verdict = (self.verdict != want.verdict || self.len != want.len).then_some(Difference {
            index: None,
            got: self.verdict,
            want: want.verdict,
        });
        let elements = self.words[..self.len].iter().zip(&want.words[..want.len]).enumerate();
        let elements = elements.filter(|(_, (got, want))| got != want).map(|(index, (&got, &want))| Difference {
            index: Some(index),
            got,
            want,
        });
        let alone = verdict.is_some();
        verdict.into_iter().chain(elements.filter(move |_| !alone))
    }
}

/// An element that is wrong, or the verdict of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Difference {
    index: Option<usize>,
    got: u32,
    want: u32,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "element {index} (lane {})", index % WIDTH)?,
            None => write!(f, "verdict")?,
        }
        write!(f, ": got {:#010x}, want {:#010x}", self.got, self.want)
    }
}

/// The shape of a case, in words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shape {
    fields: [Option<(&'static str, Value)>; 8],
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Number(usize),
    Word(&'static str),
}

impl Shape {
    fn field(mut self, name: &'static str, value: Value) -> Self {
        if let Some(field) = self.fields.iter_mut().find(|field| field.is_none()) {
            *field = Some((name, value));
        }
        self
    }

    pub(crate) fn number(self, name: &'static str, value: usize) -> Self {
        self.field(name, Value::Number(value))
    }

    pub(crate) fn word(self, name: &'static str, value: &'static str) -> Self {
        self.field(name, Value::Word(value))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.fields.iter().flatten().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            match value {
                Value::Number(value) => write!(f, "{comma}{name} {value}")?,
                Value::Word(value) => write!(f, "{comma}{name} {value}")?,
            }
        }
        Ok(())
    }
}

//! The memory a caller lends to the suite.

use bytemuck::Pod;

/// Elements of the largest result: a cache of 32 positions of the largest head, keys and values, and scales.
const WORDS: usize = 2 * 32 * 256 + 64;
/// 16-byte units of the largest operands: a binary16 cache of 272 positions of the largest head, with queries and
/// partial results.
const UNITS: usize = 336 * 1024 / 16;

/// Memory of the suite, about 470 KB: put it into a `static` on a board.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) operands: [u128; UNITS],
    pub(crate) got: [u32; WORDS],
    pub(crate) want: [u32; WORDS],
}

impl Scratch {
    /// Cleared memory.
    #[must_use]
    pub const fn new() -> Self {
        Self { operands: [0; UNITS], got: [0; WORDS], want: [0; WORDS] }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a view of operands exists: anything else is a mistake in a list of shapes, and must not pass as a case.
pub(crate) const FITS: &str = "shapes are listed so that views fit";

/// Memory to lay operands in, one after the other.
pub(crate) struct Shelf<'a>(&'a mut [u128]);

impl<'a> Shelf<'a> {
    pub(crate) fn new(memory: &'a mut [u128]) -> Self {
        Self(memory)
    }

    /// `len` elements, 16-byte aligned, with whatever they held before. Panics if the shelf is full, which is a mistake
    /// in a list of shapes.
    pub(crate) fn take<T: Pod>(&mut self, len: usize) -> &'a mut [T] {
        let units = (len * size_of::<T>()).div_ceil(16);
        let (now, later) = core::mem::take(&mut self.0).split_at_mut(units);
        self.0 = later;
        &mut bytemuck::cast_slice_mut(now)[..len]
    }
}

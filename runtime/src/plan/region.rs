//! Typed pieces of the arena.

use core::marker::PhantomData;

use bytemuck::Pod;

/// Every region begins at a multiple of this many bytes.
pub const ALIGN: usize = 64;

/// `len` elements of `T` at a place in the arena. Only a plan makes one.
#[derive(Debug)]
pub struct Region<T> {
    offset: usize,
    len: usize,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Region<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Region<T> {}

impl<T> PartialEq for Region<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.offset, self.len) == (other.offset, other.len)
    }
}

impl<T> Region<T> {
    /// Bytes from the start of the arena.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Elements.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes, without what alignment adds.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.len.saturating_mul(size_of::<T>())
    }
}

/// Lays regions one behind the other, counting with checks.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    end: Option<usize>,
}

impl Layout {
    pub(super) const fn from(offset: usize) -> Self {
        Self { end: Some(offset) }
    }

    /// The next region: `len`, a product that may have overflowed, of elements of `T`.
    pub(super) const fn region<T>(&mut self, len: Option<usize>) -> Region<T> {
        const { assert!(align_of::<T>() <= ALIGN) };
        let nothing = Region { offset: 0, len: 0, element: PhantomData };
        let (Some(offset), Some(len)) = (self.end, len) else {
            self.end = None;
            return nothing;
        };
        self.end = match len.checked_mul(size_of::<T>()) {
            Some(bytes) => match bytes.checked_next_multiple_of(ALIGN) {
                Some(bytes) => offset.checked_add(bytes),
                None => None,
            },
            None => None,
        };
        match self.end {
            Some(_) => Region { offset, len, element: PhantomData },
            None => nothing,
        }
    }

    /// Where the next region would begin; `None` if anything overflowed.
    pub(super) const fn end(&self) -> Option<usize> {
        self.end
    }
}

/// `a · b`, if neither is missing and the product fits.
pub(super) const fn times(a: Option<usize>, b: usize) -> Option<usize> {
    match a {
        Some(a) => a.checked_mul(b),
        None => None,
    }
}

/// The arena, or what is left of it, lent out region by region in ascending order.
#[derive(Debug)]
pub(crate) struct Lender<'a> {
    rest: &'a mut [u8],
    offset: usize,
}

impl<'a> Lender<'a> {
    /// Lends from `memory`, whose first byte has this offset in the arena.
    pub(crate) fn new(memory: &'a mut [u8], offset: usize) -> Self {
        Self { rest: memory, offset }
    }

    /// Lends a region that lies behind all those lent before. A plan's regions always do; anything else is empty.
    pub(crate) fn lend<T: Pod>(&mut self, region: Region<T>) -> &'a mut [T] {
        let skip = region.offset.checked_sub(self.offset);
        debug_assert!(skip.is_some(), "regions are lent in ascending order");
        let rest = core::mem::take(&mut self.rest);
        let Some((_, rest)) = skip.and_then(|skip| rest.split_at_mut_checked(skip)) else { return &mut [] };
        let Some((lent, rest)) = rest.split_at_mut_checked(region.bytes()) else { return &mut [] };
        self.rest = rest;
        self.offset = region.offset.saturating_add(region.bytes());
        let lent = bytemuck::try_cast_slice_mut(lent);
        debug_assert!(lent.is_ok(), "regions are aligned");
        lent.unwrap_or(&mut [])
    }
}

//! Rectangles of an output matrix, handed out to workers one at a time.
//!
//! Workers share a stage by claiming panels of its output from an atomic counter. A panel is a range of columns over
//! all rows (tokens), so two panels never touch the same element; that is the whole argument for the unsafe code here,
//! which is why it is in one small file. Which worker gets which panel cannot be seen in the results.

use core::marker::PhantomData;
use core::num::NonZero;
use core::sync::atomic::{AtomicUsize, Ordering};

/// A rectangle of a row-major matrix, lent exclusively.
#[derive(Debug)]
pub struct Panel<'a, T> {
    start: *mut T,
    rows: usize,
    stride: usize,
    width: usize,
    lent: PhantomData<&'a mut [T]>,
}

impl<'a, T> Panel<'a, T> {
    /// The whole of a matrix `[data.len() / width, width]`.
    pub fn whole(data: &'a mut [T], width: usize) -> Self {
        let rows = data.len().checked_div(width).unwrap_or(0);
        Self { start: data.as_mut_ptr(), rows, stride: width, width, lent: PhantomData }
    }

    /// Number of rows (tokens).
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The part of a row inside the panel; empty beyond the last row.
    #[inline(always)]
    pub fn row(&mut self, row: usize) -> &mut [T] {
        if row >= self.rows {
            return &mut [];
        }
        // SAFETY: `row < rows`, and the constructors made sure that row `row` of the panel,
        // `start + row·stride .. + width`, lies inside the matrix and belongs to no other panel; `&mut self` keeps this
        // the only reference made from the panel.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(row * self.stride), self.width) }
    }

    /// The only row of a one-row panel, for as long as the matrix is lent.
    #[must_use]
    pub fn into_row(self) -> &'a mut [T] {
        if self.rows == 0 {
            return &mut [];
        }
        // SAFETY: as in `row` with row 0; `self` is consumed, so no second reference can be made from this panel.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.width) }
    }
}

/// `n`, or 1 for none: what can be divided by.
fn at_least_one(n: usize) -> NonZero<usize> {
    NonZero::new(n).unwrap_or(NonZero::<usize>::MIN)
}

/// Most stretches that a matrix is divided into; more workers than that begin in the same ones.
const STRETCHES: usize = 8;

/// A matrix cut into panels of equal width, to be claimed by any number of workers.
///
/// A worker goes through a stretch of neighbouring panels of its own, as memory is read fastest in order, and then
/// helps in the stretches of others.
#[derive(Debug)]
pub struct Panels<'a, T> {
    start: *mut T,
    rows: usize,
    stride: usize,
    chunk: NonZero<usize>,
    stretches: NonZero<usize>,
    /// How many panels of each stretch are taken.
    taken: [AtomicUsize; STRETCHES],
    lent: PhantomData<&'a mut [T]>,
}

// SAFETY: the panels of one matrix are disjoint and each is given out once (the counter is atomic), so sharing `Panels`
// between threads moves exclusive slices of `T` to them, which is what `T: Send` allows.
unsafe impl<T: Send> Sync for Panels<'_, T> {}

impl<'a, T> Panels<'a, T> {
    /// Cuts `data`, a matrix of `rows` rows, into panels of `chunk` columns (the last may be narrower).
    pub fn columns(data: &'a mut [T], rows: usize, chunk: usize) -> Self {
        let stride = data.len().checked_div(rows).unwrap_or(0);
        Self {
            start: data.as_mut_ptr(),
            rows,
            stride,
            chunk: at_least_one(chunk),
            stretches: at_least_one(1),
            taken: [const { AtomicUsize::new(0) }; STRETCHES],
            lent: PhantomData,
        }
    }

    /// Cuts a slice into pieces of `chunk` elements.
    pub fn pieces(data: &'a mut [T], chunk: usize) -> Self {
        Self::columns(data, 1, chunk)
    }

    /// Gives each of so many workers a stretch of its own to begin with.
    #[must_use]
    pub fn shared_by(self, workers: usize) -> Self {
        Self { stretches: at_least_one(workers.min(STRETCHES)), ..self }
    }

    /// Takes the next panel nobody has: its index and the panel. `None` when all are taken.
    #[inline]
    pub fn claim(&self) -> Option<(usize, Panel<'a, T>)> {
        self.claim_by(0)
    }

    /// As [`Self::claim`], for the worker of this number: first from its own stretch.
    #[inline]
    pub fn claim_by(&self, worker: usize) -> Option<(usize, Panel<'a, T>)> {
        let (chunk, stretches) = (self.chunk.get(), self.stretches);
        let count = self.stride.div_ceil(chunk);
        let begin = |stretch: usize| count * stretch / stretches;
        let index = (0..stretches.get()).find_map(|turn| {
            let stretch = (worker % stretches + turn) % stretches;
            let (first, panels) = (begin(stretch), begin(stretch + 1) - begin(stretch));
            let taken = &self.taken[stretch % STRETCHES];
            // A load first, so that idle workers asking again and again cannot wrap the counter.
            let left = taken.load(Ordering::Relaxed) < panels;
            let next = if left { taken.fetch_add(1, Ordering::Relaxed) } else { panels };
            (next < panels).then(|| first + next)
        })?;
        let column = index * chunk;
        // SAFETY: stretches end at `count`, so `index < count`, which gives `column < stride`: the pointer stays inside
        // the matrix.
        let start = unsafe { self.start.add(column) };
        let width = chunk.min(self.stride - column);
        // Stretches do not overlap, and `fetch_add` returned this place in one to this caller alone, so the panel's
        // columns are lent once.
        Some((index, Panel { start, rows: self.rows, stride: self.stride, width, lent: PhantomData }))
    }
}

#[cfg(test)]
mod tests;

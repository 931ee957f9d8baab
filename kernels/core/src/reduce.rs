//! Reductions over a row: the fixed-order sum, the largest element and where it is.

use crate::lanes::{Job, Lanes, WIDTH};

/// Bits of infinity: [`Lanes::abs_bits`] at or above this belong to no finite number.
pub(crate) const INFINITY_BITS: i32 = 0x7f80_0000;

/// Sums 16 lanes in the order of the contract: 16→8→4→2→1, lane i with lane i + half.
#[inline(always)]
pub(crate) fn fold<L: Lanes>(l: L, lanes: L::F) -> f32 {
    let mut x = [0.0; WIDTH];
    l.store(lanes, &mut x);
    let a: [f32; 8] = core::array::from_fn(|i| x[i] + x[i + 8]);
    let b: [f32; 4] = core::array::from_fn(|i| a[i] + a[i + 4]);
    (b[0] + b[2]) + (b[1] + b[3])
}

/// The largest of 16 lanes.
#[inline(always)]
pub(crate) fn largest<L: Lanes>(l: L, lanes: L::F) -> f32 {
    let mut x = [0.0; WIDTH];
    l.store(lanes, &mut x);
    x.iter().fold(f32::NEG_INFINITY, |most, &x| if x > most { x } else { most })
}

/// Finds the index of the largest element, the lowest on a tie.
///
/// The result is `None` if an element is not a finite number, or there is none.
#[derive(Debug)]
pub struct ArgMax<'a> {
    /// The row, any length.
    pub x: &'a [f32],
}

impl Job for ArgMax<'_> {
    type Out = Option<usize>;

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Self::Out {
        let (chunks, tail) = self.x.as_chunks::<WIDTH>();
        let mut most = l.splat(f32::NEG_INFINITY);
        let mut bits = l.splat_i(0);
        for chunk in chunks {
            let x = l.load(chunk);
            most = l.max(most, x);
            bits = l.max_i(bits, l.abs_bits(x));
        }
        let mut most = largest(l, most);
        let mut finite = l.reduce_max_i(bits) < INFINITY_BITS;
        for &x in tail {
            finite &= x.is_finite();
            most = if x > most { x } else { most };
        }
        if !finite {
            return None;
        }
        // Whole chunks first: the compiler turns the inner search into vector compares.
        let chunk = chunks.iter().position(|chunk| chunk.iter().fold(false, |found, &x| found | (x == most)));
        let start = chunk.unwrap_or(chunks.len()) * WIDTH;
        self.x.get(start..)?.iter().position(|&x| x == most).map(|i| start + i)
    }
}

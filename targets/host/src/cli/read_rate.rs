//! How fast this machine reads memory: the speed that decoding cannot exceed.
//!
//! Decoding a token reads all weights once, so the rate at which plain memory can be read, divided by the bytes of the
//! weights, bounds the tokens a second. It is measured by summing a buffer that no cache holds, with as many threads.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use crate::isa::{Isa, WithKernels};
use crate::memory::HostArena;
use crate::pool::Pool;
use anyhow::{Context, Result};
use pocket_kernels::{Job, Kernels, Lanes};
use pocket_runtime::Workers;

use super::arguments::Pages;

/// The buffer is at least this large, beyond any cache.
const LEAST_BYTES: usize = 256_000_000;
/// Words that a thread takes at a time.
const PIECE: usize = 1 << 17;
/// The best of so many counts: whatever else the machine does can only make it slower.
const ROUNDS: usize = 7;

/// Memory to be read.
pub(super) struct Buffer {
    arena: HostArena,
}

impl Buffer {
    /// A filled buffer, as large as the weights if they are large, in pages of the image's size. The system must give it
    /// real pages, so each is written.
    pub(super) fn new(weight_bytes: u64, pages: Pages) -> Result<Self> {
        let bytes = LEAST_BYTES.max(usize::try_from(weight_bytes)?).next_multiple_of(8);
        let arena = match pages {
            Pages::Mapped => HostArena::new(bytes),
            Pages::Huge => HostArena::huge(bytes),
        };
        let mut arena = arena.context("the system grants no memory to measure the reading rate")?;
        for (i, byte) in arena.bytes().iter_mut().enumerate() {
            *byte = i as u8;
        }
        Ok(Self { arena })
    }

    /// Bytes a second with these threads.
    pub(super) fn read_rate(&mut self, isa: Isa, pool: &Pool) -> Result<f64> {
        Ok(isa.run(Measure { words: bytemuck::try_cast_slice(self.arena.bytes()).unwrap_or(&[]), pool })?)
    }
}

struct Measure<'a> {
    words: &'a [u64],
    pool: &'a Pool,
}

impl WithKernels for Measure<'_> {
    type Out = f64;

    fn with<K: Kernels>(self, kernels: K) -> f64 {
        let Self { words, pool } = self;
        let rate = |_| {
            let (next, sum) = (AtomicUsize::new(0), AtomicU64::new(0));
            let begin = Instant::now();
            pool.run(&|_| {
                while let Some(piece) = words.chunks(PIECE).nth(next.fetch_add(1, Ordering::Relaxed)) {
                    sum.fetch_add(kernels.enter(Sum(piece)), Ordering::Relaxed);
                }
            });
            black_box(sum);
            size_of_val(words) as f64 / begin.elapsed().as_secs_f64()
        };
        (0..ROUNDS).map(rate).fold(0.0, f64::max)
    }
}

/// The sum of words, with the widest loads of the instruction set.
struct Sum<'a>(&'a [u64]);

impl Job for Sum<'_> {
    type Out = u64;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> u64 {
        self.0.iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}

//! The whole memory plans of the reference shapes, pinned: whoever makes one larger or smaller says so.

use std::fmt::Write;

use pocket_pack::synth::{SHAPES, weights};
use pocket_runtime::{CacheType, Limits, Plan};

/// The plans as text: every region of every shape, for both caches, with one worker and with four.
///
/// # Panics
/// If there is no plan for one of them.
#[must_use]
pub fn table() -> String {
    let mut text = String::new();
    for shape in SHAPES {
        for (cache, workers) in [(CacheType::F16, 1), (CacheType::F16, 4), (CacheType::I8, 1), (CacheType::I8, 4)] {
            let limits = Limits { workers, cache, ..Limits::new(2048) };
            let plan = Plan::try_new(&shape.config, &limits).expect("a shape that can be planned");
            let weights = weights(&shape.config).bytes;
            let peak = plan.peak_bytes(usize::try_from(weights).expect("64-bit addresses"));
            let Limits { context, batch, word_bytes, .. } = limits;
            writeln!(
                text,
                "{}: context {context}, batch {batch}, workers {workers}, {cache:?} cache, words of {word_bytes} bytes\n\
                 {plan}\n{:<30} {:>12} {weights:>13}\n{:<30} {:>12} {peak:>13}\n",
                shape.name, "weights", "", "peak", ""
            )
            .expect("a string");
        }
    }
    text
}

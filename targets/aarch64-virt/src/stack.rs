//! The stacks: painted at boot, so that their use can be measured.

/// Bytes of each core's stack; as in `link.x`.
pub(crate) const STACK_BYTES: usize = 128 << 10;
/// What the boot code paints them with.
const PAINT: u64 = 0xA5A5_A5A5_A5A5_A5A5;

unsafe extern "C" {
    static __stacks_start: u64;
    static __stacks_end: u64;
}

/// The top of the second core's stack; the main core's is above it.
pub(crate) fn top_of_second() -> u64 {
    (&raw const __stacks_end) as u64 - STACK_BYTES as u64
}

/// The most bytes that the stacks of the main and the second core have held.
pub(crate) fn used() -> [usize; 2] {
    let start = &raw const __stacks_start;
    let words = STACK_BYTES / size_of::<u64>();
    let untouched = |stack: *const u64| {
        // SAFETY: the words lie in one of the two stacks of the linker script, and are read as they are.
        (0..words).take_while(|&i| unsafe { stack.add(i).read_volatile() } == PAINT).count()
    };
    // SAFETY: the linker script has two stacks of this many words from `start` on.
    let second = unsafe { start.add(words) };
    [second, start].map(|stack| STACK_BYTES - untouched(stack) * size_of::<u64>())
}

//! The stacks: as large as the plan says, and painted at boot, so that their use can be measured.

use core::cell::UnsafeCell;

use pocket_runtime::plan::{CALL_STACK_BYTES, JOB_STACK_BYTES};

/// What each stack has beside the runtime's share, for this program's own calls and what it formats.
const OWN_BYTES: usize = 8 << 10;
const MAIN_BYTES: usize = CALL_STACK_BYTES + OWN_BYTES;
const SECOND_BYTES: usize = JOB_STACK_BYTES + OWN_BYTES;
/// What the boot code paints them with.
const PAINT: u64 = 0xA5A5_A5A5_A5A5_A5A5;

/// The second core's stack below the main core's, which begins at the end of the section.
#[repr(C, align(16))]
struct Stacks {
    second: UnsafeCell<[u64; SECOND_BYTES / 8]>,
    main: UnsafeCell<[u64; MAIN_BYTES / 8]>,
}

// SAFETY: nothing makes a reference to what is in the cells; the words are read one by one, as they are.
unsafe impl Sync for Stacks {}

// SAFETY: the section is the linker script's for stacks, and holds nothing else.
#[unsafe(link_section = ".stacks")]
static STACKS: Stacks =
    Stacks { second: UnsafeCell::new([0; SECOND_BYTES / 8]), main: UnsafeCell::new([0; MAIN_BYTES / 8]) };

/// The top of the second core's stack.
pub(crate) fn top_of_second() -> u64 {
    STACKS.main.get() as u64
}

/// The most bytes that the stacks of the main and the second core have held.
pub(crate) fn used() -> [usize; 2] {
    [used_of(STACKS.main.get().cast(), MAIN_BYTES), used_of(STACKS.second.get().cast(), SECOND_BYTES)]
}

fn used_of(stack: *const u64, bytes: usize) -> usize {
    let words = bytes / size_of::<u64>();
    // SAFETY: the words lie in one of the two stacks, whose size this is.
    let untouched = (0..words).take_while(|&i| unsafe { stack.add(i).read_volatile() } == PAINT).count();
    bytes - untouched * size_of::<u64>()
}

//! Static memory for a session.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

/// `BYTES` of 64-byte aligned memory that can be taken once.
///
/// ```
/// # use pocket_runtime::Arena;
/// static ARENA: Arena<4096> = Arena::new();
/// let memory = ARENA.take().expect("nobody took it before");
/// assert_eq!(memory.len(), 4096);
/// assert!(ARENA.take().is_none());
/// ```
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Arena<const BYTES: usize> {
    memory: UnsafeCell<[u8; BYTES]>,
    taken: AtomicBool,
}

// SAFETY: the only access to the cell is through `take`, which gives the memory to one caller ever.
unsafe impl<const BYTES: usize> Sync for Arena<BYTES> {}

impl<const BYTES: usize> Arena<BYTES> {
    /// Zeroed memory; in a `static` it takes no room in the program file.
    #[must_use]
    pub const fn new() -> Self {
        Self { memory: UnsafeCell::new([0; BYTES]), taken: AtomicBool::new(false) }
    }

    /// The memory, the first time; `None` ever after.
    #[expect(clippy::mut_from_ref, reason = "given out once")]
    pub fn take(&'static self) -> Option<&'static mut [u8]> {
        if self.taken.swap(true, Ordering::AcqRel) {
            return None;
        }
        // SAFETY: `swap` returned false to this call alone, so this is the only reference ever made; the arena is
        // static, so the memory lives on.
        Some(unsafe { &mut *self.memory.get() })
    }
}

impl<const BYTES: usize> Default for Arena<BYTES> {
    fn default() -> Self {
        Self::new()
    }
}

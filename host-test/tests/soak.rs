//! A thousand conversations with everything that may happen in them: the same answers, in the same memory.

use pocket_host_test::soak::{CONVERSATIONS, FIRST, run};
use pocket_host_test::{EMULATED, golden, trap};
use pocket_pack::isa::Isa;

#[global_allocator]
static ALLOCATOR: trap::Counting = trap::Counting;

/// Conversations after which nothing is new: every session has been full, every page touched.
const WARM: usize = 100;

#[test]
fn a_thousand_conversations_change_nothing() {
    let (count, pinned) =
        if EMULATED { (FIRST, golden::first_soak_hash()) } else { (CONVERSATIONS, golden::soak_hash()) };
    for isa in Isa::available() {
        let (mut allocations, mut warm, mut last) = (usize::MAX, None, None);
        let soaked = run(isa, trap::watched, count, &mut |number| {
            if number == 0 {
                trap::arm();
            } else if number == count {
                allocations = trap::disarm();
                last = resident_bytes();
            } else if number == WARM {
                warm = resident_bytes();
            }
        });
        assert_eq!(allocations, 0, "{isa}: {soaked:?}");
        assert_eq!(soaked.hash, pinned, "{isa}: {soaked:?}");
        // What did not happen was not tested.
        let often = count / 20;
        assert!(soaked.resets > often && soaked.rewinds > often && soaked.full > often, "{isa}: {soaked:?}");
        assert!(soaked.replays > 0 && soaked.cancels > 0, "{isa}: {soaked:?}");
        if let (Some(warm), Some(last)) = (warm, last) {
            assert!(last <= warm + (1 << 20), "{isa}: {warm} bytes were resident, {last} are");
        }
    }
}

/// Bytes of this process that are in memory, read without allocating. An emulator's own are no figure.
fn resident_bytes() -> Option<u64> {
    use std::io::Read;
    if EMULATED || !cfg!(target_os = "linux") {
        return None;
    }
    let mut text = [0; 128];
    let len =
        std::fs::File::open("/proc/self/statm").and_then(|mut file| file.read(&mut text)).expect("a proc file system");
    let text = std::str::from_utf8(&text[..len]).expect("numbers");
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("the second of seven numbers");
    Some(pages * 4096)
}

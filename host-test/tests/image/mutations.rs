//! Any numbers anywhere, with good checksums: an error, or an image that runs.

use pocket_host_test::images::AlignedBytes;
use pocket_runtime::Image;
use pocket_runtime::image::{HEADER_BYTES, SectionKind, TABLE_OFFSET, TensorRecord};
use proptest::prelude::*;

use super::build::{Draft, MODEL, UNTIED, exercise, range};

/// Numbers that have broken readers, near and far, and any.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..=70u64,
        (0..64u32, -1..=1i64).prop_map(|(n, d)| (1u64 << n).wrapping_add_signed(d)),
        (0..40u64).prop_map(|n| n * 64),
        Just(u64::MAX),
        Just(u64::MAX - 63),
        Just(f32::NAN.to_bits().into()),
        Just(f64::INFINITY.to_bits()),
        any::<u64>(),
    ]
}

/// Where: a share of the bytes of header and table, or of a section that steers access.
#[derive(Clone, Debug)]
struct Edit {
    part: usize,
    at: usize,
    wide: bool,
    number: u64,
}

fn edit() -> impl Strategy<Value = Edit> {
    (0..5usize, any::<usize>(), any::<bool>(), number()).prop_map(|(part, at, wide, number)| Edit {
        part,
        at,
        wide,
        number,
    })
}

fn apply(draft: &mut Draft, edit: &Edit) {
    use SectionKind::{Generation, RopeFrequencies, Tensors};
    let place = match edit.part {
        // Magic and version are not worth a case.
        0 => 12..HEADER_BYTES,
        1 => TABLE_OFFSET..TABLE_OFFSET + size_of_val(draft.sections()),
        part => range(draft.section([Tensors, RopeFrequencies, Generation][part - 2])),
    };
    let width = if edit.wide { 8 } else { 4 };
    let at = place.start + edit.at % (place.len() / width) * width;
    draft.bytes[at..at + width].copy_from_slice(&edit.number.to_le_bytes()[..width]);
}

fn run(bytes: &AlignedBytes) {
    if Image::open(bytes).is_ok() {
        exercise(bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_number_anywhere(untied in any::<bool>(), edits in prop::collection::vec(edit(), 1..4)) {
        let mut draft = Draft::of(if untied { UNTIED } else { MODEL });
        // In this order the earlier edits cannot hide the sections of the later ones.
        let mut edits = edits;
        edits.sort_by_key(|edit| std::cmp::Reverse(edit.part));
        for edit in &edits {
            apply(&mut draft, edit);
        }
        run(&draft.seal());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Places that may well lie inside, so that many of these images open.
    #[test]
    fn tensors_anywhere(moves in prop::collection::vec((any::<usize>(), any::<u64>(), any::<u64>(), 0..8u32), 1..6)) {
        let mut draft = Draft::of(MODEL);
        let len = draft.section(SectionKind::Weights).len;
        for (index, offset, stride, format) in moves {
            let tensors: &mut [TensorRecord] = draft.tensors();
            let count = tensors.len();
            let record = &mut tensors[index % count];
            record.offset = offset % (len / 32) * 32;
            if record.stride > 0 {
                record.stride += stride % 64 * 32;
                record.format = if format > 0 && format < 6 { format } else { record.format };
            }
        }
        run(&draft.seal());
    }

    /// Noise for weights.
    #[test]
    fn weights_of_noise(seed in any::<u64>(), untied in any::<bool>()) {
        let mut draft = Draft::of(if untied { UNTIED } else { MODEL });
        let mut state = seed | 1;
        let weights = range(draft.section(SectionKind::Weights));
        for word in draft.bytes[weights].chunks_exact_mut(8) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&(state ^ (state >> 29)).to_le_bytes());
        }
        run(&draft.seal());
    }
}

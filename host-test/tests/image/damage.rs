//! Damage: ends cut off, bits flipped, the wrong place in memory.

use pocket_host_test::images::{self, AlignedBytes};
use pocket_runtime::image::{HEADER_BYTES, SectionKind, TABLE_OFFSET};
use pocket_runtime::{Image, ImageError, Part};

use super::build::{Draft, MODEL, UNTIED, exercise, range};

fn error(bytes: &[u8]) -> Option<ImageError> {
    Image::open(bytes).err()
}

/// The end of header, signature and table.
fn table_end(draft: &mut Draft) -> usize {
    TABLE_OFFSET + size_of_val(draft.sections())
}

#[test]
fn whole_images_open() {
    for name in [MODEL, UNTIED] {
        let bytes = images::image(name);
        let image = Image::open(bytes).unwrap();
        image.verify().unwrap();
        assert_eq!(image.bytes().len(), bytes.len());
        assert!(exercise(bytes).iter().all(Result::is_ok), "{name}");
        assert_eq!(image.sections().len(), SectionKind::ALL.len() - 2, "{name} has every section but a prefix");
    }
}

#[test]
fn a_cut_end_is_noticed_wherever_it_is() {
    for name in [MODEL, UNTIED] {
        let mut draft = Draft::of(name);
        let len = draft.bytes.len();
        let mut cuts: Vec<usize> = (0..=table_end(&mut draft)).collect();
        for record in draft.sections() {
            let range = range(record);
            cuts.extend([range.start - 1, range.start, range.start + 1, range.end - 1, range.end, range.end + 1]);
        }
        cuts.extend([len / 2, len - 64, len - 1]);
        for cut in cuts.into_iter().filter(|&cut| cut < len) {
            let need = if cut < TABLE_OFFSET { TABLE_OFFSET } else { len } as u64;
            let want = ImageError::Truncated { need, have: cut as u64 };
            assert_eq!(error(&draft.bytes[..cut]), Some(want), "{name} cut to {cut} bytes");
        }
    }
    assert_eq!(error(&[]), Some(ImageError::Truncated { need: 384, have: 0 }), "wherever no bytes are");
}

#[test]
fn what_follows_an_image_is_not_its_business() {
    let image = images::image(MODEL);
    let longer = AlignedBytes::copy_of(&[image, &[0xee; 1000]].concat());
    let opened = Image::open(&longer).unwrap();
    opened.verify().unwrap();
    assert_eq!(opened.bytes(), image);
}

#[test]
fn an_image_has_to_be_aligned() {
    let image = images::image(MODEL);
    let mut room = AlignedBytes::filled(0, image.len() + 64);
    for remainder in 1..64 {
        room[remainder..][..image.len()].copy_from_slice(image);
        assert_eq!(error(&room[remainder..]), Some(ImageError::Misaligned { remainder: remainder as u32 }));
    }
}

/// Flips each bit of a range and back again.
fn each_flip(draft: &mut Draft, bytes: impl Iterator<Item = usize>, mut look: impl FnMut(usize, u32, &[u8])) {
    for at in bytes {
        for bit in 0..8 {
            draft.bytes[at] ^= 1 << bit;
            look(at, bit, &draft.bytes);
            draft.bytes[at] ^= 1 << bit;
        }
    }
}

#[test]
fn each_flipped_bit_of_header_and_table_is_found() {
    for name in [MODEL, UNTIED] {
        let mut draft = Draft::of(name);
        each_flip(&mut draft, 0..HEADER_BYTES, |at, bit, bytes| {
            let want = match at {
                0..8 => ImageError::Magic,
                8..12 => ImageError::Version { found: 2 ^ (1 << bit << (8 * (at - 8))), expected: 2 },
                _ => ImageError::Checksum { part: Part::Header },
            };
            assert_eq!(error(bytes), Some(want), "{name}: bit {bit} of byte {at}");
        });
        let end = table_end(&mut draft);
        each_flip(&mut draft, HEADER_BYTES..TABLE_OFFSET, |at, bit, bytes| {
            let want = ImageError::Checksum { part: Part::Signature };
            assert_eq!(error(bytes), Some(want), "{name}: bit {bit} of byte {at}");
        });
        each_flip(&mut draft, TABLE_OFFSET..end, |at, bit, bytes| {
            let want = ImageError::Checksum { part: Part::SectionTable };
            assert_eq!(error(bytes), Some(want), "{name}: bit {bit} of byte {at}");
        });
    }
}

#[test]
fn each_flipped_bit_of_what_steers_access_is_found() {
    for (kind, part) in [
        (SectionKind::Tensors, Part::Tensors),
        (SectionKind::RopeFrequencies, Part::RopeFrequencies),
        (SectionKind::Generation, Part::Generation),
    ] {
        let mut draft = Draft::of(MODEL);
        let range = range(draft.section(kind));
        each_flip(&mut draft, range, |at, bit, bytes| {
            assert_eq!(error(bytes), Some(ImageError::Checksum { part }), "bit {bit} of byte {at}");
        });
    }
}

#[test]
fn flips_in_text_are_found_when_text_is_asked_for() {
    type Ask = fn(&Image<'_>) -> Option<ImageError>;
    let tokenizer: Ask = |image| image.tokenizer().err();
    let template: Ask = |image| image.template().err();
    for (kind, part, ask, other, step) in [
        (SectionKind::Tokenizer, Part::Tokenizer, tokenizer, template, 37),
        (SectionKind::Template, Part::Template, template, tokenizer, 3),
    ] {
        let mut draft = Draft::of(MODEL);
        let range = range(draft.section(kind));
        let edges = [range.start, range.end - 1];
        each_flip(&mut draft, range.step_by(step).chain(edges), |at, bit, bytes| {
            let image = Image::open(bytes).expect("the model itself is whole");
            let damaged = Some(ImageError::Checksum { part });
            assert_eq!(ask(&image), damaged, "bit {bit} of byte {at}");
            assert_eq!(other(&image), None);
            assert_eq!(image.verify().err(), damaged, "bit {bit} of byte {at}");
        });
    }
}

#[test]
fn flips_in_weights_are_found_by_verifying() {
    for (kind, part, step) in
        [(SectionKind::Weights, Part::Weights, 211), (SectionKind::Provenance, Part::Provenance, 5)]
    {
        let mut draft = Draft::of(MODEL);
        let range = range(draft.section(kind));
        let edges = [range.start, range.end - 1];
        each_flip(&mut draft, range.step_by(step).chain(edges), |at, bit, bytes| {
            let image = Image::open(bytes).expect("opening reads no weights");
            assert_eq!(image.verify().err(), Some(ImageError::Checksum { part }), "bit {bit} of byte {at}");
            assert_eq!(image.provenance().is_empty(), part == Part::Provenance, "damaged provenance is none");
        });
    }
}

#[test]
fn damaged_weights_run_or_say_so() {
    // A flip may make a weight wrong, which only `verify` can tell; it must not do worse.
    let mut draft = Draft::of(MODEL);
    let weights = range(draft.section(SectionKind::Weights));
    each_flip(&mut draft, weights.step_by(9973), |_, _, bytes| {
        exercise(bytes);
    });
}

#[test]
fn a_flip_between_sections_is_found_by_verifying() {
    for name in [MODEL, UNTIED] {
        let mut draft = Draft::of(name);
        let mut end = table_end(&mut draft);
        let mut gaps = Vec::new();
        for record in draft.sections() {
            let range = range(record);
            assert!(range.start - end < 8 * 64, "{name}: room for a few sections more at most: {record:?}");
            gaps.extend(end..range.start);
            end = range.end;
        }
        assert_eq!(end, draft.bytes.len());
        assert!(!gaps.is_empty());
        each_flip(&mut draft, gaps.into_iter(), |at, bit, bytes| {
            let image = Image::open(bytes).expect("padding steers nothing");
            let want = ImageError::Checksum { part: Part::Padding };
            assert_eq!(image.verify(), Err(want), "{name}: bit {bit} of byte {at}");
        });
    }
}

#[test]
fn verifying_in_steps_reads_no_more_than_it_may_and_finds_the_same() {
    let mut draft = Draft::of(MODEL);
    let weights = range(draft.section(SectionKind::Weights));
    let damaged = Some(ImageError::Checksum { part: Part::Weights });
    for (damage, want) in [(None, None), (Some(weights.start), damaged), (Some(weights.end - 1), damaged)] {
        if let Some(at) = damage {
            draft.bytes[at] ^= 0x10;
        }
        for most in [1, 63, 64, 4096, 100_001, usize::MAX] {
            let image = Image::open(&draft.bytes).unwrap();
            let mut verification = image.verification();
            let end = loop {
                let before = verification.done();
                let step = verification.step(most);
                let read = verification.done() - before;
                assert!(read <= most, "a step of {most} read {read}");
                match step {
                    Ok(false) => assert!(read > 0, "a step of {most} at {before} led nowhere"),
                    end => break end,
                }
            };
            assert_eq!(end.err(), want, "steps of {most}");
            assert_eq!(verification.step(most).err(), want, "the outcome stays");
            assert!(want.is_some() || verification.done() == draft.bytes.len());
        }
        if let Some(at) = damage {
            draft.bytes[at] ^= 0x10;
        }
    }
}

//! An image: whatever opens can be read and run.
//!
//! Checksums would stop a fuzzer at the door, so they are made good before the image is opened; that damage is noticed
//! is what the tests check, bit by bit. Most bytes of an image are weights, so a mutation picks a part first.
#![no_main]

use std::ops::Range;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use pocket_host_test::images::{AlignedBytes, seal};
use pocket_runtime::image::{HEADER_BYTES, Header, SectionRecord, TABLE_OFFSET};
use pocket_runtime::{Image, ImageError, Part};

fuzz_target!(|data: &[u8]| {
    let mut bytes = AlignedBytes::copy_of(data);
    let _ = Image::open(&bytes);
    seal(&mut bytes);
    if let Ok(image) = Image::open(&bytes) {
        let padding = ImageError::Checksum { part: Part::Padding };
        let verified = image.verify();
        assert!(verified.is_ok() || verified == Err(padding), "checksums that were made good: {verified:?}");
        let _ = (image.check_signature(&[7; 32]), image.prefix().is_ok(), image.system_prompt().is_ok());
        pocket_fuzz::run(&image);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let parts = parts(&AlignedBytes::copy_of(&data[..size]));
    let picked = parts.get(seed as usize % (parts.len() + 1)).cloned();
    let Some(part) = picked.and_then(|part| data[..size].get_mut(part)) else {
        return fuzzer_mutate(data, size, max_size);
    };
    fuzzer_mutate(part, part.len(), part.len());
    size
});

/// Header, table, and every section that lies in the image.
fn parts(image: &AlignedBytes) -> Vec<Range<usize>> {
    let Some(header) = image.get(..HEADER_BYTES) else { return Vec::new() };
    let count = bytemuck::from_bytes::<Header>(header).section_count as usize;
    let table = TABLE_OFFSET..TABLE_OFFSET.saturating_add(count.saturating_mul(size_of::<SectionRecord>()));
    let records: &[SectionRecord] = image.get(table.clone()).map_or(&[], bytemuck::cast_slice);
    let sections =
        records.iter().map(|record| record.offset as usize..record.offset.saturating_add(record.len) as usize);
    // The magic and the version are not worth a mutation.
    [12..TABLE_OFFSET, table].into_iter().chain(sections).filter(|part| !part.is_empty()).collect()
}

//! Damaged template sections: an error or a template, never a panic.

use pocket_host_test::exercise;
use pocket_pack::text::AlignedBytes;
use pocket_runtime::text::{ChatTemplate, TextError};

use crate::support::*;

/// Opens a section and, if it opens, renders.
fn try_out(section: &[u8]) -> Result<(), TextError> {
    ChatTemplate::open(section).map(|template| exercise::template(&template, "\nü\n"))
}

#[test]
fn a_section_cut_off_anywhere_is_refused() {
    let packed = pack(THINKING);
    try_out(&packed.0).expect("the undamaged section is sound");
    for len in 0..packed.0.len() {
        let error = ChatTemplate::open(&packed.0[..len]).err();
        assert!(matches!(error, Some(TextError::Length { have, .. }) if have as usize == len), "{len}: {error:?}");
    }
    let longer = AlignedBytes::new(&[&packed.0[..], &[0; 4]].concat());
    assert!(matches!(ChatTemplate::open(&longer), Err(TextError::Length { .. })));
    let shifted = AlignedBytes::new(&[&[0], &packed.0[..]].concat());
    assert_eq!(ChatTemplate::open(&shifted[1..]).err(), Some(TextError::Misaligned));
}

#[test]
fn any_flipped_bit_is_harmless() {
    for jinja in [THINKING, HEADER, NO_SYSTEM] {
        let packed = pack(jinja);
        let mut section: Vec<u32> = bytemuck::cast_slice(&packed.0).to_vec();
        for word in 0..section.len() {
            for bit in 0..32 {
                section[word] ^= 1 << bit;
                let _ = try_out(bytemuck::cast_slice(&section));
                section[word] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn a_section_of_another_kind_or_version_is_refused() {
    let packed = pack(CHATML);
    let mut section: Vec<u32> = bytemuck::cast_slice(&packed.0).to_vec();
    section[1] = 7;
    assert_eq!(try_out(bytemuck::cast_slice(&section)), Err(TextError::Version { found: 7, read: 1 }));
    section[0] ^= 1;
    assert_eq!(try_out(bytemuck::cast_slice(&section)), Err(TextError::Magic));
}

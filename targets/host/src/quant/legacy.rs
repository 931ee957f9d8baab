//! Blocks of 32 with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
//!
//! The symmetric types (`_0`) have value `d · (code − offset)`, the asymmetric ones (`_1`)
//! `d · code + m`, product and sum rounded one after the other. The 5-bit types keep the
//! fifth bits of all 32 codes in one word, bit j for column j.

use super::codes::{q4_0_block, q4_1_block, q8_0_block, unpack};
use super::float::scale;

/// Decodes 4 bits, symmetric.
pub(super) fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let block = q4_0_block(block);
    let d = scale(block.scale_bits.to_le_bytes());
    for (out, code) in out.iter_mut().zip(block.codes) {
        *out = d * (f32::from(code) - 8.0);
    }
}

/// Decodes 4 bits with a minimum.
pub(super) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let block = q4_1_block(block);
    let d = scale(block.scale_bits.to_le_bytes());
    let m = scale(block.minimum_bits.to_le_bytes());
    for (out, code) in out.iter_mut().zip(block.codes) {
        *out = d * f32::from(code) + m;
    }
}

/// Decodes 5 bits, symmetric.
pub(super) fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let [s0, s1, h0, h1, h2, h3, nibbles @ ..] = block;
    let d = scale([*s0, *s1]);
    let codes = five_bits([*h0, *h1, *h2, *h3], nibbles);
    for (out, code) in out.iter_mut().zip(codes) {
        *out = d * (f32::from(code) - 16.0);
    }
}

/// Decodes 5 bits with a minimum.
pub(super) fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let [s0, s1, m0, m1, h0, h1, h2, h3, nibbles @ ..] = block;
    let d = scale([*s0, *s1]);
    let m = scale([*m0, *m1]);
    let codes = five_bits([*h0, *h1, *h2, *h3], nibbles);
    for (out, code) in out.iter_mut().zip(codes) {
        *out = d * f32::from(code) + m;
    }
}

/// Decodes 8 bits, symmetric.
pub(super) fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let block = q8_0_block(block);
    let d = scale(block.scale_bits.to_le_bytes());
    for (out, code) in out.iter_mut().zip(block.codes) {
        *out = d * f32::from(code);
    }
}

/// Joins four low bits and the fifth.
fn five_bits(high: [u8; 4], nibbles: &[u8; 16]) -> [u8; 32] {
    let mut codes = unpack(nibbles);
    let mut high = u32::from_le_bytes(high);
    for code in &mut codes {
        if high & 1 == 1 {
            *code |= 16;
        }
        high >>= 1;
    }
    codes
}

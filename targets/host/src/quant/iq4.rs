//! 4-bit codes that index a table of unevenly spaced levels: IQ4_NL, IQ4_XS.
//!
//! The levels are denser near zero, where weights are. IQ4_NL is one scale for 32 codes;
//! IQ4_XS is a super-block of eight such groups, whose scales are 6-bit numbers, biased by
//! 32, times a common f16.

use super::codes::unpack;
use super::float::scale;

/// The sixteen levels of the format.
const LEVELS: [f32; 16] =
    [-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0];

/// Decodes a block of 32.
pub(super) fn nl(block: &[u8; 18], out: &mut [f32; 32]) {
    let [s0, s1, nibbles @ ..] = block;
    group(scale([*s0, *s1]), nibbles, out);
}

/// Decodes a super-block of 256.
///
/// Layout: d, 16 bits of high scale parts (two per group), 4 bytes of low scale parts (one
/// nibble per group), then 16 bytes of nibbles per group.
pub(super) fn xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let [s0, s1, h0, h1, l0, l1, l2, l3, nibbles @ ..] = block;
    let d = scale([*s0, *s1]);
    let mut high = u16::from_le_bytes([*h0, *h1]);
    let mut low = u32::from_le_bytes([*l0, *l1, *l2, *l3]);
    let (nibbles, _) = nibbles.as_chunks::<16>();
    let (outs, _) = out.as_chunks_mut::<32>();
    for (nibbles, out) in nibbles.iter().zip(outs) {
        let [low_byte, ..] = low.to_le_bytes();
        let [high_byte, _] = high.to_le_bytes();
        let factor = (low_byte & 15) | ((high_byte & 3) << 4);
        group(d * (f32::from(factor) - 32.0), nibbles, out);
        low >>= 4;
        high >>= 2;
    }
}

/// Decodes 32 codes with one scale.
fn group(d: f32, nibbles: &[u8; 16], out: &mut [f32; 32]) {
    for (out, code) in out.iter_mut().zip(unpack(nibbles)) {
        let level = LEVELS.get(usize::from(code)).copied().unwrap_or_default();
        *out = d * level;
    }
}

//! Super-blocks of 256 with quantised scales: Q2_K to Q6_K.
//!
//! A super-block is 8 groups of 32 or 16 groups of 16 columns. Each group has a small
//! integer scale (and, in Q2, Q4 and Q5, an integer minimum) that multiplies one or two
//! f16 numbers of the super-block. Code bits are spread over planes: a run of bytes holds,
//! at shift 0, the first group of columns, at the next shift the following one, and so on.
//! Value = `(d · scale) · code − (dmin · minimum)`, each operation rounded in that order.

use super::float::scale;

/// Decodes 2 bits: 16 × (4-bit scale, 4-bit minimum), 64 bytes of codes, d, dmin.
pub(super) fn q2(block: &[u8; 84], out: &mut [f32; 256]) {
    let [head @ .., d0, d1, m0, m1] = block;
    let (scales, codes) = split::<16, 64, _>(head);
    let d = scale([*d0, *d1]);
    let dmin = scale([*m0, *m1]);
    let planes = planes::<32>(codes, 2);
    let (groups, _) = out.as_chunks_mut::<16>();
    let (codes, _) = planes.as_chunks::<16>();
    for ((out, codes), packed) in groups.iter_mut().zip(codes).zip(scales) {
        let dl = d * f32::from(packed & 15);
        let ml = dmin * f32::from(packed >> 4);
        for (out, code) in out.iter_mut().zip(codes) {
            *out = dl * f32::from(*code) - ml;
        }
    }
}

/// Decodes 3 bits: 32 bytes of third bits, 64 bytes of low codes, 16 6-bit scales, d.
///
/// A third bit that is *not* set subtracts 4.
pub(super) fn q3(block: &[u8; 110], out: &mut [f32; 256]) {
    let [head @ .., d0, d1] = block;
    let (high, rest) = split::<32, 76, _>(head);
    let (low, packed) = split::<64, 12, _>(rest);
    let d = scale([*d0, *d1]);
    let scales = q3_scales(packed);
    let low = planes::<32>(low, 2);
    let high = planes::<32>(high, 1);
    let (groups, _) = out.as_chunks_mut::<16>();
    let (low, _) = low.as_chunks::<16>();
    let (high, _) = high.as_chunks::<16>();
    for (((out, low), high), factor) in groups.iter_mut().zip(low).zip(high).zip(scales) {
        let dl = d * (f32::from(factor) - 32.0);
        for ((out, low), high) in out.iter_mut().zip(low).zip(high) {
            let offset = if *high == 0 { 4.0 } else { 0.0 };
            *out = dl * (f32::from(*low) - offset);
        }
    }
}

/// Decodes 4 bits: d, dmin, 8 × (6-bit scale, 6-bit minimum), 128 bytes of codes.
pub(super) fn q4(block: &[u8; 144], out: &mut [f32; 256]) {
    let [d0, d1, m0, m1, rest @ ..] = block;
    let (packed, codes) = split::<12, 128, _>(rest);
    let planes = planes::<32>(codes, 4);
    scaled_groups(scale([*d0, *d1]), scale([*m0, *m1]), packed, &planes, out);
}

/// Decodes 5 bits: as 4 bits, with 32 bytes of fifth bits before the codes.
pub(super) fn q5(block: &[u8; 176], out: &mut [f32; 256]) {
    let [d0, d1, m0, m1, rest @ ..] = block;
    let (packed, rest) = split::<12, 160, _>(rest);
    let (high, low) = split::<32, 128, _>(rest);
    let mut codes = planes::<32>(low, 4);
    for (code, high) in codes.iter_mut().zip(planes::<32>(high, 1)) {
        *code |= high << 4;
    }
    scaled_groups(scale([*d0, *d1]), scale([*m0, *m1]), packed, &codes, out);
}

/// Decodes 6 bits: 128 bytes of low codes, 64 of high ones, 16 i8 scales, d.
pub(super) fn q6(block: &[u8; 210], out: &mut [f32; 256]) {
    let [head @ .., d0, d1] = block;
    let (low, rest) = split::<128, 80, _>(head);
    let (high, scales) = split::<64, 16, _>(rest);
    let d = scale([*d0, *d1]);
    let mut codes = planes::<64>(low, 4);
    for (code, high) in codes.iter_mut().zip(planes::<32>(high, 2)) {
        *code |= high << 4;
    }
    let (groups, _) = out.as_chunks_mut::<16>();
    let (codes, _) = codes.as_chunks::<16>();
    for ((out, codes), factor) in groups.iter_mut().zip(codes).zip(scales) {
        let dl = d * f32::from(i8::from_le_bytes([*factor]));
        for (out, code) in out.iter_mut().zip(codes) {
            *out = dl * (f32::from(*code) - 32.0);
        }
    }
}

/// Decodes the eight groups of 32 that Q4_K and Q5_K have.
fn scaled_groups(d: f32, dmin: f32, packed: &[u8; 12], codes: &[u8; 256], out: &mut [f32; 256]) {
    let (scales, minimums) = q4_scales(packed);
    let (groups, _) = out.as_chunks_mut::<32>();
    let (codes, _) = codes.as_chunks::<32>();
    for (((out, codes), s), m) in groups.iter_mut().zip(codes).zip(scales).zip(minimums) {
        let dl = d * f32::from(s);
        let ml = dmin * f32::from(m);
        for (out, code) in out.iter_mut().zip(codes) {
            *out = dl * f32::from(*code) - ml;
        }
    }
}

/// Spreads packed codes of `bits` bits to one byte each, in column order.
///
/// Bytes come in runs of `RUN`; a run yields `8 / bits` planes of `RUN` columns, the
/// lowest bits first. `packed` holds 256 codes, so every output is written.
fn planes<const RUN: usize>(packed: &[u8], bits: u32) -> [u8; 256] {
    let mut codes = [0; 256];
    let mask = (1_u8 << bits) - 1;
    let (runs, _) = packed.as_chunks::<RUN>();
    let (mut outs, _) = codes.as_chunks_mut::<RUN>();
    for run in runs {
        let mut shift = 0;
        while shift < u8::BITS {
            let Some((out, rest)) = outs.split_first_mut() else {
                return codes;
            };
            for (out, byte) in out.iter_mut().zip(run) {
                *out = (byte >> shift) & mask;
            }
            outs = rest;
            shift += bits;
        }
    }
    codes
}

/// Unpacks 16 scales of 6 bits: low nibbles in 8 bytes, then pairs of high bits in 4.
fn q3_scales(packed: &[u8; 12]) -> [u8; 16] {
    let (low, high) = split::<8, 4, _>(packed);
    let mut scales = [0; 16];
    let (first, second) = scales.split_at_mut(8);
    for ((first, second), byte) in first.iter_mut().zip(second).zip(low) {
        *first = byte & 15;
        *second = byte >> 4;
    }
    let (quads, _) = scales.as_chunks_mut::<4>();
    for (quad, shift) in quads.iter_mut().zip([0, 2, 4, 6]) {
        for (scale, byte) in quad.iter_mut().zip(high) {
            *scale |= ((byte >> shift) & 3) << 4;
        }
    }
    scales
}

/// Unpacks 8 scales and 8 minimums of 6 bits each.
///
/// Bytes 0..4 and 4..8 hold the first four scales and minimums in their low six bits;
/// their top two bits, over the nibbles of bytes 8..12, make the last four.
fn q4_scales(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (scale_bytes, rest) = split::<4, 8, _>(packed);
    let (minimum_bytes, tail) = split::<4, 4, _>(rest);
    let unpack = |head: &[u8; 4], nibble_shift: u32| {
        let mut eight = [0; 8];
        let (first, last) = eight.split_at_mut(4);
        for (((first, last), head), tail) in first.iter_mut().zip(last).zip(head).zip(tail) {
            *first = head & 63;
            *last = ((tail >> nibble_shift) & 15) | ((head >> 6) << 4);
        }
        eight
    };
    (unpack(scale_bytes, 0), unpack(minimum_bytes, 4))
}

/// Cuts an array in two; lengths that do not add up do not compile.
fn split<const A: usize, const B: usize, const N: usize>(bytes: &[u8; N]) -> (&[u8; A], &[u8; B]) {
    const { assert!(A + B == N, "the parts must make up the whole") };
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(head), Some(tail)) => (head, tail),
        _ => unreachable!("both parts are shorter than the whole"),
    }
}

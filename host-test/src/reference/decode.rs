//! Decodes one row of weights to f32, by the formulas of the format.
//!
//! A block is 32 columns. Four-bit blocks keep columns 0–15 in the low nibbles of their 16
//! bytes and columns 16–31 in the high nibbles.

use anyhow::{Result, bail};

/// Element types by their number in the file.
pub(super) mod kind {
    pub(crate) const F32: u32 = 0;
    pub(crate) const F16: u32 = 1;
    pub(crate) const Q4_0: u32 = 2;
    pub(crate) const Q4_1: u32 = 3;
    pub(crate) const Q8_0: u32 = 8;
}

/// Bytes of a row of `cols` elements.
pub(super) fn row_bytes(kind: u32, cols: usize) -> Result<usize> {
    Ok(match kind {
        kind::F32 => cols * 4,
        kind::F16 => cols * 2,
        kind::Q4_0 => cols / 32 * 18,
        kind::Q4_1 => cols / 32 * 20,
        kind::Q8_0 => cols / 32 * 34,
        _ => bail!("the reference doesn't read tensor type {kind}"),
    })
}

/// Decodes a row into `out`; unknown types were refused by [`row_bytes`].
pub(super) fn row(kind: u32, bytes: &[u8], out: &mut [f32]) {
    match kind {
        kind::F32 => {
            for (i, x) in out.iter_mut().enumerate() {
                let b = &bytes[i * 4..];
                *x = f32::from_bits(u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            }
        }
        kind::F16 => {
            for (i, x) in out.iter_mut().enumerate() {
                *x = half_at(bytes, i * 2);
            }
        }
        kind::Q4_0 => {
            for (block, x) in bytes.chunks_exact(18).zip(out.chunks_exact_mut(32)) {
                let d = half_at(block, 0);
                for i in 0..16 {
                    let byte = i32::from(block[2 + i]);
                    x[i] = d * ((byte % 16) - 8) as f32;
                    x[i + 16] = d * ((byte / 16) - 8) as f32;
                }
            }
        }
        kind::Q4_1 => {
            for (block, x) in bytes.chunks_exact(20).zip(out.chunks_exact_mut(32)) {
                let (d, m) = (half_at(block, 0), half_at(block, 2));
                for i in 0..16 {
                    let byte = i32::from(block[4 + i]);
                    x[i] = d * (byte % 16) as f32 + m;
                    x[i + 16] = d * (byte / 16) as f32 + m;
                }
            }
        }
        kind::Q8_0 => {
            for (block, x) in bytes.chunks_exact(34).zip(out.chunks_exact_mut(32)) {
                let d = half_at(block, 0);
                for (code, x) in block[2..].iter().zip(x) {
                    *x = d * f32::from(i8::from_ne_bytes([*code]));
                }
            }
        }
        _ => unreachable!("row_bytes refuses other types"),
    }
}

/// Widens the half-precision number at a byte offset, from sign, exponent and fraction.
fn half_at(bytes: &[u8], at: usize) -> f32 {
    let bits = u32::from(bytes[at]) + 256 * u32::from(bytes[at + 1]);
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = ((bits >> 10) & 31, bits & 1023);
    sign * match exponent {
        0 => fraction as f32 * 2.0_f32.powi(-24),
        31 if fraction == 0 => f32::INFINITY,
        31 => f32::NAN,
        // A power of two by its exponent field: f32's bias is 127, f16's 15.
        e => (1.0 + fraction as f32 / 1024.0) * f32::from_bits((e + 112) << 23),
    }
}

//! Unquantised elements: F32, F16 and BF16.
//!
//! F16 and BF16 widen to f32 exactly.

/// Copies little-endian f32.
pub(super) fn f32(data: &[u8], out: &mut [f32]) {
    let (elements, _) = data.as_chunks::<4>();
    for (bytes, out) in elements.iter().zip(out) {
        *out = f32::from_le_bytes(*bytes);
    }
}

/// Widens IEEE half precision.
pub(super) fn f16(data: &[u8], out: &mut [f32]) {
    let (elements, _) = data.as_chunks::<2>();
    for (bytes, out) in elements.iter().zip(out) {
        *out = half::f16::from_le_bytes(*bytes).to_f32();
    }
}

/// Widens truncated f32.
pub(super) fn bf16(data: &[u8], out: &mut [f32]) {
    let (elements, _) = data.as_chunks::<2>();
    for (bytes, out) in elements.iter().zip(out) {
        *out = half::bf16::from_le_bytes(*bytes).to_f32();
    }
}

/// Reads the half-precision scale that quantised blocks carry.
pub(super) fn scale(bytes: [u8; 2]) -> f32 {
    half::f16::from_le_bytes(bytes).to_f32()
}

//! The alphabet in which byte-level tokenizers write bytes as characters.
//!
//! Vocabularies are stored as text, so each byte has a printable character: itself where
//! it is printable in Latin-1, else the next unused one from U+0100 on. A space is `Ġ`.
//!
//! # Source
//! Radford et al., GPT-2; the alphabet is part of every byte-level `tokenizer.json`.

/// Whether a byte is written as itself.
const fn is_itself(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The byte that a character stands for.
pub(super) fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    if let Ok(byte) = u8::try_from(code) {
        return is_itself(byte).then_some(byte);
    }
    let place = usize::try_from(code.checked_sub(0x100)?).ok()?;
    (0..=u8::MAX).filter(|&byte| !is_itself(byte)).nth(place)
}

/// The character of every byte.
pub(crate) fn byte_characters() -> [char; 256] {
    let mut strangers = ('\u{100}'..).take(256);
    core::array::from_fn(|byte| {
        let byte = byte as u8;
        if is_itself(byte) { char::from(byte) } else { strangers.next().expect("there are fewer than 256") }
    })
}

/// The bytes that a token is written for, or nothing if a character stands for none.
pub(super) fn bytes_of(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_of).collect()
}

//! Writing a GGUF file, version 3.
//!
//! # Source
//! ggml, `docs/gguf.md`: the header, the types of metadata, and tensors at multiples of 32 bytes.

use crate::gguf::TensorType;

/// Tensors begin at multiples of this.
const ALIGN: usize = 32;

/// A value of the metadata.
pub(super) enum Setting<'a> {
    Number(u32),
    Real(f32),
    Text(&'a str),
    Texts(&'a [String]),
    Numbers(&'a [i32]),
}

/// Numbers of the types.
const U32: u32 = 4;
const I32: u32 = 5;
const F32: u32 = 6;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// The front of a file in the making.
pub(super) struct File {
    settings: Vec<u8>,
    setting_count: u64,
    tensors: Vec<u8>,
    tensor_count: u64,
    /// Where the next tensor begins, behind the front.
    end: u64,
}

impl File {
    pub(super) fn new() -> Self {
        Self { settings: Vec::new(), setting_count: 0, tensors: Vec::new(), tensor_count: 0, end: 0 }
    }

    /// Adds a value to the metadata.
    pub(super) fn set(&mut self, key: &str, value: Setting<'_>) {
        let out = &mut self.settings;
        self.setting_count += 1;
        text(out, key);
        match value {
            Setting::Number(n) => {
                out.extend_from_slice(&U32.to_le_bytes());
                out.extend_from_slice(&n.to_le_bytes());
            }
            Setting::Real(x) => {
                out.extend_from_slice(&F32.to_le_bytes());
                out.extend_from_slice(&x.to_le_bytes());
            }
            Setting::Text(value) => {
                out.extend_from_slice(&STRING.to_le_bytes());
                text(out, value);
            }
            Setting::Texts(values) => {
                array(out, STRING, values.len());
                values.iter().for_each(|value| text(out, value));
            }
            Setting::Numbers(values) => {
                array(out, I32, values.len());
                values.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
            }
        }
    }

    /// Announces a tensor; its data follow those of the tensors before it, padded by [`pad`]. The first dimension is the
    /// length of a row.
    pub(super) fn tensor(&mut self, name: &str, shape: &[u32], kind: TensorType) {
        let out = &mut self.tensors;
        self.tensor_count += 1;
        text(out, name);
        out.extend_from_slice(&(shape.len() as u32).to_le_bytes());
        shape.iter().for_each(|&n| out.extend_from_slice(&u64::from(n).to_le_bytes()));
        out.extend_from_slice(&kind.code().to_le_bytes());
        out.extend_from_slice(&self.end.to_le_bytes());
        let elements: u64 = shape.iter().map(|&n| u64::from(n)).product();
        let bytes = elements / kind.block_elements() as u64 * kind.block_bytes() as u64;
        self.end = (self.end + bytes).next_multiple_of(ALIGN as u64);
    }

    /// The front: everything before the tensors' data, with room for these.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.settings.len() + self.tensors.len() + self.end as usize + 64);
        out.extend_from_slice(b"GGUF");
        out.extend_from_slice(&3u32.to_le_bytes());
        out.extend_from_slice(&self.tensor_count.to_le_bytes());
        out.extend_from_slice(&self.setting_count.to_le_bytes());
        out.extend_from_slice(&self.settings);
        out.extend_from_slice(&self.tensors);
        pad(&mut out);
        out
    }
}

/// Fills up to where a tensor may begin.
pub(super) fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(ALIGN), 0);
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn array(out: &mut Vec<u8>, kind: u32, len: usize) {
    out.extend_from_slice(&ARRAY.to_le_bytes());
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&(len as u64).to_le_bytes());
}

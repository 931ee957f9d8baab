//! Images of the test models, packed once for each test program.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use bytemuck::{Pod, Zeroable};
use pocket_pack::pack::{Options, Quant, Report, pack_file};

use crate::models;

/// 64 bytes at a multiple of 64.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Bytes at a multiple of 64, as an image or an arena needs them.
#[derive(Clone, Debug)]
pub struct AlignedBytes {
    lines: Vec<Line>,
    len: usize,
}

impl AlignedBytes {
    /// `len` bytes of this value.
    pub fn filled(value: u8, len: usize) -> Self {
        Self { lines: vec![Line([value; 64]); len.div_ceil(64)], len }
    }

    /// A copy.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut copy = Self::filled(0, bytes.len());
        copy.copy_from_slice(bytes);
        copy
    }
}

impl std::ops::Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}

impl std::ops::DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

/// Packs a GGUF file into memory.
///
/// # Panics
/// If it cannot be packed.
pub fn pack(gguf: &Path, quant: Quant) -> (AlignedBytes, Report) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let image = folder.path().join("model.pocket");
    let report = pack_file(gguf, &image, &Options { quant, ..Options::default() }, &mut |_| {})
        .unwrap_or_else(|error| panic!("{}: {error}", gguf.display()));
    let bytes = std::fs::read(&image).expect("the image that was just written");
    (AlignedBytes::copy_of(&bytes), report)
}

/// The image of a test model: one of [`models::TINY`] or [`models::SMOLLM2`], floats as 8 bits.
///
/// # Panics
/// If it cannot be packed, or was not fetched.
pub fn image(name: &str) -> &'static [u8] {
    static IMAGES: OnceLock<Mutex<HashMap<PathBuf, &'static [u8]>>> = OnceLock::new();
    let path = if name == models::SMOLLM2 { models::smollm2() } else { models::tiny(name) };
    let mut images = IMAGES.get_or_init(Mutex::default).lock().expect("no test panics while packing");
    images.entry(path.clone()).or_insert_with(|| Box::leak(Box::new(pack(&path, Quant::Q8).0)))
}

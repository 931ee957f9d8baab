//! Images of the test models, packed once for each test program.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use bytemuck::{Pod, Zeroable};
use pocket_pack::pack::{Options, Quant, Report, pack_file};
use pocket_runtime::image::{HEADER_BYTES, Header, SectionRecord, SignatureRecord, TABLE_OFFSET, checksum, sha256};

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

/// Makes all checksums of an image good, those of sections as far as they lie in it: so malice comes past the checks that
/// are for damage. What is too short for a table stays as it is.
pub fn seal(image: &mut AlignedBytes) {
    if image.len() < TABLE_OFFSET {
        return;
    }
    let signature: &mut SignatureRecord = bytemuck::from_bytes_mut(&mut image[HEADER_BYTES..TABLE_OFFSET]);
    signature.crc = signature.checksum();
    let count = bytemuck::from_bytes::<Header>(&image[..HEADER_BYTES]).section_count as usize;
    let table = TABLE_OFFSET..TABLE_OFFSET.saturating_add(count.saturating_mul(size_of::<SectionRecord>()));
    let records = image.get(table.clone()).map(|bytes| bytemuck::cast_slice::<u8, SectionRecord>(bytes).to_vec());
    let table_sha256 = records.map(|mut records| {
        for record in &mut records {
            let range = usize::try_from(record.offset).unwrap_or(usize::MAX)
                ..usize::try_from(record.offset.saturating_add(record.len)).unwrap_or(usize::MAX);
            if let Some(body) = image.get(range) {
                (record.crc, record.sha256) = (checksum(body), sha256(body));
            }
        }
        let bytes: &[u8] = bytemuck::cast_slice(&records);
        image[table].copy_from_slice(bytes);
        sha256(bytes)
    });
    let header: &mut Header = bytemuck::from_bytes_mut(&mut image[..HEADER_BYTES]);
    header.table_sha256 = table_sha256.unwrap_or(header.table_sha256);
    header.header_crc = header.checksum();
}

/// Makes the checksum of a saved state good, as far as there is one.
pub fn seal_state(state: &mut [u8]) {
    let len = state.get(24..32).map_or(0, |len| u64::from_le_bytes(len.try_into().expect("eight bytes")));
    let whole = usize::try_from(len).ok().and_then(|len| state.get_mut(..len)).filter(|whole| whole.len() >= 128);
    if let Some(whole) = whole {
        let crc = checksum(&[&whole[..124], &whole[128..]].concat());
        whole[124..128].copy_from_slice(&crc.to_le_bytes());
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

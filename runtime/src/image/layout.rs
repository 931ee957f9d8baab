//! The records of an image, byte for byte. The packer writes them, [`super::Image`] reads them in place.

use bytemuck::{Pod, Zeroable};
use pocket_kernels::weights::Format;
use sha2::{Digest, Sha256};

use crate::config::{Config, Group, Groups};
use crate::error::{ImageError, Part};
use crate::sampling::Sampling;

/// First bytes of every image.
pub const MAGIC: [u8; 8] = *b"POCKETLM";
/// Version of the format.
pub const VERSION: u32 = 2;
/// Sections, and the image itself, begin at a multiple of this many bytes.
pub const ALIGN: usize = 64;
/// [`TensorRecord::format`] of a vector of f32.
pub const FORMAT_F32: u32 = 0;

/// CRC-32C (Castagnoli), as in iSCSI; for data that come in pieces.
pub static CRC_32C: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISCSI);

/// The CRC-32C of data.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    checksum_on(0, bytes)
}

/// The CRC-32C of data that have this one so far, and then go on with `bytes`. By the tables of [`CRC_32C`], but without a
/// check of an index: none can be out of bounds.
pub(crate) fn checksum_on(before: u32, bytes: &[u8]) -> u32 {
    let tables = CRC_32C.table();
    let (blocks, rest) = bytes.as_chunks::<16>();
    let crc = blocks.iter().fold(!before, |crc, block| {
        let block = u128::from_le_bytes(*block) ^ u128::from(crc);
        // The first byte has the longest way to go.
        let terms = block.to_le_bytes().into_iter().zip(tables.iter().rev());
        terms.fold(0, |crc, (byte, table)| crc ^ table[usize::from(byte)])
    });
    !rest.iter().fold(crc, |crc, byte| (crc >> 8) ^ tables[0][usize::from(crc as u8 ^ byte)])
}

/// The SHA-256 of data.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The first 256 bytes: all that a signature covers, and through its hashes everything else.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// Records in the section table, which follows the header.
    pub section_count: u32,
    /// Bytes of the whole image.
    pub total_len: u64,
    /// SHA-256 of the section table.
    pub table_sha256: [u8; 32],
    /// Fields of [`Config`], in its order.
    pub layers: u32,
    /// See [`Config`].
    pub hidden: u32,
    /// See [`Config`].
    pub heads: u32,
    /// See [`Config`].
    pub kv_heads: u32,
    /// See [`Config`].
    pub head_dim: u32,
    /// See [`Config`].
    pub ffn: u32,
    /// See [`Config`].
    pub vocabulary: u32,
    /// See [`Config`].
    pub context: u32,
    /// See [`Config`].
    pub rms_eps: f32,
    /// 0 or 1.
    pub qk_norm: u8,
    /// 0 or 1.
    pub tied: u8,
    /// Columns of the groups, in the order of [`Groups`].
    pub groups: [u8; 5],
    /// Zero.
    pub reserved: [u8; 153],
    /// CRC-32C of all bytes before this field.
    pub header_crc: u32,
}

static_assertions::const_assert_eq!(size_of::<Header>(), 256);

impl Header {
    /// A header for a model; lengths and checksums are still zero.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let Groups { qkv, attention_output, gate_up, down, head } = config.groups;
        Self {
            magic: MAGIC,
            version: VERSION,
            layers: config.layers,
            hidden: config.hidden,
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            ffn: config.ffn,
            vocabulary: config.vocabulary,
            context: config.context,
            rms_eps: config.rms_eps,
            qk_norm: config.qk_norm.into(),
            tied: config.tied.into(),
            groups: [qkv, attention_output, gate_up, down, head].map(|group| group as u8),
            ..Self::zeroed()
        }
    }

    /// The checksum that [`Self::header_crc`] must hold.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        without_checksum(bytemuck::bytes_of(self))
    }

    /// The header that an image begins with, for constants: its checksum is left to [`super::Image::open`], which a device
    /// does in any case.
    ///
    /// # Errors
    /// [`ImageError::Truncated`], [`ImageError::Magic`] or [`ImageError::Version`].
    pub const fn of_image(bytes: &[u8]) -> Result<Self, ImageError> {
        let Some(head) = bytes.first_chunk::<256>() else {
            return Err(ImageError::Truncated { need: 256, have: bytes.len() as u64 });
        };
        let header: Self = bytemuck::must_cast(*head);
        if u64::from_le_bytes(header.magic) != u64::from_le_bytes(MAGIC) {
            return Err(ImageError::Magic);
        }
        if header.version != VERSION {
            return Err(ImageError::Version { found: header.version, expected: VERSION });
        }
        Ok(header)
    }

    /// The model's shape, checked.
    ///
    /// # Errors
    /// [`ImageError::Field`] for flags or groups that cannot be, [`ImageError::Config`] for shapes the kernels lack.
    pub const fn config(&self) -> Result<Config, ImageError> {
        let field = ImageError::Field { part: Part::Header };
        let [qkv, attention_output, gate_up, down, head] = self.groups;
        let (Some(qkv), Some(attention_output), Some(gate_up), Some(down), Some(head)) = (
            Group::from_columns(qkv),
            Group::from_columns(attention_output),
            Group::from_columns(gate_up),
            Group::from_columns(down),
            Group::from_columns(head),
        ) else {
            return Err(field);
        };
        if self.qk_norm > 1 || self.tied > 1 {
            return Err(field);
        }
        let config = Config {
            layers: self.layers,
            hidden: self.hidden,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            ffn: self.ffn,
            vocabulary: self.vocabulary,
            context: self.context,
            rms_eps: self.rms_eps,
            qk_norm: self.qk_norm == 1,
            tied: self.tied == 1,
            groups: Groups { qkv, attention_output, gate_up, down, head },
        };
        if let Err(reason) = config.check() {
            return Err(ImageError::Config { reason });
        }
        let mut reserved: &[u8] = &self.reserved;
        while let [byte, rest @ ..] = reserved {
            if *byte != 0 {
                return Err(field);
            }
            reserved = rest;
        }
        Ok(config)
    }
}

/// Who signed the header; it lies behind it, before the section table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SignatureRecord {
    /// 0: nobody did, and what follows is zero; [`Self::ED25519`].
    pub algorithm: u32,
    /// Zero.
    pub reserved: [u8; 24],
    /// The signer's public key; a hint for people, which proves nothing.
    pub public_key: [u8; 32],
    /// The signature of the 256 bytes of the [`Header`].
    pub signature: [u8; 64],
    /// CRC-32C of all bytes before this field.
    pub crc: u32,
}

static_assertions::const_assert_eq!(size_of::<SignatureRecord>(), 128);

impl SignatureRecord {
    /// [`Self::algorithm`] of RFC 8032's Ed25519.
    pub const ED25519: u32 = 1;

    /// The record of an image that nobody signed.
    #[must_use]
    pub fn unsigned() -> Self {
        let unsigned = Self::zeroed();
        Self { crc: unsigned.checksum(), ..unsigned }
    }

    /// The record of an Ed25519 signature.
    #[must_use]
    pub fn ed25519(public_key: [u8; 32], signature: [u8; 64]) -> Self {
        let signed = Self { algorithm: Self::ED25519, public_key, signature, ..Self::zeroed() };
        Self { crc: signed.checksum(), ..signed }
    }

    /// The checksum that [`Self::crc`] must hold.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        without_checksum(bytemuck::bytes_of(self))
    }

    pub(super) fn check(&self) -> Result<(), ImageError> {
        if self.checksum() != self.crc {
            return Err(ImageError::Checksum { part: Part::Signature });
        }
        if *self == Self::unsigned() || (self.algorithm == Self::ED25519 && self.reserved == [0; 24]) {
            return Ok(());
        }
        Err(ImageError::Field { part: Part::Signature })
    }
}

/// The checksum of a record that ends with its own.
fn without_checksum(record: &[u8]) -> u32 {
    checksum(record.split_last_chunk::<4>().map_or(record, |(before, _)| before))
}

/// What a section holds. Kinds from 1024 on may be ignored by a release that does not know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SectionKind {
    /// [`TensorRecord`]s.
    Tensors = 1,
    /// Weights in the order in which a token reads them.
    Weights = 2,
    /// f64 inverse frequencies.
    RopeFrequencies = 3,
    /// See [`crate::text::Tokenizer`].
    Tokenizer = 4,
    /// See [`crate::text::ChatTemplate`].
    Template = 5,
    /// One [`GenerationRecord`].
    Generation = 6,
    /// JSON text, only for people.
    Provenance = 7,
    /// A [`crate::State`] that was computed when the image was packed.
    Prefix = 8,
    /// The text of the system turn that the prefix begins with.
    SystemPrompt = 9,
}

impl SectionKind {
    /// Kinds from here on may be ignored.
    pub const OPTIONAL: u32 = 1024;
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Tensors,
        Self::Weights,
        Self::RopeFrequencies,
        Self::Tokenizer,
        Self::Template,
        Self::Generation,
        Self::Provenance,
        Self::Prefix,
        Self::SystemPrompt,
    ];
}

/// An entry of the section table.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct SectionRecord {
    /// [`SectionKind`].
    pub kind: u32,
    /// CRC-32C of the section's bytes.
    pub crc: u32,
    /// From the image's first byte; a multiple of [`ALIGN`].
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// Zero.
    pub reserved: u64,
    /// SHA-256 of the section's bytes.
    pub sha256: [u8; 32],
}

static_assertions::const_assert_eq!(size_of::<SectionRecord>(), 64);

impl SectionRecord {
    /// The section's name in messages.
    #[must_use]
    pub fn part(&self) -> Part {
        match SectionKind::ALL.into_iter().find(|&kind| kind as u32 == self.kind) {
            Some(SectionKind::Tensors) => Part::Tensors,
            Some(SectionKind::Weights) => Part::Weights,
            Some(SectionKind::RopeFrequencies) => Part::RopeFrequencies,
            Some(SectionKind::Tokenizer) => Part::Tokenizer,
            Some(SectionKind::Template) => Part::Template,
            Some(SectionKind::Generation) => Part::Generation,
            Some(SectionKind::Provenance) => Part::Provenance,
            Some(SectionKind::Prefix) => Part::Prefix,
            Some(SectionKind::SystemPrompt) => Part::SystemPrompt,
            None => Part::Other,
        }
    }
}

/// An entry of the tensor directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct TensorRecord {
    /// [`super::Role`].
    pub role: u32,
    /// The layer; 0 for tensors outside the layers.
    pub layer: u32,
    /// [`FORMAT_F32`] or the number of a [`Format`].
    pub format: u32,
    /// Output elements; of a vector, all of them.
    pub rows: u32,
    /// Input elements; 1 for a vector.
    pub columns: u32,
    /// Zero.
    pub reserved: u32,
    /// From the start of the weights section; a multiple of [`ALIGN`] but for the second of two interleaved matrices.
    pub offset: u64,
    /// Bytes from one group of 16 rows to the next; 0 for a vector.
    pub stride: u64,
}

impl TensorRecord {
    /// The quantisation format; `None` for a vector of f32.
    #[must_use]
    pub fn quantisation(&self) -> Option<Format> {
        u8::try_from(self.format).ok().and_then(Format::from_number)
    }

    /// Bytes that the tensor's own data take.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        match self.quantisation() {
            Some(format) => {
                let groups = u64::from(self.rows.div_ceil(16));
                groups.saturating_mul(format.row_group_bytes(self.columns as usize) as u64)
            }
            None => 4 * u64::from(self.rows),
        }
    }
}

/// Defaults for generation.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct GenerationRecord {
    /// See [`Sampling`].
    pub temperature: f32,
    /// See [`Sampling`].
    pub top_k: u32,
    /// See [`Sampling`].
    pub top_p: f32,
    /// See [`Sampling`].
    pub min_p: f32,
    /// See [`Sampling`].
    pub repetition_penalty: f32,
    /// See [`Sampling`].
    pub penalty_window: u32,
    /// How many of `stop` count.
    pub stop_count: u32,
    /// Tokens that end a reply.
    pub stop: [u32; 9],
}

static_assertions::const_assert_eq!(size_of::<GenerationRecord>(), 64);

impl GenerationRecord {
    /// A record of these settings. Stop tokens beyond the ninth are left out.
    #[must_use]
    pub fn new(sampling: &Sampling, stop_tokens: &[u32]) -> Self {
        let mut stop = [0; 9];
        for (slot, &id) in stop.iter_mut().zip(stop_tokens) {
            *slot = id;
        }
        let count = stop_tokens.len().min(stop.len()) as u32;
        Self {
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            repetition_penalty: sampling.repetition_penalty,
            penalty_window: sampling.penalty_window,
            stop_count: count,
            stop,
        }
    }

    pub(super) fn check(&self, vocabulary: u32) -> Result<(), ImageError> {
        let known = self.stop_tokens().iter().all(|&id| id < vocabulary);
        if known && self.stop_count as usize <= self.stop.len() && self.sampling().check().is_ok() {
            Ok(())
        } else {
            Err(ImageError::Field { part: Part::Generation })
        }
    }

    pub(super) fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            penalty_window: self.penalty_window,
        }
    }

    pub(super) fn stop_tokens(&self) -> &[u32] {
        self.stop.get(..self.stop_count as usize).unwrap_or(&[])
    }
}

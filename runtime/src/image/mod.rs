//! The model image: one flat file, checked once, read in place.
//!
//! ```text
//! 0      header            256 bytes: magic, version, lengths, configuration, the table's SHA-256, CRC-32C
//! 256    signature         128 bytes: who signed the header, if anybody did
//! 384    section table     64 bytes a section: kind, CRC-32C, offset, length, SHA-256
//! …      sections          each at a multiple of 64, zeros between them
//! ```
//!
//! Everything is little-endian. [`Image::open`] checks the header, the table and the small sections that steer access;
//! after it, no access can go out of bounds. It does not touch the weights: [`Image::verify`] does.
//!
//! There are two kinds of checks. A CRC-32C costs next to nothing and finds accidents: sections that are used have
//! theirs checked when they are opened. SHA-256 finds everything: the signature covers the header, the header has the
//! table's hash, and the table has those of the sections.

mod header;
mod layout;
#[cfg(feature = "signature")]
mod signature;
mod tensors;
mod verify;

pub use header::{HEADER_BYTES, TABLE_OFFSET};
pub(crate) use layout::checksum_on;
pub use layout::{
    ALIGN, CRC_32C, FORMAT_F32, GenerationRecord, Header, MAGIC, SectionKind, SectionRecord, SignatureRecord,
    TensorRecord, VERSION, checksum, sha256,
};
pub use tensors::{LayerWeights, ModelWeights, Role, Wanted, roles};
pub use verify::Verification;

use sha2::{Digest, Sha256};

use crate::config::Config;
use crate::error::{ImageError, Part};
use crate::log::log;
use crate::sampling::Sampling;
use crate::state::State;
use crate::text::{ChatTemplate, Tokenizer};
use header::table_end;
use tensors::Directory;

/// Puts bytes at a multiple of 64, such as those of an image that is built into a program:
/// `static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("model.pocket"));`
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Aligned<T: ?Sized>(
    /// The bytes.
    pub T,
);

static_assertions::const_assert_eq!(align_of::<Aligned<u8>>(), ALIGN);

/// A checked model image, borrowed from flash, a mapped file or RAM.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    bytes: &'a [u8],
    header: &'a Header,
    signature: &'a SignatureRecord,
    config: Config,
    sections: &'a [SectionRecord],
    directory: Directory<'a>,
    inverse_frequencies: &'a [f64],
    generation: &'a GenerationRecord,
}

impl<'a> Image<'a> {
    /// Checks and opens an image; `bytes` may be longer than it.
    ///
    /// The work is proportional to the number of sections and tensors; no weight is read.
    ///
    /// # Errors
    /// [`ImageError`] says what is wrong and how to mend it.
    pub fn open(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let image = Self::check(bytes).inspect_err(|error| log!(error, "image refused: {}", error))?;
        let config = &image.config;
        log!(info, "image of {} bytes: {} layers of {}", image.bytes.len(), config.layers, config.hidden);
        Ok(image)
    }

    fn check(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let opened = header::read(bytes)?;
        let header::Opened { whole: bytes, header, signature, config, sections } = opened;
        let find = |kind, part| section(bytes, sections, kind)?.ok_or(ImageError::Missing { part });
        let tensors = checked(find(SectionKind::Tensors, Part::Tensors)?, Part::Tensors)?;
        let (_, weights) = find(SectionKind::Weights, Part::Weights)?;
        let directory = Directory::open(&config, records(tensors, Part::Tensors)?, weights)?;
        let rope = checked(find(SectionKind::RopeFrequencies, Part::RopeFrequencies)?, Part::RopeFrequencies)?;
        let inverse_frequencies: &[f64] = records(rope, Part::RopeFrequencies)?;
        let wanted = config.head_dim as usize / 2;
        if inverse_frequencies.len() != wanted || !inverse_frequencies.iter().all(|f| f.is_finite()) {
            return Err(ImageError::Field { part: Part::RopeFrequencies });
        }
        let generation = checked(find(SectionKind::Generation, Part::Generation)?, Part::Generation)?;
        let [generation] = records::<GenerationRecord>(generation, Part::Generation)? else {
            return Err(ImageError::Field { part: Part::Generation });
        };
        generation.check(config.vocabulary)?;
        Ok(Self { bytes, header, signature, config, sections, directory, inverse_frequencies, generation })
    }

    /// The shape of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The image's own bytes, without what may follow them.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The header, which a signature covers.
    #[must_use]
    pub fn header(&self) -> &'a Header {
        self.header
    }

    /// The section table.
    #[must_use]
    pub fn sections(&self) -> &'a [SectionRecord] {
        self.sections
    }

    /// The tensors in directory order.
    #[must_use]
    pub fn tensors(&self) -> &'a [TensorRecord] {
        self.directory.records()
    }

    /// The weights of the model.
    #[must_use]
    pub fn weights(&self) -> ModelWeights<'a> {
        self.directory.model()
    }

    /// The weights of layer `layer`; `None` beyond the last.
    #[must_use]
    pub fn layer(&self, layer: usize) -> Option<LayerWeights<'a>> {
        self.directory.layer(layer)
    }

    /// Inverse frequencies of the rotary embedding, `head_dim / 2` of them.
    #[must_use]
    pub fn inverse_frequencies(&self) -> &'a [f64] {
        self.inverse_frequencies
    }

    /// The sampling settings that the model's author recommends, or greedy.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        self.generation.sampling()
    }

    /// Tokens that end a reply.
    #[must_use]
    pub fn stop_tokens(&self) -> &'a [u32] {
        self.generation.stop_tokens()
    }

    /// The tokenizer, checked in time proportional to its size.
    ///
    /// # Errors
    /// [`ImageError::Missing`] if the image has none, [`ImageError::Checksum`] or [`ImageError::Text`] if it is damaged,
    /// [`ImageError::Field`] if it belongs to another vocabulary.
    pub fn tokenizer(&self) -> Result<Tokenizer<'a>, ImageError> {
        let part = Part::Tokenizer;
        let found = section(self.bytes, self.sections, SectionKind::Tokenizer)?.ok_or(ImageError::Missing { part })?;
        let tokenizer = Tokenizer::open(checked(found, part)?)?;
        // A vocabulary may be padded, so the matrix can have more rows than there are tokens.
        if tokenizer.vocabulary() as u64 > u64::from(self.config.vocabulary) {
            return Err(ImageError::Field { part });
        }
        Ok(tokenizer)
    }

    /// The chat template, checked in time proportional to its size.
    ///
    /// # Errors
    /// [`ImageError::Missing`] if the model has none that can be expressed, otherwise as [`Self::tokenizer`].
    pub fn template(&self) -> Result<ChatTemplate<'a>, ImageError> {
        let part = Part::Template;
        let found = section(self.bytes, self.sections, SectionKind::Template)?.ok_or(ImageError::Missing { part })?;
        Ok(ChatTemplate::open(checked(found, part)?)?)
    }

    /// What was computed when the image was packed, of the tokens that most sessions begin with; checked in time
    /// proportional to its size. A session takes from it [what it can use](crate::Session::prefill) by itself.
    ///
    /// # Errors
    /// [`ImageError::Missing`] if the image has none, [`ImageError::Prefix`] if it is damaged or of another model.
    pub fn prefix(&self) -> Result<State<'a>, ImageError> {
        let part = Part::Prefix;
        // A state has a checksum of its own, over all of it.
        let (_, found) =
            section(self.bytes, self.sections, SectionKind::Prefix)?.ok_or(ImageError::Missing { part })?;
        let state = State::open(found).map_err(|reason| ImageError::Prefix { reason })?;
        state.check(&self.config, &self.identity()).map_err(|reason| ImageError::Prefix { reason })?;
        Ok(state)
    }

    /// The instructions that the prefix was computed of, for the first turn of a chat.
    ///
    /// # Errors
    /// [`ImageError::Missing`] if the image has none, otherwise as [`Self::tokenizer`].
    pub fn system_prompt(&self) -> Result<&'a str, ImageError> {
        let part = Part::SystemPrompt;
        let found =
            section(self.bytes, self.sections, SectionKind::SystemPrompt)?.ok_or(ImageError::Missing { part })?;
        core::str::from_utf8(checked(found, part)?).map_err(|_| ImageError::Field { part })
    }

    /// Where the model came from: JSON written by the packer, or "" if it is missing or damaged.
    #[must_use]
    pub fn provenance(&self) -> &'a str {
        let found = section(self.bytes, self.sections, SectionKind::Provenance).ok().flatten();
        found
            .and_then(|found| checked(found, Part::Provenance).ok())
            .and_then(|bytes| core::str::from_utf8(bytes).ok())
            .unwrap_or("")
    }

    /// Who signed the image, if anybody did; what it says is true only as far as a signature was checked.
    #[must_use]
    pub fn signature(&self) -> Option<&'a SignatureRecord> {
        (self.signature.algorithm != 0).then_some(self.signature)
    }

    /// SHA-256 of everything that keys, values and logits depend on: the shape, and the hashes of tensors, weights and
    /// rotary frequencies. Images of the same model with other text sections have the same.
    #[must_use]
    pub fn identity(&self) -> [u8; 32] {
        let kinds = [SectionKind::Tensors, SectionKind::Weights, SectionKind::RopeFrequencies];
        let mut digest = Sha256::new();
        digest.update(bytemuck::bytes_of(&Header::of(&self.config)));
        for section in self.sections.iter().filter(|section| kinds.iter().any(|&kind| section.kind == kind as u32)) {
            digest.update(section.kind.to_le_bytes());
            digest.update(section.len.to_le_bytes());
            digest.update(section.sha256);
        }
        digest.finalize().into()
    }

    /// A check of every byte, the weights too, in steps of bounded work.
    #[must_use]
    pub fn verification(&self) -> Verification<'a> {
        Verification::new(self.bytes, table_end(self.sections.len()), self.sections)
    }

    /// Checks every byte, the weights too: reads the whole image once.
    ///
    /// # Errors
    /// [`ImageError::Checksum`] names the first section that is damaged.
    pub fn verify(&self) -> Result<(), ImageError> {
        self.verification().step(usize::MAX).map(drop)
    }
}

/// A section's record and bytes.
type Section<'a> = (&'a SectionRecord, &'a [u8]);

/// The bytes of a section, which [`header::read`] has found to lie inside.
fn body<'a>(bytes: &'a [u8], record: &SectionRecord) -> Result<&'a [u8], ImageError> {
    let outside = ImageError::Field { part: Part::SectionTable };
    let start = usize::try_from(record.offset).map_err(|_| outside)?;
    let len = usize::try_from(record.len).map_err(|_| outside)?;
    bytes.get(start..).and_then(|rest| rest.get(..len)).ok_or(outside)
}

/// The section of a kind.
fn section<'a>(
    bytes: &'a [u8],
    sections: &'a [SectionRecord],
    kind: SectionKind,
) -> Result<Option<Section<'a>>, ImageError> {
    match sections.iter().find(|record| record.kind == kind as u32) {
        Some(record) => Ok(Some((record, body(bytes, record)?))),
        None => Ok(None),
    }
}

/// The bytes of a section, if its checksum matches.
fn checked<'a>((record, bytes): Section<'a>, part: Part) -> Result<&'a [u8], ImageError> {
    if checksum(bytes) == record.crc { Ok(bytes) } else { Err(ImageError::Checksum { part }) }
}

/// A section as an array of records.
fn records<T: bytemuck::AnyBitPattern>(bytes: &[u8], part: Part) -> Result<&[T], ImageError> {
    bytemuck::try_cast_slice(bytes).map_err(|_| ImageError::Field { part })
}

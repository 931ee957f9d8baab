//! Header and section table: the checks that come before everything else.

use super::layout::{ALIGN, Header, MAGIC, SectionKind, SectionRecord, SignatureRecord, VERSION, sha256};
use crate::config::Config;
use crate::error::{ImageError, Part};

/// Bytes of the header.
pub const HEADER_BYTES: usize = size_of::<Header>();
/// Where the section table begins: behind the header and its signature.
pub const TABLE_OFFSET: usize = HEADER_BYTES + size_of::<SignatureRecord>();
/// More sections than this are not an image of ours.
const SECTIONS_MAX: u32 = 64;

/// What the header says, checked.
pub(super) struct Opened<'a> {
    /// The image without what may follow it.
    pub(super) whole: &'a [u8],
    pub(super) header: &'a Header,
    pub(super) signature: &'a SignatureRecord,
    pub(super) config: Config,
    pub(super) sections: &'a [SectionRecord],
}

/// Reads and checks header and section table.
pub(super) fn read(bytes: &[u8]) -> Result<Opened<'_>, ImageError> {
    let short = |need| ImageError::Truncated { need, have: bytes.len() as u64 };
    if bytes.get(..MAGIC.len()).is_some_and(|magic| magic != MAGIC) {
        return Err(ImageError::Magic);
    }
    let (head, rest) = bytes.split_at_checked(TABLE_OFFSET).ok_or(short(TABLE_OFFSET as u64))?;
    let (head, signature) = head.split_at_checked(HEADER_BYTES).ok_or(short(TABLE_OFFSET as u64))?;
    // After the length: a slice of no bytes may be anywhere.
    let remainder = bytes.as_ptr() as usize % ALIGN;
    if remainder != 0 {
        return Err(ImageError::Misaligned { remainder: remainder as u32 });
    }
    let header: &Header = bytemuck::try_from_bytes(head).map_err(|_| ImageError::Field { part: Part::Header })?;
    // The version comes before the checksum: another version may put it elsewhere.
    if header.version != VERSION {
        return Err(ImageError::Version { found: header.version, expected: VERSION });
    }
    if header.checksum() != header.header_crc {
        return Err(ImageError::Checksum { part: Part::Header });
    }
    let signature: &SignatureRecord =
        bytemuck::try_from_bytes(signature).map_err(|_| ImageError::Field { part: Part::Signature })?;
    signature.check()?;
    if header.section_count > SECTIONS_MAX {
        return Err(ImageError::Field { part: Part::Header });
    }
    let table_bytes = table_bytes(header.section_count as usize);
    let whole =
        usize::try_from(header.total_len).ok().and_then(|len| bytes.get(..len)).ok_or(short(header.total_len))?;
    let table = rest.get(..table_bytes).ok_or(short(table_end(header.section_count as usize) as u64))?;
    if sha256(table) != header.table_sha256 {
        return Err(ImageError::Checksum { part: Part::SectionTable });
    }
    let sections = bytemuck::try_cast_slice(table).map_err(|_| ImageError::Field { part: Part::SectionTable })?;
    check_sections(sections, header.total_len)?;
    Ok(Opened { whole, header, signature, config: header.config()?, sections })
}

/// Bytes of a table of so many sections.
const fn table_bytes(sections: usize) -> usize {
    sections.saturating_mul(size_of::<SectionRecord>())
}

/// Where a table of so many sections ends in the image.
pub(super) const fn table_end(sections: usize) -> usize {
    TABLE_OFFSET.saturating_add(table_bytes(sections))
}

/// Sections must lie inside the image, behind the table, aligned, in ascending order without overlap, each kind once.
fn check_sections(sections: &[SectionRecord], total_len: u64) -> Result<(), ImageError> {
    let field = ImageError::Field { part: Part::SectionTable };
    let mut free = table_end(sections.len()) as u64;
    for (i, record) in sections.iter().enumerate() {
        let end = record.offset.checked_add(record.len).ok_or(field)?;
        let again = sections.iter().take(i).any(|other| other.kind == record.kind);
        let aligned = record.offset.is_multiple_of(ALIGN as u64);
        if record.offset < free || end > total_len || !aligned || again || record.reserved != 0 {
            return Err(field);
        }
        let known = SectionKind::ALL.iter().any(|&kind| kind as u32 == record.kind);
        if !known && record.kind < SectionKind::OPTIONAL {
            return Err(ImageError::UnknownSection { kind: record.kind });
        }
        free = end;
    }
    Ok(())
}

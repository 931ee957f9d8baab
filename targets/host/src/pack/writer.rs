//! Writing an image: sections one after the other, the header last, when their lengths and checksums are known.

use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use pocket_runtime::Config;
use pocket_runtime::image::{
    ALIGN, CRC_32C, Header, SectionKind, SectionRecord, SignatureRecord, TABLE_OFFSET, sha256,
};
use sha2::{Digest, Sha256};

use super::error::PackError;

/// An image in the making.
pub(super) struct Writer<W> {
    out: W,
    /// For messages.
    path: PathBuf,
    sections: Vec<SectionRecord>,
    capacity: usize,
    at: u64,
    crc: crc::Digest<'static, u32, crc::Table<16>>,
    sha256: Sha256,
    /// Whether the section that was begun last has its checksums.
    ended: bool,
}

impl<W: Write + Seek> Writer<W> {
    /// An image of at most `capacity` sections. `path` is for messages.
    pub(super) fn new(out: W, path: PathBuf, capacity: usize) -> Result<Self, PackError> {
        let (crc, sha256) = (CRC_32C.digest(), Sha256::new());
        let mut writer = Self { out, path, sections: Vec::new(), capacity, at: 0, crc, sha256, ended: true };
        writer.put(&vec![0; TABLE_OFFSET + capacity * size_of::<SectionRecord>()])?;
        Ok(writer)
    }

    fn failed(&self) -> impl Fn(std::io::Error) -> PackError + use<W> {
        let path = self.path.clone();
        move |source| PackError::File { path: path.clone(), source }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes).map_err(self.failed())
    }

    /// Begins a section.
    pub(super) fn begin(&mut self, kind: SectionKind) -> Result<(), PackError> {
        assert!(self.sections.len() < self.capacity, "more sections than were announced");
        let padding = self.at.next_multiple_of(ALIGN as u64) - self.at;
        self.put(&[0; ALIGN][..padding as usize])?;
        self.end_section();
        let record = SectionRecord { kind: kind as u32, offset: self.at, ..bytemuck::Zeroable::zeroed() };
        self.sections.push(record);
        self.ended = false;
        Ok(())
    }

    /// Appends to the section that was begun last.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        self.put(bytes)?;
        self.crc.update(bytes);
        self.sha256.update(bytes);
        if let Some(section) = self.sections.last_mut() {
            section.len += bytes.len() as u64;
        }
        Ok(())
    }

    /// Notes the checksums of the section that was begun last.
    fn end_section(&mut self) {
        let crc = std::mem::replace(&mut self.crc, CRC_32C.digest()).finalize();
        let sha256 = self.sha256.finalize_reset().into();
        if let Some(section) = self.sections.last_mut().filter(|_| !self.ended) {
            section.crc = crc;
            section.sha256 = sha256;
        }
        self.ended = true;
    }

    /// A whole section.
    pub(super) fn section(&mut self, kind: SectionKind, bytes: &[u8]) -> Result<(), PackError> {
        self.begin(kind)?;
        self.write(bytes)
    }

    /// Bytes written to the section that was begun last.
    pub(super) fn section_len(&self) -> u64 {
        self.sections.last().map_or(0, |section| section.len)
    }

    /// Writes header and table, and gives the length of the image. It is whole then, and sections may still follow.
    pub(super) fn seal(&mut self, config: &Config) -> Result<u64, PackError> {
        self.end_section();
        let table: &[u8] = bytemuck::cast_slice(&self.sections);
        let mut header = Header::of(config);
        header.section_count = self.sections.len() as u32;
        header.total_len = self.at;
        header.table_sha256 = sha256(table);
        header.header_crc = header.checksum();
        let signature = SignatureRecord::unsigned();
        let parts = [bytemuck::bytes_of(&header), bytemuck::bytes_of(&signature), table];
        let failed = self.failed();
        self.out.seek(SeekFrom::Start(0)).map_err(&failed)?;
        parts.into_iter().try_for_each(|part| self.out.write_all(part)).map_err(&failed)?;
        self.out.seek(SeekFrom::Start(self.at)).map_err(&failed)?;
        self.out.flush().map_err(&failed)?;
        Ok(self.at)
    }

    /// What it writes to.
    pub(super) fn get_ref(&self) -> &W {
        &self.out
    }

    /// What it wrote to.
    pub(super) fn into_inner(self) -> W {
        self.out
    }
}

//! Writing an image: sections one after the other, the header last, when their lengths and checksums are known.

use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use pocket_runtime::Config;
use pocket_runtime::image::{ALIGN, CRC_32C, HEADER_BYTES, Header, SectionKind, SectionRecord, checksum};

use super::error::PackError;

/// An image in the making.
pub(super) struct Writer<W> {
    out: W,
    /// For messages.
    path: PathBuf,
    sections: Vec<SectionRecord>,
    capacity: usize,
    at: u64,
    digest: crc::Digest<'static, u32, crc::Table<16>>,
}

impl<W: Write + Seek> Writer<W> {
    /// An image of at most `capacity` sections. `path` is for messages.
    pub(super) fn new(out: W, path: PathBuf, capacity: usize) -> Result<Self, PackError> {
        let mut writer = Self { out, path, sections: Vec::new(), capacity, at: 0, digest: CRC_32C.digest() };
        writer.put(&vec![0; HEADER_BYTES + capacity * size_of::<SectionRecord>()])?;
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
        self.digest = CRC_32C.digest();
        self.sections.push(SectionRecord { kind: kind as u32, crc: 0, offset: self.at, len: 0, reserved: 0 });
        Ok(())
    }

    /// Appends to the section that was begun last.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        self.put(bytes)?;
        self.digest.update(bytes);
        let crc = self.digest.clone().finalize();
        if let Some(section) = self.sections.last_mut() {
            section.len += bytes.len() as u64;
            section.crc = crc;
        }
        Ok(())
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

    /// Writes header and table; gives the length of the image and what it was written to.
    pub(super) fn finish(mut self, config: &Config) -> Result<(u64, W), PackError> {
        let table: &[u8] = bytemuck::cast_slice(&self.sections);
        let mut header = Header::of(config);
        header.section_count = self.sections.len() as u32;
        header.total_len = self.at;
        header.table_crc = checksum(table);
        header.header_crc = header.checksum();
        let failed = self.failed();
        self.out.seek(SeekFrom::Start(0)).map_err(&failed)?;
        self.out.write_all(bytemuck::bytes_of(&header)).map_err(&failed)?;
        self.out.write_all(table).map_err(&failed)?;
        self.out.flush().map_err(&failed)?;
        Ok((self.at, self.out))
    }
}

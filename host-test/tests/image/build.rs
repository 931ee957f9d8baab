//! Images to be tampered with: any field set, then all checksums made good again.

use bytemuck::Pod;
use pocket_host_test::exercise;
use pocket_host_test::images::{self, AlignedBytes};
use pocket_host_test::session::Way;
use pocket_runtime::image::{HEADER_BYTES, Header, SectionKind, SectionRecord, TABLE_OFFSET, TensorRecord};
use pocket_runtime::{CacheType, Image, ImageError, StepError};

/// A small model with every section.
pub(crate) const MODEL: &str = "tiny-qwen3-q4_1-ffn160";
/// Its counterpart with a separate head.
pub(crate) const UNTIED: &str = "tiny-qwen3-f16-untied";

/// An image that can be changed.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) bytes: AlignedBytes,
}

impl Draft {
    pub(crate) fn of(name: &str) -> Self {
        Self { bytes: AlignedBytes::copy_of(images::image(name)) }
    }

    pub(crate) fn header(&mut self) -> &mut Header {
        bytemuck::from_bytes_mut(&mut self.bytes[..HEADER_BYTES])
    }

    /// The section table, as long as it was written.
    pub(crate) fn sections(&mut self) -> &mut [SectionRecord] {
        let count = self.header().section_count as usize;
        bytemuck::cast_slice_mut(&mut self.bytes[TABLE_OFFSET..][..count * size_of::<SectionRecord>()])
    }

    pub(crate) fn section(&mut self, kind: SectionKind) -> &mut SectionRecord {
        let found = self.sections().iter_mut().find(|record| record.kind == kind as u32);
        found.unwrap_or_else(|| panic!("the model has a section {kind:?}"))
    }

    /// The records in a section.
    pub(crate) fn records<T: Pod>(&mut self, kind: SectionKind) -> &mut [T] {
        let range = range(self.section(kind));
        bytemuck::cast_slice_mut(&mut self.bytes[range])
    }

    pub(crate) fn tensors(&mut self) -> &mut [TensorRecord] {
        self.records(SectionKind::Tensors)
    }

    /// Makes all checksums good.
    pub(crate) fn seal(mut self) -> AlignedBytes {
        images::seal(&mut self.bytes);
        self.bytes
    }
}

pub(crate) fn range(record: &SectionRecord) -> std::ops::Range<usize> {
    record.offset as usize..(record.offset + record.len) as usize
}

/// What opening a changed image gives.
pub(crate) fn opened(name: &str, change: impl FnOnce(&mut Draft)) -> Result<(), ImageError> {
    let mut draft = Draft::of(name);
    change(&mut draft);
    Image::open(&draft.seal()).map(|_| ())
}

/// Does with an image that opened whatever one can do, in several ways: nothing may panic. Gives what the steps said.
pub(crate) fn exercise(bytes: &[u8]) -> Vec<Result<u32, StepError>> {
    let image = Image::open(bytes).expect("it opened before");
    exercise::readers(&image);
    let of = |batch, workers, cache| Way { batch, workers, cache, ..Way::new(12) };
    exercise::sessions(&image, &[of(1, 1, CacheType::F16), of(4, 2, CacheType::I8)])
}

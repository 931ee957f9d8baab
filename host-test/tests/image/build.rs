//! Images to be tampered with: any field set, then all checksums made good again.

use bytemuck::Pod;
use pocket_host_test::images::{self, AlignedBytes};
use pocket_host_test::session::{Steps, Way, open};
use pocket_pack::pool::Pool;
use pocket_runtime::image::{
    HEADER_BYTES, Header, SectionKind, SectionRecord, TABLE_OFFSET, TensorRecord, checksum, sha256,
};
use pocket_runtime::{CacheType, Image, ImageError, Plan, PlanError, Sampler, Sampling, StepError};

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

    /// Makes all checksums good, those of sections as far as they lie in the image.
    pub(crate) fn seal(mut self) -> AlignedBytes {
        let count = self.header().section_count as usize;
        let table = TABLE_OFFSET..TABLE_OFFSET.saturating_add(count.saturating_mul(size_of::<SectionRecord>()));
        if self.bytes.get(table.clone()).is_some() {
            for index in 0..count {
                let record = self.sections()[index];
                let end = record.offset.saturating_add(record.len);
                if end <= self.bytes.len() as u64 {
                    let body = &self.bytes[range(&record)];
                    let (crc, sha256) = (checksum(body), sha256(body));
                    let record = &mut self.sections()[index];
                    (record.crc, record.sha256) = (crc, sha256);
                }
            }
            self.header().table_sha256 = sha256(&self.bytes[table]);
        }
        self.header().header_crc = self.header().checksum();
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
    let config = *image.config();
    let _ = (image.tokenizer().is_ok(), image.template().is_ok(), image.verify().is_ok(), image.provenance());
    for layer in 0..config.layers as usize {
        assert!(image.layer(layer).is_some(), "layer {layer} of an image that opened");
    }
    assert!(image.layer(config.layers as usize).is_none() && image.layer(usize::MAX).is_none());
    assert!(image.stop_tokens().iter().all(|&id| id < config.vocabulary));
    let mut said = Vec::new();
    for (batch, workers, cache) in [(1, 1, CacheType::F16), (4, 2, CacheType::I8)] {
        let context = config.context.min(12);
        let way = Way { batch: batch.min(context), workers, cache, ..Way::new(context) };
        let plan = match Plan::try_new(&config, &way.limits()) {
            Ok(plan) => plan,
            Err(error) => {
                assert_eq!(error, PlanError::TooLarge, "a shape that opened");
                continue;
            }
        };
        let mut arena = AlignedBytes::filled(0xff, plan.arena_bytes());
        let workers = Pool::new(workers as usize).expect("threads");
        let mut session = open(&image, (&plan, way.isa), &mut arena, &workers).expect("a session of its own plan");
        said.push(steps(&mut *session, image.sampling(), config.vocabulary));
        session.reset();
        said.push(steps(&mut *session, Sampling { temperature: 1.0, top_p: 0.9, ..Sampling::GREEDY }, 1));
    }
    said
}

/// A few steps with the first and last tokens, as far as the context goes.
fn steps(session: &mut dyn Steps, sampling: Sampling, vocabulary: u32) -> Result<u32, StepError> {
    let ids = [0, vocabulary - 1, vocabulary / 2, 0, 1 % vocabulary];
    let mut sampler = Sampler::new(sampling, 3)?;
    session.prefill(&ids[..ids.len().min(session.room())])?;
    let mut last = session.sample(&mut sampler)?;
    while session.room() > 0 {
        session.decode(last)?;
        last = session.sample(&mut sampler)?;
        let logits = session.logits().expect("logits after a step");
        assert!(logits[last as usize].is_finite(), "a token was chosen by a logit that is no number");
    }
    Ok(last)
}

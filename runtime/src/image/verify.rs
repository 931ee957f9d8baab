//! Whether an image is as it was packed: a look at every byte, in steps.

use sha2::{Digest, Sha256};

use super::layout::SectionRecord;
use crate::error::{ImageError, Part};
use crate::log::log;

/// A check of a whole image that is under way: the SHA-256 of every section and the zeros between them. With what
/// [`super::Image::open`] checks, no byte is left out.
///
/// Each step reads a bounded number of bytes, so firmware can go on with other things while it boots.
///
/// ```
/// # fn boot(image: &pocket_runtime::Image<'_>) -> Result<(), pocket_runtime::ImageError> {
/// let mut verification = image.verification();
/// while !verification.step(64 << 10)? {
///     // feed the watchdog, draw the progress bar: verification.done() of image.bytes().len()
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Verification<'a> {
    bytes: &'a [u8],
    /// Where sections begin that have not been begun.
    sections: core::slice::Iter<'a, SectionRecord>,
    /// The section whose bytes are being read, and where it ends.
    section: Option<(&'a SectionRecord, usize)>,
    /// How far everything was read.
    done: usize,
    digest: Sha256,
    failed: Option<ImageError>,
}

impl<'a> Verification<'a> {
    /// Begins behind the section table, whose own hash was checked.
    pub(super) fn new(bytes: &'a [u8], table_end: usize, sections: &'a [SectionRecord]) -> Self {
        Self { bytes, sections: sections.iter(), section: None, done: table_end, digest: Sha256::new(), failed: None }
    }

    /// How many of the image's bytes were checked.
    #[must_use]
    pub fn done(&self) -> usize {
        self.done
    }

    /// Reads at most `most` bytes, and says whether that were all.
    ///
    /// # Errors
    /// [`ImageError::Checksum`] names the first section that is not as it was packed, and again in every later step.
    pub fn step(&mut self, most: usize) -> Result<bool, ImageError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let outcome = self.advance(most);
        match outcome {
            Ok(true) => log!(info, "image is as it was packed"),
            Ok(false) => {}
            Err(error) => {
                log!(error, "image is damaged: {}", error);
                self.failed = Some(error);
            }
        }
        outcome
    }

    fn advance(&mut self, most: usize) -> Result<bool, ImageError> {
        let mut left = most;
        while left > 0 || self.section.is_none() {
            if let Some((record, end)) = self.section {
                let piece = self.take(end, &mut left);
                self.digest.update(piece);
                if self.done < end {
                    return Ok(false);
                }
                let found: [u8; 32] = self.digest.finalize_reset().into();
                if found != record.sha256 {
                    return Err(ImageError::Checksum { part: record.part() });
                }
                self.section = None;
            } else {
                let next = self.sections.as_slice().first();
                let start = next.map_or(self.bytes.len(), |record| record.offset as usize);
                if self.take(start, &mut left).iter().any(|&byte| byte != 0) {
                    return Err(ImageError::Checksum { part: Part::Padding });
                }
                if self.done < start {
                    return Ok(false);
                }
                let Some(record) = self.sections.next() else { return Ok(true) };
                self.section = Some((record, start.saturating_add(record.len as usize)));
            }
        }
        Ok(false)
    }

    /// The bytes from where we are up to `end`, as many as are left to be read.
    fn take(&mut self, end: usize, left: &mut usize) -> &'a [u8] {
        let piece = self.bytes.get(self.done..end).unwrap_or(&[]);
        let piece = piece.get(..*left).unwrap_or(piece);
        self.done = self.done.saturating_add(piece.len());
        *left = left.saturating_sub(piece.len());
        piece
    }
}

//! `pocket verify`: whether an image is as it was packed.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use super::machine::{map, open};
use super::output::bytes;

/// Read a whole image and compare the checksum of every section.
///
/// A damaged section is named, and the exit code is 1. Checksums find accidents, not forgeries.
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// The image.
    image: PathBuf,
}

impl Verify {
    pub(super) fn run(self) -> Result<()> {
        let file = map(&self.image)?;
        let image = open(&file)?;
        image.verify().with_context(|| self.image.display().to_string())?;
        let (sections, size) = (image.sections().len(), bytes(image.bytes().len() as u64));
        writeln!(io::stdout(), "{}: {sections} sections, {size}, as they were packed", self.image.display())?;
        Ok(())
    }
}

//! `pocket logits`: the logits of every position, for other programs.

use std::path::PathBuf;

use crate::npy::NpyWriter;
use anyhow::{Result, anyhow};
use clap::Args;
use pocket_kernels::Kernels;

use super::arguments::{Ids, IsaArgs, LimitArgs};
use super::machine::{HostSession, Machine, UseSession, map, open};
use super::output::write_file;

/// Write the logits of every position as a NumPy array, f32 [ids, vocabulary].
#[derive(Debug, Args)]
pub(super) struct Logits {
    /// The image.
    image: PathBuf,
    /// The tokens, such as 1,2,3.
    #[arg(long, value_name = "ID,…")]
    ids: Ids,
    /// The .npy file to write.
    #[arg(short, long, value_name = "OUT.npy")]
    output: PathBuf,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    isa: IsaArgs,
}

impl Logits {
    pub(super) fn run(self) -> Result<()> {
        let file = map(&self.image)?;
        let image = open(&file)?;
        let mut machine = Machine::new(&image, &self.limits.limits(image.config()), self.isa.isa())?;
        machine.with_session(&image, &self)?
    }
}

impl UseSession for &Logits {
    type Out = Result<()>;

    fn with<K: Kernels>(self, mut session: HostSession<'_, K>) -> Self::Out {
        let Ids(ids) = &self.ids;
        let vocabulary = session.plan().config().vocabulary as usize;
        write_file(&self.output, |out| {
            let failed = |error| anyhow!("{} cannot be written: {error}", self.output.display());
            let mut npy = NpyWriter::new(out, ids.len(), vocabulary).map_err(failed)?;
            let mut written = Ok(());
            session.prefill_each(ids, |_, logits| {
                if written.is_ok() {
                    written = npy.row(logits);
                }
            })?;
            written.and_then(|()| npy.finish()).map_err(failed)
        })
    }
}

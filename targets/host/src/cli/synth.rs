//! `pocket synth`: an image of a shape, before there are weights.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use super::output::{bytes, write_file};
use super::shape::ShapeArgs;
use crate::pack::{Options, Report, pack_bytes};
use crate::synth;

/// Write an image with the exact shape of a model and random weights.
///
/// Speed and memory depend on the shape alone, so `pocket plan` and `pocket bench` say what hardware will do before
/// there are weights. Its replies are noise.
#[derive(Debug, Args)]
pub(super) struct Synth {
    #[command(flatten)]
    shape: ShapeArgs,
    /// The image to write.
    #[arg(short, long, value_name = "OUT.pocket")]
    output: PathBuf,
    /// Also write the model as GGUF, the same codes, for other engines to be measured with.
    #[arg(long, value_name = "OUT.gguf")]
    gguf: Option<PathBuf>,
    /// The same seed gives the same image.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Synth {
    pub(super) fn run(self) -> Result<()> {
        let (name, config) = self.shape.shape()?;
        let file = synth::gguf(name, &config, self.seed).context("this shape cannot be made")?;
        if let Some(path) = &self.gguf {
            write_file(path, |out| Ok(out.write_all(&file)?))?;
        }
        let source = format!("pocket synth, seed {}", self.seed);
        let Report { image_bytes, weight_bytes, parameters, .. } =
            pack_bytes(&file, &source, &self.output, &Options::default(), &mut |_| ())?;
        writeln!(
            io::stdout(),
            "{}: {}, {:.1} M parameters, {:.2} bits a weight",
            self.output.display(),
            bytes(image_bytes),
            parameters as f64 / 1e6,
            weight_bytes as f64 * 8.0 / parameters as f64
        )?;
        Ok(())
    }
}

//! Packing: from a GGUF file to a model image.
//!
//! Everything that needs a parser, an allocator or a guess happens here, once, so that a device only reads. Codes are
//! kept as they are wherever the tile formats know them.

mod architecture;
mod error;
mod layout;
mod matrix;
mod prefix;
mod quantize;
mod sections;
mod weights;
mod writer;

pub(crate) use architecture::tensor_name;
pub use error::PackError;
pub use prefix::{Prefix, PrefixError};
pub use quantize::Quant;

use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

use memmap2::Mmap;
use pocket_runtime::image::{SectionKind, TensorRecord};
use pocket_runtime::{Config, Image, ImageError};
use serde::Serialize;

use crate::gguf::Gguf;
use crate::whole_file;
use architecture::Architecture;
use layout::Layout;
use sections::{Provenance, Text};
use writer::Writer;

/// How to pack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// What matrices of floats become.
    pub quant: Quant,
    /// What most sessions begin with, to be computed now.
    pub prefix: Option<Prefix<'a>>,
    /// The command `pocket`, which runs the file's chat template, a stranger's program, in a process whose memory and
    /// time Linux bounds. `None` is for files that are trusted: the template is run in this process, and can take all
    /// memory.
    pub template_program: Option<&'a Path>,
}

/// How far packing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of weights written.
    pub done: u64,
    /// Bytes of weights to write.
    pub total: u64,
}

/// What was packed.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Bytes of its weights.
    pub weight_bytes: u64,
    /// Elements of all tensors.
    pub parameters: u64,
    /// Tokens of the prefix that was computed.
    pub prefix_tokens: Option<usize>,
    /// Tensors whose codes could not be kept.
    pub conversions: Vec<Conversion>,
    /// What a user should know, such as why there is no chat template.
    pub notes: Vec<String>,
}

/// A tensor that was quantised anew.
#[derive(Clone, Debug, Serialize)]
pub struct Conversion {
    /// Its name.
    pub tensor: String,
    /// Its type in the file.
    pub from: String,
    /// Its format in the image.
    pub to: String,
    /// `√(Σ(x − y)² / Σx²)`.
    pub relative_error: f64,
}

/// Packs a GGUF file into an image.
///
/// The image is written to a temporary file beside `output`, opened as a device would, and only then put in place, so
/// `output` is either whole or as it was.
///
/// # Errors
/// [`PackError`] says what the file has that an image cannot hold, or which file could not be read or written.
pub fn pack_file(
    input: &Path,
    output: &Path,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, PackError> {
    if let (Ok(a), Ok(b)) = (input.canonicalize(), output.canonicalize())
        && a == b
    {
        return Err(PackError::SameFile { path: output.to_owned() });
    }
    let file = std::fs::read(input).map_err(failed(input))?;
    let source = input.file_name().unwrap_or_default().to_string_lossy();
    pack_bytes(&file, &source, output, options, progress)
}

/// As [`pack_file`], for a file that is in memory and came from `source`.
///
/// # Errors
/// As [`pack_file`].
pub fn pack_bytes(
    file: &[u8],
    source: &str,
    output: &Path,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, PackError> {
    let temporary = whole_file::beside(output).map_err(failed(output))?;
    let out = BufWriter::with_capacity(1 << 20, temporary);
    let mut writer = Writer::new(out, output.to_owned(), SectionKind::ALL.len())?;
    let (mut report, config) = write_image(file, source, options, &mut writer, progress)?;
    if let Some(prefix) = &options.prefix {
        let baked = prefix::bake(&map(writer.get_ref().get_ref().as_file(), output)?, prefix)?;
        writer.section(SectionKind::Prefix, &baked.state)?;
        if let Some(system) = baked.system_prompt {
            writer.section(SectionKind::SystemPrompt, system.as_bytes())?;
        }
        report.prefix_tokens = Some(baked.tokens);
        report.image_bytes = writer.seal(&config)?;
    }
    let temporary = writer.into_inner().into_inner().map_err(|error| failed(output)(error.into_error()))?;
    check(temporary.as_file(), output)?;
    temporary.as_file().sync_all().map_err(failed(output))?;
    temporary.persist(output).map_err(|error| failed(output)(error.error))?;
    Ok(report)
}

/// Makes an error of what the system says about a file.
fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> PackError + use<> {
    let path = path.to_owned();
    move |source| PackError::File { path, source }
}

/// Writes the image of a GGUF file.
fn write_image<W: Write + Seek>(
    file: &[u8],
    source: &str,
    options: &Options<'_>,
    writer: &mut Writer<W>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Report, Config), PackError> {
    let gguf = Gguf::parse(file)?;
    let architecture = Architecture::read(&gguf)?;
    let layout = Layout::new(&gguf, &architecture, options.quant)?;
    let text = Text::build(&gguf, architecture.config.vocabulary, options.template_program)?;
    let records: Vec<TensorRecord> = layout.tensors.iter().map(|placed| placed.record).collect();
    writer.section(SectionKind::Tensors, bytemuck::cast_slice(&records))?;
    writer.section(SectionKind::RopeFrequencies, bytemuck::cast_slice(&architecture.inverse_frequencies))?;
    writer.section(SectionKind::Generation, bytemuck::bytes_of(&text.generation))?;
    writer.section(SectionKind::Tokenizer, &text.tokenizer)?;
    if let Some(template) = &text.template {
        writer.section(SectionKind::Template, template)?;
    }
    let conversions = weights::write(&layout, &architecture, options.quant, writer, progress)?;
    let notes = text.notes;
    let provenance = Provenance::new(&gguf, file, source, (&conversions, &notes))?;
    let json = serde_json::to_vec(&provenance).expect("strings and numbers are JSON");
    writer.section(SectionKind::Provenance, &json)?;
    let parameters = layout.tensors.iter().map(|placed| placed.tensor.elements() as u64).sum();
    let image_bytes = writer.seal(&layout.config)?;
    let weight_bytes = layout.weight_bytes;
    let report = Report { image_bytes, weight_bytes, parameters, prefix_tokens: None, conversions, notes };
    Ok((report, layout.config))
}

/// Maps the temporary file of an image that is to be at `path`.
fn map(file: &File, path: &Path) -> Result<Mmap, PackError> {
    // SAFETY: the temporary file belongs to this process alone, and nothing truncates it while it is mapped; what is
    // written behind the mapped bytes does not change them.
    unsafe { Mmap::map(file) }.map_err(failed(path))
}

/// Opens the finished image as a device does.
fn check(file: &File, path: &Path) -> Result<(), PackError> {
    let bytes = map(file, path)?;
    let image = Image::open(&bytes).map_err(PackError::Defect)?;
    image.verify().map_err(PackError::Defect)?;
    image.tokenizer().map_err(PackError::Defect)?;
    let optional = [image.template().map(drop), image.prefix().map(drop), image.system_prompt().map(drop)];
    optional.into_iter().try_for_each(|part| match part {
        Ok(()) | Err(ImageError::Missing { .. }) => Ok(()),
        Err(error) => Err(PackError::Defect(error)),
    })
}

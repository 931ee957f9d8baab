//! Results: files that are whole or not there, JSON, and numbers for people.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::whole_file;

/// Writes a file by way of a temporary one beside it: it is whole or as it was before.
pub(super) fn write_file(path: &Path, write: impl FnOnce(&mut BufWriter<&mut File>) -> Result<()>) -> Result<()> {
    let shown = path.display();
    let mut file = whole_file::beside(path).with_context(|| format!("{shown} cannot be written"))?;
    let mut out = BufWriter::new(file.as_file_mut());
    write(&mut out)?;
    out.flush().with_context(|| format!("{shown} cannot be written"))?;
    drop(out);
    file.persist(path).with_context(|| format!("{shown} cannot be written"))?;
    Ok(())
}

/// Prints a value as JSON, on lines of its own.
pub(super) fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    writeln!(io::stdout(), "{text}")?;
    Ok(())
}

/// Bytes for people, in decimal units.
pub(super) fn bytes(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", b / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", b / 1e6),
        _ => format!("{:.2} GB", b / 1e9),
    }
}

/// A rate, or nothing where no time passed.
pub(super) fn per_second(count: usize, seconds: f64) -> Option<f64> {
    (count > 0 && seconds > 0.0).then(|| count as f64 / seconds)
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

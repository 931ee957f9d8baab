//! Results: files that are whole or not there, JSON, and numbers for people.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::{printable, whole_file};

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
    writeln!(io::stdout(), "{}", printable::json(&text))?;
    Ok(())
}

/// Prints a piece of a model's text at once: to the byte, but on a terminal with what it would obey escaped.
pub(super) fn print(piece: impl AsRef<[u8]>) -> io::Result<()> {
    let (mut out, piece) = (io::stdout().lock(), piece.as_ref());
    if out.is_terminal() {
        out.write_all(printable::many_lines(&String::from_utf8_lossy(piece)).as_bytes())?;
    } else {
        out.write_all(piece)?;
    }
    out.flush()
}

/// Says on stderr, in one line, what went wrong.
pub(super) fn complain(error: &anyhow::Error) {
    eprintln!("error: {}", printable::one_line(&format!("{error:#}")));
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

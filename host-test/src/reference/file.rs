//! A second, small GGUF reader: just what the forward pass needs.
//!
//! Written apart from the packer's on purpose. It reads numbers and strings of the
//! metadata, steps over arrays, and finds tensors. It is for fixtures and fetched models
//! whose hash is known; a damaged file gives an error or a panic of a slice bound.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};

use super::decode;

/// A metadata value that the forward pass may ask for.
#[derive(Debug)]
enum Meta {
    Number(f64),
    Text(String),
    Array,
}

/// A tensor and where its bytes are.
#[derive(Debug, Clone)]
struct Entry {
    kind: u32,
    dims: Vec<usize>,
    offset: usize,
}

/// A weight matrix: `rows` outputs by `cols` inputs.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    /// Outputs.
    pub(super) rows: usize,
    /// Inputs.
    pub(super) cols: usize,
    kind: u32,
    bytes: Vec<u8>,
}

impl Matrix {
    /// Decodes one row.
    pub(super) fn row(&self, row: usize, out: &mut [f32]) {
        let len = self.bytes.len() / self.rows;
        decode::row(self.kind, &self.bytes[row * len..(row + 1) * len], out);
    }
}

/// A parsed file.
#[derive(Debug)]
pub(super) struct File<'a> {
    meta: HashMap<String, Meta>,
    tensors: HashMap<String, Entry>,
    data: &'a [u8],
}

impl<'a> File<'a> {
    /// Reads metadata and tensor table.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut r = Reader { bytes, at: 0 };
        ensure!(r.take(4)? == b"GGUF", "not a GGUF file");
        let version = r.number(4)?;
        ensure!(version == 2 || version == 3, "GGUF version {version}");
        let (tensor_count, meta_count) = (r.number(8)?, r.number(8)?);
        let mut meta = HashMap::new();
        for _ in 0..meta_count {
            let key = r.text()?;
            let kind = r.number(4)?;
            meta.insert(key, r.meta(kind)?);
        }
        let mut tensors = HashMap::new();
        for _ in 0..tensor_count {
            let name = r.text()?;
            let rank = r.number(4)?;
            let dims = (0..rank).map(|_| r.size()).collect::<Result<_>>()?;
            let kind = u32::try_from(r.number(4)?)?;
            let offset = r.size()?;
            tensors.insert(name, Entry { kind, dims, offset });
        }
        let alignment = match meta.get("general.alignment") {
            Some(Meta::Number(n)) => *n as usize,
            _ => 32,
        };
        let data = bytes.get(r.at.next_multiple_of(alignment)..).context("the file has no tensor data")?;
        Ok(Self { meta, tensors, data })
    }

    /// A number from the metadata, if the key is there.
    pub(super) fn number(&self, key: &str) -> Result<Option<f64>> {
        match self.meta.get(key) {
            None => Ok(None),
            Some(Meta::Number(n)) => Ok(Some(*n)),
            Some(_) => bail!("{key} is no number"),
        }
    }

    /// A size from the metadata.
    pub(super) fn size(&self, key: &str) -> Result<usize> {
        let n = self.number(key)?.with_context(|| format!("{key} is missing"))?;
        Ok(n as usize)
    }

    /// A string from the metadata.
    pub(super) fn text(&self, key: &str) -> Result<&str> {
        match self.meta.get(key) {
            Some(Meta::Text(text)) => Ok(text),
            _ => bail!("{key} is missing or no string"),
        }
    }

    /// Whether there is a tensor of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// A matrix, which must have the given shape.
    pub(super) fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<Matrix> {
        let entry = self.tensors.get(name).with_context(|| format!("{name} is missing"))?;
        let mut shape = entry.dims.clone();
        shape.resize(shape.len().max(2), 1);
        ensure!(shape == [cols, rows], "{name} has shape {shape:?}, not [{cols}, {rows}]");
        let len = decode::row_bytes(entry.kind, cols)? * rows;
        let bytes = self.data.get(entry.offset..entry.offset + len).with_context(|| format!("{name} is cut off"))?;
        Ok(Matrix { rows, cols, kind: entry.kind, bytes: bytes.to_vec() })
    }

    /// A vector of weights, such as a norm's.
    pub(super) fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        let mut out = vec![0.0; len];
        self.matrix(name, 1, len)?.row(0, &mut out);
        Ok(out)
    }

    /// Rows of a tensor, its outer dimension.
    pub(super) fn rows(&self, name: &str) -> Result<usize> {
        self.tensors
            .get(name)
            .and_then(|entry| entry.dims.get(1).copied())
            .with_context(|| format!("{name} is missing or no matrix"))
    }
}

/// A reading position.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(len).context("a length overflows")?;
        let taken = self.bytes.get(self.at..end).context("the file is cut off")?;
        self.at = end;
        Ok(taken)
    }

    /// An unsigned number of some bytes, lowest first.
    fn number(&mut self, len: usize) -> Result<u64> {
        let bytes = self.take(len)?;
        Ok(bytes.iter().rev().fold(0, |n, byte| n * 256 + u64::from(*byte)))
    }

    fn size(&mut self) -> Result<usize> {
        Ok(self.number(8)?.try_into()?)
    }

    fn text(&mut self) -> Result<String> {
        let len = self.size()?;
        Ok(String::from_utf8_lossy(self.take(len)?).into_owned())
    }

    fn meta(&mut self, kind: u64) -> Result<Meta> {
        Ok(match kind {
            0 | 7 => Meta::Number(self.number(1)? as f64),
            1 => Meta::Number(f64::from(self.number(1)? as i8)),
            2 => Meta::Number(self.number(2)? as f64),
            3 => Meta::Number(f64::from(self.number(2)? as i16)),
            4 => Meta::Number(self.number(4)? as f64),
            5 => Meta::Number(f64::from(self.number(4)? as i32)),
            6 => Meta::Number(f32::from_bits(self.number(4)? as u32).into()),
            8 => Meta::Text(self.text()?),
            9 => {
                let (kind, len) = (self.number(4)?, self.number(8)?);
                for _ in 0..len {
                    self.meta(kind)?;
                }
                Meta::Array
            }
            10 => Meta::Number(self.number(8)? as f64),
            11 => Meta::Number(self.number(8)? as i64 as f64),
            12 => Meta::Number(f64::from_bits(self.number(8)?)),
            _ => bail!("metadata type {kind}"),
        })
    }
}

//! Writes a two-dimensional f32 array in NumPy's `.npy` format, a row at a time.
//!
//! # Source
//! NumPy documentation, `numpy.lib.format`: version 1.0, header padded so that the data begin at a multiple of 64.

use std::io::{self, Write};

/// An array being written.
#[derive(Debug)]
pub struct NpyWriter<W> {
    out: W,
    columns: usize,
    rows_left: usize,
}

impl<W: Write> NpyWriter<W> {
    /// Writes the header of an array of `rows × columns`.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(mut out: W, rows: usize, columns: usize) -> io::Result<Self> {
        /// Magic, version and the header's own length.
        const BEFORE: usize = 10;
        let dict = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
        let len = (BEFORE + dict.len() + 1).next_multiple_of(64) - BEFORE;
        // Two numbers of at most twenty digits make a header of two lines of 64 at most.
        let len_field = u16::try_from(len).map_err(io::Error::other)?;
        out.write_all(b"\x93NUMPY\x01\x00")?;
        out.write_all(&len_field.to_le_bytes())?;
        writeln!(out, "{dict:width$}", width = len - 1)?;
        Ok(Self { out, columns, rows_left: rows })
    }

    /// Writes the next row.
    ///
    /// # Errors
    /// If `out` cannot be written, or the row does not belong to the announced shape.
    pub fn row(&mut self, row: &[f32]) -> io::Result<()> {
        if row.len() != self.columns || self.rows_left == 0 {
            return Err(io::Error::other("the row does not fit the array's shape"));
        }
        self.rows_left -= 1;
        for x in row {
            self.out.write_all(&x.to_le_bytes())?;
        }
        Ok(())
    }

    /// Ends the array.
    ///
    /// # Errors
    /// If `out` cannot be written, or rows are missing.
    pub fn finish(mut self) -> io::Result<()> {
        if self.rows_left > 0 {
            return Err(io::Error::other("rows of the array are missing"));
        }
        self.out.flush()
    }
}

//! Reads a two-dimensional f32 array from a NumPy `.npy` file.
//!
//! The format is a magic, a version, the length of a header, the header (a Python dict
//! literal with three keys) and the raw data. Anything but little-endian f32 in C order
//! with two dimensions is refused: the oracles have no other.

use anyhow::{Context, Result, bail, ensure};

/// Reads the rows of an `.npy` file.
///
/// # Errors
/// A sentence if the file is no `.npy`, holds another kind of array, or is cut off.
pub fn read_rows(file: &[u8]) -> Result<Vec<Vec<f32>>> {
    let rest = file.strip_prefix(b"\x93NUMPY").context("not an .npy file: its magic is missing")?;
    let (version, rest) = rest.split_first_chunk::<2>().context("the .npy file ends in its version")?;
    let (len, rest) = match version {
        [1, _] => {
            let (len, rest) = rest.split_first_chunk::<2>().context("the .npy file ends before its header")?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        [2 | 3, _] => {
            let (len, rest) = rest.split_first_chunk::<4>().context("the .npy file ends before its header")?;
            (usize::try_from(u32::from_le_bytes(*len))?, rest)
        }
        [major, minor] => bail!(".npy version {major}.{minor} is not read"),
    };
    let (header, data) = rest.split_at_checked(len).context("the .npy file ends inside its header")?;
    let [rows, cols] = shape(core::str::from_utf8(header)?)?;
    let need = rows.checked_mul(cols).and_then(|n| n.checked_mul(4)).context("the .npy shape overflows")?;
    ensure!(data.len() == need, "the .npy shape [{rows}, {cols}] needs {need} bytes, {} are there", data.len());
    let (elements, _) = data.as_chunks::<4>();
    Ok(elements.chunks(cols.max(1)).map(|row| row.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()).collect())
}

/// Takes the two dimensions from a header and checks the element type and order.
fn shape(header: &str) -> Result<[usize; 2]> {
    let dict = header
        .trim()
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .context("the .npy header is no dict")?;
    let descr = value(dict, "descr")?;
    ensure!(descr.starts_with("'<f4'"), "the .npy elements are not little-endian f32: {descr}");
    ensure!(value(dict, "fortran_order")?.starts_with("False"), "the .npy array is in Fortran order");
    let tuple = value(dict, "shape")?
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(')'))
        .context("the .npy shape is no tuple")?
        .0;
    let dims = tuple
        .split(',')
        .map(str::trim)
        .filter(|dim| !dim.is_empty())
        .map(str::parse)
        .collect::<Result<Vec<usize>, _>>()?;
    dims.try_into().map_err(|dims: Vec<_>| anyhow::anyhow!("the .npy array has {} dimensions", dims.len()))
}

/// What follows a key in the dict.
fn value<'a>(dict: &'a str, key: &str) -> Result<&'a str> {
    let (_, rest) = dict.split_once(&format!("'{key}':")).with_context(|| format!("the .npy header has no {key}"))?;
    Ok(rest.trim_start())
}

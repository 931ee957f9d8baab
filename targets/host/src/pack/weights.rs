//! The weights section.

use std::io::{Seek, Write};

use pocket_runtime::image::{Role, SectionKind};

use super::architecture::Architecture;
use super::error::PackError;
use super::layout::{Layout, Placed};
use super::matrix::Matrix;
use super::quantize::Quant;
use super::writer::Writer;
use super::{Conversion, Progress};

/// Writes all tensors in their places; gives those whose codes could not be kept.
pub(super) fn write<W: Write + Seek>(
    layout: &Layout<'_>,
    architecture: &Architecture,
    target: Quant,
    writer: &mut Writer<W>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Conversion>, PackError> {
    writer.begin(SectionKind::Weights)?;
    let mut conversions = Vec::new();
    let mut read = |placed: &Placed<'_>| {
        let matrix = Matrix::read(&placed.tensor, target, architecture.row_order(placed.role))?;
        if let Some(relative_error) = matrix.relative_error {
            conversions.push(Conversion {
                tensor: placed.tensor.name.to_owned(),
                from: placed.tensor.kind.name().to_owned(),
                to: matrix.format(placed.wide).name().to_owned(),
                relative_error,
            });
        }
        Ok::<_, PackError>(matrix)
    };
    let mut tensors = layout.tensors.iter();
    let mut tiles = Vec::new();
    while let Some(placed) = tensors.next() {
        pad_to(writer, placed.record.offset)?;
        if placed.record.quantisation().is_none() {
            writer.write(&vector(placed)?)?;
            continue;
        }
        let mut matrices = vec![(read(placed)?, placed.wide)];
        if placed.role == Role::Gate
            && let Some(up) = tensors.next()
        {
            matrices.push((read(up)?, up.wide));
        }
        for row_group in 0..matrices[0].0.row_groups() {
            tiles.clear();
            for (matrix, wide) in &matrices {
                matrix.write_row_group(row_group, *wide, &mut tiles);
            }
            writer.write(&tiles)?;
        }
        progress(Progress { done: writer.section_len(), total: layout.weight_bytes });
    }
    pad_to(writer, layout.weight_bytes)?;
    Ok(conversions)
}

/// Fills the section with zeros up to an offset, which the layout never puts before what has been written.
fn pad_to<W: Write + Seek>(writer: &mut Writer<W>, offset: u64) -> Result<(), PackError> {
    let padding = offset.checked_sub(writer.section_len()).expect("tensors are laid out in the order of writing");
    writer.write(&vec![0; padding as usize])
}

/// The bytes of a norm's vector.
fn vector(placed: &Placed<'_>) -> Result<Vec<u8>, PackError> {
    let name = || placed.tensor.name.to_owned();
    let mut values = vec![0.0f32; placed.tensor.elements()];
    crate::quant::dequantize(placed.tensor.kind, placed.tensor.data, &mut values)
        .map_err(|source| PackError::Decode { name: name(), source })?;
    if values.iter().any(|x| !x.is_finite()) {
        return Err(PackError::NotFinite { name: name(), row: 0 });
    }
    Ok(bytemuck::cast_slice(&values).to_vec())
}

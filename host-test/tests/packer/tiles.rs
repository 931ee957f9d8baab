//! A reader of packed weights, written from `kernels/NUMERICS.md` alone.
//!
//! A tile is 16 rows × G columns. 4-bit codes come in chunks of 8 columns, 64 bytes each: byte `lane·4 + i` has column i
//! in its low and column 4 + i in its high nibble. 8-bit codes come in chunks of 4 columns. Then 16 scales, then, if the
//! format is asymmetric, 16 minima.

use pocket_runtime::Image;
use pocket_runtime::image::{Role, SectionKind, TensorRecord};

/// The weights of an image.
pub(crate) struct Tiles<'a> {
    weights: &'a [u8],
    records: &'a [TensorRecord],
}

/// One element as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    /// 0..=15, or the byte of a signed code.
    pub(crate) code: u8,
    pub(crate) scale: u16,
    pub(crate) minimum: Option<u16>,
}

/// Columns of a group, bits of a code, and whether there are minima, by the format's number.
fn shape(format: u32) -> (usize, usize, bool) {
    match format {
        1 => (64, 4, true),
        2 => (32, 4, true),
        3 => (64, 4, false),
        4 => (32, 4, false),
        5 => (32, 8, false),
        other => panic!("format {other} has no tiles"),
    }
}

impl<'a> Tiles<'a> {
    pub(crate) fn of(image: &Image<'a>) -> Self {
        let section = image.sections().iter().find(|record| record.kind == SectionKind::Weights as u32).unwrap();
        let weights = &image.bytes()[section.offset as usize..][..section.len as usize];
        Self { weights, records: image.tensors() }
    }

    pub(crate) fn record(&self, layer: u32, role: Role) -> &'a TensorRecord {
        let fits = |record: &&TensorRecord| record.layer == layer && record.role == role as u32;
        self.records.iter().find(fits).unwrap_or_else(|| panic!("no {role:?} in layer {layer}"))
    }

    /// An element of a matrix; also one of the padding.
    pub(crate) fn element(&self, record: &TensorRecord, row: usize, column: usize) -> Element {
        let (group, bits, minima) = shape(record.format);
        let codes = 16 * group * bits / 8;
        let tile_bytes = codes + if minima { 64 } else { 32 };
        let (lane, column_in_tile) = (row % 16, column % group);
        let start = record.offset as usize + row / 16 * record.stride as usize + column / group * tile_bytes;
        let tile = &self.weights[start..start + tile_bytes];
        let code = if bits == 4 {
            let byte = tile[column_in_tile / 8 * 64 + lane * 4 + column_in_tile % 4];
            if column_in_tile % 8 < 4 { byte % 16 } else { byte / 16 }
        } else {
            tile[column_in_tile / 4 * 64 + lane * 4 + column_in_tile % 4]
        };
        let half = |at: usize| u16::from_le_bytes([tile[at], tile[at + 1]]);
        let minimum = minima.then(|| half(codes + 32 + 2 * lane));
        Element { code, scale: half(codes + 2 * lane), minimum }
    }

    /// What an element says.
    pub(crate) fn value(&self, record: &TensorRecord, row: usize, column: usize) -> f64 {
        let Element { code, scale, minimum } = self.element(record, row, column);
        let half = |bits| f64::from(half::f16::from_bits(bits).to_f32());
        match (shape(record.format), minimum) {
            (_, Some(minimum)) => half(scale) * f64::from(code) + half(minimum),
            ((_, 4, _), None) => half(scale) * (f64::from(code) - 8.0),
            _ => half(scale) * f64::from(code as i8),
        }
    }

    /// The numbers of a vector.
    pub(crate) fn vector(&self, record: &TensorRecord) -> Vec<f32> {
        let bytes = &self.weights[record.offset as usize..][..4 * record.rows as usize];
        bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }

    /// Columns with those that fill the last tile, and rows with those that fill the last row group.
    pub(crate) fn padded(&self, record: &TensorRecord) -> (usize, usize) {
        let (group, ..) = shape(record.format);
        ((record.rows as usize).next_multiple_of(16), (record.columns as usize).next_multiple_of(group))
    }
}

/// The matrices of a model with the names that files give them.
pub(crate) fn matrices(layers: u32, tied: bool) -> Vec<(u32, Role, String)> {
    let of_layer = |layer: u32| {
        [
            (Role::Query, "attn_q"),
            (Role::Key, "attn_k"),
            (Role::Value, "attn_v"),
            (Role::AttentionOutput, "attn_output"),
            (Role::Gate, "ffn_gate"),
            (Role::Up, "ffn_up"),
            (Role::Down, "ffn_down"),
        ]
        .map(move |(role, name)| (layer, role, format!("blk.{layer}.{name}.weight")))
    };
    let head = (0, Role::Head, "output.weight".to_owned());
    let embedding = (0, Role::Embedding, "token_embd.weight".to_owned());
    (0..layers).flat_map(of_layer).chain([embedding]).chain((!tied).then_some(head)).collect()
}

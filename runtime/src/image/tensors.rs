//! The tensor directory: which weights lie where.
//!
//! Records come in one fixed order, that of reading: for each layer its roles, then the output norm, the embedding and,
//! if it is separate, the head. So a record is found by arithmetic and checked by comparing its role.

use pocket_kernels::weights::{Format, Weights};

use super::layout::{ALIGN, FORMAT_F32, TensorRecord};
use crate::config::{Config, Group};
use crate::error::ImageError;

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names are the field's own")]
pub enum Role {
    AttentionNorm = 1,
    Query = 2,
    Key = 3,
    Value = 4,
    QueryNorm = 5,
    KeyNorm = 6,
    AttentionOutput = 7,
    FfnNorm = 8,
    Gate = 9,
    Up = 10,
    Down = 11,
    OutputNorm = 12,
    Embedding = 13,
    Head = 14,
}

impl Role {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AttentionNorm => "attention norm",
            Self::Query => "query",
            Self::Key => "key",
            Self::Value => "value",
            Self::QueryNorm => "query norm",
            Self::KeyNorm => "key norm",
            Self::AttentionOutput => "attention output",
            Self::FfnNorm => "ffn norm",
            Self::Gate => "gate",
            Self::Up => "up",
            Self::Down => "down",
            Self::OutputNorm => "output norm",
            Self::Embedding => "embedding",
            Self::Head => "head",
        }
    }
}

/// What a model's configuration asks of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its role.
    pub role: Role,
    /// Output elements.
    pub rows: u32,
    /// Input elements; 1 for a vector.
    pub columns: u32,
    /// The quantisation group of a matrix; `None` for a vector of f32. An embedding apart from the head takes either.
    pub group: Option<Group>,
}

const LAYER_ROLES: [Role; 11] = [
    Role::AttentionNorm,
    Role::Query,
    Role::Key,
    Role::Value,
    Role::QueryNorm,
    Role::KeyNorm,
    Role::AttentionOutput,
    Role::FfnNorm,
    Role::Gate,
    Role::Up,
    Role::Down,
];

/// The roles of a model's directory: those of a layer, and those after the layers.
pub fn roles(config: &Config) -> (impl Iterator<Item = Role> + use<>, impl Iterator<Item = Role> + use<>) {
    let (qk_norm, tied) = (config.qk_norm, config.tied);
    let layer = LAYER_ROLES.into_iter().filter(move |role| qk_norm || !matches!(role, Role::QueryNorm | Role::KeyNorm));
    let last =
        [Role::OutputNorm, Role::Embedding, Role::Head].into_iter().filter(move |role| !tied || *role != Role::Head);
    (layer, last)
}

impl Config {
    /// Shape and group of the tensor with this role.
    #[must_use]
    pub fn wanted(&self, role: Role) -> Wanted {
        let [q, kv] = [self.heads, self.kv_heads].map(|heads| heads.saturating_mul(self.head_dim));
        let groups = &self.groups;
        let vector = |rows| (rows, 1, None);
        let (rows, columns, group) = match role {
            Role::AttentionNorm | Role::FfnNorm | Role::OutputNorm => vector(self.hidden),
            Role::QueryNorm | Role::KeyNorm => vector(self.head_dim),
            Role::Query => (q, self.hidden, Some(groups.qkv)),
            Role::Key | Role::Value => (kv, self.hidden, Some(groups.qkv)),
            Role::AttentionOutput => (self.hidden, q, Some(groups.attention_output)),
            Role::Gate | Role::Up => (self.ffn, self.hidden, Some(groups.gate_up)),
            Role::Down => (self.hidden, self.ffn, Some(groups.down)),
            Role::Embedding | Role::Head => (self.vocabulary, self.hidden, Some(groups.head)),
        };
        Wanted { role, rows, columns, group }
    }
}

/// The matrices and norms of one layer.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are the field's own")]
pub struct LayerWeights<'a> {
    pub attention_norm: &'a [f32],
    pub query: Weights<'a>,
    pub key: Weights<'a>,
    pub value: Weights<'a>,
    pub query_norm: Option<&'a [f32]>,
    pub key_norm: Option<&'a [f32]>,
    pub attention_output: Weights<'a>,
    pub ffn_norm: &'a [f32],
    pub gate: Weights<'a>,
    pub up: Weights<'a>,
    pub down: Weights<'a>,
}

/// The weights outside the layers.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are the field's own")]
pub struct ModelWeights<'a> {
    pub output_norm: &'a [f32],
    pub embedding: Weights<'a>,
    pub head: Weights<'a>,
}

/// The checked directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directory<'a> {
    records: &'a [TensorRecord],
    weights: &'a [u8],
    per_layer: usize,
    model: ModelWeights<'a>,
    qk_norm: bool,
}

impl<'a> Directory<'a> {
    /// Checks every record against the configuration and the bounds of the weights section.
    pub(super) fn open(config: &Config, records: &'a [TensorRecord], weights: &'a [u8]) -> Result<Self, ImageError> {
        let (layer_roles, last_roles) = roles(config);
        let per_layer = layer_roles.count();
        let mut index = 0_usize;
        let mut next = |layer: u32, role: Role| {
            let found = index;
            index = index.saturating_add(1);
            match records.get(found) {
                Some(record) if fits(config, record, layer, role, weights) => Ok(record),
                _ => Err(ImageError::Tensor { index: found as u32 }),
            }
        };
        for layer in 0..config.layers {
            for role in roles(config).0 {
                next(layer, role)?;
            }
        }
        let mut last = [None; 3];
        for (slot, role) in last.iter_mut().zip(last_roles) {
            *slot = Some(next(0, role)?);
        }
        if records.len() != index {
            return Err(ImageError::Tensor { index: index as u32 });
        }
        let broken = ImageError::Tensor { index: index as u32 };
        let [Some(norm), Some(embedding), head] = last else { return Err(broken) };
        let model = ModelWeights {
            output_norm: vector(weights, norm).ok_or(broken)?,
            embedding: matrix(weights, embedding).ok_or(broken)?,
            head: matrix(weights, head.unwrap_or(embedding)).ok_or(broken)?,
        };
        Ok(Self { records, weights, per_layer, model, qk_norm: config.qk_norm })
    }

    pub(super) fn records(&self) -> &'a [TensorRecord] {
        self.records
    }

    pub(super) fn model(&self) -> ModelWeights<'a> {
        self.model
    }

    pub(super) fn layer(&self, layer: usize) -> Option<LayerWeights<'a>> {
        let start = layer.checked_mul(self.per_layer)?;
        // Behind the last layer come fewer records than a layer has, so there is no layer beyond it.
        let records = self.records.get(start..)?.get(..self.per_layer)?.iter();
        let mut next = InOrder { records, weights: self.weights };
        Some(LayerWeights {
            attention_norm: next.vector()?,
            query: next.matrix()?,
            key: next.matrix()?,
            value: next.matrix()?,
            query_norm: if self.qk_norm { Some(next.vector()?) } else { None },
            key_norm: if self.qk_norm { Some(next.vector()?) } else { None },
            attention_output: next.matrix()?,
            ffn_norm: next.vector()?,
            gate: next.matrix()?,
            up: next.matrix()?,
            down: next.matrix()?,
        })
    }
}

/// Tensors of consecutive records.
struct InOrder<'a> {
    records: core::slice::Iter<'a, TensorRecord>,
    weights: &'a [u8],
}

impl<'a> InOrder<'a> {
    fn vector(&mut self) -> Option<&'a [f32]> {
        vector(self.weights, self.records.next()?)
    }

    fn matrix(&mut self) -> Option<Weights<'a>> {
        matrix(self.weights, self.records.next()?)
    }
}

/// Whether a record is what the configuration wants, and lies inside the weights.
fn fits(config: &Config, record: &TensorRecord, layer: u32, role: Role, weights: &[u8]) -> bool {
    let wanted = config.wanted(role);
    let named = record.role == role as u32 && record.layer == layer && record.reserved == 0;
    let shaped = record.rows == wanted.rows && record.columns == wanted.columns;
    // Only the head multiplies; an embedding apart from it is looked up and may have any group.
    let free_group = role == Role::Embedding && !config.tied;
    let lies_inside = match wanted.group {
        None => record.format == FORMAT_F32 && record.stride == 0 && vector(weights, record).is_some(),
        Some(group) => {
            let grouped = |format: Format| free_group || format.group() == group.columns();
            record.quantisation().is_some_and(grouped) && matrix(weights, record).is_some()
        }
    };
    named && shaped && lies_inside
}

/// A vector of f32 in the weights.
fn vector<'a>(weights: &'a [u8], record: &TensorRecord) -> Option<&'a [f32]> {
    let start = usize::try_from(record.offset).ok()?;
    let bytes = (record.rows as usize).checked_mul(4)?;
    if !start.is_multiple_of(ALIGN) {
        return None;
    }
    bytemuck::try_cast_slice(weights.get(start..)?.get(..bytes)?).ok()
}

/// A matrix in the weights.
fn matrix<'a>(weights: &'a [u8], record: &TensorRecord) -> Option<Weights<'a>> {
    let start = usize::try_from(record.offset).ok()?;
    let stride = usize::try_from(record.stride).ok()?;
    // Tiles are loaded in 32-byte steps at least, so nothing may begin between two.
    if !start.is_multiple_of(ALIGN / 2) || !stride.is_multiple_of(ALIGN / 2) {
        return None;
    }
    Weights::new(record.quantisation()?, record.rows as usize, record.columns as usize, stride, weights.get(start..)?)
}

//! What a GGUF file says about the model: its shape, where its tensors belong, and its rotary embedding.

use pocket_runtime::image::Role;
use pocket_runtime::{Config, Group, Groups};

use super::error::PackError;
use crate::gguf::{Gguf, Tensor};
use crate::printable::printable;

/// A model family that the runtime can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// Rotates neighbouring elements, so query and key rows are permuted.
    Llama,
    /// Norms query and key heads; rotates halves.
    Qwen3,
}

/// A model as its metadata describe it.
pub(super) struct Architecture {
    family: Family,
    /// The shape. Groups are still those of 32 columns.
    pub(super) config: Config,
    /// Inverse frequencies of the rotary embedding.
    pub(super) inverse_frequencies: Vec<f64>,
}

/// How the rows of a matrix are put in the runtime's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// As they are.
    Kept,
    /// Per head of this many rows, neighbours become halves: row i comes from 2i, row head_dim/2 + i from 2i + 1.
    Halves(usize),
}

impl RowOrder {
    /// The row of the file that becomes row `row`.
    pub(super) fn source(self, row: usize) -> usize {
        match self {
            Self::Kept => row,
            Self::Halves(head_dim) => {
                let (head, i) = (row / head_dim, row % head_dim);
                let half = head_dim / 2;
                head * head_dim + 2 * (i % half) + i / half
            }
        }
    }
}

/// The name of the tensor with this role.
pub(crate) fn tensor_name(layer: u32, role: Role) -> String {
    let of_layer = |name: &str| format!("blk.{layer}.{name}.weight");
    match role {
        Role::AttentionNorm => of_layer("attn_norm"),
        Role::Query => of_layer("attn_q"),
        Role::Key => of_layer("attn_k"),
        Role::Value => of_layer("attn_v"),
        Role::QueryNorm => of_layer("attn_q_norm"),
        Role::KeyNorm => of_layer("attn_k_norm"),
        Role::AttentionOutput => of_layer("attn_output"),
        Role::FfnNorm => of_layer("ffn_norm"),
        Role::Gate => of_layer("ffn_gate"),
        Role::Up => of_layer("ffn_up"),
        Role::Down => of_layer("ffn_down"),
        Role::OutputNorm => "output_norm.weight".to_owned(),
        Role::Embedding => "token_embd.weight".to_owned(),
        Role::Head => "output.weight".to_owned(),
    }
}

impl Architecture {
    /// Reads the metadata.
    pub(super) fn read(gguf: &Gguf<'_>) -> Result<Self, PackError> {
        let name: &str = gguf.require("general.architecture")?;
        let family = match name {
            "llama" => Family::Llama,
            "qwen3" => Family::Qwen3,
            _ => return Err(PackError::Architecture { name: printable(name) }),
        };
        let key = |field: &str| format!("{name}.{field}");
        let number = |field: &str| gguf.require::<u32>(&key(field));
        let hidden = number("embedding_length")?;
        let heads = number("attention.head_count")?;
        let head_dim = match gguf.optional::<u32>(&key("attention.key_length"))? {
            Some(length) => length,
            None => hidden.checked_div(heads).unwrap_or(0),
        };
        for (field, wanted) in [("attention.value_length", head_dim), ("rope.dimension_count", head_dim)] {
            if let Some(found) = gguf.optional::<u32>(&key(field))?
                && found != wanted
            {
                return Err(PackError::Feature { what: format!("{field} {found} beside heads of {wanted} elements") });
            }
        }
        if gguf.optional::<u32>(&key("expert_count"))?.is_some_and(|experts| experts > 0) {
            return Err(PackError::Feature { what: "a mixture of experts".to_owned() });
        }
        let embedding = tensor(gguf, "token_embd.weight")?;
        let config = Config {
            layers: number("block_count")?,
            hidden,
            heads,
            kv_heads: gguf.optional(&key("attention.head_count_kv"))?.unwrap_or(heads),
            head_dim,
            ffn: number("feed_forward_length")?,
            vocabulary: u32::try_from(embedding.rows()).unwrap_or(u32::MAX),
            context: number("context_length")?,
            rms_eps: gguf.require(&key("attention.layer_norm_rms_epsilon"))?,
            qk_norm: family == Family::Qwen3,
            tied: gguf.tensor("output.weight").is_none(),
            groups: Groups {
                qkv: Group::G32,
                attention_output: Group::G32,
                gate_up: Group::G32,
                down: Group::G32,
                head: Group::G32,
            },
        };
        config.check().map_err(PackError::Config)?;
        let inverse_frequencies = inverse_frequencies(gguf, name, head_dim as usize)?;
        Ok(Self { family, config, inverse_frequencies })
    }

    /// How the rows of the tensor with this role are put in order.
    pub(super) fn row_order(&self, role: Role) -> RowOrder {
        match (self.family, role) {
            (Family::Llama, Role::Query | Role::Key) => RowOrder::Halves(self.config.head_dim as usize),
            _ => RowOrder::Kept,
        }
    }
}

/// The tensor of this name.
pub(super) fn tensor<'a>(gguf: &Gguf<'a>, name: &str) -> Result<Tensor<'a>, PackError> {
    gguf.tensor(name).ok_or_else(|| PackError::MissingTensor { name: name.to_owned() })
}

/// `base^(−2i / head_dim)`, scaled as the file asks. By `libm`, so that every packing machine computes the same.
fn inverse_frequencies(gguf: &Gguf<'_>, architecture: &str, head_dim: usize) -> Result<Vec<f64>, PackError> {
    let key = |field: &str| format!("{architecture}.rope.{field}");
    let base = f64::from(gguf.optional::<f32>(&key("freq_base"))?.unwrap_or(10_000.0));
    let linear = match gguf.optional::<&str>(&key("scaling.type"))? {
        None | Some("none") => 1.0,
        Some("linear") => f64::from(gguf.optional::<f32>(&key("scaling.factor"))?.unwrap_or(1.0)),
        Some(other) => {
            return Err(PackError::Feature { what: format!("rotary scaling of type \"{}\"", printable(other)) });
        }
    };
    let half = head_dim / 2;
    let mut factors = vec![1.0f32; half];
    if let Some(tensor) = gguf.tensor(ROPE_FACTORS) {
        if tensor.elements() != half {
            let found = [tensor.rows(), tensor.cols()];
            return Err(PackError::Shape { name: ROPE_FACTORS.to_owned(), found, wanted: [1, half] });
        }
        crate::quant::dequantize(tensor.kind, tensor.data, &mut factors)
            .map_err(|source| PackError::Decode { name: ROPE_FACTORS.to_owned(), source })?;
    }
    let frequency = |i: usize| libm::pow(base, -(2.0 * i as f64) / head_dim as f64);
    let frequencies: Vec<f64> =
        factors.iter().enumerate().map(|(i, &factor)| frequency(i) / f64::from(factor) / linear).collect();
    if frequencies.iter().any(|f| !f.is_finite()) {
        return Err(PackError::Feature { what: "rotary frequencies that are not finite numbers".to_owned() });
    }
    Ok(frequencies)
}

/// Divisors of the frequencies, in files of models with extended contexts.
pub(super) const ROPE_FACTORS: &str = "rope_freqs.weight";

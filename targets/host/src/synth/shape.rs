//! Shapes of models that people ask about.

use pocket_kernels::weights::Format;
use pocket_runtime::image::{Role, roles};
use pocket_runtime::{Config, Group, Groups};

/// The shape of a model, under a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The name.
    pub name: &'static str,
    /// The shape, with weights of 4 bits in groups of 64.
    pub config: Config,
}

/// All groups of 64 columns, as [`gguf`](super::gguf) writes them.
const WIDE: Groups =
    Groups { qkv: Group::G64, attention_output: Group::G64, gate_up: Group::G64, down: Group::G64, head: Group::G64 };

const fn shape(name: &'static str, [layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary]: [u32; 7]) -> Shape {
    let context = 40_960;
    let (qk_norm, tied, rms_eps) = (true, true, 1e-6);
    let groups = WIDE;
    let config =
        Config { layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary, context, rms_eps, qk_norm, tied, groups };
    Shape { name, config }
}

/// The shapes: layers, hidden size, query heads, KV heads, head size, feed-forward size, vocabulary.
pub const SHAPES: [Shape; 4] = [
    shape("pocket-0.3b", [28, 896, 14, 2, 64, 2560, 65_536]),
    shape("qwen3-0.6b", [28, 1024, 16, 8, 128, 3072, 151_936]),
    shape("qwen3-1.7b", [28, 2048, 16, 8, 128, 6144, 151_936]),
    Shape {
        name: "smollm2-135m",
        config: Config {
            context: 8192,
            qk_norm: false,
            rms_eps: 1e-5,
            ..shape("", [30, 576, 9, 3, 64, 1536, 49_152]).config
        },
    },
];

impl Shape {
    /// The shape of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        SHAPES.into_iter().find(|shape| shape.name == name)
    }
}

/// What the weights of a shape take, in 4 bits and groups of 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Elements of all tensors.
    pub parameters: u64,
    /// Bytes of all layers and the last norm.
    pub layer_bytes: u64,
    /// Bytes of the head, which is also the embedding where these are tied.
    pub head_bytes: u64,
    /// Bytes of all tensors.
    pub bytes: u64,
}

/// Counts the weights of a shape.
#[must_use]
pub fn weights(config: &Config) -> Weights {
    let (layer, last) = roles(config);
    let bytes = |role| {
        let wanted = config.wanted(role);
        match wanted.group {
            Some(_) => {
                u64::from(wanted.rows.div_ceil(16)) * Format::Q4A64.row_group_bytes(wanted.columns as usize) as u64
            }
            None => 4 * u64::from(wanted.rows),
        }
    };
    let elements = |role| {
        let wanted = config.wanted(role);
        u64::from(wanted.rows) * u64::from(wanted.columns)
    };
    let layers = u64::from(config.layers);
    let (layer, last): (Vec<Role>, Vec<Role>) = (layer.collect(), last.collect());
    let sum = |count: &dyn Fn(Role) -> u64| {
        layers * layer.iter().map(|&role| count(role)).sum::<u64>() + last.iter().map(|&role| count(role)).sum::<u64>()
    };
    let (head_bytes, bytes) = (bytes(Role::Embedding), sum(&bytes));
    // An embedding apart from the head is not read but for a row.
    let apart = if config.tied { 0 } else { head_bytes };
    Weights { parameters: sum(&elements), layer_bytes: bytes - head_bytes - apart, head_bytes, bytes }
}

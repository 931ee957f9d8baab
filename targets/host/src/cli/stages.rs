//! Where the time of a batch goes: every stage alone, for all layers, on one worker.
//!
//! The sum is less than a batch takes: between stages there is bookkeeping, and a stage that follows another finds less of
//! its memory in the caches than one that follows itself.

use std::time::Instant;

use anyhow::Result;
use pocket_kernels::Kernels;
use pocket_kernels::ahead::Ahead;
use pocket_kernels::attention::{Attend, Join, Queries, chunks, partial_len};
use pocket_kernels::cache::{HeadCache, HeadCacheMut, KeysValues, StoreHead};
use pocket_kernels::matmul::{Matmul, Then};
use pocket_kernels::norm::{Norm, NormQuantize};
use pocket_kernels::panel::Panel;
use pocket_kernels::quantize::{Activations, ActivationsMut, Quantize};
use pocket_kernels::rope::{HeadTurn, TurnQueries, rotation};
use pocket_kernels::tile::{Block32, Block64};
use pocket_kernels::weights::Weights;
use pocket_runtime::image::LayerWeights;
use pocket_runtime::{CacheType, Group, Image};
use serde::Serialize;

use crate::isa::WithKernels;

/// The best of so many tries.
const TRIES: usize = 3;

/// A batch whose stages are measured.
pub(super) struct Stages<'a> {
    pub(super) image: &'a Image<'a>,
    pub(super) cache: CacheType,
    /// Tokens of the batch.
    pub(super) tokens: usize,
    /// Positions that the cache holds before it.
    pub(super) depth: usize,
}

/// A stage of all layers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) us_per_token: f64,
    /// Bytes of weights that it reads.
    pub(super) weight_bytes: u64,
    /// Multiplications of the batch.
    pub(super) macs: u64,
}

/// Quantised activations of a batch.
enum Blocks {
    G32(Vec<Block32>),
    G64(Vec<Block64>),
}

impl Blocks {
    /// Room for `tokens` rows of `width` elements.
    fn new(group: Group, tokens: usize, width: usize) -> Self {
        let blocks = tokens * width.div_ceil(group.columns());
        match group {
            Group::G32 => Self::G32(vec![bytemuck::Zeroable::zeroed(); blocks]),
            Group::G64 => Self::G64(vec![bytemuck::Zeroable::zeroed(); blocks]),
        }
    }

    fn activations(&self) -> Activations<'_> {
        match self {
            Self::G32(blocks) => Activations::G32(blocks),
            Self::G64(blocks) => Activations::G64(blocks),
        }
    }

    /// Room for every one of `tokens` tokens.
    fn rows(&mut self, tokens: usize) -> Vec<ActivationsMut<'_>> {
        match self {
            Self::G32(blocks) => {
                let per_token = blocks.len() / tokens;
                blocks.chunks_mut(per_token).map(ActivationsMut::G32).collect()
            }
            Self::G64(blocks) => {
                let per_token = blocks.len() / tokens;
                blocks.chunks_mut(per_token).map(ActivationsMut::G64).collect()
            }
        }
    }
}

/// Elements without a pattern, of the size of hidden states.
fn floats(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 8.4e6 - 1.0).collect()
}

impl WithKernels for Stages<'_> {
    type Out = Result<Vec<Stage>>;

    fn with<K: Kernels>(self, kernels: K) -> Self::Out {
        let Self { image, cache: kind, tokens, depth } = self;
        let config = *image.config();
        let [hidden, ffn, head_dim] = [config.hidden, config.ffn, config.head_dim].map(|n| n as usize);
        let (q_dim, kv_dim, kv_heads) = (config.q_dim(), config.kv_dim(), config.kv_heads as usize);
        let group = config.heads_per_kv();
        let layers: Vec<LayerWeights<'_>> = (0..config.layers as usize).filter_map(|i| image.layer(i)).collect();
        let norm = |weight| Norm { weight, eps: config.rms_eps };

        let positions = (depth + tokens).next_multiple_of(16);
        let head_bytes = kind.head_bytes(head_dim, positions);
        let mut cache = vec![0u32; (layers.len() * kv_heads * head_bytes).div_ceil(4)];
        let cache: &mut [u8] = bytemuck::cast_slice_mut(&mut cache);
        let mut rotations = vec![0.0; tokens * head_dim];
        for (token, out) in rotations.chunks_mut(head_dim).enumerate() {
            rotation(depth + token, image.inverse_frequencies(), out);
        }
        let x = floats(tokens * hidden);
        let (mut queries, keys, values) = (floats(tokens * q_dim), floats(tokens * kv_dim), floats(tokens * kv_dim));
        let mut gated = floats(tokens * ffn);
        let mut out = vec![0.0; tokens * hidden.max(q_dim)];
        let mut partials = vec![0.0; chunks(positions) * group * partial_len(head_dim)];
        let mut of_hidden = Blocks::new(config.groups.qkv, tokens, hidden);
        let mut of_ffn_input = Blocks::new(config.groups.gate_up, tokens, hidden);
        let mut of_queries = Blocks::new(config.groups.attention_output, tokens, q_dim);
        let mut of_gated = Blocks::new(config.groups.down, tokens, ffn);
        let mut of_head = Blocks::new(config.groups.head, 1, hidden);

        let mut stages = Vec::new();
        let mut stage = |name, weight_bytes: usize, macs: usize, work: &mut dyn FnMut()| {
            let tries = (0..TRIES).map(|_| {
                let begin = Instant::now();
                work();
                begin.elapsed().as_secs_f64()
            });
            let seconds = tries.fold(f64::INFINITY, f64::min);
            let us_per_token = seconds * 1e6 / tokens as f64;
            stages.push(Stage { name, us_per_token, weight_bytes: weight_bytes as u64, macs: macs as u64 });
        };
        let normed = |weight, blocks: &mut Blocks| {
            for (x, out) in x.chunks(hidden).zip(blocks.rows(tokens)) {
                kernels.enter(NormQuantize { norm: norm(weight), x, out });
            }
        };
        let quantised = |x: &[f32], blocks: &mut Blocks| {
            for (x, out) in x.chunks(x.len() / tokens).zip(blocks.rows(tokens)) {
                kernels.enter(Quantize { x, out });
            }
        };
        let product = |weights: Weights<'_>, x: &Blocks, then: Then<'_>, out: &mut [f32]| {
            let out = Panel::whole(&mut out[..tokens * weights.rows()], weights.rows());
            kernels.matmul(Matmul { weights, x: x.activations(), row_group: 0, then, out });
        };
        let sum = |of: &dyn Fn(&LayerWeights<'_>) -> usize| layers.iter().map(of).sum::<usize>();
        let macs = |rows: usize, columns: usize| layers.len() * tokens * rows * columns;

        stage("norm, quantise", 0, 0, &mut || {
            for layer in &layers {
                normed(layer.attention_norm, &mut of_hidden);
                normed(layer.ffn_norm, &mut of_ffn_input);
                quantised(&queries, &mut of_queries);
                quantised(&gated, &mut of_gated);
            }
        });
        let bytes = sum(&|layer| layer.query.bytes() + layer.key.bytes() + layer.value.bytes());
        stage("query, key, value", bytes, macs(q_dim + 2 * kv_dim, hidden), &mut || {
            for layer in &layers {
                for weights in [layer.query, layer.key, layer.value] {
                    product(weights, &of_hidden, Then::Store, &mut out);
                }
            }
        });
        stage("rotate, store", 0, 0, &mut || {
            for (layer, cache) in layers.iter().zip(cache.chunks_mut(kv_heads * head_bytes)) {
                let turn = |weight: Option<_>| HeadTurn { norm: weight.map(norm), rotations: &rotations, head_dim };
                let panel = Panel::whole(&mut queries, q_dim);
                kernels.enter(TurnQueries { turn: turn(layer.query_norm), queries: panel });
                let rows = KeysValues { keys: &keys, values: &values, width: kv_dim };
                for (head, cache) in cache.chunks_mut(head_bytes).enumerate() {
                    if let Some(cache) = HeadCacheMut::new(kind, head_dim, positions, cache) {
                        let turn = turn(layer.key_norm);
                        kernels.enter(StoreHead { turn, rows, head, position: depth, cache });
                    }
                }
            }
        });
        let seen: usize = (1..=tokens).map(|token| depth + token).sum();
        stage("attention", 0, 2 * layers.len() * seen * q_dim, &mut || {
            for cache in cache.chunks(kv_heads * head_bytes) {
                for (token, queries) in queries.chunks(q_dim).enumerate() {
                    for ((head, heads), out) in
                        queries.chunks(group * head_dim).enumerate().zip(out.chunks_mut(group * head_dim))
                    {
                        let data = &cache[head * head_bytes..(head + 1) * head_bytes];
                        let Some(cache) = HeadCache::new(kind, head_dim, positions, data) else { continue };
                        let positions = depth + token + 1;
                        let queries = Queries { heads, head_dim, positions };
                        let piece = group * partial_len(head_dim);
                        let partials = &mut partials[..chunks(positions) * piece];
                        for (chunk, partials) in partials.chunks_mut(piece).enumerate() {
                            kernels.enter(Attend { queries, cache, chunk, ahead: Ahead::default(), partials });
                        }
                        kernels.enter(Join { partials, head_dim, out });
                    }
                }
            }
        });
        let bytes = sum(&|layer| layer.attention_output.bytes());
        stage("attention output", bytes, macs(hidden, q_dim), &mut || {
            layers.iter().for_each(|layer| product(layer.attention_output, &of_queries, Then::Add, &mut out));
        });
        let bytes = sum(&|layer| layer.gate.bytes() + layer.up.bytes());
        stage("gate, up", bytes, macs(2 * ffn, hidden), &mut || {
            layers.iter().for_each(|layer| product(layer.gate, &of_ffn_input, Then::SwiGlu(layer.up), &mut gated));
        });
        let bytes = sum(&|layer| layer.down.bytes());
        stage("down", bytes, macs(hidden, ffn), &mut || {
            layers.iter().for_each(|layer| product(layer.down, &of_gated, Then::Add, &mut out));
        });
        // Logits are computed for one token of a batch.
        let head = image.weights().head;
        let mut logits = vec![0.0; head.rows()];
        stage("head", head.bytes(), head.rows() * hidden, &mut || {
            for out in of_head.rows(1) {
                kernels.enter(NormQuantize { norm: norm(image.weights().output_norm), x: &x[..hidden], out });
            }
            let out = Panel::whole(&mut logits, head.rows());
            let x = of_head.activations();
            kernels.matmul(Matmul { weights: head, x, row_group: 0, then: Then::Store, out });
        });
        Ok(stages)
    }
}

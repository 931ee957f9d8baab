//! The model as a file describes it: sizes and weights.
//!
//! `qwen3` has a norm on each head's query and key and rotates the two halves of a head
//! against each other. `llama` files have the rows of query and key permuted, so there
//! neighbouring elements are rotated against each other.

use anyhow::{Result, bail, ensure};

use super::file::{File, Matrix};

/// Sizes and constants.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) layers: usize,
    pub(super) hidden: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) ffn: usize,
    pub(super) vocabulary: usize,
    pub(super) eps: f64,
    pub(super) rope_base: f64,
    pub(super) rope_dims: usize,
    pub(super) rope_neighbours: bool,
}

/// Weights of one layer.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: Vec<f32>,
    pub(super) q: Matrix,
    pub(super) k: Matrix,
    pub(super) v: Matrix,
    pub(super) qk_norm: Option<[Vec<f32>; 2]>,
    pub(super) attention_out: Matrix,
    pub(super) ffn_norm: Vec<f32>,
    pub(super) gate: Matrix,
    pub(super) up: Matrix,
    pub(super) down: Matrix,
}

/// A model ready to compute logits.
#[derive(Debug)]
pub struct Reference {
    pub(super) config: Config,
    pub(super) embedding: Matrix,
    pub(super) layers: Vec<Layer>,
    pub(super) output_norm: Vec<f32>,
    pub(super) output: Matrix,
}

impl Reference {
    /// Takes a model from the bytes of a GGUF file of architecture `qwen3` or `llama`
    /// with weights in F32, F16, Q4_0, Q4_1 or Q8_0.
    ///
    /// # Errors
    /// A sentence if the file is of another kind or lacks something.
    pub fn open(bytes: &[u8]) -> Result<Self> {
        let file = File::parse(bytes)?;
        let config = Config::read(&file)?;
        ensure!(!file.has("rope_freqs.weight"), "the reference doesn't scale rotary frequencies");
        let embedding = file.matrix("token_embd.weight", config.vocabulary, config.hidden)?;
        let output = if file.has("output.weight") {
            file.matrix("output.weight", config.vocabulary, config.hidden)?
        } else {
            embedding.clone()
        };
        Ok(Self {
            layers: (0..config.layers).map(|layer| Layer::read(&file, &config, layer)).collect::<Result<_>>()?,
            output_norm: file.vector("output_norm.weight", config.hidden)?,
            config,
            embedding,
            output,
        })
    }

    /// How many tokens the model knows.
    pub fn vocabulary(&self) -> usize {
        self.config.vocabulary
    }
}

impl Config {
    /// Reads the sizes from the metadata.
    fn read(file: &File<'_>) -> Result<Self> {
        let architecture = file.text("general.architecture")?;
        let rope_neighbours = match architecture {
            "llama" => true,
            "qwen3" => false,
            _ => bail!("the reference doesn't know the architecture {architecture}"),
        };
        let key = |name: &str| format!("{architecture}.{name}");
        let hidden = file.size(&key("embedding_length"))?;
        let heads = file.size(&key("attention.head_count"))?;
        let or = |name: &str, default: usize| -> Result<usize> {
            Ok(file.number(&key(name))?.map_or(default, |number| number as usize))
        };
        let head_dim = or("attention.key_length", hidden / heads)?;
        let kv_heads = or("attention.head_count_kv", heads)?;
        ensure!(
            or("attention.value_length", head_dim)? == head_dim,
            "the reference wants keys and values of one length"
        );
        ensure!(heads.is_multiple_of(kv_heads), "{heads} heads do not share {kv_heads} KV heads evenly");
        Ok(Self {
            layers: file.size(&key("block_count"))?,
            hidden,
            heads,
            kv_heads,
            head_dim,
            ffn: file.size(&key("feed_forward_length"))?,
            vocabulary: file.rows("token_embd.weight")?,
            eps: file.number(&key("attention.layer_norm_rms_epsilon"))?.unwrap_or(1e-5),
            rope_base: file.number(&key("rope.freq_base"))?.unwrap_or(10000.0),
            rope_dims: or("rope.dimension_count", head_dim)?,
            rope_neighbours,
        })
    }
}

impl Layer {
    /// Reads the weights of layer `index`.
    fn read(file: &File<'_>, c: &Config, index: usize) -> Result<Self> {
        let name = |part: &str| format!("blk.{index}.{part}.weight");
        let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        let qk_norm = if file.has(&name("attn_q_norm")) {
            Some([file.vector(&name("attn_q_norm"), c.head_dim)?, file.vector(&name("attn_k_norm"), c.head_dim)?])
        } else {
            None
        };
        Ok(Self {
            attention_norm: file.vector(&name("attn_norm"), c.hidden)?,
            q: file.matrix(&name("attn_q"), q, c.hidden)?,
            k: file.matrix(&name("attn_k"), kv, c.hidden)?,
            v: file.matrix(&name("attn_v"), kv, c.hidden)?,
            qk_norm,
            attention_out: file.matrix(&name("attn_output"), c.hidden, q)?,
            ffn_norm: file.vector(&name("ffn_norm"), c.hidden)?,
            gate: file.matrix(&name("ffn_gate"), c.ffn, c.hidden)?,
            up: file.matrix(&name("ffn_up"), c.ffn, c.hidden)?,
            down: file.matrix(&name("ffn_down"), c.hidden, c.ffn)?,
        })
    }
}

//! Models with the exact shape of another and random weights: speed and memory depend on nothing else, so hardware can
//! be judged before there are weights.
//!
//! The model is made as a GGUF file in memory, which is then packed like any other: nothing about it is special.

mod file;
mod shape;
mod vocabulary;

pub use shape::{SHAPES, Shape, Weights, weights};

use half::f16;
use pocket_runtime::Config;
use pocket_runtime::image::{Role, Wanted, roles};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::gguf::TensorType;
use crate::pack::tensor_name;
use file::{File, Setting};
use vocabulary::{CONTROL, LEAST, MOST, Vocabulary};

/// The frequency base of the rotary embedding.
const ROPE_BASE: f32 = 1e6;
/// Elements in a block of Q4_1.
const BLOCK: usize = 32;

/// A shape that no file can be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SynthError {
    /// The kernels cannot run it.
    #[error("{0}")]
    Config(pocket_runtime::ConfigError),
    /// A vocabulary without all bytes, or larger than all that is made of three.
    #[error("a vocabulary of {0} tokens cannot be made; {LEAST} to {MOST} can")]
    Vocabulary(u32),
    /// A matrix whose rows do not divide into groups.
    #[error("{}: rows of {columns} elements do not divide into groups of 64", .role.name())]
    Columns {
        /// Which matrix.
        role: Role,
        /// Elements of its rows.
        columns: u32,
    },
}

/// A GGUF file of this shape: Q4_1 in pairs of blocks that share scale and minimum, as 4-bit codes in groups of 64 are
/// published. The same seed gives the same file.
///
/// # Errors
/// [`SynthError`] for a shape that cannot be.
pub fn gguf(name: &str, config: &Config, seed: u64) -> Result<Vec<u8>, SynthError> {
    config.check().map_err(SynthError::Config)?;
    let size = config.vocabulary as usize;
    if !(LEAST..=MOST).contains(&size) {
        return Err(SynthError::Vocabulary(config.vocabulary));
    }
    let (layer, last) = roles(config);
    let layer: Vec<Role> = layer.collect();
    let of_layers = (0..config.layers).flat_map(|index| layer.iter().map(move |&role| (index, role)));
    let tensors: Vec<(u32, Role)> = of_layers.chain(last.map(|role| (0, role))).collect();
    for Wanted { role, columns, group, .. } in tensors.iter().map(|&(_, role)| config.wanted(role)) {
        if group.is_some() && columns % 64 != 0 {
            return Err(SynthError::Columns { role, columns });
        }
    }

    let mut file = File::new();
    settings(&mut file, name, config);
    for &(layer, role) in &tensors {
        let Wanted { rows, columns, group, .. } = config.wanted(role);
        let (shape, kind): (&[u32], _) = match group {
            Some(_) => (&[columns, rows], TensorType::Q4_1),
            None => (&[rows], TensorType::F32),
        };
        file.tensor(&tensor_name(layer, role), shape, kind);
    }
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut out = file.finish();
    for &(_, role) in &tensors {
        let Wanted { rows, columns, group, .. } = config.wanted(role);
        match group {
            Some(_) => matrix(&mut out, &mut random, rows as usize * columns as usize),
            None => (0..rows).for_each(|_| out.extend_from_slice(&1.0f32.to_le_bytes())),
        }
        file::pad(&mut out);
    }
    Ok(out)
}

/// What a reader of the file is told about it.
fn settings(file: &mut File, name: &str, config: &Config) {
    let architecture = if config.qk_norm { "qwen3" } else { "llama" };
    file.set("general.architecture", Setting::Text(architecture));
    file.set("general.name", Setting::Text(&format!("{name}, random weights")));
    for (key, value) in [
        ("block_count", config.layers),
        ("context_length", config.context),
        ("embedding_length", config.hidden),
        ("feed_forward_length", config.ffn),
        ("attention.head_count", config.heads),
        ("attention.head_count_kv", config.kv_heads),
        ("attention.key_length", config.head_dim),
        ("attention.value_length", config.head_dim),
    ] {
        file.set(&format!("{architecture}.{key}"), Setting::Number(value));
    }
    for (key, value) in [("attention.layer_norm_rms_epsilon", config.rms_eps), ("rope.freq_base", ROPE_BASE)] {
        file.set(&format!("{architecture}.{key}"), Setting::Real(value));
    }
    let Vocabulary { tokens, merges } = Vocabulary::new(config.vocabulary as usize);
    let control = tokens.len() - CONTROL.len();
    // Normal tokens have kind 1, control tokens kind 3.
    let kinds: Vec<i32> = (0..tokens.len()).map(|id| if id < control { 1 } else { 3 }).collect();
    file.set("tokenizer.ggml.model", Setting::Text("gpt2"));
    file.set("tokenizer.ggml.pre", Setting::Text("qwen2"));
    file.set("tokenizer.ggml.tokens", Setting::Texts(&tokens));
    file.set("tokenizer.ggml.token_type", Setting::Numbers(&kinds));
    file.set("tokenizer.ggml.merges", Setting::Texts(&merges));
    file.set("tokenizer.ggml.eos_token_id", Setting::Number(config.vocabulary - 1));
    let [start, end] = CONTROL;
    file.set(
        "tokenizer.chat_template",
        Setting::Text(&format!(
            "{{% for m in messages %}}{start}{{{{ m.role }}}}\n{{{{ m.content }}}}{end}\n{{% endfor %}}\
             {{% if add_generation_prompt %}}{start}assistant\n{{% endif %}}"
        )),
    );
}

/// Random codes; scales for a standard deviation of about 0.02, and minima that centre them.
fn matrix(out: &mut Vec<u8>, random: &mut Pcg64Mcg, elements: usize) {
    /// Standard deviation of the codes 0..=15.
    const SPREAD: f32 = 4.6;
    for _ in 0..elements / (2 * BLOCK) {
        let draw = random.next_u32() as f32 / u32::MAX as f32;
        let scale = f16::from_f32(0.02 / SPREAD * (0.7 + 0.6 * draw));
        let minimum = f16::from_f32(-7.5 * scale.to_f32());
        for _ in 0..2 {
            let mut codes = [0; BLOCK / 2];
            random.fill_bytes(&mut codes);
            out.extend_from_slice(&scale.to_le_bytes());
            out.extend_from_slice(&minimum.to_le_bytes());
            out.extend_from_slice(&codes);
        }
    }
}

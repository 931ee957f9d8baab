//! The forward pass.
//!
//! ```text
//! hidden = embedding[token]
//! for each layer:
//!     hidden += output · attention(rope(norm(q)), rope(norm(k)), v),   q, k, v = projections of norm(hidden)
//!     hidden += down · (silu(gate · norm(hidden)) · (up · norm(hidden)))
//! logits = head · norm(hidden)
//! ```
//!
//! Tokens of a batch are rows; a stage is done for all of them before the next begins.

mod attention;
mod ffn;
mod head;
mod stage;

pub(crate) use stage::{Machine, Stop};

use pocket_kernels::Kernels;
use pocket_kernels::embed::EmbedRow;
use pocket_kernels::rope::rotation;

use crate::image::Image;
use crate::plan::Plan;
use crate::workers::Workers;

/// What a batch is computed with and in.
pub(crate) struct Batch<'s> {
    /// Position of the first token.
    pub(crate) position: usize,
    /// How many tokens.
    pub(crate) tokens: usize,
    /// The residual stream: `[tokens, hidden]`.
    pub(crate) hidden: &'s mut [f32],
    /// Rotations: `[tokens, head_dim]`.
    pub(crate) rotations: &'s mut [f32],
    /// The attention cache of all layers.
    pub(crate) cache: &'s mut [u8],
    /// Scratch of the phases.
    pub(crate) scratch: &'s mut [u8],
}

/// Runs a batch through all layers: fills the cache and leaves the hidden states. Between two halves of a layer it looks
/// whether it shall go on.
pub(crate) fn forward<K: Kernels, W: Workers + ?Sized>(
    machine: &Machine<'_, K, W>,
    image: &Image<'_>,
    plan: &Plan,
    ids: &[u32],
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let config = image.config();
    let embedding = image.weights().embedding;
    // No dimension of a model is 0; said here, no cut into rows has to check it.
    let (width, head_dim) = ((config.hidden as usize).max(1), (config.head_dim as usize).max(1));
    for (&id, out) in ids.iter().zip(batch.hidden.chunks_exact_mut(width)) {
        machine.kernels.enter(EmbedRow { weights: embedding, row: id as usize, out });
    }
    for (token, out) in batch.rotations.chunks_exact_mut(head_dim).enumerate().take(batch.tokens) {
        rotation(batch.position + token, image.inverse_frequencies(), out);
    }
    for index in 0..config.layers as usize {
        let layer = image.layer(index).ok_or(Stop::NonFinite)?;
        machine.check()?;
        Stop::unless(attention::attention(machine, plan, (index, &layer), batch))?;
        machine.check()?;
        Stop::unless(ffn::ffn(machine, plan, &layer, batch))?;
    }
    Ok(())
}

pub(crate) use head::head;

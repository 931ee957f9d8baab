//! The feed-forward half of a layer.

use pocket_kernels::Kernels;
use pocket_kernels::matmul::Then;
use pocket_kernels::norm::Norm;

use super::Batch;
use super::stage::{Blocks, Machine, Product};
use crate::image::LayerWeights;
use crate::plan::{Lender, Plan};
use crate::workers::Workers;

/// `hidden += down · (silu(gate · x) · (up · x))` with `x = norm(hidden)`. `false` if a value was not finite.
pub(super) fn ffn<K: Kernels, W: Workers + ?Sized>(
    machine: &Machine<'_, K, W>,
    plan: &Plan,
    layer: &LayerWeights<'_>,
    batch: &mut Batch<'_>,
) -> bool {
    let config = plan.config();
    let tokens = batch.tokens;
    let (width, ffn) = (config.hidden as usize, config.ffn as usize);
    let mut lender = Lender::new(batch.scratch, plan.scratch_offset());
    let block_bytes = lender.lend(plan.ffn.blocks);
    let gated = lender.lend(plan.ffn.gated).get_mut(..tokens * ffn);
    let gated_bytes = lender.lend(plan.ffn.gated_blocks);
    let (Some(gated), Some(hidden)) = (gated, batch.hidden.get_mut(..tokens * width)) else { return false };

    let norm = Norm { weight: layer.ffn_norm, eps: config.rms_eps };
    let mut blocks = Blocks::new(block_bytes, config.groups.gate_up, tokens, width);
    let mut finite = machine.quantize(Some(norm), hidden, width, &mut blocks);
    machine.multiply(&blocks, tokens, [Product { weights: layer.gate, then: Then::SwiGlu(layer.up), out: gated }]);

    let mut blocks = Blocks::new(gated_bytes, config.groups.down, tokens, ffn);
    finite &= machine.quantize(None, gated, ffn, &mut blocks);
    machine.multiply(&blocks, tokens, [Product { weights: layer.down, then: Then::Add, out: hidden }]);
    finite
}

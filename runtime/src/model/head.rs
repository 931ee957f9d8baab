//! From a hidden state to logits.

use pocket_kernels::Kernels;
use pocket_kernels::matmul::Then;
use pocket_kernels::norm::Norm;

use super::stage::{Blocks, Machine, Product, Stop};
use crate::image::Image;
use crate::plan::{Lender, Plan};
use crate::workers::Workers;

/// `logits = head · norm(hidden)` for one token, if it shall go on.
pub(crate) fn head<K: Kernels, W: Workers + ?Sized>(
    machine: &Machine<'_, K, W>,
    image: &Image<'_>,
    plan: &Plan,
    (hidden, logits): (&[f32], &mut [f32]),
    scratch: &mut [u8],
) -> Result<(), Stop> {
    machine.check()?;
    let weights = image.weights();
    let config = plan.config();
    let width = config.hidden as usize;
    let block_bytes = Lender::new(scratch, plan.scratch_offset()).lend(plan.head.blocks);
    let mut blocks = Blocks::new(block_bytes, config.groups.head, 1, width);
    let norm = Norm { weight: weights.output_norm, eps: config.rms_eps };
    let finite = machine.quantize(Some(norm), hidden, width, &mut blocks);
    machine.multiply(&blocks, 1, [Product { weights: weights.head, then: Then::Store, out: logits }]);
    Stop::unless(finite)
}

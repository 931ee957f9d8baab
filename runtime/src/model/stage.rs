//! Stages: work on a whole batch, shared among the workers.

use core::sync::atomic::{AtomicBool, Ordering};

use pocket_kernels::Kernels;
use pocket_kernels::lanes::WIDTH;
use pocket_kernels::matmul::{Matmul, Then};
use pocket_kernels::norm::{Norm, NormQuantize};
use pocket_kernels::panel::Panels;
use pocket_kernels::quantize::{Activations, ActivationsMut, Quantize};
use pocket_kernels::weights::Weights;

use crate::config::Group;
use crate::workers::Workers;

/// Kernels and the workers that run them.
pub(crate) struct Machine<'m, K, W: ?Sized> {
    pub(crate) kernels: K,
    pub(crate) workers: &'m W,
    /// Ends a step between two stages.
    pub(crate) cancel: Option<&'m AtomicBool>,
}

/// Why a batch was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A value was not finite.
    NonFinite,
    /// Somebody cancelled it.
    Cancelled,
}

impl Stop {
    /// Of a stage that says whether its values were finite.
    pub(super) fn unless(finite: bool) -> Result<(), Self> {
        if finite { Ok(()) } else { Err(Self::NonFinite) }
    }
}

/// Quantised activations of a batch as bytes, and how to read them.
pub(super) struct Blocks<'s> {
    bytes: &'s mut [u8],
    group: Group,
    per_token: usize,
}

impl<'s> Blocks<'s> {
    /// Room for `tokens` rows of `width` elements at the start of `bytes`.
    pub(super) fn new(bytes: &'s mut [u8], group: Group, tokens: usize, width: usize) -> Self {
        let per_token = group.row_bytes(width).unwrap_or(0);
        let len = (per_token * tokens).min(bytes.len());
        Self { bytes: &mut bytes[..len], group, per_token }
    }

    /// The activations, for products.
    pub(super) fn activations(&self) -> Activations<'_> {
        match self.group {
            Group::G32 => Activations::G32(bytemuck::try_cast_slice(self.bytes).unwrap_or(&[])),
            Group::G64 => Activations::G64(bytemuck::try_cast_slice(self.bytes).unwrap_or(&[])),
        }
    }
}

/// One token's blocks, for filling.
fn writable(group: Group, bytes: &mut [u8]) -> ActivationsMut<'_> {
    match group {
        Group::G32 => ActivationsMut::G32(bytemuck::try_cast_slice_mut(bytes).unwrap_or(&mut [])),
        Group::G64 => ActivationsMut::G64(bytemuck::try_cast_slice_mut(bytes).unwrap_or(&mut [])),
    }
}

/// A matrix, what becomes of its product, and where that goes.
pub(super) struct Product<'a> {
    pub(super) weights: Weights<'a>,
    pub(super) then: Then<'a>,
    /// `[tokens, rows]`.
    pub(super) out: &'a mut [f32],
}

impl<K: Kernels, W: Workers + ?Sized> Machine<'_, K, W> {
    /// Whether to go on.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) { Err(Stop::Cancelled) } else { Ok(()) }
    }

    /// Runs `job` with its number on every worker, or on the calling thread alone where sharing would cost more than it
    /// saves.
    pub(super) fn share(&self, worth_it: bool, job: impl Fn(usize) + Sync) {
        if worth_it && self.workers.count() > 1 {
            self.workers.run(&job);
        } else {
            job(0);
        }
    }

    /// Normalises (if there is a norm) and quantises every row of `x`. `false` if a value was not finite.
    pub(super) fn quantize(&self, norm: Option<Norm<'_>>, x: &[f32], width: usize, blocks: &mut Blocks<'_>) -> bool {
        let group = blocks.group;
        let several = blocks.bytes.len() > blocks.per_token;
        let rows = Panels::pieces(blocks.bytes, blocks.per_token);
        let finite = AtomicBool::new(true);
        self.share(several, |_| {
            while let Some((token, row)) = rows.claim() {
                let out = writable(group, row.into_row());
                let x = x.get(token * width..(token + 1) * width).unwrap_or(&[]);
                let row_finite = match norm {
                    Some(norm) => self.kernels.enter(NormQuantize { norm, x, out }),
                    None => self.kernels.enter(Quantize { x, out }),
                };
                if !row_finite {
                    finite.store(false, Ordering::Relaxed);
                }
            }
        });
        finite.into_inner()
    }

    /// Multiplies one batch of activations with up to three matrices.
    pub(super) fn multiply<const N: usize>(&self, x: &Blocks<'_>, tokens: usize, products: [Product<'_>; N]) {
        let x = x.activations();
        let workers = self.workers.count().max(1);
        let products = products.map(|Product { weights, then, out }| {
            // Pieces small enough that cores of different speed end at about the same time.
            let groups =
                if workers == 1 { weights.row_groups() } else { weights.row_groups().div_ceil(workers).div_ceil(8) };
            (weights, then, groups, Panels::columns(out, tokens, groups * WIDTH).shared_by(workers))
        });
        self.share(true, |worker| {
            for (weights, then, groups, panels) in &products {
                while let Some((index, out)) = panels.claim_by(worker) {
                    let job = Matmul { weights: *weights, x, row_group: index * groups, then: *then, out };
                    self.kernels.matmul(job);
                }
            }
        });
    }
}

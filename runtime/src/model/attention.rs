//! The attention half of a layer.

use core::num::NonZero;
use core::sync::atomic::{AtomicBool, Ordering};

use pocket_kernels::Kernels;
use pocket_kernels::ahead::Ahead;
use pocket_kernels::attention::{Attend, CHUNK, Join, Queries, chunks, partial_len};
use pocket_kernels::cache::{HeadCache, HeadCacheMut, KeysValues, StoreHead};
use pocket_kernels::matmul::Then;
use pocket_kernels::norm::Norm;
use pocket_kernels::panel::Panels;
use pocket_kernels::rope::{HeadTurn, TurnQueries};

use super::Batch;
use super::stage::{Blocks, Machine, Product};
use crate::image::LayerWeights;
use crate::plan::{Lender, Plan};
use crate::workers::Workers;

/// `hidden += output · attention(norm(hidden))`. `false` if a value was not finite.
pub(super) fn attention<K: Kernels, W: Workers + ?Sized>(
    machine: &Machine<'_, K, W>,
    plan: &Plan,
    (index, layer): (usize, &LayerWeights<'_>),
    batch: &mut Batch<'_>,
) -> bool {
    let config = plan.config();
    let tokens = batch.tokens;
    let (width, q_dim, kv_dim) = (config.hidden as usize, config.q_dim(), config.kv_dim());
    let regions = &plan.attention;
    let mut lender = Lender::new(batch.scratch, plan.scratch_offset());
    let block_bytes = lender.lend(regions.blocks);
    let queries = lender.lend(regions.queries).get_mut(..tokens * q_dim);
    let keys = lender.lend(regions.keys).get_mut(..tokens * kv_dim);
    let values = lender.lend(regions.values).get_mut(..tokens * kv_dim);
    let partials = lender.lend(regions.partials);
    let hidden = batch.hidden.get_mut(..tokens * width);
    let (Some(queries), Some(keys), Some(values), Some(hidden)) = (queries, keys, values, hidden) else {
        return false;
    };

    let norm = |weight| Norm { weight, eps: config.rms_eps };
    let mut blocks = Blocks::new(block_bytes, config.groups.qkv, tokens, width);
    let mut finite = machine.quantize(Some(norm(layer.attention_norm)), hidden, width, &mut blocks);
    let store = Then::Store;
    machine.multiply(
        &blocks,
        tokens,
        [
            Product { weights: layer.query, then: store, out: queries },
            Product { weights: layer.key, then: store, out: keys },
            Product { weights: layer.value, then: store, out: values },
        ],
    );

    let heads = Heads { plan, position: batch.position, tokens };
    let turn = |weight: Option<_>| HeadTurn {
        norm: weight.map(norm),
        rotations: batch.rotations,
        head_dim: config.head_dim as usize,
    };
    let layer_bytes = plan.layer_cache_bytes();
    let cache = batch.cache.get_mut(index * layer_bytes..(index + 1) * layer_bytes).unwrap_or(&mut []);
    let rows = KeysValues { keys, values, width: kv_dim };
    finite &= heads.turn_and_store(machine, (turn(layer.query_norm), queries), (turn(layer.key_norm), rows), cache);
    finite &= if tokens == 1 {
        heads.attend_token(machine, queries, cache, partials)
    } else {
        heads.attend_batch(machine, queries, cache, partials)
    };

    let mut blocks = Blocks::new(block_bytes, config.groups.attention_output, tokens, q_dim);
    finite &= machine.quantize(None, queries, q_dim, &mut blocks);
    machine.multiply(&blocks, tokens, [Product { weights: layer.attention_output, then: Then::Add, out: hidden }]);
    finite
}

/// The heads of a batch.
struct Heads<'a> {
    plan: &'a Plan,
    position: usize,
    tokens: usize,
}

impl Heads<'_> {
    /// Norms and rotates queries in place, and keys on their way into the cache, to which values go too.
    fn turn_and_store<K: Kernels, W: Workers + ?Sized>(
        &self,
        machine: &Machine<'_, K, W>,
        (query_turn, queries): (HeadTurn<'_>, &mut [f32]),
        (key_turn, rows): (HeadTurn<'_>, KeysValues<'_>),
        cache: &mut [u8],
    ) -> bool {
        let head_dim = self.plan.config().head_dim as usize;
        let query_heads = Panels::columns(queries, self.tokens, head_dim);
        let caches = Panels::pieces(cache, self.plan.head_cache_bytes());
        let stored = AtomicBool::new(true);
        machine.share(self.tokens > 1, |_| {
            while let Some((_, queries)) = query_heads.claim() {
                machine.kernels.enter(TurnQueries { turn: query_turn, queries });
            }
            while let Some((head, cache)) = caches.claim() {
                let (kind, positions) = (self.plan.limits().cache, self.plan.cache_positions());
                let cache = HeadCacheMut::new(kind, head_dim, positions, cache.into_row());
                let all = cache.is_some_and(|cache| {
                    machine.kernels.enter(StoreHead { turn: key_turn, rows, head, position: self.position, cache })
                });
                if !all {
                    stored.store(false, Ordering::Relaxed);
                }
            }
        });
        stored.into_inner()
    }

    /// The cache of one KV head of the layer.
    fn cache<'c>(&self, cache: &'c [u8], head: usize) -> Option<HeadCache<'c>> {
        let bytes = self.plan.head_cache_bytes();
        let (kind, positions) = (self.plan.limits().cache, self.plan.cache_positions());
        HeadCache::new(
            kind,
            self.plan.config().head_dim as usize,
            positions,
            cache.get(head * bytes..(head + 1) * bytes)?,
        )
    }

    /// One token: workers share KV heads and chunks of positions. Queries become the attention's result.
    fn attend_token<K: Kernels, W: Workers + ?Sized>(
        &self,
        machine: &Machine<'_, K, W>,
        queries: &mut [f32],
        cache: &[u8],
        partials: &mut [f32],
    ) -> bool {
        let config = self.plan.config();
        let head_dim = config.head_dim as usize;
        let group = config.heads_per_kv();
        let seen = self.position + 1;
        let piece = group * partial_len(head_dim);
        let Some(chunks) = NonZero::new(chunks(seen)) else { return false };
        let Some(partials) = partials.get_mut(..config.kv_heads as usize * chunks.get() * piece) else { return false };
        let finite = AtomicBool::new(true);
        {
            // A worker goes through neighbouring chunks, so what it will read next can be fetched meanwhile.
            let pieces = Panels::pieces(&mut *partials, piece).shared_by(machine.workers.count());
            let queries = &*queries;
            machine.share(seen > 64, |worker| {
                while let Some((index, partials)) = pieces.claim_by(worker) {
                    let (head, chunk) = (index / chunks, index % chunks);
                    let next = (index + 1) / chunks;
                    let ahead = self.cache(cache, next).map_or(Ahead::default(), |cache| {
                        let start = (index + 1) % chunks * CHUNK;
                        Ahead::new(cache.elements(head_dim, start, CHUNK.min(seen - start)))
                    });
                    let heads = queries.get(head * group * head_dim..(head + 1) * group * head_dim);
                    let partials = partials.into_row();
                    let all = heads.zip(self.cache(cache, head)).is_some_and(|(heads, cache)| {
                        let queries = Queries { heads, head_dim, positions: seen };
                        machine.kernels.enter(Attend { queries, cache, chunk, ahead, partials })
                    });
                    if !all {
                        finite.store(false, Ordering::Relaxed);
                    }
                }
            });
        }
        let partials = partials.chunks_exact((chunks.get() * piece).max(1));
        for (partials, out) in partials.zip(queries.chunks_exact_mut((group * head_dim).max(1))) {
            machine.kernels.enter(Join { partials, head_dim, out });
        }
        finite.into_inner()
    }

    /// Several tokens: workers share tokens and KV heads, each with room for one KV head's chunks.
    fn attend_batch<K: Kernels, W: Workers + ?Sized>(
        &self,
        machine: &Machine<'_, K, W>,
        queries: &mut [f32],
        cache: &[u8],
        partials: &mut [f32],
    ) -> bool {
        let config = self.plan.config();
        let head_dim = config.head_dim as usize;
        let group = config.heads_per_kv();
        let (Some(kv_heads), Some(piece)) =
            (NonZero::new(config.kv_heads as usize), NonZero::new(group * partial_len(head_dim)))
        else {
            return false;
        };
        let rooms = Panels::pieces(partials, chunks(self.plan.limits().context as usize) * piece.get());
        let groups = Panels::pieces(queries, group * head_dim);
        let finite = AtomicBool::new(true);
        machine.share(true, |_| {
            // A session never runs on more workers than were planned; one too many would leave the work to the others.
            let Some((_, room)) = rooms.claim() else { return };
            let room = room.into_row();
            while let Some((index, heads)) = groups.claim() {
                let (token, head) = (index / kv_heads, index % kv_heads);
                let heads = heads.into_row();
                let seen = self.position + token + 1;
                let (Some(partials), Some(cache)) =
                    (room.get_mut(..chunks(seen) * piece.get()), self.cache(cache, head))
                else {
                    finite.store(false, Ordering::Relaxed);
                    continue;
                };
                let mut all = true;
                for (chunk, partials) in partials.chunks_exact_mut(piece.get()).enumerate() {
                    let queries = Queries { heads, head_dim, positions: seen };
                    all &= machine.kernels.enter(Attend { queries, cache, chunk, ahead: Ahead::default(), partials });
                }
                machine.kernels.enter(Join { partials, head_dim, out: heads });
                if !all {
                    finite.store(false, Ordering::Relaxed);
                }
            }
        });
        finite.into_inner()
    }
}

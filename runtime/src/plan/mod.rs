//! The memory plan: every byte of a session, computed before it exists.
//!
//! Persistent regions come first; behind them lies scratch memory that the phases of a step use in turn, so the peak is
//! what persists plus the largest phase.
//!
//! ```text
//! | attention cache | tokens | hidden | rotations | logits |  attention: blocks q k v partials     |
//!                                                          |  feed-forward: blocks gate·up blocks  |  … phases overlap
//!                                                          |  head: blocks candidates              |
//!                                                          |  text: tokenizer                      |
//! ```

mod region;
mod stack;
mod table;

pub(crate) use region::Lender;
pub use region::{ALIGN, Region};
pub use stack::{CALL_STACK_BYTES, JOB_STACK_BYTES};
pub use table::{NamedRegion, Phase};

use pocket_kernels::attention::{chunks, partial_len};
use pocket_kernels::lanes::WIDTH;
use region::{Layout, times};

use crate::config::Config;
use crate::error::{ConfigError, PlanError};
use crate::limits::Limits;
use crate::sampling::Candidate;
use crate::text;

/// Regions that live as long as the session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Persistent {
    /// Keys and values: `[layers, kv_heads, head bytes]`.
    pub cache: Region<u8>,
    /// The tokens that the cache holds, then those about to be processed: `[context]`.
    pub tokens: Region<u32>,
    /// The residual stream: `[batch, hidden]`.
    pub hidden: Region<f32>,
    /// Rotations of the batch's positions: `[batch, head_dim]`.
    pub rotations: Region<f32>,
    /// Logits of the last token: `[vocabulary]`.
    pub logits: Region<f32>,
}

/// Scratch of the attention phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionRegions {
    /// Quantised input of the projections, and later of the output projection: `[batch, groups]`.
    pub blocks: Region<u8>,
    /// Queries, replaced by what attention makes of them: `[batch, q_dim]`.
    pub queries: Region<f32>,
    /// Keys: `[batch, kv_dim]`.
    pub keys: Region<f32>,
    /// Values: `[batch, kv_dim]`.
    pub values: Region<f32>,
    /// Partial results of chunks: one KV head's for each worker, or all heads' of one token.
    pub partials: Region<f32>,
}

/// Scratch of the feed-forward phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FfnRegions {
    /// Quantised input of gate and up: `[batch, groups]`.
    pub blocks: Region<u8>,
    /// `silu(gate) · up`: `[batch, ffn]`.
    pub gated: Region<f32>,
    /// Quantised input of the down projection: `[batch, groups]`.
    pub gated_blocks: Region<u8>,
}

/// Scratch of the head and of sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadRegions {
    /// Quantised input of the head, one token's.
    pub blocks: Region<u8>,
    /// Tokens with their logits, to be ranked: `[vocabulary]`.
    pub candidates: Region<Candidate>,
}

/// Scratch of the tokenizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextRegions {
    /// Symbols of the word that is being merged.
    pub symbols: Region<u32>,
}

/// Where everything lies, and how much there is of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    config: Config,
    limits: Limits,
    pub(crate) persistent: Persistent,
    pub(crate) attention: AttentionRegions,
    pub(crate) ffn: FfnRegions,
    pub(crate) head: HeadRegions,
    pub(crate) text: TextRegions,
    scratch_offset: usize,
    arena_bytes: usize,
}

const fn larger(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a > b { a } else { b }),
        _ => None,
    }
}

impl Plan {
    /// Computes the plan of a session.
    ///
    /// # Errors
    /// [`PlanError`] names the limit that does not fit the model or the target.
    pub const fn try_new(config: &Config, limits: &Limits) -> Result<Self, PlanError> {
        if let Err(reason) = config.check() {
            return Err(PlanError::Config { reason });
        }
        if limits.context == 0 || limits.context > config.context {
            return Err(PlanError::Context { context: limits.context, most: config.context });
        }
        if limits.batch == 0 || limits.batch > limits.context {
            return Err(PlanError::Batch { batch: limits.batch, most: limits.context });
        }
        if limits.workers == 0 || limits.workers > 256 {
            return Err(PlanError::Workers { workers: limits.workers });
        }
        let batch = limits.batch as usize;
        let context = limits.context as usize;
        let (hidden, ffn, vocabulary) = (config.hidden as usize, config.ffn as usize, config.vocabulary as usize);
        let (q_dim, kv_dim, head_dim) = (config.q_dim(), config.kv_dim(), config.head_dim as usize);
        let groups = &config.groups;

        let mut layout = Layout::from(0);
        let heads = times(Some(config.layers as usize), config.kv_heads as usize);
        // As `head_bytes`, but where addresses have 32 bits even one head's cache may be too large.
        let position_bytes = times(times(heads, 2), limits.cache.position_bytes(head_dim));
        let persistent = Persistent {
            cache: layout.region(times(position_bytes, padded(context))),
            tokens: layout.region(Some(context)),
            hidden: layout.region(times(Some(batch), hidden)),
            rotations: layout.region(times(Some(batch), head_dim)),
            logits: layout.region(Some(vocabulary)),
        };
        let Some(scratch_offset) = layout.end() else { return Err(PlanError::TooLarge) };

        // A batch gives each worker room for one KV head's chunks; a single token has all heads' chunks at once.
        let kv_head_partials = times(times(Some(chunks(context)), config.heads_per_kv()), partial_len(head_dim));
        let rooms = if limits.workers > config.kv_heads { limits.workers } else { config.kv_heads };
        let mut attention_layout = Layout::from(scratch_offset);
        let attention = AttentionRegions {
            blocks: attention_layout
                .region(times(larger(groups.qkv.row_bytes(hidden), groups.attention_output.row_bytes(q_dim)), batch)),
            queries: attention_layout.region(times(Some(batch), q_dim)),
            keys: attention_layout.region(times(Some(batch), kv_dim)),
            values: attention_layout.region(times(Some(batch), kv_dim)),
            partials: attention_layout.region(times(kv_head_partials, rooms as usize)),
        };
        let mut ffn_layout = Layout::from(scratch_offset);
        let ffn = FfnRegions {
            blocks: ffn_layout.region(times(groups.gate_up.row_bytes(hidden), batch)),
            gated: ffn_layout.region(times(Some(batch), ffn)),
            gated_blocks: ffn_layout.region(times(groups.down.row_bytes(ffn), batch)),
        };
        let mut head_layout = Layout::from(scratch_offset);
        let head = HeadRegions {
            blocks: head_layout.region(groups.head.row_bytes(hidden)),
            candidates: head_layout.region(Some(vocabulary)),
        };
        let mut text_layout = Layout::from(scratch_offset);
        let symbols = match limits.word_bytes {
            0 => 0,
            bytes => text::scratch_len(bytes as usize),
        };
        let text = TextRegions { symbols: text_layout.region(Some(symbols)) };

        let phases =
            larger(larger(attention_layout.end(), ffn_layout.end()), larger(head_layout.end(), text_layout.end()));
        match phases {
            Some(arena_bytes) if arena_bytes <= isize::MAX as usize => Ok(Self {
                config: *config,
                limits: *limits,
                persistent,
                attention,
                ffn,
                head,
                text,
                scratch_offset,
                arena_bytes,
            }),
            _ => Err(PlanError::TooLarge),
        }
    }

    /// As [`Self::try_new`], for constants: a plan that cannot be is a compile error that says why.
    ///
    /// # Panics
    /// With the reason, if there is no such plan.
    #[must_use]
    pub const fn new(config: &Config, limits: &Limits) -> Self {
        match Self::try_new(config, limits) {
            Ok(plan) => plan,
            Err(PlanError::Config { reason }) => match reason {
                ConfigError::Heads { .. } => panic!("query heads must be a multiple of KV heads"),
                ConfigError::HeadDim { .. } => panic!("the head size must be a multiple of 32, at most 256"),
                ConfigError::Hidden { .. } => panic!("the hidden size must be a multiple of 32"),
                ConfigError::Ffn { .. } => panic!("the feed-forward size must be a multiple of 32"),
                _ => panic!("the model's configuration is out of range"),
            },
            Err(PlanError::Context { .. }) => panic!("the context must be 1 to what the model was trained for"),
            Err(PlanError::Batch { .. }) => panic!("the batch must be 1 to the context"),
            Err(PlanError::Workers { .. }) => panic!("the workers must be 1 to 256"),
            Err(PlanError::TooLarge) => panic!("the plan needs more bytes than the target can address"),
        }
    }

    /// The model's shape.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The limits it was made for.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Bytes of the arena that a session needs, 64-byte aligned.
    #[must_use]
    pub const fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    /// Where the phases' scratch begins.
    #[must_use]
    pub const fn scratch_offset(&self) -> usize {
        self.scratch_offset
    }

    /// The most memory that image, session and stacks take together: the image is read in place, and nothing else is
    /// written.
    #[must_use]
    pub const fn peak_bytes(&self, image_bytes: usize) -> usize {
        self.arena_bytes.saturating_add(self.stack_bytes()).saturating_add(image_bytes)
    }

    /// Bytes of one KV head's cache in one layer.
    pub(crate) const fn head_cache_bytes(&self) -> usize {
        self.limits.cache.head_bytes(self.config.head_dim as usize, self.cache_positions())
    }

    /// Bytes of one layer's cache.
    pub(crate) const fn layer_cache_bytes(&self) -> usize {
        self.head_cache_bytes().saturating_mul(self.config.kv_heads as usize)
    }

    /// Positions of the cache as it is laid out, a multiple of 16.
    pub(crate) const fn cache_positions(&self) -> usize {
        padded(self.limits.context as usize)
    }
}

/// Cache tiles hold 16 positions, and there are no more than [`Config::check`](crate::Config::check) lets a model have.
pub(crate) const fn padded(context: usize) -> usize {
    context.next_multiple_of(WIDTH)
}

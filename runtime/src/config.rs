//! The shape of a model.

use pocket_kernels::cache::HEAD_DIM_MAX;
use pocket_kernels::tile::{Block32, Block64};

use crate::error::{ConfigError, ImageError};
use crate::image::Header;

/// The quantisation group that each kind of product reads its activations in.
///
/// All matrices of a kind, in every layer, share it: so activations are quantised once a stage and a plan is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Query, key and value projections.
    pub qkv: Group,
    /// The projection after attention.
    pub attention_output: Group,
    /// Gate and up projections.
    pub gate_up: Group,
    /// The down projection.
    pub down: Group,
    /// The head that gives logits.
    pub head: Group,
}

/// Columns of a quantisation group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Group {
    /// 32 columns.
    G32 = 32,
    /// 64 columns.
    G64 = 64,
}

impl Group {
    /// The group of this many columns.
    #[must_use]
    pub const fn from_columns(columns: u8) -> Option<Self> {
        match columns {
            32 => Some(Self::G32),
            64 => Some(Self::G64),
            _ => None,
        }
    }

    /// Columns in the group.
    #[must_use]
    pub const fn columns(self) -> usize {
        self as usize
    }

    /// Bytes of one token's quantised activations of `width` elements; `None` if they cannot be addressed.
    pub(crate) const fn row_bytes(self, width: usize) -> Option<usize> {
        let block = match self {
            Self::G32 => size_of::<Block32>(),
            Self::G64 => size_of::<Block64>(),
        };
        width.div_ceil(self.columns()).checked_mul(block)
    }
}

/// The shape of a decoder-only transformer with RMSNorm, rotary positions, grouped-query attention and SwiGLU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Transformer blocks.
    pub layers: u32,
    /// Elements of the hidden state; a multiple of 32.
    pub hidden: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads; divides `heads`.
    pub kv_heads: u32,
    /// Elements of a head; a multiple of 32, at most 256.
    pub head_dim: u32,
    /// Elements between the feed-forward projections; a multiple of 32.
    pub ffn: u32,
    /// Number of tokens.
    pub vocabulary: u32,
    /// Positions that the model was trained for.
    pub context: u32,
    /// Added to the mean square in every norm.
    pub rms_eps: f32,
    /// Whether query and key heads are normed.
    pub qk_norm: bool,
    /// Whether the embedding is also the head.
    pub tied: bool,
    /// Quantisation groups.
    pub groups: Groups,
}

impl Config {
    /// The shape of the model in an image, for constants: so a firmware's plan, and the arena that it takes, follow from
    /// the image that is built into it.
    ///
    /// ```text
    /// static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("model.pocket"));
    /// const PLAN: Plan = Plan::new(&Config::of_image(&IMAGE.0), &Limits::new(2048));
    /// const _: () = assert!(PLAN.peak_bytes(IMAGE.0.len()) <= 300_000_000);
    /// static ARENA: Arena<{ PLAN.arena_bytes() }> = Arena::new();
    /// ```
    ///
    /// # Panics
    /// With the reason, if there is none; in a constant that is a compile error.
    #[must_use]
    pub const fn of_image(bytes: &[u8]) -> Self {
        let config = match Header::of_image(bytes) {
            Ok(header) => header.config(),
            Err(error) => Err(error),
        };
        match config {
            Ok(config) => config,
            Err(ImageError::Truncated { .. }) => panic!("the image is shorter than a header"),
            Err(ImageError::Magic) => panic!("this is not a Pocket image; make one with `pocket pack`"),
            Err(ImageError::Version { .. }) => panic!("the image has another format version; pack it again"),
            Err(ImageError::Config { .. }) => panic!("the kernels cannot run a model of this shape"),
            Err(_) => panic!("the image's header contradicts itself; pack it again"),
        }
    }

    /// Query elements of a token.
    #[must_use]
    pub const fn q_dim(&self) -> usize {
        (self.heads as usize).saturating_mul(self.head_dim as usize)
    }

    /// Key (or value) elements of a token.
    #[must_use]
    pub const fn kv_dim(&self) -> usize {
        (self.kv_heads as usize).saturating_mul(self.head_dim as usize)
    }

    /// Query heads that share a KV head.
    #[must_use]
    pub const fn heads_per_kv(&self) -> usize {
        match self.heads.checked_div(self.kv_heads) {
            Some(n) => n as usize,
            None => 0,
        }
    }

    /// Checks that the kernels can run this shape.
    ///
    /// # Errors
    /// [`ConfigError`] names the first field that does not fit.
    pub const fn check(&self) -> Result<(), ConfigError> {
        /// Largest dimension; keeps every product of two of them, in bytes, inside 64 bits.
        const DIM_MAX: u32 = 1 << 20;
        if self.layers == 0 || self.layers > 1024 {
            return Err(ConfigError::Layers { layers: self.layers });
        }
        if self.hidden == 0 || self.hidden > DIM_MAX || !self.hidden.is_multiple_of(32) {
            return Err(ConfigError::Hidden { hidden: self.hidden });
        }
        if self.ffn == 0 || self.ffn > DIM_MAX || !self.ffn.is_multiple_of(32) {
            return Err(ConfigError::Ffn { ffn: self.ffn });
        }
        if self.head_dim == 0 || self.head_dim as usize > HEAD_DIM_MAX || !self.head_dim.is_multiple_of(32) {
            return Err(ConfigError::HeadDim { head_dim: self.head_dim });
        }
        if self.kv_heads == 0 || self.heads > 1024 || self.heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return Err(ConfigError::Heads { heads: self.heads, kv_heads: self.kv_heads });
        }
        if self.vocabulary == 0 || self.vocabulary > 1 << 24 {
            return Err(ConfigError::Vocabulary { vocabulary: self.vocabulary });
        }
        if self.context == 0 || self.context > 1 << 24 {
            return Err(ConfigError::Context { context: self.context });
        }
        if !(self.rms_eps >= 0.0 && self.rms_eps < 1.0) {
            return Err(ConfigError::RmsEps);
        }
        Ok(())
    }
}

//! A model of the energy of an answer: bytes moved, multiplications done, and time passed, each with its price.
//!
//! # Source
//! Prices of DRAM and of 8-bit arithmetic: Horowitz, "Computing's energy problem" (ISSCC 2014), for 45 nm and DDR3: 20 pJ
//! a bit, 0.2 + 0.03 pJ a multiplication with its addition. Others are assumptions, and say so; a vendor measures its own.

use pocket_runtime::image::{Role, roles};
use pocket_runtime::{CacheType, Config};
use serde::Serialize;

/// A phone's battery, 6,000 mAh at 3.85 V, in joules.
pub const BATTERY_JOULES: f64 = 6.0 * 3600.0 * 3.85;
/// The share of a battery that an answer may take.
pub const GOAL_SHARE: f64 = 1e-4;

/// Prices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// What is assumed.
    pub name: &'static str,
    /// Picojoules to move a bit from memory.
    pub dram_pj_per_bit: f64,
    /// Picojoules of a multiplication with its addition.
    pub mac_pj: f64,
    /// Watts that the chip draws while it works, whatever it does.
    pub static_w: f64,
}

/// From what a recent phone may do to what was published of older technology.
pub const PROFILES: [Profile; 2] = [
    Profile {
        name: "low: LPDDR5 and 1 W (assumed), 8-bit arithmetic of 45 nm",
        dram_pj_per_bit: 4.0,
        mac_pj: 0.23,
        static_w: 1.0,
    },
    Profile {
        name: "high: DRAM of 2014, arithmetic at 2 pJ and 4 W (assumed)",
        dram_pj_per_bit: 20.0,
        mac_pj: 2.0,
        static_w: 4.0,
    },
];

/// An answer: tokens that are read, and tokens that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Tokens of the reply.
    pub reply: u32,
}

/// What an answer moves and computes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Work {
    /// Bytes of weights and cache that are read.
    pub bytes: f64,
    /// Multiplications.
    pub macs: f64,
}

impl Work {
    /// The work of an answer by a model of this shape, whose layers have `layer_bytes` and whose head has `head_bytes` of
    /// weights; the prompt is read `batch` tokens at a time.
    #[must_use]
    pub fn of(
        config: &Config,
        (layer_bytes, head_bytes): (u64, u64),
        cache: CacheType,
        batch: u32,
        answer: Answer,
    ) -> Self {
        let Answer { prompt, reply } = answer;
        let elements = |role: Role| {
            let wanted = config.wanted(role);
            f64::from(wanted.rows) * f64::from(wanted.columns)
        };
        let layers = f64::from(config.layers);
        let of_layers = layers * roles(config).0.map(elements).sum::<f64>();
        let of_head = elements(Role::Embedding);
        let (prompt_tokens, reply_tokens) = (f64::from(prompt), f64::from(reply));
        // Positions that are looked at: every token sees itself and all before it.
        let tokens = prompt_tokens + reply_tokens;
        let seen = tokens * (tokens + 1.0) / 2.0;
        let seen_by_prompt = prompt_tokens * (prompt_tokens + 1.0) / 2.0;
        let position_bytes =
            layers * f64::from(config.kv_heads) * cache.head_bytes(config.head_dim as usize, 16) as f64 / 16.0;
        let batches = f64::from(prompt.div_ceil(batch.max(1)));
        // A batch reads the cache once for all its tokens.
        let cache_reads = seen - seen_by_prompt + seen_by_prompt / f64::from(batch.clamp(1, prompt.max(1)));
        Self {
            bytes: (batches + reply_tokens) * layer_bytes as f64
                + (reply_tokens + 1.0) * head_bytes as f64
                + cache_reads * position_bytes,
            macs: tokens * of_layers + (reply_tokens + 1.0) * of_head + 2.0 * seen * layers * config.q_dim() as f64,
        }
    }
}

impl Profile {
    /// Joules for this work in this time.
    #[must_use]
    pub fn joules(&self, work: Work, seconds: f64) -> f64 {
        (work.bytes * 8.0 * self.dram_pj_per_bit + work.macs * self.mac_pj) * 1e-12 + self.static_w * seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::{Shape, weights};

    fn pocket() -> (Config, (u64, u64)) {
        let config = Shape::named("pocket-0.3b").expect("a shape").config;
        let weights = weights(&config);
        (config, (weights.layer_bytes, weights.head_bytes))
    }

    #[test]
    fn a_token_moves_and_computes_what_was_counted_by_hand() {
        let (config, bytes) = pocket();
        let work = Work::of(&config, bytes, CacheType::F16, 64, Answer { prompt: 0, reply: 1 });
        // 170.5 MB, the head once more for the token that is only sampled, and 14.3 kB of cache.
        assert!((work.bytes - (170.5e6 + 33.0e6 + 14_336.0)).abs() < 0.2e6, "{work:?}");
        assert!((work.macs - (302.8e6 + 58.7e6)).abs() < 0.3e6, "{work:?}");
    }

    #[test]
    fn a_prompt_shares_its_weights() {
        let (config, bytes) = pocket();
        let of = |prompt, batch| Work::of(&config, bytes, CacheType::F16, batch, Answer { prompt, reply: 0 });
        assert!(of(64, 64).bytes < of(64, 1).bytes / 20.0);
        assert_eq!(of(64, 64).macs, of(64, 1).macs);
        assert!(of(128, 64).bytes > 1.5 * of(64, 64).bytes);
    }

    #[test]
    fn joules_add_up() {
        let profile = Profile { name: "", dram_pj_per_bit: 5.0, mac_pj: 1.0, static_w: 3.0 };
        let joules = profile.joules(Work { bytes: 1e9, macs: 2e9 }, 0.5);
        assert!((joules - (0.040 + 0.002 + 1.5)).abs() < 1e-12, "{joules}");
        assert!((BATTERY_JOULES * GOAL_SHARE - 8.316).abs() < 1e-9);
    }
}

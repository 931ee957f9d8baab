//! Choosing the next token: greedy, or drawn from a filtered distribution, without allocation.
//!
//! In this order: repetition penalty, temperature, top-k, top-p, min-p, draw. Candidates are ranked by logit, ties by
//! token, so the ranking is total and the same on every chip; exponentials are the kernels' own. The same seed
//! therefore gives the same tokens everywhere.
//!
//! # Source
//! Fan et al. (2018) for top-k; Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020) for top-p;
//! Nguyen et al. (2024) for min-p; Keskar et al., "CTRL" (2019) for the repetition penalty. Filters apply to the
//! distribution at the given temperature, as in Hugging Face transformers.

mod ranking;

use bytemuck::{Pod, Zeroable};
use pocket_kernels::exp::exp;
use pocket_kernels::reduce::ArgMax;
use pocket_kernels::{Job, Kernels, Lanes, WIDTH};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

use crate::error::StepError;
use ranking::{Ranking, rank};

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 takes the most likely token (greedy).
    pub temperature: f32,
    /// Keeps the `top_k` most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keeps the fewest most likely tokens whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens seen in the window; 1 changes nothing.
    pub repetition_penalty: f32,
    /// How many of the last tokens the penalty looks at; 0 means all.
    pub penalty_window: u32,
}

impl Sampling {
    /// The most likely token, always.
    pub const GREEDY: Self =
        Self { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, repetition_penalty: 1.0, penalty_window: 0 };

    /// Checks the ranges.
    ///
    /// # Errors
    /// [`StepError::Sampling`] if a setting is outside its range or not a number.
    pub fn check(&self) -> Result<(), StepError> {
        let temperature = self.temperature >= 0.0 && self.temperature.is_finite();
        let penalty = self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite();
        let top_p = self.top_p > 0.0 && self.top_p <= 1.0;
        let min_p = (0.0..=1.0).contains(&self.min_p);
        if temperature && penalty && top_p && min_p { Ok(()) } else { Err(StepError::Sampling) }
    }
}

/// A token with its logit.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Candidate {
    /// Logit, after the penalty; later its weight, `exp((logit − largest) / temperature)`.
    pub logit: f32,
    /// Token.
    pub id: u32,
}

/// Chooses tokens; holds the settings and the state of the random numbers.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: Pcg32,
}

/// What a token is chosen from.
#[derive(Debug)]
pub struct Choice<'a> {
    /// Logits, `[vocabulary]`.
    pub logits: &'a [f32],
    /// Tokens so far.
    pub tokens: &'a [u32],
    /// Scratch, `[vocabulary]`; tokens for which it has no room are not considered.
    pub candidates: &'a mut [Candidate],
}

impl Sampler {
    /// A sampler with these settings; equal seeds give equal tokens.
    ///
    /// # Errors
    /// [`StepError::Sampling`] if a setting is outside its range.
    pub fn new(sampling: Sampling, seed: u64) -> Result<Self, StepError> {
        sampling.check()?;
        Ok(Self { sampling, random: Pcg32::seed_from_u64(seed) })
    }

    /// The settings.
    #[must_use]
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// A number in 0..1 with 24 random bits.
    fn uniform(&mut self) -> f32 {
        (self.random.next_u32() >> 8) as f32 * (1.0 / (1u32 << 24) as f32)
    }

    /// Chooses a token; `None` if a logit is not finite, or there is none.
    ///
    /// [`Session::sample`](crate::Session::sample) does this with its own logits and tokens.
    pub fn choose<K: Kernels>(&mut self, kernels: K, choice: Choice<'_>) -> Option<u32> {
        let most = kernels.enter(ArgMax { x: choice.logits })?;
        let greedy = self.sampling.temperature == 0.0;
        if greedy && self.sampling.repetition_penalty == 1.0 {
            return Some(most as u32);
        }
        let candidates = self.penalised(choice.logits, choice.tokens, choice.candidates);
        if greedy {
            return candidates.iter().copied().min_by(rank).map(|best| best.id);
        }
        let kept = kernels.enter(Filter { candidates, sampling: self.sampling });
        // The same additions in the same order give the total and, below, exceed every share of it; and only a token
        // with a weight can make the sum exceed it. Whatever is rounded, no token without one is drawn.
        let total = kept.iter().fold(0.0, |sum, candidate| sum + candidate.logit);
        let drawn = self.uniform() * total;
        let mut sum = 0.0;
        let mut passed = kept.iter().skip_while(|candidate| {
            sum += candidate.logit;
            sum <= drawn
        });
        passed.next().or(kept.first()).map(|candidate| candidate.id)
    }

    /// Fills the candidates with the logits, those of recent tokens penalised once each.
    fn penalised<'c>(&self, logits: &[f32], tokens: &[u32], out: &'c mut [Candidate]) -> &'c mut [Candidate] {
        let len = logits.len().min(out.len());
        let candidates = &mut out[..len];
        for ((id, &logit), candidate) in (0u32..).zip(logits).zip(candidates.iter_mut()) {
            *candidate = Candidate { logit, id };
        }
        let penalty = self.sampling.repetition_penalty;
        let window = match self.sampling.penalty_window {
            0 => usize::MAX,
            n => n as usize,
        };
        if penalty != 1.0 {
            for &id in tokens.iter().rev().take(window) {
                // A logit that no longer is what it was has had its penalty: each token gets it once.
                if let (Some(candidate), Some(&logit)) = (candidates.get_mut(id as usize), logits.get(id as usize))
                    && candidate.logit == logit
                {
                    let penalised = if logit > 0.0 { logit / penalty } else { logit * penalty };
                    // An extreme penalty must not make an infinity, whose distance to another one is no number.
                    candidate.logit = penalised.clamp(f32::MIN, f32::MAX);
                }
            }
        }
        candidates
    }
}

/// Turns logits into weights and applies top-k, top-p and min-p; gives the candidates that are kept.
struct Filter<'a> {
    candidates: &'a mut [Candidate],
    sampling: Sampling,
}

impl<'a> Job for Filter<'a> {
    type Out = &'a [Candidate];

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> &'a [Candidate] {
        let Self { mut candidates, sampling } = self;
        let top_k = sampling.top_k as usize;
        let ranked = (1..candidates.len()).contains(&top_k);
        if ranked {
            Ranking::of(candidates).take(top_k).for_each(drop);
            candidates = candidates.get_mut(..top_k).unwrap_or_default();
        }
        weigh(l, candidates, sampling.temperature);
        if sampling.top_p == 1.0 && sampling.min_p == 0.0 {
            return candidates;
        }
        // In rank order after top-k, else in token order: a fixed order either way, so the sum has fixed bits.
        let enough = sampling.top_p * candidates.iter().fold(0.0, |sum, candidate| sum + candidate.logit);
        let mut sum = 0.0;
        let out = |(kept, Candidate { logit: weight, .. })| {
            let enough = sampling.top_p < 1.0 && sum >= enough;
            sum += weight;
            kept > 0 && (weight < sampling.min_p || enough)
        };
        // Few candidates are usually enough, so no more are ranked than are looked at.
        let kept = if ranked {
            candidates.iter().copied().enumerate().position(out)
        } else {
            Ranking::of(candidates).enumerate().position(out)
        };
        kept.and_then(|kept| candidates.get(..kept)).unwrap_or(candidates)
    }
}

/// Replaces logits by `exp((logit − largest) / temperature)`, so the largest weight is 1.
#[inline(always)]
fn weigh<L: Lanes>(l: L, candidates: &mut [Candidate], temperature: f32) {
    let largest = candidates.iter().fold(f32::NEG_INFINITY, |most, c| if c.logit > most { c.logit } else { most });
    for chunk in candidates.chunks_mut(WIDTH) {
        let mut x = [0.0; WIDTH];
        for (x, candidate) in x.iter_mut().zip(chunk.iter()) {
            *x = candidate.logit;
        }
        let x_in = l.div(l.sub(l.load(&x), l.splat(largest)), l.splat(temperature));
        l.store(exp(l, x_in), &mut x);
        for (x, candidate) in x.iter().zip(chunk) {
            candidate.logit = *x;
        }
    }
}

//! How the next token is chosen.

use pocket_runtime::Sampling;

/// How the next token is chosen. All zeros but `top_p` and `repetition_penalty`, which are 1, is greedy.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct PocketSampling {
    /// Divides the logits, 0 or more; 0 takes the most likely token.
    pub temperature: f32,
    /// Keeps this many most likely tokens; 0 keeps all.
    pub top_k: u32,
    /// Keeps the fewest most likely tokens whose probabilities reach this sum, above 0; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least this fraction as likely as the most likely one, 0 to 1; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens seen in the window, above 0; 1 changes nothing.
    pub repetition_penalty: f32,
    /// How many of the last tokens the penalty looks at; 0 means all.
    pub penalty_window: u32,
}

impl From<Sampling> for PocketSampling {
    fn from(sampling: Sampling) -> Self {
        let Sampling { temperature, top_k, top_p, min_p, repetition_penalty, penalty_window } = sampling;
        Self { temperature, top_k, top_p, min_p, repetition_penalty, penalty_window }
    }
}

impl From<PocketSampling> for Sampling {
    fn from(sampling: PocketSampling) -> Self {
        let PocketSampling { temperature, top_k, top_p, min_p, repetition_penalty, penalty_window } = sampling;
        Self { temperature, top_k, top_p, min_p, repetition_penalty, penalty_window }
    }
}

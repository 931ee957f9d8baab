//! How far one set of logits is from another.
//!
//! Two figures judge a quantised model: the mean Kullback–Leibler divergence, which sees
//! the whole distribution, and how often the most likely token is the same, which is what
//! greedy text sees. The largest absolute difference is for exact comparisons. Softmax and
//! sums are in f64, so the figure's own error is far below any bound set on it.

/// The distance of logits from a reference over all positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Divergence {
    /// Mean over positions of KL(reference ‖ ours), in nats.
    pub mean_kl: f64,
    /// The largest KL(reference ‖ ours) at one position, in nats.
    pub max_kl: f64,
    /// Share of positions at which both have the same largest logit.
    pub top1_agreement: f64,
    /// Largest absolute difference of two logits.
    pub max_abs: f64,
}

/// Compares logits with a reference, position by position.
///
/// # Shapes
/// Both: `[positions, vocabulary]`, at least one position.
///
/// # Panics
/// If the shapes differ, or a logit is not a finite number.
pub fn compare(reference: &[Vec<f32>], ours: &[Vec<f32>]) -> Divergence {
    assert_eq!(reference.len(), ours.len(), "positions of logits");
    assert!(!reference.is_empty(), "there are no positions to compare");
    let mut total_kl = 0.0;
    let mut max_kl = 0.0_f64;
    let mut agreed = 0_u32;
    let mut max_abs = 0.0_f64;
    for (position, (reference, ours)) in reference.iter().zip(ours).enumerate() {
        assert_eq!(reference.len(), ours.len(), "vocabulary at position {position}");
        assert!(reference.iter().chain(ours).all(|x| x.is_finite()), "a logit at position {position} is not finite");
        let kl = kl(reference, ours);
        total_kl += kl;
        max_kl = max_kl.max(kl);
        agreed += u32::from(argmax(reference) == argmax(ours));
        for (r, o) in reference.iter().zip(ours) {
            max_abs = max_abs.max((f64::from(*r) - f64::from(*o)).abs());
        }
    }
    let positions = reference.len() as f64;
    Divergence { mean_kl: total_kl / positions, max_kl, top1_agreement: f64::from(agreed) / positions, max_abs }
}

/// Index of the largest logit, the first one of equals.
pub fn argmax(logits: &[f32]) -> Option<usize> {
    let mut best = None;
    let mut largest = f32::NEG_INFINITY;
    for (index, &logit) in logits.iter().enumerate() {
        if logit > largest {
            largest = logit;
            best = Some(index);
        }
    }
    best
}

/// How far the largest logit is above the next: below it, greedy choice is a near-tie.
pub fn margin(logits: &[f32]) -> f32 {
    let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &logit in logits {
        if logit > first {
            second = first;
            first = logit;
        } else if logit > second {
            second = logit;
        }
    }
    first - second
}

/// KL(softmax(p) ‖ softmax(q)) in nats.
fn kl(p: &[f32], q: &[f32]) -> f64 {
    let (p_norm, q_norm) = (log_sum_exp(p), log_sum_exp(q));
    p.iter()
        .zip(q)
        .map(|(&p, &q)| {
            let (log_p, log_q) = (f64::from(p) - p_norm, f64::from(q) - q_norm);
            log_p.exp() * (log_p - log_q)
        })
        .sum()
}

/// Logarithm of the sum of exponentials, safe against overflow.
fn log_sum_exp(x: &[f32]) -> f64 {
    let max = x.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x.into()));
    let sum: f64 = x.iter().map(|&x| (f64::from(x) - max).exp()).sum();
    max + sum.ln()
}

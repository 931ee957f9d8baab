//! The forward pass over all tokens at once.
//!
//! ```text
//! x = embedding[tokens]
//! each layer:  x += out · attention(rope(norm(q)), rope(norm(k)), v)   of rmsnorm(x)
//!              x += down · (silu(gate) * up)                           of rmsnorm(x)
//! logits = output · rmsnorm(x)
//! ```
//!
//! Matrix products accumulate in f32; norms, softmax and rotation angles use f64, where it
//! costs nothing.

use anyhow::{Result, ensure};

use super::file::Matrix;
use super::model::{Config, Layer, Reference};

impl Reference {
    /// Logits at every position of a token sequence: `[tokens, vocabulary]`.
    ///
    /// # Errors
    /// A sentence if a token is outside the vocabulary.
    pub fn logits(&self, tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        let c = &self.config;
        let mut x = vec![0.0; tokens.len() * c.hidden];
        for (token, x) in tokens.iter().zip(x.chunks_exact_mut(c.hidden)) {
            let row = usize::try_from(*token)?;
            ensure!(row < c.vocabulary, "token {token} is not in the vocabulary");
            self.embedding.row(row, x);
        }
        for layer in &self.layers {
            let attended = attention(c, layer, &rms_norm(&x, &layer.attention_norm, c.eps));
            add(&mut x, &product(&layer.attention_out, &attended));

            let normed = rms_norm(&x, &layer.ffn_norm, c.eps);
            let mut inner = product(&layer.gate, &normed);
            for (gate, up) in inner.iter_mut().zip(product(&layer.up, &normed)) {
                *gate = *gate / (1.0 + (-*gate).exp()) * up;
            }
            add(&mut x, &product(&layer.down, &inner));
        }
        let logits = product(&self.output, &rms_norm(&x, &self.output_norm, c.eps));
        Ok(logits.chunks_exact(c.vocabulary).map(<[f32]>::to_vec).collect())
    }
}

/// Causal attention of all heads; `x` is normed, the result not yet projected.
fn attention(c: &Config, layer: &Layer, x: &[f32]) -> Vec<f32> {
    let mut q = product(&layer.q, x);
    let mut k = product(&layer.k, x);
    let v = product(&layer.v, x);
    if let Some([q_norm, k_norm]) = &layer.qk_norm {
        q = rms_norm(&q, q_norm, c.eps);
        k = rms_norm(&k, k_norm, c.eps);
    }
    rotate(c, c.heads, &mut q);
    rotate(c, c.kv_heads, &mut k);

    let (d, q_width, kv_width) = (c.head_dim, c.heads * c.head_dim, c.kv_heads * c.head_dim);
    let scale = 1.0 / (d as f64).sqrt();
    let mut out = vec![0.0; q.len()];
    for (position, (q, out)) in q.chunks_exact(q_width).zip(out.chunks_exact_mut(q_width)).enumerate() {
        for (head, (q, out)) in q.chunks_exact(d).zip(out.chunks_exact_mut(d)).enumerate() {
            // Neighbouring query heads share one key and value head.
            let from = head / (c.heads / c.kv_heads) * d;
            let at = |m: &'_ [f32], t: usize, i: usize| f64::from(m[t * kv_width + from + i]);
            let scores: Vec<f64> =
                (0..=position).map(|t| (0..d).map(|i| f64::from(q[i]) * at(&k, t, i)).sum::<f64>() * scale).collect();
            let max = scores.iter().fold(f64::NEG_INFINITY, |m, s| m.max(*s));
            let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
            let total: f64 = weights.iter().sum();
            for (i, out) in out.iter_mut().enumerate() {
                let sum: f64 = weights.iter().enumerate().map(|(t, w)| w * at(&v, t, i)).sum();
                *out = (sum / total) as f32;
            }
        }
    }
    out
}

/// Rotates each head's pairs by angles that grow with the position.
fn rotate(c: &Config, heads: usize, x: &mut [f32]) {
    let half = c.rope_dims / 2;
    for (position, token) in x.chunks_exact_mut(heads * c.head_dim).enumerate() {
        for head in token.chunks_exact_mut(c.head_dim) {
            for i in 0..half {
                let exponent = -2.0 * i as f64 / c.rope_dims as f64;
                let (sin, cos) = (position as f64 * c.rope_base.powf(exponent)).sin_cos();
                let (a, b) = if c.rope_neighbours { (2 * i, 2 * i + 1) } else { (i, i + half) };
                let (x, y) = (f64::from(head[a]), f64::from(head[b]));
                head[a] = (x * cos - y * sin) as f32;
                head[b] = (x * sin + y * cos) as f32;
            }
        }
    }
}

/// Divides each group of `weight.len()` elements by its root mean square and scales it.
fn rms_norm(x: &[f32], weight: &[f32], eps: f64) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    for group in x.chunks_exact(weight.len()) {
        let squares: f64 = group.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        let factor = 1.0 / (squares / group.len() as f64 + eps).sqrt();
        for (x, w) in group.iter().zip(weight) {
            out.push((f64::from(*x) * factor) as f32 * w);
        }
    }
    out
}

/// `matrix · x` for every token: `[tokens, cols]` to `[tokens, rows]`.
fn product(matrix: &Matrix, x: &[f32]) -> Vec<f32> {
    let tokens = x.len() / matrix.cols;
    let mut out = vec![0.0; tokens * matrix.rows];
    let mut weights = vec![0.0; matrix.cols];
    // A row is decoded once and used for all tokens: decoding costs more than a product.
    for row in 0..matrix.rows {
        matrix.row(row, &mut weights);
        for (token, x) in x.chunks_exact(matrix.cols).enumerate() {
            out[token * matrix.rows + row] = dot(&weights, x);
        }
    }
    out
}

/// Sum of products in eight running sums, which lets the compiler use vectors.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_tail) = a.as_chunks::<8>();
    let (b, b_tail) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let tail: f32 = a_tail.iter().zip(b_tail).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + tail
}

/// Adds `y` to `x`.
fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

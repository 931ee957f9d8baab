//! Joining the chunks of a group of heads.

use super::partial_len;
use crate::exp::exp;
use crate::lanes::{Job, Lanes, WIDTH};

/// Joins chunks in order: `M = max m`, `w = exp(m − M)`, `L = fma(l, w, L)`, `O = fma(o, w, O)`; writes `O / L`.
///
/// # Shapes
/// `partials: [chunks, heads, partial_len(head_dim)]`; `out: [heads, head_dim]`.
#[derive(Debug)]
pub struct Join<'a, 'o> {
    /// The partial results.
    pub partials: &'a [f32],
    /// Elements of a head.
    pub head_dim: usize,
    /// The joined heads.
    pub out: &'o mut [f32],
}

impl Job for Join<'_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        let vectors = self.head_dim / WIDTH;
        let heads = self.out.len() / self.head_dim.max(1);
        let chunk_len = heads * partial_len(self.head_dim) / WIDTH;
        let partials = self.partials.as_chunks::<WIDTH>().0;
        for (head, out) in self.out.chunks_exact_mut(self.head_dim.max(1)).enumerate() {
            // The head's partial in every chunk: `vectors` of o, then one that holds m and l.
            let chunks = || {
                partials.chunks_exact(chunk_len.max(1)).filter_map(move |chunk| {
                    let partial = chunk.get(head * (vectors + 1)..(head + 1) * (vectors + 1))?;
                    let (last, o) = partial.split_last()?;
                    Some((o, last[0], last[1]))
                })
            };
            let most = chunks().fold(f32::NEG_INFINITY, |most, (_, m, _)| if m > most { m } else { most });
            let out = out.as_chunks_mut::<WIDTH>().0;
            out.iter_mut().for_each(|out| *out = [0.0; WIDTH]);
            let mut sum = l.splat(0.0);
            for (o, m, part) in chunks() {
                let w = exp(l, l.sub(l.splat(m), l.splat(most)));
                sum = l.fma(l.splat(part), w, sum);
                for (o, out) in o.iter().zip(out.iter_mut()) {
                    l.store(l.fma(l.load(o), w, l.load(out)), out);
                }
            }
            for out in out {
                l.store(l.div(l.load(out), sum), out);
            }
        }
    }
}

//! `kernels/NUMERICS.md` in plain loops: no call into the kernels, one element at a time.

use half::f16;
use pocket_kernels::weights::Format;

/// The fixed fold over 16 virtual lanes: 16→8→4→2→1, lane i with lane i + half.
pub(crate) fn fold(mut lanes: [f32; 16]) -> f32 {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}

/// A group of quantised activations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) q: Vec<i8>,
    pub(crate) d: f32,
    pub(crate) s: f32,
}

/// Scale and codes of numbers that share a scale.
pub(crate) fn quantize_one(x: &[f32]) -> (f32, Vec<i8>) {
    let mut amax = x.iter().fold(0.0f32, |amax, x| amax.max(x.abs()));
    if amax < 2.0f32.powi(-100) {
        amax = 0.0;
    }
    let id = if amax > 0.0 { 127.0 / amax } else { 0.0 };
    let q = x.iter().map(|x| (x * id).round_ties_even().clamp(-127.0, 127.0) as i8).collect();
    (amax / 127.0, q)
}

pub(crate) fn quantize(x: &[f32], group: usize) -> Vec<Group> {
    x.chunks(group)
        .map(|x| {
            let (d, mut q) = quantize_one(x);
            q.resize(group, 0);
            let sum: i32 = q.iter().map(|&q| i32::from(q)).sum();
            Group { q, d, s: d * sum as f32 }
        })
        .collect()
}

pub(crate) fn norm(x: &[f32], w: &[f32], eps: f32) -> Vec<f32> {
    let mut lanes = [0.0f32; 16];
    for (i, &x) in x.iter().enumerate() {
        lanes[i % 16] = x.mul_add(x, lanes[i % 16]);
    }
    let inverse = 1.0 / (fold(lanes) / x.len() as f32 + eps).sqrt();
    x.iter().zip(w).map(|(x, w)| x * inverse * w).collect()
}

/// Half-split rotation; cosines, then sines.
pub(crate) fn rotate(x: &[f32], rotation: &[f32]) -> Vec<f32> {
    let half = x.len() / 2;
    let mut out = vec![0.0; x.len()];
    for i in 0..half {
        let (a, b, c, s) = (x[i], x[i + half], rotation[i], rotation[i + half]);
        out[i] = a.mul_add(c, 0.0 - b * s);
        out[i + half] = b.mul_add(c, a * s);
    }
    out
}

/// Cephes' `expf` with fused steps.
#[expect(clippy::excessive_precision, reason = "as in the source; the compiler rounds them")]
pub(crate) fn exp(x: f32) -> f32 {
    const C: [f32; 6] = [
        1.987_569_15e-4,
        1.398_199_950_7e-3,
        8.333_451_907_3e-3,
        4.166_579_589_4e-2,
        1.666_666_545_9e-1,
        5.000_000_120_1e-1,
    ];
    if x.is_nan() || x < -87.336_54 {
        return 0.0;
    }
    let x = x.min(88.72);
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_375, x));
    let p = C.iter().skip(1).fold(C[0], |p, &c| p.mul_add(r, c));
    let e = p.mul_add(r * r, r) + 1.0;
    (f64::from(e) * f64::from(n).exp2()) as f32
}

pub(crate) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(0.0 - x))
}

/// A tile of a format, as bytes.
pub(crate) struct Tile<'a>(pub(crate) Format, pub(crate) &'a [u8]);

impl Tile<'_> {
    fn asymmetric(&self) -> bool {
        matches!(self.0, Format::Q4A64 | Format::Q4A32)
    }

    /// The code of a weight: signed for symmetric formats.
    pub(crate) fn code(&self, lane: usize, column: usize) -> i32 {
        if self.0 == Format::Q8 {
            return i32::from(self.1[column / 4 * 64 + lane * 4 + column % 4] as i8);
        }
        let byte = self.1[column / 8 * 64 + lane * 4 + column % 4];
        let u = if column % 8 < 4 { byte & 15 } else { byte >> 4 };
        i32::from(u) - if self.asymmetric() { 0 } else { 8 }
    }

    fn half(&self, index: usize) -> f32 {
        let codes = if self.0 == Format::Q8 { 512 } else { self.0.group() * 8 };
        let at = codes + index * 2;
        f16::from_le_bytes([self.1[at], self.1[at + 1]]).to_f32()
    }

    pub(crate) fn scale(&self, lane: usize) -> f32 {
        self.half(lane)
    }

    pub(crate) fn minimum(&self, lane: usize) -> Option<f32> {
        self.asymmetric().then(|| self.half(16 + lane))
    }

    pub(crate) fn value(&self, lane: usize, column: usize) -> f32 {
        let (d, u) = (self.scale(lane), self.code(lane, column) as f32);
        self.minimum(lane).map_or(d * u, |m| d.mul_add(u, m))
    }
}

/// The tiles of one row group.
pub(crate) fn tiles(format: Format, columns: usize, stride: usize, row_group: usize, data: &[u8]) -> Vec<Tile<'_>> {
    let row = &data[row_group * stride..][..columns.div_ceil(format.group()) * format.tile_bytes()];
    row.chunks_exact(format.tile_bytes()).map(|tile| Tile(format, tile)).collect()
}

/// One element of a product.
pub(crate) fn dot(tiles: &[Tile<'_>], lane: usize, x: &[Group]) -> f32 {
    let mut acc = 0.0f32;
    for (tile, x) in tiles.iter().zip(x) {
        let sum: i32 = x.q.iter().enumerate().map(|(i, &q)| tile.code(lane, i) * i32::from(q)).sum();
        acc = (tile.scale(lane) * x.d).mul_add(sum as f32, acc);
        if let Some(m) = tile.minimum(lane) {
            acc = m.mul_add(x.s, acc);
        }
    }
    acc
}

/// What a cache holds of one position's keys or values.
pub(crate) enum Cached {
    F16(Vec<f32>),
    I8(f32, Vec<i8>),
}

impl Cached {
    pub(crate) fn f16(x: &[f32]) -> Self {
        Self::F16(x.iter().map(|&x| f16::from_f32(x).to_f32()).collect())
    }

    pub(crate) fn i8(x: &[f32]) -> Self {
        let (d, q) = quantize_one(x);
        Self::I8(d, q)
    }

    fn score(&self, query: &[f32]) -> f32 {
        let scale = 1.0 / (query.len() as f32).sqrt();
        match self {
            Self::F16(key) => query.iter().zip(key).fold(0.0f32, |acc, (q, &k)| q.mul_add(k, acc)) * scale,
            Self::I8(d_k, key) => {
                let (d_q, q) = quantize_one(query);
                let sum: i32 = q.iter().zip(key).map(|(&q, &k)| i32::from(q) * i32::from(k)).sum();
                sum as f32 * (d_q * d_k) * scale
            }
        }
    }

    fn add_weighted(&self, p: f32, o: &mut [f32]) {
        for (j, o) in o.iter_mut().enumerate() {
            *o = match self {
                Self::F16(value) => p.mul_add(value[j], *o),
                Self::I8(d, value) => (p * d).mul_add(f32::from(value[j]), *o),
            };
        }
    }
}

/// Attention of one head over all positions.
pub(crate) fn attention(query: &[f32], keys: &[Cached], values: &[Cached]) -> Vec<f32> {
    let mut parts = Vec::new();
    for (keys, values) in keys.chunks(256).zip(values.chunks(256)) {
        let scores: Vec<f32> = keys.iter().map(|key| key.score(query)).collect();
        let m = scores.iter().fold(f32::NEG_INFINITY, |m, &s| m.max(s));
        let (mut lanes, mut o) = ([0.0f32; 16], vec![0.0f32; query.len()]);
        for (t, (s, value)) in scores.iter().zip(values).enumerate() {
            let p = exp(s - m);
            lanes[t % 16] += p;
            value.add_weighted(p, &mut o);
        }
        parts.push((m, fold(lanes), o));
    }
    let most = parts.iter().fold(f32::NEG_INFINITY, |most, part| most.max(part.0));
    let (mut sum, mut out) = (0.0f32, vec![0.0f32; query.len()]);
    for (m, l, o) in &parts {
        let w = exp(m - most);
        sum = l.mul_add(w, sum);
        out.iter_mut().zip(o).for_each(|(out, o)| *out = o.mul_add(w, *out));
    }
    out.iter().map(|o| o / sum).collect()
}

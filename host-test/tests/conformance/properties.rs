//! Raw bits of any kind, in shapes of any kind, on every instruction set against `Scalar`.
//!
//! Equality: any NaN equals any NaN. Payload and sign of a NaN depend on the order of operands of an instruction and
//! are not part of the contract. Where a kernel reports that something was not finite, its output is not compared.

use crate::contract::{Aligned, assert_bits, zero_block};
use crate::for_each_isa;
use pocket_kernels::ahead::Ahead;
use pocket_kernels::attention::{Attend, Queries, chunks, partial_len};
use pocket_kernels::cache::{CacheType, HeadCache};
use pocket_kernels::matmul::{Matmul, Then};
use pocket_kernels::norm::{Norm, NormQuantize};
use pocket_kernels::panel::Panel;
use pocket_kernels::quantize::{Activations, ActivationsMut, Quantize};
use pocket_kernels::reduce::ArgMax;
use pocket_kernels::tile::{Block, Block32, Block64};
use pocket_kernels::weights::{Format, Weights};
use pocket_kernels::{Kernels, Lanes, Scalar};
use proptest::collection::vec;
use proptest::prelude::*;

/// A f32 of any bits, those of special meaning often.
fn any_float() -> impl Strategy<Value = f32> {
    prop_oneof![
        6 => any::<u32>().prop_map(f32::from_bits),
        4 => -8.0f32..8.0,
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(-0.0),
    ]
}

/// As [`any_float`], but finite.
fn finite_float() -> impl Strategy<Value = f32> {
    any_float().prop_map(|x| if x.is_finite() { x } else { 1.5 })
}

fn block<B: Block>(q: &[i8], d: f32) -> B {
    let mut block: B = zero_block();
    block.q_mut().copy_from_slice(q);
    block.set(d, q.iter().map(|&q| i32::from(q)).sum());
    block
}

#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) format: Format,
    /// Of the other matrix; its groups are as large.
    pub(crate) up: Format,
    pub(crate) rows: usize,
    pub(crate) groups: usize,
    pub(crate) tokens: usize,
    pub(crate) then: u8,
    /// Row groups of the two matrices in turns.
    pub(crate) data: Vec<u8>,
    pub(crate) x: Vec<(Vec<i8>, f32)>,
    pub(crate) before: Vec<f32>,
}

/// Formats of two matrices that can be multiplied with the same activations.
pub(crate) fn pairs() -> Vec<(Format, Format)> {
    let pairs = Format::ALL.into_iter().flat_map(|format| Format::ALL.map(|up| (format, up)));
    pairs.filter(|(format, up)| format.group() == up.group()).collect()
}

/// Any bytes as tiles, so scales that are not finite too; activations of any scale; codes within their contract.
fn product() -> impl Strategy<Value = Product> {
    (prop::sample::select(pairs()), 1usize..40, 1usize..4, 1usize..10, 0u8..3).prop_flat_map(
        |((format, up), rows, groups, tokens, then)| {
            let bytes = rows.div_ceil(16) * groups * (format.tile_bytes() + up.tile_bytes());
            let x = vec((vec(-127i8..=127, format.group()), any_float()), tokens * groups);
            (vec(any::<u8>(), bytes), x, vec(any_float(), tokens * rows)).prop_map(move |(data, x, before)| Product {
                format,
                up,
                rows,
                groups,
                tokens,
                then,
                data,
                x,
                before,
            })
        },
    )
}

impl Product {
    pub(crate) fn run<K: Kernels>(&self, k: K) -> Vec<f32> {
        let columns = self.groups * self.format.group();
        let row_group = self.format.row_group_bytes(columns);
        let stride = row_group + self.up.row_group_bytes(columns);
        let view = |format, from| Weights::new(format, self.rows, columns, stride, &self.data[from..]);
        let weights = view(self.format, 0).expect("an interleaved matrix");
        let up = view(self.up, row_group).expect("the other");
        let then = [Then::Store, Then::Add, Then::SwiGlu(up)][usize::from(self.then)];
        let mut out = self.before.clone();
        let panel = Panel::whole(&mut out, self.rows);
        assert_eq!(panel.rows(), self.tokens);
        if self.format.group() == 64 {
            let x: Vec<Block64> = self.x.iter().map(|(q, d)| block(q, *d)).collect();
            k.matmul(Matmul { weights, x: Activations::G64(&x), row_group: 0, then, out: panel });
        } else {
            let x: Vec<Block32> = self.x.iter().map(|(q, d)| block(q, *d)).collect();
            k.matmul(Matmul { weights, x: Activations::G32(&x), row_group: 0, then, out: panel });
        }
        out
    }
}

/// What a quantising kernel gives: the codes, and the floats of each block; `None` if it says "not finite".
type Blocks = Option<(Vec<i8>, Vec<f32>)>;

fn quantized<L: Lanes>(l: L, x: &[f32], norm: Option<Norm<'_>>) -> Blocks {
    let mut out = vec![zero_block::<Block64>(); x.len().div_ceil(64)];
    let groups = ActivationsMut::G64(&mut out);
    let finite = match norm {
        Some(norm) => l.enter(NormQuantize { norm, x, out: groups }),
        None => l.enter(Quantize { x, out: groups }),
    };
    let floats = || out.iter().flat_map(|b| [b.d, b.s, b.sum as f32]).collect();
    finite.then(|| (out.iter().flat_map(|b| b.q).collect(), floats()))
}

#[derive(Clone, Debug)]
struct Cache {
    kind: CacheType,
    head_dim: usize,
    heads: usize,
    positions: usize,
    words: Vec<u32>,
    queries: Vec<f32>,
}

/// Any bits in the cache; binary16 infinities and NaN are rarer than in random bits, or no score would be finite.
fn cache() -> impl Strategy<Value = Cache> {
    let kind = prop_oneof![Just(CacheType::F16), Just(CacheType::I8)];
    (kind, prop::sample::select(&[32usize, 64, 96][..]), 1usize..6, 1usize..40, any::<bool>()).prop_flat_map(
        |(kind, head_dim, heads, positions, tame)| {
            let words = kind.head_bytes(head_dim, positions.next_multiple_of(16)) / 4;
            // Bit 14 of each half cleared: below 2, never NaN; as f32 scales below 2 as well.
            let mask = if tame { 0xbfff_bfff } else { u32::MAX };
            let queries = vec(if tame { (-4.0f32..4.0).boxed() } else { any_float().boxed() }, heads * head_dim);
            (vec(any::<u32>(), words), queries).prop_map(move |(words, queries)| Cache {
                kind,
                head_dim,
                heads,
                positions,
                words: words.into_iter().map(|w| w & mask).collect(),
                queries,
            })
        },
    )
}

impl Cache {
    fn run<L: Lanes>(&self, l: L) -> Option<Vec<f32>> {
        let (head_dim, positions) = (self.head_dim, self.positions);
        let mut memory = Aligned::new(self.words.len() * 4, 0);
        let bytes = memory.bytes();
        bytes.chunks_mut(4).zip(&self.words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
        let cache = HeadCache::new(self.kind, head_dim, positions.next_multiple_of(16), bytes).expect("such a cache");
        let queries = Queries { heads: &self.queries, head_dim, positions };
        let mut partials = vec![f32::NAN; chunks(positions) * self.heads * partial_len(head_dim)];
        l.enter(Attend { queries, cache, chunk: 0, ahead: Ahead::default(), partials: &mut partials })
            .then_some(partials)
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn products_of_any_bits_agree(product in product()) {
        let want = product.run(Scalar);
        macro_rules! same {
            ($lanes:expr) => { assert_bits(&product.run($lanes), &want, &"product"); };
        }
        for_each_isa!(same);
        // A token's result does not depend on its neighbours.
        let last = product.tokens - 1;
        let mut alone = product.clone();
        alone.tokens = 1;
        alone.x.drain(..last * product.groups);
        alone.before.drain(..last * product.rows);
        assert_bits(&alone.run(Scalar), &want[last * product.rows..], &"the last token alone");
    }

    #[test]
    fn activations_of_any_bits_are_judged_and_quantised_alike(
        x in (1usize..20).prop_flat_map(|n| vec(any_float(), n * 16)),
        weight in vec(finite_float(), 320),
        tame in any::<bool>(),
    ) {
        let x: Vec<f32> = x.iter().map(|&x| if tame && !x.is_finite() { 0.25 } else { x }).collect();
        let norm = Norm { weight: &weight[..x.len()], eps: 1e-6 };
        for norm in [None, Some(norm)] {
            let want = quantized(Scalar, &x, norm);
            if norm.is_none() {
                prop_assert_eq!(want.is_some(), x.iter().all(|x| x.is_finite()));
            }
            macro_rules! same {
                ($lanes:expr) => {
                    match (quantized($lanes, &x, norm), &want) {
                        (Some((q, floats)), Some((want_q, want_floats))) => {
                            prop_assert_eq!(&q, want_q);
                            assert_bits(&floats, want_floats, &"scales");
                        }
                        (got, want) => prop_assert_eq!(got.is_some(), want.is_some()),
                    }
                };
            }
            for_each_isa!(same);
        }
    }

    #[test]
    fn attention_over_any_bits_agrees(cache in cache()) {
        let want = cache.run(Scalar);
        macro_rules! same {
            ($lanes:expr) => {
                match (cache.run($lanes), &want) {
                    (Some(got), Some(want)) => assert_bits(&got, want, &"partials"),
                    (got, want) => prop_assert_eq!(got.is_some(), want.is_some()),
                }
            };
        }
        for_each_isa!(same);
    }

    #[test]
    fn the_largest_element_is_the_first_of_its_kind(
        x in prop_oneof![vec(any_float(), 0..20), vec(finite_float(), 0..100), vec((0i8..4).prop_map(f32::from), 0..100)],
    ) {
        let most = x.iter().fold(f32::NEG_INFINITY, |most, &x| most.max(x));
        let finite = x.iter().all(|x| x.is_finite());
        let want = if finite { x.iter().position(|&x| x == most) } else { None };
        macro_rules! same {
            ($lanes:expr) => { prop_assert_eq!($lanes.enter(ArgMax { x: &x }), want); };
        }
        for_each_isa!(same);
    }
}

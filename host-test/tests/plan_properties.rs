//! The memory plan, for every configuration and limit that the types can hold: sound where there is one, and every size
//! in it what another computation gives, whose numbers have no end.

use pocket_runtime::plan::{ALIGN, NamedRegion, Phase};
use pocket_runtime::{CacheType, Config, Group, Groups, Limits, Plan, PlanError};
use proptest::prelude::*;

/// Bytes of every region in the order of the plan, in 128 bits: the largest product of four 32-bit numbers fits.
fn sizes(config: &Config, limits: &Limits) -> [(Phase, u128); 16] {
    use Phase::{Always, Attention, FeedForward, Head, Text};
    let Config { layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary, .. } = *config;
    let [layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary] =
        [layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary].map(u128::from);
    let [context, batch, workers, word] =
        [limits.context, limits.batch, limits.workers, limits.word_bytes].map(u128::from);
    // A group of activations has a byte for each, a scale and a sum, and whole vectors of 16 bytes.
    let quantised = |group: Group, width: u128| match group {
        Group::G32 => width.div_ceil(32) * 48,
        Group::G64 => width.div_ceil(64) * 80,
    };
    let cached = match limits.cache {
        CacheType::F16 => 2 * head_dim,
        CacheType::I8 => head_dim + 4,
    };
    let (q, kv) = (heads * head_dim, kv_heads * head_dim);
    let groups = &config.groups;
    // A chunk has 256 positions, and its result a head and 16 floats; room is for one KV head a worker, or for all.
    let partials = context.div_ceil(256) * (heads / kv_heads) * (head_dim + 16) * 4;
    [
        (Always, layers * kv_heads * 2 * cached * context.next_multiple_of(16)),
        (Always, context * 4),
        (Always, batch * hidden * 4),
        (Always, batch * head_dim * 4),
        (Always, vocabulary * 4),
        (Attention, batch * quantised(groups.qkv, hidden).max(quantised(groups.attention_output, q))),
        (Attention, batch * q * 4),
        (Attention, batch * kv * 4),
        (Attention, batch * kv * 4),
        (Attention, partials * workers.max(kv_heads)),
        (FeedForward, batch * quantised(groups.gate_up, hidden)),
        (FeedForward, batch * ffn * 4),
        (FeedForward, batch * quantised(groups.down, ffn)),
        (Head, quantised(groups.head, hidden)),
        (Head, vocabulary * 8),
        // Five words for each byte of the longest word.
        (Text, word * 5 * 4),
    ]
}

/// Bytes of a phase, each region padded.
fn padded(sizes: &[(Phase, u128)], phase: Phase) -> u128 {
    sizes.iter().filter(|(of, _)| *of == phase).map(|(_, bytes)| bytes.next_multiple_of(ALIGN as u128)).sum()
}

/// Bytes of the arena.
fn arena(config: &Config, limits: &Limits) -> u128 {
    let sizes = sizes(config, limits);
    let largest = Phase::OVERLAPPING.map(|phase| padded(&sizes, phase)).into_iter().max().expect("four phases");
    padded(&sizes, Phase::Always) + largest
}

/// Whether limits are possible for a model, whatever they take.
fn possible(config: &Config, limits: &Limits) -> bool {
    (1..=config.context).contains(&limits.context)
        && (1..=limits.context).contains(&limits.batch)
        && (1..=256).contains(&limits.workers)
}

/// A plan is there if the model can be run, the limits are possible and the arena has addresses; then it is sound.
fn check_all(config: &Config, limits: &Limits) {
    let plan = Plan::try_new(config, limits);
    match (config.check(), possible(config, limits)) {
        (Err(reason), _) => assert_eq!(plan.err(), Some(PlanError::Config { reason })),
        (Ok(()), false) => assert!(matches!(
            plan,
            Err(PlanError::Context { .. } | PlanError::Batch { .. } | PlanError::Workers { .. })
        )),
        (Ok(()), true) if arena(config, limits) > isize::MAX as u128 => {
            assert_eq!(plan.err(), Some(PlanError::TooLarge));
        }
        (Ok(()), true) => check(&plan.expect("limits that are possible and have addresses")),
    }
}

/// What a plan promises: aligned regions inside the arena, apart unless their phases take turns, and no byte more than
/// what persists and the largest phase need.
fn check(plan: &Plan) {
    let regions = plan.regions();
    let end = |region: &NamedRegion| region.offset.checked_add(region.bytes).expect("no region wraps around");
    for (i, region) in regions.iter().enumerate() {
        assert!(region.offset.is_multiple_of(ALIGN), "{region:?}");
        assert!(end(region) <= plan.arena_bytes(), "{region:?}");
        match region.phase {
            Phase::Always => assert!(end(region) <= plan.scratch_offset(), "{region:?}"),
            _ => assert!(region.offset >= plan.scratch_offset(), "{region:?}"),
        }
        for other in &regions[..i] {
            let together = region.phase == other.phase || [region.phase, other.phase].contains(&Phase::Always);
            let apart = end(region) <= other.offset || end(other) <= region.offset;
            assert!(!together || apart || region.bytes == 0 || other.bytes == 0, "{region:?} and {other:?} overlap");
        }
    }
    let sizes = sizes(plan.config(), plan.limits());
    let found = regions.map(|region| (region.phase, region.bytes as u128));
    assert_eq!(found, sizes, "{:?}, {:?}", plan.config(), plan.limits());
    assert_eq!(plan.scratch_offset() as u128, padded(&sizes, Phase::Always));
    assert_eq!(plan.arena_bytes() as u128, arena(plan.config(), plan.limits()));
    let furthest = regions.iter().map(end).max().expect("sixteen regions");
    assert!(plan.arena_bytes() - furthest < ALIGN, "the arena ends at {furthest}, or a line behind");
    assert_eq!(plan.peak_bytes(1000), plan.arena_bytes().saturating_add(plan.stack_bytes() + 1000));
    for phase in Phase::OVERLAPPING {
        assert!(plan.phase_bytes(phase) <= plan.arena_bytes() - plan.scratch_offset());
    }
}

fn group() -> impl Strategy<Value = Group> {
    prop_oneof![Just(Group::G32), Just(Group::G64)]
}

/// Numbers at and around every bound, and any.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        0..=40u32,
        (0..=32u32).prop_map(|n| n * 32),
        (0..=31u32, -1..=1i32).prop_map(|(n, d)| (1u32 << n).wrapping_add_signed(d)),
        Just(u32::MAX),
        any::<u32>(),
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    let numbers = proptest::array::uniform8(number());
    (numbers, any::<f32>(), any::<[bool; 2]>(), proptest::array::uniform5(group())).prop_map(|(n, eps, flags, g)| {
        let [layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary, context] = n;
        let [qkv, attention_output, gate_up, down, head] = g;
        let groups = Groups { qkv, attention_output, gate_up, down, head };
        let [qk_norm, tied] = flags;
        let rms_eps = eps;
        Config { layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary, context, rms_eps, qk_norm, tied, groups }
    })
}

/// Shapes that the kernels can run, up to the largest.
fn good_config() -> impl Strategy<Value = Config> {
    let wide = || prop_oneof![1..=64u32, (1..=15u32).prop_map(|n| 1 << n), Just(1 << 15)].prop_map(|n| n * 32);
    let heads = (1..=32u32, 1..=32u32, 1..=8u32);
    let large = || prop_oneof![1..=5000u32, Just(1 << 24), 1..=1u32 << 24];
    let groups = proptest::array::uniform5(group());
    (1..=1024u32, [wide(), wide()], heads, [large(), large()], groups, any::<[bool; 2]>()).prop_map(
        |(layers, [hidden, ffn], (kv_heads, per_kv, head), [vocabulary, context], g, [qk_norm, tied])| {
            let [qkv, attention_output, gate_up, down, head_group] = g;
            Config {
                layers,
                hidden,
                heads: kv_heads * per_kv,
                kv_heads,
                head_dim: head * 32,
                ffn,
                vocabulary,
                context,
                rms_eps: 1e-6,
                qk_norm,
                tied,
                groups: Groups { qkv, attention_output, gate_up, down, head: head_group },
            }
        },
    )
}

fn cache() -> impl Strategy<Value = CacheType> {
    prop_oneof![Just(CacheType::F16), Just(CacheType::I8)]
}

fn any_limits() -> impl Strategy<Value = Limits> {
    (proptest::array::uniform4(number()), cache()).prop_map(|([context, batch, workers, word_bytes], cache)| Limits {
        context,
        batch,
        workers,
        cache,
        word_bytes,
    })
}

/// A shape and limits that fit it: context and batch as shares of what is possible.
fn fitting() -> impl Strategy<Value = (Config, Limits)> {
    let share = || prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0];
    (good_config(), [share(), share()], 1..=256u32, cache(), number()).prop_map(
        |(config, [context, batch], workers, cache, word_bytes)| {
            let part = |most: u32, share: f64| 1 + ((most - 1) as f64 * share) as u32;
            let context = part(config.context, context);
            (config, Limits { context, batch: part(context, batch), workers, cache, word_bytes })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_numbers_make_a_plan_panic(config in any_config(), limits in any_limits()) {
        check_all(&config, &limits);
    }

    #[test]
    fn no_limits_make_a_plan_of_a_good_model_panic(config in good_config(), limits in any_limits()) {
        prop_assert_eq!(config.check(), Ok(()));
        check_all(&config, &limits);
    }

    #[test]
    fn limits_that_fit_give_a_sound_plan((config, limits) in fitting()) {
        prop_assert!(possible(&config, &limits));
        check_all(&config, &limits);
        match Plan::try_new(&config, &limits) {
            Ok(plan) => prop_assert_eq!((plan.config(), plan.limits()), (&config, &limits)),
            // Even the largest have addresses of 64 bits.
            Err(error) => prop_assert!(usize::BITS < 64 && error == PlanError::TooLarge),
        }
    }

    #[test]
    fn more_of_anything_never_takes_less((config, limits) in fitting()) {
        let arena = |limits: &Limits| Plan::try_new(&config, limits).map(|plan| plan.arena_bytes());
        let Ok(bytes) = arena(&limits) else { return Ok(()) };
        let more = [
            Limits { context: limits.context + 1, ..limits },
            Limits { context: limits.context.saturating_mul(2).min(config.context), ..limits },
            Limits { batch: limits.batch + 1, ..limits },
            Limits { batch: limits.context, ..limits },
            Limits { workers: limits.workers + 1, ..limits },
            Limits { workers: 256, ..limits },
            Limits { word_bytes: limits.word_bytes.saturating_add(1000), ..limits },
        ];
        for more in more {
            match arena(&more) {
                Ok(larger) => prop_assert!(larger >= bytes, "{:?}: {} < {}", more, larger, bytes),
                Err(PlanError::TooLarge) => {}
                Err(PlanError::Context { .. }) => prop_assert!(more.context > config.context),
                Err(PlanError::Batch { .. }) => prop_assert!(more.batch > more.context),
                Err(error) => prop_assert_eq!(error, PlanError::Workers { workers: 257 }),
            }
        }
        let smaller = Plan::try_new(&config, &Limits { cache: CacheType::I8, ..limits }).map(|plan| plan.arena_bytes());
        prop_assert!(smaller.is_ok_and(|smaller| smaller <= bytes));
    }
}

#[test]
fn the_largest_numbers_have_a_plan() {
    // 2²⁴ tokens at once through 2²⁰ feed-forward elements, and a word of 4 GiB, still have addresses; the cache of
    // 1024 layers of 1024 heads of 256 · 2 · 2 bytes and 2²⁴ positions has 2⁵⁴ bytes, and that is no overflow either.
    let groups = Groups {
        qkv: Group::G32,
        attention_output: Group::G32,
        gate_up: Group::G32,
        down: Group::G32,
        head: Group::G32,
    };
    let widest = Config {
        layers: 1024,
        hidden: 1 << 20,
        heads: 1024,
        kv_heads: 1024,
        head_dim: 256,
        ffn: 1 << 20,
        vocabulary: 1 << 24,
        context: 1 << 24,
        rms_eps: 1e-6,
        qk_norm: true,
        tied: true,
        groups,
    };
    let most = Limits { context: 1 << 24, batch: 1 << 24, workers: 256, cache: CacheType::F16, word_bytes: u32::MAX };
    check_all(&widest, &most);
    let cache = Plan::try_new(&widest, &most).map(|plan| plan.regions()[0].bytes as u64);
    assert_eq!(cache, if usize::BITS == 64 { Ok(1 << 54) } else { Err(PlanError::TooLarge) });
    // More of anything is refused, and nothing that is computed before that overflows.
    let more = Limits { context: u32::MAX, batch: u32::MAX, workers: u32::MAX, ..most };
    check_all(&widest, &more);
    check_all(&Config { vocabulary: u32::MAX, context: u32::MAX, heads: u32::MAX, kv_heads: 1, ..widest }, &more);
}

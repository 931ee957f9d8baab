//! The memory plan: equal to what one computes by hand, and an error with a name where there is none.

use pocket_host_test::models::fixture;
use pocket_host_test::{images, plans};
use pocket_kernels::Scalar;
use pocket_runtime::plan::{NamedRegion, Phase};
use pocket_runtime::{
    Arena, CacheType, Config, ConfigError, Group, Groups, Image, Limits, Plan, PlanError, Session, SessionError, Single,
};

const G32: Groups = groups(Group::G32);
const G64: Groups = groups(Group::G64);

const fn groups(group: Group) -> Groups {
    Groups { qkv: group, attention_output: group, gate_up: group, down: group, head: group }
}

/// MNN-Pocket's shape, its groups of 64 kept.
const POCKET: Config = Config {
    layers: 28,
    hidden: 896,
    heads: 14,
    kv_heads: 2,
    head_dim: 64,
    ffn: 2560,
    vocabulary: 65536,
    context: 40960,
    rms_eps: 1e-6,
    qk_norm: true,
    tied: true,
    groups: G64,
};

/// SmolLM2-135M's shape from a Q4_1 file.
const SMOLLM2: Config = Config {
    layers: 30,
    hidden: 576,
    heads: 9,
    kv_heads: 3,
    head_dim: 64,
    ffn: 1536,
    vocabulary: 49152,
    context: 8192,
    rms_eps: 1e-5,
    qk_norm: false,
    tied: true,
    groups: G32,
};

/// The shape of `tiny-qwen3-q4_0`, for a plan that is a constant.
const TINY: Config = Config {
    layers: 3,
    hidden: 128,
    heads: 4,
    kv_heads: 2,
    head_dim: 32,
    ffn: 192,
    vocabulary: 1024,
    context: 512,
    rms_eps: 1e-6,
    qk_norm: true,
    tied: true,
    groups: G32,
};
const LIMITS: Limits = Limits { context: 40, batch: 8, workers: 1, cache: CacheType::F16, word_bytes: 64 };
const PLAN: Plan = Plan::new(&TINY, &LIMITS);
/// Nothing but the plan decides how much memory the program has.
static ARENA: Arena<{ PLAN.arena_bytes() }> = Arena::new();

/// The promise to those who embed MNN-Pocket, kept by the compiler: its image of 173 MB, 4,096 positions, four workers.
const _: () = assert!(
    Plan::new(&POCKET, &Limits { workers: 4, ..Limits::new(4096) }).peak_bytes(173_000_000) <= 300_000_000,
    "more than 300 MB"
);

fn limits(context: u32, batch: u32, workers: u32, cache: CacheType) -> Limits {
    Limits { context, batch, workers, cache, word_bytes: 4096 }
}

fn bytes(plan: &Plan, phase: Phase, name: &str) -> usize {
    let of = |region: &&NamedRegion| region.phase == phase && region.name == name;
    plan.regions().iter().find(of).unwrap_or_else(|| panic!("no region {name}")).bytes
}

fn bytes_of_cache(plan: &Plan) -> usize {
    bytes(plan, Phase::Always, "attention cache")
}

#[test]
fn errors_name_the_limit() {
    let plan = |limits: Limits| Plan::try_new(&POCKET, &limits).map(|plan| plan.arena_bytes());
    let good = limits(2048, 64, 2, CacheType::F16);
    assert!(plan(good).is_ok());
    for context in [0, 40961, u32::MAX] {
        assert_eq!(plan(Limits { context, ..good }), Err(PlanError::Context { context, most: 40960 }));
    }
    for batch in [0, 2049, u32::MAX] {
        assert_eq!(plan(Limits { batch, ..good }), Err(PlanError::Batch { batch, most: 2048 }));
    }
    for workers in [0, 257, u32::MAX] {
        assert_eq!(plan(Limits { workers, ..good }), Err(PlanError::Workers { workers }));
    }
    assert!(plan(limits(40960, 40960, 256, CacheType::F16)).is_ok());
    assert!(plan(limits(1, 1, 1, CacheType::I8)).is_ok());
    let sentence = PlanError::Context { context: 41000, most: 40960 }.to_string();
    assert_eq!(sentence, "a context of 41000 positions was asked for; the model can have 1 to 40960");
}

#[test]
fn shapes_that_kernels_lack_are_named() {
    let error = |config: Config| match Plan::try_new(&config, &Limits::new(16)) {
        Err(PlanError::Config { reason }) => reason,
        other => panic!("{other:?}"),
    };
    let base = POCKET;
    for layers in [0, 1025, u32::MAX] {
        assert_eq!(error(Config { layers, ..base }), ConfigError::Layers { layers });
    }
    for hidden in [0, 16, 33, (1 << 20) + 32, u32::MAX] {
        assert_eq!(error(Config { hidden, ..base }), ConfigError::Hidden { hidden });
    }
    for ffn in [0, 31, (1 << 20) + 32, u32::MAX] {
        assert_eq!(error(Config { ffn, ..base }), ConfigError::Ffn { ffn });
    }
    for head_dim in [0, 16, 80, 288, u32::MAX] {
        assert_eq!(error(Config { head_dim, ..base }), ConfigError::HeadDim { head_dim });
    }
    for (heads, kv_heads) in [(0, 1), (14, 0), (14, 4), (1025, 1), (2, 4), (u32::MAX, u32::MAX)] {
        assert_eq!(error(Config { heads, kv_heads, ..base }), ConfigError::Heads { heads, kv_heads });
    }
    for vocabulary in [0, (1 << 24) + 1, u32::MAX] {
        assert_eq!(error(Config { vocabulary, ..base }), ConfigError::Vocabulary { vocabulary });
    }
    for context in [0, (1 << 24) + 1, u32::MAX] {
        assert_eq!(error(Config { context, ..base }), ConfigError::Context { context });
    }
    for rms_eps in [-1e-6, 1.0, f32::NAN, f32::INFINITY] {
        assert_eq!(error(Config { rms_eps, ..base }), ConfigError::RmsEps);
    }
}

#[test]
fn a_constant_that_cannot_be_says_why() {
    // In a constant these are compile errors with the same words.
    let message = |config: Config, limits: Limits| {
        let panic = std::panic::catch_unwind(|| Plan::new(&config, &limits)).expect_err("no such plan");
        *panic.downcast::<&str>().expect("words that are there at compile time")
    };
    let good = limits(64, 8, 1, CacheType::F16);
    for (config, limits, words) in [
        (Config { kv_heads: 3, ..TINY }, good, "query heads must be a multiple of KV heads"),
        (Config { head_dim: 48, ..TINY }, good, "the head size must be a multiple of 32, at most 256"),
        (Config { hidden: 100, ..TINY }, good, "the hidden size must be a multiple of 32"),
        (Config { ffn: 100, ..TINY }, good, "the feed-forward size must be a multiple of 32"),
        (Config { vocabulary: 0, ..TINY }, good, "the model's configuration is out of range"),
        (TINY, Limits { context: 0, ..good }, "the context must be 1 to what the model was trained for"),
        (TINY, Limits { batch: 65, ..good }, "the batch must be 1 to the context"),
        (TINY, Limits { workers: 0, ..good }, "the workers must be 1 to 256"),
    ] {
        assert_eq!(message(config, limits), words);
    }
}

#[test]
fn pockets_arena_is_what_one_counts() {
    // A context of 2048, batches of 64, two workers. A block of 64 activations has 80 bytes.
    //
    // always     cache         28 layers · 2 heads · 2 (key, value) · 2048 · 64 · 2 bytes = 29 360 128
    //                          int8: 28 · 2 · 2 · 2048 · (64 + 4)                         = 15 597 568
    //            tokens        2048 · 4                                                   =      8 192
    //            hidden        64 · 896 · 4                                               =    229 376
    //            rotations     64 · 64 · 4                                                =     16 384
    //            logits        65 536 · 4                                                 =    262 144
    //                          without the cache                                               516 096
    // attention  blocks        64 · 14 · 80                                               =     71 680
    //            queries       64 · 14 · 64 · 4                                           =    229 376
    //            keys, values  2 · 64 · 2 · 64 · 4                                        =     65 536
    //            partials      2 rooms · 8 chunks · 7 heads · (64 + 16) · 4               =     35 840
    // ffn        blocks        64 · 14 · 80                                               =     71 680
    //            gate · up     64 · 2560 · 4                                              =    655 360
    //            its blocks    64 · 40 · 80                                               =    204 800
    //                                                                                          931 840, the largest
    // head       blocks        14 · 80                                                    =      1 120, padded 1 152
    //            candidates    65 536 · 8                                                 =    524 288
    let plan = |cache| Plan::new(&POCKET, &limits(2048, 64, 2, cache));
    let f16 = plan(CacheType::F16);
    assert_eq!(f16.arena_bytes(), 29_360_128 + 516_096 + 931_840);
    assert_eq!(f16.phase_bytes(Phase::Attention), 71_680 + 229_376 + 65_536 + 35_840);
    assert_eq!(f16.phase_bytes(Phase::FeedForward), 931_840);
    assert_eq!(f16.phase_bytes(Phase::Head), 1_152 + 524_288);
    assert_eq!(plan(CacheType::I8).arena_bytes(), 15_597_568 + 516_096 + 931_840);
    // What the file itself says, 40 960 positions, would take 587 MB: a context is always chosen.
    assert_eq!(bytes_of_cache(&Plan::new(&POCKET, &limits(40960, 64, 2, CacheType::F16))), 587_202_560);
}

#[test]
fn smollm2s_arena_is_what_one_counts() {
    // A context of 2048, batches of 64, two workers. A block of 32 activations has 48 bytes.
    //
    // always     cache         30 · 3 · 2 · 2048 · 64 · 2                                 = 47 185 920
    //                          int8: 30 · 3 · 2 · 2048 · 68                               = 25 067 520
    //            tokens        2048 · 4                                                   =      8 192
    //            hidden        64 · 576 · 4                                               =    147 456
    //            rotations     64 · 64 · 4                                                =     16 384
    //            logits        49 152 · 4                                                 =    196 608
    //                          without the cache                                               368 640
    // attention  blocks        64 · 18 · 48                                               =     55 296
    //            queries       64 · 9 · 64 · 4                                            =    147 456
    //            keys, values  2 · 64 · 3 · 64 · 4                                        =     98 304
    //            partials      3 rooms · 8 chunks · 3 heads · 80 · 4                      =     23 040
    // ffn        blocks        64 · 18 · 48                                               =     55 296
    //            gate · up     64 · 1536 · 4                                              =    393 216
    //            its blocks    64 · 48 · 48                                               =    147 456
    //                                                                                          595 968, the largest
    let plan = |cache| Plan::new(&SMOLLM2, &limits(2048, 64, 2, cache));
    let f16 = plan(CacheType::F16);
    assert_eq!(f16.arena_bytes(), 47_185_920 + 368_640 + 595_968);
    assert_eq!(f16.phase_bytes(Phase::Attention), 55_296 + 147_456 + 98_304 + 23_040);
    assert_eq!(f16.phase_bytes(Phase::FeedForward), 595_968);
    assert_eq!(plan(CacheType::I8).arena_bytes(), 25_067_520 + 368_640 + 595_968);
}

#[test]
fn the_plans_of_reference_shapes_are_pinned() {
    let pinned = std::fs::read_to_string(fixture("plans.txt")).unwrap();
    let now = plans::table();
    for (number, (pinned, now)) in (1..).zip(pinned.lines().zip(now.lines())) {
        assert_eq!(now, pinned, "line {number} of fixtures/plans.txt: memory changed; see examples/pin.rs");
    }
    assert_eq!(now, pinned);
}

#[test]
fn a_cache_is_counted_in_whole_tiles() {
    let cache = |context| bytes_of_cache(&Plan::new(&TINY, &limits(context, 1, 1, CacheType::F16)));
    // 3 layers · 2 heads · 2 · 32 · 2 bytes a position; 16 positions a tile.
    for (context, positions) in [(1, 16), (15, 16), (16, 16), (17, 32), (500, 512)] {
        assert_eq!(cache(context), 768 * positions, "{context}");
    }
}

#[test]
fn text_takes_scratch_only_if_there_is_text() {
    let plan = |word_bytes| Plan::new(&TINY, &Limits { word_bytes, ..LIMITS });
    assert_eq!(bytes(&plan(0), Phase::Text, "tokenizer"), 0);
    let (short, long) = (bytes(&plan(64), Phase::Text, "tokenizer"), bytes(&plan(6400), Phase::Text, "tokenizer"));
    assert!(short >= 64 && long == 100 * short, "{short}, {long}");
}

#[test]
fn the_table_shows_every_region() {
    let table = PLAN.to_string();
    for region in PLAN.regions() {
        let row = |line: &str| {
            let mut numbers = line.split_whitespace().rev();
            line.contains(region.name)
                && line.starts_with(region.phase.name())
                && numbers.next() == Some(&region.bytes.to_string())
                && numbers.next() == Some(&region.offset.to_string())
        };
        assert!(table.lines().any(row), "{region:?} is not in\n{table}");
    }
    let mut last = table.lines().rev();
    for (name, bytes) in [("stacks", PLAN.stack_bytes()), ("arena", PLAN.arena_bytes())] {
        let line = last.next().unwrap();
        assert!(line.starts_with(name) && line.ends_with(&bytes.to_string()), "{line}");
    }
}

#[test]
fn a_model_runs_in_an_arena_sized_by_a_constant() {
    let image = Image::open(images::image("tiny-qwen3-q4_0")).unwrap();
    assert_eq!(image.config(), &TINY, "the constant is this model's shape");
    let memory = ARENA.take().expect("nobody else takes it");
    assert_eq!(memory.len(), PLAN.arena_bytes());
    // A byte less is an error and no shorter context.
    let less = memory.len() - 1;
    let error = Session::new(&image, &PLAN, &mut memory[..less], Scalar, &Single).unwrap_err();
    assert_eq!(error, SessionError::ArenaTooSmall { need: less as u64 + 1, have: less as u64 });

    let mut session = Session::new(&image, &PLAN, memory, Scalar, &Single).unwrap();
    let ids: Vec<u32> = (0..40).map(|i| i * 25).collect();
    session.prefill(&ids).unwrap();
    assert_eq!(session.room(), 0);
    assert!(session.logits().unwrap().iter().all(|x| x.is_finite()));
    assert!(ARENA.take().is_none());
}

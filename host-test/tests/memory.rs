//! Memory is counted, not guessed: nothing is allocated once a session exists, and an arena is used to its last byte
//! and no further.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pocket_host_test::EMULATED;
use pocket_host_test::golden::tokens;
use pocket_host_test::images::{self, AlignedBytes};
use pocket_host_test::models::{SMOLLM2, TINY};
use pocket_host_test::session::{Steps, Way, open};
use pocket_host_test::trap::{self, allocations, watched};
use pocket_pack::isa::Isa;
use pocket_pack::pool::Pool;
use pocket_runtime::plan::Phase;
use pocket_runtime::text::Specials;
use pocket_runtime::{CacheType, Image, Limits, Plan, Sampler, Sampling, SessionError, Workers};

#[global_allocator]
static ALLOCATOR: trap::Counting = trap::Counting;

/// One test at a time: the counter is everybody's.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_trap_works() {
    let _alone = alone();
    assert_eq!(allocations(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(10)))), 1);
    let workers = watched(2);
    let on_a_thread = allocations(|| {
        workers.run(&|i| {
            if i == 1 {
                drop(std::hint::black_box(vec![0u8; 10]));
            }
        });
    });
    assert_eq!(on_a_thread, 1);
}

/// Everything a session can do, to the last position of its context.
fn use_up(session: &mut dyn Steps, image: &Image<'_>, ids: &[u32]) {
    let tokenizer = image.tokenizer().unwrap();
    let sampling = Sampling { temperature: 0.8, top_p: 0.95, repetition_penalty: 1.1, ..Sampling::GREEDY };
    let mut sampler = Sampler::new(sampling, 1).unwrap();
    // A word as long as was planned for, twice: once too long, once not.
    let word = "x".repeat(100);
    session.prefill_text(&tokenizer, &word, Specials::AsText).unwrap();
    session.rewind(1).unwrap();
    let half = session.room() / 2;
    session.prefill(&ids[..half]).unwrap();
    session.prefill_each(&ids[..2], &mut |_, row| assert!(row[0].is_finite())).unwrap();
    while session.room() > 0 {
        let id = session.sample(&mut sampler).unwrap();
        session.decode(id).unwrap();
    }
    session.sample(&mut sampler).unwrap();
    session.reset();
    session.prefill(ids).unwrap();
    session.sample(&mut sampler).unwrap();
}

#[test]
fn nothing_is_allocated_after_the_session_is_made() {
    let _alone = alone();
    for cache in [CacheType::F16, CacheType::I8] {
        for isa in Isa::available() {
            let image = Image::open(images::image("tiny-qwen3-q4_1")).unwrap();
            let way = Way { isa, workers: 2, batch: 7, cache, context: 300 };
            let plan = way.plan(&image);
            let mut arena = AlignedBytes::filled(0, plan.arena_bytes());
            let workers = watched(2);
            let ids = tokens("tiny-qwen3-q4_1");
            let mut session = open(&image, (&plan, isa), &mut arena, &workers).unwrap();
            // The word is the test's own string, and the only allocation that is not the session's.
            let own = allocations(|| drop(std::hint::black_box("x".repeat(100))));
            assert_eq!(allocations(|| use_up(&mut *session, &image, &ids)), own, "{way:?}");
        }
    }
}

/// Offset behind the last byte that differs from `poison`.
fn high_water(arena: &[u8], poison: u8) -> usize {
    arena.iter().rposition(|&byte| byte != poison).map_or(0, |last| last + 1)
}

#[test]
fn the_plan_is_what_is_used() {
    let _alone = alone();
    // In turn the feed-forward phase, attention and the head are the largest.
    let ways = [
        Way { batch: 64, ..Way::new(300) },
        Way { batch: 1, workers: 3, ..Way::new(4096) },
        Way { batch: 1, ..Way::new(300) },
        Way { batch: 7, workers: 2, cache: CacheType::I8, ..Way::new(300) },
    ];
    let models = if EMULATED { &TINY[..1] } else { &TINY[..] };
    for (name, way) in models.iter().flat_map(|&name| ways.map(|way| (name, way))) {
        let image = Image::open(images::image(name)).unwrap();
        let context = way.context.min(image.config().context);
        let way = Way { context, ..way };
        let plan = Plan::try_new(image.config(), &Limits { word_bytes: 100, ..way.limits() }).unwrap();
        let margin = 1000;
        let mut results = Vec::new();
        for poison in [0x00, 0xa5, 0xff] {
            let mut arena = AlignedBytes::filled(poison, plan.arena_bytes() + margin);
            let workers = Pool::new(way.workers as usize).unwrap();
            let ids: Vec<u32> = tokens(name).into_iter().cycle().take(context as usize).collect();
            {
                let mut session = open(&image, (&plan, way.isa), &mut arena, &workers).unwrap();
                use_up(&mut *session, &image, &ids);
                results.push(session.logits().unwrap().to_vec());
            }
            let used = high_water(&arena, poison);
            let largest = Phase::OVERLAPPING.map(|phase| plan.phase_bytes(phase)).into_iter().max().unwrap();
            let planned = plan.scratch_offset() + largest;
            assert!(used <= planned, "{name}, {way:?}: {used} of {planned} bytes: written beyond the plan");
            // The last words may hold what the poison is, or be padding of a region.
            assert!(planned - used < 64, "{name}, {way:?}: {used} of {planned} bytes: planned but not used");
        }
        // Nothing is read before it is written.
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{name}, {way:?}: what was in the arena shows");
    }
}

#[test]
fn every_region_is_used() {
    let _alone = alone();
    let image = Image::open(images::image("tiny-qwen3-q4_1")).unwrap();
    let way = Way { batch: 64, ..Way::new(300) };
    let plan = way.plan(&image);
    for region in plan.regions().into_iter().filter(|region| region.phase == Phase::Always) {
        let mut arena = AlignedBytes::filled(0xa5, plan.arena_bytes());
        let ids = tokens("tiny-qwen3-q4_1");
        let workers = Pool::new(1).unwrap();
        open(&image, (&plan, way.isa), &mut arena, &workers).unwrap().prefill(&ids).unwrap();
        let bytes = &arena[region.offset..region.offset + region.bytes];
        let touched = bytes.chunks(64).filter(|line| line.iter().any(|&byte| byte != 0xa5)).count();
        assert!(touched * 64 >= bytes.len() / 2, "{}: {touched} lines of {} bytes", region.name, bytes.len());
    }
}

#[test]
fn an_arena_that_does_not_fit_is_refused() {
    let _alone = alone();
    let image = Image::open(images::image("tiny-qwen3-q4_1")).unwrap();
    let plan = Way::new(64).plan(&image);
    let need = plan.arena_bytes();
    let mut arena = AlignedBytes::filled(0, need + 64);
    let workers = Pool::new(2).unwrap();
    let single = Pool::new(1).unwrap();
    let mut refused = |from: usize, len: usize, workers| {
        open(&image, (&plan, Isa::Scalar), &mut arena[from..from + len], workers).err()
    };
    assert_eq!(
        refused(0, need - 1, &single),
        Some(SessionError::ArenaTooSmall { need: need as u64, have: need as u64 - 1 })
    );
    assert_eq!(refused(0, 0, &single), Some(SessionError::ArenaTooSmall { need: need as u64, have: 0 }));
    assert_eq!(refused(16, need, &single), Some(SessionError::ArenaMisaligned { remainder: 16 }));
    assert_eq!(refused(0, need, &workers), Some(SessionError::TooManyWorkers { have: 2, planned: 1 }));
    assert_eq!(refused(0, need, &single), None);
    let other = Way::new(64).plan(&Image::open(images::image("tiny-qwen3-q8_0")).unwrap());
    let q4_1 = open(&image, (&other, Isa::Scalar), &mut arena, &single).err();
    assert_eq!(q4_1, None, "the same shape in the same groups is the same plan");
    let smollm2 = Image::open(images::image(SMOLLM2)).unwrap();
    assert_eq!(open(&smollm2, (&plan, Isa::Scalar), &mut arena, &single).err(), Some(SessionError::OtherModel));
}

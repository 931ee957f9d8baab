//! A step that is cancelled says how far it came, and nothing else can be seen of it afterwards.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pocket_host_test::golden::tokens;
use pocket_host_test::images::{self, AlignedBytes};
use pocket_host_test::models::TINY;
use pocket_host_test::session::{Steps, Way, logits, open, with};
use pocket_kernels::Scalar;
use pocket_pack::pool::Pool;
use pocket_runtime::generate::{Ending, Until};
use pocket_runtime::text::StopStrings;
use pocket_runtime::{Image, Sampler, Sampling, Session, StepError, Workers};

/// Shared stages of the longest stretch between two looks at the flag: the attention half of a layer.
const MOST_STAGES: usize = 6;
/// No stage.
const NEVER: usize = usize::MAX;

fn tiny() -> Image<'static> {
    Image::open(images::image(TINY[4])).unwrap()
}

/// Two workers on one thread, who set a flag when a stage begins, as an interrupt would.
struct Interrupted {
    stages: AtomicUsize,
    at: AtomicUsize,
    flag: AtomicBool,
}

impl Interrupted {
    fn new() -> Self {
        Self { stages: AtomicUsize::new(0), at: AtomicUsize::new(NEVER), flag: AtomicBool::new(false) }
    }

    /// Sets the flag at this stage from now on.
    fn after(&self, stages: usize) {
        self.flag.store(false, Ordering::Relaxed);
        self.at.store(stages, Ordering::Relaxed);
        self.stages.store(0, Ordering::Relaxed);
    }

    fn stages(&self) -> usize {
        self.stages.load(Ordering::Relaxed)
    }
}

impl Workers for Interrupted {
    fn count(&self) -> usize {
        2
    }

    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        if self.stages.fetch_add(1, Ordering::Relaxed) == self.at.load(Ordering::Relaxed) {
            self.flag.store(true, Ordering::Relaxed);
        }
        job(0);
        job(1);
    }
}

/// Runs a test in a session of batches of 16 that these workers can cancel.
fn cancellable(image: &Image<'_>, workers: &Interrupted, test: impl FnOnce(&mut dyn Steps<'_>)) {
    let way = Way { workers: 2, batch: 16, ..Way::new(64) };
    let plan = way.plan(image);
    let mut arena = AlignedBytes::filled(0xa5, plan.arena_bytes());
    let mut session = open(image, (&plan, way.isa), &mut arena, workers).unwrap();
    session.cancel_by(&workers.flag);
    test(&mut *session);
}

#[test]
fn wherever_a_prompt_is_cancelled_it_goes_on_to_the_same_logits() {
    let image = tiny();
    let ids = &tokens(TINY[4])[..41];
    let wanted = logits(&image, ids, Way::new(64));
    let workers = Interrupted::new();
    cancellable(&image, &workers, |session| {
        workers.after(NEVER);
        session.prefill(&ids[..40]).unwrap();
        let whole = workers.stages();
        assert!(whole > 3 * 2 * image.config().layers as usize, "{whole} stages");
        for stage in 0..whole {
            session.reset();
            workers.after(stage);
            let result = session.prefill(&ids[..40]);
            let over = workers.stages() - stage;
            let (position, left) = (session.position(), session.pending());
            if stage + MOST_STAGES >= whole && result.is_ok() {
                assert_eq!((position, left), (40, 0));
            } else {
                assert_eq!(result, Err(StepError::Cancelled { position: position as u32, left: left as u32 }));
                assert!(position % 16 == 0 && position + left == 40, "{position} and {left}");
                assert!(over <= MOST_STAGES, "{over} stages after it was cancelled at {stage}");
                assert_eq!(session.room(), 24, "what is left has its place");
                assert_eq!(session.tokens(), &ids[..position]);
                assert!(session.logits().is_none());
                // As long as the flag stands, nothing goes on.
                assert_eq!(session.resume(), result);
                assert_eq!(
                    session.decode(ids[40]),
                    Err(StepError::Cancelled { position: position as u32, left: left as u32 + 1 })
                );
            }
            workers.after(NEVER);
            if session.pending() == 0 {
                session.decode(ids[40]).unwrap();
            } else if stage % 2 == 0 {
                session.resume().unwrap();
            } else {
                // As if it had never been, from where it came to.
                session.rewind(position).unwrap();
                session.prefill(&ids[position..]).unwrap();
            }
            assert_eq!((session.position(), session.pending()), (41, 0), "cancelled at {stage}");
            assert_eq!(session.logits().unwrap(), wanted[40], "cancelled at {stage}");
        }
    });
}

#[test]
fn what_is_left_is_computed_before_what_comes_next() {
    let image = tiny();
    let ids = &tokens(TINY[4])[..60];
    let wanted = logits(&image, ids, Way::new(64));
    let workers = Interrupted::new();
    cancellable(&image, &workers, |session| {
        workers.after(0);
        assert_eq!(session.prefill(&ids[..20]), Err(StepError::Cancelled { position: 0, left: 20 }));
        workers.after(NEVER);
        let mut rows = Vec::new();
        session.prefill_each(&ids[20..60], &mut |position, row| rows.push((position, row.to_vec()))).unwrap();
        assert_eq!(rows.len(), 60);
        for (position, row) in rows {
            assert_eq!(row, wanted[position]);
        }
        // Nothing is left: nothing to do.
        assert_eq!(session.resume(), Ok(()));
        assert_eq!(session.logits().unwrap(), wanted[59]);
    });
}

#[test]
fn what_is_left_takes_room_until_it_is_forgotten() {
    let image = tiny();
    let ids = &tokens(TINY[4])[..64];
    let workers = Interrupted::new();
    cancellable(&image, &workers, |session| {
        workers.after(0);
        session.prefill(&ids[..60]).unwrap_err();
        assert_eq!(session.room(), 4);
        workers.after(NEVER);
        assert_eq!(session.prefill(&ids[..5]), Err(StepError::ContextFull { need: 65, have: 64 }));
        assert_eq!(session.pending(), 60, "a refused prompt changes nothing");
        session.rewind(0).unwrap();
        assert_eq!((session.room(), session.pending()), (64, 0));
        workers.after(0);
        session.prefill(&ids[..60]).unwrap_err();
        session.reset();
        assert_eq!((session.room(), session.pending(), session.position()), (64, 0, 0));
    });
}

#[test]
fn a_reply_that_is_cancelled_goes_on_to_the_same_tokens() {
    let image = tiny();
    let tokenizer = image.tokenizer().unwrap();
    let ids = &tokens(TINY[4])[..10];
    let way = Way { workers: 2, ..Way::new(64) };
    let plan = way.plan(&image);
    let workers = Interrupted::new();
    let never = AtomicBool::new(false);
    let reply = |session: &mut Session<'_, Scalar, Interrupted>, tokens: usize| {
        let mut sampler = Sampler::new(Sampling::GREEDY, 0).unwrap();
        let mut held = vec![0; StopStrings::held_bytes(&[])];
        let until = Until {
            stop_tokens: &[],
            stop_strings: &mut StopStrings::new(&[], &mut held).unwrap(),
            tokens,
            cancel: &never,
        };
        session.generate(&tokenizer, &mut sampler, until, |_: &str| ()).unwrap()
    };
    let mut arena = AlignedBytes::filled(0, plan.arena_bytes());
    let mut session = Session::new(&image, &plan, &mut arena, Scalar, &workers).unwrap();
    session.cancel_by(&workers.flag);
    session.prefill(ids).unwrap();
    workers.after(NEVER);
    reply(&mut session, 12);
    let wanted = session.tokens().to_vec();
    let stages = workers.stages();
    for stage in (0..stages).step_by(5) {
        session.reset();
        workers.after(NEVER);
        session.prefill(ids).unwrap();
        workers.after(stage);
        let first = reply(&mut session, 12);
        assert_eq!(first.ending, Ending::Cancelled, "at {stage}");
        assert!(session.pending() <= 1);
        assert_eq!(session.position() + session.pending(), ids.len() + first.tokens);
        // Cancelled before it began.
        let none = reply(&mut session, 12);
        assert_eq!((none.tokens, none.ending), (0, Ending::Cancelled));
        workers.after(NEVER);
        let second = reply(&mut session, 12 - first.tokens);
        assert_eq!((first.tokens + second.tokens, second.ending), (12, Ending::Tokens));
        assert_eq!(session.tokens(), wanted, "at {stage}");
    }
}

#[test]
fn another_thread_can_cancel() {
    let image = tiny();
    let ids = tokens(TINY[4]);
    let flag = AtomicBool::new(false);
    let way = Way::new(64);
    let plan = way.plan(&image);
    let mut arena = AlignedBytes::filled(0, plan.arena_bytes());
    let workers = Pool::new(1).unwrap();
    let mut session = open(&image, (&plan, way.isa), &mut arena, &workers).unwrap();
    session.cancel_by(&flag);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            flag.store(true, Ordering::Relaxed);
        });
        // Ends only because somebody cancels it.
        while session.prefill(&ids[..64]).is_ok() {
            session.reset();
        }
    });
    flag.store(false, Ordering::Relaxed);
    session.resume().unwrap();
    let wanted = with(&image, way, |session| {
        session.prefill(&ids[..64]).unwrap();
        session.logits().unwrap().to_vec()
    });
    assert_eq!(session.logits().unwrap(), wanted);
}

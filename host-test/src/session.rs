//! Sessions on any instruction set, with any workers, batch and cache: compiled once, for all tests.

use std::sync::atomic::AtomicBool;

use pocket_kernels::Kernels;
use pocket_pack::isa::{Isa, WithKernels};
use pocket_pack::pool::Pool;
use pocket_runtime::text::{Specials, Tokenizer};
use pocket_runtime::{
    CacheType, Error, Image, Limits, Plan, Sampler, Session, SessionError, State, StateError, StepError, Workers,
};
use sha2::{Digest, Sha256};

use crate::images::AlignedBytes;

/// How a session computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// On what.
    pub isa: Isa,
    /// Shared by how many.
    pub workers: u32,
    /// How many tokens at a time.
    pub batch: u32,
    /// With what cache.
    pub cache: CacheType,
    /// How many positions.
    pub context: u32,
}

impl Way {
    /// The fastest instruction set, one worker, batches of 64, a binary16 cache, this context.
    pub fn new(context: u32) -> Self {
        Self { isa: Isa::best(), workers: 1, batch: context.min(64), cache: CacheType::F16, context }
    }

    /// The limits of such a session.
    pub fn limits(&self) -> Limits {
        let Self { workers, batch, cache, context, .. } = *self;
        Limits { workers, batch, cache, ..Limits::new(context) }
    }

    /// The plan of such a session.
    ///
    /// # Panics
    /// If there is none.
    pub fn plan(&self, image: &Image<'_>) -> Plan {
        Plan::try_new(image.config(), &self.limits()).expect("limits that fit")
    }
}

/// [`Session`] without its types.
#[expect(missing_docs, clippy::missing_errors_doc, reason = "the methods are those of `Session`")]
pub trait Steps<'a> {
    fn cancel_by(&mut self, flag: &'a AtomicBool);
    fn resume(&mut self) -> Result<(), StepError>;
    fn pending(&self) -> usize;
    fn prefill(&mut self, ids: &[u32]) -> Result<(), StepError>;
    fn prefill_each(&mut self, ids: &[u32], each: &mut dyn FnMut(usize, &[f32])) -> Result<(), StepError>;
    fn prefill_text(&mut self, tokenizer: &Tokenizer<'_>, text: &str, specials: Specials<'_>) -> Result<usize, Error>;
    fn decode(&mut self, id: u32) -> Result<(), StepError>;
    fn sample(&mut self, sampler: &mut Sampler) -> Result<u32, StepError>;
    fn logits(&self) -> Option<&[f32]>;
    fn tokens(&self) -> &[u32];
    fn position(&self) -> usize;
    fn room(&self) -> usize;
    fn rewind(&mut self, position: usize) -> Result<(), StepError>;
    fn reset(&mut self);
    fn state_bytes(&self) -> u64;
    fn save(&self, out: &mut [u8]) -> Result<usize, StateError>;
    fn restore(&mut self, state: &State<'_>) -> Result<(), StateError>;
}

impl<'a, K: Kernels, W: Workers + ?Sized> Steps<'a> for Session<'a, K, W> {
    fn cancel_by(&mut self, flag: &'a AtomicBool) {
        self.cancel_by(flag);
    }
    fn resume(&mut self) -> Result<(), StepError> {
        self.resume()
    }
    fn pending(&self) -> usize {
        self.pending()
    }
    fn prefill(&mut self, ids: &[u32]) -> Result<(), StepError> {
        self.prefill(ids)
    }
    fn prefill_each(&mut self, ids: &[u32], each: &mut dyn FnMut(usize, &[f32])) -> Result<(), StepError> {
        self.prefill_each(ids, each)
    }
    fn prefill_text(&mut self, tokenizer: &Tokenizer<'_>, text: &str, specials: Specials<'_>) -> Result<usize, Error> {
        self.prefill_text(tokenizer, text, specials)
    }
    fn decode(&mut self, id: u32) -> Result<(), StepError> {
        self.decode(id)
    }
    fn sample(&mut self, sampler: &mut Sampler) -> Result<u32, StepError> {
        self.sample(sampler)
    }
    fn logits(&self) -> Option<&[f32]> {
        self.logits()
    }
    fn tokens(&self) -> &[u32] {
        self.tokens()
    }
    fn position(&self) -> usize {
        self.position()
    }
    fn room(&self) -> usize {
        self.room()
    }
    fn rewind(&mut self, position: usize) -> Result<(), StepError> {
        self.rewind(position)
    }
    fn reset(&mut self) {
        self.reset();
    }
    fn state_bytes(&self) -> u64 {
        self.state_bytes()
    }
    fn save(&self, out: &mut [u8]) -> Result<usize, StateError> {
        self.save(out)
    }
    fn restore(&mut self, state: &State<'_>) -> Result<(), StateError> {
        self.restore(state)
    }
}

/// The state of a session.
///
/// # Panics
/// If it cannot be saved.
pub fn saved(session: &dyn Steps<'_>) -> Vec<u8> {
    let mut state = vec![0xa5; session.state_bytes() as usize];
    let len = session.save(&mut state).expect("as much room as it takes");
    assert_eq!(len, state.len());
    state
}

/// A session in this arena.
///
/// # Errors
/// As [`Session::new`].
///
/// # Panics
/// If the machine lacks the instruction set.
pub fn open<'a>(
    image: &Image<'a>,
    (plan, isa): (&Plan, Isa),
    arena: &'a mut [u8],
    workers: &'a dyn Workers,
) -> Result<Box<dyn Steps<'a> + 'a>, SessionError> {
    struct Open<'i, 'a> {
        image: &'i Image<'a>,
        plan: &'i Plan,
        arena: &'a mut [u8],
        workers: &'a dyn Workers,
    }
    impl<'a> WithKernels for Open<'_, 'a> {
        type Out = Result<Box<dyn Steps<'a> + 'a>, SessionError>;
        fn with<K: Kernels>(self, kernels: K) -> Self::Out {
            Ok(Box::new(Session::new(self.image, self.plan, self.arena, kernels, self.workers)?))
        }
    }
    isa.run(Open { image, plan, arena, workers }).unwrap_or_else(|missing| panic!("{missing}"))
}

/// Runs a test in a session computed in this way.
///
/// # Panics
/// If there can be no such session.
pub fn with<R>(image: &Image<'_>, way: Way, test: impl FnOnce(&mut dyn Steps<'_>) -> R) -> R {
    let plan = way.plan(image);
    let mut arena = AlignedBytes::filled(0xa5, plan.arena_bytes());
    let workers = Pool::new(way.workers as usize).expect("threads");
    let mut session = open(image, (&plan, way.isa), &mut arena, &workers).expect("a session");
    test(&mut *session)
}

/// Logits of every position.
///
/// # Panics
/// If they cannot be computed.
pub fn logits(image: &Image<'_>, ids: &[u32], way: Way) -> Vec<Vec<f32>> {
    with(image, way, |session| {
        let mut rows = Vec::new();
        session.prefill_each(ids, &mut |_, row| rows.push(row.to_vec())).expect("logits");
        rows
    })
}

/// SHA-256 over the bits of logits.
pub fn hash<'r>(rows: impl IntoIterator<Item = &'r [f32]>) -> String {
    let mut hash = Sha256::new();
    for row in rows {
        row.iter().for_each(|x| hash.update(x.to_bits().to_le_bytes()));
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

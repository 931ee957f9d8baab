//! A session: one conversation's state in an arena, and the steps that move it on.

mod state;

use core::sync::atomic::AtomicBool;

use pocket_kernels::Kernels;

use crate::error::{Error, ImageError, SessionError, StepError};
use crate::image::Image;
use crate::log::log;
use crate::model::{Batch, Machine, Stop, forward, head};
use crate::plan::{ALIGN, Lender, Plan};
use crate::sampling::{Choice, Sampler};
use crate::state::State;
use crate::text::{Specials, Tokenizer};
use crate::workers::Workers;

/// Somebody who looks at the logits of every position.
type Each<'e> = &'e mut dyn FnMut(usize, &[f32]);

/// A model at work in an arena.
///
/// It holds the tokens so far and their keys and values. [`prefill`](Self::prefill) and [`decode`](Self::decode) append
/// tokens and leave the logits of the last one; [`sample`](Self::sample) chooses what could come next;
/// [`rewind`](Self::rewind) takes tokens back. What a session computes depends on its tokens alone, not on how they
/// were split, what was rewound, or who did the work.
pub struct Session<'a, K, W: ?Sized> {
    image: Image<'a>,
    plan: Plan,
    machine: Machine<'a, K, W>,
    cache: &'a mut [u8],
    tokens: &'a mut [u32],
    hidden: &'a mut [f32],
    rotations: &'a mut [f32],
    logits: &'a mut [f32],
    scratch: &'a mut [u8],
    position: usize,
    /// Tokens behind those that are held, which a cancelled step left.
    pending: usize,
    /// The image's baked prefix, if it is of this plan's kind of cache.
    prefix: Option<State<'a>>,
    has_logits: bool,
}

/// Logs why a step was not begun.
fn refused(error: &StepError) {
    log!(warn, "step refused: {}", error);
}

impl<K, W: ?Sized> core::fmt::Debug for Session<'_, K, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session").field("position", &self.position).field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl<'a, K: Kernels, W: Workers + ?Sized> Session<'a, K, W> {
    /// Makes a session in `arena`, which holds at least [`Plan::arena_bytes`] and begins at a multiple of 64. Nothing
    /// in the arena is read before it is written.
    ///
    /// # Errors
    /// [`SessionError`] if plan, image, arena and workers do not belong together.
    pub fn new(
        image: &Image<'a>,
        plan: &Plan,
        arena: &'a mut [u8],
        kernels: K,
        workers: &'a W,
    ) -> Result<Self, SessionError> {
        if plan.config() != image.config() {
            return Err(SessionError::OtherModel);
        }
        let remainder = arena.as_ptr() as usize % ALIGN;
        if remainder != 0 {
            return Err(SessionError::ArenaMisaligned { remainder: remainder as u32 });
        }
        let have = arena.len() as u64;
        let need = plan.arena_bytes();
        let small = SessionError::ArenaTooSmall { need: need as u64, have };
        let arena = arena.get_mut(..need).ok_or(small)?;
        let planned = plan.limits().workers;
        if workers.count() > planned as usize {
            return Err(SessionError::TooManyWorkers { have: workers.count() as u32, planned });
        }
        let limits = plan.limits();
        let prefix = match image.prefix() {
            Ok(prefix) => Some(prefix).filter(|prefix| prefix.cache() == limits.cache),
            Err(ImageError::Prefix { reason }) => return Err(SessionError::Prefix { reason }),
            Err(_) => None,
        };
        log!(info, "session on {}: context {}, batch {}, {} bytes", K::NAME, limits.context, limits.batch, need);
        let (persistent, scratch) = arena.split_at_mut_checked(plan.scratch_offset()).ok_or(small)?;
        let regions = &plan.persistent;
        let mut lender = Lender::new(persistent, 0);
        Ok(Self {
            image: *image,
            plan: *plan,
            machine: Machine { kernels, workers, cancel: None },
            cache: lender.lend(regions.cache),
            tokens: lender.lend(regions.tokens),
            hidden: lender.lend(regions.hidden),
            rotations: lender.lend(regions.rotations),
            logits: lender.lend(regions.logits),
            scratch,
            position: 0,
            pending: 0,
            prefix,
            has_logits: false,
        })
    }

    /// From now on a step ends with [`StepError::Cancelled`] when this is set, by another thread or an interrupt. It is
    /// looked at before each half of a layer of a batch and before the head, so the longest of these is the longest that
    /// a step goes on. Whoever set it takes it back.
    pub fn cancel_by(&mut self, flag: &'a AtomicBool) {
        self.machine.cancel = Some(flag);
    }

    /// The image.
    #[must_use]
    pub fn image(&self) -> &Image<'a> {
        &self.image
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How many tokens the session holds.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// How many more tokens fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.tokens.len() - self.position - self.pending
    }

    /// Whether the flag is set.
    pub(crate) fn cancelled(&self) -> bool {
        self.machine.check().is_err()
    }

    /// How many tokens a cancelled step left. The next step computes them before its own, [`Self::rewind`] and
    /// [`Self::reset`] forget them.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// The tokens that the session holds.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        self.tokens.get(..self.position).unwrap_or_default()
    }

    /// Logits of the token that follows, `[vocabulary]`; `None` before the first step and after a rewind or an error.
    #[must_use]
    pub fn logits(&self) -> Option<&[f32]> {
        self.has_logits.then_some(&*self.logits)
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.position = 0;
        self.pending = 0;
        self.has_logits = false;
    }

    /// Forgets the tokens from `position` on. The next step goes on as if they had never been.
    ///
    /// # Errors
    /// [`StepError::RewindBeyond`] if fewer tokens are held.
    pub fn rewind(&mut self, position: usize) -> Result<(), StepError> {
        if position > self.position {
            return Err(StepError::RewindBeyond { position: position as u32, have: self.position as u32 });
        }
        log!(debug, "rewind from {} to {}", self.position, position);
        self.has_logits &= position == self.position;
        self.position = position;
        self.pending = 0;
        Ok(())
    }

    /// Appends tokens, a batch at a time, and computes the logits of the last. As long as the session's tokens are
    /// those of the image's [prefix](Image::prefix), they are not computed again.
    ///
    /// # Errors
    /// Before any work: [`StepError::Empty`], [`StepError::ContextFull`], [`StepError::UnknownToken`]. While working:
    /// [`StepError::NonFinite`], after which the session holds the tokens of the batches that were done, and
    /// [`StepError::Cancelled`], after which it also keeps the others for later.
    pub fn prefill(&mut self, ids: &[u32]) -> Result<(), StepError> {
        self.place(ids).inspect_err(refused)?;
        let left = self.skip_prefix(ids.len());
        self.process(left, None)
    }

    /// Computes the tokens that a cancelled step left, if there are any.
    ///
    /// # Errors
    /// [`StepError::NonFinite`] and [`StepError::Cancelled`], as [`Self::prefill`].
    pub fn resume(&mut self) -> Result<(), StepError> {
        if self.pending == 0 { Ok(()) } else { self.process(0, None) }
    }

    /// As [`Self::prefill`], and gives the logits of every token to `each`, with the token's position.
    ///
    /// # Errors
    /// As [`Self::prefill`].
    pub fn prefill_each(&mut self, ids: &[u32], mut each: impl FnMut(usize, &[f32])) -> Result<(), StepError> {
        self.place(ids).inspect_err(refused)?;
        self.process(ids.len(), Some(&mut each))
    }

    /// Turns text into tokens, appends them as [`Self::prefill`] does, and gives their number. Text that makes no
    /// token changes nothing.
    ///
    /// # Errors
    /// [`Error::Text`] before any work if the text has a word longer than planned or more tokens than fit;
    /// [`Error::Step`] as [`Self::prefill`].
    pub fn prefill_text(
        &mut self,
        tokenizer: &Tokenizer<'_>,
        text: &str,
        specials: Specials<'_>,
    ) -> Result<usize, Error> {
        let symbols = Lender::new(self.scratch, self.plan.scratch_offset()).lend(self.plan.text.symbols);
        let room = self.tokens.get_mut(self.position + self.pending..).unwrap_or_default();
        let count = tokenizer.encode(text, specials, symbols, room)?;
        if count > 0 {
            self.check_ids(count).inspect_err(refused)?;
            let left = self.skip_prefix(count);
            self.process(left, None)?;
        }
        Ok(count)
    }

    /// Appends one token and computes its logits.
    ///
    /// # Errors
    /// As [`Self::prefill`].
    pub fn decode(&mut self, id: u32) -> Result<(), StepError> {
        self.prefill(&[id])
    }

    /// Chooses the token that follows; it is not appended.
    ///
    /// # Errors
    /// [`StepError::NoLogits`] before the first step, [`StepError::NonFinite`] if a logit is not a finite number.
    pub fn sample(&mut self, sampler: &mut Sampler) -> Result<u32, StepError> {
        if !self.has_logits {
            return Err(StepError::NoLogits);
        }
        let candidates = Lender::new(self.scratch, self.plan.scratch_offset()).lend(self.plan.head.candidates);
        let choice =
            Choice { logits: self.logits, tokens: self.tokens.get(..self.position).unwrap_or_default(), candidates };
        let chosen = sampler.choose(self.machine.kernels, choice);
        chosen.ok_or(StepError::NonFinite { position: self.position as u32 })
    }

    /// Puts tokens behind all that there are.
    fn place(&mut self, ids: &[u32]) -> Result<(), StepError> {
        if ids.is_empty() {
            return Err(StepError::Empty);
        }
        let have = self.tokens.len() as u32;
        let end = self.position + self.pending;
        let need = u32::try_from(end.saturating_add(ids.len())).unwrap_or(u32::MAX);
        let room = self.tokens.get_mut(end..).and_then(|room| room.get_mut(..ids.len()));
        let room = room.ok_or(StepError::ContextFull { need, have })?;
        room.copy_from_slice(ids);
        self.check_ids(ids.len())
    }

    /// Checks the `count` tokens behind all that there are.
    fn check_ids(&self, count: usize) -> Result<(), StepError> {
        let vocabulary = self.plan.config().vocabulary;
        let behind = self.tokens.iter().skip(self.position + self.pending);
        match behind.take(count).find(|&&id| id >= vocabulary) {
            Some(&id) => Err(StepError::UnknownToken { id, vocabulary }),
            None => Ok(()),
        }
    }

    /// Processes what is pending and the `count` tokens behind it.
    fn process(&mut self, count: usize, mut each: Option<Each<'_>>) -> Result<(), StepError> {
        self.has_logits = false;
        self.pending += count;
        while self.pending > 0 {
            let tokens = self.pending.min(self.plan.limits().batch as usize);
            self.batch(tokens, &mut each).map_err(|stop| self.stopped(stop))?;
            self.position += tokens;
            self.pending -= tokens;
        }
        log!(debug, "{} tokens done, {} held", count, self.position);
        self.has_logits = true;
        Ok(())
    }

    /// Processes the next `tokens` tokens.
    fn batch(&mut self, tokens: usize, each: &mut Option<Each<'_>>) -> Result<(), Stop> {
        let position = self.position;
        let mut batch = Batch {
            position,
            tokens,
            hidden: self.hidden,
            rotations: self.rotations,
            cache: self.cache,
            scratch: self.scratch,
        };
        let ids = self.tokens.get(position..position + tokens).ok_or(Stop::NonFinite)?;
        forward(&self.machine, &self.image, &self.plan, ids, &mut batch)?;
        // Without someone to look at them, only the very last token's logits are computed.
        let first = match each {
            Some(_) => 0,
            None if tokens < self.pending => tokens,
            None => tokens - 1,
        };
        // A hidden state has elements; said here, the cut into rows need not check it.
        let width = (self.plan.config().hidden as usize).max(1);
        for (token, hidden) in self.hidden.chunks_exact(width).enumerate().take(tokens).skip(first) {
            let row = (hidden, &mut *self.logits);
            head(&self.machine, &self.image, &self.plan, row, self.scratch)?;
            if let Some(each) = each {
                each(position + token, self.logits);
            }
        }
        Ok(())
    }

    /// What a batch that was not done means for the session.
    fn stopped(&mut self, stop: Stop) -> StepError {
        let (position, left) = (self.position as u32, self.pending as u32);
        match stop {
            Stop::Cancelled => {
                log!(info, "cancelled at position {}, {} tokens left", position, left);
                StepError::Cancelled { position, left }
            }
            Stop::NonFinite => {
                log!(error, "a value is not finite at or after position {}", position);
                self.pending = 0;
                StepError::NonFinite { position }
            }
        }
    }
}

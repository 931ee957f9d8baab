//! Saving a session's state and going on from one.

use pocket_kernels::Kernels;

use super::Session;
use crate::error::StateError;
use crate::log::log;
use crate::plan::padded;
use crate::state::{Draft, State, head_bytes, state_bytes};
use crate::workers::Workers;

impl<K: Kernels, W: Workers + ?Sized> Session<'_, K, W> {
    /// Bytes that [`Self::save`] takes now.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        state_bytes(self.plan.config(), self.plan.limits().cache, self.position as u32).unwrap_or(u64::MAX)
    }

    /// Saves the tokens that the session holds, with their keys and values, and gives the length of the state. Tokens
    /// that a cancelled step left are not in it, nor are logits.
    ///
    /// # Errors
    /// [`StateError::Room`] if `out` has less than [`Self::state_bytes`].
    pub fn save(&self, out: &mut [u8]) -> Result<usize, StateError> {
        let (config, cache) = (self.plan.config(), self.plan.limits().cache);
        let (positions, head_dim) = (self.position, config.head_dim as usize);
        let mut draft = Draft::new(out, (config, cache), positions, self.image.identity())?;
        let (tokens, caches) = draft.parts();
        let mut places = tokens.as_chunks_mut::<4>().0.iter_mut();
        for (token, place) in self.tokens().iter().zip(&mut places) {
            *place = token.to_le_bytes();
        }
        places.for_each(|place| *place = [0; 4]);

        let saved = padded(positions);
        let from = cache.pieces(head_dim, self.plan.cache_positions(), saved);
        let to = cache.pieces(head_dim, saved, saved);
        let heads = self.cache.chunks_exact(self.plan.head_cache_bytes().max(1));
        for (head, out) in heads.zip(caches.chunks_exact_mut(head_bytes(config, cache, positions).max(1))) {
            for (from, to) in from.iter().zip(&to) {
                copy(head.get(from.clone()), out.get_mut(to.clone()));
            }
            // What a rewind took back does not leave the session.
            cache.clear_from(head_dim, saved, positions, out);
        }
        log!(info, "state of {} positions saved", positions);
        Ok(draft.seal())
    }

    /// Takes up a state in place of whatever the session holds: it then computes the same bits as if it had processed
    /// the state's tokens itself. There are no logits before the next step.
    ///
    /// # Errors
    /// [`StateError`] if the state is of another model or kind of cache, or longer than the context. The session then
    /// stays as it was.
    pub fn restore(&mut self, state: &State<'_>) -> Result<(), StateError> {
        let (config, limits) = (self.plan.config(), self.plan.limits());
        let positions = state.positions();
        state.check(config, &self.image.identity())?;
        if state.cache() != limits.cache {
            return Err(StateError::OtherCache);
        }
        if positions > self.tokens.len() {
            return Err(StateError::ContextTooSmall { need: positions as u32, have: limits.context });
        }
        for (place, token) in self.tokens.iter_mut().zip(state.tokens()) {
            *place = token;
        }
        self.load(state, positions);
        self.position = positions;
        self.pending = 0;
        self.has_logits = false;
        log!(info, "state of {} positions taken up", positions);
        Ok(())
    }

    /// Of `count` tokens that were placed, how many are left when those are done with which the image's prefix goes on
    /// as the session does: their keys and values are there already, the same bits that computing them would give.
    pub(super) fn skip_prefix(&mut self, count: usize) -> usize {
        let held = self.position;
        let Some(prefix) = self.prefix.filter(|prefix| held < prefix.positions() && self.pending == 0) else {
            return count;
        };
        let tokens = self.tokens.iter().take(held + count);
        let same = prefix.tokens().zip(tokens).take_while(|(prefix, token)| prefix == *token).count();
        // The last token is computed in any case: its logits are asked for.
        let reached = same.min((held + count).saturating_sub(1));
        if reached <= held {
            return count;
        }
        self.load(&prefix, reached);
        self.position = reached;
        log!(debug, "positions {} to {} taken from the prefix", held, reached);
        held + count - reached
    }

    /// Copies the keys and values of the first `positions` positions of a state, which has as many and more.
    fn load(&mut self, state: &State<'_>, positions: usize) {
        let (config, cache) = (self.plan.config(), self.plan.limits().cache);
        let head_dim = config.head_dim as usize;
        let (saved, loaded) = (state.positions(), padded(positions));
        let from = cache.pieces(head_dim, padded(saved), loaded);
        let to = cache.pieces(head_dim, self.plan.cache_positions(), loaded);
        let heads = state.caches().chunks_exact(head_bytes(config, cache, saved).max(1));
        for (head, out) in heads.zip(self.cache.chunks_exact_mut(self.plan.head_cache_bytes().max(1))) {
            for (from, to) in from.iter().zip(&to) {
                copy(head.get(from.clone()), out.get_mut(to.clone()));
            }
        }
    }
}

/// Copies pieces, which have the same length.
fn copy(from: Option<&[u8]>, to: Option<&mut [u8]>) {
    if let (Some(from), Some(to)) = (from, to) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}

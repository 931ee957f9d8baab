//! Saved states: the tokens of a session with their keys and values, to go on from later or elsewhere.
//!
//! ```text
//! 0      header    128 bytes: magic, version, kind of cache, positions, length, the model's identity, CRC-32C
//! 128    tokens    [positions] u32, then zeros up to a multiple of 64
//! …      caches    for each layer and KV head its keys and values, laid out as in a session whose context is
//!                  `positions`, rounded up to 16; what is rounded up is zero
//! ```
//!
//! Everything is little-endian, and nothing in it depends on the context, the batch, the workers or the chip: the same
//! tokens give the same bytes everywhere. A state that was computed on a developer's machine can be baked into an image.

use bytemuck::{Pod, Zeroable};
use pocket_kernels::cache::CacheType;

use crate::config::Config;
use crate::error::StateError;
use crate::image::{checksum, checksum_on};
use crate::plan::padded;

/// First bytes of every state.
pub const MAGIC: [u8; 8] = *b"POCKETKV";
/// Version of the format.
pub const VERSION: u32 = 1;
/// Parts of a state are a multiple of this many bytes.
const ALIGN: u64 = 64;
/// Bytes of a header.
const HEADER_BYTES: usize = size_of::<Header>();

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: u32,
    /// 0: binary16, 1: signed bytes.
    cache: u32,
    positions: u32,
    reserved: u32,
    total_len: u64,
    identity: [u8; 32],
    reserved_too: [u8; 60],
    /// CRC-32C of all other bytes of the state.
    crc: u32,
}

static_assertions::const_assert_eq!(size_of::<Header>(), 128);

/// Bytes of a state of `positions` positions; `None` if they are more than 64 bits can count.
#[must_use]
#[expect(clippy::arithmetic_side_effects, reason = "products of two 32-bit numbers, in 64 bits")]
pub const fn state_bytes(config: &Config, cache: CacheType, positions: u32) -> Option<u64> {
    let tokens = (positions as u64 * 4).next_multiple_of(ALIGN);
    let heads = config.layers as u64 * config.kv_heads as u64;
    let padded = (positions as u64).next_multiple_of(16);
    let position_bytes = 2 * cache.position_bytes(config.head_dim as usize) as u64;
    match heads.checked_mul(position_bytes) {
        Some(bytes) => match bytes.checked_mul(padded) {
            Some(caches) => caches.checked_add(HEADER_BYTES as u64 + tokens),
            None => None,
        },
        None => None,
    }
}

/// Bytes of the tokens of so many positions, padding included.
fn tokens_bytes(positions: u32) -> Option<usize> {
    (positions as usize).checked_mul(4)?.checked_next_multiple_of(ALIGN as usize)
}

/// A saved state, checked and read in place.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    header: Header,
    tokens: &'a [[u8; 4]],
    caches: &'a [u8],
}

impl<'a> State<'a> {
    /// Checks a state; `bytes` may be longer than it and begin anywhere.
    ///
    /// # Errors
    /// [`StateError`] says what is wrong with it.
    pub fn open(bytes: &'a [u8]) -> Result<Self, StateError> {
        let short = |need| StateError::Truncated { need, have: bytes.len() as u64 };
        if bytes.get(..MAGIC.len()).is_some_and(|magic| magic != MAGIC) {
            return Err(StateError::Magic);
        }
        let (head, _) = bytes.split_at_checked(HEADER_BYTES).ok_or(short(HEADER_BYTES as u64))?;
        let header: Header = bytemuck::try_pod_read_unaligned(head).map_err(|_| StateError::Field)?;
        if header.version != VERSION {
            return Err(StateError::Version { found: header.version, expected: VERSION });
        }
        let len = usize::try_from(header.total_len).map_err(|_| short(header.total_len))?;
        let whole = bytes.get(..len).ok_or(short(header.total_len))?;
        let (_, body) = whole.split_at_checked(HEADER_BYTES).ok_or(StateError::Field)?;
        if header.checksum(body) != header.crc {
            return Err(StateError::Checksum);
        }
        let (tokens, caches) =
            tokens_bytes(header.positions).and_then(|len| body.split_at_checked(len)).ok_or(StateError::Field)?;
        let tokens = tokens.as_chunks().0.get(..header.positions as usize).ok_or(StateError::Field)?;
        let sound = header.cache <= 1 && header.reserved == 0 && header.reserved_too == [0; 60];
        if !sound {
            return Err(StateError::Field);
        }
        Ok(Self { header, tokens, caches })
    }

    /// How many tokens it holds.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.tokens.len()
    }

    /// The tokens.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.tokens.iter().map(|&token| u32::from_le_bytes(token))
    }

    /// How its caches store their elements.
    #[must_use]
    pub fn cache(&self) -> CacheType {
        if self.header.cache == 0 { CacheType::F16 } else { CacheType::I8 }
    }

    /// [`crate::Image::identity`] of the model that it belongs to.
    #[must_use]
    pub fn identity(&self) -> &[u8; 32] {
        &self.header.identity
    }

    /// Whether it is one of this model, whose shape is this.
    ///
    /// # Errors
    /// [`StateError::OtherModel`], or [`StateError::Field`] for one that has another length or unknown tokens.
    pub(crate) fn check(&self, config: &Config, identity: &[u8; 32]) -> Result<(), StateError> {
        if self.header.identity != *identity {
            return Err(StateError::OtherModel);
        }
        let wanted = state_bytes(config, self.cache(), self.header.positions);
        if wanted != Some(self.header.total_len) || self.tokens().any(|id| id >= config.vocabulary) {
            return Err(StateError::Field);
        }
        Ok(())
    }

    /// The caches of all layers and KV heads.
    pub(crate) fn caches(&self) -> &'a [u8] {
        self.caches
    }
}

impl Header {
    fn checksum(&self, body: &[u8]) -> u32 {
        let head = bytemuck::bytes_of(self);
        let before = head.split_last_chunk::<4>().map_or(head, |(before, _)| before);
        checksum_on(checksum(before), body)
    }
}

/// Memory that becomes a state: lends the parts to be filled, then [seals](Self::seal) it.
pub(crate) struct Draft<'a> {
    header: Header,
    out: &'a mut [u8],
}

impl<'a> Draft<'a> {
    /// A state of this many positions in `out`.
    pub(crate) fn new(
        out: &'a mut [u8],
        (config, cache): (&Config, CacheType),
        positions: usize,
        identity: [u8; 32],
    ) -> Result<Self, StateError> {
        let have = out.len() as u64;
        let positions = positions as u32;
        let need = state_bytes(config, cache, positions).unwrap_or(u64::MAX);
        let len = usize::try_from(need).map_err(|_| StateError::Room { need, have })?;
        let out = out.get_mut(..len).ok_or(StateError::Room { need, have })?;
        let cache = u32::from(cache == CacheType::I8);
        let header =
            Header { magic: MAGIC, version: VERSION, cache, positions, total_len: need, identity, ..Header::zeroed() };
        Ok(Self { header, out })
    }

    /// Where tokens go, padding included, and where caches go.
    pub(crate) fn parts(&mut self) -> (&mut [u8], &mut [u8]) {
        let body = self.out.get_mut(HEADER_BYTES..).unwrap_or_default();
        tokens_bytes(self.header.positions).and_then(|len| body.split_at_mut_checked(len)).unwrap_or_default()
    }

    /// Writes header and checksum; gives the length.
    pub(crate) fn seal(mut self) -> usize {
        let body = self.out.get(HEADER_BYTES..).unwrap_or_default();
        self.header.crc = self.header.checksum(body);
        for (out, byte) in self.out.iter_mut().zip(bytemuck::bytes_of(&self.header)) {
            *out = *byte;
        }
        self.out.len()
    }
}

/// Bytes of one KV head of a state.
pub(crate) fn head_bytes(config: &Config, cache: CacheType, positions: usize) -> usize {
    cache.head_bytes(config.head_dim as usize, padded(positions))
}

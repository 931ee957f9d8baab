//! States that are damaged, of something else, or made up: typed errors, and a session that stays as it was.

use pocket_host_test::golden::tokens;
use pocket_host_test::images::seal_state;
use pocket_host_test::models::TINY;
use pocket_host_test::session::{Way, saved, with};
use pocket_runtime::{CacheType, State, StateError, StepError};

use super::{CACHES, image, state_of};

/// Where fields of the header are.
const VERSION: usize = 8;
const CACHE: usize = 12;
const POSITIONS: usize = 16;
const TOTAL_LEN: usize = 24;
const RESERVED: usize = 64;
const TOKENS: usize = 128;

fn error(bytes: &[u8]) -> Option<StateError> {
    State::open(bytes).err()
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn every_flip_and_every_cut_is_found() {
    let image = image(TINY[4]);
    let bytes = state_of(&image, &tokens(TINY[4])[..17], Way::new(64));
    assert_eq!(error(&bytes), None);
    let mut damaged = bytes.clone();
    for at in (0..TOKENS + 128).chain((0..bytes.len()).step_by(61)).chain([bytes.len() - 1]) {
        for bit in 0..8 {
            damaged[at] ^= 1 << bit;
            let found = error(&damaged);
            let right = match at {
                0..8 => found == Some(StateError::Magic),
                VERSION..CACHE => matches!(found, Some(StateError::Version { expected: 1, .. })),
                TOTAL_LEN..32 => {
                    matches!(found, Some(StateError::Truncated { .. } | StateError::Checksum | StateError::Field))
                }
                _ => found == Some(StateError::Checksum),
            };
            assert!(right, "bit {bit} of byte {at}: {found:?}");
            damaged[at] ^= 1 << bit;
        }
    }
    for len in (0..TOKENS + 64).chain([bytes.len() / 2, bytes.len() - 1]) {
        let need = if len < TOKENS { TOKENS } else { bytes.len() } as u64;
        assert_eq!(error(&bytes[..len]), Some(StateError::Truncated { need, have: len as u64 }), "cut to {len}");
    }
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let image = image(TINY[4]);
    let vocabulary = image.config().vocabulary;
    let ids = tokens(TINY[4]);
    let bytes = state_of(&image, &ids[..17], Way::new(64));
    with(&image, Way::new(64), |session| {
        session.prefill(&ids[30..40]).unwrap();
        let (held, logits) = (session.tokens().to_vec(), session.logits().unwrap().to_vec());
        let before = saved(session);
        let mut refuse = |what: &str, change: &dyn Fn(&mut Vec<u8>)| {
            let mut changed = bytes.clone();
            change(&mut changed);
            seal_state(&mut changed);
            let found = State::open(&changed).and_then(|state| session.restore(&state));
            assert_eq!(found, Err(StateError::Field), "{what}");
            assert_eq!(session.tokens(), held);
            assert_eq!(session.logits(), Some(&*logits));
        };
        for n in [2, u32::MAX] {
            refuse("a kind of cache that there is not", &|bytes| put(bytes, CACHE, n));
        }
        // Positions that take another length, or reach beyond everything.
        for n in [0, 1, 16, 33, 1 << 20, 1 << 30, u32::MAX] {
            refuse(&format!("{n} positions"), &|bytes| put(bytes, POSITIONS, n));
        }
        refuse("reserved", &|bytes| put(bytes, RESERVED, 1));
        refuse("reserved", &|bytes| put(bytes, 20, 1));
        for token in [vocabulary, u32::MAX] {
            refuse("a token that is none", &|bytes| put(bytes, TOKENS + 4 * 16, token));
        }
        refuse("less than its positions take", &|bytes| {
            bytes.truncate(bytes.len() - 64);
            let len = bytes.len() as u32;
            put(bytes, TOTAL_LEN, len);
        });
        refuse("nothing but a header", &|bytes| {
            bytes.truncate(TOKENS);
            put(bytes, TOTAL_LEN, TOKENS as u32);
        });
        refuse("not even a header", &|bytes| put(bytes, TOTAL_LEN, 0));
        assert!(saved(session) == before, "the session stays as it was");
    });
}

#[test]
fn a_state_belongs_to_a_model_a_cache_and_a_context() {
    let ids = tokens(TINY[4]);
    let tiny = image(TINY[4]);
    for cache in CACHES {
        let bytes = state_of(&tiny, &ids[..17], Way { cache, ..Way::new(64) });
        let state = State::open(&bytes).unwrap();
        assert_eq!(*state.identity(), tiny.identity());
        // The same shape with other weights, too.
        for other in [TINY[3], TINY[5], TINY[0]] {
            with(&image(other), Way { cache, ..Way::new(64) }, |session| {
                assert_eq!(session.restore(&state), Err(StateError::OtherModel), "{other}");
            });
        }
        let other = if cache == CacheType::F16 { CacheType::I8 } else { CacheType::F16 };
        with(&tiny, Way { cache: other, ..Way::new(64) }, |session| {
            assert_eq!(session.restore(&state), Err(StateError::OtherCache));
        });
        with(&tiny, Way { cache, ..Way::new(16) }, |session| {
            session.prefill(&ids[..3]).unwrap();
            assert_eq!(session.restore(&state), Err(StateError::ContextTooSmall { need: 17, have: 16 }));
            assert_eq!(session.tokens(), &ids[..3]);
        });
        with(&tiny, Way { cache, ..Way::new(17) }, |session| {
            session.restore(&state).unwrap();
            assert_eq!((session.position(), session.room()), (17, 0));
            assert_eq!(session.decode(1), Err(StepError::ContextFull { need: 18, have: 17 }));
        });
    }
}

#[test]
fn caches_that_are_no_numbers_are_an_error_of_the_step() {
    let image = image(TINY[4]);
    let ids = tokens(TINY[4]);
    for cache in CACHES {
        let way = Way { cache, ..Way::new(64) };
        let mut bytes = state_of(&image, &ids[..17], way);
        // All ones: NaN in binary16 and as a scale.
        bytes[TOKENS + 128..].fill(0xff);
        seal_state(&mut bytes);
        with(&image, way, |session| {
            session.restore(&State::open(&bytes).unwrap()).unwrap();
            assert_eq!(session.decode(1), Err(StepError::NonFinite { position: 17 }), "{cache:?}");
            assert!(session.logits().is_none());
            session.reset();
            session.prefill(&ids[..17]).unwrap();
        });
    }
}

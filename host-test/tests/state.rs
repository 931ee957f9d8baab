//! Saved states and baked prefixes: whoever goes on from one computes the bits of whoever computed everything.

#[path = "state/damage.rs"]
mod damage;
#[path = "state/prefix.rs"]
mod prefix;

use std::sync::atomic::AtomicBool;

use pocket_host_test::EMULATED;
use pocket_host_test::golden::tokens;
use pocket_host_test::images;
use pocket_host_test::models::TINY;
use pocket_host_test::session::{Steps, Way, saved, with};
use pocket_pack::isa::Isa;
use pocket_runtime::{CacheType, Image, State, StateError, StepError};

const CACHES: [CacheType; 2] = [CacheType::F16, CacheType::I8];

/// Ends every step before its first half of a layer.
static CANCELLED: AtomicBool = AtomicBool::new(true);
/// Ends none.
static FREE: AtomicBool = AtomicBool::new(false);

fn image(name: &str) -> Image<'static> {
    Image::open(images::image(name)).unwrap()
}

/// The state after these tokens.
fn state_of(image: &Image<'_>, ids: &[u32], way: Way) -> Vec<u8> {
    with(image, way, |session| {
        session.prefill(ids).unwrap();
        saved(session)
    })
}

/// The logits of tokens that follow what a session holds.
fn following(session: &mut dyn Steps<'_>, ids: &[u32]) -> Vec<Vec<u32>> {
    let mut rows = Vec::new();
    session.prefill_each(ids, &mut |_, row| rows.push(row.iter().map(|x| x.to_bits()).collect())).unwrap();
    rows
}

#[test]
fn going_on_from_a_state_gives_the_same_bits_everywhere() {
    // On an emulated processor two models, of both kinds of groups, are enough.
    let models: &[&str] = if EMULATED { &[TINY[4], TINY[5]] } else { &TINY };
    for (name, cache) in models.iter().flat_map(|name| CACHES.map(|cache| (name, cache))) {
        let image = image(name);
        let ids = tokens(name);
        for cut in [1, 15, 16, 17, 40] {
            let way = Way { cache, ..Way::new(64) };
            let (before, after) = ids[..60].split_at(cut);
            let want = with(&image, way, |session| {
                session.prefill(before).unwrap();
                following(session, after)
            });
            let bytes = state_of(&image, before, way);
            let state = State::open(&bytes).unwrap();
            assert_eq!((state.positions(), state.cache()), (cut, cache));
            assert!(state.tokens().eq(before.iter().copied()));
            for isa in Isa::available() {
                // Another context has another layout of the cache; the session has seen other tokens before.
                let way = Way { isa, workers: 2, batch: 7, cache, context: 60 };
                with(&image, way, |session| {
                    session.prefill(&ids[5..50]).unwrap();
                    session.restore(&state).unwrap();
                    assert_eq!(session.tokens(), before);
                    assert!(session.logits().is_none() && session.pending() == 0);
                    assert_eq!(following(session, after), want, "{name} cut at {cut}, {way:?}");
                });
            }
        }
    }
}

#[test]
fn the_same_tokens_make_the_same_bytes() {
    for (name, cache) in [TINY[4], TINY[5]].into_iter().flat_map(|name| CACHES.map(|cache| (name, cache))) {
        let image = image(name);
        let ids = tokens(name);
        for len in [1, 16, 37] {
            let want = state_of(&image, &ids[..len], Way { cache, ..Way::new(64) });
            for isa in Isa::available() {
                let way = Way { isa, workers: 3, batch: 5, cache, context: 300 };
                // What was taken back leaves nothing behind.
                let found = with(&image, way, |session| {
                    session.prefill(&ids[..len / 2 + 1]).unwrap();
                    session.prefill(&ids[60..110]).unwrap();
                    session.rewind(len / 2 + 1).unwrap();
                    if len / 2 + 1 < len {
                        session.prefill(&ids[len / 2 + 1..len]).unwrap();
                    }
                    // Nor does what was in the memory that it is saved to.
                    let mut room = vec![0x3c; session.state_bytes() as usize];
                    session.save(&mut room).unwrap();
                    room
                });
                assert!(found == want, "{name}: {len} tokens on {way:?}");
            }
        }
    }
}

#[test]
fn a_state_takes_the_room_that_was_said_and_no_more() {
    let image = image(TINY[4]);
    let ids = tokens(TINY[4]);
    with(&image, Way::new(64), |session| {
        for len in [0, 1, 33] {
            session.reset();
            if len > 0 {
                session.prefill(&ids[..len]).unwrap();
            }
            let need = session.state_bytes();
            let mut room = vec![0x77; need as usize + 100];
            let short = need - 1;
            assert_eq!(session.save(&mut room[..short as usize]), Err(StateError::Room { need, have: short }));
            assert!(room.iter().all(|&byte| byte == 0x77), "nothing is written where it does not fit");
            assert_eq!(session.save(&mut room), Ok(need as usize));
            assert!(room[need as usize..].iter().all(|&byte| byte == 0x77), "nothing behind the state");
            // It may begin anywhere, and something may follow it.
            let shifted: Vec<u8> = [&[0x77; 3][..], &room].concat();
            assert_eq!(State::open(&shifted[3..]).unwrap().positions(), len);
        }
    });
}

#[test]
fn nothing_but_what_is_held_is_saved() {
    let image = image(TINY[4]);
    let ids = tokens(TINY[4]);
    with(&image, Way::new(64), |session| {
        session.prefill(&ids[..20]).unwrap();
        let before = saved(session);
        let held = session.tokens().to_vec();
        session.cancel_by(&CANCELLED);
        assert_eq!(session.prefill(&ids[20..30]), Err(StepError::Cancelled { position: 20, left: 10 }));
        assert!(saved(session) == before, "tokens that are left are not saved");
        // Taking up a state forgets them.
        session.restore(&State::open(&before).unwrap()).unwrap();
        assert_eq!((session.pending(), session.tokens()), (0, &held[..]));
        session.cancel_by(&FREE);
        let want = with(&image, Way::new(64), |session| following(session, &ids[..40]));
        assert_eq!(following(session, &ids[20..40]), want[20..]);
    });
}

#[test]
fn an_empty_state_is_a_beginning() {
    let image = image(TINY[4]);
    let ids = tokens(TINY[4]);
    let bytes = with(&image, Way::new(64), |session| saved(session));
    with(&image, Way::new(64), |session| {
        let want = following(session, &ids[..9]);
        session.restore(&State::open(&bytes).unwrap()).unwrap();
        assert_eq!(session.position(), 0);
        assert_eq!(following(session, &ids[..9]), want);
    });
}

//! A saved state: whatever opens is refused by a session, or goes on to logits or an error of the step.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pocket_host_test::images::{self, seal_state};
use pocket_host_test::models::TINY;
use pocket_host_test::session::{Way, with};
use pocket_runtime::{CacheType, Image, State, StepError};

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.to_vec();
    let _ = State::open(&bytes).map(|state| state.positions());
    seal_state(&mut bytes);
    let Ok(state) = State::open(&bytes) else { return };
    let image = Image::open(images::image(TINY[4])).expect("the model that the seeds are of");
    for cache in [CacheType::F16, CacheType::I8] {
        with(&image, Way { cache, ..Way::new(32) }, |session| {
            if session.restore(&state).is_ok() {
                assert!(state.tokens().eq(session.tokens().iter().copied()));
                let step = session.decode(1);
                let expected =
                    matches!(step, Ok(()) | Err(StepError::NonFinite { .. } | StepError::ContextFull { .. }));
                assert!(expected, "{step:?}");
            } else {
                assert_eq!(session.position(), 0);
            }
        });
    }
});

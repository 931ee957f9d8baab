//! A saved state: whatever opens is refused by a session, or goes on to logits or an error of the step.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pocket_host_test::images::{self, AlignedBytes, seal_state};
use pocket_host_test::models::{self, TINY};
use pocket_host_test::session::{Way, with};
use pocket_pack::pack::Quant;
use pocket_runtime::{CacheType, Image, State, StepError};

/// The model that the seeds are of.
static MODEL: LazyLock<AlignedBytes> = LazyLock::new(|| images::pack(&models::tiny(TINY[4]), Quant::Q8).0);

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.to_vec();
    let _ = State::open(&bytes).map(|state| state.positions());
    seal_state(&mut bytes);
    let Ok(state) = State::open(&bytes) else { return };
    let image = Image::open(&MODEL).expect("an image that was just packed");
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

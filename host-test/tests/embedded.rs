//! A firmware's image, plan and arena as constants: what does not fit does not build.

use std::fs;

use pocket_host_test::golden::tokens;
use pocket_host_test::images;
use pocket_host_test::models::fixture;
use pocket_kernels::Scalar;
use pocket_runtime::image::Aligned;
use pocket_runtime::{Arena, Config, Image, Limits, Plan, Session, Single};
use static_assertions::const_assert;

/// The model that is built in.
const MODEL: &str = "tiny-qwen3-q4_1-g64";
static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!("../fixtures/embedded.pocket"));
const PLAN: Plan = Plan::new(&Config::of_image(include_bytes!("../fixtures/embedded.pocket")), &Limits::new(128));
const_assert!(PLAN.peak_bytes(include_bytes!("../fixtures/embedded.pocket").len()) <= 2_000_000);
/// Nothing but the image and the limits decides how much memory the program has.
static ARENA: Arena<{ PLAN.arena_bytes() }> = Arena::new();

#[test]
fn an_image_that_is_built_in_runs_in_the_arena_that_follows_from_it() {
    let image = Image::open(&IMAGE.0).unwrap();
    assert_eq!(PLAN.config(), image.config());
    assert_eq!(Plan::try_new(image.config(), &Limits::new(128)), Ok(PLAN));
    let ids = &tokens(MODEL)[..20];
    let mut session = Session::new(&image, &PLAN, ARENA.take().unwrap(), Scalar, &Single).unwrap();
    session.prefill(ids).unwrap();
    let other = Image::open(images::image(MODEL)).unwrap();
    let want = pocket_host_test::session::logits(&other, ids, pocket_host_test::session::Way::new(128));
    assert_eq!(session.logits(), Some(&want[19][..]));
}

#[test]
fn the_fixture_is_what_the_packer_writes() {
    let same = fs::read(fixture("embedded.pocket")).unwrap() == images::image(MODEL);
    assert!(
        same,
        "write it anew: pocket pack host-test/fixtures/gguf/{MODEL}.gguf -o host-test/fixtures/embedded.pocket"
    );
}

/// The compiler is asked; an emulated processor has none.
#[cfg(not(target_arch = "aarch64"))]
#[test]
fn what_does_not_fit_does_not_build() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/embedded/fits.rs");
    cases.compile_fail("tests/embedded/too_*.rs");
    cases.compile_fail("tests/embedded/no_*.rs");
}

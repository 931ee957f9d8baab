use pocket_runtime::{Arena, Config, Limits, Plan};

const IMAGE: &[u8] = include_bytes!("../../fixtures/embedded.pocket");
const PLAN: Plan = Plan::new(&Config::of_image(IMAGE), &Limits::new(512));
const _: () = assert!(PLAN.peak_bytes(IMAGE.len()) <= 400_000, "more memory than the service may take");
static ARENA: Arena<{ PLAN.arena_bytes() }> = Arena::new();

fn main() {
    assert_eq!(ARENA.take().unwrap().len(), PLAN.arena_bytes());
}

//! Checks `exp` on every f32 there is, on every instruction set: minutes, for a scheduled run.
//!
//! `cargo run --release -p pocket-host-test --example exp_every_f32`

use pocket_kernels::exp::EXP_MAX_ULP;

fn main() {
    let worst = pocket_host_test::exponential::check(1);
    assert!(worst <= f64::from(EXP_MAX_ULP), "{worst} ulp are more than the {EXP_MAX_ULP} that are promised");
}

//! Which extensions a processor has, asked without `std`, against what `std` says.

use pocket_kernels_x86::{Amx, Avx2, Avx512Vnni, AvxVnni};
use std::arch::is_x86_feature_detected as has;

#[test]
fn the_processor_says_what_std_says() {
    let avx2 = has!("avx2") && has!("fma") && has!("f16c");
    let avx512 = avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512vnni");
    assert_eq!(Avx2::detect().is_some(), avx2);
    assert_eq!(AvxVnni::detect().is_some(), avx2 && has!("avxvnni"));
    assert_eq!(Avx512Vnni::detect().is_some(), avx512);
    // `std` does not tell about tiles; they come with AVX-512 or not at all.
    assert!(avx512 || Amx::detect().is_none());
}

//! Images, whole and damaged: what opens is safe to run, and what is not whole does not open.
//!
//! Three kinds of harm. Damage (bits flipped, ends cut) is what checksums are for, and each flip must be found by the
//! part that it is in. Malice comes with good checksums: then every bound must be checked, and whatever opens in the
//! end must run. Bad weights, which opening does not read, must show as an error of the step and never as a token.

#[path = "image/build.rs"]
mod build;
#[path = "image/damage.rs"]
mod damage;
#[path = "image/hostile.rs"]
mod hostile;
#[path = "image/mutations.rs"]
mod mutations;
#[path = "image/signature.rs"]
mod signature;
#[path = "image/weights.rs"]
mod weights;

//! What an answer costs a battery: counted where the system counts, else modelled.

mod meter;
mod model;

pub use meter::{Meter, Reading};
pub use model::{Answer, BATTERY_JOULES, GOAL_SHARE, PROFILES, Profile, Work};

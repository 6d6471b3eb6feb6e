//! A device's own bounds of what a mechanism guarantees: docs/protocol.md, "Submit", step 7.
//!
//! ε_L in closed form, rounded up, and the δ that two neighbouring datasets attain, rounded down.
//! Plain f64; the accountant computes the same numbers by other code, and vectors compare both.

mod attained;
mod blankets;
mod local;
mod losses;
pub(crate) mod noise;
pub(crate) mod windows;

pub use attained::attained_delta;
pub use local::local_epsilon;

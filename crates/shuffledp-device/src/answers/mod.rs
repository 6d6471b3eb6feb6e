//! The answer to a round, computed again from its board: estimates, errors and intervals.
//!
//! docs/accounting.md, S21, proves the intervals. Plain f64; the analyst computes the same numbers
//! by other code, and vectors compare both.

mod estimates;
mod intervals;
mod nodes;
mod trees;

pub use estimates::{Counting, Estimate, Reports, estimate};

//! What a device of shuffledp has to do to take part in a round, for phones and other languages.
//!
//! Strict JSON and Ed25519, signed documents, the checks of a whole round and of the public log, exact
//! sampling, layers and envelopes of all suites, verified mixing, claims, receipts and
//! results with their boards; `device` puts them together.
//! Names of errors are those of the Python code; docs/reference/vectors.md says what all
//! implementations agree on, and docs/reference/devices.md what this one does not check.
#![forbid(unsafe_code)]

pub mod answers;
pub mod board;
pub mod bounds;
pub mod claims;
pub mod device;
pub mod documents;
pub mod errors;
pub mod geometry;
pub mod group;
pub mod json;
pub mod log;
pub mod mechanisms;
pub mod mixing;
pub mod policy;
pub mod randomness;
pub mod ratio;
pub mod results;
pub mod rounds;
pub mod schema;
pub mod sealing;
pub mod signatures;
pub mod wording;

/// The protocol's name, in labels of signatures and layers.
pub const PROTOCOL: &str = "shuffledp/v1";

/// Bytes of the random tag by which a sender finds its message on the board.
pub const TAG_BYTES: usize = 16;

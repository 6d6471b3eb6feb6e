//! What a device of shuffledp has to do to take part in a round, for phones and other languages.
//!
//! So far: strict JSON and Ed25519, signed documents, exact sampling, lengths, layers and
//! envelopes of the HPKE suites, claims and receipts. The checks of a whole round and of its result
//! are not here yet, so this crate cannot take part in one. Names of errors are those of the Python
//! code; docs/reference/vectors.md says what all implementations agree on.
#![forbid(unsafe_code)]

pub mod claims;
pub mod documents;
pub mod errors;
pub mod geometry;
pub mod json;
pub mod mechanisms;
pub mod randomness;
pub mod ratio;
pub mod schema;
pub mod sealing;
pub mod signatures;

/// The protocol's name, in labels of signatures and layers.
pub const PROTOCOL: &str = "shuffledp/v1";

/// Bytes of the random tag by which a sender finds its message on the board.
pub const TAG_BYTES: usize = 16;

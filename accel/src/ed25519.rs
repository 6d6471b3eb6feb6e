//! The equation of Ed25519, by `curve25519-dalek`: one signature at a time. All of it is public, and times depend on it.

use crate::words::Bytes;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;

/// Whether [S]B - [h]A, encoded, is R byte by byte: without the cofactor. h is the hash, whatever was hashed.
///
/// No key or nonce is refused for its order or for a second spelling: the caller does that.
pub fn holds(a: &Bytes, r: &Bytes, s: &Bytes, h: &[u8; 64]) -> bool {
    let (key, s) = (CompressedEdwardsY(*a).decompress(), Scalar::from_canonical_bytes(*s));
    let (Some(key), Some(s)) = (key, Option::from(s)) else { return false };
    let h = Scalar::from_bytes_mod_order_wide(h);
    EdwardsPoint::vartime_double_scalar_mul_basepoint(&h, &-key, &s).compress().0 == *r
}

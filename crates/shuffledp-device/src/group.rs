//! ristretto255 (RFC 9496), and the hashes of docs/mixing.md, "Notation".
//!
//! Multiplication takes the same time for all scalars. Bytes of others are decoded strictly: the one
//! encoding of an element, and never the identity.

use curve25519_dalek::constants::RISTRETTO_BASEPOINT_POINT;
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::Identity;
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

use crate::errors::{Code, Outcome, refuse};

/// Bytes of an element, a scalar and a digest.
pub const WIDTH: usize = 32;

const LABEL: &str = "shuffledp/v2/mix/";

/// An element other than the identity, with its only encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    point: RistrettoPoint,
    pub encoded: [u8; WIDTH],
}

impl Element {
    /// The element of an encoding.
    pub fn decode(bytes: &[u8]) -> Outcome<Self> {
        let read = || {
            let compressed = CompressedRistretto::from_slice(bytes).ok()?;
            Self::of(compressed.decompress()?)
        };
        read().map_or_else(|| refuse(Code::Proof, "not a group element, or the identity"), Ok)
    }

    /// The generator of RFC 9496.
    pub fn generator() -> Self {
        let point = RISTRETTO_BASEPOINT_POINT;
        Self { point, encoded: point.compress().to_bytes() }
    }

    /// None for the identity.
    fn of(point: RistrettoPoint) -> Option<Self> {
        if point == RistrettoPoint::identity() {
            return None;
        }
        Some(Self { point, encoded: point.compress().to_bytes() })
    }

    /// The encoding of a multiple; a product that is the identity is refused.
    pub fn multiply(&self, factor: &Scalar) -> Outcome<[u8; WIDTH]> {
        let product = Zeroizing::new(self.point * factor);
        let encoded = product.compress().to_bytes();
        if encoded == [0; WIDTH] {
            return refuse(Code::Proof, "a product of group elements is the identity");
        }
        Ok(encoded)
    }

    /// The encoding of z self - c other, which are public; None for the identity.
    fn commitment(&self, z: &Scalar, other: &Self, c: &Scalar) -> Option<[u8; WIDTH]> {
        Self::of(self.point * z - other.point * c).map(|element| element.encoded)
    }
}

/// The scalar of 32 bytes, little endian, that are below the order.
pub fn decode_scalar(bytes: &[u8]) -> Outcome<Scalar> {
    let read = || Option::from(Scalar::from_canonical_bytes(bytes.try_into().ok()?));
    read().map_or_else(|| refuse(Code::Proof, "not a scalar in canonical form"), Ok)
}

/// H: SHA-512 of the label and the parts, each behind its length.
fn hash_parts(label: &str, parts: &[&[u8]]) -> Zeroizing<[u8; 64]> {
    let mut state = Sha512::new();
    state.update(LABEL);
    state.update(label);
    state.update([0]);
    for part in parts {
        state.update((part.len() as u64).to_be_bytes());
        state.update(part);
    }
    Zeroizing::new(state.finalize().into())
}

/// D: the first 32 bytes of H.
pub fn digest_parts(label: &str, parts: &[&[u8]]) -> Zeroizing<[u8; WIDTH]> {
    let mut digest = Zeroizing::new([0; WIDTH]);
    digest.copy_from_slice(&hash_parts(label, parts)[..WIDTH]);
    digest
}

/// C: all bytes of H, modulo the order.
pub fn challenge(label: &str, parts: &[&[u8]]) -> Zeroizing<Scalar> {
    Zeroizing::new(Scalar::from_bytes_mod_order_wide(&hash_parts(label, parts)))
}

/// A position, index or count in a hash.
pub fn number(value: usize) -> [u8; 4] {
    (value as u32).to_be_bytes()
}

/// Whether a proof of knowledge of the logarithm of `key` to `base` holds.
pub fn verifies_knowledge(purpose: &str, context: &[&[u8]], base: &Element, key: &Element, proof: &[u8]) -> bool {
    let holds = || {
        let (c_bytes, z_bytes) = proof.split_at_checked(WIDTH)?;
        let (c, z) = (decode_scalar(c_bytes).ok()?, decode_scalar(z_bytes).ok()?);
        if c == Scalar::ZERO || z == Scalar::ZERO {
            return None;
        }
        let commitment = base.commitment(&z, key, &c)?;
        let statement = [context, &[&base.encoded, &key.encoded, &commitment]].concat();
        Some(*challenge(&format!("knows/{purpose}"), &statement) == c)
    };
    holds().unwrap_or(false)
}

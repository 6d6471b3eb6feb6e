//! Keys and signatures of Ed25519 in bulk (RFC 8032). All arithmetic with secrets is `curve25519-dalek`'s, in constant time.
//!
//! Secrets are overwritten when they are dropped.

use crate::words::Bytes;
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use sha2::{Digest, Sha512};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

pub type SignatureBytes = [u8; 64];

/// A private key, expanded: the scalar and the key of its nonces.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Expanded {
    scalar: Scalar,
    prefix: Bytes,
}

impl Expanded {
    fn of(seed: &Bytes) -> Self {
        let hash = Zeroizing::new(hashed(&[seed]));
        let (mut scalar, mut prefix) = (Zeroizing::new([0; 32]), [0; 32]);
        scalar.copy_from_slice(&hash[..32]);
        prefix.copy_from_slice(&hash[32..]);
        *scalar = clamp_integer(*scalar);
        // Modulo the order: it only multiplies the base point, and enters S.
        Self { scalar: Scalar::from_bytes_mod_order(*scalar), prefix }
    }
}

fn hashed(parts: &[&[u8]]) -> [u8; 64] {
    let mut hash = Sha512::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// Encoded multiples of the base point; one inversion for all of them.
fn multiples(scalars: &[Scalar]) -> Vec<Bytes> {
    let points: Zeroizing<Vec<_>> = Zeroizing::new(scalars.iter().map(EdwardsPoint::mul_base).collect());
    EdwardsPoint::compress_batch_alloc(&points).into_iter().map(|encoded| encoded.0).collect()
}

/// The public keys of these private keys.
pub fn public_keys(seeds: &[Bytes]) -> Vec<Bytes> {
    let scalars: Zeroizing<Vec<_>> = Zeroizing::new(seeds.iter().map(|seed| Expanded::of(seed).scalar).collect());
    multiples(&scalars)
}

/// Signatures of the messages, each under the private key of its place; a single key signs all.
pub fn sign(seeds: &[Bytes], messages: &[&[u8]]) -> Vec<SignatureBytes> {
    assert!(seeds.len() == messages.len() || seeds.len() == 1);
    let publics = public_keys(seeds);
    let keys: Vec<_> = seeds.iter().map(Expanded::of).collect();
    let key_of = |place: usize| place.min(keys.len() - 1);
    let nonce = |(place, message): (usize, &&[u8])| {
        let hash = Zeroizing::new(hashed(&[&keys[key_of(place)].prefix, message]));
        Scalar::from_bytes_mod_order_wide(&hash)
    };
    let nonces: Zeroizing<Vec<_>> = Zeroizing::new(messages.iter().enumerate().map(nonce).collect());
    let shown = multiples(&nonces);
    let signature = |(place, message): (usize, &&[u8])| {
        let own = key_of(place);
        let h = Scalar::from_bytes_mod_order_wide(&hashed(&[&shown[place], &publics[own], message]));
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&shown[place]);
        signature[32..].copy_from_slice(&(nonces[place] + h * keys[own].scalar).to_bytes());
        signature
    };
    messages.iter().enumerate().map(signature).collect()
}

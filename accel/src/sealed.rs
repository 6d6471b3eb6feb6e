//! The symmetric half of libsodium's sealed box: XSalsa20-Poly1305 under the shared point, from RustCrypto's crates.

use crate::words::Bytes;
use blake2::digest::consts::{U10, U24};
use blake2::{Blake2b, Digest};
use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit as _;
use salsa20::cipher::{KeyIvInit, StreamCipher};
use salsa20::{Salsa20, hsalsa};
use zeroize::Zeroize;

/// Bytes that a seal adds: ephemeral public key, tag.
pub const OVERHEAD: usize = 32 + TAG;
const TAG: usize = 16;

/// The stream of a box behind its first 32 bytes, and those as the key of its authenticator.
///
/// `shared` is what X25519 gave; the nonce is BLAKE2b(ephemeral public key || public key), 24 bytes.
fn opened(shared: &Bytes, ephemeral: &Bytes, public: &Bytes) -> (Salsa20, Poly1305) {
    let nonce = Blake2b::<U24>::new().chain_update(ephemeral).chain_update(public).finalize();
    let (first, last) = nonce.split_at(16);
    let mut key = hsalsa::<U10>(shared.into(), &[0; 16].into());
    let mut subkey = hsalsa::<U10>(&key, first.try_into().expect("16 bytes"));
    let mut stream = Salsa20::new(&subkey, last.try_into().expect("8 bytes"));
    let mut authenticator = Bytes::default();
    stream.apply_keystream(&mut authenticator);
    let poly = Poly1305::new((&authenticator).into());
    key.zeroize();
    subkey.zeroize();
    authenticator.zeroize();
    (stream, poly)
}

/// Seals `plain` into `record`, longer by `OVERHEAD`.
pub fn seal(shared: &Bytes, ephemeral: &Bytes, public: &Bytes, plain: &[u8], record: &mut [u8]) {
    let (mut stream, poly) = opened(shared, ephemeral, public);
    let (head, body) = record.split_at_mut(OVERHEAD);
    body.copy_from_slice(plain);
    stream.apply_keystream(body);
    head[..32].copy_from_slice(ephemeral);
    head[32..].copy_from_slice(&poly.compute_unpadded(body));
}

/// Appends the plaintext of `record` to `plain`; false, and nothing appended, if the tag is not right.
pub fn open(shared: &Bytes, public: &Bytes, record: &[u8], plain: &mut Vec<u8>) -> bool {
    let (head, body) = record.split_at(OVERHEAD);
    let (ephemeral, tag) = head.split_at(32);
    let (mut stream, poly) = opened(shared, ephemeral.try_into().expect("32 bytes"), public);
    let expected = poly.compute_unpadded(body);
    let difference = expected.iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b));
    if core::hint::black_box(difference) != 0 {
        return false;
    }
    let start = plain.len();
    plain.extend_from_slice(body);
    stream.apply_keystream(&mut plain[start..]);
    true
}

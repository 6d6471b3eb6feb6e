//! What libsodium's sealed box does under the shared point: the nonce, and XSalsa20-Poly1305.
//!
//! Streams come from `salsa`, many at a time; BLAKE2b and Poly1305 are RustCrypto's.

use crate::salsa::{BLOCK, Nonce};
use crate::words::{Bytes, told};
use blake2::digest::consts::U24;
use blake2::{Blake2b, Digest};
use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit as _;

/// Bytes that a seal adds: ephemeral public key, tag.
pub const OVERHEAD: usize = 32 + TAG;
const TAG: usize = 16;
/// Bytes of a stream that are the key of its authenticator; what follows covers the text.
const KEY: usize = 32;

/// BLAKE2b(ephemeral public key || public key), 24 bytes.
pub fn nonce(ephemeral: &Bytes, public: &Bytes) -> Nonce {
    Blake2b::<U24>::new().chain_update(ephemeral).chain_update(public).finalize().into()
}

/// Bytes of a stream for a text of this width, in whole blocks.
pub fn stream_bytes(width: usize) -> usize {
    (KEY + width).next_multiple_of(BLOCK)
}

fn tag(stream: &[u8], body: &[u8]) -> [u8; TAG] {
    let key: &Bytes = stream[..KEY].try_into().expect("32 bytes");
    Poly1305::new(key.into()).compute_unpadded(body).into()
}

/// Writes into `body` what `text` is under this stream.
fn cover(stream: &[u8], text: &[u8], body: &mut [u8]) {
    for ((out, byte), own) in body.iter_mut().zip(text).zip(&stream[KEY..]) {
        *out = byte ^ own;
    }
}

/// Seals `plain` into `record`, longer by `OVERHEAD`.
pub fn seal(stream: &[u8], ephemeral: &Bytes, plain: &[u8], record: &mut [u8]) {
    let (head, body) = record.split_at_mut(OVERHEAD);
    cover(stream, plain, body);
    head[..32].copy_from_slice(ephemeral);
    head[32..].copy_from_slice(&tag(stream, body));
}

/// Appends the plaintext of `record` to `plain`; false, and nothing appended, if the tag is not right.
pub fn open(stream: &[u8], record: &[u8], plain: &mut Vec<u8>) -> bool {
    let (head, body) = record.split_at(OVERHEAD);
    let difference = tag(stream, body).iter().zip(&head[32..]).fold(0, |all, (a, b)| all | (a ^ b));
    if told(difference) != 0 {
        return false;
    }
    let start = plain.len();
    plain.resize(start + body.len(), 0);
    cover(stream, body, &mut plain[start..]);
    true
}

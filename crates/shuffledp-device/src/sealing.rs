//! Layers and envelopes: RFC 9180 base mode; the hybrid KEM is MLKEM768-X25519 (X-Wing).
//!
//! What an ephemeral key leads to is erased. ML-KEM's part is given to this module: nothing here
//! draws randomness.

use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use sha3::{Digest, Sha3_256};
use x25519_dalek::x25519;
use zeroize::Zeroizing;

use crate::PROTOCOL;
use crate::errors::{Code, Outcome, refuse};
use crate::geometry::{Geometry, Suite};

const VERSION: &[u8] = b"HPKE-v1";
const XWING_LABEL: &[u8] = b"\\.//^\\";
const BASE_POINT: [u8; 32] = {
    let mut point = [0; 32];
    point[0] = 9;
    point
};

/// The fresh secrets of one layer.
pub struct Ephemeral {
    /// X25519 private key, 32 random bytes.
    pub key: Zeroizing<[u8; 32]>,
    /// In the hybrid suite the ciphertext and the shared secret of ML-KEM-768's encapsulation.
    pub encapsulation: Option<(Vec<u8>, Zeroizing<[u8; 32]>)>,
}

type Secret = Zeroizing<[u8; 32]>;

fn mac(key: &[u8], parts: &[&[u8]]) -> Secret {
    let mut state = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes any key");
    for part in parts {
        state.update(part);
    }
    Zeroizing::new(state.finalize().into_bytes().into())
}

fn extract(id: &[u8], salt: &[u8], label: &str, ikm: &[u8]) -> Secret {
    mac(salt, &[VERSION, id, label.as_bytes(), ikm])
}

/// At most 32 bytes, one block of HKDF.
fn expand(id: &[u8], key: &[u8], label: &str, info: &[&[u8]], size: u16) -> Secret {
    let length = size.to_be_bytes();
    let mut parts = vec![&length[..], VERSION, id, label.as_bytes()];
    parts.extend(info);
    parts.push(&[1]);
    mac(key, &parts)
}

/// Seals to one round key under the binding of round and position.
pub fn seal(
    suite: &Suite,
    public_key: &[u8],
    round_id: &str,
    position: u64,
    plaintext: &[u8],
    ephemeral: &Ephemeral,
) -> Outcome<Vec<u8>> {
    if suite.kem == 0 {
        return refuse(Code::Unsupported, "sealed boxes are not implemented");
    }
    if public_key.len() != suite.public_key {
        return refuse(Code::Usage, "a public key of another length");
    }
    let mut recipient = [0; 32];
    recipient.copy_from_slice(&public_key[public_key.len() - 32..]);
    let shown = x25519(*ephemeral.key, BASE_POINT);
    let agreed = Zeroizing::new(x25519(*ephemeral.key, recipient));
    let kem = suite.kem.to_be_bytes();
    let shared = match &ephemeral.encapsulation {
        None => {
            let id = [b"KEM".as_slice(), &kem].concat();
            let extracted = extract(&id, &[0; 32], "eae_prk", agreed.as_slice());
            expand(&id, extracted.as_slice(), "shared_secret", &[&shown, &recipient], 32)
        }
        Some((_, secret)) => {
            let mut state = Sha3_256::new();
            for part in [secret.as_slice(), agreed.as_slice(), &shown, &recipient, XWING_LABEL] {
                state.update(part);
            }
            Zeroizing::new(state.finalize().into())
        }
    };
    let id = [b"HPKE".as_slice(), &kem, &[0, 1, 0, 3]].concat();
    let info = format!("{PROTOCOL}/onion/{round_id}/{position}");
    let bound = [extract(&id, &[0; 32], "psk_id_hash", b""), extract(&id, &[0; 32], "info_hash", info.as_bytes())];
    let context: [&[u8]; 3] = [&[0], bound[0].as_slice(), bound[1].as_slice()];
    let schedule = extract(&id, shared.as_slice(), "secret", b"");
    let key = expand(&id, schedule.as_slice(), "key", &context, 32);
    let nonce = expand(&id, schedule.as_slice(), "base_nonce", &context, 12);
    let cipher = ChaCha20Poly1305::new(<&Key>::from(&*key));
    let mut short = [0; 12];
    short.copy_from_slice(&nonce[..12]);
    let sealed = cipher.encrypt(&Nonce::from(short), plaintext).expect("a layer is not too long");
    let ciphertext = ephemeral.encapsulation.as_ref().map_or(&[][..], |(ciphertext, _)| ciphertext);
    Ok([ciphertext, &shown, &sealed].concat())
}

/// Seals messages in layers for the last hop to the second, and all of them in one envelope.
///
/// There is a key for each hop; `next` gives the secrets of each layer. The messages are erased.
pub fn seal_envelope(
    geometry: &Geometry,
    round_id: &str,
    public_keys: &[Vec<u8>],
    messages: Vec<Zeroizing<Vec<u8>>>,
    mut next: impl FnMut() -> Outcome<Ephemeral>,
) -> Outcome<Vec<u8>> {
    if public_keys.len() as u64 != geometry.hops {
        return refuse(Code::Usage, "not one public key for each hop");
    }
    let mut records = messages;
    for hop in (2..=geometry.hops).rev() {
        let key = &public_keys[hop as usize - 1];
        for record in &mut records {
            *record = Zeroizing::new(seal(geometry.suite, key, round_id, hop, record, &next()?)?);
        }
    }
    let all = Zeroizing::new(records.iter().flat_map(|record| record.iter().copied()).collect::<Vec<u8>>());
    seal(geometry.suite, &public_keys[0], round_id, 1, &all, &next()?)
}

//! Layers and envelopes: RFC 9180 base mode; the hybrid KEM is MLKEM768-X25519 (X-Wing).
//!
//! What an ephemeral key leads to is erased. Sealed boxes are those of libsodium.

use blake2::Blake2b;
use blake2::digest::consts::U24;
use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use hmac::{Hmac, Mac};
use ml_kem::B32;
use ml_kem::ml_kem_768::EncapsulationKey;
use poly1305::Poly1305;
use salsa20::cipher::consts::U10;
use salsa20::cipher::{KeyIvInit, StreamCipher};
use salsa20::{XSalsa20, hsalsa};
use sha2::Sha256;
use sha3::{Digest, Sha3_256};
use x25519_dalek::x25519;
use zeroize::Zeroizing;

use crate::PROTOCOL;
use crate::errors::{Code, Outcome, refuse};
use crate::geometry::{Geometry, HYBRID, Suite};
use crate::randomness::system_random;

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

impl Ephemeral {
    /// Fresh secrets from the operating system, for one layer to this key.
    pub fn fresh(suite: &Suite, public_key: &[u8]) -> Outcome<Self> {
        let mut key = Zeroizing::new([0; 32]);
        system_random(key.as_mut_slice());
        let encapsulation = if suite.kem == HYBRID { Some(encapsulate(public_key)?) } else { None };
        Ok(Self { key, encapsulation })
    }
}

/// ML-KEM-768 to the first part of a hybrid key; refuses coefficients that are not reduced.
fn encapsulate(public_key: &[u8]) -> Outcome<(Vec<u8>, Zeroizing<[u8; 32]>)> {
    let lattice = public_key.get(..public_key.len().saturating_sub(32)).unwrap_or_default();
    let key = lattice.try_into().ok().and_then(|key| EncapsulationKey::new(key).ok());
    let Some(key) = key else { return refuse(Code::RoundKey, "not an ML-KEM-768 key") };
    let mut coins = Zeroizing::new([0; 32]);
    system_random(coins.as_mut_slice());
    let (ciphertext, secret) = key.encapsulate_deterministic(<&B32>::from(&*coins));
    let secret = Zeroizing::new(secret);
    let mut shared = Zeroizing::new([0; 32]);
    shared.copy_from_slice(secret.as_slice());
    Ok((ciphertext.to_vec(), shared))
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
    if public_key.len() != suite.public_key {
        return refuse(Code::Usage, "a public key of another length");
    }
    let mut recipient = [0; 32];
    recipient.copy_from_slice(&public_key[public_key.len() - 32..]);
    let shown = x25519(*ephemeral.key, BASE_POINT);
    let agreed = Zeroizing::new(x25519(*ephemeral.key, recipient));
    if agreed.iter().all(|byte| *byte == 0) {
        return refuse(Code::RoundKey, "a public key of small order");
    }
    if suite.kem == 0 {
        return Ok([&shown[..], &sealed_box(&shown, &recipient, &agreed, plaintext)].concat());
    }
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

/// Tag and ciphertext of XSalsa20-Poly1305 under a key and a nonce that these two keys lead to.
fn sealed_box(shown: &[u8; 32], recipient: &[u8; 32], agreed: &Secret, plaintext: &[u8]) -> Vec<u8> {
    let key = Zeroizing::new(hsalsa::<U10>((&**agreed).into(), &Default::default()));
    let nonce = Blake2b::<U24>::new().chain_update(shown).chain_update(recipient).finalize();
    let mut stream = XSalsa20::new(&key, &nonce);
    let mut first = Zeroizing::new([0; 32]);
    stream.apply_keystream(first.as_mut_slice());
    let mut sealed = [&[0; 16], plaintext].concat();
    stream.apply_keystream(&mut sealed[16..]);
    let tag = Poly1305::new(<&Key>::from(&*first)).compute_unpadded(&sealed[16..]);
    sealed[..16].copy_from_slice(&tag);
    sealed
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

//! The equation of signatures against vectors of RFC 8032, section 7.1. Odd ones: `tests/core/test_strict_signatures.py`.

use shuffledp_accel::ed25519::holds;
use shuffledp_accel::engine::{Engine, Signature, Signer};
use shuffledp_accel::paths::available;
use shuffledp_accel::signing::{public_keys, sign};

fn from_hex<const N: usize>(text: &str) -> [u8; N] {
    core::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex"))
}

#[test]
fn tests_1_and_2_of_rfc_8032_hold_and_no_bit_of_them_can_change() {
    // Key, R, S, and SHA-512 of R, the key and the message: empty in the first, the byte 72 in the second.
    let vectors = [
        (
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155",
            "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
            "2771062b6b536fe7ffbdda0320c3827b035df10d284df3f08222f04dbca7a4c20ef15bdc988a22c7207411377c33f2ac09b1e86a046234283768ee7ba03c0e9f",
        ),
        (
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da",
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
            "a271df0d2b0d03bd17b4ed9a4b6afddf2e73287fd630f1a137d87ce873a591cc31b6dd852a98b5dd1226fe993d8228278ceba21f80b8fc95986a70d71edf3faf",
        ),
    ];
    for (a, r, s, h) in vectors {
        let (a, r, s, h) = (from_hex(a), from_hex(r), from_hex(s), from_hex(h));
        assert!(holds(&a, &r, &s, &h));
        for bit in 0..256 {
            let changed = |bytes: &[u8; 32]| {
                let mut other = *bytes;
                other[bit / 8] ^= 1 << (bit % 8);
                other
            };
            assert!(!holds(&changed(&a), &r, &s, &h));
            assert!(!holds(&a, &changed(&r), &s, &h));
            assert!(!holds(&a, &r, &changed(&s), &h));
        }
    }
}

fn seeds(count: usize) -> Vec<[u8; 32]> {
    (0..count).map(|i| core::array::from_fn(|j| (i * 31 + j * 7 + 1) as u8)).collect()
}

/// Signatures of the messages [i] under the i-th key, with the hashes of `curve25519-dalek`'s own equation.
fn made(keys: &[[u8; 32]]) -> (Vec<[u8; 32]>, Vec<Signature>) {
    use sha2::{Digest, Sha512};
    let messages: Vec<Vec<u8>> = (0..keys.len()).map(|i| vec![i as u8; i]).collect();
    let texts: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    let (publics, signed) = (public_keys(keys), sign(keys, &texts));
    let signature = |place: usize| {
        let ([r, s], []) = signed[place].as_chunks::<32>() else { unreachable!("64 bytes") };
        let hash = Sha512::new().chain_update(r).chain_update(publics[place]).chain_update(texts[place]);
        Signature { r: *r, s: *s, challenge: hash.finalize().into() }
    };
    let signatures = (0..keys.len()).map(signature).collect();
    (publics, signatures)
}

#[test]
fn batches_of_every_path_say_of_each_signature_what_is_said_of_it_alone() {
    for path in available() {
        let engine = Engine::named(path.name).expect("available");
        for count in if path.fast { 0..2 * path.lanes + 2 } else { path.lanes..path.lanes + 2 } {
            let (keys, signatures) = made(&seeds(count));
            assert_eq!(engine.hold(&keys, &signatures), vec![true; count], "{}", path.name);
            for place in 0..count {
                let (mut keys, mut signatures) = made(&seeds(count));
                match place % 4 {
                    0 => signatures[place].r[place] ^= 4,
                    1 => signatures[place].s[place] ^= 4,
                    2 => signatures[place].challenge[place] ^= 4,
                    _ => keys[place][place] ^= 4,
                }
                let one = &signatures[place];
                assert!(!holds(&keys[place], &one.r, &one.s, &one.challenge));
                let wanted: Vec<_> = (0..count).map(|other| other != place).collect();
                assert_eq!(engine.hold(&keys, &signatures), wanted, "{}, {place} of {count}", path.name);
            }
        }
    }
}

#[test]
fn a_table_of_a_key_says_the_same_as_the_key() {
    for path in available() {
        let engine = Engine::named(path.name).expect("available");
        let key = seeds(1)[0];
        let signer = Signer::new(public_keys(&[key])[0]);
        for turn in 0..3 {
            let mut signatures = made(&vec![key; 33]).1;
            signatures[7].r[0] ^= 1;
            signatures[32].s[31] ^= 0x80; // beyond the group's order
            let wanted: Vec<_> = (0..33).map(|place| place != 7 && place != 32).collect();
            assert_eq!(engine.hold_under(&signer, &signatures), wanted, "{}, {turn}", path.name);
        }
        assert!(signer.has_table());
        let mut no_point = [0; 32];
        no_point[0] = 2;
        let none = Signer::new(no_point);
        assert_eq!(engine.hold_under(&none, &made(&vec![key; 70]).1), vec![false; 70]);
    }
}

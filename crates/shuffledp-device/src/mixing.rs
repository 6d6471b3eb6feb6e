//! Verified mixing: docs/mixing.md. Keys of nodes are checked, messages sealed and claimed.
//!
//! The logarithms of a claim, all that leads to them, and the symbols lie in memory that is erased.

use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use curve25519_dalek::scalar::Scalar;
use ed25519_dalek::{Signer, SigningKey};
use zeroize::Zeroizing;

use crate::documents::{Frame, check_document, quote};
use crate::errors::{Code, Outcome, foreign, malformed, refuse};
use crate::group::{Element, WIDTH, challenge, digest_parts, number, verifies_knowledge};
use crate::json::{Value, parse};
use crate::schema::from_hex;

/// Bytes of a proof or a signature.
pub const PROOF_BYTES: usize = 64;
const SIGNED: &[u8] = b"shuffledp/v2/claim\0";
/// How a claim writes that its credential does not expire.
const NEVER: u64 = u64::MAX;

/// What all claims of a verified round are made with.
#[derive(Debug)]
pub struct MixTerms {
    /// The digest of the manifest.
    pub manifest: [u8; WIDTH],
    /// B_L, the blinding key of the last node.
    pub last: Element,
    /// M_2 to M_L, the opening keys of the nodes behind the first.
    pub openers: Vec<Element>,
}

/// Checks the mixing keys of a route, K1 to K3; gives the round's terms.
///
/// `keys` are the verified round keys in order, all with mixing keys.
pub fn check_keys(
    manifest_digest: &str,
    certificate_digest: &str,
    keys: &[Value],
    enrolment_key: &str,
) -> Outcome<MixTerms> {
    let Some(first) = keys.first() else { return refuse(Code::RoundKey, "a round without keys") };
    if first.at("mixing").text_at("enrolment_key") != enrolment_key {
        return foreign("the round's claims go by another enrolment key than this roster has");
    }
    let bound = [first.text_at("deployment"), first.text_at("round_id"), certificate_digest];
    let route = digest_parts("route", &bound.map(str::as_bytes));
    let mut base = Element::generator();
    let mut openers = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        match check_node_keys(&*route, &base, at, key) {
            Ok((blinding, opening)) => {
                base = blinding;
                openers.extend(opening);
            }
            Err(what) => {
                let message = format!("{what} (mixing keys of {}); do not take part", key.text_at("node"));
                return refuse(Code::RoundKey, message);
            }
        }
    }
    let manifest = from_hex(manifest_digest).and_then(|digest| digest.try_into().ok());
    let Some(manifest) = manifest else { return malformed("a digest does not have 32 bytes") };
    Ok(MixTerms { manifest, last: base, openers })
}

/// Checks the keys of the node at an index, whose base the nodes before it lead to; gives B and M, or
/// what is wrong.
fn check_node_keys(
    route: &[u8],
    base: &Element,
    at: usize,
    key: &Value,
) -> Result<(Element, Option<Element>), &'static str> {
    let field = |name| from_hex(key.at("mixing").text_at(name)).ok_or("not lower-case hex");
    let position = number(at + 1);
    let context: [&[u8]; 3] = [route, key.text_at("node").as_bytes(), &position];
    let checked = |purpose: &str, bytes: &[u8], proof: &[u8]| {
        let element = Element::decode(bytes).or(Err("a key is no group element"))?; // K1
        let holds = verifies_knowledge(purpose, &context, base, &element, proof); // K2, K3
        if holds { Ok(element) } else { Err("the proof of a key does not hold") }
    };
    let (opening, opening_proof) = (field("opening")?, field("opening_proof")?);
    let blinding = checked("blinding", &field("blinding")?, &field("blinding_proof")?)?;
    if at > 0 {
        return Ok((blinding, Some(checked("opening", &opening, &opening_proof)?)));
    }
    let empty = opening.is_empty() && opening_proof.is_empty();
    if empty { Ok((blinding, None)) } else { Err("the first node opens nothing, and has a key to open") }
}

/// A user's claim, what the entry node's envelope seals, and the messages as they will be on the board.
pub struct PreparedClaim {
    pub claim: Vec<u8>,
    pub submission: Vec<u8>,
    pub messages: Vec<Zeroizing<Vec<u8>>>,
}

/// Seals symbols of some bytes each, and claims them with a credential and its key.
///
/// Call it once for each round and user; to send again, send the same. `random` is the operating
/// system's randomness.
pub fn claim_messages(
    terms: &MixTerms,
    symbols: &[Zeroizing<Vec<u8>>],
    credential: &Frame,
    key: &SigningKey,
    mut random: impl FnMut(&mut [u8]),
) -> Outcome<PreparedClaim> {
    let enrolment = pack_credential(credential)?;
    let name = key.verifying_key().to_bytes();
    let secrets = draw_secrets(terms, symbols, &name, &mut random);
    let messages = contents_of(terms, symbols, &secrets)?;
    let boxes = seal_records(terms, &messages, &secrets)?;
    let generator = Element::generator();
    let keys = secrets.iter().map(|secret| generator.multiply(secret)).collect::<Outcome<Vec<_>>>()?;
    let mut seed = [0; WIDTH];
    random(&mut seed);
    let leaves = keys.iter().zip(&boxes).enumerate().map(|(at, (key, sealed))| {
        let salt = digest_parts("salt", &[&terms.manifest, &seed, &number(at)]);
        *digest_parts("commitment", &[&terms.manifest, &*salt, &number(at), key, sealed])
    });
    let root = root_of(leaves.collect());
    let proof = prove_all(&[&terms.manifest, &name, &root, &keys.concat()], &secrets, &mut random)?;
    let fields = [&name[..], &root, &proof, &keys.concat()].concat();
    let signature = key.sign(&[SIGNED, &terms.manifest, &fields].concat()).to_bytes();
    let mut submission = seed.to_vec();
    keys.iter().zip(&boxes).for_each(|(key, sealed)| submission.extend([&key[..], sealed].concat()));
    Ok(PreparedClaim { claim: [&enrolment[..], &fields, &signature].concat(), submission, messages })
}

/// The x_j. They depend on all symbols: a device that is resumed from a snapshot and answers afresh
/// seals no two messages under one of them.
fn draw_secrets(
    terms: &MixTerms,
    symbols: &[Zeroizing<Vec<u8>>],
    name: &[u8; WIDTH],
    random: &mut impl FnMut(&mut [u8]),
) -> Vec<Zeroizing<Scalar>> {
    let mut own = Zeroizing::new([0; WIDTH]);
    random(own.as_mut_slice());
    let mut packed = Zeroizing::new(Vec::with_capacity(symbols.iter().map(|symbol| symbol.len()).sum()));
    symbols.iter().for_each(|symbol| packed.extend_from_slice(symbol));
    let secret = |at| challenge("secret", &[&terms.manifest, &*own, name, &number(at), &packed]);
    (0..symbols.len()).map(secret).collect()
}

/// The messages as they will be on the board: key || symbol || proof that its sender knows the key's secret.
fn contents_of(
    terms: &MixTerms,
    symbols: &[Zeroizing<Vec<u8>>],
    secrets: &[Zeroizing<Scalar>],
) -> Outcome<Vec<Zeroizing<Vec<u8>>>> {
    let label = "knows/message";
    let content = |(symbol, secret): (&Zeroizing<Vec<u8>>, &Zeroizing<Scalar>)| {
        let key = terms.last.multiply(secret)?;
        let statement: [&[u8]; 4] = [&terms.manifest, symbol, &terms.last.encoded, &key];
        let secret_bytes = Zeroizing::new(secret.to_bytes());
        // No fresh randomness: the secret determines symbol and proof, so that no key seals two boxes.
        let start: [&[u8]; 3] = [&*secret_bytes, &[0; WIDTH], label.as_bytes()];
        let nonce = challenge("nonce", &[&start[..], &statement].concat());
        let commitment = terms.last.multiply(&nonce)?;
        let c = challenge(label, &[&statement[..], &[&commitment]].concat());
        let z = *c * **secret + *nonce;
        let mut message = Zeroizing::new(Vec::with_capacity(WIDTH + symbol.len() + PROOF_BYTES));
        for part in [&key[..], symbol, &c.to_bytes(), &z.to_bytes()] {
            message.extend_from_slice(part);
        }
        Ok(message)
    };
    symbols.iter().zip(secrets).map(content).collect()
}

/// The boxes of all messages, in layers for the analyst, and from the last node to the second.
fn seal_records(
    terms: &MixTerms,
    messages: &[Zeroizing<Vec<u8>>],
    secrets: &[Zeroizing<Scalar>],
) -> Outcome<Vec<Zeroizing<Vec<u8>>>> {
    let hops = terms.openers.len() + 1;
    let sealed = |(message, secret): (&Zeroizing<Vec<u8>>, &Zeroizing<Scalar>)| {
        let (key, content) = message.split_at(WIDTH);
        let mut sealed = seal(terms, hops + 1, key, content);
        for position in (2..=hops).rev() {
            let share = Zeroizing::new(terms.openers[position - 2].multiply(secret)?);
            sealed = seal(terms, position, &*share, &sealed);
        }
        Ok(sealed)
    };
    messages.iter().zip(secrets).map(sealed).collect()
}

/// The box of one layer. Every key seals once, so that the nonce is constant.
fn seal(terms: &MixTerms, position: usize, share: &[u8], content: &[u8]) -> Zeroizing<Vec<u8>> {
    let key = digest_parts("layer", &[&terms.manifest, &number(position), share]);
    let cipher = ChaCha20Poly1305::new(<&Key>::from(&*key));
    Zeroizing::new(cipher.encrypt(&Nonce::from([0; 12]), content).expect("a layer is not too long"))
}

/// The root of a tree over leaves; a node without a partner moves up unchanged.
fn root_of(leaves: Vec<[u8; WIDTH]>) -> [u8; WIDTH] {
    let mut level: Vec<[u8; WIDTH]> = leaves.iter().map(|leaf| *digest_parts("leaf", &[leaf])).collect();
    while level.len() > 1 {
        let pairs = level.chunks(2);
        level = pairs
            .map(|pair| match pair {
                [left, right] => *digest_parts("node", &[left, right]),
                _ => pair[0],
            })
            .collect();
    }
    level[0]
}

/// One proof of all logarithms to the generator.
fn prove_all(
    statement: &[&[u8]],
    secrets: &[Zeroizing<Scalar>],
    random: &mut impl FnMut(&mut [u8]),
) -> Outcome<[u8; PROOF_BYTES]> {
    let mut packed = Zeroizing::new(Vec::with_capacity(WIDTH * secrets.len()));
    secrets.iter().for_each(|secret| packed.extend_from_slice(secret.as_bytes()));
    let mut fresh = Zeroizing::new([0; WIDTH]);
    random(fresh.as_mut_slice());
    let start: [&[u8]; 3] = [&packed, &*fresh, b"claim"];
    let nonce = challenge("nonce", &[&start[..], statement].concat());
    let commitment = Element::generator().multiply(&nonce)?;
    let c = challenge("claim", &[statement, &[&commitment]].concat());
    // Powers, because a plain sum would let two keys hide a stranger's in their sum.
    let (mut z, mut power) = (nonce, *c);
    for secret in secrets {
        *z += power * **secret;
        power *= *c;
    }
    let mut proof = [0; PROOF_BYTES];
    proof[..WIDTH].copy_from_slice(c.as_bytes());
    proof[WIDTH..].copy_from_slice(z.as_bytes());
    Ok(proof)
}

/// Expiry and enrolment of a credential, from which others rebuild its document.
fn pack_credential(frame: &Frame) -> Outcome<Vec<u8>> {
    let content = parse(&frame.body)?;
    check_document("credential", &content)?;
    let (population, public_key) = (content.text_at("population"), content.text_at("public_key"));
    let expiry = content.at("expires_at").whole();
    let expires_at = match expiry {
        None => NEVER,
        Some(time) => u64::try_from(time).unwrap_or(NEVER),
    };
    let written = expiry.map_or_else(|| "null".into(), |time| time.to_string());
    let canonical = format!(
        "{{\"version\":1,\"population\":{},\"public_key\":\"{public_key}\",\"expires_at\":{written}}}",
        quote(population),
    );
    let signature = from_hex(&frame.signature).filter(|signature| signature.len() == PROOF_BYTES);
    let fits = expiry.is_none() || expires_at < NEVER;
    let framed = frame.label == "credential" && frame.signer == population && frame.body == canonical;
    match signature {
        Some(signature) if fits && framed => Ok([&expires_at.to_be_bytes()[..], &signature].concat()),
        _ => malformed("the credential is not in the one encoding that verified rounds need: enrol again"),
    }
}

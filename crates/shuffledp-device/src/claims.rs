//! The claim of a submission, and the entry node's receipt for it.

use ed25519_dalek::{Signer, SigningKey};
use sha2::{Digest, Sha256};

use crate::documents::{Frame, quote, signed_bytes};
use crate::errors::{Outcome, foreign};
use crate::json::Value;
use crate::rounds::Party;
use crate::schema::to_hex;

/// The signed claim that this envelope is its owner's submission.
pub fn make_claim(key: &SigningKey, round_id: &str, envelope: &[u8]) -> Frame {
    let name = to_hex(key.verifying_key().as_bytes());
    let body = format!(
        "{{\"version\":1,\"round_id\":{},\"credential\":{},\"envelope_digest\":\"{}\"}}",
        quote(round_id),
        quote(&name),
        to_hex(&Sha256::digest(envelope)),
    );
    let signature = to_hex(&key.sign(&signed_bytes("submission", &body)).to_bytes());
    Frame { label: "submission".into(), signer: name, body, signature }
}

/// Checks that the entry node signed that it has the envelope of this digest of this credential.
pub fn check_receipt(receipt: &Frame, entry: &Party, round_id: &str, credential: &str, digest: &str) -> Outcome<()> {
    let content = entry.verify(receipt, "receipt")?;
    let is = |name, expected: &str| content.get(name).and_then(Value::text) == Some(expected);
    if is("round_id", round_id) && is("credential", credential) && is("submission_digest", digest) {
        return Ok(());
    }
    foreign(format!("the receipt of {} is for another submission; send the same again", entry.name))
}

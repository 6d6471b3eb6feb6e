//! Strict Ed25519: docs/protocol.md, "Signed documents", step 3, and docs/adr/0009.

use ed25519_dalek::{Signature, VerifyingKey};

use crate::errors::{Code, Outcome, refuse};

/// The least significant bytes come first, as in an encoded point.
const FIELD: [u8; 32] = {
    let mut bytes = [0xff; 32];
    bytes[0] = 0xed;
    bytes[31] = 0x7f;
    bytes
};

/// Whether the y of an encoded point, without the sign of x, is below the field's order.
fn is_reduced(point: &[u8]) -> bool {
    let mut y = [0; 32];
    y.copy_from_slice(point);
    y[31] &= 0x7f;
    y.iter().rev().lt(FIELD.iter().rev())
}

/// Checks a signature by the equation without the cofactor; keys and points of small order and
/// numbers that are not reduced are refused.
pub fn check_signature(key: &[u8], signature: &[u8], message: &[u8]) -> Outcome<()> {
    let holds = || {
        let key_bytes: &[u8; 32] = key.try_into().ok()?;
        let signature_bytes: &[u8; 64] = signature.try_into().ok()?;
        if !is_reduced(key_bytes) || !is_reduced(&signature_bytes[..32]) {
            return None;
        }
        let parsed = VerifyingKey::from_bytes(key_bytes).ok()?;
        parsed.verify_strict(message, &Signature::from_bytes(signature_bytes)).ok()
    };
    holds().map_or_else(|| refuse(Code::Signature, "a signature is not valid"), Ok)
}

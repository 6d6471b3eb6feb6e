"""RFC 9180 sealing with a given ephemeral key, from the RFC and X-Wing's page; for vectors.

Libraries draw the ephemeral key themselves, so that the project's own code cannot seal with a given
one; it opens what this seals. The hybrid KEM is that of draft-ietf-hpke-pq, X-Wing:
SHA3-256(ML-KEM's secret || X25519's || ephemeral key || public key || label).
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

KEM_IDS: Final = {"hpke": 0x0020, "hpke-mlkem768-x25519": 0x647A}
KDF_ID: Final = 0x0001
AEAD_ID: Final = 0x0003
XWING_LABEL: Final = b"\\.//^\\"


def _labeled_extract(suite_id: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite_id + label + ikm, hashlib.sha256)


def _labeled_expand(suite_id: bytes, key: bytes, label: bytes, info: bytes, size: int) -> bytes:
    # One block of HKDF-Expand is enough: no more than 32 bytes are asked for.
    data = size.to_bytes(2, "big") + b"HPKE-v1" + suite_id + label + info + b"\x01"
    return hmac.digest(key, data, hashlib.sha256)[:size]


def seal(
    suite: str,
    public_key: bytes,
    info: bytes,
    plaintext: bytes,
    ephemeral: bytes,
    encapsulation: tuple[bytes, bytes] | None = None,
) -> bytes:
    """Seal to a round key with this X25519 ephemeral key and (ciphertext, secret) of ML-KEM."""
    recipient = public_key[-32:]
    private = X25519PrivateKey.from_private_bytes(ephemeral)
    shown = private.public_key().public_bytes_raw()
    agreed = private.exchange(X25519PublicKey.from_public_bytes(recipient))
    kem_id = KEM_IDS[suite]
    if encapsulation is None:
        kem = b"KEM" + kem_id.to_bytes(2, "big")
        extracted = _labeled_extract(kem, b"", b"eae_prk", agreed)
        shared = _labeled_expand(kem, extracted, b"shared_secret", shown + recipient, 32)
        front = shown
    else:
        ciphertext, secret = encapsulation
        shared = hashlib.sha3_256(secret + agreed + shown + recipient + XWING_LABEL).digest()
        front = ciphertext + shown
    suite_id = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (kem_id, KDF_ID, AEAD_ID))
    context = (
        b"\x00"
        + _labeled_extract(suite_id, b"", b"psk_id_hash", b"")
        + _labeled_extract(suite_id, b"", b"info_hash", info)
    )
    secret_key = _labeled_extract(suite_id, shared, b"secret", b"")
    key = _labeled_expand(suite_id, secret_key, b"key", context, 32)
    nonce = _labeled_expand(suite_id, secret_key, b"base_nonce", context, 12)
    return front + ChaCha20Poly1305(key).encrypt(nonce, plaintext, b"")

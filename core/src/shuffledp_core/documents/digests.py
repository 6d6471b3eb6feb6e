"""Digests: SHA-256 in lower-case hex, always over exact bytes."""

from __future__ import annotations

import hashlib

from shuffledp_core.documents.signed import Signed


def digest(data: bytes | bytearray | memoryview) -> str:
    """SHA-256 of the bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def document_digest(signed: Signed) -> str:
    """Digest of a signed document as it travels: label, signer, body and signature."""
    return digest(signed.to_bytes())

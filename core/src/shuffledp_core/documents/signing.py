"""Ed25519 keys and signatures in bulk: the same bytes as one by one, whichever library computes.

RFC 8032 signatures are deterministic, so those of the optional wheel and of OpenSSL are equal.
docs/adr/0012-accelerator.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_core.sampling.randomness import RandomBytes, system_random

KEY_BYTES: Final = 32
"""Length of a raw private key, and of a raw public one."""

_SIGNATURE_BYTES: Final = 64
_FEWEST: Final = 4
"""Messages under one key from which on the wheel is faster: it expands the key for each batch."""


def generate_keys(count: int, random: RandomBytes = system_random) -> list[bytes]:
    """Fresh raw private keys, from the operating system's randomness."""
    return _split(random(KEY_BYTES * count), KEY_BYTES)


def public_keys(private_keys: Sequence[bytes]) -> list[bytes]:
    """The raw public key of each raw private key."""
    fast = _wheel()
    if fast is None:
        return [_key(private).public_key().public_bytes_raw() for private in private_keys]
    return _split(fast.ed25519_public_keys(b"".join(private_keys)), KEY_BYTES)


def sign_messages(key: Ed25519PrivateKey, messages: Sequence[bytes]) -> list[bytes]:
    """Signatures of the messages, 64 bytes each, under one key."""
    fast = _wheel()
    if fast is None or len(messages) < _FEWEST:
        return [key.sign(message) for message in messages]
    return _split(fast.ed25519_sign(key.private_bytes_raw(), list(messages)), _SIGNATURE_BYTES)


def sign_each(private_keys: Sequence[bytes], messages: Sequence[bytes]) -> list[bytes]:
    """The signature of each message under its own raw private key."""
    if len(private_keys) != len(messages):
        raise ValueError(f"{len(private_keys)} private keys for {len(messages)} messages")
    fast = _wheel()
    if fast is None:
        pairs = zip(private_keys, messages, strict=True)
        return [_key(private).sign(message) for private, message in pairs]
    return _split(fast.ed25519_sign(b"".join(private_keys), list(messages)), _SIGNATURE_BYTES)


def agrees(library: Any) -> bool:
    """True if the wheel's keys and signatures equal OpenSSL's, under one key and under several."""
    keys = generate_keys(3)
    messages = [system_random(length) for length in (0, 1, 300)]
    publics = b"".join(_key(private).public_key().public_bytes_raw() for private in keys)
    under_one_key = b"".join(_key(keys[0]).sign(message) for message in messages)
    under_all_keys = b"".join(
        _key(key).sign(message) for key, message in zip(keys, messages, strict=True)
    )
    return bool(
        library.ed25519_public_keys(b"".join(keys)) == publics
        and library.ed25519_sign(keys[0], messages) == under_one_key
        and library.ed25519_sign(b"".join(keys), messages) == under_all_keys
    )


@cache
def _wheel() -> Any:
    """The wheel, its signatures tested; None without it, with an older one, or if it fails."""
    from shuffledp_core.onion.acceleration import VARIABLE, AcceleratorWarning, wheel

    library = wheel()
    if not hasattr(library, "ed25519_sign"):
        return None
    if agrees(library):
        return library
    warnings.warn(
        "shuffledp-accel: its signatures are not those of OpenSSL on this machine and are not "
        f"used; report it, and set {VARIABLE}=off until it is fixed",
        AcceleratorWarning,
        stacklevel=2,
    )
    return None


def _key(private: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(private)


def _split(packed: bytes, width: int) -> list[bytes]:
    return [packed[start : start + width] for start in range(0, len(packed), width)]

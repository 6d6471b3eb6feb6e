"""Ideal stand-ins for rbcl, Ed25519 and its check, for searches: an element is its own logarithm, a
signature a hash.

Nobody may use that they could compute logarithms or sign for others: the moves of `small_cheats` do
not. In return a whole round takes about a millisecond, so that all of them can be played.

Like libsodium 1.0.18, the group ignores bit 255 of an element that it decodes: every element has a
second spelling."""

from __future__ import annotations

import hashlib

from cryptography.exceptions import InvalidSignature

VARIABLE = "SHUFFLEDP_ACCEL"
AcceleratorWarning = RuntimeWarning
ORDER = 2**252 + 27742317777372353535851937790883648493
crypto_sign_BYTES = 64  # noqa: N816 - the name in PyNaCl


def wheel() -> None:
    """No accelerator computes like this."""


def first_failure(*_: object) -> str:
    """The RFC's vectors are not those of this group."""
    return ""


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _bytes(value: int) -> bytes:
    return (value % ORDER).to_bytes(32, "little")


def _decoded(point: bytes) -> int:
    return _number(point) & (2**255 - 1)


def crypto_core_ristretto255_is_valid_point(data: bytes) -> bool:
    return _decoded(data) < ORDER


def crypto_core_ristretto255_scalar_reduce(data: bytes) -> bytes:
    return _bytes(_number(data))


def crypto_scalarmult_ristretto255(factor: bytes, point: bytes) -> bytes:
    product = _number(factor) * _decoded(point) % ORDER
    if not product:
        raise RuntimeError("the identity")
    return product.to_bytes(32, "little")


def crypto_scalarmult_ristretto255_base(factor: bytes) -> bytes:
    return crypto_scalarmult_ristretto255(factor, _bytes(1))


def crypto_core_ristretto255_add(left: bytes, right: bytes) -> bytes:
    return _bytes(_decoded(left) + _decoded(right))


def crypto_core_ristretto255_sub(left: bytes, right: bytes) -> bytes:
    return _bytes(_decoded(left) - _decoded(right))


def crypto_core_ristretto255_scalar_mul(left: bytes, right: bytes) -> bytes:
    return _bytes(_number(left) * _number(right))


def crypto_core_ristretto255_scalar_add(left: bytes, right: bytes) -> bytes:
    return _bytes(_number(left) + _number(right))


def crypto_sign_seed_keypair(seed: bytes) -> tuple[bytes, bytes]:
    public = hashlib.sha256(b"public" + seed).digest()
    return public, seed + public


def crypto_sign(message: bytes, private: bytes) -> bytes:
    return hashlib.sha512(private[32:] + message).digest() + message


def check_signature(public_key: bytes, signature: bytes, message: bytes) -> None:
    if len(public_key) != 32 or signature != hashlib.sha512(public_key + message).digest():
        raise InvalidSignature

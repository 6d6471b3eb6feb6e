"""Strict Ed25519: one set of valid signatures, whichever library computes.

RFC 8032 is not strict: libraries differ over keys and nonces of small order, over points with two
encodings, and over the cofactor. A signature that one party accepts and another refuses would
divide them, so this module decides for all parties what is valid: the rules of `verify_strict` in
"Taming the many EdDSAs" (Chalkias, Garillot, Nikolaenko, 2020).
docs/adr/0009-one-set-of-signatures.md.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable
from functools import cache
from hashlib import sha512
from typing import Any, Final, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

Equation: TypeAlias = Callable[[bytes, bytes, bytes], None]
"""Step 4 of `check_signature`, by (public key, signature, message); raises `InvalidSignature`."""

_FIELD: Final = 2**255 - 19
_ORDER: Final = 2**252 + 27742317777372353535851937790883648493
"""Order of the base point's group, L in RFC 8032."""

_EIGHTH: Final = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL: Final = frozenset({0, 1, _FIELD - 1, _EIGHTH, _FIELD - _EIGHTH})
"""y-coordinates of the eight points whose order divides 8."""


def check_signature(public_key: bytes, signature: bytes, message: bytes) -> None:
    """Checks an Ed25519 signature (R, S) under the public key A.

    Docs/protocol.md, "Signed documents", step 3.

    1. A has 32 bytes and the signature 64.
    2. S is below the group's order: with S + L it would be a second signature of the same message.
    3. A and R are in their canonical encoding, below the field's prime, and not of small order,
       because under a key of small order one signature fits many messages.
    4. [S]B - [SHA-512(R || A || message)]A, encoded, is R byte by byte: no cofactor.

    Raises:
        InvalidSignature: any of them.
    """
    if len(public_key) != 32 or len(signature) != 64:  # 1
        raise InvalidSignature
    if int.from_bytes(signature[32:], "little") >= _ORDER:  # 2
        raise InvalidSignature
    for y in (_y_of(public_key), _y_of(signature[:32])):  # 3
        if y >= _FIELD or y in _SMALL:
            raise InvalidSignature
    _equation()(public_key, signature, message)  # 4


def _y_of(point: bytes) -> int:
    return int.from_bytes(point, "little") & (2**255 - 1)


def openssl(public_key: bytes, signature: bytes, message: bytes) -> None:
    """Step 4 by OpenSSL."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except ValueError as error:
        raise InvalidSignature from error


def libsodium(public_key: bytes, signature: bytes, message: bytes) -> None:
    """Step 4 by libsodium, in half of OpenSSL's time.

    PyNaCl must be installed, and pass `is_ours`.
    """
    from nacl import bindings
    from nacl.exceptions import BadSignatureError

    try:
        bindings.crypto_sign_open(signature + message, public_key)
    except BadSignatureError as error:
        raise InvalidSignature from error


_KEY: Final = bytes.fromhex("50584106c66171dbe6901bd187252a0d704a02a1080f80c486575d07e5e4b4fe")
_WITH_COFACTOR: Final = bytes.fromhex(
    "dfd3145e691e9b998cb20bd6e1790ccfbd79f23e01dc20a7349e3aec7193acf6"
    "b6969d2f0f1c6db5cecbd44e2afeb103eecf1734b13110df7b2500ab3e4e050c"
)
"""A signature of b"0" that is valid only if both sides of the equation are multiplied by 8: R has a
part of order 8.
"""


def is_ours(equation: Equation) -> bool:
    """True if step 4 must refuse a signature that only the equation with the cofactor accepts."""
    try:
        equation(_KEY, _WITH_COFACTOR, b"0")
    except InvalidSignature:
        return True
    return False


def of_wheel(library: Any) -> Equation:
    """Step 4 by the optional wheel `shuffledp-accel`, in half of libsodium's time.

    docs/adr/0012-accelerator.md.
    """
    holds = library.ed25519_holds

    def verify_by_wheel(public_key: bytes, signature: bytes, message: bytes) -> None:
        challenge = sha512(signature[:32] + public_key + message).digest()
        if not holds(public_key, signature, challenge):
            raise InvalidSignature

    return verify_by_wheel


def agrees(equation: Equation) -> bool:
    """True if step 4 accepts a fresh signature of OpenSSL but not with a bit changed.

    And if it `is_ours`.
    """
    key = Ed25519PrivateKey.generate()
    public_key = key.public_key().public_bytes_raw()
    message = secrets.token_bytes(32)
    signed = bytearray(key.sign(message))
    try:
        equation(public_key, bytes(signed), message)
    except InvalidSignature:
        return False
    signed[secrets.randbelow(32)] ^= 1
    try:
        equation(public_key, bytes(signed), message)
    except InvalidSignature:
        return is_ours(equation)
    return False


@cache
def _equation() -> Equation:
    # Looked at and not assumed: PyNaCl may be built on a system's libsodium, whose rules have
    # changed between versions.
    by_wheel = _wheel_equation()
    if by_wheel is not None:
        return by_wheel
    try:
        return libsodium if is_ours(libsodium) else openssl
    except ImportError:  # documents are read and checked where PyNaCl is not installed
        return openssl


def _wheel_equation() -> Equation | None:
    """The wheel's equation, tested; None without the wheel, with an older one, or if it fails."""
    from shuffledp_core.onion.acceleration import VARIABLE, AcceleratorWarning, wheel

    library = wheel()
    if not hasattr(library, "ed25519_holds"):
        return None
    equation = of_wheel(library)
    if agrees(equation):
        return equation
    warnings.warn(
        "shuffledp-accel: its verification of signatures does not agree with OpenSSL on this "
        f"machine and is not used; report it, and set {VARIABLE}=off until it is fixed",
        AcceleratorWarning,
        stacklevel=2,
    )
    return None

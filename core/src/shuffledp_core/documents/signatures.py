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
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from hashlib import sha512
from typing import Any, Final, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

Triple: TypeAlias = tuple[bytes, bytes, bytes]
"""A public key, a signature, and the message that it is of."""

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

    docs/protocol.md, "Signed documents", step 3.

    1. A has 32 bytes and the signature 64.
    2. S is below the group's order: with S + L it would be a second signature of the same message.
    3. A and R are in their canonical encoding, below the field's prime, and not of small order,
       because under a key of small order one signature fits many messages.
    4. [S]B - [SHA-512(R || A || message)]A, encoded, is R byte by byte: no cofactor.

    Raises:
        InvalidSignature: any of them.
    """
    if not _has_good_form(public_key, signature):  # 1 to 3
        raise InvalidSignature
    _equation()(public_key, signature, message)  # 4


def find_valid(triples: Sequence[Triple]) -> list[bool]:
    """Return whether `check_signature` accepts each (public key, signature, message).

    Each signature is checked by itself: there is no batch verification.
    """
    formed = [index for index, triple in enumerate(triples) if _has_good_form(*triple[:2])]
    valid = [False] * len(triples)
    for index, holds in zip(formed, _equations([triples[i] for i in formed]), strict=True):
        valid[index] = holds
    return valid


def _has_good_form(public_key: bytes, signature: bytes) -> bool:
    """True if steps 1 to 3 of `check_signature` pass."""
    if len(public_key) != 32 or len(signature) != 64:  # 1
        return False
    if int.from_bytes(signature[32:], "little") >= _ORDER:  # 2
        return False
    ordinates = (_y_of(public_key), _y_of(signature[:32]))
    return all(y < _FIELD and y not in _SMALL for y in ordinates)  # 3


def _equations(triples: Sequence[Triple]) -> list[bool]:
    """Step 4 of `check_signature` for each signature: True if its equation holds."""
    batch = _batch()
    if batch is not None and len(triples) >= batch.fewest:
        return batch.hold(triples)
    equation = _equation()
    return [_holds(equation, triple) for triple in triples]


def _holds(equation: Equation, triple: Triple) -> bool:
    try:
        equation(*triple)
    except InvalidSignature:
        return False
    return True


def _y_of(point: bytes) -> int:
    return int.from_bytes(point, "little") & (2**255 - 1)


def openssl(public_key: bytes, signature: bytes, message: bytes) -> None:
    """Step 4 of `check_signature`, the signature's equation, by OpenSSL."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except ValueError as error:
        raise InvalidSignature from error


def libsodium(public_key: bytes, signature: bytes, message: bytes) -> None:
    """Step 4 of `check_signature` by libsodium, in half of OpenSSL's time.

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
    """True if this step 4 refuses a signature that holds only in the equation with the cofactor."""
    try:
        equation(_KEY, _WITH_COFACTOR, b"0")
    except InvalidSignature:
        return True
    return False


def of_wheel(library: Any) -> Equation:
    """Step 4 of `check_signature` by the wheel `shuffledp-accel`, twice as fast as libsodium.

    docs/adr/0012-accelerator.md.
    """
    holds = library.ed25519_holds

    def verify_by_wheel(public_key: bytes, signature: bytes, message: bytes) -> None:
        if not holds(public_key, signature, _challenge(public_key, signature, message)):
            raise InvalidSignature

    return verify_by_wheel


def agrees(equation: Equation) -> bool:
    """True if this step 4 accepts a fresh signature of OpenSSL, and refuses it with a bit changed.

    It must also pass the test `is_ours`.
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


_KEYS: Final = 64
"""Signers whose tables are kept, 61 KB each: enrolment authorities and entry nodes."""


class SignatureBatch:
    """Step 4 of `check_signature` for many signatures at a time, by the wheel's vector lanes.

    Each is checked by itself: the equation is the same as of one, and no sum of several is.
    docs/adr/0012-accelerator.md.
    """

    def __init__(self, library: Any, engine: Any) -> None:
        """`library` is the wheel, `engine` one of its paths."""
        self.fewest: int = engine.lanes
        self._engine = engine
        self._signer: Callable[[bytes], Any] = lru_cache(_KEYS)(library.Signer)

    def hold(self, triples: Sequence[Triple]) -> list[bool]:
        """Return for each (public key, signature, message) of valid length if step 4 passes."""
        packed = b"".join([signature for _, signature, _ in triples])
        challenges = b"".join([_challenge(*triple) for triple in triples])
        keys = [public_key for public_key, _, _ in triples]
        holding: list[bool] = (
            self._engine.ed25519_hold_under(self._signer(keys[0]), packed, challenges)
            if keys.count(keys[0]) == len(keys)
            else self._engine.ed25519_hold(b"".join(keys), packed, challenges)
        )
        return holding


def _challenge(public_key: bytes, signature: bytes, message: bytes) -> bytes:
    return sha512(signature[:32] + public_key + message).digest()


def batch_agrees(batch: SignatureBatch) -> bool:
    """True if a batch accepts fresh signatures of OpenSSL, and neither changed nor foreign ones.

    By a table of one key and by many keys; and none that only the cofactor makes valid.
    """
    count = batch.fewest + 1
    keys = [Ed25519PrivateKey.generate() for _ in range(count)]
    for signers in (keys, keys[:1] * _PROBES):
        triples = [_signed_probe(key) for key in signers]
        public_key, signature, message = triples[-1]
        changed = bytearray(signature)
        changed[secrets.randbelow(32)] ^= 1
        triples += [(public_key, bytes(changed), message), (public_key, signature, message + b"x")]
        if batch.hold(triples) != [True] * len(signers) + [False] * 2:
            return False
    return batch.hold([(_KEY, _WITH_COFACTOR, b"0")] * _PROBES) == [False] * _PROBES


_PROBES: Final = 65
"""Signatures of one key after which the wheel has made its table."""


def _signed_probe(key: Ed25519PrivateKey) -> Triple:
    message = secrets.token_bytes(32)
    return key.public_key().public_bytes_raw(), key.sign(message), message


@cache
def _batch() -> SignatureBatch | None:
    """The wheel's batch verifier, tested; None without a fast path, or if the test fails."""
    from shuffledp_core.onion.acceleration import VARIABLE, AcceleratorWarning, engine, wheel

    fast = engine()
    if not hasattr(fast, "ed25519_hold"):
        return None
    batch = SignatureBatch(wheel(), fast)
    if batch_agrees(batch):
        return batch
    warnings.warn(
        "shuffledp-accel: its verification of many signatures does not agree with OpenSSL on this "
        f"machine and is not used; report it, and set {VARIABLE}=off until it is fixed",
        AcceleratorWarning,
        stacklevel=2,
    )
    return None


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
    """The wheel's step 4, tested; None without the wheel, with an older one, or if it fails."""
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

"""ristretto255 (RFC 9496) by libsodium, and the hashes of docs/mixing.md, "Notation".

No arithmetic of our own.

rbcl adds bytes that encode no element without an error, calls the identity valid, and ignores bit
255 when it decodes (docs/adr/0016-one-encoding.md). Bytes that others send go through `element` or
`scalar` first: an `Element` has exactly one encoding, so bytes can be hashed and compared in its
place.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Iterable
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any, Final, NewType

from shuffledp_core.errors import ConfigError, NotInstalledError, ProofError, UnansweredError
from shuffledp_core.mixproof.vectors import first_failure
from shuffledp_core.sampling.randomness import RandomBytes
from shuffledp_core.vocabulary import MIXPROOF_PROTOCOL

Element = NewType("Element", bytes)
"""32 bytes: the only encoding of an element that is not the identity.

Made by decoding (`element`, `batches.Elements`) or by the library's own encoding of a result, and
nowhere else: so two elements are equal exactly if their bytes are, in hashes, sets and comparisons.
"""

Scalar = NewType("Scalar", bytes)
"""32 bytes, little endian, below the group's order."""

WIDTH: Final = 32
_LABEL: Final = f"{MIXPROOF_PROTOCOL}/mix/".encode()
IDENTITY: Final = bytes(WIDTH)
"""Encoding of the neutral element, which is not an `Element`."""

GENERATOR: Final = Element(
    bytes.fromhex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76")
)
"""G: the generator of RFC 9496."""


@cache
def _rbcl() -> Any:
    """libsodium's ristretto255.

    Loaded when it is first needed: rbcl unpacks a library into a temporary file.

    Raises:
        NotInstalledError: rbcl is not installed.
        ConfigError: the library cannot be unpacked or loaded.
    """
    try:
        import rbcl
    except ImportError as error:
        raise NotInstalledError(
            f"verified mixing needs {error.name}: pip install 'shuffledp-core[verified]'"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"the arithmetic of verified mixing cannot be loaded from {tempfile.gettempdir()}: "
            f"{error.strerror or error}; set TMPDIR to a folder with room for 4 MB from which "
            "programs may be loaded (no `noexec`)"
        ) from error
    # It stays mapped; left behind, every process would leave a copy of it.
    Path(sys.modules["rbcl._sodium"].lib_path).unlink(missing_ok=True)
    return rbcl


@cache
def _library() -> Any:
    """rbcl, once it has passed the test vectors of RFC 9496 in this process.

    Raises:
        NotInstalledError, ConfigError: as `_rbcl`.
        ConfigError: the library fails a vector.
    """
    library = _rbcl()
    failure = first_failure(
        partial(_is_encoding, library),
        partial(_product, library),
        library.crypto_core_ristretto255_add,
    )
    if failure:
        raise ConfigError(
            f"ristretto255 of the installed rbcl {failure}; verified rounds cannot be computed "
            "with it: reinstall rbcl, and if that does not help, report the machine and do not "
            "use it"
        )
    return library


def _is_encoding(library: Any, data: bytes) -> bool:
    """True if the bytes are the canonical encoding of an element other than the identity.

    The library ignores bit 255, so what it decoded is encoded again, and compared.
    """
    if len(data) != WIDTH or data == IDENTITY:
        return False
    if not library.crypto_core_ristretto255_is_valid_point(data):
        return False
    return bool(library.crypto_core_ristretto255_add(data, IDENTITY) == data)


def _product(library: Any, factor: bytes, point: bytes) -> bytes:
    """factor · point, both valid. Raises `RuntimeError` if the product is the identity."""
    if point == GENERATOR:
        return bytes(library.crypto_scalarmult_ristretto255_base(factor))
    return bytes(library.crypto_scalarmult_ristretto255(factor, point))


def element(data: bytes) -> Element:
    """Return an element, checked to be canonically encoded and not the identity.

    Raises:
        ProofError: another length, not the canonical encoding of an element, or the identity.
    """
    encoded = bytes(data)
    if not _is_encoding(_library(), encoded):
        raise ProofError(f"{encoded[:WIDTH].hex()!r} is not a group element, or is the identity")
    return Element(encoded)


def scalar(data: bytes) -> Scalar:
    """Return a number, checked to be canonically encoded, that is below the order.

    Raises `ProofError` for another length or a number not below the order.
    """
    if (
        len(data) != WIDTH
        or _library().crypto_core_ristretto255_scalar_reduce(bytes(data) + bytes(WIDTH)) != data
    ):
        raise ProofError(f"{data[:WIDTH].hex()!r} is not a scalar in canonical form")
    return Scalar(bytes(data))


def random_scalar(random: RandomBytes) -> Scalar:
    """A uniform scalar that is not zero, from 64 bytes of `random` (bias below 2^-250)."""
    while True:
        drawn = _library().crypto_core_ristretto255_scalar_reduce(random(2 * WIDTH))
        if drawn != bytes(WIDTH):
            return Scalar(drawn)


def multiply(factor: Scalar, point: Element) -> Element:
    """factor · point, both valid.

    Raises `ProofError` if the result is the identity, so also for the factor 0.
    """
    try:
        return Element(_product(_library(), factor, point))
    except RuntimeError as error:
        raise ProofError(
            "a product of group elements is the identity, which no honest batch yields"
        ) from error


def total(points: Iterable[bytes]) -> Element:
    """The sum of elements, or of sums of elements; the sums may be the identity.

    Raises `ProofError` if the result is the identity, as it is for no elements.
    """
    result = add_points(points)
    if result == IDENTITY:
        raise ProofError("a sum of group elements is the identity, which no honest batch yields")
    return Element(result)


def add_points(points: Iterable[bytes]) -> bytes:
    """The sum of elements, or of sums of elements; any of them may be the identity."""
    return bytes(reduce(_library().crypto_core_ristretto255_add, points, IDENTITY))


def less(point: Element, gone: Iterable[Element]) -> Element:
    """Subtract each element of `gone` from `point`; all must be valid.

    Raises `ProofError` if the result is the identity; intermediate sums may be.

    Users choose the deleted keys, so two of them may add up to the identity.
    """
    result = reduce(_library().crypto_core_ristretto255_sub, gone, point)
    if result == IDENTITY:
        raise ProofError(
            "a sum of group elements minus the excluded ones is the identity, which no honest "
            "batch yields"
        )
    return Element(result)


def minus(left: Element, right: Element) -> Element:
    """left - right, both valid. Raises `ProofError` if they are equal."""
    return less(left, (right,))


def multiply_add(factor: Scalar, secret: Scalar, summand: Scalar) -> Scalar:
    """factor · secret + summand modulo the order."""
    product = _library().crypto_core_ristretto255_scalar_mul(factor, secret)
    return Scalar(_library().crypto_core_ristretto255_scalar_add(product, summand))


def number(value: int) -> bytes:
    """Encode a position, index or count for a hash: 4 bytes, big endian.

    Raises `UnansweredError` if it does not fit.
    """
    if not 0 <= value < 2**32:
        raise UnansweredError(
            "no answer: a position, index or count does not fit into 4 bytes; no party signs "
            "such a number"
        )
    return value.to_bytes(4, "big")


def hash_parts(label: str, *parts: bytes) -> bytes:
    """H(label; parts): SHA-512 of the label and the parts, each behind its length in 8 bytes."""
    pieces = [_LABEL, label.encode(), b"\x00"]
    for part in parts:
        pieces += len(part).to_bytes(8, "big"), part
    return hashlib.sha512(b"".join(pieces)).digest()


def digest_parts(label: str, *parts: bytes) -> bytes:
    """D(label; parts): the first 32 bytes of H."""
    return hash_parts(label, *parts)[:WIDTH]


def challenge(label: str, *parts: bytes) -> Scalar:
    """C(label; parts): all 64 bytes of H, modulo the order."""
    return Scalar(_library().crypto_core_ristretto255_scalar_reduce(hash_parts(label, *parts)))

"""Bytes, a label and an Ed25519 signature over both: verify first, parse after.

A signed document is JSON so that people can read it in a file, an MQTT message or a lab. The signature covers
`"shuffledp/v1/" || label || 0x00 || body`, so a signature under one label is worthless under another.
docs/protocol.md, section "Signed documents".
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Final, TypeVar

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shuffledp_core.errors import ForeignDocumentError, MalformedDocumentError, SignatureError

VERSION: Final = 1
MAX_DOCUMENT_BYTES: Final = 4 * 2**20
"""No document comes near this; anything longer is refused before it is looked at."""


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every signable document: strict, immutable, versioned, with a label of its own."""

    label: ClassVar[str]
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise ValueError(f"version {self.version} is not understood; this software speaks version {VERSION}")


class Signed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A document as it travels: who signed which label, the exact body text, and the signature in hex."""

    label: str
    signer: str
    body: str
    signature: str

    def to_bytes(self) -> bytes:
        """The JSON that travels and is stored."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Signed:
        """The frame only; nothing in it is believed before `verify`. Raises `MalformedDocumentError`."""
        if len(data) > MAX_DOCUMENT_BYTES:
            raise MalformedDocumentError(f"a document of {len(data)} bytes is longer than {MAX_DOCUMENT_BYTES}")
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedDocumentError(f"these bytes are not a signed document: {error}") from error


DocumentT = TypeVar("DocumentT", bound=Document)


def encode_value(value: object) -> object:
    """How a value that JSON lacks is written: a rational as "numerator/denominator"."""
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")  # the hook protocol of msgspec


def decode_value(wanted: type, value: object) -> object:
    """The inverse of `encode_value`; `ValueError` for anything that is not a rational in lowest terms."""
    if wanted is Fraction and isinstance(value, str) and len(value) <= 64:
        numerator, _, denominator = value.partition("/")
        if numerator.isdecimal() and denominator.isdecimal() and int(denominator) > 0:
            return Fraction(int(numerator), int(denominator))
    raise ValueError(f'expected a rational such as "1/3", not {value!r}')


def to_json(value: msgspec.Struct) -> bytes:
    """Any of our structs as JSON, rationals included."""
    return msgspec.json.encode(value, enc_hook=encode_value)


StructT = TypeVar("StructT", bound=msgspec.Struct)


def from_json(data: bytes | str, model: type[StructT]) -> StructT:
    """Strict parse of a struct: unknown fields, wrong types and bad ranges raise `MalformedDocumentError`."""
    try:
        return msgspec.json.decode(data, type=model, dec_hook=decode_value)
    except (msgspec.DecodeError, ValueError, TypeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedDocumentError(f"not a valid {model.__name__}: {error}") from error


def _covered(label: str, body: str) -> bytes:
    return b"shuffledp/v1/" + label.encode() + b"\x00" + body.encode()


def sign(document: Document, signer: str, key: Ed25519PrivateKey) -> Signed:
    """The document under `signer`'s identity key; deterministic, as Ed25519 is."""
    body = to_json(document).decode()
    signature = key.sign(_covered(document.label, body)).hex()
    return Signed(label=document.label, signer=signer, body=body, signature=signature)


def verify(signed: Signed, model: type[DocumentT], signer: str, public_key: bytes) -> DocumentT:
    """The document inside, or a typed error. Steps as in docs/protocol.md, "Signed documents".

    1. The label is the model's.
    2. The signer is the one the caller expects.
    3. The signature holds under that signer's public key.
    4. Only then is the body parsed, strictly.

    Raises:
        ForeignDocumentError: step 1 or 2.
        SignatureError: step 3.
        MalformedDocumentError: step 4.
    """
    if signed.label != model.label:  # 1
        raise ForeignDocumentError(f"expected a document of type {model.label!r}, got {signed.label!r}")
    if signed.signer != signer:  # 2
        raise ForeignDocumentError(f"expected a {model.label} signed by {signer!r}, got one by {signed.signer!r}")
    try:  # 3
        key = Ed25519PublicKey.from_public_bytes(public_key)
        key.verify(bytes.fromhex(signed.signature), _covered(signed.label, signed.body))
    except (InvalidSignature, ValueError, UnicodeEncodeError) as error:
        raise SignatureError(
            f"the {model.label} does not carry a valid signature of {signer!r}: it was altered or signed by "
            "another key; fetch it again from its source and compare the roster"
        ) from error
    return from_json(signed.body, model)  # 4

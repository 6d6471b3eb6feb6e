"""Signed documents: an Ed25519 signature over a label and a body, verified before parsing.

A signed document is JSON so that people can read it in a file, an MQTT message or a lab. The
signature covers `"shuffledp/v1/" || label || 0x00 || body`, so a signature under one label is
worthless under another. docs/protocol.md, section "Signed documents".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import ClassVar, Final, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_core.documents import signing
from shuffledp_core.documents.signatures import Triple, find_valid
from shuffledp_core.errors import (
    DocumentError,
    ForeignDocumentError,
    MalformedDocumentError,
    SignatureError,
)
from shuffledp_core.vocabulary import PROTOCOL

VERSION: Final = 1
MAX_DOCUMENT_BYTES: Final = 4 * 2**20
"""No document comes near this; anything longer is refused before it is parsed."""

_SIGNATURE: Final = re.compile(r"[0-9a-f]{128}")
"""The only way to write a signature: with a second one, a document would have two digests."""

_LONGEST_INTEGER: Final = 20
"""Characters of the longest 64-bit whole number with its sign; Python's own have no end."""

_MANY_DIGITS: Final = re.compile(rb"[0-9]{19}")
"""Text without 19 digits in a row contains no whole number beyond 64 bits."""


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every signable document: strict, immutable, versioned, with a label of its own."""

    label: ClassVar[str]
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise ValueError(
                f"version {self.version} of this document is not supported; this software reads "
                f"version {VERSION}"
            )


class Signed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A document as it travels: label, signer, exact body text, and signature in hex."""

    label: str
    signer: str
    body: str
    signature: str

    def to_bytes(self) -> bytes:
        """The JSON encoding that is sent and stored."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Signed:
        """Parse only the frame; its contents are unverified until `verify`.

        Raises `MalformedDocumentError`.
        """
        if len(data) > MAX_DOCUMENT_BYTES:
            raise MalformedDocumentError(
                f"a document of {len(data)} bytes is longer than {MAX_DOCUMENT_BYTES}"
            )
        try:
            signed = msgspec.json.decode(data, type=cls)
            if (
                signed.to_bytes() != data
            ):  # as we write it no field stands twice, which is cheaper to see
                _check_text(data)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise MalformedDocumentError(
                f"these bytes are not a signed document: {error}"
            ) from error
        return signed


DocumentT = TypeVar("DocumentT", bound=Document)


def encode_value(value: object) -> object:
    """JSON form of a value that JSON lacks: a rational as "numerator/denominator"."""
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    raise NotImplementedError(
        f"{type(value).__name__} has no JSON form"
    )  # the hook protocol of msgspec


def decode_value(kind: type, value: object) -> object:
    """The inverse of `encode_value`.

    Raises `ValueError` for anything that is not a rational in lowest terms.
    """
    # Bounded before `int`: otherwise whoever writes the text decides how long all arithmetic on it
    # takes.
    if kind is Fraction and isinstance(value, str) and len(value) <= 64:
        numerator, _, denominator = value.partition("/")
        if numerator.isdecimal() and denominator.isdecimal() and int(denominator) > 0:
            rational = Fraction(int(numerator), int(denominator))
            if (
                encode_value(rational) == value
            ):  # one way to write it: no "2/6", no digits of other scripts
                return rational
    raise ValueError(f'expected a rational such as "1/3", not {value!r}')


def to_json(value: msgspec.Struct) -> bytes:
    """JSON encoding of a struct, rationals included."""
    return msgspec.json.encode(value, enc_hook=encode_value)


StructT = TypeVar("StructT", bound=msgspec.Struct)


def from_json(data: bytes | str, model: type[StructT]) -> StructT:
    """Parses a struct strictly; raises `MalformedDocumentError` for anything else.

    That is: unknown fields, repeated fields, wrong types, bad ranges, whole numbers beyond 64 bits,
    0 with a sign.
    """
    try:
        value = msgspec.json.decode(data, type=model, dec_hook=decode_value)
        text = data.encode() if isinstance(data, str) else data
        # As for the frame above; but a number that is too long may also be written as we would.
        if to_json(value) != text or _MANY_DIGITS.search(text):
            _check_text(data)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
        raise MalformedDocumentError(f"not a valid {model.__name__}: {error}") from error
    return value


def _check_text(data: bytes | str) -> None:
    """Refuse text that msgspec accepts but other readers may read differently.

    Of a repeated field msgspec takes the last one, where other readers take the first.

    Call it on text that msgspec has read already: the depth is then that of the schema. Raises
    `ValueError`.
    """
    json.loads(data, object_pairs_hook=_distinct, parse_int=_machine_sized)


def _distinct(pairs: list[tuple[str, object]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError(f"a field occurs twice among {', '.join(names)[:200]}")


def _machine_sized(digits: str) -> None:
    # By length first: Python refuses to read a number of thousands of digits.
    if len(digits) > _LONGEST_INTEGER or not -(2**63) <= int(digits) < 2**64:
        raise ValueError(
            f"a whole number has {len(digits)} digits; documents use no number beyond 64 bits"
        )
    if digits == "-0":
        raise ValueError("0 must be written without a sign")


def _signed_bytes(label: str, body: str) -> bytes:
    # The label is signed too, and ended by a byte that no label has: a receipt can never pass for,
    # say, a manifest.
    return f"{PROTOCOL}/{label}\0{body}".encode()


def _signature(text: str) -> bytes:
    if not _SIGNATURE.fullmatch(text):
        raise ValueError("a signature must be 128 lower-case hex digits")
    return bytes.fromhex(text)


def sign(document: Document, signer: str, key: Ed25519PrivateKey) -> Signed:
    """Signs a document with `signer`'s identity key; deterministic, as Ed25519 is."""
    body = to_json(document).decode()
    signature = key.sign(_signed_bytes(document.label, body)).hex()
    return Signed(label=document.label, signer=signer, body=body, signature=signature)


def sign_all(documents: Sequence[Document], signer: str, key: Ed25519PrivateKey) -> list[Signed]:
    """Vectorised `sign`: the same documents, byte for byte."""
    return _with_signatures(
        documents, [signer] * len(documents), lambda messages: signing.sign_messages(key, messages)
    )


def sign_each(
    documents: Sequence[Document], signers: Sequence[str], private_keys: Sequence[bytes]
) -> list[Signed]:
    """Signs each document with its own signer's raw private key; the same bytes as by `sign`."""
    return _with_signatures(
        documents, signers, lambda messages: signing.sign_each(private_keys, messages)
    )


def _with_signatures(
    documents: Sequence[Document],
    signers: Sequence[str],
    make_signatures: Callable[[list[bytes]], list[bytes]],
) -> list[Signed]:
    bodies = [to_json(document).decode() for document in documents]
    messages = [
        _signed_bytes(document.label, body)
        for document, body in zip(documents, bodies, strict=True)
    ]
    return [
        Signed(label=document.label, signer=signer, body=body, signature=signature.hex())
        for document, signer, body, signature in zip(
            documents, signers, bodies, make_signatures(messages), strict=True
        )
    ]


def verify(signed: Signed, model: type[DocumentT], signer: str, public_key: bytes) -> DocumentT:
    """Verifies a signed document and returns its content.

    Steps as in docs/protocol.md, "Signed documents".

    1. The label is the model's.
    2. The signer is the one the caller expects.
    3. The signature is 128 lower-case hex digits and holds under that signer's public key
       (`check_signature`).
    4. Only then is the body parsed, strictly.

    Raises:
        ForeignDocumentError: step 1 or 2.
        SignatureError: step 3.
        MalformedDocumentError: step 4.
    """
    (content,) = verify_all([(signed, signer, public_key)], model)
    if isinstance(content, DocumentError):
        raise content
    return content


def verify_all(
    documents: Sequence[tuple[Signed, str, bytes]], model: type[DocumentT]
) -> list[DocumentT | DocumentError]:
    """Vectorised `verify` of (document, expected signer, public key): content or error of each.

    Every signature is checked by itself; only the arithmetic of several is done together.
    """
    frames = [_read_frame(*document, model) for document in documents]  # 1, 2
    valid = iter(find_valid([frame for frame in frames if isinstance(frame, tuple)]))  # 3
    return [
        frame
        if isinstance(frame, DocumentError)
        else _read_body(signed, model, signer, is_valid=next(valid))
        for (signed, signer, _), frame in zip(documents, frames, strict=True)
    ]


def _read_frame(
    signed: Signed, signer: str, public_key: bytes, model: type[Document]
) -> Triple | DocumentError:
    """The key, signature and message to verify, or the error that makes verifying needless."""
    if signed.label != model.label:  # 1
        return ForeignDocumentError(
            f"expected a document of type {model.label!r}, got {signed.label!r}"
        )
    if signed.signer != signer:  # 2
        return ForeignDocumentError(
            f"expected a {model.label} signed by {signer!r}, got one by {signed.signer!r}"
        )
    try:
        return public_key, _signature(signed.signature), _signed_bytes(signed.label, signed.body)
    except ValueError:
        return _signature_error(model.label, signer)


def _read_body(
    signed: Signed, model: type[DocumentT], signer: str, *, is_valid: bool
) -> DocumentT | DocumentError:
    if not is_valid:
        return _signature_error(model.label, signer)
    try:
        return from_json(signed.body, model)  # 4
    except MalformedDocumentError as error:
        return error


def _signature_error(label: str, signer: str) -> SignatureError:
    return SignatureError(
        f"the {label} does not carry a valid signature of {signer!r}: it was altered, or signed "
        "by another key; fetch it again from its source, and check that the roster is the "
        "current one"
    )

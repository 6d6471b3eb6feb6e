"""Signed notes and checkpoints of a transparency log, in the formats of C2SP.

A note is a text and lines with Ed25519 signatures (C2SP signed-note). A checkpoint is a note whose
text names the log, its size and its root (C2SP tlog-checkpoint).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidSignature

from shuffledp_core.documents.signatures import check_signature
from shuffledp_core.errors import MalformedDocumentError, SignatureError
from shuffledp_core.transparency.tree import HASH_BYTES

MAX_NOTE_BYTES: Final = 64 * 1024
"""Longest note that is parsed."""

MAX_SIGNATURES: Final = 100
"""Most signatures on a note."""

ED25519: Final = 1
"""Algorithm of a signature over a note's text."""

COSIGNATURE: Final = 4
"""Algorithm of a witness's signature, which also covers the time of signing."""

_KEY_ID_BYTES: Final = 4
_NAME: Final = re.compile(r"[^\s+]{1,255}")
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_SEPARATOR: Final = "\n\n"
_DASH: Final = "\N{EM DASH} "


@dataclass(frozen=True)
class NoteKey:
    """The public key of a log, or of a witness: its name and 32 bytes of Ed25519.

    `algorithm` is `ED25519` for a log and `COSIGNATURE` for a witness.
    """

    name: str
    public_key: bytes
    algorithm: int = ED25519

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"the name of a note's key must have no spaces and no plus: {self.name!r}"
            )

    def key_id(self) -> bytes:
        """The four bytes by which signature lines identify their key."""
        named = f"{self.name}\n".encode() + bytes([self.algorithm]) + self.public_key
        return hashlib.sha256(named).digest()[:_KEY_ID_BYTES]

    def to_text(self) -> str:
        """The key in the format of C2SP tools, such as `name+0123abcd+AW...`."""
        encoded = encode_base64(bytes([self.algorithm]) + self.public_key)
        return f"{self.name}+{self.key_id().hex()}+{encoded}"


@dataclass(frozen=True)
class Checkpoint:
    """State of a log: its name, its number of entries, and the root of its tree."""

    origin: str
    size: int
    root: bytes

    def to_text(self) -> str:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{encode_base64(self.root)}\n"


@dataclass(frozen=True)
class Note:
    """A parsed note; nothing in it is trusted before a signature is checked."""

    text: str
    signatures: tuple[tuple[str, bytes], ...]
    """Name of each key, and the bytes behind it: key ID and signature."""


def sign_note(text: str, key: NoteKey, sign: Callable[[bytes], bytes]) -> str:
    """A note with one Ed25519 signature by `sign`."""
    return f"{text}\n{signature_line(key, sign(text.encode()))}"


def signature_line(key: NoteKey, signature: bytes) -> str:
    """The line of an Ed25519 signature under a note."""
    return f"{_DASH}{key.name} {encode_base64(key.key_id() + signature)}\n"


def parse_note(data: bytes) -> Note:
    """Parse the frame of a note.

    Raises:
        MalformedDocumentError: these bytes are not a note, or are too long.
    """
    if len(data) > MAX_NOTE_BYTES:
        raise MalformedDocumentError(
            f"a note of {len(data)} bytes is longer than the {MAX_NOTE_BYTES} that a note may have"
        )
    try:
        content = data.decode()
    except UnicodeDecodeError as error:
        raise MalformedDocumentError(f"a note must be UTF-8 text: {error}") from error
    before, separator, after = content.rpartition(_SEPARATOR)
    if any(ord(character) < ord(" ") and character != "\n" for character in content):
        raise MalformedDocumentError("a note must not contain control characters")
    if not separator or not after.endswith("\n"):
        raise MalformedDocumentError(
            "a note must end with an empty line and the lines of its signatures"
        )
    lines = after.removesuffix("\n").split("\n")
    if len(lines) > MAX_SIGNATURES:
        raise MalformedDocumentError(f"a note has more than {MAX_SIGNATURES} signatures")
    return Note(f"{before}\n", tuple(parse_signature_line(line) for line in lines))


def parse_signature_line(line: str) -> tuple[str, bytes]:
    """Parse a line under a note into its name, and its key ID with signature.

    Raises:
        MalformedDocumentError: this is not a signature line.
    """
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    signature = decode_base64(encoded)
    if not line.startswith(_DASH) or not _NAME.fullmatch(name) or len(signature) <= _KEY_ID_BYTES:
        raise MalformedDocumentError(f"not a signature line of a note: {line[:80]!r}")
    return name, signature


def check_note(note: Note, key: NoteKey) -> str:
    """The text of a note, after checking that this key signed it.

    Raises:
        SignatureError: there is no signature by this key, or it does not verify.
    """
    check_note_signature(key, signature_of(note, key), note.text.encode())
    return note.text


def signature_of(note: Note, key: NoteKey) -> bytes:
    """The unverified signature that a note carries for a key; `SignatureError` without one."""
    expected = (key.name, key.key_id())
    for name, blob in note.signatures:
        if (name, blob[:_KEY_ID_BYTES]) == expected:
            return blob[_KEY_ID_BYTES:]
    raise SignatureError(f"the note has no signature by {key.name}")


def is_signed_by_namesake(note: Note, key: NoteKey) -> bool:
    """True if a note has signatures under a key's name, but only by other keys; all unverified."""
    named = [blob for name, blob in note.signatures if name == key.name]
    return bool(named) and not any(blob.startswith(key.key_id()) for blob in named)


def check_note_signature(key: NoteKey, signature: bytes, message: bytes) -> None:
    """Check an Ed25519 signature on a note; raise `SignatureError` if it does not hold."""
    try:
        check_signature(key.public_key, signature, message)
    except InvalidSignature as error:
        raise SignatureError(f"the signature of {key.name} on the note does not verify") from error


def parse_checkpoint(text: str) -> Checkpoint:
    """Parse the text of a checkpoint whose signature was checked; extension lines are refused.

    Raises:
        MalformedDocumentError: the text is not a checkpoint.
    """
    lines = text.removesuffix("\n").split("\n")
    if len(lines) != 3 or not _NAME.fullmatch(lines[0]) or not _SIZE.fullmatch(lines[1]):
        raise MalformedDocumentError("a checkpoint must have three lines: origin, size and root")
    root = decode_base64(lines[2])
    if len(root) != HASH_BYTES:
        raise MalformedDocumentError(f"a checkpoint's root must have {HASH_BYTES} bytes")
    return Checkpoint(lines[0], int(lines[1]), root)


def encode_base64(data: bytes) -> str:
    """Encode bytes in the base64 of notes and proofs."""
    return base64.b64encode(data).decode()


def decode_base64(text: str) -> bytes:
    """The inverse of `encode_base64`; raises `MalformedDocumentError` for any other spelling."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedDocumentError(f"not base64: {text[:80]!r}") from error
    # The last digit of base64 has unused bits: one spelling only.
    if encode_base64(data) != text:
        raise MalformedDocumentError(f"not canonical base64: {text[:80]!r}")
    return data

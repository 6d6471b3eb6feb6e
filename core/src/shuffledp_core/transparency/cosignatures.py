"""Cosignatures of witnesses on checkpoints, in the format cosignature/v1 of C2SP tlog-cosignature.

A witness signs the newest checkpoint of a log that it has seen to only grow, and the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from shuffledp_core.errors import SignatureError
from shuffledp_core.transparency.notes import (
    COSIGNATURE,
    Note,
    NoteKey,
    check_note_signature,
    signature_line,
    signature_of,
)

_TIME_BYTES: Final = 8
_SIGNATURE_BYTES: Final = 64


def witness_key(name: str, public_key: bytes) -> NoteKey:
    """The public key of a witness in the form that cosignatures use."""
    return NoteKey(name, public_key, COSIGNATURE)


def cosign(text: str, key: NoteKey, sign: Callable[[bytes], bytes], now: int) -> str:
    """The cosignature line of a witness under a checkpoint.

    Args:
        text: text of the checkpoint.
        key: the key that `witness_key` returned.
        sign: Ed25519 with the witness's key.
        now: seconds since 1970.
    """
    signature = sign(_message(text, now))
    return signature_line(key, now.to_bytes(_TIME_BYTES, "big") + signature)


def check_cosignature(note: Note, key: NoteKey) -> int:
    """The time, in seconds since 1970, at which a witness cosigned a checkpoint.

    Raises:
        SignatureError: the witness did not sign, or its cosignature does not verify.
    """
    blob = signature_of(note, key)
    if len(blob) != _TIME_BYTES + _SIGNATURE_BYTES or blob[0] >> 7:
        raise SignatureError(f"the cosignature of {key.name} is malformed")
    time = int.from_bytes(blob[:_TIME_BYTES], "big")
    check_note_signature(key, blob[_TIME_BYTES:], _message(note.text, time))
    return time


def cosigners(note: Note, keys: Iterable[NoteKey]) -> tuple[NoteKey, ...]:
    """The witnesses among `keys` with a valid cosignature on a checkpoint; others are ignored."""
    return tuple(key for key in keys if _has_cosigned(note, key))


def _has_cosigned(note: Note, key: NoteKey) -> bool:
    try:
        check_cosignature(note, key)
    except SignatureError:
        return False
    return True


def _message(text: str, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{text}".encode()

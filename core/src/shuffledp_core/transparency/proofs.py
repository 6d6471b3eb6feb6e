"""Proofs as text: of an entry's inclusion, and of a log's growth.

The formats are C2SP tlog-proof, and add-checkpoint of C2SP tlog-witness.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shuffledp_core.errors import MalformedDocumentError
from shuffledp_core.transparency.notes import decode_base64, encode_base64
from shuffledp_core.transparency.tree import HASH_BYTES

MAX_HASHES: Final = 63
"""Most hashes of a proof: the tree of a log is no higher."""

MAX_PROOF_BYTES: Final = 2**17
"""Longest proof with its checkpoint and extra data."""

_EXTRA: Final = "extra "
_HEADER: Final = "c2sp.org/tlog-proof@v1"
_NUMBER: Final = r"(0|[1-9][0-9]{0,18})"
_INDEX: Final = re.compile(f"index {_NUMBER}")
_OLD: Final = re.compile(f"old {_NUMBER}")


@dataclass(frozen=True)
class InclusionProof:
    """An entry's place in a log, and the checkpoint that covers it.

    Attributes:
        index: index of the entry, from 0.
        hashes: lead from the entry to the checkpoint's root.
        note: the signed checkpoint, not checked.
        extra: data of the application beside the proof, which nothing signs.
    """

    index: int
    hashes: tuple[bytes, ...]
    note: bytes
    extra: bytes = b""

    def to_bytes(self) -> bytes:
        """The proof in the format tlog-proof."""
        extra = [f"{_EXTRA}{encode_base64(self.extra)}"] if self.extra else []
        return _join([_HEADER, *extra, f"index {self.index}"], self.hashes, self.note)

    @classmethod
    def from_bytes(cls, data: bytes) -> InclusionProof:
        """Parse a proof.

        Raises:
            MalformedDocumentError: the data are not a proof.
        """
        (header, *lines), note = _split(data)
        extra = b""
        if lines and lines[0].startswith(_EXTRA):
            extra = decode_base64(lines.pop(0).removeprefix(_EXTRA))
            if not extra:
                raise MalformedDocumentError("the extra-data line of a proof must not be empty")
        index = _INDEX.fullmatch(lines[0]) if lines else None
        if header != _HEADER or index is None:
            raise MalformedDocumentError(
                f"the header or index of a proof of inclusion is malformed: {header[:80]!r}"
            )
        return cls(int(index[1]), _parse_hashes(lines[1:]), note, extra)


@dataclass(frozen=True)
class AddCheckpoint:
    """A log's request to a witness.

    Attributes:
        old: size of the checkpoint that the witness signed last.
        hashes: show that the log of that size begins the new one.
        note: the new checkpoint, not checked.
    """

    old: int
    hashes: tuple[bytes, ...]
    note: bytes

    def to_bytes(self) -> bytes:
        """The body of the request."""
        return _join([f"old {self.old}"], self.hashes, self.note)

    @classmethod
    def from_bytes(cls, data: bytes) -> AddCheckpoint:
        """Parse the body of a request.

        Raises:
            MalformedDocumentError: the body is not a request.
        """
        lines, note = _split(data)
        old = _OLD.fullmatch(lines[0])
        if old is None:
            raise MalformedDocumentError(
                f"a request to a witness must begin with the old size of the log: {lines[0][:80]!r}"
            )
        return cls(int(old[1]), _parse_hashes(lines[1:]), note)


def _pack_hashes(hashes: Sequence[bytes]) -> bytes:
    return "".join(f"{encode_base64(hashed)}\n" for hashed in hashes).encode()


def _join(lines: list[str], hashes: Sequence[bytes], note: bytes) -> bytes:
    head = "".join(f"{line}\n" for line in lines).encode()
    return head + _pack_hashes(hashes) + b"\n" + note


def _split(data: bytes) -> tuple[list[str], bytes]:
    """Split data into the lines before the first empty line, and the bytes after it."""
    head, separator, note = _decode(data).partition("\n\n")
    if not separator:
        raise MalformedDocumentError("a proof must end with an empty line and a checkpoint")
    return head.split("\n"), note.encode()


def _decode(data: bytes) -> str:
    if len(data) > MAX_PROOF_BYTES:
        raise MalformedDocumentError(
            f"a proof of {len(data)} bytes is longer than the {MAX_PROOF_BYTES} that a proof may "
            "have"
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedDocumentError(f"a proof must be UTF-8 text: {error}") from error


def _parse_hashes(lines: Sequence[str]) -> tuple[bytes, ...]:
    if len(lines) > MAX_HASHES:
        raise MalformedDocumentError(f"a proof has more than {MAX_HASHES} hashes")
    hashes = tuple(decode_base64(line) for line in lines)
    if any(len(hashed) != HASH_BYTES for hashed in hashes):
        raise MalformedDocumentError(f"a hash in a proof must have {HASH_BYTES} bytes")
    return hashes

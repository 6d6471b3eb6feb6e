"""Data that parties reveal when a record fails to decrypt: docs/mixing.md, "Blame".

Values only; `blame` checks them.

`parts()` gives every field but the signature, in the order in which it is signed. With slots, since
a document may hold many of them (`history.MEMORY_PER_BYTE`).
"""

from __future__ import annotations

from dataclasses import dataclass

from shuffledp_core.errors import UnansweredError
from shuffledp_core.mixproof.group import WIDTH, Element, number
from shuffledp_core.mixproof.trees import Path


def join_path(path: Path) -> bytes:
    """The hashes of a path as one string of bytes, as parties sign it.

    Raises `UnansweredError` unless every partner has 32 bytes: no party signs any other split.
    """
    if any(len(partner) != WIDTH for partner in path):  # T0 path
        raise UnansweredError(
            f"no answer: every hash of a path must have {WIDTH} bytes; no party signs another "
            "length"
        )
    return b"".join(path)


@dataclass(frozen=True, slots=True)
class AccusedRecord:
    """A record of the accuser's input that does not decrypt, T1 and T2.

    The analyst has no share, because the record's key itself decrypts it.
    """

    index: int
    record: bytes
    path: Path
    share: bytes = b""
    proof: bytes = b""
    signature: bytes = b""

    def parts(self) -> tuple[bytes, ...]:
        """The fields in signing order: index, record, path, share, proof."""
        return (number(self.index), self.record, join_path(self.path), self.share, self.proof)


@dataclass(frozen=True, slots=True)
class Step:
    """The record that node i >= 2 decrypted to obtain the traced record, T3 and T4."""

    index: int
    record: bytes
    path: Path
    blinding_proof: bytes
    share: bytes
    share_proof: bytes
    signature: bytes = b""

    def parts(self) -> tuple[bytes, ...]:
        """The fields in signing order: index, record, path, blinding proof, share and its proof."""
        return (
            number(self.index),
            self.record,
            join_path(self.path),
            self.blinding_proof,
            self.share,
            self.share_proof,
        )


@dataclass(frozen=True, slots=True)
class Origin:
    """The claim from which node 1 took the record, T5."""

    credential: bytes
    index: int
    salt: bytes
    path: Path
    blinding_proof: bytes
    signature: bytes = b""

    def parts(self) -> tuple[bytes, ...]:
        """The fields in signing order: credential, message index, salt, path, blinding proof."""
        return (
            self.credential,
            number(self.index),
            self.salt,
            join_path(self.path),
            self.blinding_proof,
        )


@dataclass(frozen=True, slots=True)
class Trace:
    """An accused record with the steps of nodes before the accuser, nearest first, to a claim."""

    accused: AccusedRecord
    steps: tuple[Step, ...] = ()
    origin: Origin | None = None

    def parts(self) -> tuple[bytes, ...]:
        """The fields in signing order: of the accused record, of each step, and of the origin."""
        steps = tuple(part for step in self.steps for part in step.parts())
        return self.accused.parts() + steps + (self.origin.parts() if self.origin else ())


@dataclass(frozen=True, slots=True)
class MovedKey:
    """The position of one key of a named user in the output of one hop, T6."""

    index: int
    record: bytes
    path: Path
    blinding_proof: bytes

    def parts(self) -> tuple[bytes, ...]:
        """The fields in signing order: index in the node's output, record, path, blinding proof."""
        return (number(self.index), self.record, join_path(self.path), self.blinding_proof)


@dataclass(frozen=True, slots=True)
class Moves:
    """The positions of all m keys of a named user in the output of one hop."""

    moves: tuple[MovedKey, ...]
    signature: bytes = b""

    def parts(self) -> tuple[bytes, ...]:
        """The fields of every key in signing order, keys in the claim's order."""
        return tuple(part for moved in self.moves for part in moved.parts())


@dataclass(frozen=True, slots=True)
class Passage:
    """A named user's keys through the hops 1, 2, .. before the accuser."""

    credential: bytes
    hops: tuple[Moves, ...] = ()

    def parts(self) -> tuple[bytes, ...]:
        """The fields in signing order: the credential, then the moves hop by hop."""
        return (self.credential, *(part for hop in self.hops for part in hop.parts()))


@dataclass(frozen=True, slots=True)
class Transcript:
    """A whole accusation by the party at `position`: traces by record, passages by named user.

    Records are in ascending order.
    """

    position: int
    traces: tuple[Trace, ...]
    passages: tuple[Passage, ...] = ()


@dataclass(frozen=True)
class ExcludedUser:
    """A user whom a transcript names, and the keys to be deleted from the accuser's input."""

    position: int
    credential: bytes
    keys: tuple[Element, ...]


def exclusion_parts(transcript: Transcript, gone: tuple[ExcludedUser, ...]) -> tuple[bytes, ...]:
    """The parts of an accusation that headers commit to: position, indices, users, deleted keys.

    Proofs and signatures are left out, because they differ each time that the same accusation is
    traced.
    """
    indices = b"".join(number(trace.accused.index) for trace in transcript.traces)
    credentials = b"".join(user.credential for user in gone)
    return (
        number(transcript.position),
        indices,
        credentials,
        b"".join(key for user in gone for key in user.keys),
    )

"""The history of a batch, published beside the board: claim list, headers, exclusions.

docs/protocol.md, "History".

MessagePack, since it is nearly all bytes. Its length is bounded and its digest checked before it is
read, and the number of its values before any is built (`frames`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from shuffledp_core.documents.models import Manifest, MixingKey, Population
from shuffledp_core.errors import (
    BadBatchError,
    MalformedDocumentError,
    PolicyRefusal,
    UnansweredError,
)
from shuffledp_core.mixproof.chain import Chain, check_board
from shuffledp_core.mixproof.claiming import (
    EnrolledClaim,
    Enrolment,
    read_withdrawals,
    signed_enrolments,
    unpack_claim,
    unpack_dummies_claim,
)
from shuffledp_core.mixproof.claims import Claim, ClaimList, check_list
from shuffledp_core.mixproof.evidence import AccusedRecord, Passage, Trace, Transcript
from shuffledp_core.mixproof.frames import check_frame
from shuffledp_core.mixproof.headers import Header
from shuffledp_core.mixproof.terms import MixTerms
from shuffledp_core.onion.geometry import Geometry

MAX_WITHDRAWALS_BYTES: Final = 4 * 2**20
"""As long as any signed document may be."""

_FRAME: Final = 2**12
"""Bytes around a claim or header, and of a header: far more than MessagePack and its fields take.
"""

_STEP: Final = 2**11
"""Bytes of one step of a trace or passage: a record, a path of at most 32 partners, two proofs and
a signature.
"""


@dataclass(frozen=True)
class History:
    """A round up to some batch: node 1's signed list, and all headers and transcripts since.

    `claims` are packed (`claiming`): the users' by ascending credential, then those of the nodes'
    dummies in route order, if nodes add any. `withdrawals` is the signed list that the round uses;
    no bytes mean no list. `board_signature` is the analyst's, once there is a board (F4).
    """

    withdrawals: bytes
    list_signature: bytes
    enrolment_signature: bytes
    claims: tuple[bytes, ...]
    headers: tuple[Header, ...] = ()
    transcripts: tuple[Transcript, ...] = ()
    board_signature: bytes = b""

    def to_bytes(self) -> bytes:
        """Encode the history as it is sent and published."""
        return pack_document(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> History:
        """Parse only the frame of a history.

        Raises `MalformedDocumentError` for what `to_bytes` does not write.
        """
        return unpack_document(data, cls)

    @classmethod
    def signed_by(cls, signer: str, data: bytes, manifest: Manifest) -> History:
        """Parse the history of a batch whose header `signer` signed.

        The header's digest covers these bytes.

        An honest signer has read the history before it signed, so an unreadable history is the
        signer's fault.

        Raises:
            BadBatchError: the bytes are not what `to_bytes` writes, there are more claims than the
                manifest allows, or a claim has a wrong length; the message names the signer.
        """
        try:
            history = cls.from_bytes(data)
        except MalformedDocumentError as error:
            raise BadBatchError(
                f"{signer} signed a history that cannot be read: {error}"
            ) from error
        geometry = manifest.geometry
        users, of_nodes = history.split_claims(geometry)
        fitting = all(len(claim) == geometry.claim_bytes for claim in users) and all(
            len(claim) == geometry.dummies_claim_bytes for claim in of_nodes
        )
        if len(users) > manifest.max_reports or not fitting:
            raise BadBatchError(
                f"{signer} signed a history of {len(history.claims)} claims, but not all have "
                f"{geometry.claim_bytes} bytes, or there are more than the "
                f"{manifest.max_reports} that the round allows"
            )
        return history

    def split_claims(self, geometry: Geometry) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """The packed claims of the users, and those of the nodes' dummies."""
        nodes = geometry.hops if geometry.dummies_per_node else 0
        users = max(0, len(self.claims) - nodes)
        return self.claims[:users], self.claims[users:]


@dataclass(frozen=True)
class Accusation:
    """A node's accusation, with the history of its input."""

    history: History
    accused: tuple[AccusedRecord, ...]


@dataclass(frozen=True)
class Inquiry:
    """A tracing task for a node: continue these traces, or the passages of the named users.

    `position` is the accuser's; `headers` and `transcripts` are all before it. The answer has the
    same traces and passages, each with one step more.
    """

    position: int
    headers: tuple[Header, ...]
    transcripts: tuple[Transcript, ...]
    traces: tuple[Trace, ...]
    passages: tuple[Passage, ...] = ()


MEMORY_PER_BYTE: Final = 6
"""Most bytes of memory that `unpack_document` takes for each byte of a document (`frames`)."""

ValueT = TypeVar("ValueT", History, Accusation, Inquiry, Transcript)


def pack_document(value: History | Accusation | Inquiry | Transcript) -> bytes:
    """Encode a document for sending and storing."""
    return msgspec.msgpack.encode(value)


def unpack_document(data: bytes, kind: type[ValueT]) -> ValueT:
    """Parse only the frame, in at most `MEMORY_PER_BYTE` times the memory of `data`.

    Raises:
        MalformedDocumentError: the bytes are not what `pack_document` writes, or have too many
            values for their length (`check_frame`).
    """
    what = kind.__name__.lower()
    try:
        check_frame(data)
        document = msgspec.msgpack.decode(data, type=kind)
    except (MalformedDocumentError, msgspec.DecodeError, ValueError, RecursionError) as error:
        raise MalformedDocumentError(f"malformed {what} of a verified round: {error}") from error
    if (
        pack_document(document) != data
    ):  # one way to write it: nothing can be hidden in fields that no one reads
        raise MalformedDocumentError(
            f"the {what} of a verified round is not in its canonical encoding"
        )
    return document


def most_bytes(manifest: Manifest) -> int:
    """Upper bound of the length, in bytes, of a history under this manifest."""
    # Each record that may be accused is traced to its claim, and forward again.
    return (
        unblamed_bytes(manifest) + 2 * (manifest.geometry.hops + 1) * most_accused(manifest) * _STEP
    )


def unblamed_bytes(manifest: Manifest) -> int:
    """Upper bound of the length, in bytes, of a history without an accusation."""
    geometry = manifest.geometry
    claims = manifest.max_reports * (geometry.claim_bytes + 16)
    if geometry.dummies_per_node:
        claims += geometry.hops * (geometry.dummies_claim_bytes + 16)
    return MAX_WITHDRAWALS_BYTES + claims + (geometry.hops + 1) * _FRAME


def most_read(manifest: Manifest, memory: int) -> int:
    """Most bytes of a history or inquiry that a party with `memory` bytes of memory reads.

    The manifest alone would allow an accusation of all users but `min_reports`, which can exceed
    any machine's memory. A sender could announce such a length without having the data, and crash
    this party's process with all its other rounds.
    """
    return min(most_bytes(manifest), max(memory // MEMORY_PER_BYTE, unblamed_bytes(manifest)))


def check_readable(manifest: Manifest, length: int, memory: int, setting: str) -> None:
    """Refuse a history that is longer than this party can read.

    `setting` is the configuration key that its operator can raise.

    Raises:
        PolicyRefusal: the history has more bytes than `most_read` allows, although the manifest
            allows them (`most_bytes`).
    """
    most = most_read(manifest, memory)
    if most < length <= most_bytes(manifest):
        raise PolicyRefusal(
            f"with its accusations the history before a batch may have {length:,} bytes, but "
            f"only {most:,} may be read here: raise `{setting}`, or plan for fewer reports above "
            "`min_reports`"
        )


def most_accused(manifest: Manifest) -> int:
    """Most records that a party accuses: those of one user more than may be excluded.

    Accusing more of them would not change the outcome: too few users would remain.
    """
    return (manifest.max_reports - manifest.min_reports + 1) * manifest.geometry.messages_per_user


def check_history(
    history: History, manifest: Manifest, terms: MixTerms, population: Population, key: MixingKey
) -> ClaimList:
    """Check everything on which a history's list of claims rests, L1 to L4; `key` is node 1's.

    Data that may have been damaged in transit is checked first, and its errors name no party.

    Raises:
        BadListError, BadClaimError: as `check_list`.
        UnansweredError: as `check_list`; or there are too many claims, or other enrolments than
            node 1 signed.
        DocumentError: the list of withdrawn credentials is not the one that the round uses.
    """
    users, of_nodes = history.split_claims(manifest.geometry)
    if len(users) > terms.max_reports:
        raise UnansweredError(
            f"no answer: the history has {len(users)} claims, but the round allows at most "
            f"{terms.max_reports}: their senders are unknown"
        )
    withdrawn = read_withdrawals(history.withdrawals, population, key)
    claims = [unpack_claim(manifest.geometry, packed) for packed in users]
    dummies = [unpack_dummies_claim(manifest.geometry, packed) for packed in of_nodes]
    terms.require_signed(1, signed_enrolments(terms, claims), history.enrolment_signature)
    enrolment = Enrolment(population, manifest.closes_at, withdrawn)
    return check_claims(terms, claims, dummies, enrolment, history.list_signature)


def check_claims(
    terms: MixTerms,
    claims: Sequence[EnrolledClaim],
    dummies: Sequence[Claim],
    enrolment: Enrolment,
    signature: bytes,
) -> ClaimList:
    """Check and return the list of these claims: users' first, then those of nodes' dummies."""
    listed = [*(enrolled.claim for enrolled in claims), *dummies]
    return check_list(terms, listed, enrolment.of(claims), signature)


def check_published(
    history: History,
    manifest: Manifest,
    terms: MixTerms,
    population: Population,
    key: MixingKey,
    board: bytes,
) -> Chain:
    """Check a published board from published documents alone, P3; return its chain.

    Runs `check_history`, then the steps of `check_board`.

    Raises:
        The errors are those of `check_history` and `check_board`, and name the party at fault.
    """
    checked = check_history(history, manifest, terms, population, key)
    width = manifest.geometry.plain_bytes
    messages = [board[start : start + width] for start in range(0, len(board), width)]
    return check_board(
        terms, checked, history.headers, history.transcripts, messages, history.board_signature
    )

"""State machine of one round at one node, as an immutable record. Pure; `store` keeps it on disk.

Legal orders of calls:

    PREPARED --open--> OPEN --close (entry) or receive (others)--> MIXING
    MIXING --finish_mixing--> RELAYING --begin_forwarding--> RELAYING --finish_relaying--> DONE
    PREPARED, OPEN, MIXING or RELAYING --fail--> FAILED

Every call returns a new record; an illegal one raises `RoundStateError` and changes nothing.
`forwarded` turns true before the first byte can leave the node and never turns back: a signed
discard depends on it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NoReturn

import msgspec

from shuffledp_core.documents.digests import document_digest
from shuffledp_core.documents.models import BatchHeader, Certificate, RoundKey
from shuffledp_core.documents.signed import Signed, from_json
from shuffledp_core.errors import (
    RoundFailed,
    RoundStateError,
    ShuffleDPError,
    TooFewReportsError,
    by_code,
)


class Phase(StrEnum):
    """Phase of a round at this node."""

    PREPARED = "prepared"
    OPEN = "open"
    MIXING = "mixing"
    RELAYING = "relaying"
    DONE = "done"
    FAILED = "failed"


ENDED: Final = frozenset({Phase.DONE, Phase.FAILED})
"""Phases in which this node's part is over and its round key is erased."""

KEYLESS: Final = frozenset({Phase.RELAYING, *ENDED})
"""Phases in which the round key is no longer needed, and is erased."""

MIXING_ATTEMPTS: Final = 3
"""Attempts at mixing: a round survives killed processes, but not if it kills them every time."""

ENTRY: Final = 1
"""Position of the node that takes submissions."""


class RoundRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """State of a round at a node, without its private key and its bulk data.

    `accepted` is the number of reports (users) once it is final at this node; the `.._seconds` are
    durations of finished phases. `error` and `reason` are the class name and message of what failed
    the round.
    """

    round_id: str
    position: int
    certificate: Signed
    round_key: Signed
    phase: Phase = Phase.PREPARED
    manifest: Signed | None = None
    incoming: Signed | None = None
    outgoing: Signed | None = None
    accepted: int = 0
    forwarded: bool = False
    mixing_seconds: float = 0.0
    relaying_seconds: float = 0.0
    error: str | None = None
    reason: str | None = None

    def own_key(self) -> RoundKey:
        """The round key that this node signed itself."""
        return from_json(self.round_key.body, RoundKey)

    def plan(self) -> Certificate:
        """The certificate that was verified when the round was prepared."""
        return from_json(self.certificate.body, Certificate)

    @property
    def dropped_before(self) -> int:
        """Onions that the nodes before this one dropped.

        0 at the entry node, and before a batch has arrived.
        """
        return 0 if self.incoming is None else from_json(self.incoming.body, BatchHeader).dropped

    @property
    def answerable(self) -> bool:
        """True in a verified round until it is deleted: an accusation may need this node's step."""
        return self.phase is not Phase.FAILED and self.own_key().mixing is not msgspec.UNSET

    @property
    def keyless(self) -> bool:
        """True once the round key is no longer needed, and erased."""
        return self.phase in KEYLESS and not self.answerable

    @property
    def is_entry(self) -> bool:
        """True if this node takes the submissions."""
        return self.position == ENTRY

    @property
    def has_ended(self) -> bool:
        """True if this node's part in the round is over."""
        return self.phase in ENDED

    def require_same_preparation(self, certificate: Signed, position: int, suite: str) -> None:
        """Raise `RoundStateError` unless the round was prepared with exactly these arguments."""
        same = document_digest(certificate) == document_digest(self.certificate)
        if not (same and position == self.position and suite == self.own_key().suite):
            raise RoundStateError(
                f"round {self.round_id} was already prepared on this node with another "
                "certificate, position or suite; delete it and open a new round"
            )

    def open(self, manifest: Signed) -> RoundRecord:
        """Return the record of a round whose manifest is verified and countersigned."""
        self._require(Phase.PREPARED, "take a manifest")
        return msgspec.structs.replace(self, phase=Phase.OPEN, manifest=manifest)

    def close(self, accepted: int, min_reports: int) -> RoundRecord:
        """Return the entry node's record of a round whose submissions are closed.

        Raises `TooFewReportsError` if fewer than `min_reports` were accepted.
        """
        self._require(Phase.OPEN, "close")
        if not self.is_entry:
            raise RoundStateError(
                "only the entry node can close submissions, and this node is at position "
                f"{self.position}"
            )
        # The certificate was computed for no fewer: a smaller crowd hides each report less.
        if accepted < min_reports:
            raise TooFewReportsError(
                f"{accepted} reports arrived, but the round needs {min_reports}; nothing was "
                "forwarded: ask for fewer reports, or stay open for longer"
            )
        return msgspec.structs.replace(self, phase=Phase.MIXING, accepted=accepted)

    def receive(self, header: Signed, users: int) -> RoundRecord:
        """Return the record of node 2..L once the batch is verified and on disk."""
        self._require(Phase.OPEN, "take a batch")
        if self.is_entry:
            raise RoundStateError(
                "this node is the round's entry: it takes submissions, not batches"
            )
        return msgspec.structs.replace(self, phase=Phase.MIXING, incoming=header, accepted=users)

    def finish_mixing(self, header: Signed, seconds: float) -> RoundRecord:
        """Return the record once the permuted batch is on disk and this header commits to it."""
        self._require(Phase.MIXING, "commit a mixed batch")
        return msgspec.structs.replace(
            self, phase=Phase.RELAYING, outgoing=header, mixing_seconds=seconds
        )

    def begin_forwarding(self) -> RoundRecord:
        """Return the record of a round whose bytes may have begun to leave the node."""
        self._require(Phase.RELAYING, "forward")
        return msgspec.structs.replace(self, forwarded=True)

    def finish_relaying(self, seconds: float) -> RoundRecord:
        """Return the record once the next hop has the batch."""
        self._require(Phase.RELAYING, "finish")
        if not self.forwarded:
            raise ValueError(
                "finish_relaying() needs begin_forwarding() first, or a discard would deny what "
                "was sent"
            )
        return msgspec.structs.replace(self, phase=Phase.DONE, relaying_seconds=seconds)

    def fail(self, error: ShuffleDPError) -> RoundRecord:
        """Return the record of a round that ends here without (further) relaying."""
        if self.has_ended:
            raise RoundStateError(f"round {self.round_id} has already ended ({self.phase})")
        return msgspec.structs.replace(
            self, phase=Phase.FAILED, error=type(error).__name__, reason=str(error)
        )

    def raise_failure(self) -> NoReturn:
        """Raise the error that failed the round, as an instance of its original class."""
        kind = by_code(self.error or RoundFailed.__name__)
        raise kind(self.reason or f"round {self.round_id} failed here")

    def _require(self, phase: Phase, what: str) -> None:
        if self.phase is not phase:
            detail = f": {self.reason}" if self.reason else ""
            raise RoundStateError(
                f"round {self.round_id} is {self.phase}{detail}; it cannot {what} now"
            )

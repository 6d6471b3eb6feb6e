"""Entries of the public log of a privacy ledger."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from shuffledp_core.documents.models import EndedLog, HexKey, Roster
from shuffledp_core.documents.signed import Signed, from_json, to_json
from shuffledp_core.errors import MalformedDocumentError
from shuffledp_core.transparency.notes import NoteKey
from shuffledp_core.transparency.tiles import MAX_ENTRY_BYTES

_PREFIX: Final = "shuffledp-ledger/"


class LedgerEvent(StrEnum):
    """Kind of entry: a change of a round's charge, or the signing of its result."""

    RESERVED = "reserved"
    SETTLED = "settled"
    RELEASED = "released"
    RESTORED = "restored"
    PUBLISHED = "published"


class LedgerLogEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One change of a ledger, or the result of a round.

    Attributes:
        event: the kind of change.
        population: the population whose account changed.
        round_id: the round whose charge changed.
        documents: the signed documents behind the change, as they travel: the plan certificate of a
            reservation, the final certificate of a settlement, the nodes' discards of a release;
            of a charge that was made again after a restore, its plan certificate and perhaps its
            final one.
        position: position of a charge that was made again: its number in the account, which may be
            another than its certificates state.
        digest: digest of a published result, as `document_digest` has it: a result itself holds
            values.
    """

    event: LedgerEvent
    population: str
    round_id: str
    documents: tuple[str, ...]
    position: int | msgspec.UnsetType = msgspec.UNSET
    digest: HexKey | msgspec.UnsetType = msgspec.UNSET

    def to_bytes(self) -> bytes:
        """The entry as the log holds it.

        Raises:
            ValueError: the entry is longer than a log can hold.
        """
        data = to_json(self)
        if len(data) > MAX_ENTRY_BYTES:
            raise ValueError(
                f"the log entry of round {self.round_id} has {len(data):,} bytes, more than the "
                f"{MAX_ENTRY_BYTES:,} that an entry may have"
            )
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> LedgerLogEntry:
        """Parses an entry; nothing in it is trusted before its documents are verified.

        Raises:
            MalformedDocumentError: the bytes are not an entry, or not in its canonical encoding.
        """
        entry = from_json(data, cls)
        if to_json(entry) != data:
            raise MalformedDocumentError("a log entry is not in its canonical encoding")
        return entry


def reservation_entry(population: str, round_id: str, certificate: Signed) -> LedgerLogEntry:
    """The entry of a round's reservation, which its plan certificate determines."""
    return LedgerLogEntry(
        event=LedgerEvent.RESERVED,
        population=population,
        round_id=round_id,
        documents=(certificate.to_bytes().decode(),),
    )


def result_entry(population: str, round_id: str, digest: str) -> LedgerLogEntry:
    """The entry of a round's result, which the digest of the signed result determines."""
    return LedgerLogEntry(
        event=LedgerEvent.PUBLISHED,
        population=population,
        round_id=round_id,
        documents=(),
        digest=digest,
    )


def ledger_log_key(deployment: str, public_key: bytes, ended: int = 0) -> NoteKey:
    """The key that signs the public log of a deployment's ledger, the next after `ended` logs.

    It is the accountant's; its name is the origin of the log. No other statement that this key
    signs begins with this name.
    """
    suffix = f"/{ended + 1}" if ended else ""
    return NoteKey(f"{_PREFIX}{deployment}{suffix}", public_key)


def log_key_of(roster: Roster) -> NoteKey:
    """The key that signs the current log of a roster's deployment."""
    return log_keys_of(roster)[-1]


def log_keys_of(roster: Roster) -> tuple[NoteKey, ...]:
    """The keys of all public logs of a roster's deployment: the ended ones and the current one.

    Their order is that of `LogTerms.ended`.
    """
    present = roster.accountant.identity_key
    ended = roster.log_terms.ended if roster.log_terms else ()
    signers = (*(_signer_of(log, present) for log in ended), present)
    return tuple(
        ledger_log_key(roster.deployment, bytes.fromhex(signer), number)
        for number, signer in enumerate(signers)
    )


def _signer_of(log: EndedLog, present: str) -> str:
    return log.public_key if isinstance(log.public_key, str) else present

"""The highest signed ledger position that this node has seen, by population: ledgers only grow.

A ledger that is restored from a backup has forgotten the rounds charged since, and would let the
population spend their budget again. The accountant cannot notice; the nodes that took part in those
rounds can. docs/protocol.md, "PrepareRound", step 7.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from shuffledp_core.documents.models import Certificate, Roster
from shuffledp_core.errors import ConfigError, LedgerBehindError
from shuffledp_core.runtime.files import write_atomic

CONCURRENT_MILLISECONDS: Final = 5_000
"""A certificate with a lower position counts as issued at the same time as the one with the highest
if it was issued at most this long after it.
"""


class SeenPosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The highest position seen of a population, and whether its ledger was behind it later."""

    entry: int
    round_id: str
    issued_at: int
    behind: bool = False


class LedgerWatch:
    """Positions of all populations of the roster, kept in one file of the node's state folder."""

    def __init__(self, path: Path, roster: Roster) -> None:
        """Read the file, if it exists. Raises `ConfigError` if it is damaged."""
        self._path = path
        self._roster = roster
        try:
            self._seen = msgspec.json.decode(path.read_bytes(), type=dict[str, SeenPosition])
        except FileNotFoundError:
            self._seen = {}
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(
                f"{path} cannot be read: {error}; without it this node would not notice that a "
                "ledger was set back. Remove the file only if you know that the accountant's "
                "ledger was never restored from a backup"
            ) from error

    def admit(self, certificate: Certificate) -> None:
        """Record on disk the position of a verified plan certificate, or refuse one that is behind.

        1. The population is one of the roster, so that the file stays small.
        2. A ledger that was found behind is accepted again once it is reconciled up to the highest
           position seen.
        3. A higher position is accepted, and becomes the highest seen.
        4. A lower one is accepted for a round that was certified at the same time, and for the same
           round as before.

        Raises:
            ForeignDocumentError: step 1.
            LedgerBehindError: none of steps 2 to 4 accepts the position. This is recorded, so that
                higher positions are refused, too, until the ledger is reconciled.
        """
        self._roster.population(certificate.population)  # 1
        seen = self._seen.get(certificate.population)
        position = certificate.ledger
        here = SeenPosition(
            entry=position.entry, round_id=certificate.round_id, issued_at=certificate.issued_at
        )
        if seen is None:
            self._record(certificate.population, here)
            return
        reconciled = 0 if position.reconciled is UNSET else position.reconciled
        higher = position.entry > seen.entry
        if higher and (not seen.behind or reconciled >= seen.entry):  # 2, 3
            self._record(certificate.population, here)
            return
        if not seen.behind and _concurrent(here, seen):  # 4
            return
        if not seen.behind:
            self._record(certificate.population, msgspec.structs.replace(seen, behind=True))
        raise LedgerBehindError(
            f"the ledger of population {certificate.population!r} has lost charges: round "
            f"{certificate.round_id} is its entry {position.entry}, but this node has already "
            f"seen entry {seen.entry}, of round {seen.round_id}. The ledger was restored from a "
            "backup: charge the lost rounds with `shuffledp ledger restore`, then open a new "
            "round"
        )

    def _record(self, population: str, position: SeenPosition) -> None:
        seen = self._seen | {population: position}
        write_atomic(self._path, msgspec.json.encode(seen))
        self._seen = seen


def _concurrent(here: SeenPosition, seen: SeenPosition) -> bool:
    if here.entry == seen.entry:
        return here.round_id == seen.round_id
    return here.issued_at <= seen.issued_at + CONCURRENT_MILLISECONDS

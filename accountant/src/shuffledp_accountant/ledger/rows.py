"""Rows of the ledger's tables: charges and log entries, checked as strictly as documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from sqlalchemy import Connection, RowMapping, func, insert, select

from shuffledp_accountant.ledger.charges import (
    Charge,
    ChargeState,
    Reservation,
)
from shuffledp_accountant.ledger.schema import charges, log_entries
from shuffledp_core.documents.models import HexKey
from shuffledp_core.documents.signed import decode_value, to_json
from shuffledp_core.errors import LedgerError, UsageError
from shuffledp_core.mechanisms import Mechanism
from shuffledp_core.privacy import Adjacency
from shuffledp_core.transparency.entries import LedgerEvent, LedgerLogEntry
from shuffledp_core.transparency.tree import leaf_hash
from shuffledp_privacy.analysis import Cost
from shuffledp_privacy.bounds import Setting

_SPEC: Final[Any] = Mechanism

COST_COLUMNS: Final = (
    charges.c.mechanism,
    charges.c.users,
    charges.c.honest,
    charges.c.adjacency,
    charges.c.max_distance,
    charges.c.delta,
)
"""Columns that make a charge's cost."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Summary of a charge, for a page of the account."""

    entry: int
    round_id: str
    state: ChargeState
    cost: Cost
    epsilon: float


def append_to_log(db: Connection, entries: Sequence[bytes]) -> None:
    """Append entries to the public log in the caller's transaction."""
    last = db.execute(select(func.max(log_entries.c.number))).scalar()
    size = 0 if last is None else int(last) + 1
    rows = [
        {"number": size + number, "leaf": leaf_hash(data), "data": data}
        for number, data in enumerate(entries)
    ]
    if rows:
        db.execute(insert(log_entries), rows)


def ledger_log_entry(
    event: LedgerEvent,
    population: str,
    round_id: str,
    *documents: bytes,
    position: int | msgspec.UnsetType = msgspec.UNSET,
) -> bytes:
    """The log entry of a change; raises `LedgerError` if it is too long for a log."""
    texts = tuple(document.decode() for document in documents)
    try:
        return LedgerLogEntry(
            event=event,
            population=population,
            round_id=round_id,
            documents=texts,
            position=position,
        ).to_bytes()
    except ValueError as error:
        raise LedgerError(f"this change cannot be logged: {error}; nothing was changed") from error


def restored_log_entry(charge: Charge) -> bytes:
    """The log entry of a charge that is made or settled again after a restore."""
    final = () if charge.final_certificate is None else (charge.final_certificate,)
    return ledger_log_entry(
        LedgerEvent.RESTORED,
        charge.population,
        charge.round_id,
        charge.plan_certificate,
        *final,
        position=charge.entry,
    )


def row_of_reservation(
    reservation: Reservation, entry: int, certificate: bytes, now: int
) -> dict[str, object]:
    """The row of a new reservation."""
    return {
        "round_id": reservation.round_id,
        "population": reservation.population,
        "entry": entry,
        "state": ChargeState.RESERVED.value,
        "plan": reservation.plan,
        "plan_certificate": certificate,
        "reserved_at": now,
        "changed_at": now,
        **cost_columns(reservation.cost, reservation.epsilon),
    }


def row_of_charge(charge: Charge) -> dict[str, object]:
    """The row of an existing charge."""
    return {
        "round_id": charge.round_id,
        "population": charge.population,
        "entry": charge.entry,
        "state": charge.state.value,
        "plan": charge.plan,
        "plan_certificate": charge.plan_certificate,
        "accepted": charge.accepted,
        "final_certificate": charge.final_certificate,
        "reserved_at": charge.reserved_at,
        "changed_at": charge.changed_at,
        **cost_columns(charge.cost, charge.epsilon),
    }


def cost_columns(cost: Cost, epsilon: float) -> dict[str, object]:
    """The columns of a charge's cost and ε; null for an infinite ε."""
    if cost.setting.max_distance is None:
        raise ValueError(
            "a charge must state the largest distance that it covers; `certificates` fills it in"
        )
    return {
        "mechanism": to_json(cost.mechanism).decode(),
        "users": cost.setting.users,
        "honest": cost.setting.honest,
        "adjacency": cost.setting.adjacency.value,
        "max_distance": cost.setting.max_distance,
        "delta": cost.delta,
        # As in certificates, whose JSON has no infinity, null says that there is no bound.
        "epsilon": epsilon if math.isfinite(epsilon) else None,
    }


class _CostRow(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a cost, checked as strictly as a signed document: SQLite accepts any type."""

    mechanism: str
    users: int
    honest: int
    adjacency: Adjacency
    max_distance: int
    delta: Annotated[float, msgspec.Meta(ge=0, lt=1)]


class _Row(_CostRow, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A row of `charges`."""

    round_id: str
    population: str
    entry: Annotated[int, msgspec.Meta(ge=1)]
    state: ChargeState
    plan: str
    epsilon: Annotated[float, msgspec.Meta(ge=0)] | None
    plan_certificate: bytes
    accepted: Annotated[int, msgspec.Meta(ge=1)] | None
    final_certificate: bytes | None
    reserved_at: int
    changed_at: int
    result_digest: HexKey | None


def _number(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon


def _damage(what: str, error: Exception) -> LedgerError:
    return LedgerError(f"the entry of {what} is damaged: {error}; restore a backup")


_BROKEN: Final = (msgspec.MsgspecError, ValueError, TypeError, UsageError)


def read_cost(row: RowMapping) -> Cost:
    """Read the cost of a row; raise `LedgerError` if this software cannot have written it."""
    try:
        return _as_cost(msgspec.convert({str(key): value for key, value in row.items()}, _CostRow))
    except _BROKEN as error:
        raise _damage(f"a round of {row['users']} users", error) from error


def _as_cost(row: _CostRow) -> Cost:
    mechanism: Mechanism = msgspec.json.decode(row.mechanism, type=_SPEC, dec_hook=decode_value)
    return Cost(
        mechanism, Setting(row.users, row.honest, row.adjacency, row.max_distance), row.delta
    )


def read_entry(row: RowMapping) -> LedgerEntry:
    """Read the summary of a charge; raise `LedgerError` if this software cannot have written it."""
    try:
        state = ChargeState(row["state"])
    except ValueError as error:
        raise _damage(f"round {row['round_id']!r}", error) from error
    return LedgerEntry(
        row["entry"], row["round_id"], state, read_cost(row), _number(row["epsilon"])
    )


def read_charge(row: RowMapping) -> Charge:
    """Read a stored charge; raise `LedgerError` if this software cannot have written the row."""
    try:
        entry = msgspec.convert({str(key): value for key, value in row.items()}, _Row)
        cost = _as_cost(entry)
    except _BROKEN as error:
        raise _damage(f"round {row['round_id']!r}", error) from error
    return Charge(
        round_id=entry.round_id,
        population=entry.population,
        entry=entry.entry,
        state=entry.state,
        plan=entry.plan,
        cost=cost,
        epsilon=_number(entry.epsilon),
        plan_certificate=entry.plan_certificate,
        accepted=entry.accepted,
        final_certificate=entry.final_certificate,
        reserved_at=entry.reserved_at,
        changed_at=entry.changed_at,
        result_digest=entry.result_digest,
    )

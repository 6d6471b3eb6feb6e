"""Lab 10, Spend it once: a reference solution."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any


def compose(rounds: tuple[float, ...], delta: float) -> float:
    """The smaller of two bounds: the sum of the ε, and the mean loss with Hoeffding's tail."""
    total = math.fsum(rounds)
    if delta <= 0:
        return total
    mean = math.fsum(epsilon * math.tanh(epsilon / 2) for epsilon in rounds)
    tail = math.sqrt(2 * math.log(1 / delta) * math.fsum(epsilon**2 for epsilon in rounds))
    return min(total, mean + tail)


class BudgetLedger:
    """A ledger in SQLite; every change holds the file's lock from first read to commit."""

    def __init__(self, file: str, budget: int) -> None:
        """Open the ledger's file, or create it."""
        self._file = file
        self._budget = budget
        with closing(self._open()) as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS rounds (id TEXT PRIMARY KEY, cost INTEGER NOT NULL, "
                "state TEXT NOT NULL, certificate BLOB NOT NULL)"
            )

    def reserve(self, round_id: str, cost: int, sign: Callable[[int], bytes]) -> bytes:
        """Sign while the lock is held; store charge and certificate in one transaction."""

        def change(database: sqlite3.Connection) -> bytes:
            row = database.execute(
                "SELECT cost, state, certificate FROM rounds WHERE id = ?", (round_id,)
            ).fetchone()
            if row is not None:
                if row[0] != cost or row[1] == "released":
                    raise ValueError("this round is known at another cost, or was released")
                return bytes(row[2])
            total = _sum_spent(database) + cost
            if total > self._budget:
                raise ValueError("the budget does not cover it")
            certificate = sign(total)
            database.execute(
                "INSERT INTO rounds VALUES (?, ?, 'reserved', ?)", (round_id, cost, certificate)
            )
            return certificate

        certificate: bytes = self._run_change(change)
        return certificate

    def settle(self, round_id: str) -> None:
        """Make the round's charge permanent."""
        self._run_change(lambda database: _end(database, round_id, "settled"))

    def release(self, round_id: str) -> None:
        """Give the round's charge back."""
        self._run_change(lambda database: _end(database, round_id, "released"))

    def total_spent(self) -> int:
        """Total cost of the reserved and settled rounds."""
        with closing(self._open()) as database:
            return _sum_spent(database)

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file, timeout=10, isolation_level=None)
        database.execute("PRAGMA synchronous = FULL")
        return database

    def _run_change(self, change: Callable[[sqlite3.Connection], Any]) -> Any:
        with closing(self._open()) as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                result = change(database)
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
            return result


def _sum_spent(database: sqlite3.Connection) -> int:
    (total,) = database.execute(
        "SELECT COALESCE(SUM(cost), 0) FROM rounds WHERE state != 'released'"
    ).fetchone()
    return int(total)


def _end(database: sqlite3.Connection, round_id: str, state: str) -> None:
    row = database.execute("SELECT state FROM rounds WHERE id = ?", (round_id,)).fetchone()
    if row is None or row[0] not in {"reserved", state}:
        raise ValueError(f"this round is unknown, or has ended in another way than {state}")
    database.execute("UPDATE rounds SET state = ? WHERE id = ?", (state, round_id))


def judge(
    budget: float,
    reserve: Callable[[str], tuple[str, Any]],
    both: Callable[[str, str], tuple[tuple[str, Any], tuple[str, Any]]],
    settle: Callable[[str], tuple[str, Any]],
    release: Callable[[str], tuple[str, Any]],
    spent: Callable[[], float],
) -> str:
    """Run one experiment for each fault, in an order in which none disturbs the next."""
    first = reserve("settled")
    before = spent()
    if reserve("settled") != first or spent() > before:
        return "charges twice"
    settle("settled")
    if release("settled")[0] == "done" or spent() < before:
        return "refunds"
    last, day = "", 0
    while reserve(f"day {day}")[0] == "certificate":
        last, day = f"day {day}", day + 1
    if spent() > budget:
        return "overspends"
    # One place becomes free, and two ask for it.
    release(last)
    if [kind for kind, _ in both("left", "right")].count("certificate") > 1:
        return "races"
    return "sound"

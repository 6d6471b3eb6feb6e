"""Lab 10 solved in another way: it signs outside of transactions, and compares a revision.

Not a test itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any


class BudgetLedger:
    """As the product's ledger: a change commits only if nothing else has changed since it was
    computed."""

    def __init__(self, file: str, budget: int) -> None:
        """One connection for ever."""
        self.budget = budget
        self.db = sqlite3.connect(file, isolation_level=None, timeout=20)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS rounds (id TEXT PRIMARY KEY, cost INT, state TEXT, seal "
            "BLOB)"
        )
        self.db.execute("CREATE TABLE IF NOT EXISTS version (one INT PRIMARY KEY, revision INT)")
        self.db.execute("INSERT OR IGNORE INTO version VALUES (1, 0)")

    def look(self, round_id: str) -> tuple[int, tuple[int, str, bytes] | None, int]:
        """A snapshot: revision, round, total."""
        self.db.execute("BEGIN")
        (revision,) = self.db.execute("SELECT revision FROM version").fetchone()
        known = self.db.execute(
            "SELECT cost, state, seal FROM rounds WHERE id = ?", (round_id,)
        ).fetchone()
        (total,) = self.db.execute(
            "SELECT COALESCE(SUM(cost), 0) FROM rounds WHERE state != 'released'"
        ).fetchone()
        self.db.execute("COMMIT")
        return revision, known, total

    def swap(self, revision: int, change: str, values: tuple[Any, ...]) -> bool:
        """Commits the change if the revision is still this one."""
        self.db.execute("BEGIN IMMEDIATE")
        same = self.db.execute(
            "UPDATE version SET revision = revision + 1 WHERE revision = ?", (revision,)
        ).rowcount
        if same:
            self.db.execute(change, values)
        self.db.execute("COMMIT")
        return bool(same)

    def reserve(self, round_id: str, cost: int, sign: Callable[[int], bytes]) -> bytes:
        """Signs anew until nothing has come in between."""
        while True:
            revision, known, total = self.look(round_id)
            if known:
                if known[0] != cost or known[1] == "released":
                    raise ValueError("known otherwise")
                return known[2]
            if total + cost > self.budget:
                raise ValueError("too much")
            seal = sign(total + cost)
            if self.swap(
                revision, "INSERT INTO rounds VALUES (?, ?, 'reserved', ?)", (round_id, cost, seal)
            ):
                return seal

    def end(self, round_id: str, state: str) -> None:
        """Settles or releases."""
        while True:
            revision, known, _ = self.look(round_id)
            if not known or known[1] not in {"reserved", state}:
                raise ValueError("not to be ended so")
            if self.swap(revision, "UPDATE rounds SET state = ? WHERE id = ?", (state, round_id)):
                return

    def settle(self, round_id: str) -> None:
        """For ever."""
        self.end(round_id, "settled")

    def release(self, round_id: str) -> None:
        """Given back."""
        self.end(round_id, "released")

    def total_spent(self) -> int:
        """The total."""
        return self.look("")[2]


def judge(
    budget: float,
    reserve: Callable[[str], tuple[str, Any]],
    both: Callable[[str, str], object],
    settle: Callable[[str], tuple[str, Any]],
    release: Callable[[str], tuple[str, Any]],
    spent: Callable[[], float],
) -> str:
    """Looks at what is spent, and at nothing else."""
    reserve("a")
    once = spent()
    reserve("a")
    if spent() > once:
        return "charges twice"
    settle("a")
    release("a")
    if spent() < once:
        return "refunds"
    number = 0
    while reserve(f"{number}")[0] == "certificate":
        number += 1
    if spent() > budget:
        return "overspends"
    both("left", "right")
    return "races" if spent() > budget else "sound"

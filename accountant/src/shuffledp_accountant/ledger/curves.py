"""Privacy curves stored in the ledger's database, so that a restart need not recompute them."""

from __future__ import annotations

from sqlalchemy import Engine, delete, insert, select

from shuffledp_accountant.ledger.database import failures
from shuffledp_accountant.ledger.schema import curves
from shuffledp_core.errors import LedgerError
from shuffledp_core.runtime.clock import Clock
from shuffledp_privacy.tabulated import MOST_KEPT, TABLES, fingerprint


class StoredCurves:
    """Storage of this process's curves, `tabulated.TABLES`, in a ledger's database."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._keys: set[str] = set()

    def load(self) -> None:
        """Load the curves that this version of the software stored.

        Curves of other versions are deleted.
        """
        ours = curves.c.software == fingerprint()
        newest = (
            select(curves.c.key, curves.c.points)
            .where(ours)
            .order_by(curves.c.made_at.desc())
            .limit(MOST_KEPT)
        )
        with failures(), self._engine.begin() as db:
            # What other code computed is not what this code would certify: it only takes room.
            db.execute(delete(curves).where(~ours))
            rows = [(str(key), bytes(points)) for key, points in db.execute(newest)]
        self._keys = {key for key, _ in rows}
        # Oldest first, because the oldest are dropped first.
        TABLES.learn(reversed(rows))

    def store(self) -> None:
        """Stores new curves, so that a restart need not compute them.

        A failure is left to the next change.
        """
        new = TABLES.dump(self._keys)
        if not new:
            return
        try:
            with failures(), self._engine.begin() as db:
                # Another process on the same database may have stored some of them meanwhile.
                stored = set(
                    db.execute(
                        select(curves.c.key).where(curves.c.software == fingerprint())
                    ).scalars()
                )
                origin = {"software": fingerprint(), "made_at": self._clock()}
                rows = [
                    {"key": key, "points": points, **origin}
                    for key, points in new.items()
                    if key not in stored
                ]
                if rows:
                    db.execute(insert(curves), rows)
        except LedgerError:
            return
        self._keys.update(new)

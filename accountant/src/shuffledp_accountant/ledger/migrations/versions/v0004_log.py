"""Adds the public log; an existing ledger gets an entry for each change that it shows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from shuffledp_core.transparency.entries import LedgerEvent, LedgerLogEntry
from shuffledp_core.transparency.tree import leaf_hash

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_charges = sa.table(
    "charges",
    sa.column("round_id"),
    sa.column("population"),
    sa.column("entry"),
    sa.column("state"),
    sa.column("plan_certificate"),
    sa.column("final_certificate"),
    sa.column("reserved_at"),
    sa.column("changed_at"),
)


def upgrade() -> None:
    """Create the table, and fill it with the ledger's changes in the order of time."""
    log = op.create_table(
        "log_entries",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("leaf", sa.LargeBinary, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    rows = op.get_bind().execute(sa.select(_charges)).mappings().all()
    changes = sorted(change for row in rows for change in _changes_of(row))
    entries = [entry for _, _, entry in changes]
    for number, data in enumerate(entries):
        row = {"number": number, "leaf": leaf_hash(data), "data": data}
        op.get_bind().execute(log.insert().values(row))


def _changes_of(row: sa.RowMapping) -> list[tuple[int, int, bytes]]:
    """Time, order and log entry of every change that a charge shows."""

    def entry(event: LedgerEvent, document: bytes | None) -> bytes:
        documents = () if document is None else (bytes(document).decode(),)
        return LedgerLogEntry(
            event=event,
            population=row["population"],
            round_id=row["round_id"],
            documents=documents,
        ).to_bytes()

    reserved = entry(LedgerEvent.RESERVED, row["plan_certificate"])
    changes = [(row["reserved_at"], row["entry"], reserved)]
    if row["state"] == "settled":
        settled = entry(LedgerEvent.SETTLED, row["final_certificate"])
        changes.append((max(row["changed_at"], row["reserved_at"] + 1), row["entry"], settled))
    if row["state"] == "released":
        released = entry(LedgerEvent.RELEASED, None)
        changes.append((max(row["changed_at"], row["reserved_at"] + 1), row["entry"], released))
    return changes


def downgrade() -> None:
    """Refuse, because an older version would leave changes out of the log."""
    raise NotImplementedError(
        "a ledger is never downgraded; restore the backup that was made before the upgrade"
    )

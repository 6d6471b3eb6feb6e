"""Adds the digest of a round's result, set once the result is in the public log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no existing result is in a log."""
    op.add_column("charges", sa.Column("result_digest", sa.String(64), nullable=True))


def downgrade() -> None:
    """Refuse, because an older version would misread the database."""
    raise NotImplementedError(
        "a ledger is never downgraded; restore the backup that was made before the upgrade"
    )

"""Adds stored curves, and an index over charges from which an account is computed.

Existing charges are not changed.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table and the index."""
    op.create_table(
        "curves",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("software", sa.String(64), primary_key=True),
        sa.Column("points", sa.LargeBinary, nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
    )
    op.create_index(
        "charges_cost",
        "charges",
        [
            "population",
            "state",
            "mechanism",
            "users",
            "honest",
            "adjacency",
            "max_distance",
            "delta",
        ],
    )


def downgrade() -> None:
    """Refuse, because an older version would misread the database."""
    raise NotImplementedError(
        "a ledger is never downgraded; restore the backup that was made before the upgrade"
    )

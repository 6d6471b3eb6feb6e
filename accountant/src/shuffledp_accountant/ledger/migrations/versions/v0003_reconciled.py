"""Adds the entry up to which a population's account was reconciled after a restore."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no existing ledger was reconciled."""
    op.add_column(
        "populations", sa.Column("reconciled", sa.BigInteger, nullable=False, server_default="0")
    )


def downgrade() -> None:
    """Refuse, because an older version would misread the database."""
    raise NotImplementedError(
        "a ledger is never downgraded; restore the backup that was made before the upgrade"
    )

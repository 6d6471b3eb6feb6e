"""The digest of a round's result, once the public log has it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column; no result so far is in a log."""
    op.add_column("charges", sa.Column("result_digest", sa.String(64), nullable=True))


def downgrade() -> None:
    """Refused, as for the charges: an older version would not know what it reads."""
    raise NotImplementedError(
        "a ledger is never downgraded; restore the backup that was made before the upgrade"
    )
